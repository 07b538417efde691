"""Limits around uvicorn: headers, bodies, times, connections, and work that would delay visitors.

The size of a header is checked before it is parsed. A request that does not arrive in time is dropped with
its connection. Work that takes long and is not a decision is done by one side process, one task at a time
(`SideProcess`). A stop takes at most `STOP` seconds: everything that was acknowledged is committed.

A restart refuses no connection: the socket stays open, and connections that arrive meanwhile wait in its
queue. On SIGHUP a process ends its requests, commits what it has, closes its database and is replaced by a
new process with the same process id, which inherits the socket. systemd passes sockets in the same way
(LISTEN_FDS), and keeps them open over its own restarts.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import multiprocessing
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

logger = logging.getLogger("discreet.service")

LARGEST = 1 << 16  # bytes of a body
MANY = 1000  # decisions or outcomes in one request
HEAD, FIELDS = 1 << 14, 64  # bytes of a request's header, and its number of fields
READ = 20.0  # seconds for a request to arrive, from its first byte, and for the first byte of a connection
STOP = 4.5  # seconds from a signal to the end
_DRAIN = 2  # of these, for requests that are being answered


class _Joined:
    """A transport that sends the header of an answer with its body, in one system call."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport, self._head = transport, b""
        self.is_closing = transport.is_closing

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Buffer a header until the next write, or `flush`; "100 Continue" is sent at once."""
        if self._head:
            data, self._head = self._head + data, b""
        elif data.startswith(b"HTTP/1.1 ") and not data.startswith(b"HTTP/1.1 1"):
            self._head = data
            return
        self._transport.write(data)

    def flush(self) -> None:
        if self._head:
            self.write(b"")

    def close(self) -> None:
        self.flush()
        self._transport.close()


class LimitedProtocol(HttpToolsProtocol):
    """A connection with limits on the size and time of requests; closed at once if there are too many."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(_Joined(transport))  # type: ignore[arg-type]
        self._in_head, self._begun = True, False  # whether a header is expected, and a request has begun
        self._head, self._tail = 0, b""  # the number of bytes of the header so far, and the last of them
        self._timer: asyncio.TimerHandle | None = self.loop.call_later(READ, self._too_late)
        self._refused, self._size = False, 0  # the size: bytes of a request's parsed fields
        if self.limit_concurrency is not None and len(self.connections) >= self.limit_concurrency:
            transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._disarm()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        if self._in_head:
            self._head += len(data)
            if self._head > HEAD and self._too_long(data):
                self._refuse()
                return
            self._tail = data[-3:]
        super().data_received(data)
        if not self._begun:
            self._disarm()
        elif self._timer is None:
            self._timer = self.loop.call_later(READ, self._too_late)

    def _too_long(self, data: bytes) -> bool:
        """Whether the header exceeds its limit; a body that arrived with it does not count."""
        end = (self._tail + data).find(b"\r\n\r\n")
        return end < 0 or self._head - len(data) - len(self._tail) + end > HEAD

    def on_message_begin(self) -> None:
        self._begun, self._size = True, 0
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        self._size += len(url)
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Check the limits of fields, also for pipelined requests and for trailers of chunked bodies."""
        self._size += len(name) + len(value)
        if self._size > HEAD or len(self.headers) >= FIELDS:
            self._refused = True
            raise ValueError("too many fields in a header")  # ends parsing
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._in_head, self._head, self._tail = False, 0, b""
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._in_head, self._begun = True, False
        super().on_message_complete()

    def on_response_complete(self) -> None:
        self.transport.flush()  # type: ignore[attr-defined]
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:
        if self._refused:
            self._refuse()
        else:
            super().send_400_response(msg)

    def _refuse(self) -> None:
        body = msgspec.json.encode(
            {
                "type": "about:blank#headers",
                "title": f"A header has at most {HEAD} bytes and {FIELDS} fields.",
                "status": 431,
            }
        )
        self.transport.write(
            b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-type: application/problem+json\r\n"
            b"content-length: %d\r\nconnection: close\r\n\r\n%b" % (len(body), body)
        )
        self.transport.close()

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _too_late(self) -> None:
        self._timer = None
        if not self.transport.is_closing():
            self.transport.close()


class Server(uvicorn.Server):
    """uvicorn that calls ``ready`` when it serves, and stops within `STOP` seconds of a signal."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], object]) -> None:
        super().__init__(config)
        self._ready, self._stopping = ready, False

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._ready()

    def handle_exit(self, sig: int, frame: Any) -> None:
        if not self._stopping:  # at the first signal, also during a restart
            self._stopping = True
            timer = threading.Timer(STOP, self._end)
            timer.daemon = True
            timer.start()
        super().handle_exit(sig, frame)

    def _end(self) -> None:
        """End the process at once, as a kill would, which loses nothing that was acknowledged."""
        logger.warning("stopped before everything had ended; nothing that was acknowledged is lost")
        for one in multiprocessing.active_children():
            one.kill()
        os._exit(0)


def configured(app: Any, *, connections: int, **more: Any) -> uvicorn.Config:
    """The configuration of a uvicorn with these limits."""
    return uvicorn.Config(
        app,
        http=LimitedProtocol,
        limit_concurrency=connections + 1,  # `LimitedProtocol` closes connections beyond `connections` before
        access_log=False,
        server_header=False,
        ws="none",
        timeout_keep_alive=75,
        timeout_graceful_shutdown=_DRAIN,
        **more,
    )


class TooLong(Exception):
    """The work took longer than allowed."""


class Crowded(Exception):
    """Too many tasks wait already."""


class SideProcess:
    """Runs tasks in one side process, one at a time, for at most ``seconds`` of processor time each.

    Its priority is low, so a task may take longer by the clock: up to ``patience`` seconds. Up to ``most``
    tasks may wait, and ``remembered`` answers are cached. A refusal becomes a ValueError with its text, any
    other exception a RuntimeError with the name of its type.
    """

    def __init__(
        self, seconds: float = 20.0, patience: float = 120.0, most: int = 8, remembered: int = 256
    ) -> None:
        self._seconds, self._patience, self._most, self._remembered = seconds, patience, most, remembered
        self._answers: dict[bytes, Any] = {}
        self._waiting = 0
        self._thread = ThreadPoolExecutor(1, "discreet-side-process")
        self._process: Any = None
        self._pipe: Any = None
        self._closed = False

    async def do(self, work: Callable[..., Any], *given: Any) -> Any:
        """The result of ``work``, from the cache or the side process; arguments are structs and numbers."""
        key = f"{work.__module__}.{work.__qualname__}".encode() + msgspec.json.encode(given)
        if key not in self._answers:
            if self._waiting >= self._most:
                raise Crowded
            self._waiting += 1
            try:
                found = await asyncio.get_running_loop().run_in_executor(self._thread, self._ask, work, given)
            finally:
                self._waiting -= 1
            while len(self._answers) >= self._remembered:
                del self._answers[next(iter(self._answers))]
            self._answers[key] = found
        return self._answers[key]

    def close(self) -> None:
        """End the side process, and what it is doing."""
        self._closed = True
        self._end()
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _end(self) -> None:
        if (process := self._process) is not None:
            self._process = None
            process.kill()

    def _ask(self, work: Callable[..., Any], given: tuple[Any, ...]) -> Any:
        """Do the work in the side process, started if need be; it is killed if it takes too long."""
        if self._closed:
            raise Crowded
        if self._process is None or not self._process.is_alive():
            context = multiprocessing.get_context("spawn")
            self._pipe, theirs = context.Pipe()
            self._process = context.Process(target=_work, args=(theirs,), daemon=True)
            self._process.start()
            theirs.close()
        try:
            self._pipe.send((work, given, self._seconds))
            if not self._pipe.poll(self._patience):
                raise TooLong
            done, found = self._pipe.recv()
        except (TooLong, EOFError, OSError):  # the latter two: it was ended, or had too little memory
            self._end()
            raise TooLong from None
        if not done:
            raise found
        return found


def _work(pipe: Any) -> None:
    """The loop of the side process, at low priority, until its parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(10)
    with contextlib.suppress(EOFError, OSError):
        while True:
            work, given, seconds = pipe.recv()
            signal.setitimer(signal.ITIMER_PROF, seconds)  # its signal ends the process
            try:
                answer = True, work(*given)
            except (ValueError, TypeError, NotImplementedError) as error:
                answer = False, ValueError(str(error))
            except Exception as error:
                answer = False, RuntimeError(type(error).__name__)
            signal.setitimer(signal.ITIMER_PROF, 0.0)
            pipe.send(answer)


# --- sockets ---------------------------------------------------------------------------------------------

_FIRST = 3  # the file descriptor of the first inherited socket
_QUEUE = 2048  # connections that may wait
_PROCESS, _MANY = "LISTEN_PID", "LISTEN_FDS"


def listening(host: str, port: int) -> socket.socket:
    """The socket that this process inherited, or a new one at this address."""
    if os.environ.pop(_PROCESS, "") == str(os.getpid()) and int(os.environ.pop(_MANY, "0")) >= 1:
        found = socket.socket(fileno=_FIRST)
        found.set_inheritable(False)
        return found
    made = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((host, port))
    except (OSError, OverflowError) as error:
        made.close()
        raise ValueError(f"cannot listen at {host} port {port}: {error}") from None
    made.listen(_QUEUE)
    return made


class Restart:
    """Whether SIGHUP has asked for a restart; the signal also stops ``server``."""

    def __init__(self, server: Any) -> None:
        self._server, self.asked = server, False
        signal.signal(signal.SIGHUP, self._ask)

    def _ask(self, *_: object) -> None:
        self.asked = self._server.should_exit = True


def again(kept: socket.socket) -> None:
    """Replace this process by a new one with the same command, which inherits the socket."""
    os.dup2(kept.fileno(), _FIRST)
    os.set_inheritable(_FIRST, True)  # needed if the socket has that number already
    os.environ |= {_PROCESS: str(os.getpid()), _MANY: "1"}
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until the new process handles it
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
