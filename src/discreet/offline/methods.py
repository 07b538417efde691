"""The plan of a selection: which account of its picks loses least, from public facts alone."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

from ..bounds import greedy
from ..bounds.charged_costs import ChargedCosts
from ..constraints import Cardinality, Constraint, Matroid
from ..privacy import Event, GaussianNoise, LaplaceNoise, Share
from ..privacy import picks as accounts
from ..privacy.ledger import event_loss
from ..privacy.picks import Picks
from .scores import Question

METHODS = ("basic", "zcdp", "decomposable", "subsampled", "exact")
# What "auto" looks at: the exact composition takes a while, up to seconds for thousands of picks.
_QUICK = METHODS[:4]
# What is left of a share when cost-benefit picks have an account of their own, for the best single item and
# for the choice between the two.
_ENDS = Fraction(1, 2)


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


def make(question: Question, share: Share, method: str, for_gains: Fraction) -> Plan:
    """The plan by one method; ValueError, with the reason, where its account does not apply.

    ``for_gains`` of the share is for releasing the picks' gains.
    """
    count = max(1, question.picks + question.ends)
    if not share.private:
        picks = Picks("none", math.inf, LaplaceNoise(question.width, 0.0), count)
        bare = LaplaceNoise(question.moved[0], 0.0) if for_gains else None
        return Plan(picks, picks if question.ends else None, bare, 0.0)
    for_picks = share.part(1 - for_gains)
    ends: Picks | None
    if method in ("basic", "zcdp", "exact"):
        composed = {"basic": accounts.basic, "zcdp": accounts.zcdp, "exact": accounts.exactly}
        picks = composed[method](for_picks, question.width, count)
        ends = picks if question.ends else None
    else:
        if question.apart is not None:
            raise ValueError(question.apart)
        part = for_picks.part(1 - _ENDS) if question.ends else for_picks
        account_of_sums = accounts.decomposable if method == "decomposable" else accounts.subsampled
        picks = account_of_sums(part, question.bound)
        ends = accounts.basic(for_picks.part(_ENDS), question.width, 2) if question.ends else None
    noise = _gains_noise(question, share, picks, for_gains) if for_gains else None
    return Plan(picks, ends, noise, loss(question, picks, ends))


def choose(question: Question, share: Share, method: str, for_gains: Fraction) -> Plan:
    """The plan by ``method``; for ``"auto"`` the one whose draws lose least: see `draws_loss`.

    For one kind of draws that is the largest rate that people's gains enter with. What a sample itself can
    lose is left out of the comparison: its certificate allows for the worst set of all those that were never
    in question, and on real data it is small beside what a larger rate brings.
    """
    if method != "auto" or not share.private:
        plan = make(question, share, "basic" if method == "auto" else method, for_gains)
        return replace(plan, reason="asked for" if share.private else "no privacy was asked for")
    plans: list[Plan] = []
    notes = []
    for name in _QUICK:
        try:
            plan = make(question, share, name, for_gains)
        except ValueError as error:
            notes.append(f"{name}: {error}")
            continue
        plans.append(plan)
        sample = "" if plan.picks.keep is None else f" (a sample of {plan.picks.chance:.3g} of the people)"
        notes.append(f"{name}: {plan.picks.temperature:.4g}{sample}")
    best = min(plans, key=lambda plan: draws_loss(question, plan.picks, plan.ends))
    reason = "least lost by the draws; average rates: " + "; ".join(notes)
    return replace(best, reason=reason)


def ratio(constraint: Constraint, costs: ChargedCosts | None) -> float | None:
    """The share of the best set's value that greedy is worth under ``constraint``; None if not known."""
    if costs is not None:
        return costs.ratio
    if isinstance(constraint, Cardinality):
        return greedy.ALPHA
    p = _extendible(constraint)
    return None if p is None else 1.0 / (p + 1)


def loss(question: Question, picks: Picks, ends: Picks | None) -> float:
    """What the picks lose beside `ratio` of the best set's sum over people, on average; see `bounds.greedy`.

    Infinite where it depends on a number of people that is not public.
    """
    n_people = question.n_people
    total = draws_loss(question, picks, ends)
    if picks.keep is not None:
        if n_people is None:
            return math.inf
        total += greedy.sampling_loss(
            question.n_items, question.picks, n_people, picks.chance, question.bound
        )
    # Under a knapsack what is lost in a score counts as often as the item's cost holds the smallest one.
    times = question.picks if question.costs is None else max(question.picks, math.ceil(question.costs.most))
    return total + greedy.rounding(times, n_people or 1, question.unit)


def draws_loss(question: Question, picks: Picks, ends: Picks | None) -> float:
    """The part of `loss` that comes from drawing instead of taking the best.

    Constraints without a known ratio are compared as if they were matroids.
    """
    n, k, temperature, n_people = question.n_items, question.picks, picks.temperature, question.n_people or 1
    if k == 0:
        return 0.0
    if question.costs is not None:
        last = temperature if ends is None else ends.rate
        return greedy.knapsack_loss(question.costs, n, k, temperature, last, n_people, question.bound)
    if isinstance(question.constraint, Cardinality):
        return greedy.cardinality_loss(n, k, temperature)
    return greedy.extendible_loss(n, k, temperature, _extendible(question.constraint) or 1)


def chance_of_a_favourite(question: Question, plan: Plan) -> float | None:
    """How likely the first pick takes an item that everybody values fully over others that nobody does."""
    if question.gap is None or question.n_items < 2:
        return None
    odds = math.exp(-min(700.0, plan.picks.temperature * question.gap))
    return 1.0 / (1.0 + (question.n_items - 1) * odds)


def epsilon_that_would_do(question: Question, share: Share, method: str, for_gains: Fraction) -> float:
    """The least epsilon, to three digits, with which everybody's favourite is picked as often as not."""

    def chance(larger: Share) -> float:
        return chance_of_a_favourite(question, make(question, larger, method, for_gains)) or 0.0

    return least_epsilon(chance, share)


def least_epsilon(chance: Callable[[Share], float], share: Share) -> float:
    """The least epsilon, to three digits, with which ``chance`` of such a share is 1/2."""

    def enough(epsilon: float) -> bool:
        return chance(replace(share, budget=replace(share.budget, epsilon=epsilon))) >= 0.5

    low = high = share.budget.epsilon
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


def _gains_noise(question: Question, share: Share, picks: Picks, for_gains: Fraction) -> Event:
    """Noise for the gains of the picks, in the privacy notion that the picks are paid in."""
    part, (l1, l2) = share.part(for_gains), question.moved
    if share.notion is None:
        spent = event_loss(picks.event) * picks.count
        assert spent.pure is not None
        # More than plain epsilon allows has to be paid in zCDP, and so has the noise.
        concentrated = spent.pure > share.part(1 - for_gains).epsilon
        return (
            GaussianNoise.within(part, l2, notion="zcdp")
            if concentrated
            else LaplaceNoise.within(part, l1, notion="pure")
        )
    return LaplaceNoise.within(part, l1) if share.notion == "pure" else GaussianNoise.within(part, l2)
