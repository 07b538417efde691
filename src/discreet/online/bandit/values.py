"""Bandit experts that hear what the whole shown set was worth, and learn from the rounds that explore."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ... import backends
from ...core import checks
from ...core.progress import track
from ...core.state import Saved
from ...objectives.rows.table import Rows
from ...privacy import ExponentialChoice, Gate, Release
from ...privacy.conversions import exact
from ...privacy.ordered import OrderedExperts, units_per_one
from ..pending import Ticket
from ..protocol import Stream
from ..released import Released
from ..rounds import Rounds
from ..total import BatchTotal
from .feedback import Feedback
from .schedule import Schedule
from .settings import SUMS, TAIL, BanditSettings

_FREE = ExponentialChoice(0.0, 0.0)  # draws that depend on nobody
_NOISE_UNITS = 24  # noise is 2^24 units wide, so that sums of it stay within 63 bits
_MOST = 1 << 61
_SPOILT = -1  # what was heard in a sample of which one round served another set


class ValueFeedback(Feedback):
    """k ordered Hedge experts; those that explore hear f(S + a), S being the items of the experts before.

    What an expert knows is a sum in whole units for each item. Without noise a person moves one of these by
    at most ``bound``, exactly, and the draws protect them. With noise the sum of an exploration sample leaves
    first, on the grid of the noise, and everything after that is post-processing.
    """

    def __init__(self, settings: BanditSettings, gate: Gate, schedule: Schedule) -> None:
        self._settings, self._gate, self.schedule = settings, gate, schedule
        scale = units_per_one(settings.bound)
        step = 1 / scale
        self._total: BatchTotal | None = None
        self._draws = gate.reserve(_FREE, 0)
        self._charged: list[tuple[str, Release]] = []
        if settings.noise is not None:
            if settings.releases:
                self._total = BatchTotal(gate, settings.noise, step, label=SUMS)
                self._charged.append((SUMS, self._total.release))
                step = self._total.step
                if self._total.grid is not None:
                    wide = math.floor(math.log2(2.0**_NOISE_UNITS / self._total.grid.noise_scale))
                    scale = min(scale, Fraction(2) ** wide)
        else:
            gate.expect(*((event, count) for _, event, count in settings.releases))
            for label, event, count in settings.releases:
                release = gate.reserve(event, count, label=label)
                self._charged.append((label, release))
                if label != TAIL:
                    self._draws = release
        self._finer, self._most = float(1 / step), math.floor(exact(settings.bound) / step)
        self._ratio = float(step * scale)
        half = math.floor(exact(settings.bound) * scale) // 2 if settings.centred else 0
        self._centre = settings.repeats * half
        scores = np.zeros((settings.n_items, settings.k), dtype=np.int64)
        self._experts = OrderedExperts(scores, self._rate(0), scale, self._most)
        self._current = np.full(settings.k, -1, dtype=np.int32)
        self._samples: dict[tuple[int, int], list[int]] = {}  # block, expert -> sum so far, rounds to come
        self._noise = np.zeros(1, dtype=np.int64)
        self._released = 0
        self._active = np.ones(settings.n_items, dtype=np.bool_)

    def restrict(self, active: NDArray[np.bool_]) -> None:
        """Draw sets from these items only."""
        gone, back = np.flatnonzero(self._active & ~active), np.flatnonzero(active & ~self._active)
        if gone.size:
            self._experts.close(gone)
        if back.size:
            self._experts.open(back, np.flatnonzero(active & self._active))
        self._active = active

    def start(self, start: Released) -> None:
        """Begin with a preference for the set that stood last."""
        self._experts.prefer(start.items)

    @property
    def compiles(self) -> bool:
        return all(heard >= 0 for heard, _ in self._samples.values())

    def released(self, round: int) -> Iterator[tuple[str, Release, int]]:
        """What has been released so far, at most."""
        for label, release in self._charged:
            if label != TAIL:
                yield label, release, min(release.count, self._released)
            elif round:
                yield label, release, release.count

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
        row = np.full(self._settings.k, -1, dtype=np.int32)
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
        return round // self._settings.block, int(chunk.explore[at]), int(chunk.item[at])

    def could_be(self, round: int, ticket: Ticket) -> bool:
        """Whether a round can have had such a ticket."""
        if not ticket:
            return True
        settings, (block, expert, item) = self._settings, ticket
        return block == round // settings.block and expert < settings.k and item < settings.n_items

    def feedback(self, person: Any, items: tuple[int, ...], worth: float) -> float:  # noqa: ARG002
        """What the set is worth to them."""
        return worth

    def ready(self, value: Any, ticket: Ticket) -> int:  # noqa: ARG002
        """A reward, checked, in whole steps."""
        return self._steps(checks.real("value", value, at_least=0.0, at_most=self._settings.bound))

    def absorb(self, ticket: Ticket, ready: int | None) -> None:
        """Take up a reward; None is somebody whose round passes with nothing learned, worth 0."""
        if not ticket:
            return
        block, expert, item = ticket
        heard, left = self._samples.get((block, expert), [0, self._settings.repeats])
        heard, left = heard if heard == _SPOILT else heard + (ready or 0), left - 1
        if left:
            self._samples[block, expert] = [heard, left]
        else:
            self._samples.pop((block, expert), None)
            if heard != _SPOILT:
                heard += self._noise_for(block, expert)
                self._teach(expert, item, round(float(heard) * self._ratio) - self._centre)

    def skip(self, ticket: Ticket) -> None:
        """Another set was shown: nothing is learned from this exploration sample."""
        if ticket:
            block, expert, _ = ticket
            _, left = self._samples.get((block, expert), [0, self._settings.repeats])
            self._samples[block, expert] = [_SPOILT, left]
            self.absorb(ticket, None)

    def _steps(self, value: float) -> int:
        amount = value * self._finer
        return self._most if amount >= self._most else int(amount)

    def _teach(self, expert: int, item: int, amount: int) -> None:
        self._experts.add_one(item, expert, amount)

    # --- noise -----------------------------------------------------------------------------------

    def _noise_for(self, block: int, expert: int) -> int:
        """The noise of one sample; fresh for one whose chunk has passed."""
        if self._total is None:
            return 0
        self._released = 1
        place = self._place(block, expert)
        return int(self._total.noise(1)[0] if place < 0 else self._noise[place])

    def _place(self, block: int, expert: int) -> int:
        """Where a sample stands among those of the chunk; below 0 if its chunk has passed."""
        first = self.schedule.chunk.start // self._settings.block
        return (block - first) * self._settings.k + expert

    def _reach(self, round: int) -> None:
        """Make the coins of this round's chunk, and the noise of its samples, which nobody has seen."""
        if self.schedule.reach(round):
            self._noise = self._fresh_noise()

    def _fresh_noise(self) -> NDArray[np.int64]:
        """Noise for every sample of the chunk."""
        count = self.schedule.samples
        return np.zeros(count, dtype=np.int64) if self._total is None else self._total.noise(count)

    # --- experts ---------------------------------------------------------------------------------

    def _rate(self, round: int) -> float:
        """The rate on sums of a sample, for sets drawn in this round."""
        return self._settings.rate_after(round // self._settings.block) / self._settings.repeats

    def _at(self, round: int) -> OrderedExperts:
        """The experts, with the weights of this round."""
        rate = self._rate(round)
        return self._experts if rate == self._experts.rate else self._experts.at_rate(rate)

    def _draw(self, round: int) -> None:
        self._current = self._draws.ordered_set(self._at(round))
        self._count_draws(round, 1)

    def _count_draws(self, round: int, sets: int) -> None:
        """Sets drawn after somebody could have been learned from."""
        if self._settings.noise is None:
            self._released += sets - (round == 0)

    # --- a whole stream --------------------------------------------------------------------------

    def run_rows(self, stream: Stream, rows: Rows, rounds: Rounds) -> None:
        """Rounds of people who are rows, compiled; the set of the first round is there already."""
        first, last = rounds.number, rounds.number + int(stream.rewards.size)
        stretches = self._stretches(first, last)
        for index in track(range(len(stretches)), "blocks of rounds", stream.progress):
            start, stop = stretches[index]
            self._reach(start)
            chunk, experts = self.schedule.chunk, self._at(start)
            here = slice(start - chunk.start, stop - chunk.start)
            due = chunk.due[here].copy()
            due[0] &= start != first
            words = self._draws.words(int(due.sum()) * experts.words_per_set)
            self._count_draws(start if due[0] else 1, int(due.sum()))
            if self._total is not None and (chunk.explore[here] >= 0).any():
                self._released = 1
            part = slice(start - first, stop - first)
            # The rounds count as passed before anything is drawn.
            rounds.close(stop - start, then=partial(self._play, stream, rows, part, here, due, words))

    def _play(
        self,
        stream: Stream,
        rows: Rows,
        part: slice,
        here: slice,
        due: NDArray[np.bool_],
        words: NDArray[np.uint64],
    ) -> None:
        """Draw, show and learn in the rounds ``part`` of a stream, which are ``here`` in the chunk."""
        chunk, experts, sparse = self.schedule.chunk, self._experts, rows.sparse
        sums, left = self._open_samples()
        place, current = experts.start(), self._current.copy()
        while backends.bandit.stream(
            *experts.tree_arguments,
            self._finer,
            self._most,
            self._ratio,
            self._centre,
            self._settings.repeats,
            sparse.indptr.view(np.uint64),
            sparse.indices.view(np.uint32),
            sparse.data,
            rows.cap,
            rows.kind.code,
            rows.kind.fresh,
            np.uint64(part.start),
            stream.within_limit[part],
            chunk.explore[here],
            chunk.item[here],
            chunk.sample[here],
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
            experts.settle(self._draws, words, current, place)
        self._current = current
        self._keep_samples(sums, left)

    def _stretches(self, start: int, stop: int) -> list[tuple[int, int]]:
        """Stretches of rounds that share a chunk and a rate."""
        block, stretches = self._settings.block, []
        whole = self.schedule.chunk_length
        while start < stop:
            ends = [stop, (start // whole + 1) * whole]
            if self._settings.rate is None:
                ends.append(block << (start // block).bit_length())  # rates change at powers of two
            stretches.append((start, min(ends)))
            start = min(ends)
        return stretches

    def _open_samples(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Sums so far and rounds to come, for every sample of the chunk; those of other chunks stay."""
        sums = np.zeros(self.schedule.samples, dtype=np.int64)
        left = np.full(self.schedule.samples, self._settings.repeats, dtype=np.int64)
        for block, expert in list(self._samples):
            if (place := self._place(block, expert)) >= 0:
                sums[place], left[place] = self._samples.pop((block, expert))
        return sums, left

    def _keep_samples(self, sums: NDArray[np.int64], left: NDArray[np.int64]) -> None:
        first, k = self.schedule.chunk.start // self._settings.block, self._settings.k
        for place in np.flatnonzero(left < self._settings.repeats).tolist():
            self._samples[first + place // k, place % k] = [int(sums[place]), int(left[place])]

    # --- saving ----------------------------------------------------------------------------------

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """For `resume`. Secret noise that was not used is left out: two that go on would share it."""
        schedule, picked = self.schedule.state()
        plain = {
            "schedule": schedule,
            "released": self._released,
            "samples": [[*key, *sample] for key, sample in self._samples.items()],
        }
        noise = self._noise if self._gate.resumes_alike else self._noise[:0]
        return plain, {"current": self._current, "noise": noise, **picked, **self._experts.state()[1]}

    def resume(self, saved: Saved, rounds: Rounds) -> None:
        """Go on with the scores, the timetable and the samples that were open."""
        settings, number, is_open = self._settings, rounds.number, rounds.is_open
        # Arrays first: what is as large as the file may be made again.
        self._experts.resume(saved, at_least=-_MOST, at_most=_MOST)
        self.schedule.resume(saved.inner("schedule"), rounds)
        k, largest = settings.k, settings.n_items - 1
        self._current = saved.array("current", (k,), np.int32, at_least=-1, at_most=largest)
        chosen = self._current[self._current >= 0]
        if np.unique(chosen).size != (k if number or is_open else chosen.size):
            raise ValueError("the array current is no set of k items")
        noise = saved.array("noise", (None,), np.int64, at_least=-_MOST, at_most=_MOST)
        begun = self.schedule.chunk.stop > 0
        if begun and noise.size and (not self._gate.resumes_alike or noise.size != self.schedule.samples):
            raise ValueError(f"the array noise has {noise.size} entries, which nobody has left there")
        self._noise = noise if noise.size or not begun else self._fresh_noise()
        redrawn = -(-(number + is_open) // settings.block) - 1
        timed = settings.noise is None and not settings.after_exploring
        self._released = saved.whole("released", at_least=max(0, redrawn) if timed else 0, at_most=_MOST)
        self._samples = self._saved_samples(saved.rows("samples", at_most=number), number)

    def _saved_samples(self, rows: list[Any], number: int) -> dict[tuple[int, int], list[int]]:
        samples: dict[tuple[int, int], list[int]] = {}
        settings = self._settings
        for row in rows:
            block, expert, heard, left = row
            good = all(type(value) is int and value >= _SPOILT for value in row)  # nothing is revealed
            good = good and min(block, expert, left) >= 0
            known = settings.repeats - left if good else 0
            good = good and block * settings.block < number and expert < settings.k
            good = good and 0 < known < settings.repeats and heard <= known * self._most
            if not good or (block, expert) in samples:
                raise ValueError("samples holds one that cannot have begun")
            samples[block, expert] = [heard, left]
        return samples
