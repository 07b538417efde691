"""What one person can change, found by trying every person there is on a small ground set."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import combinations, product

import numpy as np
import pytest

from discreet.objectives import (
    Coverage,
    FacilityLocation,
    GraphCut,
    MutualInformation,
    SetFunction,
)
from discreet.objectives.mutual_information import _movement

SETS = {n: [frozenset(c) for r in range(n + 1) for c in combinations(range(n), r)] for n in (2, 3)}
NORMS = ("value", "coordinate", "l1", "l2", "range")


def functions(n: int, grid: tuple[float, ...], *, monotone: bool, normal: bool) -> Iterator[dict]:
    """Every submodular function on n items with values on the grid."""
    free = SETS[n][1:] if normal else SETS[n]
    for values in product(grid, repeat=len(free)):
        f = {frozenset(): 0.0, **dict(zip(free, values, strict=True))}
        rises = [(s, j, f[s | {j}] - f[s]) for s in SETS[n] for j in range(n) if j not in s]
        if monotone and any(r < 0 for _, _, r in rises):
            continue
        if all(
            r >= f[s | {i, j}] - f[s | {i}] for s, j, r in rises for i in range(n) if i not in s and i != j
        ):
            yield f


def answers(f: dict, n: int, most: int) -> tuple[np.ndarray, np.ndarray] | None:
    """Values on every set, gains and gradients there; None for somebody who touches too many items.

    The slope of the multilinear extension at any point is an average of those at the sets, so that no norm
    of it is larger than at some set.
    """
    gains = np.array([[f[s | {j}] - f[s] for j in range(n)] for s in SETS[n]])
    if np.count_nonzero(np.abs(gains).max(axis=0)) > most:
        return None
    gradients = [[f[s | {j}] - f[s - {j}] for j in range(n)] for s in SETS[n]]
    return np.array([f[s] for s in SETS[n]]), np.concatenate([gains, gradients])


def furthest(people: list[tuple[np.ndarray, np.ndarray]], neighbours: str) -> dict[str, float]:
    """The most that one person's exchange, or coming, moves each norm."""
    values = np.array([v for v, _ in people])
    gains = np.array([g for _, g in people])
    worst = dict.fromkeys(NORMS, 0.0)
    others = range(len(people)) if neighbours == "replace" else [None]
    for other in others:
        value_moves = values if other is None else values - values[other]
        moves = gains if other is None else gains - gains[other]
        found = {
            "value": np.abs(value_moves).max(),
            "coordinate": np.abs(moves).max(),
            "l1": np.abs(moves).sum(axis=2).max(),
            "l2": np.sqrt((moves**2).sum(axis=2)).max(),
            "range": (moves.max(axis=2) - moves.min(axis=2)).max(),
        }
        worst = {norm: max(worst[norm], float(found[norm])) for norm in NORMS}
    return worst


@pytest.mark.parametrize("neighbours", ["replace", "add_remove"])
@pytest.mark.parametrize(("n", "cap"), [(2, 1), (2, 2), (3, 1), (3, 2), (3, 3)])
def test_monotone_bounds_are_exactly_the_worst_person(n: int, cap: int, neighbours: str) -> None:
    everybody = functions(n, (0.0, 0.5, 1.0), monotone=True, normal=True)
    people = [a for f in everybody if (a := answers(f, n, cap)) is not None]
    worst = furthest(people, neighbours)
    five = Coverage(np.eye(5, n))  # the public number of people only divides
    for norm in NORMS:
        # Never below the worst person, and above by the tolerance of the bound only.
        assert worst[norm] <= 5 * five.sensitivity(neighbours, norm, cap) <= worst[norm] * (1 + 2e-9), norm
    if cap == n:
        assert 5 * five.sensitivity(neighbours, "l2") == pytest.approx(worst["l2"])


@pytest.mark.parametrize("neighbours", ["replace", "add_remove"])
@pytest.mark.parametrize(("n", "cap"), [(2, 2), (3, 2), (3, 3)])
def test_signed_bounds_hold_and_single_entries_are_tight(n: int, cap: int, neighbours: str) -> None:
    everybody = functions(n, (-1.0, 0.0, 1.0), monotone=False, normal=True)
    people = [a for f in everybody if (a := answers(f, n, cap)) is not None]
    worst = furthest(people, neighbours)
    cut = GraphCut(np.zeros((4, n, n)), bound=1)
    for norm in NORMS:
        claimed = 4 * cut.sensitivity(neighbours, norm, cap)
        assert claimed >= worst[norm] - 1e-12, norm
        assert claimed <= 1.5 * worst[norm] * (1 + 1e-8), norm
    for norm in ("value", "coordinate"):
        assert 4 * cut.sensitivity(neighbours, norm, cap) == pytest.approx(worst[norm]), norm


@pytest.mark.parametrize("neighbours", ["replace", "add_remove"])
def test_a_callable_that_does_not_start_at_zero(neighbours: str) -> None:
    people = [answers(f, 2, 2) for f in functions(2, (-1.0, 0.0, 1.0), monotone=False, normal=False)]
    worst = furthest([p for p in people if p is not None], neighbours)
    f = SetFunction(lambda _: 0.0, n_items=2, bound=1)
    for norm in NORMS:
        claimed = f.sensitivity(neighbours, norm)
        assert worst[norm] - 1e-12 <= claimed <= 1.5 * worst[norm] * (1 + 1e-8), norm


@pytest.mark.parametrize("norm", NORMS)
def test_a_person_with_a_row_in_each_of_unlike_parts(norm: str) -> None:
    """Every pair of rows is exchanged at once, in two people's locations and in one cut.

    Gains and values move by no more than is claimed, and by more than either part alone would account for.
    """
    rows = [np.array(r) for r in product((0.0, 1.0), repeat=2)]
    cuts = [
        GraphCut([[0, w], [w, 0]], modular=[a, b], bound=1.0)
        for w, a, b in product((0.0, 0.5), (-0.5, 0.25), (-0.5, 0.25))
    ]
    other, worst = np.array([0.5, 0.5]), 0.0
    for one, cut in product(rows, cuts):
        for two, turned in product(rows, cuts):
            here = FacilityLocation([one, other], bound=1.0) + 2.0 * cut
            there = FacilityLocation([two, other], bound=1.0) + 2.0 * turned
            for items in ([], [0], [1]):
                moved = here.gains(items) - there.gains(items)
                size = {
                    "value": abs(here.value(items) - there.value(items)),
                    "coordinate": np.abs(moved).max(),
                    "l1": np.abs(moved).sum(),
                    "l2": np.linalg.norm(moved),
                    "range": moved.max() - moved.min(),
                }[norm]
                worst = max(worst, float(size))
    claimed = here.sensitivity("replace", norm)
    assert worst <= claimed + 1e-12
    alone = [f * part.sensitivity("replace", norm) for f, part in here._parts]
    assert claimed == pytest.approx(sum(alone))
    assert worst > alone[0]  # the cut is not left out


def test_the_cap_must_be_true() -> None:
    people = Coverage([[1, 1, 1], [1, 0, 0]])
    with pytest.raises(ValueError, match=r"items_per_person=2.*touches more items; call cap_items\(2\)"):
        people.sensitivity(items_per_person=2)
    capped = people.cap_items(2, 0)
    assert capped.items_per_person == 2
    assert capped[0].items_per_person == 2
    # Known from the population itself once it has been capped: four entries could move, and there are three.
    assert capped.sensitivity(norm="l1") == pytest.approx(3 / 2)
    assert capped.sensitivity("add_remove", "l1") == pytest.approx(2 / 2)


# -- mutual information --------------------------------------------------------------------------------------


def tables(n_people: int, n_features: int, levels: int, classes: int) -> dict[tuple[int, ...], float]:
    """The information of every table of this size, by how often each kind of row occurs."""
    kinds = list(product(range(levels), repeat=n_features)), range(classes)
    rows = list(product(*kinds))

    def split(left: int, places: int) -> Iterator[tuple[int, ...]]:
        if places == 1:
            yield (left,)
            return
        for first in range(left + 1):
            for rest in split(left - first, places - 1):
                yield (first, *rest)

    found = {}
    for counts in split(n_people, len(rows)):
        picked = [r for r, c in zip(rows, counts, strict=True) for _ in range(c)]
        informed = MutualInformation([x for x, _ in picked], [y for _, y in picked], n_classes=classes)
        found[counts] = informed.value(range(n_features))
    return found


def worst_pair(smaller: dict, larger: dict) -> float:
    """The largest difference between a table and the same with one row more."""
    worst = 0.0
    for counts, value in smaller.items():
        for j in range(len(counts)):
            more = (*counts[:j], counts[j] + 1, *counts[j + 1 :])
            worst = max(worst, abs(larger[more] - value))
    return worst


def worst_exchange(found: dict) -> float:
    worst = 0.0
    for counts, value in found.items():
        for i, j in product(range(len(counts)), repeat=2):
            if i != j and counts[i] > 0:
                other = list(counts)
                other[i] -= 1
                other[j] += 1
                worst = max(worst, abs(found[tuple(other)] - value))
    return worst


@pytest.mark.parametrize(
    ("people", "features", "levels", "classes"),
    [
        (2, 1, 2, 2),
        (4, 1, 2, 2),
        (6, 1, 2, 2),
        (4, 1, 3, 2),
        (3, 1, 2, 3),
        (3, 1, 3, 3),
        (3, 2, 2, 2),
        (5, 2, 2, 2),
    ],
)
def test_information_moves_by_no_more_than_claimed(
    people: int, features: int, levels: int, classes: int
) -> None:
    found = tables(people, features, levels, classes)
    worst = worst_exchange(found)
    claimed = _movement(people, classes, features, "replace")
    assert worst <= claimed + 1e-12
    assert claimed <= 3 * worst
    if features == 1 and classes == 2:
        assert claimed == pytest.approx(worst)  # attained, so that half of it would not do
    fewer = tables(people - 1, features, levels, classes)
    gone = worst_pair(fewer, found)
    assert gone <= _movement(people, classes, features, "add_remove") + 1e-12


def test_information_states_its_own_sensitivity() -> None:
    informed = MutualInformation(np.zeros((100, 6), dtype=int), np.arange(100) % 2)
    one = informed.sensitivity(norm="value", set_size=1)
    assert one == pytest.approx(-(0.01 * math.log(0.01) + 0.99 * math.log(0.99)))
    assert informed.sensitivity(norm="value", set_size=3) > one
    assert informed.sensitivity(norm="range", set_size=1) == pytest.approx(2 * one)
    assert informed.sensitivity(norm="l2", set_size=1) == pytest.approx(2 * one * math.sqrt(6))
    assert informed.sensitivity(norm="value") <= informed.bound == pytest.approx(math.log(2))
