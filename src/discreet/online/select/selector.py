"""Learners that choose a set of k items every round, for people who are monotone set functions."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ...core import checks
from ...core.labels import check_distinct, plain_label
from ...core.progress import track
from ...core.settings import Setting, of, whole
from ...objectives import Population, answers
from ...objectives.rows.functions import function_rows
from ...objectives.rows.table import Rows
from ...privacy import ExponentialChoice, ScoreChange, Share, SumSpec
from ...results import Selection, Trace
from ..people import check_population
from ..protocol import CALIBRATIONS, LearnerSettings, Stream
from ..serving import ServingLearner
from .functions import FunctionRounds, can_wait


@dataclass(frozen=True, kw_only=True)
class SelectorSettings(LearnerSettings):
    """Settings of learners that choose k of n items."""

    n_items: int = whole(at_least=1, at_most=(1 << 31) - 1)
    k: int = whole(at_least=1)
    bound: float = of(checks.bound)
    labels: tuple[Any, ...] | None = of(tuple, list, optional=True)

    def __post_init__(self) -> None:
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
    return min(wanted, ExponentialChoice.within(share, width, count, share.notion).rate)


class OnlineSelector(ServingLearner):
    """Choose k of n items every round, then learn from the person of that round.

    Subclasses say when a new set is drawn and how, and what is kept of a person.
    """

    settings: SelectorSettings
    _played_type: ClassVar[type[np.generic]] = np.int32
    _noun: ClassVar[str] = "set"

    k = Setting("How many of them are shown.")

    # --- for users -------------------------------------------------------------------------------

    def run(
        self, people: Population, *, person_ids: Sequence[Hashable] | None = None, progress: bool = False
    ) -> Trace:
        """The whole stream at once: the same sets, for the same seed, as `choose` and `learn` one by one.

        ``person_ids`` as in `learn`, one per person. People beyond the declared horizon are served the last
        set and not learned from.
        """
        trace: Trace = super().run(people, person_ids=person_ids, progress=progress)
        return trace

    def __repr__(self) -> str:
        horizon = "" if self.rounds is None else f" of {self.rounds:,}"
        return f"{type(self).__name__}({self.k} of {self.n_items:,} items, round {self.round:,}{horizon})"

    # --- for the protocol ------------------------------------------------------------------------

    @property
    def _width(self) -> int:
        return self.settings.k

    def _decision(self, shown: NDArray[Any]) -> Selection:
        return self._selection(tuple(shown.tolist()))

    def _row(self, decision: Selection) -> tuple[int, ...]:
        return decision.items

    def _worth(self, person: Any, decision: Selection) -> float:
        return answers.number("value", person.value(decision.items), 0.0, self.settings.bound)

    def _trace(self, rewards: NDArray[np.float64], selections: NDArray[Any]) -> Trace:
        return Trace(rewards, selections, type(self).__name__)

    def _run_stream(self, stream: Stream) -> None:
        rows, functions = stream.people.as_rows(), function_rows(stream.people)
        if functions is not None:
            self._run_functions(stream, functions)
        elif rows is None or self._can_wait(stream.rewards.size):
            self._run_one_by_one(stream)
        else:
            self._run_rows(stream, rows)

    def _run_functions(self, stream: Stream, rows: Rows) -> None:
        """The same for rows with a concave function in Python: the rounds of a set at a time."""
        count, after, people = stream.rewards.size, 0, self._function_rounds(rows)
        if people is None or self._catalogue.active is not None or can_wait(count):
            self._run_one_by_one(stream)  # also where retired items may have to be replaced
            return
        for t in track(range(count), "rounds", stream.progress):
            if t < after:
                continue
            if not self._rounds.is_open:
                self._open()
            room = self._room()
            worth = people.ask(t, count if room is None else min(count, t + room), self._shown)
            after = t + max(1, worth.size)
            here = slice(t, after)
            limit, rewards, shown = stream.within_limit[here], stream.rewards[here], stream.selections[here]
            if worth.size:
                rewards[:], shown[:] = worth, self._shown
                self._rounds.close(worth.size, then=partial(self._take_functions, people, here, limit))
            else:
                self._run_one_by_one(Stream(stream.people[here], limit, rewards, shown, progress=False))

    def _function_rounds(self, rows: Rows) -> FunctionRounds | None:  # noqa: ARG002
        """What asks people of these rows, where that is quicker than one by one."""
        return None

    def _take_functions(self, people: FunctionRounds, here: slice, within_limit: NDArray[np.bool_]) -> None:
        """Take up people who were asked last: those of the rounds ``here`` of the stream."""
        raise NotImplementedError

    @abstractmethod
    def _run_rows(self, stream: Stream, rows: Rows) -> None:
        """The same as `_run`, with the same outcome, for people who are rows: compiled."""

    def _prepared(self, person: Any) -> Any:
        self._check_people(person)
        if len(person) != 1:
            raise ValueError("learn() takes one person; use run() for a stream")
        return person

    def _check_people(self, people: Any) -> None:
        check_population(people, self.settings.n_items, self.settings.bound)
        if not people.monotone:
            raise ValueError("the learner needs functions that never fall when an item is added (monotone)")

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
