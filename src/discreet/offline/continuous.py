"""Continuous greedy: a few private steps to a fractional point, which is then rounded."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..bounds import continuous as bounds
from ..bounds.continuous import places
from ..constraints import Cardinality, Constraint, Knapsack, Matroid, swap_round
from ..core import checks
from ..core.options import Auto, Calibration, ContinuousComposition, ContinuousNoise
from ..core.text import at_most, track
from ..objectives import ContinuousPopulation, MutualInformation, Population, answers
from ..objectives.base import ENUMERABLE_ITEMS
from ..objectives.fixed_point import row_parts
from ..privacy import (
    Event,
    ExponentialChoice,
    GaussianNoise,
    LaplaceNoise,
    PublicRandomness,
    ScoreChange,
    Seed,
    Share,
)
from ..privacy.account import true_budget
from ..privacy.accountant import Spending
from ..privacy.conversions import exact, root_below, rounded_down
from ..results import Selection
from .greedy import Allowance, OfflineSelector, Residual, least_epsilon, most_items

Floats = NDArray[np.float64]
Steps = NDArray[np.int64]

# If the number of people is private, sums are sized for this many.
MOST_PEOPLE = 1 << 22
# Public factors between 0 and 1 are multiples of 2^-40.
_FACTOR_BITS = 40
SAMPLES = 300


@dataclass(frozen=True)
class Change:
    """How far one person can move the gradient: an entry, the difference of two, all in L1 and in L2.

    ``changed`` is the number of entries that can move at all.
    """

    entry: float
    range: float
    l1: float
    l2: float
    changed: int

    @classmethod
    def of_sum(cls, bound: float, neighbours: str, n_items: int, touched: int) -> Change:
        """For a sum over people whose gradients lie in [0, bound], with at most ``touched`` nonzero entries.

        Adding or removing a person moves all entries in one direction; replacing one moves up to twice as
        many entries.

        >>> Change.of_sum(1.0, "add_remove", 100, 9) == Change(1.0, 1.0, 9.0, 3.0 * (1 + 2**-50), 9)
        True
        >>> Change.of_sum(1.0, "replace", 100, 8).l1, Change.of_sum(1.0, "replace", 10, 8).l1
        (16.0, 10.0)
        """
        replaced = neighbours == "replace"
        changed = min(n_items, 2 * touched if replaced else touched)
        moved = ScoreChange(bound, one_directional=not replaced).range
        return cls(bound, moved, changed * bound, math.sqrt(changed) * bound * (1 + 2.0**-50), changed)

    @classmethod
    def stated(cls, sensitivity: float, bound: float, n_items: int, *, corners_only: bool) -> Change:
        """For any F of which one person moves each value by at most ``sensitivity``.

        An entry is a mean of differences of two values, so it moves by up to twice that, and the difference
        of two entries by four times that. At a corner of the cube one of the two values is common to all
        entries (as for the last gradient), and cancels in differences. For the rounding of means of floats
        2^-40 of the bound is added.
        """
        value = sensitivity + bound * 2.0**-40
        entry = 2.0 * value
        return cls(
            entry,
            entry if corners_only else 2.0 * entry,
            n_items * entry,
            math.sqrt(n_items) * entry * (1 + 2.0**-50),
            n_items,
        )


class Gradient:
    """The gradient at a point, and operations on it that do not increase its sensitivity.

    Its entries are those of the items that are ``left``, at points where included items are 1 and excluded
    ones 0. Both are public, and these entries are a subset of those of all items, so the sensitivity is no
    larger. ``queries`` is the total number of entries computed.
    """

    queries = 0

    def __init__(self, n_items: int, left: Residual | None = None) -> None:
        self.n_items = n_items
        self._left = None if left is None or left.whole else left

    def at(self, x: Floats) -> NDArray[Any]:
        """The gradient at ``x``, a point of the items that are left."""
        self.queries += self.n_items
        return self._at(x) if self._left is None else self._at(self._left.point(x))[self._left.free]

    def _at(self, x: Floats) -> NDArray[Any]:
        raise NotImplementedError

    def mix(self, here: NDArray[Any], last: NDArray[Any], weight: float) -> NDArray[Any]:
        """weight x here + (1 - weight) x last."""
        return np.asarray(weight * here + (1.0 - weight) * last)

    def shrink(self, values: NDArray[Any], factors: Floats) -> NDArray[Any]:
        """Each entry times its public factor in [0, 1]."""
        return np.asarray(values * factors)

    def scores(self, values: NDArray[Any]) -> Floats:
        """The entries as floats."""
        return values


class SummedGradient(Gradient):
    """The sum over people of their gradients, in integer steps.

    Each person's part of each entry is computed separately, clipped to [0, bound] and rounded down to a
    public step before it is added up in integers, so one person moves an entry by at most ``bound``, without
    any rounding error on top. Gradients without a closed form are means over random sets that are the same
    for everybody and independent of the data.
    """

    def __init__(
        self,
        people: Population,
        bound: float,
        samples: int,
        public: PublicRandomness,
        length: int | None = None,
        left: Residual | None = None,
    ) -> None:
        super().__init__(people.n_items, left)
        self._samples, self._public = samples, public
        self._lay_out(len(people), bound, length)
        self._rows = row_parts(people)
        self._each = list(people) if self._rows is None else []

    def _lay_out(self, count: int, bound: float, length: int | None) -> None:
        """Choose the step of sums over up to ``length`` people; refuses a larger ``count``."""
        length = MOST_PEOPLE if length is None else length
        if count > length:
            raise ValueError(
                f"there are more than the {length:,} people for whom sums are laid out; declare a public"
                " max_people= that is large enough"
            )
        mantissa, exponent = math.frexp(bound)
        self.step = 2.0 ** (exponent - (mantissa == 0.5) - places(length))
        self._most = math.floor(bound / self.step)

    def _at(self, x: Floats) -> Steps:
        """The gradient at ``x``, summed over people in integer steps."""
        seed = int(self._public.generator.integers(1 << 62))
        if self._rows is None:

            def ask(person: Population) -> Floats:
                rng = PublicRandomness.seeded(seed).generator  # the same sets for everybody
                return person.multilinear_gradient(x.copy(), rng=rng, samples=self._samples)

            return self._sum_of_functions(self._each, ask)
        total, left = np.zeros(self.n_items, dtype=np.int64), self._most
        for rows, bound in self._rows:  # the parts of a mixture share one person's total limit
            most = min(left, math.floor(bound / self.step))
            total += rows.gradient_steps(x, 1.0 / self.step, most, seed, self._samples)
            left -= most
        return total

    def mix(self, here: Steps, last: Steps, weight: float) -> Steps:
        """weight x here + (1 - weight) x last, rounded down.

        A person's parts of both lie in [0, bound], so their mixture does; and as rounding down commutes with
        integer steps, the rounded total also moves by at most the bound.
        """
        return last + _fraction(here - last, np.array([weight]))

    def shrink(self, values: Steps, factors: Floats) -> Steps:
        """Each entry times its public factor in [0, 1], rounded down; its sensitivity does not increase."""
        return _fraction(values, factors)

    def scores(self, values: Steps) -> Floats:
        """Steps as floats, exactly."""
        return np.asarray(values * self.step, dtype=np.float64)

    def _sum_of_functions(self, people: Iterable[Any], ask: Callable[[Any], Any]) -> Steps:
        """The sum of ``ask`` over ``people``; a person whose function fails adds nothing.

        Each gradient is clipped to [0, bound] and rounded down to integer steps before it is added.
        """
        total = np.zeros(self.n_items, dtype=np.int64)
        for person in people:
            try:
                gradient = answers.vector("gradient", ask(person), self.n_items)
            except Exception:  # user code: its message may hold personal data
                continue
            with np.errstate(over="ignore"):  # what is too large is clipped
                total += np.clip(gradient / self.step, 0, self._most).astype(np.int64)
        return total


class PointGradient(SummedGradient):
    """The same for people's functions of a point, whose gradients are computed person by person."""

    def __init__(self, people: ContinuousPopulation, bound: float, length: int) -> None:
        Gradient.__init__(self, people.dimension)
        self._points = people
        self._lay_out(len(people), bound, length)

    def _at(self, x: Floats) -> Steps:
        return self._sum_of_functions(self._points, lambda person: person.gradient(x))


class StatedGradient(Gradient):
    """The gradient of any set function whose values have a stated sensitivity."""

    def __init__(
        self, people: Population, samples: int, public: PublicRandomness, left: Residual | None = None
    ) -> None:
        super().__init__(people.n_items, left)
        self._people, self._samples, self._public = people, samples, public

    def _at(self, x: Floats) -> Floats:
        rng = self._public.generator
        asked = self._people.multilinear_gradient(x.copy(), rng=rng, samples=self._samples)
        return answers.vector("multilinear_gradient", asked, self.n_items)


def check_people(people: Population, bound: float, stated: bool) -> None:
    """Refuse people whom continuous greedy does not support, before anything is released."""
    if not people.monotone:
        raise ValueError(
            "continuous greedy needs functions that never fall when an item is added (monotone);"
            f" {type(people).__name__} declares no such thing"
        )
    if not stated and not people.sums_over_people:
        raise ValueError(
            f"{type(people).__name__} is not a sum over people, so bound={bound:g} says nothing about one of"
            " them; state sensitivity=, how far one person can move the value of a set"
        )
    if stated and row_parts(people) is not None:
        raise ValueError(
            f"{type(people).__name__} is a sum over people, whose sensitivity follows from bound=; leave"
            " sensitivity= out"
        )
    if not people.bound <= bound * (1 + 1e-12):
        raise ValueError(
            f"the objective may reach {people.bound:g}, above bound={bound:g}; rescale it or declare a"
            " larger bound"
        )
    if people.row_source() is None:
        # Functions that fail or exceed their bound raise here.
        answers.vector("gains", people.gains([]), people.n_items)


def _fraction(values: Steps, factors: Floats) -> Steps:
    """floor(values x factors), the factors rounded to 2^-40; in Python's integers, as it needs 92 bits."""
    parts = np.floor(factors * 2.0**_FACTOR_BITS).astype(np.int64)
    product = values.astype(object) * parts.astype(object)
    return np.asarray(product >> _FACTOR_BITS).astype(np.int64)


NOISES = ("exponential", "laplace", "gaussian")
COMPOSITIONS = ("auto", "basic", "advanced", "zcdp")
CALIBRATIONS = ("tight", "published")
# More steps than this change the certificate by less than a hundredth and cost time.
_MOST_STEPS = 40
# Steps if the number of people is not public (Chaturvedi, Nguyen and Zakynthinou 2021).
_USUAL_STEPS = 3


@dataclass(frozen=True)
class Setting:
    """One run: its selector, sizes, the constraint, and how far one person moves the gradient.

    ``reach`` is the largest sum of a feasible point, ``picks`` the most picks of one step, ``most`` an upper
    bound of the objective and ``value`` its sensitivity; ``most`` is None if the number of people is not
    public. ``sums`` is whether the objective is a sum over people, and ``length`` the most people it is sized
    for.
    """

    selector: ContinuousGreedy
    constraint: Constraint
    n_items: int
    reach: float
    picks: int
    change: Change
    value: float
    most: float | None
    sums: bool
    length: int = 1
    smoothness: float | None = None  # of functions of a point, all together; None for sets

    @classmethod
    def of(
        cls,
        selector: ContinuousGreedy,
        constraint: Constraint,
        n_items: int,
        change: Change,
        value: float,
        most: float | None,
        sums: bool,
        length: int = 1,
    ) -> Setting:
        """The run on this constraint, with its reach and picks."""
        if constraint.rank == 0:
            raise ValueError(f"{constraint!r} lets nothing be chosen; give a constraint of rank 1 or more")
        picks, reach = constraint.rank, float(constraint.rank)
        if isinstance(constraint, Knapsack):
            paid = constraint.costs[(constraint.costs > 0.0) & constraint.addable([])]
            # The items taken in full form a feasible set, and one more may be fractional; a last item left is
            # not a choice.
            full = constraint.rank - int((constraint.costs == 0.0).sum())
            picks = min(full + 1, max(paid.size - 1, 0))
            # Filling up with the cheapest items gives the largest sum of entries.
            reach = float(constraint.maximize(np.ones(n_items)).sum())
            if selector.noise == "exponential" and paid.size:
                reach = constraint.capacity / float(paid.min())
        if constraint.rank == n_items:
            picks = 0  # all items fit together
        return cls(selector, constraint, n_items, reach, picks, change, value, most, sums, length)

    def releases(self, steps: int) -> int:
        """The most releases of a run."""
        return steps * (self.picks if self.selector.noise == "exponential" else 1)

    def steps(self) -> int:
        """The number of steps: by default the one with the smallest certified loss."""
        selector = self.selector
        if not isinstance(selector.steps, str):
            return selector.steps
        if selector._suffices:
            return 1
        if self.most is None:
            return _USUAL_STEPS
        if selector.calibration == "published":
            epsilon = selector.share.budget.epsilon
            return bounds.published_steps(self.n_items, self.most, self.reach, epsilon, self.value)
        return min(range(1, _MOST_STEPS + 1), key=lambda steps: self.loss(steps, self.event(steps)))

    def event(self, steps: int) -> Event:
        """One release of a run: the least noise that is valid under the chosen composition."""
        return self._event_of(steps, self.selector.share)

    def _event_of(self, steps: int, share: Share) -> Event:
        """One of the releases that together spend the given share."""
        selector, change, count = self.selector, self.change, max(1, self.releases(steps))
        noise, composition = selector.noise, selector.composition
        moved = {"exponential": change.range, "laplace": change.l1, "gaussian": change.l2}[noise]
        if not share.private:
            return GaussianNoise(moved, 0.0) if noise == "gaussian" else LaplaceNoise(moved, 0.0)
        assert isinstance(share.epsilon, Fraction)
        if selector.calibration == "published":
            return self._published(moved, count, float(share.epsilon), share.budget.delta)
        if noise == "gaussian":
            return GaussianNoise.within(share, moved, count)
        if composition == "auto":
            kind = ExponentialChoice if noise == "exponential" else LaplaceNoise
            return kind.within(share, moved, count)
        each = share.epsilon / count
        if composition == "zcdp":
            assert isinstance(share.rho, Fraction)
            # A privacy loss in an interval of length e has rho e^2/8, one between -e and e has rho e^2/2.
            each = root_below((8 if noise == "exponential" else 2) * share.rho / count)
        elif composition == "advanced":
            root = math.sqrt(2.0 * count * math.log(1.0 / share.budget.delta))
            each = exact(float(share.epsilon) / (2.0 * root))
        if noise == "exponential":
            return ExponentialChoice(rounded_down(each / exact(moved)), moved)
        return LaplaceNoise(moved, exact(moved) / each)

    def _published(self, moved: float, count: int, epsilon: float, delta: float) -> Event:
        """The constants of paper 003.

        Laplace scales 2 K n Delta / eps (Lemma 3) and 4 sqrt(2 K ln(1/delta)) n Delta / eps (Lemma 4). Its
        Gaussian constants are in a supplement that was not available: sigma = 2 c K sqrt(n) Delta / eps with
        c^2 = 2 ln(1.25 K / delta) is the classical mechanism at (eps, delta) / K a step, of the order stated
        in the main text.
        """
        n_items, value = self.n_items, self.value
        if self.selector.noise == "gaussian":
            c = math.sqrt(2.0 * math.log(1.25 * count / delta))
            return GaussianNoise(moved, 2.0 * c * count * math.sqrt(n_items) * value / epsilon)
        steps: float = count
        if self.selector.composition == "advanced":
            steps = 2.0 * math.sqrt(2.0 * count * math.log(1.0 / delta))
        return LaplaceNoise(moved, 2.0 * steps * n_items * value / epsilon)

    # --- what is certified -----------------------------------------------------------------------

    def loss(self, steps: int, event: Event, curvature: float = 1.0, chance: float | None = None) -> float:
        """A bound on (1 - kappa/e) best - E F(x), or on the loss but for a probability ``chance``."""
        assert self.most is not None
        selector = self.selector
        if self.smoothness is not None:
            lost = self.smoothness * self.reach / (2.0 * steps)  # vertices have norm at most sqrt(reach)
        elif selector._picks_afresh:
            greedy = steps == 1 and selector._suffices
            lost = 0.0 if greedy else bounds.lost_within_steps(steps, self.most, curvature)
        else:
            sets = isinstance(self.constraint, Matroid)
            lost = bounds.lost_between_steps(steps, self.most, self.reach, vertices_are_sets=sets)
        lost += bounds.lost_to_rounding(self.most, self.reach, self.length)
        return lost + self._noise_loss(steps, event, chance)

    def _noise_loss(self, steps: int, event: Event, chance: float | None = None) -> float:
        n, reach = self.n_items, self.reach
        if isinstance(event, ExponentialChoice):
            if isinstance(self.constraint, Matroid):
                return bounds.lost_to_picks(n, reach, event.rate, steps, chance)
            return bounds.lost_to_knapsack_picks(n, reach, event.rate, steps * self.picks, chance)
        if isinstance(event, GaussianNoise):
            return bounds.lost_to_gaussian(n, reach, float(event.sigma), steps, chance)
        assert isinstance(event, LaplaceNoise)
        return bounds.lost_to_laplace(n, reach, float(event.scale), steps, chance)

    def warn_if_hopeless(self, steps: int, event: Event, spent_from: str) -> None:
        """Warn if the noise of one choice exceeds the largest possible signal; uses public sizes only."""
        share, most = self.selector.share, self.most
        if most is None or not share.private:
            return
        alone = replace(self, reach=1.0)
        if self.picks == 0 or alone._noise_loss(steps, event) < most:
            return

        def enough(larger: Share) -> bool:
            return alone._noise_loss(steps, self._event_of(steps, larger)) < most

        warnings.warn(
            f"{spent_from} is too small for a choice better than chance: the noise of"
            f" one choice ({alone._noise_loss(steps, event):.3g}) drowns even an item that everybody wants"
            f" ({most:.3g}); epsilon={at_most(least_epsilon(enough, share), 2)} would do, or more people",
            stacklevel=5,
        )


@dataclass
class Climb:
    """An ascent under way: ``point`` is the sum of the steps so far divided by the total number of steps.

    Everything is about the items that are left to choose from, on top of the included ones.
    """

    setting: Setting
    gradient: Gradient
    steps: int
    event: Event
    total: Floats
    sets: list[list[int]]
    last: NDArray[Any] | None = None

    @property
    def point(self) -> Floats:
        return np.minimum(self.total / self.steps, 1.0)


class ContinuousGreedy(OfflineSelector):
    """Choose a feasible set by private continuous greedy on the multilinear extension, and round it.

    K ``steps`` of size 1/K lead from 0 to a point of the constraint's polytope; each goes towards a vertex
    where the gradient is large. ``noise`` says how that vertex is found:

    - ``"exponential"`` (the default, and almost always the least noise): the items of a base are picked
      singly by the exponential mechanism, by gradient entry; under a knapsack by entry per cost, until the
      capacity is full. ``update_within_steps`` computes the gradient afresh after every pick, which takes
      more time, costs no privacy, and removes the second-order loss.
    - ``"laplace"``, ``"gaussian"``: the gradient is released with noise, once a step, and the vertex is its
      exact maximum (paper 003, Algorithm 1).

    ``composition`` is that of the account: ``"basic"``, ``"advanced"`` (Lemma 4 of paper 003), ``"zcdp"``
    (Gaussian DP for Gaussian noise), or by default the one with the least noise. ``steps="auto"`` minimizes
    `certified_loss`. Under ``neighbours="add_remove"`` the number of people is private: ``max_people`` is
    then a public upper bound, and without it there are three steps (one for a cardinality constraint, where
    picks need no more) and no warning of a budget that is too small.

    ``constraint`` is a matroid, a knapsack, or k for at most k items. ``bound`` is the public bound of one
    person's function. People whose items are capped (see ``cap_items``; ``items_per_person`` enforces it)
    need less Laplace and Gaussian noise, which then no longer grows with the number of items.
    ``sensitivity`` is for objectives that are not sums over people: how far one person moves the value of any
    set, with ``bound`` the largest value. `MutualInformation` knows its own under replacement. ``include``,
    ``exclude`` and ``candidates``: public items that are in from the start, that cannot be chosen, and that
    alone can; see `OfflineSelector`. The ascent is then over the others, with included items at 1.

    A function without a closed form is evaluated on ``samples`` random sets, by default 300, the same for
    everybody: n_items + 2 values for each distinct set. `functools.cache` around a slow function avoids
    repeated evaluations; ``progress=True`` of ``select`` shows how long the steps will take.

    Formal guarantee. (epsilon, delta)-DP under the budget's neighbouring relation. Gradients of a monotone
    person lie in [0, bound], and are computed person by person, rounded down to a public step and added up in
    integers, so one person moves each entry of the sum by at most ``bound``: no division by the number of
    people, no factor 2, no rounding error. The difference of two entries moves by at most 2 ``bound``
    (replaced) or ``bound`` (added or removed). Picks are exact, noise is exact on its grid, and the maximum
    over the polytope, averaging and rounding are post-processing; random sets for gradients without a closed
    form, and rounding, use public randomness.

    Utility. E F(x) >= (1 - 1/e) best - `certified_loss`, for the fractional point x (``point_``, itself
    public once released). Swap rounding preserves it for matroids. For a knapsack it holds for the fractional
    point only: the best set may have little more than half its value (see `Knapsack`), and ``select`` loses
    up to the value of one item more. The set is always feasible.

    ``calibration="published"`` takes paper 003's constants (Lemmas 3 and 4, K from Theorem 3; for Gaussian
    noise, whose constants were not available, those of the classical mechanism) with sensitivity 2 Delta per
    entry; the account reports the guarantee that they give. They need a full budget, not a share or a gate.
    An infinite epsilon gives the algorithm without privacy. One object is for one `select`, with one budget.
    ``budget`` may be a share (``budget.split``, ``gate.split``) or a `Gate`, of which all that is left is
    spent, in the privacy definition it keeps to.

    >>> import discreet as dc
    >>> people = dc.objectives.Coverage([[1, 0, 0, 1], [0, 1, 0, 0], [0, 1, 1, 0]] * 400)
    >>> blocks = dc.constraints.PartitionMatroid([[0, 1], [2, 3]], [1, 1])
    >>> chosen = ContinuousGreedy(blocks, dc.Budget(1.0, 1e-6), seed=0).select(people)
    >>> sorted(chosen.items), chosen.privacy.epsilon() <= 1.0
    ([1, 3], True)
    """

    # Whether one step of picks under a cardinality constraint already has the certified guarantee.
    _greedy_suffices = True

    def __init__(
        self,
        constraint: Constraint | int,
        budget: Spending | Allowance,
        steps: int | Auto = "auto",
        noise: ContinuousNoise = "exponential",
        composition: ContinuousComposition = "auto",
        *,
        bound: float = 1.0,
        items_per_person: int | None = None,
        sensitivity: float | None = None,
        samples: int | None = None,
        update_within_steps: bool = True,
        max_people: int | None = None,
        calibration: Calibration = "tight",
        include: Any = None,
        exclude: Any = None,
        candidates: Any = None,
        seed: Seed = None,
    ) -> None:
        super().__init__(
            constraint,
            budget,
            seed,
            bound=bound,
            sensitivity=sensitivity,
            max_people=max_people,
            given={"include": include, "exclude": exclude, "candidates": candidates},
        )
        if not isinstance(self.constraint, Matroid | Knapsack):
            raise TypeError(
                "continuous greedy climbs in the polytope of a matroid or a knapsack, not of"
                f" {self.constraint!r}; use PrivateGreedy"
            )
        self.steps = (
            checks.one_of("steps", steps, ("auto",))
            if isinstance(steps, str)
            else checks.whole("steps", steps, at_least=1)
        )
        self.noise = checks.one_of("noise", noise, NOISES)
        self.composition = checks.one_of("composition", composition, COMPOSITIONS)
        self.calibration = checks.one_of("calibration", calibration, CALIBRATIONS)
        self.items_per_person = (
            None
            if items_per_person is None
            else checks.whole("items_per_person", items_per_person, at_least=1)
        )
        self.samples = SAMPLES if samples is None else checks.whole("samples", samples, at_least=2)
        self.update_within_steps = bool(update_within_steps)
        if calibration == "published" and not self._allowance.alone:
            raise ValueError(
                'calibration="published" takes a whole Budget: what its constants cost may exceed what they'
                " claim, and neither a share nor a gate may be overdrawn"
            )
        self._check_composition()
        self._climbed: tuple[Floats, int] | None = None

    # --- for users -------------------------------------------------------------------------------

    @property
    def point_(self) -> Floats | None:
        """The fractional point that was released; None before."""
        return None if self._climbed is None else self._climbed[0].copy()

    @property
    def steps_(self) -> int | None:
        """How many steps were taken; None before."""
        return None if self._climbed is None else self._climbed[1]

    def select(
        self, people: Population, *, include: Any = None, exclude: Any = None, progress: bool = False
    ) -> Selection:
        """A feasible set: the point of `fractional`, rounded with public randomness; included items first.

        ``include`` and ``exclude`` add to those the selector was made with.
        """
        with self._turns.take("select()"):
            left, climb = self._climbed_on(people, include, exclude, progress)
            picks = () if climb is None else self._rounded(climb)
        return self._selection(people, left, picks, queries=0 if climb is None else climb.gradient.queries)

    def fractional(
        self,
        people: Population | ContinuousPopulation,
        *,
        include: Any = None,
        exclude: Any = None,
        progress: bool = False,
    ) -> Floats:
        """The point of the polytope before rounding. It spends the budget, as `select` does.

        Included items have 1, excluded ones 0. ``people`` may also be functions of a point of [0, 1]^n
        (`objectives.ContinuousPopulation`), with noise on their gradients: ``bound`` then also bounds each
        entry of a person's gradient.
        """
        with self._turns.take("fractional()"):
            if isinstance(people, ContinuousPopulation):
                self._climbed_to(people, (include, exclude), progress)
            else:
                self._climbed_on(people, include, exclude, progress)
            assert self._climbed is not None
            return self._climbed[0].copy()

    def certified_loss(
        self,
        n_people: int,
        n_items: int | None = None,
        curvature: float = 1.0,
        *,
        probability: float | None = None,
        smoothness: float | None = None,
    ) -> float:
        """A bound on (1 - kappa/e) best - E F(x), F the sum over this many people; from public sizes only.

        For gradients in closed form; sampled ones add their sampling error. Never more than the loss of
        choosing nothing. With ``sensitivity=`` F is the objective itself. ``curvature`` is 1 here; see
        `CurvatureGreedy`. ``probability=.95``: a bound on (1 - kappa/e) best - F(x) itself, for the released
        point x, which holds with at least that probability over the noise (as paper 003's Lemmas 3 and 4 do
        with 1 - 1/K). ``smoothness``: F is a sum of functions of a point that are this smooth in L2.

        >>> import discreet as dc
        >>> greedy = ContinuousGreedy(5, dc.Budget(1.0, 1e-6))
        >>> [round(greedy.certified_loss(32_710, n_items=285, probability=p)) for p in (None, 0.95)]
        [283, 374]
        """
        self._check_curvature(curvature)
        chance = (
            None
            if probability is None
            else 1.0 - checks.real("probability", probability, above=0.0, below=1.0)
        )
        count = checks.whole("n_people", n_people, at_least=1)
        left = self._over(n_items)
        if left.constraint is None:
            return 0.0
        constraint, size = left.constraint, int(left.free.size)
        touched = min(size, self.items_per_person or size)
        setting = self._setting(constraint, size, touched, count, smoothness=smoothness)
        # As many steps as `select` would take, for which the number of people may not be public.
        known = count if self.budget.neighbours == "replace" else self.max_people
        steps = self._setting(constraint, size, touched, known, smoothness=smoothness).steps()
        assert setting.most is not None
        loss = setting.loss(steps, setting.event(steps), curvature, chance)
        return min(loss, (1.0 - curvature / math.e) * setting.most)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.constraint!r}, noise={self.noise!r}, steps={self.steps!r})"

    # --- what is public --------------------------------------------------------------------------

    def _check_composition(self) -> None:
        """Refuse noise that does not compose as requested."""
        share, noise, composition = self.share, self.noise, self.composition
        if self.calibration == "published":
            if noise == "exponential":
                raise ValueError(
                    'calibration="published" is for the noise of paper 003: take noise="laplace" or'
                    ' "gaussian"'
                )
            if not share.private:
                raise ValueError(
                    'calibration="published" needs a finite epsilon; an infinite one has no published noise'
                )
            printed = ("auto", "basic") + (("advanced",) if noise == "laplace" else ())
            if composition not in printed:
                raise ValueError(
                    f"composition={composition!r} is not in paper 003 for noise={noise!r};"
                    f" take one of {', '.join(map(repr, printed))}"
                )
        elif noise == "gaussian" and composition not in ("auto", "zcdp"):
            raise ValueError(
                f"composition={composition!r} adds up pure epsilons, which Gaussian noise has none of;"
                ' take "auto" or "zcdp"'
            )
        if not share.private or share.delta > 0.0:
            return
        also = ", and a gate that keeps to another definition than pure epsilon" if share.budget.delta else ""
        if noise == "gaussian":
            raise ValueError(
                f'noise="gaussian" needs delta > 0{also}; give the budget a delta or take another noise'
            )
        if composition in ("advanced", "zcdp"):
            raise ValueError(
                f'composition={composition!r} needs delta > 0{also}; give the budget a delta or take "basic"'
            )

    @property
    def _picks_afresh(self) -> bool:
        return self.noise == "exponential" and self.update_within_steps

    @property
    def _suffices(self) -> bool:
        """Whether one step is the greedy algorithm, which has 1 - 1/e of its own."""
        return self._greedy_suffices and isinstance(self.constraint, Cardinality) and self._picks_afresh

    @property
    def _corners_only(self) -> bool:
        """Whether there is one step of picks, so that for a matroid all points are corners of the cube."""
        return self._picks_afresh and (self.steps == 1 or (self.steps == "auto" and self._suffices))

    def _check_curvature(self, curvature: float) -> None:
        if checks.real("curvature", curvature) != 1.0:
            raise ValueError(f"curvature={curvature} helps CurvatureGreedy only; leave it at 1 here")

    def _checked_setting(self, people: Population, left: Residual) -> Setting | None:
        """Check everything that can be wrong before anything is spent; None if there is nothing to choose."""
        replaced = self.budget.neighbours == "replace"
        stated, bound = self.sensitivity, self.bound
        if stated is None and isinstance(people, MutualInformation) and replaced:
            stated, bound = people.sensitivity("replace", "value"), people.bound
        check_people(people, bound, stated is not None)
        self._check_count(people)
        people.check_picks(self._largest_set(people, left))
        touched = people.touched_items(self.items_per_person)
        known = len(people) if replaced else self.max_people
        if left.constraint is None:
            return None
        return self._setting(left.constraint, int(left.free.size), touched, known, stated, bound)

    def _largest_set(self, people: Population, left: Residual) -> int:
        """The size of the largest set that may be evaluated: all items, unless every point is a set."""
        corners = self._greedy_suffices and self._corners_only and isinstance(left.constraint, Matroid)
        return most_items(left) if corners and people.n_items > ENUMERABLE_ITEMS else people.n_items

    def _setting(
        self,
        constraint: Constraint,
        n_items: int,
        touched: int,
        n_people: int | None,
        stated: float | None = None,
        bound: float | None = None,
        smoothness: float | None = None,
    ) -> Setting:
        stated = self.sensitivity if stated is None else stated
        bound = self.bound if bound is None else bound
        if stated is not None:
            corners = self._corners_only and isinstance(constraint, Matroid)
            change = Change.stated(stated, bound, n_items, corners_only=corners)
            return Setting.of(self, constraint, n_items, change, stated, bound, sums=False)
        change = Change.of_sum(bound, self.budget.neighbours, n_items, touched)
        most = None if n_people is None else n_people * bound
        length = self._length(n_people)
        found = Setting.of(self, constraint, n_items, change, bound, most, sums=True, length=length)
        return found if smoothness is None else replace(found, smoothness=(n_people or 1) * smoothness)

    def _length(self, n_people: int | None) -> int:
        """The number of people that sums are sized for, which is public."""
        known = n_people if self.budget.neighbours == "replace" else self.max_people
        return known or MOST_PEOPLE

    # --- the climb -------------------------------------------------------------------------------

    def _climbed_on(
        self, people: Population, include: Any, exclude: Any, progress: bool
    ) -> tuple[Residual, Climb | None]:
        """The residual and the ascent on it; None if there is nothing to choose."""
        left = self._left(people, include, exclude)
        setting = self._checked_setting(people, left)
        self._gate.add_caveats(*people.caveats)  # the point is shown as soon as it is there
        climb = None
        if setting is None:
            self._climbed = left.point(np.zeros(0)), 0
        else:
            climb = self._climb(people, left, setting, progress)
        self._residual = left
        return left, climb

    def _climbed_to(self, people: ContinuousPopulation, given: tuple[Any, Any], progress: bool) -> None:
        """Climb on functions of a point of the polytope, which are smooth, not linear in each coordinate."""
        if self.noise == "exponential" or self.calibration == "published":
            raise ValueError('points need noise="laplace" or "gaussian", and calibration="tight"')
        if self.sensitivity is not None or any((*given, self.include, self.exclude, self.candidates)):
            raise ValueError("sensitivity=, include=, exclude= and candidates= are for sets; leave them out")
        if (people.upper != 1.0).any():
            raise ValueError("amounts must lie in [0, 1], as the polytope's points do; rescale them")
        if max(people.bound, people.gradient_bound) > self.bound * (1.0 + 1e-12):
            raise ValueError(
                f"bound={self.bound:g} must be no less than the people's bound={people.bound:g} and"
                f" gradient_bound={people.gradient_bound:g}"
            )
        size = people.dimension
        known = len(people) if self.budget.neighbours == "replace" else self.max_people
        left = Residual.of(self.constraint.over(size))
        assert left.constraint is not None
        how: dict[str, Any] = {"smoothness": people.smoothness}
        self._gate.add_caveats(*getattr(people, "caveats", ()))
        self._climb(people, left, self._setting(left.constraint, size, size, known, **how), progress)

    def _climb(
        self, people: Population | ContinuousPopulation, left: Residual, setting: Setting, progress: bool
    ) -> Climb:
        """Reserve the budget of all steps, and take them."""
        steps = setting.steps()
        event = setting.event(steps)
        setting.warn_if_hopeless(steps, event, str(self._allowance))
        count = setting.releases(steps)
        if self.calibration == "published":
            self._take_true_budget([(event, count)], type(self).__name__)
        if count:
            self._allowance.expect((event, count))
        gradient = self._gradient(people, left, setting)
        climb = Climb(setting, gradient, steps, event, np.zeros(setting.n_items), [])
        for k in track(range(steps), "steps", progress):
            self._step(climb, k)
        self._climbed = left.point(climb.point), steps
        return climb

    def _gradient(
        self, people: Population | ContinuousPopulation, left: Residual, setting: Setting
    ) -> Gradient:
        """The gradient over the items that are left, on top of the included ones."""
        if isinstance(people, ContinuousPopulation):
            return PointGradient(people, self.bound, self._length(len(people)))
        public = self._gate.public_randomness()
        if not setting.sums:
            return StatedGradient(people, self.samples, public, left)
        return SummedGradient(people, self.bound, self.samples, public, self._length(len(people)), left)

    def _take_true_budget(self, releases: list[tuple[Event, int]], what: str) -> None:
        """Change to a gate with the budget that published constants really need.

        This happens only before anything has been released: later releases add to what was spent, and are
        refused like any others.
        """
        if self._gate.spent.ledger.counts:
            return
        budget = true_budget(self.budget, releases, what)
        if budget != self.budget:
            self._allowance.gate = self._gate.with_budget(budget)

    def _step(self, climb: Climb, k: int) -> None:
        if self.noise != "exponential":
            self._noisy_step(climb, k)
        elif isinstance(climb.setting.constraint, Knapsack):
            self._filling_step(climb, climb.setting.constraint, k)
        else:
            self._base_step(climb, k)

    def _direction(self, climb: Climb, k: int) -> NDArray[Any]:
        """The direction of step ``k`` (from 0): the gradient at the point."""
        del k  # the same rule for every step
        return climb.gradient.at(climb.point)

    def _base_step(self, climb: Climb, k: int) -> None:
        """Go to a base whose items are picked singly."""
        constraint = climb.setting.constraint
        base: list[int] = []
        found = self._direction(climb, k) if climb.setting.picks else None
        while True:
            candidates = np.flatnonzero(constraint.addable(base))
            if candidates.size == 0:
                break
            if found is not None and base and self.update_within_steps:
                found = self._direction(climb, k)
            place = 0
            if candidates.size > 1 and found is not None:
                place = self._pick(climb, climb.gradient.scores(found[candidates]))
            base.append(int(candidates[place]))
            climb.total[base[-1]] += 1.0
        climb.sets.append(base)

    def _filling_step(self, climb: Climb, constraint: Knapsack, k: int) -> None:
        """Go to a full knapsack, with items picked singly by entry per cost; the last may be fractional."""
        costs = constraint.costs
        left = constraint.addable([]) & (costs > 0.0)
        climb.total[costs == 0.0] += 1.0
        room = constraint.capacity
        cheapest = float(costs[left].min()) if left.any() else 1.0
        # Relative to the cheapest, so that scores are no more sensitive than entries.
        factors = np.where(left, cheapest / np.maximum(costs, cheapest), 0.0)
        found = self._direction(climb, k) if climb.setting.picks else None
        fresh = True
        while room > 1e-12 * constraint.capacity and left.any():
            candidates = np.flatnonzero(left)
            if found is not None and not fresh and self.update_within_steps:
                found = self._direction(climb, k)
            place, fresh = 0, False
            if candidates.size > 1 and found is not None:
                dense = climb.gradient.shrink(found[candidates], factors[candidates])
                place = self._pick(climb, climb.gradient.scores(dense))
            item = int(candidates[place])
            part = min(1.0, room / float(costs[item]))
            climb.total[item] += part
            room -= part * float(costs[item])
            left[item] = False

    def _pick(self, climb: Climb, scores: Floats) -> int:
        event = climb.event
        if isinstance(event, ExponentialChoice):
            return self._gate.choose(scores, event.rate, event.range, label="pick by gradient")
        self._gate.reserve(event, label="pick by gradient")
        return int(np.argmax(scores))

    def _noisy_step(self, climb: Climb, k: int) -> None:
        """Go to the best vertex for a gradient that is released with noise."""
        setting, constraint = climb.setting, climb.setting.constraint
        scores = climb.gradient.scores(self._direction(climb, k))
        noisy = self._noisy(scores, climb.event, "multilinear gradient", setting.change.changed)
        if isinstance(constraint, Matroid):
            # The objective is monotone, so a base is never worse. The paper maximizes over the entire
            # polytope.
            vertex = constraint.maximize(noisy, base=self.calibration == "tight")
            climb.sets.append(np.flatnonzero(vertex).tolist())
        else:
            vertex = constraint.maximize(noisy)
        climb.total += vertex

    def _rounded(self, climb: Climb) -> tuple[int, ...]:
        """A feasible set from the point, independently of the data."""
        constraint = climb.setting.constraint
        if len(climb.sets) == 1:
            return tuple(climb.sets[0])
        public = self._gate.public_randomness()
        if isinstance(constraint, Matroid):
            chosen = swap_round(constraint, climb.sets, np.ones(len(climb.sets)), public.generator)
        else:
            chosen = constraint.round(climb.point, public.generator)
        # Items in which most steps agree come first.
        order = np.argsort(-climb.point[chosen], kind="stable")
        return tuple(int(item) for item in chosen[order])
