"""Saved segments in pieces, for a store that writes those that have changed and leaves the others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...core.state import read_state, state_bytes
from ...privacy import Gate
from .segments import Segments


def pieces(whole: Segments) -> dict[Any, bytes]:
    """What `Segments.to_bytes` has, as pieces: learners that have changed since the last time, and the rest.

    Learners are under the value of their segment, the rest is under None.
    """
    with whole._turn("to_bytes()"):
        found: dict[Any, bytes] = {None: state_bytes(*whole._saved(learners=False))}
        changed = whole._numbers.changed
        found |= {whole.values[i]: state_bytes(*whole._learners[i]._saved()) for i in sorted(changed)}
        changed.clear()
        return found


def joined(found: Mapping[Any, bytes], gate: Gate) -> Segments:
    """Go on with segments whose pieces are those that were written last; see `Segments.load`."""
    header, arrays = read_state(found[None])
    for index, value in enumerate(header["values"]):
        own, some = read_state(found[value])
        header["segments"][str(index)] = own
        arrays |= {f"{index}.{key}": array for key, array in some.items()}
    return Segments.load(state_bytes(header, arrays), gate=gate)
