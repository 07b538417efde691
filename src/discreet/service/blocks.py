"""Blocks: decisions allocated ahead. They are committed before the first of them is served.

A decision is served out of memory, with no reading or writing. Each place of a block is served once: after a
crash, what was not written down as served of a block is invalidated. It takes no outcome and is no round.
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


@dataclass
class DecisionBlock:
    """``count`` places from ``first`` on; `which` tells the set of each, out of ``lists`` of items.

    ``baseline`` places show random sets, to compare with. ``round`` is the learner's round of the first place
    that is none of those. ``spare`` ranks items by what was released: they stand in for excluded ones.
    ``chain`` names the release that all this follows from. ``segment`` is "" where there are none.
    """

    experiment: int
    epoch: int
    first: int
    count: int
    lists: list[list[int]]
    runs: list[tuple[int, int]]  # (which list, how many places in a row)
    baseline: dict[int, int]  # offset: which list
    round: int
    spare: list[int]
    chain: bytes
    served: int = 0
    altered: set[int] = field(default_factory=set)  # offsets of places that showed other items
    segment: str = ""
    uncounted: set[int] = field(default_factory=set)  # offsets of places that are left out: see `groups`
    over_at: float | None = None  # when its last place was served, or nobody was to be served from it again
    since: float = math.inf  # when it was leased
    which: list[int] = field(init=False)
    policy: bytes = field(init=False)  # the first letters of the chain, for whoever asks for a decision

    def __post_init__(self) -> None:
        own = [number for number, many in self.runs for _ in range(many)]
        if len(own) + len(self.baseline) != self.count:
            raise ValueError("the block's lists are of another number than its places")
        self.policy = self.chain[:8].hex().encode()
        turn = iter(own)
        self.which = [self.baseline[i] if i in self.baseline else next(turn) for i in range(self.count)]

    @property
    def end(self) -> int:
        """The place after the last."""
        return self.first + self.count

    @property
    def over(self) -> bool:
        """Whether every place has been served, or none will be any more."""
        return self.over_at is not None or self.served >= self.count

    def learned(self, offset: int) -> bool:
        """Whether the place at this offset belongs to the learner."""
        return offset not in self.baseline

    def body(self) -> bytes:
        """For the database."""
        return json.dumps(
            {
                "lists": self.lists,
                "runs": self.runs,
                "baseline": [[offset, number] for offset, number in self.baseline.items()],
                "round": self.round,
                "spare": self.spare,
            },
            separators=(",", ":"),
        ).encode()

    @classmethod
    def read(cls, row: Sequence[Any]) -> DecisionBlock:
        """A block from the `COLUMNS` of its row."""
        experiment, epoch, first, count, body, chain, served, altered, segment, uncounted = row
        found = json.loads(bytes(body))
        return cls(
            experiment,
            epoch,
            first,
            count,
            found["lists"],
            [(number, many) for number, many in found["runs"]],
            dict(found["baseline"]),
            found["round"],
            found["spare"],
            bytes(chain),
            served,
            {int(offset) for offset in altered.split()},
            segment,
            {int(offset) for offset in uncounted.split()},
        )


def stretches(blocks: Sequence[DecisionBlock]) -> list[tuple[int, int]]:
    """The places of blocks, which are in order, as few stretches: the first, and the one after the last."""
    found: list[tuple[int, int]] = []
    for block in blocks:
        if found and found[-1][1] == block.first:
            found[-1] = (found[-1][0], block.end)
        else:
            found.append((block.first, block.end))
    return found


def linked(chain: bytes, payload: str) -> bytes:
    """The next link of a chain of releases: it names everything that was released before."""
    return hashlib.sha256(chain + payload.encode()).digest()
