"""Simulations: each cell is run once, whatever happens; the numbers are those of the learners themselves."""

from __future__ import annotations

import itertools
import math
import statistics
import time
import warnings
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from discreet.evaluation import simulation
from discreet.evaluation.regret import regret
from discreet.evaluation.simulation import Config, learner_names, read_config, run_cell, simulate
from discreet.evaluation.streams import STREAMS, baskets, event_file
from discreet.objectives import greedy
from discreet.objectives.base import value_to_each
from discreet.planning import plan
from discreet.results import Trace

SMALL = {
    "rounds": 300,
    "items": 12,
    "k": 2,
    "repeats": 2,
    "streams": [{"family": "product display", "clusters": 3}],
    "learners": [{"learner": "phased"}, {"learner": "popularity"}, {"learner": "greedy"}],
}


def averages(results):
    return [(one.cell.learner.name, one.cell.epsilon, one.average) for one in results.outcomes]


def test_every_learner_runs_by_name_and_keeps_to_its_budget():
    given = SMALL | {"repeats": 1, "learners": [{"learner": name} for name in learner_names()]}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        results = simulate(Config.of(given), None, workers=1)
    rows = {row["learner"]: row for row in results.table()}
    assert {"HedgeSelector", "RunningSumSelector", "PhasedSelector", "BanditSelector", "planner"} < set(rows)
    assert not results.refused
    assert rows["greedy"]["of_greedy"] == pytest.approx(1.0)
    assert rows["greedy"]["regret"] == pytest.approx(0.0, abs=1e-9)
    assert rows["random"]["account"] == 0.0
    assert math.isinf(rows["popularity"]["account"])
    for name in set(rows) - {"random", "popularity", "greedy"}:
        assert 0.0 < rows[name]["account"] <= 1.0, name


@pytest.mark.parametrize("family", STREAMS)
def test_every_family_can_be_simulated(family):
    given = SMALL | {"streams": [{"family": family}], "repeats": 1, "learners": [{"learner": "greedy"}]}
    (outcome,) = simulate(Config.of(given), None, workers=1).outcomes
    assert (outcome.rounds, outcome.n_items) == (300, 12)
    assert outcome.average > 0.0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"repeat": 3}, "'repeat' is not a setting; did you mean 'repeats'"),
        ({"learners": [{"learner": "hedgehog"}]}, "learner='hedgehog' is not one of"),
        ({"learners": [{"name": "x"}]}, "a learner needs learner="),
        ({"learners": [{"learner": "hedge", "ratio": 1}]}, "'ratio' is not a setting of learner"),
        ({"learners": [{"learner": "random", "rate": 1}]}, "known are none"),
        ({"learners": [{"learner": "hedge"}, {"learner": "hedge"}]}, "listed twice with the same settings"),
        ({"learners": []}, "there are no learners"),
        ({"learners": {"learner": "hedge"}}, "must be a list of tables"),
        ({"streams": [{"family": "shoppers"}]}, "family='shoppers' is not one of 'product display'"),
        ({"streams": [{"people": 5}]}, "a stream needs family="),
        ({"streams": [{"family": "drifting", "turn": 5}]}, "did you mean 'turns'"),
        ({"streams": [{"family": "drifting", "people": 0}]}, "people=0 is too small"),
        ({"k": 13}, "k=13 exceeds the 12 items of stream 'product display'"),
        ({"epsilons": []}, "must be at least one"),
        ({"epsilons": [1.0, 1.0]}, "each listed once"),
        ({"epsilons": [-1.0]}, "epsilons=-1.0 must be greater than 0"),
        ({"epsilons": "all"}, "epsilons must be a number"),
        ({"delta": 2.0}, "delta=2.0 must be less than 1"),
        ({"repeats": 0}, "repeats=0 is too small"),
        ({"comparator": "worst"}, "comparator='worst' is not one of"),
        ({"alpha": 2}, "alpha=2.0 must be at most 1"),
        ({"title": 3}, "title must be text"),
    ],
)
def test_a_mistake_in_the_settings_is_named(changes, message):
    with pytest.raises((ValueError, TypeError), match=message.replace("[", r"\[").replace("?", r"\?")):
        Config.of(SMALL | changes)


def test_config_files(tmp_path):
    (tmp_path / "visits.csv").write_text("who,what\n" + "".join(f"{i},{i % 3}\n{i},x\n" for i in range(30)))
    config = tmp_path / "config.toml"
    config.write_text(
        "k = 2\nepsilons = [1.0, inf]\nrepeats = 1\n"
        '[[streams]]\nevents = "visits.csv"\nperson = "who"\nitem = "what"\n'
        '[[learners]]\nlearner = "phased"\n[[learners]]\nlearner = "hedge"\nepsilon = inf\n'
    )
    results = simulate(read_config(config), None, workers=1)
    assert [row["learner"] for row in results.table()] == [
        "PhasedSelector",
        "PhasedSelector",
        "not private: HedgeSelector",
    ]
    assert all((one.rounds, one.n_items) == (30, 4) for one in results.outcomes)
    config.write_text(config.read_text().replace('person = "who"', 'person = "whom"'))
    with pytest.raises(ValueError, match=r"config\.toml: person='whom' is not a column of the table"):
        read_config(config)
    config.write_text(config.read_text().replace('person = "whom"', ""))
    with pytest.raises(ValueError, match="needs person: the columns of its file"):
        read_config(config)
    config.write_text("k = = 2")
    with pytest.raises(ValueError, match=r"config\.toml is not TOML"):
        read_config(config)


# --- resuming ------------------------------------------------------------------------------------


@pytest.fixture
def calls(monkeypatch):
    """Which cells are run."""
    made = []

    def counted(cell):
        made.append(cell)
        return run_cell(cell)

    monkeypatch.setattr(simulation, "run_cell", counted)
    return made


def test_finished_cells_are_not_run_again(tmp_path, calls):
    first = simulate(Config.of(SMALL), tmp_path, workers=1)
    assert len(calls) == len(first.outcomes) == 6
    again = simulate(Config.of(SMALL), tmp_path, workers=1)
    assert len(calls) == 6
    assert averages(again) == averages(first)
    for one, other in zip(first.outcomes, again.outcomes, strict=True):
        np.testing.assert_array_equal(one.rewards, other.rewards)
        assert (one.comparator, one.account, one.exact) == (other.comparator, other.account, other.exact)


def test_only_what_changed_is_run(tmp_path, calls):
    simulate(Config.of(SMALL), tmp_path, workers=1)
    calls.clear()
    simulate(Config.of(SMALL | {"epsilons": [1.0, 2.0]}), tmp_path, workers=1)
    assert [(cell.learner.kind, cell.epsilon) for cell in calls] == 2 * [("PhasedSelector", 2.0)]
    calls.clear()
    renamed = [{"learner": "phased", "name": "windows"}, *SMALL["learners"][1:]]
    results = simulate(Config.of(SMALL | {"learners": renamed, "alpha": 0.5}), tmp_path, workers=1)
    assert not calls
    assert results.outcomes[0].cell.learner.name == "windows"
    for changes in ({"k": 3}, {"seed": 1}, {"comparator": "best"}, {"rounds": 301}):
        calls.clear()
        simulate(Config.of(SMALL | changes), tmp_path, workers=1)
        assert len(calls) == 6, changes


def test_another_file_of_the_same_name_is_another_stream(tmp_path, calls):
    events = tmp_path / "e.csv"
    stream = {"events": "e.csv", "person": "p", "item": "i"}
    given = SMALL | {"streams": [stream], "repeats": 1, "learners": [{"learner": "greedy"}]}
    for text, runs in (("p,i\n1,a\n2,b\n", 1), ("p,i\n1,a\n2,b\n", 1), ("p,i\n1,a\n2,a\n3,b\n", 2)):
        events.write_text(text)
        simulate(Config.of(given, tmp_path), tmp_path / "out", workers=1)
        assert len(calls) == runs


def test_a_broken_file_counts_as_not_finished(tmp_path, calls):
    simulate(Config.of(SMALL), tmp_path, workers=1)
    broken, empty = sorted((tmp_path / "cells").iterdir())[:2]
    broken.write_bytes(broken.read_bytes()[:-30])
    empty.write_bytes(b"")
    calls.clear()
    simulate(Config.of(SMALL), tmp_path, workers=1)
    assert {f"{cell.key}.json" for cell in calls} == {broken.name, empty.name}


def test_an_interruption_keeps_what_is_finished(tmp_path, monkeypatch):
    whole = simulate(Config.of(SMALL), None, workers=1)
    done = []

    def interrupted(cell):
        if len(done) == 4:
            raise KeyboardInterrupt
        done.append(cell.key)
        return run_cell(cell)

    monkeypatch.setattr(simulation, "run_cell", interrupted)
    with pytest.raises(KeyboardInterrupt):
        simulate(Config.of(SMALL), tmp_path, workers=1)
    assert sorted(path.stem for path in (tmp_path / "cells").iterdir()) == sorted(done)
    monkeypatch.undo()
    assert averages(simulate(Config.of(SMALL), tmp_path, workers=1)) == averages(whole)


def test_processes_and_one_process_agree(tmp_path):
    alone = simulate(Config.of(SMALL), None, workers=1)
    together = simulate(Config.of(SMALL), tmp_path, workers=2)
    assert averages(alone) == averages(together)


def test_the_file_of_results_holds_every_cell(tmp_path):
    import pyarrow.parquet as parquet

    results = simulate(Config.of(SMALL), tmp_path, workers=1)
    table = parquet.read_table(tmp_path / "results.parquet").to_pylist()
    assert [row["average"] for row in table] == [one.average for one in results.outcomes]
    assert [row["key"] for row in table] == [one.cell.key for one in results.outcomes]
    assert '"kind": "PhasedSelector"' in table[0]["settings"]
    assert len(table[0]["rewards"]) == len(table[0]["at"]) == 200
    assert not list(tmp_path.rglob(".*"))


# --- numbers -------------------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [1.0, 1.0 - 1.0 / math.e])
def test_regret_is_that_of_the_trace(alpha):
    config = Config.of(SMALL | {"comparator": "best", "repeats": 1, "learners": [{"learner": "popularity"}]})
    (outcome,) = simulate(config, None, workers=1).outcomes
    seed = int(simulation.digest(outcome.cell.stage)[:15], 16)
    people = outcome.cell.stream.people(seed)
    items = simulation._popular(people, 2)
    expected = regret(
        Trace(value_to_each(people, items), np.tile(np.array(items, np.int32), (300, 1))), people, alpha=alpha
    )
    found = outcome.regret(alpha)
    assert found.total == pytest.approx(expected.total)
    assert found.exact
    np.testing.assert_allclose(found.curve, expected.curve[outcome.at - 1], atol=1e-9)


def test_learners_meet_the_same_people_and_repeats_differ():
    results = simulate(Config.of(SMALL), None, workers=1)
    by = results.by_learner()
    for one, other in zip(by["PhasedSelector"], by["greedy"], strict=True):
        np.testing.assert_array_equal(one.rival, other.rival)
    first, second = by["greedy"]
    assert not np.array_equal(first.rewards, second.rewards)


def test_what_cannot_be_run_is_reported_and_the_rest_is_run():
    learners = [{"learner": "hedge", "calibration": "published"}, {"learner": "greedy"}]
    given = SMALL | {"epsilons": [1.0, math.inf], "learners": learners, "repeats": 1}
    results = simulate(Config.of(given), None, workers=1)
    ((cell, why),) = results.refused
    assert math.isinf(cell.epsilon)
    assert "finite epsilon" in why
    assert len(results.outcomes) == 2
    with pytest.raises(ValueError, match=r"no cell could be run: .*finite epsilon"):
        simulate(Config.of(given | {"epsilons": [math.inf], "learners": learners[:1]}), None, workers=1)


# --- streams -------------------------------------------------------------------------------------


def test_event_files_in_both_orders(tmp_path):
    path = tmp_path / "events.csv"
    path.write_text("person,item\n" + "".join(f"{i},{i:02d}\n" for i in range(20)))
    columns = {"person": "person", "item": "item"}
    given = event_file(path, np.random.default_rng(0), **columns, order="given", people=5)
    assert [person.value([i]) for i, person in enumerate(given)] == [1.0] * 5
    mixed = event_file(path, np.random.default_rng(0), **columns)
    assert len(mixed) == 20
    assert [person.value([i]) for i, person in enumerate(mixed)] != [1.0] * 20
    with pytest.raises(FileNotFoundError, match=r"none\.csv"):
        event_file(tmp_path / "none.csv", np.random.default_rng(0), **columns)
    with pytest.raises(ValueError, match="order='sorted' is not one of"):
        event_file(path, np.random.default_rng(0), **columns, order="sorted")


@pytest.mark.parametrize("error", [OverflowError("math range error"), ZeroDivisionError("division by zero")])
def test_numbers_that_cannot_be_computed_with_cost_one_cell_and_not_all(error, monkeypatch):
    def fails(*_):
        raise error

    monkeypatch.setattr(simulation, "_made", fails)
    results = simulate(Config.of(SMALL | {"repeats": 1}), None, workers=1)
    assert [why for _, why in results.refused] == [str(error)]
    assert {one.cell.learner.kind for one in results.outcomes} == {"popularity", "greedy"}


def test_the_planner_plans_once_for_all_repeats(monkeypatch):
    """Plans depend on public sizes only."""
    monkeypatch.setattr(simulation, "_PLANS", {})
    made = []

    def counted(**asked):
        made.append(asked["budget"].epsilon)
        return plan(**asked, goal="certified")

    monkeypatch.setattr("discreet.planning.plan", counted)
    given = SMALL | {"repeats": 3, "epsilons": [1.0, 2.0], "learners": [{"learner": "planner"}]}
    config = Config.of(given)
    results = simulate(config, None, workers=1)
    assert made == [1.0, 2.0]
    taken = [str(found.best) for found in simulation._PLANS.values()]
    assert [one.planned for one in results.outcomes] == taken * 3
    assert all(len(one.shown) == 2 for one in results.outcomes)


def test_popularity_fails_on_baskets():
    people = baskets(4000, 60, np.random.default_rng(0))
    popular = np.argsort(-people.gains([]), kind="stable")[:5]
    assert people.value(greedy(people, 5)[0]) > 1.2 * people.value(popular)


def test_learners_show_candidates_alone():
    few = [7, 3, 5]
    names = [name for name in learner_names() if name not in simulation.BASELINES and "Frank" not in name]
    given = SMALL | {"repeats": 1, "learners": [{"learner": name, "candidates": few} for name in names]}
    results = simulate(Config.of(given), None, workers=1)
    assert not results.refused
    for row in results.table():
        assert set(row["shown"]) <= {"7", "3", "5"}, row["learner"]
        assert "candidates=3 items" in row["learner"]
    assert results.table()[0]["account"] <= 1.0


@pytest.mark.parametrize(
    ("few", "said"),
    [
        ([7], "candidates has 1 items, and k=2 are shown; give at least 2"),
        ([7, 12], "candidates"),
        (["7", "maps"], "candidates"),
        ("7", "candidates must be a list of items, the best first"),
        ([], "candidates must be a list of items, the best first"),
    ],
)
def test_candidates_that_cannot_be_shown_are_refused(few, said):
    given = SMALL | {"repeats": 1, "learners": [{"learner": "phased", "candidates": few}]}
    with pytest.raises((ValueError, TypeError), match=said):
        simulate(Config.of(given), None, workers=1)
    for name in ("greedy", "start"):
        learner = {"learner": "greedy", "candidates": [1]} if name == "greedy" else {"start": 1}
        with pytest.raises(ValueError, match="is not a setting of learner"):
            Config.of(SMALL | {"learners": [{"learner": "phased"} | learner]})


def test_a_row_of_the_table_by_hand():
    """From the people themselves: what popularity shows, greedy's value, means and their error."""
    learners = [{"learner": "popularity"}, {"learner": "phased"}]
    given = SMALL | {"repeats": 3, "alpha": 0.5, "learners": learners, "epsilons": [20.0]}
    began = time.perf_counter()
    results = simulate(Config.of(given), None, workers=1)
    took = time.perf_counter() - began
    by = results.by_learner()
    averages, values = [], []
    for outcome in by["popularity"]:
        people = outcome.cell.stream.people(int(simulation.digest(outcome.cell.stage)[:15], 16))
        alone = [sum(person.value([item]) for person in people) for item in range(12)]
        popular = sorted(range(12), key=lambda item, alone=alone: -alone[item])[:2]
        assert outcome.shown == tuple(map(str, popular))
        averages.append(sum(person.value(popular) for person in people) / 300)
        values.append(people.value(greedy(people, 2)[0]))
        found = outcome.regret(0.5)
        upper = values[-1] / (1.0 - math.exp(-1.0))  # no set of two is better
        assert outcome.best_upper == pytest.approx(upper)
        assert found.upper == pytest.approx((0.5 * upper - averages[-1]) * 300)
    rows = {row["learner"]: row for row in results.table()}
    row = rows["popularity"]
    assert row["average"] == pytest.approx(sum(averages) / 3)
    assert row["standard_error"] == pytest.approx(statistics.stdev(averages) / math.sqrt(3))
    assert row["of_greedy"] == pytest.approx(sum(map(float.__truediv__, averages, values)) / 3)
    assert row["regret"] == pytest.approx(100 * (0.5 * sum(values) - sum(averages)))
    assert 0.0 < sum(3 * one["seconds"] for one in rows.values()) < took
    phased = [replace(one, account=spent) for one, spent in zip(by["PhasedSelector"], (1, 3, 2), strict=True)]
    assert results._means(phased)["account"] == 3  # the largest of them


def test_shown_are_the_items_of_the_last_round():
    given = SMALL | {"repeats": 1, "learners": [{"learner": "phased"}], "epsilons": [20.0]}
    (outcome,) = simulate(Config.of(given), None, workers=1).outcomes
    people = outcome.cell.stream.people(int(simulation.digest(outcome.cell.stage)[:15], 16))
    trace = simulation._made(people, outcome.cell)[0].run(people)
    assert set(trace.selections[-1]) != set(trace.selections[1])
    assert outcome.shown == tuple(map(str, trace.selections[-1]))


def test_random_play_shows_a_hundred_sets(monkeypatch):
    seen = []
    each = value_to_each
    monkeypatch.setattr(
        "discreet.objectives.base.value_to_each", lambda *a: seen.append((len(a[0]), len(a[1]))) or each(*a)
    )
    simulate(Config.of(SMALL | {"repeats": 1, "learners": [{"learner": "random"}]}), None, workers=1)
    assert [one for one in seen if one[0] < 300] == [(3, 2)] * 100


@pytest.mark.parametrize(("workers", "alone"), [(1, 6), (2, 0), (None, 2)])
def test_others_help_when_they_are_asked_to_or_it_takes_long(monkeypatch, workers, alone):
    """Processes take what is left, in order: with no number given, after a while of this one's own work."""
    shared, clock = [], itertools.count(100.0, 0.4 * simulation._ALONE)

    def together(cells, count, _):
        shared.append((cells, count))
        return ((cell, run_cell(cell)) for cell in cells)

    monkeypatch.setattr(simulation, "_shared", together)
    monkeypatch.setattr(simulation, "cores", lambda: 3)
    monkeypatch.setattr(
        simulation, "time", SimpleNamespace(process_time=lambda: next(clock), perf_counter=time.perf_counter)
    )
    config = Config.of(SMALL)
    simulate(config, None, workers=workers)
    assert shared == ([] if alone == 6 else [(config.cells()[alone:], workers or 3)])
