"""DR-submodular families: gradients, the DR property, public bounds and bad input."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.objectives import (
    BudgetAllocation,
    ConcaveOfLinear,
    ConcaveOverModular,
    Coverage,
    GraphCut,
    MultilinearExtension,
    ProbabilisticCoverage,
    QuadraticProgram,
)

UPPER = np.array([1.0, 2.0, 0.5, 1.5])


def _quadratic(rng):
    bend = rng.uniform(0.0, 0.1, (5, 4, 4))
    bend = -(bend + bend.transpose(0, 2, 1)) / 2.0
    linear = -(bend @ UPPER) + rng.uniform(0.0, 0.05, (5, 4))
    return QuadraticProgram(bend, linear, bound=2.5, gradient_bound=1.2, upper=UPPER)


def _families():
    rng = np.random.default_rng(7)
    weights = rng.uniform(0.0, 0.2, (5, 4))
    chances = rng.uniform(0.0, 0.4, (5, 4))
    return {
        "multilinear": MultilinearExtension(ProbabilisticCoverage(chances)),
        "saturating": ConcaveOfLinear(weights, "saturating", upper=UPPER),
        "log": ConcaveOfLinear(weights, "log", upper=UPPER),
        "ratio": ConcaveOfLinear(weights, "ratio", upper=UPPER),
        "budget": BudgetAllocation(chances, total=2.6, upper=UPPER),
        "quadratic": _quadratic(rng),
    }


@pytest.fixture(params=["multilinear", "saturating", "log", "ratio", "budget", "quadratic"])
def people(request):
    return _families()[request.param]  # made by the test that asks for it


def _inside(people, rng, count=20):
    return rng.uniform(0.02, 0.98, (count, people.dimension)) * people.upper


def test_gradients_are_those_of_the_values(people):
    step = 1e-6
    for x in _inside(people, np.random.default_rng(1)):
        slopes = [
            (people.value(x + step * e) - people.value(x - step * e)) / (2.0 * step)
            for e in np.eye(people.dimension)
        ]
        # second-order differences: truncation below 1e-11, rounding about 1e-16 / 1e-6
        assert np.abs(people.gradient(x) - slopes).max() < 1e-8


def test_gradients_fall_and_stay_above_zero(people):
    rng = np.random.default_rng(2)
    for person in people:
        for x in _inside(person, rng, 8):
            y = x + (person.upper - x) * rng.random(person.dimension)
            assert (person.gradient(x) >= person.gradient(y) - 1e-12).all()
            assert person.gradient(person.upper).min() >= -1e-12


def test_public_bounds_hold_for_every_person(people):
    rng = np.random.default_rng(3)
    zero = np.zeros(people.dimension)
    for person in people:
        assert person.value(zero) == pytest.approx(0.0, abs=1e-15)
        assert person.value(person.upper) <= person.bound * (1 + 1e-9)
        assert np.linalg.norm(person.gradient(zero)) <= person.gradient_bound * (1 + 1e-9)
        for x in _inside(person, rng, 5):
            y = _inside(person, rng, 1)[0]
            change = np.linalg.norm(person.gradient(x) - person.gradient(y))
            assert change <= person.smoothness * np.linalg.norm(x - y) * (1 + 1e-9)


def test_populations_are_averages_of_their_people(people):
    x = _inside(people, np.random.default_rng(4), 1)[0]
    assert people.value(x) == pytest.approx(np.mean([one.value(x) for one in people]))
    assert np.allclose(people.gradient(x), np.mean([one.gradient(x) for one in people], axis=0))
    assert len(people[1:3]) == 2
    assert people[[3, 1]][0].value(x) == people[3].value(x)
    assert people[-1].value(x) == people[4].value(x)
    with pytest.raises(IndexError):
        people[5]
    with pytest.raises(IndexError):
        people[5:]


def test_sampled_extensions_repeat_themselves():
    rng = np.random.default_rng(5)
    people = ConcaveOverModular(rng.uniform(0.0, 1.0 / 20.0, (2, 20)), bound=1.0)
    extension = MultilinearExtension(people, samples=50, seed=3)
    x = rng.random(20)
    assert (extension.gradient(x) == extension.gradient(x)).all()
    assert extension.value(x) == extension.value(x)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ConcaveOfLinear([[0.9, 0.9]]), "<weights, upper> above total=1"),
        (lambda: ConcaveOfLinear([[-0.1, 0.9]]), "weights"),
        (lambda: ConcaveOfLinear([[0.1]], "cube"), "concave='cube' is not one of"),
        (lambda: ConcaveOfLinear([[0.1]], upper=0.0), r"upper\[0\]=0 must be above 0"),
        (lambda: BudgetAllocation([[1.0, 0.2]]), "chances must be below 1"),
        (lambda: QuadraticProgram([[[0.1]]], [[0.5]]), "DR-submodular needs all <= 0"),
        (lambda: QuadraticProgram([[[-0.6]]], [[0.5]]), "the function falls"),
        (lambda: QuadraticProgram([[[-0.1]]], [[1.5]]), "can exceed bound=1"),
        (lambda: QuadraticProgram([[[-0.1]]], [[1.5]], bound=2.0), "can exceed gradient_bound=1"),
        (lambda: QuadraticProgram([[[0.0, -0.1], [0.0, 0.0]]], [[0.2, 0.2]]), "symmetric"),
        (lambda: QuadraticProgram([[[-0.1]]], [[0.2, 0.2]]), "hessians must be a matrix of 2 x 2"),
        (lambda: MultilinearExtension(GraphCut(np.zeros((3, 3)), bound=1.0)), "monotone"),
        (lambda: MultilinearExtension("people"), "population of set functions"),
        (lambda: _families()["log"].value([1.0, 3.0, 0.0, 0.0]), r"x\[1\]=3 is outside \[0, 2\]"),
        (lambda: _families()["log"].value([math.nan, 0.0, 0.0, 0.0]), "nan"),
    ],
)
def test_bad_input(make, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make()


def test_budget_allocation_is_the_chance_of_being_reached():
    person = BudgetAllocation([[0.3, 0.2]], total=2.0, upper=[3.0, 2.0])
    assert person.value([3.0, 2.0]) == pytest.approx(1.0 - 0.7**3 * 0.8**2)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(0.0, 1.0), min_size=3, max_size=3))
def test_multilinear_extension_is_the_populations(x):
    people = Coverage([[1, 0, 1], [0, 1, 0]])
    assert MultilinearExtension(people).value(x) == people.multilinear(x)
