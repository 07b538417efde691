"""Public coins: randomness that protects nobody, that everybody may see, and that costs no budget.

Rounding a point to a set, exploring, sampling a set, choosing which items of somebody count: such coins must
not depend on private data, and need not be secret. They are drawn through `Coins`, and nothing else is:
whoever reads the code, and the audit, can tell them from the noise that protects people (`Release`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import checks
from .randomness import Randomness, Seed, randomness

_WORDS = 4
_LARGEST = (1 << 64) - 1


class Coins:
    """A stream of public coins (``generator``), and a coin for every round by its number (`of_rounds`).

    Both follow from a few words. Never use them for noise on private data: their numbers are floating point
    and their algorithm is not cryptographic.

    >>> coins = Coins([1, 2, 3, 4])
    >>> coins.of_rounds(5, 2).tolist() == Coins([1, 2, 3, 4]).of_rounds(5, 2).tolist()
    True
    """

    _state = ("_words", "_stream")

    def __init__(self, words: Sequence[int]) -> None:
        self._words = tuple(checks.whole("words", word, at_least=0, at_most=_LARGEST) for word in words)
        if not self._words:
            raise ValueError("words is empty; coins follow from at least one word")
        self._generator: np.random.Generator | None = None

    @classmethod
    def drawn(cls, source: Randomness, words: int = _WORDS) -> Coins:
        """Coins keyed with fresh words of ``source``: every public coin of the library begins here.

        A source may name another one for them (``coins``), so that an audit can hold them fixed.
        """
        public: Randomness = getattr(source, "coins", source)
        checks.instance("source", public, Randomness, "ReproducibleRandomness(7)")
        return cls(public.words(checks.whole("words", words, at_least=1, at_most=_WORDS)).tolist())

    @classmethod
    def seeded(cls, seed: int | Sequence[int]) -> Coins:
        """Coins of a number that everybody knows: for made-up data and experiments."""
        return cls([seed] if isinstance(seed, int | np.integer) else seed)

    @classmethod
    def fresh(cls) -> Coins:
        """Coins that nobody can foresee, for whoever gives neither a seed nor a gate."""
        return cls.drawn(randomness(None))

    @property
    def words(self) -> NDArray[np.uint64]:
        """The words themselves."""
        return np.array(self._words, dtype=np.uint64)

    @property
    def generator(self) -> np.random.Generator:
        """The stream, as a NumPy generator."""
        if self._generator is None:
            self._generator = np.random.Generator(np.random.PCG64(list(self._words)))
        return self._generator

    def of_rounds(self, first: int, count: int) -> NDArray[np.uint64]:
        """One word for each of the rounds ``first``, ``first + 1``, ...; nothing is used up by asking."""
        source = np.random.PCG64(list(self._words))
        source.advance(checks.whole("first", first, at_least=0))
        return np.asarray(source.random_raw(checks.whole("count", count, at_least=0)), dtype=np.uint64)

    def of_round(self, number: int) -> np.random.Generator:
        """A stream of its own for one round, the same whenever it is asked for."""
        key = [*self._words, checks.whole("number", number, at_least=0)]
        return np.random.Generator(np.random.PCG64(key))

    @property
    def _stream(self) -> dict[str, Any] | None:
        """Where the stream stands; None where it has not begun."""
        return None if self._generator is None else dict(self._generator.bit_generator.state)

    @_stream.setter
    def _stream(self, stream: dict[str, Any] | None) -> None:
        self._generator = None
        if stream is not None:
            self.generator.bit_generator.state = stream

    def __repr__(self) -> str:
        return "Coins()"


def public_key(seed: Seed | Coins | np.random.Generator, words: int) -> NDArray[np.uint64]:
    """Words of a public key, by which data is put in an order that follows from nobody's data."""
    if isinstance(seed, Coins):
        return seed.words[:words]
    if isinstance(seed, np.random.Generator):
        return seed.integers(0, 1 << 64, size=words, dtype=np.uint64)
    return randomness(seed).words(words)
