"""The books of a gate: what was charged, in which privacy notion, and whether more of it fits.

A gate and its parts share one, so that there is one budget, one ledger and one notion for all of them.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

from ..core import checks
from .account import Account
from .budget import Budget
from .events import Event, Loss
from .ledger import (
    Charge,
    DurableLedger,
    Entry,
    Group,
    Ledger,
    LedgerConflict,
    MemoryLedger,
    check_families,
    event_loss,
)
from .limits import Filter, check_group, filter_for, fits
from .preview import BudgetExceeded, Preview, previewed

REPRODUCIBLE = "reproducible randomness"  # what a ledger is told by gates whose noise somebody may know


@dataclass
class _Room:
    """How many more of the latest event are known to fit, where, and how far to look next time."""

    place: MemoryLedger | None = None
    event: Event | None = None
    left: int = 0
    stride: int = 1


class Books:
    """A budget, the ledger of its releases, and the notion that they keep to (``limit``; None until fixed).

    ``store`` is a ledger that others write to as well: what they wrote is taken up before anything is
    decided. ``fraction`` is the part of the budget that may be spent here. ``group`` names the part of the
    people that something is about; () is everybody.
    """

    def __init__(self, budget: Budget, limit: Filter | None, store: Ledger | None = None) -> None:
        self.budget, self.limit, self.store = budget, limit, store
        self.fraction = Fraction(1)
        self.ledger = MemoryLedger()
        self.lock = threading.RLock()
        self.reproducible = False
        self.marks: tuple[str, ...] = ()
        self._seen, self.resuming = 0, False
        self._claims: list[Charge] = []
        self._durable = store if store is not None and isinstance(store, DurableLedger) else None
        self._room = _Room()
        self._said_reproducible = False
        self._process = os.getpid()
        if store is not None:
            self._join(store)

    def _join(self, store: Ledger) -> None:
        if not isinstance(store, Ledger):
            raise TypeError(f"ledger must have version, entries() and append(), got {checks.shown(store)}")
        if self.limit is None and self.budget.private:
            raise ValueError(
                "gates that share a ledger keep to one privacy notion: give notion=, 'zcdp' for one"
            )
        self.refresh()
        if self.limit is not None and not self.limit.allows(self.ledger.loss):
            raise ValueError("the ledger holds more than this budget allows; it is of another budget")
        if agree := getattr(store, "agree", None):
            agree(self._terms())

    def _terms(self) -> dict[str, Any]:
        """What all gates of one ledger must have in common."""
        budget, limit = self.budget, self.limit
        return asdict(budget) | {
            "epsilon": str(budget.epsilon),  # infinity is no JSON
            "notion": self.notion,
            "failure": str(limit.failure if limit is not None and limit.notion != "pure" else 0),
        }

    def check_process(self) -> None:
        """Refuse to go on in a forked child: parent and child would each spend the same budget."""
        if os.getpid() != self._process:
            raise RuntimeError(
                "this gate was made in another process, which may go on spending the same budget; make a gate"
                " with a share of the budget in each process"
            )
        if self._durable is not None:
            self._durable.check_open()

    # --- what is known ---------------------------------------------------------------------------

    @property
    def notion(self) -> str | None:
        """The privacy notion; None as long as none is fixed."""
        return None if self.limit is None else self.limit.notion

    def account(self) -> Account:
        """A copy of everything so far."""
        with self.lock:
            self.refresh()
            said = dict.fromkeys((*self.marks, *getattr(self.store, "marks", ())))
            reproducible = self.reproducible or REPRODUCIBLE in said
            marks = tuple(mark for mark in said if mark != REPRODUCIBLE)
            return Account(self.budget, self.ledger.copy(), reproducible, marks, self.notion)

    def mark(self, *sentences: str) -> None:
        """Let accounts say something from now on; those of all gates that share the ledger."""
        if all(sentence in self.marks for sentence in sentences):
            return
        with self.lock:
            new = tuple(one for one in dict.fromkeys(sentences) if one not in self.marks)
            if tell := getattr(self.store, "mark", None):
                tell(*new)
            self.marks += new

    def of_group(self, group: Group) -> MemoryLedger:
        """Where the releases about a group are listed."""
        return self.ledger.of_group(group)

    def refresh(self) -> None:
        """Take up what others have written to a ledger that is shared."""
        store = self.store
        if store is None or self.resuming or (version := store.version) == self._seen:
            return
        if version < self._seen:
            raise ValueError(
                "the ledger holds fewer releases than were charged to it: an older copy stands in its place"
            )
        while True:
            fresh = list(store.entries(self._seen))
            if (latest := store.version) == version:
                break
            version = latest
        for group, entry, _ in fresh:
            check_group(entry, group, self.budget)
        for group, entry, count in fresh:
            self.ledger.of_group(group).add(entry, count)
        self._seen = version

    def restrict(self, fraction: Fraction) -> None:
        """Allow no more than a fraction of the budget."""
        if not 0 < fraction <= 1:
            raise ValueError(f"share={fraction} must be above 0 and at most 1")
        self.fraction = fraction
        if fraction < 1 and self.limit is not None:
            self.limit = self.limit.part(fraction)

    # --- what fits -------------------------------------------------------------------------------

    def fits_in(self, loss: Loss) -> bool:
        """Whether the budget holds ``loss`` in the notion that is fixed, or in one that may still be."""
        return fits(loss, self.budget) if self.limit is None else self.limit.fits(loss)

    def expect(self, group: Group, *releases: tuple[Event, int]) -> None:
        """Fix the notion for releases to come, if none is; `BudgetExceeded` says that they do not fit."""
        with self.lock:
            self.refresh()
            place, total = self.of_group(group), Loss()
            for event, count in releases:
                before = total
                total += event_loss(event) * checks.whole("count", count, at_least=1, at_most=checks.ANY)
                if not self.fits_in(place.loss_with(total)):
                    raise BudgetExceeded(self.preview(group, event, count, before))
            if self.limit is None and self.budget.private and releases:
                self.limit = filter_for(place.loss_with(total), self.budget)

    def preview(self, group: Group, event: Event, count: int, listed: Loss) -> Preview:
        """What releases would cost that come after others of the same list, which lose ``listed``."""

        def after(event: Event, count: int) -> Loss:
            return place.loss_with(listed + event_loss(event) * count)

        with self.lock:
            self.refresh()
            place = self.of_group(group)
            return previewed(event, count, place.loss_seen(), after, self.fits_in, self.budget, self.notion)

    # --- charging --------------------------------------------------------------------------------

    def charge(self, group: Group, entry: Entry, count: int) -> None:
        """Enter releases, or refuse them with nothing changed.

        Within `resumed` they must have been entered before the gate was saved, and are not again.
        """
        self.check_process()
        if not isinstance(entry.label, str):
            raise TypeError(f"label must be text, got {checks.shown(entry.label)}")
        check_group(entry, group, self.budget)
        with self.lock:
            check_families(self.ledger, group)
            if self.resuming:
                self.of_group(group).claim(entry, count)
                self._claims.append((group, entry, count))
            elif self.store is None:
                place = self.of_group(group)
                if not self._known_to_fit(place, entry.event, count):
                    self.expect(group, (entry.event, count))
                    self._look_ahead(place, entry.event, count)
                place.add(entry, count)
            else:
                self._append(self.store, group, entry, count)

    def _append(self, store: Ledger, group: Group, entry: Entry, count: int) -> None:
        if self.reproducible and not self._said_reproducible and (tell := getattr(store, "mark", None)):
            tell(REPRODUCIBLE)
            self._said_reproducible = True
        while True:
            self.expect(group, (entry.event, count))
            check_families(self.ledger, group)  # of which others may have made some
            try:
                store.append(entry, count, expected_version=self._seen, group=group)
                return
            except LedgerConflict:  # somebody else was first: what is left is to be looked at again
                continue

    def _known_to_fit(self, place: MemoryLedger, event: Event, count: int) -> bool:
        """Whether an earlier check already made room for this release of a repeated event."""
        room = self._room
        if place is not room.place or room.event != event or room.left < count:
            return False
        room.left -= count
        return True

    def _look_ahead(self, place: MemoryLedger, event: Event, count: int) -> None:
        """Check more room than was asked for, twice as much each time an event repeats.

        Long streams repeat one event; this way they cost a few exact checks in all, not one a round.
        """
        room = self._room
        stride = 2 * room.stride if place is room.place and room.event == event else 1
        more = self.fits_in(place.loss_with(event_loss(event) * (count + stride)))
        self._room = _Room(place, event, stride, stride) if more else _Room(place, event)

    @contextmanager
    def resumed(self, group: Group) -> Iterator[None]:
        """Within it, releases are taken up that were entered before; given back if anything fails.

        A durable ledger knows what nobody uses, and is told of all that was taken up at once, at the end.
        """
        durable = self._durable
        with self.lock, self.of_group(group).claimed_or_not():
            if durable is not None:
                self.refresh()
                self.ledger.let_claim(durable.unclaimed())
            self.resuming, self._claims = True, []
            try:
                yield
            finally:
                self.resuming = False
            if durable is not None:
                durable.claim(self._claims)
