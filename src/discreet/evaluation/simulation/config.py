"""Configurations of simulations: plain values or a TOML file, checked before anything is run."""

from __future__ import annotations

import difflib
import hashlib
import inspect
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ...core import checks
from .cells import BASELINES, EVENTS, PLANNER, Cell, LearnerSpec, StreamSpec

COMPARATORS = ("greedy", "best")
FEEDBACK = ("full", "bandit", "slots")
_MADE_BY_US = ("self", "n_items", "k", "rounds", "budget", "bound", "labels", "seed")


@dataclass(frozen=True)
class Config:
    """A whole simulation, checked: read it with `read_config` or `Config.of`."""

    streams: tuple[StreamSpec, ...]
    learners: tuple[LearnerSpec, ...]
    epsilons: tuple[float, ...] = (1.0,)
    k: int = 5
    delta: float = 1e-6
    neighbours: str = "replace"
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
        from ...privacy import Budget

        if not self.epsilons or len(set(self.epsilons)) < len(self.epsilons):
            raise ValueError(f"epsilons={list(self.epsilons)} must be at least one, each listed once")
        Budget(1.0, self.delta, self.neighbours)
        for learner in self.learners:
            if learner.delta is not None:
                Budget(1.0, learner.delta)
        checks.whole("repeats", self.repeats, at_least=1)
        checks.whole("seed", self.seed, at_least=0)
        checks.real("alpha", self.alpha, above=0.0, at_most=1.0)
        checks.one_of("comparator", self.comparator, COMPARATORS)
        if not isinstance(self.title, str):
            raise TypeError(f"title must be text, got {self.title!r}")
        for stream in self.streams:
            count = None if stream.family == EVENTS else stream.settings.get("items")
            if count is None:  # a file: reading it now says what is wrong with it before anything runs
                count = stream.people(0).n_items
            if checks.whole("k", self.k, at_least=1) > count:
                raise ValueError(f"k={self.k} exceeds the {count} items of stream {stream.name!r}")

    def cells(self) -> list[Cell]:
        """Every cell, those of one stream and repeat together."""
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
    """A TOML file, see ``discreet simulate --help`` for an example."""
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
    from ...data.formats import files_of
    from ...data.source import Source
    from .. import streams

    options = dict(given)
    if EVENTS in options:
        given_paths = options.pop(EVENTS)
        several = given_paths if isinstance(given_paths, list | tuple) else [given_paths]
        if not several:
            raise ValueError("events= names no file; give a path, a pattern, a folder or a list of them")
        paths = [one for path in several for one in files_of(Source(str(folder / str(path))))]
        name = str(options.pop("name", ", ".join(Path(str(path)).name for path in several)))
        allowed = _keywords(streams.event_file)
        _known(f"setting of stream {name!r}", options, ["name", EVENTS, *allowed])
        missing = [column for column in ("person", "item") if column not in options]
        if missing:
            raise ValueError(f"stream {name!r} needs {' and '.join(missing)}: the columns of its file")
        prints = [_print_of(path) for path in paths]
        if "items" in options:
            options["items"] = str(folder / str(options["items"]))
            prints.append(_print_of(options["items"]))
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
    options = dict(given)
    if "learner" not in options:
        raise ValueError(f"a learner needs learner= ({', '.join(learner_names())})")
    kind = _kind(options.pop("learner"))
    if feedback is not None:
        options = _heard(kind, checks.one_of("feedback", feedback, FEEDBACK)) | options
    epsilon, delta = options.pop("epsilon", None), options.pop("delta", None)
    if epsilon is not None:
        epsilon = checks.real("epsilon", epsilon, above=0.0, infinite=True)
    settings = {name: value for name, value in options.items() if name != "name"}
    shown = ", ".join(f"{key}={value}" for key, value in settings.items())
    free = "not private: " if epsilon is not None and math.isinf(epsilon) else ""
    name = str(options.get("name", f"{free}{kind}({shown})" if shown else f"{free}{kind}"))
    _known(f"setting of learner {name!r}", settings, _settings_of(kind))
    return LearnerSpec(name, kind, settings, epsilon, delta)


def _heard(kind: str, feedback: str) -> dict[str, Any]:
    """The setting with which a learner is told so much after a round; refused where it needs more."""
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
    """Who can be simulated: every selector of `discreet.online`, the planner and the baselines."""
    from ...online.registry import selectors

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
    from ... import online, planning

    if kind in BASELINES:
        return []
    made = planning.plan if kind == PLANNER else getattr(online, kind).__init__
    return [name for name in inspect.signature(made).parameters if name not in _MADE_BY_US]


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
    """Specs under distinct names; a second one of a name gets a number."""
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
