"""Set functions given as plain Python callables: general, and slower."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Self

import numpy as np

from ..core import checks
from ..core.checks import DataError, whole
from . import answers
from .answers import ROUNDING
from .base import Floats, Items, Population


class SetFunction(Population):
    """One callable per person: f(S) for a frozenset S of item numbers.

    ``functions``: one callable, or a list with one per person. ``bound``: a public bound of |f|, checked for
    every value computed; the details of an error name the person and the set. (So if at most k items are
    chosen, a bound for sets of k items suffices; `offline.PrivateGreedy` evaluates one such set before
    anything is spent.) ``monotone=True`` declares that f never falls and is never negative, which makes one
    person's influence smaller; this is checked for the values computed as well. Submodularity is not checked.

    >>> f = SetFunction(lambda chosen: min(len(chosen), 2) / 2, n_items=4, bound=1, monotone=True)
    >>> f.value([3]), f.gains([3, 0])
    (0.5, array([0., 0., 0., 0.]))
    """

    def __init__(
        self,
        functions: Callable[[frozenset[int]], float] | Sequence[Callable[[frozenset[int]], float]],
        n_items: int,
        bound: float,
        *,
        monotone: bool = False,
        labels: Iterable[Any] | None = None,
    ) -> None:
        self._functions = [functions] if callable(functions) else list(functions)
        if not self._functions or not all(callable(f) for f in self._functions):
            raise TypeError("functions must be a callable or a non-empty list of callables, one per person")
        self.n_items = whole("n_items", n_items, at_least=1)
        self.monotone = bool(monotone)
        self._declared = high = checks.bound(bound)
        self._range = (0.0 if self.monotone else -high, high)
        self._deepest_fall = -ROUNDING * high if self.monotone else -math.inf
        self._known: Floats | None = None  # the value of every set, once computed
        self._name_items(labels)

    def __len__(self) -> int:
        return len(self._functions)

    def _each(self, chosen: frozenset[int]) -> list[float]:
        """The value of a set to everybody, checked against what was declared."""
        low, high = self._range
        found = [function(chosen) for function in self._functions]
        for person, answer in enumerate(found):
            if type(answer) is not float or not low <= answer <= high:
                found[person] = self._held(person, chosen, low, answer)
        return found

    def _held(self, person: int, chosen: frozenset[int], lowest: float, answer: Any) -> float:
        try:
            return answers.number("value", answer, lowest, self.bound)
        except DataError as error:
            raise DataError(
                f"one person values a set at nan, or outside [{lowest:g}, {self.bound:g}]; correct the"
                " function or declare another bound",
                f"person {person} values {sorted(chosen)} at {error.details}",
            ) from None

    def _rise(self, before: list[float], after: list[float], chosen: frozenset[int], j: int) -> float:
        """The average rise when item j joins a set; declared monotonicity is checked."""
        rises = list(map(operator.sub, after, before))
        if min(rises) < self._deepest_fall:
            person = rises.index(min(rises))
            raise DataError(
                "one person loses when an item joins a set; the function is not monotone",
                f"person {person} loses {-rises[person]:g} when item {j} joins {sorted(chosen)}",
            )
        return rises[0] if len(rises) == 1 else math.fsum(rises) / len(rises)

    def _value(self, items: Items) -> float:
        return math.fsum(self._each(frozenset(items.tolist()))) / len(self)

    def _gains(self, items: Items) -> Floats:
        gains, chosen = np.zeros(self.n_items), frozenset(items.tolist())
        before = self._each(chosen)
        for j in range(self.n_items):
            if j not in chosen:
                gains[j] = self._rise(before, self._each(chosen | {j}), chosen, j)
        return gains

    def _chain(self, order: Items) -> Floats:
        added, chosen = np.zeros(order.size), frozenset[int]()
        before = self._each(chosen)
        for t, j in enumerate(order.tolist()):
            after = self._each(chosen | {j})
            added[t] = self._rise(before, after, chosen, j)
            before, chosen = after, chosen | {j}
        return added

    def _contributions(self, items: Items) -> Floats:
        chosen = frozenset(items.tolist())
        everything = self._each(chosen)
        rest = ((chosen - {j}, j) for j in items.tolist())
        return np.array([self._rise(self._each(others), everything, others, j) for others, j in rest])

    def _corners(self) -> Floats:
        if self._known is None:
            cube = (2,) * self.n_items
            values = {c: self._each(frozenset(np.flatnonzero(c).tolist())) for c in np.ndindex(cube)}
            for corner, after in values.items() if self.monotone else ():
                for j in np.flatnonzero(corner).tolist():
                    before = (*corner[:j], 0, *corner[j + 1 :])
                    self._rise(values[before], after, frozenset(np.flatnonzero(before).tolist()), j)
            self._known = np.array([math.fsum(v) / len(v) for v in values.values()]).reshape(cube)
        return self._known

    def _take(self, rows: Items) -> Self:
        taken = self._like(_known=None)
        taken._functions = [self._functions[i] for i in rows]
        return taken

    def _largest(self) -> Floats:
        return np.full(len(self), self.bound)

    def ranges(self) -> tuple[float, float, float, float]:
        if self.monotone:
            return super().ranges()
        # f(empty set) need not be 0 here, so an item may take f from the lowest value to the highest.
        return -self.bound, self.bound, 2.0 * self.bound, 2.0 * self.bound
