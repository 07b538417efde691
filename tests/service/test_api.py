"""The service over HTTP, through its own client."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request

import pytest

from discreet.client import Acknowledgement, Client, ServiceError

ITEMS = [f"item {number}" for number in range(20)]


def experiment(client, name, *, anonymous=True, **more):
    people = {"name": name, "epsilon": 1.0, "delta": 1e-6, "definition": "gdp", "anonymous": anonymous}
    client.request("POST", "/v1/populations", people)
    asked = {"name": name, "population": name, "items": ITEMS, "k": 3, "block_size": 16, "outcome_wait": 0.0}
    client.request("POST", "/v1/experiments", asked | {"share": 1.0} | more)


def refused(work):
    with pytest.raises(ServiceError) as caught:
        work()
    return caught.value


def settled(client, name, releases):
    deadline = time.monotonic() + 120
    while client.request("GET", f"/v1/experiments/{name}/status")["releases"] < releases:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def answers(number):
    """A block is over with its last decision, so that an outcome of this one may come late."""
    return {"recorded"} if (number + 1) % 16 else {"recorded", "late"}


def test_a_shop_from_the_first_decision_to_a_release(shared_service):
    client = shared_service.client()
    experiment(client, "shop")
    seen = []
    for number in range(40):
        decision = client.decide("shop", f"person {number}")
        assert len(set(decision.items)) == 3
        seen.append(decision)
        assert client.report(decision, likes=["item 1", "item 2"]).status in answers(number)
        if number < 10:
            assert client.report(decision, likes=["item 3"]).status == "duplicate"
        settled(client, "shop", (number + 1) // 16)  # blocks that wait together are released together
    assert client.report(seen[0], likes=["item 1"]).status == "late"
    assert len({one.id for one in seen}) == len(seen)
    status = client.request("GET", "/v1/experiments/shop")
    assert status["status"] == "running"
    assert len(status["display"]) == 3
    account = client.request("GET", "/v1/experiments/shop/account")
    assert 0.9 < account["periods"][0]["epsilon"] <= 1.0
    assert "exp(1)" in account["promise"]
    releases = client.request("GET", "/v1/experiments/shop/releases?limit=1")["releases"]
    assert set(releases[0]) == {"seq", "epoch", "at", "chain", "items", "values", "shares"}


def test_roles(shared_service):
    admin = shared_service.client()
    experiment(admin, "ours")
    experiment(admin, "theirs")

    def key(role, experiments=None):
        asked = {"name": role, "role": role, "experiments": experiments}
        return shared_service.client(admin.request("POST", "/v1/keys", asked)["key"])

    app, analyst, operator = key("app", ["ours"]), key("analyst"), key("operator")
    assert app.decide("ours").items
    assert refused(lambda: app.decide("theirs")).status == 403
    assert app.report(app.decide("ours"), likes=[]).status == "recorded"
    other = admin.decide("theirs")
    assert refused(lambda: app.report(other, likes=[])).status == 403
    assert app.report_many([{"decision_id": other.id, "likes": []}]) == [Acknowledgement("refused", False)]
    assert refused(lambda: app.request("GET", "/v1/experiments/ours")).status == 403
    assert analyst.request("GET", "/v1/experiments/ours/account")["periods"]
    assert refused(lambda: analyst.decide("ours")).status == 403
    assert refused(lambda: analyst.request("POST", "/v1/experiments/ours/pause")).status == 403
    assert refused(lambda: operator.request("GET", "/v1/keys")).status == 403
    assert refused(lambda: shared_service.client("dk_no_key").decide("ours")).status == 401
    listed = admin.request("GET", "/v1/keys")["keys"]
    assert {one["role"] for one in listed} == {"admin", "app", "analyst", "operator"}
    number = next(one["id"] for one in listed if one["role"] == "app")
    admin.request("DELETE", f"/v1/keys/{number}")
    assert refused(lambda: app.decide("ours")).status == 401


def test_refusals_have_fixed_texts(shared_service):
    """Nothing that was sent comes back: not the person, the body, or the name of an item."""
    client = shared_service.client(retries=0)
    experiment(client, "quiet")
    decision = client.decide("quiet")
    marker = "a-secret-marker"
    bad = [
        ("POST", "/v1/experiments/quiet/decisions", {"person": marker, "nonsense": marker}),
        ("POST", f"/v1/experiments/{marker}/decisions", {}),
        ("POST", f"/v1/decisions/{marker}/outcome", {"likes": [marker]}),
        ("POST", f"/v1/decisions/{decision.id}/outcome", {"taken": marker}),
        ("POST", f"/v1/decisions/{decision.id}/outcome", {"value": marker}),
        ("POST", "/v1/experiments", {"name": marker}),
        ("POST", "/v1/experiments", {"name": "x", "population": "quiet", "items": [marker] * 2, "k": 1}),
        ("GET", f"/v1/{marker}", None),
        ("POST", f"/v1/populations/{marker}/erase", {"people": [marker]}),
    ]
    for method, path, body in bad:
        error = refused(lambda method=method, path=path, body=body: client.request(method, path, body))
        assert 400 <= error.status < 500
        assert error.problem["status"] == error.status
        assert marker not in json.dumps(error.problem)
    assert marker not in (shared_service.folder / "log").read_text()


def test_over_budget_says_what_fits(shared_service):
    client = shared_service.client()
    experiment(client, "whole")
    asked = {"name": "second", "population": "whole", "items": ITEMS, "k": 3}
    error = refused(lambda: client.request("POST", "/v1/experiments", asked))
    assert error.status == 409
    assert error.name == "over-budget"
    assert {"spent", "after", "limit", "detail"} <= set(error.problem)
    assert error.problem["after"] > error.problem["limit"] >= error.problem["spent"]


def test_erasure(shared_service):
    client = shared_service.client()
    experiment(client, "erasing", outcome_wait=3600.0)
    first, second = client.decide("erasing", "somebody"), client.decide("erasing", "somebody")
    assert client.report(first, likes=["item 1"]).status == "recorded"
    client.request("POST", "/v1/populations/erasing/erase", {"people": ["somebody"]})
    assert client.report(second, likes=["item 1"]) == Acknowledgement("recorded", False)


def test_what_cannot_be_meant_is_refused_as_such(shared_service):
    """No body and no number makes the service fail, nor its log quote what was asked for."""
    client = shared_service.client()
    experiment(client, "odd")
    for before in ("9" * 18, "9" * 19, "9" * 5000, "x", "-1"):
        path = f"/v1/experiments/odd/releases?before={before}"
        if before == "9" * 18:
            assert client.request("GET", path) == {"releases": []}
        else:
            assert refused(lambda path=path: client.request("GET", path)).name == "body"
    for path in (
        "/v1/experiments/odd/decisions",
        "/v1/outcomes",
        "/v1/decisions/x/outcome",
        "/v1/populations",
    ):
        asked = urllib.request.Request(
            shared_service.url + path,
            b'{"person":"\xff"}',
            {"Authorization": f"Bearer {shared_service.key}"},
        )
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(asked)
        with caught.value as found:
            assert found.code == 422
    assert "Traceback" not in (shared_service.folder / "log").read_text()


@pytest.mark.parametrize(
    ("change", "at", "detail"),
    [
        ({"name": "two words"}, "$.name", "up to 64 letters"),
        ({"k": 13}, "$.k", "from 1 to the number of items"),
        ({"k": "3"}, "$.k", "Expected `int`, got `str`"),
        ({"items": ["a", "b", "a"]}, "$.items", "must be distinct"),
        ({"feedback": "taken"}, "$.feedback", "None of the values: bandit, full, slots."),
        ({"feedbak": "taken"}, "$", "A field is not known. Known ones: items, k,"),
        ({"population": "none"}, "$.population", None),
    ],
)
def test_refusals_say_where_a_new_experiment_is_wrong(shared_service, change, at, detail):
    """In words of this service: nothing of what was sent is repeated."""
    asked = {"name": "wrong", "population": "wrong", "items": ["a", "b", "c"], "k": 2} | change
    with pytest.raises(ServiceError) as caught:
        shared_service.client().request("POST", "/v1/experiments", asked)
    found = caught.value.problem
    assert found.get("at") == at
    assert detail is None or detail in found["detail"]


def test_a_promise_with_a_seed_says_that_it_is_none(shared_service):
    """In the words of the document, which has them first."""
    client = shared_service.client()
    first = "This is not private: anyone who knows the seed can remove the noise. "
    for name, seed in (("seeded", 3), ("unseeded", None)):
        experiment(client, name, seed=seed, anonymous=False)
        account = client.request("GET", f"/v1/experiments/{name}/account")
        assert account["promise"].startswith(first) == (seed is not None)
        assert account["promise"].removeprefix(first).startswith("Of a person one decision counts")
        assert account["periods"][0]["reproducible"] == (seed is not None)


def test_a_person_is_named_unless_a_population_is_anonymous(shared_service):
    """Whoever is promised that people are counted has decisions that say whom they are for."""
    client = shared_service.client()
    for name, anonymous in (("named", False), ("nameless", True)):
        experiment(client, name, anonymous=anonymous, outcome_wait=60.0)
        account = client.request("GET", f"/v1/experiments/{name}/account")
        promise, (period,) = account["promise"], account["periods"]
        assert any("for whom, is public" in remark for remark in period["remarks"])
        assert any("declared, and not checked" in remark for remark in period["remarks"]) == anonymous
        assert ("Of a person one decision counts" in promise) != anonymous
        assert ("which nothing checks" in promise) == anonymous
        assert "Which decisions there were, when and for whom, is public" in promise
    assert refused(lambda: client.decide("named")).name == "person"
    assert client.decide("nameless").items
    said = [client.report(client.decide("named", "ann"), likes=[]) for _ in range(2)]
    assert said == [Acknowledgement("recorded", True), Acknowledgement("recorded", False)]


def test_a_decision_that_is_sent_again_has_the_same_answer_and_counts_once(service):
    """Whether the service has been killed meanwhile or not; another request is another decision."""
    client = service.client()
    experiment(client, "shop", anonymous=False, outcome_wait=60.0)
    first = client.decide("shop", "ann", key="visit 1")
    assert client.decide("shop", "ann", key="visit 1") == first
    service.kill()
    service.start()
    client = service.client()
    assert client.decide("shop", "ann", key="visit 1") == first
    others = [
        client.decide("shop", "ann", key="visit 2"),
        client.decide("shop", "ben", key="visit 1"),
        client.decide("shop", "ann", key="visit 1", exclude=[first.items[0]]),
        client.decide("shop", "ann"),
    ]
    assert len({one.id for one in [first, *others]}) == 5
    assert client.report(first, likes=["item 1"]) == Acknowledgement("recorded", True)
    counted = [client.report(one, likes=["item 1"]).counted for one in others]
    assert counted == [False, True, False, False]
    path, headers = "/v1/experiments/shop/decisions", {"Idempotency-Key": "many"}
    asked = {"person": "cyd", "count": 3}
    several = client.request("POST", path, asked, headers=headers)
    assert client.request("POST", path, asked, headers=headers) == several
    assert len({one["decision_id"] for one in several["decisions"]}) == 3
    for wrong in ("", "x" * 257, "\xe9"):
        headers = {"Idempotency-Key": wrong}
        assert (
            refused(lambda headers=headers: client.request("POST", path, asked, headers=headers)).status
            == 422
        )


def test_what_was_acknowledged_survives_a_kill(service):
    client = service.client()
    experiment(client, "shop", outcome_wait=0.2)
    open_decisions = []
    for number in range(100):
        decision = client.decide("shop", f"person {number}")
        if number % 3:
            assert client.report(decision, likes=["item 1"]).status in answers(number)
        else:
            open_decisions.append(decision)
    service.kill()
    service.start()
    client = Client(service.url, service.key)
    assert {client.report(one, likes=["item 1"]).status for one in open_decisions[-3:]} <= {
        "recorded",
        "late",
    }
    new = client.decide("shop")
    assert new.id not in {one.id for one in open_decisions}
    settled(client, "shop", 1)


def test_people_who_come_again_are_not_learned_to_have_taken_nothing(shared_service):
    """The share that is released is that of decisions that count, however often people come."""
    client = shared_service.client()
    people = {"name": "again", "epsilon": 4000.0}
    client.request("POST", "/v1/populations", people)
    asked = {"name": "again", "population": "again", "items": ["a", "b"], "k": 1, "feedback": "slots"}
    more = {"outcome_wait": 0.2, "block_size": 10, "measure": 0.5, "holdout": 0.0}
    client.request("POST", "/v1/experiments", asked | more)
    for number in range(240):
        decision = client.decide("again", f"person {number % 30}")
        client.report(decision, taken=decision.items[0])
    settled(client, "again", 4)  # one of people who come again, after the 30 of three blocks
    found = client.request("GET", "/v1/experiments/again/releases")["releases"]
    blocks = [block for one in found for block in one["shares"]]
    sequences, served = (sum(sum(one[name]) for one in blocks) for name in ("decisions", "served"))
    assert 0 < sequences <= 30
    assert served / sequences > 0.9


def test_many_at_once(shared_service):
    client = shared_service.client()
    experiment(client, "many", outcome_wait=60.0)
    found = client.request("POST", "/v1/experiments/many/decisions", {"count": 50})["decisions"]
    assert len({one["decision_id"] for one in found}) == 50
    outcomes = [{"decision_id": one["decision_id"], "likes": []} for one in found]
    assert client.report_many(outcomes) == [Acknowledgement("recorded", True)] * 50
    wrong = [{"decision_id": "nonsense", "likes": []}, {**outcomes[0], "likes": ["item 1"]}]
    assert client.report_many(wrong) == [
        Acknowledgement("refused", False),
        Acknowledgement("duplicate", True),
    ]


def test_excluded_items_are_replaced(shared_service):
    client = shared_service.client()
    experiment(client, "excluding")
    plain = client.decide("excluding")
    fitted = client.decide("excluding", exclude=[plain.items[0]])
    assert plain.items[0] not in fitted.items
    assert len(set(fitted.items)) == 3
    assert refused(lambda: client.decide("excluding", exclude=ITEMS[:18])).name == "few-items"


def test_a_catalogue_that_changes(shared_service):
    client = shared_service.client()
    experiment(client, "changing")
    changes = {"add_items": ["new"], "retire_items": ITEMS[:15]}
    told = client.request("PATCH", "/v1/experiments/changing", changes)
    assert told["n_items"] == len(ITEMS) - 15 + 1
    catalogue = client.request("GET", "/v1/experiments/changing/items")["items"]
    assert [one["item"] for one in catalogue if not one["retired"]] == [*ITEMS[15:], "new"]
    for _ in range(64):  # what was leased before may still be served
        last = client.decide("changing")
    assert set(last.items) <= {*ITEMS[15:], "new"}


def test_pause_and_resume(shared_service):
    client = shared_service.client()
    experiment(client, "pausing")
    client.request("POST", "/v1/experiments/pausing/pause")
    assert refused(lambda: client.decide("pausing")).name == "not-running"
    client.request("POST", "/v1/experiments/pausing/resume")
    assert client.decide("pausing").items
