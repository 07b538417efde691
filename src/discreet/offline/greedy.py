"""Greedy picks by the exponential mechanism: a few items for everybody, out of everybody's data."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ..bounds import charged_costs
from ..constraints import Cardinality, Constraint
from ..core import checks
from ..core.fixed import Fixed
from ..core.progress import track
from ..core.turns import Turns
from ..objectives import MutualInformation, Population, answers
from ..objectives.rows.fixed_point import step
from ..privacy import (
    Account,
    Budget,
    BudgetExceeded,
    Gate,
    GaussianNoise,
    LaplaceNoise,
    PureRelease,
    Release,
    ScoreChange,
    Seed,
)
from ..privacy.budget import LEAST_EPSILON
from ..privacy.conversions import exact, rounded_down
from ..results import Selection
from . import methods, plans
from .methods import Picks
from .plans import Plan, Question
from .scores import Averages, Scores, quick_average, sums, sums_over_people

# Where the number of people is private, exact sums are laid out for this many unless told otherwise.
MOST_PEOPLE = 1 << 24
_ROOT_TWO = math.sqrt(2.0) * (1.0 + 2.0**-50)
# Information is computed in floating point, to far more digits than this factor leaves out.
_ROUNDED = 1.0 + 2.0**-30


class PrivateGreedy(Fixed):
    """Items picked one after the other, by the exponential mechanism on what each would add.

    ``constraint``: a `Constraint`, or k for at most k items. Under a knapsack gains are weighed against costs
    (`charged_costs.ChargedCosts`), and if some item costs more than half the capacity, the best of those is
    picked as well and a last private choice is made between it and the picks.

    ``select(people)`` takes a population. Scores are sums over its people, each person's part rounded down
    to a public step and held to [0, ``bound``]: exact, and never divided by the number of people. With
    ``sensitivity`` the objective is one function of everybody's data instead, no set's value of which one
    person can move by more; `MutualInformation` and mixtures of unlike populations know their own.

    ``method`` says how the picks are accounted for (`accounts`):

    - ``"basic"``: epsilon shared equally among the picks.
    - ``"zcdp"``: privacy losses of bounded range, composed in zCDP; needs a delta.
    - ``"decomposable"``: what all picks together can gain one person; the number of picks does not matter.
      Monotone sums over people only; needs a delta.
    - ``"subsampled"``: picks on a secret sample of the people, by permute-and-flip instead of exponential
      weights. Monotone sums over people only; pure epsilon, and the number of picks does not matter.
    - ``"auto"``: whichever lets people's gains enter with the largest rate on average (rate x chance of being
      in the sample; under a knapsack the last two choices count as well). ``method_used`` and ``reason`` say
      which and why. It is decided from public facts alone.

    ``release_gains``: the share of the budget (for instance 0.2) spent on noisy totals over people of what
    each pick added (of the objective itself where that is no sum over people), in ``selection.gains``;
    without it no gains are given out. ``max_people``: the most people there can
    be, public. It is needed only under ``neighbours="add_remove"``, where their number is private: without it
    sums are laid out for 16 million, and nobody is warned of a budget that is too small.

    Formal guarantee: everything in the `Selection` is (epsilon, delta)-DP under the budget's neighbours;
    choices are drawn exactly and sums are exact, so this holds for the numbers as computed. A person may own
    up to ``budget.max_rounds_per_person`` rows of the population; the promise is about the person, by group
    privacy over the rows. One object holds one budget: `select` spends all of it, and a second one
    raises `BudgetExceeded`. (Make two objects with parts of a budget to select twice.) Where there is
    nothing to choose, all items being allowed together, nothing is spent. ``budget`` may be a `Gate`, for
    instance one that has chosen the catalogue (`data.private_catalogue`): then one account shows everything
    that left through it, and once its privacy notion is fixed, the picks are paid with the pure epsilon that
    the notion has room for.

    Utility, for monotone submodular objectives: E f(S) >= ratio OPT - certified_loss, with a ratio of
    1 - 1/e for at most k items, 1/2 for matroids, 1/(p + 1) for p-extendible systems.

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
    """

    def __init__(
        self,
        constraint: Constraint | int,
        budget: Budget | Gate,
        method: str = "auto",
        *,
        bound: float = 1.0,
        sensitivity: float | None = None,
        release_gains: float | None = None,
        max_people: int | None = None,
        seed: Seed = None,
    ) -> None:
        if isinstance(constraint, Constraint):
            self.constraint = constraint
        else:
            self.constraint = Cardinality(checks.whole("constraint", constraint, at_least=1))
        self.method = checks.one_of("method", method, ("auto", *methods.METHODS))
        self.bound = checks.bound(bound)
        self.sensitivity = None if sensitivity is None else checks.real("sensitivity", sensitivity, above=0.0)
        self.release_gains = (
            None
            if release_gains is None
            else checks.real("release_gains", release_gains, above=0.0, below=1.0)
        )
        self.max_people = None if max_people is None else checks.whole("max_people", max_people, at_least=1)
        self._shared = isinstance(budget, Gate)
        if isinstance(budget, Gate):
            if seed is not None:
                raise ValueError("seed= is for a budget; a gate has its own randomness")
            self._gate = budget
        else:
            self._gate = Gate(budget, seed)
        self._turns = Turns("chooser")
        # The budget of the one selection, also where it goes through a larger gate.
        self._claimed = _left(self._gate)
        self._share = exact(self.release_gains or 0)
        self._plan: Plan | None = None
        if self.constraint.n_items is not None:
            self.plan()  # a method that cannot be accounted for is refused before there is any data

    # --- what is known in advance ----------------------------------------------------------------

    @property
    def budget(self) -> Budget:
        """The budget of the one selection: the one that was given, or what was left of a gate's."""
        return self._claimed

    @property
    def privacy(self) -> Account:
        """The account of what has been released so far.

        Of a gate that was given, everything, in its privacy notion: what others release there may depend on
        these answers. Of an own budget, the best of all notions: everything follows one plan.
        """
        return self._gate.spent if self._shared else replace(self._gate.spent, notion=None)

    @property
    def method_used(self) -> str | None:
        """How the picks were accounted for; None before `select`."""
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
        """What greedy is worth beside the best set, for monotone submodular objectives; None if not known."""
        return plans.ratio(self.constraint, plans.costs_of(self.constraint))

    def plan(self, n_items: int | None = None, people: int | None = None) -> Plan:
        """How a selection would be made and paid for: ``plan.method``, ``plan.picks.rate``, ``plan.reason``.

        For a monotone sum over ``people`` people (or an objective with a stated ``sensitivity``).
        """
        question = self._question(self._over(n_items), people)
        return plans.choose(question, self.budget, self.method, self._share)

    def certified_loss(self, people: int, n_items: int | None = None) -> float:
        """Bound on ``ratio`` x OPT - E f(S), for a monotone submodular sum f over this many people.

        What the picks' randomness, a sample, and rounding can cost, in units of the sum over people; see
        `certificates`. Not cut at the trivial bound, people x bound.

        >>> import discreet as dc
        >>> round(PrivateGreedy(5, dc.Budget(1.0, 1e-6), "zcdp").certified_loss(32_710, n_items=285))
        190
        """
        size = checks.whole("people", people, at_least=1)
        if self.ratio is None:
            raise ValueError(f"no guarantee is known for {self.constraint!r}; use matroids or a knapsack")
        # The plan is the one that `select` would make, which may not know how many people there are.
        plan, question = self.plan(n_items, size), self._question(self._over(n_items), size)
        if not self.budget.private:
            return plan.loss
        return plans.loss(replace(question, people=size), plan.picks, plan.ends)

    # --- the selection ---------------------------------------------------------------------------

    def select(self, people: Population, *, progress: bool = False) -> Selection:
        """The chosen items in the order of choice; ``progress`` shows how far the picking is."""
        with self._turns.take("select()"):
            return self._select(people, progress)

    def _select(self, people: Population, progress: bool) -> Selection:
        constraint, question = self._asked(people)
        n_items = people.n_items
        if constraint.rank >= n_items and constraint.contains(np.arange(n_items)):
            chosen, queries = list(range(n_items)), 0
            plan = plans.choose(question, self.budget, self.method, self._share) if self._share else None
        else:
            plan = plans.choose(question, self.budget, self.method, self._share)
            if self._by_average(people, plan):
                method, question = plan.method, self._question(constraint, len(people), people)
                averaged = plans.make(question, self.budget, method, self._share)
                plan = replace(averaged, reason=plan.reason)
            self._warn(question, plan)
            chosen, queries = self._picked(people, question, plan, progress)
            self._plan = plan
        self._gate.mark(*people.marks)
        gains = (
            None if plan is None or plan.gains is None else self._noisy_gains(people, question, plan, chosen)
        )
        labels = None if people.labels is None else tuple(people.labels[item] for item in chosen)
        return Selection(tuple(chosen), labels=labels, privacy=self.privacy, queries=queries, gains=gains)

    def _select_through(self, gate: Gate, people: Population, *, shared: bool) -> Selection:
        """The one selection, released through a gate, and whether that is shared with others."""
        self._gate, self._shared = gate, shared
        return self.select(people)

    def __repr__(self) -> str:
        budget = self.budget
        delta = f", delta={budget.delta:g}" if budget.delta else ""
        used = "" if self._plan is None else f" -> {self._plan.method!r} at rate {self._plan.picks.rate:.4g}"
        return (
            f"PrivateGreedy({self.constraint!r}, epsilon={budget.epsilon:g}{delta}, {budget.neighbours!r},"
            f" method={self.method!r}{used})"
        )

    # --- inside ----------------------------------------------------------------------------------

    def _over(self, n_items: int | None) -> Constraint:
        size = self.constraint.n_items if n_items is None else n_items
        if size is None:
            raise ValueError(f"{self.constraint!r} does not know its ground set; give n_items")
        return self.constraint.over(checks.whole("n_items", size, at_least=1))

    def _asked(self, people: Population) -> tuple[Constraint, Question]:
        """Everything that can be wrong is found here, before anything is spent."""
        if not isinstance(people, Population):
            raise TypeError(
                f"people must be a population, e.g. objectives.Coverage(matrix), got {type(people).__name__};"
                " objectives.SetFunction makes one of any function"
            )
        constraint = self._over(people.n_items)
        if not constraint.addable([]).any():
            raise ValueError(f"{constraint!r} allows no item at all; there is nothing to choose")
        if self.max_people is not None and len(people) > self.max_people:
            raise ValueError(
                f"there are more people than max_people={self.max_people}; declare a larger public number"
            )
        one_way = self.budget.neighbours == "add_remove"
        if one_way and self.max_people is None and len(people) > MOST_PEOPLE:
            raise ValueError(
                f"there are more than {MOST_PEOPLE:,} people; declare a public max_people= that is large"
                " enough"
            )
        if self.sensitivity is None:
            if not sums_over_people(people):
                if one_way and self.budget.private:
                    raise ValueError(
                        f"how far one person moves {type(people).__name__} depends on the number of people,"
                        " which is private when people are added or removed; use neighbours='replace', or"
                        " state sensitivity="
                    )
            elif not people.bound <= self.bound:
                raise ValueError(
                    f"people reach values of up to {people.bound:g}, above bound={self.bound:g}; pass"
                    f" bound={people.bound:g} or rescale"
                )
        n_items = people.n_items
        plans.check_tables(people, min(constraint.rank, n_items))
        if people.as_rows() is None:
            answers.vector("gains", people.gains([]), n_items)  # what fails at once must fail here
        size = None if one_way else len(people)
        return constraint, self._question(constraint, size, people, sums_wanted=True)

    def _question(
        self,
        constraint: Constraint,
        size: int | None,
        people: Population | None = None,
        *,
        sums_wanted: bool = False,
    ) -> Question:
        """The public terms; with ``people``, of that population's kind (averages unless sums are wanted)."""
        n_items = constraint.n_items
        assert n_items is not None
        neighbours = self.budget.neighbours
        one_way = neighbours == "add_remove"
        if one_way:
            size = self.max_people
        costs = plans.costs_of(constraint)
        picks = min(constraint.rank, n_items)
        monotone = people is None or people.monotone
        if costs is not None and not monotone:
            costs = replace(costs, large=costs.large[:0])  # no guarantee to save, and values are not held
        weighed = costs is not None
        apart: str | None = None
        unit = 0.0
        if self.sensitivity is not None:
            each = 2.0 * self.sensitivity
            # All values move with f(S): that cancels between gains, unless costs weigh them.
            width, gap = (2.0 if weighed else 1.0) * each, None if people is None else people.bound
            moved = (picks * each, math.sqrt(picks) * each)
            apart = "it is for sums over people, and a sensitivity was stated instead"
        elif people is not None and not sums_over_people(people):
            each, width = _own_movement(people, neighbours, picks)
            width = 2.0 * each if weighed else width
            gap, moved = people.bound, (picks * each, math.sqrt(picks) * each)
            apart = f"it is for sums over people, which {type(people).__name__} is not"
        elif people is not None and not sums_wanted:
            width = people.sensitivity(neighbours, "range")
            gap = people.bound
            each = people.sensitivity(neighbours, "value" if monotone else "coordinate")
            moved = (2.0 * each, _ROOT_TWO * each) if monotone else (picks * each, math.sqrt(picks) * each)
        elif monotone:
            width = ScoreChange(self.bound, one_directional=one_way).range
            gap = None if size is None else size * self.bound
            moved = (width, self.bound if one_way else _ROOT_TWO * self.bound)
        else:
            assert people is not None
            _, _, up, down = people._ranges()
            width = (up + down) * (1.0 if one_way else 2.0)
            gap = None if size is None else size * (up + down)
            each = max(up, down) if one_way else up + down
            moved = (picks * each, math.sqrt(picks) * each)
        if not monotone:
            apart = "it is for monotone objectives"
        if self.sensitivity is None and (people is None or (sums_wanted and sums_over_people(people))):
            spare = charged_costs.BITS if weighed else 0
            unit = step(self._most(people), self._length(size), spare)
        return Question(constraint, n_items, self.bound, width, size, gap, apart, unit, costs, moved)

    def _most(self, people: Population | None) -> float:
        """The most that one person's part of a score can be in size."""
        if people is None or people.monotone:
            return self.bound
        _, _, up, down = people._ranges()
        return max(up, down)

    def _length(self, size: int | None) -> int:
        """For how many people sums are laid out: a public number."""
        if self.max_people is not None:
            return self.max_people
        return MOST_PEOPLE if size is None else size

    def _by_average(self, people: Population, plan: Plan) -> bool:
        """Whether scores are the population's own averages instead of exact sums."""
        if self.sensitivity is not None or not sums_over_people(people):
            return False  # already are
        replaced = self.budget.neighbours == "replace"
        return replaced and plan.method in ("basic", "zcdp") and quick_average(people)

    def _warn(self, question: Question, plan: Plan) -> None:
        chance = plans.chance_of_a_favourite(question, plan)
        if chance is None or chance >= 0.5 or not self.budget.private:
            return
        enough = plans.epsilon_that_would_do(question, self.budget, plan.method, self._share)
        warnings.warn(
            f"epsilon={self.budget.epsilon:g} is too small here for much more than chance: an item that"
            f" everybody values fully is picked first with probability {chance:.2g} (at random"
            f" {1 / question.n_items:.2g}); epsilon={enough:g} would make that 1/2",
            stacklevel=4,
        )

    def _scores(self, people: Population, question: Question) -> Scores:
        return sums(people, self.bound, question.unit) if question.unit else Averages(people)

    def _picked(
        self, people: Population, question: Question, plan: Plan, progress: bool
    ) -> tuple[list[int], int]:
        picks, ends = plan.picks, plan.ends
        last = [] if ends is None or ends is picks else [(ends.event, ends.count)]
        gains = [] if plan.gains is None else [(plan.gains, 1)]
        self._gate.expect((picks.event, picks.count), *last, *gains)
        self._release = self._gate.reserve(picks.event, picks.count, label="picks")
        self._end_release = self._release
        if ends is not None and ends is not picks:
            label = "best single item, and which of the two"
            self._end_release = self._gate.reserve(ends.event, ends.count, label=label)
        growth: Scores
        rows = None if picks.keep is None else self._release.sample(len(people), picks.keep)
        if rows is None:
            growth = self._scores(people, question)
        elif rows.size:
            growth = self._scores(people[rows], question)
        else:
            # Nobody: every pick is a fair draw. What follows the picks must not tell, so nothing is left out.
            growth = _Nothing(question.n_items)
        if ends is None:
            return self._drawn(growth, question, plan, progress)
        return self._with_best_single(people, growth, question, plan, progress)

    def _drawn(self, growth: Scores, question: Question, plan: Plan, progress: bool) -> tuple[list[int], int]:
        """Picks until nothing more fits."""
        queries = 0
        candidates = _Candidates(question.constraint, question.n_items)
        weights = None if question.costs is None else question.costs.weights
        for _ in track(range(question.constraint.rank), "picking", progress):
            open_items = candidates.after(growth.items)
            if open_items.size == 0:
                break
            queries += int(open_items.size)
            scores = growth.scores()[open_items]
            if weights is not None:
                scores = scores * weights[open_items]
            growth.add(int(open_items[self._draw(self._release, scores, plan.picks)]))
        return growth.items, queries

    def _with_best_single(
        self, people: Population, growth: Scores, question: Question, plan: Plan, progress: bool
    ) -> tuple[list[int], int]:
        """The picks, or the best of the items that cost more than half the capacity."""
        assert question.costs is not None
        assert plan.ends is not None
        chosen, queries = self._drawn(growth, question, plan, progress)
        whole = self._scores(people, question)
        large = question.costs.large
        alone = whole.scores()[large]
        place = self._draw(self._end_release, alone, plan.ends)
        if question.unit:
            together = math.fsum(whole.add(item) for item in chosen)
        else:  # in one go: a sum of averages would round once more for every pick
            together = answers.number("value", people.value(list(chosen)) - people.value([]))
        queries += int(large.size) + 1
        pair = np.array([together, alone[place]])
        if self._draw(self._end_release, pair, plan.ends) == 0:
            return chosen, queries
        return [int(large[place])], queries

    @staticmethod
    def _draw(release: Release, scores: NDArray[np.float64], picks: Picks) -> int:
        if scores.size == 1:
            return 0
        if math.isinf(picks.rate):
            return int(np.argmax(scores))
        draw = release.choice if picks.keep is None else release.flipped_choice
        return draw(scores, picks.rate)

    def _noisy_gains(
        self, people: Population, question: Question, plan: Plan, chosen: list[int]
    ) -> tuple[float, ...]:
        growth = self._scores(people, question)
        gains = np.array([growth.add(item) for item in chosen])
        noise, label = plan.gains, "gains of the picks"
        if isinstance(noise, GaussianNoise):
            noisy = self._gate.gaussian(gains, noise.sigma, noise.sensitivity, label=label)
        else:
            assert isinstance(noise, LaplaceNoise)
            noisy = self._gate.laplace(gains, noise.scale, noise.sensitivity, label=label)
        if not question.unit and self.sensitivity is None and sums_over_people(people):
            noisy = noisy * len(people)  # averages are for replaced people, whose number is public
        return tuple(noisy.tolist())


def _left(gate: Gate) -> Budget:
    """What a gate has for picks: its budget, or the pure epsilon that its privacy notion has room for."""
    whole = gate.budget
    if not whole.private or gate.notion is None:  # nothing has left, and nothing is decided
        return whole
    epsilon = rounded_down(exact(gate.remaining.epsilon) * whole.max_rounds_per_person)
    if epsilon < LEAST_EPSILON:
        raise BudgetExceeded(gate.preview(PureRelease(whole.epsilon_per_round)))
    return Budget(epsilon, 0.0, whole.neighbours, whole.max_rounds_per_person)


def _own_movement(people: Population, neighbours: str, picks: int) -> tuple[float, float]:
    """How far one person moves a gain, and two against each other, where people's parts do not add up."""
    if isinstance(people, MutualInformation):
        each, width = (
            people.sensitivity(neighbours, norm, set_size=picks) for norm in ("coordinate", "range")
        )
    else:
        each, width = (people.sensitivity(neighbours, norm) for norm in ("coordinate", "range"))
    return each * _ROUNDED, width * _ROUNDED


class _Candidates:
    """Which items fit on top of the chosen ones."""

    def __init__(self, constraint: Constraint, n_items: int) -> None:
        self._constraint = constraint
        self._left = np.ones(n_items, dtype=np.bool_)

    def after(self, chosen: list[int]) -> NDArray[np.intp]:
        if not isinstance(self._constraint, Cardinality):
            return np.flatnonzero(self._constraint.addable(np.array(chosen, dtype=np.intp)))
        if chosen:
            self._left[chosen[-1]] = False
        return np.flatnonzero(self._left)


class _Nothing:
    """The scores of a sample that holds nobody."""

    def __init__(self, n_items: int) -> None:
        self.items: list[int] = []
        self._zeros = np.zeros(n_items)

    def scores(self) -> NDArray[np.float64]:
        return self._zeros

    def add(self, item: int) -> float:
        self.items.append(item)
        return 0.0
