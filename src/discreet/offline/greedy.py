"""The common base of offline selectors, and greedy picks by the exponential mechanism."""

from __future__ import annotations

import math
import re
import threading
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import exp, log
from operator import itemgetter
from typing import Any, NamedTuple, NoReturn, get_args

import numpy as np
from numpy.typing import NDArray

from ..bounds import charged_costs
from ..bounds import greedy as greedy_bounds
from ..bounds.charged_costs import ChargedCosts, costs_of
from ..constraints import Cardinality, Constraint, Matroid
from ..constraints.base import Items, item_set
from ..constraints.residual import rest_of
from ..core import checks
from ..core.guards import Turns, fixed, settle
from ..core.names import item_numbers, listed
from ..core.options import GreedyMethod
from ..core.text import at_most, track
from ..objectives import Mixture, MutualInformation, Population, SetFunction, answers
from ..objectives.fixed_point import FixedPointGains, row_parts, step
from ..privacy import (
    Account,
    Budget,
    BudgetExceeded,
    Event,
    ExponentialChoice,
    Gate,
    GaussianNoise,
    LaplaceNoise,
    Release,
    ScoreChange,
    Seed,
    Share,
    spend_from,
)
from ..privacy import picks as accounts
from ..privacy.account import event_loss, filter_of
from ..privacy.accountant import Spending
from ..privacy.conversions import exact
from ..privacy.events import Loss
from ..privacy.picks import ExactChoices, Picks, decomposable_delta
from ..results import Selection

Floats = NDArray[np.float64]


class Allowance:
    """What may be spent on one choice (``share``), its ``gate``, and what has been spent.

    A `Budget` is spent entirely, at a gate of its own. A `Share` (``budget.split``, ``gate.split``) and what
    is left of a `Gate` are spent in the privacy definition that the gate keeps to: each release is calibrated
    to fit ``share`` in that definition, and is refused here if it does not. Several allowances from shares of
    one budget, or from one gate, together stay within that budget, about the same people.
    """

    def __init__(self, budget: Spending, seed: Seed = None) -> None:
        self.share = share = spend_from(budget, seed)
        assert share.gate is not None
        self.gate: Gate = share.gate
        # A gate made here, for a full budget, has no other users.
        self.alone = share.whole and not isinstance(budget, Gate) and getattr(budget, "gate", None) is None
        self._lost, self._lock = Loss(), threading.Lock()

    @property
    def account(self) -> Account:
        """The account of the gate: in the best of all definitions if the gate was made for this choice.

        All releases then follow one plan. Otherwise it is in the gate's definition, as other releases there
        may depend on these answers.
        """
        return replace(self.gate.spent, definition=None) if self.alone else self.gate.spent

    def expect(self, *releases: tuple[Event, int], charged: bool = False) -> None:
        """Refuse (event, count) releases that do not fit the share or the gate, before any is made.

        ``charged``: there is a single one, charged right after this; the gate then checks it itself.
        """
        with self._lock:  # of two threads with one share the second one finds what the first has spent
            share, lost = self.share, self._lost
            definition = share.definition
            if definition is None and share.fraction < 1:
                definition = self.gate.definition
            if definition is not None and share.private:
                limit = filter_of(share.budget, definition).part(share.fraction)
                for event, count in releases:
                    lost += event_loss(event) * count
                    if not limit.fits(lost):
                        refused = replace(self.gate.preview(event, count), fits=False, largest=None)
                        refusal = BudgetExceeded(refused)
                        refusal.add_note("The share given for this is spent; the gate's others are not.")
                        raise refusal
            if not charged:
                self.gate.expect(*releases)
            self._lost = lost

    def __str__(self) -> str:
        part = self.share.fraction
        return ("" if part == 1 else f"{float(part):.3g} of ") + f"epsilon={self.share.budget.epsilon:g}"


@dataclass(frozen=True)
class Residual:
    """A choice that starts from public items: ``included`` are in, ``free`` may be added, all others are out.

    ``constraint`` is about the free items, renumbered from 0: it allows the sets that the full constraint
    allows on top of ``included``. None if nothing can be added.
    """

    n_items: int
    included: Items
    free: Items
    constraint: Constraint | None

    @classmethod
    def of(
        cls,
        constraint: Constraint,
        include: Sequence[int] = (),
        exclude: Sequence[int] = (),
        labels: Sequence[Any] | None = None,
    ) -> Residual:
        """The residual of ``constraint``, which must know its number of items; ``labels`` are for errors.

        >>> left = Residual.of(Cardinality(3, n_items=6), include=[4], exclude=[0, 1])
        >>> left.constraint, left.free.tolist(), left.items([2, 0])
        (Cardinality(2, n_items=3), [2, 3, 5], [4, 5, 2])
        """
        size = constraint.n_items
        assert size is not None
        if not len(include) and not len(exclude):
            return cls(size, np.zeros(0, dtype=np.intp), np.arange(size), constraint)

        def named(items: Iterable[int]) -> str:
            shown = [str(item) if labels is None else repr(labels[item]) for item in items]
            return ", ".join(shown[:5]) + (", ..." if len(shown) > 5 else "")

        included = item_set("include", list(dict.fromkeys(include)), size)
        excluded = item_set("exclude", list(dict.fromkeys(exclude)), size)
        both = np.intersect1d(included, excluded)
        if both.size:
            raise ValueError(
                f"include and exclude both hold {named(both)}; an item is in one of them at most"
            )
        if not constraint.contains(included):
            raise ValueError(
                f"include holds {named(included)}, which {constraint!r} does not allow together; include"
                " fewer items, or allow more"
            )
        open_items = constraint.addable(included)
        if not open_items.any() and not included.size:
            raise ValueError(f"{constraint!r} allows no item at all; there is nothing to choose")
        open_items[excluded] = False
        free = np.flatnonzero(open_items)
        if not free.size and not included.size:
            raise ValueError(f"exclude leaves no item that {constraint!r} allows; there is nothing to choose")
        return cls(size, included, free, rest_of(constraint, included, free) if free.size else None)

    @property
    def whole(self) -> bool:
        """Whether the choice is among all items, starting from the empty set."""
        return self.free.size == self.n_items

    @property
    def forced(self) -> bool:
        """Whether there is nothing to choose: no item can be added, or all of them together."""
        left = self.constraint
        size = self.free.size
        return left is None or (left.rank >= size and left.contains(np.arange(size)))

    def items(self, chosen: Iterable[int]) -> list[int]:
        """Items in the full numbering: the included ones, then the chosen free ones."""
        return [*self.included.tolist(), *self.free[list(chosen)].tolist()]

    def point(self, x: Floats) -> Floats:
        """A point of the free items, extended to all items: 1 where included, 0 where excluded."""
        if self.whole:
            return x
        point = np.zeros(self.n_items)
        point[self.included] = 1.0
        point[self.free] = x
        return point


@fixed
class OfflineSelector:
    """One selection under a constraint, paid from a `Budget`, a share of one, or a gate: an `Allowance`.

    ``include`` and ``exclude``: items that are in the set from the start, and items that cannot be chosen, by
    label or by number (`Population.item_numbers`). Both must be public: facts about a catalogue, such as what
    is sold out, never about the people. Included items count towards the constraint and come first in the
    selection; other items are scored on top of them; and only picks that are made are paid for. If fewer
    items are left than the constraint allows, all of them are taken, and nothing is spent. Methods that need
    no people (``certified_loss``, ``plan``) accept item numbers, and labels only under a `Cardinality`, where
    it does not matter which items they are.

    ``candidates``: the items that can be chosen, public like the others (a catalogue's own order, last
    month's releases, facts about the items); all others are out. Noise then decides among these alone: with
    m of n items the loss of a pick to noise falls from a multiple of ln(n) to one of ln(m).
    """

    constraint: Constraint
    bound: float
    sensitivity: float | None
    max_people: int | None
    include: tuple[Any, ...]
    exclude: tuple[Any, ...]
    candidates: tuple[Any, ...] | None
    _allowance: Allowance
    _turns: Turns
    _residual: Residual | None = None  # set by a selection, which knows the labels

    def __init__(
        self,
        constraint: Constraint | int,
        budget: Spending | Allowance,
        seed: Seed,
        *,
        bound: float,
        sensitivity: float | None,
        max_people: int | None,
        given: Mapping[str, Any],
    ) -> None:
        if isinstance(constraint, int | float | np.number):
            constraint = Cardinality(checks.whole("k", constraint, at_least=1))
        if not isinstance(constraint, Constraint):
            raise TypeError(
                f"constraint must be a Constraint such as Cardinality(5), got {checks.shown(constraint)}"
            )
        if sensitivity is not None:
            sensitivity = checks.real("sensitivity", sensitivity, above=0.0)
        if max_people is not None:
            max_people = checks.whole("max_people", max_people, at_least=1)
        settle(
            self,
            constraint=constraint,
            bound=checks.bound(bound),
            sensitivity=sensitivity,
            max_people=max_people,
            include=_given("include", given["include"]),
            exclude=_given("exclude", given["exclude"]),
            candidates=None if given["candidates"] is None else _given("candidates", given["candidates"]),
            _allowance=budget if isinstance(budget, Allowance) else Allowance(budget, seed),
            _turns=Turns("selector"),
        )

    @property
    def budget(self) -> Budget:
        """The budget of which ``share`` is a part."""
        return self._allowance.share.budget

    @property
    def share(self) -> Share:
        """What the selection may spend, and in which privacy definition."""
        return self._allowance.share

    @property
    def privacy(self) -> Account:
        """The account of all releases so far; at a given gate, including those of others."""
        return self._allowance.account

    @property
    def _gate(self) -> Gate:
        return self._allowance.gate

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a selector is not copied or pickled, or its budget could be spent twice; make a new one"
        )

    def _over(self, n_items: int | None) -> Residual:
        """The residual before people are known."""
        size = self.constraint.n_items if n_items is None else n_items
        if size is None:
            raise ValueError(f"{self.constraint!r} does not know its ground set; give n_items")
        constraint = self.constraint.over(checks.whole("n_items", size, at_least=1))
        known = self._residual
        if known is not None and known.n_items == size:
            return known
        if not isinstance(constraint, Cardinality):
            inside = item_numbers("include", self.include, size)
            outside = [*item_numbers("exclude", self.exclude, size), *self._no_candidates(size, inside)]
            return Residual.of(constraint, inside, outside)
        # Under a cardinality constraint only their number matters, and labels are not known yet.
        given = (*self.include, *self.exclude)
        if len(given) > size:
            raise ValueError(f"include and exclude hold {len(given)} items; there are n_items={size}")
        first = len(self.include)
        out = len(given)
        if self.candidates is not None:
            out = size - len({*self.candidates} - {*given})
        return Residual.of(constraint, range(first), range(first, out), given)

    def _no_candidates(
        self, size: int, inside: Sequence[int], labels: Sequence[Any] | None = None, *, public: bool = True
    ) -> Iterable[int]:
        """The items that are neither candidates nor included."""
        if self.candidates is None:
            return ()
        found = item_numbers("candidates", self.candidates, size, labels, public=public)
        out: list[int] = np.setdiff1d(np.arange(size), [*found, *inside]).tolist()
        return out

    def _left(self, people: Population, include: Any, exclude: Any) -> Residual:
        """The residual for these people."""
        if not isinstance(people, Population):
            raise TypeError(
                f"people must be a population, e.g. objectives.Coverage(matrix), got {type(people).__name__};"
                " objectives.SetFunction makes one of any function"
            )
        known = people.catalogue != "from data"
        included: list[int] = []
        excluded: list[int] = []
        named = [("include", self.include, included), ("exclude", self.exclude, excluded)]
        if include is not None:
            named.append(("include", _given("include", include), included))
        if exclude is not None:
            named.append(("exclude", _given("exclude", exclude), excluded))
        for argument, given, found in named:
            if given:
                found += item_numbers(argument, given, people.n_items, people.labels, public=known)
        if self.candidates is not None:
            excluded += self._no_candidates(people.n_items, included, people.labels, public=known)
        return Residual.of(self.constraint.over(people.n_items), included, excluded, people.labels)

    def _check_count(self, people: Population) -> None:
        if self.max_people is not None and len(people) > self.max_people:
            raise ValueError(
                f"there are more people than max_people={self.max_people}; declare a larger public number"
            )

    def _noisy(self, values: Floats, noise: Event, label: str, changed: int | None = None) -> Floats:
        """``values`` with the noise of ``noise``, released and charged under ``label``."""
        gate = self._gate
        if isinstance(noise, GaussianNoise):
            found = gate.gaussian(values, noise.sigma, noise.sensitivity, changed=changed, label=label)
        else:
            assert isinstance(noise, LaplaceNoise)
            found = gate.laplace(values, noise.scale, noise.sensitivity, changed=changed, label=label)
        return np.asarray(found, dtype=np.float64)

    def _selection(self, people: Population, left: Residual, picks: Iterable[int], **more: Any) -> Selection:
        chosen = tuple(left.items(picks))
        labels = None if people.labels is None else tuple(people.labels[item] for item in chosen)
        given = tuple(left.included.tolist())
        return Selection(chosen, labels=labels, privacy=self.privacy, included=given, **more)


def least_epsilon(enough: Callable[[Share], bool], share: Share) -> float:
    """The least epsilon, at least that of ``share`` and to three digits, at which ``enough`` holds."""

    def reached(epsilon: float) -> bool:
        return enough(replace(share, budget=replace(share.budget, epsilon=epsilon)))

    low = high = share.budget.epsilon
    while not reached(high):
        low, high = high, 2.0 * high
        if high > 1e9:
            return math.inf
    while high - low > 1e-3 * low:
        middle = (low + high) / 2.0
        low, high = (low, middle) if reached(middle) else (middle, high)
    return float(at_most(high, 3))


def _given(argument: str, items: Any) -> tuple[Any, ...]:
    """Items as given; for a selection its labels, or its numbers if it has none."""
    if items is None:
        return ()
    if isinstance(items, Selection):
        items = items.items if items.labels is None else items.labels
    return tuple(dict.fromkeys(listed(argument, items)))


METHODS: tuple[GreedyMethod, ...] = get_args(GreedyMethod)[1:]  # without "auto"
# The methods that "auto" compares: the exact composition takes up to seconds for thousands of picks.
_QUICK = METHODS[:4]
# If cost-benefit picks have an account of their own: the part of a share for the best single item and for the
# choice between the two.
_ENDS = Fraction(1, 2)


@dataclass(frozen=True)
class GreedyPlan:
    """Picks at one rate, the choices after them, the noise of gains, and the reason for the method."""

    picks: Picks
    ends: Picks | None
    gains: Event | None
    reason: str = ""

    @property
    def method(self) -> str:
        return self.picks.method


def plan_with(problem: SelectionProblem, share: Share, method: str, gains_fraction: Fraction) -> GreedyPlan:
    """The plan by one method; ValueError, with the reason, if its account does not apply.

    ``gains_fraction`` of the share is for releasing the picks' gains.
    """
    count = max(1, problem.picks + problem.ends)
    if not share.private:
        picks = Picks("none", math.inf, LaplaceNoise(problem.width, 0.0), count)
        bare = LaplaceNoise(problem.moved[0], 0.0) if gains_fraction else None
        return GreedyPlan(picks, picks if problem.ends else None, bare)
    for_picks = share.part(1 - gains_fraction) if gains_fraction else share
    ends: Picks | None
    if method in ("basic", "zcdp", "exact"):
        composed = {"basic": accounts.basic, "zcdp": accounts.zcdp, "exact": accounts.exactly}
        picks = composed[method](for_picks, problem.width, count)
        ends = picks if problem.ends else None
    else:
        if problem.apart is not None:
            raise ValueError(problem.apart)
        part = for_picks.part(1 - _ENDS) if problem.ends else for_picks
        account_of_sums = accounts.decomposable if method == "decomposable" else accounts.subsampled
        picks = account_of_sums(part, problem.bound)
        ends = accounts.basic(for_picks.part(_ENDS), problem.width, 2) if problem.ends else None
    noise = _gains_noise(problem, share, picks, gains_fraction) if gains_fraction else None
    return GreedyPlan(picks, ends, noise)


def choose_plan(problem: SelectionProblem, share: Share, method: str, gains_fraction: Fraction) -> GreedyPlan:
    """The plan by ``method``; for ``"auto"`` the one whose draws lose least: see `draws_loss`.

    For draws of one kind that is the plan with the largest average rate. The loss from sampling itself is
    left out of the comparison: its certificate is for the worst case over all sets, and on real data it is
    small compared with the advantage of a larger rate.
    """
    if method != "auto" or not share.private:
        plan = plan_with(problem, share, "basic" if method == "auto" else method, gains_fraction)
        return replace(plan, reason="asked for" if share.private else "no privacy was asked for")
    plans: list[tuple[float, GreedyPlan]] = []
    notes = []
    for name in _QUICK:
        try:
            plan = plan_with(problem, share, name, gains_fraction)
        except ValueError as error:
            notes.append(f"{name}: {error}")
            continue
        temperature = plan.picks.temperature
        alike = problem.costs is None and problem.picks  # then the loss falls with the temperature
        lost = -temperature if alike else draws_loss(problem, plan.picks, plan.ends)
        plans.append((lost, plan))
        sample = "" if plan.picks.keep is None else f" (a sample of {plan.picks.chance:.3g} of the people)"
        notes.append(f"{name}: {temperature:.4g}{sample}")
    _, best = min(plans, key=itemgetter(0))
    reason = "least lost by the draws; average rates: " + "; ".join(notes)
    return replace(best, reason=reason)


def _costs(constraint: Constraint) -> ChargedCosts | None:
    """The weights of a knapsack within a constraint; a matroid has none."""
    return None if isinstance(constraint, Matroid) else costs_of(constraint)


def ratio(constraint: Constraint, costs: ChargedCosts | None) -> float | None:
    """The approximation ratio of greedy under ``constraint``; None if not known."""
    if costs is not None:
        return costs.ratio
    if isinstance(constraint, Cardinality):
        return greedy_bounds.ALPHA
    p = _extendible(constraint)
    return None if p is None else 1.0 / (p + 1)


def utility_loss(problem: SelectionProblem, picks: Picks, ends: Picks | None) -> float:
    """Bound on `ratio` x OPT - E f(S); f sums over people, and E is over the draws. See `bounds.greedy`.

    ``problem.n_people`` must be known: the bound grows with it. If ``picks`` use a sample (``keep`` is not
    None), the loss from sampling is added. ``ends`` are the draws that follow the picks under a knapsack: the
    best single item, and the choice between it and the set; None if there are none.
    """
    n_people = problem.n_people
    assert n_people is not None
    total = draws_loss(problem, picks, ends)
    if picks.keep is not None:
        total += greedy_bounds.sampling_loss(
            problem.n_items, problem.picks, n_people, picks.chance, problem.bound
        )
    # Under a knapsack scores are gains x smallest / charged cost: rounding of a score is charged cost /
    # smallest times as large in the gain, and `costs.most` times for all picks of a set together.
    times = problem.picks if problem.costs is None else max(problem.picks, math.ceil(problem.costs.most))
    return total + greedy_bounds.rounding(times, n_people, problem.unit)


def draws_loss(problem: SelectionProblem, picks: Picks, ends: Picks | None) -> float:
    """The part of `utility_loss` that comes from random draws instead of taking the best.

    Plans are compared by it even if no bound is claimed: an unknown number of people then counts as 1, and
    constraints without a known ratio as matroids.
    """
    n, k, temperature, n_people = problem.n_items, problem.picks, picks.temperature, problem.n_people or 1
    if k == 0:
        return 0.0
    if problem.costs is not None:
        last = temperature if ends is None else ends.rate
        return greedy_bounds.knapsack_loss(problem.costs, n, k, temperature, last, n_people, problem.bound)
    if isinstance(problem.constraint, Cardinality):
        return greedy_bounds.cardinality_loss(n, k, temperature)
    return greedy_bounds.extendible_loss(n, k, temperature, _extendible(problem.constraint) or 1)


def chance_of_a_favourite(problem: SelectionProblem, plan: GreedyPlan) -> float | None:
    """The probability that the first pick takes an item valued fully by all over others valued by nobody."""
    if problem.gap is None or problem.n_items < 2:
        return None
    odds = math.exp(-min(700.0, plan.picks.temperature * problem.gap))
    return 1.0 / (1.0 + (problem.n_items - 1) * odds)


def _extendible(constraint: Constraint) -> int | None:
    found = 1 if isinstance(constraint, Matroid) else getattr(constraint, "extendible", None)
    return found if isinstance(found, int) else None


def _gains_noise(problem: SelectionProblem, share: Share, picks: Picks, gains_fraction: Fraction) -> Event:
    """Noise for the gains of the picks, in the privacy definition that the picks are paid in."""
    part, (l1, l2) = share.part(gains_fraction), problem.moved
    if share.definition is None:
        spent = event_loss(picks.event) * picks.count
        assert spent.pure is not None
        # If the picks exceed pure epsilon, they are charged in zCDP, and so is the noise.
        concentrated = spent.pure > share.part(1 - gains_fraction).epsilon
        return (
            GaussianNoise.within(part, l2, definition="zcdp")
            if concentrated
            else LaplaceNoise.within(part, l1, definition="pure")
        )
    return LaplaceNoise.within(part, l1) if share.definition == "pure" else GaussianNoise.within(part, l2)


_DECIMALS = re.compile(r"\d+(?:\.\d+(?:e[-+]?\d+)?|e[-+]?\d+)")


class Step(NamedTuple):
    """A quantity, its formula (numbers, + - * / **, exp, log and sqrt), and its value."""

    what: str
    how: str
    value: float

    def __str__(self) -> str:
        """For readers: six digits of every number; ``how`` has all digits."""
        value = f"{self.value:.6g}"
        how = _DECIMALS.sub(lambda found: f"{float(found[0]):.6g}", self.how)
        return f"{self.what}: {value}" if how == value else f"{self.what}: {how} = {value}"


def steps(plan: GreedyPlan, budget: Budget, bound: float) -> list[Step]:
    """The calculation of the loss of a plan's picks; other releases are listed in the account.

    Every number has enough digits to be recomputed. The proofs are those of the functions in `privacy.picks`;
    the account is the same, with rounding included.
    """
    picks, replaced = plan.picks, budget.neighbours == "replace"
    if not budget.private:
        return []
    if isinstance(picks.event, ExponentialChoice):
        return _choices(picks, picks.event.range, picks.count, budget, bound)
    if isinstance(picks.event, ExactChoices):
        found = _choices(picks, picks.event.range, picks.event.number, budget, bound)[:2]
        exactly = float(picks.event.loss().pure or 0)
        return [
            *found,
            Step(f"epsilon of {picks.event.number} such picks, composed exactly", f"{exactly!r}", exactly),
        ]
    found = [
        Step("the most that one person adds to the scores of all picks together", f"{bound!r}", bound),
    ]
    weight = picks.rate * bound
    found.append(Step("rate x that", f"{picks.rate!r} * {bound!r}", weight))
    return found + (_sampled(picks, weight, replaced) if picks.keep is not None else _sums(weight, budget))


def _choices(picks: Picks, width: float, count: int, budget: Budget, bound: float) -> list[Step]:
    each, epsilon = picks.rate * width, budget.epsilon
    pure = each * count
    apart = f"{width / bound!r} * {bound!r}"
    found = [
        Step("how far one person pushes two scores apart", apart, width),
        Step("a pick's loss lies in an interval as long as rate x that", f"{picks.rate!r} * {width!r}", each),
        Step(f"epsilon of {count} picks, added up", f"{count} * {each!r}", pure),
    ]
    if budget.delta and pure > epsilon * (1 + 1e-9):
        rho = count * each**2 / 8
        found.append(Step("rho of all picks (zCDP)", f"{count} * {each!r}**2 / 8", rho))
        found.append(
            Step(
                f"epsilon of that rho at delta {budget.delta:g}, at most (the account is smaller)",
                f"{rho!r} + 2 * sqrt({rho!r} * log(1 / {budget.delta!r}))",
                rho + 2 * (rho * log(1 / budget.delta)) ** 0.5,
            )
        )
    return found


def _sampled(picks: Picks, weight: float, replaced: bool) -> list[Step]:
    chance, e = picks.chance, exp(weight)
    among = 1 - chance + chance * e
    found = [
        Step("chance that somebody is in the secret sample", f"{chance!r}", chance),
        Step("then a run is at most this much likelier", f"exp({weight!r})", e),
        Step("so with them among the people", f"1 - {chance!r} + {chance!r} * {e!r}", among),
        Step("without them: they may be left out", f"1 / (1 - {chance!r})", 1 / (1 - chance)),
    ]
    times = "2 * " if replaced else ""
    name = "epsilon, by way of the run without both" if replaced else "epsilon"
    return [*found, Step(name, f"{times}log({among!r})", (2 if replaced else 1) * log(among))]


def _sums(weight: float, budget: Budget) -> list[Step]:
    c, epsilon = exp(weight) - 1, budget.epsilon
    tail = f"{c!r} / (1 + {c!r}) * exp(1 - {epsilon!r} / {c!r})"
    if budget.neighbours == "replace":
        tail = f"{c!r} / (1 + {c!r}) * exp({weight!r} + 1 - ({epsilon!r} - {weight!r}) / {c!r})"
    return [
        Step("c = e^(that) - 1", f"exp({weight!r}) - 1", c),
        Step(
            f"chance of a loss above epsilon {epsilon:g}: delta, at most",
            tail,
            decomposable_delta(weight, epsilon, budget.neighbours),
        ),
    ]


# If the number of people is private, exact sums are sized for this many by default.
MOST_PEOPLE = 1 << 24
_ROOT_TWO = math.sqrt(2.0) * (1.0 + 2.0**-50)
# For the rounding of the sensitivity itself; that of values is included in it.
_ROUNDED = 1.0 + 2.0**-30


@dataclass(frozen=True)
class SelectionProblem:
    """A choice in public terms: from the items that are ``left``, on top of the included ones.

    ``constraint`` and ``n_items`` are about the items that are left. ``width`` is how far one person can
    change the difference of two scores, ``gap`` the largest possible difference (None if the number of people
    is not public). ``apart`` is the reason why accounts of sums over people do not apply (None: they do).
    ``unit`` is the step of exact sums, 0 for averages. ``moved`` is how far one person moves the gains of all
    picks together, in L1 and L2.
    """

    left: Residual
    constraint: Constraint
    n_items: int
    bound: float
    width: float
    n_people: int | None
    gap: float | None
    apart: str | None
    unit: float
    costs: ChargedCosts | None
    moved: tuple[float, float]

    @cached_property
    def picks(self) -> int:
        """The most picks that can depend on data: taking the last of all items is not a choice."""
        return min(self.constraint.rank, self.n_items - 1)

    @cached_property
    def ends(self) -> int:
        """Choices after the picks: the best single item, and between it and the picks."""
        return 2 if self.costs is not None and self.costs.large.size else 0

    def scores(self, people: Population) -> Scores:
        """The growing set before the picks, over ``people``, who may be a sample."""
        whole: Scores = FixedPointGains.over(people, self.bound, self.unit) if self.unit else Averages(people)
        return whole if self.left.whole else OnTop(whole, self.left)


def _of_averages(people: Population, neighbours: str, picks: int) -> tuple[float, float, tuple[float, float]]:
    """For a population's own average gains."""
    each = people.sensitivity(neighbours, "value" if people.monotone else "coordinate")
    moved = (2.0 * each, _ROOT_TWO * each) if people.monotone else _of_each(each, picks)
    return people.sensitivity(neighbours, "range"), people.bound, moved


def _of_each(each: float, picks: int) -> tuple[float, float]:
    """How far all picks' gains move together, in L1 and L2, if each moves by ``each``."""
    return picks * each, math.sqrt(picks) * each


class Averages:
    """A population's own average gains, computed again after each addition, when needed.

    `Population.sensitivity` is about these numbers as computed.
    """

    def __init__(self, people: Population) -> None:
        self._people = people
        self.items: list[int] = []
        self._now: Floats | None = None

    def scores(self) -> Floats:
        if self._now is None:
            self._now = answers.vector("gains", self._people.gains(list(self.items)), self._people.n_items)
        return self._now

    def add(self, item: int) -> float:
        score = float(self.scores()[item])
        self.items.append(item)
        self._now = None
        return score


class OnTop:
    """Scores of the items that are left, on top of the included ones."""

    def __init__(self, scores: Scores, left: Residual) -> None:
        self._scores, self._free = scores, left.free
        for item in left.included.tolist():
            scores.add(item)
        self.items: list[int] = []

    def scores(self) -> Floats:
        return self._scores.scores()[self._free]

    def add(self, item: int) -> float:
        self.items.append(item)
        return self._scores.add(int(self._free[item]))


# A growing set and the score of every item on top of it.
Scores = FixedPointGains | Averages | OnTop


def addable(constraint: Constraint, n_items: int, chosen: list[int]) -> NDArray[np.intp]:
    """The items that fit on top of the chosen ones."""
    if isinstance(constraint, Cardinality):  # faster than testing every item
        return np.setdiff1d(np.arange(n_items), chosen, assume_unique=True)
    return np.flatnonzero(constraint.addable(np.array(chosen, dtype=np.intp)))


class PrivateGreedy(OfflineSelector):
    """Items picked one after another, by the exponential mechanism on their marginal gains.

    ``constraint``: a `Constraint`, or k for at most k items. Under a knapsack, alone or in an intersection,
    gains are weighed against costs (`bounds.charged_costs`). For a knapsack alone or with a `Cardinality`, if
    some item costs more than half the capacity, the best such item is picked as well and a last private
    choice is made between it and the picks, as the utility guarantee requires.

    ``select(people)`` takes a population. Scores are sums over its people, each person's part rounded down
    to a public step and clipped to [0, ``bound``]: exact, and never divided by the number of people. With
    ``sensitivity`` the objective is one function of everybody's data instead, and one person can move the
    value of any set by at most that; `MutualInformation` and mixtures of unlike populations know their own.

    ``method`` is the account of the picks (`privacy.picks`):

    - ``"basic"``: epsilon shared equally among the picks.
    - ``"zcdp"``: privacy losses of bounded range, composed in zCDP; needs a delta.
    - ``"decomposable"``: charged by one person's total gain over all picks, whatever their number.
      Monotone sums over people only; needs a delta.
    - ``"subsampled"``: picks on a secret sample of the people, by permute-and-flip instead of exponential
      weights. Monotone sums over people only; pure epsilon, and the number of picks does not matter.
    - ``"exact"``: all picks declared together, and charged by their exact composition (`ExactChoices`); needs
      a full budget with a delta, and one row of each person. From five picks on the rate is 7 to 16 % above
      ``"zcdp"`` (at epsilon 1, delta 1e-6), for any objective. Computing it takes a moment (seconds for
      thousands of picks), so ``"auto"`` does not try it.
    - ``"auto"``: of the first four, the one with the largest average rate of people's gains (rate x
      probability of being in the sample; under a knapsack the last two choices count as well).
      ``method_used`` and ``reason`` say which and why. The decision uses public information only.

    ``release_gains``: the share of the budget (for instance 0.2) spent on noisy totals over people of each
    pick's gain (in the objective itself if that is not a sum over people), in ``selection.gains``; without it
    no gains are released. ``max_people``: a public upper bound of the number of people. It matters only under
    ``neighbours="add_remove"``, where that number is private: without it sums are sized for 16 million, and
    there is no warning of a budget that is too small. ``include``, ``exclude`` and ``candidates``: public
    items that are in from the start, that cannot be chosen, and that alone can; see `OfflineSelector`.

    Formal guarantee: everything in the `Selection` is (epsilon, delta)-DP under the budget's neighbours;
    choices are drawn exactly and sums are exact, so this holds for the numbers as computed (a stated
    ``sensitivity`` must allow for rounding). A person may own up to ``budget.max_rounds_per_person`` rows of
    the population; the guarantee is about the person, by group privacy over the rows. One object holds one
    budget: `select` spends all of it, and a second call raises `BudgetExceeded`. If all items are allowed
    together there is nothing to choose, and nothing is spent. ``budget`` may also be a share
    (``budget.split``, ``gate.split``), or a `Gate`, for instance one that has chosen the catalogue
    (`data.private_catalogue`): the picks then take no more than the share, or what the gate has left, in its
    privacy definition, and one account lists all releases through the gate.

    Utility, for monotone submodular objectives: E f(S) >= ratio OPT - certified_loss, with a ratio of 1 - 1/e
    for at most k items, 1/2 for matroids, 1/(p + 1) for p-extendible systems, and that of its charged costs
    for a knapsack, alone or with at most k items. No ratio is known for a knapsack with other limits.

    Gupta, Ligett, McSherry, Roth and Talwar (2010); Mitrovic, Bun, Krause and Karbasi (2017); the discrete
    steps of paper 003. ``epsilon=inf`` is plain greedy, the first of equals.

    >>> import discreet as dc
    >>> from discreet.offline import PrivateGreedy
    >>> baskets = [[1, 0, 0], [1, 1, 0], [0, 0, 1]] * 200
    >>> people = dc.objectives.Coverage(baskets, labels=["tea", "milk", "jam"])
    >>> greedy = PrivateGreedy(2, dc.Budget(1.0), seed=0)
    >>> greedy.select(people)
    Selection(tea, jam)
    >>> greedy.method_used, greedy.privacy.epsilon()
    ('subsampled', 1.0)
    >>> PrivateGreedy(2, dc.Budget(1.0), include=["milk"], exclude=["tea"], seed=0).select(people)
    Selection(milk, jam)
    """

    method: GreedyMethod
    release_gains: float | None
    _gains_fraction: Fraction
    _plan: GreedyPlan | None = None
    _advice = ""  # advice appended to the warning of a budget that is too small

    def __init__(
        self,
        constraint: Constraint | int,
        budget: Spending | Allowance,
        method: GreedyMethod = "auto",
        *,
        bound: float = 1.0,
        sensitivity: float | None = None,
        release_gains: float | None = None,
        max_people: int | None = None,
        include: Any = None,
        exclude: Any = None,
        candidates: Any = None,
        seed: Seed = None,
    ) -> None:
        super().__init__(
            constraint,
            budget,
            seed,
            bound=bound,
            sensitivity=sensitivity,
            max_people=max_people,
            given={"include": include, "exclude": exclude, "candidates": candidates},
        )
        if release_gains is not None:
            release_gains = checks.real("release_gains", release_gains, above=0.0, below=1.0)
        settle(
            self,
            method=checks.one_of("method", method, ("auto", *METHODS)),
            release_gains=release_gains,
            _gains_fraction=exact(release_gains or 0),
        )
        if self.constraint.n_items is not None:
            # A method whose account does not apply is refused before there is any data.
            self._chosen_plan(self._problem(Residual.of(self.constraint), None))

    # --- what is known in advance ----------------------------------------------------------------

    @property
    def method_used(self) -> str | None:
        """The account of the picks; None before `select`."""
        return None if self._plan is None else self._plan.method

    @property
    def reason(self) -> str | None:
        """Why that method; None before `select`."""
        return None if self._plan is None else self._plan.reason

    @property
    def rate(self) -> float | None:
        """Weights of a pick were exp(rate x score), infinite without privacy; None before `select`."""
        return None if self._plan is None else self._plan.picks.rate

    @property
    def ratio(self) -> float | None:
        """The approximation ratio, for monotone submodular functions; None if not known."""
        constraint: Constraint | None = self.constraint
        if self._residual is not None or _costs(self.constraint) is not None:
            constraint = self._over(None if self._residual is None else self._residual.n_items).constraint
        return 1.0 if constraint is None else ratio(constraint, _costs(constraint))

    def plan(self, n_items: int | None = None, n_people: int | None = None) -> GreedyPlan:
        """How a selection would be made and charged: ``plan.method``, ``plan.picks.rate``, ``plan.reason``.

        For a monotone sum over ``n_people`` people (or an objective with a stated ``sensitivity``).
        """
        return self._chosen_plan(self._problem(self._over(n_items), n_people))

    def certified_loss(self, n_people: int, n_items: int | None = None) -> float:
        """Bound on ``ratio`` x OPT - E f(S), for a monotone submodular sum f over this many people.

        The loss from the picks' randomness, a sample, and rounding, in units of the sum over people; see
        `bounds.greedy`. Not limited to the trivial bound, n_people x bound.

        >>> import discreet as dc
        >>> round(PrivateGreedy(5, dc.Budget(1.0, 1e-6), "zcdp").certified_loss(32_710, n_items=285))
        190
        """
        size = checks.whole("n_people", n_people, at_least=1)
        if self.ratio is None:
            raise ValueError(
                f"no guarantee is known for {self.constraint!r}; use matroids, or one knapsack, alone or with"
                " a Cardinality"
            )
        left = self._over(n_items)
        if left.constraint is None:
            return 0.0
        # The plan is the one that `select` would make, for which the number of people may not be public.
        problem = self._problem(left, size)
        plan = self._chosen_plan(problem)
        if not self.budget.private:
            return 0.0
        return utility_loss(replace(problem, n_people=size), plan.picks, plan.ends)

    def picks_above_chance(self, n_people: int, n_items: int | None = None) -> int:
        """About how many picks can be better than chance, from public sizes alone.

        Greedy's gains fall, and sum to at most everybody's bound: the t-th is at most n_people x bound / t.
        The pick counts as long as an item with this gain, among others with gain 0, is drawn with probability
        1/2 or more. Under a knapsack costs are left out.

        >>> import discreet as dc
        >>> PrivateGreedy(50, dc.Budget(1.0)).picks_above_chance(600, n_items=200)
        43
        """
        size, left = checks.whole("n_people", n_people, at_least=1), self._over(n_items)
        if left.constraint is None:
            return 0
        problem = self._problem(left, size)
        needed = math.log(max(1, problem.n_items - 1))
        temperature = self._chosen_plan(problem).picks.temperature
        if not self.budget.private or not needed:
            return problem.picks
        reach = temperature * size * self.bound / needed
        return problem.picks if reach >= problem.picks else int(reach)

    @property
    def arithmetic(self) -> list[Step]:
        """How the guarantee of the picks follows from their rate, step by step."""
        if self._plan is None or not self.budget.private:
            return []
        spent = self.privacy.epsilon()
        last = Step(
            "epsilon in the account, of all that was released, by the tightest conversion",
            f"{spent!r}",
            spent,
        )
        return [*steps(self._plan, self.budget, self.bound), last]

    def _chosen_plan(self, problem: SelectionProblem) -> GreedyPlan:
        return choose_plan(problem, self.share, self.method, self._gains_fraction)

    # --- the selection ---------------------------------------------------------------------------

    def select(
        self, people: Population, *, include: Any = None, exclude: Any = None, progress: bool = False
    ) -> Selection:
        """The chosen items in the order of choice, those of ``include`` before them.

        ``include`` and ``exclude`` add to those the selector was made with. ``progress`` shows the progress.
        """
        with self._turns.take("select()"):
            return self._select(people, self._asked(people, include, exclude), progress)

    def _select(self, people: Population, left: Residual, progress: bool) -> Selection:
        if left.constraint is None:
            self._residual = left
            self._gate.add_caveats(*people.caveats)
            return self._selection(people, left, (), queries=0)
        problem = self._problem(left, None if self._one_way else len(people), people)
        if left.forced:
            chosen, queries = list(range(left.free.size)), 0
            plan = self._chosen_plan(problem) if self._gains_fraction else None
            if plan is not None and plan.gains is not None:
                self._allowance.expect((plan.gains, 1))
        else:
            plan = self._chosen_plan(problem)
            if self._by_average(people, problem, plan):
                problem = self._problem(left, len(people), people, averages=True)
                averaged = plan_with(problem, self.share, plan.method, self._gains_fraction)
                plan = replace(averaged, reason=plan.reason)
            self._warn(problem, plan)
            chosen, queries = self._picked(people, problem, plan, progress)
            self._plan = plan
        self._gate.add_caveats(*people.caveats)
        gains = None
        if plan is not None and plan.gains is not None:
            gains = self._noisy_gains(people, problem, plan, chosen)
        self._residual = left
        return self._selection(people, left, chosen, queries=queries, gains=gains)

    def __repr__(self) -> str:
        budget = self.budget
        delta = f", delta={budget.delta:g}" if budget.delta else ""
        used = "" if self._plan is None else f" -> {self._plan.method!r} at rate {self._plan.picks.rate:.4g}"
        return (
            f"PrivateGreedy({self.constraint!r}, {self._allowance}{delta}, {budget.neighbours!r},"
            f" method={self.method!r}{used})"
        )

    # --- inside ----------------------------------------------------------------------------------

    def _problem(
        self,
        left: Residual,
        size: int | None,
        people: Population | None = None,
        *,
        averages: bool = False,
    ) -> SelectionProblem:
        """The public terms of a choice over ``size`` people, of the population's kind if that is known.

        ``averages``: by the population's own average gains instead of exact sums over people.

        Included items are public and the same for neighbours. So one person's part of a score on top of them
        has the usual bounds: in [0, bound] and, over all picks, at most the bound in sum, for a monotone
        person; and a stated or known sensitivity holds for all sets up to the size of the full one.
        """
        constraint, n_items = left.constraint, int(left.free.size)
        if constraint is None:
            raise ValueError("no item can be added to those of include; there is nothing to choose")
        size = self.max_people if self._one_way else size
        costs = _costs(constraint)
        monotone = people is None or people.monotone
        if costs is not None and not monotone:
            costs = replace(costs, large=costs.large[:0])  # no guarantee needs it here, and values may fall
        picks, weighed = min(constraint.rank, n_items), costs is not None
        exact = self.sensitivity is None and (people is None or (people.sums_over_people and not averages))
        unit, apart = 0.0, None if monotone else "it is for monotone objectives"
        if exact:
            width, gap, moved = self._of_sums(people, size, picks)
            length = self.max_people or (MOST_PEOPLE if size is None else size)
            unit = step(self._most(people), length, charged_costs.BITS if weighed else 0)
        elif people is None or self.sensitivity is not None or not people.sums_over_people:
            sets = picks + int(left.included.size)
            width, gap, moved, why = self._of_one_function(people, picks, sets, weighed)
            apart = apart or why
        else:
            width, gap, moved = _of_averages(people, self.budget.neighbours, picks)
        return SelectionProblem(
            left, constraint, n_items, self.bound, width, size, gap, apart, unit, costs, moved
        )

    @cached_property
    def _one_way(self) -> bool:
        return self.budget.neighbours == "add_remove"

    def _most(self, people: Population | None) -> float:
        """The largest absolute value of one person's part of a score."""
        return self.bound if people is None or people.monotone else max(people.ranges()[2:])

    def _of_sums(
        self, people: Population | None, size: int | None, picks: int
    ) -> tuple[float, float | None, tuple[float, float]]:
        """For exact sums over people, with each person's part in a public range."""
        if people is None or people.monotone:
            width = ScoreChange(self.bound, one_directional=self._one_way).range
            moved = (width, self.bound if self._one_way else _ROOT_TWO * self.bound)
            return width, None if size is None else size * self.bound, moved
        _, _, up, down = people.ranges()
        width = (up + down) * (1.0 if self._one_way else 2.0)
        each = max(up, down) if self._one_way else up + down
        return width, None if size is None else size * (up + down), _of_each(each, picks)

    def _of_one_function(
        self, people: Population | None, picks: int, sets: int, weighed: bool
    ) -> tuple[float, float | None, tuple[float, float], str]:
        """For one function of everybody's data instead of a sum, on sets of up to ``sets`` items."""
        if self.sensitivity is not None:
            each = 2.0 * self.sensitivity
            # The change of f(S) is common to all gains and cancels in differences, unless costs weigh them.
            width = (2.0 if weighed else 1.0) * each
            why = "it is for sums over people, and a sensitivity was stated instead"
            return width, None if people is None else people.bound, _of_each(each, picks), why
        assert people is not None
        # One person's influence on mutual information grows with the number of features.
        options = {"set_size": sets} if isinstance(people, MutualInformation) else {}
        each, width = (
            people.sensitivity(self.budget.neighbours, norm, **options) * _ROUNDED
            for norm in ("coordinate", "range")
        )
        why = f"it is for sums over people, which {type(people).__name__} is not"
        return 2.0 * each if weighed else width, people.bound, _of_each(each, picks), why

    def _asked(self, people: Population, include: Any, exclude: Any) -> Residual:
        """Check everything that can be wrong before anything is spent; returns the residual."""
        left = self._left(people, include, exclude)
        whole = left.constraint if left.whole else None
        if whole is not None and not addable(whole, people.n_items, []).size:
            raise ValueError(f"{whole!r} allows no item at all; there is nothing to choose")
        self._check_count(people)
        if self._one_way and self.max_people is None and len(people) > MOST_PEOPLE:
            raise ValueError(
                f"there are more than {MOST_PEOPLE:,} people; declare a public max_people= that is"
                " large enough"
            )
        if self.sensitivity is None:
            if not people.sums_over_people:
                if self._one_way and self.budget.private:
                    raise ValueError(
                        f"how far one person moves {type(people).__name__} depends on the number of people,"
                        " which is private when people are added or removed; use neighbours='replace', or"
                        " state sensitivity="
                    )
                parts = [part for _, part in people.parts] if isinstance(people, Mixture) else []
                if not all(part.built_in or isinstance(part, MutualInformation) for part in parts):
                    raise ValueError(
                        "in a mixture of unlike populations a function in Python that fails for one person"
                        " would end the selection after the charge; state sensitivity= if none can fail"
                    )
            elif not (reached := people.bound_of(most_items(left))) <= self.bound:
                raise ValueError(
                    f"people reach values of up to {reached:g}, above bound={self.bound:g}; pass"
                    f" bound={reached:g} or rescale"
                )
        if left.constraint is not None:
            people.check_picks(most_items(left))
        if people.row_source() is None:
            answers.vector("gains", people.gains([]), people.n_items)  # fails before anything is spent
        if isinstance(people, SetFunction):
            people.value(
                _maximal_set(left)
            )  # raises if the bound is too small; later, people who exceed it count as 0
        return left

    def _by_average(self, people: Population, problem: SelectionProblem, plan: GreedyPlan) -> bool:
        """Whether to score by the population's own averages instead of exact sums."""
        if plan.method not in ("basic", "zcdp", "exact") or self._one_way:
            return False
        if self.sensitivity is not None or not people.sums_over_people:
            return False  # no exact sums there anyway
        if problem.ends and problem.left.included.size:
            return False  # the picks' value is then a difference of two averages, rounded twice
        # User functions are evaluated person by person: their values are clipped, and they may fail.
        return people.built_in and row_parts(people) is None

    def _warn(self, problem: SelectionProblem, plan: GreedyPlan) -> None:
        """Warn if the first pick is hardly better than chance, naming an epsilon that is enough."""
        chance = chance_of_a_favourite(problem, plan)
        if chance is None or chance >= 0.5 or not self.budget.private:
            return

        def favoured(larger: Share) -> bool:
            tried = plan_with(problem, larger, plan.method, self._gains_fraction)
            return (chance_of_a_favourite(problem, tried) or 0.0) >= 0.5

        enough = least_epsilon(favoured, self.share)
        warnings.warn(
            f"{self._allowance} is too small here for much more than chance: an item that"
            f" everybody values fully is picked first with probability {chance:.2g} (at random"
            f" {1 / problem.n_items:.2g}); epsilon={enough:g} would make that 1/2{self._advice}",
            stacklevel=4,
        )

    def _picked(
        self, people: Population, problem: SelectionProblem, plan: GreedyPlan, progress: bool
    ) -> tuple[list[int], int]:
        """Reserve and make the picks; returns the items and the number of scores computed."""
        picks, ends = plan.picks, plan.ends
        last = [] if ends is None or ends is picks else [(ends.event, ends.count)]
        gains = [] if plan.gains is None else [(plan.gains, 1)]
        self._allowance.expect((picks.event, picks.count), *last, *gains, charged=not last and not gains)
        draws = problem.constraint.rank + 2 * (ends is picks)
        release = end_release = self._gate.reserve(picks.event, picks.count, draws=draws, label="picks")
        if ends is not None and ends is not picks:
            label = "best single item, and which of the two"
            end_release = self._gate.reserve(ends.event, ends.count, draws=2, label=label)
        some = people if picks.keep is None else people.sampled(release, picks.keep)
        # With an empty sample all scores are 0. This must not show, so no step is skipped.
        growing: Scores
        if some is None:
            growing = FixedPointGains(problem.n_items, [], [], problem.unit, problem.bound)
        else:
            growing = problem.scores(some)
        queries = self._pick_all(growing, problem, picks, release, progress)
        if ends is None:
            return growing.items, queries
        assert problem.costs is not None
        chosen = self._or_best_single(people, growing.items, problem, ends, end_release)
        return chosen, queries + int(problem.costs.large.size) + 1

    def _pick_all(
        self, growing: Scores, problem: SelectionProblem, picks: Picks, release: Release, progress: bool
    ) -> int:
        """Pick until nothing more fits; returns the number of scores computed."""
        queries, weights = 0, None if problem.costs is None else problem.costs.weights
        turns = range(problem.constraint.rank)
        for _ in track(turns, "picking", progress) if progress else turns:
            left = addable(problem.constraint, problem.n_items, growing.items)
            if left.size == 0:
                break
            queries += int(left.size)
            found = growing.scores()[left]
            if weights is not None:
                found = found * weights[left]
            growing.add(int(left[_drawn(release, found, picks)]))
        return queries

    def _or_best_single(
        self, people: Population, chosen: list[int], problem: SelectionProblem, ends: Picks, release: Release
    ) -> list[int]:
        """Choose between the picks and the best of the items that cost more than half the capacity."""
        assert problem.costs is not None
        whole = problem.scores(people)
        large = problem.costs.large
        alone = whole.scores()[large]
        place = _drawn(release, alone, ends)
        if problem.unit:
            together = math.fsum(whole.add(item) for item in chosen)
        else:  # one difference: a sum of averages would round once more for every pick
            start, both = problem.left.items([]), problem.left.items(chosen)
            together = answers.number("value", people.value(both) - people.value(start))
        if _drawn(release, np.array([together, alone[place]]), ends) == 0:
            return chosen
        return [int(large[place])]

    def _noisy_gains(
        self, people: Population, problem: SelectionProblem, plan: GreedyPlan, chosen: list[int]
    ) -> tuple[float, ...]:
        growing = problem.scores(people)
        gains = np.array([growing.add(item) for item in chosen])
        assert plan.gains is not None
        noisy = self._noisy(gains, plan.gains, "gains of the picks")
        if not problem.unit and self.sensitivity is None and people.sums_over_people:
            noisy = noisy * len(people)  # averages are for replacement, where the number is public
        return (*(math.nan for _ in problem.left.included), *noisy.tolist())


def most_items(left: Residual) -> int:
    """The most items of a resulting set."""
    picked = 0 if left.constraint is None else min(left.constraint.rank, int(left.free.size))
    return picked + int(left.included.size)


def _maximal_set(left: Residual) -> list[int]:
    """A maximal feasible set that depends on no data: always the first item that still fits."""
    chosen: list[int] = []
    rules, size = left.constraint, int(left.free.size)
    while rules is not None and len(chosen) < rules.rank and (fits := addable(rules, size, chosen)).size:
        chosen.append(int(fits[0]))
    return left.items(chosen)


def _drawn(release: Release, found: NDArray[np.float64], picks: Picks) -> int:
    if found.size == 1:
        return 0
    if math.isinf(picks.rate):
        return int(np.argmax(found))
    return (release.choice if picks.keep is None else release.permute_and_flip)(found, picks.rate)
