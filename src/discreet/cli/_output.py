"""How results reach the reader: text that fits the terminal, JSON, and files that are whole or absent."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import textwrap
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from .._table import table

# Wide enough for anything: what is piped into a file or another program is not folded.
_UNLIMITED = 10_000
_READABLE = 100


def width() -> int:
    """Columns there are to print on; no limit where nobody looks, unless COLUMNS says so."""
    if "COLUMNS" in os.environ or sys.stdout.isatty():
        return max(20, shutil.get_terminal_size().columns)
    return _UNLIMITED


def wrapped(text: str, *, bullet: str = "") -> str:
    """A paragraph folded at the width of the terminal; a bullet's further lines are indented below it."""
    return textwrap.fill(
        text, min(width(), _READABLE), initial_indent=bullet, subsequent_indent=" " * len(bullet)
    )


def fitted(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table where it fits; else one block of lines per row, without the cells that are empty."""
    whole = table(header, rows)
    if max(map(len, whole.splitlines())) <= width():
        return whole
    at = next(place for place, name in enumerate(header) if name)  # what a row is about
    blocks = []
    for row in rows:
        title = " ".join(cell for cell in row[: at + 1] if cell)
        named = zip(header[at + 1 :], row[at + 1 :], strict=True)
        lines = [f"{name} {cell}" for name, cell in named if cell]
        blocks.append(
            "\n".join([wrapped(title, bullet="- "), *(wrapped(one, bullet="    ") for one in lines)])
        )
    return "\n".join(blocks)


def as_json(value: Any) -> str:
    """JSON with non-ASCII labels as they are."""
    return json.dumps(value, indent=2, ensure_ascii=False)


def check_writable(path: str, *inputs: str) -> Path:
    """The path of a file to write, refused now rather than after the budget is spent."""
    target = Path(path)
    if target.is_dir():
        raise ValueError(f"--out {path}: is a directory; name a file in it")
    folder = target.resolve().parent
    if not folder.is_dir():
        raise ValueError(f"--out {path}: there is no folder {folder}; make it first")
    if not os.access(folder, os.W_OK):
        raise ValueError(f"--out {path}: the folder {folder} cannot be written to")
    if target.exists() and any(Path(one).exists() and target.samefile(one) for one in inputs):
        raise ValueError(f"--out {path}: is the file that is read; name another one")
    return target


def write_whole(path: Path, text: str) -> None:
    """Write a file so that it is there whole or not at all, whatever happens meanwhile."""
    target = path.resolve()  # a link stays one
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(name, 0o666 & ~mask)  # as any other new file: what is written is a release
        os.replace(name, target)
    finally:
        with suppress(FileNotFoundError):  # it is there only if something went wrong
            os.unlink(name)
