"""One budget for a population: renewed in periods, split over disjoint people, or charged run by run."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import checks
from ..core.guards import fixed
from ..core.names import canonical
from ..core.text import at_most, block, card, table
from .account import Account, Filter, Releases, failure_of, filter_asked, smallest_epsilon
from .accountant import REPRODUCIBLE, Accountant, BudgetExceeded, Gate
from .budget import Budget
from .conversions import exact, rounded_up
from .document import document
from .events import ApproximateRelease, Event, Loss, PureRelease
from .ledger import Charge, Ledger, MemoryLedger
from .randomness import Seed, randomness

_SHORTEST, _LONGEST = 16, 64


class PeriodClosed(Exception):
    """A period was charged after a later one had begun; nothing was released or spent."""


@fixed
class Periods:
    """A budget for each period, such as a month, over one ledger.

    ``periods.gate("2026-11")`` is a gate with the full ``budget``, for releases about what people do in that
    period (``max_rounds_per_person`` is per period, too). Names are ordered as text, with numbers in them as
    numbers: "2026-11" comes before "2026-12", "week 9" before "week 10". A period begins with its first
    charge, after which earlier periods accept none: what they left unspent must not be spent on people of the
    current one. Releases reserved in time may be made later, about the people of their own period.

    Guarantee: a person who takes part in one period, and from whom only learners of that period learn, has
    ``budget``; one who takes part in several has their sequential composition, `total`, in the same privacy
    definition. It holds for periods chosen in any way, and for releases of a period that were chosen after
    seeing those of earlier ones. A learner that continues after its period learns from people of a later
    period, who then take part in both. If a learner is unfinished when a later period begins, the accounts of
    both periods say so from then on: `finish` it before.

    >>> import discreet as dc
    >>> periods = dc.privacy.Periods(dc.Budget(1.0))
    >>> for month in ("2026-11", "2026-12"):
    ...     _ = periods.gate(month).choose([1.0, 5.0, 2.0], rate=0.25, sensitivity=2.0)
    >>> periods.account("2026-12").epsilon(), periods.total().epsilon()
    (0.5, 1.0)
    """

    def __init__(
        self,
        budget: Budget,
        ledger: Ledger | None = None,
        *,
        definition: str | None = None,
        failure: float | Fraction = 0.0,
    ) -> None:
        checks.instance("budget", budget, Budget, "Budget(epsilon=1.0, delta=1e-6)")
        self.budget = budget
        self.ledger = MemoryLedger() if ledger is None else ledger
        self.definition = definition or ("zcdp" if budget.delta else "pure")
        self.failure = failure
        self._limit = filter_asked(budget, self.definition, failure)

    @property
    def names(self) -> list[str]:
        """The periods that have begun, in order."""
        return sorted({charge.group[0] for charge in self.ledger.entries() if charge.group}, key=_order)

    def gate(self, period: str, randomness: Seed = None) -> Gate:
        """The gate of a period; that of a past one is for inspection and for releases reserved in time."""
        view = _Period(self.ledger, _name(period))
        return Gate(self.budget, randomness, definition=self.definition, failure=self.failure, ledger=view)

    def account(self, period: str) -> Account:
        """The account of one period."""
        return self.gate(period).spent

    def total(self, periods: Iterable[str] | None = None) -> Account:
        """The account of a person who took part in all of ``periods``, by default in every one so far.

        Its budget is the sum of as many fully spent periods: epsilon at the budget's delta, or, where
        releases have deltas of their own, at that delta times the number of periods (for several rounds of a
        person more, as group privacy multiplies a delta by what grows with all of epsilon).
        """
        begun = self.names
        chosen = begun if periods is None else [_name(one) for one in periods]
        if len(set(chosen)) < len(chosen):
            raise ValueError("periods names one of them twice")
        if unknown := set(chosen) - set(begun):
            raise ValueError(f"periods names {sorted(unknown)[0]!r}, in which nothing was charged")
        whole = Releases(sequential=True)
        for group, entry, count, _ in self.ledger.entries():
            if group and group[0] in chosen:
                whole.of_group(group).add(entry, count)
        said = _about(self.ledger.caveats, chosen)
        caveats = tuple(one for one in said if one != REPRODUCIBLE)
        definition = self.definition if self.budget.private else None
        return Account(self._limit_of(len(chosen)), whole, REPRODUCIBLE in said, caveats, definition)

    def _limit_of(self, periods: int) -> Budget:
        """The budget that this many fully spent periods stay within."""
        budget, limit = self.budget, self._limit
        if not budget.private or limit is None or periods < 2:
            return budget
        if not limit.failure:
            epsilon = smallest_epsilon(_full(limit) * periods, budget, budget.delta, self.definition)
            return replace(budget, epsilon=epsilon)
        full = _full(limit) * periods
        spent = max(exact(budget.delta) * periods, failure_of(full, budget.max_rounds_per_person))
        delta = min(rounded_up(spent), math.nextafter(1.0, 0.0))
        epsilon = smallest_epsilon(full, budget, delta, self.definition)
        basic = rounded_up(exact(budget.epsilon) * periods)
        return replace(budget, epsilon=min(epsilon, basic), delta=delta)

    def to_json(self) -> dict[str, Any]:
        """The account of every period, as plain values."""
        return {name: self.account(name).to_json() for name in self.names}

    def to_html(self, title: str = "Privacy account", **about: Any) -> str:
        """A document with every period: see `Account.to_html`."""
        names = self.names
        if not names:
            said = tuple(one for one in self.ledger.caveats if one != REPRODUCIBLE)
            return Account(self.budget, Releases(), caveats=said).to_html(title, **about)
        total = self.total() if len(names) > 1 else None
        return document(title, {name: self.account(name) for name in names}, total, **about)

    def __str__(self) -> str:
        names = self.names
        rows = []
        for name in names:
            account = self.account(name)
            rows.append(
                [
                    name,
                    f"{sum(count for _, _, count in account.ledger.entries()):,}",
                    at_most(account.epsilon()),
                    at_most(self.budget.epsilon),
                    "current" if name == names[-1] else "over",
                ]
            )
        if not rows:
            return "nothing has been released"
        total = self.total()
        at = f" at delta {at_most(total.budget.delta)}" if total.budget.delta else ""
        return (
            table(["period", "releases", "epsilon", "limit", ""], rows)
            + f"\na person who took part in every period: epsilon {at_most(total.epsilon())}{at}"
            f"; limit {at_most(total.budget.epsilon)}"
        )

    def _repr_html_(self) -> str:
        return card("Periods", self.budget._repr_html_(), block(str(self)))

    def __repr__(self) -> str:
        return f"Periods({self.budget}, {self.ledger!r}, definition={self.definition!r})"


class _Period:
    """One period's view of a ledger: its own charges, and the names of all periods that have begun."""

    def __init__(self, ledger: Ledger, name: str) -> None:
        self._ledger, self._name = ledger, name
        self._latest, self._begun = name, False

    @property
    def id(self) -> str:
        return self._ledger.id

    @property
    def version(self) -> int:
        return self._ledger.version

    def take_up(self, owner: str, number: int) -> None:
        self._ledger.take_up(owner, number)

    def note(self, owner: str, number: int, *, finished: bool = False) -> None:
        self._ledger.note(owner, number, finished=finished)

    def check_open(self) -> None:
        self._ledger.check_open()

    def entries(self, since: int = 0) -> list[Charge]:
        return self._mine(self._ledger.entries(since))

    def unfinished(self) -> list[Charge]:
        return self._mine(self._ledger.unfinished())

    def _mine(self, charges: Iterable[Charge]) -> list[Charge]:
        found = []
        for charge in charges:
            if not charge.group:
                raise ValueError("the ledger has charges that belong to no period; give another one")
            self._latest = max(self._latest, charge.group[0], key=_order)
            if charge.group[0] == self._name:
                self._begun = True
                found.append(charge._replace(group=charge.group[1:]))
        return found

    def append(self, charge: Charge, *, expected_version: int) -> None:
        # All entries up to the expected version have been read, so every period they name is known.
        if self._latest != self._name:
            raise PeriodClosed(
                f"{self._latest!r} has begun, and {self._name!r} takes no more charges; use the gate of"
                f" {self._latest!r}"
            )
        if not self._begun:  # a learner not finished by now may learn from people of this period
            others = {one.group[0] for one in self._ledger.unfinished() if one.group} - {self._name}
            self._ledger.add_caveats(*(_outlived(one, self._name) for one in sorted(others, key=_order)))
        mine = charge._replace(group=(self._name, *charge.group))
        self._ledger.append(mine, expected_version=expected_version)
        self._begun = True

    @property
    def caveats(self) -> tuple[str, ...]:
        said = self._ledger.caveats
        return said if _LEARNERS not in "".join(said) else _about(said, [self._name])

    def add_caveats(self, *sentences: str) -> None:
        self._ledger.add_caveats(*sentences)

    def agree(self, terms: Mapping[str, Any]) -> None:
        """Mark the terms, so that a gate that would read periods as disjoint groups of people is refused."""
        self._ledger.agree({**terms, "per": "period"})


_LEARNERS, _IN = "learners of the period ", " were not over in "


def _outlived(period: str, later: str) -> str:
    return (
        f"{_LEARNERS}{period!r}{_IN}{later!r}: people they learn from then take part in both periods, and"
        " have what `Periods.total` says of the two"
    )


def _about(caveats: tuple[str, ...], periods: Sequence[str]) -> tuple[str, ...]:
    """The caveats for these periods; one about a learner in two periods if exactly one is among them."""

    def told(one: str) -> bool:
        earlier = any(one.startswith(f"{_LEARNERS}{name!r}{_IN}") for name in periods)
        return earlier != any(f"{_IN}{name!r}: people" in one for name in periods)

    return tuple(one for one in caveats if not one.startswith(_LEARNERS) or told(one))


def _name(period: str) -> str:
    if not isinstance(period, str) or not 1 <= len(period) <= 100:
        raise TypeError(f"period must be a short text such as '2026-11', got {checks.shown(period)}")
    return period


def _order(name: str) -> list[tuple[int, int, str]]:
    """Text order, with the numbers in it as numbers; different names never compare equal."""
    pieces = re.findall(r"([0-9]+)|([^0-9]+)", name)
    return [(0, int(number), "") if number else (1, 0, text) for number, text in pieces] + [(-1, 0, name)]


def _full(limit: Filter) -> Loss:
    """The largest loss that a filter admits, in its own definition; zero in the others."""
    zero = Fraction(0)
    if limit.definition == "pure":
        return Loss(limit.limit, zero, zero, zero, zero, limit.failure)
    if limit.definition == "zcdp":
        return Loss(zero, limit.limit, zero, zero, zero, limit.failure)
    return Loss(zero, zero, limit.limit, zero, zero, limit.failure)


@fixed
class PeopleSplit:
    """A split of all people into ``parts`` disjoint parts, by a hash of their identity under ``key``.

    Releases about different parts compose in parallel: each part gets the full budget, and the account takes
    the worst of them. The part depends on the identity and the key alone, so changing or removing a person's
    data affects one part only, as parallel composition requires; a person who comes under two identities
    counts as two people. Learn from a person only through the gate of their part.

    ``key`` is 16 to 64 bytes, such as ``gate.key()``. It must stay the same as long as the budget does: a
    gate refuses parts under another key. It need not be secret for the guarantee; a secret key keeps people
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
        name = ascii(canonical(person)).encode()
        found = hashlib.blake2b(name, key=self._key, digest_size=16, person=b"people split").digest()
        return int.from_bytes(found) % self.parts

    def parts_of(self, people: Iterable[Hashable]) -> NDArray[np.int64]:
        """The part of each of several people."""
        return np.fromiter((self.part_of(person) for person in people), dtype=np.int64)

    def gate(self, gate: Gate, part: int) -> Gate:
        """The gate for releases about the people of one part."""
        checks.instance("gate", gate, Gate, "Gate(budget)")
        number = checks.whole("part", part, at_least=0, at_most=self.parts - 1)
        return gate.part(f"{self._family}: {number} of {self.parts}")

    def __repr__(self) -> str:
        return f"PeopleSplit({self.parts}, key=...)"


# --- runs that are charged as a whole ----------------------------------------------------------------------


class RunGate(Gate):
    """A gate whose full budget is charged at ``shared``, under ``label``, before its first release.

    The run as one unit is (epsilon, delta)-DP, whatever is released in it and in whichever definition. At a
    shared gate that keeps to pure epsilon, the epsilons and deltas of runs add up, which holds even if a run
    was decided on by looking at earlier ones; one with another definition converts them. Both must have the
    same neighbouring relation. Over a `SQLiteLedger` the charge is on the disk before anything is drawn. The
    accounts of ``shared`` repeat the caveats of the run, and that it had a seed.

    >>> import discreet as dc
    >>> shared = Gate(Budget(1.0), 0)
    >>> for _ in range(2):
    ...     run = RunGate(Budget(0.5), shared, "a list", 0)
    ...     item = run.choose([1.0, 5.0, 2.0], rate=0.25, sensitivity=2.0)
    >>> shared.spent.epsilon()
    1.0
    """

    def __init__(self, budget: Budget, shared: Gate, label: str, seed: Seed = None) -> None:
        checks.instance("budget", budget, Budget, "Budget(epsilon=1.0, delta=1e-6)")
        if budget.neighbours != shared.budget.neighbours:
            raise ValueError(
                f"neighbours={budget.neighbours!r}, but the shared gate is about"
                f" {shared.budget.neighbours!r}: what holds for one says nothing of the other"
            )
        self.shared, self.label = shared, label
        epsilon, delta = budget.epsilon, budget.delta
        event = ApproximateRelease(epsilon, delta) if delta else PureRelease(epsilon)
        preview = shared.preview(event)
        if not preview.fits:
            raise BudgetExceeded(preview)
        ledger = _RunLedger(shared, event, label)
        self._accountant = Accountant(budget, filter_asked(budget, None, 0), ledger, shared=False)
        self._view((), randomness(seed), None)

    def state(self) -> dict[str, Any]:
        """Refused: a gate restored from it would spend again a budget that was charged once."""
        raise ValueError("a run is not saved and gone on with; save what it released")


class _RunLedger(MemoryLedger):
    """The charges of a run: the first one charges the run's full budget at the shared gate."""

    def __init__(self, shared: Gate, event: Event, label: str) -> None:
        super().__init__()
        self._shared, self._event, self._label = shared, event, label
        self._charged = False

    def to_json(self) -> dict[str, Any]:
        """Refused: a gate restored from it, or from a part, would spend again what the run has paid for."""
        raise ValueError("a run is not saved and gone on with; save what it released")

    def append(self, charge: Charge, *, expected_version: int) -> None:
        with self._lock:
            if not self._charged:
                self._shared.add_caveats(*self.caveats)
                self._shared.reserve(self._event, label=self._label)
                self._charged = True
            super().append(charge, expected_version=expected_version)

    def add_caveats(self, *sentences: str) -> None:
        with self._lock:
            super().add_caveats(*sentences)
            if self._charged:
                self._shared.add_caveats(*sentences)
