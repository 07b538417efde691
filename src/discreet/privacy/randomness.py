"""Random words from the operating system or a seed, and the public randomness derived from them.

All randomness of the library starts from 64-bit words drawn here. The secure source keeps no state of its
own, so there is nothing a fork, a thread or a copy could duplicate.

Rounding a point to a set, exploring, sampling a set, choosing which items of a person count: such draws
protect nobody, must not depend on private data, may be known, and cost no budget. They are made by
`PublicRandomness`; protective noise is drawn by a `Release`, so that readers and the audit can tell them
apart.
"""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from typing import Any, NoReturn, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ..core import checks
from ..core.guards import fixed
from ..core.state import refusing

_MOST_WORDS = 1 << 34
_AT_ONCE = 1 << 30  # bytes
_KEY = 4  # words
_LARGEST = (1 << 64) - 1


@runtime_checkable
class Randomness(Protocol):
    """A source of independent uniform 64-bit words."""

    secure: bool

    def words(self, count: int) -> NDArray[np.uint64]:
        """``count`` fresh words."""
        ...

    def state(self) -> dict[str, Any] | None:
        """The state from which to continue after a restart; None if nothing is or may be kept."""
        ...


@fixed
class SecureRandomness:
    """Words from OpenSSL's generator, which the operating system seeds.

    The generator reseeds itself after a fork and is safe to use from several threads; nothing is buffered
    here. Copying and pickling are refused, so that it cannot be carried into another process by accident.
    """

    secure = True

    def words(self, count: int) -> NDArray[np.uint64]:
        left = 8 * checks.whole("count", count, at_least=0, at_most=_MOST_WORDS)
        parts = [ssl.RAND_bytes(min(_AT_ONCE, left - start)) for start in range(0, left, _AT_ONCE)]
        return np.frombuffer(b"".join(parts), dtype=np.uint64)

    def state(self) -> None:
        return None

    def _refuse(self, *_: object) -> NoReturn:
        raise TypeError("secure randomness is not copied or pickled; make a new one where it is needed")

    __reduce_ex__ = _refuse
    __copy__ = _refuse
    __deepcopy__ = _refuse

    def __repr__(self) -> str:
        return "SecureRandomness()"


@fixed
class ReproducibleRandomness:
    """Words that anyone who knows the seed can compute: for tests and papers, never for real people.

    Every account of a gate that draws from it states this.

    >>> ReproducibleRandomness(7).words(2).tolist() == ReproducibleRandomness(7).words(2).tolist()
    True
    """

    secure = False

    def __init__(self, seed: int) -> None:
        self._bits = np.random.Philox(checks.whole("seed", seed, at_least=0))

    def words(self, count: int) -> NDArray[np.uint64]:
        few = type(count) is int and 0 <= count <= _MOST_WORDS
        wanted = count if few else checks.whole("count", count, at_least=0, at_most=_MOST_WORDS)
        return np.asarray(self._bits.random_raw(wanted), dtype=np.uint64)

    def state(self) -> dict[str, Any]:
        with self._bits.lock:
            inner: dict[str, Any] = dict(self._bits.state)
        return {
            "counter": [int(word) for word in inner["state"]["counter"]],
            "key": [int(word) for word in inner["state"]["key"]],
            "buffer": [int(word) for word in inner["buffer"]],
            "buffer_pos": int(inner["buffer_pos"]),
            "has_uint32": int(inner["has_uint32"]),
            "uinteger": int(inner["uinteger"]),
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> ReproducibleRandomness:
        """A source that continues exactly from ``state``."""
        source = cls(0)

        def words(name: str, count: int) -> NDArray[np.uint64]:
            if len(state[name]) != count:
                raise ValueError(f"{name} has {len(state[name])} entries; {count} expected")
            found = [checks.whole(name, word, at_least=0, at_most=_LARGEST) for word in state[name]]
            return np.array(found, dtype=np.uint64)

        def whole(name: str, most: int) -> int:
            return checks.whole(name, state[name], at_least=0, at_most=most)

        with refusing("the source"):  # NumPy accepts any numbers, also a position outside its buffer
            source._bits.state = {
                "bit_generator": "Philox",
                "state": {"counter": words("counter", 4), "key": words("key", 2)},
                "buffer": words("buffer", 4),
                "buffer_pos": whole("buffer_pos", 4),
                "has_uint32": whole("has_uint32", 1),
                "uinteger": whole("uinteger", (1 << 32) - 1),
            }
        return source

    def __repr__(self) -> str:
        return "ReproducibleRandomness()"


def random_id() -> str:
    """A unique id for saved and charged objects; never derived from a seed."""
    return ssl.RAND_bytes(16).hex()


# What a seed= may be: None for secure randomness, a number for a reproducible run, or a source.
Seed = int | Randomness | None


def randomness(seed: Seed) -> Randomness:
    """Secure randomness for None, a reproducible source for a number, a source as it is."""
    if seed is None:
        return SecureRandomness()
    if not isinstance(seed, int) and isinstance(seed, Randomness):
        return seed
    return ReproducibleRandomness(seed)


def restored(state: dict[str, Any] | None) -> Randomness:
    """The source that a saved state stands for; fresh secure randomness if none was kept."""
    return SecureRandomness() if state is None else ReproducibleRandomness.from_state(state)


class PublicRandomness:
    """A stream of public randomness (``generator``), and a word for every round by its number (`of_rounds`).

    Both follow from a few words. Never use them for noise on private data: their numbers are floating point
    and their algorithm is not cryptographic.

    >>> public = PublicRandomness([1, 2, 3, 4])
    >>> public.of_rounds(5, 2).tolist() == PublicRandomness([1, 2, 3, 4]).of_rounds(5, 2).tolist()
    True
    """

    _state = ("_words", "_stream")

    def __init__(self, words: Sequence[int]) -> None:
        self._words = tuple(checks.whole("words", word, at_least=0, at_most=_LARGEST) for word in words)
        if not self._words:
            raise ValueError("words is empty; public randomness follows from at least one word")
        self._generator: np.random.Generator | None = None

    @classmethod
    def drawn(cls, source: Randomness, words: int = _KEY) -> PublicRandomness:
        """Keyed with fresh words of ``source``: all public randomness of the library starts here.

        A source may name another one for this (``public``), so that an audit can hold it fixed.
        """
        public: Randomness = getattr(source, "public", source)
        checks.instance("source", public, Randomness, "ReproducibleRandomness(7)")
        return cls(public.words(checks.whole("words", words, at_least=1, at_most=_KEY)).tolist())

    @classmethod
    def seeded(cls, seed: int | Sequence[int]) -> PublicRandomness:
        """Keyed with a publicly known number: for synthetic data and experiments."""
        return cls([seed] if isinstance(seed, int | np.integer) else seed)

    @classmethod
    def fresh(cls) -> PublicRandomness:
        """Keyed with secure randomness, where neither a seed nor a gate is given."""
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
        """One word for each of the rounds ``first``, ``first + 1``, ...; does not advance the stream."""
        source = np.random.PCG64(list(self._words))
        source.advance(checks.whole("first", first, at_least=0))
        return np.asarray(source.random_raw(checks.whole("count", count, at_least=0)), dtype=np.uint64)

    def of_round(self, number: int) -> np.random.Generator:
        """A separate stream for one round, the same on every call."""
        key = [*self._words, checks.whole("number", number, at_least=0)]
        return np.random.Generator(np.random.PCG64(key))

    @property
    def _stream(self) -> dict[str, Any] | None:
        """The position of the stream; None if it has not begun."""
        return None if self._generator is None else dict(self._generator.bit_generator.state)

    @_stream.setter
    def _stream(self, stream: dict[str, Any] | None) -> None:
        self._generator = None
        if stream is not None:
            self.generator.bit_generator.state = stream

    def __repr__(self) -> str:
        return "PublicRandomness()"


def public_key(seed: Seed | PublicRandomness | np.random.Generator, words: int) -> NDArray[np.uint64]:
    """Words of a public key, for hashes and orders that are independent of the data."""
    if isinstance(seed, PublicRandomness):
        return seed.words[:words]
    if isinstance(seed, np.random.Generator):
        return seed.integers(0, 1 << 64, size=words, dtype=np.uint64)
    return randomness(seed).words(words)
