"""Groups of people by a public attribute: what they are called, and whom they hold."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any

import numpy as np

from ...core import checks
from ...core.labels import plain_label


class Groups:
    """The ``values`` of an attribute, with a group of people each; unknown ones go to ``other``, if given.

    At a gate that others use too, groups of another attribute, or of other values, may hold the same people:
    the names tell these apart, and the gate refuses them beside each other.

    >>> groups = Groups(("de", "fr", "else"), "country", "else", own_gate=True)
    >>> groups.names, groups.index("fr"), groups.index("it")
    (['country: de', 'country: fr', 'country: else'], 1, 2)
    """

    def __init__(self, values: tuple[Any, ...], by: str | None, other: Any, *, own_gate: bool) -> None:
        if by is not None and (not isinstance(by, str) or not 1 <= len(by) <= 100 or ": " in by):
            raise ValueError(f"by must be the short name of an attribute, got {checks.shown(by)}")
        if by is None and not own_gate:
            raise ValueError(
                "by= is needed at a gate that others use too: people are divided by that attribute, and"
                " somebody may be in groups of two divisions"
            )
        self.values, self.by, self.other = values, by, other
        family = by or "segment"
        if not own_gate:  # the same values of the same attribute are the same people, others are not
            known = json.dumps([list(values), other]).encode()
            family = f"{family} {hashlib.blake2b(known, digest_size=4).hexdigest()}"
        self.names = [f"{family}: {str(value).replace(': ', ':')}" for value in values]
        if len(set(self.names)) < len(values):
            raise ValueError("values holds two that read alike")
        self._places = {value: index for index, value in enumerate(values)}

    @property
    def taken_for_granted(self) -> str:
        """What an account has to say."""
        by = self.by or "segments"
        return f"people are divided by {by}: taken to be public, and alike in neighbouring inputs"

    def index(self, value: Any) -> int:
        """Which group somebody with this value is in."""
        plain = value.item() if isinstance(value, np.generic) else value
        index = self._places.get(plain) if isinstance(plain, str | int | float) else None
        if index is not None and isinstance(self.values[index], bool) == isinstance(plain, bool):
            return index
        if self.other is None:
            raise ValueError(
                f"segment={checks.shown(value)} is none of {', '.join(map(repr, self.values[:10]))}"
                f"{', ...' if len(self.values) > 10 else ''}; make Segments with other= for unknown values"
            )
        return self._places[self.other]


def all_values(values: Any, other: Any) -> tuple[Any, ...]:
    """The values of segments, checked, with ``other`` among them."""
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise TypeError(f"values must be a list, got {checks.shown(values)}")
    found = [plain_label(value) for value in values]
    if other is not None and plain_label(other) not in found:
        found.append(plain_label(other))
    if not found or len(set(found)) < len(found):
        raise ValueError("values must be distinct, and at least one")
    return tuple(found)
