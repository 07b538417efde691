"""A catalogue that is chosen privately, for people whose items are on no public list."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.checks import whole
from ..privacy import Budget, Gate, Seed, select_partitions
from .events import PrivateCatalogue, _alike, _distinct, _none_missing, _plain, _weights
from .tables import Column, read_columns


def private_catalogue(
    events: Any,
    budget: Budget | Gate,
    *,
    person: str,
    item: str,
    weight: str | None = None,
    share: float = 1.0,
    items_per_person: int = 1,
    seed: Seed = None,
) -> PrivateCatalogue:
    """The items that enough people have, chosen privately: a list for ``items=`` where none is public.

    ``events``, ``person``, ``item`` and ``weight`` as in ``Coverage.from_events``. Each person votes for
    ``items_per_person`` of their items, drawn at random (events of weight 0 do not count); an item is listed
    where its noisy number of votes passes a threshold; `privacy.partitions.PartitionSelection` has the proof.
    One vote each is best unless the same people like nearly everything. Items are sorted: neither their order
    nor how a label is written (whole numbers as numbers) depends on anything but which are listed.

    It costs ``share`` of the budget's epsilon, and all of its delta, which must be above 0. With a `Budget`
    that is a gate of its own, and what is chosen from the catalogue afterwards costs its budget beside it.
    With a `Gate`, which has its own randomness, both stand in one account: what comes next is then paid with
    what is left of epsilon.

    Formal guarantee: (share x epsilon, delta)-DP under the budget's neighbours. An item that only one person
    has is listed with probability at most delta.

    >>> import discreet as dc
    >>> table = {"who": [*range(90), 90], "what": ["tea", "milk", "jam"] * 30 + ["Ann's secret"]}
    >>> gate = dc.Gate(dc.Budget(4.0, 1e-6), 0)
    >>> catalogue = dc.data.private_catalogue(table, gate, person="who", item="what", share=0.5)
    >>> list(catalogue)
    ['jam', 'milk', 'tea']
    >>> people = dc.objectives.Coverage.from_events(table, person="who", item="what", items=catalogue)
    >>> best = dc.offline.PrivateGreedy(2, gate).select(people)
    >>> len(best), best.privacy.epsilon()
    (2, 4.0)
    """
    if isinstance(budget, Gate):
        if seed is not None:
            raise ValueError("seed= is for a budget; a gate has its own randomness")
        gate = budget
    elif isinstance(budget, Budget):
        gate = Gate(budget, seed)
    else:
        raise TypeError(
            f"budget must be a Budget or a Gate, got a {type(budget).__name__}; e.g. Budget(1.0, 1e-6)"
        )
    whole("items_per_person", items_per_person, at_least=1)
    names = {"person": person, "item": item} | ({} if weight is None else {"weight": weight})
    columns = read_columns(events, names)
    for argument in ("person", "item"):
        _none_missing(argument, names[argument], columns[argument])
    counts = _weights(columns.get("weight"), weight, columns["person"].size) > 0.0
    _, who = _distinct(columns["person"])
    labels, what = _spelled(columns["item"])
    mask = select_partitions(
        who[counts],
        what[counts],
        len(labels),
        gate,
        share=share,
        keys_per_person=items_per_person,
        label=f"catalogue: items by noisy counts, at most {items_per_person} of each person",
    )
    return PrivateCatalogue(_in_order([labels[place] for place in np.flatnonzero(mask)]), gate.spent)


def _spelled(column: Column) -> tuple[list[Any], NDArray[np.int64]]:
    """The distinct entries as they are written in a catalogue, and which of them each row holds.

    1, True, 1.0 and "1" are one item, 1. A column is numbers or text by what stands in all of its rows, and
    the first of equal entries would stand for all: nobody's row may change how somebody else's is written.
    """
    if column.dtype != object:
        values, codes = _distinct(column)
    else:
        values, codes = list(column), np.arange(column.size)
    written = np.empty(len(values), dtype=object)
    labels: dict[str, Any] = {}
    for place, value in enumerate(values):
        label = _number(_alike(_plain(value)))
        written[place] = f"{type(label).__qualname__} {label!r}"
        labels.setdefault(written[place], label)
    found, places = _distinct(written)
    return [labels[text] for text in found], places[codes]


def _number(label: Any) -> Any:
    """A whole number in place of its text."""
    if not isinstance(label, str) or len(label) > 40 or not label.lstrip("-").isdecimal():
        return label
    return int(label) if str(int(label)) == label else label


def _in_order(labels: list[Any]) -> list[Any]:
    """Sorted by type and value; by how they are written where they do not compare."""
    try:
        return sorted(labels, key=lambda label: (type(label).__name__, label))
    except TypeError:
        return sorted(labels, key=lambda label: (type(label).__name__, repr(label)))
