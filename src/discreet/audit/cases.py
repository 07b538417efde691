"""One setting of a mechanism or learner, with all parts of its audit.

The protection may come from random choices (every transcript is enumerated), from noise (the exact effect of
each of its numbers is known), or from choices and noisy numbers together, under one account.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..privacy import Account, Budget, BudgetExceeded, PublicRandomness
from . import faults, hooks, measures
from .faults import EXACT, OUTPUTS, PAST_THE_GATE, SAMPLED, TWICE, Fault, no_fault
from .hooks import AuditRandomness, Floats
from .measures import Pair, Space

# Tolerances for rounding errors of the audit itself: in a delta and, relatively, in an epsilon.
SLACK = 1e-9
RELATIVE = 1e-6


@dataclass(frozen=True)
class Effort:
    """The effort of an audit: neighbours tried, real runs per world, and whether every setting is audited."""

    evaluations: int
    runs: int
    deep: bool = False


QUICK = Effort(evaluations=16, runs=200)
DEEP = Effort(evaluations=80, runs=1500, deep=True)


@dataclass(frozen=True)
class Played:
    """The output of one run, and its privacy account."""

    published: Any
    account: Callable[[], Account]


# A run, given people's numbers, row by row, and a source of randomness.
Play = Callable[[Floats, AuditRandomness], Played]


@dataclass(frozen=True)
class Finding:
    """The result of one setting's audit: a row of the report."""

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
    unseen: tuple[str, ...] = ()
    seconds: float = field(compare=False, default=0.0)

    @property
    def problems(self) -> list[str]:
        """Everything that is wrong; empty for a sound mechanism whose injected faults were all noticed."""
        found = []
        if not self.excess <= 0.0:
            found.append(f"exact loss {self.exact:.6g} beyond the account (by {self.excess:.3g})")
        if not self.sampler > measures.NEVER:
            found.append(f"the sampler does not follow its probabilities (p = {self.sampler:.2g})")
        if not self.lower_bound <= self.claimed * (1.0 + RELATIVE):
            found.append(f"outputs prove epsilon {self.lower_bound:.4g}")
        found += [f"injected fault not noticed: {name}" for name in self.missed]
        return found

    @property
    def verdict(self) -> str:
        return "; ".join(self.problems) or "holds"

    @property
    def sound(self) -> bool:
        return not self.problems


@dataclass(frozen=True)
class Case:
    """A setting to audit: what is audited, the people it is tried with, and how to run it.

    ``run_factor`` multiplies the number of real runs, for fast settings. ``twice`` is a row that the audited
    person must not have in addition; None if there is no such row. ``faults`` are the injected faults to
    notice. ``public`` seeds the public randomness, on which everything is conditioned. ``starts`` are further
    neighbours from which the search starts. ``unseen``: sentences on what this audit cannot detect, and why.
    """

    name: str
    setting: str
    budget: Budget
    space: Space
    play: Play
    faults: tuple[str, ...]
    run_factor: int = 1
    twice: int | None = None
    only_deep: bool = False
    public: int = 0
    starts: tuple[Pair, ...] = ()
    unseen: tuple[str, ...] = ()

    def source(self, seed: int) -> AuditRandomness:
        """Randomness for one run; public randomness is the same in all of them."""
        return AuditRandomness(seed, self.public)

    def audit(self, effort: Effort) -> Finding:
        """Run all parts: exact loss at the worst neighbours, the sampler, outputs alone, injected faults."""
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # tiny settings warn that they are too small to be useful
            finding = self._audit(effort)
        return replace(finding, seconds=time.perf_counter() - start)

    def _audit(self, effort: Effort) -> Finding:
        pair = self._worst(self._searched(), effort.evaluations)
        loss, excess = self.compare(pair)
        claim = self._claim(pair)
        caught = tuple(name for name in self.faults if self.notices(name, pair, effort))
        missed = tuple(name for name in self.faults if name not in caught)
        sampler, bound = self.real_runs(pair, effort)
        setting = (self.name, self.setting, self.budget.neighbours, claim, self.budget.delta)
        return Finding(*setting, loss, excess, sampler, bound, caught, missed, self.unseen)

    def notices(self, name: str, pair: Pair, effort: Effort) -> bool:
        """Whether the audit of these neighbours, or of others from a short search, detects a fault."""
        if name in SAMPLED:
            return self.sampler_notices(SAMPLED[name], pair, effort)
        if name in OUTPUTS:
            return self.outputs_notice(name, OUTPUTS[name], pair, effort)
        if name == PAST_THE_GATE:
            return replace(self, play=_telling_all(self.play)).compare(pair)[1] > 0.0
        fault = no_fault
        if name == TWICE:
            assert self.twice is not None
            pair = pair.twice(self.twice)
        else:
            fault = EXACT[name]
        try:
            with fault():
                if self.compare(pair)[1] > 0.0:
                    return True
                if name == TWICE:
                    return False
                # At a delta of 0 the search looks for rare outcomes, and so finds other neighbours.
                other = self._worst(self._searched(0.0), effort.evaluations, seed=1)
                return self.compare(other)[1] > 0.0
        except BudgetExceeded:  # the gate has detected it
            return True

    def _neighbours(self) -> Space:
        one_way = self.budget.neighbours == "add_remove"
        return replace(self.space, one_way=True) if one_way else self.space

    def _worst(
        self, loss: Callable[[Pair], float], evaluations: int, seed: int = 0, extra: tuple[Pair, ...] = ()
    ) -> Pair:
        firsts = (*extra, *self.starts)
        return measures.worst_pair(self._neighbours(), loss, evaluations, seed, firsts)[0]

    def _account(self, pair: Pair) -> Account:
        """The account of the runs in both worlds; if they differ, the one that claims the smaller loss."""
        both = [self.play(stream, self.source(0)).account() for stream in (pair.here, pair.there)]
        return min(both, key=lambda account: account.epsilon(self.budget.delta))

    def _claim(self, pair: Pair) -> float:
        return self._account(pair).epsilon(self.budget.delta)

    def _proves(self, pair: Pair, bound: float) -> bool:
        """Whether a lower bound on epsilon exceeds the claim for these neighbours."""
        return bound > self._claim(pair) * (1.0 + RELATIVE)

    def _searched(self, delta: float | None = None) -> Callable[[Pair], float]:
        """The objective of the search: the exact epsilon at ``delta`` (the budget's, if None)."""
        raise NotImplementedError

    def compare(self, pair: Pair) -> tuple[float, float]:
        """The exact epsilon between two neighbours, and how far the account is exceeded (0 if it is not)."""
        raise NotImplementedError

    def real_runs(self, pair: Pair, effort: Effort) -> tuple[float, float]:
        """The p-value of the sampler, and a lower bound on epsilon from outputs."""
        raise NotImplementedError

    def sampler_notices(self, fault: Fault, pair: Pair, effort: Effort) -> bool:
        """Whether a test rejects that real draws follow their probabilities while the fault is active."""
        raise NotImplementedError

    def outputs_notice(self, name: str, fault: Fault, pair: Pair, effort: Effort) -> bool:
        """Whether outputs alone prove more than the claim while the fault is active."""
        raise NotImplementedError


def _telling_all(play: Play) -> Play:
    """The same run, which also publishes people's numbers as they are."""

    def leaking(stream: Floats, source: AuditRandomness) -> Played:
        played = play(stream, source)
        return Played([*played.published, stream], played.account)

    return leaking


def hashable(published: Any) -> Hashable:
    """An output in hashable form, with floats rounded to nine decimals."""
    if isinstance(published, np.ndarray):
        return hashable(published.tolist())
    if isinstance(published, list | tuple):
        return tuple(hashable(part) for part in published)
    return round(published, 9) if isinstance(published, float) else published


# --- choices ----------------------------------------------------------------------------------------


# Runs times the chi-square distance of two distributions at which a chi-square test distinguishes them.
_SURELY, _MOST_RUNS = 120.0, 4000.0
# Neighbours that are tried for a gross error; extreme ones, which come first, are enough.
_LOOKED_AT = 24
# The most runs per world for outputs alone to prove a gross error.
_MOST_TO_PROVE = 12_000
_SHARES = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)


@dataclass(frozen=True)
class ChoiceCase(Case):
    """A setting whose output is discrete and follows from choices, all of which are enumerated.

    ``alike`` groups candidates of a choice that lead to the same distribution (see `measures.distribution`),
    so that settings with many candidates can still be enumerated.
    """

    alike: measures.Alike | None = None

    def _distribution(self, stream: Floats) -> measures.Distribution:
        return measures.distribution(
            lambda: hashable(self.play(stream, self.source(0)).published), self.alike
        )

    def _searched(self, delta: float | None = None) -> Callable[[Pair], float]:
        known, at = measures.cached(self._distribution), self.budget.delta if delta is None else delta

        def loss(pair: Pair) -> float:
            return measures.exact_epsilon(known(pair.here), known(pair.there), at)

        return loss

    def compare(self, pair: Pair) -> tuple[float, float]:
        p, q = self._distribution(pair.here), self._distribution(pair.there)
        account, excess = self._account(pair), 0.0
        whole = min(account.pure, 4.0 * self.budget.epsilon)
        for share in _SHARES:
            gap = measures.hockey_stick(p, q, share * whole) - account.delta(share * whole)
            excess = max(excess, gap - SLACK)
        largest = measures.exact_epsilon(p, q, 0.0)
        if math.isfinite(account.pure):
            excess = max(excess, largest - account.pure * (1.0 + SLACK) - SLACK)
        return measures.exact_epsilon(p, q, self.budget.delta), max(0.0, excess)

    # --- real runs ---------------------------------------------------------------------------------

    def _outputs(self, stream: Floats, runs: int, first: int = 0) -> list[Hashable]:
        with hooks.coarse_scores():
            return [hashable(self.play(stream, self.source(first + seed)).published) for seed in range(runs)]

    def _most_revealing(self, pair: Pair, fault: faults.Fault) -> tuple[Floats, measures.Distribution, int]:
        """The stream on which a fault changes outputs most, its correct distribution, and enough runs."""
        starts = self.space.starts(PublicRandomness.seeded(1).generator)
        best: tuple[float, Floats, measures.Distribution] | None = None
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
        runs = self.run_factor * effort.runs
        if effort.deep:
            pair = self._provable_pair(pair, runs, effort.evaluations // 2)
        p, q = self._distribution(pair.here), self._distribution(pair.there)
        here, there = self._outputs(pair.here, runs), self._outputs(pair.there, runs, first=runs)
        fits = [measures.chi_square(here, p), measures.chi_square(there, q)]
        fits += self._fits_on_fault_streams(pair, effort, first=2 * runs)
        bound = measures.epsilon_lower_bound(*_ratios(p, q, here, there), self.budget.delta)
        return min(1.0, len(fits) * min(fits)), bound

    def _fits_on_fault_streams(self, pair: Pair, effort: Effort, first: int) -> list[float]:
        """P-values of the correct sampler, on the streams that best reveal each of its injected faults.

        ``first`` is the first seed to use: earlier ones were used in other tests.
        """
        fits = []
        for name in self.faults:
            fault = faults.SAMPLED.get(name)
            if fault is not None and fault not in faults.OF_NOISE:
                stream, sound, count = self._most_revealing(pair, fault)
                seen = self._outputs(stream, max(count, effort.runs), first=first)
                fits.append(measures.chi_square(seen, sound))
        return fits

    def _provable_pair(self, pair: Pair, runs: int, evaluations: int) -> Pair:
        """Neighbours with the largest provable bound: the worst ones may differ in rare outcomes only."""
        known = measures.cached(self._distribution)

        def proved(pair: Pair) -> float:
            p, q = measures.paired(known(pair.here), known(pair.there))
            bound = max(0.0, measures.provable(p, q, runs, self.budget.delta))
            return bound + 1e-3 * float(np.abs(p - q).sum())  # a direction where the bound is 0

        return self._worst(proved, evaluations, seed=2, extra=(pair,))

    def sampler_notices(self, fault: faults.Fault, pair: Pair, effort: Effort) -> bool:
        stream, sound, count = self._most_revealing(pair, fault)
        with fault():
            seen = self._outputs(stream, max(count, effort.runs))
        return measures.chi_square(seen, sound) <= measures.NEVER

    def outputs_notice(self, name: str, fault: faults.Fault, pair: Pair, effort: Effort) -> bool:  # noqa: ARG002
        found = self._clear_pair(fault, pair, effort)
        if found is None:
            return False
        clear, runs = found
        with fault():
            here, there = self._outputs(clear.here, runs), self._outputs(clear.there, runs, first=runs)
        # Scored by the distributions of a sound library: outputs alone do not show what the fault is.
        p, q = self._distribution(clear.here), self._distribution(clear.there)
        bound = measures.epsilon_lower_bound(*_ratios(p, q, here, there), self.budget.delta)
        return self._proves(clear, bound)

    def _clear_pair(self, fault: faults.Fault, pair: Pair, effort: Effort) -> tuple[Pair, int] | None:
        """Neighbours whose outputs prove the fault, and enough runs; None if these are too many."""
        claim, delta = self._claim(pair), self.budget.delta
        with fault():
            known = measures.cached(self._distribution)

            def distance(pair: Pair) -> float:
                return measures.hockey_stick(known(pair.here), known(pair.there), claim)

            clear = self._worst(distance, min(effort.evaluations, _LOOKED_AT), seed=2, extra=(pair,))
            p, q = measures.paired(known(clear.here), known(clear.there))
        runs = measures.runs_needed(p, q, claim * (1.0 + RELATIVE), delta, _MOST_TO_PROVE)
        return None if runs is None else (clear, runs)


# Stands for infinite log-likelihood ratios, which have no thresholds between them.
_BEYOND = 1e4


def log_ratio(p: measures.Distribution, q: measures.Distribution, outcome: Hashable) -> float:
    """The log-likelihood ratio of an outcome, ``p`` over ``q``; 0 if it is impossible under both."""
    here, there = p.get(outcome, 0.0), q.get(outcome, 0.0)
    if here == 0.0 or there == 0.0:
        return 0.0 if here == there else math.copysign(_BEYOND, here - there)
    return math.log(here) - math.log(there)


def _ratios(
    p: measures.Distribution, q: measures.Distribution, here: Sequence[Hashable], there: Sequence[Hashable]
) -> tuple[Floats, Floats]:
    """Log-likelihood ratios of outputs, as scores."""
    first, second = (np.array([log_ratio(p, q, outcome) for outcome in seen]) for seen in (here, there))
    return first, second


# --- noise ------------------------------------------------------------------------------------------


# A vectorized mechanism is run this many times as often.
_AT_ONCE = 200
# This many numbers distinguish noise from noise of half the scale with near certainty.
_NUMBERS = 800
# The runs that are needed if outputs distinguish the worlds every time are multiplied by this.
_SPARE = 1.05


@dataclass(frozen=True)
class NoiseCase(Case):
    """A setting protected by noise, in which the exact effect of each number of the noise is known.

    Vectors released by a gate or a running sum are recorded, and replaced by scripted answers. ``watched``:
    if noise is drawn elsewhere, the outputs of a run (a list of vectors) are compared instead. ``spread`` is
    the size of scripted answers. ``many`` makes independent runs of a mechanism at once, one number each.
    """

    watched: bool = False
    spread: float = 3.0
    many: Callable[[Floats, int, AuditRandomness], Floats] | None = None

    def _answers(self, number: int, size: int) -> Floats:
        return PublicRandomness.seeded(number).generator.uniform(-self.spread, self.spread, size)

    def _observe(self, stream: Floats, seed: int = 0) -> measures.Observe:
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

    def _loss(self, pair: Pair, known: measures.NoiseMap | None = None) -> tuple[float, str]:
        here, there = self._observe(pair.here), self._observe(pair.there)
        if self.watched:
            return measures.coupled_loss(here, there), "laplace"
        noise = measures.noise_map(here) if known is None else known
        if known is None and not noise.same(measures.noise_map(there)):
            return math.inf, noise.law
        moved = np.concatenate(here(measures.quiet)[0]) - np.concatenate(there(measures.quiet)[0])
        return noise.loss(moved), noise.law

    def _searched(self, delta: float | None = None) -> Callable[[Pair], float]:  # noqa: ARG002
        known: list[measures.NoiseMap] = []

        def loss(pair: Pair) -> float:
            if not known and not self.watched:
                known.append(measures.noise_map(self._observe(pair.here)))
            return self._loss(pair, known[0] if known else None)[0]

        return loss

    def compare(self, pair: Pair) -> tuple[float, float]:
        loss, law = self._loss(pair)
        if not self.watched and self._past_the_gate(pair):
            loss = math.inf
        account = self._account(pair)
        if law != "gaussian":
            return loss, max(0.0, loss - account.pure * (1.0 + RELATIVE))
        excess = 0.0
        for share in (0.25, 0.5, 1.0, 1.5):
            epsilon = share * self.budget.epsilon
            allowed = account.delta(epsilon)
            gap = measures.gaussian_delta(loss * (1.0 - RELATIVE), epsilon) - allowed * (1.0 + RELATIVE)
            excess = max(excess, gap - SLACK * self.budget.delta)
        return measures.gaussian_epsilon(loss, self.budget.delta), max(0.0, excess)

    def _past_the_gate(self, pair: Pair) -> bool:
        """Whether outputs differ between neighbours although the released numbers are the same."""
        shown = []
        for stream in (pair.here, pair.there):
            with hooks.scripted_noise(measures.quiet), hooks.overheard(self._answers):
                shown.append(self._published(stream, 0))
        return shown[0].shape != shown[1].shape or measures.differ(*shown)

    # --- the sampler -------------------------------------------------------------------------------

    def real_runs(self, pair: Pair, effort: Effort) -> tuple[float, float]:
        fit = min(1.0, self._noise_fit(pair, _NUMBERS * (4 if effort.deep else 1)))
        delta, mistake = self.budget.delta, measures.MISTAKE
        few, many = self._few_runs(pair), self.run_factor * effort.runs
        if self.many is not None:
            numbers = [
                self.many(stream, many * _AT_ONCE, self.source(seed))
                for seed, stream in enumerate((pair.here, pair.there))
            ]
            return fit, measures.epsilon_lower_bound(numbers[0], numbers[1], delta)
        runs = many if effort.deep else few
        if self.watched:
            return fit, measures.epsilon_lower_bound(*self._shown_scores(pair, runs), delta)
        left = self._release_scores(pair, runs)
        bounds = [measures.epsilon_lower_bound(*left, delta, mistake / 2.0)]
        # Outputs should be post-processing of releases. A few runs look for those that are not.
        shown = self._shown_scores(pair, few)
        bounds.append(measures.epsilon_lower_bound(*shown, delta, mistake / 2.0))
        return fit, max(bounds)

    def _noise_fit(self, pair: Pair, enough: int) -> float:
        """The p-value that real noise follows its law; 0 if it does not move releases as its map says."""
        noise = None if self.watched else measures.noise_map(self._observe(pair.here))
        noiseless = np.concatenate(self._observe(pair.here)(measures.quiet)[0])
        drawn: list[Floats] = []
        law, seed = "", 0
        while sum(part.size for part in drawn) < enough:
            seed += 1
            observe = self._observe(pair.here, seed)
            released, found = observe(None)
            law = found.laws[0]
            drawn += found.values
            if noise is not None and not noise.explains(np.concatenate(released) - noiseless, found):
                return 0.0
        return measures.noise_law(drawn, law)

    def sampler_notices(self, fault: faults.Fault, pair: Pair, effort: Effort) -> bool:  # noqa: ARG002
        with fault():
            return self._noise_fit(pair, _NUMBERS) <= measures.NEVER

    # --- outputs alone -----------------------------------------------------------------------------

    def _few_runs(self, pair: Pair) -> int:
        """Runs per world that prove more than the claim if outputs distinguish the worlds."""
        claim, delta = self._claim(pair), self.budget.delta
        return math.ceil(_SPARE * measures.runs_to_prove(claim, delta, measures.MISTAKE / 2.0))

    def _release_scores(
        self, pair: Pair, runs: int, fault: faults.Fault = faults.no_fault
    ) -> tuple[Floats, Floats]:
        """Scores of the noisy vectors released in this many runs: likelihood ratios by the map of the noise
        without the fault, and, since that map may itself be wrong, Fisher's discriminant.
        """
        noise = measures.noise_map(self._observe(pair.here))
        noiseless = [np.concatenate(self._observe(s)(measures.quiet)[0]) for s in (pair.here, pair.there)]
        with fault():
            worlds = _worlds(pair, runs, lambda *run: np.concatenate(self._observe(*run)(None)[0]))
        fitted = measures.discriminant_scores(*worlds)
        ratios = [noise.log_ratios(world, *noiseless) for world in worlds]
        return np.column_stack([ratios[0], fitted[0]]), np.column_stack([ratios[1], fitted[1]])

    def _shown_scores(
        self, pair: Pair, runs: int, fault: faults.Fault = faults.no_fault
    ) -> tuple[Floats, Floats]:
        """Scores of the outputs of this many runs."""
        with fault():
            return measures.discriminant_scores(*_worlds(pair, runs, self._published))

    def outputs_notice(self, name: str, fault: faults.Fault, pair: Pair, effort: Effort) -> bool:
        runs = self._few_runs(pair)
        if name == faults.SHOWN_TELLS:
            pair = self._clear_pair(fault, pair, effort)
            scores = self._shown_scores(pair, runs, fault)
        else:
            scores = self._release_scores(pair, runs, fault)
        bound = measures.epsilon_lower_bound(*scores, self.budget.delta, measures.MISTAKE / 2.0)
        return self._proves(pair, bound)

    def _clear_pair(self, fault: faults.Fault, pair: Pair, effort: Effort) -> Pair:
        """Neighbours whose outputs differ for every seed while the fault is active."""

        def distance(pair: Pair) -> float:
            here, there = (
                np.array([self._published(s, seed) for seed in range(2)]) for s in (pair.here, pair.there)
            )
            apart = here.mean(axis=0) - there.mean(axis=0)
            spread = sum(float(np.abs(world - world.mean(axis=0)).max()) for world in (here, there))
            return float(np.abs(apart).max()) / (float(np.abs(here).max()) + spread + 1e-100)

        with fault():
            return self._worst(distance, effort.evaluations, seed=2, extra=(pair,))


def _worlds(pair: Pair, runs: int, once: Callable[[Floats, int], Floats]) -> tuple[Floats, Floats]:
    """The outputs of this many runs in either world, one row each, every run with its own seed."""
    here = np.array([once(pair.here, seed) for seed in range(runs)])
    return here, np.array([once(pair.there, seed) for seed in range(runs, 2 * runs)])


# --- choices and noisy numbers ----------------------------------------------------------------------


_MIXED_SHARES = (0.1, 0.25, 0.5, 0.75, 0.9, 1.0, 1.25)


@dataclass(frozen=True)
class ChoicesWithNumbers:
    """The probabilities of all choices, and for each choice the exact part of the released numbers."""

    chances: measures.Distribution
    numbers: dict[Hashable, Floats]


@dataclass(frozen=True)
class MixedCase(ChoiceCase):
    """A setting that publishes choices and releases noisy numbers that depend on these choices.

    Let choices o have probabilities p and q in two worlds, and let s(o) be the size of the least shift of the
    noise that turns one world's numbers into the other's. With Laplace noise, the loss is the largest
    |log p(o)/q(o)| + s(o). With Gaussian noise, where s is its mu, delta is the sum over o of p(o) times the
    delta of mu = s(o) at epsilon - log p(o)/q(o), in the worse direction.
    """

    def _mixture(self, stream: Floats) -> ChoicesWithNumbers:
        numbers: dict[Hashable, Floats] = {}

        def once() -> Hashable:
            with hooks.scripted_noise(measures.quiet), hooks.overheard(_zeros) as left:
                chosen = hashable(self.play(stream, self.source(0)).published)
            found = np.concatenate(left)
            if measures.differ(numbers.setdefault(chosen, found), found):
                raise AssertionError(
                    f"the numbers that leave with {chosen!r} depend on more than these choices"
                )
            return chosen

        return ChoicesWithNumbers(measures.distribution(once, self.alike), numbers)

    def _distribution(self, stream: Floats) -> measures.Distribution:
        return self._mixture(stream).chances

    def _noise(self, stream: Floats) -> measures.NoiseMap:
        """The map from noise to numbers, the same for all choices that release as many numbers."""

        def observe(script: hooks.Script | None) -> tuple[list[Floats], hooks.Drawn]:
            with (
                hooks.scripted_choices(lambda _: 0),
                hooks.scripted_noise(script) as drawn,
                hooks.overheard(_zeros) as left,
            ):
                self.play(stream, self.source(0))
            return left, drawn

        return measures.noise_map(observe)

    def _shifts(
        self, here: ChoicesWithNumbers, there: ChoicesWithNumbers, noise: measures.NoiseMap
    ) -> dict[Hashable, float]:
        return {
            chosen: noise.loss(numbers - there.numbers[chosen])
            for chosen, numbers in here.numbers.items()
            if chosen in there.numbers
        }

    def _loss(
        self, here: ChoicesWithNumbers, there: ChoicesWithNumbers, noise: measures.NoiseMap, delta: float
    ) -> float:
        """The exact epsilon at ``delta`` for Gaussian noise; at a delta of 0 for Laplace noise."""
        shifts = self._shifts(here, there, noise)
        if noise.law != "gaussian":
            if here.chances.keys() != there.chances.keys():
                return math.inf  # a choice that is possible in one world only: no noise hides that
            return max(abs(log_ratio(here.chances, there.chances, o)) + s for o, s in shifts.items())
        return measures.least_epsilon(lambda epsilon: self._delta(here, there, shifts, epsilon), delta)

    @staticmethod
    def _delta(
        here: ChoicesWithNumbers, there: ChoicesWithNumbers, shifts: dict[Hashable, float], epsilon: float
    ) -> float:
        def one_way(p: measures.Distribution, q: measures.Distribution) -> float:
            alone = math.fsum(chance for o, chance in p.items() if o not in q)  # no noise hides these
            return alone + math.fsum(
                p.get(o, 0.0) * measures.gaussian_delta(s, epsilon - log_ratio(p, q, o))
                for o, s in shifts.items()
            )

        return max(one_way(here.chances, there.chances), one_way(there.chances, here.chances))

    def _searched(self, delta: float | None = None) -> Callable[[Pair], float]:  # noqa: ARG002
        known, noise = measures.cached(self._mixture), self._noise(self.space.example())

        def loss(pair: Pair) -> float:
            return self._loss(known(pair.here), known(pair.there), noise, self.budget.delta)

        return loss

    def compare(self, pair: Pair) -> tuple[float, float]:
        here, there, noise = self._mixture(pair.here), self._mixture(pair.there), self._noise(pair.here)
        loss, account = self._loss(here, there, noise, self.budget.delta), self._account(pair)
        if not noise.same(self._noise(pair.there)):
            return math.inf, math.inf
        if noise.law != "gaussian":
            return loss, max(0.0, loss - account.pure * (1.0 + RELATIVE))
        shifts, excess = self._shifts(here, there, noise), 0.0
        for share in _MIXED_SHARES:
            epsilon = share * self.budget.epsilon
            excess = max(excess, self._delta(here, there, shifts, epsilon) - account.delta(epsilon) - SLACK)
        return loss, excess

    # --- real runs ---------------------------------------------------------------------------------

    def _runs(self, stream: Floats, runs: int, first: int) -> list[tuple[Hashable, Floats, hooks.Drawn]]:
        """The choices, the released numbers and their noise, run by run."""
        found = []
        for seed in range(first, first + runs):
            with hooks.coarse_scores(), hooks.scripted_noise(None) as drawn, hooks.overheard(_zeros) as left:
                chosen = hashable(self.play(stream, self.source(seed)).published)
            found.append((chosen, np.concatenate(left), drawn))
        return found

    def _bound(
        self, pair: Pair, runs: int, fault: faults.Fault = faults.no_fault
    ) -> tuple[float, list[list[tuple[Hashable, Floats, hooks.Drawn]]]]:
        """The epsilon that outputs prove, by the exact likelihood ratios of a sound library; and the runs."""
        here, there, noise = self._mixture(pair.here), self._mixture(pair.there), self._noise(pair.here)
        with fault():
            worlds = [self._runs(pair.here, runs, 0), self._runs(pair.there, runs, runs)]
        scores = []
        for world in worlds:
            ratios = np.empty((runs, 3))  # of choices and numbers together, and of each alone
            for place, (chosen, left, _) in enumerate(world):
                by_choice = log_ratio(here.chances, there.chances, chosen)
                exact_parts = here.numbers[chosen], there.numbers[chosen]
                by_numbers = float(noise.log_ratios(left[None, :], *exact_parts)[0])
                ratios[place] = by_choice + by_numbers, by_choice, by_numbers
            scores.append(ratios)
        return measures.epsilon_lower_bound(scores[0], scores[1], self.budget.delta), worlds

    def real_runs(self, pair: Pair, effort: Effort) -> tuple[float, float]:
        runs = self.run_factor * effort.runs
        if effort.deep:
            pair = self._worst(self._usual_loss(), effort.evaluations // 2, seed=2, extra=(pair,))
        bound, worlds = self._bound(pair, runs)
        fits = [
            measures.chi_square([chosen for chosen, _, _ in world], self._distribution(stream))
            for world, stream in zip(worlds, (pair.here, pair.there), strict=True)
        ]
        fits += self._fits_on_fault_streams(pair, effort, first=2 * runs)
        fits.append(self._noise_fit(pair, worlds[0]))
        return min(1.0, len(fits) * min(fits)), bound

    def _noise_fit(self, pair: Pair, world: list[tuple[Hashable, Floats, hooks.Drawn]]) -> float:
        """The p-value that noise follows its law; 0 if it does not move released numbers as its map says."""
        noise, numbers = self._noise(pair.here), self._mixture(pair.here).numbers
        if not all(noise.explains(left - numbers[chosen], drawn) for chosen, left, drawn in world):
            return 0.0
        return measures.noise_law([part for _, _, drawn in world for part in drawn.values], noise.law)

    def sampler_notices(self, fault: faults.Fault, pair: Pair, effort: Effort) -> bool:
        if fault not in faults.OF_NOISE:
            return super().sampler_notices(fault, pair, effort)
        with fault():
            world = self._runs(pair.here, math.ceil(_NUMBERS / self._noise(pair.here).matrix.shape[1]), 0)
            return self._noise_fit(pair, world) <= measures.NEVER

    def outputs_notice(self, name: str, fault: faults.Fault, pair: Pair, effort: Effort) -> bool:
        claim, delta = self._claim(pair), self.budget.delta
        if name == faults.NUMBERS_TELL:
            pair = self._worst(self._numbers_apart(), effort.evaluations, seed=2, extra=(pair,))
            runs = math.ceil(1.1 * measures.runs_to_prove(claim, delta))
        else:
            found = self._clear_pair(fault, pair, effort)
            if found is None:
                return False
            # Four times the runs: choices are distinguished despite noise, and a score has to be selected.
            pair, runs = found[0], 4 * found[1]
        return self._bound(pair, runs, fault)[0] > claim * (1.0 + RELATIVE)

    def _usual_loss(self) -> Callable[[Pair], float]:
        """The loss averaged over outcomes, which a limited number of outputs can prove."""
        known, noise = measures.cached(self._mixture), self._noise(self.space.example())

        def usual(pair: Pair) -> float:
            here, there = known(pair.here), known(pair.there)
            p, q = here.chances, there.chances
            return math.fsum(
                min(p.get(o, 0.0), q.get(o, 0.0)) * (s + abs(log_ratio(p, q, o)))
                for o, s in self._shifts(here, there, noise).items()
            )

        return usual

    def _numbers_apart(self) -> Callable[[Pair], float]:
        """The probability of choices whose released numbers differ between the two worlds."""
        known = measures.cached(self._mixture)

        def distance(pair: Pair) -> float:
            here, there = known(pair.here), known(pair.there)
            return math.fsum(
                min(chance, there.chances.get(o, 0.0))
                for o, chance in here.chances.items()
                if o in there.numbers and measures.differ(here.numbers[o], there.numbers[o])
            )

        return distance


def _zeros(_: int, size: int) -> Floats:
    return np.zeros(size)
