"""Settings of submodular minimisation from the costs of served sets, and what they certify."""

from __future__ import annotations

import math
import warnings
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...bounds import minimization as bounds
from ...core import checks
from ...core.settings import of, one_of, real, whole
from ...privacy import Event, LaplaceNoise, Share, SphericalLaplaceNoise, SumSpec, VectorBounds
from .lovasz_sums import ROUNDING, noise_cost
from .sets import SetMinimizerSettings, asked, published_regularization, wanted_regularization

FORMS = ("values", "tree", "thompson")
# Batches longer than the certificate's best tell more about people whose costs are far below the bound.
_LONGER = 1.25
# Rounds of a batch of Thompson sampling, by epsilon; a horizon has so many of them at least.
_THOMPSON_ROUNDS, _FEWEST_BATCHES = 80.0, 24


class HorizonTooShort(ValueError):
    """So few rounds that exploring would take more than all of them."""


@dataclass(frozen=True, kw_only=True)
class BanditMinimizerSettings(SetMinimizerSettings):
    """What a `BanditSubmodularMinimizer` goes by.

    ``event`` is the noise on a batch's sum of costs, or on a node of the tree of estimates. Thompson sampling
    has neither exploration rate nor regularization; both are 1.
    """

    form: str = one_of(FORMS)
    batch: int = whole(at_least=1)
    exploration_rate: float = real(above=0.0, at_most=1.0)
    event: Event = of(Event.from_json, Event.to_json)

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.whole("batch", self.batch, at_least=1, at_most=1 if self.form == "tree" else self.rounds)

    @classmethod
    def tight(
        cls,
        n_items: int,
        rounds: int,
        share: Share,
        bound: float = 1.0,
        *,
        form: str = "values",
        batch: int | None = None,
        exploration_rate: float | None = None,
        regularization: float | str = "auto",
        labels: Sequence[Any] | None = None,
        clip: bool = False,
    ) -> BanditMinimizerSettings:
        """What is given, and the rest from the certificate; `HorizonTooShort` where it cannot be had."""
        common = asked(n_items, rounds, share, bound, labels, clip)
        checks.one_of("form", form, FORMS)
        length, rate = _given(common["rounds"], form, batch, exploration_rate)
        event = value_noise(share, common["bound"])
        common |= {"calibration": "tight", "centre": 0.5, "form": form, "event": event}
        if form == "thompson":
            if rate is not None or regularization != "auto":
                raise ValueError(
                    'form="thompson" has neither exploration_rate= nor regularization=; leave both out'
                )
            return cls(
                **common, batch=length or _thompson_batch(common["rounds"], share), exploration_rate=1.0
            )

        def trial(length: int, rate: float) -> BanditMinimizerSettings:
            found = cls(**common, batch=length, exploration_rate=rate)
            if form == "values":
                return found
            tree = found._estimates(max(1, found.releases))
            return replace(found, event=tree.event(share, share.notion))

        found = trial(*_settled(trial, length, rate))
        careful = found.best_regularization(found.second_moment)
        optimistic = found.best_regularization(found.second_moment_without_noise)
        return replace(found, regularization=wanted_regularization(regularization, careful, optimistic))

    @classmethod
    def published(
        cls,
        n_items: int,
        rounds: int,
        share: Share,
        bound: float = 1.0,
        *,
        batch: int | None = None,
        exploration_rate: float | None = None,
        regularization: float | str = "auto",
        labels: Sequence[Any] | None = None,
        clip: bool = False,
    ) -> BanditMinimizerSettings:
        """The constants of paper 001; a warning where the horizon is too short for its gamma."""
        common = asked(n_items, rounds, share, bound, labels, clip)
        size, horizon, largest = common["n_items"], common["rounds"], common["bound"]
        _, rate = _given(horizon, "tree", batch, exploration_rate)
        gamma = _published_rate(size, horizon) if rate is None else rate
        # For the estimates' expected length, and one level more than is released.
        levels, length = math.ceil(math.log2(horizon)) + 1, 4.0 * largest * size / math.sqrt(gamma)
        moves = _estimate_moves(size, largest, gamma, share.neighbours)
        printed = largest * math.exp(math.log(horizon) * 2.0 / 3.0)
        common["regularization"] = published_regularization(regularization, printed)
        return cls(
            **common,
            calibration="published",
            centre=0.0,
            form="tree",
            batch=1,
            exploration_rate=gamma,
            event=SphericalLaplaceNoise(moves, length * levels / share.budget.epsilon),
        )

    # --- what follows ----------------------------------------------------------------------------

    @property
    def entries(self) -> int:
        return 2 * self.n_items

    @property
    def releases(self) -> int:
        """Sums that a draw can look at: one per batch but the last."""
        return -(-self.rounds // self.batch) - 1

    @property
    def moves(self) -> float:
        """How far one person can move a sum of costs."""
        return _value_moves(self.bound, self.neighbours)

    @property
    def spec(self) -> SumSpec | None:
        """The tree of estimates; None where sums of costs leave instead, or nothing does."""
        return self._estimates(self.releases) if self.form == "tree" and self.releases else None

    def _estimates(self, releases: int) -> SumSpec:
        noise = "spherical" if self.calibration == "published" else "laplace"
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
        """The same if nothing protected the costs."""
        return bounds.value_second_moment(self.n_items, self.batch, 0.0, self.bound)

    def best_regularization(self, second_moment: float) -> float:
        """The regularization with the smallest certificate for such estimates."""
        slope = self.exploration_rate * self.n_items * self.batch
        return math.sqrt(8.0 * self.rounds * second_moment / slope)

    @property
    def certified_regret(self) -> float:
        """Bound on the expected cost beyond the best fixed set's (see `bounds.minimization.explored`)."""
        if self.form == "thompson":
            return bounds.trivial_cost(self.rounds, self.bound)
        return bounds.explored(
            self.n_items,
            self.rounds,
            self.batch,
            self.exploration_rate,
            self.regularization,
            self.second_moment,
            self.bound,
            centre=self.centre,
        )


def _thompson_batch(rounds: int, share: Share) -> int:
    """So many rounds that the noise on their average is a small part of the bound."""
    wanted = math.ceil(_THOMPSON_ROUNDS / float(share.epsilon)) if share.private else 10
    return max(1, min(max(10, wanted), rounds // _FEWEST_BATCHES))


def value_noise(share: Share, bound: float) -> LaplaceNoise:
    """The least Laplace noise for a sum of costs."""
    return LaplaceNoise.within(share, _value_moves(bound, share.neighbours), notion=share.notion)


def _value_moves(bound: float, neighbours: str) -> float:
    """One person moves a sum of costs by 2 bound (replaced) or by bound."""
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

    # The certified regret is 6 gamma M T at the best gamma, whatever the batch B. That gamma's cube grows as
    # B + 2 (scale / M)^2 / B, which falls up to its smallest place and rises from there.
    one = trial(1, 1.0)
    rounds, free = one.rounds, one.form == "values" and batch is None
    best = 1 if batch is None else batch
    if free:
        assert isinstance(one.event, LaplaceNoise)
        best = _smallest_at(best_rate, math.sqrt(2.0) * float(one.event.scale) / one.bound, rounds)
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


def _smallest_at(best_rate: Callable[[int], float], place: float, rounds: int) -> int:
    """The whole number from 1 to ``rounds`` with the smallest rate, if a real one would be ``place``."""
    below = min(max(1, math.floor(place)), rounds)
    return min(below, min(below + 1, rounds), key=best_rate)


def _published_rate(n_items: int, rounds: int) -> float:
    """Paper 001's gamma, clamped to 1 with a warning where the horizon is too short for it."""
    gamma = bounds.published_exploration_rate(n_items, rounds)
    if gamma <= 1.0:
        return gamma
    warnings.warn(
        f"rounds={rounds} is too short for the published gamma, {gamma:.3g} for {n_items} items; it is set to"
        f" 1. At least n^4.5 = {math.ceil(n_items**4.5)} rounds are needed",
        UserWarning,
        stacklevel=4,
    )
    return 1.0


def _largest_estimate(n_items: int, bound: float, exploration_rate: float) -> float:
    """Longest estimate, in L1 (of the two-sided one) and in L2 (of the one-sided one)."""
    sides = 1.0 if n_items == 1 else 2.0
    return sides * bound * (n_items + 1.0) / exploration_rate * (1.0 + ROUNDING)


def _estimate_moves(n_items: int, bound: float, exploration_rate: float, neighbours: str) -> float:
    """How far a person can move an estimate: the set, and so its place, is public; the cost is theirs."""
    return _largest_estimate(n_items, bound, exploration_rate) * (2.0 if neighbours == "replace" else 1.0)
