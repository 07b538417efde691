"""Outcomes of a simulation's cells: in memory, and in a folder that a stopped run goes on from.

They are facts about the people of the stream, read in the clear: they are not private.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.extras import install
from ..regret import Regret
from .cells import Cell, canonical
from .config import Config

RESULTS, CELLS = "results.parquet", "cells"
_SCALARS = (
    "n_items",
    "rounds",
    "average",
    "greedy",
    "best",
    "best_upper",
    "exact",
    "account",
    "planned",
    "note",
    "seconds",
)
_LISTS = {"comparator": "int64", "at": "int64", "rewards": "float64", "rival": "float64", "shown": "string"}
_TYPES = {"n_items": "int64", "rounds": "int64", "exact": "bool", "note": "string", "planned": "string"}


@dataclass(frozen=True)
class Outcome:
    """What came of a cell; ``rewards`` and ``rival`` are running totals after the rounds in ``at``.

    ``rival`` is what the comparator, one set fixed in hindsight, brought the same people. ``account`` is the
    epsilon of what the learner released, at the cell's delta: infinite without privacy, 0 without data.
    ``planned`` is the learner that the planner took, ``shown`` the items of the last round, by their labels.
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
        """From a row of plain values, as `run_cell` gives it and the store keeps it."""
        return cls(
            cell,
            **{name: row[name] for name in _SCALARS},
            comparator=tuple(row["comparator"]),
            at=np.array(row["at"], dtype=np.int64),
            rewards=np.array(row["rewards"]),
            rival=np.array(row["rival"]),
            shown=tuple(row["shown"]),
        )

    def regret(self, alpha: float = 1.0) -> Regret:
        """Regret against ``alpha`` times the comparator; its curve has the points of ``at``."""
        rounds = self.rounds
        return Regret(
            self.comparator,
            self.exact,
            self.best,
            self.best_upper,
            (alpha * self.best - self.average) * rounds,
            (alpha * self.best_upper - self.average) * rounds,
            alpha * self.rival - self.rewards,
            alpha,
        )


@dataclass(frozen=True)
class Results:
    """Outcomes of a simulation's cells, and why some could not be run."""

    config: Config
    outcomes: tuple[Outcome, ...]
    refused: tuple[tuple[Cell, str], ...] = ()

    def by_learner(self, stream: str | None = None, epsilon: float | None = None) -> dict[str, list[Outcome]]:
        """The repeats of every learner on one stream at one epsilon; those that are alike at each, always.

        With one stream, or one epsilon, it need not be named.
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


class Store:
    """A folder of finished cells, one Parquet file each."""

    def __init__(self, folder: Path) -> None:
        try:
            import pyarrow
            import pyarrow.parquet
        except ImportError as error:
            raise ImportError(f"keeping results needs pyarrow: {install('tables')}") from error
        self._arrow = pyarrow
        self._folder = folder
        self._cells = folder / CELLS
        self._cells.mkdir(parents=True, exist_ok=True)

    def read(self, cells: Mapping[str, Cell]) -> dict[str, dict[str, Any]]:
        """The rows of those cells that are finished; a file that cannot be read is as good as none."""
        found = {}
        for key in cells:
            path = self._cells / f"{key}.parquet"
            if not path.exists():
                continue
            try:
                rows = self._arrow.parquet.read_table(path).to_pylist()
                found[key] = {name: rows[0][name] for name in (*_SCALARS, *_LISTS)}
            except (OSError, ValueError, IndexError, KeyError):
                continue
        return found

    def write(self, cell: Cell, row: Mapping[str, Any]) -> None:
        self._save(self._cells / f"{cell.key}.parquet", [(cell, row)])

    def gather(self, results: Results) -> None:
        """All outcomes in one file, a row each."""
        rows = [
            (one.cell, {name: getattr(one, name) for name in (*_SCALARS, *_LISTS)})
            for one in results.outcomes
        ]
        self._save(self._folder / RESULTS, rows)

    def _save(self, path: Path, rows: Sequence[tuple[Cell, Mapping[str, Any]]]) -> None:
        arrow = self._arrow
        columns: dict[str, Any] = {
            "stream": arrow.array([cell.stream.name for cell, _ in rows], arrow.string()),
            "learner": arrow.array([cell.learner.name for cell, _ in rows], arrow.string()),
            "epsilon": arrow.array([cell.epsilon for cell, _ in rows], arrow.float64()),
            "delta": arrow.array([cell.delta for cell, _ in rows], arrow.float64()),
            "k": arrow.array([cell.k for cell, _ in rows], arrow.int64()),
            "repeat": arrow.array([cell.repeat for cell, _ in rows], arrow.int64()),
            "key": arrow.array([cell.key for cell, _ in rows], arrow.string()),
            "settings": arrow.array([canonical(cell.settings) for cell, _ in rows], arrow.string()),
        }
        for name in _SCALARS:
            kind = arrow.type_for_alias(_TYPES.get(name, "float64"))
            columns[name] = arrow.array([row[name] for _, row in rows], kind)
        for name, inner in _LISTS.items():
            kind = arrow.list_(arrow.type_for_alias(inner))
            columns[name] = arrow.array([list(row[name]) for _, row in rows], kind)
        part = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            arrow.parquet.write_table(arrow.table(columns), part)
            os.replace(part, path)
        finally:
            part.unlink(missing_ok=True)
