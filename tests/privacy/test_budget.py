"""Budgets: validation, exact shares, and several rounds per person."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from fractions import Fraction

import pytest

import discreet as dc
from discreet.privacy import ExponentialChoice, GaussianNoise, LaplaceNoise


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"epsilon": 0.0}, "epsilon=0.0 must be greater than 0"),
        ({"epsilon": -1}, "epsilon=-1.0 must be greater than 0"),
        ({"epsilon": 1e-13}, "epsilon=1e-13 is below 1e-12"),
        ({"epsilon": math.nan}, "epsilon is NaN"),
        ({"epsilon": "one"}, "epsilon must be a number"),
        ({"epsilon": 1.0, "delta": 1.0}, "delta=1.0 must be less than 1"),
        ({"epsilon": 1.0, "delta": -1e-9}, "delta=-1e-09 must be at least 0"),
        ({"epsilon": 1.0, "delta": math.nan}, "delta is NaN"),
        ({"epsilon": 1.0, "neighbours": "swap"}, "neighbours='swap' is not one of 'replace', 'add_remove'"),
        ({"epsilon": 1.0, "max_rounds_per_person": 0}, "max_rounds_per_person=0 is too small"),
        ({"epsilon": 1.0, "max_rounds_per_person": 1.5}, "max_rounds_per_person must be a whole number"),
    ],
)
def test_bad_budgets_are_refused_by_name(arguments, message):
    with pytest.raises((ValueError, TypeError), match=message):
        dc.Budget(**arguments)


def test_infinite_budget_guarantees_nothing():
    budget = dc.Budget(math.inf)
    assert not budget.private
    assert budget.rho == budget.mu == math.inf
    gate = dc.Gate(budget, 0)
    assert gate.laplace(3.25, scale=0.0, sensitivity=1.0) == 3.25
    assert gate.spent.epsilon() == math.inf
    assert "no privacy" in str(gate.spent)


@pytest.mark.parametrize("rounds", [1, 2, 5])
def test_several_rounds_divide_each_definition_as_group_privacy_needs(rounds):
    one, many = dc.Budget(2.0, 1e-6), dc.Budget(2.0, 1e-6, max_rounds_per_person=rounds)
    assert many.rho == one.rho / rounds**2
    assert many.mu == one.mu / rounds
    assert many.epsilon_per_round == Fraction(2, rounds)
    gate = dc.Gate(many, 0)
    gate.reserve(GaussianNoise.within(many.share(), 1.0))
    assert gate.spent.epsilon() == pytest.approx(2.0, rel=1e-9)
    assert gate.spent.epsilon() <= 2.0
    assert gate.spent.mu == pytest.approx(one.mu, rel=1e-9)


@pytest.mark.parametrize("count", [1, 3, 7, 10, 49, 1000, 99_991])
@pytest.mark.parametrize("definition", ["pure", "zcdp", "gdp"])
@pytest.mark.parametrize("kind", [ExponentialChoice, LaplaceNoise, GaussianNoise])
def test_equal_shares_always_fit_and_one_more_never_does(count, definition, kind):
    budget = dc.Budget(0.7, 0.0 if definition == "pure" else 1e-6, max_rounds_per_person=3)
    share = budget.share(Fraction(1, count))
    assert count > 1000 or budget.split(count) == [share] * count
    if kind is GaussianNoise and definition == "pure":
        with pytest.raises(ValueError, match="needs delta > 0"):
            kind.within(share, 0.3, definition=definition)
        return
    event = kind.within(share, 0.3, definition=definition)
    gate = dc.Gate(budget, 0, definition=definition)
    for _ in range(min(count, 50)):
        gate.reserve(event)
    if count > 50:
        gate.reserve(event, count - 50)
    with pytest.raises(dc.BudgetExceeded):
        gate.reserve(event.scaled(0.5))


def test_decimal_shares_fit_as_a_reader_expects():
    gate = dc.Gate(dc.Budget(1.0), 0)
    for _ in range(10):
        gate.laplace(0.0, scale=10.0, sensitivity=1.0)  # 0.1 each; ten floats of 0.1 exceed 1.0
    assert gate.spent.epsilon() == 1.0
    with pytest.raises(dc.BudgetExceeded):
        gate.laplace(0.0, scale=1e6, sensitivity=1.0)


def test_proportional_split_is_exact():
    shares = dc.Budget(1.0, 1e-6).split([0.1, 0.2, 0.4])
    assert [share.fraction for share in shares] == [Fraction(1, 7), Fraction(2, 7), Fraction(4, 7)]
    with pytest.raises(ValueError, match=r"parts\[1\]=0.0 must be greater than 0"):
        dc.Budget(1.0).split([1.0, 0.0])
    with pytest.raises(ValueError, match="parts is empty"):
        dc.Budget(1.0).split([])
    with pytest.raises(ValueError, match="fraction=2"):
        dc.Budget(1.0).share(2)


def test_pure_budget_has_no_concentrated_allowance():
    budget = dc.Budget(1.0)
    assert (budget.rho, budget.mu) == (0.0, 0.0)
    with pytest.raises(ValueError, match="Gaussian noise needs delta > 0"):
        GaussianNoise.within(budget.share(), 1.0)


@pytest.mark.parametrize("count", [1, 3, 10])
def test_equal_shares_are_the_whole_together(count):
    shares = dc.Budget(1.0, 1e-6).split(count)
    assert len(shares) == count
    assert sum(share.fraction for share in shares) == 1


def test_more_delta_than_there_is_buys_nothing():
    budget = dc.Budget(1.0, 1e-6)
    for limit in (budget.limit_rho, budget.limit_mu):
        assert limit(1e-3) == limit() > limit(1e-9) > 0.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [((50.0,), "epsilon=50 promises little"), ((1.0, 0.5), "delta=0.5 promises little")],
)
def test_weak_budgets_warn_who_asks_for_them(arguments, message):
    with pytest.warns(UserWarning, match=message):
        dc.Budget(*arguments)
    with pytest.warns(UserWarning, match=message):
        replace(dc.Budget(1.0), **dict(zip(("epsilon", "delta"), arguments, strict=False)))


def test_usual_and_infinite_budgets_do_not_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dc.Budget(10.0, 1e-2)
        dc.Budget(math.inf)
        dc.privacy.Periods(dc.Budget(8.0), None).total()  # the library's own budgets are not asked for
