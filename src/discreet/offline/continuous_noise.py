"""How much noise a budget leaves for the releases of continuous greedy."""

from __future__ import annotations

import math
from fractions import Fraction

from ..privacy import Budget, Event, ExponentialChoice, GaussianNoise, LaplaceNoise
from ..privacy.conversions import exact, root_below, rounded_down
from .gradients import Change

NOISES = ("exponential", "laplace", "gaussian")
COMPOSITIONS = ("auto", "basic", "advanced", "zcdp")


def calibrated(
    noise: str,
    composition: str,
    budget: Budget,
    change: Change,
    count: int,
    *,
    published: tuple[int, float] | None = None,
) -> Event:
    """One of ``count`` releases that together take the budget.

    ``published`` is (n_items, Delta) for the constants of paper 003: Laplace scales 2 K n Delta / eps
    (Lemma 3) and 4 sqrt(2 K ln(1/delta)) n Delta / eps (Lemma 4), and sigma = 2 c K sqrt(n) Delta / eps with
    c^2 = 2 ln(1.25 K / delta) for Gaussian noise (its supplement).
    """
    moved = {"exponential": change.range, "laplace": change.l1, "gaussian": change.l2}[noise]
    if not budget.private:
        return GaussianNoise(moved, 0.0) if noise == "gaussian" else LaplaceNoise(moved, 0.0)
    share = budget.share()
    assert isinstance(share.epsilon, Fraction)
    epsilon = float(share.epsilon)
    if published is not None:
        n_items, value = published
        if noise == "gaussian":
            c = math.sqrt(2.0 * math.log(1.25 * count / budget.delta))
            return GaussianNoise(moved, 2.0 * c * count * math.sqrt(n_items) * value / epsilon)
        steps = (
            2.0 * math.sqrt(2.0 * count * math.log(1.0 / budget.delta))
            if composition == "advanced"
            else count
        )
        return LaplaceNoise(moved, 2.0 * steps * n_items * value / epsilon)
    if noise == "gaussian":
        return GaussianNoise.within(share, moved, count)
    if composition == "auto":
        kind = ExponentialChoice if noise == "exponential" else LaplaceNoise
        return kind.within(share, moved, count)
    each = share.epsilon / count
    if composition == "zcdp":
        assert isinstance(share.rho, Fraction)
        # A privacy loss in an interval of length e costs e^2/8, one of at most e either way e^2/2.
        each = root_below((8 if noise == "exponential" else 2) * share.rho / count)
    elif composition == "advanced":
        each = exact(epsilon / (2.0 * math.sqrt(2.0 * count * math.log(1.0 / budget.delta))))
    if noise == "exponential":
        return ExponentialChoice(rounded_down(each / exact(moved)), moved)
    return LaplaceNoise(moved, exact(moved) / each)
