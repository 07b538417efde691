"""PersonalSelector: everybody's own set from one running sum, and nothing of a history kept."""

from __future__ import annotations

import math
from unittest import mock

import numpy as np
import pytest

import discreet as dc
from discreet.kernels.pairs import UNIT
from discreet.objectives import Coverage, SetFunction
from discreet.online import PersonalSelector
from discreet.online.personal import _PAIRS, _POPULARITY, MOST_ITEMS
from discreet.personal import Factors, PairPlan, Recommender, pair_sums, unit_sums
from tests.states import content

BUDGET, FREE = dc.Budget(1.0, 1e-6), dc.Budget(math.inf)
LABELS = [f"{kind} {i}" for kind in ("tea", "beer", "soap") for i in range(4)]


def tastes(people=6000, seed=0):
    rng = np.random.default_rng(seed)
    rows = np.repeat(np.eye(3), 4, axis=1)[rng.integers(3, size=people)]
    return (rows * (rng.random(rows.shape) < 0.7)).astype(float)


def taught(people=6000, **options):
    learner = PersonalSelector(12, 3, None, BUDGET, labels=LABELS, seed=0, **options)
    learner.run(Coverage(tastes(people)))
    return learner


@pytest.fixture(scope="module")
def shop():
    learner = taught()
    learner.choose()
    return learner


def test_everybody_is_shown_their_own(shop):
    for cluster, kind in enumerate(("tea", "beer", "soap")):
        shown = shop.choose(history=[f"{kind} 1"])
        assert sorted(shown.labels) == [f"{kind} {i}" for i in (0, 2, 3)], cluster
        assert shown.round == shop.round
    assert shop.choose(history=["tea 1", "tea 1", "unheard of"]).items == shop.choose(history=["tea 1"]).items
    assert shop.choose(history=[]).items == shop.choose().items


def test_the_latest_release_is_a_model_for_anybody(shop, tmp_path):
    model = shop.recommender
    assert type(model) is Recommender
    assert model.recommend(["beer 2"], 3).items == shop.choose(history=["beer 2"]).items
    model.save(tmp_path / "model")
    assert dc.load(tmp_path / "model").recommend(["beer 2"], 3).items == shop.choose(history=["beer 2"]).items
    assert model.privacy.epsilon(1e-6) <= 1.0
    assert shop.recommender is model  # until the next release


def test_its_model_is_that_of_the_same_people_at_once():
    """Without noise: what was released is the sum over everybody of the finished batches."""
    rows = tastes(700)
    learner = PersonalSelector(12, 3, None, FREE, first_batch=100, seed=0)
    learner.run(Coverage(rows))
    learner.choose()
    seen = Coverage(rows[: learner.settings.batch_start(learner._sum.count)])
    pairs, sums = pair_sums(seen, np.arange(12)) / UNIT**2, unit_sums(seen) / UNIT
    expected = Factors.of(sums, pairs, len(seen), 0.0)
    model = learner.recommender
    assert model.n_people == len(seen)
    assert model.popularity == pytest.approx(sums / len(seen), abs=1e-12)
    for x in np.eye(12):
        assert model.factors.times_inverse(x) == pytest.approx(expected.times_inverse(x), abs=1e-12)


def test_pairs_are_those_of_the_most_popular_items():
    likes = (np.random.default_rng(0).random((700, 6)) < np.linspace(0.9, 0.1, 6)[[3, 1, 5, 0, 4, 2]]) * 1.0
    learner = PersonalSelector(6, 2, None, FREE, first_batch=100, seed=0)
    learner.run(Coverage(likes))
    with mock.patch.object(PairPlan, "of", return_value=mock.Mock(paired=3)):
        kept, _ = learner._sum.model()[1]
    assert kept.tolist() == [1, 3, 5]


def test_the_first_batch_is_eight_deviations_of_popularity_long():
    settings = PersonalSelector(12, 3, None, BUDGET, seed=0).settings
    assert settings.first_batch == math.ceil(8.0 * float(settings.event.sigma) * 256 / 80)


def test_weights_of_the_joined_matrix_make_at_most_1():
    assert _PAIRS**2 + _POPULARITY**2 <= 256**2
    assert _PAIRS**2 + _POPULARITY**2 > 0.99 * 256**2


def test_before_anything_was_released_a_random_set_without_the_history():
    learner = PersonalSelector(12, 3, None, BUDGET, labels=LABELS, seed=1)
    plain = learner.choose()
    shown = learner.choose(history=[plain.labels[0]])
    assert plain.labels[0] not in shown
    assert set(plain.labels[1:]) <= set(shown.labels)
    assert learner.recommender is None


def test_public_facts(shop):
    shown = shop.choose(history=["tea 1"], exclude=["tea 0"])
    assert set(shown.labels[:2]) == {"tea 2", "tea 3"}
    assert "tea 0" not in shown
    given = shop.choose(history=["tea 1"], include=["soap 3"])
    assert given.labels[0] == "soap 3"
    assert set(given.labels[1:]) < {"tea 0", "tea 2", "tea 3"}
    assert shop.choose(history=["tea 1"], available=["beer 0", "beer 1", "tea 2"]).labels[0] == "tea 2"
    have = [label for label in LABELS if label not in ("tea 1", "beer 2")]
    assert sorted(shop.choose(history=have).labels) == ["beer 2", "tea 1"]


def test_retired_items_are_shown_to_nobody():
    learner = taught(4000)
    learner.retire_items(["tea 0"])
    for t in range(3):
        assert "tea 0" not in learner.choose(history=[f"tea {t + 1}"])
    learner.add_items(["tea 0"])
    assert "tea 0" in learner.choose(history=["tea 1"])
    with pytest.raises(NotImplementedError, match="make a new learner"):
        learner.add_items(["coffee"])


def test_nothing_of_a_history_is_kept():
    """A learner that was asked with histories is byte for byte one that was not."""
    asked, plain = (PersonalSelector(12, 3, None, BUDGET, labels=LABELS, seed=0) for _ in range(2))
    rows = tastes(1500)
    for t, row in enumerate(rows):
        asked.choose(history=np.flatnonzero(row)[:2].tolist())
        plain.choose()
        for learner in (asked, plain):
            learner.learn(items=np.flatnonzero(row).tolist(), person_id=t)
    asked.choose(history=["tea 1", "beer 3"])
    plain.choose()

    assert content(asked.to_bytes()) == content(plain.to_bytes())


def test_late_feedback_and_resuming(tmp_path):
    learner, twin = (PersonalSelector(12, 3, None, BUDGET, labels=LABELS, seed=0) for _ in range(2))
    rows = tastes(1200)
    waiting = []
    for t, row in enumerate(rows):
        shown = learner.choose(history=np.flatnonzero(row)[:1].tolist(), wait=False)
        waiting.append((shown.round, np.flatnonzero(row).tolist()))
        if len(waiting) == 10:
            for number, items in waiting:
                learner.learn(items=items, round=number)
            waiting = []
        if t == 600:
            learner.save(tmp_path / "state")
            learner = dc.load(tmp_path / "state")
        twin.choose()
        twin.learn(items=np.flatnonzero(row).tolist())
    assert learner.recommender.n_people == twin.recommender.n_people > 0
    assert learner.privacy.epsilon(1e-6) <= 1.0


def test_values_of_shown_sets_are_refused_with_the_reason(shop):
    for reward in (1.0, 0, np.float64(0.5), True):
        with pytest.raises(TypeError, match="not public what"):
            shop.learn(reward)


def test_functions_count_by_what_items_are_worth_alone():
    row = tastes(1)[0]
    wanted = set(np.flatnonzero(row).tolist())
    function = SetFunction(lambda items: float(bool(wanted & set(items))), 12, 1.0, monotone=True)
    ours, theirs = (PersonalSelector(12, 3, 40, BUDGET, seed=0) for _ in range(2))
    for learner, person in ((ours, function), (theirs, Coverage(row[None, :]))):
        learner.choose()
        learner.learn(person)
    assert (ours._sum.pending == theirs._sum.pending).all()
    assert ours._sum.pending.any()


@pytest.mark.parametrize(("budget", "sums"), [(BUDGET, "sqrt"), (dc.Budget(2.0, 1e-6, "add_remove"), "tree")])
def test_when_own_sets_begin_is_known_beforehand(budget, sums):
    """The model that comes then is the first with pairs; the one before knows popularity alone."""
    learner = PersonalSelector(12, 3, None, budget, sums=sums, seed=0)
    after = learner.settings.own_sets_after
    ends = list(learner.settings.ends)
    place, rows = ends.index(after), tastes(after)
    assert place > 0
    learner.run(Coverage(rows[: ends[place - 1]]))
    learner.choose()
    assert learner.recommender.paired.size == 0
    learner.run(Coverage(rows[ends[place - 1] :]))
    learner.choose()
    assert learner.recommender.paired.size == 12
    assert PersonalSelector(12, 3, 100, budget).settings.own_sets_after is None
    for epsilon in np.linspace(0.3, 6.0, 20):  # by the noise of the sum itself
        learner = PersonalSelector(12, 3, None, dc.Budget(epsilon, 1e-6), sums=sums, first_batch=100)
        plans = [
            PairPlan.of(people, 12, learner._sum.sum.noise_std(count) * 256 / _PAIRS)
            for count, people in enumerate(learner.settings.ends, 1)
        ]
        first = next(place for place, one in enumerate(plans) if one.paired)
        assert learner.settings.own_sets_after == learner.settings.ends[first]
    free = PersonalSelector(12, 3, None, FREE).settings
    assert free.own_sets_after == free.ends[0]


def test_refusals():
    with pytest.raises(ValueError, match=f"exceeds {MOST_ITEMS}"):
        PersonalSelector(MOST_ITEMS + 1, 3, None, BUDGET)
    with pytest.raises(ValueError, match="delta > 0"):
        PersonalSelector(12, 3, None, dc.Budget(1.0))
    with pytest.raises(ValueError, match="k=13"):
        PersonalSelector(12, 13, None, BUDGET)


def test_an_epoch_begins_with_the_set_that_stood(shop):
    following = shop.next_epoch(BUDGET, seed=3)
    assert following.choose().items == shop.choose().items
    assert following._sum.count == 0


KIND = {label: [float(label.startswith(kind)) for kind in ("tea", "beer", "soap")] for label in LABELS}


def test_public_features_lift_what_is_like_a_history_before_pairs_pay(tmp_path):
    """Of few people popularity alone is known; what is public about items tells kinds apart all the same."""
    plain, told = taught(1200), taught(1200, features=KIND)
    for learner in (plain, told):
        learner.choose()
        assert learner.recommender.reason_.endswith("popularity alone")
    for kind in ("tea", "beer", "soap"):
        shown = told.choose(history=[f"{kind} 1"])
        assert sorted(shown.labels) == [f"{kind} {i}" for i in (0, 2, 3)]
        assert shown.items == told.recommender.recommend([f"{kind} 1"], 3).items
    assert any(label[:3] != "tea" for label in plain.choose(history=["tea 1"]).labels)
    # Nothing is released that was not before, and the account is the same.
    assert told.privacy.to_json() == plain.privacy.to_json()
    assert told.choose().items == plain.choose().items

    told.save(tmp_path / "state")
    again = dc.load(tmp_path / "state")
    assert again.features == told.features
    assert again.choose(history=["soap 2"]).items == told.choose(history=["soap 2"]).items
    assert (again.recommender.features == told.recommender.features).all()
    told.recommender.save(tmp_path / "model")
    assert dc.load(tmp_path / "model").recommend(["soap 2"], 3).items == told.choose(history=["soap 2"]).items
    following = told.next_epoch(BUDGET, seed=1)
    assert following.features == told.features


def test_features_by_label_by_position_and_as_a_frame_are_the_same():
    pandas = pytest.importorskip("pandas")
    rows = np.array(list(KIND.values()))
    mixed = np.random.default_rng(0).permutation(12)
    frame = pandas.DataFrame(rows[mixed], index=[LABELS[i] for i in mixed])
    one, *others = (
        PersonalSelector(12, 3, None, BUDGET, labels=LABELS, features=given)
        for given in (rows, KIND, frame, {**KIND, "unheard of": [9.0, 9.0, 9.0]}, 5.0 * rows)
    )
    assert all(other.features == one.features for other in others)
    assert one.features[0] == (1.0, 0.0, 0.0)


def test_features_that_cannot_be_meant_are_refused():
    def make(features, labels=LABELS):
        PersonalSelector(12, 3, None, BUDGET, labels=labels, features=features)

    some = {label: row for label, row in KIND.items() if label != "beer 2"}
    with pytest.raises(ValueError, match="say nothing about 'beer 2'; give a row for each item by its label"):
        make(some)
    with pytest.raises(ValueError, match="'tea 0' and 11 more"):
        make({f" {label}": row for label, row in KIND.items()})
    with pytest.raises(ValueError, match=r"one row for each of the 12 items, got \(11, 3\)"):
        make(np.ones((11, 3)))
    with pytest.raises(ValueError, match=r"word_features makes them"):
        make([["drink"]] * 12)
    with pytest.raises(ValueError, match="all of one length"):
        make(KIND | {"tea 3": [1.0]})
    with pytest.raises(ValueError, match="features"):
        make(np.full((12, 2), np.nan))
    pandas = pytest.importorskip("pandas")
    with pytest.raises(ValueError, match="say nothing about 'tea 0'"):  # by position? It cannot be known.
        make(pandas.DataFrame(np.ones((12, 2))))
    with pytest.raises(ValueError, match="two rows for one item"):
        make(pandas.DataFrame(np.ones((13, 2)), index=[*LABELS, "tea 0"]))
    make(pandas.DataFrame(np.ones((12, 2))), labels=None)


def test_estimates_are_averages_of_what_people_took():
    likes = np.eye(4)[np.arange(400) % 10 // 4]  # four in ten the first, four the second, two the third
    learner = PersonalSelector(4, 1, 401, FREE, first_batch=400, seed=0)
    learner.run(Coverage(likes))
    learner.choose()
    assert learner.released.values == pytest.approx([0.4, 0.4, 0.2, 0.0], abs=1e-6)
    assert learner.released.people == 400


def test_a_refused_history_takes_nobody_s_round():
    """How many rounds there are is public, and what somebody has is not; lists are read once."""
    learner = dc.online.PersonalSelector(4, 1, None, BUDGET, first_batch=5, seed=0)
    for _ in range(6):
        learner.choose(wait=False)
        with pytest.raises(ValueError, match="must be at least 0"):
            learner.choose(history={0: -1.0}, wait=False)
        assert learner.pending == tuple(range(learner.round))
        shown = {learner.choose(history=[3], exclude=iter([0, 1])).items for _ in range(5)}
        assert shown == {(2,)}
    assert learner.round == 5
