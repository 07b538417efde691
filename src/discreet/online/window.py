"""The people of a window of rounds, kept until it closes: all of them, or a secret sample."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..core.state import in_range
from ..objectives import Population
from ..objectives.fixed_point import FixedPointGains, StepSource, step
from ..objectives.rows import KINDS, Kind, Rows, SparseMatrix, function_rows
from ..privacy import Release
from .catalogue import Catalogue
from .partial import KeptPart, Partial
from .people import given_person, kept_person

_MOST_RUNS = 4096  # of rows that came one by one, before they are joined


def part_of(settings: Any, about: tuple[str, int, int | None, str]) -> KeptPart:
    """The part of another server, for a learner with these settings: its people are kept as they came."""
    size = settings.n_items
    given = partial(given_person, Catalogue(size, settings.labels), size)
    return KeptPart(about, given, partial(kept_person, size, settings.bound))


class Window:
    """The open window: people whose gains are wanted as sums over all of them, one person's part exact.

    Rows of one kind are kept in arrays, other people as the objects they are. ``length`` is the public number
    of rounds of the window, from round ``opens`` on (0 before the first one). With ``bound`` it fixes the
    step to which each person's gain is rounded down, so that sums are integers of steps below 2^53: exact
    also as floats. ``served`` windows were learned from; the last of their sets ``agreed`` with the one
    before.

    With ``sample``, a release and a chance in units of 2^-64, a secret coin decides of everybody who comes
    whether they are kept at all.
    """

    _state: ClassVar[tuple[str, ...]] = ("opens", "served", "agreed", "_kept")

    def __init__(
        self, n_items: int, bound: float, length: int = 0, sample: tuple[Release, int] | None = None
    ) -> None:
        self.n_items, self.bound, self.length = n_items, bound, length
        self._sample = sample
        self.opens, self.served, self.agreed = 0, 0, False
        self._empty()

    def _empty(self) -> None:
        self.others: list[Population] = []
        self.functions = False  # whether somebody came who is a function: kept or not, which is secret
        self._runs: dict[Kind, list[Rows]] = {}  # of rows, as they came
        self._elsewhere: list[StepSource] = []

    def __len__(self) -> int:
        return len(self.others) + sum(rows.n_rows for runs in self._runs.values() for rows in runs)

    @property
    def closes(self) -> int:
        """The first round after the window."""
        return self.opens + self.length

    @property
    def unit(self) -> float:
        """The step to which each person's gain is rounded down."""
        return step(self.bound, self.length)

    def close(self) -> FixedPointGains:
        """The empty set, which can grow by its people's sums; none of them is in the window any more.

        Nobody is to be learned from twice: where an interruption comes before the next window opens, the set
        that is drawn instead is a random one.
        """
        parts: list[tuple[Rows | StepSource, float]] = [(rows, self.bound) for rows in self._elsewhere]
        parts += [(joined(runs), self.bound) for runs in self._runs.values()]
        others = self.others
        self._empty()
        return FixedPointGains(self.n_items, parts, others, self.unit, self.bound)

    # --- people: each has a coin, tossed when their round closes ---------------------------------

    def learn(self, person: Population | None) -> None:
        """Keep one person, if they are in the sample; None for one who came too often, who has a coin too."""
        kept = bool(self._tossed(1)[0])
        if person is None:
            return
        rows, functions = person.as_rows(), function_rows(person)
        if functions is not None:
            self.keep_functions(functions, kept)
        elif rows is None:
            self.keep(person if kept else None)
        elif kept:
            self.keep_rows(rows)

    def learn_rows(self, rows: Rows, within_limit: NDArray[np.bool_]) -> None:
        """The same for people who are rows."""
        kept = self._tossed(rows.n_rows) & within_limit
        rows = Rows(rows.kind, rows.sparse, rows.share, rows.cap)
        self.keep_rows(rows if kept.all() else rows.take(np.flatnonzero(kept)))

    def learn_functions(self, rows: Rows, within_limit: NDArray[np.bool_]) -> None:
        """The same for people who are rows with a function in Python."""
        self.keep_functions(rows, self._tossed(within_limit.size) & within_limit)

    def learn_stores(self, stores: Iterable[Any]) -> None:
        """The same for people who stay in their stores: one coin a person, and new ones for each store."""
        for people in stores:
            some = people if self._sample is None else people.sampled(*self._sample)
            self.keep_stored(some.row_source())

    def check_part(self, part: Partial) -> None:
        """Refuse a part whose people could not be kept here."""
        held = 0 if not isinstance(part, KeptPart) else len(part.people) + sum(map(len, part.stores))
        if not isinstance(part, KeptPart) or part.count != held:
            raise ValueError("the part holds other people than it counts; it was not made here")
        for person in (*part.people, *part.stores):
            kept_person(self.n_items, self.bound, person)

    def _tossed(self, count: int) -> NDArray[np.bool_]:
        """Who of the next people is kept."""
        kept = np.full(count, self._sample is None)
        if self._sample is not None:
            release, chance = self._sample
            kept[release.sample(count, chance)] = True
        return kept

    def keep(self, person: Population | None) -> None:
        """Take in one person who is a function; None for one who is not in the sample."""
        self.functions = True
        if person is not None:
            self.others.append(person)

    def keep_rows(self, rows: Rows) -> None:
        """Take in people who are rows."""
        if rows.n_rows:
            runs = self._runs.setdefault(rows.kind, [])
            runs.append(rows)
            if len(runs) >= _MOST_RUNS:
                joined(runs)

    def keep_functions(self, rows: Rows, kept: bool | NDArray[np.bool_]) -> None:
        """Take in people who are rows with a function in Python: those who are ``kept``."""
        self.functions = True
        if np.all(kept):
            self.keep_rows(rows)
        elif np.any(kept):
            self.keep_rows(rows.take(np.flatnonzero(kept)))

    def keep_stored(self, rows: StepSource) -> None:
        """Take in people who stay in their store, and are gone through there when the window has closed."""
        self.functions = True
        self._elsewhere.append(rows)

    def check_growing(self) -> None:
        """Refuse more items where somebody is a function of those there were."""
        if self.functions:
            raise ValueError(
                "the open window holds people who are functions of the items there were, or in a store; add"
                " items when it has closed"
            )

    def grow(self, n_items: int) -> None:
        """There are more items from now on; nobody is a function of fewer (`check_growing`)."""
        for runs in self._runs.values():
            runs[:] = [replace(run, matrix=replace(run.sparse, n_columns=n_items)) for run in runs]
        self.n_items = n_items

    # --- saving ----------------------------------------------------------------------------------

    @property
    def _kept(self) -> tuple[Any, ...] | None:
        """The length and the people, for saving: they are in it as they are."""
        if self.functions:
            raise TypeError(
                "the open window holds people who are functions, or in a store, and cannot be written to a"
                f" file; save before round {self.opens} is learned from, or after round {self.closes} has"
                " been chosen for"
            )
        return (self.length, self.arrays()) if self.length else None

    @_kept.setter
    def _kept(self, kept: tuple[Any, ...] | None) -> None:
        self._empty()
        self.length, people = (0, {}) if kept is None else kept
        for code, arrays in people.items():
            self.keep_rows(_saved_rows(KINDS[code], self.n_items, **arrays))

    def arrays(self) -> dict[int, dict[str, NDArray[Any]]]:
        """The rows of each kind, for saving."""
        found: dict[int, dict[str, NDArray[Any]]] = {}
        for kind, runs in self._runs.items():
            rows, matrix = joined(runs), runs[0].sparse
            numbers: dict[str, NDArray[Any]] = {"indices": matrix.indices, "data": matrix.data}
            numbers |= {"share": rows.share, "cap": rows.cap}
            found[kind.code] = {"lengths": np.diff(matrix.indptr), **numbers}
        return found


def _saved_rows(
    kind: Kind,
    n_items: int,
    *,
    lengths: NDArray[np.int64],
    indices: NDArray[np.int32],
    data: NDArray[np.float64],
    share: NDArray[np.float64],
    cap: NDArray[np.float64],
) -> Rows:
    """Rows that a file holds: compiled loops go by their lengths and items without looking."""
    ends = np.concatenate(([0], np.cumsum(lengths)))
    good = lengths.min(initial=0) >= 0 and ends[-1] == indices.size == data.size
    if not good or not in_range(indices, n_items) or not lengths.size == share.size == cap.size:
        raise ValueError("the open window holds people of other items")
    return Rows(kind, SparseMatrix(ends, indices, data, n_items), share, cap)


def joined(runs: list[Rows]) -> Rows:
    """Runs of rows of one kind as one; they stay joined."""
    if len(runs) > 1:
        tables = [rows.sparse for rows in runs]
        lengths = np.concatenate([np.diff(table.indptr) for table in tables])
        ends = np.concatenate(([0], np.cumsum(lengths)))
        indices, data = (
            np.concatenate([getattr(one, name) for one in tables]) for name in ("indices", "data")
        )
        share, cap = (np.concatenate([getattr(rows, name) for rows in runs]) for name in ("share", "cap"))
        matrix = SparseMatrix(ends, indices, data, tables[0].n_columns)
        runs[:] = [Rows(runs[0].kind, matrix, share, cap)]
    return runs[0]
