"""The binary tree: each finished block of 2^j vectors is released once."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core import checks
from ...core.state import Saved
from .. import samplers
from ..conversions import exact, root_above, rounded_up
from ..events import Event, GaussianNoise, LaplaceNoise
from ..spending import Spending
from .base import MOST_NOISE, RunningSum, norm_slack
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


def block_variances(levels: int, variance_reduction: bool) -> list[float]:
    """Variance of a released block of 2^level vectors for each level, in units of one draw's."""
    variances = [1.0]
    for _ in range(levels):
        halves = 2.0 * variances[-1]
        variances.append(halves / (halves + 1.0) if variance_reduction else 1.0)
    return variances


@dataclass
class Node:
    """A finished node that later prefixes still use: its true sum, and what was released of it."""

    level: int
    total: NDArray[np.int64]
    estimate: NDArray[Any]
    variance: float
    prefix: NDArray[Any]  # released sum of everything up to the end of this node


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
        self._stack: list[Node] = []

    def _add(self, vector: NDArray[np.float64]) -> NDArray[np.float64]:
        grid, reduced = self._grid, self.variance_reduction
        total: NDArray[Any] = vector.copy() if grid is None else grid.truncate(vector)
        level, top = 0, self.levels - 1
        stack = list(self._stack)
        estimate, variance = (self._released(total), 1.0) if reduced else (total, 1.0)
        while level < top and stack and stack[-1].level == level:
            other = stack.pop()
            total = total + other.total
            level += 1
            if reduced:
                halves, halves_variance = estimate + other.estimate, variance + other.variance
                weight = halves_variance / (halves_variance + 1.0)
                estimate = weight * self._released(total) + (1.0 - weight) * halves
                variance = weight * weight + (1.0 - weight) ** 2 * halves_variance
        if not reduced:
            estimate = self._released(total)
        prefix = estimate + stack[-1].prefix if stack else estimate
        self._stack = [*stack, Node(level, total, estimate, variance, prefix)]
        return self._in_units(prefix)

    def _released(self, total: NDArray[Any]) -> NDArray[Any]:
        """A node's sum as it leaves, in steps of the grid."""
        return total if self._grid is None else total + self._noise_steps()

    def _in_units(self, prefix: NDArray[Any]) -> NDArray[np.float64]:
        return np.array(prefix, dtype=np.float64) if self._grid is None else self._grid.values(prefix)

    # --- saving ----------------------------------------------------------------------------------

    def _arrays(self) -> dict[str, NDArray[Any]]:
        arrays: dict[str, NDArray[Any]] = {"variances": np.array([node.variance for node in self._stack])}
        for index, node in enumerate(self._stack):
            arrays |= {
                f"total{index}": node.total,
                f"estimate{index}": node.estimate,
                f"prefix{index}": node.prefix,
            }
        return arrays

    def _restore(self, saved: Saved, taken: int) -> None:
        levels = self._stack_after(taken)
        variances = saved.array("variances", (len(levels),), at_least=0.0, at_most=1.0)
        self._stack, summed = [], 0
        for index, level in enumerate(levels):
            summed += 1 << level
            self._stack.append(
                Node(
                    level,
                    self._saved_node(saved, f"total{index}", 1 << level, noisy=False),
                    self._saved_node(saved, f"estimate{index}", 1 << level, noisy=True),
                    float(variances[index]),
                    self._saved_node(saved, f"prefix{index}", summed, noisy=True),
                )
            )

    def _saved_node(self, saved: Saved, name: str, vectors: int, *, noisy: bool) -> NDArray[Any]:
        """A sum of so many vectors, which cannot be larger than these and the noise are together."""
        if self._grid is None:
            return saved.array(name, (self.dimension,))
        most = vectors * (math.ceil(exact(self.bounds.largest) / self._grid.step) + 1) + noisy * MOST_NOISE
        kinds = (np.int64, np.float64) if noisy else (np.int64,)
        return saved.array(name, (self.dimension,), kinds, at_least=-most, at_most=most)

    def _stack_after(self, taken: int) -> list[int]:
        """The levels of the finished blocks that are kept, the largest first."""
        top = self.levels - 1
        return [top] * (taken >> top) + [level for level in reversed(range(top)) if taken >> level & 1]
