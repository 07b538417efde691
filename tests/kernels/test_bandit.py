"""What people add to sums by what they are shown, beside plain Python that does the same."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest

from discreet.kernels.rows import RowTable
from discreet.kernels.selection import add_lists, add_set, subtract_outer

from .test_selection import CASES, Case

UNITS = 2.0**20, 1 << 19  # nobody adds more than half of 1


def stream(case, first, count):
    return SimpleNamespace(within_limit=case.within_limit[first : first + count], rewards=np.empty(count))


def steps(gains):
    """Gains in whole units, one after the other, of which nobody adds more than the most."""
    spare, found = UNITS[1], []
    for one in gains:
        found.append(min(math.floor(one * UNITS[0]), spare))
        spare -= found[-1]
    return found


@pytest.mark.parametrize(("kind", "n_items", "k"), CASES)
def test_lists_are_summed_by_item(kind, n_items, k):
    case, rng, first, count = Case(kind, n_items, k), np.random.default_rng(k), 2, 6
    lists = np.array([rng.permutation(n_items)[:k] for _ in range(count)], dtype=np.int32)
    sums, shows, here = np.ones(n_items, dtype=np.int64), np.ones(n_items, dtype=np.int64), stream(case, 2, 6)
    add_lists(here, case.people, first, lists, UNITS, sums, shows)
    expected = np.ones(n_items, dtype=np.int64)
    for t, shown in enumerate(lists.tolist()):
        gains = [
            case.gain(first + t, shown[:i], item) if case.weights[first + t, item] else 0.0
            for i, item in enumerate(shown)
        ]
        assert here.rewards[t] == pytest.approx(sum(gains), rel=1e-12, abs=1e-300)
        if here.within_limit[t]:
            expected[shown] += steps(gains)
    assert sums.tolist() == expected.tolist()
    assert shows.tolist() == (1 + np.bincount(lists.ravel(), minlength=n_items)).tolist()


@pytest.mark.parametrize("by_slot", [False, True])
@pytest.mark.parametrize(("kind", "n_items", "k"), CASES)
def test_a_set_is_summed_as_a_whole_or_by_slot(kind, n_items, k, by_slot):
    case, first, count = Case(kind, n_items, k), 1, 7
    here, shown = stream(case, first, count), case.shown.tolist()
    sums = np.ones(k if by_slot else 1, dtype=np.int64)
    add_set(here, case.people, first, case.shown, UNITS, by_slot, sums)
    expected = np.ones_like(sums)
    for t in range(count):
        row = first + t
        gains = [
            case.gain(row, shown[:i], item) if case.weights[row, item] else 0.0
            for i, item in enumerate(shown)
        ]
        assert here.rewards[t] == pytest.approx(sum(gains), rel=1e-12, abs=1e-300)
        if here.within_limit[t]:
            expected += steps(gains) if by_slot else min(math.floor(here.rewards[t] * UNITS[0]), UNITS[1])
    assert sums.tolist() == expected.tolist()


def test_what_leads_outside_of_the_tables_is_refused():
    case = Case(0, 5, 3)
    lists, sums = case.shown[None, :].repeat(2, axis=0), np.zeros(5, dtype=np.int64)
    for first in (-1, 8):
        with pytest.raises(ValueError, match="there are 9 people"):
            add_lists(stream(case, 0, 2), case.people, first, lists, UNITS, sums, sums)
        with pytest.raises(ValueError, match="there are 9 people"):
            add_set(stream(case, 0, 2), case.people, first, case.shown, UNITS, False, sums[:1])
    for wrong in (np.full_like(lists, 5), np.full_like(lists, -1)):
        with pytest.raises(IndexError, match="is not one of 5"):
            add_lists(stream(case, 0, 2), case.people, 0, wrong, UNITS, sums, sums)
        with pytest.raises(IndexError, match="is not one of 5"):
            add_set(stream(case, 0, 2), case.people, 0, wrong[0], UNITS, False, sums[:1])
    with pytest.raises(IndexError, match="is not one of 1"):
        add_lists(stream(case, 0, 2), case.people, 0, lists, UNITS, sums[:1], sums)
    uneven = SimpleNamespace(within_limit=case.within_limit[:1], rewards=np.empty(2))
    for few, wrong in ((stream(case, 0, 3), lists), (uneven, lists), (stream(case, 0, 2), lists[:, :0])):
        with pytest.raises(ValueError, match="everybody has a list"):
            add_lists(few, case.people, 0, wrong.copy(), UNITS, sums, sums)
    two, shown = stream(case, 0, 2), case.shown
    for few, items, by_slot in ((two, shown, True), (two, shown[:0], False), (uneven, shown, False)):
        with pytest.raises(ValueError, match="a sum for the set or for each of its items"):
            add_set(few, case.people, 0, items, UNITS, by_slot, sums if by_slot else sums[:1])
    dense = RowTable(0, 0.0, case.weights, np.ones(9), case.cap)
    with pytest.raises(ValueError, match="people are compressed rows"):
        add_set(stream(case, 0, 2), dense, 0, case.shown, UNITS, False, sums[:1])


def test_outer_products_are_taken_as_numpy_would():
    rng = np.random.default_rng(0)
    matrix, column, row = (rng.random(size, dtype=np.float32) for size in ((9, 21), 9, 21))
    expected = matrix - column[:, None] * row
    subtract_outer(matrix, column, row)
    assert matrix.tobytes() == expected.tobytes()
    for wrong in ((column[1:], row), (column, row[1:])):
        with pytest.raises(ValueError, match="of the matrix's size"):
            subtract_outer(matrix, *wrong)
