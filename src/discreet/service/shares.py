"""Shares of people served: counts released in blocks, their course, confidence intervals, and the lift.

In addition to a learner's own releases, counts of people who were served are released in blocks of decisions,
for the learner's sets and for those of the hold-out, which are random or a given control set. Each round is
in one block, of its segment, and changes one of the two counts by at most 1 (values are divided by their
``bound``): Laplace noise for sensitivity 1, charged once for disjoint blocks, at the budget's share for one
of a person's rounds. Where blocks end depends on decisions and segments, which are public. Counts of a period
add up; the intervals of the sums hold for all releases of a period simultaneously.

*Intervals* for shares and lifts are anytime-valid: they hold at every release, however often they are read.

The release of one side after t blocks is ``C = sum of Y + noise``: outcomes Y in [0, 1] of n decisions, and
one draw of Laplace noise of scale b for each block. The estimand is the mean probability of being served over
the decisions so far: m, the average of the conditional means of Y given everything before, in the order in
which decisions are released. These means may drift, as learners do. With several segments that is not the
order of serving: a block may be released while blocks of others, whose releases its learner used, are open.

*Guarantee.* For all releases of a period simultaneously, with probability at least 1 - ``error`` over
outcomes and noise, m is in `share_interval`; likewise the difference of both sides is in `lift_interval`.

*Proof.* Let |x| b < 1. By convexity a Y of mean u has ``E exp(x Y) <= 1 + u (e^x - 1)``, and Laplace noise
has ``E exp(x Z) = 1 / (1 - (b x)^2)``; on a grid it has at most that. So ``exp(x C) (1 - (b x)^2)^t`` over
the product of ``1 + u_i (e^x - 1)`` is a supermartingale that begins at 1, and the logarithm is concave: the
product is at most ``(1 + m (e^x - 1))^n``. A mean of such terms over rates x that were fixed in advance is
below 1 / error at all times, except with probability ``error`` (Ville). Means m for which it is not are
excluded. For two sides the product of their terms is taken, with rates ``x / (1 - h)`` and ``-x / h`` for a
hold-out of part h; the mean of the hold-out ranges over its own interval only, with a fifth of the error.

This is the usual construction of confidence sequences by mixtures; privacy adds the Laplace factor.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..online.sums import BatchTotal
from ..privacy import Gate, LaplaceNoise
from ..privacy.conversions import exact
from .config import ExperimentConfig

ROUNDED = 5e-4  # the largest rounding error of a deviation with three decimals
_POWER = 0.841621  # the normal quantile of 0.8
_VAGUE = 0.3  # intervals wider than this are not shown as numbers
_FINEST = Fraction(1, 1 << 20)
# A block has at least this many measured decisions per unit of noise scale, and at least this part of all
# decisions before it: the noise variance of all blocks together then grows with the logarithm of decisions.
_LARGE, _PART = 30.0, 0.5

Array = NDArray[np.float64]


@dataclass
class _Open:
    """The open block of a segment; lists are of (learner, hold-out)."""

    counts: list[int] = field(default_factory=lambda: [0, 0])  # of people served, in steps
    decisions: list[int] = field(default_factory=lambda: [0, 0])
    before: int = 0  # decisions of earlier blocks


class Measure:
    """The counts of people who were served, by segment; released blocks wait to be `taken`."""

    def __init__(self, total: BatchTotal, scale: float, segments: Iterable[str]) -> None:
        self._total, self._scale = total, scale
        self._one = math.floor(1 / total.step)  # one person, in steps
        self._open = {segment: _Open() for segment in segments}
        self._left: dict[str, list[dict[str, Any]]] = {segment: [] for segment in self._open}

    @classmethod
    def of(cls, config: ExperimentConfig, gate: Gate) -> Measure | None:
        """The measure that the part ``measure`` of an experiment's budget pays for; None if that is 0."""
        if not config.measure:
            return None
        share = gate.share(exact(config.share) * exact(config.measure))
        scale = Fraction(0) if not share.private else 1 / Fraction(share.epsilon)
        event = LaplaceNoise(Fraction(1), scale)
        total = BatchTotal(gate, event, _FINEST, label="parts of people who were served")
        return cls(total, float(event.scale), config.queues)

    def count(self, segment: str, baseline: bool, part: float) -> None:
        """Count a served decision, and its outcome as a part of the largest possible value."""
        block = self._open[segment]
        block.decisions[baseline] += 1
        if part:
            block.counts[baseline] += self._one if part == 1.0 else math.floor(exact(part) / self._total.step)

    def release(self, segment: str) -> None:
        """Release the counts of the block if it is large enough; its size does not depend on outcomes."""
        block = self._open[segment]
        size = sum(block.decisions)
        if size < next_block(self.every, block.before):
            return
        self._open[segment] = _Open(before=block.before + size)  # first, so that counts are released once
        noisy = self._total.noisy(np.array(block.counts, dtype=np.int64)) * float(self._total.step)
        self._left[segment].append(
            {
                "decisions": block.decisions,
                "served": [round(float(one), 3) for one in noisy],
                "deviation": round(self.deviation, 3),
            }
        )

    def taken(self, segment: str) -> list[dict[str, Any]]:
        """The blocks that were released since the last call."""
        left, self._left[segment] = self._left[segment], []
        return left

    @property
    def every(self) -> int:
        return first_block(self._scale)

    @property
    def deviation(self) -> float:
        return math.sqrt(2.0) * self._scale

    def state(self) -> dict[str, Any]:
        """The private state for `resume`, without released blocks: call `taken` first."""
        return {segment: [one.counts, one.decisions, one.before] for segment, one in self._open.items()}

    def resume(self, saved: Mapping[str, Any]) -> None:
        self._open = {segment: _Open(*saved[segment]) for segment in self._open}


def first_block(scale: float) -> int:
    """The number of decisions of the first block of shares, with noise of this scale."""
    return max(1, math.ceil(_LARGE * scale))


def next_block(first: int, before: int) -> int:
    """The number of decisions of the next block of shares, after ``before`` measured ones."""
    return max(first, math.ceil(_PART * before))


def blocks_of(first: int, decisions: int) -> int:
    """How many blocks of shares these decisions make."""
    count = before = 0
    while before + (size := next_block(first, before)) <= decisions:
        before, count = before + size, count + 1
    return count


@dataclass(frozen=True)
class Estimate:
    """A share, or a difference of two, with its confidence interval."""

    value: float
    low: float
    high: float

    @property
    def known(self) -> bool:
        """Whether the interval is narrow enough for the value to be shown."""
        return self.high - self.low <= _VAGUE


@dataclass(frozen=True)
class Point:
    """The sums of a period at the time of a release; pairs are of (learner, hold-out)."""

    at: float
    epoch: int
    decisions: tuple[int, int]
    served: tuple[float, float]
    blocks: int
    scale: float
    holdout: float

    @cached_property
    def learned(self) -> Estimate | None:
        return self._share(0)

    @cached_property
    def control(self) -> Estimate | None:
        return self._share(1)

    @cached_property
    def lift(self) -> Estimate | None:
        """The share of people served by the learner's sets, minus that of the hold-out's sets."""
        if self.learned is None or self.control is None or not self.holdout:
            return None
        found = lift_interval(self.served, self.decisions, self.blocks, self.scale, self.holdout)
        return Estimate(self.learned.value - self.control.value, float(found[0]), float(found[1]))

    def _share(self, side: int) -> Estimate | None:
        served, decisions = self.served[side], self.decisions[side]
        if not decisions:
            return None
        low, high = share_interval(served, decisions, self.blocks, self.scale)
        return Estimate(min(max(served / decisions, 0.0), 1.0), float(low), float(high))

    def to_json(self) -> dict[str, Any]:
        """The values shown on pages, for programs."""
        told = {name: getattr(self, name) for name in ("learned", "control", "lift")}
        return {"at": self.at, "epoch": self.epoch, "decisions": list(self.decisions)} | {
            name: None if one is None else asdict(one) | {"known": one.known} for name, one in told.items()
        }


class Progress:
    """The shares of an experiment, release by release; ``holdout`` is its configured part."""

    def __init__(self, holdout: float) -> None:
        self.seq = 0
        self.points: list[Point] = []
        self._holdout, self._epoch = holdout, -1
        self._begin()

    def _begin(self) -> None:
        self._decisions, self._served, self._blocks, self._scale = [0, 0], [0.0, 0.0], 0, 0.0

    def add(self, releases: Iterable[Mapping[str, Any]]) -> None:
        """Add releases, oldest first, with ``seq``, ``epoch``, ``at`` and ``shares``."""
        for release in releases:
            self.seq = release["seq"]
            if release["epoch"] != self._epoch:
                self._epoch = release["epoch"]
                self._begin()
            for block in release["shares"]:
                for side in (0, 1):
                    self._decisions[side] += block["decisions"][side]
                    self._served[side] += block["served"][side]
                self._blocks += 1
                self._scale = max(self._scale, (block["deviation"] + ROUNDED) / math.sqrt(2.0))
            if release["shares"]:
                (first, second), served = self._decisions, (self._served[0], self._served[1])
                known = (self._blocks, self._scale, self._holdout)
                self.points.append(Point(release["at"], self._epoch, (first, second), served, *known))

    @property
    def last(self) -> Point | None:
        return self.points[-1] if self.points else None

    def thinned(self, most: int = 400) -> list[Point]:
        """At most ``most`` of the points, the last one among them."""
        step = max(1, math.ceil(len(self.points) / most))
        return self.points[::-1][::step][::-1]


def series(points: Iterable[Point]) -> dict[str, list[float | None]]:
    """Columns for a chart, of shares that are `known`; a new period begins after a gap."""
    columns: dict[str, list[float | None]] = {name: [] for name in COLUMNS}
    before = None
    for point in points:
        if before is not None and before.epoch != point.epoch:
            _row(columns, (before.at + point.at) / 2, [None] * (len(COLUMNS) - 1))
        row: list[float | None] = [float(sum(point.decisions))]
        for share in (point.learned, point.control):
            row += [share.value, share.low, share.high] if share is not None and share.known else [None] * 3
        if row[1] is not None:
            _row(columns, point.at, row)
        before = point
    return columns


COLUMNS = (
    *("at", "decisions", "learned", "learned_low", "learned_high"),
    *("control", "control_low", "control_high"),
)


def _row(columns: dict[str, list[float | None]], at: float, rest: list[float | None]) -> None:
    for name, value in zip(COLUMNS, [at, *rest], strict=True):
        columns[name].append(None if value is None else round(value, 5))


# --- before it begins -----------------------------------------------------------------------------------


def min_detectable(people: int, *, scale: ArrayLike, holdout: ArrayLike, segments: int = 1) -> NDArray[Any]:
    """Minimum detectable lift (80 % power) after ``people`` decisions, at most 1; 1 before any release.

    ``scale`` is that of the noise on a count. The lift is the upper end of the interval where both shares are
    one half, which makes it widest, plus a margin for sampling error and noise that gives the power.
    """
    wide, held = np.broadcast_arrays(np.asarray(scale, float), np.asarray(holdout, float))
    firsts = [first_block(one) for one in wide.flat]
    blocks = np.reshape([blocks_of(one, people // segments) * segments for one in firsts], wide.shape)
    decisions = people * np.stack([1.0 - held, held], axis=-1)
    _, high = lift_interval(decisions / 2, decisions, blocks, wide, held)
    chance = np.sum(0.25 / decisions, axis=-1)
    noise = 2.0 * wide**2 * blocks * np.sum(decisions**-2.0, axis=-1)
    found: NDArray[Any] = np.where(blocks > 0, np.minimum(high + _POWER * np.sqrt(chance + noise), 1.0), 1.0)
    return found


# --- anytime-valid intervals -----------------------------------------------------------------------------

ERROR = 0.05
_RATES = 2.0 ** -np.arange(12)  # relative to the largest that the noise allows: for up to some 10^9 decisions
_ROUNDED = 1e-3  # a bound on the rounding errors of a count and a deviation with three decimals
_GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0


def share_interval(
    counts: ArrayLike, decisions: ArrayLike, blocks: ArrayLike, scale: ArrayLike, error: float = ERROR
) -> tuple[Array, Array]:
    """The interval of a share, of ``decisions`` in ``blocks``, with noise of ``scale`` on each block.

    >>> low, high = share_interval(300.0, 1000, 4, 5.0)
    >>> bool(0.2 < low < 0.3 < high < 0.4)
    True
    """
    count, number, many, noise = _arrays(counts, decisions, blocks, scale)
    low = _share_low(count, number, many, noise, error / 2)
    return low, 1.0 - _share_low(number - count, number, many, noise, error / 2)


def lift_interval(
    counts: ArrayLike,
    decisions: ArrayLike,
    blocks: ArrayLike,
    scale: ArrayLike,
    holdout: ArrayLike,
    error: float = ERROR,
) -> tuple[Array, Array]:
    """The interval of the difference of two shares; the last axis of counts and decisions is of both sides.

    >>> low, high = lift_interval([2400.0, 300.0], [8000, 2000], 8, 3.0, 0.2)
    >>> bool(0.08 < low < 0.15 < high < 0.22)
    True
    """
    both, numbers = np.asarray(counts, dtype=float), np.asarray(decisions, dtype=float)
    many, noise, part = np.broadcast_arrays(*_arrays(blocks, scale, holdout))
    rest = share_interval(both[..., 1], numbers[..., 1], many, noise, error / 5)
    told = 0.4 * error  # for each end; the remaining fifth is the hold-out's
    low = _lift_low(both, numbers, many, noise, part, rest, told)
    other = (1.0 - rest[1], 1.0 - rest[0])
    return low, -_lift_low(numbers - both, numbers, many, noise, part, other, told)


def _share_low(count: Array, decisions: Array, blocks: Array, scale: Array, error: float) -> Array:
    rates = _rates(scale)
    counted = rates * _last(count - _ROUNDED * blocks) + _last(blocks) * _noise(scale, rates)

    def excess(mean: Array) -> Array:
        return _mixed(counted - _last(decisions) * np.log1p(_last(mean) * np.expm1(rates)))

    return _first(excess, np.zeros_like(count), np.ones_like(count), error)


def _lift_low(
    counts: Array,
    decisions: Array,
    blocks: Array,
    scale: Array,
    holdout: Array,
    rest: tuple[Array, Array],
    error: float,
) -> Array:
    own = _rates(scale) * _last(holdout / (1.0 - holdout))
    other = -_rates(scale)
    slack = _ROUNDED * blocks
    counted = own * _last(counts[..., 0] - slack) + other * _last(counts[..., 1] + slack)
    counted = counted + _last(blocks) * (_noise(scale, own) + _noise(scale, other))

    def at(lift: Array, mean: Array) -> Array:
        learned = _last(decisions[..., 0]) * np.log1p(_last(mean + lift) * np.expm1(own))
        return _mixed(counted - learned - _last(decisions[..., 1]) * np.log1p(_last(mean) * np.expm1(other)))

    def excess(lift: Array) -> Array:
        """The minimum over means of the hold-out, in which it is convex."""
        low = np.maximum(rest[0], -lift)
        high = np.maximum(np.minimum(rest[1], 1.0 - lift), low)
        for _ in range(24):
            first, second = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
            left = at(lift, first) < at(lift, second)
            low, high = np.where(left, low, first), np.where(left, second, high)
        return at(lift, (low + high) / 2)

    # Outside of these bounds, no mean in the hold-out's interval keeps the learner's mean in [0, 1].
    return _first(excess, -rest[1], 1.0 - rest[0], error)


def _first(excess: Callable[[Array], Array], low: Array, high: Array, error: float) -> Array:
    """The smallest value that is not excluded, by bisection; ``excess`` is decreasing."""
    for _ in range(24):
        middle = (low + high) / 2
        out = excess(middle) >= -math.log(error)
        low, high = np.where(out, middle, low), np.where(out, high, middle)
    return low


def _rates(scale: Array) -> Array:
    return _last(0.9 / np.maximum(scale, 0.5)) * _RATES


def _noise(scale: Array, rates: Array) -> Array:
    return np.log1p(-((_last(scale) * rates) ** 2))


def _mixed(logs: Array) -> Array:
    """The logarithm of the mean of the exponentials over the last axis."""
    most = logs.max(axis=-1)
    found: Array = most + np.log(np.exp(logs - _last(most)).mean(axis=-1))
    return found


def _last(values: Array) -> Array:
    return values[..., np.newaxis]


def _arrays(*values: ArrayLike) -> list[Any]:
    return [np.asarray(one, dtype=float) for one in values]
