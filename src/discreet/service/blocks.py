"""Blocks: decisions allocated ahead. They are committed before the first of them is served.

A decision is served out of memory, with no reading or writing. Each one is served once: after a crash, what
was not written down as served of a block is invalidated. It takes no outcome and is no round.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

PSEUDONYM = 12  # bytes of a person's pseudonym
NOBODY = bytes(PSEUDONYM)  # the pseudonym of decisions without a person
# States of a block in the database, in order.
ALLOCATED, OPEN, CLOSING = range(3)
COLUMNS = "experiment, epoch, first, count, body, chain, served, altered, segment, uncounted"
_BODY = ("lists", "runs", "baseline", "round", "spare")


@dataclass
class DecisionBlock:
    """``count`` decisions with sequence numbers from ``first`` on; `which` tells the set of each.

    ``lists`` are sets of items, and ``runs`` say which of them how many decisions in a row show. Those of
    ``baseline`` show random sets, to compare with. ``round`` is the learner's round of the first decision
    that is none of those. ``spare`` ranks items by what was released: they stand in for excluded ones.
    ``chain`` names the release that all this follows from. ``segment`` is "" where there are none.
    """

    experiment: int
    epoch: int
    first: int
    count: int
    lists: list[list[int]]
    runs: list[tuple[int, int]]
    baseline: dict[int, int]  # offset: which list
    round: int
    spare: list[int]
    chain: bytes
    served: int = 0
    altered: set[int] = field(default_factory=set)  # offsets of decisions that showed other items
    segment: str = ""
    uncounted: set[int] = field(default_factory=set)  # offsets of decisions that are left out: see `groups`
    over_at: float | None = None  # when its last decision was served, or nobody was to be served from it
    since: float = math.inf  # when it was leased
    which: list[int] = field(init=False)

    def __post_init__(self) -> None:
        own = [number for number, count in self.runs for _ in range(count)]
        if len(own) + len(self.baseline) != self.count:
            raise ValueError("the block's lists are of another number than its decisions")
        turn = iter(own)
        self.which = [self.baseline[i] if i in self.baseline else next(turn) for i in range(self.count)]

    @property
    def key(self) -> tuple[int, int, int]:
        """The key of its row."""
        return self.experiment, self.epoch, self.first

    @property
    def end(self) -> int:
        """The sequence number after the last."""
        return self.first + self.count

    @property
    def over(self) -> bool:
        """Whether every decision has been served, or none will be any more."""
        return self.over_at is not None or self.served >= self.count

    def body(self) -> bytes:
        """For the database."""
        found = {name: getattr(self, name) for name in _BODY} | {"baseline": list(self.baseline.items())}
        return json.dumps(found, separators=(",", ":")).encode()

    @classmethod
    def read(cls, row: Sequence[Any]) -> DecisionBlock:
        """A block from the `COLUMNS` of its row."""
        experiment, epoch, first, count, body, chain, served, altered, segment, uncounted = row
        found = json.loads(bytes(body))
        found["baseline"] = dict(found["baseline"])
        found |= {"altered": set(map(int, altered.split())), "uncounted": set(map(int, uncounted.split()))}
        found |= {"chain": bytes(chain), "served": served, "segment": segment}
        return cls(experiment, epoch, first, count, **found)


def linked(chain: bytes, payload: str) -> bytes:
    """The next link of a chain of releases: it names everything that was released before."""
    return hashlib.sha256(chain + payload.encode()).digest()
