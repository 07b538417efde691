"""The service under kills, in small; ``make chaos`` does it at length (docs/service/chaos.md)."""

from __future__ import annotations

import pytest

from tools.service_chaos.__main__ import run
from tools.service_chaos.faults import FAULTS


def test_nothing_is_lost_doubled_or_shown_unpaid_under_kills():
    found = run(10, seed=3)
    assert found["wrong"] == []
    assert found["acknowledged"] > 50


@pytest.mark.parametrize("fault", ["serves_before_commit", "acknowledges_before_commit", "keeps_raw_rows"])
def test_an_injected_fault_is_noticed(fault):
    assert run(3, fault, seed=1)["wrong"]


def test_there_are_enough_faults():
    assert len(FAULTS) >= 10
