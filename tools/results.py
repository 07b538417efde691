"""Stored results of benchmarks, and the exponents that are read from them."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from tools import evidence
from tools.evidence import ROOT

RESULTS = ROOT / "benchmarks" / "results"
LONGEST = 1000  # characters of a line


def stored(name: str) -> dict[str, Any]:
    """What `store` wrote, or nothing."""
    path = RESULTS / f"{name}.json"
    record = dict(json.loads(path.read_text())) if path.exists() else {}
    record.pop("evidence", None)
    return record


def store(name: str, record: dict[str, Any], only: Iterable[str] | None = None) -> None:
    """Write benchmarks/results/``name``.json: a line for each entry, or for each part of a long entry.

    It is marked with the sources that it was made with (`tools.evidence`). ``only`` these entries were: the
    others are from before, and keep the mark that they have.
    """
    path = RESULTS / f"{name}.json"
    old = evidence.marks_of(path)[0] if path.exists() else []
    new = evidence.mark(f"{evidence.RESULTS}/{name}.json", since=evidence.BEGAN)
    entries = []
    marks = evidence.merged(old, new, record if only is None else only, record)
    for key, value in [*record.items(), ("evidence", marks)]:
        text = json.dumps(value)
        if len(text) > LONGEST and isinstance(value, dict | list):
            parts = [json.dumps(part) for part in (value.values() if isinstance(value, dict) else value)]
            if isinstance(value, dict):
                parts = [f"{json.dumps(name)}: {part}" for name, part in zip(value, parts, strict=True)]
            text = f"{text[0]}\n  " + ",\n  ".join(parts) + f"\n {text[-1]}"
        entries.append(f" {json.dumps(key)}: {text}")
    RESULTS.mkdir(exist_ok=True)
    path.write_text("{\n" + ",\n".join(entries) + "\n}\n")
    print(f"\nstored in benchmarks/results/{name}.json")


def exponent(rounds: Sequence[float], values: Sequence[float], last: float = math.inf) -> float:
    """Slope of a line on log-log axes through the points within a factor of ``last`` from the largest."""
    near = np.array(rounds) >= rounds[-1] / last * 0.99
    if near.sum() < 2:
        return math.nan
    return float(np.polyfit(np.log(rounds)[near], np.log(values)[near], 1)[0])
