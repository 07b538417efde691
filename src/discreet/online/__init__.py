"""Online learners, which decide every round before the person is seen."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .registry import REGISTRY

if TYPE_CHECKING:
    from .bandit.selector import BanditSelector as BanditSelector
    from .convex.approximate import ApproximateLeader as ApproximateLeader
    from .convex.bandit import BanditApproximateLeader as BanditApproximateLeader
    from .convex.linear import LinearLeader as LinearLeader
    from .frank_wolfe.points import MetaFrankWolfePoints as MetaFrankWolfePoints
    from .frank_wolfe.sets import MetaFrankWolfe as MetaFrankWolfe
    from .minimize.bandit import BanditSubmodularMinimizer as BanditSubmodularMinimizer
    from .minimize.minimizer import SubmodularMinimizer as SubmodularMinimizer
    from .protocol import Guarantee as Guarantee
    from .protocol import OnlineLearner as OnlineLearner
    from .segments.segments import Segments as Segments
    from .select.best_of_both import BestOfBothSelector as BestOfBothSelector
    from .select.hedge import HedgeSelector as HedgeSelector
    from .select.leader import LeaderSelector as LeaderSelector
    from .select.phased import PhasedSelector as PhasedSelector
    from .select.running_sums import RunningSumSelector as RunningSumSelector
    from .select.selector import OnlineSelector as OnlineSelector
    from .thompson.selector import ThompsonSelector as ThompsonSelector

# What there is beside the registered learners; modules are imported when a name is first asked for.
_BASES = {
    "Guarantee": f"{__name__}.protocol",
    "OnlineLearner": f"{__name__}.protocol",
    "OnlineSelector": f"{__name__}.select.selector",
    "Segments": f"{__name__}.segments.segments",
}

__all__ = sorted([*_BASES, *REGISTRY])


def __getattr__(name: str) -> Any:
    if name in REGISTRY:
        return REGISTRY[name].kind(name)
    if name in _BASES:
        return getattr(import_module(_BASES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
