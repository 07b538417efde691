"""Settings of the leader on leave-one-out gains: its batches, its running sum, the sets it may show."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

from ...constraints import Cardinality
from ...constraints.matroids.matroid import Matroid
from ...constraints.stored import from_plain, to_plain
from ...core import checks
from ...core.settings import of, one_of, whole
from ...core.state import Saved
from ...privacy import Event, GaussianNoise, Participation, Share, SumSpec, VectorBounds
from ...privacy.sums import METHODS
from .batches import LONGEST, first_batch, geometric_ends
from .selector import SelectorSettings, common_settings

# Whole units to 1. The sum of the longest batch is an exact float.
UNITS = 1 << 28


def _batch(value: Any) -> int | str:
    if isinstance(value, str):
        return checks.one_of("batch", value, ("geometric",))
    return checks.whole("batch", value, at_least=1, at_most=LONGEST)


@dataclass(frozen=True, kw_only=True)
class LeaderSettings(SelectorSettings):
    """What a `LeaderSelector` goes by."""

    constraint: Matroid = of(from_plain, to_plain)
    sums: str = one_of(METHODS)
    batch: int | str = of(_batch)
    first_batch: int = whole(at_least=1, at_most=LONGEST)
    event: Event | None = of(Event.from_json, Event.to_json, optional=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.constraint, Matroid) or self.constraint.n_items != self.n_items:
            raise ValueError(f"constraint={self.constraint!r} is not a matroid over {self.n_items} items")
        if self.k > self.constraint.rank:
            raise ValueError(
                f"k={self.k} exceeds the rank of {self.constraint!r}; choose k <= {self.constraint.rank}"
            )
        if isinstance(self.batch, int) and (self.rounds is None or self.first_batch != self.batch):
            raise ValueError(f"batch={self.batch} needs declared rounds, and no other first batch")

    @classmethod
    def read(cls, saved: Saved) -> Self:
        """The settings that a file holds."""
        known, size = saved.plain("constraint"), saved.plain("n_items")
        if isinstance(known, dict) and known.get("n_items", size) != size:  # before so much room is taken
            raise ValueError(f"constraint is not over {checks.shown(size)} items")
        return super().read(saved)

    @classmethod
    def tight(
        cls,
        n_items: int,
        k: int | None,
        rounds: int | None,
        share: Share,
        *,
        constraint: Matroid | None = None,
        batch: int | str = "geometric",
        first_batch: int | None = None,
        min_separation: int | None = None,
        sums: str = "sqrt",
        bound: float = 1.0,
        labels: Sequence[Any] | None = None,
    ) -> LeaderSettings:
        """The settings for what is asked, with the least noise that fits into ``share``.

        The first batch is 8 standard deviations of the first sum's noise long: an item that one person in
        eight wants then stands out by one of them. Of a declared number of rounds it takes a quarter at most.
        (On the data set eshop_clicks, at epsilon 1, anything from 40 to 150 people serves the same.)

        >>> import discreet as dc
        >>> LeaderSettings.tight(285, 5, None, dc.Budget(1.0, 1e-6).share()).first_batch
        77
        """
        if constraint is not None and not isinstance(constraint, Matroid):
            raise TypeError(f"constraint must be a matroid, got {checks.shown(constraint)}")
        if k is None and constraint is not None:
            k = constraint.over(checks.whole("n_items", n_items, at_least=1)).rank
        common = common_settings(n_items, k, rounds, bound, labels)  # type: ignore[arg-type]
        size, chosen = common["n_items"], common["k"]
        common["constraint"] = Cardinality(chosen, size) if constraint is None else constraint.over(size)
        common |= {"sums": checks.one_of("sums", sums, METHODS), "event": None}
        common["participation"] = Participation.declared(share, min_separation)
        length = _batch(batch)
        if isinstance(length, int):
            if first_batch is not None:
                raise ValueError(f"batch={length} is fixed; first_batch needs 'geometric'")
            if rounds is None:
                raise ValueError(
                    f"batch={length} with any number of rounds would release any number of sums; declare"
                    " rounds, or take batch='geometric'"
                )
            first = length
        elif first_batch is not None:
            first = checks.whole("first_batch", first_batch, at_least=1, at_most=LONGEST)
        else:
            first = _first(cls(**(common | {"rounds": None}), batch=length, first_batch=1), share)
            first = max(chosen, first if rounds is None else min(first, rounds // 4))
        found = cls(**common, batch=length, first_batch=first)
        spec = found.spec
        return found if spec is None else replace(found, event=spec.event(share, share.notion))

    @cached_property
    def ends(self) -> Sequence[int]:
        """The rounds before which a sum is released and a new set drawn: batches end there."""
        if isinstance(self.batch, int):
            return range(self.batch, self.horizon, self.batch)
        return geometric_ends(self.first_batch, self.rounds)

    @property
    def longest(self) -> int:
        """How many people a batch that is released has at most."""
        if len(self.ends) < 2:
            return self.first_batch
        return self.ends[-1] - self.ends[-2]

    def batches(self, rounds: int) -> int:
        """How many batches are over before round ``rounds``."""
        return bisect_left(self.ends, rounds)

    @property
    def entries(self) -> int:
        return 2 * self.n_items

    @property
    def spec(self) -> SumSpec | None:
        """The running sum of people's weighted gains; None where nothing is released."""
        if not self.ends:
            return None
        vectors = VectorBounds(self.n_items, 2, 1.0, (0.0, 1.0), None, self.longest)
        return SumSpec(
            vectors,
            len(self.ends),
            self.sums,
            variance_reduction=self.sums == "tree",
            participation=self.participation,
        )

    def batch_at(self, number: int) -> int:
        return self.batches(number + 1)

    def batch_start(self, batch: int) -> int:
        return self.ends[batch - 1] if batch else 0


def _first(endless: LeaderSettings, share: Share) -> int:
    """How many people make the first batch: the noise of the first of many sums, several times."""
    spec = endless.spec
    assert spec is not None
    event = spec.event(share, share.notion)
    assert isinstance(event, GaussianNoise)
    return first_batch(float(event.sigma) * spec.error(1))
