"""The model of what a store costs, beside stored measurements."""

from __future__ import annotations

import pytest

from discreet.data.costs import Sizes, Speeds, costs
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
