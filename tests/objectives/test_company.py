"""One person's numbers are the same in any company, bit for bit: for every family, layout and device.

A guarantee is about what one person moves. It holds for numbers as computed only if nobody else's numbers
move with them: neither with how many there are, nor with who they are, nor with where their rows lie.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

from discreet.constraints import Cardinality
from discreet.objectives import (
    BudgetAllocation,
    ConcaveOfLinear,
    ConcaveOverModular,
    Coverage,
    EmbeddedFacilityLocation,
    FacilityLocation,
    GraphCut,
    LogDeterminant,
    MatroidRank,
    Mixture,
    Population,
    ProbabilisticCoverage,
    QuadraticProgram,
    SaturatedCoverage,
    WeightedTopics,
)
from discreet.objectives.devices import NUMPY, device_of
from discreet.objectives.fixed_point import FixedPointGains, row_parts, step
from discreet.objectives.losses import Distance, Linear, Logistic, Squared
from discreet.offline.continuous import SummedGradient
from discreet.privacy import PublicRandomness
from tests.arrays import BACKENDS

ITEMS = 11  # of which all sets are too many to ask for
COUNTS = (1, 2, 3, 8, 15, 16, 33, 130)
PICKS = (4, 0, 7)


def _wide(array: np.ndarray, axis: int, offset: int = 0) -> np.ndarray:
    """The same numbers with gaps between them along an axis."""
    shape = list(array.shape)
    shape[axis] = 3 * shape[axis] + offset
    held = np.full(shape, 0.125)
    here = [slice(None)] * array.ndim
    here[axis] = slice(offset, offset + 3 * array.shape[axis], 3)
    held[tuple(here)] = array
    return held[tuple(here)]


def _moved(array: np.ndarray, offset: int) -> np.ndarray:
    """The same numbers some places behind where an allocation starts."""
    held = np.empty(array.size + offset)
    held[offset:] = array.ravel()
    return held[offset:].reshape(array.shape)


LAYOUTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "rows": np.ascontiguousarray,
    "columns": np.asfortranarray,
    "moved": lambda a: _moved(a, 1),
    "moved further": lambda a: _moved(a, 5),
    "gaps between rows": lambda a: _wide(a, 0),
    "gaps between columns": lambda a: _wide(a, 1, offset=1),
    "backwards": lambda a: np.ascontiguousarray(a[::-1, ::-1])[::-1, ::-1],
    "columns with gaps": lambda a: _wide(np.asfortranarray(a).T, 0).T,
}


def _kernel(items: int = ITEMS) -> np.ndarray:
    features = np.random.default_rng(3).normal(size=(items, 4))
    return features @ features.T / 4


def _cuts(weights: np.ndarray) -> GraphCut:
    """Arcs from each item to the next, weighted by the person, and a modular part of the person's."""
    people, items = weights.shape
    graphs = np.zeros((people, items, items))
    graphs[:, np.arange(items), (np.arange(items) + 1) % items] = weights
    return GraphCut(graphs, modular=-0.5 * weights, directed=True, bound=4.0 * items)


FAMILIES: dict[str, Callable[[Any], Population]] = {
    "coverage": lambda w: Coverage(w > 0.4),
    "probabilistic": ProbabilisticCoverage,
    "facility": FacilityLocation,
    "sqrt": lambda w: ConcaveOverModular(w, concave="sqrt", bound=3),
    "log": lambda w: ConcaveOverModular(w, concave="log", bound=3),
    "capped": lambda w: ConcaveOverModular(w, concave="capped", cap=1.7, bound=2),
    "custom": lambda w: ConcaveOverModular(w, concave=lambda t: 1 - np.exp(-t)),
    "saturated": lambda w: SaturatedCoverage(w, saturation=0.3, bound=3),
    "topics": lambda w: WeightedTopics(w, np.random.default_rng(2).random((ITEMS, ITEMS)), bound=ITEMS),
    "cut": _cuts,
    "log-determinant": lambda w: LogDeterminant(_kernel(), w, bound=30),
    "matroid rank": lambda w: MatroidRank(Cardinality(2), w, bound=2),
    "embedded": lambda w: EmbeddedFacilityLocation(w, _kernel(), normalize=True, bound=1),
    "mixture": lambda w: Mixture([(0.3, SaturatedCoverage(w, bound=3)), (1.7, FacilityLocation(w))]),
    "mixture with cuts": lambda w: Mixture([(0.3, LogDeterminant(_kernel(), w, bound=30)), (1.7, _cuts(w))]),
}
ON_DEVICES: dict[str, Callable[..., Population]] = {
    "probabilistic": ProbabilisticCoverage.from_array,
    "facility": FacilityLocation.from_array,
    "sqrt": lambda a, **o: ConcaveOverModular.from_array(a, concave="sqrt", bound=3, **o),
    "log": lambda a, **o: ConcaveOverModular.from_array(a, concave="log", bound=3, **o),
    "capped": lambda a, **o: ConcaveOverModular.from_array(a, concave="capped", cap=1.7, bound=2, **o),
    "log-determinant": lambda a, **o: LogDeterminant(_kernel(), a, bound=30, **o),
    "embedded": lambda a, **o: EmbeddedFacilityLocation(a, _kernel(), normalize=True, **o),
}


def _crowd(count: int, width: int = ITEMS) -> np.ndarray:
    return np.random.default_rng(11).random((count, width))


def _own(people: Population, person: int) -> bytes:
    """What learners are told by one of these people."""
    one, chosen, x = people[person], np.array(PICKS), np.linspace(0.1, 0.9, ITEMS)
    rng = np.random.default_rng(5)
    found = [
        one.gains([]),
        one.gains(PICKS),
        one._chain(chosen),
        one.contributions(PICKS),
        one.multilinear_gradient(x, rng=rng, samples=5),
        one.lovasz_gradient(x),
        [one.value(PICKS)],
    ]
    return np.concatenate([np.asarray(part, dtype=np.float64) for part in found]).tobytes()


def _scores(people: Population, bound: float, unit: float) -> np.ndarray:
    """Everything that selectors make of these people: sums of whole steps, which add up exactly."""
    growing, found = FixedPointGains.over(people, bound, unit), []
    for item in PICKS:
        found.append(growing.scores())
        found.append([growing.add(item)])
    found.append(growing.scores())
    if people.monotone:
        gradient = SummedGradient(people, bound, 3, PublicRandomness.seeded(3), 1 << 10)
        found.append(gradient.scores(gradient.at(np.linspace(0.0, 1.0, ITEMS))))
    return np.concatenate([np.asarray(part, dtype=np.float64) for part in found])


@cache
def _alone(family: str, person: int) -> bytes:
    return _own(FAMILIES[family](_crowd(max(COUNTS))[person : person + 1]), 0)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("family", FAMILIES)
def test_what_one_person_says_is_the_same_in_any_company(family, layout) -> None:
    crowd = _crowd(max(COUNTS))
    for count in COUNTS[1:] if layout == "rows" else (2, 16, 33):
        together = FAMILIES[family](LAYOUTS[layout](crowd[:count]))
        for i in (0, 1):
            assert _own(together, i) == _alone(family, i), (count, i)


@cache
def _scores_of(family: str, start: int, stop: int) -> np.ndarray:
    """Of some of the crowd, in rows."""
    make, crowd = FAMILIES[family], _crowd(max(COUNTS))
    bound = make(crowd[:1]).bound
    return _scores(make(crowd[start:stop]), bound, step(bound, 1 << 10))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("family", [name for name in FAMILIES if name != "topics"])
def test_a_newcomer_adds_their_own_part_to_every_score(family, layout) -> None:
    """Topics are rounded once for everybody: `tests/stored/test_topics.py` has their bound."""
    crowd, lay = _crowd(max(COUNTS)), LAYOUTS[layout]
    make = FAMILIES[family]
    bound = make(crowd[:1]).bound
    unit = step(bound, 1 << 10)
    newcomer = _scores_of(family, max(COUNTS) - 1, max(COUNTS))
    for count in COUNTS[:-1] if layout == "rows" else (1, 16, 33):
        without = _scores_of(family, 0, count)
        within = _scores(make(lay(np.vstack((crowd[:count], crowd[-1:])))), bound, unit)
        first = _scores(make(lay(np.vstack((crowd[-1:], crowd[:count])))), bound, unit)
        assert ((within - without) == newcomer).all(), count
        assert (first == within).all(), count


@pytest.mark.parametrize("backend", BACKENDS.values(), ids=BACKENDS)
@pytest.mark.parametrize("family", ON_DEVICES)
def test_a_newcomer_adds_their_own_part_on_every_device(family, backend) -> None:
    make, device = ON_DEVICES[family], device_of(backend)
    layouts = LAYOUTS if device is NUMPY else {"rows": LAYOUTS["rows"]}

    for tile, counts in ((None, (1, 16)), ((5, 4) if family == "embedded" else 5, (2, 15))):

        def people(rows: np.ndarray, tile: Any = tile) -> Population:
            given = rows if device is NUMPY else device.array(rows, "float64")
            return make(given, backend=backend, tile=tile)

        crowd = _crowd(40)
        bound = people(crowd[:1]).bound
        unit = step(bound, 1 << 10)
        newcomer = _scores(people(crowd[-1:]), bound, unit)
        for count in counts:
            without = _scores(people(crowd[:count]), bound, unit)
            for lay in layouts.values() if count > 2 else (LAYOUTS["rows"],):
                within = _scores(people(lay(np.vstack((crowd[:count], crowd[-1:])))), bound, unit)
                assert ((within - without) == newcomer).all(), count


def test_every_family_here_is_summed_up_in_whole_steps_or_asked_one_by_one() -> None:
    """So that scores of selectors are what this file looks at."""
    for family, make in FAMILIES.items():
        people = make(_crowd(3))
        assert row_parts(people) is not None or people.one_by_one, family


def _unlucky(width: int) -> list[tuple[float, float]]:
    """Entries and scales for which rounding to bytes tells the last digit of a vector's length."""
    rng, found = np.random.default_rng(1), []
    for entry in rng.random(20):
        length = math.sqrt(math.fsum([entry * entry] * width))
        found += [(float(entry), 256.0 * float(np.nextafter(entry / length, way))) for way in (0.0, 1.0)]
        found.append((float(entry), 256.0 * entry / length))
    return found


@pytest.mark.parametrize("backend", BACKENDS.values(), ids=BACKENDS)
@pytest.mark.parametrize("width", [9, 130, 1000])
def test_normalized_bytes_are_the_same_in_any_company(backend, width) -> None:
    device = device_of(backend)
    items = np.eye(1, width)
    layouts = LAYOUTS if device is NUMPY else {"rows": LAYOUTS["rows"]}

    def kept(rows: np.ndarray, scale: float) -> np.ndarray:
        made = rows if device is NUMPY else device.array(rows, "float64")
        people = EmbeddedFacilityLocation(made, items, scale=scale, normalize=True, backend=backend)
        return device.numpy(people._rows.people)

    for entry, scale in _unlucky(width):
        person = np.full((1, width), entry)
        alone = kept(person, scale)
        for count in (1, 2, 15, 16):
            others = np.random.default_rng(count).normal(size=(count, width))
            for name, lay in layouts.items() if count == 15 else [("rows", LAYOUTS["rows"])]:
                together = kept(lay(np.vstack((others, person))), scale)
                assert (together[-1] == alone[0]).all(), (name, count)


LOSSES: dict[str, Callable[[np.ndarray], Any]] = {
    "logistic": lambda rows: Logistic(rows, np.ones(len(rows)), clip=True),
    "squared": lambda rows: Squared(rows, np.full(len(rows), 0.3), target_bound=1.0, clip=True),
    "linear": lambda rows: Linear(rows, row_norm=1.0, clip=True),
    "distance": lambda rows: Distance(rows, clip=True),
}


@pytest.mark.parametrize("width", [1, 3, 40, 1000])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("family", LOSSES)
def test_shortened_rows_are_the_same_in_any_company(family, layout, width) -> None:
    crowd = _crowd(max(COUNTS), width)
    point = np.random.default_rng(1).normal(size=width)

    def own(losses: Any, person: int) -> bytes:
        cost, gradient = losses.at(person, point)
        one = losses[person]
        return (
            losses._rows[person].tobytes() + gradient.tobytes() + np.array([cost, one.value(point)]).tobytes()
        )

    alone = [own(LOSSES[family](crowd[i : i + 1]), 0) for i in (0, 1)]
    for count in COUNTS[1:]:
        together = LOSSES[family](LAYOUTS[layout](crowd[:count]))
        assert [own(together, i) for i in (0, 1)] == alone, count


POINTS: dict[str, Callable[[np.ndarray], Any]] = {
    "saturating": lambda w: ConcaveOfLinear(w, total=len(w[0])),
    "log": lambda w: ConcaveOfLinear(w, "log", total=len(w[0])),
    "ratio": lambda w: ConcaveOfLinear(w, "ratio", total=len(w[0])),
    "budget": lambda w: BudgetAllocation(0.5 * w, total=len(w[0])),
    "quadratic": lambda w: QuadraticProgram(
        -np.einsum("pi,pj->pij", w, w) / len(w[0]), 2 * w, bound=2.0 * len(w[0]), gradient_bound=9.0
    ),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("family", POINTS)
def test_functions_of_points_are_the_same_in_any_company(family, layout) -> None:
    """Alone among people whose functions are 0 here, too: their average, times a power of two, is exact."""
    crowd, x = _crowd(max(COUNTS)), np.linspace(0.1, 0.9, ITEMS)

    def own(people: Any) -> bytes:
        return np.array([people.value(x), *people.gradient(x)]).tobytes()

    alone = own(POINTS[family](crowd[:1]))
    for count in COUNTS[1:]:
        assert own(POINTS[family](LAYOUTS[layout](crowd[:count]))[0]) == alone, count
    for count in (2, 4, 16, 64):
        among = np.zeros((count, ITEMS))
        among[count // 2] = crowd[0]
        together = POINTS[family](LAYOUTS[layout](among))
        found = np.array([together.value(x), *together.gradient(x)]) * count
        assert found.tobytes() == alone, count


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("family", FAMILIES)
def test_averages_hold_the_same_numbers_in_any_company(family, layout) -> None:
    """Among people who value nothing, whose zeros change no sum; division by a power of two is exact."""
    crowd, x = _crowd(1), np.linspace(0.1, 0.9, ITEMS)

    def numbers(people: Population) -> np.ndarray:
        rng = np.random.default_rng(5)
        found = [people.gains([]), people.gains(PICKS), people._chain(np.array(PICKS))]
        found += [people.contributions(PICKS), people.multilinear_gradient(x, rng=rng, samples=5)]
        return np.concatenate([*found, [people.value(PICKS)]])

    alone = numbers(FAMILIES[family](crowd))
    for count in (2, 4, 16, 64):
        among = np.zeros((count, ITEMS))
        among[count // 2] = crowd[0]
        together = FAMILIES[family](LAYOUTS[layout](among))
        np.testing.assert_array_equal(numbers(together) * count, alone, err_msg=str(count))


def test_a_function_of_ones_own_is_asked_for_one_person_at_a_time() -> None:
    """What it makes of an array may depend on all of it."""
    sizes: list[int] = []

    def concave(totals: np.ndarray) -> np.ndarray:
        sizes.append(np.size(totals))
        return 1 - np.exp(-totals)

    people = ConcaveOverModular(_crowd(50, 3), concave=concave)
    sizes.clear()
    state = people.start()
    state.add(1)
    people.value([0, 1]), people.gains([0]), people.contributions([0, 1]), state.gains()
    assert max(sizes) <= 7  # totals with and without each of three items, and of all
