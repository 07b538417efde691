"""Events, sticky sets, batches and propensities: what an application can count on when it asks again."""

from __future__ import annotations

import itertools
import math
import time
from collections import Counter

import numpy as np
import pytest

import discreet as dc
from discreet.client import Acknowledgement
from discreet.service import groups
from discreet.service.learning import Learning

from .conftest import Running
from .test_api import experiment, refused
from .world import ITEMS, World, likes, taken


@pytest.fixture(params=["sqlite", "postgres"])
def anywhere(request, tmp_path):
    """A service on each database."""
    store = request.getfixturevalue("postgres_url") if request.param == "postgres" else None
    running = Running(tmp_path, store=store)
    yield running
    running.stop()


def decide(client, name, **asked):
    return client.request("POST", f"/v1/experiments/{name}/decisions", asked)


def shop(client, name="shop", **more):
    """Somebody has two decisions that count."""
    client.request("POST", "/v1/populations", {"name": name, "epsilon": 1.0, "max_rounds_per_person": 2})
    asked = {"name": name, "population": name, "items": ITEMS, "k": 3, "feedback": "slots"}
    client.request("POST", "/v1/experiments", asked | {"outcome_wait": 600.0} | more)


def test_an_event_is_one_decision_whose_outcome_is_reported_under_it(anywhere):
    client = anywhere.client()
    shop(client)
    first = decide(client, "shop", person="ann", event="visit 17")
    assert decide(client, "shop", person="ann", event="visit 17") == first
    anywhere.kill()
    anywhere.start()
    client = anywhere.client()
    assert decide(client, "shop", person="ann", event="visit 17") == first
    path = "/v1/experiments/shop/events/visit%2017/outcome"
    for status, counted in (("recorded", True), ("duplicate", True)):
        assert client.request("POST", path, {"taken": first["items"][0]}) == {
            "status": status,
            "counted": counted,
        }
    assert client.report(first["decision_id"], taken=None) == Acknowledgement("duplicate", True)
    other = decide(client, "shop", person="ann", event="visit 18")
    assert other["decision_id"] != first["decision_id"]
    assert refused(lambda: decide(client, "shop", person="ben", event="visit 17")).name == "other-person"
    unknown = "/v1/experiments/shop/events/nothing/outcome"
    assert client.request("POST", unknown, {"taken": None}) == {"status": "late", "counted": False}
    for wrong in (
        {"person": "ann", "event": ""},
        {"person": "ann", "event": "a/b"},
        {"person": "ann", "event": "x" * 257},
        {"person": "ann", "event": "x", "count": 2},
    ):
        problem = refused(lambda wrong=wrong: decide(client, "shop", **wrong)).problem
        assert (problem["at"], problem["status"]) == ("$.event", 422)


def test_the_same_person_has_the_same_set_for_a_while(anywhere):
    """By a rule that everybody can check: stretches of a day, of the clock. It counts once."""
    client = anywhere.client()
    shop(client, sticky=86_400.0, block_size=4)
    if time.time() % 86_400 > 86_300:
        time.sleep(86_401 - time.time() % 86_400)  # so that all of this is in one stretch
    first = client.decide("shop", "ann")
    others = [client.decide("shop", f"person {number}") for number in range(9)]
    assert len({one.id for one in [first, *others]}) == 10
    assert client.decide("shop", "ann") == first
    anywhere.kill()
    anywhere.start()
    client = anywhere.client()
    assert client.decide("shop", "ann", key="another visit") == first
    assert client.report(first, taken=first.items[0]) == Acknowledgement("recorded", True)
    assert client.report(first, taken=None).status == "duplicate"
    without = client.decide("shop", "ann", exclude=[first.items[0]])
    assert first.items[0] not in without.items
    assert client.decide("shop", "ann", exclude=[first.items[0]]) == without
    many = client.decide_many("shop", ["ann", "person 3", "zoe"])
    assert many[:2] == [first, others[3]]
    client.request("PATCH", "/v1/experiments/shop", {"retire_items": [first.items[0]]})
    assert first.items[0] not in client.decide("shop", "ann").items
    assert refused(lambda: decide(client, "shop", person="ann", event="x")).problem["at"] == "$.event"


def test_sticky_sets_are_kept_for_their_stretch_and_end_with_their_epoch(url):
    world = World(url, taken(sticky=3600.0, holdout=0.0))
    block, sequence, _ = world.serve(pseudonym=b"p" * 12)
    one = world.sequences[-1]
    where = (world.shop, b"n" * 16, 0, sequence, False, b"p" * 12, True, "{}")
    stays = 3600.0 - groups.KEEP
    world.sequences[-1] = one._replace(request=groups.KeptRequest(*where, stays))
    world.sequences.append(
        one._replace(offset=1, request=groups.KeptRequest(where[0], b"o" * 16, *where[2:]))
    )
    block.served = 2
    world.write()
    (kept,), (plain,) = (
        world.rows("SELECT at FROM request WHERE id = ?", name) for name in (b"n" * 16, b"o" * 16)
    )
    assert kept[0] - plain[0] == pytest.approx(stays, abs=5)
    world.now = world.now.replace(month=12)
    world.settle()
    # Nobody's pseudonym outlives the period for a set that nobody can ask for any more.
    assert [bytes(one) for (one,) in world.rows("SELECT id FROM request")] == [b"o" * 16]


def test_sticky_sets_of_what_is_paused_are_kept_for_its_period(url):
    world = World(url, taken(sticky=7 * 86400.0))
    world.serve(pseudonym=b"p" * 12, request=b"n" * 16)
    world.write()
    with world.store.transaction() as tx:
        tx.do("UPDATE request SET at = at + 600000")
    world.worker.set_status(world.shop, "paused")
    world.worker.forget_people()
    assert len(world.rows("SELECT id FROM request")) == 1
    world.now = world.now.replace(month=12)
    world.settle()
    world.worker.forget_people()
    for table in ("visit", "request"):
        assert not world.rows(f"SELECT pseudonym FROM {table}")


def test_many_decisions_at_once_are_those_of_their_people(anywhere):
    client = anywhere.client()
    shop(client)
    people = [f"person {number}" for number in range(100)]
    found = client.decide_many("shop", people, key="batch")
    assert client.decide_many("shop", people, key="batch") == found
    assert len({one.id for one in found}) == 100
    assert client.decide("shop", people[0]).id not in {one.id for one in found}  # their second, and last
    third = client.decide_many("shop", [people[0]])[0]
    outcomes = [{"decision_id": one.id, "taken": one.items[0]} for one in (*found, third)]
    said = client.report_many(outcomes)
    assert [one.counted for one in said] == [True] * 100 + [False]
    assert {one.status for one in said} == {"recorded"}
    for wrong in ({"people": []}, {"people": ["a"], "person": "b"}, {"people": ["a"], "count": 2}):
        assert refused(lambda wrong=wrong: decide(client, "shop", **wrong)).problem["at"] == "$.people"
    assert refused(lambda: client.decide_many("shop", ["x"] * 1001)).problem["at"] == "$.people"
    assert refused(lambda: client.decide_many("shop", 5)).name == "person"


def test_decisions_that_are_fetched_ahead(shared_service):
    client = shared_service.client()
    experiment(client, "ahead", feedback="slots", outcome_wait=600.0)
    taken_up = list(itertools.islice(client.prefetched("ahead", 40), 100))
    assert len({one.id for one in taken_up}) == 100
    assert {one.status for one in client.report_many([{"decision_id": taken_up[-1].id, "taken": None}])} == {
        "recorded"
    }


def test_a_label_that_is_none_is_refused(shared_service):
    """A typo is not "took nothing". What is in the catalogue and was not shown is."""
    client = shared_service.client()
    shop(client, "typo")
    decision = client.decide("typo", "ann")
    error = refused(lambda: client.report(decision, taken="item 1O"))
    assert (error.name, error.problem["at"]) == ("outcome", "$.taken")
    assert "item 1O" not in str(error.problem)
    (said,) = client.request("POST", "/v1/outcomes", [{"decision_id": decision.id, "taken": "nonsense"}])
    assert (said["status"], said["at"]) == ("refused", "$.taken")
    client.request("PATCH", "/v1/experiments/typo", {"add_items": ["new"]})
    assert client.report(decision, taken="new").status == "recorded"


@pytest.mark.parametrize("taken", [5, "\ud800", float("nan"), [["x"]]])
def test_what_one_person_says_refuses_nobody_elses_outcome(shared_service, taken):
    """Such as half of a character, or what a browser sent in the place of a label: only theirs is refused."""
    client = shared_service.client()
    shop(client, name := f"said{abs(hash(str(taken)))}")
    ann, ben = client.decide_many(name, ["ann", "ben"])
    outcomes = [{"decision_id": ann.id, "taken": taken}, {"decision_id": ben.id, "taken": ben.items[0]}]
    first, second = client.request("POST", "/v1/outcomes", outcomes)
    assert (first["status"], first["type"], second["status"]) == ("refused", "body", "recorded")
    assert client.report(ann, taken=None).status == "recorded"


# --- propensities --------------------------------------------------------------------------------------


def test_a_propensity_is_how_often_a_set_is_shown():
    """Over many blocks of which each shows one set but for its hold-out; 5.3 standard deviations each."""
    config = likes(items=["a", "b", "c", "d"], k=2, holdout=0.25, seed=None)
    seen, expected, variance = Counter(), Counter(), Counter()
    learning = Learning.begin(config, dc.Gate(dc.Budget(1.0, 1e-6), 11, definition="gdp"))
    for number in range(40):
        block = learning.allocate(1, 0, 250 * number, 250, b"")
        by_set = {frozenset(block.lists[one]): block.propensity(one, 0.25) for one in set(block.which)}
        assert math.isclose(max(by_set.values()), 0.75 + 0.25 / 6)
        for items in map(frozenset, itertools.combinations(range(4), 2)):
            chance = by_set.get(items, 0.25 / 6)
            assert chance == pytest.approx(0.25 / 6) or chance == pytest.approx(0.75 + 0.25 / 6)
            expected[items] += 250 * chance
            variance[items] += 250 * chance * (1 - chance)
        seen.update(frozenset(block.lists[one]) for one in block.which)
    for items, mean in expected.items():
        assert abs(seen[items] - mean) < 5.3 * math.sqrt(variance[items])
    assert sum(expected.values()) == pytest.approx(10_000)


def test_propensities_are_told_where_they_are_public(shared_service):
    client = shared_service.client()
    experiment(client, "likely", feedback="full", holdout=0.5)
    chances = {round(one.propensity, 9) for one in client.decide_many("likely", 64)}
    apart = 0.5 / math.comb(20, 3)
    assert chances == {round(apart, 9), round(0.5 + apart, 9)}
    assert client.decide("likely", exclude=client.decide("likely").items[:1]).propensity is None
    shop(client, "drawn")
    assert client.decide("drawn", "ann").propensity is None  # each set is drawn anew


def test_the_propensity_of_a_control_set_is_the_hold_out(shared_service):
    """Whatever of 40 decisions: the chance that is told is that of the hold-out, or of the rest."""
    client = shared_service.client()
    more = {"feedback": "full", "holdout": 0.4, "control": ITEMS[:2], "block_size": 64}
    experiment(client, "controlled", **more)
    shown = client.decide_many("controlled", 40)
    for one in shown:
        assert one.propensity == pytest.approx(0.4 if sorted(one.items) == ITEMS[:2] else 0.6)
    assert len({one.propensity for one in shown}) == 2


def test_rankings_have_offered_actions_only(shared_service):
    """Whatever is offered, in whatever order: all of these, and no other."""
    client = shared_service.client()
    client.request("POST", "/v1/populations", {"name": "front", "epsilon": 1.0, "anonymous": True})
    asked = {"name": "front", "population": "front", "items": ITEMS, "k": 2, "feedback": "bandit"}
    client.request("POST", "/v1/experiments", asked)
    rng = np.random.default_rng(4)
    for _ in range(40):
        offered = [ITEMS[item] for item in rng.permutation(12)[: rng.integers(1, 12)]]
        excluded = [one for one in offered[1:] if rng.random() < 0.3]
        body = {"actions": [{"id": one} for one in offered], "excludedActions": excluded}
        found = client.request("POST", "/v1/experiments/front/personalizer/v1.0/rank", body)
        ranking = [one["id"] for one in found["ranking"]]
        assert sorted(ranking) == sorted(offered)
        assert found["rewardActionId"] in set(offered) - set(excluded)
        assert all(ranking[offered.index(one)] == one for one in excluded)
