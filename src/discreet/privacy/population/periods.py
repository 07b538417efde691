"""Budgets that renew: one for each period, all charges in one ledger, and what several periods add up to."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from ...core import checks
from ...core.fixed import Fixed
from ...core.table import table
from ..account import Account
from ..books import REPRODUCIBLE
from ..budget import Budget
from ..conversions import exact, rounded_up
from ..events import Loss
from ..gate import Gate
from ..ledger import Charge, DurableLedger, Entry, Group, Ledger, MemoryLedger
from ..limits import Filter, filter_asked, smallest_epsilon
from ..randomness import Seed


class PeriodClosed(Exception):
    """A period was charged after a later one had begun; nothing was released or spent."""


class Periods(Fixed):
    """A budget for each period, such as a month, over one ledger.

    ``periods.gate("2026-11")`` is a gate with the whole ``budget``, for releases about what people do in that
    period (``max_rounds_per_person`` is per period, too). Names follow each other as text does, numbers in
    them as numbers do: "2026-11" comes before "2026-12", "week 9" before "week 10". A period begins with its
    first charge, and earlier ones take none from then on: what they left unspent must not be spent on people
    of today. What was reserved in time may be released later.

    Guarantee: a person who takes part in one period has ``budget``; one who takes part in several has the
    sequential composition of them, `total`, in the same privacy notion. It holds for periods chosen in any
    way, and for releases of a period that were chosen after seeing those of earlier ones.

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
        notion: str | None = None,
        failure: float | Fraction = 0.0,
    ) -> None:
        checks.instance("budget", budget, Budget, "Budget(epsilon=1.0, delta=1e-6)")
        self.budget = budget
        self.ledger = MemoryLedger() if ledger is None else ledger
        self.notion = notion or ("zcdp" if budget.delta else "pure")
        self.failure = failure
        self._limit = filter_asked(budget, self.notion, failure)

    @property
    def names(self) -> list[str]:
        """The periods that have begun, in order."""
        return sorted({group[0] for group, _, _ in self.ledger.entries() if group}, key=_order)

    def gate(self, period: str, randomness: Seed = None) -> Gate:
        """The gate of a period; of one that is over, to look at or for what was charged in time."""
        kind = _DurablePeriod if isinstance(self.ledger, DurableLedger) else _Period
        view = kind(self.ledger, _name(period))
        return Gate(self.budget, randomness, notion=self.notion, failure=self.failure, ledger=view)

    def account(self, period: str) -> Account:
        """What was spent in one period."""
        return self.gate(period).spent

    def total(self, periods: Iterable[str] | None = None) -> Account:
        """What somebody loses who took part in all of ``periods``, by default in every one so far.

        Its budget is what as many full periods would add up to: epsilon at the budget's delta, or where
        releases come with deltas of their own, at as many times that.
        """
        begun = self.names
        chosen = begun if periods is None else [_name(one) for one in periods]
        if len(set(chosen)) < len(chosen):
            raise ValueError("periods names one of them twice")
        if unknown := set(chosen) - set(begun):
            raise ValueError(f"periods names {sorted(unknown)[0]!r}, in which nothing was charged")
        whole = MemoryLedger(sequential=True)
        for group, entry, count in self.ledger.entries():
            if group and group[0] in chosen:
                whole.of_group(group).add(entry, count)
        said = getattr(self.ledger, "marks", ())
        marks = tuple(mark for mark in said if mark != REPRODUCIBLE)
        notion = self.notion if self.budget.private else None
        return Account(self._limit_of(len(chosen)), whole, REPRODUCIBLE in said, marks, notion)

    def _limit_of(self, periods: int) -> Budget:
        """The budget that this many full periods keep to."""
        budget, limit = self.budget, self._limit
        if not budget.private or limit is None or periods < 2:
            return budget
        if not limit.failure:
            epsilon = smallest_epsilon(_full(limit) * periods, budget, budget.delta, self.notion)
            return replace(budget, epsilon=epsilon)
        delta = min(budget.delta * periods, math.nextafter(1.0, 0.0))
        epsilon = smallest_epsilon(_full(limit) * periods, budget, delta, self.notion)
        basic = rounded_up(exact(budget.epsilon) * periods)
        return replace(budget, epsilon=min(epsilon, basic), delta=delta)

    def __str__(self) -> str:
        names = self.names
        rows = []
        for name in names:
            account = self.account(name)
            rows.append(
                [
                    name,
                    f"{sum(count for _, _, count in account.ledger.entries()):,}",
                    f"{account.epsilon():.6g}",
                    f"{self.budget.epsilon:g}",
                    "current" if name == names[-1] else "over",
                ]
            )
        if not rows:
            return "nothing has been released"
        total = self.total()
        at = f" at delta {total.budget.delta:g}" if total.budget.delta else ""
        return (
            table(["period", "releases", "epsilon", "limit", ""], rows)
            + f"\nsomebody who took part in every period: epsilon {total.epsilon():.6g}{at}"
            f"; limit {total.budget.epsilon:.6g}"
        )

    def __repr__(self) -> str:
        return f"Periods({self.budget}, {self.ledger!r}, notion={self.notion!r})"


class _Period:
    """One period's view of a ledger: its own entries, and the names of all periods that have begun."""

    def __init__(self, ledger: Ledger, name: str) -> None:
        self._ledger, self._name = ledger, name
        self._latest = name

    @property
    def version(self) -> int:
        return self._ledger.version

    def entries(self, since: int = 0) -> list[Charge]:
        found = []
        for group, entry, count in self._ledger.entries(since):
            if not group:
                raise ValueError("the ledger has charges that belong to no period; give another one")
            self._latest = max(self._latest, group[0], key=_order)
            if group[0] == self._name:
                found.append((group[1:], entry, count))
        return found

    def append(self, entry: Entry, count: int, *, expected_version: int, group: Group = ()) -> None:
        # All entries up to the expected version were read, so that every period they name is known.
        if self._latest != self._name:
            raise PeriodClosed(
                f"{self._latest!r} has begun, and {self._name!r} takes no more charges; use the gate of"
                f" {self._latest!r}"
            )
        self._ledger.append(entry, count, expected_version=expected_version, group=(self._name, *group))

    @property
    def marks(self) -> tuple[str, ...]:
        return tuple(getattr(self._ledger, "marks", ()))

    def mark(self, *sentences: str) -> None:
        if tell := getattr(self._ledger, "mark", None):
            tell(*sentences)

    def agree(self, terms: dict[str, Any]) -> None:
        """The terms say so: whoever would take the groups for disjoint people is refused."""
        if agree := getattr(self._ledger, "agree", None):
            agree(terms | {"per": "period"})


class _DurablePeriod(_Period):
    """The same of a ledger that outlives its processes."""

    _ledger: DurableLedger

    def unclaimed(self) -> list[Charge]:
        return [
            (group[1:], entry, count)
            for group, entry, count in self._ledger.unclaimed()
            if group[:1] == (self._name,)
        ]

    def claim(self, charges: Sequence[Charge]) -> None:
        self._ledger.claim([((self._name, *group), entry, count) for group, entry, count in charges])

    def check_open(self) -> None:
        self._ledger.check_open()


def _name(period: str) -> str:
    if not isinstance(period, str) or not 1 <= len(period) <= 100:
        raise TypeError(f"period must be a short text such as '2026-11', got {checks.shown(period)}")
    return period


def _order(name: str) -> list[tuple[int, int, str]]:
    """Text order, with the numbers in it as numbers; different names never compare equal."""
    pieces = re.findall(r"([0-9]+)|([^0-9]+)", name)
    return [(0, int(number), "") if number else (1, 0, text) for number, text in pieces] + [(-1, 0, name)]


def _full(limit: Filter) -> Loss:
    """The largest loss that a filter lets through, in its own notion; zero in the others."""
    zero = Fraction(0)
    if limit.notion == "pure":
        return Loss(limit.limit, zero, zero, zero, zero, limit.failure)
    if limit.notion == "zcdp":
        return Loss(zero, limit.limit, zero, zero, zero, limit.failure)
    return Loss(zero, zero, limit.limit, zero, zero, limit.failure)
