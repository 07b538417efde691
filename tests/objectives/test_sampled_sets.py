"""Means over random sets: each set is asked about once, for the numbers of every one of them."""

from __future__ import annotations

import numpy as np
import pytest

from discreet.objectives import SetFunction, answers
from discreet.objectives.base import random_sets
from discreet.privacy import PublicRandomness

N = 12


def people(calls):
    rng = np.random.default_rng(0)
    rows = [frozenset(np.flatnonzero(row).tolist()) for row in rng.random((4, N)) < 0.4]

    def function(own):
        def value(chosen):
            calls.append(chosen)
            return 1.0 - 0.5 ** len(own & chosen)

        return value

    return SetFunction([function(own) for own in rows], n_items=N, bound=1.0, monotone=True)


def every_set(person, x, seed, samples):
    """The obvious way: every set that was drawn, one after the other."""
    rows = []
    for items in random_sets(x, PublicRandomness.seeded(seed).generator, samples):
        row = answers.vector("gains", person._gains(items), N)
        row[items] = answers.vector("contributions", person._contributions(items), items.size)
        rows.append(row)
    return np.array(rows).mean(axis=0)


def test_a_set_holds_an_item_as_often_as_the_point_says():
    """Counts of 4,000 sets are binomial: within 6 standard deviations; and so are those of pairs."""
    x = np.array([0.0, 1.0, 0.25, 0.25, 0.9])
    held = np.zeros((4000, 5))
    for row, items in zip(held, random_sets(x, np.random.default_rng(0), 4000), strict=True):
        row[items] = 1.0
    assert (np.abs(held.sum(axis=0) - 4000 * x) <= 6 * np.sqrt(4000 * x * (1 - x))).all()
    assert abs((held[:, 2] * held[:, 3]).sum() - 4000 / 16) < 6 * np.sqrt(4000 / 16)


@pytest.mark.parametrize("support", [0, 1, 4, N])
def test_gradients_are_those_of_every_set_drawn(support):
    x = np.zeros(N)
    x[:support] = 0.3
    for person in people([]):
        how = {"rng": PublicRandomness.seeded(5).generator, "samples": 60}
        np.testing.assert_array_equal(person.multilinear_gradient(x, **how), every_set(person, x, 5, 60))
        drawn = random_sets(x, PublicRandomness.seeded(5).generator, 60)
        values = [person._value(items) for items in drawn]
        how["rng"] = PublicRandomness.seeded(5).generator
        assert person.multilinear(x, **how) == np.mean(values)


def test_no_set_is_asked_about_twice():
    calls = []
    people(calls)[0].multilinear_gradient(np.zeros(N), samples=300)
    assert len(calls) == N + 2  # alone and with each item; that set again for what its items add


def test_somebody_who_falls_is_still_found_out():
    falls = SetFunction(lambda s: 1.0 if len(s) < 2 else 0.5, n_items=N, bound=1.0, monotone=True)
    with pytest.raises(ValueError, match="loses"):
        falls.gains([0])
    with pytest.raises(ValueError, match="loses"):
        falls.contributions([0, 1])
    outside = SetFunction(lambda s: 2.0 * len(s), n_items=N, bound=1.0, monotone=True)
    with pytest.raises(ValueError, match="outside"):
        outside.gains([])
    few = SetFunction(lambda s: 1.0 if len(s) < 2 else 0.5, n_items=3, bound=1.0, monotone=True)
    with pytest.raises(ValueError, match="loses"):
        few.multilinear([0.5, 0.5, 0.5])
