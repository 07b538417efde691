"""Settings of continuous greedy: steps, noise, and what is certified."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from ..bounds import continuous as bounds
from ..constraints import Constraint, Knapsack, Matroid
from ..privacy import Event, ExponentialChoice, GaussianNoise, LaplaceNoise, Share
from ..privacy.conversions import exact, root_below, rounded_down
from .gradients import Change

NOISES = ("exponential", "laplace", "gaussian")
COMPOSITIONS = ("auto", "basic", "advanced", "zcdp")
CALIBRATIONS = ("tight", "published")
# More steps than this change the certificate by less than a hundredth and cost time.
_MOST_STEPS = 40
# Steps where nothing public says how many people there are (Chaturvedi, Nguyen and Zakynthinou 2021).
_USUAL_STEPS = 3


@dataclass(frozen=True)
class Settings:
    """How a chooser climbs, whatever it climbs on. ``share`` is what calibrates all noise.

    ``greedy_suffices``: under a cardinality constraint one step of picks is the greedy algorithm, which has
    1 - 1/e of its own.
    """

    share: Share
    steps: int | str
    noise: str
    composition: str
    calibration: str
    update_within_steps: bool
    greedy_suffices: bool

    def __post_init__(self) -> None:
        share, noise, composition = self.share, self.noise, self.composition
        if self.calibration == "published":
            if noise == "exponential":
                raise ValueError(
                    'calibration="published" is for the noise of paper 003: take noise="laplace" or'
                    ' "gaussian"'
                )
            if not share.private:
                raise ValueError(
                    'calibration="published" needs a finite epsilon; an infinite one has no published noise'
                )
            printed = ("auto", "basic") + (("advanced",) if noise == "laplace" else ())
            if composition not in printed:
                raise ValueError(
                    f"composition={composition!r} is not in paper 003 for noise={noise!r};"
                    f" take one of {', '.join(map(repr, printed))}"
                )
        elif noise == "gaussian" and composition not in ("auto", "zcdp"):
            raise ValueError(
                f"composition={composition!r} adds up pure epsilons, which Gaussian noise has none of;"
                ' take "auto" or "zcdp"'
            )
        if not share.private or share.delta > 0.0:
            return
        also = ", and a gate that keeps to another notion than pure epsilon" if share.budget.delta else ""
        if noise == "gaussian":
            raise ValueError(
                f'noise="gaussian" needs delta > 0{also}; give the budget a delta or take another noise'
            )
        if composition in ("advanced", "zcdp"):
            raise ValueError(
                f'composition={composition!r} needs delta > 0{also}; give the budget a delta or take "basic"'
            )

    @property
    def corners_only(self) -> bool:
        """Whether a matroid is climbed in one step of picks, which only ever meets corners of the cube."""
        return self._picks_afresh and (self.steps == 1 or (self.steps == "auto" and self.greedy_suffices))

    @property
    def _picks_afresh(self) -> bool:
        return self.noise == "exponential" and self.update_within_steps


@dataclass(frozen=True)
class Setting:
    """One run: its settings, sizes, the constraint, and how far one person moves the gradient.

    ``reach`` is the largest sum of a feasible point, ``picks`` how many picks fill one step at most,
    ``most`` what the objective can reach at most and ``value`` how far one person moves it; ``most`` is None
    where the number of people is not public. ``sums`` is whether the objective is a sum over people, and
    ``length`` for how many of them it is laid out.
    """

    settings: Settings
    constraint: Constraint
    n_items: int
    reach: float
    picks: int
    change: Change
    value: float
    most: float | None
    sums: bool
    length: int = 1

    @classmethod
    def of(
        cls,
        settings: Settings,
        constraint: Constraint,
        n_items: int,
        change: Change,
        value: float,
        most: float | None,
        sums: bool,
        length: int = 1,
    ) -> Setting:
        """The run on this constraint, with what it lets be reached and picked."""
        if constraint.rank == 0:
            raise ValueError(f"{constraint!r} lets nothing be chosen; give a constraint of rank 1 or more")
        picks, reach = constraint.rank, float(constraint.rank)
        if isinstance(constraint, Knapsack):
            paid = constraint.costs[(constraint.costs > 0.0) & constraint.addable([])]
            # Full items make up a feasible set, and one more may be fractional; the last left is no choice.
            full = constraint.rank - int((constraint.costs == 0.0).sum())
            picks = min(full + 1, max(paid.size - 1, 0))
            # The cheapest items, as far as they fit, have the largest sum of entries.
            reach = float(constraint.maximize(np.ones(n_items)).sum())
            if settings.noise == "exponential" and paid.size:
                reach = constraint.capacity / float(paid.min())
        if constraint.rank == n_items:
            picks = 0  # everything can be had together
        return cls(settings, constraint, n_items, reach, picks, change, value, most, sums, length)

    def releases(self, steps: int) -> int:
        """At most how many releases a run makes."""
        return steps * (self.picks if self.settings.noise == "exponential" else 1)

    def steps(self) -> int:
        """How many steps are taken: as many as certify most, unless told otherwise."""
        settings = self.settings
        if not isinstance(settings.steps, str):
            return settings.steps
        if settings.greedy_suffices:
            return 1
        if self.most is None:
            return _USUAL_STEPS
        if settings.calibration == "published":
            epsilon = settings.share.budget.epsilon
            return bounds.published_steps(self.n_items, self.most, self.reach, epsilon, self.value)
        return min(range(1, _MOST_STEPS + 1), key=lambda steps: self.loss(steps, self.event(steps)))

    def event(self, steps: int) -> Event:
        """One release of a run: the least noise that is valid under the chosen composition."""
        return self._event_of(steps, self.settings.share)

    def _event_of(self, steps: int, share: Share) -> Event:
        """The same for another share: one of the releases that take it all together."""
        settings, change, count = self.settings, self.change, max(1, self.releases(steps))
        noise, composition = settings.noise, settings.composition
        moved = {"exponential": change.range, "laplace": change.l1, "gaussian": change.l2}[noise]
        if not share.private:
            return GaussianNoise(moved, 0.0) if noise == "gaussian" else LaplaceNoise(moved, 0.0)
        assert isinstance(share.epsilon, Fraction)
        if settings.calibration == "published":
            return self._published(moved, count, float(share.epsilon), share.budget.delta)
        if noise == "gaussian":
            return GaussianNoise.within(share, moved, count)
        if composition == "auto":
            kind = ExponentialChoice if noise == "exponential" else LaplaceNoise
            return kind.within(share, moved, count)
        each = share.epsilon / count
        if composition == "zcdp":
            assert isinstance(share.rho, Fraction)
            # A privacy loss in an interval of length e costs e^2/8, one of at most e either way e^2/2.
            each = root_below((8 if noise == "exponential" else 2) * share.rho / count)
        elif composition == "advanced":
            root = math.sqrt(2.0 * count * math.log(1.0 / share.budget.delta))
            each = exact(float(share.epsilon) / (2.0 * root))
        if noise == "exponential":
            return ExponentialChoice(rounded_down(each / exact(moved)), moved)
        return LaplaceNoise(moved, exact(moved) / each)

    def _published(self, moved: float, count: int, epsilon: float, delta: float) -> Event:
        """The constants of paper 003.

        Laplace scales 2 K n Delta / eps (Lemma 3) and 4 sqrt(2 K ln(1/delta)) n Delta / eps (Lemma 4), and
        sigma = 2 c K sqrt(n) Delta / eps with c^2 = 2 ln(1.25 K / delta) for Gaussian noise (its supplement).
        """
        n_items, value = self.n_items, self.value
        if self.settings.noise == "gaussian":
            c = math.sqrt(2.0 * math.log(1.25 * count / delta))
            return GaussianNoise(moved, 2.0 * c * count * math.sqrt(n_items) * value / epsilon)
        steps: float = count
        if self.settings.composition == "advanced":
            steps = 2.0 * math.sqrt(2.0 * count * math.log(1.0 / delta))
        return LaplaceNoise(moved, 2.0 * steps * n_items * value / epsilon)

    # --- what is certified -----------------------------------------------------------------------

    def loss(self, steps: int, event: Event, curvature: float = 1.0) -> float:
        """A bound on (1 - kappa/e) best - E F(x)."""
        assert self.most is not None
        settings = self.settings
        if settings._picks_afresh:
            greedy = steps == 1 and settings.greedy_suffices
            lost = 0.0 if greedy else bounds.lost_within_steps(steps, self.most, curvature)
        else:
            sets = isinstance(self.constraint, Matroid)
            lost = bounds.lost_between_steps(steps, self.most, self.reach, vertices_are_sets=sets)
        lost += bounds.lost_to_rounding(self.most, self.reach, self.length)
        return lost + self._noise_loss(steps, event)

    def _noise_loss(self, steps: int, event: Event) -> float:
        n, reach = self.n_items, self.reach
        if isinstance(event, ExponentialChoice):
            if isinstance(self.constraint, Matroid):
                return bounds.lost_to_picks(n, reach, event.rate)
            return bounds.lost_to_knapsack_picks(n, reach, event.rate, steps * self.picks)
        if isinstance(event, GaussianNoise):
            return bounds.lost_to_gaussian(n, reach, float(event.sigma))
        assert isinstance(event, LaplaceNoise)
        return bounds.lost_to_laplace(n, reach, float(event.scale))

    def warn_if_hopeless(self, steps: int, event: Event, spent_from: str) -> None:
        """Say so when one choice is noisier than everybody together can be loud; public sizes only."""
        share, most = self.settings.share, self.most
        if most is None or not share.private:
            return
        alone = replace(self, reach=1.0)
        if self.picks == 0 or alone._noise_loss(steps, event) < most:
            return

        def loud(factor: float) -> bool:
            larger = replace(share.budget, epsilon=factor * share.budget.epsilon)
            return alone._noise_loss(steps, self._event_of(steps, replace(share, budget=larger))) >= most

        low, high = 1.0, 2.0
        while high < 1e9 and loud(high):
            low, high = high, 2.0 * high
        for _ in range(20):
            middle = math.sqrt(low * high)
            low, high = (middle, high) if loud(middle) else (low, middle)
        warnings.warn(
            f"{spent_from} is too small for a choice better than chance: the noise of"
            f" one choice ({alone._noise_loss(steps, event):.3g}) drowns even an item that everybody wants"
            f" ({most:.3g}); epsilon={high * share.budget.epsilon:.2g} would do, or more people",
            stacklevel=5,
        )
