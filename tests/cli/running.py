"""Commands as a user runs them: in a process of their own, or through `main` where that is enough."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any, NamedTuple

from discreet.cli import main


class Ended(NamedTuple):
    code: int
    out: str
    err: str


def process(*arguments: str, stdin: str | None = None, **environment: str) -> Ended:
    """``discreet ARGUMENTS`` in a new process."""
    ended = subprocess.run(
        [sys.executable, "-m", "discreet", *map(str, arguments)],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=600,  # only against a command that never ends: the machine may be busy
        env=os.environ | {"COLUMNS": "200"} | environment,  # test runners set a width of their own
        check=False,
    )
    return Ended(ended.returncode, ended.stdout, ended.stderr)


def inside(capsys, *arguments: object) -> Ended:
    """The same in this process."""
    capsys.readouterr()
    code = main([str(a) for a in arguments])
    out, err = capsys.readouterr()
    return Ended(code, out, err)


def printed(capsys, *arguments: object) -> Any:
    """What a command prints with --json."""
    ended = inside(capsys, *arguments, "--json")
    assert ended.code == 0, ended.err
    return json.loads(ended.out)


def assert_refused(ended: Ended, *words: str, code: int = 2) -> None:
    """A user's mistake: its exit code, nothing on standard output, and one line that says what to fix."""
    assert ended.code == code, ended
    assert ended.out == ""
    assert len(ended.err.splitlines()) == 1, ended.err
    assert "Traceback" not in ended.err
    for word in words:
        assert word in ended.err
