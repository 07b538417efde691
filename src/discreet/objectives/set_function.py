"""Set functions given as plain Python callables: general, and slower."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Self

import numpy as np

from ..core.checks import DataError, real, whole
from . import answers
from .answers import ROUNDING
from .base import Floats, Items, Population


class SetFunction(Population):
    """One callable per person: f(S) for a frozenset S of item numbers.

    ``functions``: one callable, or a list with one per person. ``bound``: a public bound of |f|; every value
    that is seen is held to it, and the details of an error name the person and the set. (So where at most k
    items are chosen, a bound of sets of k items will do.) ``monotone=True`` declares that f never falls and
    is never negative, which makes one person's influence smaller; the values seen are held to that as well.
    Submodularity is taken on trust.

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
        self._declared = real("bound", bound, above=0)
        self._name_items(labels)

    def __len__(self) -> int:
        return len(self._functions)

    def _all(self, items: Items) -> Floats:
        return np.array(self._each(frozenset(items.tolist())))

    def _each(self, chosen: frozenset[int]) -> list[float]:
        lowest = 0.0 if self.monotone else -self.bound
        return [self._asked(i, chosen, lowest) for i in range(len(self._functions))]

    def _asked(self, person: int, chosen: frozenset[int], lowest: float) -> float:
        answer = self._functions[person](chosen)
        if type(answer) is float and lowest <= answer <= self.bound:
            return answer
        try:
            return answers.number("value", answer, lowest, self.bound)
        except DataError as error:
            raise DataError(
                f"somebody values a set at nan, or outside [{lowest:g}, {self.bound:g}]; correct the function"
                " or declare another bound",
                f"person {person} values {sorted(chosen)} at {error.details}",
            ) from None

    def _value(self, items: Items) -> float:
        values = self._each(frozenset(items.tolist()))
        return values[0] if len(values) == 1 else float(np.mean(values))

    def _gains(self, items: Items) -> Floats:
        gains, chosen = np.zeros(self.n_items), frozenset(items.tolist())
        before = self._each(chosen)
        lost = -ROUNDING * self.bound if self.monotone else -np.inf
        for j in range(self.n_items):
            if j in chosen:
                continue
            after = self._each(chosen | {j})
            if len(after) == 1 and after[0] - before[0] >= lost:
                gains[j] = after[0] - before[0]
            else:
                gains[j] = self._rise(np.array(before), np.array(after), items, j)
        return gains

    def _rise(self, before: Floats, after: Floats, items: Items, j: int) -> float:
        """The average rise when item j joins; people who are declared monotone are held to it."""
        rises = after - before
        if self.monotone and rises.min() < -ROUNDING * self.bound:
            person = int(np.argmin(rises))
            raise DataError(
                "somebody loses when an item joins a set; the function is not monotone",
                f"person {person} loses {-rises[person]:g} when item {j} joins {sorted(map(int, items))}",
            )
        return float(rises.mean())

    def _chain(self, order: Items) -> Floats:
        values = [self._all(order[:t]) for t in range(order.size + 1)]
        steps = zip(values, values[1:], range(order.size), strict=False)
        return np.array([self._rise(a, b, order[:t], order[t]) for a, b, t in steps])

    def _contributions(self, items: Items) -> Floats:
        everything = self._all(items)
        rest = [np.delete(items, t) for t in range(items.size)]
        return np.array(
            [self._rise(self._all(r), everything, r, j) for r, j in zip(rest, items, strict=True)]
        )

    def _corners(self) -> Floats:
        cube = (2,) * self.n_items
        values = {corner: self._all(np.flatnonzero(corner)) for corner in np.ndindex(cube)}
        for corner, after in values.items():
            for j in np.flatnonzero(corner):
                before = (*corner[:j], 0, *corner[j + 1 :])
                self._rise(values[before], after, np.flatnonzero(before), int(j))
        return np.array([v.mean() for v in values.values()]).reshape(cube)

    def _take(self, rows: Items) -> Self:
        taken = self._like()
        taken._functions = [self._functions[i] for i in rows]
        return taken

    def _largest(self) -> Floats:
        return np.full(len(self), self.bound)

    def ranges(self) -> tuple[float, float, float, float]:
        if self.monotone:
            return super().ranges()
        # f(empty set) need not be 0 here, so an item may take f from the lowest value to the highest.
        return -self.bound, self.bound, 2.0 * self.bound, 2.0 * self.bound
