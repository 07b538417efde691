"""The model of what a store costs, beside stored measurements."""

from __future__ import annotations

from dataclasses import replace

import pytest

from discreet.data.costs import Sizes, Speeds, costs
from tools.pages.scale import checked

FACTOR = 2.0  # which docs/scale.md states


def test_the_model_is_within_a_factor_of_every_measurement():
    found = list(checked())
    assert len(found) >= 6
    for name, measured, told in found:
        assert measured / FACTOR <= told <= measured * FACTOR, (name, measured, told)


def test_costs_grow_with_sizes_and_fall_with_cores():
    sizes = Sizes(10**8, 10**7, 9 * 10**7, 2000)
    one, four = costs(sizes, 50), costs(sizes, 50, 4)
    assert one.prepare > 3 * (four.prepare - Speeds().start)
    assert one.prepare_processor == four.prepare_processor
    more = costs(replace(sizes, entries=2 * sizes.entries, items=100_000, weighted=True), 50)
    assert more.disk == 16 * 10**7 + 12 * 2 * sizes.entries
    assert more.select > 1.9 * one.select
    assert costs(sizes, 100).select > one.select
    # What no machine can hold is read again for every pick.
    assert costs(sizes, 50, 64, held=1 << 20).select > 20 * costs(sizes, 50, 64).select
    assert costs(sizes, 50, 64, machines=4).select == pytest.approx(Speeds().start + 51 * 0.03, rel=0.3)
