"""Learners that choose a set every round, before the person is seen."""

from __future__ import annotations

from .hedge import HedgeSelector
from .phased import PhasedSelector
from .protocol import Guarantee, OnlineSelector
from .running_sums import RunningSumSelector

__all__ = ["Guarantee", "HedgeSelector", "OnlineSelector", "PhasedSelector", "RunningSumSelector"]
