"""Convex domains: projections, radii, planes, and what is refused."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from discreet.constraints.domains import Ball, Box, CappedSimplex, Domain, Simplex


def _rounded(point):
    return np.clip(point, -1.0, 1.0)


DOMAINS = {
    "ball": lambda: Ball(3, 2.0, [1.0, 0.0, -1.0]),
    "box": lambda: Box([-1.0, 0.0, 2.0], [1.0, 0.5, 5.0]),
    "simplex": lambda: Simplex(4),
    "two": lambda: Simplex(2),
    "capped": lambda: CappedSimplex(5, 2),
    "capped, fraction": lambda: CappedSimplex(5, 2.5),
    "capped, most": lambda: CappedSimplex(5, 4),
    "capped, most, fraction": lambda: CappedSimplex(4, 3.3),
    "at most": lambda: CappedSimplex(5, 2, exactly=False),
    "at most, fraction": lambda: CappedSimplex(4, 0.7, exactly=False),
    "at most all": lambda: CappedSimplex(3, 7.0, exactly=False),
    "function": lambda: Domain.from_projection(_rounded, 3, 1.0, math.sqrt(3.0)),
    "shrunk": lambda: Simplex(4).shrunk(0.3),
    "shrunk box": lambda: Box([0.0, 0.0], [1.0, 3.0]).shrunk(0.5),
}


@pytest.fixture(params=DOMAINS, ids=DOMAINS.keys())
def domain(request):
    return DOMAINS[request.param]()  # made by the test that asks for it


def test_projection_is_the_nearest_point(domain):
    """<x - P(x), y - P(x)> <= 0 for every point y of the set: the mark of the nearest point."""
    rng = np.random.default_rng(0)
    for scale in (0.1, 1.0, 10.0, 1e6):
        x = domain.center + scale * rng.normal(size=domain.dimension)
        nearest = domain.project(x)
        assert domain.contains(nearest)
        assert np.allclose(domain.project(nearest), nearest, atol=1e-9)
        for _ in range(20):
            y = domain.project(domain.center + 3.0 * rng.normal(size=domain.dimension))
            assert (x - nearest) @ (y - nearest) <= 1e-8 * max(1.0, scale)


def test_balls_inside_and_around(domain):
    domain.check()
    rng = np.random.default_rng(1)
    reached = 0.0
    for _ in range(300):
        step = domain.direction(rng)
        assert np.linalg.norm(step) == pytest.approx(1.0)
        assert domain.contains(domain.center + domain.inner_radius * step)
        far = domain.project(domain.center + 100.0 * rng.normal(size=domain.dimension))
        away = float(np.linalg.norm(far - domain.center))
        assert away <= domain.outer_radius * (1 + 1e-9)
        assert np.linalg.norm(far - domain.project(2.0 * domain.center - far)) <= domain.diameter + 1e-9
        reached = max(reached, away)
    assert reached >= 0.8 * domain.outer_radius  # the radius is not given away


def test_inner_radii_are_the_largest(domain):
    """Some direction leaves the set just beyond the inner ball."""
    rng = np.random.default_rng(2)
    axes = np.vstack([np.eye(domain.dimension), -np.eye(domain.dimension), np.ones((1, domain.dimension))])
    if domain.affine_dimension < domain.dimension:
        axes = axes[:-1] - axes[:-1].mean(axis=1, keepdims=True)
    steps = [axis / np.linalg.norm(axis) for axis in axes] + [domain.direction(rng) for _ in range(20)]
    assert not all(domain.contains(domain.center + 1.001 * domain.inner_radius * step) for step in steps)


def test_shrinking_leaves_room_for_a_ball(domain):
    rng = np.random.default_rng(3)
    beta = 0.4 * domain.inner_radius
    inside = domain.shrunk(beta / domain.inner_radius)
    for _ in range(100):
        point = inside.project(domain.center + 5.0 * rng.normal(size=domain.dimension))
        assert domain.contains(point + beta * domain.direction(rng), 1e-8)


def test_to_json_and_back():
    for name in ("ball", "box", "simplex", "capped", "at most, fraction", "shrunk", "shrunk box"):
        domain = DOMAINS[name]()
        again = Domain.from_json(domain.to_json())
        assert type(again) is type(domain)
        assert again.to_json() == domain.to_json()
        assert (again.center == domain.center).all()


@pytest.mark.parametrize("left", [1e-3, 1e-6, 1e-9])
def test_a_thin_capped_simplex_has_the_radii_of_its_mirror_image(left):
    """x -> 1 - x takes the numbers that sum to n - k to those that sum to k: no digit of a radius is lost."""
    k = 5.0 - left
    near, far = CappedSimplex(5, k), CappedSimplex(5, 5.0 - k)
    assert (near.inner_radius, near.outer_radius) == (far.inner_radius, far.outer_radius)
    assert near.outer_radius == pytest.approx(math.sqrt(0.8) * (5.0 - k))


def test_bad_domains_are_refused():
    for make, message in (
        (lambda: Ball(0), "dimension=0 is too small"),
        (lambda: Ball(2, 0.0), "radius=0.0 must be greater than 0"),
        (lambda: Ball(2, 1.0, [0.0]), "center has 1 entries; 2 expected"),
        (lambda: Box([0.0, 1.0], [1.0, 1.0]), r"low\[1\]=1 must be below high\[1\]=1"),
        (lambda: Box([], []), "low is empty"),
        (lambda: Simplex(1), "n=1 is too small"),
        (lambda: CappedSimplex(3, 3), "k=3 must be less than n=3"),
        (lambda: Ball(2).shrunk(1.0), "share=1.0 must be less than 1"),
        *((lambda r=r: Ball(2, r), "must be between 1e-100 and 1e100") for r in (1e-320, 1e-101, 1e101)),
        (lambda: Ball(2, 1e-90).shrunk(1.0 - 1e-15), "must be between 1e-100 and 1e100"),
        (lambda: Box([0.0, 0.0], [5e-324, 1.0]), "must be between 1e-100 and 1e100"),
        (lambda: Box([-1e308, 0.0], [1e308, 1.0]), "must be between 1e-100 and 1e100"),
        (lambda: CappedSimplex(5, 1e-320, exactly=False), "must be between 1e-100 and 1e100"),
        (lambda: Box([1e16], [1e16 + 2]), "outer_radius=1 is lost in the digits of the center"),
        (lambda: CappedSimplex(5, 5 - 1e-15), "is lost in the digits of the center"),
        (lambda: Domain.from_projection(_rounded, 3, 1.2, 2.0), "does not contain its own ball"),
        (lambda: Domain.from_projection(_rounded, 3, 1.0, 1.2), "further than outer_radius=1.2"),
        (lambda: Domain.from_projection(_rounded, 3, 3.0, 2.0), "inner_radius=3 exceeds outer_radius=2"),
        (lambda: Domain.from_projection(_rounded, 2, 0.5, 2.0, [3.0, 0.0]), "does not contain its own ball"),
        (lambda: Domain.from_projection(lambda x: x[:1], 2, 0.5, 2.0), "has 1 entries; 2 expected"),
    ):
        with pytest.raises(ValueError, match=message):
            make()
    with pytest.raises(TypeError, match="project must be a function"):
        Domain.from_projection(3, 2, 0.5, 2.0)

    def slipping(point):
        size = np.abs(point).max()
        return point if size <= 0.6 else point * (0.6 + 0.1 * size) / size

    with pytest.raises(ValueError, match="projecting twice must be projecting once"):
        Domain.from_projection(slipping, 2, 0.5, 2.0)


def _slab(dimension, half):
    """The points of a ball of radius 10 within ``half`` of a plane through the origin, at an odd angle."""
    normal = np.random.default_rng(dimension).normal(size=dimension)
    normal /= np.linalg.norm(normal)

    def project(point):
        along = float(point @ normal)
        rest = point - along * normal
        beside = float(np.linalg.norm(rest))
        near = np.array([along, beside]) * min(1.0, 10.0 / max(np.hypot(along, beside), 1e-300))
        if abs(near[0]) > half:
            near = np.array([math.copysign(half, along), min(beside, math.sqrt(100.0 - half**2))])
        return near[0] * normal + (rest * (near[1] / beside) if beside else 0.0)

    return project


@pytest.mark.parametrize("dimension", [3, 30, 300])
def test_a_thin_set_is_not_taken_for_a_thick_one(dimension):
    """In many dimensions hardly any direction meets the side that is too near."""
    assert Domain.from_projection(_slab(dimension, 0.5), dimension, 0.5, 10.0).inner_radius == 0.5
    with pytest.raises(ValueError, match="does not contain its own ball"):
        Domain.from_projection(_slab(dimension, 0.3), dimension, 0.5, 10.0)

    def flat(point):
        return np.concatenate([np.clip(point[:1], -0.3, 0.3), np.clip(point[1:], -1.0, 1.0)])

    with pytest.raises(ValueError, match="does not contain its own ball"):
        Domain.from_projection(flat, dimension, 0.5, 20.0)


def test_a_function_that_does_not_give_the_nearest_point_is_refused():
    def towards_the_center(point):
        size = np.abs(point).max()
        return point if size <= 1.0 else point / size

    for dimension in (2, 3, 5):
        with pytest.raises(ValueError, match="is not the nearest point"):
            Domain.from_projection(towards_the_center, dimension, 1.0, math.sqrt(dimension))


@pytest.mark.parametrize(
    "make",
    [
        lambda: Ball(3, 1e-9, [5.0] * 3),
        lambda: Ball(2, 1e9),
        lambda: Box([1e6] * 3, [1e6 + 1.0] * 3),
        lambda: Simplex(300),
        lambda: Ball(1),
    ],
)
def test_sets_of_any_size_pass(make):
    make().check()


def test_simplex_twin():
    """The sorted projection against bisection on the shift."""
    rng = np.random.default_rng(4)
    for _ in range(30):
        x = rng.normal(size=5) * 10.0 ** rng.uniform(-2, 3)
        low, high = x.min() - 1.0, x.max()
        for _ in range(200):
            middle = (low + high) / 2.0
            low, high = (middle, high) if np.maximum(x - middle, 0.0).sum() > 1.0 else (low, middle)
        assert np.allclose(Simplex(5).project(x), np.maximum(x - low, 0.0), atol=1e-9)


@pytest.mark.parametrize("exactly", [True, False])
def test_the_diameter_of_sets_of_items(exactly):
    """The largest distance of two corners: sets of k, or of at most k, of n items."""
    for n, k in ((4, 1), (4, 2), (4, 3), (5, 2), (5, 4)):
        sizes = {k} if exactly else range(k + 1)
        corners = [np.array(one) for one in itertools.product((0, 1), repeat=n) if sum(one) in sizes]
        widest = max(float(np.linalg.norm(a - b)) for a, b in itertools.combinations(corners, 2))
        assert CappedSimplex(n, k, exactly=exactly).diameter == pytest.approx(widest)
