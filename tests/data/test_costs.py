"""The model of what a store costs, beside stored measurements."""

from __future__ import annotations

from tools.pages.scale import checked

FACTOR = 2.0  # which docs/scale.md states


def test_the_model_is_within_a_factor_of_every_measurement():
    found = list(checked())
    assert len(found) >= 6
    for name, measured, told in found:
        assert measured / FACTOR <= told <= measured * FACTOR, (name, measured, told)
