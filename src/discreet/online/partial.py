"""Parts of a crowd on other servers, to be absorbed once.

A part is made for the batch that is open, travels to a server (it can be pickled), takes up people there and
comes back. It holds sums of private data in whole numbers, and no people, so a learner that absorbs parts
decides what it would have decided with the same people one by one, however they were divided. Learners that
keep the people of a window have parts that keep theirs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import checks
from ..core.state import Saved
from ..objectives import Population

Units = NDArray[np.int64]
# What makes a person's part in sums of a person; of many people who are rows, the sum of their parts.
Counting = Callable[[Any], Units]


def named(server: Any) -> str:
    """A server's name, checked."""
    if not isinstance(server, str) or not server:
        raise TypeError(f"server must be a name, got {checks.shown(server)}")
    return server


class Partial(ABC):
    """The people of one server in one batch of a learner.

    ``server`` and ``batch`` name it: of each pair a learner absorbs one. ``room`` is how many people the
    batch had room for when the part was made, and ``learner`` tells the learner that made it from others.
    """

    def __init__(
        self, server: str, batch: int, room: int | None, learner: str, given: Callable[[Any, Any], Any]
    ) -> None:
        self.server, self.batch, self.room, self.learner = named(server), batch, room, learner
        self.count = 0
        self._given = given

    def add(self, person: Any = None, *, items: Iterable[Any] | Mapping[Any, float] | None = None) -> None:
        """Take up a person, in any of the forms that the learner's ``learn`` takes.

        There is no ``person_id`` here: who is served by several servers has to be sent to one of them.
        """
        if self.room is not None and self.count >= self.room:
            raise RuntimeError(f"the batch has room for {self.room} people; absorb this part")
        self._take(self._given(person, items))
        self.count += 1

    def add_all(self, people: Population) -> None:
        """Take up everybody of a population, in memory or in a store (by its engine), or nobody.

        Each of them has one round of the learner's, as with ``add``: who comes again, in another batch or to
        another server, has more than one.
        """
        checks.instance("people", people, Population, "Coverage.from_store(store)")
        if self.room is not None and self.count + len(people) > self.room:
            raise RuntimeError(
                f"the batch has room for {self.room} people, and {self.count} were taken up; give fewer"
            )
        self._take_all(people)
        self.count += len(people)

    @abstractmethod
    def _take_all(self, people: Population) -> None:
        """Take up everybody, or refuse them and stay as it is."""

    @abstractmethod
    def _take(self, person: Any) -> None:
        """Take up a person, or refuse them and stay as it is."""

    def __len__(self) -> int:
        return self.count

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.server!r}, batch {self.batch}: {self.count:,} people)"


class SummedPart(Partial):
    """A part that holds whole-number sums of its people, and no people."""

    def __init__(
        self,
        server: str,
        batch: int,
        room: int | None,
        learner: str,
        given: Callable[[Any, Any], Any],
        shape: tuple[int, ...],
        units: Counting,
        everybody: Counting | None = None,
    ) -> None:
        super().__init__(server, batch, room, learner, given)
        self.sums: Units = np.zeros(shape, dtype=np.int64)
        self._units, self._everybody = units, everybody

    def _take(self, person: Any) -> None:
        self.sums += self._units(person)

    def _take_all(self, people: Population) -> None:
        if self._everybody is None:
            raise TypeError("this learner takes rewards, one after the other: add() them")
        self.sums += self._everybody(people)

    def check(self, least: Any, most: Any) -> None:
        """Refuse sums that so many people cannot have, each of whom adds ``least`` to ``most`` units."""
        checks.whole("count", self.count, at_least=0)
        low, high = self.count * np.asarray(least), self.count * np.asarray(most)
        if self.sums.dtype != np.int64 or (self.sums < low).any() or (self.sums > high).any():
            raise ValueError("the part holds sums that its people cannot have; it was not made here")


class KeptPart(Partial):
    """A part that holds its people, as they are; of a store, where they are."""

    def __init__(
        self,
        server: str,
        batch: int,
        room: int | None,
        learner: str,
        given: Callable[[Any, Any], Any],
        checked: Callable[[Any], Any],
    ) -> None:
        super().__init__(server, batch, room, learner, given)
        self.people: list[Any] = []
        self.stores: list[Any] = []
        self._checked = checked

    def _take(self, person: Any) -> None:
        self.people.append(self._checked(person))

    def _take_all(self, people: Population) -> None:
        if people.stored:
            self.stores.append(self._checked(people))
        else:
            self.people.extend([self._checked(person) for person in people])


class Absorbed:
    """Which parts of the open batch have been absorbed, by server."""

    def __init__(self) -> None:
        self._batch = 0
        self._servers: set[str] = set()

    def check(self, part: Partial, batch: int, room: int | None, left: int | None) -> None:
        """Refuse a part of another batch, one that was absorbed, and too many people."""
        if part.batch != batch:
            raise ValueError(f"{part!r} is late: batch {batch} is open; its people are not learned from")
        if self._batch == batch and part.server in self._servers:
            raise ValueError(f"a part of {part.server!r} was absorbed in batch {batch} already")
        if room is not None and part.count > room:
            raise ValueError(f"the open batch has room for {room} people; the part has {part.count}")
        if left is not None and part.count > left:
            raise ValueError(f"{left} of the declared rounds are left; the part has {part.count} people")

    def add(self, part: Partial) -> None:
        """A part is about to be absorbed."""
        if self._batch != part.batch:
            self._batch, self._servers = part.batch, set()
        self._servers.add(part.server)

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """For `resume`."""
        return {"batch": self._batch, "servers": sorted(self._servers)}, {}

    def resume(self, saved: Saved) -> None:
        """Go on."""
        self._batch = saved.whole("batch", at_least=0)
        self._servers = {str(server) for server in saved.rows("servers")}
