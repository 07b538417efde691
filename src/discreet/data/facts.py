"""Public facts about items: columns that constraints are about, from a list of items or from the events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .labels import MISSING, Names, as_text, typed
from .source import Batch, Source, constraint_role


class Facts:
    """One value of each column for each item, whatever the number of rows that say so."""

    def __init__(self, columns: Sequence[str]) -> None:
        self._columns = tuple(columns)
        self._values = {constraint_role(column): Names() for column in columns}
        self._known: dict[str, dict[int, int]] = {role: {} for role in self._values}

    def of(self, batch: Batch) -> dict[str, NDArray[np.int64]]:
        """The number of each row's value, by role."""
        return {role: names.of(batch.columns[role]) for role, names in self._values.items()}

    def note(
        self,
        batch: Batch,
        labels: Sequence[Any],
        items: NDArray[np.int64],
        facts: Mapping[str, NDArray[np.int64]],
        kept: NDArray[np.bool_],
    ) -> None:
        """Remember what the kept rows say about their items; no two rows may disagree."""
        rows = np.flatnonzero(kept)
        for role, values in facts.items():
            pairs, first = np.unique(items[rows] << 32 | values[rows], return_index=True)
            known, names = self._known[role], self._values[role].labels
            for pair, row in zip(pairs.tolist(), rows[first].tolist(), strict=True):
                item, value = pair >> 32, pair & 0xFFFFFFFF
                before = known.setdefault(item, value)
                if before != value:
                    one, other = (as_text(names[number]) for number in (before, value))
                    name = as_text(labels[item])
                    raise batch.refused(
                        row,
                        f"item {name!r} has two values; an item has one value of the constraint's column",
                        f"item {name!r} has {one!r} and {other!r} in column {batch.asked[role]!r}; an item"
                        " has one value of the constraint's column",
                        skippable=False,
                    )

    def by_item(self, order: Sequence[int]) -> dict[str, list[str]]:
        """The columns, with a value for each of these items."""
        found = {}
        for column in self._columns:
            role = constraint_role(column)
            values = [as_text(value) for value in self._values[role].labels]
            found[column] = [values[self._known[role][item]] for item in order]
        return found


def read_items(
    source: Source, item: str, columns: Sequence[str] = ()
) -> tuple[list[Any], dict[str, list[str]]]:
    """A list of items, one in a row, and what it says about each; a single column may be called anything."""
    names, facts = Names(), Facts(columns)
    written = False
    for batch in source.batches({"item": item} | {constraint_role(one): one for one in columns}, only="item"):
        what, values = names.of(batch.columns["item"]), facts.of(batch)
        for role, numbers in ({"item": what} | values).items():
            if (numbers == MISSING).any():
                raise batch.missing(role, int(np.argmax(numbers == MISSING)))
        facts.note(batch, names.labels, what, values, what != MISSING)
        written = batch.written
    if not names.labels:
        raise ValueError(f"{source.name} lists no items; give one item per row")
    labels = typed(names.labels) if written else names.labels
    return labels, facts.by_item(range(len(labels)))
