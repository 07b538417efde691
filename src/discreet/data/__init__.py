"""Tables, files and streams of events to populations: one reader for all of them."""

from .catalogue import private_catalogue
from .events import EventReader, Events, read_events

__all__ = ["EventReader", "Events", "private_catalogue", "read_events"]
