"""Estimators for scikit-learn: private selection with fit, transform and get_support, in a Pipeline."""

from __future__ import annotations

import math
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from types import FrameType
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, is_classifier
from sklearn.feature_selection import SelectorMixin
from sklearn.model_selection import ParameterGrid, check_cv
from sklearn.model_selection._search import BaseSearchCV
from sklearn.utils.validation import check_array, check_is_fitted, check_non_negative, validate_data

from .. import objectives
from ..constraints import Cardinality, Constraint
from ..core import checks
from ..core.names import item_numbers
from ..core.options import Adjacency, FeatureObjective, GreedyMethod, ItemObjective, Scale
from ..core.text import at_most
from ..objectives import MutualInformation, Population
from ..objectives.devices import QUIET
from ..objectives.mutual_information import LARGEST_TABLE
from ..privacy import (
    Account,
    ApproximateRelease,
    Budget,
    BudgetExceeded,
    ConcentratedRelease,
    Entry,
    Event,
    ExponentialChoice,
    Gate,
    LaplaceNoise,
    PermuteAndFlip,
    PureRelease,
    Releases,
    Share,
)
from ..privacy.accountant import Spending
from ..privacy.conversions import exact, rounded_up
from ..privacy.ledger import PROCESS
from ..results import Selection
from .greedy import Allowance, PrivateGreedy, Residual, least_epsilon

# Beginnings of scikit-learn's messages that reveal neither entries nor the number of rows.
_HARMLESS = ("Input X contains", "Input y contains", "Sparse data was passed", "float() argument must be")


@QUIET
def validated(selector: BaseEstimator, *data: Any, **options: Any) -> Any:
    """scikit-learn's own checks, with messages that reveal nothing about people."""
    try:
        return validate_data(selector, *data, dtype=np.float64, **options)
    except (TypeError, ValueError, OverflowError) as error:
        said, kind = str(error), type(error)
    if said.startswith(_HARMLESS):
        raise kind(said)
    if said.startswith("Found array with"):
        message = re.sub(r"shape=\(\d+", "shape=(", said)
    elif said.startswith("Expected 2D array"):
        message = "Expected a table with a row per person. Reshape your data"
    elif said.startswith("Complex data not supported"):
        message = "Complex data not supported"
    elif "inconsistent numbers of samples" in said:
        message = "X and y must have the same number of rows"
    else:
        message = "X must be a table of numbers, and y, where it is needed, a column"
    raise checks.DataError(message, said)


def kinds_of(labels: NDArray[Any], known: list[Any]) -> NDArray[np.int64]:
    """The index of each label among the known classes."""
    places = {value: place for place, value in enumerate(known)}
    try:
        return np.array([places[value] for value in labels.tolist()], dtype=np.int64)
    except (KeyError, TypeError) as error:  # a list, for instance, cannot be a key
        raise checks.DataError(
            f"y holds a class that is not among classes={known!r}", repr(error.args[0])
        ) from None


def known_classes(classes: Iterable[Any] | None) -> list[Any]:
    """The declared public list of classes, checked."""
    if classes is None:
        raise ValueError(
            "classes=[...] is missing: declare the public list of classes; a list read off the data would"
            " give away a class that only one person is in"
        )
    known = list(classes)
    if len(known) < 2 or len(set(known)) != len(known):
        raise ValueError(f"classes must be at least two distinct values, got {known!r}")
    return known


_MUCH_CUT = 0.1  # fraction of clipped entries of a feature above which clipped() warns


def public_range(
    bounds: tuple[ArrayLike, ArrayLike] | None, n_features: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The lowest and highest value of each feature, as declared."""
    if bounds is None:
        raise ValueError(
            "bounds=(low, high) is missing: declare the public range of the features; a range read off"
            " the data would give away its extremes"
        )
    try:
        low, high = (np.broadcast_to(np.asarray(end, dtype=np.float64), n_features) for end in bounds)
    except ValueError as error:
        raise ValueError(
            f"bounds must be (low, high): two numbers, or two arrays of {n_features} numbers"
        ) from error
    if not (np.isfinite(low).all() and np.isfinite(high).all() and (low < high).all()):
        raise ValueError("bounds must be finite, with low < high for every feature")
    return low, high


OBJECTIVES = ("auto", "threshold", "covariance", "mutual_information")
SCALES = ("linear", "log")
_LOG = 1000.0  # a thousandth of the range is mapped to a tenth


def scaled_to(
    bounds: tuple[ArrayLike, ArrayLike] | None, table: NDArray[np.float64], scale: str = "linear"
) -> NDArray[np.float64]:
    """The features scaled to [0, 1] by their public bounds, entry by entry."""
    low, high = public_range(bounds, table.shape[1])
    with np.errstate(over="ignore"):
        width = high - low
    if not np.isfinite(width).all():
        raise ValueError("bounds are too far apart: high - low must be finite for every feature")
    found = (np.clip(table, low, high) - low) / width  # in this order, so that no difference overflows
    return found if scale == "linear" else np.minimum(np.log1p(_LOG * found) / math.log1p(_LOG), 1.0)


# Products of numbers in [0, 1] are summed as integers of this many steps to 1, so that sums are exact.
_STEPS = 1 << 20
MOST_PEOPLE = 1 << 21


def covariances(scaled: NDArray[np.float64], kinds: NDArray[np.int64], n_classes: int) -> NDArray[np.float64]:
    """For each feature x, half the sum over classes c of |sum over people p in c of (x_p - mean x)|.

    With two classes both terms are equal, and the score is N |covariance|. Features are rounded to a grid
    first; the score is then computed from integers, and rounded once.

    >>> covariances(np.array([[0.0], [0.0], [1.0], [1.0]]), np.array([0, 0, 1, 1]), 2)
    array([1.])
    """
    steps = np.rint(scaled * _STEPS).astype(np.int64)
    people = steps.shape[0]
    if people > MOST_PEOPLE:
        raise ValueError(f"there are more than the {MOST_PEOPLE:,} people whose sums are exact")
    totals = steps.sum(axis=0)
    spread = np.zeros(steps.shape[1], dtype=np.int64)
    for kind in range(n_classes):
        members = kinds == kind
        # N times the sum of deviations within the class is an integer. All classes together deviate by at
        # most N / 2, so nothing exceeds 2^63.
        spread += np.abs(people * steps[members].sum(axis=0) - int(members.sum()) * totals)
    return np.asarray(spread / (2.0 * people * _STEPS))


def thresholds(table: NDArray[np.float64], kinds: NDArray[np.int64], n_classes: int) -> NDArray[np.float64]:
    """For each feature x, the largest of the `covariances` of all yes/no features "x > t".

    With two classes that is N q (1 - q) times the largest distance between the two distribution functions of
    x (the Kolmogorov-Smirnov statistic), q being a class's share. It is at least the covariance of x itself,
    for any bounds by which x is scaled: x in [0, 1] is the mean of "x > t" over t in [0, 1].

    >>> thresholds(np.array([[1.0], [2.0], [30.0], [4000.0]]), np.array([0, 0, 1, 1]), 2)
    array([1.])
    """
    people, sizes = table.shape[0], np.bincount(kinds, minlength=n_classes)
    found = np.zeros(table.shape[1], dtype=np.int64)
    for feature, values in enumerate(table.T):
        order = np.argsort(values, kind="stable")
        rising = values[order]
        ends = np.flatnonzero(np.append(rising[1:] != rising[:-1], True))  # the last index of each value
        spread = np.zeros(ends.size, dtype=np.int64)
        for kind in range(n_classes):
            below = np.cumsum(kinds[order] == kind)[ends]
            spread += np.abs(people * below - sizes[kind] * (ends + 1))
        found[feature] = spread.max(initial=0)
    return np.asarray(found / (2.0 * people))


def covariance_range() -> float:
    """How far one person can move the difference of two `covariances`, replaced or added or removed.

    Write D_c for the sum over p of (x_p - mean x) [p in c], m and q_c for the mean of x and the share of
    class c among N others. Adding a person with x in [0, 1] and class d moves the vector D by N / (N + 1)
    times v(x, d) = (x - m)(e_d - q), where e_d is 1 at d. A score is half the L1 norm of D, and half the norm
    of v is |x - m| (1 - q_d) <= 1. Replacing a person moves D by a factor below 1 times v(x', d') - v(x, d).
    Its norm is convex in x and in x', so it is largest where each is 0 or 1; half of it is then 1 - m or m if
    x = x', and at most (1 - m) + m otherwise. So a score moves by at most 1 either way, and the difference of
    two scores by at most 2. The last rounding of a score, relative 2^-50, is covered by a factor.

    `thresholds` are covered as well: each is the largest of scores of features in {0, 1}, one for every t,
    and the largest of numbers that each move by at most 1 moves by at most 1.
    """
    return 2.0 * (1.0 + 2.0**-20)


def covariance_choice(share: Share, count: int, *, pure: bool) -> ExponentialChoice | PermuteAndFlip:
    """The mechanism by which ``count`` features are picked.

    If they are charged in pure epsilon it is permute-and-flip, which loses less at the same rate. ``pure``
    says that this does not conflict with another definition at the gate.
    """
    choice = ExponentialChoice.within(share, covariance_range(), count)
    if pure and share.definition in (None, "pure"):
        flipped = PermuteAndFlip.within(share, covariance_range(), count, "pure")
        if flipped.rate >= choice.rate:
            return flipped
    return choice


def paid_in_pure(allowance: Allowance) -> bool:
    """Whether the gate spends pure epsilon, or may do so without restricting others."""
    definition = allowance.gate.definition
    return definition == "pure" or (definition is None and allowance.alone)


def chance_of_a_copy(choice: ExponentialChoice | PermuteAndFlip, n_features: int, n_people: int) -> float:
    """The probability that a feature equal to a balanced class is picked over uninformative ones.

    Its score is n_people / 4, the largest possible, and theirs is 0.
    """
    odds = math.exp(-min(700.0, choice.rate * n_people / 4.0))
    if isinstance(choice, PermuteAndFlip):
        return (
            -math.expm1(n_features * math.log1p(-odds)) / (n_features * odds)
            if odds < 1.0
            else 1 / n_features
        )
    return 1.0 / (1.0 + (n_features - 1) * odds)


def copy_warning(allowance: Allowance, k: int, n_features: int, n_people: int) -> str | None:
    """The warning for a budget with which even such a feature is hardly found; None if it is enough."""
    pure = paid_in_pure(allowance)

    def chance(share: Share) -> float:
        return chance_of_a_copy(covariance_choice(share, k, pure=pure), n_features, n_people)

    if (found := chance(allowance.share)) >= 0.5:
        return None
    enough = least_epsilon(lambda share: chance(share) >= 0.5, allowance.share)
    return (
        f"{allowance} is too small here for much more than chance: a feature that tells the class exactly is"
        f" picked first with probability {found:.2g} (at random {1 / n_features:.2g});"
        f" epsilon={enough:g} would make that 1/2"
    )


_JOBS = ("joblib.parallel.BatchedCalls", "joblib._dask.Batch")
_ELSEWHERE = (
    "a fit in another process (n_jobs) would be in no account: run jobs in threads, with"
    " joblib.parallel_config(backend='threading'); to fit an estimator that was loaded from a file, clone it"
)


def _search_above(estimator: Any) -> tuple[Any, int] | None:
    """The scikit-learn search that is about to fit clones of ``estimator``, and its number of splits.

    A search clones its estimator once, before the first fit, in the thread of its caller.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        search = frame.f_locals.get("self")
        if isinstance(search, BaseSearchCV) and frame.f_code.co_name == "fit":
            parts = [search.estimator, *search.estimator.get_params().values()]
            X, y = frame.f_locals.get("X"), frame.f_locals.get("y")
            folds = check_cv(search.cv, y, classifier=is_classifier(search.estimator))
            mine = any(part is estimator for part in parts)
            return (search, int(folds.get_n_splits(X, y))) if mine else None
        frame = frame.f_back
    return None


def _epsilons_of(search: Any, splits: int, epsilon: float) -> list[float]:
    """The epsilon of every fit of a search; ``epsilon`` is that of its estimator."""
    grid = getattr(search, "param_grid", None)
    candidates = [{}] * getattr(search, "n_iter", 1) if grid is None else list(ParameterGrid(grid))
    each = [
        next((value for name, value in one.items() if name.rpartition("__")[2] == "epsilon"), epsilon)
        for one in candidates
    ]
    refit = [max(each, default=epsilon)] if search.refit else []
    return [one for one in each for _ in range(splits)] + refit


class RepeatedFitWarning(UserWarning):
    """An estimator, or clones of it, are fitted more than once: each fit spends a budget of its own."""


@dataclass
class Family:
    """The accounts of all objects that were cloned from one another."""

    accounts: list[Account] = field(default_factory=list)
    warned: bool = False


@dataclass
class Fits:
    """The fits of one object of a family."""

    family: Family = field(default_factory=Family)
    accounts: list[Account] = field(default_factory=list)
    _places: list[Gate | None] = field(default_factory=list)  # the gate of all fits; None if each has its own

    @property
    def account(self) -> Account:
        """The account of all fits of this object and of its clones together."""
        if (place := self._places[0]) is not None:
            return place.spent
        mine = relation(self.accounts[0].budget)
        alike = [one for one in self.family.accounts if relation(one.budget) == mine]
        account = _together(alike)
        if len(alike) == len(self.family.accounts):
            return account
        caveat = "clones were fitted with other neighbours or contributions: their fits come on top"
        return replace(account, caveats=(*account.caveats, caveat))

    @contextmanager
    def one(self, allowance: Allowance, *, own: bool) -> Iterator[None]:
        """A context for one fit, at its ``own`` gate or a shared one.

        Releases made count, even if the fit fails afterwards.
        """
        place = None if own else allowance.gate
        if self._places and self._places[0] is not place:
            raise ValueError(
                "budget was changed after a fit, so that privacy_ would miss what went another way; fit a"
                " clone"
            )
        self._places = [place]
        if place is None:
            self._warn(allowance.share.budget)
        try:
            yield
        except BaseException:
            if place is None and allowance.gate.spent.ledger.counts:
                self._note(allowance.gate.spent)
            raise
        if place is None:
            self._note(allowance.gate.spent)

    def _note(self, account: Account) -> None:
        self.family.accounts.append(account)
        self.accounts.append(account)

    def _warn(self, budget: Budget) -> None:
        """Warn of the total including this fit, before it is spent."""
        mine, family = self.accounts, self.family
        if mine and relation(mine[0].budget) != relation(budget):
            raise ValueError(
                f"{relation(budget)}, but this object was fitted with {relation(mine[0].budget)}, and the"
                " two guarantees do not add up; fit a clone"
            )
        if not mine and (family.warned or not family.accounts):
            return
        family.warned = True
        spent = [one.budget for one in mine or family.accounts if one.epsilon()] + [budget]
        epsilon, delta = _added_up(spent)
        what = "this estimator is fitted again" if mine else "clones of one estimator are fitted"
        beside = f" and delta {at_most(delta)}" if delta else ""
        warnings.warn(
            f"{what}: each fit is a release of its own, and {len(spent)} so far come to epsilon"
            f" {at_most(epsilon)}{beside} for those who are in all of them; every further one adds to that."
            " Give budget=Gate(Budget(...)) to hold all of them to one budget",
            RepeatedFitWarning,
            stacklevel=6,
        )


def _in_threads() -> bool:
    """Whether joblib runs jobs in threads of this process."""
    from joblib.parallel import get_active_backend

    return bool(getattr(get_active_backend()[0], "supports_sharedmem", False))


def _in_a_job() -> bool:
    """Whether the caller is called by a job of joblib, as all are in another process."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        job = type(frame.f_locals.get("self"))
        if frame.f_code.co_name == "__call__" and f"{job.__module__}.{job.__name__}" in _JOBS:
            return True
        frame = frame.f_back
    return False


def relation(budget: Budget) -> str:
    """The adjacency and contribution limit of a budget, in terms of an estimator's arguments."""
    return f"neighbours={budget.neighbours!r}, max_rows_per_person={budget.max_rounds_per_person}"


def _added_up(budgets: list[Budget]) -> tuple[float, float]:
    """Epsilon and delta of several fits by basic composition, which holds for adaptively chosen fits."""
    if not all(budget.private for budget in budgets):
        return math.inf, 0.0
    epsilon = sum((exact(budget.epsilon) for budget in budgets), Fraction(0))
    delta = sum((exact(budget.delta) for budget in budgets), Fraction(0))
    return (rounded_up(epsilon), rounded_up(delta)) if delta < 1 else (math.inf, 0.0)


def _together(accounts: list[Account]) -> Account:
    """One account of several fits, each listed by its guarantee for a person with all their rows."""
    if len(accounts) == 1:
        return accounts[0]
    ledger = Releases()
    for account in accounts:
        epsilon, delta = account.epsilon(), account.budget.delta
        event: Event = LaplaceNoise(1.0, 0.0)
        if math.isfinite(epsilon):
            event = ApproximateRelease(epsilon, delta) if delta else PureRelease(epsilon)
        if epsilon:
            ledger.add(Entry("one fit", event), 1)
    epsilon, delta = _added_up([account.budget for account in accounts])
    whole = Budget(epsilon, delta, accounts[0].budget.neighbours)
    caveats = tuple(dict.fromkeys(one for account in accounts for one in account.caveats))
    # In pure epsilon and deltas: the decision to fit again may depend on earlier fits.
    return Account(whole, ledger, any(account.reproducible for account in accounts), caveats, "pure")


# Populations that can be made from a people x items matrix, by name.
_FAMILIES = {
    "coverage": "Coverage",
    "probabilistic_coverage": "ProbabilisticCoverage",
    "facility_location": "FacilityLocation",
}


class _PrivateSelector(SelectorMixin, BaseEstimator):
    """Base of both selectors: the mask, the labels, the budget, and the account.

    Every ``fit`` is a release of its own, at ``epsilon`` and ``delta``, or at ``budget`` if that is a
    `Budget`. Fitting an object again, or clones of it, as cross-validation and grid search do, adds up for
    people who are in several fits: `RepeatedFitWarning` names the total before it is spent. ``budget`` may
    also be a `Gate`: fits of the object and of its clones then all release through it, each at ``epsilon``
    and ``delta`` (at all that is left, if no epsilon is given), and refuse what does not fit there. A search
    of scikit-learn is refused before its first fit if its fits together exceed the gate. A share
    (``budget.split``, ``gate.split``) is spent by one fit, once. Fits that joblib would send to other
    processes are refused, as no account would include them: with ``n_jobs``, use
    ``joblib.parallel_config(backend="threading")``.
    """

    selection_: Selection
    n_features_in_: int
    epsilon: float | None
    delta: float
    method: GreedyMethod
    neighbours: Adjacency | None
    max_rows_per_person: int | None
    include: Any
    exclude: Any
    candidates: Any
    budget: Spending | None
    random_state: int | None

    @property
    def privacy_(self) -> Account:
        """The privacy account of all fits, in this process, of this object and of its clones.

        Fits that joblib would send to other processes (``n_jobs``) are refused; fits of copies and in forked
        processes are not included and add to it. After several fits each is listed by its guarantee, and
        epsilons and deltas are added up. With a gate or a share this is the account of the gate, with all
        releases through it.
        """
        check_is_fitted(self, "selection_")
        return self._fits.account

    def __sklearn_clone__(self) -> Self:
        twin: Self = super().__sklearn_clone__()
        twin.__dict__["_fitted"] = Fits(self._fits.family)
        if self.__dict__.get("_sent") and _in_a_job():  # as a meta-estimator in that job may clone it
            twin.__dict__["_sent"] = True
        if (found := _search_above(self)) is not None:
            self._look_ahead(*found)
        return twin

    def _look_ahead(self, search: Any, splits: int) -> None:
        """Refuse a search whose fits exceed the gate, before the first of them is made."""
        if search.n_jobs not in (None, 1) and not _in_threads():
            raise ValueError(_ELSEWHERE)
        if not isinstance(self.budget, Gate):
            return
        if self.epsilon is None:
            raise ValueError(
                "epsilon= is missing: the first fit of a search would spend all that is left of the gate;"
                " say what each fit may spend"
            )
        gate, each = self.budget, _epsilons_of(search, splits, self.epsilon)
        together: Event = PureRelease(sum(map(exact, each)))
        if self.delta > 0.0 and gate.definition != "pure":
            together = ConcentratedRelease(sum(exact(Budget(one, self.delta).rho) for one in each))
        preview = gate.preview(together)
        if not preview.fits:
            fits = f"{len(each)} fits at epsilon {min(each):g}"
            refused = BudgetExceeded(preview)
            refused.add_note(
                f"The search needs {fits}{f' to {max(each):g}' if max(each) > min(each) else ''},"
                f" {at_most(float(sum(map(exact, each))))} added up; the gate has spent"
                f" {at_most(preview.spent)} of {at_most(preview.limit)}. Nothing was fitted."
            )
            raise refused

    def __getstate__(self) -> Any:
        if isinstance(self.budget, Share):
            raise TypeError("an estimator with a share is not copied or pickled, or it could be spent twice")
        return super().__getstate__() | {"_process": (os.getpid(), PROCESS[0])}

    def __setstate__(self, state: dict[str, Any]) -> None:
        made = state.pop("_process", None)  # joblib sends clones to other processes by pickling them
        super().__setstate__(state)
        self.__dict__["_sent"] = made != (os.getpid(), PROCESS[0]) or self.__dict__.get("_sent", False)

    @property
    def _fits(self) -> Fits:
        # Made at the first fit or clone: scikit-learn allows only parameters in ``__init__``.
        fits: Fits = self.__dict__.setdefault("_fitted", Fits())
        return fits

    def _allowance(self) -> Allowance:
        """The allowance of this fit: its share and gate."""
        if self.__dict__.get("_sent"):
            raise RuntimeError(_ELSEWHERE)
        given, epsilon = self.budget, self.epsilon
        if given is None:
            if epsilon is None:
                raise ValueError(
                    "epsilon= is missing: say what a fit may spend, such as epsilon=1.0, or give budget="
                )
            budget = Budget(
                epsilon,
                self.delta,
                self.neighbours or "replace",
                self.max_rows_per_person or 1,
            )
            return Allowance(budget, self.random_state)
        if not isinstance(given, Budget | Share | Gate):
            raise TypeError(
                f"budget must be a Budget, a share of one, a Gate or None, got {type(given).__name__}"
            )
        whole = given if isinstance(given, Budget) else given.budget
        asked = Budget(
            whole.epsilon,
            whole.delta,
            self.neighbours or whole.neighbours,
            self.max_rows_per_person or whole.max_rounds_per_person,
        )
        if relation(asked) != relation(whole):
            raise ValueError(f"{relation(asked)}, but the budget has {relation(whole)}; give both the same")
        gated = isinstance(given, Gate) or (isinstance(given, Share) and given.gate is not None)
        if gated and self.random_state is not None:
            raise ValueError(
                f"random_state={self.random_state!r} goes with a gate of the fit's own; the randomness of a"
                " shared one is the gate's: Gate(budget, seed)"
            )
        if isinstance(given, Gate) and epsilon is not None:
            # The fit's own amount, spent in the definition that the gate keeps to.
            each = Budget(epsilon, self.delta, whole.neighbours, whole.max_rounds_per_person)
            return Allowance(Share(each, Fraction(1), given.definition if each.delta else None, given))
        if epsilon is not None or self.delta:
            raise ValueError(
                "epsilon= and delta= go with a Gate, of which each fit spends that much; a budget or a share"
                " says itself how much there is"
            )
        if isinstance(given, Share):
            return given.once(Allowance, lambda: Allowance(given, self.random_state))
        return Allowance(given, None if gated else self.random_state)

    def _greedy(
        self, people: Population, constraint: Constraint, allowance: Allowance, advice: str = ""
    ) -> None:
        given = {"include": self.include, "exclude": self.exclude, "candidates": self.candidates}
        greedy = PrivateGreedy(constraint, allowance, self.method, bound=people.bound, **given)
        greedy._advice = advice
        with self._fits.one(allowance, own=not isinstance(self.budget, Share | Gate)):
            chosen = greedy.select(people)
        self.selection_ = chosen  # shown once it is in the account, which an interrupt may come before

    def _get_support_mask(self) -> NDArray[np.bool_]:
        check_is_fitted(self, "selection_")
        mask = np.zeros(self.n_features_in_, dtype=np.bool_)
        mask[list(self.selection_.items)] = True
        return mask

    def _names(self) -> list[Any] | None:
        names = getattr(self, "feature_names_in_", None)
        return None if names is None else list(names)

    def _forget(self) -> None:
        """Delete the result of an earlier fit, so that it is not applied to new columns if this fit fails."""
        if hasattr(self, "selection_"):
            del self.selection_

    def _more(self, k: int) -> None:
        if k > self.n_features_in_:
            raise ValueError(f"k={k} exceeds the {self.n_features_in_} columns of X; choose a smaller k")


class PrivateItemSelector(_PrivateSelector):
    """The k columns that serve most rows: one row per person, one column per item.

    ``objective`` is ``"coverage"`` (a person is served by any item they have), ``"probabilistic_coverage"``
    (entries are probabilities), ``"facility_location"`` (entries are values, up to the public ``bound``, 1
    unless declared), or a function from the matrix to a `Population`. ``constraint`` replaces k.
    ``items_per_person`` keeps at most this many items of each person, chosen by a keyed hash of the row (see
    ``cap_items``). ``method`` as in `PrivateGreedy`. ``random_state=None`` draws secure randomness; with a
    number the fit is reproducible and marked as not private. ``include`` and ``exclude``: public columns, by
    name or by number, that are chosen from the start (they count towards k), and that cannot be chosen;
    ``candidates``: the columns that alone can be chosen, so that noise decides among fewer.

    Guarantee: every fit is (epsilon, delta)-DP for one row, under ``neighbours``; only the set of chosen
    columns is released. Fits on the same people add up; a `Gate` as ``budget`` limits all of them, also those
    of clones, to one budget. The list of columns is assumed public: an item that only one person has is not a
    public column. If an ``objective`` knows otherwise (``Population.catalogue``), ``privacy_`` says so.

    >>> import numpy as np
    >>> X = np.eye(4)[np.random.default_rng(0).choice(4, 400, p=[0.5, 0.3, 0.1, 0.1])]
    >>> chosen = PrivateItemSelector(k=2, epsilon=2.0, random_state=0).fit(X)
    >>> chosen.transform(X).shape, chosen.privacy_.epsilon() <= 2.0
    ((400, 2), True)
    """

    def __init__(
        self,
        k: int = 5,
        epsilon: float | None = None,
        delta: float = 0.0,
        objective: ItemObjective | Callable[[Any], Population] = "coverage",
        *,
        bound: float | None = None,
        constraint: Constraint | None = None,
        method: GreedyMethod = "auto",
        items_per_person: int | None = None,
        include: Any = None,
        exclude: Any = None,
        candidates: Any = None,
        neighbours: Adjacency | None = None,
        max_rows_per_person: int | None = None,
        budget: Spending | None = None,
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
        self.include = include
        self.exclude = exclude
        self.candidates = candidates
        self.neighbours = neighbours
        self.max_rows_per_person = max_rows_per_person
        self.budget = budget
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002  (scikit-learn passes it)
        """Choose the columns; ``y`` is not used."""
        self._forget()
        allowance = self._allowance()
        matrix = validated(self, X, accept_sparse="csr")
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
        self._greedy(people, constraint, allowance)
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
    """The k most informative features about a class, chosen privately.

    ``classes`` is the public list of classes, never inferred from the data: a class may have one person in
    it.

    ``objective="threshold"``: features are scored by how well the best rule "above t or not" separates the
    classes (`thresholds`). It needs no range of the features, and units, long tails and outliers do not
    matter; one person moves a score by at most 1 (`covariance_range`). If pure epsilon is spent, features are
    picked by permute-and-flip, which loses less than exponential choices at the same rate. Redundant features
    are not recognized.

    The other objectives need ``bounds``, the public range of the features: one (low, high) for all of them,
    or arrays with one per feature, never inferred from the data: a smallest or largest value belongs to
    somebody. Entries outside are clipped. ``"covariance"``: the features with the largest absolute covariance
    with the class, which falls with the width of the bounds; picked in the same way. ``"auto"``, the default,
    is covariance if there are bounds and threshold if there are none (or if there are more people than the
    2^21 whose covariances are exact, where that number is public); ``objective_`` is the one used. With the
    documented ranges of five data sets both chose about equally well; with ranges ten times as wide
    thresholds chose better on four and as well on the fifth. So omit bounds unless you know them.
    ``"mutual_information"``: greedy on the joint information of the chosen features about the class, in a
    naive Bayes model of ``bins`` equal parts of their range (`MutualInformation`). One person can move it by
    about log(N) / N, so that noise dominates with hundreds or a few thousand people. ``scale="log"`` is for
    amounts, counts and others that have long tails above ``low``, or whose highest value is a guess: entries
    are scaled logarithmically, from a thousandth of the range on. A few large values then matter less, and
    bounds that are ten times too wide cost less.

    Guarantee: every fit is (epsilon, delta)-DP for one row of (X, y) together, under ``neighbours``; only the
    set of chosen features is released. Fits on the same people add up; a `Gate` as ``budget`` limits all of
    them, also those of clones, to one budget. The list of features is assumed public, and so are ``include``
    and ``exclude``: features, by name or by number, that are chosen from the start (they count towards k),
    and that cannot be chosen. Mutual information is then the gain on top of the included ones.
    ``candidates``: the public features that alone can be chosen, so that noise decides among fewer.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 2, 1000)
    >>> X = np.column_stack([rng.random(1000), (y + rng.random(1000)) / 2, rng.random(1000)])
    >>> chosen = PrivateFeatureSelector(1, 1.0, classes=[0, 1], random_state=0).fit(X, y)
    >>> chosen.get_support().tolist()
    [False, True, False]
    """

    def __init__(
        self,
        k: int = 5,
        epsilon: float | None = None,
        delta: float = 0.0,
        objective: FeatureObjective = "auto",
        *,
        bounds: tuple[ArrayLike, ArrayLike] | None = None,
        classes: Iterable[Any] | None = None,
        bins: int = 4,
        scale: Scale = "linear",
        method: GreedyMethod = "auto",
        include: Any = None,
        exclude: Any = None,
        candidates: Any = None,
        neighbours: Adjacency | None = None,
        max_rows_per_person: int | None = None,
        budget: Spending | None = None,
        random_state: int | None = None,
    ) -> None:
        self.k = k
        self.epsilon = epsilon
        self.delta = delta
        self.objective = objective
        self.bounds = bounds
        self.classes = classes
        self.bins = bins
        self.scale = scale
        self.method = method
        self.include = include
        self.exclude = exclude
        self.candidates = candidates
        self.neighbours = neighbours
        self.max_rows_per_person = max_rows_per_person
        self.budget = budget
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Choose the features."""
        if y is None:
            raise ValueError("y is missing: features are chosen by what they tell about a class")
        self._forget()
        allowance = self._allowance()
        if isinstance(y, list | tuple):
            y = np.array(y, dtype=object)  # no person's class decides the type of the others'
        table, labels = validated(self, X, y)
        checks.one_of("objective", self.objective, OBJECTIVES)
        k = checks.whole("k", self.k, at_least=1)
        self._more(k)
        left = self._residual(k)
        known = known_classes(self.classes)
        scale = checks.one_of("scale", self.scale, SCALES)
        # The number of people is public under replacement only.
        public = allowance.share.neighbours == "replace"
        self.objective_ = self.objective
        if self.objective == "auto":
            many = public and table.shape[0] > MOST_PEOPLE
            self.objective_ = "threshold" if many or self.bounds is None else "covariance"
        kinds, scaled = kinds_of(labels, known), table
        if self.objective_ != "threshold":
            scaled = scaled_to(self.bounds, table, scale)
        elif self.bounds is None and scale != "linear":
            raise ValueError(f"scale={scale!r} is about bounds=(low, high), which are missing")
        if self.objective_ != "mutual_information":
            if public and allowance.share.private and not left.forced:
                _warn(copy_warning(allowance, _picks(left), int(left.free.size), scaled.shape[0]))
            score = covariances if self.objective_ == "covariance" else thresholds
            self._largest(score(scaled, kinds, len(known)), left, allowance)
            return self
        bins = checks.whole("bins", self.bins, at_least=2)
        cells = len(known) * bins**k
        if cells > LARGEST_TABLE:
            raise ValueError(
                f"k={k} features in bins={bins} parts make a table of {cells} cells, above {LARGEST_TABLE};"
                " choose fewer features, fewer bins, or objective='covariance'"
            )
        parts = np.minimum((scaled * bins).astype(np.int64), bins - 1)
        people = MutualInformation(parts, kinds, n_classes=len(known), n_values=bins, labels=self._names())
        self._greedy(people, Cardinality(k), allowance, self._instead(allowance, left, scaled.shape[0]))
        return self

    def clipped(self, public: Any) -> NDArray[np.float64]:
        """The fraction of each feature's entries in a *public* table that ``bounds`` clip; warns if large.

        For public data only: an old release, a synthetic table, a survey. Nothing is spent, and nothing is
        protected.
        """
        table = check_array(public, dtype=np.float64)
        low, high = public_range(self.bounds, table.shape[1])
        outside = ((table < low) | (table > high)).mean(axis=0)
        if (worst := int(np.argmax(outside))) >= 0 and outside[worst] > _MUCH_CUT:
            _warn(
                f"bounds cut {100 * outside[worst]:.0f} % of the entries of feature {worst} of these data;"
                " wider bounds keep what it tells"
            )
        return np.asarray(outside)

    def _residual(self, k: int) -> Residual:
        """The residual choice, given included and excluded features."""
        size, names = self.n_features_in_, self._names()
        included, excluded = (
            item_numbers(argument, () if given is None else given, size, names)
            for argument, given in (("include", self.include), ("exclude", self.exclude))
        )
        if self.candidates is not None:
            few = item_numbers("candidates", self.candidates, size, names)
            excluded = [*excluded, *np.setdiff1d(np.arange(size), [*few, *included]).tolist()]
        return Residual.of(Cardinality(k, size), included, excluded, names)

    def _instead(self, allowance: Allowance, left: Residual, n_people: int) -> str:
        """Advice on covariance for the warning that a budget is too small for mutual information."""
        if not allowance.share.private or n_people > MOST_PEOPLE or left.forced:
            return ""
        choice = covariance_choice(allowance.share, _picks(left), pure=paid_in_pure(allowance))
        chance = chance_of_a_copy(choice, int(left.free.size), n_people)
        return (
            f'; objective="covariance" would make it {chance:.2g} for a feature that tells the class exactly'
        )

    def _largest(self, scores: NDArray[np.float64], left: Residual, allowance: Allowance) -> None:
        """Pick features privately by their scores, among those that are left."""
        share, gate, moves = allowance.share, allowance.gate, covariance_range()
        open_items = np.zeros(scores.size, dtype=np.bool_)
        open_items[left.free] = True
        # If there is nothing to choose, nothing is drawn or spent.
        chosen = left.items(range(left.free.size) if left.forced else ())
        picks = 0 if left.forced else _picks(left)
        pure = paid_in_pure(allowance)
        choice = covariance_choice(share, picks, pure=pure) if share.private and picks else None
        with self._fits.one(allowance, own=not isinstance(self.budget, Share | Gate)):
            if choice is not None:
                allowance.expect((choice, picks))
            for _ in range(picks):
                candidates = np.flatnonzero(open_items)
                release = gate.reserve(
                    choice or LaplaceNoise(moves, 0.0), label=f"feature by {self.objective_}"
                )
                if choice is None:
                    place = int(np.argmax(scores[candidates]))
                elif isinstance(choice, PermuteAndFlip):
                    place = release.permute_and_flip(scores[candidates])
                else:
                    place = release.choice(scores[candidates])
                chosen.append(int(candidates[place]))
                open_items[chosen[-1]] = False
        names = self._names()
        labels = None if names is None else tuple(names[item] for item in chosen)
        given = tuple(left.included.tolist())
        self.selection_ = Selection(tuple(chosen), None, labels, gate.spent, queries=1, included=given)


def _picks(left: Residual) -> int:
    return 0 if left.constraint is None else left.constraint.rank


def _warn(message: str | None) -> None:
    if message is not None:
        warnings.warn(message, stacklevel=4)
