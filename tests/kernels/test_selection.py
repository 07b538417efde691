"""Gains of people in whole units, beside plain Python that does the same from the definitions."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest

from discreet.kernels import arrays, rows
from discreet.kernels.prefix_sums import FactorizedPrefix
from discreet.kernels.rows import RowTable
from discreet.kernels.selection import (
    FollowedRounds,
    OrderedRounds,
    UnitGains,
    add_leave_one_out,
    norm_weight,
    row_weights,
)
from discreet.kernels.softmax import draw_ordered, follows_first
from discreet.kernels.stores import Scan
from discreet.objectives.rows import as_sparse
from discreet.privacy.prefix_sum import factorization
from tests.objectives.test_row_loops import CAP, COVER, KINDS, SURVIVE, gain, step

GRID = (3_000_000_000, -60, 3_000_000_000 * 2.0**-60)


class Case:
    """Some people as rows, a set, and whom the limit leaves out."""

    def __init__(self, kind, n_items, k, count=9, seed=0):
        rng = np.random.default_rng([kind, n_items, k, seed])
        self.kind, self.fresh, self.n_items, self.k = kind, float(kind == SURVIVE), n_items, k
        weights = rng.random((count, n_items)) * (rng.random((count, n_items)) < 0.4)
        self.weights = (weights > 0.0).astype(float) if kind == COVER else weights
        self.cap = rng.random(count) if kind == CAP else np.full(count, math.inf)
        about = (as_sparse(self.weights).view, np.ones(count), self.cap)
        self.people = RowTable(kind, self.fresh, *about)
        self.shown = rng.permutation(n_items)[:k].astype(np.int32)
        self.within_limit = rng.random(count) < 0.8

    def items(self, row):
        return [item for item in range(self.n_items) if self.weights[row, item]]

    def state(self, row, chosen):
        """The state of a row once these items are chosen, in this order."""
        state = self.fresh
        for item in chosen:
            if self.weights[row, item]:
                state = step(self.kind, state, self.weights[row, item])
        return state

    def gain(self, row, chosen, item):
        return gain(self.kind, self.state(row, chosen), self.weights[row, item], self.cap[row])

    def value(self, row, chosen):
        return sum(
            self.gain(row, chosen[:i], item) for i, item in enumerate(chosen) if self.weights[row, item]
        )

    def weight(self, row, bound):
        squares = 0.0
        for item in self.items(row):
            squares += min(self.gain(row, [], item) / bound, 1.0) ** 2
        return math.floor(2.0**28 * (1.0 - 2.0**-20) / max(1.0, math.sqrt(squares))) / 2.0**28


CASES = [(kind, *size) for kind in KINDS for size in ((5, 5), (12, 3), (40, 4))]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("kind", "n_items", "k"), CASES)
def test_gains_along_a_set(kind, n_items, k, weighted):
    case, units, most, bound = Case(kind, n_items, k), 2.0**31, 3 << 29, 0.7
    for first, within_limit in ((0, case.within_limit), (2, case.within_limit[2:3])):  # many, and one
        totals = np.ones((k, n_items), dtype=np.int64)
        UnitGains(bound, weighted, units, most).add(case.people, first, within_limit, case.shown, totals)
        expected = np.ones((k, n_items), dtype=np.int64)
        shown = case.shown.tolist()
        for row in np.flatnonzero(within_limit) + first:
            scale = units * case.weight(row, bound) if weighted else units
            for i in range(k):
                for item in case.items(row):
                    if item not in shown[:i]:
                        expected[i, item] += min(most, math.floor(case.gain(row, shown[:i], item) * scale))
        assert np.array_equal(totals, expected)


@pytest.mark.parametrize(("kind", "n_items", "k"), CASES)
def test_gains_beside_a_set(kind, n_items, k):
    case, units, bound = Case(kind, n_items, k), 2.0**28, 0.7
    totals = np.zeros(n_items, dtype=np.int64)
    add_leave_one_out(case.people, 0, case.within_limit, case.shown, bound, units, totals)
    expected, shown = np.zeros(n_items), sorted(case.shown.tolist())
    for row in np.flatnonzero(case.within_limit):
        for item in case.items(row):
            alone = min(case.gain(row, [], item) / bound, 1.0)
            added = min(case.gain(row, [one for one in shown if one != item], item) / bound, alone)
            expected[item] += math.floor(max(0.0, added) * units * case.weight(row, bound))
    # States are joined in another order: off by a unit where a sum of weights is rounded otherwise.
    assert np.abs(totals - expected).max() <= case.within_limit.sum()


@pytest.mark.parametrize(("kind", "n_items", "k"), CASES)
def test_weights_of_people(kind, n_items, k):
    case = Case(kind, n_items, k)
    weights = np.empty(len(case.cap))
    row_weights(case.people, 0.7, weights)
    assert weights.tolist() == [case.weight(row, 0.7) for row in range(weights.size)]
    assert norm_weight(0.0) == norm_weight(1.0) < 1.0
    assert norm_weight(4.0) * 2.0 <= 1.0


def a_sum(size):
    found = factorization("sqrt", 500)
    shape = (found.decays.size, size)
    prefix = np.zeros(size)
    return FactorizedPrefix(GRID, prefix, found.decays, found.weights, *np.zeros((2, *shape))), prefix


@pytest.mark.parametrize(("every", "passed"), [(1, 0), (4, 0), (4, 3), (4, 4), (50, 7)])
@pytest.mark.parametrize("n_items", [6, 60])
def test_rounds_of_experts_are_the_parts_one_by_one(n_items, every, passed):
    case, k, count, first = Case(SURVIVE, n_items, 3, count=25), 3, 20, 5
    rng, how = np.random.default_rng(every), UnitGains(1.0, True, 2.0**31, 1 << 31)
    draws = len(range(every - passed, count, every))
    rates, uniforms = 0.1 + rng.random(draws), rng.random((draws, k))
    noise = np.rint(rng.normal(0.0, 2.0**32, (draws, k * n_items))).astype(np.int64)
    within_limit = rng.random(count) < 0.8
    pending = rng.integers(0, 1 << 31, (k, n_items)) * bool(passed)
    rewards, selections = np.empty(count), np.empty((count, k), dtype=np.int32)
    stream = SimpleNamespace(within_limit=within_limit, rewards=rewards, selections=selections)
    total, prefix = a_sum(k * n_items)
    total.give(noise)
    shown, mine = case.shown.copy(), pending.copy()
    OrderedRounds(total, how, mine, every).run(
        stream, first, case.people, case.people, passed, rates, uniforms, shown
    )
    twin, known = a_sum(k * n_items)
    set_, gathered, done = case.shown.copy(), pending.copy(), 0
    for t in range(count):
        if t in range(every - passed, count, every):
            sums = twin.encode(gathered.ravel() / how.units)
            twin.decode(sums + noise[done])
            gathered[:] = 0
            set_ = draw_ordered(known.reshape(k, n_items), rates[done], uniforms[done])
            done += 1
        assert selections[t].tolist() == set_.tolist()
        assert rewards[t] == case.value(first + t, set_.tolist())
        how.add(case.people, first + t, within_limit[t : t + 1], set_, gathered)
    assert np.array_equal(mine, gathered)
    assert np.array_equal(prefix, known)
    assert shown.tolist() == set_.tolist()


@pytest.mark.parametrize(("every", "passed"), [(1, 0), (4, 3), (4, 4), (50, 7)])
def test_following_one_of_two_is_the_parts_one_by_one(every, passed):
    rng, count = np.random.default_rng(every), 30
    differences, draws = rng.integers(-(2**31), 2**31, count), len(range(every - passed, count, every))
    uniforms = rng.random(draws)
    noise = np.rint(rng.normal(0.0, 2.0**32, (draws, 1))).astype(np.int64)
    pending, follows = np.array([7 << 28]), np.zeros(count, dtype=np.bool_)
    total, prefix = a_sum(1)
    total.give(noise)
    FollowedRounds(total, pending, 2.0**30, 0.3).run(differences, every, passed, 0.9, uniforms, follows)
    twin, known = a_sum(1)
    follow, gathered, done = False, 7 << 28, 0
    for t in range(count):
        if t in range(every - passed, count, every):
            twin.decode(twin.encode(np.array([gathered / 2.0**30])) + noise[done])
            gathered, done = 0, done + 1
            follow = follows_first(0.9 * known[0], 0.3, uniforms[done - 1])
        assert follows[t] == follow
        gathered += int(differences[t])
    assert pending.tolist() == [gathered]
    assert np.array_equal(prefix, known)


def test_what_does_not_fit_is_refused():
    case = Case(SURVIVE, 6, 2, count=4)
    everybody, shown, totals = np.ones(4, dtype=np.bool_), case.shown, np.zeros((2, 6), dtype=np.int64)
    how = UnitGains(1.0, False, 2.0**31, 1 << 31)
    beyond = np.array([0, 6], dtype=np.int32)
    for first, items, sums in (
        (1, shown, totals),
        (-1, shown, totals),
        (0, beyond, totals),
        (0, shown, totals[:1]),
    ):
        with pytest.raises((ValueError, IndexError)):
            how.add(case.people, first, everybody, items, sums)
    for first, items, sums in ((1, shown, totals[0]), (0, beyond, totals[0]), (0, shown, totals[0, :5])):
        with pytest.raises((ValueError, IndexError)):
            add_leave_one_out(case.people, first, everybody, items, 1.0, 2.0**28, sums)
    with pytest.raises(ValueError, match="people"):
        row_weights(case.people, 1.0, np.empty(5))
    dense = RowTable(SURVIVE, 1.0, case.weights, np.ones(4), case.cap)
    with pytest.raises(ValueError, match="compressed"):
        how.add(dense, 0, everybody, shown, totals)
    rewards, selections = np.empty(4), np.empty((4, 2), dtype=np.int32)
    stream = SimpleNamespace(within_limit=everybody, rewards=rewards, selections=selections)
    total, _ = a_sum(12)
    with pytest.raises(ValueError, match="coordinate"):
        OrderedRounds(a_sum(11)[0], how, totals, 1)
    rounds, rates, uniforms = OrderedRounds(total, how, totals, 1), np.ones(3), np.ones((3, 2))
    good = [stream, 0, case.people, case.people, 0, rates, uniforms, shown.copy()]
    with pytest.raises(ValueError, match="row of noise"):
        rounds.run(*good)
    total.give(np.zeros((3, 12), dtype=np.int64))
    wider, wide = Case(SURVIVE, 7, 2, count=4).people, np.zeros((4, 3), np.int32)
    changes = [{"within_limit": everybody[:3]}, {"selections": selections[:3]}, {"selections": wide}]
    changes.append({name: one[:0] for name, one in vars(stream).items()})
    for place, other in (
        *((0, SimpleNamespace(**vars(stream) | changed)) for changed in changes),
        *((1, 1), (2, wider), (3, wider), (4, 2), (4, -1), (5, np.ones(2)), (6, np.ones((3, 1)))),
        *((7, beyond), (7, shown[:1])),
    ):
        with pytest.raises((ValueError, IndexError)):
            rounds.run(*good[:place], other, *good[place + 1 :])
    with pytest.raises(ValueError, match="2 rates are not enough for 4 rounds"):
        rounds.run(*good[:5], np.ones(2), np.ones((2, 2)), good[7])
    rounds.run(*good)
    with pytest.raises(ValueError, match="one number"):
        FollowedRounds(total, np.zeros(1, dtype=np.int64), 1.0, 1.0)
    for count, every, passed, follows in (
        (2, 4, 1, 3),
        (4, 4, 1, 3),
        (0, 4, 1, 0),
        (3, 4, 5, 3),
        (3, 0, 0, 3),
    ):
        one = FollowedRounds(a_sum(1)[0], np.zeros(1, dtype=np.int64), 1.0, 1.0)
        with pytest.raises(ValueError, match="each round has a difference, and batches have rounds"):
            one.run(np.zeros(count, np.int64), every, passed, 1.0, np.ones(3), np.zeros(follows, np.bool_))
    with pytest.raises(ValueError, match="1 draws are not enough for 3 rounds"):
        one.run(np.zeros(3, np.int64), 1, 0, 1.0, np.ones(1), np.zeros(3, np.bool_))


@pytest.mark.parametrize("kind", [np.uint16, np.uint32])
def test_a_bucket_with_items_beyond_the_catalogue_is_refused(kind):
    """Two people who are covered by items 0 and 1, and by 1 and 2: sums have an entry for each known item."""
    bucket = (
        np.array([0, 2, 4]),
        np.array([0, 1, 1, 2], dtype=kind),
        np.zeros(0),
        np.zeros(2, np.uint64),
        0,
        2,
    )
    for n_items in (3, 2):
        scan = Scan(0, n_items, (), (0.0, 1.0, 0.0, 1.0, 8.0, 8.0), (np.zeros(0, np.uint64), 0))
        if n_items == 3:
            assert scan.sums(*bucket).tolist() == [8, 16, 8]
            assert scan.change(*bucket, 1).tolist() == [-8, -16, -8]
            continue
        for asked in (scan.sums, lambda *rows: scan.change(*rows, 1)):  # noqa: B023
            with pytest.raises(ValueError, match="items that are not in the catalogue"):
                asked(*bucket)


@pytest.mark.parametrize("short", ["state", "left", "cap", "out"])
def test_sums_of_arrays_refuse_what_is_of_another_length(short):
    """Nothing is read beyond the end of an array."""
    sizes = {"state": 4, "left": 4, "cap": 4, "out": 3} | {short: 2}
    numbers = [np.ones(sizes[name]) for name in ("state", "left", "cap")]
    with pytest.raises(ValueError, match="for each row, and a sum for each column"):
        arrays.gain_sums(rows.SQRT, np.ones((4, 3)), numbers, 1.0, 8.0, None, np.zeros(sizes["out"]))


@pytest.mark.parametrize("wrong", ["low", "span", "out", "shift"])
def test_steps_of_arrays_refuse_what_does_not_fit(wrong):
    sizes = {"low": 4, "span": 4, "out": 3} | ({} if wrong == "shift" else {wrong: 2})
    low, span, out = (np.zeros(sizes[name], dtype=np.int64) for name in ("low", "span", "out"))
    for shift in (-1, 63) if wrong == "shift" else (3,):
        with pytest.raises(ValueError, match="a range for each row, and a sum for each column"):
            arrays.add_steps(np.ones((4, 3)), low, span, 1, shift, out)
