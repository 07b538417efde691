"""Constraints: feasible sets, the polytopes that relax them, and rounding back to sets."""

from __future__ import annotations

from .cardinality import Cardinality
from .constraint import Constraint
from .intersection import Intersection
from .knapsack import Knapsack
from .matroids.graphic import GraphicMatroid
from .matroids.laminar import LaminarMatroid
from .matroids.linear import LinearMatroid
from .matroids.matroid import Matroid
from .matroids.partition import PartitionMatroid
from .matroids.transversal import TransversalMatroid
from .results import Decomposition, ProjectedPoint
from .rounding import swap_round

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
