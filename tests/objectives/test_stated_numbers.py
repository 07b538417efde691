"""Bounds, sensitivities and limits beside numbers worked out by hand: no less than is proven, and no more."""

from __future__ import annotations

import math
import warnings
from collections import Counter

import numpy as np
import pytest

from discreet.core.checks import DataError
from discreet.objectives import (
    BudgetAllocation,
    ConcaveOfLinear,
    ConcaveOverModular,
    Coverage,
    EmbeddedFacilityLocation,
    FacilityLocation,
    GraphCut,
    LogDeterminant,
    MultilinearExtension,
    MutualInformation,
    ProbabilisticCoverage,
    QuadraticProgram,
    SetFunction,
    answers,
    devices,
    rows,
    stored,
)
from discreet.objectives.devices import NUMPY, Device
from discreet.objectives.embedded import Similarities

ULP = 2.0**-53
NARROW = {"total": 2.0, "upper": [0.5, 4.0]}  # gradients are at most 2 / 0.5 long


@pytest.mark.parametrize(
    ("make", "bound", "gradient_bound", "smoothness"),
    [
        (lambda: ConcaveOfLinear([[0.1, 0.1]], "saturating", **NARROW), 1.0 - math.exp(-2.0), 4.0, 16.0),
        (lambda: ConcaveOfLinear([[0.1, 0.1]], "log", **NARROW), math.log(3.0), 4.0, 16.0),
        (lambda: ConcaveOfLinear([[0.1, 0.1]], "ratio", **NARROW), 2.0 / 3.0, 4.0, 32.0),
        (lambda: BudgetAllocation([[0.1, 0.1]], **NARROW), 1.0 - math.exp(-2.0), 4.0, 16.0),
        (
            lambda: QuadraticProgram([[[-0.1]]], [[0.5]], bound=3.0, gradient_bound=1.5, upper=0.5),
            3.0,
            1.5,
            3.0,
        ),
        (lambda: MultilinearExtension(ProbabilisticCoverage(np.full((2, 9), 0.1))), 1.0, 3.0, 8.0),
        (lambda: MultilinearExtension(Coverage(np.eye(9)).cap_items(4, seed=0)), 1.0, 2.0, 3.0),
    ],
)
def test_bounds_of_functions_of_a_point(make, bound, gradient_bound, smoothness):
    people = make()
    assert (people.bound, people.gradient_bound, people.smoothness) == pytest.approx(
        (bound, gradient_bound, smoothness), rel=1e-14
    )


@pytest.mark.parametrize(
    "make",
    [
        lambda off: ConcaveOfLinear([[1.0 + off]], total=1000.0, upper=1000.0),
        lambda off: QuadraticProgram([[[0.0]]], [[7.0 * (1.0 + off)]], bound=7.0, gradient_bound=9.0),
        lambda off: QuadraticProgram([[[0.0]]], [[7.0 * (1.0 + off)]], bound=9.0, gradient_bound=7.0),
        lambda off: QuadraticProgram([[[-0.5 - off]]], [[0.5]]),
        lambda off: FacilityLocation([[7.0 * (1.0 + off)]], bound=7.0),
    ],
)
def test_a_bound_may_be_missed_by_rounding_and_no_more(make):
    make(5e-10)
    with pytest.raises(DataError):
        make(5e-9)


def test_a_point_may_miss_its_box_by_rounding_and_no_more():
    people = ConcaveOfLinear([[0.001]], upper=1000.0)
    assert people.value([1000.0 + 5e-7]) == people.value([1000.0])
    assert people.value([-5e-7]) == 0.0
    for far in (1000.0 + 5e-6, -5e-6):
        with pytest.raises(ValueError, match="is outside"):
            people.value([far])


@pytest.mark.parametrize("norm", ["value", "coordinate", "l1", "l2", "range"])
def test_what_sums_of_floats_add_to_a_sensitivity(norm):
    """1 + 1e-9 + 4 c N g as the docstring proves it, c = 1 or 6, and what a mixture adds for its sums."""
    n, size = 1000, 8
    entries = {"l1": size, "l2": math.sqrt(size)}.get(norm, 1.0)
    ranges = {"value": 2.0, "range": 6.0}.get(norm, 3.0)  # |f| <= 1, and an item takes away 2 at most
    for people, moved, sizes in (
        (SetFunction([len] * n, size, bound=1.0, monotone=True), 2.0 if norm == "range" else 1.0, 1.0),
        (GraphCut(np.zeros((n, size, size)), bound=1.0), ranges, 6.0),
    ):
        additions = (n + 2 * size + 64) * ULP
        factor = 1.0 + 1e-9 + 4.0 * sizes * n * additions / (1.0 - additions)
        stated = people.sensitivity(norm=norm)
        assert stated == pytest.approx(entries * moved / n * factor, rel=1e-14)
        both = (0.5 * people + 2.0 * people).sensitivity(norm=norm)
        assert both - 2.5 * stated == pytest.approx(entries * 24.0 * 2 * ULP * 2.5, rel=0.01, abs=0.0)


def entropy_change(classes, distance):
    """c(e) of the docstring."""
    if distance >= 1.0 - 1.0 / classes:
        return math.log(classes)
    inside = [-p * math.log(p) for p in (distance, 1.0 - distance)]
    return sum(inside) + distance * math.log(classes - 1)


@pytest.mark.parametrize("classes", [2, 3, 7])
@pytest.mark.parametrize("size", [1, 2, 5])
@pytest.mark.parametrize("n", [4, 50, 3000])
def test_how_far_a_row_moves_information(n, size, classes):
    people = MutualInformation(np.zeros((n, 5), dtype=int), np.zeros(n, dtype=int), n_classes=classes)
    shift = 1.0 - (1.0 - 1.0 / n) ** size
    one, same = entropy_change(classes, 1.0 / n), entropy_change(classes, shift)
    other = one + entropy_change(classes, 2.0 * shift - 1.0 / n)
    exchanged = one if size == 1 and classes == 2 else max(same, other)
    rounding = 3.0 * (classes + 2 * size + 64) * ULP * (22.0 * math.log(2.0) + 2.0)
    for neighbours, moved in (("replace", exchanged), ("add_remove", one + same)):
        moved = min(moved, math.log(classes))
        found = people.sensitivity(neighbours, "value", set_size=size)
        assert found == pytest.approx(moved, rel=1e-10)
        if moved < 1.0:
            assert found - moved == pytest.approx(2.0 * rounding, rel=0.01)
        entry = min(2.0 * moved, math.log(classes))
        for norm, factor in (("coordinate", 1.0), ("l1", 5.0), ("l2", math.sqrt(5.0))):
            stated = people.sensitivity(neighbours, norm, set_size=size)
            assert stated == pytest.approx(factor * entry, rel=1e-9)


def test_tables_of_information_up_to_the_largest():
    """2 classes x 1448^2 cells are below 2^22, those of 1449^2 are not; a declared table may have 2^22."""
    for picks, most in ((0, 1 << 21), (1, 1 << 21), (2, 1448), (3, 128), (21, 2), (22, 1)):
        MutualInformation([[most - 1], [0]], [0, 1]).check_picks(picks)
        with pytest.raises(DataError, match=f"not below {most}, for {picks} features"):
            MutualInformation([[most], [0]], [0, 1]).check_picks(picks)
    declared = MutualInformation(np.zeros((2, 3), dtype=int), [0, 1], n_values=[4, 1 << 11, 1 << 10])
    declared.check_picks(2)
    with pytest.raises(ValueError, match="the joint table of 3 features"):
        declared.check_picks(3)


@pytest.mark.parametrize("width", [1024, 1025])
def test_products_of_embeddings_beyond_32_bits(width):
    """Sums of many large products, whole and cut into steps, beside integers of Python."""
    rng = np.random.default_rng(width)
    people = rng.choice(np.array([-128, 127], dtype=np.int8), (300, width))
    people[0, :-1], people[0, -1] = -128, 127  # an odd product, in 1,025 dimensions above 2^24
    people[100:] = people[0]
    items = np.stack([people[0], people[1], -1 - people[0]])
    exact = people.astype(np.int64) @ items.T.astype(np.int64)
    low, span = np.arange(300, dtype=np.int32), np.full(300, 128 * 128 * width, dtype=np.int32)
    assert exact.sum(axis=0).max() > 1 << 31
    for device in (NUMPY, Device("numpy", np, "cpu")):
        for cut in (None, (5, 3)):
            reached = np.minimum(np.maximum(exact, low[:, None]), (low + span)[:, None])
            if cut is None:
                expected = reached - low[:, None]
            else:
                expected = (reached * 5 >> 3) - (low[:, None].astype(np.int64) * 5 >> 3)
            found = device.product_sums(people, items, low, span, cut, (280, 2))
            assert found.tolist() == expected.sum(axis=0).tolist()
        assert (device.products(people, items, (7, 2)) == exact).all()


@pytest.mark.parametrize(("low", "high"), [(0.0, 10.0), (-10.0, 0.0), (-10.0, 10.0)])
def test_answers_may_miss_their_range_by_rounding_and_no_more(low, high):
    for end, way in ((low, -1.0), (high, 1.0)):
        assert answers.number("value", end + way * 5e-9, low, high) == end
        assert answers.vector("gains", [0.0, end + way * 5e-9], 2, low, high).tolist() == [0.0, end]
        with pytest.raises(DataError):
            answers.number("value", end + way * 5e-8, low, high)
        with pytest.raises(DataError, match="2 finite numbers"):
            answers.vector("gains", [0.0, end + way * 5e-8], 2, low, high)
    with pytest.raises(DataError):
        answers.number("value", -1e-12, 0.0)


@pytest.mark.parametrize("size", [0.01, 1.0, 1e6])
def test_a_kernel_may_be_off_by_rounding_and_no_more(size):
    """Symmetric to 1e-10 and no eigenvalue below -1e-9, of the largest entry or of 1 if that is more."""
    scale = max(1.0, size)
    for off, below, wrong in (
        (5e-11, 0.0, ""),
        (2e-10, 0.0, "mirror"),
        (0.0, 5e-10, ""),
        (0.0, 2e-9, "eigen"),
    ):
        kernel = np.array([[size, size], [size - off * scale, size]])
        kernel[0, 1] += below * scale
        kernel[1, 0] += below * scale
        if wrong:
            with pytest.raises(ValueError, match=wrong):
                LogDeterminant(kernel, bound=100.0)
        else:
            LogDeterminant(kernel, bound=100.0)


def test_lengths_within_a_twentieth_of_1_are_cosines():
    for length, warned in ((0.96, False), (1.04, False), (0.94, True), (1.06, True)):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            EmbeddedFacilityLocation(np.eye(2), np.diag([1.0, length]), scale=2.0)
        assert bool(said) is warned


def test_what_a_tile_takes_and_is_called_when_there_is_no_room():
    """4 x 8 pairs in up to 2,000 dimensions: copies of both sides, and what is made of them."""
    portable = Device("numpy", np, "cpu")
    for width, size in ((16, 4), (1024, 4), (2000, 8)):
        pairs, sides = 4 * 8, (4 + 2 * 8) * width
        assert portable.tile_bytes((4, 8), width) == (3 * pairs + sides) * size + 4 * 8
        assert NUMPY.tile_bytes((4, 8), width) == devices.processors() * ((pairs + sides) * size + 8 * 4)
    for source, words in (
        (FacilityLocation.from_array(np.zeros((9, 1000)), tile=2)._rows, r"up to 0 MB"),
        (FacilityLocation.from_array(np.zeros((900, 1000)), tile=250)._rows, r"a tile of 250 .*up to 10 MB"),
        (
            LogDeterminant(np.eye(50), np.zeros((5000, 50)), bound=1.0, tile=70)._rows,
            r"up to 70 people x 50 ",
        ),
    ):
        with pytest.raises(MemoryError, match=words), source.room():
            raise MemoryError


def test_groups_of_buckets_have_about_as_many_entries():
    assert stored._balanced([5, 9, 1, 4, 0, 9], 2) == [(0, 1, 4), (2, 3, 5)]
    assert stored._balanced([3, 3], 5) == [(0,), (1,)]
    assert Counter(map(len, stored._balanced([0] * 9, 3))) == {3: 3}


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_functions_that_bend_up_or_fall_are_refused_wherever_they_do(unit):
    def made(function, largest):
        return ConcaveOverModular([[largest]], concave=lambda t: unit * function(t), bound=1e12)

    assert made(np.sqrt, 1e6) is not None
    for start, largest in ((3e-3, 1.0), (300.0, 1.0), (3e5, 1e6)):
        with pytest.raises(DataError, match="not concave"):
            made(lambda t, s=start: np.maximum(t, 2.0 * t - s), largest)
        with pytest.raises(DataError, match="must not fall"):
            made(lambda t, s=start: np.minimum(t, 2.0 * s - t), largest)
    tilt = 1e-10 * max(1.0, 1.0 / unit)
    assert made(lambda t: np.minimum(t, 1.0 - tilt * (t - 1.0)), 1.0) is not None  # within rounding


def test_rows_are_cut_by_their_entries_and_by_their_number():
    for ends, most, expected in (
        ([0, 2, 2, 9, 10, 11], 3, [(0, 2), (2, 3), (3, 5)]),
        ([0] * 8, 3, [(0, 3), (3, 6), (6, 7)]),
        ([0, 3, 6], 6, [(0, 2)]),
        ([0, 3, 6], 5, [(0, 1), (1, 2)]),
    ):
        assert [*rows.chunks(np.array(ends), most)] == expected


def test_a_cap_on_items_never_rises():
    people = Coverage(np.ones((2, 5)))
    for caps, most in (((3,), 3), ((9,), 5), ((3, 4), 3), ((4, 3), 3), ((4, 9), 4)):
        some = people
        for cap in caps:
            some = some.cap_items(cap, seed=1)
        assert some.items_per_person == most
    some = people.cap_items(4, seed=1)
    assert [some.touched_items(cap) for cap in (4, 5, 9, None)] == [4, 5, 5, 4]
    with pytest.raises(DataError, match="items_per_person=3, but one person touches more items"):
        some.touched_items(3)


@pytest.mark.parametrize("rate", [0.5, 0.75, 0.3, 0.0625, 1.5, 3.0, 7.0])
def test_a_similarity_is_cut_where_its_steps_are_all_used(rate):
    """The largest one that counts no more steps than a person has."""
    nobody = np.zeros((1, 4), dtype=np.int8)
    found = Similarities(NUMPY, nobody, nobody, 100, rate, (4, 4))
    for most in (0, 1, 3, 10, 10**6):
        cap, factor, cut = found.steps(float(most), 1.0)
        steps = [factor * s if cut is None else s * cut[0] >> cut[1] for s in range(101)]
        assert cap == max(s for s in range(101) if steps[s] <= most)
        assert max(abs(count - rate * s) for s, count in enumerate(steps)) < 1.0 + 1e-6
    wide = Similarities(NUMPY, nobody, nobody, 1 << 30, 10_000.0 + rate / 9.0, (4, 4))
    factor, shift = wide.steps(1e18, 1.0)[2]
    assert factor << 30 < 1 << 62  # products stay in 64 bits
    assert factor / 2**shift == pytest.approx(wide.unit, rel=1e-4)


@pytest.mark.parametrize("directed", [True, False])
def test_what_a_cut_can_reach(directed):
    """Of an arc and its reverse at most one is cut: the larger of every two, and what items add or take."""
    rng = np.random.default_rng(0)
    graphs = rng.integers(0, 4, (4, 5, 5)) * (rng.random((4, 5, 5)) < 0.5)
    graphs = graphs if directed else graphs + graphs.transpose(0, 2, 1)
    modular = rng.integers(-9, 3, (4, 5))
    reached, touched = [], []
    for graph, part in zip(graphs, modular, strict=True):
        edges = sum(max(graph[u, v], graph[v, u]) for u in range(5) for v in range(u))
        reached.append(max(edges + sum(m for m in part if m > 0), -sum(m for m in part if m < 0)))
        ends = {u for u in range(5) for v in range(5) if u != v and (graph[u, v] or graph[v, u])}
        touched.append(len(ends | set(np.flatnonzero(part).tolist())))
    people = GraphCut(graphs, modular=modular, directed=directed, bound=float(max(reached)))
    assert people._largest().tolist() == reached
    assert people._most_items() == max(touched)
    with pytest.raises(DataError, match="one person's function can exceed"):
        GraphCut(graphs, modular=modular, directed=directed, bound=max(reached) - 0.5)


def test_heights_may_fall_by_rounding_and_no_more():
    """By 1e-9 of three heights; what leads beyond all weights of a person is never used."""
    for reached, after, wrong in (
        (5.0, 100.0 - 2e-7, False),
        (5.0, 100.0 - 5e-7, True),
        (5.0, 100.0 + 2e-7, False),
        (5.0, 100.0 + 5e-7, True),
        (8.0, 3.0, True),
        (8.0 * (1.0 + 5e-13), 3.0, True),
        (8.0 * (1.0 + 2e-12), 3.0, False),
    ):
        before = most = np.array([100.0])
        found = rows._wrong(np.array([reached]), np.array([8.0]), before, np.array([after]), most)
        assert found.tolist() == [wrong]


def test_log_determinant_gradients_are_means_over_random_sets():
    """det(I + L) is 3.75 of both items and 2 of one: an item adds log 1.875 to the other, alone log 2."""
    rows, per_unit, samples = LogDeterminant([[1.0, 0.5], [0.5, 1.0]]).row_source(), 2.0**20, 16
    with_both, alone = (math.floor(per_unit * math.log(value)) for value in (1.875, 2.0))
    found = rows.gradient_steps(np.array([0.5, 1.0]), per_unit, 1 << 40, seed=5, samples=samples)
    assert found[0] == with_both  # as the second item is in all of the sets
    assert found[1] in [((samples - k) * with_both + k * alone) // samples for k in range(1, samples)]


def test_sums_of_very_many_numbers_have_no_bound(monkeypatch):
    """g = m u / (1 - m u), and 4 N g on top; from m u = 1/2 on nothing is said."""
    people = Coverage(np.ones((5, 4)))
    monkeypatch.setattr(Coverage, "_additions", lambda _: 1 << 51)
    assert people.sensitivity() == pytest.approx(0.2 * (1.0 + 1e-9 + 4.0 * 5.0 / 3.0), rel=1e-14)
    monkeypatch.setattr(Coverage, "_additions", lambda _: 1 << 52)
    with pytest.raises(ValueError, match="too many people"):
        people.sensitivity()


def test_a_growing_set_takes_the_items_there_are():
    growing = Coverage(np.eye(3)).start()
    assert growing.add(2) == pytest.approx(1.0 / 3.0)
    for item in (3, 4, -1):
        with pytest.raises(ValueError, match=f"item={item}"):
            growing.add(item)


def test_topics_leave_everybody_a_step_for_each_item():
    """Steps are kept in 256 parts; an item covers 2,047 topics at most."""
    people, seen = rows.WeightedTopics(np.full((2, 2), 0.25), np.ones((3, 2))), []
    source = rows.TopicSteps(people._topics, lambda *asked: seen.append(asked) or np.zeros(2, np.int64))
    for most in (100.0, 2.0):
        source.growing(most, 8.0)
    assert seen == [(8.0 * 256, 97 * 256), (8.0 * 256, 0)]
    for topics, fits in ((2047, True), (2048, False)):
        many = rows.WeightedTopics(np.full((1, topics), 1e-4), np.ones((1, topics)))
        assert (many.row_source() is not None) == fits
