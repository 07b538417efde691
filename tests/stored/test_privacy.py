"""What one person of a store can change: nothing beyond the claimed amounts, and nobody else's coins."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import discreet as dc
from discreet.data.store import Store
from discreet.kernels.stores import person_coins
from discreet.objectives import ConcaveOverModular, Coverage, ProbabilisticCoverage
from discreet.objectives.fixed_point import FixedPointGains, step
from discreet.offline import PrivateGreedy
from discreet.privacy import Release

from .stores import keys_of, store_of
from .test_scores import N_ITEMS, matrix, vectors

SETS = [(), (0,), (2,), (1, 3), (3, 1, 0)]


def scores_on_sets(people, bound: float, unit: float) -> np.ndarray:
    found = []
    for chosen in SETS:
        growing = FixedPointGains.over(people, bound, unit)
        found.append([growing.add(item) for item in chosen] + [0.0] * (3 - len(chosen)))
        found[-1] += growing.scores().tolist()
    return np.array(found)


def small() -> np.ndarray:
    return matrix(4, 6)[:, :4]


@pytest.mark.parametrize(
    ("family", "options"), [(Coverage, {}), (ProbabilisticCoverage, {}), (ConcaveOverModular, {"bound": 2.0})]
)
def test_one_person_moves_a_score_by_at_most_the_bound(tmp_path, family, options):
    """People removed in turn, and replaced by two others, over every set of `SETS`: enumerated."""
    rows, keys = small(), keys_of(6)
    names = (tmp_path / f"s{number}" for number in itertools.count())

    def people_of(rows, keys):
        return family.from_store(store_of(next(names), rows, 3, keys=keys, weighted=True), **options)

    whole = people_of(rows, keys)
    bound = whole.bound
    unit = step(bound, 8)
    here, most = scores_on_sets(whole, bound, unit), 0.0
    for i in (1, 3, 5):
        gone = scores_on_sets(people_of(np.delete(rows, i, 0), np.delete(keys, i)), bound, unit)
        assert ((here - gone >= 0.0) & (here - gone <= bound)).all()
        # What the picks of one set added, over all picks: at most the bound together.
        assert ((here - gone)[:, :3].sum(axis=1) <= bound).all()
        for other in (np.zeros(4), np.full(4, 0.5)):
            changed = rows.copy()
            changed[i] = other
            moved = scores_on_sets(people_of(changed, keys), bound, unit) - here
            assert np.abs(moved).max() <= bound
            most = max(most, float(np.abs(moved).max()))
    if family is Coverage:
        assert most == bound  # the claim is tight


def split_store(path) -> Store:
    """A store in which person 1 stands in two buckets, with different items in each."""
    rows, keys = np.array([[1, 0, 1, 0], [1, 1, 0, 0], [1, 0, 1, 0.0]]), np.array([3, 4, 4], dtype=np.uint64)
    return store_of(path, rows, 3, keys=keys, home=np.array([0, 1, 2]))


def test_a_person_in_two_buckets_would_move_a_score_by_two(tmp_path, monkeypatch):
    """The injected fault: with the reader's check taken out, the enumeration above would fail."""
    split = split_store(tmp_path / "split")
    with pytest.raises(ValueError, match="belongs to another bucket"):
        Coverage.from_store(split)
    monkeypatch.setattr(Store, "_check", lambda *_: None)
    people = Coverage.from_store(Store.open(split.path))
    alone = Coverage.from_store(
        store_of(tmp_path / "alone", np.array([[1, 0, 1, 0.0]]), 3, keys=np.array([3], dtype=np.uint64))
    )
    unit = step(1.0, 8)
    moved = scores_on_sets(people, 1.0, unit) - scores_on_sets(alone, 1.0, unit)
    assert moved.max() == 2.0


# --- coins by person -------------------------------------------------------------------------------------


def coins(keys: np.ndarray, secret: list[int]) -> np.ndarray:
    return person_coins(keys, np.array(secret, dtype=np.uint64))


def test_coins_are_siphash():
    """Of the published vectors: the message 00 01 .. 07 under the key 00 01 .. 0f."""
    words = [int.from_bytes(bytes(range(start, start + 8)), "little") for start in (0, 8)]
    found = coins(np.array(words[:1], dtype=np.uint64), words)
    assert int(found[0]).to_bytes(8, "little").hex() == "6224939a79f5f593"


def test_a_sample_is_those_whose_coin_is_low(tmp_path):
    keys, rows = keys_of(300), matrix()
    secret, keep = [11, 22], 1 << 62
    inside = coins(keys, secret) < np.uint64(keep)
    assert 40 < inside.sum() < 110
    for family in (Coverage, ProbabilisticCoverage):
        expected = [
            FixedPointGains.over(family(rows[inside]), 1.0, step(1.0, 300)),
            FixedPointGains.over(
                family.from_store(
                    store_of(tmp_path / family.__name__, rows, 3, keys=keys, weighted=True)
                ).kept(np.array(secret, dtype=np.uint64), keep),
                1.0,
                step(1.0, 300),
            ),
        ]
        for item in (3, 7, 0):
            first, second = (growing.scores().tolist() for growing in expected)
            assert first == second
            assert len({growing.add(item) for growing in expected}) == 1


def test_nobody_decides_about_the_coins_of_others(tmp_path):
    keys, rows = keys_of(300), matrix()
    secret, keep = np.array([5, 6], dtype=np.uint64), 1 << 63

    def sampled(name, rows, keys, buckets):
        store = store_of(tmp_path / name, rows, buckets, keys=keys)
        return np.array(vectors(Coverage.from_store(store).kept(secret, keep), ())[0])

    everybody = sampled("all", rows, keys, 3)
    assert (sampled("other", rows, keys, 7) == everybody).all()
    for i in (1, 2, 3):
        moved = everybody - sampled(f"{i}", np.delete(rows, i, 0), np.delete(keys, i), 3)
        own = (rows[i] > 0) * float(coins(keys[i : i + 1], [5, 6])[0] < keep)
        assert (moved == own).all()


def test_the_subsampled_method_draws_two_words_for_the_sample(tmp_path, monkeypatch):
    """However many people there are, and however often the buckets are gone through."""
    people = Coverage.from_store(store_of(tmp_path / "s", matrix(), 3))
    drawn = []
    plain = Release.words
    monkeypatch.setattr(Release, "words", lambda self, count: drawn.append(count) or plain(self, count))
    monkeypatch.setattr(Release, "sample", None)
    greedy = PrivateGreedy(3, dc.Budget(1.0), "subsampled", seed=2)
    chosen = greedy.select(people)
    assert (drawn, len(chosen), greedy.privacy.epsilon()) == ([2], 3, 1.0)
    mixed = PrivateGreedy(3, dc.Budget(1.0), "subsampled", seed=2).select(0.5 * people + 0.5 * people)
    assert mixed.items == chosen.items


def test_what_is_asked_shows_no_secret(tmp_path):
    people = Coverage.from_store(store_of(tmp_path / "s", matrix(), 3)).kept(
        np.array([987654321, 123456789], dtype=np.uint64), 5
    )
    scans = []
    people.row_source().engine.total = lambda scan: scans.append(scan) or np.zeros(N_ITEMS, dtype=np.int64)
    vectors(people, (1,))
    assert scans
    assert not any("987654321" in repr(scan) or "123456789" in f"{scan}" for scan in scans)
    assert "987654321" not in repr(people.row_source())
