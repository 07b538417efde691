"""Choose a set every round so that the people's submodular costs stay low, all of them seen."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ... import backends
from ...bounds import minimization as bounds
from ...core import checks
from ...core.progress import track
from ...core.state import Saved
from ...objectives import GraphCut, Population, answers
from ...privacy import Account, Budget, Coins, Event, LaplaceNoise, RunningSum, Seed, TreeSum, tree_levels
from ...privacy.published import true_budget
from ...privacy.sums.compiled import CompiledSum
from ...results import CostTrace, Selection
from ..protocol import OnlineLearner, Stream
from ..select.selector import check_population, item_labels, saved_labels
from .lovasz_sums import (
    ROUNDING,
    chosen_sums,
    gradient_sum,
    noise_pull,
    published_event,
    sum_spec,
)

if TYPE_CHECKING:
    from ...backends.arguments import Cuts, FactorizedState

SUMS = ("auto", "sqrt", "blt", "tree")
NOISES = ("auto", "gaussian", "spherical", "laplace")
# What a default gives away of its certificate, which is for the worst stream, to learn faster on others: half
# the regularization costs (2 + 1/2) / 2 of the best bound.
BOLDER = 0.5
# Beyond these, squares of the bound and sums over the rounds leave the range of floats.
_MOST_ROUNDS, _MOST_BOUND = 1 << 40, 1e100


def checked_question(
    n_items: int, rounds: int, budget: Budget, bound: float
) -> tuple[int, int, Budget, float]:
    """What every learner, and every certificate, is asked for, within its range."""
    if not isinstance(budget, Budget):
        raise TypeError(
            f"budget must be a Budget, got {checks.shown(budget)}; e.g. Budget(epsilon=1.0, delta=1e-6)"
        )
    return (
        checks.whole("n_items", n_items, at_least=1),
        checks.whole("rounds", rounds, at_least=1, at_most=_MOST_ROUNDS),
        budget,
        checks.real("bound", bound, at_least=1.0 / _MOST_BOUND, at_most=_MOST_BOUND),
    )


class SetMinimizer(OnlineLearner):
    """A set of any size every round, and what it costs the person of that round."""

    _noun: ClassVar[str] = "set"

    def __init__(
        self,
        n_items: int,
        rounds: int,
        budget: Budget,
        *,
        bound: float = 1.0,
        calibration: str = "tight",
        labels: Sequence[Any] | None = None,
        clip: bool = False,
        seed: Seed = None,
    ) -> None:
        self.n_items = checks.whole("n_items", n_items, at_least=1)
        self.bound = checks.real("bound", bound, above=0.0)
        self.labels = item_labels(labels, self.n_items)
        self.clip = bool(clip)
        super().__init__(
            checks.whole("rounds", rounds, at_least=1), budget, calibration=calibration, seed=seed
        )
        self._clipped = 0

    # --- for users -------------------------------------------------------------------------------

    @property
    def clipped(self) -> int:
        """How many people were clipped to the bound: a fact about private people, not for release."""
        return self._clipped

    @property
    def horizon(self) -> int:
        assert self.rounds is not None
        return self.rounds

    def choose(self) -> Selection:
        """The set for this round; it may be empty."""
        chosen: Selection = super().choose()
        return chosen

    def run(
        self, people: Population, *, person_ids: Sequence[Hashable] | None = None, progress: bool = False
    ) -> CostTrace:
        """The whole stream at once: the same sets, for the same seed, as `choose` and `learn` one by one.

        ``person_ids`` as in `learn`, one per person. People beyond the declared horizon are served the last
        set and not learned from.
        """
        trace: CostTrace = super().run(people, person_ids=person_ids, progress=progress)
        return trace

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.n_items:,} items, round {self._round:,} of {self.rounds:,})"

    # --- for the protocol ------------------------------------------------------------------------

    @property
    def _width(self) -> int:
        return self.n_items

    def _due(self) -> bool:
        return True

    def _decision(self, shown: NDArray[Any]) -> Selection:
        items = tuple(int(item) for item in np.flatnonzero(shown))
        labels = None if self.labels is None else tuple(self.labels[item] for item in items)
        return Selection(items, self._round, labels)

    def _row(self, decision: Selection) -> NDArray[np.float64]:
        row = np.zeros(self.n_items)
        row[list(decision.items)] = 1.0
        return row

    def _worth(self, person: Any, decision: Selection) -> float:
        limit = math.inf if self.clip else self.bound
        return answers.number("value", person.value(decision.items), -limit, limit)

    def _trace(self, rewards: NDArray[np.float64], selections: NDArray[Any]) -> CostTrace:
        return CostTrace(rewards, selections, type(self).__name__)

    def _check_people(self, people: Any) -> None:
        check_population(people, self.n_items, math.inf if self.clip else self.bound)

    def _run(self, stream: Stream) -> None:
        if isinstance(stream.people, GraphCut):
            self._run_cuts(stream, stream.people.as_arcs())
        else:
            super()._run(stream)

    @abstractmethod
    def _run_cuts(self, stream: Stream, cuts: Cuts) -> None:
        """The same as `_run`, with the same outcome, for people who are cuts with prices: compiled."""

    def _settings(self) -> dict[str, Any]:
        return super()._settings() | {
            "n_items": self.n_items,
            "bound": self.bound,
            "labels": None if self.labels is None else list(self.labels),
            "clip": self.clip,
            "clipped": self._clipped,
        }

    def _restore(self, saved: Saved) -> None:
        checks.whole("rounds", self.horizon, at_least=1, at_most=_MOST_ROUNDS)
        self.n_items = saved.whole("n_items", at_least=1)
        self.bound = saved.real("bound", at_least=1.0 / _MOST_BOUND, at_most=_MOST_BOUND)
        self.labels = saved_labels(saved, self.n_items)
        self.clip = saved.flag("clip")
        self._clipped = saved.hidden("clipped", at_least=0, at_most=self._round)

    def _could_show(self, shown: NDArray[Any]) -> bool:
        return super()._could_show(shown) and bool(((shown == 0.0) | (shown == 1.0)).all())


class SubmodularMinimizer(SetMinimizer):
    """Follow the regularised leader on private sums of Lovasz gradients; serve a set drawn by a threshold.

    The point x in [0, 1]^n that minimises <v, x> + H/2 |x - 1/2|^2 has a closed form; a public coin tau makes
    it the set {i : x_i > tau}. The person's costs along the chain of sets that x passes through give a
    gradient, and v is the private running sum of these: SUBMODPRFTL of Cardoso and Cummings (2019; proofs in
    paper 001). Costs are any submodular functions with values in [-``bound``, ``bound``], rising or falling:
    `GraphCut`, `SetFunction`, mixtures. A Lovasz extension is piecewise linear: merely Lipschitz, so there is
    no strongly convex case here, as there is none in the paper.

    ``sums`` and ``noise``: ``"sqrt"`` or ``"blt"`` with Gaussian noise; ``"tree"`` with Gaussian, spherical
    (the paper's) or per-coordinate Laplace noise, the last two for a pure epsilon. ``"auto"`` is ``"sqrt"``
    where the budget has a delta, else the tree whose noise certifies less. ``regularization`` is H; if not
    given, half of what the certified regret is smallest at: a quarter more is certified, and learning is
    twice as fast. ``empty_is_free`` promises that the empty set costs everybody 0, which saves a quarter of
    the noise. ``check=m`` asks every person m questions that a cost which is not submodular may fail; it
    is refused then, and the round stays open. ``clip=True`` shortens gradients that the bound does not allow
    instead of refusing them; ``clipped`` counts them.

    Formal guarantee: replacing a person moves one gradient by at most 2 sqrt(6) ``bound`` in L2, 8 ``bound``
    in L1, adding or removing one by 2 sqrt(2) and 4 ``bound`` (`bounds.minimization.gradient_difference`);
    every gradient is held to exactly the set that these numbers are about. Everything after the running sum
    is post-processing. Holds for people chosen with knowledge of all earlier sets.

    ``calibration="published"`` has the paper's constants: spherical noise for a difference of 4 ``bound``,
    one tree level too many, H = M sqrt(T), centre 0. The account tells what that really costs.

    >>> import discreet as dc
    >>> people = dc.objectives.GraphCut([[[0, 1], [0, 0]]] * 500, modular=[-1.0, 0.5], directed=True, bound=2)
    >>> learner = SubmodularMinimizer(2, len(people), dc.Budget(4.0, 1e-6), bound=2.0, seed=0)
    >>> trace = learner.run(people)
    >>> learner.privacy.epsilon(1e-6) <= 4.0, trace.average < 0.0
    (True, True)
    """

    def __init__(
        self,
        n_items: int,
        rounds: int,
        budget: Budget,
        bound: float = 1.0,
        *,
        sums: str = "auto",
        noise: str = "auto",
        regularization: float | None = None,
        empty_is_free: bool = False,
        check: int = 0,
        calibration: str = "tight",
        labels: Sequence[Any] | None = None,
        clip: bool = False,
        seed: Seed = None,
    ) -> None:
        items, horizon, budget, largest = checked_question(n_items, rounds, budget, bound)
        checks.one_of("sums", sums, SUMS)
        checks.one_of("noise", noise, NOISES)
        self.empty_is_free = bool(empty_is_free)
        self.check = checks.whole("check", check, at_least=0)
        self._centre = 0.5
        event: Event | None = None
        if calibration == "published":
            if sums not in ("auto", "tree") or noise not in ("auto", "spherical"):
                raise ValueError(
                    f"sums={sums!r} and noise={noise!r} are not what was published, a tree with spherical"
                    " noise; leave them out"
                )
            self.sums, self.noise, self._centre = "tree", "spherical", 0.0
            event = published_event(items, horizon, budget, largest, self.empty_is_free)
            default = largest * math.sqrt(horizon)
            if horizon > 1:
                budget = true_budget(budget, [(event, tree_levels(horizon - 1))], "SubmodularMinimizer")
        else:
            question = (items, horizon, budget, largest)
            self.sums, self.noise = chosen_sums(*question, sums, noise, self.empty_is_free)
            pull = noise_pull(*question, self.sums, self.noise, self.empty_is_free)
            default = BOLDER * bounds.best_regularization(
                items, horizon, pull, largest, empty_is_free=self.empty_is_free
            )
        wanted = default if regularization is None else regularization
        self.regularization = checks.real("regularization", wanted, above=0.0)
        super().__init__(
            items, horizon, budget, bound=bound, calibration=calibration, labels=labels, clip=clip, seed=seed
        )
        self._coins = self._gate.coins()
        self._check_coins = self._gate.coins(1)
        self._sum: RunningSum | None = None
        if horizon > 1:
            self._sum = self._made_sum(event)
        self._known = np.zeros(items)
        self._pending = np.zeros(items)

    def _made_sum(self, event: Event | None) -> RunningSum:
        kinds = (self.bound, self.sums, self.noise, self.empty_is_free)
        spec = sum_spec(self.n_items, self.horizon - 1, self.budget.neighbours, *kinds)
        return gradient_sum(spec, self._gate, event)

    # --- for users -------------------------------------------------------------------------------

    @property
    def point(self) -> NDArray[np.float64]:
        """The point of [0, 1]^n that this round's set was drawn from: each item's chance to be in it."""
        return np.clip(self._centre - self._known / self.regularization, 0.0, 1.0)

    @property
    def certified_regret(self) -> float:
        """Bound on the expected cost beyond the best fixed set's, over the declared rounds.

        `bounds.minimization.chain_leader`; rounds that are not learned from are not in it.
        """
        free = self.empty_is_free
        if self.calibration == "published":
            event = None if self._sum is None else self._sum.event
            scale = float(event.scale) if isinstance(event, LaplaceNoise) else 0.0
            nodes = TreeSum.mean_draws(self.horizon)
            pull = bounds.moved_by(self.n_items, self.noise, scale, nodes, self.bound, empty_is_free=free)
        else:
            question = (self.n_items, self.horizon, self.budget, self.bound)
            pull = noise_pull(*question, self.sums, self.noise, free)
        return bounds.chain_leader(
            self.n_items,
            self.horizon,
            self.regularization,
            pull,
            self.bound,
            empty_is_free=free,
            centre=self._centre,
        )

    @staticmethod
    def certify(
        n_items: int,
        rounds: int,
        budget: Budget,
        *,
        bound: float = 1.0,
        sums: str = "auto",
        noise: str = "auto",
        regularization: float | None = None,
        empty_is_free: bool = False,
    ) -> float:
        """`certified_regret` of a learner with these settings, without making one."""
        question = checked_question(n_items, rounds, budget, bound)
        checks.one_of("sums", sums, SUMS)
        checks.one_of("noise", noise, NOISES)
        kinds = chosen_sums(*question, sums, noise, empty_is_free)
        pull = noise_pull(*question, *kinds, empty_is_free)
        best = bounds.best_regularization(n_items, rounds, pull, bound, empty_is_free=empty_is_free)
        wanted = BOLDER * best if regularization is None else regularization
        strength = checks.real("regularization", wanted, above=0.0)
        return bounds.chain_leader(n_items, rounds, strength, pull, bound, empty_is_free=empty_is_free)

    # --- for the protocol ------------------------------------------------------------------------

    def _draw(self) -> NDArray[np.float64]:

        if self._round and self._sum is not None and self._sum.taken < self._sum.rounds:
            gradient, self._pending = self._pending, np.zeros(self.n_items)  # nobody is to be added twice
            self._known = self._sum.add(gradient)
        shown = np.empty(self.n_items)
        backends.minimization.threshold(
            self._known, self.regularization, self._centre, float(self._coins.generator.random()), shown
        )
        return shown

    def _order(self) -> NDArray[np.int64]:
        """The items as the chain adds them; ties of x are broken by the sums, those of the sums by number."""

        order = np.arange(self.n_items)
        backends.minimization.put_in_order(self._known, order)
        return order

    def _prepared(self, person: Any) -> tuple[NDArray[np.float64], bool]:
        """The person's gradient along this round's chain, and whether it had to be clipped."""

        self._check_people(person)
        if len(person) != 1:
            raise ValueError("learn() takes one person; use run() for a stream")
        limit = self._limit(person)
        if isinstance(person, GraphCut):
            gradient = np.empty(self.n_items)
            backends.minimization.cut_gradient(person.as_arcs(), 0, self._known, gradient)
        else:
            self._question(person)
            gradient = answers.vector("gradient", person.lovasz_gradient(-self._known), self.n_items)
        size = backends.minimization.gauge(gradient, self._order(), self.empty_is_free)
        if size <= limit:
            return gradient, False
        outside = bool(size > limit * (1.0 + ROUNDING))
        if outside and not self.clip:
            raise ValueError(
                f"along this round's sets the person's costs need a range of {size:.6g}, above {limit:g}:"
                f" they leave [-{self.bound:g}, {self.bound:g}], or the cost is not submodular; rescale,"
                " declare a larger bound, or pass clip=True"
            )
        return gradient * (limit / size), outside

    def _limit(self, people: Population) -> float:
        """What `kernels.minimization.gauge` may be; infinite for cuts, which are held to their own bound."""
        if isinstance(people, GraphCut) and people.bound <= self.bound:
            return math.inf
        return self.bound if self.empty_is_free else 2.0 * self.bound

    def _question(self, person: Population) -> None:
        """Refuse a cost that breaks a promise on a few random sets; the sets depend on nobody."""
        slack = ROUNDING * self.bound

        def cost(items: list[int]) -> float:
            return answers.number("value", person.value(items))

        if self.empty_is_free and abs(empty := cost([])) > slack:
            raise ValueError(f"the empty set costs {empty:g}; empty_is_free=True promises 0")
        if not self.check or self.n_items < 2:
            return
        coins = self._check_coins.of_round(self._round)
        for _ in range(self.check):
            i, j = (int(item) for item in coins.choice(self.n_items, size=2, replace=False))
            inside = coins.random(self.n_items) < 0.5
            inside[[i, j]] = False
            base = [int(item) for item in np.flatnonzero(inside)]
            alone = cost([*base, i]) - cost(base)
            later = cost([*base, j, i]) - cost([*base, j])
            if later > alone + 4.0 * slack:
                raise ValueError(
                    f"the cost is not submodular: item {i} adds {alone:.6g} to {base}, and {later:.6g} after"
                    f" item {j} has joined; give submodular costs, or leave check out"
                )

    def _absorb(self, person: tuple[NDArray[np.float64], bool]) -> None:
        self._pending, clipped = person
        self._clipped += clipped

    def _run_cuts(self, stream: Stream, cuts: Cuts) -> None:
        if not isinstance(self._sum, CompiledSum):
            self._run_single_cuts(stream, cuts)
            return

        total, count, first = self._sum, stream.rewards.size, 0
        limit = self._limit(stream.people)
        while first < count:
            self._next()
            assert self._shown is not None
            size = min(count - first, total.rows_ahead() + 1)
            stop = first + size
            shown = self._shown.copy()
            pending = np.zeros(self.n_items)
            coins = self._coins.generator.random(size - 1)
            with total.compiled(size - 1) as (inside, known):
                clipped = backends.minimization.cut_rounds(
                    cuts,
                    first,
                    stream.admitted[first:stop],
                    limit,
                    self.empty_is_free,
                    self.regularization,
                    self._centre,
                    coins,
                    shown,
                    inside,
                    known,
                    pending,
                    stream.rewards[first:stop],
                    stream.selections[first:stop],
                )
                self._round += size
                self._open = False
                self._pending, self._known, self._shown = pending, known.copy(), shown
                self._clipped += clipped
            first = stop

    def _run_single_cuts(self, stream: Stream, cuts: Cuts) -> None:
        """Trees: the same gradients, compiled one by one, and sums as `TreeSum` takes them."""

        limit = self._limit(stream.people)
        still = np.empty((0, self.n_items), dtype=np.int64)
        none = np.empty((0, self.n_items))
        nothing: FactorizedState = (False, 1, 0, 1.0, still, none, none, np.empty(0), np.empty(0))
        for t in track(range(stream.rewards.size), "rounds", stream.progress):
            self._next()
            assert self._shown is not None
            pending = np.zeros(self.n_items)
            here = slice(t, t + 1)
            clipped = backends.minimization.cut_rounds(
                cuts,
                t,
                stream.admitted[here],
                limit,
                self.empty_is_free,
                self.regularization,
                self._centre,
                np.empty(0),
                self._shown,
                nothing,
                self._known,
                pending,
                stream.rewards[here],
                stream.selections[here],
            )
            self._take((pending, False), True)
            self._clipped += clipped

    def _spent(self) -> Account:
        return self._gate.spent if self._sum is not None and self._sum.taken else self._account()

    # --- saving ----------------------------------------------------------------------------------

    def _settings(self) -> dict[str, Any]:
        settings = super()._settings() | {
            "sums": self.sums,
            "noise": self.noise,
            "regularization": self.regularization,
            "empty_is_free": self.empty_is_free,
            "check": self.check,
            "centre": self._centre,
            "check_coins": self._check_coins.state(),
            "coins": self._coins.state(),
        }
        if self._sum is not None:
            settings["sum"] = self._sum.state()[0]
        return settings

    def _arrays(self) -> dict[str, NDArray[Any]]:
        arrays: dict[str, NDArray[Any]] = {"known": self._known, "pending": self._pending}
        if self._sum is not None:
            arrays |= {f"sum_{name}": array for name, array in self._sum.state()[1].items()}
        return arrays

    def _restore(self, saved: Saved) -> None:
        super()._restore(saved)
        self.sums = saved.one_of("sums", SUMS[1:])
        self.noise = saved.one_of("noise", NOISES[1:] if self.sums == "tree" else ("gaussian",))
        self.regularization = saved.real("regularization", above=0.0)
        self.empty_is_free = saved.flag("empty_is_free")
        self.check = saved.whole("check", at_least=0)
        self._centre = saved.real("centre", at_least=0.0, at_most=1.0)
        self._check_coins = Coins.restored(saved.inner("check_coins"))
        self._coins = Coins.restored(saved.inner("coins"))
        shape = (self.n_items,)
        self._known, self._pending = saved.array("known", shape), saved.array("pending", shape)
        self._sum = self._resumed_sum(saved, self.horizon - 1, self._made_sum, self._drawn(1) - 1)
        if self._sum is not None:
            self._sum.bounds.checked(self._pending, clip=False)
