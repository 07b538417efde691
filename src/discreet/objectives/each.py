"""Values of one set to each person on their own, for a whole stream at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .base import Floats, Population
from .rows.table import Rows


def value_to_each(people: Population, items: Sequence[Any]) -> Floats:
    """The value of ``items`` to every person, in order. These are facts about single people.

    >>> from discreet.objectives import Coverage
    >>> value_to_each(Coverage([[1, 0, 1], [0, 1, 0], [0, 0, 0]]), [0, 2])
    array([1., 0., 0.])
    """
    chosen = people._checked(items)
    rows = people.as_rows()
    if rows is None:
        return np.array([person._value(chosen) for person in people])
    return value_to_rows(rows, chosen.tolist())


def value_to_rows(rows: Rows, items: Sequence[int]) -> Floats:
    """`value_to_each` for people who are rows: only the entries of the chosen items are looked at."""
    matrix = rows.sparse
    chosen = np.zeros(rows.n_items, dtype=np.bool_)
    chosen[list(items)] = True
    hits = np.flatnonzero(chosen[matrix.indices])
    found = matrix.indices[hits]
    people = np.searchsorted(matrix.indptr, hits, side="right") - 1
    state, values = rows.fresh(), np.zeros(rows.n_rows)
    for item in items:
        here = found == item
        who, weights = people[here], matrix.data[hits[here]]
        values[who] += rows.share[who] * rows.kind.gain(state[who], weights, rows.cap[who])
        state[who] = rows.kind.step(state[who], weights)
    return values
