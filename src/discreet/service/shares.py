"""Shares of people served: counts that leave in blocks, how shares grew, how sure they are, and the lift.

Beside what a learner releases, the parts of people who were served leave in blocks of decisions, for the
learner's sets and for the random ones of the hold-out. Each round is in one block, of its segment, and moves
one of the two counts by at most 1 (values are divided by their ``bound``): Laplace noise for sensitivity 1,
charged once for disjoint blocks, at what the budget has for one of a person's rounds. Where blocks end
depends on decisions and segments, which are public. Counts of a period add up, and so do the variances of
their noise, which are known.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from ..online.sums import BatchTotal
from ..privacy import Gate, LaplaceNoise
from ..privacy.conversions import exact
from .config import ExperimentConfig

SURE = 1.959964  # standard deviations to either side that hold 95 %
_FINEST = Fraction(1, 1 << 20)
# A block of measured decisions is at least this many times as large as the noise, and this part of all
# decisions before it: the noise of all blocks together then grows with the logarithm of their number.
_LARGE, _PART = 30.0, 0.2


@dataclass
class _Open:
    """The open block of a segment; of the learner and of the hold-out."""

    counts: list[int] = field(default_factory=lambda: [0, 0])  # of people served, in steps
    decisions: list[int] = field(default_factory=lambda: [0, 0])
    before: int = 0  # decisions of earlier blocks


class Measure:
    """The counts of people who were served, by segment; what has left waits to be `taken`."""

    def __init__(self, total: BatchTotal, scale: float, segments: Iterable[str]) -> None:
        self._total, self._scale = total, scale
        self._one = math.floor(1 / total.step)  # a whole person, in steps
        self._open = {segment: _Open() for segment in segments}
        self._left: dict[str, list[dict[str, Any]]] = {segment: [] for segment in self._open}

    @classmethod
    def of(cls, config: ExperimentConfig, gate: Gate) -> Measure | None:
        """What a part of an experiment's budget pays for; None without one."""
        if not config.measure:
            return None
        share = gate.share(exact(config.share) * exact(config.measure))
        scale = Fraction(0) if not share.private else 1 / Fraction(share.epsilon)
        event = LaplaceNoise(Fraction(1), scale)
        total = BatchTotal(gate, event, _FINEST, label="parts of people who were served")
        return cls(total, float(event.scale), config.queues)

    def count(self, segment: str, baseline: bool, part: float) -> None:
        """A decision that was served, and which part of what could be had somebody had there."""
        block = self._open[segment]
        block.decisions[baseline] += 1
        if part:
            block.counts[baseline] += self._one if part == 1.0 else math.floor(exact(part) / self._total.step)

    def release(self, segment: str) -> None:
        """Release the counts of a block that is large enough; how large depends on no outcome."""
        block = self._open[segment]
        size = sum(block.decisions)
        if size < next_block(self.every, block.before):
            return
        self._open[segment] = _Open(before=block.before + size)  # first: they leave once
        noisy = self._total.noisy(np.array(block.counts, dtype=np.int64)) * float(self._total.step)
        self._left[segment].append(
            {
                "decisions": block.decisions,
                "served": [round(float(one), 3) for one in noisy],
                "deviation": round(self.deviation, 3),
            }
        )

    def taken(self, segment: str) -> list[dict[str, Any]]:
        """The blocks that have left since this was asked last."""
        left, self._left[segment] = self._left[segment], []
        return left

    @property
    def every(self) -> int:
        return max(1, math.ceil(_LARGE * self._scale))

    @property
    def deviation(self) -> float:
        return math.sqrt(2.0) * self._scale

    def state(self) -> dict[str, Any]:
        """For `resume`, once everything that has left was taken: private."""
        return {segment: [one.counts, one.decisions, one.before] for segment, one in self._open.items()}

    def resume(self, saved: Mapping[str, Any]) -> None:
        self._open = {segment: _Open(*saved[segment]) for segment in self._open}


def next_block(first: int, before: int) -> int:
    """How many decisions the next block of shares has, after ``before`` measured ones."""
    return max(first, math.ceil(_PART * before))


def blocks_of(first: int, decisions: int) -> int:
    """How many blocks of shares these decisions make."""
    count = before = 0
    while before + (size := next_block(first, before)) <= decisions:
        before, count = before + size, count + 1
    return count


@dataclass(frozen=True)
class Estimate:
    """A share with the standard deviations of its noise, and of noise and chance together."""

    value: float
    noise: float
    deviation: float

    @property
    def margin(self) -> float:
        """How far off it may be, with 95 % probability."""
        return SURE * self.deviation

    @property
    def band(self) -> tuple[float, float]:
        """What 95 % of the noise leaves, from 0 to 1."""
        low, high = self.value - SURE * self.noise, self.value + SURE * self.noise
        return min(max(low, 0.0), 1.0), min(max(high, 0.0), 1.0)


@dataclass(frozen=True)
class Point:
    """What was known at a time: of how many decisions, the learner's share and the hold-out's."""

    at: float
    epoch: int
    decisions: tuple[int, int]
    learned: Estimate | None
    random: Estimate | None

    @property
    def lift(self) -> Estimate | None:
        """How much more of the people the learner's sets serve than random ones."""
        if self.learned is None or self.random is None:
            return None
        return Estimate(
            self.learned.value - self.random.value,
            math.hypot(self.learned.noise, self.random.noise),
            math.hypot(self.learned.deviation, self.random.deviation),
        )


class Progress:
    """The shares of an experiment, growing with its releases."""

    def __init__(self) -> None:
        self.seq = 0
        self.points: list[Point] = []
        self._epoch = -1
        self._decisions, self._served, self._variance = [0, 0], [0.0, 0.0], [0.0, 0.0]

    def add(self, releases: Iterable[Mapping[str, Any]]) -> None:
        """Take up releases, oldest first, with ``seq``, ``epoch``, ``at`` and ``shares``."""
        for release in releases:
            self.seq = release["seq"]
            if release["epoch"] != self._epoch:
                self._epoch = release["epoch"]
                self._decisions, self._served, self._variance = [0, 0], [0.0, 0.0], [0.0, 0.0]
            for block in release["shares"]:
                for side in (0, 1):
                    self._decisions[side] += block["decisions"][side]
                    self._served[side] += block["served"][side]
                    self._variance[side] += block["deviation"] ** 2
            if release["shares"]:
                first, second = self._decisions
                shares = self._share(0), self._share(1)
                self.points.append(Point(release["at"], self._epoch, (first, second), *shares))

    @property
    def last(self) -> Point | None:
        return self.points[-1] if self.points else None

    def thinned(self, most: int = 400) -> list[Point]:
        """At most ``most`` of the points, the last one among them."""
        step = max(1, math.ceil(len(self.points) / most))
        return self.points[::-1][::step][::-1]

    def _share(self, side: int) -> Estimate | None:
        decisions = self._decisions[side]
        if not decisions:
            return None
        value = min(max(self._served[side] / decisions, 0.0), 1.0)
        noise = math.sqrt(self._variance[side]) / decisions
        chance = value * (1.0 - value) / decisions  # no value in [0, 1] of this mean varies more
        return Estimate(value, noise, math.sqrt(noise**2 + chance))


def series(points: Iterable[Point]) -> dict[str, list[float | None]]:
    """Columns for a chart; a new period begins after a gap."""
    columns: dict[str, list[float | None]] = {name: [] for name in COLUMNS}
    before = None
    for point in points:
        if before is not None and before.epoch != point.epoch:
            _row(columns, (before.at + point.at) / 2, [None] * (len(COLUMNS) - 1))
        row: list[float | None] = [float(sum(point.decisions))]
        for share in (point.learned, point.random):
            row += [None] * 3 if share is None else [share.value, *share.band]
        _row(columns, point.at, row)
        before = point
    return columns


COLUMNS = ("at", "decisions", "learned", "learned_low", "learned_high", "random", "random_low", "random_high")


def _row(columns: dict[str, list[float | None]], at: float, rest: list[float | None]) -> None:
    for name, value in zip(COLUMNS, [at, *rest], strict=True):
        columns[name].append(None if value is None else round(value, 5))
