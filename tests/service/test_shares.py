"""Shares of people served: what charts and numbers make of released counts."""

from __future__ import annotations

import json
import math

import msgspec
import numpy as np
import pytest

from discreet.privacy import Gate
from discreet.service import queries, shares
from discreet.service.config import ExperimentConfig, PopulationConfig
from discreet.service.learning import Learning, forecast, lift_plan, release_plan
from discreet.service.shares import (
    Progress,
    blocks_of,
    first_block,
    lift_interval,
    series,
    share_interval,
    visible_lift,
)

from .world import PURE, World, taken


def release(seq, *blocks, epoch=0):
    shares = [
        {"decisions": list(decisions), "served": list(served), "deviation": 3.0}
        for decisions, served in blocks
    ]
    return {"seq": seq, "epoch": epoch, "at": 100.0 * seq, "shares": shares}


def test_counts_add_up_and_so_does_their_noise():
    progress = Progress(0.1)
    progress.add([release(1, ((90, 10), (40.0, 2.0))), release(2), release(3, ((110, 10), (60.0, 3.0)))])
    assert progress.seq == 3
    assert [point.at for point in progress.points] == [100.0, 300.0]
    last = progress.last
    assert last.decisions == (200, 20)
    assert last.learned.value == pytest.approx(0.5)
    assert (last.learned.low, last.learned.high) == tuple(share_interval(100.0, 200, 2, last.scale))
    assert last.scale == pytest.approx(3.0 / math.sqrt(2), rel=1e-3)
    assert last.scale > 3.0 / math.sqrt(2)  # deviations are written with three digits
    assert last.lift.value == pytest.approx(0.25)
    found = lift_interval((100.0, 5.0), (200, 20), 2, last.scale, 0.1)
    assert (last.lift.low, last.lift.high) == tuple(found)


def test_a_new_period_begins_at_nothing():
    progress = Progress(0.0)
    progress.add([release(1, ((1000, 0), (500.0, 0.0))), release(2, ((1000, 0), (100.0, 0.0)), epoch=1)])
    assert progress.last.learned.value == pytest.approx(0.1)
    assert progress.last.control is None
    assert progress.last.lift is None
    assert series(progress.points)["learned"] == [0.5, None, 0.1]


def test_shares_stay_between_none_and_all():
    progress = Progress(0.5)
    progress.add([release(1, ((10, 10), (-7.0, 19.0)))])
    last = progress.last
    assert (last.learned.value, last.control.value) == (0.0, 1.0)
    assert 0.0 <= last.learned.low <= last.learned.high <= 1.0
    assert -1.0 <= last.lift.low <= last.lift.high <= 1.0


def test_what_is_hardly_known_is_no_number_and_not_drawn():
    progress = Progress(0.05)
    progress.add([release(1, ((285, 15), (75.0, 3.9)))])
    assert progress.last.learned.known
    assert not progress.last.control.known
    assert not progress.last.lift.known
    found = series(progress.points)
    assert found["learned"] == [pytest.approx(75.0 / 285, abs=1e-5)]
    assert found["control"] == found["control_high"] == [None]


# --- intervals that hold whenever one looks -------------------------------------------------------------


def looks(runs, seed=5, scale=4.0, holdout=0.2, size=100, most=20_000):
    """Experiments of which somebody looks at every release: sums at each, and the truth then.

    Chances drift, as those of a learner do; the noise is Laplace's.
    """
    rng = np.random.default_rng(seed)
    served, decisions, truth = np.zeros((runs, 2)), np.zeros(2), np.zeros(2)
    blocks = 0
    while decisions.sum() < most:
        many = max(size, int(decisions.sum() / 2))
        new = np.array([round(many * (1 - holdout)), round(many * holdout)])
        chances = np.array([0.4 - 0.3 / (1 + decisions.sum() / 500), 0.1])
        served += rng.binomial(new, chances, (runs, 2)) + rng.laplace(0.0, scale, (runs, 2))
        decisions, truth, blocks = decisions + new, truth + new * chances, blocks + 1
        yield served.copy(), decisions.copy(), truth / decisions, blocks


def ever_wrong(found, runs):
    """The part of runs in which an interval was wrong at any look."""
    wrong = np.zeros(runs, dtype=bool)
    for (low, high), truth in found:
        wrong |= (truth < low) | (truth > high)
    return wrong.mean()


def fixed_time(served, decisions, blocks, scale):
    """The usual 95 % of one look: the injected fault."""
    value = np.clip(served / decisions, 0.0, 1.0)
    wide = 1.96 * np.sqrt(2 * scale**2 * blocks / decisions**2 + value * (1 - value) / decisions)
    return value - wide, value + wide


def test_intervals_hold_at_all_looks_together():
    runs, allowed = 1000, 0.05 + 5 * math.sqrt(0.05 * 0.95 / 1000)
    every = list(looks(runs))
    assert len(every) > 10
    for side in (0, 1):
        found = [
            (share_interval(served[:, side], n[side], blocks, 4.0), truth[side])
            for served, n, truth, blocks in every
        ]
        assert ever_wrong(found, runs) <= allowed
    found = [
        (lift_interval(served, n, blocks, 4.0, 0.2), truth[0] - truth[1])
        for served, n, truth, blocks in every
    ]
    assert ever_wrong(found, runs) <= allowed
    low, _ = found[-1][0]
    assert (low > 0).mean() > 0.9  # and they tell: a lift of about 27 points is seen


def test_intervals_of_one_look_do_not_hold_at_all_of_them():
    runs, allowed = 1000, 0.05 + 5 * math.sqrt(0.05 * 0.95 / 1000)
    for side in (0, 1):
        found = [
            (fixed_time(served[:, side], n[side], blocks, 4.0), truth[side])
            for served, n, truth, blocks in looks(runs)
        ]
        assert ever_wrong(found, runs) > allowed


def test_intervals_without_the_noise_do_not_hold():
    """Another fault: privacy noise that is not accounted for."""
    runs, allowed = 500, 0.05 + 5 * math.sqrt(0.05 * 0.95 / 500)
    found = [
        (lift_interval(served, n, blocks, 0.01, 0.05), truth[0] - truth[1])
        for served, n, truth, blocks in looks(runs, scale=40.0, holdout=0.05, most=4000)
    ]
    assert ever_wrong(found, runs) > allowed


@pytest.mark.parametrize("share", [0.0, 0.03, 0.5, 1.0])
def test_intervals_hold_for_few_and_for_all(share):
    runs = 300
    rng = np.random.default_rng(8)
    served = rng.binomial(5000, share, runs) + rng.laplace(0.0, 3.0, runs)
    low, high = share_interval(served, 5000, 1, 3.0)
    assert ((low <= share) & (share <= high)).mean() > 0.95 - 5 * math.sqrt(0.05 * 0.95 / runs)
    assert (high - low).max() < 0.07


def test_the_visible_lift_is_seen_four_times_in_five():
    """A lift as large as the plan says is told apart in four of five experiments, and half of it is not."""
    scale, holdout, people, runs = 1 / 0.3, 0.2, 10_000, 400
    visible = float(visible_lift(people, scale=scale, holdout=holdout))
    assert 0.03 < visible < 0.1
    decisions = np.array([people * (1 - holdout), people * holdout])
    blocks = blocks_of(first_block(scale), people)
    rng = np.random.default_rng(2)
    seen = []
    for lift in (visible, visible / 2):
        chances = np.array([0.5 + lift / 2, 0.5 - lift / 2])
        served = rng.binomial(decisions.astype(int), chances, (runs, 2))
        noisy = served + rng.laplace(0.0, scale, (blocks, runs, 2)).sum(axis=0)
        seen.append((lift_interval(noisy, decisions, blocks, scale, holdout)[0] > 0).mean())
    sure = 5 * math.sqrt(0.2 * 0.8 / runs)
    assert abs(seen[0] - 0.8) < sure
    assert seen[1] < 0.3


def test_the_plan_says_what_lift_can_be_seen():
    config = ExperimentConfig(items=list("abcdef"), k=2, feedback="taken")
    found = lift_plan(config, PopulationConfig(epsilon=1.0), 10_000)
    assert found.visible < 0.1  # the defaults have power
    grid = dict(found.rows)
    assert grid[0.2][found.measures.index(0.3)] == pytest.approx(found.visible)
    assert grid[0.05][0] > 0.3  # and those of the first release had none
    assert all(column == sorted(column, reverse=True) for column in np.transpose([*grid.values()]).tolist())
    assert lift_plan(config, PopulationConfig(epsilon=1.0), 50).visible == 1.0
    assert lift_plan(msgspec.structs.replace(config, holdout=0.0), PopulationConfig(epsilon=1.0), 100) is None


# --- a set of one's own to compare with -----------------------------------------------------------------


def test_the_hold_out_shows_the_control_set():
    config = ExperimentConfig(items=list("abcdef"), k=2, feedback="taken", control=["d", "b"], holdout=0.5)
    learning = Learning.begin(config, Gate(PURE.budget, 1))
    block = learning.allocate(1, 0, 0, 200, b"")
    assert 60 < len(block.baseline) < 140
    assert {tuple(block.lists[number]) for number in block.baseline.values()} == {(3, 1)}
    with pytest.raises(ValueError, match="'b', which is in the control set"):
        learning.change_items([], ["b"])
    learning.change_items(["g"], ["a"])


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"control": ["x"]}, "'x', which is not among the items"),
        ({"control": ["a", "a"]}, "up to k = 2 different items"),
        ({"control": ["a", "b", "c"]}, "up to k = 2 different items"),
        ({"control": ["a"], "holdout": 0.0}, "set holdout"),
    ],
)
def test_control_sets_that_could_not_be_shown_are_refused(more, said):
    config = ExperimentConfig(items=list("abcdef"), k=2, feedback="taken", **more)
    with pytest.raises(ValueError, match=said):
        Learning.begin(config, Gate(PURE.budget, 1))


def test_shares_are_read_from_where_one_was(url):
    world = World(url, taken(block_size=40), PURE)
    for _ in range(240):
        _, sequence, shown = world.serve()
        world.report(sequence, shown[0])
        if sequence % 40 == 39:
            world.settle()
    every = queries.releases(world.store, "shop")[::-1]
    found = queries.shares(world.store, "shop")
    assert sum(len(one["shares"]) for one in every) >= 2
    assert [one["shares"] for one in found if one["shares"]] == [
        one["shares"] for one in every if one["shares"]
    ]
    assert found[-1]["seq"] == every[-1]["seq"]
    whole, parts = Progress(0.2), Progress(0.2)
    whole.add(found)
    for seq in range(every[-1]["seq"]):
        new = queries.shares(world.store, "shop", parts.seq)
        parts.add(one for one in new if parts.seq < one["seq"] <= seq + 1)
    assert parts.points == whole.points
    assert queries.shares(world.store, "shop", whole.seq) == []


@pytest.mark.parametrize("feedback", ["likes", "taken", "value"])
def test_the_outlook_is_what_happens(feedback):
    """Shares leave after as many decisions as was said, and with that noise."""
    likes = feedback == "likes"
    people = PopulationConfig(
        epsilon=4.0, delta=1e-6 if likes else 0.0, definition="gdp" if likes else "pure"
    )
    config = ExperimentConfig(items=list("abcdef"), k=2, feedback=feedback, block_size=8)
    said = release_plan(config, people)
    learning = Learning.begin(config, Gate(people.budget, 1, definition=people.definition))
    sequence = learned = 0
    first_share = first_value = None
    while first_share is None or first_value is None:
        block = learning.allocate(1, 0, sequence, 8, b"")
        block.served = 8
        body = {"likes": ["a"], "taken": "a", "value": 0.5}[feedback]
        learning.aggregate(
            block, {sequence + offset: (False, json.dumps(body).encode()) for offset in range(8)}
        )
        sequence += 8
        learned += 8 - len(block.baseline)
        released = learning.payload()
        if released["shares"] and first_share is None:
            first_share = sequence
            assert released["shares"][0]["deviation"] == pytest.approx(said.measured_noise, abs=1e-3)
        if released["values"] and first_value is None:
            first_value = learned
    assert first_share == -(-said.measured_every // 8) * 8
    assert said.begins <= first_value < said.begins + 16
    assert said.every == (learning.learner.first_batch if likes else learning.learner.block)


def test_a_forecast_beats_chance_and_is_remembered():
    people = PopulationConfig(epsilon=4.0)
    config = ExperimentConfig(items=[str(item) for item in range(30)], k=3, feedback="taken")
    found = forecast(config, people, 4000)
    assert found.learned.share > found.random.share + 0.2
    assert forecast(config, people, 4000) is found


def test_intervals_hold_what_rounding_may_have_taken(monkeypatch):
    """Counts are written with three digits, one a block: each may be .0005 off, and more is allowed for."""
    low, high = share_interval(30_000.0, 10**5, 400, 0.1)
    monkeypatch.setattr(shares, "_ROUNDED", 0.0)
    assert low == pytest.approx(share_interval(30_000.0 - 0.4, 10**5, 400, 0.1)[0], rel=1e-7)
    assert high == pytest.approx(share_interval(30_000.0 + 0.4, 10**5, 400, 0.1)[1], rel=1e-7)
    assert low < share_interval(30_000.0, 10**5, 400, 0.1)[0]
