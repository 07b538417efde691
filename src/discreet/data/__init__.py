"""Readers of events: tables, files and streams become populations through one reader, or stores on disk."""

from .events import Events, private_catalogue, read_events
from .preparing import append, prepare
from .store import Bucket, Store

__all__ = [
    "Bucket",
    "Events",
    "Store",
    "append",
    "prepare",
    "private_catalogue",
    "read_events",
]
