"""What a learner saves is a snapshot, whatever happens later or meanwhile; and its calls take turns."""

from __future__ import annotations

from functools import partial

import pytest

import discreet as dc
from discreet.core.state import read_state, write_state
from discreet.objectives import SetFunction
from discreet.online import BestOfBothSelector, Experts, HedgeSelector, PhasedSelector, Segments
from tests.online.learners import EVERYBODY, N_ITEMS, ROUNDS, people, shown
from tests.states import Meanwhile, as_bytes

IDS = ["ann" if t % 4 == 0 else f"person {t}" for t in range(ROUNDS)]
# One setting of each kind of learner, and of each kind of thing it keeps.
KINDS = {
    (type(one.make()), *sorted(one.make()._saved()[1])): name for name, one in EVERYBODY.items()
}.values()


@pytest.fixture(params=EVERYBODY, ids=EVERYBODY.keys())
def setting(request):
    return EVERYBODY[request.param]


@pytest.fixture(params=KINDS)
def kind(request):
    return EVERYBODY[request.param]


def _rounds(setting, learner, first, last):
    stream, decided = setting.people(ROUNDS), []
    for t in range(first, last):
        decision = learner.choose()
        decided.append(shown(decision))
        learner.learn(setting.feedback(learner, stream[t], decision), person_id=IDS[t])
    return decided


@pytest.mark.parametrize(("stop", "asked"), [(0, False), (7, True)])
def test_a_snapshot_stays_as_it_was_and_goes_on_as_the_learner_did(setting, stop, asked, tmp_path):
    learner = setting.make()
    _rounds(setting, learner, 0, stop)
    if asked:
        learner.choose()
    saved, spent = learner._saved_whole(), learner.privacy.spent.to_json()
    before = as_bytes(*saved)
    rest = _rounds(setting, learner, stop, ROUNDS)
    assert as_bytes(*saved) == before
    write_state(tmp_path / "state", *saved)
    again = dc.load(tmp_path / "state")
    assert again.privacy.spent.to_json() == spent
    assert _rounds(setting, again, stop, ROUNDS) == rest
    assert as_bytes(*saved) == before


def _meanwhile(owner, name, act, patched):
    """Another thread acts while ``owner.name`` is at work."""
    acting, honest = Meanwhile(act), getattr(owner, name)

    def slow(self, *given):
        acting.start()
        return honest(self, *given)

    patched.setattr(owner, name, slow)
    return acting


def test_nobody_is_learned_from_while_a_file_is_written(kind, tmp_path, monkeypatch):
    learner, twin = kind.make(), kind.make()
    for one in (learner, twin):
        _rounds(kind, one, 0, 5)
    feedback = kind.feedback(learner, kind.people(6)[5], learner.choose())
    twin.choose()
    twin.save(tmp_path / "twin")
    with monkeypatch.context() as patched:
        learning = _meanwhile(type(learner), "_saved", lambda: learner.learn(feedback), patched)
        learner.save(tmp_path / "file")
    learning.finish()
    assert learner.round == 6
    assert as_bytes(*read_state(tmp_path / "file")) == as_bytes(*read_state(tmp_path / "twin"))


def test_a_file_waits_until_somebody_has_been_learned_from(kind, tmp_path, monkeypatch):
    learner, twin = kind.make(), kind.make()
    for one in (learner, twin):
        _rounds(kind, one, 0, 5)
    feedback = kind.feedback(twin, kind.people(6)[5], twin.choose())
    twin.learn(feedback)
    twin.save(tmp_path / "twin")
    learner.choose()
    with monkeypatch.context() as patched:
        saving = _meanwhile(type(learner), "_observe", lambda: learner.save(tmp_path / "file"), patched)
        learner.learn(feedback)
    saving.finish()
    assert as_bytes(*read_state(tmp_path / "file")) == as_bytes(*read_state(tmp_path / "twin"))


def test_the_account_is_read_between_two_calls(kind, monkeypatch):
    """Never while a decision is being made: it would not be in the account yet, and be shown already."""
    learner = kind.make()
    _rounds(kind, learner, 0, 5)
    seen = []
    step = "_new_set" if isinstance(learner, BestOfBothSelector) else "_due"
    with monkeypatch.context() as patched:
        looking = _meanwhile(
            type(learner), step, lambda: seen.append(learner.privacy.spent.to_json()), patched
        )
        learner.choose()
    looking.finish()
    assert seen == [learner.privacy.spent.to_json()]


@pytest.mark.parametrize("name", ["segments", "experts"])
def test_a_call_waits_for_a_whole_run(name):
    """Another thread's round never comes between a choice of the run and what is learned of it."""
    budget, shown = dc.Budget(8.0, 1e-6), []
    if name == "segments":
        learner, where = Segments(partial(HedgeSelector, 3, 1, 10), ["de"], budget), (["de"] * 4,)
        acting = Meanwhile(lambda: shown.append(learner.choose("de")))
    else:
        learner, where = Experts(partial(HedgeSelector, 3, 1, 10), 2, budget, n_items=3), ()
        acting = Meanwhile(lambda: shown.append(learner.choose()))

    def asked(chosen):
        acting.start()
        return float(0 in chosen)

    learner.run(SetFunction([asked] * 4, n_items=3, bound=1.0, monotone=True), *where)
    acting.finish()
    assert [one.round for one in shown] == [4]


def test_a_person_who_cannot_be_saved_is_not_left_out_of_a_file(tmp_path, monkeypatch):
    """A function that comes while the file of a window of rows is written comes after it."""
    learner = PhasedSelector(N_ITEMS, 2, dc.Budget(1.0), window=10, seed=0)
    learner.choose()
    learner.learn(people()[0])
    learner.choose()
    function = SetFunction(lambda items: float(bool(items)), N_ITEMS, 1.0, monotone=True)
    with monkeypatch.context() as patched:
        learning = _meanwhile(type(learner), "_saved", lambda: learner.learn(function), patched)
        learner.save(tmp_path / "file")
    learning.finish()
    assert dc.load(tmp_path / "file").round == 1
    with pytest.raises(TypeError, match="cannot be written to a file") as refused:
        learner.save(tmp_path / "file")
    assert not any(number in str(refused.value) for number in ("1 ", "2 "))  # how many there are is theirs


# --- calls from inside a call --------------------------------------------------------------------------


def test_a_person_may_look_at_the_account(kind, monkeypatch):
    learner = kind.make()
    feedback = kind.feedback(learner, kind.people(1)[0], learner.choose())
    honest, seen = type(learner)._prepared, []

    def looking(self, person):
        seen.append(self.privacy.spent.epsilon(self.budget.delta))
        return honest(self, person)

    monkeypatch.setattr(type(learner), "_prepared", looking)
    learner.learn(feedback)
    assert seen == [0.0]
