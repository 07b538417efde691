"""Candidates with what each certifies, the chosen one, and the reason in words."""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

from ..core.table import table
from ..objectives import Population
from ..privacy import Budget, Seed
from ..privacy.sums.factorizations import longest_buffered
from .expected import RUNS, Expected

if TYPE_CHECKING:
    from ..online import OnlineLearner

# How far the search for enough rounds, or enough epsilon, goes.
_MOST_ROUNDS = 1 << 40
_MOST_EPSILON = 1e6
# Beyond so many rounds the rounding errors of factorised sums come near their noise, and they are refused.
_MOST_FILTERED = 1 << 25
_ALIKE = 0.01  # expected shares that differ by less are alike
_NO_GUARANTEE, _NO_BOUND = "no guarantee at this size", "no bound is known"
# A certificate about people as they are is worth this much more than one about people cut short.
_WORTH = 2.0


@dataclass(frozen=True)
class Candidate:
    """One learner with its settings, and the regret that is certified for it.

    ``certified`` bounds the expected regret over all rounds, ``average`` the same per round. ``formula`` is
    the bound before it is cut off at what any play can lose; it ranks candidates none of which does better.
    ``cut`` marks a certificate about people with at most ``items_per_person`` items each, not about people
    as they are. ``proven`` is False where no bound better than that of any play is known, at any size.
    ``expected`` is what it serves on simulated streams, where that was asked for.
    """

    name: str
    settings: dict[str, Any]
    certified: float
    average: float
    formula: float
    cut: bool = False
    note: str = ""
    expected: Expected | None = None
    proven: bool = True

    @property
    def without_guarantee(self) -> str:
        """Why nothing is guaranteed, where nothing is."""
        return _NO_GUARANTEE if self.proven else _NO_BOUND

    @property
    def kind(self) -> tuple[str, ...]:
        """The learner and its options, without the numbers that depend on the size of the question."""
        options = {k: v for k, v in self.settings.items() if v is None or isinstance(v, str)}
        return (self.name, *(f"{k}={v}" for k, v in options.items() if k != "resample_every"))

    @property
    def shown_settings(self) -> str:
        """The settings as they would be written in a call, rounded."""
        return ", ".join(f"{name}={_short(value)}" for name, value in self.settings.items())

    def __str__(self) -> str:
        return f"{self.name}({self.shown_settings})"


@dataclass(frozen=True)
class Question(ABC):
    """What is asked, checked: public, all of it.

    Subclasses know which learners fit, what each certifies, and how to build one.
    """

    rounds: int
    budget: Budget
    fineness: int = 4  # settings tried per doubling

    @property
    @abstractmethod
    def headline(self) -> str:
        """The question in one line, without the budget."""

    @property
    @abstractmethod
    def without_learning(self) -> tuple[str, float]:
        """What there is to beat: its name, and what it can lose over all rounds."""

    @property
    @abstractmethod
    def trivial(self) -> float:
        """What any play can lose."""

    @abstractmethod
    def candidates(self) -> Iterator[Candidate]: ...

    @abstractmethod
    def build(self, candidate: Candidate, seed: Seed) -> OnlineLearner:
        """The learner of a candidate, ready for its first round."""

    def simulated(self, sample: Population | None) -> Simulation | None:  # noqa: ARG002
        """What to expect of each candidate; None where nothing is simulated."""
        return None

    def _candidate(
        self,
        name: str,
        settings: dict[str, Any],
        formula: float,
        *,
        certified: float | None = None,
        cut: bool = False,
        note: str = "",
        proven: bool = True,
    ) -> Candidate:
        most = min(self.trivial, formula if certified is None else certified)
        return Candidate(name, settings, most, most / self.rounds, formula, cut, note, proven=proven)

    @property
    def factorised(self) -> tuple[str, ...]:
        """The factorised sums that can be had for so many rounds."""
        there = {"sqrt": _MOST_FILTERED, "blt": longest_buffered()}
        return tuple(name for name, most in there.items() if self.rounds <= most)

    # --- what would be needed --------------------------------------------------------------------

    def beats_chance(self) -> bool:
        """Whether any candidate is certified to do better than not learning."""
        limit = self.without_learning[1]
        return any(one.certified < limit for one in replace(self, fineness=1).candidates())

    def rounds_needed(self) -> int | None:
        """From how many rounds on; by doubling and bisection, to 1 %."""
        low, high = self.rounds, 2 * self.rounds
        while not self._with(rounds=high).beats_chance():
            low, high = high, 2 * high
            if high > _MOST_ROUNDS:
                return None
        while high - low > max(1, high // 100):
            middle = (low + high) // 2
            low, high = (low, middle) if self._with(rounds=middle).beats_chance() else (middle, high)
        return high

    def epsilon_needed(self) -> float | None:
        """From which epsilon on, at the same delta; by doubling and bisection, to 1 %."""

        def enough(epsilon: float) -> bool:
            return self._with(budget=replace(self.budget, epsilon=epsilon)).beats_chance()

        if not self.budget.private:
            return None
        low, high = self.budget.epsilon, 2.0 * self.budget.epsilon
        while not enough(high):
            low, high = high, 2.0 * high
            if high > _MOST_EPSILON:
                return None
        while high > 1.01 * low:
            middle = math.sqrt(low * high)
            low, high = (low, middle) if enough(middle) else (middle, high)
        return high

    def _with(self, **changes: Any) -> Self:
        return replace(self, **changes)


@dataclass(frozen=True)
class Simulation:
    """What every kind of candidate served on simulated streams, beside sets drawn at random.

    ``people`` is how many people came in each; ``needed`` how many would have to come for the best of them
    to serve clearly more than chance, where these are too few.
    """

    shares: dict[tuple[str, ...], Expected]
    at_random: Expected
    people: int
    needed: int | None = None

    def smaller_than(self, rounds: int) -> str:
        """What to say beside a share where fewer people were simulated than are asked about."""
        return f" of {self.people:,} people" if self.people < rounds else ""

    def better(self, one: Expected) -> bool:
        """Whether it is clearly better than chance: by two standard errors of a few runs."""
        return one.share > self.at_random.share + max(0.02, 2.0 * one.spread / math.sqrt(RUNS))


@dataclass(frozen=True)
class Plan:
    """Candidates for one question, the chosen one, and the reason.

    ``candidates`` in order of preference: of falling expected share (``goal="expected"``, and then
    ``simulation`` is what these come from), or of rising bound. In the second case ``rounds_needed`` and
    ``epsilon_needed`` are filled in when no candidate is certified to beat not learning at all: from how many
    rounds on, and from which epsilon on, one would be (None where the search found none).
    """

    question: Question
    candidates: tuple[Candidate, ...]
    best: Candidate
    reason: str
    rounds_needed: int | None = None
    epsilon_needed: float | None = None
    simulation: Simulation | None = None

    @property
    def rounds(self) -> int:
        return self.question.rounds

    @property
    def budget(self) -> Budget:
        return self.question.budget

    @property
    def at_random(self) -> float:
        """What not learning at all can lose over all rounds."""
        return self.question.without_learning[1]

    @property
    def vacuous(self) -> bool:
        """Whether no candidate is certified to beat not learning at all."""
        return self.at_random > 0.0 and self.best.certified >= self.at_random

    def learner(self, seed: Seed = None) -> Any:
        """The chosen learner, ready for its first round; ``seed`` as for every learner.

        With a warning where nothing is expected to do better than chance.
        """
        if self.hopeless:
            warnings.warn(self.reason, stacklevel=2)
        return self.question.build(self.best, seed)

    @property
    def hopeless(self) -> bool:
        """Whether no candidate is expected to do better than sets drawn at random."""
        found, best = self.simulation, self.best.expected
        return found is not None and best is not None and not found.better(best)

    @property
    def headline(self) -> str:
        """The question in one line."""
        budget = self.budget
        delta = f", delta {budget.delta:g}" if budget.delta else ""
        return f"{self.question.headline}; epsilon {budget.epsilon:g}{delta} ({budget.neighbours})"

    def rows(self) -> tuple[list[str], list[list[str]]]:
        """The candidates in words: the header of a table and its rows; the chosen one has a star."""
        rows = []
        found = self.simulation
        for one in self.candidates:
            guaranteed = one.certified < self.at_random
            columns = self._columns(one.certified) if guaranteed else (one.without_guarantee, "")
            expected = [] if found is None else [str(one.expected or "")]
            chosen = "*" if one is self.best else ""
            rows.append([chosen, one.name, one.shown_settings, *expected, *columns, one.note])
        name, loss = self.question.without_learning
        expected = [] if found is None else [str(found.at_random)]
        rows.append(["", name, "", *expected, *self._columns(loss), ""])
        header = [] if found is None else ["expected share" + found.smaller_than(self.rounds)]
        return ["", "learner", "settings", *header, "regret at most", "a round", "note"], rows

    def __str__(self) -> str:
        return "\n".join([self.headline, table(*self.rows()), f"chosen: {self.best}", self.reason])

    def _repr_html_(self) -> str:
        from ..core.html import card, grid, line

        header, rows = self.rows()
        strong = next(place for place, row in enumerate(rows) if row[0])
        return card(
            "Plan", line(self.headline), grid(header, rows, strong=strong), line(self.reason, quiet=True)
        )

    def _columns(self, regret: float) -> tuple[str, str]:
        return number(regret), share(regret / self.rounds)


def decide(question: Question, goal: str = "certified", sample: Population | None = None) -> Plan:
    """Compare every learner that fits the question, and take the best by what is asked for."""
    candidates = sorted(question.candidates(), key=lambda one: (one.certified, one.formula))
    if not candidates:
        raise ValueError(f"no learner fits: {question.headline}")
    found = question.simulated(sample) if goal == "expected" else None
    if found is not None:
        return _most_served(question, candidates, found)
    best, reason = _chosen(candidates, question)
    needed: tuple[int | None, float | None] = (None, None)
    if 0.0 < question.without_learning[1] <= best.certified:
        needed = question.rounds_needed(), question.epsilon_needed()
        reason += " " + _remedy(*needed, question)
    return Plan(question, tuple(candidates), best, reason, *needed)


def _most_served(question: Question, candidates: Sequence[Candidate], found: Simulation) -> Plan:
    """The plan by expected shares."""
    every = [replace(one, expected=found.shares.get(one.kind)) for one in candidates]
    every.sort(key=lambda one: -1.0 if one.expected is None else one.expected.share, reverse=True)
    top = every[0].expected
    assert top is not None
    # Of those that serve about as much, the one that guarantees most.
    least = top.share - max(_ALIKE, top.spread / math.sqrt(RUNS))
    alike = [one for one in every if one.expected is not None and one.expected.share >= least]
    best = min(alike, key=lambda one: one.certified)
    assert best.expected is not None
    chance = question.without_learning[1]
    bound = f"Its certified regret is {number(best.certified)}."
    if best.certified >= chance:
        bound = "No bound on its regret is known."
        if best.proven:
            bound = "At this size its bound on regret guarantees nothing."
    if found.better(best.expected):
        larger = (
            f" With {question.rounds:,} more is to be expected: discreet simulate --rounds measures it."
            if found.smaller_than(question.rounds)
            else ""
        )
        reason = (
            f"Expected to serve {best.expected} of what the best fixed set would (random sets:"
            f" {found.at_random.share:.2f}), as much as any, on simulated streams of {found.people:,} people."
            f"{larger} {bound}"
        )
    else:
        more = "" if found.needed is None else f" About {found.needed:,} people would be needed."
        reason = (
            f"Nothing is expected to do better than random sets here ({best.expected} of what the best fixed"
            f" set would serve, random sets {found.at_random.share:.2f}).{more}"
        )
    return Plan(question, tuple(every), best, reason, simulation=found)


def _chosen(candidates: Sequence[Candidate], question: Question) -> tuple[Candidate, str]:
    """The candidate to take, of those given in order of rising bound, and why in words."""
    first = candidates[0]
    name, chance = question.without_learning
    if chance == 0.0:
        first = min(candidates, key=lambda one: (one.formula, len(one.settings)))
        return first, (
            f"Even {name} has no regret by this measure (the question allows so large a part of everything);"
            " the one with the smallest bound was taken."
        )
    if first.certified >= chance:
        first = min(candidates, key=lambda one: one.formula)
        return first, (
            f"No setting is certified to beat {name}: every bound is above what {name} can lose. The one with"
            " the smallest bound was taken; how well it does is not known."
        )
    whole = next((one for one in candidates if not one.cut), first)
    if whole is not first and whole.certified <= min(_WORTH * first.certified, chance * (1.0 - 1e-9)):
        return whole, (
            f"Its certified regret, {number(whole.certified)}, is the smallest of those about people as they"
            f" are, and at most twice the smallest of all, {number(first.certified)}, which is about people"
            " cut to fewer items."
        )
    more = [one for one in candidates if one is not first]
    than = f"; the next is {number(more[0].formula)} with {more[0]}" if more else ""
    return first, (
        f"Its certified regret is the smallest: {number(first.certified)}, or {share(first.average)} a"
        f" round{than}."
    )


def _remedy(rounds: int | None, epsilon: float | None, question: Question) -> str:
    """What would be enough, in words."""
    known = []
    if rounds is not None:
        known.append(f"{rounds:,} rounds at this epsilon")
    if epsilon is not None:
        known.append(f"epsilon {epsilon:.3g} with {question.rounds:,} rounds")
    return f"Enough would be {' or '.join(known)}." if known else "No number of rounds or epsilon was found."


def made(name: str, *arguments: Any, **options: Any) -> Any:
    """A learner of `discreet.online` by its name."""
    kind: Callable[..., Any] = getattr(import_module("discreet.online"), name)
    return kind(*arguments, **options)


def batches(rounds: int, fineness: int) -> list[int]:
    """Batch lengths worth trying: a few per doubling, each the shortest for its number of batches."""
    counts = {round(2.0 ** (i / fineness)) for i in range(fineness * rounds.bit_length() + 1)}
    return sorted({-(-rounds // count) for count in counts if count <= rounds} | {1})


class _Certified(Protocol):
    @property
    def unclipped_regret(self) -> float: ...


_Settings = TypeVar("_Settings", bound=_Certified)


def smallest(settings: Callable[[int], _Settings], options: Sequence[int]) -> _Settings:
    """The settings with the smallest certified regret."""
    return min((settings(option) for option in options), key=lambda one: one.unclipped_regret)


def _short(value: Any) -> str:
    return (
        f"{value:.3g}" if isinstance(value, float) else repr(value) if isinstance(value, str) else str(value)
    )


def number(value: float) -> str:
    """A regret, readable."""
    return f"{value:.3g}" if value < 100.0 else f"{value:,.0f}" if value < 1e9 else f"{value:.1e}"


def share(value: float) -> str:
    """A regret per round, readable."""
    return f"{value:.3f}"
