"""One setting of a mechanism or learner, taken through all parts of an audit.

What protects people may be choices (every transcript is enumerated), noise (the exact effect of every number
of it is known), or choices and noisy numbers together, under one account.
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

# What rounding in the audit itself may add to a delta or, relatively, to an epsilon.
SLACK = 1e-9
RELATIVE = 1e-6


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
Play = Callable[[Floats, AuditRandomness], Played]


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
    unseen: tuple[str, ...] = ()
    seconds: float = field(compare=False, default=0.0)

    @property
    def problems(self) -> list[str]:
        """Everything that is wrong; nothing for a sound mechanism and an audit that can see."""
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
    """A setting to audit: who it is about, the people it is tried with, and how to run it.

    ``run_factor`` multiplies the number of real runs, for what is quick. ``twice`` is a row in which the
    audited person must not also be; None where there is no such row. ``faults`` are the injected faults to
    notice. ``public`` seeds the public randomness, on which everything is conditioned. ``starts`` are
    neighbours from which the search starts, too. ``unseen``: sentences on what this audit cannot see, why.
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
        """All parts: exact loss at the worst neighbours, the sampler, outputs alone, injected faults."""
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # tiny settings are too small to be useful, and say so
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
        """Whether the audit of these neighbours, or a short search for others, sees an injected fault."""
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
                # At a delta of 0 it is rare outcomes that are looked for: other neighbours than before.
                other = self._worst(self._searched(0.0), effort.evaluations, seed=1)
                return self.compare(other)[1] > 0.0
        except BudgetExceeded:  # the gate has seen it
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
        """The account that both worlds give, or of two that differ the one that claims the smaller loss."""
        both = [self.play(stream, self.source(0)).account() for stream in (pair.here, pair.there)]
        return min(both, key=lambda account: account.epsilon(self.budget.delta))

    def _claim(self, pair: Pair) -> float:
        return self._account(pair).epsilon(self.budget.delta)

    def _proves(self, pair: Pair, bound: float) -> bool:
        """Whether a lower bound on epsilon is more than these people were promised."""
        return bound > self._claim(pair) * (1.0 + RELATIVE)

    def _searched(self, delta: float | None = None) -> Callable[[Pair], float]:
        """What to search for: the exact epsilon at ``delta`` (the budget's, if None)."""
        raise NotImplementedError

    def compare(self, pair: Pair) -> tuple[float, float]:
        """The exact epsilon between two neighbours, and how far the account is exceeded (0 if it is not)."""
        raise NotImplementedError

    def real_runs(self, pair: Pair, effort: Effort) -> tuple[float, float]:
        """p-value of the sampler, and a lower bound on epsilon from outputs."""
        raise NotImplementedError

    def sampler_notices(self, fault: Fault, pair: Pair, effort: Effort) -> bool:
        """Whether real draws show that they do not follow their probabilities."""
        raise NotImplementedError

    def outputs_notice(self, name: str, fault: Fault, pair: Pair, effort: Effort) -> bool:
        """Whether outputs alone prove more than the claim while the fault is there."""
        raise NotImplementedError


def _telling_all(play: Play) -> Play:
    """The same, but everybody's numbers are also shown as they are."""

    def leaking(stream: Floats, source: AuditRandomness) -> Played:
        played = play(stream, source)
        return Played([*played.published, stream], played.account)

    return leaking


def hashable(published: Any) -> Hashable:
    """What was published as something that can be counted; floats to nine digits."""
    if isinstance(published, np.ndarray):
        return hashable(published.tolist())
    if isinstance(published, list | tuple):
        return tuple(hashable(part) for part in published)
    return round(published, 9) if isinstance(published, float) else published


# --- choices ----------------------------------------------------------------------------------------


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

    ``alike`` says which candidates of a choice lead to the same (see `measures.distribution`), so that
    settings with many of them can still be enumerated.
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
        """P-values of the correct sampler, on the streams that would reveal each injected fault of it best.

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
        """Neighbours of whom n outputs prove most: the worst ones may differ in rare outcomes only."""
        known = measures.cached(self._distribution)

        def proved(pair: Pair) -> float:
            p, q = measures.paired(known(pair.here), known(pair.there))
            bound = max(0.0, measures.provable(p, q, runs, self.budget.delta))
            return bound + 1e-3 * float(np.abs(p - q).sum())  # without a bound it says which way to go

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
        # Scored by what a sound library would do: outputs alone do not show what the fault is.
        p, q = self._distribution(clear.here), self._distribution(clear.there)
        bound = measures.epsilon_lower_bound(*_ratios(p, q, here, there), self.budget.delta)
        return self._proves(clear, bound)

    def _clear_pair(self, fault: faults.Fault, pair: Pair, effort: Effort) -> tuple[Pair, int] | None:
        """Neighbours whose outputs show the fault, and enough runs; None if it would take too many."""
        claim, delta = self._claim(pair), self.budget.delta
        with fault():
            known = measures.cached(self._distribution)

            def distance(pair: Pair) -> float:
                return measures.hockey_stick(known(pair.here), known(pair.there), claim)

            clear = self._worst(distance, min(effort.evaluations, _LOOKED_AT), seed=2, extra=(pair,))
            p, q = measures.paired(known(clear.here), known(clear.there))
        runs = measures.runs_needed(p, q, claim * (1.0 + RELATIVE), delta, _MOST_TO_PROVE)
        return None if runs is None else (clear, runs)


# Likelihood ratios beyond this tell the same; infinite ones have no middle.
_BEYOND = 1e4


def log_ratio(p: measures.Distribution, q: measures.Distribution, outcome: Hashable) -> float:
    """The logarithm of how much likelier an outcome is under ``p``; 0 if it is impossible under both."""
    here, there = p.get(outcome, 0.0), q.get(outcome, 0.0)
    if here == 0.0 or there == 0.0:
        return 0.0 if here == there else math.copysign(_BEYOND, here - there)
    return math.log(here) - math.log(there)


def _ratios(
    p: measures.Distribution, q: measures.Distribution, here: Sequence[Hashable], there: Sequence[Hashable]
) -> tuple[Floats, Floats]:
    """Logarithms of likelihood ratios of outputs, as scores."""
    first, second = (np.array([log_ratio(p, q, outcome) for outcome in seen]) for seen in (here, there))
    return first, second


# --- noise ------------------------------------------------------------------------------------------


# A vectorised mechanism is run this many times as often.
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
        """Whether what is shown differs between neighbours of whom the same numbers have left."""
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
        # What is shown follows from what has left. A few runs look for what does not.
        shown = self._shown_scores(pair, few)
        bounds.append(measures.epsilon_lower_bound(*shown, delta, mistake / 2.0))
        return fit, max(bounds)

    def _noise_fit(self, pair: Pair, enough: int) -> float:
        """Whether real noise follows its law, and moves releases exactly as the map of it says."""
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
        """Runs per world that prove more than the claim where outputs tell the worlds apart."""
        claim, delta = self._claim(pair), self.budget.delta
        return math.ceil(_SPARE * measures.runs_to_prove(claim, delta, measures.MISTAKE / 2.0))

    def _release_scores(
        self, pair: Pair, runs: int, fault: faults.Fault = faults.no_fault
    ) -> tuple[Floats, Floats]:
        """Scores of the noisy vectors released in this many runs: likelihood ratios by the noise as it is
        before any fault is injected, and, since that may itself be wrong, Fisher's discriminant.
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
        """Scores of what this many runs show."""
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
        """Neighbours of whom something else is shown while the fault is there, whatever the seed."""

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
    """What n runs give in either world, a row each, every run with a seed of its own."""
    here = np.array([once(pair.here, seed) for seed in range(runs)])
    return here, np.array([once(pair.there, seed) for seed in range(runs, 2 * runs)])


# --- choices and noisy numbers ----------------------------------------------------------------------


_MIXED_SHARES = (0.1, 0.25, 0.5, 0.75, 0.9, 1.0, 1.25)


@dataclass(frozen=True)
class ChoicesWithNumbers:
    """What can be chosen, with its probability, and the exact part of the numbers that leave with each."""

    chances: measures.Distribution
    numbers: dict[Hashable, Floats]


@dataclass(frozen=True)
class MixedCase(ChoiceCase):
    """Choices are published, and through the gate leave numbers with noise that depend on them.

    With probabilities p and q of the choices o in two worlds, and noise that has to be shifted by s(o) to
    hide the other world's numbers, the loss of Laplace noise is the largest |log p(o)/q(o)| + s(o). With
    Gaussian noise, where s is its mu, delta is the sum over o of p(o) times the delta of mu = s(o) at
    epsilon - log p(o)/q(o), in the worse direction.
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
        """The map from noise to numbers, the same for all choices of which as many numbers leave."""

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
                return math.inf  # chosen in one world only: no noise hides that
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
        """What was chosen, the numbers that left, and their noise."""
        found = []
        for seed in range(first, first + runs):
            with hooks.coarse_scores(), hooks.scripted_noise(None) as drawn, hooks.overheard(_zeros) as left:
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
        """Whether noise follows its law, and moves the numbers that leave exactly as the map of it says."""
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
            # Choices are distinguished despite noise, by one of three scores that has to be found first.
            pair, runs = found[0], 4 * found[1]
        return self._bound(pair, runs, fault)[0] > claim * (1.0 + RELATIVE)

    def _usual_loss(self) -> Callable[[Pair], float]:
        """The loss of what is usually published, which a limited number of outputs can prove."""
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
        """How likely something is chosen of which other numbers leave in the two worlds."""
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
