"""Means over random sets: each set is asked about once, for the numbers of every one of them."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import discreet as dc
from discreet.objectives import SetFunction, answers
from discreet.objectives.base import SampledSets, SharedSets, random_sets
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
    known, shared = {}, SharedSets(x, 5, 60, room=1000)
    for person in people([]):
        wanted = every_set(person, x, 5, 60)
        for _ in range(2):
            np.testing.assert_array_equal(shared.gradient(person), wanted)
        found = person.multilinear_gradient(x, rng=PublicRandomness.seeded(5).generator, samples=60)
        np.testing.assert_array_equal(found, wanted)
    first = people([])[0]
    for _ in range(2):  # from what is known
        np.testing.assert_array_equal(shared.gradient(first, known), every_set(first, x, 5, 60))
    sets = SampledSets(x, PublicRandomness.seeded(5).generator, 60)
    drawn = random_sets(x, PublicRandomness.seeded(5).generator, 60)
    assert sets.value(first) == np.mean([first._value(items) for items in drawn])


def test_no_set_is_asked_about_twice():
    calls = []
    person, x, known = people(calls)[0], np.zeros(N), {}
    SharedSets(x, 0, 300, room=1000).gradient(person, known)
    assert len(calls) == N + 2  # alone and with each item; that set again for what its items add
    calls.clear()
    SharedSets(x, 1, 300, room=1000).gradient(person, known)
    assert not calls


def test_a_family_with_a_gradient_of_its_own_is_asked_for_it():
    class Own(SetFunction):
        def multilinear_gradient(self, x, *, rng=None, samples=1000):
            return x + float(rng.integers(1 << 40)) + samples

    person = Own(lambda _: 0.0, n_items=N, bound=1.0, monotone=True)
    wanted = person.multilinear_gradient(np.zeros(N), rng=PublicRandomness.seeded(3).generator, samples=7)
    np.testing.assert_array_equal(SharedSets(np.zeros(N), 3, 7).gradient(person), wanted)


def value(calls, own, chosen):
    calls.append(chosen)
    return min(len(chosen & {own, own + 1, own + 2}), 2) / 2


@pytest.mark.parametrize("n_items", [6, 14])
def test_choices_are_the_same_without_room_for_answers(n_items, monkeypatch):
    calls, chosen, asked = [], [], []
    for room in (1 << 22, 0):
        monkeypatch.setattr("discreet.offline.continuous._MOST_VALUES", room)
        calls.clear()
        functions = [partial(value, calls, own) for own in range(3)]
        some = SetFunction(functions, n_items=n_items, bound=1.0, monotone=True)
        selector = dc.offline.ContinuousGreedy(dc.constraints.Cardinality(2), dc.Budget(50.0), 2, seed=0)
        chosen.append(selector.select(some).items)
        asked.append(len(calls))
    assert chosen[0] == chosen[1]
    assert asked[0] < asked[1]


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
