"""Continuous greedy: a few private steps to a fractional point, which is then rounded."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..constraints import Cardinality, Constraint, Knapsack, Matroid, swap_round
from ..constraints.residual import Residual
from ..core import checks
from ..core.progress import track
from ..objectives import MutualInformation, Population
from ..privacy import Event, ExponentialChoice, Seed
from ..privacy.published import true_budget
from ..privacy.spending import Spending
from ..results import Selection
from .chooser import Allowance, Chooser
from .continuous_settings import CALIBRATIONS, COMPOSITIONS, NOISES, Setting, Settings
from .gradients import (
    MOST_PEOPLE,
    SAMPLES,
    Change,
    Gradient,
    GradientOnTop,
    StatedGradient,
    SummedGradient,
    check_people,
    check_population,
)

Floats = NDArray[np.float64]


@dataclass
class Climb:
    """A point on its way up: ``point`` is the sum of the steps so far divided by their number in all.

    All of it is about the items that are left to choose from, on top of the included ones.
    """

    setting: Setting
    gradient: Gradient
    steps: int
    event: Event
    total: Floats
    sets: list[list[int]]
    last: NDArray[Any] | None = None

    @property
    def point(self) -> Floats:
        return np.minimum(self.total / self.steps, 1.0)


class ContinuousGreedy(Chooser):
    """Choose a feasible set by private continuous greedy on the multilinear extension, and round it.

    K ``steps`` of size 1/K lead from 0 to a point of the constraint's polytope; each goes to a vertex where
    the gradient is large. How that vertex is found is the ``noise``:

    - ``"exponential"`` (the default, and the least noise almost always): the items of a base are picked one
      by one by the exponential mechanism, each by its entry; under a knapsack by entry per cost, until the
      capacity is full. ``update_within_steps`` looks at the gradient afresh after every pick, which costs
      more time, no privacy, and removes the second-order loss.
    - ``"laplace"``, ``"gaussian"``: the gradient is released with noise, once a step, and the vertex is its
      exact maximum (paper 003, Algorithm 1).

    ``composition`` says how the account adds up: ``"basic"``, ``"advanced"`` (Lemma 4 of paper 003),
    ``"zcdp"`` (Gaussian DP for Gaussian noise), or the least noise that is valid. ``steps="auto"`` minimises
    `certified_loss`. When people come or go (``neighbours="add_remove"``) their number is private:
    ``max_people`` then says how many there can be at most, and without it there are three steps (one for a
    cardinality constraint, where picks need no more) and no warning of a budget that is too small.

    ``constraint`` is a matroid, a knapsack, or k for at most k items. ``bound`` is the public bound of one
    person's function. People whose items are capped (see ``cap_items``; ``items_per_person`` holds them to
    it) need less Laplace and Gaussian noise, which then no longer grows with the number of items.
    ``sensitivity`` is for objectives that are no sum over people: how far one person moves the value of any
    set, with ``bound`` the most that is. `MutualInformation` knows its own, where one person is replaced.
    ``include`` and ``exclude``: public items that are in from the start, and that cannot be chosen; see
    `Chooser`. The point is then climbed on the others, from where included items are 1.

    A function without a closed form is asked about ``samples`` random sets, 300 unless given, the same for
    everybody: n_items + 2 values for each set that was not among those before. On 30 items that took 10,000
    calls a person for 12 gradients; ``progress=True`` of ``select`` says how long the steps will take.

    Formal guarantee. (epsilon, delta)-DP under the budget's neighbouring relation. Gradients of a monotone
    person lie in [0, bound], and are worked out person by person, rounded down to a public step and added up
    in integers, so one person moves each entry of the sum by at most ``bound``: no division by the number of
    people, no factor 2, no rounding error. Two entries are moved apart by 2 ``bound`` (replaced) or ``bound``
    (added or removed). Picks are exact, noise is exact on its grid, and the maximum over the polytope,
    averaging and rounding are post-processing; random sets for gradients without a closed form and the coins
    of rounding are public.

    Utility. E F(x) >= (1 - 1/e) best - `certified_loss`, for the fractional point x (``point_``, itself
    public once released). Swap rounding keeps it for matroids. For a knapsack it holds for the fractional
    point only: the best set can be worth little more than half of it (see `Knapsack`), and ``select`` loses
    up to the value of one item more. The set is feasible always.

    ``calibration="published"`` takes paper 003's constants (Lemmas 3 and 4, and the Gaussian version of its
    supplement, K from Theorem 3) with sensitivity 2 Delta per entry; the account reports what they deliver.
    They need a whole budget, not a share or a gate. An infinite epsilon gives the algorithm without privacy.
    One object is one budget, or share of one: one `select`. ``budget`` may be a share (``budget.split``,
    ``gate.split``) or a `Gate`, of which all that is left is spent, in the privacy notion it keeps to.

    >>> import discreet as dc
    >>> people = dc.objectives.Coverage([[1, 0, 0, 1], [0, 1, 0, 0], [0, 1, 1, 0]] * 400)
    >>> blocks = dc.constraints.PartitionMatroid([[0, 1], [2, 3]], [1, 1])
    >>> chosen = ContinuousGreedy(blocks, dc.Budget(1.0, 1e-6), seed=0).select(people)
    >>> sorted(chosen.items), chosen.privacy.epsilon() <= 1.0
    ([1, 3], True)
    """

    # Whether one step of picks, under a cardinality constraint, has the guarantee that is certified.
    _greedy_suffices = True

    def __init__(
        self,
        constraint: Constraint | int,
        budget: Spending | Allowance,
        steps: int | str = "auto",
        noise: str = "exponential",
        composition: str = "auto",
        *,
        bound: float = 1.0,
        items_per_person: int | None = None,
        sensitivity: float | None = None,
        samples: int | None = None,
        update_within_steps: bool = True,
        max_people: int | None = None,
        calibration: str = "tight",
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
        if not isinstance(self.constraint, Matroid | Knapsack):
            raise TypeError(
                "continuous greedy climbs in the polytope of a matroid or a knapsack, not of"
                f" {self.constraint!r}; use PrivateGreedy"
            )
        self.steps = (
            checks.one_of("steps", steps, ("auto",))
            if isinstance(steps, str)
            else checks.whole("steps", steps, at_least=1)
        )
        self.noise = checks.one_of("noise", noise, NOISES)
        self.composition = checks.one_of("composition", composition, COMPOSITIONS)
        self.calibration = checks.one_of("calibration", calibration, CALIBRATIONS)
        self.items_per_person = (
            None
            if items_per_person is None
            else checks.whole("items_per_person", items_per_person, at_least=1)
        )
        self.samples = SAMPLES if samples is None else checks.whole("samples", samples, at_least=2)
        self.update_within_steps = bool(update_within_steps)
        if calibration == "published" and not self._allowance.alone:
            raise ValueError(
                'calibration="published" takes a whole Budget: what its constants cost may exceed what they'
                " claim, and neither a share nor a gate may be overdrawn"
            )
        suffices = (
            self._greedy_suffices
            and isinstance(self.constraint, Cardinality)
            and self.noise == "exponential"
            and self.update_within_steps
        )
        self._settings = Settings(
            self.share,
            self.steps,
            self.noise,
            self.composition,
            self.calibration,
            self.update_within_steps,
            suffices,
        )
        self._climbed: tuple[Floats, int] | None = None

    # --- for users -------------------------------------------------------------------------------

    @property
    def point_(self) -> Floats | None:
        """The fractional point that was released; None before."""
        return None if self._climbed is None else self._climbed[0].copy()

    @property
    def steps_(self) -> int | None:
        """How many steps were taken; None before."""
        return None if self._climbed is None else self._climbed[1]

    def select(
        self, people: Population, *, include: Any = None, exclude: Any = None, progress: bool = False
    ) -> Selection:
        """A feasible set: the point of `fractional`, rounded with public coins; included items first.

        ``include`` and ``exclude`` add to those the chooser was made with.
        """
        with self._turns.take("select()"):
            left, climb = self._climbed_on(people, include, exclude, progress)
            picks = () if climb is None else self._rounded(climb)
        return self._selection(people, left, picks, queries=0 if climb is None else climb.gradient.queries)

    def fractional(
        self, people: Population, *, include: Any = None, exclude: Any = None, progress: bool = False
    ) -> Floats:
        """The point of the polytope before rounding. It spends the budget, as `select` does.

        Included items have 1, excluded ones 0.
        """
        with self._turns.take("fractional()"):
            self._climbed_on(people, include, exclude, progress)
            assert self._climbed is not None
            return self._climbed[0].copy()

    def certified_loss(self, n_people: int, n_items: int | None = None, curvature: float = 1.0) -> float:
        """A bound on (1 - kappa/e) best - E F(x), F the sum over this many people; from public sizes only.

        For gradients in closed form; sampled ones add their sampling error. Never more than choosing nothing
        would lose. With ``sensitivity=`` F is the objective itself. ``curvature`` is 1 here; see
        `CurvatureGreedy`.

        >>> import discreet as dc
        >>> round(ContinuousGreedy(5, dc.Budget(1.0, 1e-6)).certified_loss(32_710, n_items=285))
        283
        """
        self._check_curvature(curvature)
        count = checks.whole("n_people", n_people, at_least=1)
        left = self._over(n_items)
        if left.constraint is None:
            return 0.0
        constraint, size = left.constraint, int(left.free.size)
        touched = min(size, self.items_per_person or size)
        setting = self._setting(constraint, size, touched, count)
        # As many steps as `select` would take, which may not know how many people there are.
        known = count if self.budget.neighbours == "replace" else self.max_people
        steps = self._setting(constraint, size, touched, known).steps()
        assert setting.most is not None
        loss = setting.loss(steps, self._event(setting, steps), curvature)
        return min(loss, (1.0 - curvature / math.e) * setting.most)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.constraint!r}, noise={self.noise!r}, steps={self.steps!r})"

    # --- what is public --------------------------------------------------------------------------

    def _check_curvature(self, curvature: float) -> None:
        if checks.real("curvature", curvature) != 1.0:
            raise ValueError(f"curvature={curvature} helps CurvatureGreedy only; leave it at 1 here")

    def _checked_setting(self, people: Population, left: Residual) -> Setting | None:
        """Everything that can be wrong is found here, before anything is spent; None: nothing to choose."""
        replaced = self.budget.neighbours == "replace"
        stated, bound = self.sensitivity, self.bound
        if stated is None and isinstance(people, MutualInformation) and replaced:
            stated, bound = people.sensitivity("replace", "value"), people.bound
        check_people(people, bound, stated is not None)
        self._check_count(people)
        touched = people.touched_items(self.items_per_person)
        known = len(people) if replaced else self.max_people
        if left.constraint is None:
            return None
        return self._setting(left.constraint, int(left.free.size), touched, known, stated, bound)

    def _setting(
        self,
        constraint: Constraint,
        n_items: int,
        touched: int,
        n_people: int | None,
        stated: float | None = None,
        bound: float | None = None,
    ) -> Setting:
        stated = self.sensitivity if stated is None else stated
        bound = self.bound if bound is None else bound
        if stated is not None:
            corners = self._settings.corners_only and isinstance(constraint, Matroid)
            change = Change.stated(stated, bound, n_items, corners_only=corners)
            return Setting.of(self._settings, constraint, n_items, change, stated, bound, sums=False)
        change = Change.of_sum(bound, self.budget.neighbours, n_items, touched)
        most = None if n_people is None else n_people * bound
        length = self._length(n_people)
        return Setting.of(self._settings, constraint, n_items, change, bound, most, sums=True, length=length)

    def _length(self, n_people: int | None) -> int:
        """For how many people sums are laid out, a public number."""
        known = n_people if self.budget.neighbours == "replace" else self.max_people
        return known or MOST_PEOPLE

    def _event(self, setting: Setting, steps: int) -> Event:
        """One release of a run."""
        return setting.event(steps)

    # --- the climb -------------------------------------------------------------------------------

    def _climbed_on(
        self, people: Population, include: Any, exclude: Any, progress: bool
    ) -> tuple[Residual, Climb | None]:
        """What there was to choose from and the climb on it; none where nothing is left to choose."""
        check_population(people)
        left = self._left(people, include, exclude)
        setting = self._checked_setting(people, left)
        climb = None
        if setting is None:
            self._climbed = left.point(np.zeros(0)), 0
        else:
            climb = self._climb(people, left, setting, progress)
        self._gate.mark(*people.marks)
        self._residual = left
        return left, climb

    def _climb(self, people: Population, left: Residual, setting: Setting, progress: bool) -> Climb:
        steps = setting.steps()
        event = self._event(setting, steps)
        setting.warn_if_hopeless(steps, event, str(self._allowance))
        count = setting.releases(steps)
        if self.calibration == "published":
            self._take_true_budget([(event, count)], type(self).__name__)
        if count:
            self._allowance.expect((event, count))
        gradient = self._gradient(people, left, setting)
        climb = Climb(setting, gradient, steps, event, np.zeros(setting.n_items), [])
        for k in track(range(steps), "steps", progress):
            self._step(climb, k)
        self._climbed = left.point(climb.point), steps
        return climb

    def _gradient(self, people: Population, left: Residual, setting: Setting) -> Gradient:
        """The gradient over the items that are left, on top of the included ones."""
        coins = self._gate.coins()
        gradient: Gradient
        if setting.sums:
            length = self._length(len(people))
            gradient = SummedGradient(people, self.bound, self.samples, coins, length)
        else:
            gradient = StatedGradient(people, self.samples, coins)
        return gradient if left.whole else GradientOnTop(gradient, left)

    def _take_true_budget(self, releases: list[tuple[Event, int]], what: str) -> None:
        """Go on at a gate with the budget that published constants really need; the same one for good.

        It is made before anything has been released: later releases add to what was spent, and are refused
        like any others.
        """
        if self._gate.spent.ledger.counts:
            return
        budget = true_budget(self.budget, releases, what)
        if budget != self.budget:
            self._allowance.gate = self._gate.enlarged(budget)

    def _step(self, climb: Climb, k: int) -> None:
        if self.noise != "exponential":
            self._noisy_step(climb, k)
        elif isinstance(climb.setting.constraint, Knapsack):
            self._filling_step(climb, climb.setting.constraint, k)
        else:
            self._base_step(climb, k)

    def _direction(self, climb: Climb, k: int) -> NDArray[Any]:
        """What step ``k`` (from 0) climbs by: the gradient at the point."""
        del k  # every step climbs by the same
        return climb.gradient.at(climb.point)

    def _base_step(self, climb: Climb, k: int) -> None:
        """Go to a base whose items are picked one by one."""
        constraint = climb.setting.constraint
        base: list[int] = []
        found = self._direction(climb, k) if climb.setting.picks else None
        while True:
            candidates = np.flatnonzero(constraint.addable(base))
            if candidates.size == 0:
                break
            if found is not None and base and self.update_within_steps:
                found = self._direction(climb, k)
            place = 0
            if candidates.size > 1 and found is not None:
                place = self._pick(climb, climb.gradient.scores(found[candidates]))
            base.append(int(candidates[place]))
            climb.total[base[-1]] += 1.0
        climb.sets.append(base)

    def _filling_step(self, climb: Climb, constraint: Knapsack, k: int) -> None:
        """Go to a full knapsack whose items are picked one by one, by entry per cost; the last may be cut."""
        costs = constraint.costs
        left = constraint.addable([]) & (costs > 0.0)
        climb.total[costs == 0.0] += 1.0
        room = constraint.capacity
        cheapest = float(costs[left].min()) if left.any() else 1.0
        # Relative to the cheapest, so that a person moves a score by no more than an entry.
        factors = np.where(left, cheapest / np.maximum(costs, cheapest), 0.0)
        found = self._direction(climb, k) if climb.setting.picks else None
        fresh = True
        while room > 1e-12 * constraint.capacity and left.any():
            candidates = np.flatnonzero(left)
            if found is not None and not fresh and self.update_within_steps:
                found = self._direction(climb, k)
            place, fresh = 0, False
            if candidates.size > 1 and found is not None:
                dense = climb.gradient.shrink(found[candidates], factors[candidates])
                place = self._pick(climb, climb.gradient.scores(dense))
            item = int(candidates[place])
            part = min(1.0, room / float(costs[item]))
            climb.total[item] += part
            room -= part * float(costs[item])
            left[item] = False

    def _pick(self, climb: Climb, scores: Floats) -> int:
        event = climb.event
        if isinstance(event, ExponentialChoice):
            return self._gate.choose(scores, event.rate, event.range, label="pick by gradient")
        self._gate.reserve(event, label="pick by gradient")
        return int(np.argmax(scores))

    def _noisy_step(self, climb: Climb, k: int) -> None:
        """Go to the best vertex for a gradient that is released with noise."""
        setting, constraint = climb.setting, climb.setting.constraint
        scores = climb.gradient.scores(self._direction(climb, k))
        noisy = self._noisy(scores, climb.event, "multilinear gradient", setting.change.changed)
        if isinstance(constraint, Matroid):
            # The objective is monotone: a base is never worse. The paper maximises over all of the polytope.
            vertex = constraint.maximize(noisy, base=self.calibration == "tight")
            climb.sets.append(np.flatnonzero(vertex).tolist())
        else:
            vertex = constraint.maximize(noisy)
        climb.total += vertex

    def _rounded(self, climb: Climb) -> tuple[int, ...]:
        """A feasible set from the point, without looking at anybody."""
        constraint = climb.setting.constraint
        if len(climb.sets) == 1:
            return tuple(climb.sets[0])
        coins = self._gate.coins()
        if isinstance(constraint, Matroid):
            chosen = swap_round(constraint, climb.sets, np.ones(len(climb.sets)), coins.generator)
        else:
            chosen = constraint.round(climb.point, coins.generator)
        # Those in which most steps agree first.
        order = np.argsort(-climb.point[chosen], kind="stable")
        return tuple(int(item) for item in chosen[order])
