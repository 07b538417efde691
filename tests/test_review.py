"""What a hostile reader broke: one test for each way that people's data, or a false account, came out."""

from __future__ import annotations

import copy
import warnings
from fractions import Fraction
from functools import partial

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.base import clone

import discreet as dc
from discreet.constraints.domains import Ball, Box, Simplex
from discreet.core.checks import DataError
from discreet.objectives import Coverage, MultilinearExtension, MutualInformation
from discreet.offline import PrivateFeatureSelector, PrivateGreedy, PrivateItemSelector
from discreet.privacy import Share

APPROXIMATE = dc.Budget(1.0, 1e-6)
ONCE = dc.Budget(1.0, 1e-6, max_rounds_per_person=1)
IDS = ["ann", "ann", "ann", "bob", "cat", "dan"]
PERMUTED = [5, 4, 3, 2, 1, 0]


# --- places, whatever an index says ------------------------------------------------------------------


def ann_only():
    """Six rounds, of which Ann's three want item 0, and nobody else wants anything."""
    matrix = np.zeros((6, 3))
    matrix[:3, 0] = 1.0
    return matrix


@pytest.mark.parametrize("segments", [False, True])
@pytest.mark.parametrize("named", [list, np.array, partial(pd.Series, index=PERMUTED)])
def test_people_are_known_by_their_place(named, segments):
    made = partial(dc.online.HedgeSelector, 3, 1, 100)
    if segments:
        learner = dc.online.Segments(made, ["u"], ONCE)
        learner.run(Coverage(ann_only()), pd.Series(["u"] * 6, index=PERMUTED), person_ids=named(IDS))
        learner = learner._learners[0]
    else:
        learner = made(ONCE)
        learner.run(Coverage(ann_only()), person_ids=named(IDS))
    assert learner._experts.scores.ravel().tolist() == [1 << 32, 0, 0]


@pytest.mark.parametrize("people", [list, np.array, lambda rows: pd.Series(list(rows), index=PERMUTED)])
def test_costs_are_taken_by_their_place(people, monkeypatch):
    learner, learned = dc.online.LinearLeader(Simplex(3), 6, ONCE, box=(0.0, 1.0)), []
    honest = learner._total.sum.add
    monkeypatch.setitem(learner._total.sum.__dict__, "add", lambda v: learned.append(v) or honest(v))
    learner.run(people(ann_only()), person_ids=IDS)
    assert sum(vector[0] for vector in learned) == 1.0


@pytest.mark.parametrize("people", [pd.DataFrame(np.eye(3)), dict.fromkeys(range(3), np.zeros(3))])
def test_tables_are_no_streams(people):
    learner = dc.online.LinearLeader(Simplex(3), 3, ONCE, box=(0.0, 1.0))
    with pytest.raises(TypeError, match="takes people in order"):
        learner.run(people)


@pytest.mark.parametrize(
    "ids", [pd.DataFrame(np.eye(6)), dict.fromkeys(range(6)), set(range(6)), "abcdef", np.eye(6), 7]
)
def test_what_has_no_order_names_nobody(ids):
    with pytest.raises(TypeError, match="person_ids must be a list"):
        dc.online.HedgeSelector(3, 1, 100, ONCE).run(Coverage(ann_only()), person_ids=ids)


# --- accounts that say what they rest on -------------------------------------------------------------


@pytest.mark.parametrize("other", [{"neighbours": "add_remove"}, {"max_rounds_per_person": 2}])
def test_a_share_is_about_the_people_of_its_gate(other):
    with pytest.raises(ValueError, match="but the gate keeps an account with"):
        Share(dc.Budget(1.0, **other), Fraction(1), None, dc.Gate(dc.Budget(1.0)))


def from_data():
    events = {"who": ["a", "b", "c", "a"], "what": ["x", "y", "rare", "y"]}
    return Coverage.from_events(events, person="who", item="what")


PEOPLE = {
    "population": lambda people: people,
    "extension": MultilinearExtension,
    "list": list,
    "tuple": tuple,
    "list of extensions": lambda people: [MultilinearExtension(one) for one in people],
    "list of pairs": lambda people: [(one.value, one.gradient) for one in map(MultilinearExtension, people)],
}


@pytest.mark.parametrize("stream", PEOPLE.values(), ids=PEOPLE)
def test_everybody_in_a_stream_brings_their_caveats(stream):
    people = from_data()
    learner = dc.online.MetaFrankWolfePoints(
        Box([0.0] * 3, [1.0] * 3), 10, APPROXIMATE, gradient_bound=2.0, steps=2
    )
    learner.run(stream(people))
    assert learner.privacy.caveats == people.caveats != ()


def test_a_pair_of_functions_brings_the_caveats_of_whose_they_are():
    one = MultilinearExtension(from_data()[0])
    learner = dc.online.MetaFrankWolfePoints(
        Box([0.0] * 3, [1.0] * 3), 10, APPROXIMATE, gradient_bound=2.0, steps=2
    )
    learner.choose()
    learner.learn((one.value, one.gradient))
    assert learner.privacy.caveats == one.caveats


def test_a_seed_stays_in_the_accounts_of_what_follows_from_it():
    people = Coverage(np.eye(3)[np.arange(50) % 3])
    first = dc.online.LeaderSelector(3, 1, 50, APPROXIMATE, seed=3)
    first.run(people)
    second = dc.online.LeaderSelector(3, 1, 50, APPROXIMATE, start=first)
    second.run(people[:10])
    heirs = [
        second,
        dc.online.LeaderSelector(3, 1, 50, APPROXIMATE, start=first.released.discounted(0.5)),
        first.next_epoch(APPROXIMATE),
        second.next_epoch(APPROXIMATE),
        dc.online.Segments(
            partial(dc.online.LeaderSelector, 3, 1, None),
            ["u", "v"],
            APPROXIMATE,
            start={"u": first.released},
        ),
        dc.load(second.to_bytes()),
    ]
    assert all("with a seed and are not private" in str(one.privacy) for one in heirs)
    secure = dc.online.LeaderSelector(3, 1, 50, APPROXIMATE)
    secure.run(people)
    assert "seed" not in str(secure.next_epoch(APPROXIMATE).privacy)


@pytest.mark.parametrize("seed", [None, 0])
def test_a_list_of_items_that_was_drawn_with_a_seed_says_so(seed, tmp_path):
    events = {"who": [*range(200), 200], "what": ["tea"] * 200 + ["rare"]}
    listed = dc.data.private_catalogue(events, APPROXIMATE, person="who", item="what", seed=seed)
    people = Coverage.from_events(events, person="who", item="what", items=listed)
    store = dc.data.prepare(events, to=tmp_path / "store", person="who", item="what", items=listed)
    for one in (people, people[:5], copy.deepcopy(people)):
        privacy = PrivateGreedy(1, dc.Budget(1.0)).select(one).privacy
        assert ("NOT private, anyone who knows the seed" in str(privacy)) is (seed is not None)
    assert store.catalogue == people.catalogue == ("private" if seed is None else "seeded")


@pytest.mark.parametrize("of", [dc.Budget(1.0), dc.Gate(dc.Budget(1.0))], ids=["budget", "gate"])
def test_a_share_is_spent_once_whoever_spends_it(of):
    table = np.eye(3)[np.arange(60) % 3]
    one, other = of.split(2)
    first = PrivateItemSelector(k=1, budget=one).fit(table)
    for again in (first, clone(first), PrivateItemSelector(k=1, budget=one)):
        with pytest.raises(dc.BudgetExceeded):
            again.fit(table)
    PrivateItemSelector(k=1, budget=other).fit(table)


@pytest.mark.parametrize(
    "spend",
    [
        lambda share: PrivateGreedy(1, share).select(Coverage(np.eye(3)[np.arange(60) % 3])),
        lambda share: dc.online.HedgeSelector(3, 1, 10, share),
        lambda share: dc.privacy.FactorizedSum(3, 10, share, norm_bound=1.0),
    ],
)
def test_a_share_without_a_gate_is_spent_once_as_well(spend):
    share = APPROXIMATE.split(2)[0]
    spend(share)
    with pytest.raises(dc.BudgetExceeded):
        spend(share)


# --- refusals and warnings that one person decides on ------------------------------------------------


@pytest.mark.parametrize("value", [1448, 2000, 4999, 5000, 10**9])
def test_whether_a_table_is_too_large_follows_from_each_row_alone(value):
    rng = np.random.default_rng(0)
    features, classes = rng.integers(0, 4, (5000, 3)), rng.integers(0, 2, 5000)
    features[17] = value
    with pytest.raises(DataError, match="not below 1448, for 2 features"):
        PrivateGreedy(2, dc.Budget(1.0)).select(MutualInformation(features, classes))
    features[17] = 1447
    assert len(PrivateGreedy(2, dc.Budget(1.0)).select(MutualInformation(features, classes))) == 2


def test_public_numbers_of_values_are_what_a_table_is_measured_by():
    table, classes = [[0, 0], [1, 1], [2, 0]], [0, 1, 0]
    for most in (3, [3, 2], (1 << 20, 2)):
        assert MutualInformation(table, classes, n_values=most).value([0]) > 0.0
    with pytest.raises(DataError, match=r"not below what n_values= declares$"):
        MutualInformation(table, classes, n_values=2)
    with pytest.raises(ValueError, match="n_values has 3 entries"):
        MutualInformation(table, classes, n_values=[3, 3, 3])
    with pytest.raises(ValueError, match="more than 4194304 cells"):
        PrivateGreedy(2, dc.Budget(1.0)).select(MutualInformation(table, classes, n_values=1 << 11))


@pytest.mark.parametrize("objective", ["covariance", "mutual_information"])
@pytest.mark.parametrize("value", [1e155, 1e308, -1.7976931348623157e308])
def test_a_value_that_is_clipped_warns_of_nothing(value, objective):
    table = np.full((30, 3), 0.1)
    table[5, 1] = value
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = PrivateFeatureSelector(1, 100.0, objective=objective, bounds=(0.0, 0.1), classes=[0, 1])
        made.fit(table, np.arange(30) % 2)
    with pytest.raises(ValueError, match="bounds are too far apart"):
        made.set_params(bounds=(-1e308, 1e308)).fit(table, np.arange(30) % 2)


NARROW = {
    "half": (2047, lambda who: np.array([who], dtype=np.float16)),
    "single": ((1 << 24) - 1, lambda who: np.array([who], dtype=np.float32)),
    "coded": ((1 << 24) - 1, lambda who: pa.array([who], pa.float32()).dictionary_encode()),
}


@pytest.mark.parametrize(("last", "column"), NARROW.values(), ids=NARROW)
def test_narrow_floats_name_people_as_far_as_they_count(last, column):
    """Beyond that a float is the name of two people, or of another one: of nobody, as for one cell."""
    for who, people in ((last, 1), (last + 2, None)):
        chunks = [
            {"who": np.array([who]), "what": ["a"]},
            pa.table({"who": column(float(who)), "what": ["b"]}),
        ]
        read = partial(Coverage.from_events, iter(chunks), person="who", item="what", items=["a", "b"])
        if people is None:
            with pytest.raises(DataError):
                read()
        else:
            assert len(read()) == people


SIZES = {
    "box": lambda size: dc.online.LinearLeader(Simplex(2), 9, APPROXIMATE, box=(-size, size), sums="tree"),
    "linear": lambda size: dc.online.LinearLeader(Ball(2), 9, APPROXIMATE, lipschitz=size),
    "leader": lambda size: dc.online.ApproximateLeader(Ball(2), 9, APPROXIMATE, lipschitz=size),
    "curved": lambda size: dc.online.ApproximateLeader(
        Ball(2), 9, APPROXIMATE, lipschitz=1.0, strong_convexity=size
    ),
    "bandit": lambda size: dc.online.BanditApproximateLeader(
        Ball(2), 900, dc.Budget(1.0), bound=size, lipschitz=1.0
    ),
    "bandit's slope": lambda size: dc.online.BanditApproximateLeader(
        Ball(2), 900, dc.Budget(1.0), bound=1.0, lipschitz=size
    ),
}


@pytest.mark.parametrize("size", [1e101, 1e160, 1.7e308])
@pytest.mark.parametrize("make", SIZES.values(), ids=SIZES)
def test_numbers_whose_sums_may_overflow_are_refused_when_settings_are_made(make, size):
    with pytest.raises(ValueError, match=r"at most 1e\+100"):
        make(size)
