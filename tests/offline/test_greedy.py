"""Private greedy: releases are enumerated, sums are exact, sets are feasible, and bounds are kept."""

from __future__ import annotations

import contextlib
import itertools
import math
import warnings
from fractions import Fraction
from unittest import mock

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import discreet as dc
from discreet.audit.measures import distribution
from discreet.bounds import greedy as bounds
from discreet.bounds.charged_costs import ChargedCosts, costs_of
from discreet.constraints import Cardinality, GraphicMatroid, Intersection, Knapsack, PartitionMatroid
from discreet.objectives import (
    ConcaveOverModular,
    Coverage,
    FacilityLocation,
    GraphCut,
    MutualInformation,
    ProbabilisticCoverage,
    SaturatedCoverage,
    SetFunction,
    WeightedTopics,
    greedy,
)
from discreet.objectives.fixed_point import FixedPointGains, step
from discreet.offline import PrivateGreedy
from discreet.offline import greedy as offline_greedy
from discreet.privacy import Release, samplers
from discreet.privacy import picks as accounts
from tests.privacy.audit import hockey_stick
from tests.privacy.audit import transcripts as enumerated

from . import averaged

BUDGET = dc.Budget(1.0, 1e-6)
NEIGHBOURS = ("replace", "add_remove")


# --- releases: all transcripts, enumerated --------------------------------------------------------

SMALL = {
    "cardinality": lambda: Cardinality(2),
    "partition": lambda: PartitionMatroid([[0, 1], [2, 3]], 1),
    "graphic": lambda: GraphicMatroid([(0, 1), (1, 2), (2, 0), (2, 3)]),
    "intersection": lambda: Intersection(Cardinality(2), PartitionMatroid([[0, 1, 2], [3]], 1)),
    "knapsack": lambda: Knapsack([0.5, 0.1, 0.2, 0.4], 0.65),
    "knapsack with a large item": lambda: Knapsack([0.9, 0.4, 0.3, 0.5], 1.0),
    "two of a knapsack": lambda: Intersection(Cardinality(2), Knapsack([0.9, 0.1, 0.3, 0.4], 1.0)),
    "knapsack and partition": lambda: Intersection(
        PartitionMatroid([[0, 1], [2, 3]], 1), Knapsack([0.5, 0.1, 0.2, 0.4], 0.65)
    ),
}
METHODS = ("basic", "zcdp", "decomposable", "subsampled")


def transcripts(program, budget):
    """Probability of every sequence of draws; what would do is searched for, and not the matter here."""
    with mock.patch.object(PrivateGreedy, "_warn"):
        return enumerated(program, budget)


def _distribution(people, constraint, budget, method, **options):
    options, allowed = {"max_people": 8, **options}, constraint()
    return transcripts(
        lambda _gate: PrivateGreedy(allowed, budget, method, seed=0, **options).select(people), budget
    )


def _pairs(neighbours, seed, others=2, n_items=4):
    """Neighbouring families of three people: opposites, extremes, and random ones."""
    rng = np.random.default_rng(seed)
    crowd = rng.integers(2, size=(others, n_items))
    one = rng.integers(2, size=n_items)
    if neighbours == "replace":
        return np.vstack([crowd, one]), np.vstack([crowd, 1 - one])
    return np.vstack([crowd, one]), np.vstack([crowd, np.zeros(n_items, dtype=int)])


def _excess(constraint, budget, method, tries=2, family=Coverage, **options):
    """Largest delta beyond the account's, over neighbours that were searched, and the largest log-ratio."""
    worst, widest = -math.inf, 0.0
    for seed in range(tries):
        here, there = (family(matrix.astype(float)) for matrix in _pairs(budget.neighbours, seed))
        p = _distribution(here, constraint, budget, method, **options)
        q = _distribution(there, constraint, budget, method, **options)
        selector = PrivateGreedy(constraint(), budget, method, seed=0, max_people=8, **options)
        account = selector.select(here).privacy
        assert account.epsilon() <= budget.epsilon
        for epsilon in (0.0, 0.3, 0.7, budget.epsilon):
            worst = max(worst, hockey_stick(p, q, epsilon) - account.delta(epsilon))
        widest = max(widest, max(abs(math.log(p[o] / q[o])) for o in p))
    return worst, widest


@pytest.mark.parametrize("neighbours", NEIGHBOURS)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", SMALL)
def test_enumerated_transcripts_stay_within_the_account(name, method, neighbours):
    budget = dc.Budget(1.5, 0.0 if method in ("basic", "subsampled") else 1e-2, neighbours)
    worst, widest = _excess(SMALL[name], budget, method)
    assert worst <= 1e-9
    if not budget.delta:
        assert widest <= 1.5 + 1e-9
    assert widest > 0.05  # the choice does depend on people


@pytest.mark.parametrize("family", [FacilityLocation, ProbabilisticCoverage, ConcaveOverModular])
def test_enumerated_transcripts_of_other_families(family):
    budget = dc.Budget(1.0, 0.0, "replace")
    make = (lambda m: family(m / 4.0)) if family is ConcaveOverModular else family
    worst, widest = _excess(SMALL["cardinality"], budget, "basic", family=make)
    assert worst <= 1e-9
    assert 0.1 < widest <= 1.0 + 1e-9


@pytest.mark.parametrize("neighbours", NEIGHBOURS)
@pytest.mark.parametrize("method", ["basic", "subsampled"])
def test_two_rows_of_one_person_are_within_the_budget(method, neighbours):
    budget = dc.Budget(1.5, 0.0, neighbours, max_rounds_per_person=2)
    crowd = np.array([[1, 0, 1, 0]])
    mine, yours = np.array([[1, 1, 0, 0]] * 2), np.array([[0, 0, 1, 1]] * 2)
    if neighbours == "add_remove":
        yours = 0 * yours
    p, q = (
        _distribution(Coverage(np.vstack([crowd, rows])), SMALL["cardinality"], budget, method)
        for rows in (mine, yours)
    )
    worst = max(abs(math.log(p[o] / q[o])) for o in p)
    assert 0.2 < worst <= 1.5 + 1e-9


def _louder(factor):
    """The injected fault: rates that the account does not know of."""

    def wrap(account):
        def louder(*arguments):
            picks = account(*arguments)
            return accounts.Picks(picks.method, picks.rate * factor, picks.event, picks.count, picks.keep)

        return louder

    return wrap


@pytest.mark.parametrize("method", ["basic", "subsampled"])
def test_the_audit_sees_a_rate_that_is_not_paid_for(method):
    budget = dc.Budget(1.5, 0.0, "add_remove")
    with mock.patch.object(accounts, method, _louder(2.5)(getattr(accounts, method))):
        if method == "basic":
            with pytest.raises(ValueError, match="does not pay for choices at rate"):
                _excess(SMALL["cardinality"], budget, method, tries=1)
        with mock.patch.object(Release, "_rate", lambda _, given: given):  # were it not for the gate
            worst, widest = _excess(SMALL["cardinality"], budget, method, tries=6)
    assert worst > 1e-3
    assert widest > 1.5


def test_the_audit_sees_a_sample_of_everybody():
    def everybody(share, bound):
        picks = original(share, bound)
        return accounts.Picks(picks.method, picks.rate, picks.event, picks.count, (1 << 64) - (1 << 12))

    original = accounts.subsampled
    with mock.patch.object(accounts, "subsampled", everybody):
        assert _excess(SMALL["cardinality"], dc.Budget(0.5, 0.0, "add_remove"), "subsampled")[0] > 1e-3


def test_the_audit_sees_costs_that_stretch_the_scores():
    def stretched(bag):
        costs = original(bag)
        return ChargedCosts(
            1.0 / bag.costs, costs.charged, costs.large, costs.capacity, costs.slack, costs.dearest_small
        )

    original = ChargedCosts.of
    with mock.patch.object(offline_greedy, "costs_of", stretched):
        assert _excess(SMALL["knapsack"], dc.Budget(1.0, 0.0), "basic", tries=6)[0] > 1e-3


class _Unheld(FixedPointGains):
    """The injected fault: a person's parts are not held to the bound."""

    def __init__(self, n_items, parts, others, unit, bound):
        super().__init__(n_items, [(rows, 3.0 * most) for rows, most in parts], others, unit, bound)


def test_a_row_that_exceeds_the_bound_is_held_to_it():
    budget = dc.Budget(1.0, 0.0, "add_remove")

    def family(matrix):
        people = FacilityLocation(matrix)
        assert people.bound == 1.0
        matrix = people._rows.matrix
        matrix.flags.writeable = True
        matrix[-1] *= 3.0  # after the check
        return people

    worst, widest = _excess(SMALL["cardinality"], budget, "basic", family=family)
    assert worst <= 1e-9
    assert widest <= 1.0 + 1e-9
    with mock.patch("discreet.offline.greedy.FixedPointGains", _Unheld):
        assert _excess(SMALL["cardinality"], budget, "basic", family=family)[0] > 1e-3


# --- the decomposable account: long runs, merged where people cannot tell them apart --------------


def _masses(matrix, groups, script, budget, k, factor):
    """Log-probability that each pick takes an item of each group, along a scripted sequence of groups."""
    found = []
    candidates = np.arange(groups.size)

    def scripted(_, scores, rate):
        nonlocal candidates
        logs = samplers.choice_log_probabilities(scores, rate * factor)
        found.append([np.logaddexp.reduce(logs[groups[candidates] == g], initial=-np.inf) for g in range(3)])
        wanted = script(len(found) - 1)
        place = int(np.flatnonzero(groups[candidates] == wanted)[0])
        candidates = np.delete(candidates, place)
        return place

    with mock.patch.object(samplers, "exponential_choice", scripted):
        PrivateGreedy(k, budget, "decomposable", seed=0, max_people=2).select(Coverage(matrix))
    return np.array(found)


def _hits(matrix, groups, budget, k, factor=1.0):
    """Probability of (when group 1 is first picked, when group 2 is), k for never.

    People want group 1 or group 2 or nothing. A group that has been picked from is worth nothing more, and
    its items are then like all others: runs with the same first hits are equally likely for all people.
    """

    def neutral(logs, open_groups):
        return math.log1p(-min(1.0, sum(math.exp(logs[g]) for g in open_groups)))

    out: dict[tuple[int, ...], float] = {}
    along = _masses(matrix, groups, lambda _: 0, budget, k, factor)
    reach = 0.0
    for i in range(k):
        for first in (1, 2):
            second = 3 - first
            later = _masses(matrix, groups, lambda t, i=i, f=first: f if t == i else 0, budget, k, factor)
            log = reach + along[i, first]
            for j in range(i + 1, k):
                key = (i, j) if first == 1 else (j, i)
                out[key] = math.exp(log + later[j, second])
                log += neutral(later[j], (second,))
            out[(i, k) if first == 1 else (k, i)] = math.exp(log)
        reach += neutral(along[i], (1, 2))
    out[k, k] = math.exp(reach)
    assert abs(sum(out.values()) - 1.0) < 1e-9
    return out


def _long_run(neighbours, factor, k=28):
    groups = np.array([0] * 90 + [1] * 22 + [2] * 22)
    budget = dc.Budget(0.6, 0.02, neighbours)
    mine, yours = (groups == 1).astype(float), (groups == 2).astype(float)
    if neighbours == "add_remove":
        yours *= 0
    p, q = (_hits(np.vstack([row, 0 * row]), groups, budget, k, factor) for row in (mine, yours))
    return hockey_stick(p, q, budget.epsilon), budget.delta


@pytest.mark.parametrize("neighbours", NEIGHBOURS)
def test_many_picks_stay_within_the_decomposable_account(neighbours):
    delta, declared = _long_run(neighbours, 1.0)
    assert 0.0 < delta <= declared  # some of it is used


@pytest.mark.parametrize(("neighbours", "factor"), [("add_remove", 2.2), ("replace", 2.5)])
def test_the_audit_sees_a_decomposable_rate_that_is_too_large(neighbours, factor):
    delta, declared = _long_run(neighbours, factor)
    assert delta > declared


def _worst_delta(rate, epsilon, tries, rng):
    """Largest delta found, removing a person, over sequences of the chances with which they are served."""
    c, worst = math.expm1(rate), 0.0
    served_by = epsilon / c  # about when the loss of somebody who is never served reaches epsilon
    for _ in range(tries):
        each = float(rng.choice([0.01, 0.05, 0.2, 0.6]))
        q = np.full(max(1, int(rng.uniform(0.5, 2.5) * served_by / each)), each)
        if rng.random() < 0.5:
            q = np.clip(q * rng.exponential(size=q.size), 0.0, 1.0)
        if rng.random() < 0.5:
            q[-1] = 1.0
        losses = np.cumsum(np.log1p(c * q))
        alive = np.concatenate([[1.0], np.cumprod(1.0 - q)])
        excess = np.maximum(0.0, 1.0 - np.exp(epsilon - (losses - rate)))
        total = float(alive[:-1] @ (q * excess)) + alive[-1] * max(0.0, 1.0 - math.exp(epsilon - losses[-1]))
        worst = max(worst, total)
    return worst


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-3), (1.0, 1e-2), (2.0, 1e-4)])
def test_no_sequence_of_chances_beats_the_decomposable_account(epsilon, delta):
    rng = np.random.default_rng(7)
    rate = accounts.decomposable_rate(epsilon, delta, "add_remove")
    assert accounts.decomposable_delta(rate, epsilon, "add_remove") <= delta
    assert accounts.decomposable_delta(rate * 1.001, epsilon, "add_remove") > delta
    found = _worst_delta(rate, epsilon, 600, rng)
    assert 0.1 * delta < found <= delta  # and the search is not blind


@pytest.mark.parametrize(("rate", "epsilon"), [(0.02, 0.1), (0.1, 1.0), (0.4, 3.0)])
def test_replacing_goes_through_the_run_without_both(rate, epsilon):
    """P(I) <= e^rate R, so delta(I, J; epsilon) <= e^rate delta(R, J; epsilon - rate): I added, J removed."""
    through = math.exp(rate) * accounts.decomposable_delta(rate, epsilon - rate, "add_remove")
    assert accounts.decomposable_delta(rate, epsilon, "replace") == pytest.approx(through)
    # Removing is the integral that the docstring states, summed up here step by step.
    c, h = math.expm1(rate), 1e-4
    steps = epsilon + h * (np.arange(400_000) + 0.5)
    tail = np.exp(epsilon - steps) * np.exp(1.0 - steps / c) * h
    assert accounts.decomposable_delta(rate, epsilon, "add_remove") == pytest.approx(tail.sum(), rel=1e-4)


@pytest.mark.parametrize("epsilon", [700.0, 1e4, 1e300])
def test_budgets_of_any_size_have_a_plan(epsilon):
    for neighbours in NEIGHBOURS:
        for method in METHODS:
            plan = PrivateGreedy(3, dc.Budget(epsilon, 1e-6, neighbours), method).plan(50, 100)
            assert 0.0 < plan.picks.rate < math.inf


@pytest.mark.parametrize("neighbours", NEIGHBOURS)
@pytest.mark.parametrize("epsilon", [0.01, 0.1, 1.0, 4.0, 30.0])
def test_the_sample_satisfies_both_inequalities(epsilon, neighbours):
    picks = accounts.subsampled(dc.Budget(epsilon, 0.0, neighbours).share(), 1.0)
    a = epsilon if neighbours == "add_remove" else epsilon / 2
    p = Fraction(picks.keep, 1 << 64)
    assert float(1 - p) >= math.exp(-a) * (1 - 1e-15)
    assert math.log1p(float(p) * math.expm1(picks.rate)) <= a
    assert picks.temperature == pytest.approx(-math.expm1(-a) * math.log1p(math.exp(a)), rel=1e-9)


def test_flips_favour_nobody_beyond_what_they_gain():
    """Scores that rise by g make v at most exp(rate g_v) times as likely: searched, and almost attained."""
    rng, nearest = np.random.default_rng(0), 0.0
    for _ in range(2000):
        scores, rise = rng.exponential(size=4) * rng.choice([0.1, 1.0, 8.0]), rng.random(4)
        rise *= rng.random(4) < 0.5
        before, after = (samplers.flip_probabilities(s, 0.7) for s in (scores, scores + rise))
        excess = np.log(after / before) - 0.7 * rise
        assert excess.max() <= 1e-12
        nearest = max(nearest, float((np.log(after / before) / 0.7).max()))
    assert nearest > 0.9


class _Script:
    """Words in a given order."""

    secure = False

    def __init__(self, words):
        self._words = list(words)

    def words(self, count):
        taken, self._words = self._words[:count], self._words[count:]
        return np.array(taken, dtype=np.uint64)

    def state(self):
        return None


def test_flips_settle_close_calls_with_more_bits():
    scores = np.array([0.0, math.log(2.0)])
    threshold = Fraction(0.0) - Fraction(math.log(2.0))  # not quite the logarithm of 1/2
    half = 1 << 63
    import mpmath

    with mpmath.workprec(300):
        exact_chance = mpmath.exp(mpmath.mpf(threshold.numerator) / threshold.denominator)
        scaled = int(exact_chance * mpmath.mpf(2) ** 128)
    first, second = scaled >> 64, scaled & ((1 << 64) - 1)
    assert abs(first - half) < 1 << 12
    # Just below the threshold candidate 0 is kept as well, and the last word decides between the two.
    for more, kept in ((second - 1, True), (second + 2, False)):
        source = _Script([first, 0, more, 0])
        assert samplers.permute_and_flip(source, scores, 1.0) == (0 if kept else 1)


def test_flips_follow_their_probabilities():
    scores, rate = np.array([3.0, 2.5, 0.0, 1.0]), 0.8
    source = dc.privacy.ReproducibleRandomness(5)
    counts = np.bincount(
        [samplers.permute_and_flip(source, scores, rate) for _ in range(20_000)], minlength=4
    )
    expected = samplers.flip_probabilities(scores, rate) * counts.sum()
    assert stats.chisquare(counts, expected).pvalue > 1e-6


# --- the sampler draws what was enumerated --------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "method"),
    [("cardinality", "zcdp"), ("cardinality", "subsampled"), ("knapsack with a large item", "basic")],
)
def test_draws_follow_the_enumerated_probabilities(name, method):
    matrix = np.array([[1, 1, 0, 0], [1, 0, 0, 1], [0, 1, 0, 0]] * 2)[:5]
    budget = dc.Budget(3.0, 1e-2 if method == "zcdp" else 0.0)
    people, runs = Coverage(matrix), 1500
    sets = distribution(lambda: PrivateGreedy(SMALL[name](), budget, method, seed=0).select(people).items)
    counts = dict.fromkeys(sets, 0)
    for seed in range(runs):
        counts[PrivateGreedy(SMALL[name](), budget, method, seed=seed).select(people).items] += 1
    expected = np.array([sets[s] for s in sets]) * runs
    observed = np.array([counts[s] for s in sets])
    rare = expected < 5
    expected, observed = (
        np.append(v[~rare], v[rare].sum()) if rare.any() else v for v in (expected, observed)
    )
    keep_cells = expected > 0
    assert stats.chisquare(observed[keep_cells], expected[keep_cells]).pvalue > 1e-6


# --- exact sums -----------------------------------------------------------------------------------


def _families(rng, people=30, n_items=7):
    weights = rng.random((people, n_items)) * (rng.random((people, n_items)) < 0.7)
    yield Coverage(weights > 0)
    yield ProbabilisticCoverage(weights)
    yield FacilityLocation(weights)
    yield ConcaveOverModular(weights / n_items)
    yield ConcaveOverModular(weights / n_items, concave="log")
    yield SaturatedCoverage(weights / n_items)
    yield 0.5 * Coverage(weights > 0) + 0.25 * FacilityLocation(weights)
    yield SetFunction(
        [lambda s, w=w: float(max([w[j] for j in s], default=0.0)) for w in weights],
        n_items,
        1.0,
        monotone=True,
    )


@pytest.mark.parametrize("place", range(8))
def test_sums_equal_the_slow_twin_after_every_pick(place):
    people = list(_families(np.random.default_rng(3)))[place]
    unit = step(people.bound, len(people))
    fast = FixedPointGains.over(people, people.bound, unit)
    total = np.zeros(len(people))
    for item in (4, 0, 6, 2):
        slow = np.zeros(people.n_items)
        for i, person in enumerate(people):
            gains = np.clip(person.gains(fast.items), 0.0, people.bound - total[i])
            slow += np.floor(gains / unit) * unit
            total[i] += gains[item]
        np.testing.assert_allclose(fast.scores(), slow, atol=len(people) * 1e-9)
        assert (fast.scores() / unit % 1.0 == 0.0).all()
        before = fast.scores()[item]
        assert fast.add(item) == before


@pytest.mark.parametrize("place", range(7))
def test_updated_sums_are_the_fresh_ones_to_the_last_step(place):
    people = list(_families(np.random.default_rng(5)))[place]
    unit = step(people.bound, len(people))
    growing = FixedPointGains.over(people, people.bound, unit)
    for item in (1, 5, 3):
        growing.add(item)
    # The same people in another order: sums do not know who came first, and no step is lost or kept.
    other = FixedPointGains.over(people[::-1], people.bound, unit)
    for item in (1, 5, 3):
        other.add(item)
    np.testing.assert_array_equal(growing.scores(), other.scores())
    fresh = np.zeros(people.n_items)
    for part in growing._parts:
        part.begin(fresh)
    np.testing.assert_array_equal(fresh, growing._sums)


@pytest.mark.parametrize("stored", [np.asarray, sp.csr_matrix], ids=["dense", "sparse"])
@pytest.mark.parametrize("family", [FacilityLocation, ConcaveOverModular])
def test_nobody_adds_more_than_the_bound_to_all_picks_together(family, stored):
    """Somebody whose numbers are changed after they were checked: what they have given is gone."""
    people = family(stored(np.array([[0.1, 0.2, 0.3], [0.1, 0.0, 0.0]])))
    assert people.bound == 1.0
    rows = people._rows
    numbers = rows.matrix if isinstance(rows.matrix, np.ndarray) else rows.matrix.data
    numbers.flags.writeable = True
    numbers *= 300.0
    growing = FixedPointGains.over(people, 1.0, step(1.0, 2))
    added = [growing.add(0)]
    assert added == [2.0]  # both give all they have
    assert growing.scores().max() == 0.0
    added += [growing.add(1), growing.add(2)]
    assert sum(added) == 2.0


def test_one_person_moves_every_score_by_at_most_the_bound_exactly():
    rng = np.random.default_rng(0)
    crowd = rng.random((3000, 5))
    here, there = (FacilityLocation(np.vstack([crowd, row])) for row in (np.ones((1, 5)), np.zeros((1, 5))))
    unit = step(1.0, 3001)
    moved = FixedPointGains.over(here, 1.0, unit).scores() - FixedPointGains.over(there, 1.0, unit).scores()
    np.testing.assert_array_equal(moved, np.ones(5))


# --- what is chosen -------------------------------------------------------------------------------


def _crowd(rng, people=60, n_items=9):
    return Coverage(rng.random((people, n_items)) < np.linspace(0.5, 0.1, n_items))


def _plain(people, k):
    return tuple(greedy(people, k)[0])


def test_no_privacy_is_plain_greedy():
    people = _crowd(np.random.default_rng(2))
    for method in ("auto", *METHODS):
        selector = PrivateGreedy(4, dc.Budget(math.inf), method, release_gains=0.5, seed=0)
        for _ in range(2):  # an infinite budget is never used up
            chosen = selector.select(people)
            assert chosen.items == _plain(people, 4)
            np.testing.assert_allclose(chosen.gains, greedy(people, 4)[1] * len(people), rtol=1e-9)
        assert math.isinf(chosen.privacy.epsilon())
        assert selector.method_used == "none"


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from(["auto", *METHODS]), st.sampled_from(NEIGHBOURS))
def test_sets_are_feasible_whatever_comes(seed, method, neighbours):
    rng = np.random.default_rng(seed)
    n_items = int(rng.integers(2, 9))
    people = _crowd(rng, int(rng.integers(1, 30)), n_items)
    costs = rng.choice([0.0, 1e-9, 0.1, 0.5, 1.0, 3.0], n_items) + rng.random(n_items) * rng.integers(2)
    costs[rng.integers(n_items)] = 0.3
    constraint = [
        lambda: int(rng.integers(1, n_items + 1)),
        lambda: PartitionMatroid(rng.integers(0, 3, n_items), [1, 2, 1]),
        lambda: Knapsack(costs, 1.0),
        lambda: Intersection(Cardinality(2), PartitionMatroid(rng.integers(0, 2, n_items), [1, 2])),
    ][seed % 4]()
    budget = dc.Budget(float(rng.choice([0.01, 1.0, 50.0])), 1e-6, neighbours)
    selector = PrivateGreedy(constraint, budget, method, seed=seed, max_people=30)
    chosen = selector.select(people)
    over = selector.constraint.over(n_items)
    assert over.contains(chosen.items)
    assert len(set(chosen.items)) == len(chosen) > 0
    if not isinstance(over, Knapsack):
        assert not over.addable(list(chosen.items)).any()
    account = chosen.privacy
    assert account.epsilon() <= budget.epsilon
    assert account.delta() <= budget.delta


@pytest.mark.parametrize("constraint", [3, Knapsack([0.6] * 2 + [0.3] * 7, 1.0)], ids=["items", "knapsack"])
@pytest.mark.parametrize("method", ["auto", *METHODS])
@pytest.mark.parametrize("rounds", [1, 3])
@pytest.mark.parametrize("gains", [None, 0.25])
def test_the_budget_is_spent_whole_and_never_twice(method, rounds, gains, constraint):
    budget = dc.Budget(1.0, 1e-6, max_rounds_per_person=rounds)
    people = _crowd(np.random.default_rng(4))
    selector = PrivateGreedy(constraint, budget, method, release_gains=gains, seed=0)
    assert selector.privacy.epsilon() == 0.0
    assert selector.method_used is selector.reason is selector.rate is None
    first = selector.select(people)
    assert 0.97 < first.privacy.epsilon() <= 1.0
    assert (first.gains is None) == (gains is None)
    with pytest.raises(dc.BudgetExceeded):
        selector.select(people)
    assert str(selector.privacy) == str(first.privacy)
    assert selector.method_used in METHODS
    assert selector.method_used in repr(selector)


def test_gains_are_noisy_totals_of_the_picks():
    people = Coverage(np.repeat([[1, 0, 0], [0, 1, 0], [0, 1, 0]], 50_000, axis=0))
    for method in METHODS:
        chosen = PrivateGreedy(2, dc.Budget(1.0, 1e-6), method, release_gains=0.5, seed=3).select(people)
        assert chosen.items == (1, 0)
        # The noise has a standard deviation below 20; 50 of them have a chance below 1e-20.
        np.testing.assert_allclose(chosen.gains, [100_000, 50_000], atol=1000)
        assert chosen.gains[0] != 100_000.0
    averages = averaged(np.repeat([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 1.0, 0.0]], 30, axis=0))
    chosen = PrivateGreedy(2, dc.Budget(50.0), "basic", release_gains=0.5, seed=3).select(averages)
    np.testing.assert_allclose(chosen.gains, [60, 30], atol=20)  # totals, too


def _released_gains(people, budget, method, constraint=2, **options):
    """The gains of items 0, 1, ... before noise, and how far the account takes one person to move them."""
    seen = []

    def recorder(kind):
        def record(_, values, __, sensitivity, *, label, **___):
            assert label == "gains of the picks"
            seen.append((np.array(values), float(sensitivity), kind))
            return np.array(values)

        return record

    with (
        mock.patch.object(samplers, "exponential_choice", return_value=0),
        mock.patch.object(samplers, "permute_and_flip", return_value=0),
        mock.patch.object(dc.Gate, "laplace", recorder("laplace")),
        mock.patch.object(dc.Gate, "gaussian", recorder("gaussian")),
        mock.patch.object(PrivateGreedy, "_warn"),
    ):
        PrivateGreedy(constraint, budget, method, release_gains=0.5, seed=0, max_people=9, **options).select(
            people
        )
    return seen[0]


LOVERS = {
    "rows": lambda first, n=1: FacilityLocation([[1.0, 0.0, 0.0] if first else [0.0, 1.0, 0.0]] * n),
    "averages": lambda first, n=1: averaged([[1.0, 0.0, 0.0] if first else [0.0, 1.0, 0.0]] * n),
    "may fall": lambda first, n=1: GraphCut(
        [
            np.array([[0, 0, 1.0], [0, 0, 0], [0, 0, 0]])
            if first
            else np.array([[0, 0, 0], [0, 0, 1.0], [0, 0, 0]])
        ]
        * n,
        directed=True,
    ),
    # The first pick adds 1, and the second one takes 2 away.
    "falls far": lambda first, n=1: GraphCut(
        [np.array([[0, float(first), 0], [0, 0, 0], [0, 0, 0]])] * n,
        modular=[[0.0, -1.0 * first, 0.0]] * n,
        directed=True,
        bound=1.0,
    ),
}


@pytest.mark.parametrize("method", ["basic", "zcdp"])
@pytest.mark.parametrize(
    ("kind", "neighbours"),
    [pair for pair in itertools.product(LOVERS, NEIGHBOURS) if pair != ("averages", "add_remove")],
)
def test_gains_move_by_no_more_than_they_are_charged_for(kind, method, neighbours):
    """One person loves the first pick, another the second; L2 counts where the noise is Gaussian."""
    gaussian = method == "zcdp"
    budget = dc.Budget(0.01, 0.1, neighbours) if gaussian else dc.Budget(1.0, 0.0, neighbours)
    make = LOVERS[kind]
    here, sensitivity, noise = _released_gains(make(True), budget, method)
    assert noise == ("gaussian" if gaussian else "laplace")
    if neighbours == "replace":
        there, _, _ = _released_gains(make(False), budget, method)
    else:
        there = here
        here, sensitivity, _ = _released_gains(make(True, 2), budget, method)
    moved = float(np.linalg.norm(here - there, ord=2 if gaussian else 1))
    assert moved > 0.9
    assert moved <= sensitivity * (1 + 1e-12)
    if kind == "rows":
        assert moved >= sensitivity * (1 - 1e-12)  # no smaller number would be true


def test_gains_of_functions_that_may_rise_and_fall():
    """One pick, worth 2 more to one person and 2 less to another: four apart."""
    up, down = (
        SetFunction([lambda chosen, sign=sign: sign * (1.0 if chosen else -1.0)], n_items=2, bound=1.0)
        for sign in (1.0, -1.0)
    )
    (here, sensitivity, _), (there, _, _) = (
        _released_gains(who, dc.Budget(1.0), "basic", constraint=1) for who in (up, down)
    )
    assert float(np.abs(here - there).sum()) == pytest.approx(4.0, abs=1e-9)
    assert sensitivity >= 4.0


def test_labels_queries_and_progress(capsys):
    people = Coverage(np.eye(4), labels=["a", "b", "c", "d"])
    chosen = PrivateGreedy(2, BUDGET, seed=0).select(people, progress=True)
    assert chosen.labels == tuple("abcd"[item] for item in chosen.items)
    assert chosen.queries == 4 + 3
    assert "picking" in capsys.readouterr().err
    PrivateGreedy(2, BUDGET, seed=0).select(people)
    assert capsys.readouterr().err == ""


def test_all_items_are_a_public_outcome():
    for constraint in (4, Knapsack([1.0, 1.0, 1.0, 0.0], 3.0), PartitionMatroid([[0, 1], [2, 3]], 2)):
        selector = PrivateGreedy(constraint, BUDGET, seed=0)
        chosen = selector.select(Coverage(np.eye(4)))
        assert chosen.items == (0, 1, 2, 3)
        assert chosen.privacy.epsilon() == 0.0
    gains = PrivateGreedy(4, dc.Budget(1.0), release_gains=0.5, seed=0).select(Coverage(np.eye(4))).gains
    assert len(gains) == 4


# --- objectives -----------------------------------------------------------------------------------


def test_objectives_of_every_kind():
    rng = np.random.default_rng(9)
    weights = rng.random((40, 6))
    cut = GraphCut([np.triu(np.ones((6, 6)), 1) / 40.0 * (1 + i % 2) for i in range(5)], directed=True)
    topics = WeightedTopics(weights[:, :3] / 3.0, rng.random((6, 3)) < 0.5)
    informed = MutualInformation(rng.integers(0, 2, (40, 6)), rng.integers(0, 2, 40))
    for people in (topics, informed, cut):
        for method in ("basic", "zcdp", "auto"):
            chosen = PrivateGreedy(2, BUDGET, method, seed=0).select(people)
            assert len(chosen) == 2
            assert chosen.privacy.epsilon() <= 1.0
    assert len(PrivateGreedy(2, BUDGET, "decomposable", seed=0).select(topics)) == 2
    one_way = dc.Budget(1.0, 1e-6, "add_remove")
    assert len(PrivateGreedy(2, one_way, seed=0).select(cut)) == 2
    for method in ("decomposable", "subsampled"):
        with pytest.raises(ValueError, match="sums over people"):
            PrivateGreedy(2, BUDGET, method, seed=0).select(informed)
        with pytest.raises(ValueError, match="monotone"):
            PrivateGreedy(2, BUDGET, method, seed=0).select(cut)


def test_average_scores_move_by_no_more_than_the_account_says():
    """A replaced person moves two averages apart by the range at most."""
    crowd = np.tile([[0.5, 0.25, 0.25]], (4, 1))
    here, there = (averaged(np.vstack([crowd, row])) for row in ([[1.0, 0, 0]], [[0, 1.0, 0]]))
    budget = dc.Budget(1.0)
    p, q = (
        transcripts(lambda _, who=who: PrivateGreedy(1, budget, "basic", seed=0).select(who), budget)
        for who in (here, there)
    )
    worst = max(abs(math.log(p[o] / q[o])) for o in p)
    assert 0.4 < worst <= 1.0


def test_a_stated_sensitivity_is_taken_at_its_word():
    def value(chosen):
        return len(chosen & {1, 2}) / 2.0

    f = SetFunction(value, n_items=4, bound=1.0, monotone=True)
    selector = PrivateGreedy(2, dc.Budget(1.0), "basic", sensitivity=0.001, seed=0)
    assert set(selector.select(f).items) == {1, 2}
    event = next(iter(selector.privacy.ledger.events()))
    assert event.range == 0.002
    assert event.rate == 250.0
    bag = PrivateGreedy(
        Knapsack([1.0, 1.0, 1.0, 1.0], 2.0), dc.Budget(1.0), "basic", sensitivity=0.001, seed=0
    )
    bag.select(f)
    assert next(iter(bag.privacy.ledger.events())).range == 0.004


def test_average_gains_are_totals_as_well():
    """Picks by averages or by sums: the gains that are given out are sums over people either way."""
    people = WeightedTopics(np.tile([[0.5, 0.25]], (4000, 1)), np.eye(2))
    for method in METHODS:
        chosen = PrivateGreedy(1, dc.Budget(8.0, 1e-6), method, release_gains=0.5, seed=0).select(people)
        assert chosen.items == (0,)
        assert chosen.gains == pytest.approx([2000.0], abs=20.0)  # noise of scale 1/2: a chance below 1e-15


def _informed(rng, people=60):
    informed = MutualInformation(rng.integers(0, 2, (people, 3)), rng.integers(0, 2, people))
    return informed, 0.1 * Coverage(rng.random((people, 3)) < 0.3) + 1.0 * informed


def test_a_mixture_with_information_is_no_sum_over_people():
    """Asked one by one everybody's information is 0: it must not be taken for a sum."""
    informed, mixed = _informed(np.random.default_rng(1))
    for method in ("decomposable", "subsampled"):
        with pytest.raises(ValueError, match="sums over people"):
            PrivateGreedy(2, BUDGET, method, bound=1.0).select(mixed)
    with pytest.raises(ValueError, match="neighbours='replace'"):
        PrivateGreedy(2, dc.Budget(1.0, 1e-6, "add_remove"), bound=1.0).select(mixed)
    selector = PrivateGreedy(2, BUDGET, release_gains=0.5, seed=0)
    assert selector.select(mixed).privacy.epsilon() <= 1.0
    events = {type(event).__name__: event for event in selector.privacy.ledger.events()}
    assert events["ExponentialChoice"].range >= informed.sensitivity("replace", "range")
    # Both gains can move by as much as one can: they need not add up to a value.
    assert events["LaplaceNoise"].sensitivity >= 2 * informed.sensitivity("replace", "coordinate")
    bag = PrivateGreedy(Knapsack([1.0, 2.0, 1.0], 2.0), BUDGET, seed=0)
    bag.select(informed)
    # Weighed against costs gains no longer move together.
    each = informed.sensitivity("replace", "coordinate", set_size=2)
    assert 2 * each <= next(iter(bag.privacy.ledger.events())).range <= 2 * each * (1 + 1e-6)
    for limit, times in ((Knapsack([1.0, 2.0, 1.0], 2.0), 4), (2, 2)):
        stated = PrivateGreedy(limit, BUDGET, sensitivity=0.25, seed=0)
        stated.select(informed)
        assert next(iter(stated.privacy.ledger.events())).range == pytest.approx(times * 0.25)
    free = PrivateGreedy(1, dc.Budget(math.inf), seed=0).select(mixed)
    assert free.items == (int(np.argmax(mixed.gains([]))),)


def _unlike(row, other):
    """Three people's locations, and one more: of both populations somebody has a row."""
    rows = [row, [0.2, 0.9, 0.4], [1.0, 0.0, 0.3]]
    return 3.0 * FacilityLocation(rows) + FacilityLocation([other])


@pytest.mark.parametrize("forgotten", [False, True])
def test_a_mixture_of_unlike_populations_is_charged_for_a_row_in_each(forgotten):
    """Enumerated picks of neighbours who differ in both parts; a sensitivity of the first alone is seen."""
    budget, worst = dc.Budget(2.0), 0.0
    factor, first = _unlike([0.0] * 3, [0.0] * 3).parts[0]
    alone = mock.patch.object(
        dc.objectives.Mixture, "sensitivity", return_value=factor * first.sensitivity(norm="range")
    )

    def runs(row, other):
        return transcripts(
            lambda _gate: PrivateGreedy(1, budget, "basic", seed=0).select(_unlike(row, other)), budget
        )

    corners = list(itertools.product((0.0, 1.0), repeat=3))
    with alone if forgotten else contextlib.nullcontext():
        found = [runs(*end) for end in itertools.product(corners, repeat=2)]
    for here, there in itertools.combinations(found, 2):
        worst = max(worst, hockey_stick(here, there, 2.0))
    assert (worst > 1e-3) == forgotten


def test_choosers_and_learners_that_need_everybody_refuse_unlike_populations():
    mixed = _unlike([0.0, 1.0, 0.0], [1.0, 0.0, 0.0])
    assert len(mixed) == 3
    for refused in (lambda: mixed[0], lambda: list(mixed)):
        with pytest.raises(ValueError, match="no one has a function of their own"):
            refused()
    selector = PrivateGreedy(2, dc.Budget(1.0, 1e-6, "add_remove"))
    with pytest.raises(ValueError, match="neighbours='replace'"):
        selector.select(mixed)
    rising = FacilityLocation(np.eye(3)) + FacilityLocation([[1.0, 0.5, 0.0]])
    climber = dc.offline.ContinuousGreedy(1, dc.Budget(1.0), bound=2.0)
    with pytest.raises(ValueError, match="not a sum over people"):
        climber.select(rising)
    assert selector.privacy.epsilon() == climber.privacy.epsilon() == 0.0
    stated = dc.offline.ContinuousGreedy(1, dc.Budget(4.0), bound=2.0, sensitivity=1.5, seed=0)
    assert len(stated.select(rising)) == 1
    for learner in (
        dc.online.HedgeSelector(3, 1, 4, dc.Budget(1.0, 1e-6), bound=2.0, seed=0),
        dc.online.SubmodularMinimizer(3, 4, dc.Budget(1.0, 1e-6), bound=8.0, seed=0),
    ):
        with pytest.raises(ValueError, match="learners need one for each"):
            learner.run(rising)
        assert learner.round == 0


def test_tables_that_would_grow_too_large_are_refused_before_anything_is_spent():
    rng = np.random.default_rng(0)
    informed = MutualInformation(rng.integers(0, 4, (50, 12)), rng.integers(0, 2, 50), n_values=4)
    for people in (informed, informed + Coverage(np.ones((50, 12)))):
        selector = PrivateGreedy(11, BUDGET, seed=0)
        with pytest.raises(ValueError, match="table of 11 features"):
            selector.select(people)
        assert selector.privacy.epsilon() == 0.0
    assert len(PrivateGreedy(6, BUDGET, seed=0).select(informed)) == 6


def _late(total):
    """A concave function that fails where two items of weight 0.25 lead to."""
    if np.any(np.abs(total - 0.5) < 1e-12):
        raise RuntimeError("somebody's total is in this message")
    return np.sqrt(total)


@pytest.mark.parametrize("method", METHODS)
def test_other_peoples_functions_fail_in_silence(method):
    """Functions of unknown origin, alone or in a mixture: one who fails counts as nothing."""

    def moody(chosen):
        if len(chosen) >= 2:
            raise RuntimeError("my data are in this message")
        return 0.5 * len(chosen)

    weights = np.array([[0.25, 0.25, 0.25, 0.0], [0.1, 0.0, 0.0, 0.1]])
    own = SetFunction([moody] * 2, n_items=4, bound=1.0, monotone=True)
    topics = WeightedTopics(np.ones((2, 1)), np.ones((4, 1)))
    for people in (
        ConcaveOverModular(weights, concave=_late),
        0.5 * own + 0.5 * topics,
    ):
        assert len(PrivateGreedy(3, BUDGET, method, seed=0).select(people)) == 3


def test_mixtures_of_unlike_populations_ask_no_function_that_may_fail_for_one_person():
    """Nobody has a function of their own there: one person's failure after a pick ended the selection."""

    def late(chosen):
        if len(chosen) >= 2:
            raise RuntimeError("my data are in this message")
        return 0.5 * len(chosen)

    other = Coverage(np.eye(4)[:3])
    concave = ConcaveOverModular(np.full((2, 4), 0.25), concave=_late)
    for own in (SetFunction([late] * 2, n_items=4, bound=1.0, monotone=True), concave):
        selector = PrivateGreedy(3, BUDGET, seed=0)
        with pytest.raises(ValueError, match="unlike populations a function in Python"):
            selector.select(0.5 * own + 0.5 * other)
        assert selector.privacy.epsilon() == 0.0
    named = 0.5 * ConcaveOverModular(np.full((2, 4), 0.25)) + 0.5 * other
    assert len(PrivateGreedy(3, BUDGET, seed=0).select(named)) == 3


def test_functions_that_may_fall_are_held_to_what_is_charged():
    """A mixture declares f(empty set) = 0, and its part does not keep that: two up, where one is charged."""
    rises = 1.0 * SetFunction([lambda chosen: 1.0 if chosen else -1.0], n_items=3, bound=1.0)
    for bound in (1.0, 5.0):
        selector = PrivateGreedy(1, dc.Budget(1.0, 0.0, "add_remove"), "basic", bound=bound, seed=0)
        question = selector._problem(selector._over(3), None, rises)
        found = FixedPointGains.over(rises, bound, question.unit).scores()
        _, _, up, down = rises.ranges()
        assert question.width == up + down
        assert -down <= found.min()
        assert found.max() <= up


# --- utility bounds -----------------------------------------------------------------------------


def _best(people, constraint):
    sets = itertools.chain.from_iterable(
        itertools.combinations(range(people.n_items), r) for r in range(1, constraint.rank + 1)
    )
    return max(people.value(s) for s in sets if constraint.contains(s)) * len(people)


CERTIFIED = ["cardinality", "partition", "intersection", "knapsack with a large item", "two of a knapsack"]


def _average(people, constraint, budget, method):
    """E f(S) of the sum over people, over every sequence of draws."""
    with mock.patch.object(PrivateGreedy, "_warn"):
        sets = distribution(lambda: PrivateGreedy(constraint, budget, method, seed=0).select(people).items)
    return sum(chance * people.value(items) for items, chance in sets.items()) * len(people)


@pytest.mark.parametrize("name", CERTIFIED)
@pytest.mark.parametrize("method", METHODS)
def test_certificates_hold_on_average(name, method):
    """E f(S) >= ratio OPT - loss. The expectation is enumerated, over the draws; for picks on a sample it is
    the mean over 12 samples, with an allowance for that which 12 values in [0, 400] exceed once in a million.
    """
    rng = np.random.default_rng(11)
    people = Coverage((rng.random((400, 4)) < [0.6, 0.4, 0.3, 0.2]).astype(float))
    constraint = SMALL[name]().over(4)
    budget = dc.Budget(3.0, 1e-2)
    selector = PrivateGreedy(constraint, budget, method)
    allowed = 0.0
    if method == "subsampled":
        keep, means = selector.plan(4, 400).picks.chance, []
        for _ in range(12):
            inside = np.flatnonzero(rng.random(400) < keep)
            with mock.patch.object(Coverage, "sampled", lambda who, *_, inside=inside: who[inside]):
                means.append(_average(people, constraint, budget, method))
        mean, allowed = float(np.mean(means)), 400 * math.sqrt(math.log(1e6) / (2 * 12))
    else:
        mean = _average(people, constraint, budget, method)
    loss = selector.certified_loss(len(people), 4)
    assert 0.0 < loss < math.inf
    assert mean >= selector.ratio * _best(people, constraint) - loss - allowed
    assert selector.ratio > 0.25


@pytest.mark.parametrize("n_items", [2, 10, 3000])
@pytest.mark.parametrize("method", ["basic", "subsampled"])
def test_the_loss_of_one_pick_is_about_what_is_certified(n_items, method):
    """One item is d people better than all others: the worst d loses most of ln(n) / rate, and never more.

    With one pick the best set is the best item and the ratio is 1, so that nothing else hides the loss.
    """
    rate, lost = 0.5, []
    for ahead in np.linspace(0.0, 40.0, 200):
        if method == "basic":
            scores = np.append(np.zeros(n_items - 1), ahead)
            missed = 1.0 - math.exp(samplers.choice_log_probabilities(scores, rate)[-1])
        else:  # the others are kept or not, each on its own; the one ahead always is
            kept = math.exp(-rate * ahead)
            missed = 1.0 - (1.0 - (1.0 - kept) ** n_items) / (n_items * kept)
        lost.append(missed * ahead)
    certified = bounds.cardinality_loss(n_items, 1, rate)
    assert {2: 0.25, 10: 0.35, 3000: 0.6}[n_items] * certified < max(lost) <= certified


def test_auto_takes_the_largest_rate_and_says_why():
    sums = {k: PrivateGreedy(k, BUDGET).plan(285, 1000) for k in (1, 2, 20)}
    assert [sums[k].method for k in (1, 2, 20)] == ["basic", "subsampled", "subsampled"]
    stated = {k: PrivateGreedy(k, BUDGET, sensitivity=0.1).plan(285) for k in (3, 20)}
    assert [stated[k].method for k in (3, 20)] == ["basic", "zcdp"]
    for k in (1, 2, 20):
        rates = {m: PrivateGreedy(k, BUDGET, m).plan(285, 1000).picks.temperature for m in METHODS}
        assert sums[k].picks.temperature == max(rates.values())
        assert all(name in sums[k].reason for name in METHODS)
    assert "sensitivity was stated" in stated[3].reason
    few, many = (PrivateGreedy(2, BUDGET).certified_loss(people, 285) for people in (1_000, 10_000))
    assert many > few > 0.0


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 10_000))
def test_costs_are_weighed_as_the_certificate_says(seed):
    rng = np.random.default_rng(seed)
    n_items = int(rng.integers(1, 8))
    costs = np.round(rng.random(n_items) ** 3, 3)
    bag = Knapsack(costs, max(float(costs.min()), 0.05, float(rng.random())))
    charged = ChargedCosts.of(bag)
    affordable = bag.addable([])
    assert (charged.weights > 0.0).all()
    assert charged.weights[affordable].max() == 1.0
    assert (charged.weights * 2.0**16 % 1.0 == 0.0).all()
    if bag.capacity > 0.0 and charged.charged.max() != 1.0:
        assert (charged.charged[affordable] >= costs[affordable] * (1 - 1e-12)).all()
        for size in range(1, bag.rank + 1):
            for items in itertools.combinations(range(n_items), size):
                if bag.contains(items):
                    chosen = list(items)
                    assert charged.charged[chosen].sum() <= costs[chosen].sum() + charged.slack + 1e-9
    # Plain cost-benefit greedy (no privacy) is worth the ratio, also with at most k items.
    people = Coverage(rng.random((20, n_items)) < 0.4)
    for constraint in (bag, Intersection(Cardinality(int(rng.integers(1, n_items + 1))), bag)):
        chosen = PrivateGreedy(constraint, dc.Budget(math.inf), seed=0).select(people)
        best = _best(people, constraint)
        assert people.value(chosen.items) * 20 >= costs_of(constraint).ratio * best - 1e-9


def _catalogue_with_prices(rng):
    """People who want a few of 60 cheap items each, and three in ten one dear item as well."""
    wanted = rng.random((3_000, 61)) < 0.12
    wanted[:, 0] = rng.random(3_000) < 0.3
    return Coverage(wanted), np.append(95.0, rng.uniform(2.0, 10.0, size=60))


def test_a_dear_item_does_not_fill_a_knapsack_within_an_intersection():
    """At most ten items for 100: as good as the knapsack alone. By plain gains one item takes it all."""
    people, prices = _catalogue_with_prices(np.random.default_rng(5))
    bag = Knapsack(prices, 100.0)
    kinds = PartitionMatroid(np.arange(61) % 12, 1)
    served = {}
    for name, constraint in {
        "alone": bag,
        "ten": Intersection(Cardinality(10), bag),
        "one of a kind": Intersection(kinds, bag),
        "two knapsacks": Intersection(Cardinality(10), bag, Knapsack(np.ones(61), 10.0)),
    }.items():
        for epsilon in (math.inf, 1.0):
            chosen = PrivateGreedy(constraint, dc.Budget(epsilon), seed=1).select(people)
            assert constraint.contains(chosen.items)
            served[name, epsilon] = people.value(chosen.items)
    assert min(served.values()) > 0.66
    with mock.patch.object(offline_greedy, "costs_of", return_value=None):  # as it was before
        chosen = PrivateGreedy(Intersection(Cardinality(10), bag), dc.Budget(math.inf)).select(people)
    assert chosen.items[0] == 0
    assert people.value(chosen.items) < 0.42


def test_what_is_known_of_combinations_with_a_knapsack():
    bag, kinds = Knapsack([1.0, 2.0, 2.0, 9.0], 10.0), PartitionMatroid([[0, 1], [2, 3]], 1)
    assert costs_of(kinds) is costs_of(Cardinality(2)) is None
    ten = costs_of(Intersection(Cardinality(2), bag))
    assert ten.weights.tolist()[:3] == [1.0] * 3  # any two of these fit, and costs do not count
    # Of the capacity of 10 the dearest small item takes 2. Two items cost up to 4 + 3 more than they do where
    # each is charged 5; three cost 7/3 + 4/3 + 4/3 more where each is charged 10/3. The item of 9 is large.
    alone = costs_of(bag)
    for found, slack in ((ten, 7.0), (alone, 5.0)):
        small, rest = 1 - math.exp(-(10 - 2) / (10 + slack)), 1 - math.exp(-5 / (5 + slack))
        assert found.slack == pytest.approx(slack, rel=1e-4)
        assert found.ratios == pytest.approx((small, rest), rel=1e-4)
        assert found.ratio == pytest.approx(rest / (1 + rest), rel=1e-4)
    even = costs_of(Knapsack([2.0, 2.0, 2.0], 6.0))  # no large item, and every cost is charged as it is
    assert even.ratios == (pytest.approx(1 - math.exp(-4 / 6), rel=1e-4), None)
    assert even.ratio == even.ratios[0]
    for unknown in (Intersection(kinds, bag), Intersection(Cardinality(2), bag, bag)):
        found = costs_of(unknown)
        assert found.ratio is None
        assert not found.large.size
        assert PrivateGreedy(unknown, BUDGET).ratio is None
        with pytest.raises(ValueError, match="no guarantee is known"):
            PrivateGreedy(unknown, BUDGET).certified_loss(100)
    free = Intersection(Cardinality(2), Knapsack([0.0, 0.0, 3.0], 0.0), Knapsack([1.0, 2.0, 0.1], 2.0))
    assert costs_of(free).weights[:2].tolist() == [1.0, 1.0]


def test_sampling_loss_bounds_what_is_seen():
    rng = np.random.default_rng(12)
    people = Coverage(rng.random((200, 8)) < 0.3)
    sets = list(itertools.combinations(range(8), 2))
    full = np.array([people.value(s) * 200 for s in sets])
    chance, worst = 0.3, []
    for _ in range(40):
        rows = np.flatnonzero(rng.random(200) < chance)
        part = people[rows]
        worst.append(max(part.value(s) * rows.size / chance - v for s, v in zip(sets, full, strict=True)))
    assert np.mean(worst) < bounds.sampling_loss(8, 2, 200, chance, 1.0)
    assert bounds.sampling_loss(8, 2, 200, 1.0, 1.0) == 0.0


# --- bad input ------------------------------------------------------------------------------------


def test_bad_input_is_named_before_anything_is_spent():
    people = Coverage(np.eye(5))
    cases = [
        (lambda: PrivateGreedy(0, BUDGET), ValueError, "k=0"),
        (lambda: PrivateGreedy("five", BUDGET), TypeError, "constraint"),
        (lambda: PrivateGreedy(2, 1.0), TypeError, "budget must be a Budget"),
        (lambda: PrivateGreedy(2, BUDGET, "best"), ValueError, "method"),
        (lambda: PrivateGreedy(2, BUDGET, bound=0.0), ValueError, "bound"),
        (lambda: PrivateGreedy(2, BUDGET, bound=math.nan), ValueError, "bound is NaN"),
        (lambda: PrivateGreedy(2, BUDGET, sensitivity=-1.0), ValueError, "sensitivity"),
        (lambda: PrivateGreedy(2, BUDGET, release_gains=1.0), ValueError, "release_gains"),
        (lambda: PrivateGreedy(2, BUDGET, max_people=0), ValueError, "max_people=0"),
        (lambda: PrivateGreedy(Cardinality(2, 5), dc.Budget(1.0), "zcdp"), ValueError, "needs delta"),
        (lambda: PrivateGreedy(2, dc.Budget(1.0), "decomposable").plan(5), ValueError, "needs delta"),
        (lambda: PrivateGreedy(2, BUDGET).plan(), ValueError, "give n_items"),
        (lambda: PrivateGreedy(Cardinality(2, 5), BUDGET, bound=1e-305), ValueError, "at least 1e-100"),
    ]
    for make, kind, message in cases:
        with pytest.raises(kind, match=message):
            make()
    selections = [
        (lambda: PrivateGreedy(6, BUDGET), people, ValueError, "k=6 exceeds n_items=5"),
        (lambda: PrivateGreedy(2, BUDGET), np.eye(5), TypeError, "population"),
        (lambda: PrivateGreedy(2, BUDGET, max_people=4), people, ValueError, "max_people=4"),
        (lambda: PrivateGreedy(2, BUDGET, bound=0.5), people, ValueError, "above bound=0.5"),
        (lambda: PrivateGreedy(Cardinality(2, 4), BUDGET), people, ValueError, "n_items=5"),
        (
            lambda: PrivateGreedy(2, BUDGET),
            ConcaveOverModular(np.full((3, 4), 9.0)),
            ValueError,
            "declare a public bound",
        ),
        (
            lambda: PrivateGreedy(2, dc.Budget(1.0, 1e-6, "add_remove")),
            MutualInformation(np.eye(4, dtype=int), [0, 0, 1, 1]),
            ValueError,
            "neighbours='replace'",
        ),
        (
            lambda: PrivateGreedy(2, BUDGET),
            SetFunction(lambda s: math.nan if s else 0.0, n_items=3, bound=1.0),
            ValueError,
            "one person values a set",
        ),
        (
            lambda: PrivateGreedy(
                Intersection(
                    PartitionMatroid([0, 1, 1, 1, 1], [1, 0]), PartitionMatroid([0, 1, 1, 1, 1], [0, 1])
                ),
                BUDGET,
            ),
            people,
            ValueError,
            "allows no item",
        ),
    ]
    for make, who, kind, message in selections:
        selector = make()
        with pytest.raises(kind, match=message):
            selector.select(who)
        assert selector.privacy.epsilon() == 0.0


def test_a_budget_that_cannot_beat_chance_is_said_in_words():
    people = Coverage(np.eye(20))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.warns(UserWarning, match="much more than chance.*epsilon=") as seen:
            PrivateGreedy(3, dc.Budget(0.1), "basic", seed=0).select(people)
        enough = float(str(seen[0].message).split("; epsilon=")[1].split(" ")[0])
        PrivateGreedy(3, dc.Budget(enough), "basic", seed=0).select(people)  # no warning
        with pytest.warns(UserWarning, match="chance"):
            PrivateGreedy(3, dc.Budget(0.9 * enough), "basic", seed=0).select(people)
        # The number of people is private here, and a warning would tell.
        PrivateGreedy(3, dc.Budget(0.1, neighbours="add_remove"), seed=0).select(people)


def test_intersections_refuse_what_needs_a_polytope():
    both = Intersection(Cardinality(2), PartitionMatroid([[0, 1], [2, 3]], 1))
    assert both.n_items == 4
    assert both.extendible == 2
    assert both.addable([0]).tolist() == [False, False, True, True]
    assert Intersection(Cardinality(2), Knapsack([1.0, 1.0], 1.0)).extendible is None
    assert Intersection(Cardinality(2)).over(3).n_items == 3
    with pytest.raises(NotImplementedError, match="greedy"):
        both.maximize([1.0] * 4)
    with pytest.raises(ValueError, match="different ground sets"):
        Intersection(Cardinality(2, 3), PartitionMatroid([[0, 1], [2, 3]], 1))


def test_a_bound_that_full_sets_exceed_is_refused_before_anything_is_spent():
    """One item keeps to it and two do not: everybody would count for nothing, and chance alone would pick."""
    people = SetFunction([lambda chosen: float(len(chosen))] * 50, 4, 1.0, monotone=True)
    selector = PrivateGreedy(2, BUDGET, seed=0)
    with pytest.raises(
        dc.DataError, match=r"outside \[0, 1\]; correct the function or declare another bound"
    ):
        selector.select(people)
    assert selector.privacy.epsilon() == 0.0
    enough = SetFunction([lambda chosen: float(len(chosen))] * 50, 4, 2.0, monotone=True)
    assert len(PrivateGreedy(2, BUDGET, bound=2.0, seed=0).select(enough)) == 2


def test_flips_lose_no_more_than_exponential_weights():
    rng = np.random.default_rng(1)
    for _ in range(500):
        scores = rng.exponential(size=6) * rng.choice([0.1, 1.0, 8.0])
        weights = np.exp(samplers.choice_log_probabilities(scores, 1.0))
        assert samplers.flip_probabilities(scores, 1.0) @ scores >= weights @ scores - 1e-12


def test_enumerated_choices_leave_the_share_of_the_gains():
    """Picks and gains together: the picks alone take what is left of the budget."""
    budget = dc.Budget(1.0, 0.0)
    account = PrivateGreedy(2, budget, "basic", release_gains=0.4, seed=0).select(Coverage(np.eye(4))).privacy
    kinds = {type(event).__name__: event for event in account.ledger.events()}
    assert float(kinds["ExponentialChoice"].width) * 2 == pytest.approx(0.6)
    assert float(kinds["LaplaceNoise"].loss().pure) == pytest.approx(0.4)


def test_nobody_is_asked_after_the_last_pick():
    for people in (
        SetFunction([lambda chosen: len(chosen) / 4] * 2, n_items=4, bound=1.0, monotone=True),
        averaged(np.full((5, 4), 0.25)),
        MutualInformation(np.eye(4, dtype=int), [0, 0, 1, 1]),
    ):
        sizes, original = [], type(people).gains
        with mock.patch.object(
            type(people),
            "gains",
            lambda self, items, original=original, sizes=sizes: (
                sizes.append(len(items)),
                original(self, items),
            )[1],
        ):
            PrivateGreedy(2, BUDGET, "basic", seed=0).select(people)
        assert max(sizes) == 1


def test_losses_of_several_picks_add_up_as_stated():
    n, rate = 50, 0.3
    assert bounds.cardinality_loss(n, 2, rate) == pytest.approx((0.5 * math.log(50) + math.log(49)) / rate)
    three = math.log(50) + math.log(49) + math.log(48)
    assert bounds.extendible_loss(n, 3, rate, 1) == pytest.approx(three / 2 / rate)
    assert bounds.extendible_loss(n, 3, rate, 2) == pytest.approx(three * 2 / 3 / rate)
    assert bounds.rounding(3, 100, 2.0**-10) == 300 * 2.0**-10


@pytest.mark.parametrize("constraint", [5, Knapsack([0.5, 0.1, 0.2, 0.4] * 5, 2.0)])
@pytest.mark.parametrize("method", METHODS)
def test_certificates_speak_of_the_people_asked_about(constraint, method):
    """Their number may be private when the choice is made; the certificate is for the number it is given."""
    one_way = dc.Budget(1.0, 1e-6, "add_remove")
    unaware = PrivateGreedy(constraint, one_way, method)
    aware = PrivateGreedy(constraint, one_way, method, max_people=10_000)
    losses = [unaware.certified_loss(people, 20) for people in (100, 10_000)]
    assert aware.certified_loss(10_000, 20) <= losses[1] < math.inf  # sums are laid out for fewer
    assert losses[0] < losses[1]
    rounded = bounds.rounding(1, 10_000, unaware._problem(unaware._over(20), None).unit)
    assert losses[1] > rounded
