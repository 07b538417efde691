"""One reader: the same events give the same people and the same choice in Python, in files, on the command
line and in simulations."""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import json
import os
import sqlite3
import sys
import tempfile
import threading
import traceback
from collections import UserList, deque
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas
import polars
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

import discreet as dc
from discreet.cli import main
from discreet.core.names import name_of
from discreet.data import private_catalogue, read_events
from discreet.data.events import as_text, gathered
from discreet.data.read import Source, batches, columns_of, row_count, watched
from discreet.evaluation.simulation import Config
from discreet.objectives import Coverage, ProbabilisticCoverage

WHERE = {"person": "who", "item": "what"}
WEIGHED = WHERE | {"weight": "much"}
FLAGS = ["--person", "who", "--item", "what", "--items-from-data", "--epsilon", "1"]

Rows = list[tuple[Any, Any, float]]

# Text that means something else to a spreadsheet is a name here: 007, 1e5, a quote. A break of lines ends
# a row of CSV, whatever stands around it.
TEXT = some.text(
    some.characters(exclude_categories=["Cs"], exclude_characters="\r\n"), min_size=1, max_size=4
) | some.sampled_from(["7", "07", "10", "9", "1e5", "-0", "2.50", 'a"b', "a,b", "²", "True", "None", " x"])
# A NUL at the end is no part of a name, and no item ends in one.
NAMES = TEXT.filter(lambda text: text.strip("\0 ") == text.strip() != "" and text not in ("nan", "NaN"))
WHOLE = some.integers(-(2**62), 2**62) | some.integers(0, 12)
FRACTIONS = some.floats(-1e9, 1e9).map(lambda number: number + 0.0)  # no -0.0, which is two names in a file


def events(labels: some.SearchStrategy[Any], items: some.SearchStrategy[Any]) -> some.SearchStrategy[Rows]:
    people, things = some.lists(labels, min_size=1, max_size=5), some.lists(items, min_size=1, max_size=5)
    return some.tuples(people, things).flatmap(
        lambda pools: some.lists(
            some.tuples(
                some.sampled_from(pools[0]), some.sampled_from(pools[1]), some.floats(0.0, 1.0, width=32)
            ),
            min_size=1,
            max_size=12,
        )
    )


ANY = events(NAMES, NAMES) | events(WHOLE, WHOLE) | events(NAMES, WHOLE) | events(WHOLE, FRACTIONS)


def columns(rows: Rows) -> dict[str, list[Any]]:
    return dict(zip(("who", "what", "much"), map(list, zip(*rows, strict=True)), strict=True))


def as_csv(rows: Rows, folder: Path) -> Path:
    with open(folder / "events.csv", "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("who", "what", "much"), *rows])
    return folder / "events.csv"


def as_pandas(rows: Rows, _: Path) -> Any:
    return pytest.importorskip("pandas").DataFrame(columns(rows))


def as_polars(rows: Rows, _: Path) -> Any:
    return pytest.importorskip("polars").DataFrame(columns(rows))


def as_arrow(rows: Rows, _: Path) -> Any:
    return pytest.importorskip("pyarrow").table(columns(rows))


def as_parquet(rows: Rows, folder: Path) -> Path:
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(as_arrow(rows, folder), folder / "events.parquet")
    return folder / "events.parquet"


TABLES: dict[str, Callable[[Rows, Path], Any]] = {
    "dict": lambda rows, _: columns(rows),
    "pandas": as_pandas,
    "polars": as_polars,
    "Arrow": as_arrow,
    "Parquet": as_parquet,
    "mappings": lambda rows, _: (dict(zip(("who", "what", "much"), row, strict=True)) for row in rows),
}


def held(people: Any) -> tuple[Any, ...]:
    return people.indptr.tolist(), people.indices.tolist(), people.data.tolist(), people.catalogue


def selected(path: Path, *more: str) -> list[str]:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(["select", str(path), *FLAGS, "--json", *more])
    assert code == 0, err.getvalue()
    return json.loads(out.getvalue())["items"]


@pytest.mark.filterwarnings("ignore:epsilon=1 is too small")
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(rows=ANY, weighed=some.booleans(), seed=some.integers(0, 9))
def test_the_same_events_are_the_same_people_everywhere(rows: Rows, weighed: bool, seed: int) -> None:
    family, where = (ProbabilisticCoverage, WEIGHED) if weighed else (Coverage, WHERE)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = as_csv(rows, folder)
        expected = family.from_events(path, **where)
        for kind, made in TABLES.items():
            assert held(family.from_events(made(rows, folder), **where)) == held(expected), kind
        stream = {"events": path.name, "order": "given", "objective": family.__name__} | where
        config = Config.of(
            {"streams": [stream], "learners": [{"learner": "random"}], "k": 1, "repeats": 1}, folder
        )
        assert held(config.streams[0].people(seed)) == held(expected)
        for made in (columns(rows), path, as_parquet(rows, folder)):
            best = dc.offline.PrivateGreedy(1, dc.Gate(dc.Budget(1.0), seed))
            chosen = best.select(family.from_events(made, **where)).labels
            if isinstance(made, Path):
                flags = ["--k", "1", "--seed", str(seed), *(["--weight", "much"] if weighed else [])]
                assert selected(made, *flags) == list(map(as_text, chosen))


def test_what_is_missing_is_missing_in_every_table(tmp_path: Path) -> None:
    for nothing in ("", " ", "nan", "NaN", None):
        rows: Rows = [("ann", "tea", 1.0), ("bob", nothing, 1.0)]
        path = as_csv(rows, tmp_path)
        for events in (path, *(made(rows, tmp_path) for made in TABLES.values())):
            with pytest.raises(dc.DataError, match="an entry of column 'what' is missing"):
                Coverage.from_events(events, **WHERE)


@pytest.mark.parametrize("kind", ["text", "whole"])
def test_a_private_list_of_items_is_the_same_in_python_and_on_the_command_line(
    kind: str, tmp_path: Path
) -> None:
    coins = np.random.default_rng(3)
    rows: Rows = [
        (person, int(item) if kind == "whole" else f"p{item}", 1.0)
        for person in range(400)
        for item in (12 * coins.random(3) ** 2).astype(int)
    ]
    path = as_csv(rows, tmp_path)
    for seed in range(5):
        gate = dc.Gate(dc.Budget(4.0, 1e-6), seed)
        listed = private_catalogue(columns(rows), gate, **WHERE, share=0.5)
        people = Coverage.from_events(path, **WHERE, items=listed)
        best = dc.offline.PrivateGreedy(2, gate).select(people)
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            asked = ["--person", "who", "--item", "what", "--epsilon", "4", "--delta", "1e-6", "--json"]
            code = main(
                ["select", str(path), *asked, "--items-private", "0.5", "--k", "2", "--seed", str(seed)]
            )
        found = json.loads(out.getvalue())
        assert code == 0
        assert found["catalogue"] == list(map(as_text, listed))
        assert found["items"] == list(map(as_text, best.labels or ()))
        assert found["account"] == json.loads(json.dumps(best.privacy.to_json()))


def test_rows_come_as_they_are_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream of mappings is not held as a whole."""
    monkeypatch.setattr("discreet.data.read.ROWS", 10)
    made = 0

    def stream() -> Any:
        nonlocal made
        for made in range(1, 101):
            yield {"who": made % 7, "what": made % 3}
            if made == 50:
                yield {"who": 1}

    with pytest.raises(dc.DataError, match="an entry of column 'what' is missing") as refused:
        Coverage.from_events(stream(), **WHERE)
    assert refused.value.details == "row 50"
    assert made < 60
    with pytest.raises(dc.DataError, match="an entry of column 'who' is missing"):
        Coverage.from_events([{"who": 1, "what": 2}, (1, 2)], **WHERE)
    with pytest.raises(TypeError, match="events must be a data frame"):
        Coverage.from_events([], **WHERE)


@pytest.mark.parametrize("listed", [False, True])
def test_long_columns_of_people_are_each_by_their_name(listed):
    """Compiled loops find the different people; who is found follows from one cell alone."""
    rng = np.random.default_rng(0)
    who = rng.integers(-5000, 5000, 200_000)
    text = pa.array([f"user-{number}" for number in who.tolist()])
    few = pa.array(["user-1", None, " ", "nan", "", "\u2003", "7", "07", "user-2" * 40, "é"])
    kinds = [
        pa.chunked_array([text.slice(7, 70_000), few, text.slice(90_000), few.slice(1, 1), text[:0]]),
        text.cast(pa.large_string()),
        pa.array(who, pa.int32()),
        pa.chunked_array([pa.array([2**64 - 1, None, 3], pa.uint64()), pa.array([3, 0], pa.uint64())]),
    ]
    for column in kinds:
        table = pa.table({"who": column, "what": pa.array(rng.integers(0, 9, len(column)))})
        names = [name_of(one) for one in column.to_pylist()]
        people = [one for one in dict.fromkeys(names) if one is not None]
        parts, asked = (
            (table.slice(0, 130_000), table.slice(130_000), table.slice(0, 40)),
            columns_of("who", "what"),
        )
        rows = (batch for part in parts for batch in batches(Source(part, skip_bad=True), asked))
        found = gathered(rows, people=people if listed else None)
        assert list(found.people) == people
        assert [type(one) for one in found.people] == [type(one) for one in people]
        pairs = {pair for pair in zip(names, table["what"].to_pylist(), strict=True) if pair[0] is not None}
        who_has, what = found.matrix.nonzero()
        assert {(people[i], found.items[j]) for i, j in zip(who_has, what, strict=True)} == pairs


def test_weights_of_one_item_are_not_added_up_anywhere(tmp_path: Path) -> None:
    rows: Rows = [("ann", "tea", 0.5), ("ann", "tea", 0.5), ("bob", "tea", 0.25)]
    path = as_csv(rows, tmp_path)
    for events in (path, *(made(rows, tmp_path) for made in TABLES.values())):
        assert ProbabilisticCoverage.from_events(events, **WEIGHED).data.tolist() == [0.5, 0.25]


LARGE = [2**60 + 1, 2**60 + 3, 2**60 + 5]
FEW = [f"p{number}" for number in range(128)]


def in_pandas(kind: Any) -> Callable[[list[Any]], Any]:
    return lambda cells: pandas.Series(pandas.array(cells, dtype=kind))


def numbered(cells: list[Any]) -> Any:
    numbers = [None if cell is None else number for number, cell in enumerate(cells)]
    return pa.DictionaryArray.from_arrays(pa.array(numbers, pa.int8()), [str(cell) for cell in cells])


# Columns of some entries of a kind: of integers that floats skip, of as many names as their numbers can
# tell apart, of times of which Python has but some, and of text with remains of bytes.
BESIDE: dict[str, tuple[Callable[[list[Any]], Any], list[Any], Any]] = {
    "Int64": (in_pandas("Int64"), LARGE, None),
    "UInt64": (in_pandas("UInt64"), LARGE, None),
    "Arrow in pandas": (in_pandas(pandas.ArrowDtype(pa.int64())), LARGE, None),
    "category": (in_pandas(pandas.CategoricalDtype(LARGE)), LARGE, None),
    "categories": (lambda cells: pandas.Categorical(cells, categories=LARGE), LARGE, None),
    "dictionary": (numbered, FEW, None),
    "dictionaries": (
        lambda cells: pa.chunked_array([numbered(cells[:64]), numbered(cells[64:])]),
        FEW,
        None,
    ),
    "coded times": (
        lambda cells: pa.array(cells, pa.timestamp("ns")).dictionary_encode(null_encoding="encode"),
        [1577836800000000001, 1614600000123456789, 1640995200500000000],
        None,
    ),
    "dates": (lambda cells: pa.array(cells, pa.int32()).cast(pa.date32()), [1, 2, 3], 10**8),
    "times": (lambda cells: pa.array(cells, pa.int64()).cast(pa.timestamp("s")), [1, 2, 3], 10**15),
    "views": (
        lambda cells: pa.Array.from_buffers(
            pa.string_view(), len(cells), pa.array(cells, pa.binary_view()).buffers()
        ),
        [b"ann", b"bob", b"cy"],
        b"\xff",
    ),
    "NumPy's texts": (
        lambda cells: np.array(cells, dtype=np.dtypes.StringDType(na_object=None)),
        FEW[:3],
        None,
    ),
    "texts": (lambda cells: cells, ["ann", "bob", "cy"], "\ud800"),
}


@pytest.mark.parametrize("kind", BESIDE)
def test_a_bad_entry_changes_how_no_other_is_read(kind: str) -> None:
    made, cells, bad = BESIDE[kind]
    who = [f"u{row}" for row in range(len(cells))]
    whole = read_events({"who": who, "what": made(cells)}, **WHERE)
    some = read_events({"who": who, "what": made([*cells[:-1], bad])}, **WHERE, skip_bad=True)
    assert len(whole.items) == len(cells)
    assert set(whole.items) - set(some.items) == {whole.items[whole.indices[-1]]}
    assert some.people == whole.people


@pytest.mark.parametrize(
    "kind", [pandas.ArrowDtype(pa.dictionary(pa.int32(), pa.float32())), "Sparse[float32]"]
)
def test_a_missing_id_widens_no_others(kind: Any) -> None:
    """Of narrow floats those from 2^24 on, which skip integers, name nobody."""
    for last in (7.0, None):
        cells = [1.0, 2.0**24, 2.0**24 + 2, last]
        if isinstance(kind, str):
            column = pandas.Series(np.array(cells, dtype=np.float32)).astype(kind)
        else:
            column = pandas.Series(pandas.array(cells, dtype=kind))
        for who in (column, column.array):
            found = read_events({"who": who, "what": ["tea"] * 4}, **WHERE, skip_bad=True)
            assert found.people == (1, 7)[: 1 + (last is not None)]


def test_text_with_remains_of_bytes_is_bad_whatever_stands_beside_it() -> None:
    remains = ["Jos\udcc3\udca9", "Ren\udcc3\udca9"]  # of UTF-8 that was read as ASCII
    for beside in ("bob", "\ud800"):
        found = read_events({"who": [*remains, "ann", beside], "what": ["tea"] * 4}, **WHERE, skip_bad=True)
        assert found.people == (("ann", "bob") if beside == "bob" else ("ann",))


def test_lists_in_the_cells_of_a_row_name_nobody_else() -> None:
    """A row of a stream of rows is no table, whatever its cells hold; the first one could be one."""
    rows = [{"who": 1, "what": 2}, {"who": ["ann", "bob"], "what": ["tea", "jam"]}, {"who": 2, "what": 3}]
    for first in (rows[1:], iter([rows[1], rows[1], rows[0]])):
        with pytest.raises(dc.DataError, match="an entry of column 'who' is missing, or is neither"):
            read_events(first, **WHERE, skip_bad=True)
    for bad in (rows, [*rows, {"who": ["ann"], "what": ["tea", "jam"]}], [*rows, {"who": {}, "what": {}}]):
        found = read_events(iter(bad), **WHERE, skip_bad=True)
        assert (found.people, found.items) == ((1, 2), (2, 3))
        with pytest.raises(dc.DataError, match="an entry of column 'who' is missing, or is neither"):
            read_events(iter(bad), **WHERE)
    for first in ({"who": {}, "what": {}}, {"who": ["ann"], "what": {"tea": 1}}, {"who": {1}, "what": {2}}):
        assert read_events(iter([first, rows[0], rows[2]]), **WHERE, skip_bad=True).people == (1, 2)
    chunks = [{"who": ["ann", "bob"], "what": ["tea", "jam"]}, {"who": ["cy"], "what": ["jam"]}]
    assert read_events(iter(chunks), **WHERE).people == ("ann", "bob", "cy")


def test_a_row_that_is_a_path_or_a_list_names_nobody_else(tmp_path: Path) -> None:
    """As of a file of JSON in lines: one line may hold text, or a list."""
    (tmp_path / "others.csv").write_text("who,what\nann,tea\nbob,tea\n")
    rows = [{"who": 1, "what": 2}, {"who": 2, "what": 3}]
    others = [{"who": "ann", "what": "tea"}, {"who": "bob", "what": "tea"}]
    for bad in (str(tmp_path / "others.csv"), others, pandas.DataFrame(others), None):
        for events in ([*rows, bad], [rows[0], bad, rows[1]], [rows, [{"who": ["a"], "what": ["b"]}]]):
            assert read_events(iter(events), **WHERE, skip_bad=True).people == (1, 2)
        with pytest.raises(dc.DataError, match="an entry of column 'who' is missing, or is neither"):
            read_events([*rows, bad], **WHERE)
    assert read_events([rows, others], **WHERE).people == (1, 2, "ann", "bob")


@pytest.mark.parametrize("kind", [list, tuple, deque, UserList])
def test_a_fraction_in_a_column_leaves_long_numbers_as_they_are(kind: Any) -> None:
    """An array of all of them would hold floats, which skip integers of that length."""
    long = [2**53 + 1, 2**53 + 3]
    found = read_events({"who": kind([*long, 7.5]), "what": kind(["tea"] * 3)}, **WHERE, skip_bad=True)
    assert found.people == tuple(long)


def test_what_other_libraries_say_of_a_cell_is_a_detail(tmp_path: Path) -> None:
    cursor = sqlite3.connect(":memory:").cursor()
    cursor.execute("create table visits (who, what)")
    cursor.execute("insert into visits values (cast(x'736563726574ff' as text), 'tea')")
    (tmp_path / "a.csv").write_text("who,what\n" + "7,tea\n" * 200_000 + "secret,tea\n")
    for made in (
        lambda: cursor.execute("select * from visits"),
        lambda: polars.scan_csv(tmp_path / "a.csv"),
        lambda: pa.csv.open_csv(tmp_path / "a.csv"),
    ):
        with pytest.raises(dc.DataError, match="the events cannot be read to their end: ") as refused:
            read_events(made(), **WHERE)
        assert "secret" in refused.value.details
        assert "secret" not in "".join(traceback.format_exception(refused.value))


def test_what_is_said_of_damage_holds_nothing_of_the_rows(tmp_path: Path) -> None:
    """Not a sum of them either, as gzip has it, or the bytes behind its end."""
    whole = gzip.compress(b"who,what\nann,tea\n")
    changed = whole[:-8] + bytes([whole[-8] ^ 1]) + whole[-7:]
    for content, hidden in ((changed, "0x"), (whole + b"bob,jam\n", "b'bo'")):
        (tmp_path / "a.csv.gz").write_bytes(content)
        with pytest.raises(
            dc.DataError, match="is compressed and damaged; was it copied completely"
        ) as refused:
            read_events(tmp_path / "a.csv.gz", **WHERE)
        assert hidden in refused.value.details
        assert hidden not in "".join(traceback.format_exception(refused.value))


# --- part by part -------------------------------------------------------------------------------------


def thirty(tmp_path: Path, names: list[str | None]) -> dict[str, Any]:
    """Thirty rows in every kind of table that is read in parts, and in files."""
    table = pa.table({"who": names, "what": ["tea", "jam"] * 15})
    columns, frame = table.to_pydict(), table.to_pandas()
    uneven = [one.combine_chunks().to_batches()[0] for one in (table.slice(0, 10), table.slice(10))]
    parquet.write_table(table, tmp_path / "a.parquet")
    with pa.OSFile(str(tmp_path / "a.feather"), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        for start in (0, 10, 20):
            writer.write_batch(table.slice(start, 10).combine_chunks().to_batches()[0])
    cursor = sqlite3.connect(":memory:").cursor()
    cursor.execute("create table visits (who, what)")
    cursor.executemany("insert into visits values (?, ?)", zip(*columns.values(), strict=True))
    return {
        "Arrow": table,
        "reader": pa.RecordBatchReader.from_batches(table.schema, uneven),
        "pandas": frame,
        "lists": columns,
        "polars": polars.DataFrame(columns),
        "lazy": polars.DataFrame(columns).lazy(),
        "cursor": cursor.execute("select * from visits"),
        "mappings": table.to_pylist(),
        "chunks": iter([frame[:10], table.slice(10, 12), frame[22:]]),
        "Parquet": tmp_path / "a.parquet",
        "Feather": tmp_path / "a.feather",
    }


KINDS = (
    "Arrow",
    "reader",
    "pandas",
    "lists",
    "polars",
    "lazy",
    "cursor",
    "mappings",
    "chunks",
    "Parquet",
    "Feather",
)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_come_in_parts_and_are_named_by_their_place(kind, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("discreet.data.read.ROWS", 8)
    names: list[str | None] = [f"u{row}" for row in range(30)]
    found = list(batches(Source(thirty(tmp_path, names)[kind]), columns_of("who", "what")))
    assert sum(map(len, found)) == 30
    assert max(map(len, found)) == (1 if kind == "cursor" else 8)
    assert [batch.columns["person"][row] for batch in found for row in range(len(batch))] == names
    if kind in ("Parquet", "Feather"):  # what was read before each, of the rows and of the parts
        parts = [0, 8 / 30, 16 / 30, 24 / 30] if kind == "Parquet" else [0, 0, 1 / 3, 1 / 3, 2 / 3, 2 / 3]
        assert [batch.done for batch in found] == pytest.approx(parts)
    names[21] = None
    with pytest.raises(dc.DataError) as refused:
        read_events(thirty(tmp_path, names)[kind], **WHERE)
    assert "row 21" in refused.value.details


def test_how_far_a_file_is_read_is_a_share_and_said_twice_a_second(tmp_path, monkeypatch, capsys) -> None:
    path = tmp_path / "a.csv"
    path.write_text("who,what\n" + "".join(f"u{row},t\n" for row in range(10, 50)))  # 9 + 40 * 6 bytes
    monkeypatch.setattr("discreet.data.read.BLOCK", 83)  # a third
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    clock = iter([100.0, 100.4, 100.6, 101.2])
    monkeypatch.setattr("discreet.data.read.time", SimpleNamespace(monotonic=lambda: next(clock)))
    parts = [batch.done for batch in watched(batches(Source(path), columns_of("who", "what")))]
    assert parts == pytest.approx([83 / 249, 166 / 249, 1.0])
    assert capsys.readouterr().err == f"\rreading: 67% \rreading: 100% \r{' ' * 20}\r"


def test_rows_are_counted_before_they_are_read(tmp_path) -> None:
    """Exactly in tables, by the first lines in text."""
    found = thirty(tmp_path, ["u"] * 30)
    assert [row_count(Source(found[kind])) for kind in ("pandas", "lists", "Parquet")] == [30, 30, 30]
    assert row_count(Source({"who": ["ann"], "what": ["tea", "jam"]})) == 2
    for rows in (9, 30_000):
        (tmp_path / "a.csv").write_text("who,what\n" + "".join(f"{10**5 + row},tea\n" for row in range(rows)))
        assert rows + 1 <= row_count(Source(tmp_path / "a.csv")) <= 1.001 * rows + 2
    (tmp_path / "a.csv").write_text("")
    assert row_count(Source(tmp_path / "a.csv")) == 0


def test_a_pipe_is_read_once(tmp_path) -> None:
    """What was read to count its rows was lost: the first people, and half of the name of the next one."""
    text = "".join(f"person{row},tea\n" for row in range(9999)).encode()
    read, write = os.pipe()
    thread = threading.Thread(target=lambda: (os.write(write, text), os.close(write)))
    thread.start()
    source = Source(f"/dev/fd/{read}", columns=("who", "what"))
    store = dc.data.prepare(source, **WHERE, to=tmp_path / "store")
    thread.join()
    os.close(read)
    assert len(store) == 9999


def test_names_of_columns_are_listed_up_to_twenty_and_may_be_long(tmp_path) -> None:
    for count, end in ((20, "'c19'"), (21, "'c19', ...")):
        with pytest.raises(dc.DataError, match="is not a column") as refused:
            read_events({f"c{at}": ["x"] for at in range(count)}, person="c1", item="what")
        assert refused.value.details.startswith("it has 'c0', 'c1'")
        assert refused.value.details.partition(";")[0].endswith(end)
    long = "w" * 200_000
    (tmp_path / "a.csv").write_text(f"who,{long}\nann,tea\n")
    assert read_events(tmp_path / "a.csv", person="who", item=long).items == ("tea",)
