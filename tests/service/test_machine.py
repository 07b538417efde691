"""Whatever happens in whatever order: Hypothesis makes up the stories, and has to notice injected faults."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from discreet.service.database import SQLiteDatabase, failpoints
from discreet.service.engine import DecisionEngine
from discreet.service.worker import PopulationLedger, Worker
from tools.service_chaos import faults

from .machine import ServiceMachine, end
from .world import likes

STORIES = settings(
    derandomize=True,
    database=None,
    deadline=None,
    max_examples=15,
    stateful_step_count=30,
    phases=[Phase.generate],
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
)
# A story that each fault shows itself in, and what is noticed. Hypothesis finds such stories, too, but tells
# them again, and what a broken service does the second time depends on how threads take turns.
NOTICED = {
    "keeps_raw_rows": ("visit", "raw outcome was kept"),
    "serves_again_after_a_crash": ("visit crash look visit", "served twice|acknowledged outcome was lost"),
    "forgets_charges": ("visit", "nothing was charged"),
    "breaks_the_chain": ("visit", "not what was released"),
}


def test_no_story_breaks_a_promise():
    run_state_machine_as_test(ServiceMachine, settings=STORIES)


@pytest.fixture
def story():
    """Begins a story that a test tells."""
    machine = ServiceMachine()
    yield lambda: machine.make(likes) or machine
    if not machine.loop.is_closed():
        machine._close()


def test_erasure_at_the_turn_of_a_month_reaches_what_waits_from_before(story):
    begun = story()
    begun.visit("ann", 1)
    begun.next_month()
    begun.erase("ann")
    begun.teardown()


def test_an_outcome_after_blocks_were_closed_is_written_down(story):
    begun = story()
    decision = begun.visit("ann", 1)
    begun.change(retire=False)
    begun.look()  # its block shows an old catalogue, and is closed
    begun.report(decision, 2)
    begun.teardown()


@pytest.fixture
def broken():
    """Injects faults, and takes back whatever they have changed."""
    kinds = (Worker, DecisionEngine, SQLiteDatabase, PopulationLedger, faults._Wrapped)
    before = [dict(vars(kind)) for kind in kinds]
    yield lambda name: faults.FAULTS[name]()
    for kind, honest in zip(kinds, before, strict=True):
        for name in [name for name, found in vars(kind).items() if found is not honest.get(name)]:
            if name in honest:
                setattr(kind, name, honest[name])
            else:
                delattr(kind, name)


def happens(story, *steps):
    """What holds is looked at after every step, and at the end."""
    for step in steps:
        getattr(story, step)(*(("ann", 1) if step == "visit" else ()))
        story.nothing_is_learned_twice_nor_kept()
    story.teardown()


@pytest.mark.parametrize("fault", NOTICED)
def test_an_injected_fault_is_noticed(broken, story, fault):
    steps, noticed = NOTICED[fault]
    broken(fault)
    begun = story()
    with pytest.raises(AssertionError, match=noticed):
        happens(begun, *steps.split())


def test_people_who_are_counted_in_memory_are_noticed(broken, story):
    """Ann comes more often than she counts, and the process dies in between."""
    broken("counts_people_in_memory")
    begun = story()
    with pytest.raises(AssertionError, match=r"another decision was counted|said to count"):
        happens(begun, *3 * ["visit", "crash", "tick"])


def test_an_outcome_that_is_acknowledged_before_it_is_written_is_noticed(broken, story, monkeypatch):
    """The process dies with an outcome in its queue."""
    broken("acknowledges_before_commit")
    begun = story()
    decision = begun.decide("ann", exclude=False)
    with monkeypatch.context() as dying:
        dying.setitem(failpoints, "outcomes queued", end)
        begun.report(decision, 1)
        begun.crash()
    with pytest.raises(AssertionError, match="acknowledged outcome was lost"):
        begun.teardown()
