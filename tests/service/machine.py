"""A service that is told what happens next, in any order, and what has to hold whatever the order is.

The engine's loop and its worker go on when they are told to, and both clocks are the machine's. A crash drops
the process and leaves what was committed.
"""

from __future__ import annotations

import asyncio
import datetime
import json
import shutil
import tempfile
from collections import Counter
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from unittest import mock

from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

from discreet.service import backup, database, groups
from discreet.service.auth import DecisionId, Secrets
from discreet.service.config import PopulationConfig
from discreet.service.database import failpoints
from discreet.service.engine import DecisionEngine
from discreet.service.learning import Learning
from discreet.service.worker import PAUSED, RUNNING, Worker, linked, periods_of

from .world import ITEMS, likes, taken

LIMIT, WAIT = 2, 10.0
PEOPLE = PopulationConfig(
    epsilon=1.0, delta=1e-6, definition="gdp", max_rounds_per_person=LIMIT, period="month"
)
TICKS = [point for point in database.POINTS if point not in ("outcomes queued", "outcomes committed")]
BETWEEN = ["block closed", "outcomes read", "noise drawn"]
persons = st.sampled_from(["ann", "ben", None])


class Quick(database.SQLiteDatabase):
    """Nobody pulls a plug here: what was written is there."""

    PRAGMAS = ("journal_mode=WAL", "synchronous=OFF", "secure_delete=ON", "foreign_keys=ON")


class Crash(BaseException):
    """The process ends here."""


def end():
    raise Crash


class ServiceMachine(RuleBasedStateMachine):
    """Decisions, outcomes, clocks, crashes, changes: nothing is lost, doubled or kept too long."""

    decisions = Bundle("decisions")

    def __init__(self):
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.now = datetime.datetime(2026, 1, 5, tzinfo=datetime.UTC)
        self.secrets = Secrets.fresh()
        self.loop = asyncio.new_event_loop()
        self.engine = None
        self.served = {}  # (epoch, sequence): period and person
        self.waiting = {}  # (epoch, sequence): what is to be learned of it, and whose it is
        self.expected = {}  # the same, once it was learned
        self.visits = Counter()  # (period, person)
        self.erased = set()  # the same
        self.answers = {}  # of requests that were written down
        self.again = set()  # (epoch, sequence) of decisions that were served to requests that were sent again
        self.counted = {}  # (epoch, sequence) of decisions whose people were counted, or had been
        self.added = 0
        self.patches = ExitStack()
        self.patches.enter_context(mock.patch.object(database.Transaction, "now", self._clock))
        self._watch()

    def _clock(self):
        return self.now.timestamp()

    def _watch(self):
        """Write down what is learned, in the transaction that it is learned in."""
        aggregate, save, write = Learning.aggregate, Worker._save, groups._cursors

        def counted(tx, served, left_out, blocks):
            before = dict(blocks)
            write(tx, served, left_out, blocks)
            for where, row in blocks.items():
                new = range(before[where].served, row.served)
                rows = [(row.epoch, row.first + offset, row.counts(offset)) for offset in new]
                tx.many("INSERT INTO counted VALUES (?, ?, ?)", rows)

        self.patches.enter_context(mock.patch.object(groups, "_cursors", counted))

        def aggregated(learning, block, outcomes):
            aggregate(learning, block, outcomes)
            seen = learning.__dict__.setdefault("seen", [])
            for offset in range(block.count):
                altered, body = outcomes.get(block.first + offset, (False, None))
                if block.first + offset in outcomes:
                    heard = offset < block.served and altered == (offset in block.altered)
                    assert body is None or offset not in block.uncounted
                    seen.append((block.epoch, block.first + offset, body if heard else None))

        def saved(worker, tx, one, allocated, releases=()):
            save(worker, tx, one, allocated, releases)
            tx.many("INSERT INTO witness VALUES (?, ?, ?)", one.learning.__dict__.pop("seen", []))

        self.patches.enter_context(mock.patch.object(Learning, "aggregate", aggregated))
        self.patches.enter_context(mock.patch.object(Worker, "_save", saved))

    # --- a process -------------------------------------------------------------------------------

    def _start(self):
        store = Quick(self.folder / "service.db")
        self.engine = DecisionEngine(store, self.secrets, calendar=lambda: self.now)
        self._run(self.engine.start(work=False))
        for task in self.engine._tasks:  # `look` does what they do, when it is told to
            task.cancel()

    def _drop(self):
        """The process ends without a word."""
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        self._run(asyncio.sleep(0))
        self.engine._writer.shutdown()
        self.engine.store.close()

    def _run(self, work):
        return self.loop.run_until_complete(work)

    def _rows(self, sql, *values):
        with self.engine.store.transaction() as tx:
            return tx.all(sql, *values)

    def _live(self):
        return self._run(self.engine.live("shop"))

    @initialize(config=st.sampled_from([likes, taken]))
    def make(self, config):
        self._start()
        with self.engine.store.transaction() as tx:
            tx.do("CREATE TABLE witness (epoch INTEGER, sequence INTEGER, body BLOB)")
            tx.do("CREATE TABLE counted (epoch INTEGER, sequence INTEGER, counts INTEGER)")
        worker = self.engine.worker
        worker.create_population("people", PEOPLE)
        # Seeded: which sets are drawn decides when a process reads a changed catalogue.
        self.config = config(items=ITEMS[:6], k=2, block_size=4, outcome_wait=WAIT, seed=7)
        self.shop = worker.create("shop", "people", self.config).id

    # --- what happens ----------------------------------------------------------------------------

    @rule(target=decisions, person=persons, exclude=st.booleans(), key=st.sampled_from([None, b"a", b"b"]))
    def decide(self, person, exclude, key=None):
        engine, live = self.engine, self._live()
        if live.status != RUNNING:
            return None
        pseudonym = engine.pseudonym(live, person)
        found = self._run(self._take(live, pseudonym, exclude, key))
        if found is None:
            return None
        block, offset, items, altered, answer = found
        assert len(set(items)) == 2
        where = block.epoch, block.first + offset
        assert where not in self.served, "a decision was served twice"
        self.served[where] = live.period, person
        if key is not None:
            assert self.answers.setdefault(key, answer) == answer, "another answer to the same request"
            if json.loads(answer) != [*where]:
                self.again.add(where)
        there = self._rows("SELECT 1 FROM block WHERE epoch = ? AND first = ?", block.epoch, block.first)
        over = (
            engine.worker.period(PEOPLE) != live.period
        )  # it may have been aggregated, and outcomes are late
        assert there or over, "a block was served that nobody has committed"
        chains = {linked(b"", f"experiment {self.shop}")}
        chains |= {bytes(chain) for (chain,) in self._rows("SELECT chain FROM release")}
        assert block.chain in chains, "something was served that follows from no release"
        decision = DecisionId(live.id, *where, pseudonym, altered, block.lease)
        return engine.secrets.sign(decision), person, live.period

    async def _take(self, live, pseudonym, exclude, key):
        """A decision, if a block waits for somebody to lease it, and what is known of the request."""
        found = self.engine.take(live, pseudonym)
        if found is None:
            await (live.leasing or self.engine._start_lease(live))
            found = self.engine.take(live, pseudonym)
        if found is None:
            return None
        block, offset = found
        items, altered = live.without(block, offset, {"item 0"} if exclude else set())
        answer = None
        if key is not None:
            said = json.dumps([block.epoch, block.first + offset])
            answer = (await self.engine.keep(key, altered, said)).answer
        return block, offset, items, altered, answer

    @rule(decision=decisions, number=st.integers(0, 5))
    def report(self, decision, number):
        """Once, again, out of order, late."""
        if decision is None:
            return
        signed, person, period = decision
        known = self.engine.secrets.verify(signed)
        body = json.dumps(ITEMS[number] if self.config.feedback == "slots" else [ITEMS[number]]).encode()
        answer = self._run(self._record(known, body))
        where = known.epoch, known.sequence
        status, counted = answer
        counts = where not in self.again and (person is None or self._may_count(where))
        assert counts or not counted, "an outcome is said to count that does not"
        if status != "recorded":
            assert status == "late" or where in self.waiting | self.expected
            return
        assert where not in self.waiting | self.expected, "a second outcome was recorded"
        self.waiting[where] = [body, person, period, known.altered]

    @rule(target=decisions, person=persons, number=st.integers(0, 5))
    def visit(self, person, number):
        """Somebody comes, and is reported on at once."""
        decision = self.decide(person, exclude=False)
        self.report(decision, number)
        return decision

    @rule(person=persons, number=st.integers(0, 5))
    def busy_minute(self, person, number):
        """A block is served, and aggregated once its time is over."""
        for _ in range(4):
            self.visit(person, number)
        self.look()
        self.wait(WAIT)
        self.tick()

    async def _record(self, decision, body):
        told = self.engine.record(decision, body)
        self.engine._begin_group()  # blocks that were closed may wait: the engine looks for them by itself
        return await told

    @rule(seconds=st.sampled_from([1.0, WAIT]))
    def wait(self, seconds):
        self.now += datetime.timedelta(seconds=seconds)

    @rule()
    def next_month(self):
        self.now = (self.now.replace(day=1) + datetime.timedelta(days=32)).replace(day=5)

    @rule()
    def tick(self):
        for number in self.engine.worker.due():
            self.engine.worker.tick(number)
        self._learned()

    @rule(decision=decisions, number=st.integers(0, 5), point=st.sampled_from(BETWEEN))
    def report_in_a_step(self, decision, number, point):
        """While the worker is at work, and between two of its transactions."""
        failpoints[point] = lambda: self.report(decision, number)
        try:
            self.tick()
        finally:
            failpoints.pop(point, None)

    @rule()
    def look(self):
        """What the engine does every second."""
        self._run(self.engine._flushing or self.engine._flush_now())
        self._run(self.engine.refresh("shop"))

    @rule(status=st.sampled_from([PAUSED, RUNNING]))
    def switch(self, status):
        self.engine.worker.set_status(self.shop, status)

    @rule(retire=st.booleans())
    def change(self, retire):
        labels = [label for (label,) in self._rows("SELECT label FROM item WHERE retired = 0")]
        self.added += 1
        gone = labels[:1] if retire and len(labels) > 4 else []
        self.engine.worker.change_items(self.shop, [f"new {self.added}"], gone)

    @rule(person=persons.filter(bool))
    def erase(self, person):
        self._learned()
        self.engine.worker.erase("people", partial(self.secrets.pseudonym, person=person))
        periods = {
            self.engine.worker.period(PEOPLE),
            *[p for (p,) in self._rows("SELECT period FROM experiment")],
        }
        for period in periods:
            self.erased.add((period, person))
        for entry in self.waiting.values():
            if entry[1] == person and entry[2] in periods:
                entry[0] = None

    # --- crashes ---------------------------------------------------------------------------------

    @rule()
    def crash(self):
        self._drop()
        self._start()

    @rule(point=st.sampled_from(TICKS))
    def crash_in_a_step(self, point):
        failpoints[point] = end
        try:
            self.tick()
        except Crash:
            self.crash()
        finally:
            failpoints.pop(point, None)

    # --- what holds ------------------------------------------------------------------------------

    def _learned(self):
        """What was learned since the last time is what was acknowledged, once, of who counts."""
        for epoch, sequence, counts in self._rows("SELECT * FROM counted ORDER BY rowid")[
            len(self.counted) :
        ]:
            whose = self.served[epoch, sequence]
            allowed = (epoch, sequence) not in self.again
            allowed = allowed and (whose[1] is None or self.visits[whose] < LIMIT)
            assert counts == allowed, "another decision was counted than the first ones"
            self.visits[whose] += counts
            assert (epoch, sequence) not in self.counted, "somebody was counted twice for one decision"
            self.counted[epoch, sequence] = counts
        for epoch, sequence, body in self._rows("SELECT epoch, sequence, body FROM witness"):
            where = epoch, sequence
            if where in self.waiting:
                wanted, person, period, altered = entry = self.waiting.pop(where)
                if not self.counted.get(where) or (period, person) in self.erased:
                    wanted = entry[0] = None
                self.expected[where] = entry
                body = None if body is None else bytes(body)
                assert body == wanted or (altered and body is None), (
                    f"of {person} was learned what was not acknowledged, or not what was"
                )

    def _may_count(self, where):
        """Whether a decision is one of the first ones of a person, by what was written down."""
        rows = self._rows("SELECT epoch, sequence FROM counted ORDER BY rowid")
        whose = [one for one in rows if self.served[one] == self.served[where] and one not in self.again]
        return where in whose[:LIMIT]

    @invariant()
    def nothing_is_learned_twice_nor_kept(self):
        if self.engine is None:
            return
        rows = self._rows("SELECT epoch, sequence FROM witness")
        assert len(rows) == len(set(rows)), "something was learned twice"
        kept = self._rows("SELECT epoch, sequence FROM outcome")
        assert not set(rows) & set(kept), "a raw outcome was kept after it was learned"

    def teardown(self):
        try:
            if self.engine is not None:
                self._settle()
        finally:
            self._close()

    def _close(self):
        if self.engine is not None:
            self._drop()
        self.loop.close()
        self.patches.close()
        shutil.rmtree(self.folder)

    def _settle(self):
        """Everything is aggregated; whatever was acknowledged has been learned, or was to be forgotten."""
        wrong = backup.verify(self.engine.store)
        assert not wrong, wrong[0]
        self.engine.worker.set_status(self.shop, RUNNING)
        self.crash()
        self.now += datetime.timedelta(seconds=2 * WAIT)
        for _ in range(50):
            if self.engine.worker.due():
                self.tick()
        self._learned()  # also what was learned when it went on in another month
        assert not self.engine.worker.due(), "the worker comes to no end"
        self.nothing_is_learned_twice_nor_kept()
        assert not self.waiting, "an acknowledged outcome was lost"
        assert not self._rows("SELECT 1 FROM outcome"), "a raw outcome was kept"
        by_person = Counter(
            (period, person) for wanted, person, period, _ in self.expected.values() if person and wanted
        )
        assert not by_person or max(by_person.values()) <= LIMIT
        wrong = backup.verify(self.engine.store)
        assert not wrong, wrong[0]
        ((epoch,),) = self._rows("SELECT epoch FROM experiment")
        periods = periods_of(self.engine.store, 1)
        assert len(periods.names) == epoch + 1, "a period was not charged, or twice"
        for name in periods.names:
            assert 0.9 < periods.account(name).epsilon() <= 1.0, "another sum was charged"
