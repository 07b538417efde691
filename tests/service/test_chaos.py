"""Crash testing of the service, in small; ``make chaos`` does it at length (docs/service/chaos.md)."""

from __future__ import annotations

import pytest

from tools.service_chaos.__main__ import run
from tools.service_chaos.faults import FAULTS


def test_nothing_is_lost_doubled_or_shown_unpaid_under_kills():
    """With segments, and people in several of them."""
    acknowledged = 0
    for seed in range(3, 13):  # again where a slow machine has done little
        found = run(10, seed=seed, divided=True)
        assert found["wrong"] == []
        acknowledged += found["acknowledged"]
        if acknowledged > 50:
            return
    raise AssertionError(acknowledged)


@pytest.mark.parametrize("fault", ["serves_before_commit", "acknowledges_before_commit", "keeps_raw_rows"])
def test_an_injected_fault_is_noticed(fault):
    assert any(run(kills, fault, seed=kills)["wrong"] for kills in (3, 10, 30))  # at the first, if not slow


def test_there_are_enough_faults():
    assert len(FAULTS) >= 10
