"""The protocol of online learners: the order of calls, the horizon, the account, saving.

A round is `choose`, then `learn`. Choosing again before learning gives the same decision. A failing `learn`
leaves everything as it was, and the round open. After the declared horizon the last decision is served on,
which costs nothing, and learning is refused (or `go_on`). Threads may share a learner: calls take turns.

A learner is made of parts: frozen `LearnerSettings`, `Rounds`, a `ContributionLimit`, public `Coins`, and
whatever holds people's feedback (`PrivateTotal`, `BatchTotal`, scores). A new one and one that comes back
from a file are put together by the same `_begin`.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NoReturn, Self

import numpy as np
from numpy.typing import NDArray

from ..backends.patience import Patience
from ..core.fixed import Fixed
from ..core.progress import track
from ..core.settings import Setting, one_of, whole
from ..core.state import Saved, read_state, refusing, snapshot, state_bytes, write_state
from ..core.turns import Turns
from ..objectives.rows.people import RowPopulation
from ..privacy import Account, Budget, Entry, Gate, MemoryLedger, Release, Share
from .contribution import ContributionLimit, ParticipationSettings
from .parts import Part
from .people import Played, in_memory
from .registry import REGISTRY
from .rounds import Rounds

CALIBRATIONS = ("tight", "published")
PATIENCE = Patience(2500)  # rounds taken one by one, for each kind of learner


@dataclass(frozen=True, kw_only=True)
class LearnerSettings(ParticipationSettings):
    """Everything that a learner's decisions, its account and its certificate follow from.

    ``tight`` and ``published`` of a subclass compute one from what a user asks for; the learner, the
    certificate and the planner read it.
    """

    rounds: int | None = whole(at_least=1, optional=True)
    calibration: str = one_of(CALIBRATIONS)

    @property
    def horizon(self) -> int:
        """The declared number of rounds, where there is one."""
        assert self.rounds is not None
        return self.rounds

    @property
    def entries(self) -> int:
        """How many numbers a learner of these settings holds, at the least.

        A file that says otherwise is refused before anything so large is made.
        """
        return 0


@dataclass(frozen=True)
class Guarantee(Account):
    """The guarantee of the whole declared run, known before its first round; ``spent`` is the part so far."""

    spent: Account | None = None


@dataclass(frozen=True)
class Stream:
    """The rounds of one `run`: who comes, who is learned from, and where the answers go.

    ``selections`` has one row per round: what was played in it, as `OnlineLearner._row` writes it.
    """

    people: Any
    within_limit: NDArray[np.bool_]
    rewards: NDArray[np.float64]
    selections: NDArray[Any]
    progress: bool


class OnlineLearner(Fixed, ABC):
    """Decide every round, then learn from the person of that round.

    Subclasses say what a decision is, when a new one is drawn and how, and what is kept of a person.
    ``budget`` is a `Budget`, a share of one, or a `Gate` to spend from: `spend_from` makes a `Share` of each.
    """

    _settings_type: ClassVar[type[LearnerSettings]]
    _played_type: ClassVar[type[np.generic]] = np.float64
    _guarantee_type: ClassVar[type[Guarantee]] = Guarantee

    calibration = Setting('Whose constants are used: "tight" or "published".')
    rounds = Setting("How many rounds were declared; None for any number.")

    def __init__(self, settings: LearnerSettings, share: Share) -> None:
        assert share.gate is not None
        self._assemble(settings, share.gate, own_gate=share.own_gate)

    def _assemble(self, settings: LearnerSettings, gate: Gate, *, own_gate: bool) -> None:
        """Put the parts together, for a new learner or for one that comes back from a file."""
        self.settings = settings
        self._gate, self._own_gate = gate, own_gate
        self._turns = Turns("learner")
        self._rounds = Rounds(settings.rounds)
        limit = gate.budget.max_rounds_per_person
        self._contribution = ContributionLimit(limit, gate.key(), self._rounds, settings.counted_since)
        self._begin_common()
        self._begin()

    # --- for users -------------------------------------------------------------------------------

    @property
    def budget(self) -> Budget:
        return self._gate.budget

    @property
    def round(self) -> int:
        """How many rounds have been learned from or passed."""
        return self._rounds.number

    @property
    def over(self) -> bool:
        """Whether the declared horizon has been reached."""
        return self._rounds.over

    @property
    def privacy(self) -> Guarantee:
        """The guarantee of the whole declared run; ``privacy.spent`` is the account so far.

        At a gate that others release through as well it is the account of all of them.
        """
        with self._turns.look():
            whole = self._gate.spent
            # Everything was declared before the first round, so every privacy notion holds: none is picked.
            # At a shared gate others may look at these answers first, and the gate's own notion counts.
            notion = None if self._own_gate else whole.notion
            so_far = replace(self._spent(), notion=notion)
            return self._guarantee_type(
                whole.budget, whole.ledger, whole.reproducible, whole.marks, notion, spent=so_far
            )

    def choose(self) -> Any:
        """The decision for this round."""
        with self._turn("choose()"):
            return self._next()

    def learn(self, person: Any, *, person_id: Hashable | None = None) -> None:
        """Learn from the person for whom this round's decision was made.

        ``person_id`` (any hashable) lets the learner keep to ``max_rounds_per_person``: it is kept only as
        a keyed hash, and rounds beyond the limit pass without being learned from.
        """
        with self._turn("learn()"):
            self._learn(person, person_id)

    def run(
        self, people: Any, *, person_ids: Sequence[Hashable] | None = None, progress: bool = False
    ) -> Any:
        """The whole stream at once: the same decisions, for the same seed, as `choose` and `learn`.

        ``person_ids`` as in `learn`, one per person. People beyond the declared horizon are served the last
        decision and not learned from.
        """
        with self._turn("run()"):
            self._check_people(people)
            return self._trace(*in_memory(people, person_ids, progress, self._run_all))

    def _run_all(self, people: Any, person_ids: Sequence[Hashable] | None, progress: bool) -> Played:
        count = len(people)
        if person_ids is not None and len(person_ids) != count:
            raise ValueError("person_ids must have as many entries as there are people")
        self._contribution.check_named(person_ids)
        left = count if self._rounds.left is None else min(count, self._rounds.left)
        within_limit = np.ones(left, dtype=np.bool_)
        if person_ids is not None:
            within_limit = self._contribution.register_all((person_ids[i] for i in range(left)), left)
        rewards, selections = np.empty(count), np.empty((count, self._width), dtype=self._played_type)
        start = self._rounds.number
        try:
            if left:
                self._gate.mark(*getattr(people, "marks", ()))
                self._run_stretches(Stream(people, within_limit, rewards[:left], selections[:left], progress))
        finally:
            if person_ids is not None:  # after a failure, people who were not reached have not been here
                for i in range(self._rounds.number - start, left):
                    if within_limit[i]:
                        self._contribution.forget(person_ids[i])
        if left < count:
            decision = self._decide()
            selections[left:] = self._row(decision)
            rewards[left:] = [self._worth(people[i], decision) for i in range(left, count)]
        return rewards, selections

    def go_on(self) -> None:
        """Beyond the declared horizon take feedback, and learn nothing from it: it would cost more."""
        with self._turn("go_on()"):
            self._rounds.goes_on = True

    # --- saving ----------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to a file, completely or not at all; `discreet.load` goes on from it.

        The file holds true sums of private data, and people who wait for a batch with room for them; only its
        owner may read it. A gate that others release through as well is not in it: save its ``state()`` too,
        unless its ledger is a `SQLiteLedger`, and give the restored gate (or a new one) to `discreet.load`.
        """
        with self._turn("save()"):
            write_state(path, *self._saved())

    def to_bytes(self) -> bytes:
        """What `save` writes, for a database; guard it as well. `discreet.load` takes it, too."""
        with self._turn("to_bytes()"):
            return state_bytes(*self._saved())

    def _saved(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """What a file holds: a snapshot, which no later round changes."""
        parts = {**self._common_parts(), **self._parts()}
        states = {name: part.state() for name, part in parts.items()}
        header = {
            "class": type(self).__name__,
            "settings": self.settings.plain(),
            "gate": self._gate.state() if self._own_gate else None,
            "parts": {name: plain for name, (plain, _) in states.items()},
        }
        arrays = {f"{name}.{key}": array for name, (_, own) in states.items() for key, array in own.items()}
        return snapshot(header, arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str] | bytes, *, gate: Gate | None = None) -> Self:
        """Go on from a saved file; what was spent stays spent.

        A file is a snapshot: going on from the same one twice draws the same rounds twice, and each account
        knows of one of them. ``gate`` is for learners that spend from one which others use as well: restored
        from its own state, or new over the same `SQLiteLedger`; the learner's releases are charged there.
        """
        header, arrays = read_state(path)
        path = "the state" if isinstance(path, bytes) else path
        name = str(header.get("class"))
        if name not in REGISTRY or not issubclass(kind := REGISTRY[name].kind(name), cls):
            raise ValueError(f"{path} holds a {name}, not a {cls.__name__}")
        shared = header.get("gate") is None
        if shared and gate is None:
            raise ValueError(f"{path} spends from a gate that others use too; give gate=, restored as well")
        if gate is not None and not shared:
            raise ValueError(f"{path} has a gate of its own; leave gate= out")
        learner = object.__new__(kind)
        with refusing(path):
            learner._resume(Saved(header, arrays), gate)
        assert isinstance(learner, cls)
        return learner._fix()

    def _resume(self, header: Saved, gate: Gate | None) -> None:
        """Everything that a file says, each field within its range, and every release paid for."""
        own = Gate.from_state(header.plain("gate")) if gate is None else gate
        with own.resumed():
            self._take_up(header, own, own_gate=gate is None)

    def _take_up(self, header: Saved, gate: Gate, *, own_gate: bool) -> None:
        """The same at a gate that is being resumed."""
        settings = self._settings_type.read(header.inner("settings"))
        if settings.entries > header.entries:
            raise ValueError("its arrays are smaller than its settings say")
        self._assemble(settings, gate, own_gate=own_gate)
        self._restore_common(header)
        self._restore(header)
        self._restore_late(header)
        self._rounds.check()

    def __reduce__(self) -> NoReturn:
        raise TypeError("a learner is not copied or pickled (its budget could be spent twice); use save()")

    # --- for subclasses --------------------------------------------------------------------------

    _noun: ClassVar[str] = "decision"

    @property
    @abstractmethod
    def _width(self) -> int:
        """How many numbers say what was played in a round."""

    def _begin_common(self) -> None:
        """Make the parts that a whole family of learners has, before `_begin`."""

    def _common_parts(self) -> dict[str, Part]:
        """The parts that every learner has, by name."""
        return {"rounds": self._rounds, "contribution": self._contribution}

    def _restore_common(self, saved: Saved) -> None:
        """Take up what they held, before `_restore`."""
        self._rounds.resume(saved.part("rounds"), self._played_type, self._could_show)
        self._contribution.resume(saved.part("contribution"))

    def _restore_late(self, saved: Saved) -> None:
        """Take up what depends on what `_restore` took up."""

    @abstractmethod
    def _begin(self) -> None:
        """Make the parts that ``settings`` ask for, and reserve what will be released.

        While a file is read coins are blank and reservations take up what was charged; `_restore` follows.
        """

    @abstractmethod
    def _parts(self) -> Mapping[str, Part]:
        """The parts that hold something worth saving, by name."""

    @abstractmethod
    def _restore(self, saved: Saved) -> None:
        """Take up what the parts held: ``saved.part(name)`` is the state of one."""

    @abstractmethod
    def _due(self) -> bool:
        """Whether this round gets a new decision."""

    @abstractmethod
    def _draw(self) -> NDArray[Any]:
        """A new decision; through the gate where it depends on people."""

    @abstractmethod
    def _decision(self, shown: NDArray[Any]) -> Any:
        """What `choose` returns for what `_draw` made."""

    @abstractmethod
    def _row(self, decision: Any) -> Any:
        """A decision as the row of numbers that a trace holds."""

    @abstractmethod
    def _worth(self, person: Any, decision: Any) -> float:
        """What a decision brings, or costs, a person: for the trace of a simulated stream only."""

    @abstractmethod
    def _trace(self, rewards: NDArray[np.float64], selections: NDArray[Any]) -> Any:
        """What `run` returns."""

    @abstractmethod
    def _check_people(self, people: Any) -> None:
        """Refuse what this learner cannot learn from; one person, or a stream of them."""

    @abstractmethod
    def _absorb(self, person: Any) -> None:
        """Take up what `_prepared` returned."""

    @abstractmethod
    def _spent(self) -> Account:
        """The account of what has been released so far."""

    def _could_show(self, shown: NDArray[Any]) -> bool:
        """Whether such a decision can have been drawn."""
        return shown.shape == (self._width,) and bool(np.isfinite(shown).all())

    def _turn(self, call: str) -> AbstractContextManager[object]:
        """Around everything that changes the learner: in this process only, one call at a time."""
        self._gate.check_process()
        return self._turns.take(call)

    @property
    def _shown(self) -> NDArray[Any]:
        """What was decided last, where something was."""
        assert self._rounds.shown is not None
        return self._rounds.shown

    def _next(self) -> Any:
        """The decision for this round: `choose`, for those who have their turn."""
        if not self._rounds.is_open and not self.over:
            self._rounds.open(self._draw() if self._due() else None)
        if self._rounds.shown is None:
            raise RuntimeError("no decision was ever drawn: an interruption came before the first one")
        return self._decision(self._rounds.shown)

    def _decide(self) -> Any:
        """The decision as it is played; here the one that was drawn."""
        return self._next()

    def _learn(self, person: Any, person_id: Hashable | None) -> None:
        """`learn`, for those who have their turn."""
        if self.over and self._rounds.goes_on:
            return
        if self.over:
            raise RuntimeError(
                f"the declared horizon of rounds={self.rounds} is over; choose() goes on serving the last"
                f" {self._noun}, and after go_on() feedback is taken and not learned from"
            )
        if not self._rounds.is_open:
            raise RuntimeError(
                f"learn() comes after choose(): this round's {self._noun} has not been asked for yet"
            )
        ready, marks = self._prepared(person), tuple(getattr(person, "marks", ()))
        within_limit = self._contribution.register(person_id)
        if marks:
            self._gate.mark(*marks)
        self._take(ready, within_limit)

    def _feedback(self, person: Any, decision: Any, worth: float) -> Any:  # noqa: ARG002
        """The feedback of somebody in a simulated stream: their function, or what they saw of it."""
        return person

    def _prepared(self, person: Any) -> Any:
        """``person`` checked, in the form `_absorb` takes; nothing of the learner changes here."""
        self._check_people(person)
        return person

    def _take(self, ready: Any, within_limit: bool) -> None:
        """Close the round, then take up its person."""
        self._rounds.close(then=(lambda: self._absorb(ready)) if within_limit else None)

    def _run_stretches(self, stream: Stream) -> None:
        """The stream in as many pieces as its people come in, with the same outcome as in one."""
        people = stream.people
        pieces = people.stretches(stream.rewards.size) if isinstance(people, RowPopulation) else []
        if len(pieces) <= 1:
            self._run(stream)
            return
        for number in track(range(len(pieces)), "stretches", stream.progress):
            here = pieces[number]
            inside = (stream.within_limit[here], stream.rewards[here], stream.selections[here])
            self._run(Stream(people.stretch(here), *inside, progress=False))

    def _can_wait(self, rounds: int) -> bool:
        """Whether so many rounds are over sooner without a compiled loop."""
        return PATIENCE.lasts(rounds, type(self), self._loop)

    def _loop(self) -> Any:
        """The compiled loop over rounds that takes longest to compile, where there is one."""
        return None

    def _run(self, stream: Stream) -> None:
        """The stream round by round; learners that can, do it compiled, with the same outcome."""
        for t in track(range(stream.rewards.size), "rounds", stream.progress):
            decision = self._decide()
            person = stream.people[t]
            stream.rewards[t] = worth = self._worth(person, decision)
            stream.selections[t] = self._row(decision)
            self._take(self._prepared(self._feedback(person, decision, worth)), bool(stream.within_limit[t]))

    def _account(self, *releases: tuple[str, Release, int]) -> Account:
        """An account of the given (label, release, count) under this learner's budget."""
        ledger = MemoryLedger()
        for label, release, count in releases:
            if count:
                ledger.add(Entry(label, release.event, release.disjoint), count)
        return Account(self.budget, ledger, self._gate.reproducible, self._gate.marks)
