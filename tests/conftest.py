"""What all tests share: compiled loops are used from the first draw and the first round on."""

from __future__ import annotations

import pytest

from discreet.backends.patience import Patience


def pytest_terminal_summary(terminalreporter):
    """What was skipped and should not be is said at the end, once."""
    skipped = terminalreporter.stats.get("skipped", [])
    for reason in sorted({one.longrepr[2] for one in skipped if "LOUD: " in str(one.longrepr)}):
        terminalreporter.section(reason.partition("LOUD: ")[2], sep="!", red=True, bold=True)


@pytest.fixture(autouse=True)
def _impatient(monkeypatch):
    monkeypatch.setattr(Patience, "lasts", lambda *_: False)
