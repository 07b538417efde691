"""Plans for choosing k items a round: full information, and feedback about the shown set only."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from .. import bounds
from ..constraints import Cardinality, Constraint, Matroid
from ..core import checks
from ..objectives import Population
from ..online import OnlineLearner
from ..online.frank_wolfe.set_settings import SetSettings
from ..online.frank_wolfe.settings import REGULARIZERS
from ..privacy import Budget, Seed
from ..privacy.ordered import MOST_ROUNDS
from .expected import Size
from .plans import Candidate, Plan, batches, decide, made, smallest
from .simulated import ItemQuestion

if TYPE_CHECKING:
    from ..online.select.hedge import HedgeSettings
    from ..online.select.running_sum_settings import RunningSumSettings

_WITHOUT_HORIZON = ("PhasedSelector",)
_SETS = 160  # new sets of weighted running sums, in all
FEEDBACK = ("full", "bandit", "slots")
STREAMS = ("adversarial", "stationary")
GOALS = ("expected", "certified")


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
    *,
    min_separation: int | None = None,
    goal: str = "expected",
    sample: Population | None = None,
) -> Plan:
    """Compare every learner that fits the question, and take the best by ``goal``.

    ``goal="expected"``: the one that serves most on simulated streams of that size (made-up people, or drawn
    from a public ``sample``), beside what is certified. ``"certified"``: the smallest certified regret.

    ``stream="adversarial"``: any order of people that was fixed in advance. ``"stationary"``: people come as
    in a random order, which also admits `PhasedSelector`; its privacy does not depend on that, its regret
    does. ``items_per_person`` counts at most so many items of each person, which lets running sums do with
    less noise; what they certify is then about people cut to that many items, so up to a factor of two a
    candidate that needs no cut is preferred.

    ``feedback="full"``: the person's whole function is seen after the round; ``"bandit"``: only what the
    shown set was worth; ``"slots"``: which of the shown items was taken. In place of k a matroid or a
    knapsack may stand, with full feedback.

    ``min_separation`` is for people who return, ``max_rounds_per_person`` times in all and after at least so
    many rounds. Learners on running sums then have noise for what these rounds can move together, count a
    person once in a batch, and need a ``person_id`` from everybody; theirs is in batches.

    Nothing here looks at private data: the question is public. All bounds are on the expected regret against
    (1 - 1/e) times the best fixed set (see `discreet.bounds`).

    >>> import discreet as dc
    >>> found = plan(100, 10, 10**6, dc.Budget(1.0, 1e-6), goal="certified")
    >>> found.best.name, round(found.best.average, 3), found.vacuous
    ('RunningSumSelector', 0.036, False)
    """
    checks.one_of("feedback", feedback, FEEDBACK)
    checks.one_of("stream", stream, STREAMS)
    checks.one_of("goal", goal, GOALS)
    if sample is not None:
        checks.instance("sample", sample, Population, "objectives.Coverage(matrix)")
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
    if min_separation is not None:
        checks.whole("min_separation", min_separation, at_least=1)
    shape: dict[str, Any] = {
        "rounds": checks.whole("rounds", rounds, at_least=1),
        "separation": min_separation if budget.max_rounds_per_person > 1 else None,
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
        constrained = _Constrained(**shape, constraint=k.over(items), cap=cap, stream=stream)
        return decide(constrained, goal, sample)
    slots = k.rank if isinstance(k, Cardinality) else checks.whole("k", k, at_least=1)
    if slots > items:
        raise ValueError(f"k={slots} exceeds n_items={n_items}; choose k <= {n_items}")
    if feedback == "full":
        return decide(_FullInformation(**shape, k=slots, stream=stream, cap=cap), goal, sample)
    return decide(_Bandit(**shape, k=slots, slots=feedback == "slots"), goal, sample)


@dataclass(frozen=True)
class _Selection(ItemQuestion):
    """k of n items a round."""

    k: int = 0

    @property
    def allowed(self) -> Constraint:
        return Cardinality(self.k, n_items=self.n_items)

    def at_size(self, rounds: int) -> Self:
        size = Size.of(rounds, self.n_items, self.k)
        return replace(self, rounds=rounds, n_items=size.n_items, k=size.k)

    @property
    def without_learning(self) -> tuple[str, float]:
        return "choosing at random", bounds.at_random(self.n_items, self.k, self.rounds, self.bound)

    def build(self, candidate: Candidate, seed: Seed) -> OnlineLearner:
        options: dict[str, Any] = {"bound": self.bound, "labels": self.labels, "seed": seed}
        horizon = () if candidate.name in _WITHOUT_HORIZON else (self.rounds,)
        learner: OnlineLearner = made(
            candidate.name, self.n_items, self.k, *horizon, self.budget, **(options | candidate.settings)
        )
        return learner


@dataclass(frozen=True)
class _FullInformation(_Selection):
    """The person's whole function is seen after the round."""

    stream: str = "adversarial"
    cap: int | None = None

    @property
    def headline(self) -> str:
        cut = "" if self.cap is None else f", {self.cap} items counted per person"
        return (
            f"{self.k} of {self.n_items:,} items, {self.rounds:,} rounds, full feedback,"
            f" {self.stream} stream{cut}{self.returning}"
        )

    def candidates(self) -> Iterator[Candidate]:
        if self.stream == "stationary":
            yield from (self._phased(method) for method in ("subsampled", "composed"))
            if self.budget.private and self.budget.delta > 0.0:
                yield self._candidate("LeaderSelector", self.apart(self._longest), math.inf, proven=False)
        yield from self._running_sums()
        yield from self._weighted_sums()
        yield from self._hedges()

    @property
    def _longest(self) -> int:
        """The longest batch of a leader."""
        from ..online.select.leader_settings import LeaderSettings

        shape = (self.n_items, self.k, self.rounds, self.budget.share())
        return LeaderSettings.tight(*shape, bound=self.bound).longest

    def _hedges(self) -> Iterator[Candidate]:
        if self.rounds > MOST_ROUNDS:
            return
        budget = self.budget
        if budget.private and budget.delta > 0.0:
            formula = self.bound * bounds.published_hedge(
                self.n_items, self.k, self.rounds, budget.epsilon, budget.delta
            )
            yield self._candidate(
                "HedgeSelector", {"calibration": "published"}, formula, note="constants of paper 000"
            )
        found = smallest(self._hedge, batches(self.rounds, self.fineness))
        yield self._candidate(
            "HedgeSelector", {"resample_every": found.resample_every}, found.unclipped_regret
        )

    def _hedge(self, batch: int) -> HedgeSettings:
        from ..online.select.hedge import HedgeSettings

        shape = (self.n_items, self.k, self.rounds, self.budget.share())
        return HedgeSettings.tight(*shape, resample_every=batch, cautious=True, bound=self.bound)

    def _running_sums(self) -> Iterator[Candidate]:
        if not self.budget.private:
            return  # without noise they are Hedge
        kinds = [("tree", "laplace")]
        if self.budget.delta > 0.0:
            kinds = [*((sums, "gaussian") for sums in (*self.factorised, "tree")), *kinds]
        for sums, noise in kinds:
            settings_at = partial(self._running_sum, sums=sums, noise=noise)
            found = smallest(settings_at, batches(self.rounds, self.fineness))
            settings: dict[str, Any] = {
                "sums": sums,
                "resample_every": found.resample_every,
                "rate": found.rate,
            } | (self.apart(found.resample_every) if noise == "gaussian" else {})
            note = ""
            if noise == "laplace":
                settings["noise"], note = noise, "pure epsilon"
            if self.cap is not None:
                settings["items_per_person"] = self.cap
                note = f"of people cut to {self.cap} items" + (f"; {note}" if note else "")
            cut = self.cap is not None
            yield self._candidate("RunningSumSelector", settings, found.unclipped_regret, cut=cut, note=note)

    def _weighted_sums(self) -> Iterator[Candidate]:
        """Weighted people: of the running sums these serve most, alone or with a leader before them."""
        from ..online.select.best_of_both_settings import BestOfBothSettings
        from ..online.select.running_sum_settings import RunningSumSettings

        if not (self.budget.private and self.budget.delta > 0.0 and "sqrt" in self.factorised):
            return
        question = (self.n_items, self.k, self.rounds, self.budget.share())
        note = "of people weighted by their items"
        longest = self.apart(self._longest)
        for weights in ("norm", None):
            settings: dict[str, Any] = {"weights": weights, "resample_every": "auto"} | longest
            both = BestOfBothSettings.tight(*question, **settings, bound=self.bound)
            weighted = weights is not None
            yield self._candidate(
                "BestOfBothSelector",
                settings,
                both.certified_regret,
                cut=weighted,
                note=note if weighted else "",
            )
        every = max(1, self.rounds // _SETS)
        settings = dict(weights="norm", rate="falling", resample_every=every, **self.apart(every))
        found = RunningSumSettings.tight(*question, **settings, bound=self.bound)
        yield self._candidate("RunningSumSelector", settings, found.unclipped_regret, cut=True, note=note)

    def _running_sum(self, batch: int, sums: str, noise: str) -> RunningSumSettings:
        from ..online.select.running_sum_settings import RunningSumSettings

        return RunningSumSettings.tight(
            self.n_items,
            self.k,
            self.rounds,
            self.budget.share(),
            sums=sums,
            noise=noise,
            items_per_person=self.cap,
            resample_every=batch,
            rate=bounds.best_rate(self.n_items, self.k, self.rounds, batch, self.bound),
            bound=self.bound,
            **(self.apart(batch) if noise == "gaussian" else {}),
        )

    def _phased(self, method: str) -> Candidate:
        from ..online.select.phased_settings import PhasedSettings

        shape = (self.n_items, self.k, self.budget.share())
        found = PhasedSettings.tight(*shape, method=method, bound=self.bound)
        return self._candidate(
            "PhasedSelector",
            {"method": method},
            found.certified_regret_after(self.rounds, clipped=False),
            certified=found.certified_regret_after(self.rounds),
            note="only for exchangeable streams",
        )


@dataclass(frozen=True)
class _Bandit(_Selection):
    """Only what the shown set was worth is seen, or which of its items was taken."""

    slots: bool = False

    @property
    def headline(self) -> str:
        kind = "per-slot" if self.slots else "bandit"
        return f"{self.k} of {self.n_items:,} items, {self.rounds:,} rounds, {kind} feedback"

    def candidates(self) -> Iterator[Candidate]:
        if self.rounds > MOST_ROUNDS:
            return
        feedback = {"feedback": "slots"} if self.slots else {}
        yield self._candidate("ThompsonSelector", feedback, math.inf, note="pure epsilon", proven=False)
        if self.slots:
            yield self._candidate("BanditSelector", {"feedback": "slots"}, self.trivial, proven=False)
            return
        yield self._exploring("blocks", {"rate": "certified"}, "pure epsilon")
        yield self._exploring("blocks", {}, "pure epsilon; falling rates, which often serve better")
        for mode in ("presampled", "online", "every_round"):
            yield self._exploring(mode, {}, "")
        if self.budget.private and self.budget.delta > 0.0:
            yield self._published()

    def _exploring(self, exploration: str, settings: dict[str, Any], note: str) -> Candidate:
        from ..online.bandit.settings import BanditSettings

        settings = {"exploration": exploration, **settings}
        shape = (self.n_items, self.k, self.rounds, self.budget.share())
        found = BanditSettings.tight(*shape, bound=self.bound, **settings)
        return self._candidate("BanditSelector", settings, found.unclipped_regret, note=note)

    def _published(self) -> Candidate:
        from ..online.bandit.settings import BanditSettings

        shape = (self.n_items, self.k, self.rounds, self.budget.share())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the note says it
            found = BanditSettings.published(*shape, exploration="online", bound=self.bound)
        always = "; explores in every round" if found.exploration_rate == 1.0 else ""
        return self._candidate(
            "BanditSelector",
            {"exploration": "online", "calibration": "published"},
            found.unclipped_regret,
            note=f"constants of paper 000{always}",
        )


@dataclass(frozen=True)
class _Constrained(ItemQuestion):
    """A set within a matroid or a knapsack a round."""

    constraint: Constraint | None = None
    cap: int | None = None
    stream: str = "adversarial"

    @property
    def allowed(self) -> Constraint:
        assert self.constraint is not None
        return self.constraint

    def at_size(self, rounds: int) -> Self:
        return replace(self, rounds=rounds)

    @property
    def headline(self) -> str:
        cut = "" if self.cap is None else f", {self.cap} items counted per person"
        size = f"{self.constraint!r}, {self.n_items:,} items, {self.rounds:,} rounds"
        return f"{size}, full feedback{cut}{self.returning}"

    @property
    def without_learning(self) -> tuple[str, float]:
        return "any fixed choice", self.trivial

    def candidates(self) -> Iterator[Candidate]:
        if self.stream == "stationary" and isinstance(self.constraint, Matroid) and self.budget.delta > 0.0:
            from ..online.select.leader_settings import LeaderSettings

            shape = (self.n_items, None, self.rounds, self.budget.share())
            leader = LeaderSettings.tight(*shape, constraint=self.constraint, bound=self.bound)
            yield self._candidate("LeaderSelector", self.apart(leader.longest), math.inf, proven=False)
        for regularizer in REGULARIZERS:
            for cap in (None,) if self.cap is None else (None, self.cap):
                yield self._frank_wolfe(regularizer, cap)

    def _frank_wolfe(self, regularizer: str, cap: int | None) -> Candidate:
        assert self.constraint is not None
        asked: dict[str, Any] = {"regularizer": regularizer} | (self.apart(1) if self.budget.delta else {})
        if cap is not None:
            asked["items_per_person"] = cap
        found = SetSettings.tight(
            self.constraint, self.rounds, self.budget.share(), bound=self.bound, **asked
        )
        notes = [] if cap is None else [f"of people cut to {cap} items"]
        notes += ["pure epsilon"] if found.noise == "laplace" else []
        return self._candidate(
            "MetaFrankWolfe",
            asked | {"steps": found.steps},
            found.certified_regret,
            cut=cap is not None,
            note="; ".join(notes),
        )

    def build(self, candidate: Candidate, seed: Seed) -> OnlineLearner:
        options: dict[str, Any] = {"bound": self.bound, "labels": self.labels, "seed": seed}
        options |= candidate.settings
        learner: OnlineLearner
        if candidate.name == "LeaderSelector":
            question = (self.n_items, None, self.rounds, self.budget)
            learner = made("LeaderSelector", *question, constraint=self.constraint, **options)
        else:
            learner = made("MetaFrankWolfe", self.constraint, self.rounds, self.budget, **options)
        return learner
