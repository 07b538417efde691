"""The service in one process: decisions out of leased blocks, outcomes committed in groups, and its worker.

A decision does not wait for the disk, unless it may be asked for again: then it is answered after the commit
of its group, as an outcome is. Everything that arrives while one group is being written forms the next one.
Every decision begins a group, which records whom it was for. Reports therefore influence which decisions a
crash leaves unrecorded by the time of one commit at most (`groups`).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Container
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import msgspec

from ..personal import Recommender
from . import groups
from .auth import DecisionId, Secrets, new_lease, owner_name
from .backup import freeze_after_restore
from .config import ExperimentConfig, PopulationConfig
from .database import NOBODY, Database, Fenced, StoreError
from .groups import (
    EARLY,
    LATE,
    LOST,
    Acknowledged,
    Cursor,
    Group,
    KeptRequest,
    ReportedOutcome,
    ServedDecision,
)
from .learning import DecisionBlock, constraint_of
from .worker import ENDED, ENDING, Worker

logger = logging.getLogger("discreet.service")
_SURE = 0.8  # the part of a database's patience to rely on: answers take a while, and clocks differ
_IDLE = 0.05  # seconds between looks at what is due
_OLD = 60.0  # seconds for which a block is served; its wait for outcomes if that is longer
_AGAIN = 1.0  # seconds until the worker tries again
_LOOK = 1.0  # seconds between looks at what others have changed
_FLUSH = 0.1  # seconds after which failed writes and early outcomes are tried again
_SEVERAL, _COMPANY = 8, 0.003  # after a group of that many decisions, seconds to gather the next one
_EARLY = 5.0  # seconds for which an outcome waits until another process has recorded its decision
_END = 1.5  # seconds for which a stop waits for the worker
_FORGET = 60.0  # seconds between deletions of expired requests and pseudonyms
_CLOCK: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def clock() -> float:
    """Seconds; they also pass while this process is stopped, and where possible while the machine sleeps."""
    return time.clock_gettime(_CLOCK)


class NotEnoughItems(Exception):
    """Fewer items are left than a set has."""


class Unavailable(Exception):
    """No decision can be made at the moment."""


class ProcessLease:
    """The name of this process, and until when (by `clock`) it counts as alive."""

    def __init__(self, store: Database) -> None:
        self._store = store
        self.owner, self.until = owner_name(), -math.inf

    def begin(self) -> None:
        """Register under a new name, unless the lease is valid."""
        if clock() >= self.until:
            owner, now = owner_name(), clock()
            self._store.beat(owner, new=True)
            self.owner, self.until = owner, now + _SURE * self._store.patience

    def renew(self) -> None:
        """Extend the lease in the database; it ends if others have declared this process dead."""
        now = clock()
        lives = self._store.beat(self.owner)
        self.until = now + _SURE * self._store.patience if lives else -math.inf


@dataclass(frozen=True)
class PublicModel:
    """The latest model of personal sets, with the number of its release; ``policy`` names it."""

    seq: int
    policy: str
    recommender: Recommender

    @classmethod
    def read(cls, row: tuple[int, bytes, bytes]) -> PublicModel:
        seq, chain, body = row
        return cls(seq, bytes(chain)[:8].hex(), Recommender.load(bytes(body)))

    @cached_property
    def exported(self) -> bytes:
        """As `personal.js` reads it."""
        return msgspec.json.encode(self.recommender.to_json() | {"policy": self.policy})


@dataclass
class Live:
    """In-memory state of an experiment that this process serves, or of one of its segments."""

    id: int
    population: int
    name: str
    config: ExperimentConfig
    people: PopulationConfig
    status: str
    epoch: int
    period: str
    catalogue: int
    labels: list[str]
    blocks: deque[DecisionBlock] = field(default_factory=deque)
    leasing: asyncio.Task[None] | None = None
    rendered: dict[tuple[int, int], tuple[bytes, bytes]] = field(default_factory=dict)
    constraint: Any = None
    segment: str = ""
    segments: dict[str, Live] = field(default_factory=dict)  # each with blocks of its own
    model: PublicModel | None = None
    asked: bool = False  # whether it was used here for anything but outcomes

    def __post_init__(self) -> None:
        self.known = frozenset(self.labels)
        if not self.segment:
            self.constraint = constraint_of(self.config)
            for one in self.config.segments:
                self.segments[one] = replace(self, segment=one, segments={}, blocks=deque(), rendered={})

    def renew(self, status: str, catalogue: int, labels: list[str] | None) -> None:
        """Take over changes within an epoch; ``labels`` is None if they have not changed."""
        for live in (self, *self.segments.values()):
            live.status = status
            if labels is not None:
                live.catalogue, live.labels, live.known = catalogue, labels, frozenset(labels)
                live.rendered.clear()

    def items(self, block: DecisionBlock, offset: int) -> tuple[bytes, bytes]:
        """The labels of a decision, and their propensity, as JSON."""
        number = block.which[offset]
        key = (block.first, number)
        found = self.rendered.get(key)
        if found is None:
            if len(self.rendered) > 4096:
                self.rendered.clear()
            labels, control = [self.labels[item] for item in block.lists[number]], self.config.control
            likely = block.propensity(
                number, self.config.holdout, set(labels) == set(control) if control else None
            )
            found = msgspec.json.encode(labels), msgspec.json.encode(likely)
            self.rendered[key] = found
        return found

    def own_set(
        self, answer: bytes, spare: Collection[int], history: Collection[str], exclude: Collection[str]
    ) -> bytes:
        """The answer with a person's own set, from the public model and their history, which is not kept.

        In the hold-out: the most popular items that are not in the history. Before there is a model: the
        block's set without items of the history, filled up from ``spare``. If too few items are left, the
        set is smaller: the request is not refused, because refusals are counted.
        """
        told, model, k = msgspec.json.decode(answer), self.model, self.config.k
        if model is None:
            order = dict.fromkeys([*told["items"], *[self.labels[item] for item in spare]])
            own = {*history, *exclude}
            told["items"] = [label for label in order if label not in own][:k]
            return msgspec.json.encode(told)
        gone = self.known.intersection(exclude)
        if not told["personal"]:
            history, gone = (), gone | self.known.intersection(history)
        told["items"] = model.recommender.recommend(history, k, exclude=gone).labels
        told["policy"] = model.policy
        return msgspec.json.encode(told)

    def without(self, block: DecisionBlock, offset: int, exclude: Container[str]) -> tuple[list[str], bool]:
        """The labels of a decision without excluded items, filled up from the spare ones; whether altered."""
        allocated = block.lists[block.which[offset]]
        labels = self.labels
        chosen = [item for item in allocated if labels[item] not in exclude]
        if len(chosen) == len(allocated):
            return [labels[item] for item in allocated], False
        for item in block.spare:
            if len(chosen) == len(allocated):
                break
            fits = self.constraint is None or self.constraint.can_add(chosen, item)
            if item not in chosen and labels[item] not in exclude and fits:
                chosen.append(item)
        block.altered.add(offset)  # public: it is recorded with the decision, not with an outcome
        if len(chosen) < len(allocated) and self.constraint is None:
            raise NotEnoughItems
        return [labels[item] for item in chosen], True

    @property
    def queues(self) -> Collection[Live]:
        """Its segments, each with blocks of its own; itself if there are none."""
        return self.segments.values() or (self,)


def decision_of(block: DecisionBlock, offset: int, pseudonym: bytes, altered: bool) -> DecisionId:
    """The content of the id of a decision of a block."""
    return DecisionId(block.experiment, block.epoch, block.first + offset, pseudonym, altered, block.lease)


_Waiting = tuple[ReportedOutcome, asyncio.Future[Acknowledged], float]  # the last: its deadline, by `clock`


class DecisionEngine:
    """Decisions and outcomes of all experiments, for the web and for tests."""

    def __init__(self, store: Database, secrets: Secrets, *, calendar: Any = None) -> None:
        self.store, self.secrets = store, secrets
        self.process = ProcessLease(store)
        self.worker = Worker(store, self.process.owner, calendar)
        self._live: dict[str, Live] = {}
        self._by_number: dict[int, Live] = {}
        self._queue: list[_Waiting] = []
        self._early: list[_Waiting] = []  # to be tried again
        # Decisions that were served and are not recorded yet; the future is for the request's stored answer.
        self._served: list[tuple[ServedDecision, asyncio.Future[KeptRequest] | None]] = []
        self._activated: list[tuple[tuple[int, bytes], asyncio.Future[None]]] = []
        self._flushing: asyncio.Task[None] | None = None
        self._decided = 0  # how many decisions were in the last group that had any
        self._dirty: dict[tuple[int, int, int], DecisionBlock] = {}
        self._writer = ThreadPoolExecutor(1, "discreet-writer")
        self._working = threading.Thread(target=self._work, name="discreet-worker", daemon=True)
        self._stop = threading.Event()
        self._wake = threading.Event()
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self, *, work: bool = True, every: Callable[[], object] | None = None) -> None:
        """Recover, and begin to serve; ``every`` is called now and each second, in the writer's thread."""
        await self._do(self.store.migrate)
        await self._do(self._begin)
        await self._do(self.store.recover, self.process.owner)
        if work:
            self._working.start()
        if every is not None:
            await self._do(every)
        tasks = (self._look(every), self._beat(), self._write_down())
        self._tasks = [asyncio.create_task(one) for one in tasks]

    async def stop(self) -> None:
        """Record what was served, and release the database."""
        self._stop.set()
        self._wake.set()
        for task in self._tasks:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        leases = [live.leasing for live in self._queues() if live.leasing is not None]
        await asyncio.gather(*leases, return_exceptions=True)
        if self._flushing is not None:
            await self._flushing
        self._queue += self._early
        await self._flush_now(closing=True)
        if self._working.is_alive():
            await asyncio.to_thread(self._working.join, _END)  # a later end is safe, as a crash is
        with contextlib.suppress(StoreError):
            await self._do(self.store.leave, self.process.owner)
        self._writer.shutdown()
        self.store.close()

    def _begin(self) -> None:
        self.process.begin()
        self.worker.holder = self.process.owner

    async def _beat(self) -> None:
        """Renew the lease of this process; if that has failed for too long, close its blocks."""
        while self.store.patience < math.inf:
            await asyncio.sleep(self.store.patience / 5)
            with contextlib.suppress(StoreError):
                await asyncio.to_thread(self.process.renew)
            if clock() >= self.process.until:
                self._let_go()

    def _let_go(self) -> None:
        """Close all blocks: this process was stopped, or without its database, for too long."""
        self.process.until = -math.inf
        self._close_all(self._queues())

    def _close_all(self, queues: Collection[Live]) -> None:
        for live in queues:
            while live.blocks:
                self._close(live.blocks.popleft())

    def _queues(self) -> list[Live]:
        return [queue for live in self._live.values() for queue in live.queues]

    def _close(self, block: DecisionBlock) -> None:
        block.over_at = clock()
        self._dirty[block.key] = block

    async def ping(self) -> None:
        def ask() -> None:
            with self.store.transaction() as tx:
                tx.one("SELECT 1")

        await self._do(ask)

    async def _do(self, work: Any, *given: Any) -> Any:
        """Do something with the database, in the writer's thread."""
        return await asyncio.get_running_loop().run_in_executor(self._writer, work, *given)

    # --- experiments -----------------------------------------------------------------------------

    async def live(self, name: str, *, reporting: bool = False) -> Live:
        """The experiment as this process has it; ``reporting``: for an outcome.

        What only outcomes have made this process read is read again for others: otherwise what is shown next
        would depend on whether somebody has reported.
        """
        found = self._live.get(name)
        if found is None or not (found.asked or reporting):
            found = await self.refresh(name)
        found.asked |= not reporting
        return found

    async def live_of(self, decision: DecisionId) -> Live:
        found = self._by_number.get(decision.experiment)
        return found if found is not None else await self._refresh("id", decision.experiment)

    async def refresh(self, name: str) -> Live:
        """Read an experiment again: after it was created, paused or changed, or a new epoch has begun."""
        return await self._refresh("name", name)

    async def _refresh(self, column: str, value: str | int) -> Live:
        """Read an experiment again, and update its `Live`, or make one for a new epoch."""
        row, read = await self._do(self._read, column, value)
        number, name, epoch, catalogue, status, population, period = row
        old = self._live.get(name)  # a concurrent call may have made it: there is one `Live` per experiment
        if old is not None and (old.id, old.epoch) == (number, epoch):
            old.renew(status, catalogue, None if read is None else read[2])
            if status in (ENDING, ENDED) or read is not None:  # blocks may show items that were retired
                self._close_all(old.queues)
            await self._look_for_model(old)
            return old
        config, people, labels = read
        made = Live(number, population, name, config, people, status, epoch, period, catalogue, labels)
        self._live[name] = self._by_number[made.id] = made  # before anything is awaited again
        await self._look_for_model(made)
        return made

    async def was_added(self, live: Live, label: str) -> bool:
        """Whether an item was added by another process since the catalogue was read here.

        The new catalogue is not adopted now, but at the next regular look: otherwise, what is shown next
        would depend on an outcome.
        """
        _, read = await self._do(self._read, "id", live.id)
        return read is not None and label in read[2]

    async def _look_for_model(self, live: Live) -> None:
        """Load the latest model of personal sets if there is a new one, outside of the writer's thread."""

        def newer(seq: int) -> PublicModel | None:
            with self.store.transaction() as tx:
                row = tx.one(
                    "SELECT seq, chain, body FROM model WHERE experiment = ? AND seq > ?", live.id, seq
                )
            return None if row is None else PublicModel.read(row)

        if live.config.personal:
            found = await asyncio.to_thread(newer, -1 if live.model is None else live.model.seq)
            live.model = found or live.model

    def _read(self, column: str, value: str | int) -> tuple[Any, Any]:
        """The row of an experiment; its config, its population's, and labels, or None if these are known."""
        with self.store.transaction() as tx:
            row = tx.one(
                "SELECT id, name, epoch, catalogue, status, population, period FROM experiment"
                f" WHERE {column} = ?",
                value,
            )
            if row is None:
                raise LookupError("experiment")
            old = self._live.get(row[1])
            if old is not None and (old.id, old.epoch, old.catalogue) == (row[0], row[2], row[3]):
                return row, None
            config, people = tx.one(
                "SELECT e.config, p.config FROM experiment e JOIN population p ON p.id = e.population"
                " WHERE e.id = ?",
                row[0],
            )
            labels = tx.all("SELECT label FROM item WHERE experiment = ? ORDER BY number", row[0])
        found = ExperimentConfig.read(config), PopulationConfig.read(people), [label for (label,) in labels]
        return row, found

    # --- decisions -------------------------------------------------------------------------------

    def pseudonym(self, live: Live, person: str | None) -> bytes:
        return NOBODY if person is None else self.secrets.pseudonym(live.population, live.period, person)

    def take(self, live: Live, pseudonym: bytes = NOBODY) -> tuple[DecisionBlock, int] | None:
        """The next decision, for a pseudonym, from memory; None if no leased block has one left."""
        if clock() >= self.process.until:
            self._let_go()
        blocks = live.blocks
        while blocks:
            block, offset = blocks[0], blocks[0].served
            if offset >= block.count:
                blocks.popleft()
                continue
            block.served += 1
            limit = live.people.max_rounds_per_person
            one = ServedDecision(*block.key, offset, pseudonym, live.population, live.period, limit)
            self._served.append((one, None))
            self._dirty[block.key] = block
            self._begin_group()
            if block.served == block.count:
                block.over_at = clock()
                blocks.popleft()
            if len(blocks) < 2 and live.leasing is None:
                self._start_lease(live)
            return block, offset
        return None

    async def next_decision(self, live: Live, pseudonym: bytes = NOBODY) -> tuple[DecisionBlock, int]:
        """The next decision; waits for a block if there are none. Call `keep` before any other await."""
        for _ in range(200):
            if (found := self.take(live, pseudonym)) is not None:
                return found
            await asyncio.shield(live.leasing or self._start_lease(live))  # others wait for it, too
            if not live.blocks:
                self._wake.set()
                await asyncio.sleep(_IDLE)
                if self._live.get(live.name, live).epoch != live.epoch:
                    break  # a repeated request gets a decision of the new epoch
        raise Unavailable

    def take_back(self) -> None:
        """Drop the record of the decision that was just taken: it was refused, and counts for no person."""
        self._served.pop()

    def keep(
        self, number: bytes, altered: bool, answer: str, *, active: bool = True, stays: float = 0.0
    ) -> asyncio.Future[KeptRequest]:
        """Record the answer to a request of this number together with the decision that was just taken.

        After the commit, the future holds what is stored under the number: this request, or an earlier one,
        in which case the new decision is left out of everything.
        """
        one, _ = self._served.pop()
        where = one.experiment, number, one.epoch, one.first + one.offset
        future: asyncio.Future[KeptRequest] = asyncio.get_running_loop().create_future()
        kept = one._replace(request=KeptRequest(*where, altered, one.pseudonym, active, answer, stays))
        self._served.append((kept, future))
        return future

    def activate(self, experiment: int, number: bytes) -> asyncio.Future[None]:
        """Record that the decision of a request was shown."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._activated.append(((experiment, number), future))
        self._begin_group()
        return future

    def _start_lease(self, live: Live) -> asyncio.Task[None]:
        live.leasing = task = asyncio.ensure_future(self._lease_next(live))
        task.add_done_callback(lambda done: done.cancelled() or done.exception())  # raised in `next_decision`
        return task

    async def _lease_next(self, live: Live) -> None:
        try:
            if clock() >= self.process.until:
                await self._do(self._begin)
            owner = self.process.owner
            asked = (live.id, live.epoch, owner, live.segment, new_lease())
            row = await self._do(self.store.lease_block, *asked)
            if row is None:
                return
            block = DecisionBlock.read(row)
            block.since = clock()
            newest = max(map(max, [[0, *block.spare], *block.lists]))
            known = False
            try:
                if newest >= len(live.labels):  # from a newer catalogue
                    await self.refresh(live.name)
                known = owner == self.process.owner
            finally:  # other processes do not close a block of a live process
                live.blocks.append(block) if known else self._close(block)
            self._wake.set()
        finally:
            live.leasing = None

    def _close_old(self, live: Live) -> None:
        """Close blocks leased long ago: blocks are aggregated in order, so an open one delays later ones."""
        while live.blocks and clock() - live.blocks[0].since > max(_OLD, live.config.outcome_wait):
            self._close(live.blocks.popleft())

    # --- groups ----------------------------------------------------------------------------------

    def record(self, decision: DecisionId, body: bytes) -> asyncio.Future[Acknowledged]:
        """Record an outcome with the next group; the future is set after the commit."""
        experiment, epoch, sequence, pseudonym, altered, lease = decision
        outcome = ReportedOutcome(experiment, epoch, sequence, altered, body, pseudonym, lease)
        future: asyncio.Future[Acknowledged] = asyncio.get_running_loop().create_future()
        self._queue.append((outcome, future, clock() + _EARLY))
        if not self._dirty:  # else a group is on its way, or tried again soon, whatever is reported
            self._begin_group()
        return future

    def _begin_group(self) -> None:
        if self._flushing is None:
            self._flushing = asyncio.get_running_loop().create_task(self._flush())

    async def _flush(self) -> None:
        try:
            written = True
            while written and (self._queue or self._dirty or self._activated):  # also new arrivals
                if self._decided >= _SEVERAL:
                    await asyncio.sleep(_COMPANY)
                written = await self._flush_now()
        finally:
            self._flushing = None

    async def _flush_now(self, *, closing: bool = False) -> bool:
        """Write what waits as one group; returns whether that succeeded."""
        batch, self._queue = self._queue, []
        dirty, self._dirty = self._dirty, {}
        served, self._served = self._served, []
        activated, self._activated = self._activated, []
        group = Group(
            [outcome for outcome, *_ in batch],
            self._cursors(dirty, closing),
            [one for one, _ in served],
            [request for request, _ in activated],
        )
        if not any(group):
            return True
        requests = [future for one, future in served if one.request is not None]
        try:
            written = await self._do(groups.record, self.store, group)
        except Exception as error:
            self._dirty = dirty | self._dirty
            self._served = [(one, None) for one, _ in served] + self._served
            said = error if isinstance(error, StoreError) else StoreError("the commit failed")
            for future in (*[one for _, one, _ in batch], *requests, *[one for _, one in activated]):
                if future is not None and not future.done():
                    future.set_exception(said)
                    future.exception()  # else the log would have a line for each that nobody awaits
            if not isinstance(error, StoreError):
                logger.error("a group was not written", exc_info=error)
            return False
        self._decided = len(served) or self._decided
        for told, request in zip(requests, written.requests, strict=True):
            _answer(told, request)
        for _, done in activated:
            _answer(done, None)
        for waits, answer in zip(batch, written.outcomes, strict=True):
            _, heard, until = waits
            if answer.status == EARLY and clock() < until and not closing:
                self._early.append(waits)
            else:
                _answer(heard, Acknowledged(LATE, False) if answer.status in (EARLY, LOST) else answer)
        late = [
            (one.experiment, answer.status == LOST, one)
            for (one, *_), answer in zip(batch, written.outcomes, strict=True)
            if answer.status in (LATE, LOST)
        ]
        for _, lost, outcome in {one[0]: one for one in sorted(late)}.values():  # the newest tells most
            with contextlib.suppress(StoreError):  # the next such outcome is checked, too
                await self._do(self._check_late, outcome, lost)
        return True

    async def unknown(self, decision: DecisionId) -> None:
        """Check a decision with a valid signature whose experiment does not exist."""
        outcome = ReportedOutcome(*decision[:3], decision.altered, b"", decision.pseudonym)
        await self._do(self._check_late, outcome)

    def _check_late(self, outcome: ReportedOutcome, lost: bool = False) -> None:
        """Freeze all experiments if the store never allocated this signed decision: it was restored."""
        if lost or self.worker.beyond(outcome.experiment, outcome.epoch, outcome.sequence):
            freeze_after_restore(self.store, self.worker)
            logger.error("all experiments are frozen: the store is older than decisions already made")

    def _cursors(self, dirty: dict[tuple[int, int, int], DecisionBlock], closing: bool) -> list[Cursor]:
        """How far blocks were served, in the order of ``dirty``; when ``closing``, also all leased blocks."""
        if closing:
            leased = {block.key: block for live in self._queues() for block in live.blocks}
            dirty = dirty | {key: block for key, block in leased.items() if key not in dirty}
        now = clock()
        return [
            Cursor(
                *block.key,
                block.served,
                now - block.over_at if block.over_at is not None else 0.0 if closing else None,
                " ".join(map(str, sorted(block.altered))),
            )
            for block in dirty.values()
        ]

    # --- loops -----------------------------------------------------------------------------------

    async def _write_down(self) -> None:
        """Retry failed writes and early outcomes, and record blocks that were closed."""
        while True:
            await asyncio.sleep(_FLUSH)
            early, self._early = self._early, []
            self._queue += early
            if self._dirty or self._queue or self._served:
                self._begin_group()

    async def _look(self, every: Callable[[], object] | None) -> None:
        """Close old blocks, and read changes by other processes and the worker."""
        while True:
            await asyncio.sleep(_LOOK)
            if every is not None:
                await self._tried(self._do(every))
            for live in list(self._live.values()):
                for queue in live.queues:
                    self._close_old(queue)
                await self._tried(self.look_at(live))

    async def look_at(self, live: Live) -> None:
        """Read an experiment again, and forget one that has ended, or was deleted."""
        with contextlib.suppress(LookupError):
            now = await self.refresh(live.name)
            if now.id == live.id and now.status != ENDED:
                return
        self.forget(live)

    def forget(self, live: Live) -> None:
        """Discard the in-memory state of an experiment; it is read again if it is asked for."""
        if (known := self._live.get(live.name)) is not None and known.id == live.id:
            del self._live[live.name]
        self._by_number.pop(live.id, None)

    async def _tried(self, work: Awaitable[object]) -> None:
        """Await something that is repeated soon; an error is logged at most."""
        try:
            await work
        except (LookupError, StoreError):
            pass
        except Exception as error:
            logger.error("a look at what others did failed", exc_info=error)

    def _work(self) -> None:
        """The loop of the thread that learns and releases, until the engine stops."""
        looked_at, forgot_at = clock(), -math.inf
        again: dict[int, float] = {}  # when to retry an experiment that failed; others do not wait for it
        while not self._stop.is_set():
            busy = False
            try:
                if clock() - looked_at > self.store.patience / 4:
                    looked_at = clock()
                    self.store.recover(self.process.owner)
                if clock() - forgot_at > _FORGET:
                    forgot_at = clock()
                    groups.forget_requests(self.store)
                    self.worker.forget_people()
                due = [number for number in self.worker.due() if clock() >= again.get(number, 0.0)]
            except Exception as error:
                _log(error)
                self._stop.wait(_AGAIN)
                continue
            for number in due:
                try:
                    busy |= self.worker.tick(number)
                except Exception as error:
                    _log(error)
                    again[number] = clock() + _AGAIN
            if not busy:
                self._wake.wait(_IDLE)
                self._wake.clear()


def _answer(future: asyncio.Future[Any] | None, found: object) -> None:
    if future is not None and not future.done():
        future.set_result(found)


def _log(error: Exception) -> None:
    level = logging.WARNING if isinstance(error, Fenced | StoreError) else logging.ERROR
    logger.log(level, "the worker will try again", exc_info=error)
