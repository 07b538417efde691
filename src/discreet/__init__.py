"""Choose a few things out of many on behalf of people whose preferences are private.

Importing the package is cheap: its parts load when they are first touched.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import constraints, data, evaluation, objectives, offline, online, privacy
    from .constraints import domains
    from .core.checks import DataError
    from .objectives import losses
    from .online.learner import load
    from .planning import plan, plan_convex, plan_minimization
    from .privacy import Budget, BudgetExceeded, Gate
    from .results import Selection, Trace

__version__ = "0.1.0"

# Where each public name lives; the submodule is imported when the name is first asked for.
_HOMES = {
    "Budget": "privacy",
    "BudgetExceeded": "privacy",
    "DataError": "core.checks",
    "Gate": "privacy",
    "Selection": "results",
    "Trace": "results",
    "load": "online.learner",
    "plan": "planning",
    "plan_convex": "planning",
    "plan_minimization": "planning",
}
_PARTS = {
    "audit": "audit",
    "bounds": "bounds",
    "constraints": "constraints",
    "data": "data",
    "domains": "constraints.domains",
    "evaluation": "evaluation",
    "losses": "objectives.losses",
    "objectives": "objectives",
    "offline": "offline",
    "online": "online",
    "privacy": "privacy",
}

__all__ = [
    "Budget",
    "BudgetExceeded",
    "DataError",
    "Gate",
    "Selection",
    "Trace",
    "__version__",
    "audit",
    "bounds",
    "constraints",
    "data",
    "domains",
    "evaluation",
    "load",
    "losses",
    "objectives",
    "offline",
    "online",
    "plan",
    "plan_convex",
    "plan_minimization",
    "privacy",
]


def __getattr__(name: str) -> Any:
    if name in _PARTS:
        return import_module(f".{_PARTS[name]}", __name__)
    if name in _HOMES:
        return getattr(import_module(f".{_HOMES[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
