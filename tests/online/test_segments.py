"""One learner for each value of a public attribute: one account, one limit per person, shared releases."""

import itertools
import statistics
import warnings
from dataclasses import replace
from functools import partial
from unittest import mock

import numpy as np
import pytest

import discreet as dc
from discreet.objectives import Coverage, SetFunction
from discreet.online import (
    HedgeSelector,
    LeaderSelector,
    PhasedSelector,
    RunningSumSelector,
    Segments,
    ThompsonSelector,
    released,
)
from discreet.online import segments as module
from discreet.online.people import ContributionLimit
from discreet.online.released import Evidence, Pooled, Released, SegmentPool, shrunk
from discreet.online.segments import RoundNumbers, SharedLimit, joined, pieces
from discreet.online.sums import PrivateTotal
from discreet.privacy.prefix_sum import FactorizedSum
from tests.online.learners import SELECTORS
from tests.privacy.audit import hockey_stick, transcripts
from tests.refusals import refused
from tests.states import content

BUDGET = dc.Budget(1.0, 1e-6)
VALUES = ["de", "fr", "it"]
LEADER = partial(LeaderSelector, 12, 2, None, first_batch=4)
SUMS = partial(RunningSumSelector, 12, 2, None, weights="norm", first_batch=4)
# Settings that need more than a budget, or count all rounds of a person together, have no disjoint groups.
WHOLE = [name for name in SELECTORS if "published" in name or "min_separation" in name]


def _likes(count, n_items=12, seed=0):
    rng = np.random.default_rng(seed)
    return (rng.random((count, n_items)) < np.linspace(0.5, 0.05, n_items)).astype(float)


def _crowd(count, n_items=12, seed=0):
    return Coverage(_likes(count, n_items, seed))


def _spending(setting):
    """What makes the learner of a setting out of what it may spend; the seed is its gate's."""
    return lambda share: setting.make(seed=None, budget=share)


# --- the same as one learner ------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in SELECTORS if name not in WHOLE])
def test_a_segment_is_a_learner(name):
    """Without sharing, a segment shows what a learner of its own would, and each costs what one does."""
    setting = SELECTORS[name]
    budget = setting.make().budget
    shop = Segments(_spending(setting), ["de", "fr"], budget, share=False, seed=5)
    root = dc.Gate(budget, 5)
    root.key()
    seeds = [int.from_bytes(root.key(1)) >> 1 for _ in shop.values]
    lone = [setting.make(seed=seed, budget=budget) for seed in seeds]
    people, rng = setting.people(30), np.random.default_rng(2)
    for person in people:
        which = int(rng.integers(2))
        shown, same = shop.choose(shop.values[which]), lone[which].choose()
        assert shown.items == same.items
        heard = setting.feedback(lone[which], person, same)
        shop.learn(heard)
        lone[which].learn(heard)
    assert shop.round == 30
    for account, other in ((shop.privacy, lone[0].privacy), (shop.privacy.spent, lone[0].privacy.spent)):
        assert account.epsilon(budget.delta) == pytest.approx(other.epsilon(budget.delta), rel=1e-9)
        assert account.epsilon(budget.delta) <= budget.epsilon
    assert len(shop.privacy.ledger.parts) == 2 * (shop.privacy.epsilon(budget.delta) > 0)
    assert "taken to be public" in str(shop.privacy)


@pytest.mark.parametrize("name", [name for name in SELECTORS if name not in WHOLE])
def test_any_order_of_calls(name, tmp_path):
    """Sets hold what is available, a round is learned at most once, no more is spent than was said."""
    setting, rng = SELECTORS[name], np.random.default_rng(0)
    budget = setting.make().budget
    shop = Segments(_spending(setting), VALUES[:2], budget, other="rest", seed=0)
    whole = shop.privacy.epsilon(budget.delta)
    waits, gone, active, used = {}, [], set(range(shop.n_items)), set()
    for _ in range(40):
        action = rng.choice(["choose"] * 4 + ["learn"] * 3 + ["expire", "skip", "retire", "back", "save"])
        if action == "choose":
            segment = str(rng.choice([*VALUES, "nowhere"]))
            shown = shop.choose(segment, wait=False)
            assert set(shown.items) <= active
            if not shop._learners[shop._index(segment)].over:
                assert shown.round not in used
                used.add(shown.round)
                waits[shown.round] = segment, shown
        elif action == "learn" and waits:
            late = int(rng.choice(list(waits)))
            segment, shown = waits.pop(late)
            learner = shop._learners[shop._index(segment)]
            shop.learn(setting.feedback(learner, setting.people(3)[late % 3], shown), round=late)
            with pytest.raises(ValueError, match="has been counted"):
                shop.learn(setting.feedback(learner, setting.people(1)[0], shown), round=late)
        elif action == "skip" and waits:
            late = int(rng.choice(list(waits)))
            shop.skip([late])
            waits.pop(late)
            with pytest.raises(ValueError, match="waits for no feedback"):
                shop.skip([late])
        elif action == "expire":
            before = max(waits, default=0)
            expired = set(shop.pending) - {late for late in waits if late >= before}
            assert shop.expire(before) == len(expired)
            waits = {late: one for late, one in waits.items() if late not in expired}
        elif action == "retire" and len(active) > 4:
            gone.append(active.pop())
            shop.retire_items([gone[-1]])
        elif action == "back" and gone:
            active.add(gone[-1])
            shop.add_items([gone.pop()])
        elif action == "save" and "phased" not in name:
            shop.save(tmp_path / "state")
            shop = dc.load(tmp_path / "state")
        assert set(shop.pending) <= set(waits)
        assert shop.privacy.spent.epsilon(budget.delta) <= whole <= budget.epsilon


@pytest.mark.parametrize("share", [True, False])
@pytest.mark.parametrize("make", [LEADER, SUMS], ids=["leader", "sums"])
def test_one_segment_at_a_time_is_the_same(make, share):
    """Stretches of people of one segment, in one learner's compiled loop, with sets that stand or not."""
    one, other = (Segments(make, VALUES, BUDGET, by="country", share=share, seed=3) for _ in range(2))
    people, rng, start, news = _crowd(400), np.random.default_rng(1), 0, 0
    while start < 400:
        value, stop = str(rng.choice(VALUES)), min(400, start + int(rng.integers(1, 20)))
        early = str(rng.choice(VALUES))
        assert one.of(early).choose().items == other.choose(early).items
        pool = one._learners[VALUES.index(value)]._pool
        news += pool is not None and pool.news
        one.of(value).run(people[start:stop])
        other.run(people[start:stop], [value] * (stop - start))
        assert one.of(value).ranking(3) == other.of(value).ranking(3)
        start = stop
    assert share == (news > 5)
    assert one.round == other.round
    assert [one.of(value).round for value in VALUES] == [other.of(value).round for value in VALUES]
    for value in VALUES:
        assert one.choose(value).items == other.choose(value).items
        assert one.of(value).released.items == other.released[value].items
    assert content(one.to_bytes()) == content(other.to_bytes())


@pytest.mark.parametrize("make", [LEADER, SUMS], ids=["leader", "sums"])
def test_a_saved_shop_goes_on_alike(make, tmp_path):
    shop = Segments(make, VALUES, BUDGET, by="country", share=True, seed=3)
    people, rng = _crowd(120), np.random.default_rng(1)
    where = rng.choice(VALUES, 120)
    shop.run(people[:61], where[:61])
    late = shop.choose("fr", wait=False)
    shop.choose("fr", wait=False)
    again = dc.load(shop.to_bytes())
    shop.save(tmp_path / "state")
    third = dc.load(tmp_path / "state")
    assert again.pending == shop.pending == (late.round,)
    for one in (shop, again, third):
        one.learn(items=[1], round=late.round)
    sets = [one.run(people[61:], where[61:]).selections for one in (shop, again, third)]
    assert (sets[0] == sets[1]).all()
    assert (sets[0] == sets[2]).all()
    assert again.privacy.to_json() == shop.privacy.to_json()
    assert str(again.privacy.spent) == str(shop.privacy.spent)
    with pytest.raises(ValueError, match="holds a"):
        Segments.load(LeaderSelector(3, 1, None, BUDGET, seed=1).to_bytes())


@pytest.mark.parametrize("kind", ["likes", "taken"])
def test_pieces_that_were_written_last_are_the_whole(kind, monkeypatch):
    """Whatever happens between two writes, in whichever segments, and also when old rounds expire."""
    monkeypatch.setattr(module, "MOST_OPEN", 12)
    budget = BUDGET if kind == "likes" else dc.Budget(1.0)
    make = LEADER if kind == "likes" else partial(ThompsonSelector, 12, 2, None, feedback="slots")
    gate = dc.Gate(budget, 3, definition="zcdp" if kind == "likes" else "pure")
    shop, rng, written, few = Segments(make, VALUES, gate, by="country"), np.random.default_rng(0), {}, 0
    gate_state, open_rounds, gone = gate.state(), [], False
    for _ in range(60):
        for _ in range(int(rng.integers(1, 4))):
            value, what = str(rng.choice(VALUES)), rng.random()
            if what < 0.5:
                open_rounds.append(shop.choose(value, wait=False).round)
            elif what < 0.9 and (waiting := sorted(set(open_rounds) & set(shop.pending))):
                late = int(rng.choice(waiting))
                if rng.random() < 0.5:
                    shop.skip([late])
                elif kind == "likes":
                    shop.learn(items=[1], round=late)
                else:
                    shop.learn(None, round=late)
            elif what >= 0.9:
                (shop.add_items if gone else shop.retire_items)([11])
                gone = not gone
        found = pieces(shop)
        few += len(found) < 4
        written |= found
        again = joined(written, dc.Gate.from_state(gate_state))
        assert content(again.to_bytes()) == content(shop.to_bytes())
    assert few > 20


def test_finished_segments_learn_nothing_also_when_they_are_read_from_pieces():
    make = partial(ThompsonSelector, 3, 1, None, block=2)
    gate = dc.Gate(dc.Budget(1.0), 3, definition="pure")
    shop = Segments(make, VALUES, gate, by="country")
    gate_state, written = gate.state(), pieces(shop)
    waiting = [shop.choose(VALUES[0], wait=False).round for _ in range(3)]
    written |= pieces(shop)
    shop.finish()
    written |= pieces(shop)
    again = joined(written, dc.Gate.from_state(gate_state))
    for one in (shop, again):
        assert one.pending == ()
        with pytest.raises(ValueError, match="has been counted, or has expired"):
            one.learn(1.0, round=waiting[0])
        assert all(one.of(value)._learner.over for value in VALUES)


def test_what_an_interrupted_call_has_drawn_is_in_the_pieces_that_are_written_next():
    """Without it the sum of a batch would be released again, with other noise, where they are read."""
    gate = dc.Gate(BUDGET, definition="gdp")
    make = partial(LeaderSelector, 4, 2, None, first_batch=8)
    shop = Segments(make, VALUES, gate, by="country")
    for _ in range(8):
        shop.choose("de")
        shop.learn(items=[1, 3])
    written = pieces(shop)
    stopped = mock.patch.object(LeaderSelector, "_fitted", side_effect=KeyboardInterrupt)
    with stopped, pytest.raises(KeyboardInterrupt):
        shop.choose("de", include=[0, 1])
    known = shop.released["de"].values
    again = joined(written | pieces(shop), dc.Gate.from_state(gate.state()))
    again.choose("de")
    assert known is not None
    np.testing.assert_array_equal(again.released["de"].values, known)


def test_a_choice_that_is_refused_uses_up_no_round():
    one_of_each = dc.constraints.PartitionMatroid([[0, 1], [2, 3]], 1)
    shop = Segments(partial(LeaderSelector, 4, 2, None, constraint=one_of_each), VALUES, BUDGET, seed=0)
    first = shop.choose("de").round
    with pytest.raises(ValueError, match="does not allow together"):
        shop.choose("de", wait=False, include=[0, 1])
    assert shop.of("de").round == 0
    assert shop.choose("de").round == first
    assert shop.pending == ()


@pytest.mark.parametrize("late", [False, True])
def test_an_interrupted_round_waits_for_nothing(late):
    """Its learner has counted it: nobody is told that its feedback may still come."""
    shop = Segments(LEADER, VALUES, BUDGET, by="country", seed=0)
    first = shop.choose("de", wait=False).round
    if late:
        shop.choose("de", wait=False)
    stopped = mock.patch.object(LeaderSelector, "_observe", side_effect=KeyboardInterrupt)
    with stopped, pytest.raises(KeyboardInterrupt):
        shop.learn(items=[3], round=first)
    assert not shop.of("de").waits_for(first)
    assert first not in shop.pending


def test_new_items_and_a_new_month():
    shop = Segments(LEADER, ["de", "fr"], BUDGET, seed=1)
    shop.run(_crowd(60), ["de", "fr"] * 30)
    shop.add_items([12])
    shop.retire_items([0])
    for which in ("de", "fr", "de", "fr"):
        assert 0 not in shop.choose(which, wait=False)
    assert shop.n_items == 13
    wider = partial(LeaderSelector, 13, 2, None, first_batch=4)
    after = Segments(wider, ["de", "it"], BUDGET, start=shop, seed=2)
    assert after.released["de"].people == shop.released["de"].people > 0 == after.released["it"].people
    assert after.choose("it").items  # by what is known of "de"
    with pytest.raises(TypeError, match="start must be segments"):
        Segments(LEADER, ["de"], BUDGET, start=shop.released["de"])


# --- one limit, one account -------------------------------------------------------------------------


def test_rounds_of_a_person_count_together():
    budget = dc.Budget(1.0, 1e-6, max_rounds_per_person=2)
    shop = Segments(partial(LeaderSelector, 3, 1, None, first_batch=50), VALUES, budget, seed=0)
    for value in [*VALUES, "de"]:
        shop.choose(value)
        shop.learn(items=[1], person_id="ann")
    sums = [int(learner._sum.pending[1]) > 0 for learner in shop._learners]
    assert sums == [True, True, False]  # the third and the fourth round passed unlearned
    again = dc.load(shop.to_bytes())
    again.choose("it")
    again.learn(items=[1], person_id="ann")
    assert not again._learners[2]._sum.pending.any()


EPSILON = 0.5


def _answers(likes, most):
    """What three rounds of somebody, one in each segment, and others in between leave in the open."""
    budget = dc.Budget(EPSILON, max_rounds_per_person=most)

    def program(gate):
        shop = Segments(
            partial(PhasedSelector, 2, 1, window=1, method="composed"), VALUES, gate, by="country"
        )
        for value, like in zip(VALUES, likes, strict=True):
            shop.choose(value)
            shop.learn(items=[like], person_id="ann")
            shop.choose(value)
            shop.learn(items=[1], person_id="bob")

    return transcripts(program, budget)


def _loss_of_a_person(most):
    """Delta beyond epsilon between everything that two lives of one person leave in the open."""
    return max(
        hockey_stick(_answers((0, 0, 0), most), _answers(other, most), EPSILON)
        for other in itertools.product((0, 1), repeat=3)
    )


@pytest.mark.parametrize("most", [1, 2])
def test_a_person_in_three_segments_is_within_the_budget(most):
    """Every transcript of choices is enumerated, for somebody who changes in all three segments."""
    assert _loss_of_a_person(most) <= 1e-12


def test_a_limit_for_each_segment_would_break_it():
    """The fault: everybody is counted by each learner alone."""
    with mock.patch.object(SharedLimit, "register", lambda self, person: self._own.register(person)):
        assert _loss_of_a_person(1) > 1e-3


def _summed(likes, where, leak):
    """What enters each release of each segment, where what leaves was settled before: a transcript.

    The fault ``leak``: segments are told the true sums of the others.
    """
    shop = Segments(LEADER, VALUES, BUDGET, seed=1)
    owner = {id(learner._sum.sum): index for index, learner in enumerate(shop._learners)}
    found, true = [], np.zeros((3, 12))

    def add(total, amounts, real=FactorizedSum.add):
        real(total, amounts)
        index = owner[id(total)]
        found.append((index, total.taken, amounts))
        true[index] += amounts
        return np.random.default_rng([index, total.taken]).normal(2.0, 3.0, amounts.size)

    def evidence(total, rounds, k, unit=1.0, real=PrivateTotal.evidence):
        told = real(total, rounds, k, unit)
        return replace(told, means=true[owner[id(total.sum)]] / rounds) if leak and told else told

    with (
        mock.patch.object(FactorizedSum, "add", add),
        mock.patch.object(PrivateTotal, "evidence", evidence),
    ):
        sets = shop.run(Coverage(likes), where).selections
    return found, sets


def _touched(leak):
    """Which sums differ between neighbours, given all that was released before, and by how much."""
    where = np.random.default_rng(4).choice(VALUES, 90)
    likes, other = _likes(90), _likes(90)
    other[7] = 1.0 - other[7]
    (first, sets), (second, others) = _summed(likes, where, leak), _summed(other, where, leak)
    assert [one[:2] for one in first] == [one[:2] for one in second]
    differ = [np.linalg.norm(a[2] - b[2]) for a, b in zip(first, second, strict=True)]
    return [first[i][0] for i in np.flatnonzero(differ)], max(differ), (sets == others).all(), where[7]


def test_sharing_looks_at_releases_only():
    """Given the same releases, neighbours differ in one sum of one segment, by what was paid for."""
    touched, most, alike, where = _touched(leak=False)
    assert touched == [VALUES.index(where)]
    assert 0.0 < most <= np.sqrt(2.0) + 1e-9
    assert alike


def test_sharing_true_sums_is_noticed():
    touched, _, alike, _ = _touched(leak=True)
    assert len(touched) > 1
    assert not alike


# --- sharing ----------------------------------------------------------------------------------------


def _evidence(values, people, noise, rng):
    noisy = values + noise / people * rng.standard_normal(values.size)
    return Evidence(noisy, np.full(values.size, float(people)), noise, 1.0)


def test_shrinkage_follows_agreement():
    """Segments that are alike are pooled, those that have nothing in common are left alone."""
    rng = np.random.default_rng(0)
    tastes = rng.gamma(0.5, 0.1, (6, 400))
    for alike in (True, False):
        evidence = [_evidence(tastes[0 if alike else s], 1000, 30.0, rng) for s in range(6)]
        truth = tastes[0 if alike else 2]
        pooled, worth = shrunk(evidence, 2)
        errors = [np.mean((guess - truth) ** 2) for guess in (pooled, evidence[2].means)]
        assert errors[0] < errors[1] * (0.35 if alike else 1.0)
        assert worth > 4000 if alike else worth < 2500
        unknown, _ = shrunk([one for s, one in enumerate(evidence) if s != 2], None)
        assert (np.corrcoef(unknown, truth)[0, 1] > 0.9) == alike
    alone, worth = shrunk(evidence[:1], 0)
    assert (alone == evidence[0].means).all()
    assert worth == 1000
    two = Evidence(np.stack([evidence[0].means] * 2), evidence[0].people, 30.0, 1.0)
    assert np.allclose(shrunk([two, two], 0)[0], shrunk([evidence[0]] * 2, 0)[0])


@pytest.mark.parametrize("shift", [0.0, -1.0, 3.0])
def test_pooled_averages_are_those_of_a_gaussian_vector(shift, monkeypatch):
    """What is known of a segment, given what all have released, by the conditional mean of the whole vector;
    the variance among people is the average, from one person's to 1."""
    common, apart, unit = 0.03, 0.01, 2.0
    monkeypatch.setattr(released, "_variances", lambda *_: (common, apart))
    means = np.array([[0.1, 0.5], [0.2, 0.3], [0.6, 0.35]]) + shift
    people, noise = np.array([[100.0, 60.0], [400.0, 400.0], [50.0, 50.0]]), np.array([3.0, 5.0, 0.5])
    units = (1.0, unit, 1.0)  # the largest counts
    evidence = [Evidence(unit * means[s], people[s], unit * noise[s], units[s]) for s in range(3)]
    counts = (100, 400, 50)
    middle = sum(count * mean / 550 for count, row in zip(counts, means, strict=True) for mean in row / 2)
    spread = {0.0: middle, -1.0: 1 / 550, 3.0: 1.0}[shift]
    vary = common + apart * np.eye(3)
    for own in (0, 1, 2, None):
        found, worth = shrunk(evidence, own)
        others, factors = [s for s in range(3) if s != own], []
        for item in range(2):
            errors = [(noise[s] / people[s, item]) ** 2 + spread / people[s, item] for s in range(3)]
            with_own = np.full(3, common) if own is None else vary[own]
            moved = np.linalg.solve(vary + np.diag(errors), means[:, item] - middle)
            assert found[item] == pytest.approx(unit * (middle + with_own @ moved))
            factors.append(1 / (1 + sum(apart / (errors[s] + apart) for s in others)))
        own_people = 0 if own is None else counts[own]
        assert worth == pytest.approx(own_people + sum(counts[s] for s in others) * sum(factors) / 2)


def test_variances_of_segments_are_told_from_those_of_noise():
    rng = np.random.default_rng(2)
    errors = np.array([0.02, 0.06, 0.01, 0.09])[:, None] * np.ones(60_000)
    truth = np.sqrt(0.03) * rng.standard_normal(60_000) + np.sqrt(0.01) * rng.standard_normal((4, 60_000))
    found = released._variances(truth + np.sqrt(errors) * rng.standard_normal(errors.shape), errors)
    assert found == (pytest.approx(0.03, rel=0.03), pytest.approx(0.01, rel=0.1))
    # Of a few items little is known: the correlation is drawn towards 0.9, by one standard error.
    for rows, noise in (
        ([(0.1, 0.5, 0.4), (0.2, 0.4, 0.1), (0.3, 0.9, 0.2)], (0.01, 0.005, 0.02)),
        ([(0.1, 0.5), (0.5, 0.1)], (0.01, 0.02)),  # they contradict each other
        ([(0.1, 0.2), (0.1, 0.2)], (0.01, 0.02)),  # all that they differ by is noise
    ):
        signal, pairs = 0.0, list(itertools.combinations(range(len(rows)), 2))
        for _ in range(3):
            sure = [1 / (signal + one) for one in noise]
            excess = [statistics.variance(row) - error for row, error in zip(rows, noise, strict=True)]
            signal = max(0.0, np.dot(np.square(sure), excess) / np.dot(sure, sure))
        known = sum(sure[a] * sure[b] for a, b in pairs)
        shared = sum(sure[a] * sure[b] * statistics.covariance(rows[a], rows[b]) for a, b in pairs) / known
        signal = max(signal, shared)
        weight = len(rows[0]) * known * signal**2
        correlation = max(0.0, (shared / signal * weight + 0.9) / (weight + 1))
        errors = np.array(noise)[:, None] * np.ones(len(rows[0]))
        expected = pytest.approx((correlation * signal, (1 - correlation) * signal))
        assert released._variances(np.array(rows), errors) == expected
    for shape in ((1, 5), (5, 1)):
        assert released._variances(np.ones(shape), np.ones(shape)) == pytest.approx((9e-13, 1e-13), abs=1e-20)


def test_what_others_release_is_news_once_it_is_about_a_tenth_more_people():
    pool = SegmentPool([None] * 3, [0] * 3)
    one, two, three = (Pooled(pool, s) for s in range(3))
    assert one.look() is None
    assert not one.news
    rows = [Evidence(np.array(values), np.full(2, 50.0), 0.0, 1.0) for values in ((0.1, 0.2), (0.4, 0.3))]
    one.publish(rows[0], 40)
    assert not one.news
    two.publish(rows[1], 60)
    three.publish(None, 40)
    means, worth = shrunk(rows, 0)
    assert one.look() == pytest.approx(means * worth)
    means, worth = shrunk(rows, None)
    assert three.look() == pytest.approx(means * worth)
    two.publish(rows[1], 70)  # of 100 people there are 110
    assert not one.news
    two.publish(rows[1], 71)
    assert one.news
    start = Released((0,), 2, None, np.array([0.5, 1.0]), 100, np.ones(2))
    LeaderSelector(2, 1, None, BUDGET, bound=4.0, start=start, seed=0)._sum.publish(three)
    assert pool.evidence[2].means == pytest.approx([0.125, 0.25])
    assert pool.evidence[2].unit == 1.0


def test_a_small_segment_is_served_by_what_others_released():
    where = np.tile(["de"] * 29 + ["fr"], 60)
    people = Coverage((np.random.default_rng(3).random((1800, 60)) < [0.4] * 2 + [0.02] * 58).astype(float))
    served = {}
    for share in (True, False):
        shop = Segments(partial(LeaderSelector, 60, 2, None), ["de", "fr"], BUDGET, share=share, seed=0)
        served[share] = shop.run(people, where).rewards[where == "fr"].mean()
    assert served[True] > served[False] + 0.3


@pytest.mark.parametrize("kind", [HedgeSelector, ThompsonSelector])
def test_what_cannot_be_shared(kind):
    make = partial(kind, 4, 1, 50)
    assert not Segments(make, VALUES, BUDGET).share
    with pytest.raises(ValueError, match="releases no sums"):
        Segments(make, VALUES, BUDGET, share=True)
    assert Segments(LEADER, VALUES, BUDGET).share
    assert not Segments(SUMS, VALUES, BUDGET).share


# --- refusals ---------------------------------------------------------------------------------------


def test_segments_that_are_not_known():
    shop = Segments(LEADER, ["de", 1, True][:2], BUDGET)
    for unknown in ("at", None, ["de"], True):
        # Whose segment it is may be the one thing known of a person: it stays out of logs.
        with refused(r"^segment is none of 'de', 1; make Segments with other=", "^segment="):
            shop.choose(unknown)
    assert shop.round == 0
    assert Segments(LEADER, ["de"], BUDGET, other="de").choose("at").round == 0
    for values in ([], ["de", "de"], "de", [None], [1, True]):
        with pytest.raises((ValueError, TypeError)):
            Segments(LEADER, values, BUDGET)


def test_which_round_feedback_is_about():
    shop = Segments(LEADER, VALUES, BUDGET, seed=0)
    with pytest.raises(RuntimeError, match="comes after choose"):
        shop.learn(items=[1])
    first, second = shop.choose("de"), shop.choose("fr")
    assert shop.choose("de").round == first.round == 0
    with pytest.raises(ValueError, match="several rounds"):
        shop.learn(items=[1])
    with pytest.raises(ValueError, match="was chosen for segment 'fr'"):
        shop.learn(items=[1], segment="de", round=second.round)
    with pytest.raises(ValueError, match="has not been chosen for"):
        shop.learn(items=[1], round=2)
    shop.learn(items=[1], segment="fr")
    shop.learn(items=[1])
    with pytest.raises(RuntimeError, match="comes after choose"):
        shop.learn(items=[1], segment="fr")
    last = shop.choose("it").round
    for wrong in ([last, last], [first.round], [9]):
        with pytest.raises(ValueError, match="waits for no feedback"):
            shop.skip(wrong)
    shop.skip([last])
    assert RoundNumbers(1).number(0, 1) == 0  # a learner whose first round here is its second


def test_the_horizon_of_a_segment():
    """Beyond it the last set is served on under a number of its own, and nothing is learned."""
    shop = Segments(partial(HedgeSelector, 3, 1, 2), ["de", "fr"], BUDGET, seed=0)
    trace = shop.run(_crowd(6, 3), ["de"] * 5 + ["fr"])
    assert len(trace) == 6
    assert shop.round == 4  # two, one for all that came later, and one of "fr"
    shown = shop.choose("de", wait=False)
    with pytest.raises(ValueError, match="has been counted"):
        shop.learn(items=[1], round=shown.round)
    with pytest.raises(RuntimeError, match="horizon"):
        shop.learn(items=[1], segment="de")


def test_the_oldest_rounds_expire(monkeypatch):
    monkeypatch.setattr(module, "MOST_OPEN", 3)
    shop = Segments(LEADER, VALUES, BUDGET, seed=0)
    for value in ["it", *["de"] * 5]:
        shop.choose(value, wait=False)
    assert shop.pending == (4,)  # beside the open ones: of "it", after which nobody came, and the latest
    assert shop._learners[0].pending == (3,)


def test_learners_that_are_no_segments():
    with pytest.raises(TypeError, match="make must be a function"):
        Segments("leader", VALUES, BUDGET)
    with pytest.raises(TypeError, match="shows sets"):
        Segments(lambda _: 3, VALUES, BUDGET)
    with pytest.raises(ValueError, match="budget it is given"):
        Segments(lambda _: LEADER(BUDGET), VALUES, BUDGET)
    rounds = itertools.count(50)
    with pytest.raises(ValueError, match="same settings"):
        Segments(lambda share: HedgeSelector(3, 1, next(rounds), share), VALUES, BUDGET)
    with pytest.raises(ValueError, match="seed= is for a budget"):
        Segments(partial(LEADER, seed=3), VALUES, BUDGET)
    with pytest.raises(ValueError, match="leave min_separation out"):
        Segments(partial(LEADER, min_separation=1), VALUES, dc.Budget(1.0, 1e-6, max_rounds_per_person=2))
    with pytest.raises(TypeError, match="not copied"):
        Segments(LEADER, VALUES, BUDGET).__reduce__()
    with pytest.raises(ValueError, match="read alike"):
        Segments(LEADER, [1, "1"], BUDGET)
    made = []

    def same(share):
        made.append(made[0] if made else LEADER(share))
        return made[-1]

    with pytest.raises(ValueError, match="make a new learner"):
        Segments(same, VALUES, BUDGET)
    counted = ContributionLimit(1, bytes(32))
    counted.register("ann")
    with pytest.raises(ValueError, match="counted by a learner"):
        SharedLimit(counted, ContributionLimit(1, bytes(32)))


def test_segments_at_a_gate_that_others_use(tmp_path):
    """Another division of the same people is refused there, the same one shares the budget."""
    ledger = dc.privacy.SQLiteLedger(tmp_path / "ledger")
    gate = dc.Gate(BUDGET, ledger=ledger, definition="gdp")
    with pytest.raises(ValueError, match="by= is needed"):
        Segments(LEADER, VALUES, gate.share(0.5))
    shop = Segments(LEADER, VALUES, gate.share(0.5), by="country")
    for values, by in ((VALUES, "age"), (VALUES[:2], "country")):
        with pytest.raises(ValueError, match="divides the same people differently"):
            Segments(LEADER, values, gate.share(0.25), by=by)
    Segments(SUMS, VALUES, gate.share(0.5), by="country")
    assert gate.spent.epsilon(1e-6) <= 1.0 + 1e-12
    with pytest.raises(dc.BudgetExceeded):
        Segments(LEADER, VALUES, gate.share(0.5), by="country")
    shop.run(_crowd(30), VALUES * 10)
    state, spent = shop.to_bytes(), gate.spent.epsilon(1e-6)
    with pytest.raises(ValueError, match="gate="):
        dc.load(state)
    with pytest.raises(ValueError, match="in use"):
        dc.load(state, gate=gate)
    ledger.close()
    gate = dc.Gate(BUDGET, ledger=dc.privacy.SQLiteLedger(tmp_path / "ledger"), definition="gdp")
    again = dc.load(state, gate=gate)
    again.run(_crowd(30), VALUES * 10)
    assert gate.spent.epsilon(1e-6) == spent


@pytest.mark.filterwarnings("default:.*segments are small:UserWarning")
def test_segments_that_are_declared_to_be_small_are_warned_of():
    for rounds, said in ((2000, True), (2200, False), (None, False)):
        make = partial(LeaderSelector, 4, 2, rounds)
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            Segments(make, ["de", "fr"], BUDGET)
        assert any("n x mu is 473, below 500" in str(one.message) for one in found) is said
    pure = partial(HedgeSelector, 4, 2, 50)  # without a delta there is no mu
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        Segments(pure, ["de", "fr"], dc.Budget(1.0))
    assert not any("segments are small" in str(one.message) for one in found)


@pytest.mark.parametrize("kind", [dc.online.RollingSelector, dc.online.PhasedSelector])
def test_items_that_one_segment_refuses_are_in_none(kind):
    shop = Segments(lambda share: kind(4, 1, share, first_window=5), ["a", "b"], dc.Budget(1.0, 1e-6), seed=0)
    person = SetFunction(lambda items: float(0 in items), 4, 1.0, monotone=True)
    for segment, one in (("a", Coverage([[1, 0, 0, 0]])), ("b", person)):
        shop.choose(segment)
        shop.learn(one, segment=segment)
    with pytest.raises(ValueError, match="functions of the items there were"):
        shop.add_items([4])
    assert [learner.n_items for learner in shop._learners] == [4, 4]
    shop.choose("a")
    shop.learn(Coverage([[1, 0, 0, 0]]), segment="a")


def test_items_that_are_retired_in_one_segment_only_are_changed_in_all_or_in_none():
    starts = {
        segment: Released.ranked(ranking, 6, candidates=3)
        for segment, ranking in (("a", [0, 1, 2]), ("b", [3, 4, 5]))
    }
    make = partial(LeaderSelector, 6, 2, None, first_batch=2)
    shop = Segments(make, ["a", "b"], BUDGET, start=starts, seed=0)
    before = content(shop.to_bytes())
    with pytest.raises(ValueError, match="in the catalogue already"):
        shop.add_items([3, 6])  # 3 is retired in one, and shown in the other
    with pytest.raises(ValueError, match="1 items would be left"):
        shop.retire_items([3, 4])
    assert content(shop.to_bytes()) == before
    shop.add_items([6])
    assert dc.load(shop.to_bytes()).n_items == 7
