"""Loops over stores beside plain Python: kinds of texts, rules of a bucket, coarse steps; and refusals."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from discreet.kernels import stores
from discreet.kernels.rows import BEST, CAP, COVER, LOG, SQRT, SURVIVE
from tests.objectives.test_row_loops import gain, step, steps

NONE = np.zeros(0)
WORDS = np.array([1, 2], dtype=np.uint64)


def texts(*given):
    return np.cumsum([0, *map(len, given)]), np.frombuffer(b"".join(given), np.uint8)


def test_what_a_text_is():
    """A name as it stands, nothing, or something to look at: blanks, other alphabets, odd numbers."""
    for kind, given in (
        (stores.MISSING, [b"", b"NaN", b"nan"]),
        (stores.LOOK, [b" a", b"a ", b"\0a", b"a\t", b"a\r", b"\x1ca", b"a\x1f", b"\xc3\xa9a", b"a\xc3\xa9"]),
        (stores.LOOK, [b"007", b"-0", b"-07", b"7.0", b"1e5", b"1E5", b"+7", b"-", b".", b"7-8", b"00"]),
        (stores.FINE, [b"0", b"7", b"9", b"10", b"-7", b"-10", b"a", b"Nan", b"naN", b"nat", b"Nao", b"nbn"]),
        (stores.FINE, [b"anan", b"nanN", b"Naan", b"7a", b"7:0", b"7/0", b"-a", b"/", b"!7", b"a\xc3\xa9a"]),
        (stores.FINE, [b"\x08a", b"a\x0e", b"\x1ba", b"!", b"a b", b"e5", b"E"]),
    ):
        assert stores.kinds_of(*texts(*given)).tolist() == [kind] * len(given), given


def rule(**changed):
    """The rule that a bucket of two people breaks; items below 9, weights up to 2, 2 items at most."""
    good = {
        "keys": np.array([3, 7], dtype=np.uint64),
        "ends": np.array([0, 2, 3]),
        "items": np.array([4, 8, 4], dtype=np.uint16),
        "weights": np.array([2.0, 0.5, 1.0]),
        "of": (4, 3, 9, 2, 2.0),
    }
    given = good | changed
    return stores.broken_rule(*(given[name] for name in ("keys", "ends", "items", "weights")), *given["of"])


def test_rules_of_a_bucket():
    items = np.uint16
    for broken, changes in (
        (0, [{}, {"weights": NONE}, {"of": (4, 3, 9, 0, 2.0)}, {"of": (1, 0, 9, 2, np.inf)}]),
        (1, [{"ends": np.array([0, 3])}, {"ends": np.array([1, 2, 3])}, {"ends": np.array([0, 2, 2])}]),
        (1, [{"weights": np.ones(2)}, {"of": (0, 3, 9, 2, 2.0)}, {"ends": np.array([0, 4, 3])}]),
        (1, [{"ends": np.array([0, -1, 3])}]),
        (2, [{"of": (4, 2, 9, 2, 2.0)}, {"keys": np.array([3, 8], dtype=np.uint64)}]),
        (3, [{"keys": np.array([7, 3], dtype=np.uint64)}, {"keys": np.array([3, 3], dtype=np.uint64)}]),
        (4, [{"of": (4, 3, 9, 1, 2.0)}]),
        (5, [{"of": (4, 3, 8, 2, 2.0)}]),
        (6, [{"items": np.array(one, dtype=items)} for one in ([4, 4, 4], [8, 4, 4])]),
        (7, [{"weights": np.array(one)} for one in ([2.5, 0.5, 1.0], [2.0, 0.0, 1.0], [2.0, 0.5, np.nan])]),
        (7, [{"weights": np.array([2.0, -0.5, 1.0])}, {"of": (4, 3, 9, 2, 1.5)}]),
        (7, [{"weights": np.array([np.inf, 0.5, 1.0]), "of": (4, 3, 9, 2, np.inf)}]),
    ):
        for changed in changes:
            assert rule(**changed) == broken, changed


def test_the_extent_of_rows():
    ends, weights = np.array([0, 2, 2, 5]), np.array([3.0, 0.5, 1.0, 1.0, 2.0])
    for first, last, expected in ((0, 3, [3, 4.0, 3.0, 0]), (0, 2, [2, 3.5, 3.0, 0]), (1, 2, [0, 0, 0, 0])):
        assert stores.extent(ends, weights, first, last).tolist() == expected
    assert stores.extent(ends, NONE, 0, 3).tolist() == [3, 3.0, 1.0, 0]
    for wrong in (0.0, -1.0, np.nan, np.inf):
        assert stores.extent(ends, np.array([3.0, wrong, 1.0, 1.0, 2.0]), 0, 3)[3] == 1
    for rows in ((-1, 2), (2, 1), (0, 4)):
        with pytest.raises(IndexError):
            stores.extent(ends, weights, *rows)
    for bad in ([0, 2, 1, 5], [-1, 2, 2, 5], [0, 2, 2, 6]):
        with pytest.raises(ValueError, match="one after the other"):
            stores.extent(np.array(bad), weights, 0, 3)


@pytest.mark.parametrize("kind", [COVER, SURVIVE, BEST, SQRT, LOG, CAP])
@pytest.mark.parametrize("per_unit", [1.0, 3.0, 100.0])
def test_sums_in_coarse_steps(kind, per_unit):
    """Where a choice adds no step it still changes what others add; a secret sample counts alone."""
    rng = np.random.default_rng(kind)
    weights = rng.random((40, 6)) * (rng.random((40, 6)) < 0.6)
    held = [np.flatnonzero(row) for row in weights]
    ends, items = np.cumsum([0, *map(len, held)]), np.concatenate(held).astype(np.uint16)
    keys = rng.integers(0, 1 << 63, 40).astype(np.uint64)
    data, fresh, share, most = weights[weights > 0.0], float(kind == SURVIVE), 0.9, 2.0
    for chosen, keep, saturation in itertools.product(([], [2], [5, 0, 3]), (None, 1 << 63), (0.0, 0.4)):
        sample = (WORDS[:0], 0) if keep is None else (WORDS, keep)
        coins = stores.person_coins(keys, WORDS)
        counts = [keep is None or int(coin) < keep for coin in coins.tolist()]

        def expected(order, counts=counts, saturation=saturation):
            sums, added = np.zeros(6, dtype=int), np.zeros(len(order), dtype=int)
            for row, counted in zip(weights, counts, strict=True):
                cap = saturation * sum(row[row > 0.0].tolist()) if saturation else 0.7
                state, left = fresh, most
                for place, item in enumerate(order) if counted else ():
                    if row[item]:
                        weight = min(row[item], cap)
                        here = steps(share * gain(kind, state, weight, cap), per_unit, left)
                        added[place], left = added[place] + here, left - here
                        state = step(kind, state, weight)
                for item in np.flatnonzero(row) if counted else ():
                    more = gain(kind, state, min(row[item], cap), cap)
                    sums[item] += steps(share * more, per_unit, left)
            return sums.tolist(), added.tolist()

        scan = stores.Scan(kind, 6, chosen, (fresh, 0.7, saturation, share, most, per_unit), sample)
        bucket = ends, items, data, keys
        whole, added = expected(chosen)
        assert scan.sums(*bucket, 0, 40).tolist() == whole
        assert scan.sums(*bucket, 0, 40, chosen=True).tolist() == added
        pieces = [scan.change(*bucket, *rows, 1) for rows in ((0, 17), (17, 17), (17, 40))]
        assert sum(pieces).tolist() == (np.array(expected([*chosen, 1])[0]) - whole).tolist()


SCAN = (COVER, 6, [2], (0.0, 1.0, 0.0, 1.0, 1.0, 1.0), (WORDS[:0], 0))
BUCKET = np.array([0, 1, 2]), np.array([2, 5], dtype=np.uint16), NONE, np.array([7, 8], dtype=np.uint64)


def scanned(first=0, last=2, *, ends=BUCKET[0], items=BUCKET[1], weights=NONE, item=2):
    scan = stores.Scan(*SCAN)
    scan.change(ends, items, weights, BUCKET[3], first, last, item)
    return scan.sums(ends, items, weights, BUCKET[3], first, last)


def people_of(keys, items, weights=NONE, cap=0, coins=WORDS, marks=WORDS[:0]):
    given = np.array(keys, dtype=np.uint64), np.array(items, dtype=np.uint16), np.array(weights, dtype=float)
    return stores.people_of(*given, 9, cap, coins, marks)


REFUSED = [
    lambda: stores.hash_texts(np.array([0, 2, 1]), np.zeros(3, np.uint8), WORDS),
    lambda: stores.hash_texts(np.array([-1, 2]), np.zeros(3, np.uint8), WORDS),
    lambda: stores.hash_texts(np.array([0, 4]), np.zeros(3, np.uint8), WORDS),
    lambda: stores.hash_texts(np.zeros(0, dtype=np.int64), np.zeros(3, np.uint8), WORDS),
    lambda: stores.hash_texts(np.array([0, 3]), np.zeros(3, np.uint8), WORDS[:1]),
    lambda: stores.TextNumbers(WORDS).texts(-1),
    lambda: stores.TextNumbers(WORDS).texts(1),
    lambda: people_of([1, 1], [2]),
    lambda: people_of([1, 1], [2, 3], [0.5]),
    lambda: people_of([1, 1], [2, 3], cap=1, marks=WORDS),
    lambda: stores.scatter(WORDS, np.array([1, 2], dtype=np.uint16), NONE, 0),
    lambda: stores.scatter(WORDS, np.array([1, 2], dtype=np.uint16), NONE, 1 << 32),
    lambda: stores.Scan(-1, *SCAN[1:]),
    lambda: stores.Scan(6, *SCAN[1:]),
    lambda: stores.Scan(COVER, 6, [6], *SCAN[3:]),
    lambda: stores.Scan(COVER, 6, [-1], *SCAN[3:]),
    lambda: scanned(-1, 2),
    lambda: scanned(2, 1),
    lambda: scanned(0, 3),
    lambda: scanned(ends=np.array([0, 2])),
    lambda: scanned(ends=np.array([-1, 1, 2])),
    lambda: scanned(ends=np.array([0, 1, 3])),
    lambda: scanned(ends=np.array([0, 3, 2])),
    lambda: scanned(items=np.array([2, 6], dtype=np.uint16)),
    lambda: scanned(weights=np.ones(1)),
    lambda: scanned(item=6),
    lambda: scanned(item=-1),
]


@pytest.mark.parametrize("call", REFUSED)
def test_what_would_lead_outside_is_refused(call):
    with pytest.raises((ValueError, IndexError)):
        call()


def test_the_same_within_its_limits():
    assert scanned().tolist() == [0, 0, 0, 0, 0, 1]
    assert scanned(1, 1).tolist() == [0] * 6
    numbers = stores.TextNumbers(WORDS)
    assert numbers.add(*texts(b"a", b"", b"b", b"a")).tolist() == [0, 1, 2, 0]
    for first, ends, letters in ((0, [0, 1, 1, 2], b"ab"), (2, [0, 1], b"b"), (3, [0], b"")):
        found = numbers.texts(first)
        assert (found[0].tolist(), found[1].tobytes()) == (ends, letters)
    many = [b"%d" % (7 * number) + b"x" * (number % 90) for number in range(4000)]
    numbers = stores.TextNumbers(WORDS)
    for count in (700, 1500, 4000):  # the table grows, and grows again
        assert numbers.add(*texts(*many[:count])).tolist() == list(range(count))
    assert numbers.add(*texts(*many[::-1])).tolist() == list(range(3999, -1, -1))
    assert numbers.texts(0)[1].tobytes() == b"".join(many)
    marked = people_of([4, 4, 4, 5], [0, 1, 9, 0], cap=2, marks=WORDS)
    assert [part.tolist() for part in marked] == [[4, 5], [0, 2, 3], [0, 1, 0], []]
    given = np.array([0, 5, (1 << 64) - 1, 3, (1 << 64) - 2], dtype=np.uint64)
    for buckets in (1, 3, 4):
        begins, (keys, items, _) = stores.scatter(given, np.arange(5, dtype=np.uint16), NONE, buckets)
        place = [int(key) % buckets for key in given]
        order = sorted(range(5), key=place.__getitem__)
        assert (items.tolist(), keys.tolist()) == (order, given[order].tolist())
        assert np.diff(begins).tolist() == [place.count(number) for number in range(buckets)]
