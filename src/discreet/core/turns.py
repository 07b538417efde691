"""One call at a time for objects that threads share and that run people's functions inside their calls."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager


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
        self._inside: str | None = None  # the call that is going on; written only by whoever holds the lock
        self._lock = threading.RLock()

    def take(self, call: str) -> _Turn:
        """A call that may change the object."""
        return _Turn(self, call)

    def look(self) -> AbstractContextManager[bool]:
        """A look at the object between two calls of other threads; from inside a call, at once."""
        return self._lock

    def begin(self, call: str) -> None:
        """Wait for the lock, and refuse a call from inside another one."""
        self._lock.acquire()
        if self._inside is not None:
            self._lock.release()
            raise RuntimeError(
                f"{call} was called inside {self._inside} of the same {self._what}; a person's function"
                " must not use it"
            )
        self._inside = call

    def end(self) -> None:
        """Let others have their turn."""
        self._inside = None
        self._lock.release()


class _Turn:
    """One call, as a context; every decision of a learner passes here, so it is short."""

    __slots__ = ("_call", "_turns")

    def __init__(self, turns: Turns, call: str) -> None:
        self._turns, self._call = turns, call

    def __enter__(self) -> None:
        self._turns.begin(self._call)

    def __exit__(self, *failure: object) -> None:
        self._turns.end()
