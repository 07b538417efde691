"""Rounds whose feedback is still missing, and people who wait for a batch that can take them."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.state import in_range
from ..objectives import Population
from ..objectives.rows import KINDS, Coverage, KeptRow

People = Population | NDArray[Any]

# What feedback of a round will be about, known when its set is shown: plain numbers, stored until it arrives.
Ticket = tuple[int, ...]
MOST_OPEN = 1 << 17  # rounds


class Pending:
    """Rounds whose feedback may still come, each with its ticket; each is taken once.

    >>> pending = Pending()
    >>> pending.add(7, ())
    >>> pending.take(7), 7 in pending
    ((), False)
    """

    _state = _any_length = ("_table",)

    def __init__(self) -> None:
        self._tickets: dict[int, Ticket] = {}  # in increasing order of rounds

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
        """The earliest round; None if there is none."""
        return next(iter(self._tickets), None)

    def add(self, round: int, ticket: Ticket) -> None:
        """Add a round, later than all others, whose feedback may still come."""
        self._tickets[round] = ticket

    def take(self, round: int) -> Ticket:
        """Remove a round whose feedback has arrived or is no longer awaited; returns its ticket."""
        return self._tickets.pop(round)

    def clear(self) -> None:
        """Stop waiting for any feedback."""
        self._tickets.clear()

    @property
    def _table(self) -> NDArray[np.int64]:
        """The rounds with their tickets as one array, shorter tickets padded with -1."""
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
    """People whose late feedback found the open batch full: each waits for a batch that can take them.

    The sum of a batch of n rounds contains at most n people. A round that passes without its feedback leaves
    space for one person who comes late.
    """

    _state = ("room", "_rows")

    def __init__(self) -> None:
        self._people: deque[People] = deque(maxlen=MOST_OPEN)
        self.room = 0  # how many late people the open batch can take: its rounds without feedback

    def __len__(self) -> int:
        return len(self._people)

    def passed(self) -> People | None:
        """Note a round without feedback; returns a waiting person to learn from instead, if there is one."""
        if self._people:
            return self._people.popleft()
        self.room += 1
        return None

    def admits(self, person: People, *, keep: bool = True) -> bool:
        """Whether the open batch can take ``person`` now; if not, they wait if ``keep``, or are dropped."""
        if self.room:
            self.room -= 1
            return True
        if keep:
            self._people.append(person)
        return False

    def grow(self, n_items: int) -> None:
        """Enlarge to ``n_items``: new items are 0 for those who wait; functions of fewer become empty."""
        kept: list[People] = []
        for person in self._people:
            if not isinstance(person, Population):
                more = [(0, 0)] * (person.ndim - 1) + [(0, n_items - person.shape[-1])]
                kept.append(np.pad(person, more))
            elif (rows := person.as_rows()) is not None:
                row = (rows.sparse.indices, rows.sparse.data, rows.cap, person.bound)
                kept.append(KeptRow.of(rows.kind, n_items, *row))
            else:  # an empty person, so that nobody behind them moves up
                kept.append(Coverage.of_row(n_items, np.zeros(0, dtype=np.int32)))
        self._people = deque(kept, maxlen=MOST_OPEN)

    @property
    def _rows(self) -> list[Any]:
        """Those who wait as arrays, for saving: the exact private data."""
        return [_kept(person) for person in self._people]

    @_rows.setter
    def _rows(self, rows: list[Any]) -> None:
        self._people = deque((_person(*row) for row in rows), maxlen=MOST_OPEN)


def _kept(person: People) -> tuple[Any, ...]:
    """The arrays of a person in integer units or of one given as a row; functions are refused."""
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
    """The inverse of `_kept`."""
    if not row:
        return np.asarray(first)
    n_items, items, *others = row
    if first not in KINDS or not in_range(items, n_items):
        raise ValueError("a person who waits has items that this release does not know")
    return KeptRow.of(KINDS[first], n_items, items, *others)
