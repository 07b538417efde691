"""The samplers behind the gate: exact on a public grid, given uniform random words.

Noise. A value is first truncated to a public grid, exactly and towards zero (so that no norm grows),
and then moved by ``round(Y)`` grid steps, where Y is an ideal real-valued Laplace or Gaussian variable
of scale 2^32 steps. An integer plus ``round(Y)`` is ``round(integer + Y)``: what is released is the ideal
continuous mechanism's output, rounded. So every theorem about the continuous mechanism holds for it by
post-processing, and there is no floating-point noise to attack (Mironov 2012). What truncation adds to
the sensitivity is paid for by noise that is larger by the same factor. Spherical Laplace noise is rounded
the same way, coordinate by coordinate (`spherical_steps`).

``round(Y)`` is drawn exactly. |Y| is split into cells 2^22 steps wide. A first word picks the cell from
a table of the distribution function; a second one gives a uniform place in the cell, a sign, and a
test that keeps the place with probability ``density(place) / density(start of the cell)`` (at least
.99); a place that is not kept is drawn again in the same cell. Both comparisons are made on truncated
numbers; whenever the truncated bits cannot decide, about once in 2^30 draws, more bits and more digits
are taken until they can (`noise.settle`).

Choice. Weights of the exponential mechanism are computed in floating point with a proven error bound;
one uniform word picks a candidate. If the word is closer to a border than the bound, candidates are laid
out again in whole units, so that sums are exact, and one weight is computed to many digits (`exact_draw`).
"""

from __future__ import annotations

from .choice import choice_log_probabilities, endless, exact_draw, exponential_choice
from .grid import STEPS_BITS, Grid
from .noise import noise_rows, noise_steps
from .spherical import spherical_rows, spherical_steps

__all__ = [
    "STEPS_BITS",
    "Grid",
    "choice_log_probabilities",
    "endless",
    "exact_draw",
    "exponential_choice",
    "noise_rows",
    "noise_steps",
    "spherical_rows",
    "spherical_steps",
]
