"""The timetable of a bandit learner, by public coins: who explores which item when, when sets are drawn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.state import Saved
from ...privacy import Coins
from ..rounds import Rounds
from .settings import BanditSettings

_CHUNK = 4096


@dataclass(frozen=True)
class Chunk:
    """Some rounds in a row. ``explore`` is the expert that explores, or -1; ``item`` what it tries.

    ``sample`` numbers the exploration samples of the chunk, block by block and expert by expert; where coins
    decide, a sample is one round, and it only says which expert. ``due`` says before which rounds a new set
    is drawn.
    """

    start: int
    explore: NDArray[np.int32]
    item: NDArray[np.int32]
    sample: NDArray[np.int64]
    due: NDArray[np.bool_]

    @property
    def stop(self) -> int:
        return self.start + int(self.explore.size)


class Schedule:
    """The coins, chunk after chunk, from a public generator; nothing here sees anybody's data."""

    def __init__(self, settings: BanditSettings, coins: Coins) -> None:
        self._settings, self._coins = settings, coins
        self._picked: NDArray[np.bool_] | None = None
        if settings.picked and settings.explorations is None:
            assert settings.exploration_rate is not None
            self._picked = coins.generator.random(settings.rounds) < settings.exploration_rate
        self._explored_last = False
        self._before: tuple[dict[str, Any], bool] = (coins.snapshot(), False)
        self.chunk = Chunk(0, *_nothing(0))

    @property
    def explorations(self) -> int | None:
        """How many rounds were picked in advance; None where coins decide."""
        return None if self._picked is None else int(self._picked.sum())

    @property
    def chunk_length(self) -> int:
        """Rounds of a chunk: some whole blocks."""
        return self._settings.block * max(1, _CHUNK // self._settings.block)

    @property
    def samples(self) -> int:
        """How many exploration samples a chunk has room for."""
        settings = self._settings
        if settings.exploration_rate is not None:
            return settings.k
        return max(1, -(-int(self.chunk.explore.size) // settings.block)) * settings.k

    def reach(self, round: int) -> bool:
        """Make the chunk that holds ``round``; whether it is a new one."""
        if round < self.chunk.stop:
            return False
        self._before = (self._coins.snapshot(), self._explored_last)
        self._make(round)
        return True

    def _make(self, start: int) -> None:
        settings, coins = self._settings, self._coins.generator
        length = min(self.chunk_length, settings.rounds - start)
        explore, item, sample, due = _nothing(length)
        if settings.exploration_rate is None:
            self._by_blocks(explore, item, length)
            due[:: settings.block] = True
            sample[:] = np.maximum(explore, 0) + settings.k * (np.arange(length) // settings.block)
        else:
            # Coins first, then experts and items for all rounds: how many are used changes nothing later.
            explores = coins.random(length) < settings.exploration_rate
            experts = coins.integers(settings.k, size=length, dtype=np.int32)
            tried = coins.integers(settings.n_items, size=length, dtype=np.int32)
            if self._picked is not None:
                explores = self._picked[start : start + length]
            explore[explores], item[explores] = experts[explores], tried[explores]
            if settings.after_exploring:
                due[1:] = explores[:-1]
                due[0] = self._explored_last or start == 0
                self._explored_last = bool(explores[-1])
            else:
                due[(-start) % settings.block :: settings.block] = True
            sample[:] = np.maximum(explore, 0)
        self.chunk = Chunk(start, explore, item, sample, due)

    def _by_blocks(self, explore: NDArray[np.int32], item: NDArray[np.int32], length: int) -> None:
        """In every whole block each expert tries one random item, at random places of the block."""
        settings, coins, k = self._settings, self._coins.generator, self._settings.k
        whole = length // settings.block
        if whole == 0:
            return
        places = coins.permuted(np.tile(np.arange(settings.block), (whole, 1)), axis=1)
        tried = coins.integers(settings.n_items, size=(whole, k), dtype=np.int32)
        at = places[:, : k * settings.repeats] + settings.block * np.arange(whole)[:, None]
        explore[at] = np.repeat(np.arange(k, dtype=np.int32), settings.repeats)
        item[at] = np.repeat(tried, settings.repeats, axis=1)

    # --- saving ----------------------------------------------------------------------------------

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Enough to make the same chunk again, and everything after it."""
        coins, explored_last = self._before
        plain = {
            "coins": coins,
            "explored_last": explored_last,
            "start": self.chunk.start,
            "made": self.chunk.explore.size > 0,
        }
        return plain, {} if self._picked is None else {"picked": np.packbits(self._picked)}

    def resume(self, saved: Saved, rounds: Rounds) -> None:
        """Go on with the chunk that was open."""
        settings, number = self._settings, rounds.number
        self._coins.resume(saved.inner("coins"))
        if settings.picked:
            packed = saved.array("picked", (-(-settings.rounds // 8),), np.uint8)
            self._picked = np.unpackbits(packed)[: settings.rounds].astype(np.bool_)
            if self.explorations != settings.explorations:
                raise ValueError(f"the array picked has not explorations={settings.explorations} rounds")
        self._explored_last = saved.flag("explored_last")
        self._before = (self._coins.snapshot(), self._explored_last)
        if saved.flag("made"):
            start = saved.whole("start", at_least=0, at_most=min(number, settings.rounds - 1))
            if start % self.chunk_length:
                raise ValueError(f"start={start} is not where a chunk of rounds begins")
            self._make(start)
        if not number + rounds.is_open <= self.chunk.stop:
            raise ValueError(f"start={saved.plain('start')} is too long before round {number}")


def _nothing(
    length: int,
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int64], NDArray[np.bool_]]:
    return (
        np.full(length, -1, dtype=np.int32),
        np.zeros(length, dtype=np.int32),
        np.zeros(length, dtype=np.int64),
        np.zeros(length, dtype=np.bool_),
    )
