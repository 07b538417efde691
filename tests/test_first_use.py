"""Compiled loops are there when a package is installed: no first use waits for a compiler."""

from __future__ import annotations

import pytest

from tools.first_use import USES, seconds


@pytest.mark.parametrize("name", USES)
def test_first_uses_take_little_processor_time(name):
    _, limit = USES[name]
    assert seconds(name) < 2.0 * limit  # other tests share the cores
