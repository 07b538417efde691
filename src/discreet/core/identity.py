"""Identities of people: one form for names that are equal, before anything is made of them."""

from __future__ import annotations

import math
import uuid
from collections.abc import Hashable

import numpy as np


def canonical(person: Hashable) -> Hashable:
    """One form for identities that are equal: NumPy's and Python's numbers, 5 and 5.0, text of any kind.

    Kinds of text and numbers that somebody made of these (enumerations, for one) print as they like, and so
    they are taken for what they are equal to.
    """
    value = person.item() if isinstance(person, np.generic) else person
    if isinstance(value, tuple):
        return tuple(canonical(part) for part in value)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, bytes):
        return memoryview(value).tobytes()
    if isinstance(value, int):
        return int.__int__(value)
    if isinstance(value, float):
        number = float.__float__(value)
        if not math.isfinite(number):
            raise ValueError(f"person_id is {number}, which names nobody; use None for somebody unknown")
        return int(number) if number.is_integer() else number
    if isinstance(value, uuid.UUID):
        return uuid.UUID(int=value.int)
    raise TypeError(
        f"person_id must be text, a number, a UUID or a tuple of these, got {type(person).__name__}: other"
        " objects have no name that stays the same"
    )
