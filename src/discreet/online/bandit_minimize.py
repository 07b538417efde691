"""Submodular minimization with bandit feedback: only the cost of each chosen set is seen."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..bounds import minimization as bounds
from ..core import checks
from ..core.options import Calibration, MinimizerForm, NoiseLaw, Regularization
from ..kernels.minimization import Cuts
from ..privacy import (
    Event,
    LaplaceNoise,
    Seed,
    Share,
    SphericalLaplaceNoise,
    SumSpec,
    VectorBounds,
)
from ..privacy.accountant import Spending
from .learner import Stream
from .minimize import (
    ROUNDING,
    SetMinimizer,
    SetMinimizerSettings,
    noise_cost,
    published_regularization,
    wanted_regularization,
)
from .sums import CostTotal, PrivateTotal, calibrated
from .thompson import Beliefs, Features, Floats, Independent, Joint, Posterior

# As for `ThompsonSelector`, but chosen on streams of `cuts_and_prices`, other ones than the benchmark's.
WARM_UP = 12
_MOST_TOGETHER, _MOST_PAIRED = 300, 25
# The prior deviation of a pair's cost relative to an item's; the variance of a person's cost; how many
# posterior deviations drawn weights stray from the mean.
_PAIR, _VARIANCE, _SPREAD = 0.25, 0.1, 0.6


class SetCosts(Beliefs):
    """Beliefs about costs: those of a set are a constant plus weights of items and (up to 25 items) of pairs.

    ``scale`` is that of the noise on the sum of a block, in units of the bound.
    """

    def __init__(self, n_items: int, block: int, scale: float) -> None:
        self._n_items, self._block = n_items, block
        self._error = _VARIANCE / block + 2.0 * (scale / block) ** 2
        # The features: the constant is 0, items are numbered from 1, then pairs (the upper triangle).
        self._above = np.triu_indices(n_items if n_items <= _MOST_PAIRED else 0, 1)
        self._number = np.zeros((n_items, n_items), dtype=np.int64)
        self._number[self._above] = 1 + n_items + np.arange(self._above[0].size)
        super().__init__(WARM_UP, 1 + n_items + self._above[0].size, n_items <= _MOST_TOGETHER)

    def _begin(self, values: Floats) -> Posterior:
        """The prior: a random set has each item with probability 1/2, so an item's deviation counts half."""
        known = max(float(np.mean(values**2)) - self._error, 0.1 * self._error)
        deviations = np.full(self._size, 2.0 * math.sqrt(known / self._n_items))
        deviations[1 + self._n_items :] *= _PAIR
        mean = np.zeros(self._size)
        return Joint(mean, np.diag(deviations)) if self._together else Independent(mean, deviations**2)

    def _learn(self, posterior: Posterior, shown: NDArray[Any], values: Floats, part: float = 1.0) -> None:
        posterior.observe(self._features(shown), float(values[0]), self._error / part)

    def _features(self, shown: NDArray[Any]) -> Features:
        items = np.flatnonzero(shown)
        pairs = self._number[items[:, None], items]
        return np.concatenate([np.zeros(1, dtype=np.int64), items + 1, pairs[pairs > 0]])

    def suggest(self, generator: np.random.Generator, last: Floats | None) -> Floats:
        """A set to show, as an indicator vector: random at first, then a cheap one for drawn weights."""
        if self._posterior is None:
            return (generator.random(self._n_items) < 0.5).astype(np.float64)
        return self._cheap(self._posterior.draw(generator, _SPREAD), last)

    @property
    def best(self) -> Floats:
        """A cheap set for the posterior mean, as an indicator vector; 1/2 for every item before that."""
        if self._posterior is None:
            return np.full(self._n_items, 0.5)
        return self._cheap(self._posterior.mean, None)

    def _cheap(self, weights: Floats, last: Floats | None) -> Floats:
        items = weights[1 : self._n_items + 1]
        if not self._above[0].size:
            return (items < 0.0).astype(np.float64)
        pairs = np.zeros((self._n_items, self._n_items))
        pairs[self._above] = weights[self._n_items + 1 :]
        pairs += pairs.T
        starts = [np.zeros(self._n_items)] if last is None else [np.zeros(self._n_items), last.copy()]
        found = [_descended(items, pairs, start) for start in starts]
        return min(found, key=lambda one: float(items @ one + one @ pairs @ one / 2.0))


def _descended(items: Floats, pairs: Floats, shown: Floats) -> Floats:
    """Local search from ``shown``: add or remove the item that saves most, until none saves anything."""
    added = items + pairs @ shown
    for _ in range(4 * items.size):
        saves = np.where(shown > 0.0, added, -added)
        item = int(np.argmax(saves))
        if saves[item] <= 0.0:
            break
        change = 1.0 - 2.0 * shown[item]
        shown[item] += change
        added += change * pairs[item]
    return shown


FORMS = ("values", "tree", "thompson")
# By how much longer batches may worsen the certificate: they tell more where costs are far below the bound.
_LONGER = 1.25
# For Thompson sampling: epsilon times the rounds of a batch, and the least number of batches in a horizon.
_THOMPSON_ROUNDS, _FEWEST_BATCHES = 80.0, 24


class HorizonTooShort(ValueError):
    """The horizon is so short that exploring would take more than all of its rounds."""


@dataclass(frozen=True, kw_only=True)
class BanditMinimizerSettings(SetMinimizerSettings):
    """Settings of `BanditSubmodularMinimizer`.

    ``event`` is the noise on a batch's sum of costs, or on a node of the tree of estimates. Thompson sampling
    uses neither exploration rate nor regularization; both are 1.
    """

    paper: ClassVar[str] = "BanditSubmodularMinimizer"
    tuned: ClassVar[tuple[str, ...]] = ()

    form: str
    batch: int
    exploration_rate: float = 1.0
    event: Event

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.whole("batch", self.batch, at_least=1, at_most=1 if self.form == "tree" else self.rounds)

    @classmethod
    def tight(
        cls,
        share: Share,
        *,
        form: str = "values",
        batch: int | None = None,
        exploration_rate: float | None = None,
        regularization: float | Regularization = "auto",
        **asked: Any,
    ) -> BanditMinimizerSettings:
        """The given numbers, and the rest by the certificate; raises `HorizonTooShort` if there is none."""
        checks.one_of("form", form, FORMS)
        asked |= {"calibration": "tight", "neighbours": share.neighbours, "form": form}
        asked["event"] = value_noise(share, checks.real("bound", asked.get("bound", 1.0), above=0.0))
        one = cls(**asked, batch=1)
        length, rate = _given(one.rounds, form, batch, exploration_rate)
        if form == "thompson":
            if rate is not None or regularization != "auto":
                raise ValueError(
                    'form="thompson" has neither exploration_rate= nor regularization=; leave both out'
                )
            return replace(one, batch=length or _thompson_batch(one.rounds, share))

        def trial(length: int, rate: float) -> BanditMinimizerSettings:
            found = replace(one, batch=length, exploration_rate=rate)
            if form == "values":
                return found
            tree = found._estimates(max(1, found.releases))
            return replace(found, event=tree.event(share, share.definition))

        found = trial(*_settled(trial, length, rate))
        careful = found.best_regularization(found.second_moment)
        optimistic = found.best_regularization(found.second_moment_without_noise)
        return replace(found, regularization=wanted_regularization(regularization, careful, optimistic))

    @classmethod
    def published(
        cls,
        share: Share,
        *,
        form: str = "tree",
        batch: int | None = None,
        exploration_rate: float | None = None,
        regularization: float | Regularization = "auto",
        **asked: Any,
    ) -> BanditMinimizerSettings:
        """The constants of paper 001, always for a tree; warns if the horizon is too short for its gamma."""
        checks.one_of("form", form, FORMS)
        asked |= {"calibration": "published", "neighbours": share.neighbours, "centre": 0.0}
        draft = cls(**asked, form="tree", batch=1, event=SphericalLaplaceNoise(1.0, 1.0))
        size, horizon, bound = draft.n_items, draft.rounds, draft.bound
        _, rate = _given(horizon, "tree", batch, exploration_rate)
        gamma = _published_rate(size, horizon) if rate is None else rate
        # The paper's noise is for the estimates' expected length, and for one level more than is released.
        levels, length = math.ceil(math.log2(horizon)) + 1, 4.0 * bound * size / math.sqrt(gamma)
        moves = _estimate_moves(size, bound, gamma, share.neighbours)
        event = SphericalLaplaceNoise(moves, length * levels / share.budget.epsilon)
        held = published_regularization(regularization, bound * math.exp(math.log(horizon) * 2.0 / 3.0))
        return replace(draft, exploration_rate=gamma, regularization=held, event=event)

    # --- what follows ----------------------------------------------------------------------------

    @property
    def releases(self) -> int:
        """How many sums can influence a draw: one per batch except the last."""
        return -(-self.rounds // self.batch) - 1

    @property
    def moves(self) -> float:
        """The sensitivity of a sum of costs to one person."""
        return _value_moves(self.bound, self.neighbours)

    @property
    def spec(self) -> SumSpec | None:
        """The tree of estimates; None where sums of costs are released instead, or nothing is."""
        return self._estimates(self.releases) if self.form == "tree" and self.releases else None

    def _estimates(self, releases: int) -> SumSpec:
        noise: NoiseLaw = "spherical" if self.calibration == "published" else "laplace"
        longest = _largest_estimate(self.n_items, self.bound, self.exploration_rate)
        moves = _estimate_moves(self.n_items, self.bound, self.exploration_rate, self.neighbours)
        vectors = VectorBounds(self.n_items, 1 if noise == "laplace" else 2, longest, apart=moves)
        return SumSpec(vectors, releases, "tree", noise)

    @property
    def second_moment(self) -> float:
        """Second moment of the estimates, with the noise in their sum: see `bounds.minimization.explored`."""
        assert isinstance(self.event, LaplaceNoise)
        if self.form == "values":
            return bounds.value_second_moment(self.n_items, self.batch, float(self.event.scale), self.bound)
        tree = self._estimates(max(1, self.rounds - 1))
        noise = noise_cost(tree, self.event, self.rounds, self.bound) * self.exploration_rate
        one_sided = self.calibration == "published"
        return bounds.estimate_second_moment(self.n_items, noise, self.bound, one_sided=one_sided)

    @property
    def best_rate(self) -> float:
        """The exploration rate with the smallest certificate; above 1 where rounds are too few."""
        return bounds.best_exploration_rate(
            self.n_items, self.rounds, self.batch, self.second_moment, self.bound
        )

    @property
    def second_moment_without_noise(self) -> float:
        """`second_moment` without noise on the costs."""
        return bounds.value_second_moment(self.n_items, self.batch, 0.0, self.bound)

    def best_regularization(self, second_moment: float) -> float:
        """The regularization with the smallest certificate for estimates with this ``second_moment``."""
        slope = self.exploration_rate * self.n_items * self.batch
        return math.sqrt(8.0 * self.rounds * second_moment / slope)

    @property
    def certified_regret(self) -> float:
        """Bound on the expected cost beyond the best fixed set's (see `bounds.minimization.explored`)."""
        if self.form == "thompson":
            return bounds.trivial_cost(self.rounds, self.bound)
        shape = (self.n_items, self.rounds, self.batch, self.exploration_rate)
        regularized = (self.regularization, self.second_moment, self.bound)
        return bounds.explored(*shape, *regularized, centre=self.centre)


def _thompson_batch(rounds: int, share: Share) -> int:
    """The number of rounds whose average has noise of a small part of the bound."""
    wanted = math.ceil(_THOMPSON_ROUNDS / float(share.epsilon)) if share.private else 10
    return max(1, min(max(10, wanted), rounds // _FEWEST_BATCHES))


def value_noise(share: Share, bound: float) -> LaplaceNoise:
    """The least Laplace noise for a sum of costs."""
    return LaplaceNoise.within(share, _value_moves(bound, share.neighbours), definition=share.definition)


def _value_moves(bound: float, neighbours: str) -> float:
    """The sensitivity of a sum of costs: 2 ``bound`` for a person replaced, ``bound`` if added or removed."""
    return bound * (2.0 if neighbours == "replace" else 1.0)


def _given(
    rounds: int, form: str, batch: int | None, exploration_rate: float | None
) -> tuple[int | None, float | None]:
    if batch is not None:
        batch = checks.whole("batch", batch, at_least=1, at_most=rounds)
    if exploration_rate is not None:
        exploration_rate = checks.real("exploration_rate", exploration_rate, above=0.0, at_most=1.0)
    if form == "tree" and batch not in (None, 1):
        raise ValueError(f'batch={batch}, but form="tree" has no batches; leave it out')
    return batch, exploration_rate


def _settled(
    trial: Callable[[int, float], BanditMinimizerSettings], batch: int | None, rate: float | None
) -> tuple[int, float]:
    """Batch and exploration rate as given, or those of (nearly) the smallest certificate."""

    def best_rate(length: int) -> float:
        return trial(length, 1.0).best_rate

    # The certified regret is 6 gamma M T at the best gamma, for any batch B. The cube of that gamma is
    # proportional to B + 2 (scale / M)^2 / B, which falls up to its minimum and rises from there.
    one = trial(1, 1.0)
    rounds, free = one.rounds, one.form == "values" and batch is None
    best = 1 if batch is None else batch
    if free:
        assert isinstance(one.event, LaplaceNoise)
        place = math.sqrt(2.0) * float(one.event.scale) / one.bound  # the best B among real numbers
        below = min(max(1, math.floor(place)), rounds)
        best = min(below, min(below + 1, rounds), key=best_rate)
    least = best_rate(best)
    if rate is None and least > 1.0:
        needed = bounds.rounds_needed(one.n_items, best, trial(best, 1.0).second_moment, one.bound)
        raise HorizonTooShort(
            f"rounds={rounds} is too short to explore the sets of n_items={one.n_items}: the share of"
            f" exploring rounds would be {least:.3g}; at least {needed} rounds are needed, or say how much to"
            " explore by exploration_rate="
        )
    longest = best
    if free:
        enough = range(best, min(rounds, 4 * best + 4) + 1)
        longest = enough[bisect_right(enough, min(_LONGER * least, max(1.0, least)), key=best_rate) - 1]
    return longest, best_rate(longest) if rate is None else rate


def _published_rate(n_items: int, rounds: int) -> float:
    """Paper 001's gamma, clamped to 1 with a warning where the horizon is too short for it."""
    gamma = bounds.published_exploration_rate(n_items, rounds)
    if gamma <= 1.0:
        return gamma
    checks.warn(
        f"rounds={rounds} is too short for the published gamma, {gamma:.3g} for {n_items} items; it is set to"
        f" 1. At least n^4.5 = {math.ceil(n_items**4.5)} rounds are needed"
    )
    return 1.0


def _largest_estimate(n_items: int, bound: float, exploration_rate: float) -> float:
    """The largest norm of an estimate: L1 of the two-sided one, and L2 of the one-sided one."""
    sides = 1.0 if n_items == 1 else 2.0
    return sides * bound * (n_items + 1.0) / exploration_rate * (1.0 + ROUNDING)


def _estimate_moves(n_items: int, bound: float, exploration_rate: float, neighbours: str) -> float:
    """The sensitivity of an estimate to one person: the set, and so its place, is public; the cost is not."""
    return _largest_estimate(n_items, bound, exploration_rate) * (2.0 if neighbours == "replace" else 1.0)


class BanditSubmodularMinimizer(SetMinimizer):
    """Follow the regularized leader on estimates of the gradient, each computed from the cost of one set.

    The point x in [0, 1]^n is a convex combination of a chain of sets B_0 (empty) to B_n (all items), with
    weights mu_i. The set served is B_i with probability rho_i = (1 - gamma) mu_i + gamma / (n + 1); its cost
    y gives the estimate y (e_i - e_{i+1}) / rho_i, with e_i for the chain's i-th item, whose expectation is a
    gradient of the Lovasz extension. (Paper 001's BANDITSUBMODPRFTL doubles one of the two terms at random,
    which doubles the estimate's mean square.)

    ``form="values"`` (the default): the same set for ``batch`` rounds, and Laplace noise on the sum of their
    costs. ``form="tree"``: a new set every round, exact estimates, and Laplace noise in a tree of their sums.
    ``learn`` takes the observed cost, a number in [-``bound``, ``bound``]. ``exploration_rate`` is gamma,
    ``regularization`` H. Numbers that are not given follow from the certified regret: gamma where it is
    smallest, the longest batch for which it grows by at most a quarter, and half of its best H. Horizons for
    which gamma would exceed 1 are refused. ``regularization="optimistic"`` takes half of the H that would be
    best without noise: the same privacy, and a larger certificate. As for `SubmodularMinimizer`, there is no
    strongly convex case.

    ``form="thompson"``: Thompson sampling on the same noisy sums of costs, as in `ThompsonSelector`. The
    model is that a set's cost is the sum of weights of its items and (up to 25 items) of their pairs; for
    ``batch`` (80 / epsilon) rounds it serves a set that is cheap for weights drawn from the posterior. Far
    better than the others on streams that are not adversarial, but it certifies nothing.

    Formal guarantee: pure epsilon. ``"values"``, ``"thompson"``: a person's cost enters one sum and moves it
    by at most 2 ``bound`` (``bound``, when added or removed); costs are summed in fixed point, and everything
    after the noise is post-processing. ``"tree"``: an estimate moves by at most 4 ``bound`` (n + 1) / gamma
    in L1. All hold for people chosen with knowledge of all earlier sets. ``certified_regret`` is for people
    fixed in advance; if they depend on the sets of earlier batches, it bounds the cost beyond that of any one
    set named in advance. (An adversary who sees the set in the middle of its batch can do worse.)

    ``calibration="published"``: the paper's gamma = n^(3/2) / T^(1/3) (at most 1, with a warning below
    T = n^(9/2)), H = M T^(2/3), and a tree of spherical noise for the estimates' *expected* length. This has
    no fixed epsilon: the true one grows as 1 / sqrt(gamma), and the account states it.

    >>> import discreet as dc
    >>> learner = BanditSubmodularMinimizer(3, 3000, dc.Budget(1.0), seed=0)
    >>> for _ in range(3000):
    ...     learner.learn(-0.8 if 0 in learner.choose() else 0.8)
    >>> learner.privacy.epsilon(), bool(learner.point[0] > 0.8)
    (1.0, True)
    """

    settings: BanditMinimizerSettings
    _settings_type: ClassVar[type[BanditMinimizerSettings]] = BanditMinimizerSettings
    _state = ("_public", "_clipped", "_place", "_chance", "_side", "_chain", "_summed", "_total", "_beliefs")
    _parts = ("_total", "_beliefs")

    def __init__(
        self,
        n_items: int,
        rounds: int,
        budget: Spending,
        bound: float = 1.0,
        *,
        form: MinimizerForm = "values",
        batch: int | None = None,
        exploration_rate: float | None = None,
        regularization: float | Regularization = "auto",
        calibration: Calibration = "tight",
        labels: Sequence[Any] | None = None,
        clip: bool = False,
        seed: Seed = None,
    ) -> None:
        super().__init__(*calibrated(BanditMinimizerSettings, locals()))

    # --- for users -------------------------------------------------------------------------------

    def learn(self, value: float, *, person_id: Hashable | None = None) -> None:
        """Learn the cost of this round's set to its person, a number in [-``bound``, ``bound``]."""
        super().learn(value, person_id=person_id)

    @property
    def point(self) -> NDArray[np.float64]:
        """The point of [0, 1]^n whose chain of sets is served; for ``"thompson"`` the best set so far."""
        return super().point if self._beliefs is None else self._beliefs.best

    # --- for the protocol ------------------------------------------------------------------------

    def _begin(self) -> None:
        super()._begin()
        settings = self.settings
        self._public = self._gate.public_randomness()
        # Costs are integers in units of 2^-shift, of which 2^31 to 2^32 make the bound.
        self._shift = 32 - math.frexp(settings.bound)[1]
        self._most = math.floor(math.ldexp(settings.bound, self._shift))
        self._total: PrivateTotal | CostTotal | None = None
        if settings.spec is not None:
            shape = (settings.n_items,)
            self._total = PrivateTotal(settings.spec, self._gate, settings.event, shape, label="estimates")
        elif settings.releases:
            how: dict[str, Any] = {"truncation": 1, "label": "sum of a batch's costs"}
            unit = Fraction(2) ** -self._shift
            self._total = CostTotal(self._gate, settings.event, settings.moves, unit, **how)
        self._beliefs: SetCosts | None = None
        if settings.form == "thompson":
            assert isinstance(settings.event, LaplaceNoise)
            scale = float(settings.event.scale) / settings.bound
            self._beliefs = SetCosts(settings.n_items, settings.batch, scale)
        self._summed = np.zeros(settings.n_items)
        self._place, self._chance, self._side = 0, 1.0, 0.0

    @property
    def _released(self) -> NDArray[np.float64]:
        return self._total.released if isinstance(self._total, PrivateTotal) else self._summed

    def _due(self) -> bool:
        return self.round % self.settings.batch == 0

    def _draw(self) -> NDArray[np.float64]:
        settings, total = self.settings, self._total
        if isinstance(total, PrivateTotal) and self.round:
            total.release()
        elif isinstance(total, CostTotal) and total.count * settings.batch < self.round:
            value = self._noisy(int(total.take())) / settings.batch
            if self._beliefs is None:
                self._summed = self._summed + self._estimate(value)
            else:
                self._beliefs.observe(self._shown, np.array([value / settings.bound]))
        if self._beliefs is not None:
            return self._beliefs.suggest(self._public.generator, self._rounds.shown)
        uniform, self._side = (float(one) for one in self._public.generator.random(2))
        shown: NDArray[np.float64]
        shown, self._place, self._chance = self._chain.draw(
            self._released, settings.exploration_rate, uniform
        )
        return shown

    def _noisy(self, units: int) -> float:
        """A batch's sum as released: on a grid, with the Laplace noise that was reserved for it.

        Computed in integers, because a float cannot represent the sum of a very long batch exactly.
        """
        assert isinstance(self._total, CostTotal)
        leave, grid = self._total.leave, self._total.grid
        if grid is None:
            return leave(units)
        power = grid.exponent + self._shift
        return leave((units << max(-power, 0)) // (grid.mantissa << max(power, 0)))

    def _estimate(self, value: float) -> NDArray[np.float64]:
        """An estimate of the gradient at x, from the cost of the served set."""
        size = self.settings.n_items
        estimate, place, order = np.zeros(size), self._place, self._chain.order
        rise, fall = (1.0 if place > 0 else 0.0), (1.0 if place < size else 0.0)
        if self.settings.calibration == "published" and rise and fall:
            rise, fall = (2.0, 0.0) if self._side < 0.5 else (0.0, 2.0)
        if rise:
            estimate[order[place - 1]] += rise * (value / self._chance)
        if fall:
            estimate[order[place]] -= fall * (value / self._chance)
        return estimate

    def _prepared(self, person: Any) -> tuple[float, bool]:
        value, bound = checks.real("the cost", person), self.settings.bound
        outside = abs(value) > bound * (1.0 + ROUNDING)
        if outside and not self.settings.clip:
            raise ValueError(
                f"the cost {value:.6g} is outside [-{bound:g}, {bound:g}]; rescale costs, declare a larger"
                " bound, or pass clip=True"
            )
        return min(max(value, -bound), bound), outside

    def _feedback(self, person: Any, decision: Any, value: float) -> float:  # noqa: ARG002
        return value

    def _observe(self, person: tuple[float, bool]) -> None:
        value, clipped = person
        self._clipped += clipped
        if isinstance(self._total, PrivateTotal):
            self._total.add(self._estimate(value))
        elif self._total is not None:
            self._total.add(self._units(np.array([value])))

    def _units(self, costs: NDArray[np.float64]) -> NDArray[np.int64]:
        """Costs in units, rounded down."""
        units = np.clip(np.floor(np.ldexp(costs, self._shift)), -self._most, self._most)
        return units.astype(np.int64)

    def _run_cuts(self, stream: Stream, cuts: Cuts) -> None:
        costs, count, first, batch = stream.rewards, stream.rewards.size, 0, self.settings.batch
        while first < count:
            self._next()
            stop = min(count, first + batch - self.round % batch)
            cuts.values(first, self._shown, costs[first:stop])
            stream.selections[first:stop] = self._shown
            within_limit, bound = stream.within_limit[first:stop], self.settings.bound
            if isinstance(self._total, CostTotal) and float(np.abs(costs[first:stop]).max()) <= bound:
                units = self._units(costs[first:stop][within_limit])
                self._rounds.close(stop - first, then=partial(self._total.add, units))
            else:
                for t in range(first, stop):
                    self._take(self._prepared(float(costs[t])), bool(stream.within_limit[t]))
            first = stop
