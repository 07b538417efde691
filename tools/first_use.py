"""Processor seconds of first uses, each in a new process, and their limits.

Nothing is compiled then, and nothing is kept for a second use; bytecode is there, as pip leaves it.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile

LEARNERS = """
import numpy as np
import discreet as dc
rng = np.random.default_rng(0)
people = dc.objectives.Coverage(rng.random((3_000, 100)) < 0.1)
budget = dc.Budget(1.0, 1e-6)
for kind in (dc.online.HedgeSelector, dc.online.RunningSumSelector, dc.online.LeaderSelector):
    kind(100, 10, 3_000, budget, seed=0).run(people)
"""
SIZES = ["--n-items", "100", "--k", "10", "--rounds", "10000", "--epsilon", "1", "--delta", "1e-6"]
# The arguments of Python, and the most processor seconds that the process may take.
USES = {
    "import discreet": (["-c", "import discreet"], 1.0),
    "three learners over 3,000 people": (["-c", LEARNERS], 3.0),
    "discreet plan": (["-m", "discreet", "plan", *SIZES], 3.0),
    "discreet simulate": (["-m", "discreet", "simulate", "--rounds", "2000"], 6.0),
}


def seconds(name: str) -> float:
    """Processor seconds of one use, from the start of its process to its end."""
    arguments, _ = USES[name]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        subprocess.run(
            [sys.executable, *arguments], check=True, capture_output=True, cwd=folder, env=environment
        )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    for name, (_, limit) in USES.items():
        print(f"{name:34} {seconds(name):5.2f} of {limit:g} s")


if __name__ == "__main__":
    main()
