"""Arguments of compiled loops, whichever backend they are of."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
# People with convex costs: which cost, a row for each of them, and a number (a label, a target, or 0).
People = tuple[int, Floats, Floats]
# Where points may lie: center and radius of a ball, or (radius below 0) the two corners of a box.
Shape = tuple[Floats, float, Floats, Floats]
# People who are cuts with prices: tail and head of every arc; where a person's arcs start, which they are,
# and what they weigh; what the items cost, in a row for each person or one for everybody.
Cuts = tuple[Indices, Indices, Indices, NDArray[np.int32], Floats, Floats]
# A tree: its levels (0: there is none), how many vectors it has taken, its finished nodes (sums, what was
# released of them, and prefixes), the norm of vectors and its bound.
TreeState = tuple[int, Indices, Indices, int, float]
# A running sum: whether it has noise; mantissa, exponent and step of the grid; a row of noise for each sum;
# encoder, decoder, decays and weights of the buffers of a factorised one; the tree of another.
SumState = tuple[bool, int, int, float, Indices, Floats, Floats, Floats, Floats, TreeState]
