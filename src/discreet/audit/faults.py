"""Injected faults, each of which an audit must notice: context managers, used by audits only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from fractions import Fraction
from typing import Any

import numpy as np

from ..online.people import ContributionLimit
from ..online.rolling import Votes
from ..privacy import (
    Entry,
    ExactChoices,
    ExponentialChoice,
    GaussianNoise,
    LaplaceNoise,
    PermuteAndFlip,
    Release,
    Releases,
    ScoreChange,
)
from ..privacy.factorizations import Factorization
from ..privacy.ordered import OrderedExperts
from .hooks import Faulty, swapped

Fault = Callable[[], AbstractContextManager[None]]


no_fault: Fault = nullcontext


@contextmanager
def _choices(factor: float) -> Iterator[None]:
    """The rate of every choice is multiplied by ``factor`` before it is drawn."""

    def before(release: Any, scores: Any, rate: float | None = None) -> tuple[Any, ...]:
        return release, factor * np.asarray(scores), rate

    def scores_before(release: Any, scores: Any, step: float, rate: float) -> tuple[Any, ...]:
        return release, factor * np.asarray(scores), step, rate

    def sets_before(release: Any, experts: OrderedExperts) -> tuple[Any, ...]:
        rate = factor * float(experts.unit)
        return release, OrderedExperts(experts.scores, rate, Fraction(1), 1)

    with ExitStack() as stack:
        for name in ("choice", "permute_and_flip"):
            stack.enter_context(swapped(Release, name, Faulty(getattr(Release, name), before)))
        largest = Faulty(Release.noisy_maximum, scores_before)
        stack.enter_context(swapped(Release, "noisy_maximum", largest))
        stack.enter_context(swapped(Release, "ordered_set", Faulty(Release.ordered_set, sets_before)))
        yield


def rate_doubled() -> AbstractContextManager[None]:
    """Choices are drawn at twice the rate that was charged."""
    return _choices(2.0)


def choice_sign_lost() -> AbstractContextManager[None]:
    """Choices favour the lowest scores."""
    return _choices(-1.0)


def _noise(after: Callable[[Any], Any]) -> AbstractContextManager[None]:
    return swapped(Release, "steps", Faulty(Release.steps, after=after))


def noise_halved() -> AbstractContextManager[None]:
    """Noise has half the scale that was charged."""
    return _noise(lambda steps: steps // 2)


def noise_left_out() -> AbstractContextManager[None]:
    """There is no noise at all: a gross error, for audits from outputs alone."""
    return _noise(np.zeros_like)


def noise_sign_lost() -> AbstractContextManager[None]:
    """Noise is never negative."""
    return _noise(np.abs)


def charges_forgotten() -> AbstractContextManager[None]:
    """The account has only half of several equal releases, and no single ones."""
    add = Releases.add

    def forgetful(self: Releases, entry: Entry, count: int) -> None:
        if count > 1:
            add(self, entry, count // 2)

    return swapped(Releases, "add", forgetful)


@contextmanager
def sensitivity_halved() -> Iterator[None]:
    """Everything is calibrated, and charged, for half of the sensitivity."""
    with ExitStack() as stack:
        kinds = (ExponentialChoice, ExactChoices, PermuteAndFlip, LaplaceNoise, GaussianNoise)
        homes = dict.fromkeys(next(one for one in kind.__mro__ if "within" in vars(one)) for kind in kinds)
        for kind in homes:  # classes that define `within`: kinds that inherit it share one
            honest = vars(kind)["within"].__func__

            def within(
                cls: Any, /, share: Any, moves: Any, *rest: Any, real: Any = honest, **how: Any
            ) -> Any:
                return real(cls, share, moves / 2, *rest, **how)

            stack.enter_context(swapped(kind, "within", classmethod(within)))
        yield


def range_halved() -> AbstractContextManager[None]:
    """The range by which one person can move scores apart is taken to be half of what it is."""
    honest = vars(ScoreChange)["range"]
    return swapped(ScoreChange, "range", property(lambda change: honest.fget(change) / 2.0))


def everybody_sampled() -> AbstractContextManager[None]:
    """A secret sample contains everybody."""

    def before(release: Any, people: int, keep: int) -> tuple[Any, ...]:  # noqa: ARG001
        return release, people, (1 << 64) - 1

    return swapped(Release, "sample", Faulty(Release.sample, before))


@contextmanager
def sample_redrawn() -> Iterator[None]:
    """The secret sample of voters is drawn anew for every release, not once at a person's arrival.

    Everybody who comes is kept. Each release uses a new sample of them, and the others are put back after it.
    """
    real = Votes.draw

    def draw(self: Votes, number: int, active: Any) -> Any:
        assert self._sample is not None
        release, chance = self._sample
        left_out = []
        everybody, self._runs = self.rows(), {}
        for rows in everybody:
            kept = release.sample(rows.n_rows, chance)
            left_out.append(rows.take(np.setdiff1d(np.arange(rows.n_rows), kept)))
            self.keep_rows(rows.take(kept))
        found = real(self, number, active)
        for rows in left_out:
            self.keep_rows(rows)
        return found

    everybody = swapped(Votes, "_sampled", lambda _, count: np.ones(count, dtype=bool))
    with everybody, swapped(Votes, "draw", draw):
        yield


def spent_people_kept() -> AbstractContextManager[None]:
    """People continue to vote after one of their items has been picked."""
    return swapped(Votes, "_unspent", lambda _, rows, *__: rows)


def credit_of_true_sums() -> AbstractContextManager[None]:
    """Credits are computed from scores without noise."""
    real = Votes.largest

    def largest(self: Votes, scores: Any) -> tuple[int, float]:
        place, _ = real(self, scores)
        return place, float(scores[place]) * self.unit

    return swapped(Votes, "largest", largest)


def score_of_another() -> AbstractContextManager[None]:
    """The noisy score that is released with an item is that of another item."""
    real = Votes.largest

    def largest(self: Votes, scores: Any) -> tuple[int, float]:
        place = self.release.permute_and_flip(scores * self.unit, self.settings.rate)
        return place, real(self, scores[:1])[1]

    return swapped(Votes, "largest", largest)


def everybody_counted() -> AbstractContextManager[None]:
    """Every round of a person counts, also several in one batch."""
    return swapped(ContributionLimit, "register", lambda *_: True)


def rounds_counted_as_one() -> AbstractContextManager[None]:
    """The sensitivity to a person in several batches of a running sum is taken to be that of one batch."""
    return swapped(Factorization, "participation_norm", lambda found, *_: found.column_norm)


@contextmanager
def hardly_random() -> Iterator[None]:
    """A gross error, for outputs alone: choices nearly always take the best, samples contain everybody."""
    with _choices(100.0), everybody_sampled():
        yield


# Faults about people who return: their joint sensitivity, and how often they count.
RETURNING: dict[str, Fault] = {
    "a person twice in a batch": everybody_counted,
    "several batches counted as one": rounds_counted_as_one,
}
# Faults that the exact audit must notice: in the sensitivity, and in what was charged.
EXACT: dict[str, Fault] = RETURNING | {
    "rate doubled": rate_doubled,
    "noise halved": noise_halved,
    "charges forgotten": charges_forgotten,
    "sensitivity halved": sensitivity_halved,
    "range of scores halved": range_halved,
    "everybody in the sample": everybody_sampled,
    "sample drawn again": sample_redrawn,
    "spent people kept": spent_people_kept,
    "credit of true sums": credit_of_true_sums,
    "score of another item": score_of_another,
}
# Faults that only real draws of the sampler reveal.
SAMPLED: dict[str, Fault] = {
    "drawn at twice the rate": rate_doubled,
    "drawn with the sign lost": choice_sign_lost,
    "half of the noise drawn": noise_halved,
    "noise drawn with its sign lost": noise_sign_lost,
}
OF_NOISE = (noise_halved, noise_sign_lost)
# Faults so gross that outputs alone must prove more than the claim: from published choices, from released
# noisy numbers, and from what a learner showed.
CHOICES_TELL = "outputs alone: rate a hundredfold, all sampled"
NUMBERS_TELL = "outputs alone: noise left out"
SHOWN_TELLS = "what is shown alone: noise left out"
OUTPUTS: dict[str, Fault] = {
    CHOICES_TELL: hardly_random,
    NUMBERS_TELL: noise_left_out,
    SHOWN_TELLS: noise_left_out,
}
# Outputs depend on people in another way than through released noisy numbers.
PAST_THE_GATE = "somebody's numbers shown as they are"
# A person counts in two rounds, windows or blocks although one was declared.
TWICE = "a person in two rounds"
