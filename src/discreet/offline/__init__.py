"""Selectors that see all people at once and release one set."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ..core.text import install

if TYPE_CHECKING:
    from .continuous import ContinuousGreedy
    from .curvature import CurvatureGreedy
    from .estimators import PrivateFeatureSelector, PrivateItemSelector
    from .estimators import RepeatedFitWarning as RepeatedFitWarning
    from .greedy import PrivateGreedy
    from .recommender import PrivateRecommender

# The module of each public name; it is imported when the name is first used.
_HOMES = {
    "ContinuousGreedy": "continuous",
    "CurvatureGreedy": "curvature",
    "PrivateFeatureSelector": "estimators",
    "PrivateGreedy": "greedy",
    "PrivateItemSelector": "estimators",
    "PrivateRecommender": "recommender",
    "RepeatedFitWarning": "estimators",
}

__all__ = [
    "ContinuousGreedy",
    "CurvatureGreedy",
    "PrivateFeatureSelector",
    "PrivateGreedy",
    "PrivateItemSelector",
    "PrivateRecommender",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        try:
            found = getattr(import_module(f".{_HOMES[name]}", __name__), name)
        except ModuleNotFoundError as error:
            if (error.name or "").split(".")[0] != "sklearn":
                raise
            raise ImportError(f"{name} needs scikit-learn: {install('sklearn')}", name="sklearn") from None
        globals()[name] = found
        return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
