"""Rows whose concave function is in Python: asked row by row, with all totals of a row in one call.

Nobody's function is asked together with somebody else's totals: whatever the function does, what a person
adds depends on that person alone.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.checks import DataError
from ..base import Population
from ..state import AtOnce
from .matrices import Floats, stretches
from .table import Kind, Rows, add_weight

Items = NDArray[np.int64]
Function = Callable[[Any], Any]


def function_rows(people: Population) -> Rows | None:
    """The rows of people whose concave function is in Python; None for others. Not to be written to."""
    rows = getattr(people, "_rows", None)
    return rows if isinstance(rows, Rows) and rows.kind.code < 0 else None


def custom(function: Function) -> Kind:
    """Any concave function of a sum, given as a Python function of arrays; slower than the named ones.

    A row's cap is here the sum of all its weights. Up to there every height that is seen is held to rising
    and to the height at the cap: a function can be looked at in advance only where one looks.
    """

    def gain(state: Any, weight: Any, cap: Any) -> Any:
        reached = np.asarray(state + weight, dtype=np.float64)
        size, known = reached.size, np.size(state)
        found = heights(function, np.concatenate((reached.reshape(-1), np.ravel(state), np.ravel(cap))))
        after = found[:size].reshape(reached.shape)
        before = found[size : size + known].reshape(np.shape(state))
        most = found[size + known :].reshape(np.shape(cap))
        wrong = _wrong(reached, cap, before, after, most)
        if wrong.any():
            raise DataError(
                "concave is less somewhere than for less weight, or more than for all items of a person; it"
                " must be concave and never fall",
                f"concave({float(reached[wrong][0])!r}) is {float(after[wrong][0])!r}",
            )
        return np.maximum(after - before, 0.0)

    return Kind(-1, 0.0, gain, add_weight, function=function)


def heights(function: Function, totals: Any) -> Floats:
    """A function of arrays, asked for an array whatever the shape, and held to finite numbers."""
    flat = np.array(totals, dtype=np.float64).reshape(-1)
    try:
        found = np.asarray(function(flat), dtype=np.float64)
    except (TypeError, ValueError) as error:
        if "array" not in str(error):  # as NumPy says it, where one number is needed
            raise
        raise TypeError(
            "concave is given an array of totals, and fails with one; write it for arrays: np.exp instead of"
            " math.exp, np.minimum instead of min, np.where instead of if"
        ) from error
    if found.shape != flat.shape or not np.isfinite(found).all():
        raise ValueError("concave must map an array of numbers >= 0 to finite numbers, one for one")
    return found.reshape(np.shape(totals))


def _wrong(reached: Floats, cap: Any, before: Any, after: Floats, most: Any) -> NDArray[np.bool_]:
    """Where a height is below that of less weight, or above that of all items of the person."""
    right: NDArray[np.bool_] = (after >= before) & (after <= most)
    if right.all():
        return ~right
    slack = 1e-9 * (np.abs(before) + np.abs(after) + np.abs(most))
    # Items that are in the set already lead beyond the cap; their gains are never used.
    meant = reached <= cap * (1.0 + 1e-12)
    wrong: NDArray[np.bool_] = meant & ~((after >= before - slack) & (after <= most + slack))
    return wrong


def asked_by_row(rows: Rows, state: Floats) -> tuple[Floats, NDArray[np.bool_]]:
    """What every entry adds on top of its row's state, and which rows' functions answered as they must.

    A row whose function fails, or is not concave where it is looked at, adds nothing.
    """
    matrix, function = rows.sparse, rows.kind.function
    assert function is not None
    row_of = matrix.row_of
    # Each row's question: the totals with every item, the total without, and the total of all.
    ends = matrix.indptr + 2 * np.arange(matrix.n_rows + 1)
    places, states, caps = np.arange(row_of.size) + 2 * row_of, ends[1:] - 2, ends[1:] - 1
    asked = np.empty(int(ends[-1]))
    asked[places] = reached = state[row_of] + matrix.data
    asked[states], asked[caps] = state, rows.cap
    found, sound = _answers(function, asked, ends)
    before, after, most = found[states][row_of], found[places], found[caps][row_of]
    sound[row_of[_wrong(reached, rows.cap[row_of], before, after, most)]] = False
    gains = rows.share[row_of] * np.maximum(after - before, 0.0)
    gains[~sound[row_of]] = 0.0
    return gains, sound


def _answers(function: Function, asked: Floats, ends: Items) -> tuple[Floats, NDArray[np.bool_]]:
    """A function's answers to one question after the other, and which of them were numbers, one for one."""
    found, sound = np.zeros(asked.size), np.ones(ends.size - 1, dtype=np.bool_)
    limits = ends.tolist()
    for row, (start, stop) in enumerate(pairwise(limits)):
        try:
            answer = np.asarray(function(asked[start:stop]), dtype=np.float64)
            if answer.shape != (stop - start,):
                sound[row] = False
                continue
            found[start:stop] = answer
        except Exception:  # what it raises may hold somebody's data, and one person is not worth it
            sound[row] = False
    if not np.isfinite(found).all():
        strange = np.flatnonzero(~np.isfinite(found))
        sound[np.searchsorted(ends, strange, side="right") - 1] = False
        found[strange] = 0.0
    return found, sound


class FunctionState(AtOnce):
    """A growing set over one row: the function is asked when an answer is wanted, and for all of it."""

    def __init__(self, people: Population, rows: Rows) -> None:
        self._people, self._rows = people, rows
        self.items, self.value = [], 0.0
        self._state, self._known = rows.fresh(), False

    def gains(self) -> Floats:
        if not self._known:
            self._now, self._known = self._rows.gains(self._state), True
        now = self._now.copy()
        now[self.items] = 0.0
        return now

    def along(self, order: Items) -> Floats:
        found = self._rows.along(order, self._state)
        chosen = order.tolist()
        self.value += float(found[np.arange(order.size), order].sum())
        found[:, self.items] = 0.0
        for t, item in enumerate(chosen[:-1]):
            found[t + 1 :, item] = 0.0
        self.items, self._known = self.items + chosen, False
        return found

    def _grow(self, item: int) -> float:
        before = self._state[0]
        added = float(self._rows.chain(np.array([item]), self._state)[0])
        self._known &= bool(self._state[0] == before)
        return added


class GrowingFunctions:
    """A growing set over rows with a function in Python (`fixed_point.Growing`).

    What a row adds changes only when an item of its own is chosen, so that only those rows are asked again.
    A row whose function fails counts as nothing.
    """

    def __init__(self, rows: Rows, most: float, per_unit: float) -> None:
        self._rows, self._per_unit = rows, per_unit
        self._state, self._left = rows.fresh(), np.full(rows.n_rows, most)
        self._failed = np.zeros(rows.n_rows, dtype=bool)  # for good
        self._sound = np.ones(rows.n_rows, dtype=bool)  # when they were asked last
        self._chosen = np.zeros(rows.n_items, dtype=bool)
        self._steps = np.zeros(rows.sparse.data.size)  # beside every entry

    def begin(self, sums: Floats) -> None:
        matrix = self._rows.sparse
        for start, stop in stretches(matrix.indptr):
            inside = slice(int(matrix.indptr[start]), int(matrix.indptr[stop]))
            self._steps[inside] = self._asked(np.arange(start, stop), self._rows.stretch(start, stop))
        sums += np.bincount(matrix.indices, self._steps, sums.size)

    def choose(self, item: int, sums: Floats) -> None:
        matrix, kind = self._rows.sparse, self._rows.kind
        self._chosen[item] = True
        places = np.flatnonzero(matrix.indices == item)
        who = np.searchsorted(matrix.indptr, places, side="right") - 1
        if not who.size:
            return
        self._left[who] -= self._steps[places]
        for row, place in zip(who.tolist(), places.tolist(), strict=True):
            if not self._sound[row] and not self._failed[row]:
                self._failed[row] = not _answers_for(self._rows, row, self._state[row], matrix.data[place])
        self._state[who] = kind.step(self._state[who], matrix.data[places])
        part = self._rows.take(who)
        again = np.arange(part.sparse.data.size) + np.repeat(
            matrix.indptr[who] - part.sparse.indptr[:-1], np.diff(part.sparse.indptr)
        )
        items = part.sparse.indices
        sums -= np.bincount(items, self._steps[again], sums.size)
        self._steps[again] = self._asked(who, part)
        sums += np.bincount(items, self._steps[again], sums.size)

    def _asked(self, who: Items, part: Rows) -> Floats:
        """The steps of every entry of some rows, as they are now."""
        gains, self._sound[who] = asked_by_row(part, self._state[who])
        row_of = part.sparse.row_of
        steps: Floats = np.maximum(np.floor(gains * self._per_unit), 0.0)
        np.minimum(steps, self._left[who][row_of], out=steps)
        steps[self._chosen[part.sparse.indices] | self._failed[who][row_of]] = 0.0
        return steps


def _answers_for(rows: Rows, row: int, state: float, weight: float) -> bool:
    """Whether a row's function says what one item of it adds."""
    try:
        rows.kind.gain(state, weight, rows.cap[row])
    except Exception:  # somebody's own code
        return False
    return True
