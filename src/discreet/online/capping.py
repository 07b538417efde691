"""People counted with a few of their items only, by coins that belong to rounds and not to people.

Why these coins may be known. What a learner sees of round t is cut by the coin of round t and by nothing that
anybody else has: not their items, not whether they had any to cut, not whether a call failed. Which person a
round is for does not change either when somebody else is exchanged, or absent: online, an absent person
leaves a round that passes with nothing learned. So for each sequence of coins two neighbouring streams are
cut to streams that differ in one person's rounds, where each round moves at most ``cap`` items (2 cap when
exchanged): what the sensitivity says. A stream from which a row is taken out, so that the others move up a
round, is no neighbour: there everybody's round changes, capped or not.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..objectives import Population


def capped(people: Population, cap: int | None, words: Sequence[int], first: int) -> Population:
    """The people of rounds ``first``, ``first + 1``, ... as a learner counts them: ``cap`` items at most.

    A round's coin is the one at its place in the stream that ``words`` seed. Nothing is used up, so a call
    that fails changes nothing, and rounds are cut alike one by one and many at once.
    """
    if cap is None or (people.items_per_person is not None and people.items_per_person <= cap):
        return people
    if not hasattr(people, "cap_items_by"):
        raise ValueError(
            f"items_per_person={cap}, but {type(people).__name__} has no items to cap; leave it out"
        )
    source = np.random.PCG64(words)
    source.advance(first)
    found: Population = people.cap_items_by(cap, source.random_raw(len(people)))
    return found
