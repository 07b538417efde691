"""Personal sets: a public item model from releases, with which each person's own set is computed locally.

Two sums over people are released with noise, once: of their unit vectors (popularity), and of all products of
two entries of these (pairs of items). Everything computed from them is public: a model, by which a person's
device computes their own set from their own history.

Formal guarantee: joint differential privacy. For every person i, all that anybody but i receives (the model,
and everybody else's sets, all together, with any knowledge of the others) is (epsilon, delta)-DP in i's data:
the model is, and j's set is a function of the model and of j's own history (the billboard lemma of Hsu et al.
2014). Not covered: i's own set towards anyone who sees i's screen, mail or logs; a server that holds the data
or receives a history with a request; a history of j that contains actions of i, as in an account that two
people share; public facts that a set is requested with. The losses of several fits to the same people add up.

Sensitivity. A row x without negative entries becomes u = x / |x|, rounded down (`kernels.pairs`), with norm
at most 1. The same holds for the matrix u u', whose norm is |u|^2, and for (a u u', b u) with a^2 + b^2 <= 1.
None of these has a negative entry. Adding or removing a person therefore moves a sum by at most 1 in L2, and
replacing one by at most sqrt 2, as |v - w|^2 = |v|^2 + |w|^2 - 2 <v, w> <= 2 if <v, w> >= 0. With values of
both signs this would be 2: they are refused.

The model is that of EASE (Steck 2019), the closed form of a linear regression of every item on all others,
with noise removed from the matrix of pairs by shrinking its eigenvalues (Gavish and Donoho 2017) and added to
the ridge. The constants below were tuned on five data sets, among them eshop_clicks and msweb, and then
fixed; `benchmarks/personal.py` evaluates them on other splits.
"""

from __future__ import annotations

import io
import json
import math
import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.linalg import svds

from .constraints import Constraint, Matroid
from .constraints.residual import rest_of
from .core import checks
from .core.guards import fix, fixed, settle
from .core.names import item_numbers, listed, plain_label
from .core.state import in_range, read_state, refusing, replacing, state_bytes
from .data import Events, Store
from .kernels.pairs import add_unit_pairs, add_units
from .objectives import EmbeddedFacilityLocation, Population, ProbabilisticCoverage
from .objectives.stored import StoredPopulation
from .privacy import Account, VectorBounds
from .results import Selection

Floats = NDArray[np.float64]
Steps = NDArray[np.int64]
Places = NDArray[np.int32]

MOST_PEOPLE = 1 << 29  # up to this many, sums are exact floats
STATEMENT = (
    "Joint differential privacy: everything that others receive, all of them together, except those who"
    " collected the data, says no more about you than the budget allows. Your own set follows from your own"
    " history: keep it to yourself."
)


# --- sums over people -------------------------------------------------------------------------------------


def as_people(given: Any) -> Population:
    """People as rows without negative entries, from a population, events, a store, or a matrix."""
    if isinstance(given, Events):
        return ProbabilisticCoverage.of_events(given)
    if isinstance(given, Store):
        return ProbabilisticCoverage.from_store(given)
    people = given if isinstance(given, Population) else ProbabilisticCoverage(given)
    # By type: whether embeddings give rows depends on the number of people, which may be private.
    known = not isinstance(people, EmbeddedFacilityLocation) and people.as_rows() is not None
    if not isinstance(people, StoredPopulation) and not known:
        raise TypeError(
            f"people must have a row of items each, as in objectives.Coverage(matrix), got a"
            f" {type(people).__name__}: pairs of items are counted, and a function has none"
        )
    return people


def everywhere(n_items: int) -> Places:
    """The identity map of items to places."""
    return np.arange(n_items, dtype=np.int32)


def places_of(kept: NDArray[Any], n_items: int) -> Places:
    """The place of each item among the kept ones; -1 for the others."""
    found = np.full(n_items, -1, dtype=np.int32)
    found[kept] = np.arange(kept.size)
    return found


def unit_sums(people: Population) -> Steps:
    """The sum of everybody's unit vectors, in integer units."""
    return _summed(people, partial(_units, everywhere(people.n_items)), (people.n_items,))


def pair_sums(people: Population, kept: NDArray[Any]) -> Steps:
    """The sum of the products of two entries of unit vectors, which are made from the kept items alone."""
    size = int(kept.size)
    return _summed(people, partial(_pairs, places_of(kept, people.n_items), size), (size, size))


def _summed(people: Population, count: Any, size: tuple[int, ...]) -> Steps:
    if isinstance(people, StoredPopulation):
        return people.counted(count, size)
    found: Steps = count(people)
    return found


def _units(place: Places, people: Population) -> Steps:
    sums = np.zeros(place.size, dtype=np.int64)
    add_units(_matrix(people), 0, _everybody(people), place, 1, sums)
    return sums


def _pairs(place: Places, size: int, people: Population) -> Steps:
    pairs = np.zeros((size, size), dtype=np.int64)
    add_unit_pairs(_matrix(people), 0, _everybody(people), place, 1, pairs)
    return pairs


def _matrix(people: Population) -> Any:
    rows = people.as_rows()
    assert rows is not None
    return rows.sparse.view


def _everybody(people: Population) -> NDArray[np.bool_]:
    return np.ones(len(people), dtype=np.bool_)


def movement(neighbours: str, dimension: int) -> float:
    """How far one person moves a sum of such vectors of this dimension, in L2.

    >>> movement("add_remove", 2), 2.0 <= movement("replace", 2) ** 2 < 2.0 + 1e-12
    (1.0, True)
    """
    return VectorBounds(dimension, 2, norm_bound=1.0, box=(0.0, 1.0)).difference(neighbours)


# --- the plan of releases, from public sizes --------------------------------------------------------------

ENOUGH = 350.0  # n x mu from which pairs are useful
_MOST_PAIRED, _LEAST_PAIRED, _PER_ITEM = 1500, 40, 10.0


@dataclass(frozen=True)
class PairPlan:
    """What to release, from the public numbers of people and items and the budget's noise alone.

    ``signal`` is n x mu, where mu is the budget in Gaussian DP: a sum over n people has noise of deviation
    sqrt 2 / mu under replacement. ``paired`` is the number of items with pairs; 0 for popularity alone.
    ``share`` is the part of the budget spent on popularity.

    >>> PairPlan.of(24_000, 217, math.sqrt(2) / 0.2367).paired
    217
    >>> PairPlan.of(1_000, 217, math.sqrt(2) / 0.2367).reason
    'n x mu = 237 < 350: popularity alone'
    """

    n_items: int
    signal: float
    paired: int
    share: Fraction

    @classmethod
    def of(cls, n_people: float, n_items: int, deviation: float) -> PairPlan:
        """For ``n_people``, if a sum released with the full budget has noise of this ``deviation``."""
        signal = n_people * math.sqrt(2.0) / deviation if deviation else math.inf
        if signal < ENOUGH:
            return cls(n_items, signal, 0, Fraction(1))
        paired = min(n_items, _MOST_PAIRED)
        if math.isfinite(signal):
            paired = min(paired, max(_LEAST_PAIRED, int(signal / _PER_ITEM)))
        # If popularity decides which items to keep, it has to be more accurate.
        share = Fraction(1, 10) if paired == n_items else Fraction(1, 5)
        return cls(n_items, signal, paired, share)

    @property
    def reason(self) -> str:
        """What is released, and why."""
        if not self.paired:
            return f"n x mu = {self.signal:,.0f} < {ENOUGH:g}: popularity alone"
        which = (
            f"all {self.paired:,}"
            if self.paired == self.n_items
            else f"the {self.paired:,} most popular of {self.n_items:,}"
        )
        signal = f"{self.signal:,.0f}" if math.isfinite(self.signal) else "inf"
        return f"n x mu = {signal}: pairs of {which} items"


# --- the model --------------------------------------------------------------------------------------------

_EDGE, _OWN, _RIDGE, _PRIOR = 1.02, 0.02, 0.002, 0.3
# Exponents of similarity by public features if all items have pairs, and if not; and their largest effect.
_LIFT_ALL, _LIFT_SOME, _MOST_LIFT = 1.0, 2.0, 6.0
_ROUND = 2.0**40  # scores are rounded to 1 / this before sorting, for the same order on every machine
_FORMAT = "discreet-item-model"
_WORD = re.compile(r"[^\W_]+")


@dataclass(frozen=True)
class Factors:
    """A symmetric matrix V diag(w) V' + diag(d), where w are the shrunk eigenvalues of released pairs."""

    values: Floats
    vectors: Floats
    diagonal: Floats

    @classmethod
    def of(cls, popularity: Floats, pairs: Floats, n_people: float, deviation: float) -> Factors:
        """From released sums over the same items; ``deviation`` is that of the noise of an entry of pairs.

        An entry and its mirror image differ by noise only, so their mean has noise of deviation / sqrt 2 off
        the diagonal: a symmetric matrix whose norm is about sqrt(2 N) deviation. Eigenvalues below that are
        noise; those above are moved to their estimated value without noise.
        """
        means = popularity / n_people
        centred = (pairs + pairs.T) / 2.0 - n_people * np.outer(means, means)
        edge = math.sqrt(2.0 * means.size) * deviation
        found, vectors = np.linalg.eigh(centred)
        kept = found > _EDGE * edge
        before = found[kept]
        before = (before + np.sqrt(before**2 - edge**2)) / 2.0
        values = before * (1.0 - edge**2 / (4.0 * before**2))
        vectors = np.ascontiguousarray(vectors[:, kept])
        own = centred.diagonal() - (vectors**2) @ values
        own = np.maximum(own, _OWN * n_people * np.maximum(means, 0.0))
        return cls(values, vectors, own + _RIDGE * n_people + edge)

    @cached_property
    def half(self) -> Floats:
        """F such that the inverse is diag(1 / d) - F F' (Woodbury)."""
        if not self.values.size:
            return self.vectors.copy()
        scaled = self.vectors / self.diagonal[:, None]
        inner = np.diag(1.0 / self.values) + self.vectors.T @ scaled
        # F F' = scaled inner^-1 scaled', with inner = L L'.
        return np.ascontiguousarray(np.linalg.solve(np.linalg.cholesky(inner), scaled.T).T)

    @cached_property
    def inverse_diagonal(self) -> Floats:
        return np.asarray(1.0 / self.diagonal - (self.half**2).sum(axis=1))

    def times_inverse(self, x: Floats) -> Floats:
        """The inverse times a vector."""
        return np.asarray(x / self.diagonal - self.half @ (self.half.T @ x))


def public_features(features: Any, n_items: int, labels: Sequence[Any] | None = None) -> Floats | None:
    """One row of norm 1 for each item; a row of zeros stays one.

    Rows by position, or by label: of a mapping, or of a frame that has an index. Rows of other items are
    ignored.

    >>> public_features({"tea": [0, 2], "milk": [3, 4], "soap": [1, 0]}, 2, ["milk", "tea"]).tolist()
    [[0.6, 0.8], [0.0, 1.0]]
    """
    if features is None:
        return None
    indexed = hasattr(features, "index") and hasattr(features, "to_numpy")  # a pandas frame
    if isinstance(features, Mapping) or (indexed and labels is not None):
        features = _by_label(features, range(n_items) if labels is None else labels)
    try:
        found = np.array(features.toarray() if hasattr(features, "toarray") else features, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"features must be rows of numbers, all of one length: {error}; personal.word_features makes them"
            " of words or categories"
        ) from None
    if found.ndim != 2 or found.shape[0] != n_items or not found.shape[1]:
        raise ValueError(f"features must have one row for each of the {n_items} items, got {found.shape}")
    checks.finite("features", found)
    lengths = np.linalg.norm(found, axis=1, keepdims=True)
    return np.asarray(found / np.where(lengths, lengths, 1))


def _by_label(features: Any, labels: Sequence[Any]) -> list[Any]:
    given = features if isinstance(features, Mapping) else _rows_of(features)
    missing = [label for label in labels if label not in given]
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise ValueError(
            f"features say nothing about {checks.shown(missing[0])}{more}; give a row for each item by its"
            " label (of zeros, where nothing is known), or rows by position as an array"
        )
    return [given[label] for label in labels]


def _rows_of(frame: Any) -> dict[Any, Any]:
    rows = {plain_label(label): row for label, row in zip(frame.index, frame.to_numpy(), strict=True)}
    if len(rows) < len(frame):
        raise ValueError("features have two rows for one item; the index must have every label once")
    return rows


def word_features(*columns: Sequence[str], most: int = 128) -> Floats:
    """Public features of texts about items: the words of descriptions, titles, or categories.

    Each column has a text for each item. Words count separately for each column, if at least two items have
    them, with weight log(n / count). If there are many words, the ``most`` largest singular directions are
    kept.

    >>> about = word_features(["green tea", "black tea", "green soap"], ["drink", "drink", "bath"])
    >>> [round(float(likeness), 2) for likeness in about @ about[0]]
    [1.0, 0.82, 0.58]
    """
    n_items = len(columns[0]) if columns else 0
    if not n_items or any(len(column) != n_items for column in columns):
        raise ValueError("give columns of texts, each with one for every item")
    held = [
        sorted({(place, word) for place, text in enumerate(row) for word in _WORD.findall(text.casefold())})
        for row in zip(*columns, strict=True)
    ]
    counts = Counter(chain.from_iterable(held))
    number = {word: place for place, word in enumerate(sorted(w for w, n in counts.items() if n > 1))}
    if not number:
        raise ValueError("no two items have a word in common, so that none is like another by these texts")
    where = [(row, word) for row, words in enumerate(held) for word in words if word in number]
    rare = [math.log(n_items / counts[word]) for _, word in where]
    places = ([row for row, _ in where], [number[word] for _, word in where])
    matrix = sp.csr_array((rare, places), shape=(n_items, len(number)))
    lengths = np.sqrt(matrix.multiply(matrix).sum(axis=1))
    matrix = sp.csr_array(sp.diags_array(1.0 / np.where(lengths, lengths, 1)) @ matrix)
    if min(matrix.shape) <= checks.whole("most", most, at_least=1):
        return np.asarray(matrix.toarray())
    left, values, _ = svds(matrix, k=most, v0=np.ones(min(matrix.shape)))
    return np.asarray(left * values)


@fixed
class Recommender:
    """Each person's own set, from releases about items and pairs of items.

    It holds releases and post-processing of them, no person and no true sum: its files are public. A set is a
    function of it and of a person's own history. Made by `offline.PrivateRecommender.fit` and by
    `online.PersonalSelector.recommender`; `discreet.load` reads a saved one.

    ``popularity`` are released means of everybody's unit vectors, ``paired`` the items that have pairs, and
    ``features`` public facts about items, a row of norm 1 for each, or None.
    """

    popularity: Floats
    paired: NDArray[np.int64]
    factors: Factors | None
    n_people: float
    labels: tuple[Any, ...] | None
    features: Floats | None
    privacy: Account
    reason_: str
    prior_items: float
    _numbers: dict[Any, int]
    _place: Places
    _below: NDArray[np.int64]
    _behind: Floats
    _left: Floats
    _right: Floats
    _base: Floats
    _own: Floats

    def _know(
        self,
        popularity: Floats,
        model: tuple[NDArray[np.int64], Factors] | None,
        n_people: float,
        labels: Sequence[Any] | None,
        told: tuple[Account, str],
        features: Floats | None = None,
    ) -> None:
        """Set the releases, and precompute the matrices for scores."""
        paired, factors = (np.zeros(0, dtype=np.int64), None) if model is None else model
        names = None if labels is None else tuple(plain_label(label) for label in labels)
        below = np.setdiff1d(np.arange(popularity.size), paired)
        others = popularity[below]
        settle(
            self,
            privacy=told[0],  # first, as what was released is in an account wherever an interrupt comes
            reason_=told[1],
            paired=paired,
            factors=factors,
            n_people=float(n_people),
            labels=names,
            features=features,
            _numbers={} if names is None else {label: place for place, label in enumerate(names)},
            _place=places_of(paired, popularity.size),
            _below=below,
            _behind=others - others.max(initial=0.0) - 1.0,  # after every item that has pairs
        )
        if factors is not None:
            means, own = popularity[paired], factors.inverse_diagonal
            settle(
                self,
                # Proportional to people's typical number of items: their unit vectors sum to its root.
                prior_items=_PRIOR * max(1.0, float(means.sum())) ** 2,
                _left=factors.half,
                _right=factors.half / own[:, None],
                _base=factors.times_inverse(means) / own,
                _own=(factors.half**2).sum(axis=1) / own,  # an item's regression on itself
            )
        settle(self, popularity=popularity)  # last: it marks the fit as complete

    @property
    def n_items(self) -> int:
        """How many items there are."""
        return int(self.popularity.size)

    @property
    def rank_(self) -> int:
        """How many eigenvectors of pairs stand out from the noise; 0 for popularity alone."""
        return 0 if self.factors is None else int(self.factors.values.size)

    @property
    def conditions(self) -> list[str]:
        """The reasons why its file is not public; normally none."""
        account = self.privacy
        found = [] if account.budget.private else ["made without noise: these are true sums"]
        seeded = ["made with a seed: anyone who knows it can remove the noise"] * account.reproducible
        return [*found, *seeded, *account.caveats]

    @property
    def public(self) -> str:
        """A sentence on whether its file may be given to anybody."""
        if self.conditions:
            return f"NOT PUBLIC as it stands: {'; '.join(self.conditions)}"
        return "Public: releases only, and what follows from them. It may be given to anybody"

    # --- for one person --------------------------------------------------------------------------

    def scores(self, history: Iterable[Any] | Mapping[Any, float]) -> Floats:
        """A score for each item: the higher, the likelier it goes with this history.

        With x for the history, scaled down, and m for the means it is m + (x - m) B, where B are the
        regression weights of EASE. No item is regressed on itself, so an item of the history is scored from
        the others only.
        """
        self._check_fitted()
        return self._scored(*self._known(history))

    def recommend(
        self,
        history: Iterable[Any] | Mapping[Any, float] = (),
        k: int | None = 5,
        *,
        available: Iterable[Any] | None = None,
        exclude: Iterable[Any] | None = None,
        include: Iterable[Any] | None = None,
        constraint: Constraint | None = None,
    ) -> Selection:
        """The k best items for a history, without those that are in it.

        ``history`` has labels or numbers of items, or maps them to weights in [0, 1]; items not in the
        catalogue are ignored, and duplicates count once. An empty one gives the most popular items.
        ``available``, ``exclude`` and ``include`` are public facts as in `OnlineSelector.choose`; included
        items come first. ``constraint`` allows some sets only, of which the one with the largest sum of
        scores is taken, up to k items of it. If fewer than k items are left, there are fewer.
        """
        self._check_fitted()
        items, weights = self._known(history)
        allowed, first = self._asked(available, exclude, include)
        allowed[items] = False
        return self._chosen(self._scored(items, weights), k, allowed, first, constraint)

    def recommend_many(
        self, histories: Iterable[Iterable[Any] | Mapping[Any, float]], k: int = 5, **public: Any
    ) -> list[Selection]:
        """`recommend` for each of several histories, with the same public facts.

        Each set is for its own person: together they reveal everybody's history.
        """
        return [self.recommend(history, k, **public) for history in histories]

    def transform(self, X: Any) -> Floats:
        """Scores of all items for each row of histories, people x items: for pipelines of scikit-learn.

        A row follows from its person's history, which no account covers.
        """
        self._check_fitted()
        people = as_people(X)
        rows = people.as_rows()
        if rows is None or people.n_items != self.n_items:
            raise ValueError(f"X must have one column for each of the {self.n_items} items, in memory")
        matrix = rows.sparse
        return np.array([self._scored(matrix.row(i).indices, matrix.row(i).data) for i in range(len(people))])

    def neighbours(self, item: Any, count: int = 5) -> list[tuple[Any, float]]:
        """The items that a history of this one alone favours most, each with the effect on its score."""
        self._check_fitted()
        number = item_numbers("item", [item], self.n_items, self.labels)[0]
        if self.factors is None or self._place[number] < 0:
            return []
        effect = self._right @ self._left[self._place[number]]
        effect[self._place[number]] = -np.inf
        order = np.argsort(-effect, kind="stable")[: checks.whole("count", count, at_least=1)]
        best = [(int(self.paired[place]), float(effect[place])) for place in order if effect[place] > 0.0]
        return [(one if self.labels is None else self.labels[one], gain) for one, gain in best]

    def _chosen(
        self,
        scores: Floats,
        k: int | None,
        allowed: NDArray[np.bool_],
        first: Sequence[int] = (),
        constraint: Constraint | None = None,
    ) -> Selection:
        """A set by scores: ``first`` and then the best of the ``allowed`` items."""
        if constraint is None or k is not None:
            k = checks.whole("k", k, at_least=1, at_most=self.n_items)
        if k is not None and len(first) > k:
            raise ValueError(f"include holds {len(first)} items; a set has k={k}")
        allowed[list(first)] = False
        free = np.flatnonzero(allowed)
        steps = np.rint(scores[free] * _ROUND)
        if constraint is None:
            assert k is not None
            best = _largest(steps, k - len(first))
        else:
            free, best = self._within(constraint, steps, first, free)
            best = best[: None if k is None else k - len(first)]
        items = (*first, *free[best].tolist())
        labels = None if self.labels is None else tuple([self.labels[item] for item in items])
        # Without the model's account, which does not cover what the set reveals about the history.
        return Selection(items, None, labels, included=tuple(first))

    def _within(
        self, constraint: Constraint, steps: Floats, first: Sequence[int], free: NDArray[Any]
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """The free items that may be added to ``first`` at all, and the best set of them."""
        checks.instance("constraint", constraint, Constraint, "Cardinality(5)")
        over, included = constraint.over(self.n_items), np.array(first, dtype=np.intp)
        if not over.contains(included):
            raise ValueError(f"include holds items that {constraint!r} does not allow together")
        may = over.addable(included)[free]
        free, steps = free[may], steps[may]
        if not free.size:
            return free, free
        rest = rest_of(over, included, free)
        # Above 0, in the same order: no item is left out for a low score.
        weights = steps - steps.min() + 1.0
        taken = rest.maximize(weights, base=True) if isinstance(rest, Matroid) else rest.maximize(weights)
        best = np.flatnonzero(taken > 1.0 - 1e-9)
        return free, best[np.argsort(-steps[best], kind="stable")]

    def _scored(self, items: NDArray[Any], weights: Floats) -> Floats:
        """`scores` of a history as returned by `_known`: numbers of items, and their weights."""
        scores, length = self._by_pairs(items, weights), math.sqrt(float(weights @ weights))
        if self.features is None or not length:
            return scores
        # Similarity to the history by public features, which also raises items without pairs.
        alike = self.features @ (weights @ self.features[items] / length)
        value = self.popularity.copy()
        value[self.paired] = scores[self.paired]
        return np.asarray(np.maximum(value, 0.0) * np.exp(np.minimum(self._strength * alike, _MOST_LIFT)))

    @property
    def _strength(self) -> float:
        return _LIFT_ALL if self.paired.size == self.n_items else _LIFT_SOME

    def _by_pairs(self, items: NDArray[Any], weights: Floats) -> Floats:
        place = self._place[items]
        known = place >= 0
        if self.factors is None or not known.any():
            return self.popularity.copy()
        place, held = place[known], weights[known]
        x = held / math.sqrt(max(1.0, float(held @ held) + self.prior_items))
        found: Floats = self._base + self._right @ (x @ self._left[place])
        lowest = found.min()
        found[place] -= x * self._own[place]
        if not self._below.size:
            return found
        scores = np.empty(self.n_items)
        scores[self.paired], scores[self._below] = found, lowest + self._behind
        return scores

    def _known(self, history: Any) -> tuple[NDArray[Any], Floats]:
        """Numbers of the items of a history that are in the catalogue, each once, and their weights."""
        return known_items(history, self.n_items, self._numbers)

    def _asked(self, available: Any, exclude: Any, include: Any) -> tuple[NDArray[np.bool_], list[int]]:
        """A mask of the items that can be in the set, and the items that must be, in order."""
        about = (self.n_items, self.labels)
        allowed = np.ones(self.n_items, dtype=np.bool_)
        if available is not None:
            allowed[:] = False
            allowed[item_numbers("available", available, *about)] = True
        if exclude is not None:
            allowed[item_numbers("exclude", exclude, *about)] = False
        first = [] if include is None else list(dict.fromkeys(item_numbers("include", include, *about)))
        gone = [item for item in first if not allowed[item]]
        if gone:
            name = gone[0] if self.labels is None else self.labels[gone[0]]
            raise ValueError(f"include holds {checks.shown(name)}, which is not available")
        return allowed, first

    def _check_fitted(self) -> None:
        if "popularity" not in self.__dict__:
            raise RuntimeError(f"this {type(self).__name__} has not been fitted; call fit(people) first")

    # --- files -----------------------------------------------------------------------------------

    @classmethod
    def of(
        cls,
        popularity: Floats,
        model: tuple[NDArray[np.int64], Factors] | None,
        n_people: float,
        labels: Sequence[Any] | None,
        told: tuple[Account, str],
        features: Floats | None = None,
    ) -> Self:
        """A recommender from releases, their account and the reason for them, and public features."""
        found = object.__new__(cls)
        popularity = checks.vector("popularity", popularity)
        found._know(popularity, model, n_people, labels, told, features)
        return fix(found)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a file, which `discreet.load` reads. Releases only: the file is `public`."""
        with replacing(path) as file:
            file.write_bytes(self.to_bytes())

    def to_bytes(self) -> bytes:
        """The bytes that `save` writes; `discreet.load` accepts them, too."""
        self._check_fitted()
        header = {
            "class": "Recommender",
            "public": self.public,
            "statement": STATEMENT,
            "privacy": self.privacy.to_json(),
            "reason": self.reason_,
            "n_people": self.n_people,
            "labels": None if self.labels is None else list(self.labels),
        }
        arrays = {"popularity": self.popularity, "paired": self.paired}
        if self.factors is not None:
            own = self.factors
            arrays |= {"values": own.values, "vectors": own.vectors, "diagonal": own.diagonal}
        if self.features is not None:
            arrays["features"] = self.features
        return state_bytes(header, arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str] | bytes) -> Recommender:
        """A saved model."""
        begin = path[:200] if isinstance(path, bytes) else Path(path).read_bytes()[:200]
        if begin.startswith(f'{{"format": "{_FORMAT}"'.encode()) or b"about.npy" in begin:
            raise ValueError(
                f"{'the state' if isinstance(path, bytes) else path} is an export of a model, for a browser "
                "or an app; give the file that `save`, or --to of discreet recommend fit, has written"
            )
        header, arrays = read_state(path)
        path = "the state" if isinstance(path, bytes) else path
        if header.get("class") != "Recommender":
            raise ValueError(f"{path} holds a {header.get('class')}, not a Recommender")
        with refusing(path):
            popularity, paired = arrays["popularity"], arrays["paired"]
            labels, n_people = header["labels"], checks.real("n_people", header["n_people"], above=0.0)
            if labels is not None and len(labels) != popularity.size:
                raise ValueError("there is one label for each item")
            if (
                paired.dtype != np.int64
                or not in_range(paired, popularity.size)
                or (np.diff(paired) <= 0).any()
            ):
                raise ValueError("paired are rising numbers of items")
            model, count = None, paired.size
            if count:
                factors = Factors(arrays["values"], arrays["vectors"], arrays["diagonal"])
                if factors.diagonal.shape != (count,) or factors.vectors.shape != (
                    count,
                    factors.values.size,
                ):
                    raise ValueError("factors are of other items")
                model = paired, factors
            for array in arrays.values():
                checks.finite("the arrays", np.asarray(array, dtype=np.float64))
            features = arrays.get("features")
            if features is not None and (features.ndim != 2 or len(features) != popularity.size):
                raise ValueError("features have one row for each item")
            told = Account.from_json(header["privacy"]), str(header["reason"])
            return Recommender.of(popularity, model, n_people, labels, told, features)

    def export(self, path: str | os.PathLike[str]) -> None:
        """Write the model for a browser or an app: JSON, or arrays if ``path`` ends in ``.npz``.

        `personal.js` beside this module computes the same sets from the JSON. Public, like the model.
        """
        plain, numbers = self._exported()
        if Path(path).suffix == ".npz":
            payload = io.BytesIO()
            np.savez(payload, about=np.array(json.dumps(plain)), **numbers)
            content = payload.getvalue()
        else:
            content = json.dumps(self.to_json()).encode()
        with replacing(path) as file:
            file.write_bytes(content)

    def to_json(self) -> dict[str, Any]:
        """What `export` writes as JSON."""
        plain, numbers = self._exported()
        return plain | {name: array.tolist() for name, array in numbers.items()}

    def _exported(self) -> tuple[dict[str, Any], dict[str, Any]]:
        self._check_fitted()
        numbers: dict[str, Any] = {"popularity": self.popularity, "paired": self.paired}
        if self.factors is not None:
            numbers |= {"base": self._base, "left": self._left, "right": self._right}
        if self.features is not None:
            numbers["features"] = self.features
        plain = {
            "format": _FORMAT,
            "version": 1,
            "public": self.public,
            "statement": STATEMENT,
            "labels": None if self.labels is None else list(self.labels),
            "prior_items": 0.0 if self.factors is None else self.prior_items,
            "strength": self._strength,
        }
        return plain, numbers

    def __repr__(self) -> str:
        about = f"{self.n_items:,} items, {self.reason_}" if "popularity" in self.__dict__ else "not fitted"
        return f"{type(self).__name__}({about})"


def known_items(history: Any, n_items: int, labels: Mapping[Any, int]) -> tuple[NDArray[Any], Floats]:
    """Numbers of the items of a history that are in a catalogue, each once, and their weights.

    ``labels`` has the number of each label; a whole number that is not a label is the number of an item.

    >>> known_items(["milk", "soap", 0, "milk"], 2, {"tea": 0, "milk": 1})
    (array([1, 0]), array([1., 1.]))
    """
    given = isinstance(history, Mapping)
    found: dict[int, float] = {}
    for name in list(history) if given else listed("history", history):
        number = labels.get(name)
        if number is None and isinstance(name, int) and not isinstance(name, bool) and 0 <= name < n_items:
            number = name
        if number is not None:
            weight = checks.real("history[...]", history[name], at_least=0.0, at_most=1.0) if given else 1.0
            found[number] = max(weight, found.get(number, 0.0))
    return np.array(list(found), dtype=np.intp), np.array(list(found.values()), dtype=np.float64)


def _largest(steps: Floats, count: int) -> NDArray[Any]:
    """The indices of the largest numbers, in falling order; of equal ones the first."""
    if count <= 0:
        return np.zeros(0, dtype=np.intp)
    found = np.arange(steps.size)
    if count < steps.size:
        found = np.flatnonzero(steps >= np.partition(steps, steps.size - count)[steps.size - count])
    order = np.argsort(-steps[found], kind="stable")[:count]
    return np.asarray(found[order])
