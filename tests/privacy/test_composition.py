"""The composition of adaptive choices: never below what an adversary achieves, and barely above it."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable
from functools import cache, lru_cache

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtr
from scipy.stats import binom

from discreet.privacy import composition
from discreet.privacy.composition import SMALLEST_DELTA, adaptive_choices_delta, adaptive_choices_epsilon
from discreet.privacy.conversions import gdp_delta, gdp_epsilon, zcdp_epsilon

Curve = Callable[[float], float]


def published(steps: int, scale: float = 1.0) -> float:
    """Range of one choice for eta = scale / sqrt(32 T ln(1/delta)), delta = 1e-6."""
    return 2.0 * scale / math.sqrt(32.0 * steps * math.log(1e6))


# --- oracles: what an adversary achieves, and slow twins -------------------------------------------


@lru_cache(100)
def repeated(width: float, steps: int, t: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """How likely each loss is to an adversary who makes the same pick ``{t, t - width}`` in every step."""
    odds = math.expm1(width - t) * math.exp(t) / math.expm1(width)
    most = steps * odds + 15 * math.sqrt(steps) + 15  # leaving out the rest only weakens the attack
    high = np.arange(max(0, int(most - 30 * (math.sqrt(steps) + 1))), min(steps, int(most)) + 1)
    return binom.pmf(high, steps, odds), high * t + (steps - high) * (t - width)


def attack(epsilon: float, width: float, steps: int, t: float) -> float:
    """The delta of that adversary, exact."""
    chances, losses = repeated(width, steps, t)
    return float(chances @ np.maximum(0.0, -np.expm1(epsilon - losses)))


def attack_epsilon(delta: float, width: float, steps: int, t: float) -> float:
    if attack(0.0, width, steps, t) <= delta:
        return 0.0
    return float(brentq(lambda e: attack(e, width, steps, t) - delta, 0.0, steps * width, xtol=1e-14))


def adaptive_attack(sizes: tuple[int, ...], spacing: float, left: tuple[int, ...]) -> Curve:
    """Delta of the best adaptive adversary among those who pick ``t`` on the grid.

    ``left[g]`` steps of range ``sizes[g] * spacing`` remain; the adversary also chooses, each time,
    which kind comes next. No interpolation: the value is achieved. Only for multiples of ``spacing``.
    """

    @cache
    def value(at: int, left: tuple[int, ...]) -> float:
        best = max(0.0, -math.expm1(at * spacing))
        for g, size in enumerate(sizes):
            if left[g] == 0:
                continue
            rest = (*left[:g], left[g] - 1, *left[g + 1 :])
            for j in range(size + 1):
                up = math.expm1((size - j) * spacing) * math.exp(j * spacing) / math.expm1(size * spacing)
                best = max(best, up * value(at - j, rest) + (1.0 - up) * value(at - j + size, rest))
        return best

    return lambda epsilon: value(round(epsilon / spacing), left)


def slow_curve(
    width: float,
    steps: int,
    cells: int,
    pick: Callable[..., mpmath.mpf] = max,
    mirror: bool = True,
) -> list[mpmath.mpf]:
    """The recursion in 50 digits, written with E = e^epsilon and s = e^-t instead of cell offsets."""
    with mpmath.workdps(50):
        w = mpmath.mpf(width)
        h = w / cells
        last = steps * cells
        curve = [mpmath.mpf(0)] * (last + cells + 1)

        def at(i: int) -> mpmath.mpf:
            if i >= 0:
                return curve[i]
            return 1 - mpmath.exp(i * h) + mpmath.exp(i * h) * curve[-i] if mirror else curve[0]

        def chord(i: int) -> tuple[mpmath.mpf, mpmath.mpf]:
            """Intercept and slope, in E, of the chord over the cell that ends at i."""
            slope = (at(i) - at(i - 1)) / (mpmath.exp(i * h) - mpmath.exp((i - 1) * h))
            return at(i) - slope * mpmath.exp(i * h), slope

        for _ in range(steps):
            new = []
            for i in range(last + 1):
                big = mpmath.exp(i * h)
                values = []
                for j in range(cells):
                    a, b = chord(i - j)
                    a2, b2 = chord(min(i - j + cells, last + cells))
                    low, high = mpmath.exp(-(j + 1) * h), mpmath.exp(-j * h)
                    candidates = [low, high]
                    if a > a2 and b2 > b:
                        s = mpmath.sqrt((a - a2) / (big * mpmath.exp(w) * (b2 - b)))
                        candidates.append(min(max(s, low), high))
                    for s in candidates:
                        p = (mpmath.exp(w) - 1 / s) / mpmath.expm1(w)
                        rest = a2 + b2 * big * mpmath.exp(w) * s
                        values.append(p * (a + b * big * s) + (1 - p) * rest)
                new.append(pick(values))
            curve = new + [new[-1]] * cells
        return curve[: last + 1]


def fast_curve(width: float, steps: int, cells: int) -> NDArray[np.float64]:
    return composition._curve(width, steps, cells)


def undercut(curve: NDArray[np.float64], width: float, steps: int, cells: int) -> bool:
    """Whether some adversary who repeats one pick achieves more than the curve says."""
    for t in np.linspace(0.02, 0.98, 25) * width:
        for i in range(curve.size):
            if attack(i * width / cells, width, steps, t) > curve[i] + 1e-15:
                return True
    return False


# --- the recursion ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("width", "steps"), [(1e-9, 3), (1e-5, 4), (0.1, 4), (1.0, 3), (8.0, 3)])
@pytest.mark.parametrize("cells", [1, 2, 3, 4])
def test_kernel_equals_the_slow_twin_to_the_last_digits(width: float, steps: int, cells: int) -> None:
    slow = slow_curve(width, steps, cells)
    fast = fast_curve(width, steps, cells)
    slack = steps * (16 + 32 * cells) * 2.0**-53
    for exact, value in zip(slow, fast, strict=True):
        assert exact <= mpmath.mpf(float(value)) <= exact * (1 + 2 * slack)


@pytest.mark.parametrize("width", [0.01, 0.5, 2.0])
@pytest.mark.parametrize("steps", [2, 3, 4])
def test_never_below_the_best_adaptive_adversary_and_close_to_it(width: float, steps: int) -> None:
    size = 24
    best = adaptive_attack((size,), width / size, (steps,))
    for i in range(0, steps * size, 3):
        achieved = best(i * width / size)
        claimed = adaptive_choices_delta(i * width / size, [(width, steps)])
        assert claimed >= achieved
        if achieved > 1e-3 * best(0.0):
            assert claimed <= 1.1 * achieved  # the adversary's own grid costs it a few percent


def test_the_order_of_different_choices_does_not_matter() -> None:
    # The adversary decides after each answer which kind of choice comes next.
    sizes, spacing, left = (16, 6), 0.02, (2, 3)
    best = adaptive_attack(sizes, spacing, left)
    groups = [(size * spacing, count) for size, count in zip(sizes, left, strict=True)]
    for i in range(0, 50, 2):
        assert adaptive_choices_delta(i * spacing, groups) >= best(i * spacing)


def test_injected_faults_are_seen() -> None:
    width, steps, cells = 0.4, 3, 4
    assert not undercut(fast_curve(width, steps, cells), width, steps, cells)
    wrong_pick = np.array([float(v) for v in slow_curve(width, steps, cells, pick=min)])
    no_mirror = np.array([float(v) for v in slow_curve(width, steps, cells, mirror=False)])
    too_few = np.append(fast_curve(width, steps - 1, cells), np.zeros(cells))
    for wrong in (wrong_pick, no_mirror, too_few):
        assert undercut(wrong, width, steps, cells)


# --- many steps ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(  # epsilon is about 0.1, 1 and 5 at delta = 1e-6
    ("steps", "scale"),
    [*itertools.product([10, 100, 1000, 10_000], [0.55, 4.9, 21.0]), (1_000_000, 4.9)],
)
def test_between_the_best_repeated_pick_and_one_percent_above(steps: int, scale: float) -> None:
    width = published(steps, scale)
    shares = np.linspace(0.02, 0.98, 49) if steps <= 100 else np.array([0.45, 0.5, 0.55])
    for delta in (1e-4, 1e-6, 1e-9, SMALLEST_DELTA):
        claimed = adaptive_choices_epsilon(delta, [(width, steps)])
        achieved = max(attack_epsilon(delta, width, steps, share * width) for share in shares)
        assert achieved <= claimed * (1 + 1e-9)
        assert claimed <= achieved * (1.02 if steps < 100 else 1.01 if steps < 1000 else 1.003)
        assert adaptive_choices_delta(claimed, [(width, steps)]) <= delta * (1 + 1e-4)


def test_equal_groups_are_one_group() -> None:
    one = adaptive_choices_epsilon(1e-6, [(0.01, 1000)])
    assert adaptive_choices_epsilon(1e-6, [(0.01, 400), (0.01, 600)]) == one
    assert adaptive_choices_epsilon(1e-6, [(0.01, 1000), (0.5, 0), (0.0, 7)]) == one
    nearly = adaptive_choices_epsilon(1e-6, [(0.01, 500), (0.01 * (1 + 1e-9), 500)])
    assert one <= nearly <= 1.002 * one


def test_many_different_ranges() -> None:
    ranges = [(0.05 / math.sqrt(1 + i / 100), 1) for i in range(2000)]
    total = math.sqrt(math.fsum(width * width for width, _ in ranges)) / 2
    value = adaptive_choices_epsilon(1e-6, ranges)
    assert gdp_epsilon(total, 1e-6) * 0.99 <= value <= gdp_epsilon(total, 1e-6) * 1.05
    rounded = composition._rounded_up(tuple(sorted(ranges)))
    assert sum(count for _, count in rounded) == 2000
    for width, _ in ranges:  # at least as many steps at least as wide, at every width
        wide = sum(count for w, count in ranges if w >= width)
        assert sum(count for w, count in rounded if w >= width) >= wide


# --- other steps beside choices -----------------------------------------------------------------------


@pytest.mark.parametrize(("epsilon", "count"), [(0.1, 1), (0.1, 100), (0.01, 10_000), (2.0, 7)])
def test_pure_steps_compose_as_binomials(epsilon: float, count: int) -> None:
    # Randomised response is the symmetric two-point pair of range 2 epsilon.
    for delta in (1e-3, 1e-6, 1e-9):
        exact = attack_epsilon(delta, 2 * epsilon, count, epsilon)
        value = adaptive_choices_epsilon(delta, [], pure=[(epsilon, count)])
        assert exact <= value * (1 + 1e-12)
        assert value <= exact * 1.001
    looped = adaptive_choices_epsilon(1e-6, [], pure=[(epsilon, 1)] * count)
    assert looped == adaptive_choices_epsilon(1e-6, [], pure=[(epsilon, count)])


def test_gaussian_alone_is_exact() -> None:
    assert adaptive_choices_epsilon(1e-6, [], mu=0.3) == gdp_epsilon(0.3, 1e-6)
    assert adaptive_choices_delta(1.0, [], mu=0.3) == gdp_delta(0.3, 1.0)
    assert adaptive_choices_epsilon(1e-6, []) == 0.0
    assert adaptive_choices_delta(0.5, []) == 0.0


@pytest.mark.parametrize("mu", [1e-9, 1e-3, 0.3, 5.0])
def test_gaussian_beside_one_choice_equals_quadrature(mu: float) -> None:
    # One choice has loss density proportional to e^(loss/2) on [-w, w]; integrate the Gaussian curve over it.
    width = 0.2
    points, parts = np.polynomial.legendre.leggauss(40)
    nodes = np.add.outer(np.arange(-99, 100, 2), points).ravel() / 100
    weights = np.tile(parts, 100)
    density = np.exp(nodes * width / 2)
    density *= weights / (weights @ density)
    for epsilon in (0.0, 0.1, 0.17, 3.0 * mu + mu * mu):
        gaps = epsilon - nodes * width
        exact = float(density @ (ndtr(mu / 2 - gaps / mu) - np.exp(gaps + log_ndtr(-mu / 2 - gaps / mu))))
        value = adaptive_choices_delta(epsilon, [(width, 1)], mu=mu)
        if exact > 1e-9:  # below, the difference in the line above loses its digits
            assert exact * (1 - 1e-6) <= value <= exact * 1.02


def test_everything_together_agrees_with_dp_accounting() -> None:
    from dp_accounting import pld

    mu, width, steps, coin, coins, interval = 0.2, 0.02, 64, 0.1, 3, 0.0005
    per_width = round(width / interval)
    curve = composition._curve(width, steps, per_width)
    places = np.arange(-(curve.size - 1), curve.size)
    mirrored = [
        -math.expm1(i * interval) + math.exp(i * interval) * curve[-i] for i in places[: curve.size - 1]
    ]
    choices = pld.privacy_loss_distribution.PrivacyLossDistribution(
        pld.pld_pmf.create_pmf_pessimistic_connect_dots(interval, places, np.append(mirrored, curve))
    )
    noise = pld.privacy_loss_distribution.from_gaussian_mechanism(
        1.0 / mu, value_discretization_interval=interval, use_connect_dots=True
    )
    two = math.exp(coin) / (1 + math.exp(coin))
    answer = round(coin / interval)
    response = pld.privacy_loss_distribution.PrivacyLossDistribution(
        pld.pld_pmf.create_pmf({answer: two, -answer: 1 - two}, interval, 0.0, True)
    )
    total = choices.self_compose(2).compose(noise)
    for _ in range(coins):
        total = total.compose(response)
    for delta in (1e-3, 1e-6, 1e-9):
        mine = adaptive_choices_epsilon(delta, [(width, 2 * steps)], mu=mu, pure=[(coin, coins)])
        assert mine == pytest.approx(total.get_epsilon_for_delta(delta), rel=5e-3)


def test_convolution_of_many_losses_is_exact_far_into_the_tail() -> None:
    # Losses -1 and 1 on the grid: their 5000-fold sum is binomial.
    grid, count = 1e-3, 5000
    up = 1 / (1 + math.exp(-grid))
    coin = composition.LossDistribution(-1, np.array([1 - up, 0.0, up]), 0.0, count)
    total = composition.Composition.of([coin], grid, 0.0)
    for delta in (1e-2, 1e-6, 1e-9, SMALLEST_DELTA):
        exact = attack_epsilon(delta, 2 * grid, count, grid)
        value = total.epsilon(delta)
        assert exact <= value * (1 + 1e-12)
        assert value <= exact * (1 + 1e-6)


# --- numerics and edges ---------------------------------------------------------------------------------


def test_pure_composition_caps_the_answer() -> None:
    assert adaptive_choices_delta(0.7500001, [(0.25, 3)]) == 0.0
    assert adaptive_choices_delta(1.0000001, [(0.25, 3)], pure=[(0.125, 2)]) == 0.0
    assert adaptive_choices_delta(0.7500001, [(0.25, 3)], mu=0.01) > 0.0
    assert adaptive_choices_epsilon(SMALLEST_DELTA, [(0.25, 3)]) <= 0.75 * (1 + 1e-15)


@pytest.mark.parametrize(
    ("ranges", "mu", "pure"),
    [
        ([(1e-300, 5)], 0.0, []),
        ([(0.01, 10)], 1e-300, [(1e-300, 3)]),
        ([(100.0, 3)], 0.0, []),
        ([(100.0, 100_000)], 0.0, []),
        ([(100.0, 1)], 100.0, [(100.0, 2)]),
        ([(1e-9, 1), (50.0, 1)], 0.0, []),
        ([], 1e-5, [(30.0, 1)]),
    ],
)
def test_extreme_sizes_give_sensible_numbers(
    ranges: list[tuple[float, int]], mu: float, pure: list[tuple[float, int]]
) -> None:
    epsilon = adaptive_choices_epsilon(1e-6, ranges, mu=mu, pure=pure)
    assert 0.0 <= epsilon < math.inf
    assert adaptive_choices_delta(epsilon, ranges, mu=mu, pure=pure) <= 1e-6 * (1 + 1e-4)
    assert 0.0 <= adaptive_choices_delta(0.0, ranges, mu=mu, pure=pure) <= 1.0


def test_answers_to_bad_input() -> None:
    with pytest.raises(ValueError, match=r"delta=1e-15 is below 1e-12.*zCDP"):
        adaptive_choices_epsilon(1e-15, [(0.1, 5)])
    with pytest.raises(ValueError, match=r"delta=1\.0 must be less than 1"):
        adaptive_choices_epsilon(1.0, [(0.1, 5)])
    with pytest.raises(ValueError, match=r"epsilon=-0\.1 must be at least 0"):
        adaptive_choices_delta(-0.1, [(0.1, 5)])
    with pytest.raises(ValueError, match=r"ranges\[1\]\[0\]=-0.1 must be at least 0"):
        adaptive_choices_delta(0.1, [(0.1, 5), (-0.1, 5)])
    with pytest.raises(TypeError, match=r"pure\[0\]\[1\] must be a whole number, got 2.5"):
        adaptive_choices_delta(0.1, [], pure=[(0.1, 2.5)])  # type: ignore[list-item]
    with pytest.raises(ValueError, match=r"ranges\[0\]\[1\]=2000000000 is too large"):
        adaptive_choices_delta(0.1, [(0.1, 2 * 10**9)])
    with pytest.raises(ValueError, match=r"mu=-1\.0 must be at least 0"):
        adaptive_choices_delta(0.1, [], mu=-1.0)
    with pytest.raises(ValueError, match=r"ranges.*is NaN"):
        adaptive_choices_delta(0.1, [(math.nan, 1)])


def test_curve_does_not_lose_digits_in_many_tiny_steps() -> None:
    # To first order in w the curve scales with w. At 1e-5 the second order is about w sqrt(T).
    coarse, fine = fast_curve(1e-5, 400, 8), fast_curve(1e-9, 400, 8)
    bulk = fine > 1e-13
    np.testing.assert_allclose(coarse[bulk] / 1e-5, fine[bulk] / 1e-9, rtol=2e-3)


@pytest.mark.parametrize("width", [1e-6, 0.3, 3.0, 40.0])
def test_one_step_has_its_closed_form(width: float) -> None:
    grid = np.arange(17) * width / 16
    exact = np.expm1((grid - width) / 2) ** 2 / -math.expm1(-width)
    np.testing.assert_allclose(fast_curve(width, 1, 16), exact, rtol=1e-12, atol=0)
    for epsilon in (0.0, 0.123 * width, 0.9 * width):
        delta = adaptive_choices_delta(epsilon, [(width, 1)])
        assert delta == pytest.approx(math.expm1((epsilon - width) / 2) ** 2 / -math.expm1(-width), rel=1e-12)
        if delta >= SMALLEST_DELTA:
            back = adaptive_choices_epsilon(delta, [(width, 1)])
            assert adaptive_choices_delta(back, [(width, 1)]) <= delta * (1 + 1e-14)
            assert back == pytest.approx(epsilon, abs=1e-9 * width / (1 - delta))
    assert adaptive_choices_delta(width, [(width, 1)]) == 0.0


@pytest.mark.parametrize(
    ("steps", "lower", "upper"),
    [
        (10, 0.1753, 0.1773),
        (100, 0.1788, 0.1796),
        (1000, 0.1793, 0.1796),
        (10_000, 0.1793, 0.1797),
        (1_000_000, 0.1793, 0.1798),
        (10**9, 0.1793, 0.1800),
    ],
)
def test_reference_values(steps: int, lower: float, upper: float) -> None:
    value = adaptive_choices_epsilon(1e-6, [(published(steps), steps)])
    assert lower <= value <= upper
    # The Chernoff bound of zCDP gives .195 here, whatever the number of steps.
    assert value < 0.93 * zcdp_epsilon(steps * published(steps) ** 2 / 8, 1e-6)


def test_tiny_steps_allow_the_right_multiple_of_the_published_rate() -> None:
    # Target epsilon 0.1 after a million steps: the Gaussian limit allows 5.79 times the published rate.
    steps = 1_000_000
    assert adaptive_choices_epsilon(1e-6, [(0.1 * published(steps, 5.77), steps)]) <= 0.1
    assert adaptive_choices_epsilon(1e-6, [(0.1 * published(steps, 5.80), steps)]) > 0.1
    for width, count in ((1e-5, 10**6), (1e-7, 10**9)):
        limit = gdp_epsilon(width * math.sqrt(count) / 2, 1e-6)
        assert adaptive_choices_epsilon(1e-6, [(width, count)]) == pytest.approx(limit, rel=3e-3)


def test_more_steps_or_larger_ones_never_cost_less() -> None:
    base = adaptive_choices_epsilon(1e-6, [(0.02, 300)])
    assert adaptive_choices_epsilon(1e-6, [(0.02, 301)]) > base
    assert adaptive_choices_epsilon(1e-6, [(0.0201, 300)]) > base
    assert adaptive_choices_epsilon(1e-6, [(0.02, 300)], mu=0.05) > base
    assert adaptive_choices_epsilon(1e-6, [(0.02, 300)], pure=[(0.05, 1)]) > base
    assert adaptive_choices_epsilon(1e-7, [(0.02, 300)]) > base
    counts = [1, 2, 5, 20, 100, 500, 1023, 1024, 1025, 2049, 5000]
    values = [adaptive_choices_epsilon(1e-6, [(0.01, count)]) for count in counts]
    assert values == sorted(values)
    deltas = [adaptive_choices_delta(e, [(0.01, 2000)]) for e in np.linspace(0.0, 2.0, 21)]
    assert deltas == sorted(deltas, reverse=True)


def test_below_the_composition_of_single_step_envelopes() -> None:
    from prv_accountant import PRVAccountant
    from prv_accountant.privacy_random_variables import PrivacyRandomVariable

    steps = 100
    width = published(steps)

    class Envelope(PrivacyRandomVariable):
        """The loss of the pair that dominates every single choice."""

        def pdf(self, t: NDArray[np.float64]) -> NDArray[np.float64]:
            return np.where(np.abs(t) < width, np.exp(t / 2) / (4 * math.sinh(width / 2)), 0.0)

        def cdf(self, t: NDArray[np.float64]) -> NDArray[np.float64]:
            inside = np.clip(t, -width, width)
            return np.expm1((inside + width) / 2) / math.expm1(width)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "assuming that epsilon < eps_max", and its quadrature of a kink
        accountant = PRVAccountant(
            Envelope(), max_self_compositions=steps, eps_error=1e-3, delta_error=1e-9, eps_max=0.6
        )
        low, estimate, _ = accountant.compute_epsilon(delta=1e-6, num_self_compositions=steps)
    assert estimate == pytest.approx(0.2077, abs=1e-3)
    assert adaptive_choices_epsilon(1e-6, [(width, steps)]) < low
    # The same envelope through our own single-step curve and convolution.
    curve = composition._curve(width, 1, 64)
    losses = composition.losses_of_curve(curve, width / 64, width / 64, steps)
    assert composition.Composition.of([losses], width / 64, 0.0).epsilon(1e-6) == pytest.approx(
        estimate, rel=5e-3
    )


def test_loss_distribution_reproduces_the_curve() -> None:
    width, steps, cells = 0.05, 40, 8
    curve = composition._curve(width, steps, cells)
    spacing = width / cells
    part = composition.losses_of_curve(curve, spacing, spacing, 1)
    losses = part.losses(spacing)
    assert 0.0 <= part.masses.sum() + part.lost - 1.0 < 1e-10  # rounding may only add
    assert 0.0 <= part.masses @ np.exp(-losses) + part.lost - 1.0 < 1e-10  # the other input's masses
    for i in range(0, curve.size, 7):
        above = losses > i * spacing
        delta = part.masses[above] @ -np.expm1(i * spacing - losses[above]) + part.lost
        assert curve[i] * (1 - 1e-12) <= delta <= curve[i] * (1 + 1e-9) + 1e-25


def test_coarser_and_finer_settings_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    width, steps = published(3000), 3000
    usual = adaptive_choices_epsilon(1e-6, [(width, steps)])
    for name, value in (("_CELLS", 16), ("_BLOCK", 300), ("_FINENESS", 0.1)):
        with monkeypatch.context() as patch:
            patch.setattr(composition, name, value)
            composition._composition.cache_clear()
            coarse = adaptive_choices_epsilon(1e-6, [(width, steps)])
        composition._composition.cache_clear()
        assert usual < coarse < 1.005 * usual


@pytest.mark.parametrize("epsilon", [0.01, 0.3, 2.0])
def test_no_probability_of_a_response_is_lost_to_rounding(epsilon):
    for count in range(1, 40):
        assert math.fsum(composition.losses_of_responses(epsilon, count, 0.01).masses) >= 1.0
