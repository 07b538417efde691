"""What floats decide, and what is left to integers or to larger values: noise, draws, curves, logarithms."""

from __future__ import annotations

import dataclasses
import math
from types import SimpleNamespace

import numpy as np
import pytest

from discreet.kernels.composition import worst_case_curve
from discreet.kernels.experts import OrderedExperts
from discreet.kernels.noise import sphere_rows
from discreet.objectives import devices
from discreet.privacy.samplers import noise_table

HALFWAY = 1 << 63


def drawn(gaussian, exponential):
    """Rows that are done, and what they hold; both are (word of a cell, place in it, half, further bits)."""
    words = []
    for first, low, half, further in (gaussian, exponential):
        words += [first, low | half << 22, further]
    out = np.zeros((1, 1), dtype=np.int64)
    done = sphere_rows(np.array(words, dtype=np.uint64), noise_table(True), noise_table(False), out)[0]
    return done, int(out[0, 0])


def size_of(first, low, half):
    """In half steps: 2^22 places in each cell, in each place two halves."""
    return ((int(np.searchsorted(noise_table(False)[0], np.uint64(first))) << 22) + low << 1) + half


@pytest.mark.parametrize("low", [0, 12345, (1 << 22) - 1])
def test_what_is_near_a_half_is_not_decided_by_floats(low):
    """The length is all there is of one coordinate: half of it, off by at most 18 units of itself."""
    size = size_of(HALFWAY, low, 1)  # odd: half of it lies between two whole numbers
    off = 18.0 * (size / 2) * 2.0**-53
    for share, done in ((0.0, 0), (0.7, 0), (1.4, 1), (4.0, 1)):
        further = round(2.0 * share * off * 2.0**64)
        assert drawn((HALFWAY, 5, 0, 0), (HALFWAY, low, 1, further)) == (done, done * (size + 1) // 2)


def test_small_numbers_are_not_decided_by_floats():
    """Below 2^20 half steps their own rounding is too much."""
    for gaussian, exponential, done in ((19, 21, 0), (21, 19, 0), (21, 21, 1)):
        given = ((1, 1 << power - 1, 0, 1 << 40) for power in (gaussian, exponential))
        assert drawn(*given) == (done, done << 20)


@pytest.mark.parametrize(("n_items", "levels"), [(8, 1), (64, 2), (4096, 4)])
@pytest.mark.parametrize("above", [0, 9, 12])
def test_a_word_near_a_border_of_equal_weights_is_not_decided(n_items, levels, above):
    """13 units for each e-fold of the total, rounded up to a power of two, and of the items squared; 709
    e-folds where the total is below 1; 16 for each level, and 128."""
    experts = OrderedExperts(np.zeros((n_items, 1), dtype=np.int64), 1.0, 1.0, 1)
    experts.trees(np.array([above]))  # weights of exp(-above) each
    power = math.floor(math.log2(n_items * math.exp(-above))) + 1
    spread = math.log(2.0) * power + 2.0 * math.log(n_items) if power > 0 else 709.0
    units = 13.0 * spread + 16.0 * levels + 128.0
    for share, decided in ((0.97, False), (1.03, True)):
        away = round(share * units * 2**11)
        for word, item in (((1 << 63) + away, n_items // 2), ((1 << 63) - away, n_items // 2 - 1)):
            assert experts.find(0, word) == (item if decided else -1)


@pytest.mark.parametrize("reach", [[8] * 6, [3] * 6, [0, 2, 4, 6, 8, 10]])
def test_beyond_its_reach_a_curve_is_above_the_true_one(reach):
    """The last delta stands in for those farther out, which are smaller."""
    short, full = (worst_case_curve(1.0, 8, np.array(one)) for one in (reach, [80] * 6))
    assert np.all(short >= full[: short.size] - 1e-15)
    assert short[-1] > full[short.size - 1] + 1e-3


@pytest.mark.parametrize("off", [-1.0, 0.0, 1.0])
def test_a_guess_of_the_exponent_that_is_one_off_is_corrected(off):
    """Some devices round log2 to the other side of a whole number."""
    plain = devices.NUMPY
    xp = SimpleNamespace(**vars(plain.xp) | {"log2": lambda values: np.log2(values) + off})
    found = dataclasses.replace(plain, xp=xp).logarithm(np.array([4.0, 5.5, 1e9]))
    assert found == pytest.approx([math.log(4.0), math.log(5.5), math.log(1e9)], rel=1e-14)
