"""Parts of a learner: each has a state of its own, which a saved file holds under its name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from numpy.typing import NDArray


class Part(Protocol):
    """A part of a learner that has a state of its own."""

    def state(self) -> tuple[Mapping[str, Any], Mapping[str, NDArray[Any]]]:
        """Plain values and arrays; copies are made by whoever keeps them."""
        ...


class Kept:
    """A part that is values and arrays of a learner's own."""

    def __init__(
        self, plain: Mapping[str, Any] | None = None, arrays: Mapping[str, NDArray[Any]] | None = None
    ) -> None:
        self._state = plain or {}, arrays or {}

    def state(self) -> tuple[Mapping[str, Any], Mapping[str, NDArray[Any]]]:
        """What was given."""
        return self._state
