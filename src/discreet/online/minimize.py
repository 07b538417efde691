"""Submodular minimization with full information: a set every round, and the person's costs afterwards."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from ..bounds import minimization as bounds
from ..core import checks
from ..core.options import Auto, Calibration, NoiseLaw, Regularization, SumMethod
from ..core.text import track
from ..kernels.minimization import Chain, Cuts
from ..objectives import GraphCut, Population, answers
from ..privacy import (
    Account,
    Event,
    GaussianNoise,
    LaplaceNoise,
    Participation,
    Seed,
    Share,
    SphericalLaplaceNoise,
    SumSpec,
    VectorBounds,
)
from ..privacy.accountant import Spending
from ..privacy.factorizations import BinaryTree
from ..results import CostTrace, Selection
from .learner import LearnerSettings, OnlineLearner, Stream, item_labels
from .people import check_population
from .sums import CostTotal, PrivateTotal, calibrated, chosen_sums, on_sums, released_sum

# The default gives up part of its certificate, which is for the worst stream, to learn faster on others: half
# the regularization multiplies the best bound by (2 + 1/2) / 2.
BOLDER = 0.5
# Beyond these, squares of the bound and sums over the rounds leave the range of floats.
_MOST_ROUNDS, _MOST_BOUND = 1 << 40, 1e100
# Relative allowance for rounding errors, in gradients and in what is declared about people's functions.
ROUNDING = 1e-9


# --- what both minimizers share --------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class SetMinimizerSettings(LearnerSettings):
    """Settings of learners that choose a cheap set; regularization pulls points to ``centre``, 1/2 or 0."""

    rounds: int
    neighbours: str
    n_items: int
    bound: float = 1.0
    labels: tuple[Any, ...] | None = None
    clip: bool = False
    regularization: float = 1.0
    centre: float = 0.5

    def __post_init__(self) -> None:
        size = checks.whole("n_items", self.n_items, at_least=1)
        self._put(
            n_items=size,
            rounds=checks.whole("rounds", self.rounds, at_least=1, at_most=_MOST_ROUNDS),
            bound=checks.real("bound", self.bound, at_least=1.0 / _MOST_BOUND, at_most=_MOST_BOUND),
            labels=item_labels(self.labels, size),
            clip=bool(self.clip),
        )


def wanted_regularization(asked: float | str, careful: float, optimistic: float) -> float:
    """H as given, or half of the best: for the noise (``"auto"``), or without noise (``"optimistic"``)."""
    if not isinstance(asked, str):
        return checks.real("regularization", asked, above=0.0)
    named = {"auto": careful, "optimistic": optimistic}
    return BOLDER * named[checks.one_of("regularization", asked, tuple(named))]


def published_regularization(asked: float | str, printed: float) -> float:
    """H as given, or the paper's."""
    if asked == "optimistic":
        raise ValueError('calibration="published" has its own regularization=; leave it out or give a number')
    return printed if asked == "auto" else wanted_regularization(asked, printed, printed)


class SetMinimizer(OnlineLearner):
    """Choose a set of any size every round, at a cost to the person of that round."""

    settings: Any
    _noun: ClassVar[str] = "set"
    _trace_type: ClassVar[Any] = CostTrace
    _total: PrivateTotal | CostTotal | None  # the sums to release; None where nothing is released

    # --- for users -------------------------------------------------------------------------------

    @property
    def insecure_clipped(self) -> int:
        """How many people had to be clipped to the bound so far (``clip=True``).

        Private information that no noise protects: for debugging on data that you may look at. It is not part
        of the account, and must not be published.
        """
        return self._clipped

    @property
    def point(self) -> NDArray[np.float64]:
        """The point of [0, 1]^n whose chain of sets is served."""
        held, centre = self.settings.regularization, self.settings.centre
        return np.asarray(np.clip(centre - self._released / held, 0.0, 1.0))

    def choose(self) -> Selection:
        """The set for this round; it may be empty."""
        chosen: Selection = super().choose()
        return chosen

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.settings.n_items:,} items, round {self.round:,} of {self.rounds:,})"
        )

    # --- for the protocol ------------------------------------------------------------------------

    @property
    @abstractmethod
    def _released(self) -> NDArray[np.float64]:
        """The released sum of gradients, or of estimates of them."""

    def _begin(self) -> None:
        settings = self.settings
        if settings.neighbours != self.budget.neighbours:
            raise ValueError(f"the settings are for neighbours={settings.neighbours!r}, the budget is not")
        self._clipped = 0
        self._chain = Chain(settings.n_items, settings.regularization, settings.centre)

    @property
    def _width(self) -> int:
        size: int = self.settings.n_items
        return size

    def _due(self) -> bool:
        return True

    def _decision(self, shown: NDArray[Any]) -> Selection:
        items = tuple(int(item) for item in np.flatnonzero(shown))
        names = self.settings.labels
        labels = None if names is None else tuple(names[item] for item in items)
        return Selection(items, self.round, labels)

    def _row(self, decision: Selection) -> NDArray[np.float64]:
        row = np.zeros(self._width)
        row[list(decision.items)] = 1.0
        return row

    @property
    def _largest(self) -> float:
        """The largest size of a cost that is not refused."""
        return math.inf if self.settings.clip else float(self.settings.bound)

    def _value(self, person: Any, decision: Selection) -> float:
        return answers.number("value", person.value(decision.items), -self._largest, self._largest)

    def _check_people(self, people: Any) -> None:
        check_population(people, self._width, self._largest)

    def _run(self, stream: Stream) -> None:
        if isinstance(stream.people, GraphCut):
            self._run_cuts(stream, Cuts(stream.people.as_arcs()))
        else:
            super()._run(stream)

    @abstractmethod
    def _run_cuts(self, stream: Stream, cuts: Cuts) -> None:
        """`_run` for people given as cuts with prices: compiled, with the same outcome."""

    def _could_show(self, shown: NDArray[Any]) -> bool:
        return super()._could_show(shown) and bool(((shown == 0.0) | (shown == 1.0)).all())

    def _spent(self) -> Account:
        return self._account(*(() if self._total is None else self._total.entries()))


def noise_cost(
    spec: SumSpec, event: Event, rounds: int, bound: float, *, empty_is_free: bool = False
) -> float:
    """`bounds.minimization.noise_cost` for the noise of a running sum, on average over the rounds."""
    size = spec.bounds.dimension
    if isinstance(event, GaussianNoise):
        deviation = spec.mean_deviation(event)
        return bounds.noise_cost(size, "gaussian", deviation, 1.0, bound, empty_is_free=empty_is_free)
    assert isinstance(event, LaplaceNoise)
    scale, draws = float(event.scale), BinaryTree(rounds).mean_draws
    return bounds.noise_cost(size, spec.noise, scale, draws, bound, empty_is_free=empty_is_free)


# --- learning from a person's cost function --------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class MinimizerSettings(SetMinimizerSettings):
    """Settings of `SubmodularMinimizer`."""

    paper: ClassVar[str] = "SubmodularMinimizer"
    tuned: ClassVar[tuple[str, ...]] = ("sums", "noise", "min_separation")

    sums: str
    noise: str
    empty_is_free: bool = False
    check: int = 0
    event: Event | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check = checks.whole("check", self.check, at_least=0)
        self._put(check=check, empty_is_free=bool(self.empty_is_free))

    @classmethod
    def tight(
        cls,
        share: Share,
        *,
        sums: SumMethod | Auto = "auto",
        noise: NoiseLaw | Auto = "auto",
        regularization: float | Regularization = "auto",
        min_separation: int | None = None,
        **asked: Any,
    ) -> MinimizerSettings:
        """Settings for the given options, with the least noise that fits into ``share``."""
        participation = Participation.declared(share, min_separation)
        asked |= {"participation": participation, "neighbours": share.neighbours}

        def pure() -> str:
            laws = ("laplace", "spherical")
            return min(laws, key=lambda law: on_sums(cls, share, "tree", law, asked).noise_cost)

        found: Self = on_sums(cls, share, *chosen_sums(sums, noise, share, pure), asked)
        careful, optimistic = found.best_regularization(found.noise_cost), found.best_regularization(0.0)
        return replace(found, regularization=wanted_regularization(regularization, careful, optimistic))

    @classmethod
    def published(
        cls, share: Share, *, regularization: float | Regularization = "auto", **asked: Any
    ) -> MinimizerSettings:
        """The constants of paper 001: noise for a difference of 4 bound, and one tree level too many."""
        asked |= {"calibration": "published", "neighbours": share.neighbours, "centre": 0.0}
        found = cls(**asked, sums="tree", noise="spherical")
        held = published_regularization(regularization, found.bound * math.sqrt(found.rounds))
        found = replace(found, regularization=held)
        spec = found.spec
        if spec is None:
            return found
        scale = 4.0 * found.bound * (math.ceil(math.log2(found.rounds)) + 1) / share.budget.epsilon
        return replace(found, event=SphericalLaplaceNoise(spec.sensitivity(share.neighbours), scale))

    @property
    def releases(self) -> int:
        """How many sums can influence a draw."""
        return self.rounds - 1

    @property
    def spec(self) -> SumSpec | None:
        """The running sum of gradients; None where nothing is released."""
        return released_sum(self, self.vectors, self.releases, self.noise)

    @property
    def vectors(self) -> VectorBounds:
        """Bounds on a gradient in the norm that the noise needs, and on the distance of two gradients.

        The distance is less than twice their length. Vectors are truncated towards zero to the grid: that
        reduces the rises of a gradient, and lowers no height along the chain by more than this, so the
        gradient stays in its set. Where the empty set is free it may leave the set, but the two that are
        farthest apart only come closer.
        """
        norm, free = (1 if self.noise == "laplace" else 2), self.empty_is_free
        longest = moves = bounds.gradient_length(self.n_items, self.bound, norm, empty_is_free=free)
        if self.neighbours == "replace":
            moves = bounds.gradient_difference(self.n_items, self.bound, norm, empty_is_free=free)
        apart = moves * (1.0 + 2.0 * ROUNDING)
        return VectorBounds(self.n_items, norm, longest * (1.0 + ROUNDING), apart=apart)

    @property
    def limit(self) -> float:
        """The largest range that a gradient may span along a chain of sets."""
        return self.bound if self.empty_is_free else 2.0 * self.bound

    @property
    def noise_cost(self) -> float:
        """The noise's cost per round times the regularization, on average over the rounds."""
        spec, event = self.spec, self.event
        if spec is None or event is None:
            return 0.0
        return noise_cost(spec, event, self.rounds, self.bound, empty_is_free=self.empty_is_free)

    def best_regularization(self, noise: float) -> float:
        """The regularization with the smallest certificate, where ``noise`` is a `noise_cost`."""
        shape = (self.n_items, self.rounds, noise, self.bound)
        return bounds.best_regularization(*shape, empty_is_free=self.empty_is_free)

    @property
    def certified_regret(self) -> float:
        """Bound on the expected cost beyond the best fixed set's: `bounds.minimization.lovasz_leader`."""
        wider = 1.0 if self.spec is None or self.event is None else self.spec.widening(self.event)
        shape = (self.n_items, self.rounds, self.regularization, self.noise_cost * wider, self.bound)
        return bounds.lovasz_leader(*shape, empty_is_free=self.empty_is_free, centre=self.centre)


class SubmodularMinimizer(SetMinimizer):
    """Follow the regularized leader on private sums of Lovasz gradients; serve a set drawn by a threshold.

    The point x in [0, 1]^n that minimizes <v, x> + H/2 |x - 1/2|^2 has a closed form; a public random tau
    turns it into the set {i : x_i > tau}. The person's costs along the chain of sets that x defines give a
    gradient, and v is the private running sum of these: SUBMODPRFTL of Cardoso and Cummings (2019; proofs in
    paper 001). Costs are any submodular functions with values in [-``bound``, ``bound``], monotone or not:
    `GraphCut`, `SetFunction`, mixtures. A Lovasz extension is piecewise linear: only Lipschitz, so there is
    no strongly convex case here, nor in the paper.

    ``sums`` and ``noise``: ``"sqrt"`` or ``"blt"`` with Gaussian noise; ``"tree"`` with Gaussian, spherical
    (the paper's) or per-coordinate Laplace noise, the last two for a pure epsilon. ``"auto"`` is ``"sqrt"``
    where the budget has a delta, else the tree whose noise certifies less regret. ``regularization`` is H;
    ``"auto"`` is half of the H with the smallest certified regret: the certificate is a quarter larger, and
    learning is twice as fast. The certificate must allow for gradients along the noise; ``"optimistic"``
    takes half of the best H without noise, on the same noisy sums: the same privacy, much better on streams
    that are not adversarial, but hardly any certificate. ``empty_is_free`` declares that the empty set costs
    everybody 0, which saves a quarter of the noise. ``check=m`` tests every person's cost m times for
    submodularity; a cost that fails is refused, and the round stays open. ``clip=True`` shortens gradients
    that the bound does not allow instead of refusing them; ``insecure_clipped`` counts them.
    ``min_separation=s`` is for people who return, as in `RunningSumSelector`; every round is a batch here.

    Formal guarantee: replacing a person moves one gradient by at most 2 sqrt(6) ``bound`` in L2, 8 ``bound``
    in L1, adding or removing one by 2 sqrt(2) and 4 ``bound`` (`bounds.minimization.gradient_difference`);
    every gradient is confined to exactly the set for which these numbers hold. Everything after the running
    sum is post-processing. Holds for people chosen with knowledge of all earlier sets.

    ``calibration="published"`` has the paper's constants: spherical noise for a difference of 4 ``bound``,
    one tree level too many, H = M sqrt(T), centre 0. The account states the guarantee that this really gives.

    >>> import discreet as dc
    >>> people = dc.objectives.GraphCut([[[0, 1], [0, 0]]] * 500, modular=[-1.0, 0.5], directed=True, bound=2)
    >>> learner = SubmodularMinimizer(2, len(people), dc.Budget(4.0, 1e-6), bound=2.0, seed=0)
    >>> trace = learner.run(people)
    >>> learner.privacy.epsilon(1e-6) <= 4.0, trace.average < 0.0
    (True, True)
    """

    settings: MinimizerSettings
    _settings_type: ClassVar[type[MinimizerSettings]] = MinimizerSettings
    _state = ("_public", "_check_public", "_total", "_clipped")
    _total: PrivateTotal

    def __init__(
        self,
        n_items: int,
        rounds: int,
        budget: Spending,
        bound: float = 1.0,
        *,
        sums: SumMethod | Auto = "auto",
        noise: NoiseLaw | Auto = "auto",
        regularization: float | Regularization = "auto",
        empty_is_free: bool = False,
        check: int = 0,
        min_separation: int | None = None,
        calibration: Calibration = "tight",
        labels: Sequence[Any] | None = None,
        clip: bool = False,
        seed: Seed = None,
    ) -> None:
        super().__init__(*calibrated(MinimizerSettings, locals()))

    # --- for the protocol ------------------------------------------------------------------------

    def _begin(self) -> None:
        super()._begin()
        settings = self.settings
        self._public, self._check_public = self._gate.public_randomness(), self._gate.public_randomness(1)
        how: dict[str, Any] = {"ahead": True, "trees": True, "label": "gradients"}
        self._total = PrivateTotal(settings.spec, self._gate, settings.event, (self._width,), **how)

    @property
    def _released(self) -> NDArray[np.float64]:
        return self._total.released

    def _draw(self) -> NDArray[np.float64]:
        if self.round:
            self._total.release()
        shown: NDArray[np.float64] = self._chain.threshold(self._released, self._public.generator.random())
        return shown

    def _prepared(self, person: Any) -> tuple[NDArray[np.float64], bool]:
        """The person's gradient along this round's chain, and whether it had to be clipped."""
        settings = self.settings
        self._check_people(person)
        if len(person) != 1:
            raise ValueError("learn() takes one person; use run() for a stream")
        limit = self._limit(person)
        if isinstance(person, GraphCut):
            gradient = Cuts(person.as_arcs()).gradient(0, self._released)
        else:
            self._question(person)
            gradient = answers.vector("gradient", person.lovasz_gradient(-self._released), settings.n_items)
        size = self._chain.range(gradient, self._released, settings.empty_is_free)
        if size <= limit:
            return gradient, False
        outside = bool(size > limit * (1.0 + ROUNDING))
        if outside and not settings.clip:
            raise ValueError(
                f"along this round's sets the person's costs need a range of {size:.6g}, above {limit:g}:"
                f" they leave [-{settings.bound:g}, {settings.bound:g}], or the cost is not submodular;"
                " rescale, declare a larger bound, or pass clip=True"
            )
        return gradient * (limit / size), outside

    def _limit(self, people: Population) -> float:
        """The largest allowed range of a gradient; infinite for cuts whose own bound is small enough."""
        if isinstance(people, GraphCut) and people.bound <= self.settings.bound:
            return math.inf
        return self.settings.limit

    def _question(self, person: Population) -> None:
        """Refuse a cost that breaks a declaration on a few random sets, which depend on nobody's data."""
        settings = self.settings
        slack, size = ROUNDING * settings.bound, settings.n_items

        def cost(items: list[int]) -> float:
            return answers.number("value", person.value(items))

        if settings.empty_is_free and abs(empty := cost([])) > slack:
            raise ValueError(f"the empty set costs {empty:g}; empty_is_free=True declares 0")
        if not settings.check or size < 2:
            return
        rng = self._check_public.of_round(self.round)
        for _ in range(settings.check):
            i, j = (int(item) for item in rng.choice(size, size=2, replace=False))
            inside = rng.random(size) < 0.5
            inside[[i, j]] = False
            base = [int(item) for item in np.flatnonzero(inside)]
            alone = cost([*base, i]) - cost(base)
            later = cost([*base, j, i]) - cost([*base, j])
            if later > alone + 4.0 * slack:
                raise ValueError(
                    f"the cost is not submodular: item {i} adds {alone:.6g} to {base}, and {later:.6g} after"
                    f" item {j} has joined; give submodular costs, or leave check out"
                )

    def _observe(self, person: tuple[NDArray[np.float64], bool]) -> None:
        gradient, clipped = person
        self._total.add(gradient)
        self._clipped += clipped

    def _run_cuts(self, stream: Stream, cuts: Cuts) -> None:
        limits = self._limit(stream.people), self.settings.empty_is_free
        count, first, run = stream.rewards.size, 0, self._chain.run
        while self._total.compiles and first < count:
            self._next()
            size = min(count - first, self._total.rows_ahead(count - first - 1) + 1)
            stop, shown = first + size, self._shown.copy()
            uniforms = self._public.generator.random(size - 1)
            with self._total.compiled(size - 1) as totals:
                clipped = run(cuts, stream, first, stop, totals, shown, uniforms, limits)
                self._rounds.close(size)
                self._rounds.shown = shown
                self._clipped += clipped
            first = stop
        # For sums that a compiled loop cannot take: the same gradients, one at a time.
        for t in track(range(first, count), "rounds", stream.progress):
            self._next()
            gradient, shown = np.zeros(self._width), self._shown.copy()
            totals = None, self._released, gradient
            clipped = run(cuts, stream, t, t + 1, totals, shown, np.empty(0), limits)
            self._take((gradient, clipped), True)
