"""The socket that a service listens at, and how one process hands it to the next.

A restart refuses no connection: the socket stays open, and whoever comes meanwhile waits in its queue. On
SIGHUP a process ends its requests, writes down what it has, lets go of its database and becomes a new process
of the same number, which inherits the socket. systemd hands over sockets in the same way (LISTEN_FDS), and
keeps them open over restarts of its own.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from typing import Any

_FIRST = 3  # the number of the first socket that is handed over
_QUEUE = 2048  # connections that wait
_PROCESS, _MANY = "LISTEN_PID", "LISTEN_FDS"


def listening(host: str, port: int) -> socket.socket:
    """The socket that was handed over to this process, or a new one at this address."""
    if os.environ.pop(_PROCESS, "") == str(os.getpid()) and int(os.environ.pop(_MANY, "0")) >= 1:
        found = socket.socket(fileno=_FIRST)
        found.set_inheritable(False)
        return found
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(family)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((host, port))
    except (OSError, OverflowError) as error:
        made.close()
        raise ValueError(f"nobody can listen at {host} port {port}: {error}") from None
    made.listen(_QUEUE)
    return made


class Restart:
    """Whether a signal has asked for a new process in this one's place, once ``server`` has ended."""

    def __init__(self, server: Any) -> None:
        self._server, self.asked = server, False
        signal.signal(signal.SIGHUP, self._ask)

    def _ask(self, *_: object) -> None:
        self.asked = self._server.should_exit = True


def again(kept: socket.socket) -> None:
    """Become a new process with the same command, which gets the socket; nothing of this one is left."""
    os.dup2(kept.fileno(), _FIRST)
    os.set_inheritable(_FIRST, True)  # also where it is that one already
    os.environ |= {_PROCESS: str(os.getpid()), _MANY: "1"}
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until the next one listens to it
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
