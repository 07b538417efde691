"""The audit's hooks on `Release`, which makes every draw that protects people.

Only this file and `faults` use it. All other files of the audit treat a mechanism or learner as a function
from people and a source of randomness to outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..privacy import Gate, Release, ReproducibleRandomness, RunningSum, samplers
from ..privacy.ordered import OrderedExperts

Floats = NDArray[np.float64]
# From the probabilities of candidates to the place of the one that is taken.
Decide = Callable[[Floats], int]
# From the number of the draw and its size to noise in units of its own scale.
Script = Callable[[int, int], Floats]

ONE = 1 << samplers.STEPS_BITS  # one scale of noise on the grid, in steps
_NOISY = ("laplace", "gaussian", "spherical_laplace")  # methods of a gate


class AuditRandomness:
    """Random words for one run: public randomness follows ``public`` in every run, all others ``seed``.

    Audits condition on public randomness (`PublicRandomness`), which protects nobody: everybody may see it.
    """

    secure = False

    def __init__(self, seed: int, public: int = 0) -> None:
        self._own, self.public = ReproducibleRandomness(seed), ReproducibleRandomness(public)

    def words(self, count: int) -> NDArray[np.uint64]:
        return self._own.words(count)

    def state(self) -> dict[str, Any]:
        return self._own.state()


@contextmanager
def swapped(owner: Any, name: str, value: Any) -> Iterator[None]:
    """``owner.name`` is ``value`` inside of this context."""
    had, before = name in vars(owner), vars(owner).get(name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        if had:
            setattr(owner, name, before)
        else:
            delattr(owner, name)


class Faulty:
    """A drawing function with a fault, which affects both real and scripted draws.

    ``before`` changes the arguments of the draw, ``after`` its result.
    """

    def __init__(
        self,
        real: Callable[..., Any],
        before: Callable[..., tuple[Any, ...]] | None = None,
        after: Callable[[Any], Any] | None = None,
    ) -> None:
        self._real = real
        self.before = before or (lambda *given: given)
        self.after = after or (lambda answer: answer)

    def __call__(self, *given: Any, **options: Any) -> Any:
        return self.after(self._real(*self.before(*given), **options))

    def __get__(self, owner: Any, kind: Any = None) -> Any:
        """Bind to an instance, as functions do."""
        return self if owner is None else partial(self, owner)


def faults_in(function: Callable[..., Any]) -> tuple[Callable[..., tuple[Any, ...]], Callable[[Any], Any]]:
    """The changes of an injected fault to arguments and result; none for a sound function."""
    if isinstance(function, Faulty):
        return function.before, function.after
    return (lambda *given: given), (lambda answer: answer)


# --- choices --------------------------------------------------------------------------------------


# Scores that are released with choices are rounded to cells, so that they can be enumerated: lower ends of
# cells, and the scores that learners see instead. This is post-processing. The cells keep what distinguishes
# most: scores that one vote makes impossible, or much more likely.
_CELLS, _TOLD = np.array([0.0, 1.0, 3.0]), (0.5, 2.0, 4.0)


@contextmanager
def coarse_scores() -> Iterator[None]:
    """Scores that are released with choices are really drawn, and then rounded to their cells."""
    real = Release.noisy_maximum

    def told(self: Release, scores: Any, step: float, rate: float) -> tuple[int, float]:
        place, score = real(self, scores, step, rate)
        return place, _TOLD[int(np.searchsorted(_CELLS, score, side="right")) - 1]

    with swapped(Release, "noisy_maximum", told):
        yield


@contextmanager
def scripted_choices(decide: Decide) -> Iterator[None]:
    """Every protective choice is made by ``decide``, with the probabilities of the real scores and rates."""
    weights_before, _ = faults_in(Release.choice)
    flips_before, _ = faults_in(Release.permute_and_flip)
    tops_before, _ = faults_in(Release.noisy_maximum)
    kept_before, _ = faults_in(Release.sample)
    sets_before, _ = faults_in(Release.ordered_set)

    def rate_of(release: Release, rate: float | None) -> float:
        return release.event.rate if rate is None else rate  # type: ignore[attr-defined]

    def choice(self: Release, scores: Floats, rate: float | None = None) -> int:
        _, scores, used = weights_before(self, scores, rate_of(self, rate))
        return decide(np.exp(samplers.choice_log_probabilities(scores, used)))

    def flipped(self: Release, scores: Floats, rate: float | None = None) -> int:
        _, scores, used = flips_before(self, scores, rate_of(self, rate))
        return decide(samplers.flip_probabilities(scores, used))

    def largest(self: Release, scores: Any, step: float, rate: float) -> tuple[int, float]:
        _, scores, step, used = tops_before(self, scores, step, rate)
        chances = samplers.maximum_probabilities(step * np.asarray(scores), used, _CELLS).ravel()
        possible = np.flatnonzero(chances > 0.0)
        place, cell = divmod(int(possible[decide(chances[possible])]), _CELLS.size)
        return place, _TOLD[cell]

    def sample(self: Release, people: int, keep: int) -> NDArray[np.int64]:
        _, people, keep = kept_before(self, people, keep)
        chance = keep / 2.0**64
        return np.flatnonzero([decide(np.array([1.0 - chance, chance])) for _ in range(people)])

    def ordered_set(self: Release, experts: OrderedExperts) -> NDArray[np.int32]:
        _, experts = sets_before(self, experts)
        items, number = experts.scores.shape
        shown = np.zeros(number, dtype=np.int32)
        for expert in range(number):
            left = np.setdiff1d(np.arange(items), shown[:expert])
            scores = experts.scores[left, expert]
            weights = np.exp(float(experts.unit) * (scores - scores.max()))
            shown[expert] = left[0] if left.size == 1 else left[decide(weights / weights.sum())]
        return shown

    with ExitStack() as stack:
        for name, script in (
            ("choice", choice),
            ("permute_and_flip", flipped),
            ("noisy_maximum", largest),
            ("sample", sample),
            ("ordered_set", ordered_set),
        ):
            stack.enter_context(swapped(Release, name, script))
        yield


# --- noise ----------------------------------------------------------------------------------------


class Drawn:
    """A record of the noise that was drawn: size, law and values of each draw."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.laws: list[str] = []
        self.values: list[Floats] = []

    def add(self, law: str, values: Floats) -> None:
        self.sizes.append(values.size)
        self.laws.append(law)
        self.values.append(values)


@contextmanager
def scripted_noise(script: Script | None) -> Iterator[Drawn]:
    """Noise is scripted, in units of its scale, or real if ``script`` is None; it is recorded in any case."""
    drawn, real = Drawn(), Release.steps
    _, after = faults_in(real)

    def steps(self: Release, count: int, law: str | None = None) -> NDArray[np.int64]:
        if script is None:
            found = real(self, count, law)
        else:
            found = np.asarray(
                after(np.rint(script(len(drawn.sizes), count) * ONE).astype(np.int64)), dtype=np.int64
            )
        drawn.add(law or self.law, found / float(ONE))
        return found

    with swapped(Release, "steps", steps):
        yield drawn


@contextmanager
def overheard(answers: Callable[[int, int], Floats]) -> Iterator[list[Floats]]:
    """Every noisy vector that is released is recorded, and the caller gets ``answers(number, size)`` instead.

    A learner's next release depends on earlier ones. With the same scripted answers, runs on neighbours ask
    for the same releases, so that the recorded vectors can be compared.
    """
    heard: list[Floats] = []

    def instead(real: Callable[..., Any]) -> Callable[..., Any]:
        def release(self: Any, values: Any, *given: Any, **options: Any) -> Any:
            answer = real(self, values, *given, **options)
            found = np.atleast_1d(np.asarray(answer, dtype=np.float64))
            heard.append(found)
            given_back = answers(len(heard) - 1, found.size)
            return float(given_back[0]) if np.ndim(answer) == 0 else given_back

        return release

    with ExitStack() as stack:
        stack.enter_context(swapped(RunningSum, "add", instead(RunningSum.add)))
        for name in _NOISY:
            stack.enter_context(swapped(Gate, name, instead(getattr(Gate, name))))
        yield heard
