"""One person's row changed in every way, and everything that leaves outside the account compared.

    python -m tools.fuzz_rows --cases 20000 --out docs/rows.md
    python -m tools.fuzz_rows --seed 1 --case 4711          # one case again, in full

A case is a reader (a kind of table or file), a command (`from_events`, `private_catalogue`, `prepare`, a run
of ``discreet select`` and so on) and a change of one row of one person, the victim. The same command reads
the table before and after the change, with draws that come out alike: what the account covers is held still.
All else that leaves is compared byte for byte: what is printed, warnings, the type and the words of errors
with all that a traceback would show of their causes, files that are public, labels with their types and their
order, printed objects. So are the rows of all other people, as they were read.

Either nothing differs, or the command refuses the table, in one of the fixed sentences of `REFUSALS`,
whatever stands in the row; where bad rows are left out, only for the reasons of `DAMAGE`. ``docs/privacy.md``
promises exactly that. The faults of `FAULTS` show that the comparison can fail.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import datetime as dt
import gzip
import io
import json
import math
import random
import re
import shutil
import tempfile
import uuid
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as parquet

import discreet as dc
from discreet import spark
from discreet.cli import main
from discreet.data import prepare, private_catalogue
from discreet.data.preparing import Identities
from discreet.data.read import Column, Text
from discreet.objectives import Coverage, FacilityLocation, ProbabilisticCoverage
from discreet.offline import PrivateGreedy
from tests.data.frames import LocalFrame

COLUMNS = ("who", "what", "much", "note")
LISTED = ["9", "10", "tea", "milk", "2.5", "café"]
NUMBERED = ["9", "10", "100", "8", "7", "30"]  # where a hidden word could have them sorted as text
VICTIM = "victim"
KEY = bytes(32)
Row = dict[str, Any]


def table(items: list[str], first: bool) -> list[Row]:
    """A few rows of a few people; the victim has three of them, first of all or in the middle."""
    rows = [
        {"who": f"p{i}", "what": items[(i + j) % len(items)], "much": 0.1 * (1 + (i + j) % 7), "note": "x"}
        for i in range(10)
        for j in range(2)
    ]
    mine = [
        {"who": VICTIM, "what": what, "much": 0.5, "note": "x"} for what in (items[0], items[2], items[1])
    ]
    return [*mine, *rows] if first else [*rows[:9], *mine, *rows[9:]]


# --- changes -------------------------------------------------------------------------------------------

NUMBERS: list[Any] = [
    *(0, 1, -1, 7, 9, 10, 2**31, 2**53, 2**53 + 1, 2**63, 2**64, 10**30, 10**400, True, False),
    *(0.5, 9.0, 1e-320, 1e308, 2.0**60, -0.0, math.inf, -math.inf, math.nan, 0.1 + 0.2),
    *(Decimal("9"), Decimal("0.1"), Decimal("NaN"), Decimal("1e4000"), Fraction(1, 3), 1j),
    *(np.int8(9), np.uint64(2**63), np.float16(0.5), np.float64("nan"), np.bool_(True)),
]
TEXTS: list[Any] = [
    *(
        "",
        " ",
        "secret",
        "Secret",
        "nan",
        "NaN",
        "None",
        "null",
        "007",
        "7.0",
        "09",
        "9.0",
        "1e5",
        "1e400",
        "-0",
    ),
    *(
        "tea,milk",
        "tea milk",
        "TEA",
        " tea",
        "tea ",
        "tea\t",
        'te"a',
        '"tea',
        'tea"',
        '"tea"',
        "'tea'",
        '""',
        '"',
    ),
    *(
        "a\nb",
        "a\rb",
        "\n",
        "\r\n",
        "a\0b",
        "\0",
        "\ufeff",
        "\ufefftea",
        "é",
        "e\u0301",
        "cafe\u0301",
        "\u202e",
        "😀",
    ),
    *(
        "\ud800",
        "a\udce9",
        "x" * 300,
        "y" * 140_000,
        "z" * 1_100_000,
        ";",
        "|",
        "\t",
        "=1+1",
        "\\",
        "\\N",
        "#2",
    ),
    *("0.5", "0,5", "1_0", "١", "９", "inf", "-1", "0x10", "1" * 30, "1" * 5000, "\x1f", "\u3000", "\x85"),
    *("true", "2020-01-01", "12:00", "victim", str(uuid.UUID(int=7))),
]
OBJECTS: list[Any] = [
    *(None, pd.NA, pd.NaT, b"tea", b"\xff", b"", dt.date(2020, 1, 1), dt.datetime(2020, 1, 1, 1), dt.time(1)),
    *(dt.timedelta(1), pd.Timestamp("2020-01-01 00:00:00.000000001"), np.datetime64("2020-01-01", "ns")),
    *(
        uuid.UUID(int=7),
        ("tea", 1),
        [],
        ["tea"],
        {},
        {"tea"},
        frozenset("x"),
        object(),
        np.array([1, 2]),
        print,
    ),
]
LETTERS = "abtea019.,;|\"'\\\t \n\r\0éß\u0301\u202e😀-+eE#=\ufeff\u3000"


@dataclass(frozen=True)
class Change:
    """A change of one of the victim's rows: a cell, or the row itself."""

    column: str  # of a cell; "row": the row is taken away, repeated or added to; "line": text instead of it
    value: Any
    row: int

    def applied(self, rows: list[Row]) -> list[Row]:
        mine = [at for at, row in enumerate(rows) if row["who"] == VICTIM]
        at = mine[self.row % len(mine)]
        if self.column == "row":
            there = {"gone": [], "twice": [rows[at]] * 2, "more": [rows[at], {**rows[at], "what": "tea"}]}
            return [*rows[:at], *there[self.value], *rows[at + 1 :]]
        return [*rows[:at], {**rows[at], self.column: self.value}, *rows[at + 1 :]]

    @property
    def about_people(self) -> bool:
        """Whether it may change who is there, which is public unless presence is private."""
        return self.column in ("who", "line")


def changed(rng: random.Random, files: bool) -> Change:
    """A random change; ``files``: of text, too."""
    column = rng.choice(("what", "what", "much", "who", "note", "row", *(("line",) if files else ())))
    row = rng.randrange(3)
    if column == "row":
        return Change(column, rng.choice(("gone", "twice", "more")), row)
    if column == "line":
        cells = rng.randrange(7)
        text = ",".join(_text(rng) for _ in range(cells)).encode("utf-8", "surrogatepass")
        noise = bytes(rng.randrange(256) for _ in range(rng.randrange(20)))
        return Change(column, rng.choice((text, noise, b"", b" ", b",,,", b"\xff\xfe", text + b"\xe9")), row)
    kind = rng.random()
    if kind < 0.3:
        return Change(column, _text(rng), row)
    if kind < 0.4:
        return Change(
            column, rng.choice((rng.uniform(-2, 2), rng.randrange(-99, 99), rng.getrandbits(80))), row
        )
    return Change(column, rng.choice(rng.choice((NUMBERS, TEXTS, TEXTS, OBJECTS))), row)


def _text(rng: random.Random) -> str:
    return "".join(rng.choice(LETTERS) for _ in range(rng.randrange(1, 8)))


# --- readers -------------------------------------------------------------------------------------------


class NotMade(Exception):
    """A program that writes such tables could not write this one."""


def columns(rows: list[Row]) -> dict[str, list[Any]]:
    return {name: [row.get(name) for row in rows] for name in COLUMNS}


def as_lists(rows: list[Row], _: Path) -> Any:
    return columns(rows)


def as_mappings(rows: list[Row], _: Path) -> Any:
    return [dict(row) for row in rows]


def as_objects(rows: list[Row], _: Path) -> Any:
    return pd.DataFrame({name: pd.Series(column, dtype=object) for name, column in columns(rows).items()})


def as_pandas(rows: list[Row], _: Path) -> Any:
    """With the types that pandas finds: one cell decides on those of a column."""
    return _made(lambda column: pd.Series(column), pd.DataFrame, rows)


def as_categories(rows: list[Row], _: Path) -> Any:
    def made(column: list[Any]) -> Any:
        return pd.Series(column).astype("category")

    kept = _made(lambda column: pd.Series(column), pd.DataFrame, rows)
    return kept.assign(what=_typed(made, [row["what"] for row in rows]))


def as_polars(rows: list[Row], _: Path) -> Any:
    return _made(lambda column: pl.Series(column), pl.DataFrame, rows)


def as_arrow(rows: list[Row], _: Path) -> Any:
    return _made(lambda column: pa.array(column, from_pandas=True), pa.table, rows)


def _made(column: Callable[[list[Any]], Any], frame: Callable[[dict[str, Any]], Any], rows: list[Row]) -> Any:
    return frame({name: _typed(column, values) for name, values in columns(rows).items()})


def _typed(made: Callable[[list[Any]], Any], values: list[Any]) -> Any:
    """A column of one type, or else of text, as programs do with what does not fit together."""
    with contextlib.suppress(Exception, pl.exceptions.PanicException):
        return made(values)
    with _writing():
        return made([None if value is None else str(value) for value in values])


def as_parquet(rows: list[Row], folder: Path) -> Any:
    path = folder / "events.parquet"
    with _writing():
        parquet.write_table(as_arrow(rows, folder), path)
    return path


def as_feather(rows: list[Row], folder: Path) -> Any:
    path = folder / "events.feather"
    with _writing():
        feather.write_feather(as_arrow(rows, folder), str(path))
    return path


def as_raw_parquet(rows: list[Row], folder: Path) -> Any:
    """By a program that looks at no letter: text may be no UTF-8."""

    def raw(column: Any) -> Any:
        if column.type != pa.large_binary():
            return column
        return pa.Array.from_buffers(pa.large_string(), len(column), column.buffers())

    def encoded(values: list[Any]) -> list[Any]:
        if not all(value is None or isinstance(value, str) for value in values):
            return values
        return [value and value.encode("utf-8", "surrogateescape") for value in values]

    path = folder / "events.parquet"
    with _writing():
        made = {}
        for name, values in columns(rows).items():
            cells = encoded(values)
            text = any(isinstance(cell, bytes) for cell in cells) and cells is not values
            made[name] = raw(pa.array(cells, pa.large_binary())) if text else _typed(pa.array, values)
        parquet.write_table(pa.table(made), path)
    return path


@contextlib.contextmanager
def _writing() -> Iterator[None]:
    try:
        yield
    except (Exception, pl.exceptions.PanicException) as error:
        raise NotMade from error


def as_csv(rows: list[Row], folder: Path) -> Any:
    """As Python's own module writes it, in UTF-8."""
    out = io.StringIO(newline="")
    writer = csv.writer(out)
    lines: list[bytes] = []
    for row in [dict(zip(COLUMNS, COLUMNS, strict=True)), *rows]:
        if "line" in row:
            lines.append(row["line"] + b"\r\n")
            continue
        try:
            writer.writerow(["" if row[name] is None else row[name] for name in COLUMNS])
        except Exception as error:
            raise NotMade from error
        lines.append(out.getvalue().encode("utf-8", "surrogatepass"))
        out.seek(0)
        out.truncate()
    path = folder / "events.csv"
    path.write_bytes(b"".join(lines))
    return path


def as_naive_csv(rows: list[Row], folder: Path) -> Any:
    """As a program writes it that knows nothing of quotes."""
    path = folder / "events.csv"
    lines = [b",".join(name.encode() for name in COLUMNS)]
    for row in rows:
        try:
            cells = ["" if row.get(name) is None else f"{row.get(name)}" for name in COLUMNS]
        except Exception as error:
            raise NotMade from error
        lines.append(row.get("line", ",".join(cells).encode("utf-8", "surrogatepass")))
    path.write_bytes(b"\n".join(lines) + b"\n")
    return path


def as_gzip(rows: list[Row], folder: Path) -> Any:
    path = folder / "events.csv.gz"
    path.write_bytes(gzip.compress(as_csv(rows, folder).read_bytes(), 1, mtime=0))
    (folder / "events.csv").unlink()
    return path


def as_files(rows: list[Row], folder: Path) -> Any:
    """Several files of several kinds; the victim's rows in the one with text."""
    parts = {"1": rows[:-OTHERS], "2": rows[-OTHERS:]}
    made = []
    for name, part in parts.items():
        (folder / name).mkdir(exist_ok=True)
        made.append((as_csv if name == "1" else as_parquet)(part, folder / name))
    return made


OTHERS = 11  # rows of others behind the victim's
IN_MEMORY: dict[str, Callable[[list[Row], Path], Any]] = {
    "lists": as_lists,
    "mappings": as_mappings,
    "pandas, objects": as_objects,
    "pandas, typed": as_pandas,
    "pandas, categories": as_categories,
    "polars": as_polars,
    "Arrow": as_arrow,
}
FILES: dict[str, Callable[[list[Row], Path], Any]] = {
    "CSV": as_csv,
    "CSV without quoting": as_naive_csv,
    "CSV, gzipped": as_gzip,
    "Parquet": as_parquet,
    "Parquet, raw": as_raw_parquet,
    "Feather": as_feather,
    "several files": as_files,
}
READERS = IN_MEMORY | FILES
TEXT = ("CSV", "CSV without quoting", "CSV, gzipped", "several files")


# --- commands ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Asked:
    """What a command is given."""

    source: Any
    folder: Path
    presence: bool  # whether who is there is private

    @property
    def budget(self) -> dc.Budget:
        return dc.Budget(4.0, 1e-6, "add_remove" if self.presence else "replace")

    @property
    def flags(self) -> list[str]:
        flags = ["--epsilon", "4", "--delta", "1e-6"]
        return [*flags, "--neighbours", "add_remove", "--max-people", "100"] if self.presence else flags


WHERE: dict[str, Any] = {"person": "who", "item": "what"}
WEIGHED = WHERE | {"weight": "much"}


def chosen(people: Any, asked: Asked) -> list[Any]:
    """Everything that a population and a choice from it show."""
    greedy = PrivateGreedy(2, asked.budget, max_people=100 if asked.presence else None)
    best = greedy.select(people)
    labels = [(type(one).__name__, one) for one in people.labels]
    said = [repr(people), people.n_items, people.catalogue, labels, people.bound, people.items_per_person]
    account = best.privacy
    return [*said, repr(best), best._repr_html_(), best.labels, str(account), account.to_json(), repr(greedy)]


def of_events(asked: Asked) -> Any:
    return chosen(Coverage.from_events(asked.source, **WHERE, items=LISTED), asked)


def of_listed_events(asked: Asked) -> Any:
    people = ProbabilisticCoverage.from_events(
        asked.source, **WEIGHED, items=LISTED, unknown_items="drop"
    ).cap_items(2, 1)
    return chosen(people, asked)


def of_facilities(asked: Asked) -> Any:
    people = FacilityLocation.from_events(
        asked.source, **WEIGHED, items=LISTED, unknown_items="drop", bound=1
    )
    return chosen(people, asked)


def of_private_list(asked: Asked) -> Any:
    gate = dc.Gate(asked.budget)
    found = private_catalogue(asked.source, gate, **WHERE, share=0.5)
    people = Coverage.from_events(asked.source, **WHERE, items=found)
    listed = [(type(one).__name__, one) for one in found]
    greedy = PrivateGreedy(2, gate, max_people=100 if asked.presence else None)
    return [
        listed,
        repr(found),
        str(found.privacy),
        repr(people),
        repr(greedy.select(people)),
        str(gate.spent),
    ]


def to_store(asked: Asked) -> Any:
    store = prepare(
        asked.source, **WEIGHED, items=LISTED, unknown_items="drop", to=asked.folder / "store", cap=2
    )
    return _store(store, asked)


def to_strict_store(asked: Asked) -> Any:
    return _store(prepare(asked.source, **WHERE, items=LISTED, to=asked.folder / "store", buckets=3), asked)


def to_spark_store(asked: Asked) -> Any:
    store = spark.prepare(
        asked.source, **WHERE, items=LISTED, unknown_items="drop", to=asked.folder / "store"
    )
    return _store(store, asked)


def _store(store: Any, asked: Asked) -> Any:
    """What a store shows: its list of items, and what is chosen from it."""
    said = [(store.path / "labels.json").read_bytes(), repr(store.labels), store.catalogue, store.n_items]
    store.verify()
    return [*said, *chosen(Coverage.from_store(store), asked)]


def _run(*lines: Sequence[str]) -> Callable[[Asked], Any]:
    """Runs of the program; files by name stand in place of FILE and LIST."""

    def run(asked: Asked) -> Any:
        files = asked.source if isinstance(asked.source, list) else [asked.source]
        named = {"FILE": [str(one) for one in files], "LIST": [str(asked.folder / "items.csv")]}
        named |= {"STORE": [str(asked.folder / "store")], "BUDGET": asked.flags}
        named |= {"OUT": [str(asked.folder / "chosen.json")], "BEFORE": [str(asked.folder / "before.csv")]}
        (asked.folder / "items.csv").write_text("what,price\n" + "".join(f"{one},1\n" for one in LISTED))
        (asked.folder / "before.csv").write_text("who,what\np1,tea\nq1,milk\n")
        runs = [[word for one in line for word in named.get(one, [one])] for line in lines]
        for words in runs[:-1]:
            with contextlib.redirect_stdout(io.StringIO()):
                code = main(words)
            if code:
                return [code, b""]
        code = main(runs[-1])
        left = asked.folder / "chosen.json"
        return [code, left.read_bytes() if left.exists() else b""]

    return run


ASK = ("FILE", "--person", "who", "--item", "what")
SELECT = ("select", *ASK, "--k", "2", "BUDGET")
PREPARE = ("prepare", *ASK, "--items", "LIST", "--to", "STORE")
APPEND = ("prepare", *ASK, "--append", "--to", "STORE", "--skip-bad")
BEFORE = ("prepare", "BEFORE", *ASK[1:], "--items", "LIST", "--to", "STORE", "--buckets", "2")
PROGRAM: dict[str, Callable[[Asked], Any]] = {
    "select --items": _run([*SELECT, "--items", "LIST", "--json"]),
    "select --items --weight --skip-bad": _run(
        [*SELECT, "--items", "LIST", "--weight", "much", "--skip-bad", "--explain", "--cap", "2"]
    ),
    "select --items --constraint --skip-bad": _run(
        [*SELECT, "--items", "LIST", "--constraint", "knapsack:price:3", "--skip-bad", "--out", "OUT"]
    ),
    "select --items-private --skip-bad": _run(
        [*SELECT, "--items-private", "0.5", "--skip-bad", "--json", "--exclude", "7,30"]
    ),
    "select --items-private": _run([*SELECT, "--items-private", "0.5"]),
    "prepare --items": _run([*PREPARE, "--json"]),
    "prepare --items --weight --skip-bad": _run(
        [*PREPARE, "--weight", "much", "--highest", "1", "--skip-bad"]
    ),
    "prepare --append --skip-bad, verify": _run(BEFORE, APPEND, ["verify", "STORE"]),
    "prepare --skip-bad, select STORE": _run(
        [*PREPARE, "--skip-bad"], ["select", "STORE", "--k", "2", "BUDGET", "--release-gains", "0.2"]
    ),
}
LIBRARY: dict[str, Callable[[Asked], Any]] = {
    "from_events": of_events,
    "from_events, weights, dropped items": of_listed_events,
    "from_events, facilities": of_facilities,
    "private_catalogue": of_private_list,
    "prepare": to_store,
    "prepare, strict": to_strict_store,
}
COMMANDS = LIBRARY | PROGRAM | {"spark.prepare": to_spark_store}
# Commands that leave bad rows out.
LENIENT = frozenset(name for name in COMMANDS if "--skip-bad" in name)


def pairs() -> list[tuple[str, str]]:
    """Which command reads what."""
    found = [(command, reader) for command in LIBRARY for reader in READERS]
    found += [(command, reader) for command in PROGRAM for reader in FILES]
    return [*found, ("spark.prepare", "Spark")]


def as_spark(rows: list[Row], folder: Path) -> Any:
    return LocalFrame.of(as_arrow(rows, folder))


# --- what may be said ----------------------------------------------------------------------------------

CSV_DAMAGE = (
    "a cell in quotes does not end on its line; nothing tells whose rows the next lines are",
    "a line is longer than a million letters; it is not a table in CSV",
)
_NEEDED = "is missing, or is neither text nor a number; every event needs its"
_WEIGHTS = "has a weight that is not allowed; weights must"
_LIMITS = ("lie in [0, 1], so divide ratings by the highest there can be", "be finite and at least 0")
CSV_ROWS = (
    "a row has another number of cells than the header, which has 4",
    "a row has something behind a closing quote",
)
ROWS = (
    f"an entry of column 'who' {_NEEDED} person",
    f"an entry of column 'what' {_NEEDED} item",
    "an entry of column 'who' is not UTF-8 text",
    "an entry of column 'what' is not UTF-8 text",
    *(f"column 'much' {_WEIGHTS} {limit}" for limit in _LIMITS),
    'items= does not list the item of every event; add it, or unknown_items="drop"',
    "--items does not list the item of every event",
    "one person's function can exceed bound=1.0; rescale or declare a larger one",
    "matrix has an entry that is not allowed: entries must lie in [0, 1]",
)
# Of a Python type of a whole column, which the schema of a table tells.
SCHEMA = tuple(
    f"{asked} {what}"
    for asked in ("weight='much'", "--weight much")
    for what in (
        "must be a column of numbers, got datetime64[us]",
        "must be a column of numbers, got datetime64[ns]",
        "must be a column of numbers, got timedelta64[us]",
        "must be a column of numbers, got timedelta64[ns]",
        "must be a column of numbers, got complex128",
    )
)
REFUSALS = frozenset((*ROWS, *CSV_ROWS, *CSV_DAMAGE))
DAMAGE = frozenset(CSV_DAMAGE)
_AROUND = re.compile(
    r"(?:DataError: |discreet \w+: )?(?:events\.[a-z.]+: )?(.*?)"
    r"(?:; if the file is in another encoding, [^;]*)?"
    r"(?:; fix the row, or leave such rows out with --skip-bad)?"
    r"(?: \(--insecure-diagnostics names the row\))?\n?"
)


def refusal(said: str) -> str:
    """A refusal without the names of command and file, and without what to do about it."""
    found = _AROUND.fullmatch(said)
    return said if found is None else found[1]


# --- running -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Seen:
    """Everything observable that is not in the account; ``refused``: the words of a refusal, seen alone.

    ``rows``: the items and weights of each person as they were read, which leave through the account alone.
    """

    left: tuple[Any, ...]
    refused: str | None = None
    rows: dict[Any, Any] = field(default_factory=dict)

    def others(self, known: Seen) -> dict[Any, Any]:
        """The rows of those who are in ``known``, too, but for the victim's."""
        mine = {VICTIM, int(Identities(KEY).of(Column([VICTIM]))[0][0])}
        return {name: self.rows.get(name) for name in known.rows.keys() - mine}


def run(command: str, reader: str, rows: list[Row], presence: bool) -> Seen:
    """One command on one table, with draws that come out alike."""
    made = as_spark if reader == "Spark" else READERS[reader]
    folder = Path(tempfile.mkdtemp(prefix="rows-"))
    try:
        with warnings.catch_warnings():  # of those who write such tables
            warnings.simplefilter("ignore")
            source = made(rows, folder)
        out, err = io.StringIO(), io.StringIO()
        found: dict[Any, Any] = {}
        with warnings.catch_warnings(record=True) as caught, _held_still(found):
            warnings.simplefilter("always")
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                try:
                    result: Any = COMMANDS[command](Asked(source, folder, presence))
                except Exception as error:
                    result = _told(error)
        noted = [f"{one.category.__name__}: {one.message}" for one in caught]
        left = tuple(
            repr(one).replace(str(folder), "FOLDER")
            for one in (result, out.getvalue(), err.getvalue(), noted)
        )
        if isinstance(result, str):
            return Seen(left, result if not (out.getvalue() or err.getvalue() or noted) else repr(left))
        if isinstance(result, list) and result[:1] == [2]:
            return Seen(left, err.getvalue() if not (out.getvalue() or noted or result[1]) else repr(left))
        if (folder / "store").exists():
            found |= _stored(dc.data.Store.open(folder / "store"))
        return Seen(left, None, found)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _told(error: BaseException | None) -> str:
    """The words of an error and of everything that a traceback would show with it."""
    said = []
    while error is not None:
        said.append(f"{type(error).__name__}: {error}")
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return "\n".join(said)


def _stored(store: Any) -> dict[Any, Any]:
    """The rows of a store, by key."""
    found = {}
    for bucket in store.buckets():
        weights = np.ones(bucket.items.size) if bucket.weights is None else bucket.weights
        for at, key in enumerate(bucket.keys.tolist()):
            mine = slice(int(bucket.ends[at]), int(bucket.ends[at + 1]))
            labels = [store.labels[item] for item in bucket.items[mine]]
            found[key] = dict(zip(labels, weights[mine].tolist(), strict=True))
    return found


@contextlib.contextmanager
def _held_still(found: dict[Any, Any]) -> Iterator[None]:
    """Draws that come out alike, whoever is there: what the account covers does not move.

    ``found`` gets the rows of people as they were read.
    """
    from discreet.data import events as reading
    from discreet.data import preparing
    from discreet.objectives.rows import RowPopulation
    from discreet.offline import greedy

    real = reading.choose_items
    of_events = RowPopulation.of_events.__func__

    def noted(family: Any, events: Any, **options: Any) -> Any:
        for at, name in enumerate(events.people):
            mine = slice(int(events.indptr[at]), int(events.indptr[at + 1]))
            labels = [events.items[item] for item in events.indices[mine]]
            found[name] = dict(zip(labels, events.weights[mine].tolist(), strict=True))
        return of_events(family, events, **options)

    def choose_items(events: Any, gate: Any, **options: Any) -> Any:
        real(events, gate, **options)  # which pays
        named = set(NUMBERED)
        return events.only(np.array([str(item) in named for item in events.items], dtype=np.bool_))

    fixed = SimpleNamespace(token_bytes=lambda size: KEY[:size], token_hex=lambda size: "0" * 2 * size)
    patches = (
        *((greedy, "_drawn", lambda *_: 0), (PrivateGreedy, "_noisy_gains", lambda *_: (1.0, 2.0))),
        *(
            (reading, "choose_items", choose_items),
            (preparing, "secrets", fixed),
            (spark, "secrets", fixed),
        ),
        (RowPopulation, "of_events", classmethod(noted)),
    )
    with contextlib.ExitStack() as stack:
        for place, name, value in patches:
            stack.enter_context(mock.patch.object(place, name, value))
        yield


@dataclass
class Tally:
    """What came of the cases."""

    cases: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    not_made: int = 0
    differ: list[str] = field(default_factory=list)

    @property
    def count(self) -> int:
        return sum(self.cases.values())


_BEFORE: dict[tuple[str, str, bool, bool], Seen] = {}


def case(number: int, seed: int, tally: Tally) -> None:
    """One changed row, read by one command."""
    rng = random.Random(f"{seed}/{number}")
    command, reader = rng.choice(pairs())
    text = reader in TEXT
    change = changed(rng, text)
    # Who knows nothing of quotes makes two rows of a cell with a break of lines.
    broken = reader == "CSV without quoting" and re.search("[\r\n]", str(change.value))
    presence = change.about_people or bool(broken) or rng.random() < 0.3
    first = rng.random() < 0.3
    whole = table(NUMBERED if "private" in command else LISTED, first)
    rows = change.applied([dict(row) for row in whole])
    where = f"case {number}: {command}, {reader}, {change.column} = {change.value!r:.60}, row {change.row}"
    key = (command, reader, presence, first)
    if key not in _BEFORE:
        _BEFORE[key] = run(command, reader, whole, presence)
        assert _BEFORE[key].refused is None, (key, _BEFORE[key])
    try:
        after = run(command, reader, rows, presence)
    except NotMade:
        tally.not_made += 1
        return
    tally.cases[f"{command} | {reader}"] += 1
    if after.refused is not None:
        words = refusal(after.refused)
        allowed = DAMAGE if command in LENIENT else REFUSALS
        if words in allowed and (text or words not in (*CSV_DAMAGE, *CSV_ROWS)):
            tally.refused[words] += 1
        elif words.removeprefix("TypeError: ") in SCHEMA and change.column == "much":
            tally.refused["a column of another type than numbers, by its schema"] += 1
        else:
            tally.differ.append(f"{where}: refused with {after.refused!r:.300}")
    elif after.left != _BEFORE[key].left:
        pair = next((a, b) for a, b in zip(_BEFORE[key].left, after.left, strict=True) if a != b)
        tally.differ.append(f"{where}: {_difference(*pair)}")
    elif after.others(_BEFORE[key]) != _BEFORE[key].others(_BEFORE[key]):
        tally.differ.append(f"{where}: somebody else's row was read as another one")


def _difference(before: str, after: str) -> str:
    at = next((i for i, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), 0)
    start = max(0, at - 60)
    return f"...{before[start : at + 120]!r} became ...{after[start : at + 120]!r}"


def fuzz(cases: int, seed: int, first: int = 0, shown: bool = False) -> Tally:
    """So many cases."""
    tally = Tally()
    for number in range(first, first + cases):
        before = len(tally.differ)
        case(number, seed, tally)
        if shown and len(tally.differ) > before:
            print(tally.differ[-1], flush=True)
        if shown and number % 500 == 499:
            print(f"{number + 1}: {len(tally.differ)} differ", flush=True)
    return tally


# --- faults --------------------------------------------------------------------------------------------


def sorted_before_they_are_listed() -> Any:
    """The order of a list depends on all items, also on those that are not listed."""
    from discreet.data import events

    def in_order(given: Any) -> list[int]:
        texts = [events.as_text(one) for one in given]
        numbers = all(text.lstrip("-").isdecimal() for text in texts)
        return sorted(range(len(texts)), key=lambda at: (int(texts[at]) if numbers else 0, texts[at]))

    return mock.patch.object(events, "in_order", in_order)


def weights_lose_digits() -> Any:
    """Weights of all are rounded next to one that is not a number."""
    from discreet.data import events

    real = events.amounts

    def amounts(column: Any) -> Any:
        exact = real(column)
        return exact.astype(np.float32).astype(np.float64) if np.isnan(exact).any() else exact

    return mock.patch.object(events, "amounts", amounts)


def tells_the_item() -> Any:
    """A refusal repeats the cell."""
    from discreet.data import events

    def unlisted(batch: Any, role: str, row: int) -> ValueError:
        return ValueError(f"items= does not list {batch.columns[role][row]!r}")

    return mock.patch.object(events, "unlisted", unlisted)


def quotes_cross_lines() -> Any:
    """A quote that one row leaves open swallows the rows that follow."""
    from discreet.data import read

    class Careless:
        def __init__(self, separator: bytes, width: int, places: list[int], *_: int) -> None:
            self._mark, self._width, self._places = separator.decode(), width, places
            self.line = self.cells = 0

        def read(self, block: Any, _: bool) -> tuple[Any, Any, int]:
            text = io.StringIO(block.tobytes().decode("utf-8", "surrogateescape"), newline="")
            rows = [row for row in csv.reader(text, delimiter=self._mark) if len(row) == self._width]
            columns: Any = [Text.of([row[place] for row in rows]) for place in self._places]
            return [(one.ends, one.values) for one in columns], np.arange(len(rows)), read.FINE

    return mock.patch.object(read, "CsvLines", Careless)


FAULTS = [sorted_before_they_are_listed, weights_lose_digits, tells_the_item, quotes_cross_lines]


# --- page ----------------------------------------------------------------------------------------------


def page(tally: Tally, seed: int, faults: dict[str, int | None]) -> str:
    """The result as a page."""
    readers = [*READERS, "Spark"]
    rows = ["| command | " + " | ".join(readers) + " |", "|---|" + "---:|" * len(readers)]
    for command in COMMANDS:
        cells = [tally.cases.get(f"{command} | {reader}", 0) for reader in readers]
        rows.append(f"| `{command}` | " + " | ".join(f"{cell:,}" if cell else "" for cell in cells) + " |")
    said = [f"| {words} | {count:,} |" for words, count in sorted(tally.refused.items())]
    noticed = [
        f"| `{fault.__name__}` | {(fault.__doc__ or '').strip()} | {'never' if at is None else at} |"
        for fault, at in ((fault, faults[fault.__name__]) for fault in FAULTS)
    ]
    differ = "nothing" if not tally.differ else "\n".join(tally.differ)
    return "\n".join(
        [
            "# Fuzzing: one person's row changed",
            "",
            f"{tally.count:,} times one row of one person was changed: its item, weight, person, another"
            " column, the line of a file, the number of rows; to other numbers, types, lengths and texts,"
            " quotes, rare letters, bytes that are not text. Each time a command read both tables, with the"
            " same random draws, and everything observable that is not in the account was compared byte for"
            " byte: output, warnings, errors with all that a traceback shows, public files, labels with types"
            " and order; and the rows of all other people, as they were read."
            f" `make audit` makes this page (seed {seed}); `tools/fuzz_rows.py` says how.",
            "",
            f"**What differed, other than the refusals below: {differ}.**",
            "",
            *rows,
            "",
            "Refusals of a bad row are part of what [is promised](privacy.md#bad-rows): always one of these"
            " sentences, whatever stands in the row and wherever it stands. Commands that leave bad rows out"
            " (`--skip-bad`) refused for the quotes and long lines of text files, and for the type of a"
            " column of weights, alone.",
            "",
            "| refusal | cases |",
            "|---|---:|",
            *said,
            "",
            "The same comparison over readers with injected faults:",
            "",
            "| fault | what it does | cases until noticed |",
            "|---|---|---:|",
            *noticed,
            "",
        ]
    )


def noticed(fault: Callable[[], Any], seed: int, most: int) -> int | None:
    """After how many cases a fault was noticed."""
    tally = Tally()
    _BEFORE.clear()
    with fault():
        for number in range(most):
            case(number, seed, tally)
            if tally.differ:
                break
    _BEFORE.clear()
    return number + 1 if tally.differ else None


def run_all(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--case", type=int, help="one case again")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args(arguments)
    if options.case is not None:
        tally = fuzz(1, options.seed, options.case)
        print(json.dumps([tally.differ, dict(tally.refused)], indent=1))
        return len(tally.differ)
    tally = fuzz(options.cases, options.seed, shown=True)
    while tally.count < options.cases:  # some tables cannot be written
        more = fuzz(options.cases - tally.count, options.seed, options.cases + tally.not_made)
        tally.cases += more.cases
        tally.refused += more.refused
        tally.not_made += more.not_made
        tally.differ += more.differ
    if options.out is not None:
        found = {fault.__name__: noticed(fault, options.seed, 3000) for fault in FAULTS}
        options.out.write_text(page(tally, options.seed, found), encoding="utf-8")
    return 1 if tally.differ else 0


if __name__ == "__main__":
    raise SystemExit(run_all())
