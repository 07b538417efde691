"""The people of a window of rounds, stored until it closes: all of them, or a secret sample."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..core.state import in_range
from ..objectives import Population, answers
from ..objectives.fixed_point import FixedPointGains, StepSource, step
from ..objectives.rows import KINDS, Kind, Rows, SparseMatrix
from ..privacy import Release
from .catalogue import Catalogue
from .partial import KeptPart, Partial
from .people import given_person, kept_person

_MOST_RUNS = 4096  # runs of rows before they are joined


def part_of(settings: Any, about: tuple[str, int, int | None, str]) -> KeptPart:
    """A part for another server, for a learner with these settings: it stores the people themselves."""
    size = settings.n_items
    given = partial(given_person, Catalogue(size, settings.labels), size)
    return KeptPart(about, given, partial(kept_person, size, settings.bound))


class Run(NamedTuple):
    """Rows of one kind as arrays: the length of each, then items, weights, shares and caps."""

    lengths: NDArray[np.int64]
    indices: NDArray[np.int32]
    data: NDArray[np.float64]
    share: NDArray[np.float64]
    cap: NDArray[np.float64]


class Window:
    """The open window: stores people whose gains are summed when it closes, each person's part exactly.

    Rows of one kind are stored in arrays, other people as the objects they are. ``length`` is the public
    number of rounds of the window, from round ``opens`` on (0 before the first one). With ``bound`` it fixes
    the step to which each person's gain is rounded down, so that sums are integer multiples of it below 2^53
    steps: exact also as floats. ``served`` windows were learned from; ``agreed`` says whether the set of the
    last one agreed with the one before.

    With ``sample``, a release and a probability in units of 2^-64, a secret draw decides for each person
    whether they are stored at all.
    """

    _state: ClassVar[tuple[str, ...]] = ("opens", "served", "agreed", "_kept")
    unit: float | None = None  # the step, if it is not the one that ``length`` fixes

    def __init__(
        self, n_items: int, bound: float, length: int = 0, sample: tuple[Release, int] | None = None
    ) -> None:
        self.n_items, self.bound, self.length = n_items, bound, length
        self._sample = sample
        self.opens, self.served, self.agreed = 0, 0, False
        self.clear()

    def clear(self) -> None:
        """Discard everybody."""
        self.others: list[Population] = []
        self.functions = False  # whether a function came, stored or not (which is secret)
        self._runs: dict[Kind, list[Run]] = {}  # rows, in order of arrival
        self.elsewhere: list[StepSource] = []

    def __len__(self) -> int:
        return len(self.others) + sum(run.share.size for runs in self._runs.values() for run in runs)

    @property
    def closes(self) -> int:
        """The first round after the window."""
        return self.opens + self.length

    def rows(self) -> list[Rows]:
        """The people given as rows, joined by kind (in place)."""
        found = []
        for kind, runs in self._runs.items():
            if len(runs) > 1:
                runs[:] = [Run(*map(np.concatenate, zip(*runs, strict=True)))]
            ends = np.concatenate(([0], np.cumsum(runs[0].lengths)))
            matrix = SparseMatrix(ends, runs[0].indices, runs[0].data, self.n_items)
            found.append(Rows(kind, matrix, runs[0].share, runs[0].cap))
        return found

    def close(self, rows: Sequence[Rows] | None = None) -> FixedPointGains:
        """Empty the window; returns its people's summed gains, starting from the empty set.

        It is emptied first so that nobody is learned from twice: if an interruption comes before the next
        window opens, a random set is drawn. ``rows`` is the result of `rows`, if it was called before.
        """
        sources = [*self.elsewhere, *(self.rows() if rows is None else rows)]
        parts: list[tuple[Rows | StepSource, float]] = [(one, self.bound) for one in sources]
        others = self.others
        unit = step(self.bound, self.length) if self.unit is None else self.unit
        self.clear()
        return FixedPointGains(self.n_items, parts, others, unit, self.bound)

    # --- people: a draw for each, made when their round closes -----------------------------------

    def prepared(self, person: Population, shown: NDArray[np.int32]) -> Population:
        """Check a person before storing them: a function that fails fails now, not when the window closes."""
        if person.as_rows() is None:
            answers.number("value", person.value(shown.tolist()), 0.0, self.bound)
            answers.vector("gains", person.gains([]), self.n_items, 0.0, self.bound)
        return person

    def learn(self, person: Population | None) -> None:
        """Store one person, if they are in the sample.

        None is a person over their limit of rounds, for whom a draw is made too. Draws are independent:
        those of everybody else do not depend on who is over the limit.
        """
        kept = self._sampled(1)
        if person is None:
            return
        if (rows := person.as_rows()) is not None:
            self.keep_rows(rows, kept)
            return
        self.functions = True
        if kept[0]:
            self.others.append(person)

    def learn_rows(self, people: Population, first: int, within_limit: NDArray[np.bool_]) -> None:
        """`learn` for people given as rows, from index ``first`` on."""
        everybody = people.as_rows()
        assert everybody is not None
        rows = everybody.chunk(first, first + within_limit.size)
        kept = self._sampled(rows.n_rows) & within_limit
        self.keep_rows(Rows(rows.kind, rows.sparse, rows.share, rows.cap), kept)

    def learn_stores(self, stores: Iterable[Any]) -> None:
        """`learn` for people who stay in their stores: one draw per person, independent between stores.

        The stores are read when the window has closed.
        """
        for people in stores:
            some = people if self._sample is None else people.sampled(*self._sample)
            self.functions = True
            self.elsewhere.append(some.row_source())

    def check_part(self, part: Partial) -> None:
        """Refuse a part whose people could not be stored here."""
        held = 0 if not isinstance(part, KeptPart) else len(part.people) + sum(map(len, part.stores))
        if not isinstance(part, KeptPart) or part.count != held:
            raise ValueError("the part holds other people than it counts; it was not made here")
        for person in (*part.people, *part.stores):
            kept_person(self.n_items, self.bound, person)

    def _sampled(self, count: int) -> NDArray[np.bool_]:
        """Which of the next ``count`` people are in the sample; everybody, where none is drawn."""
        kept = np.full(count, self._sample is None)
        if self._sample is not None:
            release, chance = self._sample
            kept[release.sample(count, chance)] = True
        return kept

    def keep_rows(self, rows: Rows, kept: NDArray[np.bool_] | None = None) -> None:
        """Store people given as rows, or those who are ``kept``: copies, without anybody else's data."""
        if kept is not None and not kept.all():
            if not kept.any():
                return
            rows = rows.take(np.flatnonzero(kept))
        if rows.n_rows:
            own = rows.matrix if isinstance(rows.matrix, SparseMatrix) else rows.sparse
            numbers = (own.indices.copy(), own.data.copy(), rows.share.copy(), rows.cap.copy())
            run = Run(np.diff(own.indptr), *numbers)
            runs = self._runs.setdefault(rows.kind, [run])  # never empty, whatever is interrupted
            if runs[-1] is not run:
                runs.append(run)
            if len(runs) >= _MOST_RUNS:
                self.rows()

    def check_growing(self) -> None:
        """Refuse new items while a person in the window is a function of the old items only."""
        if self.functions:
            raise ValueError(
                "the open window holds people who are functions of the items there were, or in a store; add"
                " items when it has closed"
            )

    def grown(self, settings: Any, number: int) -> None:  # noqa: ARG002
        """Enlarge to the items of new ``settings``; nobody is a function of fewer (`check_growing`)."""
        self.n_items = settings.n_items

    # --- saving ----------------------------------------------------------------------------------

    @property
    def _kept(self) -> tuple[Any, ...] | None:
        """The length and the people, for saving: the exact private data."""
        if self.functions:
            raise TypeError(
                "the open window holds people who are functions, or in a store, and cannot be written to a"
                f" file; save before round {self.opens} is learned from, or after round {self.closes} has"
                " been chosen for"
            )
        return (self.length, self.arrays()) if self.length else None

    @_kept.setter
    def _kept(self, kept: tuple[Any, ...] | None) -> None:
        self.clear()
        self.length, people = (0, {}) if kept is None else kept
        for code, arrays in people.items():
            self.keep_rows(_saved_rows(KINDS[code], self.n_items, **arrays))

    def arrays(self) -> dict[int, dict[str, NDArray[Any]]]:
        """The rows of each kind, for saving."""
        self.rows()
        return {kind.code: runs[0]._asdict() for kind, runs in self._runs.items()}


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
    """Rows from a file, validated here because compiled loops do not check lengths and items."""
    ends = np.concatenate(([0], np.cumsum(lengths)))
    good = lengths.min(initial=0) >= 0 and ends[-1] == indices.size == data.size
    if not good or not in_range(indices, n_items) or not lengths.size == share.size == cap.size:
        raise ValueError("the open window holds people of other items")
    return Rows(kind, SparseMatrix(ends, indices, data, n_items), share, cap)
