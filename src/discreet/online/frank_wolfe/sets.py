"""Meta-Frank-Wolfe: maximisation through extensions, by linear experts fed gradients at partial points."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ... import backends
from ...bounds import frank_wolfe as bounds
from ...constraints import Constraint
from ...constraints.domains import Box, Domain
from ...constraints.stored import from_plain, to_plain
from ...core import checks
from ...core.progress import track
from ...core.state import Saved
from ...objectives import Population, answers
from ...objectives.continuous import ContinuousPopulation, MultilinearExtension
from ...objectives.rows.table import Rows
from ...privacy import (
    Account,
    Budget,
    Coins,
    Event,
    LaplaceNoise,
    RunningSum,
    Seed,
    TreeSum,
    VectorBounds,
    tree_levels,
)
from ...privacy.published import PublishedCalibrationWarning, true_budget
from ...results import Selection, Trace
from ..contribution import capped
from ..protocol import OnlineLearner, Stream
from ..select.selector import check_population, item_labels, saved_labels
from .certificate import MOST_STEPS, Certificate
from .certificate import releases as releases_of
from .experts import Leader, node_noise, sum_spec

EXPERTS = ("ftrl", "pftal")
REGULARIZERS = ("entropy", "euclidean")
SUMS = ("sqrt", "blt", "tree")
NOISES = {"ftrl": ("gaussian", "laplace"), "pftal": ("gaussian", "spherical")}
# Bounds beyond these would have squares or units that leave the range of floats.
_LEAST, _MOST = 1e-100, 1e100


class MetaFrankWolfe(OnlineLearner):
    """K linear experts whose average is played; expert k is paid by the gradient where the first k - 1 stop.

    ``experts="ftrl"`` (paper 003, Algorithm 3): people are monotone set functions, ``constraint`` is a
    matroid or a knapsack. The experts follow the regularised leader on private sums of multilinear gradients;
    their average is a point of the polytope (``point``), and `choose` rounds it to a feasible `Selection`
    with public coins. ``regularizer`` is ``"entropy"`` (the paper's) or ``"euclidean"``; by default the one
    that certifies less regret, which is the Euclidean one where few items of each person are counted, and
    serves real streams better there.

    ``experts="pftal"`` (paper 000, Algorithm 4): people are monotone DR-submodular functions with ``value``
    and ``gradient`` (`discreet.objectives.continuous`, any object with these two methods, or a pair of
    functions), ``constraint`` is a `Box` or any constraint's polytope, the experts are
    Euclidean, and `choose` gives the point itself. Paper 000 prints the gradient at the final point; it is
    fed at the k-th partial one, which its proof needs.

    ``steps`` is K: more steps lose less between them (as 1/K) and share the privacy among more experts (noise
    grows as sqrt(K)). ``"auto"`` takes the best certified number, or 4 where nothing can be certified: on
    real streams 2 to 8 do best, because what few steps lose is a worst case and noise is not.
    ``resample_every=B`` feeds the sums and decides anew every B rounds, at the rate of B = 1 unless
    ``"auto"``. ``items_per_person=m`` counts at most m items of each person (rows only): noise grows with
    sqrt(m) instead of sqrt(n_items). ``curvature=True`` pays expert k with w_k of the gradient and 1 - w_k of
    the least gradient, w_k = (1 - 1/K)^(K - k): the same noise, and 1 - kappa/e of the best set instead of
    1 - 1/e, where kappa is the people's largest curvature; nothing needs to be guessed.

    Noise: ``"gaussian"`` on factorised sums (or a tree) where there is a delta; without one, pure epsilon by
    a tree with ``"laplace"`` (sets) or ``"spherical"`` noise (points). ``calibration="published"`` takes the
    papers' constants; what they really give is in ``privacy`` and, for one expert, in ``expert_epsilon``.

    ``bound`` is a public bound of every person's value, and so of every gradient entry of a set function;
    ``gradient_bound`` (points) that of a gradient's length, ``smoothness`` of its change, for the
    certificate. Longer gradients are refused, or shortened and counted (``clipped``) with ``clip=True``.
    ``spot_check=True`` refuses people whose gradients grow along the partial points: not DR-submodular. Set
    functions without a closed form get gradients averaged over ``samples`` public random sets.

    Formal guarantee: one person moves the stacked payoffs by at most bound sqrt(K min(n, 2 m)) in L2
    (replace; bound n per expert in L1; sqrt(2) gradient_bound per expert for points); all else is
    post-processing. Holds for people chosen with knowledge of all earlier decisions.

    >>> import discreet as dc
    >>> people = dc.objectives.Coverage([[1, 0, 0, 1], [0, 1, 0, 0]] * 50)
    >>> one_of_each = dc.constraints.PartitionMatroid([[0, 1], [2, 3]], 1)
    >>> learner = MetaFrankWolfe(one_of_each, len(people), dc.Budget(1.0, 1e-6), steps=2, seed=0)
    >>> one_of_each.contains(learner.choose().items), len(learner.run(people))
    (True, 100)
    """

    _noun: ClassVar[str] = "decision"

    def __init__(
        self,
        constraint: Constraint | Box,
        rounds: int,
        budget: Budget,
        *,
        experts: str = "ftrl",
        n_items: int | None = None,
        steps: int | str = "auto",
        sums: str | None = None,
        noise: str | None = None,
        regularizer: str | None = None,
        curvature: bool = False,
        items_per_person: int | None = None,
        resample_every: int | str = 1,
        rate: float | None = None,
        bound: float = 1.0,
        gradient_bound: float | None = None,
        smoothness: float | None = None,
        clip: bool = False,
        spot_check: bool = False,
        samples: int = 200,
        calibration: str = "tight",
        labels: Sequence[Any] | None = None,
        seed: Seed = None,
    ) -> None:
        self.experts = checks.one_of("experts", experts, EXPERTS)
        horizon = checks.whole("rounds", rounds, at_least=1)
        if not isinstance(budget, Budget):
            raise TypeError(
                f"budget must be a Budget, got {checks.shown(budget)}; e.g. Budget(epsilon=1.0, delta=1e-6)"
            )
        published = checks.one_of("calibration", calibration, ("tight", "published")) == "published"
        self.constraint = self._domain(constraint, n_items)
        self.n_items = _size(self.constraint)
        regularizers = self._kinds_of_leader(regularizer, published)
        self.curvature, self.clip, self.spot_check = bool(curvature), bool(clip), bool(spot_check)
        if self.curvature and self.experts == "pftal":
            raise ValueError('curvature=True is about set functions; it needs experts="ftrl"')
        self.bound = checks.real("bound", bound, at_least=_LEAST, at_most=_MOST)
        self.gradient_bound = self._length(gradient_bound)
        self.smoothness = None if smoothness is None else checks.real("smoothness", smoothness, at_least=0.0)
        if self.experts == "ftrl" and (self.clip or self.smoothness is not None):
            raise ValueError('clip and smoothness are about points; with experts="ftrl" bound says it all')
        self.samples = checks.whole("samples", samples, at_least=2)
        self.items_per_person = (
            None
            if items_per_person is None
            else checks.whole("items_per_person", items_per_person, at_least=1, at_most=self.n_items)
        )
        if self.items_per_person is not None and self.experts == "pftal":
            raise ValueError('items_per_person is about set functions; it needs experts="ftrl"')
        self.labels = item_labels(labels, self.n_items)
        self.sums, self.noise = self._kinds_of_noise(sums, noise, budget, published)
        if published:
            if resample_every != 1 or rate is not None or self.items_per_person is not None:
                raise ValueError(
                    'calibration="published" feeds every round whole; leave resample_every, rate and'
                    ' items_per_person out, or take calibration="tight"'
                )
            if self.curvature or not budget.private:
                raise ValueError(
                    'calibration="published" needs a finite epsilon and curvature=False; no other constants'
                    " were published"
                )
        self.claimed_expert_epsilon: float | None = None
        self._published: float | None = None
        self._tempered: float | None = None
        promises = [
            Certificate(
                Leader(self.constraint, self.n_items, kind), self._one, horizon, budget, self.sums,
                self.noise, self.bound, self.smoothness, self.curvature,
            )
            for kind in regularizers
        ]  # fmt: skip
        settled = [self._settled(promise, steps, resample_every, published) for promise in promises]
        least = [promise.least(*numbers) for promise, numbers in zip(promises, settled, strict=True)]
        chosen = least.index(min(least))
        self._promise, (self.steps, self.resample_every) = promises[chosen], settled[chosen]
        self._leader, self.regularizer = self._promise.leader, regularizers[chosen]
        if published:
            budget = self._as_published(horizon, budget)
            self._promise = replace(self._promise, scale=self._published)
        if self.noise == "spherical" and self.resample_every > 1:
            raise ValueError(
                f'resample_every={self.resample_every}: noise="spherical" sums one person at a time; use 1 or'
                ' noise="gaussian"'
            )
        super().__init__(horizon, budget, calibration=calibration, seed=seed)
        if rate is None:
            # A batch of the user's choosing is taken as a matter of convenience: learn as fast as without it.
            cautious = self.resample_every if resample_every == "auto" else 1
            rate = self._promise.best_rate(self.steps, cautious)
        self.rate = checks.real("rate", rate, above=0.0)
        self._coins = self._gate.coins()
        self._round_coins = self._gate.coins()
        self._sum: RunningSum | None = None
        if self._releases:
            self._sum = self._made_sum()
        self._gathered = np.zeros((self.steps, self.n_items), dtype=np.int64)
        self._known = np.zeros((self.steps, self.n_items))
        self._points = np.zeros((self.steps + 1, self.n_items))
        self._topped_up = 0.0
        self._shortened = 0

    # --- settings ---------------------------------------------------------------------------------

    def _domain(self, constraint: Any, n_items: int | None) -> Constraint | Box:
        if isinstance(constraint, Box):
            if self.experts == "ftrl":
                raise ValueError('a box has no sets to choose; experts="ftrl" needs a matroid or a knapsack')
            if n_items is not None and n_items != constraint.dimension:
                raise ValueError(f"n_items={n_items}, but the box has {constraint.dimension} coordinates")
            return constraint
        if not isinstance(constraint, Constraint):
            raise TypeError(
                f"constraint must be a constraint (Cardinality, PartitionMatroid, Knapsack, ...) or a"
                f" domains.Box, got {checks.shown(constraint)}"
            )
        size = constraint.n_items if n_items is None else checks.whole("n_items", n_items, at_least=1)
        if size is None:
            raise ValueError(f"{constraint!r} does not say over how many items; give n_items=")
        return constraint.over(size)

    def _length(self, given: float | None) -> float:
        if self.experts == "ftrl":
            if given is not None:
                raise ValueError('gradient_bound is about points; with experts="ftrl" bound says it all')
            return self.bound
        if given is None:
            raise ValueError(
                'experts="pftal" needs gradient_bound=, a public bound of every gradient\'s length (L2)'
            )
        return checks.real("gradient_bound", given, at_least=_LEAST, at_most=_MOST)

    def _kinds_of_leader(self, given: str | None, published: bool) -> tuple[str, ...]:
        """The regularisers to choose from, by what they certify."""
        if given is not None:
            kind = checks.one_of("regularizer", given, REGULARIZERS)
            if self.experts == "pftal" and kind == "entropy":
                raise ValueError(
                    'experts="pftal" are Euclidean; leave regularizer out or take experts="ftrl"'
                )
            return (kind,)
        if self.experts == "pftal":
            return ("euclidean",)
        return ("entropy",) if published else REGULARIZERS

    def _kinds_of_noise(
        self, sums: str | None, noise: str | None, budget: Budget, published: bool
    ) -> tuple[str, str]:
        pure_kind = NOISES[self.experts][1]
        if published:
            if sums not in (None, "tree") or noise not in (None, pure_kind):
                raise ValueError(
                    f'calibration="published" is a tree with {pure_kind} noise; leave sums and noise out'
                )
            if self.experts == "ftrl" and budget.private and budget.delta == 0.0:
                raise ValueError('calibration="published" of experts="ftrl" needs delta > 0')
            return "tree", pure_kind
        pure = budget.private and budget.delta == 0.0
        kind = checks.one_of("noise", noise or (pure_kind if pure else "gaussian"), NOISES[self.experts])
        chosen = checks.one_of("sums", sums or ("sqrt" if kind == "gaussian" else "tree"), SUMS)
        if kind != "gaussian" and chosen != "tree":
            raise ValueError(f'noise="{kind}" needs sums="tree"')
        return chosen, kind

    def _settled(
        self, promise: Certificate, steps: int | str, resample_every: int | str, published: bool
    ) -> tuple[int, int]:
        batches = (
            None if resample_every == "auto" else [checks.whole("resample_every", resample_every, at_least=1)]
        )
        numbers = None if steps == "auto" else [checks.whole("steps", steps, at_least=1, at_most=MOST_STEPS)]
        if published and numbers is None:
            rule = bounds.published_steps if self.experts == "ftrl" else bounds.published_leader_steps
            numbers = [rule(promise.rounds)]
        if numbers is None and self.experts == "pftal" and self.smoothness is None:
            raise ValueError(
                'steps="auto" weighs steps against smoothness; give smoothness= (a public bound of how fast'
                " gradients change) or a number of steps"
            )
        if batches is None and self.noise == "spherical":
            batches = [1]
        return promise.best(numbers, batches)

    def _as_published(self, horizon: int, budget: Budget) -> Budget:
        """Set the papers' noise; the budget that it really needs, with a warning where that is more."""
        releases = releases_of(horizon, 1)
        levels = tree_levels(max(releases, 1))
        if self.experts == "ftrl":
            self.claimed_expert_epsilon = budget.epsilon / (
                2.0 * math.sqrt(2.0 * self.steps * math.log(1.0 / budget.delta))
            )
            self._published = bounds.published_scale(
                self.n_items, horizon, self.steps, budget.epsilon, budget.delta, self.bound
            )
            what = "paper 003, Algorithm 3 (ln T levels of a tree that has log2 T)"
        else:
            self.claimed_expert_epsilon = budget.epsilon / self.steps
            self._tempered = bounds.published_curvature(self.n_items, horizon, self.claimed_expert_epsilon)
            longest = self.gradient_bound + self._tempered * 2.0 * self._leader.radius
            nodes = math.ceil(math.log2(max(horizon, 2))) + 1
            self._published = longest * nodes / self.claimed_expert_epsilon
            what = "paper 000, Algorithm 4 (noise for a gradient's length, not for a difference of two)"
        event = node_noise(self._one, budget.share(), levels, self.noise, self._published)
        needed = true_budget(budget, [(event, levels * self.steps)], what) if releases else budget
        true_loss = levels * float(event.sensitivity) / float(event.scale) * budget.max_rounds_per_person
        claimed = self.claimed_expert_epsilon
        if needed is budget and true_loss > claimed * (1.0 + 1e-12):
            warnings.warn(
                f"{what}: each expert claims epsilon {claimed:.4g} and has {true_loss:.4g}, which is"
                f" {true_loss / claimed:.2f} times as much; slack in the composition of all experts"
                " still makes up for it. See docs/errata.md.",
                PublishedCalibrationWarning,
                stacklevel=4,
            )
        return needed

    @property
    def _one(self) -> VectorBounds:
        """What one person's payoffs to one expert keep to."""
        norm = 1 if self.noise == "laplace" else 2
        if self.experts == "ftrl":
            return VectorBounds(self.n_items, norm, None, (0.0, self.bound), self.items_per_person)
        return VectorBounds(self.n_items, norm, self.gradient_bound, (0.0, self.gradient_bound))

    # --- for users -------------------------------------------------------------------------------

    @property
    def point(self) -> NDArray[np.float64]:
        """The fractional point of this round's decision: the average of the experts' points."""
        return np.array(self._points[-1])

    @property
    def clipped(self) -> int:
        """How many people's gradients were shortened; a fact about people, not protected."""
        return self._shortened

    @property
    def certified_regret(self) -> float:
        """Bound on the expected (1 - 1/e)-regret of the fractional points over the declared rounds.

        Matroid rounding loses nothing of it; a knapsack's loses up to the value of one item a round. With
        ``curvature=True`` it is the (1 - kappa/e)-regret. With ``items_per_person`` it is about the people as
        they are counted, and with ``clip`` about people whose gradients were not shortened; rounds that are
        not learned from are not in it. Points without ``smoothness`` have the trivial certificate.
        """
        if self._tempered is not None:
            return self._promise.tempered(self.steps, self._tempered)
        return self._promise.regret(self.steps, self.resample_every, self.rate)

    @property
    def expert_epsilon(self) -> float:
        """Pure epsilon of one expert, all rounds of a person together; infinite for Gaussian noise.

        By the library's account, beside ``claimed_expert_epsilon`` with ``calibration="published"``: the tree
        of paper 003 pays for ln T levels and has log2 T, so that this is 1.45 to 1.52 times the claim.
        """
        if not self.budget.private:
            return math.inf
        if self._sum is None or not isinstance(self._sum.event, LaplaceNoise):
            return 0.0 if self._sum is None else math.inf
        each = float(self._sum.event.sensitivity) / float(self._sum.event.scale)
        return self._sum.spec.count // self.steps * each * self.budget.max_rounds_per_person

    def choose(self) -> Any:
        """The decision for this round: a `Selection` (``experts="ftrl"``) or a point (``"pftal"``)."""
        return super().choose()

    def run(
        self, people: Any, *, person_ids: Sequence[Hashable] | None = None, progress: bool = False
    ) -> Trace:
        """The whole stream at once; ``trace.selections`` has a row per round, filled up with -1.

        For points its rows are the points.
        """
        trace: Trace = super().run(people, person_ids=person_ids, progress=progress)
        return trace

    def __repr__(self) -> str:
        return (
            f"MetaFrankWolfe({self.constraint!r}, {self.steps} {self.experts} experts, round {self._round:,}"
            f" of {self.rounds:,})"
        )

    # --- the protocol ----------------------------------------------------------------------------

    @property
    def _releases(self) -> int:
        assert self.rounds is not None
        return releases_of(self.rounds, self.resample_every)

    def _made_sum(self, event: Event | None = None) -> RunningSum:
        spec = sum_spec(self._one, self.steps, self._releases, self.sums, self.noise, self.resample_every)
        if event is None and self._published is not None:
            event = node_noise(self._one, self.budget.share(), spec.count, self.noise, self._published)
        return spec.make(self._gate, event=event, label="gradients")

    @property
    def _scale(self) -> float:
        """Units in which gradients are counted, per 1: a power of two, 2^31 to 2^32 of them to the bound.

        Fewer where a batch is so long that its sum would not be an exact float.
        """
        bits = min(32, 53 - self.resample_every.bit_length())
        return 2.0 ** (bits - math.frexp(self.gradient_bound)[1])

    @property
    def _most(self) -> int:
        return math.floor(self.gradient_bound * self._scale)

    @property
    def _shares(self) -> NDArray[np.float64]:
        """How much of each expert's payoff is the gradient; the rest is the least gradient."""
        if not self.curvature:
            return np.ones(self.steps)
        shares: NDArray[np.float64] = (1.0 - 1.0 / self.steps) ** np.arange(self.steps - 1, -1, -1.0)
        return shares

    @property
    def _width(self) -> int:
        return self._rank if self.experts == "ftrl" else self.n_items

    @property
    def _rank(self) -> int:
        assert isinstance(self.constraint, Constraint)
        return self.constraint.rank

    def _due(self) -> bool:
        return self._round % self.resample_every == 0

    def _draw(self) -> NDArray[np.float64]:
        if self._round and self._sum is not None and self._sum.taken < self._releases:
            payoffs = self._gathered.ravel() / self._scale
            self._gathered = np.zeros_like(self._gathered)  # first: nobody is to be added twice
            known = self._sum.add(payoffs).reshape(self.steps, self.n_items)
            self._known = known + self._top_up(self._sum)
        rate = self.rate
        if (
            self._tempered is not None
        ):  # the approximate leader of paper 004: curvature that grows by H a round
            rate = 1.0 / (self._tempered * max(1, self._round))
        self._points = self._leader.partial_points(self._known, rate)
        if self.experts == "pftal":
            return np.array(self._points[-1])
        assert isinstance(self.constraint, Constraint)
        items = self.constraint.round(self._points[-1], self._coins.generator)
        shown = np.full(self._width, -1.0)
        shown[: items.size] = items
        return shown

    def _top_up(self, total: RunningSum) -> NDArray[np.float64] | float:
        """Extra public noise that keeps a tree's noise from ever falling, as its certificate needs."""
        if not isinstance(total, TreeSum) or not self.budget.private or self._tempered is not None:
            return 0.0
        shape = (self.steps, self.n_items)
        now = total.noise_std(total.taken)
        if self.noise != "gaussian":
            draws = total.spec.most_draws - total.draws(total.taken)
            if self.noise == "laplace":
                scale = total.noise_std(1) / math.sqrt(2.0)
                return np.asarray(self._coins.generator.laplace(0.0, scale, (draws, *shape)).sum(axis=0))
            scale = total.noise_std(1) / math.sqrt(self.n_items + 1.0)
            lengths = self._coins.generator.gamma(self.n_items, scale, (draws, self.steps, 1))
            ways = self._coins.generator.standard_normal((draws, *shape))
            return np.asarray((lengths * ways / np.linalg.norm(ways, axis=2, keepdims=True)).sum(axis=0))
        self._topped_up = max(self._topped_up, now)
        return self._coins.generator.normal(0.0, math.sqrt(self._topped_up**2 - now**2), shape)

    def _decision(self, shown: NDArray[Any]) -> Any:
        if self.experts == "pftal":
            return shown.copy()
        items = tuple(int(item) for item in shown if item >= 0)
        labels = None if self.labels is None else tuple(self.labels[item] for item in items)
        return Selection(items, self._round, labels)

    def _row(self, decision: Any) -> Any:
        if self.experts == "pftal":
            return decision
        row = np.full(self._width, -1.0)
        row[: len(decision.items)] = decision.items
        return row

    def _worth(self, person: Any, decision: Any) -> float:
        if self.experts == "ftrl":
            return answers.number("value", person.value(decision.items), 0.0, self.bound)
        return self._value(self._function(person), decision)

    def _trace(self, rewards: NDArray[np.float64], selections: NDArray[Any]) -> Trace:
        played = selections if self.experts == "pftal" else selections.astype(np.int32)
        return Trace(rewards, played, type(self).__name__)

    def _check_people(self, people: Any) -> None:
        if self.experts == "ftrl":
            check_population(people, self.n_items, self.bound)
            if not people.monotone:
                raise ValueError(
                    "the learner needs functions that never fall when an item is added (monotone)"
                )
        elif isinstance(people, ContinuousPopulation | Population):
            self._function(people)

    def _prepared(self, person: Any) -> Population | tuple[NDArray[np.int64], int]:
        """Rows for the compiled loop, or the payoffs to each expert in whole units and whether shortened."""
        self._check_people(person)
        if isinstance(person, ContinuousPopulation | Population) and len(person) != 1:
            raise ValueError("learn() takes one person; use run() for a stream")
        if self.experts == "pftal":
            return self._gradients(self._function(person))
        one = self._capped(person)
        if _closed_form(one.as_rows()):
            return one
        return self._set_gradients(one), 0

    def _capped(self, people: Population) -> Population:
        return capped(people, self.items_per_person, self._round_coins, self._round)

    def _set_gradients(self, person: Population) -> NDArray[np.int64]:
        """Multilinear gradients at the partial points; where sampled, from coins of the round alone."""
        # The same coins at every point: sets that grow with the point, in which submodular gains only fall.
        asked = [
            person.multilinear_gradient(
                x.copy(), rng=self._round_coins.of_round(self._round), samples=self.samples
            )
            for x in self._points[:-1]
        ]
        if self.curvature or self.spot_check:
            asked.append(person._contributions(np.arange(self.n_items)))
        found = np.array([answers.vector("gradient", one, self.n_items, 0.0, self.bound) for one in asked])
        self._check_falling(found)
        fed = found[: self.steps]
        if self.curvature:
            shares = self._shares[:, None]
            fed = shares * fed + (1.0 - shares) * found[-1]
        return np.asarray(np.clip(np.floor(fed * self._scale), 0, self._most), dtype=np.int64)

    def _check_falling(self, gradients: NDArray[np.float64]) -> None:
        """DR-submodular gradients never grow from row to row, each of which is at a point above the last."""
        if not self.spot_check:
            return
        rises = np.diff(gradients, axis=0)
        if rises.max() > 1e-7 * self.gradient_bound:
            k, item = (int(i) for i in np.argwhere(rises == rises.max())[0])
            raise ValueError(
                f"the gradient of coordinate {item} grows by {rises.max():g} after partial point {k}; the"
                " function is not DR-submodular"
            )

    # --- functions of points ---------------------------------------------------------------------

    def _function(self, person: Any) -> _Function:
        if isinstance(person, Population):
            person = MultilinearExtension(person)
        if isinstance(person, ContinuousPopulation):
            if person.dimension != self.n_items:
                raise ValueError(
                    f"the function has {person.dimension} coordinates; this learner's points"
                    f" have {self.n_items}"
                )
            if not person.bound <= self.bound * (1 + 1e-12):
                raise ValueError(
                    f"the function may reach {person.bound:g}, above the learner's bound={self.bound:g};"
                    " rescale it or declare a larger bound"
                )
            return _Function(person.value, person.gradient)
        if isinstance(person, tuple) and len(person) == 2 and all(callable(part) for part in person):
            return _Function(*person)
        value, gradient = getattr(person, "value", None), getattr(person, "gradient", None)
        if not callable(value) or not callable(gradient):
            raise TypeError(
                "expected a function with value(x) and gradient(x), or the pair of them, got"
                f" {type(person).__name__}"
            )
        return _Function(value, gradient)

    def _value(self, function: _Function, x: NDArray[np.float64]) -> float:
        return answers.number("value(x)", function.value(x.copy()), 0.0, self.bound)

    def _gradients(self, function: _Function) -> tuple[NDArray[np.int64], int]:
        """Gradients at the partial points in whole units, and whether any was too long."""
        self._value(function, self._points[-1])
        found = np.array(
            [
                answers.vector("gradient(x)", function.gradient(x.copy()), self.n_items)
                for x in (self._points if self.spot_check else self._points[:-1])
            ]
        )
        slack = answers.ROUNDING * self.gradient_bound
        if found.min() < -slack:
            k, item = (int(i) for i in np.argwhere(found < -slack)[0])
            raise ValueError(
                f"gradient(x)[{item}]={found[k, item]:g} at partial point {k} is negative; the learner needs"
                " functions that never fall (monotone)"
            )
        self._check_falling(found)
        found = np.maximum(found[: self.steps], 0.0)
        largest = np.maximum(found.max(axis=1), self.gradient_bound)
        lengths = largest * np.linalg.norm(found / largest[:, None], axis=1)
        worst = int(np.argmax(lengths))
        long = bool(lengths[worst] > self.gradient_bound * (1.0 + answers.ROUNDING))
        if long and not self.clip:
            raise ValueError(
                f"gradient(x) at partial point {worst} has length {lengths[worst]:g}, above"
                f" gradient_bound={self.gradient_bound:g}; rescale, declare more, or pass clip=True"
            )
        found *= np.minimum(1.0, self.gradient_bound / np.maximum(lengths, 1e-300))[:, None]
        units = np.clip(np.floor(found * self._scale), 0, self._most)
        return np.asarray(units, dtype=np.int64), int(long)

    # --- taking people up ------------------------------------------------------------------------

    def _absorb(self, person: Population | tuple[NDArray[np.int64], int]) -> None:
        if isinstance(person, Population):
            self._add_rows(person, np.ones(1, dtype=np.bool_), 0)
        else:
            units, long = person
            self._shortened += long
            self._gathered += units

    def _add_rows(self, people: Population, admitted: NDArray[np.bool_], first: int) -> None:

        rows = people.as_rows()
        assert rows is not None
        table = rows.sparse
        backends.frank_wolfe.add_row_gradients(
            rows.kind.code,
            table.indptr,
            table.indices,
            table.data,
            first,
            admitted,
            self._points[:-1],
            self._shares,
            self._scale,
            self._most,
            self._gathered,
        )

    def _run(self, stream: Stream) -> None:
        rows = stream.people.as_rows() if isinstance(stream.people, Population) else None
        if self.experts == "ftrl" and rows is not None and _closed_form(rows):
            self._run_rows(stream, rows)
        else:
            super()._run(stream)

    def _run_rows(self, stream: Stream, rows: Rows) -> None:

        people, rewards, selections = stream.people, stream.rewards, stream.selections
        count = rewards.size
        counted = self._capped(people if len(people) == count else people[:count])
        table = rows.sparse
        values = (rows.kind.code, rows.kind.fresh, table.indptr, table.indices, table.data, rows.cap)
        every = self.resample_every
        starts = [0, *range(every - self._round % every, count, every)]
        for batch in track(range(len(starts)), "batches", stream.progress):
            start = starts[batch]
            stop = starts[batch + 1] if batch + 1 < len(starts) else count
            items = self._next().items
            backends.selectors.row_values(
                *values, start, np.array(items, dtype=np.int32), rewards[start:stop]
            )
            selections[start:stop] = self._shown
            self._round += stop - start  # first, so that an interruption loses people and never doubles them
            self._open = False
            self._add_rows(counted, stream.admitted[start:stop], start)

    def _spent(self) -> Account:
        whole = self._gate.spent
        return whole if self._sum is not None and self._sum.taken else self._account()

    # --- saving ----------------------------------------------------------------------------------

    def _settings(self) -> dict[str, Any]:
        domain = self.constraint
        settings = super()._settings() | {
            "domain": domain.to_json() if isinstance(domain, Domain) else to_plain(domain),
            "labels": None if self.labels is None else list(self.labels),
            "round_coins": self._round_coins.state(),
            "coins": self._coins.state(),
            "topped_up": self._topped_up,
            "shortened": self._shortened,
            "published": self._published,
            "tempered": self._tempered,
        }
        settings |= {name: getattr(self, name) for name in _PLAIN}
        if self._sum is not None:
            settings["sum"] = self._sum.state()[0]
        return settings

    def _arrays(self) -> dict[str, NDArray[Any]]:
        arrays: dict[str, NDArray[Any]] = {
            "gathered": self._gathered,
            "known": self._known,
            "points": self._points,
        }
        if self._sum is not None:
            arrays |= {f"sum_{name}": array for name, array in self._sum.state()[1].items()}
        return arrays

    def _restore(self, saved: Saved) -> None:
        self._restore_settings(saved)
        self._round_coins = Coins.restored(saved.inner("round_coins"))
        self._topped_up = saved.real("topped_up", at_least=0.0)
        self._shortened = saved.hidden("shortened", at_least=0, at_most=self._round)
        self._coins = Coins.restored(saved.inner("coins"))
        shape = (self.steps, self.n_items)
        self._known = saved.array("known", shape)
        upper = 1.0 if self.experts == "ftrl" else math.inf
        points = (self.steps + 1, self.n_items)
        self._points = saved.array("points", points, at_least=0.0, at_most=upper)
        self._leader = Leader(self.constraint, self.n_items, self.regularizer)
        assert self.rounds is not None
        self._promise = Certificate(
            self._leader, self._one, self.rounds, self.budget, self.sums, self.noise, self.bound,
            self.smoothness, self.curvature, self._published,
        )  # fmt: skip
        least = self._drawn(self.resample_every) - 1
        self._sum = self._resumed_sum(saved, self._releases, self._made_sum, least)
        most = self._most * self._gathering(self.resample_every, self._sum)
        self._gathered = saved.array("gathered", shape, np.int64, at_least=0, at_most=most)

    def _restore_settings(self, saved: Saved) -> None:
        def optional(name: str, **limits: float) -> float | None:
            return saved.real(name, **limits) if saved.given(name) else None

        self.experts = saved.one_of("experts", EXPERTS)
        sets = self.experts == "ftrl"
        domain = saved.inner("domain")
        if domain.plain("kind") == "Box" and not sets:
            box = Domain.from_json(saved.plain("domain"))
            assert isinstance(box, Box)
            self.constraint = box
        else:
            self.constraint = from_plain(saved.plain("domain"))
        self.n_items = saved.whole("n_items", at_least=1)
        if _size(self.constraint) != self.n_items:
            raise ValueError(f"n_items={self.n_items} is not the size of {self.constraint!r}")
        self.labels = saved_labels(saved, self.n_items)
        self.steps = saved.whole("steps", at_least=1, at_most=MOST_STEPS)
        self.noise = saved.one_of("noise", NOISES[self.experts])
        self.sums = saved.one_of("sums", SUMS if self.noise == "gaussian" else ("tree",))
        self.regularizer = saved.one_of("regularizer", REGULARIZERS if sets else ("euclidean",))
        self.curvature, self.clip = saved.flag("curvature"), saved.flag("clip")
        self.spot_check, self.samples = saved.flag("spot_check"), saved.whole("samples", at_least=2)
        self.items_per_person = None
        if saved.given("items_per_person") and sets:
            self.items_per_person = saved.whole("items_per_person", at_least=1, at_most=self.n_items)
        self.resample_every = saved.whole("resample_every", at_least=1)
        self.rate = saved.real("rate", above=0.0)
        self.bound = saved.real("bound", at_least=_LEAST, at_most=_MOST)
        self.gradient_bound = saved.real("gradient_bound", at_least=_LEAST, at_most=_MOST)
        if sets and (self.gradient_bound != self.bound or self.clip):
            raise ValueError("gradient_bound and clip are about points; these are sets")
        self.smoothness = optional("smoothness", at_least=0.0)
        self.claimed_expert_epsilon = optional("claimed_expert_epsilon", above=0.0)
        self._published, self._tempered = optional("published", above=0.0), optional("tempered", above=0.0)

    def _could_show(self, shown: NDArray[Any]) -> bool:
        if not super()._could_show(shown):
            return False
        if isinstance(self.constraint, Box):
            return self.constraint.contains(shown)
        if self.experts == "pftal":
            return self.constraint.in_polytope(shown)
        items = shown[: np.count_nonzero(shown >= 0.0)]
        whole = items == np.floor(items)
        if not whole.all() or (items < 0.0).any() or np.unique(items).size < items.size:
            return False
        return self.constraint.contains(items.astype(np.int64))


_PLAIN = (
    "experts",
    "n_items",
    "steps",
    "sums",
    "noise",
    "regularizer",
    "curvature",
    "items_per_person",
    "resample_every",
    "rate",
    "bound",
    "gradient_bound",
    "smoothness",
    "clip",
    "spot_check",
    "samples",
    "claimed_expert_epsilon",
)


@dataclass(frozen=True)
class _Function:
    """Somebody's function of points."""

    value: Callable[[NDArray[np.float64]], Any]
    gradient: Callable[[NDArray[np.float64]], Any]


def _size(domain: Constraint | Box) -> int:
    size = domain.dimension if isinstance(domain, Box) else domain.n_items
    assert size is not None
    return size


def _closed_form(rows: Rows | None) -> bool:
    """Whether the compiled loop knows these rows' multilinear gradient."""
    return rows is not None and 0 <= rows.kind.code <= 2
