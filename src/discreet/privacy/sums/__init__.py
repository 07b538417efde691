"""Private running sums of vectors: after every vector, the sum so far, with noise that adds up slowly.

`TreeSum` is the binary tree of papers 001 and 004 (after Dwork et al. 2010 and Chan, Shi and Song 2011) with
the sensitivity and the number of levels that replace-one neighbours need. `FactorizedSum` is the
lower-triangular Toeplitz factorisation of Fichtenberger, Henzinger and Upadhyay 2023, which has about a third
of the tree's noise. A new method is a class beside these and an entry in `METHODS`.

All are used the same way, also when the next vector depends on earlier answers:

>>> import numpy as np, discreet as dc
>>> total = dc.privacy.FactorizedSum(3, rounds=100, budget=dc.Budget(1.0, 1e-6), norm_bound=1.0, seed=0)
>>> total.add(np.array([1.0, 0.0, 0.0])).shape
(3,)
"""

from __future__ import annotations

from typing import Any

from ...core import checks
from ..accountant import Gate
from .base import RunningSum
from .bounds import VectorBounds
from .factorized import FactorizedSum
from .participation import Participation
from .spec import SumSpec
from .tree import TreeSum, tree_levels

# Every method by name: the class that sums by it.
METHODS: dict[str, type[RunningSum]] = {"sqrt": FactorizedSum, "blt": FactorizedSum, "tree": TreeSum}


def running_sum(method: str, dimension: int, rounds: int, gate: Gate, **options: Any) -> RunningSum:
    """A sum by the name of its method; for `Gate.running_sum`."""
    kind = METHODS[checks.one_of("method", method, METHODS)]
    if len(kind.methods) > 1:
        options["method"] = method
    return kind(dimension, rounds, gate, **options)


__all__ = [
    "METHODS",
    "FactorizedSum",
    "Participation",
    "RunningSum",
    "SumSpec",
    "TreeSum",
    "VectorBounds",
    "running_sum",
    "tree_levels",
]
