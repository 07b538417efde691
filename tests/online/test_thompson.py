"""Thompson sampling: what one person moves, that nothing else leaves, late rewards, beliefs, and learning."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import permutations, product
from unittest import mock

import numpy as np
import pytest

import discreet as dc
from discreet.bounds.minimization import trivial_cost
from discreet.core.checks import DataError
from discreet.core.state import capture
from discreet.evaluation.regret import best_fixed_set
from discreet.evaluation.streams import cuts_and_prices, drifting, product_display
from discreet.online import BanditSubmodularMinimizer, ThompsonSelector, bandit
from discreet.online.bandit_minimize import SetCosts, _descended
from discreet.online.sums import BatchTotal, CostTotal
from discreet.online.thompson import (
    WARM_UP,
    Independent,
    ItemValues,
    Joint,
    ThompsonSettings,
    root_of,
)

PURE, ALONE, FREE = dc.Budget(1.0), dc.Budget(1.0, 0.0, "add_remove"), dc.Budget(math.inf)


def leaving(learner, rewards):
    """The sums that leave when these rewards come one after the other, exactly, in units of reward."""
    found, step = [], float(learner._sum._total.step)

    def exactly(_, steps):
        found.append(steps * step)
        return steps

    with mock.patch.object(BatchTotal, "noisy", exactly):
        for reward in rewards:
            learner.learn(reward(learner.choose().items))
    return np.array(found)


# --- what one person moves ------------------------------------------------------------------------------


def moved(options, here, there, rounds=6, at=3, **settings):
    """How far a person who answers otherwise moves everything that leaves, in L1."""

    def rewards(changed):
        return [changed if t == at else (lambda _: options.get("common")) for t in range(rounds)]

    shape = {"block": 2, "bound": 3.0, "seed": 0} | settings
    worlds = [leaving(ThompsonSelector(4, 3, None, PURE, **shape), rewards(one)) for one in (here, there)]
    assert worlds[0].shape[0] == rounds // shape["block"]
    assert np.count_nonzero(np.abs(worlds[0] - worlds[1]).sum(axis=1)) <= 1  # nobody is in two sums
    return float(np.abs(worlds[0] - worlds[1]).sum())


@pytest.mark.parametrize("neighbours", ["replace", "add_remove"])
def test_one_value_moves_one_sum_by_the_bound(neighbours):
    values = (0.0, 0.1, 1.0, 2.9999999, 3.0)
    far = max(
        moved({"common": 0.7}, lambda _, a=a: a, lambda _, b=b: b) for a, b in product(values, repeat=2)
    )
    noise = ThompsonSettings.tight(4, 3, None, dc.Budget(1.0, 0.0, neighbours).share(), bound=3.0).noise
    assert far <= float(noise.sensitivity)
    assert far == pytest.approx(3.0, rel=1e-6)


def answers_of_slots(bound):
    """Every kind of answer: nothing, one item, all of it on one slot, and shares of it."""
    shares = [(1.0, 0.0, 0.0), (0.0, 0.5, 0.5), (1 / 3, 1 / 3, 1 / 3), (0.1, 0.2, 0.3)]
    vectors = {tuple(bound * x for x in order) for share in shares for order in permutations(share)}
    return [
        lambda _: None,
        *(lambda items, i=i: items[i] for i in range(3)),
        *(lambda _, v=v: list(v) for v in vectors),
    ]


def test_slots_move_by_the_bound_alone_and_by_twice_that_when_replaced():
    slots = {"feedback": "slots"}
    answers = answers_of_slots(3.0)
    removed = max(moved({}, answers[0], one, **slots) for one in answers)
    replaced = max(moved({}, one, other, **slots) for one, other in product(answers, repeat=2))
    for budget, far in ((ALONE, removed), (PURE, replaced)):
        noise = ThompsonSettings.tight(4, 3, None, budget.share(), bound=3.0, feedback="slots").noise
        assert far <= float(noise.sensitivity)
        assert far == pytest.approx(float(noise.sensitivity), rel=1e-6)


def test_noise_for_less_than_a_person_moves_is_refused():
    honest = bandit.moved_by_one
    with mock.patch.object(bandit, "moved_by_one", lambda *a: honest(*a) / 2):
        half = ThompsonSettings.tight(4, 2, None, PURE.share())
    with pytest.raises(ValueError, match="one person can move"):
        bandit.check_reward_noise(half, "replace", half.block)


def test_the_account_is_one_pure_release_however_many_rounds():
    learner = ThompsonSelector(4, 2, None, PURE, block=3, seed=0)
    before = learner.privacy
    assert before.spent.epsilon() == 0.0
    for t in range(100):
        learner.choose()
        learner.learn(0.5)
        assert learner.privacy.spent.epsilon() == pytest.approx(float(t >= 2))
    assert learner.privacy.pure == before.pure == pytest.approx(1.0)


# --- nothing but released sums --------------------------------------------------------------------------


@pytest.mark.parametrize("feedback", ["bandit", "slots"])
def test_sets_follow_from_released_sums_and_public_coins(feedback):
    """Other people, and noise that makes the same sums of them: the same sets, and the same beliefs."""
    rng = np.random.default_rng(0)
    script = rng.normal(0.3, 0.1, size=(60, 2)) * 1e9
    seen = []
    for world in range(2):
        learner = ThompsonSelector(5, 2, None, PURE, feedback=feedback, block=2, seed=4)
        left = iter(script)
        people = np.random.default_rng(world)

        def scripted(_, steps, left=left):
            return next(left)[: steps.size].astype(np.int64)

        with mock.patch.object(BatchTotal, "noisy", scripted):
            shown = []
            for _ in range(80):
                items = learner.choose().items
                shown.append(items)
                reward = people.random()
                learner.learn(reward if feedback == "bandit" else [reward, 0.0])
        seen.append((shown, capture(learner._sum._values)[1]))
    assert seen[0][0] == seen[1][0]
    assert len(set(seen[0][0])) > 5
    for name, array in seen[0][1].items():
        assert np.array_equal(array, seen[1][1][name]), name


# --- rewards that come late ------------------------------------------------------------------------------


def test_late_rewards_enter_the_block_of_their_round():
    rewards = np.random.default_rng(3).random(24)
    punctual = ThompsonSelector(6, 2, None, PURE, block=4, seed=0)
    expected = leaving(punctual, [lambda _, r=r: r for r in rewards])
    late = ThompsonSelector(6, 2, None, PURE, block=4, seed=0)
    step, found = float(late._sum._total.step), []

    def exactly(_, steps):
        found.append(steps * step)
        return steps

    with mock.patch.object(BatchTotal, "noisy", exactly):
        for _ in range(25):
            late.choose(wait=False)
        assert late.pending == tuple(range(24))
        for t in np.random.default_rng(4).permutation(24).tolist():
            late.learn(rewards[t], round=t)
            with pytest.raises(ValueError, match="has been counted"):
                late.learn(rewards[t], round=t)
    assert late.pending == ()
    assert sorted(np.ravel(found)) == pytest.approx(sorted(np.ravel(expected)))


def test_a_block_waits_for_its_last_reward_and_others_go_on(tmp_path):
    learner = ThompsonSelector(6, 2, None, PURE, feedback="slots", block=2, seed=0)
    first = learner.choose().items
    learner.choose(wait=False)
    learner.learn(first[0])
    learner.choose()
    learner.learn(None)
    assert learner.privacy.spent.epsilon() == 0.0
    learner.save(tmp_path / "state")
    for one in (learner, dc.load(tmp_path / "state")):
        assert one.pending == (0,)
        with pytest.raises(DataError, match="invalid feedback") as caught:
            one.learn(next(i for i in range(6) if i not in first), round=0)
        assert "was not shown" in caught.value.details
        one.learn(first[1], round=0)
        assert one.privacy.spent.epsilon() == pytest.approx(1.0)
        assert one.pending == ()


# --- beliefs --------------------------------------------------------------------------------------------


def test_beliefs_together_are_those_of_bayes():
    rng = np.random.default_rng(0)
    size = 6
    own, common = 0.7, 0.4
    root = root_of(own, common, size)
    prior = own**2 * np.eye(size) + common**2
    assert root @ root.T == pytest.approx(prior)
    belief, precision, weighed = Joint(np.zeros(size), root), np.linalg.inv(prior), np.zeros(size)
    for _ in range(25):
        items = rng.choice(size, 3, replace=False)
        value, variance = rng.normal(), rng.uniform(0.05, 0.5)
        belief.observe(items, value, variance)
        one = np.zeros(size)
        one[items] = 1.0
        precision += np.outer(one, one) / variance
        weighed += one * value / variance
    covariance = np.linalg.inv(precision)
    assert belief.root @ belief.root.T == pytest.approx(covariance, rel=1e-4, abs=1e-5)
    assert belief.mean == pytest.approx(covariance @ weighed, rel=1e-4, abs=1e-5)
    drawn = np.array([belief.draw(rng, 0.5) for _ in range(20_000)])
    assert np.cov(drawn.T) == pytest.approx(0.25 * covariance, abs=0.1 * covariance.max() * 0.25)


def test_beliefs_alone_are_those_of_bayes_for_one_item():
    belief = Independent(np.array([0.2, 0.5]), np.array([0.3, 0.1]))
    belief.observe_each(np.array([0]), np.array([0.8]), 0.6)
    assert belief.mean[0] == pytest.approx((0.2 / 0.3 + 0.8 / 0.6) / (1 / 0.3 + 1 / 0.6))
    assert belief.variance[0] == pytest.approx(1 / (1 / 0.3 + 1 / 0.6))
    alike = Independent(np.array([0.2, 0.5]), np.array([0.3, 0.1]))
    alike.observe(np.array([0]), 0.8, 0.6)
    assert (alike.mean == belief.mean).all()
    assert (alike.variance == belief.variance).all()
    belief.widen(0.05, 0.12)
    assert belief.variance.tolist() == pytest.approx([0.12, 0.12])


@pytest.mark.parametrize("more", [2, 296])
def test_what_was_learned_of_items_together_stays_when_items_are_added(more):
    """New items are independent of the old ones; only beyond 300 items are all taken apart."""
    learner = ThompsonSelector(6, 2, None, FREE, block=1, seed=0)
    rng = np.random.default_rng(1)
    for _ in range(WARM_UP + 20):
        learner.choose()
        learner.learn(float(rng.random()))
    before = learner._sum._values._posterior
    mean, covariance = before.mean.copy(), before.root.astype(float) @ before.root.T
    assert np.abs(covariance - np.diag(np.diag(covariance))).max() > 0.1 * covariance.max()
    # Before anything is known a Joint weight has the deviation 1.5 x the mean value of an item.
    own = 1.5 * float(np.mean(learner._sum._values._values)) / 2
    learner.add_items(list(range(6, 6 + more)))
    after = learner._sum._values._posterior
    assert after.mean.tolist() == [*mean, *[0.0] * more]
    if more == 2:
        expected = np.zeros((8, 8))
        expected[:6, :6] = covariance
        expected[6:, 6:] = own**2 * np.eye(2)
        assert after.root @ after.root.T == pytest.approx(expected, rel=1e-4, abs=1e-6)
    else:
        # Taken apart, a weight has what it has in common with others as well: 1 x the mean value of an item.
        alone = own**2 * (1.5**2 + 1.0**2) / 1.5**2
        assert after.variance == pytest.approx([*np.diag(covariance), *[alone] * more], rel=1e-4)


def test_beliefs_begin_also_where_they_were_interrupted():
    """The last of the first blocks was released, and no beliefs were made of it: the next one makes them."""
    learner = ThompsonSelector(5, 2, None, PURE, block=2, seed=0)
    for t in range(2 * WARM_UP + 2):
        learner.choose()
        stopped = mock.patch.object(ItemValues, "_begin", side_effect=KeyboardInterrupt)
        if t == 2 * WARM_UP - 1:
            with stopped, pytest.raises(KeyboardInterrupt):
                learner.learn(1.0)
            assert learner.released.values is None
        else:
            learner.learn(1.0)
    assert learner.released.values is not None
    assert dc.load(learner.to_bytes()).released.people == learner.released.people


def test_many_items_need_no_matrix():
    learner = ThompsonSelector(50_000, 3, None, FREE, block=1, seed=0)
    for _ in range(WARM_UP + 3):
        learner.choose()
        learner.learn(0.5)
    _, arrays = capture(learner._sum)
    assert sum(array.size for array in arrays.values()) < 4 * 50_000


def test_sums_below_their_noise_still_make_a_belief():
    for feedback in ("bandit", "slots"):
        settings = ThompsonSettings.tight(30, 4, None, PURE.share(), feedback=feedback)
        values = ItemValues(settings)
        for _ in range(WARM_UP + 1):
            values.observe(np.arange(4, dtype=np.int32), np.full(settings.width, -0.5))
        items = values.suggest(np.random.default_rng(0))
        assert np.unique(items).size == 4


def test_a_catalogue_that_grows_large_is_resumed_as_it_is():
    """From 1,000 items on less is expected of what nobody has seen, and new learners have shorter blocks."""
    few, many = (
        ThompsonSettings.tight(n, 3, None, dc.Budget(1.0).share(), feedback="slots") for n in (999, 1000)
    )
    assert (few.block, many.block) == (50, 35)
    assert few.slot_beliefs != many.slot_beliefs
    values, grown = ItemValues(few), replace(few, n_items=1200)
    for start in range(WARM_UP):
        values.observe(np.arange(3 * start, 3 * start + 3, dtype=np.int32), np.full(3, 0.2))
    values.grow(grown)
    resumed = ItemValues(grown)
    resumed._shown, resumed._values = values._shown, values._values
    resumed._weights = {name: array.copy() for name, array in values._weights.items()}
    assert (resumed._own, resumed._error) == (values._own, values._error)
    assert resumed._posterior.mean[-1] == pytest.approx(2.0 * 0.2)  # of an item that is new
    drawn = [one.suggest(np.random.default_rng(1)).tolist() for one in (values, resumed)]
    assert drawn[0] == drawn[1]


# --- costs of sets --------------------------------------------------------------------------------------


def leaving_costs(values, **options):
    """The sums of costs that leave, exactly."""
    found, learner = [], BanditSubmodularMinimizer(4, 40, form="thompson", batch=3, seed=0, **options)

    def exactly(total, steps):
        found.append(float(steps * total.step))
        return found[-1]

    with mock.patch.object(CostTotal, "leave", exactly):
        for value in values:
            learner.choose()
            learner.learn(value)
        learner.choose()
    return np.array(found), learner


@pytest.mark.parametrize(("budget", "times"), [(PURE, 2.0), (ALONE, 1.0)])
def test_one_cost_moves_one_sum(budget, times):
    answers = (-2.0, -0.3, 0.0, 1.7, 2.0)
    others = [0.0] if times == 1.0 else answers
    far = 0.0
    for here, there, at in product(answers, others, (0, 4, 14)):
        worlds = [
            leaving_costs([one if t == at else 0.1 for t in range(15)], budget=budget, bound=2.0)
            for one in (here, there)
        ]
        apart = np.abs(worlds[0][0] - worlds[1][0])
        step = float(worlds[0][1]._total.step)
        assert np.count_nonzero(apart > 2.0 * step) <= 1  # nobody is in two sums
        far = max(far, float(apart.max()))
    event = worlds[0][1].settings.event
    assert far == pytest.approx(2.0 * times, abs=2.0 * step)
    assert far <= float(event.sensitivity) + step  # rounding is paid for by the grid


def test_sets_of_costs_follow_from_released_sums():
    script = np.random.default_rng(0).normal(0.0, 1.0, size=40)
    shown = []
    for world in range(2):
        learner = BanditSubmodularMinimizer(5, 60, PURE, form="thompson", batch=2, seed=3)
        left, people = iter(script), np.random.default_rng(world)
        with mock.patch.object(CostTotal, "leave", lambda *_, left=left: next(left)):
            here = []
            for _ in range(60):
                here.append(learner.choose().items)
                learner.learn(people.uniform(-1.0, 1.0))
        shown.append(here)
    assert shown[0] == shown[1]
    assert len(set(shown[0])) > 5


@pytest.mark.parametrize("n_items", [5, 30, 310])
def test_beliefs_about_costs_find_a_cheap_set(n_items):
    """Costs that are sums of items' own, without noise: what is believed is what is so."""
    rng = np.random.default_rng(1)
    weights = rng.uniform(-1.0, 1.0, n_items) / n_items
    costs = SetCosts(n_items, 10**6, 0.0)
    assert (costs.best == 0.5).all()
    last = None
    for _ in range(80 if n_items < 100 else 3000):
        last = costs.suggest(rng, last)
        costs.observe(last, np.array([last @ weights]))
    cheapest = weights[weights < 0.0].sum()
    assert costs.best @ weights <= (0.999 if n_items < 100 else 0.7) * cheapest


def test_pairs_that_save_together_are_found():
    items, pairs = np.array([0.2, 0.3, 0.5]), np.zeros((3, 3))
    pairs[0, 1] = pairs[1, 0] = -1.0
    assert _descended(items, pairs, np.zeros(3)).tolist() == [0.0, 0.0, 0.0]
    assert _descended(items, pairs, np.array([1.0, 0.0, 1.0])).tolist() == [1.0, 1.0, 0.0]
    assert _descended(np.full(9, -1.0), np.zeros((9, 9)), np.zeros(9)).all()  # one after the other, all nine


def test_cheap_sets_are_served():
    people = cuts_and_prices(20_000, 6, np.random.default_rng(40))
    values = [people.value([i for i in range(6) if s >> i & 1]) for s in range(64)]
    learner = BanditSubmodularMinimizer(6, 20_000, dc.Budget(2.0), form="thompson", seed=0)
    paid = learner.run(people).costs[10_000:].mean()
    assert np.mean(values) - paid > 0.85 * (np.mean(values) - min(values))
    assert learner.certified_regret == trivial_cost(20_000)


# --- learning -------------------------------------------------------------------------------------------


def test_shows_what_is_worth_most():
    people = product_display(20_000, 10, np.random.default_rng(50))
    best = people.value(best_fixed_set(people, 2)[0])
    for options, share in (({}, 0.93), ({"feedback": "slots"}, 0.85)):
        trace = ThompsonSelector(10, 2, None, PURE, seed=0, **options).run(people)
        assert trace.rewards[10_000:].mean() / best > share, options


def test_forgetting_follows_tastes_that_drift():
    people = drifting(40_000, 8, np.random.default_rng(1))
    averages = [
        ThompsonSelector(8, 1, None, PURE, forget=forget, seed=0).run(people).average
        for forget in (0.0, 0.01)
    ]
    assert averages[1] > 1.3 * averages[0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"block": 0}, "block=0"),
        ({"forget": -0.1}, "forget=-0.1"),
        ({"forget": 1.5}, "forget=1.5"),
        ({"feedback": "clicks"}, "feedback='clicks'"),
        ({"bound": 0.0}, "bound=0"),
    ],
)
def test_what_cannot_be_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        ThompsonSelector(5, 2, None, PURE, **options)


def test_an_enormous_epsilon_keeps_sums_within_their_range():
    learner = ThompsonSelector(3, 1, None, dc.Budget(1e12), block=1000, seed=0)
    for _ in range(2000):
        learner.choose()
        learner.learn(1.0)
    values = np.array(learner._sum._values._values)
    assert values == pytest.approx(np.ones((2, 1)), rel=1e-6)


def test_blocks_begin_where_round_numbers_say():
    learner = ThompsonSelector(9, 2, None, PURE, block=5, seed=1)
    shown = []
    for t in range(40):
        shown.append(learner.choose().items)
        learner.learn((t % 3) / 2.0)
    assert all(len(set(shown[t : t + 5])) == 1 for t in range(0, 40, 5))


def test_beliefs_are_held_together_for_as_many_items_as_that_is_quick():
    def together(n_items, **options):
        return ThompsonSettings.tight(n_items, 2, None, PURE.share(), **options).together

    assert together(2)
    assert together(300)
    assert not together(301)
    assert not together(10, forget=0.1)
    assert not together(10, feedback="slots")


def test_what_is_believed_is_in_units_of_value():
    rows = (np.random.default_rng(0).random((400, 4)) < [0.2, 0.8, 0.4, 0.1]).astype(float)
    values = []
    for bound in (1.0, 4.0):
        learner = ThompsonSelector(4, 1, 400, FREE, block=10, bound=bound, seed=3)
        learner.run(dc.objectives.FacilityLocation(bound * rows, bound=bound))
        values.append(learner.released)
    assert values[1].values == pytest.approx(4 * values[0].values, nan_ok=True)
    assert values[1].deviations == pytest.approx(4 * values[0].deviations, nan_ok=True)
