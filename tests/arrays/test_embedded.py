"""Facility location over embeddings: the scores of the similarity matrix, on every device, bit for bit."""

from __future__ import annotations

import math
from dataclasses import replace

import array_api_strict
import numpy as np
import pytest

import discreet as dc
from discreet.constraints import Knapsack, PartitionMatroid
from discreet.core.checks import DataError
from discreet.objectives import Coverage, EmbeddedFacilityLocation, FacilityLocation, devices
from discreet.objectives.embedded import GrowingSimilarities
from discreet.objectives.fixed_point import FixedPointGains, step
from discreet.offline import ContinuousGreedy, PrivateGreedy

from . import BACKENDS

N_PEOPLE, N_ITEMS, WIDTH = 120, 40, 6
BOUND = 30_000 * 2.0**-14
TILES = [(512, 2048), (17, 19)]


def embeddings(seed: int = 1, width: int = WIDTH) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return tuple(rng.integers(-128, 128, size=(n, width)).astype(np.int8) for n in (N_PEOPLE, N_ITEMS))


def similarities(people: np.ndarray, items: np.ndarray, bound: float = BOUND) -> np.ndarray:
    return np.clip(people.astype(int) @ items.T.astype(int) * 2.0**-14, 0.0, bound)


def vectors(people, unit: float, picks=(3, 7, 0, 11, 30)) -> list[list[float]]:
    """Every score vector, and what each pick added."""
    growing, found = FixedPointGains.over(people, people.bound, unit), []
    for item in picks:
        found.append(growing.scores().tolist())
        found.append([growing.add(item)])
    return [*found, growing.scores().tolist()]


@pytest.mark.parametrize("backend", BACKENDS.values(), ids=BACKENDS)
@pytest.mark.parametrize("tile", TILES)
def test_every_score_vector_is_that_of_the_similarity_matrix(backend, tile):
    people, items = embeddings()
    stored = FacilityLocation(similarities(people, items), bound=BOUND)
    made = EmbeddedFacilityLocation(people, items, bound=BOUND, backend=backend, tile=tile)
    assert made.backend == (backend if isinstance(backend, str) else "array_api_strict")
    numpy = EmbeddedFacilityLocation(people, items, bound=BOUND)
    unit = step(BOUND, N_PEOPLE)
    assert vectors(made, unit) == vectors(stored, unit)
    mixed = [0.25 * one + 2 * Coverage(np.eye(N_PEOPLE, N_ITEMS)) for one in (made, stored)]
    assert vectors(mixed[0], unit) == vectors(mixed[1], unit)
    if tile != TILES[0]:
        return
    x = np.linspace(0.0, 1.0, N_ITEMS)
    steps = [one.gradient_steps(x, 2.0**30, 1 << 31, 0, 2) for one in (made.row_source(), numpy.row_source())]
    assert np.array_equal(*steps)
    assert np.allclose(made.multilinear_gradient(x), stored.multilinear_gradient(x), rtol=0, atol=1e-12)


@pytest.mark.parametrize(("share", "places"), [(1.0, 7), (0.3, 9), (0.9, 40)])
def test_coarse_steps_count_alike_on_every_device_and_by_definition(share, places):
    people, items = embeddings(2)
    made = [
        EmbeddedFacilityLocation(people, items, bound=BOUND, backend=backend, tile=(50, 11)).row_source()
        for backend in BACKENDS.values()
    ]
    most, per_unit = float(int(share * BOUND * 2**places)), 2.0**places
    grown = []
    for rows in made:
        growing, sums = rows.scaled(share).growing(most, per_unit), np.zeros(N_ITEMS)
        growing.begin(sums)
        grown.append([sums.copy()])
        for item in (5, 1, 39):
            growing.choose(item, sums)
            grown[-1].append(sums.copy())
    assert all(np.array_equal(grown[0], one) for one in grown)
    cap, factor, cut = made[0].scaled(share).steps(most, per_unit)
    whole = np.clip(people.astype(int) @ items.T.astype(int), 0, cap)
    counted = whole * factor if cut is None else (whole * cut[0]) >> cut[1]
    assert counted.max() <= most
    # In steps a person's similarity counts for what it is, less at most a step or 2^-15 of the most.
    exact = share * similarities(people, items) * per_unit
    assert (counted <= exact + 1e-6 * most).all()
    assert (counted >= exact - max(1.5, most * 2.0**-15)).all()
    best = np.zeros(N_PEOPLE, dtype=int)
    for t, item in enumerate([None, 5, 1, 39]):
        if item is not None:
            best = np.maximum(best, counted[:, item])
        assert np.array_equal(grown[0][t], np.maximum(counted - best[:, None], 0).sum(axis=0))


def test_long_embeddings_are_summed_exactly():
    people, items = (one[:40] for one in embeddings(3, width=1500))
    people[0], items[0] = -128, -128  # the largest product: beyond 2^24
    bound = 1500.0
    stored = FacilityLocation(similarities(people, items, bound), bound=bound)
    for backend in BACKENDS.values():
        made = EmbeddedFacilityLocation(people, items, bound=bound, backend=backend, tile=(16, 30))
        assert vectors(made, step(bound, 40)) == vectors(stored, step(bound, 40))
        assert made[0].value([0]) == 1500.0


def test_entries_up_to_the_scale_are_kept():
    """3 of 4 are 96 of 128 steps; what is longer than the scale is cut to it, but for one step."""
    for entry, kept in ((3.0, 3.0), (-3.0, -3.0), (9.0, 4.0 - 1 / 32), (-9.0, -4.0)):
        made = EmbeddedFacilityLocation([[math.copysign(3.0, entry)]], [[entry]], scale=4.0, bound=16.0)
        assert made.value([0]) == 3.0 * abs(kept)


def test_sums_of_many_large_parts_do_not_overflow(monkeypatch):
    people, items = np.full((900, 800), -128, dtype=np.int8), np.full((3, 800), -128, dtype=np.int8)
    made = EmbeddedFacilityLocation(people, items, bound=800.0)
    assert made.gains([]).tolist() == [800.0] * 3
    monkeypatch.setattr(devices, "_WHOLE", 1 << 62)  # the fault: sums that are emptied too late
    assert made.gains([]).tolist() != [800.0] * 3


def test_only_people_whose_best_item_changed_are_looked_at_again():
    people, items = embeddings()
    growing = GrowingSimilarities(
        EmbeddedFacilityLocation(people, items, bound=BOUND).row_source(), 1e12, 2.0**30
    )
    sums, best, expected = np.zeros(N_ITEMS), np.zeros(N_PEOPLE), N_PEOPLE
    growing.begin(sums)
    table = similarities(people, items)
    for item in (3, 7, 3, 11):
        expected += int((table[:, item] > best).sum())
        best = np.maximum(best, table[:, item])
        growing.choose(item, sums)
    assert growing.looked_at == expected < 3 * N_PEOPLE


def test_floats_are_rounded_with_the_public_scale_and_cut():
    people = EmbeddedFacilityLocation([[0.26, -9.0]], [[1.0, -1.0], [0.0, 0.5]], scale=0.5, bound=4.0)
    # 0.26 is 67 parts of 0.5 / 128, and -9 is cut to -128 of them; 1 is cut to 127.
    assert people.gains([]).tolist() == [(67 * 127 + 128 * 128) * 2.0**-16, 0.0]
    whole = np.array([[67, -128]], dtype=np.int8)
    same = EmbeddedFacilityLocation(whole, np.array([[127, -128], [0, 127]]) / 256, scale=0.5, bound=4.0)
    assert same.gains([]).tolist() == people.gains([]).tolist()
    given = np.array([[1, 2]], dtype=np.int8)
    made = EmbeddedFacilityLocation(given, given, bound=1.5)
    before = made.value([0])
    given[:] = 0
    assert made.value([0]) == before  # it was copied


def test_every_chooser_and_windowed_learner_takes_it():
    people, items = embeddings()
    made = EmbeddedFacilityLocation(people, items, bound=BOUND)
    stored = FacilityLocation(similarities(people, items), bound=BOUND)
    partition = PartitionMatroid([range(20), range(20, 40)], [2, 1])
    for constraint in (3, partition, Knapsack(np.linspace(0.5, 2.0, N_ITEMS), 4.0)):
        budget = dc.Budget(300.0) if isinstance(constraint, Knapsack) else dc.Budget(50.0)
        chosen = [
            PrivateGreedy(constraint, budget, bound=BOUND, seed=4).select(one).items for one in (made, stored)
        ]
        assert chosen[0] == chosen[1] != []
    chosen = [
        ContinuousGreedy(3, dc.Budget(200.0), bound=BOUND, seed=4).select(one).items for one in (made, stored)
    ]
    assert chosen[0] == chosen[1]
    served = []
    for one in (made, stored):
        learner = dc.online.PhasedSelector(N_ITEMS, 3, dc.Budget(200.0), bound=BOUND, window=40, seed=6)
        served.append(learner.run(one).selections)
    assert np.array_equal(*served)


# --- what one person can change -----------------------------------------------------------------------------


def test_one_person_moves_each_score_by_their_own_part():
    """Everybody removed in turn: scores move by the person's own part, which lies in [0, bound]."""
    people, items = embeddings(5)
    people = people[:12]
    unit, picks = step(BOUND, 16), (3, 7, 0)

    def scores(rows: np.ndarray) -> np.ndarray:
        made = EmbeddedFacilityLocation(rows, items, bound=BOUND, tile=(5, 17))
        return np.array([v for v in vectors(made, unit, picks) if len(v) > 1])

    everybody = scores(people)
    for i in range(12):
        moved = everybody - scores(np.delete(people, i, axis=0))
        assert np.array_equal(moved, scores(people[i : i + 1]))
        assert moved.min() >= 0.0
        assert moved.max() <= BOUND
        assert sum(moved[t, item] for t, item in enumerate(picks)) <= BOUND


def test_sums_in_16_bit_floats_would_move_by_other_than_their_part(monkeypatch):
    """The injected fault: with products and sums in short floats the enumeration above fails."""
    people, items = embeddings(5)

    def short(device, rows, columns, low, span, cut, tile):
        del device, cut, tile
        products = rows.astype(np.float16) / 128 @ (columns.T.astype(np.float16) / 128)
        parts = np.clip(products - low[:, None].astype(np.float16) / 2**14, 0, span[:, None] / 2**14)
        total = np.zeros(columns.shape[0], dtype=np.float16)
        for part in parts.astype(np.float16):
            total += part
        return (total.astype(float) * 2**14).astype(np.int64)

    def moved() -> float:
        unit = step(BOUND, N_PEOPLE)
        least, most = 0.0, 0.0
        everybody = EmbeddedFacilityLocation(people, items, bound=BOUND)
        for i in range(0, N_PEOPLE, 12):
            gone = everybody[np.delete(np.arange(N_PEOPLE), i)]
            apart = np.array(vectors(everybody, unit, ())[0]) - vectors(gone, unit, ())[0]
            own = np.array(vectors(everybody[i], unit, ())[0])
            least, most = min(least, apart.min()), max(most, np.abs(apart - own).max())
        return max(-least, most)

    assert moved() == 0.0
    monkeypatch.setattr(devices.Processor, "product_sums", short)
    assert moved() > 0.03


# --- memory, and what is refused ----------------------------------------------------------------------------


def test_a_lack_of_memory_names_the_tile(monkeypatch):
    class OutOfMemoryError(RuntimeError):
        pass

    def full(*_):
        raise OutOfMemoryError("CUDA out of memory")

    people = EmbeddedFacilityLocation(*embeddings(), bound=BOUND, tile=(100, 30))
    assert people.tile == (100, 30)
    assert people.working_memory < 10_000_000
    monkeypatch.setattr(devices.Processor, "product_sums", full)
    with pytest.raises(MemoryError, match=r"the processor for a tile of 100 people x 30 items .* tile="):
        people.gains([])


def test_a_pass_takes_no_more_memory_than_was_told():
    import tracemalloc

    rng = np.random.default_rng(0)
    rows, items = (rng.integers(-128, 128, size=(n, 32)).astype(np.int8) for n in (3000, 2000))
    people = EmbeddedFacilityLocation(rows, items, bound=8.0, tile=(100, 500))
    people.gains([])
    tracemalloc.start()
    people.gains([])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    numbers = 8 * (2 * len(people) + 3 * people.n_items)
    assert peak < people.working_memory + numbers + 100_000
    assert peak < rows.shape[0] * items.shape[0] * 8 / 10


def test_what_is_no_embedding_is_refused():
    people, items = embeddings()
    cases = [
        (people, items[:, :3], {}, ValueError, "6 dimensions and items have 3"),
        (people[:0], items, {}, ValueError, "people must have two dimensions"),
        (people, items[0], {}, ValueError, "items must have two dimensions"),
        (people, items, {"tile": 7}, ValueError, "tile must be two whole numbers"),
        (people, items, {"tile": (7, 0)}, ValueError, "tile"),
        (people, items, {"scale": 0.0}, ValueError, "scale"),
        (people, items, {"bound": 1e-9}, ValueError, "less than one step"),
        (people, items, {"backend": "tensorflow"}, ValueError, "backend must be one of numpy, cupy, torch"),
        ([["a"]], [[1.0]], {}, TypeError, "people must be an array of numbers"),
        (np.zeros((1, 1), dtype=complex), [[1.0]], {}, TypeError, "got complex128"),
        ([[1.0]], [[np.nan]], {}, DataError, "items has an entry that is not a finite number"),
        (np.zeros((1, 70_000)), np.zeros((1, 70_000)), {}, ValueError, "at most 65,536"),
    ]
    for first, second, options, error, message in cases:
        with pytest.raises(error, match=message):
            EmbeddedFacilityLocation(first, second, **options)


def test_libraries_that_are_not_there_are_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "cupy", None)
    with pytest.raises(ImportError, match=r"cupy.*discreet\[arrays\]"):
        EmbeddedFacilityLocation(*embeddings(), backend="cupy")


def test_arrays_stay_where_they_are():
    strict = array_api_strict.asarray(embeddings()[0])
    made = EmbeddedFacilityLocation(strict, embeddings()[1], bound=BOUND)
    assert made.backend == "array_api_strict"
    assert type(made[:5]._rows.people) is type(strict)
    rows = EmbeddedFacilityLocation(*embeddings(), bound=BOUND, tile=(2, 3))[:5].as_rows()
    assert np.array_equal(rows.matrix, similarities(*embeddings())[:5])
    assert devices.device_of("numpy", strict) is devices.NUMPY
    assert devices.device_of(made._rows.device, None) is made._rows.device
    assert replace(made._rows.device, name="cupy").described == "cuda:0"


def test_items_that_are_no_cosines_are_warned_of_and_people_are_not():
    unit = np.eye(3)
    with pytest.warns(UserWarning, match="item 'b' is a vector of length 0.5, and"):
        EmbeddedFacilityLocation(unit, unit * [[1.0], [0.5], [1.0]], labels="abc")
    with pytest.warns(UserWarning, match="item 2 is a vector of length 1.2") as caught:
        EmbeddedFacilityLocation(unit, [*unit[:2], [0.7, 0.7, 0.7]])
    assert caught[0].filename == __file__  # the line that makes it
    with pytest.warns(UserWarning, match="item 0 is a vector of length 0.5,"):
        EmbeddedFacilityLocation(unit, (unit * 64).astype(np.int8))
    EmbeddedFacilityLocation(unit, (unit * 127).astype(np.int8))
    for people in (unit * 7.0, unit * 0.1, unit * 0.0, [*unit[:2], [5.0, 5.0, 5.0]]):  # not a word
        made = EmbeddedFacilityLocation(people, unit)
        assert max(made[i].value([0, 1, 2]) for i in range(3)) <= 1.0
    EmbeddedFacilityLocation(unit, unit * 0.5, bound=2.0)  # inner products, with a bound of their own
    EmbeddedFacilityLocation(unit, unit * 0.5, normalize=True)


@pytest.mark.parametrize("kind", ["float64", "int8"])
def test_normalized_vectors_are_cosines_each_by_itself(kind):
    rng = np.random.default_rng(3)
    people, items = (rng.normal(size=(size, 4)) * 40 for size in (30, 9))
    people[3] = 0.0
    people, items = (each.astype(kind).astype(np.float64) for each in (people, items))
    made = EmbeddedFacilityLocation(people.astype(kind), items.astype(kind), normalize=True)
    lengths = np.linalg.norm(people, axis=1)[:, None] * np.linalg.norm(items, axis=1)
    cosines = np.clip(people @ items.T / np.where(lengths, lengths, 1.0), 0.0, 1.0)
    found = np.array([[made[i].value([j]) for j in range(9)] for i in range(30)])
    assert np.abs(found - cosines).max() < 0.04  # bytes
    # What a person counts is a function of their own vector: everybody else may be anybody.
    for i, one in enumerate(people):
        alone = EmbeddedFacilityLocation(one[None].astype(kind), items.astype(kind), normalize=True)
        assert alone.value([2, 5]) == made[i].value([2, 5])
