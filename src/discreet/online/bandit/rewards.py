"""Learners that hear what the set they showed was worth, at once or late."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core import checks
from ...core.state import Saved
from ...objectives.rows.table import Rows
from ...privacy import Account, Share
from ...results import Selection
from ..parts import Part
from ..pending import Ticket
from ..protocol import Stream
from ..released import Known, Released
from ..select.selector import OnlineSelector, SelectorSettings
from ..serving import ServingLearner
from .feedback import Feedback, given_reward


class FewRoundsWarning(UserWarning):
    """The declared rounds are too few to learn anything from values of sets."""


class RewardSelector(OnlineSelector):
    """Choose k of n items every round, then hear what they were worth to the person of that round.

    What is made of a reward is up to its ``_engine``, which `_begin` of a subclass makes.
    """

    _engine: Feedback
    _batched = False  # rewards belong to their round, whenever they come

    def __init__(
        self, settings: SelectorSettings, share: Share, start: Released | ServingLearner | None = None
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
            self._rounds.show(self._engine.current())
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
        return given_reward(self._catalogue, self._engine.by_slot, person, items)

    def _check_divisible(self) -> None:
        raise NotImplementedError(
            "every round shows a set of its own: deal rounds to other servers with choose(wait=False), and"
            " bring their rewards with learn(..., round=)"
        )

    def _stands(self) -> int:
        return self._engine.stands(self._rounds.number)

    def _ticket(self) -> Ticket:
        return (int(self._rounds.altered), *self._engine.ticket(self._rounds.number))

    def _could_be(self, round: int, ticket: Ticket) -> bool:
        return len(ticket) > 0 and ticket[0] in (0, 1) and self._engine.could_be(round, ticket[1:])

    def _prepared(self, person: Any) -> Any:
        return self._checked(person, self._ticket())

    def _prepared_late(self, person: Any, late: int) -> Any:
        return self._checked(person, self._pending[late])

    def _checked(self, value: Any, ticket: Ticket) -> Any:
        """The reward in whole steps; None for a round that served another set."""
        return None if ticket[0] else self._engine.ready(value, ticket[1:])

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

    # --- saving ----------------------------------------------------------------------------------

    def _parts(self) -> Mapping[str, Part]:
        return {"feedback": self._engine}

    def _restore(self, saved: Saved) -> None:
        if self._catalogue.active is not None:
            self._engine.restrict(self._active())
        self._engine.resume(saved.part("feedback"), self._rounds)

    def _restore_late(self, saved: Saved) -> None:
        super()._restore_late(saved)
        self._engine.expect(self._pending.rounds, self._rounds)
