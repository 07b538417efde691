"""Expected shares: what candidates serve on made-up people of the size that was asked about.

A certificate bounds the worst stream. What to expect is another question, and its answer depends on people
who are not there yet. So candidates are tried on populations whose popularity falls as it does in most
catalogues (`made_up`), or on a public sample that the user gives. Nobody's private data is looked at.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ..constraints import Constraint
from ..objectives import Coverage, Population
from ..online import OnlineLearner
from ..privacy import Coins

# Sizes that are simulated; larger questions are answered by these.
_MOST_ROUNDS = 20_000
_MOST_ITEMS = 5_000
_MOST_WORK = 4e8  # rounds x items x k
RUNS = 3
_RANDOM_SETS = 30
_CLUSTERS = 5
_OWN_TASTE = 0.6  # how much of what people want is their own cluster's
_MORE_ITEMS = 2.0  # items of a person beside the first, on average


@dataclass(frozen=True)
class Expected:
    """Share of the best fixed set's value: the mean over simulated streams, and their standard deviation."""

    share: float
    spread: float

    def __str__(self) -> str:
        return f"{self.share:.2f} +- {self.spread:.2f}"


@dataclass(frozen=True)
class Size:
    """The size of a simulation."""

    rounds: int
    n_items: int
    k: int

    @classmethod
    def of(cls, rounds: int, n_items: int, k: int) -> Size:
        """What stands for a question: the question's own size, or the largest that takes seconds."""
        items = min(n_items, max(_MOST_ITEMS, 2 * k))
        longest = max(2_000, round(_MOST_WORK / (items * k)))
        return cls(min(rounds, _MOST_ROUNDS, longest), items, min(k, items))


def made_up(rounds: int, n_items: int, seed: int) -> Coverage:
    """People who want a few items each, of a catalogue whose popularity falls with the rank.

    Everybody belongs to a cluster of taste; the j-th cluster has 1/j as many people as the first. Part of
    what a person wants is drawn from a common order of the items, the rest from the cluster's own, always
    with probability proportional to 1/rank.

    >>> people = made_up(1000, 50, seed=0)
    >>> len(people), people.n_items
    (1000, 50)
    """
    import scipy.sparse as sp

    rng = Coins.seeded([20_001, seed]).generator
    orders = np.array([rng.permutation(n_items) for _ in range(_CLUSTERS + 1)])
    sizes = 1.0 / np.arange(1.0, _CLUSTERS + 1.0)
    homes = rng.choice(_CLUSTERS, size=rounds, p=sizes / sizes.sum())
    counts = 1 + rng.poisson(_MORE_ITEMS, size=rounds)
    who = np.repeat(np.arange(rounds), counts)
    falling = np.cumsum(1.0 / np.arange(1.0, n_items + 1.0))
    ranks = np.searchsorted(falling, rng.random(who.size) * falling[-1])
    own = rng.random(who.size) < _OWN_TASTE
    items = orders[np.where(own, homes[who], _CLUSTERS), np.minimum(ranks, n_items - 1)]
    wanted = sp.csr_array((np.ones(who.size), (who, items)), shape=(rounds, n_items))
    wanted.data[:] = 1.0  # what was drawn twice is wanted once
    return Coverage(wanted)


def streams(size: Size, bound: float, sample: Population | None) -> list[Population]:
    """The people of a few simulated streams."""
    if sample is None:
        found: list[Population] = [made_up(size.rounds, size.n_items, seed) for seed in range(RUNS)]
        return found if bound == 1.0 else [people * bound for people in found]
    drawn = [Coins.seeded([20_002, seed]).generator for seed in range(RUNS)]
    return [sample[rng.integers(len(sample), size=size.rounds)] for rng in drawn]


def best_values(people: Sequence[Population], constraint: Constraint) -> list[float]:
    """What the best fixed set is worth to the people of each stream, by greedy."""
    return [crowd.value(_taken_in_turn(crowd, constraint)) for crowd in people]


def _taken_in_turn(people: Population, constraint: Constraint) -> list[int]:
    state = people.start()
    while (left := np.flatnonzero(constraint.addable(np.array(state.items, dtype=np.intp)))).size:
        state.add(int(left[np.argmax(state.gains()[left])]))
    return list(state.items)


def at_random(people: Sequence[Population], best: Sequence[float], constraint: Constraint) -> Expected:
    """The share of sets that are drawn at random."""
    shares = []
    for run, (crowd, most) in enumerate(zip(people, best, strict=True)):
        rng = Coins.seeded([20_003, run]).generator
        values = []
        for _ in range(_RANDOM_SETS):
            chosen: list[int] = []
            order = rng.permutation(crowd.n_items)
            while (left := order[constraint.addable(np.array(chosen, dtype=np.intp))[order]]).size:
                chosen.append(int(left[0]))
            values.append(crowd.value(chosen))
        shares.append(float(np.mean(values)) / most if most else 1.0)
    return _summary(shares)


def served(
    make: Callable[[int], OnlineLearner],
    people: Sequence[Population],
    best: Sequence[float],
    visits: Sequence[int] | None = None,
) -> Expected:
    """What a learner serves, of what the best fixed set would; ``visits`` says who comes, if that matters."""
    shares = []
    for run, (crowd, most) in enumerate(zip(people, best, strict=True)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of published constants; a plan's notes say it
            learner = make(run)
        trace = learner.run(crowd, person_ids=visits)
        shares.append(float(trace.average) / most if most else 1.0)
    return _summary(shares)


def _summary(shares: Sequence[float]) -> Expected:
    spread = float(np.std(shares, ddof=1)) if len(shares) > 1 else math.nan
    return Expected(float(np.mean(shares)), spread)
