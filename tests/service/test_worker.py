"""Blocks, outcomes, releases and charges: what is committed together, and what a crash leaves."""

from __future__ import annotations

import contextlib
import json
import shutil
import sqlite3
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

import discreet as dc
from discreet.service import database, queries, worker
from discreet.service.auth import Secrets
from discreet.service.config import PopulationConfig
from discreet.service.database import open_store
from discreet.service.learning import DecisionBlock, Learning
from discreet.service.worker import (
    PAUSED,
    REPORTED,
    RUNNING,
    Pace,
    PopulationLedger,
    ShareUnavailable,
    Worker,
    check_room,
    gate_of,
    linked,
    periods_of,
)

from .world import ITEMS, NOISY, PURE, World, likes, taken


def test_an_interrupt_just_after_a_transaction_has_begun_leaves_none_open(tmp_path):
    store = open_store(f"sqlite:///{tmp_path}/service.db")
    plain = store._connection

    def execute(sql):
        store._connection = plain
        plain.execute(sql)
        raise KeyboardInterrupt

    store._connection = SimpleNamespace(execute=execute)
    with pytest.raises(KeyboardInterrupt), store.transaction():
        pass
    with store.transaction() as tx:
        assert tx.one("SELECT 1") == (1,)
    store.close()


def test_what_is_changed_as_soon_as_it_is_made_is_not_put_back(tmp_path, monkeypatch):
    """The state in which it was made would show what is retired, and number decisions as earlier ones."""
    world = World(f"sqlite:///{tmp_path}/service.db")
    world.worker.create_population("people", PURE)
    transaction = world.store.transaction

    @contextlib.contextmanager
    def then_changed():
        with transaction() as tx:
            yield tx
            found = tx.one("SELECT id FROM experiment")
        if found:
            monkeypatch.undo()
            world.worker.change_items(found[0], [], ["item 3"])

    monkeypatch.setattr(world.store, "transaction", then_changed)
    world.shop = world.worker.create("shop", "people", taken()).id
    world.worker.tick(world.shop)
    assert world.rows("SELECT next_sequence FROM experiment") == [(world.one.next_sequence,)] == [(32,)]
    assert world.one.learning.labels.index("item 3") not in world.one.learning.active


def test_raw_outcomes_are_gone_after_their_release(tmp_path):
    world = World(f"sqlite:///{tmp_path}/service.db", likes())
    for _ in range(8):
        _, sequence, _ = world.serve()
        world.report(sequence, ["a very rare marker"])
    files = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert b"a very rare marker" in files
    world.settle()
    assert not world.rows("SELECT * FROM outcome")
    world.store.scrub()
    assert all(b"a very rare marker" not in path.read_bytes() for path in tmp_path.iterdir())


def test_raw_outcomes_are_gone_a_minute_after_a_release_during_a_backup(tmp_path):
    """While somebody reads the file, its log cannot be cut off; nothing else may be released for long."""
    world = World(f"sqlite:///{tmp_path}/service.db", likes())
    for _ in range(8):
        _, sequence, _ = world.serve()
        world.report(sequence, ["a very rare marker"])
    with contextlib.closing(sqlite3.connect(tmp_path / "service.db")) as reads:
        reads.execute("BEGIN")
        assert reads.execute("SELECT count(*) FROM outcome").fetchone() == (8,)
        world.settle()
    assert b"a very rare marker" in (tmp_path / "service.db-wal").read_bytes()
    world.worker.forget_people()
    assert all(b"a very rare marker" not in path.read_bytes() for path in tmp_path.iterdir())


def test_what_is_committed_is_not_refused_because_remains_cannot_be_erased_yet(tmp_path):
    """As on a full disk: an erasure was answered as a failure of which nothing was recorded."""

    class Full:
        def __init__(self, plain):
            self.plain = plain

        def execute(self, sql, *values):
            if "checkpoint" in sql:
                raise sqlite3.OperationalError("database or disk is full")
            return self.plain.execute(sql, *values)

        def __getattr__(self, name):
            return getattr(self.plain, name)

    world = World(f"sqlite:///{tmp_path}/service.db", likes())
    plain, ann = world.store._connection, b"pseudonym of"
    world.report(world.serve(pseudonym=ann)[1], ["a very rare marker"], pseudonym=ann)
    world.store._connection = Full(plain)
    world.worker.erase("people", lambda *_: ann)
    assert world.rows("SELECT body FROM outcome") == [(None,)]
    world.store._connection = plain
    world.worker.forget_people()
    assert all(b"a very rare marker" not in path.read_bytes() for path in tmp_path.iterdir())


def test_raw_outcomes_are_gone_after_a_kill_between_release_and_scrub(tmp_path):
    world = World(f"sqlite:///{tmp_path}/service.db", likes())
    for _ in range(8):
        _, sequence, _ = world.serve()
        world.report(sequence, ["a very rare marker"])
    world.store.scrub = lambda: None
    world.settle()
    left = tmp_path / "left"
    left.mkdir()
    for name in ("service.db", "service.db-wal"):
        shutil.copy(tmp_path / name, left)
    assert b"a very rare marker" in (left / "service.db-wal").read_bytes()
    store = open_store(f"sqlite:///{left}/service.db")
    store.recover("another")
    assert all(b"a very rare marker" not in path.read_bytes() for path in left.iterdir())
    store.close()


def test_nothing_is_left_of_what_was_erased(tmp_path):
    world, secrets = World(f"sqlite:///{tmp_path}/service.db", likes()), Secrets.fresh()
    pseudonym = secrets.pseudonym(1, "2026-11", "ann")
    _, sequence, _ = world.serve(pseudonym=pseudonym)
    world.report(sequence, ["a very rare marker"], pseudonym=pseudonym)
    world.worker.erase("people", partial(secrets.pseudonym, person="ann"))
    assert all(b"a very rare marker" not in path.read_bytes() for path in tmp_path.iterdir())


def test_an_outcome_counts_once_and_in_time(url):
    world = World(url, likes())
    sequences = [world.serve()[1] for _ in range(8)]
    assert world.report(sequences[0], ["item 1"], served=False) == "early"
    world.write()
    assert world.report(sequences[0], ["item 1"], served=False) == "recorded"
    assert world.report(sequences[0], ["item 2"], served=False) == "duplicate"
    assert [bytes(body) for (body,) in world.rows("SELECT body FROM outcome")] == [b'["item 1"]']
    world.settle()
    assert world.report(sequences[1], ["item 1"], served=False) == "late"
    assert world.report(10_000, ["item 1"], served=False) == "late"
    assert not world.rows("SELECT * FROM outcome")


def test_a_commit_that_fails_leaves_everything(url):
    """Between the noise and the commit: nothing is charged, shown or deleted, and it is drawn again."""
    from discreet.service.database import failpoints

    world = World(url, likes(seed=None))
    for _ in range(8):
        _, sequence, _ = world.serve()
        world.report(sequence, ["item 1"])

    def fail():
        raise KeyboardInterrupt

    before = world.rows("SELECT * FROM outcome"), world.rows("SELECT seq, body FROM private_state")
    failpoints["noise drawn"] = fail
    try:
        with pytest.raises(KeyboardInterrupt):
            world.worker.tick(world.shop)
    finally:
        failpoints.pop("noise drawn", None)
    assert (world.rows("SELECT * FROM outcome"), world.rows("SELECT seq, body FROM private_state")) == before
    world.settle()
    assert not world.rows("SELECT * FROM outcome")
    assert world.one.seq == 1


def test_a_new_month_is_a_new_epoch_with_its_own_budget(url):
    """The noise is so small that two hundred people who like one item alone are always heard."""
    people = PopulationConfig(epsilon=30.0, delta=1e-6, definition="gdp", period="month")
    world = World(url, likes(seed=None, holdout=0.0), people)
    for _ in range(200):
        _, sequence, _ = world.serve()
        world.report(sequence, ["item 3"])
        world.settle()
    last = world.serve()
    pseudonym = b"m" * 12
    assert world.report(world.serve(pseudonym=pseudonym)[1], ["item 3"], pseudonym=pseudonym) == "recorded"
    before = world.one.learning.learner.round
    old = world.one.learning.learner
    world.now = world.now.replace(month=12)
    world.settle()
    assert world.one.epoch == 1
    # What was acknowledged was learned by the last month's learner; what nobody wrote down is no round.
    assert old.round == before + 2
    assert not world.rows("SELECT * FROM outcome")
    assert not world.rows("SELECT * FROM visit")
    assert {epoch for (epoch,) in world.rows("SELECT epoch FROM block")} == {1}
    assert world.report(last[1], ["item 3"], epoch=0, served=False) == "late"
    periods = periods_of(world.store, 1)
    assert periods.names == ["2026-11", "2026-12"]
    epochs = queries.epochs(world.store, "shop")
    assert [(one["epoch"], one.get("period")) for one in epochs] == [(1, "2026-12"), (0, None)]
    assert epochs[0]["releases"] + epochs[1]["releases"] == world.one.seq
    for name in periods.names:
        assert 28.0 < periods.account(name).epsilon() <= 30.0
    assert 30.0 < periods.total().epsilon() < 60.0
    world.blocks = []
    assert "item 3" in world.serve()[2]  # a warm start


def test_experiments_of_a_population_share_its_budget(url):
    world = World(url, likes(share=0.6))
    with pytest.raises(dc.BudgetExceeded, match="budget"):
        world.worker.create("second", "people", likes(share=0.6))
    assert world.rows("SELECT name FROM experiment") == [("shop",)]
    world.worker.create("second", "people", likes(share=0.4))
    spent = periods_of(world.store, 1).account("2026-11")
    assert 0.95 < spent.epsilon() <= 1.0


def test_shares_of_people_served_leave_with_noise_for_one_person(file_url):
    """The hold-out's and the learner's: about right, and never exact."""
    people = PURE
    world = World(file_url, likes(seed=3, measure=0.5, holdout=0.3, learner="PhasedSelector"), people)
    for _ in range(400):
        _, sequence, labels = world.serve()
        world.report(sequence, [labels[0]] if sequence % 2 else [])
        if world.blocks[0].over:
            world.settle()
    blocks = [
        block
        for (payload,) in world.rows("SELECT payload FROM release ORDER BY seq")
        for block in json.loads(payload)["shares"]
    ]
    assert len(blocks) >= 8
    scale = 1 / 2.0
    errors = np.array(
        [
            served - sequences / 2
            for block in blocks
            for served, sequences in zip(block["served"], block["decisions"], strict=True)
        ]
    )
    # Laplace noise of scale 1/2, and which decision is whose (a coin for each): six standard deviations.
    sequences = sum(sum(block["decisions"]) for block in blocks)
    assert abs(errors.sum()) < 6 * np.sqrt(2 * scale**2 * errors.size + sequences / 4)
    assert (np.abs(errors - errors.round()) > 1e-6).mean() > 0.9


def test_wrong_settings_are_refused_and_leave_nothing(url):
    world = World(url, likes())
    for wrong in (
        {"learner": "ThompsonSelector"},
        {"learner": "Nobody"},
        {"items": ["a", "a", "b"]},
        {"k": 99},
        {"options": {"nonsense": 1}},
        {"holdout": 0.2, "measure": 0.0},
        {"bound": 2.0},
    ):
        with pytest.raises(ValueError):
            world.worker.create("wrong", "people", likes(share=0.1, **wrong))
    assert world.rows("SELECT name FROM experiment") == [("shop",)]
    assert len(world.rows("SELECT DISTINCT experiment FROM charge")) == 1
    assert NOISY.epsilon == 1.0


@pytest.mark.parametrize("config", [likes(holdout=0.0), taken(holdout=0.0)], ids=["likes", "taken"])
def test_whether_somebody_reported_changes_no_number_of_rounds(config):
    """Served and altered decisions are known from serving: an outcome adds what it says, and no round."""

    found = []
    for outcomes in (
        {},
        {2: (True, b'"item 1"' if config.feedback == "slots" else b'["item 1"]')},  # altered, and reported
        {3: (False, b'"item 1"' if config.feedback == "slots" else b'["item 1"]')},
        {7: (False, b'"item 1"' if config.feedback == "slots" else b'["item 1"]')},  # was never served
    ):
        learning = Learning.begin(config, dc.Gate(dc.Budget(1.0, 1e-6), 5, definition="zcdp"))
        block = learning.allocate(1, 0, 0, 8, b"")
        block.served, block.altered = 6, {2}
        learning.aggregate(block, outcomes)
        found.append(
            (
                learning.learner.round,
                getattr(learning.learner, "pending", ()),
                learning.measure._open[""].decisions,
            )
        )
    assert all(one == found[0] for one in found)
    assert found[0][2] == [5, 0]


def test_the_oldest_of_too_many_open_rounds_count_as_took_nothing(monkeypatch):
    """The learner waits for so many; blocks that are older are aggregated all the same."""
    monkeypatch.setattr("discreet.online.learner.MOST_OPEN", 12)
    config = taken(holdout=0.0)
    learning = Learning.begin(config, dc.Gate(dc.Budget(4.0), 5, definition="pure"))
    blocks = [learning.allocate(1, 0, 8 * number, 8, b"") for number in range(3)]
    for block in blocks:
        block.served = 7
        learning.aggregate(block, dict.fromkeys(range(24), (False, b'"item 1"')))
    assert learning.learner.pending == ()
    assert learning.measure._open[""].decisions == [21, 0]


def test_blocks_are_as_large_as_what_comes_in_one_to_four_seconds(monkeypatch):
    """Twice as large where they lasted less than a second each, half where more than four."""
    times = iter([0.0, 1.9, 3.9, 11.9, 19.9, 28.1, 29.1, 29.2])
    monkeypatch.setattr(worker.time, "monotonic", lambda: next(times))
    pace = Pace()
    assert [pace.next(2) for _ in range(6)] == [4, 8, 8, 8, 8, 4]  # nothing is known of the first ones' pace
    pace.block = 4096
    assert pace.next(2) == 4096
    pace.block, pace.allocated_at = 1, -100.0
    assert pace.next(2) == 1


def test_a_seed_is_good_for_every_epoch(file_url):
    """Each draws other noise; none is negative, which no generator takes."""
    world = World(file_url, likes(share=0.5))
    drawn = []
    for epoch in range(3):
        with world.store.transaction() as tx:
            ledger = PopulationLedger(tx, 1, world.shop)
        gate = gate_of(NOISY, likes(seed=0), ledger, "2026-12", epoch)
        drawn.append(gate.key())
    assert len(set(drawn)) == 3


def test_shares_of_those_who_go_on_leave_the_rest(file_url):
    world = World(file_url, likes(share=0.25))
    second = world.worker.create("second", "people", likes(share=0.5)).id
    assert [one for (one,) in world.rows("SELECT version FROM charge ORDER BY version")] == list(
        range(1, 1 + world.rows("SELECT count(*) FROM charge")[0][0])
    )
    with world.store.transaction() as tx:
        check_room(tx, 1, 0.25)
        with pytest.raises(ShareUnavailable) as caught:
            check_room(tx, 1, 0.26)
        assert caught.value.left == 0.25
        check_room(tx, 1, 0.75, second)
        with pytest.raises(ShareUnavailable) as caught:
            check_room(tx, 1, 0.76, second)
        assert caught.value.left == 0.75


def test_whoever_takes_over_reads_again(file_url):
    """What was looked at under no lease is not taken for what is known under it."""
    world = World(file_url, likes())
    other = Worker(world.store, "another", clock=lambda: world.now)
    assert "item 12" not in other.experiment(world.shop).learning.labels
    world.worker.change_items(world.shop, ["item 12"], [])
    other.set_status(world.shop, PAUSED)
    assert other.experiment(world.shop).fence == 1
    assert world.rows("SELECT holder, fence FROM lease") == [("another", 1)]
    assert "item 12" in other.experiment(world.shop).learning.labels


def test_who_works_for_an_experiment_and_for_how_long(file_url, monkeypatch):
    """A lease that somebody else had is asked for again after half a second, and has the next number."""
    now = [100.0]
    monkeypatch.setattr(database, "time", SimpleNamespace(monotonic=lambda: now[0], time=lambda: 5000.0))
    store = World(file_url, likes()).store
    store.patience = 10.0
    store.beat("one", new=True)
    with store.transaction() as tx:
        assert tx.all("SELECT until FROM process WHERE name = 'one'") == [(5010.0,)]
    assert store.lease(1, "one") == 0
    assert store.lease(1, "two") is None
    store.leave("one")
    now[0] += 0.4
    assert store.lease(1, "two") is None
    now[0] += 0.2
    assert store.lease(1, "two") == 1
    with store.transaction() as tx:
        assert tx.all("SELECT holder, fence FROM lease") == [("two", 1)]


def test_what_is_due_and_in_which_order(file_url):
    """Two blocks of each segment wait; a closed block waits for an open one before it."""
    world = World(file_url, likes(segments=["de", "fr"], seed=None))
    assert world.worker.due() == []
    first, second = (
        DecisionBlock.read(world.store.lease_block(world.shop, 0, world.owner, "de")) for _ in range(2)
    )
    assert world.worker.due() == [world.shop]
    assert world.worker.tick(world.shop)
    assert world.worker.due() == []
    assert world.one.next_sequence == 6 * 8
    world.blocks = [first, second]
    second.served = second.count
    world.write()  # the second is over, and waits for no outcome
    assert world.worker.due() == [world.shop]
    world.worker.tick(world.shop)
    assert world.one.seq == 0
    world.blocks = [first]
    first.served = first.count
    world.write()
    world.settle()
    assert world.one.seq == 1
    assert world.one.used == 8 + 8
    assert world.worker.beyond(world.shop, 0, world.one.next_sequence)
    assert not world.worker.beyond(world.shop, 0, world.one.next_sequence - 1)
    assert world.worker.beyond(world.shop, 1, 0)


def test_a_period_that_has_begun_stays_begun(file_url):
    world = World(file_url, likes())
    november, december = world.now, world.now.replace(month=12)
    world.worker.set_status(world.shop, PAUSED)
    world.worker.set_status(world.shop, RUNNING)
    assert world.one.epoch == 0  # the same period
    world.worker.set_status(world.shop, PAUSED)
    with world.store.transaction() as tx:
        tx.do("INSERT INTO restored VALUES (?)", "2026-10")
    world.now = december
    world.worker.set_status(world.shop, RUNNING)
    assert world.one.epoch == int(december.timestamp())  # which no epoch had that this store has lost
    world.now = november
    assert world.worker.due() == []
    with world.store.transaction() as tx:
        assert world.worker.latest(tx, 1, NOISY) == "2026-12"
        world.now = december.replace(year=2027)
        assert world.worker.latest(tx, 1, NOISY) == "2027-12"


def test_a_link_names_everything_before_it():
    assert linked(linked(b"", "one"), "two") != linked(linked(b"", "another"), "two")


def liked(rng):
    return [ITEMS[i] for i in np.flatnonzero(rng.random(len(ITEMS)) < 0.3)]


def test_state_after_a_crash_is_that_of_the_last_commit(url):
    world = World(url, likes(seed=None))
    rng = np.random.default_rng(1)
    for number in range(60):
        _, sequence, _ = world.serve()
        assert world.report(sequence, liked(rng)) == "recorded"
        if number % 7 == 3:
            before = world.one.seq, world.one.next_sequence, world.rows("SELECT count(*) FROM outcome")
            released = world.one.learning.learner.released
            world.crash()
            world.shop = 1
            assert (
                world.one.seq,
                world.one.next_sequence,
                world.rows("SELECT count(*) FROM outcome"),
            ) == before
            assert world.one.learning.learner.released.items == released.items
            with pytest.raises(IndexError):
                world.blocks[0]  # what was leased is not served again
        world.settle()
    firsts = [first for (first,) in world.rows("SELECT first FROM block ORDER BY first")]
    assert len(set(firsts)) == len(firsts)
    assert periods_of(world.store, 1).account("2026-11").epsilon() <= 1.0


def test_what_came_of_a_block_is_read_without_reading_every_request(tmp_path):
    """Of a table of requests as large as ten minutes of traffic, those of the block are looked up."""
    world = World(f"sqlite:///{tmp_path}/service.db", likes())
    plan = world.rows("EXPLAIN QUERY PLAN " + REPORTED, 1, "2026-11", 1, 0, 0, 8, 1, 0, 0, 8)
    (found,) = (what for *_, what in plan if " r " in what)
    assert "request_sequence (experiment=? AND epoch=? AND sequence>? AND sequence<?)" in found
