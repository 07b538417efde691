"""Settings of a master over a leader and experts: whose share is how large, and what it certifies."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from ... import bounds
from ...core.settings import of, real
from ...core.state import Saved
from ...privacy import Event, Share, SumSpec, VectorBounds
from .leader_settings import LeaderSettings
from .running_sum_settings import RunningSumSettings
from .selector import SelectorSettings, common_settings

# Of the budget: for the leader, for the experts, for comparing the two. Shares and prior are those of first
# measurements on the data sets eshop_clicks and msweb, and were not searched for.
SHARES = (Fraction(48, 100), Fraction(48, 100), Fraction(4, 100))
# How likely the experts are followed before anything is known.
PRIOR = 0.02


@dataclass(frozen=True, kw_only=True)
class BestOfBothSettings(SelectorSettings):
    """What a `BestOfBothSelector` goes by: those of its two learners, and of the sum that compares them."""

    leader: LeaderSettings = of(lambda plain: LeaderSettings.read(Saved(plain, {})), LeaderSettings.plain)
    experts: RunningSumSettings = of(
        lambda plain: RunningSumSettings.read(Saved(plain, {})), RunningSumSettings.plain
    )
    rate: float = real(above=0.0)
    fastest: float | None = real(above=0.0, optional=True)
    event: Event | None = of(Event.from_json, Event.to_json, optional=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        own = (self.n_items, self.k, self.rounds, self.bound)
        for one in (self.leader, self.experts):
            if (one.n_items, one.k, one.rounds, one.bound) != own:
                raise ValueError("the two learners are not about these items, rounds and bound")
        if self.experts.items_per_person is not None or self.experts.noise != "gaussian":
            raise ValueError("the experts count all items of a person, with Gaussian noise")
        if (self.rounds is None) != (self.fastest is not None):
            raise ValueError("the rate falls where no rounds are declared, and nowhere else")
        if self.leader.participation != self.experts.participation:
            raise ValueError("the two learners do not count people in the same rounds")

    @classmethod
    def tight(
        cls,
        n_items: int,
        k: int,
        rounds: int | None,
        share: Share,
        *,
        resample_every: int | str = 1,
        first_batch: int | None = None,
        weights: str | None = "norm",
        min_separation: int | None = None,
        sums: str = "sqrt",
        bound: float = 1.0,
        labels: Sequence[Any] | None = None,
    ) -> BestOfBothSettings:
        """The settings for what is asked, with the least noise that fits into ``share``.

        Without declared rounds the rate falls as 1 / sqrt(t), as that of Hedge for any number of rounds does.
        It begins with one over the deviation of the comparison's noise, which then never decides alone.
        """
        common = common_settings(n_items, k, rounds, bound, labels)
        if first_batch is not None and rounds is not None:
            raise ValueError(f"first_batch={first_batch} is for rounds=None; take resample_every")
        size, chosen, horizon, largest = (common[name] for name in ("n_items", "k", "rounds", "bound"))
        first, second, third = (share.part(part) for part in SHARES)
        shared: dict[str, Any] = {"sums": sums, "bound": largest, "min_separation": min_separation}
        leader = LeaderSettings.tight(size, chosen, horizon, first, first_batch=first_batch, **shared)
        experts = RunningSumSettings.tight(
            size,
            chosen,
            horizon,
            second,
            weights=weights,
            resample_every=resample_every,
            first_batch=first_batch,
            **shared,
        )
        rate = math.sqrt(-8.0 * math.log(PRIOR) / (experts.resample_every * (horizon or 1))) / largest
        fastest = 1.0 / largest if horizon is None else None
        found = cls(**common, leader=leader, experts=experts, rate=rate, fastest=fastest, event=None)
        spec = found.spec
        if spec is None:
            return found
        event = spec.event(third, share.notion)
        if fastest is not None and share.private:
            fastest = min(fastest, 1.0 / (largest * spec.deviation(event)))
        return replace(found, event=event, fastest=fastest)

    def rate_after(self, rounds: int) -> float:
        """The rate after so many rounds, for differences in units of the bound."""
        if self.fastest is None:
            return self.rate * self.bound
        return min(self.fastest, self.rate / math.sqrt(max(1, rounds))) * self.bound

    @property
    def resample_every(self) -> int:
        """For how many rounds one of the two is followed."""
        return self.experts.resample_every

    @property
    def units(self) -> int:
        """Whole units to the bound: the sum of a batch is an exact float."""
        return 1 << min(28, 53 - self.experts.longest.bit_length())

    @property
    def entries(self) -> int:
        return self.leader.entries + self.experts.entries

    @property
    def spec(self) -> SumSpec | None:
        """The running sum of what the leader earns beyond the experts, in units of the bound."""
        if not self.experts.releases:
            return None
        vectors = VectorBounds(1, 2, 1.0, (-1.0, 1.0), None, self.experts.longest)
        experts, reduced = self.experts, self.experts.sums == "tree"
        return SumSpec(
            vectors,
            experts.releases,
            experts.sums,
            variance_reduction=reduced,
            participation=experts.participation,
        )

    def counted_since(self, number: int) -> int | None:
        """Who counts is in no batch of either learner twice."""
        first, second = self.leader.counted_since(number), self.experts.counted_since(number)
        return None if first is None or second is None else min(first, second)

    @property
    def following_regret(self) -> float:
        """What choosing between the two can lose beside the experts (see `bounds.following`)."""
        spec, event = self.spec, self.event
        noise = 0.0 if spec is None or event is None else self.bound * spec.deviation(event)
        return bounds.following(self.horizon, self.rate, PRIOR, noise, self.resample_every, self.bound)

    @property
    def certified_regret(self) -> float:
        """That of the experts with their share of the budget, and what choosing between the two can lose.

        Infinite where no rounds are declared, as for the experts.
        """
        if self.k >= self.n_items:
            return 0.0
        if self.rounds is None:
            return math.inf
        both = self.experts.certified_regret + self.following_regret
        return min(bounds.trivial(self.horizon, self.bound), both)
