"""Feedback in blocks that show one set each: summed up, released once with noise, and then believed."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ... import backends
from ...core import checks
from ...core.progress import track
from ...core.state import Saved
from ...objectives.rows.table import Rows
from ...privacy import Coins, Gate, Release
from ...privacy.conversions import exact
from ..bandit.feedback import Feedback, slot_gains, slot_steps
from ..partial import Counting
from ..pending import Ticket
from ..protocol import Stream
from ..released import Known, Released
from ..rounds import Rounds
from ..total import BatchTotal
from .settings import ThompsonSettings
from .values import ItemValues

LABEL = "noisy sums of what was shown in a block of rounds"
_UNITS = 32
_MOST = 1 << 62
_LEAST_PART = 0.25  # of a block's rounds, with which it tells anything


@dataclass
class Block:
    """The items of a block, what has come of its rounds in whole steps, and how many are to come.

    ``skipped`` rounds showed other items, because some were not available.
    """

    items: NDArray[np.int32]
    steps: NDArray[np.int64]
    left: int
    skipped: int = 0


class BlockFeedback(Feedback):
    """One set for each block of rounds. What came of it leaves once, when the last round's reward is there.

    Blocks are known by the numbers of their rounds. A reward that comes late goes to the block of its round,
    which waits for it, and so a round is in one sum whatever happens.
    """

    def __init__(self, settings: ThompsonSettings, gate: Gate, coins: Coins) -> None:
        self._settings, self._coins = settings, coins
        self._total = BatchTotal(gate, settings.noise, exact(settings.bound) / 2**_UNITS, label=LABEL)
        step = self._total.step
        self._finer, self._most = float(1 / step), math.floor(exact(settings.bound) / step)
        self._part = float(step / exact(settings.bound)) / settings.block
        self.by_slot = settings.feedback == "slots"
        self._values = ItemValues(settings)
        self._open: dict[int, Block] = {}
        self._block = -1
        self._current = np.full(settings.k, -1, dtype=np.int32)
        self._released = 0

    def released(self, round: int) -> Iterator[tuple[str, Release, int]]:  # noqa: ARG002
        """What has been released so far."""
        yield LABEL, self._total.release, self._released

    # --- a round ---------------------------------------------------------------------------------

    def show(self, round: int) -> NDArray[np.int32]:
        """The set of this round's block."""
        block = round // self._settings.block
        if block != self._block:
            self._current = self._values.suggest(self._coins.generator)
            steps = np.zeros(self._settings.width, dtype=np.int64)
            self._open[block] = Block(self._current, steps, self._settings.block)
            self._block = block
        return self._current.copy()

    def current(self) -> NDArray[np.int32]:
        """The last set, for rounds after the last."""
        return self._current.copy()

    def stands(self, round: int) -> int:
        """How many rounds of the block come after this one."""
        return self._settings.block - 1 - round % self._settings.block

    def ticket(self, round: int) -> Ticket:
        """What a reward for this round will be about: its block."""
        return (round // self._settings.block,)

    def could_be(self, round: int, ticket: Ticket) -> bool:
        """Whether a round can have had such a ticket."""
        return ticket == self.ticket(round) and ticket[0] in self._open

    def expect(self, late: tuple[int, ...], rounds: Rounds) -> None:
        """Refuse rewards that are to come to blocks which are over without them."""
        length = self._settings.block
        coming: dict[int, int] = {}
        for round in late:
            coming[round // length] = coming.get(round // length, 0) + 1
        if self._block >= 0 and not rounds.over:
            rest = max(0, (self._block + 1) * length - rounds.number)
            coming[self._block] = coming.get(self._block, 0) + rest
        for number, count in coming.items():
            if count > (self._open[number].left if number in self._open else 0):
                raise ValueError(f"open_blocks has no room for the rewards of block {number}")

    def ready(self, value: Any, ticket: Ticket) -> NDArray[np.int64]:
        """A reward, checked, in whole steps: one number, or one for each slot."""
        shown = tuple(self._open[ticket[0]].items.tolist()) if self.by_slot else ()
        return _steps(self.by_slot, shown, self._settings.n_items, *self._scale, value)

    @property
    def _scale(self) -> tuple[float, float, int]:
        return self._settings.bound, self._finer, self._most

    @property
    def most(self) -> int:
        """How many steps one reward has at most, in all."""
        return self._most

    def counting(self) -> Counting:
        """What makes steps of a reward of the block that is shown."""
        shown = tuple(self._current.tolist())
        return partial(_steps, self.by_slot, shown, self._settings.n_items, *self._scale)

    def gather(self, block: int, steps: NDArray[np.int64], rounds: int) -> None:
        """Take up what so many rounds of a block have brought elsewhere."""
        self._open[block].steps += steps
        self._pass(block, rounds)

    def feedback(self, person: Any, items: tuple[int, ...], worth: float) -> Any:
        """What the set is worth to a simulated person, or what each item adds to those above it."""
        return slot_gains(person, items, worth, self._settings.bound) if self.by_slot else worth

    def absorb(self, ticket: Ticket, ready: NDArray[np.int64] | None) -> None:
        """Take up a reward; None is somebody whose round passes with nothing learned, worth 0."""
        if ready is not None:
            self._open[ticket[0]].steps += ready
        self._pass(ticket[0], 1)

    def skip(self, ticket: Ticket) -> None:
        """Other items were shown: the average is one of fewer rounds."""
        self._open[ticket[0]].skipped += 1
        self._pass(ticket[0], 1)

    def restrict(self, active: NDArray[np.bool_]) -> None:
        """Suggest sets of these items only, from the next block on."""
        self._values.restrict(active)

    def known(self, round: int) -> Known:
        """What is believed of the items, in units of value."""
        believed = self._values.believed()
        if believed is None:
            return None, 0, None
        means, deviations = (numbers * self._settings.bound for numbers in believed)
        return means, round, deviations

    def start(self, start: Released) -> None:
        """Begin with what is believed of the items."""
        if start.values is not None and start.deviations is not None:
            bound = self._settings.bound
            self._values.start(start.values / bound, start.deviations / bound)

    def grow(self, settings: ThompsonSettings) -> None:
        """Take up more items, from the next block on."""
        self._values.grow(settings)
        self._settings = settings

    def _pass(self, number: int, rounds: int) -> None:
        """So many rounds of a block are over; after the last one its sums leave, with noise.

        The block is dropped first: an interruption may lose its people, never release them twice.
        """
        block = self._open[number]
        block.left -= rounds
        if block.left > 0:
            return
        del self._open[number]
        self._released = 1
        noisy = self._total.noisy(block.steps)
        part = 1.0 - block.skipped / self._settings.block
        if part >= _LEAST_PART:
            self._values.observe(block.items, noisy.astype(np.float64) * (self._part / part), part)

    # --- a whole stream --------------------------------------------------------------------------

    def run_rows(self, stream: Stream, rows: Rows, rounds: Rounds) -> None:
        """Rounds of people who are rows, compiled, block by block."""
        length, first = self._settings.block, rounds.number
        last = first + int(stream.rewards.size)
        sparse = rows.sparse
        people = (sparse.indptr.view(np.uint64), sparse.indices.view(np.uint32), sparse.data, rows.cap)
        kind = (rows.kind.code, rows.kind.fresh)
        for number in track(range(first // length, -(-last // length)), "blocks", stream.progress):
            start, stop = rounds.number, min(last, (number + 1) * length)
            shown = self.show(start)
            part = slice(start - first, stop - first)
            stream.selections[part] = shown
            rounds.close(stop - start, then=partial(self._add_rows, stream, (*people, *kind), part, number))

    def _add_rows(self, stream: Stream, people: tuple[Any, ...], part: slice, number: int) -> None:
        block = self._open[number]
        backends.bandit.block_stream(
            *people,
            np.uint64(part.start),
            stream.within_limit[part],
            block.items,
            self.by_slot,
            self._finer,
            self._most,
            block.steps,
            stream.rewards[part],
        )
        self._pass(number, part.stop - part.start)

    # --- saving ----------------------------------------------------------------------------------

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """For `resume`. The sums of open blocks are not private."""
        plain, arrays = self._values.state()
        plain |= {"coins": self._coins.snapshot(), "block": self._block, "released": self._released}
        blocks = self._open.values()
        count, settings = len(blocks), self._settings
        return plain, arrays | {
            "current": self._current,
            "open_blocks": np.array(
                [(number, one.left, one.skipped) for number, one in self._open.items()], np.int64
            ).reshape(count, 3),
            "open_items": np.array([one.items for one in blocks], np.int32).reshape(count, settings.k),
            "open_steps": np.array([one.steps for one in blocks], np.int64).reshape(count, settings.width),
        }

    def resume(self, saved: Saved, rounds: Rounds) -> None:
        """Go on with what is believed and the blocks that wait for rewards."""
        settings = self._settings
        passed = rounds.number + rounds.is_open
        self._coins.resume(saved.inner("coins"))
        self._values.resume(saved)
        reached = -(-passed // settings.block) - 1
        # One ahead where an interruption came between drawing and showing.
        self._block = saved.whole("block", at_least=reached, at_most=max(0, rounds.number // settings.block))
        self._released = saved.whole("released", at_least=0, at_most=1)
        k, largest = settings.k, settings.n_items - 1
        self._current = saved.array("current", (k,), np.int32, at_least=-1, at_most=largest)
        numbers = saved.array("open_blocks", (None, 3), np.int64, at_least=0)
        items = saved.array("open_items", (len(numbers), k), np.int32, at_least=0, at_most=largest)
        shape = (len(numbers), settings.width)
        steps = saved.array("open_steps", shape, np.int64, at_least=0, at_most=_MOST)
        for (number, left, skipped), shown, heard in zip(numbers.tolist(), items, steps, strict=True):
            known = settings.block - left
            good = number <= self._block and left > 0 and known >= 0 and number not in self._open
            good = good and int(heard.sum()) <= (known - skipped) * self._most
            good = good and np.unique(shown).size == k
            if not good:
                raise ValueError("open_blocks holds one that cannot have begun")
            self._open[number] = Block(shown.copy(), heard.copy(), left, skipped)
        block = self._open.get(self._block)
        if self._block >= 0 and np.unique(self._current).size != k:
            raise ValueError("the array current is no set of k items")
        if block is not None and not np.array_equal(block.items, self._current):
            raise ValueError("the array current is not what the open block shows")


def _steps(
    by_slot: bool, shown: tuple[int, ...], n_items: int, bound: float, finer: float, most: int, value: Any
) -> NDArray[np.int64]:
    """A reward in whole steps, of which ``finer`` make 1 and ``most`` the bound."""
    if by_slot:
        return slot_steps(value, shown, n_items, bound, finer, most)
    amount = checks.real("value", value, at_least=0.0, at_most=bound) * finer
    return np.array([most if amount >= most else int(amount)], dtype=np.int64)
