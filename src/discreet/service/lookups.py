"""What a process that serves reads about experiments, often and with little effort."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Collection, Container
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from .config import ExperimentConfig, PopulationConfig
from .hands import Hand
from .learning import constraint_of
from .store import Store


class NotEnoughItems(Exception):
    """Fewer items are left than a set has."""


@dataclass
class Live:
    """What a process knows of an experiment that it serves."""

    id: int
    population: int
    name: str
    config: ExperimentConfig
    people: PopulationConfig
    status: str
    epoch: int
    period: str
    catalogue: int
    labels: list[str]
    hands: deque[Hand] = field(default_factory=deque)
    claiming: asyncio.Task[None] | None = None
    rendered: dict[tuple[int, int], bytes] = field(default_factory=dict)
    constraint: Any = None
    segment: str = ""
    segments: dict[str, Live] = field(default_factory=dict)  # each with hands of its own

    @classmethod
    def read(cls, name: str, row: Any) -> Live:
        """An experiment from what `experiment` found."""
        number, epoch, catalogue, status, population, period, config, people, labels = row
        asked = msgspec.json.decode(config, type=ExperimentConfig)
        whom = msgspec.json.decode(people, type=PopulationConfig)
        made = cls(number, population, name, asked, whom, status, epoch, period, catalogue, labels)
        made.constraint = constraint_of(asked)
        for one in asked.segments:
            made.segments[one] = replace(made, segment=one, segments={}, hands=deque(), rendered={})
        return made

    def renew(self, row: Any) -> None:
        """Take up what `experiment` found, of the same epoch."""
        labels = row[-1]
        for live in (self, *self.segments.values()):
            live.status = row[3]
            if labels is not None:
                live.catalogue, live.labels = row[2], labels
                live.rendered.clear()

    def items(self, hand: Hand, offset: int) -> bytes:
        """The labels of a place as JSON."""
        number = hand.which[offset]
        key = (hand.first, number)
        found = self.rendered.get(key)
        if found is None:
            if len(self.rendered) > 4096:
                self.rendered.clear()
            found = msgspec.json.encode([self.labels[item] for item in hand.lists[number]])
            self.rendered[key] = found
        return found

    def without(self, hand: Hand, offset: int, exclude: Container[str]) -> tuple[list[str], bool]:
        """The labels of a place without excluded items, filled up by what was released; whether altered."""
        dealt = hand.lists[hand.which[offset]]
        labels = self.labels
        chosen = [item for item in dealt if labels[item] not in exclude]
        if len(chosen) == len(dealt):
            return [labels[item] for item in dealt], False
        for item in hand.spare:
            if len(chosen) == len(dealt):
                break
            fits = self.constraint is None or self.constraint.can_add(chosen, item)
            if item not in chosen and labels[item] not in exclude and fits:
                chosen.append(item)
        hand.altered.add(offset)  # public: it is written down with what was served, not with an outcome
        if len(chosen) < len(dealt) and self.constraint is None:
            raise NotEnoughItems
        return [labels[item] for item in chosen], True

    @property
    def queues(self) -> Collection[Live]:
        """What there are hands of: its segments, or itself."""
        return self.segments.values() or (self,)


def ping(store: Store) -> None:
    """Whether the database answers."""
    with store.transaction() as tx:
        tx.one("SELECT 1")


def experiment(store: Store, name: str, known: tuple[int, int, int] | None) -> Any:
    """(number, epoch, catalogue, status, population, period, config, its people's, labels) of an experiment.

    The last three are None if (number, epoch, catalogue) are those that are ``known``; None without one.
    """
    with store.transaction() as tx:
        row = tx.one(
            "SELECT id, epoch, catalogue, status, population, period FROM experiment WHERE name = ?", name
        )
        if row is None:
            return None
        if row[:3] == known:
            return (*row, None, None, None)
        configs = tx.one(
            "SELECT e.config, p.config FROM experiment e JOIN population p ON p.id = e.population"
            " WHERE e.id = ?",
            row[0],
        )
        labels = tx.all("SELECT label FROM item WHERE experiment = ? ORDER BY number", row[0])
        return (*row, *configs, [label for (label,) in labels])


def name_of(store: Store, number: int) -> str | None:
    """The name of the experiment of a decision id."""
    with store.transaction() as tx:
        row = tx.one("SELECT name FROM experiment WHERE id = ?", number)
        return None if row is None else str(row[0])
