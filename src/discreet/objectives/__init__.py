"""Objectives: populations of set functions over one ground set."""

from .arrays.embedded import EmbeddedFacilityLocation
from .base import Population
from .concave import ConcaveOverModular, SaturatedCoverage
from .continuous import (
    BudgetAllocation,
    ConcaveOfLinear,
    ContinuousPopulation,
    MultilinearExtension,
    QuadraticProgram,
)
from .coverage import Coverage, ProbabilisticCoverage
from .cut import Arcs, GraphCut
from .facility_location import FacilityLocation
from .greedy import greedy
from .log_determinant import LogDeterminant
from .mixture import Mixture
from .mutual_information import MutualInformation
from .set_function import SetFunction
from .state import State
from .topics import WeightedTopics

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
