"""A bandit that hears which of the shown items a person took: counts with noise, and random sets by them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ... import backends
from ...core import checks
from ...core.state import Saved
from ...objectives import answers
from ...objectives.rows.table import Rows
from ...privacy import Coins, Event, Gate, ScoreChange, samplers
from ...privacy.conversions import exact
from ..protocol import Stream
from .settings import laplace_on_sums

COUNTS = "noisy counts of what was taken from the shown items (nobody is in two of them)"
_UNITS = 32
_DRAWN = 1 << 18  # numbers drawn at once
_MOST_LISTS = 64
# After the first, a block is this part of the rounds before it.
_GROWTH = 0.1
# An item's own record outweighs the common one from so many shows on.
_COMMON = 200.0
# How far a list strays from the records, in standard deviations of them.
_SPREAD = 0.35

Ticket = tuple[int, ...]
Counts = NDArray[np.int64]


class SlotFeedback:
    """Noisy counts of what was taken, block after block; lists are drawn around what they say.

    A person takes the first shown item they want (or several in part; together worth at most ``bound``), so
    what an item gets is what it adds to those shown above it. The counts of a block leave with Laplace noise
    when the next one begins: replacing a person moves them by 2 ``bound`` in all, adding or removing one by
    ``bound``, however many items there are. Which items were shown is public, so the others need no noise.

    Every round's list is drawn afresh (Thompson 1933; for lists that are read from the top see Kveton et al.
    2015): each item's average, plus ``_SPREAD`` normal deviations of it, and the k largest in falling order.
    """

    def __init__(
        self, n_items: int, k: int, rounds: int, bound: float, gate: Gate, first_block: int | None
    ) -> None:
        self._n_items, self._k, self._rounds, self._bound, self._gate = n_items, k, rounds, bound, gate
        self._settle()
        self.first_block = self._first_block() if first_block is None else first_block
        self._coins = gate.coins()
        self._taken, self._shows, self._variance = (np.zeros(n_items) for _ in range(3))
        self._open_taken, self._open_shows = (np.zeros(n_items, dtype=np.int64) for _ in range(2))
        self._opens, self._closes, self._released = 0, self._end_of_block(0), 0
        self._lists: NDArray[np.int32] = np.zeros((0, k), dtype=np.int32)
        self._lists_from = 0
        self._before: dict[str, Any] = self._coins.state()
        self._reserve()

    def _reserve(self) -> None:
        for label, event, count in self.releases():
            self._noises = self._gate.reserve(event, count, label=label)

    def _settle(self) -> None:
        budget = self._gate.budget
        moves = ScoreChange(self._bound, one_directional=budget.neighbours == "add_remove").range
        self._event = laplace_on_sums(budget, moves, self._bound, self._rounds)
        self._grid: samplers.Grid | None = None
        step = exact(self._bound) / 2**_UNITS
        if budget.private:
            self._grid = samplers.Grid.for_noise(self._event.scale, self._event.sensitivity, 0)
            step = self._grid.step
        self._step, self._finer = float(step), float(1 / step)
        self._most = math.floor(exact(self._bound) / step)

    def _first_block(self) -> int:
        """Long enough for an item to be shown some times as often as the noise is wide."""
        noise = float(self._event.scale) / self._bound
        shows = 8.0 * max(1.0, noise)
        return max(1, min(math.ceil(shows * self._n_items / self._k), self._rounds // 8))

    # --- the account -----------------------------------------------------------------------------

    def releases(self) -> list[tuple[str, Event, int]]:
        """What the whole run releases."""
        return [(COUNTS, self._event, 1)] if self._rounds > 1 else []

    def spent(self, round: int) -> Iterator[tuple[str, Event, int]]:  # noqa: ARG002
        """What has been released so far."""
        for label, event, count in self.releases():
            yield label, event, min(count, self._released)

    # --- a round ---------------------------------------------------------------------------------

    def show(self, round: int) -> NDArray[np.int32]:
        """The list of this round."""
        self._reach(round)
        return np.array(self._lists[round - self._lists_from], dtype=np.int32)

    def current(self) -> NDArray[np.int32]:
        """The list by the records alone, for rounds after the last."""
        best = np.argsort(-self._means(), kind="stable")[: self._k]
        return np.asarray(best, dtype=np.int32)

    def ticket(self, round: int) -> Ticket:
        """What a reward for this round will be about: the items that were shown."""
        return tuple(int(item) for item in self._lists[round - self._lists_from])

    def ready(self, value: Any, ticket: Ticket) -> NDArray[np.int64]:
        """What each slot got, in whole steps, from None, the item taken, or one number per slot."""
        got = np.zeros(self._k, dtype=np.int64)
        if value is None:
            return got
        if np.ndim(value) == 0:
            item = checks.whole("value", value, at_least=0, at_most=self._n_items - 1)
            if item not in ticket:
                raise ValueError(f"value={item} was not shown in that round; shown were {list(ticket)}")
            got[ticket.index(item)] = self._most
            return got
        values = checks.vector("value", value, length=self._k)
        if values.min() < 0.0 or values.sum() > self._bound * (1.0 + 1e-9):
            raise ValueError(
                f"value={values.tolist()} must hold no negative number and sum to at most"
                f" bound={self._bound:g}"
            )
        spare = self._most
        for slot in range(self._k):
            got[slot] = min(int(values[slot] * self._finer), spare)
            spare -= int(got[slot])
        return got

    def see(self, person: Any, items: tuple[int, ...]) -> list[float]:
        """What a simulated person takes: what each item adds to those above it."""
        state, gained = person.start(), []
        for item in items:
            before = answers.number("value", state.value, 0.0, self._bound)
            state.add(item)
            gained.append(max(0.0, answers.number("value", state.value, 0.0, self._bound) - before))
        return gained

    def absorb(self, ticket: Ticket, got: NDArray[np.int64] | None) -> None:
        """Take up what a round brought, in the open block.

        None is somebody who is not learned from: they count as having taken nothing, because what is shown
        and how often must not tell whether anybody was there.
        """
        items = list(ticket)
        self._open_shows[items] += 1
        if got is not None:
            self._open_taken[items] += got

    def _reach(self, round: int) -> None:
        """Close the block that is over, and draw lists up to this round."""
        if round >= self._closes:
            self._release()
            self._opens, self._closes = round, self._end_of_block(round)
        if round >= self._lists_from + len(self._lists):
            self._before = self._coins.state()
            self._make_lists(round)

    def _end_of_block(self, start: int) -> int:
        return min(start + max(self.first_block, math.ceil(_GROWTH * start)), self._rounds)

    def _release(self) -> None:
        """The counts of the open block, with noise; what follows from them is free.

        The block is emptied first: an interruption may lose its people, never release them twice. Noise is
        added to whole steps, before anything is rounded to a float.
        """
        items = np.flatnonzero(self._open_shows)
        counts, shows = self._open_taken[items], self._open_shows[items]
        self._released = 1
        self._open_taken[:], self._open_shows[:] = 0, 0
        if self._grid is not None:
            counts += self._noises.steps(items.size)
            self._variance[items] += 2.0 * float(self._event.scale) ** 2
        self._taken[items] += counts * self._step
        self._shows[items] += shows

    def _means(self) -> NDArray[np.float64]:
        common = float(self._taken.sum() / max(self._shows.sum(), 1.0))
        common = min(max(common, self._bound / (100.0 * self._n_items)), self._bound)
        return np.asarray((self._taken + common * _COMMON) / (self._shows + _COMMON))

    def _make_lists(self, round: int) -> None:
        count = max(1, min(_MOST_LISTS, _DRAWN // self._n_items, self._closes - round))
        means, weight = self._means(), self._shows + _COMMON
        chances = np.clip(means / self._bound, 0.01 / self._n_items, 1.0 - 0.01 / self._n_items)
        own = self._bound**2 * chances * (1.0 - chances) * weight
        deviations = np.sqrt(own + self._variance) / weight
        drawn = means + _SPREAD * deviations * self._coins.generator.standard_normal((count, self._n_items))
        top = np.argpartition(-drawn, self._k - 1, axis=1)[:, : self._k]
        order = np.argsort(-np.take_along_axis(drawn, top, axis=1), axis=1)
        self._lists = np.take_along_axis(top, order, axis=1).astype(np.int32)
        self._lists_from = round

    # --- a whole stream --------------------------------------------------------------------------

    def run_rows(self, stream: Stream, rows: Rows, round: int) -> Iterator[int]:
        """Rounds of people who are rows, compiled; yields after which round each part ends."""

        sparse, first, last = rows.sparse, round, round + int(stream.rewards.size)
        people = (sparse.indptr.view(np.uint64), sparse.indices.view(np.uint32), sparse.data, rows.cap)
        while round < last:
            self._reach(round)
            stop = min(last, self._lists_from + len(self._lists))
            lists = self._lists[round - self._lists_from : stop - self._lists_from]
            part = slice(round - first, stop - first)
            stream.selections[part], stream.rewards[part] = lists, 0.0
            yield stop
            backends.bandit.chain_stream(
                *people,
                rows.kind.code,
                rows.kind.fresh,
                np.uint64(part.start),
                stream.admitted[part],
                lists,
                self._finer,
                self._most,
                self._open_taken,
                self._open_shows,
                stream.rewards[part],
            )
            round = stop

    # --- saving ----------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        return {
            "first_block": self.first_block,
            "coins": self._before,
            "opens": self._opens,
            "closes": self._closes,
            "released": self._released,
            "lists_from": self._lists_from,
            "made": len(self._lists) > 0,
        }

    def arrays(self) -> dict[str, NDArray[Any]]:
        return {
            "taken": self._taken,
            "shows": self._shows,
            "variance": self._variance,
            "open_taken": self._open_taken,
            "open_shows": self._open_shows,
        }

    @classmethod
    def restored(
        cls,
        saved: Saved,
        n_items: int,
        k: int,
        rounds: int,
        bound: float,
        gate: Gate,
        round: int,
        open: bool,
    ) -> SlotFeedback:
        made = object.__new__(cls)
        made._n_items, made._k, made._rounds, made._bound, made._gate = n_items, k, rounds, bound, gate
        made._settle()
        made._reserve()
        shape = (n_items,)
        made._taken, made._shows = saved.array("taken", shape), saved.array("shows", shape, at_least=0.0)
        made._variance = saved.array("variance", shape, at_least=0.0)
        made._open_shows = saved.array("open_shows", shape, np.int64, at_least=0, at_most=round)
        most = round * made._most
        made._open_taken = saved.array("open_taken", shape, np.int64, at_least=0, at_most=most)
        made.first_block = saved.whole("first_block", at_least=1)
        made._opens = saved.whole("opens", at_least=0, at_most=min(round, rounds - 1))
        made._closes = made._end_of_block(made._opens)
        if saved.plain("closes") != made._closes:
            raise ValueError(
                f"closes={saved.plain('closes')}; a block from {made._opens} ends at {made._closes}"
            )
        made._released = saved.whole("released", at_least=min(1, made._opens), at_most=1)
        made._coins, made._before = Coins.restored(saved.inner("coins")), dict(saved.plain("coins"))
        made._lists = np.zeros((0, k), dtype=np.int32)
        made._lists_from = saved.whole("lists_from", at_least=made._opens, at_most=round)
        if saved.flag("made"):
            made._make_lists(made._lists_from)
        if not round + open <= made._lists_from + len(made._lists) <= made._closes:
            raise ValueError(f"lists_from={made._lists_from} is too long before round {round}")
        return made

    def could_be(self, round: int, ticket: list[int]) -> bool:  # noqa: ARG002
        """Whether a round can have had such a ticket."""
        return len(ticket) == self._k == len(set(ticket)) and max(ticket) < self._n_items
