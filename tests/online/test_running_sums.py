"""RunningSumSelector: exact loss of what it releases, its certificate, and its settings."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from unittest import mock

import numpy as np
import pytest

import discreet as dc
from discreet import bounds
from discreet.constraints.domains import Simplex
from discreet.kernels.selection import UnitGains
from discreet.objectives import Coverage, ProbabilisticCoverage, SetFunction
from discreet.online import ApproximateLeader, running_sums, sums
from discreet.online.running_sums import RunningSumSelector, RunningSumSettings
from discreet.privacy import FactorizedSum, RunningSum, VectorBounds, samplers, tree_levels

BUDGET = dc.Budget(1.0, 1e-6)
PURE = dc.Budget(1.0)


# --- privacy ------------------------------------------------------------------------------------


def _released(make, rows, script):
    """What the learner releases, in noise units and without the noise, when the sets are as scripted."""
    seen = []
    shown = iter(script)

    def draw(_scores, _rate, _uniforms):
        return np.asarray(next(shown), dtype=np.int32)

    def quiet(_source, count, *, gaussian):  # noqa: ARG001
        return np.zeros(count, dtype=np.int64)

    released = RunningSum._released

    def watched(total, sums):
        seen.extend(sums.astype(float) / 2.0**samplers.STEPS_BITS)
        return released(total, sums)

    with (
        mock.patch.object(running_sums, "draw_ordered", draw),
        mock.patch.object(samplers, "noise_steps", quiet),
        mock.patch.object(RunningSum, "_released", watched),
    ):
        learner = make()
        for row in rows:
            learner.choose()
            learner.learn(Coverage([row]))
    return np.array(seen)


def _worst_loss(make, n_items, k, rounds, norm, rows=None):
    """Largest loss over replaced people and scripted sets; the released values are compared exactly."""
    rng = np.random.default_rng(0)
    tables = list(itertools.product((0, 1), repeat=n_items)) if rows is None else rows
    worst = 0.0
    for _ in range(6):
        script = [rng.permutation(n_items)[:k] for _ in range(rounds)]
        base = [tables[rng.integers(len(tables))] for _ in range(rounds)]
        outside = [int(i not in script[0]) for i in range(n_items)]  # likes exactly what is not shown
        for first, second in [(outside, [0] * n_items), *(rng.choice(tables, 2) for _ in range(10))]:
            a = _released(make, [first, *base[1:]], script)
            b = _released(make, [second, *base[1:]], script)
            worst = max(worst, np.linalg.norm((a - b).ravel(), norm))
    return worst


@pytest.mark.parametrize("sums", ["sqrt", "blt"])
@pytest.mark.parametrize("batch", [1, 2])
def test_factorized_release_loses_at_most_mu(sums, batch):
    def make():
        return RunningSumSelector(6, 2, 6, BUDGET, sums=sums, resample_every=batch, seed=0)

    worst = _worst_loss(make, 6, 2, 6, 2)
    # the worst person likes all that is not shown: k (n - k) of the k n coordinates that are paid for
    assert BUDGET.mu * math.sqrt(4 / 6) * 0.99 <= worst <= BUDGET.mu


@pytest.mark.parametrize("batch", [1, 2])
def test_laplace_release_loses_at_most_epsilon(batch):
    def make():
        return RunningSumSelector(5, 2, 6, PURE, sums="tree", noise="laplace", resample_every=batch, seed=0)

    assert 0.55 <= _worst_loss(make, 5, 2, 6, 1) <= 1.0


def test_cap_bounds_what_a_person_moves_and_a_missing_cap_is_caught():
    def make():
        return RunningSumSelector(8, 2, 5, BUDGET, items_per_person=1, seed=0)

    singles = [tuple(int(i == j) for i in range(8)) for j in range(8)]
    assert 0.5 * BUDGET.mu <= _worst_loss(make, 8, 2, 5, 2) <= BUDGET.mu
    assert _worst_loss(make, 8, 2, 5, 2, rows=singles) <= BUDGET.mu
    with (
        mock.patch.object(running_sums.ExpertSums, "counted", lambda _, people, __: people),
        pytest.raises(ValueError),
    ):
        # injected fault: without the cap the running sum itself refuses the vector
        _worst_loss(make, 8, 2, 5, 2)


@pytest.mark.parametrize("neighbours", ["replace", "add_remove"])
@pytest.mark.parametrize("batch", [1, 2])
def test_weighted_people_move_the_sums_by_the_root_of_k(neighbours, batch):
    budget = dc.Budget(1.0, 1e-6, neighbours)

    def make():
        return RunningSumSelector(6, 2, 6, budget, weights="norm", resample_every=batch, seed=0)

    rows = list(itertools.product((0, 1), repeat=6))
    worst = _worst_loss(make, 6, 2, 6, 2, rows=rows if neighbours == "replace" else [(0,) * 6, *rows[1:]])
    assert worst <= budget.mu * (1.0 if neighbours == "replace" else math.sqrt(2.0))
    # Somebody who wants what is not shown, whichever item of it: length 1 for each expert.
    script = [[0, 1]] * 6
    here, there = (_released(make, [row, *[(0,) * 6] * 5], script) for row in ((0, 0, 1, 1, 1, 1), (0,) * 6))
    moved = np.linalg.norm((here - there).ravel())
    assert 0.99 <= moved / budget.mu * (math.sqrt(2.0) if neighbours == "replace" else 1.0) <= 1.0


def test_people_who_are_not_weighted_are_caught():
    """The injected fault: everybody has a weight of 1."""

    def make():
        return RunningSumSelector(6, 2, 6, BUDGET, weights="norm", seed=0)

    def unweighted(bound, _weighted, *rest):
        return UnitGains(bound, False, *rest)

    def checked(_, values, clip):  # noqa: ARG001
        return np.asarray(values)

    with mock.patch.object(running_sums, "UnitGains", unweighted):
        with pytest.raises(ValueError, match="norm_bound"):  # the sum itself refuses such a vector
            _worst_loss(make, 6, 2, 6, 2)
        with mock.patch.object(VectorBounds, "checked", checked):
            assert _worst_loss(make, 6, 2, 6, 2) > 1.3 * BUDGET.mu


def test_weights_are_those_of_the_norm_and_functions_are_held_to_them():
    learner = RunningSumSelector(4, 2, 10, dc.Budget(math.inf), weights="norm", bound=2.0, seed=0)
    shown = learner.choose().items
    person = ProbabilisticCoverage([[0.5, 0.25, 0.0, 1.0]]) * 2.0
    learner.learn(person)
    weight = 1.0 / np.linalg.norm([0.5, 0.25, 0.0, 1.0])
    expected = weight * np.array([person.gains([]), person.gains([shown[0]])])
    assert np.abs(learner._sum.pending / learner._sum._units - expected).max() <= 1e-5
    rows = RunningSumSelector(4, 2, 10, dc.Budget(math.inf), weights="norm", seed=0)
    rows.choose()
    rows.learn(ProbabilisticCoverage([[0.5, 0.25, 0.0, 1.0]]))
    np.testing.assert_allclose(2.0 * rows._sum.pending / rows._sum._units, expected, atol=1e-5)
    learner.choose()
    learner._sum.pending[:] = 0
    rising = SetFunction(lambda items: 0.1 if len(items) == 1 else 2.0 * bool(items), 4, 2.0, monotone=True)
    learner.learn(rising)
    assert (learner._sum.pending <= math.ceil(0.1 * learner._sum._units)).all()


# --- rates --------------------------------------------------------------------------------------


def _hedge_by_hand(rates, gains):
    """Expected gains of Hedge at the given rates, on sums so far."""
    earned, total = 0.0, np.zeros(gains.shape[1])
    for rate, gain in zip(rates, gains, strict=True):
        weights = np.exp(rate * (total - total.max()))
        earned += float(weights @ gain) / float(weights.sum())
        total += gain
    return total.max() - earned


@pytest.mark.parametrize("batch", [1, 5])
@pytest.mark.parametrize("kind", ["random", "turning", "alternating"])
def test_falling_hedge_bounds_hedge_at_a_falling_rate(batch, kind):
    rng = np.random.default_rng(7)
    rounds, n = 600, 4
    gains = {
        "random": rng.random((rounds, n)) * [1.0, 0.9, 0.8, 0.5],
        "turning": np.eye(n)[np.where(np.arange(rounds) < rounds // 3, 0, 1)],
        "alternating": np.eye(n)[np.arange(rounds) % n],
    }[kind]
    for factor in (0.5, 2.0, 8.0):
        fastest = 1.0 / batch
        rate = min(fastest, factor * math.sqrt(math.log(n) / (batch * rounds)))
        after = batch * np.maximum(1, np.arange(rounds // batch))
        rates = np.minimum(fastest, rate * np.sqrt(rounds / after))
        summed = gains.reshape(rounds // batch, batch, n).sum(axis=1)
        certified = bounds.falling_hedge(n, 1, rounds, rate, fastest, batch, clipped=False)
        assert _hedge_by_hand(rates, summed) <= certified
        assert bounds.falling_hedge(n, 1, rounds, rate, 1.01 / batch, batch, clipped=False) == math.inf
        clipped = bounds.falling_hedge(n, 1, rounds, rate, fastest, batch)
        assert clipped == min(certified, bounds.trivial(rounds))
        slow = 1e-4  # below the rate, so that it never falls
        slowly = bounds.falling_hedge(n, 1, rounds, rate, slow, batch, clipped=False)
        assert _hedge_by_hand(np.full(len(summed), slow), summed) <= slowly


# --- learning -----------------------------------------------------------------------------------


def test_top_up_keeps_a_trees_noise_from_falling():
    rounds = 40
    learner = RunningSumSelector(3000, 1, rounds, BUDGET, sums="tree", seed=5)
    nobody = Coverage(np.zeros((1, 3000)))
    spread = []
    for _ in range(rounds):
        learner.choose()
        spread.append(learner._sum.released.std())
        learner.learn(nobody)
    spread = np.array(spread[1:])
    running = np.maximum.accumulate([learner._sum.sum.noise_std(t) for t in range(1, rounds)])
    # 3,000 coordinates: the spread is known to 6 / sqrt(2 * 3000) = 8 %
    assert np.abs(spread / running - 1).max() < 0.08
    laplace = RunningSumSelector(3000, 1, rounds, PURE, sums="tree", noise="laplace", seed=5)
    for _ in range(rounds):
        laplace.choose()
        laplace.learn(nobody)
    expected = math.sqrt(laplace._sum.sum.levels) * laplace._sum.sum.noise_std(1)
    assert laplace._sum.released.std() == pytest.approx(expected, rel=0.12)
    paper = RunningSumSelector(3, 1, rounds, PURE, calibration="published", seed=5)
    for _ in range(2):
        paper.choose()
        paper.learn(Coverage(np.zeros((1, 3))))
    total, public = paper._sum.sum, np.random.default_rng(5)
    assert (total.noise, total.taken) == ("spherical", 1)
    missing = np.ravel([paper._sum._top_up(public, total) for _ in range(4000)])
    assert missing.std() == pytest.approx(math.sqrt(total.levels - 1) * total.noise_std(1), rel=0.05)
    assert abs(missing.mean()) < 0.05 * missing.std()


def test_laplace_maximum_is_a_bound():
    rng = np.random.default_rng(6)
    draws = rng.laplace(size=(4000, 50, 6)).sum(axis=2).max(axis=1)
    bound = bounds.laplace_maximum(50, 1.0, 6)
    assert draws.mean() <= bound <= 1.5 * draws.mean()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"k": 9}, "k=9 exceeds n_items=8; choose k <= 8"),
        ({"sums": "magic"}, "sums='magic' is not one of"),
        ({"noise": "laplace"}, 'noise="laplace" needs sums="tree"'),
        ({"budget": PURE}, "Gaussian noise needs delta > 0"),
        ({"items_per_person": 9}, "items_per_person=9 is too large"),
        ({"resample_every": 0}, "resample_every=0 is too small"),
        ({"resample_every": "often"}, "resample_every must be a whole number"),
        ({"rate": -1.0}, "rate=-1.0 must be greater than 0"),
        ({"rate": "slow"}, "rate='slow' is not one of"),
        ({"weights": "all"}, "weights='all' is not one of"),
        ({"weights": "norm", "items_per_person": 2}, "no items_per_person"),
        ({"weights": "norm", "budget": PURE, "noise": "laplace", "sums": "tree"}, "needs Gaussian noise"),
        ({"calibration": "published", "sums": "tree"}, "has its own sums="),
        ({"calibration": "published", "rounds": None}, "needs declared rounds"),
        ({"noise": "spherical", "sums": "tree"}, 'is for calibration="published"'),
        ({"rounds": 0}, "rounds=0 is too small"),
        ({"bound": math.nan}, "bound is NaN"),
    ],
)
def test_bad_settings(options, message):
    settings = {"n_items": 8, "k": 2, "rounds": 10, "budget": BUDGET} | options
    with pytest.raises((ValueError, TypeError), match=message):
        RunningSumSelector(**settings)


# --- the experts of paper 000's remark ----------------------------------------------------------


@pytest.mark.parametrize("k", [1, 3])
def test_published_experts_are_pftal_on_the_simplex(k):
    """Each is paper 004's learner of linear costs, with epsilon / k; gains have one sign, and it holds."""
    n, rounds, bound = 5, 1000, 2.0
    learner = RunningSumSelector(n, k, rounds, dc.Budget(6.0), bound=bound, calibration="published", seed=0)
    length = bound * math.sqrt(n)
    alone = ApproximateLeader(
        Simplex(n), rounds, dc.Budget(6.0 / k, neighbours="add_remove"), lipschitz=length,
        calibration="published", seed=0,
    )  # fmt: skip
    assert learner.settings.curvature == pytest.approx(alone.settings.growing)
    assert float(learner.settings.event.scale) == pytest.approx(float(alone.settings.event.scale))
    # A person moves each expert's gains by their length, in every level of its tree.
    levels = tree_levels(rounds - 1)
    assert learner.privacy.epsilon() == pytest.approx(k * levels * length / float(alone.settings.event.scale))
    assert learner.privacy.epsilon() <= 6.0
    assert learner.certified_regret <= min(bounds.trivial(rounds, bound), k * alone.certified_regret)


def test_published_experts_draw_from_their_leaders():
    """The projection of sums / (t H) onto the simplex; an item that is shown already is drawn again."""
    learner = RunningSumSelector(4, 2, 50, dc.Budget(6.0), calibration="published", seed=0)
    sums, unit = learner._sum, 10 * learner.settings.curvature
    scores = np.array([[0.5, 0.25, -3.0, 0.25], [9.0, 0.0, 0.0, 0.5]]) * unit
    drawn = [
        tuple(sums._followed(scores, 10, np.array(pair), None).tolist())
        for pair in itertools.product((np.arange(100) + 0.5) / 100, (0.3, 0.9))
    ]
    first = [Simplex(4).project(scores[0] / unit)[j] for j in range(4)]
    assert [sum(a == j for a, _ in drawn) / len(drawn) for j in range(4)] == pytest.approx(first, abs=0.01)
    assert {pair for pair in drawn if pair[0] != 0} == {(1, 0), (3, 0)}
    # where its leader has nothing left, an expert takes any other item
    assert {b for a, b in drawn if a == 0} == {1, 3}
    active = np.array([False, True, False, True])
    assert sums._followed(scores, 10, np.array([0.1, 0.1]), active).tolist() == [1, 3]


def test_published_experts_learn():
    people = Coverage((np.random.default_rng(0).random((3000, 6)) < np.linspace(0.05, 0.6, 6)).astype(float))
    learner = RunningSumSelector(6, 1, 3000, dc.Budget(1e4), calibration="published", seed=0)
    trace = learner.run(people)
    best = 3000 * people.value([5])
    assert best - trace.total < 0.1 * best
    longer = RunningSumSelector(3, 1, 10**6, dc.Budget(50.0), calibration="published", seed=0)
    assert longer.certified_regret < 0.05 * bounds.trivial(10**6)


@pytest.mark.parametrize("batch", [1, 1 << 20, 1 << 22, 1 << 25])
@pytest.mark.parametrize("bound", [1.0, 0.75, 0.999])
def test_the_gains_of_a_long_batch_are_added_up_exactly(batch, bound):
    """One person's unit more or less is one unit in what the sum takes in, next to millions of others too."""
    taken = []

    def add(_self, vector):
        taken.append(vector)
        return np.zeros(2)

    with mock.patch.object(FactorizedSum, "add", add):
        for fewer in range(3):
            learner = RunningSumSelector(2, 1, 2 * batch, BUDGET, resample_every=batch, bound=bound, seed=0)
            learner.choose()
            most = math.floor(bound * learner._sum._units)
            learner._sum.pending[:] = batch * most - fewer
            learner._rounds.close(batch)
            learner.choose()
    first, second, third = (vector * learner._sum._units for vector in taken)
    np.testing.assert_array_equal(first - second, 1.0)
    np.testing.assert_array_equal(second - third, 1.0)


# --- streams without an end -----------------------------------------------------------------------------


def test_after_the_last_release_the_last_set_is_served_and_nobody_counts(monkeypatch, tmp_path):
    monkeypatch.setattr(sums, "ENDLESS", 3)
    people = Coverage(np.eye(5)[np.random.default_rng(0).integers(0, 5, 60)])

    def make():
        return RunningSumSelector(5, 2, None, dc.Budget(1.0, 1e-6), first_batch=4, seed=0)

    whole, single = make(), make()
    ends = whole.settings.ends
    assert ends == (4, 9, 15)
    trace = whole.run(people)
    changes = np.flatnonzero((trace.selections[1:] != trace.selections[:-1]).any(axis=1)) + 1
    assert set(changes.tolist()) <= set(ends)
    for person in people:
        assert single.choose().items == tuple(trace.selections[single.round])
        single.learn(person)
    assert not whole._sum.pending.any()
    assert whole.privacy.spent.epsilon(1e-6) == whole.privacy.epsilon(1e-6)
    for stop in (0, 3, 4, 12, 15, 40):
        half = make()
        half.run(people[:stop] if stop else people[:1])
        half.save(tmp_path / "half")
        rest = dc.load(tmp_path / "half").run(people[max(stop, 1) :])
        np.testing.assert_array_equal(rest.selections, trace.selections[max(stop, 1) :])


def test_batches_without_an_end_are_refused():
    budget = dc.Budget(1.0, 1e-6)
    with pytest.raises(ValueError, match="any number of sums; declare rounds"):
        RunningSumSelector(5, 2, None, budget, resample_every=10)
    with pytest.raises(ValueError, match="is for rounds=None"):
        RunningSumSelector(5, 2, 100, budget, first_batch=10)
    with pytest.raises(ValueError, match="first_batch goes with rounds=None"):
        replace(RunningSumSelector(5, 2, 100, budget).settings, first_batch=3)


def test_returning_people_count_once_in_a_growing_batch():
    budget = dc.Budget(math.inf, 1e-6, max_rounds_per_person=3)
    learner = RunningSumSelector(5, 1, None, budget, first_batch=6, min_separation=1, seed=0)
    ids = np.random.default_rng(1).integers(0, 5, 60)
    before = np.zeros(5)
    for who in ids:
        learner.choose()
        now = learner._sum.released.ravel()
        assert (now - before).max() <= 1.0
        before = now.copy()
        learner.learn(Coverage(np.eye(5)[[who]]), person_id=int(who))
    assert before.max() == 3.0


def test_a_falling_rate_depends_on_the_round_alone():
    rates = []

    def draw(_scores, rate, _uniforms):
        rates.append(rate)
        return np.array([0, 1], dtype=np.int32)

    people = Coverage(np.zeros((400, 6)))
    learner = RunningSumSelector(6, 2, 400, BUDGET, rate="falling", bound=3.0, seed=0)
    with mock.patch.object(running_sums, "draw_ordered", draw):
        for person in people:
            learner.choose()
            learner.learn(person)
    after = np.arange(1, 400)
    expected = np.minimum(1.0, 2.0 * np.sqrt(2 * math.log(6) / after)) / 3.0
    np.testing.assert_allclose(rates[1:], expected)
    assert learner.rate == pytest.approx(2.0 * math.sqrt(2 * math.log(6) / 400) / 3.0)
    assert learner.fastest == pytest.approx(1.0 / 3.0)
    assert RunningSumSelector(6, 2, 400, BUDGET, seed=0).fastest is None


def test_the_certificate_of_a_falling_rate_matches_its_formula():
    rounds, k, n = 10_000, 3, 20
    learner = RunningSumSelector(n, k, rounds, BUDGET, rate="falling", weights="norm", seed=0)
    sigma = math.sqrt(2 * k) * (1.0663 + math.log(rounds) / math.pi) / BUDGET.mu
    learned = 4.5 * math.sqrt(k * rounds * math.log(n)) + 1.0
    expected = learned + k * sigma * math.sqrt(2 * math.log(n))
    assert learner.certified_regret == pytest.approx(expected, rel=1e-3)
    auto = RunningSumSelector(n, k, rounds, BUDGET, rate="falling", resample_every="auto", seed=0)
    assert auto.certified_regret <= learner.certified_regret * 2.0
    assert auto.fastest * auto.resample_every <= 1.0
    assert RunningSumSelector(3, 3, rounds, BUDGET, rate="falling", seed=0).certified_regret == 0.0


def test_falling_rates_and_weights_serve_better_where_nothing_changes():
    rng = np.random.default_rng(8)
    people = Coverage((rng.random((6000, 60)) < np.geomspace(0.25, 0.01, 60)).astype(float))

    def average(**options):
        learners = [
            RunningSumSelector(60, 3, 6000, BUDGET, resample_every=50, seed=s, **options) for s in range(3)
        ]
        return np.mean([learner.run(people).average for learner in learners])

    plain, weighted, both = average(), average(weights="norm"), average(weights="norm", rate="falling")
    assert plain < weighted < both


def test_gains_are_those_on_top_of_the_items_before():
    learner = RunningSumSelector(4, 2, 10, dc.Budget(math.inf), seed=0)
    shown = learner.choose().items
    person = ProbabilisticCoverage([[0.5, 0.25, 0.0, 1.0]])
    learner.learn(person)
    unit = 1.0 / learner._sum._units
    expected = np.array([person.gains([]), person.gains([shown[0]])])
    assert np.abs(learner._sum.pending * unit - expected).max() <= unit


@pytest.mark.parametrize("k", [1, 4, 9])
def test_gains_of_rows_are_those_of_the_objective(k):
    """The slow twin: what each item adds to the items before, asked of the objective itself."""
    rng = np.random.default_rng(k)
    people = ProbabilisticCoverage((rng.random((30, 9)) < 0.5) * rng.random((30, 9)))
    rows, shown = people.as_rows(), rng.permutation(9)[:k].astype(np.int32)
    counted, totals = rng.random(30) < 0.8, np.zeros((k, 9), dtype=np.int64)
    UnitGains(1.0, False, 2.0**31, 1 << 31).add(rows.compressed, 0, counted, shown, totals)
    expected = np.zeros((k, 9))
    for person in itertools.compress(people, counted):
        for i in range(k):
            gains = np.array(person.gains(shown[:i].tolist()))
            gains[shown[:i]] = 0.0
            expected[i] += gains
    np.testing.assert_allclose(totals / 2.0**31, expected, atol=30 * 2.0**-31)


def test_row_values_match_the_objective():
    rng = np.random.default_rng(1)
    people = ProbabilisticCoverage((rng.random((40, 9)) < 0.4) * rng.random((40, 9)))
    trace = RunningSumSelector(9, 3, 40, BUDGET, seed=2).run(people)
    assert np.allclose(trace.rewards, [people[t].value(trace.selections[t]) for t in range(40)])


def test_certificate_matches_its_formula():
    rounds, k, n = 10_000, 3, 20
    learner = RunningSumSelector(n, k, rounds, BUDGET, seed=0)
    sigma = math.sqrt(k * n) * (1.0663 + math.log(rounds) / math.pi) / BUDGET.mu
    expected = 2 * math.sqrt(k * rounds * math.log(n)) + k * sigma * math.sqrt(2 * math.log(n))
    assert learner.certified_regret == pytest.approx(expected, rel=1e-3)
    # and the noise that is certified is the noise that is drawn
    largest = learner.settings.noise_maximum
    assert largest == pytest.approx(
        bounds.gaussian_maximum(n, learner._sum.sum.noise_std(rounds - 1)), rel=1e-6
    )
    tree = RunningSumSelector(n, k, 512, BUDGET, sums="tree", seed=0)
    worst = max(tree._sum.sum.noise_std(t) for t in range(1, 512))
    assert tree.settings.noise_maximum == pytest.approx(bounds.gaussian_maximum(n, worst), rel=1e-6)


def test_automatic_batch_is_the_best_certified_one():
    question = {"n_items": 30, "k": 4, "rounds": 3000, "budget": BUDGET}
    auto = RunningSumSelector(**question, resample_every="auto", seed=0)
    for batch in (1, 2, 5, 20, 100):
        rate = bounds.best_rate(30, 4, 3000, batch)
        other = RunningSumSelector(**question, resample_every=batch, rate=rate, seed=0)
        assert auto.certified_regret <= other.certified_regret * (1 + 1e-9)


@pytest.mark.parametrize(("rounds", "blocks"), [(3, 2.0), (5, 2.0 * (1.0 + 2.0 / 3.0))])
def test_what_the_noise_of_a_tree_costs_by_hand(rounds, blocks):
    """Levels times the variance of the noisiest sum: two halves of a full tree, or a block of each level."""
    budget = dc.Budget(1.0, 1e-6)
    settings = RunningSumSettings.tight(4, 1, rounds, budget.share(), sums="tree")
    moves = 2.0  # four gains in [0, 1] that all change
    expected = bounds.gaussian_maximum(4, moves * math.sqrt(blocks) / budget.mu)
    assert settings.noise_maximum == pytest.approx(expected, rel=1e-9)


def test_without_a_horizon_batches_grow_and_everything_is_paid_for_at_once():
    budget = dc.Budget(1.0, 1e-6)
    learner = RunningSumSelector(7, 2, None, budget, weights="norm", seed=0)
    settings = learner.settings
    assert settings.first_batch > 50  # 8 standard deviations of the noise
    assert settings.spec.rounds == len(settings.ends) == 100
    assert settings.ends[-1] > 10**8
    assert settings.longest == settings.spec.bounds.people_per_vector == max(np.diff(settings.ends))
    assert learner.certified_regret == math.inf
    assert 0.98 < learner.privacy.epsilon(1e-6) <= 1.0
    assert learner.privacy.spent.epsilon(1e-6) == 0.0
    assert [settings.rate_after(t) for t in (0, 1)] == [1.0, 1.0]
    assert settings.rate_after(10**6) == pytest.approx(2.0 * math.sqrt(2 * math.log(7) / 10**6))
    assert RunningSumSelector(7, 2, None, budget, rate=0.01, first_batch=9).settings.rate_after(10**6) == 0.01
    learned = RunningSumSelector(7, 2, None, budget, weights="norm", first_batch=20, seed=0)
    people = Coverage(np.tile([[1, 0, 0, 0, 0, 0, 0], [0, 1, 0, 0, 0, 0, 0]], (3000, 1)))
    assert learned.run(people).rewards[-1000:].mean() > 0.8


def test_without_a_number_of_rounds_the_bound_is_only_a_unit():
    one, two = (RunningSumSelector(6, 2, None, BUDGET, bound=bound).settings for bound in (1.0, 2.0))
    assert (two.rate, two.fastest) == (one.rate / 2.0, one.fastest / 2.0)
