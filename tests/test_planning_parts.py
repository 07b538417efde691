"""Parts of the planner by hand: simulated people, shares, what is said, how long it takes."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import pytest

import discreet as dc
from discreet.constraints import Cardinality
from discreet.objectives import Coverage
from discreet.planning import plans
from discreet.planning.expected import (
    CATALOGUES,
    Crowd,
    Expected,
    Size,
    Taste,
    best_value,
    crowds,
    people_needed,
    served,
    share_after,
    synthetic_people,
)
from discreet.planning.questions import Bandit, Candidate, FullInformation

BUDGET = dc.Budget(1.0, 1e-6)


# --- simulated people -----------------------------------------------------------------------------


def _wanted(chance, mean):
    """The chance that one of a geometric number of draws, with this mean, is of an item of this chance."""
    return 1 - (1 - chance) / (1 + (mean - 1) * chance)


@pytest.mark.parametrize(
    ("rounds", "n_items", "taste", "mean"),
    [
        (4_000, 2_000, Taste(0.0, 0.0, 20.0, 0.0), 20.0),
        (4_000, 2_000, Taste(0.0, 0.0, 0.5, 0.0), 1.0),  # at least one each
        (5_000, 4_000, Taste(0.0, 0.0, 150.0, 0.5), 120.0),  # 600,000 in all
        (30_000, 2_000, Taste(0.0, 0.0, 150.0, 0.0), 30.0),  # but 30 each
        (4_000, 30, Taste(0.0, 0.0, 20.0, 0.0), 15.0),  # half of the items
    ],
)
def test_how_many_items_people_want(rounds, n_items, taste, mean):
    counts = np.diff(synthetic_people(rounds, n_items, 1, taste).indptr)
    # All items are alike; of n items m draws on average find n m / (n + m - 1) different ones.
    expected = n_items * mean / (n_items + mean - 1)
    assert counts.min() >= 1
    assert counts.max() <= n_items
    slack = 0.15 if n_items == 30 else 0.0  # nobody draws more than 30
    assert counts.mean() == pytest.approx(expected, abs=5.5 * counts.std() / math.sqrt(rounds) + slack)


@pytest.mark.parametrize(("steep", "flat", "shift"), [(1.0, 3.0, 3.0), (2.0, 50.0, 10.0), (2.0, 0.0, 0.0)])
def test_how_popularity_falls(steep, flat, shift):
    rounds, n_items, mean = 20_000, 100, 4.0
    people = synthetic_people(rounds, n_items, 1, Taste(steep, flat, mean, 0.0))
    found = np.sort(people.gains([]))[::-1]
    weights = np.array([(rank + shift) ** -steep for rank in range(1, n_items + 1)])
    chances = _wanted(weights / weights.sum(), mean)
    for ranks in (slice(0, 5), slice(5, 20), slice(20, 100)):
        total = chances[ranks].sum()
        # Sums of wanted items of one person vary by less than those of independent draws of so many.
        assert found[ranks].sum() == pytest.approx(total, abs=5.5 * math.sqrt(2 * mean * total / rounds))


def test_tastes_of_clusters():
    """Where popularity falls steeply everybody wants the first of an order: the common one, or their own."""
    rounds = 20_000
    people = synthetic_people(rounds, 1_000, 2, Taste(60.0, 0.0, 1.0, 0.25))
    found = np.sort(people.gains([]))[::-1]
    sizes = np.array([1 / j for j in range(1, 6)])
    chances = np.array([0.75, *(0.25 * sizes / sizes.sum())])
    spread = np.sqrt(chances * (1 - chances) / rounds)
    assert np.all(np.abs(found[:6] - chances) < 5.5 * spread)
    assert found[6:].sum() == 0.0
    even = synthetic_people(rounds, 4, 2, Taste(0.0, 0.0, 1.0, 0.5)).gains([])
    assert np.all(np.abs(even - 0.25) < 5.5 * math.sqrt(0.25 * 0.75 / rounds))


@pytest.mark.parametrize(
    ("number", "best", "most", "wanted"),
    [
        (0, 0.098, 0.0225, 9.46), (1, 0.973, 0.915, 59.95), (2, 0.353, 0.152, 4.69),
        (3, 0.606, 0.3515, 2.31), (4, 0.285, 0.077, 27.65), (5, 0.339, 0.137, 2.89),
        (6, 0.274, 0.077, 9.41), (7, 0.071, 0.017, 1.98), (8, 0.493, 0.233, 13.75),
    ],
)  # fmt: skip
def test_catalogues_differ_in_how_much_five_items_serve(number, best, most, wanted):
    """Stored values: a changed catalogue changes what every plan expects."""
    people = synthetic_people(2_000, 1_000, 0, CATALOGUES[number])
    served, popular = best_value(people, Cardinality(5, n_items=1_000)), people.gains([]).max()
    found = served, popular, np.diff(people.indptr).mean()
    assert found == pytest.approx((best, most, wanted), rel=0.02)


@pytest.mark.parametrize(
    ("asked", "size"),
    [
        ((100, 10, 3), (100, 10, 3)),
        ((10**6, 10**6, 5), (20_000, 50_000, 5)),
        ((100, 10**6, 40_000), (100, 80_000, 40_000)),
        ((100, 60_000, 55_000), (100, 60_000, 55_000)),
    ],
)
def test_the_size_of_a_simulation(asked, size):
    assert Size.of(*asked) == Size(*size)


def test_streams_are_numbered_and_in_the_unit_of_the_question():
    """A later call goes on where an earlier one ended; values go with the bound."""
    size, one = Size(300, 12, 2), Cardinality(2, n_items=12)
    whole = crowds(size, one, 3, items=2.0)
    (last,) = crowds(size, one, 3, first=2, items=2.0)
    (large,) = crowds(size, one, 3, first=2, items=2.0, bound=3.0)
    assert [last.best, large.best] == pytest.approx([whole[2].best, 3.0 * whole[2].best])
    assert large.at_random == pytest.approx(whole[2].at_random)
    rounds = [
        served(lambda _, of=of: dc.online.PhasedSelector(12, 2, BUDGET, bound=of, seed=0), crowd, 0).mean()
        for of, crowd in ((1.0, last), (3.0, large))
    ]
    assert rounds[0] == pytest.approx(rounds[1])
    nobody = Crowd.of(Coverage(np.zeros((5, 12))), one, 0)
    assert (nobody.best, nobody.at_random) == (0.0, 1.0)


def test_intervals_are_a_fifth_longer_on_either_side():
    found = Expected.of([0.9, 1.2, 0.95])  # of the best FIXED set: a drift can be followed
    assert (found.share, found.low, found.high) == pytest.approx((0.95, 0.84, 1.2))
    found = Expected.of([0.5, 0.6])
    assert (found.share, found.low, found.high) == pytest.approx((0.55, 0.48, 0.62))


def test_what_three_rounds_and_two_streams_say():
    assert share_after(np.array([0.0, 0.5, 1.0]), 6) == pytest.approx((1.5 + 3 * 1.0) / 6)
    slow, quick = np.array([0.2] * 4_000), np.array([0.2] * 1_000 + [1.0] * 3_000)
    # The average of the second has gained x of 0.8 after 1,000 / (1 - x) rounds: 0.2 at 1,250.
    assert people_needed([slow, quick], [0.2, 0.2]) == 1_300
    assert people_needed([quick, quick], [0.2, 0.2]) == 1_200
    assert people_needed([np.ones(5)], [1.0]) is None


# --- what is said ---------------------------------------------------------------------------------


def candidate(name="A", certified=10.0, formula=None, **more):
    return Candidate(name, more.pop("settings", {}), certified, 0.0, formula or certified, **more)


@pytest.mark.parametrize(
    ("share", "chance", "needed", "hopeless"),
    [
        (0.80, 0.5, 100, False),
        (0.509, 0.5, 100, True),  # less than a fiftieth of the way to the best set
        (0.511, 0.5, 100, False),
        (0.917, 0.9, 100, False),
        (0.80, 0.5, 1_000, False),
        (0.80, 0.5, 1_001, True),
        (0.80, 0.5, None, True),
    ],
)
def test_what_is_hardly_better_than_chance(share, chance, needed, hopeless):
    kind = ("A", None)
    shares = {kind: Expected(share, share, share)}
    found = plans.Simulation(shares, kind, Expected(chance, chance, chance), 3, 1_000, needed)
    for rounds, longer in ((1_000, False), (1_001, True)):
        if needed == rounds == 1_001:  # as many as are declared, though fewer were simulated
            hopeless = False
        assert found.hopeless(rounds) == hopeless
        said = " ".join(found.says(FullInformation(rounds, BUDGET, n_items=5)))
        assert ("later rounds" in said) == longer
        assert ("Expect little" in said) == hopeless
        words = f"{needed:,} people" if needed else "more than 300,000 people"
        assert (words in said) == (needed is None or needed > 1_000 or not hopeless)


@pytest.mark.parametrize(
    ("budget", "warned"),
    [(dc.Budget(10.0), False), (dc.Budget(10.5), True), (dc.Budget(math.inf), False)],
)
def test_an_epsilon_above_ten_is_warned_of(budget, warned):
    kind = ("A", None)
    found = plans.Simulation({kind: Expected(0.8, 0.7, 0.9)}, kind, Expected(0.1, 0.1, 0.1), 3, 10, 5)
    said = found.says(FullInformation(10, budget, n_items=5))
    assert said[0].startswith("Epsilon 10.5 hardly protects") == warned


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.12345, "0.123"), (99.94, "99.9"), (100.4, "100"), (123456.7, "123,457"), (1.5e9, "1.5e+09")],
)
def test_regret_is_readable(value, text):
    assert plans._number(value) == text


# Any play can lose 1,000 (1 - 1/e) = 632, and random sets a tenth of 1,000 less.
QUESTION = FullInformation(1_000, BUDGET, n_items=10, sets=1)


@pytest.mark.parametrize(
    ("found", "best", "said"),
    [
        ([candidate("A", 100), candidate("B", 150)], "A", "the next is 150"),
        ([candidate("A", 100, cut=True), candidate("B", 199)], "B", "about people as they are"),
        ([candidate("A", 100, cut=True), candidate("B", 201)], "A", "is the smallest: 100"),
        ([candidate("A", 300, cut=True), candidate("B", 540)], "A", "is the smallest: 300"),  # chance: 532
        ([candidate("A", 540, 900.0), candidate("B", 560, 800.0)], "B", "No setting is certified"),
        ([candidate("A", 1, 900.0), candidate("B", 1, 800.0)], "B", "Even choosing at random"),
    ],
)
def test_which_bound_is_taken(found, best, said):
    sets = 9 if said.startswith("Even") else 1  # random sets of nine of ten serve 1 - 1/e of the best anyway
    one, reason = plans._smallest_bound(found, replace(QUESTION, sets=sets))
    assert one.name == best
    assert said in reason


def _chosen(stream, *rows):
    """The name of the kind that is chosen, of (name, what it certifies, shares)."""
    shares = {(name, None, None, None): list(served) for name, _, served in rows}
    kinds = [candidate(name, certified) for name, certified, _ in rows]
    return plans._best_kind(replace(QUESTION, stream=stream), kinds, shares)[0]


def test_which_kind_is_chosen():
    top = ("top", 1_000.0, (0.80, 0.81, 0.79))
    # Any order of people: a certificate below half of everything, with 95 % of what the best serves.
    assert _chosen("adversarial", top, ("sure", 315.0, (0.765, 0.765, 0.765))) == "sure"
    assert _chosen("adversarial", top, ("sure", 317.0, (0.765, 0.765, 0.765))) == "top"
    assert _chosen("adversarial", top, ("sure", 315.0, (0.755, 0.755, 0.755))) == "top"
    assert _chosen("stationary", top, ("sure", 315.0, (0.765, 0.765, 0.765))) == "top"
    surer = ("surer", 300.0, (0.78, 0.78, 0.78))
    assert _chosen("adversarial", top, ("sure", 200.0, (0.765, 0.765, 0.765)), surer) == "surer"
    # Alike: within 0.02, or within two standard errors of the difference.
    assert _chosen("stationary", ("sure", 315.0, (0.785, 0.785, 0.785)), top) == "sure"
    assert _chosen("stationary", ("first", 1_000.0, (0.785, 0.785, 0.785)), top) == "first"
    assert _chosen("stationary", ("first", 1_000.0, (0.77, 0.78, 0.76)), top) == "top"
    wide = ("wide", 315.0, (0.90, 0.60, 0.80))  # behind by 0.033 with a standard error of 0.09
    assert _chosen("stationary", wide, top) == "wide"
    # ... and never by more than a tenth of the most: three streams that differ by this much say little.
    poor = ("poor", 315.0, (0.02, 0.60, 0.02))
    assert _chosen("stationary", poor, ("best", 1_000.0, (0.98, 0.58, 0.99))) == "best"
    assert _chosen("stationary", ("wider", 315.0, (0.90, 0.45, 0.80)), top) == "top"
    assert _chosen("stationary", ("nearly", 315.0, (0.90, 0.47, 0.80)), top) == "nearly"
    near = ("near", 315.0, (0.79, 0.78, 0.74))  # by 0.03 with 0.012
    assert _chosen("stationary", near, top) == "top"
    less = ("less", 300.0, (0.785, 0.785, 0.785))
    assert _chosen("stationary", ("sure", 315.0, (0.79, 0.79, 0.79)), less, top) == "less"


# --- how long it takes ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "numbers"),
    [
        # A noisy number takes 40 nanoseconds, and a round 5 microseconds: n = 2,000, k = 5, 10,000 rounds.
        ("PhasedSelector", 0.0),
        ("RollingSelector", 0.3 * 100 * 5 * 2_000),
        ("BanditSelector", 0.12 * 10_000 * 2_000),
        ("ThompsonSelector", 0.02 * 10_000 * 2_000),
        ("HedgeSelector", 125 * 5 * 2_000),  # sets that fit into a twentieth of a second
        ("BestOfBothSelector", 0.3 * 100 * 5 * 2_000 + 125 * 5 * 2_000),
    ],
)
def test_about_how_long_a_simulated_stream_takes(name, numbers):
    question = FullInformation(10_000, BUDGET, n_items=2_000, sets=5)
    assert plans._seconds(candidate(name), question) == pytest.approx(40e-9 * numbers + 0.05)


@pytest.mark.parametrize(("n_items", "sets"), [(10, 200), (2_000, 125), (10**6, 20)])
def test_how_many_sets_are_drawn_in_a_simulated_stream(n_items, sets):
    question = FullInformation(10_000, BUDGET, n_items=n_items, sets=5)
    assert plans._sets(question) == sets
    least = 10_000 // sets
    for every, name, drawn in (
        (1, "HedgeSelector", least),
        ("auto", "HedgeSelector", least),
        (least, "HedgeSelector", least),
        (least + 1, "HedgeSelector", least + 1),
        (1, "PhasedSelector", 1),
    ):
        one = candidate(name, settings={"resample_every": every})
        assert plans._resampled(one, question).settings["resample_every"] == drawn
    back = replace(question, budget=dc.Budget(1.0, 1e-6, max_rounds_per_person=2), separation=3 * least + 1)
    one = candidate("HedgeSelector", settings={"resample_every": 1, "min_separation": 3 * least + 1})
    assert plans._resampled(one, back).settings["min_separation"] == 3


@pytest.mark.parametrize(
    ("trivial", "certified", "tried"),
    [(150.0, 74.0, True), (150.0, 76.0, False), (400.0, 99.0, True), (400.0, 101.0, False)],
)
def test_slow_learners_are_tried_where_they_guarantee_something(trivial, certified, tried):
    """Below half of what any play can lose, and below what random sets can: 100."""
    found = [candidate("HedgeSelector", certified), candidate("RollingSelector", 1e3)]
    asked = {"candidates": lambda: found, "without_learning": ("", 100.0), "trivial": trivial}
    # Twenty sets of ten of so many items take 0.4 seconds, and of half as many 0.2, beside 0.05.
    for n_items, slow in ((50_000, True), (25_000, False)):
        question = SimpleNamespace(**asked, n_items=n_items, k=10, rounds=10_000)
        assert (len(plans._worth_trying(question)) == 2) == (tried or not slow)


@pytest.mark.parametrize(("rounds", "streams"), [(2_000, 9), (20_000, 5), (10**6, 5)])
def test_how_many_streams_there_is_time_for(monkeypatch, rounds, streams):
    """The slowest of the finalists may take a second in all, for three streams at least."""
    asked = []

    def some(_, __, count=3, *, first=0, **___):
        asked.append((first, count))
        return [Crowd(None, 1.0, 0.1)] * (count - first)

    def shares(question, one, crowds, *_):
        height = {"BestOfBothSelector": 0.9, "RollingSelector": 0.8}.get(one.name, 0.5)
        return [np.full(question.rounds, height)] * len(crowds)

    monkeypatch.setattr(plans, "crowds", some)
    monkeypatch.setattr(plans, "_served", shares)
    question = FullInformation(rounds, BUDGET, n_items=2_000, sets=10, fineness=1)
    found = plans._compared(question, None, False)
    # Of 20,000 rounds 0.1 seconds; 0.034 for windows, and 0.05 for new sets.
    assert asked == [(0, 3), (3, streams)]
    assert (found.crowds, found.people) == (streams, min(rounds, 20_000))
    assert found.best[0] == "BestOfBothSelector"
    assert {name: one.share for (name, *_), one in found.shares.items()}["RollingSelector"] == (
        pytest.approx(0.8)
    )
    assert found.at_random.share == pytest.approx(0.1)
    assert found.needed == 1


def test_longer_streams_are_tried_until_they_help(monkeypatch):
    """Four times as long each, up to 300,000 rounds."""
    tried = []

    def learned(question, one, crowds, *_, after=10_000):
        tried.append((question.rounds, one.name))
        return [np.where(np.arange(question.rounds) < after, 0.1, 1.0)] * len(crowds)

    monkeypatch.setattr(plans, "crowds", lambda *_, **__: [Crowd(None, 1.0, 0.1)] * 3)
    monkeypatch.setattr(plans, "_served", learned)
    question = FullInformation(1_000, BUDGET, n_items=20, sets=2, fineness=1)
    one = next(one for one in question.candidates() if one.name == "RollingSelector")
    # 0.1 x 10,000 + (t - 10,000) is 0.19 t, a tenth of the way, at t = 11,111.
    assert plans._people_needed(question, one, {}) == 12_000
    assert tried == [(4_000, "RollingSelector"), (16_000, "RollingSelector")]
    tried.clear()
    monkeypatch.setattr(plans, "_served", lambda *asked: learned(*asked, after=10**9))
    assert plans._people_needed(question, one, {}) is None
    assert [rounds for rounds, _ in tried] == [4_000, 16_000, 64_000, 256_000]


def test_every_stream_has_its_own_seed(monkeypatch):
    seen = []
    monkeypatch.setattr(plans, "served", lambda _, crowd, run, __: seen.append((crowd, run)))
    question = FullInformation(100, BUDGET, n_items=20, sets=2)
    plans._served(question, candidate("RollingSelector"), ["a", "b"], 3)
    assert seen == [("a", 3), ("b", 4)]


@pytest.mark.parametrize(("share", "told"), [(0.515, False), (0.525, True), (0.4, False)])
def test_slots_are_recommended_where_they_serve_more(monkeypatch, share, told):
    kind = ("A",)

    def compared(question, *_):
        expected = Expected(share if question.feedback == "slots" else 0.5, 0.0, 1.0)
        return plans.Simulation({kind: expected}, kind, expected, 3, 10, 5)

    monkeypatch.setattr(plans, "_compared", compared)
    question = Bandit(10, dc.Budget(share), n_items=5, feedback="bandit")  # an epsilon of its own: not cached
    found = plans._on_synthetic_people(question, False)
    assert (found.slots is not None) == told
    plans._on_synthetic_people.cache_clear()


def test_of_each_kind_the_candidate_that_certifies_most():
    rows = [candidate("A", 5.0), candidate("A", 3.0), candidate("A", 4.0), candidate("B", 9.0)]
    assert plans._kinds(rows) == [rows[1], rows[3]]


# --- questions --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Known(FullInformation):
    """A question of which it is known from where on something beats chance."""

    enough_rounds: int = 0
    enough_epsilon: float = 0.0

    def beats_chance(self):
        return self.rounds >= self.enough_rounds and self.budget.epsilon >= self.enough_epsilon


@pytest.mark.parametrize(
    ("rounds", "enough"), [(3, 5), (10, 12_345), (7, 8), (1_000, 2**33), (4, 2**40), (10, 2**42)]
)
def test_enough_rounds_are_found_to_one_percent(rounds, enough):
    found = Known(rounds, BUDGET, n_items=9, enough_rounds=enough).rounds_needed()
    assert found is None if enough > 2**40 else enough <= found <= max(enough, 1.0102 * enough)


@pytest.mark.parametrize(
    ("epsilon", "enough"), [(1.0, 3.7), (0.01, 20.0), (1.0, 5e5), (1.0, 5e6), (math.inf, 1.0)]
)
def test_enough_epsilon_is_found_to_one_percent(epsilon, enough):
    found = Known(3, dc.Budget(epsilon, 1e-6), n_items=9, enough_epsilon=enough).epsilon_needed()
    assert found is None if enough > 1e6 or math.isinf(epsilon) else enough <= found <= 1.0101 * enough


@pytest.mark.parametrize(
    ("rounds", "n_items", "k", "fineness", "shortest", "lengths"),
    [
        (10, 9, 2, 1, 1, [1, 2, 3, 5, 10]),  # of 10, 5, 3, 2 and 10 batches
        (10, 9, 2, 2, 1, [1, 2, 3, 4, 5, 10]),  # and of 3 and 6
        # 40 nanoseconds for a noisy number, ten seconds for all of them.
        (10, 10**6, 10**3, 1, 40, [40]),
        (10**4, 10**6, 100, 1, 4_000, [4_000, 5_000, 10_000]),
    ],
)
def test_batches_worth_trying(rounds, n_items, k, fineness, shortest, lengths):
    question = FullInformation(rounds, BUDGET, n_items=n_items, sets=k, fineness=fineness)
    assert question.shortest == shortest
    assert question._batches == lengths


@pytest.mark.parametrize(("rounds", "k", "window"), [(40, 2, 10), (40, 15, 15), (10**6, 2, None)])
def test_a_first_window_is_at_most_a_quarter_of_the_rounds(rounds, k, window):
    question = FullInformation(rounds, BUDGET, n_items=50, sets=k)
    for name in ("RollingSelector", "PhasedSelector"):
        assert question._windows(name).get("first_window") == window


def test_settings_of_weighted_sums_and_of_returning_people():
    for rounds, every in ((16_000, 100), (100, 1)):
        question = FullInformation(rounds, BUDGET, n_items=20, sets=2)
        *_, last = question._weighted_sums()
        assert last.settings["resample_every"] == every
    budget = dc.Budget(1.0, 1e-6, max_rounds_per_person=3)
    back = FullInformation(100, budget, n_items=20, sets=2, separation=7)
    assert [back.apart(batch)["min_separation"] for batch in (1, 2, 3, 7, 8)] == [7, 3, 2, 1, 1]
    # In 63 rounds, three cycles of 21, everybody comes three times.
    assert np.unique(back.visits(63), return_counts=True)[1].tolist() == [3] * 21


def test_what_any_play_can_lose():
    ball = dc.domains.Ball(3, 2.0)  # four across
    assert dc.plan_convex(ball, 100, BUDGET, lipschitz=1.5).at_random == pytest.approx(4.0 * 1.5 * 100)
    found = dc.plan(10, 1, 1_000, BUDGET, bound=3.0, goal="certified")
    assert found.question.trivial == pytest.approx(3_000 * (1 - 1 / math.e))
    for one in found.question.candidates():
        assert one.certified == pytest.approx(min(one.formula, found.question.trivial))
        assert one.average == pytest.approx(one.certified / 1_000)
