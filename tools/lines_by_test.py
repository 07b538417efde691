"""A pytest plugin: which tests run which lines of `privacy/` and `online/`, and how long each takes.

    PYTHONPATH=tools LINES_BY_TEST=folder python -m pytest -p lines_by_test tests/...

Each process writes JSON into the folder: {"tests": [[name, seconds]], "lines": {"file:line": [place]}},
with the places of tests in their list.
Used by tools/mutants.py: a test that never runs a line cannot notice that it is broken.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Generator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "discreet"
_WATCHED = tuple(str(SOURCE / part) + os.sep for part in ("privacy", "online"))

_seconds: dict[str, float] = {}
_lines: defaultdict[str, set[str]] = defaultdict(set)
_seen: set[tuple[str, int]] = set()


def _called(frame: FrameType, event: str, _: Any) -> Any:
    if event == "call" and frame.f_code.co_filename.startswith(_WATCHED):
        return _stepped
    return None


def _stepped(frame: FrameType, event: str, _: Any) -> Any:
    if event == "line":
        _seen.add((frame.f_code.co_filename, frame.f_lineno))
    return _stepped


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    _seen.clear()
    start = time.perf_counter()
    threading.settrace(_called)
    sys.settrace(_called)
    try:
        return (yield)
    finally:
        sys.settrace(None)
        threading.settrace(None)  # type: ignore[arg-type]
        _seconds[item.nodeid] = time.perf_counter() - start
        for file, line in _seen:
            _lines[f"{Path(file).relative_to(SOURCE).as_posix()}:{line}"].add(item.nodeid)


def pytest_sessionfinish() -> None:
    if not _seconds:
        return
    folder = Path(os.environ["LINES_BY_TEST"])
    folder.mkdir(parents=True, exist_ok=True)
    place = {name: i for i, name in enumerate(_seconds)}
    found = {
        "tests": list(_seconds.items()),
        "lines": {line: sorted(place[name] for name in names) for line, names in _lines.items()},
    }
    (folder / f"{os.getpid()}.json").write_text(json.dumps(found))
