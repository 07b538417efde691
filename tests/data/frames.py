"""What `discreet.spark` asks of a Spark frame, in this process: tasks that are run twice, killed drivers."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa


@dataclass(frozen=True)
class LocalFrame:
    """Partitions of rows, each made by a task; a task is run ``attempts`` times, and the last one counts."""

    tasks: tuple[Callable[[], list[pa.RecordBatch]], ...]
    columns: tuple[str, ...]
    attempts: int = 1

    @classmethod
    def of(cls, table: dict[str, Any], parts: int = 2, attempts: int = 1) -> LocalFrame:
        whole = pa.table(table)
        cuts = np.linspace(0, len(whole), parts + 1).astype(int)
        slices = [whole.slice(a, b - a).to_batches() for a, b in pairwise(cuts)]
        return cls(tuple(partial(list, one) for one in slices), tuple(whole.column_names), attempts)

    def select(self, *names: str) -> LocalFrame:
        def some(task):
            return [batch.select(list(names)) for batch in task()]

        return LocalFrame(tuple(partial(some, task) for task in self.tasks), names, self.attempts)

    def mapInArrow(self, made: Callable[[Iterator[Any]], Iterator[Any]], _schema: str) -> LocalFrame:
        def mapped(task):
            for _ in range(self.attempts):
                found = list(made(iter(task())))
            return found

        return LocalFrame(tuple(partial(mapped, task) for task in self.tasks), self.columns, self.attempts)

    def repartition(self, count: int, name: str) -> LocalFrame:
        def part(number):
            table = pa.Table.from_batches([batch for task in self.tasks for batch in task()])
            where = np.flatnonzero(table.column(name).to_numpy() % count == number)
            return table.take(where).to_batches()

        return LocalFrame(tuple(partial(part, n) for n in range(count)), self.columns, self.attempts)

    def distinct(self) -> LocalFrame:
        return self

    def count(self) -> int:
        return sum(batch.num_rows for task in self.tasks for batch in task())

    def collect(self) -> list[tuple[Any, ...]]:
        try:
            batches = [batch for task in self.tasks for batch in task()]
        except Exception:
            raise OSError(f"Job aborted.\n{traceback.format_exc()}\n\tat Executor.run") from None
        return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]
