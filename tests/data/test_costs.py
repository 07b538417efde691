"""The model of what a store costs, beside stored measurements."""

from __future__ import annotations

import pytest

from discreet.data.costs import Needs, Sizes, Speeds, costs, sized
from tools.pages.scale import checked

FACTOR = 2.0  # which docs/scale.md states


def test_the_model_is_within_a_factor_of_every_measurement():
    found = list(checked())
    assert len(found) >= 6
    for name, measured, told in found:
        assert measured / FACTOR <= told <= measured * FACTOR, (name, measured, told)


def test_rows_that_do_not_fit_are_written_and_read_once_more():
    sizes = Sizes(10**9, 10**7, 10**8, 2000)
    roomy, tight = (costs(sizes, picks=5, cores=10**6, memory=memory) for memory in (1 << 50, 1 << 30))
    spilled = sizes.rows * (sizes.entry_bytes + 8)
    assert tight.prepare - roomy.prepare == pytest.approx(spilled * 2 / Speeds().disk)


def test_what_is_needed_by_hand():
    """An entry takes 2 bytes, or 4, and 8 for its weight; a row on its way 8 more, a finished one 16."""
    base, roomy = 200 << 20, 64 << 20
    few = Needs.of(3 * 10**6, 65_535, False, roomy)
    assert (few.buckets, few.memory) == (4, base + 30 * 10**6 + 60 * 10**6)
    assert few.disk_meanwhile == few.disk == 54 * 10**6
    many = Needs.of(10**7, 65_536, True, 1 << 20, known=10**6)
    assert (many.buckets, many.memory) == (16, base + (1 << 20) + 110 * 10**6)
    assert (many.disk_meanwhile, many.disk) == (508 * 10**6, 308 * 10**6)
    assert [Needs.of(rows, None, False, roomy).buckets for rows in (None, 0, 2**22, 2**22 + 1, 10**13)] == [
        *(64, 4, 4, 8, 4096),
    ]
    assert Needs.of(1000, None, False, roomy).disk == 20_000
    assert [sized(count) for count in (999, 1000, 123_456, 5 * 10**9, 7 * 10**15)] == [
        *("999 B", "1 kB", "123 kB", "5 GB", "7e+03 TB"),
    ]


def test_seconds_by_hand():
    """With the speeds that are stated: 0.15 us for a row; for an entry 8 ns, 0.4 a pick, 60 where chosen."""
    sizes = Sizes(10**9, 10**8, 4 * 10**8, 1000, weighted=True, chosen=0.25)  # 10 bytes: 5.6 GB
    assert (sizes.store_bytes, Sizes(1, 10, 20, 65_536).store_bytes) == (5_600_000_000, 240)

    def seconds(cores, machines, held=8 << 30, memory=64 << 20):
        found = costs(sizes, 9, cores, machines=machines, held=held, memory=memory)
        assert found.prepare_processor == pytest.approx(150.1)
        assert found.select_processor == pytest.approx(10.74)
        assert found.disk == sizes.store_bytes
        assert found.memory == Needs.of(10**9, 1000, True, memory).memory
        return found.prepare, found.select

    assert seconds(2, 4) == pytest.approx((75.1, 0.1 + 1.4 + 0.3))  # rows; the disks of four, ten rounds
    assert seconds(1, 4) == pytest.approx((150.1, 0.1 + 2.66 + 0.3))
    assert seconds(10, 1) == pytest.approx((0.1 + 36.0 + 5.6, 5.7))  # 18 GB twice, and the store
    assert seconds(10, 1, memory=1 << 50) == pytest.approx((15.1, 5.7))
    assert seconds(2, 1, held=3 * 10**9) == pytest.approx((75.1, 56.1))  # read again for each pick
    assert seconds(2, 4, held=3 * 10**9) == pytest.approx((75.1, 1.8))
