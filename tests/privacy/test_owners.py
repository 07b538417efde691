"""Charges of what can be saved: each state comes back once, and no older one, whatever was released since."""

from __future__ import annotations

import contextlib
import json
import threading

import numpy as np
import pytest

import discreet as dc
from discreet.privacy import FactorizedSum, Gate, MemoryLedger, SQLiteLedger, TreeSum

BUDGET = dc.Budget(1.0, 1e-6)
ROUNDS = 40


def _ledger(kind, path):
    return SQLiteLedger(path / "people.ledger") if kind == "file" else MemoryLedger()


def _restarted(kind, path, ledger):
    """The ledger as the next process finds it, the one before having ended."""
    if kind == "file":
        ledger.close()
        return SQLiteLedger(path / "people.ledger")
    return MemoryLedger.from_json(json.loads(json.dumps(ledger.to_json())))


def _gate(ledger):
    return Gate(BUDGET, definition="gdp", ledger=ledger)


def _person(item=1):
    return dc.objectives.Coverage(np.eye(3, dtype=bool)[[item]])


def _sum(gate, rounds=4):
    return FactorizedSum(1, rounds, gate, box=(0.0, 1.0), share=0.25)


LEARNERS = {
    "running sums": lambda share: dc.online.RunningSumSelector(3, 1, ROUNDS, share, resample_every=5),
    "leader": lambda share: dc.online.LeaderSelector(3, 1, ROUNDS, share, batch=5),
    "hedge": lambda share: dc.online.HedgeSelector(3, 1, ROUNDS, share, resample_every=5),
    "phased": lambda share: dc.online.PhasedSelector(3, 1, share, window=5),
    "thompson": lambda share: dc.online.ThompsonSelector(3, 1, ROUNDS, share, block=5),
    "bandit": lambda share: dc.online.BanditSelector(3, 1, ROUNDS, share, block=2),
    "segments": lambda share: dc.online.Segments(
        lambda own: dc.online.LeaderSelector(3, 1, ROUNDS, own, batch=5), ["de", "fr"], share, by="country"
    ),
}


def _played(learner, rounds):
    for _ in range(rounds):
        if isinstance(learner, dc.online.Segments):
            learner.choose("de")
            learner.learn(_person(), segment="de")
        else:
            learner.choose()
            reward = type(learner).__name__ in ("ThompsonSelector", "BanditSelector")
            learner.learn(0.5 if reward else _person())


@pytest.mark.parametrize("kind", ["file", "memory"])
@pytest.mark.parametrize("name", LEARNERS)
def test_a_state_comes_back_once_and_only_when_nobody_goes_on(name, kind, tmp_path):
    """Another learner of the same kind was charged for the same, and does not lend its charge."""
    ledger = _ledger(kind, tmp_path)
    gate = _gate(ledger)
    learner, other = (LEARNERS[name](gate.share(0.2)) for _ in range(2))
    _played(learner, 12)
    _played(other, 12)
    learner.save(tmp_path / "state")
    with pytest.raises(ValueError, match="already in use"):
        dc.load(tmp_path / "state", gate=gate)
    gate = _gate(_restarted(kind, tmp_path, ledger))
    before = gate.spent.to_json()
    again = dc.load(tmp_path / "state", gate=gate)
    for _ in range(2):
        with pytest.raises(ValueError, match="already in use"):
            dc.load(tmp_path / "state", gate=gate)
    _played(again, 12)
    assert gate.spent.to_json() == before


@pytest.mark.parametrize("kind", ["file", "memory"])
@pytest.mark.parametrize("name", LEARNERS)
def test_an_older_state_is_refused_once_a_later_one_is_known_of(name, kind, tmp_path):
    """A learner that was saved again, or gone on from: its older states would release again what is out."""
    ledger = _ledger(kind, tmp_path)
    learner = LEARNERS[name](_gate(ledger).share(0.2))
    _played(learner, 6)
    learner.save(tmp_path / "older")
    _played(learner, 6)
    learner.save(tmp_path / "state")
    ledger = _restarted(kind, tmp_path, ledger)
    with pytest.raises(ValueError, match=r"was saved again, or went on, since this state \(number 1 of 2\)"):
        dc.load(tmp_path / "older", gate=_gate(ledger))
    again = dc.load(tmp_path / "state", gate=_gate(ledger))
    older = again.to_bytes()  # which the ledger hears of when somebody goes on from a later one
    later = again.to_bytes()
    ledger = _restarted(kind, tmp_path, ledger)
    third = dc.load(later, gate=_gate(ledger))
    ledger = _restarted(kind, tmp_path, ledger)
    with pytest.raises(ValueError, match="was saved again, or went on"):
        dc.load(older, gate=_gate(ledger))
    assert third is not None


@pytest.mark.parametrize("kind", ["file", "memory"])
@pytest.mark.parametrize("end", ["horizon", "finish()"])
@pytest.mark.parametrize("name", ["running sums", "hedge", "thompson", "bandit", "segments"])
def test_what_has_come_to_its_end_is_not_gone_on_with(name, end, kind, tmp_path):
    """Nothing is saved at the end: the ledger knows of it."""
    ledger = _ledger(kind, tmp_path)
    learner = LEARNERS[name](_gate(ledger).share(0.2))
    _played(learner, 12)
    learner.save(tmp_path / "state")
    assert ledger.unfinished()
    if end == "finish()":
        learner.finish()
        learner.finish()
    elif name == "segments":
        for segment in ("de", "fr"):
            while not learner.of(segment)._learner.over:
                learner.choose(segment)
                learner.learn(_person(), segment=segment)
    else:
        _played(learner, ROUNDS - 12)
    assert ledger.unfinished() == []
    with pytest.raises(RuntimeError, match=r"is over|finish\(\) was called|comes after choose"):
        _played(learner, 1)
    last = learner.to_bytes()
    served = None if name == "segments" else learner.choose().items
    ledger = _restarted(kind, tmp_path, ledger)
    with pytest.raises(ValueError, match="has drawn everything it was charged for since this state"):
        dc.load(tmp_path / "state", gate=_gate(ledger))
    again = dc.load(last, gate=_gate(ledger))  # to serve the last decision on
    if name != "segments":
        assert again.over
        assert again.choose().items == served
    again.finish()  # as it is already
    dc.load(last, gate=_gate(_restarted(kind, tmp_path, ledger)))


@pytest.mark.parametrize("end", ["horizon", "finish()"])
@pytest.mark.parametrize("fault", [KeyboardInterrupt, TimeoutError])
def test_an_end_that_could_not_be_written_down_is_written_by_the_next_call(fault, end, monkeypatch):
    """An interrupt, or another writer: until the ledger knows of the end an earlier state comes back."""
    ledger = MemoryLedger()
    learner = LEARNERS["running sums"](_gate(ledger).share(0.2))
    _played(learner, 12)

    def broken(*_, **__):
        raise fault

    with monkeypatch.context() as patched:
        patched.setattr(MemoryLedger, "note", broken)
        with contextlib.suppress(fault):
            learner.finish() if end == "finish()" else _played(learner, ROUNDS - 12)
    assert ledger.unfinished()
    learner.finish()
    assert ledger.unfinished() == []


def test_finished_charges_are_nobody_elses():
    """Eight sums alike, seven of them finished: the state of the eighth comes back once."""
    gate = Gate(BUDGET, definition="gdp")
    sums = [FactorizedSum(1, 2, gate, box=(0.0, 1.0), share=1 / 8) for _ in range(8)]
    state, early = sums[0].state(), sums[1].state()
    for total in sums[1:]:
        total.add([1.0])
        total.add([0.0])
    again = Gate.from_state(gate.state())
    assert len(FactorizedSum.from_state(*state, again).add([1.0])) == 1
    for one, why in ((state, "already in use"), (early, "has drawn everything")):
        with pytest.raises(ValueError, match=why):
            FactorizedSum.from_state(*one, again)


@pytest.mark.parametrize("kind", ["file", "memory"])
def test_what_was_released_at_once_is_nobodys_to_take_up(kind, tmp_path):
    """No call of a gate draws what was charged before, and a state that asks for it is refused."""
    assert not hasattr(Gate, "resumed")
    ledger = _ledger(kind, tmp_path)
    gate = _gate(ledger)
    gate.gaussian(52_000.0, sigma=30.0, sensitivity=1.0)
    settings, arrays = _sum(gate).state()
    ledger = _restarted(kind, tmp_path, ledger)
    gate = _gate(ledger)
    for owner in ("", "somebody", ledger.id):
        forged = settings | {"owner": {"id": owner, "number": 1}}
        with pytest.raises(ValueError, match="it was not charged for these"):
            FactorizedSum.from_state(forged, arrays, gate)
    for wrong in ({}, {"id": "x"}, {"id": "x", "number": 0}, None):
        with pytest.raises(ValueError, match="a state that cannot be right"):
            FactorizedSum.from_state(settings | {"owner": wrong}, arrays, gate)
    with pytest.raises(ValueError, match="cannot be right"):
        TreeSum.from_state(settings, arrays, gate)
    assert FactorizedSum.from_state(settings, arrays, gate).taken == 0


def test_a_state_takes_up_all_that_it_was_charged_for_and_nothing_else(tmp_path):
    ledger = _ledger("file", tmp_path)
    gate = _gate(ledger)
    settings, arrays = _sum(gate).state()
    fewer = json.loads(json.dumps(settings["spec"]))
    fewer["fields"]["rounds"] = 3
    for change in ({"spec": fewer}, {"label": "another"}):
        restarted = _restarted("file", tmp_path, ledger)
        with pytest.raises(ValueError, match="cannot be right"):
            FactorizedSum.from_state(settings | change, arrays, _gate(restarted))
        ledger = restarted
    view = _gate(_restarted("file", tmp_path, ledger))
    with (
        pytest.raises(ValueError, match=r"it was charged for 'running sum .*' as well"),
        view._restoring(settings["owner"]),
    ):
        pass


def test_others_who_use_the_gate_meanwhile_are_charged_and_get_real_randomness():
    """While one thread makes something again, another draws a key and is charged as always."""
    gate = Gate(BUDGET, definition="gdp")
    state, _ = _sum(gate).state()
    again = Gate.from_state(gate.state())
    found = []

    def meanwhile():
        found.append(again.key())
        found.append(again.public_randomness().words.any())
        again.gaussian(0.0, sigma=100.0, sensitivity=1.0)

    with again._restoring(state["owner"]) as view:
        total = FactorizedSum.of(FactorizedSum(1, 4, BUDGET, box=(0.0, 1.0)).spec, view, event=_event(gate))
        assert not any(view.key())
        thread = threading.Thread(target=meanwhile)
        thread.start()
        thread.join()
    assert any(found[0])
    assert found[1]
    assert total is not None
    assert len(again.spent.ledger.counts) == 2


def _event(gate):
    (((_, event, _), _),) = gate.spent.ledger.counts.items()
    return event


def test_a_learner_with_a_gate_of_its_own_carries_its_ledger(tmp_path):
    """Nothing can tell two that go on from one such file: the page says so."""
    learner = dc.online.LeaderSelector(3, 1, ROUNDS, BUDGET, batch=5)
    _played(learner, 7)
    learner.save(tmp_path / "state")
    one, two = (dc.load(tmp_path / "state") for _ in range(2))
    assert one.privacy.to_json() == two.privacy.to_json() == learner.privacy.to_json()
