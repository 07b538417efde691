"""Who and what an event names: nobody is merged, renamed or credited with somebody else's events."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

from discreet.core.names import name_of
from discreet.data import prepare, read_events
from discreet.objectives import Coverage
from tests.refusals import refused


def test_missing_people_in_a_dictionary_column_are_refused(tmp_path: Path) -> None:
    import pandas as pd
    import pyarrow as pa

    frame = pd.DataFrame({"p": pd.Categorical(["ann", None, "bob", None]), "i": list("abcd")})
    frame.to_parquet(tmp_path / "events.parquet")
    for table in (frame, tmp_path / "events.parquet", pa.Table.from_pandas(frame)):
        with refused("an entry of column 'p' is missing", "^row 1$"):
            read_events(table, person="p", item="i")
    full = pa.Table.from_pandas(frame.assign(p=pd.Categorical(["ann", "bob", "bob", "ann"])))
    found = read_events(full, person="p", item="i")
    assert found.people == ("ann", "bob")
    np.testing.assert_array_equal(found.matrix.toarray(), [[1, 0, 0, 1], [0, 1, 1, 0]])


@pytest.mark.parametrize("cell", ["tea\0", b"tea\0", "\0", "7\0"])
def test_an_item_with_a_nul_at_its_end_is_refused(cell: object) -> None:
    with refused("an entry of column 'i' is missing", "^row 1$"):
        read_events({"p": [1, 2], "i": ["tea", cell]}, person="p", item="i")
    with refused("items lists .* which names nothing", "tea|0|7"):
        read_events({"p": [1], "i": ["tea"]}, person="p", item="i", items=["tea", cell])
    inside = read_events({"p": [1, 2], "i": np.array(["a\0b", "a\0b\0"])}, person="p", item="i")
    assert inside.items == ("a\0b",)


def test_masked_entries_are_missing() -> None:
    masked = np.ma.MaskedArray([4, 5, 6], mask=[False, True, False])
    with refused("an entry of column 'p' is missing", "^row 1$"):
        read_events({"p": masked, "i": [0, 1, 2]}, person="p", item="i")
    with refused("column 'w' has a weight that is not allowed", "^row 1: None$"):
        read_events({"p": [1, 2, 3], "i": [0, 1, 2], "w": masked}, person="p", item="i", weight="w")


def test_times_are_labels_and_not_counts_of_nanoseconds() -> None:
    import pyarrow as pa

    days = np.array(["2024-01-02", "2024-01-01"], dtype="M8[ns]")
    expected = ("2024-01-01 00:00:00", "2024-01-02 00:00:00")
    listed = (dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 2))
    for column in (days, list(days), pa.array(days), days.astype("M8[us]")):
        assert read_events({"p": [1, 2], "i": column}, person="p", item="i").items == expected
        found = read_events({"p": [1, 2], "i": column}, person="p", item="i", items=listed)
        np.testing.assert_array_equal(found.matrix.toarray(), [[0, 1], [1, 0]])
    # One time that is finer than Python's own is a label by itself, and changes no other.
    days[0] += np.timedelta64(1, "ns")
    for column in (days, list(days), pa.array(days)):
        found = read_events({"p": [1, 2], "i": column}, person="p", item="i")
        assert found.items == (expected[0], "2024-01-02T00:00:00.000000001")
    for column in (days, days - days, np.array([1j, 2j])):
        with pytest.raises(TypeError, match="weight='w' must be a column of numbers"):
            read_events({"p": [1, 2], "i": [1, 2], "w": column}, person="p", item="i", weight="w")


@pytest.mark.parametrize(
    "cell", [["x"], {"x"}, 1j, frozenset([1]), object(), "a\ud800", float("inf"), 2.0**60]
)
def test_what_is_neither_text_nor_a_number_is_a_bad_cell_of_its_row(cell: object) -> None:
    for column in ("p", "i"):
        table = {"p": ["ann", "bob"], "i": ["tea", "milk"]}
        table[column] = ["fine", cell]
        words = "not UTF-8 text" if cell == "a\ud800" else "missing, or is neither text"
        with refused(f"an entry of column '{column}' is {words}", "^row 1$"):
            read_events(table, person="p", item="i")


def test_text_that_is_no_utf8_is_a_bad_cell_in_arrow_as_well(tmp_path: Path) -> None:
    """Parquet files may hold such text, and Arrow's own errors repeat it."""
    import pyarrow as pa
    import pyarrow.parquet as parquet

    for name in ("p", "i", "w"):
        cells = {"p": [b"ann", b"bob"], "i": [b"tea", b"tea"], "w": [b"0.5", b"0.5"]}
        cells[name][1] = b"\xe9secret"
        raw = {key: pa.array(column, pa.binary()) for key, column in cells.items()}
        table = pa.table({key: pa.Array.from_buffers(pa.string(), 2, a.buffers()) for key, a in raw.items()})
        parquet.write_table(table, tmp_path / "events.parquet")
        coded = pa.table(
            [column.combine_chunks().dictionary_encode() for column in table], names=["p", "i", "w"]
        )
        words = "a weight that is not allowed" if name == "w" else "is not UTF-8 text"
        for source in (table, coded, tmp_path / "events.parquet"):
            with refused(f"column '{name}'.* {words}", "^row 1"):
                Coverage.from_events(source, person="p", item="i", weight="w", items=["tea"])
            with refused(f"column '{name}'.* {words}", "^row 1"):
                prepare(source, person="p", item="i", weight="w", items=["tea"], to=tmp_path / "store")


@pytest.mark.parametrize("kind", [list, tuple])
@pytest.mark.parametrize(
    "people",
    [
        ["1", "x", "X"],
        [2**53 + 1, 2**53, 7.0],
        [2**63 + 1, 2**63 + 2, -1],
        ["a\0b", "a", "b"],
        [np.int64(3), "3a", Decimal(10**30)],
        ["1.5", "1,5", "0x1"],
    ],
)
def test_people_of_other_names_stay_apart(kind: type, people: list) -> None:
    found = read_events({"p": kind(people), "i": [0, 1, 2]}, person="p", item="i")
    assert found.people == tuple(map(name_of, people))
    assert not any(isinstance(p, np.generic) for p in found.people)
    np.testing.assert_array_equal(found.matrix.toarray(), np.eye(3))


@pytest.mark.parametrize("gap", [float("nan"), None, np.float32("nan"), np.datetime64("NaT")])
def test_a_gap_in_a_mixed_list_is_missing_and_not_a_name(gap: object) -> None:
    with refused("an entry of column 'p' is missing", "^row 1$"):
        read_events({"p": ["ann", gap, gap], "i": [0, 1, 2]}, person="p", item="i")
