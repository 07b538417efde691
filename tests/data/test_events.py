"""Tables, files and streams of events: the same people whichever way they come in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest

from discreet.data import read_events
from discreet.objectives import (
    ConcaveOverModular,
    Coverage,
    FacilityLocation,
    ProbabilisticCoverage,
    SaturatedCoverage,
)
from tests.refusals import refused

COLUMNS = {
    "who": ["ann", "bob", "ann", "cy", "ann"],
    "what": ["tea", "milk", "milk", "tea", "tea"],
    "much": [0.5, 0.25, 1.0, 0.75, 0.5],
}


def test_of_repeated_events_the_largest_counts_in_every_family() -> None:
    twice = {"p": [1, 1, 1], "i": [7, 7, 7], "w": [0.25, 0.5, 0.5]}
    columns = {"person": "p", "item": "i", "weight": "w"}
    assert FacilityLocation.from_events(twice, **columns).value([0]) == 0.5
    assert ProbabilisticCoverage.from_events(twice, **columns).value([0]) == 0.5
    assert ConcaveOverModular.from_events(twice, **columns, concave="capped", cap=9).value([0]) == 0.5
    assert SaturatedCoverage.from_events(twice, **columns, saturation=1.0).value([0]) == 0.5
    assert Coverage.from_events(twice, **columns).value([0]) == 1.0
    assert Coverage.from_events({"p": [1, 2], "i": [7, 7], "w": [0, 1]}, **columns).value([0]) == 0.5


def test_a_public_catalogue_fixes_the_items_and_a_list_of_people_counts_everybody() -> None:
    people = Coverage.from_events(
        COLUMNS, person="who", item="what", items=["juice", "tea", "milk"], people=["dee", "cy", "bob", "ann"]
    )
    assert people.labels == ("juice", "tea", "milk")
    assert len(people) == 4
    assert people[0].value([0, 1, 2]) == 0.0
    assert people.value([1]) == 0.5
    assert people[1].indices.tolist() == [1]
    dropped = Coverage.from_events(COLUMNS, person="who", item="what", items=["tea"], unknown_items="drop")
    assert len(dropped) == 3  # bob's only item is gone; bob is not
    assert dropped.n_items == 1


def test_numbers_stay_numbers(tmp_path: Path) -> None:
    path = tmp_path / "numbers.csv"
    path.write_text("p,i\n10,2\n9,10\n10,1\n\n")
    people = Coverage.from_events(path, person="p", item="i")
    assert people.labels == (1, 2, 10)
    assert [type(label) for label in people.labels] == [int] * 3
    assert people[0].indices.tolist() == [0, 1]
    path.write_text("p,i\n1,007\n2,7\n")
    assert Coverage.from_events(path, person="p", item="i").labels == ("007", 7)
    mixed = {"p": [1, 2], "i": np.array(["b", 3], dtype=object)}
    assert Coverage.from_events(mixed, person="p", item="i").labels == (3, "b")


@pytest.mark.parametrize("catalogue", [[0, 1, 2], ["0", "1", "2"], [0, "1", 2.0]])
def test_one_entry_does_not_take_everybody_out_of_the_catalogue(catalogue: list[Any], tmp_path: Path) -> None:
    """Ann's item that is no number makes the whole column text; the others' numbers are still listed."""
    path = tmp_path / "events.csv"
    options: dict[str, Any] = {"person": "p", "item": "i", "items": catalogue, "unknown_items": "drop"}
    totals = []
    for ann in ("", "x,ann\n"):
        path.write_text("i,p\n" + ann + "".join(f"{person % 3},{person}\n" for person in range(9)))
        for table in (path, pandas.read_csv(path)):
            people = Coverage.from_events(table, **options)
            assert people.labels == tuple(catalogue)
            totals.append((people.gains([]) * len(people)).round(9).tolist())
            listed = Coverage.from_events(table, **options, people=["ann", *range(8), "8"])
            totals.append((listed.gains([]) * len(listed)).round(9).tolist())
    assert totals == [[3.0, 3.0, 3.0]] * 8
    path.write_text("i,p\nx,ann\n0,bob\n")
    with pytest.raises(ValueError, match="items= does not list the item of every event"):
        Coverage.from_events(path, person="p", item="i", items=catalogue)
    with pytest.raises(ValueError, match="items lists 7 and '7', which files do not tell apart"):
        Coverage.from_events(path, person="p", item="i", items=[7, "7"])


@pytest.mark.parametrize(
    ("change", "arguments", "words"),
    [
        ({}, {"item": "thing"}, r"item='thing' is not a column of the table"),
        (
            {"who": ["a", None, "b", "c", "d"]},
            {},
            "column 'who' is missing, or is neither text nor a number; every event needs its person",
        ),
        ({"what": [1.0, 2.0, np.nan, 1.0, 1.0]}, {}, "an entry of column 'what' is missing"),
        ({"much": [1, 2, 3, -4, 5]}, {"weight": "much"}, "column 'much' has a weight that is not allowed"),
        ({"much": [1, np.nan, 3, 4, 5]}, {"weight": "much"}, "weights must be finite and at least 0"),
        ({"much": [1, 2]}, {"weight": "much"}, "differ in length"),
        ({}, {"items": ["tea"]}, "items= does not list the item of every event.*unknown_items"),
        ({}, {"people": ["ann", "bob"]}, "people= does not list the person of every event"),
        ({}, {"items": ["tea", "milk", "tea"]}, "items lists 'tea' twice"),
        ({}, {"unknown_items": "ignore"}, "unknown_items='ignore' is not one of"),
        ({"who": [], "what": [], "much": []}, {}, "ground set is empty"),
        ({"who": [], "what": [], "much": []}, {"items": ["tea"]}, "no people"),
    ],
)
def test_bad_tables_are_blamed(change: dict, arguments: dict, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Coverage.from_events({**COLUMNS, **change}, **{"person": "who", "item": "what", **arguments})


def test_words_are_no_weights() -> None:
    for word in ("much", 10**400, [1.0], None, 1j):
        with refused("column 'w' has a weight that is not allowed", "^row 0: "):
            Coverage.from_events({"p": [1], "i": [1], "w": [word]}, person="p", item="i", weight="w")
    with refused(r"column 'w' has a weight that is not allowed; weights must lie in \[0, 1\]", "^row 0: 3$"):
        ProbabilisticCoverage.from_events(
            {"p": [1, 1], "i": [1, 1], "w": [3, 0.5]}, person="p", item="i", weight="w"
        )


def test_what_was_read_names_its_people() -> None:
    found = read_events(COLUMNS, person="who", item="what")
    assert found.people == ("ann", "bob", "cy")
    assert found.items == ("milk", "tea")


def test_missing_values_of_pandas_are_missing() -> None:
    frame = pandas.DataFrame({"p": pandas.array([1, None], dtype="Int64"), "i": [1, 2]})
    with refused("an entry of column 'p' is missing", "^row 1$"):
        Coverage.from_events(frame, person="p", item="i")
