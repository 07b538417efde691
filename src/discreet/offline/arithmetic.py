"""The arithmetic of a guarantee: from the rate of the picks to their epsilon, one step after the other."""

from __future__ import annotations

import re
from math import exp, log
from typing import NamedTuple

from ..privacy import Budget, ExponentialChoice
from ..privacy.picks import ExactChoices, Picks, decomposable_delta
from .methods import Plan

_DECIMALS = re.compile(r"\d+(?:\.\d+(?:e[-+]?\d+)?|e[-+]?\d+)")


class Step(NamedTuple):
    """What is worked out, how (numbers, + - * / **, exp, log and sqrt), and what comes of it."""

    what: str
    how: str
    value: float

    def __str__(self) -> str:
        """For a reader: six digits of every number; ``how`` has them all."""
        value = f"{self.value:.6g}"
        how = _DECIMALS.sub(lambda found: f"{float(found[0]):.6g}", self.how)
        return f"{self.what}: {value}" if how == value else f"{self.what}: {how} = {value}"


def steps(plan: Plan, budget: Budget, bound: float) -> list[Step]:
    """The steps for the picks of a plan; what else is released stands in the account by itself.

    Every number is given with enough digits to be worked out again. The proofs are those of the functions
    in `privacy.picks`; the account is the same with rounding taken care of.
    """
    picks, replaced = plan.picks, budget.neighbours == "replace"
    if not budget.private:
        return []
    if isinstance(picks.event, ExponentialChoice):
        return _choices(picks, picks.event.range, picks.count, budget, bound)
    if isinstance(picks.event, ExactChoices):
        found = _choices(picks, picks.event.range, picks.event.number, budget, bound)[:2]
        exactly = float(picks.event.loss().pure or 0)
        return [
            *found,
            Step(f"epsilon of {picks.event.number} such picks, composed exactly", f"{exactly!r}", exactly),
        ]
    found = [
        Step("the most that one person adds to the scores of all picks together", f"{bound!r}", bound),
    ]
    weight = picks.rate * bound
    found.append(Step("rate x that", f"{picks.rate!r} * {bound!r}", weight))
    return found + (_sampled(picks, weight, replaced) if picks.keep is not None else _sums(weight, budget))


def _choices(picks: Picks, width: float, count: int, budget: Budget, bound: float) -> list[Step]:
    each, epsilon = picks.rate * width, budget.epsilon
    pure = each * count
    apart = f"{width / bound!r} * {bound!r}"
    found = [
        Step("how far one person pushes two scores apart", apart, width),
        Step("a pick's loss lies in an interval as long as rate x that", f"{picks.rate!r} * {width!r}", each),
        Step(f"epsilon of {count} picks, added up", f"{count} * {each!r}", pure),
    ]
    if budget.delta and pure > epsilon * (1 + 1e-9):
        rho = count * each**2 / 8
        found.append(Step("rho of all picks (zCDP)", f"{count} * {each!r}**2 / 8", rho))
        found.append(
            Step(
                f"epsilon of that rho at delta {budget.delta:g}, at most (the account is smaller)",
                f"{rho!r} + 2 * sqrt({rho!r} * log(1 / {budget.delta!r}))",
                rho + 2 * (rho * log(1 / budget.delta)) ** 0.5,
            )
        )
    return found


def _sampled(picks: Picks, weight: float, replaced: bool) -> list[Step]:
    chance, e = picks.chance, exp(weight)
    among = 1 - chance + chance * e
    found = [
        Step("chance that somebody is in the secret sample", f"{chance!r}", chance),
        Step("then a run is at most so much likelier", f"exp({weight!r})", e),
        Step("so with them among the people", f"1 - {chance!r} + {chance!r} * {e!r}", among),
        Step("without them: they may be left out", f"1 / (1 - {chance!r})", 1 / (1 - chance)),
    ]
    times = "2 * " if replaced else ""
    name = "epsilon, by way of the run without both" if replaced else "epsilon"
    return [*found, Step(name, f"{times}log({among!r})", (2 if replaced else 1) * log(among))]


def _sums(weight: float, budget: Budget) -> list[Step]:
    c, epsilon = exp(weight) - 1, budget.epsilon
    tail = f"{c!r} / (1 + {c!r}) * exp(1 - {epsilon!r} / {c!r})"
    if budget.neighbours == "replace":
        tail = f"{c!r} / (1 + {c!r}) * exp({weight!r} + 1 - ({epsilon!r} - {weight!r}) / {c!r})"
    return [
        Step("c = e^(that) - 1", f"exp({weight!r}) - 1", c),
        Step(
            f"chance of a loss above epsilon {epsilon:g}: delta, at most",
            tail,
            decomposable_delta(weight, epsilon, budget.neighbours),
        ),
    ]
