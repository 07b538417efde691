"""Public coins of a bandit learner: which rounds explore, which expert and item, and when sets are drawn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.state import Saved
from ...privacy import Coins
from .settings import Exploring

_CHUNK = 4096


@dataclass(frozen=True)
class Chunk:
    """Some rounds in a row. ``explore`` is the expert that explores, or -1; ``item`` what it tries.

    ``lesson`` numbers the lessons of the chunk, block by block and expert by expert; where coins decide, a
    lesson is one round, and it only says which expert. ``due`` says before which rounds a new set is drawn.
    """

    start: int
    explore: NDArray[np.int32]
    item: NDArray[np.int32]
    lesson: NDArray[np.int64]
    due: NDArray[np.bool_]

    @property
    def stop(self) -> int:
        return self.start + int(self.explore.size)


class Schedule:
    """The coins, chunk after chunk, from a public generator; nothing here sees anybody's data."""

    def __init__(self, way: Exploring, n_items: int, k: int, rounds: int, coins: Coins) -> None:
        self._way, self._n_items, self._k, self._rounds = way, n_items, k, rounds
        self._coins = coins
        self._picked: NDArray[np.bool_] | None = None
        if way.chosen:
            assert way.exploration_rate is not None
            self._picked = coins.generator.random(rounds) < way.exploration_rate
        self._explored_last = False
        self._before: tuple[dict[str, Any], bool] = (coins.state(), False)
        self.chunk = Chunk(0, *self._nothing(0))

    @property
    def explorations(self) -> int | None:
        """How many rounds were picked in advance; None where coins decide."""
        return None if self._picked is None else int(self._picked.sum())

    @property
    def chunk_length(self) -> int:
        """Rounds of a chunk: some whole blocks."""
        return self._way.block * max(1, _CHUNK // self._way.block)

    @property
    def lessons(self) -> int:
        """How many lessons a chunk has room for."""
        if self._way.exploration_rate is not None:
            return self._k
        return max(1, -(-int(self.chunk.explore.size) // self._way.block)) * self._k

    def reach(self, round: int) -> bool:
        """Make the chunk that holds ``round``; whether it is a new one."""
        if round < self.chunk.stop:
            return False
        self._before = (self._coins.state(), self._explored_last)
        self._make(round)
        return True

    def _make(self, start: int) -> None:
        way = self._way
        length = min(self.chunk_length, self._rounds - start)
        explore, item, lesson, due = self._nothing(length)
        if way.exploration_rate is None:
            self._by_blocks(explore, item, length)
            due[:: way.block] = True
            lesson[:] = np.maximum(explore, 0) + self._k * (np.arange(length) // way.block)
        else:
            # Coins first, then experts and items for all rounds: how many are used changes nothing later.
            coins = self._coins.generator.random(length) < way.exploration_rate
            experts = self._coins.generator.integers(self._k, size=length, dtype=np.int32)
            tried = self._coins.generator.integers(self._n_items, size=length, dtype=np.int32)
            if self._picked is not None:
                coins = self._picked[start : start + length]
            explore[coins], item[coins] = experts[coins], tried[coins]
            if way.after_exploring:
                due[1:] = coins[:-1]
                due[0] = self._explored_last or start == 0
                self._explored_last = bool(coins[-1])
            else:
                due[(-start) % way.block :: way.block] = True
            lesson[:] = np.maximum(explore, 0)
        self.chunk = Chunk(start, explore, item, lesson, due)

    def _by_blocks(self, explore: NDArray[np.int32], item: NDArray[np.int32], length: int) -> None:
        """In every whole block each expert tries one random item, at random places of the block."""
        way, k = self._way, self._k
        whole = length // way.block
        if whole == 0:
            return
        places = self._coins.generator.permuted(np.tile(np.arange(way.block), (whole, 1)), axis=1)
        tried = self._coins.generator.integers(self._n_items, size=(whole, k), dtype=np.int32)
        at = places[:, : k * way.repeats] + way.block * np.arange(whole)[:, None]
        explore[at] = np.repeat(np.arange(k, dtype=np.int32), way.repeats)
        item[at] = np.repeat(tried, way.repeats, axis=1)

    @staticmethod
    def _nothing(
        length: int,
    ) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int64], NDArray[np.bool_]]:
        return (
            np.full(length, -1, dtype=np.int32),
            np.zeros(length, dtype=np.int32),
            np.zeros(length, dtype=np.int64),
            np.zeros(length, dtype=np.bool_),
        )

    # --- saving ----------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Enough to make the same chunk again, and everything after it."""
        coins, explored_last = self._before
        return {
            "coins": coins,
            "explored_last": explored_last,
            "start": self.chunk.start,
            "made": self.chunk.explore.size > 0,
        }

    def arrays(self) -> dict[str, NDArray[Any]]:
        return {} if self._picked is None else {"picked": np.packbits(self._picked)}

    @classmethod
    def restored(
        cls,
        saved: Saved,
        way: Exploring,
        n_items: int,
        k: int,
        rounds: int,
        round: int,
        open: bool,
    ) -> Schedule:
        schedule = object.__new__(cls)
        schedule._way, schedule._n_items, schedule._k, schedule._rounds = way, n_items, k, rounds
        schedule._coins = Coins.restored(saved.inner("coins"))
        schedule._picked = None
        if way.chosen:
            packed = saved.array("picked", (-(-rounds // 8),), np.uint8)
            schedule._picked = np.unpackbits(packed)[:rounds].astype(np.bool_)
        schedule._explored_last = saved.flag("explored_last")
        schedule._before = (dict(saved.plain("coins")), schedule._explored_last)
        schedule.chunk = Chunk(0, *cls._nothing(0))
        if saved.flag("made"):
            start = saved.whole("start", at_least=0, at_most=min(round, rounds - 1))
            if start % schedule.chunk_length:
                raise ValueError(f"start={start} is not where a chunk of rounds begins")
            schedule._make(start)
        if not round + open <= schedule.chunk.stop:
            raise ValueError(f"start={saved.plain('start')} is too long before round {round}")
        return schedule
