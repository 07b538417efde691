"""What an experiment will release, when, and what to expect of it: from its settings alone.

The experiment's own learner is made at a gate of its own and looked at; nobody's data is there to be learned
from. What it would serve is simulated on synthetic people (`planning.served`).
"""

from __future__ import annotations

import math
import threading
import warnings
from dataclasses import dataclass
from functools import lru_cache

import msgspec

from ..constraints import Cardinality
from ..online.leader import LeaderSettings
from ..online.learner import OnlineSelector
from ..online.thompson import WARM_UP, ThompsonSettings
from ..planning import Expected, Size, at_random, best_values, served, streams
from ..privacy import Gate, GaussianNoise, Seed
from .config import ExperimentConfig, PopulationConfig
from .learning import Learning, learner_of
from .shares import SURE, blocks_of

_one_at_a_time = threading.Lock()


@dataclass(frozen=True)
class ReleasePlan:
    """When counts leave and with how much noise (a standard deviation, in people); None if it varies.

    After ``begins`` people there is something to go by, and sets are no longer random.
    """

    learner: str
    begins: int | None
    every: int | None
    growing: bool
    noise: float | None
    measured_every: int | None
    measured_noise: float

    def known_within(self, people: int, holdout: float) -> float | None:
        """How exactly, with 95 % probability, the noise lets the share be known after ``people`` of them."""
        if self.measured_every is None or people < self.measured_every:
            return None
        blocks = blocks_of(self.measured_every, people)
        return SURE * self.measured_noise * math.sqrt(blocks) / (people * (1.0 - holdout))


@dataclass(frozen=True)
class Forecast:
    """The simulated part of what the best fixed set would serve, and that of random sets."""

    learned: Expected
    random: Expected
    people: int


def release_plan(config: ExperimentConfig, people: PopulationConfig) -> ReleasePlan:
    """What these settings release, in each segment; ValueError, or BudgetExceeded, if they cannot be."""
    return _release_plan(msgspec.structs.replace(config, segments=[]).text, people.text)


@lru_cache(maxsize=256)
def _release_plan(config: str, people: str) -> ReleasePlan:
    asked = ExperimentConfig.read(config)
    learning = _made(asked, PopulationConfig.read(people), None)
    assert isinstance(learning.learner, OnlineSelector)
    settings, measure = learning.learner.settings, learning.measure
    begins, every, growing, noise = None, None, False, None
    if isinstance(settings, LeaderSettings):
        begins = every = settings.first_batch
        growing = settings.batch == "geometric"
        if settings.spec is not None and isinstance(settings.event, GaussianNoise):
            noise = float(settings.event.sigma) * settings.spec.error(1)
    elif isinstance(settings, ThompsonSettings):
        begins, every, noise = WARM_UP * settings.block, settings.block, math.sqrt(2.0) * settings.scale
    measured = (None, 0.0) if measure is None else (measure.every, measure.deviation)
    return ReleasePlan(learner_of(asked), begins, every, growing, noise, *measured)


def forecast(config: ExperimentConfig, people: PopulationConfig, visitors: int) -> Forecast:
    """What to expect after ``visitors`` people, on synthetic ones; one is simulated at a time.

    With segments: of one that has an equal part of them, and without what it would learn from the others.
    """
    visitors = max(1, visitors // len(config.queues))
    small = msgspec.structs.replace(config, items=[], segments=[], seed=None)
    with _one_at_a_time:
        return _forecast(small.text, len(config.items), people.text, visitors)


@lru_cache(maxsize=256)
def _forecast(config: str, n_items: int, people: str, visitors: int) -> Forecast:
    asked, whom = ExperimentConfig.read(config), PopulationConfig.read(people)
    size = Size.of(visitors, n_items, asked.k)
    asked = msgspec.structs.replace(asked, items=[str(item) for item in range(size.n_items)], bound=1.0)
    crowds, sets = streams(size, 1.0, None), Cardinality(size.k, size.n_items)
    best = best_values(crowds, sets)

    def learner(run: int) -> OnlineSelector:
        made = _made(asked, whom, run).learner
        assert isinstance(made, OnlineSelector)
        return made

    found = served(learner, crowds, best)
    return Forecast(found, at_random(crowds, best, sets), size.rounds)


def _made(config: ExperimentConfig, people: PopulationConfig, seed: Seed) -> Learning:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of few rounds; the forecast says what comes of them
        return Learning.begin(config, Gate(people.budget, seed, definition=people.definition))
