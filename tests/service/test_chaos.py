"""Crash testing of the service, in small; ``make chaos`` does it at length (docs/service/chaos.md)."""

from __future__ import annotations

import pytest

from tools.service_chaos.__main__ import kind_of, run
from tools.service_chaos.faults import FAULTS


@pytest.mark.parametrize("kind", [{"divided": True}, {"personal": True}], ids=["segments", "personal sets"])
def test_nothing_is_lost_doubled_or_shown_unpaid_under_kills(kind):
    """With people in several segments; with histories in requests, of which no label is in any file."""
    acknowledged = 0
    for seed in range(3, 13):  # again where a slow machine has done little
        found = run(10, seed=seed, **kind)
        assert found["wrong"] == []
        acknowledged += found["acknowledged"]
        if acknowledged > 50:
            return
    raise AssertionError(acknowledged)


@pytest.mark.parametrize(
    "fault", ["serves_before_commit", "acknowledges_before_commit", "keeps_raw_rows", "keeps_histories"]
)
def test_an_injected_fault_is_noticed(fault):
    kind = kind_of(fault)
    assert any(
        run(kills, fault, seed=kills, **kind)["wrong"] for kills in (3, 10, 30)
    )  # the first, if not slow


def test_there_are_enough_faults():
    assert len(FAULTS) >= 10
