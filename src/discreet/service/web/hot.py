"""The routes that every visitor of an application passes: a decision, and its outcome.

Written against ASGI itself: what a framework does for each request costs more than a decision.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, MutableMapping
from functools import cache
from typing import Any

import msgspec

from ..engine import Answer, Engine, Unavailable, mark_of
from ..hands import Hand
from ..keeper import RUNNING
from ..lookups import Live, NotEnoughItems
from ..store import StoreError
from . import problems
from .auth import Key
from .problems import Problem

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

LARGEST = 1 << 16  # bytes of a body
MANY = 1000  # decisions or outcomes in one request
_JSON = [(b"content-type", b"application/json")]
_PROBLEM = (b"content-type", b"application/problem+json")


class DecisionRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Who it is for, how many, in which segment, and which items cannot be shown (public facts only)."""

    person: str | None = None
    count: int = 1
    exclude: list[str] = []
    segment: str | None = None


class OutcomeRequest(msgspec.Struct, forbid_unknown_fields=True):
    """What came of a decision: one of the three."""

    taken: str | msgspec.UnsetType | None = msgspec.UNSET
    value: float | msgspec.UnsetType = msgspec.UNSET
    likes: list[str] | msgspec.UnsetType = msgspec.UNSET


class OutcomeOf(OutcomeRequest, forbid_unknown_fields=True, kw_only=True):
    """An outcome that names its decision."""

    decision_id: str


_decisions = msgspec.json.Decoder(DecisionRequest)
_outcome = msgspec.json.Decoder(OutcomeRequest)
_outcomes = msgspec.json.Decoder(list[OutcomeOf])
_encode = msgspec.json.Encoder().encode
_WRONG = (msgspec.MsgspecError, UnicodeDecodeError)


class Hot:
    """Decisions and outcomes over ASGI."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    async def decide(self, name: str, receive: Receive) -> bytes:
        """The answer to a request for decisions."""
        raw = await body(receive)
        try:
            asked = _decisions.decode(raw) if raw else DecisionRequest()
        except _WRONG:
            raise problems.BAD_BODY from None
        if not 1 <= asked.count <= MANY or not usable(asked.person):
            raise problems.BAD_BODY
        engine = self.engine
        try:
            live = engine.known(name) or await engine.live(name)
        except LookupError:
            raise problems.NOT_FOUND from None
        if live.status != RUNNING:
            raise problems.NOT_RUNNING
        if asked.segment is not None or live.segments:
            part = live.segments.get(asked.segment or "")
            if part is None:
                raise problems.SEGMENT
            live = part
        mark = mark_of(engine, live, asked.person)
        made = [await self._one(live, mark, asked.exclude) for _ in range(asked.count)]
        return made[0] if asked.count == 1 else b'{"decisions":[' + b",".join(made) + b"]}"

    async def _one(self, live: Live, mark: bytes, exclude: list[str]) -> bytes:
        engine = self.engine
        found = engine.take(live, mark)
        if found is None:
            try:
                found = await engine.next_place(live, mark)
            except Unavailable:
                raise problems.BUSY from None
            except StoreError:
                raise problems.NO_STORE from None
        return self._made(live, *found, mark, exclude)

    def _made(self, live: Live, hand: Hand, offset: int, mark: bytes, exclude: list[str]) -> bytes:
        """The decision at one place of a hand."""
        engine, altered = self.engine, False
        if exclude:
            try:
                labels, altered = live.without(hand, offset, set(exclude))
            except NotEnoughItems:
                raise problems.FEW_ITEMS from None
            items = _encode(labels)
        else:
            items = live.items(hand, offset)
        decision = engine.secrets.sign(hand.experiment, hand.epoch, hand.first + offset, mark, altered)
        return b'{"decision_id":"%b","items":%b,"policy":"%b","expires":"%b"}' % (
            decision.encode(),
            items,
            hand.policy,
            expiry(live.config.outcome_wait),
        )

    def decide_at_once(self, name: str, raw: bytes, allowed: Callable[[], bool]) -> bytes | None:
        """One decision out of memory; None for whatever has to wait, or is refused or special."""
        engine = self.engine
        live = engine.known(name)
        if live is None or live.status != RUNNING:
            return None
        asked = _decisions.decode(raw) if raw else DecisionRequest()
        if asked.count != 1 or asked.exclude or not usable(asked.person):
            return None
        if asked.segment is not None or live.segments:
            live = live.segments.get(asked.segment or "")
        if live is None or not live.hands or not allowed():
            return None
        mark = mark_of(engine, live, asked.person)
        found = engine.take(live, mark)
        return None if found is None else self._made(live, *found, mark, [])

    def record_at_once(
        self, decision_id: str, raw: bytes, key: Key, allowed: Callable[[], bool], answer: Answer
    ) -> bool:
        """Whether one outcome is on its way to the next commit; False where it has to wait, or is refused."""
        engine = self.engine
        decision = engine.secrets.verify(decision_id)
        if decision is None:
            return False
        live = engine.by_number(decision)
        if live is None or (key.experiments is not None and live.name not in key.experiments):
            return False
        body = outcome_body(live, _outcome.decode(raw))
        if not allowed():
            return False
        engine.add(decision, body, answer)
        return True

    async def outcome(self, decision_id: str, receive: Receive, key: Key) -> bytes:
        """The answer to the outcome of one decision."""
        raw = await body(receive)
        try:
            asked = _outcome.decode(raw)
        except _WRONG:
            raise problems.BAD_BODY from None
        try:
            status: str = await (await self._record(decision_id, asked, key))
        except StoreError:
            raise problems.NO_STORE from None
        return acknowledged(status)

    async def outcomes(self, receive: Receive, key: Key) -> bytes:
        """The answers to many outcomes: in one group, or a few."""
        raw = await body(receive, LARGEST * 16)
        try:
            asked = _outcomes.decode(raw)
        except _WRONG:
            raise problems.BAD_BODY from None
        if len(asked) > MANY:
            raise problems.TOO_LARGE
        waiting = []
        for one in asked:
            try:
                waiting.append(await self._record(one.decision_id, one, key))
            except Problem as refused:
                waiting.append(refused)
        try:
            answers = [
                {"status": "refused", "type": one.name} if isinstance(one, Problem) else {"status": await one}
                for one in waiting
            ]
        except StoreError:
            raise problems.NO_STORE from None
        return _encode(answers)

    async def _record(self, decision_id: str, asked: OutcomeRequest, key: Key) -> Any:
        engine = self.engine
        decision = engine.secrets.verify(decision_id)
        if decision is None:
            raise problems.NOT_SIGNED
        live = engine.by_number(decision)
        if live is None:
            try:
                live = await engine.live_of(decision)
            except LookupError:
                raise problems.NOT_SIGNED from None
        if key.experiments is not None and live.name not in key.experiments:
            raise problems.WRONG_ROLE
        return engine.record(decision, outcome_body(live, asked))


def outcome_body(live: Live, asked: OutcomeRequest) -> bytes:
    """What is written down of an outcome; refused where the experiment learns from something else."""
    unset = msgspec.UNSET
    kind = live.config.feedback
    if (asked.taken is not unset) + (asked.value is not unset) + (asked.likes is not unset) != 1:
        raise problems.WRONG_OUTCOME
    found = getattr(asked, kind)
    if found is unset:
        raise problems.WRONG_OUTCOME
    if kind == "value" and not 0.0 <= found <= live.config.bound:
        raise problems.WRONG_OUTCOME
    if kind == "likes" and len(found) > MANY:
        raise problems.TOO_LARGE
    return _encode(found)


def usable(person: str | None) -> bool:
    """Whether an identity is short enough."""
    return person is None or len(person) <= 1024


@cache
def acknowledged(status: str) -> bytes:
    """What is said of one outcome."""
    return b'{"status":"' + status.encode() + b'"}'


async def body(receive: Receive, most: int = LARGEST) -> bytes:
    """The whole body of a request, if it is not too large."""
    message = await receive()
    found: bytes = message.get("body", b"")
    while message.get("more_body"):
        message = await receive()
        found += message.get("body", b"")
        if len(found) > most:
            raise problems.TOO_LARGE
    if message.get("type") == "http.disconnect":  # before the body: nothing is decided
        raise problems.BAD_BODY
    if len(found) > most:
        raise problems.TOO_LARGE
    return found


async def answer(send: Send, found: bytes, status: int = 200) -> None:
    """Send JSON."""
    headers = [*_JSON, (b"content-length", str(len(found)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": found})


async def refuse(send: Send, problem: Problem) -> None:
    """Send a refusal."""
    found = problem.body()
    headers = [_PROBLEM, (b"content-length", str(len(found)).encode())]
    if problem.retry_after is not None:
        headers.append((b"retry-after", str(problem.retry_after).encode()))
    await send({"type": "http.response.start", "status": problem.status, "headers": headers})
    await send({"type": "http.response.body", "body": found})


_expiries: dict[float, tuple[int, bytes]] = {}


def expiry(wait: float) -> bytes:
    """Until when an outcome counts, at the least; worked out once a second."""
    now = int(time.time())
    found = _expiries.get(wait)
    if found is None or found[0] != now:
        text = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now + wait)).encode()
        _expiries[wait] = found = (now, text)
    return found[1]
