"""Catalogues that change, feedback that comes late, people by their items, and learners that begin with what
another one has released: for every selector."""

import contextlib
import math
import pickle
import sys
from functools import partial
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import discreet as dc
from discreet.core.checks import DataError
from discreet.objectives import Coverage, ProbabilisticCoverage, SetFunction
from discreet.online import HedgeSelector, running_sums, sums, window
from discreet.online.catalogue import Catalogue
from discreet.online.learner import OnlineSelector, Rounds
from discreet.online.partial import MergedParts
from discreet.online.pending import MOST_OPEN, Pending, Waiting
from discreet.online.released import Released
from discreet.privacy.accountant import Accountant, Release
from discreet.privacy.ordered import OrderedExperts, units_per_one
from tests.online.examples import N_ITEMS
from tests.online.learners import FRANK_WOLFE_SETS, SELECTORS
from tests.online.living import ACTIONS, by_slot, live
from tests.online.living import tell as _tell

NAMES = [f"page {i}" for i in range(N_ITEMS)]
SIX = [f"i{j}" for j in range(6)]
BUDGET = dc.Budget(1.0, 1e-6)
SERVING = SELECTORS | FRANK_WOLFE_SETS


@pytest.fixture(params=SERVING, ids=SERVING.keys())
def setting(request):
    return SERVING[request.param]


def _not_empty(learner):
    """The first set with an item in it: under a knapsack there may be none at first."""
    return next(shown for _ in range(20) if len(shown := learner.choose(wait=False)))


# --- any order of calls -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", SERVING)
@settings(max_examples=2, deadline=None, derandomize=True, database=None)
@given(actions=st.lists(st.tuples(st.sampled_from(ACTIONS), st.integers(0, 30)), min_size=15, max_size=50))
def test_a_living_learner(name, actions):
    """Whatever comes: sets hold what is available and nothing else, everybody is learned from once, a set is
    drawn once in a round, and no more is spent than was said before the first round."""
    live(SERVING[name].make(labels=NAMES), NAMES, actions)


def _unchecked_close(rounds, count=1, then=None):
    rounds.number, rounds.is_open = rounds.number + count, False
    if then is not None:
        then()


def _unpaid_epoch(learner, budget, **options):
    with mock.patch.object(Accountant, "charge"):
        return NEXT_EPOCH(learner, budget, **options)


def _epoch_of_all_items(learner, budget, **options):
    epoch = NEXT_EPOCH(learner, budget, **options)
    epoch._catalogue.bring_back(range(N_ITEMS))
    epoch._restrict()
    return epoch


NEXT_EPOCH = OnlineSelector.next_epoch
LATE = [("choose", 0)] * 8 + [("late", 1)] * 7
RETIRED = [("choose", 0), *(("retire", 1),) * 2]
# What goes wrong where, for which learner, what happens then, and how that is noticed.
FAULTS = {
    "a round that does not pass is closed": (
        (Rounds, "close", _unchecked_close),
        "hedge, batches",
        [("part", 0), ("merge", 0), ("choose", 0)],
        "a second draw",
    ),
    "a set is drawn in every round": (
        (HedgeSelector, "_due", lambda _: True),
        "hedge, batches",
        [("choose", 0)] * 20,
        "more draws than were paid for",
    ),
    "feedback stays open": (
        (Pending, "take", lambda pending, round: pending[round]),
        "leader selector",
        LATE,
        "learned from again",
    ),
    "expired rounds stay open": (
        (OnlineSelector, "_expire", lambda _, count: count),
        "thompson, slots",
        [("choose", 0)] * 4 + [("expire", 0)],
        "learned from again",
    ),
    "skipped rounds stay open": (
        (OnlineSelector, "skip", lambda *_: None),
        "hedge, tight",
        [("choose", 0)] * 4 + [("skip", 1)],
        "learned from again",
    ),
    "a server is forgotten": (
        (MergedParts, "add", lambda *_: None),
        "best of both, endless",
        [("part", 1), ("merge", 0)],
        "merged twice",
    ),
    "a batch admits everybody": (
        (Waiting, "admits", lambda *_, **__: True),
        "running sum, sqrt",
        [*LATE, ("choose", 0)],
        "is outside box",
    ),
    "who has to wait is forgotten": (
        (Waiting, "admits", lambda *_, **__: False),
        "phased, fixed windows",
        LATE,
        "somebody was lost",
    ),
    "sets are served as they stand": (
        (Catalogue, "served", lambda _, standing, *__: standing),
        "running sum, weighted",
        [("choose", 0), *(("exclude", number) for number in range(N_ITEMS))],
        "not available",
    ),
    "a file forgets what was retired": (
        (Catalogue, "_state", ("_sets", "changed")),
        "running sum, endless",
        [*RETIRED, ("save", 0), *(("choose", 0),) * 20],
        "not available",
    ),
    "an epoch forgets what was retired": (
        (OnlineSelector, "next_epoch", _epoch_of_all_items),
        "thompson, sets",
        [*RETIRED, ("epoch", 0), *(("choose", 0),) * 20],
        "not available",
    ),
    "an epoch is not charged": (
        (OnlineSelector, "next_epoch", _unpaid_epoch),
        "leader selector",
        [("choose", 0), ("epoch", 1)],
        "not paid for",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_must_hold_is_looked_at(fault, monkeypatch):
    """Each fault is noticed, and the same life without it is a good one."""
    place, name, actions, words = FAULTS[fault]
    live(SERVING[name].make(labels=NAMES), NAMES, actions)
    monkeypatch.setattr(*place)
    with pytest.raises((AssertionError, ValueError), match=words):
        live(SERVING[name].make(labels=NAMES), NAMES, actions)


# --- what can be shown ------------------------------------------------------------------------------


def test_a_round_shows_what_is_available(setting):
    learner = setting.make(labels=NAMES)
    usual = _not_empty(learner)
    assert learner.choose().items == usual.items
    without = learner.choose(exclude=[usual.labels[0]])
    assert usual.labels[0] not in without.labels
    assert learner.choose().items == usual.items  # for that request only
    if not learner._constrained:
        few = NAMES[: learner._width]
        assert sorted(learner.choose(available=few).labels) == sorted(few[: len(usual)])
        assert learner.choose(include=["page 6"]).labels[0] == "page 6"
        with pytest.raises(ValueError, match="items are available; a set has"):
            learner.choose(available=NAMES[: len(usual) - 1] or ["page 0"], exclude=["page 0"])
    assert learner.choose(exclude=[6]).labels == learner.choose(exclude=["page 6"]).labels  # or by number
    with pytest.raises(ValueError, match="did you mean 'page 6'"):
        learner.choose(exclude=["pge 6"])
    with pytest.raises(ValueError, match="not available in this round"):
        learner.choose(include=["page 1"], exclude=["page 1"])


def test_retired_items_are_gone_for_good(setting):
    learner = setting.make(labels=NAMES)
    gone = _not_empty(learner).labels[0]
    learner.retire_items([gone])
    assert gone not in learner.choose().labels
    people = setting.people(20)
    trace = learner.run(people)
    assert NAMES.index(gone) not in set(trace.selections.ravel().tolist())
    with pytest.raises(ValueError, match=r"would be left|make no set"):
        learner.retire_items([name for name in NAMES if name != gone])
    learner.add_items([gone])
    with pytest.raises(ValueError, match="in the catalogue already"):
        learner.add_items([gone])


def test_new_items_are_learned_like_the_others():
    """After a change of catalogue: an item that everybody wants is shown, and the rest was not forgotten."""
    n_items, k, rounds = 12, 2, 6000
    budget, names = dc.Budget(4.0, 1e-6), [f"i{j}" for j in range(n_items)]
    learners = {
        "hedge": dc.online.HedgeSelector(n_items, k, rounds, budget, resample_every=40, labels=names, seed=1),
        "sums": dc.online.RunningSumSelector(
            n_items, k, rounds, budget, weights="norm", resample_every=40, labels=names, seed=1
        ),
        "leader": dc.online.LeaderSelector(n_items, k, None, budget, labels=names, seed=1),
        "both": dc.online.BestOfBothSelector(
            n_items, k, rounds, budget, resample_every=40, labels=names, seed=1
        ),
        "phases": dc.online.PhasedSelector(n_items, k, budget, window=300, labels=names, seed=1),
        "votes": dc.online.RollingSelector(n_items, k, budget, labels=names, seed=1),
        "slots": dc.online.BanditSelector(n_items, k, rounds, budget, feedback="slots", labels=names, seed=1),
        "thompson": dc.online.ThompsonSelector(n_items, k, None, budget, block=20, labels=names, seed=1),
    }
    old = np.zeros((1500, n_items))
    old[:, 3] = np.arange(1500) % 3 != 0
    old[:, 5] = np.arange(1500) % 3 == 0
    new = np.zeros((3000, n_items + 1))
    new[:, 12] = np.arange(3000) % 3 != 0
    new[:, 5] = np.arange(3000) % 3 == 0
    for name, learner in learners.items():
        learner.run(Coverage(old))
        spent = learner.privacy.epsilon(1e-6)
        learner.retire_items(["i3"])
        learner.add_items(["new"])
        assert learner.n_items == 13
        learner.run(Coverage(new))
        served = [set(learner.choose(wait=False).labels) for _ in range(20)]
        assert sum("new" in one for one in served) >= 15, name
        assert not any("i3" in one for one in served), name
        assert learner.privacy.epsilon(1e-6) == spent, name
        assert learner.certified_regret == math.inf, name


def test_items_that_are_not_in_the_catalogue_are_refused():
    """As numbers in lists and in arrays; and new ones, or retired ones, that are named twice."""
    numbers = Catalogue(4, None)
    for wrong in ([-1, 1], [1, 4], [1, 5], [0, 1, 9]):
        for form in (list, np.array):
            with pytest.raises((ValueError, IndexError)):
                numbers.items("items", form(wrong))
    for form in (list, np.array):
        assert numbers.items("items", form([3, 0, 3, 1])).tolist() == [0, 1, 3]
    names = Catalogue(3, ("a", "b", "c"))
    names.retire([1])
    assert names.sorted_out(["b", "x", "y"])[1] == ["x", "y"]
    for twice in (["x", "x"], ["b", "b"], ["b", "x", "x"]):
        with pytest.raises(ValueError, match="one twice"):
            names.sorted_out(twice)
    for size, wrong in ((1, False), (2, False), (1, True)):
        one = Catalogue(size, None)
        one.recent.append(np.array([size if wrong else size - 1]))
        with pytest.raises(ValueError, match="other items") if wrong else contextlib.nullcontext():
            one._resumed()
    assert names.weights("items", {"c": 0.25, 2: 0.75, "a": 0.0})[1].tolist() == [0.75]  # the larger one


def test_functions_of_a_part_are_counted_one_by_one():
    """Sums of everybody's gains, without a compiled loop."""
    likes = [{0}, {0, 2}, {2}, {0}]
    functions = [lambda shown, own=own: float(bool(own & set(shown))) for own in likes]
    people = SetFunction(functions, 3, 1.0, monotone=True)
    assert people.as_rows() is None
    learner = HedgeSelector(3, 1, 9, dc.Budget(math.inf), resample_every=5, seed=0)
    part = learner.partial(server="b")
    part.add_all(people)
    scale = units_per_one(1.0)
    assert np.ravel(part.sums).tolist() == [3 * scale, 0, 2 * scale]


def test_new_items_that_are_refused_bring_no_others_back():
    learner = dc.online.RunningSumSelector(4, 1, 100, dc.Budget(1.0, 1e-6), seed=0)
    learner.retire_items([0])
    with pytest.raises(ValueError, match="more than was paid for"):
        learner.add_items([0, 4])
    assert learner.ranking() == (1, 2, 3)
    learner.add_items([0])
    assert learner.ranking() == (0, 1, 2, 3)


def test_people_move_new_items_no_further_than_the_others():
    """Where a person moves scores by amounts in an interval, they move the score that a new item begins with
    by an amount in it: the range that a draw was paid for stays. (Of means that is not so.)"""
    rng = np.random.default_rng(3)
    scale = units_per_one(1.0)

    def began(scores):
        experts = OrderedExperts(scores.copy(), 0.1, scale, 1 << 32)
        experts.open(np.array([6]), np.arange(6))
        return experts.scores[6]

    worst, of_means = 0, 0.0
    for _ in range(300):
        scores = rng.integers(0, 1000, (6, 2))
        moved = rng.integers(0, 100, (6, 2))
        moved[rng.integers(6)] = 100
        change = began(scores + moved) - began(scores)
        assert (change >= moved.min(axis=0)).all()
        assert (change <= moved.max(axis=0)).all()
        worst = max(worst, int(change.max()))
        of_means = max(of_means, float(np.abs((scores + moved).sum(axis=0) - scores.sum(axis=0)).max()))
    assert 0 < worst <= 100 < of_means


def test_items_that_would_cost_more_are_refused():
    whole = dc.online.RunningSumSelector(5, 2, 50, dc.Budget(1.0, 1e-6), seed=0)
    with pytest.raises(ValueError, match='weights="norm"'):
        whole.add_items([5])
    assert whole.n_items == 5
    capped = dc.online.RunningSumSelector(9, 2, 50, dc.Budget(1.0, 1e-6), items_per_person=2, seed=0)
    capped.add_items([9, 10])
    assert capped.n_items == 11
    with pytest.raises(ValueError, match="new ones are 11"):
        capped.add_items([13])


def test_more_picks_than_were_composed_are_refused():
    """Of three items a set of three takes two choices, of four three: these are declared by their number."""
    exact = dc.online.PhasedSelector(3, 3, BUDGET, method="exact", window=4, seed=0)
    assert exact.settings.event.number == 2
    with pytest.raises(ValueError, match="not paid for"):
        exact.add_items([3])
    assert exact.n_items == 3
    enough = dc.online.PhasedSelector(4, 3, BUDGET, method="exact", window=4, seed=0)
    enough.add_items([4])
    assert enough.n_items == 5


@pytest.mark.parametrize("kind", [dc.online.LeaderSelector, dc.online.BestOfBothSelector])
def test_new_items_take_nothing_out_of_the_account(kind):
    """What was released before they came has been released."""
    learner = kind(4, 2, 100, BUDGET, seed=0)
    learner.choose_many(100)
    before = learner.privacy.spent.epsilon(1e-6)
    learner.add_items([4])
    assert learner.privacy.spent.epsilon(1e-6) == before > 0.99


# --- people by their items --------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in SERVING if not name.startswith(("bandit", "thompson"))])
def test_items_are_the_same_as_a_row(name):
    """A list, a mapping and a vector teach what a population of one teaches."""
    setting = SERVING[name]
    forms = {
        "list": (lambda row: {"items": [NAMES[i] for i in np.flatnonzero(row)]}, Coverage),
        "numbers": (lambda row: {"items": np.flatnonzero(row).tolist()}, Coverage),
        "mapping": (
            lambda row: {"items": {NAMES[i]: row[i] for i in range(N_ITEMS)}},
            ProbabilisticCoverage,
        ),
        "vector": (lambda row: {"person": row}, ProbabilisticCoverage),
    }
    rng = np.random.default_rng(0)
    whole = (rng.random((6, N_ITEMS)) < 0.4).astype(float)
    for form, family in forms.values():
        rows = whole if family is Coverage else whole * rng.choice([0.25, 0.5, 1.0], whole.shape)
        one, other = setting.make(labels=NAMES), setting.make(labels=NAMES)
        for row in rows:
            assert one.choose().items == other.choose().items
            one.learn(**form(row))
            other.learn(family(row[None, :]))
        assert one.choose().items == other.choose().items


def test_people_who_are_none_are_refused():
    learner = dc.online.HedgeSelector(3, 1, 10, dc.Budget(1.0), labels=["a", "b", "c"], seed=0)
    learner.choose()
    for feedback, hidden in [
        ({"items": ["secret"]}, "secret"),
        ({"items": {"a": 1.5}}, "1.5"),
        ({"items": {"a": "much"}}, "much"),
        ({"items": 1.5}, "1.5"),
        ({"person": [1.0, 2.0, 0.0]}, "from 0 to 1"),
        ({"person": [1.0, -0.5, 0.0]}, "from 0 to 1"),
        ({"person": [1.0, math.nan, 0.0]}, "finite"),
        ({"person": [1.0, 0.0]}, "2 entries"),
    ]:
        with pytest.raises(DataError, match="invalid feedback") as caught:
            learner.learn(**feedback)
        assert hidden in caught.value.details  # and nowhere else: it is a fact about somebody
        assert caught.value.__context__ is None
        assert "secret" not in str(caught.value)
    with pytest.raises(TypeError, match="not both"):
        learner.learn(np.ones(3), items=["a"])
    assert learner.round == 0
    bandit = dc.online.ThompsonSelector(3, 1, 10**6, dc.Budget(1.0), seed=0)
    bandit.choose()
    with pytest.raises(TypeError, match="slots"):
        bandit.learn(items=[0])
    slots = dc.online.BanditSelector(5, 2, 500, dc.Budget(1.0), feedback="slots")
    with pytest.raises(DataError, match="a number for each slot"):  # not as if it had been taken
        slots.learn(items={slots.choose().items[0]: 0.0})


def test_who_took_several_counts_a_part_for_each():
    learner = dc.online.ThompsonSelector(4, 2, None, dc.Budget(1.0), feedback="slots", labels=list("abcd"))
    shown = learner.choose()
    learner.learn(items=shown.labels)
    block = next(iter(learner._sum._open.values()))
    assert block.sums.tolist() == [learner._sum.units.most // 2] * 2


# --- feedback that comes late -----------------------------------------------------------------------


def test_a_window_never_holds_more_people_than_rounds(tmp_path):
    """Its sums are exact for so many; who comes late to a full one waits, and the file can be read again."""
    learner = dc.online.PhasedSelector(6, 2, BUDGET, window=10, method="composed", labels=SIX, seed=1)
    rounds = [learner.choose(wait=False).round for _ in range(31)]
    for late in rounds[:25]:
        learner.learn(items=["i1"], round=late)
        assert len(learner._window) <= learner.round - learner._window.opens
    learner.save(tmp_path / "state")
    learner = dc.load(tmp_path / "state")
    assert len(learner._waiting) + len(learner._window) == 25
    for _ in range(30):
        learner.choose(wait=False)
        assert len(learner._window) <= 10
    assert len(learner._waiting) == 0


def test_rounds_that_are_left():
    """A second stream ends with the declared rounds, a part has no more people than these, and no file says
    that one more is open."""
    learner = HedgeSelector(3, 1, 5, BUDGET, resample_every=3, seed=0)
    part = learner.partial(server="b")
    learner.run(Coverage(np.eye(3)))
    assert learner.run(Coverage(np.eye(3))).selections.shape == (3, 1)
    assert (learner.round, learner.over) == (5, True)
    learner = HedgeSelector(3, 1, 5, BUDGET, resample_every=3, seed=0)
    learner.run(Coverage(np.eye(3)))
    part = learner.partial(server="b")
    part.add_all(Coverage(np.eye(3)))
    with pytest.raises(ValueError, match="2 of the declared rounds are left; the part has 3"):
        learner.merge(part)
    rounds = Rounds(3)
    rounds.shown, rounds.number = np.array([1]), 3
    rounds._resumed()
    rounds.is_open = True
    with pytest.raises(ValueError, match="nothing was decided for round 3"):
        rounds._resumed()


def test_a_ranking_begins_with_what_people_took():
    for kind in (dc.online.LeaderSelector, dc.online.RunningSumSelector, HedgeSelector):
        k = 2 if kind is dc.online.RunningSumSelector else 1
        learner = kind(4, k, 60, dc.Budget(math.inf), seed=0)
        learner.run(Coverage(np.tile([[0, 0, 1, 0], [0, 0, 1, 1]], (20, 1))))
        assert learner.ranking()[:2] == (2, 3), kind
        assert learner.ranking(1) == (2,)


def test_people_in_several_pieces_keep_their_names():
    class Pieces(Coverage):
        stored = True

        def batches(self):
            return iter([Coverage([[1, 0]] * 2), Coverage([[1, 0]] * 3)])

    learner = HedgeSelector(2, 1, 9, BUDGET, seed=0)
    learner.run(Pieces([[1, 0]] * 5), person_ids=["ann", "bob", "ann", "eve", "bob"])
    once = HedgeSelector(2, 1, 9, BUDGET, seed=0)
    once.run(Coverage([[1, 0], [1, 0], [0, 0], [1, 0], [0, 0]]))
    np.testing.assert_array_equal(learner._experts.scores, once._experts.scores)


def test_rounds_that_are_waited_for_are_named():
    learner = HedgeSelector(3, 1, 50, BUDGET, seed=0)
    for count, named in ((6, "0, 1, 2, 3, 4$"), (7, "0, 1, 2, 3, 4, ...$")):
        while learner.round < count - 1:
            learner.choose(wait=False)
        with pytest.raises(ValueError, match=f"feedback is open for rounds {named}"):
            learner.learn(items=[1], round=40)


def test_waiting_is_bounded():
    pending, waiting = Pending(), Waiting()
    for round in range(5):
        pending.add(round, ())
    assert pending.oldest == 0
    assert waiting.passed() is None
    assert waiting.admits(np.zeros(1, dtype=np.int64))
    assert not waiting.admits(np.ones(1, dtype=np.int64))
    assert len(waiting) == 1
    assert waiting._people.maxlen == MOST_OPEN
    learner = dc.online.HedgeSelector(3, 1, None or 10**6, dc.Budget(1.0, 1e-6), resample_every=10**5, seed=0)
    learner.choose()
    learner._pending._tickets = dict.fromkeys(range(MOST_OPEN), ())
    learner._rounds.number = MOST_OPEN
    learner.choose(wait=False)
    assert len(learner.pending) == MOST_OPEN
    assert learner.pending[0] == 1  # the oldest has expired


def test_functions_that_wait_are_not_saved(tmp_path):
    learner = dc.online.BestOfBothSelector(3, 1, 50, dc.Budget(1.0, 1e-6), seed=0)
    for _ in range(4):
        learner.choose(wait=False)
    person = SetFunction(lambda items: float(0 in items), 3, bound=1.0, monotone=True)
    for late in (0, 1, 2):
        learner.learn(person, round=late)
    assert len(learner._waiting)
    with pytest.raises(TypeError, match="save after some more rounds"):
        learner.save(tmp_path / "state")
    learner.add_items([3])
    with pytest.raises(ValueError, match="the function is over 3 items"):
        learner.learn(person)


# --- a start from what was released -----------------------------------------------------------------


def test_candidates_alone_are_shown_and_cost_nothing(setting):
    """A public ranking: its first items come first, the others never, and the account is the same."""
    usual = setting.make(labels=NAMES)
    few = 5 if not usual._constrained else 6
    ranking = [NAMES[item] for item in (6, 2, 4, 1, 3, 5)]
    start = Released.ranked(ranking, N_ITEMS, labels=NAMES, candidates=few)
    learner = setting.make(labels=NAMES, start=start)
    assert learner.privacy.epsilon(1e-3) <= usual.privacy.epsilon(1e-3)
    trace = learner.run(setting.people(20))
    shown = {*trace.selections.ravel().tolist()} - {-1}
    assert shown <= {NAMES.index(name) for name in ranking[:few]}
    if learner._width > 1 and not learner._constrained:
        one = Released.ranked(ranking, N_ITEMS, labels=NAMES, candidates=1)
        with pytest.raises(ValueError, match="1 items would be left"):
            setting.make(labels=NAMES, start=one)


def test_a_public_ranking_is_checked_and_shortens_the_first_window():
    budget = dc.Budget(0.1)
    for kind in (dc.online.PhasedSelector, dc.online.RollingSelector):
        start = Released.ranked(range(50), 5_000, candidates=50)
        learner = kind(5_000, 5, budget, start=start, seed=0)
        assert learner.settings.first_window == kind(50, 5, budget).settings.first_window
        assert learner.settings.first_window < kind(5_000, 5, budget).settings.first_window
        assert [*learner.choose().items] == [0, 1, 2, 3, 4]  # the ranking's own, until something is known
    with pytest.raises(ValueError, match="candidates=9 is too large"):
        Released.ranked([3, 1], 5, candidates=9)
    with pytest.raises(ValueError, match="ranking"):
        Released.ranked(["tee"], 2, labels=["tea", "jam"])


def test_a_start_is_worth_something_and_costs_nothing():
    rng = np.random.default_rng(4)
    n_items, k = 30, 3
    chances = 0.5 / np.arange(1, n_items + 1) ** 0.8
    names = [f"i{j}" for j in range(n_items)]
    after = [*names[1:], "new"]  # another catalogue, in another order
    before_people = Coverage(rng.random((4000, n_items)) < chances)
    rows = np.zeros((300, n_items))
    rows[:, :-1] = rng.random((300, n_items - 1)) < chances[1:]
    people, budget = Coverage(rows), dc.Budget(1.0, 1e-6)

    def make(kind, rounds, labels, **more):
        if kind is dc.online.PhasedSelector:
            return kind(n_items, k, budget, labels=labels, seed=2, **more)
        if kind is dc.online.MetaFrankWolfe:
            more |= {"resample_every": 20}
            return kind(dc.constraints.Cardinality(k, n_items), rounds, budget, labels=labels, seed=2, **more)
        if kind is dc.online.HedgeSelector:
            more |= {"resample_every": 250}
        if kind in (dc.online.RunningSumSelector, dc.online.BestOfBothSelector):
            more |= {"resample_every": 20, "weights": "norm"}
        return kind(n_items, k, rounds, budget, labels=labels, seed=2, **more)

    better = {}
    for kind in (
        dc.online.RunningSumSelector,
        dc.online.LeaderSelector,
        dc.online.PhasedSelector,
        dc.online.MetaFrankWolfe,
        dc.online.HedgeSelector,
        dc.online.BestOfBothSelector,
    ):
        old = make(kind, 4000, names)
        old.run(before_people)
        cold, warm = make(kind, 300, after), make(kind, 300, after, start=old)
        assert warm.privacy.epsilon(1e-6) == cold.privacy.epsilon(1e-6)
        assert warm.privacy.spent.epsilon(1e-6) == 0.0
        better[kind.__name__] = warm.run(people).average - cold.run(people).average
    assert all(gain > 0.0 for gain in better.values()), better
    assert sum(better.values()) > 0.2, better


def test_a_start_counts_for_as_many_people_as_it_came_from():
    """Sums begin at values times people; each expert prefers its item of the last set by a public amount."""
    known = Released((2, 0), 4, None, np.array([0.5, 0.1, 0.4, np.nan]), 100, np.full(4, 0.1))
    learner = dc.online.RunningSumSelector(4, 2, 1000, dc.Budget(1.0, 1e-6), start=known, seed=0)
    preferred = running_sums._PREFERENCE * math.log(4) / learner.settings.rate
    assert preferred > 1.0
    expected = [[50.0, 10.0, 40.0 + preferred, 0.0], [50.0 + preferred, 10.0, 40.0, 0.0]]
    assert learner._sum.released == pytest.approx(np.array(expected))
    leader = dc.online.LeaderSelector(4, 2, 1000, dc.Budget(1.0, 1e-6), start=known, seed=0)
    assert np.ravel(leader._sum.released)[:3] == pytest.approx([50.0, 10.0, 40.0])
    full = Released((2, 0), 4, None, np.array([0.5, 0.1, 0.4, 0.2]), 100, np.full(4, 0.1))
    learner = dc.online.RunningSumSelector(4, 2, 1000, dc.Budget(1.0, 1e-6), start=full, seed=0)
    assert learner._sum.averages(0, 2)[0] == pytest.approx([0.5, 0.1, 0.4 + preferred / 100, 0.2])
    halves = dc.online.LeaderSelector(4, 2, 1000, dc.Budget(1.0, 1e-6), bound=2.0, start=known, seed=0)
    assert halves._sum.released == pytest.approx([25.0, 5.0, 20.0, 0.0])


@pytest.mark.parametrize(("noise", "prior"), [(0.0, 20.0), (2.0, 38.4), (50.0, 160.0)])
def test_items_that_came_late_are_drawn_towards_ordinary_ones(noise, prior, monkeypatch):
    """Of two items 160 people have taken 30 and 80, of a third 60 of them 12. An ordinary one is worth
    (30 + 80) / 320 to a person, and counts for 20 people, or as many as it takes that three deviations of
    noise do not make it the best one, and no more than there are."""
    monkeypatch.setattr(sums.PrivateTotal, "_noise", noise)
    known = Released((1, 0), 3, None, np.array([0.1, 0.5, np.nan]), 100, np.full(3, 0.1))
    total = dc.online.LeaderSelector(3, 2, 1000, BUDGET, start=known, seed=0)._sum
    assert total.evidence(0, 1).people.tolist() == [100.0, 100.0, 1.0]
    total.released = np.array([30.0, 80.0, 12.0])
    taken, people, ordinary = np.array([30.0, 80.0, 12.0]), np.array([160, 160, 60]), 110 / 320
    expected = 160 * (taken + prior * ordinary) / (people + prior)
    assert total.scores(60, 1) == pytest.approx(expected)
    found = total.evidence(60, 1, 2.0)
    assert found.means == pytest.approx(expected / 160)
    assert (found.people.tolist(), found.noise, found.unit) == ([160.0, 160.0, 60.0], noise, 2.0)
    means, count, deviations = total.averages(60, 1, 2.0)
    assert count == 160
    assert means == pytest.approx(2 * expected / 160)
    assert deviations == pytest.approx(2 * np.sqrt((noise / 160) ** 2 + 0.25 / people))
    # Of three places the least good of the two known ones is the one to reach; with noise that is far.
    lower = 160 * (taken + (160 if noise else 20) * ordinary) / (people + (160 if noise else 20))
    assert total.scores(60, 3) == pytest.approx(lower)


def test_a_new_item_came_after_those_whom_the_start_is_about():
    known = Released((1, 0), 3, None, np.array([0.1, 0.5, np.nan]), 100, np.full(3, 0.1))
    learner = dc.online.LeaderSelector(3, 2, 1000, BUDGET, start=known, batch=5, seed=0)
    learner.run(Coverage(np.zeros((7, 3))))
    learner.add_items([3])
    assert learner._sum._joined.tolist() == [0, 0, 100, 107]
    assert learner._sum.count == 1  # what was released before items came counts
    learner.run(Coverage(np.zeros((9, 4))))
    assert learner._sum.count == 3
    nobody = dc.online.LeaderSelector(3, 2, 1000, BUDGET, start=known.discounted(0.0), seed=0)
    assert nobody._sum.averages(0, 1)[1] == 1
    assert nobody._sum.averages(0, 1)[0].tolist() == [0.0, 0.0, 0.0]


def test_what_was_released_moves_to_another_catalogue_by_label():
    known = Released((2, 0), 3, ("a", "b", "c"), np.array([0.5, 0.1, 0.4]), 100, np.full(3, 0.1))
    moved = known.over(4, ("c", "d", "b", "a"))
    assert moved.items == (0, 3)
    assert moved.values[[0, 2, 3]].tolist() == [0.4, 0.1, 0.5]
    assert math.isnan(moved.values[1])
    assert known.discounted(0.25).people == 25
    assert known.discounted(0.25).deviations.tolist() == [0.2] * 3
    with pytest.raises(ValueError, match="give both learners labels"):
        known.over(4, None)
    with pytest.raises(TypeError, match="start"):
        dc.online.HedgeSelector(3, 1, 10, dc.Budget(1.0), start=[1])


def test_items_that_are_not_there_any_more_are_not_moved():
    known = Released((2, 0), 3, ("a", "b", "c"), np.array([0.5, 0.1, 0.4]), 100, np.full(3, 0.1), (), (2, 1))
    moved = known.over(3, ("b", "x", "a"))
    assert (moved.items, moved.candidates) == ((2,), (0,))
    assert moved.values[[0, 2]].tolist() == [0.1, 0.5]
    assert np.isnan(moved.values[1])
    with pytest.raises(ValueError, match=r"part=1.5 must be at most 1"):
        known.discounted(1.5)


# --- parts of a crowd -------------------------------------------------------------------------------

DIVIDED = {
    "hedge": lambda: dc.online.HedgeSelector(6, 2, 400, BUDGET, resample_every=25, labels=SIX, seed=3),
    "sums": lambda: dc.online.RunningSumSelector(6, 2, 400, BUDGET, resample_every=25, labels=SIX, seed=3),
    "weighted": lambda: dc.online.RunningSumSelector(
        6, 2, 400, BUDGET, resample_every=25, weights="norm", labels=SIX, seed=3
    ),
    "leader": lambda: dc.online.LeaderSelector(6, 2, 400, BUDGET, batch=25, labels=SIX, seed=3),
    "frank-wolfe": lambda: dc.online.MetaFrankWolfe(
        dc.constraints.Cardinality(2, 6), 400, BUDGET, steps=2, resample_every=25, labels=SIX, seed=3
    ),
    "growing": lambda: dc.online.LeaderSelector(6, 2, None, BUDGET, first_batch=25, labels=SIX, seed=3),
    "phases": lambda: dc.online.PhasedSelector(
        6, 2, BUDGET, window=25, method="composed", labels=SIX, seed=3
    ),
    "thompson": lambda: dc.online.ThompsonSelector(6, 2, None, BUDGET, block=25, labels=SIX, seed=3),
    "slots": lambda: dc.online.ThompsonSelector(
        6, 2, 400, BUDGET, block=25, feedback="slots", labels=SIX, seed=3
    ),
}


BATCHED = DIVIDED | {
    "both": lambda: dc.online.BestOfBothSelector(6, 2, 400, BUDGET, resample_every=25, labels=SIX, seed=3)
}


def _answer(learner, shown, likes):
    """What a learner or a part is told of somebody who likes these items and was shown a set."""
    taken = [SIX[item] for item in likes if SIX[item] in shown.labels]
    if not learner._rewarded:
        return {"items": [SIX[item] for item in likes]}
    return {"items": taken} if by_slot(learner) else {"person": float(bool(taken))}


@pytest.mark.parametrize("name", DIVIDED)
@pytest.mark.parametrize("split", [1, 2, 5])
def test_any_split_decides_as_one_process(name, split):
    """People on one, two or five servers, in any order: the same sets, and the same account."""
    rng = np.random.default_rng(7)
    people = [rng.choice(6, size=rng.integers(0, 4), replace=False).tolist() for _ in range(150)]
    whole, divided = DIVIDED[name](), DIVIDED[name]()
    for likes in people:
        answer = _answer(whole, whole.choose(), likes)
        whole.learn(answer.pop("person", None), **answer)
    done = 0
    while done < len(people):
        shown = divided.choose()
        parts = [divided.partial(server=f"web {number}") for number in range(split)]
        parts = [pickle.loads(pickle.dumps(part)) for part in parts]
        here = people[done : done + min(parts[0].room, len(people) - done)]
        for place, likes in enumerate(here):
            parts[place % split].add(**_answer(divided, shown, likes))
        for part in rng.permutation(np.array([*parts, None], dtype=object)[:-1]):
            divided.merge(part)
        done += len(here)
        assert divided.round == done
    assert divided.choose().items == whole.choose().items
    assert divided.privacy.to_json() == whole.privacy.to_json()


def test_coins_fall_in_the_order_in_which_parts_are_absorbed():
    """One server at a time: a secret sample is that of the same people one by one, in that order."""
    likes = np.random.default_rng(2).integers(0, 6, 400)
    whole, divided = (
        dc.online.PhasedSelector(6, 1, BUDGET, window=200, method="subsampled", labels=SIX, seed=8)
        for _ in "ab"
    )
    for item in likes:
        whole.choose()
        whole.learn(items=[SIX[item]])
    for number, here in enumerate(np.split(likes, 8)):
        part = divided.partial(server=f"web {number}")
        for item in here:
            part.add(items=[SIX[item]])
        divided.merge(part)
    assert divided.choose().items == whole.choose().items
    assert divided._release.sample(64, 1 << 63).tolist() == whole._release.sample(64, 1 << 63).tolist()


def test_people_of_parts_that_cannot_be_are_refused():
    phases = DIVIDED["phases"]()
    part = phases.partial(server="a")
    with pytest.raises(ValueError, match="functions cannot travel"):
        part.add(SetFunction(lambda items: float(0 in items), 6, bound=1.0, monotone=True))
    part.add(items=["i1"])
    part._people.append(part.people[0])  # somebody twice
    with pytest.raises(ValueError, match="other people than it counts"):
        phases.merge(part)
    part._people[:] = [Coverage([[1.0] * 5])]
    with pytest.raises(ValueError, match="over 5 items"):
        phases.merge(part)
    slots = DIVIDED["slots"]()
    part = slots.partial(server="a")
    with pytest.raises(DataError, match="invalid feedback"):
        part.add(next(name for name in SIX if name not in slots.choose().labels))
    part.add(slots.choose().labels[0])
    part._sums[:] = part.sums.max()  # somebody who took two items whole
    with pytest.raises(ValueError, match="its people cannot have"):
        slots.merge(part)
    slots.retire_items(slots.choose().labels[:1])
    with pytest.raises(RuntimeError, match="was retired"):
        slots.partial(server="b")
    both = dc.online.BestOfBothSelector(6, 2, 400, BUDGET, resample_every=25, labels=SIX, seed=3)
    part = both.partial(server="a")
    part.add(items=["i1"])
    part._people.append(part.people[0])  # somebody twice
    with pytest.raises(ValueError, match="other people than it counts"):
        both.merge(part)
    assert phases.round == slots.round == both.round == 0


@pytest.mark.parametrize("name", BATCHED)
def test_a_batch_ends_where_its_room_does(name):
    """Its number stays until then and is another one afterwards: parts of it are late from then on."""
    learner, seen = BATCHED[name](), {}
    while learner.round < 120:
        learner.choose(wait=False)
        if learner.round not in seen:
            batch, room = learner._batch(), learner._room()
            assert batch not in seen.values()
            seen |= dict.fromkeys(range(learner.round, learner.round + min(room, 400)), batch)
        assert learner._batch() == seen[learner.round]
    assert len(set(seen.values())) > 3


@pytest.mark.parametrize("name", DIVIDED)
def test_an_empty_part_draws_nothing(name, monkeypatch):
    """A set is drawn once per batch, as was paid for, however many servers bring nobody."""
    learner = DIVIDED[name]()
    for _ in range(25):
        answer = _answer(learner, learner.choose(), [1])
        learner.learn(answer.pop("person", None), **answer)
    drawn, draw = [], type(learner)._draw
    monkeypatch.setattr(type(learner), "_draw", lambda own: drawn.append(draw(own)) or drawn[-1])
    shown = learner.choose()
    for number in range(3):
        learner.merge(learner.partial(server=f"web {number}"))
        assert learner.choose().items == shown.items
    assert (len(drawn), learner.round) == (1, 25)
    with pytest.raises(ValueError, match="was merged"):
        learner.merge(learner.partial(server="web 0"))


def test_parts_are_absorbed_once_and_in_time(tmp_path):
    learner = DIVIDED["sums"]()
    first, again = learner.partial(server="a"), learner.partial(server="a")
    late, other = learner.partial(server="b"), DIVIDED["leader"]().partial(server="c")
    for _ in range(20):
        first.add(items=["i1"])
    again.add(items=["i1"])
    learner.merge(first)
    with pytest.raises(ValueError, match="of 'a' was merged"):
        learner.merge(again)
    learner.save(tmp_path / "state")
    with pytest.raises(ValueError, match="of 'a' was merged"):
        dc.load(tmp_path / "state").merge(again)
    for _ in range(6):
        late.add(items=["i2"])
    with pytest.raises(ValueError, match="room for 5 people; the part has 6"):
        learner.merge(late)
    next_month = learner.next_epoch(BUDGET, seed=9)
    next_month.choose()
    for alien, own in ((other, learner), (late, next_month)):
        with pytest.raises(ValueError, match="of another learner"):
            own.merge(alien)
    assert learner.round == 20
    rest = learner.partial(server="d")
    for _ in range(5):
        rest.add(items=["i2"])
    with pytest.raises(RuntimeError, match="room for 5 people"):
        rest.add(items=["i2"])
    learner.merge(rest)
    with pytest.raises(ValueError, match="is late: batch 25 is open"):
        learner.merge(late)
    forged = learner.partial(server="e")
    forged.add(items=["i2"])
    for name, value in (("server", "f"), ("count", 0), ("batch", 0), ("id", ""), ("caveats", ())):
        with pytest.raises(AttributeError):
            setattr(forged, name, value)
    with pytest.raises(ValueError, match="read-only"):
        forged.sums += forged.sums
    renamed = pickle.loads(pickle.dumps(forged))
    renamed.__dict__["server"] = "f"
    learner.merge(forged)
    with pytest.raises(ValueError, match="was merged in batch 25 already"):  # the same people, renamed
        learner.merge(renamed)
    travelled = forged.__getstate__()
    for change in (
        {"_count": 0},
        {"server": "f"},
        {"_sums": 2 * forged.sums},
        {"_caveats": ("x",)},
    ):
        with pytest.raises(ValueError, match="was changed while it travelled"):
            type(forged).__new__(type(forged)).__setstate__(travelled | change)
    forged = learner.partial(server="g")
    forged.add(items=["i2"])
    forged._sums += forged._sums  # somebody's gains twice
    with pytest.raises(ValueError, match="its people cannot have"):
        learner.merge(forged)
    with pytest.raises(TypeError, match="server must be a name"):
        learner.partial(server=3)
    with pytest.raises(NotImplementedError, match="every round shows a set of its own"):
        dc.online.BanditSelector(4, 1, 50, BUDGET, feedback="slots", seed=0).partial(server="a")
    capped = dc.online.RunningSumSelector(6, 2, 50, BUDGET, items_per_person=1, seed=0)
    with pytest.raises(ValueError, match="items_per_person= draws items by the round"):
        capped.partial(server="a")


@pytest.mark.parametrize("kind", ["one", "segments"])
def test_an_interruption_while_items_are_added_is_said(kind):
    """Some parts have the new items and others do not: nobody goes on with that, or saves it."""
    make = partial(dc.online.BanditSelector, 5, 2, 5000, feedback="slots")
    if kind == "one":
        learner = make(BUDGET, seed=0)
        where, calls, shown = Catalogue, (KeyboardInterrupt,), learner.choose
    else:
        learner = dc.online.Segments(lambda share: make(share), ["a", "b"], BUDGET, by="x", seed=0)
        where, calls, shown = Waiting, (None, KeyboardInterrupt), partial(learner.choose, "a")
    with pytest.raises(ValueError, match="already"):
        learner.add_items([5, 4])
    with pytest.raises(TypeError):
        learner.add_items(5)
    shown()  # what is refused changes nothing
    with mock.patch.object(where, "grow", side_effect=calls), pytest.raises(KeyboardInterrupt):
        learner.add_items([5])
    for call in (shown, learner.to_bytes, partial(learner.add_items, [5])):
        with pytest.raises(RuntimeError, match=r"add_items\(\) was interrupted half-way"):
            call()


def test_people_of_a_part_are_those_who_were_added():
    """Of learners that keep people: others in their place are noticed, not their number alone."""
    learner = dc.online.RollingSelector(4, 1, BUDGET, first_window=9, seed=0)
    part = learner.partial(server="a")
    part.add(items={0: 0.5, 2: 1.0})
    travelled = part.__getstate__()
    for items in ({0: 0.5, 3: 1.0}, {0: 0.25, 2: 1.0}, [0, 2]):
        other = learner.partial(server="a")
        other.add(items=items)
        with pytest.raises(ValueError, match="was changed while it travelled"):
            type(part).__new__(type(part)).__setstate__(travelled | {"_people": other._people})
    learner.merge(pickle.loads(pickle.dumps(part)))


def test_feedback_of_nothing_takes_the_room_that_somebody_would():
    """Who is absent so moves nobody else; who never answers does: that is taken to be public."""

    def others(first):
        budget = dc.Budget(1.0, 1e-6, "add_remove")
        learner = dc.online.RunningSumSelector(3, 1, 100, budget, resample_every=2, seed=0)
        for _ in range(6):  # of the open batch, of two rounds, one was passed
            learner.choose(wait=False)
        if first is not None:
            learner.learn(items=first, round=0)
        learner.learn(items=[1], round=1)
        return learner._sum.pending[0, 1] > 0, len(learner._waiting)

    assert others([2]) == others([]) == (False, 1)
    assert others(None) == (True, 0)


def test_feedback_of_nothing_stands_for_somebody_under_their_name():
    """Rounds beyond a person's limit take no room, so those of nobody in particular are no substitute."""

    def others(first, who):
        budget = dc.Budget(1.0, 1e-6, "add_remove")
        learner = dc.online.RunningSumSelector(3, 1, 100, budget, resample_every=3, seed=0)
        for _ in range(6):  # of the open batch, of three rounds, two were passed
            learner.choose(wait=False)
        for late in (0, 1):  # the second one is beyond the limit
            learner.learn(items=first, round=late, person_id=who)
        learner.learn(items=[1], round=2, person_id="bob")
        return learner._sum.pending[0, 1] > 0, len(learner._waiting)

    assert others([2], "ann") == others([], "ann") == (True, 0)
    assert others([], None) == (False, 1)


def test_late_feedback_is_learned_once(setting):
    learner = setting.make(labels=NAMES)
    shown = [learner.choose(wait=False) for _ in range(6)]
    assert learner.pending == (0, 1, 2, 3, 4)
    for late in (3, 0, 4):
        _tell(learner, shown[late], True, round=late)
    assert learner.pending == (1, 2)
    with pytest.raises(ValueError, match="has been counted"):
        _tell(learner, shown[3], True, round=3)
    assert learner.expire(before=2) == 1
    assert learner.pending == (2,)
    with pytest.raises(ValueError, match="has expired"):
        _tell(learner, shown[1], True, round=1)
    _tell(learner, shown[5], True)  # the open round, as ever
    assert learner.round == 6


def test_a_finished_learner_learns_nothing_from_late_feedback(setting, monkeypatch):
    """What was promised at the end stays true: nothing more is learned, and no more noise is drawn."""
    learner = setting.make(labels=NAMES)
    shown = [learner.choose(wait=False) for _ in range(9)]
    learner.finish()
    assert learner.pending == ()
    spent, drawn = learner.privacy.spent.to_json(), []
    monkeypatch.setattr(Release, "_draw", lambda *_: drawn.append(1))
    for one in shown:
        with pytest.raises((ValueError, RuntimeError), match=r"or has expired|^finish\(\) was called"):
            _tell(learner, one, True, round=one.round)
    with pytest.raises(RuntimeError, match=r"^finish\(\) was called; choose"):
        _tell(learner, learner.choose(), True)
    assert learner.privacy.spent.to_json() == spent
    assert not drawn


@pytest.mark.parametrize("finished", [False, True])
@pytest.mark.parametrize("kind", ["PhasedSelector", "RollingSelector", "BestOfBothSelector"])
def test_a_learner_that_is_over_keeps_nobody(kind, finished):
    """What no release will be about is in no file: neither the open window, nor votes, nor who waits."""
    learner = getattr(dc.online, kind)(9, 2, budget=dc.Budget(9.0, 1e-6), rounds=99, first_window=40, seed=0)
    while learner.round < 40 or not (finished or learner.over):
        shown = learner.choose(wait=False)
        if shown.round % 3 and not learner.over:
            learner.learn(items=[7, 8], round=shown.round)
        if shown.round == 20:
            learner.learn(items=[7, 8], round=0)
    if finished:
        learner.finish()
    else:
        learner.learn(items=[7, 8], round=learner.pending[0])
    window = learner._votes if kind == "BestOfBothSelector" else learner._window
    assert len(window) == len(learner._waiting) == 0


@pytest.mark.parametrize("call", ["learn", "finish"])
def test_a_learner_is_over_also_where_its_last_round_was_interrupted(call):
    """What it kept is gone, and the ledger knows that no earlier state is to be resumed."""
    gate = dc.Gate(dc.Budget(9.0, 1e-6), 0, definition="zcdp")
    learner = dc.online.PhasedSelector(9, 2, gate, rounds=9, window=20)
    for t in range(9):
        learner.choose()
        before = learner.to_bytes()
        if t == 8:
            place = (learner._window, "learn") if call == "learn" else (learner._gate._owner, "finish")
            stopped = mock.patch.object(*place, side_effect=KeyboardInterrupt)
            with stopped, pytest.raises(KeyboardInterrupt):
                learner.learn(items=[7, 8])
        else:
            learner.learn(items=[7, 8])
    assert learner.over
    learner.finish()
    assert not len(learner._window)
    with pytest.raises(ValueError, match="drawn everything"):
        dc.load(before, gate=dc.Gate.from_state(gate.state()))


@pytest.mark.parametrize("line", range(1, 8))
@pytest.mark.parametrize("call", ["open", "close"])
def test_an_interruption_leaves_a_round_open_or_closed(call, line):
    """At any line: a set that is shown is not drawn again, and a closed round is not open."""

    def watch(frame, event, _):
        nonlocal left
        if frame.f_code is getattr(Rounds, call).__code__ and event == "line":
            left -= 1
            if not left:
                raise KeyboardInterrupt
        return watch

    learner = HedgeSelector(30, 3, 4, BUDGET, seed=0)
    for _ in range(3):
        learner.choose()
        learner.learn(items=[1])
    if call == "close":
        learner.choose()
    known, left, before = learner.released.items, line, sys.gettrace()
    sys.settrace(watch)
    try:
        with contextlib.suppress(KeyboardInterrupt):
            learner.choose() if call == "open" else learner.learn(items=[1])
    finally:
        sys.settrace(before)
    assert learner.released.items in (known, learner.choose().items)
    assert dc.load(learner.to_bytes()).round == learner.round


def test_an_interruption_while_somebody_is_kept_leaves_a_window_that_closes():
    """What is interrupted, or finds no memory, while the first row is copied loses that person only."""
    learner = dc.online.PhasedSelector(9, 2, BUDGET, window=3, method="composed", seed=0)
    learner.choose()
    stopped = mock.patch.object(window, "Run", side_effect=MemoryError)
    with stopped, pytest.raises(MemoryError):
        learner.learn(items=[7, 8])
    learner = dc.load(learner.to_bytes())
    for _ in range(3):
        learner.choose()
        learner.learn(items=[7, 8])
    assert learner.round == 4


def test_a_batch_never_holds_more_people_than_rounds():
    """Sums are declared for n people a vector: with feedback in any order none has more, and everybody
    who came is in one of them."""
    rng, total = np.random.default_rng(5), 0
    for every in (1, 3, 7):
        learner = dc.online.RunningSumSelector(
            4, 1, 400, dc.Budget(1.0, 1e-6), resample_every=every, labels=list("abcd"), seed=1
        )
        vectors, add = [], type(learner._sum.sum).add

        def count(own, vector, vectors=vectors, add=add):
            vectors.append(float(np.max(vector)))
            return add(own, vector)

        object.__setattr__(learner._sum.sum, "add", count.__get__(learner._sum.sum))
        waits = []
        for t in range(300):
            waits.append(learner.choose(wait=False).round)
            burst = int(rng.integers(0, 4)) if t % 50 else 30
            for _ in range(min(burst, len(waits) - 1)):
                late = waits.pop(int(rng.integers(len(waits) - 1)))
                learner.learn(items=["a"], round=late)
                total += 1
        released = sum(vectors) + float(learner._sum.pending.max()) / learner._sum._units
        assert max(vectors) <= every
        assert released + len(learner._waiting) == total
        total = 0


def test_a_state_with_more_open_rounds_than_allowed_is_refused(monkeypatch):
    from discreet.online import pending

    monkeypatch.setattr(pending, "MOST_OPEN", 3)
    waiting = pending.Pending()
    waiting._table = np.array([[1, 0], [2, 0], [3, 0]])
    with pytest.raises(ValueError, match="more than the 3 rounds that can be open"):
        waiting._table = np.array([[1, 0], [2, 0], [3, 0], [4, 0]])
    for wrong in ([[2, 0], [1, 0]], [[1, 0], [1, 0]]):
        with pytest.raises(ValueError, match="not in order"):
            waiting._table = np.array(wrong)
