"""Numbers with many digits, for one thread at a time.

mpmath keeps its working precision in one place for the whole process, so that two threads would change
each other's. Each thread has a context of its own here.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_own = threading.local()


def own_digits() -> Any:
    """This thread's mpmath context, to be used like the module, with ``workprec`` around computations."""
    mp = getattr(_own, "context", None)
    if mp is None:
        from mpmath import MPContext

        mp = _own.context = MPContext()
    return mp


@contextmanager
def digits(bits: int) -> Iterator[Any]:
    """This thread's mpmath context, working with ``bits`` bits.

    >>> with digits(200) as mp:
    ...     str(mp.sqrt(2))[:42]
    '1.4142135623730950488016887242096980785696'
    """
    mp = own_digits()
    with mp.workprec(bits):
        yield mp
