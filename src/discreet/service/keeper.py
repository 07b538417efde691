"""The keeper of experiments: deals hands, closes them, folds what came of them, begins new epochs.

A hand is closed first, and takes no outcomes from then on. Its outcomes are read and learned from in memory.
What was released, what it cost, the new state, the deletion of the raw rows and the next hands are then
committed together. Nothing that follows from a release is served before that. If the transaction fails, or
its end is not known, memory is dropped and read again.
"""

from __future__ import annotations

import datetime
import json
import threading
import time
from typing import Any

import msgspec

from ..online.released import Released
from ..privacy import Account
from ..privacy.population import Periods
from . import failpoints
from .config import ExperimentConfig, PopulationConfig, encoded
from .experiments import Experiment, budget_of, gate_of, held, read, write_items
from .hands import CLOSING, DEALT, OPEN, Hand, linked
from .learning import Learning
from .ledger import PopulationLedger
from .store import Fenced, Store, Transaction, events

RUNNING, PAUSED, FROZEN = "running", "paused", "frozen"
AHEAD = 2  # hands that wait to be served
# A hand is to last about so many seconds: long enough to write the next one, short enough to learn from soon.
_SHORT, _LONG, _LARGE = 1.0, 4.0, 4096


class Keeper:
    """The one who deals and folds, for every experiment of which it has the lease."""

    def __init__(self, store: Store, holder: str = "only", clock: Any = None) -> None:
        self.store, self.holder = store, holder
        self._clock = clock or (lambda: datetime.datetime.now(datetime.UTC))
        self._kept: dict[int, Experiment] = {}
        self._turn = threading.RLock()  # what is kept is changed by one thread at a time

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
            ledger = PopulationLedger(tx, int(found[0]), 0)
        people = msgspec.json.decode(found[1], type=PopulationConfig)
        period = self.period(people)
        made = Experiment(0, int(found[0]), name, config, people, RUNNING, 0, period, 0, 0, b"", ledger)
        made.learning = Learning.begin(config, gate_of(made))
        with self.store.transaction() as tx:
            row = (made.population, name, encoded(config), RUNNING, 0, period, config.outcome_wait)
            tx.do(
                "INSERT INTO experiment (population, name, config, status, epoch, period, outcome_wait,"
                " next_place, seq, chain, created) VALUES (?, ?, ?, ?, ?, ?, ?, 0, 0, ?, ?)",
                *(*row, b"", tx.now()),
            )
            made.id = ledger.experiment = int(tx.one("SELECT id FROM experiment WHERE name = ?", name)[0])
            made.chain = linked(b"", f"experiment {made.id}")
            write_items(tx, made)
            self._save(tx, made, self._dealt(made, AHEAD))
        made.fence = 0  # of its first keeper; if that is another one, the lease will say so
        self._kept[made.id] = made
        return made

    def experiment(self, number: int) -> Experiment:
        """The experiment as this keeper holds it, read from the database where it does not yet."""
        if number not in self._kept:
            with self.store.transaction() as tx:
                self._kept[number] = read(tx, number)
        return self._kept[number]

    def forget(self, number: int) -> None:
        """Drop what is in memory: the database is right."""
        self._kept.pop(number, None)

    def due(self) -> list[int]:
        """Experiments for which there is something to do."""
        with self.store.transaction() as tx:
            rows = tx.all(
                "SELECT e.id, e.status, e.period, p.config,"
                " coalesce(sum(CASE WHEN h.state = ? THEN 1 ELSE 0 END), 0),"
                " coalesce(sum(CASE WHEN h.state = ? OR (h.state = ? AND h.closed_at + e.outcome_wait <= ?)"
                " THEN 1 ELSE 0 END), 0) FROM experiment e JOIN population p ON p.id = e.population"
                " LEFT JOIN hand h ON h.experiment = e.id AND h.epoch = e.epoch"
                " GROUP BY e.id, e.status, e.period, p.config ORDER BY e.id",
                *(DEALT, CLOSING, OPEN, tx.now()),
            )
        return [
            number
            for number, status, period, people, waiting, closing in rows
            if (status != FROZEN and closing)
            or (status == RUNNING and waiting < AHEAD)
            or period != self.period(msgspec.json.decode(people, type=PopulationConfig))
        ]

    # --- a step ----------------------------------------------------------------------------------

    def tick(self, number: int) -> bool:
        """Do what is due for an experiment; whether there was anything."""
        with self._turn:
            return self._tick(number)

    def _tick(self, number: int) -> bool:
        fence = self.store.lease(number, self.holder)
        if fence is None:
            self.forget(number)
            return False
        try:
            one = self._fenced(number, fence)
            over = self.period(one.people) != one.period
            if one.status == FROZEN and not over:
                return False
            closed = [] if one.status == FROZEN else self._close(one, over=over)
            if closed:
                self._fold(one, closed, last=over)
                return True
            if over:
                self._new_epoch(one)
                return True
            return one.status == RUNNING and self._deal_more(one)
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
                self._kept[number] = one = read(tx, number)
            one.fence = fence
        return one

    def _close(self, one: Experiment, *, over: bool) -> list[Hand]:
        """Hands whose time is over, which take no more outcomes, and those of before a crash.

        All of them, where the period is ``over``: what was acknowledged is learned by whom it was paid for.
        """
        with self.store.transaction() as tx:
            self.store.check_fence(tx, one.id, self.holder, one.fence)
            closing = tx.locked(
                "SELECT first FROM hand WHERE experiment = ? AND epoch = ? AND state = ?"
                " AND (closed_at + ? <= ? OR ? = 1) ORDER BY first",
                *(one.id, one.epoch, OPEN, one.config.outcome_wait, tx.now(), int(over)),
            )
            tx.many(
                "UPDATE hand SET state = ? WHERE experiment = ? AND epoch = ? AND first = ?",
                [(CLOSING, one.id, one.epoch, first) for (first,) in closing],
            )
            if over:
                tx.do(
                    "DELETE FROM hand WHERE experiment = ? AND epoch = ? AND state = ?",
                    *(one.id, one.epoch, DEALT),
                )
            rows = tx.all(
                "SELECT experiment, epoch, first, count, body, chain, served, altered FROM hand"
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

    def _fold(self, one: Experiment, hands: list[Hand], *, last: bool) -> None:
        learning = held(one)
        where = (one.id, one.epoch, hands[0].first, hands[-1].first + hands[-1].count)
        with self.store.transaction() as tx:
            rows = tx.all(
                "SELECT place, altered, body FROM outcome"
                " WHERE experiment = ? AND epoch = ? AND place >= ? AND place < ?",
                *where,
            )
            waiting, unseen = self._waiting(tx, one), events.unseen(tx, *where)
        failpoints.reach("outcomes read")
        outcomes = {p: (bool(altered), _bytes(body)) for p, altered, body in rows if p not in unseen}
        for hand in hands:
            learning.fold(hand, outcomes)
        payload = self._release(one)
        # Hands that nobody has claimed show what is known now, unless rounds were dealt with them.
        more = AHEAD - waiting if learning.ahead else AHEAD
        dealt = [] if last else self._dealt(one, more)
        failpoints.reach("noise drawn")
        with self.store.transaction() as tx:
            self.store.check_fence(tx, one.id, self.holder, one.fence)
            tx.do(
                "DELETE FROM outcome WHERE experiment = ? AND epoch = ? AND place >= ? AND place < ?", *where
            )
            tx.do("DELETE FROM hand WHERE experiment = ? AND epoch = ? AND first >= ? AND first < ?", *where)
            events.forget(tx, one.id, one.epoch, where[-1])
            if not learning.ahead:
                tx.do(
                    "DELETE FROM hand WHERE experiment = ? AND epoch = ? AND state = ?",
                    *(one.id, one.epoch, DEALT),
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
        old, last = held(one), one.epoch
        known: Released = old.learner.released.weakened(one.config.warm_start)
        with self.store.transaction() as tx:
            one.ledger = PopulationLedger(tx, one.population, one.id)
        one.epoch, one.period, one.next_place = last + 1, self.period(one.people), 0
        one.config = msgspec.structs.replace(one.config, items=[old.labels[i] for i in old.learner.ranking()])
        one.learning = Learning.begin(one.config, gate_of(one), known)
        with self.store.transaction() as tx:
            self.store.check_fence(tx, one.id, self.holder, one.fence)
            left = tx.locked(
                "SELECT first FROM hand WHERE experiment = ? AND epoch = ? ORDER BY first", one.id, last
            )
            if left and one.status != FROZEN:
                raise Fenced("a hand was claimed meanwhile: it is folded first")
            tx.do("DELETE FROM outcome WHERE experiment = ? AND epoch = ?", one.id, last)
            tx.do("DELETE FROM hand WHERE experiment = ? AND epoch = ?", one.id, last)
            events.forget(tx, one.id, last)
            if one.status == FROZEN:
                one.status = RUNNING
                tx.do("UPDATE experiment SET status = ? WHERE id = ?", RUNNING, one.id)
            tx.do("UPDATE experiment SET config = ? WHERE id = ?", encoded(one.config), one.id)
            write_items(tx, one)
            payload = self._release(one)
            self._save(tx, one, self._dealt(one, AHEAD), payload)
            tx.do(  # nobody's mark outlives the period in which it counts
                "DELETE FROM visit WHERE population = ? AND period NOT IN"
                " (SELECT period FROM experiment WHERE population = ?)",
                *(one.population, one.population),
            )
        self.store.scrub()

    def set_status(self, number: int, status: str) -> bool:
        """Pause, go on or freeze; whether that was possible. What is frozen goes on in the next period."""
        with self.store.transaction() as tx:
            done = tx.do(
                "UPDATE experiment SET status = ? WHERE id = ? AND status <> ?", status, number, FROZEN
            )
        with self._turn:
            self.forget(number)
        return bool(done)

    def beyond(self, number: int, epoch: int, place: int) -> bool:
        """Whether a decision is one that this store has not dealt yet: then its state has gone back."""
        with self.store.transaction() as tx:
            row = tx.one("SELECT epoch, next_place FROM experiment WHERE id = ?", number)
        return row is not None and (epoch, place) >= (row[0], row[1])

    def change_items(self, number: int, add: list[str], retire: list[str]) -> None:
        """Another catalogue: hands that wait are burnt, and new ones dealt from it."""
        with self._turn:
            self._change_items(number, add, retire)

    def _change_items(self, number: int, add: list[str], retire: list[str]) -> None:
        fence = self.store.lease(number, self.holder, force=True)
        assert fence is not None
        try:
            one = self._fenced(number, fence)
            with self.store.transaction() as tx:
                self.store.check_fence(tx, one.id, self.holder, one.fence)
                held(one).change_items(add, retire)
                tx.do(
                    "UPDATE hand SET state = ?, closed_at = ?"
                    " WHERE experiment = ? AND epoch = ? AND state = ?",
                    *(OPEN, tx.now(), one.id, one.epoch, DEALT),
                )
                write_items(tx, one)
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
            made.append(held(one).deal(one.id, one.epoch, one.next_place, size, one.chain))
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
        payload = json.dumps(held(one).payload())
        one.seq += 1
        one.chain = linked(one.chain, payload)
        return payload

    def _save(self, tx: Transaction, one: Experiment, dealt: list[Hand], payload: str | None = None) -> None:
        """Everything that follows from what was just done, in the transaction in which it is done."""
        one.ledger.flush(tx)
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
        if not tx.do(
            "UPDATE experiment SET epoch = ?, period = ?, next_place = ?, seq = ?, chain = ?"
            " WHERE id = ? AND status <> ?",
            *(one.epoch, one.period, one.next_place, one.seq, one.chain, one.id, FROZEN),
        ):
            raise Fenced("somebody has frozen it")
        tx.do(
            "INSERT INTO private_state (experiment, seq, body) VALUES (?, ?, ?)"
            " ON CONFLICT (experiment) DO UPDATE SET seq = excluded.seq, body = excluded.body",
            *(one.id, one.seq, held(one).dump()),
        )


def _bytes(body: Any) -> bytes | None:
    return None if body is None else bytes(body)
