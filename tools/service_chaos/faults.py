"""Injected faults: each breaks one promise of the service, and the harness has to notice."""

from __future__ import annotations

import asyncio
import hashlib
import json
import sys
from collections.abc import Callable

from discreet.service import api, groups
from discreet.service.database import ALLOCATED, OPEN, PSEUDONYM, SQLiteDatabase
from discreet.service.engine import DecisionEngine, Live
from discreet.service.groups import Acknowledged
from discreet.service.learning import DecisionBlock
from discreet.service.worker import PopulationLedger, Worker

FAULTS: dict[str, Callable[[], None]] = {}


def fault(make: Callable[[], None]) -> Callable[[], None]:
    FAULTS[make.__name__] = make
    return make


@fault
def serves_before_commit() -> None:
    """Shows blocks as soon as they are allocated; they are committed a moment later."""
    honest = Worker._save

    def save(self, tx, one, allocated, releases=()):
        early = getattr(self, "early", None)
        if early is not None and allocated:
            early(one.id, allocated)
        honest(self, tx, one, allocated, releases)

    Worker._save = save
    start = DecisionEngine.start

    async def started(self, **more):
        await start(self, **more)
        loop = asyncio.get_running_loop()

        def early(number, allocated):
            live = self._by_number.get(number)
            if live is not None:
                for h in reversed(allocated):
                    key = h.experiment, h.epoch, h.first
                    row = (*key, h.count, h.body(), h.chain, 0, "", h.segment, "", 0)
                    blocks = live.segments.get(h.segment, live).blocks
                    loop.call_soon_threadsafe(blocks.appendleft, DecisionBlock.read(row))

        self.worker.early = early

    DecisionEngine.start = started


@fault
def acknowledges_before_commit() -> None:
    """Answers an outcome before its group is written."""
    honest = DecisionEngine.record

    def record(self, decision, body):
        honest(self, decision, body).add_done_callback(lambda done: done.exception())
        answer = asyncio.get_running_loop().create_future()
        answer.set_result(Acknowledged("recorded", False))
        return answer

    DecisionEngine.record = record


@fault
def replays_across_a_release() -> None:
    """Leaves the outcomes of a release and the state of their blocks as they were: they are learned again."""
    _without(lambda sql: sql.startswith(("DELETE FROM outcome", "DELETE FROM block")))


@fault
def keeps_raw_rows() -> None:
    """Does not delete what has been learned from."""
    _without(lambda sql: sql.startswith("DELETE FROM outcome"))


@fault
def serves_again_after_a_crash() -> None:
    """Takes blocks for unserved that were being served when the process died."""

    def recover(self, _):
        with self.transaction() as tx:
            tx.do("UPDATE block SET state = ? WHERE state = ?", ALLOCATED, OPEN)

    SQLiteDatabase.recover = recover


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
    """Accepts outcomes of blocks that are being aggregated."""
    groups.CLOSING = 9


@fault
def counts_people_in_memory() -> None:
    """Forgets at a crash how often somebody was counted."""
    honest = SQLiteDatabase.recover

    def recover(self, owner):
        honest(self, owner)
        with self.transaction() as tx:
            tx.do("DELETE FROM visit")

    SQLiteDatabase.recover = recover


@fault
def counts_people_by_segment() -> None:
    """Takes somebody in several segments for several people."""
    honest = groups._over_limit

    def over_limit(tx, sequences):
        with_segments = {}
        for sequence in sequences:
            (segment,) = tx.one("SELECT segment FROM block WHERE epoch = ? AND first = ?", *sequence[1:3])
            pseudonym = hashlib.blake2b(sequence.pseudonym + segment.encode(), digest_size=PSEUDONYM).digest()
            with_segments[sequence._replace(pseudonym=pseudonym)] = sequence
        return {with_segments[sequence] for sequence in honest(tx, list(with_segments))}

    groups._over_limit = over_limit


@fault
def mixes_up_segments() -> None:
    """Learns what came of a block in the segment of the block before it."""
    honest = Worker._aggregate

    def aggregate(self, one, blocks, *, last):
        segments = [block.segment for block in blocks]
        for block, segment in zip(blocks[1:], segments, strict=False):
            block.segment = segment
        honest(self, one, blocks, last=last)

    Worker._aggregate = aggregate


@fault
def takes_the_last_word() -> None:
    """Lets a second outcome of a decision replace the first, and says that it was recorded."""
    honest = groups._outcomes

    def outcomes(tx, reported, blocks):
        for one in reported:
            tx.do("DELETE FROM outcome WHERE experiment = ? AND epoch = ? AND sequence = ?", *one[:3])
        return honest(tx, reported, blocks)

    groups._outcomes = outcomes


@fault
def breaks_the_chain() -> None:
    """Commits what it serves from under another name than the release it follows from."""
    honest = Worker._release

    def release(self, one, segment):
        *rest, chain = honest(self, one, segment)
        one.chain = bytes(reversed(chain))
        return (*rest, one.chain)

    Worker._release = release


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

    def executemany(self, sql, rows):
        if not _Wrapped.left_out(sql):
            self._connection.executemany(sql, rows)

    def __getattr__(self, name):
        return getattr(self._connection, name)


def _wrap() -> None:
    honest = SQLiteDatabase.__init__

    def made(self, path, **more):
        honest(self, path, **more)
        self._connection = _Wrapped(self._connection)

    SQLiteDatabase.__init__ = made


def _without(which: Callable[[str], bool]) -> None:
    _Wrapped.left_out = staticmethod(which)
    _wrap()


@fault
def keeps_histories() -> None:
    """Keeps the history of a request with the answer that an idempotency key brings back."""
    decoded, keep = api.decoded, DecisionEngine.keep
    histories = []

    def read(raw, decoder):
        found = decoded(raw, decoder)
        histories[:] = getattr(found, "history", None) or []
        return found

    def kept(self, request, altered, answer, **more):
        told = json.loads(answer) | {"history": list(histories)}
        return keep(self, request, altered, json.dumps(told), **more)

    api.decoded, DecisionEngine.keep = read, kept


@fault
def logs_histories() -> None:
    """Writes the history of a request into the log."""
    honest = Live.own_set

    def own_set(self, answer, spare, history, exclude):
        print("asked with", history, file=sys.stderr, flush=True)
        return honest(self, answer, spare, history, exclude)

    Live.own_set = own_set
