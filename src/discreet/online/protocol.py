"""What every online learner of sets has in common: the order of calls, the horizon, the account, saving.

A round is `choose`, then `learn`. Choosing again before learning gives the same set. A failing `learn`
leaves everything as it was, and the round open. After the declared horizon the last set is served on,
which costs nothing, and learning is refused.
"""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn, Self

import numpy as np
from numpy.typing import NDArray

from .. import _checks
from .._progress import track
from .._state import read_state, write_state
from ..objectives import Population
from ..objectives.rows import Rows
from ..privacy import Account, Budget, Gate, Randomness
from ..privacy.accounting import Ledger
from ..results import Selection, Trace
from .visits import Visits

CALIBRATIONS = ("tight", "published")


@dataclass(frozen=True)
class Guarantee(Account):
    """The guarantee of the whole declared run, known before its first round; ``spent`` is the part so far."""

    spent: Account | None = None


@dataclass(frozen=True)
class Stream:
    """The rounds of one `run`: who comes, who is learned from, and where the answers go."""

    people: Population
    admitted: NDArray[np.bool_]
    rewards: NDArray[np.float64]
    selections: NDArray[np.int32]
    progress: bool


class OnlineSelector(ABC):
    """Choose k of n items every round, then learn from the person of that round.

    Subclasses say when a new set is drawn and how, and what is kept of a person.
    """

    _kinds: ClassVar[dict[str, type[OnlineSelector]]] = {}

    def __init_subclass__(cls) -> None:
        OnlineSelector._kinds[cls.__name__] = cls

    def __init__(
        self,
        n_items: int,
        k: int,
        rounds: int | None,
        budget: Budget,
        *,
        bound: float = 1.0,
        calibration: str = "tight",
        labels: Sequence[Any] | None = None,
        seed: Randomness | int | None = None,
    ) -> None:
        self.n_items = _checks.whole("n_items", n_items, at_least=1)
        self.k = _checks.whole("k", k, at_least=1)
        if self.k > self.n_items:
            raise ValueError(f"k={k} exceeds n_items={n_items}; choose k <= {n_items}")
        self.rounds = None if rounds is None else _checks.whole("rounds", rounds, at_least=1)
        self.bound = _checks.real("bound", bound, above=0.0)
        self.calibration = _checks.one_of("calibration", calibration, CALIBRATIONS)
        if labels is not None and len(labels) != self.n_items:
            raise ValueError(f"labels has {len(labels)} entries; there are {self.n_items} items")
        self.labels = None if labels is None else tuple(_plain_label(label) for label in labels)
        self._gate = Gate(budget, seed)
        self._visits = Visits(budget.max_rounds_per_person, self._gate.randomness)
        self._round = 0
        self._shown: NDArray[np.int32] | None = None
        self._open = False
        self._lock = threading.RLock()

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
        whole = self._gate.spent
        return Guarantee(whole.budget, whole.ledger, whole.reproducible, self._spent())

    def choose(self) -> Selection:
        """The set for this round."""
        self._gate.check_process()
        with self._lock:
            if not self._open and not self.over:
                if self._due():
                    self._shown = self._draw()
                self._open = True
            shown = self._shown
        if shown is None:
            raise RuntimeError("no set was ever drawn: an interruption came before the first one")
        items = tuple(int(item) for item in shown)
        labels = None if self.labels is None else tuple(self.labels[item] for item in items)
        return Selection(items, self._round, labels)

    def learn(self, person: Any, *, person_id: Hashable | None = None) -> None:
        """Learn from the person to whom this round's set was shown.

        ``person_id`` (any hashable) lets the learner keep to ``max_rounds_per_person``: it is kept only as
        a keyed hash, and rounds beyond the limit pass without being learned from.
        """
        self._gate.check_process()
        with self._lock:
            if self.over:
                raise RuntimeError(
                    f"the declared horizon of rounds={self.rounds} is over; choose() goes on serving the last"
                    " set"
                )
            if not self._open:
                raise RuntimeError(
                    "learn() comes after choose(): this round's set has not been asked for yet"
                )
            self._take(self._prepared(person), self._visits.admit(person_id))

    def run(
        self, people: Population, *, person_ids: Sequence[Hashable] | None = None, progress: bool = False
    ) -> Trace:
        """The whole stream at once: the same sets, for the same seed, as `choose` and `learn` one by one.

        ``person_ids`` as in `learn`, one per person. People beyond the declared horizon are served the last
        set and not learned from.
        """
        self._gate.check_process()
        self._check_people(people)
        with self._lock:
            return self._run_all(people, person_ids, progress)

    def _run_all(self, people: Population, person_ids: Sequence[Hashable] | None, progress: bool) -> Trace:
        count = len(people)
        if person_ids is not None and len(person_ids) != count:
            raise ValueError(f"person_ids has {len(person_ids)} entries; there are {count} people")
        left = count if self.rounds is None else min(count, self.rounds - self._round)
        admitted = np.ones(left, dtype=np.bool_)
        if person_ids is not None:
            admitted = self._visits.admit_all((person_ids[i] for i in range(left)), left)
        rewards = np.empty(count)
        selections = np.empty((count, self.k), dtype=np.int32)
        start = self._round
        try:
            stream = Stream(people, admitted, rewards[:left], selections[:left], progress)
            rows = people.as_rows()
            if left and rows is not None:
                self._run_rows(stream, rows)
            elif left:
                self._run(stream)
        finally:
            if person_ids is not None:  # after a failure, people who were not reached have not been here
                for i in range(self._round - start, left):
                    if admitted[i]:
                        self._visits.forget(person_ids[i])
        if left < count:
            shown = self.choose().items
            selections[left:] = shown
            rewards[left:] = [people[i].value(shown) for i in range(left, count)]
        return Trace(rewards, selections, type(self).__name__)

    # --- saving ----------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to a file, completely or not at all; `discreet.load` goes on from it.

        The file holds true sums of private data; only its owner may read it.
        """
        self._gate.check_process()
        with self._lock:
            write_state(path, *self._saved())

    def _saved(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        header = {
            "class": type(self).__name__,
            "settings": self._settings(),
            "round": self._round,
            "open": self._open,
            "shown": None if self._shown is None else self._shown.tolist(),
            "labels": None if self.labels is None else list(self.labels),
            "gate": self._gate.state(),
        }
        return header, self._visits.arrays() | self._arrays()

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Go on from a saved file; what was spent stays spent.

        A file is a snapshot: going on from the same one twice draws the same rounds twice, and each account
        knows of one of them.
        """
        header, arrays = read_state(path)
        kind = OnlineSelector._kinds.get(str(header.get("class")))
        if kind is None or not issubclass(kind, cls):
            raise ValueError(f"{path} holds a {header.get('class')}, not a {cls.__name__}")
        gate = Gate.from_state(header["gate"])
        learner = object.__new__(kind)
        settings = header["settings"]
        learner.n_items, learner.k, learner.rounds = settings["n_items"], settings["k"], settings["rounds"]
        learner.bound, learner.calibration = settings["bound"], settings["calibration"]
        labels = header["labels"]
        learner.labels = None if labels is None else tuple(labels)
        learner._gate, learner._lock = gate, threading.RLock()
        learner._visits = Visits.restored(gate.budget.max_rounds_per_person, arrays)
        learner._round, learner._open = header["round"], header["open"]
        shown = header["shown"]
        learner._shown = None if shown is None else np.array(shown, dtype=np.int32)
        learner._restore(settings, arrays)
        assert isinstance(learner, cls)
        return learner

    def __reduce__(self) -> NoReturn:
        raise TypeError("a learner is not copied or pickled (its budget could be spent twice); use save()")

    def __repr__(self) -> str:
        horizon = "" if self.rounds is None else f" of {self.rounds:,}"
        return f"{type(self).__name__}({self.k} of {self.n_items:,} items, round {self._round:,}{horizon})"

    # --- for subclasses --------------------------------------------------------------------------

    @abstractmethod
    def _due(self) -> bool:
        """Whether this round gets a new set."""

    @abstractmethod
    def _draw(self) -> NDArray[np.int32]:
        """A new set; through the gate where it depends on people."""

    @abstractmethod
    def _absorb(self, person: Any) -> None:
        """Take up what `_prepared` returned."""

    @abstractmethod
    def _spent(self) -> Account:
        """The account of what has been released so far."""

    @abstractmethod
    def _arrays(self) -> dict[str, NDArray[Any]]: ...

    @abstractmethod
    def _restore(self, settings: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None: ...

    def _settings(self) -> dict[str, Any]:
        return {
            "n_items": self.n_items,
            "k": self.k,
            "rounds": self.rounds,
            "bound": self.bound,
            "calibration": self.calibration,
        }

    def _prepared(self, person: Any) -> Any:
        """``person`` checked, in the form `_absorb` takes; nothing of the learner changes here."""
        self._check_people(person)
        if len(person) != 1:
            raise ValueError(f"learn() takes one person, got {len(person)}; use run() for a stream")
        return person

    def _take(self, ready: Any, admitted: bool) -> None:
        """Close the round, then take up its person: an interruption may lose somebody, never double them."""
        self._round += 1
        self._open = False
        if admitted:
            self._absorb(ready)

    def _run(self, stream: Stream) -> None:
        """The stream round by round."""
        for t in track(range(stream.rewards.size), "rounds", stream.progress):
            shown = self.choose().items
            person = stream.people[t]
            stream.rewards[t] = person.value(shown)
            stream.selections[t] = shown
            self._take(self._prepared(person), bool(stream.admitted[t]))

    @abstractmethod
    def _run_rows(self, stream: Stream, rows: Rows) -> None:
        """The same, with the same outcome, for people who are rows: compiled."""

    def _check_people(self, people: Any) -> None:
        if not isinstance(people, Population):
            raise TypeError(
                f"expected a person's function (an objective such as Coverage or SetFunction), got"
                f" {type(people).__name__}"
            )
        if people.n_items != self.n_items:
            raise ValueError(
                f"the function is over {people.n_items} items; this learner chooses among {self.n_items}"
            )
        if people.bound > self.bound * (1 + 1e-12):
            raise ValueError(
                f"the function may reach {people.bound:g}, above the learner's bound={self.bound:g}; rescale"
                " it or declare a larger bound"
            )
        if not people.monotone:
            raise ValueError("the learner needs functions that never fall when an item is added (monotone)")

    def _account(self, *releases: tuple[str, Any, int]) -> Account:
        """An account of the given (label, event, count) releases under this learner's budget."""
        ledger = Ledger()
        for label, event, count in releases:
            if count:
                ledger.add(label, event, count)
        return Account(self.budget, ledger, not self._gate.randomness.secure)


def _plain_label(label: Any) -> Any:
    """A label that a saved file can hold."""
    plain = label.item() if isinstance(label, np.generic) else label
    if not isinstance(plain, str | int | float | bool):
        raise TypeError(f"label {label!r} is neither text nor a number; a saved learner could not hold it")
    return plain


def load(path: str | os.PathLike[str]) -> OnlineSelector:
    """Go on with a saved learner, whatever its kind; what was spent stays spent."""
    from . import hedge, phased, running_sums  # noqa: F401  (so that every kind is known)

    return OnlineSelector.load(path)
