"""Injected faults: each breaks one promise of the service, and the harness has to notice."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable

from discreet.service.engine import Engine
from discreet.service.hands import DEALT, OPEN, Hand
from discreet.service.keeper import Keeper
from discreet.service.keys import MARK
from discreet.service.ledger import PopulationLedger
from discreet.service.store import sqlite, visits
from discreet.service.store.sqlite import SQLiteStore

FAULTS: dict[str, Callable[[], None]] = {}


def fault(make: Callable[[], None]) -> Callable[[], None]:
    FAULTS[make.__name__] = make
    return make


@fault
def serves_before_commit() -> None:
    """Shows hands as soon as they are dealt; they are committed a moment later."""
    honest = Keeper._save

    def save(self, tx, one, dealt, releases=()):
        early = getattr(self, "early", None)
        if early is not None and dealt:
            early(one.id, dealt)
        honest(self, tx, one, dealt, releases)

    Keeper._save = save
    start = Engine.start

    async def started(self, **more):
        await start(self, **more)
        loop = asyncio.get_running_loop()

        def early(number, dealt):
            live = self._by_number.get(number)
            if live is not None:
                for h in reversed(dealt):
                    row = (h.experiment, h.epoch, h.first, h.count, h.body(), h.chain, 0, "", h.segment, "")
                    hands = live.segments.get(h.segment, live).hands
                    loop.call_soon_threadsafe(hands.appendleft, Hand.read(row))

        self.keeper.early = early

    Engine.start = started


@fault
def acknowledges_before_commit() -> None:
    """Answers an outcome before its group is written."""
    honest = Engine.add

    def add(self, decision, body, answer):
        loop = asyncio.get_running_loop()
        honest(self, decision, body, loop.create_future())
        loop.call_soon(answer.set_result, "recorded")

    Engine.add = add


@fault
def replays_across_a_release() -> None:
    """Leaves the outcomes of a release and the state of their hands as they were: they are learned again."""
    _without(lambda sql: sql.startswith(("DELETE FROM outcome", "DELETE FROM hand")))


@fault
def keeps_raw_rows() -> None:
    """Does not delete what has been learned from."""
    _without(lambda sql: sql.startswith("DELETE FROM outcome"))


@fault
def serves_again_after_a_crash() -> None:
    """Takes hands for unserved that were being served when the process died."""

    def recover(self, _):
        with self.transaction() as tx:
            tx.do("UPDATE hand SET state = ? WHERE state = ?", DEALT, OPEN)

    SQLiteStore.recover = recover


@fault
def forgets_charges() -> None:
    """Does not write down what a learner was charged."""
    PopulationLedger.flush = lambda *_: None


@fault
def forgets_the_state() -> None:
    """Commits releases without the state that follows from them."""
    _without(lambda sql: sql.startswith("INSERT INTO private_state") and _second(sql))


@fault
def takes_outcomes_too_late() -> None:
    """Accepts outcomes of hands that are being folded."""
    sqlite.CLOSING = 9


@fault
def counts_people_in_memory() -> None:
    """Forgets at a crash how often somebody was counted."""
    honest = SQLiteStore.recover

    def recover(self, owner):
        honest(self, owner)
        with self.transaction() as tx:
            tx.do("DELETE FROM visit")

    SQLiteStore.recover = recover


@fault
def counts_people_by_segment() -> None:
    """Takes somebody in several segments for several people."""
    honest = visits.count

    def count(tx, population, period, limit, hand):
        where = (hand.first, hand.end)
        for place, marks in tx.all(
            "SELECT place, marks FROM served_to WHERE place >= ? AND place < ?", *where
        ):
            people = [marks[at : at + MARK] + hand.segment.encode() for at in range(0, len(marks), MARK)]
            others = b"".join(hashlib.blake2b(one, digest_size=MARK).digest() for one in people)
            tx.do("UPDATE served_to SET marks = ? WHERE place = ?", others, place)
        honest(tx, population, period, limit, hand)

    visits.count = count


@fault
def mixes_up_segments() -> None:
    """Learns what came of a hand in the segment of the hand before it."""
    honest = Keeper._fold

    def fold(self, one, hands, *, last):
        segments = [hand.segment for hand in hands]
        for hand, segment in zip(hands[1:], segments, strict=False):
            hand.segment = segment
        honest(self, one, hands, last=last)

    Keeper._fold = fold


@fault
def takes_the_last_word() -> None:
    """Lets a second outcome of a decision replace the first, and says that it was recorded."""
    honest = SQLiteStore._record

    def record(self, tx, outcomes):
        for one in outcomes:
            tx.do("DELETE FROM outcome WHERE experiment = ? AND epoch = ? AND place = ?", *one[:3])
        return honest(self, tx, outcomes)

    SQLiteStore._record = record


@fault
def breaks_the_chain() -> None:
    """Commits what it serves from under another name than the release it follows from."""
    honest = Keeper._release

    def release(self, one, segment):
        *rest, chain = honest(self, one, segment)
        one.chain = bytes(reversed(chain))
        return (*rest, one.chain)

    Keeper._release = release


# --- how ------------------------------------------------------------------------------------------------

_times: dict[str, int] = {}


def _second(sql: str) -> bool:
    """Every second time."""
    _times[sql] = _times.get(sql, 0) + 1
    return _times[sql] % 2 == 0


class _Wrapped:
    """A connection whose statements can be left out."""

    left_out: Callable[[str], bool] = staticmethod(lambda _: False)

    def __init__(self, connection):
        self._connection = connection

    def execute(self, sql, values=()):
        if _Wrapped.left_out(sql):
            return self._connection.execute("SELECT 1")
        return self._connection.execute(sql, values)

    def __getattr__(self, name):
        return getattr(self._connection, name)


def _wrap() -> None:
    honest = SQLiteStore.__init__

    def made(self, path):
        honest(self, path)
        self._connection = _Wrapped(self._connection)

    SQLiteStore.__init__ = made


def _without(which: Callable[[str], bool]) -> None:
    _Wrapped.left_out = staticmethod(which)
    _wrap()
