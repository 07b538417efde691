"""Who goes through the buckets of a store: threads of this process, or the workers of a Dask cluster."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

from numpy.typing import NDArray

from ... import __version__
from ...core.checks import DataError, shown, whole
from ...data.store import Bucket, Store
from .scans import Scan

# A thread takes up at least about so many entries at a time, so that handing them out costs little, and at
# most so many of one bucket.
_LEAST, _PIECE = 1 << 20, 1 << 22
# Lost workers are replaced by others at most so often for one task; Dask itself gives up sooner.
_RETRIES = 3
# Seconds after which tasks that wait are looked at, and after which a cluster without workers is given up.
_PATIENCE, _ALONE = 2.0, 300.0


# A bucket, and which of its people, from the first to the one after the last.
Piece = tuple[int, int, int]


class EngineError(OSError):
    """Something failed where the rows are; in words that hold none of them."""


class Engine(Protocol):
    """Adds up one scan over all people of a store."""

    store: Store

    def total(self, scan: Scan) -> NDArray[Any]:
        """The answers for all buckets, joined."""
        ...


def engine_of(store: Store, engine: Any) -> Engine:
    """The engine that an argument names: ``"threads"``, an engine of this store, or a Dask client."""
    if isinstance(engine, Threads | Dask):
        if engine.store.digest != store.digest:
            raise ValueError("engine= belongs to another store; make one for this store")
        return engine
    if isinstance(engine, str) and engine == "threads":
        return Threads(store)
    if type(engine).__module__.split(".")[0] == "distributed":
        return Dask(store, engine)
    raise ValueError(f'engine={shown(engine)}; it must be "threads" or a dask.distributed Client')


class Open:
    """The buckets of a store that this process has opened, and checked row by row in doing so."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._buckets: dict[int, Bucket] = {}

    def bucket(self, number: int) -> Bucket:
        found = self._buckets.get(number)
        if found is None:
            found = self._buckets[number] = self.store.bucket(number)
        return found


class Threads:
    """Threads of this process, each of which takes up a stretch of a bucket at a time.

    The arrays are mapped into memory, so that what is read can be dropped again; nothing about people is
    kept between two scans. ``threads`` is how many there are, all processors if not given.
    """

    def __init__(self, store: Store, threads: int | None = None) -> None:
        self.store, self._open = store, Open(store)
        here = hasattr(os, "sched_getaffinity")  # processors that this process may use
        count = len(os.sched_getaffinity(0)) if here else os.cpu_count() or 1
        self.threads = whole("threads", count if threads is None else threads, at_least=1)

    def total(self, scan: Scan) -> NDArray[Any]:
        return joined(self._open, range(self.store.n_buckets), scan, self.threads)


@dataclass(frozen=True, repr=False)
class Shard:
    """Some buckets of the store in a folder that every worker sees; ``digest`` is what it must hold."""

    path: str
    digest: str
    buckets: tuple[int, ...]

    def __repr__(self) -> str:
        return f"Shard({len(self.buckets)} buckets)"


@dataclass(frozen=True, repr=False)
class Answer:
    """What a worker found in which buckets, or what went wrong, in words without rows."""

    buckets: tuple[int, ...]
    version: str
    total: NDArray[Any] | None
    problem: str = ""
    refused: bool = False


class Dask:
    """The workers of a Dask cluster, with as many shards of buckets as there were workers at the start.

    A task is a pure function of a shard and of what is asked. When a worker is lost, Dask gives its tasks to
    another, which opens the buckets and finds the same numbers. Each answer says which buckets it is of: the
    total is given out only if every bucket of the store was counted exactly once. A cluster that has had no
    workers for five minutes is given up, with an error.

    Workers must see the folder of the store under the same path and have the same version of the library.
    They see everybody's rows, so they are trusted as this machine is. They draw nothing, and what they say
    when something fails holds no rows.
    """

    def __init__(self, store: Store, client: Any, shards: int | None = None) -> None:
        if getattr(client, "asynchronous", False):
            raise ValueError("engine= is an asynchronous client; make one with asynchronous=False")
        self.store, self._client = store, client
        self._workers = workers = self._there()
        if not workers and shards is None:
            raise ValueError("the Dask cluster has no workers; start some, or wait for them first")
        count = len(workers) if shards is None else whole("shards", shards, at_least=1)
        entries = [store.entries_in(number) for number in range(store.n_buckets)]
        path = str(store.path.absolute())
        self._shards = [Shard(path, store.digest, group) for group in _balanced(entries, count)]

    def total(self, scan: Scan) -> NDArray[Any]:
        try:
            answers = self._answers(scan)
        except EngineError:
            raise
        except Exception as problem:  # what a library has put into its message is not known
            raise EngineError(f"the Dask cluster gave no answer: {type(problem).__name__}") from None
        return combined(self.store.n_buckets, answers, scan)

    def _answers(self, scan: Scan) -> list[Answer]:
        """An answer for each shard; a task that waits for a worker that is gone is asked for again."""
        futures = [self._submitted(scan, place) for place in range(len(self._shards))]
        gathered, alone = self._gathered(futures), 0.0
        while True:
            try:
                return list(gathered.result(timeout=_PATIENCE))
            except TimeoutError:
                there = self._there()
            alone = 0.0 if there else alone + _PATIENCE
            if alone > _ALONE:
                gathered.cancel()
                raise EngineError(f"the Dask cluster has had no workers for {_ALONE:.0f} s")
            if there and not set(self._workers) <= set(there):
                gathered.cancel()
                self._workers = there
                for place, future in enumerate(futures):
                    if not future.done():
                        futures[place] = self._submitted(scan, place)
                gathered = self._gathered(futures)

    def _gathered(self, futures: list[Any]) -> Future[Any]:
        """The answers, when they are there: who waits for them can look after the workers meanwhile.

        Answers that were finished and lost with their worker are worked out again, where there is another.
        """
        waiting = self._client.gather(futures, asynchronous=True)
        return asyncio.run_coroutine_threadsafe(waiting, self._client.loop.asyncio_loop)

    def _submitted(self, scan: Scan, place: int) -> Any:
        """One shard goes to the same worker every time, which has it open, while that worker is there."""
        home: dict[str, Any] = {}
        if self._workers:
            worker = self._workers[place % len(self._workers)]
            home = {"workers": [worker], "allow_other_workers": True}
        shard = self._shards[place]
        return self._client.submit(answer, shard, scan, pure=False, retries=_RETRIES, **home)

    def _there(self) -> list[str]:
        """The workers that there are."""
        return sorted(self._client.scheduler_info(n_workers=-1)["workers"])


def combined(n_buckets: int, answers: Sequence[Answer], scan: Scan) -> NDArray[Any]:
    """The answers joined, if every bucket was counted exactly once by the same version of the library."""
    for one in answers:
        if one.version != __version__:
            raise EngineError(f"a worker has version {one.version} of the library, not {__version__}")
        if one.problem:
            if one.refused:
                raise DataError(one.problem)
            raise EngineError(f"a worker failed: {one.problem}")
    counted = sorted(number for one in answers for number in one.buckets)
    if counted != list(range(n_buckets)):
        raise EngineError("the workers' answers are not about every bucket exactly once; nothing was added")
    total: NDArray[Any] | None = None
    for one in answers:
        assert one.total is not None
        if total is None:
            total = one.total.copy()
        else:
            scan.add(total, one.total)
    assert total is not None
    return total


def answer(shard: Shard, scan: Scan) -> Answer:
    """What a worker does: nothing but counting. Errors come back as answers, so that no log repeats them."""
    try:
        opened = _opened(shard.path, shard.digest)
        for number in shard.buckets:
            opened.bucket(number)
    except ValueError as problem:  # a refusal names the store, the bucket and the rule, and nobody in it
        return Answer(shard.buckets, __version__, None, str(problem), refused=True)
    except Exception as problem:
        return Answer(shard.buckets, __version__, None, type(problem).__name__)
    try:
        found = joined(opened, shard.buckets, scan, _threads_here())
    except Exception as problem:
        return Answer(shard.buckets, __version__, None, type(problem).__name__)
    return Answer(shard.buckets, __version__, found)


def joined(opened: Open, buckets: Sequence[int], scan: Scan, threads: int) -> NDArray[Any]:
    """The answers for some buckets, joined in their order, however many threads there are."""

    def part(pieces: list[Piece]) -> NDArray[Any]:
        answers = (scan.of(opened.bucket(number), first, last) for number, first, last in pieces)
        total = next(answers)
        for found in answers:
            scan.add(total, found)
        return total

    tasks = list(_tasks(opened.store, buckets))
    with ThreadPoolExecutor(threads) as pool:
        parts = map(part, tasks) if threads == 1 or len(tasks) == 1 else pool.map(part, tasks)
        total = next(parts)
        for found in parts:
            scan.add(total, found)
    return total


def _tasks(store: Store, buckets: Sequence[int]) -> Iterator[list[Piece]]:
    """What is taken up at a time: several small buckets, or a stretch of the people of a large one."""
    task: list[Piece] = []
    waiting = 0
    for number in buckets:
        people, entries = store.people_in(number), store.entries_in(number)
        count = max(1, min(people, round(entries / _PIECE)))
        for at in range(count):
            task.append((number, people * at // count, people * (at + 1) // count))
            waiting += entries // count
            if waiting >= _LEAST:
                yield task
                task, waiting = [], 0
    if task:
        yield task


def _balanced(entries: Sequence[int], count: int) -> list[tuple[int, ...]]:
    """Buckets in at most ``count`` groups of about as many entries each."""
    groups: list[list[int]] = [[] for _ in range(min(count, len(entries)))]
    sizes = [0] * len(groups)
    for number in sorted(range(len(entries)), key=lambda one: (-entries[one], one)):
        least = sizes.index(min(sizes))
        groups[least].append(number)
        sizes[least] += entries[number] + 1
    return [tuple(sorted(group)) for group in groups if group]


def _threads_here() -> int:
    """How many threads a task may use: those of its worker."""
    from distributed import get_worker

    try:
        return max(1, int(get_worker().state.nthreads))
    except ValueError:  # not on a worker
        return 1


@lru_cache(maxsize=8)
def _opened(path: str, digest: str) -> Open:
    store = Store.open(path)
    if store.digest != digest:
        raise DataError("a worker finds another store under this path than the one that was asked about")
    return Open(store)
