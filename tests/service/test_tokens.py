"""Tokens of browsers: one person's decisions and outcomes, for a while, in one period; and nothing else."""

from __future__ import annotations

import time

import pytest

from discreet.client import Client
from discreet.service.auth import BrowserToken, Secrets

from .test_api import experiment, refused


@pytest.fixture(scope="module")
def world(shared_service):
    client = shared_service.client()
    for name in ("shop", "other"):
        experiment(client, name, anonymous=False, outcome_wait=3600.0)
    return shared_service, client


def browser(service, token):
    return Client(service.url, token, timeout=60.0, retries=0)


def test_a_browser_decides_and_reports_for_its_person(world):
    service, client = world
    ann = browser(service, client.token("shop", "ann"))
    decision = ann.decide("shop")
    assert ann.report(decision, likes=["item 1"]).counted
    again = client.decide("shop", "ann")  # their second one of the period, whoever asks
    assert not client.report(again, likes=["item 1"]).counted
    key = ann.decide("shop", key="visit")
    assert ann.decide("shop", key="visit") == key


def test_a_token_is_for_nobody_else(world):
    service, client = world
    ann, ben = (browser(service, client.token("shop", name)) for name in ("ann", "ben"))
    decision = ben.decide("shop")
    for work, status in (
        (lambda: ann.decide("shop", "ben"), 422),
        (lambda: ann.decide_many("shop", ["ben"]), 422),
        (lambda: ann.decide_many("shop", 2), 422),
        (lambda: ann.decide("other"), 401),
        (lambda: ann.report(decision, likes=["item 1"]), 403),
        (lambda: ann.report(client.decide("other", "ann"), likes=["item 1"]), 403),
        (lambda: ann.request("POST", "/v1/experiments/shop/decisions", {"event": "e"}), 422),
        (lambda: ann.report_event("shop", "e", likes=[]), 403),
        (lambda: ann.token("shop", "ben"), 403),
        (lambda: ann.experiment("shop"), 403),
        (lambda: ann.erase("shop", ["ben"]), 403),
        (lambda: ann.keys(), 403),
    ):
        assert refused(work).status == status
    (told,) = ann.report_many([{"decision_id": decision.id, "likes": ["item 1"]}])
    assert told.status == "refused"


def test_tokens_end(world):
    service, client = world
    made = client.create_key("shop front", "app", experiments=["shop"])
    app = service.client(made["key"])
    token = app.token("shop", "cid")
    assert browser(service, token).decide("shop").items
    assert refused(lambda: app.token("other", "cid")).status == 403
    assert refused(lambda: app.token("shop", "cid", seconds=3601)).status == 422
    for wrong in (token[:-2], token + "AA", "dt_", "dt_AAAA", token.replace("dt_", "dt_x")):
        assert refused(lambda wrong=wrong: browser(service, wrong).decide("shop")).status == 401
    client.revoke_key(made["id"])
    assert refused(lambda: browser(service, token).decide("shop")).status == 401


def signed(service, **changes):
    """A token that this service might have made: an injected fault."""
    secrets = Secrets.read(service.folder / "secrets")
    key = service.client().keys()[0]["id"]
    live = {"key": key, "experiment": 1, "epoch": 0, "pseudonym": bytes(12)}
    return secrets.token(BrowserToken(**live | {"until": int(time.time()) + 60} | changes))


def test_a_token_of_an_earlier_period_or_time_is_refused(world):
    """Somebody would count under the pseudonyms of two periods."""
    service, client = world
    assert client.experiment("shop")["epoch"] == 0
    assert refused(lambda: browser(service, signed(service, epoch=1)).decide("shop")).name == "token"
    assert browser(service, signed(service)).decide("shop").items
    late = signed(service, until=int(time.time()) - 1)
    assert refused(lambda: browser(service, late).decide("shop")).status == 401


def test_sticky_sets_are_the_same_by_a_token_and_by_a_key(shared_service):
    """And nobody's: browsers of people without names have decisions of their own."""
    client = shared_service.client()
    experiment(client, "sticky", anonymous=False, sticky=86400.0)
    experiment(client, "nameless", anonymous=True, sticky=86400.0)
    for _ in range(2):  # of which one is within a day
        day = time.time() // 86400
        ann = browser(shared_service, client.token("sticky", "ann")).decide("sticky")
        same = client.decide("sticky", "ann") == ann
        if day == time.time() // 86400:
            break
    assert same
    nameless = [browser(shared_service, client.token("nameless")).decide("nameless") for _ in range(3)]
    assert len({one.id for one in nameless}) == 3
