"""Rounds that were passed without their feedback, and people for whom a batch has no room yet."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.state import Saved
from ..objectives import Population
from ..objectives.rows.people import KeptRow
from ..objectives.rows.table import KINDS
from .rounds import Rounds

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

    def add_all(self, rounds: range, ticket: Ticket) -> None:
        """`add` for each of these, of one ticket."""
        self._tickets.update(dict.fromkeys(rounds, ticket))

    def take(self, round: int) -> Ticket:
        """The feedback has come, or is no longer waited for."""
        return self._tickets.pop(round)

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """For `resume`."""
        width = max(map(len, self._tickets.values()), default=0)
        rows = [
            (round, *ticket) if len(ticket) == width else (round, *ticket, *[-1] * (width - len(ticket)))
            for round, ticket in self._tickets.items()
        ]
        return {}, {"tickets": np.array(rows, dtype=np.int64).reshape(len(rows), 1 + width)}

    def resume(self, saved: Saved, rounds: Rounds, could_be: Callable[[int, Ticket], bool]) -> None:
        """Go on waiting; ``could_be`` says whether a round can have had such a ticket."""
        rows = saved.array("tickets", (None, None), np.int64, at_least=-1).tolist()
        if len(rows) > min(rounds.number, MOST_OPEN):
            raise ValueError("tickets has more rows than rounds that can wait for feedback")
        for row in rows:
            late, *ticket = row
            while ticket and ticket[-1] < 0:  # shorter than others
                ticket.pop()
            last = next(reversed(self._tickets), -1)
            if (
                not last < late < rounds.number
                or min(ticket, default=0) < 0
                or not could_be(late, tuple(ticket))
            ):
                raise ValueError(f"tickets={row} is no round whose reward is to come")
            self._tickets[late] = tuple(ticket)


class Waiting:
    """People who came late to a batch that has no room for them: each waits for one that has.

    A batch of so many rounds is summed as the vectors of at most so many people. A round that is passed
    without its feedback leaves room for one who comes late.
    """

    def __init__(self) -> None:
        self._people: deque[People] = deque(maxlen=MOST_OPEN)
        self._room = 0

    def __len__(self) -> int:
        return len(self._people)

    def begin(self) -> None:
        """A new batch, all of whose rounds are to come."""
        self._room = 0

    def passed(self) -> People | None:
        """A round was passed without its feedback; somebody who was waiting, to be learned from instead."""
        if self._people:
            return self._people.popleft()
        self._room += 1
        return None

    def admits(self, person: People, *, keep: bool = True) -> bool:
        """Whether somebody can be learned from at once; else they wait, if they are to be kept."""
        if self._room:
            self._room -= 1
            return True
        if keep:
            self._people.append(person)
        return False

    def grow(self, n_items: int) -> None:
        """There are more items, which those who wait have not; functions of fewer items are given up."""
        kept: list[People] = []
        for person in self._people:
            if not isinstance(person, Population):
                more = [(0, 0)] * (person.ndim - 1) + [(0, n_items - person.shape[-1])]
                kept.append(np.pad(person, more))
            elif (rows := person.as_rows()) is not None:
                row = (rows.sparse.indices, rows.sparse.data, rows.cap, person.bound)
                kept.append(KeptRow.kept(rows.kind, n_items, *row))
        self._people = deque(kept, maxlen=MOST_OPEN)

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """For `resume`. People are in it as they are."""
        arrays: dict[str, NDArray[Any]] = {}
        kinds = []
        for place, person in enumerate(self._people):
            if not isinstance(person, Population):
                kinds.append(-1)
                arrays[f"{place}.units"] = person
                continue
            rows = person.as_rows()
            if rows is None:
                raise TypeError(
                    "people who are functions are waiting for a batch with room, and cannot be written to a"
                    " file; save after some more rounds"
                )
            kinds.append(rows.kind.code)
            arrays |= {f"{place}.items": rows.sparse.indices, f"{place}.data": rows.sparse.data}
            arrays[f"{place}.cap"] = rows.cap
        return {"room": self._room, "kinds": kinds}, arrays

    def resume(
        self, saved: Saved, rounds: Rounds, n_items: int, bound: float, units: tuple[tuple[int, ...], float]
    ) -> None:
        """Go on; ``units`` is the shape and the largest entry of people in whole units."""
        self._room = saved.whole("room", at_least=0, at_most=rounds.number)
        shape, most = units
        for place, code in enumerate(saved.rows("kinds", at_most=min(rounds.number, MOST_OPEN))):
            if code == -1:
                kinds = (np.int64, np.float64)
                own = saved.array(f"{place}.units", shape, kinds, at_least=-most, at_most=most)
                self._people.append(own)
                continue
            if code not in KINDS:
                raise ValueError("kinds holds people of a kind that this release does not know")
            items = saved.array(f"{place}.items", (None,), np.int32, at_least=0, at_most=n_items - 1)
            if (np.diff(items) <= 0).any():
                raise ValueError(f"the array {place}.items is not in order")
            largest = KINDS[code].largest
            data = saved.array(f"{place}.data", (items.size,), at_least=0.0, at_most=largest)
            cap = saved.array(f"{place}.cap", (1,), at_least=0.0, infinite=True)
            self._people.append(KeptRow.kept(KINDS[code], n_items, items, data, cap, bound))
