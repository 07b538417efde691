"""The worker of experiments: allocates blocks, closes them, aggregates their outcomes, begins new epochs.

A block is closed first, and accepts no outcomes from then on. Its outcomes are read and learned from in
memory. The release, its charge, the new state, the deletion of the raw rows and the next blocks are then
committed in one transaction. Nothing that follows from a release is served before that commit. If the
transaction fails, or its result is unknown, the in-memory state is discarded and read again.

`PopulationLedger` buffers what gates append until that transaction: no charge is stored without its release,
and no release without its charge.
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
    Database,
    Ended,
    Fenced,
    Frozen,
    StoreError,
    Transaction,
    reach,
)
from .learning import DecisionBlock, Learning, check, check_people

# The outcomes of a block. Its requests are read as one range, because SQLite would read all requests of the
# experiment for each outcome if they were looked up separately.
REPORTED = (
    "SELECT o.sequence, o.altered, CASE WHEN EXISTS (SELECT 1 FROM erased e"
    " WHERE e.population = ? AND e.period = ? AND e.pseudonym = o.pseudonym)"
    " THEN NULL ELSE o.body END FROM outcome o"
    " WHERE o.experiment = ? AND o.epoch = ? AND o.sequence >= ? AND o.sequence < ?"
    " AND o.sequence NOT IN (SELECT r.sequence FROM request r WHERE r.experiment = ? AND r.epoch = ?"
    " AND r.sequence >= ? AND r.sequence < ? AND r.active = 0)"
)
# Whether a deferred activation came is as private as an outcome, and forgotten with it: all become active.
_DEFERRED = "SELECT experiment, id FROM request WHERE active = 0 AND experiment = ? AND epoch = ?"
_ACTIVATE = "UPDATE request SET active = 1 WHERE experiment = ? AND id = ?"


class PopulationLedger:
    """The charges of a population when it was read, and those appended since, which `flush` writes.

    Charges that were given back (``void``) are left out. Their versions are not used again.

    The store ensures that one worker at a time works for an experiment. Only owners of that ``experiment``
    can be resumed here; an experiment that is being created gets its number before `flush`. The state of an
    owner is committed with its releases, so the state in the database is always the latest.
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
        self._last = len(rows)  # versions start at 1 and have no gaps
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
        """The charges after version ``since``."""
        return self._charges[since:]

    def append(self, charge: Charge, *, expected_version: int) -> None:
        if expected_version != self.version:
            raise LedgerConflict(f"the ledger is at version {self.version}, not {expected_version}")
        self._charges.append(charge)
        if charge.owner is not None:
            self._used.add(charge.owner)

    def agree(self, terms: Mapping[str, Any]) -> None:
        """Refuse terms (a budget, a privacy definition) that differ from those of the first gate."""
        self._terms = agreed(self._terms, terms)

    @property
    def caveats(self) -> tuple[str, ...]:
        return tuple(self._caveats)

    def add_caveats(self, *sentences: str) -> None:
        self._caveats += [sentence for sentence in sentences if sentence not in self._caveats]

    def take_up(self, owner: str, number: int) -> None:
        """Resume an owner of this experiment with its charges; the lease excludes other workers."""
        check_can_resume(number, (0, False) if owner in self._known else None, owner in self._used)
        self._used.add(owner)

    def note(self, owner: str, number: int, *, finished: bool = False) -> None:
        """Do nothing: a state is committed with its charges, so it is never older than they are."""

    def unfinished(self) -> list[Charge]:
        """None: what was charged in a period is released before the next one begins (`Worker`)."""
        return []

    def check_open(self) -> None:
        """Do nothing: this ledger is never closed."""

    # --- the transaction -------------------------------------------------------------------------

    def flush(self, tx: Transaction) -> None:
        """Write what was appended; `StoreError`, to try again, if others were charged in the meantime.

        The transaction has locked the population if there is anything to write (`Worker._check_latest`).
        """
        rows, known = [], self._last
        for people, entry, count, owner in self._charges[self._flushed :]:
            self._last += 1
            said = json.dumps(people), entry.label, json.dumps(entry.event.to_json())
            sequence = self._population, self._last, self.experiment
            rows.append((*sequence, *said, int(entry.disjoint), str(count), owner))
        if rows and tx.one("SELECT count(*) FROM charge WHERE population = ?", self._population) != (known,):
            raise StoreError("others were charged at the same time")
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


# Bounds in seconds on how long a block should last: long enough to write the next one, short enough to be
# learned from soon. And the most decisions of a block whose size is chosen in this way.
_SHORT, _LONG, _LARGE = 1.0, 4.0, 4096
# Caveats of accounts: what they assume in addition to the budget.
PUBLIC = (
    "which decisions there were, when and for whom, is public: what one person's outcomes tell is protected"
)
UNCHECKED = "decisions need not say whom they are for: how often somebody counts is declared, and not checked"
RESTORED = (
    "the service's store was restored from a backup: releases made after that backup are not in this account"
)
# An experiment that is ending still accepts outcomes of its decisions, and releases what it learns from them.
RUNNING, PAUSED, FROZEN, ENDING, ENDED = "running", "paused", "frozen", "ending", "ended"
PERIODS = {"day": "%Y-%m-%d", "week": "%G-W%V", "month": "%Y-%m", "none": "all"}  # formats of their names
AHEAD = 2  # blocks of a segment that wait to be served


class OtherSegments(ValueError):
    """The segments differ from those of another experiment about the same population."""


class ShareUnavailable(Exception):
    """The share exceeds what other continuing experiments about the same people have left unreserved."""

    def __init__(self, left: float) -> None:
        super().__init__(f"other experiments have reserved all but {left:g} of every period's budget")
        self.left = left


class InUse(Exception):
    """The experiment or population was used: it can be ended, but not deleted."""


@dataclass
class Pace:
    """The size of blocks, by how fast the last ones were used up: decisions and the clock are public."""

    block: int = 8  # number of decisions of the next one
    allocated_at: float = -math.inf

    def next(self, blocks: int) -> int:
        """The size of each of these ``blocks``, which are allocated now."""
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
    """A row of the table of experiments, with its ledger and learner in a worker's memory."""

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
    frozen: str  # its people's period in which, and before which, no experiment or epoch begins
    resumes: bool  # whether it continues by itself once it is no longer frozen
    used: int  # served decisions of this epoch in blocks that were aggregated
    ledger: PopulationLedger = field(repr=False)
    learning: Learning = field(repr=False)
    fence: int = -1  # until a worker has it
    paces: dict[str, Pace] = field(default_factory=dict)  # by segment


def gate_of(
    people: PopulationConfig, config: ExperimentConfig, ledger: PopulationLedger, period: str, epoch: int
) -> Gate:
    seed = None if config.seed is None else config.seed + epoch
    return Periods(people.budget, ledger, definition=people.definition).gate(period, seed)


def read_experiment(tx: Transaction, number: int) -> Experiment:
    """The experiment of this number, as the database has it."""
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
    """Refuse segments that differ from those of another experiment about the same people.

    The account takes the worst segment, which requires disjoint segments; those of two divisions overlap.
    """
    for (other,) in tx.all("SELECT config FROM experiment WHERE population = ?", population):
        segments = ExperimentConfig.read(other).segments
        if config.segments and segments and set(segments) != set(config.segments):
            raise OtherSegments("segments must be those of the population's other experiments, or none")


def check_room(tx: Transaction, population: int, share: float, number: int = 0) -> None:
    """Refuse a share beyond what experiments that continue in the next period leave (`ShareUnavailable`).

    A gate only sees what was charged: when a period has just begun, other experiments are not charged in it
    yet. Experiments that were paused or have ended are not charged in it at all, and are not counted here.
    """
    tx.locked("SELECT id FROM population WHERE id = ?", population)  # one such check at a time
    rows = tx.all(
        "SELECT config FROM experiment WHERE population = ? AND id <> ?"
        " AND (status = ? OR (status = ? AND resumes = 1))",
        *(population, number, RUNNING, FROZEN),
    )
    left = 1 - sum(exact(ExperimentConfig.read(config).share) for (config,) in rows)
    if exact(share) > left:
        raise ShareUnavailable(float(left))


def write_items(tx: Transaction, one: Experiment) -> None:
    """Write the catalogue: numbers, labels, and whether an item was retired."""
    shown = set(one.learning.active)
    labels = enumerate(one.learning.labels)
    tx.do("UPDATE experiment SET catalogue = catalogue + 1 WHERE id = ?", one.id)
    tx.do("DELETE FROM item WHERE experiment = ?", one.id)
    rows = [(one.id, number, label, int(number not in shown)) for number, label in labels]
    tx.many("INSERT INTO item VALUES (?, ?, ?, ?)", rows)


class Worker:
    """Allocates blocks and aggregates outcomes for every experiment whose lease it holds."""

    def __init__(self, store: Database, holder: str = "only", clock: Any = None) -> None:
        self.store, self.holder = store, holder
        self.clock = clock or (lambda: datetime.datetime.now(datetime.UTC))
        self._kept: dict[int, Experiment] = {}
        self._turn = threading.RLock()  # one thread at a time changes `_kept`

    def period(self, people: PopulationConfig) -> str:
        """The name of the current period; names of later periods are greater."""
        return str(self.clock().strftime(PERIODS[people.period]))

    def latest(self, tx: Transaction, population: int, people: PopulationConfig) -> str:
        """The current period, or a later one that began because a clock was ahead.

        A period that has begun is not left for an earlier one. Nor is a period for which earlier pseudonyms
        were dropped: there would be no record of who has been counted, or was erased, in an earlier one.
        """
        (begun,) = tx.one("SELECT max(period) FROM experiment WHERE population = ?", population)
        (forgot,) = tx.one("SELECT forgot FROM population WHERE id = ?", population)
        return max(self.period(people), begun or "", str(forgot))

    def _check_latest(self, tx: Transaction, population: int, people: PopulationConfig, period: str) -> None:
        """Refuse a period that is over or frozen by now. Until the commit nobody is forgotten or erased."""
        ((frozen,),) = tx.locked("SELECT frozen FROM population WHERE id = ?", population)
        if frozen >= period:
            raise Frozen("what was spent in this period is not known")
        if self.latest(tx, population, people) != period:
            raise Fenced("another period has begun meanwhile")

    # --- populations and experiments -------------------------------------------------------------

    def create_population(self, name: str, config: PopulationConfig) -> int:
        _ = config.budget  # refuses invalid values
        with self.store.transaction() as tx:
            # A lost population may have held the same people and spent budget in this period.
            now, known = self.period(config), tx.all("SELECT period FROM restored")  # days, weeks and months
            lost = any(len(one) == len(now) and one >= now for (one,) in known)
            row = (name, config.text, json.dumps([RESTORED] if lost else []))
            tx.do("INSERT INTO population (name, config, caveats) VALUES (?, ?, ?)", *row)
            return int(tx.one("SELECT id FROM population WHERE name = ?", name)[0])

    def create(self, name: str, population: str, config: ExperimentConfig) -> Experiment:
        """Create an experiment, which reserves its share of the budget, and its first blocks."""
        check(config)
        with self.store.transaction() as tx:
            found = tx.one("SELECT id, config, frozen FROM population WHERE name = ?", population)
            if found is None:
                raise LookupError("population")
            whose, people, frozen = int(found[0]), PopulationConfig.read(found[1]), found[2]
            ledger = PopulationLedger(tx, whose, 0)
            check_division(tx, whose, config)
            # After a restore, a number that no lost epoch had.
            epoch = int(self.clock().timestamp()) if _was_restored(tx) else 0
            period = self.latest(tx, whose, people)
        if frozen >= period:  # greater if the clock is behind
            raise Frozen("what was spent in this period is not known")
        check_people(config, people)
        ledger.add_caveats(PUBLIC, *([UNCHECKED] if people.anonymous else []))
        learning = Learning.begin(config, gate_of(people, config, ledger, period, epoch))
        with self.store.transaction() as tx:
            check_room(tx, whose, config.share)
            self._check_latest(tx, whose, people, period)
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
            made.fence = 0  # that of the first worker; if another one is first, `_fenced` notices it
            self._kept[made.id] = made  # before it is committed, and others can change it
        return made

    def experiment(self, number: int) -> Experiment:
        """The experiment as this worker has it in memory, read from the database if it is not there."""
        if number not in self._kept:
            with self.store.transaction() as tx:
                self._kept[number] = read_experiment(tx, number)
        return self._kept[number]

    def forget(self, number: int) -> None:
        """Discard the in-memory copy; the database is authoritative."""
        self._kept.pop(number, None)

    def forget_all(self) -> None:
        """Discard all in-memory copies as soon as no thread works with them."""
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
        for number in self._kept.keys() - {number for number, status, *_ in rows if status != ENDED}:
            self.forget(number)  # another process has ended or deleted it
        found = []
        for number, status, period, people, frozen, queues, waiting, closing, blocks in rows:
            over = period < (now := self.period(PopulationConfig.read(people)))
            if status == FROZEN:
                due = over and frozen < now
            elif status == RUNNING:
                due = over or closing or waiting < AHEAD * queues
            elif status == ENDING:
                due = over or closing or not blocks
            else:  # paused: blocks are still learned from when their time, or their period, is over
                due = closing or (over and blocks)
            if due:
                found.append(number)
        return found

    # --- a step ----------------------------------------------------------------------------------

    def tick(self, number: int) -> bool:
        """Do what is due for an experiment; returns whether anything was done."""
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
        """The experiment under this fence; read again, with its lease locked, if the fence has changed.

        A transaction whose result is unknown holds that lock until it ends, so this read sees its result.
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
        """A transaction that is refused (`Fenced`) if another worker has taken over."""
        with self.store.transaction() as tx:
            self.store.check_fence(tx, one.id, self.holder, one.fence)
            yield tx

    def _step(self, one: Experiment) -> bool:
        """Do what is due next for an experiment; returns whether anything was done."""
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
        if one.status != RUNNING:  # paused: a period in which it does not run is not charged
            return over
        return self._begin_again(one) if over else self._allocate_more(one)

    def _begin_again(self, one: Experiment) -> bool:
        """Begin a new epoch; pause the experiment if others have spent the budget of the period."""
        try:
            self._new_epoch(one)
            return True
        except BudgetExceeded:
            with self.store.transaction() as tx:
                audit(tx, "paused: the budget of this period has no room for its share")
            self.forget(one.id)  # the epoch that was begun in memory
            return self._set(self._fenced(one.id, one.fence), PAUSED)

    def _set(self, one: Experiment, status: str) -> bool:
        with self._changing(one) as tx:
            _write_status(tx, one, status)
        return True

    def _close(self, one: Experiment, *, over: bool) -> list[DecisionBlock]:
        """Close blocks whose time is over; returns closed blocks to aggregate, also from before a crash.

        If the period is ``over``, all leased blocks are closed: acknowledged outcomes are learned in the
        epoch that has paid for them. Later decisions of such blocks do not count, as after a crash.
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
        # In order: a block waits until the earlier blocks of its segment are closed.
        return [block for block in blocks if block.first < open_before.get(block.segment, math.inf)]

    def _aggregate(self, one: Experiment, blocks: list[DecisionBlock], *, last: bool) -> None:
        """Learn from closed blocks, and commit the releases and what follows from them."""
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
        # Unleased blocks are replaced by ones that show the new release, unless they hold allocated rounds.
        again = [] if one.learning.ahead else aggregated
        allocated = [] if last else self._allocated(one, waiting | dict.fromkeys(again, 0))
        reach("noise drawn")
        epoch = one.id, one.epoch
        with self._changing(one) as tx:
            deferred: list[Any] = []
            for block in blocks:
                tx.do(
                    "DELETE FROM outcome WHERE experiment = ? AND epoch = ? AND sequence >= ?"
                    " AND sequence < ?",
                    *(*block.key, block.end),
                )
                tx.do("DELETE FROM block WHERE experiment = ? AND epoch = ? AND first = ?", *block.key)
                if one.config.feedback == "bandit":  # no others can defer
                    within = f"{_DEFERRED} AND sequence >= ? AND sequence < ?"
                    deferred += tx.all(within, *block.key, block.end)
            if deferred:
                tx.many(_ACTIVATE, sorted(deferred))
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
        """The outcomes of a block, as `Learning.aggregate` takes them.

        Outcomes of erased people are empty. A decision with deferred activation that was never activated
        counts as "took nothing", whatever was reported: whether somebody has seen a set is as private as its
        outcome, so the decision stays a round, and activation changes one person's contribution only.
        """
        rows = tx.all(REPORTED, *(one.population, one.period, *block.key, block.end, *block.key, block.end))
        return {
            sequence: (bool(altered), None if body is None else bytes(body))
            for sequence, altered, body in rows
        }

    def _allocate_more(self, one: Experiment) -> bool:
        """Allocate blocks where too few wait to be served; returns whether there were any to allocate."""
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
        """Begin an epoch of a new period: a new budget, and a new learner with the last one's releases."""
        old, last = one.learning, one.epoch
        known = {
            segment: released.discounted(one.config.warm_start) for segment, released in old.released.items()
        }
        with self.store.transaction() as tx:
            one.ledger = PopulationLedger(tx, one.population, one.id)
            restored = _was_restored(tx)
            period = self.latest(tx, one.population, one.people)
        one.epoch, one.period, one.next_sequence = last + 1, period, 0
        if restored:  # a number that no lost epoch had
            one.epoch = max(one.epoch, int(self.clock().timestamp()))
        # If there were candidates, the active items are those and items that were added since.
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
            self._check_latest(tx, one.population, one.people, one.period)
            tx.do("DELETE FROM outcome WHERE experiment = ? AND epoch = ?", one.id, last)
            tx.do("DELETE FROM block WHERE experiment = ? AND epoch = ?", one.id, last)
            tx.many(_ACTIVATE, sorted(tx.all(_DEFERRED, one.id, last)))
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
        """Allocate, in memory, the next blocks of segments that have too few ``waiting``."""
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
        """Append a link to the chain of releases; returns (number, segment, payload, chain)."""
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
        """Write charges, ``releases``, new blocks and the experiment's state, in the caller's transaction."""
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

    # --- operators' requests ---------------------------------------------------------------------

    @contextmanager
    def _taken(self, number: int) -> Iterator[Experiment]:
        """The experiment, whose lease is taken over; its in-memory copy is discarded on any error."""
        with self._turn:
            fence = self.store.lease(number, self.holder, force=True)
            assert fence is not None
            try:
                yield self._fenced(number, fence)
            except BaseException:
                self.forget(number)
                raise

    def set_status(self, number: int, status: str) -> None:
        """Pause or resume; refused for an experiment that is frozen (until the next period) or ending.

        Periods that begin while an experiment is paused are not charged. If one has begun, resuming begins a
        new epoch, which reserves its share, or is refused (`BudgetExceeded`, `ShareUnavailable`).
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
        """Change the catalogue: waiting blocks are invalidated, and new ones allocated from it."""
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
        """End an experiment; returns its status and whether its share of this period was given back.

        If nothing was learned in this period, waiting outcomes are dropped and its charges become void:
        nothing that was released depends on this period's outcomes. Otherwise waiting outcomes are still
        learned from and released (`ENDING`), for that was paid for. In neither case is a later period
        charged. A frozen experiment gets nothing back: what it has released is unknown.
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
        """Mark an ending experiment as ended once no block is left; returns whether that was done."""
        with self._changing(one) as tx:
            if tx.locked("SELECT first FROM block WHERE experiment = ? ORDER BY epoch, first", one.id):
                return False
            self._finished(tx, one)
        self.forget(one.id)
        self.store.scrub()
        return True

    def _finished(self, tx: Transaction, one: Experiment) -> str:
        """Mark it as ended and delete its private rows; releases, charges and the catalogue stay."""
        for table in ("outcome", "block", "request", "private_state"):
            tx.do(f"DELETE FROM {table} WHERE experiment = ?", one.id)
        tx.do("UPDATE experiment SET status = ? WHERE id = ?", ENDED, one.id)
        return ENDED

    def delete(self, number: int) -> None:
        """Delete an experiment, and void its charges; refused (`InUse`) once decisions were asked for."""
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
        """Delete a population; refused (`InUse`) unless all of its experiments, if any, were deleted."""
        with self.store.transaction() as tx:
            if not (found := tx.locked("SELECT id FROM population WHERE name = ?", name)):
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
        """Drop pseudonyms of periods that no experiment needs, also of populations where none runs."""
        with self.store.transaction() as tx:
            for number, config in tx.locked("SELECT id, config FROM population ORDER BY id"):
                forget_people(tx, number, self.latest(tx, number, PopulationConfig.read(config)))
        self.store.scrub()  # also rows that were deleted while a reader, such as a backup, was open

    def erase(self, name: str, *whose: Callable[[int, str], bytes]) -> None:
        """Delete outcomes of people that were not learned from yet; ignore later ones of this period.

        ``whose`` give each person's pseudonym for a population and a period. Their decisions stay rounds, in
        which nothing was taken, so no release shows that they were erased. What was released about them
        stays: it has been paid for. Their pseudonyms are kept; linking them to people takes the pseudonym
        key. All of them are erased at once, as every worker has to begin its step again.
        """
        with self.store.transaction() as tx:  # first: later aggregation sees nothing of them
            if not (found := tx.locked("SELECT id, config FROM population WHERE name = ?", name)):
                raise LookupError("population")
            population, people = int(found[0][0]), PopulationConfig.read(found[0][1])
            past = tx.all("SELECT period FROM experiment WHERE population = ?", population)
            now = {self.period(people), self.latest(tx, population, people)}
            periods = sorted(now | {one for (one,) in past})  # experiments may still be in earlier periods
            rows = {(population, period, one(population, period)) for period in periods for one in whose}
            tx.many("INSERT INTO erased VALUES (?, ?, ?) ON CONFLICT DO NOTHING", sorted(rows))
        with self.store.transaction() as tx:
            leases = tx.locked(  # before outcomes, in the order of workers, which delete them
                "SELECT experiment FROM lease WHERE experiment IN"
                " (SELECT id FROM experiment WHERE population = ?) ORDER BY experiment",
                population,
            )
            # Workers that have read outcomes read again. All are fenced off; otherwise the log would show
            # whether there were outcomes of this person.
            self.store.fence_off(tx, [number for (number,) in leases])
            theirs = "pseudonym IN (SELECT e.pseudonym FROM erased e WHERE e.population = ?)"
            deferred = tx.all(f"SELECT experiment, id FROM request WHERE active = 0 AND {theirs}", population)
            tx.many(_ACTIVATE, sorted(deferred))
            tx.do(f"UPDATE outcome SET body = NULL WHERE body IS NOT NULL AND {theirs}", population)
        self.store.scrub()

    def beyond(self, number: int, epoch: int, sequence: int) -> bool:
        """Whether this store never allocated the decision, which means that an older state was restored.

        False where that is known already: for an experiment that is in a frozen period, even if it was ended
        or is paused since, or one that a restored store lacks.
        """
        with self.store.transaction() as tx:
            row = tx.one(
                "SELECT e.epoch, e.next_sequence, e.period, p.frozen FROM experiment e"
                " JOIN population p ON p.id = e.population WHERE e.id = ?",
                number,
            )
            if row is None:
                return not _was_restored(tx)
        last, next_sequence, period, frozen = row
        return bool(period > frozen and (epoch, sequence) >= (last, next_sequence))


def _write_status(tx: Transaction, one: Experiment, status: str) -> None:
    tx.do("UPDATE experiment SET status = ?, resumes = 1 WHERE id = ?", status, one.id)
    one.status = status


def forget_people(tx: Transaction, population: int, now: str) -> None:
    """Drop pseudonyms of periods other than ``now`` in which no experiment runs or has blocks left.

    Once any was dropped, no experiment goes back to an earlier period, even if the clock was wrong
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
    """Log who did what. ``action`` never holds names of people."""
    tx.do("INSERT INTO audit (at, api_key, action) VALUES (?, ?, ?)", tx.now(), key, action)


def _was_restored(tx: Transaction) -> bool:
    """Whether this store was ever replaced by an older state."""
    return tx.one("SELECT 1 FROM restored LIMIT 1") is not None


def periods_of(store: Database, population: int) -> Periods:
    """The accounts of a population, period by period."""
    with store.transaction() as tx:
        (config,) = tx.one("SELECT config FROM population WHERE id = ?", population)
        people = PopulationConfig.read(config)
        return Periods(people.budget, PopulationLedger(tx, population, 0), definition=people.definition)


def linked(chain: bytes, payload: str) -> bytes:
    """The next link of a chain of releases: a hash of this payload and, by ``chain``, of all earlier ones."""
    return hashlib.sha256(chain + payload.encode()).digest()
