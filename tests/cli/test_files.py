"""Files as people have them: separators, compression, patterns, odd headers or none; what --items means."""

from __future__ import annotations

import bz2
import encodings.aliases
import gzip
import itertools
import json
import lzma
import random
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pyarrow
import pytest

from discreet.cli import COMMANDS, parser_of, simulate
from discreet.data import Store, read_events
from discreet.evaluation.simulation import Config
from discreet.objectives import Coverage

from .running import Ended, assert_refused, inside, printed

ROWS = [("ann", "tea"), ("bob", "milk"), ("ann", "jam"), ("cy", "tea"), ("dora", "bread")]
HEADER = ("user id", "page")
ASK = ("--person", "user id", "--item", "page", "--k", "2", "--epsilon", "1", "--seed", "1")
OPTIONS = (*ASK, "--items-from-data")


def text(mark: str = ",", header: tuple[str, ...] | None = HEADER, rows=ROWS) -> str:
    return "".join(mark.join(row) + "\n" for row in ([header] if header else []) + rows)


@pytest.fixture
def chosen(capsys):
    """What is chosen from a file, and how many people were counted."""

    def select(*arguments: object) -> tuple[list[str], str]:
        found = printed(capsys, "select", *arguments)
        count = next(said for said in found["treated_as_public"] if said.startswith("the number of people"))
        return found["items"], count

    return select


def kinds(folder) -> dict[str, tuple[object, ...]]:
    """The same rows in every kind of file, with what has to be said about it."""
    frame = pd.DataFrame(ROWS, columns=list(HEADER))
    plain = text().encode()
    for name, content in {
        "a.csv": plain,
        "a.tsv": text("\t").encode(),
        "semicolons.csv": text(";").encode(),
        "bars.txt": text("|").encode(),
        "tabs.csv": text("\t").encode(),
        "colons.txt": text(":").encode(),
        "a.csv.gz": gzip.compress(plain),
        "a.tsv.gz": gzip.compress(text("\t").encode()),
        "a.csv.bz2": bz2.compress(plain),
        "a.csv.xz": lzma.compress(plain),
        "a.csv.zst": pyarrow.compress(plain, "zstd", asbytes=True),
        "blanks.csv": text(header=(" user id ", " page")).encode(),
        "mark.csv": b"\xef\xbb\xbf" + plain,
        "quoted.csv": text(header=('"user id"', '"page"')).encode(),
        "bare.csv": text(header=None).encode(),
        "bare.tsv": text("\t", header=None).encode(),
        "twice.csv": text(header=("user id", "page", "page"), rows=[(*row, "x") for row in ROWS]).encode(),
        "others.csv": text(header=(*HEADER, "n", "n"), rows=[(*row, "1", "2") for row in ROWS]).encode(),
    }.items():
        (folder / name).write_bytes(content)
    frame.to_parquet(folder / "a.parquet")
    frame.to_feather(folder / "a.feather")
    frame.iloc[:2].to_csv(folder / "part1.csv", index=False)
    frame.iloc[2:].to_csv(folder / "part2.tsv", index=False, sep="\t")
    (folder / "day").mkdir()
    frame.to_csv(folder / "day" / "a.csv", index=False)
    paths = {path.name: (path,) for path in folder.iterdir() if not path.name.startswith("part")}
    paths["colons.txt"] += ("--separator", ":")
    paths["bare.csv"] += ("--columns", "user id,page")
    paths["bare.tsv"] += ("--columns", "user id,page")
    paths["twice.csv"] = (folder / "twice.csv", "--item", "#2")
    paths["a pattern"] = (f"{folder}/part*",)
    paths["two files"] = (folder / "part1.csv", folder / "part2.tsv")
    return paths


def test_every_kind_of_file_is_the_same_people(chosen, tmp_path):
    found = kinds(tmp_path)
    want = chosen(tmp_path / "a.csv", *OPTIONS)
    assert want[1] == "the number of people, 4"
    for name, options in found.items():
        asked = OPTIONS[:2] + OPTIONS[4:] if "--item" in options else OPTIONS
        assert chosen(*options, *asked) == want, name


def test_a_store_reads_the_same_files(capsys, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "items.csv").write_text("page\ntea\nmilk\njam\nbread\n")
    (tmp_path / "key").write_text("00" * 32)
    digests = set()
    for name, options in kinds(tmp_path / "in").items():
        column = [] if "--item" in options else ["--item", "page"]
        asked = [*options, *column, "--person", "user id", "--items", tmp_path / "items.csv"]
        ended = inside(capsys, "prepare", *asked, "--key", tmp_path / "key", "--to", tmp_path / name)
        assert ended.code == 0, (name, ended.err)
        digests.add(json.dumps(Store.open(tmp_path / name).manifest["parts"]))
    assert len(digests) == 1


def test_a_file_without_a_header_is_suspected(capsys, tmp_path):
    """In the same words whatever stands in its first line, of which nothing is repeated."""
    said = set()
    for rows in (ROWS, ROWS[1:]):
        (tmp_path / "a.csv").write_text(text(header=None, rows=rows))
        said.add(inside(capsys, "select", tmp_path / "a.csv", *OPTIONS))
    (ended,) = said
    assert_refused(ended, "if its first line is a row and no header, name its columns with --columns")
    assert "ann" not in ended.err
    assert "bob" not in ended.err


@pytest.mark.parametrize("bad", [(), ("--skip-bad",)])
def test_no_row_decides_how_others_are_read(capsys, tmp_path, bad):
    """Without a header the name of the file decides what separates columns, and never somebody's row."""
    (tmp_path / "items.csv").write_text("page\ntea\nmilk\njam\nbread\n")
    (tmp_path / "a.csv").write_text("zoe;tea\n" + text(header=None))
    asked = ("select", tmp_path / "a.csv", *ASK, "--items", tmp_path / "items.csv")
    ended = inside(capsys, *asked, "--columns", "user id,page", "--json", *bad)
    if not bad:
        assert_refused(ended, "a row has another number of cells than --columns, which has 2")
    else:
        assert "the number of people, 4, those" in ended.out


def test_a_wrong_column_names_the_near_ones(capsys, tmp_path):
    (tmp_path / "a.csv").write_text(text())
    asked = ["select", tmp_path / "a.csv", *OPTIONS]
    near = ["userid" if one == "user id" else one for one in asked]
    refused = inside(capsys, *near)
    assert_refused(refused, "--person userid is not a column", "did you mean 'user id'?")
    # Where the other column is missing too the first line may be somebody's.
    refused = inside(capsys, *["pagina" if one == "page" else one for one in near])
    assert "did you mean" not in refused.err
    (tmp_path / "items.csv").write_text("pages,price\ntea,1\n")
    listed = ("select", tmp_path / "a.csv", *ASK, "--items", tmp_path / "items.csv")
    assert_refused(inside(capsys, *listed), "which has 'pages', 'price'; did you mean 'pages'?")


def test_two_columns_of_one_name(capsys, tmp_path):
    kinds(tmp_path)
    refused = inside(capsys, "select", tmp_path / "twice.csv", *OPTIONS)
    assert_refused(refused, "2 columns named 'page' (#2 and #3)", "such as --item #3")


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ("a,a", "names 'a' twice"),
        (",", "is empty"),
        ("user id", "another number of cells than --columns, which has 1"),
    ],
)
def test_mistakes_in_columns(capsys, tmp_path, names, words):
    (tmp_path / "a.csv").write_text(text(header=None))
    asked = ["user id" if one == "page" else one for one in OPTIONS]
    assert_refused(inside(capsys, "select", tmp_path / "a.csv", *asked, "--columns", names), words)


def test_columns_are_for_text(capsys, tmp_path):
    kinds(tmp_path)
    for name, kind in (("a.parquet", "Parquet"), ("a.feather", "Feather")):
        ended = inside(capsys, "select", tmp_path / name, *OPTIONS, "--columns", "user id,page")
        assert_refused(ended, f"is {kind}, which names its columns")


def test_a_list_of_items_among_the_files_is_not_public(capsys, tmp_path):
    kinds(tmp_path)
    for listed in (tmp_path / "part1.csv", f"{tmp_path}/part1*", tmp_path):
        asked = ("select", f"{tmp_path}/part*", *ASK, "--items", listed)
        assert_refused(inside(capsys, *asked), "is FILE itself, so that which items are listed is private")
    (tmp_path / "items.csv").write_text("page\ntea\njam\n")
    public = ("select", tmp_path / "part1.csv", *ASK, "--items", tmp_path / "items.csv")
    for option in ("--include", "--exclude", "--candidates"):  # a row was told as what is no item
        ended = inside(capsys, *public, "--columns", "user,page", option, f"@{tmp_path}/part1.csv")
        assert_refused(ended, f"{option} @{tmp_path}/part1.csv: is FILE itself")


@pytest.mark.parametrize(("file", "listed"), [("-", "a.csv"), ("a.csv", "-"), ("-", "/dev/stdin")])
def test_standard_input_that_is_the_file_of_events_is_no_public_list(tmp_path, file, listed):
    """It was listed as public, and what only one person has was chosen by name."""
    (tmp_path / "a.csv").write_text(text())
    file, listed = (one if one == "-" else tmp_path / one for one in (file, listed))
    command = [sys.executable, "-m", "discreet", "select", file, *ASK, "--items", listed]
    with open(tmp_path / "a.csv") as stdin:
        ended = subprocess.run(command, stdin=stdin, capture_output=True, text=True, check=False)
    assert_refused(Ended(ended.returncode, ended.stdout, ended.stderr), "is FILE itself")


# --- simulate and plan ---------------------------------------------------------------------------------


def test_simulate_takes_a_catalogue_and_a_separator(capsys, tmp_path):
    (tmp_path / "a.csv").write_text(text(":", rows=ROWS * 2))
    (tmp_path / "items.csv").write_text(
        "page\n" + "".join(f"{item}\n" for item in ("jam", "tea", "milk", "bread", "x"))
    )
    asked = ("simulate", "--events", tmp_path / "a.csv", *ASK[:4], "--separator", ":", "--k", 2)
    quick = ("--learner", "popularity", "--repeats", 1, "--workers", 1, "--json")
    ended = inside(capsys, *asked, *quick, "--items", tmp_path / "items.csv", "--out", tmp_path / "one")
    assert ended.code == 0, ended.err
    assert json.loads(ended.out)["conditional_on_the_list_of_items"] == []
    ended = inside(capsys, *asked, *quick, "--out", tmp_path / "two")
    assert json.loads(ended.out)["conditional_on_the_list_of_items"] == ["a.csv"]
    (tmp_path / "items.csv").write_text("page\njam\n")
    ended = inside(capsys, *asked, *quick, "--items", tmp_path / "items.csv", "--out", tmp_path / "one")
    assert_refused(ended, "does not list the item of every event")


def config(*arguments: object) -> Config:
    """What ``discreet simulate`` would run."""
    return simulate._config(parser_of("simulate").parse_args([str(one) for one in arguments]))


@pytest.mark.filterwarnings("ignore:the first line of")
@pytest.mark.parametrize("header", ["", "page\n", "products\n"])
def test_items_mean_the_same_in_every_command(capsys, tmp_path, header):
    """Four items, whether the list has a header, one of another name, or none, which has to be said."""
    (tmp_path / "a.csv").write_text(text())
    (tmp_path / "items.txt").write_text(header + "tea\nmilk\njam\nbread\n")
    items = ("--items", tmp_path / "items.txt", "--item", "page")
    items += () if header else ("--items-columns", "page")
    files = (*items, "--person", "user id")
    rest = ("--k", 2, "--rounds", 500, "--epsilon", 1, "--goal", "certified")
    for words, command in {
        "of 4 items": ("plan", *items, *rest),
        "the 4 items listed": ("select", tmp_path / "a.csv", *files, "--k", 2, "--epsilon", 1),
        "over 4 items": ("prepare", tmp_path / "a.csv", *files, "--to", tmp_path / "store"),
    }.items():
        ended = inside(capsys, *command)
        assert ended.code == 0, ended.err
        assert words in ended.out
        assert ("is taken for the name of its column" in ended.err) == (header == "products\n"), ended.err
    assert config("--events", tmp_path / "a.csv", *files, "--k", 2).streams[0].people(0).n_items == 4
    without = ("plan", "--n-items", 4, *rest, "--items-columns", "page")
    assert_refused(inside(capsys, *without), "--items-columns is about --items FILE, which is missing")


def test_a_list_of_items_may_call_its_column_otherwise(capsys, tmp_path):
    (tmp_path / "a.csv").write_text(text())
    (tmp_path / "items.csv").write_text("page title,price\ntea,1\nmilk,2\njam,3\nbread,4\n")
    asked = (tmp_path / "a.csv", "--person", "user id", "--item", "page", "--items", tmp_path / "items.csv")
    rest = ("--k", 2, "--epsilon", 1, "--show", "price")
    refused = inside(capsys, "select", *asked, *rest)
    assert_refused(refused, "did you mean 'page title'?; if it is called otherwise there", "--items-item")
    otherwise = (*asked, "--items-item", "page title")
    assert "the 4 items listed" in inside(capsys, "select", *otherwise, *rest).out
    assert inside(capsys, "prepare", *otherwise, "--to", tmp_path / "store").code == 0
    assert config("--events", *otherwise, "--k", 2).streams[0].people(0).n_items == 4
    stored = (
        "select",
        tmp_path / "store",
        "--item",
        "page",
        *asked[-2:],
        "--items-item",
        "page title",
        *rest,
    )
    assert inside(capsys, *stored).code == 0
    refused = inside(capsys, "select", *asked, "--items-item", "pages", *rest)
    assert_refused(refused, "--items-item pages is not a column of the table in items.csv")
    for option in (("--constraint", "knapsack:cost:80"), ("--show", "cost")):
        refused = inside(capsys, "select", *otherwise, *rest[:4], *option)
        assert_refused(refused, f"select: {option[0]} cost is not a column of the table in items.csv")
    plain = ("plan", *asked[-2:], "--k", 1, "--rounds", 9, "--epsilon", 1)
    assert_refused(inside(capsys, *plain), "--item (item unless you say which column) is not a column")


def test_simulate_knows_what_is_learned_after_a_round(capsys):
    names = [one.name for one in config("--feedback", "slots").learners]
    clicks = [f"{one}(feedback=slots)" for one in ("planner", "ThompsonSelector", "BanditSelector")]
    assert names == [*clicks, "random", "popularity", "greedy"]
    assert [one.name for one in config().learners][:2] == ["planner", "PhasedSelector"]
    refused = inside(capsys, "simulate", "--feedback", "bandit", "--learner", "hedge")
    assert_refused(refused, "'HedgeSelector' learns from people's whole taste", "ThompsonSelector, planner")


def test_python_takes_patterns_folders_and_lists(tmp_path):
    kinds(tmp_path)
    for table in (f"{tmp_path}/part*", tmp_path / "day", [tmp_path / "part1.csv", tmp_path / "part2.tsv"]):
        people = Coverage.from_events(table, person="user id", item="page")
        assert (len(people), people.labels) == (4, ("bread", "jam", "milk", "tea"))
    (tmp_path / "items.csv").write_text("page\ntea\nmilk\njam\nbread\n")
    options = {"columns": ["user id", "page"], "items": tmp_path / "items.csv"}
    people = Coverage.from_events(tmp_path / "bare.csv", person="user id", item="page", **options)
    assert (len(people), people.labels, people.catalogue) == (4, ("tea", "milk", "jam", "bread"), "public")


def test_a_separator_that_the_name_does_not_tell_is_suspected(capsys, tmp_path):
    (tmp_path / "a.txt").write_text(text("\t", header=None))
    (tmp_path / "items.txt").write_text("tea\thot\nmilk\tcold\n")
    asked = ("select", tmp_path / "a.txt", *ASK, "--items", tmp_path / "items.txt")
    refused = inside(capsys, *asked, "--items-columns", "page,kind")
    assert_refused(
        refused, "items.txt, line 1: 1 cells, and --items-columns has 2; if its columns", "separator tab"
    )
    refused = inside(capsys, *asked, "--separator", "tab")
    assert_refused(refused, "which has 'tea', 'hot'; if", "first line is a row", "with --items-columns")
    asked = ("select", tmp_path / "a.txt", *ASK, "--items-from-data", "--columns", "user id,page")
    assert_refused(
        inside(capsys, *asked), "which has 2; if its columns are separated by tab, say --separator tab;"
    )


def test_a_list_of_items_without_a_header(chosen, tmp_path):
    (tmp_path / "a.csv").write_text(text())
    (tmp_path / "items.txt").write_text("tea\nmilk\njam\nbread\n")
    listed = ("--items", tmp_path / "items.txt", "--items-columns", "page")
    assert len(chosen(tmp_path / "a.csv", *ASK, *listed)[0]) == 2


def test_plan_counts_a_list_of_items(capsys, tmp_path):
    (tmp_path / "items.csv").write_text("page,price\n" + "".join(f"p{n},1\n" for n in range(30)))
    rest = ("--k", 2, "--rounds", 500, "--epsilon", 1, "--goal", "certified", "--json")
    counted = inside(capsys, "plan", "--items", tmp_path / "items.csv", "--item", "page", *rest)
    said = inside(capsys, "plan", "--n-items", 30, *rest)
    assert json.loads(counted.out)["candidates"] == json.loads(said.out)["candidates"]
    assert_refused(inside(capsys, "plan", *rest), "Give --n-items N, or --items FILE")


def test_items_is_a_file_in_every_command():
    found = set()
    for name in COMMANDS:
        options = {one: action for action in parser_of(name)._actions for one in action.option_strings}
        if "--items" in options:
            found.add(name)
            assert (options["--items"].metavar, options["--items"].type) == ("FILE", None), name
            assert {"--item", "--separator", "--items-columns"} <= set(options), name
    assert found == {"select", "prepare", "simulate", "plan", "recommend"}


def test_a_list_without_its_header_is_suspected_where_an_item_is_missing(capsys, tmp_path):
    """The first item became the name of the column, and somebody has it: the note says so as well."""
    (tmp_path / "a.csv").write_text(text())
    (tmp_path / "items.txt").write_text("tea\nmilk\njam\nbread\n")
    ended = inside(capsys, "select", tmp_path / "a.csv", *ASK, "--items", tmp_path / "items.txt")
    note, refusal = ended.err.splitlines()
    assert "note: the first line of items.txt, 'tea', is taken for the name" in note
    assert "--items does not list the item of every event" in refusal


def test_simulate_takes_files_as_select_does(capsys, tmp_path):
    """Patterns, folders and several files are the people of one file."""
    parts = [tmp_path / "parts" / "1.csv", tmp_path / "parts" / "2.csv"]
    parts[0].parent.mkdir()
    (tmp_path / "whole.csv").write_text(text())
    parts[0].write_text(text(rows=ROWS[:2]))
    parts[1].write_text(text(rows=ROWS[2:]))
    whole, *others = (
        config("--events", *files, *ASK[:4], "--k", 2).streams[0].people(1)
        for files in ([tmp_path / "whole.csv"], [f"{tmp_path}/parts/*"], [tmp_path / "parts"], parts)
    )
    for people in others:
        assert people.labels == whole.labels
        assert [people[i].value([0, 1]) for i in range(4)] == [whole[i].value([0, 1]) for i in range(4)]
    refused = inside(capsys, "simulate", "--events", f"{tmp_path}/none*", *ASK[:4])
    assert_refused(refused, "no file is named like")


def test_feedback_of_a_configuration_is_that_of_its_learners():
    def settings(feedback, *learners):
        tables = [{"learner": one} if isinstance(one, str) else one for one in learners]
        asked = {"streams": [{"family": "drifting"}], "learners": tables, "feedback": feedback}
        return [dict(one.settings) for one in Config.of(asked).learners]

    assert settings("bandit", "planner", "bandit", "random") == [{"feedback": "bandit"}, {}, {}]
    assert settings("full", "planner", "hedge") == [{"feedback": "full"}, {}]
    own = {"learner": "thompson", "feedback": "bandit"}
    assert settings("slots", "bandit", own) == [{"feedback": "slots"}, {"feedback": "bandit"}]
    with pytest.raises(ValueError, match="feedback='clicks'"):
        settings("clicks", "planner")


# --- encodings ----------------------------------------------------------------------------------------

CAFE = "user,page\nann,café\nbob,tea\nrené,tea\n"
PAGES = "page\ncafé\ntea\n"
READ_BY = {
    "select": (("--k", 1, "--epsilon", 9), "reading"),
    "prepare": (("--to", "{to}"), "left_out"),
    "recommend fit": (("--epsilon", 9, "--to", "{to}"), "left_out"),
}


def reading(tmp_path, command: str, encoding: str = "cp1252", listed: str = "utf-8") -> list[object]:
    """The command over two files in these encodings."""
    (tmp_path / "a.csv").write_bytes(CAFE.encode(encoding))
    (tmp_path / "pages.csv").write_bytes(PAGES.encode(listed))
    more = [
        str(one).format(to=tmp_path / f"to{len(list(tmp_path.iterdir()))}") for one in READ_BY[command][0]
    ]
    columns = ["--person", "user", "--item", "page", "--items", tmp_path / "pages.csv"]
    return [*command.split(), tmp_path / "a.csv", *columns, *more]


@pytest.mark.parametrize("command", READ_BY)
def test_a_file_in_another_encoding_is_refused_with_what_to_say(capsys, tmp_path, command):
    """Of people's rows without the line, which is a detail; of a public list with it."""
    hint = "is not UTF-8 text; if the file is in another encoding, say which, e.g. --encoding cp1252"
    asked = reading(tmp_path, command)
    refused = inside(capsys, *asked)
    assert_refused(refused, f"a.csv: an entry of column 'user' {hint}; fix the row")
    assert "line 4" not in refused.err
    assert_refused(inside(capsys, *asked, "--insecure-diagnostics"), hint, ": line 4")
    refused = inside(capsys, *reading(tmp_path, command, "utf-8", "cp1252"))
    assert_refused(refused, f"pages.csv, line 2: an entry of column 'page' {hint}")
    assert_refused(
        inside(capsys, *asked, "--encoding", "utf-16"), "--encoding utf-16: must be an encoding that extends"
    )
    refused = inside(capsys, *reading(tmp_path, command, "cp1252", "cp1252"), "--encoding", "ascii")
    assert_refused(refused, "line 2: an entry of column 'page' is not ascii text", "--encoding utf-8")


@pytest.mark.parametrize("command", READ_BY)
def test_a_file_in_an_encoding_that_is_named_is_read(capsys, tmp_path, command):
    ended = inside(capsys, *reading(tmp_path, command, "cp1252", "cp1252"), "--encoding", "cp1252")
    assert ended.code == 0, ended.err
    (tmp_path / "a.csv").write_bytes(CAFE.encode("cp1252"))
    people = read_events(tmp_path / "a.csv", person="user", item="page", encoding="cp1252")
    assert (people.items, people.people) == (("café", "tea"), ("ann", "bob", "rené"))


@pytest.mark.parametrize("command", READ_BY)
def test_what_skip_bad_leaves_out_for_its_encoding_is_said_apart(capsys, tmp_path, command):
    """Always the same sentence: whether there are such rows is private, and how many."""
    said = []
    for encoding in ("cp1252", "utf-8"):
        found = printed(capsys, *reading(tmp_path, command, encoding), "--skip-bad")[READ_BY[command][1]]
        words = found if isinstance(found, str) else next(one for one in found if "not UTF-8" in one)
        said.append(words.partition("Rows with text")[2])
    assert said[0] == said[1]
    assert said[0].startswith(" that is not UTF-8 were left out as well. In a file in another encoding")


def test_who_is_counted_with_skip_bad_is_said(capsys, tmp_path):
    """A row of another width names nobody: which of its cells the person would be, nothing tells."""
    asked = (*reading(tmp_path, "select", "utf-8"), "--skip-bad")
    counted = {}
    for row in ("zoe,", "zoe,tea,more"):
        (tmp_path / "a.csv").write_text(f"{CAFE}{row}\n", encoding="utf-8")
        found = printed(capsys, *asked)
        counted[row] = next(one for one in found["treated_as_public"] if "number of people" in one)
    assert "people, 4," in counted["zoe,"]
    assert "people, 3," in counted["zoe,tea,more"]
    assert any("unless it is of another width, which names no one" in one for one in found["reading"])


@pytest.mark.parametrize("option", ["--include", "--candidates", "--exclude"])
def test_lists_from_data_that_options_do_not_allow_are_refused(capsys, tmp_path, option):
    """docs/privacy.md lists them: they show what is in a file, whose list of items is not protected."""
    path = tmp_path / "a.csv"
    path.write_text("user,page\nann,tea\n", encoding="utf-8")
    value = "tea" if option == "--exclude" else "jam"
    columns = ("--person", "user", "--item", "page", "--items-from-data", "--skip-bad")
    assert inside(capsys, "select", path, *columns, "--k", 1, "--epsilon", 1, option, value).code == 2
    page = (Path(__file__).parents[2] / "docs" / "privacy.md").read_text(encoding="utf-8")
    assert f"`{option}`" in page.partition("**With `--skip-bad`**")[2].partition("\n- ")[0]


def test_how_many_rows_are_of_another_encoding_is_a_diagnostic(capsys, tmp_path):
    asked = (*reading(tmp_path, "select"), "--skip-bad", "--insecure-diagnostics")
    assert printed(capsys, *asked)["diagnostics"]["rows_of_another_encoding"] == 2
    assert "rows left out as of another encoding" in inside(capsys, *asked).out
    assert "another_encoding" not in str(printed(capsys, *reading(tmp_path, "select"), "--skip-bad"))


def test_simulate_and_plan_take_an_encoding(capsys, tmp_path):
    reading(tmp_path, "select", "cp1252", "cp1252")
    files = ("--events", tmp_path / "a.csv", "--items", tmp_path / "pages.csv", "--encoding", "cp1252")
    asked = ("--person", "user", "--item", "page", "--k", 1, "--learner", "random", "--repeats", 1)
    assert config(*files, *asked).streams[0].people(1).labels == ("café", "tea")
    said = inside(capsys, "simulate", *files, *asked, "--skip-bad", "--out", tmp_path / "out").out
    assert "Rows with text that is not cp1252 were left out as well." in " ".join(said.split())
    question = ("--item", "page", "--k", 1, "--rounds", 9, "--epsilon", 1, "--goal", "certified")
    refused = inside(capsys, "plan", *files[2:4], *question)
    assert_refused(refused, "pages.csv, line 2: an entry of column 'page' is not UTF-8 text")
    assert inside(capsys, "plan", *files[2:], *question).code == 0


def test_a_list_of_items_in_lines_has_the_same_encoding_and_words(capsys, tmp_path):
    asked = (*reading(tmp_path, "select", "cp1252", "cp1252"), "--exclude", f"@{tmp_path}/out.txt")
    (tmp_path / "out.txt").write_bytes("\ncafé\n".encode("cp1252"))
    hint = "if the file is in another encoding, say which, e.g. --encoding cp1252"
    assert_refused(inside(capsys, *asked), f"out.txt, line 2: is not UTF-8 text; {hint}")
    assert printed(capsys, *asked, "--encoding", "cp1252")["items"] == ["tea"]


COMMON = {"ascii", "latin_1", "cp1252", "utf_8", "utf_8_sig", "iso8859_15", "cp932", "gb18030", "euc_kr"}


def encodings_of_python() -> list[str]:
    return sorted({*encodings.aliases.aliases.values(), "utf_8_sig", "idna", "punycode", "unicode_escape"})


@pytest.mark.filterwarnings("ignore:.*invalid escape sequence")
@pytest.mark.parametrize("encoding", encodings_of_python())
def test_no_encoding_lets_a_row_decide_how_the_next_is_read(tmp_path, encoding):
    """Whatever bytes stand in a row, the rows around it are the same; other encodings are refused."""
    rng, path = random.Random(3), tmp_path / "a.csv"
    asked = {"person": "user", "item": "page", "encoding": encoding, "skip_bad": True}
    path.write_bytes(b"user,page\nann,tea\n")
    try:
        read_events(path, **asked)
    except ValueError as error:
        refused = str(error)
    else:
        refused = ""
    if refused:
        assert f"encoding={encoding}: must be an encoding that extends ASCII" in refused
        assert encoding not in COMMON
        return
    starts = [b"\x81\x30", b"\x1b$B", b"\x8f", b"\xa4\xd4", b"\x0e", b"~{", b"+AGE", b"\\"]
    odd = [*starts, *(start + bytes(set(rng.randbytes(3)) - set(b'\r\n"')) for start in starts)]
    for cell, end in itertools.product(odd, (b"\n", b"\r")):
        path.write_bytes(end.join([b"user,page", b"ann,tea", b"bob,x" + cell, b"c,m", b""]))
        people = read_events(path, **asked)
        assert [one for one in people.people if one != "bob"] == ["ann", "c"]
        assert {"tea", "m"} <= set(people.items)


def test_a_bad_row_changes_no_row_with_the_letter_that_stands_for_bad_ones(tmp_path):
    """GB 18030 can write U+FFFD: such a row is good, whatever stands in the others."""
    path, good = tmp_path / "a.csv", "user,page\n\ufffdann,te\ufffda\n".encode("gb18030")
    asked = {"person": "user", "item": "page", "encoding": "gb18030", "skip_bad": True}
    for row in (b"bob,tea", b"bob,\xff"):
        path.write_bytes(good + row + b"\n")
        found = read_events(path, **asked)
        assert (found.people, "te\ufffda" in found.items) == (("\ufffdann", "bob"), True)


@pytest.mark.parametrize("stop", ["\n", "\r\n", "\r"])
def test_without_a_header_a_mark_of_byte_order_is_no_letter_of_whichever_row(tmp_path, stop):
    """Files that were joined: were the mark left out of the first row only, a row before it would decide."""
    path, mark = tmp_path / "a.csv", "\ufeff"
    for before in ("", f"zoe,tea{stop}"):
        path.write_bytes(f'{before}{mark}ann,tea{stop}ann,jam{stop}{mark}"bob",{mark}tea{stop}'.encode())
        found = read_events(path, person="user", item="page", columns=["user", "page"])
        assert {"ann", "bob"} == set(found.people) - {"zoe"}
        assert set(found.items) == {"tea", "jam", f"{mark}tea"}
