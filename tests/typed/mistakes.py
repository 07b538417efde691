"""Mistakes that type checkers find in a user's program: one in each line that says so."""

from __future__ import annotations

import discreet as dc
from discreet.offline import PrivateGreedy
from discreet.offline.estimators import PrivateFeatureSelector
from discreet.online import HedgeSelector, LeaderSelector, SubmodularMinimizer, ThompsonSelector

budget = dc.Budget(epsilon="one", delta=1e-6)  # mistake: not a number
learner = HedgeSelector(10, 3, 100, 1.0)  # mistake: not a budget
share: str = learner.privacy  # mistake: an account
learner.choose(every=1)  # mistake: no such option
every = learner.resampling  # mistake: no such attribute
misspelt = HedgeSelector(10, 3, 100, dc.Budget(1.0), calibration="publised")  # mistake: no such word
batch = LeaderSelector(10, 3, 100, dc.Budget(1.0), batch="geometrical")  # mistake: no such word
bold = SubmodularMinimizer(10, 100, dc.Budget(1.0), regularization="bold")  # mistake: no such word
features = PrivateFeatureSelector(3, 1.0, objective="information")  # mistake: no such word
concave = dc.objectives.ConcaveOverModular([[1.0]], concave="root")  # mistake: no such word
total = dc.Gate(dc.Budget(1.0)).running_sum(3, 10, method="trees")  # mistake: no such word
whom = dc.Budget(1.0, neighbours="replaced")  # mistake: no such word
greedy = PrivateGreedy(3, dc.Budget(1.0), method="fast")  # mistake: no such word
heard = dc.plan(10, 3, 100, dc.Budget(1.0), feedback="likes")  # mistake: no such word
slots = ThompsonSelector(10, 3, None, dc.Budget(1.0), feedback="set")  # mistake: no such word
costs = dc.plan_minimization(10, 100, dc.Budget(1.0), feedback="slots")  # mistake: no such word
