from __future__ import annotations

import warnings

import pytest


@pytest.fixture(autouse=True)
def _small_instances_are_no_better_than_chance():
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*too small.*")
        yield
