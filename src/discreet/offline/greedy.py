"""Greedy picks by the exponential mechanism: a few items for everybody, out of everybody's data."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..constraints import Constraint, Knapsack
from ..constraints.residual import Residual
from ..core import checks
from ..core.progress import track
from ..objectives import Population, answers
from ..privacy import Release, Seed
from ..privacy.conversions import exact
from ..privacy.picks import Picks
from ..privacy.spending import Spending
from ..results import Selection
from . import methods, scores
from .arithmetic import Step, steps
from .chooser import Allowance, Chooser
from .methods import Plan
from .scores import Candidates, Nobody, Question, Scores, Terms


class PrivateGreedy(Chooser):
    """Items picked one after the other, by the exponential mechanism on what each would add.

    ``constraint``: a `Constraint`, or k for at most k items. Under a knapsack gains are weighed against costs
    (`bounds.charged_costs.ChargedCosts`), and if some item costs more than half the capacity, the best of
    those is picked as well and a last private choice is made between it and the picks.

    ``select(people)`` takes a population. Scores are sums over its people, each person's part rounded down
    to a public step and held to [0, ``bound``]: exact, and never divided by the number of people. With
    ``sensitivity`` the objective is one function of everybody's data instead, no set's value of which one
    person can move by more; `MutualInformation` and mixtures of unlike populations know their own.

    ``method`` says how the picks are accounted for (`privacy.picks`):

    - ``"basic"``: epsilon shared equally among the picks.
    - ``"zcdp"``: privacy losses of bounded range, composed in zCDP; needs a delta.
    - ``"decomposable"``: what all picks together can gain one person; the number of picks does not matter.
      Monotone sums over people only; needs a delta.
    - ``"subsampled"``: picks on a secret sample of the people, by permute-and-flip instead of exponential
      weights. Monotone sums over people only; pure epsilon, and the number of picks does not matter.
    - ``"exact"``: all picks declared together, and charged by their exact composition (`ExactChoices`); needs
      a whole budget with a delta, and one row of each person. From five picks on the rate is 7 to 16 % above
      ``"zcdp"`` (at epsilon 1, delta 1e-6), for any objective. To settle it takes a moment (seconds for
      thousands of picks), so ``"auto"`` does not look at it.
    - ``"auto"``: of the first four, whichever lets people's gains enter with the largest rate on average
      (rate x chance of being in the sample; under a knapsack the last two choices count as well).
      ``method_used`` and ``reason`` say which and why. It is decided from public facts alone.

    ``release_gains``: the share of the budget (for instance 0.2) spent on noisy totals over people of what
    each pick added (of the objective itself where that is no sum over people), in ``selection.gains``;
    without it no gains are given out. ``max_people``: the most people there can be, public. It is needed only
    under ``neighbours="add_remove"``, where their number is private: without it sums are laid out for 16
    million, and nobody is warned of a budget that is too small. ``include`` and ``exclude``: public items
    that are in from the start, and that cannot be chosen; see `Chooser`.

    Formal guarantee: everything in the `Selection` is (epsilon, delta)-DP under the budget's neighbours;
    choices are drawn exactly and sums are exact, so this holds for the numbers as computed. A person may own
    up to ``budget.max_rounds_per_person`` rows of the population; the guarantee is about the person, by group
    privacy over the rows. One object holds one budget: `select` spends all of it, and a second one
    raises `BudgetExceeded`. (Make two objects with shares of a budget to select twice.) Where there is
    nothing to choose, all items being allowed together, nothing is spent. ``budget`` may also be a share
    (``budget.split``, ``gate.split``), or a `Gate`, for instance one that has chosen the catalogue
    (`data.private_catalogue`): the picks then take no more than the share, or what the gate has left, in the
    privacy notion that the gate keeps to, and one account shows everything that left through it.

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
    >>> PrivateGreedy(2, dc.Budget(1.0), include=["milk"], exclude=["tea"], seed=0).select(people)
    Selection(milk, jam)
    """

    def __init__(
        self,
        constraint: Constraint | int,
        budget: Spending | Allowance,
        method: str = "auto",
        *,
        bound: float = 1.0,
        sensitivity: float | None = None,
        release_gains: float | None = None,
        max_people: int | None = None,
        include: Any = None,
        exclude: Any = None,
        seed: Seed = None,
    ) -> None:
        super().__init__(
            constraint,
            budget,
            seed,
            bound=bound,
            sensitivity=sensitivity,
            max_people=max_people,
            include=include,
            exclude=exclude,
        )
        self.method = checks.one_of("method", method, ("auto", *methods.METHODS))
        self.release_gains = (
            None
            if release_gains is None
            else checks.real("release_gains", release_gains, above=0.0, below=1.0)
        )
        self._for_gains = exact(self.release_gains or 0)
        self._terms = Terms(self.bound, self.sensitivity, self.max_people, self.budget.neighbours)
        self._plan: Plan | None = None
        self._advice = ""  # what would do better, for whoever is told that the budget is too small
        if self.constraint.n_items is not None:
            # A method that cannot be accounted for is refused before there is any data.
            self._chosen_plan(self._terms.question(Residual.of(self.constraint), None))

    # --- what is known in advance ----------------------------------------------------------------

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
        constraint: Constraint | None = self.constraint
        if self._residual is not None or isinstance(constraint, Knapsack):
            constraint = self._over(None if self._residual is None else self._residual.n_items).constraint
        return 1.0 if constraint is None else methods.ratio(constraint, scores.costs_of(constraint))

    def plan(self, n_items: int | None = None, n_people: int | None = None) -> Plan:
        """How a selection would be made and paid for: ``plan.method``, ``plan.picks.rate``, ``plan.reason``.

        For a monotone sum over ``n_people`` people (or an objective with a stated ``sensitivity``).
        """
        return self._chosen_plan(self._terms.question(self._over(n_items), n_people))

    def certified_loss(self, n_people: int, n_items: int | None = None) -> float:
        """Bound on ``ratio`` x OPT - E f(S), for a monotone submodular sum f over this many people.

        What the picks' randomness, a sample, and rounding can cost, in units of the sum over people; see
        `bounds.greedy`. Not cut at the trivial bound, n_people x bound.

        >>> import discreet as dc
        >>> round(PrivateGreedy(5, dc.Budget(1.0, 1e-6), "zcdp").certified_loss(32_710, n_items=285))
        190
        """
        size = checks.whole("n_people", n_people, at_least=1)
        if self.ratio is None:
            raise ValueError(f"no guarantee is known for {self.constraint!r}; use matroids or a knapsack")
        left = self._over(n_items)
        if left.constraint is None:
            return 0.0
        # The plan is the one that `select` would make, which may not know how many people there are.
        question = self._terms.question(left, size)
        plan = self._chosen_plan(question)
        if not self.budget.private:
            return plan.loss
        return methods.loss(replace(question, n_people=size), plan.picks, plan.ends)

    def picks_above_chance(self, n_people: int, n_items: int | None = None) -> int:
        """About how many picks can be better than chance, from public sizes alone.

        Greedy's picks add less and less, and all together no more than everybody's bound: the t-th adds at
        most n_people x bound / t. It counts while an item that adds so much, beside others that add nothing,
        is drawn as often as not. Under a knapsack costs are left out.

        >>> import discreet as dc
        >>> PrivateGreedy(50, dc.Budget(1.0)).picks_above_chance(600, n_items=200)
        43
        """
        size, left = checks.whole("n_people", n_people, at_least=1), self._over(n_items)
        if left.constraint is None:
            return 0
        question = self._terms.question(left, size)
        needed = math.log(max(1, question.n_items - 1))
        temperature = self._chosen_plan(question).picks.temperature
        if not self.budget.private or not needed:
            return question.picks
        reach = temperature * size * self.bound / needed
        return question.picks if reach >= question.picks else int(reach)

    @property
    def arithmetic(self) -> list[Step]:
        """How the guarantee of the picks follows from their rate, one step after the other."""
        if self._plan is None or not self.budget.private:
            return []
        spent = self.privacy.epsilon()
        last = Step(
            "epsilon in the account, of all that was released, converted as well as can be",
            f"{spent!r}",
            spent,
        )
        return [*steps(self._plan, self.budget, self.bound), last]

    def _chosen_plan(self, question: Question) -> Plan:
        return methods.choose(question, self.share, self.method, self._for_gains)

    # --- the selection ---------------------------------------------------------------------------

    def select(
        self, people: Population, *, include: Any = None, exclude: Any = None, progress: bool = False
    ) -> Selection:
        """The chosen items in the order of choice, those of ``include`` before them.

        ``include`` and ``exclude`` add to those the chooser was made with. ``progress`` shows how far the
        picking is.
        """
        with self._turns.take("select()"):
            return self._select(people, self._asked(people, include, exclude), progress)

    def _select(self, people: Population, left: Residual, progress: bool) -> Selection:
        if left.constraint is None:
            self._residual = left
            self._gate.mark(*people.marks)
            return self._selection(people, left, (), queries=0)
        one_way = self.budget.neighbours == "add_remove"
        question = self._terms.question(left, None if one_way else len(people), people)
        if left.forced:
            chosen, queries = list(range(left.free.size)), 0
            plan = self._chosen_plan(question) if self._for_gains else None
            if plan is not None and plan.gains is not None:
                self._allowance.expect((plan.gains, 1))
        else:
            plan = self._chosen_plan(question)
            if self._by_average(people, question, plan):
                question = self._terms.question(left, len(people), people, averages=True)
                averaged = methods.make(question, self.share, plan.method, self._for_gains)
                plan = replace(averaged, reason=plan.reason)
            self._warn(question, plan)
            chosen, queries = self._picked(people, question, plan, progress)
            self._plan = plan
        self._gate.mark(*people.marks)
        gains = None
        if plan is not None and plan.gains is not None:
            gains = self._noisy_gains(people, question, plan, chosen)
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

    def _asked(self, people: Population, include: Any, exclude: Any) -> Residual:
        """Everything that can be wrong is found here, before anything is spent."""
        if not isinstance(people, Population):
            raise TypeError(
                f"people must be a population, e.g. objectives.Coverage(matrix), got {type(people).__name__};"
                " objectives.SetFunction makes one of any function"
            )
        left = self._left(people, include, exclude)
        whole = left.constraint if left.whole else None
        if whole is not None and not Candidates(whole, people.n_items).after([]).size:
            raise ValueError(f"{whole!r} allows no item at all; there is nothing to choose")
        self._check_count(people)
        one_way = self.budget.neighbours == "add_remove"
        if one_way and self.max_people is None and len(people) > scores.MOST_PEOPLE:
            raise ValueError(
                f"there are more than {scores.MOST_PEOPLE:,} people; declare a public max_people= that is"
                " large enough"
            )
        if self.sensitivity is None:
            if not people.sums_over_people:
                if one_way and self.budget.private:
                    raise ValueError(
                        f"how far one person moves {type(people).__name__} depends on the number of people,"
                        " which is private when people are added or removed; use neighbours='replace', or"
                        " state sensitivity="
                    )
            elif not (reached := people.bound_of(_most_items(left))) <= self.bound:
                raise ValueError(
                    f"people reach values of up to {reached:g}, above bound={self.bound:g}; pass"
                    f" bound={reached:g} or rescale"
                )
        if left.constraint is not None:
            people.check_picks(_most_items(left))
        if people.row_source() is None:
            answers.vector("gains", people.gains([]), people.n_items)  # what fails at once must fail here
        return left

    def _by_average(self, people: Population, question: Question, plan: Plan) -> bool:
        """Whether scores are the population's own averages instead of exact sums."""
        if self.sensitivity is not None or not people.sums_over_people:
            return False  # already are
        if question.ends and question.left.included.size:
            return False  # what the picks add is then a difference of two averages, and rounds twice
        replaced = self.budget.neighbours == "replace"
        return replaced and plan.method in ("basic", "zcdp", "exact") and scores.quick_average(people)

    def _warn(self, question: Question, plan: Plan) -> None:
        chance = methods.chance_of_a_favourite(question, plan)
        if chance is None or chance >= 0.5 or not self.budget.private:
            return
        enough = methods.epsilon_that_would_do(question, self.share, plan.method, self._for_gains)
        warnings.warn(
            f"{self._allowance} is too small here for much more than chance: an item that"
            f" everybody values fully is picked first with probability {chance:.2g} (at random"
            f" {1 / question.n_items:.2g}); epsilon={enough:g} would make that 1/2{self._advice}",
            stacklevel=4,
        )

    def _picked(
        self, people: Population, question: Question, plan: Plan, progress: bool
    ) -> tuple[list[int], int]:
        picks, ends = plan.picks, plan.ends
        last = [] if ends is None or ends is picks else [(ends.event, ends.count)]
        gains = [] if plan.gains is None else [(plan.gains, 1)]
        self._allowance.expect((picks.event, picks.count), *last, *gains)
        release = end_release = self._gate.reserve(picks.event, picks.count, label="picks")
        if ends is not None and ends is not picks:
            label = "best single item, and which of the two"
            end_release = self._gate.reserve(ends.event, ends.count, label=label)
        some = people if picks.keep is None else people.sampled(release, picks.keep)
        # Of nobody every pick is a fair draw. What follows the picks must not tell, so nothing is left out.
        growing: Scores = Nobody(question.n_items) if some is None else question.scores(some)
        queries = self._pick_all(growing, question, picks, release, progress)
        if ends is None:
            return growing.items, queries
        assert question.costs is not None
        chosen = self._or_best_single(people, growing.items, question, ends, end_release)
        return chosen, queries + int(question.costs.large.size) + 1

    def _pick_all(
        self, growing: Scores, question: Question, picks: Picks, release: Release, progress: bool
    ) -> int:
        """Pick until nothing more fits; how many scores were looked at."""
        queries = 0
        candidates = Candidates(question.constraint, question.n_items)
        weights = None if question.costs is None else question.costs.weights
        for _ in track(range(question.constraint.rank), "picking", progress):
            left = candidates.after(growing.items)
            if left.size == 0:
                break
            queries += int(left.size)
            found = growing.scores()[left]
            if weights is not None:
                found = found * weights[left]
            growing.add(int(left[_drawn(release, found, picks)]))
        return queries

    def _or_best_single(
        self, people: Population, chosen: list[int], question: Question, ends: Picks, release: Release
    ) -> list[int]:
        """The picks, or the best of the items that cost more than half the capacity."""
        assert question.costs is not None
        whole = question.scores(people)
        large = question.costs.large
        alone = whole.scores()[large]
        place = _drawn(release, alone, ends)
        if question.unit:
            together = math.fsum(whole.add(item) for item in chosen)
        else:  # in one go: a sum of averages would round once more for every pick
            start, both = question.left.items([]), question.left.items(chosen)
            together = answers.number("value", people.value(both) - people.value(start))
        if _drawn(release, np.array([together, alone[place]]), ends) == 0:
            return chosen
        return [int(large[place])]

    def _noisy_gains(
        self, people: Population, question: Question, plan: Plan, chosen: list[int]
    ) -> tuple[float, ...]:
        growing = question.scores(people)
        gains = np.array([growing.add(item) for item in chosen])
        assert plan.gains is not None
        noisy = self._noisy(gains, plan.gains, "gains of the picks")
        if not question.unit and self.sensitivity is None and people.sums_over_people:
            noisy = noisy * len(people)  # averages are for replaced people, whose number is public
        return (*(math.nan for _ in question.left.included), *noisy.tolist())


def _most_items(left: Residual) -> int:
    """The most items that there can be in the end."""
    picked = 0 if left.constraint is None else min(left.constraint.rank, int(left.free.size))
    return picked + int(left.included.size)


def _drawn(release: Release, found: NDArray[np.float64], picks: Picks) -> int:
    if found.size == 1:
        return 0
    if math.isinf(picks.rate):
        return int(np.argmax(found))
    draw = release.choice if picks.keep is None else release.flipped_choice
    return draw(found, picks.rate)
