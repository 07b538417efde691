"""A small slice of tools/fuzz.py, and that it notices what it is meant to notice."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from pathlib import Path

import pytest

import discreet as dc
from discreet.core import checks

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def fuzz():
    spec = importlib.util.spec_from_file_location("fuzz", ROOT / "tools" / "fuzz.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["fuzz"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["fuzz"]


def test_every_public_name_is_called(fuzz):
    assert fuzz.without_example() == []


def test_every_example_is_one(fuzz):
    for name, (call, fits) in fuzz.examples().items():
        if name != "load":
            call(**fits)


@pytest.mark.filterwarnings("ignore")
def test_bad_inputs_are_refused_and_nothing_else(fuzz):
    assert fuzz.fuzz(seed=1, first=2100, cases=600) == []


def test_the_stored_study(fuzz):
    study = json.loads((ROOT / "benchmarks" / "results" / "fuzz.json").read_text())
    mended, fresh = study["runs"]
    assert mended["cases"] == fresh["cases"] == 100_000
    assert mended["findings"] == []
    assert all(fuzz.run_case(fresh["seed"], one["case"]) is None for one in fresh["findings"])


def _looked_at(fuzz, call, subject=None):
    """What the fuzzer says of one call."""
    fuzz.signal.signal(fuzz.signal.SIGALRM, fuzz._alarm)
    return fuzz.Case(0, 0, Path())._called("a call", call, subject)


def test_an_error_from_deep_inside_is_noticed(fuzz, monkeypatch):
    assert _looked_at(fuzz, lambda: dc.privacy.tree_levels("x")) is None
    monkeypatch.setattr(checks, "whole", lambda _, value, **__: value)
    assert "AttributeError" in _looked_at(fuzz, lambda: dc.privacy.tree_levels(0.5))


def test_a_refusal_that_changes_something_is_noticed(fuzz, monkeypatch):
    gate = dc.Gate(dc.Budget(1.0), 0)
    assert _looked_at(fuzz, lambda: gate.laplace([0.0], 0.1, 1.0), gate) is None
    whole = type(gate).laplace

    def charges_first(self, values, scale, sensitivity):
        self.reserve(dc.privacy.LaplaceNoise(1.0, 10.0))
        return whole(self, values, scale, sensitivity)

    monkeypatch.setattr(type(gate), "laplace", charges_first)
    assert "changed the state" in _looked_at(fuzz, lambda: gate.laplace([0.0], 0.1, 1.0), gate)


def test_a_message_that_tells_is_noticed(fuzz, monkeypatch):
    people = fuzz.population()
    assert _looked_at(fuzz, lambda: dc.privacy.tree_levels(people)) is None
    monkeypatch.setattr(checks, "shown", lambda value: f"{len(value)} people")
    assert "tells about people" in _looked_at(fuzz, lambda: dc.privacy.tree_levels(people))


def test_the_end_of_the_interpreter_is_noticed_and_the_rest_goes_on(fuzz, monkeypatch):
    monkeypatch.setattr(fuzz, "run_case", lambda _, number, *__: os._exit(3) if number == 2 else None)
    found = fuzz.fuzz(seed=0, first=1, cases=5)
    assert [one["case"] for one in found] == [2]
    assert "ends the interpreter" in found[0]["finding"]


def test_what_does_not_end_is_noticed(fuzz, monkeypatch, tmp_path):
    """By a clock that only moves while the second case runs: a busy machine does not matter."""
    began, now, kill, wait = tmp_path / "began", [0.0], os.kill, fuzz.time.sleep

    def case(_, number, *__):
        if number == 2:
            began.touch()
            wait(60)

    def clock():
        now[0] += 1000.0 * began.exists()
        return now[0]

    monkeypatch.setattr(fuzz, "run_case", case)
    monkeypatch.setattr(fuzz.time, "monotonic", clock)
    monkeypatch.setattr(fuzz.os, "kill", lambda *given: (began.unlink(), kill(*given)))
    found = fuzz.fuzz(seed=0, first=1, cases=3)
    assert [(one["case"], one["finding"]) for one in found] == [
        (2, "does not end, and cannot be interrupted")
    ]
