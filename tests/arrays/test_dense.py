"""People in dense arrays on a device: the scores of the same people in memory, in whole steps."""

from __future__ import annotations

import array_api_strict
import numpy as np
import pytest

import discreet as dc
from discreet.core.checks import DataError
from discreet.kernels import arrays as kernels
from discreet.objectives import (
    ConcaveOverModular,
    Coverage,
    FacilityLocation,
    LogDeterminant,
    ProbabilisticCoverage,
    SaturatedCoverage,
    devices,
)
from discreet.objectives.base import random_rows
from discreet.objectives.fixed_point import FixedPointGains, step
from discreet.offline import ContinuousGreedy, PrivateGreedy

from . import BACKENDS

N_PEOPLE, N_ITEMS = 40, 9
CAPS = np.linspace(0.2, 0.9, N_PEOPLE)
FAMILIES = {
    "facility": (FacilityLocation, {}),
    "probabilistic": (ProbabilisticCoverage, {}),
    "sqrt": (ConcaveOverModular, {"bound": 2.5}),
    "log": (ConcaveOverModular, {"concave": "log", "bound": 2.5}),
    "capped": (ConcaveOverModular, {"concave": "capped", "cap": CAPS}),
}


def matrix(seed: int = 1) -> np.ndarray:
    rng = np.random.default_rng(seed)
    weights = (rng.random((N_PEOPLE, N_ITEMS)) < 0.7) * rng.random((N_PEOPLE, N_ITEMS)) * 0.5
    weights[0] = 0.0  # somebody without any item
    return weights


def kernel() -> np.ndarray:
    points = np.random.default_rng(3).normal(size=(N_ITEMS, 4))
    return points @ points.T


def vectors(people, unit: float, picks=(3, 7, 0)) -> np.ndarray:
    """Every score vector, and what each pick added, in steps."""
    growing, found = FixedPointGains.over(people, people.bound, unit), []
    for item in picks:
        found += [*growing.scores(), growing.add(item)]
    return np.array([*found, *growing.scores()]) / unit


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", FAMILIES)
def test_scores_are_those_of_the_same_people_in_memory(backend, name):
    family, options = FAMILIES[name]
    weights = matrix().astype(np.float32)
    memory = family(weights, **options)
    made = family.from_array(weights, backend=BACKENDS[backend], tile=25, **options)
    unit = step(made.bound, N_PEOPLE)
    apart = np.abs(vectors(made, unit) - vectors(memory, unit)).max()
    # A logarithm may differ from the one in memory in its last digit, and each person's part by one step.
    assert apart <= (2 * N_PEOPLE if name == "log" else 0)
    if name == "facility":
        mixed = [0.3 * one + 0.7 * Coverage(matrix()) for one in (made, memory)]
        assert np.array_equal(*(vectors(one, unit) for one in mixed))
    for items in ([], [4], [2, 8, 5]):
        assert made.value(items) == pytest.approx(memory.value(items), abs=1e-11)
        assert np.allclose(made.gains(items), memory.gains(items), rtol=0, atol=1e-11)
        assert np.allclose(made.contributions(items), memory.contributions(items), rtol=0, atol=1e-11)
    part = made[[5, 2, 2]]
    assert part.backend == made.backend
    assert part.value([1, 2]) == pytest.approx(memory[[5, 2, 2]].value([1, 2]), abs=1e-11)
    assert made[5].gains([1]) == pytest.approx(memory[5].gains([1]), abs=1e-12)
    assert made.touched_items(N_ITEMS) == N_ITEMS


@pytest.mark.parametrize("name", FAMILIES)
def test_multilinear_gradients_are_alike_on_every_device(name):
    family, options = FAMILIES[name]
    x, per_unit = np.linspace(0.0, 1.0, N_ITEMS), 2.0**30
    made = [family.from_array(matrix(), backend=b, tile=25, **options) for b in BACKENDS.values()]
    most = int(made[0].bound * per_unit)
    found = [one.row_source().gradient_steps(x, per_unit, most, seed=5, samples=6) for one in made]
    assert all(np.array_equal(found[0], one) for one in found)
    if name in ("facility", "probabilistic"):  # in closed form: the numbers of the loops in memory
        memory = family(matrix(), **options).as_rows().gradient_steps(x, per_unit, most, seed=5, samples=6)
        assert np.array_equal(found[0], memory)
        return
    drawn = random_rows(x, 5, 6).astype(float)
    concave = {"sqrt": np.sqrt, "log": np.log1p, "capped": lambda t: np.minimum(t, CAPS)}[name]
    for j in range(N_ITEMS):
        without, among = drawn.copy(), drawn.copy()
        without[:, j], among[:, j] = 0.0, 1.0
        mean = (concave(among @ matrix().T) - concave(without @ matrix().T)).sum() / 6
        assert found[0][j] / per_unit == pytest.approx(mean, abs=1e-6)


def test_log_determinants_are_those_in_memory():
    quality, weight = matrix() * 0.5, kernel()
    memory = LogDeterminant(weight, quality, bound=6.0)
    unit = step(6.0, N_PEOPLE)
    found = []
    for backend in BACKENDS.values():
        made = LogDeterminant(weight, quality, backend=backend, tile=25, bound=6.0)
        found.append(vectors(made, unit))
        for items in ([], [4], [2, 8, 5]):
            assert made.value(items) == pytest.approx(memory.value(items), abs=1e-10)
            assert np.allclose(made.gains(items), memory.gains(items), rtol=0, atol=1e-10)
            assert np.allclose(made.contributions(items), memory.contributions(items), rtol=0, atol=1e-10)
        assert made[:3].value([1]) == pytest.approx(memory[:3].value([1]), abs=1e-10)
        assert made[7].value([1]) == pytest.approx(memory[7].value([1]), abs=1e-10)
    assert all(np.array_equal(found[0], one) for one in found)


def test_choosers_take_them():
    counts = FacilityLocation.from_array(np.tri(6)[::-1].copy(), tile=2)  # of 6 items, and less and less
    assert counts.touched_items(6) == 6
    with pytest.raises(DataError, match="one person touches more items"):
        counts.touched_items(5)
    made = FacilityLocation.from_array(matrix())
    stored = FacilityLocation(matrix())
    for selector in (PrivateGreedy, ContinuousGreedy):
        chosen = [selector(3, dc.Budget(80.0), seed=4).select(one).items for one in (made, stored)]
        assert chosen[0] == chosen[1]
    diverse = LogDeterminant(kernel(), matrix() * 0.5, bound=6.0)
    assert len(PrivateGreedy(3, dc.Budget(80.0), bound=6.0, seed=4).select(diverse).items) == 3


def test_few_rows_that_changed_are_summed_again_and_nobody_else():
    weights = np.eye(40, N_ITEMS) * 0.5
    growing = FacilityLocation.from_array(weights).row_source().growing(2.0**40, 2.0**40)
    sums = np.zeros(N_ITEMS)
    growing.begin(sums)
    growing.choose(2, sums)
    assert growing.looked_at == 42  # everybody once, and the one person before and after
    assert sums[2] == 0.0


# --- what one person can change -----------------------------------------------------------------------------


def moved_too_far(make, rows: np.ndarray, bound: float) -> float:
    """By how much one person, removed or replaced, moves a score (or all picks' scores) beyond the bound."""
    unit, excess = step(bound, 16), -bound

    def scores(some: np.ndarray) -> np.ndarray:
        return vectors(make(some), unit) * unit

    here = scores(rows)
    own = N_ITEMS * np.array([1, 2, 3]) + np.arange(3)  # where the picks' scores stand
    for i in range(len(rows)):
        for other in (None, 0.0):
            changed = np.delete(rows, i, 0) if other is None else rows.copy()
            if other is not None:
                changed[i] *= other
            moved = here - scores(changed)
            excess = max(excess, np.abs(moved).max() - bound, moved[own].sum() - bound, -moved.min())
    return float(excess)


ROWS = matrix(9)[1:5]
MAKERS = {
    name: (lambda rows, f=f, o=o: f.from_array(rows, backend=array_api_strict, tile=4, **o), f, o)
    for name, (f, o) in FAMILIES.items()
    if name != "capped"
}


@pytest.mark.parametrize("name", [*MAKERS, "determinant"])
def test_one_person_moves_a_score_by_at_most_the_bound_whatever_a_device_computes(name, monkeypatch):
    """People removed, and made silent, in turn; then the same on a device whose arithmetic is wrong.

    A gain that comes out a thousand times too large, negative or without end is cut to its range before it is
    summed. The injected fault, sums of parts that are not cut, is noticed.
    """
    if name == "determinant":
        bound = 6.0

        def make(rows: np.ndarray):
            return LogDeterminant(kernel(), rows * 0.5, backend=array_api_strict, tile=4, bound=6.0)

    else:
        make = MAKERS[name][0]
        bound = make(ROWS).bound
    assert moved_too_far(make, ROWS, bound) <= 0.0
    real = devices.Device.steps

    def wrong(device, gains, per_unit, left, cut=real):
        """Of any size and sign, but a function of the gain: that much a device must keep to."""
        return cut(device, gains * 1000.0 * device.xp.sin(gains * 1e6), per_unit, left)

    def uncut(device, gains, per_unit, left):
        return wrong(device, gains, per_unit, left, lambda device, g, p, _: device.xp.floor(g * p))

    monkeypatch.setattr(devices.Device, "steps", wrong)
    assert moved_too_far(make, ROWS, bound) <= 0.0
    monkeypatch.setattr(devices.Device, "steps", uncut)
    assert moved_too_far(make, ROWS, bound) > 1.0


def test_logarithms_are_the_same_in_every_kernel_and_right():
    rng = np.random.default_rng(0)
    powers = 2.0 ** np.arange(0, 1023, 7)
    values = np.concatenate((
        1.0 + rng.random(3000) ** 9, np.exp(rng.uniform(0, 700, 3000)), powers, np.nextafter(powers, 0.0)[1:]
    ))  # fmt: skip
    exact = np.log(values)
    strict = np.asarray(devices.device_of(array_api_strict).logarithm(array_api_strict.asarray(values)))
    assert np.abs(strict - exact).max() <= 2e-13
    assert np.abs(strict - exact)[:3000].max() <= 3e-16
    ours = np.empty(values.size)
    kernels.logarithms(values, ours)
    assert np.array_equal(strict, ours)
    assert np.array_equal(devices.NUMPY.logarithm(values[::3]), strict[::3])


# --- what is refused ----------------------------------------------------------------------------------------


def test_what_cannot_be_on_a_device_is_refused():
    weights = matrix()
    cases = [
        (lambda: FacilityLocation.from_array(weights - 1.0), DataError, "at least 0"),
        (lambda: FacilityLocation.from_array(weights * np.nan), DataError, "finite"),
        (lambda: ProbabilisticCoverage.from_array(weights * 9), DataError, "at most 1"),
        (lambda: FacilityLocation.from_array(weights, bound=0.01), DataError, "exceed bound=0.01"),
        (lambda: LogDeterminant(3, weights), ValueError, "kernel must have two dimensions"),
        (lambda: LogDeterminant(kernel() * np.nan, weights), ValueError, "finite"),
        (lambda: ConcaveOverModular.from_array(weights, bound=0.5), DataError, "exceed bound=0.5"),
        (lambda: FacilityLocation.from_array(weights, backend=3), ValueError, "backend must be one of"),
        (lambda: FacilityLocation.from_array(weights.astype(int)), TypeError, "got int64"),
        (lambda: FacilityLocation.from_array(weights[0]), ValueError, "two dimensions"),
        (lambda: FacilityLocation.from_array(weights, tile=0), ValueError, "tile"),
        (lambda: Coverage.from_array(weights), ValueError, "Coverage of this kind"),
        (lambda: SaturatedCoverage.from_array(weights), ValueError, "SaturatedCoverage of this kind"),
        (lambda: ConcaveOverModular.from_array(weights, concave=np.sqrt), ValueError, "of this kind"),
        (lambda: LogDeterminant(kernel()[:3], weights), ValueError, "kernel must be items x items"),
        (lambda: LogDeterminant(-kernel(), weights), ValueError, "eigenvalue"),
        (lambda: LogDeterminant(np.tri(N_ITEMS), weights), ValueError, "symmetric"),
        (lambda: LogDeterminant(kernel(), weights, bound=1e-3), DataError, "exceed bound"),
    ]
    for make, error, message in cases:
        with pytest.raises(error, match=message):
            make()


def test_a_lack_of_memory_names_the_tile(monkeypatch):
    class OutOfMemoryError(RuntimeError):
        pass

    def full(*_):
        raise OutOfMemoryError("out of memory")

    people = FacilityLocation.from_array(matrix(), backend=array_api_strict, tile=8)
    assert people.tile == 8
    monkeypatch.setattr(devices.Device, "gain_sums", full)
    with pytest.raises(MemoryError, match=r"tile of 8 people x 9 items"):
        people.gains([])
