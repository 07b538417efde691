"""discreet recommend: fit a model to files, and ask it; discreet plan --personal."""

from __future__ import annotations

import itertools
import json
import os
import stat
import sys
from types import SimpleNamespace

import numpy as np
import pytest

import discreet as dc
from discreet.evaluation.personal import compare_recommenders

from .running import assert_refused, inside, printed

ITEMS = [f"{kind}{i}" for kind in ("tea", "beer", "soap") for i in range(4)]


@pytest.fixture
def files(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    rows = np.repeat(np.eye(3), 4, axis=1)[rng.integers(3, size=4000)] * (rng.random((4000, 12)) < 0.7)
    lines = [f"u{person},{ITEMS[item]}" for person, item in np.argwhere(rows)]
    (tmp_path / "visits.csv").write_text("user,page\n" + "\n".join(lines) + "\n")
    (tmp_path / "pages.csv").write_text("page\n" + "\n".join(ITEMS) + "\n")
    monkeypatch.chdir(tmp_path)
    return ["--person", "user", "--item", "page", "--items", "pages.csv", "--epsilon", "1", "--seed", "0"]


def test_fit_and_ask(files, capsys):
    found = printed(capsys, "recommend", "fit", "visits.csv", *files, "--to", "model", "--export", "m.json")
    assert found["reason"].startswith("n x mu = 9")
    assert found["epsilon"] <= 1.0
    assert found["delta"] == 1e-6
    assert found["private"] is False  # there is a seed
    asked = printed(capsys, "recommend", "for", "model", "--history", "tea1,tea2", "--k", "2")
    assert sorted(asked["items"]) == ["tea0", "tea3"]
    model = dc.load("model")
    assert list(model.recommend(["tea1", "tea2"], 2).labels) == asked["items"]
    with open("m.json") as file:
        assert json.load(file)["labels"] == ITEMS
    text = inside(capsys, "recommend", "for", "model", "--history", "beer1", "--k", "3")
    assert sorted(text.out.split()) == ["beer0", "beer2", "beer3"]
    given = printed(
        capsys, "recommend", "for", "model", "--history", "beer1", "--k", "2", "--include", "soap3",
        "--exclude", "beer0",
    )  # fmt: skip
    assert given["items"][0] == "soap3"
    assert given["items"][1] in ("beer2", "beer3")
    nothing = inside(capsys, "recommend", "for", "model", "--available", "tea1", "--history", "tea1")
    assert nothing.out == "nothing is left to show\n"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_model_goes_through_a_pipe_which_stays_one(files, capsys):
    os.mkfifo("pipe")
    reader = os.open("pipe", os.O_RDONLY | os.O_NONBLOCK)
    try:
        ended = inside(capsys, "recommend", "fit", "visits.csv", *files, "--to", "pipe")
        assert ended.code == 0, ended.err
        assert dc.load(os.read(reader, 1 << 16)).n_items == len(ITEMS)
    finally:
        os.close(reader)
    assert stat.S_ISFIFO(os.stat("pipe").st_mode)


def test_fit_says_what_was_spent(files, capsys):
    ended = inside(capsys, "recommend", "fit", "visits.csv", *files, "--to", "model")
    assert ended.code == 0
    assert "pairs of all 12 items" in ended.out
    assert "popularity of items" in ended.out
    assert "NOT PUBLIC as it stands: made with a seed" in ended.out
    unseeded = [word for word in files if word not in ("--seed", "0")]
    assert "may be given to anybody" in inside(capsys, "recommend", "fit", "visits.csv", *unseeded,
                                                  "--to", "model").out  # fmt: skip
    assert "says no more about you than the budget allows" in " ".join(ended.out.split())


def test_only_a_model_that_is_public_is_called_so(files, capsys):
    """Not with a seed, and not with a list of items that was read off the people's rows."""
    given = [*files[:4], *files[6:8], "--to", "model"]
    for options, private in (
        (["--items", "pages.csv"], True),
        (["--items-from-data"], False),
        (["--items", "pages.csv", "--seed", "0"], False),
    ):
        found = printed(capsys, "recommend", "fit", "visits.csv", *given, *options)
        assert found["private"] is private
        assert bool(found["not_private_because"]) is not private
        first = inside(capsys, "recommend", "fit", "visits.csv", *given, *options).out
        assert ("NOT PUBLIC as it stands" not in first) is private
        assert ("Public:" in first) is private


def test_unknown_items_of_a_history_are_left_out_with_a_note(files, capsys):
    inside(capsys, "recommend", "fit", "visits.csv", *files, "--to", "model")
    ended = inside(capsys, "recommend", "for", "model", "--history", "tea1,cofee", "--k", "3")
    assert ended.code == 0
    assert "cofee: not among the model's items" in ended.err
    assert sorted(ended.out.split()) == ["tea0", "tea2", "tea3"]


def test_models_and_lists_of_the_same_people_share_a_ledger(files, capsys):
    unseeded = [word for word in files if word not in ("--seed", "0")]
    fit = ["recommend", "fit", "visits.csv", *unseeded, "--to", "model", "--ledger", "people.ledger"]
    ended = inside(capsys, *fit, "--ledger-epsilon", "2.5")  # its delta is not 0 when it is left out
    assert_refused(ended, "--delta 1e-06: the ledger holds none; begin one with --ledger-delta\n")
    printed(capsys, *fit, "--ledger-epsilon", "2.5", "--ledger-delta", "2e-6")
    printed(capsys, *fit)
    # A model in its place would be the end of what was spent.
    assert_refused(inside(capsys, *fit[:-3], "people.ledger", *fit[-2:]), "is the file that is read")
    ended = inside(capsys, *fit)
    assert_refused(ended, "--epsilon 1 --delta 1e-06 does not fit into the ledger people.ledger", code=3)
    select = ["select", "visits.csv", *unseeded, "--k", "2", "--ledger", "people.ledger"]
    assert_refused(inside(capsys, *select), "does not fit", code=3)
    asked = [word if word != "1" else "0.5" for word in select]
    assert printed(capsys, *asked)["ledger"]["epsilon"] == 2.5
    account = printed(capsys, "report", "people.ledger")
    assert "discreet recommend visits.csv" in json.dumps(account)


def test_mistakes(files, capsys):
    fit = ["recommend", "fit", "visits.csv", *files]
    assert_refused(inside(capsys, *fit), "--to is missing")
    for read in ("visits.csv", "pages.csv"):
        assert_refused(inside(capsys, *fit, "--to", read), "is the file that is read")
        assert_refused(inside(capsys, *fit, "--to", "m", "--export", read), "is the file that is read")
    ended = inside(capsys, *fit, "--to", "m", "--export", "./m")
    assert_refused(ended, "--export ./m: is the file that is read, or the ledger, or another output")
    assert_refused(inside(capsys, *fit, "--to", "m", "--history", "tea1"), "--history is for")
    assert_refused(inside(capsys, *fit, "--to", "m", "--delta", "0"), "delta > 0")
    assert_refused(inside(capsys, *fit, "--to", "m", "--max-people", "9"), "max_people= is for")
    no_list = [word for word in fit if word not in ("--items", "pages.csv")]
    assert_refused(inside(capsys, *no_list, "--to", "m"), "which items are there?")
    for export in ("m.json", "m.npz"):
        inside(capsys, *fit, "--to", "model", "--export", export)
        refused = f"{export} is an export of a model, for a browser or an app; give the file that `save`"
        assert_refused(inside(capsys, "recommend", "for", export), refused)
    assert_refused(inside(capsys, "recommend", "for", "model", "--exclude", "cofee"), "is not an item")
    assert_refused(inside(capsys, "recommend", "for", "model", "--epsilon", "1"), "--epsilon is for")
    assert_refused(inside(capsys, "recommend", "for", "model", "--k", "13"), "k=13")
    assert_refused(inside(capsys, "recommend", "for", "pages.csv"), "not a state file")


@pytest.mark.parametrize("do", [("fit", "--to", "model"), ("evaluate", "--k", "2", "--splits", "1")])
def test_weights_lie_between_0_and_1(files, capsys, tmp_path, do):
    head, *rows = (tmp_path / "visits.csv").read_text().splitlines()
    lines = [f"{head},much", *(f"{row},{1.5 if place == 7 else 0.5}" for place, row in enumerate(rows))]
    (tmp_path / "visits.csv").write_text("\n".join(lines) + "\n")
    asked = ["recommend", do[0], "visits.csv", *files, *do[1:], "--weight", "much"]
    assert_refused(inside(capsys, *asked), "weights must lie in [0, 1]")
    said = inside(capsys, *asked, "--skip-bad").out
    assert "Weights outside [0, 1] counted as the nearest number within." in said


def test_presence_is_private_where_it_is_said(files, capsys):
    more = ["--neighbours", "add_remove", "--to", "model"]
    counted = printed(capsys, "recommend", "fit", "visits.csv", *files, *more)
    assert counted["neighbours"] == "add_remove"
    assert "number of people" in str(dc.load("model").privacy)
    printed(capsys, "recommend", "fit", "visits.csv", *files, *more, "--max-people", "5000")
    assert dc.load("model").n_people == 5000


@pytest.fixture
def facts(files, tmp_path):
    """The list of items with what is public about them, and few people: popularity alone is released."""
    kinds = {"tea": "warm drink,1,0", "beer": "cold drink,0,1", "soap": "for washing,-1,-1"}
    order = np.random.default_rng(1).permutation(12)  # nothing goes by position
    lines = [f"{ITEMS[i]},{kinds[ITEMS[i][:-1]]}" for i in order]
    (tmp_path / "pages.csv").write_text("page,about,x,y\n" + "\n".join(lines) + "\n")
    rows = (tmp_path / "visits.csv").read_text().splitlines()
    (tmp_path / "visits.csv").write_text("\n".join(rows[:2400]) + "\n")
    return files


@pytest.mark.parametrize("option", [["--features", "about"], ["--vectors", "x,y"]])
def test_public_features_of_the_list_of_items(facts, capsys, option):
    fit = ["recommend", "fit", "visits.csv", *facts, "--to", "model"]
    ask = ["recommend", "for", "model", "--history", "soap1", "--k", "3"]
    assert printed(capsys, *fit)["features"] is None
    assert set(printed(capsys, *ask)["items"]) != {"soap0", "soap2", "soap3"}
    found = printed(capsys, *fit, *option, "--export", "m.json")
    assert found["reason"].endswith("popularity alone")
    assert found["features"] >= 2
    for kind in ("tea", "beer", "soap"):
        asked = printed(capsys, "recommend", "for", "model", "--history", f"{kind}1", "--k", "3")
        assert sorted(asked["items"]) == [f"{kind}{i}" for i in (0, 2, 3)]
    with open("m.json") as file:
        assert len(json.load(file)["features"]) == 12


def test_mistakes_about_features(facts, capsys):
    fit = ["recommend", "fit", "visits.csv", *facts, "--to", "m"]
    assert_refused(inside(capsys, *fit, "--features", "abuot"), "abuot", "about")
    assert_refused(
        inside(capsys, *fit, "--vectors", "x,about"), "--vectors about", "words are for --features"
    )
    assert_refused(inside(capsys, *fit, "--features", "page"), "no two items have a word in common")
    assert_refused(inside(capsys, *fit, "--features", " , "), "names no column")
    listless = [word for word in fit if word not in ("--items", "pages.csv")] + ["--items-from-data"]
    assert_refused(inside(capsys, *listless, "--features", "about"), "--features names columns of --items")
    assert_refused(inside(capsys, "recommend", "for", "m", "--features", "about"), "--features is for")


def test_evaluate_in_the_clear(files, capsys, tmp_path):
    asked = ["recommend", "evaluate", "visits.csv", *files, "--k", "2", "--splits", "2", "--out", "quality"]
    found = printed(capsys, *asked)
    assert found["private"] is False
    rows = {row["name"]: row for row in found["rows"]}
    people = dc.objectives.Coverage.from_events("visits.csv", person="user", item="page", items=ITEMS)
    expected = compare_recommenders(people, dc.Budget(1.0, 1e-6), 2, seeds=[0, 1])
    assert list(rows) == list(expected.found)
    for name, row in rows.items():
        for figure in ("hit_rate", "recall", "ndcg"):
            assert row[figure] == pytest.approx(expected.mean(name, figure), abs=1e-12), name
    assert rows["personal"]["hit_rate"] > rows["popularity"]["hit_rate"] + 0.2
    assert rows["EASE, not private"]["hit_rate"] > rows["popularity"]["hit_rate"] + 0.2
    page = (tmp_path / "quality" / "report.html").read_text()
    assert "Computed in the clear" in page
    assert "item-kNN, not private" in page
    assert f"{rows['personal']['ndcg']:.3f}" in page
    assert "data:image/svg" in page

    ended = inside(capsys, *asked)
    assert "NOT PRIVATE" in ended.out
    assert "pairs of all 12 items" in ended.out
    assert not (tmp_path / "model").exists()


def test_mistakes_of_evaluate(files, capsys):
    evaluate = ["recommend", "evaluate", "visits.csv", *files]
    assert_refused(inside(capsys, *evaluate, "--to", "model"), "--to is for discreet recommend fit")
    assert_refused(inside(capsys, *evaluate, "--history", "tea1"), "--history is for discreet recommend for")
    assert_refused(inside(capsys, *evaluate, "--k", "13"), "--k")
    assert_refused(inside(capsys, *evaluate, "--splits", "0"), "--splits")
    assert_refused(
        inside(capsys, "recommend", "fit", "visits.csv", *files, "--splits", "2"), "--splits is for"
    )


def test_plan(capsys):
    asked = ["plan", "--k", "5", "--epsilon", "1", "--delta", "1e-6", "--n-items", "217", "--personal"]
    few, many = (printed(capsys, *asked, "--rounds", n) for n in (1000, 24000))
    assert few["personal"] is False
    assert many["personal"] is True
    assert few["people_needed"] == many["people_needed"] == 1479  # 350 / mu
    assert many["paired_items"] == 217
    ended = inside(capsys, *asked, "--rounds", 1000)
    assert "do not pay yet: from about 1,479 people" in ended.out
    # One person moves a sum of numbers in [0, 1] by 1, and one of unit vectors by sqrt 2.
    alone = [word if word != "217" else "1" for word in [*asked[:1], "--k", "1", *asked[3:]]]
    assert printed(capsys, *alone, "--rounds", 1000)["people_needed"] == 1046  # 350 / mu / sqrt 2


def test_long_work_says_how_far_it_is_on_a_terminal(files, capsys, monkeypatch):
    fit = ["recommend", "fit", "visits.csv", *files, "--to"]
    evaluate = ["recommend", "evaluate", "visits.csv", *files, "--k", "2", "--splits", "2"]
    assert inside(capsys, *evaluate).err == ""
    assert inside(capsys, *fit, "quiet").err == ""
    ticks = itertools.count(0.0, 3.0)
    monkeypatch.setattr("discreet.core.text.time", SimpleNamespace(monotonic=lambda: next(ticks)))
    monkeypatch.setattr("discreet.data.read.time", SimpleNamespace(monotonic=lambda: next(ticks)))
    monkeypatch.setattr("discreet.data.read.BLOCK", 4096)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    said = inside(capsys, *evaluate).err
    assert "models: 3 of 10 (" in said
    assert "models: 10 in" in said
    said = inside(capsys, *fit, "watched").err
    assert "reading: 2" in said
    assert "fitting: 1 of 3 (" in said
