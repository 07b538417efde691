"""What every online learner has in common: the order of calls, the horizon, the account, saving.

A round is `choose`, then `learn`. Choosing again before learning gives the same decision. A failing `learn`
leaves everything as it was, and the round open. After the declared horizon the last decision is served on,
which costs nothing, and learning is refused. Threads may share a learner: its calls take turns (`Turns`).
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NoReturn, Self

import numpy as np
from numpy.typing import NDArray

from ..core import checks
from ..core.fixed import Fixed
from ..core.progress import track
from ..core.state import Saved, read_state, refusing, snapshot, write_state
from ..core.turns import Turns
from ..privacy import Account, Budget, Entry, Event, Gate, MemoryLedger, RunningSum, Seed
from .contribution import Visits

CALIBRATIONS = ("tight", "published")


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
    admitted: NDArray[np.bool_]
    rewards: NDArray[np.float64]
    selections: NDArray[Any]
    progress: bool


class OnlineLearner(Fixed, ABC):
    """Decide every round, then learn from the person of that round.

    Subclasses say what a decision is, when a new one is drawn and how, and what is kept of a person.
    """

    _kinds: ClassVar[dict[str, type[OnlineLearner]]] = {}
    _played_type: ClassVar[type[np.generic]] = np.float64

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        OnlineLearner._kinds[cls.__name__] = cls

    def __init__(
        self,
        rounds: int | None,
        budget: Budget,
        *,
        calibration: str = "tight",
        seed: Seed = None,
    ) -> None:
        self.rounds = None if rounds is None else checks.whole("rounds", rounds, at_least=1)
        self.calibration = checks.one_of("calibration", calibration, CALIBRATIONS)
        self._gate = Gate(budget, seed)
        self._visits = Visits(budget.max_rounds_per_person, self._gate.key())
        self._round = 0
        self._shown: NDArray[Any] | None = None
        self._open = False
        self._turns = Turns("learner")

    # --- for users -------------------------------------------------------------------------------

    @property
    def budget(self) -> Budget:
        return self._gate.budget

    @property
    def round(self) -> int:
        """How many rounds have been learned from or passed."""
        return self._round

    @property
    def over(self) -> bool:
        """Whether the declared horizon has been reached."""
        return self.rounds is not None and self._round >= self.rounds

    @property
    def privacy(self) -> Guarantee:
        """The guarantee of the whole declared run; ``privacy.spent`` is the account so far."""
        with self._turns.look():
            whole = self._gate.spent
            # Everything was declared before the first round, so every privacy notion holds: none is picked.
            so_far = replace(self._spent(), notion=None)
            return Guarantee(whole.budget, whole.ledger, whole.reproducible, marks=whole.marks, spent=so_far)

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
            return self._run_all(people, person_ids, progress)

    def _run_all(self, people: Any, person_ids: Sequence[Hashable] | None, progress: bool) -> Any:
        count = len(people)
        if person_ids is not None and len(person_ids) != count:
            raise ValueError("person_ids must have as many entries as there are people")
        left = count if self.rounds is None else min(count, self.rounds - self._round)
        admitted = np.ones(left, dtype=np.bool_)
        if person_ids is not None:
            admitted = self._visits.admit_all((person_ids[i] for i in range(left)), left)
        rewards = np.empty(count)
        selections = np.empty((count, self._width), dtype=self._played_type)
        start = self._round
        try:
            if left:
                self._gate.mark(*getattr(people, "marks", ()))
                self._run(Stream(people, admitted, rewards[:left], selections[:left], progress))
        finally:
            if person_ids is not None:  # after a failure, people who were not reached have not been here
                for i in range(self._round - start, left):
                    if admitted[i]:
                        self._visits.forget(person_ids[i])
        if left < count:
            decision = self._next()
            selections[left:] = self._row(decision)
            rewards[left:] = [self._worth(people[i], decision) for i in range(left, count)]
        return self._trace(rewards, selections)

    # --- saving ----------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to a file, completely or not at all; `discreet.load` goes on from it.

        The file holds true sums of private data; only its owner may read it.
        """
        with self._turn("save()"):
            write_state(path, *self._saved())

    def _saved(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """What a file holds: a snapshot, which no later round changes."""
        header = {
            "class": type(self).__name__,
            "settings": self._settings(),
            "round": self._round,
            "open": self._open,
            "shown": None if self._shown is None else self._shown.tolist(),
            "gate": self._gate.state(),
        }
        return snapshot(header, self._visits.arrays() | self._arrays())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Go on from a saved file; what was spent stays spent.

        A file is a snapshot: going on from the same one twice draws the same rounds twice, and each account
        knows of one of them.
        """
        header, arrays = read_state(path)
        kind = OnlineLearner._kinds.get(str(header.get("class")))
        if kind is None or not issubclass(kind, cls):
            raise ValueError(f"{path} holds a {header.get('class')}, not a {cls.__name__}")
        learner = object.__new__(kind)
        with refusing(path):
            learner._resume(Saved(header, arrays))
        assert isinstance(learner, cls)
        return learner._fix()

    def _resume(self, header: Saved) -> None:
        """Everything that a file says, each field within its range, and every release paid for."""
        saved = header.inner("settings")
        self.rounds = None if self._endless else saved.whole("rounds", at_least=1)
        self.calibration = saved.one_of("calibration", CALIBRATIONS)
        self._gate, self._turns = Gate.from_state(header.plain("gate")), Turns("learner")
        self._visits = Visits.restored(self.budget.max_rounds_per_person, saved)
        self._round = header.whole("round", at_least=0, at_most=self.rounds)
        self._open = header.flag("open")
        self._shown = None
        if header.given("shown"):
            self._shown = np.array(header.rows("shown"), dtype=self._played_type)
        with self._gate.resumed():
            self._restore(saved)
        if self._shown is None:
            good = self._round == 0 and not self._open
        else:
            good = self._could_show(self._shown) and not (self._open and self.over)
        if not good:
            raise ValueError(f"shown={header.plain('shown')} was never decided in round {self._round}")

    def _drawn(self, every: int) -> int:
        """How many decisions were drawn so far, at the least, if a new one is due every so many rounds."""
        return -(-(self._round + self._open) // every)

    def _gathering(self, every: int, total: RunningSum | None) -> int:
        """Of how many rounds people can be waiting to be summed, where a sum takes them every so many."""
        full = total is not None and total.taken >= total.rounds
        return self._round if full else self._round - max(0, self._drawn(every) - 1) * every

    def _resumed_sum(
        self, saved: Saved, releases: int, make: Callable[[Event], RunningSum], least: int
    ) -> RunningSum | None:
        """The saved sum, made anew with the noise that was paid for; it has taken at least so many."""
        if saved.given("sum") != bool(releases):
            raise ValueError(f"there are {releases} sums to release, and the file does not say so")
        if not releases:
            return None
        part = saved.inner("sum", "sum_")
        total = make(Event.from_json(part.plain("event")))
        total.resume(part)
        if total.taken < min(least, total.rounds):
            raise ValueError(f"taken={total.taken}, but {least} sums have been asked for")
        return total

    def __reduce__(self) -> NoReturn:
        raise TypeError("a learner is not copied or pickled (its budget could be spent twice); use save()")

    # --- for subclasses --------------------------------------------------------------------------

    _noun: ClassVar[str] = "decision"
    _endless: ClassVar[bool] = False

    @property
    @abstractmethod
    def _width(self) -> int:
        """How many numbers say what was played in a round."""

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

    @abstractmethod
    def _arrays(self) -> dict[str, NDArray[Any]]: ...

    @abstractmethod
    def _restore(self, saved: Saved) -> None:
        """Take up what `_settings` and `_arrays` wrote, and reserve what will be released."""

    def _could_show(self, shown: NDArray[Any]) -> bool:
        """Whether such a decision can have been drawn."""
        return shown.shape == (self._width,) and bool(np.isfinite(shown).all())

    def _settings(self) -> dict[str, Any]:
        return {"rounds": self.rounds, "calibration": self.calibration}

    @contextmanager
    def _turn(self, call: str) -> Iterator[None]:
        """Around everything that changes the learner: in this process only, one call at a time."""
        self._gate.check_process()
        with self._turns.take(call):
            yield

    def _next(self) -> Any:
        """The decision for this round: `choose`, for those who have their turn."""
        if not self._open and not self.over:
            if self._due():
                self._shown = self._draw()
            self._open = True
        if self._shown is None:
            raise RuntimeError("no decision was ever drawn: an interruption came before the first one")
        return self._decision(self._shown)

    def _learn(self, person: Any, person_id: Hashable | None) -> None:
        """`learn`, for those who have their turn."""
        if self.over:
            raise RuntimeError(
                f"the declared horizon of rounds={self.rounds} is over; choose() goes on serving the last"
                f" {self._noun}"
            )
        if not self._open:
            raise RuntimeError(
                f"learn() comes after choose(): this round's {self._noun} has not been asked for yet"
            )
        ready, marks = self._prepared(person), tuple(getattr(person, "marks", ()))
        admitted = self._visits.admit(person_id)
        self._gate.mark(*marks)
        self._take(ready, admitted)

    def _prepared(self, person: Any) -> Any:
        """``person`` checked, in the form `_absorb` takes; nothing of the learner changes here."""
        self._check_people(person)
        return person

    def _take(self, ready: Any, admitted: bool) -> None:
        """Close the round, then take up its person: an interruption may lose somebody, never double them."""
        self._round += 1
        self._open = False
        if admitted:
            self._absorb(ready)

    def _run(self, stream: Stream) -> None:
        """The stream round by round; learners that can, do it compiled, with the same outcome."""
        for t in track(range(stream.rewards.size), "rounds", stream.progress):
            decision = self._next()
            person = stream.people[t]
            stream.rewards[t] = self._worth(person, decision)
            stream.selections[t] = self._row(decision)
            self._take(self._prepared(person), bool(stream.admitted[t]))

    def _account(self, *releases: tuple[str, Any, int]) -> Account:
        """An account of the given (label, event, count) releases under this learner's budget."""
        ledger = MemoryLedger()
        for label, event, count in releases:
            if count:
                ledger.add(Entry(label, event), count)
        return Account(self.budget, ledger, self._gate.reproducible, self._gate.marks)


def load(path: str | os.PathLike[str]) -> OnlineLearner:
    """Go on with a saved learner, whatever its kind; what was spent stays spent."""
    from . import _every_kind

    _every_kind()
    return OnlineLearner.load(path)
