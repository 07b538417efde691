"""Every selector of the library serves: each kind of outcome, releases, a crash and a new period."""

from __future__ import annotations

import datetime
from types import SimpleNamespace

import msgspec
import numpy as np
import pytest

import discreet as dc
from discreet.online.registry import REGISTRY
from discreet.service.config import ConstraintConfig, ExperimentConfig, PopulationConfig
from discreet.service.learning import (
    MOST_SEGMENTS,
    DecisionBlock,
    InvalidField,
    Learning,
    ReleasePlan,
    _add,
    check,
    check_segments,
    first_release,
)
from discreet.service.worker import periods_of

from .world import ITEMS, World, likes, taken

PEOPLE = PopulationConfig(epsilon=4.0, delta=1e-6, definition="zcdp", period="month")
SERVING = [
    (name, feedback)
    for name, one in REGISTRY.items()
    for feedback in {"function": ["full"], "reward": ["slots", "bandit"]}.get(one.learns_from, [])
]


def outcome(feedback, labels, rng):
    if feedback == "full":
        return [ITEMS[i] for i in np.flatnonzero(rng.random(len(ITEMS)) < 0.3)]
    if feedback == "slots":
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
    if config.feedback == "full":
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
    with pytest.raises(InvalidField, match=said) as caught:
        World(file_url, taken(**more))
    assert caught.value.field == "candidates"


@pytest.mark.parametrize("more", [{"bound": 2.0}, {"options": {"bound": 0.5}}])
def test_a_bound_that_no_outcome_keeps_to_is_refused_at_once(file_url, more):
    """Who likes something that is shown counts 1: nothing could ever be learned."""
    with pytest.raises(InvalidField, match="bound is for values"):
        World(file_url, likes(**more))


def test_the_first_release_waits_for_people_who_are_not_held_out_and_for_full_blocks():
    plan = ReleasePlan("LeaderSelector", 80, 80, False, None, 33, 1.0)
    assert first_release(likes(holdout=0.2, block_size=8), plan) == {"counts": 104, "shares": 40}
    assert first_release(likes(holdout=0.0, block_size=20), plan) == {"counts": 80, "shares": 40}


def begun(config, **more):
    return Learning.begin(config, dc.Gate(dc.Budget(4.0, 1e-6, **more), 5, definition="zcdp"))


def test_what_is_read_of_an_outcome():
    """A value up to its bound, and its part of that; a taken item if it was shown."""
    value = begun(likes(feedback="bandit", bound=4.0))
    assert [value._read(body, [0]) for body in (b"1.0", b"9.0", b"-1.0", None)] == [
        *((1.0, 0.25), (4.0, 1.0), (0.0, 0.0), (None, 0.0)),
    ]
    which = begun(taken())
    assert [which._read(body, [3, 5]) for body in (b'"item 5"', b'"item 4"', b"null")] == [
        *((5, 1.0), (None, 0.0), (None, 0.0)),
    ]
    liked = begun(likes())
    assert liked._read(b'["item 4","item 4","x"]', [3, 4]) == ([4], 1.0)
    assert liked._read(b'["item 4"]', [3, 5]) == ([4], 0.0)


def test_blocks_by_hand():
    lists, runs = [], []
    for items, many in (([1], 2), ([1], 3), ([2], 1), ([1], 1)):
        _add(lists, runs, items, many)
    assert (lists, runs) == ([[1], [2], [1]], [(0, 5), (1, 1), (2, 1)])
    # Two of five items at random for a fifth, the first set else: ten sets.
    shown = ([[0, 1], [3, 4], [1, 0]], [(0, 3)], {1: 1, 3: 2}, 0, [], b"", 5)
    block = DecisionBlock(1, 0, 16, 5, *shown)
    assert block.which == [0, 1, 0, 2, 0]
    assert [block.propensity(number, 0.2) for number in range(3)] == pytest.approx([0.82, 0.02, 0.82])
    assert block.end == 21
    assert not block.over
    block.served = 5
    assert block.over
    with pytest.raises(ValueError, match="another number"):
        DecisionBlock(1, 0, 16, 4, *shown)


@pytest.mark.parametrize("config", [likes(holdout=0.0), taken(holdout=0.0)], ids=["likes", "taken"])
def test_outcomes_are_of_their_own_decisions(config):
    """Of a block that does not begin at 0: of eight, six were served, and three of these took something."""
    learning = begun(config)
    learning.allocate(1, 0, 0, 16, b"")
    block = learning.allocate(1, 0, 16, 8, b"")
    block.served = 6
    said = {}
    for sequence in (16, 18, 21, 22, 2, 14):  # the last three were not served, or are of another block
        label = learning.labels[block.lists[block.which[sequence % 8]][0]]
        said[sequence] = (False, msgspec.json.encode(label if learning.ahead else [label]))
    learning.aggregate(block, said)
    (counted,) = learning.measure._open.values()
    assert counted.decisions == [6, 0]
    assert counted.counts == [3 * learning.measure._one, 0]


def test_sets_of_the_hold_out_go_together_and_many_items_stand_in():
    """One of each of two groups, also where more were asked for; 64 items beside those of a set."""
    items = [f"item {number}" for number in range(100)]
    groups = {"even": items[::2], "odd": items[1::2]}
    limited = likes(items=items, k=2, constraint=ConstraintConfig(groups=groups), holdout=0.5)
    wider = likes(items=items, k=5, constraint=limited.constraint, learner="MetaFrankWolfe", rounds=100)
    assert begun(wider).width == 2
    learning = begun(limited)
    block = learning.allocate(1, 0, 0, 64, b"")
    sets = [block.lists[number] for number in block.baseline.values()]
    assert 16 < len(sets) < 48
    assert all(len(one) == 2 and sum(one) % 2 for one in sets)
    assert len({*map(tuple, sets)}) > 8
    for config in (likes(items=items), taken(items=items, holdout=0.0), limited):
        block = begun(config).allocate(1, 0, 0, 8, b"")
        assert len(block.spare) == begun(config).width + 64


def test_a_release_lists_the_twenty_best_values():
    values = np.arange(30.0)
    values[10:20] = np.nan
    released = SimpleNamespace(values=values, deviations=values + 0.5, items=[3])
    labels = [f"item {number}" for number in range(30)]
    stub = SimpleNamespace(
        queues={"de": SimpleNamespace(released=released)}, labels=labels, learner=None, measure=None
    )
    found = Learning.payload(stub, "de")
    best = [*range(29, 19, -1), *range(9, -1, -1)]
    assert [one["item"] for one in found["values"]] == [f"item {number}" for number in best]
    assert [one["value"] for one in found["values"]] == best
    assert [one["deviation"] for one in found["values"]] == [one + 0.5 for one in best]
    assert (found["segment"], found["items"], found["shares"]) == ("de", ["item 3"], [])


def test_segments_are_different_and_not_too_many():
    check_segments([f"s {number}" for number in range(MOST_SEGMENTS)])
    for wrong in (["a", "b", "a"], [f"s {number}" for number in range(MOST_SEGMENTS + 1)]):
        with pytest.raises(InvalidField, match="distinct"):
            check_segments(wrong)


def test_items_are_different():
    check(ExperimentConfig(items=["a", "b", "c"], k=2))
    with pytest.raises(InvalidField, match="items must be distinct"):
        check(ExperimentConfig(items=["a", "b", "a"], k=2))
