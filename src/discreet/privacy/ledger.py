"""The ledger: every release in the order in which it was first made, and what all of them lose together.

`MemoryLedger` lists and adds up. `Ledger` is what a gate asks of a place that keeps entries for it: a list
that only grows, with a version, so that several gates, or processes, can charge one budget;
`population.SQLiteLedger` is one that outlives its processes. What entries add up to is computed here and
nowhere else.
"""

from __future__ import annotations

import itertools
import math
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, NamedTuple, Protocol, runtime_checkable

from ..core import checks
from .events import Event, Loss

_NOTHING = Loss()
Group = tuple[str, ...]
_TURN = threading.RLock()  # gates of several threads write to one ledger one after the other


class Entry(NamedTuple):
    """A kind of release: under which label, by which mechanism, and how the people of several compare.

    ``disjoint``: such releases are made about one group of people after the other, and nobody is in two of
    them (parallel composition). The count of an entry is then what is released about one group.
    """

    label: str
    event: Event
    disjoint: bool = False


Charge = tuple[Group, Entry, int]


class LedgerConflict(Exception):
    """Somebody else has written to the ledger since it was read; read it again and check again."""


@runtime_checkable
class Ledger(Protocol):
    """Where entries are kept for a gate. ``version`` grows by one with every entry.

    ``group`` names the disjoint part of the people that an entry is about; () is everybody. A ledger that has
    ``agree(terms)`` is told the budget and the privacy notion of every gate that joins, and refuses all that
    differ from the first. One that has ``marks`` and ``mark(*sentences)`` keeps what accounts must say.
    """

    @property
    def version(self) -> int: ...

    def entries(self, since: int = 0) -> Iterable[Charge]:
        """Every entry that came after version ``since``, with its group and its count.

        Equal entries may be given as one, with the sum of their counts.
        """
        ...

    def append(self, entry: Entry, count: int, *, expected_version: int, group: Group = ()) -> None:
        """Write one entry if the ledger is still at ``expected_version``; else raise `LedgerConflict`.

        When this returns, the entry stays, whatever happens to the process.
        """
        ...


@runtime_checkable
class DurableLedger(Ledger, Protocol):
    """A ledger that outlives processes, and so knows who uses which charges, and whether they live.

    Whoever appends an entry uses it. What is saved and made again after a restart takes its charges up.
    """

    def unclaimed(self) -> Iterable[Charge]:
        """Charges that nobody uses any more."""
        ...

    def claim(self, charges: Sequence[Charge]) -> None:
        """Take up all of these or, with a ValueError, none: somebody else may have been first."""
        ...

    def check_open(self) -> None:
        """Refuse to go on once the ledger was closed: others may have taken the charges up since."""
        ...


class MemoryLedger:
    """Releases in the order they first happened, and the ledgers of disjoint groups of people.

    ``sequential``: the parts are not disjoint groups but one after the other, with the same people in all of
    them, so that their losses add up.
    """

    def __init__(self, above: MemoryLedger | None = None, *, sequential: bool = False) -> None:
        self.counts: dict[Entry, int] = {}
        self.parts: dict[str, MemoryLedger] = {}
        self.sequential = sequential
        self._above = above
        self._version = 0
        self._unclaimed: dict[Entry, int] = {}  # charged before a restart, in use by nobody yet
        self._settled = _NOTHING
        self._running: tuple[Event, int] | None = None  # the latest event, while it repeats, is added lazily
        self._worst = _NOTHING  # largest loss of any part; losses only grow, so a maximum can be kept
        self._appended: list[tuple[int, Charge]] = []  # by version: what others have not read yet
        self._terms: dict[str, Any] | None = None
        self.marks: tuple[str, ...] = ()

    # --- as a `Ledger` ---------------------------------------------------------------------------

    @property
    def version(self) -> int:
        """How many entries were written, here and in the parts."""
        return self._version

    def agree(self, terms: Mapping[str, Any]) -> None:
        """Refuse other terms (a budget, a privacy notion) than those of the first gate."""
        with _TURN:
            self._terms = agreed(self._terms, terms)

    def mark(self, *sentences: str) -> None:
        """Keep what the accounts of all gates of this ledger must say; see `Gate.mark`."""
        with _TURN:
            self.marks = tuple(dict.fromkeys((*self.marks, *sentences)))

    def entries(self, since: int = 0) -> list[Charge]:
        """Every entry with its group and its count; with ``since``, those that were appended later."""
        with _TURN:
            if since:
                recent = self._appended[len(self._appended) - (self._version - since) :]
                if [version for version, _ in recent] != list(range(since + 1, self._version + 1)):
                    raise ValueError(f"what came after version {since} was not appended to the ledger")
                return [charge for _, charge in recent]
            found: list[Charge] = [((), entry, n) for entry, n in self.counts.items()]
            for name, part in self.parts.items():
                found += [((name, *group), entry, count) for group, entry, count in part.entries()]
            return found

    def append(self, entry: Entry, count: int, *, expected_version: int, group: Group = ()) -> None:
        """Write one entry, unless there are others than ``expected_version`` knows of."""
        with _TURN:
            if self._version != expected_version:
                raise LedgerConflict(f"the ledger is at version {self._version}, not {expected_version}")
            self.of_group(group).add(entry, count)
            self._appended.append((self._version, (group, entry, count)))

    # --- composition -----------------------------------------------------------------------------

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
        self._version += 1
        place = self
        while place._above is not None:
            place._above._worst = place._above._worst.worst(place.loss)
            place = place._above
            place._version += 1

    def claim(self, entry: Entry, count: int) -> None:
        """Take up releases that were charged before a restart; each of them can be taken up once."""
        checks.instance("entry", entry, Entry, "Entry('picks', LaplaceNoise(1.0, 2.0))")
        if self._unclaimed.get(entry, 0) < count:
            raise ValueError(
                f"{entry.label!r} needs {count} releases of {entry.event}: these were not charged, or are in"
                " use already"
            )
        self._unclaimed[entry] -= count

    def part(self, name: str) -> MemoryLedger:
        """The ledger of one group of people."""
        if name not in self.parts:
            self.parts[name] = MemoryLedger(self)
        return self.parts[name]

    def of_group(self, group: Group) -> MemoryLedger:
        """The ledger of a group by its path from here; () is this one."""
        place = self
        for name in group:
            place = place.part(name)
        return place

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
        """The loss of the whole, from the top, if this ledger had released ``more``."""
        total, place = self.loss + more, self
        while place._above is not None:
            place = place._above
            total = place.loss + more if place.sequential else place.own + place._worst.worst(total)
        return total

    def loss_seen(self) -> Loss:
        """The loss of the people of this ledger: what is here and in the ledgers above, not beside."""
        total, place = self.loss, self
        while place._above is not None:
            place = place._above
            total += place.own
        return total

    def copy(self, above: MemoryLedger | None = None) -> MemoryLedger:
        twin = MemoryLedger(above, sequential=self.sequential)
        twin.counts, twin._settled, twin._worst = dict(self.counts), self.own, self._worst
        twin._version = self._version
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
    def from_json(cls, record: dict[str, Any]) -> MemoryLedger:
        ledger = cls()
        ledger._read(record)
        return ledger

    def _read(self, record: dict[str, Any]) -> None:
        self.sequential = _flag(checks.record("the record of a ledger", record), "sequential")
        for row in record["releases"]:
            count = checks.whole("count", row["count"], at_least=1, at_most=checks.ANY)
            disjoint = _flag(row, "disjoint")
            self.add(Entry(str(row["label"]), Event.from_json(row["event"]), disjoint), count)
        self._unclaimed = dict(self.counts)
        for name, part in checks.record("parts", record["parts"]).items():
            self.part(name)._read(part)

    def still_unclaimed(self, other: MemoryLedger) -> None:
        """Releases that ``other`` has not seen taken up since a restart can be taken up here.

        Refused unless all of what is listed there is listed here.
        """
        checks.instance("other", other, MemoryLedger, "MemoryLedger()")
        for entry, count in other.counts.items():
            if self.counts.get(entry, 0) < count:
                raise ValueError(
                    f"the ledger holds fewer releases of {entry.label!r} than were charged to it"
                )
        self._unclaimed = dict(other._unclaimed)
        for name, part in other.parts.items():
            self.part(name).still_unclaimed(part)

    def let_claim(self, charges: Iterable[Charge]) -> None:
        """Exactly these can be taken up, and nothing else."""
        self._let_go()
        for group, entry, count in charges:
            free = self.of_group(group)._unclaimed
            free[entry] = free.get(entry, 0) + count

    def _let_go(self) -> None:
        self._unclaimed = {}
        for part in self.parts.values():
            part._let_go()

    @contextmanager
    def claimed_or_not(self) -> Iterator[None]:
        """Within it, what `claim` took up is given back if anything fails."""
        before = self._all_unclaimed()
        try:
            yield
        except BaseException:
            for place, free in before:
                place._unclaimed = free
            raise

    def _all_unclaimed(self) -> list[tuple[MemoryLedger, dict[Entry, int]]]:
        below = [pair for part in self.parts.values() for pair in part._all_unclaimed()]
        return [(self, dict(self._unclaimed)), *below]


def _flag(record: dict[str, Any], name: str) -> bool:
    value = record.get(name, False)
    if not isinstance(value, bool):
        raise ValueError(f"{name} must be true or false, got {checks.shown(value)}")
    return value


def agreed(before: Mapping[str, Any] | None, terms: Mapping[str, Any]) -> dict[str, Any]:
    """The terms of a ledger; refused where they differ from those ``before``."""
    asked = dict(terms)
    if before is not None and dict(before) != asked:
        differ = [name for name in {**before, **asked} if before.get(name) != asked.get(name)]
        raise ValueError(
            "the ledger was first used with "
            + ", ".join(f"{name}={before.get(name)!r}" for name in differ)
            + "; this gate has "
            + ", ".join(f"{name}={asked.get(name)!r}" for name in differ)
            + ": make it alike, or keep its charges in another ledger"
        )
    return asked


def check_families(ledger: MemoryLedger, group: Group) -> None:
    """Refuse groups that people of others may be in as well: parts of another split of the same people.

    A name "family: part" belongs to a family; groups beside each other must all be of one.
    """
    place = ledger
    for name in group:
        family = name.rpartition(": ")[0]
        for other, part in place.parts.items():
            if part.version and other.rpartition(": ")[0] != family:
                raise ValueError(
                    f"group {name!r} lies beside {other!r}, which divides the same people differently:"
                    " somebody may be in both; use the groups of one division"
                )
        place = place.part(name)


@lru_cache(maxsize=1024)
def event_loss(event: Event) -> Loss:
    """``event.loss()``, remembered: long streams repeat the same event."""
    checks.instance("event", event, Event, "LaplaceNoise(1.0, 2.0)")
    return event.loss()
