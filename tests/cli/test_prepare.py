"""``discreet prepare`` and ``discreet verify``."""

from __future__ import annotations

import json

import numpy as np
import pytest

from discreet.data import Store
from tests.cli.running import inside

ROWS = ["ann,tea", "bob,jam", "7,tea", "ann,jam"]


@pytest.fixture
def files(tmp_path):
    (tmp_path / "items.csv").write_text("page\ntea\njam\nmilk\n")
    for name, rows in (("monday", ROWS), ("tuesday", ["cy,milk", "7,milk"])):
        (tmp_path / f"{name}.csv").write_text("\n".join(["user,page", *rows, ""]))
    return tmp_path


def prepared(capsys, files, *rest):
    asked = ["--person", "user", "--item", "page", "--to", files / "people"]
    return inside(capsys, "prepare", *asked, *rest)


def test_a_store_by_commands(capsys, files):
    ended = prepared(capsys, files, files / "monday.csv", "--items", files / "items.csv", "--json")
    assert (ended.code, ended.err) == (0, "")
    assert json.loads(ended.out)["n_items"] == 3
    assert len(Store.open(files / "people")) == 3
    assert prepared(capsys, files, files / "tuesday.csv", "--append").code == 0
    assert (len(Store.open(files / "people")), Store.open(files / "people").n_entries) == (4, 6)
    ended = inside(capsys, "verify", files / "people")
    assert (ended.code, ended.out) == (0, f"{files / 'people'}: nothing is wrong\n")
    (files / "people" / "bucket-00001-2" / "keys.npy").write_bytes(b"")
    ended = inside(capsys, "verify", files / "people")
    assert ended.code == 2
    assert "bucket 1: keys.npy is not an array" in ended.err


def test_an_estimate_makes_nothing(capsys, files):
    asked = (files / "monday.csv", "--items", files / "items.csv", "--estimate")
    ended = prepared(capsys, files, *asked, "--json")
    found = json.loads(ended.out)
    assert 0 < found["prepare_seconds"] < 5
    assert found["disk_bytes"] < 1000
    assert "to make it" in prepared(capsys, files, *asked).out
    assert not (files / "people").exists()


def test_an_estimate_is_at_most_where_nobody_knows_the_items(capsys, files):
    """Each of 70,000 people alone with an item: more than 16 bits hold."""
    (files / "monday.csv").write_text("user,page\n" + "".join(f"{n},{n}\n" for n in range(10**5, 17 * 10**4)))
    asked = (files / "monday.csv", "--items-from-data")
    told = json.loads(prepared(capsys, files, *asked, "--estimate", "--json").out)["disk_bytes"]
    assert prepared(capsys, files, *asked).code == 0
    assert sum(one.stat().st_size for one in files.glob("people/bucket-*/*.npy")) <= told + 4096  # headers
    assert "uint32" in {str(np.load(one).dtype) for one in files.glob("people/bucket-*/items.npy")}


@pytest.mark.parametrize(
    ("rest", "words"),
    [
        (["monday.csv"], "which items are there to choose from?"),
        (["monday.csv", "--items", "monday.csv"], "is one of the files"),
        (["monday.csv", "--append", "--cap", "2"], "leave out --cap"),
        (["monday.csv", "--append"], "not a store"),
        (["-", "monday.csv", "--items", "items.csv"], "stands alone"),
        (["monday.csv", "--items", "items.csv", "--key", "items.csv"], "hexadecimal"),
        (["monday.csv", "--items", "items.csv", "--buckets", "0"], "buckets=0 is too small"),
    ],
)
def test_mistakes_are_one_line(capsys, files, monkeypatch, rest, words):
    monkeypatch.chdir(files)
    ended = prepared(capsys, files, *rest)
    assert ended.code == 2
    assert words in ended.err
    assert ended.err.count("\n") == 1
    assert not (files / "people").exists()


def test_items_from_data_are_said_to_be(capsys, files):
    assert (
        "CONDITIONAL on the list of items"
        in prepared(capsys, files, files / "monday.csv", "--items-from-data").out
    )


def test_several_files_and_a_pattern_are_the_same(capsys, files):
    catalogue = ["--items", files / "items.csv", "--key", files / "key"]
    (files / "key").write_text("ab" * 32)
    assert prepared(capsys, files, files / "monday.csv", files / "tuesday.csv", *catalogue).code == 0
    first = Store.open(files / "people").manifest["parts"]
    (files / "people").rename(files / "before")
    assert not (files / "before" / "key").exists()
    assert prepared(capsys, files, f"{files}/*day.csv", *catalogue).code == 0
    assert Store.open(files / "people").manifest["parts"] == first


def test_a_column_that_is_nearly_there(capsys, files, monkeypatch):
    monkeypatch.chdir(files)
    asked = [
        "prepare",
        "monday.csv",
        "--person",
        "users",
        "--item",
        "page",
        "--items",
        "items.csv",
        "--to",
        "p",
    ]
    assert "did you mean 'user'?" in inside(capsys, *asked).err  # the first line has the other column
    asked[asked.index("page")] = "pagina"
    assert "did you mean" not in inside(capsys, *asked).err  # it may be somebody's
    assert "did you mean 'user'?" in inside(capsys, *asked, "--insecure-diagnostics").err
