"""``discreet select``: the right people, the right choice, nothing beside the account, and every bad file."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import math
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest

import discreet as dc
from discreet.cli import select
from discreet.objectives import Coverage
from discreet.objectives.rows import RowPopulation
from discreet.offline import PrivateGreedy
from discreet.privacy import Account
from discreet.privacy.partitions import PartitionSelection

from .running import assert_refused, inside, printed, process

COLUMNS = ("--person", "user", "--item", "page")
OWN = (*COLUMNS, "--items-from-data")
LISTED = (*COLUMNS, "--k", "3", "--epsilon", "1")  # a catalogue is still to be named
ASK = (*LISTED, "--items-from-data")


def events(people: int, seed: int = 0) -> list[tuple[str, str, str, str]]:
    """(user, page, department, price): clusters of taste, some rows twice, in no order."""
    coins = np.random.Generator(np.random.PCG64(seed))
    rows = []
    for person in range(people):
        cluster = int(coins.integers(4))
        for _ in range(int(coins.integers(1, 6))):
            page = 5 * cluster + min(4, int(coins.exponential(1.0)))
            rows += [(f"u{person}", f"p{page:02}", f"d{page % 3}", str(1 + page % 7))] * int(
                coins.integers(1, 3)
            )
    return [rows[i] for i in coins.permutation(len(rows))]


def text_of(rows, header=("user", "page", "department", "price")) -> str:
    return "".join(",".join(row) + "\n" for row in (header, *rows))


@pytest.fixture(scope="module")
def visits(tmp_path_factory):
    path = tmp_path_factory.mktemp("files") / "visits.csv"
    path.write_text(text_of(events(600)))
    return path


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """The public list of what there is to choose from."""
    path = tmp_path_factory.mktemp("files") / "pages.csv"
    path.write_text("page\n" + "".join(f"p{page:02}\n" for page in range(20)))
    return path


@pytest.fixture
def file(tmp_path):
    """Write a file of this content, return its path."""

    def write(content: str | bytes, name: str = "events.csv"):
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


def selected(capsys, *arguments) -> dict:
    return printed(capsys, "select", *arguments)


# --- the result --------------------------------------------------------------------------------------


def test_prints_items_account_and_what_they_mean(visits, pages, tmp_path):
    out = tmp_path / "chosen.json"
    ended = process("select", visits, *LISTED, "--items", pages, "--out", out)
    assert (ended.code, ended.err) == (0, "")
    result = json.loads(out.read_text())
    lines = ended.out.splitlines()
    assert [line.split()[1] for line in lines[1:4]] == result["items"]
    for words in (
        "epsilon 1 by pure epsilon; limit 1; replace-one adjacency",
        "What a reader may and may not conclude",
        "may be published",
        "does not show how many people want an item",
        "Guarantees add up",
        "the 20 items listed by --items",
        "the number of people, 600",
    ):
        assert words in " ".join(ended.out.split())
    assert "NOT PRIVATE" not in ended.out
    assert "CONDITIONAL" not in ended.out
    assert result["private"] is True
    assert (result["not_private_because"], result["conditional_on"]) == ([], None)
    assert result["insecure"] is False
    assert "diagnostics" not in result
    account = Account.from_json(result["account"])
    assert account.epsilon() == result["guarantee"]["epsilon"] == 1.0
    assert result["settings"]["file"] == "visits.csv"
    assert result["discreet"] == dc.__version__
    assert str(tmp_path) not in out.read_text()


def test_budget_options_reach_the_account(visits, capsys):
    options = (*ASK, "--delta", "1e-6", "--neighbours", "add_remove", "--method", "zcdp")
    result = selected(capsys, visits, *options)
    assert result["guarantee"]["neighbours"] == "add_remove"
    assert result["guarantee"]["epsilon"] <= 1.0
    assert Account.from_json(result["account"]).budget == dc.Budget(1.0, 1e-6, "add_remove")


def test_gains_are_released_only_for_a_share_of_the_budget(visits, capsys):
    result = selected(capsys, visits, *OWN, "--k", "2", "--epsilon", "200", "--release-gains", "0.5")
    people = Coverage.from_events(visits, person="user", item="page")
    places = [people.labels.index(item) for item in result["items"]]
    true = np.diff([0.0, people.value(places[:1]), people.value(places)]) * len(people)
    # Laplace noise of scale 2 / 100: beyond 1 with a probability of e^-50.
    assert np.abs(np.array(result["noisy_gains"]) - true).max() < 1.0
    assert result["guarantee"]["epsilon"] <= 200.0
    assert "people it adds (noisy)" in inside(capsys, "select", visits, *ASK, "--release-gains", ".2").out


def test_several_constraints_hold_together(visits, capsys):
    """Whatever their order; each of them excludes a list that the others allow."""
    about = {page: (department, int(price)) for _, page, department, price in events(600)}
    rules = [("--constraint", "partition:department"), ("--constraint", "knapsack:price:4")]
    for order in (rules, rules[::-1]):
        for more in ((), ("--k", "2")):
            options = [word for rule in order for word in rule]
            result = selected(capsys, visits, *OWN, "--epsilon", "50", *options, *more)
            departments = [about[page][0] for page in result["items"]]
            assert len(set(departments)) == len(departments) > 0
            assert sum(about[page][1] for page in result["items"]) <= 4
            assert len(departments) <= (2 if more else 3)
            assert "the constraints' columns say" in " ".join(result["treated_as_public"])
    both = ("--constraint", "partition:department:2", "--constraint", "partition:price:1")
    result = selected(capsys, visits, *OWN, "--epsilon", "50", *both)
    prices = [about[page][1] for page in result["items"]]
    assert len(set(prices)) == len(prices) >= 4
    assert max(sum(about[page][0] == d for page in result["items"]) for d in ("d0", "d1", "d2")) <= 2


def test_what_is_not_private_says_so(visits, pages, capsys):
    listed = (visits, *LISTED, "--items", pages)
    seeded = inside(capsys, "select", *listed, "--seed", "1")
    assert seeded.out.startswith("NOT PRIVATE: with --seed")
    assert "may be published" not in seeded.out
    result = selected(capsys, *listed, "--seed", "1")
    assert (result["private"], result["reproducible"], result["insecure"]) == (False, True, False)
    insecure = inside(capsys, "select", *listed, "--insecure-diagnostics")
    assert insecure.out.startswith("NOT PRIVATE: this output holds true counts")
    assert "may be published" not in " ".join(insecure.out.split())
    result = selected(capsys, *listed, "--insecure-diagnostics")
    assert (result["private"], result["insecure"]) == (False, True)
    assert len(result["not_private_because"]) == 1
    people = Coverage.from_events(visits, person="user", item="page")
    found = result["diagnostics"]
    assert found["people"] == 600
    assert found["pairs"] == people.indices.size
    places = [people.labels.index(item) for item in result["items"]]
    assert found["share_served"] == people.value(places)
    counts = people.gains([])[places] * 600
    assert list(found["served_alone_by"].values()) == pytest.approx(counts)
    best = dc.objectives.greedy(people, 3)[0]
    assert found["without_privacy"]["items"] == [people.labels[i] for i in best]


def test_what_is_given_is_marked_and_certified_around(visits, pages, capsys):
    """In the table, among what is public, and in how good the list is at least."""
    out = [f"p{page:02}" for page in range(12)]
    asked = ("select", visits, *COLUMNS, "--items", pages, "--k", "3", "--epsilon", "50")
    given = (*asked, "--include", "p19", "--exclude", ",".join(out), "--candidates", "p11,p12,p13,p14,p19")
    ended = inside(capsys, *given, "--release-gains", "0.5")
    rows = [line.split() for line in ended.out.splitlines()[1:4]]
    assert rows[0] == ["1", "p19", "(given)"]
    assert [(row[0], row[1] in ("p12", "p13", "p14"), len(row)) for row in rows[1:]] == [
        ("2", True, 3),
        ("3", True, 3),
    ]
    assert f"\n\nexcluded: {', '.join(out[:10])} and 2 more\n\n" in ended.out
    fewer = inside(capsys, *asked, "--exclude", ",".join(out[:10])).out
    assert f"\n\nexcluded: {', '.join(out[:10])}\n\n" in fewer
    found = selected(capsys, *given[1:])
    public = [said for said in found["treated_as_public"] if said.startswith("which items")]
    assert public == [f"which items were {what}" for what in ("included", "excluded", "candidates")]
    reading = " ".join(found["reading"])
    around = "with the given items and of the candidates and without the excluded ones"
    assert f"at least 63% of as many people as the best list {around}, less " in reading  # 1 - 1/e
    assert "From pick" not in reading  # two picks, and both count
    few = " ".join(selected(capsys, *asked[1:-1], "0.01")["reading"])
    assert "For so few people (600) this budget certifies nothing" in few


# --- the list of items --------------------------------------------------------------------------------


def with_ann(people: int, seed: int = 0) -> str:
    """The same visits, and somebody with a page that nobody else has."""
    return text_of([*events(people, seed), ("ann", "ann's own page", "d0", "1")])


def test_without_a_list_of_items_nothing_is_read_or_chosen(capsys):
    """Which items occur is private: the default path names the ways to go on, before it looks at the file."""
    ended = inside(capsys, "select", "not even there.csv", *LISTED)
    assert_refused(ended, "--items FILE", "--items-private 0.5 with a --delta", "--items-from-data")


def test_items_of_the_file_are_marked_first(file, capsys):
    path = file(with_ann(50))
    ended = inside(capsys, "select", path, *ASK)
    assert ended.out.startswith("CONDITIONAL on the list of items")
    assert "may be published" not in " ".join(ended.out.split())
    assert "and the list of items stayed as it is, no list would" in " ".join(ended.out.split())
    result = selected(capsys, path, *ASK)
    assert result["private"] is False
    assert result["conditional_on"] == "the list of items"
    assert result["not_private_because"][0].startswith("CONDITIONAL")
    assert (
        Account.from_json(result["account"]).caveats
        == Coverage.from_events(path, person="user", item="page").caveats
    )
    seeded = inside(capsys, "select", path, *ASK, "--seed", "1").out
    assert seeded.startswith("CONDITIONAL")
    assert "NOT PRIVATE: with --seed" in " ".join(seeded.split())


def test_an_item_of_one_person_is_in_no_private_output(file, pages, capsys):
    """At an epsilon where picks are nearly fair draws: among 21 items hers would be picked every few runs."""
    path = file(with_ann(600))
    listed = (path, *COLUMNS, "--k", "5", "--epsilon", ".01", "--items", pages, "--skip-bad")
    private = (path, *COLUMNS, "--k", "5", "--epsilon", "4", "--delta", "1e-9", "--items-private", "0.99")
    seen = []
    for _ in range(10):
        for options in (listed, private):
            result = selected(capsys, *options)
            assert result["private"] is True
            assert result["items"]
            assert "ann's own page" not in json.dumps(result)
            seen.append(len(result.get("catalogue", ())))
    assert max(seen) >= 5  # enough are listed for a choice among them
    shown = {
        item
        for seed in range(10)
        for item in selected(
            capsys, path, *OWN, "--k", "5", "--epsilon", ".01", "--method", "basic", "--seed", seed
        )["items"]
    }
    assert "ann's own page" in shown  # the same comparison sees it where it can be: 1 - (16/21)^10 = 93 %


@pytest.mark.parametrize("neighbours", ["replace", "add_remove"])
@pytest.mark.parametrize("style", ["text", "json"])
def test_a_private_list_too_short_for_k_is_a_result(file, capsys, neighbours, style):
    """How many items are listed is released: fewer than k, or none, must not end in an error."""
    ask = (*LISTED, "--delta", "1e-6", "--items-private", "0.5", "--neighbours", neighbours)
    style = ["--json"] if style == "json" else []
    texts = ["user,page\na,x\n", "user,page\na,\n"]
    if neighbours == "add_remove":
        texts.append("user,page\n")
    seen = {inside(capsys, "select", file(text), *ask, "--skip-bad", *style) for text in texts}
    [ended] = seen  # one person, with an item or without, or nobody where that is private: the same output
    assert (ended.code, ended.err) == (0, "")
    assert ('"items": []' if style else "no items") in ended.out
    few = file("user,page\n" + "".join(f"u{u},{'xy'[u % 2]}\n" for u in range(400)))
    result = selected(capsys, few, *ask)
    assert result["items"] == result["catalogue"] == ["x", "y"]
    assert result["guarantee"]["epsilon"] == 0.5  # all of them: nothing was picked, so nothing paid


def test_what_a_private_list_needs_is_said_before_it_is_paid_for(visits, capsys, monkeypatch):
    monkeypatch.setattr("discreet.data.events.select_partitions", lambda *_, **__: pytest.fail("spent"))
    private = (*LISTED, "--delta", "1e-6", "--items-private", "0.5")
    for options, words in (
        ((*LISTED, "--items-private", "0.5"), "needs --delta above 0"),
        ((*LISTED, "--delta", "1e-6", "--items-private", "1"), "--items-private=1.0 must be less than 1"),
        ((*LISTED, "--delta", "1e-6", "--items-private", "0"), "--items-private=0.0 must be greater than 0"),
        ((*private, "--items-from-data"), "exclude each other"),
        ((*private, "--items", visits), "exclude each other"),
        (
            (*private, "--constraint", "partition:department"),
            "give --items FILE with the constraint's column",
        ),
        ((*private, "--method", "zcdp"), "it needs delta > 0"),
        ((*COLUMNS, "--k", "3", "--epsilon", "1.5e-12", *private[len(LISTED) :]), "is below 1e-12"),
        ((*private, "--release-gains", "2"), "release_gains=2.0 must be less than 1"),
        ((*private, "--cap", "0"), "--cap=0 is too small"),
    ):
        assert_refused(inside(capsys, "select", visits, *options), words)


# --- nothing beside the account ----------------------------------------------------------------------


@pytest.mark.parametrize("neighbours", ["replace", "add_remove"])
@pytest.mark.parametrize("style", ["text", "json"])
@pytest.mark.parametrize(
    "constraint", [(), ("--constraint", "knapsack:price:8"), ("--cap", "1", "--skip-bad"), "private list"]
)
def test_output_depends_on_people_through_the_choice_alone(
    file, capsys, monkeypatch, neighbours, style, constraint
):
    """Two files that agree in what is public, and draws that come out alike: no byte may differ."""
    monkeypatch.setattr("discreet.offline.greedy._drawn", lambda *_: 0)
    monkeypatch.setattr(PrivateGreedy, "_noisy_gains", lambda *_: (1.0, 2.0, 3.0))
    items = file("page,price\n" + "".join(f"p{page:02},{1 + page % 5}\n" for page in range(20)), "items.csv")
    count = 600 if constraint == "private list" else 200  # enough for every page to occur
    first, second = events(count, seed=1), events(count, seed=2)
    if neighbours == "add_remove":
        second = [row for row in second if row[0] != "u7"]
    listed = ("--items", items)
    if constraint == "private list":
        # Somebody's own item, last in order, which the private choice leaves out as it would.
        monkeypatch.setattr(PartitionSelection, "named", lambda *a: np.arange(a[1].size) < 20)
        constraint, listed = (), ("--items-private", "0.5", "--delta", "1e-6")
        second += [("u8", "u8's own", "d0", "1")]
    if "--skip-bad" in constraint:
        second += [("u8", "nowhere", "d0", "1"), ("u9", "", "d0", "1")]
    options = (*LISTED, *listed, "--neighbours", neighbours, *constraint)
    seen = []
    for rows in (first, second):
        path = file(text_of(rows))
        ended = inside(capsys, "select", path, *options, *(["--json"] if style == "json" else []))
        assert ended.code == 0, ended.err
        seen.append((ended.out, ended.err))
    assert seen[0] == seen[1]


@pytest.mark.parametrize("style", ["text", "json"])
def test_a_file_that_holds_nobody_looks_like_one_that_holds_somebody(file, capsys, monkeypatch, style):
    """The first person to come is protected too where presence is private."""
    monkeypatch.setattr("discreet.offline.greedy._drawn", lambda *_: 0)
    items = file("page\nx\ny\nz\n", "items.csv")
    options = (*COLUMNS, "--k", 2, "--epsilon", 1, "--items", items, "--neighbours", "add_remove")
    seen = []
    for rows in ("", "u1,x\n", "u1,x\nu2,y\nu2,z\n"):
        path = file("user,page\n" + rows)
        ended = inside(capsys, "select", path, *options, *(["--json"] if style == "json" else []))
        assert ended.code == 0, ended.err
        seen.append((ended.out, ended.err))
    assert seen[0] == seen[1] == seen[2]


def test_too_many_people_are_refused_without_saying_how_many(visits, capsys, monkeypatch):
    asked = ("select", visits, *ASK, "--neighbours", "add_remove")
    for ended in (
        inside(capsys, *asked, "--max-people", 50),
        inside(capsys, *asked, "--max-people", 599),
    ):
        assert_refused(ended, "more people than --max-people")
        assert "600" not in ended.err
    assert inside(capsys, *asked, "--max-people", 600).code == 0
    monkeypatch.setattr("discreet.offline.greedy.MOST_PEOPLE", 500)
    ended = inside(capsys, *asked)
    assert_refused(ended, "more people than --max-people 500")
    assert "600" not in ended.err


def test_with_skip_bad_no_row_of_anybody_stops_the_command(file, capsys):
    items = file("page\nx\ny\nz\n", "items.csv")
    rows = ("a,x", "b,y", "c,too,many,cells", "d", "e,", ",x", "f,nowhere", "", ",,", "g,z")
    rows += ("h" * 200_000 + ",x,", 'i,"x"y', "\udce9,x", "nan,x", "a,\0")
    for place in range(len(rows)):
        text = "user,page\n" + "\n".join(rows[place:] + rows[:place]) + "\n"
        path = file(text.encode("utf-8", "surrogateescape"))
        options = (*COLUMNS, "--k", 2, "--epsilon", 9, "--items", items, "--skip-bad")
        result = selected(capsys, path, *options)
        counted = "the number of people, 5, those with a row that can be read"  # a, b, e, f, g
        assert counted in result["treated_as_public"]
        assert any("read to its end" in said for said in result["treated_as_public"])


def test_complaints_of_arithmetic_are_not_passed_on(visits, capsys, monkeypatch):
    """They may depend on the data; what the library says by itself does not."""
    import warnings

    select = PrivateGreedy.select

    def noisy(self, people, **options):
        warnings.warn("overflow for somebody's data", RuntimeWarning, stacklevel=1)
        warnings.warn("said on purpose", UserWarning, stacklevel=1)
        return select(self, people, **options)

    monkeypatch.setattr(PrivateGreedy, "select", noisy)
    ended = inside(capsys, "select", visits, *ASK, "--json")
    assert json.loads(ended.out)["notes"] == ["said on purpose"]
    assert "overflow" not in ended.err


def test_that_test_can_fail(file, capsys):
    """The same comparison sees true counts."""
    seen = []
    for seed in (1, 2):
        path = file(text_of(events(200, seed)))
        seen.append(selected(capsys, path, *ASK, "--insecure-diagnostics")["diagnostics"])
    assert seen[0] != seen[1]


# --- the people --------------------------------------------------------------------------------------


@pytest.fixture
def read(capsys, monkeypatch):
    """The people that ``discreet select FILE OPTIONS`` reads."""
    seen = []
    of_events = Coverage.of_events.__func__

    def noted(family, found, **options):
        seen.append(of_events(family, found, **options))
        return seen[-1]

    monkeypatch.setattr(RowPopulation, "of_events", classmethod(noted))

    def people(*arguments):
        ended = inside(capsys, "select", *arguments, "--k", "1", "--epsilon", "1")
        assert ended.code == 0, ended.err
        return seen.pop()

    return people


def matrix(found) -> tuple:
    return found.indptr.tolist(), found.indices.tolist(), found.data.tolist(), found.labels


@pytest.mark.parametrize("rows_at_a_time", [1, 7, 1 << 16])
@pytest.mark.parametrize("kind", ["csv", "stdin"])
def test_people_do_not_depend_on_how_many_rows_are_read_at_a_time(
    visits, monkeypatch, read, rows_at_a_time, kind
):
    expected = Coverage.from_events(visits, person="user", item="page")
    monkeypatch.setattr("discreet.data.read.BLOCK", rows_at_a_time)
    monkeypatch.setattr("discreet.data.events._MOST_UNMERGED", 10 * rows_at_a_time)
    path: object = visits
    if kind == "stdin":
        monkeypatch.setattr(
            sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(visits.read_bytes())))
        )
        path = "-"
    assert matrix(read(path, *OWN)) == matrix(expected)


def test_bad_rows_are_left_out_when_asked_and_their_people_stay(file, read):
    path = file("u,i,w\na,x,1\n,x,1\nb,,1\nc,q,1\nd,x,2\nd,x,many\n\ne, ,1\nnan,x,1\n")
    listed = file("i\nx\ny\n", "items.csv")
    people = read(path, "--person", "u", "--item", "i", "--weight", "w", "--items", listed, "--skip-bad")
    assert len(people) == 5  # a, b, c, d, e
    assert people.indptr.tolist() == [0, 1, 1, 1, 2, 2]  # a weight of 2 counts as 1
    assert people.n_items == 2


def test_a_weight_out_of_range_is_refused_and_never_dropped(file, capsys, read):
    """Ratings from 1 to 5: without --skip-bad the scale is asked for, with it none of them is lost."""
    rows = [
        ("a", "x", 5),
        ("b", "y", 1),
        ("c", "y", 0.25),
        ("d", "x", -3),
        ("e", "x", "many"),
        ("f", "y", "inf"),
    ]
    path = file("u,i,w\n" + "".join(f"{u},{i},{w}\n" for u, i, w in rows))
    listed = file("i\nx\ny\n", "items.csv")
    asked = ("--person", "u", "--item", "i", "--weight", "w", "--items", listed)
    refused = inside(capsys, "select", path, *asked, "--k", 1, "--epsilon", 1)
    assert_refused(refused, "weights must lie in [0, 1], so divide ratings by the highest there can be")
    assert "--skip-bad" not in refused.err
    people = read(path, *asked, "--skip-bad")
    assert len(people) == 6
    assert people.data.tolist() == [1.0, 1.0, 0.25, 1.0]


def test_what_is_skipped_is_said_as_a_rule(file, capsys, tmp_path):
    """The same words whatever is left out: what is wrong with somebody's row shows in nothing."""
    listed = file("i\nx\ny\n", "items.csv")
    asked = ("--person", "u", "--item", "i", "--weight", "w", "--items", listed, "--skip-bad")
    said = set()
    rows = {"good": "b,y,1", "bad": "b,,1", "high": "b,y,7", "none": "b,y,many", "accent": "b,\xe9,1"}
    for name, row in rows.items():
        path = file(f"u,i,w\na,x,1\n{row}\n".encode("cp1252"), f"{name}.csv")
        reading = selected(capsys, path, *asked, "--k", 1, "--epsilon", 1)["reading"]
        said.add(tuple(one for one in reading if "left out" in one or "nearest number within" in one))
        ended = inside(capsys, "prepare", path, *asked, "--highest", 1, "--to", tmp_path / name)
        assert "outside [0, 1] counted as the nearest" in " ".join(ended.out.split())
    [rule] = said
    assert len(rule) == 3
    assert rule[2] == "Weights outside [0, 1] counted as the nearest number within."
    assert rule[1].startswith("Rows with text that is not UTF-8 were left out as well.")


def test_rows_that_are_left_out_bring_no_items(file, read):
    """An item that only bad rows have is not among those that are chosen from."""
    path = file("u,i,w\na,x,1\nb,y,many\n,z,1\nc,x,1\n")
    people = read(path, "--person", "u", "--item", "i", "--weight", "w", "--items-from-data", "--skip-bad")
    assert (people.labels, len(people)) == (("x",), 3)


def test_a_cap_goes_by_the_person(file, capsys, monkeypatch):
    """Somebody more in the file, first or last, with few items or all: nobody else keeps other items."""
    seen = []
    select = PrivateGreedy.select
    monkeypatch.setattr(
        PrivateGreedy, "select", lambda self, people: seen.append(people) or select(self, people)
    )
    others = "".join(f"{person},{item}\n" for person in range(20) for item in range(person % 3, 9))
    items = file("i\n" + "".join(f"{item}\n" for item in range(9)), "items.csv")
    ask = ("--person", "u", "--item", "i", "--items", items, "--k", "2", "--epsilon", "1", "--cap", "2")
    more = ("--neighbours", "add_remove", "--seed", "5")
    kept = []
    for ann in ("", "ann,3\n", "".join(f"ann,{item}\n" for item in range(9))):
        for text in (ann + others, others + ann):
            assert inside(capsys, "select", file("u,i\n" + text), *ask, *more).code == 0
            rows = seen.pop().as_rows().sparse.toarray().tolist()
            if ann:
                rows.pop(0 if text.startswith("ann") else -1)
            kept.append(rows)
    assert all(rows == kept[0] for rows in kept)
    assert {sum(row) for row in kept[0]} == {2.0}


# --- bad files and bad options -----------------------------------------------------------------------


GZIPPED = gzip.compress(b"user,page\n" + b"a,x\n" * 1000, mtime=0)
ZSTD = pyarrow.compress(b"user,page\n" + b"a,x\n" * 1000, "zstd", asbytes=True)
GARBAGE = bytes(range(256)) * 50
BAD_FILES = {
    "only a header": ("a.csv", "user,page\n", "there are no items: the ground set is empty"),
    "empty": ("a.csv", "", "a.csv is empty; the first line must name the columns"),
    "blank": ("a.csv", "\n\n", "is empty"),
    "no person": (
        "a.csv",
        "user,page\na,x\n,y\n",
        "an entry of column 'user' is missing, or is neither text nor a number; every event needs its person",
    ),
    "no item": (
        "a.csv",
        "user,page\na,x\nb,\n",
        "nor a number; every event needs its item; fix the row, or leave",
    ),
    "not a number": ("a.csv", "user,page\na,NaN\n", "an entry of column 'page' is missing"),
    "open quote": ("a.csv", 'user,page\na,"x\n' + "y" * 200_000, "in quotes does not end on its line"),
    "quote left open at the end": (
        "a.csv",
        'user,page\na,"x\nb,y\nc,z\n',
        "a cell in quotes does not end on its line; nothing tells whose rows the next lines are",
    ),
    "a quote that others close": ("a.csv", 'user,page\na,"x\nb,y\nc,z"\n', "does not end on its line"),
    "behind a quote": ("a.csv", 'user,page\na,"x"y\n', "a row has something behind a closing quote; fix"),
    "endless line": ("a.csv", "user,page\n" + "y" * 2_000_000, "longer than a million letters"),
    "garbage": ("a.csv", GARBAGE, "is not"),
    "odd header": (
        "a.csv",
        b"us\xe9r,page\na,x\n",
        "a.csv, line 1: the header is not UTF-8 text; if the file",
    ),
    "UTF-16": ("a.csv", "user,page\na,x\n".encode("utf-16"), "is UTF-16 text"),
    "Excel": ("a.xlsx", b"PK\x03\x04" + bytes(50), 'save the sheet with the rows as "CSV UTF-8"'),
    "old Excel": ("a.xls", b"\xd0\xcf\x11\xe0" + bytes(50), 'save the sheet with the rows as "CSV UTF-8"'),
    "zip": ("a.csv", b"PK\x03\x04" + bytes(50), "a zip archive, or a workbook; unpack it"),
    "cut xz": (
        "a.csv.xz",
        lzma.compress(b"user,page\n" + b"a,x\n" * 1000)[:-20],
        "was it copied completely?",
    ),
    "cut bz2": ("a.csv.bz2", bz2.compress(b"user,page\n" + b"a,x\n" * 1000)[:-5], "compressed and damaged"),
    "changed bz2": ("a.csv.bz2", b"BZh9" + GARBAGE, "a.csv.bz2 is compressed and damaged"),
    "cut zst": ("a.csv.zst", ZSTD[:-5], "was it copied completely?"),
    "Feather": ("a.feather", GARBAGE, "not a complete Feather file"),
    "old Feather": ("a.feather", b"FEA1" + GARBAGE, "Feather of the first version"),
    "cut gzip": ("a.csv.gz", GZIPPED[:-20], "compressed and damaged"),
    "changed gzip": ("a.csv.gz", GZIPPED[:-8] + bytes(8), "compressed and damaged"),
    "garbage behind a gzip header": ("a.csv.gz", GZIPPED[:10] + GARBAGE, "compressed and damaged"),
    "empty Parquet": ("a.parquet", b"", "not a complete Parquet file"),
    "garbage in Parquet": ("a.parquet", GARBAGE, "not a complete Parquet file"),
    "Parquet by its first bytes": ("a.csv", b"PAR1" + GARBAGE, "not a complete Parquet file"),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_bad_files(file, capsys, case):
    name, content, words = BAD_FILES[case]
    assert_refused(inside(capsys, "select", file(content, name), *ASK), words)


@pytest.mark.parametrize(
    ("content", "details"),
    [
        ("a,x,1\nMARK\n", "line 3: 1 cells"),
        ("a,x,1\n,y,1\n", "line 3"),
        ("a,x,1\nb,y,MARK\n", "line 3: 'MARK'"),
        ("a,x,1\nb,MARK,1\n", "line 3: the item 'MARK'"),
    ],
)
def test_a_refused_row_is_named_only_where_diagnostics_are_asked_for(file, capsys, content, details):
    """Neither the place of a row nor what stands in it is said without the option, whoever else is there."""
    listed = ("--items", file("page\nx\ny\n", "items.csv"), "--weight", "much")
    said = []
    for before in ("", "c,x,1\n", "c,x,1\nd,y,1\n"):
        path = file("user,page,much\n" + before + content, "a.csv")
        said.append(inside(capsys, "select", path, *LISTED, *listed))
        assert_refused(said[-1], "(--insecure-diagnostics names the row)")
    assert said[0] == said[1] == said[2]
    assert "MARK" not in said[0].err
    path = file("user,page,much\n" + content, "a.csv")
    asked = ("select", path, *LISTED, *listed, "--insecure-diagnostics")
    assert_refused(inside(capsys, *asked), details)


def test_bad_columns_of_parquet(file, capsys):
    import pandas

    path = file("", "a.parquet")
    pandas.DataFrame({"user": [1, 2], "page": [[1], [2]], "other": [1.0, math.nan]}).to_parquet(path)
    assert_refused(inside(capsys, "select", path, *ASK), "--item page holds list<")
    asked = ("--person", "user", "--item", "other", "--items-from-data", "--k", "1", "--epsilon", "1")
    assert_refused(inside(capsys, "select", path, *asked), "an entry of column 'other' is missing")
    asked = ("--person", "user", "--item", "no", "--items-from-data", "--k", "1", "--epsilon", "1")
    assert_refused(
        inside(capsys, "select", path, *asked),
        "--item no is not a column of the table in a.parquet, which has 'user', 'page', 'other'",
    )
    content = path.read_bytes()
    path.write_bytes(content[:20] + b"\xff" * 60 + content[80:])  # the footer is whole, the pages are not
    asked = ("--person", "user", "--item", "other", "--items-from-data", "--k", "1", "--epsilon", "1")
    assert_refused(inside(capsys, "select", path, *asked), "not a complete Parquet file")


def test_missing_file(capsys, tmp_path):
    assert_refused(inside(capsys, "select", "nowhere.csv", *ASK), "nowhere.csv: no such file")
    assert_refused(inside(capsys, "select", tmp_path, *ASK), "is a directory that holds no files ending in")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((*OWN, "--k", "21", "--epsilon", "1"), "--k 21 exceeds the number of items, 20"),
        ((*OWN, "--k", "0", "--epsilon", "1"), "--k=0 is too small"),
        ((*OWN, "--epsilon", "1"), "say how many items"),
        ((*OWN, "--k", "2", "--epsilon", "0"), "epsilon=0.0 must be greater than 0"),
        ((*OWN, "--k", "2", "--epsilon", "nan"), "epsilon is NaN"),
        ((*OWN, "--k", "2", "--epsilon", "inf"), "--epsilon inf guarantees nothing"),
        ((*ASK, "--delta", "1"), "delta=1.0 must be less than 1"),
        ((*ASK, "--method", "zcdp"), "it needs delta > 0"),
        ((*ASK, "--neighbours", "none"), "invalid choice: 'none'"),
        ((*ASK, "--cap", "0"), "--cap=0 is too small"),
        ((*ASK, "--separator", "ab"), "--separator ab: must be one character"),
        ((*ASK, "--release-gains", "1"), "release_gains=1.0 must be less than 1"),
        ((*ASK, "--seed", "-1"), "seed=-1 is too small"),
        ((*ASK, "--constraint", "matroid:x"), "write partition:COL"),
        ((*ASK, "--constraint", "knapsack:price"), "write partition:COL"),
        ((*ASK, "--constraint", "knapsack:price:much"), "LIMIT must be a number"),
        ((*ASK, "--constraint", "knapsack:price:0.5"), "no item fits under the limit"),
        ((*ASK, "--constraint", "knapsack:page:3"), "an item has something else in column 'page'"),
        ((*ASK, "--constraint", "partition:user"), "an item has one value of the constraint's column"),
        (
            (*ASK, "--constraint", "partition:nothing"),
            "--constraint nothing is not a column of the table in visits.csv",
        ),
        ((*ASK, "--weight", "price"), "a weight that is not allowed; weights must lie in [0, 1]"),
        ((*ASK, "--out", "/"), "is a directory"),
        ((*LISTED, "--items", "-"), "is empty"),
        ((*OWN, "--k", "2", "--epsilon", "1e-310"), "is below 1e-12"),
        ((*ASK, "--neighbours", "add_remove", "--max-people", "0"), "--max-people=0 is too small"),
    ],
)
def test_bad_options(visits, capsys, monkeypatch, options, words):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(b""))))
    assert_refused(inside(capsys, "select", visits, *options), words)


def test_a_bad_catalogue(visits, file, capsys):
    def refused(content, words, *more):
        asked = ("select", visits, *LISTED, "--items", file(content, "items.csv"), *more)
        assert_refused(inside(capsys, *asked), words)

    refused("page,size\n", "items.csv lists no items")
    refused(
        "page,size\nx,\n",
        "items.csv, line 2: an entry of column 'size' is missing",
        "--constraint",
        "knapsack:size:3",
    )
    refused(
        "page,size\nx,1\nx,2\n",
        "items.csv, line 3: item 'x' has '1' and '2' in column 'size'",
        "--constraint",
        "knapsack:size:3",
    )
    refused(
        "page\np00\n",
        "--items does not list the item of every event; fix the row, or leave such rows out with --skip-bad",
    )
    refused(
        "title,size\nx,1\n",
        "--item page is not a column of the table in items.csv, which has 'title', 'size'",
    )


def test_both_files_cannot_be_standard_input(capsys):
    assert_refused(inside(capsys, "select", "-", *LISTED, "--items", "-"), "cannot both be standard input")


# --- interruption ------------------------------------------------------------------------------------


def test_ctrl_c_ends_in_one_line_and_leaves_no_file(tmp_path):
    out = tmp_path / "chosen.json"
    program = subprocess.Popen(
        [sys.executable, "-m", "discreet", "select", "-", *ASK, "--out", str(out)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # tests in the background ignore it
    )
    # More than a pipe holds: once it is written, the command has read most of it and waits for the rest.
    program.stdin.write("user,page\n" + "a,x\n" * 200_000)
    program.stdin.flush()
    program.send_signal(signal.SIGINT)
    out_text, err_text = program.communicate(timeout=600)
    assert program.returncode == 130
    assert (out_text, err_text) == ("", "discreet select: interrupted\n")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_device_or_a_pipe_is_written_to_and_not_replaced(visits, tmp_path):
    """Else `--out /dev/null`, run as root, would take the device from everybody."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE, text=True) as reader:
        ended = process("select", visits, *ASK, "--out", pipe)
        if not pipe.is_fifo():
            reader.kill()  # nobody will ever write to it
        read, _ = reader.communicate(timeout=600)
    assert (ended.code, ended.err) == (0, "")
    assert len(json.loads(read)["items"]) == 3
    assert pipe.is_fifo()
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]


def test_result_is_written_before_it_is_printed(visits, tmp_path, capsys, monkeypatch):
    """A list that was shown and not kept would have to be paid for again."""
    seen = []
    out = tmp_path / "chosen.json"
    monkeypatch.setattr(select.SelectionReport, "text", lambda *_: seen.append(out.exists()) or "")
    assert inside(capsys, "select", visits, *ASK, "--out", out).code == 0
    assert seen == [True]


# --- sentences ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("epsilon", "words"),
    [
        ("1", "2.719"),
        ("1e-12", "1.001"),
        ("0.5", "1.649"),
        ("5", "148.5"),
        ("1000", "e^1000"),
        ("1e308", "e^1e+308"),
    ],
)
def test_the_factor_of_a_list_is_rounded_up(visits, pages, capsys, epsilon, words):
    """e is more than 2.718: a list may become so much more likely, and the sentence must not say less."""
    asked = (*COLUMNS, "--items", pages, "--k", "2", "--epsilon", epsilon)
    found = inside(capsys, "select", visits, *asked)
    assert f"no list would have become more than {words} times as likely" in " ".join(found.out.split())


def test_the_private_file_is_no_public_list(file, capsys, tmp_path):
    """Its own items listed by name are the items that occur, which only --items-from-data may say."""
    path, link = file("user,page\nann,x\nbob,y\n"), tmp_path / "link.csv"
    link.symlink_to(path)
    for listed in (path, link, path.parent / "." / path.name):
        asked = ("select", path, *COLUMNS, "--items", listed, "--k", "1", "--epsilon", "1")
        assert_refused(inside(capsys, *asked), "is FILE itself", "--items-from-data")


def test_a_first_line_that_is_somebody_s_is_not_repeated(file, pages, capsys):
    path = file("Ann Miller,p01\nBob,p02\n")
    asked = ("select", path, *LISTED, "--items", pages)
    refused = inside(capsys, *asked)
    assert_refused(refused, "--person user is not a column of the table in events.csv")
    assert "Miller" not in refused.err
    assert "p01" not in refused.err
    assert_refused(inside(capsys, *asked, "--insecure-diagnostics"), "it has 'Ann Miller', 'p01'")
    with pytest.raises(dc.DataError) as refused:
        Coverage.from_events(path, person="user", item="page", items=["p01"])
    assert "Miller" not in str(refused.value)
    assert "Miller" in refused.value.details


def test_what_stops_the_command_is_said_to_be_public(file, pages, capsys):
    """Whatever can end it early, with and without --skip-bad, and who is counted, is in the list."""
    path = file("user,page\nann,p01\nbob,p02\n")
    asked = ("select", path, *LISTED, "--items", pages, "--json")
    strict, lenient = (
        json.loads(inside(capsys, *asked, *more).out)["treated_as_public"] for more in ((), ("--skip-bad",))
    )
    assert strict[-1].startswith("that every row of the file is well formed and has a listed item")
    assert "the number of people, 2" in strict
    assert "the number of people, 2, those with a row that can be read" in lenient
    assert "no damage, cells in quotes that end on their line, no line of more than a million" in lenient[-1]
    for cell, words in (('"', "does not end on its line"), ("b" * 2_000_000, "a line is longer")):
        path = file(f"user,page\nann,p01\n{cell},p02\n")
        asked = ("select", path, *LISTED, "--items", pages, "--skip-bad")
        assert_refused(inside(capsys, *asked), words)


def test_what_is_refused_in_spite_of_skip_bad(file, capsys, tmp_path):
    """What docs/privacy.md says of it, and no word about whose row or which item it is."""
    asked = ("--person", "u", "--item", "i", "--epsilon", 1, "--items-from-data", "--skip-bad", "--k", 1)
    path = file("u,i,kind\n1,tea,a\n2,tea,b\n3,jam,a\n", "a.csv")
    ended = inside(capsys, "select", path, *asked, "--constraint", "partition:kind")
    assert_refused(ended, "a.csv: an item has two values; an item has one value of the constraint's column")
    assert "tea" not in ended.err
    moments = pyarrow.array([1, 2], pyarrow.timestamp("us"))
    times = pyarrow.table({"u": [1, 2], "i": ["tea", "jam"], "w": moments})
    pyarrow.parquet.write_table(times, tmp_path / "a.parquet")
    ended = inside(capsys, "select", tmp_path / "a.parquet", *asked, "--weight", "w")
    assert_refused(ended, "--weight w must be a column of numbers, got datetime64[us]")
    ended = inside(capsys, "select", file("u,i\n,tea\n", "a.csv"), *asked)
    assert_refused(ended, "there are no items")
    promised = " ".join(
        (Path(__file__).parents[2] / "docs" / "privacy.md").read_text(encoding="utf-8").split()
    )
    for words in (
        "two rows that give one item two values",
        "in which nobody can be read",
        "a weight column of",
    ):
        assert words in promised


@pytest.mark.parametrize("method", ["basic", "subsampled"])
def test_chooses_what_the_library_chooses(visits, capsys, method):
    result = selected(capsys, visits, *ASK, "--method", method, "--seed", "5")
    people = Coverage.from_events(visits, person="user", item="page")
    selection = PrivateGreedy(3, dc.Gate(dc.Budget(1.0), 5), method).select(people)
    assert result["items"] == list(selection.labels)
    assert result["method"] == method
    assert result["account"] == json.loads(json.dumps(selection.privacy.to_json()))


def test_constraints_hold(visits, file, capsys):
    about = {page: (department, int(price)) for _, page, department, price in events(600)}
    result = selected(capsys, visits, *ASK, "--constraint", "partition:department")
    assert sorted(about[page][0] for page in result["items"]) == ["d0", "d1", "d2"]
    result = selected(capsys, visits, *OWN, "--constraint", "partition:department:2", "--epsilon", "1")
    assert sorted(about[page][0] for page in result["items"]) == ["d0", "d0", "d1", "d1", "d2", "d2"]
    result = selected(capsys, visits, *OWN, "--constraint", "knapsack:price:6", "--epsilon", "1")
    assert 0 < sum(about[page][1] for page in result["items"]) <= 6
    result = selected(capsys, visits, *OWN, "--epsilon", "1", "--constraint", "knapsack:price:3", "--k", "2")
    assert 0 < sum(about[page][1] for page in result["items"]) <= 3
    assert len(result["items"]) <= 2
    sold = file("page,kind\n" + "".join(f"p{page:02},book\n" for page in range(20)), "items.csv")
    for each, k in ((2, 5), (5, 2)):  # one kind alone
        asked = (*COLUMNS, "--items", sold, "--epsilon", "1", "--constraint", f"partition:kind:{each}")
        assert len(selected(capsys, visits, *asked, "--k", k)["items"]) == 2


def test_constraint_columns_come_from_the_catalogue(visits, file, capsys):
    pages = [f"p{page:02}" for page in range(25)]  # five more than anybody has
    listed = file("page,size\n" + "".join(f"{page},{1 + i}\n" for i, page in enumerate(pages)), "items.csv")
    result = selected(
        capsys, visits, *COLUMNS, "--items", listed, "--constraint", "knapsack:size:9", "--epsilon", "9"
    )
    assert 0 < sum(1 + pages.index(page) for page in result["items"]) <= 9
    assert "the 25 items listed by --items" in result["treated_as_public"]


def test_a_private_list_of_items_stands_in_the_account(visits, capsys):
    budget = ("--epsilon", "8", "--delta", "1e-6", "--items-private", "0.25")
    result = selected(capsys, visits, *COLUMNS, "--k", "3", *budget)
    account = Account.from_json(result["account"])
    labels = [(label, event.epsilon) for label, event, _ in account.ledger.counts]
    assert [epsilon for _, epsilon in labels] == [2, 6]
    assert labels[0][0].startswith("catalogue")
    assert account.delta(8.0) == 1e-6
    assert result["guarantee"]["epsilon"] == 8.0
    assert set(result["items"]) <= set(result["catalogue"])
    assert len(result["items"]) == 3
    text = " ".join(inside(capsys, "select", visits, *COLUMNS, "--k", "3", *budget).out.split())
    assert "items to choose from were listed by a private choice" in text
    assert "listed with a probability of at most 1e-06" in text


def test_numbers_are_the_same_names_in_every_kind_of_file(file, read, capsys):
    """Wholes without a point, bytes as text: the names of a public list in CSV, and those printed."""
    import pandas

    table = pandas.DataFrame({"u": [1.0, 2.0, 2.0], "i": [10.0, 9.0, 10.0], "b": [b"x", b"y", b"x"]})
    table.to_parquet(path := file("", "a.parquet"))
    for column, items in (("i", ["9", "10"]), ("b", ["x", "y"])):
        asked = (path, "--person", "u", "--item", column)
        listed = file("name\n" + "\n".join(items) + "\n", "items.csv")
        found = read(*asked, "--items-from-data")
        assert matrix(read(*asked, "--items", listed))[:3] == matrix(found)[:3]
        chosen = selected(capsys, *asked, "--items-from-data", "--k", "2", "--epsilon", "1")["items"]
        assert sorted(chosen) == sorted(items)


def test_a_cap_is_a_cap(file, capsys, monkeypatch):
    """What is chosen from holds at most so many of each person's own items, and the output says so."""
    seen = []
    select = PrivateGreedy.select
    monkeypatch.setattr(
        PrivateGreedy, "select", lambda self, people: seen.append(people) or select(self, people)
    )
    path = file("u,i\n" + "".join(f"a,{item:02}\n" for item in range(50)) + "b,01\nb,02\n")
    columns = ("--person", "u", "--item", "i", "--items-from-data")
    asked = (path, *columns, "--k", "2", "--epsilon", "1", "--cap", "3")
    assert any("at most 3 items of each person" in said for said in selected(capsys, *asked)["reading"])
    [people] = seen
    assert np.diff(people.indptr).tolist() == [3, 2]
    assert people.indices[3:].tolist() == [1, 2]


ONE_PERSON = """
    import resource, sys
    from discreet.cli import main
    ask = ["--person", "user", "--item", "page", "--k", "2", "--epsilon", "9", "--items-from-data"]
    assert main(["select", sys.argv[1], *ask]) == 0  # everything is loaded now
    pages = int(open("/proc/self/statm").read().split()[0])
    limit = pages * resource.getpagesize() + (110 << 20)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    sys.exit(main(["select", sys.argv[2], *ask]))
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="needs /proc")
def test_memory_does_not_grow_with_the_rows_of_one_person(visits, tmp_path):
    """Three million rows, 36 MB of text and about 400 MB as a list of rows, within 110 MB."""
    path = tmp_path / "one.csv"
    with path.open("w") as out:
        out.write("user,page\n")
        block = "".join(f"just one,p{row % 100}\n" for row in range(100_000))
        for _ in range(30):
            out.write(block)
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(ONE_PERSON), str(visits), str(path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
    )
    assert run.returncode == 0, run.stderr
    assert "the number of people, 1\n" in run.stdout
    held = f"""
        import resource, sys
        pages = int(open("/proc/self/statm").read().split()[0])
        limit = pages * resource.getpagesize() + (110 << 20)
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        rows = [line.split(",") for line in open({str(path)!r})]
    """
    naive = subprocess.run([sys.executable, "-c", textwrap.dedent(held)], capture_output=True, check=False)
    assert b"MemoryError" in naive.stderr  # the limit is one that a list of rows does not keep


def test_an_interrupted_write_leaves_what_was_there(visits, tmp_path, capsys, monkeypatch):
    out = tmp_path / "chosen.json"
    out.write_text("before")

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    ended = inside(capsys, "select", visits, *ASK, "--out", out)
    assert ended == (130, "", "discreet select: interrupted\n")
    assert [path.name for path in tmp_path.iterdir()] == ["chosen.json"]
    assert out.read_text() == "before"


def test_groups_and_other_lists_cost_delta_as_well(visits, pages, capsys):
    asked = ("select", visits, *LISTED, "--items", pages)
    with_delta, without = (
        " ".join(inside(capsys, *asked, *more).out.split()) for more in (("--delta", "1e-6"), ())
    )
    for words in ("twice as large, the delta more than that.", "its epsilon and its delta again."):
        assert words in with_delta
        assert words not in without
    assert "twice as large." in without
    assert "its epsilon again." in without
