"""Privacy: budgets, the gate, its account, and private running sums."""

from __future__ import annotations

from .account import Account
from .budget import Budget, Share
from .coins import Coins
from .events import (
    ApproximateRelease,
    ConcentratedRelease,
    Event,
    ExponentialChoice,
    FlippedChoice,
    GaussianNoise,
    GroupGaussianNoise,
    LaplaceNoise,
    PureRelease,
    ScoreChange,
    SphericalLaplaceNoise,
)
from .gate import Gate
from .ledger import DurableLedger, Entry, Ledger, LedgerConflict, MemoryLedger
from .limits import Remaining
from .partitions import select_partitions
from .picks import ExactChoices
from .population import PeopleSplit, PeriodClosed, Periods, SQLiteLedger
from .preview import BudgetExceeded, Preview
from .randomness import Randomness, ReproducibleRandomness, SecureRandomness, Seed
from .release import Release
from .spending import spend_from
from .sums import FactorizedSum, Participation, RunningSum, SumSpec, TreeSum, VectorBounds, tree_levels

__all__ = [
    "Account",
    "ApproximateRelease",
    "Budget",
    "BudgetExceeded",
    "Coins",
    "ConcentratedRelease",
    "DurableLedger",
    "Entry",
    "Event",
    "ExactChoices",
    "ExponentialChoice",
    "FactorizedSum",
    "FlippedChoice",
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
    "Preview",
    "PureRelease",
    "Randomness",
    "Release",
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
    "select_partitions",
    "spend_from",
    "tree_levels",
]
