"""Simulations: learners x streams x budgets x repeats, with one run and one outcome per cell.

A cell's settings, seeds included, determine its outcome, and their hash names its file: a cell whose file
exists is not run again, and a change of any setting (or of an event file, or of the version of this library)
makes another cell. A run that is continued after an interruption ends with the same numbers as any other.

Outcomes are exact facts about the people of the stream, without privacy.
"""

from __future__ import annotations

import difflib
import hashlib
import inspect
import json
import math
import os
import signal
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, fields, replace
from functools import lru_cache, partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
from numpy.typing import NDArray

from .. import __version__
from ..core import checks
from ..core.options import Adjacency, Feedback
from ..core.state import replacing
from ..core.text import install, track
from ..privacy import PublicRandomness
from .regret import Regret, best_fixed_set

if TYPE_CHECKING:
    from ..objectives import Population
    from ..planning import Plan

BASELINES = ("random", "popularity", "greedy")
PLANNER = "planner"
EVENTS = "events"
COMPARATORS = ("greedy", "best")
RESULTS, CELLS = "results.parquet", "cells"
_MADE_BY_US = ("self", "n_items", "k", "rounds", "budget", "bound", "labels", "start", "seed")
_CANDIDATES = "candidates"  # a public list of items, the best first: the start of learners
# Incremented when cells are run differently, so that all are run again, as are stored ones without a column.
_FORMAT = 1
_POINTS = 200  # of each stored curve
_RANDOM_SETS = 100  # random play shows this many sets, one after the other
# Greedy's k items have at least this part of the value of the best k.
_GREEDY = 1.0 - 1.0 / math.e
_ALONE = 5.0  # seconds of work before other processes are started


# --- what is run ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class StreamSpec:
    """A stream of people: a family of `streams.STREAMS` with its settings, or a file of events."""

    name: str
    family: str
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def items_from_data(self) -> bool:
        """Whether its list of items is read from people's data, so that accounts are conditional on it."""
        return self.family == EVENTS and "items" not in self.settings

    def people(self, seed: int) -> Population:
        """The stream of this seed."""
        from . import streams

        rng = PublicRandomness.seeded(seed).generator
        options = dict(self.settings)
        if self.family != EVENTS:
            return streams.STREAMS[self.family](options.pop("people"), options.pop("items"), rng, **options)
        del options["sha256"]
        return streams.event_file(options.pop("path"), rng, **options)


@dataclass(frozen=True)
class LearnerSpec:
    """A learner with settings: a class of `discreet.online` by name, the planner, or a baseline.

    With its own ``epsilon``, it is run at that one only, and not at those of the simulation.
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
    """One run of one learner on one stream at one epsilon; ``epsilon`` is None for baselines."""

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
        """The settings that determine the people: the same for all learners, so that they are comparable."""
        kept = {name: value for name, value in self.stream.settings.items() if name != "path"}
        return {"family": self.stream.family, "settings": kept, "repeat": self.repeat, "seed": self.seed}

    @property
    def settings(self) -> dict[str, Any]:
        """All settings that determine the outcome, without names for the reader."""
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


@dataclass(frozen=True)
class Config:
    """The validated settings of a simulation: read them with `read_config` or `Config.of`."""

    streams: tuple[StreamSpec, ...]
    learners: tuple[LearnerSpec, ...]
    epsilons: tuple[float, ...] = (1.0,)
    k: int = 5
    delta: float = 1e-6
    neighbours: Adjacency = "replace"
    repeats: int = 5
    seed: int = 0
    comparator: str = "greedy"
    alpha: float = 1.0
    title: str = "Simulation"

    @classmethod
    def of(cls, given: Mapping[str, Any], folder: Path = Path()) -> Config:
        """From plain values, as in a configuration file; paths of event files are relative to ``folder``.

        >>> config = Config.of({"rounds": 100, "items": 9, "k": 2, "streams": [{"family": "drifting"}],
        ...                     "learners": [{"learner": "hedge"}, {"learner": "random"}]})
        >>> [one.kind for one in config.learners], len(config.cells())
        (['HedgeSelector', 'random'], 10)
        """
        options = dict(given)
        rounds, items = options.pop("rounds", 10_000), options.pop("items", 50)
        streams, learners = options.pop("streams", []), options.pop("learners", [])
        feedback = options.pop("feedback", None)
        plain = [name for name in cls.__dataclass_fields__ if name not in ("streams", "learners")]
        _known("setting", options, [*plain, "rounds", "items", "feedback", "streams", "learners"])
        _list_of_tables("streams", streams)
        _list_of_tables("learners", learners)
        if "epsilons" in options:
            listed = options["epsilons"]
            listed = listed if isinstance(listed, list | tuple) else [listed]
            options["epsilons"] = tuple(
                checks.real("epsilons", one, above=0.0, infinite=True) for one in listed
            )
        config = cls(
            _distinct("stream", [_stream(one, rounds, items, folder) for one in streams]),
            _distinct("learner", [_learner(one, feedback) for one in learners]),
            **options,
        )
        config._check()
        return config

    def _check(self) -> None:
        """Refuse settings with which no cell could be run."""
        from ..privacy import Budget

        if not self.epsilons or len(set(self.epsilons)) < len(self.epsilons):
            raise ValueError(f"epsilons={list(self.epsilons)} must be at least one, each listed once")
        Budget(1, self.delta, self.neighbours)
        for learner in self.learners:
            if learner.delta is not None:
                Budget(1, learner.delta)
        checks.whole("repeats", self.repeats, at_least=1)
        checks.whole("seed", self.seed, at_least=0)
        checks.real("alpha", self.alpha, above=0.0, at_most=1.0)
        checks.one_of("comparator", self.comparator, COMPARATORS)
        if not isinstance(self.title, str):
            raise TypeError(f"title must be text, got {self.title!r}")
        for stream in self.streams:
            count = None if stream.family == EVENTS else stream.settings.get("items")
            if count is None:  # a file: reading it now reveals its errors before anything runs
                count = stream.people(0).n_items
            if checks.whole("k", self.k, at_least=1) > count:
                raise ValueError(f"k={self.k} exceeds the {count} items of stream {stream.name!r}")

    def cells(self) -> list[Cell]:
        """All cells, with those of one stream and repeat next to each other."""
        return [
            self._cell(stream, learner, epsilon, repeat)
            for stream in self.streams
            for repeat in range(self.repeats)
            for learner in self.learners
            for epsilon in self.epsilons[: 1 if learner.fixed else None]
        ]

    def _cell(self, stream: StreamSpec, learner: LearnerSpec, epsilon: float, repeat: int) -> Cell:
        rest: tuple[Any, ...] = (self.comparator, repeat, self.seed)
        if learner.kind in BASELINES:
            return Cell(stream, learner, self.k, None, 0.0, "", *rest)
        epsilon = epsilon if learner.epsilon is None else learner.epsilon
        delta = self.delta if learner.delta is None else learner.delta
        return Cell(stream, learner, self.k, epsilon, delta, self.neighbours, *rest)

    def to_json(self) -> dict[str, Any]:
        """The settings as plain values, for the reader of a report."""
        return asdict(self)


def read_config(path: str | os.PathLike[str]) -> Config:
    """Read a TOML file; ``discreet simulate --help`` has an example."""
    import tomllib

    file = Path(path)
    try:
        given = tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{file.name} is not TOML: {error}") from error
    try:
        return Config.of(given, file.parent)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{file.name}: {error}") from error


def _stream(given: Mapping[str, Any], rounds: Any, items: Any, folder: Path) -> StreamSpec:
    """A stream from its settings: a generated family, or files of events."""
    from ..data.read import Source, files_of
    from . import streams

    options = dict(given)
    if EVENTS in options:
        given_paths = options.pop(EVENTS)
        several = given_paths if isinstance(given_paths, list | tuple) else [given_paths]
        if not several:
            raise ValueError("events= names no file; give a path, a pattern, a folder or a list of them")
        paths = [one for path in several for one in files_of(Source(str(folder / str(path))))]
        name = str(options.pop("name", ", ".join(Path(str(path)).name for path in several)))
        allowed = ["name", EVENTS, *streams.READING, *_keywords(streams.event_file)]
        _known(f"setting of stream {name!r}", options, allowed)
        missing = [column for column in ("person", "item") if column not in options]
        if missing:
            raise ValueError(f"stream {name!r} needs {' and '.join(missing)}: the columns of its file")
        prints = [_print_of(path) for path in paths]
        if "items" in options:
            options["items"] = str(folder / str(options["items"]))
            if (listed := _print_of(options["items"])) in prints:
                raise ValueError(f"stream {name!r}: items= is a file of its events; give a public list")
            prints.append(listed)
        return StreamSpec(name, EVENTS, options | {"path": tuple(paths), "sha256": " ".join(prints)})
    if "family" not in options:
        raise ValueError(f"a stream needs family= (one of {', '.join(streams.STREAMS)}) or events= (a file)")
    family = checks.one_of("family", options.pop("family"), list(streams.STREAMS))
    name = str(options.pop("name", family))
    _known(f"setting of stream {name!r}", options, ["people", "items", *_keywords(streams.STREAMS[family])])
    options.setdefault("people", rounds)
    options.setdefault("items", items)
    for size in ("people", "items"):
        checks.whole(size, options[size], at_least=1)
    return StreamSpec(name, family, options)


def _print_of(path: str | os.PathLike[str]) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _learner(given: Mapping[str, Any], feedback: str | None) -> LearnerSpec:
    """A learner from its settings, with a name for tables."""
    options = dict(given)
    if "learner" not in options:
        raise ValueError(f"a learner needs learner= ({', '.join(learner_names())})")
    kind = _kind(options.pop("learner"))
    if feedback is not None:
        options = _heard(kind, checks.one_of("feedback", feedback, get_args(Feedback))) | options
    epsilon, delta = options.pop("epsilon", None), options.pop("delta", None)
    if epsilon is not None:
        epsilon = checks.real("epsilon", epsilon, above=0.0, infinite=True)
    settings = {name: value for name, value in options.items() if name != "name"}
    words = dict(settings)
    if (few := settings.get(_CANDIDATES)) is not None:
        if not isinstance(few, list | tuple) or not few:
            raise TypeError(f"candidates must be a list of items, the best first, got {checks.shown(few)}")
        words[_CANDIDATES] = f"{len(few):,} items"
    shown = ", ".join(f"{key}={value}" for key, value in words.items())
    free = "not private: " if epsilon is not None and math.isinf(epsilon) else ""
    name = str(options.get("name", f"{free}{kind}({shown})" if shown else f"{free}{kind}"))
    _known(f"setting of learner {name!r}", settings, _settings_of(kind))
    return LearnerSpec(name, kind, settings, epsilon, delta)


def _heard(kind: str, feedback: Feedback) -> dict[str, Any]:
    """The setting that gives a learner this feedback; refused if the learner needs more."""
    if kind in BASELINES:
        return {}
    if kind == PLANNER:
        return {"feedback": feedback}
    if feedback == "full":
        return {}
    if "feedback" not in _settings_of(kind):
        able = [name for name in learner_names() if "feedback" in _settings_of(name)]
        raise ValueError(
            f"learner {kind!r} learns from people's whole taste, and feedback={feedback!r} shows less; take"
            f" one of {', '.join(able)}"
        )
    return {"feedback": feedback} if feedback == "slots" else {}


def learner_names() -> list[str]:
    """The names to simulate: every selector of `discreet.online`, the planner and the baselines."""
    from ..online.registry import selectors

    return [*selectors(), PLANNER, *BASELINES]


def _kind(given: Any) -> str:
    """The full name of a learner: ``hedge``, ``running sums`` and ``HedgeSelector`` are all understood."""

    def plain(name: str) -> str:
        letters = "".join(c for c in name.lower() if c.isalpha())
        return letters.removesuffix("selector").removesuffix("s")

    names = learner_names()
    for name in names:
        if plain(name) == plain(str(given)):
            return name
    raise ValueError(f"learner={given!r} is not one of {', '.join(names)}")


def _settings_of(kind: str) -> list[str]:
    from .. import planning
    from ..online.registry import learners

    if kind in BASELINES:
        return []
    made = planning.plan if kind == PLANNER else learners()[kind].kind(kind).__init__
    names = list(inspect.signature(made).parameters)
    starts = [_CANDIDATES] if kind == PLANNER or "start" in names else []
    return [name for name in names if name not in _MADE_BY_US] + starts


def _keywords(function: Callable[..., Any]) -> list[str]:
    found = inspect.signature(function).parameters.values()
    return [one.name for one in found if one.kind is one.KEYWORD_ONLY]


def _known(what: str, given: Mapping[str, Any], allowed: Sequence[str]) -> None:
    for name in given:
        if name not in allowed:
            near = difflib.get_close_matches(name, allowed, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(allowed) or 'none'}"
            raise ValueError(f"{name!r} is not a {what}; {hint}")


def _list_of_tables(name: str, given: Any) -> None:
    if not isinstance(given, list | tuple) or not all(isinstance(one, Mapping) for one in given):
        raise TypeError(f"{name} must be a list of tables: write [[{name}]] above each")
    if not given:
        raise ValueError(f"there are no {name}; write at least one [[{name}]]")


def _distinct(what: str, specs: list[Any]) -> tuple[Any, ...]:
    """Specs with distinct names: later ones with the same name get a number."""
    seen: dict[str, int] = {}
    named: list[Any] = []
    for one in specs:
        seen[one.name] = seen.get(one.name, 0) + 1
        if seen[one.name] > 1 and any(_same(one, other) for other in named):
            raise ValueError(f"{what} {one.name!r} is listed twice with the same settings")
        named.append(one if seen[one.name] == 1 else replace(one, name=f"{one.name} ({seen[one.name]})"))
    return tuple(named)


def _same(one: Any, other: Any) -> bool:
    return bool(replace(one, name="") == replace(other, name=""))


# --- one cell ---------------------------------------------------------------------------------------


_POPULAR = (
    "PersonalSelector shows the most popular items here, as people of a stream have no histories; discreet"
    " recommend evaluate measures everybody's own sets"
)


def run_cell(cell: Cell) -> dict[str, Any]:
    """Run one cell: a row of plain values, or ``{"refused": reason}`` if its settings are impossible."""
    from ..objectives.base import value_to_each
    from ..privacy import BudgetExceeded

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
                start = time.perf_counter()  # without planning, which all repeats share
                if cell.learner.kind == "PersonalSelector":
                    warnings.warn(_POPULAR, stacklevel=2)
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
    """The learner of a cell, ready for its first round; and the planner's choice, "" without planner."""
    from ..online.registry import learners

    seed = int(digest(cell.settings)[:15], 16)
    settings = dict(cell.learner.settings)
    few = settings.pop(_CANDIDATES, None)
    more = {} if few is None else {"start": _ranked(people, few, cell.k)}
    if cell.learner.kind == PLANNER:
        found = _planned(people, cell, settings)
        return found.learner(seed=seed, **more), str(found.best)
    make: Callable[..., Any] = learners()[cell.learner.kind].kind(cell.learner.kind)
    if "rounds" in inspect.signature(make).parameters:
        make = partial(make, rounds=len(people))
    return make(**_sizes(people, cell), **settings, **more, seed=seed), ""


def _ranked(people: Population, few: Sequence[Any], k: int) -> Any:
    """A start with these candidates; if items have no labels, texts are their numbers."""
    from ..core.names import item_numbers
    from ..online import Released

    if people.labels is None:
        few = [int(one) if isinstance(one, str) and one.isdecimal() else one for one in few]
    numbers = list(dict.fromkeys(item_numbers(_CANDIDATES, few, people.n_items, people.labels)))
    if len(numbers) < k:
        raise ValueError(f"candidates has {len(numbers)} items, and k={k} are shown; give at least {k}")
    return Released.ranked(numbers, people.n_items, candidates=len(numbers))


def _sizes(people: Population, cell: Cell) -> dict[str, Any]:
    from ..privacy import Budget

    assert cell.epsilon is not None
    neighbours: Adjacency = checks.one_of("neighbours", cell.neighbours, get_args(Adjacency))
    budget = Budget(cell.epsilon, cell.delta, neighbours)
    return {"n_items": people.n_items, "k": cell.k, "budget": budget, "bound": people.bound}


def _account(learner: Any) -> float:
    """The epsilon of a learner's releases."""
    budget = learner.budget
    return float(learner.privacy.epsilon(delta=budget.delta)) if budget.private else math.inf


def _planned(people: Population, cell: Cell, settings: Mapping[str, Any]) -> Plan:
    """The plan of a cell; it depends on sizes and budgets only, so all repeats of a stream share it."""
    from ..planning import plan

    asked = {"rounds": len(people)} | _sizes(people, cell) | dict(settings)
    key = digest(asked | {"budget": [cell.epsilon, cell.delta, cell.neighbours]})
    if key not in _PLANS:
        _PLANS[key] = plan(**asked)
    return _PLANS[key]


_PLANS: dict[str, Plan] = {}


def _named(people: Population, items: Sequence[int]) -> list[str]:
    """Items by their labels, or their numbers."""
    numbers = [int(item) for item in items if item >= 0]
    return [str(item if people.labels is None else people.labels[item]) for item in numbers]


def _at_random(people: Population, cell: Cell) -> NDArray[np.float64]:
    """A new random set for every hundredth of the stream."""
    from ..objectives.base import value_to_each

    rng = PublicRandomness.seeded(int(digest(cell.settings)[:15], 16)).generator
    ends = np.unique(np.linspace(0, len(people), _RANDOM_SETS + 1).astype(np.int64))
    return np.concatenate(
        [
            value_to_each(people[start:end], rng.permutation(people.n_items)[: cell.k].tolist())
            for start, end in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)
        ]
    )


def _popular(people: Population, k: int) -> list[int]:
    """The k items with the highest value on their own."""
    return [int(item) for item in np.argsort(-people.gains([]), kind="stable")[:k]]


@dataclass(frozen=True)
class _Stage:
    """The people of a cell, and comparison sets in hindsight."""

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
    """The stage of a cell, cached: the next cells mostly share it."""
    from ..objectives import greedy
    from ..objectives.base import value_to_each

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


# --- outcomes ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """The outcome of a cell; ``rewards`` and ``rival`` are running totals after the rounds in ``at``.

    ``rival`` is the value of the comparator, one set fixed in hindsight, for the same people. ``account`` is
    the epsilon of the learner's releases, at the cell's delta: infinite without privacy, 0 without data.
    ``planned`` is the planner's choice, ``shown`` the items of the last round, by their labels.
    """

    cell: Cell
    n_items: int
    rounds: int
    average: float
    greedy: float
    best: float
    best_upper: float
    exact: bool
    comparator: tuple[int, ...]
    account: float
    planned: str
    note: str
    seconds: float
    at: NDArray[np.int64]
    rewards: NDArray[np.float64]
    rival: NDArray[np.float64]
    shown: tuple[str, ...]

    @classmethod
    def of(cls, cell: Cell, row: Mapping[str, Any]) -> Outcome:
        """From a row of plain values, as in `run_cell` and in files."""
        curves = {name: np.array(row[name]) for name in ("at", "rewards", "rival")}
        sets = {name: tuple(row[name]) for name in ("comparator", "shown")}
        return cls(cell, **{**{name: row[name] for name in _COLUMNS}, **curves, **sets})

    def regret(self, alpha: float = 1.0) -> Regret:
        """Regret against ``alpha`` times the comparator; its curve has the points of ``at``."""
        best, upper = self.best, self.best_upper
        total, most = ((alpha * value - self.average) * self.rounds for value in (best, upper))
        curve = alpha * self.rival - self.rewards
        return Regret(self.comparator, self.exact, best, upper, total, most, curve, alpha)


# The stored columns of a cell, and their types.
_KINDS = {
    "int": "int64",
    "float": "float64",
    "bool": "bool",
    "str": "string",
    "tuple[int, ...]": "int64[]",
    "tuple[str, ...]": "string[]",
    "NDArray[np.int64]": "int64[]",
    "NDArray[np.float64]": "float64[]",
}
_COLUMNS = {one.name: _KINDS[str(one.type)] for one in fields(Outcome) if one.name != "cell"}


@dataclass(frozen=True)
class Results:
    """Outcomes of a simulation's cells, and why some could not be run."""

    config: Config
    outcomes: tuple[Outcome, ...]
    refused: tuple[tuple[Cell, str], ...] = ()

    def by_learner(self, stream: str | None = None, epsilon: float | None = None) -> dict[str, list[Outcome]]:
        """The repeats of every learner on one stream at one epsilon; also of those that do not depend on it.

        If there is only one stream, or one epsilon, it need not be given.
        """
        name = _only("stream", stream, [one.name for one in self.config.streams])
        level = _only("epsilon", epsilon, list(self.config.epsilons))
        found: dict[str, list[Outcome]] = {}
        for learner in self.config.learners:
            mine = [
                one
                for one in self.outcomes
                if one.cell.stream.name == name
                and one.cell.learner.name == learner.name
                and (learner.fixed or one.cell.epsilon == level)
            ]
            if mine:
                found[learner.name] = mine
        return found

    def table(self) -> list[dict[str, Any]]:
        """One row per stream, epsilon and learner: means over repeats, as plain values."""
        rows: list[dict[str, Any]] = []
        for stream in self.config.streams:
            cells = [self.by_learner(stream.name, epsilon) for epsilon in self.config.epsilons]
            rows += [
                {"stream": stream.name} | self._means(found[learner.name])
                for learner in self.config.learners
                for found in cells[: 1 if learner.fixed else None]
                if learner.name in found
            ]
        return rows

    def _means(self, repeats: list[Outcome]) -> dict[str, Any]:
        """A row of the table: one learner at one epsilon, averaged over its repeats."""
        averages = np.array([one.average for one in repeats])
        many = len(repeats) > 1
        shares = [one.average / one.greedy if one.greedy else math.nan for one in repeats]
        return {
            "learner": repeats[0].cell.learner.name,
            "epsilon": repeats[0].cell.epsilon,
            "average": float(averages.mean()),
            "standard_error": float(averages.std(ddof=1)) / math.sqrt(len(repeats)) if many else math.nan,
            "of_greedy": float(np.mean(shares)),
            "regret": float(np.mean([one.regret(self.config.alpha).total for one in repeats])),
            "account": max(one.account for one in repeats),
            "seconds": float(np.mean([one.seconds for one in repeats])),
            "repeats": len(repeats),
            "note": repeats[0].note,
            "planned": repeats[0].planned,
            "shown": list(repeats[0].shown),
        }


def _only(what: str, given: Any, known: list[Any]) -> Any:
    if given is None and len(known) == 1:
        return known[0]
    if given not in known:
        raise ValueError(f"{what}={given!r} is not one of {known}")
    return given


class KeptCells:
    """A folder of finished cells, one JSON file each; at the end, all of them in one Parquet file."""

    def __init__(self, folder: Path) -> None:
        try:
            import pyarrow.parquet
        except ImportError as error:
            raise ImportError(f"keeping results needs pyarrow: {install('tables')}") from error
        self._arrow = pyarrow
        self._folder = folder
        (folder / CELLS).mkdir(parents=True, exist_ok=True)

    def read(self, cells: Mapping[str, Cell]) -> dict[str, dict[str, Any]]:
        """The rows of those cells that are finished; unreadable files are ignored."""
        found = {}
        for key in cells:
            with suppress(OSError, ValueError, KeyError, TypeError):
                row = json.loads(self._path(key).read_text(encoding="utf-8"))
                found[key] = {name: row[name] for name in _COLUMNS}
        return found

    def write(self, cell: Cell, row: Mapping[str, Any]) -> None:
        with replacing(self._path(cell.key)) as part:
            part.write_text(json.dumps(row), encoding="utf-8")

    def gather(self, results: Results) -> None:
        """Write all outcomes to one file, one row each."""
        arrow = self._arrow
        cells = [one.cell for one in results.outcomes]
        columns: dict[str, Any] = {
            "stream": arrow.array([cell.stream.name for cell in cells], "string"),
            "learner": arrow.array([cell.learner.name for cell in cells], "string"),
            "epsilon": arrow.array([cell.epsilon for cell in cells], "float64"),
            "delta": arrow.array([cell.delta for cell in cells], "float64"),
            "k": arrow.array([cell.k for cell in cells], "int64"),
            "repeat": arrow.array([cell.repeat for cell in cells], "int64"),
            "key": arrow.array([cell.key for cell in cells], "string"),
            "settings": arrow.array([canonical(cell.settings) for cell in cells], "string"),
        }
        for name, kind in _COLUMNS.items():
            several = kind.endswith("[]")
            inner = arrow.type_for_alias(kind.removesuffix("[]"))
            values = [getattr(one, name) for one in results.outcomes]
            columns[name] = arrow.array(
                [list(value) if several else value for value in values],
                arrow.list_(inner) if several else inner,
            )
        with replacing(self._folder / RESULTS) as part:
            arrow.parquet.write_table(arrow.table(columns), part)

    def _path(self, key: str) -> Path:
        return self._folder / CELLS / f"{key}.json"


# --- all cells --------------------------------------------------------------------------------------


def simulate(
    config: Config,
    folder: str | os.PathLike[str] | None,
    *,
    workers: int | None = None,
    progress: bool = False,
) -> Results:
    """Run every cell that ``folder`` does not hold yet, and return all outcomes.

    Each finished cell is a JSON file in ``folder/cells``, written atomically; at the end,
    ``folder/results.parquet`` holds all of them. ``workers`` processes share the work; with 1, all is done in
    this process. By default there are as many as cores, started only after this process has worked alone for
    a few seconds. Without a folder nothing is stored.

    >>> config = Config.of({"rounds": 200, "items": 8, "k": 2, "repeats": 2,
    ...     "streams": [{"family": "product display"}],
    ...     "learners": [{"learner": "random"}, {"learner": "greedy"}]})
    >>> [row["learner"] for row in simulate(config, None, workers=1).table()]
    ['random', 'greedy']
    """
    count = cores() if workers is None else checks.whole("workers", workers, at_least=1)
    files = [one.settings for one in config.streams if one.family == EVENTS]
    read = {Path(path).resolve() for one in files for path in (*one["path"], one.get("items", ""))}
    if folder is not None and (Path(folder) / RESULTS).resolve() in read:
        raise ValueError(f"{RESULTS} in {folder} is a file that is read; name another folder for the results")
    store = None if folder is None else KeptCells(Path(folder))
    cells = {cell.key: cell for cell in config.cells()}
    kept = {} if store is None else store.read(cells)
    refused: dict[str, str] = {}
    todo = [cell for key, cell in cells.items() if key not in kept]
    alone = _ALONE if workers is None else 0.0
    for cell, row in _rows(todo, min(count, len(todo)), alone, progress):
        if "refused" in row:
            refused[cell.key] = row["refused"]
            continue
        kept[cell.key] = row
        if store is not None:
            store.write(cell, row)
    if not kept:
        raise ValueError(f"no cell could be run: {next(iter(refused.values()))}")
    results = Results(
        config,
        tuple(Outcome.of(cell, kept[cell.key]) for cell in config.cells() if cell.key in kept),
        tuple((cell, refused[cell.key]) for cell in config.cells() if cell.key in refused),
    )
    if store is not None:
        store.gather(results)
    return results


def cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _rows(
    cells: list[Cell], workers: int, alone: float, progress: bool
) -> Iterator[tuple[Cell, dict[str, Any]]]:
    """Cells with their rows, in the order in which they are finished; the first ones from this process.

    It works alone for ``alone`` seconds of processor time, or until the end if there are no other workers.
    """
    ticks = iter(track(range(len(cells)), "cells", progress))
    left = list(reversed(cells))
    start = time.process_time()
    while left and (workers <= 1 or time.process_time() - start < alone):
        next(ticks)
        cell = left.pop()
        yield cell, run_cell(cell)
    if left:
        yield from _shared(left[::-1], workers, ticks)
    next(ticks, None)


def _shared(cells: list[Cell], workers: int, ticks: Iterator[int]) -> Iterator[tuple[Cell, dict[str, Any]]]:
    """Cells with their rows, from several processes."""
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor, as_completed
    from concurrent.futures.process import BrokenProcessPool

    from ..online.registry import REGISTRY

    others = set(multiprocessing.active_children())
    context = multiprocessing.get_context("spawn")  # this process's threads would not survive a fork
    homes = {one.home for name, one in REGISTRY.items() if name in {cell.learner.kind for cell in cells}}
    with ProcessPoolExecutor(workers, context, initializer=_as_a_worker, initargs=(homes,)) as pool:
        try:
            with _children_undisturbed():
                waiting = {pool.submit(run_cell, cell): cell for cell in cells}
            for _, done in zip(ticks, as_completed(waiting), strict=True):
                yield waiting[done], done.result()
        except BrokenProcessPool as error:
            raise ChildProcessError(
                "a worker process ended before its work was done: in a script, call simulate below"
                ' if __name__ == "__main__":; if memory ran out, finished cells are kept: run the same again,'
                f" with fewer than workers={workers}"
            ) from error
        except BaseException:  # an interruption: unfinished cells are lost, finished ones are not
            pool.shutdown(wait=False, cancel_futures=True)
            for child in set(multiprocessing.active_children()) - others:
                child.terminate()
            raise


def _as_a_worker(homes: Iterable[str]) -> None:
    """Set up a worker: Ctrl-C is handled by the parent, which ends its workers and prints one line.

    A parent that is killed cannot do so, and its pipes stay open in other workers: so a thread waits for its
    end. ``homes`` are modules of learners, which register them.
    """
    import multiprocessing
    import threading

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None
    for home in homes:
        import_module(home)

    def end_with_it() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=end_with_it, daemon=True).start()


@contextmanager
def _children_undisturbed() -> Iterator[None]:
    """Processes started in this context ignore Ctrl-C from the start; for this process it is delayed."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
