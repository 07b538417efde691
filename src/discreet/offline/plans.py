"""Which account to pick by: everything here is decided from public facts, before any data is looked at."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from ..bounds import greedy
from ..bounds.charged_costs import ChargedCosts
from ..constraints import Cardinality, Constraint, Knapsack, Matroid
from ..objectives import MutualInformation, Population
from ..objectives.mixture import Mixture
from ..objectives.mutual_information import _CELLS as LARGEST_TABLE
from ..privacy import Budget, Event, GaussianNoise, LaplaceNoise
from ..privacy.conversions import exact, root_below
from ..privacy.ledger import event_loss
from . import methods
from .methods import Picks

# What is left of a share when cost-benefit picks have an account of their own, for the best single item and
# for the choice between the two.
_ENDS = Fraction(1, 2)


@dataclass(frozen=True)
class Question:
    """What is to be chosen, in public terms.

    ``width`` is how far one person can push two scores apart, ``gap`` how far apart scores can be at all
    (None if the number of people is not public). ``apart`` says why people's parts do not add up (None: they
    do, so that the accounts of sums over people hold). ``unit`` is the step of exact sums, 0 for averages.
    """

    constraint: Constraint
    n_items: int
    bound: float
    width: float
    people: int | None
    gap: float | None
    apart: str | None
    unit: float
    costs: ChargedCosts | None
    moved: tuple[float, float]  # how far one person moves the gains of all picks together, in L1 and L2

    @property
    def picks(self) -> int:
        """The most picks that can depend on anybody: the last of all items is no choice."""
        return min(self.constraint.rank, self.n_items - 1)

    @property
    def ends(self) -> int:
        """Choices after the picks: the best single item, and between it and the picks."""
        return 2 if self.costs is not None and self.costs.large.size else 0


@dataclass(frozen=True)
class Plan:
    """Picks at one rate, what else is chosen, what is paid, and why this method."""

    picks: Picks
    ends: Picks | None
    gains: Event | None
    loss: float
    reason: str = ""

    @property
    def method(self) -> str:
        return self.picks.method


def make(question: Question, budget: Budget, method: str, gains_share: Fraction) -> Plan:
    """The plan by one method; ValueError, with the reason, where its account does not apply."""
    count = max(1, question.picks + question.ends)
    if not budget.private:
        picks = Picks("none", math.inf, LaplaceNoise(question.width, 0.0), count)
        noise = LaplaceNoise(question.moved[0], 0.0) if gains_share else None
        return Plan(picks, picks if question.ends else None, noise, 0.0)
    share = budget.share(1 - gains_share)
    ends: Picks | None
    if method in ("basic", "zcdp"):
        account = methods.basic if method == "basic" else methods.zcdp
        picks = account(share, question.width, count)
        ends = picks if question.ends else None
    else:
        if question.apart is not None:
            raise ValueError(question.apart)
        whole = 1 - gains_share
        part = budget.share(whole * (1 - _ENDS)) if question.ends else share
        account_of_sums = methods.decomposable if method == "decomposable" else methods.subsampled
        picks = account_of_sums(part, question.bound)
        ends = methods.basic(budget.share(whole * _ENDS), question.width, 2) if question.ends else None
    return Plan(picks, ends, _gains_noise(question, budget, picks, gains_share), loss(question, picks, ends))


def choose(question: Question, budget: Budget, method: str, gains_share: Fraction) -> Plan:
    """The plan by ``method``; for ``"auto"`` the one whose draws lose least: see `draws_loss`.

    For one kind of draws that is the largest rate that people's gains enter with. What a sample itself can
    lose is left out of the comparison: its certificate allows for the worst set of all those that were never
    in question, and on real data it is small beside what a larger rate brings.
    """
    if method != "auto" or not budget.private:
        plan = make(question, budget, "basic" if method == "auto" else method, gains_share)
        reason = "asked for" if budget.private else "no privacy was asked for"
        return Plan(plan.picks, plan.ends, plan.gains, plan.loss, reason)
    plans: list[Plan] = []
    notes = []
    for name in methods.METHODS:
        try:
            plan = make(question, budget, name, gains_share)
        except ValueError as error:
            notes.append(f"{name}: {error}")
            continue
        plans.append(plan)
        sample = "" if plan.picks.keep is None else f" (a sample of {plan.picks.chance:.3g} of the people)"
        notes.append(f"{name}: {plan.picks.temperature:.4g}{sample}")
    best = min(plans, key=lambda plan: draws_loss(question, plan.picks, plan.ends))
    reason = "least lost by the draws; average rates: " + "; ".join(notes)
    return Plan(best.picks, best.ends, best.gains, best.loss, reason)


def ratio(constraint: Constraint, costs: ChargedCosts | None) -> float | None:
    """The share of the best set's value that greedy is worth under ``constraint``; None if not known."""
    if costs is not None:
        return costs.ratio
    if isinstance(constraint, Cardinality):
        return greedy.ALPHA
    p = _extendible(constraint)
    return None if p is None else 1.0 / (p + 1)


def loss(question: Question, picks: Picks, ends: Picks | None) -> float:
    """What the picks lose beside `ratio` of the best set's sum over people, on average; see `certificates`.

    Infinite where it depends on a number of people that is not public.
    """
    people = question.people
    total = draws_loss(question, picks, ends)
    if picks.keep is not None:
        if people is None:
            return math.inf
        total += greedy.sampling_loss(question.n_items, question.picks, people, picks.chance, question.bound)
    # Under a knapsack what is lost in a score counts as often as the item's cost holds the smallest one.
    times = question.picks if question.costs is None else max(question.picks, math.ceil(question.costs.most))
    return total + greedy.rounding(times, people or 1, question.unit)


def draws_loss(question: Question, picks: Picks, ends: Picks | None) -> float:
    """The part of `loss` that comes from drawing instead of taking the best.

    Constraints without a known ratio are compared as if they were matroids.
    """
    n, k, temperature, people = question.n_items, question.picks, picks.temperature, question.people or 1
    if k == 0:
        return 0.0
    if question.costs is not None:
        last = temperature if ends is None else ends.rate
        return greedy.knapsack_loss(question.costs, n, k, temperature, last, people, question.bound)
    if isinstance(question.constraint, Cardinality):
        return greedy.cardinality_loss(n, k, temperature)
    return greedy.extendible_loss(n, k, temperature, _extendible(question.constraint) or 1)


def chance_of_a_favourite(question: Question, plan: Plan) -> float | None:
    """How likely the first pick takes an item that everybody values fully over others that nobody does."""
    if question.gap is None or question.n_items < 2:
        return None
    odds = math.exp(-min(700.0, plan.picks.temperature * question.gap))
    return 1.0 / (1.0 + (question.n_items - 1) * odds)


def epsilon_that_would_do(question: Question, budget: Budget, method: str, gains_share: Fraction) -> float:
    """The least epsilon, to three digits, with which everybody's favourite is picked as often as not."""

    def enough(epsilon: float) -> bool:
        larger = Budget(epsilon, budget.delta, budget.neighbours, budget.max_rounds_per_person)
        chance = chance_of_a_favourite(question, make(question, larger, method, gains_share))
        return chance is not None and chance >= 0.5

    low = high = budget.epsilon
    while not enough(high):
        low, high = high, 2.0 * high
        if high > 1e9:
            return math.inf
    while high - low > 1e-3 * low:
        middle = (low + high) / 2.0
        low, high = (low, middle) if enough(middle) else (middle, high)
    return float(f"{high:.3g}") if float(f"{high:.3g}") >= high else float(f"{high * 1.005:.3g}")


def _extendible(constraint: Constraint) -> int | None:
    found = 1 if isinstance(constraint, Matroid) else getattr(constraint, "extendible", None)
    return found if isinstance(found, int) else None


def _gains_noise(question: Question, budget: Budget, picks: Picks, gains_share: Fraction) -> Event | None:
    """Noise for the gains of the picks, in the privacy notion that the picks are paid in."""
    if not gains_share:
        return None
    share = budget.share(gains_share)
    spent = event_loss(picks.event) * picks.count
    assert spent.pure is not None
    if spent.pure > budget.share(1 - gains_share).epsilon:  # more than plain epsilon allows: paid in zCDP
        assert isinstance(share.rho, Fraction)
        return GaussianNoise(question.moved[1], exact(question.moved[1]) / root_below(2 * share.rho))
    assert isinstance(share.epsilon, Fraction)
    return LaplaceNoise(question.moved[0], exact(question.moved[0]) / share.epsilon)


def check_tables(people: Population, picks: int) -> None:
    """An error, before anything is spent, where picking so many features may need too large a table."""
    if isinstance(people, Mixture):
        for _, part in people._parts:
            check_tables(part, picks)
    if not isinstance(people, MutualInformation):
        return
    sizes = sorted((within.shape[1] for within in people._model[1]), reverse=True)
    cells = people._n_classes * math.prod(sizes[:picks])
    if cells > LARGEST_TABLE:
        raise ValueError(
            f"the joint table of {picks} features may have more than {LARGEST_TABLE} cells; choose fewer"
            " features or merge their values"
        )


def costs_of(constraint: Constraint) -> ChargedCosts | None:
    """The weights of a knapsack; None for other constraints."""
    return ChargedCosts.of(constraint) if isinstance(constraint, Knapsack) else None
