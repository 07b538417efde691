"""The number of people who were clipped to the declared bound, which no noise protects."""

from __future__ import annotations


class ClippedCount:
    """Counts people whose values were clipped, for debugging on data that one may look at.

    It is no part of an account or a decision.
    """

    _state = ("number",)

    def __init__(self) -> None:
        self.number = 0

    def add(self, people: int) -> None:
        """So many more."""
        self.number += people
