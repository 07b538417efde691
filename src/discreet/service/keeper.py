"""The keeper of experiments: deals hands, closes them, folds what came of them, begins new epochs.

A hand is closed first, and takes no outcomes from then on. Its outcomes are read and learned from in memory.
What was released, what it cost, the new state, the deletion of the raw rows and the next hands are then
committed together. Nothing that follows from a release is served before that. If the transaction fails, or
its end is not known, memory is dropped and read again.
"""

from __future__ import annotations

import datetime
import json
import math
import time
from dataclasses import dataclass, field
from typing import Any

import msgspec

from ..online.released import Released
from ..privacy import Account, Budget
from ..privacy.population import Periods
from . import failpoints
from .config import ExperimentConfig, PopulationConfig, encoded
from .hands import CLOSING, DEALT, FOLDED, OPEN, Hand, linked
from .learning import Learning
from .ledger import PopulationLedger
from .store import Store, Transaction

RUNNING, PAUSED, FROZEN = "running", "paused", "frozen"
AHEAD = 2  # hands that wait to be served
# A hand is to last about so many seconds: long enough to write the next one, short enough to learn from soon.
_SHORT, _LONG, _SMALL, _LARGE = 1.0, 4.0, 8, 4096


@dataclass
class Experiment:
    """A row of the table of experiments, and what a keeper holds of it in memory."""

    id: int
    population: int
    name: str
    config: ExperimentConfig
    people: PopulationConfig
    status: str
    epoch: int
    period: str
    next_place: int
    seq: int
    chain: bytes
    learning: Learning | None = field(default=None, repr=False)
    fence: int = 0
    hand: int = _SMALL
    dealt_at: float = -math.inf


class _Wait(msgspec.Struct):
    """The part of an `ExperimentConfig` that is asked for often."""

    outcome_wait: float


class Keeper:
    """The one who deals and folds, for every experiment of which it has the lease."""

    def __init__(self, store: Store, holder: str = "only", clock: Any = None) -> None:
        self.store, self.holder = store, holder
        self._clock = clock or (lambda: datetime.datetime.now(datetime.UTC))
        self._kept: dict[int, Experiment] = {}

    # --- populations and experiments -------------------------------------------------------------

    def create_population(self, name: str, config: PopulationConfig) -> int:
        """People with a budget of their own."""
        budget_of(config)
        with self.store.transaction() as tx:
            tx.do("INSERT INTO population (name, config) VALUES (?, ?)", name, encoded(config))
            return int(tx.one("SELECT id FROM population WHERE name = ?", name)[0])

    def create(self, name: str, population: str, config: ExperimentConfig) -> Experiment:
        """A new experiment, which reserves its share of the budget, and its first hands."""
        with self.store.transaction() as tx:
            found = tx.one("SELECT id, config FROM population WHERE name = ?", population)
            if found is None:
                raise LookupError("population")
            people = msgspec.json.decode(found[1], type=PopulationConfig)
            period = self.period(people)
            row = (int(found[0]), name, encoded(config), RUNNING, 0, period, 0, 0, b"", tx.now())
            tx.do(
                "INSERT INTO experiment (population, name, config, status, epoch, period, next_place, seq,"
                f" chain, created) VALUES ({', '.join('?' * len(row))})",
                *row,
            )
            number = int(tx.one("SELECT id FROM experiment WHERE name = ?", name)[0])
            made = Experiment(
                number,
                row[0],
                name,
                config,
                people,
                RUNNING,
                0,
                period,
                0,
                0,
                linked(b"", f"experiment {number}"),
            )
            made.fence = self.store.lease(number, self.holder) or 0
            ledger = PopulationLedger(tx, made.population, number)
            made.learning = Learning.begin(config, self._gate(made, ledger))
            ledger.flush(tx)
            _write_items(tx, made)
            self._save(tx, made, self._dealt(made, AHEAD))
        self._kept[number] = made
        return made

    def experiment(self, number: int) -> Experiment:
        """The experiment as this keeper holds it, read from the database where it does not yet."""
        if number not in self._kept:
            with self.store.transaction() as tx:
                self._kept[number] = self._read(tx, number)
        return self._kept[number]

    def forget(self, number: int) -> None:
        """Drop what is in memory: the database is right."""
        self._kept.pop(number, None)

    def due(self) -> list[int]:
        """Experiments for which there is something to do."""
        with self.store.transaction() as tx:
            rows = tx.all(
                "SELECT e.id, e.status, e.period, p.config, e.config, e.epoch FROM experiment e"
                " JOIN population p ON p.id = e.population ORDER BY e.id"
            )
            found = []
            for number, status, period, people, config, epoch in rows:
                over = period != self.period(msgspec.json.decode(people, type=PopulationConfig))
                wait = msgspec.json.decode(config, type=_Wait).outcome_wait
                (waiting, closing) = tx.one(
                    "SELECT coalesce(sum(CASE WHEN state = ? THEN 1 ELSE 0 END), 0), coalesce(sum(CASE WHEN"
                    " state = ? OR (state = ? AND closed_at + ? <= ?) THEN 1 ELSE 0 END), 0)"
                    " FROM hand WHERE experiment = ? AND epoch = ? AND state < ?",
                    *(DEALT, CLOSING, OPEN, wait, tx.now(), number, epoch, FOLDED),
                )
                going = status != FROZEN and closing
                if over or going or (status == RUNNING and waiting < AHEAD):
                    found.append(int(number))
            return found

    # --- a step ----------------------------------------------------------------------------------

    def tick(self, number: int) -> bool:
        """Do what is due for an experiment; whether there was anything."""
        fence = self.store.lease(number, self.holder)
        if fence is None:
            self.forget(number)
            return False
        try:
            one = self.experiment(number)
            if one.fence != fence:
                self.forget(number)
                one = self.experiment(number)
                one.fence = fence
            if self.period(one.people) != one.period:
                self._new_epoch(one)
                return True
            if one.status == FROZEN:
                return False
            closed = self._close(one)
            if closed:
                self._fold(one, closed)
                return True
            return one.status == RUNNING and self._deal_more(one)
        except BaseException:
            self.forget(number)
            raise

    def _close(self, one: Experiment) -> list[Hand]:
        """Hands whose time is over, which take no more outcomes, and those of before a crash."""
        with self.store.transaction() as tx:
            self.store.check_fence(tx, one.id, self.holder, one.fence)
            tx.do(
                "UPDATE hand SET state = ? WHERE experiment = ? AND epoch = ? AND state = ?"
                " AND closed_at IS NOT NULL AND closed_at + ? <= ?",
                *(CLOSING, one.id, one.epoch, OPEN, one.config.outcome_wait, tx.now()),
            )
            rows = tx.all(
                "SELECT experiment, epoch, first, count, body, chain, served FROM hand"
                " WHERE experiment = ? AND epoch = ? AND state = ? ORDER BY first",
                *(one.id, one.epoch, CLOSING),
            )
            open_before = tx.one(
                "SELECT min(first) FROM hand WHERE experiment = ? AND epoch = ? AND state < ?",
                *(one.id, one.epoch, CLOSING),
            )[0]
        failpoints.reach("hand closed")
        hands = [Hand.read(row) for row in rows]
        # In order: a hand waits for those before it.
        return [hand for hand in hands if open_before is None or hand.first < open_before]

    def _fold(self, one: Experiment, hands: list[Hand]) -> None:
        learning = _held(one)
        first, last = hands[0].first, hands[-1].first + hands[-1].count
        where = (one.id, one.epoch, first, last)
        with self.store.transaction() as tx:
            rows = tx.all(
                "SELECT place, altered, body FROM outcome"
                " WHERE experiment = ? AND epoch = ? AND place >= ? AND place < ?",
                *where,
            )
            waiting = self._waiting(tx, one)
        failpoints.reach("outcomes read")
        outcomes = {place: (bool(altered), _bytes(body)) for place, altered, body in rows}
        for hand in hands:
            learning.fold(hand, outcomes)
        payload = self._release(one)
        # Hands that nobody has claimed show what is known now, unless rounds were dealt with them.
        dealt = self._dealt(one, AHEAD - waiting if learning.ahead else AHEAD)
        failpoints.reach("noise drawn")
        with self.store.transaction() as tx:
            self.store.check_fence(tx, one.id, self.holder, one.fence)
            tx.do(
                "DELETE FROM outcome WHERE experiment = ? AND epoch = ? AND place >= ? AND place < ?", *where
            )
            tx.do(
                "UPDATE hand SET state = ?, body = ?"
                " WHERE experiment = ? AND epoch = ? AND first >= ? AND first < ?",
                *(FOLDED, b"", *where),
            )
            if not learning.ahead:
                tx.do(
                    "UPDATE hand SET state = ?, body = ? WHERE experiment = ? AND epoch = ? AND state = ?",
                    *(FOLDED, b"", one.id, one.epoch, DEALT),
                )
            self._save(tx, one, dealt, payload)
        failpoints.reach("release committed")
        self.store.scrub()

    def _deal_more(self, one: Experiment) -> bool:
        """Hands that wait to be served, where there are too few."""
        with self.store.transaction() as tx:
            waiting = self._waiting(tx, one)
        if waiting >= AHEAD:
            return False
        dealt = self._dealt(one, AHEAD - waiting)
        with self.store.transaction() as tx:
            self.store.check_fence(tx, one.id, self.holder, one.fence)
            self._save(tx, one, dealt)
            failpoints.reach("dealt, not committed")
        failpoints.reach("hand committed")
        return True

    def _new_epoch(self, one: Experiment) -> None:
        """A new period: a new budget, and a new learner that begins with what the last one released."""
        old = _held(one)
        known: Released = old.learner.released.weakened(one.config.warm_start)
        with self.store.transaction() as tx:
            self.store.check_fence(tx, one.id, self.holder, one.fence)
            tx.do("DELETE FROM outcome WHERE experiment = ? AND epoch = ?", one.id, one.epoch)
            tx.do(
                "UPDATE hand SET state = ?, body = ? WHERE experiment = ? AND epoch = ?",
                *(FOLDED, b"", one.id, one.epoch),
            )
            one.epoch, one.period, one.next_place = one.epoch + 1, self.period(one.people), 0
            if one.status == FROZEN:
                one.status = RUNNING
                tx.do("UPDATE experiment SET status = ? WHERE id = ?", RUNNING, one.id)
            one.config = msgspec.structs.replace(
                one.config, items=[old.labels[i] for i in old.learner.ranking()]
            )
            ledger = PopulationLedger(tx, one.population, one.id)
            one.learning = Learning.begin(one.config, self._gate(one, ledger), known)
            ledger.flush(tx)
            tx.do("UPDATE experiment SET config = ? WHERE id = ?", encoded(one.config), one.id)
            _write_items(tx, one)
            payload = self._release(one)
            self._save(tx, one, self._dealt(one, AHEAD), payload)
        self.store.scrub()

    def set_status(self, number: int, status: str) -> bool:
        """Pause, go on or freeze; whether that was possible. What is frozen goes on in the next period."""
        with self.store.transaction() as tx:
            done = tx.do(
                "UPDATE experiment SET status = ? WHERE id = ? AND status <> ?", status, number, FROZEN
            )
        self.forget(number)
        return bool(done)

    def beyond(self, number: int, epoch: int, place: int) -> bool:
        """Whether a decision is one that this store has not dealt yet: then its state has gone back."""
        with self.store.transaction() as tx:
            row = tx.one("SELECT epoch, next_place FROM experiment WHERE id = ?", number)
        return row is not None and (epoch, place) >= (row[0], row[1])

    def change_items(self, number: int, add: list[str], retire: list[str]) -> None:
        """Another catalogue: hands that wait are burnt, and new ones dealt from it."""
        one = self.experiment(number)
        try:
            with self.store.transaction() as tx:
                self.store.check_fence(tx, one.id, self.holder, one.fence)
                _held(one).change_items(add, retire)
                tx.do(
                    "UPDATE hand SET state = ?, closed_at = ?"
                    " WHERE experiment = ? AND epoch = ? AND state = ?",
                    *(OPEN, tx.now(), one.id, one.epoch, DEALT),
                )
                _write_items(tx, one)
                self._save(tx, one, self._dealt(one, AHEAD))
        except BaseException:
            self.forget(number)
            raise

    # --- accounts --------------------------------------------------------------------------------

    def periods(self, population: int) -> Periods:
        """The accounts of a population, period by period."""
        with self.store.transaction() as tx:
            (config,) = tx.one("SELECT config FROM population WHERE id = ?", population)
            people = msgspec.json.decode(config, type=PopulationConfig)
            return Periods(budget_of(people), PopulationLedger(tx, population, 0), notion=people.notion)

    def account(self, population: int, period: str) -> Account:
        """What was spent in one period."""
        return self.periods(population).account(period)

    # --- inside ----------------------------------------------------------------------------------

    def period(self, people: PopulationConfig) -> str:
        """The name of the period that it is now."""
        now = self._clock()
        if people.period == "month":
            return f"{now:%Y-%m}"
        if people.period == "week":
            year, week, _ = now.isocalendar()
            return f"{year}-W{week:02}"
        return f"{now:%Y-%m-%d}" if people.period == "day" else "all"

    def _gate(self, one: Experiment, ledger: PopulationLedger) -> Any:
        seed = None if one.config.seed is None else one.config.seed + one.epoch
        periods = Periods(budget_of(one.people), ledger, notion=one.people.notion)
        return periods.gate(one.period, seed)

    def _waiting(self, tx: Transaction, one: Experiment) -> int:
        """How many hands wait to be served."""
        found = tx.one(
            "SELECT count(*) FROM hand WHERE experiment = ? AND epoch = ? AND state = ?",
            *(one.id, one.epoch, DEALT),
        )
        return int(found[0])

    def _dealt(self, one: Experiment, hands: int) -> list[Hand]:
        """The next hands, in memory."""
        made = []
        size = one.config.hand or self._paced(one, hands)
        for _ in range(hands):
            made.append(_held(one).deal(one.id, one.epoch, one.next_place, size, one.chain))
            one.next_place += size
        return made

    def _paced(self, one: Experiment, hands: int) -> int:
        """How large a hand is, by how fast the last ones were used up: decisions and the clock are public."""
        now = time.monotonic()
        lasted = (now - one.dealt_at) / max(hands, 1)
        if lasted < _SHORT:
            one.hand = min(2 * one.hand, _LARGE)
        elif lasted > _LONG:
            one.hand = max(one.hand // 2, 1)
        one.dealt_at = now
        return one.hand

    def _release(self, one: Experiment) -> str:
        """The next link of the chain of releases."""
        payload = json.dumps(_held(one).payload())
        one.seq += 1
        one.chain = linked(one.chain, payload)
        return payload

    def _save(self, tx: Transaction, one: Experiment, dealt: list[Hand], payload: str | None = None) -> None:
        """Everything that follows from what was just done, in the transaction in which it is done."""
        if payload is not None:
            tx.do(
                "INSERT INTO release (experiment, seq, epoch, at, payload, chain) VALUES (?, ?, ?, ?, ?, ?)",
                *(one.id, one.seq, one.epoch, tx.now(), payload, one.chain),
            )
        for hand in dealt:
            tx.do(
                "INSERT INTO hand (experiment, epoch, first, count, body, chain, state, served)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, 0)",
                *(one.id, one.epoch, hand.first, hand.count, hand.body(), hand.chain, DEALT),
            )
        tx.do(
            "UPDATE experiment SET epoch = ?, period = ?, next_place = ?, seq = ?, chain = ? WHERE id = ?",
            *(one.epoch, one.period, one.next_place, one.seq, one.chain, one.id),
        )
        tx.do(
            "INSERT INTO private_state (experiment, seq, body) VALUES (?, ?, ?)"
            " ON CONFLICT (experiment) DO UPDATE SET seq = excluded.seq, body = excluded.body",
            *(one.id, one.seq, _held(one).dump()),
        )

    def _read(self, tx: Transaction, number: int) -> Experiment:
        row = tx.one(
            "SELECT e.id, e.population, e.name, e.config, p.config, e.status, e.epoch, e.period,"
            " e.next_place, e.seq, e.chain, s.body FROM experiment e JOIN population p ON p.id = e.population"
            " JOIN private_state s ON s.experiment = e.id WHERE e.id = ?",
            number,
        )
        if row is None:
            raise LookupError("experiment")
        config = msgspec.json.decode(row[3], type=ExperimentConfig)
        people = msgspec.json.decode(row[4], type=PopulationConfig)
        number, population, name = row[:3]
        status, epoch, period, place, seq, chain, body = row[5:]
        one = Experiment(
            number, population, name, config, people, status, epoch, period, place, seq, bytes(chain)
        )
        gate = self._gate(one, PopulationLedger(tx, one.population, one.id))
        one.learning = Learning.load(config, gate, bytes(body))
        return one


def budget_of(people: PopulationConfig) -> Budget:
    """The budget of one period."""
    if not math.isfinite(people.epsilon):
        raise ValueError("epsilon must be a finite number")
    return Budget(people.epsilon, people.delta, people.neighbours, people.max_rounds_per_person)


def _held(one: Experiment) -> Learning:
    assert one.learning is not None
    return one.learning


def _bytes(body: Any) -> bytes | None:
    return None if body is None else bytes(body)


def _write_items(tx: Transaction, one: Experiment) -> None:
    """The catalogue: numbers, labels, and what has been retired."""
    learning = _held(one)
    shown = set(learning.learner.ranking())
    tx.do("UPDATE experiment SET catalogue = catalogue + 1 WHERE id = ?", one.id)
    tx.do("DELETE FROM item WHERE experiment = ?", one.id)
    for number, label in enumerate(learning.labels):
        tx.do("INSERT INTO item VALUES (?, ?, ?, ?)", one.id, number, label, int(number not in shown))
