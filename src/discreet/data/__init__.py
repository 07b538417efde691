"""Readers of events: tables, files and streams become populations through one reader."""

from .catalogue import private_catalogue
from .events import EventReader, Events, read_events

__all__ = ["EventReader", "Events", "private_catalogue", "read_events"]
