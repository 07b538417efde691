"""One call at a time for objects that threads share and that run people's functions inside their calls."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager
from typing import Any


class Turns:
    """Threads wait for each other; a call from inside another call of the same object is refused.

    What people's functions do is not ours. One that uses the object it is being asked by would find it
    half-way through a round, and would change it there.

    >>> turns = Turns("learner")
    >>> with turns.take("learn()"), turns.take("choose()"):
    ...     pass
    Traceback (most recent call last):
    RuntimeError: choose() was called inside learn() of the same learner; a person's function must not use it
    """

    def __init__(self, what: str) -> None:
        self._what = what
        # Calls are short: the lock itself is what they hold, and an interruption never leaves it taken.
        self._lock: Any = threading.RLock()
        self._own = threading.local()  # the call that a thread waits for its turn with, or has its turn for

    def take(self, call: str) -> AbstractContextManager[object]:
        """A call that may change the object."""
        if self._lock._is_owned():
            raise RuntimeError(
                f"{call} was called inside {self._own.call} of the same {self._what}; a person's function"
                " must not use it"
            )
        self._own.call = call
        return self._lock  # type: ignore[no-any-return]

    def look(self) -> AbstractContextManager[object]:
        """A look at the object between two calls of other threads; from inside a call, at once."""
        return self._lock  # type: ignore[no-any-return]
