"""Compiled loops for grid noise. Constants and meaning: ``discreet.privacy.samplers``."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ..arrays import (
    HALF_STEP,
    LOW,
    MARGIN,
    NEAR,
    ONE,
    REJECTED,
    ROUND,
    SMALL,
    SURE,
    U22,
    U23,
    U24,
    UNDECIDED,
    survival,
)
from .compiled import loop, part
from .vectors import product, truncate8

_U48 = np.uint64(48)
# Philox (Salmon, Moraes, Dror and Shaw 2011): the factors of a round, and what it adds to the key.
_FACTORS = np.uint64(0xD2E7470EE14C6C93), np.uint64(0xCA5A826395121157)
_STEPS = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBB67AE8584CAA73B)
_PHILOX_ROUNDS = 10


@loop()
def philox(counter, key, out):  # type: ignore[no-untyped-def]
    """Whole blocks of four words of NumPy's Philox; the counter moves along."""
    keys, digits = (key[0], key[1]), (counter[0], counter[1], counter[2], counter[3])
    for block in range(out.size // 4):
        a, b, c, d = digits[0] + ONE, digits[1], digits[2], digits[3]
        if a == 0:
            b += ONE
            if b == 0:
                c += ONE
                d += np.uint64(c == 0)
        digits = (a, b, c, d)
        first, second = keys
        for _ in range(_PHILOX_ROUNDS):
            upper, lower = product(_FACTORS[0], a)
            above, below = product(_FACTORS[1], c)
            a, b, c, d = above ^ b ^ first, below, upper ^ d ^ second, lower
            first += _STEPS[0]
            second += _STEPS[1]
        out[4 * block] = a
        out[4 * block + 1] = b
        out[4 * block + 2] = c
        out[4 * block + 3] = d
    for place in range(4):
        counter[place] = digits[place]


_survival = part(survival, inline="always")


@loop()
def attempt_noise(
    words: NDArray[np.uint64],
    cells: NDArray[np.uint64],
    guide: NDArray[np.uint16],
    gaussian: bool,
    coarser: int,
    out: NDArray[np.int64],
    places: NDArray[np.int64],
    status: NDArray[np.uint8],
) -> int:
    """One attempt per output from two words each; returns how many failed: their ``places``, and why.

    ``out`` is the ideal variable rounded down to half steps: it lies in [out/2, (out + 1)/2). With
    ``coarser=1``, not 0, it is rounded to whole steps.
    """
    failed = 0
    for i in range(out.size):
        first = words[2 * i]
        second = words[2 * i + 1]
        cell = np.int64(guide[first >> _U48])
        while cells[cell] < first:
            cell += 1
        if cells[cell] == first:
            places[failed], status[failed] = i, UNDECIDED
            failed += 1
            continue
        low = np.int64(second & LOW)
        half = np.int64((second >> U22) & ONE)
        if second < SURE:  # as nearly all are
            size = (((cell << 22) + low) << 1) + half
            out[i] = ((~size if (second >> U23) & ONE else size) + coarser) >> coarser
            continue
        test = np.float64(second >> U24)
        start = (np.float64(low) + 0.5 * np.float64(half)) * 2.0**-32
        end = start + HALF_STEP
        if gaussian:
            corner = np.float64(cell) * 2.0**-10
            sure = _survival(corner * end + 0.5 * end * end)
            hope = _survival(corner * start + 0.5 * start * start)
        else:
            sure = _survival(end)
            hope = _survival(start)
        if test + 1.0 <= sure - MARGIN:
            size = (((cell << 22) + low) << 1) + half
            out[i] = ((~size if (second >> U23) & ONE else size) + coarser) >> coarser
        else:
            places[failed] = i
            status[failed] = REJECTED if test >= hope + MARGIN else UNDECIDED
            failed += 1
    return failed


@part
def _row(words, at, cells, guide, gaussian, coarser, out, spare):  # type: ignore[no-untyped-def]
    """A row as `attempt_noise` and the attempts after it make it, from the words from ``at`` on.

    Returns how many words it took; minus how many it takes at the least, where there are fewer; 0 where it
    cannot be decided here.
    """
    again, places, spots, drawn, status = spare
    needed = 2 * out.size
    if at + needed > words.size:
        return -needed
    failed = attempt_noise(words[at : at + needed], cells, guide, gaussian, coarser, out, places, status)
    for i in range(failed):
        spots[i] = places[i]
        again[2 * i] = words[at + 2 * places[i]]
    while failed > 0:
        for i in range(failed):
            if status[i] == UNDECIDED:
                return 0
        needed += failed
        if at + needed > words.size:
            return -needed
        for i in range(failed):
            again[2 * i + 1] = words[at + needed - failed + i]
        pairs, found = again[: 2 * failed], drawn[:failed]
        left = attempt_noise(pairs, cells, guide, gaussian, coarser, found, places, status)
        for i in range(failed):
            out[spots[i]] = drawn[i]
        for i in range(left):
            spots[i] = spots[places[i]]
            again[2 * i] = again[2 * places[i]]
        failed = left
    return needed


@part
def _spare(width):  # type: ignore[no-untyped-def]
    whole = np.empty((3, width), dtype=np.int64)
    again, status = np.empty(2 * width, dtype=np.uint64), np.empty(width, dtype=np.uint8)
    return again, whole[0], whole[1], whole[2], status


@loop()
def noise_rows(words, cells, guide, gaussian, out):  # type: ignore[no-untyped-def]
    """Rows of whole steps, from words in a row.

    Returns how many rows are done, how many words they took, and how many the next one takes at the least;
    0 where it cannot be decided here.
    """
    rows, width = out.shape
    spare = _spare(width)
    at = 0
    for row in range(rows):
        used = _row(words, at, cells, guide, gaussian, 1, out[row], spare)
        if used <= 0:
            return row, at, -used
        at += used
    return rows, at, 2 * width


@loop()
def sphere_rows(words, gaussian, exponential, out):  # type: ignore[no-untyped-def]
    """The same for rows of spherical noise (`samplers.spherical`): tables of both laws instead of one.

    Sums of d numbers are off by d - 1 roundings, not by one: a coordinate by (12 + 1.5 d) u of itself.
    """
    rows, width = out.shape
    spare = _spare(width)
    floors, parts = np.empty(width, dtype=np.int64), np.empty(width, dtype=np.int64)
    values = np.empty(width)
    at = 0
    for row in range(rows):
        used = _row(words, at, gaussian[0], gaussian[1], True, 0, floors, spare)
        if used <= 0:
            return row, at, -used + 4 * width if used < 0 else 0
        second = at + used + width
        more = _row(words, second, exponential[0], exponential[1], False, 0, parts, spare)
        if more == 0 or second + more + width > words.size:
            return row, at, 0 if more == 0 else used + 2 * width + abs(more)
        last = second + more
        squares = 0.0
        length = 0.0
        for i in range(width):
            values[i] = floors[i] + words[at + used + i] * 2.0**-64
            squares += values[i] * values[i]
            length += (~parts[i] if parts[i] < 0 else parts[i]) + words[last + i] * 2.0**-64
        norm = math.sqrt(squares)
        if norm < 2.0**20 * math.sqrt(width) or length < 2.0**20 * width:
            return row, at, 0
        for i in range(width):
            ideal = values[i] * (0.5 * length / norm)
            whole = np.rint(ideal)
            error = ((16.0 + 2.0 * width) * abs(ideal) + 2.0 * length / norm) * 2.0**-53
            if abs(ideal - whole) + error >= 0.5:
                return row, at, 0
            out[row, i] = np.int64(whole)
        at = last + width
    return rows, at, 6 * width


@part
def _long_division(value: float, divisor: np.int64, exponent: int) -> np.int64:
    """``trunc(value / (divisor * 2^exponent))`` exactly, saturated at +-2^62; ``divisor`` in [2^31, 2^32)."""
    limit = np.int64(1) << 62
    fraction, power = math.frexp(abs(value))
    digits = np.int64(fraction * 9007199254740992.0)
    shift = power - 53 - exponent
    if shift <= 0:
        quotient = (digits >> min(-shift, 62)) // divisor
    else:
        quotient = digits // divisor
        remainder = digits % divisor
        while shift > 0:
            step = min(shift, 31)
            if quotient >= limit >> step:
                quotient = limit
                break
            quotient = (quotient << step) + (remainder << step) // divisor
            remainder = (remainder << step) % divisor
            shift -= step
        quotient = min(quotient, limit)
    return -quotient if value < 0.0 else quotient


@loop()
def to_grid(values: NDArray[np.float64], mantissa: int, exponent: int, out: NDArray[np.int64]) -> None:
    """``out = trunc(values / (mantissa * 2^exponent))`` exactly, saturated at +-2^62.

    A quotient in floating point would be off by whole units for large values, and that error would not be in
    anybody's sensitivity. Below 2^40 it is off by less than 2^-11: where no whole number is as near as that,
    it is rounded towards zero. All others are divided in integers. ``mantissa`` is in [2^31, 2^32).
    """
    divisor = np.int64(mantissa)
    # Infinite, so that everything is divided in integers, where it might not have all its digits.
    inverse = math.ldexp(1.0 / mantissa, -exponent) if abs(exponent) < 900 else math.inf
    for start in range(0, values.size, 8):
        stop = min(start + 8, values.size)
        if stop == start + 8 and truncate8(values, start, inverse, out):
            continue
        for i in range(start, stop):
            quotient = values[i] * inverse
            beyond = abs(quotient - ((quotient + ROUND) - ROUND))
            if abs(quotient) < 0.5 or (abs(quotient) < SMALL and beyond > NEAR):
                out[i] = np.int64(quotient)
            else:
                out[i] = _long_division(values[i], divisor, exponent)
