"""The service in one process: decisions out of leased blocks, outcomes committed in groups, and its worker.

A decision waits for no disk, unless it may be asked for again: then it is answered after the commit of its
group, as an outcome is. Whatever comes while one group is being written is the next one. Every decision
begins a group, in which it is written down whom it was for: reports change of which decisions a crash leaves
that unknown by the time of a commit at most (`groups`).
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
_SURE = 0.8  # of a database's patience: answers take a while, and clocks differ
_IDLE = 0.05  # seconds between looks at what is due
_OLD = 60.0  # seconds for which a block is served, or as long as it waits for outcomes if that is longer
_AGAIN = 1.0  # seconds until the worker tries again
_LOOK = 1.0  # seconds between looks at what others have changed
_FLUSH = 0.1  # seconds after which what could not be written down, or was early, is tried again
_SEVERAL, _COMPANY = 8, 0.003  # where a group had that many decisions, the next one waits for company
_EARLY = 5.0  # seconds for which an outcome waits until another process has done so
_END = 1.5  # seconds for which a stop waits for the worker
_FORGET = 60.0  # seconds between looks for requests that are not sent again any more
_CLOCK: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def clock() -> float:
    """Seconds that go on while this process, or its whole machine, is stopped."""
    return time.clock_gettime(_CLOCK)


class NotEnoughItems(Exception):
    """Fewer items are left than a set has."""


class Unavailable(Exception):
    """No decision can be had at the moment."""


class ProcessLease:
    """A name, and until when (by `clock`) its holder counts as alive."""

    def __init__(self, store: Database) -> None:
        self._store = store
        self.owner, self.until = owner_name(), -math.inf

    def begin(self) -> None:
        """Under a new name, unless it lives already."""
        if clock() >= self.until:
            owner, now = owner_name(), clock()
            self._store.beat(owner, new=True)
            self.owner, self.until = owner, now + _SURE * self._store.patience

    def renew(self) -> None:
        """Tell the others; it is over if they took it for dead."""
        now = clock()
        lives = self._store.beat(self.owner)
        self.until = now + _SURE * self._store.patience if lives else -math.inf


@dataclass(frozen=True)
class PublicModel:
    """The latest model of personal sets, by the number of its release; ``policy`` names it."""

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
    """What a process knows of an experiment that it serves, or of one of its segments."""

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

    def __post_init__(self) -> None:
        self.known = frozenset(self.labels)
        if not self.segment:
            self.constraint = constraint_of(self.config)
            for one in self.config.segments:
                self.segments[one] = replace(self, segment=one, segments={}, blocks=deque(), rendered={})

    def renew(self, status: str, catalogue: int, labels: list[str] | None) -> None:
        """Take up what has changed within an epoch; labels only if they have."""
        for live in (self, *self.segments.values()):
            live.status = status
            if labels is not None:
                live.catalogue, live.labels, live.known = catalogue, labels, frozenset(labels)
                live.rendered.clear()

    def items(self, block: DecisionBlock, offset: int) -> tuple[bytes, bytes]:
        """The labels of a decision, and how likely they were, as JSON."""
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
        """The answer with somebody's own set, from the public model and their history, which is not kept.

        In the hold-out it is the most popular items that are not in the history; before there is a model, the
        set of the block without those. There are fewer items where fewer are left: refusals are counted.
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
        """The labels of a decision without excluded items, filled up from ``spare``; whether altered."""
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
        block.altered.add(offset)  # public: it is written down with what was served, not with an outcome
        if len(chosen) < len(allocated) and self.constraint is None:
            raise NotEnoughItems
        return [labels[item] for item in chosen], True

    @property
    def queues(self) -> Collection[Live]:
        """What there are blocks of: its segments, or itself."""
        return self.segments.values() or (self,)


def decision_of(block: DecisionBlock, offset: int, pseudonym: bytes, altered: bool) -> DecisionId:
    """What the id of a decision of a block says."""
    return DecisionId(block.experiment, block.epoch, block.first + offset, pseudonym, altered, block.lease)


_Waiting = tuple[ReportedOutcome, asyncio.Future[Acknowledged], float]  # the last: when it is too late


class DecisionEngine:
    """Decisions and outcomes of all experiments, for the web and for tests."""

    def __init__(self, store: Database, secrets: Secrets, *, calendar: Any = None) -> None:
        self.store, self.secrets = store, secrets
        self.process = ProcessLease(store)
        self.worker = Worker(store, self.process.owner, calendar)
        self._live: dict[str, Live] = {}
        self._by_number: dict[int, Live] = {}
        self._queue: list[_Waiting] = []
        self._early: list[_Waiting] = []  # they are asked about again
        # Served and not written down yet; with whom to tell what is known of the request.
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
        """Take up what was there, and begin; ``every`` is done now and every second, where the writer is."""
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
        """Write down what was served, and let go."""
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
            await asyncio.to_thread(self._working.join, _END)  # else it ends as it would by a crash
        with contextlib.suppress(StoreError):
            await self._do(self.store.leave, self.process.owner)
        self._writer.shutdown()
        self.store.close()

    def _begin(self) -> None:
        self.process.begin()
        self.worker.holder = self.process.owner

    async def _beat(self) -> None:
        """Tell others that this process lives; if they took it for dead, it lets go of its blocks."""
        while self.store.patience < math.inf:
            await asyncio.sleep(self.store.patience / 5)
            with contextlib.suppress(StoreError):
                await asyncio.to_thread(self.process.renew)
            if clock() >= self.process.until:
                self._let_go()

    def _let_go(self) -> None:
        """Serve no more of any block: this process was stopped, or cut off, for too long."""
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
        """Something with the database, in the thread that writes."""
        return await asyncio.get_running_loop().run_in_executor(self._writer, work, *given)

    # --- experiments -----------------------------------------------------------------------------

    async def live(self, name: str) -> Live:
        found = self._live.get(name)
        return found if found is not None else await self.refresh(name)

    async def live_of(self, decision: DecisionId) -> Live:
        found = self._by_number.get(decision.experiment)
        return found if found is not None else await self._refresh("id", decision.experiment)

    async def refresh(self, name: str) -> Live:
        """Read an experiment again: after it was made, paused or changed, or a new epoch has begun."""
        return await self._refresh("name", name)

    async def _refresh(self, column: str, value: str | int) -> Live:
        """Read an experiment again, and renew what is kept of it here."""
        row, read = await self._do(self._read, column, value)
        number, name, epoch, catalogue, status, population, period = row
        old = self._live.get(name)  # others may have asked for it at the same time: there is one of each
        if old is not None and (old.id, old.epoch) == (number, epoch):
            old.renew(status, catalogue, None if read is None else read[2])
            if status in (ENDING, ENDED) or read is not None:  # or what they show may have been retired
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

        That is not taken up now, but when it is looked for anyway: what is shown next would otherwise depend
        on what somebody has reported.
        """
        _, read = await self._do(self._read, "id", live.id)
        return read is not None and label in read[2]

    async def _look_for_model(self, live: Live) -> None:
        """Take up the latest model of personal sets, if it is a new one; nobody's commit waits for that."""

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
        """The row of an experiment; its config, its people's, and labels, unless these are known."""
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
        """The next decision, for a pseudonym, out of memory; None when no leased block has one."""
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
            where = (*block.key, offset)
            one = ServedDecision(*where, pseudonym, live.population, live.period, limit)
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
        """The next decision; waits for a block where none is there. `keep` it before anything is awaited."""
        for _ in range(200):
            if (found := self.take(live, pseudonym)) is not None:
                return found
            await asyncio.shield(live.leasing or self._start_lease(live))  # others wait for it, too
            if not live.blocks:
                self._wake.set()
                await asyncio.sleep(_IDLE)
                if self._live.get(live.name, live).epoch != live.epoch:
                    break  # whoever asks again gets one of the new epoch
        raise Unavailable

    def take_back(self) -> None:
        """The decision that was just taken is nobody's: it was refused, and counts for no person."""
        self._served.pop()

    def keep(
        self, number: bytes, altered: bool, answer: str, *, active: bool = True, stays: float = 0.0
    ) -> asyncio.Future[KeptRequest]:
        """Write down, with the decision that was just taken, what was answered to a request of this number.

        What is known by the number is told after the commit: this, or what was answered before. Then the
        decision is left out of everything.
        """
        one, _ = self._served.pop()
        where = one.experiment, number, one.epoch, one.first + one.offset
        future: asyncio.Future[KeptRequest] = asyncio.get_running_loop().create_future()
        kept = one._replace(request=KeptRequest(*where, altered, one.pseudonym, active, answer, stays))
        self._served.append((kept, future))
        return future

    def activate(self, experiment: int, number: bytes) -> asyncio.Future[None]:
        """Write down that somebody has seen what was decided for a request."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._activated.append(((experiment, number), future))
        self._begin_group()
        return future

    def _start_lease(self, live: Live) -> asyncio.Task[None]:
        live.leasing = task = asyncio.ensure_future(self._lease_next(live))
        task.add_done_callback(lambda done: done.cancelled() or done.exception())  # whoever waits hears of it
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
                if newest >= len(live.labels):  # of a catalogue that is newer
                    await self.refresh(live.name)
                known = owner == self.process.owner
            finally:  # nobody else closes a block of a process that lives
                live.blocks.append(block) if known else self._close(block)
            self._wake.set()
        finally:
            live.leasing = None

    def _close_old(self, live: Live) -> None:
        """Blocks are aggregated in order: nobody keeps one while others go on, nor what was said about it."""
        longest = max(_OLD, live.config.outcome_wait)
        while live.blocks and clock() - live.blocks[0].since > longest:
            self._close(live.blocks.popleft())

    # --- groups ----------------------------------------------------------------------------------

    def record(self, decision: DecisionId, body: bytes) -> asyncio.Future[Acknowledged]:
        """Write an outcome down with the next group; its answer comes after the commit."""
        experiment, epoch, sequence, pseudonym, altered, lease = decision
        outcome = ReportedOutcome(experiment, epoch, sequence, altered, body, pseudonym, lease)
        future: asyncio.Future[Acknowledged] = asyncio.get_running_loop().create_future()
        self._queue.append((outcome, future, clock() + _EARLY))
        if not self._dirty:  # else that is on its way, or is tried again, whoever reports what
            self._begin_group()
        return future

    def _begin_group(self) -> None:
        if self._flushing is None:
            self._flushing = asyncio.get_running_loop().create_task(self._flush())

    async def _flush(self) -> None:
        try:
            written = True
            while written and (self._queue or self._dirty or self._activated):  # also what has come meanwhile
                if self._decided >= _SEVERAL:
                    await asyncio.sleep(_COMPANY)
                written = await self._flush_now()
        finally:
            self._flushing = None

    async def _flush_now(self, *, closing: bool = False) -> bool:
        """Write down what waits; whether that was possible."""
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
        for (outcome, *_), answer in zip(batch, written.outcomes, strict=True):
            if answer.status in (LATE, LOST):
                with contextlib.suppress(StoreError):  # the next one will tell
                    await self._do(self._check_late, outcome, answer.status == LOST)
        return True

    async def unknown(self, decision: DecisionId) -> None:
        """A decision that we signed, of an experiment that is not there."""
        outcome = ReportedOutcome(*decision[:3], decision.altered, b"", decision.pseudonym)
        await self._do(self._check_late, outcome)

    def _check_late(self, outcome: ReportedOutcome, lost: bool = False) -> None:
        """A decision that we signed, and that is not known here: an older state was restored. Freeze."""
        if lost or self.worker.beyond(outcome.experiment, outcome.epoch, outcome.sequence):
            freeze_after_restore(self.store, self.worker)
            logger.error("all experiments are frozen: the store is older than decisions already made")

    def _cursors(self, dirty: dict[tuple[int, int, int], DecisionBlock], closing: bool) -> list[Cursor]:
        """How far blocks were served, in the order of ``dirty``; all that are leased, when ``closing``."""
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

    # --- again and again -------------------------------------------------------------------------

    async def _write_down(self) -> None:
        """What is to be tried again, and blocks that nobody is served from again."""
        while True:
            await asyncio.sleep(_FLUSH)
            early, self._early = self._early, []
            self._queue += early
            if self._dirty or self._queue or self._served:
                self._begin_group()

    async def _look(self, every: Callable[[], object] | None) -> None:
        """What others have changed."""
        while True:
            await asyncio.sleep(_LOOK)
            if every is not None:
                await self._tried(self._do(every))
            for live in list(self._live.values()):
                for queue in live.queues:
                    self._close_old(queue)
                await self._tried(self._seen(live))

    async def _seen(self, live: Live) -> None:
        """Read an experiment again, which may have been deleted."""
        try:
            await self.refresh(live.name)
        except LookupError:
            self.forget(live)

    def forget(self, live: Live) -> None:
        """The experiment was deleted: it never had a decision."""
        self._live.pop(live.name, None)
        self._by_number.pop(live.id, None)

    async def _tried(self, work: Awaitable[object]) -> None:
        """Do something that is done again soon, whatever comes of it."""
        try:
            await work
        except (LookupError, StoreError):
            pass
        except Exception as error:
            logger.error("a look at what others did failed", exc_info=error)

    def _work(self) -> None:
        """The loop of the thread that learns and releases, until the engine stops."""
        looked_at, forgot_at = clock(), -math.inf
        again: dict[int, float] = {}  # when what has failed is tried again: others do not wait for it
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
    expected = isinstance(error, Fenced | StoreError)
    level = logging.WARNING if expected else logging.ERROR
    logger.log(level, "the worker will try again", exc_info=error)
