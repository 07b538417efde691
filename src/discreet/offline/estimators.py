"""Private selection as scikit-learn knows it: fit, transform, get_support, in a Pipeline."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.feature_selection import SelectorMixin
from sklearn.utils.validation import check_is_fitted, check_non_negative, validate_data

from .. import objectives
from ..constraints import Cardinality, Constraint
from ..core import checks
from ..objectives import MutualInformation, Population
from ..objectives.mutual_information import _CELLS as LARGEST_TABLE
from ..privacy import (
    Account,
    ApproximateRelease,
    Budget,
    Event,
    ExponentialChoice,
    Gate,
    LaplaceNoise,
    PureRelease,
)
from ..privacy.conversions import exact, rounded_up
from ..privacy.ledger import Entry, MemoryLedger
from ..results import Selection
from .greedy import PrivateGreedy

# Populations that a people x items matrix makes, by name.
_FAMILIES = {
    "coverage": "Coverage",
    "probabilistic_coverage": "ProbabilisticCoverage",
    "facility_location": "FacilityLocation",
}


class RepeatedFitWarning(UserWarning):
    """An estimator, or clones of it, are fitted more than once: every fit spends a budget of its own."""


@dataclass
class _Fits:
    """The accounts of an object's fits, or of all fits of objects that were cloned from one another."""

    accounts: list[Account] = field(default_factory=list)
    warned: bool = False
    gates: list[Gate | None] = field(default_factory=list)  # the one gate of an object, None for its own


class _PrivateSelector(SelectorMixin, BaseEstimator):
    """What both selectors share: the mask, the labels, the account.

    Every ``fit`` is a release of its own, at ``epsilon`` and ``delta``. Fitting an object again, or clones of
    it, as cross-validation and grid search do, adds up on the people who are in several fits:
    `RepeatedFitWarning` names the total before it is spent. ``gate`` holds all of them to one budget: fits of
    the object and of its clones then release through that one gate, and one that does not fit there is
    refused. A gate is not sent to other processes, so that ``n_jobs`` needs threads.
    """

    selection_: Selection
    n_features_in_: int
    gate: Gate | None
    random_state: int | None

    @property
    def privacy_(self) -> Account:
        """What left, by which mechanism, and the guarantee: over all fits of this object.

        After several fits each is listed by its guarantee, and epsilons and deltas are added up. A clone is
        another object with an account of its own. With a ``gate`` this is the account of the gate: of all
        that was released through it, by clones and others as well.
        """
        check_is_fitted(self, "selection_")
        if self.gate is not None:
            return self.gate.spent
        return _together(self._mine().accounts)

    def __sklearn_clone__(self) -> Self:
        twin: Self = super().__sklearn_clone__()
        twin.__dict__["_with_clones"] = self._family()
        return twin

    # Kept from the first fit or clone on: scikit-learn wants nothing but parameters in ``__init__``.
    def _mine(self) -> _Fits:
        fits: _Fits = self.__dict__.setdefault("_own_fits", _Fits())
        return fits

    def _family(self) -> _Fits:
        fits: _Fits = self.__dict__.setdefault("_with_clones", _Fits())
        return fits

    @contextmanager
    def _release(self, budget: Budget) -> Iterator[Gate]:
        """The gate of one fit. What it has let through counts, also where the fit fails after that."""
        gates = self._mine().gates
        if gates and gates[0] is not self.gate:
            raise ValueError(
                "gate was changed after a fit, so that privacy_ would miss what went another way; fit a clone"
            )
        shared = None if self.gate is None else self._shared(self.gate, budget)
        self._mine().gates = [shared]
        if shared is not None:
            yield shared
            return
        self._warn(budget)
        gate = Gate(budget, self.random_state)
        try:
            yield gate
        except BaseException:
            if gate.spent.ledger.counts:
                self._note(gate.spent)
            raise
        self._note(gate.spent)

    def _note(self, account: Account) -> None:
        for fits in (self._mine(), self._family()):
            fits.accounts.append(account)

    def _shared(self, gate: Gate, budget: Budget) -> Gate:
        if not isinstance(gate, Gate):
            raise TypeError(f"gate must be a Gate or None, got {type(gate).__name__}; e.g. Gate(Budget(1.0))")
        if _relation(gate.budget) != _relation(budget):
            raise ValueError(
                f"{_relation(budget)}, but the budget of the gate has {_relation(gate.budget)}; give both the"
                " same"
            )
        if self.random_state is not None:
            raise ValueError(
                f"random_state={self.random_state!r} goes with a gate of the fit's own; the randomness of a"
                " shared one is the gate's: Gate(budget, seed)"
            )
        return gate

    def _warn(self, budget: Budget) -> None:
        """Name the total, with this fit, before it is spent."""
        mine, family = self._mine().accounts, self._family()
        if mine and _relation(mine[0].budget) != _relation(budget):
            raise ValueError(
                f"{_relation(budget)}, but this object was fitted with {_relation(mine[0].budget)}, and the"
                " two guarantees do not add up; fit a clone"
            )
        if not mine and (family.warned or not family.accounts):
            return
        family.warned = True
        spent = [one.budget for one in mine or family.accounts if one.epsilon()] + [budget]
        epsilon, delta = _added_up(spent)
        what = "this estimator is fitted again" if mine else "clones of one estimator are fitted"
        beside = f" and delta {delta:g}" if delta else ""
        warnings.warn(
            f"{what}: each fit is a release of its own, and {len(spent)} so far come to epsilon"
            f" {epsilon:g}{beside} for those who are in all of them; every further one adds to that. Give"
            " gate=Gate(Budget(...)) to hold all of them to one budget",
            RepeatedFitWarning,
            stacklevel=5,
        )

    def _greedy(self, people: Population, constraint: Constraint, budget: Budget) -> Selection:
        greedy = PrivateGreedy(constraint, budget, self.method, bound=people.bound)
        with self._release(budget) as gate:
            return greedy._select_through(gate, people, shared=self.gate is not None)

    def _get_support_mask(self) -> NDArray[np.bool_]:
        check_is_fitted(self, "selection_")
        mask = np.zeros(self.n_features_in_, dtype=np.bool_)
        mask[list(self.selection_.items)] = True
        return mask

    def _names(self) -> list[Any] | None:
        names = getattr(self, "feature_names_in_", None)
        return None if names is None else list(names)

    def _forget(self) -> None:
        """An earlier fit is over: were this one to fail, nobody is to read an old choice off new columns."""
        if hasattr(self, "selection_"):
            del self.selection_

    def _more(self, k: int) -> None:
        if k > self.n_features_in_:
            raise ValueError(f"k={k} exceeds the {self.n_features_in_} columns of X; choose a smaller k")


def _relation(budget: Budget) -> str:
    return f"neighbours={budget.neighbours!r}, max_rows_per_person={budget.max_rounds_per_person}"


def _added_up(budgets: list[Budget]) -> tuple[float, float]:
    """Epsilons and deltas of several fits: basic composition, which holds however each one was decided on."""
    if not all(budget.private for budget in budgets):
        return math.inf, 0.0
    epsilon = sum((exact(budget.epsilon) for budget in budgets), Fraction(0))
    delta = sum((exact(budget.delta) for budget in budgets), Fraction(0))
    return (rounded_up(epsilon), rounded_up(delta)) if delta < 1 else (math.inf, 0.0)


def _together(accounts: list[Account]) -> Account:
    """One account of several fits, each listed by what it guarantees to a person, all their rows together."""
    if len(accounts) == 1:
        return accounts[0]
    ledger = MemoryLedger()
    for account in accounts:
        epsilon, delta = account.epsilon(), account.budget.delta
        event: Event
        if math.isinf(epsilon):
            event = LaplaceNoise(1.0, 0.0)
        else:
            event = ApproximateRelease(epsilon, delta) if delta else PureRelease(epsilon)
        if epsilon:
            ledger.add(Entry("one fit", event), 1)
    epsilon, delta = _added_up([account.budget for account in accounts])
    whole = Budget(epsilon, delta, accounts[0].budget.neighbours)
    marks = tuple(dict.fromkeys(mark for account in accounts for mark in account.marks))
    # In pure epsilon and deltas: whether to fit again may have been decided by looking at the fits before.
    return Account(whole, ledger, any(account.reproducible for account in accounts), marks, "pure")


class PrivateItemSelector(_PrivateSelector):
    """The k columns that serve most rows: one row per person, one column per item.

    ``objective`` is ``"coverage"`` (a person is served by any item they have), ``"probabilistic_coverage"``
    (entries are chances), ``"facility_location"`` (entries are worths, up to the public ``bound``, 1 unless
    declared), or a function from the matrix to a `Population`. ``constraint`` takes the place of k.
    ``items_per_person`` keeps at most so many items of each person, chosen by a keyed hash of the row (see
    ``cap_items``). ``method`` as in `PrivateGreedy`. ``random_state=None`` draws secure randomness; a number
    makes the fit reproducible and is marked as not private.

    Guarantee: every fit is (epsilon, delta)-DP for one row, under ``neighbours``; what is published is the
    set of chosen columns and nothing else. Fits on the same people add up; ``gate`` holds all of them, also
    those of clones, to one budget. Which columns there are is taken for public: an item that only one person
    has is no public column. An ``objective`` whose people know better (``Population.catalogue``) marks
    ``privacy_``.

    >>> import numpy as np
    >>> X = np.eye(4)[np.random.default_rng(0).choice(4, 400, p=[0.5, 0.3, 0.1, 0.1])]
    >>> chosen = PrivateItemSelector(k=2, epsilon=2.0, random_state=0).fit(X)
    >>> chosen.transform(X).shape, chosen.privacy_.epsilon() <= 2.0
    ((400, 2), True)
    """

    def __init__(
        self,
        k: int = 5,
        epsilon: float = 1.0,
        delta: float = 0.0,
        objective: str | Callable[[Any], Population] = "coverage",
        *,
        bound: float | None = None,
        constraint: Constraint | None = None,
        method: str = "auto",
        items_per_person: int | None = None,
        neighbours: str = "replace",
        max_rows_per_person: int = 1,
        gate: Gate | None = None,
        random_state: int | None = None,
    ) -> None:
        self.k = k
        self.epsilon = epsilon
        self.delta = delta
        self.objective = objective
        self.bound = bound
        self.constraint = constraint
        self.method = method
        self.items_per_person = items_per_person
        self.neighbours = neighbours
        self.max_rows_per_person = max_rows_per_person
        self.gate = gate
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002  (scikit-learn passes it)
        """Choose the columns; ``y`` is not used."""
        budget = Budget(self.epsilon, self.delta, self.neighbours, self.max_rows_per_person)
        self._forget()
        matrix = _validated(self, X, accept_sparse="csr")
        if not callable(self.objective):
            check_non_negative(matrix, type(self).__name__)
        people = self._people(matrix)
        constraint = self.constraint
        if constraint is None:
            k = checks.whole("k", self.k, at_least=1)
            self._more(k)
            constraint = Cardinality(k)
        if self.items_per_person is not None:
            cap = checks.whole("items_per_person", self.items_per_person, at_least=1)
            if not hasattr(people, "cap_items"):
                raise ValueError(f"items_per_person={cap}, but {type(people).__name__} has no items to cap")
            people = people.cap_items(cap, self.random_state)
        self.selection_ = self._greedy(people, constraint, budget)
        return self

    def _people(self, matrix: Any) -> Population:
        if callable(self.objective):
            people = self.objective(matrix)
            if not isinstance(people, Population):
                raise TypeError(f"objective must return a Population, got a {type(people).__name__}")
            if people.n_items != self.n_features_in_:
                raise ValueError(
                    f"objective returned {people.n_items} items for {self.n_features_in_} columns; there must"
                    " be one for each"
                )
            return people
        family = _FAMILIES[checks.one_of("objective", self.objective, tuple(_FAMILIES))]
        options = {} if self.bound is None else {"bound": self.bound}
        if options and self.objective != "facility_location":
            raise ValueError(f"bound={self.bound} is for facility_location; {self.objective} has the bound 1")
        made: Population = getattr(objectives, family)(matrix, labels=self._names(), **options)
        return made

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = not callable(self.objective)
        return tags


class PrivateFeatureSelector(_PrivateSelector):
    """The k features that tell most about a class, chosen privately.

    ``bounds`` is the public range of the features: one (low, high) for all of them, or arrays of one per
    feature. ``classes`` is the public list of classes. Neither is ever read off the data: a smallest or
    largest value belongs to somebody. Entries outside are clipped; features are cut into ``bins`` equal parts
    of their range.

    ``objective="mutual_information"``: greedy on the information that the chosen features carry together
    about the class, in a naive Bayes model (`MutualInformation`). One person can move it by about log(N) / N,
    which is a lot among a few hundred people. ``"covariance"``: the features with the largest absolute
    covariance with the class; one person moves N times it by at most 1 (`covariance_range`), which makes it
    the better choice for small N, though it cannot see that two features tell the same.

    Guarantee: every fit is (epsilon, delta)-DP for one row of (X, y) together, under ``neighbours``; only the
    set of chosen features is published. Fits on the same people add up; ``gate`` holds all of them, also
    those of clones, to one budget. Which features there are is taken for public.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 2, 1000)
    >>> X = np.column_stack([rng.random(1000), (y + rng.random(1000)) / 2, rng.random(1000)])
    >>> chosen = PrivateFeatureSelector(1, 1.0, bounds=(0, 1), classes=[0, 1], random_state=0).fit(X, y)
    >>> chosen.get_support().tolist()
    [False, True, False]
    """

    def __init__(
        self,
        k: int = 5,
        epsilon: float = 1.0,
        delta: float = 0.0,
        objective: str = "mutual_information",
        *,
        bounds: tuple[ArrayLike, ArrayLike] | None = None,
        classes: Iterable[Any] | None = None,
        bins: int = 4,
        method: str = "auto",
        neighbours: str = "replace",
        max_rows_per_person: int = 1,
        gate: Gate | None = None,
        random_state: int | None = None,
    ) -> None:
        self.k = k
        self.epsilon = epsilon
        self.delta = delta
        self.objective = objective
        self.bounds = bounds
        self.classes = classes
        self.bins = bins
        self.method = method
        self.neighbours = neighbours
        self.max_rows_per_person = max_rows_per_person
        self.gate = gate
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Choose the features."""
        budget = Budget(self.epsilon, self.delta, self.neighbours, self.max_rows_per_person)
        if y is None:
            raise ValueError("y is missing: features are chosen by what they tell about a class")
        self._forget()
        table, labels = _validated(self, X, y)
        checks.one_of("objective", self.objective, ("mutual_information", "covariance"))
        k = checks.whole("k", self.k, at_least=1)
        self._more(k)
        known = self._known()
        scaled, kinds = self._scaled(table), _kinds(labels, known)
        if self.objective == "covariance":
            scores = covariances(scaled, kinds, len(known))
            with self._release(budget) as gate:
                self.selection_ = self._largest(scores, k, budget, gate)
            return self
        bins = checks.whole("bins", self.bins, at_least=2)
        cells = len(known) * bins**k
        if cells > LARGEST_TABLE:
            raise ValueError(
                f"k={k} features in bins={bins} parts make a table of {cells} cells, above {LARGEST_TABLE};"
                " choose fewer features, fewer bins, or objective='covariance'"
            )
        parts = np.minimum((scaled * bins).astype(np.int64), bins - 1)
        told = MutualInformation(parts, kinds, n_classes=len(known), labels=self._names())
        self.selection_ = self._greedy(told, Cardinality(k), budget)
        return self

    def _largest(self, scores: NDArray[np.float64], k: int, budget: Budget, gate: Gate) -> Selection:
        moves = covariance_range()
        left = np.ones(scores.size, dtype=np.bool_)
        # All features are chosen whatever the data: then nothing is drawn, and nothing spent.
        chosen: list[int] = list(range(k)) if k == scores.size else []
        rate = ExponentialChoice.within(budget.share(), moves, k).rate if budget.private else math.inf
        if budget.private and not chosen:
            gate.expect((ExponentialChoice(rate, moves), k))
        for _ in range(k - len(chosen)):
            candidates = np.flatnonzero(left)
            if budget.private:
                place = gate.choose(scores[candidates], rate, moves, label="feature by covariance")
            else:
                gate.reserve(LaplaceNoise(moves, 0.0), label="feature by covariance")
                place = int(np.argmax(scores[candidates]))
            chosen.append(int(candidates[place]))
            left[chosen[-1]] = False
        names = self._names()
        labels = None if names is None else tuple(names[item] for item in chosen)
        return Selection(tuple(chosen), None, labels, gate.spent, queries=1)

    def _scaled(self, table: NDArray[np.float64]) -> NDArray[np.float64]:
        """The features as numbers in [0, 1], by their public bounds."""
        if self.bounds is None:
            raise ValueError(
                "bounds=(low, high) is missing: declare the public range of the features; a range read off"
                " the data would give away its extremes"
            )
        try:
            low, high = (
                np.broadcast_to(np.asarray(end, dtype=np.float64), table.shape[1]) for end in self.bounds
            )
        except ValueError as error:
            raise ValueError(
                f"bounds must be (low, high): two numbers, or two arrays of {table.shape[1]} numbers"
            ) from error
        if not (np.isfinite(low).all() and np.isfinite(high).all() and (low < high).all()):
            raise ValueError("bounds must be finite, with low < high for every feature")
        return np.clip((table - low) / (high - low), 0.0, 1.0)

    def _known(self) -> list[Any]:
        if self.classes is None:
            raise ValueError(
                "classes=[...] is missing: declare the public list of classes; a list read off the data would"
                " give away a class that only one person is in"
            )
        known = list(self.classes)
        if len(known) < 2 or len(set(known)) != len(known):
            raise ValueError(f"classes must be at least two distinct values, got {known!r}")
        return known


# What scikit-learn says about data without telling what stands in it, or how many rows it has.
_HARMLESS = ("Input X contains", "Input y contains", "Sparse data was passed", "float() argument must be")


def _validated(selector: _PrivateSelector, *data: Any, **options: Any) -> Any:
    """scikit-learn's own checks, in words that tell nothing about people."""
    try:
        return validate_data(selector, *data, dtype=np.float64, **options)
    except (TypeError, ValueError, OverflowError) as error:
        said, kind = str(error), type(error)
    if said.startswith(_HARMLESS):
        raise kind(said)
    if said.startswith("Found array with"):
        told = re.sub(r"shape=\(\d+", "shape=(", said)
    elif said.startswith("Expected 2D array"):
        told = "Expected a table with a row per person. Reshape your data"
    elif said.startswith("Complex data not supported"):
        told = "Complex data not supported"
    elif "inconsistent numbers of samples" in said:
        told = "X and y must have the same number of rows"
    else:
        told = "X must be a table of numbers, and y, where it is needed, a column"
    raise checks.DataError(told, said)


def _kinds(labels: NDArray[Any], known: list[Any]) -> NDArray[np.int64]:
    """The number of each label among the known classes."""
    places = {value: place for place, value in enumerate(known)}
    try:
        return np.array([places[value] for value in labels.tolist()], dtype=np.int64)
    except KeyError as error:
        raise checks.DataError(
            f"y holds a class that is not among classes={known!r}", repr(error.args[0])
        ) from None


# Products of numbers in [0, 1] are summed as whole numbers of this many steps to 1, so that sums are exact.
_STEPS = 1 << 20
_MOST_PEOPLE = 1 << 21


def covariances(scaled: NDArray[np.float64], kinds: NDArray[np.int64], n_classes: int) -> NDArray[np.float64]:
    """For each feature x, half the sum over classes c of |sum over people p in c of (x_p - mean x)|.

    With two classes both terms are equal, and the score is N |covariance|. Features are rounded to a grid
    first; the score is then computed from whole numbers, and rounded once.

    >>> covariances(np.array([[0.0], [0.0], [1.0], [1.0]]), np.array([0, 0, 1, 1]), 2)
    array([1.])
    """
    steps = np.rint(scaled * _STEPS).astype(np.int64)
    people = steps.shape[0]
    if people > _MOST_PEOPLE:
        raise ValueError(f"there are more than the {_MOST_PEOPLE:,} people whose sums are exact")
    totals = steps.sum(axis=0)
    score = np.zeros(steps.shape[1])
    for kind in range(n_classes):
        members = kinds == kind
        # N times the sum of deviations within the class: whole, and below 2^63.
        deviations = people * steps[members].sum(axis=0) - int(members.sum()) * totals
        score += np.abs(deviations) / 2.0
    score /= people * float(_STEPS)
    return score


def covariance_range() -> float:
    """By how much one person can push two of `covariances` apart, replaced or added or removed.

    Write D_c for the sum over p of (x_p - mean x) [p in c], m and q_c for the mean of x and the share of
    class c among N others. Somebody with x in [0, 1] and class d who joins moves the vector D by N / (N + 1)
    times v(x, d) = (x - m)(e_d - q), where e_d is 1 at d. A score is half the L1 norm of D, and half the norm
    of v is |x - m| (1 - q_d) <= 1. Somebody replaced moves D by a factor below 1 times v(x', d') - v(x, d).
    Its norm is convex in x and in x', so that it is largest where each is 0 or 1; half of it is then 1 - m or
    m if x = x', and at most (1 - m) + m otherwise. So a score moves by at most 1 either way, and two of them
    by 2 against each other. The last rounding of a score, relative 2^-50, is covered by a factor.
    """
    return 2.0 * (1.0 + 2.0**-20)
