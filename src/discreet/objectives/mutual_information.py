"""Feature selection: the mutual information of features and a class, in a naive Bayes model."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core.checks import DataError, one_of, whole
from .base import NORMS, Floats, Items, Population

# Classes x values of the chosen features: the table that an exact value needs.
LARGEST_TABLE = 1 << 22


class MutualInformation(Population):
    """f(S) = I(class; features in S) in nats, under the naive Bayes model fitted to the people's table.

    ``features``: people x features, integers from 0 (categories). ``classes``: one integer per person, below
    the public ``n_classes``. ``n_values``: public, the number of values of each feature, one number for all
    of them or a list. Without it a choice of k features allows as many values of each as give a table of at
    most 2^22 cells, and refuses more.

    Features are assumed independent given the class, with the observed frequencies; this makes f submodular
    (Krause and Guestrin 2005) and is the setting of Example 1 of paper 003. Values are exact, from a table
    over all values of the chosen features, so S must be small.

    This is not an average over people: ``people[rows]`` fits the model to fewer people, and the influence of
    one person is not bound / N. See :meth:`sensitivity`.

    >>> people = MutualInformation([[0, 0], [0, 1], [1, 0], [1, 1]], classes=[0, 0, 1, 1])
    >>> round(people.value([0]), 6), round(people.value([1]), 6)    # log 2, and nothing
    (0.693147, 0.0)
    """

    def __init__(
        self,
        features: Any,
        classes: ArrayLike,
        *,
        n_classes: int = 2,
        n_values: int | Sequence[int] | None = None,
        labels: Iterable[Any] | None = None,
    ) -> None:
        table = _categories("features", features, 2)
        kinds = _categories("classes", classes, 1)
        if table.shape[0] != kinds.shape[0]:
            raise ValueError("classes must have one entry for each row of features")
        if 0 in table.shape:
            raise ValueError("features is empty; at least one person and one feature are needed")
        self._n_classes = whole("n_classes", n_classes, at_least=2)
        if kinds.max() >= self._n_classes:
            row = int(np.argmax(kinds))
            raise DataError(
                f"classes holds a number that is not below n_classes={self._n_classes}",
                f"classes[{row}]={kinds[row]}",
            )
        self.n_items = table.shape[1]
        self._n_values: list[int] | None = None
        if n_values is not None:
            given = [n_values] * self.n_items if isinstance(n_values, int | np.integer) else list(n_values)
            if len(given) != self.n_items:
                raise ValueError(f"n_values has {len(given)} entries; there are {self.n_items} features")
            self._n_values = [whole("n_values", one, at_least=1) for one in given]
        self._table, self._kinds = table, kinds
        if self._n_values is not None:
            self._hold(self._n_values, "what n_values= declares")
        self._name_items(labels)
        self._declared = math.log(self._n_classes)

    def __len__(self) -> int:
        return int(self._kinds.size)

    @property
    def sums_over_people(self) -> bool:
        return False

    def check_picks(self, picks: int) -> None:
        """Refuse a table that is too large by its public sizes, and rows that exceed these sizes."""
        if self._n_values is None:
            cells = LARGEST_TABLE // self._n_classes
            most = int(cells ** (1.0 / max(picks, 1))) + 1
            while most ** max(picks, 1) > cells:
                most -= 1
            self._hold([most] * self.n_items, f"{most}, for {picks} features to be chosen; declare n_values=")
            return
        sizes = sorted(self._n_values, reverse=True)
        if self._n_classes * math.prod(sizes[:picks]) > LARGEST_TABLE:
            raise ValueError(
                f"the joint table of {picks} features may have more than {LARGEST_TABLE} cells; choose fewer"
                " features or merge their values"
            )

    def _hold(self, most: list[int], why: str) -> None:
        """Refuse rows with values that are not below these; each row is checked alone."""
        if (wrong := self._table >= np.array(most)).any():
            row, item = (int(place) for place in np.argwhere(wrong)[0])
            raise DataError(
                f"features holds a number that is not below {why}",
                f"features[{row}, {item}]={self._table[row, item]}",
            )

    def sensitivity(
        self,
        neighbours: str = "replace",
        norm: str = "coordinate",
        items_per_person: int | None = None,
        *,
        set_size: int | None = None,
    ) -> float:
        """How far one row of the table can move f(S), or the gains, for sets of up to ``set_size`` items.

        For gains, ``set_size`` includes the item that is added. Write h for binary entropy, C for the number
        of classes, and c(e) = h(e) + e log(C - 1) for e <= 1 - 1/C, log C beyond: distributions at total
        variation distance e differ by at most c(e) in the entropy of the class, alone or given anything else
        (Alhejji and Smith 2020). Replacing a row within a class of M among N people moves the fitted
        distribution by at most (M / N)(1 - (1 - 1/M)^k), since the other M - 1 rows keep their part of the
        frequencies of k features; this grows with M, so e = 1 - (1 - 1/N)^k is valid for every class. Then f
        = H(class) - H(class | S) moves by at most

        - c(e) when the row keeps its class, and c(1/N) + c(2 e - 1/N) when it does not (replacement);
        - h(1/N) for k = 1 and two classes, under replacement, which is attained (Zhang et al. 2014);
        - c(1/N) + c(e) when a row is added or removed. Here the model is fitted to the people present, with
          their own number, and no divisor is held fixed;

        and never by more than log C. Twice the worst rounding of a value is added (`_rounding`), so that this
        holds for the numbers as computed. Paper 003 gives no constant for its example. The tests compare
        with every pair of neighbouring small tables: for k > 1 the bound is safe, and up to three times the
        worst pair. ``items_per_person`` has no effect: everybody has every feature.
        """
        one_of("neighbours", neighbours, ("replace", "add_remove"))
        one_of("norm", norm, NORMS)
        if items_per_person is not None:
            whole("items_per_person", items_per_person, at_least=1)
        size = (
            self.n_items
            if set_size is None
            else whole("set_size", set_size, at_least=1, at_most=self.n_items)
        )
        error = 2.0 * _rounding(self._n_classes, size)
        moved = _movement(len(self), self._n_classes, size, neighbours) + error
        # Gains lie in [0, log C], and so no gain moves by more than that.
        entry = min(2.0 * moved, self.bound + 2.0 * error)
        factors = {"value": moved, "coordinate": entry, "range": 2.0 * moved}
        if norm in factors:
            return factors[norm]
        return entry * (self.n_items if norm == "l1" else math.sqrt(self.n_items))

    @cached_property
    def _model(self) -> tuple[Floats, list[Floats]]:
        """Class frequencies, and for each feature the frequencies of its values within each class."""
        classes = np.bincount(self._kinds, minlength=self._n_classes).astype(np.float64)
        within = []
        for j in range(self.n_items):
            column = self._table[:, j]
            if column.max() >= len(self):
                # Values that nobody has add nothing: one person's large value must not enlarge the table.
                column = np.unique(column, return_inverse=True)[1]
            counts = np.zeros((self._n_classes, int(column.max()) + 1))
            np.add.at(counts, (self._kinds, column), 1.0)
            # A class without people has weight 0, so its frequencies have no effect.
            within.append(counts / np.maximum(classes, 1.0)[:, None])
        return classes / len(self), within

    def _joint(self, items: Items) -> Floats:
        """The joint probabilities of the class and the values of the chosen features."""
        classes, within = self._model
        joint = classes[:, None]
        for j in items:
            joint = _extended(joint, within[int(j)])
        return joint

    def _value(self, items: Items) -> float:
        return _information(self._joint(items))

    def _gains(self, items: Items) -> Floats:
        joint, gains = self._joint(items), np.zeros(self.n_items)
        before = _information(joint)
        for j in np.setdiff1d(np.arange(self.n_items), items):
            # f is monotone; a negative difference is the rounding of two equal numbers.
            gains[j] = max(_information(_extended(joint, self._model[1][int(j)])) - before, 0.0)
        return gains

    def _take(self, rows: Items) -> Self:
        taken = self._like()
        taken.__dict__.pop("_model", None)
        taken._table, taken._kinds = self._table[rows], self._kinds[rows]
        return taken

    def _largest(self) -> Floats:
        return np.full(len(self), math.log(self._n_classes))


def _extended(joint: Floats, within: Floats) -> Floats:
    cells = joint.size * within.shape[1]
    if cells > LARGEST_TABLE:
        raise ValueError(
            f"the joint table of these features has more than {LARGEST_TABLE} cells; choose fewer features or"
            " merge their values"
        )
    return (joint[:, :, None] * within[:, None, :]).reshape(joint.shape[0], -1)


def _information(joint: Floats) -> float:
    return _entropy(joint.sum(axis=1)) + _entropy(joint.sum(axis=0)) - _entropy(joint)


def _entropy(chances: Floats) -> float:
    there = chances[chances > 0]
    return float(-(there * np.log(there)).sum())


def _rounding(classes: int, size: int) -> float:
    """How far a computed value may be from the true one, for sets of ``size`` features.

    A probability is a product of ``size`` + 1 quotients, or a sum of those over ``classes``: accurate to
    classes + 2 size + 2 relative units, and a sum of x log x moves by at most that times H + 1. Its terms are
    accurate to 4 units each, and are summed pairwise in blocks of 128: within 40 units for a table of 2^22.
    The same holds for each of the three entropies, none of which exceeds the logarithm of the cells.
    """
    units = classes + 2 * size + 64
    return 3.0 * units * 2.0**-53 * (math.log(LARGEST_TABLE) + 2.0)


def _movement(people: int, classes: int, size: int, neighbours: str) -> float:
    """Bound on how far one person moves the value of a set of ``size`` features."""

    def change(distance: float) -> float:
        if distance >= 1.0 - 1.0 / classes:
            return math.log(classes)
        entropy = _entropy(np.array([distance, 1.0 - distance]))
        return entropy + distance * math.log(classes - 1)

    shift = 1.0 - (1.0 - 1.0 / people) ** size
    if neighbours == "add_remove":
        moved = change(1.0 / people) + change(shift)
    elif size == 1 and classes == 2:
        moved = change(1.0 / people)
    else:
        other_class = change(1.0 / people) + change(2.0 * shift - 1.0 / people)
        moved = max(change(shift), other_class)
    return min(moved, math.log(classes))


def _categories(name: str, values: Any, dimensions: int) -> NDArray[np.int64]:
    """``values`` as category numbers; an error names the wrong entry in its details only."""
    try:
        array = np.asarray(values)
    except ValueError:  # its message holds the number of rows
        raise ValueError(f"{name} has rows of different lengths; every person needs every feature") from None
    if array.ndim != dimensions:
        raise ValueError(f"{name} must have {dimensions} dimension(s), not {array.ndim}")
    whole_numbers = array.dtype.kind in "iub" or (
        array.dtype.kind == "f" and bool(((np.abs(array) < 2.0**63) & (array == np.floor(array))).all())
    )
    if not whole_numbers:
        raise TypeError(
            f"{name} must hold whole numbers, the numbers of categories; group other values first"
        )
    numbers = array.astype(np.int64)
    if numbers.size and numbers.min() < 0:
        where = tuple(int(v) for v in np.argwhere(numbers < 0)[0])
        raise DataError(
            f"{name} has a negative entry; categories count from 0",
            f"{name}[{', '.join(map(str, where))}] is {numbers[where]}",
        )
    return numbers
