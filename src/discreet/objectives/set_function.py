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
        self._known: Floats | None = None  # the value of every set, where that was asked for
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
        return self._held(person, chosen, lowest, answer)

    def _held(self, person: int, chosen: frozenset[int], lowest: float, answer: Any) -> float:
        """An answer held to what was declared."""
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
        if len(self._functions) == 1:
            others = [j for j in range(self.n_items) if j not in chosen]
            gains[others] = self._rises(chosen, others, items)
            return gains
        before = self._each(chosen)
        for j in range(self.n_items):
            if j in chosen:
                continue
            after = self._each(chosen | {j})
            gains[j] = self._rise(np.array(before), np.array(after), items, j)
        return gains

    def _rises(self, chosen: frozenset[int], others: list[int], items: Items) -> list[float]:
        """What one person gains when each of ``others`` joins, with little work around the function."""
        bound, lowest = self.bound, 0.0 if self.monotone else -self.bound
        before, lost = self._asked(0, chosen, lowest), -ROUNDING * bound if self.monotone else -np.inf
        function, rises = self._functions[0], []
        for j in others:
            larger = chosen | {j}
            after = function(larger)
            if type(after) is not float or not lowest <= after <= bound:
                after = self._held(0, larger, lowest, after)
            if after - before < lost:
                self._rise(np.array([before]), np.array([after]), items, j)
            rises.append(after - before)
        return rises

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
        if len(self._functions) == 1:
            return self._last_rises(items)
        everything = self._all(items)
        rest = [np.delete(items, t) for t in range(items.size)]
        return np.array(
            [self._rise(self._all(r), everything, r, j) for r, j in zip(rest, items, strict=True)]
        )

    def _last_rises(self, items: Items) -> Floats:
        """`_contributions` for one person."""
        chosen, lowest = frozenset(items.tolist()), 0.0 if self.monotone else -self.bound
        whole, rises = self._asked(0, chosen, lowest), np.zeros(items.size)
        for t, j in enumerate(items.tolist()):
            before = self._asked(0, chosen - {j}, lowest)
            rises[t] = whole - before
            if self.monotone and rises[t] < -ROUNDING * self.bound:
                self._rise(np.array([before]), np.array([whole]), np.delete(items, t), j)
        return rises

    def _corners(self) -> Floats:
        if self._known is None:
            self._known = self._asked_corners()
        return self._known

    def _asked_corners(self) -> Floats:
        cube = (2,) * self.n_items
        values = {corner: self._all(np.flatnonzero(corner)) for corner in np.ndindex(cube)}
        everything = np.array(list(values.values())).reshape(*cube, len(self))
        rises = [np.diff(everything, axis=j).min() for j in range(self.n_items)]
        falls = self.monotone and min(rises) < -ROUNDING * self.bound
        for corner, after in values.items() if falls else ():
            for j in np.flatnonzero(corner):
                before = (*corner[:j], 0, *corner[j + 1 :])
                self._rise(values[before], after, np.flatnonzero(before), int(j))
        return np.array([v.mean() for v in values.values()]).reshape(cube)

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
