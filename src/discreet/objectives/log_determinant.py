"""Diversity: the log-determinant of the chosen items, by a public kernel and people's own qualities."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.checks import whole
from ..kernels.arrays import RATIO
from .arrays import DeviceRows, GrowingArray, check_finite, matrix_of, whole_tile
from .base import Floats, Items, random_rows
from .devices import QUIET, Device, GainSums, device_of, row_sums, slices
from .fixed_point import StepPopulation
from .rows import checked, largest_totals

Steps = NDArray[np.int64]
# Most entries of people's matrices in memory at once (one person's may be more).
_ENTRIES = 1 << 20


class LogDeterminant(StepPopulation):
    """f(S) = log det(I + L_S), L[u, v] = q_u K[u, v] q_v with the person's own qualities q.

    ``kernel``: items x items, symmetric and positive semidefinite, public. ``quality``: people x items,
    nonnegative, private; left out, there is one person with quality 1 everywhere. Monotone, because of the
    identity that is added. ``bound``: a public bound of f, 1 unless declared.

    ``at_most``: the bound is for sets of at most k items, as for `ConcaveOverModular`. The largest value of k
    items is hard to compute; the bound is checked against the smaller of two upper bounds. By Hadamard's
    inequality, det(I + L_S) is at most the product of its diagonal, so f(S) is at most the sum of the k
    largest log(1 + L_jj). And the i-th largest eigenvalue of a principal submatrix is at most that of the
    matrix (Cauchy), so f(S) is at most the sum of log(1 + x) over the k largest eigenvalues x of L, which is
    smaller if items are alike.

    ``backend``: ``"numpy"``, ``"cupy"``, ``"torch"``, or None to stay on the arrays' device. ``tile``: how
    many people are processed at a time. ``value`` and ``gains`` are in integer steps: for each chosen item
    they may be lower by one step, which is 2^-40 of the bound for few people.

    Memory is that of the kernel and the qualities, and as much again for each chosen item. Checking a
    person's bound takes one pass over their qualities if Hadamard's inequality suffices, and otherwise the
    Cholesky factor (with ``at_most``, the eigenvalues) of the items with nonzero quality. With qualities from
    about 1e8 on, gains may be lost to rounding: all results of a person are therefore clipped to the bound.

    Formal guarantee. Values and gains are computed entry by entry, in an order that depends on the items
    alone: nobody's numbers depend on who else is there. Selectors sum integer steps, as for the
    families of rows, and each person's part of each score lies in [0, bound] as computed.

    >>> import numpy as np
    >>> diverse = LogDeterminant([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]], bound=2)
    >>> bool(np.isclose(diverse.value([0, 2]), 2 * np.log(2)))   # unlike each other
    True
    >>> bool(np.isclose(diverse.value([0, 1]), np.log(3)))       # the same twice
    True
    """

    def __init__(
        self,
        kernel: Any,
        quality: Any = None,
        *,
        bound: float | None = None,
        at_most: int | None = None,
        labels: Iterable[Any] | None = None,
        backend: Any = None,
        tile: int | None = None,
    ) -> None:
        if at_most is not None:
            self.at_most = whole("at_most", at_most, at_least=1)
        device = device_of(backend, quality, kernel)
        public = _semidefinite(device.cast(_on("kernel", kernel, device), "float64"), device.xp)
        self.n_items = int(public.shape[0])
        given = np.ones((1, self.n_items)) if quality is None else quality
        own = device.cast(_on("quality", given, device), "float64")
        if own.shape[1] != self.n_items:
            raise ValueError(f"quality has {own.shape[1]} columns; kernel has {self.n_items} items")
        few = max(1, device.gains_tile // self.n_items) if tile is None else whole_tile(tile)
        self._rows = DeterminantRows(device=device, kernel=public, quality=own, tile=few)
        check_finite("quality", own, self._rows.tile, device.xp, np.inf)
        self._name_items(labels)
        self._declare(bound)

    def _contributions(self, items: Items) -> Floats:
        most, per_unit = self._steps
        total, rows = np.zeros(items.size), self._rows
        for _, places, part in self._parts(np.arange(len(self)), items):
            added = part.last_gains(items[places])
            steps = rows.device.steps(added, per_unit, rows.device.xp.full_like(added, most))
            total[places] += rows.device.numpy(rows.device.xp.sum(steps, axis=0))
        return self._averages(total)

    def _parts(self, people: Items, items: Items) -> Iterator[tuple[slice, Items, DeterminantRows]]:
        """As many people at a time as fit in memory, or a single one with their items of nonzero quality.

        Omitting an item of quality 0 does not change the others' results, not even in the last digit.
        """
        few = max(1, _ENTRIES // max(1, items.size) ** 2)
        for here in slices(people.size, few):
            rows = self._rows.take(people[here])
            places = np.arange(items.size)
            if few == 1:
                places = np.flatnonzero(rows.device.numpy(rows.quality)[0, items])
            if places.size:
                yield here, places, rows

    def _largest(self) -> Floats:
        return self._upper_bounds(np.arange(len(self)))

    def _upper_bounds(self, people: Items) -> Floats:
        """Upper bounds of each person's function on sets of up to ``at_most`` items."""
        # No value is below that of a single item; sums of pivots may be, if qualities are so large that
        # rounding loses the later items.
        everything, numpy = np.arange(self.n_items), self._rows.device.numpy
        alone = numpy(FactorColumns(self._rows.take(people)).gains())
        if self.at_most is None:
            steps = np.zeros((people.size, self.n_items))
            for here, places, rows in self._parts(people, everything):
                steps[here, places] = numpy(rows.added(places))
            return np.asarray(np.maximum(row_sums(np, steps), alone.max(axis=1)))
        largest, kernel = largest_totals(alone, self.at_most), numpy(self._rows.kernel)
        for i, quality in enumerate(numpy(self._rows.take(people).quality)):
            own = np.flatnonzero(quality)
            matrix = quality[own, None] * kernel[np.ix_(own, own)] * quality[own]
            # Eigenvalues of principal submatrices interlace with those of the matrix: no k items have a
            # larger determinant of I + L_S than the k largest eigenvalues give.
            spread = np.log1p(np.maximum(np.linalg.eigvalsh(matrix)[::-1][: self.at_most], 0.0)).sum()
            largest[i] = min(largest[i], max(float(spread), float(alone[i].max())))
        return largest

    def _reached(self, bound: float) -> Floats:
        # Hadamard: a determinant is at most the product of the diagonal. Only if that exceeds the bound is
        # more computed.
        reached, rows = np.empty(len(self)), self._rows
        for here in slices(len(self), rows.tile):
            alone = FactorColumns(replace(rows, quality=rows.quality[here, :])).gains()
            reached[here] = largest_totals(rows.device.numpy(alone), self.at_most or self.n_items)
        unsure = np.flatnonzero(reached > bound)
        if unsure.size:
            reached[unsure] = self._upper_bounds(unsure)
        return reached

    def _most_items(self) -> int:
        rows, device = self._rows, self._rows.device
        some = (device.numpy(rows.quality[here, :] != 0) for here in slices(len(self), rows.tile))
        return max(int(one.sum(axis=1).max()) for one in some)


def _on(name: str, array: Any, device: Device) -> Any:
    """A copy on the device; arrays in memory are checked entry by entry, and may be sparse."""
    if device.name != "numpy":
        return matrix_of(name, array, device)
    found = checked(name, array, low=-np.inf if name == "kernel" else 0.0)
    return found if isinstance(found, np.ndarray) else found.toarray()


def _semidefinite(kernel: Any, xp: Any) -> Any:
    if kernel.shape[0] != kernel.shape[1]:
        raise ValueError(f"kernel must be items x items; its shape is {tuple(kernel.shape)}")
    if not bool(xp.all(xp.isfinite(kernel))):
        raise ValueError("kernel has an entry that is not a finite number")
    largest = max(1.0, float(xp.max(xp.abs(kernel))))
    if not float(xp.max(xp.abs(kernel - xp.matrix_transpose(kernel)))) <= 1e-10 * largest:
        raise ValueError("kernel differs from its mirror image; it must be symmetric")
    lengths, axes = xp.linalg.eigh(kernel)
    lowest = float(lengths[0])
    if lowest < -1e-9 * largest:
        raise ValueError(f"kernel has the eigenvalue {lowest:g}; it must be positive semidefinite")
    # Slightly negative eigenvalues are rounding, but large qualities would amplify them.
    return kernel if lowest >= 0.0 else (axes * xp.clip(lengths, min=0.0)) @ xp.matrix_transpose(axes)


@dataclass(frozen=True, repr=False, kw_only=True)
class DeterminantRows(DeviceRows):
    """log det(I + L_S) of each person, L[u, v] = q_u K[u, v] q_v with their own qualities q.

    All arithmetic is entry by entry: unlike in a library's matrix products, nobody's numbers depend on who
    else is there or on positions.
    """

    kernel: Any
    quality: Any

    @property
    def n_rows(self) -> int:
        return int(self.quality.shape[0])

    @property
    def n_items(self) -> int:
        return int(self.quality.shape[1])

    def take(self, rows: Steps) -> DeterminantRows:
        """The named people, in that order; they stay on the device."""
        return replace(self, quality=self.device.taken(self.quality, self.device.array(rows, "int64")))

    def growing(self, most: float, per_unit: float) -> GrowingDeterminants:
        return GrowingDeterminants(self, most, per_unit)

    def gradient_steps(self, x: Floats, per_unit: float, most: int, seed: int, samples: int) -> Steps:
        """Means over random sets that are the same for everybody, each gain in integer steps."""
        inside, device = random_rows(x, seed, samples), self.device
        total = np.zeros(self.n_items)
        for here in slices(self.n_rows, self.tile):
            some = replace(self, quality=self.quality[here, :])
            steps: Any = 0.0
            for drawn in inside:
                gains = some._marginals(np.flatnonzero(drawn))
                limit = device.xp.full_like(gains, float(most))
                steps = steps + device.steps(self.share * gains, per_unit, limit)
            total += device.numpy(device.xp.sum(device.xp.floor(steps / float(len(inside))), axis=0))
        return total.astype(np.int64)

    def _marginals(self, items: Steps) -> Any:
        """The gain of each item on top of the others of a set, for each of a few people."""
        xp = self.device.xp
        part = FactorColumns(self)
        for item in items.tolist():
            part.choose(item)
        gains = part.gains()
        if not items.size:
            return gains
        added = self.last_gains(items)
        for place, item in enumerate(items.tolist()):
            here = self.device.array(np.arange(self.n_items) == item, "bool")
            gains = xp.where(here, added[:, place : place + 1], gains)
        return gains

    def added(self, items: Steps) -> Any:
        """The gain of each item for each person when they are chosen in this order.

        The same operations as `FactorColumns.choose`, for the entries of these items only.
        """
        xp, added = self.device.xp, []
        left, rest = self._block(items)
        for t in range(items.size):
            ratio = xp.clip(rest[:, t : t + 1], min=1.0)
            added.append(self.device.gain(RATIO, None, ratio[:, 0], None))
            later = _column(xp, left[:, 0, 1:], ratio, rest[:, t + 1 :])
            rest = xp.concat((rest[:, : t + 1], rest[:, t + 1 :] - later * later), axis=1)
            left = left[:, 1:, 1:] - xp.expand_dims(later, axis=2) * xp.expand_dims(later, axis=1)
        return xp.stack(added, axis=1)

    def _block(self, items: Steps) -> tuple[Any, Any]:
        """L_S of each person, and the diagonal of I + L_S."""
        xp, chosen = self.device.xp, self.device.array(items, "int64")
        q = xp.take(self.quality, chosen, axis=1)
        kernel = xp.take(xp.take(self.kernel, chosen, axis=0), chosen, axis=1)
        block = (xp.expand_dims(q, axis=2) * kernel) * xp.expand_dims(q, axis=1)
        return block, 1.0 + (q * xp.linalg.diagonal(kernel)) * q

    def last_gains(self, items: Steps) -> Any:
        """f(S) - f(S without j) of each person, for each j of S."""
        # The determinant without j is the determinant times the j-th diagonal entry of the inverse.
        shares = self.device.xp.clip(self._inverse_diagonal(items), min=2.0**-1022, max=1.0)
        return self.device.gain(RATIO, None, 1.0 / shares, None)

    @QUIET
    def _inverse_diagonal(self, items: Steps) -> Any:
        """The diagonal of the inverse of I + L_S, by sweeping one pivot after the other."""
        xp, device = self.device.xp, self.device
        swept = self._block(items)[0] + xp.eye(items.size, dtype=xp.float64, device=device.place)
        for k in range(items.size):
            at = np.zeros((items.size, items.size), dtype=np.bool_)
            at[k], across = True, at.T.copy()
            across[:, k] = True
            row, column, pivot = (
                swept[:, k : k + 1, :],
                swept[:, :, k : k + 1],
                swept[:, k : k + 1, k : k + 1],
            )
            inner = swept - column * row / pivot
            inner = xp.where(device.array(across, "bool"), column / pivot, inner)
            inner = xp.where(device.array(at, "bool"), row / pivot, inner)
            swept = xp.where(device.array(at & across, "bool"), -1.0 / pivot, inner)
        return -xp.stack([swept[:, k, k] for k in range(items.size)], axis=1)

    def room(self) -> Any:
        """A context in which out-of-memory errors name the tile, and not the number of people."""
        return self.device.room_for(
            f"one more item of all people, worked out for a tile of up to {self.tile:,} people x"
            f" {self.n_items:,} items; choose fewer items, or give a smaller tile="
        )


class FactorColumns:
    """A few people's states: the remainder of each diagonal entry, and a column of each factor per item."""

    def __init__(self, rows: DeterminantRows) -> None:
        self._device, self._kernel, self._quality = rows.device, rows.kernel, rows.quality
        self.rest = 1.0 + (rows.quality * rows.device.xp.linalg.diagonal(rows.kernel)) * rows.quality
        self._columns: list[Any] = []

    def choose(self, item: int) -> Any:
        """Choose an item; returns its gain for each person."""
        xp, q, this = self._device.xp, self._quality, slice(item, item + 1)
        # The ratio is at least 1; rounding may leave it slightly below.
        ratio = xp.clip(self.rest[:, this], min=1.0)
        row = q[:, this] * self._kernel[item, :] * q
        for column in self._columns:
            row -= column[:, this] * column
        column = _column(xp, row, ratio, self.rest)
        self.rest -= column * column
        self._columns.append(column)
        return self._device.gain(RATIO, None, ratio[:, 0], None)

    def gains(self) -> Any:
        """The gain of each item for each person."""
        return self._device.gain(RATIO, None, self.rest, None)


def _column(xp: Any, row: Any, ratio: Any, rest: Any) -> Any:
    """A column of the factor: the part of the others, of which ``rest`` is left, explained by an item.

    By Cauchy-Schwarz an item explains at most what is left of another, so that ``rest`` stays at 1 or more.
    With huge qualities rounding could violate this, and the error grow until it overflows.
    """
    most = xp.sqrt(xp.clip(rest - 1.0, min=0.0))
    return xp.maximum(xp.minimum(row / xp.sqrt(ratio), most), -most)


class GrowingDeterminants(GrowingArray):
    """A growing set over all people; every choice sums over all of them again."""

    def __init__(self, rows: DeterminantRows, most: float, per_unit: float) -> None:
        self._rows, self._per_unit = rows, per_unit
        chunks = list(slices(rows.n_rows, rows.tile))
        with rows.room():
            self._parts = [FactorColumns(replace(rows, quality=rows.quality[here, :])) for here in chunks]
            self._left = [rows.device.zeros(here.stop - here.start, "float64") + most for here in chunks]

    def move(self, item: int) -> int:
        rows, total = self._rows, 0
        with rows.room():
            for place, part in enumerate(self._parts):
                left = self._left[place]
                steps = rows.device.steps(rows.share * part.choose(item), self._per_unit, left)
                self._left[place] = left - steps
                total += int(rows.device.xp.sum(steps))
        return total

    def summed(self) -> Floats:
        rows, device = self._rows, self._rows.device
        total = np.zeros(rows.n_items)
        with rows.room():
            for part, left in zip(self._parts, self._left, strict=True):
                numbers = (left, left, left)
                asked = GainSums(RATIO, part.rest, numbers, rows.share, self._per_unit, rows.tile)
                total += device.numpy(device.gain_sums(asked))
        return total
