"""Learners that decide every round, before the person is seen."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .bandit.selector import BanditSelector
    from .convex.bandit import BanditApproximateLeader
    from .convex.leader import ApproximateLeader, LinearLeader
    from .frank_wolfe.sets import MetaFrankWolfe
    from .minimize.bandit import BanditSubmodularMinimizer
    from .minimize.minimizer import SubmodularMinimizer
    from .protocol import Guarantee, OnlineLearner
    from .select.hedge import HedgeSelector
    from .select.phased import PhasedSelector
    from .select.running_sums import RunningSumSelector
    from .select.selector import OnlineSelector

# Where each name lives; the module is imported when the name is first asked for.
_HOMES = {
    "ApproximateLeader": "convex.leader",
    "BanditApproximateLeader": "convex.bandit",
    "BanditSelector": "bandit.selector",
    "BanditSubmodularMinimizer": "minimize.bandit",
    "Guarantee": "protocol",
    "HedgeSelector": "select.hedge",
    "LinearLeader": "convex.leader",
    "MetaFrankWolfe": "frank_wolfe.sets",
    "OnlineLearner": "protocol",
    "OnlineSelector": "select.selector",
    "PhasedSelector": "select.phased",
    "RunningSumSelector": "select.running_sums",
    "SubmodularMinimizer": "minimize.minimizer",
}

__all__ = [
    "ApproximateLeader",
    "BanditApproximateLeader",
    "BanditSelector",
    "BanditSubmodularMinimizer",
    "Guarantee",
    "HedgeSelector",
    "LinearLeader",
    "MetaFrankWolfe",
    "OnlineLearner",
    "OnlineSelector",
    "PhasedSelector",
    "RunningSumSelector",
    "SubmodularMinimizer",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f".{_HOMES[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)


def _every_kind() -> None:
    """Import every learner, so that a saved one of any kind is known."""
    for home in _HOMES.values():
        import_module(f".{home}", __name__)
