"""Segments: one learner for each value of a public attribute, one account, and one limit per person."""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NoReturn, Self

import numpy as np
from numpy.typing import NDArray

from ...core import checks
from ...core.fixed import Fixed
from ...core.progress import track
from ...core.state import Saved, read_state, refusing, snapshot, state_bytes, write_state
from ...core.turns import Turns
from ...privacy import Budget, Gate, MemoryLedger, Seed, spend_from
from ...privacy.spending import Spending
from ...results import Selection, Trace
from ..contribution import ContributionLimit
from ..protocol import Guarantee
from ..released import Released
from ..serving import ServingLearner
from .groups import Groups, all_values
from .limit import SharedLimit
from .making import Make, check_alike, made, restored
from .numbers import RoundNumbers
from .pool import Pool, Pooled
from .segment import Segment


class Segments(Fixed):
    """One learner for each of the ``values`` of a public attribute, such as a country or a kind of device.

    ``make(budget)`` makes a learner that spends from what it is given, for example
    ``partial(LeaderSelector, 40, 3, None, labels=products)``; it is called once for each value and must make
    alike ones. ``by`` names the attribute, for the account. Other values than these are refused, or go to the
    segment called ``other``. Rounds are numbered through all segments, and `choose`, `learn`, `expire` and so
    on are as of one learner.

    ``share=True``: a segment's set follows from what its own learner released and from what the others did,
    the more from the others the less it knows itself and the more they agree (`pool.shrunk`). Learners must
    release sums of what items are worth: `LeaderSelector`, for which it is the default, and
    `RunningSumSelector`. Hedge and phases release sets and nothing else; what a bandit's rewards tell is
    about the sets it showed. Sharing serves more in small segments whose tastes are related. Where they
    have nothing in common it serves less, until that is known. Let ``make`` take a shorter ``first_batch``,
    by the root of the number of segments: what one releases early is of use to all.

    Formal guarantee: that of one learner with the whole budget, for a person with up to
    ``max_rounds_per_person`` rounds in any of the segments. Proof. Which segment a round is for is public:
    neighbouring inputs have the same sequence of segments, and differ in what one person answers. Change one
    of their rounds. Its answer enters the sums or choices of one learner. Given everything released before,
    the releases of the others are distributed alike in both inputs, whatever use they make of what this one
    released. So one round loses what it loses with one learner, of the worst segment (parallel composition),
    and a person of b rounds is b such steps away, wherever these are: that is what the budget divides by.
    ``person_id`` is counted once for all segments: rounds beyond b pass unlearned, whichever segment they are
    in.

    Not covered: the segment itself. Somebody who could have come to another segment instead changes two
    rounds, one that is left empty here and one that is filled there, and loses what two rounds lose. Where
    that is to be protected, declare twice the ``max_rounds_per_person``. The account says that segments are
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
        gate = spending.gate
        assert gate is not None
        self._groups = Groups(all_values(values, other), by, other, own_gate=spending.own_gate)
        key, alike = gate.key(), gate.resumes_alike
        learners: list[ServingLearner] = []
        for name in self._groups.names:
            own = int.from_bytes(gate.key(1)) >> 1 if alike else None
            part = gate.part(name, own)
            learners.append(made(make, replace(spending, gate=part, own_gate=False)))
        check_alike(learners)
        if share and learners[0]._shares is None:
            raise ValueError(
                f"share=True, but {type(learners[0]).__name__} releases no sums of what items are worth that"
                " another segment could use; leave share out"
            )
        self.share: bool = bool(learners[0]._shares) if share is None else share
        for value, learner in zip(self.values, learners, strict=True):
            if known is not None and value in known:
                learner._begin_with(known[value])
        self._join(
            gate, spending.own_gate, learners, ContributionLimit(gate.budget.max_rounds_per_person, key)
        )
        gate.mark(self._groups.taken_for_granted)

    # --- for users -------------------------------------------------------------------------------

    @property
    def values(self) -> tuple[Any, ...]:
        """The segments."""
        return self._groups.values

    @property
    def by(self) -> str | None:
        """The attribute that they are values of."""
        return self._groups.by

    @property
    def other(self) -> Any:
        """The segment of all values that are not listed; None where these are refused."""
        return self._groups.other

    @property
    def budget(self) -> Budget:
        return self._gate.budget

    def of(self, segment: Any) -> Segment:
        """One segment, for whoever serves it alone."""
        return Segment(self, self._groups.index(segment))

    @property
    def n_items(self) -> int:
        """How many items there are to choose from."""
        return int(self._learners[0].n_items)

    @property
    def labels(self) -> tuple[Any, ...] | None:
        """What the items are called; None for their numbers."""
        labels: tuple[Any, ...] | None = self._learners[0].labels
        return labels

    @property
    def round(self) -> int:
        """How many rounds have been chosen for, in all segments."""
        return self._numbers.next

    @property
    def pending(self) -> tuple[int, ...]:
        """Rounds that were passed without their feedback, which may still come."""
        with self._turns.look():
            return tuple(round for round, place in self._numbers.items() if not self._is_open(*place))

    @property
    def privacy(self) -> Guarantee:
        """The guarantee of the whole declared run: of the worst segment. ``privacy.spent`` is so far."""
        with self._turns.look():
            whole, ledger = self._gate.spent, MemoryLedger()
            notion = None if self._own_gate else whole.notion
            for name, learner in zip(self._groups.names, self._learners, strict=True):
                for group, entry, count in learner._spent().ledger.entries():
                    ledger.of_group((name, *group)).add(entry, count)
            so_far = replace(whole, ledger=ledger, notion=notion)
            return Guarantee(
                whole.budget, whole.ledger, whole.reproducible, whole.marks, notion, spent=so_far
            )

    @property
    def released(self) -> Mapping[Any, Released]:
        """What was released about the items in each segment: what others may begin with, at no cost."""
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
        """The set for this round of a segment; the rest as in `ServingLearner.choose`.

        Rounds of different segments may be open at the same time. ``round`` of the answer is its number among
        the rounds of all segments.
        """
        with self._turn("choose()"):
            index = self._groups.index(segment)
            learner = self._learners[index]
            shown = learner.choose(wait=wait, available=available, exclude=exclude, include=include)
            number = self._numbers.number(index, learner.round, open=learner._rounds.is_open)
            while self._numbers.full:
                self._expire(self._oldest())
            return Selection(shown.items, number, shown.labels)

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

        Neither is needed where feedback of one round only is waited for. A ``round`` belongs to the segment
        it was chosen for, whatever else is given. ``person``, ``items`` and ``person_id`` as for one learner;
        whoever comes to several segments must have the same ``person_id`` in all of them.
        """
        with self._turn("learn()"):
            number, index, place = self._meant(segment, round)
            self._learners[index].learn(person, items=items, round=place, person_id=person_id)
            self._numbers.drop(number)

    def expire(self, before: int) -> int:
        """Wait no longer for feedback of rounds ``before`` this one, of all segments; how many these were.

        The round of a segment that nobody has come after is not passed yet, and stays. When to do so must be
        a public rule. At most 131,072 rounds are waited for in all; with one more the oldest expires.
        """
        with self._turn("expire()"):
            first = checks.whole("before", before, at_least=-(1 << 62))
            old = [(round, place) for round, place in self._numbers.before(first)]
            passed = [round for round, place in old if not self._is_open(*place)]
            for round in passed:
                self._expire(round)
            return len(passed)

    def skip(self, rounds: Iterable[int]) -> None:
        """Learn nothing of these rounds: their sets were never shown, or others were. A public fact."""
        with self._turn("skip()"):
            late = [checks.whole("rounds", round, at_least=0) for round in rounds]
            for round in late:
                if self._numbers.get(round) is None or late.count(round) > 1:
                    raise ValueError(f"rounds={round} waits for no feedback")
            for round in late:
                index, place = self._numbers.take(round)
                self._learners[index].skip([place])

    def add_items(self, items: Iterable[Any]) -> None:
        """New items, or retired ones that are back, can be shown in all segments from now on."""
        with self._turn("add_items()"):
            names = [items] if isinstance(items, str | bytes) else list(items)
            for learner in self._learners:
                learner.add_items(names)
            self._tell_all()
            self._numbers.changed.update(range(len(self._learners)))

    def retire_items(self, items: Iterable[Any]) -> None:
        """These items, by label or number, are not shown from now on, in any segment."""
        with self._turn("retire_items()"):
            names = [items] if isinstance(items, str | bytes) else list(items)
            for learner in self._learners:
                learner.retire_items(names)
            self._numbers.changed.update(range(len(self._learners)))

    def run(
        self,
        people: Any,
        segments: Sequence[Any],
        *,
        person_ids: Sequence[Hashable] | None = None,
        progress: bool = False,
    ) -> Trace:
        """A whole stream, round by round: ``segments`` has the segment of each of ``people``.

        People of a segment whose declared horizon is over are served its last set and not learned from.
        """
        places = [self._groups.index(segment) for segment in segments]
        if len(places) != len(people) or (person_ids is not None and len(person_ids) != len(people)):
            raise ValueError("segments and person_ids must have as many entries as there are people")
        with self._turns.look():
            self._learners[0]._check_people(people)
        rewards = np.empty(len(people))
        rows: list[Any] = []
        for t in track(range(len(people)), "rounds", progress):
            learner, value = self._learners[places[t]], self.values[places[t]]
            shown, person = self.choose(value), people[t]
            rewards[t] = worth = learner._worth(person, shown)
            rows.append(learner._row(shown))
            if not learner.over:
                heard = learner._feedback(person, shown, worth)
                self.learn(heard, segment=value, person_id=None if person_ids is None else person_ids[t])
        chosen = np.array(rows, dtype=learner._played_type) if rows else np.empty((0, 0), dtype=np.int32)
        return Trace(rewards, chosen, f"Segments of {type(self._learners[0]).__name__}")

    def __repr__(self) -> str:
        kind = type(self._learners[0]).__name__
        return f"Segments({len(self.values)} of {kind}, round {self.round:,})"

    # --- saving ----------------------------------------------------------------------------------

    def to_bytes(self) -> bytes:
        """What `save` writes, for a database; guard it as well. `discreet.load` takes it, too."""
        with self._turn("to_bytes()"):
            return state_bytes(*self._saved())

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to a file, completely or not at all; `discreet.load` goes on from it.

        As `OnlineLearner.save`: the file holds true sums of private data, and a gate that others use as well
        is not in it.
        """
        with self._turn("save()"):
            write_state(path, *self._saved())

    def _saved(self, *, learners: bool = True) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        states = [learner._saved() for learner in self._learners if learners]
        plain, counted = self._limit.state()
        header = {
            "class": "Segments",
            "values": list(self.values),
            "by": self.by,
            "other": self.other,
            "share": self.share,
            "gate": self._gate.state() if self._own_gate else None,
            "segments": {str(index): own for index, (own, _) in enumerate(states)},
            "randomness": [learner._gate.source_state() for learner in self._learners],
            "numbers": self._numbers.state(),
            "seen": [0 if learner._pool is None else learner._pool.seen for learner in self._learners],
            "limit": plain,
        }
        arrays = {f"{i}.{key}": array for i, (_, own) in enumerate(states) for key, array in own.items()}
        return snapshot(header, arrays | {f"limit.{key}": array for key, array in counted.items()})

    @classmethod
    def load(cls, path: str | os.PathLike[str] | bytes, *, gate: Gate | None = None) -> Self:
        """Go on from a saved file; what was spent stays spent. ``gate`` as in `OnlineLearner.load`."""
        header, arrays = read_state(path)
        path = "the state" if isinstance(path, bytes) else path
        if header.get("class") != "Segments":
            raise ValueError(f"{path} holds a {header.get('class')}, not Segments")
        if (header.get("gate") is None) != (gate is not None):
            raise ValueError(f"{path}: gate= is for segments that spend from one which others use too")
        segments = object.__new__(cls)
        with refusing(path):
            segments._resume(Saved(header, arrays), gate)
        return segments._fix()

    def _resume(self, saved: Saved, gate: Gate | None) -> None:
        by, other = saved.plain("by"), saved.plain("other")
        own = Gate.from_state(saved.plain("gate")) if gate is None else gate
        values = saved.rows("values")
        if all_values(values, other) != tuple(values):
            raise ValueError("values are not those of segments")
        self._groups = Groups(tuple(values), by, other, own_gate=gate is None)
        learners, inside = [], saved.inner("segments")
        with own.resumed():
            for index, (name, source) in enumerate(
                zip(self._groups.names, saved.rows("randomness"), strict=True)
            ):
                learners.append(restored(inside.inner(str(index), f"{index}."), own.part(name, source)))
        check_alike(learners)
        self.share = saved.flag("share")
        if self.share and learners[0]._shares is None:
            raise ValueError("share is for learners that release sums")
        limit = ContributionLimit(own.budget.max_rounds_per_person, own.key())
        limit.resume(saved.inner("limit", "limit."))
        self._join(own, gate is None, learners, limit)
        for learner, seen in zip(self._learners, saved.rows("seen"), strict=True):
            if learner._pool is not None:
                learner._pool.seen = checks.whole("seen", seen, at_least=0)
        waited = [{*one._pending.rounds, *([one.round] * one._rounds.is_open)} for one in self._learners]
        self._numbers.resume(saved.inner("numbers"), waited)

    def __reduce__(self) -> NoReturn:
        raise TypeError("segments are not copied or pickled (their budget could be spent twice); use save()")

    # --- inside ----------------------------------------------------------------------------------

    def _join(
        self, gate: Gate, own_gate: bool, learners: list[ServingLearner], limit: ContributionLimit
    ) -> None:
        """Put the parts together, new ones or those from a file."""
        self._gate, self._own_gate, self._learners = gate, own_gate, learners
        self._turns, self._limit = Turns("segments"), limit
        self._numbers = RoundNumbers(len(learners))
        pool = Pool(len(learners))
        for index, learner in enumerate(learners):
            learner._contribution = SharedLimit(learner._contribution, limit)
            if self.share:
                learner._pool = Pooled(pool, index)
        self._tell_all()

    def _tell_all(self) -> None:
        for learner in self._learners:
            if learner._pool is not None:
                learner._tell(learner._pool)

    def _turn(self, call: str) -> AbstractContextManager[object]:
        self._gate.check_process()
        return self._turns.take(call)

    def _is_open(self, index: int, place: int) -> bool:
        """Whether a round of a learner is the one that it waits for."""
        rounds = self._learners[index]._rounds
        return rounds.is_open and rounds.number == place

    def _meant(self, segment: Any, round: int | None) -> tuple[int | None, int, int | None]:
        """The number of the round that feedback is about, its segment, and its number there."""
        index = None if segment is None else self._groups.index(segment)
        if round is None:
            if index is not None:
                place = self._learners[index].round
                return self._numbers.of(index, place), index, None
            if not self._numbers.waiting:
                raise RuntimeError("learn() comes after choose(): no round's feedback is waited for")
            if self._numbers.waiting > 1:
                raise ValueError("feedback of several rounds is waited for; give round= or segment=")
            number, (index, place) = self._numbers.first
            return number, index, place
        number = checks.whole("round", round, at_least=0)
        found = self._numbers.get(number)
        if found is None:
            why = "has been counted, or has expired" if number < self.round else "has not been chosen for"
            raise ValueError(f"round={number} {why}")
        if index is not None and index != found[0]:
            raise ValueError(f"round={number} was chosen for segment {self.values[found[0]]!r}")
        return number, *found

    def _oldest(self) -> int:
        """The oldest round that was passed."""
        return next(round for round, place in self._numbers.items() if not self._is_open(*place))

    def _expire(self, round: int) -> None:
        index, place = self._numbers.take(round)
        self._learners[index].expire(before=place + 1)
