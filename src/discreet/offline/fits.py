"""Spending of the fits of an estimator and of its clones, added up."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction

from ..privacy import (
    Account,
    ApproximateRelease,
    Budget,
    Entry,
    Event,
    Gate,
    LaplaceNoise,
    MemoryLedger,
    PureRelease,
    Seed,
    Share,
)
from ..privacy.conversions import exact, rounded_up
from .chooser import Allowance


class RepeatedFitWarning(UserWarning):
    """An estimator, or clones of it, are fitted more than once: every fit spends a budget of its own."""


@dataclass
class Family:
    """All objects that were cloned from one another: their accounts, and the shares they were given."""

    accounts: list[Account] = field(default_factory=list)
    warned: bool = False
    _shares: list[tuple[Share, Allowance]] = field(default_factory=list)

    def allowance(self, share: Share, seed: Seed) -> Allowance:
        """The one allowance of a share, whichever of the objects asks for it: it is spent once."""
        for given, known in self._shares:
            if given is share:
                return known
        self._shares.append((share, Allowance(share, seed)))
        return self._shares[-1][1]


@dataclass
class Fits:
    """The fits of one object, which is one of a family."""

    family: Family = field(default_factory=Family)
    accounts: list[Account] = field(default_factory=list)
    _places: list[Gate | None] = field(default_factory=list)  # the gate of all fits, None: each has its own

    @property
    def account(self) -> Account:
        """What all fits of this object guarantee together."""
        place = self._places[0]
        return _together(self.accounts) if place is None else place.spent

    @contextmanager
    def one(self, allowance: Allowance, *, own: bool) -> Iterator[None]:
        """One fit, at a gate of its ``own`` or of others as well.

        What it has let through counts, also where the fit fails after that.
        """
        place = None if own else allowance.gate
        if self._places and self._places[0] is not place:
            raise ValueError(
                "budget was changed after a fit, so that privacy_ would miss what went another way; fit a"
                " clone"
            )
        self._places = [place]
        if place is None:
            self._warn(allowance.share.budget)
        try:
            yield
        except BaseException:
            if place is None and allowance.gate.spent.ledger.counts:
                self._note(allowance.gate.spent)
            raise
        if place is None:
            self._note(allowance.gate.spent)

    def _note(self, account: Account) -> None:
        self.accounts.append(account)
        self.family.accounts.append(account)

    def _warn(self, budget: Budget) -> None:
        """Name the total, with this fit, before it is spent."""
        mine, family = self.accounts, self.family
        if mine and relation(mine[0].budget) != relation(budget):
            raise ValueError(
                f"{relation(budget)}, but this object was fitted with {relation(mine[0].budget)}, and the"
                " two guarantees do not add up; fit a clone"
            )
        if not mine and (family.warned or not family.accounts):
            return
        family.warned = True
        spent = [one.budget for one in mine or family.accounts if one.epsilon()] + [budget]
        epsilon, delta = _added_up(spent)
        what = "this estimator is fitted again" if mine else "clones of one estimator are fitted"
        beside = f" and delta {delta:g}" if delta else ""
        warnings.warn(
            f"{what}: each fit is a release of its own, and {len(spent)} so far come to epsilon"
            f" {epsilon:g}{beside} for those who are in all of them; every further one adds to that. Give"
            " budget=Gate(Budget(...)) to hold all of them to one budget",
            RepeatedFitWarning,
            stacklevel=6,
        )


def relation(budget: Budget) -> str:
    """Between which tables a guarantee holds, in an estimator's words."""
    return f"neighbours={budget.neighbours!r}, max_rows_per_person={budget.max_rounds_per_person}"


def _added_up(budgets: list[Budget]) -> tuple[float, float]:
    """Epsilons and deltas of several fits: basic composition, which holds however each one was decided on."""
    if not all(budget.private for budget in budgets):
        return math.inf, 0.0
    epsilon = sum((exact(budget.epsilon) for budget in budgets), Fraction(0))
    delta = sum((exact(budget.delta) for budget in budgets), Fraction(0))
    return (rounded_up(epsilon), rounded_up(delta)) if delta < 1 else (math.inf, 0.0)


def _together(accounts: list[Account]) -> Account:
    """One account of several fits, each listed by what it guarantees to a person, all their rows together."""
    if len(accounts) == 1:
        return accounts[0]
    ledger = MemoryLedger()
    for account in accounts:
        epsilon, delta = account.epsilon(), account.budget.delta
        event: Event
        if math.isinf(epsilon):
            event = LaplaceNoise(1.0, 0.0)
        else:
            event = ApproximateRelease(epsilon, delta) if delta else PureRelease(epsilon)
        if epsilon:
            ledger.add(Entry("one fit", event), 1)
    epsilon, delta = _added_up([account.budget for account in accounts])
    whole = Budget(epsilon, delta, accounts[0].budget.neighbours)
    marks = tuple(dict.fromkeys(mark for account in accounts for mark in account.marks))
    # In pure epsilon and deltas: whether to fit again may have been decided by looking at the fits before.
    return Account(whole, ledger, any(account.reproducible for account in accounts), marks, "pure")
