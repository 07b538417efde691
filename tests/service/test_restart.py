"""Restarts: nobody is refused while one process hands its socket to the next, on both databases."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request

from discreet.client import Client

from .conftest import Whole
from .test_api import experiment


class Visits:
    """New connections all the time; refused ones are written down."""

    def __init__(self, service):
        self.service, self.refused, self.answered = service, 0, 0
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._knock), threading.Thread(target=self._decide)]
        for one in self._threads:
            one.start()

    def _knock(self):
        while not self._stop.is_set():
            try:
                socket.create_connection(("127.0.0.1", self.service.port), timeout=60).close()
            except ConnectionRefusedError:
                self.refused += 1
            time.sleep(0.005)

    def _decide(self):
        while not self._stop.is_set():
            with Client(self.service.url, self.service.key, timeout=60.0) as client:
                decision = client.decide("shop")
                assert client.report(decision, likes=["item 1"]).status in ("recorded", "late")
            self.answered += 1

    def wait(self, until):
        deadline = time.monotonic() + 60
        while not until():
            if time.monotonic() > deadline or self.service.process.poll() is not None:
                self.stop()
                raise AssertionError((self.service.folder / "log").read_text())
            time.sleep(0.05)

    def stop(self):
        self._stop.set()
        for one in self._threads:
            one.join()


def started(pid):
    """What tells one program of a process from the next: the addresses of its memory."""
    with open(f"/proc/{pid}/maps") as file:
        return file.readline()


def test_a_restart_refuses_nobody(tmp_path, url):
    service = Whole(tmp_path, store=url)
    client = service.client()
    experiment(client, "shop")
    with open(f"/proc/{service.process.pid}/stat") as file:
        assert "python" in file.read()
    visits = Visits(service)
    for _ in range(2 if url.startswith("sqlite") else 1):  # the second time with a socket that was given
        before = started(service.process.pid)
        service.process.send_signal(signal.SIGHUP)
        visits.wait(lambda before=before: started(service.process.pid) != before)
        seen = visits.answered
        visits.wait(lambda seen=seen: visits.answered > seen + 5)
    visits.stop()
    assert visits.refused == 0
    service.stop()


def test_sockets_of_systemd_are_taken(tmp_path):
    """As its units hand them over: number 3, for the process that is named."""
    with socket.create_server(("127.0.0.1", 0)) as made:
        port = made.getsockname()[1]
        script = (
            "import os, sys; os.dup2(int(sys.argv[1]), 3, inheritable=True);"
            "os.environ |= {'LISTEN_PID': str(os.getpid()), 'LISTEN_FDS': '1'};"
            "os.execv(sys.executable, [sys.executable, '-m', 'discreet', 'serve', '--store', sys.argv[2],"
            " '--secrets', sys.argv[3], '--port', '1'])"
        )
        given = [str(made.fileno()), f"sqlite:///{tmp_path}/service.db", f"{tmp_path}/secrets"]
        process = subprocess.Popen(
            [sys.executable, "-c", script, *given], stdout=subprocess.DEVNULL, pass_fds=[made.fileno()]
        )
        try:  # whoever comes before it is there waits
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health/ready", timeout=120) as answer:
                assert json.load(answer) == {"status": "ready"}
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=120)
