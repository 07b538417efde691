"""The number of people who were clipped to the declared bound, which no noise protects."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from ..core.state import Saved
from .rounds import Rounds


class ClippedCount:
    """Counts people whose values were clipped, for debugging on data that one may look at.

    It is no part of an account or a decision.
    """

    def __init__(self) -> None:
        self.number = 0

    def add(self, people: int) -> None:
        """So many more."""
        self.number += people

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Plain values, for `resume`."""
        return {"number": self.number}, {}

    def resume(self, saved: Saved, rounds: Rounds) -> None:
        """Go on counting."""
        self.number = saved.hidden("number", at_least=0, at_most=rounds.number)
