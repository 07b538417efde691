"""Read-only settings: what a guarantee was computed from does not change under it."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

_set, _delete = object.__setattr__, object.__delattr__


class Fixed:
    """Public attributes are written while the object is made, and never again; public arrays neither.

    An account, a bound or the length of an array follows from settings when an object is made. A setting that
    changed later would leave these as they were. Names with a leading underscore are the object's own: they
    change as it works, and are no business of anybody else.
    """

    _fixed = False

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "__init__" in cls.__dict__:
            cls.__init__ = _then_fixed(cls.__init__)  # type: ignore[method-assign]

    def __init__(self) -> None:
        self._fix()

    # Names of its own are set in every round: nothing but this is looked at then.
    def __setattr__(self, name: str, value: Any) -> None:
        if name[0] != "_":
            if self._fixed:
                raise _refusal(self, name)
            if isinstance(value, np.ndarray) and value.flags.writeable:
                value = value.copy()  # somebody else may hold the one that was given
                value.setflags(write=False)
        _set(self, name, value)

    def __delattr__(self, name: str) -> None:
        if name[0] != "_" and self._fixed:
            raise _refusal(self, name)
        _delete(self, name)

    def _fix(self) -> Self:
        """From here on public attributes are read-only. Constructors end with it by themselves."""
        self._fixed = True
        return self


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """The same numbers, for somebody who may not write them."""
    view = array.view()
    view.flags.writeable = False
    return view


def _refusal(owner: Fixed, name: str) -> AttributeError:
    kind = type(owner).__name__
    return AttributeError(
        f"{kind}.{name} is read-only, as all settings are once an object is made: guarantees follow from"
        f" them; make a new {kind}"
    )


def _then_fixed(construct: Callable[..., None]) -> Callable[..., None]:
    """A constructor after which the object is fixed, unless it was called by a subclass's own."""

    @wraps(construct)
    def constructor(self: Fixed, *given: Any, **options: Any) -> None:
        construct(self, *given, **options)
        if type(self).__init__ is constructor:
            self._fix()

    return constructor
