"""Spherical Laplace noise: a vector whose length is Gamma distributed, rounded exactly."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ...kernels import noise as kernels
from ..randomness import Randomness
from .noise import LazyBits, half_steps, in_rows, noise_table


def spherical_steps(source: Randomness, dimension: int) -> NDArray[np.int64]:
    """The rounded coordinates of a vector Z with density falling as ``exp(-|z|/scale)``, scale 2^32 steps.

    Z = R G/|G|: the length R is Gamma distributed, a sum of ``dimension`` exponential variables, and G is a
    vector of Gaussian ones. All of them are ideal reals of which some bits are known. A grid point plus
    ``round(Z)`` is the rounded sum of the point and Z: the ideal mechanism, post-processed.

    Error bound of the first try, in floats. Let u = 2^-53, d the dimension, and measure in half steps. A
    variable is its whole part plus 64 bits: off by at most u of itself and u + 2^-64. `math.fsum` rounds
    once. Where N = |G| and R are not tiny (N >= 2^20 sqrt(d), R >= 2^20 d), N is off by at most 4u of
    itself and R by 3u, so a coordinate z = R G_i / (2 N) is off by at most 12u|z| + u R/N. We allow for
    16u|z| + 2u R/N. What then rounds the same way at both ends is decided; the rest is settled in integers.
    """
    gaussians, exponentials = (Reals(source, dimension, gaussian=gaussian) for gaussian in (True, False))
    values, parts = gaussians.floats(), exponentials.floats()
    norm, length = math.sqrt(math.fsum((values * values).tolist())), math.fsum(parts.tolist())
    if norm < 2.0**20 * math.sqrt(dimension) or length < 2.0**20 * dimension:
        return settled_sphere(gaussians, exponentials, np.arange(dimension))
    ideal = values * (0.5 * length / norm)
    out = np.rint(ideal).astype(np.int64)
    error = (16.0 * np.abs(ideal) + 2.0 * length / norm) * 2.0**-53
    unsure = np.flatnonzero(np.abs(ideal - out) + error >= 0.5)
    if unsure.size:
        out[unsure] = settled_sphere(gaussians, exponentials, unsure)
    return out


def spherical_rows(source: Randomness, rows: int, dimension: int) -> NDArray[np.int64]:
    """``rows`` times `spherical_steps`: the same vectors, from the same words, sooner."""

    def one(words: Randomness) -> NDArray[np.int64]:
        return spherical_steps(words, dimension)

    def loop(words: NDArray[np.uint64], out: NDArray[np.int64]) -> tuple[int, int, int]:
        tables = noise_table(True), noise_table(False)
        found: tuple[int, int, int] = kernels.sphere_rows(words, *tables, out)
        return found

    return in_rows(source, (rows, dimension), 6, one, loop)


class Reals:
    """Independent Gaussian variables, or exponential ones, to as many bits as are asked for."""

    def __init__(self, source: Randomness, count: int, *, gaussian: bool) -> None:
        drawn, self._further = half_steps(source, count, gaussian=gaussian)
        if not gaussian:  # the size of a Laplace variable; the mirror image of a uniform place is one too
            self._further = {
                place: bits.mirrored() if drawn[place] < 0 else bits for place, bits in self._further.items()
            }
            drawn = np.where(drawn < 0, ~drawn, drawn)
        self._floors, self._words = drawn, np.array(source.words(count))
        self._more = lambda: int(source.words(1)[0])
        for place, bits in self._further.items():
            self._words[place] = bits.first(64)

    def floats(self) -> NDArray[np.float64]:
        """The numbers in half steps, off by at most 2^-53 of each and 2^-53 + 2^-64."""
        return self._floors + self._words * 2.0**-64

    def starts(self, bits: int) -> list[int]:
        """The numbers in units of 2^-bits half steps, rounded down; ``bits`` is at least 64."""
        words = self._words.tolist()
        if bits > 64:
            for place, word in enumerate(words):
                self._further.setdefault(place, LazyBits(word, 64, self._more))
            words = [self._further[place].first(bits) for place in range(len(words))]
        return [(floor << bits) + word for floor, word in zip(self._floors.tolist(), words, strict=True)]


def settled_sphere(gaussians: Reals, exponentials: Reals, places: NDArray[np.intp]) -> NDArray[np.int64]:
    """The rounded coordinates at ``places``, decided in integers with as many bits as it takes.

    It is also the slow twin that the tests hold against the floats.
    """
    bits = 64
    while True:
        starts, parts = gaussians.starts(bits), exponentials.starts(bits)
        shortest, longest = sum(parts), sum(parts) + len(parts)
        near = math.isqrt(sum(min(abs(x), abs(x + 1)) ** 2 for x in starts))
        far = math.isqrt(sum(max(abs(x), abs(x + 1)) ** 2 for x in starts)) + 1
        found = []
        for place in places.tolist():
            low, high = starts[place], starts[place] + 1
            if low >= 0:
                ends = ((shortest * low, far), (longest * high, near))
            else:
                ends = ((longest * low, near), (shortest * high, far))
            if near == 0 or (rounded := _rounded_half(*ends[0], bits)) != _rounded_half(*ends[1], bits):
                break
            found.append(rounded)
        else:
            return np.array(found, dtype=np.int64)
        bits += 64


def _rounded_half(top: int, under: int, bits: int) -> int:
    """Half of ``top / under`` in units of 2^-bits, rounded to the nearest whole number."""
    return (top + (under << bits)) // (under << (bits + 1))
