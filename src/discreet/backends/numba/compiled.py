"""How loops are compiled: those that Python calls, and those that only other loops call.

Most of a first use is the compiler. A function costs it about as much for its wrappers as for itself, and is
compiled again inside everything that calls it: what Python does not call has no wrappers, and loops call each
other over few levels.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from numba import njit
from numba.extending import register_jitable

# What Python calls: kept in the cache on disk, and run without the interpreter's lock.
loop: Any = partial(njit, cache=True, nogil=True, no_cfunc_wrapper=True)
# What only other loops call: Python itself would run it as it is written. Callers are cached with all of it.
part: Any = register_jitable
