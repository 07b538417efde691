"""Learners that hear what the set they showed was worth, at once or late."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core import checks
from ...core.state import Saved
from ...objectives.rows.table import Rows
from ...privacy import Account, Share
from ...results import Selection
from ..protocol import OnlineLearner, Part, Stream
from ..select.selector import OnlineSelector, SelectorSettings
from .feedback import Feedback, Pending


class FewRoundsWarning(UserWarning):
    """The declared rounds are too few to learn anything from values of sets."""


class RewardSelector(OnlineSelector):
    """Choose k of n items every round, then hear what they were worth to the person of that round.

    What is made of a reward is up to its ``_engine``, which `_begin` of a subclass makes, with ``_pending``.
    """

    _engine: Feedback
    _pending: Pending

    def __init__(self, settings: SelectorSettings, share: Share) -> None:
        super().__init__(settings, share)
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

    @property
    def pending(self) -> tuple[int, ...]:
        """Rounds that were passed without their reward, which may still come."""
        with self._turns.look():
            return self._pending.rounds

    def choose(self, *, wait: bool = True) -> Selection:
        """The set for this round; with ``wait=False`` the next one, even if the last reward has not come."""
        with self._turn("choose()"):
            if not wait and self._rounds.is_open and not self.over:
                passed = self._rounds.number
                later = partial(self._pending.add, passed, self._engine.ticket(passed))
                self._rounds.close(then=later)  # an interruption never leaves the round open and pending
            chosen: Selection = self._next()
            return chosen

    def learn(self, value: Any, *, round: int | None = None, person_id: Hashable | None = None) -> None:
        """Learn what the set of this round was worth, or of an earlier ``round`` whose reward comes late.

        ``value`` is a number in [0, bound]; with ``feedback="slots"`` it is the item that was taken, None for
        none, or one number per slot, in all at most ``bound`` (who took two counts half for each).
        ``person_id`` lets the learner keep to ``max_rounds_per_person``.
        """
        with self._turn("learn()"):
            now = self._rounds.number
            if round is None or (round == now and self._rounds.is_open):
                self._learn(value, person_id)
                return
            late = checks.whole("round", round, at_least=0)
            if late not in self._pending:
                why = "has been counted" if late < now else "has not been chosen for"
                raise ValueError(f"round={late} {why}; rewards are open for {_few(self._pending.rounds)}")
            ready = self._engine.ready(value, self._pending[late])
            within_limit = self._contribution.register(person_id)
            ticket = self._pending.take(late)  # first, so that an interruption never doubles anybody
            self._absorb((ticket, ready if within_limit else None))

    # --- the protocol ----------------------------------------------------------------------------

    def _next(self) -> Any:
        if self.over and not self._rounds.is_open:
            self._rounds.show(self._engine.current())
        return super()._next()

    def _due(self) -> bool:
        return True

    def _draw(self) -> NDArray[np.int32]:
        return self._engine.show(self._rounds.number)

    def _feedback(self, person: Any, decision: Selection, worth: float) -> Any:
        return self._engine.feedback(person, decision.items, worth)

    def _prepared(self, person: Any) -> Any:
        return self._engine.ready(person, self._engine.ticket(self._rounds.number))

    def _take(self, ready: Any, within_limit: bool) -> None:
        feedback = (self._engine.ticket(self._rounds.number), ready if within_limit else None)
        self._rounds.close(then=lambda: self._absorb(feedback))

    def _absorb(self, person: Any) -> None:
        self._engine.absorb(*person)

    def _run_rows(self, stream: Stream, rows: Rows) -> None:
        if len(self._pending):  # compiled loops know nothing of rewards that come late
            OnlineLearner._run(self, stream)
            return
        self._next()  # the first set is drawn before anybody of this stream is seen
        self._engine.run_rows(stream, rows, self._rounds)

    def _spent(self) -> Account:
        return self._account(*self._engine.released(self._rounds.number))

    # --- saving ----------------------------------------------------------------------------------

    def _parts(self) -> Mapping[str, Part]:
        return {"pending": self._pending, "feedback": self._engine}

    def _restore(self, saved: Saved) -> None:
        self._engine.resume(saved.part("feedback"), self._rounds)
        self._pending.resume(saved.part("pending"), self._rounds, self._engine.could_be)
        self._engine.expect(self._pending.rounds, self._rounds)


def _few(rounds: tuple[int, ...]) -> str:
    shown = ", ".join(map(str, rounds[:5])) + (", ..." if len(rounds) > 5 else "")
    return f"rounds {shown}" if rounds else "no earlier round"
