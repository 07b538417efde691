"""Private convex learning from the cost of one point a round: noise on the number that is seen, once."""

from __future__ import annotations

import math
import warnings
from collections import deque
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np

from ..bounds import convex as bounds
from ..constraints.domains import Domain
from ..core import checks
from ..core.progress import track
from ..objectives.losses import Losses
from ..privacy import Account, Event, LaplaceNoise, Seed, Share, SumSpec, VectorBounds, spend_from
from ..privacy.accountant import Spending
from ..privacy.published import PublishedCalibrationWarning, published_share
from .convex import PointLearner, PointSettings, Vector, checked_domain, claimed_budget, printed_noise
from .learner import CALIBRATIONS, Stream
from .total import CostTotal, PrivateTotal

ADVERSARIES = ("oblivious", "adaptive")
# How long a horizon is looked for that would be long enough.
_LONGEST = 1 << 80


@dataclass(frozen=True, kw_only=True)
class BanditLeaderSettings(PointSettings):
    """What a `BanditApproximateLeader` goes by.

    ``event`` is the noise on a batch's sum of costs, or on a node of the published tree of estimates.
    """

    neighbours: str
    lipschitz: float
    strong_convexity: float
    adversary: str
    low: float
    high: float
    batch: int
    exploration_radius: float
    regularization: float
    growing: float
    event: Event | None

    def __post_init__(self) -> None:
        cost_range((self.low, self.high))
        alone = self.calibration == "published" or self.adversary == "adaptive"
        checks.whole("batch", self.batch, at_least=1, at_most=1 if alone else self.rounds)
        radius = self.domain.inner_radius
        checks.real("exploration_radius", self.exploration_radius, above=0.0, below=radius)
        if not self.strong_convexity + self.regularization + self.growing > 0.0:
            raise ValueError("regularization, growing and strong_convexity are all 0")

    @classmethod
    def tight(
        cls,
        domain: Domain,
        rounds: int,
        share: Share,
        *,
        lipschitz: float,
        bound: float | tuple[float, float],
        strong_convexity: float = 0.0,
        adversary: str = "oblivious",
        batch: int | str = "auto",
        exploration_radius: float | str = "auto",
        regularization: float | str = "auto",
    ) -> BanditLeaderSettings:
        """What is given, and the rest tuned to the smallest certificate; too short a horizon is refused."""
        asked = _asked(domain, rounds, share, lipschitz, bound, strong_convexity, adversary)
        horizon, radius = asked["rounds"], domain.inner_radius
        size = None if batch == "auto" else checks.whole("batch", batch, at_least=1, at_most=horizon)
        if adversary == "adaptive" and size not in (None, 1):
            raise ValueError(f'batch={size} needs adversary="oblivious": who adapts knows a batch\'s point')
        near = _given("exploration_radius", exploration_radius, at_least=1e-100 * radius, below=radius)
        held = _given("regularization", regularization, at_least=0.0)
        if held is not None and held + asked["strong_convexity"] == 0.0:
            raise ValueError("regularization=0 needs costs with strong_convexity above 0; leave it at 'auto'")
        draft = cls(
            **asked,
            calibration="tight",
            batch=1,
            exploration_radius=radius / 2.0,
            regularization=1.0,
            growing=0.0,
            event=None,
        )
        draft = replace(draft, event=LaplaceNoise.within(share, draft.moves, definition=share.definition))
        tuned = draft._one_point(horizon, size, near, held)
        if not tuned.beta < radius:
            needed = draft._needed(size, held)
            raise ValueError(
                f"rounds={horizon} is too short: exploration radius {tuned.beta:.3g} does not fit into"
                f" the domain's inner_radius={radius:g}; that takes about rounds={needed:,}, or an"
                " exploration_radius= of your own"
            )
        return replace(
            draft, batch=tuned.batch, exploration_radius=tuned.beta, regularization=tuned.regularization
        )

    @classmethod
    def published(
        cls,
        domain: Domain,
        rounds: int,
        share: Share,
        *,
        lipschitz: float,
        bound: float | tuple[float, float],
        strong_convexity: float = 0.0,
        adversary: str = "oblivious",
    ) -> BanditLeaderSettings:
        """The constants of paper 004, Algorithm 3; a warning where the horizon is too short for them."""
        epsilon = claimed_budget(share).epsilon
        asked = _asked(domain, rounds, share, lipschitz, bound, strong_convexity, adversary)
        horizon, size = asked["rounds"], max(-asked["low"], asked["high"])
        power, radius = (3 if adversary == "oblivious" else 4), domain.inner_radius
        beta = domain.affine_dimension / horizon ** (1.0 / power)
        if beta >= radius:
            needed = math.floor((domain.affine_dimension / radius) ** power) + 1
            warnings.warn(
                f"rounds={horizon} is too short for the published exploration radius {beta:.3g}, which does"
                f" not fit into inner_radius={radius:g}; half of that is taken. It takes rounds={needed:,}.",
                PublishedCalibrationWarning,
                stacklevel=4,
            )
            beta = radius / 2.0
        growing = 0.0
        if asked["strong_convexity"] == 0.0:
            logs = math.log(max(horizon, 2)) ** 2.5
            unit = size / domain.outer_radius / horizon**0.25
            growing = unit * math.sqrt(domain.affine_dimension * logs / epsilon)
        found = cls(
            **(asked | {"low": -size, "high": size}),  # what the paper assumes
            calibration="published",
            batch=1,
            exploration_radius=beta,
            regularization=0.0,
            growing=growing,
            event=None,
        )
        assert found.spec is not None
        return replace(found, event=printed_noise(found.spec, share))

    # --- what follows ----------------------------------------------------------------------------

    @property
    def half(self) -> float:
        """Costs are counted from the middle of their range, so that nobody counts for more than this."""
        return (self.high - self.low) / 2.0 * (1.0 + 2.0**-50)

    @property
    def middle(self) -> float:
        """Where costs are counted from."""
        return (self.low + self.high) / 2.0

    @property
    def moves(self) -> float:
        """How far one person can move a sum of costs."""
        return self.half * (2.0 if self.neighbours == "replace" else 1.0)

    @property
    def steepness(self) -> float:
        """By what a cost is multiplied to make a gradient of it."""
        return self.domain.affine_dimension / self.exploration_radius

    @cached_property
    def inside(self) -> Domain:
        """The points around which there is room to explore."""
        return self.domain.shrunk(self.exploration_radius / self.domain.inner_radius)

    @property
    def releases(self) -> int:
        """Sums that are released: of batches, or the papers' tree, which is for all rounds."""
        return self.rounds if self.calibration == "published" else -(-self.rounds // self.batch) - 1

    @property
    def spec(self) -> SumSpec | None:
        """The published tree of gradient estimates; None where sums of costs leave instead."""
        if self.calibration != "published":
            return None
        norm = self.domain.affine_dimension * self.half / self.exploration_radius  # of the longest estimate
        return SumSpec(VectorBounds(self.domain.dimension, 2, norm), self.releases, "tree", "spherical")

    @property
    def certified_regret(self) -> float:
        """Bound on the expected regret for the declared adversary (see `bounds.convex.one_point`)."""
        spec, event, domain, rounds = self.spec, self.event, self.domain, self.rounds
        if spec is None:
            settings = (self.batch, self.exploration_radius, self.regularization)
            return self._one_point(rounds, *settings).regret
        assert event is not None
        norm, radius, width = spec.bounds.norm_bound, domain.outer_radius, self.high - self.low
        assert norm is not None
        regret = bounds.approximate_leader(
            rounds,
            norm,
            radius,
            domain.diameter,
            bounds.worst_noise(spec, event),
            self.strong_convexity,
            0.0,
            self.growing,
        )
        slope = 2.0 * self.lipschitz + min(width, self.lipschitz * radius) / domain.inner_radius
        regret += rounds * self.exploration_radius * slope
        if self.adversary == "adaptive":
            regret += radius * norm * math.sqrt(rounds)
        return min(regret, width * rounds, self.lipschitz * domain.diameter * rounds)

    def _one_point(
        self, rounds: int, batch: int | None, beta: float | None, regularization: float | None
    ) -> bounds.OnePoint:
        assert isinstance(self.event, LaplaceNoise)
        return bounds.one_point(
            rounds,
            self.domain.affine_dimension,
            self.lipschitz,
            self.domain.inner_radius,
            self.domain.outer_radius,
            self.high - self.low,
            float(self.event.scale),
            self.strong_convexity,
            adaptive=self.adversary == "adaptive",
            batch=batch,
            beta=beta,
            regularization=regularization,
        )

    def _needed(self, batch: int | None, regularization: float | None) -> int:
        """Rounds from which the tuned exploration radius fits into the domain, to two digits."""
        rounds = float(self.rounds)
        while rounds < _LONGEST:
            rounds *= 1.05
            if self._one_point(round(rounds), batch, None, regularization).beta < self.domain.inner_radius:
                break
        digits = max(0, len(str(round(rounds))) - 2)
        unit: int = 10**digits
        return math.ceil(rounds / unit) * unit


def cost_range(bound: float | tuple[float, float]) -> tuple[float, float]:
    """The range of costs from ``bound``: B for [-B, B], or (low, high)."""
    if isinstance(bound, tuple | list):
        if len(bound) != 2:
            raise ValueError(f"bound={checks.shown(bound)} must be a number or a pair (low, high)")
        low, high = checks.real("bound[0]", bound[0]), checks.real("bound[1]", bound[1])
        if not low < high:
            raise ValueError(f"bound={checks.shown(bound)} must have low < high")
        return low, high
    size = checks.real("bound", bound, above=0.0)
    return -size, size


def _asked(
    domain: Domain,
    rounds: int,
    share: Share,
    lipschitz: float,
    bound: float | tuple[float, float],
    strong_convexity: float,
    adversary: str,
) -> dict[str, Any]:
    """What is the same for all constants, checked."""
    checked_domain(domain).check()
    low, high = cost_range(bound)
    return {
        "rounds": checks.whole("rounds", rounds, at_least=1),
        "domain": domain,
        "neighbours": share.neighbours,
        "lipschitz": checks.real("lipschitz", lipschitz, above=0.0),
        "strong_convexity": checks.real("strong_convexity", strong_convexity, at_least=0.0),
        "adversary": checks.one_of("adversary", adversary, ADVERSARIES),
        "low": low,
        "high": high,
    }


def _given(name: str, value: float | str, **limits: Any) -> float | None:
    """A number within its limits; None for "auto"."""
    if isinstance(value, str):
        checks.one_of(name, value, ("auto",))
        return None
    return checks.real(name, value, **limits)


# The learner's own point, where it explores from there, and sums of estimates and of its own points.


class BanditApproximateLeader(PointLearner):
    """Follow the approximate leader when only the cost of the played point is seen, a number a round.

    The learner keeps a point w in the domain shrunk by beta / r, plays w + beta u in a random direction u,
    and takes (p / beta) y u for a gradient, y being the cost that was seen (Flaxman, Kalai and McMahan 2005;
    paper 004, Section 3). ``bound`` is the range of costs: B for [-B, B], or a pair (low, high).
    ``lipschitz`` and ``strong_convexity`` matter for tuning and certificate, not for privacy.

    Default: the number, not the gradient, is made private. Rounds come in batches that share one point; the
    batch's sum of costs leaves once, with Laplace noise, and everything else is made of these sums and public
    coins. A person is in one batch and moves its sum by at most the range of costs, so the whole stream of
    sums is epsilon-DP: nothing composes over rounds, no delta is needed, and the noise does not grow with
    p / beta. Noise that is independent of everything else keeps the gradient estimate unbiased, and a batch
    of about sqrt(8) / epsilon rounds makes noise and range equally large, which costs epsilon^(-1/4) in the
    regret of Lipschitz costs and epsilon^(-1/3) with curvature (`bounds.convex.one_point` has the proof).

    ``adversary="oblivious"``: costs are fixed in advance; regret T^(3/4), with curvature T^(2/3) up to a root
    of ln T. ``"adaptive"``: the costs of a round may depend on the points of earlier rounds; batches of one
    round, T^(3/4). Privacy holds either way. ``exploration_radius`` (beta), ``batch`` and ``regularization``
    are tuned to the smallest certified regret unless given.

    ``calibration="published"`` is the paper's Algorithm 3: a tree over the vectors, with spherical noise for
    their norm p B / beta instead of their difference, beta = p / T^(1/3) (oblivious) or p / T^(1/4). Under
    replace-one neighbours it is 2 epsilon-DP; the account says so. For costs without curvature the main text
    leaves H open; sqrt(p ln(T)^2.5 / epsilon) (B / R) / T^(1/4) a round balances its bound.

    Formal guarantee: replacing a person moves one sum by at most high - low (adding one: half of it, since
    costs are counted from the middle); exact on a grid. Holds for costs chosen with knowledge of all earlier
    points.

    >>> import discreet as dc
    >>> from discreet.constraints.domains import Ball
    >>> from discreet.objectives.losses import Distance
    >>> people = Distance([[0.5, 0.0]] * 20_000)
    >>> learner = BanditApproximateLeader(
    ...     Ball(2, 1.0), 20_000, dc.Budget(2.0), lipschitz=2.0, bound=(0, 2), strong_convexity=1.0, seed=0
    ... )
    >>> learner.run(people)
    CostTrace(BanditApproximateLeader: 20,000 rounds, average 0.0450; not private, in no account)
    """

    settings: BanditLeaderSettings
    _settings_type: ClassVar[type[BanditLeaderSettings]] = BanditLeaderSettings
    _state = ("_public", "_tree", "_costs", "_own", "_direction", "_estimates", "_played")
    _parts = ("_tree", "_costs")

    def __init__(
        self,
        domain: Domain,
        rounds: int,
        budget: Spending,
        *,
        lipschitz: float,
        bound: float | tuple[float, float],
        strong_convexity: float = 0.0,
        adversary: str = "oblivious",
        batch: int | str = "auto",
        exploration_radius: float | str = "auto",
        regularization: float | str = "auto",
        calibration: str = "tight",
        seed: Seed = None,
    ) -> None:
        share = spend_from(budget, seed)
        asked: dict[str, Any] = {
            "lipschitz": lipschitz,
            "bound": bound,
            "strong_convexity": strong_convexity,
            "adversary": adversary,
        }
        if checks.one_of("calibration", calibration, CALIBRATIONS) == "published":
            if (batch, exploration_radius, regularization) != ("auto", "auto", "auto"):
                raise ValueError(
                    'calibration="published" has its own batch=, exploration_radius= and regularization=;'
                    " leave them out"
                )
            settings = BanditLeaderSettings.published(domain, rounds, share, **asked)
            assert settings.spec is not None
            assert settings.event is not None
            releases = [(settings.event, settings.spec.count)]
            share = published_share(share, releases, "noise for sums of gradients", claimed_budget(share))
        else:
            settings = BanditLeaderSettings.tight(
                domain,
                rounds,
                share,
                batch=batch,
                exploration_radius=exploration_radius,
                regularization=regularization,
                **asked,
            )
        super().__init__(settings, share)

    @property
    def certified_regret(self) -> float:
        """Bound on the expected regret against the best fixed point (see `bounds.convex.one_point`).

        For the declared adversary. Rounds that are not learned from (beyond ``max_rounds_per_person``) are
        not in it.
        """
        return self.settings.certified_regret

    # --- the protocol ----------------------------------------------------------------------------

    def _begin(self) -> None:
        settings = self.settings
        if settings.neighbours != self.budget.neighbours:
            raise ValueError(f"the settings are for neighbours={settings.neighbours!r}, the budget is not")
        self._tree: PrivateTotal | None = None
        self._costs: CostTotal | None = None
        size = settings.domain.dimension
        if settings.spec is not None:
            self._tree = PrivateTotal(
                settings.spec, self._gate, settings.event, (size,), clip=True, label="gradient estimates"
            )
        else:
            # Truncating a cost towards zero adds nothing to what one person can do.
            self._costs = CostTotal(self._gate, settings.event, settings.moves, label="sums of costs")
            self._check_grid(self._costs)
        self._ahead: deque[int] = deque()  # noise of the next sums, where it has been drawn
        self._public = self._gate.public_randomness()
        self._own = np.array(settings.domain.center)
        self._direction, self._estimates, self._played = np.zeros(size), np.zeros(size), np.zeros(size)

    def _check_grid(self, costs: CostTotal) -> None:
        """Refuse batches whose sums do not fit the grid of their noise."""
        if costs.grid is not None and self.settings.half * self.batch / float(costs.step) >= 2.0**61:
            raise ValueError(
                f"batch={self.batch} at epsilon={self.budget.epsilon:g} does not fit the noise's grid; take a"
                " smaller batch or epsilon=inf"
            )

    def _due(self) -> bool:
        return self.round % self.settings.batch == 0

    @property
    def _total(self) -> PrivateTotal | CostTotal:
        """Where people's costs are on their way out."""
        found = self._costs if self._tree is None else self._tree
        assert found is not None
        return found

    @property
    def _taken(self) -> int:
        """How many batches have been released."""
        if self._tree is not None:
            return self._tree.count
        assert self._costs is not None
        return self._costs.batches

    def _draw(self) -> Vector:
        settings = self.settings
        if self._taken * settings.batch < self.round:  # unless an interruption came after it
            self._follow()
        self._direction = settings.domain.direction(self._public.generator)
        return self._own + settings.exploration_radius * self._direction

    def _follow(self) -> None:
        """Release what the batch cost, and move to the leader."""
        settings = self.settings
        if self._tree is not None:
            self._estimates = self._tree.release()
        else:
            assert self._costs is not None
            noise = self._ahead.popleft() if self._ahead else None
            cost = self._costs.leave(self._costs.take(), noise)
            self._estimates = self._estimates + settings.steepness * cost * self._direction
        self._played = self._played + settings.batch * self._own
        rounds, curvature = self._taken * settings.batch, settings.strong_convexity
        held = settings.regularization + settings.growing * rounds
        aim = curvature * self._played + held * settings.domain.center - self._estimates
        self._own = settings.inside.project(aim / (curvature * rounds + held))

    def _prepared(self, person: Any) -> float:
        settings = self.settings
        cost, low, high, half = checks.real("value", person), settings.low, settings.high, settings.half
        if not low - 1e-12 * half <= cost <= high + 1e-12 * half:
            raise ValueError(
                f"value={cost:g} is outside the declared range [{low:g}, {high:g}]; rescale the costs or"
                " declare a wider bound="
            )
        return min(max(cost - settings.middle, -half), half)

    def _observe(self, person: float) -> None:
        if self._tree is not None:
            self._tree.add(self.settings.steepness * person * self._direction)
            return
        assert self._costs is not None
        grid = self._costs.grid
        self._costs.pending += person if grid is None else int(grid.truncate(np.array([person]))[0])

    def _run(self, stream: Stream) -> None:
        losses = stream.people.compiled() if isinstance(stream.people, Losses) else None
        costs, batch, count, after = self._costs, self.settings.batch, stream.rewards.size, 0
        if losses is None or costs is None or costs.grid is None:
            self._run_one_by_one(stream)
            return
        releases = (self.round + count - 1) // batch - costs.batches
        if releases > len(self._ahead):
            self._ahead += costs.noise_one_by_one(releases - len(self._ahead)).tolist()
        middle, half = self.settings.middle, self.settings.half
        for t in track(range(count), "rounds", stream.progress):
            if t < after:
                continue
            point = self._next()
            size = min(count - t, batch - self.round % batch)
            seen = np.empty(size)
            losses.costs(t, np.array(point), seen)
            good = self._among_declared(seen)
            after = t + max(1, good)
            here = slice(t, after)
            limit, paid, played = stream.within_limit[here], stream.rewards[here], stream.selections[here]
            if not good:
                self._run_one_by_one(Stream(stream.people[here], limit, paid, played, progress=False))
                continue
            paid[:], played[:] = seen[:good], point
            steps = costs.grid.truncate(np.clip(seen[:good][limit] - middle, -half, half))
            self._rounds.close(good, then=partial(costs.add, steps))

    def _among_declared(self, seen: Vector) -> int:
        """How many costs lie in the declared range, before the first that does not."""
        settings = self.settings
        spare = 1e-12 * settings.half
        low, high = settings.low - spare, settings.high + spare
        if seen.min() >= low and seen.max() <= high:
            return seen.size
        return int(np.argmin((seen >= low) & (seen <= high)))

    def _run_one_by_one(self, stream: Stream) -> None:
        people = stream.people
        rows = isinstance(people, Losses)
        for t in track(range(stream.rewards.size), "rounds", stream.progress):
            point = self._next()
            cost = people.at(t, point)[0] if rows else self._value(people[t], point)
            stream.rewards[t], stream.selections[t] = cost, point
            self._take(self._prepared(cost), bool(stream.within_limit[t]))

    def _spent(self) -> Account:
        return self._account(*self._total.entries())
