"""One budget for one population: a ledger that outlives processes, periods, people in disjoint parts."""

from __future__ import annotations

from .periods import PeriodClosed, Periods
from .split import PeopleSplit
from .sqlite import SQLiteLedger

__all__ = ["PeopleSplit", "PeriodClosed", "Periods", "SQLiteLedger"]
