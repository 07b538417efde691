"""What every online learner of sets keeps to, whatever it does inside."""

from __future__ import annotations

import math
import os
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import discreet as dc
from discreet.objectives import Coverage, GraphCut, SetFunction
from discreet.online import BanditSelector, OnlineSelector, PhasedSelector
from tests.online.learners import LEARNERS, N_ITEMS, ROUNDS, K, feed, people

FAMILIES = ("coverage", "chances", "facility", "functions")


@pytest.fixture(params=LEARNERS, ids=LEARNERS.keys())
def make(request):
    return LEARNERS[request.param]


def _families(make):
    """Capping needs rows."""
    capped = getattr(make(), "items_per_person", None) is not None
    return FAMILIES[:3] if capped else FAMILIES


def _row(items):
    """As a trace writes it: sets that explore may be short."""
    return items + (-1,) * (K - len(items))


def _one_by_one(learner, stream, count=None, ids=None):
    shown, rewards = [], []
    for t in range(len(stream) if count is None else count):
        items = learner.choose().items
        shown.append(_row(items))
        rewards.append(stream[t].value(items))
        feed(learner, stream[t], person_id=None if ids is None else ids[t])
    return np.array(shown), np.array(rewards)


def test_sets_are_distinct_and_in_range(make):
    learner = make()
    short = isinstance(learner, BanditSelector) and learner.feedback == "set"
    trace = learner.run(people())
    assert trace.selections.shape == (ROUNDS, K)
    for row in trace.selections:
        items = row[row >= 0]
        assert (row[: items.size] >= 0).all()
        assert len(set(items.tolist())) == items.size
        assert 1 <= items.size <= K if short else items.size == K
        assert items.max() < N_ITEMS


def test_run_equals_one_by_one(make):
    for kind in _families(make):
        stream = people(kind)
        trace = make().run(stream)
        shown, rewards = _one_by_one(make(), stream)
        assert (trace.selections == shown).all()
        assert np.allclose(trace.rewards, rewards)
        assert trace.average == pytest.approx(rewards.mean())


def test_row_families_and_plain_functions_agree(make):
    if "functions" not in _families(make):
        pytest.skip("a cap needs rows")
    a, b = make().run(people("coverage")), make().run(people("functions"))
    assert (a.selections == b.selections).all()


def test_run_in_pieces_equals_run_at_once(make):
    stream = people()
    whole = make().run(stream)
    learner = make()
    parts = [learner.run(stream[a:b]) for a, b in ((0, 5), (5, 6), (6, 19), (19, ROUNDS))]
    assert (np.concatenate([p.selections for p in parts]) == whole.selections).all()


@pytest.mark.parametrize("stop", [0, 1, 4, 13, 29])
@pytest.mark.parametrize("asked", [False, True])
def test_resumes_identically_at_any_point(make, stop, asked, tmp_path):
    stream = people()
    whole = make().run(stream)
    learner = make()
    _one_by_one(learner, stream, stop)
    if asked:
        learner.choose()
    learner.save(tmp_path / "state.discreet")
    again = OnlineSelector.load(tmp_path / "state.discreet")
    assert type(again) is type(learner)
    assert again.privacy.to_json() == learner.privacy.to_json()
    assert again.privacy.spent.to_json() == learner.privacy.spent.to_json()
    rest = again.run(stream[stop:]) if stop < ROUNDS else None
    assert (rest.selections == whole.selections[stop:]).all()


def test_choosing_twice_is_choosing_once(make):
    learner = make()
    first = learner.choose()
    assert learner.choose() == first
    assert first.round == 0


def test_order_of_calls_is_kept(make):
    learner, stream = make(), people()
    with pytest.raises(RuntimeError, match=r"learn\(\) comes after choose\(\)"):
        learner.learn(stream[0])
    learner.choose()
    feed(learner, stream[0])
    with pytest.raises(RuntimeError, match=r"learn\(\) comes after choose\(\)"):
        learner.learn(stream[1])
    assert learner.round == 1


def test_bad_people_are_refused_and_the_round_stays_open(make):
    stream = people()
    learner, twin = make(), make()
    if isinstance(learner, BanditSelector):
        pytest.skip("is fed numbers, not people (tests/online/test_bandit.py)")
    learner.choose()
    twin.choose()
    high = Coverage(np.ones((1, N_ITEMS))) * 3.0
    for person, message in (
        (people(n_items=5)[0], "the function is over 5 items; this learner chooses among 7"),
        (stream[:2], "takes one person, got 2"),
        ("somebody", "expected a person's function"),
        (math.nan, "expected a person's function"),
        (high, "may reach 3, above the learner's bound=1"),
        (GraphCut(np.zeros((N_ITEMS, N_ITEMS)), bound=1.0), "monotone"),
    ):
        with pytest.raises((ValueError, TypeError), match=message):
            learner.learn(person)
    assert learner.round == 0
    for t in range(3):
        learner.learn(stream[t])
        twin.learn(stream[t])
        assert learner.choose() == twin.choose()


def test_functions_that_break_their_promise_change_nothing(make):
    """NaN, a value above the bound, a value that falls: found at the second item, the first being fine."""
    learner, twin = make(), make()
    if "functions" not in _families(make):
        pytest.skip("a cap needs rows")
    if isinstance(learner, PhasedSelector):
        pytest.skip("keeps the person, and finds out when it uses them (tests/online/test_phased.py)")
    if isinstance(learner, BanditSelector):
        pytest.skip("is fed numbers, not people (tests/online/test_bandit.py)")
    stream = people("functions")
    shown = learner.choose().items
    twin.choose()

    def broken(bad):
        return lambda items: bad if len(items) > 1 and shown[0] in items else float(bool(items))

    for bad, message in ((math.nan, "nan"), (2.0, "at 2"), (0.25, "not monotone")):
        with pytest.raises(ValueError, match=message):
            learner.learn(SetFunction(broken(bad), N_ITEMS, 1.0, monotone=True), person_id="ann")
    assert learner.round == 0
    for t in range(6):
        learner.learn(stream[t], person_id="ann" if t == 0 else None)
        twin.learn(stream[t])
        assert learner.choose() == twin.choose()


def test_horizon(make):
    learner, stream = make(), people(count=ROUNDS + 5)
    if learner.rounds is None:
        pytest.skip("no horizon to reach")
    trace = learner.run(stream)
    assert (trace.selections[ROUNDS:] == trace.selections[-1]).all()
    if not isinstance(learner, BanditSelector):  # may have explored in the last round, and serves its set
        assert (trace.selections[ROUNDS:] == trace.selections[ROUNDS - 1]).all()
    assert learner.over
    last = learner.choose()
    assert last.items == tuple(trace.selections[-1])
    with pytest.raises(RuntimeError, match="horizon of rounds=30 is over"):
        learner.learn(stream[0])
    assert learner.choose() == last


def test_whole_guarantee_is_known_before_and_never_exceeded(make):
    learner = make()
    before = learner.privacy
    budget = learner.budget
    if budget.private:
        assert before.epsilon(budget.delta) <= budget.epsilon
        assert before.delta(budget.epsilon) <= budget.delta
    assert learner.privacy.spent.epsilon(budget.delta) == 0.0
    stream = people()
    last = 0.0
    for t in range(ROUNDS):
        learner.choose()
        feed(learner, stream[t])
        spent = learner.privacy.spent.epsilon(budget.delta)
        assert last <= spent <= before.epsilon(budget.delta)
        last = spent
    if before.loss.rho or before.loss.rho is None:
        assert last > 0.0
    if learner.rounds is not None:
        assert learner.privacy.to_json() == before.to_json()
    assert "not private" in str(learner.privacy)


def test_further_rounds_of_a_person_are_served_but_not_learned(make):
    learner = make()
    limit = learner.budget.max_rounds_per_person
    stream = people()
    ids = ["ann"] * ROUNDS
    once = make()
    shown, _ = _one_by_one(learner, stream, ids=ids)
    # the same as if everybody after the limit had no wishes at all
    nobody = Coverage(np.zeros((1, N_ITEMS)))
    expected = []
    for t in range(ROUNDS):
        expected.append(_row(once.choose().items))
        feed(once, stream[t] if t < limit else nobody)
    if getattr(learner, "items_per_person", None) is None:  # the cap draws coins for people it counts
        assert (shown == np.array(expected)).all()
    traced = make().run(stream, person_ids=ids)
    assert (traced.selections == shown).all()
    with pytest.raises(ValueError, match="person_ids has 1 entries"):
        make().run(stream, person_ids=["ann"])


def test_equal_identities_are_one_person(make):
    """Numbers and texts that are equal count together, whatever type carries them."""
    limit = make().budget.max_rounds_per_person
    for ids in ([5, np.int64(5), 5.0, np.uint8(5), 5], ["ann", np.str_("ann")] * 3):
        visits = make()._visits
        assert [visits.admit(i) for i in ids].count(True) == limit
    with pytest.raises(TypeError, match="person_id must be text, a number"):
        make()._visits.admit(object())


def test_a_failing_run_leaves_the_visits_of_those_behind_it(make):
    if "functions" not in _families(make) or isinstance(make(), PhasedSelector):
        pytest.skip("needs functions that are asked at once")
    learner = make()
    rows = (
        [(lambda items: float(bool(items)))] * 3
        + [lambda _: math.nan]
        + [lambda items: float(bool(items))] * 3
    )
    stream = SetFunction(rows, N_ITEMS, 1.0, monotone=True)
    with pytest.raises(ValueError, match="nan"):
        learner.run(stream, person_ids=list("abcdefg"))
    assert learner.round == 3
    limit = learner.budget.max_rounds_per_person
    assert [learner._visits.admit("g") for _ in range(limit + 1)] == [True] * limit + [False]


def test_an_interruption_never_counts_anybody_twice(make, monkeypatch):
    """Interrupted while a person is taken up: their round has passed, and nothing of them comes again."""
    learner, stream = make(), people()
    learner.choose()
    feed(learner, stream[0])
    learner.choose()

    def interrupt(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(type(learner), "_absorb", interrupt)
        with pytest.raises(KeyboardInterrupt):
            feed(learner, stream[1])
    assert learner.round == 2
    with pytest.raises(RuntimeError, match=r"learn\(\) comes after choose\(\)"):
        learner.learn(stream[1])
    learner.choose()


def test_a_forked_child_is_refused(make):
    learner = make(seed=None)
    learner.choose()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            learner.choose()
        except RuntimeError as error:
            os.write(write, str(error).encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(write)
    assert b"made in another process" in os.read(read, 500)


def test_threads_are_shown_one_set_a_round(make):
    learner, stream = make(), people()
    for t in range(8):
        with ThreadPoolExecutor(4) as pool:
            shown = set(pool.map(lambda _: learner.choose().items, range(8)))
        assert len(shown) == 1
        feed(learner, stream[t])


def test_identities_are_not_kept(make, tmp_path):
    learner = make()
    learner.run(people(), person_ids=[f"person-{t}-unforgettable" for t in range(ROUNDS)])
    learner.save(tmp_path / "s")
    assert b"unforgettable" not in (tmp_path / "s").read_bytes()


def test_labels_come_back(make):
    names = [f"page {i}" for i in range(N_ITEMS)]
    choice = make(labels=names).choose()
    assert choice.labels == tuple(names[i] for i in choice.items)
    with pytest.raises(ValueError, match="labels has 2 entries; there are 7 items"):
        make(labels=["a", "b"])
    assert make(labels=list(np.arange(N_ITEMS))).choose().labels is not None
    with pytest.raises(TypeError, match="neither text nor a number"):
        make(labels=[("page", i) for i in range(N_ITEMS)])


def test_secure_by_default_and_not_copied(make):
    learner = make(seed=None)
    learner.run(people())
    assert "not private (anyone" not in str(learner.privacy)
    with pytest.raises(TypeError, match="not copied or pickled"):
        pickle.dumps(learner)


def test_loading_something_else_is_refused(tmp_path):
    total = dc.privacy.TreeSum(3, 12, dc.Budget(1.0), noise="laplace", norm_bound=1.0)
    total.save(tmp_path / "sum")
    with pytest.raises(ValueError, match="holds a TreeSum, not a OnlineSelector"):
        OnlineSelector.load(tmp_path / "sum")
