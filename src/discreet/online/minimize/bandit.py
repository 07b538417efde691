"""Submodular minimisation with bandit feedback: only the cost of each chosen set is seen."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ... import backends
from ...core import checks
from ...core.progress import track
from ...core.settings import Setting
from ...core.state import Saved
from ...privacy import Account, LaplaceNoise, Seed, spend_from
from ...privacy.published import published_share
from ...privacy.spending import Spending
from ..parts import Kept, Part
from ..protocol import CALIBRATIONS, Stream
from ..total import CostTotal, PrivateTotal
from .bandit_settings import FORMS, BanditMinimizerSettings
from .lovasz_sums import ROUNDING
from .sets import SetMinimizer
from .thompson import SetCosts

if TYPE_CHECKING:
    from ...backends.arguments import Cuts


class BanditSubmodularMinimizer(SetMinimizer):
    """Follow the regularised leader on estimates of the gradient, each made from what one set cost.

    The point x in [0, 1]^n passes through a chain of sets B_0 (empty) to B_n (everything), and holds B_i with
    weight mu_i. The set served is B_i with chance rho_i = (1 - gamma) mu_i + gamma / (n + 1); its cost y
    makes the estimate y (e_i - e_{i+1}) / rho_i, with e_i for the chain's i-th item, which is a gradient of
    the Lovasz extension on average. (Paper 001's BANDITSUBMODPRFTL doubles one of the two by a coin, which
    doubles the estimate's mean square.)

    ``form="values"`` (the default): the same set for ``batch`` rounds, and Laplace noise on the sum of their
    costs. ``form="tree"``: a new set every round, exact estimates, and Laplace noise in a tree of their sums.
    ``learn`` takes the observed cost, a number in [-``bound``, ``bound``]. ``exploration_rate`` is gamma,
    ``regularization`` H. What is not given comes from the certified regret: gamma where it is smallest, a
    batch as long as a quarter more of it allows, and half of its best H. Horizons for which gamma would
    exceed 1 are refused. ``regularization="optimistic"`` takes half of the H that would be best without
    noise: the same privacy, and a larger certificate. As for `SubmodularMinimizer`, there is no strongly
    convex case.

    ``form="thompson"``: Thompson sampling on the same noisy sums of costs, as in `ThompsonSelector`. A set is
    believed to cost something for each of its items and (up to 25 items) of their pairs; a set is served for
    ``batch`` (80 / epsilon) rounds that is cheap for weights drawn from the posterior. Far better than the
    others on streams that do not fight the learner, and certifies nothing.

    Formal guarantee: pure epsilon. ``"values"``, ``"thompson"``: a person's cost enters one sum and moves it
    by at most 2 ``bound`` (``bound``, when added or removed); costs are summed in fixed point, and everything
    after the noise is post-processing. ``"tree"``: an estimate moves by at most 4 ``bound`` (n + 1) / gamma
    in L1. All hold for people chosen with knowledge of all earlier sets.

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

    settings: BanditMinimizerSettings
    _settings_type: ClassVar[type[BanditMinimizerSettings]] = BanditMinimizerSettings

    form = Setting('What is made private: "values" or "thompson" (sums of costs), or a "tree" of estimates.')
    batch = Setting("How many rounds share a set, and one release.")
    exploration_rate = Setting("The share of rounds that explore.")

    def __init__(
        self,
        n_items: int,
        rounds: int,
        budget: Spending,
        bound: float = 1.0,
        *,
        form: str = "values",
        batch: int | None = None,
        exploration_rate: float | None = None,
        regularization: float | str = "auto",
        calibration: str = "tight",
        labels: Sequence[Any] | None = None,
        clip: bool = False,
        seed: Seed = None,
    ) -> None:
        checks.one_of("form", form, FORMS)
        share = spend_from(budget, seed)
        common: dict[str, Any] = {
            "batch": batch,
            "exploration_rate": exploration_rate,
            "regularization": regularization,
            "labels": labels,
            "clip": clip,
        }
        if checks.one_of("calibration", calibration, CALIBRATIONS) == "published":
            settings = BanditMinimizerSettings.published(n_items, rounds, share, bound, **common)
            releases = [] if settings.spec is None else [(settings.event, settings.spec.count)]
            share = published_share(share, releases, "BanditSubmodularMinimizer")
        else:
            settings = BanditMinimizerSettings.tight(n_items, rounds, share, bound, form=form, **common)
        super().__init__(settings, share)

    # --- for users -------------------------------------------------------------------------------

    def learn(self, value: float, *, person_id: Hashable | None = None) -> None:
        """Learn what this round's set cost its person, a number in [-``bound``, ``bound``]."""
        super().learn(value, person_id=person_id)

    @property
    def certified_regret(self) -> float:
        """Bound on the expected cost beyond the best fixed set's, over the declared rounds.

        For people who were fixed beforehand; where they depend on the sets of earlier batches, beyond that of
        any one set named beforehand. (An adversary who sees the set in the middle of its batch can do worse.)
        """
        return self.settings.certified_regret

    @property
    def point(self) -> NDArray[np.float64]:
        """The point of [0, 1]^n whose chain of sets is served; for ``"thompson"`` the best set so far."""
        return super().point if self._beliefs is None else self._beliefs.best

    # --- for the protocol ------------------------------------------------------------------------

    def _begin(self) -> None:
        super()._begin()
        settings = self.settings
        self._coins = self._gate.coins()
        # Costs are counted in units of 2^-shift, of which 2^31 to 2^32 make the bound.
        self._shift = 32 - math.frexp(settings.bound)[1]
        self._most = math.floor(math.ldexp(settings.bound, self._shift))
        self._tree: PrivateTotal | None = None
        self._costs: CostTotal | None = None
        if settings.spec is not None:
            self._tree = PrivateTotal(
                settings.spec, self._gate, settings.event, (settings.n_items,), label="estimates"
            )
        elif settings.releases:
            unit = Fraction(2) ** -self._shift
            self._costs = CostTotal(
                self._gate, settings.event, settings.moves, unit, truncation=1, label="sum of a batch's costs"
            )
        self._beliefs: SetCosts | None = None
        if settings.form == "thompson":
            assert isinstance(settings.event, LaplaceNoise)
            scale = float(settings.event.scale) / settings.bound
            self._beliefs = SetCosts(settings.n_items, settings.batch, scale)
        self._summed = np.zeros(settings.n_items)
        self._order = np.arange(settings.n_items)
        self._place, self._chance, self._side = 0, 1.0, 0.0

    @property
    def _known(self) -> NDArray[np.float64]:
        return self._summed if self._tree is None else self._tree.known

    def _due(self) -> bool:
        return self.round % self.settings.batch == 0

    def _draw(self) -> NDArray[np.float64]:
        settings = self.settings
        if self._tree is not None and self.round:
            self._tree.release()
        if self._costs is not None and self._costs.batches * settings.batch < self.round:
            units = self._costs.take()
            value = self._noisy(int(units)) / settings.batch
            if self._beliefs is None:
                self._summed = self._summed + self._estimate(value)
            else:
                self._beliefs.observe(self._shown, np.array([value / settings.bound]))
        if self._beliefs is not None:
            return self._beliefs.suggest(self._coins.generator, self._rounds.shown)
        coin, self._side = (float(c) for c in self._coins.generator.random(2))
        shown = np.empty(settings.n_items)
        self._place, self._chance = backends.minimization.draw_from_chain(
            self._known,
            settings.regularization,
            settings.centre,
            settings.exploration_rate,
            coin,
            self._order,
            shown,
        )
        return shown

    def _noisy(self, units: int) -> float:
        """A batch's sum as it leaves: on a grid, with the Laplace noise that was reserved for it.

        In whole numbers throughout, because a float holds the sum of a very long batch only roughly.
        """
        assert self._costs is not None
        grid = self._costs.grid
        if grid is None:
            return self._costs.leave(units)
        power = grid.exponent + self._shift
        return self._costs.leave((units << max(-power, 0)) // (grid.mantissa << max(power, 0)))

    def _estimate(self, value: float) -> NDArray[np.float64]:
        """An estimate of the gradient at x, from what the served set cost."""
        size = self.settings.n_items
        estimate, place, order = np.zeros(size), self._place, self._order
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

    def _absorb(self, person: tuple[float, bool]) -> None:
        value, clipped = person
        self._clipped.add(clipped)
        if self._tree is not None:
            self._tree.gather(self._estimate(value))
        elif self._costs is not None:
            self._costs.gathered += self._units(value)

    def _units(self, value: float) -> int:
        return min(max(math.floor(math.ldexp(value, self._shift)), -self._most), self._most)

    def _run_functions(self, stream: Stream) -> None:
        for t in track(range(stream.rewards.size), "rounds", stream.progress):
            decision = self._next()
            stream.rewards[t] = self._worth(stream.people[t], decision)
            stream.selections[t] = self._row(decision)
            self._take(self._prepared(stream.rewards[t]), bool(stream.within_limit[t]))

    def _run_cuts(self, stream: Stream, cuts: Cuts) -> None:
        costs, count, first, batch = stream.rewards, stream.rewards.size, 0, self.settings.batch
        while first < count:
            self._next()
            stop = min(count, first + batch - self.round % batch)
            backends.minimization.cut_values(cuts, first, self._shown, costs[first:stop])
            stream.selections[first:stop] = self._shown
            within_limit = stream.within_limit[first:stop]
            if self._costs is not None and float(np.abs(costs[first:stop]).max()) <= self.settings.bound:
                units = self._total_units(costs[first:stop][within_limit])
                self._rounds.close(stop - first, then=partial(self._gather, units))
            else:
                for t in range(first, stop):
                    self._take(self._prepared(float(costs[t])), bool(stream.within_limit[t]))
            first = stop

    def _total_units(self, costs: NDArray[np.float64]) -> int:
        """`_units` of several people together, in whole numbers."""
        units = np.clip(np.floor(np.ldexp(costs, self._shift)), -self._most, self._most)
        return int(units.astype(np.int64).sum())

    def _gather(self, units: int) -> None:
        assert self._costs is not None
        self._costs.gathered += units

    @property
    def _total(self) -> PrivateTotal | CostTotal | None:
        """Where people's costs are on their way out; None where nothing is released."""
        return self._costs if self._tree is None else self._tree

    def _spent(self) -> Account:
        return self._account(*(() if self._total is None else self._total.released()))

    # --- saving ----------------------------------------------------------------------------------

    def _parts(self) -> Mapping[str, Part]:
        drawn = Kept(
            {"place": self._place, "chance": self._chance, "side": self._side},
            {"order": self._order, "summed": self._summed},
        )
        parts: dict[str, Part] = {"coins": self._coins, "clipped": self._clipped, "drawn": drawn}
        if self._total is not None:
            parts["total"] = self._total
        if self._beliefs is not None:
            parts["beliefs"] = self._beliefs
        return parts

    def _restore(self, saved: Saved) -> None:
        settings, size = self.settings, self.settings.n_items
        self._coins.resume(saved.part("coins"))
        self._clipped.resume(saved.part("clipped"), self._rounds)
        drawn = saved.part("drawn")
        self._place = drawn.whole("place", at_least=0, at_most=size)
        rarest = settings.exploration_rate / (size + 1.0) * (1.0 - ROUNDING)
        self._chance = drawn.real("chance", at_least=rarest, at_most=1.0)
        self._side = drawn.real("side", at_least=0.0, at_most=1.0)
        self._summed = drawn.array("summed", (size,))
        self._order = drawn.array("order", (size,), np.int64)
        if not np.array_equal(np.sort(self._order), np.arange(size)):
            raise ValueError("the array order does not name every item once")
        if self._beliefs is not None:
            self._beliefs.resume(saved.part("beliefs"))
        if self._tree is not None:
            self._tree.resume(saved.part("total"), self._rounds, 1)
            if self._tree.sum is not None and not self._tree.exhausted:
                self._tree.sum.bounds.checked(self._tree.gathered, clip=False)
        elif self._costs is not None:
            most = math.ldexp(settings.bound, self._shift)
            self._costs.resume(saved.part("total"), self._rounds, settings.batch, most=most)
