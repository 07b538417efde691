"""Privacy: budgets, the gate, its account, and private running sums."""

from __future__ import annotations

from .account import Account, Entry, Releases, Remaining
from .accountant import BudgetExceeded, Gate, Preview, Release, spend_from
from .budget import Budget, Share
from .events import (
    ApproximateRelease,
    ConcentratedRelease,
    Event,
    ExponentialChoice,
    GaussianNoise,
    GroupGaussianNoise,
    LaplaceNoise,
    PermuteAndFlip,
    PureRelease,
    ScoreChange,
    SphericalLaplaceNoise,
)
from .factorizations import tree_levels
from .ledger import Charge, Ledger, LedgerConflict, MemoryLedger, SQLiteLedger
from .partitions import select_partitions
from .picks import ExactChoices
from .population import PeopleSplit, PeriodClosed, Periods
from .prefix_sum import FactorizedSum, Participation, RunningSum, SumSpec, TreeSum, VectorBounds
from .randomness import (
    PublicRandomness,
    Randomness,
    ReproducibleRandomness,
    SecureRandomness,
    Seed,
    random_id,
)

__all__ = [
    "Account",
    "ApproximateRelease",
    "Budget",
    "BudgetExceeded",
    "Charge",
    "ConcentratedRelease",
    "Entry",
    "Event",
    "ExactChoices",
    "ExponentialChoice",
    "FactorizedSum",
    "Gate",
    "GaussianNoise",
    "GroupGaussianNoise",
    "LaplaceNoise",
    "Ledger",
    "LedgerConflict",
    "MemoryLedger",
    "Participation",
    "PeopleSplit",
    "PeriodClosed",
    "Periods",
    "PermuteAndFlip",
    "Preview",
    "PublicRandomness",
    "PureRelease",
    "Randomness",
    "Release",
    "Releases",
    "Remaining",
    "ReproducibleRandomness",
    "RunningSum",
    "SQLiteLedger",
    "ScoreChange",
    "SecureRandomness",
    "Seed",
    "Share",
    "SphericalLaplaceNoise",
    "SumSpec",
    "TreeSum",
    "VectorBounds",
    "random_id",
    "select_partitions",
    "spend_from",
    "tree_levels",
]
