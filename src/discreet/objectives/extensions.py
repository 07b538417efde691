"""Multilinear extensions where there is no closed form: over all sets, or over random ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..core.checks import whole
from ..privacy import Coins
from . import answers

if TYPE_CHECKING:
    from .base import Population

Floats = NDArray[np.float64]


def expected(values: Floats, x: Floats) -> tuple[float, Floats]:
    """The extension at ``x`` and its gradient, from the value of every set: one axis of length 2 per item."""
    gradient = np.zeros(x.size)
    for j in range(x.size):
        left = np.moveaxis(values, j, 0)
        entry = left[1] - left[0]
        for chance in np.delete(x, j):
            entry = (1.0 - chance) * entry[0] + chance * entry[1]
        gradient[j] = entry
    for chance in x:
        values = (1.0 - chance) * values[0] + chance * values[1]
    return float(values), gradient


def random_sets(x: Floats, rng: np.random.Generator | None, samples: int) -> list[NDArray[np.int64]]:
    """``samples`` sets that hold item j with probability x[j].

    They are drawn from the point, never from the data: public randomness, free of privacy cost.
    """
    count = whole("samples", samples, at_least=2)
    if rng is not None and not isinstance(rng, np.random.Generator):
        raise TypeError(f"rng must be a numpy.random.Generator or None, got {type(rng).__name__}")
    coins = Coins.fresh().generator if rng is None else rng
    return [np.flatnonzero(coins.random(x.size) < x) for _ in range(count)]


class SampledSets:
    """Random sets over which means are taken: each different one is asked about once.

    They follow from the point and the coins alone, and can be the same for many people.
    """

    def __init__(self, x: Floats, rng: np.random.Generator | None, samples: int) -> None:
        numbers: dict[bytes, int] = {}
        drawn = random_sets(x, rng, samples)
        self._which = np.array([numbers.setdefault(items.tobytes(), len(numbers)) for items in drawn])
        first = np.unique(self._which, return_index=True)[1]
        self._sets = {drawn[place].tobytes(): drawn[place] for place in first}

    def value(self, people: Population) -> float:
        """The mean of f over the sets."""
        values = [answers.number("value", people._value(items)) for items in self._sets.values()]
        return float(np.mean(np.array(values)[self._which]))

    def gradient(self, people: Population, known: Known | None = None) -> Floats:
        """The mean of f(R + j) - f(R without j) over the sets R, for every item j.

        ``known`` has what was asked of these people before, and is added to.
        """
        marginals = []
        for name, items in self._sets.items():
            row = None if known is None else known.get(name)
            if row is None:
                row = answers.vector("gains", people._gains(items), people.n_items)
                row[items] = answers.vector("contributions", people._contributions(items), items.size)
                if known is not None:
                    known.keep(name, row)
            marginals.append(row)
        return np.asarray(np.array(marginals)[self._which].mean(axis=0), dtype=np.float64)


class Known:
    """What items add to sets that somebody was asked about, as long as there is room."""

    def __init__(self, room: int) -> None:
        self._rows: dict[bytes, Floats] = {}
        self._room = room

    def get(self, name: bytes) -> Floats | None:
        """What was kept under this name."""
        return self._rows.get(name)

    def keep(self, name: bytes, row: Floats) -> None:
        """Keep a row, while there is room for so many."""
        if len(self._rows) < self._room:
            self._rows[name] = row


class SharedSets:
    """The gradients of many people at one point, over the same random sets; these are drawn when needed."""

    def __init__(self, x: Floats, seed: int, samples: int) -> None:
        self._x, self._seed, self._samples = x, seed, samples
        self._sets: SampledSets | None = None

    def gradient(self, person: Population, known: Known | None = None) -> Floats:
        """What ``person.multilinear_gradient`` answers with coins of this seed."""
        if not person.samples_sets:
            coins = Coins.seeded(self._seed).generator
            return person.multilinear_gradient(self._x.copy(), rng=coins, samples=self._samples)
        closed = person._extension(self._x)
        if closed is not None:
            return closed[1]
        if self._sets is None:
            self._sets = SampledSets(self._x, Coins.seeded(self._seed).generator, self._samples)
        return self._sets.gradient(person, known)
