"""Private greedy on disjoint windows: releases, what is kept, what is served, and how well."""

from __future__ import annotations

import gc
import itertools
import math
import weakref
from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from scipy import sparse

import discreet as dc
from discreet import bounds
from discreet.objectives import Coverage, FacilityLocation, ProbabilisticCoverage, SetFunction, WeightedTopics
from discreet.objectives.base import greedy
from discreet.objectives.fixed_point import step
from discreet.online.phased import PhasedSelector, PhasedSettings
from discreet.online.rolling import RollingSelector
from discreet.online.window import Window
from discreet.privacy import samplers
from tests.objectives.families import of_rows
from tests.privacy.audit import hockey_stick, transcripts

BUDGET = dc.Budget(1.0, 1e-6)
ALPHA = 1.0 - 1.0 / math.e


def _stream(rounds=400, n_items=8, seed=0, family=Coverage):
    rng = np.random.default_rng(seed)
    likes = rng.random((rounds, n_items)) * np.linspace(1.0, 0.2, n_items)
    return family(likes > 0.6) if family is Coverage else family(likes)


# --- releases: all transcripts, enumerated --------------------------------------------------------


def _program(matrix, budget, make=PhasedSelector, **options):
    people = Coverage(np.array(matrix))

    def program(_gate):
        learner = make(people.n_items, budget=budget, seed=0, **options)
        learner.run(people)
        learner.choose()

    return program


def _worst(budget, n_items, k, window, rounds, neighbour, tries, make=PhasedSelector, method="composed"):
    """Largest delta beyond the budget's own, and largest log-ratio, over streams and neighbours searched."""
    rng = np.random.default_rng(1)
    rows = [np.array(row) for row in itertools.product((0, 1), repeat=n_items)]
    epsilons = (0.0, 0.3, budget.epsilon)
    excess, widest = -math.inf, 0.0
    for trial in range(tries):
        stream = [rows[i] for i in rng.integers(len(rows), size=rounds)]
        if trial % 2:  # all others want the same: the rare outcome is where most is lost
            stream = [np.eye(n_items, dtype=int)[0]] * rounds
        place = int(rng.integers(rounds))
        other = list(stream)
        stream[place], other[place] = neighbour(rng, n_items)
        options = {"k": k, "window": window, "method": method}
        p, q = (transcripts(_program(s, budget, make, **options), budget) for s in (stream, other))
        account = make(n_items, budget=budget, seed=0, **options).privacy
        for epsilon in epsilons:
            excess = max(excess, hockey_stick(p, q, epsilon) - account.delta(epsilon))
        widest = max(widest, max(abs(math.log(p[o] / q[o])) for o in p))
    return excess, widest


def _replaced(rng, n_items):
    here = rng.integers(2, size=n_items)
    return here, 1 - here


def _removed(rng, n_items):
    return rng.integers(2, size=n_items), np.zeros(n_items, dtype=int)


@pytest.mark.parametrize(
    ("n_items", "k", "window", "rounds", "tries"), [(2, 1, 3, 6, 8), (3, 1, 2, 6, 4), (3, 2, 2, 4, 8)]
)
@pytest.mark.parametrize("neighbours", ["replace", "add_remove"])
@pytest.mark.parametrize("delta", [0.0, 1e-3])
def test_enumerated_transcripts_stay_within_the_account(n_items, k, window, rounds, tries, neighbours, delta):
    budget = dc.Budget(1.5, delta, neighbours=neighbours)
    neighbour = _replaced if neighbours == "replace" else _removed
    excess, widest = _worst(budget, n_items, k, window, rounds, neighbour, tries)
    assert excess <= 1e-9
    assert 0.3 < widest <= 1.5 + 1e-9  # close enough to the limit that a larger rate would show


@pytest.mark.parametrize(
    ("n_items", "k", "window", "rounds", "tries"), [(2, 1, 3, 6, 2), (3, 3, 2, 2, 4), (4, 2, 2, 2, 6)]
)
@pytest.mark.parametrize("neighbours", ["replace", "add_remove"])
def test_enumerated_samples_stay_within_pure_epsilon(n_items, k, window, rounds, tries, neighbours):
    budget = dc.Budget(1.5, 0.0, neighbours=neighbours)
    neighbour = _replaced if neighbours == "replace" else _removed
    found = _worst(budget, n_items, k, window, rounds, neighbour, tries, method="subsampled")
    assert found[0] <= 1e-9
    assert 0.3 < found[1] <= 1.5 + 1e-9


def test_a_sample_of_everybody_is_caught(monkeypatch):
    kept = PhasedSettings.tight
    monkeypatch.setattr(
        PhasedSettings, "tight", lambda *a, **o: replace(kept(*a, **o), keep=int(0.99 * 2**64))
    )
    monkeypatch.setattr(PhasedSettings, "check", lambda *_: None)
    found = _worst(dc.Budget(0.5, 0.0, "add_remove"), 4, 2, 2, 2, _removed, 6, method="subsampled")
    assert found[0] > 1e-3


def test_picks_that_are_not_paid_for_are_refused():
    sampled = PhasedSettings.tight(4, 2, dc.Budget(1.0).share(), method="subsampled")
    composed = PhasedSettings.tight(4, 2, dc.Budget(1.0).share(), method="composed")
    sampled.check("replace")
    composed.check("replace")
    for wrong in (
        replace(sampled, rate=sampled.rate * (1 + 1e-12)),
        replace(sampled, keep=sampled.keep + 2**33),
        replace(sampled, keep=None),
        replace(sampled, event=composed.event),
        replace(sampled, bound=1.5),
        replace(composed, rate=2 * composed.rate),
        replace(composed, event=sampled.event),
        replace(composed, keep=2**63),
    ):
        with pytest.raises(ValueError, match="not paid for"):
            wrong.check("replace")
    PhasedSettings.tight(4, 2, dc.Budget(1.0, neighbours="add_remove").share()).check("add_remove")
    with pytest.raises(ValueError, match="not paid for"):
        PhasedSettings.tight(4, 2, dc.Budget(1.0, neighbours="add_remove").share()).check("replace")


def test_whether_a_file_can_be_written_tells_nothing_of_the_sample(tmp_path):
    """Functions cannot be saved: that is said for everybody who came, also for those who were not kept."""
    person = SetFunction(lambda chosen: 1.0 * bool(chosen), n_items=4, bound=1.0, monotone=True)
    learners = [PhasedSelector(4, 2, dc.Budget(0.1), method="subsampled", seed=s) for s in range(20)]
    for learner in learners:
        learner.choose()
        learner.learn(person)
        with pytest.raises(TypeError, match="functions"):
            learner.save(tmp_path / "state")
    assert sum(len(learner._window) for learner in learners) < 20


@pytest.mark.parametrize("dense", [True, False])
@pytest.mark.parametrize("many", [True, False])
@pytest.mark.parametrize("make", [partial(PhasedSelector, method="subsampled"), RollingSelector])
def test_nothing_is_kept_of_people_outside_the_sample(make, many, dense):
    """The arrays of everybody go when their owner drops them, whoever is in the sample."""
    likes = np.random.default_rng(0).random((300, 8))
    likes = np.where(likes > 0.3, likes, 0.0)
    people = ProbabilisticCoverage(likes if dense else sparse.csr_array(likes))
    rows = people.as_rows()
    everybody = [weakref.ref(one) for one in (rows.sparse.data, rows.sparse.indices, rows.matrix)]
    learner = make(8, 2, dc.Budget(1.0), first_window=1000, seed=0)
    for start in (0,) if many else range(40):
        learner.choose()
        learner.run(people) if many else learner.learn(people[start])
    del people, rows
    gc.collect()
    assert len(learner._window) > 0
    assert all(one() is None for one in everybody)


def test_the_share_that_is_kept_is_the_one_that_is_paid_for():
    people = _stream(20_000)
    learner = PhasedSelector(8, 3, dc.Budget(1.0), window=30_000, seed=0)
    learner.run(people)
    kept, chance = len(learner._window), -math.expm1(-0.5)
    assert learner.method == "subsampled"
    assert learner.chance == pytest.approx(chance)
    assert abs(kept - 20_000 * chance) < 5 * math.sqrt(20_000 * chance * (1 - chance))


class _Twice(PhasedSelector):
    """The injected fault: the people of a window are kept for the next one as well."""

    def _draw(self):
        before = self._window.rows()
        chosen = super()._draw()
        for rows in before:
            self._window.keep_rows(rows)
        return chosen


def test_a_person_in_two_windows_is_caught():
    budget = dc.Budget(1.5)
    excess, widest = _worst(budget, 2, 1, 3, 6, _replaced, 8, make=_Twice)
    assert excess > 1e-3
    assert widest > 1.5


def test_a_larger_rate_is_caught(monkeypatch):
    draw = samplers.choice_log_probabilities
    monkeypatch.setattr(samplers, "choice_log_probabilities", lambda scores, rate: draw(scores, 2.0 * rate))
    excess, _ = _worst(dc.Budget(1.5), 2, 1, 3, 6, _replaced, 8)
    assert excess > 1e-3


def test_the_budget_is_paid_once_however_many_windows_there_are():
    people = _stream(600)
    learner = PhasedSelector(8, 3, BUDGET, window=20, seed=0)
    assert learner.privacy.spent.epsilon() == 0.0
    claimed = learner.privacy.epsilon()
    learner.run(people[:20])
    assert learner.privacy.spent.epsilon() == 0.0  # the window is over, but nothing has left yet
    learner.choose()
    assert learner.privacy.spent.epsilon() == pytest.approx(claimed)
    learner.run(people)
    assert learner.privacy.spent.epsilon() == pytest.approx(claimed)
    assert 0.9 < claimed <= 1.0
    assert learner.privacy.delta() <= 1e-6
    assert "privacy holds for any stream; the regret guarantee only for exchangeable" in str(learner.privacy)


# --- sums of gains: exact, whoever the people are -------------------------------------------------


def test_one_person_moves_scores_by_no_more_than_the_bound():
    """Also one whose function lies: what is above the bound is cut off, what fails counts as nothing."""

    def liar(chosen):
        if chosen == {1, 2}:
            raise ValueError("not today")
        return min(len(chosen), 2) * (50.0 if 3 in chosen else 0.25)

    honest = SetFunction(lambda chosen: 0.5 * (0 in chosen), n_items=4, bound=1.0, monotone=True)
    person = SetFunction(liar, n_items=4, bound=100.0, monotone=True)
    with_liar, without = Window(4, 1.0, 8), Window(4, 1.0, 8)
    for window in (with_liar, without):
        window.learn(honest)
    with_liar.learn(person)
    here, there = with_liar.close(), without.close()
    for item in (None, 2, 1):
        if item is not None:
            here.add(item)
            there.add(item)
        moved = here.scores() - there.scores()
        assert (moved >= 0).all()
        assert (moved <= 1.0).all()
    assert (moved == 0).all()


def test_sums_never_reach_what_floats_cannot_hold():
    for bound in (0.3, 1.0, 1.5, 1000.0):
        for length in (1, 1000, 2**20, 2**40):
            assert length * math.floor(bound / step(bound, length)) < 2**53
            assert step(bound, length) <= bound * 2.0 ** -min(39, 51 - length.bit_length())


# --- what is served ------------------------------------------------------------------------------


def test_each_set_is_learned_from_the_window_before_alone():
    """Without noise: greedy on exactly those people; the first window is served a set of pure chance."""
    people = _stream(310, seed=7)
    learner = PhasedSelector(8, 3, dc.Budget(math.inf), first_window=10, seed=0)
    trace = learner.run(people)
    for start, middle, stop in ((0, 10, 30), (10, 30, 70), (30, 70, 150), (70, 150, 310)):
        expected = greedy(people[start:middle], 3)[0]
        assert (trace.selections[middle:stop] == expected).all()
    assert learner.privacy.epsilon() == math.inf
    assert PhasedSelector(8, 3, dc.Budget(math.inf), seed=0).first_window == 3
    firsts = {PhasedSelector(8, 3, BUDGET, seed=seed).choose().items for seed in range(20)}
    assert len(firsts) > 10
    assert all(len(set(items)) == 3 for items in firsts)


def test_all_items_are_served_when_all_are_asked_for():
    learner = PhasedSelector(3, 3, BUDGET, window=2, seed=0)
    trace = learner.run(_stream(9, n_items=3))
    assert (np.sort(trace.selections, axis=1) == [0, 1, 2]).all()


def _two_regimes(rounds, change):
    likes = np.zeros((rounds, 6))
    likes[:change, 0] = likes[:change, 1] = 1
    likes[change:, 4] = likes[change:, 5] = 1
    return Coverage(likes * (np.random.default_rng(0).random(likes.shape) < 0.9))


def test_a_change_that_shows_in_the_sets_starts_small_windows_again():
    people = _two_regimes(12_000, 3_150)  # when a window closes
    budget = dc.Budget(2.0, 1e-6)
    steady = PhasedSelector(6, 2, budget, first_window=50, seed=0)
    watchful = PhasedSelector(6, 2, budget, first_window=50, restart_on_drift=True, seed=0)
    _ = steady.run(people), watchful.run(people)
    assert steady._window.length == 50 * 2**7
    assert watchful._window.length < steady._window.length
    assert watchful.privacy.epsilon() == steady.privacy.epsilon()
    calm = PhasedSelector(6, 2, budget, first_window=50, restart_on_drift=True, seed=0)
    calm.run(_two_regimes(12_000, 12_000))
    assert calm._window.length == 50 * 2**7


# --- the protocol --------------------------------------------------------------------------------


def test_bad_settings_are_named():
    with pytest.raises(ValueError, match="window='halving'"):
        PhasedSelector(4, 2, BUDGET, window="halving")
    with pytest.raises(ValueError, match="window=0"):
        PhasedSelector(4, 2, BUDGET, window=0)
    with pytest.raises(ValueError, match="window=5 is fixed"):
        PhasedSelector(4, 2, BUDGET, window=5, first_window=3)
    with pytest.raises(ValueError, match="first_window=0"):
        PhasedSelector(4, 2, BUDGET, first_window=0)
    with pytest.raises(ValueError, match="k=5 exceeds"):
        PhasedSelector(4, 5, BUDGET)
    with pytest.raises(TypeError, match="budget"):
        PhasedSelector(4, 2, 1.0)


# --- how well ------------------------------------------------------------------------------------


def test_private_greedy_loses_no_more_than_the_picks():
    """Exact expectation over all transcripts of k picks, against the best set of the window."""
    rng = np.random.default_rng(4)
    for _ in range(6):
        people = Coverage(rng.random((12, 4)) < 0.35)
        options = {"k": 2, "window": 12, "method": "composed"}
        learner = PhasedSelector(4, budget=dc.Budget(8.0), seed=0, **options)
        matrix = people._rows.sparse.toarray()
        paths = transcripts(_program(matrix, learner.budget, **options), learner.budget)
        expected = 0.0
        for path, chance in paths.items():
            first = path[0]
            second = [j for j in range(4) if j != first][path[1]]
            expected += chance * people.value([first, second])
        best = max(people.value(pair) for pair in itertools.combinations(range(4), 2))
        loss = bounds.picks_loss(4, 2, learner.rate) / 12
        assert expected >= ALPHA * best - loss


@pytest.mark.parametrize(("window", "rounds"), [(20, 60), (20, 2_000), (200, 600)])
def test_the_sampling_bound_holds_and_is_not_idle(window, rounds):
    """k = 1, every item liked by a random half: the case in which most is to be gained by chance."""
    rng = np.random.default_rng(6)
    n_items, excess = 40, []
    for _ in range(150):
        likes = rng.random((rounds, n_items)) < 0.5
        excess.append((likes[:window].mean(axis=0) - likes[window:].mean(axis=0)).max())
    bound = bounds.sampling_error(n_items, 1, window, rounds)
    assert np.mean(excess) + 5 * np.std(excess) / math.sqrt(150) < bound
    assert np.mean(excess) > 0.7 * bound


def test_declared_rounds_are_what_is_certified_and_where_learning_ends():
    learner, endless = (
        PhasedSelector(8, 2, BUDGET, rounds=rounds, window=30, seed=0) for rounds in (100, None)
    )
    assert learner.certified_regret == learner.certified_regret_after(100)
    assert endless.certified_regret == math.inf
    people = _stream(120)
    served, further = learner.run(people).selections, endless.run(people).selections
    np.testing.assert_array_equal(served[:100], further[:100])
    assert learner.over
    assert (served[100:] == served[99]).all()


class Interrupted(BaseException):
    """What no learner catches, like the interruption from a keyboard."""


def test_an_interruption_when_a_window_closes_loses_its_people_and_never_asks_them_twice():
    """Each time they are asked to the end a set is drawn from them, and k picks are all that is charged."""
    learner = PhasedSelector(4, 2, BUDGET, window=2, seed=0)
    asked = []

    def likes(items):
        if learner.round == 2:
            asked.append(items)
            if items:  # the first pick has been made
                raise Interrupted
        return float(0 in items)

    for _ in range(2):
        learner.choose()
        learner.learn(SetFunction(likes, 4, bound=1, monotone=True))
    with pytest.raises(Interrupted):
        learner.choose()
    before = len(asked)
    assert before > 0
    assert len(learner.choose().items) == 2
    assert len(asked) == before
    learner.learn(_stream(1, 4)[0])
    assert learner.choose().round == 3
    assert learner.privacy.spent.epsilon() <= 1.0


def test_rates_follow_the_budget_and_the_neighbours():
    composed = partial(PhasedSelector, method="composed", seed=0)
    pure = composed(50, 5, dc.Budget(1.0))
    assert pure.rate == pytest.approx(1.0 / 5 / 2)
    assert composed(50, 5, dc.Budget(1.0, neighbours="add_remove")).rate == pytest.approx(0.2)
    assert composed(50, 5, dc.Budget(1.0), bound=4.0).rate == pytest.approx(0.1 / 4)
    assert composed(50, 5, dc.Budget(1.0, max_rounds_per_person=2)).rate == pytest.approx(0.05)
    many = composed(50, 20, BUDGET)
    assert many.rate == pytest.approx(math.sqrt(8 * BUDGET.rho / 20) / 2)
    for method in ("auto", "composed", "subsampled"):  # nothing to choose
        assert PhasedSelector(1, 1, dc.Budget(1.0), method=method, seed=0).privacy.epsilon() == 0.0
    assert composed(3, 3, dc.Budget(1.0)).rate == pytest.approx(1.0 / 2 / 2)


def test_the_account_that_lets_people_count_more_is_taken():
    for k in (1, 2, 5, 20):
        every = {
            m: PhasedSelector(50, k, BUDGET, method=m, seed=0) for m in ("auto", "composed", "subsampled")
        }
        rates = {method: one.rate * one.chance for method, one in every.items()}
        assert rates["auto"] == max(rates.values())
        assert every["auto"].method == ("composed" if k == 1 else "subsampled")
        assert every["subsampled"].privacy.delta(1.0) == 0.0
    free = PhasedSelector(50, 5, dc.Budget(math.inf), method="subsampled", seed=0)
    assert (free.rate, free.chance) == (math.inf, 1.0)


@pytest.mark.parametrize("bound", [1.0, 3.0])
@pytest.mark.parametrize("length", [40, 2**30])
def test_scores_are_exact_sums_of_rounded_gains(bound, length):
    """The slow twin: every person's gain, rounded down to the step, added up as fractions."""
    rng = np.random.default_rng(2)
    unit = Fraction(step(bound, length))
    for people in of_rows(rng, 30):
        window = Window(6, bound, length)
        for person in people:
            window.learn(person)
        gains = window.close()
        for item in (2, 5, 0):
            scores = gains.scores()
            for j in range(6):
                exact = [Fraction(person.gains(gains.items)[j]) for person in people]
                rounded = sum((max(gain, Fraction(0)) // unit) * unit for gain in exact)
                # Compiled and interpreted gains may differ in their last digit, which can turn one step.
                assert abs(Fraction(scores[j]) - rounded) <= len(people) * unit
                assert Fraction(scores[j]) % unit == 0
                if isinstance(people, Coverage | FacilityLocation | ProbabilisticCoverage | WeightedTopics):
                    assert Fraction(scores[j]) == rounded
            gains.add(item)


def test_functions_in_python_cannot_be_saved_before_their_window_closes(tmp_path):
    person = SetFunction(lambda chosen: float(0 in chosen), n_items=3, bound=1.0, monotone=True)
    learner = PhasedSelector(3, 1, BUDGET, window=2, seed=0)
    learner.choose()
    learner.learn(person)
    with pytest.raises(TypeError, match=r"people who are functions.*after round 2"):
        learner.save(tmp_path / "state")
    learner.choose()
    learner.learn(person)
    learner.choose()
    learner.save(tmp_path / "state")
    assert PhasedSelector.load(tmp_path / "state").choose() == learner.choose()


def test_windows_double_and_need_no_horizon():
    people = _stream(1_000)
    learner = PhasedSelector(8, 2, BUDGET, first_window=10, seed=3)
    opened = []
    for t in range(1_000):
        learner.choose()
        if not opened or opened[-1] != learner._window.opens:
            opened.append(learner._window.opens)
        learner.learn(people[t])
    assert opened == [0, 10, 30, 70, 150, 310, 630]
    assert learner.rounds is None
    assert not learner.over
    fixed = PhasedSelector(8, 2, dc.Budget(0.1), window=100, seed=3).run(people)
    changes = np.flatnonzero((fixed.selections[1:] != fixed.selections[:-1]).any(axis=1)) + 1
    assert set(changes) <= set(range(100, 1_000, 100))
    assert len(changes) > 2


def test_a_large_budget_finds_the_greedy_set():
    people = _stream(2_000, seed=8)
    learner = PhasedSelector(8, 3, dc.Budget(500.0), seed=1)
    learner.run(people)
    opens = learner._window.opens  # windows w, 2w, 4w, ...: the one before began at half of opens - w
    before = people[(opens - learner.first_window) // 2 : opens]
    assert len(before) > 300
    assert set(learner.choose().items) == set(greedy(before, 3)[0])


def test_the_first_window_is_public():
    def first(*shape, epsilon=1.0, **options):
        return PhasedSettings.tight(*shape, dc.Budget(epsilon).share(), **options).first_window

    assert first(100, 5, method="composed") == math.ceil(4 * math.log(100) / 0.1)
    assert first(100, 5) == math.ceil(4 * math.log(100) / (-math.expm1(-0.5) * math.log1p(math.exp(0.5))))
    assert first(100, 5, bound=7.0) == first(100, 5)
    assert first(100, 5, rounds=100) == 25  # a crowd that small is learned from early
    assert first(100, 5, rounds=8) == 5
    assert first(1, 1, epsilon=100.0) >= 1


def test_the_entropy_bound_of_a_pick():
    """E[best - picked] <= ln(m) / rate, by the exact distribution, near its worst case too."""
    rng = np.random.default_rng(0)
    for m in (2, 10, 1000):
        for rate in (0.1, 1.0):
            tight = np.zeros(m)
            tight[0] = math.log(m) / rate
            for scores in (tight, rng.normal(size=m) * 5, np.zeros(m)):
                p = np.exp(samplers.choice_log_probabilities(scores, rate))
                assert p @ (scores.max() - scores) <= math.log(m) / rate
    assert bounds.picks_loss(7, 1, 0.5) == pytest.approx(math.log(7) / 0.5)
    assert bounds.picks_loss(7, 2, 0.5) == pytest.approx((0.5 * math.log(7) + math.log(6)) / 0.5)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("order", ["independent", "shuffled"])
def test_measured_regret_stays_below_the_certified_one(seed, order):
    rng = np.random.default_rng(seed)
    n_items, k, rounds = 12, 2, 6_000
    chances = rng.random(n_items) * 0.4
    budget = dc.Budget(4.0, 1e-6)
    totals = []
    for run in range(4):
        likes = rng.random((rounds, n_items)) < chances
        if order == "shuffled":  # two regimes, mixed: exchangeable, and far from independent
            likes[: rounds // 2, : n_items // 2] = False
            likes = rng.permutation(likes)
        people = Coverage(likes)
        learner = PhasedSelector(n_items, k, budget, seed=run)
        totals.append(learner.run(people).regret(people).total)
    certified = learner.certified_regret_after(rounds)
    assert certified < bounds.trivial(rounds)
    assert np.mean(totals) < certified


def test_certified_regret_falls_per_round_and_knows_its_limits():
    learner = PhasedSelector(100, 5, BUDGET, seed=0)
    averages = [
        learner.certified_regret_after(rounds) / rounds for rounds in (10**3, 10**4, 10**5, 10**6, 10**7)
    ]
    assert averages == sorted(averages, reverse=True)
    assert averages[0] <= ALPHA
    assert averages[-1] < 0.02
    exponent = math.log(averages[-1] * 10**7 / (averages[-2] * 10**6), 10)
    assert exponent < 0.55
    drifting = PhasedSelector(100, 5, BUDGET, restart_on_drift=True, seed=0)
    assert drifting.certified_regret_after(1000) == bounds.trivial(1000)
    fixed = PhasedSelector(100, 5, BUDGET, window=2_000, seed=0)
    assert fixed.certified_regret_after(10**6) > learner.certified_regret_after(10**6)
    scaled = PhasedSelector(100, 5, BUDGET, bound=4.0, seed=0)
    assert scaled.certified_regret_after(10**5) == pytest.approx(4.0 * learner.certified_regret_after(10**5))
    free = PhasedSelector(100, 5, dc.Budget(math.inf), seed=0)
    assert free.certified_regret_after(10**6) < learner.certified_regret_after(10**6)
