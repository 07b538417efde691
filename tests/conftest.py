"""What all tests share: compiled loops are used from the first draw and the first round on."""

from __future__ import annotations

import pytest

from discreet.online import protocol
from discreet.privacy import ordered


@pytest.fixture(autouse=True)
def _impatient(monkeypatch):
    monkeypatch.setattr(ordered, "PATIENCE", 0)
    monkeypatch.setattr(protocol, "PATIENCE", 0)
