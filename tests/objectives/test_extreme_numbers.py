"""Numbers at the ends of what floats can hold: no warning, and no failure, is about somebody."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import numpy as np
import pytest

from discreet.core.checks import DataError
from discreet.objectives import (
    BudgetAllocation,
    ConcaveOfLinear,
    ConcaveOverModular,
    EmbeddedFacilityLocation,
    FacilityLocation,
    GraphCut,
    LogDeterminant,
    MutualInformation,
    ProbabilisticCoverage,
    QuadraticProgram,
    SaturatedCoverage,
    WeightedTopics,
    greedy,
    losses,
)
from discreet.objectives.fixed_point import FixedPointGains, step

N_PEOPLE, N_ITEMS, LARGEST = 4, 5, 1e100
AXES, COVERS = np.random.default_rng(5).normal(size=(N_ITEMS, 3)), np.full((N_ITEMS, N_ITEMS), 0.5)
KERNEL = AXES @ AXES.T
WITHIN = [0.0, 5e-324, 1e-160, 1e-8, 1.0, 1e40, 1e75, 1e99]
BEYOND = [*WITHIN, 1e150, 1e160, 1.7e308]


def _symmetric(weights):
    upper = np.triu(weights, 1)
    return upper + upper.T


FAMILIES = {
    "facility": lambda w: FacilityLocation(w, bound=LARGEST),
    "sqrt": lambda w: ConcaveOverModular(w, bound=LARGEST),
    "log": lambda w: ConcaveOverModular(w, concave="log", bound=LARGEST),
    "capped": lambda w: ConcaveOverModular(w, concave="capped", cap=w[:, 0], bound=LARGEST),
    "function": lambda w: ConcaveOverModular(w, concave=np.sqrt, bound=LARGEST),
    "saturated": lambda w: SaturatedCoverage(w, saturation=0.5, bound=LARGEST),
    "probabilistic": lambda w: ProbabilisticCoverage(np.minimum(w, 1.0)),
    "topics": lambda w: WeightedTopics(w, COVERS, bound=LARGEST),
    "cut": lambda w: GraphCut([_symmetric(np.outer(r, r / r.max())) for r in w + 1e-8], bound=LARGEST),
    "determinant": lambda w: LogDeterminant(KERNEL, w, bound=5000),
    "determinant of few": lambda w: LogDeterminant(KERNEL, w, bound=5000, at_most=5),
    "embedded": lambda w: EmbeddedFacilityLocation(w, np.eye(N_ITEMS)),
    "cosines": lambda w: EmbeddedFacilityLocation(w, np.eye(N_ITEMS), normalize=True),
    "array": lambda w: FacilityLocation.from_array(w, bound=LARGEST),
    "array of sums": lambda w: ConcaveOverModular.from_array(w, concave="log", bound=LARGEST),
    "mixture": lambda w: FacilityLocation(w, bound=LARGEST) + 3 * LogDeterminant(np.eye(5), w, bound=5e3),
    "concave of linear": lambda w: ConcaveOfLinear(w, total=LARGEST),
    "budget": lambda w: BudgetAllocation(np.minimum(w, 1 - 1e-16), total=1e3),
    "quadratic": lambda w: QuadraticProgram(
        np.zeros((N_PEOPLE, N_ITEMS, N_ITEMS)), w, bound=LARGEST, gradient_bound=LARGEST
    ),
    "logistic": lambda w: losses.Logistic(w, [-1, 1, 1, -1], clip=True),
    "squared": lambda w: losses.Squared(w, w[:, 0], target_bound=1.0, clip=True),
    "distance": lambda w: losses.Distance(w, clip=True),
}


def _answers(people, rng) -> Iterator[object]:
    x, items = rng.random(N_ITEMS), rng.permutation(N_ITEMS)[: rng.integers(N_ITEMS)]
    if not hasattr(people, "contributions"):
        yield from (people.value(x), people.gradient(x))
        return
    yield from (people.value(items), people.gains(items), people.contributions(items), people.least_gains())
    yield people.multilinear(x, samples=3)
    yield people.multilinear_gradient(x, samples=3)
    yield from (people.lovasz_gradient(x), greedy(people, 3)[1], people[1].gains(items))
    growing = FixedPointGains.over(people, people.bound, step(people.bound, len(people)))
    for item in items.tolist():
        growing.add(item)
    yield growing.scores()


@pytest.mark.parametrize("name", FAMILIES)
def test_no_warning_and_no_failure_follows_from_somebodys_numbers(name):
    rng = np.random.default_rng(0)
    asked = 0
    for attempt in range(30):
        weights = rng.choice(WITHIN if attempt % 2 else BEYOND, (N_PEOPLE, N_ITEMS))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                people = FAMILIES[name](weights)
            except DataError:  # somebody is beyond the declared bound
                continue
            for answer in _answers(people, rng):
                assert np.isfinite(answer).all()
        asked += 1
    assert asked >= 3


def test_the_size_of_somebodys_category_is_not_that_of_a_table():
    """The error of a table that is too large named it."""
    classes, rest = [0, 1, 1, 0], [[0], [1], [1]]
    small = MutualInformation([[2], *rest], classes)
    for huge in (3, 2**40, 2**62):
        assert MutualInformation([[huge], *rest], classes).value([0]) == small.value([0])


@pytest.mark.parametrize("huge", [2.0**63, 1e300, -1e300, np.inf, np.nan])
def test_a_category_beyond_all_numbers_is_refused_without_a_warning(huge):
    """Its conversion was NumPy's warning, and what it became depended on the machine."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(TypeError, match="whole numbers"):
            MutualInformation([[huge], [0.0]], [0, 1])


@pytest.mark.parametrize("exponent", [-700, 0, 700])
def test_cosines_do_not_depend_on_the_length(exponent):
    rng = np.random.default_rng(1)
    people, items = rng.normal(size=(6, 4)), rng.normal(size=(3, 4))
    plain = EmbeddedFacilityLocation(people, items, normalize=True)
    scaled = EmbeddedFacilityLocation(np.ldexp(people, exponent), items, normalize=True)
    assert scaled.gains([]).tolist() == plain.gains([]).tolist()
