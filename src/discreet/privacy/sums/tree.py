"""The binary tree: each finished block of 2^j vectors is released once."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core import checks
from ...core.state import Saved
from ...kernels.prefix_sums import TreePrefix
from .. import samplers
from ..accountant import Spending
from ..conversions import exact, root_above, rounded_up
from ..events import Event, GaussianNoise, LaplaceNoise
from .base import MOST_NOISE, NUMBERS_AHEAD, RunningSum, norm_slack
from .participation import tree_norm_squared
from .spec import SumSpec

_COARSEST_BITS = 24  # steps of a tree's grid to the noise's scale, at the least


def tree_levels(rounds: int) -> int:
    """Levels of the tree that every prefix up to ``rounds`` can be built from: ceil(log2 rounds), at least 1.

    A sum over all of 2^m rounds is the sum of its two halves, so the root is never released; that is one
    level less than papers 001 and 004 pay for.

    >>> [tree_levels(rounds) for rounds in (1, 2, 3, 4, 1000, 1024, 1025)]
    [1, 1, 2, 2, 10, 10, 11]
    """
    return max(1, (checks.whole("rounds", rounds, at_least=1) - 1).bit_length())


def shares_of_halves(levels: int) -> NDArray[np.float64]:
    """What a block's own release weighs beside what is known of its two halves, by level from 1 on."""
    shares, variance = [], 1.0
    for _ in range(levels):
        halves = variance + variance
        shares.append(halves / (halves + 1.0))
        variance = shares[-1] * shares[-1] + (1.0 - shares[-1]) ** 2 * halves
    return np.array(shares)


def block_variances(levels: int, variance_reduction: bool) -> list[float]:
    """Variance of a released block of 2^level vectors for each level, in units of one draw's."""
    variances = [1.0]
    for _ in range(levels):
        halves = 2.0 * variances[-1]
        variances.append(halves / (halves + 1.0) if variance_reduction else 1.0)
    return variances


class TreeSum(RunningSum):
    """Binary-tree running sum: each finished block of 2^j rounds gets one noise vector.

    ``noise`` is ``"gaussian"``, ``"laplace"`` (per coordinate, pure epsilon) or ``"spherical"`` (the
    vector noise of papers 001 and 004, pure epsilon). ``variance_reduction=True`` combines each
    block with its two halves, weighted by their variances (Honaker 2015, the online form), which takes
    about a quarter off the noise for two noise vectors a round instead of one.

    Formal guarantee: one vector enters ``tree_levels(rounds)`` releases, each with the difference bound
    of the budget's neighbouring relation; papers 001 and 004 calibrate to the norm bound, half of it
    for replace-one. With ``min_separation`` all blocks are one release, which moves by the norm of how often
    a person is in each of them (`Participation`). Inputs may depend on earlier answers. Exact on a grid.
    Memory: one node per level.
    """

    methods = ("tree",)
    noises = ("gaussian", "laplace", "spherical")

    def __init__(
        self,
        dimension: int,
        rounds: int,
        budget: Spending,
        *,
        variance_reduction: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(dimension, rounds, budget, variance_reduction=bool(variance_reduction), **options)

    @property
    def levels(self) -> int:
        return tree_levels(self.rounds)

    @property
    def variance_reduction(self) -> bool:
        """Whether blocks are combined with their halves."""
        return self.spec.variance_reduction

    # --- of a specification ----------------------------------------------------------------------

    @classmethod
    def uses(cls, spec: SumSpec) -> int:
        return tree_levels(spec.rounds)

    @classmethod
    def group_stretch(cls, spec: SumSpec) -> float:
        assert spec.participation is not None
        levels = tree_levels(spec.rounds)
        return rounded_up(root_above(Fraction(tree_norm_squared(spec.rounds, levels, spec.participation))))

    @classmethod
    def error(cls, spec: SumSpec, step: int) -> float:
        levels = tree_levels(spec.rounds)
        variances = block_variances(levels, spec.variance_reduction)
        if step == 1 << levels:  # two blocks of the top level
            return math.sqrt(2.0 * variances[levels - 1])
        return math.sqrt(sum(variances[level] for level in range(levels) if step >> level & 1))

    @classmethod
    def worst_error(cls, spec: SumSpec) -> float:
        levels = tree_levels(spec.rounds)
        variances = block_variances(levels, spec.variance_reduction)
        halves = 2.0 * variances[levels - 1]  # the two blocks that a full tree's sum is made of
        return math.sqrt(levels * max(halves, sum(variances[:levels])))

    @classmethod
    def mean_error(cls, spec: SumSpec) -> float:
        # At most half of the numbers below T have any given bit; the sum over a full tree takes two blocks.
        levels = tree_levels(spec.rounds)
        total = sum(variance / 2.0 for variance in block_variances(levels, spec.variance_reduction)[:levels])
        return math.sqrt(levels * (total + 2.0 / (spec.rounds + 1)))

    @classmethod
    def most_draws(cls, spec: SumSpec) -> int:
        """Blocks that a sum can be made of: one per level, or the two halves of a full tree."""
        return max(2 if spec.rounds == 2 else 1, tree_levels(spec.rounds))

    @classmethod
    def mean_draws(cls, rounds: int) -> float:
        """At most how many blocks the sums of rounds 0 to ``rounds`` - 1 have, on average over the rounds."""
        checks.whole("rounds", rounds, at_least=1)
        return tree_levels(max(1, rounds - 1)) / 2.0 + 2.0 / rounds

    def draws(self, step: int) -> int:
        """Of how many blocks the sum after ``step`` vectors is made."""
        return 2 if step == 1 << self.levels else int(step).bit_count()

    @classmethod
    def grid(cls, spec: SumSpec, event: Event, neighbours: str) -> samplers.Grid | None:
        assert isinstance(event, GaussianNoise | LaplaceNoise)
        scale = event.sigma if isinstance(event, GaussianNoise) else event.scale
        if not scale:
            return None
        truncation = norm_slack(event.sensitivity, scale)
        if spec.added.people_per_vector > 1:
            # Truncation towards zero keeps every bound of one person's vector, so it costs nothing; a
            # sum of several is truncated as a whole, which can add a step to each coordinate that moves.
            changed = spec.added.changed(neighbours)
            each = changed if spec.added.norm == 1 else Fraction(math.isqrt(changed - 1) + 1)
            # Who comes back does so each time, and it adds up as what they move does.
            truncation += each * (exact(cls.group_stretch(spec)) if spec.returning else 1)
        # Where the sums are far larger than the noise (published settings), a coarser grid holds them.
        for bits in range(samplers.STEPS_BITS, _COARSEST_BITS - 1, -1):
            grid = samplers.Grid.for_noise(scale, event.sensitivity, truncation, bits)
            if exact(spec.added.largest) * spec.rounds / grid.step < 1 << 61:
                return grid
        raise ValueError(
            f"rounds={spec.rounds} vectors of size {spec.added.largest:g} do not fit the noise's grid"
            f" (noise {float(scale):g}); spend a smaller share or sum fewer rounds"
        )

    # --- adding ----------------------------------------------------------------------------------

    @property
    def _name(self) -> str:
        experts = f", {self.spec.stacked} experts" if self.spec.stacked > 1 else ""
        return f"tree of {self.levels} levels{experts}"

    def _start(self) -> None:
        whole = (np.int64, np.float64)[self._grid is None]
        kinds = (whole, *(2 * [np.float64 if self.variance_reduction else whole]))
        self._nodes = [np.zeros((self.levels + 1, self.dimension), dtype=kind) for kind in kinds]
        self._go_on(0)

    def _go_on(self, taken: int) -> None:
        """Sums go on from the nodes there are after so many vectors."""
        shares = shares_of_halves(self.levels) if self.variance_reduction else None
        norm, bound = self.bounds.norm, self.bounds.norm_bound
        # Loops add only vectors of a declared length.
        length = (0, 0.0) if bound is None else (norm, bound * self.bounds.people_per_vector)
        self._steps = TreePrefix(self._grid_numbers, self._prefix, *self._nodes, taken, shares, *length)

    @property
    def compiles(self) -> bool:
        """Those that have noise, a draw for each sum, and a declared length."""
        return self.one_draw_each and self.bounds.box is None and self.bounds.nonzeros is None

    @property
    def one_draw_each(self) -> bool:
        """Whether every sum takes one draw of noise: rows of it can be drawn ahead."""
        return self._vector == self.dimension and self._grid is not None and not self.variance_reduction

    def rows_ahead(self, wanted: int, *, draw: bool = True) -> int:
        # Exactly for those sums, in the order in which they would be taken one by one: what a seed leads to
        # does not change.
        rows = min(wanted, self._most_ahead(self._taken))
        if draw and rows > 0 and not self._ahead.shape[0]:
            assert self._grid is not None
            self._ahead = self._release.noise_rows(self._grid, rows, self.dimension)
        return self._ahead.shape[0]

    def _most_ahead(self, taken: int) -> int:
        return min(self.rounds - taken, max(1, NUMBERS_AHEAD // self.dimension)) if self.one_draw_each else 0

    # --- saving ----------------------------------------------------------------------------------

    def _arrays(self) -> dict[str, NDArray[Any]]:
        slots = [slot for _, slot in self._kept(self._taken)]
        names = ("totals", "released", "prefixes")
        return {name: array[slots] for name, array in zip(names, self._nodes, strict=True)}

    def _restore(self, saved: Saved, taken: int) -> None:
        kept = self._kept(taken)
        blocks = np.array([1 << level for level, _ in kept], dtype=np.int64)
        about = (
            ("totals", blocks, 0),
            ("released", blocks, MOST_NOISE),
            ("prefixes", blocks.cumsum(), MOST_NOISE),
        )
        for own, (name, vectors, noise) in zip(self._nodes, about, strict=True):
            found = saved.array(name, (len(kept), self.dimension), own.dtype.type)
            if self._grid is not None:  # sums are not larger than so many vectors and the noise together
                each = math.ceil(exact(self.bounds.largest) / self._grid.step) + 1
                for row, count in zip(found, vectors.tolist(), strict=True):
                    most = count * each + noise
                    if row.min() < -most or row.max() > most:
                        raise ValueError(f"the array {name} holds more than such vectors add up to")
            own[[slot for _, slot in kept]] = found
        if kept:
            last = self._nodes[2][kept[-1][1]]
            self._prefix[:] = last if self._grid is None else self._grid.values(last)
        self._go_on(taken)

    def _kept(self, taken: int) -> list[tuple[int, int]]:
        """The finished blocks that later sums need, the largest first: level, and slot among the nodes."""
        top = self.levels - 1
        full = [(top, top + place) for place in range(taken >> top)]
        return full + [(level, level) for level in reversed(range(top)) if taken >> level & 1]
