"""Files that survive a crash: one readable header line, then arrays; written whole or not at all."""

from __future__ import annotations

import io
import json
import os
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

_MAGIC = "discreet-state"
_VERSION = 1


def write_state(path: str | os.PathLike[str], header: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
    """Write ``header`` (plain values) and ``arrays`` to ``path``, readable by the owner only.

    The file appears under its name only when it is complete and on disk.
    """
    target = Path(path)
    line = json.dumps({"format": _MAGIC, "version": _VERSION, **header}) + "\n"
    payload = io.BytesIO()
    np.savez(payload, **arrays)
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(line.encode())
            file.write(payload.getvalue())
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)  # the new name, too, survives a crash
        finally:
            os.close(folder)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def read_state(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Header and arrays of a file written by `write_state`."""
    content = Path(path).read_bytes()
    line, _, payload = content.partition(b"\n")
    try:
        header = json.loads(line)
    except (UnicodeDecodeError, json.JSONDecodeError):
        header = None
    if not isinstance(header, dict) or header.get("format") != _MAGIC:
        raise ValueError(f"{path} is not a state file of discreet")
    if header.get("version") != _VERSION:
        raise ValueError(
            f"{path} has format version {header.get('version')}; this release of discreet reads {_VERSION}"
        )
    try:
        with np.load(io.BytesIO(payload), allow_pickle=False) as arrays:
            return header, {name: arrays[name] for name in arrays.files}
    except (ValueError, OSError, zipfile.BadZipFile, EOFError) as error:
        raise ValueError(f"{path} is damaged: its arrays cannot be read ({error})") from error
