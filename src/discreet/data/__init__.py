"""Tables, files and streams of events to populations."""

from .events import EventReader, Events, read_events

__all__ = ["EventReader", "Events", "read_events"]
