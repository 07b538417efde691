"""Which learner, with which settings, for this question and this budget; why; and what it certifies."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from . import _checks
from ._table import table
from .online import bounds
from .privacy import Budget, ExponentialChoice, Randomness, ScoreChange

if TYPE_CHECKING:
    from .online.protocol import OnlineSelector

FEEDBACK = ("full",)
STREAMS = ("adversarial", "stationary")
_HOMES = {
    "HedgeSelector": "discreet.online.hedge",
    "PhasedSelector": "discreet.online.phased",
    "RunningSumSelector": "discreet.online.running_sums",
}
# How far the search for enough rounds, or enough epsilon, goes.
_MOST_ROUNDS = 1 << 40
_MOST_EPSILON = 1e6
# Hedge adds up gains in 63 bits.
_MOST_HEDGE_ROUNDS = 1 << 30
# A certificate about people as they are is worth this much more than one about people cut short.
_WORTH = 2.0


@dataclass(frozen=True)
class Candidate:
    """One learner with its settings, and the regret that is certified for it.

    ``certified`` bounds the expected (1 - 1/e)-regret over all rounds, ``average`` the same per round.
    ``formula`` is the bound before it is cut off at what choosing at random can lose; it ranks candidates
    none of which does better. ``cut`` marks a certificate about people with at most ``items_per_person``
    items each, not about people as they are.
    """

    name: str
    settings: dict[str, Any]
    certified: float
    average: float
    formula: float
    cut: bool = False
    note: str = ""

    @property
    def shown_settings(self) -> str:
        """The settings as they would be written in a call, rounded."""
        return ", ".join(f"{name}={_short(value)}" for name, value in self.settings.items())

    def __str__(self) -> str:
        return f"{self.name}({self.shown_settings})"


@dataclass(frozen=True)
class Plan:
    """Candidates for one question, the chosen one, and the reason.

    ``candidates`` in order of rising bound. ``rounds_needed`` and ``epsilon_needed`` are filled in when no
    candidate is certified to beat choosing at random: from how many rounds on, and from which epsilon on,
    one would be (None where the search found none).
    """

    n_items: int
    k: int
    rounds: int
    budget: Budget
    feedback: str
    stream: str
    items_per_person: int | None
    bound: float
    labels: tuple[Any, ...] | None
    candidates: tuple[Candidate, ...]
    best: Candidate
    reason: str
    rounds_needed: int | None = None
    epsilon_needed: float | None = None

    @property
    def at_random(self) -> float:
        """What choosing at random can lose over all rounds."""
        return bounds.at_random(self.n_items, self.k, self.rounds, self.bound)

    @property
    def vacuous(self) -> bool:
        """Whether no candidate is certified to beat choosing at random."""
        return self.at_random > 0.0 and self.best.certified >= self.at_random

    def learner(self, seed: Randomness | int | None = None) -> OnlineSelector:
        """The chosen learner, ready for its first round; ``seed`` as for every learner."""
        kind: Callable[..., OnlineSelector] = getattr(import_module(_HOMES[self.best.name]), self.best.name)
        options: dict[str, Any] = {"bound": self.bound, "labels": self.labels, "seed": seed}
        options |= self.best.settings
        if self.best.name == "PhasedSelector":
            return kind(self.n_items, self.k, self.budget, **options)
        return kind(self.n_items, self.k, self.rounds, self.budget, **options)

    def __str__(self) -> str:
        delta = f", delta {self.budget.delta:g}" if self.budget.delta else ""
        cut = "" if self.items_per_person is None else f", {self.items_per_person} items counted per person"
        rows = []
        for one in self.candidates:
            shown = one.certified if one.certified < self.at_random else one.formula
            chosen = "*" if one is self.best else ""
            rows.append([chosen, one.name, one.shown_settings, *self._columns(shown), one.note])
        rows.append(["", "choosing at random", "", *self._columns(self.at_random), ""])
        return "\n".join(
            [
                f"{self.k} of {self.n_items:,} items, {self.rounds:,} rounds, {self.feedback} feedback,"
                f" {self.stream} stream{cut}; epsilon {self.budget.epsilon:g}{delta}"
                f" ({self.budget.neighbours})",
                table(["", "learner", "settings", "regret at most", "a round", "note"], rows),
                f"chosen: {self.best}",
                self.reason,
            ]
        )

    def _columns(self, regret: float) -> tuple[str, str]:
        return _number(regret), _share(regret / self.rounds)


def plan(
    n_items: int,
    k: int,
    rounds: int,
    budget: Budget,
    feedback: str = "full",
    stream: str = "adversarial",
    items_per_person: int | None = None,
    bound: float = 1.0,
    labels: Sequence[Any] | None = None,
) -> Plan:
    """Compare what is certified for every learner that fits the question, and take the best.

    ``stream="adversarial"``: any order of people that was fixed in advance. ``"stationary"``: people come as
    in a random order, which also admits `PhasedSelector`; its privacy does not depend on that, its regret
    does. ``items_per_person`` counts at most so many items of each person, which lets running sums do with
    less noise; what they certify is then about people cut to that many items, so up to a factor of two a
    candidate that needs no cut is preferred.

    Nothing here looks at data: the question is public. All bounds are on the expected regret against
    (1 - 1/e) times the best fixed set (see `discreet.online.bounds`).

    >>> import discreet as dc
    >>> found = plan(100, 10, 10**6, dc.Budget(1.0, 1e-6))
    >>> found.best.name, round(found.best.average, 3), found.vacuous
    ('RunningSumSelector', 0.036, False)
    """
    question = _question(n_items, k, rounds, budget, feedback, stream, items_per_person, bound)
    if labels is not None and len(labels) != question.n_items:
        raise ValueError(f"labels has {len(labels)} entries; there are {question.n_items} items")
    candidates = sorted(question.candidates(), key=lambda one: (one.certified, one.formula))
    best, reason = _chosen(candidates, question)
    chance = question.at_random
    needed: tuple[int | None, float | None] = (None, None)
    if 0.0 < chance <= best.certified:
        needed = question.rounds_needed(), question.epsilon_needed()
        reason += " " + _remedy(*needed, question)
    return Plan(
        question.n_items,
        question.k,
        question.rounds,
        budget,
        feedback,
        stream,
        items_per_person,
        question.bound,
        None if labels is None else tuple(labels),
        tuple(candidates),
        best,
        reason,
        *needed,
    )


@dataclass(frozen=True)
class _Question:
    """What is asked, checked."""

    n_items: int
    k: int
    rounds: int
    budget: Budget
    stream: str
    cap: int | None
    bound: float
    fineness: int = 4  # batches tried per doubling

    def candidates(self) -> Iterator[Candidate]:
        if self.stream == "stationary":
            yield self._phased()
        yield from self._running_sums()
        yield from self._hedges()

    # --- the learners ----------------------------------------------------------------------------

    def _hedges(self) -> Iterator[Candidate]:
        if self.rounds > _MOST_HEDGE_ROUNDS:
            return
        budget = self.budget
        if budget.private and budget.delta > 0.0:
            formula = self.bound * bounds.published_hedge(
                self.n_items, self.k, self.rounds, budget.epsilon, budget.delta
            )
            yield self._candidate(
                "HedgeSelector", {"calibration": "published"}, formula, note="constants of paper 000"
            )
        batch, formula = _smallest(self._hedge, _batches(self.rounds, self.fineness))
        yield self._candidate("HedgeSelector", {"resample_every": batch}, formula)

    def _hedge(self, batch: int) -> float:
        """The bound of `HedgeSelector` with a new set every ``batch`` rounds, at the rate it takes then."""
        rate = bounds.best_rate(self.n_items, self.k, self.rounds, batch, self.bound)
        draws = self.k * (-(-self.rounds // batch) - 1)
        if self.budget.private and draws:
            moves = ScoreChange(self.bound, self.budget.neighbours == "add_remove").range
            rate = min(rate, ExponentialChoice.within(self.budget.share(), moves, draws).rate)
        return bounds.unclipped_hedge(self.n_items, self.k, self.rounds, rate, batch, self.bound)

    def _running_sums(self) -> Iterator[Candidate]:
        if not self.budget.private:
            return  # without noise they are Hedge
        kinds = [("tree", "laplace")]
        if self.budget.delta > 0.0:
            kinds = [("sqrt", "gaussian"), ("blt", "gaussian"), ("tree", "gaussian"), *kinds]
        for sums, noise in kinds:
            bound_at = partial(self._running_sum, sums=sums, noise=noise)
            batch, formula = _smallest(bound_at, _batches(self.rounds, self.fineness))
            settings: dict[str, Any] = {"sums": sums, "resample_every": batch}
            settings["rate"] = bounds.best_rate(self.n_items, self.k, self.rounds, batch, self.bound)
            note = ""
            if noise == "laplace":
                settings["noise"], note = noise, "pure epsilon"
            if self.cap is not None:
                settings["items_per_person"] = self.cap
                note = f"of people cut to {self.cap} items" + (f"; {note}" if note else "")
            yield self._candidate(
                "RunningSumSelector", settings, formula, cut=self.cap is not None, note=note
            )

    def _running_sum(self, batch: int, sums: str, noise: str) -> float:
        from .online import RunningSumSelector

        pull = RunningSumSelector.noise_pull(
            self.n_items, self.k, self.rounds, self.budget, sums, noise, self.cap, batch, self.bound
        )
        rate = bounds.best_rate(self.n_items, self.k, self.rounds, batch, self.bound)
        hedge = bounds.unclipped_hedge(self.n_items, self.k, self.rounds, rate, batch, self.bound)
        return hedge + self.k * pull

    def _phased(self) -> Candidate:
        from .online.phased import first_window_for, pick_event

        event = pick_event(self.budget, self.n_items, self.k, self.bound)
        rate = event.rate if isinstance(event, ExponentialChoice) else math.inf
        first = first_window_for(self.n_items, self.k, self.budget, self.bound)
        question = (self.n_items, self.k, self.rounds, rate, first)
        formula = bounds.phased(*question, bound=self.bound, clipped=False)
        return self._candidate(
            "PhasedSelector",
            {},
            formula,
            certified=bounds.phased(*question, bound=self.bound),
            note="only for exchangeable streams",
        )

    def _candidate(
        self,
        name: str,
        settings: dict[str, Any],
        formula: float,
        *,
        certified: float | None = None,
        cut: bool = False,
        note: str = "",
    ) -> Candidate:
        most = min(bounds.trivial(self.rounds, self.bound), formula if certified is None else certified)
        return Candidate(name, settings, most, most / self.rounds, formula, cut, note)

    @property
    def at_random(self) -> float:
        return bounds.at_random(self.n_items, self.k, self.rounds, self.bound)

    # --- what would be needed --------------------------------------------------------------------

    def beats_chance(self) -> bool:
        """Whether any candidate is certified to do better than choosing at random."""
        limit = self.at_random
        return any(one.certified < limit for one in replace(self, fineness=1).candidates())

    def rounds_needed(self) -> int | None:
        """From how many rounds on; by doubling and bisection, to 1 %."""
        low, high = self.rounds, 2 * self.rounds
        while not replace(self, rounds=high).beats_chance():
            low, high = high, 2 * high
            if high > _MOST_ROUNDS:
                return None
        while high - low > max(1, high // 100):
            middle = (low + high) // 2
            low, high = (low, middle) if replace(self, rounds=middle).beats_chance() else (middle, high)
        return high

    def epsilon_needed(self) -> float | None:
        """From which epsilon on, at the same delta; by doubling and bisection, to 1 %."""

        def enough(epsilon: float) -> bool:
            return replace(self, budget=replace(self.budget, epsilon=epsilon)).beats_chance()

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


def _question(
    n_items: int,
    k: int,
    rounds: int,
    budget: Budget,
    feedback: str,
    stream: str,
    items_per_person: int | None,
    bound: float,
) -> _Question:
    n_items = _checks.whole("n_items", n_items, at_least=1)
    k = _checks.whole("k", k, at_least=1)
    if k > n_items:
        raise ValueError(f"k={k} exceeds n_items={n_items}; choose k <= {n_items}")
    rounds = _checks.whole("rounds", rounds, at_least=1)
    if not isinstance(budget, Budget):
        raise TypeError(f"budget must be a Budget, got {budget!r}; e.g. Budget(epsilon=1.0, delta=1e-6)")
    if feedback not in FEEDBACK:
        raise ValueError(
            f"feedback={feedback!r} cannot be planned for; there is 'full' (the person's function)"
        )
    _checks.one_of("stream", stream, STREAMS)
    if items_per_person is not None:
        items_per_person = _checks.whole("items_per_person", items_per_person, at_least=1)
        if items_per_person >= n_items:
            items_per_person = None  # nobody has more items than there are
    return _Question(
        n_items, k, rounds, budget, stream, items_per_person, _checks.real("bound", bound, above=0.0)
    )


def _chosen(candidates: Sequence[Candidate], question: _Question) -> tuple[Candidate, str]:
    """The candidate to take, of those given in order of rising bound, and why in words."""
    first = candidates[0]
    if question.at_random == 0.0:
        first = min(candidates, key=lambda one: (one.formula, len(one.settings)))
        return first, (
            f"{question.k} of {question.n_items} items is so large a part that even a random set has no"
            " (1 - 1/e)-regret; the one with the smallest bound was taken."
        )
    if first.certified >= question.at_random:
        first = min(candidates, key=lambda one: one.formula)
        return first, (
            "No setting is certified to beat choosing at random: every bound is above what choosing at random"
            " can lose. The one with the smallest bound was taken; how well it does is not known."
        )
    whole = next((one for one in candidates if not one.cut), first)
    if whole is not first and whole.certified <= _WORTH * first.certified:
        return whole, (
            f"Its certified regret, {_number(whole.certified)}, is the smallest of those about people as they"
            f" are, and at most twice the smallest of all, {_number(first.certified)}, which is about people"
            f" cut to {question.cap} items."
        )
    more = [one for one in candidates if one is not first]
    than = f"; the next is {_number(more[0].formula)} with {more[0]}" if more else ""
    return first, (
        f"Its certified regret is the smallest: {_number(first.certified)}, or {_share(first.average)} a"
        f" round{than}."
    )


def _remedy(rounds: int | None, epsilon: float | None, question: _Question) -> str:
    """What would be enough, in words."""
    known = []
    if rounds is not None:
        known.append(f"{rounds:,} rounds at this epsilon")
    if epsilon is not None:
        known.append(f"epsilon {epsilon:.3g} with {question.rounds:,} rounds")
    return f"Enough would be {' or '.join(known)}." if known else "No number of rounds or epsilon was found."


def _batches(rounds: int, fineness: int) -> list[int]:
    """Batch lengths worth trying: a few per doubling, each the shortest for its number of batches."""
    counts = {round(2.0 ** (i / fineness)) for i in range(fineness * rounds.bit_length() + 1)}
    return sorted({-(-rounds // count) for count in counts if count <= rounds} | {1})


def _smallest(value: Callable[[int], float], batches: Sequence[int]) -> tuple[int, float]:
    """The batch of the smallest bound, and that bound."""
    values = [value(batch) for batch in batches]
    best = min(range(len(values)), key=values.__getitem__)
    return batches[best], values[best]


def _short(value: Any) -> str:
    return (
        f"{value:.3g}" if isinstance(value, float) else repr(value) if isinstance(value, str) else str(value)
    )


def _number(value: float) -> str:
    return f"{value:.3g}" if value < 100.0 else f"{value:,.0f}" if value < 1e9 else f"{value:.1e}"


def _share(value: float) -> str:
    return f"{value:.3f}"
