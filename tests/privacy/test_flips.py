"""Coins of permute-and-flip that one word does not decide."""

from __future__ import annotations

from fractions import Fraction

import mpmath
import numpy as np
import pytest

from discreet.privacy import samplers


class Listed:
    """Gives these words, in order."""

    def __init__(self, *words: int) -> None:
        self.left = list(words)

    def words(self, count: int) -> np.ndarray:
        taken, self.left = self.left[:count], self.left[count:]
        assert len(taken) == count
        return np.array(taken, dtype=np.uint64)


@pytest.mark.parametrize("exponent", [Fraction(-1, 2), Fraction(-7, 3), Fraction(-30)])
def test_coins_next_to_their_chance_take_words_until_they_are_decided(exponent):
    with mpmath.workprec(400):
        chance = int(mpmath.floor(mpmath.exp(mpmath.mpf(exponent.numerator) / exponent.denominator) * 2**192))
    first, second, third = (chance >> shift & (2**64 - 1) for shift in (128, 64, 0))
    for words, kept in (
        ((first - 1,), True),
        ((first + 1,), False),
        ((first, second - 1), True),
        ((first, second + 1), False),
        ((first, second, third - 2**40), True),
        ((first, second, third + 2**40), False),
    ):
        source = Listed(*words[1:])
        assert samplers._below(source, words[0], exponent) is kept
        assert not source.left
    assert samplers._below(Listed(), 2**64 - 1, Fraction(0))
    # The same in a choice: the best item's coin always falls that way, and then one of those kept is drawn.
    scores = np.array([0.0, float(exponent)])
    if exponent.denominator == 1 or exponent == Fraction(-1, 2):
        assert samplers.permute_and_flip(Listed(5, first, second - 1, 7), scores, 1.0) == 1  # 7 is odd
        assert samplers.permute_and_flip(Listed(5, first, second + 1), scores, 1.0) == 0


def test_words_that_would_favour_some_numbers_are_drawn_again():
    last = 2**64 - 1  # a multiple of 3, so that 0 would have one word more than 1 and 2
    assert samplers._uniform(Listed(last, 7), 3) == 1
    assert samplers._uniform(Listed(last - 1), 3) == 2
    assert samplers._uniform(Listed(last), 4) == 3
    assert samplers._uniform(Listed(), 1) == 0


@pytest.mark.parametrize(
    ("gaussians", "length", "settled"),
    [
        ([2.0**33], 2.0**34 + 1 + 2.0**-16, [0]),  # 2^-17 above a half; errors are below 2^-16
        ([2.0**33], 2.0**34 + 1 - 2.0**-16, [0]),
        ([2.0**33], 2.0**34 + 1 + 2.0**-14, []),
        ([2.0**33], 2.0**34, []),
        ([2.0**33, 0.0], 2.0**34 + 1, [0]),
        ([2.0**33, 2.0**-12 * (1 - 2.0**-42)], 2.0**45, [1]),  # errors of the length are larger here
        ([2.0**20] * 4, 2.0**22, []),
        ([2.0**20 - 1] * 4, 2.0**22, [0, 1, 2, 3]),  # too short a vector, and too small a length
        ([2.0**20] * 4, 2.0**22 - 1, [0, 1, 2, 3]),
    ],
)
def test_coordinates_of_a_sphere_next_to_a_half_are_settled(gaussians, length, settled, monkeypatch):
    """Which of them the floats decide: a coordinate is length x Gaussian / norm, in half steps."""

    class Known:
        def __init__(self, _, dimension, *, gaussian):
            self.values = gaussians if gaussian else [length / dimension] * dimension

        def floats(self):
            return np.array(self.values)

    asked: list[int] = []

    def settle(*given):
        places = given[2]
        asked.extend(places.tolist())
        return np.zeros(places.size, dtype=np.int64)

    monkeypatch.setattr(samplers, "Reals", Known)
    monkeypatch.setattr(samplers, "settled_sphere", settle)
    found = samplers.spherical_steps(Listed(), len(gaussians))
    assert asked == settled
    norm = sum(value**2 for value in gaussians) ** 0.5
    for place in set(range(len(gaussians))).difference(settled):
        assert abs(found[place] - gaussians[place] * length / norm / 2) <= 0.5
