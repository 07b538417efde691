"""The base of learners that show a set of items every round.

What is drawn and what is served are two things. A learner draws a set when one is due, through its gate. What
is served in a round is that set, fitted to what can be shown in that round (`Catalogue.served`): availability
is a public fact, so this costs nothing.

Feedback of full information is about the person, whatever they were shown, and so it is learned as feedback
of the round in which it comes. A person is learned from once, whenever that is.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from ..core import checks
from ..core.fixed import fix
from ..core.labels import check_distinct, plain_label
from ..core.progress import track
from ..objectives import Population, answers
from ..objectives.rows import Rows, function_rows
from ..privacy import ExponentialChoice, Gate, ScoreChange, Seed, Share, SumSpec, spend_from
from ..privacy.accountant import Spending
from ..results import Selection, Trace
from .catalogue import RECENT, Catalogue, Request
from .functions import FunctionRounds
from .learner import CALIBRATIONS, LearnerSettings, OnlineLearner, Stream
from .partial import Counting, Merged, Partial, SummedPart, named
from .pending import MOST_OPEN, Pending, Ticket, Waiting
from .people import check_population, counted_people, counted_person, given_person
from .pool import Pooled
from .released import Estimates, Released

LOWEST = -1e300  # a score that is never drawn


@dataclass(frozen=True, kw_only=True)
class SelectorSettings(LearnerSettings):
    """Settings of learners that choose k of n items."""

    n_items: int
    k: int
    bound: float
    labels: tuple[Any, ...] | None

    def __post_init__(self) -> None:
        checks.bound(self.bound)
        if self.k > self.n_items:
            raise ValueError(f"k={self.k} exceeds n_items={self.n_items}; choose k <= {self.n_items}")
        if self.labels is not None:
            item_labels(self.labels, self.n_items)

    @property
    def too_short(self) -> bool:
        """Whether so few rounds are declared that items cannot be told apart by their end."""
        return False


def common_settings(
    n_items: int,
    k: int,
    rounds: int | None,
    bound: float,
    labels: Sequence[Any] | None,
    calibration: str = "tight",
) -> dict[str, Any]:
    """What every selector is asked for, checked: the fields of `SelectorSettings`."""
    size = checks.whole("n_items", n_items, at_least=1)
    chosen = checks.whole("k", k, at_least=1)
    if chosen > size:
        raise ValueError(f"k={k} exceeds n_items={n_items}; choose k <= {n_items}")
    return {
        "n_items": size,
        "k": chosen,
        "bound": checks.bound(bound),
        "labels": item_labels(labels, size),
        "rounds": None if rounds is None else checks.whole("rounds", rounds, at_least=1),
        "calibration": checks.one_of("calibration", calibration, CALIBRATIONS),
    }


def score_range(bound: float, neighbours: str) -> float:
    """How far one person moves two sums of gains in [0, bound] apart."""
    return ScoreChange(bound, one_directional=neighbours == "add_remove").range


def rate_within(share: Share, width: float, count: int, wanted: float) -> float:
    """The wanted rate, or the largest at which ``count`` choices of range ``width`` fit into ``share``."""
    if not share.private or not count:
        return wanted
    return min(wanted, ExponentialChoice.within(share, width, count, share.definition).rate)


class OnlineSelector(OnlineLearner):
    """Show a set of items every round, by label or number, and learn from feedback, at once or late.

    Subclasses say when a new set is drawn and how, and what is kept of a person. Sets have k items, unless a
    subclass says otherwise.
    """

    settings: Any
    _played_type: ClassVar[type[np.generic]] = np.int32
    _noun: ClassVar[str] = "set"
    _state: ClassVar[tuple[str, ...]] = ("_catalogue", "_pending", "_waiting", "_merged")

    _shares: bool | None = None  # whether segments share what it released; None where they cannot
    _pool: Pooled | None = None  # what they have released, where that is shared
    _first: tuple[int, ...] = ()  # the set that is shown first
    _remembers = True  # whether the catalogue is this learner's own
    _batched = True  # whether what is released together are at most as many people as rounds
    _constrained = False  # whether `_feasible` ever says no

    def __init__(
        self, settings: LearnerSettings, share: Share, start: Released | OnlineSelector | None = None
    ) -> None:
        super().__init__(settings, share)
        if start is not None:
            self._begin_with(start.released if isinstance(start, OnlineSelector) else start)

    def _assemble(self, settings: Any, gate: Gate, *, own_gate: bool) -> None:
        self._pending, self._waiting, self._merged = Pending(), Waiting(), Merged()
        self._catalogue = Catalogue(settings.n_items, settings.labels)
        super()._assemble(settings, gate, own_gate=own_gate)

    def _begin_with(self, known: Released) -> None:
        checks.instance("start", known, Released, "last_month.released")
        self._start(known.over(self.n_items, self.labels))
        self._gate.add_caveats(*known.caveats)
        self._catalogue.changed = True

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
            ready, caveats = self._prepared_late(given, late), tuple(getattr(given, "caveats", ()))
            self._gate.add_caveats(*caveats)  # first: where that fails, nobody has been counted
            within_limit = self._contribution.register(person_id)
            ticket = self._pending.take(late)  # first, so that an interruption never doubles anybody
            self._take_late(ticket, ready, within_limit)

    def run(
        self, people: Population, *, person_ids: Sequence[Hashable] | None = None, progress: bool = False
    ) -> Trace:
        """The whole stream at once: the same sets, for the same seed, as `choose` and `learn` one by one.

        ``person_ids`` as in `learn`, one per person. People beyond the declared horizon are served the last
        set and not learned from.
        """
        trace: Trace = super().run(people, person_ids=person_ids, progress=progress)
        return trace

    @property
    def released(self) -> Released:
        """What was released about the items: what another learner may begin with (``start=``), at no cost."""
        with self._turns.look():
            shown = self._rounds.shown
            items = () if shown is None else self._decision(shown).items
            return Released(items, self.n_items, self.labels, *self._estimates(), caveats=self._gate.caveats)

    def ranking(self, count: int | None = None) -> tuple[int, ...]:
        """Numbers of items that can be shown, by what was released about them, best first."""
        with self._turns.look():
            active = np.flatnonzero(self._active())
            scores = self._ranking()[active]
            most = active.size if count is None else checks.whole("count", count, at_least=0)
            if most < active.size:  # ties go to the first items, as in a full sort
                least = np.partition(scores, active.size - most)[active.size - most] if most else np.inf
                kept = np.flatnonzero(scores >= least)
                active, scores = active[kept], scores[kept]
            order = np.argsort(-scores, kind="stable")[:most]
            return tuple(active[order].tolist())

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
                size = self.n_items + len(fresh)
                labels = None if self.labels is None else (*self.labels, *fresh)
                settings = self._grown(size, labels)
                new = np.arange(self.n_items, size)
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

    def next_epoch(self, budget: Spending, *, discount: float = 1.0, seed: Seed = None) -> Self:
        """A learner of the same settings for the time to come: a new budget, and what is known is kept.

        It has this one's items, the retired ones too, as many rounds, and the same noise, which is charged to
        ``budget``: a `Budget`, a share of one, or the gate of a period (`privacy.Periods`), which keeps the
        account of each period and of all together. It must be about the same neighbours and rounds per
        person. Each epoch counts a person's rounds anew; who comes in several loses the sum of them. For
        other rounds or another budget make a learner with ``start=`` this one.

        ``discount`` is the part of its people that what was released counts for: less where tastes change,
        and 0 to begin with nothing. What was released is public, so this costs nothing. This learner stays
        as it is, for feedback that is late.
        """
        kept = checks.real("discount", discount, at_least=0.0, at_most=1.0)
        share = spend_from(budget, seed)
        for name in ("neighbours", "max_rounds_per_person", "private"):
            if getattr(share.budget, name) != getattr(self.budget, name):
                raise ValueError(
                    f"{name} of the budget is {getattr(share.budget, name)}, and of this learner"
                    f" {getattr(self.budget, name)}: make a new learner, with start= this one"
                )
        learner, known = object.__new__(type(self)), self.released
        assert share.gate is not None
        learner._assemble(self._renewed(), share.gate, own_gate=share.own_gate)
        if kept and self.round:
            learner._begin_with(known.discounted(kept))
        if gone := np.flatnonzero(~self._active()).tolist():
            learner.retire_items(gone if self.labels is None else [self.labels[item] for item in gone])
        return fix(learner)

    def partial(self, server: str) -> Partial:
        """A part of the open batch for people who come to another server, who are served the same set."""
        with self._turn("partial()"):
            named(server)
            self._check_divisible()
            if self.over:
                raise RuntimeError(f"the declared horizon of rounds={self.rounds} is over")
            self._next()
            return self._part((server, self._batch(), self._room(), self._contribution.name))

    def merge(self, part: Partial) -> None:
        """Learn from the people of a part, whose rounds pass; once, and while its batch is open."""
        with self._turn("merge()"):
            checks.instance("part", part, Partial, 'learner.partial(server="web-3")')
            if self._rounds.shown is None or part.learner != self._contribution.name:
                raise ValueError("the part is of another learner")
            self._check_part(part)
            horizon = self._rounds.horizon
            left = None if horizon is None else horizon - self._rounds.number
            self._merged.check(part, self._batch(), self._room(), left)
            self._gate.add_caveats(*part.caveats)
            self._merged.add(part)  # first, so that an interruption never doubles anybody
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

    def __repr__(self) -> str:
        horizon = "" if self.rounds is None else f" of {self.rounds:,}"
        return f"{type(self).__name__}({self.k} of {self.n_items:,} items, round {self.round:,}{horizon})"

    # --- for subclasses: items and sets ----------------------------------------------------------

    def _renewed(self) -> Any:
        """The settings for another epoch; without what was drawn for this one."""
        return self.settings

    def _ranking(self) -> NDArray[np.float64]:
        """A number for each item, of what has been released: which to show where others cannot be.

        How often it was in one of the latest sets; learners that release sums know better.
        """
        return self._catalogue.often()

    def _estimates(self) -> Estimates:
        """What each item was worth to a person, by what was released, to how many people, and how sure."""
        return None, 0, None

    def _start(self, start: Released) -> None:
        """Begin with what is known: here, show the set that stood last for a start."""
        self._first = start.items

    def _tell(self, pool: Pooled) -> None:
        """Let other segments know what was released."""

    def _drawn(self) -> NDArray[Any]:
        """A set by what is known, here and in other segments, without a release."""
        raise NotImplementedError

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

    def _check_enough(self, active: NDArray[np.bool_]) -> None:
        """Refuse a catalogue that is too small for a set."""
        left = int(np.count_nonzero(active))
        if left < self._width:
            raise ValueError(f"{left} items would be left; a set has {self._width}")

    def _certified(self, regret: float) -> float:
        """A certificate, which is about a catalogue that does not change and a learner that begins with
        nothing: a bad start can cost any number of rounds. Infinite otherwise."""
        return math.inf if self._catalogue.changed else regret

    def _active(self) -> NDArray[np.bool_]:
        """Which items have not been retired."""
        active = self._catalogue.active
        return np.ones(self.n_items, dtype=np.bool_) if active is None else active.copy()

    def _masked(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Scores of items, the last axis, with retired ones far below all others."""
        active = self._catalogue.active
        return scores if active is None else np.where(active, scores, LOWEST)

    # --- for subclasses: people ------------------------------------------------------------------

    def _prepared(self, person: Any) -> Any:
        self._check_people(person)
        if len(person) != 1:
            raise ValueError("learn() takes one person; use run() for a stream")
        return person

    def _check_people(self, people: Any) -> None:
        check_population(people, self.settings.n_items, self.settings.bound)
        if not people.monotone:
            raise ValueError("the learner needs functions that never fall when an item is added (monotone)")

    def _given(self, person: Any, items: Any) -> Any:
        """The person in the form that `_prepared` takes."""
        return given_person(self._catalogue, self.n_items, person, items)

    def _stands(self) -> int:
        """How many rounds after this one show the same, without a draw."""
        return 0

    def _ticket(self) -> Ticket:
        """What late feedback of the open round will be about."""
        return ()

    def _prepared_late(self, person: Any, late: int) -> Any:  # noqa: ARG002
        """`_prepared`, for feedback of an earlier round."""
        return self._prepared(person)

    def _take_late(self, ticket: Ticket, ready: Any, within_limit: bool) -> None:  # noqa: ARG002
        """Take up what `_prepared_late` returned."""
        if within_limit and self._has_room(ready):
            self._observe(ready)

    def _has_room(self, ready: Any) -> bool:
        """Whether a person can be learned from at once; who cannot, waits.

        Not where a person may be in several batches: who waits would be in another one than was counted, and
        could be in one twice. There, such a round passes without being learned from.
        """
        if not self._batched:
            return True
        return self._waiting.admits(ready, keep=self.budget.max_rounds_per_person == 1)

    def _observe_waiting(self, ready: Any) -> None:
        """Take up somebody who had to wait."""
        self._observe(ready)

    def _expired(self, ticket: Ticket) -> None:
        """Feedback that will not come."""

    def _skipped(self, ticket: Ticket) -> None:
        """A round that has not happened, for its learner."""

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

    @property
    def _whole_units(self) -> tuple[tuple[int, ...], float]:
        """Shape and largest entry of people in whole units, where `_prepared` makes such of them."""
        return (), 0

    def _counting(self) -> Counting:
        """What makes a person's part in these sums of a person."""
        raise NotImplementedError

    def _batch(self) -> int:
        """The first round of the open batch."""
        raise NotImplementedError

    def _room(self) -> int | None:
        """How many people the open batch has still room for; None for any number."""
        raise NotImplementedError

    def _add_sums(self, sums: NDArray[np.int64], count: int) -> None:
        """Take up the sums of ``count`` people of a part."""
        raise NotImplementedError

    def _part(self, about: tuple[str, int, int | None, str]) -> Partial:
        """An empty part of the open batch."""
        given = partial(given_person, Catalogue(self.n_items, self.labels), self.n_items)
        counting, shape = self._counting(), self._sums_shape() or ()
        units = partial(counted_person, self.n_items, self.bound, counting)
        everybody = partial(counted_people, self.n_items, self.bound, counting, shape)
        return SummedPart(about, given, shape, units, everybody)

    def _check_part(self, part: Partial) -> None:
        """Refuse a part that this learner's people cannot have made."""
        if not isinstance(part, SummedPart) or part.sums.shape != self._sums_shape():
            raise ValueError("the part is of another learner, or of other items")
        part.check(*self._units_range())
        self._check_sums(part.sums, part.count)

    def _check_sums(self, sums: NDArray[np.int64], count: int) -> None:
        """Refuse sums that ``count`` people cannot amount to together."""

    def _take_part(self, part: Any) -> None:
        """Take up the people of a part, whose rounds are over."""
        self._add_sums(part.sums, part.count)

    def _run_rows(self, stream: Stream, rows: Rows) -> None:  # noqa: ARG002
        """The same as `_run_one_by_one`, with the same outcome, for people who are rows: compiled."""
        self._run_one_by_one(stream)

    def _function_rounds(self, rows: Rows) -> FunctionRounds | None:  # noqa: ARG002
        """What asks people of these rows, where that is quicker than one by one."""
        return None

    def _take_functions(self, people: FunctionRounds, here: slice, within_limit: NDArray[np.bool_]) -> None:
        """Take up people who were asked last: those of the rounds ``here`` of the stream."""
        raise NotImplementedError

    # --- inside ----------------------------------------------------------------------------------

    def _next(self) -> Any:
        if not self._rounds.is_open and not self._rounds.over:
            self._open()
            if self._remembers:
                self._catalogue.remember(self._shown)
        return super()._next()

    def _open(self) -> None:
        """The next round, with a new set where one is due."""
        news = self._pool is not None and self._pool.news
        self._rounds.open(self._new_set() if self._due() else self._drawn() if news else None)

    def _new_set(self) -> NDArray[Any]:
        """Draw a set."""
        self._waiting.begin()
        shown = self._draw()
        return self._with_first(shown) if self._first and not self._rounds.number else shown

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

    def _refit(self) -> None:
        """After items were retired: let a set stand that has none of them."""
        if self._rounds.shown is not None:
            standing = self._decision(self._rounds.shown)
            fitted = self._fitted(standing, self._catalogue.request())
            self._rounds.shown = np.array(self._row(fitted), dtype=self._played_type)
            self._rounds.altered = False

    def _selection(self, items: tuple[int, ...]) -> Selection:
        labels = self.labels
        named = None if labels is None else tuple(labels[item] for item in items)
        return Selection(items, self._rounds.number, named)

    def _late(self, round: int) -> int:
        """An earlier round whose feedback is waited for."""
        late = checks.whole("round", round, at_least=0)
        if late not in self._pending:
            why = (
                "has been counted, or has expired"
                if late < self._rounds.number
                else "has not been chosen for"
            )
            known = self._pending.rounds
            few = ", ".join(map(str, known[:5])) + (", ..." if len(known) > 5 else "")
            raise ValueError(
                f"round={late} {why}; feedback is open for {f'rounds {few}' if known else 'no earlier round'}"
            )
        return late

    def _alike(self, shown: Selection, most: int) -> list[Selection]:
        """Pass on to the last of the next rounds that show the same for certain, at most so many."""
        horizon = self._rounds.horizon
        left = most if horizon is None else min(most, horizon - self._rounds.number - 1)
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
            self._observe_waiting(waiting)
        if len(self._pending) > MOST_OPEN:
            self._expire(1)

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
        shown = stream.selections[late : self._rounds.number - start]
        self._catalogue.recall([*before, *shown[-RECENT:].copy()])
        self._waiting.begin()  # what was passed before may be in another batch

    def _run_one_by_one(self, stream: Stream) -> None:
        super()._run(stream)

    def _run_stream(self, stream: Stream) -> None:
        rows, functions = stream.people.as_rows(), function_rows(stream.people)
        if functions is not None:
            self._run_functions(stream, functions)
        elif rows is None:
            self._run_one_by_one(stream)
        else:
            self._run_rows(stream, rows)

    def _run_functions(self, stream: Stream, rows: Rows) -> None:
        """The same for rows with a concave function in Python: the rounds of a set at a time."""
        count, after, people = stream.rewards.size, 0, self._function_rounds(rows)
        if people is None or self._catalogue.active is not None:
            self._run_one_by_one(stream)  # also where retired items may have to be replaced
            return
        for t in track(range(count), "rounds", stream.progress):
            if t < after:
                continue
            if not self._rounds.is_open:
                self._open()
            room = self._room()
            value = people.ask(t, count if room is None else min(count, t + room), self._shown)
            after = t + max(1, value.size)
            here = slice(t, after)
            limit, rewards, shown = stream.within_limit[here], stream.rewards[here], stream.selections[here]
            if value.size:
                rewards[:], shown[:] = value, self._shown
                self._rounds.close(value.size, then=partial(self._take_functions, people, here, limit))
            else:
                self._run_one_by_one(Stream(stream.people[here], limit, rewards, shown, progress=False))

    @property
    def _width(self) -> int:
        return int(self.settings.k)

    def _decision(self, shown: NDArray[Any]) -> Selection:
        return self._selection(tuple(shown.tolist()))

    def _row(self, decision: Selection) -> Any:
        return decision.items

    def _value(self, person: Any, decision: Selection) -> float:
        return answers.number("value", person.value(decision.items), 0.0, self.settings.bound)

    def _trace(self, rewards: NDArray[np.float64], selections: NDArray[Any]) -> Trace:
        return Trace(rewards, selections, type(self).__name__)

    def _could_show(self, shown: NDArray[Any]) -> bool:
        inside = bool(((shown >= 0) & (shown < self.n_items)).all())
        return super()._could_show(shown) and inside and np.unique(shown).size == shown.size


def check_growth(before: SumSpec | None, after: SumSpec | None, neighbours: str) -> None:
    """Refuse more items where one person would move a sum by more than was paid for."""
    if before is None or after is None:
        return
    if after.bounds.difference(neighbours) > before.bounds.difference(neighbours):
        raise ValueError(
            "with more items one person could move the sums by more than was paid for; make the learner with"
            ' weights="norm" or items_per_person=, or make a new one with start= this one'
        )


def item_labels(labels: Sequence[Any] | None, n_items: int) -> tuple[Any, ...] | None:
    """One label per item, each of which a saved file can hold."""
    if labels is None:
        return None
    if len(labels) != n_items:
        raise ValueError(f"labels has {len(labels)} entries; there are {n_items} items")
    found = tuple(plain_label(label) for label in labels)
    check_distinct(found)
    return found
