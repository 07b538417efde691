"""One privacy definition per gate: an analyst who reacts to answers cannot exceed the budget."""

from __future__ import annotations

import bisect
import json
import math
from fractions import Fraction
from unittest import mock

import numpy as np
import pytest
from scipy import stats
from scipy.special import log_ndtr, ndtr

import discreet as dc
from discreet import privacy as pv
from discreet.privacy import account, accountant
from discreet.privacy.accountant import Accountant
from discreet.privacy.conversions import gdp_epsilon

# --- the analyst -----------------------------------------------------------------------------------
#
# Two neighbouring inputs; the analyst knows both and sees every answer, so what has been learned is one
# number, the privacy loss so far. Each step takes any release that the real gate accepts. By dynamic
# programming over the loss, this analyst takes the best one every time; the game's value is the true delta.

NODES = np.linspace(-8.0, 8.0, 401)
WEIGHTS = np.exp(-(NODES**2) / 2.0)
WEIGHTS /= WEIGHTS.sum()


def _outcomes(event):
    """(loss, probability) of one release, where it loses most, if the input is the one that is looked for."""
    if isinstance(event, pv.GaussianNoise):
        mu = _mu(event)
        return mu * mu / 2.0 + mu * NODES, WEIGHTS
    if isinstance(event, pv.ApproximateRelease):
        delta = float(event.delta)
        return np.array([0.0, 1e4]), np.array([1.0 - delta, delta])
    top = float(event.width) / 2.0 if isinstance(event, pv.ExponentialChoice) else float(event.epsilon)
    chance = 1.0 / (1.0 + math.exp(-top))
    return np.array([top, -top]), np.array([chance, 1.0 - chance])


def _mu(event):
    return float(event.sensitivity) / float(event.sigma)


def _after_last(event, gaps):
    """The delta that one more release leaves, for each epsilon that is not used up yet."""
    if isinstance(event, pv.GaussianNoise):
        mu = _mu(event)
        below = gaps + log_ndtr(-mu / 2.0 - gaps / mu)
        return ndtr(mu / 2.0 - gaps / mu) - np.exp(below)
    return sum(
        chance * np.maximum(0.0, -np.expm1(np.minimum(gaps - move, 0.0)))
        for move, chance in zip(*_outcomes(event), strict=True)
    )


KINDS = {
    "gaussian": pv.GaussianNoise(1.0, 0.01),
    "pure": pv.PureRelease(100.0),
    "choice": pv.ExponentialChoice(100.0, 1.0),
    "failure": pv.ApproximateRelease(0.0, 0.9),
}


def _offered(gate):
    """What the gate still accepts: of each kind the largest that fits, and a part of it."""
    for name, event in KINDS.items():
        if name == "failure":
            left = Fraction(gate.remaining.delta).limit_denominator(10**15)
            sizes = [pv.ApproximateRelease(0.0, float(left) * (1 - 1e-9))] if left > 0 else []
        else:
            largest = gate.preview(event).largest
            sizes = [] if largest is None else [largest, largest.scaled(0.45), largest.scaled(0.2)]
        for size in sizes:
            if gate.preview(size).fits:
                yield size


def _true_delta(make, budget, looks):
    """The largest delta at the budget's epsilon over all strategies of up to ``looks`` releases."""

    def best(history, left, gaps):
        gate = make()
        for event in history:
            gate.reserve(event)
        values = np.maximum(0.0, -np.expm1(np.minimum(gaps, 0.0)))
        for event in _offered(gate):
            if left == 1:
                found = _after_last(event, gaps)
            else:
                moves, chances = _outcomes(event)
                found = best([*history, event], left - 1, gaps[..., None] - moves) @ chances
            values = np.maximum(values, found)
        return values

    with mock.patch.object(accountant, "smallest_epsilon", return_value=0.0):  # what is spent is only said
        return float(best([], looks, np.array([budget.epsilon]))[0])


BUDGETS = {"large delta": dc.Budget(1.0, 0.01), "pure": dc.Budget(1.0), "small": dc.Budget(0.5, 1e-4)}
GATES = {
    f"{name}, {definition}": (budget, definition)
    for name, budget in BUDGETS.items()
    for definition in (None, "pure", "zcdp", "gdp")
    if budget.delta or definition in (None, "pure")
}


@pytest.mark.parametrize("name", GATES)
def test_an_adaptive_analyst_stays_within_the_budget(name):
    budget, definition = GATES[name]
    aside = budget.delta / 4 if definition in ("zcdp", "gdp") else 0.0
    for failure in sorted({0.0, aside}):
        found = _true_delta(lambda f=failure: dc.Gate(budget, 0, definition=definition, failure=f), budget, 2)
        assert found <= budget.delta * 1.002 + 1e-9  # the quadrature


def test_a_union_of_definitions_would_be_noticed(monkeypatch):
    """The injected fault: whatever fits some definition, or two of them together, passes, as it once did."""
    budget = BUDGETS["small"]

    def any_definition(books, loss):
        fits = account.smallest_epsilon(loss, books.budget, books.budget.delta) <= books.budget.epsilon
        return account.filter_of(books.budget, "gdp") if fits else None

    def roughly(fit):
        sizes = np.geomspace(2e-4, 1.0, 1000)
        return float(sizes[max(0, bisect.bisect_left(sizes, True, key=lambda c: not fit(c)) - 1)])

    monkeypatch.setattr(Accountant, "limit_for", any_definition)
    monkeypatch.setattr(accountant, "_largest_factor", roughly)
    for name in ("choice", "failure"):
        monkeypatch.delitem(KINDS, name)
    found = _true_delta(lambda: dc.Gate(budget, 0), budget, 2)
    assert found > 1.1 * budget.delta


def test_an_unfixed_part_of_delta_would_be_noticed(monkeypatch):
    """The injected fault: what failures leave of delta goes to Gaussian DP, whichever comes to be spent."""
    budget = dc.Budget(1.0, 0.01)

    def loose(books, loss):
        limit = account.filter_of(books.budget, "gdp", min(loss.delta, Fraction(1, 101)))
        return limit if limit.fits(loss) else None

    monkeypatch.setattr(Accountant, "limit_for", loose)
    monkeypatch.setattr(dc.Gate, "remaining", property(lambda _: pv.Remaining(0.0, 0.0, 0.0, 0.004)))
    found = _true_delta(lambda: dc.Gate(budget, 0, definition="gdp"), budget, 2)
    assert found > 1.02 * budget.delta


# --- which definition ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("budget", "event", "definition"),
    [
        (dc.Budget(1.0), pv.PureRelease(0.1), "pure"),
        (dc.Budget(1.0, 1e-6), pv.GaussianNoise(1.0, 10.0), "gdp"),
        (dc.Budget(1.0, 1e-6), pv.ExponentialChoice(0.1, 2.0), "zcdp"),
        (dc.Budget(1.0, 1e-6), pv.ConcentratedRelease(0.01), "zcdp"),
        (dc.Budget(1.0, 1e-6), pv.PureRelease(0.6), "pure"),
        (dc.Budget(1.0, 1e-6), pv.ApproximateRelease(0.01, 1e-7), "pure"),
    ],
)
def test_first_release_fixes_the_definition(budget, event, definition):
    gate = dc.Gate(budget, 0)
    assert gate.definition == (None if budget.delta else "pure")
    gate.reserve(event)
    assert gate.definition == definition
    again = dc.Gate.from_state(json.loads(json.dumps(gate.state())))
    assert again.definition == definition
    assert gate.part("a").definition == definition


def test_a_refused_release_fixes_nothing():
    gate = dc.Gate(dc.Budget(1.0, 1e-6), 0)
    with pytest.raises(dc.BudgetExceeded):
        gate.reserve(pv.GaussianNoise(1.0, 0.1))
    assert gate.definition is None


def test_expected_releases_share_one_definition():
    budget = dc.Budget(1.0, 1e-6)
    picks, gains = pv.ExponentialChoice(0.04, 2.0), pv.LaplaceNoise(1.0, 5.0)
    gate = dc.Gate(budget, 0)
    gate.expect((picks, 10), (gains, 1))  # ten picks alone would have been zCDP, and the gains would not fit
    assert gate.definition == "pure"
    gate.reserve(picks, 10)
    gate.laplace(0.0, gains.scale, gains.sensitivity)
    assert gate.spent.epsilon() == 1.0
    with pytest.raises(dc.BudgetExceeded):
        gate.expect((picks, 1))
    assert dc.Gate(budget, 0).expect() is None


def test_failures_beside_zcdp_need_a_part_of_delta():
    budget = dc.Budget(1.0, 1e-6)
    gate = dc.Gate(budget, 0, definition="zcdp", failure=2e-7)
    gate.reserve(pv.ApproximateRelease(0.0, 2e-7))
    with pytest.raises(dc.BudgetExceeded):
        gate.reserve(pv.ApproximateRelease(0.0, 1e-9))
    gate.reserve(pv.GaussianNoise(1.0, 1.0 / gate.remaining.mu * (1 + 1e-9)))
    assert gate.spent.delta(1.0) <= 1e-6
    with pytest.raises(dc.BudgetExceeded):
        dc.Gate(budget, 0, definition="zcdp").reserve(pv.ApproximateRelease(0.0, 1e-9))
    again = dc.Gate.from_state(json.loads(json.dumps(gate.state())))
    assert again._accountant.limit == gate._accountant.limit


def test_bad_definitions_are_refused():
    budget = dc.Budget(1.0, 1e-6)
    for options, message in (
        ({"definition": "renyi"}, "definition='renyi' is not one of"),
        ({"failure": 1e-7}, "goes with definition"),
        ({"definition": "pure", "failure": 1e-7}, "in 'pure' all of delta"),
        ({"definition": "zcdp", "failure": 1e-6}, "must be below delta"),
        ({"definition": "gdp", "failure": -1.0}, "failure=-1.0 must be at least 0"),
    ):
        with pytest.raises(ValueError, match=message):
            dc.Gate(budget, 0, **options)
    for definition in ("zcdp", "gdp"):
        with pytest.raises(ValueError, match="needs delta > 0"):
            dc.Gate(dc.Budget(1.0), 0, definition=definition)
    with pytest.raises(ValueError, match="max_rounds_per_person=1"):
        dc.Gate(dc.Budget(1.0, 1e-6, max_rounds_per_person=2), 0, definition="zcdp", failure=1e-7)


# --- reading the account when it suits -------------------------------------------------------------


def test_an_account_read_at_a_chosen_moment_is_no_guarantee():
    """What the page says of ``spent.epsilon()``: stopping by answers exceeds what is read, not the limit."""
    delta = 1e-3
    variances = [0.5**i for i in range(5, -1, -1)]

    def payoff(reported):
        losses = np.linspace(-6.0, 9.0, 4001)
        values = np.maximum(0.0, -np.expm1(np.minimum(reported[-1] - losses, 0.0)))
        for i in range(len(variances) - 2, -1, -1):
            step = variances[i + 1] - variances[i]
            moves = step / 2.0 + math.sqrt(step) * NODES
            later = sum(
                w * np.interp(losses + m, losses, values, left=0.0, right=1.0)
                for m, w in zip(moves, WEIGHTS, strict=True)
            )
            values = np.maximum(later, np.maximum(0.0, -np.expm1(np.minimum(reported[i] - losses, 0.0))))
        first = stats.norm(variances[0] / 2.0, math.sqrt(variances[0])).pdf(losses)
        return float(np.trapezoid(values * first, losses))

    read = [gdp_epsilon(math.sqrt(variance), delta) for variance in variances]
    assert payoff(read) > 1.5 * delta
    assert payoff([read[-1]] * len(read)) <= 1.01 * delta


def test_pure_release_after_gaussian_ones_is_charged_in_their_definition():
    """The step of the attack: it fitted as pure epsilon beside Gaussian DP."""
    gate = dc.Gate(dc.Budget(1.0, 0.01), 0)
    gate.gaussian(0.0, 1.0 / (0.2 * gate.budget.mu), 1.0)
    left = 1.0 - gdp_epsilon(0.2 * gate.budget.mu, 0.01)
    assert gate.preview(pv.PureRelease(0.3)).fits
    with pytest.raises(dc.BudgetExceeded, match=r"limit 1 at delta 0\.01 by Gaussian DP"):
        gate.reserve(pv.PureRelease(0.99 * left))


def test_gaussian_noise_at_a_pure_gate_says_what_to_do():
    gate = dc.Gate(dc.Budget(1.0, 1e-6), 0, definition="pure")
    with pytest.raises(
        dc.BudgetExceeded, match=r"keeps to pure epsilon.*definition='zcdp' or definition='gdp'"
    ):
        gate.gaussian(0.0, 10.0, 1.0)
