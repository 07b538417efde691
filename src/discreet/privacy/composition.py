"""Adaptive composition of exponential choices, almost exactly.

The privacy loss of an exponential mechanism lies in an interval of some length ``w``: it has bounded
range ``w`` (Durfee and Rogers 2019). zCDP charges ``w^2/8`` per step, which overstates epsilon by 8 to
9 % after conversion. This module computes the composition itself.

**One more step.** Every pair of output distributions with losses in ``[t - w, t]`` is a
post-processing of the two-point pair with losses ``t`` and ``t - w`` (Dong, Durfee and Rogers 2020),
which has probability ``p_t = (e^w - e^t)/(e^w - 1)`` of the first. An adversary who picks ``t`` step by
step therefore reaches, with ``delta_0(e) = max(0, 1 - e^e)``,

    delta_T(e) = max over 0 <= t <= w of  p_t delta_{T-1}(e - t) + (1 - p_t) delta_{T-1}(e - t + w).

delta is convex in ``e^e``, so chords between grid points bound it from above, and on a grid of cells
of length ``w/m`` the maximum has a closed form (`kernels.composition`).

**Many steps.** The curve of a block of steps is that of a discrete privacy loss distribution
("connect the dots", Doroshenko, Ghazi, Kamath, Kumar and Manurangsi 2022). Blocks are convolved with
each other and with pure-epsilon steps (randomised response); a Gaussian part is integrated exactly.
The steps of different kinds may interleave in any order, even one chosen adaptively: an interactive
mechanism with a given curve is a post-processing of a single release with that curve (Vadhan and
Zhang 2023).

**Numerics.** The result is an upper bound. Chords, the cut-off window and over-counted steps of the
last block err on the safe side; rounding is bounded and added (``_curve``, ``losses_of_curve``,
``Composition``). The convolution is done after an exponential tilt towards the wanted tail, so that its
rounding error is relative to a Chernoff bound of delta instead of to one. Below ``SMALLEST_DELTA``
nothing is claimed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ..core import checks
from ..kernels.composition import worst_case_curve
from .conversions import gdp_delta, gdp_epsilon
from .loss_distributions import TAIL, UNIT, Composition, losses_of_curve, losses_of_responses

SMALLEST_DELTA = 1e-12
"""No claim is made for deltas below this: cut-off tails and rounding would no longer be negligible."""

_CELLS = 32  # grid cells per range: the chords cost about 1/(4 cells^2) of epsilon
_BLOCK = 1024  # most steps taken one by one
_WORK = 2e8  # most cell updates in one block
_FINENESS = 0.03  # grid of the convolution, in standard deviations of an average block
_NARROWEST = 1e-12  # smaller steps are rounded up to this, so that squares do not underflow
_WIDEST = 100.0  # a step above this protects nothing, and its exponentials would overflow
_MOST = 10**9  # steps of one kind: more would lose the precision that is claimed
_DISTINCT = 16  # more different ranges than this are rounded up to a ladder ...
_RUNG = 1.03  # ... with this ratio between rungs

Groups = Sequence[tuple[float, int]]
_Groups = tuple[tuple[float, int], ...]


def adaptive_choices_delta(epsilon: float, ranges: Groups, *, mu: float = 0.0, pure: Groups = ()) -> float:
    """Delta at ``epsilon`` of any adaptive composition of bounded-range steps; an upper bound.

    ``ranges`` lists (range, number of steps): an exponential mechanism with weights ``exp(eta q)`` has
    range ``eta`` times the spread of the change of ``q`` between neighbours. ``mu`` is the Gaussian-DP
    parameter of everything Gaussian beside them and ``pure`` lists (epsilon, number of steps) of pure-DP
    steps. Never reports less than ``SMALLEST_DELTA`` unless it is exact there.

    >>> eta = 0.0047
    >>> adaptive_choices_delta(1.0, [(2 * eta, 2000)]) < 1e-6
    True
    """
    target = checks.real("epsilon", epsilon, at_least=0.0)
    steps, noise, responses = _checked(ranges, mu, pure)
    if noise == 0.0 and target >= _pure_total(steps, responses):
        return 0.0
    if not steps and not responses:
        return gdp_delta(noise, target)
    if noise == 0.0 and not responses and _is_single(steps):
        return _single_delta(target, steps[0][0])
    return max(SMALLEST_DELTA, _composition(steps, noise, responses).delta(target))


def adaptive_choices_epsilon(delta: float, ranges: Groups, *, mu: float = 0.0, pure: Groups = ()) -> float:
    """Epsilon at ``delta`` of any adaptive composition of bounded-range steps; an upper bound.

    Arguments as in :func:`adaptive_choices_delta`; ``delta`` must be at least ``SMALLEST_DELTA``.

    >>> round(adaptive_choices_epsilon(1e-6, [(0.01, 1000)]), 2)
    0.65
    """
    target = checks.real("delta", delta, below=1.0)
    if target < SMALLEST_DELTA:
        raise ValueError(
            f"delta={target} is below {SMALLEST_DELTA:g}, the least for which rounding errors of this "
            "computation are covered; use a zCDP bound for smaller ones"
        )
    steps, noise, responses = _checked(ranges, mu, pure)
    if not steps and not responses:
        return gdp_epsilon(noise, target)
    if noise == 0.0 and not responses and _is_single(steps):
        return _single_epsilon(target, steps[0][0])
    bound = _composition(steps, noise, responses).epsilon(target)
    return bound if noise > 0.0 else min(bound, _pure_total(steps, responses))


def _checked(ranges: Groups, mu: float, pure: Groups) -> tuple[_Groups, float, _Groups]:
    noise = checks.real("mu", mu, at_least=0.0, at_most=_WIDEST)
    return _groups("ranges", ranges), max(noise, _NARROWEST) if noise else 0.0, _groups("pure", pure)


def _groups(name: str, groups: Groups) -> _Groups:
    """Steps of equal size together, in ascending order, without those that reveal nothing."""
    counts: dict[float, int] = {}
    for i, (size, count) in enumerate(groups):
        value = checks.real(f"{name}[{i}][0]", size, at_least=0.0, at_most=_WIDEST)
        steps = checks.whole(f"{name}[{i}][1]", count, at_least=0, at_most=_MOST)
        if value > 0.0 and steps > 0:
            value = max(value, _NARROWEST)
            counts[value] = counts.get(value, 0) + steps
    return tuple(sorted(counts.items()))


def _pure_total(ranges: _Groups, pure: _Groups) -> float:
    """Pure epsilon of everything: a step of range ``w`` is ``w``-DP."""
    return math.fsum(size * count for size, count in ranges + pure) * (1.0 + 8.0 * UNIT)


def _is_single(ranges: _Groups) -> bool:
    return len(ranges) == 1 and ranges[0][1] == 1


def _single_delta(epsilon: float, width: float) -> float:
    """Delta of one step: ``(1 - e^((epsilon - w)/2))^2 / (1 - e^-w)`` for ``epsilon <= w``.

    Both may have been rounded when they were read, which matters where they nearly agree.
    """
    if epsilon >= width:
        return 0.0
    epsilon, width = math.nextafter(epsilon, -1.0), math.nextafter(width, math.inf)
    return math.expm1((epsilon - width) / 2.0) ** 2 / -math.expm1(-width) * (1.0 + 16.0 * UNIT)


def _single_epsilon(delta: float, width: float) -> float:
    """The inverse of :func:`_single_delta`."""
    root = math.sqrt(-math.expm1(-width) * delta) * (1.0 - 8.0 * UNIT)
    return max(0.0, (width + 2.0 * math.log1p(-root)) * (1.0 + 16.0 * UNIT) + 16.0 * UNIT * width)


def _rounded_up(ranges: _Groups) -> _Groups:
    """At most a few different ranges: a step of range ``w`` also has every larger range."""
    if len(ranges) <= _DISTINCT:
        return ranges
    widest = ranges[-1][0]
    counts: dict[int, int] = {}
    for width, count in ranges:
        rung = math.floor(math.log(widest / width) / math.log(_RUNG))
        while rung > 0 and widest * _RUNG**-rung < width:
            rung -= 1
        counts[rung] = counts.get(rung, 0) + count
    return tuple((widest * _RUNG**-rung, count) for rung, count in sorted(counts.items()))


def _window(width: float, steps: NDArray[np.int64] | int) -> NDArray[np.float64]:
    """Loss that ``steps`` steps exceed with probability ``TAIL`` at most (Chernoff with rho = w^2/8)."""
    rho = np.asarray(steps) * width * width / 8.0
    return np.asarray(np.minimum(rho + 2.0 * np.sqrt(-rho * math.log(TAIL)), np.asarray(steps) * width))


def _blocks(width: float, steps: int) -> tuple[int, int]:
    """How many blocks of how many steps; together at least ``steps`` of them."""
    longest = _BLOCK
    while longest > 1 and longest * _CELLS * float(_window(width, longest)) * _CELLS / width > _WORK:
        longest //= 2
    blocks = -(-steps // longest)
    return blocks, -(-steps // blocks)


@lru_cache(maxsize=256)
def _curve(width: float, steps: int, cells: int) -> NDArray[np.float64]:
    """Delta at epsilon ``0, w/cells, 2w/cells, ...`` after ``steps`` adaptive steps; an upper bound.

    Rounding: one step replaces delta by a convex combination of earlier values, computed with at most
    16 roundings, plus a gain whose absolute error is at most 8 roundings of a neighbouring value that
    is itself at most ``4 cells`` times the result. Relative errors of the steps add up.
    """

    taken = np.arange(1, steps + 1)
    reach = np.minimum(taken * cells, np.ceil(_window(width, taken) * cells / width).astype(np.int64))
    curve: NDArray[np.float64] = worst_case_curve(width, cells, reach)
    curve *= 1.0 + steps * (16.0 + 32.0 * cells) * UNIT
    curve.flags.writeable = False
    return curve


@lru_cache(maxsize=64)
def _composition(ranges: _Groups, mu: float, pure: _Groups) -> Composition:
    """Choose the blocks and a common grid, then bring every group onto it."""
    blocks = [(width, *_blocks(width, steps)) for width, steps in _rounded_up(ranges)]
    # Rough variances will do, as long as none vanishes: any grid is safe, this one is fine enough.
    variance = sum(width * width / 4.0 * count * steps for width, count, steps in blocks)
    variance += sum(epsilon * math.tanh(epsilon / 2.0) * count for epsilon, count in pure)
    grid = _FINENESS * math.sqrt((variance + mu * mu) / (sum(count for _, count, _ in blocks) + len(pure)))
    if len(blocks) == 1 and blocks[0][1] == 1 and not pure:
        grid = blocks[0][0] / _CELLS  # a single block stays on its own grid
    parts = [
        losses_of_curve(_curve(width, steps, _CELLS), width / _CELLS, grid, count)
        for width, count, steps in blocks
    ]
    parts += [losses_of_responses(epsilon, count, grid) for epsilon, count in pure]
    return Composition.of(parts, grid, mu)
