"""The planner: which learner, with which settings, what it certifies, and what to expect of it.

`plans` compares the learners that fit one of the `questions`; `expected` simulates them on different
catalogues. Nothing here uses private data.
"""

from .plans import Plan, plan, plan_convex, plan_minimization
from .questions import Candidate, Question

__all__ = ["Candidate", "Plan", "Question", "plan", "plan_convex", "plan_minimization"]
