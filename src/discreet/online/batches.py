"""Batches of rounds that grow geometrically: few releases last for long."""

from __future__ import annotations

import math

GROWTH = 1.15  # of a batch from the one before
ENDLESS = 100  # releases, where no number of rounds is declared
LONGEST = 1 << 24  # people of a batch
# A first batch is so many standard deviations of the noise long, and no shorter than FEWEST.
FIRST, FEWEST = 8.0, 8


def geometric_ends(first: int, rounds: int | None) -> tuple[int, ...]:
    """The rounds at which batches end of which the first is so long; those before the end of all rounds.

    >>> geometric_ends(100, 1000)
    (100, 215, 348, 501, 676, 878)
    >>> len(geometric_ends(100, None)), geometric_ends(100, None)[-1] > 10**8
    (100, True)
    """
    found: list[int] = []
    length, end = float(first), first
    while len(found) < ENDLESS if rounds is None else end < rounds:
        found.append(end)
        length *= GROWTH
        end += min(LONGEST, math.ceil(length))
    return tuple(found)


def first_batch(deviation: float) -> int:
    """How many people make a first batch whose sum has so much noise, in units of one person's most."""
    return min(LONGEST, max(FEWEST, math.ceil(FIRST * deviation)))
