"""One call at a time for objects that threads share and that run people's functions inside their calls."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


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

    @contextmanager
    def take(self, call: str) -> Iterator[None]:
        """A call that may change the object."""
        with self._lock:
            if self._inside is not None:
                raise RuntimeError(
                    f"{call} was called inside {self._inside} of the same {self._what}; a person's function"
                    " must not use it"
                )
            self._inside = call
            try:
                yield
            finally:
                self._inside = None

    @contextmanager
    def look(self) -> Iterator[None]:
        """A look at the object between two calls of other threads; from inside a call, at once."""
        with self._lock:
            yield
