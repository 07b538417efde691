"""Online learners: decide every round, then learn from the person of that round.

A round is `choose`, then `learn`. Choosing again before learning gives the same decision. A failing `learn`
changes nothing and leaves the round open. After the declared horizon the last decision is still served, at no
privacy cost, and feedback is refused (or ignored, after `continue_without_learning`). Threads may share a
learner: calls take turns.

A learner consists of frozen `LearnerSettings`, the gate that paid for its releases, and parts with state:
`Rounds`, a `ContributionLimit`, and whatever stores people's feedback. `_begin` creates these parts alike for
a new learner and for one loaded from a file.

Most learners show a set of items (`OnlineSelector`). Drawing and serving are separate there: a set is drawn
through the gate when one is due, and each round serves that set, adapted to the items that can be shown
(`Catalogue.served`). Availability is public, so this is post-processing. Full-information feedback is about
the person, whatever they were shown, so it is learned as feedback of the round in which it arrives. Each
round's person is learned from once, whenever their feedback arrives.
"""

from __future__ import annotations

import math
import os
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Self

import numpy as np
from numpy.typing import NDArray

from ..constraints import Constraint
from ..core import checks
from ..core.guards import Turns, fix, fixed
from ..core.names import check_distinct, plain_label
from ..core.state import (
    State,
    capture,
    plain_fields,
    read_fields,
    read_state,
    refusing,
    restore,
    saved_settings,
    state_bytes,
    state_class,
    write_state,
)
from ..core.text import card, folded, track
from ..objectives import Population, answers
from ..objectives.rows import Rows
from ..personal import Recommender
from ..privacy import (
    Account,
    Budget,
    Entry,
    ExponentialChoice,
    Gate,
    Participation,
    Releases,
    ScoreChange,
    Seed,
    Share,
    spend_from,
)
from ..privacy.account import published_share
from ..privacy.accountant import Spending
from ..results import Selection, Trace
from .catalogue import RECENT, Catalogue, Request
from .partial import MergedParts, Partial, SumLayout, SummedPart
from .pending import MOST_OPEN, Pending, Ticket, Waiting
from .people import (
    ContributionLimit,
    caveats_of,
    check_population,
    counted_people,
    counted_person,
    given_person,
    in_order,
)
from .registry import REGISTRY, learners
from .released import Estimates, Pooled, Released
from .window import Window, part_of

CALIBRATIONS = ("tight", "published")
_NO_SETTINGS = ("self", "__class__", "budget", "start", "seed")


# --- settings -------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class LearnerSettings:
    """Everything that determines a learner's decisions, its account and its certificate.

    A subclass's ``tight`` and ``published`` compute an instance from a user's options; the learner, the
    certificate and the planner read it. ``participation``, where declared, says in how many batches of a
    running sum a person counts, once in each. Files contain the fields.
    """

    rounds: int | None
    calibration: str = "tight"
    participation: Participation | None = None

    def __init_subclass__(cls) -> None:
        saved_settings(cls)

    def _put(self, **values: Any) -> None:
        """Set checked and converted fields while the frozen settings are being created."""
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @property
    def horizon(self) -> int:
        """The declared number of rounds; only for settings that declare one."""
        assert self.rounds is not None
        return self.rounds

    @property
    def ends(self) -> Sequence[int]:
        """The first rounds of all batches but the first; here every round is a batch."""
        return range(1, self.horizon)

    def due(self, number: int) -> bool:
        """Whether round ``number`` begins a batch and so gets a new decision."""
        return not number or number in self.ends

    def batch_at(self, number: int) -> int:
        """The number of the batch that contains round ``number``."""
        return bisect_right(self.ends, number)

    def batch_start(self, batch: int) -> int:
        """The first round of a batch."""
        return self.ends[batch - 1] if batch else 0

    def begins(self, number: int) -> int:
        """The first round of the batch of round ``number``."""
        return self.batch_start(self.batch_at(number))

    def room(self, number: int) -> int:
        """How many rounds of this batch are left, including round ``number``; 2^24 in the last batch."""
        batch = self.batch_at(number)
        return self.ends[batch] - number if batch < len(self.ends) else 1 << 24

    def counted_since(self, number: int) -> int | None:
        """A person with a counted round at or after the returned one is not counted in round ``number``.

        It is the first round of the earliest batch that is too close. None where any rounds may count.
        """
        declared = self.participation
        if declared is None or declared.times == 1:
            return None
        return self.batch_start(max(0, self.batch_at(number) - declared.apart + 1))

    @classmethod
    def readable(cls) -> set[str]:
        """The names of the settings' fields and public properties."""
        computed = {name for name in dir(cls) if isinstance(getattr(cls, name), property | cached_property)}
        return {one.name for one in fields(cls)} | {name for name in computed if name[0] != "_"}


@dataclass(frozen=True, kw_only=True)
class SelectorSettings(LearnerSettings):
    """Settings of learners that choose k of n items."""

    n_items: int
    k: int
    bound: float = 1.0
    labels: tuple[Any, ...] | None = None

    def __post_init__(self) -> None:
        about = (self.n_items, self.k, self.rounds, self.bound, self.labels, self.calibration)
        self._put(**common_settings(*about))

    @classmethod
    def tight(cls, *given: Any, **options: Any) -> Any:
        """Settings for a constructor's options, with the least noise that fits into ``share``."""
        share = options.pop("share")
        return cls(*given, **options).noisy(share)

    def noisy(self, share: Share) -> Self:
        """A copy whose ``event`` is the least noise for its running sum ``spec`` that fits into ``share``."""
        own: Any = self
        found: Self = own if own.spec is None else replace(own, event=own.spec.event(share, share.definition))
        return found

    @property
    def certified_regret(self) -> float:
        """Bound on the expected (1 - 1/e)-regret over the declared rounds; infinite where none is known."""
        return math.inf

    @property
    def too_short(self) -> bool:
        """Whether so few rounds are declared that items cannot be told apart by their end."""
        return False


def common_settings(
    n_items: int,
    k: int | None,
    rounds: int | None,
    bound: float = 1.0,
    labels: Sequence[Any] | None = None,
    calibration: str = "tight",
    **others: Any,
) -> dict[str, Any]:
    """Fields of a selector's settings: the options that all selectors share, checked, plus ``others``."""
    size = checks.whole("n_items", n_items, at_least=1)
    if isinstance(k, Constraint):
        raise ValueError(
            f"k={k!r} is a constraint, which this learner does not take; give a number, or use "
            "LeaderSelector(n_items, None, ..., constraint=) for a matroid, MetaFrankWolfe for any constraint"
        )
    chosen = checks.whole("k", k, at_least=1)
    if chosen > size:
        raise ValueError(f"k={k} exceeds n_items={n_items}; choose k <= {n_items}")
    return others | {
        "n_items": size,
        "k": chosen,
        "bound": checks.bound(bound),
        "labels": item_labels(labels, size),
        "rounds": None if rounds is None else checks.whole("rounds", rounds, at_least=1),
        "calibration": checks.one_of("calibration", calibration, CALIBRATIONS),
    }


def asked(given: Mapping[str, Any]) -> dict[str, Any]:
    """The options for the settings among the ``locals()`` of a constructor."""
    return {name: value for name, value in given.items() if name not in _NO_SETTINGS}


def tightened(kind: Any, given: Mapping[str, Any]) -> tuple[Any, Share, Any]:
    """Settings of this ``kind`` for the ``locals()`` of a constructor, the share to spend, and the start.

    Published constants may need a larger budget than they claim; the returned share then has it.
    """
    share, start, options = spend_from(given["budget"], given["seed"]), given.get("start"), asked(given)
    if checks.one_of("calibration", options.pop("calibration", "tight"), CALIBRATIONS) == "published":
        settings = kind.published(**options, share=share)
        return settings, published_share(share, *settings.claims(share)), start
    settings = kind.tight(**options, share=share)
    if isinstance(start, Released) and start.candidates is not None and hasattr(settings, "first_window"):
        # Noise matters only among the items that can be shown: these determine the first window's length.
        few = kind.tight(
            **options | {"n_items": max(len(start.candidates), settings.k), "labels": None}, share=share
        )
        settings = replace(settings, first_window=few.first_window)
    return settings, share, start


def item_labels(labels: Sequence[Any] | None, n_items: int) -> tuple[Any, ...] | None:
    """One label per item, checked to be distinct and storable in a file."""
    if labels is None:
        return None
    if len(labels) != n_items:
        raise ValueError(f"labels has {len(labels)} entries; there are {n_items} items")
    found = tuple(plain_label(label) for label in labels)
    check_distinct(found)
    return found


def score_range(bound: float, neighbours: str) -> float:
    """How far one person moves two sums of gains in [0, bound] apart."""
    return ScoreChange(bound, one_directional=neighbours == "add_remove").range


def rate_within(share: Share, width: float, count: int, wanted: float) -> float:
    """``wanted``, or the largest rate at which ``count`` choices of range ``width`` fit into ``share``."""
    if not share.private or not count:
        return wanted
    return min(wanted, ExponentialChoice.within(share, width, count, share.definition).rate)


# --- rounds ---------------------------------------------------------------------------------------------


class Rounds:
    """The number of the current round, whether its decision has been asked for, and the decision.

    A round is closed before its person's feedback is recorded: an interruption in between may lose a person,
    but never counts one twice. Apart from `finish`, only `close` ends rounds.

    >>> rounds = Rounds(10)
    >>> rounds.open(np.array([3, 1]))
    >>> rounds.close(then=lambda: print("learned"))
    learned
    >>> rounds.number, rounds.is_open
    (1, False)
    """

    _state = ("number", "horizon", "is_open", "shown", "without_learning", "altered")

    def __init__(self, horizon: int | None, when_over: Callable[[], None] | None = None) -> None:
        self.horizon = self._declared = horizon  # how many rounds there are; None for any number
        self._when_over = when_over
        self.number = 0  # how many rounds have passed
        self.is_open = False  # whether the decision of this round has been asked for
        self.shown: NDArray[Any] | None = None  # what was decided last
        self.without_learning = False  # whether feedback beyond the horizon is accepted and ignored
        self.altered = False  # whether this round serves another set than the one that was drawn

    @property
    def over(self) -> bool:
        """Whether the declared horizon has been reached."""
        return self.horizon is not None and self.number >= self.horizon

    @property
    def ended(self) -> str:
        """Why they are `over`, for messages."""
        early = self.horizon != self._declared
        return "finish() was called" if early else f"the declared horizon of rounds={self.horizon} is over"

    def open(self, shown: NDArray[Any] | None = None) -> None:
        """Open this round with the decision ``shown``; None keeps the last one."""
        # With no call in between: what was drawn is shown, and an interruption never has it drawn again.
        self.shown, self.is_open, self.altered = self.shown if shown is None else shown, True, False

    def close(self, count: int = 1, then: Callable[[], object] | None = None) -> None:
        """Close ``count`` rounds, then call ``then`` to record their people's feedback.

        With a count of 0 the open round stays open: its decision has been drawn, and a second draw would be
        one more than was paid for.
        """
        if not count:
            return
        try:
            self.number, self.is_open = self.number + count, False
            if then is not None:
                then()
        finally:  # also after an interruption, which may have come in the last round
            if self.number == self.horizon and self._when_over is not None:
                self._when_over()

    def finish(self) -> None:
        """End the run at the current round; an open round is closed without being counted."""
        if not self.over:
            self.horizon, self.is_open = self.number, False
        if self._when_over is not None:  # again if an earlier call was interrupted
            self._when_over()

    def _resumed(self) -> None:
        good = self.number >= 0 and (self.horizon is None or self.number <= self.horizon - self.is_open)
        good = good and self.horizon in (self._declared, self.number)  # the latter after an early `finish`
        if not good or (self.shown is None and (self.number or self.is_open)):
            raise ValueError(f"nothing was decided for round {self.number}")


@dataclass(frozen=True, repr=False)
class Guarantee(Account):
    """The guarantee of the whole declared run, known before its first round; ``spent`` is the part so far."""

    spent: Account | None = None
    note: str | None = None  # the learner's remark, printed below the account

    def summary(self) -> tuple[str, tuple[list[str], list[list[str]]], list[str]]:
        above, released, below = super().summary()
        return above, released, below if self.note is None else [*below, self.note]


def guarantee(gate: Gate, ledger: Releases, note: str | None = None, *, own_gate: bool) -> Guarantee:
    """The guarantee of everything declared at a gate; ``ledger`` lists what has been released so far.

    Everything was declared before the first round, so the guarantee holds under every privacy definition and
    none is singled out. At a shared gate others may adapt to these releases: the gate's definition applies.
    """
    whole = gate.spent
    definition = None if own_gate else whole.definition
    about = (whole.reproducible, whole.caveats, definition)
    so_far = Account(whole.budget, ledger, *about)
    return Guarantee(whole.budget, whole.ledger, *about, spent=so_far, note=note)


@dataclass(frozen=True)
class Stream:
    """The rounds of one `run`: the people, which of them are learned from, and the arrays to fill.

    ``selections`` has one row per round: the decision played in it, as `OnlineLearner._row` encodes it.
    """

    people: Any
    within_limit: NDArray[np.bool_]
    rewards: NDArray[np.float64]
    selections: NDArray[Any]
    progress: bool = False

    def part(self, here: slice) -> Stream:
        """Some of the rounds, with the same people."""
        return Stream(self.people, self.within_limit[here], self.rewards[here], self.selections[here])


# --- every learner --------------------------------------------------------------------------------------


@fixed
class OnlineLearner:
    """Decide every round, then learn from the person of that round.

    Subclasses define what a decision is, when and how a new one is drawn, and what is stored of a person.
    ``budget`` is a `Budget`, a share of one, or a `Gate` to spend from: `spend_from` makes a `Share` of each.

    Formal guarantee: that of the budget, for all decisions of a run together. Each learner states the
    sensitivity of what it releases to one person.
    """

    settings: Any
    _settings_type: ClassVar[type[LearnerSettings]]
    _played_type: ClassVar[type[np.generic]] = np.float64
    _note: ClassVar[str | None] = None  # a remark that its guarantee prints below the account
    _state: ClassVar[tuple[str, ...]] = ("_rounds", "_contribution")
    _noun: ClassVar[str] = "decision"
    _trace_type: ClassVar[Any] = Trace  # what `run` returns

    def __init__(self, settings: LearnerSettings, share: Share) -> None:
        assert share.gate is not None
        self._assemble(settings, share.gate, own_gate=share.own_gate)

    def _assemble(self, settings: Any, gate: Gate, *, own_gate: bool) -> None:
        """Create the parts, for a new learner or for one loaded from a file."""
        self.settings = settings
        self._saved_alone = gate._owner is None  # rather than as a part of something else, such as segments
        self._gate, self._own_gate = gate.owned() if self._saved_alone else gate, own_gate
        self._turns = Turns("learner")
        self._rounds = Rounds(settings.rounds, self._finished)
        limit = gate.budget.max_rounds_per_person
        self._contribution = ContributionLimit(limit, gate.key(), self._rounds, settings.counted_since)
        self._begin()

    if not TYPE_CHECKING:  # so that type checkers report misspelt names; they know only ``learner.settings``

        def __getattr__(self, name: str) -> Any:
            """A setting under its own name, such as ``learner.rate`` for ``learner.settings.rate``."""
            settings = self.__dict__.get("settings")
            if settings is not None and name[0] != "_" and name in settings.readable():
                return getattr(settings, name)
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

        def __dir__(self) -> list[str]:
            return [*super().__dir__(), *self.settings.readable()]

    # --- for users -------------------------------------------------------------------------------

    @property
    def budget(self) -> Budget:
        return self._gate.budget

    @property
    def rounds(self) -> int | None:
        """The declared number of rounds; None for any number."""
        rounds: int | None = self.settings.rounds
        return rounds

    @property
    def calibration(self) -> str:
        """Which constants are used: "tight" (the library's) or "published" (the paper's)."""
        return str(self.settings.calibration)

    @property
    def round(self) -> int:
        """How many rounds have been learned from or passed."""
        return self._rounds.number

    @property
    def over(self) -> bool:
        """Whether the declared horizon has been reached."""
        return self._rounds.over

    @property
    def certified_regret(self) -> float:
        """Bound on the expected regret over the declared rounds, as the settings certify it.

        Infinite where none is known. It does not cover rounds that are not learned from (beyond
        ``max_rounds_per_person``) or feedback that was clipped.
        """
        return float(self.settings.certified_regret)

    @property
    def privacy(self) -> Guarantee:
        """The guarantee of the whole declared run; ``privacy.spent`` is the account so far.

        At a gate that others release through too, the guarantee covers all of them.
        """
        with self._turns.look():
            return guarantee(self._gate, self._spent().ledger, self._note, own_gate=self._own_gate)

    def _repr_html_(self) -> str:
        return card(repr(self), folded("privacy of the whole run", self.privacy._repr_html_()))

    def choose(self) -> Any:
        """The decision for this round."""
        with self._turn("choose()"):
            return self._next()

    def learn(self, person: Any, *, person_id: Hashable | None = None) -> None:
        """Learn from the person for whom this round's decision was made.

        ``person_id`` (any hashable) lets the learner enforce ``max_rounds_per_person``: it is stored only as
        a keyed hash, and rounds beyond the limit pass without being learned from.
        """
        with self._turn("learn()"):
            self._learn(person, person_id)

    def run(
        self, people: Any, *, person_ids: Sequence[Hashable] | None = None, progress: bool = False
    ) -> Any:
        """Process a whole stream: the same decisions, for the same seed, as with `choose` and `learn`.

        ``person_ids`` are as in `learn`, one per person. People beyond the declared horizon are served the
        last decision and not learned from.
        """
        with self._turn("run()"):
            people = people if isinstance(people, Population) else in_order(people)
            self._check_people(people)
            ids = None if person_ids is None else checks.in_order("person_ids", person_ids)
            if ids is not None and len(ids) != len(people):
                raise ValueError("person_ids must have as many entries as there are people")
            # People in a store are loaded into memory a batch at a time.
            pieces = people.batches() if getattr(people, "stored", False) else [people]
            played, start = [], 0
            for some in pieces:
                named = None if ids is None else ids[start : start + len(some)]
                played.append(self._run_all(some, named, progress))
                start += len(some)
            rewards, shown = zip(*played, strict=True)
            return self._trace_type(np.concatenate(rewards), np.concatenate(shown), type(self).__name__)

    def _run_all(
        self, people: Any, person_ids: Sequence[Hashable] | None, progress: bool
    ) -> tuple[NDArray[np.float64], NDArray[Any]]:
        count = len(people)
        self._contribution.check_named(person_ids)
        left = count if self._rounds.horizon is None else min(count, self._rounds.horizon - self.round)
        within_limit = np.ones(left, dtype=np.bool_)
        if person_ids is not None:
            within_limit = self._contribution.register_all((person_ids[i] for i in range(left)), left)
        rewards, selections = np.empty(count), np.empty((count, self._width), dtype=self._played_type)
        start = self._rounds.number
        try:
            if left:
                own = people.caveats if isinstance(people, Population) else caveats_of(people)
                self._gate.add_caveats(*own)
                self._run(Stream(people, within_limit, rewards[:left], selections[:left], progress))
        finally:
            if person_ids is not None:  # after a failure, do not count the rounds that were not reached
                for i in range(self._rounds.number - start, left):
                    if within_limit[i]:
                        self._contribution.forget(person_ids[i])
        if left < count:
            decision = self._decide()
            selections[left:] = self._row(decision)
            rewards[left:] = [self._value(people[i], decision) for i in range(left, count)]
        return rewards, selections

    def continue_without_learning(self) -> None:
        """Accept and ignore feedback beyond the declared horizon; learning from it would cost more budget."""
        with self._turn("continue_without_learning()"):
            self._rounds.without_learning = True

    def finish(self) -> None:
        """Learn nothing from now on, as after the declared horizon: the last decision is still served.

        For a learner that is replaced by another one, such as that of the next period: the account records
        that it will release nothing more. Late feedback is no longer accepted.
        """
        with self._turn("finish()"):
            self._wait_no_more()
            self._rounds.finish()

    def _wait_no_more(self) -> None:
        """Refuse late feedback from now on; nothing to do for learners that take none."""

    def _finished(self) -> None:
        """Record that no new decision will be drawn: earlier states can no longer be resumed."""
        if self._saved_alone and self._gate._owner is not None:
            self._gate._owner.finish()

    # --- saving ----------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the whole state to a file, atomically; `discreet.load` resumes from it.

        The file holds exact sums of private data, and the data of people who wait for a later batch; only its
        owner can read it. A gate that others release through too is not in it: save its ``state()`` as well,
        unless its ledger is a `SQLiteLedger`, and pass the restored gate (or a new one) to `discreet.load`.
        """
        with self._turn("save()"):
            write_state(path, *self._saved_whole())
            if self._gate._owner is not None:
                self._gate._owner.saved()

    def to_bytes(self) -> bytes:
        """The bytes that `save` writes, for a database, just as sensitive; `discreet.load` accepts them."""
        with self._turn("to_bytes()"):
            return state_bytes(*self._saved_whole())

    def _saved_whole(self) -> State:
        """The content of a file for this learner alone, with the owner of its charges."""
        assert self._gate._owner is not None
        owner = self._gate._owner.state()
        header, arrays = self._saved()
        return header | {"owner": owner}, arrays

    def _saved(self) -> State:
        """The state to save: a snapshot, which later rounds do not change."""
        state, arrays = capture(self)
        header = {
            "class": type(self).__name__,
            "settings": plain_fields(self.settings),
            "gate": self._gate.state() if self._own_gate else None,
            "caveats": list(self._gate.caveats),
            "state": state,
        }
        return header, arrays

    @classmethod
    def load(cls, path: str | os.PathLike[str] | bytes, *, gate: Gate | None = None) -> Self:
        """Resume from a saved file; what was spent stays spent.

        A file is a snapshot: resuming from the same one twice draws the same rounds twice, and each account
        lists only one of the two draws. ``gate`` is for a learner that spends from a shared gate: the gate
        restored from its own state, or a new one over the same `SQLiteLedger`. That gate's ledger lists the
        learner's charges under the learner's id and lets them be resumed once: it refuses a learner that is
        still in use, and any state but the latest that it knows of. A file that contains its own gate has no
        such protection.
        """
        header, arrays = read_state(path)
        path = "the state" if isinstance(path, bytes) else path
        learner: Self = resumed(kind_of(header, cls, path), path, header, arrays, gate)
        return learner

    def _resume(self, header: dict[str, Any], arrays: Mapping[str, NDArray[Any]], gate: Gate | None) -> None:
        """Restore the state from a file, with the charges of all its releases."""
        own = Gate.from_state(header["gate"]) if gate is None else gate
        with own._restoring(header["owner"]) as view:
            self._take_up(header, arrays, view, own_gate=gate is None)
        self._saved_alone = True

    def _take_up(
        self, header: dict[str, Any], arrays: Mapping[str, NDArray[Any]], gate: Gate, *, own_gate: bool
    ) -> None:
        """Restore the state at a gate that is being restored, and reclaim the charges made there before."""
        settings = read_fields(self._settings_type, header["settings"])
        self._assemble(settings, gate, own_gate=own_gate)
        restore(self, header["state"], arrays)
        gate.add_caveats(*header["caveats"])  # some may be from people who came after the gate was saved

    def _resumed(self) -> None:
        if self._rounds.shown is not None and not self._could_show(self._rounds.shown):
            raise ValueError(f"shown was never decided in round {self.round}")

    def __reduce__(self) -> NoReturn:
        raise TypeError("a learner is not copied or pickled (its budget could be spent twice); use save()")

    # --- for subclasses --------------------------------------------------------------------------

    @property
    def _width(self) -> int:
        """How many numbers encode the decision of a round."""
        raise NotImplementedError

    def _begin(self) -> None:
        """Create the parts that ``settings`` ask for, and reserve what will be released.

        While a file is loaded, public randomness is blank and reservations reclaim earlier charges.
        """
        raise NotImplementedError

    def _due(self) -> bool:
        """Whether this round gets a new decision."""
        raise NotImplementedError

    def _draw(self) -> NDArray[Any]:
        """Draw a new decision, through the gate where it depends on people."""
        raise NotImplementedError

    def _decision(self, shown: NDArray[Any]) -> Any:
        """What `choose` returns for an array from `_draw`."""
        raise NotImplementedError

    def _row(self, decision: Any) -> Any:
        """A decision encoded as a row of numbers, for a trace."""
        raise NotImplementedError

    def _value(self, person: Any, decision: Any) -> float:
        """The gain or cost of a decision for a person: only for the trace of a simulated stream."""
        raise NotImplementedError

    def _check_people(self, people: Any) -> None:
        """Refuse people, one or a stream of them, from whom this learner cannot learn."""
        raise NotImplementedError

    def _prepared(self, person: Any) -> Any:
        """Check ``person`` and convert it to the form that `_observe` takes; the learner does not change."""
        self._check_people(person)
        return person

    def _observe(self, person: Any) -> None:
        """Record the feedback that `_prepared` returned."""
        raise NotImplementedError

    def _spent(self) -> Account:
        """The account of what has been released so far."""
        raise NotImplementedError

    def _feedback(self, person: Any, decision: Any, value: float) -> Any:  # noqa: ARG002
        """The feedback of a person in a simulated stream: their function, or its value for the decision."""
        return person

    def _could_show(self, shown: NDArray[Any]) -> bool:
        """Whether ``shown``, read from a file, is a decision that can have been drawn."""
        return shown.shape == (self._width,) and bool(np.isfinite(shown).all())

    # --- inside ----------------------------------------------------------------------------------

    def _turn(self, call: str) -> AbstractContextManager[object]:
        """Guard every call that changes the learner: only in this process, one call at a time."""
        self._gate.check_process()
        return self._turns.take(call)

    @property
    def _shown(self) -> NDArray[Any]:
        """The last decision; there must be one."""
        assert self._rounds.shown is not None
        return self._rounds.shown

    def _next(self) -> Any:
        """The decision for this round: `choose`, for callers inside a turn (`_turn`)."""
        if not self._rounds.is_open and not self._rounds.over:
            self._open()
        if self._rounds.shown is None:
            raise RuntimeError("no decision was ever drawn: an interruption came before the first one")
        return self._decision(self._rounds.shown)

    def _open(self) -> None:
        """Open the next round, with a new decision where one is due."""
        self._rounds.open(self._draw() if self._due() else None)

    def _decide(self) -> Any:
        """The decision as it is served; here the one that was drawn."""
        return self._next()

    def _learn(self, person: Any, person_id: Hashable | None) -> None:
        """`learn`, for callers inside a turn (`_turn`)."""
        rounds = self._rounds
        if rounds.over:
            if rounds.without_learning:
                return
            raise RuntimeError(
                f"{rounds.ended}; choose() goes on serving the last {self._noun}, and after"
                " continue_without_learning() feedback is taken and not learned from"
            )
        if not rounds.is_open:
            raise RuntimeError(
                f"learn() comes after choose(): this round's {self._noun} has not been asked for yet"
            )
        ready, caveats = self._prepared(person), getattr(person, "caveats", None)
        if caveats is None and isinstance(person, tuple):
            caveats = caveats_of(person)
        if caveats:  # first, so that if they cannot be recorded nobody has been counted
            self._gate.add_caveats(*caveats)
        self._take(ready, self._contribution.register(person_id))

    def _take(self, ready: Any, within_limit: bool) -> None:
        """Close the round, then record its person's feedback."""
        self._rounds.close(then=partial(self._observe, ready) if within_limit else None)

    def _run(self, stream: Stream) -> None:
        """Process the stream round by round; some learners override this with an equivalent compiled loop."""
        for t in track(range(stream.rewards.size), "rounds", stream.progress):
            decision = self._decide()
            person = stream.people[t]
            stream.rewards[t] = value = self._value(person, decision)
            stream.selections[t] = self._row(decision)
            self._take(self._prepared(self._feedback(person, decision, value)), bool(stream.within_limit[t]))

    def _account(self, *releases: tuple[Entry, int]) -> Account:
        """An account of the given releases, each with its count, under this learner's budget."""
        ledger = Releases()
        for entry, count in releases:
            if count:
                ledger.add(entry, count)
        return Account(self.budget, ledger, self._gate.reproducible, self._gate.caveats)


def kind_of(header: dict[str, Any], base: type, path: Any) -> Any:
    """The registered class of the learner in a file."""
    name = str(header.get("class"))
    if name not in REGISTRY and name not in learners():
        known = "a learner of your own is known once its module is imported"
        raise ValueError(f"{path} holds a {name}, not a {base.__name__} that is registered; {known}")
    if not issubclass(kind := REGISTRY[name].kind(name), base):
        raise ValueError(f"{path} holds a {name}, not a {base.__name__}")
    return kind


def resumed(
    kind: Any, path: Any, header: dict[str, Any], arrays: Mapping[str, NDArray[Any]], gate: Gate | None
) -> Any:
    """Resume a learner, or segments, from the content of a file."""
    shared = header.get("gate") is None
    if shared and gate is None:
        raise ValueError(
            f"{path} spends from a gate that others use too, whose ledger has its account; give gate=,"
            " restored as well"
        )
    if gate is not None and not shared:
        raise ValueError(f"{path} has a gate of its own; leave gate= out")
    found = object.__new__(kind)
    with refusing(path):
        found._resume(header, arrays, gate)
    return fix(found)


def load(path: str | os.PathLike[str] | bytes, *, gate: Gate | None = None) -> Any:
    """Resume a saved learner, or segments; what was spent stays spent. See `OnlineLearner.load`.

    A saved `Recommender` can be loaded too: it holds only releases, and spends nothing.
    """
    from .segments import Segments

    held = state_class(path)
    if held == "Recommender":
        if gate is not None:
            raise ValueError(f"gate= is for learners; {path!r} holds a Recommender, which spends nothing")
        return Recommender.load(path)
    kind = Segments if held == "Segments" else OnlineLearner
    return kind.load(path, gate=gate)


# --- learners that show a set of items ------------------------------------------------------------------


class OnlineSelector(OnlineLearner):
    """Show a set of items every round, by label or number, and learn from feedback, at once or late.

    Subclasses define when and how a new set is drawn, and what is stored of a person. One that draws sets
    from a `BatchedSum` only has to create it; one that sees only a reward creates a `RewardSum`, and one that
    stores people until a set is due a `Window`. Sets have k items, unless a subclass says otherwise.
    """

    _played_type: ClassVar[type[np.generic]] = np.int32
    _noun: ClassVar[str] = "set"
    _state: ClassVar[tuple[str, ...]] = ("_catalogue", "_pending", "_waiting", "_merged")

    # Sums feedback and releases the sums: a `BatchedSum`, a `RewardSum`, or None.
    _sum: Any = None
    _rewarded = False  # whether feedback is a reward, which depends on the set shown in its round
    _window: Window | None = None  # stores people until a window of rounds closes
    _shares: bool | None = None  # whether segments share its releases by default; None where they cannot
    _pool: Pooled | None = None  # the segments' releases, where they are shared
    _first: tuple[int, ...] = ()  # the set to show first
    _batched = True  # whether a release covers at most as many people as its batch has rounds
    _constrained = False  # whether `_feasible` ever returns False
    _grows = False  # whether items can be added without raising the sensitivity to one person

    def __init__(
        self, settings: LearnerSettings, share: Share, start: Released | OnlineSelector | None = None
    ) -> None:
        super().__init__(settings, share)
        if start is not None:
            self._begin_with(start.released if isinstance(start, OnlineSelector) else start)

    def _assemble(self, settings: Any, gate: Gate, *, own_gate: bool) -> None:
        self._pending, self._waiting, self._merged = Pending(), Waiting(), MergedParts()
        self._catalogue = Catalogue(settings.n_items, settings.labels)
        super()._assemble(settings, gate, own_gate=own_gate)

    def _begin_with(self, released: Released) -> None:
        checks.instance("start", released, Released, "last_month.released")
        known = released.over(self.n_items, self.labels)
        self._start(replace(known, items=known.items[: self.k]))
        self._gate.add_caveats(*released.caveats)
        self._catalogue.changed = True
        if known.candidates is not None:
            self.retire_items(np.setdiff1d(np.arange(self.n_items), known.candidates))

    # --- for users -------------------------------------------------------------------------------

    @property
    def n_items(self) -> int:
        """How many items there are to choose from."""
        return int(self.settings.n_items)

    @property
    def k(self) -> int:
        """The largest number of items in a set."""
        return self._width

    @property
    def bound(self) -> float:
        """A public upper bound on every person's value."""
        return float(self.settings.bound)

    @property
    def labels(self) -> tuple[Any, ...] | None:
        """The items' labels; None where items go by their numbers."""
        labels: tuple[Any, ...] | None = self.settings.labels
        return labels

    @property
    def certified_regret(self) -> float:
        """Bound on the expected (1 - 1/e)-regret over the declared rounds; infinite where none is known.

        It holds for a catalogue that does not change, a learner without ``start`` (a bad start can cost any
        number of rounds) and feedback that arrives before the next round. It does not cover rounds that are
        not learned from (those beyond ``max_rounds_per_person``).
        """
        return math.inf if self._catalogue.changed else super().certified_regret

    def choose(
        self,
        *,
        wait: bool = True,
        available: Iterable[Any] | None = None,
        exclude: Iterable[Any] | None = None,
        include: Iterable[Any] | None = None,
    ) -> Selection:
        """The set for this round; with ``wait=False`` for the next one, even if feedback is still missing.

        ``available`` lists the items that can be shown in this round, ``exclude`` those that cannot, and
        ``include`` those that must be in the set, by label or number. All three must be public facts, such as
        what is sold out: deriving them from private data leaks it. Items of ``include`` take the first
        places; items that cannot be shown are replaced by others that rank high by what has been released.
        """
        with self._turn("choose()"):
            request = self._request(available, exclude, include)
            if not wait and self._rounds.is_open and not self._rounds.over:
                self._pass_on()
            standing: Selection = self._next()
            if request is None:  # as in `_fitted`, with one call less
                self._rounds.altered = False
                return standing
            return self._fitted(standing, request)

    def choose_many(self, count: int) -> list[Selection]:
        """The sets of the next ``count`` rounds, as by repeated ``choose(wait=False)``, but faster."""
        with self._turn("choose_many()"):
            checks.whole("count", count, at_least=1)
            request = self._request()
            found: list[Selection] = []
            for _ in range(count):
                if self._rounds.is_open and not self.over:
                    self._pass_on()
                found.append(self._fitted(self._next(), request))
            return found

    def learn(
        self,
        person: Any = None,
        *,
        items: Iterable[Any] | Mapping[Any, float] | None = None,
        round: int | None = None,
        person_id: Hashable | None = None,
    ) -> None:
        """Learn from the person of this round, or of an earlier ``round`` whose feedback is still missing.

        ``person`` is a population of one, or a vector with a number in [0, 1] for each item: the probability
        that the person takes it. ``items`` says the same for a few items: a list of those the person would
        take, or a mapping from items to probabilities, by label or number. ``person_id`` (any hashable) lets
        the learner enforce ``max_rounds_per_person``: it is stored only as a keyed hash, and rounds beyond
        the limit pass without being learned from.

        Learners that see rewards (`BanditSelector`, `ThompsonSelector`) take, in place of a person, the value
        of the set shown, a number in [0, bound]. With ``feedback="slots"`` it is the item taken, by label or
        number, None for none, or one number per slot, with a sum of at most ``bound``; ``items`` lists
        several items that were taken (two count half each). Nothing is learned from a round that served
        another set than the one drawn, because something was not available.
        """
        with self._turn("learn()"):
            given, now = self._given(person, items), self._rounds
            if round is None or (round == now.number and (now.is_open or now.over)):
                self._learn(given, person_id)
                return
            late = self._late(round)
            ready, caveats = self._prepared_late(given, late), tuple(getattr(given, "caveats", ()))
            self._gate.add_caveats(*caveats)  # first, so that if this fails nobody has been counted
            within_limit = self._contribution.register(person_id)
            ticket = self._pending.take(late)  # first, so that an interruption never counts a person twice
            self._take_late(ticket, ready, within_limit)

    def learn_many(self, feedback: Mapping[int, Any]) -> None:
        """Feedback of several rounds, as by ``learn(one, round=round)`` for each in order, but faster.

        If the feedback of one round is refused, nothing is learned from any.
        """
        with self._turn("learn_many()"):
            checks.instance("feedback", feedback, Mapping, "{decision.round: value}")
            open_round = self._rounds.number
            rounds = sorted(checks.whole("round", round, at_least=0) for round in feedback)
            given = {round: self._given(feedback[round], None) for round in rounds}
            if self.over and open_round in given:
                self._learn(given.pop(open_round), None)  # refused or ignored: the horizon is over
            now = open_round if self._rounds.is_open else None
            ready = {
                round: self._prepared(one) if round == now else self._prepared_late(one, self._late(round))
                for round, one in given.items()
            }
            within_limit = self._contribution.register(None)
            for one in given.values():  # first, so that if this fails nobody has been learned from
                self._gate.add_caveats(*getattr(one, "caveats", ()))
            for round, one in ready.items():
                if round == now:
                    self._take(one, within_limit)
                else:
                    self._take_late(self._pending.take(round), one, within_limit)

    def run(
        self, people: Population, *, person_ids: Sequence[Hashable] | None = None, progress: bool = False
    ) -> Trace:
        """Process a whole stream; see `OnlineLearner.run`."""
        trace: Trace = super().run(people, person_ids=person_ids, progress=progress)
        return trace

    @property
    def released(self) -> Released:
        """What was released about the items; another learner may start from it (``start=``) at no cost."""
        with self._turns.look():
            shown = self._rounds.shown
            items = () if shown is None else self._decision(shown).items
            values, people, deviations = self._estimates()
            about = (self.n_items, self.labels, values, people, deviations, self._gate.passed_on)
            return Released(items, *about)

    def ranking(self, count: int | None = None) -> tuple[int, ...]:
        """Numbers of the items that can be shown, ranked by what was released about them, best first."""
        with self._turns.look():
            active = np.flatnonzero(self._active())
            most = active.size if count is None else checks.whole("count", count, at_least=0)
            order = np.argsort(-self._ranking()[active], kind="stable")[:most]
            return tuple(active[order].tolist())

    def add_items(self, items: Iterable[Any]) -> None:
        """Add new items to the catalogue, or bring retired ones back.

        Give labels, or the next numbers where items have none. The catalogue is public, so this costs
        nothing. People who come from now on must be functions of all items. Nothing is certified for streams
        whose catalogue changes.
        """
        with self._turn("add_items()"):
            names = list(items) if not isinstance(items, str | bytes) else [items]
            back, fresh = self._catalogue.sorted_out(names)
            size, labels, settings = self.n_items + len(fresh), self.labels, None
            if fresh:  # first, so that if they are refused nothing has changed
                self._check_growing()
                labels = None if labels is None else (*labels, *fresh)
                settings = self._grown(size, labels)
            with self._turns.whole("add_items()"):
                if settings is not None:
                    self._open_items(np.arange(self.n_items, size), np.flatnonzero(self._active()), settings)
                    object.__setattr__(self, "settings", settings)
                    self._catalogue.grow(size, labels)
                    self._waiting.grow(size)
                self._open_items(back.astype(np.int64), np.flatnonzero(self._active()), None)
                self._catalogue.bring_back(back.tolist())
                self._restrict()

    def retire_items(self, items: Iterable[Any]) -> None:
        """Stop showing these items, by label or number.

        The catalogue is public, so this costs nothing. Their places in the current set are filled by the
        ranking of the others. Nothing is certified for streams whose catalogue changes.
        """
        with self._turn("retire_items()"):
            gone = self._without(items)
            self._catalogue.retire(gone.tolist())
            self._close_items(gone)
            if not self._rewarded:  # a reward is about the drawn set, which therefore stays
                self._refit()
            self._restrict()

    def next_epoch(self, budget: Spending, *, discount: float = 1.0, seed: Seed = None) -> Self:
        """A learner with the same settings and a new budget, which starts from what this one released.

        It has the same items (including retired ones), the same number of rounds and the same noise, which is
        charged to ``budget``: a `Budget`, a share of one, or the gate of a period (`privacy.Periods`), which
        keeps the account of each period and of all together. The budget must have the same adjacency and
        rounds per person. Each epoch counts a person's rounds anew; the losses of a person who comes in
        several epochs add up. For another horizon or another budget make a learner with ``start=`` this one.

        ``discount`` is the fraction of its people that the earlier releases count for: less than 1 where
        tastes change, 0 to start from nothing. Releases are public, so this costs nothing. This learner does
        not change and still takes late feedback.
        """
        kept = checks.real("discount", discount, at_least=0.0, at_most=1.0)
        share = spend_from(budget, seed)
        for name in ("neighbours", "max_rounds_per_person", "private"):
            if getattr(share.budget, name) != getattr(self.budget, name):
                raise ValueError(
                    f"{name} of the budget is {getattr(share.budget, name)}, and of this learner"
                    f" {getattr(self.budget, name)}: make a new learner, with start= this one"
                )
        learner, released = object.__new__(type(self)), self.released
        assert share.gate is not None
        learner._assemble(self._renewed(), share.gate, own_gate=share.own_gate)
        if kept and self.round:
            learner._begin_with(released.discounted(kept))
        if gone := np.flatnonzero(~self._active()).tolist():
            learner.retire_items(gone if self.labels is None else [self.labels[item] for item in gone])
        return fix(learner)

    def partial(self, server: str) -> Partial:
        """A part of the open batch, for people at another server who are served the same set."""
        with self._turn("partial()"):
            if not isinstance(server, str) or not server:
                raise TypeError(f"server must be a name, got {checks.shown(server)}")
            self._check_divisible()
            if self.over:
                raise RuntimeError(self._rounds.ended)
            self._next()
            return self._part((server, self._batch(), self._room(), self._contribution.name))

    def merge(self, part: Partial) -> None:
        """Learn from the people of a part, one round each; possible once, and while its batch is open."""
        with self._turn("merge()"):
            checks.instance("part", part, Partial, 'learner.partial(server="web-3")')
            if self._rounds.shown is None or part.learner != self._contribution.name:
                raise ValueError("the part is of another learner")
            self._check_part(part)
            horizon = self._rounds.horizon
            left = None if horizon is None else horizon - self._rounds.number
            self._merged.check(part, self._batch(), self._room(), left)
            self._gate.add_caveats(*part.caveats)
            self._merged.add(part)  # first, so that an interruption never counts a person twice
            self._rounds.close(part.count, then=lambda: self._take_part(part))

    @property
    def pending(self) -> tuple[int, ...]:
        """Earlier rounds whose feedback has not arrived but may still come."""
        with self._turns.look():
            return self._pending.rounds

    def waits_for(self, round: int) -> bool:
        """Whether feedback of this round may still come."""
        with self._turns.look():
            open_now = self._rounds.is_open and round == self._rounds.number
            return open_now or round in self._pending

    def expire(self, before: int) -> int:
        """Stop waiting for feedback of rounds before number ``before``: their people took nothing.

        Returns how many rounds these were. When to expire must follow a public rule, such as a number of
        hours. At most 131,072 rounds can wait for feedback; with one more the oldest expires.
        """
        with self._turn("expire()"):
            first = checks.whole("before", before, at_least=-(1 << 62))
            return self._expire(sum(1 for late in self._pending.rounds if late < first))

    def skip(self, rounds: Iterable[int]) -> None:
        """Learn nothing from these rounds, whose sets, by a public fact, were not shown.

        Unlike with `expire`, their people do not count as taking nothing: averages are over other rounds.
        """
        with self._turn("skip()"):
            late = [checks.whole("rounds", round, at_least=0) for round in rounds]
            now = self._rounds.number if self._rounds.is_open else -1
            for place, round in enumerate(late):
                if (round not in self._pending and round != now) or round in late[:place]:
                    raise ValueError(f"rounds={round} waits for no feedback")
            for round in sorted(late):  # the open one last: it can make the oldest expire
                if round == now:
                    self._pass_on()
                ticket = self._pending.take(round)
                if self._rewarded:
                    self._sum.skip(ticket[1:])

    def __repr__(self) -> str:
        horizon = "" if self.rounds is None else f" of {self.rounds:,}"
        return f"{type(self).__name__}({self.k} of {self.n_items:,} items, round {self.round:,}{horizon})"

    # --- for subclasses: sets --------------------------------------------------------------------

    def _due(self) -> bool:
        if self._window is not None:
            return self._rounds.number >= self._window.closes
        return bool(self.settings.due(self._rounds.number))

    def _draw(self) -> NDArray[Any]:
        drawn: NDArray[Any] = self._sum.draw(self._rounds.number, self._catalogue.active, self._pool)
        return drawn

    def _spent(self) -> Account:
        return self._account(*(() if self._sum is None else self._sum.entries()))

    def _ranking(self) -> NDArray[np.float64]:
        """A score for each item, from releases only, to choose replacements for items that cannot be shown.

        Where no sums are released: how many of the latest sets contained the item.
        """
        none = self._sum is None or self._rewarded
        return self._catalogue.often() if none else self._sum.ranking(self._rounds.number, self._pool)

    def _estimates(self) -> Estimates:
        """Estimates of each item's value, from what was released."""
        return (None, 0, None) if self._sum is None else self._sum.estimates(self._rounds.number)

    def _start(self, start: Released) -> None:
        """Start from what was released elsewhere: here, show that learner's last set first."""
        if self._rewarded:
            self._sum.start(start)
        else:
            self._first = start.items

    def _renewed(self) -> Any:
        """The settings for another epoch, without anything that was drawn for this one."""
        return self.settings

    def _feasible(self, items: list[int]) -> bool:  # noqa: ARG002
        """Whether these items may be shown together."""
        return True

    def _grown(self, n_items: int, labels: tuple[Any, ...] | None) -> Any:
        """The settings for more items; refused where the sensitivity of what was paid for would grow."""
        if self._grows:
            return replace(self.settings, n_items=n_items, labels=labels)
        raise NotImplementedError(
            f"{type(self).__name__} cannot take up new items: make a new learner, with start= this one"
        )

    def _check_growing(self) -> None:
        """Refuse new items while a stored person is a function of the old items only."""
        if self._window is not None:
            self._window.check_growing()

    def _open_items(self, items: NDArray[np.int64], among: NDArray[np.int64], settings: Any) -> None:  # noqa: ARG002
        """Allow drawing these items like the active ones ``among``; ``settings`` are new, or None."""
        part = self._sum if self._window is None else self._window
        if settings is not None and part is not None:
            part.grown(settings, self._rounds.number)

    def _close_items(self, items: NDArray[np.int64]) -> None:
        """Stop drawing these items."""

    def _restrict(self) -> None:
        """Where feedback is a reward, draw sets only from the items that are active now."""
        if self._rewarded:
            self._sum.restrict(self._active())

    def _without(self, items: Iterable[Any]) -> NDArray[np.int64]:
        """The numbers of these items; refused if too few others are left for a set."""
        gone, active = self._catalogue.items("items", items).astype(np.int64), self._active()
        active[gone] = False
        self._check_enough(active)
        return gone

    def _check_enough(self, active: NDArray[np.bool_]) -> None:
        """Refuse a catalogue that is too small for a set."""
        left = int(np.count_nonzero(active))
        if left < self._width:
            raise ValueError(f"{left} items would be left; a set has {self._width}")

    def _active(self) -> NDArray[np.bool_]:
        """Which items have not been retired."""
        active = self._catalogue.active
        return np.ones(self.settings.n_items, dtype=np.bool_) if active is None else active.copy()

    # --- for subclasses: people ------------------------------------------------------------------

    def _given(self, person: Any, items: Any) -> Any:
        """Convert a person, in any form that `learn` accepts, to the form that `_prepared` takes."""
        if self._rewarded:
            return self._sum.given(self._catalogue, person, items)
        if items is None and isinstance(person, Population):
            return person
        return given_person(self._catalogue, self.n_items, person, items)

    def _check_people(self, people: Any) -> None:
        check_population(people, self.settings.n_items, self.settings.bound, monotone=True)

    def _check_person(self, person: Any) -> None:
        one = "learn() takes one person; use run() for a stream"
        check_population(person, self.settings.n_items, self.settings.bound, monotone=True, one=one)

    def _prepared(self, person: Any) -> Any:
        if self._rewarded:
            return self._sum.prepared(person, self._ticket())
        self._check_person(person)
        if self._window is not None:
            return self._window.prepared(person, self._shown)
        now = self._rounds
        return person if self._sum is None else self._sum.prepared(person, now.number, now.shown)

    def _observe(self, person: Any) -> None:
        if self._rewarded:
            self._sum.take(*person)
        elif self._window is not None:
            self._window.learn(person)
        else:
            self._sum.observe(person, self._rounds.shown)

    def _observe_rows(self, people: Population, first: int, within_limit: NDArray[np.bool_]) -> None:
        """Record the people of closed rounds: rows, from index ``first`` on."""
        if self._window is None:
            self._sum.observe_rows(people, first, within_limit, self._shown)
        else:
            self._window.learn_rows(people, first, within_limit)

    def _ticket(self) -> Ticket:
        """What feedback of the open round is about: for rewards, if its set was altered, and their ticket."""
        if not self._rewarded:
            return ()
        return (int(self._rounds.altered), *self._sum.ticket(self._rounds.number))

    def _prepared_late(self, person: Any, late: int) -> Any:
        """`_prepared`, for feedback of an earlier round."""
        if self._rewarded:
            return self._sum.prepared(person, self._pending[late])
        return self._prepared(person)

    def _take(self, ready: Any, within_limit: bool) -> None:
        if self._rewarded:  # a person over the limit counts as one without a reward
            ready = self._ticket(), ready if within_limit else None
        elif not within_limit:
            ready = None
        learned = ready is not None or self._window is not None  # a window draws for everybody
        self._rounds.close(then=partial(self._observe, ready) if learned else None)

    def _take_late(self, ticket: Ticket, ready: Any, within_limit: bool) -> None:
        """Record what `_prepared_late` returned; people who arrive at a full batch wait for a later one.

        Where a person may be in several batches nobody waits: a waiting person would enter another batch than
        the one they were counted in, perhaps one twice. There, such a round is not learned from.
        """
        if self._rewarded:
            self._observe((ticket, ready if within_limit else None))
            return
        if self._rounds.over:  # no later release could include this person
            return
        once = self._window is not None or self.budget.max_rounds_per_person == 1
        if within_limit and (not self._batched or self._waiting.admits(ready, keep=once)):
            self._observe_waiting(ready)
        elif self._window is not None and not within_limit:
            self._observe(None)

    def _observe_waiting(self, ready: Any) -> None:
        """Record a person who comes late or had to wait."""
        self._observe(ready)

    # --- for subclasses: parts on other servers --------------------------------------------------

    def _check_divisible(self) -> None:
        """Refuse parts where a batch cannot be divided among servers."""
        if self._sum is not None:
            self._sum.check_divisible()

    def _summed(self) -> SumLayout:
        """The layout of what people add to the sums of the open batch."""
        if self._sum is None:
            raise NotImplementedError(f"{type(self).__name__} has no sums of people to divide")
        summed: SumLayout = self._sum.summed(self._shown)
        return summed

    def _batch(self) -> int:
        """The first round of the open batch."""
        if self._window is not None:
            return self._window.opens
        return int(self.settings.begins(self._rounds.number))

    def _room(self) -> int | None:
        """How many more people the open batch can take; None for any number."""
        if self._window is not None:
            return self._window.closes - self._rounds.number
        return int(self.settings.room(self._rounds.number))

    def _add_sums(self, sums: NDArray[np.int64], count: int) -> None:  # noqa: ARG002
        """Add the sums of the ``count`` people of a part."""
        if not self._sum.exhausted:
            self._sum.add(sums)

    def _part(self, about: tuple[str, int, int | None, str]) -> Partial:
        """An empty part of the open batch: of sums, or for a window, of the people themselves."""
        if self._window is not None:
            return part_of(self.settings, about)
        given = partial(given_person, Catalogue(self.n_items, self.labels), self.n_items)
        what = (self.n_items, self.bound, self._summed())
        units, everybody = partial(counted_person, *what), partial(counted_people, *what)
        return SummedPart(about, given, what[2].shape, units, everybody)

    def _check_part(self, part: Partial) -> None:
        """Refuse a part that does not fit this learner, or whose content its people cannot have produced."""
        if self._window is not None:
            self._window.check_part(part)
            return
        summed = self._summed()
        if not isinstance(part, SummedPart) or part.sums.shape != summed.shape:
            raise ValueError("the part is of another learner, or of other items")
        part.check(summed.least, summed.most)
        if self._sum is not None:
            self._sum.check(part.sums, part.count)

    def _take_part(self, part: Any) -> None:
        """Record the people of a part, whose rounds are closed."""
        if self._window is None:
            self._add_sums(part.sums, part.count)
        else:  # the secret sample is drawn only now, person by person
            for person in part.people:
                self._observe(person)
            self._window.learn_stores(part.stores)

    # --- inside: rounds --------------------------------------------------------------------------

    def _open(self) -> None:
        shown = self._new_set()
        if shown is None and self._pool is not None and self._pool.news:  # a new set without a new release
            shown = self._sum.drawn(self._rounds.number, self._catalogue.active, self._pool)
        self._rounds.open(shown)
        self._catalogue.recent.append(self._rounds.shown)

    def _new_set(self) -> NDArray[Any] | None:
        """A new set where one is due; the first one begins with the items of `_first` that are active."""
        if not self._due() and self._rounds.shown is not None:  # None after an interrupted first draw, too
            return None
        self._waiting.room = 0
        shown = self._draw()
        return self._with_first(shown) if self._first and not self._rounds.number else shown

    def _with_first(self, shown: NDArray[Any]) -> NDArray[Any]:
        chosen: list[int] = []
        first = [item for item in self._first if self._active()[item]]
        self._catalogue.fill(chosen, [*first, *shown.tolist()], shown.size, self._feasible)
        return np.array(chosen, dtype=shown.dtype)

    def _decide(self) -> Any:
        return self._fitted(self._next(), self._catalogue.request())

    def _request(self, available: Any = None, exclude: Any = None, include: Any = None) -> Request | None:
        """The items that can and those that must be shown this round; None if there is no restriction."""
        if available is None and exclude is None and include is None and self._catalogue.active is None:
            return None
        # Under a constraint a set may have fewer items.
        least = 0 if self._constrained else self._width
        request = self._catalogue.request(available, exclude, include, least)
        if request is not None and not self._feasible([*request.first]):  # before the round passes
            raise ValueError("include holds items that the constraint does not allow together")
        return request

    def _fitted(self, standing: Selection, request: Request | None) -> Selection:
        """The current set, adapted to the items that can be shown in this round."""
        if request is None:
            self._rounds.altered = False
            return standing
        feasible = self._feasible if self._constrained else None
        items = self._catalogue.served(standing.items, self._ranking, request, feasible)
        self._rounds.altered = items != standing.items
        return self._selection(items)

    def _refit(self) -> None:
        """Replace retired items in the current set."""
        if self._rounds.shown is not None:
            fitted = self._fitted(self._decision(self._rounds.shown), self._catalogue.request())
            self._rounds.shown = np.array(self._row(fitted), dtype=self._played_type)
            self._rounds.altered = False

    def _selection(self, items: tuple[int, ...]) -> Selection:
        labels = self.settings.labels
        given = None if labels is None else tuple(labels[item] for item in items)
        return Selection(items, self._rounds.number, given)

    def _late(self, round: int) -> int:
        """Check that ``round`` is an earlier round whose feedback is still awaited."""
        late = checks.whole("round", round, at_least=0)
        if late not in self._pending:
            passed = late < self._rounds.number
            why = "has been counted, or has expired" if passed else "has not been chosen for"
            waiting = self._pending.rounds
            few = ", ".join(map(str, waiting[:5])) + (", ..." if len(waiting) > 5 else "")
            raise ValueError(
                f"round={late} {why}; feedback is open for"
                f" {f'rounds {few}' if waiting else 'no earlier round'}"
            )
        return late

    def _pass_on(self) -> None:
        """Close the open round without its feedback, which may still come."""
        later = partial(self._pending.add, self._rounds.number, self._ticket())
        self._rounds.close(then=later)  # so that an interruption never leaves the round both open and pending
        if self._batched and (waiting := self._waiting.passed()) is not None:
            self._observe_waiting(waiting)
        if len(self._pending) > MOST_OPEN:
            self._expire(1)

    def _finished(self) -> None:
        super()._finished()
        self._waiting = Waiting()  # no later release could include the people who wait
        for part in vars(self).values():
            if isinstance(part, Window):
                part.clear()

    def _wait_no_more(self) -> None:
        self._pending.clear()  # unlike expiring rounds, these complete no block, which would be released

    def _expire(self, count: int) -> int:
        """Stop waiting for the ``count`` oldest pending rounds."""
        for _ in range(count):
            oldest = self._pending.oldest
            assert oldest is not None
            ticket = self._pending.take(oldest)
            if self._rewarded:
                self._sum.take(ticket, None)
        return count

    # --- inside: whole streams -------------------------------------------------------------------

    def _run(self, stream: Stream) -> None:
        before, late = [*self._catalogue.recent], int(self._rounds.is_open)
        rows = stream.people.as_rows()
        if rows is None:
            self._run_one_by_one(stream)
        elif self._rewarded:
            self._run_rewards(stream, rows)
        else:
            self._run_rows(stream, rows)
        shown = stream.selections[late:][-RECENT:].copy()
        self._catalogue.recent = deque([*before, *shown], RECENT)
        self._waiting.room = 0  # rounds without feedback before the stream may be in another batch

    def _run_one_by_one(self, stream: Stream) -> None:
        super()._run(stream)

    def _run_rows(self, stream: Stream, rows: Rows) -> None:
        """The same as `_run_one_by_one`, for people given as rows: a batch at a time, compiled."""
        people, count = stream.people, stream.rewards.size
        seen = people if self._sum is None else self._sum.counted(people[:count], self._rounds.number)
        for here in track(self._batches(count), "rounds", stream.progress, count):
            part = stream.part(here)
            rows.compressed.values(self._shown[self._shown >= 0], here.start, part.rewards)
            part.selections[:] = self._shown
            learned = partial(self._observe_rows, seen, here.start, part.within_limit)
            self._rounds.close(part.rewards.size, then=learned)

    def _run_rewards(self, stream: Stream, rows: Rows) -> None:
        """The same for rewards of people given as rows."""
        if len(self._pending) or self._catalogue.active is not None or not self._sum.compiles:
            self._run_one_by_one(stream)  # the compiled loop does not support these cases
            return
        self._next()  # the first set is drawn before anybody of this stream is seen
        self._sum.run_rows(stream, rows, self._rounds)

    def _batches(self, count: int) -> Iterator[slice]:
        """``count`` rounds in slices that share a set, which is drawn when its slice is requested."""
        start = 0
        while start < count:
            self._next()
            room = self._room()
            stop = count if room is None else min(count, start + room)
            yield slice(start, stop)
            start = stop

    @property
    def _width(self) -> int:
        return int(self.settings.k)

    # A set of fewer than `_width` items is padded with -1.

    def _decision(self, shown: NDArray[Any]) -> Selection:
        items = shown.tolist()
        return self._selection(tuple(items if items[-1] >= 0 else items[: items.index(-1)]))

    def _row(self, decision: Selection) -> tuple[int, ...]:
        return decision.items + (-1,) * (self._width - len(decision.items))

    def _feedback(self, person: Any, decision: Selection, value: float) -> Any:
        return self._sum.simulated_feedback(person, decision.items, value) if self._rewarded else person

    def _value(self, person: Any, decision: Selection) -> float:
        return answers.number("value", person.value(decision.items), 0.0, self.settings.bound)

    def _could_show(self, shown: NDArray[Any]) -> bool:
        inside = bool(((shown >= 0) & (shown < self.n_items)).all())
        return super()._could_show(shown) and inside and np.unique(shown).size == shown.size
