"""First use of every learner with an empty compilation cache, in processor seconds.

A fresh process imports the library, then makes a learner, takes its first rounds with `choose` and `learn`,
and gives another one a short stream to `run`; then a longer one. Everything but the import is counted. The
second time the cache is there. `python -m tools.first_use hedge` measures the settings with "hedge" in
their name or their learner's name; ``--loops`` prints what was compiled. What is measured of all learners
goes to benchmarks/results/first_use.json.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from typing import Any

import numpy as np

from benchmarks.shared import arguments, machine
from discreet.evaluation.streams import cuts_and_prices
from discreet.objectives import ConcaveOfLinear, Coverage
from discreet.objectives.losses import Distance, Linear
from discreet.online.examples import N_ITEMS, ROUNDS, SIZE
from discreet.online.registry import REGISTRY
from tools.results import store

PEOPLE, CROWD = 50, 2000
MOST = 4.0


def crowd(feedback: str, count: int) -> Any:
    """People of whom a learner with this feedback learns."""
    rng = np.random.default_rng(0)
    if feedback in ("function", "reward"):
        return Coverage((rng.random((count, N_ITEMS)) < 0.3).astype(float))
    if feedback == "dr_function":
        return ConcaveOfLinear(rng.random((count, N_ITEMS)) / N_ITEMS)
    if feedback in ("set_cost", "shown_set_cost"):
        return cuts_and_prices(count, 4, rng)
    rows = rng.uniform(-0.2, 0.2, (count, SIZE))
    return Linear(rows, row_norm=1.0) if feedback == "cost_vector" else Distance(rows)


def told(feedback: str, learner: Any, person: Any, decision: Any) -> Any:
    """What `learn` is given of a person."""
    if feedback == "reward" and learner.feedback == "slots":
        values = [person.value(decision.items[:i]) for i in range(len(decision.items) + 1)]
        return np.maximum(np.diff(values), 0.0)
    if feedback in ("reward", "cost", "shown_set_cost"):
        return person.value(getattr(decision, "items", decision))
    return person


def first_use(name: str, words: str) -> dict[str, Any]:
    """Seconds of the first rounds and of the first `run` in this process, and what they compiled."""
    from numba.core.event import install_recorder

    entry = REGISTRY[name]
    example, kind, people = entry.examples()[words], entry.kind(name), crowd(entry.feedback, PEOPLE)
    horizon = {"rounds": CROWD} if ROUNDS in example.arguments else {}
    many = crowd(entry.feedback, CROWD)
    warnings.simplefilter("ignore")
    with install_recorder("numba:compile") as recorder:
        start = time.process_time()
        learner = example.make(kind)
        for person in people[:ROUNDS]:
            learner.learn(told(entry.feedback, learner, person, learner.choose()))
        between = time.process_time()
        example.make(kind).run(people)
        end = time.process_time()
        example.make(kind, **horizon).run(many)
        last = time.process_time()
    began: list[float] = []
    loops = []
    for at, event in recorder.buffer:
        if event.is_start:
            began.append(at)
        else:
            about = event.data["dispatcher"].py_func.__name__, str(event.data["args"])
            loops.append((at - began.pop(), *about))
    return {"rounds": between - start, "run": end - between, "long": last - end, "loops": loops}


def measured(name: str, words: str, folder: str) -> dict[str, Any]:
    """`first_use` in a process of its own."""
    command = [sys.executable, "-m", "tools.first_use", "--one", name, words]
    environment = os.environ | {"NUMBA_CACHE_DIR": folder}
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("only", nargs="?", default="", help="part of the name of settings or learners")
    parser.add_argument("--first", action="store_true", help="one setting of each learner only")
    parser.add_argument("--loops", action="store_true", help="print what is compiled, and how long it takes")
    parser.add_argument("--one", nargs=2, help="measure one setting in this process")
    options = parser.parse_args()
    if options.one:
        print(json.dumps(first_use(*options.one)))
        return
    print(f"{'learner':26} {'setting':46} {'rounds':>6} {'run':>6} {'long':>6} {'all':>6} {'warm':>6} loops")
    worst, found = 0.0, {}
    for name, entry in REGISTRY.items():
        chosen = [words for words in entry.examples() if options.only.lower() in f"{name} {words}".lower()]
        for words in chosen[: 1 if options.first else None]:
            with tempfile.TemporaryDirectory() as folder:
                cold, warm = (measured(name, words, folder) for _ in range(2))
            every, again = (one["rounds"] + one["run"] + one["long"] for one in (cold, warm))
            worst = max(worst, every)
            found[f"{name}: {words}"] = [round(cold[part], 2) for part in ("rounds", "run", "long")]
            print(
                f"{name:26} {words:46} {cold['rounds']:6.2f} {cold['run']:6.2f} {cold['long']:6.2f}"
                f" {every:6.2f} {again:6.2f}"
                f" {len(cold['loops']):5}",
                flush=True,
            )
            if options.loops:
                for seconds, loop, types in sorted(cold["loops"], reverse=True):
                    print(f"    {seconds:6.2f} {loop} {types}")
    if not options.only:
        store("first_use", {"machine": machine(), "seconds": found})
    print(f"first use: at most {worst:.2f} seconds; the limit is {MOST:g}")


if __name__ == "__main__":
    main()
