"""Going on with whatever was saved: a learner, or segments with a learner each."""

from __future__ import annotations

import os

from ...core.state import state_class
from ...privacy import Gate
from ..protocol import OnlineLearner
from .segments import Segments


def load(path: str | os.PathLike[str] | bytes, *, gate: Gate | None = None) -> OnlineLearner | Segments:
    """Go on with a saved learner, or segments; what was spent stays spent. See `OnlineLearner.load`."""
    kind = Segments if state_class(path) == "Segments" else OnlineLearner
    return kind.load(path, gate=gate)
