"""The search for the numbers with which a bandit learner certifies most, within what may be spent."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ...bounds import bandit as limits
from ...privacy import LaplaceNoise, Share
from ...privacy.conversions import exact
from ..select.selector import rate_within, score_range

if TYPE_CHECKING:
    from .settings import BanditSettings

# Measured on streams of several kinds: with fewer tries of each item, exploring half of the time serves less
# than sets at random do.
_FEWEST_TRIES = 4
_SELDOM = 32


@dataclass(frozen=True)
class Search:
    """What is asked, and what may be spent; ``make`` makes settings of the numbers that are being tried."""

    n_items: int
    k: int
    rounds: int
    bound: float
    share: Share
    make: Callable[..., BanditSettings]

    def blocks(self, rate: float | str | None, block: int | None, repeats: int | None) -> BanditSettings:
        """Blocks with noisy sums.

        A horizon that is too short for every expert to try every item a few times cannot pay for exploring,
        and nothing is certified for it: then one round in ``_SELDOM`` explores.
        """
        options = self._blocks(rate, block, repeats)
        if rate is None:
            best = min(options, key=lambda one: one.leading_terms)
        else:
            best = min(options, key=lambda one: one.unclipped_regret)
        if block is None and self.rounds < _FEWEST_TRIES * self.n_items * best.block:
            times = repeats or 1
            best = next(self._blocks(rate, max(best.block, _SELDOM * self.k * times), times))
        return best

    def _blocks(
        self, rate: float | str | None, block: int | None, repeats: int | None
    ) -> Iterator[BanditSettings]:
        # Averaging more often than this makes the noise of a sample smaller than the values' own spread.
        most = 1
        if self.share.private:
            most = max(1, min(self.rounds // self.k, math.ceil(8.0 / float(self.share.epsilon))))
        for times in (repeats,) if repeats is not None else _grid(1, most):
            noise = self.noise(self.bound, times)
            # Half of the rounds at most explore: whoever cannot learn in those would only show short sets.
            least = 2 * self.k * times
            for length in (block,) if block is not None else _grid(least, max(self.rounds, least)):
                if length < self.k * times:
                    continue
                fixed = None if isinstance(rate, str) else rate
                if rate == "certified":
                    samples, scale = self.rounds / length, float(noise.scale) / times
                    fixed = limits.best_fixed_rate(self.n_items, samples, scale, self.bound)
                yield self.make(block=length, repeats=times, rate=fixed, noise=noise)

    def presampled(self, rate: float | None, block: int | None) -> BanditSettings:
        """Blocks without noise; sets are drawn once per block."""
        lengths = (block,) if block is not None else _grid(self.k, max(self.rounds, self.k))
        options = (
            self.make(block=length, rate=rate or self._rate(length, self.rounds / length))
            for length in lengths
        )
        return min(options, key=lambda one: one.unclipped_regret)

    def coins(
        self, rate: float | None, exploration_rate: float | None, block: int | None, *, every_round: bool
    ) -> BanditSettings:
        """Coins that decide which rounds explore, and a timetable of new sets, or one in every round."""

        def options() -> Iterator[BanditSettings]:
            chances: Iterable[float] = (
                _chances(self.rounds) if exploration_rate is None else [exploration_rate]
            )
            for chance in chances:
                every = 1 if every_round else min(self.rounds, max(1, round(self.k / chance)))
                every = every if block is None else block
                learned = rate or self._rate(every, self.rounds * chance / self.k)
                yield self.make(block=every, rate=learned, exploration_rate=chance)

        return min(options(), key=lambda one: one.unclipped_regret)

    def _rate(self, every: int, samples: float) -> float:
        """The best rate for so many samples an expert, or the largest for a new set every so many rounds."""
        wanted = limits.best_fixed_rate(self.n_items, samples, 0.0, self.bound)
        return rate_within(self.share, self.bound, redraws(self.rounds, every), wanted)

    def slots(self, block: int | None) -> BanditSettings:
        """Counts with noise; the first block is long enough to show an item more often than noise is wide."""
        noise = self.noise(score_range(self.bound, self.share.neighbours), self.rounds)
        if block is None:
            shows = 8.0 * max(1.0, float(noise.scale) / self.bound)
            block = max(1, min(math.ceil(shows * self.n_items / self.k), self.rounds // 8))
        return self.make(block=block, noise=noise)

    def noise(self, sensitivity: float, terms: int) -> LaplaceNoise:
        """The noise that has to be on sums of ``terms`` values up to the bound.

        A noise scale is 2^32 steps. Where an enormous epsilon asks for steps so fine that such a sum would
        not fit into 63 bits, the noise is wider than asked for.
        """
        asked = LaplaceNoise.within(self.share, sensitivity, 1, self.share.notion)
        if not self.share.private:
            return asked
        return replace(asked, scale=max(exact(asked.scale), exact(self.bound) * terms / 2**30))


def redraws(rounds: int, every: int) -> int:
    """Sets after the first, which is drawn before anybody has been learned from."""
    return -(-rounds // every) - 1


def _grid(least: int, most: int) -> list[int]:
    """Whole numbers from ``least`` to ``most``, each some tenth larger than the one before."""
    found, at = [], least
    while at < most:
        found.append(at)
        at = max(at + 1, round(at * 1.1))
    return [*found, most]


def _chances(rounds: int) -> list[float]:
    steps = max(1, math.ceil(math.log(rounds) / math.log(1.1)))
    return [1.1**-i for i in range(steps)]
