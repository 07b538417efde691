"""Compiled flows of graphic and transversal matroids: sets that exceed their rank, and rounding.

Both kinds of independence are questions of room. An item's share of a base is room that it takes at the ends
of an edge, or in the sets that hold it, and every vertex or set has room for 1. Flows move room from one item
to another. They are counted in whole units, so that sums are exact and what is full is full.
"""

from __future__ import annotations

from .forests import exceed_forests, round_forest
from .matchings import exceed_matchings, round_matching

__all__ = ["exceed_forests", "exceed_matchings", "round_forest", "round_matching"]
