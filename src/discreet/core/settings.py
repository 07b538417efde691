"""Frozen settings with declared fields: one object that a learner, its certificate and a saved file all read.

Each field says of which kind it is and in which range, once. Writing and reading a file follow from that.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, Self

from .state import Saved

Reader = Callable[[Saved, str], Any]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Base of frozen dataclasses whose fields are declared by `whole`, `real`, `flag`, `one_of` and `of`.

    >>> @dataclass(frozen=True, kw_only=True)
    ... class Speed(Settings):
    ...     rate: float = real(above=0.0)
    ...     every: int | None = whole(at_least=1, optional=True)
    >>> Speed(rate=0.5, every=None).plain()
    {'rate': 0.5, 'every': None}
    >>> Speed.read(Saved({"rate": 0.5, "every": 3}, {}))
    Speed(rate=0.5, every=3)
    """

    def plain(self) -> dict[str, Any]:
        """Plain values, for a file."""
        return {one.name: _written(one.metadata, getattr(self, one.name)) for one in fields(self)}

    @classmethod
    def read(cls, saved: Saved) -> Self:
        """The settings that a file holds: every field there, of its kind and within its range."""
        return cls(**{one.name: one.metadata["read"](saved, one.name) for one in fields(cls)})


def whole(*, at_least: int, at_most: int | None = None, optional: bool = False) -> Any:
    """A whole number."""
    return _declared(lambda saved, name: saved.whole(name, at_least=at_least, at_most=at_most), optional)


def real(*, optional: bool = False, **limits: Any) -> Any:
    """A number within ``limits`` (``above``, ``at_least``, ``at_most``, ``below``)."""
    return _declared(lambda saved, name: saved.real(name, **limits), optional)


def flag() -> Any:
    """True or false."""
    return _declared(lambda saved, name: saved.flag(name), False)


def one_of(allowed: Collection[str], *, optional: bool = False) -> Any:
    """One of some words."""
    return _declared(lambda saved, name: saved.one_of(name, allowed), optional)


def of(
    read: Callable[[Any], Any],
    write: Callable[[Any], Any] = lambda value: value,
    *,
    optional: bool = False,
    default: Any = MISSING,
) -> Any:
    """Anything else: ``write`` makes a plain value of it, and ``read`` makes it of a plain value, checked."""
    return _declared(lambda saved, name: read(saved.plain(name)), optional, write, default)


def _declared(
    read: Reader,
    optional: bool,
    write: Callable[[Any], Any] = lambda value: value,
    default: Any = MISSING,
) -> Any:
    def given(saved: Saved, name: str) -> Any:
        return read(saved, name) if not optional or saved.given(name) else _absent(saved, name)

    about = {"read": given, "write": write, "optional": optional}
    return field(metadata=about) if default is MISSING else field(default=default, metadata=about)


def _absent(saved: Saved, name: str) -> None:
    saved.plain(name)  # a field that is not there at all was not written by us


def _written(metadata: Any, value: Any) -> Any:
    return None if value is None and metadata["optional"] else metadata["write"](value)


class Setting(property):
    """A public attribute of an object that is one of its ``settings``.

    >>> class Learner:
    ...     rate = Setting("How fast it learns.")
    >>> Learner.rate.__doc__
    'How fast it learns.'
    """

    def __init__(self, doc: str) -> None:
        super().__init__(self._get, doc=doc)
        self.__doc__ = doc

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def _get(self, owner: Any) -> Any:
        return getattr(owner.settings, self._name)
