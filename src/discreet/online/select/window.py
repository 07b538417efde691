"""Windows one after the other, and the people of the open one, kept until a set is learned from them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.state import Saved
from ...objectives import Population
from ...objectives.rows.fixed_point import FixedPointGains, StepSource, step
from ...objectives.rows.matrices import SparseMatrix
from ...objectives.rows.table import KINDS, Kind, Rows
from ..rounds import Rounds
from .phased_settings import LONGEST, PhasedSettings

# Rows that came one by one are joined when there are so many of them.
_MOST_RUNS = 4096


class Phases:
    """Which window is open, since which round and for how many, and how many have been learned from."""

    def __init__(self, settings: PhasedSettings) -> None:
        self._settings = settings
        self._window: Window | None = None
        self._opens, self._served, self._agreed = 0, 0, False

    @property
    def window(self) -> Window:
        """The open window, where one is."""
        assert self._window is not None
        return self._window

    @property
    def opens(self) -> int:
        """The first round of the open window."""
        return self._opens

    @property
    def closes(self) -> int:
        """The first round after the open window."""
        return self._opens + (0 if self._window is None else self._window.length)

    @property
    def served(self) -> int:
        """How many windows have been learned from."""
        return self._served

    def close(self) -> Window | None:
        """The window that was open, with its people; None before the first one.

        An empty one of its length takes its place at once: nobody is to be learned from twice. Where an
        interruption comes in between, the set that is drawn instead is a random one.
        """
        closed = self._window
        if closed is not None:
            self._window = self._made(closed.length)
        return closed

    def open_first(self, number: int) -> None:
        """The first window opens with round ``number``."""
        self._opens, self._window = number, self._made(self._settings.first_window)

    def open_next(self, number: int, chosen: NDArray[np.int32], before: NDArray[np.int32]) -> None:
        """The next one opens; ``chosen`` was learned from the last one, during which ``before`` was shown."""
        length = self._next_length(chosen, before)
        self._served += 1
        self._opens, self._window = number, self._made(length)

    def grow(self, settings: PhasedSettings) -> None:
        """There are more items from now on; people of the open window have none of the new ones."""
        if self._window is not None:
            self._window.grow(settings.n_items)
        self._settings = settings

    def _next_length(self, chosen: NDArray[np.int32], before: NDArray[np.int32]) -> int:
        settings = self._settings
        if isinstance(settings.window, int):
            return settings.window
        agrees = 2 * np.intersect1d(chosen, before).size >= settings.k
        drifted = self._agreed and not agrees
        self._agreed = agrees
        return settings.first_window if settings.restart_on_drift and drifted else 2 * self.window.length

    def _made(self, length: int) -> Window:
        return Window(self._settings.n_items, self._settings.bound, length)

    # --- saving ----------------------------------------------------------------------------------

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """For `resume`: the people of the open window are in it, as they are."""
        window = self._window
        if window is not None and window.functions:
            raise TypeError(
                "the open window holds people who are functions, or in a store, and cannot be written to a"
                f" file; save before round {self.opens} is learned from, or after round {self.closes} has"
                " been chosen for"
            )
        plain = {
            "opens": self._opens,
            "served": self._served,
            "agreed": self._agreed,
            "length": None if window is None else window.length,
        }
        return plain, {} if window is None else window.arrays()

    def resume(self, saved: Saved, rounds: Rounds) -> None:
        """Go on with a saved window."""
        number = rounds.number
        self._opens = saved.whole("opens", at_least=0, at_most=number)
        self._agreed, self._window = saved.flag("agreed"), None
        self._served = saved.whole("served", at_least=min(1, self._opens), at_most=self._opens)
        if rounds.shown is not None:
            least = max(1, number - self._opens + rounds.is_open)
            length = saved.whole("length", at_least=least, at_most=2 * max(LONGEST, number))
            self._window = self._made(length)
            self._window.restore(saved, number - self._opens)


class Window:
    """People whose gains are wanted as sums over all of them, with one person's part exact.

    Rows of one kind are kept in arrays, other people as the objects they are. ``length`` is the public number
    of rounds of the window; with ``bound`` it fixes the step to which each person's gain is rounded down, so
    that sums are whole numbers of steps below 2^53: exact also as floats.
    """

    def __init__(self, n_items: int, bound: float, length: int) -> None:
        self.n_items, self.bound, self.length = n_items, bound, length
        self.others: list[Population] = []
        self.functions = False  # whether somebody came who is a function: kept or not, which is secret
        self._stores: dict[Kind, _Store] = {}
        self._elsewhere: list[StepSource] = []

    def __len__(self) -> int:
        return len(self.others) + sum(len(store) for store in self._stores.values())

    def keep(self, person: Population | None) -> None:
        """Take in one person who is a function; None for one who is not in the sample."""
        self.functions = True
        if person is not None:
            self.others.append(person)

    def keep_rows(self, rows: Rows) -> None:
        """Take in people who are rows."""
        if rows.n_rows:
            self._stores.setdefault(rows.kind, _Store(rows.kind)).extend(rows)

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

    def grow(self, n_items: int) -> None:
        """There are more items from now on."""
        if self.functions:
            raise ValueError(
                "the open window holds people who are functions of the items there were, or in a store; add"
                " items when it has closed"
            )
        for store in self._stores.values():
            store.grow(n_items)
        self.n_items = n_items

    def start(self) -> FixedPointGains:
        """The empty set, which can grow."""
        parts: list[tuple[Rows | StepSource, float]] = [(rows, self.bound) for rows in self._elsewhere]
        parts += [(store.rows(), self.bound) for store in self._stores.values() if len(store)]
        return FixedPointGains(self.n_items, parts, self.others, step(self.bound, self.length), self.bound)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The rows, for saving."""
        return {
            f"kept{kind.code}_{name}": array
            for kind, store in self._stores.items()
            for name, array in store.arrays().items()
        }

    def restore(self, saved: Saved, rounds: int) -> None:
        """Take in what `arrays` gave, of so many rounds."""
        codes = {name.removesuffix("_lengths") for name in saved.names if name.endswith("_lengths")}
        kinds = {f"kept{code}": kind for code, kind in KINDS.items()}
        for code in codes:
            if code not in kinds:
                raise ValueError(
                    f"the array {code}_lengths holds people of a kind that this release does not know"
                )
            self.keep_rows(_saved_rows(saved, code, kinds[code], self.n_items))
        if len(self) > rounds:
            raise ValueError("the open window holds more people than it had rounds")


def _saved_rows(saved: Saved, code: str, kind: Kind, n_items: int) -> Rows:
    """Rows that a file holds: compiled loops go by their lengths and items without looking."""
    lengths = saved.array(f"{code}_lengths", (None,), np.int64, at_least=0, at_most=n_items)
    ends = np.concatenate(([0], np.cumsum(lengths)))
    size = int(ends[-1])
    indices = saved.array(f"{code}_indices", (size,), np.int32, at_least=0, at_most=n_items - 1)
    data = saved.array(f"{code}_data", (size,), at_least=0.0, at_most=kind.largest)
    share = saved.array(f"{code}_share", (lengths.size,), at_least=0.0)
    cap = saved.array(f"{code}_cap", (lengths.size,), at_least=0.0, infinite=True)
    matrix = SparseMatrix(ends, indices, data, n_items)
    rising = np.diff(indices) > 0
    rising[ends[(ends > 0) & (ends < size)] - 1] = True  # from one row to the next
    if not rising.all():
        raise ValueError(f"the array {code}_indices has rows whose items are not in order")
    return Rows(kind, matrix, share, cap)


class _Store:
    """Rows of one kind, one after the other: whole runs of them as they came, joined when they are wanted."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self._runs: list[Rows] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def extend(self, rows: Rows) -> None:
        self._runs.append(rows)
        self._count += rows.n_rows
        if len(self._runs) >= _MOST_RUNS:
            self._runs = [self._joined()]

    def grow(self, n_items: int) -> None:
        """Rows over more items."""
        self._runs = [replace(run, matrix=replace(run.sparse, n_columns=n_items)) for run in self._runs]

    def _joined(self) -> Rows:
        tables = [rows.sparse for rows in self._runs]
        lengths = np.concatenate([np.diff(table.indptr) for table in tables])
        matrix = SparseMatrix(
            np.concatenate(([0], np.cumsum(lengths))),
            np.concatenate([table.indices for table in tables]),
            np.concatenate([table.data for table in tables]),
            tables[0].n_columns,
        )
        share, cap = (
            np.concatenate([getattr(rows, name) for rows in self._runs]) for name in ("share", "cap")
        )
        return Rows(self.kind, matrix, share, cap)

    def rows(self) -> Rows:
        """All of them."""
        if len(self._runs) > 1:
            self._runs = [self._joined()]
        return self._runs[0]

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The same for saving."""
        rows = self.rows()
        matrix = rows.sparse
        lengths = np.diff(matrix.indptr)
        return {
            "lengths": lengths,
            "indices": matrix.indices,
            "data": matrix.data,
            "share": rows.share,
            "cap": rows.cap,
        }
