"""Bad input is refused in words that say where it stands and what to do."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
import scipy.sparse as sp

from discreet.objectives import (
    ConcaveOverModular,
    Coverage,
    FacilityLocation,
    GraphCut,
    LogDeterminant,
    MutualInformation,
    ProbabilisticCoverage,
    SaturatedCoverage,
    SetFunction,
    WeightedTopics,
    answers,
    greedy,
)
from tests.refusals import refused

GOOD = [[0.5, 0.0, 0.2], [0.0, 1.0, 0.0]]
FORMS = [np.array, sp.csr_array, sp.csc_array]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("family", "entry", "words"),
    [
        (ProbabilisticCoverage, 1.5, r"^matrix has .*entries must lie in \[0, 1\]$"),
        (ProbabilisticCoverage, -0.1, r"entries must lie in \[0, 1\]"),
        (Coverage, -1.0, "at least 0"),
        (FacilityLocation, np.nan, "every entry must be a finite number"),
        (FacilityLocation, -2.0, "at least 0"),
        (ConcaveOverModular, np.inf, "^weights has .*finite"),
        (SaturatedCoverage, -1e-9, "at least 0"),
    ],
)
def test_details_blame_entries_by_row_and_column(form, family, entry, words) -> None:
    matrix = np.array(GOOD)
    matrix[1, 2] = entry
    with refused(words, rf"^\w+\[row 1, column 2\] is {entry:g}$"):
        family(form(matrix))


@pytest.mark.parametrize(
    ("matrix", "words"),
    [
        (np.zeros((3, 0)), "no columns: the ground set is empty"),
        (np.zeros((0, 3)), "no rows"),
        (np.zeros(3), "two dimensions"),
        (sp.csr_array((2, 0)), "ground set is empty"),
    ],
)
def test_shapes(matrix, words) -> None:
    with pytest.raises(ValueError, match=words):
        Coverage(matrix)


@pytest.mark.parametrize(
    ("items", "error", "words"),
    [
        ([3], ValueError, "item 3 is out of range; items are 0 to 2"),
        ([0, -1], ValueError, "item -1 is out of range"),
        ([1, 0, 1], ValueError, "item 1 appears more than once"),
        ([0.5], TypeError, "whole numbers"),
        (["a"], TypeError, "whole numbers"),
    ],
)
def test_sets(items, error, words) -> None:
    people = FacilityLocation(GOOD)
    for ask in (people.value, people.gains):
        with pytest.raises(error, match=words):
            ask(items)


def test_a_refused_addition_changes_nothing() -> None:
    state = FacilityLocation(GOOD).start()
    state.add(1)
    before = (list(state.items), state.value, state.gains())
    for item, words in ((1, "already"), (7, "item=7"), (-1, "item=-1")):
        with pytest.raises(ValueError, match=words):
            state.add(item)
    assert (state.items, state.value) == before[:2]
    np.testing.assert_array_equal(state.gains(), before[2])


def test_points_must_be_probabilities() -> None:
    people = Coverage(GOOD)
    with pytest.raises(ValueError, match=r"x\[1\]=1.1 is not a probability"):
        people.multilinear([0.5, 1.1, 0.0])
    with pytest.raises(ValueError, match="x has 2 entries; 3 expected"):
        people.multilinear_gradient([0.5, 1.0])
    with pytest.raises(ValueError, match=r"x\[0\] is nan"):
        people.lovasz([np.nan, 0, 0])


def test_people_are_held_to_the_bound() -> None:
    with refused("one person's function can exceed bound=0.9", "^person 1 can reach a value of 1.0$"):
        FacilityLocation(GOOD, bound=0.9)
    large = FacilityLocation([[0.1, 3.0]])
    assert large.value([1]) == 3.0  # nothing private is asked, so nothing need be declared
    with pytest.raises(ValueError, match="declare a public bound="):
        large.bound  # noqa: B018
    with pytest.raises(ValueError, match="declare a public bound="):
        large.sensitivity()
    assert FacilityLocation([[0.1, 3.0]], bound=4).bound == 4.0
    assert FacilityLocation(GOOD).bound == 1.0
    with refused("exceed bound=1.4", "person 0"):
        GraphCut([[0, 1], [1, 0]], modular=[0.5, 0], bound=1.4)
    assert GraphCut([[0, 1], [1, 0]], modular=[0.5, 0], bound=1.5).bound == 1.5
    with refused("exceed bound=2", "person 0"):
        GraphCut([[0, 0], [0, 0]], modular=[-3, 0], bound=2)


def test_labels() -> None:
    with pytest.raises(ValueError, match="labels has 2 entries; there are 3 items"):
        Coverage(GOOD, labels=["a", "b"])
    with pytest.raises(ValueError, match="distinct"):
        Coverage(GOOD, labels=["a", "b", "a"])
    assert Coverage(GOOD, labels="abc").labels == ("a", "b", "c")
    assert Coverage(GOOD, labels="abc")[1].labels == ("a", "b", "c")


def test_concave_functions() -> None:
    with pytest.raises(ValueError, match="'sqrt', 'log', 'capped'"):
        ConcaveOverModular(GOOD, concave="cube")
    with refused("not concave", "bends up near"):
        ConcaveOverModular(GOOD, concave=lambda t: t**2)
    with refused("must not fall", "falls near"):
        ConcaveOverModular(GOOD, concave=lambda t: -t)
    for for_one_number in (lambda t: 1 - math.exp(-t), lambda t: min(t, 2.0)):
        with pytest.raises(TypeError, match=r"given an array.*np\.exp instead of math\.exp"):
            ConcaveOverModular(GOOD, concave=for_one_number)
    with pytest.raises(ValueError, match="cap="):
        ConcaveOverModular(GOOD, concave="capped")
    with refused("cap has a negative entry", r"cap\[1\]=-1"):
        ConcaveOverModular(GOOD, concave="capped", cap=[1, -1])
    with pytest.raises(ValueError, match=r"saturation=1\.5"):
        SaturatedCoverage(GOOD, saturation=1.5)


def test_graphs() -> None:
    with refused("adjacency is not symmetric", "person 0"):
        GraphCut([[0, 1], [0, 0]])
    with refused(r"of one shape, \(2, 2\)", r"adjacency\[1\] has shape"):
        GraphCut([sp.eye_array(2), sp.eye_array(3)])
    with pytest.raises(ValueError, match="modular must have 2 entries"):
        GraphCut([[0, 1], [1, 0]], modular=[1, 2, 3])
    with refused("modular has an entry that is not finite", r"modular\[row 0, column 1\] is nan"):
        GraphCut([[0, 1], [1, 0]], modular=[1, np.nan])
    with refused("adjacency has an entry", r"adjacency\[row 0, column 1\] is -1"):
        GraphCut([[0, -1], [-1, 0]])


def test_kernels() -> None:
    with pytest.raises(ValueError, match=r"mirror image.*symmetric"):
        LogDeterminant([[1, 2], [0, 1]])
    with pytest.raises(ValueError, match="positive semidefinite"):
        LogDeterminant([[1, 2], [2, 1]])
    with pytest.raises(ValueError, match="quality has 3 columns"):
        LogDeterminant(np.eye(2), np.ones((1, 3)))


def test_topics() -> None:
    with pytest.raises(ValueError, match="covers has 3 topics"):
        WeightedTopics([[1, 1]], [[1, 1, 1]])
    with refused("covers has an entry", r"covers\[row 0, column 1\] is 2"):
        WeightedTopics([[1, 1]], [[1, 2]])


def test_tables_of_categories() -> None:
    with refused("not below n_classes=2", r"^classes\[2\]=2$"):
        MutualInformation([[0], [1], [1]], [0, 1, 2])
    with refused("features has a negative entry", r"features\[1, 0\] is -1"):
        MutualInformation([[0], [-1]], [0, 1])
    with pytest.raises(TypeError, match="group other values first"):
        MutualInformation([[0.5], [1]], [0, 1])
    with pytest.raises(ValueError, match="one entry for each row of features"):
        MutualInformation([[0], [1]], [0])
    many = MutualInformation(np.arange(300)[:, None] + np.zeros(4, dtype=int), np.arange(300) % 2)
    with pytest.raises(ValueError, match="cells"):
        many.value([0, 1, 2, 3])


def test_callables_are_held_to_their_word() -> None:
    too_high = SetFunction(lambda s: len(s), n_items=3, bound=2)
    with refused(r"values a set at nan, or outside \[-2, 2\]", r"^person 0 values \[0, 1, 2\] at 3$"):
        too_high.value([0, 1, 2])
    falling = SetFunction([lambda _: 0.0, lambda s: 1 - len(s) / 2], n_items=2, bound=1, monotone=True)
    with refused("not monotone", r"^person 1 loses 0.5 when item 0 joins \[\]$"):
        falling.gains([])
    with pytest.raises(TypeError, match="list of callables"):
        SetFunction([], n_items=2, bound=1)


def test_mixtures() -> None:
    with pytest.raises(ValueError, match="same items: 3 items against 2"):
        Coverage(GOOD) + Coverage([[1, 0]])
    with pytest.raises(ValueError, match="factor=-1"):
        -1 * Coverage(GOOD)
    with pytest.raises(TypeError):
        Coverage(GOOD) + 1


def test_numbers_of_numpy_and_sums_make_mixtures() -> None:
    people = FacilityLocation(GOOD)
    for twice in (np.float64(2) * people, people * np.float64(2), np.int64(2) * people):
        assert twice.bound == 2.0
    assert sum([people, people]).value([1]) == 2 * people.value([1])
    with pytest.raises(TypeError):
        1 + people
    with pytest.raises(TypeError):
        False + people


@pytest.mark.parametrize(
    ("matrix", "error", "words"),
    [
        (np.ma.MaskedArray([[1.0, 2.0]], mask=[[True, False]]), ValueError, "weights has masked entries"),
        (np.array([[1 + 2j]]), TypeError, "weights must be .* numbers: got complex128"),
        (sp.csr_array(np.array([[1 + 2j]])), TypeError, "weights must be .* numbers, got complex128"),
        ([["1", "2"]], TypeError, "weights must be .* numbers: got str"),
        (np.array([["2024-01-01"]], dtype="M8[D]"), TypeError, "weights must be .* numbers: got datetime64"),
        ([[1.0, -2.0]], ValueError, "weights has an entry that is not allowed"),
        ([[1.0], [1.0, 2.0]], TypeError, "weights must be"),
    ],
)
def test_what_is_no_matrix_of_numbers(matrix, error, words) -> None:
    with pytest.raises(error, match=words):
        ConcaveOverModular(matrix)


@pytest.mark.parametrize(
    "make",
    [
        lambda last: GraphCut([np.zeros((2, 2))] * 3, modular=[[1, 2], [1, 2], last]),
        lambda last: ConcaveOverModular([[1, 2]] * 3, concave="capped", cap=[1, 2, last]),
    ],
)
@pytest.mark.parametrize("last", ["asthma", [1], [1, "asthma"], [1, 10**400]])
def test_refused_numbers_of_people_tell_neither_an_entry_nor_how_many_there_are(make, last):
    with pytest.raises(TypeError, match=r"must (hold|be a vector of) numbers") as told:
        make(last)
    assert told.value.__cause__ is None
    assert not re.search("asthma|3|int too large", str(told.value))


def test_k_larger_than_the_ground_set() -> None:
    with pytest.raises(ValueError, match="k=4 exceeds n_items=3; choose k <= 3"):
        greedy(Coverage(GOOD), 4)


def test_people_out_of_range() -> None:
    people = Coverage(GOOD)
    with pytest.raises(IndexError, match="there is no person 2"):
        people[2]
    with pytest.raises(IndexError, match="at least one"):
        people[2:]


def test_mixtures_of_differently_named_items() -> None:
    plain, named = Coverage(GOOD), Coverage(GOOD, labels="abc")
    assert (plain + named).labels == ("a", "b", "c")
    with pytest.raises(ValueError, match="item 1 is 'b' in one part and 'c' in another"):
        named + Coverage(GOOD, labels="acb")


@pytest.mark.parametrize("concave", ["sqrt", lambda total: total**0.5], ids=["named", "function"])
def test_gains_beyond_the_bound_are_refused_and_rounding_is_cut_off(concave):
    """Also where a function says all of them at once: learners charge for no more than the bound."""
    person = ConcaveOverModular([[0.04, 0.49, 0.81]], concave=concave)
    expected = np.array([[0.2, 0.7, 0.9], [0.0, 0.53**0.5 - 0.2, 0.85**0.5 - 0.2]])
    assert answers.gains_along(person, [0, 1], 0.95) == pytest.approx(expected)
    with refused("gains must be 3 finite numbers", r"gains\[2\]=0.9"):
        answers.gains_along(person, [0, 1], 0.8)
    assert answers.gains_along(person, [0, 1], 0.9 - 1e-12).max() == 0.9 - 1e-12
