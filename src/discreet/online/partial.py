"""Parts of a batch that are collected on other servers, each merged once.

A part is created for the open batch, sent to a server (it can be pickled), adds up people there and is sent
back. It holds integer sums of private data, not people, so a learner that merges parts decides exactly as if
it had seen the same people one at a time, however they were divided. For learners that store the people of a
window, parts store people too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import checks
from ..core.guards import fixed, read_only
from ..objectives import Population
from ..privacy import random_id

Units = NDArray[np.int64]
# Converts a person to what they add to the sums; people given as rows, to the sum of what they add.
Counting = Callable[[Any], Units]
About = tuple[str, int, int | None, str]  # server, batch, room and learner of a part


@dataclass(frozen=True)
class SumLayout:
    """The sums of a batch: their shape, the range of one person's entries, and how to compute these."""

    shape: tuple[int, ...]
    least: Any
    most: Any
    units: Counting


@fixed
class Partial:
    """The people of one server in one batch of a learner.

    ``server`` and ``batch`` name it: a learner merges one part per pair, and no ``id`` (random) twice even
    under another name. ``room`` is how many people the batch could take when the part was created, and
    ``learner`` identifies the learner that created it. All of this is read-only, and a part that was changed
    in transit is refused. ``given`` converts any form that ``learn`` takes to a person.
    """

    def __init__(self, about: About, given: Callable[[Any, Any], Any]) -> None:
        self.server, self.batch, self.room, self.learner = about
        self.id = random_id()
        self._given = given
        self._count = 0
        self._caveats: tuple[str, ...] = ()

    @property
    def count(self) -> int:
        """How many people were added."""
        return self._count

    @property
    def caveats(self) -> tuple[str, ...]:
        """Caveats about these people; the learner that merges the part adds them to its account."""
        return self._caveats

    def add(self, person: Any = None, *, items: Iterable[Any] | Mapping[Any, float] | None = None) -> None:
        """Add a person, in any of the forms that the learner's ``learn`` takes.

        There is no ``person_id`` here: a person who returns is not recognized, on this server or another.
        """
        self._check_room(1)
        given = self._given(person, items)
        self._take(given)
        self._counted(1, getattr(given, "caveats", ()))

    def add_all(self, people: Population) -> None:
        """Add everybody in a population, in memory or in a store (by its engine), or nobody.

        Each of them uses one round of the learner, as with ``add``; a person who comes again, in another
        batch or to another server, uses more than one.
        """
        checks.instance("people", people, Population, "Coverage.from_store(store)")
        self._check_room(len(people))
        self._take_all(people)
        self._counted(len(people), people.caveats)

    def _check_room(self, more: int) -> None:
        if self.room is not None and self.count + more > self.room:
            raise RuntimeError(
                f"the batch has room for {self.room} people, and {self.count} were taken up; merge this part"
            )

    def _counted(self, more: int, caveats: Iterable[str]) -> None:
        self._count += more
        self._caveats = tuple(dict.fromkeys((*self._caveats, *caveats)))

    def _take(self, person: Any) -> None:
        """Add a person, or refuse them and change nothing."""
        raise NotImplementedError

    def _take_all(self, people: Population) -> None:
        """Add everybody, or refuse them and change nothing."""
        raise NotImplementedError

    def _content(self) -> bytes:
        """The content as bytes, for `_seal`."""
        raise NotImplementedError

    def _seal(self) -> str:
        """A hash of the part's identity and content, to detect changes to either in transit."""
        about = (self.server, self.batch, self.room, self.learner, self.id, self._count, self._caveats)
        return hashlib.sha256(repr(about).encode() + b"\n" + self._content()).hexdigest()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_sealed": self._seal()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        sealed = state.pop("_sealed", None)
        self.__dict__.update(state)
        if sealed != self._seal():
            raise ValueError("the part was changed while it travelled; its people are not learned from")

    def __len__(self) -> int:
        return self.count

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.server!r}, batch {self.batch}: {self.count:,} people)"


class SummedPart(Partial):
    """A part that holds integer sums of its people, and no people."""

    def __init__(
        self,
        about: About,
        given: Callable[[Any, Any], Any],
        shape: tuple[int, ...],
        units: Counting,
        everybody: Counting | None = None,
    ) -> None:
        super().__init__(about, given)
        self._sums: Units = np.zeros(shape, dtype=np.int64)
        self._units, self._everybody = units, everybody

    @property
    def sums(self) -> Units:
        """The sums, read-only."""
        return read_only(self._sums)

    def _content(self) -> bytes:
        return self._sums.tobytes()

    def _take(self, person: Any) -> None:
        self._sums += self._units(person)

    def _take_all(self, people: Population) -> None:
        if self._everybody is None:
            raise TypeError("this learner takes rewards, one after the other: add() them")
        self._sums += self._everybody(people)

    def check(self, least: Any, most: Any) -> None:
        """Refuse sums that this many people, who add ``least`` to ``most`` units each, cannot have."""
        checks.whole("count", self.count, at_least=0)
        low, high = self.count * np.asarray(least), self.count * np.asarray(most)
        if self.sums.dtype != np.int64 or (self.sums < low).any() or (self.sums > high).any():
            raise ValueError("the part holds sums that its people cannot have; it was not made here")


class KeptPart(Partial):
    """A part that holds the people themselves; people in a store stay there, and it holds the store."""

    def __init__(self, about: About, given: Callable[[Any, Any], Any], checked: Callable[[Any], Any]) -> None:
        super().__init__(about, given)
        self._people: list[Any] = []
        self._stores: list[Any] = []
        self._checked = checked

    @property
    def people(self) -> tuple[Any, ...]:
        """The people that were added from memory."""
        return tuple(self._people)

    @property
    def stores(self) -> tuple[Any, ...]:
        """The stores of the other people."""
        return tuple(self._stores)

    def _content(self) -> bytes:
        held = hashlib.sha256()
        for rows in (person.as_rows() for person in self._people):  # every stored person is a row
            held.update(repr((rows.kind.code, rows.sparse.indptr.tolist())).encode())
            for array in (rows.sparse.indices, rows.sparse.data, rows.share, rows.cap):
                held.update(array.tobytes())
        return repr((held.hexdigest(), [len(store) for store in self._stores])).encode()

    def _take(self, person: Any) -> None:
        self._people.append(self._checked(person))

    def _take_all(self, people: Population) -> None:
        if people.stored:
            self._stores.append(self._checked(people))
        else:
            self._people.extend([self._checked(person) for person in people])


class MergedParts:
    """Which parts of the open batch have been merged, by server and by id."""

    _state = ("_batch", "_names")

    def __init__(self) -> None:
        self._batch = 0
        self._names: list[tuple[str, str]] = []

    def check(self, part: Partial, batch: int, room: int | None, left: int | None) -> None:
        """Refuse a part of another batch, one that was merged before, or one with too many people."""
        if part.batch != batch:
            raise ValueError(f"{part!r} is late: batch {batch} is open; its people are not learned from")
        known = self._names if self._batch == batch else []
        if any(part.server == server or part.id == random for server, random in known):
            raise ValueError(f"a part of {part.server!r} was merged in batch {batch} already")
        if room is not None and part.count > room:
            raise ValueError(f"the open batch has room for {room} people; the part has {part.count}")
        if left is not None and part.count > left:
            raise ValueError(f"{left} of the declared rounds are left; the part has {part.count} people")

    def add(self, part: Partial) -> None:
        """Record a part that is about to be merged."""
        if self._batch != part.batch:
            self._batch, self._names = part.batch, []
        self._names.append((part.server, part.id))
