"""Totals of people's feedback: gathered, released with noise, known.

`PrivateTotal` is a running sum over the whole stream. `BatchTotal` is the sum of one batch of people after
another, of which nobody is in two.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..core.state import Saved
from ..privacy import Coins, Event, Gate, LaplaceNoise, Release, RunningSum, SumSpec, TreeSum, samplers
from ..privacy.conversions import exact
from ..privacy.sums.compiled import CompiledSum
from .rounds import Rounds

if TYPE_CHECKING:
    from ..backends.arguments import FactorizedState

Values = NDArray[Any]


class PrivateTotal:
    """A private running sum of people's feedback, and the vector that gathers it between releases.

    ``shape`` is that of what is known. ``units`` is how many whole units make 1, where amounts are gathered
    in whole numbers; None where they are floats. ``spec`` is None where nothing is ever released: with a
    single decision nobody's data enters one. ``coins`` are for public noise on top that keeps a tree's noise
    from ever falling, as certificates of perturbed leaders need; None where that is not wanted. ``ahead`` is
    for loops that take sums themselves (`compiled`): noise is then drawn for many sums at a time.

    People are emptied out before they are released: an interruption may lose them, never count them twice.
    """

    def __init__(
        self,
        spec: SumSpec | None,
        gate: Gate,
        event: Event | None,
        shape: tuple[int, ...],
        *,
        units: float | None = None,
        coins: Coins | None = None,
        clip: bool = False,
        ahead: bool = False,
        label: str,
    ) -> None:
        self._shape, self._units, self._coins = shape, units, coins
        self._private = gate.budget.private
        self.sum: RunningSum | None = None
        if (spec is None) != (event is None):
            raise ValueError("noise has to be declared where sums are released, and nowhere else")
        if spec is not None:
            kind = CompiledSum if ahead and issubclass(CompiledSum, spec.kind) else spec.kind
            self.sum = kind.of(spec, gate, event=event, clip=clip, label=label)
        self.gathered: Values = self._nothing()
        self.known: Values = np.zeros(shape)
        self._topped_up = 0.0

    def _nothing(self) -> Values:
        return np.zeros(self._shape, dtype=np.float64 if self._units is None else np.int64)

    @property
    def taken(self) -> int:
        """How many sums have been released."""
        return 0 if self.sum is None else self.sum.taken

    @property
    def exhausted(self) -> bool:
        """Whether nothing more will be released."""
        return self.sum is None or self.sum.taken >= self.sum.rounds

    def released(self) -> Iterator[tuple[str, Release, int]]:
        """What the account has to list so far: (label, release, count)."""
        if self.sum is not None and self.sum.taken:
            yield *self.sum.charged, self.sum.spec.count

    def gather(self, amounts: Values) -> None:
        """Take up the feedback of one person, or of several together."""
        self.gathered += amounts

    def release(self) -> Values:
        """Release what was gathered; what is known from now on."""
        if self.sum is None or self.exhausted:
            return self.known
        amounts, self.gathered = self.gathered.ravel(), self._nothing()
        self.known = self.sum.add(amounts if self._units is None else amounts / self._units)
        self.known = self.known.reshape(self._shape) + self._top_up(self.sum)
        return self.known

    @property
    def compiles(self) -> bool:
        """Whether a compiled loop can take sums itself (`compiled`)."""
        return isinstance(self.sum, CompiledSum)

    def rows_ahead(self, *, draw: bool = True) -> int:
        """How many sums such a loop can take before noise has to be drawn; with ``draw``, some if it is none.

        Where several sums share a gate, who draws when is part of what a seed means.
        """
        assert isinstance(self.sum, CompiledSum)
        return self.sum.rows_ahead(draw=draw)

    @contextmanager
    def compiled(self, count: int) -> Iterator[tuple[FactorizedState, Values, Values]]:
        """For a compiled loop that takes the next ``count`` sums: their arrays, what is known and gathered.

        The loop leaves the last sum in what is known, and whom no sum has yet in what is gathered. Whatever
        breaks in between leaves a sum that takes nothing any more.
        """
        assert isinstance(self.sum, CompiledSum)
        with self.sum.compiled(count) as (inside, known):
            yield inside, known, self.gathered
            self.known = known.reshape(self._shape).copy()

    def _top_up(self, total: RunningSum) -> Values | float:
        """Public noise that makes up for what a tree's sum has less than the noisiest one.

        A tree's sums are less noisy right after a power of two. The factorised sums' noise only grows.
        """
        if self._coins is None or not isinstance(total, TreeSum) or not self._private:
            return 0.0
        coins, now = self._coins.generator, total.noise_std(total.taken)
        if total.noise == "gaussian":
            self._topped_up = max(self._topped_up, now)
            return coins.normal(0.0, math.sqrt(self._topped_up**2 - now**2), self._shape)
        # The same number of draws in every sum.
        missing, unit = total.spec.most_draws - total.draws(total.taken), total.noise_std(1)
        if total.noise == "laplace":
            extra = coins.laplace(0.0, unit / math.sqrt(2.0), (missing, *self._shape))
            return np.asarray(extra.sum(axis=0))
        vectors, size = total.spec.stacked, total.spec.bounds.dimension
        lengths = coins.gamma(size, unit / math.sqrt(size + 1.0), (missing, vectors, 1))
        ways = coins.standard_normal((missing, vectors, size))
        extra = lengths * ways / np.linalg.norm(ways, axis=2, keepdims=True)
        return np.asarray(extra.sum(axis=0).reshape(self._shape))

    # --- saving ----------------------------------------------------------------------------------

    def state(self) -> tuple[dict[str, Any], dict[str, Values]]:
        """For `resume`. The sums in it are not private."""
        plain: dict[str, Any] = {"topped_up": self._topped_up, "sum": None}
        arrays = {"gathered": self.gathered, "known": self.known}
        if self.sum is not None:
            plain["sum"], own = self.sum.state()
            arrays |= {f"sum.{name}": array for name, array in own.items()}
        return plain, arrays

    def resume(self, saved: Saved, rounds: Rounds, every: int, *, most: float | None = None) -> None:
        """Go on with what was gathered and known, of a sum that takes people every so many rounds.

        ``most`` bounds what one round adds to an entry.
        """
        least = max(0, rounds.drawn(every) - 1)
        self.resume_after(saved, least, rounds.number - least * every, rounds.number, most=most)

    def resume_after(
        self, saved: Saved, least: int, waiting: int, unreleased: int, *, most: float | None = None
    ) -> None:
        """Go on after ``least`` sums at the least, with people of ``waiting`` rounds at the most.

        ``unreleased`` is how many rounds may be gathered once nothing more will be released.
        """
        if saved.given("sum") != (self.sum is not None):
            raise ValueError("the file has a running sum and the settings do not, or the other way round")
        if self.sum is not None:
            self.sum.resume(saved.inner("sum", "sum."))
            if self.sum.taken < min(least, self.sum.rounds):
                raise ValueError(f"taken={self.sum.taken}, but {least} sums have been asked for")
        full = self.sum is not None and self.exhausted
        waiting = unreleased if full else waiting
        noisiest = 0.0
        if self.sum is not None:  # no sum has more noise than so many draws of it
            noisiest = self.sum.noise_std(1) * math.sqrt(self.sum.spec.most_draws) * (1.0 + 1e-9)
        self._topped_up = saved.real("topped_up", at_least=0.0, at_most=noisiest)
        self.known = saved.array("known", self._shape)
        whole, limit = self._units is not None, None if most is None else most * waiting
        signed = not whole or (self.sum is not None and (self.sum.spec.added.box or (-1.0,))[0] < 0.0)
        low = None if limit is None else (-limit if signed else 0)
        kind = np.int64 if whole else np.float64
        self.gathered = saved.array("gathered", self._shape, kind, at_least=low, at_most=limit)
        if self.sum is not None and not full:
            bounds = self.sum.spec.added
            many = bounds.nonzeros is not None and int(np.count_nonzero(self.gathered)) > (
                bounds.nonzeros * bounds.people_per_vector
            )
            if self._units is not None and bounds.norm_bound is not None:
                length = np.linalg.norm(self.gathered.ravel() / self._units)
                many = many or bool(length > bounds.norm_bound * waiting * (1.0 + 1e-9))
            if many:
                raise ValueError("the array gathered holds more than a batch of such people can amount to")


class BatchTotal:
    """Sums of disjoint batches of people, each released once with Laplace noise on a public grid.

    One batch is charged for, as nobody is in two. Amounts are summed in whole steps of ``step``: of the grid,
    or of ``finest`` where there is no noise. ``truncation`` is how many steps rounding can add to what one
    person moves: none where each person's amount is truncated on its own, 1 where a sum is.
    """

    def __init__(
        self, gate: Gate, event: LaplaceNoise, finest: Fraction, *, truncation: int = 0, label: str
    ) -> None:
        self.release: Release = gate.reserve(event, disjoint=True, label=label)
        self.grid: samplers.Grid | None = None
        if event.scale:
            self.grid = samplers.Grid.for_noise(event.scale, event.sensitivity, truncation)
        self.step = finest if self.grid is None else self.grid.step

    def noisy(self, steps: NDArray[np.int64]) -> NDArray[np.int64]:
        """The sums of one batch as they leave. Empty the batch first: it leaves once."""
        return steps + self.noise(steps.size)

    def noise(self, count: int) -> NDArray[np.int64]:
        """Noise for so many sums, in steps: for a compiled loop that releases several batches."""
        if self.grid is None:
            return np.zeros(count, dtype=np.int64)
        return self.release.noise(self.grid, count)


class CostTotal(BatchTotal):
    """A number of each person, summed over one batch of people after the other: what their batch cost.

    Sums are whole numbers of any size, in units of whoever gathers them. ``finest`` is their unit where there
    is no noise; None for costs that are then summed as they are. ``moves`` is how far one person moves a sum:
    noise for less than that is refused.
    """

    def __init__(
        self,
        gate: Gate,
        event: Event | None,
        moves: float,
        finest: Fraction | None = None,
        *,
        truncation: int = 0,
        label: str,
    ) -> None:
        needed = LaplaceNoise.within(gate.budget.share(), moves)
        if type(event) is not LaplaceNoise or exact(event.sensitivity) < exact(needed.sensitivity):
            raise ValueError(f"event={event} is not for costs that move a sum by {moves:g}")
        super().__init__(gate, event, finest or Fraction(1), truncation=truncation, label=label)
        self._label = label
        self._whole = finest is not None or self.grid is not None
        self.gathered: int | float = 0
        self.batches = 0

    def released(self) -> Iterator[tuple[str, Release, int]]:
        """What the account has to list so far: (label, release, count)."""
        if self.batches:
            yield self._label, self.release, 1

    def take(self) -> int | float:
        """The sum of the batch, which is emptied out: an interruption may lose people, never repeat them."""
        gathered, self.gathered = self.gathered, 0
        self.batches += 1
        return gathered

    def leave(self, steps: int | float) -> float:
        """A batch's sum as it leaves; ``steps`` are those of the grid, and the result is in units of cost."""
        return float(steps + int(self.noise(1)[0])) * float(self.step)

    def state(self) -> tuple[dict[str, Any], dict[str, Values]]:
        """For `resume`. The sum in it is not private."""
        return {"gathered": self.gathered, "batches": self.batches}, {}

    def resume(self, saved: Saved, rounds: Rounds, batch: int, *, most: float) -> None:
        """Go on with an open batch; ``most`` bounds what one round adds, in the units of its sum."""
        taken = max(0, rounds.drawn(batch) - 1)
        self.batches = saved.whole("batches", at_least=taken, at_most=rounds.number // batch)
        limit = most * (rounds.number - self.batches * batch)
        if self._whole:
            whole = math.ceil(limit)
            self.gathered = saved.hidden("gathered", at_least=-whole, at_most=whole)
            return
        gathered = saved.plain("gathered")
        if isinstance(gathered, bool) or not isinstance(gathered, int | float):
            raise ValueError("gathered must be a number")
        if not abs(gathered) <= limit * (1.0 + 1e-9):
            raise ValueError("gathered is not what costs of so many rounds add up to")
        self.gathered = gathered
