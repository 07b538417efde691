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
        assert samplers.flipped_choice(Listed(5, first, second - 1, 7), scores, 1.0) == 1  # 7 is odd
        assert samplers.flipped_choice(Listed(5, first, second + 1), scores, 1.0) == 0


def test_words_that_would_favour_some_numbers_are_drawn_again():
    last = 2**64 - 1  # a multiple of 3, so that 0 would have one word more than 1 and 2
    assert samplers._uniform(Listed(last, 7), 3) == 1
    assert samplers._uniform(Listed(last - 1), 3) == 2
    assert samplers._uniform(Listed(last), 4) == 3
    assert samplers._uniform(Listed(), 1) == 0
