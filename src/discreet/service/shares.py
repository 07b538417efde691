"""Shares of people served, from released counts: how they grew, how sure they are, and the lift.

All of this is made of releases that have been paid for. Each block of places released two noisy counts, for
the learner's sets and for the random ones of the hold-out. Counts of a period add up, and so do the variances
of their noise, which are known.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

SURE = 1.959964  # standard deviations to either side that hold 95 %


@dataclass(frozen=True)
class Share:
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
    """What was known at a time: of so many places, the learner's share and the hold-out's."""

    at: float
    epoch: int
    places: tuple[int, int]
    learned: Share | None
    random: Share | None

    @property
    def lift(self) -> Share | None:
        """How much more of the people the learner's sets serve than random ones."""
        if self.learned is None or self.random is None:
            return None
        return Share(
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
        self._places, self._served, self._variance = [0, 0], [0.0, 0.0], [0.0, 0.0]

    def add(self, releases: Iterable[Mapping[str, Any]]) -> None:
        """Take up releases, oldest first, with ``seq``, ``epoch``, ``at`` and ``shares``."""
        for release in releases:
            self.seq = release["seq"]
            if release["epoch"] != self._epoch:
                self._epoch = release["epoch"]
                self._places, self._served, self._variance = [0, 0], [0.0, 0.0], [0.0, 0.0]
            for block in release["shares"]:
                for side in (0, 1):
                    self._places[side] += block["places"][side]
                    self._served[side] += block["served"][side]
                    self._variance[side] += block["deviation"] ** 2
            if release["shares"]:
                first, second = self._places
                shares = self._share(0), self._share(1)
                self.points.append(Point(release["at"], self._epoch, (first, second), *shares))

    @property
    def last(self) -> Point | None:
        """What is known now."""
        return self.points[-1] if self.points else None

    def thinned(self, most: int = 400) -> list[Point]:
        """At most so many of the points, the last one among them."""
        step = max(1, math.ceil(len(self.points) / most))
        return self.points[::-1][::step][::-1]

    def _share(self, side: int) -> Share | None:
        places = self._places[side]
        if not places:
            return None
        value = min(max(self._served[side] / places, 0.0), 1.0)
        noise = math.sqrt(self._variance[side]) / places
        chance = value * (1.0 - value) / places  # no value in [0, 1] of this mean varies more
        return Share(value, noise, math.sqrt(noise**2 + chance))


def series(points: Iterable[Point]) -> dict[str, list[float | None]]:
    """Columns for a chart; a new period begins after a gap."""
    columns: dict[str, list[float | None]] = {name: [] for name in COLUMNS}
    before = None
    for point in points:
        if before is not None and before.epoch != point.epoch:
            _row(columns, (before.at + point.at) / 2, [None] * (len(COLUMNS) - 1))
        row: list[float | None] = [float(sum(point.places))]
        for share in (point.learned, point.random):
            row += [None] * 3 if share is None else [share.value, *share.band]
        _row(columns, point.at, row)
        before = point
    return columns


COLUMNS = ("at", "places", "learned", "learned_low", "learned_high", "random", "random_low", "random_high")


def _row(columns: dict[str, list[float | None]], at: float, rest: list[float | None]) -> None:
    for name, value in zip(COLUMNS, [at, *rest], strict=True):
        columns[name].append(None if value is None else round(value, 5))
