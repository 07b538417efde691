"""Limits on losses: the guarantee that a loss gives one person, and the loss that a budget allows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from ..core import checks
from . import conversions
from .budget import DEFINITIONS, Budget
from .conversions import HALF_PI, exact, root_below, rounded_down, rounded_up
from .events import GroupGaussianNoise, Loss
from .releases import Entry, Group

_NO_DELTA = Fraction(0)


def person_pure(loss: Loss, rounds: int) -> float:
    if loss.pure is None or loss.rest_rho is None or loss.rest_rho > 0:
        return math.inf
    return rounded_up(loss.pure * rounds)


def squared(value: Fraction | None, rounds: int) -> float:
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


def epsilons(
    loss: Loss, budget: Budget, delta: float, definition: str | None = None
) -> list[tuple[str, float]]:
    """(name, epsilon) in ``definition``; in every one, and in mixtures of two, if that is None."""
    rounds = budget.max_rounds_per_person
    spare = exact(delta) - _failure(loss, rounds)
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
            rest = conversions.gdp_epsilon(math.sqrt(squared(loss.rest_mu_squared, rounds)), left)
            pairs.append(("mixed", "pure epsilon + Gaussian DP", _sum_above(pure, rest)))
    found = [(words, epsilon) for name, words, epsilon in pairs if definition in (None, name)]
    return found or [("nothing: group privacy of a delta is known for pure epsilon only", math.inf)]


def _sum_above(pure: float, rest: float) -> float:
    return rounded_up(exact(pure) + exact(rest)) if math.isfinite(pure + rest) else math.inf


def smallest_epsilon(loss: Loss, budget: Budget, delta: float, definition: str | None = None) -> float:
    """Smallest epsilon a person has at ``delta``, in ``definition`` or in the best of all."""
    return min(value for _, value in epsilons(loss, budget, delta, definition))


def smallest_delta(loss: Loss, budget: Budget, epsilon: float, definition: str | None = None) -> float:
    """Smallest delta a person has at ``epsilon``, in ``definition`` or in the best of all."""
    rounds = budget.max_rounds_per_person
    if math.isinf(epsilon):
        return 0.0
    deltas = [1.0]
    if definition in (None, "pure") and person_pure(loss, rounds) <= epsilon:
        deltas.append(0.0)
    if rounds == 1 or loss.delta == 0:
        if definition in (None, "zcdp"):
            deltas.append(conversions.zcdp_delta(squared(loss.rho, rounds), epsilon))
        if definition in (None, "gdp"):
            deltas.append(conversions.gdp_delta(math.sqrt(squared(loss.mu_squared, rounds)), epsilon))
        mixed = definition is None and loss.pure and loss.rest_rho
        if mixed and loss.pure and (apart := exact(epsilon) - loss.pure * rounds) > 0:
            spare = rounded_down(apart)
            deltas.append(conversions.zcdp_delta(squared(loss.rest_rho, rounds), spare))
            mu = math.sqrt(squared(loss.rest_mu_squared, rounds))
            deltas.append(conversions.gdp_delta(mu, spare))
    return min(1.0, rounded_up(exact(min(deltas)) + _failure(loss, rounds)))


@dataclass(frozen=True)
class Filter:
    """What may be spent, in one privacy definition that was fixed before the first answer.

    ``limit`` bounds the definition's own sum per round (epsilon, rho, or mu squared) and ``failure`` the sum
    of the deltas of approximate releases. Both are fixed numbers, so that whoever chooses releases by looking
    at answers has no way to spend one instead of the other:

    - "pure": epsilons add up to at most epsilon, deltas to at most delta (basic composition, which holds for
      adaptively chosen parameters: Rogers, Roth, Ullman and Vadhan 2016).
    - "zcdp": rhos add up to at most the rho that gives epsilon at the rest of delta. The Renyi bound of every
      order is a supermartingale, so this holds for adaptively chosen parameters (Feldman and Zrnic 2021;
      Whitehouse, Ramdas, Rogers and Wu 2023).
    - "gdp": squares of mu, likewise (Smith and Thakurta 2022).
    """

    definition: str
    limit: Fraction
    failure: Fraction

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
            return cls(definition, Fraction(0), Fraction(0))  # of approximate zCDP no group privacy is known
        if definition == "zcdp":
            return cls(definition, exact(budget.limit_rho(left)), failure)
        return cls(definition, exact(budget.limit_mu(left)) ** 2, failure)

    def part(self, fraction: Fraction) -> Filter:
        """A fraction of both limits."""
        return Filter(self.definition, self.limit * fraction, self.failure * fraction)

    def spent(self, loss: Loss) -> Fraction | None:
        """The definition's own sum; None where it is unbounded."""
        if self.definition == "pure":
            return loss.pure if loss.rest_rho == 0 else None
        return loss.rho if self.definition == "zcdp" else loss.mu_squared

    def fits(self, loss: Loss) -> bool:
        """Whether ``loss`` per round keeps a person within the budget; exact comparison of fractions."""
        spent = self.spent(loss)
        return spent is not None and spent <= self.limit and loss.delta <= self.failure

    def allows(self, loss: Loss) -> bool:
        """The same for a loss that was added up again, perhaps in another order: rounded up differently."""
        spent, room = self.spent(loss), 1 + Fraction(1, 1 << 400)
        return spent is not None and spent <= self.limit * room and loss.delta <= self.failure * room


@lru_cache(maxsize=256)
def filter_of(budget: Budget, definition: str, failure: Fraction = _NO_DELTA) -> Filter:
    """`Filter.of`, remembered."""
    return Filter.of(budget, definition, failure)


@dataclass(frozen=True)
class Remaining:
    """What a round may still spend: on pure releases, on zCDP ones, on Gaussian ones, or in deltas.

    At a gate that has fixed its privacy definition, each is what that definition has room for. Before that,
    each is the limit of the definition that goes with it.
    """

    epsilon: float
    rho: float
    mu: float
    delta: float

    @classmethod
    def of(cls, budget: Budget, loss: Loss, chosen: Filter | None) -> Remaining:
        """What people who have lost ``loss`` may still lose; ``chosen`` is the definition that is fixed."""
        if not budget.private:
            return cls(math.inf, math.inf, math.inf, budget.delta)
        left = {}
        for definition in DEFINITIONS if chosen is None else (chosen.definition,):
            limit = filter_of(budget, definition) if chosen is None else chosen
            spent = limit.spent(loss)
            left[definition] = Fraction(0) if spent is None else max(Fraction(0), limit.limit - spent)
        failure = filter_of(budget, "pure").failure if chosen is None else chosen.failure
        # Of a pure release e, rho is at most e^2/2 and mu squared at most (pi/2) e^2; of Gaussian noise, rho
        # is half of mu squared. Of a release known by its rho only, neither epsilon nor mu is bounded.
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
    """The filter for releases of ``loss`` in all, known in advance; None if they fit none.

    Without a delta that is pure epsilon. With one, it is zCDP or Gaussian DP, whichever they take the smaller
    share of; pure epsilon where they fit neither, or come with deltas of their own and fit it.
    """
    pure = filter_of(budget, "pure")
    if not budget.delta or (loss.delta and pure.fits(loss)):
        return pure if pure.fits(loss) else None
    pairs = [filter_of(budget, definition, loss.delta) for definition in ("zcdp", "gdp")]
    fitting = [one for one in pairs if one.limit and one.fits(loss)]
    if fitting:
        return min(fitting, key=lambda one: (one.spent(loss) or 0) / one.limit)
    return pure if pure.fits(loss) else None


def check_group(entry: Entry, group: Group, budget: Budget) -> None:
    """Refuse a release about all rounds of a person that a budget would count as something else.

    Its loss is that of ``participations`` rounds, so the budget must be about as many. And it must be about
    everybody: of several disjoint groups the account takes the worst one, which bounds what somebody loses
    whose rounds are in two of them only where losses grow in proportion to rounds.
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
