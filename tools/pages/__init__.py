"""Generated parts of the README and of docs: tables and numbers, computed or read from stored results.

    python -m tools.pages [--check] [PAGE ...]

A generated part stands between ``<!-- NAME: start -->`` and ``<!-- NAME: end -->``, NAME being a function of
this package that makes its text. Everything else on these pages is written by hand.
"""

from __future__ import annotations

from . import (
    errata_convex,
    errata_maximization,
    errata_privacy,
    gpu,
    measurements,
    readme,
    releases,
    scale,
    theorems,
)
from .blocks import BLOCKS, PAGES, blocks_of, filled, outdated

__all__ = [
    "BLOCKS",
    "PAGES",
    "blocks_of",
    "errata_convex",
    "errata_maximization",
    "errata_privacy",
    "filled",
    "gpu",
    "measurements",
    "outdated",
    "readme",
    "releases",
    "scale",
    "theorems",
]
