"""Learners that decide every round, before the person is seen."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .bandit import BanditSelector
    from .convex import ApproximateLeader, LinearLeader
    from .convex_bandit import BanditApproximateLeader
    from .frank_wolfe import MetaFrankWolfe
    from .hedge import HedgeSelector
    from .minimization import SubmodularMinimizer
    from .minimization_bandit import BanditSubmodularMinimizer
    from .phased import PhasedSelector
    from .protocol import Guarantee, OnlineLearner
    from .running_sums import RunningSumSelector
    from .selector import OnlineSelector

# Where each name lives; the module is imported when the name is first asked for.
_HOMES = {
    "ApproximateLeader": "convex",
    "BanditApproximateLeader": "convex_bandit",
    "BanditSelector": "bandit",
    "BanditSubmodularMinimizer": "minimization_bandit",
    "Guarantee": "protocol",
    "HedgeSelector": "hedge",
    "LinearLeader": "convex",
    "MetaFrankWolfe": "frank_wolfe",
    "OnlineLearner": "protocol",
    "OnlineSelector": "selector",
    "PhasedSelector": "phased",
    "RunningSumSelector": "running_sums",
    "SubmodularMinimizer": "minimization",
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
