"""The planner: a learner with settings for a question and a budget, the reason, and the certificate."""

from __future__ import annotations

from .costs import plan_convex, plan_minimization
from .plans import Candidate, Plan, Question
from .selection import plan

__all__ = ["Candidate", "Plan", "Question", "plan", "plan_convex", "plan_minimization"]
