"""The command line: ``discreet COMMAND``. Each command is one module of this package.

A command module has ``NAME``, ``HELP`` (one line), ``add_arguments(parser)`` and ``run(options) -> int``, and
imports what it works with inside `run`, so that asking for help costs nothing. `dispatch` does the rest.

Exit codes: 0 done, 2 a mistake in what was asked or in a file, 3 refused by a privacy budget, 130
interrupted.
"""

from __future__ import annotations

from .dispatch import main

__all__ = ["main"]
