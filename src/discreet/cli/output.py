"""Output of commands: text that fits the terminal, JSON, and files that are whole or absent."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import stat
import sys
import textwrap
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..core.text import table
from .options import same_file

# Wide enough for anything: what is piped into a file or another program is not folded.
_UNLIMITED = 10_000
_READABLE = 100
# What a terminal would obey, what some readers take for the end of a line, and halves of characters; `json`
# itself escapes those below a space.
_UNSEEN = re.compile("[\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


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


def printable(text: str) -> str:
    """``text`` with nothing in it that a terminal would obey; files hold anything."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


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


@contextmanager
def noting(command: str) -> Iterator[list[str]]:
    """What the library warns of, from public facts, is a note in a line on standard error, and in the list.

    Other warnings are dropped: arithmetic may complain about the data.
    """
    notes: list[str] = []

    def note(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        if issubclass(category, UserWarning) and str(message) not in notes:
            notes.append(str(message))
            line = " ".join(map(printable, str(message).split()))
            print(f"discreet {command}: note: {line}", file=sys.stderr, flush=True)

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = note
        yield notes


def as_json(value: Any) -> str:
    """JSON that any reader takes: null for what is no number; labels as they are, bar control characters."""
    text = json.dumps(_finite(value), indent=2, ensure_ascii=False, allow_nan=False)
    return _UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def check_writable(path: str, *inputs: str) -> Path:
    """The path of a file to write, refused now rather than after the budget is spent."""
    target = Path(path)
    if target.is_dir():
        raise ValueError(f"--out {path}: is a directory; name a file in it")
    if _is_device(target):
        if not os.access(target, os.W_OK):
            raise ValueError(f"--out {path}: cannot be written to")
        return target
    folder = target.resolve().parent
    if not folder.is_dir():
        raise ValueError(f"--out {path}: there is no folder {folder}; make it first")
    if not os.access(folder, os.W_OK):
        raise ValueError(f"--out {path}: the folder {folder} cannot be written to")
    if any(same_file(path, one) for one in inputs):
        raise ValueError(f"--out {path}: is the file that is read; name another one")
    return target


def write_whole(path: Path, text: str) -> None:
    """Write a file so that it is there whole or not at all, whatever happens meanwhile.

    A device or a pipe is written to, not replaced.
    """
    if _is_device(path):
        path.write_text(text, encoding="utf-8")
        return
    from ..core.state import replacing  # which loads NumPy: help goes without it

    with replacing(path) as file:
        file.write_text(text, encoding="utf-8")


def _is_device(path: Path) -> bool:
    """Whether it is there and neither a file nor a folder: /dev/null, /dev/stdout, a named pipe."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))
