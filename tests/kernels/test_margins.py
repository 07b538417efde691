"""What floats decide, and what is left to integers or to larger values: noise, draws, curves, logarithms."""

from __future__ import annotations

import dataclasses
import math
from types import SimpleNamespace

import mpmath
import numpy as np
import pytest

from discreet.kernels.composition import worst_case_curve
from discreet.kernels.experts import OrderedExperts
from discreet.kernels.noise import REJECTED, UNDECIDED, attempt_noise, sphere_rows
from discreet.kernels.softmax import decided_choice
from discreet.objectives import devices
from discreet.privacy.samplers import noise_table

HALFWAY = 1 << 63


def drawn(gaussian, exponential, width=1):
    """Rows that are done, and what they hold, which is ``width`` times the same.

    Both are (word of a cell, place in it, half, further bits).
    """
    words = []
    for first, low, half, further in (gaussian, exponential):
        words += [first, low | half << 22] * width + [further] * width
    out = np.zeros((1, width), dtype=np.int64)
    done = sphere_rows(np.array(words, dtype=np.uint64), noise_table(True), noise_table(False), out)[0]
    assert len(set(out[0].tolist())) == 1
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


def test_more_coordinates_round_more_often():
    """64 equal ones are half of 8 times one part each, off by at most 16 + 2 * 64 units of themselves."""
    size = size_of(HALFWAY, 12345, 0)
    for share, done in ((0.8, 0), (1.25, 1)):
        further = (1 << 61) + round(share * 144.0 * size * 2.0**-53 * 2.0**64)  # size + 1/8, and a little
        found = drawn((HALFWAY, 5, 0, 0), (HALFWAY, 12345, 0, further), width=64)
        assert found == (done, done * (4 * size + 1))


@pytest.mark.parametrize("cell", [0, 700, 8 << 10])
@pytest.mark.parametrize("gaussian", [False, True])
def test_what_floats_keep_reject_and_leave_open(gaussian, cell):
    """A place is kept with the chance exp(-e), or exp(-c e - e^2 / 2) for the Gaussian, e in the cell at c.

    Its test t, of 40 bits, keeps it where (t + 1) / 2^40 lies below that all over the half step, rejects it
    where t / 2^40 lies above everywhere; floats leave to larger numbers what is within 1.5 of 256 parts.
    """
    rng, first = np.random.default_rng(cell), int(noise_table(gaussian)[0][cell]) - 1
    words, expected = [], []
    with mpmath.workprec(100):
        for low, half in rng.integers(0, [1 << 22, 2], (150, 2)).tolist():
            rises = [mpmath.mpf(2 * low + half + end) / 2**33 for end in (0, 1)]
            heights = [mpmath.mpf(cell) / 1024 * e + e * e / 2 if gaussian else e for e in rises]
            start, end = (mpmath.exp(-height) * 2**40 for height in heights)
            for test in {int(at) + off for at in (start, end) for off in (-2, -1, 0, 1)}:
                kept, rejected = end - test - 1 - mpmath.mpf(2) ** -8, test - start - mpmath.mpf(2) ** -8
                near = min(abs(kept), abs(rejected)) < mpmath.mpf(2) ** -9
                if not near and 0.98 < test / 2**40 < 1.0:
                    words += [first, test << 24 | half << 22 | low]
                    expected.append(0 if kept > 0 else REJECTED if rejected > 0 else UNDECIDED)
    out, places = np.zeros((2, len(expected)), dtype=np.int64)
    why, status = np.zeros((2, len(expected)), dtype=np.uint8)
    given = np.array(words, dtype=np.uint64)
    failed = attempt_noise(given, *noise_table(gaussian), gaussian, 0, out, places, why)
    status[places[:failed]] = why[:failed]
    assert status.tolist() == expected
    assert {0, REJECTED, UNDECIDED} == set(expected)


def test_small_numbers_are_not_decided_by_floats():
    """Below 2^20 half steps their own rounding is too much."""
    for gaussian, exponential, done in ((19, 21, 0), (21, 19, 0), (21, 21, 1)):
        given = ((1, 1 << power - 1, 0, 1 << 40) for power in (gaussian, exponential))
        assert drawn(*given) == (done, done << 20)


@pytest.mark.parametrize(("n_items", "levels"), [(2, 1), (8, 1), (64, 2), (4096, 4)])
@pytest.mark.parametrize("above", [0, 2, 9, 12])
def test_a_word_near_a_border_of_equal_weights_is_not_decided(n_items, levels, above):
    """13 units for each e-fold of the total, rounded up to a power of two, and of the items squared (one at
    least); 709 e-folds where the total is below 1; 16 for each level, and 128."""
    experts = OrderedExperts(np.zeros((n_items, 1), dtype=np.int64), 1.0, 1.0, 1)
    experts.trees(np.array([above]))  # weights of exp(-above) each
    power = math.floor(math.log2(n_items * math.exp(-above))) + 1
    spread = math.log(2.0) * power + 2.0 * max(1.0, math.log(n_items)) if power > 0 else 709.0
    units = 13.0 * spread + 16.0 * levels + 128.0
    for share, decided in ((0.97, False), (1.03, True)):
        away = round(share * units * 2**11)
        for word, item in (((1 << 63) + away, n_items // 2), ((1 << 63) - away, n_items // 2 - 1)):
            assert experts.find(0, word) == (item if decided else -1)


@pytest.mark.parametrize("size", [2, 8, 1024])
def test_a_choice_near_a_border_of_equal_weights_is_not_decided(size):
    """32 units of the total for each item, and 128."""
    for share, decided in ((0.97, False), (1.03, True)):
        away = round(share * (32 * size + 128) * 2**11)
        for word, item in (((1 << 63) + away, size // 2), ((1 << 63) - away, size // 2 - 1)):
            assert decided_choice(np.zeros(size), 1.0, word) == (item if decided else -1)


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
