"""Services that begin where their imports end: each is forked from a process that has them all."""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import importlib
import json
import os
import socket
import subprocess
import sys
import time


class Forked:
    """``discreet COMMAND``; what `subprocess.Popen` says of a process, as far as tests ask."""

    def __init__(self, command, stderr, env):
        reader, writer = os.pipe()
        asked = json.dumps([command, env, os.getcwd()]).encode()
        socket.send_fds(_server(), [asked], [writer, stderr.fileno()])
        os.close(writer)
        self.stdout = os.fdopen(reader, "rb")
        self.pid, self._over = _answer(), False

    def poll(self):
        if not self._over:
            _server().send(str(self.pid).encode())
            self._over = _answer()
        return 0 if self._over else None

    def send_signal(self, number):
        os.kill(self.pid, number)

    def wait(self, timeout=60.0):
        end = time.monotonic() + timeout
        while self.poll() is None:
            assert time.monotonic() < end
            time.sleep(0.002)


@functools.cache
def _server():
    """The socket of the process that forks, which ends with this one."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        process = subprocess.Popen([sys.executable, __file__], stdin=theirs)
    atexit.register(lambda: (ours.close(), process.wait()))
    return ours


def _answer():
    return json.loads(_server().recv(100))


def main():
    """Fork for each command that comes; of a number, say whether its process has ended."""
    del sys.path[0]
    for name in ("jinja2", "psycopg", "scipy.special", "discreet.online.leader", "discreet.service.web"):
        importlib.import_module(name)
    from discreet.cli import main as run

    asked = socket.socket(fileno=0)
    gc.freeze()  # what is inherited is not looked through, so that it stays shared
    while True:
        message, passed, *_ = socket.recv_fds(asked, 1 << 20, 2)
        if not message:
            return 0
        said = json.loads(message)
        if isinstance(said, int):
            with contextlib.suppress(ChildProcessError):
                said, _ = os.waitpid(said, os.WNOHANG)
            asked.send(json.dumps(bool(said)).encode())
            continue
        child = os.fork()
        if not child:
            command, environment, folder = said
            asked.detach()
            for number, one in enumerate([os.open(os.devnull, os.O_RDONLY), *passed]):
                os.dup2(one, number)
                os.close(one)
            sys.stdout, sys.stderr = open(1, "w"), open(2, "w", buffering=1)  # noqa: SIM115
            os.environ.clear()
            os.environ.update(environment)
            os.chdir(folder)
            return run(command)
        for one in passed:
            os.close(one)
        asked.send(str(child).encode())


if __name__ == "__main__":
    sys.exit(main())
