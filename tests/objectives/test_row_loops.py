"""Loops over rows beside plain Python that does the same, operation by operation; and what they refuse."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

from discreet.kernels import rows as kernels
from discreet.kernels.rows import BEST, CAP, COVER, LOG, SQRT, SURVIVE, Compressed, RowTable
from discreet.objectives.rows import as_sparse, constant

KINDS = (COVER, SURVIVE, BEST, SQRT, LOG, CAP)
OF_SUMS = (SQRT, LOG, CAP)


def gain(kind, state, weight, cap):
    """What an item adds to one row, as the kinds are defined."""
    return {
        COVER: lambda: 1.0 - state,
        SURVIVE: lambda: state * weight,
        BEST: lambda: max(weight - state, 0.0),
        SQRT: lambda: weight / max(math.sqrt(state + weight) + math.sqrt(state), 1e-200),
        LOG: lambda: math.log1p(weight / (1.0 + state)),
        CAP: lambda: min(state + weight, cap) - min(state, cap),
    }[kind]()


def step(kind, state, weight):
    if kind == COVER:
        return 1.0
    if kind == SURVIVE:
        return state * (1.0 - weight)
    return max(state, weight) if kind == BEST else state + weight


def steps(amount, per_unit, most):
    return min(max(math.floor(amount * per_unit), 0), most)


class Case:
    """Some rows, as an array, as compressed rows and as a list of entries of each."""

    def __init__(self, kind, seed):
        rng = np.random.default_rng([kind, seed])
        self.kind, self.fresh = kind, 1.0 if kind == SURVIVE else 0.0
        self.n, self.m = int(rng.integers(1, 12)), int(rng.integers(1, 9))
        weights = rng.random((self.n, self.m)) * (rng.random((self.n, self.m)) < rng.random())
        if seed % 3 == 0:
            weights = np.round(4.0 * weights) / 4.0  # ties
        self.weights = (weights > 0.0).astype(float) if kind == COVER else weights
        self.share, self.cap = rng.random(self.n), rng.random(self.n)
        sparse = as_sparse(self.weights)
        self.columns = sparse.by_column.view
        self.sparse = RowTable(kind, self.fresh, sparse.view, self.share, self.cap)
        self.dense = RowTable(kind, self.fresh, self.weights, self.share, self.cap)
        falling = sparse.falling.view if kind == BEST else sparse.view
        self.gradients = RowTable(kind, self.fresh, falling, self.share, self.cap)
        self.order = rng.permutation(self.m)[: rng.integers(0, self.m + 1)]
        self.x = np.where(rng.random(self.m) < 0.3, rng.integers(0, 2, self.m), rng.random(self.m))
        self.inside = rng.random((5, self.m)) < self.x
        self.per_unit, self.most = 2.0 ** int(rng.integers(2, 30)), int(rng.integers(0, 1 << 20))

    def tables(self):
        """Both tables, and what names the rows of an item in each."""
        return (self.sparse, self.columns), (self.dense, None)

    def states(self):
        return np.full(self.n, self.fresh)

    def entries(self, i):
        return [(j, w) for j, w in enumerate(self.weights[i].tolist()) if w != 0.0]

    def moved(self, state, item):
        """The rows' states once an item is chosen, and what it adds."""
        added, state = 0.0, state.copy()
        for i in range(self.n):
            if self.weights[i, item] != 0.0:
                added += self.share[i] * gain(self.kind, state[i], self.weights[i, item], self.cap[i])
                state[i] = step(self.kind, state[i], self.weights[i, item])
        return state, added

    def gains(self, state):
        out = np.zeros(self.m)
        for i in range(self.n):
            for j, weight in self.entries(i):
                out[j] += self.share[i] * gain(self.kind, state[i], weight, self.cap[i])
        return out

    def value(self, i, items):
        """The value of a set to one row, without its share."""
        state, total = self.fresh, 0.0
        for j in items:
            if self.weights[i, j] != 0.0:
                total += gain(self.kind, state, self.weights[i, j], self.cap[i])
                state = step(self.kind, state, self.weights[i, j])
        return total

    def slopes(self, i):
        """The gradient of one row's multilinear extension at x, over all sets; and the extension."""
        gradient, extension = np.zeros(self.m), 0.0
        for chosen in product((0, 1), repeat=self.m):
            items = [j for j in range(self.m) if chosen[j]]
            chances = [self.x[j] if chosen[j] else 1.0 - self.x[j] for j in range(self.m)]
            value = self.value(i, items)
            extension += math.prod(chances) * value
            for j in range(self.m):
                gradient[j] += (1 if chosen[j] else -1) * math.prod(chances[:j] + chances[j + 1 :]) * value
        return gradient, extension


@pytest.fixture(params=[(kind, seed) for kind in KINDS for seed in range(12)], ids=str)
def case(request):
    return Case(*request.param)


def test_chains_gains_and_additions_are_those_of_plain_loops(case):
    for table, columns in case.tables():
        state, added = case.states(), np.zeros(case.order.size)
        table.chain(case.order, state, added, columns)
        expected = case.states()
        for t, item in enumerate(case.order):
            expected, more = case.moved(expected, item)
            assert added[t] == more
        assert (state == expected).all()
        gains = np.zeros(case.m)
        table.gains(state, gains)
        # Entries of 0 add nothing but where a row that covers is dense: nobody asks for these.
        held = (case.weights != 0.0).all(axis=0) if case.kind == COVER and columns is None else slice(None)
        assert (gains[held] == case.gains(state)[held]).all()
        for item in range(case.m):
            after, sums = state.copy(), gains.copy()
            more = table.add(item, after, sums, columns)
            moved, wanted = case.moved(state, item)
            assert more == wanted
            assert (after == moved).all()
            np.testing.assert_allclose(sums[held], case.gains(moved)[held], rtol=1e-12, atol=1e-12)


def test_without_columns_items_are_found_in_the_rows(case):
    found = []
    for columns in (case.columns, None):
        state, added = case.states(), np.zeros(case.order.size)
        case.sparse.chain(case.order, state, added, columns)
        found.append((state.tolist(), added.tolist()))
    assert found[0] == found[1]
    values = np.zeros(case.n)
    case.sparse.values(case.order.astype(np.int32), 0, values)
    for i in range(case.n):
        assert values[i] == pytest.approx(case.share[i] * case.value(i, case.order), rel=1e-14)


def test_sums_in_steps_are_those_of_plain_loops_whatever_was_chosen_before(case):
    for table, columns in case.tables():
        if case.kind == COVER and columns is None:
            continue  # coverage is never a dense array
        state, left, sums = case.states(), np.full(case.n, float(case.most)), np.zeros(case.m)
        table.sums(state, left, case.per_unit, sums)
        expected, room = case.states(), np.full(case.n, case.most)
        for item in [*case.order, None]:
            wanted = np.zeros(case.m)
            for i in range(case.n):
                for j, weight in case.entries(i):
                    amount = case.share[i] * gain(case.kind, expected[i], weight, case.cap[i])
                    wanted[j] += steps(amount, case.per_unit, room[i])
            assert (sums == wanted).all()
            assert (left == room).all()
            if item is None:
                break
            table.choose(item, state, left, case.per_unit, sums, columns)
            for i in range(case.n):
                weight = case.weights[i, item]
                if weight != 0.0:
                    amount = case.share[i] * gain(case.kind, expected[i], weight, case.cap[i])
                    room[i] -= steps(amount, case.per_unit, room[i])
            expected, _ = case.moved(expected, item)


def test_gradients_are_expectations_over_all_sets(case):
    out = np.zeros(case.m)
    total = case.gradients.extension(case.x, out, 0, case.n)
    whole = np.zeros(case.m, dtype=np.int64)
    case.gradients.gradient_steps(
        case.x, case.inside.view(np.uint8), case.per_unit, case.most, whole, 0, case.n
    )
    gradient, extension, lowest, highest = np.zeros(case.m), 0.0, np.zeros(case.m), np.zeros(case.m)
    for i in range(case.n):
        slopes, value = case.slopes(i)
        gradient += case.share[i] * slopes
        extension += case.share[i] * value
        amounts = case.share[i] * slopes * case.per_unit
        lowest += [steps(a - 1e-9 * case.per_unit, 1.0, case.most) for a in amounts]
        highest += [steps(a + 1e-9 * case.per_unit, 1.0, case.most) for a in amounts]
    np.testing.assert_allclose(out, gradient, rtol=1e-9, atol=1e-12)
    assert total == pytest.approx(extension, rel=1e-9, abs=1e-12)
    assert (lowest <= whole).all()
    assert (whole <= highest).all()


@pytest.mark.parametrize("kind", OF_SUMS)
def test_rows_with_many_undecided_items_take_the_mean_over_the_given_sets(kind):
    rng = np.random.default_rng(kind)
    weights, x, inside = rng.random(kernels.SHORT + 1), np.full(9, 0.5), rng.random((7, 9)) < 0.5
    table = RowTable(kind, 0.0, as_sparse(weights[None]).view, np.array([0.75]), np.array([2.0]))
    out = np.zeros(9, dtype=np.int64)
    table.gradient_steps(x, inside.view(np.uint8), 2.0**30, 1 << 40, out, 0, 1)
    for j in range(9):
        slope = 0.0
        for held in inside:
            others = sum(weights[held].tolist())
            slope += gain(kind, max(others - weights[j], 0.0) if held[j] else others, weights[j], 2.0)
        assert out[j] == math.floor(slope * (0.75 / 7) * 2.0**30)


@pytest.mark.parametrize("kind", [COVER, SURVIVE, BEST])
def test_what_experts_are_paid_is_each_ones_gradient_in_units(kind):
    case = Case(kind, 4)
    rng = np.random.default_rng(kind)
    table = RowTable(kind, case.fresh, case.gradients.__reduce__()[1][2], np.ones(case.n), np.ones(case.n))
    points, shares = rng.random((3, case.m)), np.array([1.0, 0.5, 0.0])
    counted, totals = rng.random(case.n) < 0.7, np.zeros((3, case.m), dtype=np.int64)
    table.add_gradients(0, counted.view(np.uint8), points, shares, 2.0**20, 1 << 19, totals)
    for k in range(3):
        lowest, highest = np.zeros(case.m), np.zeros(case.m)
        for i in np.flatnonzero(counted):
            case.x = points[k]
            here = case.slopes(i)[0]
            case.x = np.ones(case.m)
            paid = shares[k] * here + (1.0 - shares[k]) * case.slopes(i)[0]
            lowest += [steps(p - 1e-9, 2.0**20, 1 << 19) for p in paid]
            highest += [steps(p + 1e-9, 2.0**20, 1 << 19) for p in paid]
        assert (lowest <= totals[k]).all()
        assert (totals[k] <= highest).all()


@pytest.mark.parametrize("kind", OF_SUMS)
def test_contributions_are_what_is_lost_without_an_item(kind):
    case = Case(kind, 7)
    state, items = case.states(), np.arange(case.m)
    case.sparse.chain(items, state, np.zeros(case.m), case.columns)
    out = np.zeros(case.m)
    case.sparse.contributions(items, state, out, case.columns)
    for j in items:
        rest = [other for other in items if other != j]
        lost = sum(case.share[i] * (case.value(i, items) - case.value(i, rest)) for i in range(case.n))
        assert out[j] == pytest.approx(lost, rel=1e-9, abs=1e-12)


def test_orders_of_entries(case):
    matrix = as_sparse(case.weights)
    columns = as_sparse(np.ascontiguousarray(case.weights.T))
    assert (matrix.by_column.indptr == columns.indptr).all()
    assert (matrix.by_column.indices == columns.indices).all()
    assert (matrix.by_column.data == columns.data).all()
    for i in range(case.n):
        here = slice(matrix.indptr[i], matrix.indptr[i + 1])
        entries = sorted(case.entries(i), key=lambda entry: -entry[1])
        assert list(zip(matrix.falling.indices[here], matrix.falling.data[here], strict=True)) == entries


def test_one_number_in_memory_counts_for_all_places():
    rng = np.random.default_rng(3)
    full = as_sparse((rng.random((30, 20)) < 0.4).astype(float))
    ones = np.broadcast_to(1.0, full.data.size)
    short = Compressed(full.indptr, full.indices, ones, 20)
    state, found = rng.random(30), []
    for matrix, share in ((full.view, np.full(30, 0.5)), (short, np.broadcast_to(0.5, 30))):
        table, out = RowTable(SQRT, 0.0, matrix, share, np.broadcast_to(np.inf, 30)), np.zeros(20)
        table.gains(state, out)
        found.append(out.tolist())
    assert found[0] == found[1]
    assert short.transposed()[2] is None
    assert constant(1.0, 1 << 20).strides == (0,)


def _matrix(**changed):
    given = {
        "indptr": np.array([0, 1, 3]),
        "indices": np.array([2, 0, 1], dtype=np.int32),
        "data": np.ones(3),
        "n_columns": 3,
    }
    return Compressed(**(given | changed))


@pytest.mark.parametrize(
    "changed",
    [
        {"indptr": np.array([0, 1, 4])},
        {"indptr": np.array([0, 4, 3])},
        {"indptr": np.array([1, 1, 3])},
        {"indptr": np.array([0, -1, 3])},
        {"indptr": np.zeros(0, dtype=np.int64)},
        {"indices": np.array([2, 0, 3], dtype=np.int32)},
        {"indices": np.array([-1, 0, 1], dtype=np.int32)},
        {"data": np.ones(2)},
        {"data": np.ones(6)[::2]},
    ],
    ids=str,
)
def test_no_index_leads_out_of_an_array(changed):
    assert _matrix() is not None
    with pytest.raises(ValueError, match=r"indptr|compressed rows|data"):
        _matrix(**changed)


def test_arrays_of_other_sizes_are_refused():
    table = RowTable(SURVIVE, 1.0, _matrix(), np.ones(2), np.ones(2))
    two, three, four = np.ones(2), np.ones(3), np.ones(4)
    wrong = [
        lambda: RowTable(6, 0.0, _matrix(), two, two),
        lambda: RowTable(SURVIVE, 1.0, _matrix(), three, two),
        lambda: RowTable(SURVIVE, 1.0, np.ones((0, 3)), np.ones(0), np.ones(0)),
        lambda: table.gains(three, three),
        lambda: table.gains(two, four),
        lambda: table.add(1, two, three),
        lambda: table.add(3, two, three, _matrix()),
        lambda: table.add(1, two, three, _matrix()),
        lambda: table.sums(two, three, 1.0, three),
        lambda: table.chain(np.array([3]), two, np.ones(1)),
        lambda: table.chain(np.array([0]), two, two),
        lambda: table.values(np.array([0], dtype=np.int32), 1, two),
        lambda: table.extension(three, two, 0, 2),
        lambda: table.extension(three, three, 0, 3),
        lambda: table.gradient_steps(three, np.ones((1, 2), np.uint8), 1.0, 1, np.ones(3, np.int64), 0, 2),
        lambda: table.add_gradients(
            1, np.ones(2, np.uint8), np.ones((1, 3)), np.ones(1), 1.0, 1, np.ones((1, 3), np.int64)
        ),
    ]
    for call in wrong:
        with pytest.raises((ValueError, IndexError)):
            call()


def test_long_rows_are_put_in_order_too():
    weights = np.random.default_rng(1).integers(1, 40, size=(1, 500)) / 8.0
    falling = as_sparse(weights).falling
    assert falling.indices.tolist() == np.argsort(-weights[0], kind="stable").tolist()
