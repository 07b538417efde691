"""Private convex learning from the cost of one point a round: noise on the number that is seen, once."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...bounds import convex as bounds
from ...constraints.domains import Domain, _Missing
from ...core import checks
from ...core.progress import track
from ...core.state import Saved
from ...objectives.losses import Losses
from ...privacy import Account, Budget, Coins, LaplaceNoise, RunningSum, Seed, TreeSum, VectorBounds, samplers
from ...privacy.conversions import exact
from ...privacy.events import Event
from ...privacy.published import PublishedCalibrationWarning
from ..protocol import Stream
from .leader import PointLearner, SumLeader, Vector

ADVERSARIES = ("oblivious", "adaptive")
# How long a horizon is looked for that would be long enough.
_LONGEST = 1 << 80


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

    def __init__(
        self,
        domain: Domain,
        rounds: int,
        budget: Budget,
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
        if not isinstance(domain, Domain):
            raise TypeError(
                f"domain must be a Domain such as domains.Ball(3, 1.0), got {checks.shown(domain)}"
            )
        domain.check()
        self.lipschitz = checks.real("lipschitz", lipschitz, above=0.0)
        self.strong_convexity = checks.real("strong_convexity", strong_convexity, at_least=0.0)
        self.adversary = checks.one_of("adversary", adversary, ADVERSARIES)
        self.low, self.high = _cost_range(bound)
        horizon = checks.whole("rounds", rounds, at_least=1)
        self._growing = 0.0
        if calibration == "published":
            if (batch, exploration_radius, regularization) != ("auto", "auto", "auto"):
                raise ValueError(
                    'calibration="published" has its own batch=, exploration_radius= and regularization=;'
                    " leave them out"
                )
            true = self._published(domain, horizon, budget)
            super().__init__(domain, rounds, true, calibration=calibration, seed=seed)
            self._sum: RunningSum | None = self._made_sum()
            self._event: Event | None = None
        else:
            super().__init__(domain, rounds, budget, calibration=calibration, seed=seed)
            self._sum = None
            self._event = LaplaceNoise.within(budget.share(), self._moves)
            self._tune(batch, exploration_radius, regularization)
            self._reserve()
        self._noise_grid = self._grid()
        self._inside = self._shrunk()
        self._coins = self._gate.coins()
        self._own = np.array(domain.center)
        self._direction = np.zeros(domain.dimension)
        self._estimates = np.zeros(domain.dimension)
        self._played = np.zeros(domain.dimension)
        self._seen: int | float = 0
        self._batches = 0

    @property
    def _moves(self) -> float:
        """How far one person can move a sum of costs.

        They are counted from the middle of their range, so that nobody counts for more than half of it.
        """
        return self._half * (2.0 if self.budget.neighbours == "replace" else 1.0)

    def _reserve(self) -> None:
        assert self._event is not None
        self._release = self._gate.reserve(self._event, label="sums of costs")

    def _made_sum(self, event: Event | None = None) -> RunningSum:
        """The paper's tree of gradient estimates."""
        return TreeSum(
            self.domain.dimension,
            self.horizon,
            self._gate,
            noise="spherical",
            norm_bound=self._estimate_norm(self.domain),
            event=event,
            clip=True,
            label="gradient estimates",
        )

    # --- what is certified -----------------------------------------------------------------------

    @property
    def certified_regret(self) -> float:
        """Bound on the expected regret against the best fixed point (see `bounds.convex.one_point`).

        For the declared adversary. Rounds that are not learned from (beyond ``max_rounds_per_person``) are
        not in it.
        """
        if self._sum is None:
            return self._certified(
                self.horizon, self.batch, self.exploration_radius, self.regularization
            ).regret
        domain, norm = self.domain, self._estimate_norm(self.domain)
        radius, width = domain.outer_radius, self.high - self.low
        regret = bounds.approximate_leader(
            self.horizon,
            norm,
            radius,
            domain.diameter,
            bounds.worst_noise(self._sum),
            self.strong_convexity,
            0.0,
            self._growing,
        )
        slope = 2.0 * self.lipschitz + min(width, self.lipschitz * radius) / domain.inner_radius
        regret += self.horizon * self.exploration_radius * slope
        if self.adversary == "adaptive":
            regret += radius * norm * math.sqrt(self.horizon)
        return min(regret, width * self.horizon, self.lipschitz * domain.diameter * self.horizon)

    def _certified(
        self, rounds: int, batch: int | None, beta: float | None, regularization: float | None
    ) -> bounds.OnePoint:
        assert isinstance(self._event, LaplaceNoise)
        return bounds.one_point(
            rounds,
            self.domain.affine_dimension,
            self.lipschitz,
            self.domain.inner_radius,
            self.domain.outer_radius,
            self.high - self.low,
            float(self._event.scale),
            self.strong_convexity,
            adaptive=self.adversary == "adaptive",
            batch=batch,
            beta=beta,
            regularization=regularization,
        )

    def _tune(self, batch: int | str, beta: float | str, regularization: float | str) -> None:
        """Take what is given, tune the rest, and refuse a horizon that is too short for it."""
        radius = self.domain.inner_radius
        rounds = self.horizon
        size = None if batch == "auto" else checks.whole("batch", batch, at_least=1, at_most=rounds)
        if self.adversary == "adaptive" and size not in (None, 1):
            raise ValueError(f'batch={size} needs adversary="oblivious": who adapts knows a batch\'s point')
        near = None
        if not isinstance(beta, str):
            near = checks.real("exploration_radius", beta, at_least=1e-100 * radius, below=radius)
        else:
            checks.one_of("exploration_radius", beta, ("auto",))
        pull = None
        if not isinstance(regularization, str):
            pull = checks.real("regularization", regularization, at_least=0.0)
            if pull + self.strong_convexity == 0.0:
                raise ValueError(
                    "regularization=0 needs costs with strong_convexity above 0; leave it at 'auto'"
                )
        else:
            checks.one_of("regularization", regularization, ("auto",))
        tuned = self._certified(rounds, size, near, pull)
        if not tuned.beta < radius:
            needed = self._needed(size, pull)
            raise ValueError(
                f"rounds={rounds} is too short: exploration radius {tuned.beta:.3g} does not fit into"
                f" the domain's inner_radius={radius:g}; that takes about rounds={needed:,}, or an"
                " exploration_radius= of your own"
            )
        self.batch, self.exploration_radius, self.regularization = (
            tuned.batch,
            tuned.beta,
            tuned.regularization,
        )

    def _needed(self, batch: int | None, regularization: float | None) -> int:
        """Rounds from which the tuned exploration radius fits into the domain, to two digits."""
        rounds = float(self.horizon)
        while rounds < _LONGEST:
            rounds *= 1.05
            if self._certified(round(rounds), batch, None, regularization).beta < self.domain.inner_radius:
                break
        digits = max(0, len(str(round(rounds))) - 2)
        unit: int = 10**digits
        return math.ceil(rounds / unit) * unit

    def _published(self, domain: Domain, rounds: int, budget: Budget) -> Budget:
        """Set the paper's constants; the budget that they really need."""
        if not budget.private:
            raise ValueError('calibration="published" needs a finite epsilon; take "tight"')
        size = max(-self.low, self.high)
        self.low, self.high = -size, size  # what the paper assumes
        power, radius = (3 if self.adversary == "oblivious" else 4), domain.inner_radius
        self.exploration_radius = domain.affine_dimension / rounds ** (1.0 / power)
        if self.exploration_radius >= radius:
            needed = math.floor((domain.affine_dimension / radius) ** power) + 1
            warnings.warn(
                f"rounds={rounds} is too short for the published exploration radius"
                f" {self.exploration_radius:.3g}, which does not fit into inner_radius={radius:g}; half of"
                f" that is taken. It takes rounds={needed:,}.",
                PublishedCalibrationWarning,
                stacklevel=4,
            )
            self.exploration_radius = radius / 2.0
        self.batch, self.regularization = 1, 0.0
        if self.strong_convexity == 0.0:
            logs = math.log(max(rounds, 2)) ** 2.5
            unit = size / domain.outer_radius / rounds**0.25
            self._growing = unit * math.sqrt(domain.affine_dimension * logs / budget.epsilon)
        inputs = VectorBounds(domain.dimension, 2, self._estimate_norm(domain))
        return SumLeader._published(budget, rounds, inputs, "spherical tree")

    def _estimate_norm(self, domain: Domain) -> float:
        """No gradient estimate of the paper's is longer."""
        return domain.affine_dimension * self._half / self.exploration_radius

    # --- the protocol ----------------------------------------------------------------------------

    @property
    def _middle(self) -> float:
        return (self.low + self.high) / 2.0

    @property
    def _half(self) -> float:
        return (self.high - self.low) / 2.0 * (1.0 + 2.0**-50)

    def _grid(self) -> samplers.Grid | None:
        """Where costs are counted: steps of it are whole numbers, so that a sum forgets nobody's rounding."""
        if not isinstance(self._event, LaplaceNoise) or not self._event.scale:
            return None
        # Truncation towards zero lengthens nothing, so it adds nothing to what one person can do.
        grid = samplers.Grid.for_noise(self._event.scale, self._event.sensitivity, 0)
        if self._half * self.batch / float(grid.step) >= 2.0**61:
            raise ValueError(
                f"batch={self.batch} at epsilon={self.budget.epsilon:g} does not fit the noise's grid; take a"
                " smaller batch or epsilon=inf"
            )
        return grid

    def _shrunk(self) -> Domain:
        return self.domain.shrunk(self.exploration_radius / self.domain.inner_radius)

    def _domain_given(self) -> None:
        self._inside = self._shrunk()

    def _due(self) -> bool:
        return self._round % self.batch == 0

    def _draw(self) -> Vector:
        if self._batches * self.batch < self._round:  # not closed before an interruption
            self._close_batch()
        self._direction = self.domain.direction(self._coins.generator)
        return self._own + self.exploration_radius * self._direction

    def _close_batch(self) -> None:
        """Release what was seen and follow the leader."""
        seen, self._seen = self._seen, 0  # first: nobody is to be added twice
        self._batches += 1
        steep = self.domain.affine_dimension / self.exploration_radius
        if self._sum is not None:
            self._estimates = self._sum.add(steep * float(seen) * self._direction)
        else:
            self._estimates = self._estimates + steep * self._released(seen) * self._direction
        self._played = self._played + self.batch * self._own
        rounds = self._batches * self.batch
        held = self.regularization + self._growing * rounds
        aim = self.strong_convexity * self._played + held * self.domain.center - self._estimates
        self._own = self._inside.project(aim / (self.strong_convexity * rounds + held))

    def _released(self, seen: int | float) -> float:
        grid = self._noise_grid
        if grid is None:
            return float(seen)
        noise = self._release.steps(1)
        return float(grid.values(np.array([int(seen)], dtype=np.int64) + noise)[0])

    def _prepared(self, person: Any) -> float:
        cost = checks.real("value", person)
        slack = 1e-12 * self._half
        if not self.low - slack <= cost <= self.high + slack:
            raise ValueError(
                f"value={cost:g} is outside the declared range [{self.low:g}, {self.high:g}]; rescale the"
                " costs or declare a wider bound="
            )
        return min(max(cost - self._middle, -self._half), self._half)

    def _absorb(self, person: float) -> None:
        if self._noise_grid is None:
            self._seen = self._seen + person
        else:
            self._seen = int(self._seen) + int(self._noise_grid.truncate(np.array([person]))[0])

    def _run(self, stream: Stream) -> None:
        people = stream.people
        rows = isinstance(people, Losses)
        for t in track(range(stream.rewards.size), "rounds", stream.progress):
            point = self._next()
            cost = people.at(t, point)[0] if rows else self._worth(people[t], point)
            stream.rewards[t], stream.selections[t] = cost, point
            self._take(self._prepared(cost), bool(stream.admitted[t]))

    def _spent(self) -> Account:
        return self._gate.spent if self._batches else self._account()

    # --- saving ----------------------------------------------------------------------------------

    def _settings(self) -> dict[str, Any]:
        settings = super()._settings() | {
            "lipschitz": self.lipschitz,
            "strong_convexity": self.strong_convexity,
            "adversary": self.adversary,
            "low": self.low,
            "high": self.high,
            "batch": self.batch,
            "exploration_radius": self.exploration_radius,
            "regularization": self.regularization,
            "growing": self._growing,
            "event": None if self._event is None else self._event.to_json(),
            "seen": self._seen,
            "batches": self._batches,
            "coins": self._coins.state(),
        }
        if self._sum is not None:
            settings["sum"] = self._sum.state()[0]
        return settings

    def _arrays(self) -> dict[str, NDArray[Any]]:
        arrays: dict[str, NDArray[Any]] = {
            "own": self._own,
            "direction": self._direction,
            "estimates": self._estimates,
            "played": self._played,
        }
        if self._sum is not None:
            arrays |= {f"sum_{name}": array for name, array in self._sum.state()[1].items()}
        return arrays

    def _restore(self, saved: Saved) -> None:
        super()._restore(saved)
        self.lipschitz = saved.real("lipschitz", above=0.0)
        self.strong_convexity = saved.real("strong_convexity", at_least=0.0)
        self.adversary = saved.one_of("adversary", ADVERSARIES)
        self.low, self.high = _cost_range((saved.real("low"), saved.real("high")))
        published = self.calibration == "published"
        adaptive = published or self.adversary == "adaptive"
        self.batch = saved.whole("batch", at_least=1, at_most=1 if adaptive else self.horizon)
        radius = self.domain.inner_radius
        self.exploration_radius = saved.real("exploration_radius", above=0.0, below=radius)
        self.regularization = saved.real("regularization", at_least=0.0)
        self._growing = saved.real("growing", at_least=0.0)
        if not self.strong_convexity + self.regularization + self._growing > 0.0:
            raise ValueError("regularization, growing and strong_convexity are all 0")
        released = max(0, self._drawn(self.batch) - 1)
        self._batches = saved.whole("batches", at_least=released, at_most=self._round // self.batch)
        self._coins = Coins.restored(saved.inner("coins"))
        shape = (self.domain.dimension,)
        self._own, self._direction, self._estimates, self._played = (
            saved.array(name, shape) for name in ("own", "direction", "estimates", "played")
        )
        self._event, self._sum = None, None
        if published:
            self._sum = self._resumed_sum(saved, self.horizon, self._made_sum, released)
        else:
            event = self._event = Event.from_json(saved.plain("event"))
            if type(event) is not LaplaceNoise or exact(event.sensitivity) < exact(self._moves):
                raise ValueError(f"event={event} is not for costs that move a sum by {self._moves:g}")
            self._reserve()
        self._noise_grid = self._grid()
        self._seen = self._saved_sum(saved)
        self._inside = self._shrunk()
        if not isinstance(self.domain, _Missing) and not self._inside.contains(self._own):
            raise ValueError("the array own is no point of the domain")

    def _saved_sum(self, saved: Saved) -> int | float:
        """The costs of the open batch, which are nobody's business."""
        rounds = self._round - self._batches * self.batch
        if self._noise_grid is not None:
            most = math.ceil(self._half * rounds / float(self._noise_grid.step))
            return saved.hidden("seen", at_least=-most, at_most=most)
        seen = saved.plain("seen")
        if not isinstance(seen, int | float) or not abs(seen) <= self._half * rounds * (1.0 + 1e-9):
            raise ValueError("seen is not what costs of so many rounds add up to")
        return float(seen)


def _cost_range(bound: float | tuple[float, float]) -> tuple[float, float]:
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
