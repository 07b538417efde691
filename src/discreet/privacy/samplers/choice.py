"""The exponential mechanism, drawn exactly."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from ...core.digits import own_digits
from ..conversions import exact
from ..randomness import Randomness


def exponential_choice(source: Randomness, scores: NDArray[np.float64], rate: float) -> int:
    """An index drawn with probability proportional to ``exp(rate * score)``, exactly.

    Error bound. Let u = 2^-53 and a = rate (score - largest score) <= 0. The computed argument differs
    from a by at most 3u|a| (difference, product, and the rate read as a decimal), so its exponential,
    itself good to 4 units in the last place, is off by at most (3|a| + 8) u e^a <= 10u in absolute terms
    because |a| e^a <= 1/e. Partial sums of n terms add at most (n - 1) u W, W >= 1 being the total. A
    border is therefore off by at most 11 n u W; the target ``U W`` by 11 n u W for W and 3 u W for the
    product and the truncated word. ``(24 n + 64) u W`` covers the sum of both.
    """
    top = scores.max()
    word = int(source.words(1)[0])
    if not math.isfinite(float(top) - float(scores.min())):
        return exact_choice(source, scores, rate, word)
    weights = np.exp(rate * (scores - top))
    borders = np.cumsum(weights)
    total = borders[-1]
    target = word * 2.0**-64 * total
    margin = (24 * scores.size + 64) * 2.0**-53 * total
    index = int(np.searchsorted(borders, target, side="right"))
    below = borders[index - 1] if index else -math.inf
    above = borders[index] if index < scores.size - 1 else math.inf
    if index < scores.size and target - below > margin and above - target > margin:
        return index
    return exact_choice(source, scores, rate, word)


def exact_choice(source: Randomness, scores: NDArray[np.float64], rate: float, word: int) -> int:
    """The same choice for the same word, with as many digits and bits as it takes."""
    mpmath = own_digits()

    bits, known = word, 64
    exact_rate = exact(rate)
    exponents = [exact_rate * Fraction(float(s)) for s in scores - 0.0]
    top = max(exponents)
    while True:
        precision = known + 64 + scores.size.bit_length()
        with mpmath.workprec(precision):
            weights = [mpmath.exp(mpmath.mpf((e - top).numerator) / (e - top).denominator) for e in exponents]
            total = mpmath.fsum(weights)
            slack = total * mpmath.mpf(2) ** (scores.size.bit_length() + 8 - precision)
            start = total * bits * mpmath.mpf(2) ** -known - slack
            end = total * (bits + 1) * mpmath.mpf(2) ** -known + slack
            border = mpmath.mpf(0)
            for index, weight in enumerate(weights):
                last = index == len(weights) - 1
                if start >= border and (last or end <= border + weight):
                    return index
                border += weight
        bits, known = (bits << 64) | int(source.words(1)[0]), known + 64


def choice_log_probabilities(scores: NDArray[np.float64], rate: float) -> NDArray[np.float64]:
    """Logarithms of the probabilities with which `exponential_choice` answers; for audits.

    >>> np.exp(choice_log_probabilities(np.array([0.0, np.log(3.0)]), 1.0)).round(2).tolist()
    [0.25, 0.75]
    """
    exponents = rate * (scores - scores.max())
    return np.asarray(exponents - np.log(np.exp(exponents).sum()), dtype=np.float64)
