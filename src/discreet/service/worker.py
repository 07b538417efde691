"""The worker of experiments: allocates blocks, closes them, aggregates what came of them, begins new epochs.

A block is closed first, and takes no outcomes from then on. Its outcomes are read and learned from in memory.
What was released, its privacy cost, the new state, the deletion of the raw rows and the next blocks are then
committed together. Nothing that follows from a release is served before that. If the transaction fails, or
its end is not known, memory is dropped and read again.

`PopulationLedger` holds back what gates append until that transaction: no charge is there without its
release, and no release without its charge.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec

from ..privacy import BudgetExceeded, Charge, Entry, Event, Gate, LedgerConflict
from ..privacy.conversions import exact
from ..privacy.ledger import agreed, check_can_resume
from ..privacy.population import Periods
from .config import ExperimentConfig, PopulationConfig
from .database import (
    ALLOCATED,
    BLOCK,
    CLOSING,
    OPEN,
    Conflict,
    Database,
    Ended,
    Fenced,
    Frozen,
    StoreError,
    Transaction,
    reach,
)
from .learning import DecisionBlock, Learning, check, check_people

# What came of the decisions of a block. Its requests are read as a range: looked up for each outcome,
# SQLite would read all requests of the experiment every time.
REPORTED = (
    "SELECT o.sequence, o.altered, CASE WHEN EXISTS (SELECT 1 FROM erased e"
    " WHERE e.population = ? AND e.period = ? AND e.pseudonym = o.pseudonym)"
    " THEN NULL ELSE o.body END FROM outcome o"
    " WHERE o.experiment = ? AND o.epoch = ? AND o.sequence >= ? AND o.sequence < ?"
    " AND o.sequence NOT IN (SELECT r.sequence FROM request r WHERE r.experiment = ? AND r.epoch = ?"
    " AND r.sequence >= ? AND r.sequence < ? AND r.active = 0)"
)


class PopulationLedger:
    """The charges of a population, as they were when it was read, and those to be flushed.

    Charges that were given back (``void``) are none. Their versions are not used again.

    Only one worker at a time works for an experiment, which the store sees to, and only the owners of that
    ``experiment`` can be taken up here. One that is being made gets its number before `flush`. The state of
    an owner commits with what it has released, so that the one in the database is the latest.
    """

    def __init__(self, tx: Transaction, population: int, experiment: int) -> None:
        self._population, self.experiment = population, experiment
        (terms, caveats) = tx.one("SELECT terms, caveats FROM population WHERE id = ?", population)
        self._terms: dict[str, Any] | None = None if terms is None else json.loads(terms)
        self._caveats: list[str] = json.loads(caveats)
        self._said = terms, caveats
        self._charges: list[Charge] = []
        self._known: set[str] = set()  # owners of the experiment that are not in use
        rows = tx.all(
            "SELECT experiment, people, label, event, disjoint, count, owner, void FROM charge"
            " WHERE population = ? ORDER BY version",
            population,
        )
        self._last = len(rows)  # versions are numbered from 1 on, without gaps
        for own, people, label, event, disjoint, count, owner, void in rows:
            if void:
                continue
            entry = Entry(label, Event.from_json(json.loads(event)), bool(disjoint))
            self._charges.append(Charge(tuple(json.loads(people)), entry, int(count), owner))
            if own == experiment and owner is not None:
                self._known.add(owner)
        self._flushed = len(self._charges)
        self._used: set[str] = set()

    # --- as a `Ledger` ---------------------------------------------------------------------------

    @property
    def id(self) -> str:
        return f"population {self._population}"

    @property
    def version(self) -> int:
        return len(self._charges)

    def entries(self, since: int = 0) -> list[Charge]:
        """What was charged after version ``since``."""
        return self._charges[since:]

    def append(self, charge: Charge, *, expected_version: int) -> None:
        if expected_version != self.version:
            raise LedgerConflict(f"the ledger is at version {self.version}, not {expected_version}")
        self._charges.append(charge)
        if charge.owner is not None:
            self._used.add(charge.owner)

    def agree(self, terms: Mapping[str, Any]) -> None:
        """Refuse other terms (a budget, a privacy definition) than those of the first gate."""
        self._terms = agreed(self._terms, terms)

    @property
    def caveats(self) -> tuple[str, ...]:
        return tuple(self._caveats)

    def add_caveats(self, *sentences: str) -> None:
        self._caveats += [sentence for sentence in sentences if sentence not in self._caveats]

    def take_up(self, owner: str, number: int) -> None:
        """Use the charges of an owner of this experiment; its lease sees to it that nobody else does."""
        check_can_resume(number, (0, False) if owner in self._known else None, owner in self._used)
        self._used.add(owner)

    def note(self, owner: str, number: int, *, finished: bool = False) -> None:
        """States are written with this ledger, in one transaction: there is no earlier one."""

    def unfinished(self) -> list[Charge]:
        """None: what was charged in a period is released before the next one begins (`Worker`)."""
        return []

    def check_open(self) -> None:
        """It is never closed."""

    # --- the transaction -------------------------------------------------------------------------

    def flush(self, tx: Transaction) -> None:
        """Write what was appended. Somebody else's charge in the meantime makes the transaction fail."""
        rows = []
        for people, entry, count, owner in self._charges[self._flushed :]:
            self._last += 1
            said = json.dumps(people), entry.label, json.dumps(entry.event.to_json())
            sequence = self._population, self._last, self.experiment
            rows.append((*sequence, *said, int(entry.disjoint), str(count), owner))
        tx.many(
            "INSERT INTO charge (population, version, experiment, people, label, event, disjoint, count,"
            " owner) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            rows,
        )
        self._flushed = len(self._charges)
        terms = None if self._terms is None else json.dumps(self._terms), json.dumps(self._caveats)
        if terms != self._said:
            tx.do("UPDATE population SET terms = ?, caveats = ? WHERE id = ?", *terms, self._population)
            self._said = terms


# A block is to last about this many seconds: long enough to write the next one, short enough to learn from
# soon.
_SHORT, _LONG, _LARGE = 1.0, 4.0, 4096
# What accounts take for granted beside the budget.
PUBLIC = (
    "which decisions there were, when and for whom, is public: what one person's outcomes tell is protected"
)
UNCHECKED = "decisions need not say whom they are for: how often somebody counts is declared, and not checked"
RESTORED = (
    "the service's store was restored from a backup: releases made after that backup are not in this account"
)
# What is ending takes outcomes of decisions that were made, and releases what comes of them.
RUNNING, PAUSED, FROZEN, ENDING, ENDED = "running", "paused", "frozen", "ending", "ended"
PERIODS = {"day": "%Y-%m-%d", "week": "%G-W%V", "month": "%Y-%m", "none": "all"}  # and their names
AHEAD = 2  # blocks of a segment that wait to be served


class OtherSegments(ValueError):
    """Experiments of one population have the same segments, or none."""


class ShareUnavailable(Exception):
    """The experiments about the same people that go on have reserved more than this one would leave them."""

    def __init__(self, left: float) -> None:
        super().__init__(f"other experiments have reserved all but {left:g} of every period's budget")
        self.left = left


class InUse(Exception):
    """It was used: it can be ended, and not deleted."""


@dataclass
class Pace:
    """How large blocks are, by how fast the last ones were used up: decisions and the clock are public."""

    block: int = 8  # decisions of the next one
    allocated_at: float = -math.inf

    def next(self, blocks: int) -> int:
        """How large these blocks are, which are allocated now."""
        now = time.monotonic()
        lasted = (now - self.allocated_at) / blocks
        if lasted < _SHORT:
            self.block = min(2 * self.block, _LARGE)
        elif lasted > _LONG:
            self.block = max(self.block // 2, 1)
        self.allocated_at = now
        return self.block


@dataclass
class Experiment:
    """A row of the table of experiments, and what a worker holds of it in memory."""

    id: int
    population: int
    config: ExperimentConfig
    people: PopulationConfig
    status: str
    epoch: int
    period: str
    next_sequence: int
    seq: int
    chain: bytes
    frozen: str  # the period in which nothing about its people begins
    resumes: bool  # whether it goes on by itself once it is no longer frozen
    used: int  # decisions of this epoch from which something was learned
    ledger: PopulationLedger = field(repr=False)
    learning: Learning = field(repr=False)
    fence: int = -1  # of no worker yet
    paces: dict[str, Pace] = field(default_factory=dict)  # of the blocks of each segment


def gate_of(
    people: PopulationConfig, config: ExperimentConfig, ledger: PopulationLedger, period: str, epoch: int
) -> Gate:
    seed = None if config.seed is None else config.seed + epoch
    return Periods(people.budget, ledger, definition=people.definition).gate(period, seed)


def read_experiment(tx: Transaction, number: int) -> Experiment:
    """The experiment of this number, as it was left."""
    row = tx.one(
        "SELECT e.population, e.config, p.config, e.status, e.epoch, e.period, e.next_sequence, e.seq,"
        " e.chain, p.frozen, e.resumes, e.used FROM experiment e JOIN population p ON p.id = e.population"
        " WHERE e.id = ?",
        number,
    )
    if row is None:
        raise LookupError("experiment")
    population, config, people, status, epoch, period, sequence, seq, chain, frozen, resumes, used = row
    if status == ENDED:
        raise Ended("nothing more is learned: its state is gone")
    config, people = ExperimentConfig.read(config), PopulationConfig.read(people)
    states = tx.all("SELECT segment, body FROM private_state WHERE experiment = ?", number)
    ledger = PopulationLedger(tx, population, number)
    gate = gate_of(people, config, ledger, period, epoch)
    learning = Learning.load(config, gate, {segment: bytes(body) for segment, body in states})
    where = (status, epoch, period, sequence, seq, bytes(chain), frozen, bool(resumes), used)
    return Experiment(number, population, config, people, *where, ledger, learning)


def check_division(tx: Transaction, population: int, config: ExperimentConfig) -> None:
    """Refuse other segments than those of another experiment about the same people.

    The account takes the worst segment, as people are in one of them; of two divisions they would be in both.
    """
    for (other,) in tx.all("SELECT config FROM experiment WHERE population = ?", population):
        segments = ExperimentConfig.read(other).segments
        if config.segments and segments and set(segments) != set(config.segments):
            raise OtherSegments("segments must be those of the population's other experiments, or none")


def check_room(tx: Transaction, population: int, share: float, number: int = 0) -> None:
    """Refuse a share that those who go on in the next period would miss then (`ShareUnavailable`).

    A gate sees what was charged. When a period has just begun, others have not been charged in it yet, and
    what was paused or ended is not charged in it at all.
    """
    tx.locked("SELECT id FROM population WHERE id = ?", population)  # one decides at a time
    rows = tx.all(
        "SELECT config FROM experiment WHERE population = ? AND id <> ?"
        " AND (status = ? OR (status = ? AND resumes = 1))",
        *(population, number, RUNNING, FROZEN),
    )
    left = 1 - sum(exact(ExperimentConfig.read(config).share) for (config,) in rows)
    if exact(share) > left:
        raise ShareUnavailable(float(left))


def write_items(tx: Transaction, one: Experiment) -> None:
    """The catalogue: numbers, labels, and what has been retired."""
    shown = set(one.learning.active)
    labels = enumerate(one.learning.labels)
    tx.do("UPDATE experiment SET catalogue = catalogue + 1 WHERE id = ?", one.id)
    tx.do("DELETE FROM item WHERE experiment = ?", one.id)
    rows = [(one.id, number, label, int(number not in shown)) for number, label in labels]
    tx.many("INSERT INTO item VALUES (?, ?, ?, ?)", rows)


class Worker:
    """The one who allocates and aggregates, for every experiment of which it has the lease."""

    def __init__(self, store: Database, holder: str = "only", clock: Any = None) -> None:
        self.store, self.holder = store, holder
        self.clock = clock or (lambda: datetime.datetime.now(datetime.UTC))
        self._kept: dict[int, Experiment] = {}
        self._turn = threading.RLock()  # what is kept is changed by one thread at a time

    def period(self, people: PopulationConfig) -> str:
        """The name of the period that it is now; later ones are greater."""
        return str(self.clock().strftime(PERIODS[people.period]))

    def latest(self, tx: Transaction, population: int, people: PopulationConfig) -> str:
        """The period that it is now, or a later one that has begun, by a clock that was ahead.

        A period that has begun stays, and so does one for which earlier pseudonyms were dropped: nobody would
        know any more who has counted, or was erased, in an earlier one.
        """
        (begun,) = tx.one("SELECT max(period) FROM experiment WHERE population = ?", population)
        (forgot,) = tx.one("SELECT forgot FROM population WHERE id = ?", population)
        return max(self.period(people), begun or "", str(forgot))

    # --- populations and experiments -------------------------------------------------------------

    def create_population(self, name: str, config: PopulationConfig) -> int:
        _ = config.budget  # refuses what is none
        with self.store.transaction() as tx:
            # Another one of the same people may have been lost, with what it had spent in this period.
            now, known = self.period(config), tx.all("SELECT period FROM restored")  # of all lengths
            lost = any(len(one) == len(now) and one >= now for (one,) in known)
            row = (name, config.text, json.dumps([RESTORED] if lost else []))
            tx.do("INSERT INTO population (name, config, caveats) VALUES (?, ?, ?)", *row)
            return int(tx.one("SELECT id FROM population WHERE name = ?", name)[0])

    def create(self, name: str, population: str, config: ExperimentConfig) -> Experiment:
        """A new experiment, which reserves its share of the budget, and its first blocks."""
        check(config)
        with self.store.transaction() as tx:
            found = tx.one("SELECT id, config, frozen FROM population WHERE name = ?", population)
            if found is None:
                raise LookupError("population")
            whose, people, frozen = int(found[0]), PopulationConfig.read(found[1]), found[2]
            ledger = PopulationLedger(tx, whose, 0)
            check_division(tx, whose, config)
            # A number that no epoch had of which this store does not know.
            epoch = int(self.clock().timestamp()) if _was_restored(tx) else 0
            period = self.latest(tx, whose, people)
        if frozen >= period:  # also before it, by a clock that is behind
            raise Frozen("what was spent in this period is not known")
        check_people(config, people)
        ledger.add_caveats(PUBLIC, *([UNCHECKED] if people.anonymous else []))
        learning = Learning.begin(config, gate_of(people, config, ledger, period, epoch))
        with self._named(name), self.store.transaction() as tx:
            check_room(tx, whose, config.share)
            if tx.one("SELECT frozen FROM population WHERE id = ?", whose)[0] != frozen:
                raise Frozen("a backup was restored meanwhile")
            row = (whose, name, config.text, RUNNING, epoch, period, config.outcome_wait, len(config.queues))
            tx.do(
                "INSERT INTO experiment (population, name, config, status, epoch, period, outcome_wait,"
                " queues, next_sequence, seq, chain, created) VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0, 0, ?, ?)",
                *(*row, b"", tx.now()),
            )
            number = ledger.experiment = int(tx.one("SELECT id FROM experiment WHERE name = ?", name)[0])
            where = (RUNNING, epoch, period, 0, 0, linked(b"", f"experiment {number}"), frozen, True, 0)
            made = Experiment(number, whose, config, people, *where, ledger, learning)
            write_items(tx, made)
            self._save(tx, made, self._allocated(made, {}))
            made.fence = 0  # of its first worker; if that is another one, the lease will say so
            self._kept[made.id] = made  # before others can see it, and change it
        return made

    @contextmanager
    def _named(self, name: str) -> Iterator[None]:
        """A conflict is about the name, or somebody was charged at the same time: that is tried again."""
        try:
            yield
        except Conflict:
            with self.store.transaction() as tx:
                if tx.one("SELECT 1 FROM experiment WHERE name = ?", name):
                    raise
            raise StoreError("others were charged at the same time") from None

    def experiment(self, number: int) -> Experiment:
        """The experiment as this worker holds it, read from the database where it does not yet."""
        if number not in self._kept:
            with self.store.transaction() as tx:
                self._kept[number] = read_experiment(tx, number)
        return self._kept[number]

    def forget(self, number: int) -> None:
        """Drop what is in memory: the database is right."""
        self._kept.pop(number, None)

    def forget_all(self) -> None:
        """Drop everything that is in memory, as soon as nobody works with it."""
        with self._turn:
            self._kept.clear()

    def due(self) -> list[int]:
        """Experiments for which there is something to do."""
        with self.store.transaction() as tx:
            rows = tx.all(
                "SELECT e.id, e.status, e.period, p.config, p.frozen, e.queues,"
                " coalesce(sum(CASE WHEN b.state = ? THEN 1 ELSE 0 END), 0),"
                " coalesce(sum(CASE WHEN b.state = ? OR (b.state = ? AND b.closed_at + e.outcome_wait <= ?)"
                " THEN 1 ELSE 0 END), 0), count(b.first)"
                " FROM experiment e JOIN population p ON p.id = e.population"
                " LEFT JOIN block b ON b.experiment = e.id AND b.epoch = e.epoch"
                " GROUP BY e.id, e.status, e.period, p.config, p.frozen, e.queues ORDER BY e.id",
                *(ALLOCATED, CLOSING, OPEN, tx.now()),
            )
        found = []
        for number, status, period, people, frozen, queues, waiting, closing, blocks in rows:
            over = period < (now := self.period(PopulationConfig.read(people)))
            if status == FROZEN:
                due = over and frozen < now
            elif status == RUNNING:
                due = over or closing or waiting < AHEAD * queues
            elif status == ENDING:
                due = over or closing or not blocks
            else:  # paused: what waits is learned when its time, or its period, is over
                due = closing or (over and blocks)
            if due:
                found.append(number)
        return found

    # --- a step ----------------------------------------------------------------------------------

    def tick(self, number: int) -> bool:
        """Do what is due for an experiment; whether there was anything."""
        with self._turn:
            fence = self.store.lease(number, self.holder)
            if fence is None:
                self.forget(number)
                return False
            try:
                return self._step(self._fenced(number, fence))
            except BaseException:
                self.forget(number)
                raise

    def _fenced(self, number: int, fence: int) -> Experiment:
        """The experiment under this fence; read again under its lock if it was known under another one.

        A transaction of which nobody knows how it ended has the lock until it ends.
        """
        one = self._kept.get(number)
        if one is None or one.fence != fence:
            with self.store.transaction() as tx:
                self.store.check_fence(tx, number, self.holder, fence)
                self._kept[number] = one = read_experiment(tx, number)
            one.fence = fence
        return one

    @contextmanager
    def _changing(self, one: Experiment) -> Iterator[Transaction]:
        """A transaction that fails if another worker has taken over."""
        with self.store.transaction() as tx:
            self.store.check_fence(tx, one.id, self.holder, one.fence)
            yield tx

    def _step(self, one: Experiment) -> bool:
        """Do what is due next for an experiment; whether anything was done."""
        over = (now := self.period(one.people)) > one.period
        if one.status == FROZEN:
            if not over or one.frozen >= now:
                return False
            return self._begin_again(one) if one.resumes else self._set(one, PAUSED)
        if closed := self._close(one, over=over):
            self._aggregate(one, closed, last=over or one.status == ENDING)
            return True
        if one.status == ENDING:
            return self._finish(one)
        if one.status != RUNNING:  # a period in which it does not run is not charged
            return over
        return self._begin_again(one) if over else self._allocate_more(one)

    def _begin_again(self, one: Experiment) -> bool:
        """A new epoch; paused where others have spent the budget of the period."""
        try:
            self._new_epoch(one)
            return True
        except BudgetExceeded:
            with self.store.transaction() as tx:
                audit(tx, "paused: the budget of this period has no room for its share")
            self.forget(one.id)  # what was begun in memory
            return self._set(self._fenced(one.id, one.fence), PAUSED)

    def _set(self, one: Experiment, status: str) -> bool:
        with self._changing(one) as tx:
            _write_status(tx, one, status)
        return True

    def _close(self, one: Experiment, *, over: bool) -> list[DecisionBlock]:
        """Blocks whose time is over, which take no more outcomes, and those of before a crash.

        All of them, where the period is ``over``: what was acknowledged is learned by whom it was paid for.
        Decisions of blocks that are still served from do not count, as after a crash.
        """
        epoch = one.id, one.epoch
        with self._changing(one) as tx:
            rows = tx.locked(
                "SELECT first FROM block WHERE experiment = ? AND epoch = ? AND state = ?"
                " AND (closed_at + ? <= ? OR ? = 1) ORDER BY first",
                *(*epoch, OPEN, one.config.outcome_wait, tx.now(), int(over)),
            )
            tx.many(
                "UPDATE block SET state = ? WHERE experiment = ? AND epoch = ? AND first = ?",
                [(CLOSING, *epoch, first) for (first,) in rows],
            )
            if over:
                tx.do("DELETE FROM block WHERE experiment = ? AND epoch = ? AND state = ?", *epoch, ALLOCATED)
            rows = tx.all(
                f"SELECT {BLOCK} FROM block WHERE experiment = ? AND epoch = ? AND state = ? ORDER BY first",
                *(*epoch, CLOSING),
            )
            open_before = dict(
                tx.all(
                    "SELECT segment, min(first) FROM block"
                    " WHERE experiment = ? AND epoch = ? AND state < ? GROUP BY segment",
                    *(*epoch, CLOSING),
                )
            )
        reach("block closed")
        blocks = map(DecisionBlock.read, rows)
        # In order: a block waits for those of its segment that come before it.
        return [block for block in blocks if block.first < open_before.get(block.segment, math.inf)]

    def _aggregate(self, one: Experiment, blocks: list[DecisionBlock], *, last: bool) -> None:
        """Learn what came of closed blocks, and commit what follows from that."""
        with self.store.transaction() as tx:
            outcomes: dict[int, tuple[bool, bytes | None]] = {}
            for block in blocks:
                outcomes |= self._reported(tx, one, block)
            waiting = self._waiting(tx, one)
        reach("outcomes read")
        for block in blocks:
            one.learning.aggregate(block, outcomes)
        aggregated = list(dict.fromkeys(block.segment for block in blocks))
        releases = [self._release(one, segment) for segment in aggregated]
        # Blocks that nobody has leased show what is known now, unless rounds were allocated with them.
        again = [] if one.learning.ahead else aggregated
        allocated = [] if last else self._allocated(one, waiting | dict.fromkeys(again, 0))
        reach("noise drawn")
        epoch = one.id, one.epoch
        with self._changing(one) as tx:
            for block in blocks:
                tx.do(
                    "DELETE FROM outcome WHERE experiment = ? AND epoch = ? AND sequence >= ?"
                    " AND sequence < ?",
                    *(*block.key, block.end),
                )
                tx.do("DELETE FROM block WHERE experiment = ? AND epoch = ? AND first = ?", *block.key)
            for segment in again:
                tx.do(
                    "DELETE FROM block WHERE experiment = ? AND epoch = ? AND segment = ? AND state = ?",
                    *(*epoch, segment, ALLOCATED),
                )
            one.used += sum([block.served for block in blocks])
            self._save(tx, one, allocated, releases)
        reach("release committed")
        self.store.scrub()

    def _reported(
        self, tx: Transaction, one: Experiment, block: DecisionBlock
    ) -> dict[int, tuple[bool, bytes | None]]:
        """What came of the decisions of a block, as `Learning.aggregate` takes it.

        Of people who were erased nothing is left. Decisions of which nobody said that they were seen, though
        that was to be said, count as "took nothing", whatever was reported: who has seen something is as
        private as what came of it, so such a decision stays a round, and moves one person's part of it only.
        """
        rows = tx.all(REPORTED, *(one.population, one.period, *block.key, block.end, *block.key, block.end))
        return {
            sequence: (bool(altered), None if body is None else bytes(body))
            for sequence, altered, body in rows
        }

    def _allocate_more(self, one: Experiment) -> bool:
        """Blocks that wait to be served, where there are too few."""
        with self.store.transaction() as tx:
            waiting = self._waiting(tx, one)
        allocated = self._allocated(one, waiting)
        if not allocated:
            return False
        with self._changing(one) as tx:
            self._save(tx, one, allocated)
            reach("allocated, not committed")
        reach("block committed")
        return True

    def _new_epoch(self, one: Experiment) -> None:
        """A new period: a new budget, and a new learner that begins with what the last one released."""
        old, last = one.learning, one.epoch
        known = {
            segment: released.discounted(one.config.warm_start) for segment, released in old.released.items()
        }
        with self.store.transaction() as tx:
            one.ledger = PopulationLedger(tx, one.population, one.id)
            restored = _was_restored(tx)
            period = self.latest(tx, one.population, one.people)
        one.epoch, one.period, one.next_sequence = last + 1, period, 0
        if restored:  # a number that no epoch had of which this store does not know
            one.epoch = max(one.epoch, int(self.clock().timestamp()))
        # Candidates are the only items by now, but for those that were added to them.
        active = [old.labels[i] for i in old.active]
        one.config = msgspec.structs.replace(one.config, items=active, candidates=[])
        gate = gate_of(one.people, one.config, one.ledger, one.period, one.epoch)
        one.learning = Learning.begin(one.config, gate, known)
        with self._changing(one) as tx:
            left = tx.locked(
                "SELECT first FROM block WHERE experiment = ? AND epoch = ? ORDER BY first", one.id, last
            )
            if left and one.status != FROZEN:
                raise Fenced("a block was leased meanwhile: it is aggregated first")
            tx.do("DELETE FROM outcome WHERE experiment = ? AND epoch = ?", one.id, last)
            tx.do("DELETE FROM block WHERE experiment = ? AND epoch = ?", one.id, last)
            if not one.config.warm_start:  # else the last model, which is public, serves until there is one
                tx.do("DELETE FROM model WHERE experiment = ?", one.id)
            one.status = RUNNING
            one.used = 0
            tx.do(
                "UPDATE experiment SET status = ?, config = ? WHERE id = ?", RUNNING, one.config.text, one.id
            )
            write_items(tx, one)
            releases = [self._release(one, segment) for segment in one.config.queues]
            self._save(tx, one, self._allocated(one, {}), releases)
            forget_people(tx, one.population, one.period)
        self.store.scrub()

    # --- inside a step ---------------------------------------------------------------------------

    def _waiting(self, tx: Transaction, one: Experiment) -> dict[str, int]:
        """How many blocks of each segment wait to be served."""
        return dict(
            tx.all(
                "SELECT segment, count(*) FROM block"
                " WHERE experiment = ? AND epoch = ? AND state = ? GROUP BY segment",
                *(one.id, one.epoch, ALLOCATED),
            )
        )

    def _allocated(self, one: Experiment, waiting: Mapping[str, int]) -> list[DecisionBlock]:
        """The next blocks, in memory, of segments of which too few are ``waiting``."""
        made = []
        for segment in one.learning.queues:
            blocks = AHEAD - waiting.get(segment, 0)
            if blocks <= 0:
                continue
            size = one.config.block_size or one.paces.setdefault(segment, Pace()).next(blocks)
            for _ in range(blocks):
                key = one.id, one.epoch, one.next_sequence
                made.append(one.learning.allocate(*key, size, one.chain, segment))
                one.next_sequence += size
        return made

    def _release(self, one: Experiment, segment: str) -> tuple[int, str, str, bytes]:
        """The next link of the chain of releases: (number, segment, payload, chain)."""
        payload = json.dumps(one.learning.payload(segment))
        one.seq += 1
        one.chain = linked(one.chain, payload)
        return one.seq, segment, payload, one.chain

    def _save(
        self,
        tx: Transaction,
        one: Experiment,
        allocated: list[DecisionBlock],
        releases: Sequence[tuple[int, str, str, bytes]] = (),
    ) -> None:
        """Everything that follows from what was just done, in the transaction in which it is done."""
        one.ledger.flush(tx)
        for seq, segment, payload, chain in releases:
            tx.do(
                "INSERT INTO release (experiment, seq, epoch, segment, at, payload, chain)"
                " VALUES (?, ?, ?, ?, ?, ?, ?)",
                *(one.id, seq, one.epoch, segment, tx.now(), payload, chain),
            )
        if one.learning.model is not None:
            tx.do(
                "INSERT INTO model (experiment, seq, chain, body) VALUES (?, ?, ?, ?)"
                " ON CONFLICT (experiment) DO UPDATE SET seq = excluded.seq, chain = excluded.chain,"
                " body = excluded.body",
                *(one.id, one.seq, one.chain, one.learning.model),
            )
            one.learning.model = None
        tx.many(
            "INSERT INTO block (experiment, epoch, first, count, body, chain, state, served, segment)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, 0, ?)",
            [
                (*block.key, block.count, block.body(), block.chain, ALLOCATED, block.segment)
                for block in allocated
            ],
        )
        if not tx.do(
            "UPDATE experiment SET epoch = ?, period = ?, next_sequence = ?, seq = ?, chain = ?, used = ?"
            " WHERE id = ? AND status <> ?",
            *(one.epoch, one.period, one.next_sequence, one.seq, one.chain, one.used, one.id, FROZEN),
        ):
            raise Frozen("somebody has frozen it")
        tx.many(
            "INSERT INTO private_state (experiment, segment, seq, body) VALUES (?, ?, ?, ?)"
            " ON CONFLICT (experiment, segment) DO UPDATE SET seq = excluded.seq, body = excluded.body",
            [(one.id, segment, one.seq, body) for segment, body in one.learning.dump().items()],
        )

    # --- what operators ask for ------------------------------------------------------------------

    @contextmanager
    def _taken(self, number: int) -> Iterator[Experiment]:
        """The experiment, taken over from the process that works for it; memory is dropped if that fails."""
        with self._turn:
            fence = self.store.lease(number, self.holder, force=True)
            assert fence is not None
            try:
                yield self._fenced(number, fence)
            except BaseException:
                self.forget(number)
                raise

    def set_status(self, number: int, status: str) -> None:
        """Pause, or go on. What is frozen goes on in the next period, and what has ended does not.

        A paused experiment is charged for no period. Where one has begun meanwhile, going on begins a new
        epoch, which reserves its share, or is refused (`BudgetExceeded`, `ShareUnavailable`).
        """
        with self._taken(number) as one:
            if one.status == FROZEN:
                raise Frozen("it goes on in the next period")
            if one.status == ENDING:
                raise Ended("it does not go on")
            over = False
            with self._changing(one) as tx:
                if status == RUNNING and one.status == PAUSED:
                    check_room(tx, one.population, one.config.share, number)
                    if (period := self.latest(tx, one.population, one.people)) <= one.frozen:
                        raise Frozen("it goes on in the next period")
                    over = period > one.period
                if not over:
                    _write_status(tx, one, status)
            if over:
                if closed := self._close(one, over=True):
                    self._aggregate(one, closed, last=True)
                self._new_epoch(one)

    def change_items(self, number: int, add: list[str], retire: list[str]) -> None:
        """Another catalogue: blocks that wait are invalidated, and new ones allocated from it."""
        with self._taken(number) as one, self._changing(one) as tx:
            if one.status == ENDING:
                raise Ended("nothing more is shown")
            one.learning.change_items(add, retire)
            tx.do(
                "UPDATE block SET state = ?, closed_at = ? WHERE experiment = ? AND epoch = ? AND state = ?",
                *(OPEN, tx.now(), one.id, one.epoch, ALLOCATED),
            )
            write_items(tx, one)
            self._save(tx, one, self._allocated(one, {}))

    def end(self, number: int) -> tuple[str, bool]:
        """End an experiment: (its status now, whether its share of this period was given back).

        Where nothing was released in this period, what waits is dropped, and its charges are void: nothing
        that anybody has seen depends on this period's outcomes. Elsewhere what waits is still learned and
        released (`ENDING`), for it was paid for. In neither case is a later period charged. What was frozen
        gets nothing back: nobody knows what was released.
        """
        with self._taken(number) as one, self._changing(one) as tx:
            ordered = "SELECT first, state FROM block WHERE experiment = ? ORDER BY epoch, first"
            states = {state for _, state in tx.locked(ordered, number)}
            frozen = one.status == FROZEN
            void = not one.used and not frozen
            if void:
                rows = tx.all("SELECT version, people FROM charge WHERE experiment = ?", number)
                tx.many(
                    "UPDATE charge SET void = 1 WHERE population = ? AND version = ?",
                    [
                        (one.population, version)
                        for version, people in rows
                        if json.loads(people)[0] == one.period
                    ],
                )
            if void or frozen or not states - {ALLOCATED}:
                status = self._finished(tx, one)
            else:
                status = ENDING
                tx.do("DELETE FROM block WHERE experiment = ? AND state = ?", number, ALLOCATED)
                tx.do("UPDATE experiment SET status = ? WHERE id = ?", status, number)
        self.forget(number)
        reach("ended")
        self.store.scrub()
        return status, void

    def _finish(self, one: Experiment) -> bool:
        """What is ending has ended, once nothing waits; whether that is so."""
        with self._changing(one) as tx:
            if tx.locked("SELECT first FROM block WHERE experiment = ? ORDER BY epoch, first", one.id):
                return False
            self._finished(tx, one)
        self.forget(one.id)
        self.store.scrub()
        return True

    def _finished(self, tx: Transaction, one: Experiment) -> str:
        """Nothing private is left of it: releases, charges and the catalogue stay."""
        for table in ("outcome", "block", "request", "private_state"):
            tx.do(f"DELETE FROM {table} WHERE experiment = ?", one.id)
        tx.do("UPDATE experiment SET status = ? WHERE id = ?", ENDED, one.id)
        return ENDED

    def delete(self, number: int) -> None:
        """Delete an experiment of which nobody ever had a decision (`InUse`), as if it had not been."""
        with self._taken(number) as one, self._changing(one) as tx:
            blocks = tx.locked(
                "SELECT first, count, state FROM block WHERE experiment = ? ORDER BY epoch, first", number
            )
            fresh = all(state == ALLOCATED for *_, state in blocks)
            used = one.status == FROZEN or one.seq or one.used or not fresh
            if used or sum(b[1] for b in blocks) != one.next_sequence:
                raise InUse("decisions were asked for")
            tx.do("UPDATE charge SET void = 1 WHERE experiment = ?", number)
            for table in ("item", "block", "request", "private_state", "lease", "webhook"):
                tx.do(f"DELETE FROM {table} WHERE experiment = ?", number)
            tx.do("DELETE FROM experiment WHERE id = ?", number)
        self.forget(number)

    def delete_population(self, name: str) -> None:
        """Delete a population about which no experiment ever was, or none that was not deleted (`InUse`)."""
        with self.store.transaction() as tx:
            found = tx.locked("SELECT id FROM population WHERE name = ?", name)
            if not found:
                raise LookupError("population")
            ((number,),) = found
            if tx.one("SELECT 1 FROM experiment WHERE population = ?", number) or tx.one(
                "SELECT 1 FROM charge WHERE population = ? AND void = 0", number
            ):
                raise InUse("there were experiments about them")
            for table in ("charge", "visit", "erased"):
                tx.do(f"DELETE FROM {table} WHERE population = ?", number)
            tx.do("DELETE FROM population WHERE id = ?", number)

    def forget_people(self) -> None:
        """Drop pseudonyms of periods that are over for everybody; also where no experiment goes on."""
        with self.store.transaction() as tx:
            for number, config in tx.locked("SELECT id, config FROM population ORDER BY id"):
                forget_people(tx, number, self.latest(tx, number, PopulationConfig.read(config)))
        self.store.scrub()  # also of what was deleted while somebody was reading, such as a backup

    def erase(self, name: str, pseudonym: Callable[[int, str], bytes]) -> None:
        """Forget what waits to be learned about somebody, and learn nothing of them again in this period.

        ``pseudonym`` tells theirs for a population and a period. Their decisions are rounds as before, in
        which nothing was taken: that they were erased is seen nowhere. What was released about them stays: it
        has been paid for. A pseudonym is kept, which is theirs alone as long as the key of pseudonyms is.
        """
        with self.store.transaction() as tx:  # first: what is aggregated from then on has nothing of them
            found = tx.one("SELECT id, config FROM population WHERE name = ?", name)
            if found is None:
                raise LookupError("population")
            population, people = int(found[0]), PopulationConfig.read(found[1])
            past = tx.all("SELECT period FROM experiment WHERE population = ?", population)
            now = {self.period(people), self.latest(tx, population, people)}
            periods = sorted(now | {one for (one,) in past})  # not all have gone on yet
            pseudonyms = [(population, period, pseudonym(population, period)) for period in periods]
            tx.many("INSERT INTO erased VALUES (?, ?, ?) ON CONFLICT DO NOTHING", pseudonyms)
        with self.store.transaction() as tx:
            rows = tx.locked(  # before outcomes, as workers do, which delete them
                "SELECT experiment FROM lease WHERE experiment IN"
                " (SELECT id FROM experiment WHERE population = ?) ORDER BY experiment",
                population,
            )
            # Who has read outcomes reads again; all of them, or the log would tell that there were some.
            self.store.fence_off(tx, [number for (number,) in rows])
            for *_, one in pseudonyms:
                tx.do("UPDATE outcome SET body = NULL WHERE pseudonym = ?", one)
        self.store.scrub()

    def beyond(self, number: int, epoch: int, sequence: int) -> bool:
        """Whether this store has not allocated a decision yet: its state has gone back, unnoticed.

        Nor of what is frozen, nor of experiments that are not there where it is known that some were lost.
        """
        with self.store.transaction() as tx:
            row = tx.one("SELECT epoch, next_sequence, status FROM experiment WHERE id = ?", number)
            if row is None:
                return not _was_restored(tx)
        return row[2] != FROZEN and (epoch, sequence) >= (row[0], row[1])


def _write_status(tx: Transaction, one: Experiment, status: str) -> None:
    tx.do("UPDATE experiment SET status = ?, resumes = 1 WHERE id = ?", status, one.id)
    one.status = status


def forget_people(tx: Transaction, population: int, now: str) -> None:
    """Nobody's pseudonym outlives the period in which it counts: it is over, and nothing of it waits.

    Where one was dropped, no experiment goes on in an earlier period, even if the clock was wrong
    (`Worker.latest`).
    """
    tx.do(  # sticky sets, which nobody asks for in another epoch
        "DELETE FROM request WHERE at > ? AND experiment IN (SELECT e.id FROM experiment e"
        " WHERE e.population = ? AND (e.epoch <> request.epoch OR (e.period <> ? AND e.status <> ?"
        " AND NOT EXISTS (SELECT 1 FROM block b WHERE b.experiment = e.id AND b.epoch = e.epoch))))",
        *(tx.now(), population, now, RUNNING),
    )
    dropped = 0
    for table in ("visit", "erased"):
        dropped += tx.do(
            f"DELETE FROM {table} WHERE population = ? AND period <> ? AND period NOT IN"
            " (SELECT e.period FROM experiment e WHERE e.population = ? AND (e.status = ?"
            " OR EXISTS (SELECT 1 FROM block b WHERE b.experiment = e.id AND b.epoch = e.epoch)))",
            *(population, now, population, RUNNING),
        )
    if dropped:
        tx.do("UPDATE population SET forgot = ? WHERE id = ? AND forgot < ?", now, population, now)


def audit(tx: Transaction, action: str, key: str = "") -> None:
    """Who did what, without what it was done to: names of people never get here."""
    tx.do("INSERT INTO audit (at, api_key, action) VALUES (?, ?, ?)", tx.now(), key, action)


def _was_restored(tx: Transaction) -> bool:
    """Whether an older state was ever put in this store's place."""
    return tx.one("SELECT 1 FROM restored LIMIT 1") is not None


def periods_of(store: Database, population: int) -> Periods:
    """The accounts of a population, period by period."""
    with store.transaction() as tx:
        (config,) = tx.one("SELECT config FROM population WHERE id = ?", population)
        people = PopulationConfig.read(config)
        return Periods(people.budget, PopulationLedger(tx, population, 0), definition=people.definition)


def linked(chain: bytes, payload: str) -> bytes:
    """The next link of a chain of releases: it names everything that was released before."""
    return hashlib.sha256(chain + payload.encode()).digest()
