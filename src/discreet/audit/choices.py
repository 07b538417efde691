"""The audit of what protects people by choices: every transcript is enumerated."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from ..privacy import Coins
from . import black_box, exact, faults, sampled
from .cases import RELATIVE, SLACK, Case, Effort, hashable
from .exact import Pair
from .hooks import Floats

# Runs times the squared distance of two distributions at which a chi-square test tells them apart.
_SURELY, _MOST_RUNS = 120.0, 4000.0
# Neighbours that are looked at for a gross error; extreme ones, which come first, will do.
_LOOKED_AT = 24
# The most runs per world with which outputs alone are to prove something gross.
_MOST_TO_PROVE = 12_000
_SHARES = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)


@dataclass(frozen=True)
class ChoiceCase(Case):
    """What is published is discrete and follows from choices, every one of which is enumerated.

    ``alike`` says which candidates of a choice lead to the same (see `exact.distribution`), so that settings
    with many of them can still be enumerated.
    """

    alike: exact.Alike | None = None

    def _distribution(self, stream: Floats) -> exact.Distribution:
        return exact.distribution(lambda: hashable(self.play(stream, self.source(0)).published), self.alike)

    def _searched(self, delta: float | None = None) -> Callable[[Pair], float]:
        known, at = exact.cached(self._distribution), self.budget.delta if delta is None else delta

        def loss(pair: Pair) -> float:
            return exact.exact_epsilon(known(pair.here), known(pair.there), at)

        return loss

    def compare(self, pair: Pair) -> tuple[float, float]:
        p, q = self._distribution(pair.here), self._distribution(pair.there)
        account = self.play(pair.here, self.source(0)).account()
        excess = 0.0
        whole = min(account.pure, 4.0 * self.budget.epsilon)
        for share in _SHARES:
            gap = exact.hockey_stick(p, q, share * whole) - account.delta(share * whole)
            excess = max(excess, gap - SLACK)
        largest = exact.exact_epsilon(p, q, 0.0)
        if math.isfinite(account.pure):
            excess = max(excess, largest - account.pure * (1.0 + SLACK) - SLACK)
        return exact.exact_epsilon(p, q, self.budget.delta), max(0.0, excess)

    # --- real runs ---------------------------------------------------------------------------------

    def _outputs(self, stream: Floats, runs: int, first: int = 0) -> list[Hashable]:
        return [hashable(self.play(stream, self.source(first + seed)).published) for seed in range(runs)]

    def _telling(self, pair: Pair, fault: faults.Fault) -> tuple[Floats, exact.Distribution, int]:
        """The people who show a fault most, their sound probabilities, and enough runs to see it."""
        starts = self.space.starts(Coins.seeded(1).generator)
        best: tuple[float, Floats, exact.Distribution] | None = None
        for stream in (pair.here, pair.there, *(next(starts).here for _ in range(6))):
            sound = self._distribution(stream)
            with fault():
                changed = self._distribution(stream)
            distance = sum((changed.get(o, 0.0) - p) ** 2 / p for o, p in sound.items() if p > 0.01)
            if best is None or distance > best[0]:
                best = distance, stream, sound
        assert best is not None
        return best[1], best[2], math.ceil(min(_SURELY / max(best[0], 1e-9), _MOST_RUNS))

    def real_runs(self, pair: Pair, effort: Effort) -> tuple[float, float]:
        runs = self.runs * effort.runs
        if effort.deep:
            pair = self._provable_pair(pair, runs, effort.evaluations // 2)
        p, q = self._distribution(pair.here), self._distribution(pair.there)
        here, there = self._outputs(pair.here, runs), self._outputs(pair.there, runs, first=runs)
        fits = [sampled.chi_square(here, p), sampled.chi_square(there, q)]
        fits += self._fits_beside_faults(pair, effort, first=2 * runs)
        bound = black_box.epsilon_lower_bound(*_ratios(p, q, here, there), self.budget.delta)
        return min(1.0, len(fits) * min(fits)), bound

    def _fits_beside_faults(self, pair: Pair, effort: Effort, first: int) -> list[float]:
        """Sound p-values among the people who show injected faults of the sampler."""
        fits = []
        for name in self.faults:
            fault = faults.SAMPLED.get(name)
            if fault is not None and fault not in faults.OF_NOISE:
                stream, sound, count = self._telling(pair, fault)
                seen = self._outputs(stream, max(count, effort.runs), first=first)
                fits.append(sampled.chi_square(seen, sound))
        return fits

    def _provable_pair(self, pair: Pair, runs: int, evaluations: int) -> Pair:
        """Neighbours of whom so many outputs prove most: the worst ones may differ in rare outcomes only."""
        known = exact.cached(self._distribution)

        def proved(pair: Pair) -> float:
            p, q = exact.paired(known(pair.here), known(pair.there))
            # Without any bound the distance still says which way to go.
            return max(0.0, black_box.provable(p, q, runs, self.budget.delta)) + 1e-3 * float(
                np.abs(p - q).sum()
            )

        return self._worst(proved, evaluations, seed=2, extra=(pair,))

    def sampler_notices(self, fault: faults.Fault, pair: Pair, effort: Effort) -> bool:
        stream, sound, count = self._telling(pair, fault)
        with fault():
            seen = self._outputs(stream, max(count, effort.runs))
        return sampled.chi_square(seen, sound) <= sampled.NEVER

    def outputs_notice(self, name: str, fault: faults.Fault, pair: Pair, effort: Effort) -> bool:  # noqa: ARG002
        found = self._clear_pair(fault, pair, effort)
        if found is None:
            return False
        clear, runs = found
        with fault():
            here, there = self._outputs(clear.here, runs), self._outputs(clear.there, runs, first=runs)
        # Scored by what a sound library would do: outputs alone do not show what the fault is.
        p, q = self._distribution(clear.here), self._distribution(clear.there)
        bound = black_box.epsilon_lower_bound(*_ratios(p, q, here, there), self.budget.delta)
        return bound > self._claim(clear) * (1.0 + RELATIVE)

    def _clear_pair(self, fault: faults.Fault, pair: Pair, effort: Effort) -> tuple[Pair, int] | None:
        """Neighbours whose outputs show the fault, and enough runs; None if it would take too many."""
        claim, delta = self._claim(pair), self.budget.delta
        with fault():
            known = exact.cached(self._distribution)

            def distance(pair: Pair) -> float:
                return exact.hockey_stick(known(pair.here), known(pair.there), claim)

            clear = self._worst(distance, min(effort.evaluations, _LOOKED_AT), seed=2, extra=(pair,))
            p, q = exact.paired(known(clear.here), known(clear.there))
        runs = black_box.runs_needed(p, q, claim * (1.0 + RELATIVE), delta, _MOST_TO_PROVE)
        return None if runs is None else (clear, runs)


# Likelihood ratios beyond this tell the same; infinite ones have no middle.
_BEYOND = 1e4


def log_ratio(p: exact.Distribution, q: exact.Distribution, outcome: Hashable) -> float:
    """The logarithm of how much likelier an outcome is under ``p``; 0 if it is impossible under both."""
    here, there = p.get(outcome, 0.0), q.get(outcome, 0.0)
    if here == 0.0 or there == 0.0:
        return 0.0 if here == there else math.copysign(_BEYOND, here - there)
    return math.log(here) - math.log(there)


def _ratios(
    p: exact.Distribution, q: exact.Distribution, here: Sequence[Hashable], there: Sequence[Hashable]
) -> tuple[Floats, Floats]:
    """Logarithms of likelihood ratios of outputs, as scores."""
    first, second = (np.array([log_ratio(p, q, outcome) for outcome in seen]) for seen in (here, there))
    return first, second
