"""Learners that choose a set every round, before the person is seen."""

from __future__ import annotations

from .running_sums import RunningSumSelector

__all__ = ["RunningSumSelector"]
