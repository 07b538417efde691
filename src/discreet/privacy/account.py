"""The account: what has left so far, and the guarantee that follows from it.

Releases are listed once (`Ledger`) and their losses are added up in every privacy notion at once (`Loss`):
pure epsilon, zCDP, Gaussian DP. For a list of releases that was fixed in advance all sums hold together, and
the report takes the smallest epsilon. For releases that were chosen after seeing answers that is not so:
which sum comes out small then depends on the answers. A `Gate` therefore keeps to one notion (`Filter`),
fixed before the first answer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

from ..core import checks
from ..core.table import table
from . import conversions
from .budget import Budget
from .conversions import exact, rounded_down, rounded_up
from .events import (
    Event,
    ExponentialChoice,
    GaussianNoise,
    LaplaceNoise,
    Loss,
    PureRelease,
    SphericalLaplaceNoise,
)

_NOTHING = Loss()
_NO_DELTA = Fraction(0)


class Ledger:
    """Releases in the order they first happened, and the ledgers of disjoint groups of people."""

    def __init__(self, above: Ledger | None = None) -> None:
        self.counts: dict[tuple[str, Event], int] = {}
        self.parts: dict[str, Ledger] = {}
        self._above = above
        self._unclaimed: dict[tuple[str, Event], int] = {}  # charged before a restart, in use by nobody yet
        self._settled = _NOTHING
        self._running: tuple[Event, int] | None = None  # the latest event, while it repeats, is added lazily
        self._worst = _NOTHING  # largest loss of any part; losses only grow, so a maximum can be kept

    def add(self, label: str, event: Event, count: int) -> None:
        """Record ``count`` releases. This, `own` and ``Loss.__mul__`` are all there is to composition."""
        key = (label, event)
        self.counts[key] = self.counts.get(key, 0) + count
        if self._running is not None and self._running[0] == event:
            self._running = (event, self._running[1] + count)
        else:
            self._settled = self.own
            self._running = (event, count)
        place = self
        while place._above is not None:
            place._above._worst = place._above._worst.worst(place.loss)
            place = place._above

    def claim(self, label: str, event: Event, count: int) -> None:
        """Take up releases that were charged before a restart; each of them can be taken up once."""
        key = (label, event)
        if self._unclaimed.get(key, 0) < count:
            raise ValueError(
                f"{label!r} needs {count} releases of {event}: these were not charged, or are in use already"
            )
        self._unclaimed[key] -= count

    def part(self, name: str) -> Ledger:
        """The ledger of one group of people."""
        if name not in self.parts:
            self.parts[name] = Ledger(self)
        return self.parts[name]

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
        return self.own + self._worst if self.parts else self.own

    def loss_with(self, more: Loss) -> Loss:
        """The loss of the whole, from the top, if this ledger had released ``more``."""
        total, place = self.loss + more, self
        while place._above is not None:
            place = place._above
            total = place.own + place._worst.worst(total)
        return total

    def loss_seen(self) -> Loss:
        """The loss of the people of this ledger: what is here and in the ledgers above, not beside."""
        total, place = self.loss, self
        while place._above is not None:
            place = place._above
            total += place.own
        return total

    def copy(self, above: Ledger | None = None) -> Ledger:
        twin = Ledger(above)
        twin.counts, twin._settled, twin._worst = dict(self.counts), self.own, self._worst
        twin.parts = {name: part.copy(twin) for name, part in self.parts.items()}
        return twin

    def paths(self) -> Iterator[list[tuple[Event, int]]]:
        """For each group of people, every release that concerns it."""
        mine = [(event, count) for (_, event), count in self.counts.items()]
        if not self.parts:
            yield mine
        for part in self.parts.values():
            for path in part.paths():
                yield mine + path

    def events(self) -> Iterator[Event]:
        yield from (event for _, event in self.counts)
        for part in self.parts.values():
            yield from part.events()

    def to_json(self) -> dict[str, Any]:
        return {
            "releases": [
                {"label": label, "count": count, "event": event.to_json()}
                for (label, event), count in self.counts.items()
            ],
            "parts": {name: part.to_json() for name, part in self.parts.items()},
        }

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> Ledger:
        ledger = cls()
        ledger._read(record)
        return ledger

    def _read(self, record: dict[str, Any]) -> None:
        for row in checks.record("the record of a ledger", record)["releases"]:
            count = checks.whole("count", row["count"], at_least=1, at_most=checks.ANY)
            self.add(str(row["label"]), Event.from_json(row["event"]), count)
        self._unclaimed = dict(self.counts)
        for name, part in checks.record("parts", record["parts"]).items():
            self.part(name)._read(part)


@lru_cache(maxsize=1024)
def event_loss(event: Event) -> Loss:
    """``event.loss()``, remembered: long streams repeat the same event."""
    if not isinstance(event, Event):
        raise TypeError(f"event must be an Event such as LaplaceNoise(1.0, 2.0), got {checks.shown(event)}")
    return event.loss()


@dataclass(frozen=True)
class Account:
    """What has been spent, and what follows from it for a person.

    ``epsilon(delta)`` and ``delta(epsilon)`` are the guarantee of the releases listed, in ``notion``, or in
    the best of all notions where that is None. ``tight=True`` also asks the exact adaptive composition of
    exponential choices, which is up to 9 % smaller and takes seconds. Printing an account shows every release
    with its sensitivity. ``marks`` are sentences about what the guarantee takes for granted beside the
    budget, such as a list of items that came from data.

    They hold for a list of releases that was fixed in advance, as a learner's is. Where somebody chose what
    to release, or when to stop, by looking at answers, only pure epsilon can be read off at that moment; what
    zCDP and Gaussian DP promise then is the limit that the gate keeps: ``budget.epsilon`` at
    ``budget.delta``.
    """

    budget: Budget
    ledger: Ledger
    reproducible: bool = False
    marks: tuple[str, ...] = ()
    notion: str | None = None

    @property
    def loss(self) -> Loss:
        """Loss of one round, in all privacy notions."""
        return self.ledger.loss

    @property
    def pure(self) -> float:
        """Pure epsilon of a person; infinite once anything without one has left."""
        loss = self.loss
        return math.inf if loss.delta else _person_pure(loss, self.budget.max_rounds_per_person)

    @property
    def rho(self) -> float:
        """zCDP parameter of a person (beside what approximate releases add to delta)."""
        return _squared(self.loss.rho, self.budget.max_rounds_per_person)

    @property
    def mu(self) -> float:
        """Gaussian-DP parameter of a person (beside what approximate releases add to delta)."""
        return math.sqrt(_squared(self.loss.mu_squared, self.budget.max_rounds_per_person)) * (1 + 1e-15)

    def epsilon(self, delta: float | None = None, *, tight: bool = False) -> float:
        """Smallest epsilon that holds together with ``delta`` (the budget's, if none is given)."""
        target = self.budget.delta if delta is None else checks.real("delta", delta, at_least=0.0, below=1.0)
        best = smallest_epsilon(self.loss, self.budget, target, self.notion)
        if tight and 0.0 < best < math.inf:
            curve = self._exact_curve()
            if curve is not None and target >= curve.floor:
                best = min(best, curve.epsilon(target))
        return best

    def delta(self, epsilon: float | None = None, *, tight: bool = False) -> float:
        """Smallest delta that holds together with ``epsilon`` (the budget's, if none is given)."""
        target = (
            self.budget.epsilon
            if epsilon is None
            else checks.real("epsilon", epsilon, at_least=0.0, infinite=True)
        )
        best = smallest_delta(self.loss, self.budget, target, self.notion)
        if tight and best > 0.0:
            curve = self._exact_curve()
            if curve is not None:
                best = min(best, max(curve.delta(target), curve.floor))
        return best

    def best_notion(self, delta: float | None = None) -> str:
        """Which notion gives ``epsilon(delta)``, in words."""
        target = self.budget.delta if delta is None else delta
        return min(_epsilons(self.loss, self.budget, target, self.notion), key=lambda pair: pair[1])[0]

    def _exact_curve(self) -> _ExactCurve | None:
        return _ExactCurve.of(self.ledger, self.budget)

    def to_json(self) -> dict[str, Any]:
        """Plain values; floats as they print, exact fractions as text."""
        return {
            "budget": {
                "epsilon": self.budget.epsilon,
                "delta": self.budget.delta,
                "neighbours": self.budget.neighbours,
                "max_rounds_per_person": self.budget.max_rounds_per_person,
            },
            "reproducible": self.reproducible,
            "notion": self.notion,
            "ledger": self.ledger.to_json(),
        } | ({"marks": list(self.marks)} if self.marks else {})

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> Account:
        notion = checks.record("the record of an account", record)["notion"]
        return cls(
            Budget(**record["budget"]),
            Ledger.from_json(record["ledger"]),
            record["reproducible"] is not False,
            tuple(map(str, record.get("marks", ()))),
            None if notion is None else checks.one_of("notion", notion, NOTIONS),
        )

    def releases(self) -> tuple[list[str], list[list[str]]]:
        """Every release in words: the header of a table and its rows."""
        header = ["release", "mechanism", "what can move", "noise", "times", "epsilon each"]
        return header, list(_rows(self.ledger, ""))

    def summary(self) -> tuple[str, list[str]]:
        """What is printed above the table of releases, and what is printed below it."""
        above, _, *below = self._lines()
        return above, below

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _repr_html_(self) -> str:
        from ..core.html import card, grid, line

        above, below = self.summary()
        header, rows = self.releases()
        released = grid(header, rows) if rows else line("nothing has been released")
        return card("Privacy account", line(above), released, *(line(remark) for remark in below))

    def _lines(self) -> Iterator[str]:
        budget = self.budget
        epsilon = self.epsilon()
        at = f" at delta {budget.delta:g}" if budget.delta else ""
        if not budget.private:
            yield f"no privacy: epsilon inf (the budget is infinite), {_relation(budget)}"
        else:
            how = "" if epsilon == 0.0 else f" by {self.best_notion()}"
            yield f"epsilon {epsilon:.6g}{at}{how}; limit {budget.epsilon:g}; {_relation(budget)}"
        header, rows = self.releases()
        yield table(header, rows) if rows else "nothing has been released"
        yield from self.marks
        if self.reproducible:
            yield "reproducible randomness: not private (anyone who knows the seed can remove the noise)"


def _relation(budget: Budget) -> str:
    what = "one person replaced" if budget.neighbours == "replace" else "one person added or removed"
    rounds = budget.max_rounds_per_person
    return f"{what}, {rounds} round{'s' if rounds > 1 else ''} each"


def _rows(ledger: Ledger, prefix: str) -> Iterator[list[str]]:
    for (label, event), count in ledger.counts.items():
        loss = event_loss(event)
        has_pure = loss.pure is not None and not loss.rest_rho
        each = f"{float(loss.pure):.4g}" if has_pure and loss.pure is not None else "-"
        yield [prefix + label, *_described(event), f"{count:,}", each]
    for name, part in ledger.parts.items():
        yield from _rows(part, f"{prefix}{name}: ")


def _described(event: Event) -> tuple[str, str, str]:
    """Mechanism, sensitivity and noise of an event, in words."""
    if isinstance(event, ExponentialChoice):
        return "exponential", f"range {float(event.range):.4g}", f"rate {float(event.rate):.4g}"
    if isinstance(event, GaussianNoise):
        return "Gaussian", f"L2 {float(event.sensitivity):.4g}", f"sigma {float(event.sigma):.4g}"
    if isinstance(event, LaplaceNoise):
        spherical = isinstance(event, SphericalLaplaceNoise)
        kind, norm = ("spherical Laplace", "L2") if spherical else ("Laplace", "L1")
        return kind, f"{norm} {float(event.sensitivity):.4g}", f"scale {float(event.scale):.4g}"
    record = event.to_json()
    kind = record.pop("kind")
    return str(kind), "", ", ".join(f"{name} {float(Fraction(value)):.4g}" for name, value in record.items())


def _person_pure(loss: Loss, rounds: int) -> float:
    if loss.pure is None or loss.rest_rho is None or loss.rest_rho > 0:
        return math.inf
    return rounded_up(loss.pure * rounds)


def _squared(value: Fraction | None, rounds: int) -> float:
    return math.inf if value is None else rounded_up(value * rounds**2)


def _failure(loss: Loss, rounds: int) -> Fraction:
    """Delta of a person from the approximate releases, by group privacy over ``rounds`` rounds.

    (e, d) between neighbours gives ``d (1 + e^e + ... + e^((r-1) e))`` over r steps; the pure part of
    the loss is the only e for which this is known, so more than one round needs it to be finite.
    """
    if loss.delta == 0 or rounds == 1:
        return loss.delta
    if loss.pure is None or loss.rest_rho != 0:
        return Fraction(1)
    exponent = (rounds - 1) * loss.pure
    if exponent > 5000:  # beyond any delta that a float can hold
        return Fraction(1)
    return min(Fraction(1), loss.delta * rounds * conversions.exponential_above(exponent))


def _epsilons(loss: Loss, budget: Budget, delta: float, notion: str | None = None) -> list[tuple[str, float]]:
    """(notion in words, epsilon) in ``notion``; in every one, and in mixtures of two, if that is None."""
    rounds = budget.max_rounds_per_person
    spare = exact(delta) - _failure(loss, rounds)
    if spare < 0:
        return [("nothing: delta is used up", math.inf)]
    left = rounded_down(spare)
    pairs = [("pure", "pure epsilon", _person_pure(loss, rounds))]
    if rounds == 1 or loss.delta == 0:
        pairs.append(("zcdp", "zCDP", conversions.zcdp_epsilon(_squared(loss.rho, rounds), left)))
        mu = math.sqrt(_squared(loss.mu_squared, rounds))
        pairs.append(("gdp", "Gaussian DP", conversions.gdp_epsilon(mu, left)))
        if loss.pure and loss.rest_rho:
            pure = rounded_up(loss.pure * rounds)
            rest = conversions.zcdp_epsilon(_squared(loss.rest_rho, rounds), left)
            pairs.append(("mixed", "pure epsilon + zCDP", _sum_above(pure, rest)))
            rest = conversions.gdp_epsilon(math.sqrt(_squared(loss.rest_mu_squared, rounds)), left)
            pairs.append(("mixed", "pure epsilon + Gaussian DP", _sum_above(pure, rest)))
    found = [(words, epsilon) for name, words, epsilon in pairs if notion in (None, name)]
    return found or [("nothing: group privacy of a delta is known for pure epsilon only", math.inf)]


def _sum_above(pure: float, rest: float) -> float:
    return rounded_up(exact(pure) + exact(rest)) if math.isfinite(pure + rest) else math.inf


def smallest_epsilon(loss: Loss, budget: Budget, delta: float, notion: str | None = None) -> float:
    """Smallest epsilon a person has at ``delta``, in ``notion`` or in the best of all."""
    return min(value for _, value in _epsilons(loss, budget, delta, notion))


def smallest_delta(loss: Loss, budget: Budget, epsilon: float, notion: str | None = None) -> float:
    """Smallest delta a person has at ``epsilon``, in ``notion`` or in the best of all."""
    rounds = budget.max_rounds_per_person
    if math.isinf(epsilon):
        return 0.0
    deltas = [1.0]
    if notion in (None, "pure") and _person_pure(loss, rounds) <= epsilon:
        deltas.append(0.0)
    if rounds == 1 or loss.delta == 0:
        if notion in (None, "zcdp"):
            deltas.append(conversions.zcdp_delta(_squared(loss.rho, rounds), epsilon))
        if notion in (None, "gdp"):
            deltas.append(conversions.gdp_delta(math.sqrt(_squared(loss.mu_squared, rounds)), epsilon))
        mixed = notion is None and loss.pure and loss.rest_rho
        if mixed and loss.pure and (apart := exact(epsilon) - loss.pure * rounds) > 0:
            spare = rounded_down(apart)
            deltas.append(conversions.zcdp_delta(_squared(loss.rest_rho, rounds), spare))
            mu = math.sqrt(_squared(loss.rest_mu_squared, rounds))
            deltas.append(conversions.gdp_delta(mu, spare))
    return min(1.0, rounded_up(exact(min(deltas)) + _failure(loss, rounds)))


NOTIONS = ("pure", "zcdp", "gdp")


@dataclass(frozen=True)
class Filter:
    """What may be spent, in one privacy notion that was fixed before the first answer.

    ``limit`` bounds the notion's own sum per round (epsilon, rho, or mu squared) and ``failure`` the sum of
    the deltas of approximate releases. Both are fixed numbers, so that whoever chooses releases by looking
    at answers has no way to spend one instead of the other:

    - "pure": epsilons add up to at most epsilon, deltas to at most delta (basic composition, which holds for
      adaptively chosen parameters: Rogers, Roth, Ullman and Vadhan 2016).
    - "zcdp": rhos add up to at most the rho that gives epsilon at the rest of delta. The Renyi bound of every
      order is a supermartingale, so this holds for adaptively chosen parameters (Feldman and Zrnic 2021;
      Whitehouse, Ramdas, Rogers and Wu 2023).
    - "gdp": squares of mu, likewise (Smith and Thakurta 2022).
    """

    notion: str
    limit: Fraction
    failure: Fraction

    @classmethod
    def of(cls, budget: Budget, notion: str, failure: Fraction = _NO_DELTA) -> Filter:
        """The filter of a private budget; ``failure`` of its delta is set aside in "zcdp" and "gdp"."""
        rounds = budget.max_rounds_per_person
        if notion == "pure":
            epsilon = budget.epsilon_per_round
            assert isinstance(epsilon, Fraction)
            exponent = (rounds - 1) * epsilon
            if exponent > 5000:  # beyond any delta that a float can hold
                return cls(notion, epsilon, Fraction(0))
            growth = rounds * conversions.exponential_above(exponent) if rounds > 1 else 1
            return cls(notion, epsilon, exact(budget.delta) / growth)
        left = rounded_down(exact(budget.delta) - failure)
        if failure and (rounds > 1 or left <= 0.0):
            return cls(notion, Fraction(0), Fraction(0))  # of approximate zCDP no group privacy is known
        if notion == "zcdp":
            return cls(notion, exact(budget.limit_rho(left)), failure)
        return cls(notion, exact(budget.limit_mu(left)) ** 2, failure)

    def spent(self, loss: Loss) -> Fraction | None:
        """The notion's own sum; None where it is unbounded."""
        if self.notion == "pure":
            return loss.pure if loss.rest_rho == 0 else None
        return loss.rho if self.notion == "zcdp" else loss.mu_squared

    def fits(self, loss: Loss) -> bool:
        """Whether ``loss`` per round keeps a person within the budget; exact comparison of fractions."""
        spent = self.spent(loss)
        return spent is not None and spent <= self.limit and loss.delta <= self.failure

    def allows(self, loss: Loss) -> bool:
        """The same for a loss that was added up again, perhaps in another order: rounded up differently."""
        spent, room = self.spent(loss), 1 + Fraction(1, 1 << 400)
        return spent is not None and spent <= self.limit * room and loss.delta <= self.failure * room


@lru_cache(maxsize=256)
def filter_of(budget: Budget, notion: str, failure: Fraction = _NO_DELTA) -> Filter:
    """`Filter.of`, remembered."""
    return Filter.of(budget, notion, failure)


def filter_for(loss: Loss, budget: Budget) -> Filter | None:
    """The filter for releases of ``loss`` in all, known in advance; None if they fit none.

    Without a delta that is pure epsilon. With one, it is zCDP or Gaussian DP, whichever they take the smaller
    share of; pure epsilon where they fit neither, or come with deltas of their own and fit it.
    """
    pure = filter_of(budget, "pure")
    if not budget.delta or (loss.delta and pure.fits(loss)):
        return pure if pure.fits(loss) else None
    pairs = [filter_of(budget, notion, loss.delta) for notion in ("zcdp", "gdp")]
    fitting = [one for one in pairs if one.limit and one.fits(loss)]
    if fitting:
        return min(fitting, key=lambda one: (one.spent(loss) or 0) / one.limit)
    return pure if pure.fits(loss) else None


def fits(loss: Loss, budget: Budget) -> bool:
    """Whether releases of ``loss`` per round, known in advance, keep a person within ``budget``."""
    return not budget.private or filter_for(loss, budget) is not None


@dataclass(frozen=True)
class _ExactCurve:
    """Exact adaptive composition of exponential choices (with Gaussian and pure steps beside them)."""

    groups: tuple[tuple[tuple[tuple[float, int], ...], float, tuple[tuple[float, int], ...]], ...]
    floor: float

    @classmethod
    def of(cls, ledger: Ledger, budget: Budget) -> _ExactCurve | None:
        """The curve, or None where it is not known to hold (see the conditions below)."""
        from .composition import SMALLEST_DELTA

        rounds = budget.max_rounds_per_person
        if rounds > 1 and ledger.parts:
            return None  # a person could then be in several parts, and curves do not add up like sums
        groups = []
        for path in ledger.paths():
            ranges: dict[Fraction, int] = {}
            pure: dict[Fraction, int] = {}
            mu_squared = Fraction(0)
            for event, count in path:
                loss = event_loss(event)
                if isinstance(event, ExponentialChoice):
                    ranges[event.width] = ranges.get(event.width, 0) + count
                elif isinstance(event, GaussianNoise) and loss.mu_squared is not None:
                    mu_squared += loss.mu_squared * count
                elif isinstance(event, LaplaceNoise | PureRelease) and loss.pure is not None:
                    pure[loss.pure] = pure.get(loss.pure, 0) + count
                else:
                    return None
            groups.append(
                (
                    tuple((rounded_up(width * rounds), count) for width, count in ranges.items() if width),
                    math.sqrt(rounded_up(mu_squared * rounds**2)) * (1 + 1e-15),
                    tuple(
                        (rounded_up(epsilon * rounds), count) for epsilon, count in pure.items() if epsilon
                    ),
                )
            )
        return cls(tuple(groups), SMALLEST_DELTA)

    def epsilon(self, delta: float) -> float:
        from .composition import adaptive_choices_epsilon

        return self._worst(adaptive_choices_epsilon, delta)

    def delta(self, epsilon: float) -> float:
        from .composition import adaptive_choices_delta

        return self._worst(adaptive_choices_delta, epsilon)

    def _worst(self, curve: Callable[..., float], at: float) -> float:
        """The worst group's value; infinite (so that another notion is taken) where the curve gives up."""
        try:
            return max(curve(at, ranges, mu=mu, pure=pure) for ranges, mu, pure in self.groups)
        except ValueError:  # losses so large that the recursion is not meant for them
            return math.inf


__all__ = [
    "NOTIONS",
    "Account",
    "Filter",
    "Ledger",
    "event_loss",
    "filter_for",
    "filter_of",
    "fits",
    "smallest_delta",
    "smallest_epsilon",
]
