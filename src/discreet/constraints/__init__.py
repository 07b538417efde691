"""What may be chosen: feasible sets, the polytopes that relax them, and rounding back to sets."""

from __future__ import annotations

from .cardinality import Cardinality
from .constraint import Constraint
from .graphic import GraphicMatroid
from .intersection import Intersection
from .knapsack import Knapsack
from .laminar import LaminarMatroid
from .linear import LinearMatroid
from .matroid import Matroid
from .partition import PartitionMatroid
from .results import Decomposition, ProjectedPoint
from .rounding import swap_round
from .transversal import TransversalMatroid

__all__ = [
    "Cardinality",
    "Constraint",
    "Decomposition",
    "GraphicMatroid",
    "Intersection",
    "Knapsack",
    "LaminarMatroid",
    "LinearMatroid",
    "Matroid",
    "PartitionMatroid",
    "ProjectedPoint",
    "TransversalMatroid",
    "swap_round",
]
