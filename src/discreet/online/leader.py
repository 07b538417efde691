"""One leader on private sums of leave-one-out gains: a single vector over all items, for any k."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..constraints import Cardinality, Matroid
from ..core import checks
from ..core.options import Growth, SumMethod
from ..kernels.selection import add_leave_one_out, norm_weight
from ..objectives import Population, answers
from ..privacy import (
    Event,
    Gate,
    Participation,
    Seed,
    Share,
    SumSpec,
    VectorBounds,
)
from ..privacy.accountant import Spending
from ..privacy.prefix_sum import METHODS
from .learner import OnlineSelector, SelectorSettings, common_settings, tightened
from .partial import Counting
from .released import Pooled, Released
from .sums import LONGEST, BatchedSum, first_batch_within, geometric_ends, masked, released_sum

UNITS = 1 << 28  # units that make 1: the sum of the longest batch is exact as a float


@dataclass(frozen=True, kw_only=True)
class LeaderSettings(SelectorSettings):
    """Settings of `LeaderSelector`."""

    constraint: Matroid
    sums: str = "sqrt"
    batch: int | str = "geometric"
    first_batch: int
    event: Event | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.one_of("sums", self.sums, METHODS)
        if not isinstance(self.constraint, Matroid) or self.constraint.n_items != self.n_items:
            raise ValueError(f"constraint={self.constraint!r} is not a matroid over {self.n_items} items")
        if self.k > self.constraint.rank:
            raise ValueError(
                f"k={self.k} exceeds the rank of {self.constraint!r}; choose k <= {self.constraint.rank}"
            )
        if isinstance(self.batch, int) and (self.rounds is None or self.first_batch != self.batch):
            raise ValueError(f"batch={self.batch} needs declared rounds, and no other first batch")

    @classmethod
    def tight(
        cls, n_items: int, k: int | None, rounds: int | None, share: Share, **options: Any
    ) -> LeaderSettings:
        """Settings for the options of a `LeaderSelector`, with the least noise that fits into ``share``.

        The first batch has 8 people per standard deviation of the first sum's noise: an item that one person
        in eight wants then stands out by one deviation. It takes at most a quarter of the declared rounds.
        (On the data set eshop_clicks, at epsilon 1, anything from 40 to 150 people performs the same.)

        >>> import discreet as dc
        >>> LeaderSettings.tight(285, 5, None, dc.Budget(1.0, 1e-6).share()).first_batch
        77
        """
        constraint, first = options.pop("constraint", None), options.pop("first_batch", None)
        if constraint is not None and not isinstance(constraint, Matroid):
            raise TypeError(f"constraint must be a matroid, got {checks.shown(constraint)}")
        if k is None and constraint is not None:
            k = constraint.over(checks.whole("n_items", n_items, at_least=1)).rank
        options["participation"] = Participation.declared(share, options.pop("min_separation", None))
        given = common_settings(n_items, k, rounds, **options)
        size, chosen = given["n_items"], given["k"]
        given["constraint"] = Cardinality(chosen, size) if constraint is None else constraint.over(size)
        batch = given.get("batch", "geometric")
        if isinstance(batch, str):
            checks.one_of("batch", batch, ("geometric",))
            if first is None:
                first = first_batch_within(cls, given, share)
            first = checks.whole("first_batch", first, at_least=1, at_most=LONGEST)
        else:
            if first is not None:
                raise ValueError(f"batch={batch} is fixed; first_batch needs 'geometric'")
            if rounds is None:
                raise ValueError(
                    f"batch={batch} with any number of rounds would release any number of sums; declare"
                    " rounds, or take batch='geometric'"
                )
            given["batch"] = first = checks.whole("batch", batch, at_least=1, at_most=LONGEST)
        return cls(**given, first_batch=first).noisy(share)

    @cached_property
    def ends(self) -> Sequence[int]:
        """The rounds before which a batch ends, its sum is released and a new set is drawn."""
        if isinstance(self.batch, int):
            return range(self.batch, self.horizon, self.batch)
        return geometric_ends(self.first_batch, self.rounds)

    @property
    def longest(self) -> int:
        """The largest number of people in a batch that is released."""
        return self.first_batch if len(self.ends) < 2 else self.ends[-1] - self.ends[-2]

    @cached_property
    def spec(self) -> SumSpec | None:
        """The running sum of people's weighted gains; None where nothing is released."""
        vectors = VectorBounds(self.n_items, 2, 1.0, (0.0, 1.0), None, self.longest)
        return released_sum(self, vectors, len(self.ends))


class LeaderSum(BatchedSum):
    """Private sums of weighted leave-one-out gains, and the best set for these sums."""

    settings: LeaderSettings

    def __init__(self, settings: LeaderSettings, gate: Gate) -> None:
        label = "weighted leave-one-out gains"
        how: dict[str, Any] = {"units": float(UNITS), "most": UNITS, "scale": settings.bound}
        super().__init__(settings, gate, (settings.n_items,), label=label, **how)

    def drawn(self, number: int, active: NDArray[np.bool_] | None, pool: Pooled | None) -> NDArray[np.int32]:
        scores = self.known(number, pool)
        if scores is None:
            scores = self.public.generator.random(self.settings.n_items)
        scores = scores if active is None else masked(scores, active)
        base = np.flatnonzero(self.settings.constraint.maximize(scores, base=True))
        # If fewer items are shown than the constraint allows, show the best: greedy takes them first.
        best = base[np.argsort(-scores[base], kind="stable")][: self.settings.k]
        return best.astype(np.int32)

    def units_of(self, shown: NDArray[np.int32]) -> Counting:
        return partial(_units, self.settings.bound, shown)

    def add_rows(
        self, people: Population, first: int, within_limit: NDArray[np.bool_], shown: NDArray[np.int32]
    ) -> None:
        rows, how = people.as_rows(), (self.settings.bound, float(UNITS), self.pending)
        assert rows is not None
        add_leave_one_out(rows.compressed, first, within_limit, shown, *how)


def _units(bound: float, shown: NDArray[np.int32], person: Any) -> NDArray[np.int64]:
    """The weighted leave-one-out gains of a person, or their sum over people given as rows, in units."""
    rows = person.as_rows()
    if rows is not None:
        out = np.zeros(rows.n_items, dtype=np.int64)
        everybody = np.ones(rows.n_rows, dtype=np.bool_)
        add_leave_one_out(rows.compressed, 0, everybody, shown, bound, float(UNITS), out)
        return out
    alone, gains = answers.leave_one_out(person, shown.tolist(), bound)
    weight = UNITS * float(norm_weight(answers.squared_length(alone / bound)))
    return np.floor(gains / bound * weight).astype(np.int64)


class LeaderSelector(OnlineSelector):
    """Show the items with the largest private sums of leave-one-out gains.

    For every person, item a earns f(S + a) - f(S) if it is outside the shown set S and f(S) - f(S - a) if it
    is inside. The noisy sum of these gains over everybody so far determines the next set: its k largest
    entries, or the heaviest independent set of a matroid (`constraint`; for a partition matroid the best of
    every block). Shown items keep earning what they alone contribute, and an item that duplicates them earns
    nothing: the leader settles on items that complement each other, with one vector instead of one per slot.

    ``batch="geometric"`` releases a sum after ``first_batch`` people, and then after batches each 1.15 times
    as long as the one before, so that few releases suffice. Where ``rounds`` is None, 100 of them are
    reserved, for some 10^8 people, at 15 % more noise than 35 have; the last set is served after that.
    ``batch=B`` releases every B rounds, which reacts sooner; it needs ``rounds``. Before the first release a
    random set is shown.

    ``min_separation=s`` is for people who return, with ``max_rounds_per_person=b``: of each person, who then
    needs a ``person_id``, at most b batches count, once each and at least s apart. Noise covers what these
    can move together (`privacy.Participation`), not b times what one can.

    Formal guarantee: one person moves one sum by at most sqrt 2 in L2 when replaced, by 1 when added or
    removed, whatever k, n_items and their number of items. Proof. Let h = f / bound, and c the vector of
    h({a}). By submodularity every gain is at most h({a}), and by monotonicity none is negative; each is
    clipped to [0, h({a})], so that this also holds for functions without these properties. The person's gains
    are weighted by u = min(1, 1 / ||c||), so that their L2 norm is at most u ||c|| <= 1. Two vectors of norm
    at most 1 without negative entries are at most a right angle apart: their distance is at most sqrt 2. The
    weight and the weighted gains are rounded down to integer units of 2^-28, and the weight is first lowered
    by a fraction of 2^-20, which exceeds the rounding error of ||c||. Integer units are summed exactly.
    Everything after the running sum is post-processing. Holds for people chosen with knowledge of all earlier
    sets. Noise is Gaussian, so the budget needs a delta.

    Regret: nothing is certified. A greedy leader can be fooled by a stream made against it
    (`RunningSumSelector` cannot), and fixed points of leave-one-out gains need not be the best set. On
    stationary streams it does better than any certified learner.

    >>> import discreet as dc
    >>> people = dc.objectives.Coverage([[1, 0, 0, 1], [0, 1, 0, 0]] * 500)
    >>> learner = LeaderSelector(4, 2, None, dc.Budget(1.0, 1e-6), seed=0)
    >>> trace = learner.run(people)
    >>> 1 in learner.choose().items, trace.average > 0.7
    (True, True)
    """

    settings: LeaderSettings
    _sum: LeaderSum
    _shares = True
    _settings_type: ClassVar[type[LeaderSettings]] = LeaderSettings
    _state = ("_sum",)

    def __init__(
        self,
        n_items: int,
        k: int | None,
        rounds: int | None,
        budget: Spending,
        *,
        constraint: Matroid | None = None,
        batch: int | Growth = "geometric",
        first_batch: int | None = None,
        min_separation: int | None = None,
        sums: SumMethod = "sqrt",
        bound: float = 1.0,
        labels: Sequence[Any] | None = None,
        start: Released | OnlineSelector | None = None,
        seed: Seed = None,
    ) -> None:
        super().__init__(*tightened(LeaderSettings, locals()))

    def _begin(self) -> None:
        self._constrained = not isinstance(self.settings.constraint, Cardinality)
        self._sum = LeaderSum(self.settings, self._gate)

    def _start(self, start: Released) -> None:
        super()._start(start)
        if start.values is not None:
            self._sum.warm(start.values / self.settings.bound, start.people)

    def _grown(self, n_items: int, labels: tuple[Any, ...] | None) -> LeaderSettings:
        constraint = self.settings.constraint
        if not isinstance(constraint, Cardinality):
            raise ValueError(
                "the constraint is about the items there were: make a new learner, with start= this one"
            )
        more = Cardinality(constraint.rank, n_items)
        return replace(self.settings, n_items=n_items, labels=labels, constraint=more)

    def _feasible(self, items: list[int]) -> bool:
        return self.settings.constraint.contains(items)

    def _check_enough(self, active: NDArray[np.bool_]) -> None:
        super()._check_enough(active)
        best = self.settings.constraint.maximize(active.astype(np.float64))
        if np.count_nonzero(best) < self.settings.k:
            raise ValueError(f"the items that are left make no set of {self.settings.k}")

    def _could_show(self, shown: NDArray[Any]) -> bool:
        return super()._could_show(shown) and self.settings.constraint.contains(shown.tolist())
