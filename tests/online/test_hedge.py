"""Hedge experts: the compiled loops beside an obvious twin, the draws beside exact weights, the account
beside every transcript."""

from __future__ import annotations

import itertools
import math
import time
from collections import Counter
from fractions import Fraction
from unittest import mock

import mpmath
import numpy as np
import pytest
from scipy import stats

import discreet as dc
from discreet import bounds
from discreet.kernels import experts as kernels
from discreet.objectives import (
    ConcaveOverModular,
    Coverage,
    FacilityLocation,
    ProbabilisticCoverage,
    SaturatedCoverage,
)
from discreet.online import hedge
from discreet.online.hedge import HedgeSelector, HedgeSettings
from discreet.online.learner import Rounds, score_range
from discreet.privacy import BudgetExceeded, ExponentialChoice, Release, ReproducibleRandomness, samplers
from discreet.privacy.conversions import exact
from discreet.privacy.ordered import OrderedExperts

BUDGET = dc.Budget(1.0, 1e-6)
FREE = dc.Budget(math.inf)


class Script:
    """A source that says what it is told, and then nothing."""

    secure = False

    def __init__(self, *words):
        self.left = [0, 0, 0, 0, *words]  # the first four key the hashes of visitors

    def words(self, count):
        said, self.left = self.left[:count], self.left[count:]
        assert len(said) == count
        return np.array(said, dtype=np.uint64)

    def state(self):
        return None


def family(name, rng, count, n_items, density=0.3):
    likes = rng.random((count, n_items)) < density
    weights = np.where(likes, rng.uniform(0.05, 1.0, likes.shape), 0.0)
    light = 0.99 * weights / weights.sum(axis=1, keepdims=True).clip(1.0)
    return {
        "coverage": lambda: Coverage(likes),
        "chances": lambda: ProbabilisticCoverage(weights),
        "facility": lambda: FacilityLocation(weights),
        "sqrt": lambda: ConcaveOverModular(light, concave="sqrt"),
        "log": lambda: ConcaveOverModular(light, concave="log"),
        "saturated": lambda: SaturatedCoverage(light, saturation=0.4),
    }[name]()


FAMILIES = ("coverage", "chances", "facility", "sqrt", "log", "saturated")


# --- the compiled loops -----------------------------------------------------------------------------


def twin(people, k, every, rate, seed):
    """Algorithm 2 with the same words, item by item; extended precision stands in for exactness."""
    source = ReproducibleRandomness(seed)
    source.words(4)
    n_items = people.n_items
    gains = np.zeros((n_items, k), dtype=np.int64)
    selections, rewards = [], []

    def pick(expert, allowed, word):
        weights = np.exp(np.longdouble(rate) * (gains[allowed, expert] - gains[:, expert].max()) / 2**32)
        borders = np.cumsum(weights)
        return int(allowed[np.searchsorted(borders / borders[-1], np.longdouble(word) / 2**64, "right")])

    everything = np.arange(n_items)
    for t, person in enumerate(people):
        if t % every == 0:
            shown: list[int] = []
            for i in range(k):
                *tries, last, _ = source.words(kernels.WORDS).tolist()
                drawn = [pick(i, everything, word) for word in tries]
                left = [item for item in drawn if item not in shown]
                shown.append(left[0] if left else pick(i, np.setdiff1d(everything, shown), last))
        selections.append(shown)
        rewards.append(person.value(shown))
        for i in range(k):
            gains[:, i] += np.floor(person.gains(shown[:i]).clip(0, 1) * 2**32).astype(np.int64)
    return np.array(selections), np.array(rewards), gains


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize(
    ("n_items", "k", "every", "rate"), [(5, 5, 1, 0.4), (23, 3, 1, 0.8), (70, 4, 7, 0.2), (600, 2, 1, 3.0)]
)
def test_kernel_and_twin_agree(name, n_items, k, every, rate):
    people = family(name, np.random.default_rng(n_items), 120, n_items)
    selections, rewards, gains = twin(people, k, every, rate, seed=3)
    learner = HedgeSelector(n_items, k, 120, FREE, resample_every=every, rate=rate, seed=3)
    trace = learner.run(people)
    assert (trace.selections == selections).all()
    assert np.allclose(trace.rewards, rewards, rtol=0, atol=1e-12)
    # log1p is not the same function everywhere; all other gains are the same to the last bit.
    assert np.abs(learner._experts.scores - gains).max() <= (120 if name == "log" else 0)


def test_run_in_chunks_and_with_words_in_blocks():
    people = family("coverage", np.random.default_rng(7), 300, 30)
    a = HedgeSelector(30, 3, 300, FREE, seed=4).run(people)
    with mock.patch.object(hedge, "_CHUNK_WORDS", 40):
        b = HedgeSelector(30, 3, 300, FREE, seed=4).run(people)
    assert (a.selections == b.selections).all()
    assert (a.rewards == b.rewards).all()


def test_references_move_when_weights_grow_too_large():
    people = Coverage(np.tile([1, 1, 0, 0, 0, 0, 0, 0, 0, 0], (3000, 1)))
    learner = HedgeSelector(10, 2, 3000, FREE, rate=0.5, seed=0)
    trace = learner.run(people)
    assert learner._experts.trees()[0].max() > 0  # at rate * G = 1500 there was no other way
    assert trace.rewards[200:].mean() == 1.0
    selections, _, _ = twin(people[:900], 2, 1, 0.5, 0)
    assert (trace.selections[:900] == selections).all()


# --- the draws --------------------------------------------------------------------------------------


def sequential(scores, rate):
    """Exact probability of every ordered set, for scores[item, expert]."""
    n_items, k = scores.shape
    chances = {}
    for items in itertools.permutations(range(n_items), k):
        log_chance = 0.0
        for i, item in enumerate(items):
            allowed = [j for j in range(n_items) if j not in items[:i]]
            logits = rate * scores[allowed, i]
            top = logits.max()
            log_chance += rate * scores[item, i] - top - math.log(np.exp(logits - top).sum())
        chances[items] = math.exp(log_chance)
    return chances


@pytest.mark.parametrize("spread", [0.0, 2.0, 30.0, 1e4])
@pytest.mark.parametrize("dominant", [False, True])
def test_draws_follow_the_exact_weights(spread, dominant):
    rng = np.random.default_rng(int(spread) + dominant)
    scores = np.floor(rng.uniform(0, 3.0, (5, 3)) * 2**32) / 2**32
    scores[3:] += spread
    if dominant:  # all experts want the same item first, by far: the others are drawn without it
        scores[0] += 700.0 + 3 * spread
    learner = HedgeSelector(5, 3, 10, FREE, rate=1.0, seed=17)
    learner._experts.scores[:] = (scores * 2**32).astype(np.int64)
    count = 20_000
    seen = Counter(tuple(learner._draw().tolist()) for _ in range(count))
    assert all(len(set(items)) == 3 for items in seen)
    chances = sequential(scores, 1.0)
    common = [items for items, chance in chances.items() if chance * count >= 10]
    observed = [seen[items] for items in common]
    expected = [chances[items] * count for items in common]
    rest = count - sum(observed), count - sum(expected)
    if rest[1] >= 10:
        observed.append(rest[0])
        expected.append(rest[1])
    else:
        assert stats.poisson.sf(rest[0] - 1, max(rest[1], 1e-9)) > 1e-6
        expected = [e * sum(observed) / sum(expected) for e in expected]
    if len(expected) > 1:
        assert stats.chisquare(observed, expected).pvalue > 1e-6


def test_draws_of_large_sets_do_not_take_the_square_of_their_size():
    """Eight times the experts, eight times the time and a little; it was 175 times."""
    best = {}
    for k in (50, 400):
        learner = HedgeSelector(1000, k, 200, FREE, rate=1e-3, seed=0)
        learner.choose()
        times = []
        for _ in range(10):
            start = time.process_time()
            for _ in range(500):  # milliseconds: nothing that interrupts them counts for much
                learner._draw()
            times.append(time.process_time() - start)
        best[k] = min(times)
    assert best[400] < 40 * best[50]


def test_a_wrong_rate_would_show():
    learner = HedgeSelector(4, 1, 10, FREE, rate=1.1, seed=17)
    learner._experts.scores[:, 0] = np.arange(4) << 32
    seen = Counter(int(learner._draw()[0]) for _ in range(20_000))
    chances = sequential(np.arange(4.0)[:, None], 1.0)
    assert (
        stats.chisquare([seen[i] for i in range(4)], [chances[i,] * 20_000 for i in range(4)]).pvalue < 1e-6
    )


def exact_borders(gains, ref, rate):
    with mpmath.workprec(400):
        unit = mpmath.mpf(exact(rate).numerator) / exact(rate).denominator / 2**32
        weights = [mpmath.exp(unit * (int(g) - int(ref))) for g in gains]
        return [mpmath.mpf(0), *itertools.accumulate(weights)]


@pytest.mark.parametrize(("n_items", "top"), [(3, 0.0), (9, 20.0), (70, 225.0), (700, 40.0), (700, 2e5)])
@pytest.mark.parametrize("moved", [0.0, 200.0])
def test_what_the_margin_claims(n_items, top, moved):
    """Near every border the compiled draw is right or says that it does not know; and seldom the latter."""
    rng = np.random.default_rng(n_items)
    rate = 0.1
    raw = rng.uniform(0, top, (n_items, 1)) if top else np.zeros((n_items, 1))
    gains = (raw / rate * 2**32).astype(np.int64) + rng.integers(0, 2**30, (n_items, 1))
    experts = OrderedExperts(gains, rate, Fraction(2**32), 1 << 32)
    # An older reference, as after many rounds: all weights are larger, and so are the errors.
    refs, tree = experts.trees(experts.trees()[0] - int(moved / rate * 2**32))
    borders = exact_borders(gains.ravel(), refs[0], rate)
    total = borders[-1]
    log_items = max(1.0, math.log(n_items))
    levels = math.ceil(math.log(max(2, n_items), 8))
    margin = (13 * (math.log(total) + 2 * log_items) + 16 * levels + 128) * 2.0**-53
    assert abs(tree[-8:].sum() / total - 1) < margin / 3
    for level_0, low, high in zip(tree[:n_items], borders, borders[1:], strict=False):
        assert abs(level_0 - (high - low)) <= margin / 3 * total

    def descend(word):
        return experts.find(0, word)

    def true(word):
        """The item, or None where the bits of the word do not say."""
        with mpmath.workprec(400):
            places = [mpmath.mpf(word + end) * total / 2**64 for end in (0, 1)]
            found = [sum(border <= place for border in borders[1:]) for place in places]
        return found[0] if found[0] == found[1] else None

    for border in borders[1 : -1 : max(1, n_items // 20)]:
        with mpmath.workprec(400):
            word = int(border / total * 2**64)
        for step in (0, 1, 40, 900, 5000, 30_000, 10**6):
            for near in (word - step, word + step):
                if 0 <= near < 2**64:
                    assert descend(near) in (-1, true(near))
    unsure = [descend(word) < 0 for word in ReproducibleRandomness(n_items).words(20_000).tolist()]
    assert sum(unsure) <= 1  # expected: at most 20,000 * 2 * 700 * 10^-12


def of_draw(*tries, last=0, further=0):
    """The words of one draw: for all items, for those that are left, and further bits."""
    return (*tries, *[0] * (kernels.TRIES - len(tries)), last, further)


def test_close_calls_are_decided_exactly():
    quarter = 1 << 62
    some = 5 << 60
    cases = [
        ((quarter, some), 1),  # just above the border between items 0 and 1, in the further bits
        ((quarter - 1, some), 0),
        ((2 * quarter, some), 2),
        ((2 * quarter - 1, 2**64 - 1 - (1 << 40)), 1),
        ((2**64 - 1, some), 3),
        ((0, 0), 0),
    ]
    for (first, further), item in cases:
        learner = HedgeSelector(4, 1, 10, FREE, seed=Script(*of_draw(first, further=further)))
        with mock.patch.object(samplers, "exact_draw", wraps=samplers.exact_draw) as called:
            assert learner.choose().items == (item,)
        assert called.call_count == 1


def test_more_bits_are_asked_for_when_all_words_lie_on_the_border():
    third = 2**64 // 3  # of the line, in every 64 bits anew
    for last, item in ((7, 0), (1 << 63, 1)):
        source = Script(*of_draw(third, further=third), third, last)
        assert HedgeSelector(3, 1, 10, FREE, seed=source).choose().items == (item,)
        assert source.left == []


def test_close_calls_among_the_items_that_are_left():
    # Expert 1 takes item 1; expert 2 falls on it too, each time, and then on a border of those that are left.
    clear, third = (1 << 62) + (1 << 61), (1 << 64) // 3
    for word, item in ((third - 1, 0), (third, 2), (2 * third, 2), (2 * third + 1, 3)):
        words = of_draw(*[clear] * kernels.TRIES, last=word, further=1 << 63)
        learner = HedgeSelector(4, 2, 10, FREE, seed=Script(*of_draw(clear), *words))
        with mock.patch.object(samplers, "exact_draw", wraps=samplers.exact_draw) as called:
            assert learner.choose().items == (1, item)
        assert called.call_count == kernels.TRIES + 1


@pytest.mark.parametrize("until", range(1, kernels.TRIES))
def test_close_calls_after_items_that_were_taken(until):
    """The word after those that fall on item 1 of three is on the border of items 1 and 2."""
    clear, border = 1 << 63, 2 * (2**64 // 3)
    for further, item in ((2**63, 1), (2**64 - 2, 2)):
        words = of_draw(*[clear] * until, border, *[0] * (kernels.TRIES - until - 1), further=further)
        learner = HedgeSelector(3, 2, 10, FREE, seed=Script(*of_draw(clear), *words))
        with mock.patch.object(samplers, "exact_draw", wraps=samplers.exact_draw) as called:
            # Below the border it is item 1 again, and then item 0 by the next word.
            assert learner.choose().items == (1, item if item == 2 else 0)
        assert called.call_count >= until + 1


def test_a_stream_goes_on_after_a_close_call():
    people = family("coverage", np.random.default_rng(1), 40, 8)
    words = ReproducibleRandomness(5).words(40 * 2 * kernels.WORDS).tolist()
    words[0] = 1 << 61  # the border between items 0 and 1 of the first draw
    words[kernels.WORDS] = 3 << 61
    with mock.patch.object(samplers, "exact_draw", wraps=samplers.exact_draw) as called:
        run = HedgeSelector(8, 2, 40, FREE, rate=0.3, seed=Script(*words)).run(people)
    assert called.call_count == 2
    learner = HedgeSelector(8, 2, 40, FREE, rate=0.3, seed=Script(*words))
    for t, person in enumerate(people):
        assert learner.choose().items == tuple(run.selections[t].tolist())
        learner.learn(person)


# --- the account, by every transcript ---------------------------------------------------------------


def transcripts(learner, stream):
    """Probability of every transcript, from the scores and the rate that the code hands to its draws."""
    found = {}
    stack = [()]
    while stack:
        script = stack.pop()
        path = []
        log_chance = 0.0

        def scripted(experts, _words, shown, script=script, path=path):
            nonlocal log_chance
            scores, unit = experts.scores, float(experts.unit)
            for i in range(experts.k):
                allowed = [j for j in range(len(scores)) if j not in shown[:i].tolist()]
                index = script[len(path)] if len(path) < len(script) else 0
                if len(path) >= len(script):
                    stack.extend((*path, other) for other in range(1, len(allowed)))
                logits = unit * (scores[allowed, i] - scores[:, i].max())
                log_chance += logits[index] - math.log(np.exp(logits).sum())
                path.append(index)
                shown[i] = allowed[index]
            return False

        learner._experts.scores[:] = 0
        learner._rounds = Rounds(learner.rounds)
        with mock.patch.object(OrderedExperts, "draw", scripted, create=True):
            for person in stream:
                learner.choose()
                learner.learn(person)
        found[tuple(path)] = math.exp(log_chance)
    assert sum(found.values()) == pytest.approx(1.0, abs=1e-9)
    return np.array([found[path] for path in sorted(found)])


def everybody(n_items):
    """All 0/1 people: every subset of the items, the empty one first."""
    rows = np.array(list(itertools.product([0, 1], repeat=n_items)))
    people = Coverage(rows)
    return [people[i] for i in range(len(rows))]


SHARES = (0.0, 0.2, 0.5, 0.8, 1.0)


def worst_excess(learner, where=(0,), contexts=1, epsilons=None):
    """Largest hockey-stick divergence beyond the claimed delta, over neighbours found by search.

    The people at the rounds ``where`` are exchanged (or taken away, which leaves somebody with no items);
    the others are those of a few random contexts.
    """
    people = everybody(learner.n_items)
    rng = np.random.default_rng(0)
    claimed = learner.privacy
    whole = claimed.pure
    epsilons = [share * whole for share in SHARES] if epsilons is None else epsilons
    allowed = [claimed.delta(epsilon) for epsilon in epsilons]
    worst = -math.inf
    for context in range(contexts):
        others = rng.integers(0, len(people), learner.rounds) if context else [1] * learner.rounds
        base = [people[i] for i in others]
        found = []
        for person in people:
            stream = list(base)
            for place in where:
                stream[place] = person
            found.append(transcripts(learner, stream))
        pairs = itertools.combinations(range(len(people)), 2)
        if learner.budget.neighbours == "add_remove":
            pairs = ((0, i) for i in range(1, len(people)))
        for a, b in pairs:
            for epsilon, delta in zip(epsilons, allowed, strict=True):
                growth = math.exp(epsilon)
                for p, q in ((found[a], found[b]), (found[b], found[a])):
                    worst = max(worst, float(np.maximum(p - growth * q, 0.0).sum()) - delta)
    return worst


SMALL = [
    # n_items, k, rounds, every
    (2, 1, 4, 1),
    (3, 1, 4, 2),
    (4, 1, 3, 1),
    (3, 2, 3, 1),
    (3, 2, 4, 2),
    (3, 3, 2, 1),
    (4, 2, 2, 1),
    (4, 3, 2, 1),
]
LOOSE = dc.Budget(3.0, 0.05)


@pytest.mark.parametrize("neighbours", ["replace", "add_remove"])
@pytest.mark.parametrize(("n_items", "k", "rounds", "every"), SMALL)
def test_no_transcript_tells_more_than_claimed(n_items, k, rounds, every, neighbours):
    budget = dc.Budget(3.0, 0.05, neighbours)
    learner = HedgeSelector(n_items, k, rounds, budget, resample_every=every, seed=0)
    # A rate that uses up the budget says more than the best one for so few rounds.
    learner = HedgeSelector(n_items, k, rounds, budget, resample_every=every, rate=_largest(learner), seed=0)
    assert worst_excess(learner, contexts=2) <= 1e-12
    if rounds > 2:
        assert worst_excess(learner, where=(1,), contexts=2) <= 1e-12


def _largest(learner):
    sets = -(-learner.rounds // learner.resample_every)
    return ExponentialChoice.within(
        learner.budget.share(), learner._release.event.range, learner.k * (sets - 1)
    ).rate


@pytest.mark.parametrize(("n_items", "k", "rounds"), [(3, 1, 4), (4, 1, 3), (3, 2, 3), (4, 3, 2)])
def test_published_rates_tell_no_more_than_claimed(n_items, k, rounds):
    learner = HedgeSelector(n_items, k, rounds, LOOSE, calibration="published", seed=0)
    assert learner.rate == bounds.published_rate(k, rounds, 3.0, 0.05)
    epsilons = [LOOSE.epsilon, *(share * learner.privacy.pure for share in SHARES)]
    assert worst_excess(learner, contexts=2, epsilons=epsilons) <= 1e-12


@pytest.mark.parametrize(("n_items", "k", "rounds", "every"), [(3, 1, 4, 1), (3, 2, 3, 1), (3, 2, 4, 2)])
@pytest.mark.parametrize("neighbours", ["replace", "add_remove"])
def test_somebody_who_comes_twice(n_items, k, rounds, every, neighbours):
    budget = dc.Budget(3.0, 0.05, neighbours, 2)
    learner = HedgeSelector(n_items, k, rounds, budget, resample_every=every, seed=0)
    learner = HedgeSelector(n_items, k, rounds, budget, resample_every=every, rate=_largest(learner), seed=0)
    assert worst_excess(learner, where=(0, 1)) <= 1e-12


def test_the_audit_sees_a_rate_doubled_after_reserving():
    for neighbours in ("replace", "add_remove"):
        learner = HedgeSelector(4, 1, 3, dc.Budget(3.0, 0.05, neighbours), rate=0.3, seed=0)
        assert worst_excess(learner) <= 1e-12
        learner._experts.at_rate(0.6)
        assert worst_excess(learner) > 1e-3


@pytest.mark.parametrize(("k", "rounds", "rate"), [(1, 3, 0.3), (2, 2, 3.0)])
def test_the_audit_sees_a_forgotten_release(k, rounds, rate):
    with mock.patch.object(HedgeSettings, "draws", lambda self, sets: (self.k - 1) * (sets - 1)):
        learner = HedgeSelector(4, k, rounds, dc.Budget(300.0), rate=rate, seed=0)
    assert worst_excess(learner, epsilons=[learner.privacy.pure]) > 1e-6


def test_the_audit_sees_half_a_range():
    for neighbours in ("replace", "add_remove"):
        with mock.patch.object(hedge, "score_range", lambda *given: score_range(*given) / 2):
            learner = HedgeSelector(4, 1, 3, dc.Budget(3.0, 0.05, neighbours), rate=0.3, seed=0)
        assert worst_excess(learner) > 1e-3


@pytest.mark.parametrize("bound", [1.0, 0.1, 3.7, 1e-9, 1e9])
@pytest.mark.parametrize("neighbours", ["replace", "add_remove"])
def test_one_person_moves_a_score_by_no_more_than_the_bound(bound, neighbours):
    learner = HedgeSelector(6, 2, 10, dc.Budget(1.0, 1e-6, neighbours), bound=bound, seed=0)
    people = FacilityLocation(np.array([[1, 0.5, 0.25, 0, 1, 0.7]]) * bound, bound=bound)
    learner.choose()
    learner.learn(people)
    width = Fraction(int(learner._experts.scores.max())) / learner._experts.scale
    per_side = exact(learner._release.event.range) / (2 if neighbours == "replace" else 1)
    assert width <= exact(bound)
    assert width <= per_side
    assert width >= exact(bound) * (1 - Fraction(1, 2**30))
    assert learner._release.event.range == (2 * bound if neighbours == "replace" else bound)


# --- rates, budgets, horizon ------------------------------------------------------------------------


def test_only_draws_after_the_first_set_are_paid_for():
    for every, sets in ((1, 30), (7, 5), (15, 2), (30, 1), (99, 1)):
        learner = HedgeSelector(9, 3, 30, BUDGET, resample_every=every)
        assert sum(learner.privacy.ledger.counts.values()) == 3 * (sets - 1)
        assert learner.privacy.epsilon() <= 1.0
        people = family("coverage", np.random.default_rng(0), 30, 9)
        spent, drawn = [], []
        with mock.patch.object(
            Release, "ordered_set", autospec=True, side_effect=Release.ordered_set
        ) as draws:
            for person in people:
                learner.choose()
                spent.append(sum(learner.privacy.spent.ledger.counts.values()))
                drawn.append(draws.call_count)
                learner.learn(person)
        each = learner.resample_every
        batches = [t // each for t in range(30)]
        assert spent == [3 * batch for batch in batches]
        assert drawn == [batch + 1 for batch in batches]  # to the last of them
        assert [0, *learner.settings.ends] == [each * batch for batch in range(-(-30 // each) + 1)]
        assert learner.privacy.spent.to_json() == learner.privacy.to_json()


def test_a_rate_of_ones_own_is_used_or_refused():
    assert HedgeSelector(9, 3, 30, BUDGET, rate=1e-4).rate == 1e-4
    with pytest.raises(BudgetExceeded, match="largest that fits"):
        HedgeSelector(9, 3, 30, BUDGET, rate=5.0)
    assert HedgeSelector(9, 3, 30, FREE, rate=5.0).rate == 5.0


@pytest.mark.parametrize("budget", [BUDGET, dc.Budget(20.0, 1e-3), dc.Budget(2.0), FREE], ids=str)
@pytest.mark.parametrize(("n_items", "k", "rounds"), [(2, 1, 1), (5, 2, 60), (100, 5, 997), (50, 3, 3000)])
def test_auto_takes_the_batch_with_the_smallest_bound(budget, n_items, k, rounds):
    learner = HedgeSelector(n_items, k, rounds, budget, resample_every="auto")
    best = min(
        HedgeSelector(n_items, k, rounds, budget, resample_every=every).certified_regret
        for every in {*range(1, min(rounds, 120) + 1), *(-(-rounds // sets) for sets in range(1, 60))}
    )
    assert learner.certified_regret <= best * (1 + 1e-9)
    assert isinstance(learner.resample_every, int)


def test_auto_with_a_given_rate_takes_the_shortest_batch_that_fits():
    learner = HedgeSelector(20, 2, 1000, BUDGET, resample_every="auto", rate=0.02)
    assert learner.rate == 0.02
    with pytest.raises(BudgetExceeded):
        HedgeSelector(20, 2, 1000, BUDGET, resample_every=learner.resample_every - 1, rate=0.02)


def test_an_interrupted_run_is_paid_for():
    people = family("coverage", np.random.default_rng(1), 400, 9)
    learner = HedgeSelector(9, 3, 400, BUDGET, seed=0)
    calls = []

    def run(*given):
        calls.append(given)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return honest(*given)

    honest = kernels.OrderedExperts.run
    with (
        mock.patch.object(hedge, "_CHUNK_WORDS", 100 * 3 * kernels.WORDS),
        mock.patch.object(OrderedExperts, "run", run, create=True),
        pytest.raises(KeyboardInterrupt),
    ):
        learner.run(people)
    assert learner.round == 300
    assert sum(learner.privacy.spent.ledger.counts.values()) == 3 * 299
    rest = learner.run(people[300:])
    assert len(rest) == 100
    assert learner.over
    assert learner.privacy.spent.epsilon() <= 1.0


# --- bad input --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"resample_every": 0}, "resample_every=0"),
        ({"resample_every": "often"}, "resample_every='often'"),
        ({"rate": 0.0}, "rate=0"),
        ({"rate": math.nan}, "rate is NaN"),
        ({"calibration": "published", "resample_every": 2}, "published"),
        ({"calibration": "published", "rate": 0.1}, "published"),
        ({"calibration": "other"}, "calibration='other'"),
        ({"bound": 0.0}, "bound=0"),
        ({"labels": ["a"]}, "labels has 1"),
        ({"rounds": 2**31}, "rounds=2147483648"),
        ({"k": 10}, "k=10 exceeds"),
    ],
)
def test_bad_settings(options, message):
    settings = {"n_items": 9, "k": 3, "rounds": 30, "budget": BUDGET} | options
    with pytest.raises(ValueError, match=message):
        HedgeSelector(**settings)


def test_settings_of_the_wrong_kind():
    for budget, message in ((dc.Budget(1.0), "delta > 0"), (dc.Budget(math.inf, 1e-6), "a finite epsilon")):
        with pytest.raises(ValueError, match=message):
            HedgeSelector(9, 3, 30, budget, calibration="published")
    with pytest.raises(TypeError, match="rounds"):
        HedgeSelector(9, 3, None, BUDGET)
    with pytest.raises(TypeError, match="resample_every"):
        HedgeSelector(9, 3, 30, BUDGET, resample_every=1.5)


def test_an_interrupt_before_the_first_block_ends_draws_nothing_unpaid(monkeypatch):
    """The first set is drawn while nobody has been learned from; an interrupted run serves that one on."""
    people = dc.objectives.Coverage(np.tile([0, 0, 1, 0, 0], (50, 1)))
    learner = HedgeSelector(5, 1, 50, dc.Budget(1.0, 1e-6), resample_every=50, seed=3)
    first = HedgeSelector(5, 1, 50, dc.Budget(1.0, 1e-6), resample_every=50, seed=3).choose().items

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(OrderedExperts, "run", interrupt)
    with pytest.raises(KeyboardInterrupt):
        learner.run(people)
    assert learner.over
    assert learner.choose().items == first
    assert learner.privacy.spent.epsilon() == 0.0


def test_the_tree_is_a_function_of_the_gains():
    people = family("chances", np.random.default_rng(8), 400, 200, density=0.05)
    learner = HedgeSelector(200, 3, 500, FREE, rate=0.9, seed=1)
    learner.run(people)
    learner.choose()
    kept = learner._experts
    # Trees that followed the scores draw what those do that are made of the scores anew.
    anew = OrderedExperts(kept.scores.copy(), kept.rate, kept.scale, kept.most)
    anew.trees(kept.trees()[0])
    words = ReproducibleRandomness(5).words(3000).tolist()
    for expert in range(3):
        assert [kept.find(expert, word) for word in words] == [anew.find(expert, word) for word in words]


def test_draws_by_every_word_of_a_draw_follow_the_weights():
    """Eight of ten items: late experts need all their words. Items 0 to 4 weigh three times the others."""
    learner = HedgeSelector(10, 8, 10, FREE, rate=1.0, seed=3)
    learner._experts.scores[:5] = round(math.log(3.0) * 2**32)
    count = 20_000
    sets = np.array([learner._draw() for _ in range(count)])
    assert all(len(set(row)) == 8 for row in sets[:100].tolist())
    chances = {(0, 0): 1.0}  # of so many heavy and light items so far
    for place in range(8):
        heavy = {state: 3.0 * (5 - state[0]) / (3.0 * (5 - state[0]) + 5 - state[1]) for state in chances}
        expected = sum(chance * heavy[state] for state, chance in chances.items())
        seen = int((sets[:, place] < 5).sum())
        assert stats.binomtest(seen, count, expected).pvalue > 1e-6
        assert stats.binomtest(int((sets[:, place] == 2).sum()), count, expected / 5).pvalue > 1e-6
        after: Counter = Counter()
        for (a, b), chance in chances.items():
            after[a + 1, b] += chance * heavy[a, b]
            after[a, b + 1] += chance * (1.0 - heavy[a, b])
        chances = after


def test_always_asking_changes_nothing():
    """With the margin blown up every draw is decided outside, and the transcript is the same."""
    people = family("chances", np.random.default_rng(2), 30, 6)
    a = HedgeSelector(6, 3, 30, FREE, rate=1.5, seed=11).run(people)
    draws = []

    class Undecided(OrderedExperts):
        """Every draw is decided outside."""

        def begin(self):
            self.place, self.item = 0, None

        def draw(self, words, shown):  # noqa: ARG002
            if self.item is not None:
                shown[self.place], self.item = self.item, None
                draws.append(self.place)
                self.place += 1
            return self.place < self.k

        @property
        def undecided(self):
            return self.place, self.place

        def decide(self, item):
            self.item = item

    with mock.patch.object(hedge, "OrderedExperts", Undecided):
        learner = HedgeSelector(6, 3, 30, FREE, rate=1.5, seed=11)
    for t, person in enumerate(people):
        assert learner.choose().items == tuple(a.selections[t].tolist())
        learner.learn(person)
    assert len(draws) == 90


def test_exact_draw_is_the_inverse_of_the_distribution():
    """Where a word is not within 2^-40 of a border, whatever the widths of the cells."""
    rng = np.random.default_rng(0)
    scores = rng.integers(0, 2**45, 50)
    unit = Fraction("0.00037") / 2**32
    with mpmath.workprec(300):
        weights = [mpmath.exp(mpmath.mpf(unit.numerator) / unit.denominator * int(s)) for s in scores]
        borders = list(itertools.accumulate(weights))
    for word in ReproducibleRandomness(0).words(300).tolist():
        with mpmath.workprec(300):
            place = mpmath.mpf(word) / 2**64 * borders[-1]
            wanted = sum(b <= place for b in borders)
        assert samplers.exact_draw(scores, unit, iter([word, 1])) == wanted


def test_published_rates():
    assert HedgeSelector(9, 3, 1000, BUDGET, calibration="published").rate == pytest.approx(
        1.0 / (3 * math.sqrt(32 * 1000 * math.log(3 / 1e-6)))
    )
    # One expert: Algorithm 1 at the rate of Proposition 2; another range scales it.
    assert HedgeSelector(9, 1, 1000, BUDGET, calibration="published", bound=4.0).rate == pytest.approx(
        0.25 / math.sqrt(32 * 1000 * math.log(1e6))
    )


def test_tight_rates_use_the_budget_or_are_the_best():
    short = HedgeSelector(50, 5, 1000, BUDGET)
    assert short.privacy.epsilon() == pytest.approx(1.0, rel=1e-6)
    assert short.privacy.epsilon() <= 1.0
    assert short.rate == ExponentialChoice.within(BUDGET.share(), 2.0, 5 * 999).rate
    assert short.rate > 3 * HedgeSelector(50, 5, 1000, BUDGET, calibration="published").rate
    rich = HedgeSelector(50, 5, 1000, dc.Budget(100.0, 1e-6))
    assert rich.rate == bounds.best_rate(50, 5, 1000)
    assert rich.privacy.epsilon() < 100
    halved = HedgeSelector(50, 5, 1000, dc.Budget(1.0, 1e-6, "add_remove"))
    assert halved.rate == pytest.approx(2 * short.rate)


def test_no_privacy_is_the_baseline():
    learner = HedgeSelector(9, 3, 300, FREE, seed=0)
    assert learner.rate == bounds.best_rate(9, 3, 300)
    assert learner.privacy.epsilon() > 1.0
    assert "no privacy" in str(learner.privacy)
    assert learner.certified_regret == bounds.hedge(9, 3, 300, learner.rate)
    people = Coverage(np.tile([0, 0, 1, 0, 0, 0, 0, 0, 0], (300, 1)))
    assert learner.run(people).rewards[150:].mean() > 0.9


@pytest.mark.parametrize("kind", [HedgeSelector, dc.online.RunningSumSelector, dc.online.LeaderSelector])
def test_a_constraint_in_place_of_k_is_led_to_the_learners_that_take_one(kind):
    kinds = dc.constraints.PartitionMatroid([range(5), range(5, 10)], 1)
    with pytest.raises(ValueError, match=r"is a constraint.*LeaderSelector.*MetaFrankWolfe"):
        kind(10, kinds, 100, dc.Budget(1.0, 1e-6))
    budget = dc.Budget(1.0, 1e-6)
    assert dc.online.LeaderSelector(10, None, 100, budget, constraint=kinds).settings.k == 2
    assert dc.online.MetaFrankWolfe(kinds, 100, budget).settings.constraint.rank == 2
