"""A short way for the two requests that every visitor of an application causes.

A decision out of memory needs no task, and an outcome only the end of its commit. This protocol of uvicorn's
answers both as soon as they are read, without the parser: applications send the same headers again and again.
Whatever is not plain about a request (another route, a refusal, special headers, a body in many parts, a
connection that closes, a request behind one that waits) goes the usual way, whole: parser and application
answer it as if nobody had looked.
"""

from __future__ import annotations

import asyncio
import math
import re
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from . import problems
from .auth import digest_of, token_of
from .hot import LARGEST, acknowledged

if TYPE_CHECKING:
    from .app import App

_POST = b"POST /v1/"
_DECIDE = re.compile(rb"POST /v1/experiments/([\w.-]+)/decisions HTTP/1\.1")  # letters of names and ids only
_OUTCOME = re.compile(rb"POST /v1/decisions/([\w-]+)/outcome HTTP/1\.1")
_LONGEST = 4096  # bytes before a body, to be looked at here
_LENGTH = re.compile(rb"[0-9]{1,5}")
_FINE = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
_REFUSED = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/problem+json\r\n"
    b"retry-after: %d\r\n" % (problems.NO_STORE.retry_after or 1)
)


_UPGRADE = (
    b"HTTP/1.1 400 Bad Request\r\ncontent-type: application/problem+json\r\nconnection: close\r\n"
    b"content-length: %d\r\n\r\n%b" % (len(problems.UPGRADE.body()), problems.UPGRADE.body())
)


class Plain(HttpToolsProtocol):
    """Requests on one connection, none of which may change the protocol (to WebSocket, or HTTP/2 as h2c).

    The parser takes what follows the headers of such a request for the other protocol, and not for its body:
    a decision would be made for nobody, and the body read as the next request.
    """

    def on_headers_complete(self) -> None:
        if not self.parser.should_upgrade():
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        if not self.parser.should_upgrade():
            super().on_body(body)

    def on_message_complete(self) -> None:
        if not self.parser.should_upgrade():
            super().on_message_complete()

    def _should_upgrade(self) -> bool:
        return False

    def _unsupported_upgrade_warning(self) -> None:
        self.transport.write(_UPGRADE)
        self.transport.close()


class _Waiting:
    """An outcome whose commit has not ended, in the place of uvicorn's own cycle of a request."""

    message_event = asyncio.Event()  # nobody waits for it

    def __init__(self, lane: Lane) -> None:
        self._lane = lane
        self.response_complete = self.disconnected = False
        self.keep_alive = True

    # What the engine asks of a future.

    def done(self) -> bool:
        return self.response_complete

    def set_result(self, status: str) -> None:
        self._end(acknowledged(status), _FINE)

    def set_exception(self, error: Exception) -> None:  # noqa: ARG002
        self._lane.config.app.failed("outcome", problems.NO_STORE.status)  # type: ignore[union-attr]
        self._end(problems.NO_STORE.body(), _REFUSED)

    def _end(self, body: bytes, head: bytes) -> None:
        self.response_complete = True
        transport = self._lane.transport
        if self.disconnected or transport.is_closing():
            return
        self._lane.answer(body, head, last=not self.keep_alive)


class Lane(Plain):
    """Requests on one connection."""

    _between = True  # two requests, as far as the parser knows
    _held = b""  # a request without its body
    _answered = -math.inf  # when, by the loop's clock
    _usual: tuple[object, bytes] = (None, b"")  # headers of every answer, and those as text

    def data_received(self, data: bytes) -> None:
        held, self._held = self._held, b""
        data = held + data if held else data
        free = self.cycle is None or self.cycle.response_complete
        if free and self._between and not self.flow.write_paused:
            end = data.find(b"\r\n\r\n") + 4
            first = data.find(b"\r\n")
            plain = (
                _headers(data[first + 2 : end - 2])
                if 3 < end <= _LONGEST and data.startswith(_POST)
                else None
            )
            if plain is not None:
                size = end + plain.length
                if len(data) == size and self._at_once(data[:first], plain.digest, data[end:]):
                    return
                if len(data) < size <= LARGEST and not held:
                    self._held = data
                    return
        super().data_received(data)

    def _at_once(self, line: bytes, digest: bytes, body: bytes) -> bool:
        """Whether this was a decision out of memory, or an outcome that is on its way."""
        app: App = self.config.app  # type: ignore[assignment]
        if asked := _DECIDE.fullmatch(line):
            made = app.decide_at_once(asked[1], digest, body)
            if made is not None:
                self.answer(made, _FINE)
            return made is not None
        if asked := _OUTCOME.fullmatch(line):
            waiting = _Waiting(self)
            if app.record_at_once(asked[1], digest, body, waiting):
                self.cycle = waiting  # type: ignore[assignment]
                return True
        return False

    def answer(self, body: bytes, head: bytes, *, last: bool = False) -> None:
        """Send an answer, and go on with the next request; close the connection after the ``last`` one."""
        headers = self.server_state.default_headers  # another list, once the date is another one
        if self._usual[0] is not headers:
            self._usual = headers, b"".join([b"%b: %b\r\n" % one for one in headers])
        more = self._usual[1] + b"connection: close\r\n" if last else self._usual[1]
        self.transport.write(b"%b%bcontent-length: %d\r\n\r\n%b" % (head, more, len(body), body))
        if last:  # before what waits behind it is begun
            self.transport.close()
        if last or self.pipeline or self.flow.read_paused or self.timeout_keep_alive_task is None:
            self.on_response_complete()
        else:  # the timer goes on
            self.server_state.total_requests += 1
        self._answered = self.loop.time()

    def _hand_over(self) -> None:
        """A request whose body has not come is the parser's: nobody closes its connection."""
        held, self._held = self._held, b""
        if not self.transport.is_closing():
            super().data_received(held)

    def shutdown(self) -> None:
        if self._held:
            self._hand_over()
        super().shutdown()

    def timeout_keep_alive_handler(self) -> None:
        if self._held:
            self._hand_over()
            return
        waits = self.cycle is not None and not self.cycle.response_complete
        left = self._answered + self.timeout_keep_alive - self.loop.time()
        if left <= 0.0 and not waits:
            super().timeout_keep_alive_handler()
            return
        self.timeout_keep_alive_task = self.loop.call_later(max(left, 1.0), self.timeout_keep_alive_handler)

    def on_message_begin(self) -> None:
        self._between = False
        super().on_message_begin()

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._between = True


class _Plain(NamedTuple):
    """What the headers of a plain request say: how long its body is, and which key it came with."""

    length: int
    digest: bytes


_HEADER = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):([\x20-\x7e\t]*)")  # in one way only
_SPECIAL = {b"transfer-encoding", b"expect", b"upgrade", b"proxy-connection"}  # the last: to the parser


@lru_cache(maxsize=1024)  # applications send the same ones again and again
def _headers(block: bytes) -> _Plain | None:
    """None where anything is special about them: the parser knows what to do."""
    found: dict[bytes, bytes] = {}
    for line in block[:-2].split(b"\r\n"):
        match = _HEADER.fullmatch(line)
        if match is None or match[1].lower() in found:
            return None
        found[match[1].lower()] = match[2].strip(b" \t")
    length = found.get(b"content-length", b"")
    stays = found.get(b"connection", b"keep-alive").lower() == b"keep-alive"
    if not stays or b"host" not in found or found.keys() & _SPECIAL or not _LENGTH.fullmatch(length):
        return None
    if int(length) > LARGEST:
        return None
    try:
        return _Plain(int(length), digest_of(token_of([*found.items()])))
    except problems.Problem:
        return None
