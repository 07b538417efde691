"""What is left of a constraint once items are in and others are out: every set, against the definition."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.constraints import (
    Cardinality,
    Constraint,
    GraphicMatroid,
    Intersection,
    Knapsack,
    LaminarMatroid,
    Matroid,
    PartitionMatroid,
)
from discreet.constraints.residual import Rest
from discreet.offline.greedy import Residual

from .matroid_zoo import CLASSES, subsets


def allowed(left: Residual, independent) -> frozenset[frozenset[int]]:
    """By definition: sets of free items that are feasible together with the included ones."""
    start = frozenset(left.included.tolist())
    return frozenset(
        s
        for s in subsets(left.free.size)
        if start | frozenset(int(left.free[place]) for place in s) in independent
    )


def check_sets(left: Residual, independent) -> None:
    wanted = allowed(left, independent)
    if left.constraint is None:
        assert left.free.size == 0
        assert left.forced
        return
    assert left.constraint.n_items == left.free.size
    assert left.constraint.rank >= max(map(len, wanted))
    assert left.constraint.rank <= max(map(len, independent)) - left.included.size
    assert left.forced == (frozenset(range(left.free.size)) in wanted)
    for s in subsets(left.free.size):
        assert left.constraint.contains(sorted(s)) == (s in wanted)
        if s in wanted:
            more = left.constraint.addable(sorted(s))
            assert [bool(one) for one in more] == [
                place not in s and s | {place} in wanted for place in range(left.free.size)
            ]


@pytest.mark.parametrize("kind", CLASSES)
@settings(max_examples=25, deadline=None, derandomize=True)
@given(data=st.data())
def test_minors_of_every_matroid(kind: str, data) -> None:
    found = data.draw(CLASSES[kind])
    include = data.draw(st.sampled_from(sorted(found.independent, key=sorted)))
    others = sorted(set(range(found.n)) - include)
    exclude = data.draw(st.sets(st.sampled_from(others))) if others else set()
    try:
        left = Residual.of(found.matroid, sorted(include), sorted(exclude))
    except ValueError:  # there is nothing to choose
        assert not include
        return
    check_sets(left, found.independent)
    if left.constraint is None:
        return
    minor = left.constraint
    assert isinstance(minor, Matroid)
    assert minor.rank == max(map(len, allowed(left, found.independent)))
    if left.whole:
        assert minor is found.matroid
    weights = np.random.default_rng(found.n).normal(size=left.free.size)
    best = max(sum(weights[list(s)]) for s in allowed(left, found.independent))
    assert float(weights @ minor.maximize(weights)) == pytest.approx(best)
    base = np.flatnonzero(minor.maximize(weights, base=True))
    for item in sorted(set(range(left.free.size)) - set(base.tolist())):
        room = [o for o in base.tolist() if minor.contains([b for b in base.tolist() if b != o] + [item])]
        assert minor.circuit(base, item).tolist() == room
    point = minor.project_euclidean(np.abs(weights))
    rounded = minor.round(point, np.random.default_rng(0))
    assert minor.contains(rounded)


class Even(Constraint):
    """Somebody's own: up to four items, which add up to at most nine."""

    n_items, rank, extendible = 5, 4, 7

    def contains(self, S) -> bool:
        return len(list(S)) <= 4 and sum(S) <= 9

    def addable(self, S):
        S = list(S)
        return np.array([i not in S and self.contains([*S, i]) for i in range(5)])


OTHERS = {
    "knapsack": Knapsack([0.5, 0.1, 0.2, 0.4, 0.0], 0.8),
    "knapsack of integers": Knapsack([3, 1, 2, 4, 2], 6),
    "intersection": Intersection(Cardinality(3), PartitionMatroid([[0, 1, 2], [3, 4]], [2, 1])),
    "with a knapsack": Intersection(Cardinality(2), Knapsack([0.5, 0.1, 0.2, 0.4, 0.3], 0.7)),
    "a class of ones own": Even(),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_left_of_other_constraints(name: str) -> None:
    constraint = OTHERS[name]
    independent = {s for s in subsets(5) if constraint.contains(sorted(s))}
    for include, exclude in itertools.product(independent, subsets(5)):
        if include & exclude or not (include or exclude):
            continue
        try:
            left = Residual.of(constraint, sorted(include), sorted(exclude))
        except ValueError:
            assert not include
            continue
        check_sets(left, independent)
        assert left.items([]) == sorted(include)
        assert not set(left.free.tolist()) & (include | exclude)


def test_kinds_are_kept() -> None:
    """What is certified depends on the kind, and a polytope in closed form is quicker."""
    for constraint in (
        Cardinality(3, n_items=6),
        PartitionMatroid([[0, 1, 2], [3, 4, 5]], 2),
        LaminarMatroid([[0, 1, 2], list(range(6))], [2, 3]),
        Knapsack([1.0] * 6, 3.0),
    ):
        assert type(Residual.of(constraint, [0], [5]).constraint) is type(constraint)
    both = Residual.of(OTHERS["intersection"], [0]).constraint
    assert isinstance(both, Intersection)
    assert both.extendible == 2
    own = Residual.of(Even(), [0]).constraint
    assert isinstance(own, Rest)
    assert own.extendible == 7
    with pytest.raises(NotImplementedError, match="maximize needs a polytope, which is not known for"):
        own.maximize([1.0])
    assert "2 items on top of 1" in repr(
        Residual.of(GraphicMatroid([(0, 1), (1, 2), (2, 3)]), [0]).constraint
    )


def test_a_set_that_fits_the_rest_fits_the_whole() -> None:
    rng = np.random.default_rng(0)
    for _ in range(60):
        costs = rng.integers(1, 30, 8) / 10.0
        whole = Knapsack(costs, float(rng.integers(20, 80)) / 10.0)
        start = [int(i) for i in rng.permutation(8)[:2]]
        if not whole.contains(start):
            continue
        left = Residual.of(whole, start)
        if left.constraint is None:
            continue
        for size in range(1, left.free.size + 1):
            for s in itertools.combinations(range(left.free.size), size):
                assert left.constraint.contains(s) == whole.contains(left.items(s))


@pytest.mark.parametrize(
    ("include", "exclude", "said"),
    [
        ([0, 1], [1, 2], "include and exclude both hold 'b'; an item is in one of them at most"),
        (
            [0, 1, 2],
            [],
            "include holds 'a', 'b', 'c', which Cardinality(2, n_items=4) does not allow",
        ),
        ([], [0, 1, 2, 3], "exclude leaves no item that Cardinality(2, n_items=4) allows"),
    ],
)
def test_what_cannot_be(include, exclude, said) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        Residual.of(Cardinality(2, n_items=4), include, exclude, "abcd")


def test_costs_in_decimals_still_fit() -> None:
    """0.1 + 0.2 fits into 0.3, and so does 0.2 beside an included 0.1; also where little room is left."""
    left = Residual.of(Knapsack([0.1, 0.2, 0.3], 0.3), [0])
    assert left.free.tolist() == [1]
    near = Knapsack([0.9999999, 0.0000001, 0.00000005, 0.00000005], 1.0)
    left = Residual.of(near, [0])
    assert left.free.tolist() == [1, 2, 3]
    assert left.constraint.contains([0])
    assert left.constraint.contains([1, 2])
    assert not left.constraint.contains([0, 1])


def test_points_hold_the_given_items() -> None:
    left = Residual.of(Cardinality(3, n_items=5), [4], [1])
    assert left.point(np.array([0.5, 0.25, 1.0])).tolist() == [0.5, 0.0, 0.25, 1.0, 1.0]
    assert Residual.of(Cardinality(2, n_items=4), [0, 1]).point(np.zeros(0)).tolist() == [1, 1, 0, 0]
    few = Residual.of(Cardinality(3, n_items=5), [], [0, 1, 2])
    assert few.forced
    assert few.constraint.rank == 2
