"""Many rows in a few statements: each of them takes time of its own, and threads take turns at it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .base import Transaction

_MOST = 1024  # rows of one statement


def found(tx: Transaction, sql: str, keys: Sequence[tuple[Any, ...]]) -> dict[tuple[Any, ...], int]:
    """What there is under keys of three parts, of which many have the first two in common.

    ``{}`` in the statement is where the third parts come; it tells of each the third part and a number.
    """
    wanted: dict[tuple[Any, Any], list[Any]] = {}
    for one, two, three in keys:
        wanted.setdefault((one, two), []).append(three)
    known = {}
    for first, last in wanted.items():
        for start in range(0, len(last), _MOST):
            some = last[start : start + _MOST]
            size = 1 << (len(some) - 1).bit_length()  # of few sizes, so that statements are used again
            places = ",".join("?" * size)
            for three, value in tx.all(sql.format(places), *first, *some, *[None] * (size - len(some))):
                known[*first, three] = value
    return known


def write(tx: Transaction, sql: str, rows: Sequence[tuple[Any, ...]]) -> None:
    """Many rows, of each power of two at most once; ``{}`` in the statement is where they come."""
    start = 0
    while left := len(rows) - start:
        size = min(1 << (left.bit_length() - 1), _MOST)
        row = f"({','.join('?' * len(rows[0]))})"
        values = [value for one in rows[start : start + size] for value in one]
        tx.do(sql.format(",".join([row] * size)), *values)
        start += size
