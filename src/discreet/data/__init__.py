"""Tables, files and streams of events to populations: one reader for all of them."""

from .catalogue import choose_items, private_catalogue
from .events import EventReader, Events, read_events
from .facts import Facts, read_items
from .labels import as_text
from .source import Batch, Source, Wording, constraint_role

__all__ = [
    "Batch",
    "EventReader",
    "Events",
    "Facts",
    "Source",
    "Wording",
    "as_text",
    "choose_items",
    "constraint_role",
    "private_catalogue",
    "read_events",
    "read_items",
]
