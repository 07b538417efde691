"""Events: decisions under ids that an application chose, or whose showing is still to be told.

The ids may tell about people: a keyed hash of them is kept (`Secrets.event`), until the decision is folded.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from .base import Store, StoreError, Transaction

T = TypeVar("T")


class Event(NamedTuple):
    """A decision with the hash of its event's id, and what was answered."""

    experiment: int
    id: bytes
    epoch: int
    place: int
    altered: bool
    mark: bytes
    active: bool
    answer: str


def find(tx: Transaction, experiment: int, number: bytes) -> Event | None:
    """The event of this id; None for one that is not known, or not any more."""
    row = tx.one(
        "SELECT experiment, id, epoch, place, altered, mark, active, answer FROM event"
        " WHERE experiment = ? AND id = ?",
        *(experiment, number),
    )
    if row is None:
        return None
    number, epoch, place, altered, mark, active, answer = row[1:]
    return Event(experiment, bytes(number), epoch, place, bool(altered), bytes(mark), bool(active), answer)


def add(tx: Transaction, event: Event) -> Event:
    """Write an event down, and return it; the one that has its id, if there is one."""
    new = tx.do(
        "INSERT INTO event (experiment, id, epoch, place, altered, mark, active, answer)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
        *(*event[:4], int(event.altered), event.mark, int(event.active), event.answer),
    )
    found = event if new else find(tx, event.experiment, event.id)
    assert found is not None
    return found


def activate(tx: Transaction, experiment: int, number: bytes) -> None:
    """Somebody has seen what was decided."""
    tx.do("UPDATE event SET active = 1 WHERE experiment = ? AND id = ?", experiment, number)


def unseen(tx: Transaction, experiment: int, epoch: int, first: int, end: int) -> set[int]:
    """Places of which nobody said that they were seen, though that was to be said.

    They count as "took nothing", whatever was reported: who has seen something is as private as what came of
    it, so such a place stays a round, and moves one person's part of it only.
    """
    rows = tx.all(
        "SELECT place FROM event WHERE experiment = ? AND epoch = ? AND place >= ? AND place < ?"
        " AND active = 0",
        *(experiment, epoch, first, end),
    )
    return {place for (place,) in rows}


def forget(tx: Transaction, experiment: int, epoch: int, end: int | None = None) -> None:
    """Drop the events of an epoch; those before the place ``end``, where there is one."""
    which, values = "experiment = ? AND epoch <= ?", [experiment, epoch]
    if end is not None:  # and one that was written down while its epoch ended
        which, values = "experiment = ? AND (epoch < ? OR (epoch = ? AND place < ?))", [*values, epoch, end]
    tx.locked(f"SELECT id FROM event WHERE {which} ORDER BY experiment, id", *values)  # as a `Group` does
    tx.do(f"DELETE FROM event WHERE {which}", *values)


class Group:
    """Work on events that is committed together: whatever comes meanwhile is the next group.

    It is done in the order of events: groups of two processes wait for one another in no circle.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._queue: list[tuple[tuple[int, bytes], Callable[[Transaction], Any], asyncio.Future[Any]]] = []
        self._writing: asyncio.Task[None] | None = None

    async def do(self, experiment: int, number: bytes, work: Callable[[Transaction], T]) -> T:
        """What the work on an event returns, once it is committed."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._queue.append(((experiment, number), work, future))
        if self._writing is None:
            self._writing = asyncio.create_task(self._write())
        return await future

    async def _write(self) -> None:
        try:
            while self._queue:
                group, self._queue = sorted(self._queue, key=lambda one: one[0]), []
                try:
                    answers = await asyncio.to_thread(self._commit, [work for _, work, _ in group])
                except Exception as error:
                    said = error if isinstance(error, StoreError) else StoreError("the commit failed")
                    for *_, future in group:
                        if not future.done():
                            future.set_exception(said)
                    continue
                for (*_, future), answer in zip(group, answers, strict=True):
                    if not future.done():
                        future.set_result(answer)
        finally:
            self._writing = None

    def _commit(self, group: list[Callable[[Transaction], Any]]) -> list[Any]:
        with self._store.transaction() as tx:
            return [work(tx) for work in group]
