"""API keys: made, listed, ended and replaced, on pages, by requests and on the machine."""

from __future__ import annotations

import json
import stat
import threading
import time

import pytest

from discreet.cli import main
from discreet.service import web
from discreet.service.auth import DAY, Keys, LastAdmin, new_key
from discreet.service.config import ServiceSettings
from discreet.service.database import open_store

from .test_api import refused


def settings(url, folder, **more):
    return ServiceSettings(store=url, secrets=f"{folder}/secrets", **more)


def key_command(capsys, url, *words):
    """What ``discreet service key`` says, as JSON."""
    assert main(["service", "key", *words, "--store", url, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.fixture
def store(url):
    found = open_store(url)
    found.migrate()
    yield found
    found.close()


# --- the first one ------------------------------------------------------------------------------------


def test_the_first_key_is_in_a_file_of_its_owner_and_in_no_output(url, tmp_path, capsys):
    assert main(["service", "init", "--store", url, "--secrets", f"{tmp_path}/secrets"]) == 0
    file = tmp_path / "discreet.admin-key"
    said = capsys.readouterr()
    key = file.read_text().strip()
    assert str(file) in said.out
    assert key not in said.out + said.err
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    store = open_store(url)
    keys = Keys(store)
    keys.refresh()
    assert keys.find(key.encode()).role == "admin"
    store.close()
    assert web.prepare(settings(url, tmp_path)) is None  # there is one already


@pytest.mark.parametrize("where", ["file", "environment"])
def test_the_first_key_can_be_given(url, tmp_path, where, monkeypatch):
    from discreet.service.config import read_settings

    token = new_key()
    monkeypatch.setenv("DISCREET_STORE", url)
    monkeypatch.setenv("DISCREET_SECRETS", f"{tmp_path}/secrets")
    if where == "file":
        (tmp_path / "given").write_text(f"{token}\n")
        monkeypatch.setenv("DISCREET_ADMIN_KEY_FILE", f"{tmp_path}/given")
    else:
        monkeypatch.setenv("DISCREET_ADMIN_KEY", token)
    assert web.prepare(read_settings()) is None  # nothing was written
    assert not (tmp_path / "discreet.admin-key").exists()
    store = open_store(url)
    keys = Keys(store)
    keys.refresh()
    assert keys.find(token.encode()).id == token.split("_")[1]
    store.close()


def test_a_given_key_must_be_long_enough(file_url, tmp_path):
    with pytest.raises(ValueError, match=r"admin_key: a key must have 32 to 256"):
        web.prepare(settings(file_url, tmp_path, admin_key="letmein"))


def test_a_crash_between_the_file_and_the_database_leaves_nobody_without_a_key(url, tmp_path, monkeypatch):
    def die(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Keys, "create", die)
        with pytest.raises(KeyboardInterrupt):
            web.prepare(settings(url, tmp_path))
    written = (tmp_path / "discreet.admin-key").read_text().strip()
    web.prepare(settings(url, tmp_path))
    store = open_store(url)
    keys = Keys(store)
    keys.refresh()
    assert keys.find(written.encode()).role == "admin"
    store.close()


# --- ends ----------------------------------------------------------------------------------------------


def test_a_key_ends_by_itself(store, monkeypatch):
    keys = Keys(store)
    number, token = keys.create("short", "app", days=1)
    assert keys.find(token.encode()).id == number
    assert [one["expires"] is None for one in keys.listed()] == [False]
    later = time.time() + DAY
    monkeypatch.setattr(time, "time", lambda: later)
    assert keys.find(token.encode()) is None  # before anybody reads the database again
    assert keys.of(number) is None


def test_the_last_admin_key_cannot_be_revoked(store):
    keys = Keys(store)
    first = keys.create("first", "admin")[0]
    keys.create("scoped", "admin", ["shop"])  # gives out no keys
    ended = keys.create("ends", "admin", days=1)[0]
    with store.transaction() as tx:
        tx.do("UPDATE api_key SET expires = 1.0 WHERE id = ?", ended)
    with pytest.raises(LastAdmin):
        keys.revoke(first)
    second, token = keys.rotate(first)
    assert keys.find(token.encode()).role == "admin"
    with pytest.raises(LookupError):
        keys.revoke(first)
    with pytest.raises(LastAdmin):
        keys.revoke(second)
    keys.create("third", "admin")
    keys.revoke(second)


def test_two_admins_cannot_end_each_other_at_once(store):
    for _ in range(5):
        keys = Keys(store)
        admins = [keys.create(f"admin {number}", "admin")[0] for number in range(2)]
        others = [one["id"] for one in keys.listed() if one["id"] not in admins]
        for one in others:
            keys.revoke(one)
        refusals = []

        def end(number, refusals=refusals):
            try:
                Keys(store).revoke(number)
            except LastAdmin:
                refusals.append(number)

        threads = [threading.Thread(target=end, args=(one,)) for one in admins]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        assert len(refusals) == 1
        assert [one["id"] for one in Keys(store).listed()] == refusals


def test_a_rotated_key_is_taken_for_as_long_as_was_asked_for(store):
    keys = Keys(store)
    number, token = keys.create("shop front", "app", ["shop"], days=30)
    new, other = keys.rotate(number, grace=3600.0)
    assert keys.find(token.encode()) is not None
    assert keys.find(other.encode()).experiments == {"shop"}
    by_id = {one["id"]: one for one in keys.listed()}
    assert by_id[number]["expires"] < time.time() + 3700 < by_id[new]["expires"]
    last, _ = keys.rotate(new)
    assert [one["id"] for one in keys.listed()] == [number, last]


def test_when_a_key_was_used_is_noted_once_a_minute(store):
    keys = Keys(store)
    number, token = keys.create("shop front", "app")
    assert keys.listed()[0]["last_used"] is None
    keys.used(keys.find(token.encode()))
    keys.refresh()
    first = keys.listed()[0]["last_used"]
    assert abs(first - time.time()) < 5
    keys._used[number] += 30
    keys.refresh()
    assert keys.listed()[0]["last_used"] == first
    keys._used[number] += 60
    keys.refresh()
    assert keys.listed()[0]["last_used"] == first + 90


# --- on the machine ------------------------------------------------------------------------------------


def test_keys_on_the_machine(url, tmp_path, capsys):
    web.prepare(settings(url, tmp_path))
    made = key_command(capsys, url, "make", "shop front", "--experiments", "a, b", "--days", "7")
    listed = key_command(capsys, url, "list")["keys"]
    assert [(one["name"], one["role"]) for one in listed] == [("first", "admin"), ("shop front", "app")]
    assert listed[1]["experiments"] == ["a", "b"]
    again = key_command(capsys, url, "rotate", made["id"])
    assert again["key"] != made["key"]
    assert key_command(capsys, url, "revoke", again["id"]) == {"revoked": again["id"]}
    assert len(key_command(capsys, url, "list")["keys"]) == 1
    assert main(["service", "key", "list", "--store", url]) == 0
    assert "first" in capsys.readouterr().out
    wrong = {
        ("revoke", listed[0]["id"]): "is the last admin key",
        ("revoke", "nobody"): "there is no key 'nobody'",
        ("make", ""): "1 to 100 characters",
        ("make", "a\0b"): "1 to 100 characters",
        ("make",): "takes one NAME",
        ("list", "all"): "takes nothing more",
        ("burn", "x"): "key takes make, list, revoke, rotate",
        ("make", "x", "--days", "0"): "from 1 to 3650",
        ("rotate", "x", "--role", "app"): "--role is not for key rotate",
    }
    for words, reason in wrong.items():
        assert main(["service", "key", *words, "--store", url]) == 2
        assert reason in capsys.readouterr().err
    store = open_store(url)
    with store.transaction() as tx:
        done = [action for (action,) in tx.all("SELECT action FROM audit ORDER BY id")]
    store.close()
    assert done == [f"key {one}, on the machine" for one in ("make", "rotate", "revoke")]


def test_keys_are_made_and_ended_beside_a_service_that_runs(service, capsys):
    """On SQLite too, whose file no second service may have."""
    made = key_command(capsys, service.store, "make", "beside")
    client, deadline = service.client(made["key"], retries=0), time.monotonic() + 60
    while refused(lambda: client.request("GET", "/v1/keys")).status == 401:  # until it has heard of it
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert refused(lambda: client.request("GET", "/v1/keys")).status == 403
    key_command(capsys, service.store, "revoke", made["id"])
    while refused(lambda: client.request("GET", "/v1/keys")).status == 403:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_keys_of_no_service_are_refused(tmp_path, capsys):
    assert main(["service", "key", "list", "--store", f"sqlite:///{tmp_path}/none.db"]) == 2
    assert "discreet service init" in capsys.readouterr().err
    assert not (tmp_path / "none.db").exists()


def test_keys_by_requests(service):
    admin = service.client()
    made = admin.request("POST", "/v1/keys", {"name": "shop", "role": "app", "days": 30})
    app = service.client(made["key"], retries=0)
    assert refused(lambda: app.request("GET", "/v1/keys")).status == 403
    listed = {one["id"]: one for one in admin.request("GET", "/v1/keys")["keys"]}
    assert 29 < (listed[made["id"]]["expires"] - time.time()) / DAY < 31
    new = admin.request("POST", f"/v1/keys/{made['id']}/rotate", {})
    assert refused(lambda: app.request("GET", "/v1/keys")).status == 401
    assert refused(lambda: service.client(new["key"]).request("GET", "/v1/keys")).status == 403
    first = next(one["id"] for one in listed.values() if one["role"] == "admin")
    assert refused(lambda: admin.request("DELETE", f"/v1/keys/{first}")).name == "last-admin"
    assert refused(lambda: admin.request("DELETE", "/v1/keys/nobody")).status == 404
    for wrong, at in (
        ({"name": "", "role": "app"}, "$.name"),
        ({"name": "a\0b", "role": "app"}, "$.name"),
        ({"name": "x", "role": "owner"}, "$.role"),
        ({"name": "x", "role": "app", "days": 0}, "$.days"),
    ):
        problem = refused(lambda wrong=wrong: admin.request("POST", "/v1/keys", wrong)).problem
        assert (problem["status"], problem["at"]) == (422, at)
        assert problem["detail"]


@pytest.mark.parametrize("scope", ["", " ", "shop,"])
def test_an_empty_name_of_an_experiment_makes_no_key(file_url, capsys, scope):
    """An empty variable of a shell made a key for all experiments."""
    assert main(["service", "init", "--store", file_url, "--secrets", f"{file_url[10:]}.secrets"]) == 0
    assert main(["service", "key", "make", "web", "--experiments", scope, "--store", file_url]) == 2
    assert "--experiments" in capsys.readouterr().err
    assert [one["name"] for one in key_command(capsys, file_url, "list")["keys"]] == ["first"]
