"""Toeplitz factorizations of the prefix sums, against dense matrices, exact fractions and streams."""

from __future__ import annotations

import itertools
import json
from decimal import Decimal, localcontext
from fractions import Fraction
from importlib import resources

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from scipy.linalg import toeplitz

from discreet.privacy.factorizations import Factorization, buffered, square_root
from tests.privacy.toeplitz import decoder_column, encoder_column

HORIZONS = [1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 16, 17, 33, 100, 257, 600]
MAKERS = [square_root, buffered]


def by_hand(seed: int, rounds: int = 200) -> Factorization:
    """A random member of the family, far from the tuned ones."""
    rng = np.random.default_rng(seed)
    decays = np.sort(1 - 10.0 ** rng.uniform(-4, -0.01, size=1 + seed % 5))
    masses = rng.dirichlet(np.ones(decays.size + 1))[:-1]
    return Factorization(decays, masses * decays, rounds, "by hand")


def all_of_them() -> list[Factorization]:
    tuned = [make(rounds) for make in MAKERS for rounds in HORIZONS]
    return tuned + [by_hand(seed) for seed in range(10)]


def label(factorization: Factorization) -> str:
    return f"{factorization.name}-{factorization.rounds}-{factorization.buffers}"


def lower_triangular(column: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.tril(toeplitz(column))


def direct_column(factorization: Factorization, count: int) -> NDArray[np.float64]:
    """The encoder's coefficients as the definition spells them."""
    later = [
        sum(w * d ** (j - 1) for w, d in zip(factorization.weights, factorization.decays, strict=True))
        for j in range(1, count)
    ]
    return np.array([1.0, *later])


def square_root_column(count: int) -> NDArray[np.float64]:
    return np.cumprod(np.concatenate([[1.0], 1 - 1 / (2 * np.arange(1, count))]))


def square_root_error(rounds: int) -> float:
    """sum_{j<T} (binom(2j, j) / 4^j)^2; for large T, (ln T + gamma + 4 ln 2 - 1 / (4 T)) / pi."""
    if rounds <= 2**16:
        return float(np.sum(square_root_column(rounds) ** 2))
    return float((np.log(rounds) + np.euler_gamma + 4 * np.log(2) - 1 / (4 * rounds)) / np.pi)


@pytest.mark.parametrize("factorization", all_of_them(), ids=label)
def test_coefficients_and_norms_are_those_of_the_dense_matrices(factorization: Factorization) -> None:
    rounds = factorization.rounds
    column = direct_column(factorization, rounds)
    np.testing.assert_allclose(encoder_column(factorization, rounds), column, rtol=1e-12)

    encoder = lower_triangular(column)
    decoder = np.linalg.solve(encoder.T, np.tril(np.ones((rounds, rounds))).T).T
    np.testing.assert_allclose(decoder_column(factorization, rounds), decoder[:, 0], rtol=0, atol=1e-10)
    product = lower_triangular(decoder_column(factorization, rounds)) @ encoder
    np.testing.assert_allclose(product, np.tril(np.ones((rounds, rounds))), rtol=0, atol=1e-10)

    longest = np.linalg.norm(encoder, axis=0).max()
    assert longest <= factorization.column_norm <= longest * (1 + 1e-11)
    times = np.arange(1, rounds + 1)
    rows = np.linalg.norm(decoder, axis=1)
    np.testing.assert_allclose(factorization.row_norm(times), rows, rtol=1e-10)
    assert np.all(np.diff(factorization.row_norm(times)) >= 0)
    assert factorization.row_norm(rounds) == factorization.row_norm(times)[-1]
    assert factorization.worst_error == pytest.approx(longest * rows.max(), rel=1e-10)


@pytest.mark.parametrize("factorization", [square_root(40), buffered(40), by_hand(4, 40)], ids=label)
def test_column_norm_is_never_below_the_exact_one(factorization: Factorization) -> None:
    weights = [Fraction(float(w)) for w in factorization.weights]
    decays = [Fraction(float(d)) for d in factorization.decays]
    tail = (sum(w * d**j for w, d in zip(weights, decays, strict=True)) for j in range(39))
    exact = 1 + sum(c * c for c in tail)
    assert exact <= Fraction(factorization.column_norm) ** 2 <= exact * (1 + Fraction(1, 10**11))


@pytest.mark.parametrize("rounds", [2**10, 2**17, 2**20, 2**24])
@pytest.mark.parametrize("make", MAKERS)
def test_column_norm_is_never_below_the_exact_one_at_long_horizons(make, rounds: int) -> None:
    factorization = make(rounds)
    terms = list(zip(factorization.weights.tolist(), factorization.decays.tolist(), strict=True))
    with localcontext() as context:
        context.prec = 60
        exact = Decimal(1)
        for (v, c), (w, d) in itertools.product(terms, repeat=2):
            both = Decimal(c) * Decimal(d)
            exact += Decimal(v) * Decimal(w) * (1 - both ** (rounds - 1)) / (1 - both)
        ratio = Decimal(factorization.column_norm) / exact.sqrt()
        assert 1 <= ratio <= 1 + Decimal("2e-12")


@pytest.mark.parametrize("rounds", [2**20, 2**24])
@pytest.mark.parametrize("make", MAKERS)
def test_row_norm_at_long_horizons_is_the_energy_of_the_inverse(make, rounds: int) -> None:
    # b_j solves x_{j+1} = M x_j with M the decoder's own recursion: its energy up to T follows by squaring
    # M about log2(T) times, without roots of polynomials or closed forms. x = (g, prefix).
    factorization = make(rounds)
    size = factorization.buffers
    step = np.zeros((size + 1, size + 1))
    step[:size, :size] = np.diag(factorization.decays) - factorization.weights
    step[size, :size] = -factorization.weights
    step[size, size] = 1
    reading = np.zeros(size + 1)
    reading[size] = 1
    energy, power, done = np.outer(reading, reading), step, 1
    while done < rounds:
        energy, power, done = energy + power.T @ energy @ power, power @ power, 2 * done
    assert done == rounds
    after_an_impulse = np.ones(size + 1)
    expected = np.sqrt(after_an_impulse @ energy @ after_an_impulse)
    assert factorization.row_norm(rounds) == pytest.approx(expected, rel=1e-7)


MANY_HORIZONS = sorted({*range(1, 200), *(int(2**power) for power in np.arange(7, 24.01, 0.1))})


def test_square_root_error_is_the_optimum_to_one_in_ten_thousand_at_every_horizon() -> None:
    excess = [square_root(rounds).worst_error / square_root_error(rounds) - 1 for rounds in MANY_HORIZONS]
    assert min(excess) >= -1e-9  # nothing Toeplitz beats the square root
    assert max(excess) <= 1e-4


def test_buffered_error_is_within_one_percent_of_the_optimum_at_every_horizon() -> None:
    excess = [buffered(rounds).worst_error / square_root_error(rounds) - 1 for rounds in MANY_HORIZONS]
    assert min(excess) >= -1e-9
    assert max(excess) <= 0.0101


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize(
    ("rounds", "error", "words"),
    [
        (0, ValueError, "rounds=0 .* at least 1"),
        (-3, ValueError, "rounds=-3 .* at least 1"),
        (2.0, TypeError, "rounds must be a whole number"),
        (True, TypeError, "rounds must be a whole number"),
        (2**41, ValueError, f"rounds={2**41} is too large"),
    ],
)
def test_bad_horizons_are_refused(make, rounds, error, words) -> None:
    with pytest.raises(error, match=words):
        make(rounds)


def test_buffered_says_what_to_use_beyond_its_table() -> None:
    with pytest.raises(ValueError, match=r"table ends at 16777216, square_root"):
        buffered(2**24 + 1)


@pytest.mark.parametrize(
    ("decays", "weights", "words"),
    [
        ([0.5, 0.4], [0.1, 0.1], "decays=.* increase"),
        ([0.5, 0.5], [0.1, 0.1], "decays=.* increase"),
        ([0.0, 0.5], [0.1, 0.1], "between 0 and 1"),
        ([0.5, 1.0], [0.1, 0.1], "between 0 and 1"),
        ([0.5, np.nan], [0.1, 0.1], r"decays\[1\]"),
        ([0.4, 0.5], [0.1, 0.0], "weights=.* positive"),
        ([0.4, 0.5], [0.1], "weights has 1 entries; 2 expected"),
        ([0.4, 0.5], [0.2, 0.3], r"sum\(weights / decays\)=1.1 must be less than 1"),
    ],
)
def test_bad_parameters_are_refused(decays, weights, words) -> None:
    with pytest.raises(ValueError, match=words):
        Factorization(np.array(decays), np.array(weights), 10, "bad")


def decode(factorization: Factorization, released: NDArray[np.float64]) -> NDArray[np.float64]:
    """The streaming decoder of the module's docstring."""
    decays, weights = factorization.decays[:, None], factorization.weights
    memory = np.zeros((factorization.buffers, released.shape[1]))
    prefix = np.zeros(released.shape[1])
    out = np.empty_like(released)
    for t, y in enumerate(released):
        x_hat = y - weights @ memory
        memory = decays * memory + x_hat
        prefix = prefix + x_hat
        out[t] = prefix
    return out


@pytest.mark.parametrize("make", MAKERS)
def test_noise_of_the_prefix_sums_has_the_stated_spread(make) -> None:
    rounds, copies, sigma = 3000, 4000, 2.5
    factorization = make(rounds)
    noise = np.random.default_rng(3).normal(scale=sigma, size=(rounds, copies))
    decoded = decode(factorization, noise)
    # The sum of squares over its variance is chi-square with one degree of freedom per copy.
    low, high = stats.chi2.ppf([1e-8, 1 - 1e-8], df=copies)
    for t in (1, 2, 10, 100, 1000, rounds):
        statistic = np.sum(decoded[t - 1] ** 2) / (sigma * factorization.row_norm(t)) ** 2
        assert low < statistic < high, t


def encode(factorization: Factorization, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The streaming encoder of the module's docstring, one round after the other."""
    decays, weights = factorization.decays[:, None], factorization.weights
    memory = np.zeros((factorization.buffers, values.shape[1]))
    out = np.empty_like(values)
    for t, x in enumerate(values):
        out[t] = x + weights @ memory
        memory = decays * memory + x
    return out


@pytest.mark.parametrize("factorization", all_of_them(), ids=label)
def test_both_sides_are_positive_and_never_grow(factorization: Factorization) -> None:
    count = factorization.rounds
    for column in (encoder_column(factorization, count), decoder_column(factorization, count)):
        assert np.all(column > 0)
        assert np.all(np.diff(column) <= 1e-15)


@pytest.mark.parametrize("rounds", range(1, 10))
def test_square_root_is_exact_for_a_few_rounds(rounds: int) -> None:
    factorization = square_root(rounds)
    assert factorization.buffers == rounds // 2
    np.testing.assert_allclose(encoder_column(factorization, rounds), square_root_column(rounds), rtol=1e-13)
    np.testing.assert_allclose(decoder_column(factorization, rounds), square_root_column(rounds), rtol=1e-13)
    assert factorization.worst_error == pytest.approx(square_root_error(rounds), rel=1e-11)


def test_square_root_coefficients_are_close_to_the_binomial_ones() -> None:
    for rounds in (50, 1024, 2**17):
        ratio = encoder_column(square_root(rounds), rounds) / square_root_column(rounds)
        np.testing.assert_allclose(ratio, 1, atol=0.02)
        np.testing.assert_allclose(ratio[:3], 1, atol=1e-12)


@pytest.mark.parametrize(("rounds", "theory"), [(1024, 3.27), (65536, 4.60)])
def test_errors_known_from_the_literature(rounds: int, theory: float) -> None:
    assert 1.0663 + np.log(rounds) / np.pi == pytest.approx(theory, abs=0.005)
    assert square_root(rounds).worst_error == pytest.approx(theory, rel=0.01)
    assert buffered(rounds).worst_error == pytest.approx(theory, rel=0.02)


def test_tabulated_constants_are_minimizers() -> None:
    text = resources.files("discreet.privacy").joinpath("blt_constants.json").read_text("utf-8")
    table = json.loads(text)
    assert [int(horizon) for horizon in table] == [2**power for power in range(4, 25)]
    for horizon, entry in table.items():
        decays, weights = np.array(entry["decays"]), np.array(entry["weights"])
        here = Factorization(decays, weights, int(horizon), "here").worst_error
        assert buffered(int(horizon)).worst_error == pytest.approx(here, rel=1e-12)
        for k, factor in itertools.product(range(decays.size), (0.99, 1.01)):
            moved = np.where(np.arange(decays.size) == k, factor, 1.0)
            assert Factorization(decays, weights * moved, int(horizon), "near").worst_error > here
            assert Factorization(1 - (1 - decays) * moved, weights, int(horizon), "near").worst_error > here


@pytest.mark.parametrize("make", MAKERS)
def test_encoding_then_decoding_returns_the_prefix_sums_after_many_rounds(make) -> None:
    rounds = 2**17
    values = np.random.default_rng(1).uniform(0, 1, size=(rounds, 2))
    values[:, 1] -= 0.5  # a sum that wanders around zero, where errors have nothing to hide behind
    exact = np.cumsum(values, axis=0)
    decoded = decode(make(rounds), encode(make(rounds), values))
    np.testing.assert_allclose(decoded[:, 0], exact[:, 0], rtol=1e-9)
    np.testing.assert_allclose(decoded[:, 1], exact[:, 1], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("make", MAKERS)
def test_streams_agree_with_the_coefficients(make) -> None:
    factorization = make(500)
    values = np.random.default_rng(2).normal(size=(500, 3))
    encoder = lower_triangular(encoder_column(factorization, 500))
    decoder = lower_triangular(decoder_column(factorization, 500))
    np.testing.assert_allclose(encode(factorization, values), encoder @ values, atol=1e-11)
    np.testing.assert_allclose(decode(factorization, values), decoder @ values, atol=1e-11)
