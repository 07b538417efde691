"""Learners that show sets of items to people and learn from feedback: at once, late, or from other servers.

Feedback of full information is about the person, whatever they were shown, and so it is learned as feedback
of the round in which it comes. A person is learned from once, whenever that is.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import checks
from ..core.settings import Setting
from ..core.state import Saved
from ..privacy import Gate
from ..results import Selection
from .catalogue import Catalogue
from .catalogue_learner import CatalogueLearner
from .partial import Absorbed, Counting, Partial, SummedPart, named
from .parts import Part
from .pending import MOST_OPEN, Pending, Ticket, Waiting
from .people import counted_people, counted_person, given_person
from .protocol import LearnerSettings, Stream


class ServingLearner(CatalogueLearner):
    """Show a set of items every round, by label or number, and learn from feedback, at once or late."""

    bound = Setting("The largest value of a person's function.")

    # --- for users -------------------------------------------------------------------------------

    def choose(
        self,
        *,
        wait: bool = True,
        available: Iterable[Any] | None = None,
        exclude: Iterable[Any] | None = None,
        include: Iterable[Any] | None = None,
    ) -> Selection:
        """The set for this round; with ``wait=False`` the next one, even if feedback has not come yet.

        ``available`` lists what can be shown in this round, ``exclude`` what cannot, ``include`` what must be
        in the set: labels or numbers of items. These must be public facts, such as what is sold out: whoever
        derives them from private data leaks it here. ``include`` takes the first places, items that
        cannot be shown are replaced by others that rank high in what has been released.
        """
        with self._turn("choose()"):
            request = self._catalogue.request(available, exclude, include, self._least)
            if not wait and self._rounds.is_open and not self.over:
                self._pass_on()
            standing = self._next()
            return self._fitted(standing, request)

    def learn(
        self,
        person: Any = None,
        *,
        items: Iterable[Any] | Mapping[Any, float] | None = None,
        round: int | None = None,
        person_id: Hashable | None = None,
    ) -> None:
        """Learn from the person of this round, or of an earlier ``round`` that was passed without them.

        ``person`` is a population of one, or a vector with a number in [0, 1] for each item: the chance that
        the person takes it. ``items`` is the same for a few items: a list of what the person would take, or a
        mapping from items to chances, by label or number. ``person_id`` (any hashable) lets the learner keep
        to ``max_rounds_per_person``: it is kept only as a keyed hash, and rounds beyond the limit pass
        without being learned from.
        """
        with self._turn("learn()"):
            given = self._given(person, items)
            now = self._rounds.number
            if round is None or (round == now and (self._rounds.is_open or self.over)):
                self._learn(given, person_id)
                return
            late = self._late(round)
            ready, marks = self._prepared_late(given, late), tuple(getattr(given, "marks", ()))
            within_limit = self._contribution.register(person_id)
            self._gate.mark(*marks)
            ticket = self._pending.take(late)  # first, so that an interruption never doubles anybody
            self._take_late(ticket, ready, within_limit)

    def choose_many(self, count: int) -> list[Selection]:
        """The sets of the next ``count`` rounds: ``choose(wait=False)`` so many times, in less time."""
        with self._turn("choose_many()"):
            checks.whole("count", count, at_least=1)
            request = self._catalogue.request(least=self._least)
            found: list[Selection] = []
            while len(found) < count:
                if self._rounds.is_open and not self.over:
                    self._pass_on()
                found.append(self._fitted(self._next(), request))
                if request is None and not self.over:
                    found += self._alike(found[-1], count - len(found))
            return found

    def _late(self, round: int) -> int:
        """An earlier round whose feedback is waited for."""
        late = checks.whole("round", round, at_least=0)
        if late not in self._pending:
            why = (
                "has been counted, or has expired"
                if late < self._rounds.number
                else "has not been chosen for"
            )
            raise ValueError(f"round={late} {why}; feedback is open for {_few(self._pending.rounds)}")
        return late

    def _alike(self, shown: Selection, most: int) -> list[Selection]:
        """Pass on to the last of the next rounds that show the same for certain, at most so many."""
        left = most if self.rounds is None else min(most, self.rounds - self._rounds.number - 1)
        count = min(self._stands(), left)
        if count <= 0:
            return []
        first, ticket = self._rounds.number, self._ticket()
        later = partial(self._pending.add_all, range(first, first + count), ticket)
        self._rounds.close(count, then=later)
        self._expire(max(0, len(self._pending) - MOST_OPEN))
        self._rounds.open()
        if self._remembers:
            self._catalogue.remember(self._shown, count)
        return [Selection(shown.items, first + 1 + i, shown.labels) for i in range(count)]

    def _pass_on(self) -> None:
        """The round passes without its feedback, which may still come."""
        later = partial(self._pending.add, self._rounds.number, self._ticket())
        self._rounds.close(then=later)  # an interruption never leaves the round open and pending
        if self._batched and (waiting := self._waiting.passed()) is not None:
            self._absorb_waiting(waiting)
        if len(self._pending) > MOST_OPEN:
            self._expire(1)

    def partial(self, server: str) -> Partial:
        """A part of the open batch for people who come to another server, who are served the same set."""
        with self._turn("partial()"):
            named(server)
            self._check_divisible()
            if self.over:
                raise RuntimeError(f"the declared horizon of rounds={self.rounds} is over")
            self._next()
            return self._part((server, self._batch(), self._room(), self._contribution.name))

    def absorb(self, part: Partial) -> None:
        """Learn from the people of a part, whose rounds pass; once, and while its batch is open."""
        with self._turn("absorb()"):
            checks.instance("part", part, Partial, 'learner.partial(server="web-3")')
            if self._rounds.shown is None or part.learner != self._contribution.name:
                raise ValueError("the part is of another learner")
            self._check_part(part)
            left = None if self.rounds is None else self.rounds - self._rounds.number
            self._absorbed.check(part, self._batch(), self._room(), left)
            self._absorbed.add(part)  # first, so that an interruption never doubles anybody
            self._rounds.close(part.count, then=lambda: self._take_part(part))

    @property
    def pending(self) -> tuple[int, ...]:
        """Rounds that were passed without their feedback, which may still come."""
        with self._turns.look():
            return self._pending.rounds

    def waits_for(self, round: int) -> bool:
        """Whether feedback of this round may still come."""
        with self._turns.look():
            open_now = self._rounds.is_open and round == self._rounds.number
            return open_now or round in self._pending

    def expire(self, before: int) -> int:
        """Wait no longer for feedback of rounds ``before`` this one: these people took nothing.

        Returns how many rounds that were. When to do so must be a public rule, such as a number of hours.
        At most 131,072 rounds are waited for; with one more the oldest expires.
        """
        with self._turn("expire()"):
            first = checks.whole("before", before, at_least=-(1 << 62))
            return self._expire(sum(1 for late in self._pending.rounds if late < first))

    def skip(self, rounds: Iterable[int]) -> None:
        """Learn nothing of these rounds: their sets were never shown, or others were. A public fact.

        Who was not served has not "taken nothing", and averages are those of the other rounds.
        """
        with self._turn("skip()"):
            late = [checks.whole("rounds", round, at_least=0) for round in rounds]
            now = self._rounds.number if self._rounds.is_open else -1
            seen: set[int] = set()
            for round in late:
                if (round not in self._pending and round != now) or round in seen:
                    raise ValueError(f"rounds={round} waits for no feedback")
                seen.add(round)
            for round in late:
                if round == now:
                    self._pass_on()
                self._skipped(self._pending.take(round))

    # --- for subclasses --------------------------------------------------------------------------

    def _check_divisible(self) -> None:
        """Refuse parts where people cannot be divided among servers."""
        if self._sums_shape() is None:
            raise NotImplementedError(f"{type(self).__name__} has no sums of people to divide")

    def _sums_shape(self) -> tuple[int, ...] | None:
        """The shape of a batch's sums of people; None without such."""
        return None

    def _units_range(self) -> tuple[Any, Any]:
        """The least and the most that one person adds to these sums."""
        return 0, self._whole_units[1]

    def _counting(self) -> Counting:
        """What makes a person's part in these sums of a person."""
        raise NotImplementedError

    def _batch(self) -> int:
        """The first round of the open batch."""
        raise NotImplementedError

    def _room(self) -> int | None:
        """How many people the open batch has still room for; None for any number."""
        raise NotImplementedError

    def _gather(self, sums: NDArray[np.int64], count: int) -> None:
        """Take up the sums of ``count`` people of a part."""
        raise NotImplementedError

    def _part(self, about: tuple[str, int, int | None, str]) -> Partial:
        """An empty part of the open batch."""
        given = partial(given_person, Catalogue(self.n_items, self.labels), self.n_items)
        counting, shape = self._counting(), self._sums_shape() or ()
        units = partial(counted_person, self.n_items, self.bound, counting)
        everybody = partial(counted_people, self.n_items, self.bound, counting, shape)
        return SummedPart(*about, given, shape, units, everybody)

    def _check_part(self, part: Partial) -> None:
        """Refuse a part that this learner's people cannot have made."""
        if not isinstance(part, SummedPart) or part.sums.shape != self._sums_shape():
            raise ValueError("the part is of another learner, or of other items")
        part.check(*self._units_range())

    def _take_part(self, part: Any) -> None:
        """Take up the people of a part, whose rounds are over."""
        self._gather(part.sums, part.count)

    @property
    def _whole_units(self) -> tuple[tuple[int, ...], float]:
        """Shape and largest entry of people in whole units, where `_prepared` makes such of them."""
        return (), 0

    _batched = True  # whether what is released together are at most as many people as rounds

    def _stands(self) -> int:
        """How many rounds after this one show the same, without a draw."""
        return 0

    def _ticket(self) -> Ticket:
        """What late feedback of the open round will be about."""
        return ()

    def _could_be(self, round: int, ticket: Ticket) -> bool:  # noqa: ARG002
        """Whether a round can have had such a ticket."""
        return ticket == ()

    def _given(self, person: Any, items: Any) -> Any:
        """The person in the form that `_prepared` takes."""
        return given_person(self._catalogue, self.n_items, person, items)

    def _prepared_late(self, person: Any, late: int) -> Any:  # noqa: ARG002
        """`_prepared`, for feedback of an earlier round."""
        return self._prepared(person)

    def _take_late(self, ticket: Ticket, ready: Any, within_limit: bool) -> None:  # noqa: ARG002
        """Take up what `_prepared_late` returned."""
        if within_limit and self._has_room(ready):
            self._absorb(ready)

    def _has_room(self, ready: Any) -> bool:
        """Whether a person can be learned from at once; who cannot, waits.

        Not where a person may be in several batches: who waits would be in another one than was counted, and
        could be in one twice. There, such a round passes without being learned from.
        """
        if not self._batched:
            return True
        return self._waiting.admits(ready, keep=self.budget.max_rounds_per_person == 1)

    def _absorb_waiting(self, ready: Any) -> None:
        """Take up somebody who had to wait."""
        self._absorb(ready)

    def _expired(self, ticket: Ticket) -> None:
        """Feedback that will not come."""

    def _skipped(self, ticket: Ticket) -> None:
        """A round that has not happened, for its learner."""

    # --- the protocol ----------------------------------------------------------------------------

    def _assemble(self, settings: LearnerSettings, gate: Gate, *, own_gate: bool) -> None:
        self._pending, self._waiting, self._absorbed = Pending(), Waiting(), Absorbed()
        super()._assemble(settings, gate, own_gate=own_gate)

    def _expire(self, count: int) -> int:
        """The oldest rounds that are waited for are so no longer."""
        for _ in range(count):
            oldest = self._pending.oldest
            assert oldest is not None
            self._expired(self._pending.take(oldest))
        return count

    def _new_set(self) -> NDArray[Any]:
        self._waiting.begin()
        return super()._new_set()

    def _grew(self) -> None:
        self._waiting.grow(self.n_items)

    def _run(self, stream: Stream) -> None:
        super()._run(stream)
        self._waiting.begin()  # what was passed before may be in another batch

    def _common_parts(self) -> dict[str, Part]:
        return super()._common_parts() | {
            "pending": self._pending,
            "waiting": self._waiting,
            "absorbed": self._absorbed,
        }

    def _restore_common(self, saved: Saved) -> None:
        super()._restore_common(saved)
        self._absorbed.resume(saved.part("absorbed"))

    def _restore_late(self, saved: Saved) -> None:
        self._pending.resume(saved.part("pending"), self._rounds, self._could_be)
        waiting = saved.part("waiting")
        self._waiting.resume(waiting, self._rounds, self.n_items, self.bound, self._whole_units)


def _few(rounds: tuple[int, ...]) -> str:
    shown = ", ".join(map(str, rounds[:5])) + (", ..." if len(rounds) > 5 else "")
    return f"rounds {shown}" if rounds else "no earlier round"
