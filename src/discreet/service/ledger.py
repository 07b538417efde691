"""The ledger of a population in the service's database: charges commit with what they pay for.

`Gate` and `Periods` write to it as to any ledger. What they append is held back until `flush`, in the
transaction that also holds the release: none is there without the other. Nothing that follows from a release
is served before that transaction, and if it fails, everything made with this object is dropped.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..privacy import Entry, Event
from ..privacy.ledger import Charge, Group, LedgerConflict, agreed

if TYPE_CHECKING:
    from .store import Transaction


class PopulationLedger:
    """The charges of a population, as they were when it was read, and those to be flushed.

    Only one keeper at a time works for an experiment, which the store sees to; `unclaimed` charges are those
    of that ``experiment``. One that is being made gets its number before `flush`.
    """

    def __init__(self, tx: Transaction, population: int, experiment: int) -> None:
        self._population, self.experiment = population, experiment
        (terms, marks) = tx.one("SELECT terms, marks FROM population WHERE id = ?", population)
        self._terms: dict[str, Any] | None = None if terms is None else json.loads(terms)
        self._marks: list[str] = json.loads(marks)
        self._said = terms, marks
        self._charges: list[tuple[int, Charge]] = []
        rows = tx.all(
            "SELECT experiment, people, label, event, disjoint, count FROM charge"
            " WHERE population = ? ORDER BY version",
            population,
        )
        for own, people, label, event, disjoint, count in rows:
            entry = Entry(label, Event.from_json(json.loads(event)), bool(disjoint))
            self._charges.append((own, (tuple(json.loads(people)), entry, int(count))))
        self._flushed = len(self._charges)
        self._claimed = Counter[tuple[Group, Entry]]()

    # --- as a `DurableLedger` --------------------------------------------------------------------

    @property
    def version(self) -> int:
        """How many entries there are."""
        return len(self._charges)

    def entries(self, since: int = 0) -> list[Charge]:
        """What was charged after version ``since``."""
        return [charge for _, charge in self._charges[since:]]

    def append(self, entry: Entry, count: int, *, expected_version: int, group: Group = ()) -> None:
        """Add an entry, for the next flush."""
        if expected_version != self.version:
            raise LedgerConflict(f"the ledger is at version {self.version}, not {expected_version}")
        self._charges.append((self.experiment, (group, entry, count)))

    def agree(self, terms: Mapping[str, Any]) -> None:
        """Refuse other terms (a budget, a privacy notion) than those of the first gate."""
        self._terms = agreed(self._terms, terms)

    @property
    def marks(self) -> tuple[str, ...]:
        """What the accounts say they take for granted."""
        return tuple(self._marks)

    def mark(self, *sentences: str) -> None:
        """Keep such sentences."""
        self._marks += [sentence for sentence in sentences if sentence not in self._marks]

    def unclaimed(self) -> list[Charge]:
        """The experiment's charges, for its learner to take up after a restart, each once."""
        free = Counter[tuple[Group, Entry]]()
        for own, (group, entry, count) in self._charges[: self._flushed]:
            free[group, entry] += count * (own == self.experiment)
        free.subtract(self._claimed)
        return [(group, entry, count) for (group, entry), count in free.items() if count]

    def claim(self, charges: Sequence[Charge]) -> None:
        """Take these up; the lease of the experiment has seen to it that nobody else does."""
        for group, entry, count in charges:
            self._claimed[group, entry] += count

    def check_open(self) -> None:
        """It is never closed."""

    # --- the transaction -------------------------------------------------------------------------

    def flush(self, tx: Transaction) -> None:
        """Write what was appended. Somebody else's charge in the meantime makes the transaction fail."""
        rows = []
        for version in range(self._flushed, len(self._charges)):
            _, (people, entry, count) = self._charges[version]
            self._charges[version] = (self.experiment, (people, entry, count))
            said = json.dumps(people), entry.label, json.dumps(entry.event.to_json())
            rows.append(
                (self._population, version + 1, self.experiment, *said, int(entry.disjoint), str(count))
            )
        tx.many(
            "INSERT INTO charge (population, version, experiment, people, label, event, disjoint, count)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            rows,
        )
        self._flushed = len(self._charges)
        terms = None if self._terms is None else json.dumps(self._terms), json.dumps(self._marks)
        if terms != self._said:
            tx.do("UPDATE population SET terms = ?, marks = ? WHERE id = ?", *terms, self._population)
            self._said = terms
