"""The public grid on which noise is drawn: values are truncated to it, and the noise pays for that."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from ...kernels.noise import to_grid
from ..conversions import exact

STEPS_BITS = 32  # noise on the finest grid has a scale of 2^STEPS_BITS steps


@dataclass(frozen=True)
class Grid:
    """A public grid whose step is ``mantissa * 2^exponent``; noise on it has scale 2^bits steps."""

    mantissa: int
    exponent: int
    bits: int = STEPS_BITS

    @cached_property
    def step(self) -> Fraction:
        return Fraction(self.mantissa) * Fraction(2) ** self.exponent

    @property
    def noise_scale(self) -> float:
        """Scale (Laplace) or standard deviation (Gaussian) of the noise, in the value's own unit."""
        return float(self.step) * 2.0**self.bits

    @classmethod
    def at_least(cls, step: Fraction, bits: int = STEPS_BITS) -> Grid:
        """The finest representable grid that is not finer than ``step`` (a 32-bit mantissa)."""
        exponent = step.numerator.bit_length() - step.denominator.bit_length() - 32
        mantissa = math.ceil(step / Fraction(2) ** exponent)
        while mantissa >= 1 << 32:
            exponent += 1
            mantissa = math.ceil(step / Fraction(2) ** exponent)
        while mantissa < 1 << 31:
            exponent -= 1
            mantissa = math.ceil(step / Fraction(2) ** exponent)
        return cls(mantissa, exponent, bits)

    @classmethod
    @lru_cache(maxsize=256, typed=True)
    def for_noise(
        cls,
        scale: float | Fraction,
        sensitivity: float | Fraction,
        truncation: float | Fraction,
        bits: int = STEPS_BITS,
    ) -> Grid:
        """The grid on which noise of 2^bits steps loses ``sensitivity / scale``, truncation included.

        ``truncation`` is how many steps truncation can add to the sensitivity: 0 when it cannot (values
        known by a norm), the number of coordinates that can change in L1, its square root in L2.
        """
        wanted, moves = exact(scale), exact(sensitivity)
        steps = Fraction(2) ** bits
        spare = steps - (exact(truncation) * wanted / moves if moves else 0)
        if spare < steps / 2:
            raise ValueError(
                f"scale={float(wanted):g} is so large beside sensitivity={float(moves):g} that rounding would"
                " dominate; release fewer coordinates at once or spend a larger share"
            )
        return cls.at_least(wanted / spare, bits)

    def truncate(self, values: NDArray[np.float64]) -> NDArray[np.int64]:
        """Whole steps in each value, towards zero, exactly; saturated at 2^62 steps."""
        out = np.empty(values.shape, dtype=np.int64)
        to_grid(np.ascontiguousarray(values), self.mantissa, self.exponent, out)
        return out

    def values(self, steps: NDArray[np.int64]) -> NDArray[np.float64]:
        """Grid points as floats (rounding here is post-processing)."""
        return steps.astype(np.float64) * float(self.step)
