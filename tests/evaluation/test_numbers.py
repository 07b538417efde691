"""Numbers of evaluations by hand: figures of personal sets, searches, tables, charts, the demonstration."""

from __future__ import annotations

import io
import json
import math
import subprocess
import sys
import time
from itertools import combinations
from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib.figure import Figure

import discreet as dc
from discreet import offline
from discreet.evaluation import demo, plots, report, simulation
from discreet.evaluation.personal import NewPeople, item_neighbours, popular, quality
from discreet.evaluation.regret import Regret, _allowed, regret_bands
from discreet.evaluation.streams import product_display
from discreet.objectives import Coverage
from discreet.privacy import PublicRandomness
from discreet.results import Trace

from ..cli.test_demo import small_shop

# --- personal sets ----------------------------------------------------------------------------------


def test_similarity_is_shrunk():
    rows = Coverage([[1, 1, 0], [1, 0, 1], [1, 1, 1], [0, 1, 0]])
    near = item_neighbours(rows, shrink=2.0)([np.array([0]), np.array([1, 2])])
    # Together with the first: 2 and 2; items by themselves: 3, 3 and 2.
    assert near[0] == pytest.approx([0.0, 2 / (3 + 2), 2 / (math.sqrt(6) + 2)])
    assert near[1, 0] == pytest.approx(2 / (3 + 2) + 2 / (math.sqrt(6) + 2))


def test_private_popularity_is_a_sum_of_unit_vectors():
    """400 people with four items each, of whom the first has everybody: 400 / 2, with little noise."""
    rows = np.zeros((400, 7))
    rows[:, 0] = 1.0
    for person, row in enumerate(rows):
        row[1 + (person + np.arange(3)) % 6] = 1.0
    found = popular(Coverage(rows), dc.Budget(100.0, 1e-6), 0)([np.array([0])] * 2)
    assert found.shape == (2, 7)
    assert found[0] == pytest.approx([200.0] + [100.0] * 6, abs=3.0)


def test_new_people_by_the_thousand():
    """Histories are asked about in parts, each with what was held out of its own people."""
    own, out = (tuple(np.array([(one + step) % 50]) for one in range(2_100)) for step in (0, 1))
    people = NewPeople(Coverage([[1]]), own, out)

    def next_one(histories):
        return np.array([np.arange(50) == (one[0] + 1) % 50 for one in histories], dtype=float)

    assert quality(next_one, people, 1).hit_rate == 1.0
    for wrong in ({"test": 1.5}, {"held_out": 1.5}):
        with pytest.raises(ValueError, match=r"1\.5 must be less than 1"):
            NewPeople.of(Coverage(np.ones((9, 3))), 0, **wrong)
    (few,) = {len(NewPeople.of(Coverage(np.ones((people, 3))), 0).histories) for people in (2, 4)}
    assert few == 1  # at least one


# --- searches, tables, rounds -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n_items", "slots", "people", "allowed"),
    [
        (10, 3, 10, 50_000),  # 120 sets: to the end
        (100, 3, 10, 5_000),
        (100, 3, 10**6, 200),  # some seconds of work
        (10, 3, 10**6, 200),
        (100, 3, 10**9, 4),
    ],
)
def test_how_many_sets_a_search_opens(n_items, slots, people, allowed):
    crowd = type("Crowd", (), {"n_items": n_items, "__len__": lambda _: people})()
    assert _allowed(crowd, slots) == allowed


def test_a_row_of_a_report_in_words():
    row = {
        "learner": "A", "epsilon": 0.5, "average": 0.25, "standard_error": 0.0125, "of_greedy": 0.5,
        "regret": 1234.4, "account": 0.49876, "seconds": 1.5,
    }  # fmt: skip
    free = row | {
        "epsilon": math.inf, "standard_error": math.nan, "of_greedy": math.nan, "account": math.inf
    }  # fmt: skip
    _, (first, second) = report.in_words([row, free])
    assert first == ["A", "0.5", "0.2500 +- 0.0125", "50.0 %", "1,234", "0.499", "1.50"]
    assert second == ["A", "none", "0.2500", "", "1,234", "not private", "1.50"]
    config = simulation.Config((), (), repeats=1)
    for repeats, alpha, words in (
        (1, 1.0, "Regret: total reward lost against g"),
        (3, 0.5, "Means over 3 r"),
    ):
        found = SimpleNamespace(config=simulation.replace(config, repeats=repeats, alpha=alpha))
        assert report._caption(found).startswith(words)
        assert ("0.5 times greedy" in report._caption(found)) == (alpha < 1.0)


def test_what_a_cell_is_compared_with():
    """No set serves more than what greedy does over 1 - 1/e; of 300 rounds 200 are kept."""
    given = {"rounds": 300, "items": 12, "k": 2, "repeats": 1, "streams": [{"family": "drifting"}],
             "learners": [{"learner": "random"}]}  # fmt: skip
    config = simulation.Config.of(given)
    assert (config.epsilons, config.alpha) == ((1.0,), 1.0)
    (outcome,) = simulation.simulate(config, None, workers=1).outcomes
    assert outcome.best_upper == pytest.approx(outcome.greedy / (1.0 - math.exp(-1.0)))
    assert outcome.regret().upper == pytest.approx(300 * (outcome.best_upper - outcome.average))
    assert outcome.at.size == 200
    assert 0.0 <= outcome.seconds < 60.0


# --- charts -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [(8.4, 4.2), (4.3, 3.7)])
def test_nothing_of_a_chart_covers_anything_else(size):
    """The legend stands below the words of the axis, close to them, and the title within the figure."""
    axes = Figure(figsize=size).add_subplot()
    runs = {f"learner {number}": [Trace(np.ones(500), np.zeros((500, 1)))] * 2 for number in range(4)}
    title = "Average reward so far, of people who come back every other week: epsilon 1"
    ax = plots.rewards(runs, axes, title=title)
    figure = ax.get_figure()
    figure.canvas.draw()
    inches = 1.0 / figure.dpi
    words, legend, top = (
        part.get_window_extent() for part in (ax.xaxis.label, ax.get_legend(), ax._left_title)
    )
    assert abs(words.y0 - legend.y1) * inches < 0.15
    assert top.x1 * inches < 1.15 * size[0]
    assert ax.get_legend()._ncols == (2 if size[0] > 6.8 else 1)
    assert len(ax._left_title.get_text().splitlines()) == (1 if size[0] > 6.8 else 2)
    for line in ax.get_lines():
        start, every = line.get_markevery()
        assert 5 <= line.get_xdata().size // every <= 10
        assert 0 <= start < every
    assert len({line.get_markevery()[0] for line in ax.get_lines()}) == 4


def test_charts_fit_a_phone_and_a_screen(tmp_path):
    """Narrow ones nearly square and wide ones twice as wide as high, with letters of one size."""
    sizes = []
    report.Report("t").chart(lambda ax: sizes.append(ax.figure.get_size_inches()), "", tmp_path / "chart")
    (narrow, low), (wide, high) = sizes
    assert 4.0 <= narrow <= 5.0
    assert 1.0 <= narrow / low <= 1.4
    assert 7.0 <= wide <= 10.0
    assert 1.8 <= wide / high <= 2.2


@pytest.mark.parametrize(("width", "lines"), [(8.0, 1), (4.0, 2)])
def test_long_names_of_bars_are_broken_where_there_is_no_room(width, lines):
    ax = plots.bars(
        {"a name of thirty characters, at": 0.5}, Figure((width, 3)).add_subplot(), title="", unit=""
    )
    (label,) = ax.get_yticklabels()
    assert len(label.get_text().splitlines()) == lines


# --- the demonstration --------------------------------------------------------------------------------


def test_pixels_are_chosen_from_seven_tenths_of_the_people(monkeypatch):
    pytest.importorskip("sklearn")
    seen, real = [], offline.PrivateFeatureSelector

    class Noted(real):
        def fit(self, pixels, digits):
            seen.append((pixels.shape, pixels.min(), pixels.max(), self.random_state, self.epsilon))
            return super().fit(pixels, digits)

    monkeypatch.setattr(offline, "PrivateFeatureSelector", Noted)
    monkeypatch.setattr(demo, "SPLITS", 2)
    scores = iter([0.1, 0.35, 0.5, 0.3, 0.55, 0.7])  # of random pixels, private ones, the best
    model = SimpleNamespace(score=lambda *_: next(scores))
    fitted = SimpleNamespace(fit=lambda *_: model)
    monkeypatch.setattr("sklearn.linear_model.LogisticRegression", lambda: fitted)
    found = demo.run_features(dc.Budget(1.0), 7)
    assert [one[:3] for one in seen] == [((1257, 64), 0.0, 1.0)] * 4
    assert [one[3:] for one in seen] == [(7, 1.0), (7, math.inf), (8, 1.0), (8, math.inf)]
    assert found.privacy.epsilon() <= 1.0
    assert [row[1:] for row in found.table()[1]] == [
        ["0.200", "0 %", "###"],
        ["0.450", "62 %", "######"],
        ["0.600", "100 %", "########"],
    ]


def test_the_most_popular_products_are_shown_to_everybody(monkeypatch):
    monkeypatch.setattr(demo, "SHOPPERS", 600)
    monkeypatch.setattr(demo, "PRODUCTS", 20)
    learner = dc.online.PhasedSelector(20, 5, dc.Budget(1.0), seed=0)
    monkeypatch.setattr(demo, "plan", lambda *_, **__: SimpleNamespace(learner=lambda **_: learner))
    shop = demo.run_shop(dc.Budget(1.0), 0)
    people = product_display(600, 20, PublicRandomness.seeded(1).generator)
    chances = np.zeros((600, 20))
    chances[np.repeat(np.arange(600), np.diff(people.indptr)), people.indices] = people.data
    popular = np.argsort(chances.sum(axis=0))[-5:]
    taken = 1.0 - np.prod(1.0 - chances[:, popular], axis=1)
    assert shop.shares[demo.POPULAR] == pytest.approx(taken.mean())
    assert next(iter(shop.shares)) == demo.RANDOM
    assert max(shop.shares, key=shop.shares.get) == list(shop.shares)[-1] == demo.GREEDY


def test_the_demonstration_waits_for_a_release(monkeypatch):
    clock = iter(np.arange(0.0, 100.0, 4.0))
    monkeypatch.setattr(demo, "time", SimpleNamespace(monotonic=lambda: next(clock), sleep=lambda _: None))
    answers = iter([0, 0, 3])
    client = SimpleNamespace(request=lambda *_: {"releases": next(answers)})
    assert demo._settled(client)["releases"] == 3
    client = SimpleNamespace(request=lambda *_: {"releases": 0})
    assert demo._settled(client)["releases"] == 0  # after ten seconds


def test_visitors_of_the_service_like_what_they_say(monkeypatch):
    """The j-th product with chance 1 / 2j; taken is what is shown and liked, by everybody anew."""
    monkeypatch.setattr(demo, "_NIGHT", 0.0)
    asked, liked = [], []
    client = SimpleNamespace(
        request=lambda *given: asked.append(given),
        decide=lambda experiment, who: SimpleNamespace(items=("product 1", "product 4", who, experiment)),
        report=lambda _, likes: liked.append(likes),
    )
    took = demo._visits(client, dc.Budget(2.5))
    assert [one[2]["epsilon"] for one in asked if "populations" in one[1]] == [2.5]
    assert took == [bool({"product 1", "product 4"} & set(likes)) for likes in liked]
    chances = 0.5 / np.arange(1, 31)
    counts = np.array([sum(f"product {j}" in likes for likes in liked) for j in range(1, 31)])
    assert np.all(np.abs(counts - 1_500 * chances) < 5.5 * np.sqrt(1_500 * chances * (1.0 - chances)))
    sets = np.prod([1.0 - chances[list(one)] for one in combinations(range(30), 3)], axis=1)
    assert demo._chance_of_a_set() == pytest.approx(1.0 - sets.mean(), abs=5.0 * sets.std() / 5_000**0.5)


def test_a_service_in_short():
    took = {"first": 0.2, "last": 0.45, "random": 0.1, "best": 0.5}
    shop = demo.LiveShop(("a", "b"), 3, took, "", "one line\nmore", "", "", "")
    assert "the last visitors take 90% as often" in shop.in_short()


def test_a_service_is_started_asked_and_stopped(monkeypatch, tmp_path):
    """Of 1,500 visitors the first hundred and the last 500 are compared."""
    took = [True] * 20 + [False] * 980 + [True] * 400 + [False] * 100
    (tmp_path / "key").write_text("secret\n")
    for name in ("shop.db", "shop.secrets", "discreet.admin-key"):
        (tmp_path / name).write_text("of a real shop")
    started = json.dumps({"admin_key_file": str(tmp_path / "key"), "url": "there"}, indent=1)
    ended = []
    process = SimpleNamespace(
        stdout=io.StringIO(started), terminate=lambda: ended.append("told"), wait=lambda: ended.append("over")
    )
    account = {"promise": "p", "periods": [{"table": "t"}]}
    client = SimpleNamespace(request=lambda *_: account, close=lambda: ended.append("closed"))
    monkeypatch.setattr(demo.subprocess, "Popen", lambda *_, **__: process)
    monkeypatch.setattr(demo, "Client", lambda *_, **__: client)
    monkeypatch.setattr(demo, "_visits", lambda *_: took)
    monkeypatch.setattr(demo, "_settled", lambda _: {"display": ["a"], "releases": 3})
    monkeypatch.setattr(demo.select, "select", lambda read, *_: (read, [], []))
    found = demo.run_service(dc.Budget(1.0), tmp_path)
    assert (found.took["first 100"], found.took["last 500"]) == (0.2, 0.8)
    assert found.took["with the best set"] == pytest.approx(1.0 - 1 / 2 * 3 / 4 * 5 / 6)
    assert (found.key, found.releases, found.promise) == ("secret", 3, "p")
    assert ended == ["closed", "told", "over"]
    for name in ("shop.db", "shop.secrets", "discreet.admin-key"):  # its budget would begin anew
        assert (tmp_path / name).read_text() == "of a real shop"


def test_a_service_that_says_nothing_is_not_waited_for_forever(monkeypatch, tmp_path):
    begun = subprocess.Popen
    monkeypatch.setattr(demo.subprocess, "Popen", lambda _, **more: begun(["sleep", "20"], **more))
    monkeypatch.setattr(demo, "_SECONDS", 0.1)
    before = time.monotonic()
    assert demo.run_service(dc.Budget(1.0), tmp_path) == "the service did not start within 0.1 seconds"
    assert time.monotonic() - before < 10.0


def test_the_report_of_the_demonstration_has_every_column(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    shop = small_shop()
    figures = demo.Figures(
        "about", "of people", {"low": 0.125, "high": 0.375}, "", shop.accounts[demo.PLANNED]
    )
    took = {"first": 0.225, "last": 0.475, "random": 0.1, "best": 0.5}
    served = demo.LiveShop(("a", "b"), 3, took, "", "line", "", "", "")
    path, _ = demo._report(dc.Budget(1.0), shop, (figures, figures), served, tmp_path)
    page = path.read_text()
    for words in ("take something", "gain kept", "learner", "account", "of people", "visitors"):
        assert f"<th scope='col'>{words}</th>" in page or f">{words}</th>" in page, words
    for number in ("0.100", "25 %", "not private", "0.125", "0.375", "0.225", "0.475"):
        assert f">{number}</td>" in page, number
    assert "####" not in page  # bars are for terminals


def test_percentile_bands_by_hand():
    """Of the repeats 0, 1, 4, 9 and 16 the quartiles are the second and the fourth, in any order."""
    runs = [Regret((0,), True, 1.0, 1.0, c, c, np.array([c, -c]), 1.0) for c in (9.0, 0.0, 16.0, 1.0, 4.0)]
    band = regret_bands(runs, level=0.5, method="percentile")
    assert band.low.tolist() == [1.0, -9.0]
    assert band.high.tolist() == [9.0, -1.0]
