"""The verbs of Azure Personalizer: what its clients send and expect, and what is kept of it."""

from __future__ import annotations

import http.client
import json
import re
import time
from contextlib import closing

import pytest

from discreet.service import groups
from discreet.service.api import ranked
from discreet.service.auth import Secrets
from discreet.service.database import open_store
from discreet.service.engine import Live
from discreet.service.groups import Group
from discreet.service.learning import DecisionBlock, Learning

from .conftest import Running
from .test_api import ITEMS, experiment
from .world import NOISY, World, likes

RANK = "/personalizer/v1.0/rank"


class PlainClient:
    """What a client of the retired service sends: its paths and its header, nothing of ours."""

    def __init__(self, service, key, endpoint=""):
        self._port = service.port
        self._headers = {"Ocp-Apim-Subscription-Key": key, "Content-Type": "application/json"}
        self._endpoint = endpoint

    def post(self, path, body=None, method="POST"):
        content = None if body is None else json.dumps(body)
        with closing(http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)) as connection:
            connection.request(method, self._endpoint + path, content, self._headers)
            answer = connection.getresponse()
            text = answer.read()
        return answer.status, json.loads(text) if text else None

    def rank(self, actions=ITEMS, **more):
        given = [{"id": one, "features": [{"colour": "red"}]} for one in actions]
        context = [{"user": {"age": 41}}, {"device": "phone"}]
        return self.post(RANK, {"contextFeatures": context, "actions": given, **more})

    def reward(self, event, value=1.0):
        return self.post(f"/personalizer/v1.0/events/{event}/reward", {"value": value})

    def activate(self, event):
        return self.post(f"/personalizer/v1.0/events/{event}/activate")


def personalizer(service, name, **more):
    """A client whose key is for one experiment."""
    admin = service.client()
    experiment(admin, name, **{"k": 1, "feedback": "bandit", "holdout": 0.0, "outcome_wait": 600.0, **more})
    asked = {"name": name, "role": "app", "experiments": [name]}
    return PlainClient(service, admin.request("POST", "/v1/keys", asked)["key"])


@pytest.fixture(params=["sqlite", "postgres"])
def either_service(request, tmp_path):
    """A service on each kind of store."""
    if request.param == "sqlite":
        yield request.getfixturevalue("shared_service")
        return
    running = Running(tmp_path, store=request.getfixturevalue("postgres_url"))
    yield running
    running.stop()


def test_a_transcript_of_a_client_of_the_retired_service(either_service):
    client = personalizer(either_service, "transcript")
    status, found = client.rank(eventId="visit 17", excludedActions=[], deferActivation=False)
    assert status == 201
    assert list(found) == ["ranking", "eventId", "rewardActionId"]
    assert found["eventId"] == "visit 17"
    assert sorted(one["id"] for one in found["ranking"]) == sorted(ITEMS)
    assert found["ranking"][0] == {"id": found["rewardActionId"], "probability": 1.0}
    assert {one["probability"] for one in found["ranking"][1:]} == {0.0}
    assert client.rank(eventId="visit 17") == (201, found)  # sent again: the same event
    assert client.reward("visit%2017", 0.5) == (204, None)
    assert client.reward("visit%2017", 1.0) == (204, None)  # the first one counts
    assert client.reward("never%20ranked") == (204, None)
    status, found = client.rank()
    assert status == 201
    assert len(found["eventId"]) <= 256
    assert client.reward(found["eventId"]) == (204, None)
    assert client.activate(found["eventId"]) == (204, None)
    status, found = client.rank(deferActivation=True)
    assert status == 201
    assert client.activate(found["eventId"]) == (204, None)
    status, found = client.post("/personalizer/v1.0/configurations/service", method="GET")
    assert (status, found["rewardWaitTime"], found["defaultReward"]) == (200, "PT600S", 0.0)


def test_an_event_is_of_one_person(shared_service):
    """Else somebody's reward would be in a round of another's, beyond their own limit."""
    client = personalizer(shared_service, "named", anonymous=False)
    assert client.rank(eventId="page 1", person="ann")[0] == 201
    status, refused = client.rank(eventId="page 1", person="bob")
    assert (status, refused["error"]["innerError"]["code"]) == (409, "other-person")
    assert client.rank(eventId="page 1", person="ann")[0] == 201


def test_the_endpoint_names_the_experiment_for_keys_of_several(shared_service):
    personalizer(shared_service, "endpoint")
    key = shared_service.key
    status, found = PlainClient(shared_service, key).rank()
    assert (status, found["error"]["innerError"]["code"]) == (400, "which-experiment")
    client = PlainClient(shared_service, key, "/v1/experiments/endpoint")
    status, found = client.rank(person="user 17")
    assert status == 201
    assert client.reward(found["eventId"]) == (204, None)
    assert PlainClient(shared_service, key, "/v1/experiments/nowhere").rank()[0] == 404


def test_excluded_actions_stay_where_they_were(shared_service):
    client = personalizer(shared_service, "excluded")
    for _ in range(20):
        status, found = client.rank(ITEMS[:4], excludedActions=["item 0", "item 2"])
        assert status == 201
        names = [one["id"] for one in found["ranking"]]
        assert (names[0], names[2]) == ("item 0", "item 2")
        assert found["rewardActionId"] == names[1]
        assert {names[1], names[3]} == {"item 1", "item 3"}
        assert found["ranking"][1]["probability"] == 1.0


@pytest.mark.parametrize(
    ("available", "order", "altered"),
    [
        ("abcdef", "dbfcae", False),  # the set that was allocated, what was released, and what was asked for
        ("bcd", "dbc", False),
        ("acef", "fcae", True),  # another item stands in
        ("ae", "ae", True),  # nothing is known of these
    ],
)
def test_a_set_comes_first(available, order, altered):
    block = DecisionBlock(1, 0, 0, 1, [[3, 1]], [(0, 1)], {}, 0, [3, 5, 2], b"")
    live = Live(1, 1, "shop", likes(), NOISY, "", 0, "", 0, list("abcdef"))
    assert ranked(live, block, 0, list(available)) == (list(order), altered)
    assert block.altered == ({0} if altered else set())


def test_refusals_are_that_services_with_fixed_texts(shared_service):
    client, another = [personalizer(shared_service, name) for name in ("refusals", "others")]
    another._endpoint = "/v1/experiments/refusals"
    marker = "marker-815"
    asked = {"actions": [{"id": "item 1", "features": []}]}
    wrong = [
        (400, "unknown-action", client.rank([marker])),
        (400, "no-action", client.rank([])),
        (400, "no-action", client.rank(["item 1", "item 1"])),
        (400, "no-action", client.rank(["item 1"], excludedActions=["item 1"])),
        (400, "body", client.post(RANK, {"actions": marker})),
        (400, "event", client.rank(eventId=marker * 40)),
        (400, "event", client.rank(eventId=f"{marker}/a")),
        (400, "event", client.rank(eventId="")),
        (400, "value", client.reward("a", -1.0)),
        (400, "value", client.reward("a", 1.5)),
        (401, "no-key", PlainClient(shared_service, marker).post(RANK, asked)),
        (403, "role", another.rank()),
    ]
    for status, name, (found, problem) in wrong:
        assert (found, problem["error"]["innerError"]["code"]) == (status, name)
        assert set(problem["error"]) == {"code", "message", "innerError"}
        assert marker not in json.dumps(problem)
    shared_service.client().request("POST", "/v1/populations", {"name": "other", "epsilon": 1.0})
    experiment(shared_service.client(), "likes")
    client = PlainClient(shared_service, shared_service.key, "/v1/experiments/likes")
    assert client.rank()[0] == 409


def test_what_is_kept(service):
    """Rewards, as outcomes of their decisions; nothing of features and event ids."""
    waiting = personalizer(service, "waiting")
    _, signed = waiting.rank()
    waiting.rank(ITEMS[:19], eventId="a", deferActivation=True)
    waiting.reward("a", 0.25)
    waiting.reward("a", 1.0)
    waiting.reward(signed["eventId"], 0.5)
    client = personalizer(service, "shop", block_size=4, outcome_wait=0.0)
    marker = "marker-4711"
    for number in range(32):
        context = [{"user": f"{marker} {number}"}]
        client.post(
            RANK,
            {
                "contextFeatures": context,
                "actions": [{"id": one, "features": [{marker: marker}]} for one in ITEMS],
                "eventId": f"{marker} {number}",
                "person": f"{marker} person",
                "deferActivation": bool(number % 2),
            },
        )
        client.reward(f"{marker}%20{number}")
    time.sleep(1.2)
    for path in service.folder.iterdir():
        assert marker.encode() not in path.read_bytes(), path
    service.stop()
    assert marker not in (service.folder / "log").read_text()
    store = open_store(service.store)
    with store.transaction() as tx:
        assert tx.all("SELECT sequence, body FROM outcome WHERE experiment = 1") == [
            (0, b"0.5"),
            (1, b"0.25"),
        ]
        assert tx.all("SELECT sequence, active FROM request WHERE experiment = 1") == [(1, 0)]
    store.close()


# --- deferred activation ------------------------------------------------------------------------------------


def values(**more):
    return likes(**{"feedback": "bandit", "k": 1, "holdout": 0.25, **more})


def shown(url, plan, config=None):
    """40 decisions; ``plan`` says of each what is reported, and whether it was seen (None: not deferred)."""
    world = World(url, config or values())
    for offset in range(40):
        value, active = plan(offset)
        number = offset.to_bytes(16, "big")
        _, sequence, _ = world.serve(request=None if active is None else number)
        if active is not None:
            served = world.sequences.pop()
            world.sequences.append(served._replace(request=served.request._replace(active=False)))
            world.write()
            if active:
                groups.record(world.store, Group(activated=[(world.shop, number)]))
        if value is not None:
            world.report(sequence, value)
        world.settle()
    one = world.one
    owner = one.learning.gate._owner.id.encode()  # random, whatever the seed is, and so is a digest of it
    state = re.sub(rb'"%b", "number": \d+|"digest": "\w+"' % owner, b"", one.learning.dump()[""])
    return one.next_sequence, one.seq, one.learning.learner.round, state, world


def test_what_was_not_seen_took_nothing(url, tmp_path):
    """Unseen is as no outcome, byte for byte: an event that is not activated moves what one outcome moves."""

    def rewards(offset):
        return float(offset % 3 == 0)

    unseen = shown(url, lambda offset: (rewards(offset), offset % 2 == 0))
    # What was learned from is forgotten, and so is whether it was seen.
    assert unseen[4].rows("SELECT DISTINCT active FROM request") == [(1,)]
    silent = shown(f"{tmp_path}/a.db", lambda offset: (rewards(offset) if offset % 2 == 0 else None, None))
    everything = shown(f"{tmp_path}/b.db", lambda offset: (rewards(offset), None))
    assert unseen[:4] == silent[:4]
    assert unseen[3] != everything[3]


def test_an_erasure_forgets_what_was_seen(file_url):
    world = World(file_url, values())
    for number, name in enumerate((b"ann", b"ben", b"ann", b"ben")):
        world.serve(pseudonym=name.ljust(12), request=number.to_bytes(16, "big"))
        served = world.sequences.pop()
        world.sequences.append(served._replace(request=served.request._replace(active=False)))
    world.write()
    groups.record(world.store, Group(activated=[(world.shop, (0).to_bytes(16, "big"))]))
    world.worker.erase("people", lambda *_: b"ann".ljust(12))
    assert world.rows("SELECT sequence, active FROM request ORDER BY sequence") == [
        (0, 1),
        (1, 0),
        (2, 1),
        (3, 0),
    ]


def rounds_depend_on_who_saw(folder):
    """Whether rounds, releases or blocks of shares differ by who has seen something."""
    found = [shown(f"{folder}/{seen}.db", lambda _, seen=seen: (0.0, seen)) for seen in (True, False)]
    sequences = [one[4].one.learning.measure._open[""].decisions for one in found]
    return found[0][:3] != found[1][:3] or sequences[0] != sequences[1]


def test_no_number_of_rounds_depends_on_who_has_seen_something(tmp_path):
    assert not rounds_depend_on_who_saw(tmp_path)


def test_an_aggregate_that_leaves_out_unseen_rounds_is_noticed(tmp_path, monkeypatch):
    honest = Learning.aggregate

    def aggregate(self, block, outcomes):  # as the retired service did: no learning from what nobody saw
        gone = {offset for offset in range(block.served) if block.first + offset not in outcomes}
        block.altered |= gone
        honest(self, block, outcomes)

    monkeypatch.setattr(Learning, "aggregate", aggregate)
    assert rounds_depend_on_who_saw(tmp_path)


def test_ids_of_requests_are_kept_apart(url):
    secrets, others = Secrets.fresh(), Secrets.fresh()
    made = [secrets.request(1, b"a"), secrets.request(2, b"a"), secrets.request(1, b"b")]
    assert len({*made, others.request(1, b"a")}) == 4
    assert secrets.request(1, b"a") == made[0]
    world = World(url, values())
    first = world.serve(request=b"a")[1]
    world.write()
    assert groups.request(world.store, world.shop, b"a").sequence == first
    assert groups.request(world.store, world.shop, b"b") is None
    assert groups.request(world.store, world.shop + 1, b"a") is None
