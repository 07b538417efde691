"""Read-only settings: what a guarantee was computed from does not change under it."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

_T = TypeVar("_T")
_set, _delete = object.__setattr__, object.__delattr__


def fixed(kind: _T) -> _T:
    """A class, and its subclasses, whose public attributes are written while an object is made, never again.

    An account, a bound or the length of an array follows from settings when an object is made. Public arrays
    are copied and read-only. Names with a leading underscore are the object's own, which change as it works.
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


def fix(owner: _T) -> _T:
    """From here on its public attributes are read-only. Constructors end with it by themselves."""
    _set(owner, "_fixed", True)
    return owner


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """The same numbers, for somebody who may not write them."""
    view = array.view()
    view.flags.writeable = False
    return view


# Names of its own are set in every round: nothing but this is looked at then.
def _set_once(self: Any, name: str, value: Any) -> None:
    if name[0] != "_":
        if self._fixed:
            raise _refusal(self, name)
        if isinstance(value, np.ndarray) and value.flags.writeable:
            value = value.copy()  # somebody else may hold the one that was given
            value.setflags(write=False)
    _set(self, name, value)


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
    """A constructor after which the object is fixed, unless it was called by a subclass's own."""

    @wraps(construct)
    def constructor(self: Any, *given: Any, **options: Any) -> None:
        construct(self, *given, **options)
        if type(self).__init__ is constructor:
            fix(self)

    return constructor
