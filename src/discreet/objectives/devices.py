"""Devices of arrays (NumPy's on the processor, others' on their own device), and sums over people on them.

Two families of sums: gains of a people x items array in integer steps (`Device.gain_sums`), and products of
embeddings in integers (`Device.product_sums`). `Device` has both in operations of the Array API standard, for
every array library, a tile at a time; `Processor` as compiled loops for NumPy's arrays, and
`gpu.TritonDevice` as kernels for NVIDIA's devices, with the same numbers: gains of rows are computed by the
formulas of `discreet.kernels.rows`. Only results are moved off a device.

All arithmetic on people's numbers is entry by entry: nobody's result depends on other people or on positions.
Steps are integers in 64-bit floats, which add up exactly below 2^53, in any order. Logarithms consist of
operations that every device rounds correctly, so that they are the same everywhere: the amount a person adds
to a score, and the amount deducted from what they may still add, must be equal.

Products of at most 1,024 pairs of bytes are at most 2^24, so they are exact in 32-bit floats, also where a
device keeps only ten bits of each factor; longer ones are computed in 64 bits.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..kernels import arrays as kernels
from ..kernels.arrays import RATIO
from ..kernels.rows import BEST, LOG, SQRT, SURVIVE

NAMES = ("numpy", "cupy", "torch")
# Names of out-of-memory errors in array libraries.
_NO_ROOM = ("OutOfMemoryError", "OutOfMemory")
LN_2, ROOT_2 = 0.6931471805599453, 1.4142135623730951
# Coefficients of log((1 + s) / (1 - s)) / (2 s) in s^2: for |s| < 0.172 the remainder is below 2^-55.
SERIES = tuple(1.0 / odd for odd in range(21, 0, -2))
_EXACT_IN_32 = 1024

# For functions that compute with people's numbers: an overflow warning would depend on private data.
QUIET = np.errstate(all="ignore")


Tile = tuple[int, int]  # people and items
Cut = tuple[int, int] | None  # factor and shift


class GainSums(NamedTuple):
    """Arguments of `Device.gain_sums`; ``numbers`` are the rows' states, steps left and caps."""

    code: int
    matrix: Any
    numbers: tuple[Any, Any, Any]
    share: float
    per_unit: float
    tile: int


@dataclass(frozen=True)
class Device:
    """An array library that follows the Array API standard, and a device of it."""

    name: str
    xp: Any
    place: Any

    gains_tile: ClassVar[int] = 1 << 24  # entries
    products_tile: ClassVar[Tile] = (4096, 16384)

    def array(self, values: Any, dtype: str) -> Any:
        """An array of this library on this device; not copied if it is there already."""
        return self.xp.asarray(values, dtype=getattr(self.xp, dtype), device=self.place)

    def zeros(self, size: int, dtype: str) -> Any:
        return self.xp.zeros(size, dtype=getattr(self.xp, dtype), device=self.place)

    def cast(self, array: Any, dtype: str) -> Any:
        return self.xp.astype(array, getattr(self.xp, dtype), copy=False)

    def numpy(self, array: Any) -> NDArray[Any]:
        """The same numbers in NumPy."""
        if self.name == "torch":
            return np.asarray(array.cpu().numpy())
        if self.name == "cupy":
            return np.asarray(array.get())
        return np.asarray(array)

    def taken(self, array: Any, places: Any) -> Any:
        """The rows at ``places``, an array of this device."""
        return self.xp.take(array, places, axis=0)

    @property
    def described(self) -> str:
        """A short name of the device, for messages."""
        if self.name == "cupy":
            return f"cuda:{getattr(self.place, 'id', 0)}"
        return "the processor" if self.name == "numpy" else str(self.place)

    @contextmanager
    def room_for(self, what: str) -> Iterator[None]:
        """A context in which out-of-memory errors name ``what`` the memory was for."""
        try:
            yield
        except MemoryError:
            raise MemoryError(f"not enough memory on {self.described} for {what}") from None
        except Exception as error:
            if type(error).__name__ not in _NO_ROOM and type(error.__cause__).__name__ not in _NO_ROOM:
                raise
            raise MemoryError(f"not enough memory on {self.described} for {what}") from None

    # --- gains ----------------------------------------------------------------------------------------------

    def logarithm(self, values: Any) -> Any:
        """log of numbers >= 1, to a few units in the last place, by the same operations everywhere.

        Smaller numbers and NaN count as 1, so that rounding in one person's huge numbers raises no error.
        """
        xp = self.xp
        values = xp.where(values > 1.0, values, xp.ones_like(values))
        powers = self.array(np.ldexp(1.0, -np.arange(1024)), "float64")
        # The guessed exponent may be off by one next to a power of two, and is corrected.
        guess = xp.clip(xp.floor(xp.log2(values)), min=0.0, max=1023.0)
        places = xp.reshape(self.cast(guess, "int64"), (-1,))
        scaled = values * xp.reshape(xp.take(powers, places), values.shape)
        below, above = scaled < 1.0, scaled >= 2.0
        scaled = xp.where(below, scaled * 2.0, xp.where(above, scaled * 0.5, scaled))
        guess = xp.where(below, guess - 1.0, xp.where(above, guess + 1.0, guess))
        large = scaled > ROOT_2
        scaled, guess = xp.where(large, scaled * 0.5, scaled), xp.where(large, guess + 1.0, guess)
        part = (scaled - 1.0) / (scaled + 1.0)
        square = part * part
        series = xp.full_like(square, SERIES[0])
        for coefficient in SERIES[1:]:
            series = series * square + coefficient
        return guess * LN_2 + (2.0 * part) * series

    def gain(self, code: int, state: Any, weight: Any, cap: Any) -> Any:
        """The gain of an item of this weight in a row in this state, as in `discreet.kernels.rows`."""
        xp = self.xp
        if code == SURVIVE:
            return state * weight
        if code == BEST:
            return xp.clip(weight - state, min=0.0)
        if code == SQRT:
            return weight / xp.clip(xp.sqrt(state + weight) + xp.sqrt(state), min=1e-200)
        if code == LOG:
            return self.logarithm(1.0 + weight / (1.0 + state))
        if code == RATIO:
            return self.logarithm(weight)
        kept = xp.minimum(weight, cap)
        return xp.minimum(state + kept, cap) - xp.minimum(state, cap)

    def moved(self, code: int, state: Any, weight: Any, cap: Any) -> Any:
        """The row's state once the item is chosen."""
        if code == SURVIVE:
            return state * (1.0 - weight)
        if code == BEST:
            return self.xp.maximum(state, weight)
        return state + (self.xp.minimum(weight, cap) if code not in (SQRT, LOG) else weight)

    def steps(self, gains: Any, per_unit: float, left: Any) -> Any:
        """Gains in integer steps, clipped to [0, left]; NaN counts 0."""
        found = self.xp.floor(gains * per_unit)
        return self.xp.minimum(self.xp.where(found > 0.0, found, self.xp.zeros_like(found)), left)

    def gain_sums(self, asked: GainSums, rows: Any = None) -> Any:
        """Every item's sum over people of its gain, in steps.

        ``rows``: the indices of those who count, everybody if None.
        """
        code, matrix, numbers, share, per_unit, tile = asked
        xp = self.xp
        total = self.zeros(matrix.shape[1], "float64")
        count = matrix.shape[0] if rows is None else rows.shape[0]
        for here in slices(count, tile):
            if rows is None:
                some, mine = matrix[here, :], [one[here] for one in numbers]
            else:
                some = self.taken(matrix, rows[here])
                mine = [self.taken(one, rows[here]) for one in numbers]
            state, left, cap = (xp.expand_dims(one, axis=1) for one in mine)
            added = share * self.gain(code, state, self.cast(some, "float64"), cap)
            total = total + xp.sum(self.steps(added, per_unit, left), axis=0)
        return total

    # --- products of embeddings -----------------------------------------------------------------------------

    def tile_bytes(self, tile: Tile, width: int) -> int:
        """An upper bound of a pass's memory in bytes, besides its arguments and results."""
        size = 4 if width <= _EXACT_IN_32 else 8
        return (3 * tile[0] * tile[1] + (tile[0] + 2 * tile[1]) * width) * size + 8 * tile[0]

    def product_sums(self, people: Any, items: Any, low: Any, span: Any, cut: Cut, tile: Tile) -> Any:
        """For each item, the sum over people of min(max(product - low, 0), span), in 64-bit integers.

        With ``cut`` = (factor, shift), the difference in steps instead: a product p is (p factor) >> shift.
        """
        xp, parts = self.xp, []
        exact = "float32" if people.shape[1] <= _EXACT_IN_32 else "float64"
        for there in slices(items.shape[0], tile[1]):
            columns = xp.matrix_transpose(self.cast(items[there, :], exact))
            total = self.zeros(columns.shape[1], "int64")
            for here in slices(people.shape[0], tile[0]):
                products = xp.matmul(self.cast(people[here, :], exact), columns)
                least = xp.expand_dims(self.cast(low[here], exact), axis=1)
                most = xp.expand_dims(self.cast(span[here], exact), axis=1)
                if cut is None:
                    counted = xp.minimum(xp.clip(products - least, min=0), most)
                else:
                    start = self.cast(least, "int64")
                    reached = self.cast(xp.minimum(xp.maximum(products, least), least + most), "int64")
                    counted = _steps(xp, reached, cut) - _steps(xp, start, cut)
                counts = xp.sum(self.cast(counted, "float64"), axis=0)
                total = total + self.cast(counts, "int64")
            parts.append(total)
        return xp.concat(parts)

    def products(self, people: Any, items: Any, tile: Tile) -> Any:
        """The products of all people with a few items, people x items, in 32-bit integers."""
        xp = self.xp
        exact = "float32" if people.shape[1] <= _EXACT_IN_32 else "float64"
        columns = xp.matrix_transpose(self.cast(items, exact))
        parts = [
            self.cast(xp.matmul(self.cast(people[here, :], exact), columns), "int32")
            for here in slices(people.shape[0], max(1, tile[0] * tile[1] // max(1, items.shape[0])))
        ]
        return xp.concat(parts, axis=0)


def _steps(xp: Any, whole: Any, cut: tuple[int, int]) -> Any:
    factor, shift = cut
    return xp.bitwise_right_shift(whole * factor, xp.full_like(whole, shift))


class Processor(Device):
    """NumPy's arrays: loops of `discreet.kernels`, a piece of the people per thread.

    Products are computed by the linear algebra library, one tile per thread; the rest is a loop over the tile
    while it is in the cache.
    """

    gains_tile = 1 << 22  # of a thread
    products_tile = (512, 2048)

    def gain_sums(self, asked: GainSums, rows: Any = None) -> Any:
        code, matrix, numbers, share, per_unit, tile = asked
        count = matrix.shape[0] if rows is None else rows.size
        few = count * matrix.shape[1] <= _FEW
        size = min(tile, max(1, -(-count // (1 if few else processors()))))

        def piece(start: int) -> Any:
            here, out = slice(start, start + size), np.zeros(matrix.shape[1])
            if rows is None:
                some, places = (matrix[here], tuple(one[here] for one in numbers)), None
            else:
                some, places = (matrix, numbers), rows[here]
            kernels.gain_sums(code, *some, share, per_unit, places, out)
            return out

        total = np.zeros(matrix.shape[1])
        for part in in_threads(piece, range(0, count, size), alone=few):
            total += part
        return total

    def tile_bytes(self, tile: Tile, width: int) -> int:
        size = 4 if width <= _EXACT_IN_32 else 8
        return processors() * ((tile[0] * (tile[1] + width) + 2 * tile[1] * width) * size + 4 * tile[1])

    def product_sums(self, people: Any, items: Any, low: Any, span: Any, cut: Cut, tile: Tile) -> Any:
        exact = np.float32 if people.shape[1] <= _EXACT_IN_32 else np.float64
        out = np.zeros(items.shape[0], dtype=np.int64)
        flush = max(1, (_WHOLE - 1) // max(1, int(span.max(initial=0))))

        def block(first: int) -> None:
            columns = np.ascontiguousarray(items[first : first + tile[1]].T.astype(exact))
            room = np.empty((min(tile[0], people.shape[0]), columns.shape[1]), dtype=exact)
            total = out[first : first + tile[1]]
            for here in slices(people.shape[0], tile[0]):
                rows = people[here].astype(exact)
                products = np.matmul(rows, columns, out=room[: rows.shape[0]])
                if cut is None:
                    least, most = low[here].astype(exact), span[here].astype(exact)
                    kernels.add_clipped(products, least, most, flush, total)
                else:
                    least, most = low[here].astype(np.int64), span[here].astype(np.int64)
                    kernels.add_steps(products, least, most, *cut, total)

        in_threads(block, range(0, items.shape[0], tile[1]), alone=people.shape[0] * items.shape[0] <= _FEW)
        return out

    def products(self, people: Any, items: Any, tile: Tile) -> Any:
        exact = np.float32 if people.shape[1] <= _EXACT_IN_32 else np.float64
        columns = np.ascontiguousarray(items.T.astype(exact))
        out = np.empty((people.shape[0], items.shape[0]), dtype=np.int32)
        size = max(1, tile[0] * tile[1] // max(items.shape))

        def block(start: int) -> None:
            here = slice(start, start + size)
            out[here] = np.matmul(people[here].astype(exact), columns)

        in_threads(block, range(0, people.shape[0], size), alone=people.shape[0] <= size)
        return out


_FEW = 1 << 16  # entries, or pairs, for which threads do not pay
_WHOLE = 1 << 31
NUMPY = Processor("numpy", np, "cpu")


def in_threads(work: Callable[[int], Any], starts: Sequence[int], *, alone: bool) -> list[Any]:
    """``work`` of each start, in threads; meanwhile linear algebra starts no threads of its own."""
    if alone:
        return [work(start) for start in starts]
    with _one_thread_each(), ThreadPoolExecutor(processors()) as pool:
        return list(pool.map(work, starts))


def processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """A context in which linear algebra starts no threads of its own, if threadpoolctl is installed."""
    controller = _controller()
    if controller is None:
        yield
        return
    with controller.limit(limits=1):
        yield


@cache
def _controller() -> Any:
    try:
        from threadpoolctl import ThreadpoolController
    except ImportError:
        return None
    return ThreadpoolController()


@QUIET
def row_sums(xp: Any, values: Any) -> Any:
    """The sum of each row of a two-dimensional array, in an order that depends on its width alone.

    The order of a library's own sums depends on the number of rows and the memory layout, so the last digit
    of one person's number would depend on who else is there. Here the right half of the columns is added to
    the left half until one is left: additions entry by entry, which every device rounds alike.

    >>> row_sums(np, np.array([[1.0, 2.0, 4.0], [0.5, 0.0, 0.25]])).tolist()
    [7.0, 0.75]
    """
    width = values.shape[1]
    while width > 1:
        half = width // 2
        added = values[:, :half] + values[:, width - half : width]
        values = added if width % 2 == 0 else xp.concat((added, values[:, half : half + 1]), axis=1)
        width -= half
    return values[:, 0]


@QUIET
def row_lengths(table: NDArray[np.float64]) -> NDArray[np.float64]:
    """The Euclidean length of each row, even if squares over- or underflow; inf if it overflows itself."""
    largest = np.maximum(np.abs(table).max(axis=1), 1e-300)
    return np.asarray(largest * np.sqrt(row_sums(np, (table / largest[:, None]) ** 2)))


def slices(size: int, step: int) -> Iterator[slice]:
    """Slices of 0..size-1 of length ``step``; the last may be shorter."""
    return (slice(start, min(start + step, size)) for start in range(0, size, step))


def device_of(backend: str | ModuleType | Device | None, *arrays: Any) -> Device:
    """The device of the first array that is not NumPy's, or that of ``backend``.

    ``backend``: ``"numpy"``, ``"cupy"`` or ``"torch"`` (its first GPU, or the processor if it has none), a
    module that follows the standard, or a `Device`. Without one, arrays stay where they are.
    """
    if isinstance(backend, Device):
        return backend
    found = next((one for one in map(_home, arrays) if one is not None), None)
    if backend is None:
        return NUMPY if found is None else found
    if backend not in NAMES if isinstance(backend, str) else not isinstance(backend, ModuleType):
        raise ValueError(f"backend must be one of {', '.join(NAMES)}, or a module of arrays, got {backend!r}")
    name = backend if isinstance(backend, str) else backend.__name__.split(".")[-1]
    if name == "numpy":
        return NUMPY
    if found is not None and found.name == name:
        return found  # it is on one of the library's devices already
    xp = backend if isinstance(backend, ModuleType) else _namespace(name)
    return _device(name, xp, _first_device(name, xp))


def _home(array: Any) -> Device | None:
    """The device on which an array lives; None for NumPy's, and for anything else."""
    kind = type(array)
    library = kind.__module__.split(".")[0]
    if isinstance(array, np.ndarray | np.generic):
        return None
    if library in ("torch", "cupy") and hasattr(array, "device"):
        return _device(library, _namespace(library), array.device)
    if hasattr(array, "__array_namespace__"):
        xp = array.__array_namespace__()
        return _device(xp.__name__, xp, array.device)
    return None


def _device(name: str, xp: Any, place: Any) -> Device:
    """A fused device if Triton is installed, otherwise a portable one."""
    portable = Device(name, xp, place)
    fuses = name in ("torch", "cupy") and "cuda" in portable.described
    if fuses and all(find_spec(module) is not None for module in ("triton", "torch")):
        from .gpu import TritonDevice

        return TritonDevice(name, xp, place)
    return portable


def _namespace(name: str) -> Any:
    """A library's functions under the names of the Array API standard, by ``array_api_compat``."""
    try:
        import_module(name)
        return import_module(f"array_api_compat.{name}")
    except ImportError as error:
        missing = error.name or name
        raise ImportError(
            f"arrays of {name} need the package {missing}, which is not installed; install {name} and"
            " discreet[arrays]",
            name=missing,
        ) from None


def _first_device(name: str, xp: Any) -> Any:
    if name == "torch":
        return xp.device("cuda:0" if xp.cuda.is_available() else "cpu")
    if name == "cupy":
        return xp.cuda.Device(0)
    return xp.__array_namespace_info__().default_device()
