"""Releases and their composition: what was released about whom, and what all of it loses together.

Sequential composition adds losses up; parallel composition over disjoint groups of people takes the worst of
them. Both are computed here and nowhere else: the accountant, accounts, previews and plans ask `Releases`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from ..core import checks
from .events import Event, Loss

_NOTHING = Loss()
Group = tuple[str, ...]


class Entry(NamedTuple):
    """A kind of release: under which label, by which mechanism, and how the people of several compare.

    ``disjoint``: such releases are made about one group of people after the other, and nobody is in two of
    them (parallel composition). The count of an entry is then what is released about one group.
    """

    label: str
    event: Event
    disjoint: bool = False


class Releases:
    """Releases in the order they first happened, and those of disjoint groups of people.

    ``sequential``: the parts are not disjoint groups but one after the other, with the same people in all of
    them, so that their losses add up.
    """

    def __init__(self, above: Releases | None = None, *, sequential: bool = False) -> None:
        self.counts: dict[Entry, int] = {}
        self.parts: dict[str, Releases] = {}
        self.sequential = sequential
        self._above = above
        self._settled = _NOTHING
        self._running: tuple[Event, int] | None = None  # the latest event, while it repeats, is added lazily
        self._worst = _NOTHING  # largest loss of any part; losses only grow, so a maximum can be kept

    def add(self, entry: Entry, count: int) -> None:
        """Record ``count`` releases. This, `own` and ``Loss.__mul__`` are all there is to composition."""
        checks.instance("entry", entry, Entry, "Entry('picks', LaplaceNoise(1.0, 2.0))")
        event = entry.event
        self.counts[entry] = self.counts.get(entry, 0) + count
        if self._running is not None and self._running[0] == event:
            self._running = (event, self._running[1] + count)
        else:
            self._settled = self.own
            self._running = (event, count)
        place = self
        while place._above is not None:
            place._above._worst = place._above._worst.worst(place.loss)
            place = place._above

    def part(self, name: str) -> Releases:
        """The releases about one group of people."""
        if name not in self.parts:
            self.parts[name] = Releases(self)
        return self.parts[name]

    def of_group(self, group: Group) -> Releases:
        """The releases about a group by its path from here; () is this one."""
        place = self
        for name in group:
            place = place.part(name)
        return place

    @property
    def empty(self) -> bool:
        """Whether nothing has been released here or in a part."""
        return not self.counts and all(part.empty for part in self.parts.values())

    @property
    def own(self) -> Loss:
        """Loss of the releases made here, parts aside."""
        if self._running is None:
            return self._settled
        event, count = self._running
        return self._settled + event_loss(event) * count

    @property
    def loss(self) -> Loss:
        """Own releases, plus the worst of the parts: nobody is in more than one of them."""
        if self.sequential:
            return sum((part.loss for part in self.parts.values()), self.own)
        return self.own + self._worst if self.parts else self.own

    def loss_with(self, more: Loss) -> Loss:
        """The loss of the whole, from the top, if ``more`` were released here."""
        total, place = self.loss + more, self
        while place._above is not None:
            place = place._above
            total = place.loss + more if place.sequential else place.own + place._worst.worst(total)
        return total

    def loss_seen(self) -> Loss:
        """The loss of the people of this group: what is here and above, not beside."""
        total, place = self.loss, self
        while place._above is not None:
            place = place._above
            total += place.own
        return total

    def entries(self) -> Iterator[tuple[Group, Entry, int]]:
        """Every entry with its group and its count."""
        yield from (((), entry, count) for entry, count in self.counts.items())
        for name, part in self.parts.items():
            yield from (((name, *group), entry, count) for group, entry, count in part.entries())

    def copy(self, above: Releases | None = None) -> Releases:
        twin = Releases(above, sequential=self.sequential)
        twin.counts, twin._settled, twin._worst = dict(self.counts), self.own, self._worst
        twin.parts = {name: part.copy(twin) for name, part in self.parts.items()}
        return twin

    def paths(self) -> Iterator[list[tuple[Event, int]]]:
        """For each group of people, every release that concerns it."""
        mine = [(entry.event, count) for entry, count in self.counts.items()]
        if not self.parts:
            yield mine
        elif self.sequential:
            for paths in itertools.product(*(part.paths() for part in self.parts.values())):
                yield mine + [pair for path in paths for pair in path]
        else:
            for part in self.parts.values():
                for path in part.paths():
                    yield mine + path

    @property
    def n_paths(self) -> int:
        """How many `paths` there are."""
        numbers = [part.n_paths for part in self.parts.values()]
        return math.prod(numbers) if self.sequential or not numbers else sum(numbers)

    @property
    def divided(self) -> bool:
        """Whether there are disjoint groups of people anywhere in it."""
        disjoint = bool(self.parts) and not self.sequential
        return disjoint or any(part.divided for part in self.parts.values())

    def check_families(self, group: Group) -> None:
        """Refuse groups that people of others may be in as well: parts of another split of the same people.

        A name "family: part" belongs to a family; groups beside each other must all be of one.
        """
        place = self
        for name in group:
            family = name.rpartition(": ")[0]
            for other, part in place.parts.items():
                if other.rpartition(": ")[0] != family and not part.empty:
                    raise ValueError(
                        f"group {name!r} lies beside {other!r}, which divides the same people differently:"
                        " somebody may be in both; use the groups of one division"
                    )
            place = place.part(name)

    def events(self) -> Iterator[Event]:
        yield from (entry.event for entry in self.counts)
        for part in self.parts.values():
            yield from part.events()

    # --- saving ----------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        return {
            "releases": [
                {"label": entry.label, "count": count, "event": entry.event.to_json()}
                | ({"disjoint": True} if entry.disjoint else {})
                for entry, count in self.counts.items()
            ],
            "parts": {name: part.to_json() for name, part in self.parts.items()},
        } | ({"sequential": True} if self.sequential else {})

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> Releases:
        releases = cls()
        releases._read(record)
        return releases

    def _read(self, record: dict[str, Any]) -> None:
        self.sequential = flag(checks.record("the record of releases", record), "sequential")
        for row in record["releases"]:
            count = checks.whole("count", row["count"], at_least=1, at_most=checks.ANY)
            self.add(Entry(str(row["label"]), Event.from_json(row["event"]), flag(row, "disjoint")), count)
        for name, part in checks.record("parts", record["parts"]).items():
            self.part(name)._read(part)


def flag(record: dict[str, Any], name: str) -> bool:
    """Whether a record says so; refused where it says something else than yes or no."""
    value = record.get(name, False)
    if not isinstance(value, bool):
        raise ValueError(f"{name} must be true or false, got {checks.shown(value)}")
    return value


@lru_cache(maxsize=1024)
def event_loss(event: Event) -> Loss:
    """``event.loss()``, remembered: long streams repeat the same event."""
    checks.instance("event", event, Event, "LaplaceNoise(1.0, 2.0)")
    return event.loss()
