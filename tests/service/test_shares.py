"""Shares of people served: what charts and numbers make of released counts."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from discreet.privacy import Gate
from discreet.service import queries
from discreet.service.config import ExperimentConfig, PopulationConfig
from discreet.service.learning import Learning, forecast, release_plan
from discreet.service.shares import SURE, Progress, series

from .world import PURE, World, taken


def release(seq, *blocks, epoch=0):
    shares = [
        {"decisions": list(decisions), "served": list(served), "deviation": 3.0}
        for decisions, served in blocks
    ]
    return {"seq": seq, "epoch": epoch, "at": 100.0 * seq, "shares": shares}


def test_counts_add_up_and_so_does_their_noise():
    progress = Progress()
    progress.add([release(1, ((90, 10), (40.0, 2.0))), release(2), release(3, ((110, 10), (60.0, 3.0)))])
    assert progress.seq == 3
    assert [point.at for point in progress.points] == [100.0, 300.0]
    last = progress.last
    assert last.decisions == (200, 20)
    assert last.learned.value == pytest.approx(0.5)
    assert last.learned.noise == pytest.approx(3.0 * math.sqrt(2) / 200)
    assert last.learned.deviation == pytest.approx(math.hypot(last.learned.noise, math.sqrt(0.25 / 200)))
    assert last.lift.value == pytest.approx(0.25)
    assert last.lift.deviation == pytest.approx(math.hypot(last.learned.deviation, last.random.deviation))
    low, high = last.learned.band
    assert high - low == pytest.approx(2 * SURE * last.learned.noise)


def test_a_new_period_begins_at_nothing():
    progress = Progress()
    progress.add([release(1, ((100, 0), (50.0, 0.0))), release(2, ((100, 0), (10.0, 0.0)), epoch=1)])
    assert progress.last.learned.value == pytest.approx(0.1)
    assert progress.last.random is None
    assert progress.last.lift is None
    assert series(progress.points)["learned"] == [0.5, None, 0.1]


def test_shares_stay_between_none_and_all():
    progress = Progress()
    progress.add([release(1, ((10, 10), (-7.0, 19.0)))])
    assert (progress.last.learned.value, progress.last.random.value) == (0.0, 1.0)
    assert progress.last.learned.band[0] == 0.0


def test_margins_hold():
    """In 95 % of simulated experiments the true share and lift are within the margins."""
    rng = np.random.default_rng(3)
    inside, runs = np.zeros(2), 600
    for _ in range(runs):
        progress = Progress()
        blocks = []
        for _ in range(4):
            served = rng.binomial([400, 80], [0.4, 0.1]) + rng.laplace(0.0, 3.0 / math.sqrt(2), 2)
            blocks.append(((400, 80), tuple(served)))
        progress.add([release(1, *blocks)])
        last = progress.last
        inside += (
            abs(last.learned.value - 0.4) < last.learned.margin,
            abs(last.lift.value - 0.3) < last.lift.margin,
        )
    assert (inside / runs > 0.95 - 5 * math.sqrt(0.05 * 0.95 / runs)).all()


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
    whole, parts = Progress(), Progress()
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
    assert said.known_within(said.measured_every - 1, 0.0) is None
    few, many = said.measured_every * 5, said.measured_every * 100
    assert said.known_within(few, 0.0) == pytest.approx(SURE * said.measured_noise * 5**0.5 / few)
    assert said.known_within(many, 0.0) < SURE * said.measured_noise * 5 / many  # of 21 blocks, not of 100


def test_a_forecast_beats_chance_and_is_remembered():
    people = PopulationConfig(epsilon=4.0)
    config = ExperimentConfig(items=[str(item) for item in range(30)], k=3, feedback="taken")
    found = forecast(config, people, 4000)
    assert found.learned.share > found.random.share + 0.2
    assert forecast(config, people, 4000) is found
