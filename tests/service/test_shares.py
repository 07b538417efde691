"""Shares of people served: what charts and numbers make of released counts."""

from __future__ import annotations

import json
import math
from types import SimpleNamespace

import msgspec
import numpy as np
import pytest
from scipy import optimize

from discreet.planning import expected
from discreet.privacy import Gate
from discreet.service import learning as learning_module
from discreet.service import queries, shares
from discreet.service.config import ExperimentConfig, PopulationConfig
from discreet.service.learning import Forecast, Learning, detectable_lift, forecast, release_plan
from discreet.service.shares import (
    Estimate,
    Measure,
    Progress,
    blocks_of,
    first_block,
    lift_interval,
    min_detectable,
    next_block,
    series,
    share_interval,
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
    """They are wide: far fewer than the 5 % that are promised are wrong, so that few runs tell."""
    runs = 250
    every = list(looks(runs))
    assert len(every) > 10
    for side in (0, 1):
        found = [
            (share_interval(served[:, side], n[side], blocks, 4.0), truth[side])
            for served, n, truth, blocks in every
        ]
        assert ever_wrong(found, runs) <= 0.05
    found = [
        (lift_interval(served, n, blocks, 4.0, 0.2), truth[0] - truth[1])
        for served, n, truth, blocks in every
    ]
    assert ever_wrong(found, runs) <= 0.05
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
    runs, allowed = 100, 0.05 + 5 * math.sqrt(0.05 * 0.95 / 100)
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


def evidence(rates, terms):
    """The logarithm of the mean of supermartingales: counts, decisions and means, with a rate for each."""
    logs = []
    for rate in rates:
        found = 0.0
        for factor, count, decisions, mean, blocks, scale in terms:
            x = factor * rate
            found += x * count - decisions * math.log1p(mean * math.expm1(x))
            found += blocks * math.log1p(-((x * scale) ** 2))
        logs.append(found)
    return max(logs) + math.log(sum(math.exp(one - max(logs)) for one in logs) / len(logs))


def lowest(excess, low, high, error):
    """Where evidence, which falls, comes down to what is believed."""
    limit = math.log(1.0 / error)
    if excess(low) < limit:
        return low
    return optimize.brentq(lambda at: excess(at) - limit, low, high, xtol=1e-9)


def slow_share_low(count, decisions, blocks, scale, error):
    rates = [0.9 / max(scale, 0.5) / 2**halved for halved in range(12)]
    count -= 0.001 * blocks  # what rounding may have added

    def excess(mean):
        return evidence(rates, [(1.0, count, decisions, mean, blocks, scale)])

    return lowest(excess, 0.0, 1.0, error)


def slow_lift_low(counts, decisions, blocks, scale, holdout, rest, error):
    rates = [0.9 / max(scale, 0.5) / 2**halved for halved in range(12)]
    own, slack = holdout / (1.0 - holdout), 0.001 * blocks

    def excess(lift):
        def of(mean):
            learned = (own, counts[0] - slack, decisions[0], mean + lift, blocks, scale)
            return evidence(rates, [learned, (-1.0, counts[1] + slack, decisions[1], mean, blocks, scale)])

        means = max(rest[0], -lift), min(rest[1], 1.0 - lift)
        if means[0] >= means[1]:
            return of(means[0])
        return optimize.minimize_scalar(of, bounds=means, method="bounded", options={"xatol": 1e-9}).fun

    return lowest(excess, -rest[1] + 1e-12, 1.0 - rest[0] - 1e-12, error)


@pytest.mark.parametrize(
    ("counts", "decisions", "blocks", "scale", "holdout"),
    [
        ((2400.0, 300.0), (8000, 2000), 8, 3.0, 0.2),
        ((700.0, 610.0), (1000, 1000), 3, 0.2, 0.5),  # hardly any noise
        ((40.0, 9.0), (300, 30), 2, 2.0, 0.1),
        ((900.0, 480.0), (4500, 500), 5, 6.0, 0.1),  # worse than the hold-out
    ],
)
def test_intervals_are_those_of_their_definition(counts, decisions, blocks, scale, holdout):
    """One rate and one number at a time, and other searches."""

    def share(side, error):
        count, number = counts[side], decisions[side]
        low = slow_share_low(count, number, blocks, scale, error / 2)
        return low, 1.0 - slow_share_low(number - count, number, blocks, scale, error / 2)

    for side in (0, 1):
        found = share_interval(counts[side], decisions[side], blocks, scale)
        assert tuple(map(float, found)) == pytest.approx(share(side, 0.05), abs=3e-7)
    rest = share(1, 0.01)  # a fifth of the error; what is left is for both ends
    low = slow_lift_low(counts, decisions, blocks, scale, holdout, rest, 0.02)
    others = [n - c for n, c in zip(decisions, counts, strict=True)]
    turned = 1.0 - rest[1], 1.0 - rest[0]
    high = -slow_lift_low(others, decisions, blocks, scale, holdout, turned, 0.02)
    found = lift_interval(counts, decisions, blocks, scale, holdout)
    assert tuple(map(float, found)) == pytest.approx((low, high), abs=2e-6)


@pytest.mark.parametrize(
    ("people", "scale", "holdout", "segments"), [(20_000, 5.0, 0.2, 1), (9000, 2.0, 0.3, 3)]
)
def test_the_minimum_detectable_lift_by_its_formula(people, scale, holdout, segments):
    """Half of an interval around one half, and 0.84 deviations of chance and noise."""
    n = people * (1 - holdout), people * holdout
    blocks, before = 0, 0
    while (before := before + max(30 * scale, math.ceil(before / 2))) <= people // segments:
        blocks += segments
    high = float(lift_interval([n[0] / 2, n[1] / 2], n, blocks, scale, holdout)[1])
    variance = sum(1 / (4 * one) + 2 * scale**2 * blocks / one**2 for one in n)
    found = min_detectable(people, scale=scale, holdout=holdout, segments=segments)
    assert float(found) == pytest.approx(high + 0.841621 * math.sqrt(variance))
    assert float(min_detectable(300, scale=10.0, holdout=0.05)) == 1.0  # one block: mostly noise


def test_sizes_of_blocks_of_shares():
    """Thirty times the noise, and half of all before: 30, 30, 30, 45, 68, 102."""
    assert [first_block(one) for one in (0.0, 0.01, 1.0, 1.01)] == [1, 1, 30, 31]
    assert [next_block(30, before) for before in (0, 30, 60, 90, 135, 203)] == [30, 30, 30, 45, 68, 102]
    assert [blocks_of(30, decisions) for decisions in (29, 30, 134, 135, 202, 203)] == [0, 1, 3, 4, 4, 5]


def test_counts_leave_in_their_blocks_with_the_noise_of_their_share():
    """A gate that draws no noise: an epsilon of 4, a half of which is the experiment's, and 0.25 of that."""
    config = ExperimentConfig(
        items=["a"], k=1, feedback="bandit", share=0.5, measure=0.25, segments=["x", "y"]
    )
    measure = Measure.of(config, Gate(PURE.budget, 1))
    assert measure.deviation == pytest.approx(math.sqrt(2) * 2)
    assert measure.every == 60
    measure._total.noisy = lambda counts: counts
    for number in range(60):
        measure.count("x", number % 3 == 0, 1.0 if number % 2 else 0.25)
        measure.count("y", False, 0.0)
        measure.release("x")
    assert measure.taken("y") == []
    (block,) = measure.taken("x")
    # Of 40 and of 20 decisions half are odd: 20 + 20/4 and 10 + 10/4.
    assert block == {"decisions": [40, 20], "served": [25.0, 12.5], "deviation": round(math.sqrt(8), 3)}
    assert measure.state()["x"] == [[0, 0], [0, 0], 60]
    assert measure.state()["y"] == [[0, 0], [60, 0], 0]


def test_points_that_are_drawn():
    """Epochs are apart, the last point is there, and what is wider than 30 points is not."""
    progress = Progress(0.2)
    assert progress.last is None
    one = ((8000, 2000), (4000.0, 1000.0))
    progress.add([release(seq, one, epoch=seq // 4) for seq in range(1, 8)])
    assert [point.at for point in progress.thinned(3)] == [100.0, 400.0, 700.0]
    assert [point.at for point in progress.thinned(7)] == [100.0 * seq for seq in range(1, 8)]
    found = series(progress.points)
    assert found["at"] == [100.0, 200.0, 300.0, 350.0, 400.0, 500.0, 600.0, 700.0]
    assert found["decisions"][:5] == [10_000.0, 20_000.0, 30_000.0, None, 10_000.0]
    assert all(len(column) == 8 and (column[3] is None) == (name != "at") for name, column in found.items())
    assert [Estimate(0.5, low, high).known for low, high in ((0.0, 0.3), (0.5, 0.81), (-0.2, 0.05))] == [
        *(True, False, True)
    ]
    assert Progress(0.2)._epoch == -1
    noisier = release(8, one, epoch=1)
    noisier["shares"][0]["deviation"] = 1.0
    progress.add([noisier])
    assert progress.last.scale == pytest.approx((3.0 + 5e-4) / math.sqrt(2), rel=1e-12)  # the largest


def test_the_minimum_detectable_lift_is_seen_four_times_in_five():
    """A lift as large as the plan says is significant in four of five experiments, and half of it is not."""
    scale, holdout, people, runs = 1 / 0.3, 0.2, 10_000, 400
    visible = float(min_detectable(people, scale=scale, holdout=holdout))
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
    config = ExperimentConfig(items=list("abcdef"), k=2, feedback="slots")
    found = detectable_lift(config, PopulationConfig(epsilon=1.0), 10_000)
    assert found.smallest < 0.1  # the defaults have power
    grid = dict(found.rows)
    assert grid[0.2][found.measures.index(0.3)] == pytest.approx(found.smallest)
    assert grid[0.05][0] > 0.3  # and those of the first release had none
    # Laplace noise for a half of epsilon, and three tenths of that.
    by_hand = min_detectable(10_000, scale=1 / (0.5 * 0.3), holdout=0.2)
    assert found.smallest == pytest.approx(float(by_hand))
    assert (found.measures, [*grid]) == ((0.1, 0.2, 0.3, 0.5), [0.05, 0.1, 0.2, 0.5])
    scales, held = np.array([1 / (0.5 * one) for one in found.measures]), np.array([[one] for one in grid])
    assert np.array([*grid.values()]) == pytest.approx(min_detectable(10_000, scale=scales, holdout=held))
    assert all(column == sorted(column, reverse=True) for column in np.transpose([*grid.values()]).tolist())
    assert detectable_lift(config, PopulationConfig(epsilon=1.0), 50).smallest == 1.0
    assert (
        detectable_lift(msgspec.structs.replace(config, holdout=0.0), PopulationConfig(epsilon=1.0), 100)
        is None
    )


# --- a set of one's own to compare with -----------------------------------------------------------------


def test_the_hold_out_shows_the_control_set():
    config = ExperimentConfig(items=list("abcdef"), k=2, feedback="slots", control=["d", "b"], holdout=0.5)
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
    config = ExperimentConfig(items=list("abcdef"), k=2, feedback="slots", **more)
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


@pytest.mark.parametrize("feedback", ["full", "slots", "bandit"])
def test_the_outlook_is_what_happens(feedback):
    """Shares leave after as many decisions as was said, and with that noise."""
    likes = feedback == "full"
    people = PopulationConfig(
        epsilon=4.0, delta=1e-6 if likes else 0.0, definition="gdp" if likes else "pure"
    )
    config = ExperimentConfig(items=list("abcdef"), k=2, feedback=feedback, block_size=8)
    said = release_plan(config, people)
    learning = Learning.begin(config, Gate(people.budget, 1, definition=people.definition))
    if not likes:  # Laplace noise for 4 x .5 x .7; another answer moves two counts of slots, or one value
        assert said.noise == pytest.approx(math.sqrt(2) * (2 if feedback == "slots" else 1) / 1.4)
    sequence = learned = 0
    first_share = first_value = None
    while first_share is None or first_value is None:
        block = learning.allocate(1, 0, sequence, 8, b"")
        block.served = 8
        body = {"full": ["a"], "slots": "a", "bandit": 0.5}[feedback]
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


def test_a_forecast_is_of_values_up_to_one_and_of_a_segments_people(monkeypatch):
    asked = []

    class Enough(Exception):
        pass

    def begun(config, *_):
        asked.append(config)
        raise Enough

    def size(visitors, n_items, k):
        asked.append(visitors)
        return plain(visitors, n_items, k)

    plain = expected.Size.of
    monkeypatch.setattr(expected.Size, "of", size)
    monkeypatch.setattr(learning_module, "_begun", begun)
    config = ExperimentConfig(items=list("abcdef"), k=2, feedback="bandit", bound=8.0, segments=["x", "y"])
    for visitors, each in ((1001, 500), (1, 1)):
        asked.clear()
        with pytest.raises(Enough):
            forecast(config, PopulationConfig(epsilon=1.0), visitors)
        assert asked[0] == each
        assert asked[1].bound == 1.0


@pytest.mark.parametrize(("learned", "hopeless"), [(0.45, True), (0.47, False)])
def test_less_than_a_tenth_of_the_way_is_hopeless(learned, hopeless):
    """From random sets, 0.4, to the best, 1: a tenth of the way is 0.06."""
    shares = (SimpleNamespace(share=one) for one in (learned, 0.4))
    assert Forecast(*shares, 100).hopeless == hopeless


def test_a_forecast_beats_chance_and_is_remembered():
    people = PopulationConfig(epsilon=4.0)
    config = ExperimentConfig(items=[str(item) for item in range(30)], k=3, feedback="slots")
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
