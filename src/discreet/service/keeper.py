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
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ..privacy import Account
from ..privacy.population import Periods
from . import failpoints
from .config import ExperimentConfig, PopulationConfig, encoded
from .experiments import Experiment, Pace, budget_of, check_division, gate_of, held, read, write_items
from .hands import CLOSING, COLUMNS, DEALT, OPEN, Hand, linked, stretches
from .learning import Learning
from .ledger import PopulationLedger
from .store import Fenced, Frozen, Store, Transaction, events, visits

RUNNING, PAUSED, FROZEN = "running", "paused", "frozen"
AHEAD = 2  # hands of a segment that wait to be served


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
            found = tx.one("SELECT id, config, frozen FROM population WHERE name = ?", population)
            if found is None:
                raise LookupError("population")
            ledger = PopulationLedger(tx, int(found[0]), 0)
            check_division(tx, int(found[0]), config)
        people = msgspec.json.decode(found[1], type=PopulationConfig)
        period = self.period(people)
        if found[2] == period:
            raise Frozen("what was spent in this period is not known")
        made = Experiment(0, int(found[0]), name, config, people, RUNNING, 0, period, 0, 0, b"", ledger)
        made.learning = Learning.begin(config, gate_of(made))
        with self.store.transaction() as tx:
            row = (made.population, name, encoded(config), RUNNING, 0, period, config.outcome_wait)
            tx.do(
                "INSERT INTO experiment (population, name, config, status, epoch, period, outcome_wait,"
                " queues, next_place, seq, chain, created) VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0, 0, ?, ?)",
                *(*row, len(config.queues), b"", tx.now()),
            )
            made.id = ledger.experiment = int(tx.one("SELECT id FROM experiment WHERE name = ?", name)[0])
            made.chain = linked(b"", f"experiment {made.id}")
            write_items(tx, made)
            self._save(tx, made, self._dealt(made, {}))
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
                "SELECT e.id, e.status, e.period, p.config, p.frozen, e.queues,"
                " coalesce(sum(CASE WHEN h.state = ? THEN 1 ELSE 0 END), 0),"
                " coalesce(sum(CASE WHEN h.state = ? OR (h.state = ? AND h.closed_at + e.outcome_wait <= ?)"
                " THEN 1 ELSE 0 END), 0) FROM experiment e JOIN population p ON p.id = e.population"
                " LEFT JOIN hand h ON h.experiment = e.id AND h.epoch = e.epoch"
                " GROUP BY e.id, e.status, e.period, p.config, p.frozen, e.queues ORDER BY e.id",
                *(DEALT, CLOSING, OPEN, tx.now()),
            )
        return [
            number
            for number, status, period, people, frozen, queues, waiting, closing in rows
            if (status != FROZEN and closing)
            or (status == RUNNING and waiting < AHEAD * queues)
            or (
                period != (now := self.period(msgspec.json.decode(people, type=PopulationConfig)))
                and (status != FROZEN or frozen != now)
            )
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
            over = (now := self.period(one.people)) != one.period
            if one.status == FROZEN and (not over or one.frozen == now):
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

        All of them, where the period is ``over``: what was acknowledged is learned by whom it was paid for,
        and all places of hands that are still served from count as served, as after a crash.
        """
        with self.store.transaction() as tx:
            self.store.check_fence(tx, one.id, self.holder, one.fence)
            rows = tx.locked(
                "SELECT first FROM hand WHERE experiment = ? AND epoch = ? AND state = ?"
                " AND (closed_at + ? <= ? OR ? = 1) ORDER BY first",
                *(one.id, one.epoch, OPEN, one.config.outcome_wait, tx.now(), int(over)),
            )
            new = {int(first) for (first,) in rows}
            if over:
                tx.do(
                    "UPDATE hand SET served = count"
                    " WHERE experiment = ? AND epoch = ? AND state = ? AND closed_at IS NULL",
                    *(one.id, one.epoch, OPEN),
                )
            closing = [(CLOSING, one.id, one.epoch, first) for first in new]
            tx.many("UPDATE hand SET state = ? WHERE experiment = ? AND epoch = ? AND first = ?", closing)
            if over:
                tx.do(
                    "DELETE FROM hand WHERE experiment = ? AND epoch = ? AND state = ?",
                    *(one.id, one.epoch, DEALT),
                )
            rows = tx.all(
                f"SELECT {COLUMNS} FROM hand WHERE experiment = ? AND epoch = ? AND state = ? ORDER BY first",
                *(one.id, one.epoch, CLOSING),
            )
            found = tx.all(
                "SELECT segment, min(first) FROM hand"
                " WHERE experiment = ? AND epoch = ? AND state < ? GROUP BY segment",
                *(one.id, one.epoch, CLOSING),
            )
            hands, open_before = [Hand.read(row) for row in rows], dict(found)
            for hand in hands:
                if hand.first in new:
                    visits.count(tx, one.population, one.period, one.people.max_rounds_per_person, hand)
        failpoints.reach("hand closed")
        # In order: a hand waits for those of its segment that come before it.
        return [hand for hand in hands if hand.first < open_before.get(hand.segment, math.inf)]

    def _fold(self, one: Experiment, hands: list[Hand], *, last: bool) -> None:
        learning = held(one)
        spans = stretches(hands) if one.config.segments else [(hands[0].first, hands[-1].end)]
        places = [(one.id, one.epoch, *span) for span in spans]
        rows, unseen = [], set[int]()
        with self.store.transaction() as tx:
            for where in places:
                rows += tx.all(
                    "SELECT place, altered, body FROM outcome"
                    " WHERE experiment = ? AND epoch = ? AND place >= ? AND place < ?",
                    *where,
                )
                unseen |= events.unseen(tx, *where)
            waiting = self._waiting(tx, one)
        failpoints.reach("outcomes read")
        unheard = {hand.first + offset for hand in hands for offset in hand.uncounted}
        outcomes = {
            place: (bool(altered), None if body is None or place in unheard else bytes(body))
            for place, altered, body in rows
            if place not in unseen
        }
        for hand in hands:
            learning.fold(hand, outcomes)
        folded = list(dict.fromkeys(hand.segment for hand in hands))
        releases = [self._release(one, segment) for segment in folded]
        # Hands that nobody has claimed show what is known now, unless rounds were dealt with them.
        again = [] if learning.ahead else folded
        dealt = [] if last else self._dealt(one, waiting | dict.fromkeys(again, 0))
        failpoints.reach("noise drawn")
        with self.store.transaction() as tx:
            self.store.check_fence(tx, one.id, self.holder, one.fence)
            for where in places:
                tx.do(
                    "DELETE FROM outcome WHERE experiment = ? AND epoch = ? AND place >= ? AND place < ?",
                    *where,
                )
                tx.do(
                    "DELETE FROM hand WHERE experiment = ? AND epoch = ? AND first >= ? AND first < ?", *where
                )
            if not one.config.segments:  # of which there are no events
                events.forget(tx, one.id, one.epoch, hands[-1].end)
            for segment in again:
                tx.do(
                    "DELETE FROM hand WHERE experiment = ? AND epoch = ? AND segment = ? AND state = ?",
                    *(one.id, one.epoch, segment, DEALT),
                )
            self._save(tx, one, dealt, releases)
        failpoints.reach("release committed")
        self.store.scrub()

    def _deal_more(self, one: Experiment) -> bool:
        """Hands that wait to be served, where there are too few."""
        with self.store.transaction() as tx:
            waiting = self._waiting(tx, one)
        dealt = self._dealt(one, waiting)
        if not dealt:
            return False
        with self.store.transaction() as tx:
            self.store.check_fence(tx, one.id, self.holder, one.fence)
            self._save(tx, one, dealt)
            failpoints.reach("dealt, not committed")
        failpoints.reach("hand committed")
        return True

    def _new_epoch(self, one: Experiment) -> None:
        """A new period: a new budget, and a new learner that begins with what the last one released."""
        old, last = held(one), one.epoch
        known = {
            segment: released.weakened(one.config.warm_start) for segment, released in old.released.items()
        }
        with self.store.transaction() as tx:
            one.ledger = PopulationLedger(tx, one.population, one.id)
        one.epoch, one.period, one.next_place = last + 1, self.period(one.people), 0
        if one.status == FROZEN:  # a number that no epoch had of which this store does not know
            one.epoch = max(one.epoch, int(self._clock().timestamp()))
        one.config = msgspec.structs.replace(one.config, items=[old.labels[i] for i in old.active])
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
            tx.do("DELETE FROM served_to WHERE experiment = ? AND epoch = ?", one.id, last)
            events.forget(tx, one.id, last)
            if one.status == FROZEN:
                one.status = RUNNING
                tx.do("UPDATE experiment SET status = ? WHERE id = ?", RUNNING, one.id)
            tx.do("UPDATE experiment SET config = ? WHERE id = ?", encoded(one.config), one.id)
            write_items(tx, one)
            releases = [self._release(one, segment) for segment in one.config.queues]
            self._save(tx, one, self._dealt(one, {}), releases)
            tx.do(  # nobody's mark outlives the period in which it counts
                "DELETE FROM visit WHERE population = ? AND period NOT IN"
                " (SELECT period FROM experiment WHERE population = ?)",
                *(one.population, one.population),
            )
        self.store.scrub()

    def set_status(self, number: int, status: str) -> bool:
        """Pause or go on; whether that was possible. What is frozen goes on in the next period."""
        with self.store.transaction() as tx:
            done = tx.do(
                "UPDATE experiment SET status = ? WHERE id = ? AND status <> ?", status, number, FROZEN
            )
        with self._turn:
            self.forget(number)
        return bool(done)

    def forget_all(self) -> None:
        """Drop everything that is in memory, as soon as nobody works with it."""
        with self._turn:
            self._kept.clear()

    def beyond(self, number: int, epoch: int, place: int) -> bool:
        """Whether a decision is one that this store has not dealt yet: its state has gone back, unnoticed."""
        with self.store.transaction() as tx:
            row = tx.one(
                "SELECT epoch, next_place FROM experiment WHERE id = ? AND status <> ?", number, FROZEN
            )
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
                self._save(tx, one, self._dealt(one, {}))
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

    def _waiting(self, tx: Transaction, one: Experiment) -> dict[str, int]:
        """How many hands of each segment wait to be served."""
        return dict(
            tx.all(
                "SELECT segment, count(*) FROM hand"
                " WHERE experiment = ? AND epoch = ? AND state = ? GROUP BY segment",
                *(one.id, one.epoch, DEALT),
            )
        )

    def _dealt(self, one: Experiment, waiting: Mapping[str, int]) -> list[Hand]:
        """The next hands, in memory, of segments of which too few are ``waiting``."""
        made = []
        for segment in one.config.queues:
            hands = AHEAD - waiting.get(segment, 0)
            if hands <= 0:
                continue
            size = one.config.hand or one.paces.setdefault(segment, Pace()).next(hands)
            for _ in range(hands):
                made.append(held(one).deal(one.id, one.epoch, one.next_place, size, one.chain, segment))
                one.next_place += size
        return made

    def _release(self, one: Experiment, segment: str) -> tuple[int, str, str, bytes]:
        """The next link of the chain of releases: (number, segment, payload, chain)."""
        payload = json.dumps(held(one).payload(segment))
        one.seq += 1
        one.chain = linked(one.chain, payload)
        return one.seq, segment, payload, one.chain

    def _save(
        self,
        tx: Transaction,
        one: Experiment,
        dealt: list[Hand],
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
        for hand in dealt:
            tx.do(
                "INSERT INTO hand (experiment, epoch, first, count, body, chain, state, served, segment)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, 0, ?)",
                *(one.id, one.epoch, hand.first, hand.count, hand.body(), hand.chain, DEALT, hand.segment),
            )
        if not tx.do(
            "UPDATE experiment SET epoch = ?, period = ?, next_place = ?, seq = ?, chain = ?"
            " WHERE id = ? AND status <> ?",
            *(one.epoch, one.period, one.next_place, one.seq, one.chain, one.id, FROZEN),
        ):
            raise Frozen("somebody has frozen it")
        for segment, body in held(one).dump().items():
            tx.do(
                "INSERT INTO private_state (experiment, segment, seq, body) VALUES (?, ?, ?, ?)"
                " ON CONFLICT (experiment, segment) DO UPDATE SET seq = excluded.seq, body = excluded.body",
                *(one.id, segment, one.seq, body),
            )
