"""Covariances of features with a class, as exact sums of known sensitivity."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ..privacy import ExponentialChoice, FlippedChoice, Share
from .chooser import Allowance
from .methods import least_epsilon

# Products of numbers in [0, 1] are summed as whole numbers of this many steps to 1, so that sums are exact.
_STEPS = 1 << 20
MOST_PEOPLE = 1 << 21


def covariances(scaled: NDArray[np.float64], kinds: NDArray[np.int64], n_classes: int) -> NDArray[np.float64]:
    """For each feature x, half the sum over classes c of |sum over people p in c of (x_p - mean x)|.

    With two classes both terms are equal, and the score is N |covariance|. Features are rounded to a grid
    first; the score is then computed from whole numbers, and rounded once.

    >>> covariances(np.array([[0.0], [0.0], [1.0], [1.0]]), np.array([0, 0, 1, 1]), 2)
    array([1.])
    """
    steps = np.rint(scaled * _STEPS).astype(np.int64)
    people = steps.shape[0]
    if people > MOST_PEOPLE:
        raise ValueError(f"there are more than the {MOST_PEOPLE:,} people whose sums are exact")
    totals = steps.sum(axis=0)
    score = np.zeros(steps.shape[1])
    for kind in range(n_classes):
        members = kinds == kind
        # N times the sum of deviations within the class: whole, and below 2^63.
        deviations = people * steps[members].sum(axis=0) - int(members.sum()) * totals
        score += np.abs(deviations) / 2.0
    score /= people * float(_STEPS)
    return score


def covariance_range() -> float:
    """By how much one person can push two of `covariances` apart, replaced or added or removed.

    Write D_c for the sum over p of (x_p - mean x) [p in c], m and q_c for the mean of x and the share of
    class c among N others. Somebody with x in [0, 1] and class d who joins moves the vector D by N / (N + 1)
    times v(x, d) = (x - m)(e_d - q), where e_d is 1 at d. A score is half the L1 norm of D, and half the norm
    of v is |x - m| (1 - q_d) <= 1. Somebody replaced moves D by a factor below 1 times v(x', d') - v(x, d).
    Its norm is convex in x and in x', so that it is largest where each is 0 or 1; half of it is then 1 - m or
    m if x = x', and at most (1 - m) + m otherwise. So a score moves by at most 1 either way, and two of them
    by 2 against each other. The last rounding of a score, relative 2^-50, is covered by a factor.
    """
    return 2.0 * (1.0 + 2.0**-20)


def covariance_choice(share: Share, count: int, *, pure: bool) -> ExponentialChoice | FlippedChoice:
    """The choice by which ``count`` features are picked.

    Where they are paid for in pure epsilon it is permute-and-flip, which loses less at the same rate.
    ``pure`` says that nothing else is paid in another notion.
    """
    choice = ExponentialChoice.within(share, covariance_range(), count)
    if pure and share.notion in (None, "pure"):
        flipped = FlippedChoice.within(share, covariance_range(), count, "pure")
        if flipped.rate >= choice.rate:
            return flipped
    return choice


def paid_in_pure(allowance: Allowance) -> bool:
    """Whether a pure epsilon is what is spent, or may be without costing others at the same gate."""
    notion = allowance.gate.notion
    return notion == "pure" or (notion is None and allowance.alone)


def chance_of_a_copy(choice: ExponentialChoice | FlippedChoice, n_features: int, n_people: int) -> float:
    """How likely a feature that says which half somebody is in is picked over others that say nothing.

    Its score is n_people / 4, the largest there is, and theirs is 0.
    """
    odds = math.exp(-min(700.0, choice.rate * n_people / 4.0))
    if isinstance(choice, FlippedChoice):
        return (
            -math.expm1(n_features * math.log1p(-odds)) / (n_features * odds)
            if odds < 1.0
            else 1 / n_features
        )
    return 1.0 / (1.0 + (n_features - 1) * odds)


def copy_warning(allowance: Allowance, k: int, n_features: int, n_people: int) -> str | None:
    """What to say of a budget with which even such a feature is hardly found; None where there is nothing."""
    pure = paid_in_pure(allowance)

    def chance(share: Share) -> float:
        return chance_of_a_copy(covariance_choice(share, k, pure=pure), n_features, n_people)

    if (found := chance(allowance.share)) >= 0.5:
        return None
    return (
        f"{allowance} is too small here for much more than chance: a feature that tells the class exactly is"
        f" picked first with probability {found:.2g} (at random {1 / n_features:.2g});"
        f" epsilon={least_epsilon(chance, allowance.share):g} would make that 1/2"
    )
