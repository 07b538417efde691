"""Bandit experts that hear what the whole shown set was worth, and learn from the rounds that explore."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ... import backends
from ...core import checks
from ...core.progress import track
from ...core.state import Saved
from ...objectives import answers
from ...objectives.rows.table import Rows
from ...privacy import Event, ExponentialChoice, Gate, LaplaceNoise, samplers
from ...privacy.conversions import exact
from ...privacy.ordered import OrderedExperts
from ..protocol import Stream
from . import settings as settings
from .schedule import Schedule
from .settings import Exploring

_UNITS = 32  # a value as large as the bound is between 2^31 and 2^32 units
_FREE = ExponentialChoice(0.0, 0.0)  # draws that depend on nobody
_NOISE_UNITS = 24  # noise is 2^24 units wide, so that sums of it stay within 63 bits

Ticket = tuple[int, ...]


class ValueFeedback:
    """k ordered Hedge experts; those that explore hear f(S + a), S being the items of the experts before.

    What an expert knows is a sum in whole units for each item. Without noise a person moves one of these by
    at most ``bound``, exactly, and the draws protect them. With noise the sum of a lesson leaves first, on
    the grid of the noise, and everything after that is post-processing.
    """

    def __init__(self, way: Exploring, n_items: int, k: int, rounds: int, bound: float, gate: Gate) -> None:
        self.way, self._n_items, self._k, self._rounds, self._bound = way, n_items, k, rounds, bound
        self._gate = gate
        self.schedule = Schedule(way, n_items, k, rounds, gate.coins())
        if way.chosen:
            assert self.schedule.explorations is not None
            rate = settings.presampled_rate(k, self.schedule.explorations, gate.budget, bound)
            self.way = replace(way, rate=rate)
        self._settle()
        self._gains = np.zeros((n_items, k), dtype=np.int64)
        self._current = np.full(k, -1, dtype=np.int32)
        self._lessons: dict[tuple[int, int], list[int]] = {}  # block, expert -> sum so far, rounds to come
        self._noise = np.zeros(1, dtype=np.int64)
        self._released = 0
        releases = self.releases()
        gate.expect(*((event, count) for _, event, count in releases))
        self._reserve()

    def _reserve(self) -> None:
        """Pay for everything: choices are drawn by one release, and noise by the other."""
        self._draws = self._noises = self._gate.reserve(_FREE, 0)
        for label, event, count in self.releases():
            release = self._gate.reserve(event, count, label=label)
            if isinstance(event, LaplaceNoise):
                self._noises = release
            else:
                self._draws = release

    def _settle(self) -> None:
        """What follows from the settings: units, steps, the noise's grid."""
        bound = exact(self._bound)
        scale = Fraction(2) ** (_UNITS - math.ceil(math.log2(self._bound)))
        self._grid: samplers.Grid | None = None
        step = 1 / scale
        for _, event, _ in self.releases():
            if isinstance(event, LaplaceNoise) and event.scale:
                self._grid = samplers.Grid.for_noise(event.scale, event.sensitivity, 0)
                step = self._grid.step
                wide = math.floor(math.log2(2.0**_NOISE_UNITS / self._grid.noise_scale))
                scale = min(scale, Fraction(2) ** wide)
        self._scale, self._finer, self._most = scale, float(1 / step), math.floor(bound / step)
        self._ratio = float(step * scale)
        half = math.floor(bound * scale) // 2 if self.way.centred else 0
        self._centre = self.way.repeats * half
        self._machine: OrderedExperts | None = None
        self._rate = 0.0

    # --- the account -----------------------------------------------------------------------------

    def releases(self) -> list[tuple[str, Event, int]]:
        """What the whole run releases."""
        return settings.releases(
            self.way, self._rounds, self._gate.budget, self._bound, self.schedule.explorations
        )

    def spent(self, round: int) -> Iterator[tuple[str, Event, int]]:
        """What has been released so far, at most."""
        for label, event, count in self.releases():
            if label != settings.TAIL:
                yield label, event, min(count, self._released)
            elif round:
                yield label, event, count

    # --- a round ---------------------------------------------------------------------------------

    def show(self, round: int) -> NDArray[np.int32]:
        """The items of this round, -1 where an exploring set has fewer than k."""
        self._reach(round)
        chunk = self.schedule.chunk
        at = round - chunk.start
        if chunk.due[at]:
            self._draw(round)
        expert = int(chunk.explore[at])
        if expert < 0:
            return self._current.copy()
        row = np.full(self._k, -1, dtype=np.int32)
        row[:expert] = self._current[:expert]
        if chunk.item[at] not in row[:expert]:
            row[expert] = chunk.item[at]
        return row

    def current(self) -> NDArray[np.int32]:
        """The set that is served where nothing is tried."""
        return self._current.copy()

    def ticket(self, round: int) -> Ticket:
        """What a reward for this round will be about: the block, the expert and the item; empty for none."""
        chunk = self.schedule.chunk
        at = round - chunk.start
        if chunk.explore[at] < 0:
            return ()
        return round // self.way.block, int(chunk.explore[at]), int(chunk.item[at])

    def ready(self, value: Any, ticket: Ticket) -> int:  # noqa: ARG002
        """A reward, checked, in whole steps."""
        return self._steps(checks.real("value", value, at_least=0.0, at_most=self._bound))

    def see(self, person: Any, items: tuple[int, ...]) -> float:
        """What a simulated person tells about the set."""
        return answers.number("value", person.value(items), 0.0, self._bound)

    def absorb(self, ticket: Ticket, steps: int | None) -> None:
        """Take up a reward; None is somebody whose round passes with nothing learned, worth 0."""
        if not ticket:
            return
        block, expert, item = ticket
        lesson = self._lessons.get((block, expert), [0, self.way.repeats])
        lesson = [lesson[0] + (steps or 0), lesson[1] - 1]
        if lesson[1]:
            self._lessons[block, expert] = lesson
        else:
            self._lessons.pop((block, expert), None)
            heard = lesson[0] + self._noise_for(block, expert)
            amount = round(float(heard) * self._ratio) - self._centre
            self._teach(expert, item, amount)

    def _steps(self, value: float) -> int:
        amount = value * self._finer
        return self._most if amount >= self._most else int(amount)

    def _noise_for(self, block: int, expert: int) -> int:
        """The noise of one lesson; fresh for one whose chunk has passed."""
        if self.way.mode == "blocks":
            self._released = 1
        if self._grid is None:
            return 0
        place = self._place(block, expert)
        if place < 0:
            return int(self._noises.steps(1)[0])
        return int(self._noise[place])

    def _place(self, block: int, expert: int) -> int:
        """Where a lesson stands among those of the chunk; below 0 if its chunk has passed."""
        return (block - self.schedule.chunk.start // self.way.block) * self._k + expert

    def _reach(self, round: int) -> None:
        """Make the coins of this round's chunk, and the noise of its lessons, which nobody has seen."""
        if self.schedule.reach(round):
            self._noise = self._fresh_noise()

    def _fresh_noise(self) -> NDArray[np.int64]:
        """Noise for every lesson of the chunk."""
        count = self.schedule.lessons
        if self._grid is None:
            return np.zeros(count, dtype=np.int64)
        return self._noises.steps(count)

    # --- experts ---------------------------------------------------------------------------------

    def _compiled(self, round: int) -> OrderedExperts:
        rate = self.way.rate_after(self._n_items, round // self.way.block, self._bound)
        if self._machine is None or rate != self._rate:
            self._rate = rate
            self._machine = OrderedExperts(self._gains, rate / self.way.repeats, self._scale, self._most)
        return self._machine

    def _draw(self, round: int) -> None:
        self._current = self._draws.ordered_set(self._compiled(round))
        self._count_draws(round, 1)

    def _count_draws(self, round: int, sets: int) -> None:
        """Sets drawn after somebody could have been learned from."""
        if self.way.mode != "blocks":
            self._released += sets - (round == 0)

    def _teach(self, expert: int, item: int, amount: int) -> None:
        if self._machine is None:
            self._gains[item, expert] += amount
            return

        flat, refs, tree, starts, _, _, k, unit, tile, scratch = self._machine.tree_arguments
        backends.bandit.teach(
            flat, refs, tree, starts, k, unit, tile, scratch, np.uint64(expert), np.uint32(item), amount
        )

    # --- a whole stream --------------------------------------------------------------------------

    def run_rows(self, stream: Stream, rows: Rows, round: int) -> Iterator[int]:
        """Rounds of people who are rows, compiled; yields after which round each part ends.

        The set of the first round is there already.
        """

        sparse, first, total = rows.sparse, round, int(stream.rewards.size)
        people = (sparse.indptr.view(np.uint64), sparse.indices.view(np.uint32), sparse.data, rows.cap)
        parts = self._parts(round, round + total)
        for index in track(range(len(parts)), "blocks of rounds", stream.progress):
            start, stop = parts[index]
            self._reach(start)
            chunk = self.schedule.chunk
            machine = self._compiled(start)
            here, part = slice(start - chunk.start, stop - chunk.start), slice(start - first, stop - first)
            due = chunk.due[here].copy()
            due[0] &= start != first
            words = self._draws.words(int(due.sum()) * machine.words_per_set)
            self._count_draws(start if due[0] else 1, int(due.sum()))
            if self.way.mode == "blocks" and (chunk.explore[here] >= 0).any():
                self._released = 1
            yield stop  # the rounds count as passed before anything is drawn
            sums, left = self._open_lessons()
            place, current = machine.start(), self._current.copy()
            while backends.bandit.stream(
                *machine.tree_arguments,
                self._finer,
                self._most,
                self._ratio,
                self._centre,
                self.way.repeats,
                *people,
                rows.kind.code,
                rows.kind.fresh,
                np.uint64(part.start),
                stream.admitted[part],
                chunk.explore[here],
                chunk.item[here],
                chunk.lesson[here],
                due,
                self._noise,
                sums,
                left,
                words,
                current,
                place,
                stream.rewards[part],
                stream.selections[part],
            ):
                machine.settle(self._draws, words, current, place)
            self._current = current
            self._keep_lessons(sums, left)

    def _parts(self, start: int, stop: int) -> list[tuple[int, int]]:
        """Stretches of rounds that share a chunk and a rate."""
        block, parts = self.way.block, []
        whole = self.schedule.chunk_length
        while start < stop:
            ends = [stop, (start // whole + 1) * whole]
            if self.way.rate is None:
                ends.append(block << (start // block).bit_length())  # rates change at powers of two
            parts.append((start, min(ends)))
            start = min(ends)
        return parts

    def _open_lessons(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Sums so far and rounds to come, for every lesson of the chunk; those of other chunks stay."""
        sums = np.zeros(self.schedule.lessons, dtype=np.int64)
        left = np.full(self.schedule.lessons, self.way.repeats, dtype=np.int64)
        for block, expert in list(self._lessons):
            if (place := self._place(block, expert)) >= 0:
                sums[place], left[place] = self._lessons.pop((block, expert))
        return sums, left

    def _keep_lessons(self, sums: NDArray[np.int64], left: NDArray[np.int64]) -> None:
        first = self.schedule.chunk.start // self.way.block
        for place in np.flatnonzero(left < self.way.repeats).tolist():
            key = first + place // self._k, place % self._k
            self._lessons[key] = [int(sums[place]), int(left[place])]

    # --- saving ----------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        return {
            "way": self.way.to_json(),
            "schedule": self.schedule.state(),
            "released": self._released,
            "lessons": [[*key, *lesson] for key, lesson in self._lessons.items()],
        }

    def arrays(self) -> dict[str, NDArray[Any]]:
        # Secret noise that was not used is not written down: two that go on from one file would share it.
        kept = self._noise if self._gate.resumes_alike else self._noise[:0]
        own: dict[str, NDArray[Any]] = {"gains": self._gains, "current": self._current, "noise": kept}
        return own | self.schedule.arrays()

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
    ) -> ValueFeedback:
        made = object.__new__(cls)
        made._n_items, made._k, made._rounds, made._bound, made._gate = n_items, k, rounds, bound, gate
        # Arrays first: what is as large as the file may be made again.
        made._gains = saved.array("gains", (n_items, k), np.int64, at_least=-(1 << 61), at_most=1 << 61)
        made.way = Exploring.restored(saved.inner("way"), k)
        made.schedule = Schedule.restored(saved.inner("schedule"), made.way, n_items, k, rounds, round, open)
        made._settle()
        made._reserve()
        made._current = saved.array("current", (k,), np.int32, at_least=-1, at_most=n_items - 1)
        chosen = made._current[made._current >= 0]
        if np.unique(chosen).size != chosen.size or chosen.size not in (0, k) or (open and not chosen.size):
            raise ValueError("the array current is no set of k items")
        noise = saved.array("noise", (None,), np.int64, at_least=-(1 << 61), at_most=1 << 61)
        begun = made.schedule.chunk.stop > 0
        if begun and noise.size and (not gate.resumes_alike or noise.size != made.schedule.lessons):
            raise ValueError(f"the array noise has {noise.size} entries, which nobody has left there")
        made._noise = noise if noise.size or not begun else made._fresh_noise()
        redrawn = -(-(round + open) // made.way.block) - 1
        timed = made.way.mode != "blocks" and not made.way.after_exploring
        made._released = saved.whole("released", at_least=max(0, redrawn) if timed else 0)
        made._lessons = made._saved_lessons(saved.rows("lessons", at_most=round), round)
        return made

    def _saved_lessons(self, rows: list[Any], round: int) -> dict[tuple[int, int], list[int]]:
        lessons: dict[tuple[int, int], list[int]] = {}
        for row in rows:
            block, expert, heard, left = (checks.whole("lessons", number, at_least=0) for number in row)
            told = self.way.repeats - left
            good = block * self.way.block < round and expert < self._k and 0 < told < self.way.repeats
            if not good or (block, expert) in lessons or heard > told * self._most:
                raise ValueError("lessons holds one that cannot have begun")
            lessons[block, expert] = [heard, left]
        return lessons

    def could_be(self, round: int, ticket: list[int]) -> bool:
        """Whether a round can have had such a ticket."""
        if not ticket:
            return True
        block, expert, item = ticket
        return block == round // self.way.block and expert < self._k and item < self._n_items
