"""Refusals in two parts: words for everybody, and details for whoever may see the data."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import discreet as dc


@contextmanager
def refused(words: str, details: str) -> Iterator[None]:
    """A `DataError` whose message matches ``words`` and whose details match ``details``."""
    with pytest.raises(dc.DataError, match=words) as refused:
        yield
    assert re.search(details, refused.value.details), refused.value.details
