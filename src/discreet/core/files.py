"""Files that are complete or not there, whatever happens while they are written."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: str | os.PathLike[str], *, private: bool = False) -> Iterator[Path]:
    """A new file to write, which takes the place of ``path`` when all of it is on disk; a link stays one.

    It has the mode of any other new file of this user; ``private``: only its owner may read it.
    """
    target = Path(path).resolve()
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    os.close(handle)
    try:
        yield Path(name)
        _to_disk(name, os.O_RDWR)
        if not private:
            mask = os.umask(0)
            os.umask(mask)
            os.chmod(name, 0o666 & ~mask)
        os.replace(name, target)
        if os.name == "posix":
            _to_disk(target.parent, os.O_RDONLY)  # the new name, too, survives a crash
    finally:
        Path(name).unlink(missing_ok=True)  # it is there only if something went wrong


def _to_disk(path: str | Path, how: int) -> None:
    handle = os.open(path, how)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
