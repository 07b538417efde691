"""How loops are compiled: those that Python calls, and those that only other loops call.

Most of a first use is the compiler. A function costs it about as much for its wrappers as for itself, and is
compiled again inside everything that calls it: what Python does not call has no wrappers, and loops call each
other over few levels.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from numba import njit
from numba.core.registry import CPUDispatcher

# What Python calls: kept in the cache on disk, and run without the interpreter's lock.
loop: Any = partial(njit, cache=True, nogil=True, no_cfunc_wrapper=True)


class _Part(CPUDispatcher):
    """Compiled inside its callers, which are cached with all of it; Python runs it as it is written."""

    def __call__(self, *arguments: Any) -> Any:
        return self.py_func(*arguments)


def part(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """What only other loops call."""
    if function is None:
        return partial(part, **options)
    without = {"nopython": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    return _Part(function, targetoptions=without | options)
