"""The base of online learners: the order of calls, the horizon, the account, saving.

A round is `choose`, then `learn`. Choosing again before learning gives the same decision. A failing `learn`
leaves everything as it was, and the round open. After the declared horizon the last decision is served on,
which costs nothing, and learning is refused (or `continue_without_learning`). Threads may
share a learner: calls take turns.

A learner is frozen `LearnerSettings`, a gate that its releases were paid at, and parts with a state:
`Rounds`, a `ContributionLimit`, and whatever holds people's feedback. A new one and one that comes back from
a file are put together by the same `_begin`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NoReturn, Self

import numpy as np
from numpy.typing import NDArray

from ..core.fixed import fix, fixed
from ..core.progress import track
from ..core.state import (
    State,
    capture,
    read_state,
    refusing,
    restore,
    state_bytes,
    state_class,
    write_state,
)
from ..core.turns import Turns
from ..privacy import Account, Budget, Entry, Gate, Release, Releases, Share
from .contribution import ContributionLimit, ParticipationSettings
from .people import Played, in_memory
from .registry import REGISTRY

CALIBRATIONS = ("tight", "published")


class Rounds:
    """The number of the round, whether its decision has been asked for, and the decision.

    A round is closed before its person is taken up: an interruption in between may lose somebody, and never
    counts them twice. `close` is the only place where rounds pass.

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
        self.without_learning = False  # whether feedback beyond the horizon is taken, and not learned from
        self.altered = False  # whether this round serves another set than the one that was drawn

    @property
    def over(self) -> bool:
        """Whether the declared horizon has been reached."""
        return self.horizon is not None and self.number >= self.horizon

    def open(self, shown: NDArray[Any] | None = None) -> None:
        """This round's decision is asked for; ``shown`` is a new one, else the last one stands."""
        if shown is not None:
            self.shown = shown
        self.is_open, self.altered = True, False

    def close(self, count: int = 1, then: Callable[[], object] | None = None) -> None:
        """``count`` rounds pass; ``then`` takes up their people.

        Where none passes the open one stays open: its decision has been drawn, and a second draw would be one
        more than was paid for.
        """
        if not count:
            return
        self.number += count
        self.is_open = False
        if then is not None:
            then()
        if self.number == self.horizon and self._when_over is not None:
            self._when_over()

    def finish(self) -> None:
        """No round comes after those that have passed; one that is open passes."""
        if not self.over:
            self.horizon, self.is_open = self.number, False
            if self._when_over is not None:
                self._when_over()

    def _resumed(self) -> None:
        good = self.number >= 0 and (self.horizon is None or self.number <= self.horizon - self.is_open)
        good = good and self.horizon in (self._declared, self.number)  # or it was finished before its time
        if not good or (self.shown is None and (self.number or self.is_open)):
            raise ValueError(f"nothing was decided for round {self.number}")


@dataclass(frozen=True, kw_only=True)
class LearnerSettings(ParticipationSettings):
    """Everything that a learner's decisions, its account and its certificate follow from.

    ``tight`` and ``published`` of a subclass compute one from what a user asks for; the learner, the
    certificate and the planner read it.
    """

    rounds: int | None
    calibration: str

    @property
    def horizon(self) -> int:
        """The declared number of rounds, where there is one."""
        assert self.rounds is not None
        return self.rounds


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
    progress: bool = False

    def part(self, here: slice) -> Stream:
        """Some of the rounds, with the same people."""
        return Stream(self.people, self.within_limit[here], self.rewards[here], self.selections[here])


@fixed
class OnlineLearner:
    """Decide every round, then learn from the person of that round.

    Subclasses say what a decision is, when a new one is drawn and how, and what is kept of a person.
    ``budget`` is a `Budget`, a share of one, or a `Gate` to spend from: `spend_from` makes a `Share` of each.
    """

    _settings_type: ClassVar[type[LearnerSettings]]
    _played_type: ClassVar[type[np.generic]] = np.float64
    _guarantee_type: ClassVar[type[Guarantee]] = Guarantee
    _state: ClassVar[tuple[str, ...]] = ("_rounds", "_contribution")

    def __init__(self, settings: LearnerSettings, share: Share) -> None:
        assert share.gate is not None
        self._assemble(settings, share.gate, own_gate=share.own_gate)

    def _assemble(self, settings: LearnerSettings, gate: Gate, *, own_gate: bool) -> None:
        """Put the parts together, for a new learner or for one that comes back from a file."""
        self.settings = settings
        self._saved_alone = gate.owner is None  # and not with others that it is a part of
        self._gate, self._own_gate = gate.owned() if self._saved_alone else gate, own_gate
        self._turns = Turns("learner")
        self._rounds = Rounds(settings.rounds, self._finished)
        limit = gate.budget.max_rounds_per_person
        self._contribution = ContributionLimit(limit, gate.key(), self._rounds, settings.counted_since)
        self._begin()

    def __getattr__(self, name: str) -> Any:
        """A setting, such as ``rounds`` or ``calibration``, by its own name."""
        settings = self.__dict__.get("settings")
        if settings is not None and name[0] != "_":
            kind = getattr(type(settings), name, None)
            if name in settings.__dataclass_fields__ or isinstance(kind, property):
                return getattr(settings, name)
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.settings.__dataclass_fields__]

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
            # Everything was declared before the first round, so every privacy definition holds. At a shared
            # gate others may look at these answers first, and the gate's own definition counts.
            definition = None if self._own_gate else whole.definition
            so_far = replace(self._spent(), definition=definition)
            return self._guarantee_type(
                whole.budget, whole.ledger, whole.reproducible, whole.caveats, definition, spent=so_far
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
        left = count if self._rounds.horizon is None else min(count, self._rounds.horizon - self.round)
        within_limit = np.ones(left, dtype=np.bool_)
        if person_ids is not None:
            within_limit = self._contribution.register_all((person_ids[i] for i in range(left)), left)
        rewards, selections = np.empty(count), np.empty((count, self._width), dtype=self._played_type)
        start = self._rounds.number
        try:
            if left:
                self._gate.add_caveats(*getattr(people, "caveats", ()))
                self._run(Stream(people, within_limit, rewards[:left], selections[:left], progress))
        finally:
            if person_ids is not None:  # after a failure, people who were not reached have not been here
                for i in range(self._rounds.number - start, left):
                    if within_limit[i]:
                        self._contribution.forget(person_ids[i])
        if left < count:
            decision = self._decide()
            selections[left:] = self._row(decision)
            rewards[left:] = [self._value(people[i], decision) for i in range(left, count)]
        return rewards, selections

    def continue_without_learning(self) -> None:
        """Beyond the declared horizon take feedback, and learn nothing from it: it would cost more."""
        with self._turn("continue_without_learning()"):
            self._rounds.without_learning = True

    def finish(self) -> None:
        """Learn nothing from now on, as after the declared horizon: the last decision is served on.

        For a learner that another one takes the place of, such as that of the next period: the account
        knows from then on that it releases nothing more.
        """
        with self._turn("finish()"):
            self._rounds.finish()

    def _finished(self) -> None:
        """Nothing more will be decided: earlier states are not to be gone on from."""
        if self._saved_alone and self._gate.owner is not None:
            self._gate.owner.finish()

    # --- saving ----------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to a file, completely or not at all; `discreet.load` goes on from it.

        The file holds true sums of private data, and people who wait for a batch with room for them; only its
        owner may read it. A gate that others release through as well is not in it: save its ``state()`` too,
        unless its ledger is a `SQLiteLedger`, and give the restored gate (or a new one) to `discreet.load`.
        """
        with self._turn("save()"):
            write_state(path, *self._saved_whole())
            if self._gate.owner is not None:
                self._gate.owner.saved()

    def to_bytes(self) -> bytes:
        """What `save` writes, for a database; guard it as well. `discreet.load` takes it, too."""
        with self._turn("to_bytes()"):
            return state_bytes(*self._saved_whole())

    def _saved_whole(self) -> State:
        """What a file of this learner alone holds."""
        assert self._gate.owner is not None
        owner = self._gate.owner.state()
        header, arrays = self._saved()
        return header | {"owner": owner}, arrays

    def _saved(self) -> State:
        """What a file holds: a snapshot, which no later round changes."""
        state, arrays = capture(self)
        header = {
            "class": type(self).__name__,
            "settings": self.settings.plain(),
            "gate": self._gate.state() if self._own_gate else None,
            "caveats": list(self._gate.caveats),
            "state": state,
        }
        return header, arrays

    @classmethod
    def load(cls, path: str | os.PathLike[str] | bytes, *, gate: Gate | None = None) -> Self:
        """Go on from a saved file; what was spent stays spent.

        A file is a snapshot: going on from the same one twice draws the same rounds twice, and each account
        knows of one of them. ``gate`` is for learners that spend from one which others use as well: restored
        from its own state, or new over the same `SQLiteLedger`. The learner's charges are in its ledger,
        under the learner's id. They are taken up once: a learner that lives is refused there, and so is any
        state but the latest that the ledger knows of. A file with a gate of its own has no such ledger.
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
            learner._resume(header, arrays, gate)
        assert isinstance(learner, cls)
        return fix(learner)

    def _resume(self, header: dict[str, Any], arrays: Mapping[str, NDArray[Any]], gate: Gate | None) -> None:
        """Everything that a file says, and every release paid for."""
        own = Gate.from_state(header["gate"]) if gate is None else gate
        with own._again(header["owner"]) as view:
            self._take_up(header, arrays, view, own_gate=gate is None)
        self._saved_alone = True

    def _take_up(
        self, header: dict[str, Any], arrays: Mapping[str, NDArray[Any]], gate: Gate, *, own_gate: bool
    ) -> None:
        """The same at a gate where it takes up what it was charged for."""
        settings = self._settings_type.read(header["settings"])
        self._assemble(settings, gate, own_gate=own_gate)
        restore(self, header["state"], arrays)
        gate.add_caveats(*header["caveats"])  # those of people who came after the gate was saved

    def _resumed(self) -> None:
        if self._rounds.shown is not None and not self._could_show(self._rounds.shown):
            raise ValueError(f"shown was never decided in round {self.round}")

    def __reduce__(self) -> NoReturn:
        raise TypeError("a learner is not copied or pickled (its budget could be spent twice); use save()")

    # --- for subclasses --------------------------------------------------------------------------

    _noun: ClassVar[str] = "decision"

    @property
    def _width(self) -> int:
        """How many numbers say what was played in a round."""
        raise NotImplementedError

    def _begin(self) -> None:
        """Make the parts that ``settings`` ask for, and reserve what will be released.

        While a file is read public randomness is blank and reservations take up what was charged.
        """
        raise NotImplementedError

    def _due(self) -> bool:
        """Whether this round gets a new decision."""
        raise NotImplementedError

    def _draw(self) -> NDArray[Any]:
        """A new decision; through the gate where it depends on people."""
        raise NotImplementedError

    def _decision(self, shown: NDArray[Any]) -> Any:
        """What `choose` returns for what `_draw` made."""
        raise NotImplementedError

    def _row(self, decision: Any) -> Any:
        """A decision as the row of numbers that a trace holds."""
        raise NotImplementedError

    def _value(self, person: Any, decision: Any) -> float:
        """What a decision brings, or costs, a person: for the trace of a simulated stream only."""
        raise NotImplementedError

    def _trace(self, rewards: NDArray[np.float64], selections: NDArray[Any]) -> Any:
        """What `run` returns."""
        raise NotImplementedError

    def _check_people(self, people: Any) -> None:
        """Refuse what this learner cannot learn from; one person, or a stream of them."""
        raise NotImplementedError

    def _observe(self, person: Any) -> None:
        """Take up what `_prepared` returned."""
        raise NotImplementedError

    def _spent(self) -> Account:
        """The account of what has been released so far."""
        raise NotImplementedError

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
        if self.over and self._rounds.without_learning:
            return
        if self.over:
            raise RuntimeError(
                f"the declared horizon of rounds={self.rounds} is over; choose() goes on serving the last"
                f" {self._noun}, and after continue_without_learning() feedback is taken and not learned from"
            )
        if not self._rounds.is_open:
            raise RuntimeError(
                f"learn() comes after choose(): this round's {self._noun} has not been asked for yet"
            )
        ready, caveats = self._prepared(person), tuple(getattr(person, "caveats", ()))
        if caveats:  # first: where they cannot be written down, nobody has been counted
            self._gate.add_caveats(*caveats)
        self._take(ready, self._contribution.register(person_id))

    def _feedback(self, person: Any, decision: Any, value: float) -> Any:  # noqa: ARG002
        """The feedback of somebody in a simulated stream: their function, or what they saw of it."""
        return person

    def _prepared(self, person: Any) -> Any:
        """``person`` checked, in the form `_observe` takes; nothing of the learner changes here."""
        self._check_people(person)
        return person

    def _take(self, ready: Any, within_limit: bool) -> None:
        """Close the round, then take up its person."""
        self._rounds.close(then=(lambda: self._observe(ready)) if within_limit else None)

    def _run(self, stream: Stream) -> None:
        """The stream round by round; learners that can, do it compiled, with the same outcome."""
        for t in track(range(stream.rewards.size), "rounds", stream.progress):
            decision = self._decide()
            person = stream.people[t]
            stream.rewards[t] = value = self._value(person, decision)
            stream.selections[t] = self._row(decision)
            self._take(self._prepared(self._feedback(person, decision, value)), bool(stream.within_limit[t]))

    def _account(self, *releases: tuple[str, Release, int]) -> Account:
        """An account of the given (label, release, count) under this learner's budget."""
        ledger = Releases()
        for label, release, count in releases:
            if count:
                ledger.add(Entry(label, release.event, release.disjoint), count)
        return Account(self.budget, ledger, self._gate.reproducible, self._gate.caveats)


def load(path: str | os.PathLike[str] | bytes, *, gate: Gate | None = None) -> Any:
    """Go on with a saved learner, or segments; what was spent stays spent. See `OnlineLearner.load`."""
    from .segments import Segments

    kind = Segments if state_class(path) == "Segments" else OnlineLearner
    return kind.load(path, gate=gate)
