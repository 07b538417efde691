"""The audit of every registered learner, from the small settings that its registry entry names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import numpy as np

from ..objectives import Coverage, SetFunction
from ..online import OnlineLearner, protocol
from ..online.registry import REGISTRY, AuditExample
from .cases import Case, Play, Played
from .choices import ChoiceCase
from .exact import Space
from .faults import CHOICES_TELL, NUMBERS_TELL, PAST_THE_GATE, RETURNING, SHOWN_TELLS, TWICE
from .hooks import Floats, Source, swapped
from .mechanisms import CHOICE_FAULTS, CHOICE_SAMPLER_FAULTS, NOISE_FAULTS, NOISE_SAMPLER_FAULTS
from .noise import NoiseCase

# To prove an epsilon from outputs takes some 30 e^epsilon runs, however gross the error.
_MOST_PROVABLE = 5.0
_TOO_MUCH = (
    "Outputs alone cannot reject this setting: to prove more than its large claim takes some 30 e^epsilon"
    " runs of each world, even with no noise at all. Smaller claims of the same learner are put to that test."
)


def cases() -> list[Case]:
    """Every learner, in one setting at least that is quick."""
    return [case for name in REGISTRY for case in cases_of(name)]


def cases_of(name: str) -> Iterator[Case]:
    """The settings of one registered learner."""
    entry = REGISTRY[name]
    for example in entry.audits():
        play = _play(name, example, _FEEDBACK[entry.feedback])
        shape = (example.rows, example.columns * example.visits)
        space = Space(*shape, example.values, nobody=example.nobody)
        make = _choices if example.mechanism == "choices" else _noise
        yield make(name, example, space, play)


def _choices(name: str, example: AuditExample, space: Space, play: Play) -> Case:
    faults = (*CHOICE_FAULTS, CHOICE_SAMPLER_FAULTS[0]) if example.faults is None else tuple(example.faults)
    provable = example.budget.epsilon <= _MOST_PROVABLE
    also = (() if example.twice is None else (TWICE,)) + ((CHOICES_TELL,) if provable else ())
    return ChoiceCase(
        name,
        example.words,
        example.budget,
        space,
        play,
        (*faults, *also),
        twice=example.twice,
        only_deep=example.deep,
        public=example.public,
        unseen=() if provable else (_TOO_MUCH,),
    )


def _noise(name: str, example: AuditExample, space: Space, play: Play) -> Case:
    watched = example.mechanism == "batches"
    faults = NOISE_FAULTS if example.faults is None else tuple(example.faults)
    outputs = (SHOWN_TELLS,) if watched else (NUMBERS_TELL, SHOWN_TELLS, PAST_THE_GATE)
    more = (TWICE,) if example.visits == 1 else tuple(RETURNING)
    return NoiseCase(
        name,
        example.words,
        example.budget,
        space,
        play,
        (*faults, *more, NOISE_SAMPLER_FAULTS[0], *outputs),
        twice=2 if example.twice is None else example.twice,
        only_deep=example.deep,
        public=example.public,
        watched=watched,
    )


def _play(name: str, example: AuditExample, feedback: Callable[[Any, Floats, Any], Any]) -> Play:
    """A round per row, and one more decision at the end; published is what the setting says.

    With several visits everybody comes once, then everybody comes again.
    """
    publish = _PUBLISH[example.publishes]

    def play(stream: Floats, source: Source) -> Played:
        learner = example.make(REGISTRY[name].kind(name), seed=source)
        decisions = []
        for visit, row in enumerate(np.concatenate(np.split(stream, example.visits, axis=1))):
            decision = learner.choose()
            decisions.append(None if example.publishes == "state" else publish(learner, decision))
            who = None if example.visits == 1 else visit % len(stream)
            learner.learn(feedback(learner, row, decision), person_id=who)
        decisions.append(publish(learner, learner.choose()))
        published = decisions[-1:] if example.publishes == "state" else decisions
        return Played(published, lambda: learner.privacy)

    return play


# --- feedback of people ---------------------------------------------------------------------------


@lru_cache(maxsize=256)
def _fan(*likes: float) -> Coverage:
    return Coverage([likes])


def _covers(_: Any, row: Floats, __: Any) -> Coverage:
    """Somebody who likes the items whose numbers are 1."""
    return _fan(*row.tolist())


def _reward(learner: Any, row: Floats, decision: Any) -> Any:
    """What the set was worth; or, with slot feedback, which item was taken, if any."""
    if learner.feedback == "set":
        return float(row[0])
    return None if row[0] < 0 else int(decision.items[int(row[0])])


def _number(_: Any, row: Floats, __: Any) -> float:
    return float(row[0])


def _vector(_: Any, row: Floats, __: Any) -> Floats:
    return row


def _line(_: Any, row: Floats, __: Any) -> Any:
    """A linear cost in the direction of the row, of length at most 1."""
    gradient = row / max(1.0, float(np.linalg.norm(row)))
    return (lambda _: 0.0), (lambda _: gradient)


_ARCS = ((0, 1), (0, 2), (1, 2), (1, 0), (2, 0), (2, 1))


def _arc(_: Any, row: Floats, __: Any) -> SetFunction:
    """Costs of 1 where a set has one of two items without the other, and -1 elsewhere; 0 for nobody."""
    if row[0] < 0.0:
        return SetFunction(lambda _: 0.0, 3, bound=1.0)
    tail, head = _ARCS[int(row[0])]
    return SetFunction(lambda items: 1.0 if tail in items and head not in items else -1.0, 3, bound=1.0)


class _Linear:
    """A linear function of a point of the box, with the row as its gradient."""

    def __init__(self, row: Floats) -> None:
        self._row = row / max(1.0, float(np.linalg.norm(row)))

    def value(self, x: Floats) -> float:
        return float(self._row @ x)

    def gradient(self, x: Floats) -> Floats:  # noqa: ARG002
        return self._row.copy()


_FEEDBACK: dict[str, Callable[[Any, Floats, Any], Any]] = {
    "function": _covers,
    "reward": _reward,
    "dr_function": lambda _, row, __: _Linear(row),
    "loss": _line,
    "cost_vector": _vector,
    "cost": _number,
    "set_cost": _arc,
    "shown_set_cost": _number,
}


# --- what is published ----------------------------------------------------------------------------


def _items(_: Any, decision: Any) -> Any:
    return decision.items


def _set(learner: Any, decision: Any) -> Floats:
    """A set as a vector, for scores of outputs."""
    row = np.zeros(learner.n_items)
    row[list(decision.items)] = 1.0
    return row


def _point(_: Any, decision: Any) -> Floats:
    return np.asarray(decision, dtype=np.float64)


def _chances(learner: Any, _: Any) -> Floats:
    return np.asarray(learner.point, dtype=np.float64)


def _both(learner: Any, decision: Any) -> Floats:
    """The set, and the public point from which it was drawn."""
    return np.concatenate([_set(learner, decision), _chances(learner, decision)])


_DRAWN = ("lists", "last_list", "recent")


def _kept(learner: OnlineLearner, decision: Any) -> list[float]:  # noqa: ARG001
    """Everything that a saved learner knows: all that any later decision can depend on.

    Sets that were drawn are left out: they follow from the released numbers, by public coins, and differ
    by whole items where these differ by a hair.
    """
    arrays: Any
    # As they are handed over to be written: a file takes longer than all rounds of a setting.
    with swapped(protocol, "state_bytes", lambda _, arrays: arrays):
        arrays = learner.to_bytes()
    # Noise that was drawn ahead has been seen by nobody.
    ahead = [name for name in arrays if name.split(".")[-1] in ("noise", *_DRAWN)]
    kept = sorted(name for name in arrays if name not in ahead)
    numbers = [np.asarray(arrays[name], dtype=np.float64).ravel() for name in kept]
    return np.concatenate(numbers).tolist() if numbers else []


_PUBLISH: dict[str, Callable[[Any, Any], Any]] = {
    "items": _items,
    "set": _set,
    "point": _point,
    "chances": _chances,
    "both": _both,
    "state": _kept,
}
