"""Which learner, with which settings, for this question and this budget; why; and what it certifies."""

from __future__ import annotations

from .costs import plan_convex, plan_minimization
from .plans import Candidate, Plan, Question
from .selection import plan

__all__ = ["Candidate", "Plan", "Question", "plan", "plan_convex", "plan_minimization"]
