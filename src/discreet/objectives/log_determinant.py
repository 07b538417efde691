"""Diversity: the log-determinant of what was chosen, with one public kernel and people's own qualities."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from ..core.checks import whole
from .base import Floats, Items, Population
from .rows.matrices import as_sparse, checked
from .rows.people import largest_totals
from .state import State

if TYPE_CHECKING:
    from .arrays.dense import ArrayLogDeterminant

# So many entries of people's matrices are held at once, or those of one person.
_ENTRIES = 1 << 20


class LogDeterminant(Population):
    """f(S) = log det(I + L_S), L[u, v] = q_u K[u, v] q_v with the person's own qualities q.

    ``kernel``: items x items, symmetric and positive semidefinite, public. ``quality``: people x items,
    nonnegative, private; left out, there is one person with quality 1 everywhere. Monotone, because of the
    identity that is added. ``bound``: a public bound of f, 1 unless declared.

    ``at_most``: the bound is one of sets of at most so many items, k, and people are held to it there, as for
    `ConcaveOverModular`. The largest value of k items is hard to find; people are held to the smaller of two
    numbers that are never below it. By Hadamard's inequality, det(I + L_S) is at most the product of its
    diagonal, so f(S) is at most the sum of the k largest log(1 + L_jj). And the i-th largest eigenvalue of a
    principal submatrix is at most that of the matrix (Cauchy), so f(S) is at most the sum of log(1 + x) over
    the k largest eigenvalues x of L, which is the smaller one where items are alike.

    Memory is that of the kernel and the qualities. To hold somebody to the bound takes one pass over their
    qualities where Hadamard's inequality settles it, and otherwise the Cholesky factor of the items that they
    have a quality for.

    >>> import numpy as np
    >>> diverse = LogDeterminant([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]], bound=2)
    >>> bool(np.isclose(diverse.value([0, 2]), 2 * np.log(2)))   # unlike each other
    True
    >>> bool(np.isclose(diverse.value([0, 1]), np.log(3)))       # the same twice
    True
    """

    built_in = True

    def __init__(
        self,
        kernel: Any,
        quality: Any = None,
        *,
        bound: float | None = None,
        at_most: int | None = None,
        labels: Iterable[Any] | None = None,
    ) -> None:
        if at_most is not None:
            self.at_most = whole("at_most", at_most, at_least=1)
        self._kernel = _semidefinite(kernel)
        self.n_items = self._kernel.shape[0]
        given = np.ones((1, self.n_items)) if quality is None else checked("quality", quality)
        if given.shape[1] != self.n_items:
            raise ValueError(f"quality has {given.shape[1]} columns; kernel has {self.n_items} items")
        self._quality = given if isinstance(given, np.ndarray) else given.toarray()
        self._name_items(labels)
        self._declare(bound)

    @classmethod
    def from_array(
        cls, kernel: Any, quality: Any, *, backend: Any = None, tile: int | None = None, **options: Any
    ) -> ArrayLogDeterminant:
        """From arrays of any library, which stay on their device; ``options`` as in the constructor.

        ``backend``: ``"numpy"``, ``"cupy"``, ``"torch"``, or None for the arrays' own. ``tile``: so many
        people are worked on at a time.
        """
        from .arrays.dense import ArrayLogDeterminant

        return ArrayLogDeterminant(kernel, quality, options, backend, tile)

    def with_quality(self, quality: Any, bound: float | None = None) -> Self:
        """Other people under the same kernel."""
        given = checked("quality", quality)
        if given.shape[1] != self.n_items:
            raise ValueError(f"quality has {given.shape[1]} columns; kernel has {self.n_items} items")
        others = self._like(_declared=None)
        others._quality = given if isinstance(given, np.ndarray) else given.toarray()
        others._declare(bound)
        return others

    def __len__(self) -> int:
        return int(self._quality.shape[0])

    def start(self) -> State:
        return _FactorState(self)

    def _blocks(self, items: Items) -> Iterator[tuple[slice, Items, Floats]]:
        """I + L_S for a few people at a time; of a large S, one person's over the places they have.

        Nobody's numbers depend on who else is there, not even in their last digit.
        """
        few = max(1, _ENTRIES // max(1, items.size) ** 2)
        for first in range(0, len(self), few):
            who = slice(first, first + few)
            q = self._quality[who][:, items]
            places = np.flatnonzero(q[0]) if few == 1 else np.arange(items.size)
            q, here = q[:, places], items[places]
            scaled = q[:, :, None] * self._kernel[np.ix_(here, here)] * q[:, None, :]
            yield who, places, np.eye(places.size) + scaled

    def _value(self, items: Items) -> float:
        return float(self._steps(items).sum(axis=1).mean())

    def _steps(self, items: Items) -> Floats:
        """What each item adds for each person when they are chosen in this order: log pivots."""
        steps = np.zeros((len(self), items.size))
        for who, places, block in self._blocks(items):
            # A pivot is at least 1; rounding may leave it a hair below.
            steps[who, places] = np.log(np.maximum(self._pivots(block, who, items[places]), 1.0))
        return steps

    def _pivots(self, block: Floats, who: slice, items: Items) -> Floats:
        try:
            return np.asarray(np.diagonal(np.linalg.cholesky(block), axis1=1, axis2=2) ** 2)
        except np.linalg.LinAlgError:
            pass
        if block.shape[0] > 1:
            each = [slice(i, i + 1) for i in range(*who.indices(len(self)))]
            parts = [self._pivots(block[i : i + 1], one, items) for i, one in enumerate(each)]
            return np.concatenate(parts)
        # Rounding beside huge qualities: by the steps that ``gains`` takes, each held to 1 or more.
        small = self._like(n_items=items.size)
        small._kernel = self._kernel[np.ix_(items, items)]
        small._quality = self._quality[who][:, items]
        state, pivots = _FactorState(small), np.empty(small._quality.shape)
        for t in range(items.size):
            pivots[:, t] = state._rest[:, t]
            state._grow(t)
        return pivots

    def _gains(self, items: Items) -> Floats:
        state = _FactorState(self)
        for j in items:
            state.add(int(j))
        return state.gains()

    def _chain(self, order: Items) -> Floats:
        return np.asarray(self._steps(order).mean(axis=0), dtype=np.float64)

    def _contributions(self, items: Items) -> Floats:
        total = np.zeros(items.size)
        for _, places, block in self._blocks(items):
            # The determinant without j is the determinant times the j-th diagonal entry of the inverse.
            inverse = np.diagonal(np.linalg.inv(block), axis1=1, axis2=2)
            # The ratio of determinants is at least 1, its inverse in (0, 1]; rounding may leave that.
            shares = np.clip(inverse, np.finfo(np.float64).tiny, 1.0)
            total[places] -= np.log(shares).sum(axis=0)
        return total / len(self)

    def _take(self, rows: Items) -> Self:
        taken = self._like()
        taken._quality = self._quality[rows]
        return taken

    def _largest(self) -> Floats:
        if self.at_most is None:
            return np.asarray(self._steps(np.arange(self.n_items)).sum(axis=1), dtype=np.float64)
        largest = self._by_diagonal()
        for i, quality in enumerate(self._quality):
            own = np.flatnonzero(quality)
            matrix = quality[own, None] * self._kernel[np.ix_(own, own)] * quality[own]
            spread = np.log1p(np.maximum(np.linalg.eigvalsh(matrix)[::-1][: self.at_most], 0.0)).sum()
            largest[i] = min(largest[i], float(spread))
        return largest

    def _by_diagonal(self) -> Floats:
        """Hadamard: a determinant is at most the product of the diagonal."""
        alone = np.log1p(self._quality**2 * np.diagonal(self._kernel))
        return largest_totals(alone, self.n_items if self.at_most is None else self.at_most)

    def _reached(self, bound: float) -> Floats:
        # Only those are worked out whom the diagonal does not settle.
        reached = self._by_diagonal()
        unsure = np.flatnonzero(reached > bound)
        if unsure.size:
            reached[unsure] = self._take(unsure)._largest()
        return reached

    def _most_items(self) -> int:
        return int(np.diff(as_sparse(self._quality).indptr).max())


class _FactorState(State):
    """A growing set with one more column of each person's Cholesky factor per item.

    ``rest`` is, for each person and item, the determinant ratio 1 + L_jj minus what the chosen items explain
    of j.
    """

    def __init__(self, people: LogDeterminant) -> None:
        self._people = people
        self._matrix = people
        self.items = []
        self.value = 0.0
        self._columns: list[Floats] = []
        self._rest = 1.0 + people._quality**2 * np.diagonal(people._kernel)

    def gains(self) -> Floats:
        # The ratio is at least 1; rounding may leave it a hair below.
        now = np.log(np.maximum(self._rest, 1.0)).mean(axis=0)
        now[self.items] = 0.0
        return np.asarray(now, dtype=np.float64)

    def _grow(self, item: int) -> float:
        q, kernel = self._matrix._quality, self._matrix._kernel
        ratio = np.maximum(self._rest[:, item], 1.0)
        row = q[:, [item]] * kernel[item] * q
        for column in self._columns:
            row = row - column[:, [item]] * column
        column = row / np.sqrt(ratio)[:, None]
        added = float(np.log(ratio).mean())
        self._rest = self._rest - column**2
        self._columns.append(column)
        return added


def _semidefinite(kernel: Any) -> Floats:
    array = checked("kernel", kernel, low=-np.inf)
    dense = array if isinstance(array, np.ndarray) else array.toarray()
    if dense.shape[0] != dense.shape[1]:
        raise ValueError(f"kernel must be items x items; its shape is {dense.shape}")
    if not np.allclose(dense, dense.T, rtol=1e-10, atol=1e-12):
        row, column = (int(v) for v in np.argwhere(~np.isclose(dense, dense.T, rtol=1e-10, atol=1e-12))[0])
        raise ValueError(
            f"kernel[row {row}, column {column}] differs from its mirror image; it must be symmetric"
        )
    lengths, axes = np.linalg.eigh(dense)
    lowest = float(lengths[0])
    if lowest < -1e-9 * max(1.0, float(np.abs(dense).max())):
        raise ValueError(f"kernel has the eigenvalue {lowest:g}; it must be positive semidefinite")
    # A hair below zero is rounding, but large qualities would make much of it.
    return dense if lowest >= 0 else (axes * np.maximum(lengths, 0.0)) @ axes.T
