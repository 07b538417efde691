"""Simulations of a question about items: every learner that fits it, on a few streams of its size."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, Self

from .. import bounds
from ..constraints import Constraint
from ..objectives import Population
from .expected import Expected, Size, at_random, best_values, served, streams
from .plans import Candidate, Question, Simulation

# How far the search for enough people goes.
_MOST_PEOPLE = 300_000
# Learners that draw a new set in almost every round are simulated with so many sets in all.
_MOST_SETS = 200
_RESAMPLING = ("HedgeSelector", "RunningSumSelector", "BestOfBothSelector", "MetaFrankWolfe")


@dataclass(frozen=True)
class ItemQuestion(Question):
    """A set of items a round."""

    n_items: int = 0
    bound: float = 1.0
    labels: tuple[Any, ...] | None = None
    separation: int | None = None  # rounds after which people return, where that is declared

    def apart(self, batch: int) -> dict[str, Any]:
        """The option for people who return, of a learner with batches of so many rounds.

        Rounds that are r apart are in batches at least r // batch apart; in batches that are longer than that
        somebody counts once.
        """
        if self.separation is None:
            return {}
        return {"min_separation": max(1, self.separation // batch)}

    @property
    def returning(self) -> str:
        """The same in words."""
        if self.separation is None:
            return ""
        times = self.budget.max_rounds_per_person
        return f", people who come {times} times, at least {self.separation:,} rounds apart"

    def visits(self, rounds: int) -> list[int] | None:
        """Who comes in each of so many simulated rounds: everybody as often and as soon as declared."""
        if self.separation is None:
            return None
        times = self.budget.max_rounds_per_person
        cycle, apart = times * self.separation, self.separation
        return [apart * (t // cycle) + t % apart for t in range(rounds)]

    @property
    @abstractmethod
    def allowed(self) -> Constraint:
        """The sets that may be shown."""

    @abstractmethod
    def at_size(self, rounds: int) -> Self:
        """The same question for so many rounds, and for as many items as can be simulated."""

    @property
    def trivial(self) -> float:
        return bounds.trivial(self.rounds, self.bound)

    def simulated(self, sample: Population | None) -> Simulation:
        if sample is None:
            return _made_up(replace(self, labels=None))
        if sample.n_items != self.n_items or not sample.bound <= self.bound:
            raise ValueError(
                f"sample has {sample.n_items} items and values up to {sample.bound:g}; the question is about"
                f" {self.n_items} items and values up to {self.bound:g}"
            )
        size = Size.of(self.rounds, self.n_items, self.allowed.rank)
        return _tried(replace(self, rounds=size.rounds, labels=None), sample)


@lru_cache(maxsize=64)
def _made_up(question: ItemQuestion) -> Simulation:
    small = question.at_size(Size.of(question.rounds, question.n_items, question.allowed.rank).rounds)
    found = _tried(small, None)
    best = max(found.shares, key=lambda kind: found.shares[kind].share)
    return found if found.better(found.shares[best]) else replace(found, needed=_people_needed(small, best))


def _tried(question: ItemQuestion, sample: Population | None) -> Simulation:
    size = Size(question.rounds, question.n_items, question.allowed.rank)
    people = streams(size, question.bound, sample)
    best = best_values(people, question.allowed)
    shares: dict[tuple[str, ...], Expected] = {}
    for one in _candidates(question):
        shares[one.kind] = served(partial(question.build, one), people, best, question.visits(size.rounds))
    return Simulation(shares, at_random(people, best, question.allowed), size.rounds)


def _candidates(question: ItemQuestion) -> Iterator[Candidate]:
    """One for each learner and method: the one that certifies most."""
    found: dict[tuple[Any, ...], Candidate] = {}
    for one in question.candidates():
        key = (one.name, *(one.settings.get(name) for name in ("method", "exploration", "weights")))
        best = found.get(key)
        if "published" not in one.settings.values() and (best is None or one.formula < best.formula):
            found[key] = one
    least = max(1, question.rounds // _MOST_SETS)
    for one in found.values():
        every = one.settings.get("resample_every", 1)
        if one.name in _RESAMPLING and (every == "auto" or every < least):
            settings = one.settings | {"resample_every": least}
            if "min_separation" in settings and one.name != "BestOfBothSelector":
                settings |= question.apart(least)
            yield replace(one, settings=settings)
        else:
            yield one


def _people_needed(question: ItemQuestion, kind: tuple[str, ...]) -> int | None:
    """From how many people on a kind of learner does clearly better than chance; by doubling."""
    rounds = question.rounds
    while (rounds := 2 * rounds) <= _MOST_PEOPLE:
        larger = question.at_size(rounds)
        people = streams(Size(rounds, larger.n_items, larger.allowed.rank), larger.bound, None)
        best = best_values(people, larger.allowed)
        one = next(one for one in _candidates(larger) if one.kind == kind)
        share = served(partial(larger.build, one), people, best, larger.visits(rounds))
        if Simulation({}, at_random(people, best, larger.allowed), rounds).better(share):
            return rounds
    return None
