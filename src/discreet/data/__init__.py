"""Tables, files and streams of events to populations."""

from .catalogue import private_catalogue
from .events import EventReader, Events, PrivateCatalogue, read_events

__all__ = ["EventReader", "Events", "PrivateCatalogue", "private_catalogue", "read_events"]
