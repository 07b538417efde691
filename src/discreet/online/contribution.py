"""Contribution bounds of a person in a stream: how many rounds count, and how many items of each.

Rounds. Who has been here how often is counted without keeping who: identities become keyed hashes at once.

Items, and why the coins that choose among them may be known. What a learner sees of round t is cut by the
coin of round t and by nothing that anybody else has: not their items, not whether they had any to cut, not
whether a call failed. Which person a round is for does not change either when somebody else is exchanged, or
absent: online, an absent person leaves a round that passes with nothing learned. So for each sequence of
coins two neighbouring streams are cut to streams that differ in one person's rounds, where each round moves
at most ``cap`` items (2 cap when exchanged): what the sensitivity says. A stream from which a row is taken
out, so that the others move up a round, is no neighbour: there everybody's round changes, capped or not.
"""

from __future__ import annotations

import hashlib
import math
import uuid
from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.state import Saved
from ..objectives import Population
from ..privacy import Coins

_KEY_WORDS = 4


class ContributionLimit:
    """Counts rounds per person up to a limit; holds only hashes under a key of its own.

    >>> limit = ContributionLimit(2, bytes(32))
    >>> [limit.register(who) for who in ("ann", "ann", "ann", "bob")]
    [True, True, False, True]
    """

    def __init__(self, limit: int, key: bytes) -> None:
        self._limit = limit
        self._key = key
        self._counts: dict[bytes, int] = {}

    def register(self, person: Hashable | None) -> bool:
        """Whether this round of ``person`` may be learned from; counts it if so. None is nobody known."""
        if person is None:
            return True
        hashed = self._hash(person)
        seen = self._counts.get(hashed, 0)
        if seen >= self._limit:
            return False
        self._counts[hashed] = seen + 1
        return True

    def forget(self, person: Hashable | None) -> None:
        """Take back one round of ``person`` that was counted and did not happen; None was not counted."""
        if person is None:
            return
        hashed = self._hash(person)
        self._counts[hashed] -= 1
        if not self._counts[hashed]:
            del self._counts[hashed]

    def _hash(self, person: Hashable) -> bytes:
        return hashlib.blake2b(repr(_plain(person)).encode(), key=self._key, digest_size=16).digest()

    def register_all(self, people: Iterable[Hashable | None], count: int) -> NDArray[np.bool_]:
        """`register` for each of a stream; where one of them is refused nobody has been counted."""
        within_limit = np.zeros(count, dtype=np.bool_)
        counted: list[Hashable | None] = []
        try:
            for i, person in enumerate(people):
                if self.register(person):
                    within_limit[i] = True
                    counted.append(person)
        except BaseException:
            for person in counted:
                self.forget(person)
            raise
        return within_limit

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The key, and how often each hash was counted, for `resume`."""
        return {}, {
            "key": np.frombuffer(self._key, dtype=np.uint8),
            "hashes": np.frombuffer(b"".join(self._counts), dtype=np.uint8),
            "counts": np.fromiter(self._counts.values(), dtype=np.int64, count=len(self._counts)),
        }

    def resume(self, saved: Saved) -> None:
        """Go on with what was counted before."""
        self._key = saved.array("key", (8 * _KEY_WORDS,), np.uint8).tobytes()
        counts = saved.array("counts", (None,), np.int64, at_least=0, at_most=self._limit)
        hashes = saved.array("hashes", (16 * counts.size,), np.uint8).tobytes()
        self._counts = {hashes[16 * i : 16 * i + 16]: int(count) for i, count in enumerate(counts)}
        if len(self._counts) != counts.size:
            raise ValueError("the array hashes names somebody twice")


def _plain(person: Hashable) -> Hashable:
    """One form for identities that are equal: NumPy's and Python's numbers, 5 and 5.0, text of any kind.

    Kinds of text and numbers that somebody made of these (enumerations, for one) print as they like, and so
    they are taken for what they are equal to.
    """
    value = person.item() if isinstance(person, np.generic) else person
    if isinstance(value, tuple):
        return tuple(_plain(part) for part in value)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, bytes):
        return memoryview(value).tobytes()
    if isinstance(value, int):
        return int.__int__(value)
    if isinstance(value, float):
        number = float.__float__(value)
        if not math.isfinite(number):
            raise ValueError(f"person_id is {number}, which names nobody; use None for somebody unknown")
        return int(number) if number.is_integer() else number
    if isinstance(value, uuid.UUID):
        return uuid.UUID(int=value.int)
    raise TypeError(
        f"person_id must be text, a number, a UUID or a tuple of these, got {type(person).__name__}: other"
        " objects have no name that stays the same"
    )


def capped(people: Population, cap: int | None, coins: Coins, first: int) -> Population:
    """The people of rounds ``first``, ``first + 1``, ... as a learner counts them: ``cap`` items at most.

    A round's coin is the one of its number. Nothing is used up, so a call
    that fails changes nothing, and rounds are cut alike one by one and many at once.
    """
    if cap is None or (people.items_per_person is not None and people.items_per_person <= cap):
        return people
    if not hasattr(people, "cap_items_by"):
        raise ValueError(
            f"items_per_person={cap}, but {type(people).__name__} has no items to cap; leave it out"
        )
    found: Population = people.cap_items_by(cap, coins.of_rounds(first, len(people)))
    return found
