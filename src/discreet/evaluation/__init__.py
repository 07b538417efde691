"""Evaluation in hindsight and in the clear: regret, streams, plots, reports, simulations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .regret import Bands, Regret, best_fixed_set, regret, regret_bands

if TYPE_CHECKING:
    from .simulation.simulate import simulate

__all__ = ["Bands", "Regret", "best_fixed_set", "regret", "regret_bands", "simulate"]


def __getattr__(name: str) -> Any:
    if name == "simulate":  # it needs every learner: loaded when it is asked for
        from .simulation.simulate import simulate

        return simulate
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
