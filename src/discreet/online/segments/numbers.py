"""Numbers of rounds through several learners, and which of them feedback is waited for."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from ...core import checks
from ...core.state import Saved
from ..pending import MOST_OPEN

Place = tuple[int, int]  # which learner, and which of its rounds


class RoundNumbers:
    """Every round of every learner gets the next number; those that are waited for are kept with it.

    >>> numbers = RoundNumbers(2)
    >>> numbers.number(0, 0), numbers.number(1, 0), numbers.number(0, 0), numbers.number(0, 1)
    (0, 1, 0, 2)
    >>> numbers.get(2), numbers.of(1, 0)
    ((0, 1), 1)
    """

    def __init__(self, learners: int) -> None:
        self.next = 0
        self._last: list[Place] = [(-1, -1)] * learners  # the latest round of each learner, and its number
        self._waiting: dict[int, Place] = {}  # in order
        self.changed = set(range(learners))  # learners with other rounds than when somebody cleared this

    def number(self, index: int, round: int, *, open: bool = True) -> int:
        """The number of a learner's round, a new one if it is asked for the first time.

        A round that is not ``open`` comes after a learner's horizon: no feedback is waited for.
        """
        self.changed.add(index)
        if self._last[index][0] != round:
            self._last[index] = round, self.next
            if open:
                self._waiting[self.next] = index, round
            self.next += 1
        return self._last[index][1]

    @property
    def waiting(self) -> int:
        """Of how many rounds feedback is waited for."""
        return len(self._waiting)

    @property
    def full(self) -> bool:
        """Whether these are more than may be."""
        return len(self._waiting) > MOST_OPEN

    @property
    def first(self) -> tuple[int, Place]:
        """The oldest of them."""
        return next(iter(self._waiting.items()))

    def items(self) -> Iterator[tuple[int, Place]]:
        """All of them, in order."""
        return iter(self._waiting.items())

    def before(self, round: int) -> Iterator[tuple[int, Place]]:
        """Those before a number, in order."""
        return itertools.takewhile(lambda one: one[0] < round, self._waiting.items())

    def get(self, number: int) -> Place | None:
        """The learner of a round that is waited for, and its number there."""
        return self._waiting.get(number)

    def of(self, index: int, round: int) -> int | None:
        """The number of a learner's latest round."""
        last, number = self._last[index]
        return number if last == round else None

    def take(self, number: int) -> Place:
        """`get`, for a round whose feedback is no longer waited for."""
        place = self._waiting.pop(number)
        self.changed.add(place[0])
        return place

    def drop(self, number: int | None) -> None:
        """Feedback has come, or is no longer waited for."""
        if number in self._waiting:
            self.take(number)

    def state(self) -> dict[str, Any]:
        """For `resume`."""
        waiting = [[number, *place] for number, place in self._waiting.items()]
        return {"next": self.next, "last": [list(one) for one in self._last], "waiting": waiting}

    def resume(self, saved: Saved, waited: Sequence[set[int]]) -> None:
        """Go on; ``waited`` are the rounds that each learner waits for."""
        self.changed.clear()
        self.next = saved.whole("next", at_least=0)
        rows = saved.rows("last", at_most=len(self._last))
        if len(rows) != len(self._last):
            raise ValueError("last must have a round of every segment")
        for index, row in enumerate(rows):
            round, number = (checks.whole("last", one, at_least=-1) for one in row)
            if number >= self.next:
                raise ValueError(f"last={row} is no round")
            self._last[index] = round, number
        for row in saved.rows("waiting", at_most=MOST_OPEN + 1):
            number, index, round = (checks.whole("waiting", one, at_least=0) for one in row)
            later = number > next(reversed(self._waiting), -1)
            if not later or number >= self.next or index >= len(waited) or round not in waited[index]:
                raise ValueError(f"waiting={row} is no round that is waited for")
            waited[index].discard(round)
            self._waiting[number] = index, round
