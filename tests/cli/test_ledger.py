"""``discreet select --ledger``: runs about the same people share one budget, which outlives them."""

from __future__ import annotations

import json
import re

import pytest

import discreet as dc
from discreet.cli import common
from discreet.objectives import Coverage
from discreet.privacy import Budget, Gate, population
from discreet.privacy.population import RunGate

from .running import assert_refused, inside


@pytest.fixture
def run(capsys, tmp_path):
    """One run at epsilon 1 that is charged to a ledger."""
    (tmp_path / "a.csv").write_text(
        "user,page\n" + "".join(f"u{n},{'tea' if n % 3 else 'jam'}\n" for n in range(60))
    )
    (tmp_path / "items.csv").write_text("page\ntea\njam\nmilk\n")
    asked = ("select", tmp_path / "a.csv", "--person", "user", "--item", "page")
    asked += ("--k", 1, "--epsilon", 1, "--json")

    def select(*more, ledger=tmp_path / "people.ledger", listed=("--items", tmp_path / "items.csv")):
        return inside(capsys, *asked, *listed, "--ledger", ledger, *more)

    return select


def spent(tmp_path, **budget):
    with dc.privacy.SQLiteLedger(tmp_path / "people.ledger") as ledger:
        return dc.Gate(dc.Budget(**({"epsilon": 2.0} | budget)), definition="pure", ledger=ledger).spent


def add_up(run, tmp_path):
    """Two runs of epsilon 1 spend an epsilon of 2, and a third is refused without a release."""
    first = run("--ledger-epsilon", 2)
    assert first.code == 0, first.err
    assert json.loads(first.out)["ledger"] == {
        "file": "people.ledger",
        "epsilon": 1.0,
        "epsilon_limit": 2.0,
        "delta_limit": 0.0,
    }
    assert json.loads(run().out)["ledger"]["epsilon"] == 2.0
    third = run("--out", tmp_path / "third.json")
    assert_refused(third, "--epsilon 1 does not fit into the ledger people.ledger", code=3)
    assert "epsilon 2 of 2 is spent; nothing fits any more" in third.err
    assert not (tmp_path / "third.json").exists()
    account = spent(tmp_path)
    assert account.epsilon() == 2.0
    assert list(account.ledger.counts.values()) == [2]


def test_runs_add_up_and_one_beyond_the_budget_is_refused(run, tmp_path):
    add_up(run, tmp_path)


def test_a_run_that_is_not_charged_is_noticed(run, tmp_path, monkeypatch):
    monkeypatch.setattr(population._RunLedger, "append", dc.privacy.MemoryLedger.append)
    with pytest.raises(AssertionError):
        add_up(run, tmp_path)


def test_a_charge_is_there_before_anything_is_drawn(run, tmp_path, monkeypatch):
    seen = []

    def killed(*_):
        seen.append(spent(tmp_path).epsilon())
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(dc.privacy.Release, "choice", killed)
        patch.setattr(dc.privacy.Release, "permute_and_flip", killed)
        assert run("--ledger-epsilon", 2).code == 130
    assert seen == [1.0]
    assert json.loads(run().out)["ledger"]["epsilon"] == 2.0
    assert run().code == 3


def test_deltas_and_marks_are_kept_too(run, tmp_path):
    ended = run("--delta", 1e-6, "--ledger-epsilon", 2, "--ledger-delta", 2e-6, "--method", "exact")
    assert ended.code == 0, ended.err
    gate = dc.Gate(
        dc.Budget(2.0, 2e-6), definition="pure", ledger=dc.privacy.SQLiteLedger(tmp_path / "people.ledger")
    )
    assert gate.spent.loss.delta == dc.privacy.ApproximateRelease(1.0, 1e-6).loss().delta
    people = dc.objectives.Coverage.from_events(
        {"who": [1, 2], "what": ["a", "b"]}, person="who", item="what"
    )
    dc.offline.PrivateGreedy(1, RunGate(dc.Budget(0.5), gate, "conditional", 0)).select(people)
    assert any("list of items" in mark for mark in gate.caveats)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ((), "there is none yet; to begin it, say what all runs with it may spend together"),
        (("--ledger-epsilon", 2, "--seed", 1), "--seed is for trying out"),
        (("--ledger-epsilon", 2, "--k", 9), "--k is given twice"),
        (("--ledger-epsilon", 2, "--item", "x"), "--item is given twice"),
        (("--ledger-epsilon", 2, "--out", "/"), "--out /: is a directory"),
        (("--ledger-epsilon", 0.5), "epsilon 0 of 0.5 is spent; --epsilon 0.5 would still fit"),
    ],
)
def test_mistakes_begin_no_ledger(run, tmp_path, more, words):
    assert_refused(run(*more), words, code=3 if "fit" in words else 2)
    assert not (tmp_path / "people.ledger").exists()


def test_a_ledger_that_is_begun_is_not_replaced_by_the_result(run, tmp_path):
    """Its charge would be gone, and another ledger could spend it again."""
    (tmp_path / "link.json").symlink_to(tmp_path / "people.ledger")
    for name in ("people.ledger", "link.json"):
        ended = run("--ledger-epsilon", 2, "--out", tmp_path / name)
        assert_refused(ended, "is the file that is read, or the ledger")
    assert not (tmp_path / "people.ledger").exists()


def test_what_was_charged_is_shown_where_it_cannot_be_written(run):
    """Of a full disk: the list was paid for, and nothing would give it back."""
    ended = run("--ledger-epsilon", 2, "--out", "/dev/full")
    assert ended.code == 2
    assert "No space left" in ended.err
    assert json.loads(ended.out)["ledger"]["epsilon"] == 1.0


def test_no_list_of_an_option_and_no_file_of_a_pattern_is_replaced_by_the_result(run, capsys, tmp_path):
    (tmp_path / "few.txt").write_text("tea\n")
    before = (tmp_path / "a.csv").read_text()
    for option in ("--include", "--exclude", "--candidates"):
        ended = run("--ledger-epsilon", 2, option, f"@{tmp_path}/few.txt", "--out", tmp_path / "few.txt")
        assert_refused(ended, "is the file that is read")
    asked = ("--person", "user", "--item", "page", "--items", tmp_path / "items.csv", "--k", 1)
    for pattern in ("a.*", "**/a.csv"):
        ended = inside(
            capsys, "select", tmp_path / pattern, *asked, "--epsilon", 1, "--out", tmp_path / "a.csv"
        )
        assert_refused(ended, "is the file that is read")
    assert (tmp_path / "a.csv").read_text() == before
    assert not (tmp_path / "people.ledger").exists()


def test_what_is_said_of_all_lists_together(run):
    first = json.loads(run("--ledger-epsilon", 3).out)["reading"]
    assert "have spent epsilon 1 of 3." in first[1]
    second = json.loads(run().out)["reading"]
    assert "more than 2.719 times" in second[0]  # e^1, of this list alone
    assert "have spent epsilon 2 of 3." in second[1]
    assert "more than 7.39 times as likely" in second[1]  # e^2
    assert any("Guarantees add up" in said and "refuses what does not fit" in said for said in second)
    assert "Of at least one of them: " not in first[1] + second[1]


@pytest.mark.parametrize("definition", ["pure", "zcdp", "gdp"])
def test_what_was_spent_is_a_guarantee_whenever_one_stops_in_pure_epsilon_alone(run, tmp_path, definition):
    with dc.privacy.SQLiteLedger(tmp_path / "people.ledger") as ledger:
        gate = dc.Gate(dc.Budget(9.0, 1e-6), definition=definition, ledger=ledger)
        for _ in range(4):
            release = gate.laplace if definition == "pure" else gate.gaussian
            release(1.0, 4.0, sensitivity=1.0)
    (said,) = (one for one in json.loads(run().out)["reading"] if one.startswith("All lists charged"))
    assert ("settled in advance" in said) == (definition != "pure")


def test_a_list_that_was_conditional_is_not_forgotten(run):
    """What is said of all lists together says so, also in a run whose own list is not."""
    assert run("--ledger-epsilon", 3, listed=("--items-from-data",)).code == 0
    together = json.loads(run().out)["reading"][1]
    assert (
        "an item that only one person has gives them away"
        in together.partition(" Of at least one of them: ")[2]
    )


def test_true_counts_are_said_wherever_the_account_goes(run, capsys, tmp_path):
    """The file of the result and the ledger made documents for an officer that said nothing of them."""
    run("--ledger-epsilon", "3", "--insecure-diagnostics", "--out", tmp_path / "a.json")
    for file in ("people.ledger", "a.json"):
        inside(capsys, "report", tmp_path / file, "--out", tmp_path / "a.html")
        for told in (inside(capsys, "report", tmp_path / file).out, (tmp_path / "a.html").read_text()):
            assert "true counts were printed or written beside these releases" in " ".join(
                told.lower().split()
            )
    assert "Of at least one of them: true counts were printed" in " ".join(run().out.split())


def test_a_ledger_keeps_to_what_it_was_begun_with(run, tmp_path):
    assert run("--ledger-epsilon", 2).code == 0
    assert_refused(run("--ledger-epsilon", 5), "begun with 2, which stays; leave --ledger-epsilon out")
    assert_refused(run("--ledger-delta", 1e-6), "begun with 0, which stays; leave --ledger-delta out")
    assert_refused(run("--neighbours", "add_remove"), "begun with replace; say --neighbours replace")
    assert_refused(run("--delta", 1e-6), "the ledger holds none")
    assert_refused(run(ledger=tmp_path / "a.csv"), "is not a ledger")
    assert_refused(run("--out", tmp_path / "people.ledger"), "is the file that is read")
    assert spent(tmp_path).epsilon() == 1.0


@pytest.mark.parametrize(
    "other",
    [
        lambda run: run.part("some").choose([0.0, 1.0], rate=0.1, sensitivity=1.0),
        lambda run: run.part("some", 5).choose([0.0, 1.0], rate=0.1, sensitivity=1.0),
        lambda run: dc.offline.PrivateGreedy(1, run.split(2)[0]).select(Coverage([[1, 0], [0, 1]])),
        lambda run: dc.offline.PrivateGreedy(1, run.share(0.5)).select(Coverage([[1, 0], [0, 1]])),
        lambda run: dc.online.HedgeSelector(3, 1, 100, run, resample_every=10),
    ],
)
def test_whatever_spends_of_a_run_comes_after_its_charge(other):
    shared = Gate(Budget(1.0), 0)
    other(RunGate(Budget(0.5), shared, "a list", 0))
    assert shared.spent.epsilon() == 0.5


def test_nothing_spends_of_a_run_behind_its_back():
    run = RunGate(Budget(0.5), Gate(Budget(1.0), 0), "a list", 0)
    for share in (run.split(2)[0], run.share(0.5)):
        with pytest.raises(ValueError, match="the share is of a gate, which has to be charged for it"):
            Gate.of_share(share, 0)
    with pytest.raises(ValueError, match="a run is not saved"):
        run.state()


def test_a_run_is_about_the_same_neighbours_as_those_it_is_charged_with():
    """A guarantee about people who come or go says nothing of people who are replaced, and vice versa."""
    for mine, theirs in (("replace", "add_remove"), ("add_remove", "replace")):
        shared = Gate(Budget(1.0, neighbours=theirs))
        with pytest.raises(ValueError, match=f"neighbours='{mine}', but the shared gate is about '{theirs}'"):
            RunGate(Budget(0.5, neighbours=mine), shared, "a list")
        RunGate(Budget(0.5, neighbours=theirs), shared, "a list").laplace(0.0, 10.0, 1.0)
        assert shared.spent.epsilon() == 0.5


@pytest.mark.parametrize("first", ["seed", "part's seed", "caveat", "late caveat"])
def test_what_a_run_takes_for_granted_the_shared_account_says_too(first):
    shared = Gate(Budget(1.0))
    run = RunGate(Budget(0.5), shared, "a list", 7 if first == "seed" else None)
    where = run.part("some", 7) if first == "part's seed" else run
    if first == "caveat":
        run.add_caveats("the list of items came from data")
    assert not shared.spent.caveats  # a run that releases nothing changes nothing
    assert not shared.spent.reproducible
    where.laplace(0.0, 10.0, 1.0)
    if first == "late caveat":
        run.part("some").add_caveats("the list of items came from data")
    for account in (run.spent, shared.spent):
        assert account.reproducible == ("seed" in first)
        assert account.caveats == (("the list of items came from data",) if "caveat" in first else ())


def test_a_run_gets_no_other_budget():
    with pytest.raises(ValueError, match="budget of their own"):
        RunGate(Budget(0.5), Gate(Budget(1.0), 0), "a list", 0).with_budget(Budget(2.0))


def test_what_would_still_fit_does(tmp_path):
    shared = dc.Gate(dc.Budget(1.0, 1e-6), 0, definition="pure")
    shared.reserve(dc.privacy.ApproximateRelease(0.9, 1e-6 / 3))
    asked = common._refusal(tmp_path / "some.ledger", dc.Budget(0.3, 1e-7), shared)
    assert "--epsilon 0.3 --delta 1e-07 does not fit" in asked
    epsilon, delta = map(float, re.search(r"--epsilon (\S+) --delta (\S+) would still fit", asked).groups())
    assert shared.preview(dc.privacy.ApproximateRelease(epsilon, delta)).fits
    assert 0.0999 < epsilon <= 0.1
    full = dc.Gate(dc.Budget(1.0, 1e-6), 0, definition="pure")
    full.reserve(dc.privacy.ApproximateRelease(0.5, 1e-6))
    asked = common._refusal(tmp_path / "some.ledger", dc.Budget(0.5, 1e-7), full)
    assert asked.endswith("--epsilon 0.5 without --delta would still fit")


def test_what_is_said_to_be_spent_is_no_less_than_what_was(capsys, tmp_path):
    """Six digits of 1.2345644 are 1.23456 to the nearest."""
    (tmp_path / "a.csv").write_text("user,page\n" + "".join(f"u{n},tea\n" for n in range(60)))
    (tmp_path / "items.csv").write_text("page\ntea\njam\n")
    asked = ("select", tmp_path / "a.csv", "--person", "user", "--item", "page", "--k", 1)
    asked += ("--items", tmp_path / "items.csv", "--ledger", tmp_path / "people.ledger", "--epsilon")
    first = inside(capsys, *asked, 1.2345644, "--ledger-epsilon", 2.3456744)
    assert first.code == 0, first.err
    said = " ".join(first.out.split())
    assert "have spent epsilon 1.23457 of 2.34568. If any" in said
    assert "epsilon 1.23457 of 2.34568 spent, with this run" in said
    assert "epsilon 1.23457 of 2.34568 is spent" in inside(capsys, *asked, 2).err
