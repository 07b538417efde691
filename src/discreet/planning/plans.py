"""The planner: a learner with settings for a question and a budget, the reason, and the certificate."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from ..constraints import Cardinality, Constraint
from ..constraints.domains import Domain
from ..core import checks
from ..core.options import Adversary, CostFeedback, Feedback, Goal, Stream
from ..core.text import PAGE, at_most, looked_at, table, track
from ..objectives import Population
from ..privacy import Budget, Seed
from .expected import CATALOGUES, FEWEST, Crowd, Expected, Size, crowds, people_needed, served, share_after
from .questions import (
    NUMBER,
    Bandit,
    Candidate,
    Constrained,
    Convex,
    FullInformation,
    ItemQuestion,
    Minimization,
    Question,
)

STREAMS = ("adversarial", "stationary")
GOALS = ("expected", "certified")
# A certificate without a cut of people's items is preferred to one with it, up to this factor.
_PREFERRED = 2.0
_ALIKE = 0.02  # expected shares that differ by less count as equal
_FAR = 0.1  # and those that differ by more than this part of the larger do not, however few the streams
_WORTH = 0.5  # a useful certificate is below this part of what any play can lose
_KEPT = 0.95  # a learner with one is preferred if its share is at least this part of the largest
_LAST_PEOPLE = 300_000  # where the search for enough people ends
_LARGE_EPSILON = 10.0
_SECONDS = 1.0  # about how long the chosen learner may be simulated
_MOST_SETS, _FEWEST_SETS = 200, 20  # bounds on the sets in a simulation of a learner that draws many
_SLOW = 0.3  # a learner without a guarantee is not tried if a stream takes this many seconds
_RESAMPLING = ("HedgeSelector", "RunningSumSelector", "BestOfBothSelector", "MetaFrankWolfe")


Shares = dict[tuple[Any, ...], list[float]]  # the shares on each stream, by kind


# --- questions --------------------------------------------------------------------------------------


def plan(
    n_items: int,
    k: int | Constraint,
    rounds: int,
    budget: Budget,
    feedback: Feedback = "full",
    stream: Stream = "adversarial",
    items_per_person: int | None = None,
    bound: float = 1.0,
    labels: Sequence[Any] | None = None,
    *,
    min_separation: int | None = None,
    goal: Goal = "expected",
    sample: Population | None = None,
    progress: bool | None = None,
) -> Plan:
    """Compare every learner that fits the question, and take the best by ``goal``.

    ``goal="expected"``: the one that serves most on simulated streams (synthetic people of different
    catalogues, `planning.expected`, or drawn from a public ``sample``). A share has an interval, which
    contains about four of five catalogues. With ``stream="adversarial"``, a learner with a certificate below
    half of what any play can lose is preferred if it serves at least 95 % of the most. ``"certified"``: the
    smallest certified regret.

    ``stream="adversarial"``: any order of people that was fixed in advance. ``"stationary"``: people come in
    random order, which also admits `PhasedSelector`; its regret depends on that, its privacy does not.
    ``items_per_person`` is how many items people have: simulated people have this many on average, and
    running sums count at most this many, which reduces their noise. Their certificates are then about people
    cut to that many items, so a candidate without a cut is preferred up to a factor of two.

    ``feedback="full"``: the person's whole function is seen after the round; ``"bandit"``: only the value of
    the shown set; ``"slots"``: which of the shown items was taken. Instead of a number, ``k`` may be a
    matroid or a knapsack, with full feedback.

    ``min_separation`` is for people who return, up to ``max_rounds_per_person`` times in all, and never
    before that many rounds. Learners on running sums then calibrate noise to the joint sensitivity of these
    rounds, count a person once in a batch, and need a ``person_id`` in every round; their own option of this
    name is in batches.

    ``progress``: show the progress of the simulation (by default on a terminal, after two seconds).

    No private data is used: the question is public. All bounds are on the expected regret against (1 - 1/e)
    times the best fixed set (see `discreet.bounds`).

    >>> import discreet as dc
    >>> found = plan(100, 10, 10**6, dc.Budget(1.0, 1e-6), goal="certified")
    >>> found.best.name, round(found.best.average, 3), found.vacuous
    ('RunningSumSelector', 0.048, False)
    """
    checks.one_of("feedback", feedback, get_args(Feedback))
    checks.one_of("stream", stream, STREAMS)
    checks.one_of("goal", goal, GOALS)
    if sample is not None:
        checks.instance("sample", sample, Population, "objectives.Coverage(matrix)")
    items = checks.whole("n_items", n_items, at_least=1)
    if labels is not None and len(labels) != items:
        raise ValueError(f"labels has {len(labels)} entries; there are {items} items")
    cap = items_per_person
    if cap is not None and checks.whole("items_per_person", cap, at_least=1) >= items:
        cap = None  # nobody can have more items
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
    return _decide(question, goal, sample, progress=looked_at(progress))


def plan_minimization(
    n_items: int,
    rounds: int,
    budget: Budget,
    bound: float = 1.0,
    feedback: CostFeedback = "full",
    empty_is_free: bool = False,
    labels: Sequence[Any] | None = None,
) -> Plan:
    """Compare the certified regret of learners that choose a cheap set every round, and take the best.

    Costs are submodular with values in [-bound, bound]. ``feedback="full"``: the person's function is seen
    after the round, ``"bandit"``: only the cost of the chosen set. ``empty_is_free`` declares that the empty
    set has cost 0 for everybody. No data is used.

    >>> import discreet as dc
    >>> plan_minimization(20, 10**6, dc.Budget(1.0, 1e-6)).best.name
    'SubmodularMinimizer'
    """
    checks.one_of("feedback", feedback, get_args(CostFeedback))
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
    feedback: CostFeedback = "full",
    bound: float | tuple[float, float] | None = None,
    adversary: Adversary = "oblivious",
) -> Plan:
    """Compare the certified regret of learners that play a point every round, and take the best.

    Costs are convex with gradients of norm at most ``lipschitz`` on the domain and ``strong_convexity``
    (0: merely Lipschitz), or linear. ``feedback="bandit"``: only the cost of the point is seen, a number
    within ``bound``. No data is used.

    >>> import discreet as dc
    >>> found = plan_convex(dc.domains.Ball(10, 1.0), 10**5, dc.Budget(1.0, 1e-6), lipschitz=1.0)
    >>> found.best.name, found.vacuous
    ('ApproximateLeader', False)
    """
    checks.instance("domain", domain, Domain, "domains.Ball(3, 1.0)")
    checks.one_of("feedback", feedback, get_args(CostFeedback))
    checks.one_of("adversary", adversary, get_args(Adversary))
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
class Simulation:
    """What every kind of candidate served on simulated streams, compared with random sets.

    ``best`` is the kind to take, and ``crowds`` the number of its streams, of ``people`` people each.
    ``needed`` is the number of people from which on it is clearly better than random sets; None if none was
    found. ``slots`` is the expected share with feedback "slots", if that is more than with "bandit".
    """

    shares: dict[tuple[Any, ...], Expected]
    best: tuple[Any, ...]
    at_random: Expected
    crowds: int
    people: int
    needed: int | None
    slots: Expected | None = None

    def hopeless(self, rounds: int) -> bool:
        """Whether the best is hardly better than random sets in this many rounds."""
        share, chance = self.shares[self.best].share, self.at_random.share
        return self.needed is None or self.needed > rounds or share - chance < _ALIKE * (1.0 - chance)

    def says(self, question: ItemQuestion) -> list[str]:
        """What to expect, in words, the most important first."""
        share, chance = self.shares[self.best], f"{100 * self.at_random.share:.0f} %"
        about = f"about {100 * share.share:.0f} % of what the best fixed set would serve"
        range_ = f"{100 * share.low:.0f} to {100 * share.high:.0f} % over catalogues that differ"
        said = []
        if question.budget.private and question.budget.epsilon > _LARGE_EPSILON:
            said.append(f"Epsilon {question.budget.epsilon:g} hardly protects anybody: choose 10 or less.")
        if self.hopeless(question.rounds):
            enough = f"more than {_LAST_PEOPLE:,}" if self.needed is None else f"about {self.needed:,}"
            more = f"; {enough} people would be needed for clearly more"
            if self.needed is not None and self.needed <= question.rounds:
                more = "; a larger epsilon or more people would help"
            said.append(f"Expect little: {about}, where random sets serve {chance} ({range_}){more}.")
        else:
            said.append(
                f"Expect {about} (random sets: {chance}; {range_}); below {self.needed:,} people a private"
                " choice is hardly better than random."
            )
        if self.slots is not None:
            said.append(
                "The value of a whole set says little about its items: with feedback='slots', which of them"
                f" was taken, {100 * self.slots.share:.0f} % would be expected."
            )
        longer = question.rounds > self.people
        how = "; later rounds are taken to be like the last quarter of these" if longer else ""
        said.append(
            f"{self.best[0]} was chosen on {self.crowds} simulated streams of {self.people:,} people{how}."
        )
        return said


@dataclass(frozen=True)
class Plan:
    """Candidates for one question, the chosen one, and the reason.

    ``candidates``, one for each learner, are in order of preference. With ``goal="expected"`` that is
    decreasing expected share, and ``simulation`` is the source of the shares. Otherwise it is increasing
    bound; if no candidate is certified to beat not learning, ``rounds_needed`` and ``epsilon_needed`` are the
    smallest rounds and epsilon with which one would be (None if the search found none).
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
        return self.simulation is not None and self.simulation.hopeless(self.rounds)

    def learner(self, seed: Seed = None, **more: Any) -> Any:
        """The chosen learner, ready for its first round; ``seed`` is as for every learner.

        ``more`` are further options of it, such as ``start=``. Warns if no candidate is expected to do better
        than chance.
        """
        if self.hopeless:
            warnings.warn(self.reason, stacklevel=2)
        return self.question.build(self.best, seed, **more)

    @property
    def headline(self) -> str:
        """The question in one line."""
        budget = self.budget
        delta = f", delta {at_most(budget.delta)}" if budget.delta else ""
        return f"{self.question.headline}; epsilon {at_most(budget.epsilon)}{delta} ({budget.neighbours})"

    def rows(self) -> tuple[list[str], list[list[str]]]:
        """The candidates as a table: its header and its rows; the chosen one has a star."""
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
        header = [] if found is None else ["expected share"]
        return ["", "learner", "settings", *header, "regret at most", "per round", "note"], rows

    def __repr__(self) -> str:
        return f"Plan({self.headline}; chosen: {self.best})"

    def __str__(self) -> str:
        return "\n".join([self.reason, self.headline, table(*self.rows(), room=PAGE), f"chosen: {self.best}"])

    def _repr_html_(self) -> str:
        from ..core.text import card, grid, line

        header, rows = self.rows()
        strong = next(place for place, row in enumerate(rows) if row[0])
        return card("Plan", line(self.reason), line(self.headline), grid(header, rows, strong=strong))

    def _columns(self, regret: float) -> tuple[str, str]:
        return _number(regret), f"{regret / self.rounds:.3f}"


def _decide(
    question: Question, goal: str = "certified", sample: Population | None = None, *, progress: bool = False
) -> Plan:
    """Compare every learner that fits the question, and take the best by ``goal``."""
    candidates = sorted(question.candidates(), key=lambda one: (one.certified, one.formula))
    if not candidates:
        raise ValueError(f"no learner fits: {question.headline}")
    if goal == "expected" and isinstance(question, ItemQuestion):
        return _most_served(question, candidates, _simulated(question, sample, progress))
    best, reason = _smallest_bound(candidates, question)
    needed: tuple[int | None, float | None] = (None, None)
    if 0.0 < question.without_learning[1] <= best.certified:
        needed = question.rounds_needed(), question.epsilon_needed()
        reason += " " + _remedy(*needed, question)
    return Plan(question, _one_each(candidates, best), best, reason, *needed)


def _one_each(candidates: Sequence[Candidate], best: Candidate) -> tuple[Candidate, ...]:
    """The first candidate of each learner; for the learner of ``best``, that one."""
    rows: dict[str, Candidate] = {}
    for one in candidates:
        rows.setdefault(one.name, best if one.name == best.name else one)
    return tuple(rows.values())


def _most_served(question: ItemQuestion, candidates: Sequence[Candidate], found: Simulation) -> Plan:
    """The plan by expected shares."""
    every = [
        replace(one, expected=found.shares[one.kind])
        for one in _kinds(candidates)
        if one.kind in found.shares
    ]
    # Shares are rounded, so that among variants that serve about as much the best certificate comes first.
    every.sort(key=lambda one: (-round(found.shares[one.kind].share / _ALIKE), one.certified))
    best = next(one for one in every if one.kind == found.best)
    bound = f"Its certified regret is {_number(best.certified)}."
    if best.certified >= question.without_learning[1]:
        bound = "No bound on its regret is known."
        if best.proven:
            bound = "At this size its bound on regret guarantees nothing."
    elif rivals := [one for one in every[: every.index(best)] if one.name != best.name]:
        theirs = f"certifies {_number(rivals[0].certified)}"
        if rivals[0].certified >= question.without_learning[1]:
            theirs = "guarantees nothing"
        bound = bound[:-1] + f"; {rivals[0].name} (expected {rivals[0].expected}) {theirs}."
    reason = " ".join([*found.says(question), bound])
    return Plan(question, _one_each(every, best), best, reason, simulation=found)


def _smallest_bound(candidates: Sequence[Candidate], question: Question) -> tuple[Candidate, str]:
    """The candidate to take, of those given in order of increasing bound, and the reason in words."""
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
        known.append(f"epsilon {at_most(epsilon, 3)} with {question.rounds:,} rounds")
    return f"Enough would be {' or '.join(known)}." if known else "No number of rounds or epsilon was found."


def _number(value: float) -> str:
    """A regret as readable text."""
    return f"{value:.3g}" if value < 100.0 else f"{value:,.0f}" if value < 1e9 else f"{value:.1e}"


# --- simulations ------------------------------------------------------------------------------------


def _simulated(question: ItemQuestion, sample: Population | None, progress: bool) -> Simulation:
    """What to expect of each kind of candidate."""
    if sample is None:
        return _on_synthetic_people(replace(question, labels=None), progress)
    if sample.n_items != question.n_items or not sample.bound <= question.bound:
        raise ValueError(
            f"sample has {sample.n_items} items and values up to {sample.bound:g}; the question is about"
            f" {question.n_items} items and values up to {question.bound:g}"
        )
    return _compared(replace(question, labels=None), sample, progress)


@lru_cache(maxsize=64)
def _on_synthetic_people(question: ItemQuestion, progress: bool) -> Simulation:
    found = _compared(question, None, progress)
    if question.feedback == "bandit":
        slots = _compared(replace(question, feedback="slots"), None, progress)
        more = slots.shares[slots.best]
        if more.share > found.shares[found.best].share + _ALIKE:
            found = replace(found, slots=more)
    return found


def _compared(question: ItemQuestion, sample: Population | None, progress: bool) -> Simulation:
    """Simulate every kind of candidate on a few streams, and the best of each learner on more if time allows.

    The chosen one is among the best two or three on the few streams.
    """
    size = Size.of(question.rounds, question.n_items, question.k)
    if sample is not None or isinstance(question.sets, Constraint):
        size = replace(size, n_items=question.n_items, k=question.k)
    small = question.at_size(size)
    more: dict[str, Any] = {"items": question.cap, "bound": question.bound, "sample": sample}
    few = crowds(size, small.constraint, **more)
    kinds = _worth_trying(small)
    tried = {one.kind: _served(small, one, few) for one in track(kinds, "simulating", progress, after=2.0)}

    def shares() -> Shares:
        return {kind: [share_after(run, question.rounds) for run in runs] for kind, runs in tried.items()}

    own = {one.kind: one for one in _kinds(question.candidates())}  # with certificates at full size
    rivals = [own[one.kind] for one in kinds if one.kind in own]
    found = shares()
    first = _best_kind(question, rivals, found)
    most: dict[str, tuple[Any, ...]] = {}  # the best of each learner
    for kind in sorted(tried, key=lambda kind: sum(found[kind]), reverse=True):
        most.setdefault(kind[0], kind)
    finals = {first, *list(most.values())[:2]}
    last = [one for one in kinds if one.kind in finals]
    slowest = max(_seconds(one, small) for one in last)
    count = min(len(CATALOGUES), max(FEWEST, int(_SECONDS / slowest)))
    others = crowds(size, small.constraint, count, first=FEWEST, **more)
    # The best of each learner on the same streams, so that their shares can be compared.
    shown = [one for one in kinds if one.kind in {first, *most.values()}]
    for one in track(shown, "simulating", progress, after=2.0):
        tried[one.kind] += _served(small, one, others, FEWEST)
    found = shares()
    best = _best_kind(question, [own[one.kind] for one in last], found)
    one = next(one for one in kinds if one.kind == best)
    chances = [crowd.at_random for crowd in few + others]
    needed = people_needed(tried[best], chances)
    if needed is None:
        needed = _people_needed(small, one, more)
    expected = {one.kind: Expected.of(found[one.kind]) for one in shown}
    return Simulation(expected, best, Expected.of(chances), count, size.rounds, needed)


def _worth_trying(question: ItemQuestion) -> list[Candidate]:
    """One candidate of each kind, without slow ones that have no guarantee."""
    kinds, (_, chance) = _kinds(question.candidates()), question.without_learning
    quick = [one for one in kinds if one.name not in _RESAMPLING or _seconds(one, question) < _SLOW]
    sure = [one for one in kinds if one.certified < min(chance, _WORTH * question.trivial)]
    return [one for one in kinds if one in quick or one in sure] or kinds


def _best_kind(question: ItemQuestion, kinds: Sequence[Candidate], shares: Shares) -> tuple[Any, ...]:
    """The kind that serves most; of those that serve about as much, the best certified, or the first.

    For adversarial streams, one with a useful certificate is preferred, unless it serves much less. About as
    much: the mean difference over streams is within two standard errors and a tenth of what is served, or
    below `_ALIKE`.
    """

    def served(one: Candidate) -> float:
        return float(np.mean(shares[one.kind]))

    def behind(one: Candidate) -> bool:
        less = [most - own for most, own in zip(shares[top.kind], shares[one.kind], strict=False)]
        errors = 2.0 * float(np.std(less, ddof=1)) / math.sqrt(len(less))
        return float(np.mean(less)) > max(_ALIKE, min(errors, _FAR * served(top)))

    top, worth = max(kinds, key=served), _WORTH * question.trivial
    sure = [one for one in kinds if one.certified < worth]
    if question.stream == "adversarial" and sure:
        best = max(sure, key=served)
        if served(best) >= _KEPT * served(top):
            return best.kind
    alike = [one for one in kinds if not behind(one)]
    sure = [one for one in alike if one.certified < worth]
    return min(sure, key=lambda one: one.certified).kind if sure else alike[0].kind


def _served(
    question: ItemQuestion, one: Candidate, crowds: Sequence[Crowd], first: int = 0
) -> list[NDArray[np.float64]]:
    """What a candidate serves to each crowd; ``first`` is the number of the first crowd."""
    make, visits = partial(question.build, _resampled(one, question)), question.visits(question.rounds)
    return [served(make, crowd, first + run, visits) for run, crowd in enumerate(crowds)]


def _people_needed(question: ItemQuestion, one: Candidate, more: dict[str, Any]) -> int | None:
    """As `people_needed`, for a candidate, on longer streams."""
    rounds = question.rounds
    while (rounds := 4 * rounds) <= _LAST_PEOPLE:
        longer = question.at_size(Size(rounds, question.n_items, question.k))
        size = Size(rounds, question.n_items, question.k)
        crowd = crowds(size, longer.constraint, FEWEST, **more)[-1:]
        like = next(other for other in _kinds(longer.candidates()) if other.kind == one.kind)
        needed = people_needed(_served(longer, like, crowd), [crowd[0].at_random])
        if needed is not None:
            return needed
    return None


def _kinds(candidates: Iterable[Candidate]) -> list[Candidate]:
    """One candidate of each kind: the one with the smallest bound."""
    found: dict[tuple[Any, ...], Candidate] = {}
    for one in candidates:
        best = found.get(one.kind)
        if best is None or one.formula < best.formula:
            found[one.kind] = one
    return list(found.values())


def _sets(question: ItemQuestion) -> int:
    """The most sets that are drawn in a simulated stream."""
    return min(_MOST_SETS, max(_FEWEST_SETS, int(0.05 / (NUMBER * question.n_items * question.k))))


def _seconds(one: Candidate, question: ItemQuestion) -> float:
    """About how many seconds a simulated stream takes."""
    n, k, rounds = question.n_items, question.k, question.rounds
    rolling = 0.3 * math.sqrt(rounds) * k * n
    numbers = {
        "RollingSelector": rolling,
        "BestOfBothSelector": rolling,
        "BanditSelector": 0.12 * rounds * n,
        "ThompsonSelector": 0.02 * rounds * n,
    }
    many = _sets(question) * k * n if one.name in _RESAMPLING else 0.0
    return NUMBER * (numbers.get(one.name, 0.0) + many) + 5e-6 * rounds


def _resampled(one: Candidate, question: ItemQuestion) -> Candidate:
    """The candidate with fewer new sets, if it might draw more than `_sets`."""
    least = max(1, question.rounds // _sets(question))
    every = one.settings.get("resample_every", 1)
    if one.name not in _RESAMPLING or (every != "auto" and every >= least):
        return one
    settings = one.settings | {"resample_every": least}
    if "min_separation" in settings:
        settings |= question.apart(least)
    return replace(one, settings=settings)
