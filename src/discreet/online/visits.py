"""Who has been here how often, without keeping who: identities become keyed hashes at once."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterable

import numpy as np
from numpy.typing import NDArray

from ..privacy import Randomness

_KEY_WORDS = 4


class Visits:
    """Counts rounds per person up to a limit; holds only hashes under a key of its own.

    >>> from discreet.privacy import ReproducibleRandomness
    >>> visits = Visits(2, ReproducibleRandomness(0))
    >>> [visits.admit("ann"), visits.admit("ann"), visits.admit("ann"), visits.admit("bob")]
    [True, True, False, True]
    """

    def __init__(self, limit: int, source: Randomness) -> None:
        self._limit = limit
        self._key = source.words(_KEY_WORDS).tobytes()
        self._counts: dict[bytes, int] = {}

    def admit(self, person: Hashable | None) -> bool:
        """Whether this round of ``person`` may be learned from; counts it if so. None is nobody known."""
        if person is None:
            return True
        name = f"{type(person).__name__}:{person!r}".encode()
        mark = hashlib.blake2b(name, key=self._key, digest_size=16).digest()
        seen = self._counts.get(mark, 0)
        if seen >= self._limit:
            return False
        self._counts[mark] = seen + 1
        return True

    def admit_all(self, people: Iterable[Hashable | None], count: int) -> NDArray[np.bool_]:
        """`admit` for each of a stream."""
        return np.fromiter((self.admit(person) for person in people), dtype=np.bool_, count=count)

    def arrays(self) -> dict[str, NDArray[np.uint8] | NDArray[np.int64]]:
        """For saving."""
        return {
            "visit_key": np.frombuffer(self._key, dtype=np.uint8),
            "visit_marks": np.frombuffer(b"".join(self._counts), dtype=np.uint8),
            "visit_counts": np.fromiter(self._counts.values(), dtype=np.int64, count=len(self._counts)),
        }

    @classmethod
    def restored(cls, limit: int, arrays: dict[str, NDArray[np.uint8]]) -> Visits:
        visits = object.__new__(cls)
        visits._limit, visits._key = limit, arrays["visit_key"].tobytes()
        marks = arrays["visit_marks"].tobytes()
        visits._counts = {
            marks[16 * i : 16 * i + 16]: int(count) for i, count in enumerate(arrays["visit_counts"])
        }
        return visits
