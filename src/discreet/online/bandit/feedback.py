"""Bandit feedback: what a learner hears of a round, what it keeps of it, and which set it shows next."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core import checks
from ...core.state import Saved
from ...objectives import answers
from ...objectives.rows.table import Rows
from ...privacy import Release
from ..protocol import Stream
from ..rounds import Rounds

# What a reward will be about, known when the set is shown: plain numbers, which wait for a late one.
Ticket = tuple[int, ...]


class Feedback(ABC):
    """One kind of feedback, and everything that is learned from it."""

    @abstractmethod
    def show(self, round: int) -> NDArray[np.int32]:
        """The items of this round, -1 where there are fewer than k."""

    @abstractmethod
    def current(self) -> NDArray[np.int32]:
        """The set that is served where nothing is tried, for rounds after the last."""

    @abstractmethod
    def ticket(self, round: int) -> Ticket:
        """What a reward for this round will be about."""

    @abstractmethod
    def could_be(self, round: int, ticket: Ticket) -> bool:
        """Whether a round can have had such a ticket."""

    def expect(self, late: tuple[int, ...], rounds: Rounds) -> None:  # noqa: B027
        """Refuse, after `resume`, rewards of earlier rounds that nothing waits for."""

    @abstractmethod
    def feedback(self, person: Any, items: tuple[int, ...], worth: float) -> Any:
        """The feedback of a simulated person on a set that is worth so much to them."""

    @abstractmethod
    def ready(self, value: Any, ticket: Ticket) -> Any:
        """The feedback, checked, in whole steps."""

    @abstractmethod
    def absorb(self, ticket: Ticket, ready: Any) -> None:
        """Take it up; None is somebody whose round passes with nothing learned."""

    @abstractmethod
    def run_rows(self, stream: Stream, rows: Rows, rounds: Rounds) -> None:
        """Rounds of people who are rows, compiled. The set of the first one is there already."""

    @abstractmethod
    def released(self, round: int) -> Iterator[tuple[str, Release, int]]:
        """What the account has to list so far, at most: (label, release, count)."""

    @abstractmethod
    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """For `resume`."""

    @abstractmethod
    def resume(self, saved: Saved, rounds: Rounds) -> None:
        """Go on with what was learned."""


class Pending:
    """Rounds that were passed without their reward, which may still come; each is taken up once."""

    def __init__(self) -> None:
        self._tickets: dict[int, Ticket] = {}

    def __len__(self) -> int:
        return len(self._tickets)

    def __contains__(self, round: int) -> bool:
        return round in self._tickets

    def __getitem__(self, round: int) -> Ticket:
        return self._tickets[round]

    @property
    def rounds(self) -> tuple[int, ...]:
        """The rounds, in order."""
        return tuple(sorted(self._tickets))

    def add(self, round: int, ticket: Ticket) -> None:
        """Wait for the reward of a round."""
        self._tickets[round] = ticket

    def take(self, round: int) -> Ticket:
        """The reward has come."""
        return self._tickets.pop(round)

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """For `resume`."""
        return {"tickets": [[round, *ticket] for round, ticket in self._tickets.items()]}, {}

    def resume(self, saved: Saved, rounds: Rounds, could_be: Callable[[int, Ticket], bool]) -> None:
        """Go on waiting; ``could_be`` says whether a round can have had such a ticket."""
        for row in saved.rows("tickets", at_most=rounds.number):
            late, *ticket = (checks.whole("tickets", number, at_least=0) for number in row)
            if late >= rounds.number or late in self._tickets or not could_be(late, tuple(ticket)):
                raise ValueError(f"tickets={row} is no round whose reward is to come")
            self._tickets[late] = tuple(ticket)


def slot_steps(
    value: Any, shown: tuple[int, ...], n_items: int, bound: float, finer: float, most: int
) -> NDArray[np.int64]:
    """What each slot got, in whole steps, from None, the item taken, or one number per slot.

    ``finer`` steps make 1, and ``most`` of them the bound.
    """
    got = np.zeros(len(shown), dtype=np.int64)
    if value is None:
        return got
    if np.ndim(value) == 0:
        item = checks.whole("value", value, at_least=0, at_most=n_items - 1)
        if item not in shown:
            raise ValueError(f"value={item} was not shown in that round; shown were {list(shown)}")
        got[shown.index(item)] = most
        return got
    values = checks.vector("value", value, length=len(shown))
    if values.min() < 0.0 or values.sum() > bound * (1.0 + 1e-9):
        raise ValueError(
            f"value={values.tolist()} must hold no negative number and sum to at most bound={bound:g}"
        )
    spare = most
    for slot in range(len(shown)):
        got[slot] = min(int(values[slot] * finer), spare)
        spare -= int(got[slot])
    return got


def slot_gains(person: Any, items: tuple[int, ...], worth: float, bound: float) -> list[float]:
    """What a simulated person takes: what each item adds to those above it; all are worth ``worth``."""
    above = [answers.number("value", person.value(items[:t]), 0.0, bound) for t in range(len(items))]
    return [max(0.0, after - before) for before, after in pairwise([*above, worth])]
