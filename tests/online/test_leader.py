"""LeaderSelector: sensitivity of its releases, batches, sets under matroids, and how well it serves."""

from __future__ import annotations

import itertools
import math
from unittest import mock

import numpy as np
import pytest

import discreet as dc
from discreet.constraints import Cardinality, GraphicMatroid, Knapsack, PartitionMatroid
from discreet.objectives import Coverage, FacilityLocation, SetFunction
from discreet.online import LeaderSelector, leader
from discreet.online.leader import LONGEST, UNITS, LeaderSettings, LeaderSum
from discreet.online.sums import BatchedSum
from discreet.privacy import FactorizedSum, RunningSum, samplers
from tests.objectives.families import of_rows

BUDGET = dc.Budget(1.0, 1e-6)
FREE = dc.Budget(math.inf)


def _gathered(person, shown, bound=1.0):
    """A person's part in the next sum, in whole units, when ``shown`` is on show."""
    learner = LeaderSelector(person.n_items, len(shown), 100, FREE, batch=50, bound=bound, seed=0)
    learner.choose()
    learner._rounds.shown = np.array(shown, dtype=np.int32)
    learner.learn(person)
    return learner._sum.pending


# --- what one person moves --------------------------------------------------------------------------


def test_no_person_has_a_vector_longer_than_one():
    """Exactly, in whole numbers; and almost 1 is reached, by few items and by many."""
    rng = np.random.default_rng(1)
    longest = 0
    for n_items in (1, 2, 7, 300):
        for share in (0.02, 0.3, 1.0):
            likes = (rng.random((20, n_items)) < share) * rng.random((20, n_items)) ** rng.choice(
                [0.0, 1.0, 4.0]
            )
            for person in FacilityLocation(likes):
                vector = [int(x) for x in _gathered(person, [0])]
                assert min(vector) >= 0
                squares = sum(x * x for x in vector)
                assert squares <= UNITS**2
                longest = max(longest, squares)
    assert longest > (1 - 1e-5) * UNITS**2


def test_sums_that_are_longer_than_people_can_make_them_are_refused():
    """Three people are three vectors of length 1 at most, whatever single entries could be."""
    total = LeaderSelector(3, 2, None, BUDGET, first_batch=5, seed=0)._sum
    longest = 3 * UNITS * np.array([0.6, 0.8, 0.0])
    total.check((1.0 + 5e-10) * longest, 3)
    with pytest.raises(ValueError, match="more than 3 people can amount to"):
        total.check((1.0 + 2e-9) * longest, 3)


def test_nobody_is_added_up_for_a_sum_that_never_leaves():
    learner = LeaderSelector(3, 1, 10, BUDGET, batch=5, seed=0)
    learner.run(Coverage(np.ones((5, 3))))
    assert learner._sum.pending.any()
    learner.run(Coverage(np.ones((5, 3))))
    assert learner._sum.count == 1
    assert not learner._sum.pending.any()


def test_rows_are_counted_without_a_compiled_loop_as_with_it():
    people, within = Coverage(np.eye(4)[[0, 1, 2, 3, 3]]), np.array([True, False, True])
    sums = [LeaderSelector(4, 1, 9, BUDGET, batch=9, seed=0)._sum for _ in "ab"]
    for total, add in zip(sums, (LeaderSum.add_rows, BatchedSum.add_rows), strict=True):
        add(total, people, 2, within, np.array([0], dtype=np.int32))
        assert np.flatnonzero(total.pending).tolist() == [2, 3]
    assert (sums[0].pending == sums[1].pending).all()


def _released(rows, script, make):
    """What leaves, without noise and in units of it, when the sets are as scripted."""
    seen, honest = [], RunningSum._released

    def quiet(_source, count, *, gaussian):  # noqa: ARG001
        return np.zeros(count, dtype=np.int64)

    def watched(total, sums):
        seen.extend(sums.astype(float) / 2.0**samplers.STEPS_BITS)
        return honest(total, sums)

    with (
        mock.patch.object(samplers, "noise_steps", quiet),
        mock.patch.object(RunningSum, "_released", watched),
    ):
        learner = make()
        for row, shown in zip(rows, script, strict=True):
            learner.choose()
            learner._rounds.shown = np.array(shown, dtype=np.int32)
            learner.learn(Coverage([row]))
        learner.choose()
    return np.array(seen)


def _worst(neighbours, batch=1, sums="sqrt", rounds=5):
    """The largest loss over all neighbouring rows, in Gaussian DP's mu; and that of the budget."""
    budget = dc.Budget(1.0, 1e-6, neighbours)

    def make():
        return LeaderSelector(4, 2, rounds + 1, budget, batch=batch, sums=sums, seed=0)

    rng = np.random.default_rng(2)
    tables = list(itertools.product((0, 1), repeat=4))
    script = [rng.permutation(4)[:2] for _ in range(rounds)]
    base = [tables[rng.integers(len(tables))] for _ in range(rounds)]
    there = [_released([row, *base[1:]], script, make) for row in tables]
    pairs = (
        itertools.combinations(there, 2) if neighbours == "replace" else ((there[0], one) for one in there)
    )
    return max(np.linalg.norm((a - b).ravel()) for a, b in pairs), budget.mu


@pytest.mark.parametrize("neighbours", ["replace", "add_remove"])
@pytest.mark.parametrize(("batch", "sums"), [(1, "sqrt"), (2, "blt"), (2, "sqrt")])
def test_a_release_loses_at_most_mu(neighbours, batch, sums):
    worst, mu = _worst(neighbours, batch, sums)
    assert 0.9 * mu < worst <= mu


@pytest.mark.parametrize("neighbours", ["replace", "add_remove"])
def test_people_who_count_whole_are_caught(neighbours, monkeypatch):
    """The injected fault: somebody with many items counts like somebody with one."""

    def unweighted(self, person):
        alone, gains = leader.answers.leave_one_out(person, self._shown.tolist(), 1.0)
        return np.floor(np.minimum(gains, alone) * UNITS).astype(np.int64)

    monkeypatch.setattr(LeaderSelector, "_prepared", unweighted)
    with mock.patch.object(FactorizedSum, "add", _believing(FactorizedSum.add)):
        worst, mu = _worst(neighbours)
    assert worst > 1.2 * mu


def _believing(add):
    """A sum that checks nothing: learners refuse such a vector at once otherwise."""

    def believing(total, vector):
        with mock.patch.object(type(total.bounds), "checked", lambda _, values, clip: np.asarray(values)):  # noqa: ARG005
            return add(total, vector)

    return believing


def test_a_vector_that_is_too_long_is_refused_when_it_is_released(monkeypatch):
    def unweighted(self, person):  # noqa: ARG001
        return np.full(4, UNITS, dtype=np.int64)

    monkeypatch.setattr(LeaderSelector, "_prepared", unweighted)
    learner = LeaderSelector(4, 2, 9, BUDGET, batch=1, seed=0)
    learner.choose()
    learner.learn(Coverage([[1, 1, 1, 1]]))
    with pytest.raises(ValueError, match="norm_bound"):
        learner.choose()


def test_functions_that_are_not_submodular_are_held_to_what_items_add_alone():
    """The pair is worth 1 and each alone 0.1: together they add up to no more than the weighted 0.1 each."""
    person = SetFunction(
        lambda items: {0: 0.0, 1: 0.1, 2: 1.0}[len({0, 1} & set(items))], 3, 1.0, monotone=True
    )
    assert (_gathered(person, [0]) <= math.ceil(0.1 * UNITS)).all()
    together = _gathered(person, [0, 1])
    assert together[0] == pytest.approx(0.1 * UNITS, rel=1e-5)
    wants = SetFunction(lambda items: float(bool({0, 1} & set(items))), 3, 1.0, monotone=True)
    np.testing.assert_array_equal(_gathered(Coverage([[1, 1, 0]]), [0]), _gathered(wants, [0]))


def test_a_part_may_hold_what_its_people_amount_to_and_no_more():
    """Ten people whose vectors are one item's: as long as can be, up to rounding of the length."""
    total, most = LeaderSelector(4, 2, 90, BUDGET, batch=30, seed=0)._sum, 10 * UNITS
    for sums in ([most, 0, 0, 0], [most // 2] * 4, [most + 1, 0, 0, 0]):
        total.check(np.array(sums), 10)
    for sums in ([most + 4, 0, 0, 0], [most // 2 + 3] * 4):
        with pytest.raises(ValueError, match="more than 10 people"):
            total.check(np.array(sums), 10)


def test_what_is_left_has_to_make_a_set():
    """Four items are enough for three places, but not where two of a kind have one."""
    constraint = PartitionMatroid([0, 0, 1, 1, 2], [1, 1, 1])
    learner = LeaderSelector(5, None, 90, BUDGET, constraint=constraint, seed=0)
    learner.retire_items([1])
    with pytest.raises(ValueError, match="make no set of 3"):
        learner.retire_items([4])
    learner.retire_items([3])
    assert set(learner.choose().items) == {0, 2, 4}


def test_sums_of_the_longest_batch_are_exact():
    assert LONGEST * UNITS <= 2**53


def test_the_bound_does_not_change_what_a_person_moves():
    for bound in (1e-90, 1.0, 1e90):
        people = FacilityLocation(bound * np.array([[1.0, 0.5, 0.0]]), bound=bound)
        expected = _gathered(FacilityLocation([[1.0, 0.5, 0.0]])[0], [1])
        np.testing.assert_array_equal(_gathered(people[0], [1], bound), expected)


# --- sets -------------------------------------------------------------------------------------------


def test_sets_are_the_best_of_the_released_sums():
    rng = np.random.default_rng(4)
    people = Coverage((rng.random((60, 6)) < 0.4).astype(float))
    blocks = PartitionMatroid([[0, 1, 2], [3, 4, 5]], 1)
    edges = GraphicMatroid([(0, 1), (1, 2), (2, 0), (2, 3), (3, 4), (4, 2)])
    for matroid, k in ((None, 3), (blocks, None), (edges, None), (edges, 2), (Cardinality(4), 4)):
        learner = LeaderSelector(6, k, None, BUDGET, constraint=matroid, first_batch=5, seed=0)
        learner.run(people)
        known, shown = learner._sum.released, learner.choose().items
        feasible = [s for s in itertools.combinations(range(6), learner.k) if learner.constraint.contains(s)]
        assert set(shown) == set(max(feasible, key=lambda s: known[list(s)].sum()))
        assert list(known[list(shown)]) == sorted(known[list(shown)], reverse=True)


def test_leaders_complete_each_other():
    """Two thirds want 0 or 1, a third wants 2: 0 and 1 are popular, and one of them beside 2 is best."""
    people = Coverage([[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0]] * 300)
    learner = LeaderSelector(4, 2, 900, BUDGET, seed=0)
    assert learner.run(people).average > 0.85
    assert set(learner.choose().items) in ({0, 2}, {1, 2})


# --- settings ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"k": 9}, "k=9 exceeds n_items=8; choose k <= 8"),
        ({"k": None}, "k must be a whole number"),
        ({"k": 3, "constraint": PartitionMatroid([[0, 1, 2], [3, 4, 5, 6, 7]], 1)}, "k=3 exceeds the rank"),
        ({"constraint": PartitionMatroid([[0, 1], [2, 3]], 1)}, "is over 4 items, not n_items=8"),
        ({"constraint": Knapsack([1.0] * 8, 2.0)}, "constraint must be a matroid"),
        ({"sums": "magic"}, "sums='magic' is not one of"),
        ({"budget": dc.Budget(1.0)}, "Gaussian noise needs delta > 0"),
        ({"batch": 0}, "batch=0 is too small"),
        ({"batch": "often"}, "batch='often' is not one of"),
        ({"batch": 5, "rounds": None}, "declare rounds, or take batch='geometric'"),
        ({"batch": 5, "first_batch": 3}, "first_batch needs 'geometric'"),
        ({"first_batch": 0}, "first_batch=0 is too small"),
        ({"rounds": 0}, "rounds=0 is too small"),
        ({"bound": math.nan}, "bound is NaN"),
    ],
)
def test_bad_settings(options, message):
    settings = {"n_items": 8, "k": 2, "rounds": 10, "budget": BUDGET} | options
    with pytest.raises((ValueError, TypeError), match=message):
        LeaderSelector(**settings)


@pytest.mark.parametrize("bound", [1.0, 3.0])
def test_gains_are_those_of_leaving_one_out(bound):
    """The slow twin: values of sets, one by one."""
    rng = np.random.default_rng(0)
    for people in of_rows(rng, 12):
        for person in people:
            shown = rng.permutation(6)[: rng.integers(1, 5)].tolist()
            found = _gathered(person, shown, bound) / UNITS
            alone = np.array([person.value([a]) for a in range(6)]) / bound
            weight = min(1.0, 1.0 / max(1e-300, float(np.linalg.norm(alone))))
            for a in range(6):
                rest = [b for b in shown if b != a]
                gain = (person.value([*rest, a]) - person.value(rest)) / bound
                assert found[a] == pytest.approx(weight * gain, abs=2e-6)


def test_batches_grow_and_what_comes_after_the_last_is_not_kept():
    settings = LeaderSettings.tight(9, 2, None, BUDGET.share())
    lengths = np.diff([0, *settings.ends])
    assert len(lengths) == 100
    assert (lengths[1:] >= lengths[:-1]).all()
    assert lengths[40] / lengths[39] == pytest.approx(1.15, abs=0.01)
    assert settings.ends[-1] > 10**8
    assert settings.longest == lengths[-1] <= LONGEST
    learner = LeaderSelector(4, 1, 40, BUDGET, batch=15, seed=0)
    learner.run(Coverage(np.ones((29, 4))))
    assert learner._sum.pending.any()
    learner.run(Coverage(np.ones((11, 4))))
    assert learner._sum.count == 2
    assert not learner._sum.pending.any()


def test_reserving_many_releases_costs_little_noise():
    few, many = (
        LeaderSettings.tight(50, 5, rounds, BUDGET.share(), first_batch=77) for rounds in (65_000, None)
    )
    assert len(few.ends) == pytest.approx(35, abs=2)
    assert 1.0 < many.spec.noise_std(many.event, 30) / few.spec.noise_std(few.event, 30) < 1.16


def test_the_first_batch_follows_the_noise():
    first = {
        epsilon: LeaderSelector(50, 5, None, dc.Budget(epsilon, 1e-6)).first_batch for epsilon in (0.1, 1, 10)
    }
    assert first[0.1] > 5 * first[1] > 10 * first[10]
    assert 50 <= first[1] <= 100
    assert LeaderSelector(50, 5, 100, dc.Budget(0.1, 1e-6)).first_batch == 25
    assert LeaderSelector(50, 20, 40, dc.Budget(0.1, 1e-6)).first_batch == 20
    assert LeaderSelector(50, 2, None, FREE).first_batch == 8


def test_new_sets_come_with_new_batches_only():
    rng = np.random.default_rng(3)
    people = Coverage((rng.random((300, 12)) < 0.3).astype(float))
    trace = LeaderSelector(12, 3, 300, dc.Budget(0.1, 1e-6), batch=50, seed=0).run(people)
    changes = np.flatnonzero((trace.selections[1:] != trace.selections[:-1]).any(axis=1)) + 1
    assert set(changes) <= set(range(50, 300, 50))
    assert changes.size > 3


def test_serves_better_with_more_budget_and_nearly_as_well_as_the_best_set():
    rng = np.random.default_rng(5)
    people = Coverage((rng.random((4000, 30)) < np.geomspace(0.3, 0.01, 30)).astype(float))
    averages = [
        LeaderSelector(30, 3, 4000, dc.Budget(epsilon, 1e-6), seed=1).run(people).average
        for epsilon in (0.02, 1.0, math.inf)
    ]
    assert averages[0] < averages[1] <= averages[2] * 1.02
    assert averages[1] > 0.9 * people.value([0, 1, 2])
