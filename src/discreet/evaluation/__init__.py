"""Evaluation in hindsight and in the clear: regret, streams, plots, reports, simulations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .live import Month, Visit, live_shop
from .regret import Bands, Regret, best_fixed_set, regret, regret_bands

if TYPE_CHECKING:
    from .simulation import simulate

__all__ = [
    "Bands",
    "Month",
    "Regret",
    "Visit",
    "best_fixed_set",
    "live_shop",
    "regret",
    "regret_bands",
    "simulate",
]


def __getattr__(name: str) -> Any:
    if name == "simulate":  # it needs every learner: loaded when it is asked for
        from .simulation import simulate

        return simulate
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
