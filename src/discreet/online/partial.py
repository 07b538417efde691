"""Parts of a crowd on other servers, to be merged once.

A part is made for the batch that is open, travels to a server (it can be pickled), takes up people there and
comes back. It holds integer sums of private data, and no people, so a learner that merges parts decides what
it would have decided with the same people one by one, however they were divided. Learners that keep the
people of a window have parts that keep theirs.
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
# What makes a person's part in sums of a person; of many people who are rows, the sum of their parts.
Counting = Callable[[Any], Units]
About = tuple[str, int, int | None, str]  # server, batch, room and learner of a part


@dataclass(frozen=True)
class SumLayout:
    """What people add to the sums of a batch: their shape, the range of one person's entries, what counts."""

    shape: tuple[int, ...]
    least: Any
    most: Any
    units: Counting


@fixed
class Partial:
    """The people of one server in one batch of a learner.

    ``server`` and ``batch`` name it: of each pair a learner merges one. A random ``id`` goes with its people
    as well, whatever it is called. ``room`` is how many people the batch had room for when the part was made,
    and ``learner`` tells the learner that made it from others. All of this is read-only, and a part that was
    changed while it travelled is refused. ``given`` makes a person of the forms that ``learn`` takes.
    """

    def __init__(self, about: About, given: Callable[[Any, Any], Any]) -> None:
        self.server, self.batch, self.room, self.learner = about
        self.id = random_id()
        self._given = given
        self._count = 0
        self._caveats: tuple[str, ...] = ()

    @property
    def count(self) -> int:
        """How many people were taken up."""
        return self._count

    @property
    def caveats(self) -> tuple[str, ...]:
        """What accounts have to say of these people; the learner that merges the part says so."""
        return self._caveats

    def add(self, person: Any = None, *, items: Iterable[Any] | Mapping[Any, float] | None = None) -> None:
        """Take up a person, in any of the forms that the learner's ``learn`` takes.

        There is no ``person_id`` here, so nobody who comes again is recognised, on this server or another.
        """
        self._check_room(1)
        given = self._given(person, items)
        self._take(given)
        self._counted(1, getattr(given, "caveats", ()))

    def add_all(self, people: Population) -> None:
        """Take up everybody of a population, in memory or in a store (by its engine), or nobody.

        Each of them has one round of the learner's, as with ``add``: who comes again, in another batch or to
        another server, has more than one.
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
        """Take up a person, or refuse them and stay as it is."""
        raise NotImplementedError

    def _take_all(self, people: Population) -> None:
        """Take up everybody, or refuse them and stay as it is."""
        raise NotImplementedError

    def _content(self) -> bytes:
        """What it holds, for `_seal`."""
        raise NotImplementedError

    def _seal(self) -> str:
        """A hash of what names the part, and of what it holds: neither changes without the other."""
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
        """The sums, to be read."""
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
        """Refuse sums that this many people cannot have, each of whom adds ``least`` to ``most`` units."""
        checks.whole("count", self.count, at_least=0)
        low, high = self.count * np.asarray(least), self.count * np.asarray(most)
        if self.sums.dtype != np.int64 or (self.sums < low).any() or (self.sums > high).any():
            raise ValueError("the part holds sums that its people cannot have; it was not made here")


class KeptPart(Partial):
    """A part that holds its people, as they are; of a store, where they are."""

    def __init__(self, about: About, given: Callable[[Any, Any], Any], checked: Callable[[Any], Any]) -> None:
        super().__init__(about, given)
        self._people: list[Any] = []
        self._stores: list[Any] = []
        self._checked = checked

    @property
    def people(self) -> tuple[Any, ...]:
        """Those that it holds."""
        return tuple(self._people)

    @property
    def stores(self) -> tuple[Any, ...]:
        """Where the others are."""
        return tuple(self._stores)

    def _content(self) -> bytes:
        held = hashlib.sha256()
        for rows in (person.as_rows() for person in self._people):  # who is kept is a row
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
        """Refuse a part of another batch, one that was merged, and too many people."""
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
        """A part is about to be merged."""
        if self._batch != part.batch:
            self._batch, self._names = part.batch, []
        self._names.append((part.server, part.id))
