"""Objectives: populations of set functions over one ground set."""

from .base import Mixture, Population, State, greedy
from .continuous import (
    BudgetAllocation,
    ConcaveOfLinear,
    ContinuousPopulation,
    MultilinearExtension,
    QuadraticProgram,
)
from .cut import Arcs, GraphCut
from .embedded import EmbeddedFacilityLocation
from .log_determinant import LogDeterminant
from .matroid_rank import MatroidRank
from .mutual_information import MutualInformation
from .rows import (
    ConcaveOverModular,
    Coverage,
    FacilityLocation,
    ProbabilisticCoverage,
    SaturatedCoverage,
    WeightedTopics,
)
from .set_function import SetFunction

__all__ = [
    "Arcs",
    "BudgetAllocation",
    "ConcaveOfLinear",
    "ConcaveOverModular",
    "ContinuousPopulation",
    "Coverage",
    "EmbeddedFacilityLocation",
    "FacilityLocation",
    "GraphCut",
    "LogDeterminant",
    "MatroidRank",
    "Mixture",
    "MultilinearExtension",
    "MutualInformation",
    "Population",
    "ProbabilisticCoverage",
    "QuadraticProgram",
    "SaturatedCoverage",
    "SetFunction",
    "State",
    "WeightedTopics",
    "greedy",
]
