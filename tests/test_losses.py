"""Populations of convex losses: gradients, declared bounds, the best fixed point, and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest

from discreet.constraints.domains import Ball, Box, Simplex
from discreet.objectives.losses import Distance, Linear, Logistic, Squared, cost_functions
from tests.refusals import refused

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(40, 3))
ROWS /= np.linalg.norm(ROWS, axis=1)[:, None] * RNG.uniform(1.0, 3.0, (40, 1))
LABELS, TARGETS = RNG.integers(0, 2, 40), RNG.uniform(-2.0, 2.0, 40)
LOSSES = {
    "logistic": lambda: Logistic(ROWS, LABELS),
    "squared": lambda: Squared(ROWS, TARGETS, target_bound=2.0),
    "linear": lambda: Linear(ROWS, row_norm=1.0),
    "distance": lambda: Distance(ROWS),
}


@pytest.fixture(params=LOSSES, ids=LOSSES.keys())
def people(request):
    return LOSSES[request.param]()  # made by the test that asks for it


def test_gradients_are_slopes(people):
    point = np.array([0.3, -0.7, 0.2])
    step = 1e-6
    slopes = [
        (people.value(point + step * e) - people.value(point - step * e)) / (2 * step) for e in np.eye(3)
    ]
    assert np.allclose(people.gradient(point), slopes, atol=1e-8)


def test_one_person_is_a_population_of_one(people):
    point = np.array([0.3, -0.7, 0.2])
    values = people.values(point)
    for i in (0, 7, -1):
        value, gradient = people.at(i, point)
        one = people[i]
        assert len(one) == 1
        assert one.value(point) == pytest.approx(value)
        assert values[i] == pytest.approx(value)
        assert np.allclose(one.gradient(point), gradient)
    assert people.value(point) == pytest.approx(values.mean())
    assert len(people[3:9]) == 6
    assert people[3:9].value(point) == pytest.approx(values[3:9].mean())
    assert len(list(people)) == 40
    with pytest.raises(IndexError):
        people[40]


@pytest.mark.parametrize("domain", [Ball(3, 2.0, [1.0, 0.0, 0.0]), Box([-1.0] * 3, [2.0] * 3)])
def test_lipschitz_bounds_hold(people, domain):
    rng = np.random.default_rng(1)
    longest = 0.0
    for _ in range(200):
        point = domain.project(5.0 * rng.normal(size=3))
        longest = max(longest, *(float(np.linalg.norm(people.at(i, point)[1])) for i in range(40)))
    assert longest <= people.lipschitz(domain) * (1 + 1e-12)


def test_lipschitz_bounds_are_attained():
    """By somebody at the far end of the domain."""
    domain = Ball(2, 3.0, [1.0, 0.0])
    for people in (
        Squared([[2.0, 0.0]], [-5.0], target_bound=5.0, row_norm=2.0),
        Distance([[-2.0, 0.0]], row_norm=2.0),
        Linear([[2.0, 0.0]], row_norm=2.0),
        Linear([[-3.0, -3.0]], box=(-3.0, 1.0)),
        Linear([[3.0, 3.0]], box=(-1.0, 3.0)),
        Logistic([[-2.0, 0.0]], [1], row_norm=2.0),
    ):
        longest = max(float(np.linalg.norm(people.gradient(point))) for point in ([4.0, 0.0], [-2.0, 0.0]))
        assert 0.95 * people.lipschitz(domain) <= longest <= people.lipschitz(domain) * (1 + 1e-11)


def test_average_gradients_change_no_faster_than_is_said(people):
    """The largest eigenvalue of second differences at 0, where a logistic cost bends most."""
    step = 1e-5
    slopes = [(people.gradient(step * e) - people.gradient(-step * e)) / (2 * step) for e in np.eye(3)]
    assert people._smoothness() == pytest.approx(np.linalg.eigvalsh(slopes).max(), abs=1e-8)


def test_parts_are_populations_of_their_own(people):
    point = np.array([0.3, -0.7, 0.2])
    for part in (slice(None, None, 3), np.arange(39, 0, -2), people.values(point) > 0.4):
        some = people[part]
        assert np.allclose(some.values(point), people.values(point)[part])
        assert [some.at(i, point)[0] for i in range(len(some))] == pytest.approx(some.values(point))
        costs = np.empty(len(some))
        some.compiled().costs(0, point, costs)
        assert costs == pytest.approx(some.values(point))
    with pytest.raises(ValueError, match="point has 2 entries; 3 expected"):
        people.at(0, np.zeros(2))
    with pytest.raises(IndexError):
        people.at(40, point)


def test_rows_are_held_to_their_length_whatever_their_size():
    for size in (1e-200, 1e200):
        people = Distance(np.array([[3.0, 4.0], [0.3, 0.4]]) * size, row_norm=size, clip=True)
        assert people.insecure_clipped == 1
        assert people.at(0, np.zeros(2))[1] / size == pytest.approx([-0.6, -0.8])
        with pytest.raises(ValueError, match="longer than row_norm"):
            Distance([[3.0 * size, 4.0 * size]], row_norm=size)
    nearly = Linear([[0.6 * (1 + 1e-13), 0.8 * (1 + 1e-13)]], row_norm=1.0)
    assert np.linalg.norm(nearly.at(0, np.zeros(2))[1]) <= 1.0 + 1e-15
    assert nearly.insecure_clipped == 0


def test_a_cost_of_ones_own():
    class Half(Distance):
        def at(self, person, point):
            cost, gradient = super().at(person, point)
            return cost / 2.0, gradient / 2.0

    assert Half([[0.6, 0.8]]).compiled() is None
    assert Half([[0.6, 0.8]]).at(0, np.zeros(2))[0] == pytest.approx(0.25)


def test_curvature_is_as_declared(people):
    rng = np.random.default_rng(2)
    for _ in range(50):
        a, b = rng.normal(size=(2, 3))
        for i in range(5):
            value, gradient = people.at(i, a)
            least = value + gradient @ (b - a) + people.strong_convexity / 2 * ((b - a) ** 2).sum()
            assert people.at(i, b)[0] >= least - 1e-12


@pytest.mark.parametrize("domain", [Ball(3, 0.5), Simplex(3), Box([0.0] * 3, [1.0] * 3)])
def test_best_point_is_optimal(people, domain):
    """No point of the domain is below the tangent at the best one."""
    point, value = people.best(domain)
    assert domain.contains(point)
    assert value == pytest.approx(people.value(point))
    gradient, rng = people.gradient(point), np.random.default_rng(3)
    for _ in range(200):
        other = domain.project(2.0 * rng.normal(size=3))
        assert gradient @ (other - point) >= -1e-6


def test_extreme_margins():
    people = Logistic([[1.0], [1.0]], [1, -1])
    for margin in (0.0, 30.0, 800.0):
        (near, _), (far, slope) = people.at(0, np.array([margin])), people.at(1, np.array([margin]))
        assert near == pytest.approx(math.log1p(math.exp(-margin)))
        assert far == pytest.approx(margin + math.log1p(math.exp(-margin)))
        assert 0.0 <= slope[0] <= 1.0


def test_rows_in_the_corner_of_a_box_are_not_shortened():
    """The length that follows from a box allows for the rounding of its own root."""
    for size in range(1, 60):
        people = Linear(np.full((1, size), -0.1), box=(-0.1, 0.05))
        assert people.gradient(np.zeros(size)).tolist() == [-0.1] * size
        assert people.insecure_clipped == 0


@pytest.mark.parametrize(("low", "until"), [(-5.0, 30), (-0.2, 12)])
def test_the_best_point_is_sought_by_accelerated_steps(low, until):
    """Nesterov's steps of one curvature, begun again from the last point where they overshoot."""
    rows = np.array([[1.0, 0.0], [0.6, 0.8], [0.0, 0.1]])
    people, domain = Squared(rows, [1.0, -0.5, 0.9], target_bound=1.0), Box([low] * 2, [4.0] * 2)
    hessian, pull = rows.T @ rows / 3, rows.T @ [1.0, -0.5, 0.9] / 3
    step, restarts = 1.0 / np.linalg.eigvalsh(hessian)[-1], 0
    point = ahead = domain.center
    momentum, last = 1.0, people.value(point)
    for steps in range(until):
        found = people.best(domain, steps=steps)
        assert found[0] == pytest.approx(point, rel=0, abs=1e-12)
        assert found[1] == pytest.approx(last, rel=1e-12)
        new = np.clip(ahead - step * (hessian @ ahead - pull), low, 4.0)
        if people.value(new) > last:
            momentum, ahead, restarts = 1.0, point, restarts + 1
            continue
        grown = (1.0 + math.sqrt(1.0 + 4.0 * momentum**2)) / 2.0
        ahead = new + (momentum - 1.0) / grown * (new - point)
        momentum, point, last = grown, new, people.value(new)
    assert restarts > 0


def test_long_rows_are_refused_or_shortened_and_counted():
    rows = [[3.0, 4.0], [0.6, 0.8], [0.0, 2.0]]
    with refused("a row is longer than row_norm=1; rescale", r"^rows\[0\] has length 5$"):
        Logistic(rows, [0, 1, 1])
    people = Logistic(rows, [0, 1, 1], clip=True)
    assert people.insecure_clipped == 2
    assert np.linalg.norm(people.at(0, np.zeros(2))[1]) == pytest.approx(0.5)
    with refused("a target is beyond target_bound=2", r"^targets\[1\]=3$"):
        Squared([[1.0], [1.0]], [0.0, 3.0], target_bound=2.0)
    assert Squared([[1.0], [1.0]], [0.0, 3.0], target_bound=2.0, clip=True).insecure_clipped == 1
    with refused(r"a row leaves box=\(0.0, 1.0\)", r"^rows\[1\]$"):
        Linear([[0.0], [1.5]], box=(0.0, 1.0))
    assert Linear([[0.0], [1.5]], box=(0.0, 1.0), clip=True).insecure_clipped == 1


def test_what_is_no_population():
    for make, message in (
        (lambda: Logistic([[1.0]], [2]), "labels must be -1 and 1, or 0 and 1"),
        (lambda: Logistic([[1.0]], [1, 1]), "labels must have one entry for each person"),
        (lambda: Logistic([[math.nan]], [1]), "rows has an entry that is not finite"),
        (lambda: Distance(np.zeros((0, 3))), "at least one row and column"),
        (lambda: Linear([[1.0]]), "say how large a cost vector can be"),
        (lambda: Linear([[1.0]], box=(0.5, 1.0)), "must hold 0 and more"),
        (lambda: Distance([[0.0]]).value([1.0, 2.0]), "point has 2 entries; 1 expected"),
    ):
        with pytest.raises(ValueError, match=message):
            make()
    with pytest.raises(TypeError, match="must be a table of numbers"):
        Distance([["a"]])


def test_what_is_taken_as_a_cost():
    class Cost:
        def value(self, point):
            return float(point.sum())

        def gradient(self, point):
            return np.ones_like(point)

    for cost in (Cost(), (Cost().value, Cost().gradient), Distance([[0.0]])):
        value, gradient = cost_functions(cost)
        assert np.shape(value(np.zeros(1))) == ()
        assert np.shape(gradient(np.zeros(1))) == (1,)
    for cost in (3.0, "cost", (1, 2), [np.sin]):
        with pytest.raises(TypeError, match="expected a person's function"):
            cost_functions(cost)
