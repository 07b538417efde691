"""A pure part beside a Gaussian one at one gate: the curve, the limits, somebody who plays them off."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from unittest import mock

import mpmath
import numpy as np
import pytest
from scipy.special import log_ndtr, ndtr

import discreet as dc
from discreet.privacy import BudgetExceeded, Gate, GaussianNoise, LaplaceNoise, PureRelease
from discreet.privacy.account import CONCURRENT, Account, Filter
from discreet.privacy.conversions import (
    concurrent_delta,
    concurrent_epsilon,
    concurrent_mu,
    gdp_delta,
    gdp_epsilon,
    gdp_mu,
)

BUDGET = dc.Budget(1.0, 1e-6)
PURE = Fraction(4, 5)
MU = concurrent_mu(PURE, Fraction(1), 1e-6)


def _gaussian(mu, epsilon):
    """Delta of a Gaussian, epsilons of any sign."""
    return ndtr(mu / 2 - epsilon / mu) - np.exp(epsilon + log_ndtr(-mu / 2 - epsilon / mu))


# --- the curve ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("pure", "mu", "epsilon"), [(0.8, 0.05, 1.0), (0.3, 0.5, 2.0), (2.0, 1.0, 2.5)])
def test_the_curve_is_that_of_both_answers_together(pure, mu, epsilon):
    """By plain arithmetic: the sum over both answers and the integral over the noisy number."""
    heads = 1.0 / (1.0 + math.exp(-pure))
    x = np.linspace(-30.0, 30.0 + mu, 2_000_001)
    here, there = (np.exp(-((x - centre) ** 2) / 2.0) / math.sqrt(2.0 * math.pi) for centre in (mu, 0.0))
    total = sum(
        np.maximum(p * here - math.exp(epsilon) * q * there, 0.0).sum() * (x[1] - x[0])
        for p, q in ((heads, 1.0 - heads), (1.0 - heads, heads))
    )
    found = concurrent_delta(Fraction(str(pure)), mu, Fraction(str(epsilon)))
    assert found == pytest.approx(total, rel=1e-5)
    with mpmath.workdps(40):
        total, e, m = mpmath.mpf(0), mpmath.mpf(str(epsilon)), mpmath.mpf(mu)
        for loss in (mpmath.mpf(str(pure)), -mpmath.mpf(str(pure))):
            far = mpmath.exp(e - loss) * mpmath.ncdf(-m / 2 - (e - loss) / m)
            total += (mpmath.ncdf(m / 2 - (e - loss) / m) - far) / (1 + mpmath.exp(-loss))
        exact = total
        assert exact <= found <= exact * (1 + mpmath.mpf(10) ** -12)


def test_conversions_invert_each_other_and_beat_the_sum_of_epsilons():
    assert gdp_mu(0.2, 1e-6) < MU < 1.1 * gdp_mu(0.2, 1e-6)
    assert concurrent_delta(PURE, MU, Fraction(1)) <= 1e-6 < concurrent_delta(PURE, MU * 1.001, Fraction(1))
    assert 1.0 - 1e-6 < concurrent_epsilon(PURE, MU, 1e-6) <= 1.0
    assert concurrent_epsilon(PURE, 0.05, 1e-6) < 0.8 + gdp_epsilon(0.05, 1e-6)
    assert concurrent_epsilon(Fraction(0), 0.05, 1e-6) == gdp_epsilon(0.05, 1e-6)
    assert concurrent_epsilon(PURE, 0.0, 1e-6) == 0.8
    assert concurrent_mu(Fraction(1), Fraction(1), 1e-6) == 0.0
    assert (concurrent_delta(PURE, 0.0, PURE), concurrent_delta(PURE, 0.1, PURE)) == (0.0, 1.0)
    assert concurrent_delta(Fraction(0), 0.3, Fraction(1)) == gdp_delta(0.3, 1.0)


# --- the gate -------------------------------------------------------------------------------------


def _noise(part=1.0):
    """Gaussian noise of this part of the mu squared that is left beside the pure part."""
    return GaussianNoise(1.0, (1.0 + 1e-9) / (MU * math.sqrt(part)))


def _declared(budget=BUDGET, *events):
    gate = Gate(budget, 0)
    gate.expect(*((event, 1) for event in events or (PureRelease(PURE), _noise())))
    return gate


def test_what_is_declared_together_is_kept_to_side_by_side():
    gate = _declared()
    assert gate.definition == CONCURRENT
    for event in (PureRelease(0.5), _noise(0.25), PureRelease(0.3), _noise(0.5)):
        gate.reserve(event)
    for event in (PureRelease(1e-3), LaplaceNoise(1.0, 1e4), _noise(0.3)):
        with pytest.raises(BudgetExceeded, match="by pure epsilon \\+ Gaussian DP"):
            gate.reserve(event)
    gate.reserve(_noise(0.2))
    assert 0.99 < gate.spent.epsilon() <= 1.0
    assert gate.spent.delta() <= 1e-6
    assert gate.remaining.epsilon == 0.0
    assert 0.0 < gate.remaining.mu < MU
    with pytest.raises(BudgetExceeded):
        gate.left  # noqa: B018
    again = Account.from_json(gate.spent.to_json())
    assert again.epsilon() == gate.spent.epsilon()


def test_a_single_definition_is_taken_where_it_holds_everything():
    assert _declared(BUDGET, PureRelease(0.05), GaussianNoise(1.0, 20.0)).definition in ("zcdp", "gdp")
    with pytest.raises(BudgetExceeded):
        _declared(BUDGET, PureRelease(PURE), GaussianNoise(1.0, 0.99 / MU))
    with pytest.raises(BudgetExceeded):
        _declared(dc.Budget(1.0), PureRelease(PURE), _noise())
    twice = dc.Budget(1.0, 1e-6, max_rounds_per_person=2)
    with pytest.raises(BudgetExceeded):
        _declared(twice, PureRelease(PURE), _noise())
    gate = _declared(twice, PureRelease(PURE / 2), _noise(0.25))
    assert gate.definition == CONCURRENT


def test_limits_survive_a_file_and_cannot_be_raised_there():
    gate = _declared()
    gate.reserve(PureRelease(0.5))
    again = Gate.from_state(gate.state())
    again.reserve(PureRelease(0.3))
    again.reserve(_noise())
    with pytest.raises(BudgetExceeded):
        again.reserve(PureRelease(1e-3))
    state = gate.state()
    for limits in (["9/10", state["concurrent"][1]], [state["concurrent"][0], "1/100"]):
        with pytest.raises(ValueError, match="cannot be right"):
            Gate.from_state(state | {"concurrent": limits})


# --- an analyst who chooses what to ask next by the answers ---------------------------------------


def _asked(gate, wishes):
    """What of a list of wishes the gate grants: the pure epsilons, and the mu of all Gaussian answers."""
    pure, square = [], 0.0
    for event in wishes:
        try:
            gate.reserve(event)
        except BudgetExceeded:
            continue
        if isinstance(event, PureRelease):
            pure.append(float(event.epsilon))
        else:
            square += (float(event.sensitivity) / float(event.sigma)) ** 2
    return pure, math.sqrt(square)


def _after(pure, mu, epsilon):
    """The delta of these answers at an epsilon of any sign: randomized responses, then a Gaussian."""
    total = np.zeros_like(epsilon)
    for signs in itertools.product((1.0, -1.0), repeat=len(pure)):
        chance = math.prod(1.0 / (1.0 + math.exp(-sign * e)) for sign, e in zip(signs, pure, strict=True))
        gap = epsilon - sum(sign * e for sign, e in zip(signs, pure, strict=True))
        total += chance * (_gaussian(mu, gap) if mu else np.maximum(0.0, -np.expm1(gap)))
    return total


def _attack(threshold, part=0.5):
    """The delta at the budget's epsilon of somebody who asks a noisy number first.

    An answer above the threshold makes them ask for pure epsilon, in pieces as large as the gate grants;
    another one for more noisy numbers first. Both then take whatever is left of the other kind.
    """
    pieces = [PureRelease(e) for e in (0.9, 0.8, 0.4, 0.4, 0.2, 0.1, 0.05)]
    more = [_noise(share) for share in (1.0, 0.5, 0.25, 0.125, 0.1)]
    first, granted = _noise(part), []
    for wishes in (pieces + more, more + pieces):
        gate = _declared()
        gate.reserve(first)
        granted.append(_asked(gate, wishes))
    mu = 1.0 / float(first.sigma)
    x = np.linspace(mu - 12.0, mu + 12.0, 10_001)
    density = np.exp(-((x - mu) ** 2) / 2.0) / math.sqrt(2.0 * math.pi)
    left = BUDGET.epsilon - (mu * x - mu * mu / 2.0)
    high, low = (_after(*one, left) for one in granted)
    return float((density * np.where(x > threshold, high, low)).sum() * (x[1] - x[0]))


@pytest.mark.parametrize("threshold", [-1.0, 0.0, 2.0, 4.0])
def test_an_adaptive_analyst_stays_within_the_bound(threshold):
    assert 0.5e-6 < _attack(threshold) <= 1e-6 * (1 + 1e-6)


@pytest.mark.parametrize("threshold", [-1.0, 0.0, 2.0, 4.0])
def test_a_gate_that_counts_one_of_the_two_kinds_is_caught(threshold):
    """The injected fault: what is pure is not counted beside what is Gaussian."""
    honest = Filter.spent

    def forgetful(self, loss):
        return loss.rest_mu_squared if self.definition == CONCURRENT else honest(self, loss)

    with mock.patch.object(Filter, "spent", forgetful):
        assert _attack(threshold) > 2e-6
