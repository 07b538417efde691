"""Private convex learning from the cost of one point per round: only the observed number gets noise, once."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np

from ..bounds import convex as bounds
from ..constraints.domains import Box, Domain
from ..core import checks
from ..core.options import Adversary, Auto, Calibration
from ..core.text import track
from ..objectives.losses import Losses
from ..privacy import Event, LaplaceNoise, Seed, Share, SumSpec, VectorBounds
from ..privacy.account import PublishedCalibrationWarning
from ..privacy.accountant import Spending
from .convex import PointLearner, Vector, approximate_leader, printed_noise
from .learner import LearnerSettings, Stream
from .sums import CostTotal, PrivateTotal, calibrated, claimed_epsilon

ADVERSARIES = ("oblivious", "adaptive")
# The search for a long enough horizon stops at about this number of rounds.
_LONGEST = 1 << 80


@dataclass(frozen=True, kw_only=True)
class BanditLeaderSettings(LearnerSettings):
    """Settings of `BanditApproximateLeader`; ``bound`` is the range of costs, (low, high).

    ``event`` is the noise on a batch's sum of costs, or on a node of the published tree of estimates.
    """

    paper: ClassVar[str] = "noise for sums of gradients"
    tuned: ClassVar[tuple[str, ...]] = ("batch", "exploration_radius", "regularization")

    rounds: int
    domain: Domain
    neighbours: str
    bound: tuple[float, float]
    lipschitz: float
    strong_convexity: float = 0.0
    adversary: str = "oblivious"
    batch: int = 1
    exploration_radius: float
    regularization: float = 1.0
    growing: float = 0.0
    isotropic: bool = False
    event: Event | None = None

    def __post_init__(self) -> None:
        self._put(
            rounds=checks.whole("rounds", self.rounds, at_least=1),
            bound=cost_range(self.bound),
            lipschitz=checks.bound(self.lipschitz, "lipschitz"),
            strong_convexity=checks.real(
                "strong_convexity", self.strong_convexity, at_least=0.0, at_most=1e100
            ),
            isotropic=bool(self.isotropic),
        )
        if self.isotropic and not isinstance(self.domain, Box):
            raise ValueError(
                "isotropic=True is for a domains.Box; balls and simplices are alike every way, and of another"
                " set only the projection in its own coordinates is known: rescale the costs yourself"
            )
        checks.one_of("adversary", self.adversary, ADVERSARIES)
        alone = self.calibration == "published" or self.adversary == "adaptive"
        checks.whole("batch", self.batch, at_least=1, at_most=1 if alone else self.rounds)
        radius = self.body.inner_radius
        checks.real("exploration_radius", self.exploration_radius, above=0.0, below=radius)
        if not self.strong_convexity + self.regularization + self.growing > 0.0:
            raise ValueError("regularization, growing and strong_convexity are all 0")

    @classmethod
    def _draft(cls, share: Share, asked: dict[str, Any], calibration: str) -> BanditLeaderSettings:
        """Settings with the given options, checked; the rest is filled in later."""
        checks.instance("domain", asked["domain"], Domain, "domains.Ball(3, 1.0)")
        asked["domain"].check()
        given = asked | {"neighbours": share.neighbours, "calibration": calibration}
        near = 0.5 if given.get("isotropic") else asked["domain"].inner_radius / 2.0
        return cls(**given, exploration_radius=near)

    @classmethod
    def tight(
        cls,
        share: Share,
        *,
        batch: int | str = "auto",
        exploration_radius: float | str = "auto",
        regularization: float | str = "auto",
        **asked: Any,
    ) -> BanditLeaderSettings:
        """The given numbers, and the rest tuned for the smallest certificate; refuses too short a horizon."""
        draft = cls._draft(share, asked, "tight")
        horizon, radius = draft.rounds, draft.body.inner_radius
        size = None if batch == "auto" else checks.whole("batch", batch, at_least=1, at_most=horizon)
        if draft.adversary == "adaptive" and size not in (None, 1):
            raise ValueError(f'batch={size} needs adversary="oblivious": who adapts knows a batch\'s point')
        near = _given("exploration_radius", exploration_radius, at_least=1e-100 * radius, below=radius)
        held = _given("regularization", regularization, at_least=0.0)
        if held is not None and held + draft.strong_convexity == 0.0:
            raise ValueError("regularization=0 needs costs with strong_convexity above 0; leave it at 'auto'")
        draft = replace(draft, event=LaplaceNoise.within(share, draft.moves, definition=share.definition))
        tuned = draft._one_point(horizon, size, near, held)
        if not tuned.beta < radius:
            needed = draft._rounds_needed(size, held)
            enough = (
                f"that takes about rounds={needed:,}, or"
                if needed is not None
                else "no horizon is long enough for the given settings: leave regularization= and batch= at"
                " 'auto', or give"
            )
            raise ValueError(
                f"rounds={horizon} is too short: exploration radius {tuned.beta:.3g} does not fit into"
                f" the domain's inner_radius={radius:g}; {enough} an exploration_radius= of your own"
            )
        draft = replace(draft, exploration_radius=tuned.beta, regularization=tuned.regularization)
        return replace(draft, batch=tuned.batch)

    @classmethod
    def published(cls, share: Share, **asked: Any) -> BanditLeaderSettings:
        """The constants of paper 004, Algorithm 3, with a warning if the horizon is too short for them.

        For costs without curvature the main text prints T^(3/4) for both adversaries, without beta and H (it
        refers to its Appendix E.3). That takes Theorem 6's beta for T^(3/4), p / T^(1/4), and H of T^(-1/4).
        """
        epsilon, draft = claimed_epsilon(share).epsilon, cls._draft(share, asked, "published")
        domain, horizon, size = draft.body, draft.rounds, max(-draft.low, draft.high)
        fast = draft.adversary == "oblivious" and draft.strong_convexity > 0.0
        power, radius = (3 if fast else 4), domain.inner_radius
        beta = domain.affine_dimension / horizon ** (1.0 / power)
        if beta >= radius:
            needed = math.floor((domain.affine_dimension / radius) ** power) + 1
            checks.warn(
                f"rounds={horizon} is too short for the published exploration radius {beta:.3g}, which does"
                f" not fit into inner_radius={radius:g}; half of that is taken. It takes rounds={needed:,}.",
                PublishedCalibrationWarning,
            )
            beta = radius / 2.0
        growing = 0.0
        if draft.strong_convexity == 0.0:
            logs = math.log(max(horizon, 2)) ** 2.5
            unit = size / domain.outer_radius / horizon**0.25
            growing = unit * math.sqrt(domain.affine_dimension * logs / epsilon)
        found: dict[str, Any] = {"bound": (-size, size)}  # what the paper assumes
        found |= {"exploration_radius": beta, "regularization": 0.0, "growing": growing}
        draft = replace(draft, **found)
        more = draft.steepness * growing * domain.outer_radius**2 / 2.0
        return replace(draft, event=printed_noise(draft.spec, share, more))

    # --- what follows ----------------------------------------------------------------------------

    @property
    def low(self) -> float:
        """The least cost."""
        return self.bound[0]

    @property
    def high(self) -> float:
        """The largest cost."""
        return self.bound[1]

    @property
    def half(self) -> float:
        """The largest size of a person's cost, measured from the middle of the range."""
        return (self.high - self.low) / 2.0 * (1.0 + 2.0**-50)

    @property
    def middle(self) -> float:
        """The middle of the range, from which costs are measured."""
        return (self.low + self.high) / 2.0

    @property
    def moves(self) -> float:
        """The sensitivity of a sum of costs to one person."""
        return self.half * (2.0 if self.neighbours == "replace" else 1.0)

    @property
    def steepness(self) -> float:
        """The factor that turns a cost into the size of a gradient estimate."""
        return self.domain.affine_dimension / self.exploration_radius

    @cached_property
    def scales(self) -> Vector:
        """The scale of each of the learner's internal coordinates, relative to the domain's center."""
        domain = self.domain
        if self.isotropic and isinstance(domain, Box):
            return (domain.high - domain.low) / 2.0
        return np.ones(domain.dimension)

    @cached_property
    def body(self) -> Domain:
        """The domain in the internal coordinates."""
        ones = np.ones(self.domain.dimension)
        return Box(-ones, ones) if self.isotropic else self.domain

    @property
    def slope(self) -> float:
        """The Lipschitz constant in the internal coordinates."""
        return self.lipschitz * float(self.scales.max())

    @property
    def curvature(self) -> float:
        """The strong convexity in the internal coordinates."""
        return self.strong_convexity * float(self.scales.min()) ** 2

    @cached_property
    def inside(self) -> Domain:
        """The points whose exploration ball lies in the domain."""
        return self.body.shrunk(self.exploration_radius / self.body.inner_radius)

    @property
    def releases(self) -> int:
        """How many sums are released: of batches, or in the paper's tree, which covers all rounds."""
        return self.rounds if self.calibration == "published" else -(-self.rounds // self.batch) - 1

    @property
    def spec(self) -> SumSpec | None:
        """The published tree of gradient estimates; None where sums of costs are released instead."""
        if self.calibration != "published":
            return None
        norm = self.domain.affine_dimension * self.half / self.exploration_radius  # of the longest estimate
        return SumSpec(VectorBounds(self.domain.dimension, 2, norm), self.releases, "tree", "spherical")

    @property
    def certified_regret(self) -> float:
        """Bound on the expected regret for the declared adversary (see `bounds.convex.one_point`)."""
        spec, event, domain, rounds = self.spec, self.event, self.body, self.rounds
        most = self.lipschitz * self.domain.diameter * rounds
        if spec is None:
            chosen = (self.batch, self.exploration_radius, self.regularization)
            return min(self._one_point(rounds, *chosen).regret, most)
        assert event is not None
        norm, radius, width = spec.bounds.norm_bound, domain.outer_radius, self.high - self.low
        assert norm is not None
        shape = (rounds, norm, radius, domain.diameter, bounds.worst_noise(spec, event))
        regret = bounds.approximate_leader(*shape, self.curvature, 0.0, self.growing)
        slope = 2.0 * self.slope + min(width, self.slope * radius) / domain.inner_radius
        regret += rounds * self.exploration_radius * slope
        if self.adversary == "adaptive":
            regret += radius * norm * math.sqrt(rounds)
        return min(regret, width * rounds, most)

    def _one_point(
        self, rounds: int, batch: int | None, beta: float | None, regularization: float | None
    ) -> bounds.OnePoint:
        assert isinstance(self.event, LaplaceNoise)
        domain, width = self.body, self.high - self.low
        return bounds.one_point(
            rounds,
            domain.affine_dimension,
            self.slope,
            domain.inner_radius,
            domain.outer_radius,
            width,
            float(self.event.scale),
            self.curvature,
            adaptive=self.adversary == "adaptive",
            batch=batch,
            beta=beta,
            regularization=regularization,
        )

    def _rounds_needed(self, batch: int | None, regularization: float | None) -> int | None:
        """Roughly the fewest rounds for which the tuned exploration radius fits into the domain.

        Searched in steps of 5 %, and rounded up to two digits; None where even `_LONGEST` are too few.
        """
        rounds = float(self.rounds)
        while rounds < _LONGEST:
            rounds *= 1.05
            if self._one_point(round(rounds), batch, None, regularization).beta < self.body.inner_radius:
                unit: int = 10 ** max(0, len(str(round(rounds))) - 2)
                return math.ceil(rounds / unit) * unit
        return None


def cost_range(bound: float | tuple[float, float]) -> tuple[float, float]:
    """The range of costs from ``bound``: B for [-B, B], or (low, high)."""
    if isinstance(bound, tuple | list):
        if len(bound) != 2:
            raise ValueError(f"bound={checks.shown(bound)} must be a number or a pair (low, high)")
        low, high = checks.real("bound[0]", bound[0]), checks.real("bound[1]", bound[1])
        if not low < high:
            raise ValueError(f"bound={checks.shown(bound)} must have low < high")
        checks.bound(max(-low, high), "the largest size in bound")
        return low, high
    size = checks.bound(bound)
    return -size, size


def _given(name: str, value: float | str, **limits: Any) -> float | None:
    """A number within its limits; None for "auto"."""
    if isinstance(value, str):
        checks.one_of(name, value, ("auto",))
        return None
    return checks.real(name, value, **limits)


class BanditApproximateLeader(PointLearner):
    """Follow the approximate leader when only the cost of the played point is seen, one number per round.

    The learner keeps a point w in the domain shrunk by beta / r, plays w + beta u in a random direction u,
    and uses (p / beta) y u as the gradient, where y is the cost that was seen (Flaxman, Kalai and McMahan
    2005; paper 004, Section 3). ``bound`` is the range of costs: B for [-B, B], or a pair (low, high).
    ``lipschitz`` and ``strong_convexity`` matter for tuning and certificate, not for privacy.

    By default the number, not the gradient, is made private. Rounds come in batches that share one point; the
    batch's sum of costs is released once, with Laplace noise, and all else is computed from these sums and
    public randomness. A person is in one batch and moves its sum by at most the range of costs, so the entire
    stream of sums is epsilon-DP: nothing composes over rounds, no delta is needed, and the noise does not
    grow with p / beta. As the noise is independent of everything else, the gradient estimate stays unbiased,
    and a batch of about sqrt(8) / epsilon rounds makes noise and range equally large: a factor epsilon^(-1/4)
    in the regret of Lipschitz costs, epsilon^(-1/3) with curvature (`bounds.convex.one_point` has the proof).

    ``adversary="oblivious"``: costs are fixed in advance; regret T^(3/4), with curvature T^(2/3) up to a root
    of ln T. ``"adaptive"``: the costs of a round may depend on the points of earlier rounds; batches of one
    round, T^(3/4). Privacy holds either way. ``exploration_radius`` (beta), ``batch`` and ``regularization``
    are tuned for the smallest certified regret unless given.

    ``isotropic=True``: in a long and thin box the shortest side limits how far the learner can explore. It
    then uses coordinates in which the box is a cube (paper 004, after Theorem 6), where costs are as steep as
    along the longest side and as curved as along the shortest. Balls, simplices and `CappedSimplex` with
    ``exactly`` k are in isotropic position except for their size. Any other set is known only by its
    projection, which does not give the nearest point in rescaled coordinates; a caller who has that passes
    the rescaled set and costs.

    ``calibration="published"`` is the paper's Algorithm 3: a tree over the vectors, with spherical noise for
    their norm p B / beta instead of their difference, beta = p / T^(1/3) (oblivious and curved) or p /
    T^(1/4). Under replace-one adjacency it is 2 epsilon-DP; the account says so. Costs without curvature get
    H/2 |w - c|^2 each. The main text prints neither their beta nor H, only T^(3/4) for both adversaries: of
    Theorem 6's two values of beta that is p / T^(1/4), and H = sqrt(p ln(T)^2.5 / epsilon) (B / R) / T^(1/4),
    which is the library's choice, balances noise and regularizer. The paper's estimates are then of costs up
    to B + H R^2 / 2, and its noise is for these; the regularizer, of nobody's data, is added without noise.

    Formal guarantee: replacing a person moves one sum by at most high - low (adding one: half of it, since
    costs are measured from the middle); exact on a grid. Holds for costs chosen with knowledge of all earlier
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
    # The learner's own point, the direction it explores, and the sums of estimates and of its own points.
    _state = ("_public", "_total", "_own", "_direction", "_estimates", "_played")

    def __init__(
        self,
        domain: Domain,
        rounds: int,
        budget: Spending,
        *,
        lipschitz: float,
        bound: float | tuple[float, float],
        strong_convexity: float = 0.0,
        adversary: Adversary = "oblivious",
        batch: int | Auto = "auto",
        exploration_radius: float | Auto = "auto",
        regularization: float | Auto = "auto",
        isotropic: bool = False,
        calibration: Calibration = "tight",
        seed: Seed = None,
    ) -> None:
        super().__init__(*calibrated(BanditLeaderSettings, locals(), pure=True))

    # --- the protocol ----------------------------------------------------------------------------

    def _begin(self) -> None:
        settings, size = self.settings, self._width
        if settings.neighbours != self.budget.neighbours:
            raise ValueError(f"the settings are for neighbours={settings.neighbours!r}, the budget is not")
        if settings.spec is not None:
            self._total = self._summed("gradient estimates")
        else:
            # Truncating a cost towards zero does not increase the sensitivity.
            costs = CostTotal(self._gate, settings.event, settings.moves, label="sums of costs")
            if costs.grid is not None and settings.half * settings.batch / float(costs.step) >= 2.0**61:
                raise ValueError(
                    f"batch={settings.batch} at epsilon={self.budget.epsilon:g} does not fit the noise's"
                    " grid; take a smaller batch or epsilon=inf"
                )
            self._total = costs
        self._ahead: deque[int] = deque()  # noise that was drawn ahead for the next sums
        self._public = self._gate.public_randomness()
        self._own = np.array(settings.body.center)
        self._direction, self._estimates, self._played = np.zeros(size), np.zeros(size), np.zeros(size)

    def _due(self) -> bool:
        return self.round % self.settings.batch == 0

    def _draw(self) -> Vector:
        settings = self.settings
        if self._total.count * settings.batch < self.round:  # not yet done before an interruption
            self._follow()
        self._direction = settings.body.direction(self._public.generator)
        point = self._own + settings.exploration_radius * self._direction
        return settings.domain.center + settings.scales * point if settings.isotropic else point

    def _follow(self) -> None:
        """Release the batch's sum of costs, and move to the leader."""
        settings = self.settings
        if isinstance(self._total, PrivateTotal):
            self._estimates = self._total.release()
        else:
            noise = self._ahead.popleft() if self._ahead else None
            cost = self._total.leave(self._total.take(), noise)
            self._estimates = self._estimates + settings.steepness * cost * self._direction
        self._played = self._played + settings.batch * self._own
        rounds = self._total.count * settings.batch
        inside, curvature = settings.inside, settings.curvature
        self._own = approximate_leader(settings, curvature, inside, rounds, self._played, self._estimates)

    def _prepared(self, person: Any) -> float:
        return self._ready(checks.real("value", person))

    def _ready(self, cost: float, gradient: Any = None) -> float:  # noqa: ARG002
        settings = self.settings
        low, high, half = settings.low, settings.high, settings.half
        if not low - 1e-12 * half <= cost <= high + 1e-12 * half:
            raise ValueError(
                f"value={cost:g} is outside the declared range [{low:g}, {high:g}]; rescale the costs or"
                " declare a wider bound="
            )
        return min(max(cost - settings.middle, -half), half)

    def _feedback(self, person: Any, decision: Any, value: float) -> Any:  # noqa: ARG002
        return value

    def _observe(self, person: Any) -> None:
        if isinstance(self._total, PrivateTotal):
            self._total.add(self.settings.steepness * person * self._direction)
            return
        grid = self._total.grid
        self._total.pending += person if grid is None else int(grid.truncate(np.array([person]))[0])

    def _run(self, stream: Stream) -> None:
        losses = stream.people.compiled() if isinstance(stream.people, Losses) else None
        costs, batch, count, after = self._total, self.settings.batch, stream.rewards.size, 0
        if losses is None or isinstance(costs, PrivateTotal) or costs.grid is None:
            super()._run(stream)
            return
        releases = (self.round + count - 1) // batch - costs.count
        if releases > len(self._ahead):
            self._ahead += costs.noise_one_by_one(releases - len(self._ahead)).tolist()
        for t in track(range(count), "rounds", stream.progress):
            if t < after:
                continue
            point = self._next()
            seen = np.empty(min(count - t, batch - self.round % batch))
            losses.costs(t, np.array(point), seen)
            good = self._among_declared(seen)
            after = t + good
            here = stream.part(slice(t, after))
            here.rewards[:], here.selections[:] = seen[:good], point
            middle, half = self.settings.middle, self.settings.half
            steps = costs.grid.truncate(np.clip(seen[:good][here.within_limit] - middle, -half, half))
            self._rounds.close(good, then=partial(costs.add, steps))
            if good < seen.size:  # refuse this cost, with its round open
                self._next()
                self._ready(seen[good])

    def _among_declared(self, seen: Vector) -> int:
        """How many costs come before the first one outside the declared range."""
        settings, spare = self.settings, 1e-12 * self.settings.half
        low, high = settings.low - spare, settings.high + spare
        if seen.min() >= low and seen.max() <= high:
            return seen.size
        return int(np.argmin((seen >= low) & (seen <= high)))
