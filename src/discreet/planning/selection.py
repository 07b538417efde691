"""Plans for choosing k items a round: full information, and feedback about the shown set only."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from .. import bounds
from ..constraints import Cardinality, Constraint
from ..core import checks
from ..online import OnlineLearner
from ..privacy import Budget, ExponentialChoice, ScoreChange, Seed
from .plans import Candidate, Plan, Question, batches, decide, made, smallest

FEEDBACK = ("full", "bandit", "slots")
STREAMS = ("adversarial", "stationary")
# Hedge adds up gains in 63 bits.
_MOST_HEDGE_ROUNDS = 1 << 30


def plan(
    n_items: int,
    k: int | Constraint,
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

    ``feedback="full"``: the person's whole function is told after the round; ``"bandit"``: only what the
    shown set was worth; ``"slots"``: which of the shown items was taken. In place of k a matroid or a
    knapsack may stand, with full feedback.

    Nothing here looks at data: the question is public. All bounds are on the expected regret against
    (1 - 1/e) times the best fixed set (see `discreet.bounds`).

    >>> import discreet as dc
    >>> found = plan(100, 10, 10**6, dc.Budget(1.0, 1e-6))
    >>> found.best.name, round(found.best.average, 3), found.vacuous
    ('RunningSumSelector', 0.036, False)
    """
    checks.one_of("feedback", feedback, FEEDBACK)
    checks.one_of("stream", stream, STREAMS)
    if not isinstance(budget, Budget):
        raise TypeError(
            f"budget must be a Budget, got {checks.shown(budget)}; e.g. Budget(epsilon=1.0, delta=1e-6)"
        )
    items = checks.whole("n_items", n_items, at_least=1)
    if labels is not None and len(labels) != items:
        raise ValueError(f"labels has {len(labels)} entries; there are {items} items")
    cap = items_per_person
    if cap is not None and checks.whole("items_per_person", cap, at_least=1) >= items:
        cap = None  # nobody has more items than there are
    shape: dict[str, Any] = {
        "rounds": checks.whole("rounds", rounds, at_least=1),
        "budget": budget,
        "n_items": items,
        "bound": checks.bound(bound),
        "labels": None if labels is None else tuple(labels),
    }
    if isinstance(k, Constraint) and not isinstance(k, Cardinality):
        if feedback != "full":
            raise ValueError(
                f"feedback={checks.shown(feedback)} is planned for k items only, not for {checks.shown(k)}"
            )
        return decide(_Constrained(**shape, constraint=k.over(items), cap=cap))
    slots = k.rank if isinstance(k, Cardinality) else checks.whole("k", k, at_least=1)
    if slots > items:
        raise ValueError(f"k={slots} exceeds n_items={n_items}; choose k <= {n_items}")
    if feedback == "full":
        return decide(_FullInformation(**shape, k=slots, stream=stream, cap=cap))
    return decide(_Bandit(**shape, k=slots, slots=feedback == "slots"))


@dataclass(frozen=True)
class _Selection(Question):
    """k of n items a round."""

    n_items: int = 0
    k: int = 0
    bound: float = 1.0
    labels: tuple[Any, ...] | None = None

    @property
    def without_learning(self) -> tuple[str, float]:
        return "choosing at random", bounds.at_random(self.n_items, self.k, self.rounds, self.bound)

    @property
    def trivial(self) -> float:
        return bounds.trivial(self.rounds, self.bound)

    def build(self, candidate: Candidate, seed: Seed) -> OnlineLearner:
        options: dict[str, Any] = {"bound": self.bound, "labels": self.labels, "seed": seed}
        horizon = () if candidate.name == "PhasedSelector" else (self.rounds,)
        learner: OnlineLearner = made(
            candidate.name, self.n_items, self.k, *horizon, self.budget, **(options | candidate.settings)
        )
        return learner


@dataclass(frozen=True)
class _FullInformation(_Selection):
    """The person's whole function is told after the round."""

    stream: str = "adversarial"
    cap: int | None = None

    @property
    def headline(self) -> str:
        cut = "" if self.cap is None else f", {self.cap} items counted per person"
        return (
            f"{self.k} of {self.n_items:,} items, {self.rounds:,} rounds, full feedback,"
            f" {self.stream} stream{cut}"
        )

    def candidates(self) -> Iterator[Candidate]:
        if self.stream == "stationary":
            yield self._phased()
        yield from self._running_sums()
        yield from self._hedges()

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
        batch, formula = smallest(self._hedge, batches(self.rounds, self.fineness))
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
            kinds = [*((sums, "gaussian") for sums in (*self.factorised, "tree")), *kinds]
        for sums, noise in kinds:
            bound_at = partial(self._running_sum, sums=sums, noise=noise)
            batch, formula = smallest(bound_at, batches(self.rounds, self.fineness))
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
        from ..online import RunningSumSelector

        pull = RunningSumSelector.noise_pull(
            self.n_items, self.k, self.rounds, self.budget, sums, noise, self.cap, batch, self.bound
        )
        rate = bounds.best_rate(self.n_items, self.k, self.rounds, batch, self.bound)
        hedge = bounds.unclipped_hedge(self.n_items, self.k, self.rounds, rate, batch, self.bound)
        return hedge + self.k * pull

    def _phased(self) -> Candidate:
        from ..online.select.phased import first_window_for, pick_event

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


@dataclass(frozen=True)
class _Bandit(_Selection):
    """Only what the shown set was worth is told, or which of its items was taken."""

    slots: bool = False

    @property
    def headline(self) -> str:
        told = "per-slot" if self.slots else "bandit"
        return f"{self.k} of {self.n_items:,} items, {self.rounds:,} rounds, {told} feedback"

    def candidates(self) -> Iterator[Candidate]:
        if self.rounds > _MOST_HEDGE_ROUNDS:
            return
        if self.slots:
            yield self._candidate(
                "BanditSelector", {"feedback": "slots"}, self.trivial, note="no better bound is known"
            )
            return
        yield self._exploring("blocks", {"rate": "certified"}, "pure epsilon")
        yield self._exploring("blocks", {}, "pure epsilon; falling rates, which often serve better")
        for mode in ("presampled", "online", "every_round"):
            yield self._exploring(mode, {}, "")
        if self.budget.private and self.budget.delta > 0.0:
            yield self._published()

    def _exploring(self, mode: str, settings: dict[str, Any], note: str) -> Candidate:
        from ..online.bandit.settings import tight

        shape = (self.n_items, self.k, self.rounds)
        way = tight(mode, *shape, self.budget, self.bound, **settings)
        return self._candidate(
            "BanditSelector",
            {"exploration": mode, **settings},
            way.certified(*shape, self.bound, clipped=False),
            note=note,
        )

    def _published(self) -> Candidate:
        from ..online.bandit.settings import published

        shape = (self.n_items, self.k, self.rounds)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the note says it
            way = published("online", *shape, self.budget, self.bound)
        always = "; explores in every round" if way.exploration_rate == 1.0 else ""
        return self._candidate(
            "BanditSelector",
            {"exploration": "online", "calibration": "published"},
            way.certified(*shape, self.bound, clipped=False),
            note=f"constants of paper 000{always}",
        )


@dataclass(frozen=True)
class _Constrained(Question):
    """A set within a matroid or a knapsack a round, through the multilinear extension."""

    n_items: int = 0
    constraint: Constraint | None = None
    cap: int | None = None
    bound: float = 1.0
    labels: tuple[Any, ...] | None = None

    @property
    def headline(self) -> str:
        cut = "" if self.cap is None else f", {self.cap} items counted per person"
        return f"{self.constraint!r}, {self.n_items:,} items, {self.rounds:,} rounds, full feedback{cut}"

    @property
    def trivial(self) -> float:
        return bounds.trivial(self.rounds, self.bound)

    @property
    def without_learning(self) -> tuple[str, float]:
        return "any fixed choice", self.trivial

    def candidates(self) -> Iterator[Candidate]:
        kinds: list[dict[str, Any]] = [{"sums": "tree", "noise": "laplace"}]
        if self.budget.delta > 0.0 or not self.budget.private:
            kinds = [{"sums": "sqrt"}, *kinds] if self.budget.private else [{"sums": "sqrt"}]
        for kind in kinds:
            for regularizer in ("entropy", "euclidean"):
                for cap in (None,) if self.cap is None else (None, self.cap):
                    yield self._metafw({**kind, "regularizer": regularizer}, cap)

    def _metafw(self, settings: dict[str, Any], cap: int | None) -> Candidate:
        note = "pure epsilon" if settings.get("noise") == "laplace" else ""
        if cap is not None:
            settings = {**settings, "items_per_person": cap}
            note = f"of people cut to {cap} items" + (f"; {note}" if note else "")
        learner = self._learner(settings, 0)
        settings = {**settings, "steps": learner.steps}
        return self._candidate(
            "MetaFrankWolfe", settings, learner.certified_regret, cut=cap is not None, note=note
        )

    def _learner(self, settings: dict[str, Any], seed: Seed) -> Any:
        options: dict[str, Any] = {"bound": self.bound, "labels": self.labels, "seed": seed}
        return made("MetaFrankWolfe", self.constraint, self.rounds, self.budget, **(options | settings))

    def build(self, candidate: Candidate, seed: Seed) -> OnlineLearner:
        learner: OnlineLearner = self._learner(candidate.settings, seed)
        return learner
