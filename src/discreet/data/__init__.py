"""Readers of events: tables, files and streams become populations through one reader, or stores on disk."""

from .catalogue import private_catalogue
from .events import EventReader, Events, read_events
from .store import Bucket, Store, append, prepare

__all__ = [
    "Bucket",
    "EventReader",
    "Events",
    "Store",
    "append",
    "prepare",
    "private_catalogue",
    "read_events",
]
