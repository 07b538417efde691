"""The account: what has been released so far, and the guarantee that follows from it.

Losses are added up in every privacy definition at once (`Loss`): pure epsilon, zCDP, Gaussian DP. For a list
of releases that was fixed in advance all sums hold together, and the report takes the smallest epsilon. For
releases that were chosen after seeing answers that is not so: which sum comes out small then depends on the
answers. A `Gate` therefore keeps to one definition (`limits.Filter`), fixed before the first answer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from ..core import checks
from ..core.table import table
from .budget import DEFINITIONS, Budget
from .conversions import rounded_up
from .events import (
    ApproximateRelease,
    Event,
    ExponentialChoice,
    FlippedChoice,
    GaussianNoise,
    GroupGaussianNoise,
    LaplaceNoise,
    Loss,
    PureRelease,
    SphericalLaplaceNoise,
)
from .limits import check_group, epsilons, person_pure, smallest_delta, smallest_epsilon, squared
from .partitions import ThresholdedCounts
from .picks import ExactChoices, SampledPicks, SummedPicks, sampled
from .releases import Releases, event_loss

# What events guarantee that name no mechanism.
_DEFINITIONS_OF = {
    "PureRelease": "pure DP",
    "ConcentratedRelease": "zCDP",
    "ApproximateRelease": "approximate DP",
}
_MOST_PATHS = 1000  # exact curves of more combinations of groups are not worth their time


@dataclass(frozen=True)
class Account:
    """What has been spent, and what follows from it for a person.

    ``epsilon(delta)`` and ``delta(epsilon)`` are the guarantee of the releases listed, in ``definition``, or
    in the best of all definitions where that is None. ``tight=True`` also asks the exact adaptive composition
    of exponential choices, which is up to 9 % smaller and takes seconds. Printing an account shows every
    release with its sensitivity. ``caveats`` are sentences about what the guarantee takes for granted beside
    the budget, such as a list of items that came from data.

    They hold for a list of releases that was fixed in advance, as a learner's is. Where somebody chose what
    to release, or when to stop, by looking at answers, only pure epsilon can be read off at that moment; what
    zCDP and Gaussian DP guarantee then is the limit that the gate keeps: ``budget.epsilon`` at
    ``budget.delta``.
    """

    budget: Budget
    ledger: Releases
    reproducible: bool = False
    caveats: tuple[str, ...] = ()
    definition: str | None = None

    @property
    def loss(self) -> Loss:
        """Loss of one round, in all privacy definitions."""
        return self.ledger.loss

    @property
    def pure(self) -> float:
        """Pure epsilon of a person; infinite once anything without one has left."""
        loss = self.loss
        return math.inf if loss.delta else person_pure(loss, self.budget.max_rounds_per_person)

    @property
    def rho(self) -> float:
        """zCDP parameter of a person (beside what approximate releases add to delta)."""
        return squared(self.loss.rho, self.budget.max_rounds_per_person)

    @property
    def mu(self) -> float:
        """Gaussian-DP parameter of a person (beside what approximate releases add to delta)."""
        return math.sqrt(squared(self.loss.mu_squared, self.budget.max_rounds_per_person)) * (1 + 1e-15)

    def epsilon(self, delta: float | None = None, *, tight: bool = False) -> float:
        """Smallest epsilon that holds together with ``delta`` (the budget's, if none is given)."""
        target = self.budget.delta if delta is None else checks.real("delta", delta, at_least=0.0, below=1.0)
        best = smallest_epsilon(self.loss, self.budget, target, self.definition)
        if tight and best > 0.0:
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
        best = smallest_delta(self.loss, self.budget, target, self.definition)
        if tight and best > 0.0:
            curve = self._exact_curve()
            if curve is not None:
                best = min(best, max(curve.delta(target), curve.floor))
        return best

    def best_definition(self, delta: float | None = None) -> str:
        """Which definition gives ``epsilon(delta)``, in words."""
        target = self.budget.delta if delta is None else delta
        return min(epsilons(self.loss, self.budget, target, self.definition), key=lambda pair: pair[1])[0]

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
            "definition": self.definition,
            "ledger": self.ledger.to_json(),
        } | ({"caveats": list(self.caveats)} if self.caveats else {})

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> Account:
        definition = checks.record("the record of an account", record)["definition"]
        budget, ledger = Budget(**record["budget"]), Releases.from_json(record["ledger"])
        for group, entry, _ in ledger.entries():
            check_group(entry, group[1:] if ledger.sequential else group, budget)
        return cls(
            budget,
            ledger,
            record["reproducible"] is not False,
            tuple(map(str, record.get("caveats", ()))),
            None if definition is None else checks.one_of("definition", definition, DEFINITIONS),
        )

    def releases(self) -> tuple[list[str], list[list[str]]]:
        """Every release in words: the header of a table and its rows."""
        header = [
            "release",
            "mechanism",
            "sensitivity",
            "noise",
            "count",
            "composition",
            "epsilon per release",
        ]
        return header, list(_rows(self.ledger, "", "sequential", self.budget.neighbours))

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
            how = "" if epsilon == 0.0 else f" by {self.best_definition()}"
            yield f"epsilon {epsilon:.6g}{at}{how}; limit {budget.epsilon:g}; {_relation(budget)}"
        header, rows = self.releases()
        yield table(header, rows) if rows else "nothing has been released"
        if self.ledger.divided:
            yield "parallel composition over disjoint groups: the worst group counts, and all of the rest"
        yield from self.caveats
        if self.reproducible:
            yield "reproducible randomness: not private (anyone who knows the seed can remove the noise)"


def _relation(budget: Budget) -> str:
    adjacency = "replace-one" if budget.neighbours == "replace" else "add-remove"
    most = budget.max_rounds_per_person
    return f"{adjacency} adjacency, at most {most} contribution{'s' if most > 1 else ''} per person"


def _rows(ledger: Releases, prefix: str, composed: str, neighbours: str) -> Iterator[list[str]]:
    for (label, event, disjoint), count in ledger.counts.items():
        loss = event_loss(event)
        has_pure = loss.pure is not None and not loss.rest_rho
        each = f"{float(loss.pure):.4g}" if has_pure and loss.pure is not None else "-"
        how = "parallel over disjoint groups" if disjoint else composed
        yield [prefix + label, *_described(event, neighbours), f"{count:,}", how, each]
    for name, part in ledger.parts.items():
        how = composed if ledger.sequential else "parallel, one group"
        yield from _rows(part, f"{prefix}{name}: ", how, neighbours)


def _described(event: Event, neighbours: str) -> tuple[str, str, str]:
    """Mechanism, sensitivity and noise of an event, in words."""
    if isinstance(event, ExactChoices):
        kind = f"exponential, {event.number:,} composed exactly at delta {float(event.delta):.4g}"
        return kind, f"range {float(event.range):.4g}", f"rate {float(event.rate):.4g}"
    if isinstance(event, ExponentialChoice | FlippedChoice):
        kind = "exponential" if isinstance(event, ExponentialChoice) else "permute-and-flip"
        return kind, f"range {float(event.range):.4g}", f"rate {float(event.rate):.4g}"
    if isinstance(event, GaussianNoise):
        rounds = f" in {event.participations:,} rounds" if isinstance(event, GroupGaussianNoise) else ""
        return "Gaussian", f"L2 {float(event.sensitivity):.4g}{rounds}", f"sigma {float(event.sigma):.4g}"
    if isinstance(event, LaplaceNoise):
        spherical = isinstance(event, SphericalLaplaceNoise)
        kind, norm = ("spherical Laplace", "L2") if spherical else ("Laplace", "L1")
        return kind, f"{norm} {float(event.sensitivity):.4g}", f"scale {float(event.scale):.4g}"
    if isinstance(event, SampledPicks):
        picks = sampled(event, float(event.bound), neighbours)
        together = f"total {float(event.bound):.4g} over all picks"
        return (
            "permute-and-flip on a secret sample",
            together,
            f"rate {picks.rate:.4g}, {picks.chance:.4g} sampled",
        )
    if isinstance(event, SummedPicks):
        together = f"total {float(event.bound):.4g} over all picks"
        return "exponential, charged together", together, f"rate {event.rate(neighbours):.4g}"
    if isinstance(event, ThresholdedCounts):
        scale = float(event.sensitivity) / float(event.epsilon) if event.epsilon else math.inf
        return "Laplace, above a threshold", f"L1 {float(event.sensitivity):.4g}", f"scale {scale:.4g}"
    return _argued(event)


def _argued(event: Event) -> tuple[str, str, str]:
    """An event that says what is guaranteed and not how; its sensitivity is in its argument."""
    record = event.to_json()
    definition = _DEFINITIONS_OF.get(record.pop("kind"), "")
    if isinstance(event, ApproximateRelease) and not event.epsilon:
        return "chance of failure", "", f"delta {float(event.delta):.4g}"
    values = ", ".join(f"{name} {float(Fraction(value)):.4g}" for name, value in record.items())
    return f"{definition} by an argument of its own", "", values


@dataclass(frozen=True)
class _ExactCurve:
    """Exact adaptive composition of exponential choices (with Gaussian and pure steps beside them)."""

    groups: tuple[tuple[tuple[tuple[float, int], ...], float, tuple[tuple[float, int], ...]], ...]
    floor: float

    @classmethod
    def of(cls, ledger: Releases, budget: Budget) -> _ExactCurve | None:
        """The curve, or None where it is not known to hold (see the conditions below)."""
        from .composition import SMALLEST_DELTA

        rounds = budget.max_rounds_per_person
        if rounds > 1 and ledger.divided:
            return None  # a person could then be in several parts, and curves do not add up like sums
        if ledger.n_paths > _MOST_PATHS:
            return None
        groups = []
        for path in ledger.paths():
            ranges: dict[Fraction, int] = {}
            pure: dict[Fraction, int] = {}
            mu_squared = Fraction(0)
            for event, count in path:
                loss = event_loss(event)
                if isinstance(event, ExponentialChoice | ExactChoices):
                    number = count * (event.number if isinstance(event, ExactChoices) else 1)
                    ranges[event.width] = ranges.get(event.width, 0) + number
                elif isinstance(event, GaussianNoise) and loss.mu_squared is not None:
                    mu_squared += loss.mu_squared * count
                elif isinstance(event, LaplaceNoise | PureRelease | FlippedChoice) and loss.pure is not None:
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
        """The worst group's value; infinite, so that another definition is taken, where it gives up."""
        try:
            return max(curve(at, ranges, mu=mu, pure=pure) for ranges, mu, pure in self.groups)
        except ValueError:  # losses so large that the recursion is not meant for them
            return math.inf
