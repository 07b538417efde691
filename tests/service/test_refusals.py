"""Every refusal says where, what is allowed there, and what to do; and repeats nothing of what was sent."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request

import pytest

from discreet.service.config import ExperimentConfig, PopulationConfig

from .conftest import Running
from .test_api import refused

MARKER = "zqx9"
GOOD = {"name": "e", "population": "visitors", "items": ["a", "b", "c"], "k": 1, "feedback": "slots"}


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def anywhere(request, tmp_path_factory):
    """A service on each database, with the population that the documentation begins with."""
    url = None
    if request.param == "postgres":
        server = request.getfixturevalue("postgres")
        url = server.create()
    running = Running(tmp_path_factory.mktemp("service"), store=url)
    client = running.client()
    client.request("POST", "/v1/populations", {"name": "visitors", "epsilon": 1.0})
    client.request("POST", "/v1/experiments", GOOD | {"name": "shop"})
    yield running
    running.stop()
    if url is not None:
        server.drop(url)


BODIES = [
    # path, body, where, a word of what is allowed
    ("/v1/experiments", {**GOOD, "feedback": "full"}, "$.feedback", "delta"),
    ("/v1/experiments", {k: v for k, v in GOOD.items() if k != "feedback"}, "$.feedback", "delta"),
    ("/v1/experiments", {**GOOD, "k": 0}, "$.k", ">= 1"),
    ("/v1/experiments", {**GOOD, "k": 4}, "$.k", "number of items"),
    ("/v1/experiments", {**GOOD, "k": 1.5}, "$.k", "int"),
    ("/v1/experiments", {**GOOD, "items": []}, "$.items", "length >= 1"),
    ("/v1/experiments", {**GOOD, "items": [MARKER, ""]}, "$.items[1]", "length >= 1"),
    ("/v1/experiments", {**GOOD, "items": ["a", f"{MARKER}\0"]}, "$.items[1]", "control characters"),
    ("/v1/experiments", {**GOOD, "items": ["a", f"{MARKER}\n"]}, "$.items[1]", "control characters"),
    ("/v1/experiments", {**GOOD, "items": ["a", 3]}, "$.items[1]", "str"),
    ("/v1/experiments", {**GOOD, "items": [MARKER, MARKER]}, "$.items", "distinct"),
    ("/v1/experiments", {**GOOD, "share": 0}, "$.share", "> 0"),
    ("/v1/experiments", {**GOOD, "share": 1.1}, "$.share", "<= 1"),
    ("/v1/experiments", {**GOOD, "measure": 1}, "$.measure", "<= 0.9"),
    ("/v1/experiments", {**GOOD, "measure": 0}, "$.measure", "measure above 0"),
    ("/v1/experiments", {**GOOD, "holdout": 0.6}, "$.holdout", "<= 0.5"),
    ("/v1/experiments", {**GOOD, "outcome_wait": -1}, "$.outcome_wait", ">= 0"),
    ("/v1/experiments", {**GOOD, "outcome_wait": 1e12}, "$.outcome_wait", "<= 604800"),
    ("/v1/experiments", {**GOOD, "block_size": 1 << 17}, "$.block_size", "<= 65536"),
    ("/v1/experiments", {**GOOD, "sticky": 1e9}, "$.sticky", "<= 604800"),
    ("/v1/experiments", {**GOOD, "bound": 0}, "$.bound", "> 0"),
    ("/v1/experiments", {**GOOD, "rounds": 0}, "$.rounds", ">= 1"),
    ("/v1/experiments", {**GOOD, "learner": "HedgeSelector"}, "$.learner", "ThompsonSelector"),
    ("/v1/experiments", {**GOOD, "segments": ["a", "a"]}, "$.segments", "distinct"),
    ("/v1/experiments", {**GOOD, "candidates": ["nothing"]}, "$.candidates", "not among the items"),
    ("/v1/experiments", {**GOOD, "options": {"nonsense": 1}}, "$", "does not take"),
    ("/v1/experiments", {**GOOD, "feedback": MARKER}, "$.feedback", "bandit, full, slots"),
    ("/v1/experiments", {**GOOD, MARKER: 1}, "$", "Known ones"),
    ("/v1/experiments", {"name": "e"}, "$", "required field"),
    ("/v1/experiments", {**GOOD, "name": ""}, "$.name", "64 letters"),
    ("/v1/experiments", {**GOOD, "name": "a\0"}, "$.name", "64 letters"),
    ("/v1/experiments", {**GOOD, "population": MARKER}, "$.population", None),
    ("/v1/experiments", [], "$", "object"),
    ("/v1/experiments", None, "$", "required field"),
    ("/v1/populations", {"name": "p", "epsilon": 0}, "$.epsilon", "> 0"),
    ("/v1/populations", {"name": "p", "epsilon": "much"}, "$.epsilon", "float"),
    ("/v1/populations", {"name": "p", "epsilon": 1, "delta": 1}, "$.delta", "< 1"),
    (
        "/v1/populations",
        {"name": "p", "epsilon": 1, "max_rounds_per_person": 0},
        "$.max_rounds_per_person",
        "1",
    ),
    ("/v1/populations", {"name": "p", "epsilon": 1, "period": "year"}, "$.period", "day, month, none, week"),
    ("/v1/experiments/shop/decisions", {"person": "x", "count": 0}, "$.count", ">= 1"),
    ("/v1/experiments/shop/decisions", {"person": "x", "count": 1001}, "$.count", "<= 1000"),
    ("/v1/experiments/shop/decisions", {"person": "x" * 1025}, "$.person", "<= 1024"),
    ("/v1/experiments/shop/decisions", {"person": 3}, "$.person", "str"),
    ("/v1/decisions/{decision}/outcome", {"taken": MARKER}, "$.taken", "catalogue"),
    ("/v1/decisions/{decision}/outcome", {"value": 1}, "$.taken", "Send"),
    ("/v1/decisions/{decision}/outcome", {"value": 1, "taken": None}, "$.taken", "Send"),
    ("/v1/decisions/{decision}/outcome", {}, "$.taken", "Send"),
    ("/v1/outcomes", {"taken": None}, "$", "not a list"),
]


@pytest.mark.parametrize("number", range(len(BODIES)))
def test_a_body_that_is_refused(anywhere, number):
    path, body, at, word = BODIES[number]
    client = anywhere.client(retries=0)
    if "{decision}" in path:
        path = path.format(decision=client.decide("shop", f"person {number}").id)
    problem = refused(lambda: client.request("POST", path, body)).problem
    assert problem["at"] == at
    assert problem["status"] in (404, 422)
    assert word is None or word in problem["detail"]
    assert MARKER not in json.dumps(problem)


def test_the_population_of_the_documentation(anywhere):
    """With feedback "slots" it works; two of them fit."""
    client = anywhere.client()
    client.request("POST", "/v1/experiments", GOOD | {"name": "second"})
    asked = GOOD | {"name": "third", "share": 0.1}
    error = refused(lambda: client.request("POST", "/v1/experiments", asked))
    assert error.name == "over-budget"
    client.request("DELETE", "/v1/experiments/second")


def test_what_is_missing_is_named(anywhere):
    client = anywhere.client(retries=0)
    for method, path, words in (
        ("GET", "/v1/experiments/none", "no experiment of this name; GET /v1/experiments"),
        ("POST", "/v1/experiments/none/decisions", "no experiment of this name"),
        ("GET", "/v1/populations/none/account", "no population of this name; GET /v1/populations"),
        ("DELETE", "/v1/keys/none", "no key of this id"),
        ("GET", "/v1/nothing", "/docs lists the routes"),
        ("POST", "/v1/decisions/none/outcome", "Send it back exactly as you received it"),
    ):
        body = {"taken": None} if path.endswith("outcome") else {}
        error = refused(lambda method=method, path=path, body=body: client.request(method, path, body))
        assert error.status == 404
        assert words in error.problem["title"]


@pytest.mark.parametrize(
    "path",
    [
        "/v1/experiments/a%00b",
        "/v1/experiments/a%00b/decisions",
        "/v1/populations/%00/account",
        "/v1/keys/%00",
        "/experiments/%00",
        "/v1/experiments/%00/personalizer/v1.0/rank",
    ],
)
def test_a_nul_is_refused_and_breaks_nothing(anywhere, path):
    methods = ["GET", "POST", "DELETE", "PATCH"]
    for method in methods:
        asked = urllib.request.Request(
            anywhere.url + path,
            b"{}" if method in ("POST", "PATCH") else None,
            {"Authorization": f"Bearer {anywhere.key}"},
            method=method,
        )
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(asked)
        with caught.value as found:
            assert 400 <= found.code < 500
    assert "Traceback" not in (anywhere.folder / "log").read_text()
    assert "failed" not in (anywhere.folder / "log").read_text()


def test_status_tells_what_the_page_tells(anywhere):
    client = anywhere.client()
    people = {"name": "waiting", "epsilon": 8.0, "anonymous": True}
    client.request("POST", "/v1/populations", people)
    asked = {"name": "waiting", "population": "waiting", "block_size": 4, "outcome_wait": 0.0}
    client.request("POST", "/v1/experiments", GOOD | asked)
    path = "/v1/experiments/waiting"
    status = client.request("GET", path)
    assert status["waits_for"].startswith("It waits for decisions")
    assert status["first_numbers_after"]["shares"] >= 1
    assert status["release_plan"]["learner"] == "ThompsonSelector"
    client.decide("waiting")
    assert client.request("GET", path)["waits_for"].startswith("It waits for outcomes")
    error = refused(lambda: client.request("DELETE", path))
    assert error.name == "in-use"
    client.request("POST", f"{path}/pause")
    assert client.request("GET", path)["waits_for"].startswith("It is paused")
    error = refused(lambda: client.decide("waiting"))
    assert "resume" in error.problem["detail"]
    assert client.request("POST", f"{path}/end") == {
        "name": "waiting",
        "status": "ended",
        "given_back": True,
    }
    assert client.request("GET", path)["waits_for"] == "It has ended."
    for do in ("pause", "resume", "end"):
        assert refused(lambda do=do: client.request("POST", f"{path}/{do}")).name == "ended"
    assert refused(lambda: client.request("PATCH", path, {"add_items": ["z"]})).name == "ended"
    assert refused(lambda: client.decide("waiting")).name == "not-running"
    assert client.request("GET", f"{path}/account")["periods"] == []
    assert refused(lambda: client.request("DELETE", "/v1/populations/waiting")).name == "in-use"


def test_what_was_never_used_is_deleted(anywhere):
    client = anywhere.client()
    client.request("POST", "/v1/populations", {"name": "brief", "epsilon": 1.0})
    client.request("POST", "/v1/experiments", GOOD | {"name": "brief", "population": "brief"})
    assert client.request("DELETE", "/v1/experiments/brief") == {"status": "deleted"}
    assert refused(lambda: client.request("GET", "/v1/experiments/brief")).status == 404
    assert client.request("DELETE", "/v1/populations/brief") == {"status": "deleted"}
    assert refused(lambda: client.request("DELETE", "/v1/populations/brief")).status == 404


def test_every_number_has_a_range():
    """A field without one would be found in production."""
    import msgspec

    from discreet.service import api

    kinds = [
        ExperimentConfig,
        PopulationConfig,
        api.DecisionRequest,
        api.PlanRequest,
        api.NewKey,
        api.Rotation,
    ]
    _, parts = msgspec.json.schema_components(kinds, ref_template="{name}")
    open_ended = {"seed"}
    for kind, part in parts.items():
        for name, schema in part.get("properties", {}).items():
            for one in schema.get("anyOf", [schema]):
                if one.get("type") in ("integer", "number") and name not in open_ended:
                    assert {"minimum", "exclusiveMinimum"} & one.keys(), (kind, name)
                    assert {"maximum", "exclusiveMaximum"} & one.keys(), (kind, name)


def test_a_key_is_told_why_it_may_not(anywhere):
    admin = anywhere.client()
    made = {"name": "web site", "role": "app", "experiments": ["shop"]}
    app = anywhere.client(key=admin.request("POST", "/v1/keys", made)["key"])
    error = refused(lambda: app.request("GET", "/v1/experiments/shop"))
    assert (error.status, error.name) == (403, "role")
    assert error.problem["detail"] == "Its role is app; this takes analyst or operator or admin."
    for ask in (
        lambda: app.decide("another", "user 17"),
        lambda: app.request("POST", "/v1/experiments/another/tokens", {"person": "user 17"}),
    ):
        assert "limited to certain experiments" in refused(ask).problem["detail"]
    error = refused(lambda: anywhere.client(key="dk_000000000000_" + 48 * "0").decide("shop", "user 17"))
    assert (error.status, error.name) == (401, "no-key")
    assert "not known here, or it has ended" in error.problem["detail"]
    error = refused(lambda: app.decide("shop", "user 17", segment="de"))
    assert (error.problem["at"], error.problem["detail"]) == ("$.segment", "It has none.")


def test_a_budget_that_is_spent_is_told_in_words(anywhere):
    client = anywhere.client()
    client.request("POST", "/v1/populations", {"name": "spent", "epsilon": 1.0})
    asked = GOOD | {
        "name": "first",
        "population": "spent",
        "share": 0.5,
        "outcome_wait": 0.0,
        "block_size": 1,
    }
    client.request("POST", "/v1/experiments", asked)
    for number in range(3):
        client.report(client.decide("first", f"user {number}"), taken=None)
    deadline = time.monotonic() + 120
    while not client.request("GET", "/v1/experiments/first")["releases"]:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    client.request("POST", "/v1/experiments/first/end")
    again = GOOD | {"name": "second", "population": "spent"}
    error = refused(lambda: client.request("POST", "/v1/experiments", again | {"share": 0.8}))
    assert (error.status, error.name) == (409, "over-budget")
    assert "Of epsilon 1 of this period 0.5 is spent" in error.problem["detail"]
    assert "Fraction" not in json.dumps(error.problem)
    client.request("POST", "/v1/experiments", again | {"share": 0.5})
