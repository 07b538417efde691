"""``discreet report``: accounts of ledgers, files and services, as text and as a document."""

from __future__ import annotations

import json

import pytest

import discreet as dc
from discreet.service.config import PopulationConfig

from ..service.world import World, taken
from .running import assert_refused, inside


@pytest.fixture
def ledger(tmp_path):
    path = tmp_path / "people.ledger"
    with dc.privacy.SQLiteLedger(path) as open_ledger:
        gate = dc.Gate(dc.Budget(1.0), ledger=open_ledger)
        gate.choose([1.0, 5.0, 2.0], rate=0.25, sensitivity=2.0)
    return path


def test_a_ledger_is_shown_and_written(capsys, tmp_path, ledger):
    shown = inside(capsys, "report", ledger)
    assert shown.code == 0, shown.err
    assert "epsilon 0.5" in shown.out
    assert "exponential" in shown.out
    out = tmp_path / "account.html"
    assert (
        inside(capsys, "report", ledger, "--out", out, "--title", "Shop", "--retention", "30 days").code == 0
    )
    page = out.read_text()
    assert "<h1>Shop</h1>" in page
    assert "30 days" in page
    assert "exp(0.5)" in page
    record = json.loads(inside(capsys, "report", ledger, "--json").out)
    assert dc.privacy.Account.from_json(record).epsilon() == 0.5


def test_the_document_does_not_replace_the_ledger(capsys, tmp_path):
    """What was spent would be forgotten, and could be spent again."""
    path = tmp_path / "people.html"
    with dc.privacy.SQLiteLedger(path) as ledger:
        dc.Gate(dc.Budget(1.0), ledger=ledger).choose([1.0, 5.0], rate=0.25, sensitivity=2.0)
    before = path.read_bytes()
    assert_refused(inside(capsys, "report", path, "--out", path), "is the file that is read")
    assert path.read_bytes() == before


def test_periods_of_a_ledger_add_up(capsys, tmp_path):
    with dc.privacy.SQLiteLedger(tmp_path / "people.ledger") as ledger:
        periods = dc.privacy.Periods(dc.Budget(1.0), ledger)
        for month in ("2026-11", "2026-12"):
            periods.gate(month).choose([1.0, 5.0, 2.0], rate=0.25, sensitivity=2.0)
    shown = inside(capsys, "report", tmp_path / "people.ledger")
    assert "a person who took part in every period: epsilon 1" in shown.out


def test_an_account_of_a_learner_is_read_from_json(capsys, tmp_path):
    account = dc.online.ThompsonSelector(6, 2, 100, dc.Budget(1.0)).privacy
    path = tmp_path / "account.json"
    path.write_text(json.dumps(account.to_json()))
    assert inside(capsys, "report", path).out.strip() == str(account)


def test_ledger_show_is_the_report_of_a_ledger(capsys, ledger):
    assert inside(capsys, "ledger", "show", ledger).out == inside(capsys, "report", ledger).out
    assert "'ledger' is not a command" in inside(capsys, "ledger", "hide", ledger).err


def test_a_saved_learner_has_its_account_and_one_at_a_shared_gate_names_the_ledger(capsys, tmp_path):
    learner = dc.online.ThompsonSelector(6, 2, 100, dc.Budget(1.0))
    learner.save(tmp_path / "learner")
    assert inside(capsys, "report", tmp_path / "learner").out.strip() == str(learner.privacy)
    dc.online.ThompsonSelector(6, 2, 100, dc.Gate(dc.Budget(1.0)).share(0.5)).save(tmp_path / "shared")
    assert "whose ledger has its account" in inside(capsys, "report", tmp_path / "shared").err


def test_a_population_of_a_service(capsys, tmp_path):
    url = f"sqlite:///{tmp_path}/service.db"
    world = World(url, taken(seed=None), PopulationConfig(epsilon=1.0))
    assert_refused(inside(capsys, "report", "--population", "people", "--store", url), "in use")
    World.opened.remove(world.store)
    world.store.close()
    out = tmp_path / "account.html"
    assert inside(capsys, "report", "--population", "people", "--store", url, "--out", out).code == 0
    assert "Privacy account of people" in out.read_text()
    assert_refused(inside(capsys, "report", "--population", "nobody", "--store", url), "no such population")
    asked = ("report", "--population", "people", "--store")
    (tmp_path / "service.html").hardlink_to(tmp_path / "service.db")  # as a store may be called
    named = inside(capsys, *asked, f"sqlite:///{tmp_path}/service.html", "--out", tmp_path / "service.html")
    assert_refused(named, "is the file that is read")
    assert_refused(inside(capsys, *asked, f"sqlite:///{tmp_path}/none.db"), "there is none")
    assert not list(tmp_path.glob("none.db*"))


def test_what_is_no_account_is_refused(capsys, tmp_path, ledger):
    (tmp_path / "a.json").write_text('{"a": 1}')
    (tmp_path / "text").write_text("hello")
    (tmp_path / "nothing.csv").touch()
    with dc.privacy.SQLiteLedger(tmp_path / "empty.ledger"):
        pass
    for arguments, words in (
        ([], "one of them"),
        ([ledger, "--population", "x"], "one of them"),
        (["--population", "x", "--title", "y"], "--title is for a FILE"),
        ([tmp_path / "a.json"], "not an account"),
        ([tmp_path / "none"], "no such file"),
        ([tmp_path / "empty.ledger"], "nothing has been charged"),
        ([tmp_path / "nothing.csv"], "nothing has been charged"),
        ([tmp_path / "text"], ""),
        ([ledger, "--out", tmp_path / "account.pdf"], "call it .html"),
    ):
        assert_refused(inside(capsys, "report", *arguments), words)
    assert not (tmp_path / "nothing.csv").stat().st_size  # a report writes nothing there
