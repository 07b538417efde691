"""Climb to a fractional point in a few private steps, then round it: continuous greedy."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from ..bounds import continuous as bounds
from ..constraints import Cardinality, Constraint, Knapsack, Matroid, swap_round
from ..core import checks
from ..core.fixed import Fixed
from ..core.progress import track
from ..core.turns import Turns
from ..objectives import MutualInformation, Population
from ..privacy import Account, Budget, Event, ExponentialChoice, Gate, GaussianNoise, LaplaceNoise, Seed
from ..privacy.published import true_budget
from ..results import Selection
from .continuous_noise import COMPOSITIONS, NOISES, calibrated
from .gradients import SAMPLES, Change, Slopes, StatedSlopes, SummedSlopes, check_people, touched_items

Floats = NDArray[np.float64]

CALIBRATIONS = ("tight", "published")
# More steps than this change the certificate by less than a hundredth and cost time.
_MOST_STEPS = 40
# Steps where nothing public says how many people there are (Chaturvedi, Nguyen and Zakynthinou 2021).
_USUAL_STEPS = 3


@dataclass(frozen=True)
class Setting:
    """What is public about a run: sizes, the constraint, and how far one person moves the slopes.

    ``reach`` is the largest sum of a feasible point, ``picks`` how many picks fill one step at most,
    ``most`` what the objective can reach at most and ``value`` how far one person moves it; ``most`` is None
    where the number of people is not public. ``sums`` is whether the objective is a sum over people.
    """

    constraint: Constraint
    n_items: int
    reach: float
    picks: int
    change: Change
    value: float
    most: float | None
    sums: bool


@dataclass
class Climb:
    """A point on its way up: ``point`` is the sum of the steps so far divided by their number in all."""

    setting: Setting
    slopes: Slopes
    steps: int
    event: Event
    total: Floats
    sets: list[list[int]]
    last: NDArray[Any] | None = None

    @property
    def point(self) -> Floats:
        return np.minimum(self.total / self.steps, 1.0)


class ContinuousGreedy(Fixed):
    """Choose a feasible set by private continuous greedy on the multilinear extension, and round it.

    K ``steps`` of size 1/K lead from 0 to a point of the constraint's polytope; each goes to a vertex where
    the slopes are large. How that vertex is found is the ``noise``:

    - ``"exponential"`` (the default, and the least noise almost always): the items of a base are picked one
      by one by the exponential mechanism, each by its slope; under a knapsack by slope per cost, until the
      capacity is full. ``update_within_steps`` looks at the slopes afresh after every pick, which costs more
      time, no privacy, and removes the second-order loss.
    - ``"laplace"``, ``"gaussian"``: all slopes are released with noise, once a step, and the vertex is their
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

    Formal guarantee. (epsilon, delta)-DP under the budget's neighbouring relation. Slopes of a monotone
    person lie in [0, bound], and are worked out person by person, rounded down to a public step and added up
    in integers, so one person moves each entry of the sum by at most ``bound``: no division by the number of
    people, no factor 2, no rounding error. Two entries are moved apart by 2 ``bound`` (replaced) or ``bound``
    (added or removed). Picks are exact, noise is exact on its grid, and the maximum over the polytope,
    averaging and rounding are post-processing; random sets for slopes without a closed form and the coins of
    rounding are public.

    Utility. E F(x) >= (1 - 1/e) best - `certified_loss`, for the fractional point x (``point_``, itself
    public once released). Swap rounding keeps it for matroids. For a knapsack it holds for the fractional
    point only: the best set can be worth little more than half of it (see `Knapsack`), and ``select`` loses
    up to the value of one item more. The set is feasible always.

    ``calibration="published"`` takes paper 003's constants (Lemmas 3 and 4, and the Gaussian version of its
    supplement, K from Theorem 3) with sensitivity 2 Delta per entry; the account reports what they deliver.
    An infinite epsilon gives the algorithm without privacy. One object is one budget: one `select`.

    >>> import discreet as dc
    >>> people = dc.objectives.Coverage([[1, 0, 0, 1], [0, 1, 0, 0], [0, 1, 1, 0]] * 400)
    >>> blocks = dc.constraints.PartitionMatroid([[0, 1], [2, 3]], [1, 1])
    >>> chosen = ContinuousGreedy(blocks, dc.Budget(1.0, 1e-6), seed=0).select(people)
    >>> sorted(chosen.items), chosen.privacy.epsilon() <= 1.0
    ([1, 3], True)
    """

    def __init__(
        self,
        constraint: Constraint | int,
        budget: Budget,
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
        seed: Seed = None,
    ) -> None:
        self.constraint = climbable(constraint)
        self.steps = (
            checks.one_of("steps", steps, ("auto",))
            if isinstance(steps, str)
            else checks.whole("steps", steps, at_least=1)
        )
        self.noise = checks.one_of("noise", noise, NOISES)
        self.composition = checks.one_of("composition", composition, COMPOSITIONS)
        self.calibration = checks.one_of("calibration", calibration, CALIBRATIONS)
        self.bound = checks.bound(bound)
        self.sensitivity = None if sensitivity is None else checks.real("sensitivity", sensitivity, above=0.0)
        self.items_per_person = (
            None
            if items_per_person is None
            else checks.whole("items_per_person", items_per_person, at_least=1)
        )
        self.samples = SAMPLES if samples is None else checks.whole("samples", samples, at_least=2)
        self.update_within_steps = bool(update_within_steps)
        self.max_people = None if max_people is None else checks.whole("max_people", max_people, at_least=1)
        self._gate, self._turns = Gate(budget, seed), Turns("chooser")
        # What calibrates everything. The gate's own budget may become a larger one: see `_published_gate`.
        self._claimed = budget
        self._check_settings()
        self._climbed: tuple[Floats, int] | None = None

    def _check_settings(self) -> None:
        budget = self.budget
        if self.calibration == "published":
            if self.noise == "exponential":
                raise ValueError(
                    'calibration="published" is for the noise of paper 003: take noise="laplace" or'
                    ' "gaussian"'
                )
            if not budget.private:
                raise ValueError(
                    'calibration="published" needs a finite epsilon; an infinite one has no published noise'
                )
            printed = ("auto", "basic") + (("advanced",) if self.noise == "laplace" else ())
            if self.composition not in printed:
                raise ValueError(
                    f"composition={self.composition!r} is not in paper 003 for noise={self.noise!r};"
                    f" take one of {', '.join(map(repr, printed))}"
                )
        elif self.noise == "gaussian" and self.composition not in ("auto", "zcdp"):
            raise ValueError(
                f"composition={self.composition!r} adds up pure epsilons, which Gaussian noise has none of;"
                ' take "auto" or "zcdp"'
            )
        if not budget.private or budget.delta > 0.0:
            return
        if self.noise == "gaussian":
            raise ValueError(
                'noise="gaussian" needs delta > 0; give the budget a delta or take another noise'
            )
        if self.composition in ("advanced", "zcdp"):
            raise ValueError(
                f'composition={self.composition!r} needs delta > 0; give the budget a delta or take "basic"'
            )

    # --- for users -------------------------------------------------------------------------------

    @property
    def budget(self) -> Budget:
        return self._gate.budget

    @property
    def point_(self) -> Floats | None:
        """The fractional point that was released; None before."""
        return None if self._climbed is None else self._climbed[0].copy()

    @property
    def steps_(self) -> int | None:
        """How many steps were taken; None before."""
        return None if self._climbed is None else self._climbed[1]

    @property
    def privacy(self) -> Account:
        """The account of what has been released so far."""
        return replace(self._gate.spent, notion=None)

    def select(self, people: Population, *, progress: bool = False) -> Selection:
        """A feasible set: the point of `fractional`, rounded with public coins."""
        with self._turns.take("select()"):
            climb = self._climb(people, progress)
            self._gate.mark(*people.marks)
            items = self._rounded(climb)
        labels = None if people.labels is None else tuple(people.labels[item] for item in items)
        return Selection(items, None, labels, self.privacy, climb.slopes.queries)

    def fractional(self, people: Population, *, progress: bool = False) -> Floats:
        """The point of the polytope before rounding. It spends the budget, as `select` does."""
        with self._turns.take("fractional()"):
            climb = self._climb(people, progress)
            self._gate.mark(*people.marks)
            return climb.point

    def certified_loss(self, people: int, n_items: int | None = None, curvature: float = 1.0) -> float:
        """A bound on (1 - kappa/e) best - E F(x), F the sum over this many people; from public sizes only.

        For slopes in closed form; sampled ones add their sampling error. Never more than choosing nothing
        would lose. With ``sensitivity=`` F is the objective itself. ``curvature`` is 1 here; see
        `CurvatureGreedy`.

        >>> import discreet as dc
        >>> round(ContinuousGreedy(5, dc.Budget(1.0, 1e-6)).certified_loss(32_710, n_items=285))
        283
        """
        self._check_curvature(curvature)
        count = checks.whole("people", people, at_least=1)
        size = self.constraint.n_items if n_items is None else n_items
        if size is None:
            raise ValueError(f"{self.constraint!r} does not know its ground set; give n_items")
        size = checks.whole("n_items", size, at_least=1)
        touched = min(size, self.items_per_person or size)
        setting = self._setting(self.constraint.over(size), size, touched, count)
        # As many steps as `select` would take, which may not know how many people there are.
        known = count if self.budget.neighbours == "replace" else self.max_people
        steps = self._steps(self._setting(self.constraint.over(size), size, touched, known))
        assert setting.most is not None
        loss = self._loss(setting, steps, self._event(setting, steps), curvature)
        return min(loss, (1.0 - curvature / math.e) * setting.most)

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a selector is not copied or pickled, or its budget could be spent twice; make a new one"
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.constraint!r}, noise={self.noise!r}, steps={self.steps!r})"

    # --- what is public --------------------------------------------------------------------------

    def _check_curvature(self, curvature: float) -> None:
        if checks.real("curvature", curvature) != 1.0:
            raise ValueError(f"curvature={curvature} helps CurvatureGreedy only; leave it at 1 here")

    def _checked_setting(self, people: Population) -> Setting:
        """Everything that can be wrong is found here, before anything is spent."""
        replaced = self.budget.neighbours == "replace"
        stated, bound = self.sensitivity, self.bound
        if stated is None and isinstance(people, MutualInformation) and replaced:
            stated, bound = people.sensitivity("replace", "value"), people.bound
        check_people(people, bound, stated is not None)
        if self.max_people is not None and len(people) > self.max_people:
            raise ValueError(
                f"there are more people than max_people={self.max_people}; declare a larger public number"
            )
        constraint = self.constraint.over(people.n_items)
        touched = touched_items(people, self.items_per_person)
        known = len(people) if replaced else self.max_people
        return self._setting(constraint, people.n_items, touched, known, stated, bound)

    def _setting(
        self,
        constraint: Constraint,
        n_items: int,
        touched: int,
        people: int | None,
        stated: float | None = None,
        bound: float | None = None,
    ) -> Setting:
        if constraint.rank == 0:
            raise ValueError(f"{constraint!r} lets nothing be chosen; give a constraint of rank 1 or more")
        stated = self.sensitivity if stated is None else stated
        bound = self.bound if bound is None else bound
        most: float | None = bound
        if stated is not None:
            # One step of picks from 0 only ever meets corners of the cube.
            corners = self.noise == "exponential" and self.update_within_steps
            corners &= self.steps == 1 or (self.steps == "auto" and self._greedy_suffices_under(constraint))
            corners &= isinstance(constraint, Matroid)
            change = Change.stated(stated, bound, n_items, corners_only=corners)
            value = stated
        else:
            change = Change.of_sum(bound, self.budget.neighbours, n_items, touched)
            value, most = bound, None if people is None else people * bound
        if isinstance(constraint, Knapsack):
            paid = constraint.costs[(constraint.costs > 0.0) & constraint.addable([])]
            # Full items make up a feasible set, and one more may be fractional; the last left is no choice.
            full = constraint.rank - int((constraint.costs == 0.0).sum())
            picks = min(full + 1, max(paid.size - 1, 0))
            # The cheapest items, as far as they fit, have the largest sum of entries.
            reach = float(constraint.maximize(np.ones(n_items)).sum())
            if self.noise == "exponential" and paid.size:
                reach = constraint.capacity / float(paid.min())
        else:
            picks, reach = constraint.rank, float(constraint.rank)
        if constraint.rank == n_items:
            picks = 0  # everything can be had together
        return Setting(constraint, n_items, reach, picks, change, value, most, stated is None)

    def _releases(self, setting: Setting, steps: int) -> int:
        """At most how many releases a run makes."""
        return steps * (setting.picks if self.noise == "exponential" else 1)

    def _steps(self, setting: Setting) -> int:
        if not isinstance(self.steps, str):
            return self.steps
        if self._greedy_suffices_under(setting.constraint):
            return 1
        if setting.most is None:
            return _USUAL_STEPS
        if self.calibration == "published":
            return bounds.published_steps(
                setting.n_items, setting.most, setting.reach, self._claimed.epsilon, setting.value
            )

        def loss(steps: int) -> float:
            return self._loss(setting, steps, self._event(setting, steps), 1.0)

        return min(range(1, _MOST_STEPS + 1), key=loss)

    def _greedy_suffices_under(self, constraint: Constraint) -> bool:
        """Whether one step is the greedy algorithm with 1 - 1/e of its own: picks of at most k items."""
        return (
            isinstance(constraint, Cardinality) and self.noise == "exponential" and self.update_within_steps
        )

    def _loss(self, setting: Setting, steps: int, event: Event, curvature: float) -> float:
        assert setting.most is not None
        sets = isinstance(setting.constraint, Matroid)
        if self.noise == "exponential" and self.update_within_steps:
            greedy = steps == 1 and self._greedy_suffices_under(setting.constraint)
            lost = 0.0 if greedy else bounds.lost_within_steps(steps, setting.most, curvature)
        else:
            lost = bounds.lost_between_steps(steps, setting.most, setting.reach, vertices_are_sets=sets)
        return (
            lost
            + bounds.lost_to_rounding(setting.most, setting.reach)
            + self._noise_loss(setting, steps, event)
        )

    def _noise_loss(self, setting: Setting, steps: int, event: Event) -> float:
        n, reach = setting.n_items, setting.reach
        if isinstance(event, ExponentialChoice):
            if isinstance(setting.constraint, Matroid):
                return bounds.lost_to_picks(n, reach, event.rate)
            return bounds.lost_to_knapsack_picks(n, reach, event.rate, steps * setting.picks)
        if isinstance(event, GaussianNoise):
            return bounds.lost_to_gaussian(n, reach, float(event.sigma))
        assert isinstance(event, LaplaceNoise)
        return bounds.lost_to_laplace(n, reach, float(event.scale))

    def _event(self, setting: Setting, steps: int, budget: Budget | None = None) -> Event:
        """One release of a run: the least noise that is valid under the chosen composition."""
        return calibrated(
            self.noise,
            self.composition,
            self._claimed if budget is None else budget,
            setting.change,
            max(1, self._releases(setting, steps)),
            published=(setting.n_items, setting.value) if self.calibration == "published" else None,
        )

    def _warn_if_hopeless(self, setting: Setting, steps: int, event: Event) -> None:
        """Say so when one choice is noisier than everybody together can be loud; public sizes only."""
        if setting.most is None or not self._claimed.private:
            return

        def noise_of(event: Event) -> float:
            return self._noise_loss(replace(setting, reach=1.0), steps, event)

        if setting.picks == 0 or noise_of(event) < setting.most:
            return
        low, high = 1.0, 2.0
        while high < 1e9 and noise_of(self._scaled(setting, steps, high)) >= setting.most:
            low, high = high, 2.0 * high
        for _ in range(20):
            middle = math.sqrt(low * high)
            loud = noise_of(self._scaled(setting, steps, middle)) >= setting.most
            low, high = (middle, high) if loud else (low, middle)
        warnings.warn(
            f"epsilon={self._claimed.epsilon:g} is too small for a choice better than chance: the noise of"
            f" one choice ({noise_of(event):.3g}) drowns even an item that everybody wants"
            f" ({setting.most:.3g}); epsilon={high * self._claimed.epsilon:.2g} would do, or more people",
            stacklevel=4,
        )

    def _scaled(self, setting: Setting, steps: int, factor: float) -> Event:
        return self._event(setting, steps, replace(self._claimed, epsilon=factor * self._claimed.epsilon))

    # --- the climb -------------------------------------------------------------------------------

    def _climb(self, people: Population, progress: bool) -> Climb:
        setting = self._checked_setting(people)
        steps = self._steps(setting)
        event = self._event(setting, steps)
        self._warn_if_hopeless(setting, steps, event)
        gate, count = self._gate, self._releases(setting, steps)
        if self.calibration == "published":
            gate = self._published_gate([(event, count)], type(self).__name__)
        if count:
            gate.expect((event, count))
        self._gate = gate
        coins = gate.coins()
        slopes: Slopes
        if setting.sums:
            slopes = SummedSlopes(people, self.bound, self.samples, coins)
        else:
            slopes = StatedSlopes(people, self.samples, coins)
        climb = Climb(setting, slopes, steps, event, np.zeros(people.n_items), [])
        for k in track(range(steps), "steps", progress):
            self._step(climb, k)
        self._climbed = climb.point, steps
        return climb

    def _published_gate(self, releases: list[tuple[Event, int]], what: str) -> Gate:
        """A gate with the budget that published constants really need; the same one for good.

        It is made before anything has been released: later releases add to what was spent, and are refused
        like any others.
        """
        if self._gate.spent.ledger.counts:
            return self._gate
        budget = true_budget(self._claimed, releases, what)
        return self._gate if budget == self._claimed else self._gate.enlarged(budget)

    def _step(self, climb: Climb, k: int) -> None:
        if self.noise != "exponential":
            self._noisy_step(climb, k)
        elif isinstance(climb.setting.constraint, Knapsack):
            self._filling_step(climb, climb.setting.constraint, k)
        else:
            self._base_step(climb, k)

    def _slopes(self, climb: Climb, k: int) -> NDArray[Any]:
        """What step ``k`` (from 0) climbs by: the slopes at the point."""
        del k  # every step climbs by the same
        return climb.slopes.at(climb.point)

    def _base_step(self, climb: Climb, k: int) -> None:
        """Go to a base whose items are picked one by one."""
        constraint = climb.setting.constraint
        base: list[int] = []
        slopes = self._slopes(climb, k) if climb.setting.picks else None
        while True:
            candidates = np.flatnonzero(constraint.addable(base))
            if candidates.size == 0:
                break
            if slopes is not None and base and self.update_within_steps:
                slopes = self._slopes(climb, k)
            place = 0
            if candidates.size > 1 and slopes is not None:
                place = self._pick(climb, climb.slopes.scores(slopes[candidates]))
            base.append(int(candidates[place]))
            climb.total[base[-1]] += 1.0
        climb.sets.append(base)

    def _filling_step(self, climb: Climb, constraint: Knapsack, k: int) -> None:
        """Go to a full knapsack whose items are picked one by one, by slope per cost; the last may be cut."""
        costs = constraint.costs
        left = constraint.addable([]) & (costs > 0.0)
        climb.total[costs == 0.0] += 1.0
        room = constraint.capacity
        cheapest = float(costs[left].min()) if left.any() else 1.0
        # Relative to the cheapest, so that a person moves a score by no more than a slope.
        factors = np.where(left, cheapest / np.maximum(costs, cheapest), 0.0)
        slopes = self._slopes(climb, k) if climb.setting.picks else None
        fresh = True
        while room > 1e-12 * constraint.capacity and left.any():
            candidates = np.flatnonzero(left)
            if slopes is not None and not fresh and self.update_within_steps:
                slopes = self._slopes(climb, k)
            place, fresh = 0, False
            if candidates.size > 1 and slopes is not None:
                dense = climb.slopes.shrink(slopes[candidates], factors[candidates])
                place = self._pick(climb, climb.slopes.scores(dense))
            item = int(candidates[place])
            share = min(1.0, room / float(costs[item]))
            climb.total[item] += share
            room -= share * float(costs[item])
            left[item] = False

    def _pick(self, climb: Climb, scores: Floats) -> int:
        event = climb.event
        if isinstance(event, ExponentialChoice):
            return self._gate.choose(scores, event.rate, event.range, label="pick by slope")
        self._gate.reserve(event, label="pick by slope")
        return int(np.argmax(scores))

    def _noisy_step(self, climb: Climb, k: int) -> None:
        """Go to the best vertex for slopes that are released with noise."""
        constraint, event = climb.setting.constraint, climb.event
        scores = climb.slopes.scores(self._slopes(climb, k))
        changed = climb.setting.change.changed
        if isinstance(event, GaussianNoise):
            noisy = self._gate.gaussian(
                scores, event.sigma, event.sensitivity, changed=changed, label="slopes"
            )
        else:
            assert isinstance(event, LaplaceNoise)
            noisy = self._gate.laplace(
                scores, event.scale, event.sensitivity, changed=changed, label="slopes"
            )
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


def climbable(constraint: Constraint | int) -> Constraint:
    """A matroid or a knapsack; a number k stands for at most k items."""
    if isinstance(constraint, int | np.integer) and not isinstance(constraint, bool):
        return Cardinality(checks.whole("constraint", constraint, at_least=1))
    if not isinstance(constraint, Constraint):
        raise TypeError(
            f"constraint must be a Constraint such as Cardinality(5), got {checks.shown(constraint)}"
        )
    if not isinstance(constraint, Matroid | Knapsack):
        raise TypeError(
            f"continuous greedy climbs in the polytope of a matroid or a knapsack, not of {constraint!r}; use"
            " PrivateGreedy"
        )
    return constraint
