"""Private convex learning from the cost of one point a round: noise on the number that is seen, once."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar

import numpy as np

from ... import backends
from ...constraints.domains import Domain, Missing
from ...core import checks
from ...core.progress import track
from ...core.settings import Setting
from ...core.state import Saved
from ...objectives.losses import Losses
from ...privacy import Account, Seed, spend_from
from ...privacy.published import published_share
from ...privacy.spending import Spending
from ..parts import Kept, Part
from ..protocol import CALIBRATIONS, Stream
from ..total import CostTotal, PrivateTotal
from .bandit_settings import BanditLeaderSettings
from .gradients import claimed_budget
from .points import PointLearner, Vector

# The learner's own point, where it explores from there, and sums of estimates and of its own points.
_KEPT = ("own", "direction", "estimates", "played")


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

    lipschitz = Setting("No gradient of anybody's cost is longer.")
    strong_convexity = Setting("How much every cost is curved, at the least.")
    adversary = Setting('Whether costs are fixed in advance: "oblivious" or "adaptive".')
    low = Setting("The smallest cost.")
    high = Setting("The largest cost.")
    batch = Setting("How many rounds share a point, and one release.")
    exploration_radius = Setting("How far from the learner's own point is played.")
    regularization = Setting("How strongly points are held to the domain's center.")

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
        self._coins = self._gate.coins()
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
            return self._tree.taken
        assert self._costs is not None
        return self._costs.batches

    def _draw(self) -> Vector:
        settings = self.settings
        if self._taken * settings.batch < self.round:  # unless an interruption came after it
            self._follow()
        self._direction = settings.domain.direction(self._coins.generator)
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

    def _absorb(self, person: float) -> None:
        if self._tree is not None:
            self._tree.gather(self.settings.steepness * person * self._direction)
            return
        assert self._costs is not None
        grid = self._costs.grid
        self._costs.gathered += person if grid is None else int(grid.truncate(np.array([person]))[0])

    def _run(self, stream: Stream) -> None:
        rows = stream.people.compiled() if isinstance(stream.people, Losses) else None
        costs, batch, count, after = self._costs, self.settings.batch, stream.rewards.size, 0
        if rows is None or costs is None or costs.grid is None:
            self._run_one_by_one(stream)
            return
        releases = (self.round + count - 1) // batch - costs.batches
        if releases > len(self._ahead):
            self._ahead += costs.noise_one_by_one(releases - len(self._ahead)).tolist()
        about = (self.settings.middle, self.settings.half, costs.grid.mantissa, costs.grid.exponent)
        seen, steps = np.empty(min(count, batch)), np.empty(min(count, batch), dtype=np.int64)
        for t in track(range(count), "rounds", stream.progress):
            if t < after:
                continue
            point = self._next()
            size = min(count - t, batch - self.round % batch)
            backends.convex.costs_at(rows, t, np.array(point), *about, seen[:size], steps[:size])
            good = self._among_declared(seen[:size])
            after = t + max(1, good)
            here = slice(t, after)
            limit, paid, played = stream.within_limit[here], stream.rewards[here], stream.selections[here]
            if not good:
                self._run_one_by_one(Stream(stream.people[here], limit, paid, played, progress=False))
                continue
            paid[:], played[:] = seen[:good], point
            self._rounds.close(good, then=partial(costs.gather, steps[:good][limit]))

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
            cost = people.at(t, point)[0] if rows else self._worth(people[t], point)
            stream.rewards[t], stream.selections[t] = cost, point
            self._take(self._prepared(cost), bool(stream.within_limit[t]))

    def _spent(self) -> Account:
        return self._account(*self._total.released())

    # --- saving ----------------------------------------------------------------------------------

    def _parts(self) -> Mapping[str, Part]:
        kept = Kept(arrays={name: getattr(self, f"_{name}") for name in _KEPT})
        return {"coins": self._coins, "total": self._total, "leader": kept}

    def _restore(self, saved: Saved) -> None:
        settings = self.settings
        self._coins.resume(saved.part("coins"))
        if self._tree is not None:
            assert settings.spec is not None
            most = settings.spec.bounds.largest * (1.0 + 1e-9)
            self._tree.resume(saved.part("total"), self._rounds, 1, most=most)
        else:
            assert self._costs is not None
            most = settings.half / (1.0 if self._costs.grid is None else float(self._costs.step))
            self._costs.resume(saved.part("total"), self._rounds, settings.batch, most=most)
        for name in _KEPT:
            setattr(self, f"_{name}", saved.part("leader").array(name, (settings.domain.dimension,)))
        if not isinstance(settings.domain, Missing) and not settings.inside.contains(self._own):
            raise ValueError("the array own is no point of the domain")
