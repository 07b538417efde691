"""Constraints as plain values, so that a learner's file can hold the one it chooses under."""

from __future__ import annotations

from typing import Any

import numpy as np

from .cardinality import Cardinality
from .constraint import Constraint
from .knapsack import Knapsack
from .matroids.graphic import GraphicMatroid
from .matroids.laminar import LaminarMatroid
from .matroids.linear import LinearMatroid
from .matroids.partition import PartitionMatroid
from .matroids.transversal import TransversalMatroid

# Exactly these: a class of somebody's own may decide otherwise, and could not be found again.
_KINDS: tuple[type[Constraint], ...] = (
    Cardinality,
    PartitionMatroid,
    LaminarMatroid,
    GraphicMatroid,
    TransversalMatroid,
    LinearMatroid,
    Knapsack,
)


def to_plain(constraint: Constraint) -> dict[str, Any]:
    """What `from_plain` builds an equal constraint from.

    >>> to_plain(Cardinality(2, n_items=5))
    {'kind': 'Cardinality', 'k': 2, 'n_items': 5}
    """
    if type(constraint) not in _KINDS:
        names = ", ".join(kind.__name__ for kind in _KINDS)
        raise TypeError(f"{constraint!r} cannot be written to a file; those that can: {names}")
    known: dict[str, Any] = {"kind": type(constraint).__name__}
    match constraint:
        case Cardinality():
            return known | {"k": constraint.k, "n_items": constraint.n_items}
        case PartitionMatroid() | LaminarMatroid():
            limits = constraint._fixed_limits
            return known | {
                "groups": [group.tolist() for group in limits.groups],
                "capacities": limits.capacities.tolist(),
                "n_items": constraint.n_items,
            }
        case GraphicMatroid():
            return known | {"edges": constraint._table.tolist()}
        case TransversalMatroid():
            return known | {"sets": constraint._members, "n_items": constraint.n_items}
        case LinearMatroid():
            return known | {"matrix": constraint._columns.tolist(), "modulus": constraint._modulus}
    assert isinstance(constraint, Knapsack)
    return known | {"costs": constraint.costs.tolist(), "capacity": constraint.capacity}


def from_plain(known: dict[str, Any]) -> Constraint:
    """The constraint that `to_plain` described."""
    match known["kind"]:
        case "Cardinality":
            return Cardinality(known["k"], known["n_items"])
        case "PartitionMatroid":
            return PartitionMatroid(known["groups"], known["capacities"], n_items=known["n_items"])
        case "LaminarMatroid":
            return LaminarMatroid(known["groups"], known["capacities"], n_items=known["n_items"])
        case "GraphicMatroid":
            return GraphicMatroid([(a, b) for a, b in known["edges"]])
        case "TransversalMatroid":
            return TransversalMatroid(known["sets"], n_items=known["n_items"])
        case "LinearMatroid":
            return LinearMatroid(np.array(known["matrix"], dtype=object), modulus=known["modulus"])
        case "Knapsack":
            return Knapsack(known["costs"], known["capacity"])
    raise ValueError(f"{known['kind']!r} is not a kind of constraint that this release knows")
