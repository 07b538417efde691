"""A service without HTTP: blocks are leased, served and reported on by hand, and its worker is told when."""

from __future__ import annotations

import datetime
import json
from typing import ClassVar

from discreet.service import groups
from discreet.service.auth import owner_name
from discreet.service.config import ExperimentConfig, PopulationConfig
from discreet.service.database import NOBODY, open_store
from discreet.service.groups import Cursor, Group, KeptRequest, ReportedOutcome, ServedDecision
from discreet.service.learning import DecisionBlock
from discreet.service.worker import Worker

ITEMS = [f"item {number}" for number in range(12)]
PURE = PopulationConfig(epsilon=4.0, period="month")
NOISY = PopulationConfig(epsilon=1.0, delta=1e-6, definition="gdp", period="month")


def likes(**more):
    return ExperimentConfig(
        **{"items": ITEMS, "k": 3, "block_size": 8, "outcome_wait": 0.0, "share": 1.0, "seed": 5, **more}
    )


def taken(**more):
    return likes(**{"feedback": "slots", **more})


class World:
    """One experiment, "shop", on a store in a folder; `crash` forgets everything that is not committed."""

    opened: ClassVar = []  # stores that are to be closed

    def __init__(self, url, config=None, people=NOISY):
        self.url = url
        self.now = datetime.datetime(2026, 11, 3, tzinfo=datetime.UTC)
        self.open()
        if config is not None:
            self.worker.create_population("people", people)
            self.shop = self.worker.create("shop", "people", config).id

    def open(self):
        self.store = open_store(self.url)
        World.opened.append(self.store)
        self.store.migrate()
        self.owner = owner_name()
        self.store.beat(self.owner, new=True)
        self.store.recover(self.owner)
        self.worker = Worker(self.store, self.owner, clock=lambda: self.now)
        self.leased = {}  # by segment: blocks, of which the first is served
        self.sequences = []  # that were served, and are not written down

    def crash(self):
        """Another process takes over, once this one is taken for dead."""
        self.store.close()
        self.open()
        with self.store.transaction() as tx:
            tx.do("UPDATE process SET until = 0 WHERE name <> ?", self.owner)
        self.store.recover(self.owner)

    @property
    def one(self):
        return self.worker.experiment(self.shop)

    @property
    def blocks(self):
        return [block for blocks in self.leased.values() for block in blocks]

    @blocks.setter
    def blocks(self, blocks):
        self.leased = {}
        for block in blocks:
            self.leased.setdefault(block.segment, []).append(block)

    def serve(self, segment="", pseudonym=NOBODY, request=None):
        """The next decision: (block, decision, labels); ``request`` is what it is known by."""
        blocks = self.leased.setdefault(segment, [])
        if not blocks or blocks[0].over:
            del blocks[:1]
            row = self.store.lease_block(self.shop, self.one.epoch, self.owner, segment)
            if row is None:
                self.worker.tick(self.shop)
                row = self.store.lease_block(self.shop, self.one.epoch, self.owner, segment)
            blocks.append(DecisionBlock.read(row))
        block = blocks[0]
        offset = block.served
        block.served += 1
        one = self.one
        known = request and KeptRequest(
            one.id,
            request,
            one.epoch,
            block.first + offset,
            False,
            pseudonym,
            True,
            f"{block.first + offset}",
        )
        self.sequences.append(
            ServedDecision(
                *(block.experiment, block.epoch, block.first, offset, pseudonym),
                *(one.population, one.period, one.people.max_rounds_per_person, known),
            )
        )
        labels = one.learning.labels
        return block, block.first + offset, [labels[item] for item in block.lists[block.which[offset]]]

    def report(self, sequence, outcome, *, served=True, **more):
        return self.acknowledged(sequence, outcome, served=served, **more).status

    def acknowledged(self, sequence, outcome, *, served=True, **more):
        """All that is said of an outcome."""
        return self.write([self._outcome(sequence, outcome, **more)], served=served).outcomes[0]

    def report_all(self, outcomes):
        """What came of several decisions, in one group."""
        return [one.status for one in self.write([self._outcome(*one) for one in outcomes]).outcomes]

    def group(self, outcomes=()):
        """All that waits to be written down, and outcomes."""
        return Group(list(outcomes), self.cursors(), list(self.sequences))

    def write(self, outcomes=(), *, served=True):
        """Write a group down."""
        if not served:
            return groups.record(self.store, Group(list(outcomes)))
        found = groups.record(self.store, self.group(outcomes))
        self.sequences.clear()
        return found

    def _outcome(self, sequence, outcome, *, pseudonym=NOBODY, altered=False, epoch=None):
        one = self.one
        return ReportedOutcome(
            one.id,
            one.epoch if epoch is None else epoch,
            sequence,
            altered,
            json.dumps(outcome).encode(),
            pseudonym,
        )

    def cursors(self):
        return [
            Cursor(
                block.experiment,
                block.epoch,
                block.first,
                block.served,
                0.0 if block.over else None,
                " ".join(map(str, block.altered)),
            )
            for block in self.blocks
        ]

    def settle(self):
        """Aggregate and allocate until nothing is due."""
        if self.blocks:
            self.write()
        while self.worker.due():
            assert self.worker.tick(self.shop)

    def rows(self, sql, *values):
        with self.store.transaction() as tx:
            return tx.all(sql, *values)
