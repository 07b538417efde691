"""Bad input is refused with an error that names the argument, the value and the fix."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import numpy as np
import pytest

import discreet.constraints
from discreet.constraints import (
    Cardinality,
    GraphicMatroid,
    Knapsack,
    LaminarMatroid,
    LinearMatroid,
    Matroid,
    PartitionMatroid,
    TransversalMatroid,
    swap_round,
)

EVERY = {
    "cardinality": Cardinality(2, 4),
    "partition": PartitionMatroid([0, 0, 1, 1], 1),
    "laminar": LaminarMatroid([[0, 1], [0, 1, 2, 3]], [1, 2]),
    "graphic": GraphicMatroid([(0, 1), (1, 2), (2, 0), (2, 3)]),
    "transversal": TransversalMatroid([[0, 1], [2, 3]]),
    "linear": LinearMatroid([[1, 0, 1, 2], [0, 1, 1, 2]]),
    "oracle": Matroid.from_oracle(lambda s: len(s) <= 2, 4),
    "knapsack": Knapsack([0.5, 0.5, 0.4, 0.3], 1.0),
}
RNG = np.random.default_rng(0)

BUILD = [
    (lambda: Cardinality(0), "k=0"),
    (lambda: Cardinality(2.5), "k must be a whole number, got 2.5$"),
    (lambda: Cardinality(5.0), "k must be a whole number, got 5.0; write 5$"),
    (lambda: PartitionMatroid([["tea", "jam"]], 1), "by label; give labels="),
    (lambda: PartitionMatroid([["tee"]], 1, labels=["tea", "jam"]), "did you mean 'tea'"),
    (lambda: PartitionMatroid(["tea", "jam"], {"tea": 1}), "no number for 'jam'"),
    (
        lambda: PartitionMatroid(["tea", "tea"], {"tea": 1, "jam": 1}),
        "'jam', which is the category of no item",
    ),
    (lambda: PartitionMatroid(["tea", "jam"], [1, 1]), "one number or a dictionary"),
    (lambda: PartitionMatroid([[0], [1]], {"tea": 1}), "capacities by name need blocks that are names"),
    (lambda: Cardinality(5, n_items=3), "k=5 exceeds n_items=3; choose k <= 3"),
    (lambda: Cardinality(5).maximize([1.0, 2.0]), "k=5 exceeds n_items=2"),
    (lambda: Cardinality(5).project_euclidean([1.0, 2.0]), "k=5 exceeds n_items=2"),
    (lambda: Cardinality(5).project_entropy([1.0, 2.0]), "k=5 exceeds n_items=2"),
    (lambda: Cardinality(5).round([1.0, 0.5], RNG), "k=5 exceeds n_items=2"),
    (lambda: Cardinality(2).addable([1]), r"over\(n_items\)"),
    (lambda: Cardinality(2).span([1]), r"over\(n_items\)"),
    (lambda: Cardinality(2, 4).over(5), "n_items=5"),
    (lambda: PartitionMatroid([[0, 1], [1, 2]], 1), r"item 1 is in blocks\[0\] and blocks\[1\]"),
    (lambda: PartitionMatroid([[0], [0, 1, 2]], 1), r"item 0 is in blocks\[0\] and blocks\[1\]"),
    (lambda: PartitionMatroid([[0, 0]], 1), "item 0 2 times"),
    (lambda: PartitionMatroid([[0, 1]], [1, 2]), "capacities has 2 entries for 1 blocks"),
    (lambda: PartitionMatroid([0, 2], [1, 1]), r"blocks\[1\]=2 has no capacity"),
    (lambda: PartitionMatroid([0, -2], 1), r"blocks\[1\]=-2"),
    (lambda: PartitionMatroid([0, 1], 1, n_items=3), "n_items=3"),
    (lambda: PartitionMatroid([[0, 1]], -1), "capacities=-1"),
    (lambda: PartitionMatroid([[0, 1]], [1.5]), r"capacities\[0\] must be a whole number"),
    (lambda: PartitionMatroid([[0, 1]], 0), "no item can be chosen"),
    (lambda: PartitionMatroid([], []), "ground set is empty"),
    (lambda: PartitionMatroid([[0, 7]], 1, n_items=5), r"blocks\[0\]\[1\]=7 is out of range"),
    (lambda: LaminarMatroid([[0, 1], [1, 2]], 1), r"family\[0\] and family\[1\] overlap"),
    (lambda: LaminarMatroid([[0, 1, 2], [3], [2, 3]], 1), r"family\[2\] and family\[0\] overlap"),
    (lambda: LaminarMatroid([[0, 1]], [-2]), r"capacities\[0\]=-2"),
    (lambda: LaminarMatroid([[0, 1]], 0), "no item can be chosen"),
    (lambda: LaminarMatroid([], []), "ground set is empty"),
    (lambda: GraphicMatroid([]), "ground set is empty"),
    (lambda: GraphicMatroid([(0, 1, 2)]), r"edges\[0\]=\(0, 1, 2\)"),
    (lambda: GraphicMatroid([(0, 0)]), "no item can be chosen"),
    (lambda: TransversalMatroid([]), "ground set is empty"),
    (lambda: TransversalMatroid([[]], n_items=2), "no item can be chosen"),
    (lambda: TransversalMatroid([[0, -1]]), r"sets\[0\]\[1\]=-1"),
    (lambda: LinearMatroid([1, 2]), "two-dimensional"),
    (lambda: LinearMatroid(np.zeros((2, 0))), "not empty"),
    (lambda: LinearMatroid([[0, 0]]), "no item can be chosen"),
    (lambda: LinearMatroid([[1.0, np.nan]]), r"matrix\[\(0, 1\)\] is nan"),
    (lambda: LinearMatroid([["a", "b"]]), "real numbers"),
    (lambda: LinearMatroid([[1, 2]], modulus=9), "modulus=9 is not a prime"),
    (lambda: LinearMatroid(np.diag(np.geomspace(1e-300, 1e300, 30)) + 1e-320), "round it"),
    (lambda: Matroid.from_oracle(lambda s: bool(s), 3), "empty set is independent"),
    (lambda: Matroid.from_oracle(lambda s: not s, 3), "no item can be chosen"),
    (lambda: Matroid.from_oracle(3, 3), "independent must be a function"),
    (lambda: Matroid.from_oracle(bool, 0), "n_items=0"),
    (lambda: Knapsack([], 1.0), "costs is empty"),
    (lambda: Knapsack([0.5, -0.1], 1.0), r"costs\[1\]=-0.1 is negative"),
    (lambda: Knapsack([0.5, np.nan], 1.0), r"costs\[1\] is nan"),
    (lambda: Knapsack([0.5], np.nan), "capacity is NaN"),
    (lambda: Knapsack([0.5], -1.0), "capacity=-1.0"),
    (lambda: Knapsack([2.0, 3.0], 1.0), "no item can be chosen: the least cost 2.0 exceeds capacity=1.0"),
    (lambda: Knapsack([0.6, 0.6], 1.0).addable([0, 1]), "S costs 1.2"),
]


@pytest.mark.parametrize(("build", "message"), BUILD)
def test_bad_arguments(build, message):
    with pytest.raises((ValueError, TypeError), match=message):
        build()


@pytest.mark.parametrize("constraint", EVERY.values(), ids=EVERY.keys())
@pytest.mark.parametrize(
    ("items", "message"),
    [
        ([0, 0], "item 0 2 times"),
        ([0, 4], r"S\[1\]=4 is out of range; items are 0..3"),
        ([-1], r"S\[0\]=-1"),
        (np.array([3, -1]), r"S\[1\]=-1"),
        ([1.5], r"S\[0\] must be a whole number"),
        ([True], r"S\[0\] must be a whole number"),
        (np.array([True, False, True, False]), "mask"),
        (np.array([0.0]), "whole numbers"),
        (np.array([[0]]), "one-dimensional"),
        (3, "iterable of items"),
    ],
)
def test_bad_sets(constraint, items, message):
    for ask in (constraint.contains, constraint.addable, getattr(constraint, "span", constraint.contains)):
        with pytest.raises((ValueError, TypeError), match=message):
            ask(items)


@pytest.mark.parametrize("constraint", EVERY.values(), ids=EVERY.keys())
def test_bad_points_and_weights(constraint):
    calls = {
        "w": (constraint.maximize, constraint.project_entropy),
        "x": (
            constraint.project_euclidean,
            constraint.in_polytope,
            constraint.decompose,
            lambda x: constraint.round(x, RNG),
        ),
    }
    for name, asks in calls.items():
        for ask in asks:
            with pytest.raises(ValueError, match=rf"{name}\[2\] is nan"):
                ask([0.1, 0.1, np.nan, 0.1])
            with pytest.raises(ValueError, match=f"{name} has 3 entries; 4 expected"):
                ask([0.1, 0.1, 0.1])
    with pytest.raises(ValueError, match=r"w\[1\]=0.0 must be positive"):
        constraint.project_entropy([0.1, 0.0, 0.1, 0.1])
    for bad in ([0.1, 0.1, 0.1, 1.5], [0.1, 0.1, 0.1, -0.5], [1.0, 1.0, 1.0, 1.0]):
        assert not constraint.in_polytope(bad)
        with pytest.raises(ValueError, match="project_euclidean"):
            constraint.round(bad, RNG)
        with pytest.raises(ValueError, match="project_euclidean"):
            constraint.decompose(bad)
    with pytest.raises(TypeError, match=r"rng must be a numpy\.random\.Generator"):
        constraint.round([0.1, 0.1, 0.1, 0.1], 7)
    with pytest.raises(ValueError, match="tol"):
        constraint.in_polytope([0.1, 0.1, 0.1, 0.1], -1.0)
    with pytest.raises(ValueError, match="n_items=9"):
        constraint.over(9)
    assert constraint.over(4).n_items == 4


@pytest.mark.parametrize("constraint", EVERY.values(), ids=EVERY.keys())
def test_bad_additions(constraint):
    with pytest.raises(ValueError, match="item=9 is not an item"):
        constraint.can_add([0], 9)
    assert not constraint.can_add([0], 0)
    if isinstance(constraint, Matroid):
        with pytest.raises(ValueError, match="item=0 is already in S"):
            constraint.circuit([0], 0)
        with pytest.raises(ValueError, match="is not independent"):
            constraint.addable([0, 1, 2, 3])


def test_a_knapsack_forgives_the_rounding_of_decimal_costs():
    bag = Knapsack([0.1, 0.2, 0.4], 0.3)
    assert bag.contains([0, 1])
    assert bag.rank == 2
    assert bag.addable([0]).tolist() == [False, True, False]
    assert not bag.in_polytope([0.0, 0.0, 0.1])


@pytest.mark.parametrize(
    ("sets", "weights", "message"),
    [
        ([], [], "sets is empty"),
        ([[0], [1]], [0.5], "weights has 1 entries; 2 expected"),
        ([[0], [1]], [1.5, -0.5], r"weights\[1\]=-0.5; weights must be zero or more"),
        ([[0], [1]], [0.0, 0.0], "one of them positive"),
        ([[0], [1]], [0.5, np.nan], r"weights\[1\] is nan"),
        ([[0], [1, 1]], [0.5, 0.5], r"sets\[1\] holds item 1 2 times"),
        ([[0], [-1]], [0.5, 0.5], r"sets\[1\]\[0\]=-1"),
        ([[0], [4]], [0.5, 0.5], r"sets\[1\]\[0\]=4 is out of range"),
        ([[0], [0, 1, 2, 3]], [0.5, 0.5], r"sets\[1\]=\[0, 1, 2, 3\] is not independent"),
    ],
)
@pytest.mark.parametrize("name", [name for name in EVERY if name != "knapsack"])
def test_bad_combinations_of_sets(name, sets, weights, message):
    with pytest.raises(ValueError, match=message):
        swap_round(EVERY[name], sets, weights, RNG)


def test_swap_rounding_asks_for_a_matroid_and_a_generator():
    with pytest.raises(TypeError, match="is not a matroid"):
        swap_round(EVERY["knapsack"], [[0], [1]], [0.5, 0.5], RNG)
    with pytest.raises(TypeError, match=r"rng must be a numpy\.random\.Generator"):
        swap_round(Cardinality(2), [[0], [1]], [0.5, 0.5], 7)


def test_documented_examples_run():
    for module in pkgutil.iter_modules(discreet.constraints.__path__):
        found = doctest.testmod(importlib.import_module(f"discreet.constraints.{module.name}"))
        assert found.failed == 0


def test_a_cardinality_learns_its_ground_set_from_vectors():
    limit = Cardinality(2)
    assert limit.n_items is None
    assert limit.rank == 2
    assert limit.contains([1_000_000, 3])
    assert limit.over(5).addable([1, 2]).tolist() == [False] * 5
    assert limit.maximize([1.0, 3.0, 2.0]).tolist() == [0.0, 1.0, 1.0]
    assert limit.maximize([1.0, 1.0, 1.0, -1.0]).tolist() == [1.0, 1.0, 0.0, 0.0]
    assert limit.in_polytope([0.5] * 4)
    assert not limit.in_polytope([0.6] * 4)


def test_blocks_by_item_are_refused():
    """The keys of a mapping would pass for categories, each with one item: no limit at all."""
    with pytest.raises(TypeError, match="one category per item, in the order of the items"):
        PartitionMatroid({"tea": "drinks", "milk": "drinks"}, 1)


class Own(discreet.constraints.Constraint):
    def contains(self, S):
        return len(list(S)) <= 2

    def addable(self, S):
        return [item for item in range(4) if item not in S]


def test_a_constraint_of_ones_own_is_told_what_it_lacks():
    with pytest.raises(AttributeError, match="set n_items, how many items there are, and rank"):
        discreet.offline.PrivateGreedy(Own(), discreet.Budget(1.0))
    listing = type("Own", (Own,), {"n_items": 4, "rank": 2})()
    with pytest.raises(TypeError, match=r"Own\.addable must return a mask: one True or False for each"):
        listing.over(4)
    with pytest.raises(AttributeError, match=r"no attribute 'size'$"):
        _ = listing.size
