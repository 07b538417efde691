"""``discreet demo``: its numbers show what it says, and it goes on without what is not installed."""

from __future__ import annotations

import json
import math
import shlex
import socket
import subprocess
import sys
from itertools import combinations

import numpy as np
import pytest

from discreet.client import Client
from discreet.evaluation import demo
from discreet.objectives import Coverage
from discreet.privacy import Budget
from discreet.results import Trace

from .running import process


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo")
    ended = process("demo", "--seed", "1", "--json", "--out", str(folder))
    assert (ended.code, ended.err) == (0, "")
    return json.loads(ended.out)


def test_published_constants_are_near_random_and_the_planner_is_not(shown):
    shares = {name: row["share"] for name, row in shown["shop"].items()}

    def kept(name):
        return (shares[name] - shares[demo.RANDOM]) / (shares[demo.GREEDY] - shares[demo.RANDOM])

    assert kept(demo.PUBLISHED) < 0.05
    assert kept(demo.PLANNED) >= 0.9
    assert kept(demo.POPULAR) < kept(demo.PLANNED)
    for name, row in shown["shop"].items():
        assert row["gain_kept"] == pytest.approx(kept(name)), name


def test_the_planners_choice_keeps_to_the_budget(shown):
    for name in (demo.PUBLISHED, demo.PLANNED):
        assert 0.0 < shown["shop"][name]["account"] <= 1.0
    for name in (demo.FREE, demo.POPULAR, demo.GREEDY):
        assert shown["shop"][name]["account"] is None


def test_chosen_pixels_are_far_better_than_random_ones(shown):
    at_random, private, free = shown["features"]["accuracy"].values()
    assert private - at_random > 0.6 * (free - at_random) > 0.1


def test_personal_sets_serve_far_more_people_than_one_set_for_everybody(shown):
    at_random, one_set, private, free = shown["personal"]["hit_rate"].values()
    assert at_random < one_set < 0.4
    assert private > 0.8
    assert private > 0.9 * free


def test_the_forecast_stands_beside_what_was_observed(shown):
    found = shown["forecast"]
    assert abs(found["share"] - found["expected_share"]) < 0.1
    assert found["share"] > 0.9
    assert found["regret"] < found["certified_regret"]


def test_the_service_started_and_can_be_started_again(shown):
    """The page that is named can be opened, with the key that is told."""
    served = shown["service"]
    assert len(served["display"]) == demo._WINDOW
    assert served["releases"] >= 1
    took = served["took"]
    liked = [0.5 / number for number in range(1, 31)]
    sets = [1.0 - (1.0 - a) * (1.0 - b) * (1.0 - c) for a, b, c in combinations(liked, 3)]
    assert took["with random sets"] == pytest.approx(np.mean(sets), abs=5.0 * np.std(sets) / 5_000**0.5)
    assert took["with the best set"] == pytest.approx(max(sets))
    assert took["last 500"] > took["first 100"]
    assert "exp(1) times" in served["promise"]
    assert served["command"].startswith("discreet serve --store sqlite:///")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    arguments = [*shlex.split(served["command"])[1:], "--port", str(port)]
    with subprocess.Popen(
        [sys.executable, "-m", "discreet", *arguments], stdout=subprocess.PIPE, text=True
    ) as again:
        assert again.stdout.readline().startswith("discreet serves at")
        client = Client(f"http://127.0.0.1:{port}", served["key"], timeout=60.0, retries=8)
        assert client.request("GET", "/v1/experiments/window")["releases"] >= served["releases"]
        client.close()
        again.terminate()


def small_shop():
    """The shape of the real one, without its work."""
    shop = demo.Shop(plan=demo.plan(5, 2, 10, Budget(1.0), goal="certified"))
    for place, name in enumerate((demo.RANDOM, demo.PLANNED, demo.FREE, demo.POPULAR, demo.GREEDY)):
        shop.traces[name] = Trace(np.full(10, 0.1 * place), np.zeros((10, 5), np.int32))
        shop.learners[name] = "Somebody"
    shop.accounts[demo.PLANNED] = demo.PhasedSelector(5, 2, Budget(1.0), seed=0).privacy
    return shop


def test_the_forecast_by_hand():
    """Shares of 0.1 and, of the best in hindsight, 0.4; what is certified is said where it says something."""
    shop = small_shop()
    found = demo._forecast(shop)
    assert found["share"] == pytest.approx(0.25)
    assert found["regret"] == pytest.approx((1.0 - math.exp(-1.0)) * 0.4 - 0.1)
    assert found["certified_regret"] is None  # ten rounds
    shop.plan = demo.plan(5, 2, 10**7, Budget(1.0), goal="certified")
    assert demo._forecast(shop)["certified_regret"] == shop.plan.best.average < 0.1


def test_accounts_of_seeded_runs_say_so():
    seeded, secure = (demo.PhasedSelector(5, 2, Budget(1.0), seed=seed).privacy for seed in (0, None))
    assert ("not private" in demo._spent(seeded), "not private" in demo._spent(secure)) == (True, False)


def test_what_is_not_in_an_account_is_said(shown, monkeypatch, tmp_path, capsys):
    """JSON had accounts of a seeded run, and that of one choice of features stood for all five."""
    assert shown["private"] is False
    monkeypatch.setattr(demo, "SPLITS", 2)
    assert "account is of one choice" in demo.run_features(Budget(1.0), 0).in_short
    monkeypatch.setattr(demo, "_title", None)  # what follows the first words
    for seed in (0, None):
        with pytest.raises(TypeError):
            demo.show(1.0, 1e-6, seed, tmp_path)
        assert ("Not with a seed" in " ".join(capsys.readouterr().out.split())) is (seed == 0)


def test_random_sets_are_shown_to_a_hundred_shoppers_each():
    people = Coverage(np.eye(demo.PRODUCTS)[np.arange(demo.SHOPPERS) % demo.PRODUCTS])
    trace = demo._at_random(people)
    sets = trace.selections[:: demo.SHOPPERS // 300]
    assert len({tuple(one) for one in sets.tolist()}) == 300
    np.testing.assert_array_equal(trace.selections, np.repeat(sets, 100, axis=0))
    liked = np.arange(demo.SHOPPERS) % demo.PRODUCTS
    np.testing.assert_array_equal(trace.rewards, (trace.selections == liked[:, None]).any(axis=1))


def test_without_the_extras_it_says_what_to_install_and_goes_on(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)  # also where it was loaded
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    monkeypatch.setattr(demo, "find_spec", lambda _: None)
    monkeypatch.setattr(demo, "run_shop", lambda *_: small_shop())
    found = demo.show(1.0, 0.0, 0, tmp_path)
    said = capsys.readouterr().out
    rows = [line for line in said.splitlines() if line.strip().startswith(tuple(small_shop().traces))]
    assert [row.count("#") for row in rows] == [0, 2, 4, 6, 8]  # in proportion
    assert "this part needs scikit-learn: pip install 'discreet[sklearn]'" in said
    assert "needs matplotlib: pip install 'discreet[plots]'" in said
    assert "of the gain over random sets" in said
    assert "this part needs a delta" in said
    assert max(map(len, said.split("plot:")[0].splitlines())) <= 80  # where nobody says how wide it is
    assert "this part needs more: pip install 'discreet[service]'" in said
    assert found["plots"] == []
    assert 0.0 <= found["seconds"] < 60.0
    page = (tmp_path / "report.html").read_text()
    assert "discreet[sklearn]" in page
    assert "discreet[service]" in page
    assert "discreet[plots]" in page
