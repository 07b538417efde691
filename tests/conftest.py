"""What all tests share: compiled loops are used from the first draw and the first round on."""

from __future__ import annotations

import pytest

from discreet.backends.patience import Patience


@pytest.fixture(autouse=True)
def _impatient(monkeypatch):
    monkeypatch.setattr(Patience, "lasts", lambda *_: False)
