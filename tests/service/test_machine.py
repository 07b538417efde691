"""Whatever happens in whatever order: Hypothesis makes up the stories, and has to notice injected faults."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from discreet.service.database import Frozen, SQLiteDatabase
from discreet.service.engine import DecisionEngine
from discreet.service.worker import PopulationLedger, Worker
from tools.service_chaos import faults

from .machine import ServiceMachine
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
BY_ITSELF = "goes on in the next period"  # a service that notices what was lost is frozen
NOTICED = {
    "acknowledges_before_commit": f"second outcome was recorded|acknowledged outcome was lost|{BY_ITSELF}",
    "keeps_raw_rows": "raw outcome was kept",
    "serves_again_after_a_crash": f"served twice|acknowledged outcome was lost|comes to no end|{BY_ITSELF}",
    "forgets_charges": "nothing was charged",
    "breaks_the_chain": "follows from no release|not what was released",
}


def test_no_story_breaks_a_promise():
    run_state_machine_as_test(ServiceMachine, settings=STORIES)


def test_erasure_at_the_turn_of_a_month_reaches_what_waits_from_before():
    story = ServiceMachine()
    story.make(likes)
    story.visit("ann", 1)
    story.next_month()
    story.erase("ann")
    story.teardown()


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


@pytest.mark.parametrize("fault", NOTICED)
def test_an_injected_fault_is_noticed(broken, fault):
    broken(fault)
    with pytest.raises((AssertionError, Frozen), match=NOTICED[fault]):  # which ends at the first one
        run_state_machine_as_test(ServiceMachine, settings=settings(STORIES, max_examples=100))


def test_people_who_are_counted_in_memory_are_noticed(broken):
    """Ann comes more often than she counts, and the process dies in between."""
    broken("counts_people_in_memory")
    story = ServiceMachine()
    story.make(likes)
    with pytest.raises(AssertionError, match=r"another decision was counted|said to count"):
        _visits_between_crashes(story)
    story._drop()
    story.patches.close()
    story.loop.close()


def _visits_between_crashes(story):
    for _ in range(3):
        story.visit("ann", 1)
        story.crash()
        story.tick()
