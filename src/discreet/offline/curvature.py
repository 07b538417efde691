"""Curvature greedy: continuous greedy that does better if the objective is nearly additive over items."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..constraints import Constraint
from ..core import checks
from ..core.text import track
from ..objectives import ContinuousPopulation, Population
from ..privacy import Event, GaussianNoise, PublicRandomness
from ..privacy.accountant import Spending
from .continuous import Climb, ContinuousGreedy, Gradient, Setting
from .greedy import Allowance, Residual

Floats = NDArray[np.float64]

# Doublings of a multiplier after which no vertex changes any more, and bisection steps to locate it.
_SEARCH = 200


class CurvatureGreedy(ContinuousGreedy):
    """Private continuous greedy with the guarantee 1 - kappa/e, kappa the objective's total curvature.

    An item's gain on top of all others, its entry of the last gradient ell, is certain; only the part above
    it depends on other choices. So step k climbs by w_k x gradient + (1 - w_k) x ell, with w_k growing from
    about 1/e to 1: (1 + 1/K)^(k-K-1) if the gradient is updated after every pick, (1 - 1/K)^(K-k) if once a
    step (distorted greedy: Feldman 2021; Harshaw et al. 2019).

    Formal guarantee. Exactly that of `ContinuousGreedy`, at exactly its noise: a weighted mean of two vectors
    moves by no more than they do, both are summed person by person in integer steps, and ell is used nowhere
    else. kappa is never computed, as it depends on private data.

    Utility. E F(x) >= (1 - kappa/e) best - ``certified_loss(n_people, n_items, kappa)``, for any kappa.
    With g = F - ell, step k lifts w_k g(x) + ell x by at least [w_k (g(S*) - g(x')) + ell(S*)] / K, which
    telescopes to F(x) >= F(S*) - (1 + 1/K)^-K g(S*); and g(S*) <= kappa F(S*). The same holds for smooth
    functions of a point (`fractional`), with paper 003's curvature of continuous functions, c_f, for kappa:
    the last gradient is at least 1 - c_f of any, and F(x*) at most <gradient at 0, x*>.

    ``calibration="published"`` is paper 003's Algorithm 2: it climbs by the gradient of F - ell over the
    points with <ell, x> >= lambda, for every guess of lambda on a grid of width ``gamma`` (or for one
    ``guess``), and keeps the best. Its constraint depends on private data, so it is not private with any
    noise: ``privacy`` reports an infinite epsilon, with a warning. For comparison only. All other options are
    those of `ContinuousGreedy`.

    >>> import discreet as dc
    >>> people = dc.objectives.Coverage([[1, 0, 0, 1], [0, 1, 0, 0], [0, 1, 1, 0]] * 400)
    >>> greedy = CurvatureGreedy(dc.constraints.Cardinality(2), dc.Budget(1.0, 1e-6), seed=0)
    >>> len(greedy.select(people)), greedy.privacy.epsilon() <= 1.0
    (2, True)
    """

    _greedy_suffices = False  # greedy has 1 - 1/e, not 1 - kappa/e

    def __init__(
        self,
        constraint: Constraint | int,
        budget: Spending | Allowance,
        *given: Any,
        guess: float | None = None,
        gamma: float = 0.5,
        **options: Any,
    ) -> None:
        super().__init__(constraint, budget, *given, **options)
        self.guess = None if guess is None else checks.real("guess", guess, at_least=0.0)
        self.gamma = checks.real("gamma", gamma, above=0.0, at_most=1.0)
        if self.calibration != "published" and guess is not None:
            raise ValueError('guess= is for calibration="published"; the tight form needs none')

    def guarantee(self, curvature: float) -> float:
        """The approximation ratio 1 - kappa/e, up to `certified_loss`.

        >>> import discreet as dc
        >>> greedy = CurvatureGreedy(dc.constraints.Cardinality(2), dc.Budget(1.0))
        >>> greedy.guarantee(0.0), round(greedy.guarantee(1.0), 3)
        (1.0, 0.632)
        """
        self._check_curvature(curvature)
        return 1.0 - curvature / math.e

    def certified_loss(
        self,
        n_people: int,
        n_items: int | None = None,
        curvature: float = 1.0,
        *,
        probability: float | None = None,
        smoothness: float | None = None,
    ) -> float:
        """A bound on (1 - kappa/e) best - E F(x), F the sum over this many people; from public sizes only.

        The published form may miss lambda by gamma times the best single item, on its grid of guesses. With a
        ``guess`` nothing is certified, as its error is unknown.
        """
        how = {"probability": probability, "smoothness": smoothness}
        loss = super().certified_loss(n_people, n_items, curvature, **how)
        if self.calibration == "tight":
            return loss
        missed = self.gamma if self.guess is None else math.inf
        return min(loss + missed * n_people * self.bound, self.guarantee(curvature) * n_people * self.bound)

    def _check_curvature(self, curvature: float) -> None:
        checks.real("curvature", curvature, at_least=0.0, at_most=1.0)

    def _direction(self, climb: Climb, k: int) -> NDArray[Any]:
        if climb.last is None:
            climb.last = climb.gradient.at(np.ones(climb.setting.n_items))
        weight = step_weight(k, climb.steps, within=self._picks_afresh)
        return climb.gradient.mix(super()._direction(climb, k), climb.last, weight)

    # --- published settings ----------------------------------------------------------------------

    def _climb(
        self, people: Population | ContinuousPopulation, left: Residual, setting: Setting, progress: bool
    ) -> Climb:
        """Climb once for each guess, and keep the point of the largest value (the published settings)."""
        if self.calibration == "tight":
            return super()._climb(people, left, setting, progress)
        assert isinstance(people, Population)
        if not setting.sums:
            kind = type(people).__name__
            raise ValueError(f'calibration="published" takes sums over people only, which {kind} is not')
        steps = setting.steps()
        event = setting.event(steps)
        bare = GaussianNoise(setting.change.l2, 0.0)
        what = "CurvatureGreedy (the vector ell is a constraint in the clear)"
        self._take_true_budget([(bare, 1)], what)
        self._gate.reserve(bare, label="last gradient, as a constraint, without noise")
        gradient = self._gradient(people, left, setting)
        last = gradient.scores(gradient.at(np.ones(setting.n_items)))
        guesses = [self.guess] if self.guess is not None else self._guesses(people, left)
        best, best_value = np.zeros(setting.n_items), -math.inf
        for index in track(range(len(guesses)), "guesses", progress):
            found = self._one_guess(setting, gradient, last, steps, event, guesses[index])
            if found is None:
                continue
            value = people.multilinear(
                left.point(found), rng=PublicRandomness.seeded(0).generator, samples=self.samples
            )
            if value > best_value:
                best, best_value = found, value
        self._climbed = left.point(best), steps
        return Climb(setting, gradient, 1, event, best, [])

    def _rounded(self, climb: Climb) -> tuple[int, ...]:
        if self.calibration == "tight":
            return super()._rounded(climb)
        chosen = climb.setting.constraint.round(climb.point, self._gate.public_randomness().generator)
        return tuple(int(item) for item in chosen)

    def _guesses(self, people: Population, left: Residual) -> list[float]:
        """Guesses of lambda: steps of gamma m up to m = max F({j}), then factors 1 + gamma/n up to n m."""
        n, gamma = int(left.free.size), self.gamma
        single = float(people.gains(left.included)[left.free].max()) * len(people)
        linear = [i * gamma * single for i in range(math.floor(1.0 / gamma) + 1)]
        powers = math.floor(math.log(n) / math.log1p(gamma / n)) if n > 1 else 0
        geometric = [single * (1.0 + gamma / n) ** i for i in range(powers + 1)]
        return list(dict.fromkeys(linear + geometric))

    def _one_guess(
        self,
        setting: Setting,
        gradient: Gradient,
        last: Floats,
        steps: int,
        event: Event,
        guess: float,
    ) -> Floats | None:
        """The point for one lambda, or None if no feasible point has <ell, x> >= lambda."""
        constraint = setting.constraint
        if float(last @ constraint.maximize(last)) < guess * (1.0 - 1e-12):
            return None
        total = np.zeros(setting.n_items)
        for _ in range(steps):
            above = gradient.scores(gradient.at(np.minimum(total / steps, 1.0))) - last
            noisy = self._noisy(above, event, "gradient above the last")
            total += best_above(constraint, noisy, last, guess)
        return np.minimum(total / steps, 1.0)


def step_weight(k: int, steps: int, *, within: bool) -> float:
    """The weight of the gradient against the last one in step k = 0..K-1.

    >>> [round(step_weight(k, 3, within=True), 2) for k in range(3)]
    [0.42, 0.56, 0.75]
    >>> [round(step_weight(k, 3, within=False), 2) for k in range(3)]
    [0.44, 0.67, 1.0]
    """
    if within:
        return (1.0 + 1.0 / steps) ** (k - steps)
    return (1.0 - 1.0 / steps) ** (steps - 1 - k)


def best_above(constraint: Constraint, weights: Floats, last: Floats, least: float) -> Floats:
    """A point of the polytope with the largest <weights, x> among those with <last, x> >= least.

    By its dual: a multiplier p on <last, x> makes weights + p last the objective, and a mixture of the best
    points just below and just above the right multiplier meets the constraint exactly.

    >>> from discreet.constraints import Cardinality
    >>> best_above(Cardinality(1), np.array([3.0, 1.0]), np.array([0.0, 1.0]), 0.5).tolist()
    [0.5, 0.5]
    """
    low = constraint.maximize(weights)
    enough = least * (1.0 - 1e-12)  # tolerance for the rounding of the sum
    if float(last @ low) >= enough:
        return low
    high = constraint.maximize(last)
    below, above = 0.0, 1.0
    scale = max(float(np.abs(weights).max()), 1.0) / max(float(last.max()), 1e-300)
    for _ in range(_SEARCH):
        found = constraint.maximize(weights + above * scale * last)
        if float(last @ found) >= enough:
            high = found
            break
        below, above, low = above, 2.0 * above, found
    for _ in range(_SEARCH):
        middle = 0.5 * (below + above)
        if not below < middle < above:
            break
        found = constraint.maximize(weights + middle * scale * last)
        if float(last @ found) >= enough:
            above, high = middle, found
        else:
            below, low = middle, found
    least_low, least_high = float(last @ low), float(last @ high)
    share = 1.0 if least_high <= least else (least - least_low) / (least_high - least_low)
    return share * high + (1.0 - share) * low
