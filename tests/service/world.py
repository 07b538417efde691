"""A service without HTTP: hands are claimed, served and reported on by hand, and its keeper is told when."""

from __future__ import annotations

import datetime
import json
from typing import ClassVar

from discreet.service.config import ExperimentConfig, PopulationConfig
from discreet.service.hands import Hand
from discreet.service.keeper import Keeper
from discreet.service.keys import MARK, NOBODY, owner_name
from discreet.service.store import Outcome, Served, open_store

ITEMS = [f"item {number}" for number in range(12)]
PURE = PopulationConfig(epsilon=4.0, period="month")
NOISY = PopulationConfig(epsilon=1.0, delta=1e-6, notion="gdp", period="month")


def likes(**more):
    return ExperimentConfig(**{"items": ITEMS, "k": 3, "hand": 8, "outcome_wait": 0.0, "seed": 5, **more})


def taken(**more):
    return likes(**{"feedback": "taken", **more})


class World:
    """One experiment, "shop", on a store in a folder; `crash` forgets everything that is not committed."""

    opened: ClassVar = []  # stores that are to be closed

    def __init__(self, url, config=None, people=NOISY):
        self.url = url
        self.now = datetime.datetime(2026, 11, 3, tzinfo=datetime.UTC)
        self.open()
        if config is not None:
            self.keeper.create_population("people", people)
            self.shop = self.keeper.create("shop", "people", config).id

    def open(self):
        self.store = open_store(self.url)
        World.opened.append(self.store)
        self.store.migrate()
        self.owner = owner_name()
        self.store.beat(self.owner, new=True)
        self.keeper = Keeper(self.store, self.owner, clock=lambda: self.now)
        self.claimed = {}  # by segment: hands, of which the first is served

    def crash(self):
        """Another process takes over, once this one is taken for dead."""
        self.store.close()
        self.open()
        with self.store.transaction() as tx:
            tx.do("UPDATE process SET until = 0 WHERE name <> ?", self.owner)
        self.store.recover(self.owner)

    @property
    def one(self):
        return self.keeper.experiment(self.shop)

    @property
    def hands(self):
        return [hand for hands in self.claimed.values() for hand in hands]

    @hands.setter
    def hands(self, hands):
        self.claimed = {}
        for hand in hands:
            self.claimed.setdefault(hand.segment, []).append(hand)

    def serve(self, segment="", mark=NOBODY):
        """The next decision: (hand, place, labels)."""
        hands = self.claimed.setdefault(segment, [])
        if not hands or hands[0].over:
            del hands[:1]
            row = self.store.claim(self.shop, self.one.epoch, self.owner, segment)
            if row is None:
                self.keeper.tick(self.shop)
                row = self.store.claim(self.shop, self.one.epoch, self.owner, segment)
            hands.append(Hand.read(row))
        hand = hands[0]
        offset = hand.served
        hand.served += 1
        hand.marks += mark
        labels = self.one.learning.labels
        return hand, hand.first + offset, [labels[item] for item in hand.lists[hand.which[offset]]]

    def report(self, place, outcome, *, served=True, **more):
        rows = [self._outcome(place, outcome, **more)]
        return self.store.record(rows, self.cursors() if served else [])[0]

    def report_all(self, outcomes):
        """What came of several places, in one group."""
        return self.store.record([self._outcome(*one) for one in outcomes], self.cursors())

    def _outcome(self, place, outcome, *, mark=NOBODY, altered=False, epoch=None):
        one = self.one
        return Outcome(
            one.id,
            one.epoch if epoch is None else epoch,
            place,
            altered,
            json.dumps(outcome).encode(),
            mark,
        )

    def cursors(self):
        return [
            Served(
                hand.experiment,
                hand.epoch,
                hand.first,
                hand.served,
                0.0 if hand.over else None,
                " ".join(map(str, hand.altered)),
                hand.served - len(hand.marks) // MARK,
                bytes(hand.marks),
            )
            for hand in self.hands
        ]

    def settle(self):
        """Fold and deal until nothing is due."""
        if self.hands:
            self.store.record([], self.cursors())
        while self.keeper.due():
            assert self.keeper.tick(self.shop)

    def rows(self, sql, *values):
        with self.store.transaction() as tx:
            return tx.all(sql, *values)
