"""Online learners, which decide every round before the person is seen."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .registry import REGISTRY

if TYPE_CHECKING:
    from .bandit import BanditSelector as BanditSelector
    from .bandit_convex import BanditApproximateLeader as BanditApproximateLeader
    from .bandit_minimize import BanditSubmodularMinimizer as BanditSubmodularMinimizer
    from .best_of_both import BestOfBothSelector as BestOfBothSelector
    from .convex import ApproximateLeader as ApproximateLeader
    from .convex import LinearLeader as LinearLeader
    from .experts import Experts as Experts
    from .frank_wolfe import MetaFrankWolfe as MetaFrankWolfe
    from .frank_wolfe import MetaFrankWolfePoints as MetaFrankWolfePoints
    from .hedge import HedgeSelector as HedgeSelector
    from .leader import LeaderSelector as LeaderSelector
    from .learner import Guarantee as Guarantee
    from .learner import OnlineLearner as OnlineLearner
    from .learner import OnlineSelector as OnlineSelector
    from .minimize import SubmodularMinimizer as SubmodularMinimizer
    from .personal import PersonalSelector as PersonalSelector
    from .phased import PhasedSelector as PhasedSelector
    from .registry import AuditExample as AuditExample
    from .registry import register as register
    from .released import Released as Released
    from .rolling import RollingSelector as RollingSelector
    from .running_sums import RunningSumSelector as RunningSumSelector
    from .segments import Segments as Segments
    from .thompson import ThompsonSelector as ThompsonSelector

# Exports other than the registered learners; a module is imported when one of its names is first used.
_BASES = {
    "AuditExample": f"{__name__}.registry",
    "Experts": f"{__name__}.experts",
    "Guarantee": f"{__name__}.learner",
    "OnlineLearner": f"{__name__}.learner",
    "OnlineSelector": f"{__name__}.learner",
    "Released": f"{__name__}.released",
    "Segments": f"{__name__}.segments",
    "register": f"{__name__}.registry",
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
