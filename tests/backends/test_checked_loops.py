"""Compiled loops with every index checked, on states that somebody tampered with."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_compiled_loops_stay_within_their_arrays(request, tmp_path_factory):
    """A slice of tools/fuzz_states.py, whose compiled loops check every index."""
    cache = getattr(request.config, "cache", None)  # what is compiled with checks is kept for the next time
    kept = cache.mkdir("checked-loops") if cache is not None else tmp_path_factory.mktemp("checked-loops")
    extra = {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(kept)}
    script = [sys.executable, str(ROOT / "tools" / "fuzz_states.py"), "--cases", "150"]
    ended = subprocess.run(script, env=os.environ | extra, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
