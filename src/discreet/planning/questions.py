"""Questions for the planner: which learners fit each of them, what they certify, how they are built."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from .. import bounds, online
from ..bounds import minimization
from ..constraints import Cardinality, Constraint, Matroid
from ..core import checks
from ..core.options import Adversary, CostFeedback, Feedback
from ..privacy import Budget, Seed, Share, spend_from
from ..privacy.factorizations import longest_buffered
from ..privacy.ordered import MOST_ROUNDS
from .expected import Expected, Size

if TYPE_CHECKING:
    from ..online import OnlineLearner

# Where the searches for enough rounds, and for enough epsilon, end.
_LAST_ROUNDS, _LAST_EPSILON = 1 << 40, 1e6
# Beyond this many rounds the rounding errors of factorized sums come near their noise, and they are refused.
_MOST_FILTERED = 1 << 25
_SETS = 160  # number of sets that weighted running sums draw
# Seconds to draw one noisy number, and at most for all of them: with many items, new sets are drawn less
# often, even if the certificate would gain from more.
NUMBER, _MOST_SECONDS = 40e-9, 10.0


@dataclass(frozen=True)
class Candidate:
    """One learner with its settings, and the regret that is certified for it.

    ``certified`` bounds the expected regret over all rounds, ``average`` the same per round. ``formula`` is
    the bound before it is clipped at what any play can lose; it ranks candidates that are clipped. ``cut``
    marks a certificate about people whose items were cut (to ``items_per_person``) or weighted, not about
    people as they are. ``proven`` is False if no bound below that of any play is known, at any size.
    ``expected`` is the share on simulated streams, if it was asked for.
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
        """The reason why nothing is guaranteed, if that is so."""
        return "no guarantee at this size" if self.proven else "no bound is known"

    @property
    def kind(self) -> tuple[Any, ...]:
        """The learner and its variant: candidates of one kind differ in calibrated settings only."""
        return (self.name, *(self.settings.get(name) for name in ("method", "exploration", "weights")))

    @property
    def shown_settings(self) -> str:
        """The settings as in a call, rounded."""
        return ", ".join(f"{name}={short(value)}" for name, value in self.settings.items())

    def __str__(self) -> str:
        return f"{self.name}({self.shown_settings})"


@dataclass(frozen=True)
class Question(ABC):
    """A question for the planner, validated. All of it is public.

    Subclasses know which learners fit, what each certifies, and how to build one.
    """

    rounds: int
    budget: Budget
    fineness: int = 4  # settings tried per doubling

    def __post_init__(self) -> None:
        checks.whole("rounds", self.rounds, at_least=1)
        checks.instance("budget", self.budget, Budget, "Budget(epsilon=1.0, delta=1e-6)")

    @cached_property
    def share(self) -> Share:
        """All of the budget, at a separate gate, in the form that learners take."""
        return spend_from(self.budget)

    @property
    @abstractmethod
    def headline(self) -> str:
        """The question in one line, without the budget."""

    @property
    @abstractmethod
    def without_learning(self) -> tuple[str, float]:
        """The baseline to beat: its name, and what it can lose over all rounds."""

    @property
    @abstractmethod
    def trivial(self) -> float:
        """What any play can lose, over all rounds."""

    @abstractmethod
    def candidates(self) -> Iterator[Candidate]: ...

    @abstractmethod
    def asked(self, name: str) -> tuple[Any, ...]:
        """The arguments of a learner of this name that come before the budget."""

    def options(self, name: str) -> dict[str, Any]:  # noqa: ARG002
        """Further arguments that follow from the question."""
        return {}

    def build(self, candidate: Candidate, seed: Seed, **more: Any) -> OnlineLearner:
        """The learner of a candidate, ready for its first round."""
        name, options = candidate.name, self.options(candidate.name) | candidate.settings | more
        learner: OnlineLearner = getattr(online, name)(*self.asked(name), self.budget, seed=seed, **options)
        return learner

    def _candidate(self, name: str, settings: dict[str, Any], formula: float, **more: Any) -> Candidate:
        most = min(self.trivial, more.pop("certified", formula))
        return Candidate(name, settings, most, most / self.rounds, formula, **more)

    def _sums(self, pure: Sequence[str]) -> list[tuple[str, str]]:
        """The possible running sums with their noise; ``pure``: kinds of noise that need no delta."""
        if not self.budget.private:
            return [("sqrt", "gaussian")]
        factorized = {"sqrt": _MOST_FILTERED, "blt": longest_buffered(), "tree": self.rounds}
        gaussian = [name for name, most in factorized.items() if self.budget.delta and self.rounds <= most]
        return [*((name, "gaussian") for name in gaussian), *(("tree", noise) for noise in pure)]

    def beats_chance(self) -> bool:
        """Whether any candidate is certified to do better than not learning."""
        limit = self.without_learning[1]
        return any(one.certified < limit for one in replace(self, fineness=1).candidates())

    def rounds_needed(self) -> int | None:
        """The fewest rounds above these with which `beats_chance` holds, to 1 %."""
        low, high = self.rounds, 2 * self.rounds
        while not replace(self, rounds=high).beats_chance():
            low, high = high, 2 * high
            if high > _LAST_ROUNDS:
                return None
        while high - low > max(1, high // 100):
            middle = (low + high) // 2
            low, high = (low, middle) if replace(self, rounds=middle).beats_chance() else (middle, high)
        return high

    def epsilon_needed(self) -> float | None:
        """The smallest epsilon above this one with which `beats_chance` holds, at the same delta, to 1 %."""

        def enough(epsilon: float) -> bool:
            return replace(self, budget=replace(self.budget, epsilon=epsilon)).beats_chance()

        if not self.budget.private:
            return None
        low, high = self.budget.epsilon, 2.0 * self.budget.epsilon
        while not enough(high):
            low, high = high, 2.0 * high
            if high > _LAST_EPSILON:
                return None
        while high > 1.01 * low:
            middle = math.sqrt(low * high)
            low, high = (low, middle) if enough(middle) else (middle, high)
        return high


def _tight(name: str, *asked: Any, **options: Any) -> Any:
    """The calibrated settings of a learner of `discreet.online`, which is loaded on demand."""
    return getattr(online, name)._settings_type.tight(*asked, **options)


@dataclass(frozen=True)
class ItemQuestion(Question):
    """A set of items per round: of at most ``sets`` items, or one that this constraint allows."""

    n_items: int = 0
    sets: int | Constraint = 1
    feedback: Feedback = "full"
    stream: str = "adversarial"
    cap: int | None = None
    bound: float = 1.0
    labels: tuple[Any, ...] | None = None
    separation: int | None = None  # the declared least number of rounds between a person's visits

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.budget.max_rounds_per_person == 1:
            object.__setattr__(self, "separation", None)  # nobody returns

    @property
    def constraint(self) -> Constraint:
        """The sets that may be shown."""
        sets = self.sets
        return sets if isinstance(sets, Constraint) else Cardinality(sets, n_items=self.n_items)

    @property
    def k(self) -> int:
        """The most items that are shown."""
        return self.sets.rank if isinstance(self.sets, Constraint) else self.sets

    @property
    def headline(self) -> str:
        cut = "" if self.cap is None else f", {self.cap} items counted per person"
        back = ""
        if self.separation is not None:
            times = self.budget.max_rounds_per_person
            back = f", people who come {times} times, at least {self.separation:,} rounds apart"
        return f"{self._sets}{cut}{back}"

    @property
    def _sets(self) -> str:
        kind = {"full": "full", "bandit": "bandit", "slots": "per-slot"}[self.feedback]
        stream = f", {self.stream} stream" if self.feedback == "full" else ""
        return f"{self.k} of {self.n_items:,} items, {self.rounds:,} rounds, {kind} feedback{stream}"

    @property
    def trivial(self) -> float:
        return bounds.trivial(self.rounds, self.bound)

    @property
    def without_learning(self) -> tuple[str, float]:
        return "choosing at random", bounds.at_random(self.n_items, self.k, self.rounds, self.bound)

    def _tight(self, name: str, **options: Any) -> Any:
        """The calibrated settings of a learner for this question."""
        return _tight(name, self.n_items, self.k, self.rounds, self.share, bound=self.bound, **options)

    def apart(self, batch: int) -> dict[str, Any]:
        """The option for people who return, for a learner with batches of this many rounds.

        Rounds that are r apart are in batches at least r // batch apart. If batches are longer than r, a
        person counts once in a batch.
        """
        return {} if self.separation is None else {"min_separation": max(1, self.separation // batch)}

    def visits(self, rounds: int) -> list[int] | None:
        """The person of each simulated round; all come as often, and return as soon, as declared."""
        if self.separation is None:
            return None
        cycle, apart = self.budget.max_rounds_per_person * self.separation, self.separation
        return [apart * (t // cycle) + t % apart for t in range(rounds)]

    def at_size(self, size: Size) -> ItemQuestion:
        """The same question at the size of a simulation."""
        if isinstance(self.sets, Constraint):
            return replace(self, rounds=size.rounds)
        return replace(self, rounds=size.rounds, n_items=size.n_items, sets=size.k)

    def asked(self, name: str) -> tuple[Any, ...]:
        if name in ("PhasedSelector", "RollingSelector"):
            return self.n_items, self.k
        if not isinstance(self.sets, Constraint):
            return self.n_items, self.k, self.rounds
        return (self.n_items, None, self.rounds) if name == "LeaderSelector" else (self.sets, self.rounds)

    def options(self, name: str) -> dict[str, Any]:
        found = {"bound": self.bound, "labels": self.labels}
        constrained = name == "LeaderSelector" and isinstance(self.sets, Constraint)
        return found | {"constraint": self.sets} if constrained else found


class FullInformation(ItemQuestion):
    """k of n items per round; the person's whole function is seen after it."""

    def candidates(self) -> Iterator[Candidate]:
        rolling = self._windows("RollingSelector")
        yield self._candidate("RollingSelector", rolling, math.inf, proven=False, note="pure epsilon")
        if self.stream == "stationary":
            yield from (self._phased(method) for method in ("subsampled", "composed"))
            if self.budget.private and self.budget.delta > 0.0:
                yield self._candidate("LeaderSelector", self.apart(self._longest), math.inf, proven=False)
        if self.budget.private:  # without noise, running sums are the same as Hedge
            yield from self._running_sums()
            yield from self._weighted_sums()
        yield from self._hedges()

    @property
    def _longest(self) -> int:
        """The longest batch of a leader."""
        longest: int = self._tight("LeaderSelector").longest
        return longest

    @property
    def shortest(self) -> int:
        """The fewest rounds between two sets with which all noisy numbers take at most `_MOST_SECONDS`."""
        return max(1, math.ceil(NUMBER * self.rounds * self.n_items * self.k / _MOST_SECONDS))

    @property
    def _batches(self) -> list[int]:
        """Batch lengths to try: a few per doubling, each the shortest for its number of batches."""
        doublings = self.fineness * self.rounds.bit_length()
        counts = {round(2.0 ** (i / self.fineness)) for i in range(doublings + 1)}
        least = self.shortest
        lengths = {-(-self.rounds // count) for count in counts if count <= self.rounds} | {least}
        return sorted(length for length in lengths if length >= least)

    def _windows(self, name: str, **settings: Any) -> dict[str, Any]:
        """Settings of a learner with windows, the first of at most a quarter of the rounds."""
        shape = (self.n_items, self.k, self.share)
        usual = _tight(name, *shape, bound=self.bound, **settings).first_window
        most = max(self.k, self.rounds // 4)
        return settings if usual <= most else settings | {"first_window": most}

    def _phased(self, method: str) -> Candidate:
        settings = self._windows("PhasedSelector", method=method)
        shape = (self.n_items, self.k, self.share)
        found = _tight("PhasedSelector", *shape, bound=self.bound, **settings)
        return self._candidate(
            "PhasedSelector",
            settings,
            found.certified_regret_after(self.rounds, clipped=False),
            certified=found.certified_regret_after(self.rounds),
            note="only for exchangeable streams",
        )

    def _hedges(self) -> Iterator[Candidate]:
        if self.rounds > MOST_ROUNDS:
            return
        tight = partial(self._tight, "HedgeSelector", cautious=True)
        found = min((tight(resample_every=one) for one in self._batches), key=_regret)
        yield self._candidate("HedgeSelector", {"resample_every": found.resample_every}, _regret(found))

    def _running_sums(self) -> Iterator[Candidate]:
        for sums, noise in self._sums(("laplace",)):
            found = min((self._running_sum(batch, sums, noise) for batch in self._batches), key=_regret)
            settings = {"sums": sums, "resample_every": found.resample_every, "rate": found.rate}
            notes = []
            if noise == "laplace":
                settings["noise"] = noise
                notes.append("pure epsilon")
            else:
                settings |= self.apart(found.resample_every)
            if self.cap is not None:
                settings["items_per_person"] = self.cap
                notes.insert(0, f"of people cut to {self.cap} items")
            cut, note = self.cap is not None, "; ".join(notes)
            yield self._candidate("RunningSumSelector", settings, _regret(found), cut=cut, note=note)

    def _running_sum(self, batch: int, sums: str, noise: str) -> Any:
        options = {"sums": sums, "noise": noise, "items_per_person": self.cap, "resample_every": batch}
        if noise == "gaussian":
            options |= self.apart(batch)
        rate = bounds.best_rate(self.n_items, self.k, self.rounds, batch, self.bound)
        return self._tight("RunningSumSelector", rate=rate, **options)

    def _weighted_sums(self) -> Iterator[Candidate]:
        """Running sums of weighted people, which serve most, alone or with a leader before them."""
        if ("sqrt", "gaussian") not in self._sums(()):
            return
        note = "of people weighted by their items"
        for weights in ("norm", None):
            settings: dict[str, Any] = {"weights": weights, "resample_every": "auto"}
            if self.separation is not None:
                settings |= self.apart(self._tight("BestOfBothSelector", weights=weights).resample_every)
            formula = self._tight("BestOfBothSelector", **settings).certified_regret
            more = {"cut": True, "note": note} if weights else {}
            yield self._candidate("BestOfBothSelector", settings, formula, **more)
        every = max(self.shortest, self.rounds // _SETS)
        settings = dict(weights="norm", rate="falling", resample_every=every, **self.apart(every))
        formula = _regret(self._tight("RunningSumSelector", **settings))
        yield self._candidate("RunningSumSelector", settings, formula, cut=True, note=note)


class Bandit(ItemQuestion):
    """k of n items per round; only the value of the shown set is seen, or which of its items was taken."""

    def candidates(self) -> Iterator[Candidate]:
        if self.rounds > MOST_ROUNDS:
            return
        slots = {"feedback": "slots"} if self.feedback == "slots" else {}
        yield self._candidate("ThompsonSelector", slots, math.inf, note="pure epsilon", proven=False)
        if slots:
            yield self._candidate("BanditSelector", slots, self.trivial, proven=False)
            return
        yield self._exploring("blocks", {"rate": "certified"}, "pure epsilon")
        yield self._exploring("blocks", {}, "pure epsilon; falling rates, which often serve better")
        for mode in ("presampled", "online", "every_round"):
            yield self._exploring(mode, {}, "")

    def _exploring(self, exploration: str, settings: dict[str, Any], note: str) -> Candidate:
        settings = {"exploration": exploration, **settings}
        found = self._tight("BanditSelector", **settings)
        return self._candidate("BanditSelector", settings, _regret(found), note=note)


class Constrained(ItemQuestion):
    """A set within a matroid or a knapsack per round; the person's whole function is seen after it."""

    @property
    def _sets(self) -> str:
        return f"{self.constraint!r}, {self.n_items:,} items, {self.rounds:,} rounds, full feedback"

    @property
    def without_learning(self) -> tuple[str, float]:
        return "any fixed choice", self.trivial

    def candidates(self) -> Iterator[Candidate]:
        from ..online.frank_wolfe import REGULARIZERS

        if self.stream == "stationary" and isinstance(self.constraint, Matroid) and self.budget.delta > 0.0:
            shape = (self.n_items, None, self.rounds, self.share)
            leader = _tight("LeaderSelector", *shape, constraint=self.constraint, bound=self.bound)
            yield self._candidate("LeaderSelector", self.apart(leader.longest), math.inf, proven=False)
        for regularizer in REGULARIZERS:
            for cap in (None,) if self.cap is None else (None, self.cap):
                yield self._frank_wolfe(regularizer, cap)

    def _frank_wolfe(self, regularizer: str, cap: int | None) -> Candidate:
        asked: dict[str, Any] = {"regularizer": regularizer} | (self.apart(1) if self.budget.delta else {})
        if cap is not None:
            asked["items_per_person"] = cap
        shape: dict[str, Any] = {"domain": self.constraint, "rounds": self.rounds, "bound": self.bound}
        found = _tight("MetaFrankWolfe", self.share, **shape, **asked)
        notes = [] if cap is None else [f"of people cut to {cap} items"]
        notes += ["pure epsilon"] if found.noise == "laplace" else []
        settings, note = asked | {"steps": found.steps}, "; ".join(notes)
        cut = cap is not None
        return self._candidate("MetaFrankWolfe", settings, found.certified_regret, cut=cut, note=note)


def _regret(settings: Any) -> float:
    regret: float = settings.unclipped_regret
    return regret


@dataclass(frozen=True)
class Minimization(Question):
    """The cheapest set, of any size, per round."""

    n_items: int = 0
    bound: float = 1.0
    feedback: CostFeedback = "full"
    empty_is_free: bool = False
    labels: tuple[Any, ...] | None = None

    @property
    def headline(self) -> str:
        of = f"the cheapest of all sets of {self.n_items:,} items"
        return f"{of}, {self.rounds:,} rounds, {self.feedback} feedback"

    @property
    def trivial(self) -> float:
        return minimization.trivial_cost(self.rounds, self.bound)

    @property
    def without_learning(self) -> tuple[str, float]:
        return "any fixed choice", self.trivial

    def candidates(self) -> Iterator[Candidate]:
        shape: dict[str, Any] = {"n_items": self.n_items, "rounds": self.rounds, "bound": self.bound}
        if self.feedback == "bandit":
            yield from self._bandit(shape)
            return
        free = {"empty_is_free": True} if self.empty_is_free else {}
        for sums, noise in self._sums(("laplace", "spherical")):
            settings: dict[str, Any] = {"sums": sums, "noise": noise, **free}
            found = _tight("SubmodularMinimizer", self.share, **shape, **settings)
            note = "pure epsilon" if noise != "gaussian" else ""
            yield self._candidate("SubmodularMinimizer", settings, found.certified_regret, note=note)

    def _bandit(self, shape: dict[str, Any]) -> Iterator[Candidate]:
        from ..online.bandit_minimize import FORMS, HorizonTooShort

        name = "BanditSubmodularMinimizer"
        for form in FORMS:
            try:
                formula = _tight(name, self.share, form=form, **shape).certified_regret
            except HorizonTooShort:
                continue  # the learner would refuse this form
            proven = form != "thompson"
            yield self._candidate(name, {"form": form}, formula, proven=proven, note="pure epsilon")

    def asked(self, name: str) -> tuple[Any, ...]:  # noqa: ARG002
        return self.n_items, self.rounds

    def options(self, name: str) -> dict[str, Any]:  # noqa: ARG002
        return {"bound": self.bound, "labels": self.labels}


@dataclass(frozen=True)
class Convex(Question):
    """A point of a domain per round."""

    domain: Any = None
    lipschitz: float = 1.0
    strong_convexity: float = 0.0
    linear: bool = False
    feedback: CostFeedback = "full"
    bound: float | tuple[float, float] | None = None
    adversary: Adversary = "oblivious"

    @property
    def headline(self) -> str:
        shape = "linear" if self.linear else "curved" if self.strong_convexity else "convex"
        return (
            f"{shape} costs on {self.domain!r}, gradients up to {self.lipschitz:g}, {self.rounds:,} rounds,"
            f" {self.feedback} feedback"
        )

    @property
    def trivial(self) -> float:
        return float(self.lipschitz * self.domain.diameter * self.rounds)

    @property
    def without_learning(self) -> tuple[str, float]:
        return "any fixed point", self.trivial

    def candidates(self) -> Iterator[Candidate]:
        if self.feedback == "bandit":
            yield from self._tried("BanditApproximateLeader", {}, "pure epsilon")
            return
        for sums, noise in self._sums(("laplace", "spherical")):
            settings, note = {"sums": sums, "noise": noise}, "" if noise == "gaussian" else "pure epsilon"
            yield from self._tried("ApproximateLeader", settings, note)
            if self.linear and noise != "spherical" and self.adversary == "oblivious":
                yield from self._tried("LinearLeader", settings, note)

    def _tried(self, name: str, settings: dict[str, Any], note: str) -> Iterator[Candidate]:
        """The candidate, or none if the settings do not fit, for example because the horizon is too short."""
        options = self.options(name) | settings
        try:
            found = _tight(name, self.share, domain=self.domain, rounds=self.rounds, **options)
        except ValueError:
            return
        yield self._candidate(name, settings, found.certified_regret, note=note)

    def asked(self, name: str) -> tuple[Any, ...]:  # noqa: ARG002
        return self.domain, self.rounds

    def options(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = {"lipschitz": self.lipschitz}
        if name != "LinearLeader":
            found["strong_convexity"] = self.strong_convexity
        if name == "BanditApproximateLeader":
            found |= {"bound": self.bound, "adversary": self.adversary}
        return found


def short(value: Any) -> str:
    """A setting as readable text."""
    return (
        f"{value:.3g}" if isinstance(value, float) else repr(value) if isinstance(value, str) else str(value)
    )
