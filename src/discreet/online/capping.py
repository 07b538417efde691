"""People counted with a few of their items only, by coins that belong to rounds and not to people."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..objectives import Population


def capped(people: Population, cap: int | None, words: Sequence[int], first: int) -> Population:
    """The people of rounds ``first``, ``first + 1``, ... as a learner counts them: ``cap`` items at most.

    A person's coin is the one at the place of their round in the stream that ``words`` seed. Nothing is used
    up, so a call that fails changes nothing, and whoever came before, capped or not, with or without items to
    cap, has no part in it: one person changes their own items only, as the sensitivity assumes.
    """
    if cap is None or (people.items_per_person is not None and people.items_per_person <= cap):
        return people
    if not hasattr(people, "cap_items"):
        raise ValueError(
            f"items_per_person={cap}, but {type(people).__name__} has no items to cap; leave it out"
        )
    source = np.random.PCG64(words)
    source.advance(first)
    found: Population = people.cap_items(cap, np.random.Generator(source))
    return found
