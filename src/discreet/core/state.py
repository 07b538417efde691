"""Files that survive a crash: one readable header line, then arrays; written completely or not at all.

`read_state` detects damage, and `restore` accepts only values of the types and shapes that the object has.
The meaning of the numbers is checked by the object itself.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import tempfile
import zipfile
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from fractions import Fraction
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

_MAGIC = "discreet-state"
VERSION = 2
State = tuple[dict[str, Any], dict[str, NDArray[Any]]]
_Kind = TypeVar("_Kind", bound=type)


@contextmanager
def replacing(path: str | os.PathLike[str], *, private: bool = False) -> Iterator[Path]:
    """A new file to write, which replaces ``path`` once all of it is on disk; a link stays a link.

    It has the default mode of this user's new files; ``private``: only its owner may read it. A device or a
    pipe is written to, not replaced.
    """
    if is_device(path):
        yield Path(path)
        return
    target = Path(path).resolve()
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    os.close(handle)
    if not private:  # made again with the default mode: reading the umask would change it for all threads
        os.unlink(name)
        os.close(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
    try:
        yield Path(name)
        to_disk(name, os.O_RDWR)
        os.replace(name, target)
        to_disk(target.parent)
    finally:
        Path(name).unlink(missing_ok=True)  # it exists only after an error


def is_device(path: str | os.PathLike[str]) -> bool:
    """Whether a path exists and is neither a file nor a folder: /dev/null, /dev/stdout, a named pipe."""
    found = Path(path)  # which is no number of an open file
    return found.exists() and not found.is_file() and not found.is_dir()


def to_disk(path: str | Path, how: int = os.O_RDONLY) -> None:
    """Sync a file (opened with flags ``how``), or the names in a folder, to disk: they survive a crash."""
    if how == os.O_RDONLY and os.name != "posix":
        return  # folders cannot be opened there
    handle = os.open(path, how)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def state_bytes(header: Mapping[str, Any], arrays: Mapping[str, Any]) -> bytes:
    """``header`` (plain values) and ``arrays`` as one text line and an archive."""
    payload = io.BytesIO()
    np.savez(payload, **arrays)
    known = {"format": _MAGIC, "version": VERSION, **header}
    line = json.dumps(known | {"digest": _digest(known, payload.getvalue())}) + "\n"
    return line.encode() + payload.getvalue()


def write_state(path: str | os.PathLike[str], header: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
    """Write ``header`` (plain values) and ``arrays`` to ``path``, readable by the owner only."""
    content = state_bytes(header, arrays)
    with replacing(path, private=True) as file:
        file.write_bytes(content)


def read_state(path: str | os.PathLike[str] | bytes) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Header and arrays of a file written by `write_state`, or of `state_bytes`."""
    content = path if isinstance(path, bytes) else Path(path).read_bytes()
    path = "the state" if isinstance(path, bytes) else path
    line, _, payload = content.partition(b"\n")
    try:
        header = json.loads(line)
    except (UnicodeDecodeError, json.JSONDecodeError):
        header = None
    if not isinstance(header, dict) or header.get("format") != _MAGIC:
        raise ValueError(f"{path} is not a state file of discreet")
    version = header.get("version")
    if version != VERSION:
        raise ValueError(f"{path} has format version {version}; this release of discreet reads {VERSION}")
    if header.pop("digest", None) != _digest(header, payload):
        raise ValueError(f"{path} is damaged: it is not what was written")
    try:
        with zipfile.ZipFile(io.BytesIO(payload)) as members:
            if sum(member.file_size for member in members.infolist()) > len(payload):
                raise ValueError("they are larger than the file")
        with np.load(io.BytesIO(payload), allow_pickle=False) as arrays:
            return header, {name: arrays[name] for name in arrays.files}
    except (ValueError, OSError, zipfile.BadZipFile, EOFError, MemoryError, NotImplementedError) as error:
        raise ValueError(f"{path} is damaged: its arrays cannot be read ({error})") from error


def state_class(path: str | os.PathLike[str] | bytes) -> str | None:
    """The class named in a file, or in the result of `state_bytes`; None if it cannot be read."""
    try:
        if isinstance(path, bytes):
            line = path.partition(b"\n")[0]
        else:
            with Path(path).open("rb") as file:
                line = file.readline()
        header = json.loads(line)
    except (OSError, UnicodeDecodeError, json.JSONDecodeError, TypeError):
        return None  # the reader will raise the error
    return str(header.get("class")) if isinstance(header, dict) else None


def _digest(header: Mapping[str, Any], payload: bytes) -> str:
    """A checksum against damage; it does not protect against deliberate changes."""
    return hashlib.sha256(json.dumps(header).encode() + b"\n" + payload).hexdigest()


@contextmanager
def refusing(what: object) -> Iterator[None]:
    """Turn errors inside into a `ValueError` about ``what``: the library writes no such state."""
    try:
        yield
    except (
        ValueError,
        TypeError,
        LookupError,
        AttributeError,
        AssertionError,
        ArithmeticError,
        MemoryError,
        RecursionError,
    ) as error:
        reason = f"{type(error).__name__}: {error}" if isinstance(error, LookupError) else str(error)
        raise ValueError(f"{what} holds a state that cannot be right: {reason}") from error


# --- objects as plain values and arrays -----------------------------------------------------------------
#
# A class with a state lists its attributes in ``_state``, without those of its bases. Parts are saved with
# their own attributes. An attribute may be a property if the file should hold another form. `restore` gets an
# object made from the same settings: each array must have the type and shape of the object's (any length if
# ``_any_length`` names it), every other value the same type. An attribute that is None may become a value,
# except for parts named in ``_parts``, which depend on settings. The object's ``_resumed()`` is called last
# and checks what the values mean.

_KIND = "kind"
# Values with their own to_json and from_json: where each kind is defined, and its base.
_VALUES = {
    "event": ("privacy.events", "Event"),
    "constraint": ("constraints.base", "Constraint"),
    "domain": ("constraints.domains", "Domain"),
}


def in_range(items: NDArray[Any], n_items: int, least: int = 0) -> bool:
    """Whether all are numbers of items; checked for files, as compiled loops use them as indices."""
    return items.size == 0 or bool(least <= items.min() and items.max() < n_items)


def capture(part: Any) -> State:
    """The state of an object, as plain values and copies of arrays."""
    arrays: dict[str, NDArray[Any]] = {}
    plain = encoded(part, "", arrays)["value"]
    return plain, {name: np.array(array) for name, array in arrays.items()}


def restore(part: Any, plain: Any, arrays: Mapping[str, NDArray[Any]], path: str = "") -> None:
    """Restore an object from a state that `capture` took of one like it."""
    names = _names(type(part))
    if not isinstance(plain, dict) or plain.keys() != set(names):
        raise ValueError(f"{path or 'the state'} has other fields than this release writes")
    loose, parts = _names(type(part), "_any_length"), _names(type(part), "_parts")
    for name in names:
        place, held = f"{path}{name}", getattr(part, name)
        if hasattr(held, "_state"):
            restore(held, _expected(plain[name], "part", place), arrays, f"{place}.")
            continue
        value = decoded(plain[name], place, arrays)
        if isinstance(held, np.ndarray):
            fits = isinstance(value, np.ndarray) and (value.dtype, value.ndim) == (held.dtype, held.ndim)
            if not fits or (name not in loose and value.shape != held.shape):
                raise ValueError(f"the array {place} is not {held.dtype} of shape {held.shape}")
        elif held is None and value is not None and name in parts:
            raise ValueError(f"{place} is not a part of this object")
        elif held is not None and value is not None and _type(value) is not _type(held):
            raise ValueError(f"{place} must be of type {type(held).__name__}, not {type(value).__name__}")
        setattr(part, name, deque(value, held.maxlen) if isinstance(held, deque) else value)
    if hasattr(part, "_resumed"):
        part._resumed()


def _type(value: Any) -> type:
    return float if type(value) is int else type(value)


def _names(kind: type, attribute: str = "_state") -> tuple[str, ...]:
    """The names that a class and its bases list, the bases' first."""
    found = [name for base in reversed(kind.__mro__) for name in base.__dict__.get(attribute, ())]
    return tuple(dict.fromkeys(found))


def encoded(value: Any, path: str, arrays: dict[str, NDArray[Any]]) -> Any:
    """A value as plain values, with its arrays put into ``arrays``."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.ndarray):
        arrays[path] = value
        return {_KIND: "array"}
    if isinstance(value, bytes | Fraction):
        return {_KIND: type(value).__name__, "value": value.hex() if isinstance(value, bytes) else str(value)}
    if isinstance(value, dict):
        pairs = [
            [encoded(key, path, arrays), encoded(one, f"{path}.{key}", arrays)] for key, one in value.items()
        ]
        return {_KIND: "dict", "value": pairs}
    if isinstance(value, list | tuple | deque):
        found = [encoded(one, f"{path}.{place}", arrays) for place, one in enumerate(value)]
        return {_KIND: type(value).__name__, "value": found}
    if SETTINGS.get(type(value).__name__) is type(value):
        return {_KIND: "settings", "value": settings_json(value)}
    bases = {one.__name__ for one in type(value).__mro__}
    for kind, (_, base) in _VALUES.items():
        if base in bases:
            return {_KIND: kind, "value": value.to_json()}
    inner = f"{path}." if path else ""
    values = {name: encoded(getattr(value, name), inner + name, arrays) for name in _names(type(value))}
    return {_KIND: "part", "value": values}


def decoded(saved: Any, path: str, arrays: Mapping[str, NDArray[Any]]) -> Any:
    """The value that was `encoded`."""
    if not isinstance(saved, dict):
        return saved
    kind = saved.get(_KIND)
    if kind == "array":
        return np.array(arrays[path], order="C")
    value = _expected(saved, kind, path)
    if kind == "bytes":
        return bytes.fromhex(value)
    if kind == "Fraction":
        return Fraction(value)
    if kind == "settings":
        return settings_of(value)
    if kind in _VALUES:
        module, base = _VALUES[kind]
        return getattr(import_module(f"..{module}", __package__), base).from_json(value)
    if kind == "dict":
        keys = [decoded(key, path, arrays) for key, _ in value]
        return {key: decoded(one, f"{path}.{key}", arrays) for key, (_, one) in zip(keys, value, strict=True)}
    found = [decoded(one, f"{path}.{place}", arrays) for place, one in enumerate(value)]
    return {"list": list, "tuple": tuple, "deque": deque}[str(kind)](found)


def _expected(saved: Any, kind: Any, path: str) -> Any:
    if not isinstance(saved, dict) or saved.get(_KIND) != kind or "value" not in saved:
        raise ValueError(f"{path} is not what this release writes there")
    return saved["value"]


# --- settings: frozen dataclasses with fields that a file can hold ---------------------------------------

SETTINGS: dict[str, Any] = {}  # every kind of them, by its name


def saved_settings(kind: _Kind) -> _Kind:
    """A class decorator: these are settings.

    >>> from dataclasses import dataclass
    >>> @saved_settings
    ... @dataclass(frozen=True)
    ... class Speed:
    ...     rate: float
    ...     every: int | None = None
    >>> settings_json(Speed(0.5))
    {'kind': 'Speed', 'fields': {'rate': 0.5, 'every': None}}
    >>> settings_of({"kind": "Speed", "fields": {"rate": 0.5, "every": 3}})
    Speed(rate=0.5, every=3)
    """
    SETTINGS[kind.__name__] = kind
    return kind


def settings_json(given: Any) -> dict[str, Any]:
    """`plain_fields`, with what they are of."""
    return {"kind": type(given).__name__, "fields": plain_fields(given)}


def settings_of(record: Any) -> Any:
    """The settings that `settings_json` wrote."""
    if not isinstance(record, dict) or record.get("kind") not in SETTINGS:
        raise ValueError("these are not settings that settings_json() wrote")
    return read_fields(SETTINGS[record["kind"]], record.get("fields"))


def plain_fields(given: Any) -> dict[str, Any]:
    """The fields of settings as plain values, for a file."""
    return {one.name: encoded(getattr(given, one.name), one.name, {}) for one in fields(given)}


def read_fields(kind: Any, plain: Any) -> Any:
    """The settings of this kind that a file holds."""
    names = [one.name for one in fields(kind)]
    if not isinstance(plain, dict) or plain.keys() != set(names):
        raise ValueError(f"these are not settings of a {kind.__name__.removesuffix('Settings')}")
    return kind(**{name: decoded(plain[name], name, {}) for name in names})
