"""A pytest plugin: which tests enter which functions of src, and how much processor time each test takes.

    PYTHONPATH=tools REACH=folder python -m pytest -p reach tests/...

Each process writes JSON into the folder: a list of [name of the test, seconds, ["file:line" of functions]].
Used by tools/mutants.py: a test that never enters a function cannot notice that it is broken.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Generator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

SOURCE = str(Path(__file__).parents[1] / "src" / "discreet") + os.sep

_tests: list[tuple[str, float, list[str]]] = []
_entered: set[tuple[str, int]] = set()


def _profile(frame: FrameType, event: str, _: Any) -> None:
    if event == "call":
        code = frame.f_code
        _entered.add((code.co_filename, code.co_firstlineno))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    _entered.clear()
    start = sum(os.times()[:4])
    threading.setprofile(_profile)
    sys.setprofile(_profile)
    try:
        return (yield)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
        ours = [f"{file[len(SOURCE) :]}:{line}" for file, line in _entered if file.startswith(SOURCE)]
        _tests.append((item.nodeid, sum(os.times()[:4]) - start, ours))


def pytest_sessionfinish() -> None:
    if _tests:
        folder = Path(os.environ["REACH"])
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{os.getpid()}.json").write_text(json.dumps(_tests))
