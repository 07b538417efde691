"""A release that has been paid for: the one place where noise and draws that protect people are made.

`Gate.reserve` charges for releases of one mechanism and returns a `Release`. It draws that mechanism's noise,
in steps of a public grid, or its choices, exactly (see `samplers`). Nothing else in the library does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from . import samplers
from .events import (
    Event,
    ExponentialChoice,
    FlippedChoice,
    GaussianNoise,
    LaplaceNoise,
    SphericalLaplaceNoise,
)
from .picks import ExactChoices
from .samplers import flips

if TYPE_CHECKING:
    from .ordered import OrderedExperts
    from .randomness import Randomness

Floats = NDArray[np.float64]
Steps = NDArray[np.int64]


class Release:
    """What was charged (``event``, ``count``, ``disjoint``), and the only way to draw what it pays for.

    ``count`` is how many such releases one person's data enters. With ``disjoint=True`` that is so in each of
    several groups of people, of which nobody is in two.
    """

    def __init__(
        self, event: Event, count: int, disjoint: bool, source: Randomness, alive: Callable[[], None]
    ) -> None:
        self._event, self._count, self._disjoint = event, count, disjoint
        self._source, self._alive = source, alive

    @property
    def event(self) -> Event:
        return self._event

    @property
    def count(self) -> int:
        return self._count

    @property
    def disjoint(self) -> bool:
        return self._disjoint

    # --- noise -----------------------------------------------------------------------------------

    @property
    def law(self) -> str:
        """The distribution of the noise that was paid for: "gaussian", "laplace" or "spherical"."""
        if isinstance(self._event, GaussianNoise):
            return "gaussian"
        if isinstance(self._event, SphericalLaplaceNoise):
            return "spherical"
        if isinstance(self._event, LaplaceNoise):
            return "laplace"
        raise TypeError(f"{self._event} is not a release with noise")

    def steps(self, count: int, law: str | None = None) -> Steps:
        """``count`` numbers of noise in steps of the finest grid; of spherical noise, one vector.

        ``law`` is for an account of another kind than one noise's, which has to name it.
        """
        self._alive()
        law = law or self.law
        if law == "spherical":
            return samplers.spherical_steps(self._source, count)
        return samplers.noise_steps(self._source, count, gaussian=law == "gaussian")

    def noise(self, grid: samplers.Grid, count: int) -> Steps:
        """The same in steps of ``grid``; a coarser one rounds those of the finest: post-processing."""
        finer = samplers.STEPS_BITS - grid.bits
        steps = self.steps(count)
        if finer:
            steps = steps + (1 << (finer - 1))
            steps >>= finer  # in place: there may be millions of them
        return steps

    def noise_rows(self, grid: samplers.Grid, rows: int, width: int) -> Steps:
        """``rows`` times `noise` of ``width`` numbers, the same as one after the other."""
        self._alive()
        law, finer = self.law, samplers.STEPS_BITS - grid.bits
        if law == "spherical":
            steps = samplers.spherical_rows(self._source, rows, width)
        else:
            steps = samplers.noise_rows(self._source, rows, width, gaussian=law == "gaussian")
        return (steps + (1 << (finer - 1))) >> finer if finer else steps

    def noisy(self, values: Floats, grid: samplers.Grid | None) -> Floats:
        """``values`` as they leave: truncated to the grid, with noise. None is no noise."""
        if grid is None:
            return values.copy()
        return grid.values(grid.truncate(values) + self.noise(grid, values.size))

    # --- choices ---------------------------------------------------------------------------------

    def choice(self, scores: Floats, rate: float | None = None) -> int:
        """An index, drawn with probability proportional to ``exp(rate * score)``, exactly.

        ``rate`` is that of an exponential choice; an account of another kind has to name it.
        """
        self._alive()
        return samplers.exponential_choice(self._source, scores, self._rate(rate))

    def flipped_choice(self, scores: Floats, rate: float | None = None) -> int:
        """An index, drawn by permute and flip (`flips.flipped_choice`), exactly.

        An exponential choice does not pay for it: that is charged by its bounded range, which this has not.
        """
        self._alive()
        if isinstance(self._event, ExponentialChoice | ExactChoices):
            raise TypeError(f"{self._event} does not pay for permute-and-flip; reserve a FlippedChoice")
        return flips.flipped_choice(self._source, scores, self._rate(rate))

    def sample(self, n_people: int, keep: int) -> NDArray[np.int64]:
        """Who is in a secret sample, each with probability ``keep`` / 2^64: one secret word for each."""
        self._alive()
        return np.flatnonzero(self._source.words(n_people) < np.uint64(keep))

    def ordered_set(self, experts: OrderedExperts) -> NDArray[np.int32]:
        """One item for each expert in turn, none twice, each an exponential choice of its scores; exact."""
        self._alive()
        return experts.drawn(self)

    def index(self, scores: Steps, unit: Fraction, words: Iterator[int]) -> int:
        """An index drawn with probability proportional to ``exp(unit * score)``, exactly, by ``words``."""
        self._alive()
        return samplers.exact_draw(scores, unit, words)

    def words(self, count: int) -> NDArray[np.uint64]:
        """Secret words for a compiled loop that makes the draws paid for here."""
        self._alive()
        return np.array(self._source.words(count) if count else (), dtype=np.uint64)

    def _rate(self, given: float | None) -> float:
        if given is not None:
            return given
        if not isinstance(self._event, ExponentialChoice | ExactChoices | FlippedChoice):
            raise TypeError(f"{self._event} does not say at which rate to choose; give rate=")
        return self._event.rate

    def __repr__(self) -> str:
        return f"Release({self._event}, count={self._count}, disjoint={self._disjoint})"
