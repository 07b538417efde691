"""Bandit feedback: what a learner hears of a round, what it keeps of it, and which set it shows next."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core import checks
from ...core.state import Saved
from ...objectives import answers
from ...objectives.rows.table import Rows
from ...privacy import Release
from ..catalogue import Catalogue
from ..pending import Ticket
from ..protocol import Stream
from ..released import Known, Released
from ..rounds import Rounds


@dataclass(frozen=True)
class Taken:
    """The items that somebody took."""

    items: tuple[int, ...]


class Feedback(ABC):
    """One kind of feedback, and everything that is learned from it."""

    by_slot = False  # whether feedback tells which of the shown items were taken

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

    def stands(self, round: int) -> int:  # noqa: ARG002
        """How many rounds after this one show the same set, and their rewards are about the same."""
        return 0

    @abstractmethod
    def ready(self, value: Any, ticket: Ticket) -> Any:
        """The feedback, checked, in whole steps."""

    @abstractmethod
    def absorb(self, ticket: Ticket, ready: Any) -> None:
        """Take it up; None is somebody whose round passes with nothing learned."""

    def skip(self, ticket: Ticket) -> None:
        """Pass over a round that served another set than this, which is a public fact."""
        self.absorb(ticket, None)

    @abstractmethod
    def restrict(self, active: NDArray[np.bool_]) -> None:
        """Draw sets from these items only, from the next one on."""

    def grow(self, settings: Any) -> None:
        """Take up more items."""
        raise NotImplementedError(
            "what is explored when, and how much noise that takes, was settled for the items there were: take"
            ' feedback="slots" or ThompsonSelector, or make a new learner'
        )

    def known(self, round: int) -> Known:  # noqa: ARG002
        """What each item was worth to a person, by what was released, to how many people, and how sure."""
        return None, 0, None

    @abstractmethod
    def start(self, start: Released) -> None:
        """Begin with what is known from elsewhere."""

    @property
    def compiles(self) -> bool:
        """Whether a compiled loop can go on from here."""
        return True

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


def given_reward(catalogue: Catalogue, by_slot: bool, person: Any, items: Any) -> Any:
    """A reward, with labels turned into numbers."""
    if not by_slot:
        if items is not None:
            raise TypeError('items= is for feedback="slots"; give the value of the set')
        return person
    if items is None:
        scalar = person is not None and (type(person) in (int, str) or np.ndim(person) == 0)
        return catalogue.item(person) if scalar else person
    if person is not None:
        raise TypeError("give either a value or items=, not both")
    return Taken(tuple(catalogue.items("items", items).tolist()))


def slot_steps(
    value: Any, shown: tuple[int, ...], n_items: int, bound: float, finer: float, most: int
) -> NDArray[np.int64]:
    """What each slot got, in whole steps, from None, the item taken, or one number per slot.

    ``finer`` steps make 1, and ``most`` of them the bound.
    """
    got = np.zeros(len(shown), dtype=np.int64)
    if value is None:
        return got
    if isinstance(value, Taken):
        for item in value.items:
            if item not in shown:
                raise ValueError(f"item {item} was not shown in that round; shown were {list(shown)}")
            got[shown.index(item)] = most // len(value.items)
        return got
    if type(value) is int or np.ndim(value) == 0:
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
