"""Published settings get the budget they really use, and say so."""

from __future__ import annotations

import math
import warnings

import pytest

from discreet.privacy import (
    Account,
    ApproximateRelease,
    Budget,
    ExponentialChoice,
    Gate,
    GaussianNoise,
    LaplaceNoise,
    account,
)
from discreet.privacy.account import PublishedCalibrationWarning, true_budget


def _reserved(budget: Budget, releases) -> Account:
    gate = Gate(budget, 0)
    gate.expect(*releases)
    for event, count in releases:
        gate.reserve(event, count)
    return gate.spent


def test_what_holds_is_left_alone():
    claimed = Budget(1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert true_budget(claimed, [(LaplaceNoise(1.0, 2.0), 2)], "halves") is claimed
        assert true_budget(Budget(math.inf), [(LaplaceNoise(1.0, 0.0), 2)], "nothing").epsilon == math.inf


@pytest.mark.parametrize(
    ("claimed", "releases"),
    [
        (Budget(1.0), [(LaplaceNoise(2.0, 1.0), 1)]),
        (Budget(1.0, 1e-6), [(GaussianNoise(2.0, 1.0), 1)]),
        (Budget(0.3, 1e-6, "add_remove", 3), [(ExponentialChoice(0.01, 1.0), 1000)]),
        (Budget(1.0, 1e-6), [(ExponentialChoice(0.1, 1.0), 1000), (LaplaceNoise(1.0, 1.0), 1)]),
        (Budget(1.0, 1e-6), [(ExponentialChoice(0.001, 1.0), 10), (ApproximateRelease(0.0, 1e-4), 1)]),
    ],
)
def test_the_true_budget_holds_the_releases_and_hardly_more(claimed, releases):
    with pytest.warns(PublishedCalibrationWarning, match=r"claim epsilon .* give epsilon .*docs/errata\.md"):
        needed = true_budget(claimed, releases, "a paper's setting")
    account = _reserved(needed, releases)
    assert account.epsilon() <= needed.epsilon
    assert needed.epsilon == pytest.approx(max(claimed.epsilon, account.epsilon()), rel=1e-6)
    assert needed.delta == pytest.approx(claimed.delta + float(account.loss.delta), rel=1e-12)


def test_no_noise_is_no_privacy():
    with pytest.warns(PublishedCalibrationWarning, match="give epsilon inf"):
        needed = true_budget(Budget(1.0, 1e-6), [(GaussianNoise(1.0, 0.0), 1)], "no noise")
    assert _reserved(needed, [(GaussianNoise(1.0, 0.0), 1)]).epsilon() == math.inf


def test_what_conversions_round_outwards_is_met_in_small_steps(monkeypatch):
    refused = []

    def strict(loss, budget, honest=account.fits):
        if len(refused) < 5:
            refused.append(budget.epsilon)
            return False
        return honest(loss, budget)

    monkeypatch.setattr(account, "fits", strict)
    with pytest.warns(PublishedCalibrationWarning):
        needed = true_budget(Budget(1.0), [(LaplaceNoise(2.0, 1.0), 1)], "a paper's setting")
    assert len(refused) == 5
    assert 2.0 < needed.epsilon <= 2.0 * (1.0 + 1e-9)
