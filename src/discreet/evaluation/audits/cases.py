"""One setting of a mechanism or learner, taken through all parts of an audit."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ...privacy import Account, Budget, BudgetExceeded
from . import black_box, coins, exact, sampled
from . import bugs as planted
from .coins import Floats, Source
from .exact import Pair, Space

# What rounding in the audit itself may add to a delta or, relatively, to an epsilon.
_SLACK = 1e-9
_RELATIVE = 1e-6
# A vectorised mechanism is run so many times as often.
_AT_ONCE = 200
# So many numbers tell noise from noise of half the width with near certainty.
_NUMBERS = 800
# Runs times the squared distance of two distributions at which a chi-square test tells them apart.
_SURELY, _MOST_RUNS = 120.0, 4000.0
_SHARES = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)


@dataclass(frozen=True)
class Effort:
    """How long to look: neighbours tried, real runs per world, and whether every setting is audited."""

    evaluations: int
    runs: int
    deep: bool = False


QUICK = Effort(evaluations=16, runs=200)
DEEP = Effort(evaluations=80, runs=1500, deep=True)


@dataclass(frozen=True)
class Played:
    """What one run published, and the account that it gives of itself."""

    published: Any
    account: Callable[[], Account]


# Everybody's numbers, row by row, and a source of randomness.
Play = Callable[[Floats, Source], Played]


@dataclass(frozen=True)
class Finding:
    """One line of the table."""

    name: str
    setting: str
    neighbours: str
    claimed: float
    delta: float
    exact: float
    excess: float
    sampler: float
    lower_bound: float
    caught: tuple[str, ...]
    missed: tuple[str, ...]
    seconds: float = field(compare=False, default=0.0)

    @property
    def problems(self) -> list[str]:
        """Everything that is wrong; nothing for a sound mechanism and an audit that can see."""
        found = []
        if self.excess > 0.0:
            found.append(f"exact loss {self.exact:.6g} beyond the account (by {self.excess:.3g})")
        if self.sampler <= sampled.NEVER:
            found.append(f"the sampler does not follow its probabilities (p = {self.sampler:.2g})")
        if self.lower_bound > self.claimed * (1.0 + _RELATIVE):
            found.append(f"outputs prove epsilon {self.lower_bound:.4g}")
        found += [f"planted error not noticed: {name}" for name in self.missed]
        return found

    @property
    def verdict(self) -> str:
        return "; ".join(self.problems) or "holds"

    @property
    def sound(self) -> bool:
        return not self.problems


@dataclass(frozen=True)
class Case:
    """A setting to audit: who it is about, the people it is tried with, and how to run it.

    ``runs`` multiplies the number of real runs, for what is quick. ``twice`` is a row in which the audited
    person must not also be; None where there is no such row. ``bugs`` are the planted errors to notice.
    ``public`` seeds the public coins, on which everything is conditioned.
    """

    name: str
    setting: str
    budget: Budget
    space: Space
    play: Play
    bugs: tuple[str, ...]
    runs: int = 1
    twice: int | None = None
    only_deep: bool = False
    public: int = 0

    def source(self, seed: int) -> Source:
        """Randomness for one run; public coins are the same in all of them."""
        return Source(seed, self.public)

    def audit(self, effort: Effort) -> Finding:
        """All parts: exact loss at the worst neighbours, the sampler, outputs alone, planted errors."""
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # tiny settings are too small to be useful, and say so
            finding = self._audit(effort)
        return replace(finding, seconds=time.perf_counter() - start)

    def _audit(self, effort: Effort) -> Finding:
        pair, _ = exact.worst_pair(self._neighbours(), self._searched(), effort.evaluations)
        loss, excess = self.compare(pair)
        account = self.play(pair.here, self.source(0)).account()
        caught: list[str] = []
        missed: list[str] = []
        for name in self.bugs:
            (caught if self.notices(name, pair, effort) else missed).append(name)
        sampler, bound = self.real_runs(pair, effort)
        delta = self.budget.delta
        return Finding(
            self.name,
            self.setting,
            self.budget.neighbours,
            account.epsilon(delta),
            delta,
            loss,
            excess,
            sampler,
            bound,
            tuple(caught),
            tuple(missed),
        )

    def notices(self, bug: str, pair: Pair, effort: Effort) -> bool:
        """Whether the audit of these neighbours, or a short search for others, sees a planted error."""
        if bug in planted.SAMPLED:
            return self.sampler_notices(planted.SAMPLED[bug], pair, effort)
        plant: Callable[[], AbstractContextManager[None]] = nullcontext
        if bug == planted.TWICE:
            assert self.twice is not None
            pair = pair.twice(self.twice)
        else:
            plant = planted.EXACT[bug]
        try:
            with plant():
                if self.compare(pair)[1] > 0.0:
                    return True
                if bug == planted.TWICE:
                    return False
                other, _ = exact.worst_pair(self._neighbours(), self._searched(), effort.evaluations, seed=1)
                return self.compare(other)[1] > 0.0
        except BudgetExceeded:  # the gate has seen it
            return True

    def _neighbours(self) -> Space:
        one_way = self.budget.neighbours == "add_remove"
        return replace(self.space, one_way=True) if one_way else self.space

    def _searched(self) -> Callable[[Pair], float]:
        raise NotImplementedError

    def compare(self, pair: Pair) -> tuple[float, float]:
        """The exact epsilon between two neighbours, and how far the account is exceeded (0 if it is not)."""
        raise NotImplementedError

    def real_runs(self, pair: Pair, effort: Effort) -> tuple[float, float]:
        """p-value of the sampler, and a lower bound on epsilon from outputs."""
        raise NotImplementedError

    def sampler_notices(self, plant: planted.Plant, pair: Pair, effort: Effort) -> bool:
        raise NotImplementedError


class ChoiceCase(Case):
    """What is published is discrete and follows from choices, every one of which is enumerated."""

    def _distribution(self, stream: Floats) -> exact.Distribution:
        return exact.distribution(lambda: _hashable(self.play(stream, self.source(0)).published))

    def _searched(self) -> Callable[[Pair], float]:
        known, delta = exact.cached(self._distribution), self.budget.delta

        def loss(pair: Pair) -> float:
            return exact.exact_epsilon(known(pair.here), known(pair.there), delta)

        return loss

    def compare(self, pair: Pair) -> tuple[float, float]:
        p, q = self._distribution(pair.here), self._distribution(pair.there)
        account = self.play(pair.here, self.source(0)).account()
        excess = 0.0
        whole = min(account.pure, 4.0 * self.budget.epsilon)
        for share in _SHARES:
            gap = exact.hockey_stick(p, q, share * whole) - account.delta(share * whole)
            excess = max(excess, gap - _SLACK)
        largest = exact.exact_epsilon(p, q, 0.0)
        if math.isfinite(account.pure):
            excess = max(excess, largest - account.pure * (1.0 + _SLACK) - _SLACK)
        return exact.exact_epsilon(p, q, self.budget.delta), max(0.0, excess)

    def _outputs(self, stream: Floats, runs: int, first: int = 0) -> list[Hashable]:
        return [_hashable(self.play(stream, self.source(first + seed)).published) for seed in range(runs)]

    def _telling(self, pair: Pair, plant: planted.Plant) -> tuple[Floats, exact.Distribution, int]:
        """People among whom a planted error shows most, their sound probabilities, and enough runs for it."""
        starts = self.space.starts(np.random.default_rng(1))
        best: tuple[float, Floats, exact.Distribution] | None = None
        for stream in (pair.here, pair.there, *(next(starts).here for _ in range(6))):
            sound = self._distribution(stream)
            with plant():
                changed = self._distribution(stream)
            distance = sum((changed.get(o, 0.0) - p) ** 2 / p for o, p in sound.items() if p > 0.01)
            if best is None or distance > best[0]:
                best = distance, stream, sound
        assert best is not None
        return best[1], best[2], math.ceil(min(_SURELY / max(best[0], 1e-9), _MOST_RUNS))

    def real_runs(self, pair: Pair, effort: Effort) -> tuple[float, float]:
        runs = self.runs * effort.runs
        p, q = self._distribution(pair.here), self._distribution(pair.there)
        here, there = self._outputs(pair.here, runs), self._outputs(pair.there, runs, first=runs)
        fits = [sampled.chi_square(here, p), sampled.chi_square(there, q)]
        for name in self.bugs:
            if name in planted.SAMPLED:
                stream, sound, count = self._telling(pair, planted.SAMPLED[name])
                seen = self._outputs(stream, max(count, effort.runs), first=2 * runs)
                fits.append(sampled.chi_square(seen, sound))

        def score(outcome: Hashable) -> float:
            with np.errstate(divide="ignore"):
                return float(np.log(p.get(outcome, 0.0)) - np.log(q.get(outcome, 0.0)))

        scores = [np.nan_to_num(np.array([score(outcome) for outcome in seen])) for seen in (here, there)]
        bound = black_box.epsilon_lower_bound(scores[0], scores[1], self.budget.delta)
        return min(1.0, len(fits) * min(fits)), bound

    def sampler_notices(self, plant: planted.Plant, pair: Pair, effort: Effort) -> bool:
        stream, sound, count = self._telling(pair, plant)
        with plant():
            seen = self._outputs(stream, max(count, effort.runs))
        return sampled.chi_square(seen, sound) <= sampled.NEVER


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

    def _observe(self, stream: Floats, seed: int = 0) -> exact.Observe:
        def answers(number: int, size: int) -> Floats:
            return np.random.default_rng(number).uniform(-self.spread, self.spread, size)

        def observe(script: coins.Script | None) -> tuple[list[Floats], coins.Drawn]:
            with coins.scripted_noise(script) as drawn:
                if self.watched:
                    played = self.play(stream, self.source(seed)).published
                    return [np.asarray(part, dtype=np.float64).ravel() for part in played], drawn
                with coins.overheard(answers) as heard:
                    self.play(stream, self.source(seed))
                return heard, drawn

        return observe

    def _loss(self, pair: Pair, known: exact.NoiseMap | None = None) -> tuple[float, str]:
        here, there = self._observe(pair.here), self._observe(pair.there)
        if self.watched:
            return exact.coupled_loss(here, there), "laplace"
        noise = exact.noise_map(here) if known is None else known
        moved = np.concatenate(here(exact.quiet)[0]) - np.concatenate(there(exact.quiet)[0])
        return noise.loss(moved), noise.law

    def _searched(self) -> Callable[[Pair], float]:
        known: list[exact.NoiseMap] = []

        def loss(pair: Pair) -> float:
            if not known and not self.watched:
                known.append(exact.noise_map(self._observe(pair.here)))
            return self._loss(pair, known[0] if known else None)[0]

        return loss

    def compare(self, pair: Pair) -> tuple[float, float]:
        loss, law = self._loss(pair)
        account = self.play(pair.here, self.source(0)).account()
        if law != "gaussian":
            return loss, max(0.0, loss - account.pure * (1.0 + _RELATIVE))
        excess = 0.0
        for share in (0.25, 0.5, 1.0, 1.5):
            epsilon = share * self.budget.epsilon
            allowed = account.delta(epsilon)
            gap = exact.gaussian_delta(loss * (1.0 - _RELATIVE), epsilon) - allowed * (1.0 + _RELATIVE)
            excess = max(excess, gap - _SLACK * self.budget.delta)
        return exact.gaussian_epsilon(loss, self.budget.delta), max(0.0, excess)

    def real_runs(self, pair: Pair, effort: Effort) -> tuple[float, float]:
        runs = self.runs * effort.runs
        fit = min(1.0, self._noise_fit(pair, _NUMBERS * (4 if effort.deep else 1)))
        if self.many is not None:
            runs *= _AT_ONCE
            numbers = [
                self.many(s, runs, self.source(seed)) for seed, s in enumerate((pair.here, pair.there))
            ]
            return fit, black_box.epsilon_lower_bound(numbers[0], numbers[1], self.budget.delta)
        worlds = []
        for place, stream in enumerate((pair.here, pair.there)):
            outputs = [
                np.concatenate(
                    [
                        np.asarray(part, dtype=np.float64).ravel()
                        for part in self.play(stream, source).published
                    ]
                )
                for source in (self.source(place * runs + seed) for seed in range(runs))
            ]
            worlds.append(np.array(outputs))
        scores = black_box.discriminant_scores(worlds[0], worlds[1])
        return fit, black_box.epsilon_lower_bound(*scores, self.budget.delta)

    def _noise_fit(self, pair: Pair, enough: int) -> float:
        """Whether so much real noise follows its law, and moves what leaves exactly as the map of it says."""
        noise = None if self.watched else exact.noise_map(self._observe(pair.here))
        still = np.concatenate(self._observe(pair.here)(exact.quiet)[0])
        drawn: list[Floats] = []
        law, seed = "", 0
        while sum(part.size for part in drawn) < enough:
            seed += 1
            observe = self._observe(pair.here, seed)
            told, found = observe(None)
            law = found.laws[0]
            drawn += found.values
            if noise is not None:
                moved = np.concatenate(told) - still
                foreseen = noise.matrix @ np.concatenate(found.values)
                if np.abs(moved - foreseen).max() > _RELATIVE * max(1.0, np.abs(foreseen).max()):
                    return 0.0
        return sampled.noise_law(drawn, law)

    def sampler_notices(self, plant: planted.Plant, pair: Pair, effort: Effort) -> bool:  # noqa: ARG002
        with plant():
            return self._noise_fit(pair, _NUMBERS) <= sampled.NEVER


def _hashable(published: Any) -> Hashable:
    """What was published as something that can be counted; floats to nine digits."""
    if isinstance(published, np.ndarray):
        return _hashable(published.tolist())
    if isinstance(published, list | tuple):
        return tuple(_hashable(part) for part in published)
    return round(published, 9) if isinstance(published, float) else published
