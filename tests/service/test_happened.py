"""What happened: populations and their ledgers, erasure, the audit log, documents and files to take away."""

from __future__ import annotations

import csv
import html
import io
import json
import re

import msgspec
import pytest

from discreet.client import ServiceError
from discreet.service import backup, queries
from discreet.service.web import DEFAULTS
from discreet.service.worker import PUBLIC, RESTORED

from .pages import Visitor, key_of, make, serve
from .test_api import experiment, refused
from .world import PURE, World, taken

PERSON = "ann/of the <shop>, a-person-nobody-logs"


def rows_of(text):
    return list(csv.DictReader(io.StringIO(text)))


def served(url, **more):
    world = World(url, taken(**more), PURE)
    for _ in range(160):
        _, sequence, shown = world.serve()
        world.report(sequence, shown[0])
        if world.blocks[0].over:
            world.settle()
    return world


def test_a_ledger_has_every_charge(url):
    world = served(url)
    charges = queries.ledger(world.store, "people")
    (count,) = world.rows("SELECT count(*) FROM charge")[0]
    assert len(charges) == count
    assert [one["number"] for one in charges] == list(range(count, 0, -1))
    assert {one["experiment"] for one in charges} == {"shop"}
    assert {one["period"] for one in charges} == {"2026-11"}
    labels = {row[0] for row in queries.account(world.store, "people")["periods"][0]["rows"]}
    assert {one["release"] for one in charges} == labels
    with pytest.raises(LookupError):
        queries.ledger(world.store, "nobody")


def test_the_document_says_what_the_service_does(url):
    world = served(url, outcome_wait=0.0)
    page = queries.document(world.store, "people")
    assert "Privacy account of people" in page
    assert "parts of people who were served" in page
    assert "Of a person one decision counts in a period" in page
    assert "are deleted after each month" in page
    assert "not private" in page  # there is a seed here


@pytest.mark.parametrize("learner", ["PhasedSelector", "RollingSelector", "BestOfBothSelector", "auto"])
def test_the_document_says_whose_state_holds_outcomes_as_they_came(url, learner):
    config = taken(feedback="full", learner=learner, rounds=4000, holdout=0.0, measure=0.0)
    people = msgspec.structs.replace(PURE, delta=1e-6, definition="gdp")
    page = queries.document(World(url, config, people).store, "people")
    words = f"The state of {learner} also holds what was learned from as it was reported"
    assert (words in page) == (learner != "auto")


def test_a_promise_is_about_what_was_reported_in_its_period():
    """Sets of a period begin with what earlier ones released: who came before has more than one budget."""
    for personal in (False, True):
        assert "had been reported about that person in that period" in queries.promise(
            PURE, personal=personal
        )


def test_a_document_without_charges_says_what_it_takes_for_granted(url):
    """As after a restore, or where the only share was given back."""
    world = World(url, taken(), PURE)
    world.worker.end(world.shop)
    assert not queries.account(world.store, "people")["periods"]
    assert html.escape(PUBLIC[1:]) in queries.document(world.store, "people")
    backup.freeze_after_restore(world.store, world.worker)
    assert html.escape(RESTORED[1:]) in queries.document(world.store, "people")


def test_releases_and_accounts_are_tables(url):
    world = served(url)
    found = queries.releases(world.store, "shop", limit=1000)
    rows = rows_of(queries.releases_table(found))
    shown = [row["item"] for row in rows if row["kind"] == "shown" and row["seq"] == str(found[0]["seq"])]
    assert shown == found[0]["items"]
    blocks = [block for one in found for block in one["shares"]]
    learned = [row for row in rows if row["kind"] == "served, learned"]
    assert [float(row["value"]) for row in learned] == [block["served"][0] for block in blocks]
    assert [int(row["decisions"]) for row in learned] == [block["decisions"][0] for block in blocks]
    account = queries.account(world.store, "people")
    rows = rows_of(queries.account_table(account))
    assert [[row["period"], *list(row.values())[1:]] for row in rows] == [
        ["2026-11", *row] for row in account["periods"][0]["rows"]
    ]


def test_no_cell_is_a_formula():
    text = queries.as_csv(["item"], [["=1+1"], ["@x"], ["-2 socks"], ["plain, with comma"], [-2.5]])
    assert [row["item"] for row in rows_of(text)] == [
        "'=1+1",
        "'@x",
        "'-2 socks",
        "plain, with comma",
        "-2.5",
    ]


# --- over HTTP ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def world(shared_service):
    client = shared_service.client()
    make(client, "shop", ["best", "b", "c"])
    serve(client, "shop", "best", 3)
    experiment(client, "named", anonymous=False, outcome_wait=3600.0)
    return shared_service, client


def test_people_are_erased_by_a_body(world):
    service, client = world
    first = client.decide("named", PERSON)
    assert client.report(first, likes=["item 1"]).counted
    assert client.request("POST", "/v1/populations/named/erase", {"people": [PERSON]}) == {"status": "erased"}
    for wrong in ({"people": []}, {"people": PERSON}, {"person": PERSON}, {"people": [PERSON] * 1001}):
        error = refused(lambda wrong=wrong: client.request("POST", "/v1/populations/named/erase", wrong))
        assert error.status == 422
        assert PERSON not in json.dumps(error.problem)
    nobody = refused(lambda: client.request("POST", "/v1/populations/none/erase", {"people": ["ann"]}))
    assert nobody.status == 404
    visitor = Visitor(service.port, key_of(client, "operator"))
    found = visitor.post("/populations/named/erase", person=PERSON)
    assert (found.status, found.headers["location"]) == (303, "/populations/named?erased#erase")
    assert "nothing more is learned of them" in visitor.get("/populations/named?erased").text
    assert visitor.post("/populations/named/erase", person="").status == 422
    analyst = Visitor(service.port, key_of(client, "analyst"))
    assert analyst.post("/populations/named/erase", person=PERSON).status == 403
    assert "Erase a person" not in analyst.get("/populations/named").text
    seen = [client.request("GET", "/v1/audit"), (service.folder / "log").read_text()]
    assert "a-person-nobody-logs" not in json.dumps(seen)


def test_the_audit_log_tells_who_did_what(world):
    service, client = world
    client.request("POST", "/v1/experiments/shop/pause")
    client.request("POST", "/v1/experiments/shop/resume")
    found = client.request("GET", "/v1/audit?limit=2")["audit"]
    assert [one["action"] for one in found] == [
        "POST /v1/experiments/shop/resume",
        "POST /v1/experiments/shop/pause",
    ]
    assert {one["key_name"] for one in found} == {"first"}
    older = client.request("GET", f"/v1/audit?before={found[-1]['number']}&limit=1")["audit"]
    assert older[0]["number"] == found[-1]["number"] - 1
    page = Visitor(service.port, service.key).get("/audit").text
    assert "POST /v1/experiments/shop/pause" in page
    for role in ("analyst", "operator"):
        with pytest.raises(ServiceError, match="403"):
            service.client(key_of(client, role)).request("GET", "/v1/audit")


def test_the_audit_log_names_what_was_made(world):
    """By a form and by a request; and nothing where nothing was made."""
    service, client = world
    admin = Visitor(service.port, service.key)
    form = DEFAULTS | {"name": "formed", "items": "a\nb\nc", "k": "1"}
    assert admin.post("/new", **form).status == 303
    assert admin.post("/new", **form).status == 422  # there is one already
    assert admin.post("/keys", name="till", role="app").status == 200
    client.create_population("asked", epsilon=1.0)
    client.create_experiment("asked", "asked", ["a", "b"], 1, feedback="slots")
    made = client.request("POST", "/v1/keys", {"name": "one", "role": "app"})["id"]
    actions = [one["action"] for one in client.request("GET", "/v1/audit?limit=5")["audit"]]
    assert actions[:3] == [
        f"POST /v1/keys: key {made}",
        "POST /v1/experiments: experiment asked",
        "POST /v1/populations: population asked",
    ]
    assert re.fullmatch("POST /keys: key [0-9a-f]{12}", actions[3])
    assert actions[4] == "POST /new: experiment formed, population formed"


def test_documents_and_files_are_for_those_who_may_read(world):
    service, client = world
    analyst = Visitor(service.port, key_of(client, "analyst"))
    document = analyst.get("/populations/shop/account.html")
    assert document.headers["content-type"].startswith("text/html")
    assert "style-src 'sha256-" in document.headers["content-security-policy"]
    assert "Sign-off" in document.text
    table = analyst.get("/populations/shop/account.csv")
    assert table.headers["content-disposition"] == 'attachment; filename="account-shop.csv"'
    assert rows_of(table.text)
    assert json.loads(analyst.get("/populations/shop/account.json").text)["population"] == "shop"
    released = json.loads(analyst.get("/experiments/shop/releases.json").text)
    assert released == client.request("GET", "/v1/experiments/shop/releases?limit=1000")["releases"]
    assert len(rows_of(analyst.get("/experiments/shop/releases.csv").text)) > len(released)
    assert analyst.get("/experiments/shop/releases.xml").status == 422
    assert analyst.get("/populations/nobody/account.html").status == 404
    scoped = Visitor(service.port, key_of(client, "analyst", ["shop"]))
    assert scoped.get("/populations/shop/account.html").status == 403
    assert Visitor(service.port).get("/populations/shop/account.html").status == 401
