"""Parts of a crowd on other servers: whole-number sums of their people, to be absorbed once.

A part is made for the batch that is open, travels to a server (it can be pickled), takes up people there and
comes back. It holds sums of private data, and no people. Sums are whole numbers, so a learner that absorbs
parts decides what it would have decided with the same people one by one, however they were divided.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import checks
from ..core.state import Saved

Units = NDArray[np.int64]
Counting = Callable[[Any], Units]  # what makes a person's part in sums of a person


def named(server: Any) -> str:
    """A server's name, checked."""
    if not isinstance(server, str) or not server:
        raise TypeError(f"server must be a name, got {checks.shown(server)}")
    return server


class Partial:
    """The people of one server in one batch of a learner.

    ``server`` and ``batch`` name it: of each pair a learner absorbs one. ``room`` is how many people the
    batch had room for when the part was made.
    """

    def __init__(
        self,
        server: str,
        batch: int,
        room: int | None,
        shape: tuple[int, ...],
        given: Callable[[Any, Any], Any],
        units: Callable[[Any], Units],
    ) -> None:
        self.server, self.batch, self.room = named(server), batch, room
        self.count = 0
        self.sums: Units = np.zeros(shape, dtype=np.int64)
        self._given, self._units = given, units

    def add(self, person: Any = None, *, items: Iterable[Any] | Mapping[Any, float] | None = None) -> None:
        """Take up a person, in any of the forms that the learner's ``learn`` takes.

        There is no ``person_id`` here: who is served by several servers has to be sent to one of them.
        """
        if self.room is not None and self.count >= self.room:
            raise RuntimeError(f"the batch has room for {self.room} people; absorb this part")
        units = self._units(self._given(person, items))
        self.count += 1
        self.sums += units

    def check(self, most: float) -> None:
        """Refuse sums that so many people cannot have, each of whom adds up to ``most`` units to an entry."""
        checks.whole("count", self.count, at_least=0)
        whole = self.sums.dtype == np.int64
        if not whole or (self.sums.size and not 0 <= self.sums.min() <= self.sums.max() <= self.count * most):
            raise ValueError("the part holds sums that its people cannot have; it was not made here")

    def __len__(self) -> int:
        return self.count

    def __repr__(self) -> str:
        return f"Partial({self.server!r}, batch {self.batch}: {self.count:,} people)"


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
