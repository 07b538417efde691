"""New virtual environments, and what happens in them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tools.results import ROOT

# Nothing of the checkout, or of whoever asks, is seen by what runs in an environment.
_KEPT = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}


class Environment:
    """A virtual environment of its own in ``folder``, made with ``interpreter``."""

    def __init__(self, folder: Path, interpreter: str = sys.executable) -> None:
        self.folder = folder
        run([interpreter, "-m", "venv", "--without-pip", "--clear", str(folder)])
        self.python = str(folder / "bin" / "python")

    @property
    def packages(self) -> Path:
        """Where its packages are."""
        return next((self.folder / "lib").glob("python3*")) / "site-packages"

    def install(self, *what: str) -> None:
        """With pip, from wherever pip is told to look."""
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", self.python, "install"]
        run([*pip, "--quiet", "--no-compile", *what])

    def borrow(self, folder: str) -> None:
        """Let it import what is installed in another folder, but not what that folder points at."""
        (self.packages / "borrowed.pth").write_text(f"{folder}\n")

    def versions(self) -> dict[str, str]:
        """What is installed, by names as pyproject.toml writes them."""
        text = run([sys.executable, "-m", "pip", "--python", self.python, "list", "--format", "freeze"])
        lines = [line.split("==") for line in text.split() if "==" in line]
        return {name.lower().replace("_", "-"): version for name, version in lines}

    def script(self, text: str, folder: Path) -> str:
        """What a script says that is run in ``folder``, where nothing else is."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "script.py").write_text(text)
        return run([self.python, "-I", "script.py"], folder)


class Failed(Exception):
    """A command that ended badly, with what it said."""


def run(command: Sequence[str], folder: Path = ROOT, seconds: float = 3600.0) -> str:
    """What a command prints; `Failed` with all it said where it fails."""
    ended = subprocess.run(
        command, cwd=folder, env=_KEPT, text=True, capture_output=True, check=False, timeout=seconds
    )
    if ended.returncode:
        raise Failed(f"{' '.join(command[:6])}: {ended.stdout[-2000:]}{ended.stderr[-2000:]}")
    return ended.stdout


def readme_example() -> str:
    """The README's example of a learner."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    return next(block for block in blocks if "dc.plan(" in block)
