"""A short way for the two requests that every visitor of an application causes.

A decision out of memory needs no task, and an outcome only the end of its commit. This protocol of uvicorn's
answers both as soon as they are read. Whatever is not plain about a request (another route, a refusal, a body
in parts, a connection that closes, a request behind one that waits) goes the usual way: the application
answers it as if nobody had looked.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from . import problems
from .hot import LARGEST, acknowledged

if TYPE_CHECKING:
    from .app import App

_HOT = (b"/v1/experiments/", b"/v1/decisions/")
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

    def __init__(self) -> None:
        self.response_complete = self.disconnected = False
        self.keep_alive = True
        self.message_event = asyncio.Event()


class Lane(Plain):
    """Requests on one connection."""

    _body: bytes | None = None  # of a request that may go the short way

    def on_message_begin(self) -> None:
        self.url, self.headers, self.expect_100_continue = b"", [], False

    def on_headers_complete(self) -> None:
        if self.parser.should_upgrade():
            return
        free = self.cycle is None or self.cycle.response_complete
        plain = not self.expect_100_continue and not self.flow.write_paused
        if free and plain and self.url.startswith(_HOT) and self.parser.get_method() == b"POST":
            self._body = b""
        else:
            self._usual()

    def on_body(self, body: bytes) -> None:
        if self._body is None:
            super().on_body(body)
            return
        self._body += body
        if len(self._body) > LARGEST:
            self._give_up()

    def on_message_complete(self) -> None:
        if self._body is None:
            super().on_message_complete()
            return
        app: App = self.config.app  # type: ignore[assignment]
        found = app.at_once(self.url, self.headers, self._body) if self.parser.should_keep_alive() else None
        if found is None:
            self._give_up()
            super().on_message_complete()
            return
        self._body = None
        if isinstance(found, bytes):
            self._answer(found)
        else:
            self.cycle = waiting = _Waiting()  # type: ignore[assignment]
            found.add_done_callback(lambda done: self._told(waiting, done))

    def _usual(self) -> None:
        """What uvicorn does with a request whose headers are known."""
        url, headers, expects = self.url, self.headers, self.expect_100_continue
        super().on_message_begin()
        self.url, self.expect_100_continue = url, expects
        self.headers.extend(headers)
        super().on_headers_complete()

    def _give_up(self) -> None:
        body, self._body = self._body, None
        self._usual()
        if body:
            super().on_body(body)

    def _told(self, waiting: _Waiting, done: asyncio.Future[str]) -> None:
        waiting.response_complete = True
        failed = done.cancelled() or done.exception() is not None
        if waiting.disconnected or self.transport.is_closing():
            return
        if failed:
            self._answer(problems.NO_STORE.body(), _REFUSED)
        else:
            self._answer(acknowledged(done.result()))
        if not waiting.keep_alive:
            self.transport.close()

    def _answer(self, body: bytes, head: bytes = _FINE) -> None:
        usual = b"".join([b"%b: %b\r\n" % one for one in self.server_state.default_headers])
        self.transport.write(b"%b%bcontent-length: %d\r\n\r\n%b" % (head, usual, len(body), body))
        self.on_response_complete()
