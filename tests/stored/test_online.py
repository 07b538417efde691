"""Learners take up the people of a store: windows, batches as parts, whole streams; as in one process."""

from __future__ import annotations

import numpy as np
import pytest

import discreet as dc
from discreet.constraints import Cardinality
from discreet.objectives import ConcaveOverModular, Coverage, ProbabilisticCoverage, WeightedTopics
from discreet.objectives.stored import Threads
from discreet.online import (
    BestOfBothSelector,
    LeaderSelector,
    MetaFrankWolfe,
    PhasedSelector,
    RunningSumSelector,
    ThompsonSelector,
)
from discreet.online.window import Window
from discreet.privacy import Release

from .stores import keys_of, store_of
from .test_scores import N_ITEMS, N_PEOPLE, matrix, the_same_coins

BUDGET = dc.Budget(20.0, 1e-6)
LEARNERS = {
    "running sums": lambda: RunningSumSelector(N_ITEMS, 3, 900, BUDGET, resample_every=300, seed=3),
    "leader": lambda: LeaderSelector(N_ITEMS, 3, 40_000, BUDGET, seed=3),
    "best of both": lambda: BestOfBothSelector(N_ITEMS, 3, 40_000, BUDGET, seed=3),
    "frank wolfe": lambda: MetaFrankWolfe(
        Cardinality(3).over(N_ITEMS), 900, BUDGET, resample_every=300, seed=3
    ),
    "windows": lambda: PhasedSelector(N_ITEMS, 3, BUDGET, window=300, method="composed", seed=3),
    "sampled windows": lambda: PhasedSelector(N_ITEMS, 3, BUDGET, window=300, method="subsampled", seed=3),
}


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return store_of(tmp_path_factory.mktemp("online") / "people", matrix(), 5, weighted=True)


def after(learner, taken_up) -> tuple:
    """What is shown next, and the state to the last bit, after the people of a part."""
    learner.choose()
    part = learner.partial(server="one")
    room = N_PEOPLE if part.room is None else part.room
    taken_up(part, min(room, N_PEOPLE))
    learner.merge(part)
    sums = getattr(part, "sums", None)
    return (
        learner.round,
        None if sums is None else sums.tolist(),
        learner.choose().items,
        learner.privacy.to_json(),
        learner.privacy.spent.to_json(),
    )


def one_by_one(people):
    return lambda part, room: [part.add(people[i]) for i in range(room)]


@pytest.mark.parametrize("name", LEARNERS)
def test_a_part_of_a_store_is_that_of_one_process(store, name, tmp_path):
    made = LEARNERS[name]
    room = min(N_PEOPLE, made().partial(server="x").room or N_PEOPLE)
    some = store if room == N_PEOPLE else None
    rows, keys = matrix()[:room], keys_of(N_PEOPLE)[:room]
    if some is None:
        some = store_of(tmp_path / "few", rows, 3, keys=keys, weighted=True)
    memory = ProbabilisticCoverage(rows)
    with the_same_coins(keys):
        ways = [
            lambda part, _: part.add_all(memory),
            lambda part, _: part.add_all(ProbabilisticCoverage.from_store(some)),
            lambda part, _: part.add_all(ProbabilisticCoverage.from_store(some, Threads(some, 3))),
        ]
        if name != "sampled windows":  # where everybody who comes alone has a coin of their own
            ways.append(one_by_one(memory))
        else:
            ways = ways[1:]
        found = [after(made(), way) for way in ways]
    assert all(one == found[0] for one in found[1:])
    assert found[0][0] == room


def test_windows_of_a_sample_are_those_of_the_same_people_in_memory(store):
    """The coins of the store, in memory: a window that is not sampled, over those who are in it."""
    keys, secret, keep = keys_of(N_PEOPLE), np.array([7, 8], dtype=np.uint64), None
    learner = LEARNERS["sampled windows"]()
    keep = learner.settings.keep
    with the_same_coins(keys):
        inside = Release.sample(None, N_PEOPLE, keep)
    window, other = Window(learner.n_items, learner.bound, 300), Window(learner.n_items, learner.bound, 300)
    window.elsewhere.append(Coverage.from_store(store).kept(secret, keep).row_source())
    other.keep_rows(Coverage(matrix()[inside]).as_rows())
    assert window.close().scores().tolist() == other.close().scores().tolist()


@pytest.mark.parametrize("name", ["leader", "windows", "frank wolfe"])
def test_a_whole_stream(store, name):
    """`run` takes a store some people at a time, in the order of its buckets."""
    people = ProbabilisticCoverage.from_store(store)
    together = people[np.arange(N_PEOPLE)]
    first, second = LEARNERS[name](), LEARNERS[name]()
    one, other = first.run(together), second.run(people)
    assert (one.selections == other.selections).all()
    assert (one.rewards == other.rewards).all()
    assert first.choose().items == second.choose().items
    with pytest.raises(ValueError, match="as many entries"):
        second.run(people, person_ids=["ann"])


def test_what_does_not_fit_is_refused_and_changes_nothing(store):
    part = LEARNERS["running sums"]().partial(server="one")
    for wrong, error, words in (
        (ConcaveOverModular.from_store(store, bound=2.5), ValueError, "above the learner's bound"),
        ([1, 2], TypeError, "people must be"),
        (Coverage(np.ones((2, 3))), ValueError, "over 3 items"),
        (Coverage(np.ones((part.room + 1, N_ITEMS))), RuntimeError, "has room for"),
    ):
        with pytest.raises(error, match=words):
            part.add_all(wrong)
    assert (part.count, part.sums.any()) == (0, False)
    windows = LEARNERS["windows"]()
    kept = windows.partial(server="one")
    with pytest.raises(ValueError, match=r"takes one person|keeps people who are rows"):
        kept.add_all(WeightedTopics.from_store(store, np.ones((N_ITEMS, N_ITEMS)), bound=4.0) * 0.2)
    kept.add_all(Coverage.from_store(store))
    windows.merge(kept)
    with pytest.raises(TypeError, match="in a store"):
        windows.to_bytes()
    rewarded = ThompsonSelector(N_ITEMS, 2, 500, BUDGET, seed=0).partial(server="one")
    with pytest.raises(TypeError, match="rewards"):
        rewarded.add_all(Coverage(np.ones((1, N_ITEMS))))
