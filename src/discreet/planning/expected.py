"""What to expect: the shares that learners serve on simulated streams, over different catalogues.

A certificate bounds the regret on the worst stream. What to expect depends on future people, and real
catalogues differ: in how steeply popularity falls, how many items a person has, and how much tastes overlap.
So the expected share is simulated over a family of synthetic catalogues (`CATALOGUES`), or over a public
sample, and has an interval that contains all of them. No private data is used.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..bounds.charged_costs import costs_of
from ..constraints import Constraint
from ..objectives import Coverage, Population
from ..privacy import PublicRandomness

if TYPE_CHECKING:
    from ..online import OnlineLearner

# The largest simulated sizes; they stand for larger questions.
_MOST_ROUNDS, _MOST_ITEMS = 20_000, 50_000
_MOST_WANTED = 600_000  # about how many items all people of a stream want together
_CLUSTERS = 5
_RANDOM_SETS = 30
_WIDER = 0.2  # the part of its length by which an interval is widened on either side
_LEAST_GAIN = 0.1  # the part of the way from random sets to the best that is clearly better than random


class Taste(NamedTuple):
    """What people of a synthetic catalogue want.

    The popularity of an item falls with its rank as (rank + ``flat``)^-``steep`` (``flat`` is a tenth of the
    items at most). People have ``items`` items on average, at least one; the part ``own`` of these follows
    the ranking of the person's cluster of taste, the rest a common ranking.
    """

    steep: float
    flat: float
    items: float
    own: float


# The first is hard to learn, the second easy and the third in between; the others are in the range of data
# sets of visits, purchases, ratings and friends.
CATALOGUES = (
    Taste(0.5, 50.0, 10.0, 0.5),
    Taste(1.1, 1.0, 100.0, 0.2),
    Taste(0.9, 1.0, 5.0, 0.4),
    Taste(1.2, 0.0, 2.5, 0.2),
    Taste(0.6, 20.0, 30.0, 0.6),
    Taste(1.0, 0.0, 3.0, 0.6),
    Taste(0.8, 10.0, 10.0, 0.3),
    Taste(0.7, 3.0, 2.0, 0.5),
    Taste(0.8, 1.0, 15.0, 0.5),
)
FEWEST = 3  # the least number of catalogues to simulate


def synthetic_people(rounds: int, n_items: int, seed: int, taste: Taste = CATALOGUES[2]) -> Coverage:
    """People who want a few items each, of a catalogue whose popularity falls with the rank.

    Each person belongs to a cluster of taste; the j-th cluster has about 1/j as many people as the first.

    >>> people = synthetic_people(1000, 50, seed=0)
    >>> len(people), people.n_items
    (1000, 50)
    """
    import scipy.sparse as sp

    rng = PublicRandomness.seeded([20_001, seed]).generator
    orders = np.array([rng.permutation(n_items) for _ in range(_CLUSTERS + 1)])
    sizes = 1.0 / np.arange(1.0, _CLUSTERS + 1.0)
    homes = rng.choice(_CLUSTERS, size=rounds, p=sizes / sizes.sum())
    mean = min(taste.items, max(_MOST_WANTED / rounds, 30.0), n_items / 2.0)
    counts = np.minimum(rng.geometric(1.0 / max(1.0, mean), size=rounds), n_items)
    who = np.repeat(np.arange(rounds), counts)
    flat = min(taste.flat, n_items / 10.0)
    falling = np.cumsum((np.arange(1.0, n_items + 1.0) + flat) ** -taste.steep)
    ranks = np.searchsorted(falling, rng.random(who.size) * falling[-1])
    own = rng.random(who.size) < taste.own
    items = orders[np.where(own, homes[who], _CLUSTERS), np.minimum(ranks, n_items - 1)]
    wanted = sp.csr_array((np.ones(who.size), (who, items)), shape=(rounds, n_items))
    wanted.data[:] = 1.0  # an item that was drawn twice counts once
    return Coverage(wanted)


@dataclass(frozen=True)
class Size:
    """The size of a simulation."""

    rounds: int
    n_items: int
    k: int

    @classmethod
    def of(cls, rounds: int, n_items: int, k: int) -> Size:
        """The size to simulate for a question: its own, up to the largest that takes seconds."""
        items = min(n_items, max(_MOST_ITEMS, 2 * k))
        return cls(min(rounds, _MOST_ROUNDS), items, k)


@dataclass(frozen=True)
class Expected:
    """Share of the best fixed set's value: the median over simulated catalogues, with a wide interval.

    The interval spans all of them and a fifth of its length more on either side, as others exist.
    """

    share: float
    low: float
    high: float

    @classmethod
    def of(cls, shares: Sequence[float]) -> Expected:
        """From the shares on the catalogues."""
        least, most = min(shares), max(shares)
        wider = _WIDER * (most - least)
        return cls(float(np.median(shares)), max(0.0, least - wider), max(most, min(1.0, most + wider)))

    def __str__(self) -> str:
        return f"{self.share:.2f} ({self.low:.2f} to {self.high:.2f})"


@dataclass(frozen=True)
class Crowd:
    """The people of one simulated stream, with the values of the best set and of random sets for them."""

    people: Population
    best: float
    at_random: float  # mean share of random sets

    @classmethod
    def of(cls, people: Population, constraint: Constraint, run: int) -> Crowd:
        best = best_value(people, constraint)
        return cls(people, best, _at_random(people, best, constraint, run))


def crowds(
    size: Size,
    constraint: Constraint,
    count: int = FEWEST,
    *,
    first: int = 0,
    items: float | None = None,
    bound: float = 1.0,
    sample: Population | None = None,
) -> list[Crowd]:
    """Simulated streams, number ``first`` to ``count`` - 1, drawn from a public ``sample`` if it is given.

    ``items`` is the mean number of items of a person, if it is known.
    """
    found = []
    for run in range(first, count):
        taste = CATALOGUES[run]
        if sample is not None:
            rng = PublicRandomness.seeded([20_002, run]).generator
            people = sample[rng.integers(len(sample), size=size.rounds)]
        else:
            like = taste if items is None else taste._replace(items=items)
            people = synthetic_people(size.rounds, size.n_items, run, like)
            people = people if bound == 1.0 else people * bound
        found.append(Crowd.of(people, constraint, run))
    return found


def best_value(people: Population, constraint: Constraint) -> float:
    """The value of the best fixed set for these people, by greedy; with costs, by cost-benefit as well."""
    costs = costs_of(constraint)
    weights = [np.ones(people.n_items)] + ([] if costs is None else [costs.weights])
    values = []
    for weight in weights:
        state = people.start()
        while (left := np.flatnonzero(constraint.addable(np.array(state.items, dtype=np.intp)))).size:
            state.add(int(left[np.argmax((state.gains() * weight)[left])]))
        values.append(people.value(list(state.items)))
    return max(values)


def _at_random(people: Population, best: float, constraint: Constraint, run: int) -> float:
    """The mean share of sets that are drawn at random."""
    rng, values = PublicRandomness.seeded([20_003, run]).generator, []
    for _ in range(_RANDOM_SETS):
        chosen: list[int] = []
        order = rng.permutation(people.n_items)
        while (left := order[constraint.addable(np.array(chosen, dtype=np.intp))[order]]).size:
            chosen.append(int(left[0]))
        values.append(people.value(chosen))
    return float(np.mean(values)) / best if best else 1.0


def served(
    make: Callable[[int], OnlineLearner], crowd: Crowd, run: int, visits: Sequence[int] | None = None
) -> NDArray[np.float64]:
    """What a learner serves in each round, relative to the best fixed set's average.

    ``visits`` are the ids of people, if the learner needs them.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about few rounds; a plan shows their effect
        learner = make(run)
    rewards: NDArray[np.float64] = learner.run(crowd.people, person_ids=visits).rewards
    return rewards / crowd.best if crowd.best else np.ones(rewards.size)


def share_after(served: NDArray[np.float64], rounds: int) -> float:
    """The average share over ``rounds`` rounds; those beyond the simulation are like its last quarter."""
    share = float(served.mean())
    if rounds <= served.size:
        return share
    late = float(served[-max(1, served.size // 4) :].mean())
    return (share * served.size + late * (rounds - served.size)) / rounds


def people_needed(served: Sequence[NDArray[np.float64]], at_random: Sequence[float]) -> int | None:
    """The number of people from which on a learner is clearly better than random sets; None if it never is.

    Clearly: by a tenth of the way to the best set, averaged over catalogues. Rounded up to two digits.
    """
    gained = np.zeros(served[0].size)
    for one, chance in zip(served, at_random, strict=True):
        average = np.cumsum(one) / np.arange(1.0, one.size + 1.0)
        gained += (average - chance) / max(1.0 - chance, 1e-9)
    below = np.flatnonzero(gained < _LEAST_GAIN * len(served))
    if not below.size:
        return 1
    needed = int(below[-1]) + 2
    if needed > gained.size:
        return None
    digits = int(10 ** max(0, math.floor(math.log10(needed)) - 1))
    return -(-needed // digits) * digits
