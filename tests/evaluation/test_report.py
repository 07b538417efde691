"""Charts have what a reader needs, and a report is one file that needs nothing else."""

from __future__ import annotations

import base64
import os
import re
import sys
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from matplotlib.figure import Figure
from scipy import stats

import discreet as dc
from discreet.evaluation import plots
from discreet.evaluation.regret import Regret
from discreet.evaluation.report import NOT_PRIVATE, Report, simulation_report
from discreet.evaluation.simulation import Config, simulate
from discreet.objectives import Coverage
from discreet.online import HedgeSelector
from discreet.results import Trace

GIVEN = {
    "title": "Shoes & <socks>",
    "rounds": 300,
    "items": 12,
    "k": 2,
    "repeats": 3,
    "epsilons": [0.5, 2.0],
    "streams": [{"family": "product display"}, {"family": "drifting"}],
    "learners": [{"learner": "phased"}, {"learner": "hedge", "epsilon": float("inf")}, {"learner": "random"}],
}


@pytest.fixture(scope="module")
def results():
    return simulate(Config.of(GIVEN), None, workers=1)


def axes(width=8.0):
    return Figure(figsize=(width, 4.2)).add_subplot()


# --- charts --------------------------------------------------------------------------------------


def test_curves_are_the_mean_regret(results):
    ax = plots.regret(results, axes(), stream="drifting", epsilon=2.0, alpha=0.5)
    runs = results.by_learner("drifting", 2.0)["PhasedSelector"]
    line = next(one for one in ax.get_lines() if one.get_label() == "PhasedSelector")
    np.testing.assert_allclose(line.get_ydata(), np.mean([one.regret(0.5).curve for one in runs], axis=0))
    np.testing.assert_array_equal(line.get_xdata(), runs[0].at)
    found = [one.regret(0.5).total for one in runs]
    low, high = stats.t.interval(0.95, 2, np.mean(found), stats.sem(found))
    edges = ax.collections[0].get_paths()[0].vertices
    assert sorted(set(edges[edges[:, 0] == 300, 1])) == pytest.approx([low, high])
    with pytest.raises(ValueError, match=r"alpha=1\.5 must be at most 1"):
        plots.regret(results, axes(), stream="drifting", epsilon=2.0, alpha=1.5)


def test_traces_and_regrets_can_be_drawn_too():
    people = Coverage(np.random.default_rng(0).random((250, 6)) < 0.2)
    traces = [HedgeSelector(6, 2, 250, dc.Budget(np.inf), seed=seed).run(people) for seed in range(2)]
    drawn = plots.regret({"one": traces[0], "two": traces}, axes(), people=people)
    again = plots.regret({"one": traces[0].regret(people, alpha=1.0)}, axes())
    curve = drawn.get_lines()[0].get_ydata()
    np.testing.assert_allclose(curve, traces[0].regret(people, alpha=1.0).curve, atol=1e-9)
    np.testing.assert_allclose(again.get_lines()[0].get_ydata(), curve, atol=1e-9)
    last = plots.rewards({"one": traces[0]}, axes()).get_lines()[0].get_ydata()[-1]
    assert last == pytest.approx(traces[0].average)
    with pytest.raises(ValueError, match="traces need people="):
        plots.regret({"one": traces[0]}, axes())
    with pytest.raises(ValueError, match="nothing to draw"):
        plots.rewards({}, axes())


def test_long_streams_are_drawn_in_few_points():
    """All of them from the first round to the last; averages once a hundredth of the rounds is over."""
    rewards = np.random.default_rng(1).random(5000)
    trace = Trace(rewards, np.zeros((5000, 1), np.int32))
    totals = np.cumsum(rewards)
    (line,) = plots.rewards({"one": trace}, axes()).get_lines()
    at = line.get_xdata()
    assert 390 <= at.size <= 400
    assert (at[0] >= 50, at[0] < 70, at[-1]) == (True, True, 5000)
    np.testing.assert_allclose(line.get_ydata(), totals[at - 1] / at)
    ax = plots.regret({"one": Regret((0,), True, 1.0, 1.0, 0.0, 0.0, totals, 1.0)}, axes())
    assert "times" not in ax.get_ylabel()
    line = ax.get_lines()[0]
    at = line.get_xdata()
    assert (at.size, at[0], at[-1]) == (400, 1, 5000)
    np.testing.assert_allclose(line.get_ydata(), totals[at - 1])
    assert (
        "times 0.5"
        in plots.regret({"one": Regret((0,), True, 1.0, 1.0, 0.0, 0.0, totals, 0.5)}, axes()).get_ylabel()
    )


def test_rewards_and_their_price_are_those_of_the_table(results):
    rows = {(row["learner"], row["epsilon"]): row for row in results.table() if row["stream"] == "drifting"}
    runs = results.by_learner("drifting", 2.0)["PhasedSelector"]
    drawn = plots.rewards(results, axes(), stream="drifting", epsilon=2.0)
    line = next(one for one in drawn.get_lines() if one.get_label() == "PhasedSelector")
    assert line.get_ydata()[-1] == pytest.approx(rows["PhasedSelector", 2.0]["average"])
    middle = np.mean([one.rewards[100] / one.at[100] for one in runs])
    assert line.get_ydata()[list(line.get_xdata()).index(runs[0].at[100])] == pytest.approx(middle)
    ax = plots.epsilon_curve(results, axes(), stream="drifting")
    assert ax.get_xscale() == "log"
    points = ax.containers[0].lines[0].get_xydata().tolist()
    levels = sorted(GIVEN["epsilons"])
    assert points == [[level, rows["PhasedSelector", level]["average"]] for level in levels]
    alone = replace(results, config=replace(results.config, epsilons=(2.0,)))
    assert plots.epsilon_curve(alone, axes(), stream="drifting").get_xscale() == "linear"


def test_bars_stand_in_the_order_that_was_given():
    """The first on top; of a plan the chosen one in its colour, beside what not learning loses per round."""
    shares = {"random": 0.1, "private": 0.4, "not private": 0.5}
    ax = plots.bars(shares, axes(), title="t", unit="u", dark=["private"])
    assert [label.get_text() for label in ax.get_yticklabels()] == list(shares)[::-1]
    assert [bar.get_width() for bar in ax.patches] == [0.5, 0.4, 0.1]
    assert 0.5 < ax.get_xlim()[1] < 0.75
    assert [bar.get_facecolor() == ax.patches[1].get_facecolor() for bar in ax.patches] == [
        False,
        True,
        False,
    ]
    planned = dc.plan(20, 2, 10**4, dc.Budget(1.0, 1e-6), goal="certified")
    ax = plots.plan(planned, axes())
    count = len(planned.candidates)
    assert [bar.get_width() for bar in ax.patches[:count]] == [one.average for one in planned.candidates][
        ::-1
    ]
    name, loss = planned.question.without_learning
    (line,) = ax.get_lines()
    assert (line.get_label(), line.get_xdata()[0]) == (name, pytest.approx(loss / 10**4))


def test_lines_look_different():
    looks = [plots.style(place) for place in range(64)]
    assert len({(one["color"], str(one["linestyle"]), one["marker"]) for one in looks}) == 64


# --- reports -------------------------------------------------------------------------------------


class Checker(HTMLParser):
    """Tags are closed in the order in which they were opened; addresses are collected."""

    def __init__(self):
        super().__init__()
        self.open, self.addresses, self.text = [], [], []

    def handle_starttag(self, tag, attributes):
        if tag not in ("meta", "img", "source", "link"):
            self.open.append(tag)
        self.addresses += [v for n, v in attributes if n in ("src", "href", "srcset")]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def test_the_report_is_one_file_with_everything(results, tmp_path):
    path, written = simulation_report(results, tmp_path)
    page = path.read_text(encoding="utf-8")
    checker = Checker()
    checker.feed(page)
    assert not checker.open
    text = " ".join(checker.text)
    assert "Shoes & <socks>" in text
    assert "<socks>" not in page
    assert len(checker.addresses) == 2 * 2 * 3  # wide and narrow, two streams, one chart by epsilon and two
    assert all(address.startswith("data:image/svg+xml;base64,") for address in checker.addresses)
    assert not re.search(r"https?:|@import|url\(", page)
    assert b"<svg" in base64.b64decode(checker.addresses[0].split(",")[1])
    assert "width=device-width" in page
    for row in results.table():
        assert f"{row['average']:.4f}" in text
    for words in NOT_PRIVATE:
        assert words in text
    assert '"repeats": 3' in text
    assert "total reward lost against greedy in hindsight" in text
    assert len(written) == 12
    assert {one.suffix for one in written} == {".png", ".svg"}
    assert all(one.stat().st_size for one in written)


def test_what_was_refused_and_warned_about_is_in_the_report(tmp_path):
    learners = [
        {"learner": "hedge", "calibration": "published"},
        {"learner": "bandit", "calibration": "published", "exploration": "every_round", "epsilon": 10.0},
    ]
    given = GIVEN | {"epsilons": [1.0, float("inf")], "learners": learners, "repeats": 1}
    found = simulate(Config.of(given | {"streams": GIVEN["streams"][:1]}), None, workers=1)
    page = simulation_report(found, tmp_path)[0].read_text()
    assert "What could not be run" in page
    assert "needs a finite epsilon" in page
    assert "docs/errata.md" in page


def test_without_matplotlib_the_tables_are_there_and_the_way_to_charts(results, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    path, written = simulation_report(results, tmp_path)
    page = path.read_text()
    assert not written
    assert not (tmp_path / "plots").exists()
    assert "discreet[plots]" in page
    assert "PhasedSelector" in page


def test_cells_cannot_break_out_of_the_page():
    page = Report("<b>t</b>", "lead")
    page.table(["a'b"], [["<script>alert(1)</script>"], ["' onmouseover='x"]])
    page.preformatted("</pre><script>")
    page.points(["<i>"])
    checker = Checker()
    checker.feed(page.html())
    assert "<script>" not in page.html()
    assert "data-label='a&#x27;b'" in page.html()


def test_saving_is_whole_or_not_at_all(tmp_path, monkeypatch):
    page = Report("t")
    kept = page.save(tmp_path / "a" / "report.html").read_text()
    monkeypatch.setattr(page, "html", lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        page.save(tmp_path / "a" / "report.html")
    assert [one.name for one in (tmp_path / "a").iterdir()] == ["report.html"]
    assert (tmp_path / "a" / "report.html").read_text() == kept


def test_a_stream_on_which_nothing_could_be_run_does_not_stop_the_report(results, tmp_path):
    outcomes = tuple(one for one in results.outcomes if one.cell.stream.name != "drifting")
    cell = next(one.cell for one in results.outcomes if one.cell.stream.name == "drifting")
    half = replace(results, outcomes=outcomes, refused=((cell, "too <short>"),))
    page = simulation_report(half, tmp_path)[0].read_text()
    assert "Nothing could be run here" in page
    assert "too &lt;short&gt;" in page


@pytest.mark.skipif(os.name != "posix", reason="file modes")
def test_a_report_is_as_private_as_the_user_makes_files(tmp_path, monkeypatch):
    before = os.umask(0o077)
    set_mask = os.umask
    # A mask that is lifted to read it is lifted for the files of all threads.
    monkeypatch.setattr(os, "umask", lambda _: pytest.fail("other threads make files meanwhile"))
    try:
        path = Report("x").save(tmp_path / "x.html")
    finally:
        set_mask(before)
    assert path.stat().st_mode & 0o777 == 0o600
