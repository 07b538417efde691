"""Permute and flip: a choice whose items only get likelier when somebody who likes them comes."""

from __future__ import annotations

from fractions import Fraction
from functools import cache

import numpy as np
from numpy.typing import NDArray

from ...core.digits import own_digits
from ..conversions import exact
from ..randomness import Randomness
from .choice import exponents

_WORD = 1 << 64


def flipped_choice(source: Randomness, scores: NDArray[np.float64], rate: float) -> int:
    """An index, drawn exactly: keep each with probability exp(rate (score - largest)), take any one kept.

    McKenna and Sheldon (2020) visit candidates in random order and flip a coin for each until one is kept;
    this is the same distribution. It is also that of the largest of scores with exponential noise of mean
    1 / rate (Ding et al. 2021), from which two things follow. If scores rise, each j's by g_j >= 0, then v
    becomes at most exp(rate g_v) times as likely: the density of the noise shifted by g_v is nowhere more
    than that much larger, and larger rivals do not help v. That is all that picks on a secret sample need
    (`accounts.subsampled`). And the score of the choice is never smaller, on average, than that of the
    exponential mechanism at the same rate; often the loss is only half.

    Error bound of the quick decision: exponent, exponential and word are off by less than 2^-46 together (as
    in `choice.exponential_choice`); a word closer than that to its threshold is settled with more bits.
    """
    top = float(scores.max())
    chances = np.exp(exponents(scores, rate))
    words = source.words(scores.size)
    distance = chances - words * 2.0**-64
    kept = distance > 0.0
    for place in np.flatnonzero(np.abs(distance) < 2.0**-46):
        exponent = exact(rate) * (Fraction(float(scores[place])) - Fraction(top))
        kept[place] = _below(source, int(words[place]), exponent)
    among = np.flatnonzero(kept)
    return int(among[_uniform(source, among.size)])


def _below(source: Randomness, word: int, exponent: Fraction) -> bool:
    """Whether a uniform number that starts with ``word`` is below exp(exponent), exponent <= 0."""
    mpmath = own_digits()

    if exponent == 0:
        return True
    bits, known = word, 64
    while True:
        with mpmath.workprec(known + 64):
            threshold = mpmath.exp(mpmath.mpf(exponent.numerator) / exponent.denominator)
            slack = mpmath.mpf(2) ** -(known + 32)
            unit = mpmath.mpf(2) ** -known
            if (bits + 1) * unit <= threshold - slack:
                return True
            if bits * unit >= threshold + slack:
                return False
        bits, known = (bits << 64) | int(source.words(1)[0]), known + 64


def _uniform(source: Randomness, count: int) -> int:
    """A whole number below ``count``, each equally likely."""
    if count == 1:
        return 0
    fair = _WORD - _WORD % count
    while (word := int(source.words(1)[0])) >= fair:
        pass
    return word % count


def flip_probabilities(scores: NDArray[np.float64], rate: float) -> NDArray[np.float64]:
    """The probabilities with which `flipped_choice` answers; for audits.

    Candidate v is kept, and is taken with one over the number of all that are kept: the integral over t of
    chance_v x product over the others of (1 - chance_j t), a polynomial, which Gauss' rule gets right.

    >>> flip_probabilities(np.array([0.0, np.log(4.0)]), 1.0).round(3).tolist()
    [0.125, 0.875]
    """
    chances = np.exp(rate * (scores - scores.max()))
    nodes, weights = _gauss(scores.size // 2 + 1)
    t, w = (nodes + 1.0) / 2.0, weights / 2.0
    left = 1.0 - chances[None, :] * t[:, None]
    others = [np.delete(left, v, axis=1).prod(axis=1) for v in range(scores.size)]
    return np.asarray(chances * (np.array(others) @ w), dtype=np.float64)


_gauss = cache(np.polynomial.legendre.leggauss)
