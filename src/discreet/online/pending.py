"""Rounds that were passed without their feedback, and people for whom a batch has no room yet."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.state import in_range
from ..objectives import Population
from ..objectives.rows import KINDS, Coverage, KeptRow

People = Population | NDArray[Any]

# What feedback will be about, known when the set is shown: plain numbers, which wait for it.
Ticket = tuple[int, ...]
MOST_OPEN = 1 << 17  # rounds


class Pending:
    """Rounds whose feedback may still come; each is taken up once.

    >>> pending = Pending()
    >>> pending.add(7, ())
    >>> pending.take(7), 7 in pending
    ((), False)
    """

    _state = _any_length = ("_table",)

    def __init__(self) -> None:
        self._tickets: dict[int, Ticket] = {}  # in the order of their rounds

    def __len__(self) -> int:
        return len(self._tickets)

    def __contains__(self, round: int) -> bool:
        return round in self._tickets

    def __getitem__(self, round: int) -> Ticket:
        return self._tickets[round]

    @property
    def rounds(self) -> tuple[int, ...]:
        """The rounds, in order."""
        return tuple(self._tickets)

    @property
    def oldest(self) -> int | None:
        """The first of them."""
        return next(iter(self._tickets), None)

    def add(self, round: int, ticket: Ticket) -> None:
        """Wait for the feedback of a round, later than all others."""
        self._tickets[round] = ticket

    def take(self, round: int) -> Ticket:
        """The feedback has come, or is no longer waited for."""
        return self._tickets.pop(round)

    def clear(self) -> None:
        """No feedback is waited for."""
        self._tickets.clear()

    @property
    def _table(self) -> NDArray[np.int64]:
        """The rounds with their tickets, as one array; -1 where a ticket is shorter than others."""
        width = max(map(len, self._tickets.values()), default=0)
        rows = [(round, *ticket, *[-1] * (width - len(ticket))) for round, ticket in self._tickets.items()]
        return np.array(rows, dtype=np.int64).reshape(len(rows), 1 + width)

    @_table.setter
    def _table(self, table: NDArray[np.int64]) -> None:
        tickets = {row[0]: tuple(one for one in row[1:] if one >= 0) for row in table.tolist()}
        if len(tickets) < len(table) or list(tickets) != sorted(tickets):
            raise ValueError("pending holds rounds that are not in order")
        if len(tickets) > MOST_OPEN:
            raise ValueError(f"pending holds more than the {MOST_OPEN:,} rounds that can be open")
        self._tickets = tickets


class Waiting:
    """People who came late to a batch that has no room for them: each waits for one that has.

    A batch of n rounds is summed as the vectors of at most n people. A round that is passed
    without its feedback leaves room for one who comes late.
    """

    _state = ("room", "_rows")

    def __init__(self) -> None:
        self._people: deque[People] = deque(maxlen=MOST_OPEN)
        self.room = 0  # of the open batch, by rounds that were passed without their feedback

    def __len__(self) -> int:
        return len(self._people)

    def passed(self) -> People | None:
        """A round was passed without its feedback; somebody who was waiting, to be learned from instead."""
        if self._people:
            return self._people.popleft()
        self.room += 1
        return None

    def admits(self, person: People, *, keep: bool = True) -> bool:
        """Whether somebody can be learned from at once; else they wait, if they are to be kept."""
        if self.room:
            self.room -= 1
            return True
        if keep:
            self._people.append(person)
        return False

    def grow(self, n_items: int) -> None:
        """There are more items, which those who wait have not; functions of fewer wait on as nothing."""
        kept: list[People] = []
        for person in self._people:
            if not isinstance(person, Population):
                more = [(0, 0)] * (person.ndim - 1) + [(0, n_items - person.shape[-1])]
                kept.append(np.pad(person, more))
            elif (rows := person.as_rows()) is not None:
                row = (rows.sparse.indices, rows.sparse.data, rows.cap, person.bound)
                kept.append(KeptRow.of(rows.kind, n_items, *row))
            else:  # whoever comes after them does not move up
                kept.append(Coverage.of_row(n_items, np.zeros(0, dtype=np.int32)))
        self._people = deque(kept, maxlen=MOST_OPEN)

    @property
    def _rows(self) -> list[Any]:
        """Those who wait, as arrays, for saving: people are in it as they are."""
        return [_kept(person) for person in self._people]

    @_rows.setter
    def _rows(self, rows: list[Any]) -> None:
        self._people = deque((_person(*row) for row in rows), maxlen=MOST_OPEN)


def _kept(person: People) -> tuple[Any, ...]:
    """A person in whole units, or who is a row, as arrays."""
    if not isinstance(person, Population):
        return (person,)
    rows = person.as_rows()
    if rows is None:
        raise TypeError(
            "people who are functions are waiting for a batch with room, and cannot be written to a"
            " file; save after some more rounds"
        )
    return rows.kind.code, rows.n_items, rows.sparse.indices, rows.sparse.data, rows.cap, float(person.bound)


def _person(first: Any, *row: Any) -> People:
    """The same again."""
    if not row:
        return np.asarray(first)
    n_items, items, *others = row
    if first not in KINDS or not in_range(items, n_items):
        raise ValueError("a person who waits has items that this release does not know")
    return KeptRow.of(KINDS[first], n_items, items, *others)
