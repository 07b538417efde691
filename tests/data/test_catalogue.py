"""Where the list of items came from: chosen privately, given, or taken from data; and who says so."""

from __future__ import annotations

import pickle
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import discreet as dc
from discreet.constraints import PartitionMatroid
from discreet.data import private_catalogue
from discreet.data.events import PrivateCatalogue
from discreet.objectives import Coverage, FacilityLocation, Mixture, MultilinearExtension
from discreet.offline import ContinuousGreedy, CurvatureGreedy, PrivateGreedy
from discreet.privacy import Account, BudgetExceeded, Gate

WHERE = {"person": "who", "item": "what"}


def table(people: int = 300) -> dict:
    """Four items that many have, and one that only the last person has, who comes first."""
    who = [people, *(p for p in range(people) for _ in range(2))]
    what = ["Ann's own", *(f"item {(p + 2 * i) % 4}" for p in range(people) for i in range(2))]
    return {"who": who, "what": what}


COMMON = ["item 0", "item 1", "item 2", "item 3"]


# --- a private catalogue -----------------------------------------------------------------------------


def test_common_items_are_listed_and_those_of_one_person_are_not():
    for seed in range(50):
        gate = Gate(dc.Budget(4.0, 1e-9), seed)
        assert list(private_catalogue(table(), gate, **WHERE)) == COMMON
    assert (
        "Ann's own" in Coverage.from_events(table(), **WHERE).labels
    )  # where nothing is chosen, hers is there


def test_neither_order_nor_spelling_depends_on_rows(tmp_path):
    """One person's 1.0, or an item that is no number, must not change how anybody else's are written."""
    people, budget = list(range(400)), dc.Budget(4.0, 1e-9)
    for extra in ([], [1.0], [True], ["1"], [Decimal(1)], ["a word"], [0.5], [10**30]):
        who, what = [*people, 400][: 400 + len(extra)], [*[2, 1] * 200, *extra]
        csv = tmp_path / "events.csv"
        csv.write_text("who,what\n" + "".join(f"{w},{i}\n" for w, i in zip(who, what, strict=True)))
        tables = [{"who": who, "what": what}, {"who": who[::-1], "what": what[::-1]}, csv]
        if extra in ([1.0], [0.5]):
            tables.append({"who": who, "what": np.array(what)})
        for events in tables:
            catalogue = private_catalogue(events, budget, **WHERE, seed=2)
            assert [(type(item), item) for item in catalogue] == [(int, 1), (int, 2)]
            found = Coverage.from_events(events, **WHERE, items=catalogue)
            assert np.bincount(found.indices)[:2].min() >= 200  # all of their events are found again
    zeros = {"who": range(301), "what": np.array([-0.0, *[0.0] * 300])}
    assert str(private_catalogue(zeros, budget, **WHERE, seed=2)[0]) == "0"
    words = {"who": range(300), "what": ["007", "-0", "²"] * 100}
    assert list(private_catalogue(words, budget, **WHERE, seed=2)) == ["-0", "007", "²"]


@pytest.mark.parametrize("extra", ["9", "secret", "1e5", "-3", "", "²", 0.5, (1, 2), b"x", 10**30, "\u0664"])
@pytest.mark.parametrize("neighbours", ["replace", "add_remove"])
def test_an_item_that_is_not_listed_does_not_move_those_that_are(extra, neighbours):
    """Whoever has something that is no number must not have the numbers of others sorted as text."""
    listed = ["9", "10", "100", "11.5", "2e1", "a", "007", "A", "é"]
    expected = ["007", 9, 10, "11.5", "2e1", 100, "A", "a", "é"]
    who = list(range(120 * len(listed)))
    for rows in (1, -1):
        events = {"who": [*who, "victim"][::rows], "what": [*listed * 120, extra or "z"][::rows]}
        found = private_catalogue(events, dc.Budget(9.0, 1e-9, neighbours), **WHERE, seed=3)
        assert [(type(item), item) for item in found] == [(type(item), item) for item in expected]


def test_weights_of_zero_do_not_count():
    events = table() | {"much": [1.0] + [0.0] * 600}
    assert list(private_catalogue(events, dc.Budget(4.0, 1e-9), **WHERE, weight="much", seed=0)) == []


def test_one_gate_holds_the_catalogue_and_the_choice():
    gate = Gate(dc.Budget(4.0, 1e-9), 0)
    catalogue = private_catalogue(table(), gate, **WHERE, share=0.75)
    people = Coverage.from_events(table(), **WHERE, items=catalogue)
    assert (people.catalogue, len(people), people.labels) == ("seeded", 301, tuple(COMMON))
    assert people[0].indices.size == 0  # Ann is there, and her item is not
    greedy = PrivateGreedy(2, gate)
    assert (greedy.share.fraction, greedy.share.definition) == (Fraction(1, 4), "pure")
    best = greedy.select(people)
    assert [event.epsilon for _, event, _ in best.privacy.ledger.counts] == [3, 1]
    assert (best.privacy.epsilon(), best.privacy.delta(4.0)) == (4.0, 1e-9)
    assert catalogue.privacy.epsilon() == 3.0
    with pytest.raises(BudgetExceeded):
        PrivateGreedy(2, gate)
    with pytest.raises(BudgetExceeded):
        greedy.select(people)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("definition", [None, "pure", "zcdp", "gdp"])
@pytest.mark.parametrize("first", [None, "laplace", "gaussian", "catalogue"])
def test_a_shared_gate_keeps_its_definition_whoever_releases(definition, first):
    """Else the account of the picks would take the cheapest definition after others have seen answers."""
    gate = Gate(dc.Budget(1.0, 1e-6), 0, definition=definition)
    if first == "catalogue" and definition in ("zcdp", "gdp"):
        with pytest.raises(BudgetExceeded):  # its delta was not set aside
            private_catalogue(table(), gate, **WHERE, share=0.5)
    elif first == "catalogue":
        private_catalogue(table(), gate, **WHERE, share=0.5)
    elif first == "gaussian" and definition == "pure":
        with pytest.raises(BudgetExceeded):
            gate.gaussian([0.0], 20.0, 1.0)
    elif first is not None:
        getattr(gate, first)([0.0], 20.0, 1.0)
    before = gate.definition
    greedy = PrivateGreedy(2, gate)
    best = greedy.select(Coverage(np.eye(6)[np.arange(3000) % 5]))
    assert gate.definition == (before or gate.definition)
    assert best.privacy.definition == greedy.privacy.definition == gate.definition
    assert 0.9 <= best.privacy.epsilon() == gate.spent.epsilon() <= 1.0


def test_what_is_not_in_a_private_catalogue_is_left_out():
    catalogue = private_catalogue(table(), dc.Budget(4.0, 1e-9), **WHERE, seed=0)
    two = {"who": ["Ann", "bob"], "what": ["Ann's own", "item 1"]}
    people = Coverage.from_events(two, **WHERE, items=catalogue)
    assert (len(people), people.catalogue, people.labels) == (2, "seeded", tuple(COMMON))
    with pytest.raises(ValueError, match="items= does not list the item of every event"):
        Coverage.from_events(two, **WHERE, items=COMMON)


def test_bad_tables_are_refused_before_anything_is_spent():
    gate = Gate(dc.Budget(1.0, 1e-6), 0)
    for events, words in (
        ({"who": [1], "what": [None]}, "every event needs its item"),
        ({"who": [1]}, "not a column"),
    ):
        with pytest.raises(ValueError, match=words):
            private_catalogue(events, gate, **WHERE)
    with pytest.raises(ValueError, match="items_per_person=0"):
        private_catalogue(table(), gate, **WHERE, items_per_person=0)
    assert not gate.spent.ledger.counts


# --- the mark ----------------------------------------------------------------------------------------


def populations() -> dict:
    private = private_catalogue(table(), dc.Budget(4.0, 1e-9), **WHERE, seed=0)
    unknown = private_catalogue(table(), dc.Budget(40.0, 1e-9), **WHERE)
    one = {"who": ["ann"], "what": ["tea"]}
    return {
        "from data": [Coverage.from_events(table(), **WHERE), FacilityLocation.from_events(one, **WHERE)],
        "private": [FacilityLocation.from_events(table(), **WHERE, items=unknown)],
        "seeded": [FacilityLocation.from_events(table(), **WHERE, items=private)],
        "public": [
            Coverage.from_events(table(), **WHERE, items=[*COMMON, "Ann's own"]),
            Coverage.from_events(table(), **WHERE, items=COMMON, unknown_items="drop"),
            Coverage.from_events(table(), **WHERE, items=list(private), unknown_items="drop"),
            Coverage.from_events(one, **WHERE, items=["tea"]),
            Coverage(np.eye(3)),
        ],
    }


def test_people_know_where_their_items_came_from():
    for origin, found in populations().items():
        for people in found:
            assert people.catalogue == origin
            for same in (people[0], people[:1], people.cap_items(1, np.random.default_rng(0))):
                assert same.catalogue == origin
            assert MultilinearExtension(people).caveats == people.caveats
            assert (2 * people).catalogue == origin
            assert bool(people.caveats) == (origin != "public")


def test_a_mixture_is_as_conditional_as_its_worst_part():
    data = Coverage.from_events(table(), **WHERE)
    given = Coverage.from_events(table(), **WHERE, items=data.labels)
    for parts in ((data, given), (given, data)):
        assert Mixture([(0.5, part) for part in parts]).catalogue == "from data"
    assert (given + given).catalogue == "public"


def conditional(account: Account) -> bool:
    """Whether an account says it everywhere: printed, on a page, and after it was written and read."""
    said = ["CONDITIONAL on the list of items" in shown for shown in (str(account), account._repr_html_())]
    again = Account.from_json(account.to_json())
    said += ["CONDITIONAL on the list of items" in str(again), bool(account.caveats)]
    assert len(set(said)) == 1
    return said[0]


SELECTORS = {
    "greedy": lambda: PrivateGreedy(2, dc.Budget(1.0, 1e-6), seed=0),
    "continuous": lambda: ContinuousGreedy(2, dc.Budget(1.0, 1e-6), seed=0),
    "fractional": lambda: ContinuousGreedy(2, dc.Budget(1.0, 1e-6), seed=0),
    "curvature": lambda: CurvatureGreedy(2, dc.Budget(1.0, 1e-6), seed=0),
    "curvature as published": lambda: CurvatureGreedy(
        2, dc.Budget(1.0, 1e-6), noise="laplace", calibration="published", guess=0.5, seed=0
    ),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", SELECTORS)
def test_offline_accounts_carry_the_mark(name):
    data = Coverage.from_events(table(), **WHERE)
    for people in (data, Coverage.from_events(table(), **WHERE, items=data.labels)):
        selector = SELECTORS[name]()
        assert not conditional(selector.privacy)
        if name == "fractional":
            selector.fractional(people)
        else:
            assert conditional(selector.select(people).privacy) == (people is data)
        assert conditional(selector.privacy) == (people is data)


LEARNERS = {
    "hedge": lambda n: dc.online.HedgeSelector(n, 2, 1000, dc.Budget(1.0, 1e-6), seed=0),
    "running sums": lambda n: dc.online.RunningSumSelector(n, 2, 1000, dc.Budget(1.0, 1e-6), seed=0),
    "phased": lambda n: dc.online.PhasedSelector(n, 2, dc.Budget(1.0, 1e-6), seed=0),
    "bandit": lambda n: dc.online.BanditSelector(n, 2, 1000, dc.Budget(1.0, 1e-6), seed=0),
    "Frank-Wolfe": lambda n: dc.online.MetaFrankWolfe(
        PartitionMatroid([[0, 1], list(range(2, n))], 1), 1000, dc.Budget(1.0, 1e-6), seed=0
    ),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", LEARNERS)
def test_online_accounts_carry_the_mark(name, tmp_path):
    data = Coverage.from_events(table(), **WHERE)
    for people in (data, Coverage.from_events(table(), **WHERE, items=data.labels)):
        learner = LEARNERS[name](data.n_items)
        learner.choose()
        if name != "bandit":  # which learns from numbers when it learns one by one
            with pytest.raises((TypeError, ValueError)):
                learner.learn(Coverage.from_events({"who": [1], "what": ["x"]}, **WHERE))
            assert not conditional(learner.privacy)  # a refusal changes nothing
            learner.learn(people[0])
            assert conditional(learner.privacy) == (people is data)
        learner.run(people[:20])
        learner.save(tmp_path / "state")
        for one in (learner, dc.load(tmp_path / "state")):
            assert conditional(one.privacy) == (people is data)
            assert conditional(one.privacy.spent) == (people is data)


DIVIDED = {
    "hedge": lambda share: dc.online.HedgeSelector(20, 2, 1000, share, resample_every=100),
    "leader": lambda share: dc.online.LeaderSelector(20, 2, 1000, share, batch=100),
    "running sums": lambda share: dc.online.RunningSumSelector(20, 2, 1000, share, resample_every=100),
    "phased": lambda share: dc.online.PhasedSelector(20, 2, share, window=100),
    "best of both": lambda share: dc.online.BestOfBothSelector(20, 2, 1000, share, resample_every=100),
    "thompson": lambda share: dc.online.ThompsonSelector(20, 2, None, share),
    "slots": lambda share: dc.online.ThompsonSelector(20, 2, None, share, feedback="slots"),
    "bandit": lambda share: dc.online.BanditSelector(20, 2, 1000, share),
}


def _whoever(origin, tmp_path):
    rows = {"who": list(range(30)), "what": [f"item {i % 20:02}" for i in range(30)]}
    items = None if origin == "from data" else [f"item {i:02}" for i in range(20)]
    listed = {} if items is None else {"items": items}
    store = dc.data.prepare(rows, **WHERE, **listed, to=tmp_path / origin, progress=False)
    return Coverage.from_events(rows, **WHERE, **listed), Coverage.from_store(store)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", DIVIDED)
def test_a_caveat_goes_wherever_people_are_learned_from(name, tmp_path):
    """Parts of other servers, segments, stores, shared accounts, what a later learner begins with."""
    budget, rewards = dc.Budget(1.0, 1e-6), name in ("thompson", "slots", "bandit")
    for origin in ("from data", "public"):
        people, stored = _whoever(origin, tmp_path)
        for some in (people, stored):
            said = [DIVIDED[name](budget)]
            said[0].run(some)
            for whole in () if rewards else (True, False):
                learner = DIVIDED[name](budget)
                learner.choose()
                part = learner.partial("web-1")
                part.add_all(some) if whole else part.add(people[0])
                travels = name not in ("phased", "best of both")  # whose parts hold people as they are
                learner.merge(pickle.loads(pickle.dumps(part)) if travels else part)
                said.append(learner)
            segments = dc.online.Segments(DIVIDED[name], ["de", "fr"], budget)
            if rewards or some is people:
                segments.run(people, ["de"] * len(people))
            else:
                segments.of("de").run(people)
            gate = Gate(budget, definition="zcdp")
            shared = DIVIDED[name](gate.share(0.5))
            shared.run(some)
            said += [segments, shared, said[0].next_epoch(budget)]
            for learner in said:
                for account in (learner.privacy, learner.privacy.spent):
                    assert ("CONDITIONAL" in str(account)) == (origin == "from data"), learner
            assert conditional(gate.spent) == (origin == "from data")


def test_estimators_carry_the_mark():
    from discreet.offline import PrivateItemSelector

    data = Coverage.from_events(table(), **WHERE)
    matrix = data._rows.sparse.toarray()
    plain = PrivateItemSelector(2, 1.0, random_state=0).fit(matrix)
    selector = PrivateItemSelector(2, 1.0, objective=lambda _: data, random_state=0).fit(matrix)
    assert not conditional(plain.privacy_)
    assert conditional(selector.privacy_)


def test_a_private_catalogue_is_mentioned_where_its_cost_may_be_missing():
    catalogue = private_catalogue(table(), dc.Budget(4.0, 1e-9), **WHERE, seed=0)
    assert isinstance(catalogue, PrivateCatalogue)
    people = Coverage.from_events(table(), **WHERE, items=catalogue)
    account = PrivateGreedy(2, dc.Budget(1.0), seed=0).select(people).privacy
    assert "chosen privately from the people's data" in str(account)
    assert "CONDITIONAL" not in str(account)


def test_marks_are_said_once_and_stay():
    gate = Gate(dc.Budget(1.0), 0)
    gate.part("one").add_caveats("a", "a")
    gate.add_caveats("b", "a")
    assert gate.spent.caveats == gate.caveats == ("a", "b")
    assert Gate.from_state(gate.state()).spent.caveats == ("a", "b")


@pytest.mark.parametrize("kind", ["dict", "pandas", "csv"])
def test_any_table_gives_the_same_catalogue(tmp_path, kind):
    import pandas

    events = table()
    if kind == "pandas":
        events = pandas.DataFrame(events)
    elif kind == "csv":
        pandas.DataFrame(events).to_csv(events := tmp_path / "events.csv", index=False)
    assert list(private_catalogue(events, dc.Budget(4.0, 1e-9), **WHERE, seed=1)) == COMMON


def test_a_fresh_gate_is_a_budget():
    people = Coverage(np.eye(4)[np.arange(400) % 3])
    budget = dc.Budget(1.0, 1e-6)
    plain = PrivateGreedy(2, budget, seed=3).select(people)
    shared = PrivateGreedy(2, gate := Gate(budget, 3)).select(people)
    assert (plain.items, plain.privacy.ledger.to_json()) == (shared.items, gate.spent.ledger.to_json())
    with pytest.raises(ValueError, match="a gate has its own randomness"):
        PrivateGreedy(2, gate, seed=3)
    with pytest.raises(ValueError, match="a gate has its own randomness"):
        private_catalogue(table(), gate, **WHERE, seed=3)


def test_a_gate_of_several_rows_per_person_is_kept_to():
    gate = Gate(dc.Budget(6.0, 1e-9, max_rounds_per_person=3), 0)
    people = Coverage.from_events(
        table(2000), **WHERE, items=private_catalogue(table(2000), gate, **WHERE, share=0.5)
    )
    PrivateGreedy(2, gate).select(people)
    assert 5.99 <= gate.spent.epsilon() <= 6.0


def test_a_table_of_one_column_lists_items_and_other_tables_say_what_to_give():
    events = pd.DataFrame({"who": ["ann", "ben"], "what": ["tea", "jam"]})
    items = pd.DataFrame({"what": ["tea", "jam", "milk"], "price": [1, 2, 3]})
    found = Coverage.from_events(events, person="who", item="what", items=items[["what"]])
    assert found.labels == ("tea", "jam", "milk")
    with pytest.raises(ValueError, match=r"items is a table with 2 columns; give the one that lists them$"):
        Coverage.from_events(events, person="who", item="what", items=items)
    with pytest.raises(ValueError, match="items is a table without columns; give a list"):
        Coverage.from_events(events, person="who", item="what", items=items[[]])


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
@pytest.mark.parametrize("argument", ["items", "people"])
def test_people_and_items_are_listed_by_columns_of_any_library(library, argument):
    cells = {"who": ["ann", "ben"], "what": ["tea", "jam"]}
    if library == "pandas":
        table = pd.DataFrame(cells)
    elif library == "polars":
        table = pytest.importorskip("polars").DataFrame(cells)
    else:
        table = pytest.importorskip("pyarrow").table(cells)
    name = "what" if argument == "items" else "who"
    for given in (table[name], table.select([name]) if library == "pyarrow" else table[[name]]):
        found = Coverage.from_events(cells, person="who", item="what", **{argument: given})
        assert len(found) == 2
        assert set(found.labels) == {"tea", "jam"}
    with pytest.raises(ValueError, match=f"{argument} is a table with 2 columns") as refused:
        Coverage.from_events(cells, person="who", item="what", **{argument: table})
    assert not any(cell in str(refused.value) for column in cells.values() for cell in column)


def test_a_table_whose_header_is_somebodys_row_is_refused_without_naming_it():
    people = pd.DataFrame({"ann": ["ben"], "secret": ["other"]})  # read from a file without a header
    with pytest.raises(ValueError, match="people is a table") as refused:
        Coverage.from_events({"p": ["ben"], "i": ["x"]}, person="p", item="i", people=people)
    assert "ann" not in str(refused.value)


def test_accents_composed_or_not_are_one_item(tmp_path):
    events = tmp_path / "visits.csv"
    events.write_text("who,what\nann,cafe\u0301\nben,caf\u00e9\n", encoding="utf-8")
    found = Coverage.from_events(events, person="who", item="what", items=["caf\u00e9", "tea"])
    assert found.labels == ("caf\u00e9", "tea")
    assert found.value([0]) == 1.0
    with pytest.raises(ValueError, match="which files do not tell apart"):
        Coverage.from_events(events, person="who", item="what", items=["caf\u00e9", "cafe\u0301"])


def test_other_encodings_are_refused_with_a_hint_and_can_be_left_out(tmp_path):
    events = tmp_path / "visits.csv"
    events.write_bytes("who,what\nann,caf\u00e9\nben,tea\n".encode("cp1252"))
    with pytest.raises(ValueError, match="another encoding, say which"):
        Coverage.from_events(events, person="who", item="what", items=["tea", "jam"])
    left = Coverage.from_events(events, person="who", item="what", items=["tea", "jam"], skip_bad=True)
    assert left.value(["tea"]) == 0.5  # ann counts, without an item
