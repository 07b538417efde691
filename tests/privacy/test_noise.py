"""Grid noise: the compiled sampler against its exact twin, the ideal distribution, and exact truncation."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy import stats

import discreet as dc
from discreet.kernels.noise import REJECTED, UNDECIDED, attempt_noise
from discreet.privacy import ReproducibleRandomness, samplers
from discreet.privacy.samplers import Grid

SCALE = 2.0**samplers.STEPS_BITS
IDEAL = {False: stats.laplace, True: stats.norm}


DONE = 0


class Scripted:
    """Words from a list, then from a seeded source."""

    secure = False

    def __init__(self, words, seed=0):
        self._words, self._rest = list(words), ReproducibleRandomness(seed)
        self.taken = 0

    def words(self, count):
        self.taken += count
        ready, self._words = self._words[:count], self._words[count:]
        return np.concatenate([np.array(ready, dtype=np.uint64), self._rest.words(count - len(ready))])

    def state(self):
        return None


def _attempt(words, gaussian):
    words = np.asarray(words, dtype=np.uint64)
    out, places = np.zeros((2, words.size // 2), dtype=np.int64)
    why = np.zeros(out.size, dtype=np.uint8)
    failed = attempt_noise(words, *samplers.noise_table(gaussian), gaussian, 0, out, places, why)
    status = np.full(out.size, DONE, dtype=np.uint8)
    status[places[:failed]] = why[:failed]
    return out, status


@pytest.mark.parametrize("gaussian", [False, True])
def test_table_holds_the_distribution_function(gaussian):
    cells, guide = samplers.noise_table(gaussian)
    with mpmath.workprec(300):
        for cell in [*range(8), *range(8, cells.size - 1, 997)]:
            end = mpmath.mpf(cell + 1) / 1024
            below = mpmath.erf(end / mpmath.sqrt(2)) if gaussian else 1 - mpmath.exp(-end)
            assert int(cells[cell]) == int(mpmath.floor(below * 2**64))
    assert int(cells[-1]) == 2**64 - 1
    assert (np.diff(cells.astype(object)) >= 0).all()
    for prefix in (0, 1, 1000, 65535):
        assert guide[prefix] == np.searchsorted(cells, np.uint64(prefix << 48), side="left")


@pytest.mark.parametrize("gaussian", [False, True])
def test_compiled_attempt_equals_the_exact_twin(gaussian):
    words = ReproducibleRandomness(11).words(2 * 1500)
    words[1::20] |= np.uint64(0xFFFFFF0000000000)  # push the test bits up so that many are rejected
    edge = np.uint64(int(0.98 * 2**40) << 24)  # from here on a test is looked at
    words[3::20] = edge - np.uint64(75) + np.arange(150, dtype=np.uint64)
    out, status = _attempt(words, gaussian)
    assert (status == REJECTED).sum() >= 10
    for index in range(out.size):
        source = Scripted([])
        exact, _ = samplers.settle(int(words[2 * index]), int(words[2 * index + 1]), source, gaussian)
        if status[index] == DONE:
            assert exact == out[index]
            assert source.taken == 0
        elif status[index] == REJECTED:
            assert source.taken > 0


@pytest.mark.parametrize("gaussian", [False, True])
def test_undecided_words_are_settled_by_more_bits(gaussian):
    cells, _ = samplers.noise_table(gaussian)
    border = int(cells[700])  # exactly on a table entry: 64 bits cannot tell the cell
    keep = 5  # low test bits: the place is kept
    _, status = _attempt([border, keep], gaussian)
    assert status[0] == UNDECIDED
    with mpmath.workprec(300):
        end = mpmath.mpf(701) / 1024
        below = (mpmath.erf(end / mpmath.sqrt(2)) if gaussian else 1 - mpmath.exp(-end)) * 2**64
        next_word = int((below - border) * 2**64)
    lower, _ = samplers.settle(border, keep, Scripted([max(0, next_word - 10)]), gaussian)
    upper, _ = samplers.settle(border, keep, Scripted([min(2**64 - 1, next_word + 10)]), gaussian)
    assert lower >> (samplers.CELL_BITS + 1) == 700
    assert upper >> (samplers.CELL_BITS + 1) == 701


@pytest.mark.parametrize("gaussian", [False, True])
def test_undecided_tests_are_settled_by_more_bits(gaussian):
    # A place at the end of cell 0 with test bits at its threshold.
    place = (1 << 23) - 1
    rise = mpmath.mpf(place) / 2**33
    with mpmath.workprec(200):
        threshold = mpmath.exp(-(rise * rise / 2 if gaussian else rise)) * 2**40
    word = (int(threshold) << 24) | place
    assert _attempt([1, word], gaussian)[1][0] == UNDECIDED
    floor, within = samplers.settle(1, word, Scripted([0] * 4), gaussian)
    assert floor == (1 << 23) - 1
    assert within.first(64) == 0  # the bits of the place that the test looked at are the variable's own
    kept = 7  # a place that is surely kept, for the next try in the same cell
    assert samplers.settle(1, word, Scripted([2**64 - 1] * 2 + [kept]), gaussian)[0] == 14


@pytest.mark.parametrize("gaussian", [False, True])
def test_draws_follow_the_ideal_distribution(gaussian):
    """Chi-square over 400 equally likely bins; threshold p < 1e-6, and a 2 % wrong scale is seen."""
    draws = samplers.noise_steps(ReproducibleRandomness(5), 400_000, gaussian=gaussian) / SCALE
    edges = IDEAL[gaussian].ppf(np.linspace(0, 1, 401)[1:-1])

    def p_value(sample):
        return stats.chisquare(np.bincount(np.searchsorted(edges, sample), minlength=400)).pvalue

    assert p_value(draws) > 1e-6
    assert p_value(draws * 1.02) < 1e-6


@pytest.mark.parametrize("gaussian", [False, True])
def test_low_bits_and_sign_are_uniform(gaussian):
    draws = samplers.noise_steps(ReproducibleRandomness(6), 200_000, gaussian=gaussian)
    assert stats.chisquare(np.bincount(np.abs(draws) % 64, minlength=64)).pvalue > 1e-6
    assert stats.binomtest(int((draws > 0).sum()), draws.size).pvalue > 1e-6


def test_tail_of_the_gaussian_is_there():
    draws = samplers.noise_steps(ReproducibleRandomness(7), 2_000_000, gaussian=True) / SCALE
    seen = int((np.abs(draws) > 4.0).sum())
    assert stats.binomtest(seen, draws.size, 2 * stats.norm.sf(4.0)).pvalue > 1e-6
    # the last table cell reaches past nine standard deviations, so nothing is cut off before 2^-64
    assert samplers.noise_table(True)[0].size > 9 * 1024


@pytest.mark.parametrize("gaussian", [False, True])
def test_rejected_places_are_drawn_again_in_the_same_cell(gaussian):
    """Redrawing the cell as well would favour cells with few rejections (4e-4 of the variance)."""
    cell = 2500
    first = int(samplers.noise_table(gaussian)[0][cell]) - 1000
    rejected, kept = (2**40 - 1) << 24 | ((1 << 22) - 1), 12345
    assert _attempt([first, rejected], gaussian)[1][0] == REJECTED
    source = Scripted([first, rejected, rejected, kept])
    assert samplers.noise_steps(source, 1, gaussian=gaussian).tolist() == [(cell << 22) + kept]
    assert source.taken == 4
    mixed = Scripted([first, rejected, first, kept, first, rejected, kept + 1, kept + 2])
    draws = samplers.noise_steps(mixed, 3, gaussian=gaussian)
    assert (draws - (cell << 22)).tolist() == [kept + 1, kept, kept + 2]


def _rounded_pmf(gaussian, scale, reach):
    points = np.arange(-reach, reach + 1)
    ideal = IDEAL[gaussian](scale=scale)
    return np.diff(ideal.cdf(np.append(points - 0.5, reach + 0.5)))


@pytest.mark.parametrize("shift", [1, 2, 3])
def test_rounded_laplace_on_a_coarse_grid_is_pure(shift):
    """The argument of the module, enumerated: integers plus round(Laplace) lose exactly shift/scale."""
    pmf = _rounded_pmf(False, 4.0, 40)
    p, q = pmf[shift:], pmf[:-shift]
    assert np.abs(np.log(p / q)).max() == pytest.approx(shift / 4.0, rel=1e-6)


@pytest.mark.parametrize("shift", [1, 3])
@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0])
def test_rounded_gaussian_on_a_coarse_grid_is_gaussian_private(shift, epsilon):
    from discreet.privacy.conversions import gdp_delta

    pmf = _rounded_pmf(True, 4.0, 60)
    p, q = np.append(pmf, np.zeros(shift)), np.append(np.zeros(shift), pmf)
    delta = np.maximum(p - math.exp(epsilon) * q, 0.0).sum()
    assert delta <= gdp_delta(shift / 4.0, epsilon)
    assert delta > gdp_delta(shift / 5.0, epsilon)  # a scale that is 25 % off would be caught


@pytest.mark.parametrize("gaussian", [False, True])
def test_draws_are_half_steps_rounded(gaussian):
    """Also those that are drawn again, or decided with more bits."""
    for words in ([], [0, 0], [int(samplers.noise_table(gaussian)[0][7]), 5]):
        halves, _ = samplers.half_steps(Scripted(words, 8), 100_000, gaussian=gaussian)
        draws = samplers.noise_steps(Scripted(words, 8), 100_000, gaussian=gaussian)
        assert np.array_equal(draws, (halves + 1) >> 1)


# --- the grid -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "step", [Fraction(1, 3), Fraction(10**12), Fraction(1, 10**12), Fraction(1), Fraction(7, 8)]
)
def test_grid_is_the_finest_that_is_not_finer(step):
    grid = Grid.at_least(step)
    assert 1 << 31 <= grid.mantissa < 1 << 32
    assert step <= grid.step <= step * (1 + Fraction(1, 1 << 31))


@pytest.mark.parametrize("size", [5, 400])
def test_truncation_is_exact_and_towards_zero(size):
    rng = np.random.default_rng(3)
    grid = Grid.at_least(Fraction(1, 3) / 2**20)
    values = rng.standard_normal(size) * 10.0 ** rng.integers(-12, 12, size)
    values[size // 2 :] = rng.standard_normal(size - size // 2)  # eight at a time, and then some
    values[:3] = [0.0, float(grid.step), -float(grid.step)]
    steps = grid.truncate(values)
    for value, step in zip(values, steps, strict=True):
        assert int(step) == math.trunc(Fraction(float(value)) / grid.step)


@pytest.mark.parametrize("exponent", [-1060, -930, -60, 0, 40, 910])
def test_truncation_next_to_grid_lines_is_exact(exponent):
    """Quotients in floating point would be wrong here, whatever their size: integers have to decide."""
    rng = np.random.default_rng(6)
    for mantissa in (1 << 31, (1 << 31) + 1, 3_333_333_333, (1 << 32) - 1):
        grid = Grid(mantissa, exponent)
        lines = [round(2.0**bits) for bits in rng.uniform(0, 60, 60)]
        values = [float(line * grid.step) for line in lines if line * grid.step < 1e308]
        near = [math.nextafter(v, end) for v in values for end in (-math.inf, math.inf)]
        both = np.array([0.0, 5e-324, *values, *near])
        both = np.concatenate([both, -both])
        assert grid.truncate(both).tolist() == [math.trunc(Fraction(v) / grid.step) for v in both.tolist()]


@pytest.mark.parametrize("size", [3, 30])
def test_truncation_saturates_instead_of_wrapping(size):
    grid = Grid.at_least(Fraction(1))
    steps = grid.truncate(np.array([1e30, -1e30, 2.0**62] + [0.0] * (size - 3)))
    assert steps[:3].tolist() == [1 << 62, -(1 << 62), 1 << 62]


@pytest.mark.parametrize(
    ("scale", "sensitivity", "truncation"), [(1.0, 1.0, 1), (10.0, 1.0, 100_000), (0.3, 7.0, 300)]
)
def test_noise_makes_up_for_truncation(scale, sensitivity, truncation):
    grid = Grid.for_noise(scale, sensitivity, truncation)
    moved = Fraction(repr(sensitivity)) / grid.step + truncation  # in steps, truncation included
    assert moved / 2**32 <= Fraction(repr(sensitivity)) / Fraction(repr(scale))
    assert grid.noise_scale >= scale
    assert grid.noise_scale <= scale * (1 + 2e-3)


def test_hopeless_grids_are_refused():
    with pytest.raises(ValueError, match="rounding would dominate"):
        Grid.for_noise(1e10, 1.0, 1)


# --- spherical ----------------------------------------------------------------------------------


@pytest.mark.parametrize("dimension", [1, 2, 5])
def test_spherical_noise_has_gamma_length_and_uniform_direction(dimension):
    source = ReproducibleRandomness(9)
    draws = np.array([samplers.spherical_steps(source, dimension) for _ in range(20_000)]) / SCALE
    lengths = np.linalg.norm(draws, axis=1)
    assert stats.kstest(lengths, stats.gamma(dimension).cdf).pvalue > 1e-6
    assert stats.kstest(lengths * 1.05, stats.gamma(dimension).cdf).pvalue < 1e-6
    for axis in range(dimension):
        positive = int((draws[:, axis] > 0).sum())
        assert stats.binomtest(positive, len(draws)).pvalue > 1e-6
    if dimension == 2:
        angles = np.arctan2(draws[:, 1], draws[:, 0])
        assert stats.kstest(angles, stats.uniform(-np.pi, 2 * np.pi).cdf).pvalue > 1e-6


@pytest.mark.parametrize("dimension", [1, 3, 40, 2000])
def test_spherical_floats_round_as_exact_integers_do(dimension):
    """What the floats decide is what integers with more bits decide, for the same ideal variables."""
    for seed in range(40_000 // (dimension + 100)):
        quick = samplers.spherical_steps(ReproducibleRandomness(seed), dimension)
        source = ReproducibleRandomness(seed)
        reals = [samplers.Reals(source, dimension, gaussian=gaussian) for gaussian in (True, False)]
        slow = samplers.settled_sphere(*reals, np.arange(dimension))
        assert quick.tolist() == slow.tolist()


@pytest.mark.parametrize("dimension", [1, 2, 30])
def test_spherical_floats_are_as_close_as_is_claimed(dimension):
    """The error bound of the docstring, against 300 bits."""
    worst = 0.0
    for seed in range(200):
        source = ReproducibleRandomness(seed)
        gaussians, parts = (samplers.Reals(source, dimension, gaussian=g) for g in (True, False))
        values, sizes = gaussians.floats(), parts.floats()
        norm, length = math.sqrt(math.fsum(values * values)), math.fsum(sizes)
        with mpmath.workprec(300):
            exact = [mpmath.mpf(x) / mpmath.mpf(2) ** 256 for x in gaussians.starts(256)]
            total = mpmath.fsum(mpmath.mpf(x) / mpmath.mpf(2) ** 256 for x in parts.starts(256))
            root = mpmath.sqrt(mpmath.fsum(x * x for x in exact))
            for value, x in zip(values * (0.5 * length / norm), exact, strict=True):
                allowed = (16.0 * abs(value) + 2.0 * length / norm) * 2.0**-53
                worst = max(worst, float(abs(value - total * x / root / 2)) / allowed)
    assert 0.01 < worst < 1.0


def test_bits_of_a_settled_variable_are_its_own():
    """A variable that took more bits to decide keeps them, also when it is mirrored."""
    place = (1 << 23) - 1
    with mpmath.workprec(200):
        threshold = mpmath.exp(-(mpmath.mpf(place) / 2**33)) * 2**40
    for sign in (0, 1):
        word = (int(threshold) - 64) << 24 | sign << 23 | place  # kept at the start of the half step only
        test, own = 0, 0x123456789ABCDEF0  # further bits of the test, and of the place
        source = Scripted([1, word, test, own])
        floors, known_bits = samplers.half_steps(source, 1, gaussian=False)
        assert floors.tolist() == [~place if sign else place]
        assert known_bits[0].first(64) == (own ^ (2**64 - 1) if sign else own)
        reals = samplers.Reals(Scripted([1, word, test, own]), 1, gaussian=False)
        assert reals.starts(64) == [(place << 64) + own]


def test_spherical_draws_near_a_border_take_more_bits():
    """Two equal Gaussians and a length that puts the coordinate on a half: 64 bits cannot tell."""

    class Fixed:
        def __init__(self, floors):
            self._floors, self.asked = floors, []

        def starts(self, bits):
            self.asked.append(bits)
            # known to be just above the start, but only from the 65th bit on
            return [(floor << bits) + (1 << (bits - 65) if bits > 64 else 0) for floor in self._floors]

    gaussians, parts = Fixed([1 << 40]), Fixed([(1 << 33) + 1])
    assert samplers.settled_sphere(gaussians, parts, np.arange(1)).tolist() == [(1 << 32) + 1]
    assert len(gaussians.asked) > 1


@pytest.mark.parametrize("dimension", [1, 10])
def test_spherical_releases_lie_on_a_public_grid(dimension):
    """Low-order bits of an answer carry nothing: whatever the value, it is a whole number of steps.

    In floating point, an answer near 0 with bits below 2^-53 was possible for the value 0 and impossible for
    the value 1 (an epsilon of at least 7.5 where 1 was claimed).
    """
    grid = Grid.for_noise(1.0, 1.0, math.isqrt(dimension - 1) + 1)
    step = float(grid.step)
    fine = 0
    for value in (0.0, 1.0, 1.0 / 3.0):
        for seed in range(300):
            values = np.zeros(dimension)
            values[0] = value
            answer = dc.Gate(dc.Budget(1.0), seed).spherical_laplace(values, 1.0, 1.0)
            steps = np.rint(answer / step)
            assert (steps * step == answer).all()
            near = np.abs(answer) < 0.5
            fine += int((near & (answer * 2.0**53 != np.floor(answer * 2.0**53))).sum()) if value else 0
    assert fine > 0  # the event of the attack now happens for the value that could not show it


def test_rounded_spherical_noise_loses_its_epsilon_and_no_more():
    """The argument of the module, enumerated on a coarse grid of the plane by integrating the density."""
    scale, reach = 3.0, 14
    nodes, weights = np.polynomial.legendre.leggauss(6)
    fine = (np.arange(-reach, reach + 1)[:, None] + nodes / 2.0).ravel()
    mass = np.exp(-np.hypot(fine[:, None], fine[None, :]) / scale)
    mass *= np.outer(np.tile(weights, 2 * reach + 1), np.tile(weights, 2 * reach + 1))
    cells = mass.reshape(2 * reach + 1, 6, 2 * reach + 1, 6).sum(axis=(1, 3))
    for move in ((1, 0), (1, 1), (2, 1)):
        here = cells[move[0] :, move[1] :]
        there = cells[: cells.shape[0] - move[0], : cells.shape[1] - move[1]]
        loss = np.abs(np.log(here / there)).max()
        assert 0.97 * math.hypot(*move) / scale < loss <= math.hypot(*move) / scale


def test_truncation_boundaries_at_multiples_of_the_step():
    grid = Grid(3 << 30, -30)  # step 3
    values = np.array([n * 3.0 + d for n in range(-20, 21) for d in (-0.5, 0.0, 0.5)])
    assert grid.truncate(values).tolist() == [math.trunc(Fraction(float(v)) / 3) for v in values]


@pytest.mark.parametrize("size", [3, 1000])
def test_truncated_neighbours_stay_within_the_charge(size):
    """Just across a grid line, truncation adds to a difference, by at most one step."""
    rng = np.random.default_rng(size)
    grid = Grid.at_least(Fraction(1, 7))
    here = rng.uniform(-5, 5, size)
    there = here + rng.uniform(-0.5, 0.5, size)
    moved = np.abs(grid.truncate(here) - grid.truncate(there))
    assert (moved <= np.abs(here - there) * 7 + 1).all()
    assert (moved > np.abs(here - there) * 7).any()


class _Known:
    """Numbers that are known exactly, to as many bits as are asked for."""

    def __init__(self, values):
        self.values = values

    def starts(self, bits):
        return [math.floor(one * 2**bits) for one in self.values]


def test_coordinates_on_a_sphere_are_decided_with_as_many_bits_as_it_takes():
    """Of Gaussians so small that 64 bits say little of their direction, by the formula in exact numbers."""
    rng = np.random.default_rng(0)
    rounded = set()
    for dimension in (1, 2, 3):
        for _ in range(400):
            gaussians = [Fraction(int(x), 2**80) for x in rng.integers(-(2**18), 2**18, dimension)]
            parts = [Fraction(int(x), 2**40) for x in rng.integers(1, 3 * 2**40, dimension)]
            found = samplers.settled_sphere(_Known(gaussians), _Known(parts), np.arange(dimension))
            for one, x in zip(found.tolist(), gaussians, strict=True):
                # half of sum(parts) x / |gaussians| is in [one - 1/2, one + 1/2): compared by squares
                half = Fraction(sum(parts), 2) * x
                for end, least in ((one - Fraction(1, 2), True), (one + Fraction(1, 2), False)):
                    square = end * abs(end) * sum(y * y for y in gaussians)
                    assert (half * abs(half) >= square) is least
                rounded.add(one)
    assert {-2, -1, 0, 1, 2} <= rounded
