"""Private catalogues, for people whose items are on no public list."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.checks import whole
from ..privacy import Budget, Gate, Seed, select_partitions
from .events import EventReader, Events, PrivateCatalogue
from .source import Source


def private_catalogue(
    events: Any,
    budget: Budget | Gate,
    *,
    person: str,
    item: str,
    weight: str | None = None,
    share: float = 1.0,
    items_per_person: int = 1,
    seed: Seed = None,
) -> PrivateCatalogue:
    """The items that enough people have, chosen privately: a list for ``items=`` where none is public.

    ``events``, ``person``, ``item`` and ``weight`` as in ``Coverage.from_events``. Each person votes for
    ``items_per_person`` of their items, drawn at random (events of weight 0 do not count); an item is listed
    where its noisy number of votes passes a threshold; `privacy.partitions.PartitionSelection` has the proof.
    One vote each is best unless the same people like nearly everything. Items are sorted, integers first: how
    an item is written (integers as such, all else as text) and where it stands follows from the item alone,
    and from nothing that is not listed.

    It costs ``share`` of the budget's epsilon, and all of its delta, which must be above 0. With a `Budget`
    that is a gate of its own, and what is chosen from the catalogue afterwards costs its budget beside it.
    With a `Gate`, which has its own randomness, both stand in one account: what comes next is then paid with
    what is left of epsilon.

    Formal guarantee: (share x epsilon, delta)-DP under the budget's neighbours. An item that only one person
    has is listed with probability at most delta.

    >>> import discreet as dc
    >>> table = {"who": [*range(90), 90], "what": ["tea", "milk", "jam"] * 30 + ["Ann's secret"]}
    >>> gate = dc.Gate(dc.Budget(4.0, 1e-6), 0)
    >>> catalogue = dc.data.private_catalogue(table, gate, person="who", item="what", share=0.5)
    >>> list(catalogue)
    ['jam', 'milk', 'tea']
    >>> people = dc.objectives.Coverage.from_events(table, person="who", item="what", items=catalogue)
    >>> best = dc.offline.PrivateGreedy(2, gate).select(people)
    >>> len(best), best.privacy.epsilon()
    (2, 4.0)
    """
    if isinstance(budget, Gate):
        if seed is not None:
            raise ValueError("seed= is for a budget; a gate has its own randomness")
        gate = budget
    elif isinstance(budget, Budget):
        gate = Gate(budget, seed)
    else:
        raise TypeError(
            f"budget must be a Budget or a Gate, got a {type(budget).__name__}; e.g. Budget(1.0, 1e-6)"
        )
    whole("items_per_person", items_per_person, at_least=1)
    reader = EventReader()
    asked = {"person": person, "item": item} | ({} if weight is None else {"weight": weight})
    for batch in Source(events).batches(asked):
        reader.take(batch)
    found = reader.events(nobody=True, nothing=True)
    chosen = choose_items(found, gate, share=share, items_per_person=items_per_person)
    return PrivateCatalogue(chosen.items, gate.spent)


def choose_items(events: Events, gate: Gate, *, share: float = 1.0, items_per_person: int = 1) -> Events:
    """The same people with the items that `private_catalogue` lists, which may be none."""
    listed = select_partitions(
        events.who,
        events.indices.astype(np.int64),
        len(events.items),
        gate,
        share=share,
        keys_per_person=items_per_person,
        label=f"catalogue: items by noisy counts, at most {items_per_person} of each person",
    )
    return events.only(listed)
