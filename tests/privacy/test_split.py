"""People in disjoint parts by a keyed hash: one person's data reaches one part; parts compose in parallel."""

from __future__ import annotations

import hashlib
import itertools
import math
import uuid
from collections import Counter

import numpy as np
import pytest

import discreet as dc
from discreet.privacy import Gate, MemoryLedger, PeopleSplit, PureRelease
from discreet.privacy.account import Releases
from discreet.privacy.population import RunGate

KEY = bytes(range(32))
BUDGET = dc.Budget(1.0)


def test_everybody_has_one_part_by_identity_and_key_alone():
    split = PeopleSplit(3, KEY)
    people = ["ann", "bob", 7, 7.0, "7", (1, "x"), uuid.UUID(int=5), b"ann", "1", 1]
    parts = split.parts_of(people)
    assert parts.tolist() == [split.part_of(person) for person in people]
    assert set(parts) <= {0, 1, 2}
    assert len(set(parts[2:5])) == 1
    assert parts[8] == parts[9]
    assert parts[0] == parts[7]
    assert PeopleSplit(3, KEY).parts_of(people).tolist() == parts.tolist()
    assert (PeopleSplit(50, KEY).parts_of(range(50)) != PeopleSplit(50, KEY[::-1]).parts_of(range(50))).any()
    assert "key=..." in repr(split)


def test_parts_are_of_about_one_size():
    counts = Counter(PeopleSplit(4, KEY).parts_of(range(4000)).tolist())
    statistic = sum((counts[part] - 1000) ** 2 / 1000 for part in range(4))
    assert statistic < 30.7  # chi-squared with 3 degrees of freedom: one in a million


def test_bad_arguments():
    with pytest.raises(ValueError, match="parts=0"):
        PeopleSplit(0, KEY)
    for key in (b"short", "text" * 8, bytes(65)):
        with pytest.raises(ValueError, match="key must be 16 to 64 bytes"):
            PeopleSplit(2, key)
    split = PeopleSplit(2, KEY)
    with pytest.raises(ValueError, match="part=2"):
        split.gate(Gate(BUDGET), 2)
    with pytest.raises(TypeError, match="gate must be a Gate"):
        split.gate(BUDGET, 0)
    with pytest.raises(ValueError, match="names no one"):
        split.part_of(math.nan)
    with pytest.raises(AttributeError):
        split.parts = 5


# --- composition ---------------------------------------------------------------------------------------


def _largest_ratio(part_of, epsilon=1.0):
    """The worst likelihood ratio over all neighbours, when each part answers with epsilon-DP noise."""
    names = ("ann", "bob", "cleo")
    keep = math.exp(epsilon) / (1.0 + math.exp(epsilon))

    def released(values):
        parts = [[], []]
        for name, value in zip(names, values, strict=True):
            parts[part_of(name, value)].append(value)
        # A part tells whether an odd number of its people did something, with noise: one bit, that one person
        # can turn over.
        truth = [sum(value > 0 for value in part) % 2 for part in parts]
        return [
            math.prod(keep if bit == true else 1.0 - keep for bit, true in zip(said, truth, strict=True))
            for said in itertools.product((0, 1), repeat=2)
        ]

    worst = 0.0
    for values in itertools.product(range(3), repeat=3):
        for who, value in itertools.product(range(3), range(3)):
            other = [*values[:who], value, *values[who + 1 :]]
            pairs = zip(released(values), released(other), strict=True)
            worst = max(worst, *(one / two for one, two in pairs))
    return worst


def test_parts_compose_in_parallel():
    split = PeopleSplit(2, KEY)
    assert len(set(split.parts_of(["ann", "bob", "cleo"]))) == 2
    gate = Gate(BUDGET)
    for part in range(2):
        split.gate(gate, part).reserve(PureRelease(1.0))
    assert gate.spent.epsilon() == 1.0
    assert _largest_ratio(lambda name, _: split.part_of(name)) == pytest.approx(math.exp(1.0), rel=1e-12)


def test_a_split_by_what_people_did_is_noticed():
    """An injected fault: the part follows from the data, so that somebody's change reaches two parts."""
    assert _largest_ratio(lambda _, value: value % 2) == pytest.approx(math.exp(2.0), rel=1e-12)


def test_two_ways_to_divide_the_same_people_are_refused():
    """Parts of different splits overlap; taking the worst of them would say too little."""
    gate, split = Gate(BUDGET), PeopleSplit(2, KEY)
    split.gate(gate, 0).reserve(PureRelease(0.5), label="own")
    others = [
        PeopleSplit(2, KEY[::-1]).gate(gate, 0),
        PeopleSplit(3, KEY).gate(gate, 0),
        gate.part("north"),
    ]
    assert {other.remaining.epsilon for other in others} == {1.0}  # looking at them does no harm
    for other in others:
        with pytest.raises(ValueError, match="divides the same people differently"):
            other.reserve(PureRelease(0.5))
    split.gate(gate, 1).reserve(PureRelease(0.5), label="own")
    split.gate(gate, 1).part("north").reserve(PureRelease(0.5), label="own")  # within a part anything goes
    assert gate.spent.epsilon() == 1.0
    named = Gate(BUDGET)
    named.part("north").reserve(PureRelease(0.5))
    with pytest.raises(ValueError, match="divides the same people differently"):
        split.gate(named, 0).reserve(PureRelease(0.5))


@pytest.mark.parametrize("kind", ["file", "memory"])
def test_what_others_wrote_counts_as_well(kind, tmp_path):
    ledger = dc.privacy.SQLiteLedger(tmp_path / "l") if kind == "file" else dc.privacy.MemoryLedger()
    mine, yours = Gate(BUDGET, ledger=ledger), Gate(BUDGET, ledger=ledger)
    PeopleSplit(2, KEY).gate(mine, 0).reserve(PureRelease(0.5))
    with pytest.raises(ValueError, match="divides the same people differently"):
        PeopleSplit(2, KEY[::-1]).gate(yours, 1).reserve(PureRelease(0.5))
    assert yours.spent.epsilon() == 0.5


def test_another_division_that_is_charged_in_between_is_refused(monkeypatch):
    """The other gate charges after this one has looked for other divisions, and before it writes."""
    ledger = MemoryLedger()
    mine, yours = (Gate(dc.Budget(1.0), ledger=ledger) for _ in range(2))
    one, other = PeopleSplit(2, bytes(16)), PeopleSplit(2, bytes(17))
    check, meanwhile = Releases.check_families, [other.gate(yours, 1)]

    def slow(self, group):
        check(self, group)
        if meanwhile:
            meanwhile.pop().reserve(PureRelease(1.0))

    monkeypatch.setattr(Releases, "check_families", slow)
    with pytest.raises(ValueError, match="divides the same people differently"):
        one.gate(mine, 0).reserve(PureRelease(1.0))
    assert len(list(ledger.entries())) == 1


@pytest.mark.parametrize("view", ["part", "owned", "run"])
def test_a_run_is_not_saved_through_a_view_of_it_either(view):
    run = RunGate(dc.Budget(1.0), Gate(dc.Budget(1.0)), "a run")
    views = {"part": PeopleSplit(2, bytes(16)).gate(run, 0), "owned": run.owned(), "run": run}
    with pytest.raises(ValueError, match="a run is not saved"):
        views[view].state()


def test_parts_do_not_depend_on_which_letters_a_python_knows(monkeypatch):
    """`repr` shows a letter, or its number where this Python's Unicode tables do not have it."""
    hashed, real = [], hashlib.blake2b

    def recording(data, **options):
        hashed.append(data)
        return real(data, **options)

    monkeypatch.setattr("discreet.privacy.population.hashlib.blake2b", recording)
    split = PeopleSplit(2, bytes(16))
    split.part_of("\U00031350")
    split.part_of(("\u00e9", 1))
    assert len(hashed) >= 2
    assert all(name.isascii() for name in hashed)


@pytest.mark.parametrize("cell", [np.float32(16777217), np.float16(2049), np.datetime64(7, "ns")])
def test_numbers_that_skip_integers_and_times_name_nobody(cell):
    with pytest.raises((ValueError, TypeError)):
        PeopleSplit(2, bytes(16)).part_of(cell)
