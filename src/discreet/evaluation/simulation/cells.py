"""Cells of a simulation: one learner on one stream at one epsilon, once, and what comes of it.

Everything that decides a cell's outcome is in its settings, seeds included: run again, here or elsewhere, it
ends with the same numbers.
"""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import json
import math
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ... import __version__
from ...privacy import Coins
from ..regret import best_fixed_set

if TYPE_CHECKING:
    from ...objectives import Population
    from ...planning import Plan

BASELINES = ("random", "popularity", "greedy")
PLANNER = "planner"
EVENTS = "events"
# A new version of how a cell is run makes new cells; one that is kept without a column is run again.
_FORMAT = 1
_POINTS = 200  # of each curve that is kept
_RANDOM_SETS = 100  # random play shows this many sets, one after the other
# Greedy's k items are worth at least this part of the best k.
_GREEDY = 1.0 - 1.0 / math.e


@dataclass(frozen=True)
class StreamSpec:
    """Which people come: a family of `streams.STREAMS` with its settings, or a file of events."""

    name: str
    family: str
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def items_from_data(self) -> bool:
        """Whether its items are those that its people have, so that accounts are conditional on the list."""
        return self.family == EVENTS and "items" not in self.settings

    def people(self, seed: int) -> Population:
        """The stream of this seed."""
        from .. import streams

        coins = Coins.seeded(seed).generator
        options = dict(self.settings)
        if self.family != EVENTS:
            return streams.STREAMS[self.family](options.pop("people"), options.pop("items"), coins, **options)
        del options["sha256"]
        return streams.event_file(options.pop("path"), coins, **options)


@dataclass(frozen=True)
class LearnerSpec:
    """Who chooses: a class of `discreet.online` by name, the planner, or a baseline; with settings.

    With an ``epsilon`` of its own it is run at that one only, whatever the others are run at.
    """

    name: str
    kind: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    epsilon: float | None = None
    delta: float | None = None

    @property
    def fixed(self) -> bool:
        """Whether it is the same at every epsilon of the simulation."""
        return self.kind in BASELINES or self.epsilon is not None


@dataclass(frozen=True)
class Cell:
    """One learner on one stream at one epsilon, once. ``epsilon`` is None for baselines."""

    stream: StreamSpec
    learner: LearnerSpec
    k: int
    epsilon: float | None
    delta: float
    neighbours: str
    comparator: str
    repeat: int
    seed: int

    @property
    def stage(self) -> dict[str, Any]:
        """What decides who comes: the same for every learner, so that they can be compared."""
        kept = {name: value for name, value in self.stream.settings.items() if name != "path"}
        return {"family": self.stream.family, "settings": kept, "repeat": self.repeat, "seed": self.seed}

    @property
    def settings(self) -> dict[str, Any]:
        """Everything that decides the outcome; names for the reader are not among it."""
        return self.stage | {
            "format": _FORMAT,
            "version": __version__,
            "kind": self.learner.kind,
            "learner": dict(self.learner.settings),
            "k": self.k,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "neighbours": self.neighbours,
            "comparator": self.comparator,
        }

    @property
    def key(self) -> str:
        """The hash of the settings: the name of the cell's file."""
        return digest(self.settings)[:32]


def canonical(settings: Mapping[str, Any]) -> str:
    return json.dumps(settings, sort_keys=True, default=str)


def digest(settings: Mapping[str, Any]) -> str:
    return hashlib.sha256(canonical(settings).encode()).hexdigest()


def run_cell(cell: Cell) -> dict[str, Any]:
    """Run one cell: a row of plain values, or ``{"refused": reason}`` where its settings cannot be."""
    from ...objectives.each import value_to_each
    from ...privacy import BudgetExceeded

    stage = _stage_of(cell)
    people = stage.people
    shown: Sequence[int] = ()
    taken = ""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        start = time.perf_counter()
        try:
            if cell.learner.kind == "random":
                rewards, account = _at_random(people, cell), 0.0
            elif cell.learner.kind in BASELINES:
                shown = stage.greedy if cell.learner.kind == "greedy" else _popular(people, cell.k)
                rewards, account = value_to_each(people, shown), math.inf
            else:
                learner, taken = _made(people, cell)
                trace = learner.run(people)
                rewards, shown, account = trace.rewards, trace.selections[-1], _account(learner)
        except (ValueError, TypeError, NotImplementedError, ArithmeticError, BudgetExceeded) as error:
            return {"refused": str(error)}
        seconds = time.perf_counter() - start
    at = np.unique(np.linspace(1, rewards.size, min(_POINTS, rewards.size)).round().astype(np.int64))
    return {
        "n_items": people.n_items,
        "rounds": int(rewards.size),
        "average": float(rewards.mean()),
        "greedy": float(stage.greedy_value),
        "best": float(stage.rival.mean()),
        "best_upper": float(stage.upper),
        "exact": stage.exact,
        "comparator": [int(item) for item in stage.items],
        "account": account,
        "planned": taken,
        "shown": _named(people, shown),
        "note": "; ".join(dict.fromkeys(str(one.message) for one in said)),
        "seconds": seconds,
        "at": at.tolist(),
        "rewards": np.cumsum(rewards)[at - 1].tolist(),
        "rival": np.cumsum(stage.rival)[at - 1].tolist(),
    }


def _made(people: Population, cell: Cell) -> tuple[Any, str]:
    """The learner of a cell, ready for its first round; and what the planner took, where it was asked."""
    from ... import online

    seed = int(digest(cell.settings)[:15], 16)
    if cell.learner.kind == PLANNER:
        found = _planned(people, cell)
        return found.learner(seed=seed), str(found.best)
    make: Callable[..., Any] = getattr(online, cell.learner.kind)
    if "rounds" in inspect.signature(make).parameters:
        make = partial(make, rounds=len(people))
    return make(**_sizes(people, cell), **cell.learner.settings, seed=seed), ""


def _sizes(people: Population, cell: Cell) -> dict[str, Any]:
    from ...privacy import Budget

    assert cell.epsilon is not None
    budget = Budget(cell.epsilon, cell.delta, cell.neighbours)
    return {"n_items": people.n_items, "k": cell.k, "budget": budget, "bound": people.bound}


def _account(learner: Any) -> float:
    """The epsilon of what a learner released."""
    budget = learner.budget
    return float(learner.privacy.epsilon(delta=budget.delta)) if budget.private else math.inf


# Plans depend on sizes and budgets only: the repeats of a stream share one.
_PLANS: dict[str, Plan] = {}


def plans_for(cells: Sequence[Cell]) -> dict[str, Plan]:
    """The plans that cells of the planner need, each made once; for `take_plans` in other processes."""
    first: dict[str, Cell] = {}
    for cell in cells:
        if cell.learner.kind == PLANNER:
            first.setdefault(canonical(cell.settings | {"repeat": 0}), cell)
    for cell in first.values():
        with contextlib.suppress(Exception):  # whatever is wrong is said when the cell is run
            _planned(_stage_of(cell).people, cell)
    return dict(_PLANS)


def take_plans(known: Mapping[str, Plan]) -> None:
    """Plans that another process has made."""
    _PLANS.update(known)


def _planned(people: Population, cell: Cell) -> Plan:
    from ...planning import plan

    asked = {"rounds": len(people)} | _sizes(people, cell) | dict(cell.learner.settings)
    key = digest(asked | {"budget": [cell.epsilon, cell.delta, cell.neighbours]})
    if key not in _PLANS:
        _PLANS[key] = plan(**asked)
    return _PLANS[key]


def _named(people: Population, items: Sequence[int]) -> list[str]:
    """Items by their labels, or their numbers."""
    numbers = [int(item) for item in items if item >= 0]
    return [str(item if people.labels is None else people.labels[item]) for item in numbers]


def _at_random(people: Population, cell: Cell) -> NDArray[np.float64]:
    """A new random set for every hundredth of the stream."""
    from ...objectives.each import value_to_each

    coins = Coins.seeded(int(digest(cell.settings)[:15], 16)).generator
    ends = np.unique(np.linspace(0, len(people), _RANDOM_SETS + 1).astype(np.int64))
    return np.concatenate(
        [
            value_to_each(people[start:end], coins.permutation(people.n_items)[: cell.k].tolist())
            for start, end in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)
        ]
    )


def _popular(people: Population, k: int) -> list[int]:
    """The k items with the highest value on their own."""
    return [int(item) for item in np.argsort(-people.gains([]), kind="stable")[:k]]


@dataclass(frozen=True)
class _Stage:
    """The people of a cell, and what is known of them in hindsight."""

    people: Population
    greedy: list[int]
    greedy_value: float
    items: Sequence[int]
    exact: bool
    upper: float
    rival: NDArray[np.float64]


def _stage_of(cell: Cell) -> _Stage:
    return _staged(canonical(cell.stage), cell.stream.settings.get("path"), cell.k, cell.comparator)


@lru_cache(maxsize=2)
def _staged(stage: str, path: tuple[str, ...] | None, k: int, comparator: str) -> _Stage:
    """The stage of a cell, kept for the next cells: they mostly share it."""
    from ...objectives import greedy
    from ...objectives.each import value_to_each

    known = json.loads(stage)
    settings = known["settings"] | ({} if path is None else {"path": path})
    people = StreamSpec("", known["family"], settings).people(int(digest(known)[:15], 16))
    chosen = [int(item) for item in greedy(people, k)[0]]
    value = people.value(chosen)
    items: Sequence[int] = chosen
    exact, upper = False, value / _GREEDY
    if comparator == "best":
        items, exact, upper = best_fixed_set(people, k)
    return _Stage(people, chosen, value, items, exact, upper, value_to_each(people, items))
