"""Factorizations of the prefix sum: Toeplitz ones with few buffers, and the binary tree.

The prefix sums of a stream x are A x, with A the lower-triangular matrix of ones. A factorization A = B C
releases y = C x + w with independent Gaussian noise w of standard deviation sigma, and computes every prefix
sum as B y = A x + B w. Sensitivity grows with the columns of the encoder C, error with the rows of the
decoder B; the product of the two norms measures the quality of a factorization.

In `Factorization` C and B are Toeplitz (entry (t, s) depends on t - s), and the encoder's coefficients are

    c_0 = 1,    c_j = sum_k weights[k] * decays[k]**(j - 1)    for j >= 1,

so that K buffers of one vector each are enough to run it. One round of the encoder, from h = 0:

    encoded = x + sum_k weights[k] * h[k];        h[k] = decays[k] * h[k] + x        for every k

and of the decoder, from g = 0 and prefix = 0:

    x_hat = y - sum_k weights[k] * g[k];          g[k] = decays[k] * g[k] + x_hat    for every k
    prefix = prefix + x_hat

The same decoder applied to w alone gives the noise of the prefix sums.

In `BinaryTree` the rows of C are blocks of 2^j rounds, and B adds up the blocks that form a prefix.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property, lru_cache
from importlib import resources
from typing import overload

import numpy as np
from numpy.typing import NDArray

from ..core import checks
from .conversions import root_above, rounded_up

Vector = NDArray[np.float64]

# Factor by which norms are rounded up; it exceeds the error of their closed form.
_ROUND_UP = 1 + 1e-12
_MOST_COLUMNS = 1 << 16  # that are added up individually

# The quadrature of square_root: its largest free rate, its smallest rate times the horizon, and the widest
# step between log rates. Together they keep the error within 1e-4 of the exact factorization.
_LARGEST_RATE = 0.3
_SMALLEST_RATE_BY_ROUNDS = 1.4
_WIDEST_STEP = 1.8
_MOST_ROUNDS = 2**40  # beyond this, 1 - decay has too few digits left


@dataclass(frozen=True, eq=False)
class Factorization:
    """A Toeplitz factorization of the prefix sums that runs in ``len(decays)`` buffers.

    With c_0 = 1 and c_j = sum_k weights[k] * decays[k]**(j-1), for ``rounds`` rounds. Decays lie strictly
    between 0 and 1 and increase; weights are positive; sum(weights / decays) < 1. Then c is a mixture of
    decaying powers, and so is the inverse of C: both run without growing rounding errors, and the
    coefficients of B are positive and decrease.

    Guarantee: if one person changes one x_t by at most Delta in Euclidean norm, C x changes by at most
    ``column_norm * Delta`` (the first column is the longest). Noise of standard deviation
    sigma = column_norm * Delta / mu per coordinate makes the whole sequence y mu-GDP, also when later x_t
    depend on earlier y_t, because C is lower triangular (Denisov et al. 2022). The prefix sum of t rounds
    then carries noise of standard deviation ``sigma * row_norm(t)`` per coordinate.
    Numerics: norms are sums of positive closed-form terms in float64; ``column_norm`` is rounded up.
    The form is that of Dvijotham et al. 2024 (buffered linear Toeplitz).

    >>> decays, weights = np.array([0.6, 0.95]), np.array([0.25, 0.2])
    >>> two = Factorization(decays, weights, rounds=100, name="by hand")
    >>> round(two.worst_error, 3)
    2.966
    """

    decays: Vector
    weights: Vector
    rounds: int
    name: str

    uses = 1  # releases that one vector enters

    def __post_init__(self) -> None:
        decays = checks.vector("decays", self.decays).copy()
        weights = checks.vector("weights", self.weights, length=decays.size).copy()
        rounds = checks.whole("rounds", self.rounds, at_least=1)
        if decays.size and not (decays[0] > 0 and decays[-1] < 1 and np.all(np.diff(decays) > 0)):
            raise ValueError(f"decays={decays} must increase strictly and lie strictly between 0 and 1")
        if np.any(weights <= 0):
            raise ValueError(f"weights={weights} must be positive; leave out a buffer that has no weight")
        mass = float(np.sum(weights / decays))
        if mass >= 1:
            raise ValueError(
                f"sum(weights / decays)={mass:g} must be less than 1; scale weights={weights} down"
            )
        for array in (decays, weights):
            array.setflags(write=False)
        object.__setattr__(self, "decays", decays)
        object.__setattr__(self, "weights", weights)
        object.__setattr__(self, "rounds", rounds)

    @property
    def buffers(self) -> int:
        """Number of vectors that the encoder, and the decoder, keep between rounds."""
        return int(self.decays.size)

    @cached_property
    def column_norm(self) -> float:
        """Euclidean norm of C's first column over ``rounds`` rounds, never understated."""
        squares = 1 + _energy(1 - self.decays, self.weights, np.array(self.rounds - 1.0))
        return float(np.sqrt(squares)) * _ROUND_UP

    def participation_norm(self, times: int, apart: int = 1) -> float:
        """Largest Euclidean norm of a sum of ``times`` columns of C that are ``apart`` steps apart or more.

        It is attained by the columns 0, apart, 2 apart, ... Proof. The square is the sum, over all pairs of
        the columns, of their products, and that of columns s <= t is the sum over j < rounds - t of c_j c_{j
        + t - s}. No coefficient is negative and none is larger than the one before, so a product grows when t
        falls (more terms) and when t - s falls (larger terms). In any other choice the i-th column is no
        earlier than i * apart, and the i-th and j-th are no closer than (j - i) * apart: no product is
        larger, and fewer columns have fewer products. See `Participation` for why a person's vectors move the
        encoded stream by no more than this.

        Numerics: positive closed-form terms, rounded up. More than 65,536 columns are taken in groups of that
        many, whose norms are added: an upper bound by the triangle inequality.

        >>> one = square_root(35)
        >>> [round(one.participation_norm(b) / one.column_norm, 2) for b in (1, 2, 4, 8)]
        [1.0, 1.85, 3.42, 6.28]
        >>> [round(one.participation_norm(b, 35 // b) / one.column_norm, 2) for b in (2, 4, 8)]
        [1.56, 2.67, 4.88]
        """
        apart = checks.whole("apart", apart, at_least=1)
        most = 1 + (self.rounds - 1) // apart
        times = min(checks.whole("times", times, at_least=1, at_most=checks.ANY), most)
        if times == 1:
            return self.column_norm
        number = min(times, _MOST_COLUMNS)
        # After the m-th column starts, the sum of the columns so far is again a mixture of decaying powers.
        place, logs = np.arange(number) * float(apart), np.log(self.decays)
        amplitudes = self.weights * np.cumsum(np.exp(place[:, None] * logs), axis=0)
        before = np.exp((place[1:, None] - 1.0) * logs) @ self.weights
        first = np.concatenate([[1.0], 1.0 + np.cumsum(before)])
        lengths = np.full(number, apart - 1.0)
        lengths[-1] = self.rounds - 1.0 - place[-1]
        squares = float(np.sum(first**2 + _energy(1 - self.decays, amplitudes.T, lengths)))
        return float(np.sqrt(squares)) * (_ROUND_UP + number * 2.0**-50) * -(-times // number)

    @overload
    def row_norm(self, t: int) -> float: ...
    @overload
    def row_norm(self, t: NDArray[np.integer] | list[int] | range) -> Vector: ...
    def row_norm(self, t: int | NDArray[np.integer] | list[int] | range) -> float | Vector:
        """Euclidean norm of row t of B: the noise of the t-th prefix sum, in units of sigma.

        ``t`` counts from 1 to ``rounds`` and may be an array; the norm never decreases in t.
        """
        steps = np.asarray(t)
        if not np.issubdtype(steps.dtype, np.integer):
            raise TypeError(f"t must be whole numbers, got {checks.shown(t)}")
        if steps.size and not (steps.min() >= 1 and steps.max() <= self.rounds):
            raise ValueError(f"t={t} must lie between 1 and rounds={self.rounds}")
        norms: Vector = np.sqrt(_energy(*self._decoder, steps.astype(np.float64)))
        return norms if norms.ndim else float(norms)

    @cached_property
    def worst_error(self) -> float:
        """Largest noise of any prefix sum, in units of Delta / mu: ``column_norm * row_norm(rounds)``."""
        return self.column_norm * self.row_norm(self.rounds)

    @cached_property
    def mean_error(self) -> float:
        """The average error over the rounds, slightly overstated: the error never falls with the rounds."""
        rounds = self.rounds
        stops = np.unique(np.ceil(np.geomspace(1.0, rounds, 200)).astype(np.int64).clip(1, rounds))
        lengths = np.diff(np.concatenate(([0], stops)))
        return self.column_norm * (float((lengths * self.row_norm(stops)).sum()) / rounds)

    @property
    def most_draws(self) -> int:
        """The most noise vectors that enter one prefix sum."""
        return self.rounds

    @property
    def lasts(self) -> Vector:
        """Upper bounds of the sum of the weights with which vectors are in each of the encoder's buffers."""
        return 1.0 / np.maximum(1.0 - self.decays, 1.0 / self.rounds)

    @cached_property
    def _decoder(self) -> tuple[Vector, Vector]:
        """(gaps, amplitudes) with b_j = sum_i amplitudes[i] * (1 - gaps[i])**j.

        In u = 1/z the encoder is F(u) = 1 + sum_k weights[k] / (u - decays[k]). One root of F lies below each
        decay and above the next smaller one (or 0); these roots are the decays of C^{-1}, and 1 is added for
        the running sum. All is computed in gaps = 1 - decay, and each root as its distance from its decay,
        because for long horizons the decays differ from 1 by less than 1e-7.
        """
        gaps, weights = 1 - self.decays[::-1], self.weights[::-1]
        apart = gaps - gaps[:, None]
        low, high = np.zeros_like(gaps), np.append(gaps[1:], 1.0)[: gaps.size] - gaps
        with np.errstate(divide="ignore"):  # a root may coincide with the next decay, to the last digit
            for _ in range(80):
                middle = (low + high) / 2
                before = 1 + np.sum(weights / (apart - middle[:, None]), axis=1) < 0
                low, high = np.where(before, middle, low), np.where(before, high, middle)
            slopes = np.sum(weights / (apart - high[:, None]) ** 2, axis=1)
        roots = np.minimum(gaps + high, np.nextafter(1.0, 0.0))
        lasting = 1 / (1 + np.sum(weights / gaps))
        return np.append(roots, 0.0), np.append(1 / (roots * slopes), lasting)


@lru_cache(maxsize=64)
def factorization(method: str, rounds: int) -> Factorization:
    """The Toeplitz factorization of a method, "sqrt" or "blt"."""
    return square_root(rounds) if method == "sqrt" else buffered(rounds)


def square_root(rounds: int) -> Factorization:
    """The square-root factorization C = B = A^{1/2}, in O(log rounds) buffers.

    Its coefficients binom(2j, j) / 4^j (Fichtenberger, Henzinger and Upadhyay 2023) give the smallest
    ``worst_error`` of all lower-triangular Toeplitz factorizations (Dvijotham et al. 2024): sum_{j<T} c_j^2,
    about 1.0663 + ln(T) / pi. Here they are

        c_j = (1/pi) * integral over rates r > 0 of exp(-r j) / sqrt(exp(r) - 1) dr

    by the trapezoidal rule in ln(r), whose error falls exponentially in 1/step. Rates too small to matter
    within ``rounds`` are merged into one that keeps their mass and mean; one more decay replaces the large
    rates and makes c_1 and c_2 exact. The error exceeds the optimum by a fraction of less than 1e-4, with 6 /
    9 / 10 / 12 buffers at 2^8 / 2^16 / 2^20 / 2^24 rounds; norms are computed from the coefficients as built.
    Up to 9 rounds all is exact: Gaussian quadrature with K nodes reproduces c_0, ..., c_{2K}.

    >>> round(square_root(1_000_000).worst_error, 2), square_root(1_000_000).buffers
    (5.46, 10)
    """
    rounds = checks.whole("rounds", rounds, at_least=1, at_most=_MOST_ROUNDS)
    smallest = _SMALLEST_RATE_BY_ROUNDS / rounds
    span = np.log(_LARGEST_RATE / smallest)
    steps = int(np.ceil(span / _WIDEST_STEP))
    nodes = rounds // 2
    if nodes <= steps + 3:
        angles = np.pi * (np.arange(nodes, 0, -1) - 0.5) / (2 * nodes + 1)
        decays = np.cos(angles) ** 2
        return Factorization(decays, 2 * decays / (2 * nodes + 1), rounds, "square_root")
    step = span / steps
    rates = smallest * np.exp(step * np.arange(steps + 1))
    masses = step / np.pi * rates / np.sqrt(np.expm1(rates))
    # Below the smallest rate the masses are step/pi * sqrt(rate): two geometric series, in closed form.
    merged_rate = smallest * np.expm1(step / 2) / np.expm1(3 * step / 2)
    merged_mass = step / np.pi * np.sqrt(smallest) / np.expm1(step / 2)
    decays = np.exp(-np.append(merged_rate, rates)[::-1])
    weights = np.append(merged_mass, masses)[::-1] * decays
    quick_weight = 1 / 2 - np.sum(weights)
    quick_decay = (3 / 8 - np.sum(weights * decays)) / quick_weight
    return Factorization(
        np.append(quick_decay, decays), np.append(quick_weight, weights), rounds, "square_root"
    )


def buffered(rounds: int) -> Factorization:
    """A factorization in at most 6 buffers whose worst error is within about 1 % of the square root's.

    Decays and weights are tabulated minimizers of ``worst_error`` at powers of two (by the method of
    Dvijotham et al. 2024; ``tools/make_blt_constants.py`` computed the numbers). Between two powers the
    better neighbour is taken, with its norms at ``rounds``. Up to 5 rounds the square root itself needs no
    more buffers.

    >>> fewer = buffered(1_000_000)
    >>> fewer.buffers, round(fewer.worst_error, 2)
    (5, 5.49)
    """
    table, longest = _tabulated(), longest_buffered()
    rounds = checks.whole("rounds", rounds, at_least=1)
    if rounds > longest:
        raise ValueError(
            f"rounds={rounds} is too large; the table ends at {longest}, square_root(rounds) goes further"
        )
    if rounds <= 5:
        short = square_root(rounds)
        return Factorization(short.decays, short.weights, rounds, "buffered")
    above = min(horizon for horizon in table if horizon >= rounds)
    neighbours = [horizon for horizon in (above // 2, above) if horizon in table]
    candidates = [Factorization(*table[horizon], rounds, "buffered") for horizon in neighbours]
    return min(candidates, key=lambda candidate: candidate.worst_error)


def longest_buffered() -> int:
    """The most rounds for which `buffered` is tabulated."""
    return max(_tabulated())


@cache
def _tabulated() -> dict[int, tuple[Vector, Vector]]:
    """Horizon -> (decays, weights)."""
    text = resources.files("discreet.privacy").joinpath("blt_constants.json").read_text("utf-8")
    return {
        int(horizon): (np.array(entry["decays"]), np.array(entry["weights"]))
        for horizon, entry in json.loads(text).items()
    }


def tree_levels(rounds: int) -> int:
    """Levels of the tree that every prefix up to ``rounds`` can be built from: ceil(log2 rounds), at least 1.

    A sum over all of 2^m rounds is the sum of its two halves, so the root is never released; that is one
    level less than Algorithm 4 of paper 001 pays for. (Paper 004 counts log2 T.)

    >>> [tree_levels(rounds) for rounds in (1, 2, 3, 4, 1000, 1024, 1025)]
    [1, 1, 2, 2, 10, 10, 11]
    """
    return max(1, (checks.whole("rounds", rounds, at_least=1) - 1).bit_length())


@dataclass(frozen=True)
class BinaryTree:
    """Each finished block of 2^level vectors is released once, and a prefix is the sum of a few blocks.

    With ``variance_reduction`` each block is combined with its two halves, weighted by their variances
    (Honaker 2015, the online form). Members have the same meaning as in `Factorization`.
    """

    rounds: int
    variance_reduction: bool = False

    column_norm = 1.0  # of each level's blocks on their own

    @property
    def levels(self) -> int:
        return tree_levels(self.rounds)

    @property
    def uses(self) -> int:
        """How many releases one vector enters: a block of each level."""
        return self.levels

    @cached_property
    def shares(self) -> Vector:
        """The weight of a block's own release against the estimate from its halves, by level from 1 on."""
        shares, variance = [], 1.0
        for _ in range(self.levels):
            halves = variance + variance
            shares.append(halves / (halves + 1.0))
            variance = shares[-1] * shares[-1] + (1.0 - shares[-1]) ** 2 * halves
        return np.array(shares)

    @cached_property
    def _variances(self) -> list[float]:
        """Variance of a released block for each level, in units of one draw's."""
        variances = [1.0]
        for _ in range(self.levels):
            halves = 2.0 * variances[-1]
            variances.append(halves / (halves + 1.0) if self.variance_reduction else 1.0)
        return variances

    def participation_norm(self, times: int, apart: int = 1) -> float:
        """Largest norm of the vector of how often a person is in each block, rounded up."""
        return rounded_up(root_above(Fraction(self.participation_square(times, apart))))

    def participation_square(self, times: int, apart: int = 1) -> int:
        """Largest squared norm of a sum of ``times`` columns of C that are ``apart`` or more from each other.

        A row of C is a block, with 1 for each of its vectors, so this is the sum over all blocks of the
        square of the number of the person's vectors in the block. A block of 2^j vectors holds at most m of
        them, 2^j / apart rounded up. A sum of squares of numbers up to m with a given total is largest when
        all nonzero ones but one are m, which gives each level's part. With ``apart=1`` the first vectors of a
        stream attain it on all levels at once; otherwise it is an upper bound.

        >>> [BinaryTree(8).participation_square(times) for times in (1, 2, 4)]
        [3, 10, 28]
        """
        times, total = min(times, 1 + (self.rounds - 1) // apart), 0
        for level in range(self.levels):
            most = min(times, -(-(1 << level) // apart))
            full, rest = divmod(times, most)
            total += full * most**2 + rest**2
        return total

    def draws(self, step: int) -> int:
        """The number of blocks in the sum after ``step`` vectors."""
        return 2 if step == 1 << self.levels else int(step).bit_count()

    def row_norm(self, step: int) -> float:
        if step == 1 << self.levels:  # two blocks of the top level
            return math.sqrt(2.0 * self._variances[self.levels - 1])
        return math.sqrt(sum(self._variances[level] for level in range(self.levels) if step >> level & 1))

    @property
    def worst_error(self) -> float:
        halves = 2.0 * self._variances[self.levels - 1]  # the two blocks of a full tree's sum
        return math.sqrt(self.levels * max(halves, sum(self._variances[: self.levels])))

    @property
    def mean_error(self) -> float:
        # Over T + 1 draws, the first of an empty prefix: at most half of the numbers below T have any given
        # bit; the sum over a full tree takes two blocks.
        total = sum(variance / 2.0 for variance in self._variances[: self.levels])
        return math.sqrt(self.levels * (total + 2.0 / (self.rounds + 1)))

    @property
    def most_draws(self) -> int:
        """One block per level, or the two halves of a full tree."""
        return max(2 if self.rounds == 2 else 1, self.levels)

    @property
    def mean_draws(self) -> float:
        """Upper bound of the mean number of blocks in the sums of rounds 0 to ``rounds`` - 1."""
        return tree_levels(max(1, self.rounds - 1)) / 2.0 + 2.0 / self.rounds


def _energy(gaps: Vector, amplitudes: Vector, steps: Vector) -> Vector:
    """sum over j < steps of (sum_i amplitudes[i] * (1 - gaps[i])**j)**2, for each entry of ``steps``."""
    logs = np.log1p(-gaps)
    total = np.zeros_like(steps)
    for i in range(gaps.size):
        for k in range(i + 1):
            gap = gaps[i] + gaps[k] - gaps[i] * gaps[k]
            series = -np.expm1(steps * (logs[i] + logs[k])) / gap if gap > 0 else steps
            total = total + (1 if i == k else 2) * amplitudes[i] * amplitudes[k] * series
    return total
