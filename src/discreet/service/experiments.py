"""Experiments as a keeper holds them: rows of the database, with their learner and their people's charges."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field

import msgspec

from ..privacy import Budget, Gate
from ..privacy.population import Periods
from .config import ExperimentConfig, PopulationConfig
from .learning import Learning
from .ledger import PopulationLedger
from .store import Transaction

# A hand is to last about so many seconds: long enough to write the next one, short enough to learn from soon.
_SHORT, _LONG, _LARGE = 1.0, 4.0, 4096


class OtherSegments(ValueError):
    """Experiments of one population have the same segments, or none."""


@dataclass
class Pace:
    """How large hands are, by how fast the last ones were used up: decisions and the clock are public."""

    hand: int = 8  # places of the next one
    dealt_at: float = -math.inf

    def next(self, hands: int) -> int:
        """How large these hands are, which are dealt now."""
        now = time.monotonic()
        lasted = (now - self.dealt_at) / hands
        if lasted < _SHORT:
            self.hand = min(2 * self.hand, _LARGE)
        elif lasted > _LONG:
            self.hand = max(self.hand // 2, 1)
        self.dealt_at = now
        return self.hand


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
    ledger: PopulationLedger = field(repr=False)
    learning: Learning | None = field(default=None, repr=False)
    fence: int = -1  # of no keeper yet
    paces: dict[str, Pace] = field(default_factory=dict)  # of the hands of each segment
    frozen: str = ""  # the period in which nothing about its people begins


def budget_of(people: PopulationConfig) -> Budget:
    """The budget of one period."""
    if not math.isfinite(people.epsilon):
        raise ValueError("epsilon must be a finite number")
    return Budget(people.epsilon, people.delta, people.neighbours, people.max_rounds_per_person)


def gate_of(one: Experiment) -> Gate:
    """The gate of its people in its period."""
    seed = None if one.config.seed is None else one.config.seed + one.epoch
    periods = Periods(budget_of(one.people), one.ledger, notion=one.people.notion)
    return periods.gate(one.period, seed)


def held(one: Experiment) -> Learning:
    """Its learner, which is there once it was begun or read."""
    assert one.learning is not None
    return one.learning


def read(tx: Transaction, number: int) -> Experiment:
    """The experiment of this number, as it was left."""
    row = tx.one(
        "SELECT e.id, e.population, e.name, e.config, p.config, e.status, e.epoch, e.period,"
        " e.next_place, e.seq, e.chain, p.frozen FROM experiment e JOIN population p ON p.id = e.population"
        " WHERE e.id = ?",
        number,
    )
    if row is None:
        raise LookupError("experiment")
    config = msgspec.json.decode(row[3], type=ExperimentConfig)
    people = msgspec.json.decode(row[4], type=PopulationConfig)
    number, population, name = row[:3]
    status, epoch, period, place, seq, chain, frozen = row[5:]
    states = tx.all("SELECT segment, body FROM private_state WHERE experiment = ?", number)
    ledger = PopulationLedger(tx, population, number)
    one = Experiment(
        number, population, name, config, people, status, epoch, period, place, seq, bytes(chain), ledger
    )
    one.frozen = frozen
    one.learning = Learning.load(config, gate_of(one), {segment: bytes(body) for segment, body in states})
    return one


def check_division(tx: Transaction, population: int, config: ExperimentConfig) -> None:
    """Refuse other segments than those of another experiment about the same people.

    The account takes the worst segment, as people are in one of them; of two divisions they would be in both.
    """
    for (other,) in tx.all("SELECT config FROM experiment WHERE population = ?", population):
        segments = msgspec.json.decode(other, type=ExperimentConfig).segments
        if config.segments and segments and set(segments) != set(config.segments):
            raise OtherSegments("segments must be those of the population's other experiments, or none")


def write_items(tx: Transaction, one: Experiment) -> None:
    """The catalogue: numbers, labels, and what has been retired."""
    learning = held(one)
    shown = set(learning.active)
    tx.do("UPDATE experiment SET catalogue = catalogue + 1 WHERE id = ?", one.id)
    tx.do("DELETE FROM item WHERE experiment = ?", one.id)
    rows = [(one.id, number, label, int(number not in shown)) for number, label in enumerate(learning.labels)]
    tx.many("INSERT INTO item VALUES (?, ?, ?, ?)", rows)
