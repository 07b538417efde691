"""Files that survive a crash: one readable header line, then arrays; written whole or not at all.

What a file says is not believed: `read_state` finds damage, and `Saved` hands out field by field, each of its
kind and within its range. How the fields fit together is for whoever makes an object of them to see.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import pickle
import tempfile
import zipfile
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from fractions import Fraction
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from . import checks

_MAGIC = "discreet-state"
VERSION = 2
State = tuple[dict[str, Any], dict[str, NDArray[Any]]]
# From each version that can still be read to the next one. A file of an older version passes through all of
# them; one without a way here is refused.
MIGRATIONS: dict[int, Callable[[dict[str, Any], dict[str, NDArray[Any]]], State]] = {}


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


def snapshot(
    header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """The same as copies: whoever goes on working with what was given does not change them."""
    copied = pickle.loads(pickle.dumps(dict(header), pickle.HIGHEST_PROTOCOL))  # far quicker than deepcopy
    return copied, {name: np.array(array) for name, array in arrays.items()}


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
    if version != VERSION and version not in MIGRATIONS:
        raise ValueError(
            f"{path} has format version {version}; this release of discreet reads"
            f" {', '.join(str(known) for known in (*sorted(MIGRATIONS), VERSION))}"
        )
    if header.pop("digest", None) != _digest(header, payload):
        raise ValueError(f"{path} is damaged: it is not what was written")
    try:
        with zipfile.ZipFile(io.BytesIO(payload)) as members:
            if sum(member.file_size for member in members.infolist()) > len(payload):
                raise ValueError("they are larger than the file")
        with np.load(io.BytesIO(payload), allow_pickle=False) as arrays:
            state = header, {name: arrays[name] for name in arrays.files}
    except (ValueError, OSError, zipfile.BadZipFile, EOFError, MemoryError, NotImplementedError) as error:
        raise ValueError(f"{path} is damaged: its arrays cannot be read ({error})") from error
    return _migrated(path, *state)


def state_class(path: str | os.PathLike[str] | bytes) -> str | None:
    """Of what a file, or what `state_bytes` made, says it is; None where that cannot be read."""
    try:
        if isinstance(path, bytes):
            line = path.partition(b"\n")[0]
        else:
            with Path(path).open("rb") as file:
                line = file.readline()
        header = json.loads(line)
    except (OSError, UnicodeDecodeError, json.JSONDecodeError, TypeError):
        return None  # whoever reads it says why
    return str(header.get("class")) if isinstance(header, dict) else None


def _migrated(path: object, header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> State:
    """The state as this version writes it."""
    while header.get("version") != VERSION:
        before = header.get("version")
        with refusing(path):
            header, arrays = MIGRATIONS[before](header, arrays)  # type: ignore[index]
            if header.get("version") == before:
                raise ValueError(f"its migration from version {before} leads nowhere")
    return header, arrays


def _digest(header: Mapping[str, Any], payload: bytes) -> str:
    """Tells a file that was damaged from one that was not; whoever changes a file can change this as well."""
    return hashlib.sha256(json.dumps(header).encode() + b"\n" + payload).hexdigest()


@contextmanager
def refusing(what: object) -> Iterator[None]:
    """Whatever goes wrong inside is a `ValueError` about ``what``: we have not written such a state."""
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
# An object with a state names the attributes that make it up in ``_state``, its bases' apart. Those of its
# parts are taken up with it. An attribute may be a property where the file should hold another form.
# `restore` is given an object that was made from the same settings: each array must be of the kind and the
# shape that it finds there (of any length if ``_any_length`` names it), every other value of the same type.
# What is None there may become a value, but for parts that ``_parts`` names: settings decide about those.
# What the values mean is for ``_resumed()`` of the object to see, which is called last.

_KIND = "kind"
# Values that write themselves: where each kind is defined, and its base.
_VALUES = {
    "settings": ("core.state", "Settings"),
    "learner": ("online.learner", "LearnerSettings"),
    "event": ("privacy.events", "Event"),
    "constraint": ("constraints.base", "Constraint"),
    "domain": ("constraints.domains", "Domain"),
}


def in_range(items: NDArray[Any], n_items: int, least: int = 0) -> bool:
    """Whether these are numbers of items: what a file must say where a compiled loop goes by them."""
    return items.size == 0 or bool(least <= items.min() and items.max() < n_items)


def capture(part: Any) -> State:
    """The state of an object, as plain values and copies of arrays."""
    arrays: dict[str, NDArray[Any]] = {}
    plain = encoded(part, "", arrays)["value"]
    return plain, {name: np.array(array) for name, array in arrays.items()}


def restore(part: Any, plain: Any, arrays: Mapping[str, NDArray[Any]], path: str = "") -> None:
    """Let an object go on from a state that `capture` took of one like it."""
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
    """A value as plain ones, its arrays put into ``arrays``."""
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
    bases = {one.__name__ for one in type(value).__mro__}
    for kind, (_, base) in _VALUES.items():
        if base in bases:
            return {_KIND: kind, "value": value.to_json()}
    inner = f"{path}." if path else ""
    values = {name: encoded(getattr(value, name), inner + name, arrays) for name in _names(type(value))}
    return {_KIND: "part", "value": values}


def decoded(saved: Any, path: str, arrays: Mapping[str, NDArray[Any]]) -> Any:
    """The value that `encoded` wrote."""
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


@dataclass(frozen=True)
class Settings:
    """A base of frozen dataclasses with fields that a file can hold.

    >>> @dataclass(frozen=True, kw_only=True)
    ... class Speed(Settings):
    ...     rate: float
    ...     every: int | None = None
    >>> Speed(rate=0.5).plain()
    {'rate': 0.5, 'every': None}
    >>> Speed.read({"rate": 0.5, "every": 3})
    Speed(rate=0.5, every=3)
    """

    _kinds: ClassVar[dict[str, type[Settings]]] = {}

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        Settings._kinds[cls.__name__] = cls

    def _put(self, **values: Any) -> None:
        """Fields as they were checked and converted, while the settings are made."""
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def plain(self) -> dict[str, Any]:
        """Plain values, for a file."""
        return {one.name: encoded(getattr(self, one.name), one.name, {}) for one in fields(self)}

    @classmethod
    def read(cls, plain: Any) -> Self:
        """The settings that a file holds."""
        names = [one.name for one in fields(cls)]
        if not isinstance(plain, dict) or plain.keys() != set(names):
            raise ValueError(f"these are no settings of a {cls.__name__.removesuffix('Settings')}")
        return cls(**{name: decoded(plain[name], name, {}) for name in names})

    def to_json(self) -> dict[str, Any]:
        """`plain`, with what it is."""
        return {"kind": type(self).__name__, "fields": self.plain()}

    @staticmethod
    def from_json(record: dict[str, Any]) -> Settings:
        """The settings that `to_json` wrote."""
        return Settings._kinds[record["kind"]].read(record["fields"])


class Saved:
    """What a state says, field by field: each is there, of its kind and within its range, or it is refused.

    >>> saved = Saved({"k": 3, "rate": 0.5}, {"gains": np.zeros((2, 3))})
    >>> saved.whole("k", at_least=1), saved.real("rate", above=0.0), saved.array("gains", (2, 3)).shape
    (3, 0.5, (2, 3))
    """

    def __init__(self, settings: Any, arrays: Mapping[str, NDArray[Any]]) -> None:
        if not isinstance(settings, Mapping):
            raise ValueError(f"its settings are {settings!r}, not named values")
        self._settings, self._arrays = settings, arrays

    def plain(self, name: str) -> Any:
        """A value as it stands there."""
        if name not in self._settings:
            raise ValueError(f"{name} is missing")
        return self._settings[name]

    def given(self, name: str) -> bool:
        """Whether there is such a value, other than None."""
        return self._settings.get(name) is not None

    def whole(self, name: str, *, at_least: int, at_most: int | None = None) -> int:
        return checks.whole(name, self.plain(name), at_least=at_least, at_most=at_most)

    def real(self, name: str, **limits: Any) -> float:
        value = self.plain(name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f"{name} must be a number, got {value!r}")
        return checks.real(name, value, **limits)

    def flag(self, name: str) -> bool:
        value = self.plain(name)
        if not isinstance(value, bool):
            raise ValueError(f"{name} must be true or false, got {value!r}")
        return value

    def one_of(self, name: str, allowed: Collection[str]) -> str:
        return checks.one_of(name, self.plain(name), allowed)

    def rows(self, name: str, *, at_most: int | None = None) -> list[Any]:
        """A list, of limited length."""
        value = self.plain(name)
        if not isinstance(value, list | tuple):
            raise ValueError(f"{name} must be a list, got {value!r}")
        if at_most is not None and len(value) > at_most:
            raise ValueError(f"{name} has {len(value)} entries; there can be {at_most}")
        return list(value)

    def words(self, name: str, count: int) -> list[int]:
        """So many 64-bit numbers."""
        found = self.rows(name, at_most=count)
        if len(found) != count:
            raise ValueError(f"{name} has {len(found)} entries; {count} expected")
        return [checks.whole(name, word, at_least=0, at_most=(1 << 64) - 1) for word in found]

    def inner(self, name: str, prefix: str = "") -> Saved:
        """The state of a part, whose arrays have ``prefix`` before their names."""
        size = len(prefix)
        arrays = {key[size:]: array for key, array in self._arrays.items() if key.startswith(prefix)}
        return Saved(self.plain(name), arrays)

    def part(self, name: str) -> Saved:
        """The state of a named part of an object: its values, and its arrays by their own names."""
        return self.inner("parts").inner(name, f"{name}.")

    @property
    def entries(self) -> int:
        """How many numbers the arrays hold together."""
        return sum(int(np.asarray(array).size) for array in self._arrays.values())

    @property
    def names(self) -> tuple[str, ...]:
        """What the arrays are called."""
        return tuple(self._arrays)

    def array(
        self,
        name: str,
        shape: tuple[int | None, ...],
        dtype: type[np.generic] | tuple[type[np.generic], ...] = np.float64,
        *,
        at_least: float | None = None,
        at_most: float | None = None,
        infinite: bool = False,
    ) -> NDArray[Any]:
        """A copy of an array of this shape (None: any length) and kind, finite and within its range."""
        if name not in self._arrays:
            raise ValueError(f"the array {name} is missing")
        array = np.asarray(self._arrays[name])
        kinds = dtype if isinstance(dtype, tuple) else (dtype,)
        fits = len(shape) == array.ndim and all(
            length in (None, size) for length, size in zip(shape, array.shape, strict=True)
        )
        if not fits or array.dtype not in [np.dtype(kind) for kind in kinds]:
            wanted = " or ".join(np.dtype(kind).name for kind in kinds)
            raise ValueError(
                f"the array {name} has shape {array.shape} of {array.dtype}; {shape} of {wanted} expected"
            )
        if array.dtype.kind == "f" and not (~np.isnan(array) if infinite else np.isfinite(array)).all():
            raise ValueError(f"the array {name} has entries that are not finite numbers")
        low = at_least is not None and array.size and array.min() < at_least
        if low or (at_most is not None and array.size and array.max() > at_most):
            raise ValueError(f"the array {name} has entries outside of [{at_least}, {at_most}]")
        return np.array(array, order="C")
