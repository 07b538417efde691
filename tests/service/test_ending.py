"""Experiments that pause, end or are deleted: the account says what was released, whenever a process ends."""

from __future__ import annotations

import gc
import weakref

import pytest

import discreet as dc
from discreet.service import backup
from discreet.service.config import PopulationConfig
from discreet.service.database import Ended, Frozen, failpoints
from discreet.service.worker import (
    ENDED,
    ENDING,
    FROZEN,
    PAUSED,
    RUNNING,
    InUse,
    ShareUnavailable,
    Worker,
    periods_of,
)

from .world import PURE, World, taken

HALF = taken(share=0.5)


def status(world, number=None):
    return world.rows("SELECT status FROM experiment WHERE id = ?", number or world.shop)[0][0]


def spent(world):
    periods = periods_of(world.store, 1)
    return {name: periods.account(name).epsilon() for name in periods.names}


def serve(world, decisions, item="item 1"):
    """Decisions, each with an outcome."""
    for _ in range(decisions):
        _, sequence, _ = world.serve()
        world.report(sequence, item)


def has_released(world):
    """As if it had learned from one decision."""
    with world.store.transaction() as tx:
        tx.do("UPDATE experiment SET used = 1")
    world.worker.forget_all()


def clean(world):
    assert backup.verify(world.store) == []


def next_month(world):
    world.now = world.now.replace(month=world.now.month + 1)


# --- periods in which nothing runs ---------------------------------------------------------------------


def test_a_paused_experiment_is_charged_for_no_period(url):
    world = World(url, HALF, PURE)
    world.worker.set_status(world.shop, PAUSED)
    next_month(world)
    world.settle()
    assert spent(world) == {"2026-11": 2.0}
    assert status(world) == PAUSED
    assert not world.rows("SELECT first FROM block")
    # Its share of December is another's, unless it goes on first.
    world.worker.create("second", "people", taken(share=0.75))
    with pytest.raises(dc.BudgetExceeded):
        world.worker.create("third", "people", HALF)
    with pytest.raises(ShareUnavailable) as caught:
        world.worker.set_status(world.shop, RUNNING)
    assert caught.value.left == 0.25
    assert status(world) == PAUSED
    assert spent(world) == {"2026-11": 2.0, "2026-12": 3.0}
    clean(world)


def test_what_was_paused_goes_on_in_a_period_that_it_pays_for(url):
    world = World(url, HALF, PURE)
    serve(world, 3)
    world.worker.set_status(world.shop, PAUSED)
    next_month(world)
    world.worker.set_status(world.shop, RUNNING)
    assert spent(world) == {"2026-11": 2.0, "2026-12": 2.0}
    assert (status(world), world.one.epoch, world.one.period) == (RUNNING, 1, "2026-12")
    assert world.rows("SELECT used FROM experiment") == [(0,)]
    world.blocks = []
    world.sequences = []
    serve(world, 8)
    world.settle()
    assert world.rows("SELECT used FROM experiment") == [(8,)]
    clean(world)


def test_what_waits_when_a_paused_experiments_period_is_over_is_learned_by_whom_it_was_paid_for(url):
    world = World(url, taken(share=0.5, outcome_wait=3600.0), PURE)
    serve(world, 3)
    world.worker.set_status(world.shop, PAUSED)
    world.settle()
    assert len(world.rows("SELECT sequence FROM outcome")) == 3
    next_month(world)
    world.settle()
    assert not world.rows("SELECT sequence FROM outcome")
    assert world.rows("SELECT used FROM experiment") == [(3,)]
    assert spent(world) == {"2026-11": 2.0}
    clean(world)


def test_nobodys_pseudonym_outlives_a_period_where_nothing_goes_on(url):
    world = World(url, HALF, PURE)
    _, sequence, _ = world.serve(pseudonym=b"p" * 12)
    world.report(sequence, None, pseudonym=b"p" * 12)
    world.worker.set_status(world.shop, PAUSED)
    world.worker.forget_people()
    assert len(world.rows("SELECT period FROM visit")) == 1  # they count until the month is over
    next_month(world)
    world.worker.forget_people()
    assert len(world.rows("SELECT period FROM visit")) == 1  # what waits is still to be learned
    world.settle()
    world.worker.forget_people()
    assert not world.rows("SELECT period FROM visit")


def test_a_budget_that_others_have_spent_pauses(url, monkeypatch):
    """However it came to that: nothing is charged, nothing is tried for ever, and the audit log says why."""
    world = World(url, taken(share=0.5), PURE)
    next_month(world)
    with pytest.raises(ShareUnavailable):
        world.worker.create("second", "people", taken(share=0.75))
    monkeypatch.setattr("discreet.service.worker.check_room", lambda *_: None)
    world.worker.create("second", "people", taken(share=0.75))
    while world.worker.due():
        for number in world.worker.due():
            world.worker.tick(number)
    statuses = dict(world.rows("SELECT name, status FROM experiment"))
    assert statuses == {"shop": PAUSED, "second": RUNNING}
    assert spent(world)["2026-12"] == 3.0
    assert any(action.startswith("paused: ") for (action,) in world.rows("SELECT action FROM audit"))


# --- the end ------------------------------------------------------------------------------------------


def test_what_has_released_nothing_gets_its_share_back_at_once(url):
    world = World(url, taken(share=1.0, outcome_wait=3600.0), PURE)
    serve(world, 5)  # acknowledged, and never learned
    assert spent(world) == {"2026-11": 4.0}
    assert world.worker.end(world.shop) == (ENDED, True)
    assert spent(world) == {}
    for table in ("outcome", "block", "private_state"):
        assert not world.rows(f"SELECT * FROM {table}")
    assert not world.rows("SELECT * FROM release")
    second = world.worker.create("second", "people", taken(share=1.0)).id
    assert spent(world) == {"2026-11": 4.0}
    clean(world)
    # Another process reads the same account.
    world.crash()
    assert spent(world) == {"2026-11": 4.0}
    assert (status(world), status(world, second)) == (ENDED, RUNNING)
    for again in (partial_end(world), lambda: world.worker.set_status(world.shop, RUNNING)):
        with pytest.raises(Ended):
            again()
    with pytest.raises(Ended):
        world.worker.change_items(world.shop, ["new"], [])


def partial_end(world):
    return lambda: world.worker.end(world.shop)


def test_what_has_released_something_stays_charged_until_the_next_period(url):
    world = World(url, taken(share=1.0), PURE)
    serve(world, 8)
    world.settle()
    assert world.rows("SELECT used FROM experiment") == [(8,)]
    assert world.worker.end(world.shop) == (ENDED, False)
    assert spent(world) == {"2026-11": 4.0}
    with pytest.raises(dc.BudgetExceeded):
        world.worker.create("second", "people", HALF)
    next_month(world)
    assert not world.worker.due()
    world.worker.create("second", "people", taken(share=1.0))
    assert spent(world) == {"2026-11": 4.0, "2026-12": 4.0}
    clean(world)


def test_the_end_of_an_open_block(url):
    """Decisions that were made are learned from when their time is over, and nobody gets a new one."""
    world = World(url, taken(share=1.0, outcome_wait=3600.0), PURE)
    has_released(world)
    serve(world, 3)
    late = world.serve()[1]
    world.write()
    assert world.worker.end(world.shop) == (ENDING, False)
    assert world.store.lease_block(world.shop, 0, world.owner) is None
    assert world.report(late, "item 1") == "recorded"
    assert not world.worker.due()
    with pytest.raises(Ended):
        world.worker.set_status(world.shop, PAUSED)
    world.blocks[0].over_at = 0.0  # as the engine does once it hears of the end
    world.write()
    assert not world.worker.due()  # outcomes are awaited
    with world.store.transaction() as tx:
        tx.do("UPDATE block SET closed_at = closed_at - 3600")
    world.settle()
    assert (status(world), world.rows("SELECT used FROM experiment")) == (ENDED, [(5,)])
    assert world.rows("SELECT count(*) FROM release") == [(1,)]
    assert not world.rows("SELECT * FROM private_state")
    clean(world)


def test_an_end_whose_period_is_over_meanwhile(url):
    world = World(url, taken(share=1.0, outcome_wait=3600.0), PURE)
    has_released(world)
    serve(world, 3)
    assert world.worker.end(world.shop) == (ENDING, False)
    next_month(world)
    world.settle()
    assert status(world) == ENDED
    assert spent(world) == {"2026-11": 4.0}
    assert world.rows("SELECT used FROM experiment") == [(4,)]
    clean(world)


POINTS = ["block closed", "outcomes read", "noise drawn", "release committed"]


@pytest.mark.parametrize("point", [*POINTS, "ended", "before the commit"])
@pytest.mark.parametrize("used", [0, 1])
def test_a_kill_at_each_step_of_an_end(url, point, used, monkeypatch):
    """Charged and released, or void and never used; never one without the other."""
    world = World(url, taken(share=1.0), PURE)
    if used:
        has_released(world)
    serve(world, 3)

    def die():
        raise KeyboardInterrupt

    killed = False
    try:
        if point == "before the commit":
            monkeypatch.setattr(world.worker, "_finished" if not used else "_changing", lambda *_: die())
        else:
            failpoints[point] = die
        try:
            world.worker.end(world.shop)
            world.write()
            with world.store.transaction() as tx:
                tx.do("UPDATE block SET closed_at = 0")
            world.settle()
        except KeyboardInterrupt:
            killed = True
    finally:
        failpoints.pop(point, None)
    assert killed == (used == 1 or point in ("ended", "before the commit"))
    world.crash()
    if status(world) == RUNNING:  # nothing was committed, so that nothing has happened
        assert point == "before the commit"
        assert spent(world) == {"2026-11": 4.0}
        clean(world)
        world.worker.end(world.shop)
    world.settle()
    assert status(world) == ENDED
    assert spent(world) == ({"2026-11": 4.0} if used else {})
    assert world.rows("SELECT used FROM experiment") == [(4 if used else 0,)]
    assert world.rows("SELECT count(*) FROM release") == [(1 if used else 0,)]
    clean(world)


def test_charges_that_were_given_back_free_no_version_for_two(url):
    """Somebody who read the account before an end is charged after it, under a number of their own."""
    world = World(url, taken(share=0.5), PURE)
    from discreet.service.worker import PopulationLedger

    with world.store.transaction() as tx:
        before = PopulationLedger(tx, 1, 0)
    world.worker.end(world.shop)
    with world.store.transaction() as tx:
        after = PopulationLedger(tx, 1, 0)
    assert (len(before.entries()), len(after.entries())) == (2, 0)
    world.worker.create("second", "people", taken(share=0.5))
    versions = [version for (version,) in world.rows("SELECT version FROM charge ORDER BY version")]
    assert versions == [1, 2, 3, 4]


@pytest.mark.parametrize("how", ["end", "delete"])
def test_nobodys_outcomes_stay_in_the_memory_of_a_process_when_another_one_has_ended_it(url, how):
    world = World(url, taken(), PURE)
    world.worker.tick(world.shop)
    state = weakref.ref(world.one.learning)
    getattr(Worker(world.store, "another", lambda: world.now), how)(world.shop)
    assert world.worker.due() == []
    gc.collect()
    assert state() is None


def test_a_store_that_was_put_back_gives_nothing_back(url):
    """Before the end, with nothing released then: what was released afterwards is not known."""
    world = World(url, taken(share=1.0), PURE)
    backup.freeze_after_restore(world.store, world.worker)
    assert status(world) == FROZEN
    assert world.worker.end(world.shop) == (ENDED, False)
    assert spent(world) == {"2026-11": 4.0}
    with pytest.raises(Frozen):
        world.worker.create("second", "people", taken(share=1.0))
    next_month(world)
    world.worker.create("second", "people", taken(share=1.0))
    clean(world)


def test_a_restore_leaves_what_has_ended_ended_and_what_was_paused_paused(url):
    world = World(url, taken(share=0.25), PURE)
    others = [world.worker.create(name, "people", taken(share=0.25)).id for name in ("b", "c", "d")]
    world.worker.end(others[0])
    world.worker.set_status(others[1], PAUSED)
    with world.store.transaction() as tx:
        tx.do("UPDATE experiment SET used = 1, status = ? WHERE id = ?", ENDING, others[2])
    world.worker.forget_all()
    assert backup.freeze_after_restore(world.store, world.worker) == ["shop", "c"]
    assert [status(world, one) for one in others] == [ENDED, FROZEN, ENDED]
    clean(world)
    next_month(world)
    while world.worker.due():
        for number in world.worker.due():
            world.worker.tick(number)
    assert [status(world, one) for one in (world.shop, *others)] == [RUNNING, ENDED, PAUSED, ENDED]
    assert spent(world)["2026-12"] == 1.0
    epoch = world.rows("SELECT epoch FROM experiment WHERE id = ?", others[1])[0][0]
    world.worker.set_status(others[1], RUNNING)
    went_on = world.worker.experiment(others[1]).epoch
    assert went_on > epoch + 1_000_000  # a number that the state which was lost has not used
    assert spent(world)["2026-12"] == 2.0
    clean(world)


@pytest.mark.parametrize("how", ["end", "delete"])
def test_what_was_paused_when_a_store_was_put_back_gets_nothing_back_later_either(url, how):
    """It may have gone on after the backup: that the older state has released nothing says nothing."""
    world = World(url, HALF, PURE)
    world.worker.set_status(world.shop, PAUSED)
    backup.freeze_after_restore(world.store, world.worker)
    next_month(world)
    world.settle()
    assert status(world) == PAUSED
    if how == "end":
        assert world.worker.end(world.shop) == (ENDED, False)
    else:
        with pytest.raises(InUse):
            world.worker.delete(world.shop)
    assert spent(world) == {"2026-11": 2.0}
    clean(world)


def test_a_period_that_has_begun_stays_when_a_clock_goes_back(url):
    """Nothing is charged to the earlier one again, nor given back; everything goes on in the later one."""
    world = World(url, HALF, PURE)
    serve(world, 8)
    world.settle()
    november = world.now
    next_month(world)  # too early
    world.settle()
    world.now = november
    world.settle()
    assert (status(world), world.one.epoch, world.one.period) == (RUNNING, 1, "2026-12")
    assert spent(world) == {"2026-11": 2.0, "2026-12": 2.0}
    world.blocks, world.sequences = [], []
    serve(world, 8)
    world.settle()
    assert world.rows("SELECT used FROM experiment") == [(8,)]
    second = world.worker.create("second", "people", HALF)
    assert second.period == "2026-12"
    assert spent(world) == {"2026-11": 2.0, "2026-12": 4.0}
    world.worker.set_status(world.shop, PAUSED)
    world.worker.set_status(world.shop, RUNNING)
    assert world.worker.end(world.shop)[1] is False
    assert spent(world) == {"2026-11": 2.0, "2026-12": 4.0}
    backup.freeze_after_restore(world.store, world.worker)
    world.worker.end(second.id)
    with pytest.raises(Frozen):
        world.worker.create("third", "people", HALF)
    clean(world)


# --- what was never used -------------------------------------------------------------------------------


def test_what_was_never_used_can_be_deleted(url):
    world = World(url, taken(share=1.0), PURE)
    with pytest.raises(InUse):
        world.worker.delete_population("people")
    world.worker.delete(world.shop)
    for table in ("experiment", "block", "item", "private_state", "lease"):
        assert not world.rows(f"SELECT * FROM {table}")
    assert spent(world) == {}
    assert not world.worker.due()
    world.shop = world.worker.create("shop", "people", taken(share=1.0)).id
    assert spent(world) == {"2026-11": 4.0}
    world.worker.delete(world.shop)
    world.worker.delete_population("people")
    assert not world.rows("SELECT * FROM population")
    clean(world)
    with pytest.raises(LookupError):
        world.worker.delete_population("people")


def test_what_another_process_has_deleted_is_missing(url):
    """It was said that its name is taken."""
    world = World(url, HALF, PURE)
    world.worker.delete(world.shop)
    for ask in (
        lambda: world.worker.set_status(world.shop, PAUSED),
        lambda: world.worker.change_items(world.shop, ["new"], []),
        lambda: world.worker.end(world.shop),
        lambda: world.worker.delete(world.shop),
    ):
        with pytest.raises(LookupError, match="experiment"):
            ask()
    assert not world.rows("SELECT * FROM lease")


@pytest.mark.parametrize("how", ["leased", "changed", "released", "restored"])
def test_what_was_used_can_only_be_ended(url, how):
    world = World(url, taken(share=1.0), PURE)
    if how == "leased":
        world.store.lease_block(world.shop, 0, world.owner)
    elif how == "changed":
        world.worker.change_items(world.shop, ["new"], [])
    elif how == "restored":
        backup.freeze_after_restore(world.store, world.worker)
    else:
        serve(world, 8)
        world.settle()
    with pytest.raises(InUse):
        world.worker.delete(world.shop)
    assert spent(world) == {"2026-11": 4.0}
    world.worker.end(world.shop)
    with pytest.raises(InUse):
        world.worker.delete_population("people")
    clean(world)


def test_the_default_share_leaves_room_for_a_second_experiment(url):
    from discreet.service.config import ExperimentConfig

    world = World(url)
    world.worker.create_population("people", PopulationConfig(epsilon=1.0))
    config = ExperimentConfig(items=["a", "b", "c"], k=1, feedback="slots")
    for name in ("first", "second"):
        world.worker.create(name, "people", config)
    assert spent(world) == {"2026-11": 1.0}


# --- what was given back was never spent ---------------------------------------------------------------


@pytest.mark.parametrize("blocks", [0, 1, 2])
def test_a_share_is_given_back_only_where_nothing_that_is_seen_depends_on_outcomes(tmp_path, blocks):
    """Two stories that differ in what was reported: what is left, and was served, is the same, or paid for.

    Seeded, so that a difference is the outcomes' and not the noise's.
    """
    seen, charged = [], []
    for number, item in enumerate((None, "item 1")):
        people = PopulationConfig(epsilon=4000.0)
        world = World(f"sqlite:///{tmp_path}/{number}.db", taken(share=1.0, options={"block": 4}), people)
        shown = []
        for turn in range(8 * blocks + 5):
            _, sequence, labels = world.serve()
            shown.append(labels)
            world.report(sequence, labels[0] if item else None)
            if turn % 8 == 7:
                world.settle()
        _, given_back = world.worker.end(world.shop)
        world.write()
        world.settle()
        rows = "SELECT payload FROM release ORDER BY seq", "SELECT label, retired FROM item ORDER BY number"
        seen.append(
            (shown, given_back, *map(world.rows, rows), world.rows("SELECT status, used FROM experiment"))
        )
        charged.append(spent(world))
        clean(world)
        world.store.close()
    assert charged[0] == charged[1]  # that is public
    assert bool(charged[0]) == (blocks > 0)
    assert (seen[0] == seen[1]) == (blocks == 0)  # at this epsilon they are seen as soon as they are learned
