"""Saved states that nobody saved: one field changed, left out, or of another kind.

`changes` goes through a state, header and arrays, and yields every change that it knows. What comes of a
changed state is for `outcome` to say: it is refused by a `ValueError`, or gives an object that works.
"""

from __future__ import annotations

import copy
import dataclasses
import math
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import discreet as dc
from discreet.core.state import read_state, write_state

State = tuple[dict[str, Any], dict[str, np.ndarray]]
Change = Callable[[], State]
_GONE = object()
_WHOLE = [-1, 0, 1, 7, 10**6, 2**31, 2**63 - 1, 2**64, 10**30, -(10**30), 0.5, "1", None, True, []]
_REAL = [-1.0, 0.0, 1e-300, 1e300, math.nan, math.inf, -math.inf, "0.5", None, True, []]
_TEXT = ["", "nonsense", "1e999999999", "1/0", "-1/3", None, 3, []]
_DTYPES = ["float32", "int32", "uint64", "complex128", "U3", "bool"]


def changes(header: dict[str, Any], arrays: dict[str, np.ndarray]) -> Iterator[tuple[str, Change]]:
    """A name for every change, and what makes the changed state: there are thousands, and few are tried."""
    for path in _places(header):
        for number, value in enumerate(_instead(_at(header, path))):
            yield f"{'.'.join(map(str, path))}: {number}", partial(_changed, header, arrays, path, value)
    for name, array in arrays.items():
        for what, value in _instead_of(array):
            yield f"array {name}: {what}", partial(_with, header, arrays, name, value)


def _changed(
    header: dict[str, Any], arrays: dict[str, np.ndarray], path: tuple[Any, ...], value: Any
) -> State:
    changed = copy.deepcopy(header)
    _put(changed, path, value)
    return changed, dict(arrays)


def _with(header: dict[str, Any], arrays: dict[str, np.ndarray], name: str, value: Any) -> State:
    kept = {key: other for key, other in arrays.items() if key != name}
    return copy.deepcopy(header), kept if value is None else kept | {name: value}


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in inside:
        yield from _places(part, (*path, key))


def _at(value: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        value = value[key]
    return value


def _put(value: Any, path: tuple[Any, ...], new: Any) -> None:
    inner = _at(value, path[:-1])
    if new is _GONE:
        del inner[path[-1]]
    else:
        inner[path[-1]] = new


def _instead(value: Any) -> list[Any]:
    if isinstance(value, bool):
        return [_GONE, not value, 2, None, "yes"]
    if isinstance(value, int):
        return [_GONE, value + 1, value - 1, 2 * value, -value, *_WHOLE]
    if isinstance(value, float):
        return [_GONE, 10.0 * value, value / 10.0, -value, *_REAL]
    if isinstance(value, str):
        return [_GONE, value + "0", value[:-1], *_TEXT]
    if isinstance(value, list):
        return [_GONE, [], value[:-1], value + value[:1], [*value, 0], [value], None, 5, {}]
    if isinstance(value, dict):
        return [_GONE, {}, None, 5, [], "text"]
    return [_GONE, 0, 3, 0.5, "text", [], {}, [0]]


def _instead_of(array: np.ndarray) -> Iterator[tuple[str, np.ndarray | None]]:
    yield "left out", None
    yield "empty", array[:0] if array.ndim else array.reshape(0)
    yield (
        "one more",
        np.concatenate([array, array[:1]]) if array.shape[:1] > (0,) else np.zeros((3, *array.shape[1:])),
    )
    yield "one less", array[1:]
    yield "flat", array.reshape(-1)
    yield "deeper", array[None]
    yield "turned", np.asfortranarray(array.T)
    for dtype in _DTYPES:
        if array.dtype != dtype:
            yield dtype, array.astype(dtype)
    values: list[Any] = (
        [-1, 1, 2**31 - 1] if array.dtype.kind in "iu" else [-1.0, 1.0, 1e300, math.nan, math.inf]
    )
    if array.dtype == np.int64:
        values += [2**62, -(2**63)]
    with np.errstate(all="ignore"):
        for value in values:
            yield f"full of {value}", np.full_like(array, np.array(value).astype(array.dtype))
            if array.size:
                one = array.copy()
                one.flat[-1] = np.array(value).astype(array.dtype)
                yield f"ends with {value}", one


def written(state: State, path: Path) -> Path:
    """The state as a file that is in itself whole."""
    header, arrays = state
    plain = {name: value for name, value in header.items() if name not in ("format", "version")}
    write_state(path, plain, arrays)
    return path


def saved(thing: Any, path: Path) -> State:
    """What a thing writes about itself."""
    thing.save(path)
    return read_state(path)


def outcome(state: State, path: Path, setting: Any, before: Any) -> str:
    """What comes of a changed state of the learner ``before``: why it was refused, "works" or "fails".

    A file is trusted as the data is: that its numbers are plausible is not proved, and a learner that comes
    back may fail later. But it holds no less in its account than before, under the same budget, and nothing
    that it does ends the process.
    """
    written(state, path)
    try:
        learner = dc.load(path)
    except ValueError as error:
        return f"refused: {error}"
    now = dataclasses.replace(learner.privacy, budget=before.budget)
    assert now.epsilon() >= before.privacy.epsilon(), "less was spent"
    people = setting.people(40)
    try:
        for t in range(5):
            decision = learner.choose()
            if learner.over:
                break
            learner.learn(setting.feedback(learner, people[t], decision))
        learner.run(people)
        learner.choose()
        learner.save(path)
        dc.load(path)
    except Exception as error:
        return f"fails: {error}"
    return "works"
