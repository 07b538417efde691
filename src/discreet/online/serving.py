"""Learners that show sets of items to people: catalogues that change, and feedback that comes late.

What is drawn and what is served are two things. A learner draws a set when one is due, through its gate. What
is served in a round is that set, fitted to what can be shown in that round (`Catalogue.served`): availability
is a public fact, so this costs nothing.

Feedback of full information is about the person, whatever they were shown, and so it is learned as feedback
of the round in which it comes. A person is learned from once, whenever that is.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Hashable, Iterable, Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import checks
from ..core.state import Saved
from ..privacy import Gate, Share
from ..results import Selection
from .catalogue import RECENT, Catalogue, Request
from .partial import Absorbed, Counting, Partial, named
from .parts import Part
from .pending import MOST_OPEN, Pending, Ticket, Waiting
from .people import counted_person, given_person
from .protocol import LearnerSettings, OnlineLearner, Stream
from .released import Known, Released

LOWEST = -1e300  # a score that is never drawn


class ServingLearner(OnlineLearner):
    """Show a set of items every round, by label or number, and learn from feedback, at once or late."""

    def __init__(
        self, settings: LearnerSettings, share: Share, start: Released | ServingLearner | None = None
    ) -> None:
        super().__init__(settings, share)
        if start is not None:
            known = start.released if isinstance(start, ServingLearner) else start
            checks.instance("start", known, Released, "last_month.released")
            self._start(known.over(self._size, self._labels))

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
            if round is None or (round == now and self._rounds.is_open):
                self._learn(given, person_id)
                return
            late = checks.whole("round", round, at_least=0)
            if late not in self._pending:
                why = "has been counted, or has expired" if late < now else "has not been chosen for"
                raise ValueError(f"round={late} {why}; feedback is open for {_few(self._pending.rounds)}")
            ready, marks = self._prepared_late(given, late), tuple(getattr(given, "marks", ()))
            within_limit = self._contribution.register(person_id)
            self._gate.mark(*marks)
            ticket = self._pending.take(late)  # first, so that an interruption never doubles anybody
            self._take_late(ticket, ready, within_limit)

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
            if (shape := self._sums_shape()) is None:
                raise NotImplementedError(f"{type(self).__name__} has no sums of people to divide")
            if self.over:
                raise RuntimeError(f"the declared horizon of rounds={self.rounds} is over")
            self._next()
            given = partial(given_person, Catalogue(self._size, self._labels), self._size)
            units = partial(counted_person, self._size, self._bound, self._counting())
            return Partial(server, self._batch(), self._room(), shape, given, units)

    def absorb(self, part: Partial) -> None:
        """Learn from the people of a part, whose rounds pass; once, and while its batch is open."""
        with self._turn("absorb()"):
            checks.instance("part", part, Partial, 'learner.partial(server="web-3")')
            if self._rounds.shown is None or part.sums.shape != self._sums_shape():
                raise ValueError("the part is of another learner")
            part.check(self._whole_units[1])
            left = None if self.rounds is None else self.rounds - self._rounds.number
            self._absorbed.check(part, self._batch(), self._room(), left)
            self._absorbed.add(part)  # first, so that an interruption never doubles anybody
            self._rounds.close(part.count, then=lambda: self._gather(part.sums))

    @property
    def released(self) -> Released:
        """What was released about the items: what another learner may begin with (``start=``), at no cost."""
        with self._turns.look():
            shown = self._rounds.shown
            items = () if shown is None else self._decision(shown).items
            return Released(items, self._size, self._labels, *self._known())

    @property
    def pending(self) -> tuple[int, ...]:
        """Rounds that were passed without their feedback, which may still come."""
        with self._turns.look():
            return self._pending.rounds

    def expire(self, before: int) -> int:
        """Wait no longer for feedback of rounds ``before`` this one: these people took nothing.

        Returns how many rounds that were. When to do so must be a public rule, such as a number of hours.
        At most 131,072 rounds are waited for; with one more the oldest expires.
        """
        with self._turn("expire()"):
            first = checks.whole("before", before, at_least=-(1 << 62))
            return self._expire(sum(1 for late in self._pending.rounds if late < first))

    def add_items(self, items: Iterable[Any]) -> None:
        """New items, or retired ones that are back, can be shown from now on.

        Labels, or the next numbers where items have none. A public fact, which costs nothing. People who
        come from now on are functions of all items. Nothing is certified for streams whose catalogue
        changes.
        """
        with self._turn("add_items()"):
            names = list(items) if not isinstance(items, str | bytes) else [items]
            back, fresh = self._catalogue.sorted_out(names)
            active = self._active()
            self._open_items(back.astype(np.int64), np.flatnonzero(active), None)
            self._catalogue.bring_back(back.tolist())
            if fresh:
                size = self._size + len(fresh)
                labels = None if self._labels is None else (*self._labels, *fresh)
                settings = self._grown(size, labels)
                new = np.arange(self._size, size)
                self._open_items(new, np.flatnonzero(self._active()), settings)
                object.__setattr__(self, "settings", settings)
                self._catalogue.grow(size, labels)
                self._waiting.grow(size)
            self._changed()

    def retire_items(self, items: Iterable[Any]) -> None:
        """These items, by label or number, are not shown from now on.

        A public fact, which costs nothing. The set that stands is filled up by what was released about the
        others. Nothing is certified for streams whose catalogue changes.
        """
        with self._turn("retire_items()"):
            gone = self._catalogue.items("items", items).astype(np.int64)
            active = self._active()
            active[gone] = False
            self._check_enough(active)
            self._catalogue.retire(gone.tolist())
            self._close_items(gone)
            self._refit()
            self._changed()

    # --- for subclasses --------------------------------------------------------------------------

    def _sums_shape(self) -> tuple[int, ...] | None:
        """The shape of a batch's sums of people; None without such."""
        return None

    def _counting(self) -> Counting:
        """What makes a person's part in these sums of a person."""
        raise NotImplementedError

    def _batch(self) -> int:
        """The first round of the open batch."""
        raise NotImplementedError

    def _room(self) -> int | None:
        """How many people the open batch has still room for; None for any number."""
        raise NotImplementedError

    def _gather(self, sums: NDArray[np.int64]) -> None:
        """Take up the sums of a part."""
        raise NotImplementedError

    @property
    @abstractmethod
    def _labels(self) -> tuple[Any, ...] | None:
        """What the items are called."""

    @property
    @abstractmethod
    def _bound(self) -> float:
        """The largest value of a person's function."""

    @property
    def _whole_units(self) -> tuple[tuple[int, ...], float]:
        """Shape and largest entry of people in whole units, where `_prepared` makes such of them."""
        return (), 0

    @property
    @abstractmethod
    def _size(self) -> int:
        """How many items there are."""

    def _ranking(self) -> NDArray[np.float64]:
        """A number for each item, of what has been released: which to show where others cannot be.

        How often it was in one of the latest sets; learners that release sums know better.
        """
        return self._catalogue.often()

    def _known(self) -> Known:
        """What each item was worth to a person, by what was released, to how many people, and how sure."""
        return None, 0, None

    def _start(self, start: Released) -> None:
        """Begin with what is known: here, show the set that stood last for a start."""
        self._first = start.items

    _first: tuple[int, ...] = ()
    _remembers = True  # whether the catalogue is this learner's own

    def _feasible(self, items: list[int]) -> bool:  # noqa: ARG002
        """Whether these items may be shown together."""
        return True

    def _grown(self, n_items: int, labels: tuple[Any, ...] | None) -> Any:
        """The settings for more items; refused where people's part in what was paid for would grow."""
        raise NotImplementedError(
            f"{type(self).__name__} cannot take up new items: make a new learner, with start= this one"
        )

    def _open_items(self, items: NDArray[np.int64], among: NDArray[np.int64], settings: Any) -> None:
        """Let these items be drawn, like the ones ``among`` them; ``settings`` are the new ones, if any."""

    def _close_items(self, items: NDArray[np.int64]) -> None:
        """Let these items be drawn no more."""

    def _changed(self) -> None:
        """The catalogue has changed."""

    def _certified(self, regret: float) -> float:
        """A certificate, which is about a catalogue that does not change; infinite where it has."""
        return math.inf if self._catalogue.changed else regret

    def _active(self) -> NDArray[np.bool_]:
        """Which items have not been retired."""
        active = self._catalogue.active
        return np.ones(self._size, dtype=np.bool_) if active is None else active.copy()

    def _check_enough(self, active: NDArray[np.bool_]) -> None:
        """Refuse a catalogue that is too small for a set."""
        left = int(np.count_nonzero(active))
        if left < self._width:
            raise ValueError(f"{left} items would be left; a set has {self._width}")

    def _refit(self) -> None:
        """After items were retired: let a set stand that has none of them."""
        if self._rounds.shown is not None:
            standing = self._decision(self._rounds.shown)
            fitted = self._fitted(standing, self._catalogue.request())
            self._rounds.show(np.array(self._row(fitted), dtype=self._played_type))
            self._rounds.altered = False

    def _masked(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Scores of items, the last axis, with retired ones far below all others."""
        active = self._catalogue.active
        return scores if active is None else np.where(active, scores, LOWEST)

    @property
    def _constrained(self) -> bool:
        """Whether `_feasible` ever says no."""
        return False

    _batched = True  # whether what is released together are at most as many people as rounds

    def _ticket(self) -> Ticket:
        """What late feedback of the open round will be about."""
        return ()

    def _could_be(self, round: int, ticket: Ticket) -> bool:  # noqa: ARG002
        """Whether a round can have had such a ticket."""
        return ticket == ()

    def _given(self, person: Any, items: Any) -> Any:
        """The person in the form that `_prepared` takes."""
        return given_person(self._catalogue, self._size, person, items)

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

    # --- the protocol ----------------------------------------------------------------------------

    def _assemble(self, settings: LearnerSettings, gate: Gate, *, own_gate: bool) -> None:
        self._pending, self._waiting, self._absorbed = Pending(), Waiting(), Absorbed()
        super()._assemble(settings, gate, own_gate=own_gate)

    def _begin_common(self) -> None:
        self._catalogue = Catalogue(self._size, self._labels)

    def _next(self) -> Any:
        if not self._rounds.is_open and not self.over:
            shown = None
            if self._due():
                self._waiting.begin()
                shown = self._draw()
                if self._first and not self._rounds.number:
                    shown = self._with_first(shown)
            self._rounds.open(shown)
            if self._remembers:
                self._catalogue.remember(self._shown)
        return super()._next()

    def _with_first(self, shown: NDArray[Any]) -> NDArray[Any]:
        """The first set: that which stood last elsewhere, filled up by one at random."""
        chosen: list[int] = []
        first = [item for item in self._first if self._active()[item]]
        self._catalogue.fill(chosen, [*first, *shown.tolist()], shown.size, self._feasible)
        return np.array(chosen, dtype=shown.dtype)

    def _decide(self) -> Any:
        return self._fitted(self._next(), self._catalogue.request())

    @property
    def _least(self) -> int:
        """How many items must be available: those of a set, but under a constraint."""
        return 0 if self._constrained else self._width

    def _fitted(self, standing: Selection, request: Request | None) -> Selection:
        """The standing set as it can be shown in this round."""
        if request is None:
            return standing
        feasible = self._feasible if self._constrained else None
        items = self._catalogue.served(standing.items, self._ranking, request, feasible)
        self._rounds.altered = items != standing.items
        return self._selection(items)

    def _selection(self, items: tuple[int, ...]) -> Selection:
        labels = self._labels
        named = None if labels is None else tuple(labels[item] for item in items)
        return Selection(items, self._rounds.number, named)

    def _expire(self, count: int) -> int:
        """The oldest rounds that are waited for are so no longer."""
        for _ in range(count):
            oldest = self._pending.oldest
            assert oldest is not None
            self._expired(self._pending.take(oldest))
        return count

    def _run(self, stream: Stream) -> None:
        before, start, late = self._catalogue.remembered(), self._rounds.number, int(self._rounds.is_open)
        self._run_stream(stream)
        self._waiting.begin()  # what was passed before may be in another batch
        shown = stream.selections[late : self._rounds.number - start]
        self._catalogue.recall([*before, *shown[-RECENT:].copy()])

    def _run_one_by_one(self, stream: Stream) -> None:
        super()._run(stream)

    @abstractmethod
    def _run_stream(self, stream: Stream) -> None:
        """Play a whole stream."""

    def _common_parts(self) -> dict[str, Part]:
        return super()._common_parts() | {
            "catalogue": self._catalogue,
            "pending": self._pending,
            "waiting": self._waiting,
            "absorbed": self._absorbed,
        }

    def _restore_common(self, saved: Saved) -> None:
        super()._restore_common(saved)
        least = 1 if self._constrained else self._width
        self._catalogue.resume(saved.part("catalogue"), at_least=least)
        self._absorbed.resume(saved.part("absorbed"))

    def _restore_late(self, saved: Saved) -> None:
        self._pending.resume(saved.part("pending"), self._rounds, self._could_be)
        waiting = saved.part("waiting")
        self._waiting.resume(waiting, self._rounds, self._size, self._bound, self._whole_units)


def _few(rounds: tuple[int, ...]) -> str:
    shown = ", ".join(map(str, rounds[:5])) + (", ..." if len(rounds) > 5 else "")
    return f"rounds {shown}" if rounds else "no earlier round"
