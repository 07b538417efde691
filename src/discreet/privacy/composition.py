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
each other and with pure-epsilon steps (randomized response); a Gaussian part is integrated exactly.
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
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ..core import checks
from ..kernels.composition import worst_case_curve
from .conversions import gdp_delta, gdp_epsilon

# --- discrete privacy loss distributions -----------------------------------------------------------------


UNIT = 2.0**-53  # relative rounding error of one float operation
TAIL = 1e-22  # probability that a window may cut off


@dataclass(frozen=True, eq=False)
class LossDistribution:
    """Privacy losses ``(first + i) * grid`` with probability ``masses[i]``, ``count`` times independently.

    ``lost`` bounds the probability of an infinite loss, per repetition.
    """

    first: int
    masses: NDArray[np.float64]
    lost: float
    count: int

    def losses(self, grid: float) -> NDArray[np.float64]:
        return (self.first + np.arange(self.masses.size, dtype=np.float64)) * grid

    def variance(self, grid: float) -> float:
        losses = self.losses(grid)
        return float(self.masses @ (losses - self.masses @ losses) ** 2)

    def log_moment(self, tilt: float, grid: float) -> float:
        """``log E[exp(tilt * loss)]`` of one repetition, without overflow."""
        logs = self._tilted_logs(tilt, grid)
        top = float(logs.max())
        return top + math.log(float(np.exp(logs - top).sum()))

    def tilted(self, tilt: float, grid: float) -> LossDistribution:
        """Masses times ``exp(tilt * loss)``, divided by their sum."""
        masses = np.exp(self._tilted_logs(tilt, grid) - self.log_moment(tilt, grid))
        return LossDistribution(self.first, masses, self.lost, self.count)

    def _tilted_logs(self, tilt: float, grid: float) -> NDArray[np.float64]:
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.masses) + tilt * self.losses(grid))


def losses_of_curve(curve: NDArray[np.float64], spacing: float, grid: float, count: int) -> LossDistribution:
    """The loss distribution on ``grid`` whose delta runs through the curve at the grid points.

    With ``above_l = (delta_l - delta_{l+1})/(1 - e^-grid)`` the mass at ``l grid`` is
    ``above_{l-1} - e^-grid above_l``; the mirrored loss has ``e^-loss`` times that mass. Rounding, most
    of it in the places of the grid points up to ten standard deviations out, can change a delta by
    at most 200 units and therefore a mass by 200 units of ``delta/grid``; more than that is added.
    """
    last = math.ceil((curve.size - 1) * spacing / grid * (1.0 - 4.0 * UNIT))
    ends = np.arange(last + 1) * (grid / spacing)
    cell = np.minimum(ends.astype(np.int64), curve.size - 2)
    share = np.minimum(np.expm1((ends - cell) * spacing) / math.expm1(spacing), 1.0)
    deltas = curve[cell] * (1.0 - share) + curve[cell + 1] * share
    step = -math.expm1(-grid)
    above = np.append((deltas[:-1] - deltas[1:]) / step, 0.0)
    error = 256.0 * UNIT * (deltas[:-1] / step + above[:-1])
    upper = np.maximum(above[:-1] - math.exp(-grid) * above[1:], 0.0) + error
    lower = upper * np.exp(-grid * np.arange(1, upper.size + 1))
    centre = max(0.0, 1.0 - (1.0 + math.exp(-grid)) * above[0] - deltas[1]) + error[0] + 8.0 * UNIT
    return LossDistribution(
        -upper.size, np.concatenate([lower[::-1], [centre], upper]), float(deltas[-1]), count
    )


def losses_of_responses(epsilon: float, count: int, grid: float) -> LossDistribution:
    """Loss distribution on ``grid`` of ``count`` steps of randomized response, composed exactly.

    The losses ``(2 j - count) epsilon`` are binomial. Each is split between its two neighbours on the grid
    such that its probability under both inputs is preserved; rounding goes up.
    """
    centre = min(count, math.floor((count + 1) / (1.0 + math.exp(-epsilon))))
    span = math.ceil(math.sqrt(-count * math.log(TAIL) / 2.0)) + 1  # Hoeffding
    up = np.arange(centre, min(count, centre + span))
    down = np.arange(centre, max(0, centre - span), -1)
    rising = np.cumprod((count - up) / (up + 1.0) * math.exp(epsilon))
    falling = np.cumprod(down / (count - down + 1.0) * math.exp(-epsilon))
    weights = np.concatenate([falling[::-1], [1.0], rising])
    masses = weights / weights.sum() * (1.0 + 8.0 * weights.size * UNIT)
    losses = (2 * np.arange(centre - down.size, centre + up.size + 1) - count) * epsilon
    slot = np.floor(losses / grid).astype(np.int64)
    share = np.expm1(-np.clip(losses - slot * grid, 0.0, grid)) / math.expm1(-grid)
    share = np.minimum(1.0, share + 8.0 * UNIT * (np.abs(losses) / grid + 1.0))
    split = np.zeros(int(slot[-1] - slot[0]) + 2)
    np.add.at(split, slot - slot[0], masses * (1.0 - share))
    np.add.at(split, slot - slot[0] + 1, masses * share)
    return LossDistribution(int(slot[0]), split, 2.0 * TAIL, 1)


def _log_gaussian_delta(mu: float, epsilons: NDArray[np.float64]) -> NDArray[np.float64]:
    """Logarithm of the delta of mu-Gaussian DP, any sign of epsilon, rounded up.

    ``Phi(-a) - e^epsilon Phi(-b)`` with ``a, b = epsilon/mu -+ mu/2``; where ``a > 0`` the common factor
    ``exp(-a^2/2)`` of both terms is taken out first.
    """
    from scipy.special import erfcx, log_ndtr, ndtr

    a, b = epsilons / mu - mu / 2.0, epsilons / mu + mu / 2.0
    logs = np.empty(epsilons.size)
    tail = a > 0.0
    scaled = erfcx(a[tail] / math.sqrt(2.0))
    rest = scaled * (1.0 + 16.0 * UNIT) - erfcx(b[tail] / math.sqrt(2.0))
    logs[tail] = np.log(rest / 2.0) - a[tail] ** 2 / 2.0
    first, second = log_ndtr(-b[~tail]), epsilons[~tail]
    error = 8.0 * UNIT * (2.0 + np.abs(first) + np.abs(second))
    rest = ndtr(-a[~tail]) - np.exp(first + second) * (1.0 - error) + 8.0 * UNIT
    logs[~tail] = np.log(rest)
    return logs


def _log_peak(tilt: NDArray[np.float64] | float) -> NDArray[np.float64]:
    """Logarithm of the largest ``(1 - e^-y) e^(-tilt y)``: delta is at most that times a moment."""
    return np.asarray(-np.log1p(tilt) - tilt * np.log1p(1.0 / np.asarray(tilt)))


@dataclass(frozen=True, eq=False)
class Composition:
    """The sum of independent discrete losses on ``grid`` and one Gaussian."""

    parts: tuple[LossDistribution, ...]
    grid: float
    mu: float
    tilts: NDArray[np.float64]
    moments: NDArray[np.float64]

    @classmethod
    def of(cls, parts: Sequence[LossDistribution], grid: float, mu: float) -> Composition:
        variance = mu * mu + sum(part.count * part.variance(grid) for part in parts)
        tilts = np.geomspace(0.02, 50.0, 64) / math.sqrt(variance)
        moments = tilts * (tilts + 1.0) * mu * mu / 2.0
        for part in parts:
            moments += part.count * np.array([part.log_moment(tilt, grid) for tilt in tilts])
        return cls(tuple(parts), grid, mu, tilts, moments)

    # Any tilt is valid. The one with the least Chernoff bound has the least rounding error, because it
    # centres the tilted distribution on the wanted tail.

    def delta(self, epsilon: float) -> float:
        best = int(np.argmin(self.moments + _log_peak(self.tilts) - self.tilts * epsilon))
        return self._tail(best).delta(epsilon)

    def epsilon(self, delta: float) -> float:
        bounds = (self.moments + _log_peak(self.tilts) - math.log(delta)) / self.tilts
        best = int(np.argmin(bounds))
        tail = self._tail(best)
        if tail.delta(0.0) <= delta:
            return 0.0
        low, high = 0.0, max(self.grid, float(bounds[best]))
        while tail.delta(high) > delta:
            low, high = high, 1.1 * high
        while high - low > 1e-9 * high:
            middle = (low + high) / 2.0
            low, high = (low, middle) if tail.delta(middle) <= delta else (middle, high)
        return high

    def _tail(self, index: int) -> _Tail:
        """Convolution of the losses after tilting all of them by ``exp(tilt * loss)``.

        Rounding: a transform of length N, a power of two, errs by ``8 log2(N)`` units in the 2-norm
        (Higham 2002, theorem 24.2), which bounds the error of each coefficient ``f`` by some ``d``. The
        n-th power errs by ``n d (|f| + d)^(n-1)`` and its own rounding. The sum of the errors of all N
        masses is at most the 2-norm of the errors of the spectrum, plus that of the transform back.
        """
        from scipy.fft import irfft, rfft

        tilt = float(self.tilts[index])
        tilted = [part.tilted(tilt, self.grid) for part in self.parts]
        spread = math.sqrt(sum(part.count * part.variance(self.grid) for part in tilted))
        exponent = 10.0 / max(spread, self.grid)  # exp(-10^2/2) = TAIL for a Gaussian
        room = -math.log(TAIL)
        top = room + sum(part.count * part.log_moment(exponent, self.grid) for part in tilted)
        bottom = room + sum(part.count * part.log_moment(-exponent, self.grid) for part in tilted)
        start = sum(part.count * part.first for part in tilted)
        low = max(start, -math.ceil(bottom / exponent / self.grid))
        last = start + sum(part.count * (part.masses.size - 1) for part in tilted)
        high = min(last, math.ceil(top / exponent / self.grid))
        longest = max(high - low + 1, *(part.masses.size for part in tilted))
        size = 1 << (longest - 1).bit_length()
        relative = 8.0 * math.log2(size) * UNIT * math.sqrt(size)
        spectrum = np.ones(size // 2 + 1, dtype=np.complex128)
        envelope, errors = np.ones(spectrum.size), np.zeros(spectrum.size)
        for part in tilted:
            factor = rfft(part.masses, size)
            error = relative * float(np.linalg.norm(part.masses))
            spectrum *= factor**part.count
            envelope *= (np.abs(factor) + error) ** part.count
            errors += part.count * (error / (np.abs(factor) + error) + 16.0 * UNIT)
        masses = np.maximum(np.roll(irfft(spectrum, size), (start - low) % size), 0.0)
        missing = np.linalg.norm(envelope * errors) + relative * np.linalg.norm(masses)
        return _Tail(
            losses=np.arange(low, low + size, dtype=np.float64) * self.grid,
            masses=masses,
            mu=self.mu,
            tilt=tilt,
            moment=float(self.moments[index]),
            missing=TAIL + 2.0 * float(missing),
            lost=sum(part.count * part.lost for part in self.parts),
            rounding=1e-11 + 1e-14 * sum(part.count for part in self.parts),
        )


@dataclass(frozen=True, eq=False)
class _Tail:
    """Loss distribution near its upper tail: ``masses`` is proportional to ``exp(tilt * loss)`` times it.

    ``moment`` is the logarithm of ``E[exp(tilt * loss)]`` with the Gaussian part included, ``missing``
    bounds the error of the sum of any of the masses, ``lost`` the probability of an infinite loss and
    ``rounding`` the relative error of the final sum.
    """

    losses: NDArray[np.float64]
    masses: NDArray[np.float64]
    mu: float
    tilt: float
    moment: float
    missing: float
    lost: float
    rounding: float

    def delta(self, epsilon: float) -> float:
        """Expected ``delta_mu(epsilon - loss)``, plus everything that may be missing.

        The discrete moment is the total one less the Gaussian's. An error ``x`` of the tilted masses
        weighs at most ``x exp(peak + moment - tilt epsilon)``: Chernoff's bound, which ``delta_mu`` obeys.
        """
        bound = self.moment + float(_log_peak(self.tilt)) - self.tilt * epsilon
        if bound > 600.0:
            return 1.0  # far from the tail that was tilted for; the exponentials would overflow
        scale = self.moment - self.tilt * (self.tilt + 1.0) * self.mu * self.mu / 2.0
        gaps = epsilon - self.losses
        if self.mu > 0.0:
            logs = _log_gaussian_delta(self.mu, gaps)
            value = float(self.masses @ np.exp(scale - self.tilt * self.losses + logs))
        else:
            above = gaps < 0.0
            weights = np.exp(scale - self.tilt * self.losses[above])
            value = float(self.masses[above] @ (weights * -np.expm1(gaps[above])))
        value += self.lost + self.missing * math.exp(bound)
        return min(1.0, value * (1.0 + self.rounding))


# --- adaptive composition of exponential choices ---------------------------------------------------------


SMALLEST_DELTA = 1e-12
"""No claim is made for deltas below this: cut-off tails and rounding would no longer be negligible."""

_CELLS = 32  # grid cells per range: the chords cost about 1/(4 cells^2) of epsilon
_BLOCK = 1024  # most steps computed singly
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
    parameter of everything Gaussian in parallel and ``pure`` lists (epsilon, number of steps) of pure-DP
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
    if noise == 0.0 and not responses and sum(count for _, count in steps) == 1:
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
    if noise == 0.0 and not responses and sum(count for _, count in steps) == 1:
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
    # Rough variances suffice, as long as none vanishes: any grid is safe, and this one is fine enough.
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
