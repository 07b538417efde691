"""Nobody exceeds the bound or the cap that was declared, when a population is built or later."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp

from discreet import DataError
from discreet.data import read_events
from discreet.objectives import (
    ConcaveOverModular,
    Coverage,
    FacilityLocation,
    GraphCut,
    LogDeterminant,
    Mixture,
    SaturatedCoverage,
    SetFunction,
    WeightedTopics,
)
from tests.refusals import refused

ROWS = [[0.1, 0.0, 0.0], [1.0, 3.0, 0.0]]

# A family with these people, and what the second of them can reach.
REACH = {
    "sqrt": (lambda b: ConcaveOverModular(ROWS, concave="sqrt", bound=b), 2.0),
    "log": (lambda b: ConcaveOverModular(ROWS, concave="log", bound=b), math.log(5)),
    "capped": (lambda b: ConcaveOverModular(ROWS, concave="capped", cap=[1, 3.5], bound=b), 3.5),
    "below the cap": (lambda b: ConcaveOverModular(ROWS, concave="capped", cap=9, bound=b), 4.0),
    "custom": (lambda b: ConcaveOverModular(ROWS, concave=lambda t: 2 - 1 / (1 + t), bound=b), 0.8),
    "saturated": (lambda b: SaturatedCoverage(ROWS, saturation=0.5, bound=b), 2.0),
    "topics": (lambda b: WeightedTopics(ROWS, np.eye(3), bound=b), 4.0),
    "log_determinant": (lambda b: LogDeterminant(np.eye(3), ROWS, bound=b), math.log(20)),
    # Of an arc and its reverse one is cut: 5, whichever of the two comes first, and 1 for the other pair.
    "arcs": (lambda b: GraphCut([[0, 5, 0], [2, 0, 1], [0, 0, 0]], directed=True, bound=b), 6.0),
    "arcs turned": (lambda b: GraphCut([[0, 2, 0], [5, 0, 0], [0, 1, 0]], directed=True, bound=b), 6.0),
}


@pytest.mark.parametrize("family", REACH)
def test_people_are_held_to_what_they_can_reach(family: str) -> None:
    make, reach = REACH[family]
    person = "^person 0 can" if family.startswith("arcs") else "^person 1 can"
    assert make(reach * (1 + 1e-10)).bound == pytest.approx(reach)
    with refused("one person's function can exceed", person):
        make(reach * (1 - 1e-6))
    if reach > 1:
        with refused("one person's function can exceed.*declare a public bound=", person):
            make(None).sensitivity()


@pytest.mark.parametrize(
    ("people", "touched"),
    [
        (WeightedTopics([[0, 0], [0.5, 0]], [[1, 0], [0, 1], [0.5, 1], [0.1, 0]]), 3),
        (LogDeterminant(np.eye(4) / 9, [[0, 0, 0, 1], [1, 0, 1, 1]]), 3),
        (GraphCut([[0, 1, 1, 0], [0] * 4, [0] * 4, [0] * 4], directed=True, bound=2), 3),
        (GraphCut(np.zeros((4, 4)), modular=[1, -1, 0, 0.5], bound=2), 3),
        (FacilityLocation([[0, 0, 0, 1], [1, 0, 1, 1]]), 3),
        (0.5 * Coverage([[1, 1, 1, 0]]) + Coverage([[1, 0, 0, 0]]), 3),
    ],
)
def test_the_cap_is_counted(people, touched: int) -> None:
    assert people.sensitivity("add_remove", "l1", touched) < people.sensitivity("add_remove", "l1", 4)
    with pytest.raises(DataError, match="one person touches more items") as refused:
        people.sensitivity("add_remove", "l1", touched - 1)
    assert refused.value.details == f"up to {touched} items"
    offers = isinstance(people, FacilityLocation | Mixture)
    assert ("cap_items" in str(refused.value)) == offers


# -- what is kept cannot be changed from outside -------------------------------------------------------------


def changed(array: np.ndarray) -> None:
    array[:] = 100.0


def test_arrays_are_copied_when_they_come_in() -> None:
    dense = np.array([[0.5, 0.2], [0.1, 0.1]])
    sparse = sp.csr_array(dense)
    events = read_events({"p": [0, 1], "i": [0, 1]}, person="p", item="i").matrix
    kernel, modular, caps = np.eye(2) / 4, np.array([0.5, -0.5]), np.array([0.5, 0.5])
    made = [
        FacilityLocation(dense, bound=1),
        FacilityLocation(sparse, bound=1),
        FacilityLocation(events, bound=1),
        WeightedTopics(dense, np.eye(2)),
        LogDeterminant(kernel, dense),
        LogDeterminant(kernel),
        GraphCut(np.zeros((2, 2)), modular=modular, bound=1),
        ConcaveOverModular(dense, concave="capped", cap=caps),
    ]
    before = [people.value([0]) for people in made]
    for array in (dense, sparse.data, kernel, modular, caps):
        changed(array)
    with pytest.raises(ValueError, match="read-only"):
        changed(events.data)
    assert [people.value([0]) for people in made] == before


@pytest.mark.parametrize("form", [np.array, sp.csr_array])
def test_arrays_that_come_out_cannot_be_written(form) -> None:
    people = FacilityLocation(form([[0.5, 0.2], [0.1, 0.1]]), bound=1)
    rows = people.as_rows()
    inside = (rows.share, rows.cap, rows.sparse.data, rows.sparse.indices, rows.sparse.by_column.data)
    for array in (people.data, people.indices, people.indptr, people[0].data, *inside):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 100
    assert people.value([0]) == pytest.approx(0.3)


def test_concave_functions_are_looked_at_as_far_as_people_go() -> None:
    with pytest.raises(ValueError, match="must not fall"):
        ConcaveOverModular([[1500.0, 2000.0], [0, 0]], concave=lambda t: np.minimum(t, 3000 - t), bound=1)
    ConcaveOverModular([[1.0, 2.0]], concave=lambda t: np.minimum(t, 3000 - t), bound=3)


def test_concave_functions_are_held_to_their_word() -> None:
    def spike(t: np.ndarray) -> np.ndarray:
        return np.where(t == 0.53, 7.0, np.minimum(t, 1.0))

    people = ConcaveOverModular([[0.53, 0.25], [0.5, 0.5]], concave=spike, bound=1)
    for ask in (people.value, people.gains, people[0].value):
        with refused("never fall", r"^concave\(0.53\) is 7.0$"):
            ask([0])
    with refused("never fall", r"^concave\(0.53\) is 7.0$"):
        people.multilinear([0.5, 0.5])
    dip = ConcaveOverModular(
        [[0.53, 0.25]], concave=lambda t: np.where(t == 0.78, 0.2, np.minimum(t, 0.5)), bound=1
    )
    with pytest.raises(ValueError, match="never fall"):
        dip.value([0, 1])


def test_mixtures_have_a_bound_of_their_own() -> None:
    people = Coverage([[1, 0]])
    for factor, words in ((-1.0, "factor=-1"), (math.nan, "factor is NaN"), (math.inf, "finite")):
        with pytest.raises(ValueError, match=words):
            Mixture([(factor, people)])
    with pytest.raises(ValueError, match="parts is empty"):
        Mixture([])
    with pytest.raises(TypeError, match="got a int"):
        Mixture([(1.0, 3)])  # type: ignore[list-item]


def test_normalized_weights_keep_the_bound_and_the_sensitivity_counts_the_excess() -> None:
    weights = np.random.default_rng(0).random((1000, 7))
    weights /= weights.sum(axis=1, keepdims=True)
    assert weights.sum(axis=1).max() > 1
    people = WeightedTopics(weights, np.eye(7))
    assert people.bound == 1.0
    barely = FacilityLocation([[1 + 0.9e-9], [0.0]], bound=1)
    assert barely.value([0]) <= barely.sensitivity("add_remove", "value")
    with refused("exceed bound=1", r"a value of 1\.000000002"):
        FacilityLocation([[1 + 2e-9], [0.0]], bound=1)


def test_declared_monotonicity_is_kept_everywhere() -> None:
    def falls(s: frozenset[int]) -> float:
        return 0.25 if s == {0, 1} else float(bool(s)) / 2

    f = SetFunction([lambda s: float(len(s)) / 2, falls], n_items=2, bound=1, monotone=True)
    asks = (
        lambda: f.multilinear([0.5, 0.5]),
        lambda: f.multilinear_gradient([0.5, 0.5]),
        lambda: f.lovasz([0.1, 0.2]),
        lambda: f.lovasz_gradient([0.1, 0.2]),
        lambda: f.total_curvature(),
        lambda: f.gains([0]),
        lambda: f._contributions(np.array([0, 1])),
    )
    for ask in asks:
        with refused("not monotone", r"^person 1 loses 0.25 when item [01] joins \[[01]\]$"):
            ask()
    assert f[0].multilinear([0.5, 0.5]) == 0.5


# -- mutual information, from the bounds of its docstring ----------------------------------------------------


# -- closed forms on more items than can be enumerated -------------------------------------------------------


def expectation(worth, row: np.ndarray, x: np.ndarray) -> float:
    """Over all subsets of the items that the row touches."""
    touched = np.flatnonzero(row)
    total = 0.0
    for inside in product((0, 1), repeat=touched.size):
        chance = np.prod(np.where(inside, x[touched], 1 - x[touched]))
        total += chance * worth(row[touched] * inside)
    return total


@pytest.mark.parametrize("name", ["best", "sqrt", "log", "capped"])
def test_closed_forms_where_enumeration_is_out_of_reach(name: str) -> None:
    rng = np.random.default_rng(4)
    rows = np.zeros((2, 30))
    touched = 14 if name == "best" else 12  # the sums over subsets stop at 12; a best item needs none
    rows[0, rng.choice(30, touched, replace=False)] = rng.random(touched)
    rows[1, rng.choice(30, 5, replace=False)] = rng.random(5)
    x = rng.random(30)
    make, worth = {
        "best": (FacilityLocation(rows), lambda w: w.max()),
        "sqrt": (ConcaveOverModular(rows, concave="sqrt"), lambda w: math.sqrt(w.sum())),
        "log": (ConcaveOverModular(rows, concave="log"), lambda w: math.log1p(w.sum())),
        "capped": (ConcaveOverModular(rows, concave="capped", cap=0.7), lambda w: min(w.sum(), 0.7)),
    }[name]
    make = make.cap_items(touched)  # that it can be done is declared
    value = make.multilinear(x)
    assert value == pytest.approx(np.mean([expectation(worth, row, x) for row in rows]), rel=1e-12)
    gradient = make.multilinear_gradient(x)
    assert (gradient == make.multilinear_gradient(x)).all()  # nothing was sampled
    j = int(np.flatnonzero(rows[0])[0])
    ends = [make.multilinear(np.where(np.arange(30) == j, end, x)) for end in (0.0, 1.0)]
    assert gradient[j] == pytest.approx(ends[1] - ends[0], rel=1e-9)


def test_concave_functions_are_asked_for_arrays() -> None:
    def picky(t: np.ndarray) -> np.ndarray:
        assert isinstance(t, np.ndarray)
        assert t.ndim == 1
        out = t.copy()
        out[out > 1] = 1
        return out

    person = ConcaveOverModular([[0.5, 0.75, 0.0]], concave=picky)[0]
    assert person.value([0, 1]) == 1.0
    np.testing.assert_allclose(person.gains([0]), [0, 0.5, 0])
