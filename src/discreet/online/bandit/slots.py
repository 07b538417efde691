"""Slot feedback: noisy counts of the items that people took, and random sets by them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ... import backends
from ...core.state import Saved
from ...objectives.rows.table import Rows
from ...privacy import Coins, Gate, Release
from ...privacy.conversions import exact
from ..pending import Ticket
from ..protocol import Stream
from ..released import Known, Released
from ..rounds import Rounds
from ..total import BatchTotal
from .feedback import Feedback, slot_gains, slot_steps
from .glances import largest
from .settings import COUNTS, BanditSettings

_UNITS = 32
_DRAWN = 1 << 18  # numbers drawn at once
_GLANCED = 1 << 20  # the same where only the first 16 bits of most are
_FEW = 100  # times k: fewer items than that are drawn one by one
_SHORT_LIST = 4  # times k: about so many items come into question for a list
_MOST_LISTS = 64
# After the first, a block is this part of the rounds before it.
_GROWTH = 0.1
# An item's own record outweighs the common one from so many shows on.
_COMMON = 200.0
# How far a list strays from the records, in standard deviations of them.
_SPREAD = 0.35


class SlotFeedback(Feedback):
    """Noisy counts of what was taken, block after block; lists are drawn around what they say.

    A person takes the first shown item they want (or several in part; together worth at most ``bound``), so
    what an item gets is what it adds to those shown above it. The counts of a block leave with Laplace noise
    when the next one begins: replacing a person moves them by 2 ``bound`` in all, adding or removing one by
    ``bound``, however many items there are. Which items were shown is public, so the others need no noise.

    Every round's list is drawn afresh (Thompson 1933; for lists that are read from the top see Kveton et al.
    2015): each item's average, plus ``_SPREAD`` normal deviations of it, and the k largest in falling order.
    """

    by_slot = True

    def __init__(self, settings: BanditSettings, gate: Gate, coins: Coins) -> None:
        assert settings.noise is not None
        self._settings, self._coins = settings, coins
        step = exact(settings.bound) / 2**_UNITS
        self._total: BatchTotal | None = None
        if settings.releases:
            self._total = BatchTotal(gate, settings.noise, step, label=COUNTS)
            step = self._total.step
        self._step, self._finer, self._width = float(step), float(1 / step), settings.scale
        self._most = math.floor(exact(settings.bound) / step)
        self._taken, self._shows, self._variance = (np.zeros(settings.n_items) for _ in range(3))
        self._open_taken, self._open_shows = (np.zeros(settings.n_items, dtype=np.int64) for _ in range(2))
        self._opens, self._closes, self._released = 0, self._end_of_block(0), 0
        self._lists: NDArray[np.int32] = np.zeros((0, settings.k), dtype=np.int32)
        self._lists_from = 0
        self._current = np.zeros(settings.k, dtype=np.int32)
        self._active = np.ones(settings.n_items, dtype=np.bool_)

    def restrict(self, active: NDArray[np.bool_]) -> None:
        """Draw lists from these items only; lists that were drawn are not shown any more."""
        self._active = active
        self._lists = self._lists[:0]

    def known(self, round: int) -> Known:
        """The records: what each item got when it was shown."""
        weight = np.maximum(self._shows, 1.0)
        own = self._settings.bound**2 / 4.0 * weight
        unknown = np.where(self._shows > 0, 1.0, np.nan)
        deviations = np.sqrt(own + self._variance) / weight
        return self._means() * unknown, round, deviations * unknown

    def start(self, start: Released) -> None:
        """Begin with records that are as sure as what is known."""
        if start.values is None or start.deviations is None:
            return
        bound = self._settings.bound
        known = np.isfinite(start.values) & np.isfinite(start.deviations)
        shows = (bound / 2.0 / np.maximum(start.deviations[known], 1e-9)) ** 2
        shows = np.minimum(shows, start.people)
        self._shows[known] += shows
        self._taken[known] += np.clip(start.values[known], 0.0, bound) * shows

    def grow(self, settings: BanditSettings) -> None:
        """Records of more items, which begin like those of any other."""
        more = np.zeros(settings.n_items - self._settings.n_items)
        self._taken, self._shows, self._variance = (
            np.concatenate((record, more)) for record in (self._taken, self._shows, self._variance)
        )
        whole = more.astype(np.int64)
        self._open_taken = np.concatenate((self._open_taken, whole))
        self._open_shows = np.concatenate((self._open_shows, whole))
        self._settings = settings

    def released(self, round: int) -> Iterator[tuple[str, Release, int]]:  # noqa: ARG002
        """What has been released so far."""
        if self._total is not None:
            yield COUNTS, self._total.release, self._released

    # --- a round ---------------------------------------------------------------------------------

    def show(self, round: int) -> NDArray[np.int32]:
        """The list of this round."""
        self._reach(round)
        self._current = np.array(self._lists[round - self._lists_from], dtype=np.int32)
        return self._current

    def current(self) -> NDArray[np.int32]:
        """The list by the records alone, for rounds after the last."""
        means = np.where(self._active, self._means(), -np.inf)
        best = np.argsort(-means, kind="stable")[: self._settings.k]
        return np.asarray(best, dtype=np.int32)

    def ticket(self, round: int) -> Ticket:  # noqa: ARG002
        """What a reward for this round will be about: the items that were shown."""
        return tuple(self._current.tolist())

    def could_be(self, round: int, ticket: Ticket) -> bool:  # noqa: ARG002
        """Whether a round can have had such a ticket."""
        k, n_items = self._settings.k, self._settings.n_items
        return len(ticket) == k == len(set(ticket)) and max(ticket) < n_items

    def ready(self, value: Any, ticket: Ticket) -> NDArray[np.int64]:
        """What each slot got, in whole steps, from None, the item taken, or one number per slot."""
        settings = self._settings
        return slot_steps(value, ticket, settings.n_items, settings.bound, self._finer, self._most)

    def feedback(self, person: Any, items: tuple[int, ...], worth: float) -> list[float]:
        """What a simulated person takes: what each item adds to those above it."""
        return slot_gains(person, items, worth, self._settings.bound)

    def absorb(self, ticket: Ticket, ready: NDArray[np.int64] | None) -> None:
        """Take up what a round brought, in the open block.

        None is somebody who is not learned from: they count as having taken nothing, because what is shown
        and how often must not tell whether anybody was there.
        """
        items = list(ticket)
        self._open_shows[items] += 1
        if ready is not None:
            self._open_taken[items] += ready

    def skip(self, ticket: Ticket) -> None:
        """Other items were shown: nothing is known of these."""

    def _reach(self, round: int) -> None:
        """Close the block that is over, and draw lists up to this round."""
        if round >= self._closes:
            self._release()
            self._opens, self._closes = round, self._end_of_block(round)
        if round >= self._lists_from + len(self._lists):
            self._make_lists(round)

    def _end_of_block(self, start: int) -> int:
        settings = self._settings
        return min(start + max(settings.block, math.ceil(_GROWTH * start)), settings.rounds)

    def _release(self) -> None:
        """The counts of the open block, with noise; what follows from them is free.

        The block is emptied first: an interruption may lose its people, never release them twice. Noise is
        added to whole steps, before anything is rounded to a float.
        """
        items = np.flatnonzero(self._open_shows)
        counts, shows = self._open_taken[items], self._open_shows[items]
        self._released = 1
        self._open_taken[:], self._open_shows[:] = 0, 0
        if self._total is not None and self._total.grid is not None:
            counts = self._total.noisy(counts)
            self._variance[items] += 2.0 * self._width**2
        self._taken[items] += counts * self._step
        self._shows[items] += shows

    def _means(self) -> NDArray[np.float64]:
        bound, n_items = self._settings.bound, self._settings.n_items
        common = float(self._taken.sum() / max(self._shows.sum(), 1.0))
        common = min(max(common, bound / (100.0 * n_items)), bound)
        return np.asarray((self._taken + common * _COMMON) / (self._shows + _COMMON))

    def _make_lists(self, round: int) -> None:
        bound, n_items, k = self._settings.bound, self._settings.n_items, self._settings.k
        many = n_items >= _FEW * k
        count = max(1, min(_MOST_LISTS, (_GLANCED if many else _DRAWN) // n_items, self._closes - round))
        means, weight = self._means(), self._shows + _COMMON
        chances = np.clip(means / bound, 0.01 / n_items, 1.0 - 0.01 / n_items)
        own = bound**2 * chances * (1.0 - chances) * weight
        deviations = np.sqrt(own + self._variance) / weight
        deviations *= _SPREAD
        if not self._active.all():
            means[~self._active] = -np.inf
        generator = self._coins.generator
        # With many items, one list is drawn in full, and the others are compared with its best items.
        drawn = means + deviations * generator.standard_normal((1 if many else count, n_items))
        top = np.argpartition(-drawn, k - 1, axis=1)[:, :k]
        order = np.argsort(-np.take_along_axis(drawn, top, axis=1), axis=1)
        lists = np.take_along_axis(top, order, axis=1)
        if count > len(lists):
            least = np.partition(drawn[0], -_SHORT_LIST * k)[-_SHORT_LIST * k]
            lists = np.vstack([lists, largest(means, deviations, k, count - 1, least, generator)])
        self._lists = lists.astype(np.int32)
        self._lists_from = round

    # --- a whole stream --------------------------------------------------------------------------

    def run_rows(self, stream: Stream, rows: Rows, rounds: Rounds) -> None:
        """Rounds of people who are rows, compiled."""
        first, last = rounds.number, rounds.number + int(stream.rewards.size)
        while (start := rounds.number) < last:
            self._reach(start)
            stop = min(last, self._lists_from + len(self._lists))
            lists = self._lists[start - self._lists_from : stop - self._lists_from]
            part = slice(start - first, stop - first)
            stream.selections[part], stream.rewards[part] = lists, 0.0
            self._current = lists[-1].copy()
            rounds.close(stop - start, then=partial(self._add_rows, stream, rows, part, lists))

    def _add_rows(self, stream: Stream, rows: Rows, part: slice, lists: NDArray[np.int32]) -> None:
        sparse = rows.sparse
        backends.bandit.chain_stream(
            sparse.indptr.view(np.uint64),
            sparse.indices.view(np.uint32),
            sparse.data,
            rows.cap,
            rows.kind.code,
            rows.kind.fresh,
            np.uint64(part.start),
            stream.within_limit[part],
            lists,
            self._finer,
            self._most,
            self._open_taken,
            self._open_shows,
            stream.rewards[part],
        )

    # --- saving ----------------------------------------------------------------------------------

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """For `resume`. The counts of the open block are not private."""
        plain = {
            "coins": self._coins.snapshot(),
            "opens": self._opens,
            "closes": self._closes,
            "released": self._released,
            "lists_from": self._lists_from,
        }
        return plain, {
            "lists": self._lists,
            "last_list": self._current,
            "taken": self._taken,
            "shows": self._shows,
            "variance": self._variance,
            "open_taken": self._open_taken,
            "open_shows": self._open_shows,
        }

    def resume(self, saved: Saved, rounds: Rounds) -> None:
        """Go on with the records, the open block and the lists that were drawn."""
        number, shape = rounds.number, (self._settings.n_items,)
        self._taken, self._shows = saved.array("taken", shape), saved.array("shows", shape, at_least=0.0)
        self._variance = saved.array("variance", shape, at_least=0.0)
        self._open_shows = saved.array("open_shows", shape, np.int64, at_least=0, at_most=number)
        most = number * self._most
        self._open_taken = saved.array("open_taken", shape, np.int64, at_least=0, at_most=most)
        self._opens = saved.whole("opens", at_least=0, at_most=min(number, self._settings.rounds - 1))
        self._closes = self._end_of_block(self._opens)
        if saved.plain("closes") != self._closes:
            raise ValueError(
                f"closes={saved.plain('closes')}; a block from {self._opens} ends at {self._closes}"
            )
        self._released = saved.whole("released", at_least=min(1, self._opens), at_most=1)
        self._coins.resume(saved.inner("coins"))
        self._lists_from = saved.whole("lists_from", at_least=0, at_most=number)
        k, largest = self._settings.k, self._settings.n_items - 1
        self._lists = saved.array("lists", (None, k), np.int32, at_least=0, at_most=largest)
        self._current = saved.array("last_list", (k,), np.int32, at_least=0, at_most=largest)
        if any(np.unique(row).size < k for row in self._lists):
            raise ValueError("the array lists has one with an item twice")
        if len(self._lists) and self._lists_from < self._opens:
            raise ValueError(f"lists_from={self._lists_from} is too small: the open block began later")
        ends = self._lists_from + len(self._lists)
        if len(self._lists) and not number + rounds.is_open <= ends <= self._closes:
            raise ValueError(f"lists_from={self._lists_from} is too long before round {number}")
