"""Where arrays live: NumPy's on the processor, those of other libraries on their device.

The Array API standard is the portable path; `Device.loops` gives the same functions as compiled loops (NumPy)
or as fused kernels (Triton) where there are some. Nothing is moved from a device but what is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

NAMES = ("numpy", "cupy", "torch")
# What libraries call the lack of memory on their devices.
_NO_ROOM = ("OutOfMemoryError", "OutOfMemory")


@dataclass(frozen=True)
class Device:
    """A library of arrays that follows the Array API standard, and the device on which its arrays live."""

    name: str
    xp: Any
    place: Any

    def array(self, values: Any, dtype: str) -> Any:
        """An array of this library on this device; one that is there already is not copied."""
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
    def loops(self) -> ModuleType:
        """The module of sums over people: compiled for NumPy, fused where Triton is, portable elsewhere."""
        name = "processor" if self.name == "numpy" else "fused" if self._fuses else "portable"
        return import_module(f"{__name__}.{name}")

    @property
    def _fuses(self) -> bool:
        return self.name in ("torch", "cupy") and "cuda" in self.described and _has("triton", "torch")

    @property
    def described(self) -> str:
        """The device in a word, for messages."""
        if self.name == "cupy":
            return f"cuda:{getattr(self.place, 'id', 0)}"
        return "the processor" if self.name == "numpy" else str(self.place)

    @contextmanager
    def room_for(self, what: str) -> Iterator[None]:
        """Within it, a lack of memory is an error that names what the memory was for."""
        try:
            yield
        except MemoryError:
            raise MemoryError(f"not enough memory on {self.described} for {what}") from None
        except Exception as error:
            if type(error).__name__ not in _NO_ROOM and type(error.__cause__).__name__ not in _NO_ROOM:
                raise
            raise MemoryError(f"not enough memory on {self.described} for {what}") from None


# For functions that compute with people's numbers: a warning of an overflow would be a fact about somebody.
QUIET = np.errstate(all="ignore")


@QUIET
def row_sums(xp: Any, values: Any) -> Any:
    """The sum of each row of a two-dimensional array, in an order that depends on its width alone.

    A library's own sums go another way with the number of rows and with where they lie in memory, which would
    make the last digit of one person's number depend on who else is there. Here the right half of the columns
    is added to the left half until one is left: additions entry by entry, which every device rounds alike.

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
    """The Euclidean length of each row, also where squares leave the range of floats; infinite beyond it."""
    largest = np.maximum(np.abs(table).max(axis=1), 1e-300)
    return np.asarray(largest * np.sqrt(row_sums(np, (table / largest[:, None]) ** 2)))


def slices(size: int, step: int) -> Iterator[slice]:
    """Places 0..size-1 in stretches of ``step``, the last one as long as is left."""
    return (slice(start, min(start + step, size)) for start in range(0, size, step))


@cache
def _has(*modules: str) -> bool:
    return all(find_spec(module) is not None for module in modules)


NUMPY = Device("numpy", np, "cpu")


def device_of(backend: str | ModuleType | Device | None, *arrays: Any) -> Device:
    """The device of the first array that is not NumPy's, or the one that is named.

    ``backend``: ``"numpy"``, ``"cupy"`` or ``"torch"`` (its first GPU, or the processor where it has none), a
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
    return Device(name, xp, _first_device(name, xp))


def _home(array: Any) -> Device | None:
    """The device on which an array lives; None for NumPy's, and for what is no array."""
    kind = type(array)
    library = kind.__module__.split(".")[0]
    if isinstance(array, np.ndarray | np.generic):
        return None
    if library in ("torch", "cupy") and hasattr(array, "device"):
        return Device(library, _namespace(library), array.device)
    if hasattr(array, "__array_namespace__"):
        xp = array.__array_namespace__()
        return Device(xp.__name__, xp, array.device)
    return None


def _namespace(name: str) -> Any:
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
