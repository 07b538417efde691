"""Databases of the service: one SQLite file, or PostgreSQL."""

from __future__ import annotations

from ...core.extras import install
from .base import (
    DUPLICATE,
    EARLY,
    LATE,
    RECORDED,
    Conflict,
    Fenced,
    Frozen,
    Outcome,
    Served,
    Store,
    StoreError,
    Transaction,
)

__all__ = [
    "DUPLICATE",
    "EARLY",
    "LATE",
    "RECORDED",
    "Conflict",
    "Fenced",
    "Frozen",
    "Outcome",
    "Served",
    "Store",
    "StoreError",
    "Transaction",
    "open_store",
]


def open_store(url: str) -> Store:
    """The store of a URL: ``sqlite:///path``, a path, or ``postgresql://...``."""
    if url.startswith(("postgresql://", "postgres://")):
        try:
            from .postgres import PostgresStore
        except ImportError as error:
            raise ValueError(f"PostgreSQL needs more: {install('postgres')} ({error.name})") from None

        return PostgresStore(url)
    from .sqlite import SQLiteStore

    return SQLiteStore(url.removeprefix("sqlite:///"))
