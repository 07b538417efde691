"""Rounds over private trees and single costs: compiled runs are those of people one by one, bit for bit."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import discreet as dc
from discreet.constraints.domains import Ball
from discreet.objectives.losses import Linear
from discreet.privacy import samplers
from discreet.privacy.randomness import ReproducibleRandomness
from discreet.privacy.samplers import noise_rows, noise_steps, spherical_rows, spherical_steps

ROUNDS, ITEMS = 67, 5


LAWS = {
    "laplace": (partial(noise_rows, gaussian=False), partial(noise_steps, gaussian=False)),
    "gaussian": (partial(noise_rows, gaussian=True), partial(noise_steps, gaussian=True)),
    "spherical": (spherical_rows, spherical_steps),
}


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize(("rows", "width"), [(400, 20), (3, 1), (10, 1000)])
def test_rows_of_noise_are_those_drawn_one_by_one(rows, width, law):
    at_once, in_turn = ReproducibleRandomness(5), ReproducibleRandomness(5)
    together, alone = LAWS[law]
    found = together(at_once, rows, width)
    wanted = [alone(in_turn, width) for _ in range(rows)]
    np.testing.assert_array_equal(found, wanted)
    assert at_once.words(3).tolist() == in_turn.words(3).tolist()  # not a word more


class Given:
    """Words that are given first, and then others."""

    secure = False

    def __init__(self, first):
        self._first, self._then = list(first), ReproducibleRandomness(1)

    def words(self, count):
        taken, self._first = self._first[:count], self._first[count:]
        return np.array([*taken, *self._then.words(count - len(taken)).tolist()], dtype=np.uint64)

    def state(self):
        raise TypeError


@pytest.mark.parametrize("law", LAWS)
def test_rows_that_need_more_digits_are_those_drawn_one_by_one(law):
    """A first word at the very border of a cell, and a place that is not kept, in rows of two."""
    border = int(samplers.noise_table(law != "laplace")[0][3])
    last = (1 << 64) - 1  # at the end of a cell, where a place is kept least often
    words = [border, 7, 5, last, last >> 1, last, border, last, 9, 9]
    together, alone = LAWS[law]
    at_once, in_turn = Given(words), Given(words)
    np.testing.assert_array_equal(together(at_once, 4, 2), [alone(in_turn, 2) for _ in range(4)])
    assert at_once.words(3).tolist() == in_turn.words(3).tolist()


def cuts():
    rng = np.random.default_rng(0)
    arcs = np.triu(rng.random((ROUNDS, ITEMS, ITEMS)) * 0.2, 1)
    prices = rng.normal(size=(ROUNDS, ITEMS)) * 0.1
    return dc.objectives.GraphCut(arcs, modular=prices, directed=True, bound=3.0)


def costs():
    rows = np.random.default_rng(1).normal(size=(ROUNDS, 3))
    return Linear(rows / np.linalg.norm(rows, axis=1, keepdims=True) * (1 - 1e-12), row_norm=1.0)


def minimizer(noise):
    budget = dc.Budget(2.0)
    return dc.online.SubmodularMinimizer(ITEMS, ROUNDS, budget, 3.0, sums="tree", noise=noise, seed=3)


def leader(noise):
    tree = {"sums": "tree", "noise": noise}
    return dc.online.ApproximateLeader(Ball(3, 1.0), ROUNDS, dc.Budget(2.0), lipschitz=1.0, **tree, seed=3)


def linear(noise):
    tree = {"sums": "tree", "noise": noise}
    return dc.online.LinearLeader(Ball(3, 1.0), ROUNDS, dc.Budget(2.0), lipschitz=1.0, **tree, seed=3)


def bandit(batch):
    radius = {"exploration_radius": 0.5, "batch": batch}
    ball, budget = Ball(3, 1.0), dc.Budget(2.0)
    return dc.online.BanditApproximateLeader(ball, ROUNDS, budget, lipschitz=1.0, bound=1.6, **radius, seed=3)


CASES = [
    *((minimizer, noise, cuts) for noise in ("laplace", "spherical")),
    *((leader, noise, costs) for noise in ("laplace", "spherical")),
    *((linear, noise, costs) for noise in ("laplace", "spherical")),
    *((bandit, batch, costs) for batch in (1, 4)),
]


def held(learner):
    return {name: array.tolist() for name, array in learner._saved()[1].items()}


@pytest.mark.parametrize(("make", "how", "people"), CASES)
def test_runs_are_rounds_one_by_one(make, how, people):
    """In pieces, with choices in between, and a saved learner in the middle."""
    whole, parts, single, stream = make(how), make(how), make(how), people()
    limit = [i % 60 for i in range(ROUNDS)]
    trace = whole.run(stream, person_ids=limit)
    parts.run(stream[:21], person_ids=limit[:21])
    parts = type(parts).load(parts.to_bytes())
    parts.choose()
    parts.run(stream[21:], person_ids=limit[21:])
    shown = []
    for i in range(ROUNDS):
        decision = single.choose()
        shown.append(single._row(decision))
        seen = stream[i]
        if make is bandit:
            seen = float(stream.at(i, decision)[0])
        single.learn(seen, person_id=limit[i])
    np.testing.assert_array_equal(trace.decisions, shown)
    assert held(whole) == held(parts) == held(single)


def test_a_cost_that_is_refused_ends_the_run_there():
    rows = np.full((ROUNDS, 3), 0.3)
    rows[30] = 9.0
    stream = Linear(rows, row_norm=20.0)
    runs, single = bandit(4), bandit(4)
    with pytest.raises(ValueError, match="outside the declared range"):
        runs.run(stream)
    for i in range(30):
        single.learn(float(stream.at(i, single.choose())[0]))
    single.choose()
    assert runs.round == single.round == 30
    assert held(runs) == held(single)
    later = [learner.run(stream[31:60]).costs.tolist() for learner in (runs, single)]
    assert later[0] == later[1]
