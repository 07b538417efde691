"""Evaluation in hindsight, without privacy: regret, streams, plots, reports, simulations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .live import Month, Visit, live_shop
from .regret import Bands, Regret, best_fixed_set, regret, regret_bands

if TYPE_CHECKING:
    from .personal import compare_recommenders
    from .simulation import simulate

__all__ = [
    "Bands",
    "Month",
    "Regret",
    "Visit",
    "best_fixed_set",
    "compare_recommenders",
    "live_shop",
    "regret",
    "regret_bands",
    "simulate",
]


def __getattr__(name: str) -> Any:
    # Loaded on demand, as they import every learner, or the recommender.
    if name == "simulate":
        from .simulation import simulate

        return simulate
    if name == "compare_recommenders":
        from .personal import compare_recommenders

        return compare_recommenders
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
