"""``discreet select`` on a store."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest

import discreet as dc
from discreet.core.text import track
from discreet.data import Store, prepare, private_catalogue
from discreet.objectives import stored as engines
from tests.cli.running import assert_refused, inside, printed

BUDGET = ("--k", "2", "--epsilon", "3", "--delta", "1e-6", "--method", "zcdp", "--seed", "4", "--json")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path, rng = tmp_path_factory.mktemp("select"), np.random.default_rng(2)
    users, pages = rng.integers(0, 150, 900), (rng.random(900) ** 2 * 8).astype(int)
    lines = [f"{user},page {page}" for user, page in zip(users, pages, strict=True)]
    (path / "visits.csv").write_text("\n".join(["user,page", *lines, ""]))
    listed = [f"page {j},{'ab'[j % 2]},{j + 1}" for j in range(8)]
    (path / "pages.csv").write_text("\n".join(["page,kind,price", *listed, ""]))
    (path / "other.csv").write_text("\n".join(["page,kind,price", *listed[:0:-1], "page x,a,1", ""]))
    (path / "all.csv").write_text("\n".join(["page,kind,price", *listed[::-1], "page x,a,1", ""]))
    items = [f"page {j}" for j in range(8)]
    prepare(path / "visits.csv", person="user", item="page", items=items, to=path / "people", progress=False)
    return path


def test_a_store_gives_what_the_file_gives(capsys, folder):
    file = ("--person", "user", "--item", "page", "--items", folder / "pages.csv")
    ended = [
        inside(capsys, "select", folder / "visits.csv", *file, *BUDGET),
        inside(capsys, "select", folder / "people", *BUDGET),
        inside(capsys, "select", folder / "people", "--engine", "threads", *BUDGET),
    ]
    assert [one.code for one in ended] == [0, 0, 0]
    found = [json.loads(one.out) for one in ended]
    for name in ("items", "guarantee", "account", "method"):
        assert found[0][name] == found[1][name] == found[2][name]
    assert "the 8 items of the store's catalogue" in found[1]["treated_as_public"]
    assert str(folder) not in ended[1].out


def test_options_about_items_and_true_counts(capsys, folder):
    rest = ("--include", "page 7", "--exclude", "page 0", "--insecure-diagnostics")
    ended = inside(capsys, "select", folder / "people", *rest, *BUDGET)
    found = json.loads(ended.out)
    assert found["items"][0] == "page 7"
    assert "page 0" not in found["items"]
    assert found["diagnostics"]["pairs"] == Store.open(folder / "people").n_entries


@pytest.mark.parametrize(
    "rest",
    [
        ("--constraint", "partition:kind"),
        ("--constraint", "partition:kind:2", "--k", "3"),
        ("--constraint", "knapsack:price:6"),
        ("--constraint", "partition:kind", "--constraint", "knapsack:price:9"),
        ("--constraint", "partition:kind", "--release-gains", "0.3", "--include", "page 7"),
    ],
    ids=" ".join,
)
def test_constraints_about_a_list_of_items(capsys, folder, rest):
    """The list may have another order, and items that the store has not."""
    file = ("--person", "user", "--item", "page", "--items", folder / "pages.csv")
    given = (*BUDGET[2:], *rest)
    ended = [
        inside(capsys, "select", folder / "visits.csv", *file, *given),
        inside(capsys, "select", folder / "people", "--item", "page", "--items", folder / "all.csv", *given),
    ]
    assert [one.code for one in ended] == [0, 0], ended[1].err
    found = [json.loads(one.out) for one in ended]
    for name in ("items", "guarantee", "account", "method"):
        assert found[0][name] == found[1][name]
    assert found[1]["treated_as_public"][1].startswith("what the constraint")


@pytest.mark.parametrize("seed", [None, 0])
def test_a_store_whose_list_was_chosen_privately(capsys, tmp_path, seed):
    """What is excluded is not chosen, and a list that was drawn with a seed protects nobody."""
    table = {"user": range(900), "page": ["tea"] * 600 + ["jam", "milk"] * 150}
    listed = private_catalogue(table, dc.Budget(9.0, 1e-6), person="user", item="page", seed=seed)
    prepare(table, person="user", item="page", items=listed, to=tmp_path / "people")
    asked = ("select", tmp_path / "people", "--k", "1", "--epsilon", "50", "--exclude", "tea")
    found = printed(capsys, *asked)
    assert found["items"][0] in ("jam", "milk")
    assert found["excluded"] == ["tea"]
    assert found["private"] == (seed is None)
    said = "So the list may be published" if seed is None else "this output protects no one"
    assert said in found["reading"][0]
    assert len(found["not_private_because"]) == (seed == 0)


def test_a_cluster_gives_the_same(capsys, folder):
    distributed = pytest.importorskip("distributed", reason="NOT TESTED: install discreet[dask]")
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=2, processes=False, dashboard_address=":0"
    ) as cluster:
        dask = ("--engine", "dask", "--scheduler", cluster.scheduler_address)
        ended = inside(capsys, "select", folder / "people", *dask, *BUDGET)
    alone = inside(capsys, "select", folder / "people", *BUDGET)
    assert (ended.code, ended.out) == (0, alone.out)


def test_a_cluster_that_fails_is_one_line(capsys, folder, monkeypatch):
    def lost(*_):
        raise engines.EngineError("the Dask cluster has had no workers for 300 s")

    monkeypatch.setattr(engines.Threads, "total", lost)
    ended = inside(capsys, "select", folder / "people", *BUDGET)
    assert_refused(ended, "no workers for 300 s")


def test_options_that_do_not_go_together(capsys, folder):
    budget = ("--k", "2", "--epsilon", "1")
    people, visits = folder / "people", folder / "visits.csv"
    for given, said in (
        ((people, "--person", "user"), "--person is for files"),
        ((people, "--cap", "3"), "--cap is for files"),
        ((people, "--constraint", "partition:kind"), "a store keeps their names alone"),
        ((people, "--items", folder / "pages.csv"), "are for --constraint"),
        (
            (people, "--constraint", "partition:kind", "--item", "page", "--items", folder / "other.csv"),
            "add what is missing: 'page 0'",
        ),
        ((people, "--engine", "dask"), "go together"),
        ((people, "--scheduler", "tcp://127.0.0.1:1"), "go together"),
        ((visits, "--item", "page"), "required: --person"),
        ((visits, "--person", "user", "--item", "page", "--engine", "threads"), "FILE is not one"),
        ((folder,), "required: --person, --item"),
    ):
        assert_refused(inside(capsys, "select", *given, *budget), said)


def test_picks_from_a_store_say_how_far_they_are_on_a_terminal(capsys, folder, monkeypatch):
    assert inside(capsys, "select", folder / "people", *BUDGET).err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    ended = inside(capsys, "select", folder / "people", *BUDGET)
    assert "picking: 2 in" in ended.err
    json.loads(ended.out)


def test_progress_that_ends_early_leaves_the_line_to_others(capsys):
    for place in track(range(3), "steps", True):
        if place == 1:
            break
    assert capsys.readouterr().err == "\rsteps: 0 of 3  \n"
