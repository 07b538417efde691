"""The audit of what protects people by noise: the exact effect of every number of it is known."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..privacy import Coins
from . import black_box, exact, faults, hooks, sampled
from .cases import RELATIVE, SLACK, Case, Effort
from .exact import Pair
from .hooks import Floats, Source

# A vectorised mechanism is run so many times as often.
_AT_ONCE = 200
# So many numbers tell noise from noise of half the width with near certainty.
_NUMBERS = 800
# Runs that are planned for outputs that tell every time are this many times as many.
_SPARE = 1.05


@dataclass(frozen=True)
class NoiseCase(Case):
    """What protects people is noise, and the exact effect of every number of it is known.

    Vectors that leave through a gate or a running sum are overheard, and answered from a script. ``watched``:
    where noise is drawn elsewhere, what a run publishes (a list of vectors) is compared instead. ``spread``
    is the size of scripted answers. ``many`` makes independent runs of a mechanism at once, a number each.
    """

    watched: bool = False
    spread: float = 3.0
    many: Callable[[Floats, int, Source], Floats] | None = None

    def _answers(self, number: int, size: int) -> Floats:
        return Coins.seeded(number).generator.uniform(-self.spread, self.spread, size)

    def _observe(self, stream: Floats, seed: int = 0) -> exact.Observe:
        def observe(script: hooks.Script | None) -> tuple[list[Floats], hooks.Drawn]:
            with hooks.scripted_noise(script) as drawn:
                if self.watched:
                    return self._parts(stream, seed), drawn
                with hooks.overheard(self._answers) as heard:
                    self.play(stream, self.source(seed))
                return heard, drawn

        return observe

    def _parts(self, stream: Floats, seed: int) -> list[Floats]:
        played = self.play(stream, self.source(seed)).published
        return [np.asarray(part, dtype=np.float64).ravel() for part in played]

    def _published(self, stream: Floats, seed: int) -> Floats:
        return np.concatenate(self._parts(stream, seed))

    def _loss(self, pair: Pair, known: exact.NoiseMap | None = None) -> tuple[float, str]:
        here, there = self._observe(pair.here), self._observe(pair.there)
        if self.watched:
            return exact.coupled_loss(here, there), "laplace"
        noise = exact.noise_map(here) if known is None else known
        moved = np.concatenate(here(exact.quiet)[0]) - np.concatenate(there(exact.quiet)[0])
        return noise.loss(moved), noise.law

    def _searched(self, delta: float | None = None) -> Callable[[Pair], float]:  # noqa: ARG002
        known: list[exact.NoiseMap] = []

        def loss(pair: Pair) -> float:
            if not known and not self.watched:
                known.append(exact.noise_map(self._observe(pair.here)))
            return self._loss(pair, known[0] if known else None)[0]

        return loss

    def compare(self, pair: Pair) -> tuple[float, float]:
        loss, law = self._loss(pair)
        if not self.watched and self._past_the_gate(pair):
            loss = math.inf
        account = self.play(pair.here, self.source(0)).account()
        if law != "gaussian":
            return loss, max(0.0, loss - account.pure * (1.0 + RELATIVE))
        excess = 0.0
        for share in (0.25, 0.5, 1.0, 1.5):
            epsilon = share * self.budget.epsilon
            allowed = account.delta(epsilon)
            gap = exact.gaussian_delta(loss * (1.0 - RELATIVE), epsilon) - allowed * (1.0 + RELATIVE)
            excess = max(excess, gap - SLACK * self.budget.delta)
        return exact.gaussian_epsilon(loss, self.budget.delta), max(0.0, excess)

    def _past_the_gate(self, pair: Pair) -> bool:
        """Whether what is shown differs between neighbours of whom the same numbers have left."""
        shown = []
        for stream in (pair.here, pair.there):
            with hooks.scripted_noise(exact.quiet), hooks.overheard(self._answers):
                shown.append(self._published(stream, 0))
        return shown[0].shape != shown[1].shape or exact.differ(*shown)

    # --- the sampler -------------------------------------------------------------------------------

    def real_runs(self, pair: Pair, effort: Effort) -> tuple[float, float]:
        fit = min(1.0, self._noise_fit(pair, _NUMBERS * (4 if effort.deep else 1)))
        delta, mistake = self.budget.delta, black_box.MISTAKE
        few, many = self._few_runs(pair), self.runs * effort.runs
        if self.many is not None:
            numbers = [
                self.many(stream, many * _AT_ONCE, self.source(seed))
                for seed, stream in enumerate((pair.here, pair.there))
            ]
            return fit, black_box.epsilon_lower_bound(numbers[0], numbers[1], delta)
        runs = many if effort.deep else few
        if self.watched:
            return fit, black_box.epsilon_lower_bound(*self._shown_scores(pair, runs), delta)
        left = self._left_scores(pair, runs)
        bounds = [black_box.epsilon_lower_bound(*left, delta, mistake / 2.0)]
        # What is shown follows from what has left. A few runs look for what does not.
        shown = self._shown_scores(pair, few)
        bounds.append(black_box.epsilon_lower_bound(*shown, delta, mistake / 2.0))
        return fit, max(bounds)

    def _noise_fit(self, pair: Pair, enough: int) -> float:
        """Whether so much real noise follows its law, and moves releases exactly as the map of it says."""
        noise = None if self.watched else exact.noise_map(self._observe(pair.here))
        still = np.concatenate(self._observe(pair.here)(exact.quiet)[0])
        drawn: list[Floats] = []
        law, seed = "", 0
        while sum(part.size for part in drawn) < enough:
            seed += 1
            observe = self._observe(pair.here, seed)
            released, found = observe(None)
            law = found.laws[0]
            drawn += found.values
            if noise is not None and not noise.explains(np.concatenate(released) - still, found):
                return 0.0
        return sampled.noise_law(drawn, law)

    def sampler_notices(self, fault: faults.Fault, pair: Pair, effort: Effort) -> bool:  # noqa: ARG002
        with fault():
            return self._noise_fit(pair, _NUMBERS) <= sampled.NEVER

    # --- outputs alone -----------------------------------------------------------------------------

    def _few_runs(self, pair: Pair) -> int:
        """Runs per world that prove more than the claim where outputs tell the worlds apart."""
        claim, delta = self._claim(pair), self.budget.delta
        return math.ceil(_SPARE * black_box.runs_to_prove(claim, delta, black_box.MISTAKE / 2.0))

    def _left_scores(
        self, pair: Pair, runs: int, fault: faults.Fault = faults.no_fault
    ) -> tuple[Floats, Floats]:
        """Scores of the noisy vectors that leave in so many runs: likelihood ratios by the noise as it is
        before any fault is injected, and, since that may itself be wrong, Fisher's discriminant.
        """
        noise = exact.noise_map(self._observe(pair.here))
        still = [np.concatenate(self._observe(s)(exact.quiet)[0]) for s in (pair.here, pair.there)]
        with fault():
            worlds = [
                np.array(
                    [
                        np.concatenate(self._observe(stream, place * runs + seed)(None)[0])
                        for seed in range(runs)
                    ]
                )
                for place, stream in enumerate((pair.here, pair.there))
            ]
        fitted = black_box.discriminant_scores(worlds[0], worlds[1])
        ratios = [noise.log_ratios(world, *still) for world in worlds]
        return np.column_stack([ratios[0], fitted[0]]), np.column_stack([ratios[1], fitted[1]])

    def _shown_scores(
        self, pair: Pair, runs: int, fault: faults.Fault = faults.no_fault
    ) -> tuple[Floats, Floats]:
        """Scores of what so many runs show."""
        with fault():
            worlds = [
                np.array([self._published(stream, place * runs + seed) for seed in range(runs)])
                for place, stream in enumerate((pair.here, pair.there))
            ]
        return black_box.discriminant_scores(worlds[0], worlds[1])

    def outputs_notice(self, name: str, fault: faults.Fault, pair: Pair, effort: Effort) -> bool:
        runs = self._few_runs(pair)
        if name == faults.SHOWN_TELLS:
            pair = self._clear_pair(fault, pair, effort)
            scores = self._shown_scores(pair, runs, fault)
        else:
            scores = self._left_scores(pair, runs, fault)
        bound = black_box.epsilon_lower_bound(*scores, self.budget.delta, black_box.MISTAKE / 2.0)
        return bound > self._claim(pair) * (1.0 + RELATIVE)

    def _clear_pair(self, fault: faults.Fault, pair: Pair, effort: Effort) -> Pair:
        """Neighbours of whom something else is shown while the error is there, whatever other coins say."""

        def distance(pair: Pair) -> float:
            here, there = (
                np.array([self._published(s, seed) for seed in range(2)]) for s in (pair.here, pair.there)
            )
            apart = here.mean(axis=0) - there.mean(axis=0)
            spread = sum(float(np.abs(world - world.mean(axis=0)).max()) for world in (here, there))
            return float(np.abs(apart).max()) / (float(np.abs(here).max()) + spread + 1e-100)

        with fault():
            return self._worst(distance, effort.evaluations, seed=2, extra=(pair,))
