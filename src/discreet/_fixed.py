"""Settings that stay as they are: what a guarantee was computed from does not change under it."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

_DONE = "_fixed"


class Fixed:
    """Public attributes are written while the object is made, and never again; public arrays neither.

    An account, a bound or the length of an array follows from settings when an object is made. A setting that
    changed later would leave these as they were. Names with a leading underscore are the object's own: they
    change as it works, and are no business of anybody else.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "__init__" in cls.__dict__:
            cls.__init__ = _then_fixed(cls.__init__)  # type: ignore[method-assign]

    def __init__(self) -> None:
        self._fix()

    def __setattr__(self, name: str, value: Any) -> None:
        _check_own(self, name)
        super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        _check_own(self, name)
        super().__delattr__(name)

    def _fix(self) -> Self:
        """From here on public attributes are read-only. Constructors end with it by themselves."""
        for name, value in self.__dict__.items():
            if name[:1] != "_" and isinstance(value, np.ndarray) and value.flags.writeable:
                own = value.copy()  # somebody else may hold the one that was given
                own.flags.writeable = False
                self.__dict__[name] = own
        self.__dict__[_DONE] = True
        return self


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """The same numbers, for somebody who may not write them."""
    view = array.view()
    view.flags.writeable = False
    return view


def _check_own(owner: Fixed, name: str) -> None:
    if name[:1] != "_" and _DONE in owner.__dict__:
        kind = type(owner).__name__
        raise AttributeError(
            f"{kind}.{name} is read-only, as all settings are once an object is made: promises follow"
            f" from them; make a new {kind}"
        )


def _then_fixed(construct: Callable[..., None]) -> Callable[..., None]:
    """A constructor after which the object is fixed, unless it was called by a subclass's own."""

    @wraps(construct)
    def constructor(self: Fixed, *given: Any, **options: Any) -> None:
        construct(self, *given, **options)
        if type(self).__init__ is constructor:
            self._fix()

    return constructor
