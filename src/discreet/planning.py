"""The planner: a learner with settings for a question and a budget, the reason, and the certificate.

A certificate bounds the worst stream. What to expect is another question, and its answer depends on people
who are not there yet: candidates are tried on synthetic people whose popularity falls as it does in most
catalogues (`synthetic_people`), or on a public sample that the user gives. Nobody's private data is looked
at.
"""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from . import bounds, online
from .bounds import minimization
from .constraints import Cardinality, Constraint, Matroid
from .constraints.domains import Domain
from .core import checks
from .core.text import table
from .objectives import Coverage, Population
from .privacy import Budget, PublicRandomness, Seed
from .privacy.factorizations import longest_buffered
from .privacy.ordered import MOST_ROUNDS

if TYPE_CHECKING:
    from .online import OnlineLearner

__all__ = ["Candidate", "Plan", "Question", "plan", "plan_convex", "plan_minimization"]

FEEDBACK = ("full", "bandit", "slots")
STREAMS = ("adversarial", "stationary")
GOALS = ("expected", "certified")
# How far the search for enough rounds, enough epsilon, or enough people goes.
_LAST_ROUNDS, _LAST_EPSILON, _LAST_PEOPLE = 1 << 40, 1e6, 300_000
# Beyond this many rounds the rounding errors of factorised sums come near their noise, and they are refused.
_MOST_FILTERED = 1 << 25
_ALIKE = 0.01  # expected shares that differ by less are alike
# A certificate about people as they are is preferred up to this factor to one about people cut short.
_PREFERRED = 2.0
_SETS = 160  # new sets of weighted running sums, in all
# Sizes that are simulated; larger questions are answered by these.
_MOST_SIMULATED, _MOST_ITEMS = 20_000, 5_000
_MOST_WORK = 4e8  # rounds x items x k
_RUNS = 3
_RANDOM_SETS = 30
# Learners that draw a new set in almost every round are simulated with this many sets in all.
_MOST_SETS = 200
_RESAMPLING = ("HedgeSelector", "RunningSumSelector", "BestOfBothSelector", "MetaFrankWolfe")
_CLUSTERS = 5
_OWN_TASTE = 0.6  # how much of what people want is their own cluster's
_MORE_ITEMS = 2.0  # items of a person beside the first, on average


# --- questions --------------------------------------------------------------------------------------


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

    ``goal="expected"``: the one that serves most on simulated streams of that size (synthetic people, or
    drawn from a public ``sample``), beside what is certified. ``"certified"``: the smallest certified regret.

    ``stream="adversarial"``: any order of people that was fixed in advance. ``"stationary"``: people come as
    in a random order, which also admits `PhasedSelector`; its privacy does not depend on that, its regret
    does. ``items_per_person`` counts at most that many items of each person, which lets running sums do with
    less noise; what they certify is then about people cut to that many items, so up to a factor of two a
    candidate that needs no cut is preferred.

    ``feedback="full"``: the person's whole function is seen after the round; ``"bandit"``: only the value of
    the shown set; ``"slots"``: which of the shown items was taken. In place of k a matroid or a knapsack may
    stand, with full feedback.

    ``min_separation`` is for people who return, ``max_rounds_per_person`` times in all and after at least
    that many rounds. Learners on running sums then have noise for what these rounds can move together, count
    a person once in a batch, and need a ``person_id`` from everybody; theirs is in batches.

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
    items = checks.whole("n_items", n_items, at_least=1)
    if labels is not None and len(labels) != items:
        raise ValueError(f"labels has {len(labels)} entries; there are {items} items")
    cap = items_per_person
    if cap is not None and checks.whole("items_per_person", cap, at_least=1) >= items:
        cap = None  # nobody has more items than there are
    if min_separation is not None:
        checks.whole("min_separation", min_separation, at_least=1)
    kind: type[ItemQuestion] = FullInformation if feedback == "full" else Bandit
    sets: int | Constraint
    if isinstance(k, Constraint) and not isinstance(k, Cardinality):
        if feedback != "full":
            raise ValueError(
                f"feedback={checks.shown(feedback)} is planned for k items only, not for {checks.shown(k)}"
            )
        kind, sets = Constrained, k.over(items)
    else:
        slots = k.rank if isinstance(k, Cardinality) else checks.whole("k", k, at_least=1)
        if slots > items:
            raise ValueError(f"k={slots} exceeds n_items={n_items}; choose k <= {n_items}")
        sets = slots
    question = kind(
        rounds,
        budget,
        n_items=items,
        sets=sets,
        feedback=feedback,
        stream=stream,
        cap=cap if feedback == "full" else None,
        bound=checks.bound(bound),
        labels=None if labels is None else tuple(labels),
        separation=min_separation,
    )
    return _decide(question, goal, sample)


def plan_minimization(
    n_items: int,
    rounds: int,
    budget: Budget,
    bound: float = 1.0,
    feedback: str = "full",
    empty_is_free: bool = False,
    labels: Sequence[Any] | None = None,
) -> Plan:
    """Compare what is certified for the learners that choose a cheap set every round, and take the best.

    Costs are submodular with values in [-bound, bound]. ``feedback="full"``: the person's function is seen
    after the round, ``"bandit"``: only what the chosen set cost. ``empty_is_free`` declares that the empty
    set costs nobody anything. Nothing here looks at data.

    >>> import discreet as dc
    >>> plan_minimization(20, 10**6, dc.Budget(1.0, 1e-6)).best.name
    'SubmodularMinimizer'
    """
    checks.one_of("feedback", feedback, FEEDBACK[:2])
    return _decide(
        Minimization(
            rounds,
            budget,
            n_items=checks.whole("n_items", n_items, at_least=1),
            bound=checks.real("bound", bound, above=0.0),
            feedback=feedback,
            empty_is_free=bool(empty_is_free),
            labels=None if labels is None else tuple(labels),
        )
    )


def plan_convex(
    domain: Domain,
    rounds: int,
    budget: Budget,
    *,
    lipschitz: float,
    strong_convexity: float = 0.0,
    linear: bool = False,
    feedback: str = "full",
    bound: float | tuple[float, float] | None = None,
    adversary: str = "oblivious",
) -> Plan:
    """Compare what is certified for the learners that play a point every round, and take the best.

    Costs are convex with gradients no longer than ``lipschitz`` on the domain, curved by ``strong_convexity``
    (0: merely Lipschitz), or linear. ``feedback="bandit"``: only what the point cost is seen, a number within
    ``bound``. Nothing here looks at data.

    >>> import discreet as dc
    >>> found = plan_convex(dc.domains.Ball(10, 1.0), 10**5, dc.Budget(1.0, 1e-6), lipschitz=1.0)
    >>> found.best.name, found.vacuous
    ('ApproximateLeader', False)
    """
    checks.instance("domain", domain, Domain, "domains.Ball(3, 1.0)")
    checks.one_of("feedback", feedback, FEEDBACK[:2])
    checks.one_of("adversary", adversary, ("oblivious", "adaptive"))
    if feedback == "bandit" and bound is None:
        raise ValueError("bound is missing: say within which range the observed costs lie")
    return _decide(
        Convex(
            rounds,
            budget,
            domain=domain,
            lipschitz=checks.real("lipschitz", lipschitz, above=0.0),
            strong_convexity=checks.real("strong_convexity", strong_convexity, at_least=0.0),
            linear=bool(linear),
            feedback=feedback,
            bound=bound,
            adversary=adversary,
        )
    )


# --- plans ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Expected:
    """Share of the best fixed set's value: the mean over simulated streams, and their standard deviation."""

    share: float
    spread: float

    def __str__(self) -> str:
        return f"{self.share:.2f} +- {self.spread:.2f}"


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
        return "no guarantee at this size" if self.proven else "no bound is known"

    @property
    def kind(self) -> tuple[Any, ...]:
        """The learner and how it works: candidates of one kind differ in settings that are calibrated."""
        return (self.name, *(self.settings.get(name) for name in ("method", "exploration", "weights")))

    @property
    def shown_settings(self) -> str:
        """The settings as they would be written in a call, rounded."""
        return ", ".join(f"{name}={_short(value)}" for name, value in self.settings.items())

    def __str__(self) -> str:
        return f"{self.name}({self.shown_settings})"


@dataclass(frozen=True)
class Simulation:
    """What every kind of candidate served on simulated streams, beside sets drawn at random.

    ``people`` is how many people came in each; ``needed`` how many would have to come for the best of them
    to serve clearly more than chance, where these are too few.
    """

    shares: dict[tuple[Any, ...], Expected]
    at_random: Expected
    people: int
    needed: int | None = None

    def smaller_than(self, rounds: int) -> str:
        """What to say beside a share where fewer people were simulated than are asked about."""
        return f" of {self.people:,} people" if self.people < rounds else ""

    def better(self, one: Expected) -> bool:
        """Whether it is clearly better than chance: by two standard errors of a few runs."""
        return one.share > self.at_random.share + max(0.02, 2.0 * one.spread / math.sqrt(_RUNS))


@dataclass(frozen=True)
class Plan:
    """Candidates for one question, the chosen one, and the reason.

    ``candidates`` in order of preference. With ``goal="expected"`` that is falling expected share, one for
    each kind of learner, and ``simulation`` is what the shares come from. Otherwise it is rising bound, and
    ``rounds_needed`` and ``epsilon_needed`` are filled in when no candidate is certified to beat not learning
    at all: from how many rounds on, and from which epsilon on, one would be (None where the search found
    none).
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

    @property
    def hopeless(self) -> bool:
        """Whether no candidate is expected to do better than sets drawn at random."""
        found, best = self.simulation, self.best.expected
        return found is not None and best is not None and not found.better(best)

    def learner(self, seed: Seed = None) -> Any:
        """The chosen learner, ready for its first round; ``seed`` as for every learner.

        With a warning where nothing is expected to do better than chance.
        """
        if self.hopeless:
            warnings.warn(self.reason, stacklevel=2)
        return self.question.build(self.best, seed)

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
        return ["", "learner", "settings", *header, "regret at most", "per round", "note"], rows

    def __str__(self) -> str:
        return "\n".join([self.headline, table(*self.rows()), f"chosen: {self.best}", self.reason])

    def _repr_html_(self) -> str:
        from .core.text import card, grid, line

        header, rows = self.rows()
        strong = next(place for place, row in enumerate(rows) if row[0])
        return card(
            "Plan", line(self.headline), grid(header, rows, strong=strong), line(self.reason, quiet=True)
        )

    def _columns(self, regret: float) -> tuple[str, str]:
        return _number(regret), f"{regret / self.rounds:.3f}"


def _decide(question: Question, goal: str = "certified", sample: Population | None = None) -> Plan:
    """Compare every learner that fits the question, and take the best by what is asked for."""
    candidates = sorted(question.candidates(), key=lambda one: (one.certified, one.formula))
    if not candidates:
        raise ValueError(f"no learner fits: {question.headline}")
    if goal == "expected" and isinstance(question, ItemQuestion):
        return _most_served(question, candidates, _simulated(question, sample))
    best, reason = _smallest_bound(candidates, question)
    needed: tuple[int | None, float | None] = (None, None)
    if 0.0 < question.without_learning[1] <= best.certified:
        needed = question.rounds_needed(), question.epsilon_needed()
        reason += " " + _remedy(*needed, question)
    return Plan(question, tuple(candidates), best, reason, *needed)


def _most_served(question: Question, candidates: Sequence[Candidate], found: Simulation) -> Plan:
    """The plan by expected shares."""
    kinds = [one for one in _kinds(candidates) if one.kind in found.shares]
    every = [replace(one, expected=found.shares[one.kind]) for one in kinds]
    every.sort(key=lambda one: found.shares[one.kind].share, reverse=True)
    top = found.shares[every[0].kind]
    # Of those that serve about as much, the one that guarantees most.
    least = top.share - max(_ALIKE, top.spread / math.sqrt(_RUNS))
    best = min((one for one in every if found.shares[one.kind].share >= least), key=lambda one: one.certified)
    expected = found.shares[best.kind]
    bound = f"Its certified regret is {_number(best.certified)}."
    if best.certified >= question.without_learning[1]:
        bound = "No bound on its regret is known."
        if best.proven:
            bound = "At this size its bound on regret guarantees nothing."
    if found.better(expected):
        larger = (
            f" With {question.rounds:,} more is to be expected: discreet simulate --rounds measures it."
            if found.smaller_than(question.rounds)
            else ""
        )
        reason = (
            f"Expected to serve {expected} of what the best fixed set would (random sets:"
            f" {found.at_random.share:.2f}), best or tied, on simulated streams of {found.people:,} people."
            f"{larger} {bound}"
        )
    else:
        more = "" if found.needed is None else f" About {found.needed:,} people would be needed."
        reason = (
            f"Nothing is expected to do better than random sets here ({expected} of what the best fixed"
            f" set would serve, random sets {found.at_random.share:.2f}).{more}"
        )
    return Plan(question, tuple(every), best, reason, simulation=found)


def _smallest_bound(candidates: Sequence[Candidate], question: Question) -> tuple[Candidate, str]:
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
    uncut = next((one for one in candidates if not one.cut), first)
    if uncut is not first and uncut.certified <= min(_PREFERRED * first.certified, chance * (1.0 - 1e-9)):
        return uncut, (
            f"Its certified regret, {_number(uncut.certified)}, is the smallest of those about people as they"
            f" are, and at most twice the smallest of all, {_number(first.certified)}, which is about people"
            " cut to fewer items."
        )
    more = [one for one in candidates if one is not first]
    than = f"; the next is {_number(more[0].formula)} with {more[0]}" if more else ""
    return first, (
        f"Its certified regret is the smallest: {_number(first.certified)}, or {first.average:.3f} per"
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


def _short(value: Any) -> str:
    return (
        f"{value:.3g}" if isinstance(value, float) else repr(value) if isinstance(value, str) else str(value)
    )


def _number(value: float) -> str:
    """A regret, readable."""
    return f"{value:.3g}" if value < 100.0 else f"{value:,.0f}" if value < 1e9 else f"{value:.1e}"


# --- which learners fit -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Question(ABC):
    """What is asked, checked: public, all of it.

    Subclasses know which learners fit, what each certifies, and how to build one.
    """

    rounds: int
    budget: Budget
    fineness: int = 4  # settings tried per doubling

    def __post_init__(self) -> None:
        checks.whole("rounds", self.rounds, at_least=1)
        checks.instance("budget", self.budget, Budget, "Budget(epsilon=1.0, delta=1e-6)")

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
    def asked(self, name: str) -> tuple[Any, ...]:
        """What a learner of this name is asked for, before the budget."""

    def options(self, name: str) -> dict[str, Any]:  # noqa: ARG002
        """What the question says beside that."""
        return {}

    def build(self, candidate: Candidate, seed: Seed) -> OnlineLearner:
        """The learner of a candidate, ready for its first round."""
        name, options = candidate.name, self.options(candidate.name) | candidate.settings
        learner: OnlineLearner = getattr(online, name)(*self.asked(name), self.budget, seed=seed, **options)
        return learner

    def _candidate(self, name: str, settings: dict[str, Any], formula: float, **more: Any) -> Candidate:
        most = min(self.trivial, more.pop("certified", formula))
        return Candidate(name, settings, most, most / self.rounds, formula, **more)

    def _sums(self, pure: Sequence[str]) -> list[tuple[str, str]]:
        """The running sums that can be had, with their noise; ``pure``: those that need no delta."""
        if not self.budget.private:
            return [("sqrt", "gaussian")]
        factorised = {"sqrt": _MOST_FILTERED, "blt": longest_buffered(), "tree": self.rounds}
        gaussian = [name for name, most in factorised.items() if self.budget.delta and self.rounds <= most]
        return [*((name, "gaussian") for name in gaussian), *(("tree", noise) for noise in pure)]

    def beats_chance(self) -> bool:
        """Whether any candidate is certified to do better than not learning."""
        limit = self.without_learning[1]
        return any(one.certified < limit for one in replace(self, fineness=1).candidates())

    def rounds_needed(self) -> int | None:
        """From how many rounds on; by doubling and bisection, to 1 %."""
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
        """From which epsilon on, at the same delta; by doubling and bisection, to 1 %."""

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
    """The calibrated settings of a learner of `discreet.online`, which is loaded when it is asked for."""
    return getattr(online, name)._settings_type.tight(*asked, **options)


@dataclass(frozen=True)
class ItemQuestion(Question):
    """A set of items per round: at most ``sets`` of them, or one that this constraint allows."""

    n_items: int = 0
    sets: int | Constraint = 1
    feedback: str = "full"
    stream: str = "adversarial"
    cap: int | None = None
    bound: float = 1.0
    labels: tuple[Any, ...] | None = None
    separation: int | None = None  # rounds after which people return, where that is declared

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
        return _tight(
            name, self.n_items, self.k, self.rounds, self.budget.share(), bound=self.bound, **options
        )

    def apart(self, batch: int) -> dict[str, Any]:
        """The option for people who return, of a learner with batches of this many rounds.

        Rounds that are r apart are in batches at least r // batch apart; in batches that are longer than that
        somebody counts once.
        """
        return {} if self.separation is None else {"min_separation": max(1, self.separation // batch)}

    def visits(self, rounds: int) -> list[int] | None:
        """Who comes in each simulated round: everybody as often and as soon as declared."""
        if self.separation is None:
            return None
        cycle, apart = self.budget.max_rounds_per_person * self.separation, self.separation
        return [apart * (t // cycle) + t % apart for t in range(rounds)]

    def at_size(self, rounds: int) -> ItemQuestion:
        """The same question for this many rounds, and for as many items as can be simulated."""
        if isinstance(self.sets, Constraint):
            return replace(self, rounds=rounds)
        size = Size.of(rounds, self.n_items, self.k)
        return replace(self, rounds=rounds, n_items=size.n_items, sets=size.k)

    def asked(self, name: str) -> tuple[Any, ...]:
        if name == "PhasedSelector":
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
        if self.stream == "stationary":
            yield from (self._phased(method) for method in ("subsampled", "composed"))
            if self.budget.private and self.budget.delta > 0.0:
                yield self._candidate("LeaderSelector", self.apart(self._longest), math.inf, proven=False)
        if self.budget.private:  # without noise running sums are Hedge
            yield from self._running_sums()
            yield from self._weighted_sums()
        yield from self._hedges()

    @property
    def _longest(self) -> int:
        """The longest batch of a leader."""
        longest: int = self._tight("LeaderSelector").longest
        return longest

    @property
    def _batches(self) -> list[int]:
        """Batch lengths worth trying: a few per doubling, each the shortest for its number of batches."""
        doublings = self.fineness * self.rounds.bit_length()
        counts = {round(2.0 ** (i / self.fineness)) for i in range(doublings + 1)}
        return sorted({-(-self.rounds // count) for count in counts if count <= self.rounds} | {1})

    def _phased(self, method: str) -> Candidate:
        shape = (self.n_items, self.k, self.budget.share())
        found = _tight("PhasedSelector", *shape, method=method, bound=self.bound)
        return self._candidate(
            "PhasedSelector",
            {"method": method},
            found.certified_regret_after(self.rounds, clipped=False),
            certified=found.certified_regret_after(self.rounds),
            note="only for exchangeable streams",
        )

    def _hedges(self) -> Iterator[Candidate]:
        if self.rounds > MOST_ROUNDS:
            return
        budget = self.budget
        if budget.private and budget.delta > 0.0:
            formula = self.bound * bounds.published_hedge(
                self.n_items, self.k, self.rounds, budget.epsilon, budget.delta
            )
            note = "constants of paper 000"
            yield self._candidate("HedgeSelector", {"calibration": "published"}, formula, note=note)
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
        """Weighted people: of the running sums these serve most, alone or with a leader before them."""
        if ("sqrt", "gaussian") not in self._sums(()):
            return
        note = "of people weighted by their items"
        for weights in ("norm", None):
            settings: dict[str, Any] = {"weights": weights, "resample_every": "auto"}
            settings |= self.apart(self._longest)
            formula = self._tight("BestOfBothSelector", **settings).certified_regret
            more = {"cut": True, "note": note} if weights else {}
            yield self._candidate("BestOfBothSelector", settings, formula, **more)
        every = max(1, self.rounds // _SETS)
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
        if self.budget.private and self.budget.delta > 0.0:
            yield self._published()

    def _exploring(self, exploration: str, settings: dict[str, Any], note: str) -> Candidate:
        settings = {"exploration": exploration, **settings}
        found = self._tight("BanditSelector", **settings)
        return self._candidate("BanditSelector", settings, _regret(found), note=note)

    def _published(self) -> Candidate:
        from .online.bandit import BanditSettings

        shape = (self.n_items, self.k, self.rounds, self.budget.share())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the note says it
            found = BanditSettings.published(*shape, exploration="online", bound=self.bound)
        always = "; explores in every round" if found.exploration_rate == 1.0 else ""
        settings, note = {"exploration": "online", "calibration": "published"}, "constants of paper 000"
        return self._candidate("BanditSelector", settings, _regret(found), note=note + always)


class Constrained(ItemQuestion):
    """A set within a matroid or a knapsack per round; the person's whole function is seen after it."""

    @property
    def _sets(self) -> str:
        return f"{self.constraint!r}, {self.n_items:,} items, {self.rounds:,} rounds, full feedback"

    @property
    def without_learning(self) -> tuple[str, float]:
        return "any fixed choice", self.trivial

    def candidates(self) -> Iterator[Candidate]:
        from .online.frank_wolfe import REGULARIZERS

        if self.stream == "stationary" and isinstance(self.constraint, Matroid) and self.budget.delta > 0.0:
            shape = (self.n_items, None, self.rounds, self.budget.share())
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
        found = _tight("MetaFrankWolfe", self.budget.share(), **shape, **asked)
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
    """A set of any size per round, as cheap as can be."""

    n_items: int = 0
    bound: float = 1.0
    feedback: str = "full"
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
            found = _tight("SubmodularMinimizer", self.budget.share(), **shape, **settings)
            note = "pure epsilon" if noise != "gaussian" else ""
            yield self._candidate("SubmodularMinimizer", settings, found.certified_regret, note=note)

    def _bandit(self, shape: dict[str, Any]) -> Iterator[Candidate]:
        from .online.bandit_minimize import FORMS, HorizonTooShort

        name = "BanditSubmodularMinimizer"
        for form in FORMS:
            try:
                formula = _tight(name, self.budget.share(), form=form, **shape).certified_regret
            except HorizonTooShort:
                formula = self.trivial
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
    feedback: str = "full"
    bound: float | tuple[float, float] | None = None
    adversary: str = "oblivious"

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
        """The candidate, if there is one: what does not fit (a horizon too short, say) is left out."""
        options = self.options(name) | settings
        try:
            found = _tight(name, self.budget.share(), domain=self.domain, rounds=self.rounds, **options)
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


# --- what to expect ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Size:
    """The size of a simulation."""

    rounds: int
    n_items: int
    k: int

    @classmethod
    def of(cls, rounds: int, n_items: int, k: int) -> Size:
        """What stands for a question: the question's own size, or the largest that takes seconds."""
        items = min(n_items, max(_MOST_ITEMS, 2 * k))
        longest = max(2_000, round(_MOST_WORK / (items * k)))
        return cls(min(rounds, _MOST_SIMULATED, longest), items, min(k, items))


def synthetic_people(rounds: int, n_items: int, seed: int) -> Coverage:
    """People who want a few items each, of a catalogue whose popularity falls with the rank.

    Everybody belongs to a cluster of taste; the j-th cluster has 1/j as many people as the first. Part of
    what a person wants is drawn from a common order of the items, the rest from the cluster's own, always
    with probability proportional to 1/rank.

    >>> people = synthetic_people(1000, 50, seed=0)
    >>> len(people), people.n_items
    (1000, 50)
    """
    import scipy.sparse as sp

    rng = PublicRandomness.seeded([20_001, seed]).generator
    orders = np.array([rng.permutation(n_items) for _ in range(_CLUSTERS + 1)])
    sizes = 1.0 / np.arange(1.0, _CLUSTERS + 1.0)
    homes = rng.choice(_CLUSTERS, size=rounds, p=sizes / sizes.sum())
    counts = 1 + rng.poisson(_MORE_ITEMS, size=rounds)
    who = np.repeat(np.arange(rounds), counts)
    falling = np.cumsum(1.0 / np.arange(1.0, n_items + 1.0))
    ranks = np.searchsorted(falling, rng.random(who.size) * falling[-1])
    own = rng.random(who.size) < _OWN_TASTE
    items = orders[np.where(own, homes[who], _CLUSTERS), np.minimum(ranks, n_items - 1)]
    wanted = sp.csr_array((np.ones(who.size), (who, items)), shape=(rounds, n_items))
    wanted.data[:] = 1.0  # what was drawn twice is wanted once
    return Coverage(wanted)


def streams(size: Size, bound: float, sample: Population | None) -> list[Population]:
    """The people of a few simulated streams."""
    if sample is None:
        found: list[Population] = [synthetic_people(size.rounds, size.n_items, seed) for seed in range(_RUNS)]
        return found if bound == 1.0 else [people * bound for people in found]
    drawn = [PublicRandomness.seeded([20_002, seed]).generator for seed in range(_RUNS)]
    return [sample[rng.integers(len(sample), size=size.rounds)] for rng in drawn]


def best_values(people: Sequence[Population], constraint: Constraint) -> list[float]:
    """The value of the best fixed set to the people of each stream, by greedy."""
    values = []
    for crowd in people:
        state = crowd.start()
        while (left := np.flatnonzero(constraint.addable(np.array(state.items, dtype=np.intp)))).size:
            state.add(int(left[np.argmax(state.gains()[left])]))
        values.append(crowd.value(list(state.items)))
    return values


def at_random(people: Sequence[Population], best: Sequence[float], constraint: Constraint) -> Expected:
    """The share of sets that are drawn at random."""
    shares = []
    for run, (crowd, most) in enumerate(zip(people, best, strict=True)):
        rng = PublicRandomness.seeded([20_003, run]).generator
        values = []
        for _ in range(_RANDOM_SETS):
            chosen: list[int] = []
            order = rng.permutation(crowd.n_items)
            while (left := order[constraint.addable(np.array(chosen, dtype=np.intp))[order]]).size:
                chosen.append(int(left[0]))
            values.append(crowd.value(chosen))
        shares.append(float(np.mean(values)) / most if most else 1.0)
    return _summary(shares)


def served(
    make: Callable[[int], OnlineLearner],
    people: Sequence[Population],
    best: Sequence[float],
    visits: Sequence[int] | None = None,
) -> Expected:
    """What a learner serves, of what the best fixed set would; ``visits`` says who comes, if that matters."""
    shares = []
    for run, (crowd, most) in enumerate(zip(people, best, strict=True)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of published constants; a plan's notes say it
            learner = make(run)
        trace = learner.run(crowd, person_ids=visits)
        shares.append(float(trace.average) / most if most else 1.0)
    return _summary(shares)


def _summary(shares: Sequence[float]) -> Expected:
    spread = float(np.std(shares, ddof=1)) if len(shares) > 1 else math.nan
    return Expected(float(np.mean(shares)), spread)


def _simulated(question: ItemQuestion, sample: Population | None) -> Simulation:
    """What to expect of each kind of candidate."""
    if sample is None:
        return _on_synthetic_people(replace(question, labels=None))
    if sample.n_items != question.n_items or not sample.bound <= question.bound:
        raise ValueError(
            f"sample has {sample.n_items} items and values up to {sample.bound:g}; the question is about"
            f" {question.n_items} items and values up to {question.bound:g}"
        )
    size = Size.of(question.rounds, question.n_items, question.k)
    return _tried(replace(question, rounds=size.rounds, labels=None), sample)


@lru_cache(maxsize=64)
def _on_synthetic_people(question: ItemQuestion) -> Simulation:
    small = question.at_size(Size.of(question.rounds, question.n_items, question.k).rounds)
    found = _tried(small, None)
    best = max(found.shares, key=lambda kind: found.shares[kind].share)
    larger, rounds = found, small.rounds
    # From how many people on does the best kind of learner do clearly better than chance? By doubling.
    while not larger.better(larger.shares[best]):
        if (rounds := 2 * rounds) > _LAST_PEOPLE:
            return found
        larger = _tried(small.at_size(rounds), None, only=best)
    return found if rounds == small.rounds else replace(found, needed=rounds)


def _tried(
    question: ItemQuestion, sample: Population | None, only: tuple[Any, ...] | None = None
) -> Simulation:
    """Every kind of candidate, or one, on a few streams of the question's size."""
    size = Size(question.rounds, question.n_items, question.k)
    people = streams(size, question.bound, sample)
    best = best_values(people, question.constraint)
    visits = question.visits(size.rounds)
    shares = {
        one.kind: served(partial(question.build, _resampled(one, question)), people, best, visits)
        for one in _kinds(question.candidates())
        if only in (None, one.kind)
    }
    return Simulation(shares, at_random(people, best, question.constraint), size.rounds)


def _kinds(candidates: Iterator[Candidate] | Sequence[Candidate]) -> list[Candidate]:
    """One candidate of each kind: the one that certifies most. Published constants certify less."""
    found: dict[tuple[Any, ...], Candidate] = {}
    for one in candidates:
        best = found.get(one.kind)
        if "published" not in one.settings.values() and (best is None or one.formula < best.formula):
            found[one.kind] = one
    return list(found.values())


def _resampled(one: Candidate, question: ItemQuestion) -> Candidate:
    """The candidate with fewer new sets, where it would draw one in almost every round."""
    least = max(1, question.rounds // _MOST_SETS)
    every = one.settings.get("resample_every", 1)
    if one.name not in _RESAMPLING or (every != "auto" and every >= least):
        return one
    settings = one.settings | {"resample_every": least}
    if "min_separation" in settings and one.name != "BestOfBothSelector":
        settings |= question.apart(least)
    return replace(one, settings=settings)
