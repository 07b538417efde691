"""What loops compute, for whole arrays in NumPy and bit by bit the same: for work that waits for no compiler.

Each function stands for the loop of the same name. Constants of the two are the same objects.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Steps = NDArray[np.int64]

# --- noise: `discreet.privacy.samplers` says what these are -------------------------------------------------

REJECTED, UNDECIDED = 1, 2
LOW = np.uint64((1 << 22) - 1)
U22, U23, U24, ONE = (np.uint64(v) for v in (22, 23, 24, 1))
HALF_STEP = 2.0**-33
MARGIN = 2.0**-8
SMALL, NEAR, ROUND = 2.0**40, 2.0**-10, 1.5 * 2.0**52
# Below it a test is passed whatever the exponent, which is less than 0.01: 0.98 < exp(-0.01).
SURE = np.uint64(int(0.98 * 2**40)) << U24
_LIMIT = 1 << 62


def survival(exponent: Any) -> Any:
    """exp(-exponent) for exponents below 0.01, times 2^40, to within 2^-9."""
    e = exponent
    series = 1.0 - e * (1.0 - e / 2.0 * (1.0 - e / 3.0 * (1.0 - e / 4.0 * (1.0 - e / 5.0))))
    return series * 1099511627776.0


def attempt_noise(
    words: NDArray[np.uint64],
    cells: NDArray[np.uint64],
    _guide: NDArray[np.uint16],
    gaussian: bool,
    coarser: int,
    out: Steps,
    places: Steps,
    status: NDArray[np.uint8],
) -> int:
    """One attempt per output from two words each; returns how many failed: their ``places``, and why."""
    first, second = words[0::2], words[1::2]
    cell = np.searchsorted(cells, first, side="left")
    low, half = (second & LOW).astype(np.int64), ((second >> U22) & ONE).astype(np.int64)
    size = (((cell << 22) + low) << 1) + half
    out[:] = (np.where((second >> U23) & ONE, ~size, size) + coarser) >> coarser
    why = np.where(cells[cell] == first, UNDECIDED, 0).astype(np.uint8)
    tested = np.flatnonzero((why == 0) & (second >= SURE))
    test = (second[tested] >> U24).astype(np.float64)
    start = (low[tested].astype(np.float64) + 0.5 * half[tested].astype(np.float64)) * 2.0**-32
    end = start + HALF_STEP
    if gaussian:
        corner = cell[tested].astype(np.float64) * 2.0**-10
        sure = survival(corner * end + 0.5 * end * end)
        hope = survival(corner * start + 0.5 * start * start)
    else:
        sure, hope = survival(end), survival(start)
    not_kept = np.where(test >= hope + MARGIN, REJECTED, UNDECIDED)
    why[tested] = np.where(test + 1.0 <= sure - MARGIN, 0, not_kept)
    failed = np.flatnonzero(why)
    places[: failed.size], status[: failed.size] = failed, why[failed]
    return int(failed.size)


def to_grid(values: Floats, mantissa: int, exponent: int, out: Steps) -> None:
    """``out = trunc(values / (mantissa * 2^exponent))`` exactly, saturated at +-2^62."""
    inverse = math.ldexp(1.0 / mantissa, -exponent) if abs(exponent) < 900 else math.inf
    with np.errstate(invalid="ignore", over="ignore"):
        quotient = values * inverse
        beyond = np.abs(quotient - ((quotient + ROUND) - ROUND))
        small = np.abs(quotient)
        plain = (small < 0.5) | ((small < SMALL) & (beyond > NEAR))
    out[plain] = quotient[plain].astype(np.int64)
    step = mantissa * Fraction(2) ** exponent
    for place in np.flatnonzero(~plain).tolist():
        out[place] = max(-_LIMIT, min(_LIMIT, math.trunc(Fraction(values[place].item()) / step)))


# --- running sums -----------------------------------------------------------------------------------------


def encode(buffers: Floats, decays: Floats, weights: Floats, vector: Floats, out: Floats) -> None:
    """``out = vector + sum(weights * buffers)``, then ``buffers = decays * buffers + vector``."""
    out[:] = vector
    for buffer, weight in zip(buffers, weights, strict=True):
        out += weight * buffer
    buffers *= decays[:, None]
    buffers += vector


def decode(
    buffers: Floats, decays: Floats, weights: Floats, released: Floats, prefix: Floats, fresh: Floats
) -> None:
    """Invert `encode` on a released value and add what it says about this step to ``prefix``."""
    fresh[:] = released
    for buffer, weight in zip(buffers, weights, strict=True):
        fresh -= weight * buffer
    prefix += fresh
    buffers *= decays[:, None]
    buffers += fresh


# --- drawing sets -----------------------------------------------------------------------------------------

_NEGLIGIBLE = -50.0
_WHOLE = 6755399441055744.0  # 1.5 * 2^52
_FACTORIALS = (
    6227020800.0,
    479001600.0,
    39916800.0,
    3628800.0,
    362880.0,
    40320.0,
    5040.0,
    720.0,
    120.0,
    24.0,
    6.0,
    2.0,
    1.0,
    1.0,
)


def exponentials(arguments: Floats) -> Floats:
    """``exp`` of arguments up to 700, as `backends.numba.vectors` has it."""
    given = np.maximum(arguments, -708.0)
    shifted = given * 1.4426950408889634 + _WHOLE
    whole = shifted - _WHOLE
    rest = (given - whole * 0.6931471803691238) - whole * 1.9082149292705877e-10
    square = rest * rest
    odd, even = (np.full(rest.shape, 1.0 / last) for last in _FACTORIALS[:2])
    for after, before in zip(_FACTORIALS[2::2], _FACTORIALS[3::2], strict=True):
        odd, even = odd * square + 1.0 / after, even * square + 1.0 / before
    series = even + rest * odd
    series[arguments < -708.0] = 0.0
    return np.asarray(series * ((shifted.view(np.int64) + 1023) << 52).view(np.float64))


def draw_ordered(scores: Floats, rate: float, coins: Floats, out: NDArray[np.int32]) -> None:
    """`backends.selectors.draw_ordered`: one item per row, with weights exp(rate * score), none twice."""
    items = scores.shape[1]
    left = np.full(8 * ((items + 7) // 8), -np.inf)
    for i, row in enumerate(scores):
        left[:items] = row
        left[out[:i]] = -np.inf
        arguments = (rate * (left - left.max())).reshape(-1, 8)
        arguments[arguments < _NEGLIGIBLE] = -np.inf
        candidates = np.flatnonzero(arguments.max(axis=1) >= _NEGLIGIBLE)
        weights = exponentials(arguments[candidates])
        # In the same order, as other sums would be rounded otherwise.
        halves = weights[:, :4] + weights[:, 4:]
        quarters = halves[:, :2] + halves[:, 2:]
        sums = quarters[:, 0] + quarters[:, 1]
        target = coins[i] * np.add.accumulate(sums)[-1]
        rests = np.subtract.accumulate(np.concatenate(([target], sums)))
        place = int(np.append(np.flatnonzero(rests[1:-1] < 0.0), sums.size - 1)[0])
        within = np.flatnonzero(weights[place])
        passed = np.subtract.accumulate(np.concatenate(([rests[place]], weights[place, within])))[1:] < 0.0
        out[i] = 8 * candidates[place] + within[int(np.argmax(passed)) if passed.any() else -1]
