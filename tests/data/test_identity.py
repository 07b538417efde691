"""One identity rule: whatever type, file or reader an id comes in, equal names are one person."""

from __future__ import annotations

import unicodedata
import uuid
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

import discreet as dc
from discreet import spark
from discreet.core.names import canonical, name_of
from discreet.data import append, prepare, read_events
from discreet.data.preparing import Identities
from discreet.data.read import Column, column_of
from discreet.objectives import Coverage
from discreet.privacy import PeopleSplit
from discreet.service.auth import Secrets
from tests.data.frames import LocalFrame
from tests.refusals import refused

KEY = bytes(range(32))
ITEMS = ["a", "b"]
WHERE: dict[str, Any] = {"person": "who", "item": "what", "items": ITEMS}
AN_ID = uuid.UUID(int=7)

# Each list holds ways to write one person.
SAME: list[list[Any]] = [
    [
        7,
        "7",
        7.0,
        "007",
        "7.0",
        "+7",
        " 7",
        "7 ",
        "7e0",
        "70e-1",
        b"7",
        np.int8(7),
        np.float32(7),
        np.str_("7"),
    ],
    [Decimal(7), Decimal("7.00"), Fraction(7), "7.", "0007.000", 7],
    [100000, "1e+05", "1e5", 1e5, "100000.0"],
    [0, "-0", "00", 0.0, -0.0, ".0", "0e40", "-0.0e999", Decimal("0e70")],
    [-7, "-7", "-07", -7.0],
    [2047, "2047", np.float16(2047.0), np.float32(2047.0)],
    [2**24 - 1, str(2**24 - 1), np.float32(2.0**24 - 1.0)],
    [2**63, str(2**63), f"0{2**63}", np.uint64(2**63), Decimal(2**63)],
    ["café", "cafe\u0301", "café".encode(), " café "],
    ["Å", "Å", "A\u030a"],
    [AN_ID, str(AN_ID), str(AN_ID).encode()],
    [("ann", 7), ("ann", "7"), ("ann ", 7.0)],
    # NumPy's fixed-width text and bytes have lost the NULs at their ends; Arrow's bytes are padded with them.
    ["eve", "eve\0", "eve\0 \0", " eve\0 ", "\0eve", b"eve\0", *np.array(["eve\0"]), *np.array([b"eve\0"])],
    [12, "12\0", b"12\0\0", "12.0 \0"],
    ["a\0b", "a\0b\0", b"a\0b", *np.array(["a\0b\0"])],
]
# Marks that Unicode has taken up at different times: libraries with other tables put them in another order.
RARE = ["a\u0301\u0897\u0327", "a\u0301\u1acf\u0327", "a\u0301\u1ad0\u0327"]
# Each of these is somebody else than any other of them.
OTHERS = [
    "ann",
    "Ann",
    "7a",
    "7.5",
    "0x7",
    "٧",
    "a7",
    "--7",
    "7-8",
    "1e",
    ".",
    "-",
    "+",
    "e2",
    "²",
    "ﬁ",
    "fi",
    8,
    "a b",
    "ab",
]
# These are nobody.
NOBODY = [
    *(None, "", " ", "\t", "nan", "NaN", "\u00a0", "\u3000 ", float("nan"), np.nan, pd.NA, pd.NaT, b"", b" "),
    *("\0", " \0 ", "nan\0", b"\0\0"),
    *(
        True,
        False,
        np.bool_(True),
        7.5,
        float("inf"),
        2.0**53,
        np.float32(2.0**24),  # each kind from where it skips integers
        np.float16(2048.0),
        Decimal("0.1"),
        Decimal("NaN"),
        Fraction(1, 3),
    ),
    *(pd.Timestamp("2020-01-01"), np.datetime64("2020-01-01"), 1j, 10**40, "a\ud800", (), ("ann", None)),
    *([7], {7}, frozenset([7]), object()),
]


@pytest.mark.parametrize("ways", SAME, ids=lambda ways: str(ways[0]))
def test_ways_to_write_one_person(ways: list[Any]) -> None:
    assert len({name_of(one) for one in ways}) == 1
    assert name_of(ways[0]) == name_of(name_of(ways[0])) is not None
    assert len({canonical(one) for one in ways}) == 1


def test_others_are_others() -> None:
    names = [name_of(one) for one in (*OTHERS, *(ways[0] for ways in SAME))]
    assert None not in names
    assert len(set(names)) == len(names) - 1  # 7 stands in two lists of the same
    assert all(type(name) in (int, str) for name in names)


@pytest.mark.parametrize("cell", NOBODY, ids=lambda one: repr(one).split(" at 0x")[0])
def test_nobody(cell: Any) -> None:
    assert name_of(cell) is None
    with pytest.raises((TypeError, ValueError), match="person_id") as error:
        canonical(cell)
    assert "7" not in str(error.value)


@settings(max_examples=400, deadline=None)
@given(
    some.one_of(
        some.text(max_size=6),
        some.from_regex(r"\A[ +-]?[0-9.eE]{1,8} ?\Z"),
        some.integers(-(10**20), 10**20).map(str),
        some.sampled_from(["e\u0301", "Å", "nan", "NaN", "\u2003x", *RARE]).flatmap(
            lambda text: some.sampled_from(
                [text, text * 2, f" {text}", f"{text}\x1f", f"7{text}", f"{text}\0", f"\0{text} \0"]
            )
        ),
    )
)
def test_keys_of_stores_are_hashes_of_names(text: str) -> None:
    """The compiled loops and Arrow find the same person as the rule, for any text."""

    def keys_of(cells: Any) -> Any:
        return Identities(KEY).of(column_of("", "person", cells))

    expected = keys_of([str(name_of(text)) if name_of(text) is not None else "nobody"])[0]
    for column in (
        *([text], [text, 7.5], [text.encode("utf-8", "surrogateescape")]),
        *(() if "\ud800" <= max(text, default="") <= "\udfff" else (pa.array([text]), pa.array([text] * 70))),
    ):
        keys, missing = keys_of(column)
        assert missing[0] == (name_of(text) is None)
        assert missing[0] or keys[0] == expected[0]


@pytest.mark.parametrize("text", RARE)
def test_rare_letters_are_one_person_in_stores_too(text: str, tmp_path: Path) -> None:
    """One table of Unicode for all: Arrow's own differs from Python's."""
    column = pa.array([text, unicodedata.normalize("NFC", text), "ann"])
    keys, _ = Identities(KEY).of(column_of("", "person", column))
    names, _ = Identities(KEY).of(Column([name_of(text)]))
    assert keys[0] == keys[1] == names[0]
    assert len(prepare({"who": column, "what": ["a"] * 3}, **WHERE, to=tmp_path / "store")) == 2


def in_lists(cells: list[Any], _: Path) -> Any:
    return {"who": cells, "what": ["a", *["b"] * (len(cells) - 1)]}


def in_mappings(cells: list[Any], _: Path) -> Any:
    return [{"who": who, "what": "a" if at == 0 else "b"} for at, who in enumerate(cells)]


def in_pandas(cells: list[Any], _: Path) -> Any:
    return pd.DataFrame(in_lists(cells, _) | {"who": pd.Series(cells, dtype=object)})


def in_categories(cells: list[Any], _: Path) -> Any:
    return pd.DataFrame(in_lists(cells, _) | {"who": pd.Series(cells, dtype=object).astype("category")})


def in_files(cells: list[Any], folder: Path) -> Any:
    """A file for each, of the type that the cell has."""
    paths = []
    for at, who in enumerate(cells):
        item = "a" if at == 0 else "b"
        plain = who.item() if isinstance(who, np.generic) else who
        if isinstance(plain, str):
            path = folder / f"{at}.csv"
            path.write_text(f"who,what\n{plain},{item}\n", encoding="utf-8")
        else:
            path = folder / f"{at}.parquet"
            if isinstance(plain, Fraction | tuple | uuid.UUID):
                plain = str(plain)
            long = isinstance(plain, int) and plain > 2**62
            column = pa.array([plain], pa.uint64() if long else None)
            parquet.write_table(pa.table({"who": column, "what": [item]}), path)
        paths.append(path)
    return paths


def in_chunks(cells: list[Any], _: Path) -> Any:
    """A table of one row for each, of the type that the cell has."""
    return [{"who": [who], "what": ["a" if at == 0 else "b"]} for at, who in enumerate(cells)]


WAYS = [ways for ways in SAME if not isinstance(ways[0], tuple)]
TABLES: dict[str, Callable[[list[Any], Path], Any]] = {
    "lists": in_lists,
    "mappings": in_mappings,
    "pandas": in_pandas,
    "categories": in_categories,
    "files": in_files,
}


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("ways", WAYS, ids=lambda ways: str(ways[0]))
def test_one_person_in_every_reader(ways: list[Any], kind: str, tmp_path: Path) -> None:
    if kind == "files":
        ways = [one for one in ways if not isinstance(one, Fraction | uuid.UUID)]
    if kind == "categories":  # of which pandas itself takes equal ones for one
        ways = [str(one) for one in ways if not isinstance(one, bytes)]
    table = TABLES[kind](ways, tmp_path)
    people = Coverage.from_events(table, **WHERE)
    assert len(people) == 1
    assert people.indices.tolist() == [0, 1]
    store = prepare(table, **WHERE, to=tmp_path / "store", progress=False)
    assert (len(store), store.n_entries) == (1, 2)


@pytest.mark.parametrize("ways", WAYS, ids=lambda ways: str(ways[0]))
def test_one_person_in_every_object(ways: list[Any], tmp_path: Path) -> None:
    rows = [{"who": one, "what": "a"} for one in ways]
    assert len(Coverage.from_events(rows, **WHERE)) == 1
    assert len(read_events(rows, **WHERE, people=[ways[0], "ann"]).people) == 2
    split = PeopleSplit(1000, KEY)
    assert len(set(split.parts_of(ways).tolist())) == 1
    budget = dc.Budget(1.0, 1e-6, max_rounds_per_person=2)
    counted = dc.online.HedgeSelector(3, 1, 50, budget, seed=0)._contribution
    assert [counted.register(one) for one in ways].count(True) == 2
    store = prepare(in_lists(ways[:1], tmp_path), **WHERE, key=KEY, to=tmp_path / "store", progress=False)
    for chunk in in_chunks(ways[1:], tmp_path):
        store = append(chunk, person="who", item="what", to=store.path, key=KEY, progress=False)
    assert len(store) == 1
    text = [str(one) for one in ways if not isinstance(one, bytes)]
    frame = LocalFrame.of({"who": text, "what": ["a"] * len(text)})
    assert len(spark.prepare(frame, **WHERE, to=tmp_path / "spark")) == 1
    people = Coverage(np.eye(len(ways))).with_identities(ways)
    assert len(set(people._digests.tolist())) == 1


def test_one_person_in_the_service() -> None:
    secrets = Secrets(dict.fromkeys(("people", "decisions", "events"), KEY))
    for ways in WAYS:
        texts = [one for one in ways if type(one) is str]
        assert len({secrets.pseudonym(1, "2026-11", text) for text in texts}) == 1
    assert secrets.pseudonym(1, "2026-11", " ") != secrets.pseudonym(1, "2026-11", "")


def test_typed_columns_of_many_kinds_are_one_person(tmp_path: Path) -> None:
    arrays = [
        *(pa.array(["7"]), pa.array(["7"], pa.large_string()), pa.array(["7"], pa.string_view())),
        *(pa.array([b"7"]), pa.array([b"7"], pa.binary(1)), pa.array(["7"]).dictionary_encode()),
        *(pa.array([7], kind) for kind in (pa.int8(), pa.uint64(), pa.float32(), pa.decimal128(20, 2))),
        pa.array([7]).dictionary_encode(),
        pa.array(["x", "7"]).slice(1),
    ]
    frames: list[Any] = [pa.table({"who": one, "what": ["a"]}) for one in arrays]
    columns = (
        *(pd.Series([7], dtype=kind) for kind in ("int64", "Int64", "float64", "category", "object")),
        *(pd.Series(["7"], dtype=kind) for kind in ("string", "category", "object")),
        *(pl.Series([7]), pl.Series(["7"]), pl.Series(["7"], dtype=pl.Categorical), pl.Series([7.0])),
        *(np.array([7]), np.array(["7"]), np.array([7.0]), np.array([b"7"]), np.array([7], dtype=object)),
    )
    frames += [{"who": column, "what": ["a"]} for column in columns]
    for at, frame in enumerate(frames):
        assert len(Coverage.from_events(frame, **WHERE)) == 1
        parquet.write_table(pa.table({"who": pa.array([7]), "what": ["a"]}), tmp_path / "7.parquet")
        store = prepare(
            iter([frame, tmp_path / "7.parquet"]), **WHERE, to=tmp_path / f"s{at}", progress=False
        )
        assert len(store) == 1, at
    assert read_events(iter(frames), **WHERE).people == (7,)


@pytest.mark.parametrize("cell", NOBODY, ids=lambda one: repr(one).split(" at 0x")[0])
def test_nobody_is_a_bad_cell_of_its_row_wherever_it_stands(cell: Any, tmp_path: Path) -> None:
    """Beside somebody whose id is equal in Python's eyes, too: True and 1, 2.0**53 and 2**53."""
    entry = "not UTF-8 text" if isinstance(cell, str) and "\ud800" in cell else "missing, or is neither text"
    words = f"an entry of column 'who' is {entry}"
    for beside in ([1, 2**53], [7, 10**39], ["ann", "bob"]):
        for place in (0, 2):
            cells = [*beside[:place], cell, *beside[place:]]
            table = {"who": cells, "what": ["a"] * 3}
            with refused(words, f"^row {place}$"):
                Coverage.from_events(table, **WHERE)
            with refused(words, f"^row {place}$"):
                prepare(table, **WHERE, to=tmp_path / "store", progress=False)


def test_parts_of_a_tuple_are_names() -> None:
    assert canonical(("ann", 7)) != canonical(("ann", 8)) != canonical("ann")
