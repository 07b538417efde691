"""``discreet plan``: the planner's answer, as text and as JSON."""

from __future__ import annotations

import json

import pytest

import discreet as dc

from .running import assert_refused, inside, process

QUESTION = ("--n-items", "100", "--k", "3", "--rounds", "20000", "--epsilon", "1", "--delta", "1e-6")


def test_prints_what_the_planner_says():
    ended = process("plan", *QUESTION, "--goal", "certified")
    assert (ended.code, ended.err) == (0, "")
    found = dc.plan(100, 3, 20_000, dc.Budget(1.0, 1e-6), goal="certified")
    assert sorted(ended.out.split()) == sorted(str(found).split())  # a pipe has room for wider tables


def test_json_holds_every_candidate(capsys):
    ended = inside(capsys, "plan", *QUESTION, "--cap", "2", "--stream", "stationary", "--json")
    assert ended.code == 0
    result = json.loads(ended.out)
    found = dc.plan(100, 3, 20_000, dc.Budget(1.0, 1e-6), stream="stationary", items_per_person=2)
    assert result["chosen"] == str(found.best)
    assert [one["learner"] for one in result["candidates"]] == [one.name for one in found.candidates]
    assert [one["certified"] for one in result["candidates"]] == [one.certified for one in found.candidates]
    assert sum(one["chosen"] for one in result["candidates"]) == 1
    assert result["settings"]["cap"] == 2


def test_budget_options_reach_the_planner(capsys):
    options = ("--neighbours", "add_remove", "--rounds-per-person", "3")
    result = json.loads(inside(capsys, "plan", *QUESTION, *options, "--json").out)
    found = dc.plan(100, 3, 20_000, dc.Budget(1.0, 1e-6, "add_remove", 3))
    assert result["candidates"][0]["certified"] == found.candidates[0].certified


def test_fits_a_narrow_terminal(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "44")
    ended = inside(capsys, "plan", *QUESTION)
    assert max(map(len, ended.out.splitlines())) <= 44
    assert "- * " in ended.out  # the chosen one is still marked


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--n-items", "3", "--k", "5", "--rounds", "10", "--epsilon", "1"), "k=5 exceeds n_items=3"),
        (("--n-items", "3", "--k", "2", "--rounds", "0", "--epsilon", "1"), "rounds=0 is too small"),
        (("--n-items", "3", "--k", "2", "--rounds", "9", "--epsilon", "-1"), "epsilon=-1.0 must be greater"),
        (("--n-items", "3", "--k", "2", "--rounds", "9", "--epsilon", "nan"), "epsilon is NaN"),
        (
            ("--n-items", "3", "--k", "2", "--rounds", "9", "--epsilon", "1", "--feedback", "no"),
            "feedback='no'",
        ),
        (("--n-items", "3", "--k", "2", "--rounds", "9", "--epsilon", "1", "--stream", "no"), "stream='no'"),
        (("--n-items", "x", "--k", "2", "--rounds", "9", "--epsilon", "1"), "--n-items: invalid int"),
    ],
)
def test_mistakes(capsys, options, words):
    assert_refused(inside(capsys, "plan", *options), words)
