"""Notebook cards: escaped, well formed, self-contained, and on any page's colours."""

from __future__ import annotations

import re
import threading
import time
from html.parser import HTMLParser
from types import SimpleNamespace

import numpy as np

import discreet as dc
from discreet.core import text as texts
from discreet.offline import PrivateGreedy
from discreet.online import PhasedSelector
from discreet.results import CostTrace, Trace


class Balanced(HTMLParser):
    """Follows the tags; every one that opens closes, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""

    def handle_starttag(self, tag, attrs):
        del attrs
        self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data + " "


def shown(thing) -> str:
    """The text that a reader sees, once the HTML is found to be in order."""
    html = thing._repr_html_()
    page = Balanced()
    page.feed(html)
    page.close()
    assert page.open == []
    assert not re.search(r"https?:|<script|<style|class=|src=", html)
    # Only greys that are half transparent: they show on black and on white.
    assert set(re.findall(r"(?:#[0-9a-f]{3,6}|rgba?\([^)]*\))", html)) <= {"rgba(128,128,128,.45)"}
    assert len(html) < 20_000
    return page.text


def test_reprs_are_short():
    budget = dc.Budget(1.0, 1e-6)
    assert repr(budget) == "Budget(epsilon=1.0, delta=1e-06)"
    other = dc.Budget(2.0, 0.0, "add_remove", 3)
    assert repr(other) == "Budget(epsilon=2.0, neighbours='add_remove', max_rounds_per_person=3)"
    assert eval(repr(other), {"Budget": dc.Budget}) == other
    plan = dc.plan(20, 2, 1_000, budget, goal="certified")
    learner = PhasedSelector(20, 2, budget, seed=0)
    for one in (budget, dc.Gate(budget), dc.privacy.Periods(budget), plan, learner, learner.privacy):
        assert len(repr(one)) < 250, repr(one)
        assert "\n" not in repr(one)
        assert " at 0x" not in repr(one)


def test_selection_shows_labels_and_its_account():
    people = dc.objectives.Coverage(
        [[1, 0, 0], [1, 1, 0], [0, 0, 1]] * 200, labels=["<i>tea</i>", "b&b", "jam"]
    )
    selection = PrivateGreedy(2, dc.Budget(1.0, 1e-6), release_gains=0.2, seed=0).select(people)
    text = shown(selection)
    assert "<i>tea</i>" in text  # as text, so it was escaped
    assert "gain (noisy)" in text
    assert "replace-one adjacency" in text
    assert "not private" in text  # a seed was given


def test_account_and_guarantee_show_every_release():
    gate = dc.Gate(dc.Budget(1.0), 0)
    assert "nothing has been released" in shown(gate.spent)
    gate.laplace([1.0], scale=4.0, sensitivity=1.0, label="a <count>")
    text = shown(gate.spent)
    assert "a <count>" in text
    assert "scale 4" in text
    guarantee = PhasedSelector(20, 2, dc.Budget(1.0, 1e-6), seed=0).privacy
    assert "exchangeable" in shown(guarantee)  # what a learner adds below the table


def test_traces_are_summed_up_and_marked():
    rewards = np.linspace(0.0, 1.0, 1000)
    text = shown(Trace(rewards, np.zeros((1000, 2), dtype=np.int32), "PhasedSelector"))
    assert "1,000 rounds" in text
    assert "0.5000" in text
    assert "facts about private people" in text
    assert "average cost" in shown(CostTrace(rewards, np.zeros((1000, 2)), "x"))
    assert "no rounds" in shown(Trace(np.zeros(0), np.zeros((0, 2), dtype=np.int32)))


def test_plan_marks_the_chosen_one():
    plan = dc.plan(50, 3, 5_000, dc.Budget(1.0, 1e-6))
    html = plan._repr_html_()
    text = shown(plan)
    assert plan.reason in text
    bold = re.findall(r"<td[^>]*font-weight:600[^>]*>([^<]*)</td>", html)
    assert bold[1] == plan.best.name


def test_budgets_gates_periods_releases_and_learners_have_cards():
    budget = dc.Budget(1.0, 1e-6)
    gate = dc.Gate(budget, 0)
    gate.choose([1.0, 5.0], rate=0.1, sensitivity=2.0)
    periods = dc.privacy.Periods(dc.Budget(1.0))
    periods.gate("2026-11").choose([1.0, 5.0], rate=0.25, sensitivity=2.0)
    assert "2.72 times as likely, plus a probability of 1e-06" in shown(budget)
    assert "No privacy" in shown(dc.Budget(float("inf")))
    assert "exponential" in shown(gate).lower()
    assert "2026-11" in shown(periods)
    assert "Release" in shown(dc.Gate(budget, 0).reserve(dc.privacy.GaussianNoise(1.0, 5.0)))
    assert "PhasedSelector" in shown(PhasedSelector(10, 2, budget, seed=0))


def test_given_items_are_marked_on_a_selection():
    chosen = dc.Selection((4, 2, 7), labels=("jam", "tea", "milk"), gains=(0.0, 5.0, 3.0), included=(4,))
    marked = " ".join(shown(chosen).split())
    assert marked == "2 chosen, 1 given item gain (noisy) 1 jam (given) 2 tea 5 3 milk 3"
    assert " ".join(shown(dc.Selection((4, 2), round=3)).split()) == "2 chosen, round 3 item 1 4 2 2"


def test_a_stream_is_drawn_in_fifty_stretches():
    steps = np.repeat(np.arange(50.0), 2)
    for costs, count in ((steps, 50), (steps[:6], 6)):
        html = CostTrace(costs, costs)._repr_html_()
        points = re.search(r'points="([^"]*)"', html)[1].split()
        assert len(points) == count
    means = texts.curve([float(step) for step in range(50)], "")
    assert re.search(r'points="([^"]*)"', means)[0] in CostTrace(steps, steps)._repr_html_()


def test_long_tables_are_cut_and_say_so():
    for count, more in ((49, ""), (50, ""), (1062, "and 1,012 more")):
        page = Balanced()
        page.feed(texts.grid(["item", "n"], [["tea", n] for n in range(count)]))
        assert page.text.split()[2:] == " ".join([*(f"tea {n}" for n in range(min(50, count))), more]).split()


def test_a_curve_is_drawn_from_edge_to_edge():
    """200 wide; the lowest value at height 38 from the top, the highest at 2."""
    for values, points in (
        ([1.0, 3.0, 2.0], "0.0,38.0 100.0,2.0 200.0,20.0"),
        ([7.0, 5.0], "0.0,2.0 200.0,38.0"),
        ([5.0, 5.0], "0.0,38.0 200.0,38.0"),
    ):
        drawn = texts.curve(values, "loss")
        assert f'points="{points}"' in drawn
        assert f"loss: {min(values):g} to {max(values):g}<" in drawn
    assert texts.curve([1.0], "loss") == ""


def test_progress_is_said_when_it_takes_long_and_not_too_often(capsys, monkeypatch):
    def said(*clock: float) -> str:
        ticks = iter(clock)
        monkeypatch.setattr(texts, "time", SimpleNamespace(monotonic=lambda: next(ticks)))
        assert list(texts.track(range(4), "steps", True, after=2.0)) == [0, 1, 2, 3]
        return capsys.readouterr().err

    # From the start until every step begins, then twice at the end.
    found = said(100.0, 100.5, 102.0, 102.15, 102.3, 102.5, 102.5)
    parts = [part.strip() for part in found.split("\r") if part]
    assert parts == ["steps: 1 of 4 (6 s left)", "steps: 3 of 4 (1 s left)", "steps: 4 in 2.5 s"]
    assert said(100.0, 100.2, 100.6, 101.0, 101.5, 101.9) == ""


def test_progress_is_said_in_the_middle_of_a_long_step(capsys):
    steps = texts.track(range(2), "steps", True, after=0.05)
    assert next(steps) == 0
    said, deadline = "", time.monotonic() + 60.0
    while not said and time.monotonic() < deadline:
        time.sleep(0.01)
        said = capsys.readouterr().err
    assert said.strip() == "steps: 0 of 2"
    steps.close()
    assert capsys.readouterr().err == "\n"  # what is said next has its own line
    quick = threading.active_count()
    assert list(texts.track(range(2), "steps", True, after=600.0)) == [0, 1]
    assert threading.active_count() <= quick
    assert capsys.readouterr().err == ""
