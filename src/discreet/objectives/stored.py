"""People in a store on disk: scores are summed over its buckets, by threads or by a cluster of machines.

A `Scan` is a pure function of a bucket's rows and of public parameters, whose results are added up: repeating
it, elsewhere or in another order, gives the same numbers, and only the process that adds them up draws
randomness. An engine scans the buckets: threads of this process, or the workers of a Dask cluster.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache, partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from .. import __version__
from ..core.checks import DataError, instance, shown, whole
from ..data.store import MOST_BUCKETS, Bucket, Store
from ..kernels.rows import ENUMERABLE
from ..kernels.stores import Scan as CompiledScan
from ..kernels.stores import extent, person_coins
from .base import Floats, Items, random_rows
from .devices import processors
from .fixed_point import StepPopulation, step
from .rows import (
    CAP,
    KINDS,
    SURVIVE,
    Kind,
    RowPopulation,
    Rows,
    SparseMatrix,
    TopicSteps,
    WeightedTopics,
    as_sparse,
    checked,
    chunks,
    clip,
    constant,
    row_totals,
    weight_steps,
)

Steps = NDArray[np.int64]
_NO_WEIGHTS, _NO_SECRET = np.zeros(0), np.zeros(0, dtype=np.uint64)
# Rows are copied out of a bucket, where that is needed, this many entries at a time.
_COPIED = 1 << 20

# --- scans --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Shape:
    """How a row becomes a function: the kind, whether weights matter, and the cap of each row.

    A cap is the same for everybody (``cap``), or the fraction ``saturation`` of the row's total weight.
    ``share`` is a factor of the function.
    """

    code: int
    weighted: bool
    cap: float
    saturation: float
    share: float = 1.0

    @property
    def kind(self) -> Kind:
        return KINDS[self.code]

    def scaled(self, factor: float) -> Shape:
        """The same functions times ``factor``."""
        return replace(self, share=factor * self.share)

    def rows(self, matrix: SparseMatrix) -> Rows:
        """Rows of a bucket in memory, as in a population of them; takes over the matrix."""
        caps = constant(self.cap, matrix.n_rows)
        if self.saturation > 0.0:
            caps = self.saturation * row_totals(matrix)
        if self.kind is CAP:
            clip(matrix, caps)
        return Rows(self.kind, matrix, constant(self.share, matrix.n_rows), caps)

    def matrix(self, bucket: Bucket, first: int, last: int, n_items: int) -> SparseMatrix:
        """A copy of some rows of a bucket, as a matrix."""
        start, stop = int(bucket.ends[first]), int(bucket.ends[last])
        weights = _weights_of(bucket, self.weighted)
        return SparseMatrix(
            np.asarray(bucket.ends[first : last + 1]) - start,
            np.asarray(bucket.items[start:stop]).astype(np.int32),
            np.array(weights[start:stop]) if weights.size else np.ones(stop - start),
            n_items,
        )


@dataclass(frozen=True, repr=False)
class Sample:
    """Who counts: everybody, or the people whose keyed hash under a two-word secret is below ``keep``."""

    secret: tuple[int, ...] = ()
    keep: int = 0

    @cached_property
    def arguments(self) -> tuple[NDArray[np.uint64], int]:
        if not self.secret:
            return _NO_SECRET, 0
        words = np.array(self.secret, dtype=np.uint64)
        words.setflags(write=False)
        return words, self.keep


EVERYBODY = Sample()


class Scan:
    """One computation: ``of`` runs it for the rows first..last-1 of a bucket, ``add`` joins two results.

    Its repr shows no fields, as they may include a secret.
    """

    def of(self, bucket: Bucket, first: int, last: int) -> NDArray[Any]:
        raise NotImplementedError

    def add(self, total: NDArray[Any], more: NDArray[Any]) -> None:
        total += more

    def __repr__(self) -> str:
        return type(self).__name__


@dataclass(frozen=True, repr=False)
class Gains(Scan):
    """Gains given items chosen in this order; one person's part is at most ``most`` steps.

    ``asked``: the gain of every item on top of them (``"sums"``), the gain of each of them when it was chosen
    (``"chain"``), or the change of the sums when ``item`` is chosen next (``"change"``, which only looks at
    rows that hold it).
    """

    asked: str
    shape: Shape
    n_items: int
    chosen: Sequence[int]
    most: float
    per_unit: float
    sample: Sample = EVERYBODY
    item: int = 0

    def of(self, bucket: Bucket, first: int, last: int) -> Steps:
        shape = self.shape
        numbers = (shape.kind.fresh, shape.cap, shape.saturation, shape.share, self.most, self.per_unit)
        scan = CompiledScan(shape.code, self.n_items, tuple(self.chosen), numbers, self.sample.arguments)
        where = bucket.ends, bucket.items, _weights_of(bucket, shape.weighted), bucket.keys, first, last
        found: Steps
        if self.asked == "change":
            found = scan.change(*where, self.item)
        else:
            found = scan.sums(*where, self.asked == "chain")
        return found


@dataclass(frozen=True, repr=False)
class Extension(Scan):
    """The multilinear extension at ``x``, followed by its gradient.

    In floating point, then rounded to steps of ``1 / per_unit``, so that sums over pieces of buckets are the
    same in any order.
    """

    shape: Shape
    x: Floats
    per_unit: float

    def of(self, bucket: Bucket, first: int, last: int) -> Steps:
        out = np.zeros(self.x.size + 1)
        for start, stop in _chunks(bucket, first, last):
            rows = self.shape.rows(self.shape.matrix(bucket, start, stop, self.x.size))
            value, gradient = rows.multilinear(self.x)
            out[0] += value
            out[1:] += gradient
        return np.asarray(np.rint(out * self.per_unit), dtype=np.int64)


@dataclass(frozen=True, repr=False)
class Counted(Scan):
    """The sum of ``count`` over people's rows in memory, some at a time: integers of shape ``size``.

    ``count`` must be additive over people.
    """

    shape: Shape
    n_items: int
    count: Callable[[SparseMatrix], Steps]
    size: tuple[int, ...]
    sample: Sample = EVERYBODY

    def of(self, bucket: Bucket, first: int, last: int) -> Steps:
        out = np.zeros(self.size, dtype=np.int64)
        words, keep = self.sample.arguments
        for start, stop in _chunks(bucket, first, last):
            part = self.shape.matrix(bucket, start, stop, self.n_items)
            if words.size:
                coins = person_coins(bucket.keys[start:stop], words)
                part = part.take(np.flatnonzero(coins < np.uint64(keep)))
            out += self.count(part)
        return out


def _gradient_steps(
    shape: Shape, x: Floats, per_unit: float, most: int, seed: int, samples: int, matrix: SparseMatrix
) -> Steps:
    """The multilinear gradient at ``x``, in steps, at most ``most`` of each person in each entry."""
    inside = random_rows(x, seed, samples if shape.kind.of_sums else 0)
    rows, out = shape.rows(matrix), np.zeros(x.size, dtype=np.int64)
    rows.add_gradients(x, inside, per_unit, most, out, 0, rows.n_rows)
    return out


@dataclass(frozen=True, repr=False)
class Extent(Scan):
    """The most items of a person, the largest total, the largest weight, and 1 if a weight is invalid."""

    weighted: bool

    def of(self, bucket: Bucket, first: int, last: int) -> Floats:
        weights = _weights_of(bucket, self.weighted)
        found: Floats = extent(bucket.ends, weights, first, last)
        return found

    def add(self, total: Floats, more: Floats) -> None:
        np.maximum(total, more, out=total)


def _of_people(
    made: Callable[[SparseMatrix], Any], count: Callable[[Any], Steps], rows: SparseMatrix
) -> Steps:
    """``count`` of the population that ``made`` builds from some rows."""
    return count(made(rows))


def _weights_of(bucket: Bucket, weighted: bool) -> Floats:
    """A bucket's weights; an empty array if all are 1."""
    return np.asarray(bucket.weights) if weighted and bucket.weights is not None else _NO_WEIGHTS


def _chunks(bucket: Bucket, first: int, last: int) -> Iterator[tuple[int, int]]:
    ends = np.asarray(bucket.ends[first : last + 1])
    for start, stop in chunks(ends, _COPIED):
        yield first + start, first + stop


# --- engines ------------------------------------------------------------------------------------------------

# A task has at least about this many entries, so that dispatch costs little, and at most this many of one
# bucket.
_LEAST, _PIECE = 1 << 20, 1 << 22
# A task is retried on other workers at most this often; Dask's default is lower.
_RETRIES = 3
# Seconds between checks of waiting tasks, and until a cluster without workers is given up.
_PATIENCE, _ALONE = 2.0, 300.0


# A bucket and a range of its people: the first, and the one after the last.
Piece = tuple[int, int, int]


class EngineError(OSError):
    """A failure where the rows are, with a message that contains no rows."""


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


class Threads:
    """Threads of this process, each of which processes a chunk of a bucket at a time.

    The arrays are memory-mapped, so that pages read can be evicted; nothing about people is kept between two
    scans. ``threads`` is their number, by default that of all processors.
    """

    def __init__(self, store: Store, threads: int | None = None) -> None:
        self.store, self._bucket = store, cache(store.bucket)
        self.threads = whole("threads", processors() if threads is None else threads, at_least=1)

    def total(self, scan: Scan) -> NDArray[Any]:
        return joined(self.store, self._bucket, range(self.store.n_buckets), scan, self.threads)


@dataclass(frozen=True, repr=False)
class Shard:
    """Some buckets of the store in a folder that every worker sees; ``digest`` identifies the store."""

    path: str
    digest: str
    buckets: tuple[int, ...]

    def __repr__(self) -> str:
        return f"Shard({len(self.buckets)} buckets)"


@dataclass(frozen=True, repr=False)
class Answer:
    """A worker's result and its buckets, or a description of the failure that contains no rows."""

    buckets: tuple[int, ...]
    version: str
    total: NDArray[Any] | None
    problem: str = ""
    refused: bool = False


class Dask:
    """The workers of a Dask cluster, with as many shards of buckets as there were workers at the start.

    A task is a pure function of a shard and a scan. When a worker is lost, Dask gives its tasks to another,
    which opens the buckets and finds the same numbers. Each answer names its buckets: the total is returned
    only if every bucket of the store was counted exactly once. A cluster that has had no workers for five
    minutes is given up, with an error.

    Workers must see the folder of the store under the same path and have the same version of the library.
    They see everybody's rows, so they must be trusted like this machine. They draw no randomness, and their
    error messages contain no rows.
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
        except Exception as problem:  # its message may contain data
            raise EngineError(f"the Dask cluster gave no answer: {type(problem).__name__}") from None
        return combined(self.store.n_buckets, answers, scan)

    def _answers(self, scan: Scan) -> list[Answer]:
        """An answer for each shard; tasks that wait for a lost worker are submitted again."""
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
        """A future of the answers, so that the caller can watch the workers while waiting.

        Finished answers that were lost with their worker are computed again by another one, if there is one.
        """
        waiting = self._client.gather(futures, asynchronous=True)
        return asyncio.run_coroutine_threadsafe(waiting, self._client.loop.asyncio_loop)

    def _submitted(self, scan: Scan, place: int) -> Any:
        """Submit one shard, preferably to the same worker every time, which has it open already."""
        home: dict[str, Any] = {}
        if self._workers:
            worker = self._workers[place % len(self._workers)]
            home = {"workers": [worker], "allow_other_workers": True}
        shard = self._shards[place]
        return self._client.submit(answer, shard, scan, pure=False, retries=_RETRIES, **home)

    def _there(self) -> list[str]:
        """The addresses of the present workers."""
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
    """The work of a worker: only counting. Errors are returned as answers, so that no log repeats them."""
    try:
        store, bucket = _opened(shard.path, shard.digest)
        for number in shard.buckets:
            bucket(number)
    except ValueError as problem:  # a refusal names the store, the bucket and the rule, and nobody in it
        return Answer(shard.buckets, __version__, None, str(problem), refused=True)
    except Exception as problem:
        return Answer(shard.buckets, __version__, None, type(problem).__name__)
    try:
        found = joined(store, bucket, shard.buckets, scan, _threads_here())
    except Exception as problem:
        return Answer(shard.buckets, __version__, None, type(problem).__name__)
    return Answer(shard.buckets, __version__, found)


def joined(
    store: Store, bucket: Callable[[int], Bucket], buckets: Sequence[int], scan: Scan, threads: int
) -> NDArray[Any]:
    """The results for some buckets, joined in their order for any number of threads."""

    def part(pieces: list[Piece]) -> NDArray[Any]:
        answers = (scan.of(bucket(number), first, last) for number, first, last in pieces)
        total = next(answers)
        for found in answers:
            scan.add(total, found)
        return total

    tasks = list(_tasks(store, buckets))
    with ThreadPoolExecutor(threads) as pool:
        parts = map(part, tasks) if threads == 1 or len(tasks) == 1 else pool.map(part, tasks)
        total = next(parts)
        for found in parts:
            scan.add(total, found)
    return total


def _tasks(store: Store, buckets: Sequence[int]) -> Iterator[list[Piece]]:
    """Tasks: several small buckets each, or a chunk of the people of a large one."""
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
    """Buckets in at most ``count`` groups of about equal numbers of entries."""
    groups: list[list[int]] = [[] for _ in range(min(count, len(entries)))]
    sizes = [0] * len(groups)
    for number in sorted(range(len(entries)), key=lambda one: (-entries[one], one)):
        least = sizes.index(min(sizes))
        groups[least].append(number)
        sizes[least] += entries[number] + 1
    return [tuple(sorted(group)) for group in groups if group]


def _threads_here() -> int:
    """The number of threads of this worker."""
    from distributed import get_worker

    try:
        return max(1, int(get_worker().state.nthreads))
    except ValueError:  # not on a worker
        return 1


@lru_cache(maxsize=8)
def _opened(path: str, digest: str) -> tuple[Store, Callable[[int], Bucket]]:
    """A store, and its buckets: each is checked row by row when this process opens it first."""
    store = Store.open(path)
    if store.digest != digest:
        raise DataError("a worker finds another store under this path than the one that was asked about")
    return store, cache(store.bucket)


# Adds up one scan over all people of a store.
Engine = Threads | Dask


# --- populations --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class StoredRows:
    """Every row of a store (or of a sample of them), as functions of one shape."""

    engine: Engine
    shape: Shape
    n_items: int
    sample: Sample = EVERYBODY

    @property
    def n_rows(self) -> int:
        return self.engine.store.n_people

    def scaled(self, factor: float) -> StoredRows:
        return replace(self, shape=self.shape.scaled(factor))

    def growing(self, most: float, per_unit: float) -> GrowingRows:
        return GrowingRows(self, most, per_unit)

    def gradient_steps(self, x: Floats, per_unit: float, most: int, seed: int, samples: int) -> Steps:
        if self.sample.secret:
            raise ValueError("a sample of a store has no gradients; take everybody")
        point = np.array(x, dtype=np.float64)
        count = partial(_gradient_steps, self.shape, point, per_unit, most, seed, samples)
        return self.engine.total(Counted(self.shape, self.n_items, count, (self.n_items,)))

    def sums(self, chosen: Sequence[int], most: float, per_unit: float) -> Steps:
        """The gain of every item on top of the chosen ones, in steps."""
        return self._gains("sums", chosen, most, per_unit)

    def chain(self, chosen: Sequence[int], most: float, per_unit: float) -> Steps:
        """The gain of each of these items when they are chosen in this order, in steps."""
        return self._gains("chain", chosen, most, per_unit) if chosen else np.zeros(0, dtype=np.int64)

    def change(self, chosen: Sequence[int], item: int, most: float, per_unit: float) -> Steps:
        """The change of ``sums`` when ``item`` is chosen next."""
        return self._gains("change", chosen, most, per_unit, item)

    def _gains(self, asked: str, chosen: Sequence[int], most: float, per_unit: float, item: int = 0) -> Steps:
        scan = Gains(asked, self.shape, self.n_items, chosen, most, per_unit, self.sample, item)
        return self.engine.total(scan)


class GrowingRows:
    """A growing set over the rows of a store: it holds the chosen items and nothing about people."""

    def __init__(self, rows: StoredRows, most: float, per_unit: float) -> None:
        self._rows, self._most, self._per_unit = rows, most, per_unit
        self._chosen: tuple[int, ...] = ()

    def begin(self, sums: Floats) -> None:
        sums += self._rows.sums(self._chosen, self._most, self._per_unit)

    def choose(self, item: int, sums: Floats) -> None:
        sums += self._rows.change(self._chosen, item, self._most, self._per_unit)
        self._chosen = (*self._chosen, item)


class StoredPopulation(StepPopulation):
    """The people of a store, as functions of one family; made by ``from_store`` of the family.

    Scores come from passes over the store's buckets, by threads or by the workers of a Dask cluster
    (``engine``), in integer steps: the numbers are those of the same people in memory, bit for bit, for any
    number and order of buckets. Nothing about people is kept in memory. ``value`` and ``gains`` are in
    integer steps too: for each chosen item they may be lower than in memory by one step, which is 2^-40 of
    the bound for few people and 2^-25 for 10^8 of them.

    Formal guarantee. As for the family: a person is one row of one bucket, which is checked for every row
    when a bucket is opened, and each person's part of each score lies in [0, bound]. A scan is a pure
    function of the rows and of the items chosen before; repeating it, by another worker or twice, gives the
    same numbers and releases nothing. Secret samples are decided by a keyed hash of each person's key under a
    secret of the run (SipHash-2-4), never by positions or by who else counts.

    ``people[rows]`` and ``batches`` are populations in memory, ``people[rows]`` in the order of buckets and
    keys.
    """

    stored = True

    def __init__(
        self, store: Store, engine: Any, family: type[RowPopulation], options: Mapping[str, Any]
    ) -> None:
        _check_store(store)
        self._store, self._family, self._options = store, family, dict(options)
        self.n_items, self.catalogue = store.n_items, store.catalogue
        _check_family(family, options)
        like = family(_row_of(store.n_items), **options)
        kind, (cap, saturation) = like._rows.kind, like._cap_rule()
        if saturation and like.at_most is not None:
            raise ValueError(
                "at_most= of SaturatedCoverage is for people in memory; declare a bound= of all sets"
            )
        if kind.code < 0:
            raise ValueError("concave= is a function, which cannot be asked of a store; use a named one")
        self._name_items(store.labels)
        self._shape = Shape(kind.code, family._weighted and store.weighted, cap, saturation)
        self._rows = StoredRows(engine_of(store, engine), self._shape, self.n_items)
        self._longest, self._reach = self._held()
        self.at_most = like.at_most
        self._declared = like.bound_of(like.at_most or self.n_items)
        if store.cap is not None:
            self.items_per_person = min(store.cap, self.n_items)

    def _held(self) -> tuple[int, float]:
        """The most items of a person, and an upper bound of values; checks the family's limits.

        A function of one item with all of a person's weight is an upper bound of theirs, and so is one with
        the largest weight for families of which the value depends on the largest weight alone.
        """
        longest, total, largest = _extent(self._rows.engine, self._shape.weighted)
        most = self._options.get("at_most")
        total = total if most is None else min(total, most * largest)
        reach = 0.0
        for weight in (largest, total) if self._shape.kind.of_sums else (largest,):
            one = self._family(_row_of(1, weight), **self._options)
            reach = max(reach, float(one._largest()[0]) if one.bound_of(1) else 0.0)
        return longest, reach

    @property
    def store(self) -> Store:
        """The store that holds the people."""
        return self._store

    @property
    def n_entries(self) -> int:
        """How many (person, item) pairs there are."""
        return self._store.n_entries

    def kept(self, secret: NDArray[np.uint64], keep: int) -> Self:
        some = self._like()
        some._rows = replace(self._rows, sample=Sample(tuple(secret.tolist()), keep))
        return some

    def counted(self, count: Callable[[RowPopulation], Steps], size: tuple[int, ...]) -> Steps:
        """The sum of ``count`` over everybody, applied to populations in memory: integers of shape ``size``.

        ``count`` must be additive over people, and picklable if the engine is a cluster.
        """
        if self._rows.sample.secret:
            raise ValueError("a sample of a store is not counted so; take everybody")
        of_rows = partial(_of_people, partial(self._family, **self._options), count)
        found: Steps = self._rows.engine.total(Counted(self._shape, self.n_items, of_rows, size))
        return found

    def batches(self, size: int = 1 << 16) -> Iterator[RowPopulation]:
        """Everybody, at most ``size`` people at a time, in memory: for learners that process a stream.

        They come in the order of buckets and keys, which is as good as random without the secret.
        """
        return map(self._family_of, _batches(self._store, self._shape, size))

    def __repr__(self) -> str:
        return f"{self._family.__name__}.from_store({self.n_items} items)"

    def _extension(self, x: Floats) -> tuple[float, Floats] | None:
        if self._shape.kind.of_sums and self.touched_items() > ENUMERABLE:
            return super()._extension(x)
        per_unit = 2.0 ** (60 - math.frexp(2.0 * self.bound * len(self))[1])
        scan = Extension(self._shape, np.array(x, dtype=np.float64), per_unit)
        found = self._rows.engine.total(scan) / per_unit / len(self)
        return float(found[0]), found[1:]

    def _most_items(self) -> int:
        return self._longest

    def _largest(self) -> Floats:
        return np.array([self._reach])

    def _additions(self) -> int:
        return super()._additions() + MOST_BUCKETS

    # -- people in memory ------------------------------------------------------------------------------------

    def _take(self, rows: Items) -> RowPopulation:  # type: ignore[override]
        return self._family_of(_people_at(self._store, self._shape, rows))

    def _family_of(self, matrix: SparseMatrix) -> RowPopulation:
        made = self._family(matrix, labels=self.labels, **self._options)
        return made._like(catalogue=self.catalogue, items_per_person=self.items_per_person)


def _people_at(store: Store, shape: Shape, rows: Items) -> SparseMatrix:
    """The people at these positions of the store, in memory; positions follow buckets and keys."""
    starts = np.cumsum([0, *(store.people_in(n) for n in range(store.n_buckets))])
    numbers = np.searchsorted(starts, rows, side="right") - 1
    parts: list[SparseMatrix] = []
    places = np.empty(rows.size, dtype=np.int64)
    for number in np.unique(numbers).tolist():
        bucket = store.bucket(number)
        for place in np.flatnonzero(numbers == number).tolist():
            at = int(rows[place] - starts[number])
            places[place] = len(parts)
            parts.append(shape.matrix(bucket, at, at + 1, store.n_items))
    ends = np.concatenate(([0], np.cumsum([part.indices.size for part in parts])))
    indices, data = (np.concatenate([getattr(part, name) for part in parts]) for name in ("indices", "data"))
    return SparseMatrix(ends, indices, data, store.n_items).take(places)


def _check_family(family: type[RowPopulation], options: Mapping[str, Any]) -> None:
    if np.ndim(options.get("cap") or 0.0):
        raise ValueError("cap= must be one number for everybody: a store has no order to give one to each by")
    if family._caps is not RowPopulation._caps and family._cap_rule is RowPopulation._cap_rule:
        raise ValueError(f"{family.__name__} has caps of its own, of which a store knows nothing")


def _row_of(n_items: int, *weights: float) -> SparseMatrix:
    """One person with these weights for the first items."""
    places = np.arange(len(weights), dtype=np.int32)
    return SparseMatrix(np.array([0, len(weights)]), places, np.array(weights, dtype=np.float64), n_items)


class StoredTopics(WeightedTopics):
    """The people of a store as `WeightedTopics`; made by ``WeightedTopics.from_store``.

    Scores are those of the same people in memory, bit for bit, as for every family in a store. One pass sums
    up the weights in integer steps; the public ``covers`` stay in memory.
    """

    stored = True

    def __init__(
        self, store: Store, covers: Any, engine: Any, bound: float | None, labels: Iterable[Any] | None
    ) -> None:
        _check_store(store)
        covered = as_sparse(checked("covers", covers, high=1.0, dense=False))
        if covered.n_columns != store.n_items:
            raise ValueError(
                f"covers has {covered.n_columns} topics (columns), the store {store.n_items} items; both must"
                " be the topics, in the store's order"
            )
        self._topics = covered.by_column
        if not TopicSteps.fits(self._topics):
            raise ValueError("an item covers more than 2,047 topics; leave out the least of them")
        self._store, self.n_items, self.catalogue = store, covered.n_rows, store.catalogue
        self._shape = Shape(SURVIVE.code, store.weighted, np.inf, 0.0)
        self._engine: Engine = engine_of(store, engine)
        self._sample = EVERYBODY
        self._longest, self._reach, _ = _extent(self._engine, store.weighted)
        self._name_items(labels)
        self._declare(bound)

    @property
    def store(self) -> Store:
        """The store that holds the people."""
        return self._store

    def __len__(self) -> int:
        return self._store.n_people

    def __repr__(self) -> str:
        return f"WeightedTopics.from_store({self.n_items} items)"

    def kept(self, secret: NDArray[np.uint64], keep: int) -> Self:
        some = self._like(_sample=Sample(tuple(secret.tolist()), keep))
        for known in ("_rows", "_source"):
            some.__dict__.pop(known, None)
        return some

    def batches(self, size: int = 1 << 16) -> Iterator[WeightedTopics]:
        """Everybody, at most ``size`` people at a time, in memory."""
        return map(self._of, _batches(self._store, self._shape, size))

    @cached_property
    def _source(self) -> TopicSteps:
        return TopicSteps(self._topics, self._totals)

    def _totals(self, per_unit: float, most: int) -> Steps:
        count, topics = partial(weight_steps, per_unit=per_unit, most=most), self._store.n_items
        return self._engine.total(Counted(self._shape, topics, count, (topics,), self._sample))

    @cached_property
    def _rows(self) -> Rows:
        unit = step(self.bound, len(self))
        share = self._totals(1.0 / unit, int(self.bound / unit)) * unit / len(self)
        return Rows(SURVIVE, self._topics, share, np.full(share.size, np.inf))

    def _take(self, rows: Items) -> WeightedTopics:  # type: ignore[override]
        return self._of(_people_at(self._store, self._shape, rows))

    def _of(self, weights: SparseMatrix) -> WeightedTopics:
        covers = self._topics.by_column
        made = WeightedTopics(weights, covers, bound=self.bound, labels=self.labels)
        return made._like(catalogue=self.catalogue)

    def _largest(self) -> Floats:
        return np.array([self._reach])

    def _additions(self) -> int:
        return len(self) + 2 * self.n_items + 64 + self._store.n_items + MOST_BUCKETS

    def _most_items(self) -> int:
        """An upper bound: the most topics of a person times the most items of a topic."""
        return min(self.n_items, self._longest * int(np.diff(self._topics.indptr).max(initial=0)))


def _check_store(store: Any) -> None:
    instance("store", store, Store, 'Store.open("people/")')
    if not store.n_people:
        raise DataError("the store holds no people; a population needs at least one person")


def _extent(engine: Engine, weighted: bool) -> tuple[int, float, float]:
    """The most items of a person, the largest total and the largest weight."""
    longest, total, largest, wrong = engine.total(Extent(weighted)).tolist()
    if wrong:
        raise DataError("the store has a weight that is not a positive finite number")
    return int(longest), float(total), float(largest)


def _batches(store: Store, shape: Shape, size: int) -> Iterator[SparseMatrix]:
    """Everybody's rows in memory, at most ``size`` at a time."""
    most = whole("size", size, at_least=1)
    for number in range(store.n_buckets):
        people = store.people_in(number)
        for first in range(0, people, most):
            yield shape.matrix(store.bucket(number), first, min(first + most, people), store.n_items)
