"""What every family must satisfy, on small random members of each, against the definition written out."""

from __future__ import annotations

import math
from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from .families import CLOSED, FAMILIES, Case

drawn = settings(max_examples=12, deadline=None, derandomize=True)
seeds = st.integers(0, 2**32 - 1)
# One person takes another road through the code than many.
sizes = st.sampled_from([(1, 1), (1, 5), (2, 3), (4, 5), (7, 4)])
every_family = pytest.mark.parametrize("family", FAMILIES)


def make(family: str, seed: int, size: tuple[int, int]) -> tuple[Case, np.random.Generator]:
    rng = np.random.default_rng(seed)
    return FAMILIES[family](rng, *size), rng


def subsets(n: int) -> list[list[int]]:
    return [list(c) for r in range(n + 1) for c in combinations(range(n), r)]


def mask(items: list[int], n: int) -> np.ndarray:
    x = np.zeros(n)
    x[items] = 1.0
    return x


@every_family
@drawn
@given(seed=seeds, size=sizes)
def test_values_and_gains_follow_the_definition(family: str, seed: int, size: tuple[int, int]) -> None:
    case, rng = make(family, seed, size)
    n = case.people.n_items
    for items in subsets(n):
        order = list(rng.permutation(items)) if items else []
        value = case.people.value(order)
        assert value == pytest.approx(case.whole(items), abs=1e-9)
        expected = [0.0 if j in items else case.whole([*items, j]) - value for j in range(n)]
        np.testing.assert_allclose(case.people.gains(order), expected, atol=1e-9)


@every_family
@drawn
@given(seed=seeds, size=sizes)
def test_submodular_and_monotone_where_claimed(family: str, seed: int, size: tuple[int, int]) -> None:
    case, _ = make(family, seed, size)
    n = case.people.n_items
    for items in subsets(n):
        small = case.people.gains(items)
        if case.people.monotone:
            assert small.min() >= 0
        for extra in set(range(n)) - set(items):
            large = case.people.gains([*items, extra])
            rest = [j for j in range(n) if j != extra and j not in items]
            assert np.all(large[rest] <= small[rest] + 1e-9)


@every_family
@drawn
@given(seed=seeds, size=sizes)
def test_a_growing_set_agrees_with_starting_again(family: str, seed: int, size: tuple[int, int]) -> None:
    case, rng = make(family, seed, size)
    state = case.people.start()
    for item in rng.permutation(case.people.n_items):
        added = state.gains()[item]
        assert state.add(int(item)) == pytest.approx(added, abs=1e-9)
        assert state.value == pytest.approx(case.people.value(state.items), abs=1e-9)
        np.testing.assert_allclose(state.gains(), case.people.gains(state.items), atol=1e-9)


@every_family
@drawn
@given(seed=seeds, size=sizes)
def test_one_person_a_slice_and_everybody_agree(family: str, seed: int, size: tuple[int, int]) -> None:
    case, rng = make(family, seed, size)
    people = case.people
    items = [int(j) for j in np.flatnonzero(rng.random(people.n_items) < 0.5)]
    if case.one is None:  # not an average: the same question, asked of fewer people
        assert people[:].value(items) == pytest.approx(people.value(items))
        assert len(people[1:]) == len(people) - 1
        return
    singles = list(people)
    assert len(singles) == len(people)
    for i, person in enumerate(singles):
        assert len(person) == 1
        assert person.value(items) == pytest.approx(case.one(i, items), abs=1e-9)
        np.testing.assert_allclose(person.gains(items), people[i].gains(items), atol=1e-12)
    picked = rng.integers(0, len(people), size=3)
    for part in (people[picked], people[list(map(int, picked))]):
        assert part.value(items) == pytest.approx(np.mean([case.one(i, items) for i in picked]), abs=1e-9)
    np.testing.assert_allclose(
        people.gains(items), np.mean([p.gains(items) for p in singles], axis=0), atol=1e-9
    )
    half = np.arange(len(people)) % 2 == 0
    assert people[half].value(items) == pytest.approx(people[::2].value(items), abs=1e-12)
    assert people[-1].value(items) == pytest.approx(singles[-1].value(items), abs=1e-12)


@every_family
@drawn
@given(seed=seeds, size=sizes)
def test_multilinear_is_the_expectation(family: str, seed: int, size: tuple[int, int]) -> None:
    case, rng = make(family, seed, size)
    n = case.people.n_items
    x = rng.random(n)
    x[rng.random(n) < 0.2] = 1.0
    expected = 0.0
    for items in subsets(n):
        chance = np.prod(np.where(mask(items, n) == 1, x, 1 - x))
        expected += chance * case.whole(items)
        assert case.people.multilinear(mask(items, n)) == pytest.approx(case.whole(items), abs=1e-9)
    assert case.people.multilinear(x) == pytest.approx(expected, abs=1e-9)
    # F is linear in each coordinate, so this difference is the derivative and not an approximation of it.
    for j in range(n):
        low, high = x.copy(), x.copy()
        low[j], high[j] = 0.0, 1.0
        slope = case.people.multilinear(high) - case.people.multilinear(low)
        assert case.people.multilinear_gradient(x)[j] == pytest.approx(slope, abs=1e-9)


@pytest.mark.parametrize("family", [f for f in FAMILIES if f not in CLOSED])
def test_sampled_extensions_stay_within_their_error(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("discreet.objectives.base.ENUMERABLE_ITEMS", 0)
    case, rng = make(family, 5, (3, 4))
    n = case.people.n_items
    x = rng.random(n)
    chances = {tuple(s): np.prod(np.where(mask(s, n) == 1, x, 1 - x)) for s in subsets(n)}
    exact = sum(p * case.whole(list(s)) for s, p in chances.items())
    spread = sum(p * (case.whole(list(s)) - exact) ** 2 for s, p in chances.items())
    samples = 800
    # 5.2 standard errors: a normal deviate beyond has probability 2e-7.
    error = 5.2 * math.sqrt(spread / samples)
    value = case.people.multilinear(x, rng=np.random.default_rng(1), samples=samples)
    assert 0.0 < abs(value - exact) < error < 0.5
    gradient = case.people.multilinear_gradient(x, rng=np.random.default_rng(2), samples=samples)
    for j in range(n):
        added = {s: case.whole(sorted({*s, j})) - case.whole(sorted({*s} - {j})) for s in chances}
        mean = sum(p * added[s] for s, p in chances.items())
        spread = sum(p * (added[s] - mean) ** 2 for s, p in chances.items())
        assert abs(gradient[j] - mean) < 5.2 * math.sqrt(spread / samples) + 1e-9
    # Without a generator a fresh one is used: whatever it draws, the mean lies among the values of f.
    values = [case.whole(s) for s in subsets(n)]
    assert min(values) - 1e-9 <= case.people.multilinear(x, samples=50) <= max(values) + 1e-9


@every_family
@drawn
@given(seed=seeds, size=sizes)
def test_lovasz_is_convex_agrees_on_sets_and_has_its_subgradient(
    family: str, seed: int, size: tuple[int, int]
) -> None:
    case, rng = make(family, seed, size)
    people, n = case.people, case.people.n_items
    for items in subsets(n):
        assert people.lovasz(mask(items, n)) == pytest.approx(case.whole(items), abs=1e-9)
    for _ in range(4):
        x, y = rng.random(n).round(1), rng.random(n).round(1)  # rounded, so that ties occur
        middle = people.lovasz((x + y) / 2)
        assert middle <= (people.lovasz(x) + people.lovasz(y)) / 2 + 1e-9
        assert people.lovasz(y) >= people.lovasz(x) + people.lovasz_gradient(x) @ (y - x) - 1e-9
    # f below a random threshold, on average: the integral of f({x > t}) over t.
    x = rng.random(n)
    ends = np.sort(np.concatenate(([0.0, 1.0], x)))
    levels = [
        (high - low) * case.whole([int(j) for j in np.flatnonzero(x > (low + high) / 2)])
        for low, high in pairwise(ends)
    ]
    assert people.lovasz(x) == pytest.approx(sum(levels), abs=1e-9)


@every_family
@drawn
@given(seed=seeds, size=sizes)
def test_total_curvature_is_its_definition(family: str, seed: int, size: tuple[int, int]) -> None:
    case, _ = make(family, seed, size)
    n = case.people.n_items
    if not case.people.monotone:
        with pytest.raises(ValueError, match="monotone"):
            case.people.total_curvature()
        return
    everything = list(range(n))
    ratios = [
        (case.whole(everything) - case.whole([i for i in everything if i != j])) / case.whole([j])
        for j in everything
        if case.whole([j]) > 1e-9
    ]
    expected = 1 - min(ratios) if ratios else 0.0
    assert case.people.total_curvature() == pytest.approx(expected, abs=1e-6)
