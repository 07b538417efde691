"""Streams of people with a concave function in Python: compiled questions and answers, people one by one."""

from __future__ import annotations

import numpy as np
import pytest

import discreet as dc
from discreet.objectives import ConcaveOverModular
from discreet.online.people import FunctionRounds

ROUNDS, ITEMS, BOUND = 60, 12, 4.0


def falling(total):
    """It falls in a place that is not looked at in advance."""
    return np.log1p(total) - 0.5 * ((total > 2.01) & (total < 2.02))


def failing(total):
    """It raises in such a place."""
    if ((total > 2.01) & (total < 2.02)).any():
        raise KeyError("somebody")
    return np.sqrt(total)


def high(total):
    """More than is declared, for some people."""
    return 1.6 * np.sqrt(total)


def in_place(total):
    """It writes on what it is given."""
    return np.log1p(np.multiply(total, 2.0, out=total))


def people(concave):
    rng = np.random.default_rng(1)
    weights = rng.random((ROUNDS, ITEMS)) * (rng.random((ROUNDS, ITEMS)) < 0.4)
    weights[7] = 0.0
    return ConcaveOverModular(weights, concave=concave, bound=8.0)


def hedge():
    return dc.online.HedgeSelector(ITEMS, 3, ROUNDS, dc.Budget(1.0, 1e-6), bound=8.0, seed=0)


def batches():
    budget = dc.Budget(1.0, 1e-6)
    return dc.online.HedgeSelector(ITEMS, 10, ROUNDS, budget, resample_every=7, bound=8.0, seed=0)


def phased():
    return dc.online.PhasedSelector(ITEMS, 3, dc.Budget(1.0, 1e-6), first_window=8, bound=8.0, seed=0)


def known(learner):
    """What has been learned."""
    if isinstance(learner, dc.online.HedgeSelector):
        return learner._experts.scores
    return learner._window.close().scores()


def played(learner, stream, limit):
    try:
        trace = learner.run(stream, person_ids=limit)
    except Exception as error:
        return type(error), learner.round, known(learner).tolist()
    return trace.rewards.tolist(), trace.selections.tolist(), known(learner).tolist()


@pytest.mark.parametrize("concave", [np.log1p, lambda t: t / (1.0 + t), falling, failing, in_place])
@pytest.mark.parametrize("make", [hedge, batches, phased])
def test_rounds_are_those_of_people_asked_one_by_one(make, concave, monkeypatch):
    stream, limit = people(concave), [i % 50 for i in range(ROUNDS)]
    found = []
    for slow in (False, True):
        learner = make()
        if slow:
            monkeypatch.setattr(type(learner), "_function_rounds", lambda *_: None)
        found.append(played(learner, stream, limit))
    assert found[0] == found[1]
    assert concave in (falling, failing) or len(found[0][0]) == ROUNDS


def test_values_above_the_bound_are_refused_as_one_by_one():
    """A population of smaller people, whose function is exchanged afterwards: nothing else looks."""
    stream = people(np.sqrt)
    stream._rows.kind.__dict__["function"] = high
    asked = FunctionRounds(stream._rows, 3, 2.0, 1.0, 100)
    shown = np.array([0, 1, 2], dtype=np.int32)
    worth = asked.ask(0, ROUNDS, shown)
    assert 0 < worth.size < ROUNDS
    rows = stream._rows.sparse
    gains = [high(rows.data[rows.indptr[i] : rows.indptr[i + 1]]).max(initial=0.0) for i in range(ROUNDS)]
    assert max(gains[: worth.size]) <= 2.0


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
