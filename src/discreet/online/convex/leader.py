"""Private online convex learning: points that follow the leader on private sums of gradients."""

from __future__ import annotations

import math
import os
from abc import abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from ... import backends
from ...bounds import convex as bounds
from ...bounds.selection import gaussian_pull, laplace_pull
from ...constraints.domains import Ball, Box, Domain, Simplex, _Missing
from ...core import checks
from ...core.progress import track
from ...core.state import Saved
from ...objectives import answers
from ...objectives.losses import Losses, cost_functions
from ...privacy import (
    Account,
    Budget,
    Coins,
    Event,
    Gate,
    LaplaceNoise,
    RunningSum,
    Seed,
    SphericalLaplaceNoise,
    SumSpec,
    TreeSum,
    VectorBounds,
    tree_levels,
)
from ...privacy.published import true_budget
from ...privacy.sums.compiled import CompiledSum
from ...results import CostTrace
from ..protocol import OnlineLearner, Stream

if TYPE_CHECKING:
    from ...backends.arguments import Shape

SUMS = ("sqrt", "blt", "tree", "laplace tree", "spherical tree")
_NOISES = {"tree": "gaussian", "laplace tree": "laplace", "spherical tree": "spherical"}

Vector = NDArray[np.float64]

# Points are sums over this and more of the longest gradient: nothing that leaves the range of floats.
_LEAST_PULL = 1e-100
# Longer gradients than this are left to loops that look at every number.
_LARGEST = 1e100


class PointLearner(OnlineLearner):
    """Play a point of a convex domain every round, then learn from what it cost the person of that round."""

    _noun: ClassVar[str] = "point"

    def __init__(
        self,
        domain: Domain,
        rounds: int,
        budget: Budget,
        *,
        calibration: str = "tight",
        seed: Seed = None,
    ) -> None:
        if not isinstance(domain, Domain):
            raise TypeError(
                f"domain must be a Domain such as domains.Ball(3, 1.0), got {checks.shown(domain)}"
            )
        checks.whole("rounds", rounds, at_least=1)
        super().__init__(rounds, budget, calibration=calibration, seed=seed)
        self.domain = domain

    # --- for users -------------------------------------------------------------------------------

    def choose(self) -> Vector:
        """The point for this round, as an array that cannot be written to."""
        point: Vector = super().choose()
        return point

    def run(
        self, people: Any, *, person_ids: Sequence[Hashable] | None = None, progress: bool = False
    ) -> CostTrace:
        """A whole stream of costs at once: the same points, for the same seed, as one by one.

        ``people`` is a population of losses or a sequence of costs. ``person_ids`` as in `learn`, one per
        person. People beyond the declared horizon are served the last point and not learned from.
        """
        trace: CostTrace = super().run(people, person_ids=person_ids, progress=progress)
        return trace

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, domain: Domain | None = None) -> Self:
        """Go on from a saved file; what was spent stays spent.

        A domain that was given by a function has to be given again, with the same center and radii.
        """
        learner = super().load(path)
        if domain is not None:
            if not isinstance(learner.domain, _Missing) or not learner.domain.fits(domain):
                raise ValueError(
                    f"{path} was saved with the domain {learner.domain}; domain= is for one that was given by"
                    " a function, with the same center and radii"
                )
            learner.__dict__["domain"] = domain  # what stood there was only its description
            learner._domain_given()
        return learner

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.domain!r}, round {self._round:,} of {self.rounds:,})"

    # --- for the protocol ------------------------------------------------------------------------

    @property
    def horizon(self) -> int:
        """The declared number of rounds."""
        assert self.rounds is not None
        return self.rounds

    def _domain_given(self) -> None:
        """Make again what depends on the domain."""

    @property
    def _width(self) -> int:
        return self.domain.dimension

    def _decision(self, shown: NDArray[Any]) -> Vector:
        point = np.array(shown, dtype=np.float64)
        point.setflags(write=False)
        return point

    def _could_show(self, shown: NDArray[Any]) -> bool:
        inside = isinstance(self.domain, _Missing) or self.domain.contains(shown)
        return super()._could_show(shown) and inside

    def _row(self, decision: Vector) -> Vector:
        return decision

    def _worth(self, person: Any, decision: Vector) -> float:
        if isinstance(person, Losses):
            self._check_one(person)
            return answers.number("value(point)", person.at(0, decision)[0])
        return answers.number("value(point)", cost_functions(person)[0](decision))

    def _check_one(self, person: Losses) -> None:
        """Refuse losses that are not one person's, or not about points of the domain."""
        if len(person) != 1:
            raise ValueError("learn() takes one person; use run() for a stream")
        self._check_people(person)

    def _trace(self, rewards: Vector, selections: NDArray[Any]) -> CostTrace:
        return CostTrace(rewards, selections, type(self).__name__)

    def _check_people(self, people: Any) -> None:
        if not hasattr(people, "__len__") or not hasattr(people, "__getitem__"):
            raise TypeError(
                f"run() takes a population of losses or a sequence of costs, got {type(people).__name__}"
            )
        if isinstance(people, Losses) and people.dimension != self.domain.dimension:
            raise ValueError(
                f"the losses have {people.dimension} coordinates; the domain has {self.domain.dimension}"
            )

    def _settings(self) -> dict[str, Any]:
        return super()._settings() | {"domain": self.domain.to_json()}

    def _restore(self, saved: Saved) -> None:
        self.domain = Domain.from_json(saved.plain("domain"))


class SumLeader(PointLearner):
    """A point learner that sees people only through one private running sum of their gradients."""

    def __init__(
        self,
        domain: Domain,
        rounds: int,
        budget: Budget,
        *,
        inputs: VectorBounds,
        sums: str,
        clip: bool,
        calibration: str,
        seed: Seed,
    ) -> None:
        self.clip = bool(clip)
        if calibration == "published":
            budget = self._published(budget, rounds, inputs, sums)
        super().__init__(domain, rounds, budget, calibration=calibration, seed=seed)
        self.sums = checks.one_of("sums", sums, SUMS)
        self._sum: RunningSum | None = None
        if self._releases:
            self._sum = _running_sum(self._gate, inputs, self._releases, self.sums)
        self._pending = np.zeros(domain.dimension)
        self._insecure_clipped = 0

    @property
    def _releases(self) -> int:
        """How many sums are taken: the papers' tree is for all rounds, though the last is never looked at."""
        return self.horizon if self.calibration == "published" else self.horizon - 1

    @property
    def insecure_clipped(self) -> int:
        """How many gradients had to be shortened so far (``clip=True``).

        A fact about people that no noise protects: for debugging on data that you may look at. It is not part
        of the account, and must not be published.
        """
        return self._insecure_clipped

    @property
    @abstractmethod
    def certified_regret(self) -> float:
        """Bound on the expected regret against the best fixed point over the declared rounds."""

    @abstractmethod
    def _leader(self, known: Vector) -> Vector:
        """The next point, from the private sum of gradients."""

    @abstractmethod
    def _declared(self) -> VectorBounds:
        """What is promised about gradients, in the norm of the noise."""

    @abstractmethod
    def _bounded(self, gradient: Vector) -> tuple[Vector, bool]:
        """A gradient that keeps what was promised, and whether it had to be shortened."""

    @staticmethod
    def _published(budget: Budget, rounds: int, inputs: VectorBounds, sums: str) -> Budget:
        """The budget that the papers' noise really needs: it is calibrated to a norm, not to a difference."""
        if not budget.private:
            raise ValueError('calibration="published" needs a finite epsilon; take "tight"')
        budget = replace(budget, delta=0.0)  # the papers claim and spend a pure epsilon
        noise = SphericalLaplaceNoise if sums == "spherical tree" else LaplaceNoise
        levels = tree_levels(checks.whole("rounds", rounds, at_least=1))
        scale = inputs.difference("add_remove") * levels / float(budget.epsilon_per_round)
        release = noise(inputs.difference(budget.neighbours), scale)
        return true_budget(budget, [(release, levels)], "noise for sums of gradients")

    # --- the protocol ----------------------------------------------------------------------------

    def _due(self) -> bool:
        return True

    def _draw(self) -> Vector:
        if self._round == 0 or self._sum is None or self._shown is None:
            return np.array(self.domain.center)
        if self._sum.taken >= self._round:  # an interruption came between this round's sum and its point
            return self._shown
        gradient, self._pending = self._pending, np.zeros(self.domain.dimension)  # nobody is added twice
        known = self._sum.add(gradient)
        self._passed(self._shown)
        return self._leader(known)

    def _passed(self, point: Vector) -> None:
        """A round was played with ``point``."""

    def _prepared(self, person: Any) -> tuple[Vector, bool]:
        assert self._shown is not None
        return self._bounded(self._gradient(person, self._decision(self._shown)))

    def _gradient(self, person: Any, point: Vector) -> Vector:
        size = self.domain.dimension
        if isinstance(person, Losses):
            self._check_one(person)
            return answers.vector("gradient(point)", person.at(0, point)[1], size)
        return answers.vector("gradient(point)", cost_functions(person)[1](point), size)

    def _absorb(self, person: tuple[Vector, bool]) -> None:
        self._pending, shortened = np.array(person[0]), person[1]
        self._insecure_clipped += shortened

    def _run(self, stream: Stream) -> None:
        people = stream.people
        if not isinstance(people, Losses):
            super()._run(stream)
            return
        for t in track(range(stream.rewards.size), "rounds", stream.progress):
            self._next()
            assert self._shown is not None
            cost, gradient = people.at(t, self._decision(self._shown))
            ready = self._bounded(answers.vector("gradient(point)", gradient, self.domain.dimension))
            stream.rewards[t] = answers.number("value(point)", cost)
            stream.selections[t] = self._shown
            self._take(ready, bool(stream.admitted[t]))

    def _spent(self) -> Account:
        return self._gate.spent if self._sum is not None and self._sum.taken else self._account()

    # --- saving ----------------------------------------------------------------------------------

    def _settings(self) -> dict[str, Any]:
        settings = super()._settings() | {
            "clip": self.clip,
            "sums": self.sums,
            "insecure_clipped": self._insecure_clipped,
        }
        if self._sum is not None:
            settings["sum"] = self._sum.state()[0]
        return settings

    def _arrays(self) -> dict[str, NDArray[Any]]:
        arrays: dict[str, NDArray[Any]] = {"pending": self._pending}
        if self._sum is not None:
            arrays |= {f"sum_{name}": array for name, array in self._sum.state()[1].items()}
        return arrays

    def _restore(self, saved: Saved) -> None:
        super()._restore(saved)
        self.clip, self.sums = saved.flag("clip"), saved.one_of("sums", SUMS)
        self._insecure_clipped = saved.hidden("insecure_clipped", at_least=0, at_most=self._round)
        self._pending = saved.array("pending", (self.domain.dimension,))
        self._restore_promise(saved)
        shape = (self._gate, self._declared(), self._releases, self.sums)
        self._sum = self._resumed_sum(
            saved, self._releases, lambda event: _running_sum(*shape, event), self._drawn(1) - 1
        )

    @abstractmethod
    def _restore_promise(self, saved: Saved) -> None:
        """Take up what gradients keep to."""


class ApproximateLeader(SumLeader):
    """Follow the approximate leader on private sums of gradients (Smith and Thakurta 2013: paper 004).

    Every cost is replaced by a quadratic that touches it from below at the point that was played; the learner
    plays the minimiser of these quadratics, known through one private running sum of gradients v:

        w = projection of (H (w_1 + ... + w_t) + A c - v) / (t H + A)

    with H = ``strong_convexity`` of the costs, c the domain's center and A = ``regularization``. ``"auto"``
    takes the A of the smallest certified regret: costs that are only Lipschitz (H = 0) need one, and curved
    ones gain from it while the noise is larger than what has been learned. The regulariser is the learner's
    own, so nobody's gradient grows by it. The certificate has to fear gradients that lie along the noise;
    ``"optimistic"`` takes the A that would be best if they were independent of it, which is less by up to
    p^(1/4), and better on streams that do not fight the learner.

    ``lipschitz`` bounds the length of every gradient, by promise: a longer one is refused, or with ``clip``
    shortened and counted. ``sums`` is ``"sqrt"`` or ``"blt"`` (Gaussian, needs delta), ``"tree"`` (Gaussian
    binary tree), ``"laplace tree"`` or ``"spherical tree"`` (pure epsilon); ``"auto"`` the first, or the last
    when the budget has no delta. Memory: O(log rounds) vectors.

    ``calibration="published"`` is the paper's Algorithm 1: spherical noise for the norm L instead of the
    difference 2L, no other regulariser, and for costs without curvature H = (L / diameter) p ln(T)^2.5 /
    (epsilon sqrt(T)) a round, which the paper prints without its units. Under replace-one neighbours it
    is 2 epsilon-DP; the account says so.

    Formal guarantee: replacing a person moves one gradient by at most 2L (adding one: L) in L2; everything
    after the running sum is post-processing. Holds for costs chosen with knowledge of all earlier points, and
    so does ``certified_regret``.

    >>> import discreet as dc
    >>> from discreet.constraints.domains import Ball
    >>> from discreet.objectives.losses import Logistic
    >>> people = Logistic([[0.6, 0.8], [-0.6, -0.8]] * 50, [1, -1] * 50)
    >>> learner = ApproximateLeader(Ball(2, 5.0), len(people), dc.Budget(1.0, 1e-6), lipschitz=1.0, seed=0)
    >>> learner.run(people)
    CostTrace(ApproximateLeader: 100 rounds, average 0.2830; not private, in no account)
    """

    def __init__(
        self,
        domain: Domain,
        rounds: int,
        budget: Budget,
        *,
        lipschitz: float,
        strong_convexity: float = 0.0,
        sums: str = "auto",
        regularization: float | str = "auto",
        clip: bool = False,
        calibration: str = "tight",
        seed: Seed = None,
    ) -> None:
        if not isinstance(domain, Domain):
            raise TypeError(
                f"domain must be a Domain such as domains.Ball(3, 1.0), got {checks.shown(domain)}"
            )
        self.lipschitz = checks.real("lipschitz", lipschitz, above=0.0)
        self.strong_convexity = checks.real("strong_convexity", strong_convexity, at_least=0.0)
        published = calibration == "published"
        if published and (sums != "auto" or regularization != "auto"):
            raise ValueError('calibration="published" has its own sums= and regularization=; leave them out')
        chosen = _sums(sums, budget, "spherical tree", published)
        super().__init__(
            domain,
            rounds,
            budget,
            inputs=_gradient_inputs(domain.dimension, self.lipschitz, None, chosen),
            sums=chosen,
            clip=clip,
            calibration=calibration,
            seed=seed,
        )
        self._growing = 0.0
        if published:
            self.regularization = 0.0
            if self.strong_convexity == 0.0:
                self._growing = self._published_pull(budget)
        elif isinstance(regularization, str):
            checks.one_of("regularization", regularization, ("auto", "optimistic"))
            self.regularization = self._best_regularization(regularization == "optimistic")
        else:
            self.regularization = checks.real("regularization", regularization, at_least=0.0)
            if self.regularization + self.strong_convexity < _LEAST_PULL * self.lipschitz:
                raise ValueError(
                    f"regularization={self.regularization:g} is nothing beside lipschitz={self.lipschitz:g},"
                    " and needs costs with strong_convexity above 0; leave it at 'auto'"
                )
        self._played = np.zeros(domain.dimension)

    @property
    def certified_regret(self) -> float:
        """Bound on the expected regret against the best fixed point (see `bounds.convex.approximate_leader`).

        For gradients within ``lipschitz``, of every person of the stream: rounds that are not learned from
        (beyond ``max_rounds_per_person``) and clipped gradients are not in it.
        """
        return bounds.approximate_leader(*self._question, self.regularization, self._growing)

    def _best_regularization(self, optimistic: bool) -> float:
        rounds, lipschitz, radius, diameter, noise, curved = self._question
        # What a gradient sees of noise that knows nothing of it is one coordinate.
        noise /= math.sqrt(self.domain.dimension) if optimistic else 1.0
        return bounds.best_regularization(rounds, lipschitz, radius, diameter, noise, curved)

    @property
    def _question(self) -> tuple[int, float, float, float, float, float]:
        domain, noise = self.domain, bounds.worst_noise(self._sum)
        return (
            self.horizon,
            self.lipschitz,
            domain.outer_radius,
            domain.diameter,
            noise,
            self.strong_convexity,
        )

    def _published_pull(self, budget: Budget) -> float:
        logs = math.log(max(self.horizon, 2)) ** 2.5
        unit = self.lipschitz / self.domain.diameter
        return float(unit * self.domain.dimension * logs / (budget.epsilon * math.sqrt(self.horizon)))

    def _run(self, stream: Stream) -> None:
        people, total, shape = stream.people, self._sum, _shape(self.domain)
        rows = people.compiled() if isinstance(people, Losses) else None
        # What may have to be refused, or leave the range of floats, goes round by round.
        if rows is None or shape is None or not isinstance(total, CompiledSum) or not self._surely(people):
            super()._run(stream)
            return

        count, first = stream.rewards.size, 0
        while first < count:
            self._next()
            assert self._shown is not None
            size = min(count - first, total.rows_ahead() + 1)
            stop = first + size
            shown, played = self._shown.copy(), self._played.copy()
            pending = np.zeros(self.domain.dimension)
            with total.compiled(size - 1) as (inside, known):
                shortened = backends.convex.leader_rounds(
                    rows,
                    first,
                    stream.admitted[first:stop],
                    self._limit,
                    self._longest,
                    self.strong_convexity,
                    self.regularization,
                    self._round,
                    shape,
                    inside,
                    known,
                    played,
                    shown,
                    pending,
                    stream.rewards[first:stop],
                    stream.selections[first:stop],
                )
                self._round += size
                self._open = False
                self._shown, self._played, self._pending = shown, played, pending
                self._insecure_clipped += shortened
            first = stop

    def _surely(self, people: Losses) -> bool:
        """Whether no gradient of ``people`` can be refused, by what they promise."""
        longest = people.lipschitz(self.domain)
        return longest < _LARGEST and (self.clip or longest <= self._limit)

    @property
    def _limit(self) -> float:
        """Longer gradients break the promise; up to here it is rounding."""
        return self.lipschitz * (1.0 + 1e-12)

    @property
    def _longest(self) -> float:
        """What gradients are shortened to: within ``lipschitz`` however their length is rounded."""
        return self.lipschitz * (1.0 - (2 * self.domain.dimension + 32) * 2.0**-53)

    def _leader(self, known: Vector) -> Vector:
        held = self.regularization + self._growing * self._round
        shape = _shape(self.domain)
        if shape is not None:
            point = np.empty(self.domain.dimension)
            backends.convex.follow(
                known, self._played, self.strong_convexity, held, self._round, shape, point
            )
            return point
        curved = self.strong_convexity * self._round
        aim = self.strong_convexity * self._played + held * self.domain.center - known
        return self.domain.project(aim / (curved + held))

    def _passed(self, point: Vector) -> None:
        self._played = self._played + point

    def _declared(self) -> VectorBounds:
        return _gradient_inputs(self.domain.dimension, self.lipschitz, None, self.sums)

    def _bounded(self, gradient: Vector) -> tuple[Vector, bool]:

        kept = np.array(gradient, dtype=np.float64)
        checks.finite("the gradient at the shown point", kept)
        length = float(backends.convex.shorten(kept, self._longest))
        if length > self._limit and not self.clip:
            raise ValueError(
                f"the gradient at the shown point has length {length:.6g}, beyond lipschitz="
                f"{self.lipschitz:g}; declare a larger bound, rescale the costs, or pass clip=True to shorten"
                " long gradients"
            )
        return kept, length > self._limit

    def _settings(self) -> dict[str, Any]:
        return super()._settings() | {
            "lipschitz": self.lipschitz,
            "strong_convexity": self.strong_convexity,
            "regularization": self.regularization,
            "growing": self._growing,
        }

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return super()._arrays() | {"played": self._played}

    def _restore_promise(self, saved: Saved) -> None:
        self.lipschitz = saved.real("lipschitz", above=0.0)

    def _restore(self, saved: Saved) -> None:
        super()._restore(saved)
        self.strong_convexity = saved.real("strong_convexity", at_least=0.0)
        self.regularization = saved.real("regularization", at_least=0.0)
        self._growing = saved.real("growing", at_least=0.0)
        if not self.strong_convexity + self.regularization + self._growing > 0.0:
            raise ValueError("regularization, growing and strong_convexity are all 0")
        self._played = saved.array("played", (self.domain.dimension,))


class LinearLeader(SumLeader):
    """Follow the regularised leader on private sums of linear costs (Agarwal and Singh 2017).

    Costs <c_t, w>: experts on the simplex (``regularizer="entropy"``), directions in a ball or a box
    (``"euclidean"``); ``"auto"`` takes entropy on a `domains.Simplex`. ``box=(low, high)`` says where each
    entry of a cost vector lies, ``lipschitz`` bounds its Euclidean length: give one of them, or both. A cost
    is a vector, a `losses.Linear`, or anything with ``value`` and ``gradient`` (its gradient is taken; where
    it changes with the point, privacy holds, and ``certified_regret`` does not: take `ApproximateLeader`).

    What a cost vector is does not depend on the point that was played, so for streams fixed in advance the
    noise of all rounds can be exchanged for one draw made before the first: it enters the regret once, not
    once a round, and the rate is that of no privacy. This needs noise that never shrinks from one sum to the
    next. Factorised sums have it; to sums of a tree, fresh public noise is added until each has the same
    number of draws (as often as the paper's tree; Gaussian ones: the same variance as any before).

    ``calibration="published"``: Laplace noise of the largest L1 norm times the levels over epsilon. That
    holds for costs in [0, 1], and is 2 epsilon-DP for signed ones; the account says which.

    Formal guarantee: replacing a person moves one cost vector by at most the width of the box in each
    coordinate, or 2 ``lipschitz``, whichever is less (L2, or L1 for Laplace noise). Holds also for costs
    chosen with knowledge of all earlier points; ``certified_regret`` holds for streams fixed in advance.

    >>> import discreet as dc
    >>> from discreet.constraints.domains import Simplex
    >>> learner = LinearLeader(Simplex(3), 200, dc.Budget(1.0), box=(0.0, 1.0), seed=0)
    >>> learner.run([[0.0, 1.0, 1.0]] * 200)
    CostTrace(LinearLeader: 200 rounds, average 0.3482; not private, in no account)
    """

    def __init__(
        self,
        domain: Domain,
        rounds: int,
        budget: Budget,
        *,
        box: tuple[float, float] | None = None,
        lipschitz: float | None = None,
        regularizer: str = "auto",
        sums: str = "auto",
        rate: float | None = None,
        clip: bool = False,
        calibration: str = "tight",
        seed: Seed = None,
    ) -> None:
        if not isinstance(domain, Domain):
            raise TypeError(f"domain must be a Domain such as domains.Simplex(3), got {checks.shown(domain)}")
        if box is None and lipschitz is None:
            raise ValueError("say how large a cost vector can be: box=(low, high), or lipschitz=...")
        checks.one_of("regularizer", regularizer, ("auto", "entropy", "euclidean"))
        simplex = isinstance(domain, Simplex)
        if regularizer == "entropy" and not simplex:
            raise ValueError('regularizer="entropy" is for domains.Simplex; use "euclidean" elsewhere')
        self.regularizer = ("entropy" if simplex else "euclidean") if regularizer == "auto" else regularizer
        published = calibration == "published"
        if published and (sums != "auto" or rate is not None):
            raise ValueError('calibration="published" has its own sums= and rate=; leave them out')
        # Spherical noise is shorter where only a length is promised, Laplace noise where the entries are.
        pure = "laplace tree" if published or box is not None else "spherical tree"
        chosen = _sums(sums, budget, pure, published)
        # The promise in L2, whatever the noise: what a vector is checked against.
        self._promise = VectorBounds(domain.dimension, 2, lipschitz, box)
        self.box, self.lipschitz = self._promise.box, self._promise.norm_bound
        super().__init__(
            domain,
            rounds,
            budget,
            inputs=_gradient_inputs(domain.dimension, lipschitz, box, chosen),
            sums=chosen,
            clip=clip,
            calibration=calibration,
            seed=seed,
        )
        self.rate = self._best_rate() if rate is None else checks.real("rate", rate, above=0.0)
        self._coins = self._gate.coins()
        self._topped_up = 0.0

    @property
    def certified_regret(self) -> float:
        """Bound on the expected regret against the best fixed point, for linear costs fixed in advance.

        See `bounds.convex.linear_experts` (entropy) and `bounds.convex.linear_leader` (Euclidean). Rounds
        that are not learned from (beyond ``max_rounds_per_person``) and clipped costs are not in it.
        """
        domain = self.domain
        if self.regularizer == "entropy":
            return bounds.linear_experts(
                domain.dimension, self.horizon, self._spread, self._pull(), self.rate
            )
        return bounds.linear_leader(
            self.horizon, self._length, domain.outer_radius, domain.diameter, self._noise(), 1.0 / self.rate
        )

    @property
    def _length(self) -> float:
        """No cost vector is longer."""
        return self._promise.difference("add_remove")

    @property
    def _spread(self) -> float:
        """No two entries of one cost vector are further apart."""
        spreads = [] if self.box is None else [self.box[1] - self.box[0]]
        if self.lipschitz is not None:
            spreads.append(math.sqrt(2.0) * self.lipschitz)
        return min(spreads)

    def _best_rate(self) -> float:
        if self.regularizer == "entropy":
            return math.sqrt(8.0 * math.log(self.domain.dimension) / self.horizon) / self._spread
        return self.domain.outer_radius / (self._length * math.sqrt(self.horizon))

    def _noise(self) -> float:
        """Root mean square length of the noise of the last sum, with what is added to it."""
        draws = self._most_draws
        if self._sum is not None and draws is not None:
            return math.sqrt(self.domain.dimension * draws) * self._sum.noise_std(1)
        return bounds.worst_noise(self._sum)

    def _pull(self) -> float:
        """Expected largest coordinate of that noise, or a bound on it."""
        if self._sum is None:
            return 0.0
        size = self.domain.dimension
        if self.sums == "laplace tree":
            return laplace_pull(size, self._sum.noise_std(1) / math.sqrt(2.0), self._most_draws or 1)
        if self.sums == "spherical tree":
            return self._noise()
        return gaussian_pull(size, self._noise() / math.sqrt(size))

    @property
    def _most_draws(self) -> int | None:
        """Noise vectors that every sum of a pure tree carries; None for Gaussian noise."""
        if self._sum is None or self.sums not in ("laplace tree", "spherical tree"):
            return None
        return max(2 if self._sum.rounds == 2 else 1, tree_levels(self._sum.rounds))

    def _leader(self, known: Vector) -> Vector:
        total = known + self._top_up()
        if self.regularizer == "entropy":
            weights = np.exp(-self.rate * (total - total.min()))
            return np.asarray(weights / weights.sum(), dtype=np.float64)
        return self.domain.project(self.domain.center - self.rate * total)

    def _top_up(self) -> Vector | float:
        """Public noise that keeps the noise of the sums from ever shrinking."""
        total, size = self._sum, self.domain.dimension
        if not isinstance(total, TreeSum) or not self.budget.private:
            return 0.0
        most = self._most_draws
        if most is None:
            now = total.noise_std(total.taken)
            self._topped_up = max(self._topped_up, now)
            return self._coins.generator.normal(0.0, math.sqrt(self._topped_up**2 - now**2), size)
        missing = most - total.draws(total.taken)
        unit = total.noise_std(1)
        if self.sums == "laplace tree":
            return np.asarray(
                self._coins.generator.laplace(0.0, unit / math.sqrt(2.0), (missing, size)).sum(axis=0)
            )
        steps = self._coins.generator.standard_normal((missing, size))
        lengths = self._coins.generator.gamma(size, unit / math.sqrt(size + 1.0), missing)
        steps *= (lengths / np.linalg.norm(steps, axis=1))[:, None]
        return np.asarray(steps.sum(axis=0))

    def _gradient(self, person: Any, point: Vector) -> Vector:
        if isinstance(person, Losses) or hasattr(person, "gradient") or _pair(person):
            return super()._gradient(person, point)
        return answers.vector("cost", person, self.domain.dimension)

    def _worth(self, person: Any, decision: Vector) -> float:
        if isinstance(person, Losses) or hasattr(person, "value") or _pair(person):
            return super()._worth(person, decision)
        return answers.number("cost", answers.vector("cost", person, self.domain.dimension) @ decision)

    def _declared(self) -> VectorBounds:
        return _gradient_inputs(self.domain.dimension, self.lipschitz, self.box, self.sums)

    def _bounded(self, gradient: Vector) -> tuple[Vector, bool]:
        try:
            kept = self._promise.checked(gradient, clip=self.clip)
        except ValueError as error:
            raise ValueError(f"the cost vector is not what was declared: {error}") from error
        return kept, bool(np.abs(kept - gradient).max() > 1e-12 * np.abs(gradient).max())

    def _settings(self) -> dict[str, Any]:
        return super()._settings() | {
            "box": self.box,
            "lipschitz": self.lipschitz,
            "regularizer": self.regularizer,
            "rate": self.rate,
            "topped_up": self._topped_up,
            "coins": self._coins.state(),
        }

    def _restore_promise(self, saved: Saved) -> None:
        box: Any = tuple(saved.rows("box", at_most=2)) if saved.given("box") else None
        length = saved.real("lipschitz", above=0.0) if saved.given("lipschitz") else None
        self._promise = VectorBounds(self.domain.dimension, 2, length, box)
        self.box, self.lipschitz = self._promise.box, self._promise.norm_bound

    def _restore(self, saved: Saved) -> None:
        super()._restore(saved)
        simplex = isinstance(self.domain, Simplex)
        self.regularizer = saved.one_of(
            "regularizer", ("entropy", "euclidean") if simplex else ("euclidean",)
        )
        self.rate, self._topped_up = saved.real("rate", above=0.0), saved.real("topped_up", at_least=0.0)
        self._coins = Coins.restored(saved.inner("coins"))


def _shape(domain: Domain) -> Shape | None:
    """A ball or a box as compiled loops take it; None for any other set."""
    if type(domain) is Ball:
        return domain.center, domain.radius, domain.center, domain.center
    if type(domain) is Box:
        return domain.center, -1.0, domain.low, domain.high
    return None


def _pair(person: Any) -> bool:
    return isinstance(person, tuple | list) and len(person) == 2 and callable(person[0])


def _sums(asked: str, budget: Budget, pure: str, published: bool) -> str:
    """The kind of sum: as asked, or Gaussian where the budget has a delta (or no noise is needed)."""
    if not isinstance(budget, Budget):
        raise TypeError(f"budget must be a Budget such as Budget(1.0, 1e-6), got {checks.shown(budget)}")
    if published:
        return pure
    if asked == "auto":
        return "sqrt" if budget.delta or not budget.private else pure
    chosen = checks.one_of("sums", asked, ("auto", *SUMS))
    if budget.private and not budget.delta and chosen in ("sqrt", "blt", "tree"):
        raise ValueError(
            f"sums={chosen!r} adds Gaussian noise, which needs delta > 0; give the budget a delta or take"
            f' sums="{pure}"'
        )
    return chosen


def _gradient_inputs(
    dimension: int, lipschitz: float | None, box: tuple[float, float] | None, sums: str
) -> VectorBounds:
    """What is promised about gradients, in the norm of the noise: lengths are in L2, Laplace noise in L1."""
    if sums != "laplace tree":
        return VectorBounds(dimension, 2, lipschitz, box)
    sum_bound = None if lipschitz is None else lipschitz * math.sqrt(dimension) * (1.0 + 2.0**-50)
    return VectorBounds(dimension, 1, sum_bound, box)


def _running_sum(
    gate: Gate, inputs: VectorBounds, releases: int, sums: str, event: Event | None = None
) -> RunningSum:
    noise = _NOISES.get(sums, "gaussian")
    method = sums if sums in ("sqrt", "blt") else "tree"
    spec = SumSpec(inputs, releases, method, noise, variance_reduction=sums == "tree")
    kind = CompiledSum if method != "tree" else spec.kind
    # Only rounding is left to clip: gradients were checked before.
    return kind.of(spec, gate, event=event, clip=True, label="gradients")
