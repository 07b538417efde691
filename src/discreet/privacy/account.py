"""The account: what has been released so far, and the guarantee that follows from it.

Losses are added up in every privacy definition at once (`Loss`): pure epsilon, zCDP, Gaussian DP. For a list
of releases that was fixed in advance all these sums hold together, and the report takes the smallest epsilon.
For releases chosen after seeing answers they do not: which sum is smallest then depends on the answers. A
`Gate` therefore keeps to one definition (`Filter`), fixed before the first answer.

Sequential composition adds losses up; parallel composition over disjoint groups of people takes the worst of
them. Both are computed by `Releases` only, for the accountant, accounts, previews and plans alike.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

from ..core import checks
from ..core.text import PAGE, at_most, table
from . import conversions
from .budget import DEFINITIONS, Budget, Share
from .conversions import HALF_PI, exact, root_below, rounded_down, rounded_up
from .events import (
    ApproximateRelease,
    Event,
    ExponentialChoice,
    GaussianNoise,
    GroupGaussianNoise,
    LaplaceNoise,
    Loss,
    PermuteAndFlip,
    PureRelease,
    SphericalLaplaceNoise,
)
from .partitions import ThresholdedCounts
from .picks import ExactChoices, SampledPicks, SampledScores, SummedPicks, sampled

# --- releases and their composition ----------------------------------------------------------------------


NOTHING = Loss()
CONCURRENT = "concurrent"  # a pure part and a Gaussian one in parallel: for releases declared together
Group = tuple[str, ...]


class Entry(NamedTuple):
    """A kind of release: its label, its mechanism, and whether it is about disjoint groups of people.

    ``disjoint``: the releases are about one group of people after another, and nobody is in two groups
    (parallel composition). The count of an entry is then the number of releases about one group.
    """

    label: str
    event: Event
    disjoint: bool = False

    def to_json(self, count: int) -> dict[str, Any]:
        """``count`` such releases as plain values."""
        row = {"label": self.label, "count": count, "event": self.event.to_json()}
        return row | ({"disjoint": True} if self.disjoint else {})

    @classmethod
    def from_json(cls, row: dict[str, Any]) -> tuple[Entry, int]:
        """The entry written by `to_json`, and its count."""
        count = checks.whole("count", row["count"], at_least=1, at_most=checks.ANY)
        return cls(str(row["label"]), Event.from_json(row["event"]), flag(row, "disjoint")), count


class Releases:
    """Releases in the order they first happened, and those of disjoint groups of people (``parts``).

    ``sequential``: the parts are not disjoint groups but periods with the same people in all of them, so
    their losses add up.
    """

    def __init__(self, above: Releases | None = None, *, sequential: bool = False) -> None:
        self.counts: dict[Entry, int] = {}
        self.parts: dict[str, Releases] = {}
        self.sequential = sequential
        self._above = above
        self._settled = NOTHING
        self._running: tuple[Event, int] | None = None  # the latest event and how often it has repeated
        self._worst = NOTHING  # largest loss of any part; losses only grow, so a maximum can be kept

    def add(self, entry: Entry, count: int) -> None:
        """Record ``count`` releases. Composition happens only here, in `own` and in ``Loss.__mul__``."""
        self.counts[entry] = self.counts.get(entry, 0) + count
        self._settled, self._running = self._then(entry.event, count)
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

    def _then(self, event: Event, count: int) -> tuple[Loss, tuple[Event, int]]:
        """The settled loss and the running event after ``count`` more such releases."""
        if self._running is not None and self._running[0] == event:
            return self._settled, (event, self._running[1] + count)
        return self.own, (event, count)

    @property
    def own(self) -> Loss:
        """Loss of the releases made here, parts aside."""
        return self._settled if self._running is None else _sum(self._settled, self._running)

    @property
    def loss(self) -> Loss:
        """Own releases, plus the worst of the parts: nobody is in more than one of them."""
        if self.sequential:
            return sum((part.loss for part in self.parts.values()), self.own)
        return self.own + self._worst if self.parts else self.own

    def loss_with(self, event: Event, count: int, listed: Loss = NOTHING) -> Loss:
        """Total loss, from the top level, after ``count`` more releases here and those of ``listed``."""
        total, place = _sum(*self._then(event, count)), self
        if listed is not NOTHING:
            total += listed
        if self.parts:
            total += self._worst
        while place._above is not None:
            place = place._above
            total = place.own + place._worst.worst(total)
        assert True not in (self.sequential, place.sequential)  # nothing is added to totals
        return total

    def loss_seen(self) -> Loss:
        """The loss of the people of this group: of releases here and above, not in sibling groups."""
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
        twin.counts, twin._worst = dict(self.counts), self._worst
        twin._settled, twin._running = self._settled, self._running
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
        """Whether any level has disjoint groups of people."""
        disjoint = bool(self.parts) and not self.sequential
        return disjoint or any(part.divided for part in self.parts.values())

    def check_families(self, group: Group) -> None:
        """Refuse groups that may share people with existing ones: parts of another split of the same people.

        A name "family: part" belongs to a family; all groups of one level must belong to the same one.
        """
        place = self
        for name in group:
            family = name.rpartition(": ")[0]
            for other, part in place.parts.items():
                if other.rpartition(": ")[0] != family and not part.empty:
                    raise ValueError(
                        f"group {name!r} lies next to {other!r}, which divides the same people differently:"
                        " somebody may be in both; use the groups of one division"
                    )
            place = place.part(name)

    def events(self) -> Iterator[Event]:
        yield from (entry.event for _, entry, _ in self.entries())

    # --- saving ----------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        return {
            "releases": [entry.to_json(count) for entry, count in self.counts.items()],
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
            self.add(*Entry.from_json(row))
        for name, part in checks.record("parts", record["parts"]).items():
            self.part(name)._read(part)


def _sum(settled: Loss, running: tuple[Event, int]) -> Loss:
    lost = event_loss(running[0]) * running[1]
    return lost if settled is NOTHING else settled + lost


def flag(record: dict[str, Any], name: str) -> bool:
    """The boolean ``name`` of a record, False if absent; other values are refused."""
    value = record.get(name, False)
    if not isinstance(value, bool):
        raise ValueError(f"{name} must be true or false, got {checks.shown(value)}")
    return value


@lru_cache(maxsize=1024)
def event_loss(event: Event) -> Loss:
    """``event.loss()``, remembered: long streams repeat the same event."""
    checks.instance("event", event, Event, "LaplaceNoise(1.0, 2.0)")
    return event.loss()


# --- the guarantee that a loss gives one person, and the loss that a budget allows -----------------------


_NO_DELTA = Fraction(0)


def person_pure(loss: Loss, rounds: int) -> float:
    if loss.pure is None or loss.rest_rho is None or loss.rest_rho > 0:
        return math.inf
    return rounded_up(loss.pure * rounds)


def squared(value: Fraction | None, rounds: int) -> float:
    return math.inf if value is None else rounded_up(value * rounds**2)


def failure_of(loss: Loss, rounds: int) -> Fraction:
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


def epsilons(
    loss: Loss, budget: Budget, delta: float, definition: str | None = None
) -> list[tuple[str, float]]:
    """(name, epsilon) in ``definition``; if that is None, in every definition and in mixtures of two."""
    rounds = budget.max_rounds_per_person
    spare = exact(delta) - failure_of(loss, rounds)
    if spare < 0:
        return [("nothing: delta is used up", math.inf)]
    left = rounded_down(spare)
    pairs = [("pure", "pure epsilon", person_pure(loss, rounds))]
    if rounds == 1 or loss.delta == 0:
        pairs.append(("zcdp", "zCDP", conversions.zcdp_epsilon(squared(loss.rho, rounds), left)))
        mu = math.sqrt(squared(loss.mu_squared, rounds))
        pairs.append(("gdp", "Gaussian DP", conversions.gdp_epsilon(mu, left)))
        if loss.pure and loss.rest_rho:
            pure = rounded_up(loss.pure * rounds)
            rest = conversions.zcdp_epsilon(squared(loss.rest_rho, rounds), left)
            pairs.append(("mixed", "pure epsilon + zCDP", _sum_above(pure, rest)))
        if loss.pure is not None and (definition == CONCURRENT or (loss.pure and loss.rest_rho)):
            mu = math.sqrt(squared(loss.rest_mu_squared, rounds)) * (1 + 1e-15)
            both = conversions.concurrent_epsilon(loss.pure * rounds, mu, left)
            pairs.append((CONCURRENT, "pure epsilon + Gaussian DP", both))
    found = [(words, epsilon) for name, words, epsilon in pairs if definition in (None, name)]
    return found or [("nothing: group privacy of a delta is known for pure epsilon only", math.inf)]


def _sum_above(pure: float, rest: float) -> float:
    return rounded_up(exact(pure) + exact(rest)) if math.isfinite(pure + rest) else math.inf


def smallest_epsilon(loss: Loss, budget: Budget, delta: float, definition: str | None = None) -> float:
    """Smallest epsilon of a person at ``delta``, in ``definition`` or in the best of all."""
    return min(value for _, value in epsilons(loss, budget, delta, definition))


def smallest_delta(loss: Loss, budget: Budget, epsilon: float, definition: str | None = None) -> float:
    """Smallest delta of a person at ``epsilon``, in ``definition`` or in the best of all."""
    rounds = budget.max_rounds_per_person
    if math.isinf(epsilon):  # the probability of an unbounded loss
        return 1.0 if loss.rho is None else min(1.0, rounded_up(failure_of(loss, rounds)))
    deltas = [1.0]
    if definition in (None, "pure") and person_pure(loss, rounds) <= epsilon:
        deltas.append(0.0)
    if rounds == 1 or loss.delta == 0:
        if definition in (None, "zcdp"):
            deltas.append(conversions.zcdp_delta(squared(loss.rho, rounds), epsilon))
        if definition in (None, "gdp"):
            deltas.append(conversions.gdp_delta(math.sqrt(squared(loss.mu_squared, rounds)), epsilon))
        apart = None if loss.pure is None else exact(epsilon) - loss.pure * rounds
        if definition in (None, CONCURRENT) and loss.pure is not None and apart is not None and apart >= 0:
            if definition is None and loss.pure and loss.rest_rho and apart:
                deltas.append(conversions.zcdp_delta(squared(loss.rest_rho, rounds), rounded_down(apart)))
            mu = math.sqrt(squared(loss.rest_mu_squared, rounds)) * (1 + 1e-15)
            deltas.append(conversions.concurrent_delta(loss.pure * rounds, mu, exact(epsilon)))
    return min(1.0, rounded_up(exact(min(deltas)) + failure_of(loss, rounds)))


@dataclass(frozen=True)
class Filter:
    """What may be spent, in one privacy definition that was fixed before the first answer.

    ``limit`` bounds the definition's own sum per round (epsilon, rho, or mu squared) and ``failure`` the sum
    of the deltas of approximate releases. Both are fixed numbers, so that an analyst who chooses releases by
    looking at answers cannot trade one for the other:

    - "pure": epsilons add up to at most epsilon, deltas to at most delta (basic composition, which holds for
      adaptively chosen parameters: Rogers, Roth, Ullman and Vadhan 2016).
    - "zcdp": rhos add up to at most the rho that gives epsilon at the rest of delta. The Renyi bound of every
      order is a supermartingale, so this holds for adaptively chosen parameters (Feldman and Zrnic 2021;
      Whitehouse, Ramdas, Rogers and Wu 2023).
    - "gdp": squares of mu, likewise (Smith and Thakurta 2022).
    - "concurrent": releases with a pure epsilon add up to at most ``pure``, and squares of mu of the others
      to at most ``limit``. Each kind alone is an interactive mechanism with a guarantee, by the arguments
      above; an analyst who queries both, in any order and choosing each query by answers of the other, learns
      no more than from one randomized response and one Gaussian in parallel (Vadhan and Zhang 2023: f-DP of
      interactive mechanisms composes concurrently as that of single releases). `conversions.concurrent_delta`
      computes their joint curve.
    """

    definition: str
    limit: Fraction
    failure: Fraction
    pure: Fraction = _NO_DELTA

    @classmethod
    def of(cls, budget: Budget, definition: str, failure: Fraction = _NO_DELTA) -> Filter:
        """The filter of a private budget; ``failure`` of its delta is set aside in "zcdp" and "gdp"."""
        rounds = budget.max_rounds_per_person
        if definition == "pure":
            epsilon = budget.epsilon_per_round
            assert isinstance(epsilon, Fraction)
            exponent = (rounds - 1) * epsilon
            if exponent > 5000:  # beyond any delta that a float can hold
                return cls(definition, epsilon, Fraction(0))
            growth = rounds * conversions.exponential_above(exponent) if rounds > 1 else 1
            return cls(definition, epsilon, exact(budget.delta) / growth)
        left = rounded_down(exact(budget.delta) - failure)
        if failure and (rounds > 1 or left <= 0.0):
            return cls(definition, Fraction(0), Fraction(0))  # no group privacy is known for approximate zCDP
        if definition == "zcdp":
            return cls(definition, exact(budget.limit_rho(left)), failure)
        return cls(definition, exact(budget.limit_mu(left)) ** 2, failure)

    @classmethod
    def concurrent(cls, budget: Budget, pure: Fraction, mu_squared: Fraction) -> Filter | None:
        """The filter with these limits per round; None if a person could then exceed the budget."""
        rounds = budget.max_rounds_per_person
        mu = math.sqrt(squared(mu_squared, rounds)) * (1 + 1e-15)
        delta = conversions.concurrent_delta(pure * rounds, mu, exact(budget.epsilon))
        return cls(CONCURRENT, mu_squared, _NO_DELTA, pure) if delta <= budget.delta else None

    def part(self, fraction: Fraction) -> Filter:
        """A fraction of both limits."""
        return Filter(self.definition, self.limit * fraction, self.failure * fraction, self.pure * fraction)

    def spent(self, loss: Loss) -> Fraction | None:
        """The definition's own sum; None where it is unbounded."""
        if self.definition == "pure":
            return loss.pure if loss.rest_rho == 0 else None
        if self.definition == CONCURRENT:
            return loss.rest_mu_squared if loss.pure is not None and loss.pure <= self.pure else None
        return loss.rho if self.definition == "zcdp" else loss.mu_squared

    def fits(self, loss: Loss) -> bool:
        """Whether ``loss`` per round keeps a person within the budget; exact comparison of fractions."""
        spent = self.spent(loss)
        return spent is not None and spent <= self.limit and loss.delta <= self.failure

    def allows(self, loss: Loss) -> bool:
        """As `fits`, with slack for the rounding of a loss summed again, perhaps in another order."""
        spent, room = self.spent(loss), 1 + Fraction(1, 1 << 400)
        return spent is not None and spent <= self.limit * room and loss.delta <= self.failure * room


@lru_cache(maxsize=256)
def filter_of(budget: Budget, definition: str, failure: Fraction = _NO_DELTA) -> Filter:
    """`Filter.of`, remembered."""
    return Filter.of(budget, definition, failure)


@dataclass(frozen=True)
class Remaining:
    """What a round may still spend: on pure releases, on zCDP ones, on Gaussian ones, or in deltas.

    At a gate that has fixed its privacy definition, each is what still fits that definition. Before that,
    each is the limit of its own definition.
    """

    epsilon: float
    rho: float
    mu: float
    delta: float

    @classmethod
    def of(cls, budget: Budget, loss: Loss, chosen: Filter | None) -> Remaining:
        """What people with loss ``loss`` may still lose; ``chosen`` is the fixed filter, if any."""
        if not budget.private:
            return cls(math.inf, math.inf, math.inf, budget.delta)
        left = {}
        if chosen is not None and chosen.definition == CONCURRENT:
            left = {"pure": chosen.pure - (loss.pure or 0), "gdp": chosen.limit - (loss.rest_mu_squared or 0)}
            chosen = replace(chosen, definition="gdp")
        for definition in DEFINITIONS if chosen is None else () if left else (chosen.definition,):
            limit = filter_of(budget, definition) if chosen is None else chosen
            spent = limit.spent(loss)
            left[definition] = Fraction(0) if spent is None else max(Fraction(0), limit.limit - spent)
        failure = filter_of(budget, "pure").failure if chosen is None else chosen.failure
        # For a pure release e, rho is at most e^2/2 and mu squared at most (pi/2) e^2; for Gaussian noise,
        # rho is half of mu squared. If only the rho of a release is known, neither epsilon nor mu is bounded.
        zero = Fraction(0)
        rho, mu_squared = left.get("zcdp", zero), left.get("gdp", zero)
        pure = left.get("pure", root_below(2 * rho) if rho else root_below(mu_squared / HALF_PI))
        return cls(
            rounded_down(pure),
            rounded_down(rho),
            float(root_below(left.get("gdp", 2 * rho))),
            rounded_down(max(zero, failure - loss.delta)),
        )


def filter_asked(budget: Budget, definition: str | None, failure: float | Fraction) -> Filter | None:
    """The filter that the arguments of a gate ask for; None where the first release decides."""
    number = checks.real("failure", failure, at_least=0.0)
    aside = failure if isinstance(failure, Fraction) else exact(number)
    if definition is None:
        if aside:
            raise ValueError(
                f"failure={float(aside):g} goes with definition='zcdp' or definition='gdp'; give one"
            )
        return filter_of(budget, "pure") if budget.private and not budget.delta else None
    checks.one_of("definition", definition, DEFINITIONS)
    if definition == "pure":
        if aside:
            raise ValueError("failure= is for 'zcdp' and 'gdp'; in 'pure' all of delta is for failures")
    elif budget.private and not budget.delta:
        raise ValueError(
            f"definition={definition!r} needs delta > 0; give the budget a delta or take definition='pure'"
        )
    elif aside and (aside >= exact(budget.delta) or budget.max_rounds_per_person > 1):
        raise ValueError(
            f"failure={float(aside):g} must be below delta={budget.delta:g}, with max_rounds_per_person=1"
        )
    return filter_of(budget, definition, aside) if budget.private else None


def filter_for(loss: Loss, budget: Budget) -> Filter | None:
    """The filter for releases of total ``loss``, known in advance; None if they fit no definition.

    Without a delta, that is pure epsilon. With one, it is zCDP or Gaussian DP, whichever they take the
    smaller share of; pure epsilon if they fit neither, or have deltas of their own and fit it. Pure and
    Gaussian releases that together fit none of these get a limit for each kind ("concurrent"), if that fits.
    """
    pure = filter_of(budget, "pure")
    if not budget.delta or (loss.delta and pure.fits(loss)):
        return pure if pure.fits(loss) else None
    best, least = None, Fraction(2)  # of what fits, the share is at most 1
    for definition in ("zcdp", "gdp"):
        one = filter_of(budget, definition, loss.delta)
        if one.limit and one.fits(loss):
            share = (one.spent(loss) or 0) / one.limit
            if share < least:
                best, least = one, Fraction(share)
    if best is not None:
        return best
    if pure.fits(loss):
        return pure
    # What fits no single definition may fit two in parallel, each limited to the amount declared here.
    if loss.pure and loss.rest_mu_squared and not loss.delta:
        return Filter.concurrent(budget, loss.pure, loss.rest_mu_squared)
    return None


def check_group(entry: Entry, group: Group, budget: Budget) -> None:
    """Refuse a `GroupGaussianNoise`, which covers all rounds of a person, where it would be miscounted.

    Its loss is that of ``participations`` rounds, so the budget must have the same number. It must also be
    about everybody: of disjoint groups the account takes the worst one, and for a person with rounds in two
    groups that is a bound only if losses are proportional to the number of rounds.
    """
    event = entry.event
    if not isinstance(event, GroupGaussianNoise):
        return
    if event.participations != budget.max_rounds_per_person:
        raise ValueError(
            f"{entry.label!r} is about participations={event.participations} rounds of a person; the budget"
            f" has max_rounds_per_person={budget.max_rounds_per_person}"
        )
    if (entry.disjoint or group) and event.participations > 1:
        raise ValueError(
            f"{entry.label!r} counts all rounds of a person together, and somebody's may be in several"
            " disjoint groups; leave min_separation out there"
        )


def fits(loss: Loss, budget: Budget) -> bool:
    """Whether releases of ``loss`` per round, known in advance, keep a person within ``budget``."""
    return not budget.private or filter_for(loss, budget) is not None


# --- published settings that deliver less than they claim: usable, and marked as such -------------------


class PublishedCalibrationWarning(UserWarning):
    """A published setting does not deliver the guarantee it claims; the account reports the true one."""


def true_budget(claimed: Budget, releases: Iterable[tuple[Event, int]], what: str) -> Budget:
    """The budget that ``releases`` of (event, count) really need, at least the claimed one.

    If that is more than was claimed, a `PublishedCalibrationWarning` is issued: the setting can still be run
    for comparison, and its account reports the true guarantee.

    >>> from discreet.privacy import LaplaceNoise
    >>> true_budget(Budget(1.0), [(LaplaceNoise(1.0, 2.0), 2)], "two halves").epsilon
    1.0
    """
    loss = sum((event_loss(event) * count for event, count in releases), NOTHING)
    if not claimed.private or fits(loss, claimed):
        return claimed
    # The releases' own deltas are added to delta, not converted into epsilon.
    roomy = replace(claimed, delta=rounded_up(exact(claimed.delta) + loss.delta)) if loss.delta else claimed
    needed = smallest_epsilon(loss, roomy, roomy.delta)
    epsilon, slack = max(claimed.epsilon, needed), Fraction(1, 10**12)
    while not fits(loss, replace(roomy, epsilon=epsilon)):  # conversions round outwards
        epsilon, slack = float(exact(needed) * (1 + slack)), 4 * slack
    checks.warn(
        f"{what}: the published constants claim {_named(claimed)} and give"
        f" {_named(replace(roomy, epsilon=needed))}; the account says so. See docs/errata.md.",
        PublishedCalibrationWarning,
    )
    return replace(roomy, epsilon=epsilon)


def published_share(
    share: Share, releases: Iterable[tuple[Event, int]], what: str, claimed: Budget | None = None
) -> Share:
    """``share`` at a gate with the budget that published ``releases`` really need; see `true_budget`.

    ``claimed`` is the paper's claim, if that is not the full budget. Refused for a share of a budget, and at
    a gate that others spend from, as its budget cannot be raised.
    """
    if not share.whole or not share.own_gate or share.gate is None:
        raise ValueError(
            'calibration="published" may need more than it claims, and so a budget of its own; give a Budget,'
            ' or take "tight"'
        )
    needed = true_budget(share.budget if claimed is None else claimed, releases, what)
    if needed == share.budget:
        return share
    return replace(share, budget=needed, gate=share.gate.with_budget(needed))


def _named(budget: Budget) -> str:
    at = f" at delta {at_most(budget.delta, 3)}" if budget.delta else ""
    return f"epsilon {at_most(budget.epsilon, 4)}{at}"


# --- the account -----------------------------------------------------------------------------------------


# The guarantees of events that name no mechanism.
_DEFINITIONS_OF = {
    "PureRelease": "epsilon-DP (pure)",
    "ConcentratedRelease": "rho-zCDP",
    "ApproximateRelease": "(epsilon, delta)-DP (approximate)",
}
_DECLARED = "declared as a whole: "
DECLARED = (
    f"{_DECLARED}one guarantee of a run or a fit. The account of that run or fit lists its mechanisms,"
    " sensitivities and noise; docs/privacy.md (Algorithms) has the proofs. For releases of your own code,"
    " the proof is yours to give"
)
_HEADER = ["release", "mechanism", "sensitivity", "noise", "count", "composition", "epsilon per release"]
_MOST_PATHS = 1000  # exact curves of more combinations of groups take too long


@dataclass(frozen=True)
class Account:
    """What has been spent, and the guarantee that follows for a person.

    ``epsilon(delta)`` and ``delta(epsilon)`` are the guarantee of the releases listed, in ``definition``, or
    in the best of all definitions if that is None. ``tight=True`` also computes the exact adaptive
    composition of exponential choices, which is up to 9 % smaller and takes seconds. Printing an account
    shows every release with its sensitivity. ``caveats`` are the assumptions of the guarantee besides the
    budget, such as that of a list of items that came from data.

    The two functions hold for a list of releases fixed in advance, as a learner's is. If releases, or when to
    stop, were chosen by looking at answers, only the pure epsilon spent so far is a guarantee; zCDP and
    Gaussian DP then guarantee only the limit that the gate keeps: ``budget.epsilon`` at ``budget.delta``.
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
        """Pure epsilon of a person; infinite once anything without one was released."""
        loss = self.loss
        return math.inf if loss.delta else person_pure(loss, self.budget.max_rounds_per_person)

    @property
    def rho(self) -> float:
        """zCDP parameter of a person (in addition to what approximate releases add to delta)."""
        return squared(self.loss.rho, self.budget.max_rounds_per_person)

    @property
    def mu(self) -> float:
        """Gaussian-DP parameter of a person (in addition to what approximate releases add to delta)."""
        return math.sqrt(squared(self.loss.mu_squared, self.budget.max_rounds_per_person)) * (1 + 1e-15)

    def epsilon(self, delta: float | None = None, *, tight: bool = False) -> float:
        """Smallest epsilon that holds together with ``delta`` (the budget's, if none is given)."""
        target = self.budget.delta if delta is None else checks.real("delta", delta, at_least=0.0, below=1.0)
        best = smallest_epsilon(self.loss, self.budget, target, self.definition)
        if tight and best > 0.0:
            from .composition import SMALLEST_DELTA, adaptive_choices_epsilon

            curves = _curves(self.ledger, self.budget)
            if curves is not None and target >= SMALLEST_DELTA:
                best = min(best, _worst(adaptive_choices_epsilon, target, curves))
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
            from .composition import SMALLEST_DELTA, adaptive_choices_delta

            curves = _curves(self.ledger, self.budget)
            if curves is not None:
                best = min(best, max(_worst(adaptive_choices_delta, target, curves), SMALLEST_DELTA))
        return best

    def best_definition(self, delta: float | None = None) -> str:
        """The name of the definition that gives ``epsilon(delta)``."""
        target = self.budget.delta if delta is None else delta
        return min(epsilons(self.loss, self.budget, target, self.definition), key=lambda pair: pair[1])[0]

    def to_json(self) -> dict[str, Any]:
        """Plain values; floats as they print, exact fractions as text."""
        return {
            "budget": asdict(self.budget),
            "reproducible": self.reproducible,
            "definition": self.definition,
            "ledger": self.ledger.to_json(),
        } | ({"caveats": list(self.caveats)} if self.caveats else {})

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> Account:
        definition = checks.record("the record of an account", record)["definition"]
        known = (*DEFINITIONS, CONCURRENT)
        budget, ledger = Budget(**record["budget"]), Releases.from_json(record["ledger"])
        for group, entry, _ in ledger.entries():
            check_group(entry, group[1:] if ledger.sequential else group, budget)
        return cls(
            budget,
            ledger,
            record["reproducible"] is not False,
            tuple(map(str, record.get("caveats", ()))),
            None if definition is None else checks.one_of("definition", definition, known),
        )

    def releases(self) -> tuple[list[str], list[list[str]]]:
        """Every release in words: the header of a table and its rows."""
        return _HEADER, list(_rows(self.ledger, "", "sequential", self.budget.neighbours))

    def summary(self) -> tuple[str, tuple[list[str], list[list[str]]], list[str]]:
        """What is printed: the guarantee in a line, `releases`, and remarks."""
        budget, epsilon, released = self.budget, self.epsilon(), self.releases()
        above = f"no privacy: epsilon inf (the budget is infinite), {_relation(budget)}"
        if budget.private:
            at = f" at delta {at_most(budget.delta)}" if budget.delta else ""
            how = "" if epsilon == 0.0 else f" by {self.best_definition()}"
            above = (
                f"epsilon {at_most(epsilon)}{at}{how}; limit {at_most(budget.epsilon)}; {_relation(budget)}"
            )
        below = [DECLARED] if any(row[1].startswith(_DECLARED) for row in released[1]) else []
        if self.ledger.divided:
            below.append(
                "parallel composition over disjoint groups: the worst group counts, and all of the rest"
            )
        below += self.caveats
        if self.reproducible:
            below.append(
                "reproducible randomness: not private (anyone who knows the seed can remove the noise)"
            )
        return above, released, below

    def __str__(self) -> str:
        above, (header, rows), below = self.summary()
        released = table(header, rows, room=PAGE) if rows else "nothing has been released"
        return "\n".join([above, released, *below])

    def __repr__(self) -> str:
        count = sum(1 for _ in self.ledger.entries())
        at = f" at delta {at_most(self.budget.delta)}" if self.budget.delta else ""
        spent = f"epsilon {at_most(self.epsilon())} of {at_most(self.budget.epsilon)}{at}"
        return f"{type(self).__name__}({spent}, {count} release{'s' * (count != 1)})"

    def _repr_html_(self) -> str:
        from ..core.text import card, grid, line

        above, (header, rows), below = self.summary()
        released = grid(header, rows) if rows else line("nothing has been released")
        return card("Privacy account", line(above), released, *(line(remark) for remark in below))

    def to_html(self, title: str = "Privacy account", **about: Any) -> str:
        """The account as a document: one HTML file that prints well.

        ``promise``, ``public``, ``retention`` and ``uncovered`` state what an account cannot know; see
        `privacy.document`.

        >>> import discreet as dc
        >>> gate = dc.Gate(dc.Budget(1.0))
        >>> item = gate.choose([1.0, 5.0, 2.0], rate=0.25, sensitivity=2.0)
        >>> page = gate.spent.to_html("Shop", retention=["Events are deleted after 30 days."])
        >>> "at most exp(0.5) = 1.649 times as likely" in page
        True
        """
        from .document import document

        return document(title, {"the account": self}, **about)


def _relation(budget: Budget) -> str:
    adjacency = "replace-one" if budget.neighbours == "replace" else "add-remove"
    most = budget.max_rounds_per_person
    return f"{adjacency} adjacency, at most {most} contribution{'s' if most > 1 else ''} per person"


def _rows(ledger: Releases, prefix: str, composed: str, neighbours: str) -> Iterator[list[str]]:
    for (label, event, disjoint), count in ledger.counts.items():
        loss = event_loss(event)
        has_pure = loss.pure is not None and not loss.rest_rho
        each = at_most(float(loss.pure), 4) if has_pure and loss.pure is not None else "-"
        how = "parallel over disjoint groups" if disjoint else composed
        yield [prefix + label, *_described(event, neighbours), f"{count:,}", how, each]
    for name, part in ledger.parts.items():
        how = composed if ledger.sequential else "parallel, one group"
        yield from _rows(part, f"{prefix}{name}: ", how, neighbours)


def _described(event: Event, neighbours: str) -> tuple[str, str, str]:
    """Mechanism, sensitivity and noise of an event, in words."""
    if isinstance(event, ExactChoices):
        kind = f"exponential, {event.number:,} composed exactly at delta {at_most(float(event.delta), 4)}"
        return kind, f"range {float(event.range):.4g}", f"rate {float(event.rate):.4g}"
    if isinstance(event, ExponentialChoice | PermuteAndFlip):
        kind = "exponential" if isinstance(event, ExponentialChoice) else "permute-and-flip"
        return kind, f"range {float(event.range):.4g}", f"rate {float(event.rate):.4g}"
    if isinstance(event, GaussianNoise):
        rounds = f" in {event.participations:,} rounds" if isinstance(event, GroupGaussianNoise) else ""
        return "Gaussian", f"L2 {float(event.sensitivity):.4g}{rounds}", f"sigma {float(event.sigma):.4g}"
    if isinstance(event, LaplaceNoise):
        spherical = isinstance(event, SphericalLaplaceNoise)
        kind, norm = ("spherical Laplace", "L2") if spherical else ("Laplace", "L1")
        return kind, f"{norm} {float(event.sensitivity):.4g}", f"scale {float(event.scale):.4g}"
    if isinstance(event, SampledPicks | SampledScores):
        picks = sampled(event, float(event.bound), neighbours)
        together = f"total {float(event.bound):.4g} over all picks"
        scored = isinstance(event, SampledScores)
        return (
            f"{'largest noisy scores' if scored else 'permute-and-flip'} on a secret sample",
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
    """The description of an event that states a guarantee and no mechanism."""
    record = event.to_json()
    definition = _DEFINITIONS_OF.get(record.pop("kind"), "")
    if isinstance(event, ApproximateRelease) and not event.epsilon:
        return "chance of failure", "", f"delta {at_most(float(event.delta), 4)}"
    values = ", ".join(f"{name} {at_most(float(Fraction(value)), 4)}" for name, value in record.items())
    return f"{_DECLARED}{definition}", "", values


_Curve = tuple[tuple[tuple[float, int], ...], float, tuple[tuple[float, int], ...]]


def _curves(ledger: Releases, budget: Budget) -> list[_Curve] | None:
    """Exact adaptive composition of exponential choices, with Gaussian and pure steps in parallel.

    One curve for each group of people; None if they are not known to hold.
    """
    rounds = budget.max_rounds_per_person
    if rounds > 1 and ledger.divided:
        return None  # a person could be in several parts, and curves do not add up
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
            elif isinstance(event, LaplaceNoise | PureRelease | PermuteAndFlip) and loss.pure is not None:
                pure[loss.pure] = pure.get(loss.pure, 0) + count
            else:
                return None
        mu = math.sqrt(rounded_up(mu_squared * rounds**2)) * (1 + 1e-15)
        groups.append((_steps(ranges, rounds), mu, _steps(pure, rounds)))
    return groups


def _steps(counts: dict[Fraction, int], rounds: int) -> tuple[tuple[float, int], ...]:
    return tuple((rounded_up(size * rounds), count) for size, count in counts.items() if size)


def _worst(curve: Callable[..., float], at: float, groups: list[_Curve]) -> float:
    """The worst group's value; infinite where the computation refuses, so that another bound is taken."""
    try:
        return max(curve(at, ranges, mu=mu, pure=pure) for ranges, mu, pure in groups)
    except ValueError:  # losses too large for the recursion
        return math.inf
