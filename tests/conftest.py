"""What all tests share."""

from __future__ import annotations

from pathlib import Path

import pytest

import discreet.kernels


def pytest_configure():
    """Compiled modules that are older than their sources would be tested in place of them."""
    folder = Path(discreet.kernels.__file__).parent
    built = {one.name.partition(".")[0]: one.stat().st_mtime for one in folder.glob("*.so")}
    stale = [one.name for one in folder.glob("*.pyx") if one.stat().st_mtime > built.get(one.stem, 0.0)]
    if stale and folder.parent.parent.name == "src":
        pytest.exit(f"compile {', '.join(sorted(stale))} again: make install", returncode=4)


def pytest_terminal_summary(terminalreporter):
    """What was skipped and should not be is said at the end, once."""
    skipped = terminalreporter.stats.get("skipped", [])
    for reason in sorted({one.longrepr[2] for one in skipped if "LOUD: " in str(one.longrepr)}):
        terminalreporter.section(reason.partition("LOUD: ")[2], sep="!", red=True, bold=True)
