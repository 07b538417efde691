"""Options that are words: types by which editors complete them."""

from typing import Literal

Auto = Literal["auto"]
Adjacency = Literal["replace", "add_remove"]
Calibration = Literal["tight", "published"]
SumMethod = Literal["sqrt", "blt", "tree"]
NoiseLaw = Literal["gaussian", "laplace", "spherical"]
GreedyMethod = Literal["auto", "basic", "zcdp", "decomposable", "subsampled", "exact"]
ExplorationForm = Literal["blocks", "online", "presampled", "every_round"]
BanditFeedback = Literal["set", "slots"]
PlanFeedback = Literal["full", "bandit", "slots"]
Stream = Literal["adversarial", "stationary"]
Goal = Literal["expected", "certified"]
UnknownItems = Literal["error", "drop"]
