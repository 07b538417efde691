"""Every selector of the library serves: each kind of outcome, releases, a crash and a new period."""

from __future__ import annotations

import datetime

import numpy as np
import pytest

from discreet.online.registry import REGISTRY
from discreet.service.config import PopulationConfig
from discreet.service.learning import ReleasePlan, Wrong, first_release
from discreet.service.worker import periods_of

from .world import ITEMS, World, likes, taken

PEOPLE = PopulationConfig(epsilon=4.0, delta=1e-6, definition="zcdp", period="month")
SERVING = [
    (name, feedback)
    for name, one in REGISTRY.items()
    for feedback in {"function": ["likes"], "reward": ["taken", "value"]}.get(one.feedback, [])
]


def outcome(feedback, labels, rng):
    if feedback == "likes":
        return [ITEMS[i] for i in np.flatnonzero(rng.random(len(ITEMS)) < 0.3)]
    if feedback == "taken":
        return labels[0] if rng.random() < 0.5 else None
    return float(rng.random() < 0.5)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "feedback"), SERVING)
def test_a_learner_serves(name, feedback, tmp_path):
    config = likes(feedback=feedback, learner=name, rounds=400)
    world = World(f"sqlite:///{tmp_path}/service.db", config, PEOPLE)
    rng = np.random.default_rng(3)

    def blocks(count):
        for _ in range(8 * count):
            _, sequence, labels = world.serve()
            assert len(set(labels)) == 3
            assert set(labels) <= set(ITEMS)
            told = outcome(feedback, labels, rng)
            told = {"likes": told, "served": True} if config.personal else told
            assert world.report(sequence, told) == "recorded"
        world.settle()

    blocks(3)
    spent = periods_of(world.store, world.one.population).account("2026-11").epsilon()
    assert 0.0 < spent <= PEOPLE.epsilon
    before = world.one.learning.learner.round
    world.crash()
    world.settle()
    blocks(1)
    assert world.one.learning.learner.round > before
    world.now = datetime.datetime(2026, 12, 1, tzinfo=datetime.UTC)
    world.settle()
    world.blocks = []
    blocks(1)
    assert world.one.epoch == 1
    released = dict(world.rows("SELECT epoch, count(*) FROM release GROUP BY epoch"))
    assert released[0] >= 2  # with what was known before the crash, and after it
    assert released[1] >= 2  # what the new period begins with, and what came of its first block


def test_there_are_selectors_of_every_kind():
    assert {"LeaderSelector", "HedgeSelector", "PhasedSelector", "ThompsonSelector", "BanditSelector"} <= {
        name for name, _ in SERVING
    }


# --- candidates -------------------------------------------------------------------------------------------

FEW = [ITEMS[7], ITEMS[2], ITEMS[9], ITEMS[4]]


@pytest.mark.parametrize(
    "config",
    [
        likes(candidates=FEW, holdout=0.3),
        taken(candidates=FEW, holdout=0.3, control=FEW[:2]),
        taken(candidates=FEW, segments=["de", "fr"]),
    ],
)
def test_candidates_alone_are_shown_and_the_best_of_them_first(url, config):
    world = World(url, config)
    segment = config.queues[0]
    if config.feedback == "likes":
        block, _, _ = world.serve()
        first = [world.one.learning.labels[item] for item in block.lists[block.runs[0][0]]]
        assert first == FEW[:3]
    for _ in range(20):
        assert set(world.serve(segment)[2]) <= set(FEW)
    world.crash()
    assert world.one.config.candidates == FEW
    for _ in range(20):
        assert set(world.serve(segment)[2]) <= set(FEW)
    retired = {label for label, gone in world.rows("SELECT label, retired FROM item") if gone}
    assert retired == set(ITEMS) - set(FEW)
    world.worker.change_items(world.shop, ["new"], [FEW[3]])
    world.now = datetime.datetime(2026, 12, 1, tzinfo=datetime.UTC)
    world.settle()
    assert world.one.epoch == 1
    assert set(world.one.config.items) == {*FEW[:3], "new"}  # the next period knows no other items
    assert world.one.config.candidates == []


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"candidates": ["x", *FEW]}, "candidates has 'x', which is not among the items"),
        ({"candidates": FEW[:2]}, "at least k = 3 different items"),
        ({"candidates": [*FEW, FEW[0]]}, "at least k = 3 different items"),
        ({"candidates": FEW, "holdout": 0.2, "control": [ITEMS[0]]}, "is not among the candidates"),
    ],
)
def test_candidates_of_which_no_set_can_be_made_are_refused(file_url, more, said):
    with pytest.raises(Wrong, match=said) as caught:
        World(file_url, taken(**more))
    assert caught.value.field == "candidates"


def test_the_first_release_waits_for_people_who_are_not_held_out_and_for_full_blocks():
    plan = ReleasePlan("LeaderSelector", 80, 80, False, None, 33, 1.0)
    assert first_release(likes(holdout=0.2, block_size=8), plan) == {"counts": 104, "shares": 40}
    assert first_release(likes(holdout=0.0, block_size=20), plan) == {"counts": 80, "shares": 40}
