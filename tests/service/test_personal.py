"""Personal sets: a history is used for its answer and kept nowhere, nor is what somebody was shown."""

from __future__ import annotations

import contextlib
import json
import random
import re
import sqlite3
import time
import urllib.request
from pathlib import Path

import pytest

import discreet as dc
from discreet.client import ServiceError
from discreet.personal import Recommender
from discreet.service.config import PopulationConfig
from discreet.service.database import Stopped
from discreet.service.engine import PublicModel
from discreet.service.learning import Wrong

from .conftest import Running
from .pages import Visitor
from .test_browser import browser  # noqa: F401
from .test_js import JS, needs_node, node
from .test_webhooks import Receiver
from .world import World, likes

SCRIPT = Path(dc.__file__).parent / "personal.js"
GROUPS = 4  # of items that people have together
ITEMS = [f"item {number}" for number in range(24)]
PEOPLE = PopulationConfig(epsilon=40.0, delta=1e-6, definition="gdp", period="month")
MARKER = "marker-5d1c7e"


def group_of(label):
    return int(label.split()[1]) % GROUPS


def tastes(seed=1):
    """What people have: most items of one group, and the first item, which is popular."""
    rng = random.Random(seed)
    while True:
        group = rng.randrange(GROUPS)
        yield [item for item in ITEMS if (group_of(item) == group and rng.random() < 0.8) or item == ITEMS[0]]
