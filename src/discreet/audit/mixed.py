"""The audit of what publishes choices and noisy numbers together, under one account."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass

import numpy as np

from . import black_box, exact, faults, hooks, sampled
from .cases import RELATIVE, SLACK, Effort, hashable
from .choices import ChoiceCase, log_ratio
from .exact import Pair
from .hooks import Floats

_SHARES = (0.1, 0.25, 0.5, 0.75, 0.9, 1.0, 1.25)
# So many numbers tell noise from noise of half the width with near certainty.
_NUMBERS = 800


@dataclass(frozen=True)
class Mixture:
    """What can be chosen, with its probability, and the exact part of the numbers that leave with each."""

    chances: exact.Distribution
    numbers: dict[Hashable, Floats]


@dataclass(frozen=True)
class MixedCase(ChoiceCase):
    """Choices are published, and through the gate leave numbers with noise that depend on them.

    With probabilities p and q of the choices o in two worlds, and noise that has to be shifted by s(o) to
    hide the other world's numbers, the loss of Laplace noise is the largest |log p(o)/q(o)| + s(o). With
    Gaussian noise, where s is its mu, delta is the sum over o of p(o) times the delta of mu = s(o) at
    epsilon - log p(o)/q(o), in the worse direction.
    """

    def _mixture(self, stream: Floats) -> Mixture:
        numbers: dict[Hashable, Floats] = {}

        def once() -> Hashable:
            with hooks.scripted_noise(exact.quiet), hooks.overheard(_zeros) as left:
                chosen = hashable(self.play(stream, self.source(0)).published)
            found = np.concatenate(left)
            if exact.differ(numbers.setdefault(chosen, found), found):
                raise AssertionError(
                    f"the numbers that leave with {chosen!r} depend on more than these choices"
                )
            return chosen

        return Mixture(exact.distribution(once, self.alike), numbers)

    def _noise(self, stream: Floats) -> exact.NoiseMap:
        """The map from noise to numbers, the same for all choices of which as many numbers leave."""

        def observe(script: hooks.Script | None) -> tuple[list[Floats], hooks.Drawn]:
            with (
                hooks.scripted_choices(lambda _: 0),
                hooks.scripted_noise(script) as drawn,
                hooks.overheard(_zeros) as left,
            ):
                self.play(stream, self.source(0))
            return left, drawn

        return exact.noise_map(observe)

    def _shifts(self, here: Mixture, there: Mixture, noise: exact.NoiseMap) -> dict[Hashable, float]:
        return {
            chosen: noise.loss(numbers - there.numbers[chosen])
            for chosen, numbers in here.numbers.items()
            if chosen in there.numbers
        }

    def _loss(self, here: Mixture, there: Mixture, noise: exact.NoiseMap, delta: float) -> float:
        """The exact epsilon at ``delta`` for Gaussian noise; at a delta of 0 for Laplace noise."""
        shifts = self._shifts(here, there, noise)
        if noise.law != "gaussian":
            if here.chances.keys() != there.chances.keys():
                return math.inf  # chosen in one world only: no noise hides that
            return max(abs(log_ratio(here.chances, there.chances, o)) + s for o, s in shifts.items())
        low, high = 0.0, 1.0
        while self._delta(here, there, shifts, high) > delta and high < 700.0:
            low, high = high, 2.0 * high
        for _ in range(50):
            middle = (low + high) / 2.0
            exceeds = self._delta(here, there, shifts, middle) > delta
            low, high = (middle, high) if exceeds else (low, middle)
        return high

    @staticmethod
    def _delta(here: Mixture, there: Mixture, shifts: dict[Hashable, float], epsilon: float) -> float:
        def one_way(p: exact.Distribution, q: exact.Distribution) -> float:
            alone = math.fsum(chance for o, chance in p.items() if o not in q)  # no noise hides these
            return alone + math.fsum(
                p.get(o, 0.0) * exact.gaussian_delta(s, epsilon - log_ratio(p, q, o))
                for o, s in shifts.items()
            )

        return max(one_way(here.chances, there.chances), one_way(there.chances, here.chances))

    def _searched(self, delta: float | None = None) -> Callable[[Pair], float]:  # noqa: ARG002
        known, noise = exact.cached(self._mixture), self._noise(self.space.example())

        def loss(pair: Pair) -> float:
            return self._loss(known(pair.here), known(pair.there), noise, self.budget.delta)

        return loss

    def compare(self, pair: Pair) -> tuple[float, float]:
        here, there, noise = self._mixture(pair.here), self._mixture(pair.there), self._noise(pair.here)
        loss = self._loss(here, there, noise, self.budget.delta)
        account = self.play(pair.here, self.source(0)).account()
        if noise.law != "gaussian":
            return loss, max(0.0, loss - account.pure * (1.0 + RELATIVE))
        shifts, excess = self._shifts(here, there, noise), 0.0
        for share in _SHARES:
            epsilon = share * self.budget.epsilon
            excess = max(excess, self._delta(here, there, shifts, epsilon) - account.delta(epsilon) - SLACK)
        return loss, excess

    # --- real runs ---------------------------------------------------------------------------------

    def _runs(self, stream: Floats, runs: int, first: int) -> list[tuple[Hashable, Floats, hooks.Drawn]]:
        """What was chosen, the numbers that left, and their noise."""
        found = []
        for seed in range(first, first + runs):
            with hooks.scripted_noise(None) as drawn, hooks.overheard(_zeros) as left:
                chosen = hashable(self.play(stream, self.source(seed)).published)
            found.append((chosen, np.concatenate(left), drawn))
        return found

    def _bound(
        self, pair: Pair, runs: int, fault: faults.Fault = faults.no_fault
    ) -> tuple[float, list[list[tuple[Hashable, Floats, hooks.Drawn]]]]:
        """What outputs prove, by the exact likelihood ratios of a sound library; and the runs."""
        here, there, noise = self._mixture(pair.here), self._mixture(pair.there), self._noise(pair.here)
        with fault():
            worlds = [self._runs(pair.here, runs, 0), self._runs(pair.there, runs, runs)]
        scores = []
        for world in worlds:
            ratios = np.empty((runs, 3))  # of both together, and of either alone
            for place, (chosen, left, _) in enumerate(world):
                by_choice = log_ratio(here.chances, there.chances, chosen)
                exact_parts = here.numbers[chosen], there.numbers[chosen]
                by_numbers = float(noise.log_ratios(left[None, :], *exact_parts)[0])
                ratios[place] = by_choice + by_numbers, by_choice, by_numbers
            scores.append(ratios)
        return black_box.epsilon_lower_bound(scores[0], scores[1], self.budget.delta), worlds

    def real_runs(self, pair: Pair, effort: Effort) -> tuple[float, float]:
        runs = self.runs * effort.runs
        if effort.deep:
            pair = self._worst(self._usual_loss(), effort.evaluations // 2, seed=2, extra=(pair,))
        bound, worlds = self._bound(pair, runs)
        fits = [
            sampled.chi_square([chosen for chosen, _, _ in world], self._distribution(stream))
            for world, stream in zip(worlds, (pair.here, pair.there), strict=True)
        ]
        fits += self._fits_beside_faults(pair, effort, first=2 * runs)
        fits.append(self._noise_fit(pair, worlds[0]))
        return min(1.0, len(fits) * min(fits)), bound

    def _noise_fit(self, pair: Pair, world: list[tuple[Hashable, Floats, hooks.Drawn]]) -> float:
        """Whether noise follows its law, and moves the numbers that leave exactly as the map of it says."""
        noise, numbers = self._noise(pair.here), self._mixture(pair.here).numbers
        if not all(noise.explains(left - numbers[chosen], drawn) for chosen, left, drawn in world):
            return 0.0
        return sampled.noise_law([part for _, _, drawn in world for part in drawn.values], noise.law)

    def sampler_notices(self, fault: faults.Fault, pair: Pair, effort: Effort) -> bool:
        if fault not in faults.OF_NOISE:
            return super().sampler_notices(fault, pair, effort)
        with fault():
            world = self._runs(pair.here, math.ceil(_NUMBERS / self._noise(pair.here).matrix.shape[1]), 0)
            return self._noise_fit(pair, world) <= sampled.NEVER

    def outputs_notice(self, name: str, fault: faults.Fault, pair: Pair, effort: Effort) -> bool:
        claim, delta = self._claim(pair), self.budget.delta
        if name == faults.NUMBERS_TELL:
            pair = self._worst(self._numbers_apart(), effort.evaluations, seed=2, extra=(pair,))
            runs = math.ceil(1.1 * black_box.runs_to_prove(claim, delta))
        else:
            found = self._clear_pair(fault, pair, effort)
            if found is None:
                return False
            pair, runs = found
        return self._bound(pair, runs, fault)[0] > claim * (1.0 + RELATIVE)

    def _usual_loss(self) -> Callable[[Pair], float]:
        """The loss of what is usually published, which a limited number of outputs can prove."""
        known, noise = exact.cached(self._mixture), self._noise(self.space.example())

        def usual(pair: Pair) -> float:
            here, there = known(pair.here), known(pair.there)
            p, q = here.chances, there.chances
            return math.fsum(
                min(p.get(o, 0.0), q.get(o, 0.0)) * (s + abs(log_ratio(p, q, o)))
                for o, s in self._shifts(here, there, noise).items()
            )

        return usual

    def _numbers_apart(self) -> Callable[[Pair], float]:
        """How likely something is chosen of which other numbers leave in the two worlds."""
        known = exact.cached(self._mixture)

        def distance(pair: Pair) -> float:
            here, there = known(pair.here), known(pair.there)
            return math.fsum(
                min(chance, there.chances.get(o, 0.0))
                for o, chance in here.chances.items()
                if o in there.numbers and exact.differ(here.numbers[o], there.numbers[o])
            )

        return distance


def _zeros(_: int, size: int) -> Floats:
    return np.zeros(size)
