"""Who uses the charges of a ledger on disk, and whether they are still there; who writes to it.

A holder has a number, and holds a lock on the byte of that number in a file beside the ledger. The operating
system drops the lock when the process ends, however it ends, and never before. Numbers are not used again, so
a byte that can be locked belongs to somebody who is gone. The lock on byte 0 is for whoever writes.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

try:
    import fcntl
except ImportError:  # pragma: no cover - not on Windows
    fcntl = None  # type: ignore[assignment]


class LockFile:
    """The file of locks beside one ledger, in this process.

    Locks of one process do not exclude each other, and closing any handle of a file drops them all. So each
    process has one handle for each file, never closes it, and remembers which locks are its own.
    """

    _files: ClassVar[dict[tuple[int, int], LockFile]] = {}
    _turn = threading.Lock()

    def __init__(self, handle: int) -> None:
        self._handle = handle
        self._own: set[int] = set()
        self._writer, self._depth = threading.RLock(), 0

    @classmethod
    def beside(cls, path: Path, used: bool) -> LockFile:
        """The locks of the ledger at ``path``. They must be there if it was ``used``: not to know who lives
        would be to take everybody for gone."""
        name = Path(f"{path}-holders")
        with cls._turn:
            if name.exists():
                status = name.stat()
                if known := cls._files.get((status.st_dev, status.st_ino)):
                    return known
            elif used:
                raise ValueError(
                    f"{name} is missing, so that nobody knows who uses the ledger; once no other process"
                    " does, put an empty file there"
                )
            handle = os.open(name, os.O_RDWR | os.O_CREAT, 0o600)
            status = os.fstat(handle)
            return cls._files.setdefault((status.st_dev, status.st_ino), cls(handle))

    @classmethod
    def forked(cls) -> None:
        """In a forked child: the locks are the parent's."""
        cls._turn = threading.Lock()
        for file in cls._files.values():
            file._own = set()
            file._writer, file._depth = threading.RLock(), 0

    def hold(self, number: int) -> None:
        """Lock the byte of a holder, for as long as this process lives or until `drop`."""
        if fcntl is not None:
            fcntl.lockf(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, number)
        self._own.add(number)

    def drop(self, number: int) -> None:
        if number in self._own:
            self._own.discard(number)
            if fcntl is not None:
                fcntl.lockf(self._handle, fcntl.LOCK_UN, 1, number)

    def gone(self, number: int) -> bool:
        """Whether a holder is gone. Only for whoever is `alone`, so that nobody else is asking."""
        if number in self._own or fcntl is None or not self._locked(number):
            return False
        fcntl.lockf(self._handle, fcntl.LOCK_UN, 1, number)
        return True

    @contextmanager
    def alone(self, timeout: float) -> Iterator[None]:
        """Nobody else writes, in this process or another; waits that many seconds for them at most."""
        give_up = time.monotonic() + timeout
        if not self._writer.acquire(timeout=timeout):
            raise TimeoutError
        try:
            self._depth += 1
            while self._depth == 1 and not self._locked(0):
                if time.monotonic() > give_up:
                    raise TimeoutError
                time.sleep(0.0005)
            yield
        finally:
            self._depth -= 1
            if not self._depth and fcntl is not None:
                fcntl.lockf(self._handle, fcntl.LOCK_UN, 1, 0)
            self._writer.release()

    def _locked(self, number: int) -> bool:
        if fcntl is not None:
            try:
                fcntl.lockf(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, number)
            except OSError:
                return False
        return True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=LockFile.forked)
