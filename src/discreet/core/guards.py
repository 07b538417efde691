"""Guards of objects: settings that are read-only, as guarantees follow from them, and one call at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import wraps
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

_T = TypeVar("_T")
_set, _delete = object.__setattr__, object.__delattr__


def fixed(kind: _T) -> _T:
    """Make public attributes of a class and its subclasses read-only once an object is constructed.

    An account, a bound or the length of an array follows from settings when an object is made. Public arrays
    are copied and read-only. Names with a leading underscore are internal and may change.
    """
    made: Any = kind
    own = made.__dict__.get("__init_subclass__")

    def init_subclass(cls: Any, /, **options: Any) -> None:
        if own is not None:
            own.__func__(cls, **options)
        if "__init__" in cls.__dict__:
            cls.__init__ = _then_fixed(cls.__init__)

    made._fixed = False
    made.__setattr__, made.__delattr__ = _set_once, _delete_once
    made.__init__ = _then_fixed(made.__init__)
    made.__init_subclass__ = classmethod(init_subclass)
    return kind


def settle(owner: Any, /, **settings: Any) -> None:
    """Set all settings of an object under construction at once; public arrays are copied, as always."""
    for name, value in settings.items():
        _set(owner, name, _own_copy(value) if isinstance(value, np.ndarray) and name[0] != "_" else value)


def fix(owner: _T) -> _T:
    """Make an object's public attributes read-only. Constructors do this at their end."""
    _set(owner, "_fixed", True)
    return owner


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """A read-only view of an array."""
    view = array.view()
    view.flags.writeable = False
    return view


# Internal names are set in every round, so this does nothing more for them.
def _set_once(self: Any, name: str, value: Any) -> None:
    if name[0] != "_":
        if self._fixed:
            raise _refusal(self, name)
        if isinstance(value, np.ndarray):
            value = _own_copy(value)
    _set(self, name, value)


def _own_copy(array: NDArray[Any]) -> NDArray[Any]:
    """A read-only array; a copy if others could write to the given one."""
    if array.flags.writeable:
        array = array.copy()
        array.setflags(write=False)
    return array


def _delete_once(self: Any, name: str) -> None:
    if name[0] != "_" and self._fixed:
        raise _refusal(self, name)
    _delete(self, name)


def _refusal(owner: Any, name: str) -> AttributeError:
    kind = type(owner).__name__
    return AttributeError(
        f"{kind}.{name} is read-only, as all settings are once an object is made: guarantees follow from"
        f" them; make a new {kind}"
    )


def _then_fixed(construct: Callable[..., None]) -> Callable[..., None]:
    """A constructor that fixes the object at its end, unless a subclass's constructor called it."""

    @wraps(construct)
    def constructor(self: Any, *given: Any, **options: Any) -> None:
        construct(self, *given, **options)
        if type(self).__init__ is constructor:
            fix(self)

    return constructor


class Turns:
    """Threads wait for each other; a call from inside another call of the same object is refused.

    People's functions are user code. One that called the object which is evaluating it would find that object
    in the middle of a round, and could change it.

    >>> turns = Turns("learner")
    >>> with turns.take("learn()"), turns.take("choose()"):
    ...     pass
    Traceback (most recent call last):
    RuntimeError: choose() was called inside learn() of the same learner; a person's function must not use it
    """

    def __init__(self, what: str) -> None:
        self._what = what
        # Calls hold the lock itself, so an interruption never leaves it taken.
        self._lock: Any = threading.RLock()
        self._own = threading.local()  # the call with which a thread waits or has its turn
        self._halfway = ""  # a call that changes several parts, inconsistent until it ends

    def take(self, call: str) -> AbstractContextManager[object]:
        """A call that may change the object."""
        if self._lock._is_owned():
            raise RuntimeError(
                f"{call} was called inside {self._own.call} of the same {self._what}; a person's function"
                " must not use it"
            )
        if self._halfway:
            raise RuntimeError(f"{self._halfway} was interrupted half-way; go on from the last saved state")
        self._own.call = call
        return self._lock  # type: ignore[no-any-return]

    @contextmanager
    def whole(self, call: str) -> Iterator[None]:
        """Changes of parts: all, or refused before the first; after an interruption no call is taken."""
        self._halfway = call
        try:
            yield
        except (ValueError, NotImplementedError):
            self._halfway = ""
            raise
        self._halfway = ""

    def look(self) -> AbstractContextManager[object]:
        """Access between calls of other threads, without starting a call; allowed inside one."""
        return self._lock  # type: ignore[no-any-return]
