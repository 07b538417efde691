"""Segments: one learner for each value of a public attribute, one account, and one limit per person."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NoReturn, Self

import numpy as np
from numpy.typing import NDArray

from ..core import checks
from ..core.guards import Turns, fix, fixed
from ..core.names import plain_label
from ..core.state import State, capture, plain_fields, read_state, restore, state_bytes, write_state
from ..core.text import track
from ..privacy import Budget, Gate, Releases, Seed, Share, spend_from
from ..privacy.accountant import Owner, Spending
from ..results import Selection, Trace
from .learner import Guarantee, OnlineSelector, guarantee, kind_of, resumed
from .pending import MOST_OPEN
from .people import ContributionLimit
from .released import Pooled, Released, SegmentPool

Make = Callable[[Share], OnlineSelector]
Place = tuple[int, int]  # which learner, and which of its rounds


@fixed
class Segments:
    """One learner for each of the ``values`` of a public attribute, such as a country or a kind of device.

    ``make(budget)`` creates a learner that spends from the budget it is given, for example
    ``partial(LeaderSelector, 40, 3, None, labels=products)``; it is called once per value and must create
    learners with the same settings. ``by`` names the attribute, for the account. Values that are not listed
    are refused, or go to the segment called ``other``. Rounds are numbered across all segments; `choose`,
    `learn`, `expire` and so on work as for one learner.

    ``share=True``: a segment's set depends on what its own learner and the others released, the more on the
    others the less its own learner knows and the more the segments agree (`released.shrunk`). Learners
    must release sums of item values: `LeaderSelector`, for which sharing is the default, and
    `RunningSumSelector`. Hedge and phases release nothing but sets, and a bandit's rewards concern the sets
    it showed. Sharing improves results in small segments with related tastes. Where segments have nothing in
    common it makes them worse, until that is known. Let ``make`` use a ``first_batch`` that is shorter by the
    square root of the number of segments: an early release of one helps all. Below n x mu of about 500 in a
    segment (mu is the budget in Gaussian DP) many small segments do worse than one learner for everybody: a
    warning says so where rounds are declared.

    Formal guarantee: that of one learner with the whole budget, for a person with up to
    ``max_rounds_per_person`` rounds in any of the segments. Proof. Neighbouring inputs have the same sequence
    of segments, which is public, and differ in one person's answers. Change one of their rounds: its answer
    enters the sums or choices of one learner. Given everything released before, the releases of the other
    learners have the same distribution under both inputs, however they use what this one released. So the
    loss of one round is that of one learner, in the worst segment (parallel composition), and inputs that
    differ in a person's b rounds, which are counted together across segments, are b such steps apart.

    Not covered: the segment itself. A person who could have come to another segment instead changes two
    rounds, one that becomes empty here and one that is filled there, and so loses as much as two rounds do.
    To protect that as well, declare twice the ``max_rounds_per_person``. The account states that segments are
    taken to be public.

    >>> from functools import partial
    >>> import discreet as dc
    >>> make = partial(dc.online.LeaderSelector, 4, 2, None)
    >>> shop = Segments(make, ["de", "fr"], dc.Budget(1.0, 1e-6), by="country", seed=0)
    >>> shown = shop.choose("de")
    >>> shop.learn(items=[1, 3])
    >>> early, late = shop.choose("fr", wait=False), shop.choose("fr", wait=False)
    >>> shop.learn(items=[2], round=early.round)
    >>> late.round, shop.pending, len(shop.privacy.ledger.parts)
    (2, (), 2)
    """

    _state = ("_numbers", "_limit", "_seen")

    def __init__(
        self,
        make: Make,
        values: Sequence[Any],
        budget: Spending,
        *,
        by: str | None = None,
        other: Any = None,
        share: bool | None = None,
        start: Segments | Mapping[Any, Released] | None = None,
        seed: Seed = None,
    ) -> None:
        if not callable(make):
            raise TypeError(f"make must be a function that makes a learner, got {checks.shown(make)}")
        if share is not None and not isinstance(share, bool):
            raise TypeError(f"share must be True, False or None, got {checks.shown(share)}")
        known = start.released if isinstance(start, Segments) else start
        if known is not None and not isinstance(known, Mapping):
            raise TypeError(f"start must be segments, or what each has released; got {checks.shown(start)}")
        spending = spend_from(budget, seed)
        assert spending.gate is not None
        gate = spending.gate.owned()
        self.values, self.by, self.other = all_values(values, other), by, other
        self._names = group_names(self.values, by, other, own_gate=spending.own_gate)
        key, alike = gate.key(), gate.resumes_alike
        learners: list[OnlineSelector] = []
        for name in self._names:
            own = gate.part(name, int.from_bytes(gate.key(1)) >> 1 if alike else None)
            learner = make(replace(spending, gate=own, own_gate=False))
            if not isinstance(learner, OnlineSelector):
                raise TypeError(f"make must make a learner that shows sets, got {checks.shown(learner)}")
            if learner._gate is not own:
                raise ValueError("make must make a new learner that spends from the budget it is given")
            learners.append(learner)
        check_alike(learners)
        if share and learners[0]._shares is None:
            raise ValueError(
                f"share=True, but {type(learners[0]).__name__} releases no sums of what items are worth that"
                " another segment could use; leave share out"
            )
        warn_of_few(learners)
        self.share: bool = bool(learners[0]._shares) if share is None else share
        for value, learner in zip(self.values, learners, strict=True):
            if known is not None and value in known:
                learner._begin_with(known[value])
        self._join(gate, spending.own_gate, learners, key)
        divided = f"people are divided by {by or 'segments'}"
        gate.add_caveats(f"{divided}: taken to be public, and alike in neighbouring inputs")

    # --- for users -------------------------------------------------------------------------------

    @property
    def budget(self) -> Budget:
        return self._gate.budget

    def of(self, segment: Any) -> Segment:
        """One segment, as an object with the methods of a learner."""
        return Segment(self, self._index(segment))

    @property
    def n_items(self) -> int:
        """How many items there are to choose from."""
        return int(self._learners[0].n_items)

    @property
    def labels(self) -> tuple[Any, ...] | None:
        """The items' labels; None where items go by their numbers."""
        labels: tuple[Any, ...] | None = self._learners[0].labels
        return labels

    @property
    def round(self) -> int:
        """How many rounds have been chosen for, in all segments together."""
        return self._numbers.next

    @property
    def pending(self) -> tuple[int, ...]:
        """Earlier rounds whose feedback has not arrived but may still come."""
        with self._turns.look():
            return tuple(self._passed())

    @property
    def privacy(self) -> Guarantee:
        """The guarantee of the whole declared run, in the worst segment; ``privacy.spent`` is so far."""
        with self._turns.look():
            ledger = Releases()
            for name, learner in zip(self._names, self._learners, strict=True):
                for group, entry, count in learner._spent().ledger.entries():
                    ledger.of_group((name, *group)).add(entry, count)
            return guarantee(self._gate, ledger, own_gate=self._own_gate)

    @property
    def released(self) -> Mapping[Any, Released]:
        """What was released about the items in each segment; others may start from it at no cost."""
        with self._turns.look():
            pairs = zip(self.values, self._learners, strict=True)
            return MappingProxyType({value: learner.released for value, learner in pairs})

    def choose(
        self,
        segment: Any,
        *,
        wait: bool = True,
        available: Iterable[Any] | None = None,
        exclude: Iterable[Any] | None = None,
        include: Iterable[Any] | None = None,
    ) -> Selection:
        """The set for this round of a segment; parameters are those of `OnlineSelector.choose`.

        Rounds of different segments may be open at the same time. The selection's ``round`` is its number
        among the rounds of all segments. Where too many rounds wait for feedback, the oldest expire.
        """
        with self._turn("choose()"):
            about = {"available": available, "exclude": exclude, "include": include}
            return self._choose(self._index(segment), wait=wait, **about)

    def learn(
        self,
        person: Any = None,
        *,
        items: Iterable[Any] | Mapping[Any, float] | None = None,
        segment: Any = None,
        round: int | None = None,
        person_id: Hashable | None = None,
    ) -> None:
        """Learn from the person of a ``round``, or of the open round of a ``segment``.

        Neither is needed while only one round waits for feedback. A ``round`` belongs to the segment it was
        chosen for; another ``segment`` is refused. ``person``, ``items`` and ``person_id`` are as for one
        learner; a person who comes to several segments must have the same ``person_id`` in all of them.
        """
        with self._turn("learn()"):
            self._learn(self._meant(segment, round), person, items=items, person_id=person_id)

    def expire(self, before: int) -> int:
        """Stop waiting for feedback of rounds before number ``before``, in all segments; returns how many.

        A segment's open round does not expire. When to expire must follow a public rule. At most 131,072
        rounds can wait for feedback in all; with one more the oldest expires.
        """
        with self._turn("expire()"):
            first = checks.whole("before", before, at_least=-(1 << 62))
            passed = list(itertools.takewhile(lambda round: round < first, self._passed()))
            for round in passed:
                self._expire(round)
            return len(passed)

    def skip(self, rounds: Iterable[int]) -> None:
        """Learn nothing from these rounds, whose sets, by a public fact, were not shown."""
        with self._turn("skip()"):
            late = [checks.whole("rounds", round, at_least=0) for round in rounds]
            for round in late:
                if round not in self._numbers.waiting or late.count(round) > 1:
                    raise ValueError(f"rounds={round} waits for no feedback")
            for round in late:
                index, place = self._numbers.take(round)
                self._learners[index].skip([place])

    def add_items(self, items: Iterable[Any]) -> None:
        """Add new items to the catalogue of all segments, or bring retired ones back."""
        with self._turn("add_items()"):
            names = [items] if isinstance(items, str | bytes) else list(items)
            for learner in self._learners:  # first, so that a refusal in one segment changes none
                if learner._catalogue.sorted_out(names)[1]:
                    learner._check_growing()
            self._numbers.changed.update(range(len(self._learners)))
            with self._turns.whole("add_items()"):
                for learner in self._learners:
                    learner.add_items(names)
            self._publish_all()

    def retire_items(self, items: Iterable[Any]) -> None:
        """Stop showing these items, by label or number, in all segments."""
        with self._turn("retire_items()"):
            names = [items] if isinstance(items, str | bytes) else list(items)
            for learner in self._learners:  # first, so that a refusal in one segment changes none
                learner._without(names)
            self._numbers.changed.update(range(len(self._learners)))
            for learner in self._learners:
                learner.retire_items(names)

    def run(
        self,
        people: Any,
        segments: Sequence[Any],
        *,
        person_ids: Sequence[Hashable] | None = None,
        progress: bool = False,
    ) -> Trace:
        """Process a stream round by round; ``segments`` lists the segment of each of ``people``.

        People of a segment whose declared horizon is over are served its last set and not learned from.
        """
        places = [self._index(segment) for segment in checks.in_order("segments", segments)]
        ids = [None] * len(people) if person_ids is None else checks.in_order("person_ids", person_ids)
        if len(places) != len(people) or len(ids) != len(people):
            raise ValueError("segments and person_ids must have as many entries as there are people")
        rewards = np.empty(len(people))
        rows: list[Any] = []
        with self._turn("run()"):
            self._learners[0]._check_people(people)
            self._gate.add_caveats(*getattr(people, "caveats", ()))
            for t in track(range(len(people)), "rounds", progress):
                learner, person = self._learners[places[t]], people[t]
                shown = self._choose(places[t])
                rewards[t] = value = learner._value(person, shown)
                rows.append(learner._row(shown))
                if not learner.over:
                    meant = self._meant(self.values[places[t]], None)
                    self._learn(meant, learner._feedback(person, shown, value), person_id=ids[t])
        chosen = np.array(rows, dtype=learner._played_type) if rows else np.empty((0, 0), dtype=np.int32)
        return Trace(rewards, chosen, f"Segments of {type(self._learners[0]).__name__}")

    def finish(self) -> None:
        """Learn nothing from now on, in any segment; see `OnlineLearner.finish`."""
        with self._turn("finish()"):
            self._numbers.changed.update(range(len(self._learners)))
            for learner in self._learners:
                learner.finish()
            self._numbers.waiting.clear()
            self._owner.finish()

    def __repr__(self) -> str:
        kind = type(self._learners[0]).__name__
        return f"Segments({len(self.values)} of {kind}, round {self.round:,})"

    # --- saving ----------------------------------------------------------------------------------

    def to_bytes(self) -> bytes:
        """The bytes that `save` writes, for a database, just as sensitive; `discreet.load` accepts them."""
        with self._turn("to_bytes()"):
            return state_bytes(*self._saved())

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the whole state to a file, atomically; `discreet.load` resumes from it.

        As with `OnlineLearner.save`, the file holds exact sums of private data, and a gate that others use
        too is not in it.
        """
        with self._turn("save()"):
            write_state(path, *self._saved())
            self._owner.saved()

    def _saved(self, *, learners: bool = True) -> State:
        """The state to save, with the owner of its charges."""
        owner = self._owner.state()
        states = [learner._saved() for learner in self._learners if learners]
        state, arrays = capture(self)
        header = {
            "class": "Segments",
            "owner": owner,
            "values": list(self.values),
            "by": self.by,
            "other": self.other,
            "share": self.share,
            "gate": self._gate.state() if self._own_gate else None,
            "segments": [own for own, _ in states],
            "randomness": [learner._gate.source_state() for learner in self._learners],
            "state": state,
        }
        for index, (_, own) in enumerate(states):
            arrays |= {f"{index}/{key}": array for key, array in own.items()}
        return header, arrays

    @property
    def _seen(self) -> list[int]:
        return [0 if learner._pool is None else learner._pool.seen for learner in self._learners]

    @_seen.setter
    def _seen(self, seen: list[int]) -> None:
        for learner, number in zip(self._learners, seen, strict=True):
            if learner._pool is not None:
                learner._pool.seen = number

    @classmethod
    def load(cls, path: str | os.PathLike[str] | bytes, *, gate: Gate | None = None) -> Self:
        """Resume from a saved file; what was spent stays spent. ``gate`` is as in `OnlineLearner.load`."""
        header, arrays = read_state(path)
        path = "the state" if isinstance(path, bytes) else path
        if header.get("class") != "Segments":
            raise ValueError(f"{path} holds a {header.get('class')}, not Segments")
        segments: Self = resumed(cls, path, header, arrays, gate)
        return segments

    def _resume(self, header: dict[str, Any], arrays: Mapping[str, NDArray[Any]], gate: Gate | None) -> None:
        own = Gate.from_state(header["gate"]) if gate is None else gate
        self.values, self.by, self.other = tuple(header["values"]), header["by"], header["other"]
        if all_values(self.values, self.other) != self.values:
            raise ValueError("values are not those of segments")
        self._names = group_names(self.values, self.by, self.other, own_gate=gate is None)
        learners: list[OnlineSelector] = []
        with own._restoring(header["owner"]) as view:
            saved = zip(self._names, header["segments"], header["randomness"], strict=True)
            for index, (name, inside, source) in enumerate(saved):
                part = {
                    key.removeprefix(f"{index}/"): one
                    for key, one in arrays.items()
                    if key.startswith(f"{index}/")
                }
                learners.append(restored(inside, part, view.part(name, source)))
        check_alike(learners)
        self.share = bool(header["share"])
        if self.share and learners[0]._shares is None:
            raise ValueError("share is for learners that release sums")
        self._join(view, gate is None, learners, own.key())
        restore(self, header["state"], arrays)

    def __reduce__(self) -> NoReturn:
        raise TypeError("segments are not copied or pickled (their budget could be spent twice); use save()")

    # --- inside ----------------------------------------------------------------------------------

    def _join(self, gate: Gate, own_gate: bool, learners: list[OnlineSelector], key: bytes) -> None:
        """Connect the learners, new ones or those from a file."""
        self._gate, self._own_gate, self._learners = gate, own_gate, learners
        self._turns = Turns("segments")
        self._limit = ContributionLimit(gate.budget.max_rounds_per_person, key)
        self._places = {value: index for index, value in enumerate(self.values)}
        self._numbers = RoundNumbers(len(learners))
        pool = SegmentPool([None] * len(learners), [0] * len(learners))
        for index, learner in enumerate(learners):
            learner._contribution = SharedLimit(learner._contribution, self._limit)
            if self.share:
                learner._pool = Pooled(pool, index)
        self._publish_all()

    def _publish_all(self) -> None:
        for learner in self._learners:
            if learner._pool is not None:
                learner._sum.publish(learner._pool)

    @property
    def _owner(self) -> Owner:
        assert self._gate._owner is not None
        return self._gate._owner

    def _turn(self, call: str) -> AbstractContextManager[object]:
        self._gate.check_process()
        return self._turns.take(call)

    def _index(self, segment: Any) -> int:
        """The index of the learner that serves this segment."""
        plain = segment.item() if isinstance(segment, np.generic) else segment
        index = self._places.get(plain) if isinstance(plain, str | int | float) else None
        if index is not None and isinstance(self.values[index], bool) == isinstance(plain, bool):
            return index
        if self.other is None:
            raise checks.DataError(
                f"segment is none of {', '.join(map(repr, self.values[:10]))}"
                f"{', ...' if len(self.values) > 10 else ''}; make Segments with other= for unknown values",
                f"segment={checks.shown(segment)}",
            )
        return self._places[self.other]

    def _choose(self, index: int, **how: Any) -> Selection:
        """`choose`, for callers inside a turn (`_turn`)."""
        learner = self._learners[index]
        self._numbers.changed.add(index)  # first: a call that is then refused may have drawn a set
        shown = learner.choose(**how)
        number = self._numbers.number(index, learner.round, open=learner._rounds.is_open)
        while len(self._numbers.waiting) > MOST_OPEN:
            self._expire(next(self._passed()))
        return Selection(shown.items, number, shown.labels)

    def _learn(self, meant: tuple[int | None, int, int | None], person: Any, **how: Any) -> None:
        """`learn` about the round that `_meant` found, for callers inside a turn (`_turn`)."""
        number, index, place = meant
        learner, waiting = self._learners[index], self._numbers.waiting
        self._numbers.changed.add(index)
        try:
            learner.learn(person, round=place, **how)
        finally:  # also where an interruption came when the round had been counted
            if number in waiting and not learner.waits_for(waiting[number][1]):
                self._numbers.drop(number)
            self._finish_if_over(index)

    def _is_open(self, index: int, place: int) -> bool:
        """Whether this round of a learner is its open one."""
        rounds = self._learners[index]._rounds
        return rounds.is_open and rounds.number == place

    def _meant(self, segment: Any, round: int | None) -> tuple[int | None, int, int | None]:
        """The number of the round that feedback is about, its segment, and its number there."""
        index = None if segment is None else self._index(segment)
        if round is None:
            if index is not None:
                place = self._learners[index].round
                return self._numbers.of(index, place), index, None
            if not self._numbers.waiting:
                raise RuntimeError("learn() comes after choose(): no round's feedback is waited for")
            if len(self._numbers.waiting) > 1:
                raise ValueError("feedback of several rounds is waited for; give round= or segment=")
            ((number, (index, place)),) = self._numbers.waiting.items()
            return number, index, place
        number = checks.whole("round", round, at_least=0)
        found = self._numbers.waiting.get(number)
        if found is None:
            why = "has been counted, or has expired" if number < self.round else "has not been chosen for"
            raise ValueError(f"round={number} {why}")
        if index is not None and index != found[0]:
            raise ValueError(f"round={number} was chosen for segment {self.values[found[0]]!r}")
        return number, *found

    def _finish_if_over(self, index: int) -> None:
        if self._learners[index].over and all(learner.over for learner in self._learners):
            self._owner.finish()

    def _passed(self) -> Iterator[int]:
        """Earlier rounds whose feedback is still missing, the oldest first."""
        waiting = self._numbers.waiting.items()
        return (round for round, place in waiting if not self._is_open(*place))

    def _expire(self, round: int) -> None:
        index, place = self._numbers.take(round)
        self._learners[index].expire(before=place + 1)


class Segment:
    """One segment of `Segments`, which it calls for its own segment."""

    def __init__(self, segments: Segments, index: int) -> None:
        self._segments, self._index = segments, index
        self._learner = segments._learners[index]

    @property
    def round(self) -> int:
        """How many rounds the segment has had; `choose` numbers rounds across all segments."""
        return self._learner.round

    @property
    def labels(self) -> tuple[Any, ...] | None:
        """The items' labels; None where items go by their numbers."""
        return self._segments.labels

    @property
    def released(self) -> Released:
        """What was released about the items in this segment."""
        return self._learner.released

    def ranking(self, count: int | None = None) -> tuple[int, ...]:
        """Numbers of the items that can be shown, ranked by everything released, best first."""
        return self._learner.ranking(count)

    def choose(self, *, wait: bool = True) -> Selection:
        """See `Segments.choose`."""
        return self._segments.choose(self._segments.values[self._index], wait=wait)

    def choose_many(self, count: int) -> list[Selection]:
        """`choose` without waiting, this many times."""
        return [self.choose(wait=False) for _ in range(count)]

    def learn_many(self, rewards: Mapping[int, Any]) -> None:
        """`learn`, for each of these rounds."""
        for round, value in rewards.items():
            self.learn(value, round=round)

    def learn(self, person: Any, *, round: int) -> None:
        """See `Segments.learn`."""
        self._segments.learn(person, segment=self._segments.values[self._index], round=round)

    def waits_for(self, round: int) -> bool:
        """Whether feedback of the round with this number may still come."""
        return round in self._segments._numbers.waiting

    def skip(self, rounds: Iterable[int]) -> None:
        """See `Segments.skip`."""
        self._segments.skip(rounds)

    def run(self, people: Any) -> None:
        """Process people of this segment: the same as `Segments.run`, at the speed of a single learner."""
        segments, index, learner = self._segments, self._index, self._learner
        with segments._turn("run()"):
            first, pool = learner.round, learner._pool
            segments._numbers.changed.add(index)
            # An open round keeps its set; what others have released since counts from the next round on.
            stands = pool is not None and pool.news and learner._rounds.is_open and len(people) > 1
            try:
                for some in (people[:1], people[1:]) if stands else (people,):
                    learner.run(some)
            finally:  # number the rounds that are closed; none of them waits for feedback
                for round in range(first, learner.round):
                    segments._numbers.drop(segments._numbers.number(index, round))
                segments._finish_if_over(index)


def group_names(values: tuple[Any, ...], by: str | None, other: Any, *, own_gate: bool) -> list[str]:
    """The account's names for the groups of people with the ``values`` of an attribute.

    At a gate that others use too, groups by another attribute, or of other values, may contain the same
    people: the names tell these apart, and the gate refuses them together.

    >>> group_names(("de", "fr"), "country", None, own_gate=True)
    ['country: de', 'country: fr']
    """
    if by is not None and (not isinstance(by, str) or not 1 <= len(by) <= 100 or ": " in by):
        raise ValueError(f"by must be the short name of an attribute, got {checks.shown(by)}")
    if by is None and not own_gate:
        raise ValueError(
            "by= is needed at a gate that others use too: people are divided by that attribute, and somebody"
            " may be in groups of two divisions"
        )
    family = by or "segment"
    if not own_gate:  # only the same values of the same attribute divide people in the same way
        known = json.dumps([list(values), other]).encode()
        family = f"{family} {hashlib.blake2b(known, digest_size=4).hexdigest()}"
    names = [f"{family}: {str(value).replace(': ', ':')}" for value in values]
    if len(set(names)) < len(values):
        raise ValueError("values holds two that read alike")
    return names


def all_values(values: Any, other: Any) -> tuple[Any, ...]:
    """The checked values of segments, including ``other``."""
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise TypeError(f"values must be a list, got {checks.shown(values)}")
    found = [plain_label(value) for value in values]
    if other is not None and plain_label(other) not in found:
        found.append(plain_label(other))
    if not found or len(set(found)) < len(found):
        raise ValueError("values must be distinct, and at least one")
    return tuple(found)


class RoundNumbers:
    """Numbers the rounds of all learners consecutively, and records which are ``waiting`` for feedback.

    >>> numbers = RoundNumbers(2)
    >>> numbers.number(0, 0), numbers.number(1, 0), numbers.number(0, 0), numbers.number(0, 1)
    (0, 1, 0, 2)
    >>> numbers.waiting[2], numbers.of(1, 0)
    ((0, 1), 1)
    """

    _state = ("next", "_table")

    def __init__(self, learners: int) -> None:
        self.next = 0
        self.waiting: dict[int, Place] = {}  # in increasing order of numbers
        self._last: list[Place] = [(-1, -1)] * learners  # the latest round of each learner, and its number
        self.changed = set(range(learners))  # learners that have changed since this was last cleared

    def number(self, index: int, round: int, *, open: bool = True) -> int:
        """The number of a learner's round, a new one at the first call for it.

        A round that is not ``open`` (after a learner's horizon) waits for no feedback.
        """
        last, number = self._last[index]
        if last != round:  # first, so that an interruption never gives two rounds the same number
            number, self.next = self.next, self.next + 1
            self._last[index] = round, number
        if open:
            self.waiting.setdefault(number, (index, round))
        return number

    def of(self, index: int, round: int) -> int | None:
        """The number of a learner's latest round; None if ``round`` is another one."""
        last, number = self._last[index]
        return number if last == round else None

    def take(self, number: int) -> Place:
        """Stop waiting for a round's feedback; returns its learner and its number there."""
        place = self.waiting.pop(number)
        self.changed.add(place[0])
        return place

    def drop(self, number: int | None) -> None:
        """Stop waiting for a round's feedback, if it is waited for at all."""
        if number in self.waiting:
            self.take(number)

    @property
    def _table(self) -> tuple[NDArray[np.int64], ...]:
        waiting = [(number, *place) for number, place in self.waiting.items()]
        return np.array(self._last), np.array(waiting, dtype=np.int64).reshape(-1, 3)

    @_table.setter
    def _table(self, table: tuple[NDArray[np.int64], ...]) -> None:
        last, waiting = table
        if last.shape != (len(self._last), 2) or (waiting.size and waiting[:, 1].max() >= len(self._last)):
            raise ValueError("rounds are of other segments than there are")
        self._last = [(round, number) for round, number in last.tolist()]
        self.waiting = {number: (index, round) for number, index, round in waiting.tolist()}
        self.changed.clear()


class SharedLimit(ContributionLimit):
    """Delegates counting to ``shared``, so that a person's rounds with all learners count together.

    The counts are saved with ``shared``; a learner's file contains its ``own`` limit, which counts nobody.
    """

    def __init__(self, own: ContributionLimit, shared: ContributionLimit) -> None:
        if own.apart or own.people:
            raise ValueError("one person was counted by a learner of its own, or must be in rounds apart")
        self._own, self._shared = own, shared
        self._key, self.apart, self._counts, self._counted = own._key, False, {}, {}

    def register(self, person: Hashable | None, ahead: int | None = None) -> bool:  # noqa: ARG002
        return self._shared.register(person)

    def forget(self, person: Hashable | None) -> None:
        self._shared.forget(person)


def restored(header: dict[str, Any], arrays: Mapping[str, NDArray[Any]], gate: Gate) -> OnlineSelector:
    """Restore a saved learner at a gate where it reclaims its earlier charges."""
    kind: type[OnlineSelector] = kind_of(header, OnlineSelector, "a segment")
    learner = object.__new__(kind)
    learner._take_up(header, arrays, gate, own_gate=False)
    return fix(learner)


# The n x mu of a segment below which one learner for everybody does better, measured with many small ones.
_ENOUGH = 500.0


def warn_of_few(learners: Sequence[OnlineSelector]) -> None:
    """Warn if declared segments are so small that each learns little; uses public numbers only."""
    few = [one.rounds * one.budget.mu for one in learners if one.rounds and one.budget.private]
    small = [signal for signal in few if 0.0 < signal < _ENOUGH]
    if small:
        checks.warn(
            f"{len(small)} of {len(learners)} segments are small: with the declared rounds n x mu is"
            f" {min(small):,.0f}, below {_ENOUGH:g}, where one learner for everybody usually serves more;"
            " take fewer segments, more rounds or a larger budget"
        )


def check_alike(learners: Sequence[OnlineSelector]) -> None:
    """Refuse learners of different kinds or settings."""
    first = learners[0]
    for learner in learners[1:]:
        if type(learner) is not type(first) or plain_fields(learner.settings) != plain_fields(first.settings):
            raise ValueError("make must make learners with the same settings for all segments")


def pieces(segments: Segments) -> dict[Any, bytes]:
    """The content of `Segments.to_bytes` in pieces: the learners changed since the last call, and the rest.

    A learner's key is the value of its segment; that of the rest is None.
    """
    with segments._turn("to_bytes()"):
        found: dict[Any, bytes] = {None: state_bytes(*segments._saved(learners=False))}
        changed = segments._numbers.changed
        found |= {segments.values[i]: state_bytes(*segments._learners[i]._saved()) for i in sorted(changed)}
        changed.clear()
        return found


def joined(found: Mapping[Any, bytes], gate: Gate) -> Segments:
    """Resume segments from the latest of all their `pieces`; see `Segments.load`."""
    header, arrays = read_state(found[None])
    for index, value in enumerate(header["values"]):
        own, some = read_state(found[value])
        header["segments"].append(own)
        arrays |= {f"{index}/{key}": array for key, array in some.items()}
    return Segments.load(state_bytes(header, arrays), gate=gate)
