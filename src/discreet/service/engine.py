"""The service in one process: decisions out of claimed hands, outcomes committed in groups, and its keeper.

A decision waits for no disk. An outcome is acknowledged after the commit of its group: whatever comes while
one group is being written is the next one. Decisions begin a group, too, in which it is written down whom
they were for: reports change of which decisions a crash leaves that unknown by the time of a commit at most
(`visits`).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Protocol

from . import lookups
from .care import gone_back
from .hands import Hand
from .keeper import RUNNING, Keeper
from .keys import MARK, NOBODY, Decision, Secrets
from .life import Life, clock
from .lookups import Live
from .store import EARLY, LATE, Fenced, Outcome, Served, Store, StoreError, visits

logger = logging.getLogger("discreet.service")
_IDLE = 0.05  # seconds between looks at what is due
_OLD = 60.0  # seconds for which a hand is served, or as long as it waits for outcomes if that is longer
_AGAIN = 1.0  # seconds until the keeper tries again
_LOOK = 1.0  # seconds between looks at what others have changed
_FLUSH = 0.1  # seconds after which what could not be written down, or was early, is tried again
_SEVERAL, _COMPANY = 8, 0.003  # where a group had so many decisions, the next one waits for company
_EARLY = 5.0  # seconds for which an outcome waits until another process has done so


class Unavailable(Exception):
    """No decision can be had at the moment."""


class Answer(Protocol):
    """Who is told what came of an outcome: a future, or what does as one."""

    def done(self) -> bool:
        """Whether nobody waits any more."""

    def set_result(self, status: str) -> None:
        """It was written down, or is not counted."""

    def set_exception(self, error: Exception) -> None:
        """It was not written down."""


class Engine:
    """Decisions and outcomes of all experiments, for the web and for tests."""

    def __init__(self, store: Store, secrets: Secrets, *, calendar: Any = None) -> None:
        self.store, self.secrets = store, secrets
        self.life = Life(store)
        self.keeper = Keeper(store, self.life.owner, calendar)
        self._live: dict[str, Live] = {}
        self._by_number: dict[int, Live] = {}
        self._queue: list[tuple[Outcome, Answer, float]] = []  # the last: when it is too late
        self._early: list[tuple[Outcome, Answer, float]] = []  # they are asked about again
        self._flushing: asyncio.Task[None] | None = None
        self._decided = 0  # how many decisions were in the last group that had any
        self._dirty: dict[tuple[int, int, int], Hand] = {}
        self._writer = ThreadPoolExecutor(1, "discreet-writer")
        self._keeping = threading.Thread(target=self._keep, name="discreet-keeper", daemon=True)
        self._stop = threading.Event()
        self._wake = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: list[asyncio.Task[None]] = []

    # --- life ------------------------------------------------------------------------------------

    async def start(self, *, keep: bool = True, every: Callable[[], object] | None = None) -> None:
        """Take up what was there, and begin; ``every`` is done now and every second, where the writer is."""
        self._loop = asyncio.get_running_loop()
        await self._do(self.store.migrate)
        await self._do(self._begin)
        await self._do(self.store.recover, self.life.owner)
        if keep:
            self._keeping.start()
        if every is not None:
            await self._do(every)
        work = (self._tick(every), self._beat(), self._write_down())
        self._tasks = [asyncio.create_task(one) for one in work]

    async def stop(self) -> None:
        """Write down what was served, and let go."""
        self._stop.set()
        self._wake.set()
        for task in self._tasks:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        claims = [live.claiming for live in self._queues() if live.claiming is not None]
        await asyncio.gather(*claims, return_exceptions=True)
        if self._flushing is not None:
            await self._flushing
        self._queue += self._early
        await self._flush_now(closing=True)
        if self._keeping.is_alive():
            await asyncio.to_thread(self._keeping.join)
        with contextlib.suppress(StoreError):
            await self._do(self.store.leave, self.life.owner)
        self._writer.shutdown()
        self.store.close()

    def _begin(self) -> None:
        self.life.begin()
        self.keeper.holder = self.life.owner

    async def _beat(self) -> None:
        """Tell others that this process lives; if they took it for dead, it lets go of its hands."""
        while self.store.patience < math.inf:
            await asyncio.sleep(self.store.patience / 5)
            with contextlib.suppress(StoreError):
                await asyncio.to_thread(self.life.go_on)
            if clock() >= self.life.until:
                self._let_go()

    def _let_go(self) -> None:
        """Serve no more of any hand: this process was stopped, or cut off, for too long."""
        self.life.until = -math.inf
        for live in self._queues():
            while live.hands:
                self._close(live.hands.popleft())

    def _queues(self) -> list[Live]:
        return [queue for live in self._live.values() for queue in live.queues]

    def _close(self, hand: Hand) -> None:
        hand.over_at = clock()
        self._dirty[hand.experiment, hand.epoch, hand.first] = hand

    async def ping(self) -> None:
        """Whether the database answers."""
        await self._do(lookups.ping, self.store)

    async def _do(self, work: Any, *given: Any) -> Any:
        """Something with the database, in the thread that writes."""
        return await asyncio.get_running_loop().run_in_executor(self._writer, work, *given)

    # --- decisions -------------------------------------------------------------------------------

    def known(self, name: str) -> Live | None:
        """The experiment of this name, if this process serves it already."""
        return self._live.get(name)

    async def live(self, name: str) -> Live:
        """The experiment of this name."""
        found = self._live.get(name)
        return found if found is not None else await self.refresh(name)

    async def refresh(self, name: str) -> Live:
        """Read an experiment again: after it was made, paused or changed, or a new epoch has begun."""
        old = self._live.get(name)
        known = None if old is None else (old.id, old.epoch, old.catalogue)
        row = await self._do(lookups.experiment, self.store, name, known)
        if row is None:
            raise LookupError("experiment")
        old = self._live.get(name)  # others may have asked for it at the same time: there is one of each
        if old is not None and (old.id, old.epoch) == row[:2]:
            old.renew(row)
            return old
        made = Live.read(name, row)
        self._live[name] = self._by_number[made.id] = made
        return made

    def take(self, live: Live, mark: bytes = NOBODY) -> tuple[Hand, int] | None:
        """The next place, for whoever has this mark, out of memory; None when no claimed hand has one."""
        if clock() >= self.life.until:
            self._let_go()
        hands = live.hands
        while hands:
            hand = hands[0]
            if hand.served < hand.count:
                offset = hand.served
                hand.served += 1
                hand.marks += mark
                self._dirty[hand.experiment, hand.epoch, hand.first] = hand
                self._begin_group()
                if hand.served == hand.count:
                    hand.over_at = clock()
                    hands.popleft()
                if len(hands) < 2 and live.claiming is None:
                    self._start_claim(live)
                return hand, offset
            hands.popleft()
        return None

    async def next_place(self, live: Live, mark: bytes = NOBODY) -> tuple[Hand, int]:
        """The next place; waits for a hand where none is there."""
        for _ in range(200):
            if (found := self.take(live, mark)) is not None:
                return found
            await asyncio.shield(live.claiming or self._start_claim(live))  # others wait for it, too
            if not live.hands:
                self._wake.set()
                await asyncio.sleep(_IDLE)
                if (
                    self._live.get(live.name, live).epoch != live.epoch
                ):  # whoever asks again gets one of the new epoch
                    break
        raise Unavailable

    def _start_claim(self, live: Live) -> asyncio.Task[None]:
        live.claiming = task = asyncio.ensure_future(self._claim(live))
        task.add_done_callback(lambda done: done.cancelled() or done.exception())  # whoever waits hears of it
        return task

    async def _claim(self, live: Live) -> None:
        try:
            if clock() >= self.life.until:
                await self._do(self._begin)
            owner = self.life.owner
            row = await self._do(self.store.claim, live.id, live.epoch, owner, live.segment)
            if row is None:
                return
            hand = Hand.read(row)
            hand.since = clock()
            newest = max(map(max, [[0, *hand.spare], *hand.lists]))
            known = False
            try:
                if newest >= len(live.labels):  # of a catalogue that is newer
                    await self.refresh(live.name)
                known = owner == self.life.owner
            finally:  # nobody else closes a hand of a process that lives
                live.hands.append(hand) if known else self._close(hand)
            self._wake.set()
        finally:
            live.claiming = None

    # --- outcomes --------------------------------------------------------------------------------

    def record(self, decision: Decision, body: bytes) -> asyncio.Future[str]:
        """Write an outcome down with the next group; its answer comes after the commit."""
        assert self._loop is not None
        future = self._loop.create_future()
        self.add(decision, body, future)
        return future

    def add(self, decision: Decision, body: bytes, answer: Answer) -> None:
        """The same for whoever wants to be told the answer."""
        experiment, epoch, place, mark, altered = decision
        outcome = Outcome(experiment, epoch, place, altered, body, mark)
        self._queue.append((outcome, answer, clock() + _EARLY))
        if not self._dirty:  # else that is on its way, or is tried again, whoever reports what
            self._begin_group()

    def _begin_group(self) -> None:
        if self._flushing is None and self._loop is not None:
            self._flushing = self._loop.create_task(self._flush())

    def by_number(self, decision: Decision) -> Live | None:
        """The experiment of a decision, if this process serves it."""
        return self._by_number.get(decision.experiment)

    async def live_of(self, decision: Decision) -> Live:
        """The same, read from the database where it has to be."""
        found = self.by_number(decision)
        if found is not None:
            return found
        name = await self._do(lookups.name_of, self.store, decision.experiment)
        if name is None:
            raise LookupError("experiment")
        return await self.refresh(name)

    def erase(self, population: str, person: str) -> None:
        """Forget what waits to be learned about somebody, and count nothing of them again in this period.

        What was released about them stays: it has been paid for. A mark is kept, which is theirs alone as
        long as the key of marks is.
        """
        visits.erase(self.store, population, self.keeper.period, partial(self.secrets.mark, person=person))

    async def _flush(self) -> None:
        try:
            written = True
            while written and (self._queue or self._dirty):  # also what has come in the meantime
                if self._decided >= _SEVERAL:
                    await asyncio.sleep(_COMPANY)
                written = await self._flush_now()
        finally:
            self._flushing = None

    async def _flush_now(self, *, closing: bool = False) -> bool:
        """Write down what waits; whether that was possible."""
        batch, self._queue = self._queue, []
        dirty, self._dirty = self._dirty, {}
        served = self._served(dirty, closing)
        if not batch and not served:
            return True
        try:
            answers = await self._do(self.store.record, [outcome for outcome, *_ in batch], served)
        except Exception as error:
            self._dirty = dirty | self._dirty
            for _, future, _ in batch:
                if not future.done():
                    future.set_exception(
                        error if isinstance(error, StoreError) else StoreError("the commit failed")
                    )
            if not isinstance(error, StoreError):
                logger.error("a group of outcomes was not written: %s", type(error).__name__)
            return False
        for hand, told in zip(dirty.values(), served, strict=False):
            del hand.marks[: (told.served - told.start) * MARK]
        if served:
            self._decided = sum(told.served - told.start for told in served)
        late = []
        for waiting, answer in zip(batch, answers, strict=True):
            outcome, future, until = waiting
            if answer == EARLY and clock() < until and not closing:
                self._early.append(waiting)
            elif not future.done():
                future.set_result(LATE if answer == EARLY else answer)
            if answer == LATE:
                late.append(outcome)
        for outcome in late:
            with contextlib.suppress(StoreError):  # the next one will tell
                await self._do(self._check_late, outcome)
        return True

    def _check_late(self, outcome: Outcome) -> None:
        """A decision that we signed and never dealt: somebody has put back an older state. Freeze."""
        if self.keeper.beyond(outcome.experiment, outcome.epoch, outcome.place):
            gone_back(self.store, self.keeper)
            logger.error("all experiments are frozen: their store has gone back in time")

    def _served(self, dirty: dict[tuple[int, int, int], Hand], closing: bool) -> list[Served]:
        """How far hands were served, in the order of ``dirty``; all that are claimed, when ``closing``."""
        hands = list(dirty.values())
        if closing:
            claimed = [hand for live in self._queues() for hand in live.hands]
            hands += [hand for hand in claimed if (hand.experiment, hand.epoch, hand.first) not in dirty]
        now = clock()
        return [
            Served(
                hand.experiment,
                hand.epoch,
                hand.first,
                hand.served,
                now - hand.over_at if hand.over_at is not None else 0.0 if closing else None,
                " ".join(map(str, sorted(hand.altered))),
                hand.served - len(hand.marks) // MARK,
                bytes(hand.marks) if hand.marks.strip(NOBODY[:1]) else b"",
            )
            for hand in hands
        ]

    async def _write_down(self) -> None:
        """What is to be tried again, and hands that nobody is served from again."""
        while True:
            await asyncio.sleep(_FLUSH)
            early, self._early = self._early, []
            self._queue += early
            if self._dirty or self._queue:
                self._begin_group()

    async def _tick(self, every: Callable[[], object] | None) -> None:
        while True:
            await asyncio.sleep(_LOOK)
            if every is not None:
                await self._tried(self._do(every))
            for live in list(self._live.values()):
                for queue in live.queues:
                    self._close_old(queue)
                await self._tried(self.refresh(live.name))

    async def _tried(self, work: Awaitable[object]) -> None:
        """Do something that is done again soon, whatever comes of it."""
        try:
            await work
        except Exception as error:
            if not isinstance(error, LookupError | StoreError):
                logger.error("a look at what others did failed: %s", type(error).__name__)

    def _close_old(self, live: Live) -> None:
        """Hands are folded in order: nobody keeps one while others go on, nor what was said about it."""
        longest = max(_OLD, live.config.outcome_wait)
        while live.hands and clock() - live.hands[0].since > longest:
            self._close(live.hands.popleft())

    # --- the keeper's thread ---------------------------------------------------------------------

    def _keep(self) -> None:
        looked_at = clock()
        again: dict[int, float] = {}  # when what has failed is tried again: others do not wait for it
        while not self._stop.is_set():
            busy = False
            try:
                if clock() - looked_at > self.store.patience / 4:
                    looked_at = clock()
                    self.store.recover(self.life.owner)
                due = [number for number in self.keeper.due() if clock() >= again.get(number, 0.0)]
            except Exception as error:
                _told(error)
                self._stop.wait(_AGAIN)
                continue
            for number in due:
                try:
                    busy |= self.keeper.tick(number)
                except Exception as error:
                    _told(error)
                    again[number] = clock() + _AGAIN
            if not busy:
                self._wake.wait(_IDLE)
                self._wake.clear()


def _told(error: Exception) -> None:
    expected = isinstance(error, Fenced | StoreError)
    logger.log(
        logging.WARNING if expected else logging.ERROR, "the keeper will try again: %s", type(error).__name__
    )


def mark_of(engine: Engine, live: Live, person: str | None) -> bytes:
    """The mark of whoever a decision is for."""
    return NOBODY if person is None else engine.secrets.mark(live.population, live.period, person)


def running(live: Live) -> bool:
    """Whether decisions may be asked for."""
    return live.status == RUNNING
