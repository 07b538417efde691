"""Choose a set every round so that submodular costs stay low, seeing only what each set cost."""

from __future__ import annotations

import math
import warnings
from bisect import bisect_right
from collections.abc import Callable, Hashable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ... import backends
from ...bounds import minimization as bounds
from ...core import checks
from ...core.progress import track
from ...core.state import Saved
from ...privacy import (
    Account,
    Budget,
    Coins,
    Event,
    LaplaceNoise,
    RunningSum,
    Seed,
    SumSpec,
    TreeSum,
    VectorBounds,
    samplers,
    tree_levels,
)
from ...privacy.conversions import exact
from ...privacy.events import SphericalLaplaceNoise
from ...privacy.published import true_budget
from ..protocol import Stream
from .lovasz_sums import ROUNDING
from .minimizer import BOLDER, SetMinimizer, checked_question

if TYPE_CHECKING:
    from ...backends.arguments import Cuts

FORMS = ("values", "tree")
# Batches longer than the certificate's best tell more about people whose costs are far below the bound.
_LONGER = 1.25
_LABEL = "sum of a batch's costs (nobody is in two batches)"


class BanditSubmodularMinimizer(SetMinimizer):
    """Follow the regularised leader on estimates of the gradient, each made from what one set cost.

    The point x in [0, 1]^n passes through a chain of sets B_0 (empty) to B_n (everything), and holds B_i with
    weight mu_i. The set served is B_i with chance rho_i = (1 - gamma) mu_i + gamma / (n + 1); its cost y
    makes the estimate y (e_i - e_{i+1}) / rho_i, with e_i for the chain's i-th item, which is a gradient of
    the Lovasz extension on average. (Paper 001's BANDITSUBMODPRFTL doubles one of the two by a coin, which
    doubles the estimate's mean square.)

    ``form="values"`` (the default): the same set for ``batch`` rounds, and Laplace noise on the sum of their
    costs. ``form="tree"``: a new set every round, exact estimates, and Laplace noise in a tree of their sums.
    ``learn`` takes the observed cost, a number in [-``bound``, ``bound``]. ``exploration`` is gamma,
    ``regularization`` H. What is not given comes from the certified regret: gamma where it is smallest, a
    batch as long as a quarter more of it allows, and half of its best H. Horizons for which gamma would
    exceed 1 are refused. As for `SubmodularMinimizer`, there is no strongly convex case.

    Formal guarantee: pure epsilon. ``"values"``: a person's cost enters one sum and moves it by at most
    2 ``bound`` (``bound``, when added or removed); costs are summed in fixed point, and everything after
    the noise is post-processing. ``"tree"``: an estimate moves by at most 4 ``bound`` (n + 1) / gamma in L1.
    Both hold for people chosen with knowledge of all earlier sets.

    ``calibration="published"``: the paper's gamma = n^(3/2) / T^(1/3) (at most 1, with a warning below
    T = n^(9/2)), H = M T^(2/3), and a tree of spherical noise for the estimates' *expected* length. No fixed
    epsilon holds for that: the true one grows as 1 / sqrt(gamma), and the account says how far.

    >>> import discreet as dc
    >>> learner = BanditSubmodularMinimizer(3, 3000, dc.Budget(1.0), seed=0)
    >>> for _ in range(3000):
    ...     learner.learn(-0.8 if 0 in learner.choose() else 0.8)
    >>> learner.privacy.epsilon(), bool(learner.point[0] > 0.8)
    (1.0, True)
    """

    def __init__(
        self,
        n_items: int,
        rounds: int,
        budget: Budget,
        bound: float = 1.0,
        *,
        form: str = "values",
        batch: int | None = None,
        exploration: float | None = None,
        regularization: float | None = None,
        calibration: str = "tight",
        labels: Sequence[Any] | None = None,
        clip: bool = False,
        seed: Seed = None,
    ) -> None:
        items, horizon, budget, largest = checked_question(n_items, rounds, budget, bound)
        published = calibration == "published"
        self.form = checks.one_of("form", form, FORMS)
        batch, exploration = _checked_choices(horizon, "tree" if published else form, batch, exploration)
        self._centre = 0.0 if published else 0.5
        event: Event | None = None
        if published:
            self.form, self.batch = "tree", 1
            self.exploration = published_exploration(items, horizon) if exploration is None else exploration
            event = published_event(items, horizon, budget, largest, self.exploration)
            wanted = largest * math.exp(math.log(horizon) * 2.0 / 3.0)
            if horizon > 1:
                releases = [(event, tree_levels(horizon - 1))]
                budget = true_budget(budget, releases, "BanditSubmodularMinimizer")
        else:
            question = (items, horizon, budget, largest)
            self.batch, self.exploration = settled(*question, self.form, batch, exploration)
            price = learning_price(*question, self.form, self.batch, self.exploration)
            wanted = BOLDER * _best_regularization(items, horizon, self.batch, self.exploration, price)
        self.regularization = checks.real(
            "regularization", wanted if regularization is None else regularization, above=0.0
        )
        super().__init__(
            items, horizon, budget, bound=bound, calibration=calibration, labels=labels, clip=clip, seed=seed
        )
        self._coins = self._gate.coins()
        self._event = value_event(budget, largest)
        self._sum = self._reserved(lambda: self._made_sum(event))
        self._known = np.zeros(items)
        self._pending = np.zeros(items)
        self._gathered = 0  # units of cost in the open batch
        self._order = np.arange(items)
        self._place, self._chance, self._side = 0, 1.0, 0.0
        self._released = 0

    def _reserved(self, make: Callable[[], RunningSum | None]) -> RunningSum | None:
        """Reserve what will be released: noisy sums of batches, or a tree that ``make`` makes."""
        if self.horizon <= self.batch:
            return None
        if self.form == "values":
            self._values_release = self._gate.reserve(self._event, 1, label=_LABEL)
            return None
        return make()

    def _made_sum(self, event: Event | None) -> RunningSum:
        most = _largest_estimate(self.n_items, self.bound, self.exploration)
        noise = "spherical" if self.calibration == "published" else "laplace"
        moves = _estimate_moves(self.n_items, self.bound, self.exploration, self.budget.neighbours)
        vectors = VectorBounds(self.n_items, 1 if noise == "laplace" else 2, most, apart=moves)
        spec = SumSpec(vectors, self.horizon - 1, "tree", noise)
        return spec.make(self._gate, event=event, label="estimates")

    # --- for users -------------------------------------------------------------------------------

    def learn(self, value: float, *, person_id: Hashable | None = None) -> None:
        """Learn what this round's set cost its person, a number in [-``bound``, ``bound``]."""
        super().learn(value, person_id=person_id)

    @property
    def point(self) -> NDArray[np.float64]:
        """The point of [0, 1]^n whose chain of sets is served."""
        return np.clip(self._centre - self._known / self.regularization, 0.0, 1.0)

    @property
    def certified_regret(self) -> float:
        """Bound on the expected cost beyond the best fixed set's, over the declared rounds.

        For people who were fixed beforehand; where they depend on the sets of earlier batches, beyond that of
        any one set named beforehand. (An adversary who sees the set in the middle of its batch can do worse.)
        """
        if self.calibration == "published":
            event = None if self._sum is None else self._sum.event
            scale = float(event.scale) if isinstance(event, LaplaceNoise) else 0.0
            draws = TreeSum.mean_draws(self.horizon)
            noise = bounds.moved_by(self.n_items, "spherical", scale, draws, self.bound)
            price = bounds.estimate_price(self.n_items, noise * self.exploration, self.bound, one_sided=True)
        else:
            question = (self.n_items, self.horizon, self.budget, self.bound)
            price = learning_price(*question, self.form, self.batch, self.exploration)
        return bounds.explored(
            self.n_items,
            self.horizon,
            self.batch,
            self.exploration,
            self.regularization,
            price,
            self.bound,
            centre=self._centre,
        )

    @staticmethod
    def certify(
        n_items: int,
        rounds: int,
        budget: Budget,
        *,
        bound: float = 1.0,
        form: str = "values",
        batch: int | None = None,
        exploration: float | None = None,
        regularization: float | None = None,
    ) -> float:
        """`certified_regret` of a learner with these settings, without making one; trivial where none is."""
        question = checked_question(n_items, rounds, budget, bound)
        batch, exploration = _checked_choices(rounds, form, batch, exploration)
        try:
            length, gamma = settled(*question, form, batch, exploration)
        except HorizonTooShort:
            return bounds.trivial_cost(rounds, bound)
        price = learning_price(*question, form, length, gamma)
        strength = BOLDER * _best_regularization(n_items, rounds, length, gamma, price)
        if regularization is not None:
            strength = checks.real("regularization", regularization, above=0.0)
        return bounds.explored(n_items, rounds, length, gamma, strength, price, bound)

    # --- for the protocol ------------------------------------------------------------------------

    def _due(self) -> bool:
        return self._round % self.batch == 0

    def _draw(self) -> NDArray[np.float64]:

        if self._round:
            self._know_more()
        coin, self._side = (float(c) for c in self._coins.generator.random(2))
        shown = np.empty(self.n_items)
        self._place, self._chance = backends.minimization.draw_from_chain(
            self._known,
            self.regularization,
            self._centre,
            self.exploration,
            coin,
            self._order,
            shown,
        )
        return shown

    def _know_more(self) -> None:
        """Release what the batch cost, or the sum of the estimates, and learn from it."""
        if self._sum is not None:
            estimate, self._pending = self._pending, np.zeros(self.n_items)  # nobody is to be added twice
            if self._sum.taken < self._sum.rounds:  # fewer are left where a draw was interrupted and repeated
                self._known = self._sum.add(estimate)
            return
        units, self._gathered = self._gathered, 0
        self._released += 1
        self._known = self._known + self._estimate(self._noisy(units) / self.batch)

    def _noisy(self, units: int) -> float:
        """A batch's sum as it leaves: on a grid, with the Laplace noise that was reserved for it.

        In whole numbers throughout, because a float holds the sum of a very long batch only roughly.
        """
        grid = self._grid
        if grid is None:
            return math.ldexp(units, -self._shift)
        power = grid.exponent + self._shift
        steps = (units << max(-power, 0)) // (grid.mantissa << max(power, 0))
        noise = self._values_release.steps(1)
        return float(steps + int(noise[0])) * float(grid.step)

    @cached_property
    def _grid(self) -> samplers.Grid | None:
        event = self._event
        return samplers.Grid.for_noise(event.scale, event.sensitivity, 1) if event.scale else None

    def _estimate(self, value: float) -> NDArray[np.float64]:
        """An estimate of the gradient at x, from what the served set cost."""
        estimate = np.zeros(self.n_items)
        place, order, size = self._place, self._order, value / self._chance
        rise, fall = (1.0 if place > 0 else 0.0), (1.0 if place < self.n_items else 0.0)
        if self.calibration == "published" and rise and fall:
            rise, fall = (2.0, 0.0) if self._side < 0.5 else (0.0, 2.0)
        if rise:
            estimate[order[place - 1]] += rise * size
        if fall:
            estimate[order[place]] -= fall * size
        return estimate

    @property
    def _shift(self) -> int:
        """Costs are counted in units of 2^-shift, of which 2^31 to 2^32 make the bound."""
        return 32 - math.frexp(self.bound)[1]

    def _prepared(self, person: Any) -> tuple[float, bool]:
        value = checks.real("the cost", person)
        outside = abs(value) > self.bound * (1.0 + ROUNDING)
        if outside and not self.clip:
            raise ValueError(
                f"the cost {value:.6g} is outside [-{self.bound:g}, {self.bound:g}]; rescale costs, declare a"
                " larger bound, or pass clip=True"
            )
        return min(max(value, -self.bound), self.bound), outside

    def _absorb(self, person: tuple[float, bool]) -> None:
        value, clipped = person
        self._clipped += clipped
        if self.form == "tree":
            self._pending = self._estimate(value)
        else:
            self._gathered += self._units(value)

    def _units(self, value: float) -> int:
        most = math.floor(math.ldexp(self.bound, self._shift))
        return min(max(math.floor(math.ldexp(value, self._shift)), -most), most)

    def _run(self, stream: Stream) -> None:
        from ...objectives import GraphCut

        if isinstance(stream.people, GraphCut):
            super()._run(stream)
            return
        for t in track(range(stream.rewards.size), "rounds", stream.progress):
            decision = self._next()
            stream.rewards[t] = self._worth(stream.people[t], decision)
            stream.selections[t] = self._row(decision)
            self._take(self._prepared(stream.rewards[t]), bool(stream.admitted[t]))

    def _run_cuts(self, stream: Stream, cuts: Cuts) -> None:

        costs, count, first = stream.rewards, stream.rewards.size, 0
        while first < count:
            self._next()
            assert self._shown is not None
            stop = min(count, first + self.batch - self._round % self.batch)
            backends.minimization.cut_values(cuts, first, self._shown, costs[first:stop])
            stream.selections[first:stop] = self._shown
            for t in range(first, stop):
                self._take(self._prepared(float(costs[t])), bool(stream.admitted[t]))
            first = stop

    def _spent(self) -> Account:
        if self._sum is not None:
            return self._gate.spent if self._sum.taken else self._account()
        return self._account((_LABEL, self._event, 1 if self._released else 0))

    # --- saving ----------------------------------------------------------------------------------

    def _settings(self) -> dict[str, Any]:
        settings = super()._settings() | {
            "form": self.form,
            "batch": self.batch,
            "exploration": self.exploration,
            "regularization": self.regularization,
            "centre": self._centre,
            "event": self._event.to_json(),
            "gathered": self._gathered,
            "place": self._place,
            "chance": self._chance,
            "side": self._side,
            "released": self._released,
            "coins": self._coins.state(),
        }
        if self._sum is not None:
            settings["sum"] = self._sum.state()[0]
        return settings

    def _arrays(self) -> dict[str, NDArray[Any]]:
        arrays: dict[str, NDArray[Any]] = {
            "known": self._known,
            "pending": self._pending,
            "order": self._order,
        }
        if self._sum is not None:
            arrays |= {f"sum_{name}": array for name, array in self._sum.state()[1].items()}
        return arrays

    def _restore(self, saved: Saved) -> None:
        super()._restore(saved)
        self.form = saved.one_of("form", FORMS)
        self.batch = saved.whole("batch", at_least=1, at_most=self.horizon if self.form == "values" else 1)
        self.exploration = saved.real("exploration", above=0.0, at_most=1.0)
        self.regularization = saved.real("regularization", above=0.0)
        self._centre = saved.real("centre", at_least=0.0, at_most=1.0)
        self._coins = Coins.restored(saved.inner("coins"))
        event = Event.from_json(saved.plain("event"))
        needed = value_event(self.budget, self.bound)
        if type(event) is not LaplaceNoise or exact(event.sensitivity) < exact(needed.sensitivity):
            raise ValueError(f"event={event} is not for costs within [-{self.bound:g}, {self.bound:g}]")
        self._event = event
        shape = (self.n_items,)
        self._known, self._pending = saved.array("known", shape), saved.array("pending", shape)
        self._order = saved.array("order", shape, np.int64)
        if not np.array_equal(np.sort(self._order), np.arange(self.n_items)):
            raise ValueError("the array order does not name every item once")
        self._place = saved.whole("place", at_least=0, at_most=self.n_items)
        self._chance = saved.real("chance", above=0.0, at_most=1.0)
        self._side = saved.real("side", at_least=0.0, at_most=1.0)
        most = math.ceil(math.ldexp(self.bound, self._shift)) * min(self.batch, self._round)
        self._gathered = saved.hidden("gathered", at_least=-most, at_most=most)
        released = max(0, self._drawn(self.batch) - 1)
        self._released = saved.whole("released", at_least=released if self.form == "values" else 0)
        releases = self.horizon - 1 if self.form == "tree" else 0
        self._sum = self._reserved(lambda: self._resumed_sum(saved, releases, self._made_sum, released))
        if self._sum is not None:
            self._sum.bounds.checked(self._pending, clip=False)


class HorizonTooShort(ValueError):
    """So few rounds that exploring would take more than all of them."""


def _checked_choices(
    rounds: int, form: str, batch: int | None, exploration: float | None
) -> tuple[int | None, float | None]:
    checks.one_of("form", form, FORMS)
    if batch is not None:
        batch = checks.whole("batch", batch, at_least=1, at_most=rounds)
    if exploration is not None:
        exploration = checks.real("exploration", exploration, above=0.0, at_most=1.0)
    if form == "tree" and batch not in (None, 1):
        raise ValueError(f'batch={batch}, but only form="values" has batches; leave it out')
    return batch, exploration


def value_event(budget: Budget, bound: float) -> LaplaceNoise:
    """Laplace noise on a sum of costs, which one person moves by 2 bound (replaced) or by bound."""
    return LaplaceNoise.within(budget.share(), bound * (2.0 if budget.neighbours == "replace" else 1.0))


def published_exploration(n_items: int, rounds: int) -> float:
    """Paper 001's gamma, clamped to 1 with a warning where the horizon is too short for it."""
    gamma = bounds.published_exploration(n_items, rounds)
    if gamma <= 1.0:
        return gamma
    warnings.warn(
        f"rounds={rounds} is too short for the published gamma, {gamma:.3g} for {n_items} items; it is set to"
        f" 1. At least n^4.5 = {math.ceil(n_items**4.5)} rounds are needed",
        UserWarning,
        stacklevel=4,
    )
    return 1.0


def published_event(
    n_items: int, rounds: int, budget: Budget, bound: float, exploration: float
) -> SphericalLaplaceNoise:
    """A node of paper 001's bandit tree: noise for 4 M n / sqrt(gamma), the estimates' expected length."""
    moves = _estimate_moves(n_items, bound, exploration, budget.neighbours)
    if not budget.private:
        return SphericalLaplaceNoise(moves, 0.0)
    levels = math.ceil(math.log2(rounds)) + 1
    length = 4.0 * bound * n_items / math.sqrt(exploration)
    return SphericalLaplaceNoise(moves, length * levels / budget.epsilon)


def settled(
    n_items: int,
    rounds: int,
    budget: Budget,
    bound: float,
    form: str,
    batch: int | None,
    exploration: float | None,
) -> tuple[int, float]:
    """Batch and exploration as given, or those of (nearly) the smallest certified regret."""

    def price(length: int) -> float:
        if form == "values":
            return bounds.value_price(n_items, length, scale, bound)
        return learning_price(n_items, rounds, budget, bound, form, length, 1.0)

    def share(length: int) -> float:
        return bounds.best_exploration(n_items, rounds, length, price(length), bound)

    # The certified regret is 6 gamma M T at the best gamma, whatever the batch B. That gamma's cube grows as
    # B + 2 (scale / M)^2 / B, which falls up to its smallest place and rises from there.
    scale = float(value_event(budget, bound).scale)
    if form == "tree":
        best = 1
    elif batch is None:
        best = _smallest_at(share, math.sqrt(2.0) * scale / bound, rounds)
    else:
        best = batch
    least = share(best)
    if exploration is None and least > 1.0:
        needed = bounds.rounds_needed(n_items, best, price(best), bound)
        raise HorizonTooShort(
            f"rounds={rounds} is too short to explore the sets of n_items={n_items}: the share of exploring"
            f" rounds would be {least:.3g}; at least {needed} rounds are needed, or say how much to explore"
            " by exploration="
        )
    longest = best
    if form == "values" and batch is None:
        enough = range(best, min(rounds, 4 * best + 4) + 1)
        longest = enough[bisect_right(enough, min(_LONGER * least, max(1.0, least)), key=share) - 1]
    return longest, share(longest) if exploration is None else exploration


def _smallest_at(share: Callable[[int], float], place: float, rounds: int) -> int:
    """The whole number from 1 to ``rounds`` with the smallest share, if a real one would be ``place``."""
    below = min(max(1, math.floor(place)), rounds)
    return min(below, min(below + 1, rounds), key=share)


def learning_price(
    n_items: int, rounds: int, budget: Budget, bound: float, form: str, batch: int, exploration: float
) -> float:
    """What learning costs a round, times gamma H: see `bounds.minimization.explored`."""
    if form == "values":
        return bounds.value_price(n_items, batch, float(value_event(budget, bound).scale), bound)
    moves = _estimate_moves(n_items, bound, exploration, budget.neighbours)
    scale = float(LaplaceNoise.within(budget.share(), moves, tree_levels(max(1, rounds - 1))).scale)
    noise = bounds.moved_by(n_items, "laplace", scale, TreeSum.mean_draws(rounds), bound)
    return bounds.estimate_price(n_items, noise * exploration, bound)


def _best_regularization(n_items: int, rounds: int, batch: int, exploration: float, price: float) -> float:
    return math.sqrt(8.0 * rounds * price / (exploration * n_items * batch))


def _largest_estimate(n_items: int, bound: float, exploration: float) -> float:
    """Longest estimate, in L1 (of the two-sided one) and in L2 (of the one-sided one)."""
    sides = 1.0 if n_items == 1 else 2.0
    return sides * bound * (n_items + 1.0) / exploration * (1.0 + ROUNDING)


def _estimate_moves(n_items: int, bound: float, exploration: float, neighbours: str) -> float:
    """How far a person can move an estimate: the set, and so its place, is public; the cost is theirs."""
    return _largest_estimate(n_items, bound, exploration) * (2.0 if neighbours == "replace" else 1.0)
