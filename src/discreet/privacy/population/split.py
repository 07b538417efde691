"""People in disjoint parts by a keyed hash of who they are."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterable

import numpy as np
from numpy.typing import NDArray

from ...core import checks
from ...core.fixed import Fixed
from ...core.identity import canonical
from ..gate import Gate

_SHORTEST, _LONGEST = 16, 64


class PeopleSplit(Fixed):
    """Everybody is in one of ``parts`` parts, by a hash of their identity under ``key``.

    What is released about different parts composes in parallel: each part gets the whole budget, and the
    account takes the worst of them. The part follows from the identity and the key alone. So exchanging
    somebody's data, or taking the person away, changes what one part sees and no other, which is what the
    account says; a person who comes under two identities is two people. Learn from a person only behind the
    gate of their part.

    ``key`` is 16 to 64 bytes, such as ``gate.key()``. It must stay the same as long as the budget does: a
    gate refuses parts under another one. It need not be secret for the guarantee; a secret one keeps people
    from choosing their part, and others from knowing it.

    >>> split = PeopleSplit(4, bytes(16))
    >>> split.part_of("ann") == split.part_of(np.str_("ann")) < 4
    True
    >>> split.parts_of(["ann", 7, 7.0])[1:].tolist() == [split.part_of(7)] * 2
    True
    """

    def __init__(self, parts: int, key: bytes) -> None:
        self.parts = checks.whole("parts", parts, at_least=1, at_most=10**6)
        if not isinstance(key, bytes) or not _SHORTEST <= len(key) <= _LONGEST:
            raise ValueError(f"key must be {_SHORTEST} to {_LONGEST} bytes, such as gate.key()")
        self._key = key
        mark = hashlib.blake2b(str(self.parts).encode(), key=key, digest_size=6, person=b"split's name")
        self._family = f"people by hash {mark.hexdigest()}"

    def part_of(self, person: Hashable) -> int:
        """The part of one person: text, a number, a UUID or a tuple of these."""
        name = repr(canonical(person)).encode()
        found = hashlib.blake2b(name, key=self._key, digest_size=16, person=b"people split").digest()
        return int.from_bytes(found) % self.parts

    def parts_of(self, people: Iterable[Hashable]) -> NDArray[np.int64]:
        """The part of each of many."""
        return np.fromiter((self.part_of(person) for person in people), dtype=np.int64)

    def gate(self, gate: Gate, part: int) -> Gate:
        """The gate of one part's people."""
        checks.instance("gate", gate, Gate, "Gate(budget)")
        number = checks.whole("part", part, at_least=0, at_most=self.parts - 1)
        return gate.part(f"{self._family}: {number} of {self.parts}")

    def __repr__(self) -> str:
        return f"PeopleSplit({self.parts}, key=...)"
