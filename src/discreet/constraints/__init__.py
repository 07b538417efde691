"""Constraints: feasible sets, the polytopes that relax them, and rounding back to sets."""

from .base import Constraint, Decomposition, ProjectedPoint
from .knapsack import Knapsack
from .matroids import GraphicMatroid, LinearMatroid, Matroid, TransversalMatroid
from .nested import Cardinality, LaminarMatroid, PartitionMatroid
from .residual import Intersection
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
