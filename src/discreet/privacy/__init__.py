"""What may leave: budgets, the gate, its account, and private running sums."""

from __future__ import annotations

from .account import Account
from .budget import Budget, Share
from .events import (
    ApproximateRelease,
    ConcentratedRelease,
    Event,
    ExponentialChoice,
    GaussianNoise,
    LaplaceNoise,
    PureRelease,
    SphericalLaplaceNoise,
)
from .gate import BudgetExceeded, Gate, Preview, Remaining, ScoreChange
from .partitions import select_partitions
from .randomness import Randomness, ReproducibleRandomness, SecureRandomness
from .sums.base import FactorizedSum, RunningSum, TreeSum, tree_levels

__all__ = [
    "Account",
    "ApproximateRelease",
    "Budget",
    "BudgetExceeded",
    "ConcentratedRelease",
    "Event",
    "ExponentialChoice",
    "FactorizedSum",
    "Gate",
    "GaussianNoise",
    "LaplaceNoise",
    "Preview",
    "PureRelease",
    "Randomness",
    "Remaining",
    "ReproducibleRandomness",
    "RunningSum",
    "ScoreChange",
    "SecureRandomness",
    "Share",
    "SphericalLaplaceNoise",
    "TreeSum",
    "select_partitions",
    "tree_levels",
]
