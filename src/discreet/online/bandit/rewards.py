"""Learners that hear what the set they showed was worth, at once or late."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ...core import checks
from ...objectives import answers
from ...objectives.rows import Rows
from ...privacy import Account, Release, Share
from ...results import Selection
from ..catalogue import Catalogue
from ..learner import Rounds, Stream
from ..pending import Ticket
from ..released import Known, Released
from ..selector import OnlineSelector, SelectorSettings


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


def invalid(by_slot: bool, bound: float, reason: str) -> checks.DataError:
    """The refusal of feedback; what is wrong with it is a fact about somebody, and a detail."""
    expected = f"a number from 0 to {bound:g}"
    if by_slot:
        expected = f"the item that was taken, None for none, or a number for each slot, in all {expected}"
    return checks.DataError(f"invalid feedback: value must be {expected}", reason)


def read_feedback(by_slot: bool, bound: float, read: Callable[..., Any], *given: Any) -> Any:
    """What ``read`` makes of feedback, or that refusal."""
    try:
        return read(*given)
    except (ValueError, TypeError) as error:
        reason = str(error)
    raise invalid(by_slot, bound, reason)


def given_reward(catalogue: Catalogue, by_slot: bool, person: Any, items: Any) -> Any:
    """A reward, with labels turned into numbers."""
    if not by_slot:
        return person
    if items is None:
        scalar = person is not None and (type(person) in (int, str) or np.ndim(person) == 0)
        return catalogue.item(person) if scalar else person
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


class FewRoundsWarning(UserWarning):
    """The declared rounds are too few to learn anything from values of sets."""


class RewardSelector(OnlineSelector):
    """Choose k of n items every round, then hear what they were worth to the person of that round.

    What is made of a reward is up to its ``_engine``, which `_begin` of a subclass makes.
    """

    _engine: Feedback
    _state: ClassVar[tuple[str, ...]] = ("_engine",)
    _batched = False  # rewards belong to their round, whenever they come

    def __init__(
        self, settings: SelectorSettings, share: Share, start: Released | OnlineSelector | None = None
    ) -> None:
        super().__init__(settings, share, start)
        if settings.too_short:
            warnings.warn(
                f"rounds={settings.rounds} are too few to learn from values of sets of {settings.k} out of"
                f" {settings.n_items} items with this budget: expect what random sets would bring. Take more"
                ' rounds, fewer items, feedback="slots", or ThompsonSelector where it is not that already;'
                " discreet.plan says what to expect.",
                FewRoundsWarning,
                stacklevel=5,
            )

    # --- for users -------------------------------------------------------------------------------

    def learn(
        self,
        value: Any = None,
        *,
        items: Iterable[Any] | Mapping[Any, float] | None = None,
        round: int | None = None,
        person_id: Hashable | None = None,
    ) -> None:
        """Learn what the set of this round was worth, or of an earlier ``round`` whose reward comes late.

        ``value`` is a number in [0, bound]; with ``feedback="slots"`` it is the item that was taken, by label
        or number, None for none, or one number per slot, in all at most ``bound``. ``items`` lists several
        that were taken; who took two counts half for each. Nothing is learned of a round that served
        another set than the one that was drawn, because something was not available.
        ``person_id`` lets the learner keep to ``max_rounds_per_person``.
        """
        super().learn(value, items=items, round=round, person_id=person_id)

    def learn_many(self, rewards: Mapping[int, Any]) -> None:
        """Rewards of several rounds, by round: ``learn(value, round=round)`` for each, in less time.

        Where one of them is refused, nothing is learned of any.
        """
        with self._turn("learn_many()"):
            checks.instance("rewards", rewards, Mapping, "{decision.round: value}")
            open_round = self._rounds.number
            given = {round: self._given(value, None) for round, value in rewards.items()}
            if self.over and open_round in given:
                self._learn(given.pop(open_round), None)  # tells that no rounds are left, or takes no notice
            now = open_round if self._rounds.is_open else None
            ready = {
                round: self._prepared(value)
                if round == now
                else self._prepared_late(value, self._late(round))
                for round, value in given.items()
            }
            within_limit = self._contribution.register(None)
            for round, one in ready.items():
                if round == now:
                    self._take(one, within_limit)
                else:
                    self._take_late(self._pending.take(round), one, within_limit)

    # --- the protocol ----------------------------------------------------------------------------

    def _next(self) -> Any:
        if not self._rounds.is_open and self._rounds.over:
            self._rounds.shown = self._engine.current()
        return super()._next()

    def _due(self) -> bool:
        return True

    def _draw(self) -> NDArray[np.int32]:
        return self._engine.show(self._rounds.number)

    def _feedback(self, person: Any, decision: Selection, worth: float) -> Any:
        return self._engine.feedback(person, decision.items, worth)

    def _known(self) -> Known:
        return self._engine.known(self._rounds.number)

    def _start(self, start: Released) -> None:
        self._engine.start(start)

    def _refit(self) -> None:
        """What a reward tells is about the set that was drawn; a new one is, without what was retired."""

    def _grown(self, n_items: int, labels: tuple[Any, ...] | None) -> Any:
        return replace(self.settings, n_items=n_items, labels=labels)

    def _open_items(self, items: NDArray[np.int64], among: NDArray[np.int64], settings: Any) -> None:  # noqa: ARG002
        if settings is not None:
            self._engine.grow(settings)

    def _changed(self) -> None:
        self._engine.restrict(self._active())

    def _given(self, person: Any, items: Any) -> Any:
        if items is not None and not self._engine.by_slot:
            raise TypeError('items= is for feedback="slots"; give the value of the set')
        if items is not None and person is not None:
            raise TypeError("give either a value or items=, not both")
        if not self._engine.by_slot:
            return person
        about = self._catalogue, True, person, items
        return read_feedback(True, self.bound, given_reward, *about)

    def _check_divisible(self) -> None:
        raise NotImplementedError(
            "every round shows a set of its own: deal rounds to other servers with choose(wait=False), and"
            " bring their rewards with learn(..., round=)"
        )

    def _stands(self) -> int:
        return self._engine.stands(self._rounds.number)

    def _ticket(self) -> Ticket:
        return (int(self._rounds.altered), *self._engine.ticket(self._rounds.number))

    def _prepared(self, person: Any) -> Any:
        return self._checked(person, self._ticket())

    def _prepared_late(self, person: Any, late: int) -> Any:
        return self._checked(person, self._pending[late])

    def _checked(self, value: Any, ticket: Ticket) -> Any:
        """The reward in whole steps; None for a round that served another set."""
        if ticket[0]:
            return None
        try:
            return self._engine.ready(value, ticket[1:])
        except (ValueError, TypeError) as error:
            reason = str(error)
        raise invalid(self._engine.by_slot, self.bound, reason)

    def _take(self, ready: Any, within_limit: bool) -> None:
        ticket = self._ticket()
        self._rounds.close(then=lambda: self._take_late(ticket, ready, within_limit))

    def _take_late(self, ticket: Ticket, ready: Any, within_limit: bool) -> None:
        if ticket[0]:
            self._engine.skip(ticket[1:])
        else:
            self._absorb((ticket[1:], ready if within_limit else None))

    def _skipped(self, ticket: Ticket) -> None:
        self._engine.skip(ticket[1:])

    def _expired(self, ticket: Ticket) -> None:
        self._take_late(ticket, None, within_limit=True)

    def _absorb(self, person: Any) -> None:
        self._engine.absorb(*person)

    def _run_rows(self, stream: Stream, rows: Rows) -> None:
        if len(self._pending) or self._catalogue.active is not None or not self._engine.compiles:
            self._run_one_by_one(stream)  # compiled loops know nothing of these
            return
        self._next()  # the first set is drawn before anybody of this stream is seen
        self._engine.run_rows(stream, rows, self._rounds)

    def _spent(self) -> Account:
        return self._account(*self._engine.released(self._rounds.number))
