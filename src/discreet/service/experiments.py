"""Experiments as a keeper holds them: rows of the database, with their learner and their people's charges."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import msgspec

from ..privacy import Budget, Gate
from ..privacy.population import Periods
from .config import ExperimentConfig, PopulationConfig
from .learning import Learning
from .ledger import PopulationLedger
from .store import Transaction


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
    hand: int = 8  # places of the next one
    dealt_at: float = -math.inf


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
    ledger = PopulationLedger(tx, population, number)
    one = Experiment(
        number, population, name, config, people, status, epoch, period, place, seq, bytes(chain), ledger
    )
    one.learning = Learning.load(config, gate_of(one), bytes(body))
    return one


def write_items(tx: Transaction, one: Experiment) -> None:
    """The catalogue: numbers, labels, and what has been retired."""
    learning = held(one)
    shown = set(learning.learner.ranking())
    tx.do("UPDATE experiment SET catalogue = catalogue + 1 WHERE id = ?", one.id)
    tx.do("DELETE FROM item WHERE experiment = ?", one.id)
    rows = [(one.id, number, label, int(number not in shown)) for number, label in enumerate(learning.labels)]
    tx.many("INSERT INTO item VALUES (?, ?, ?, ?)", rows)
