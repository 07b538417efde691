"""Streams of people with a concave function in Python."""

from __future__ import annotations

import numpy as np

import discreet as dc
from discreet.objectives import ConcaveOverModular

ROUNDS, ITEMS = 60, 12


def hedge():
    return dc.online.HedgeSelector(ITEMS, 3, ROUNDS, dc.Budget(1.0, 1e-6), bound=8.0, seed=0)


def batches():
    budget = dc.Budget(1.0, 1e-6)
    return dc.online.HedgeSelector(ITEMS, 10, ROUNDS, budget, resample_every=7, bound=8.0, seed=0)


def phased():
    return dc.online.PhasedSelector(ITEMS, 3, dc.Budget(1.0, 1e-6), first_window=8, bound=8.0, seed=0)


def test_nobody_is_asked_together_with_somebody_else():
    """Whatever a function does, a person's part is made of that person's weights: it saw no other."""
    rng = np.random.default_rng(2)
    own = 8.0 ** -np.arange(ROUNDS)  # a person's sums are whole multiples of their own number
    weights = rng.integers(0, 3, (ROUNDS, ITEMS)) * own[:, None]
    seen = []

    def spying(total):
        seen.append(total.copy())
        return np.sqrt(total)

    stream = ConcaveOverModular(weights, concave=spying, bound=8.0)
    for make in (hedge, batches, phased):
        seen.clear()
        make().run(stream)
        assert seen
        totals = weights.sum(axis=1)
        for asked in seen:  # the largest is somebody's total, or an item more on top of it
            assert any(
                np.all(asked % step == 0.0) and asked.max() <= 2.0 * whole
                for step, whole in zip(own, totals, strict=True)
            )
