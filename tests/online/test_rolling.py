"""Votes that last: what a run gives away of somebody, who is kept, what is remembered, how well it serves."""

from __future__ import annotations

import contextlib
import itertools
import math
from dataclasses import replace
from functools import cache
from unittest import mock

import numpy as np
import pytest
from scipy import stats

import discreet as dc
from discreet.audit import faults
from discreet.objectives import (
    ConcaveOverModular,
    Coverage,
    FacilityLocation,
    ProbabilisticCoverage,
    SetFunction,
)
from discreet.online.rolling import RollingSelector, RollingSettings, Votes
from discreet.privacy import Gate, Release, samplers
from discreet.privacy.picks import SampledPicks, SampledScores
from tests.privacy.audit import hockey_stick

REPLACE, ALONE = dc.Budget(1.5), dc.Budget(1.5, 0.0, "add_remove")


def _crowd(rounds=400, n_items=8, seed=0, family=Coverage):
    rng = np.random.default_rng(seed)
    likes = rng.random((rounds, n_items)) * np.linspace(1.0, 0.2, n_items)
    return family(likes > 0.75) if family is Coverage else family(np.where(likes > 0.3, likes, 0.0))


# --- small crowds, every run of them --------------------------------------------------------------

CELLS, TOLD = (0.0, 1.0, 2.5), (0.5, 1.75, 4.0)  # of scores, and what is told of each: post-processing


@cache
def _cell_chances(scores, rate):
    """Which items may have the largest score with exponential noise in which cells, and how likely.

    The density of item i at v, above all scores, is rate e^(-rate (v - s_i)) times the product over j of
    1 - e^(-rate (v - s_j)): multiplied out, a sum of exponentials, each of which is integrated.
    """
    top, found = max(scores), np.zeros((len(scores), len(CELLS)))
    for i, cell in np.ndindex(found.shape):
        start = max(CELLS[cell], top)
        stop = CELLS[cell + 1] if cell + 1 < len(CELLS) else math.inf
        if stop <= start:
            continue
        others = [s for j, s in enumerate(scores) if j != i]
        for size in range(len(others) + 1):
            for some in itertools.combinations(others, size):
                m = size + 1
                part = math.exp(-rate * sum(start - s for s in (scores[i], *some)))
                if math.isfinite(stop):
                    part -= math.exp(-rate * sum(stop - s for s in (scores[i], *some)))
                found[i, cell] += (-1) ** size * part / m
    chances = np.maximum(found, 0.0)
    possible = np.argwhere(chances > 0.0).tolist()
    return possible, [chances[place, cell] for place, cell in possible]


@contextlib.contextmanager
def _draws(largest, sample):
    """Scores and coins as these say."""
    with mock.patch.object(Release, "noisy_maximum", largest), mock.patch.object(Release, "sample", sample):
        yield


def _runs(matrix, budget, k):
    """Every run of a learner over these people, as items and told scores, with its probability."""
    people = Coverage(np.array(matrix))
    found, ahead = {}, [()]
    while ahead:
        script, path, seen, chance = ahead.pop(), [], [], [1.0]

        def decide(chances, script=script, path=path, chance=chance):
            place = script[len(path)] if len(path) < len(script) else 0
            if len(path) >= len(script):
                ahead.extend((*path, other) for other in range(1, len(chances)))
            path.append(place)
            chance[0] *= chances[place]
            return place

        def largest(_, scores, step, rate, decide=decide, seen=seen):
            possible, chances = _cell_chances(tuple(float(s) * step for s in scores), rate)
            place, cell = possible[decide(chances)]
            seen.append((place, TOLD[cell]))
            return seen[-1]

        def sample(_, people, keep, decide=decide):
            kept = keep * 2.0**-64
            return np.flatnonzero([decide((1.0 - kept, kept)) for _ in range(people)])

        with _draws(largest, sample):
            learner = RollingSelector(people.n_items, k, budget, first_window=1, seed=0)
            learner.run(people)
            learner.choose()
        found[tuple(seen)] = found.get(tuple(seen), 0.0) + chance[0]
    assert sum(found.values()) == pytest.approx(1.0, abs=1e-9)
    return found


ITEMS = np.eye(3, dtype=int)
PAIRS = [  # one person's row in two worlds
    (ITEMS[0], np.zeros(3, dtype=int)),
    (np.ones(3, dtype=int), np.zeros(3, dtype=int)),
    (ITEMS[2], 1 - ITEMS[2]),
]


def _compared(budget, k, rows=3):
    """For pairs of neighbours, the largest and the smallest log-ratio of any run, and the delta."""
    runs = cache(lambda *people: _runs(people, budget, k))
    for mine, yours in PAIRS if budget.neighbours == "replace" else PAIRS[:2]:
        for other in (ITEMS[0], 1 - ITEMS[0]):
            p, q = (runs(tuple(one), *[tuple(other)] * (rows - 1)) for one in (mine, yours))
            if {o for o in p if p[o] > 0} != {o for o in q if q[o] > 0}:
                yield math.inf, -math.inf, math.inf
                continue
            ratios = [math.log(p[o] / q[o]) for o in p if p[o] > 0]
            yield max(ratios), min(ratios), hockey_stick(p, q, budget.epsilon)


@pytest.mark.parametrize(("k", "rows"), [(1, 3), (2, 2)])
@pytest.mark.parametrize("budget", [REPLACE, ALONE], ids=["replaced", "removed"])
def test_no_run_tells_more_than_epsilon_in_either_direction(k, rows, budget):
    largest, smallest, deltas = zip(*_compared(budget, k, rows), strict=True)
    highest, lowest, excess = max(largest), min(smallest), max(deltas)
    assert highest <= budget.epsilon + 1e-9
    assert lowest >= -budget.epsilon - 1e-9
    assert excess <= 1e-9
    if rows == 3:  # the account is tight: the adding direction by scores, the other by the coin
        least = 0.9 if budget.neighbours == "add_remove" else 0.5
        assert min(highest, -lowest) > least * budget.epsilon


@pytest.mark.parametrize("name", ["spent people kept", "sample drawn again", "credit of true sums",
                                  "everybody in the sample", "rate doubled"])  # fmt: skip
def test_injected_faults_are_caught(name):
    with _injected(name):
        assert any(max(highest, -lowest) > ALONE.epsilon + 1e-3 for highest, lowest, _ in _compared(ALONE, 1))


@contextlib.contextmanager
def _injected(name):
    """A fault of the learner; draws are scripted above, so that faults in those go into its settings."""
    kept = RollingSettings.tight
    if name == "everybody in the sample":
        change = lambda found: replace(found, keep=int(0.99 * 2**64))  # noqa: E731
    elif name == "rate doubled":
        change = lambda found: replace(found, rate=2.0 * found.rate)  # noqa: E731
    else:
        with faults.EXACT[name]():
            yield
        return
    with (
        mock.patch.object(RollingSettings, "tight", lambda *a, **o: change(kept(*a, **o))),
        mock.patch.object(RollingSettings, "check"),
    ):
        yield


# --- whole runs: the exact likelihood of what was really drawn, with somebody and without ---------


def _likelihood(people, kept, runs, budget, k, bound=1.0):
    """The log-probability of released items and scores when exactly ``kept`` are in the sample.

    By the geometric law: P(Z = z) = (1 - r) r^z, ties to the first of equals.
    """
    left, total, coins = list(runs), [0.0], list(kept)

    def largest(_, scores, step, rate):
        finer = math.floor(rate * step * samplers.HALF_STEPS * (1 + 1e-15))
        place, value = left.pop(0)
        gaps = np.array([round(value / step * finer) - int(s) * finer for s in scores])
        z = gaps / samplers.HALF_STEPS
        with np.errstate(divide="ignore"):
            if gaps[place] < 0:
                total[0] = -math.inf
            below = np.where(np.arange(z.size) < place, z, (gaps + 1) / samplers.HALF_STEPS)
            chances = np.where(below > 0, -np.expm1(-np.maximum(below, 0.0)), 0.0)
            total[0] += -z[place] + np.log(np.delete(chances, place)).sum()
        return place, value

    def sample(_, count, keep):  # noqa: ARG001
        found = np.flatnonzero(coins[:count])
        del coins[:count]
        return found

    with _draws(largest, sample):
        learner = RollingSelector(people.n_items, k, budget, first_window=4, bound=bound, seed=0)
        learner.run(people)
        learner.choose()
    assert not left
    return total[0]


def _drawn(people, budget, k, seed, bound=1.0):
    """A real run: who was kept, and the items and scores that were released."""
    kept, runs = np.zeros(len(people), dtype=bool), []
    real_sample, real_largest, place = Release.sample, Release.noisy_maximum, [0]

    def sample(self, count, keep):
        found = real_sample(self, count, keep)
        kept[place[0] + found] = True
        place[0] += count
        return found

    def largest(self, *given):
        runs.append(real_largest(self, *given))
        return runs[-1]

    with _draws(largest, sample):
        learner = RollingSelector(people.n_items, k, budget, first_window=4, bound=bound, seed=seed)
        learner.run(people)
        learner.choose()
    return kept, runs


def _largest_ratio(family, runs=40, fault=contextlib.nullcontext):
    """Over real runs and people in them: how much likelier a run is with somebody, whose coin aside."""
    largest, rate = -math.inf, RollingSelector(6, 2, REPLACE).rate
    for seed in range(runs):
        people = _crowd(60, 6, seed, family)
        with fault():
            kept, released = _drawn(people, REPLACE, 2, seed)
            for who in (0, 7, 30):
                here, there = kept.copy(), kept.copy()
                here[who], there[who] = True, False
                without = _likelihood(people, there, released, REPLACE, 2)
                with_them = _likelihood(people, here, released, REPLACE, 2)
                if math.isfinite(without):
                    largest = max(largest, with_them - without)
    return largest / rate


@pytest.mark.parametrize("family", [Coverage, ProbabilisticCoverage, FacilityLocation])
def test_a_person_makes_no_run_likelier_than_the_rate_allows(family):
    found = _largest_ratio(family)
    assert found <= 1.0 + 1e-6
    assert found > (0.99 if family is Coverage else 0.5)  # whoever is spent whole attains it


def test_people_who_are_not_spent_make_runs_likelier_than_that():
    assert _largest_ratio(Coverage, 20, faults.spent_people_kept) > 1.1


# --- the sampler ----------------------------------------------------------------------------------


def test_the_largest_noisy_score_follows_its_law():
    """Who wins, and by how much above the largest score: exact laws, 20,000 draws, p > 1e-6."""
    release = Gate(dc.Budget(1.0), 3).reserve(SampledScores(1.0, 1.0), draws=1 << 30)
    step, rate, scores = 2.0**-16, 0.7, np.array([3 << 15, 1 << 16, 0])
    drawn = [release.noisy_maximum(scores, step, rate) for _ in range(20_000)]
    values = scores * step
    chances = samplers.flip_probabilities(values, rate)
    counts = np.bincount([place for place, _ in drawn], minlength=3)
    assert stats.chisquare(counts, 20_000 * chances).pvalue > 1e-6

    def below(v):
        return np.prod([-np.expm1(-rate * np.maximum(v - s, 0.0)) for s in values], axis=0)

    assert stats.kstest([value for _, value in drawn], below).pvalue > 1e-6
    cells = samplers.maximum_probabilities(values, rate, np.array([0.0, 2.0, 4.0]))
    np.testing.assert_allclose(cells.sum(axis=1), chances, rtol=1e-12)
    np.testing.assert_allclose(cells.sum(axis=0).cumsum()[:2], [below(2.0), below(4.0)], rtol=1e-12)


def test_noise_is_on_the_grid_of_scores_and_never_narrower_than_was_paid_for():
    release = Gate(dc.Budget(1.0), 3).reserve(SampledScores(1.0, 1.0), draws=1 << 30)
    step, rate = 2.0**-16, 0.974
    finer = math.floor(rate * step * samplers.HALF_STEPS)
    assert samplers.HALF_STEPS * step / finer >= 1.0 / rate
    assert samplers.HALF_STEPS * step / finer < 1.0001 / rate
    for scores in ([0, 5], [1 << 50, 0]):
        _, value = release.noisy_maximum(np.array(scores), step, rate)
        assert (value / step * finer) == round(value / step * finer)


def test_only_what_was_paid_for_draws_scores():
    for event in (SampledPicks(1.0, 1.0), dc.privacy.LaplaceNoise(1.0, 1.0)):
        with pytest.raises(TypeError, match="does not pay for scores"):
            Gate(dc.Budget(2.0), 0).reserve(event).noisy_maximum(np.zeros(2, dtype=np.int64), 0.5, 1.0)
    once = Gate(dc.Budget(2.0), 0).reserve(SampledScores(1.0, 1.0))
    with pytest.raises(ValueError, match="too low"):
        once.noisy_maximum(np.zeros(2, dtype=np.int64), 2.0**-60, 1.0)
    once.noisy_maximum(np.zeros(2, dtype=np.int64), 0.5, 1.0)
    with pytest.raises(RuntimeError, match="draws are left"):
        once.noisy_maximum(np.zeros(2, dtype=np.int64), 0.5, 1.0)


def test_scores_that_are_not_paid_for_are_refused():
    settings = RollingSettings.tight(4, 2, dc.Budget(1.0).share())
    settings.check("replace")
    for wrong in (
        replace(settings, rate=settings.rate * (1 + 1e-12)),
        replace(settings, keep=settings.keep + 2**33),
        replace(settings, keep=None),
        replace(settings, bound=1.5),
        replace(settings, event=SampledPicks(1.0, 1.0)),
    ):
        with pytest.raises(ValueError, match="not paid for"):
            wrong.check("replace")
    with pytest.raises(ValueError, match="not paid for"):
        RollingSettings.tight(4, 2, dc.Budget(1.0, neighbours="add_remove").share()).check("replace")


# --- who is kept, and what is remembered ----------------------------------------------------------


def test_people_vote_until_an_item_of_theirs_is_picked_or_until_they_fade():
    learner = RollingSelector(6, 1, dc.Budget(math.inf), first_window=4, seed=0)
    likes = np.zeros((4, 6))
    likes[:3, 0], likes[3, 5] = 1, 1
    learner.run(Coverage(likes))
    assert learner.choose().items == (0,)
    assert len(learner._votes) == 1  # who wants item 5

    def waiting():
        runs = learner._votes.rows()
        return [rows.share[rows.sparse.row_of[rows.sparse.indices == 5]] for rows in runs]

    while sum(map(len, waiting())) and learner._votes.served < 100:
        assert all(((share >= 0.05) & (share < 1.0)).all() for share in waiting())
        learner.run(Coverage(np.eye(6)[[1, 1, 1]]))  # item 5 never wins
    assert 5 < learner._votes.served < 30  # 0.9^28 is above 0.05, and 0.9^29 below


def test_functions_vote_in_one_release(tmp_path):
    learner = RollingSelector(4, 1, dc.Budget(math.inf), first_window=2, seed=0)
    person = SetFunction(lambda chosen: 1.0 * (2 in chosen), n_items=4, bound=1.0, monotone=True)
    for one in (person, Coverage([[0, 1, 0, 0]])):
        learner.choose()
        learner.learn(one)
    with pytest.raises(TypeError, match="functions"):
        learner.save(tmp_path / "state")
    assert learner.choose().items == (1,)
    assert len(learner._votes) == 0
    learner.save(tmp_path / "state")


def test_the_share_that_is_kept_is_the_one_that_is_paid_for():
    learner = RollingSelector(8, 3, dc.Budget(1.0), first_window=30_000, seed=0)
    learner.run(_crowd(20_000))
    kept, chance = len(learner._votes), -math.expm1(-0.5)
    assert learner.chance == pytest.approx(chance)
    assert abs(kept - 20_000 * chance) < 5 * math.sqrt(20_000 * chance * (1 - chance))


def test_the_budget_is_paid_once_however_many_releases_there_are():
    learner = RollingSelector(8, 3, dc.Budget(1.0), first_window=20, seed=0)
    assert learner.privacy.spent.epsilon() == 0.0
    learner.run(_crowd(20))
    assert learner.privacy.spent.epsilon() == 0.0  # the window is over, but nothing has left yet
    learner.choose()
    assert learner.privacy.spent.epsilon() == 1.0
    learner.run(_crowd(2000))
    assert learner._votes.served > 20
    assert learner.privacy.epsilon(0.0) == 1.0
    assert "largest noisy scores on a secret sample" in str(learner.privacy.releases())
    assert "no regret is certified" in str(learner.privacy)
    assert learner.certified_regret == math.inf


def test_a_file_goes_on_with_the_same_votes(tmp_path):
    people = _crowd(900, seed=4)
    learner, twin = (RollingSelector(8, 2, dc.Budget(1.0), seed=5) for _ in range(2))
    learner.run(people[:700])
    learner.save(tmp_path / "state")
    again = dc.load(tmp_path / "state")
    twin.run(people[:700])
    assert (again.run(people[700:]).selections == twin.run(people[700:]).selections).all()
    assert again._votes.known == twin._votes.known


def test_all_items_are_served_when_all_are_asked_for_and_nothing_is_released():
    learner = RollingSelector(3, 3, dc.Budget(1.0), first_window=2, seed=0)
    trace = learner.run(_crowd(9, n_items=3))
    assert (np.sort(trace.selections, axis=1) == [0, 1, 2]).all()
    assert learner.privacy.spent.epsilon() == 0.0
    learner.add_items([3])
    learner.run(_crowd(9, n_items=4))
    assert learner.privacy.spent.epsilon() == 1.0


def test_an_interruption_loses_votes_and_counts_nobody_twice():
    learner = RollingSelector(8, 2, dc.Budget(1.0), first_window=50, seed=0)
    learner.run(_crowd(50))

    def interrupted(*_):
        raise KeyboardInterrupt

    with mock.patch.object(Release, "noisy_maximum", interrupted), pytest.raises(KeyboardInterrupt):
        learner.choose()
    assert len(learner._votes) == 0
    assert len(learner.choose().items) == 2


def test_scores_that_an_interruption_leaves_are_in_the_account():
    """Credits are scores with noise: where they have come, what is spent says so, shown or not."""
    learner = RollingSelector(8, 2, dc.Budget(1.0), first_window=50, seed=0)
    learner.run(_crowd(50))
    before = learner._votes.credit.copy()
    stopped = mock.patch.object(Votes, "_unspent", side_effect=KeyboardInterrupt)
    with stopped, pytest.raises(KeyboardInterrupt):
        learner.choose()
    assert (learner._votes.credit != before).any()
    assert learner.privacy.spent.epsilon() == 1.0


# --- how well it serves ---------------------------------------------------------------------------


def _regimes(rounds=6000, n_items=60, parts=3):
    rng = np.random.default_rng(1)
    likes = np.zeros((rounds, n_items))
    for part in range(parts):
        here = slice(part * rounds // parts, (part + 1) * rounds // parts)
        order = rng.permutation(n_items)
        for rank, item in enumerate(order[:10]):
            likes[here, item] = rng.random(rounds // parts) < 0.5 / (1 + rank)
    return Coverage(likes)


def test_it_follows_a_stream_that_moves_and_loses_nothing_on_one_that_stands_still():
    moving, still = _regimes(), _regimes(parts=1)
    phases = dc.online.PhasedSelector(60, 3, dc.Budget(1.0), seed=0)
    assert RollingSelector(60, 3, dc.Budget(1.0), seed=0).run(moving).average > (
        1.3 * phases.run(moving).average
    )
    best = still.value(dc.objectives.greedy(still, 3)[0])
    assert RollingSelector(60, 3, dc.Budget(1.0), seed=0).run(still).average > 0.93 * best


def test_a_stream_that_is_made_against_it_is_served_nothing():
    learner, served = RollingSelector(8, 2, dc.Budget(1.0), seed=0), 0.0
    for _ in range(600):
        shown = learner.choose().items
        person = Coverage(np.eye(8)[[next(i for i in range(8) if i not in shown)]])
        served += person.value(shown)
        learner.learn(person)
    assert served == 0.0


def test_bad_settings_are_named():
    with pytest.raises(ValueError, match="first_window=0"):
        RollingSelector(4, 2, dc.Budget(1.0), first_window=0)
    with pytest.raises(ValueError, match="k=5 exceeds"):
        RollingSelector(4, 5, dc.Budget(1.0))
    with pytest.raises(TypeError, match="budget"):
        RollingSelector(4, 2, 1.0)


def test_people_whose_function_is_in_python_vote_once_and_leave_a_state_that_can_be_saved():
    """Their rows are not kept after a release: a file could not hold the function."""
    likes = (np.random.default_rng(0).random((81, 6)) < 0.3) * 1.0
    people = ConcaveOverModular(likes, concave=lambda total: np.tanh(total))
    learner = RollingSelector(6, 2, dc.Budget(3.0), first_window=40, seed=0)
    for t in range(40):
        learner.choose()
        learner.learn(people[t])
    assert len(learner._votes) > 10  # of these some have none of the items that are picked
    learner.choose()
    assert len(learner._votes) == 0
    assert dc.load(learner.to_bytes()).choose() == learner.choose()
