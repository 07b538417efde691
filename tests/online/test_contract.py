"""What every online learner keeps to, whatever it decides and whatever it does inside."""

from __future__ import annotations

import contextlib
import math
import os
import pickle
import pkgutil
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import discreet as dc
from discreet import online
from discreet.objectives import ConcaveOfLinear, Coverage, GraphCut, SetFunction
from discreet.objectives.losses import Distance, Linear
from discreet.online import BanditSelector, OnlineLearner, OnlineSelector, PhasedSelector, RollingSelector
from discreet.online.registry import REGISTRY, register
from discreet.privacy import Account, Releases
from tests.online.examples import EXAMPLES
from tests.online.learners import (
    EVERYBODY,
    FRANK_WOLFE_POINTS,
    FRANK_WOLFE_SETS,
    LEADERS,
    LIBRARY,
    N_ITEMS,
    ROUNDS,
    SELECTORS,
    people,
    shown,
)
from tests.online.toy import ToySelector
from tests.states import content

FAMILIES = ("coverage", "chances", "facility", "functions")
# Some come again and again, most are unknown.
IDS = ["ann" if t % 4 == 0 else None for t in range(ROUNDS + 10)]


@pytest.fixture(params=EVERYBODY, ids=EVERYBODY.keys())
def setting(request):
    return EVERYBODY[request.param]


def _played(trace):
    return trace.decisions if hasattr(trace, "decisions") else trace.selections


def _one_by_one(setting, learner, stream, count=None, ids=None, start=0):
    """Rows and worths of the rounds from ``start`` to ``count``, by choose and learn."""
    rows, worths = [], []
    for t in range(start, len(stream) if count is None else count):
        decision = learner.choose()
        rows.append(learner._row(decision))
        worths.append(learner._value(stream[t], decision))
        learner.learn(
            setting.feedback(learner, stream[t], decision), person_id=None if ids is None else ids[t]
        )
    return np.array(rows), np.array(worths)


def _learners(kind=OnlineLearner):
    """Every class of the library that is a learner, wherever it is defined."""
    for sub in kind.__subclasses__():
        if "_settings_type" in vars(sub) and sub.__module__.startswith("discreet."):
            yield sub
        yield from _learners(sub)


def test_every_learner_is_registered():
    for module in pkgutil.walk_packages(online.__path__, "discreet.online."):
        import_module(module.name)
    found = {kind.__name__ for kind in _learners()}
    assert found == LIBRARY.keys()
    assert len(found) >= 10
    assert found <= set(online.__all__)
    for name, entry in REGISTRY.items():
        assert EXAMPLES[name], name
        assert entry.audits, name


# --- any order of calls -----------------------------------------------------------------------------

ACTIONS = ("choose", "learn", "learn", "choose and learn", "choose and learn", "refuse", "refuse id", "save",
           "look", "run 1", "run 3", "run 8")  # fmt: skip


@cache
def _expected(name):
    """What is decided in each round by plain choosing and learning, and after the horizon; and rows."""
    setting = EVERYBODY[name]
    learner, stream = setting.make(), setting.people(len(IDS))
    decided = []
    for t in range(len(IDS)):
        decision = learner.choose()
        decided.append((shown(decision), np.asarray(learner._row(decision)).tolist()))
        if not learner.over:
            learner.learn(setting.feedback(learner, stream[t], decision), person_id=IDS[t])
    return decided


@pytest.mark.parametrize("name", EVERYBODY)
@settings(max_examples=6, deadline=None, derandomize=True, database=None)
@given(actions=st.lists(st.tuples(st.sampled_from(ACTIONS), st.integers(0, 30)), min_size=4, max_size=24))
def test_any_order_of_calls(name, actions):
    """Whatever is asked, refused, saved and resumed in between: the same decisions, all of them allowed, and
    never more spent than was said before the first round, which is never more than the budget."""
    setting, decided = EVERYBODY[name], _expected(name)
    learner, stream = setting.make(), setting.people(len(IDS))
    whole, budget, spent = learner.privacy.to_json(), learner.budget, 0.0
    assert learner.privacy.epsilon(budget.delta) <= budget.epsilon
    t, asked = 0, False

    def choose():
        decision = learner.choose()
        assert shown(decision) == decided[t][0]
        assert setting.allowed(learner, decision)
        return decision

    def learn(**options):
        learner.learn(setting.feedback(learner, stream[t], learner.choose()), **options)

    for action, number in actions:
        if t + 8 >= len(IDS):
            break
        if action.startswith("run"):
            count = int(action.split()[1])
            trace = learner.run(stream[t : t + count], person_ids=IDS[t : t + count])
            assert _played(trace).tolist() == [row for _, row in decided[t : t + count]]
            t, asked = t + count, False
        elif action == "look":
            repr(learner), str(learner.privacy), learner.rounds
        elif action == "save":
            with tempfile.TemporaryDirectory() as folder:
                learner.save(Path(folder) / "state")
                learner = dc.load(Path(folder) / "state")
        elif action == "choose":
            choose()
            asked = True
        elif learner.over:
            with pytest.raises(RuntimeError, match="is over"):
                learn()
        elif action == "choose and learn" or (action == "learn" and asked):
            choose()
            learn(person_id=IDS[t])
            t, asked = t + 1, False
        elif action == "learn":
            with pytest.raises(RuntimeError, match=r"learn\(\) comes after choose\(\)"):
                learner.learn(None)
        elif not asked:
            continue
        elif action == "refuse id":
            with pytest.raises((TypeError, ValueError), match="person_id"):
                learn(person_id=[["ann"], math.nan, object(), math.inf][number % 4])
        else:
            bad = setting.bad(learner)
            with pytest.raises((TypeError, ValueError)):
                learner.learn(bad[number % len(bad)], person_id="ann")
        assert learner.round == (t if learner.rounds is None else min(t, learner.rounds))
        privacy = learner.privacy
        assert spent <= privacy.spent.epsilon(budget.delta) <= privacy.epsilon(budget.delta)
        assert privacy.epsilon(budget.delta) <= budget.epsilon
        spent = privacy.spent.epsilon(budget.delta)
        if learner.rounds is not None:
            assert privacy.to_json() == whole


# --- the protocol, point by point -------------------------------------------------------------------


def test_decisions_are_allowed_and_run_equals_one_by_one(setting):
    learner = setting.make()
    stream = setting.people(ROUNDS)
    trace = setting.make().run(stream)
    rows, worths = _one_by_one(setting, learner, stream)
    assert (_played(trace) == rows).all()
    assert np.allclose(trace.rewards if hasattr(trace, "rewards") else trace.costs, worths, atol=1e-12)
    assert trace.average == pytest.approx(worths.mean())
    once = setting.make()
    for t in range(ROUNDS):
        decision = once.choose()
        assert setting.allowed(once, decision)
        assert shown(once.choose()) == shown(decision)
        once.learn(setting.feedback(once, stream[t], decision))


def test_run_in_pieces_equals_run_at_once(setting):
    stream = setting.people(ROUNDS)
    whole = _played(setting.make().run(stream))
    learner = setting.make()
    parts = [learner.run(stream[a:b]) for a, b in ((0, 5), (5, 6), (6, 19), (19, ROUNDS))]
    assert (np.concatenate([_played(part) for part in parts]) == whole).all()


@cache
def _whole(which):
    """A stream of people and what is decided for them; by identity, as settings hold what has no hash."""
    setting = next(one for one in EVERYBODY.values() if id(one) == which)
    stream = setting.people(ROUNDS)
    return stream, _played(setting.make().run(stream, person_ids=IDS[:ROUNDS]))


@pytest.mark.parametrize("asked", [False, True])
def test_resumes_identically_at_any_point(setting, asked, tmp_path):
    """Between rounds from a file; in the middle of a round from bytes."""
    stream, whole = _whole(id(setting))
    learner, before = setting.make(), 0
    for stop in (1, 13, 29) if asked else (0, 4, 29):
        _one_by_one(setting, learner, stream, stop, IDS, start=before)
        before = stop
        if asked:
            learner.choose()
            again = type(learner).load(learner.to_bytes())
        else:
            learner.save(tmp_path / "state")
            again = type(learner).load(tmp_path / "state")
        assert type(again) is type(learner)
        assert again.privacy.to_json() == learner.privacy.to_json()
        assert again.privacy.spent.to_json() == learner.privacy.spent.to_json()
        if learner.rounds is not None:
            assert again.certified_regret == learner.certified_regret
        rest = again.run(stream[stop:], person_ids=IDS[stop:ROUNDS])
        assert (_played(rest) == whole[stop:]).all()


def test_bad_people_are_refused_and_the_round_stays_open(setting):
    learner, twin = setting.make(), setting.make()
    stream = setting.people(ROUNDS)
    learner.choose()
    for person in setting.bad(learner):
        with pytest.raises((ValueError, TypeError)):
            learner.learn(person, person_id="ann")
    assert learner.round == 0
    for t in range(6):
        learner.learn(
            setting.feedback(learner, stream[t], learner.choose()), person_id="ann" if t == 0 else None
        )
        twin.learn(setting.feedback(twin, stream[t], twin.choose()))
    assert shown(learner.choose()) == shown(twin.choose())


def test_a_stream_that_is_none_is_refused(setting):
    for nonsense in (5, None):
        with pytest.raises(TypeError):
            setting.make().run(nonsense)
    with pytest.raises(ValueError, match="person_ids must have as many entries"):
        setting.make().run(setting.people(ROUNDS), person_ids=["ann"])


def test_horizon(setting):
    learner = setting.make()
    if learner.rounds is None:
        pytest.skip("no horizon to reach")
    stream = setting.people(learner.rounds + 5)
    played = _played(learner.run(stream))
    assert (played[learner.rounds :] == played[-1]).all()
    if not isinstance(learner, BanditSelector):  # may have explored in the last round, and serves its set
        assert (played[learner.rounds :] == played[learner.rounds - 1]).all()
    assert learner.over
    last = learner.choose()
    assert (learner._row(last) == played[-1]).all()
    with pytest.raises(RuntimeError, match=f"horizon of rounds={learner.rounds} is over"):
        learner.learn(setting.feedback(learner, stream[0], last))
    learner.continue_without_learning()  # takes feedback, and neither learns from it nor charges for it
    learner = dc.load(learner.to_bytes())
    before = learner.to_bytes()
    for person in stream[-3:]:
        assert shown(learner.choose()) == shown(last)
        learner.learn(setting.feedback(learner, person, last), person_id="somebody")
    assert content(learner.to_bytes()) == content(before)


def test_an_interrupted_draw_is_made_up_for(setting, monkeypatch):
    """Stopped after what is private has left, and before a decision was made of it; in the last round too."""
    learner, stream = setting.make(), setting.people(ROUNDS)
    honest = type(learner)._draw

    def interrupted(self):
        honest(self)
        raise KeyboardInterrupt

    for t in range(ROUNDS):
        with monkeypatch.context() as patched:
            patched.setattr(type(learner), "_draw", interrupted)
            if t % 5 == 4 or t == ROUNDS - 1:
                with contextlib.suppress(KeyboardInterrupt):
                    learner.choose()
        decision = learner.choose()
        assert setting.allowed(learner, decision)
        learner.learn(setting.feedback(learner, stream[t], decision))
    budget = learner.budget
    assert learner.privacy.spent.epsilon(budget.delta) <= learner.privacy.epsilon(budget.delta)


def test_whole_guarantee_is_known_before_and_never_exceeded(setting):
    learner, stream = setting.make(), setting.people(ROUNDS)
    before, budget, last = learner.privacy, learner.budget, 0.0
    if budget.private:
        assert before.epsilon(budget.delta) <= budget.epsilon
        assert before.delta(budget.epsilon) <= budget.delta
    assert learner.privacy.spent.epsilon(budget.delta) == 0.0
    for t in range(ROUNDS):
        learner.learn(setting.feedback(learner, stream[t], learner.choose()))
        spent = learner.privacy.spent.epsilon(budget.delta)
        assert last <= spent <= before.epsilon(budget.delta)
        last = spent
    if before.loss.rho or before.loss.rho is None:
        assert last > 0.0
    if learner.rounds is not None:
        assert learner.privacy.to_json() == before.to_json()
    assert "not private" in str(learner.privacy)


def _needs_a_whole_budget(learner):
    exact = any(isinstance(event, dc.privacy.ExactChoices) for event in learner.privacy.ledger.events())
    return exact or learner.calibration == "published"


def test_learners_at_one_gate_spend_one_budget(setting, tmp_path):
    """Two learners about the same people, each with a share: one account for both, and never more."""
    alone = setting.make()
    budget, stream = alone.budget, setting.people(ROUNDS)
    gate = dc.Gate(budget, 3)
    shares = gate.split([1, 2])
    if _needs_a_whole_budget(alone):
        with pytest.raises(ValueError, match=r"budget of its own|whole budget"):
            setting.make(seed=None, budget=shares[0])
        return
    learners = [setting.make(seed=None, budget=share) for share in shares]
    for learner in learners:
        learner.run(stream)
        assert learner.privacy.spent.epsilon() <= gate.spent.epsilon() <= budget.epsilon
        assert learner.privacy.epsilon() == gate.spent.epsilon()
    learners[0].save(tmp_path / "state")
    with pytest.raises(ValueError, match="give gate="):
        dc.load(tmp_path / "state")
    again = dc.load(tmp_path / "state", gate=dc.Gate.from_state(gate.state()))
    assert again.privacy.to_json() == learners[0].privacy.to_json()
    assert shown(again.choose()) == shown(learners[0].choose())
    with contextlib.suppress(dc.BudgetExceeded):  # where a little is left, it is all that a third one gets
        setting.make(seed=None, budget=gate)
    assert gate.spent.epsilon() <= budget.epsilon


def test_learners_with_shares_of_a_budget_keep_to_it_together(setting):
    alone = setting.make()
    budget, stream = alone.budget, setting.people(ROUNDS)
    shares = budget.split([1, 2])
    if _needs_a_whole_budget(alone):
        with pytest.raises(ValueError, match=r"budget of its own|whole budget"):
            setting.make(budget=shares[0])
        return
    both = Releases()
    for share in shares:
        learner = setting.make(budget=share)
        learner.run(stream)
        for _, entry, count in learner.privacy.ledger.entries():
            both.add(entry, count)
    assert Account(budget, both, definition="zcdp" if budget.delta else "pure").epsilon() <= budget.epsilon


def test_further_rounds_of_a_person_are_served_but_not_learned(setting):
    learner, once = setting.make(), setting.make()
    limit, stream = learner.budget.max_rounds_per_person, setting.people(ROUNDS)
    ids = ["ann"] * ROUNDS
    rows, _ = _one_by_one(setting, learner, stream, ids=ids)
    assert (_played(setting.make().run(stream, person_ids=ids)) == rows).all()
    expected = []
    for t in range(ROUNDS):  # as if everybody after the limit wanted nothing
        decision = once.choose()
        expected.append(once._row(decision))
        once.learn(setting.feedback(once, stream[t], decision) if t < limit else setting.nothing(once))
    assert (rows == np.array(expected)).all()


def test_equal_identities_are_one_person(setting):
    """Numbers and texts that are equal count together, whatever type carries them."""
    limit = setting.make().budget.max_rounds_per_person
    for ids in ([5, np.int64(5), 5.0, np.uint8(5), 5], ["ann", np.str_("ann")] * 3):
        limited = setting.make()._contribution
        assert [limited.register(i) for i in ids].count(True) == limit
    with pytest.raises(TypeError, match="person_id must be text, a number"):
        setting.make()._contribution.register(object())
    for nobody in (math.nan, np.float32("inf")):
        with pytest.raises(ValueError, match="names no one; use None"):
            setting.make()._contribution.register(nobody)


def test_an_interruption_never_counts_anybody_twice(setting, monkeypatch):
    """Interrupted while a person is taken up: their round has passed, and nothing of them comes again."""
    learner, stream = setting.make(), setting.people(ROUNDS)
    learner.learn(setting.feedback(learner, stream[0], learner.choose()))
    feedback = setting.feedback(learner, stream[1], learner.choose())

    def interrupt(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(type(learner), "_observe", interrupt)
        with pytest.raises(KeyboardInterrupt):
            learner.learn(feedback)
    assert learner.round == 2
    with pytest.raises(RuntimeError, match=r"learn\(\) comes after choose\(\)"):
        learner.learn(feedback)
    learner.choose()


def test_a_forked_child_is_refused():
    """One child for all of them: a copy of this process takes longer than everything it does."""
    learners = {name: setting.make(seed=None) for name, setting in EVERYBODY.items()}
    for learner in learners.values():
        learner.choose()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            for name, learner in learners.items():
                with pytest.raises(RuntimeError, match="made in another process"):
                    learner.choose()
                os.write(write, f"{name}\n".encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    os.close(write)
    with os.fdopen(read) as refused:
        assert refused.read().splitlines() == list(learners)


def test_threads_are_shown_one_decision_a_round(setting):
    learner, stream = setting.make(), setting.people(ROUNDS)
    for t in range(5):
        with ThreadPoolExecutor(4) as pool:
            assert len(set(pool.map(lambda _: shown(learner.choose()), range(8)))) == 1
        learner.learn(setting.feedback(learner, stream[t], learner.choose()))


def test_threads_take_turns(setting):
    learner, person = setting.make(), setting.people(1)[0]
    late = []

    def work(_):
        for _ in range(5):
            try:
                learner.learn(setting.feedback(learner, person, learner.choose()))
            except RuntimeError as error:
                late.append(str(error))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert learner.round + len(late) == 20
    assert all("after choose" in error for error in late)


def test_identities_are_not_kept(setting, tmp_path):
    learner = setting.make()
    learner.run(setting.people(ROUNDS), person_ids=[f"person-{t}-unforgettable" for t in range(ROUNDS)])
    learner.save(tmp_path / "s")
    assert b"unforgettable" not in (tmp_path / "s").read_bytes()


def test_secure_by_default_and_not_copied(setting):
    learner = setting.make(seed=None)
    learner.run(setting.people(ROUNDS))
    assert "not private (anyone" not in str(learner.privacy)
    with pytest.raises(TypeError, match="not copied or pickled"):
        pickle.dumps(learner)


# --- learning goes the right way ---------------------------------------------------------------------


def _opposites(name):
    """Two crowds of equal people who want opposite things, and whether worth is good (1) or bad (-1)."""
    if name in SELECTORS or name in FRANK_WOLFE_SETS:
        rows = np.eye(N_ITEMS)[[N_ITEMS - 2, N_ITEMS - 1]]
        return *(Coverage(np.tile(row, (ROUNDS, 1))) for row in rows), 1.0
    if name in FRANK_WOLFE_POINTS:
        rows = np.eye(N_ITEMS)[[N_ITEMS - 2, N_ITEMS - 1]]
        return *(ConcaveOfLinear(np.tile(row, (ROUNDS, 1))) for row in rows), 1.0
    if name in LEADERS:
        kind = Linear if name.startswith("linear") else Distance
        rows = np.array([[0.4, 0.1, -0.3], [-0.4, -0.1, 0.3]])
        return *(kind(np.tile(row, (ROUNDS, 1)), row_norm=1.0) for row in rows), -1.0
    prices = np.array([[0.25, -0.25, 0.25, -0.25], [-0.25, 0.25, -0.25, 0.25]])
    none = np.zeros((4, 4))
    return *(
        GraphCut([none] * ROUNDS, modular=np.tile(row, (ROUNDS, 1)), directed=True, bound=1.0)
        for row in prices
    ), -1.0


FULL_INFORMATION = [
    name
    for name in EVERYBODY
    if not name.startswith(("bandit", "one point")) and "published" not in name and "one batch" not in name
]


@pytest.mark.parametrize("name", FULL_INFORMATION)
def test_learning_goes_the_right_way(name):
    """With a budget that leaves hardly any noise, people get more of what people like them taught.

    Without learning the gain would be symmetric around 0: five deviations of its mean are a chance of 3e-7,
    and it is looked at three times at most.
    """
    make = EVERYBODY[name].make
    budget = make().budget
    rich = (
        dc.Budget(1e4, budget.delta, budget.neighbours, budget.max_rounds_per_person)
        if budget.private
        else budget
    )
    *crowds, sign = _opposites(name)
    gained = []
    for seed in range(40):
        learners = [make(seed=seed, budget=rich) for _ in crowds]
        for learner, crowd in zip(learners, crowds, strict=True):
            learner.run(crowd)
        own, other = (sign * one._value(crowds[0][0], one.choose()) for one in learners)
        gained.append(own - other)
        clear = np.mean(gained) > max(0.05, 5.0 * np.std(gained) / math.sqrt(max(seed, 1)))
        if clear and seed + 1 in (12, 24):
            break
    assert clear


# --- learners of k items -------------------------------------------------------------------------------


@pytest.fixture(params=SELECTORS, ids=SELECTORS.keys())
def selector(request):
    return SELECTORS[request.param]


def _families(selector):
    """Capping needs rows."""
    capped = getattr(selector.make(), "items_per_person", None) is not None
    return FAMILIES[:3] if capped else FAMILIES


def test_other_families_run_as_one_by_one(selector):
    for kind in _families(selector)[1:]:
        stream = people(kind)
        trace = selector.make().run(stream)
        rows, rewards = _one_by_one(selector, selector.make(), stream)
        assert (trace.selections == rows).all()
        assert np.allclose(trace.rewards, rewards)


def test_row_families_and_plain_functions_agree(selector):
    if "functions" not in _families(selector):
        pytest.skip("a cap needs rows")
    if isinstance(selector.make(), RollingSelector):
        pytest.skip("functions vote in one release, rows until they are spent (tests/online/test_rolling.py)")
    a, b = selector.make().run(people("coverage")), selector.make().run(people("functions"))
    assert (a.selections == b.selections).all()


def test_refusals_say_what_is_wrong(selector):
    learner = selector.make()
    if learner._rewarded:
        pytest.skip("is fed numbers, not people (tests/online/test_bandit.py)")
    learner.choose()
    messages = (
        "the function is over 5 items; this learner chooses among 7",
        "takes one person; use run",
        "expected a person's function",
        "expected a person's function",
        "expected a person's function",
        "expected a person's function",
        "may reach 3, above the learner's bound=1",
        "monotone",
    )
    for person, message in zip(selector.bad(learner), messages, strict=True):
        with pytest.raises((ValueError, TypeError), match=message):
            learner.learn(person)


def test_a_bound_may_be_exceeded_by_rounding_only(selector):
    learner = selector.make()
    if learner._rewarded:
        pytest.skip("is fed numbers, not people (tests/online/test_bandit.py)")
    if "functions" not in _families(selector):
        pytest.skip("a cap needs rows")
    learner.choose()
    with pytest.raises(ValueError, match="above the learner's bound"):
        learner.learn(people()[0] * (1.0 + 1e-11))
    learner.learn(people()[0] * (1.0 + 1e-13))


def test_functions_that_exceed_their_bound_change_nothing(selector):
    """NaN, a value above the bound, a value that falls: found at the second item, the first being fine."""
    learner, twin = selector.make(), selector.make()
    if "functions" not in _families(selector):
        pytest.skip("a cap needs rows")
    if isinstance(learner, PhasedSelector | RollingSelector):
        pytest.skip("keeps the person, and finds out when it uses them (tests/online/test_answers.py)")
    if learner._rewarded:
        pytest.skip("is fed numbers, not people (tests/online/test_bandit.py)")
    stream = people("functions")
    first = learner.choose().items[0]
    twin.choose()

    def broken(bad):
        return lambda items: bad if len(items) > 1 and first in items else float(bool(items))

    for bad, message in ((math.nan, "nan"), (2.0, "values a set"), (0.25, "not monotone")):
        with pytest.raises(ValueError, match=message):
            learner.learn(SetFunction(broken(bad), N_ITEMS, 1.0, monotone=True), person_id="ann")
    assert learner.round == 0
    for t in range(6):
        learner.learn(stream[t], person_id="ann" if t == 0 else None)
        twin.learn(stream[t])
        assert learner.choose() == twin.choose()


def test_a_failing_run_leaves_the_limits_of_those_behind_it(selector):
    if "functions" not in _families(selector) or isinstance(
        selector.make(), PhasedSelector | RollingSelector
    ):
        pytest.skip("needs functions that are asked at once")
    learner = selector.make()
    learner.run(people("functions")[:2], person_ids=["y", "z"])
    rows = (
        [(lambda items: float(bool(items)))] * 3
        + [lambda _: math.nan]
        + [lambda items: float(bool(items))] * 3
    )
    stream = SetFunction(rows, N_ITEMS, 1.0, monotone=True)
    with pytest.raises(ValueError, match="nan"):
        learner.run(stream, person_ids=list("abcdefg"))
    assert learner.round == 5
    limit = learner.budget.max_rounds_per_person
    for who, left in (("d", limit), ("g", limit), ("c", limit - 1), ("y", limit - 1)):
        assert [learner._contribution.register(who) for _ in range(limit + 1)].count(True) == left, who


def test_labels_come_back(selector):
    names = [f"page {i}" for i in range(N_ITEMS)]
    choice = selector.make(labels=names).choose()
    assert choice.labels == tuple(names[i] for i in choice.items)
    with pytest.raises(ValueError, match="labels has 2 entries; there are 7 items"):
        selector.make(labels=["a", "b"])
    assert selector.make(labels=list(np.arange(N_ITEMS))).choose().labels is not None
    with pytest.raises(TypeError, match="neither text nor a number"):
        selector.make(labels=[("page", i) for i in range(N_ITEMS)])


@pytest.mark.parametrize("name", [name for name, one in EVERYBODY.items()
                                  if getattr(one.make(), "items_per_person", None)])  # fmt: skip
def test_caps_of_later_people_do_not_depend_on_earlier_ones(name):
    """Also with known coins: neither on their data, nor on calls that failed."""
    crowd, kept = Coverage(np.ones((9, N_ITEMS))), []
    for first in (
        crowd[0],
        Coverage(np.zeros((1, N_ITEMS))),
        Coverage(np.eye(N_ITEMS)[:1]).cap_items(1, np.random.default_rng(77)),
    ):
        learner = EVERYBODY[name].make()
        learner.choose()
        with pytest.raises(TypeError, match="person_id must be"):
            learner.learn(first, person_id=["ann"])
        learner.learn(first)
        learner.choose()
        kept.append(learner._prepared(crowd[1]).as_rows().sparse.indices.tolist())
    assert kept[0] == kept[1] == kept[2]
    assert len(kept[0]) == learner.items_per_person


def test_loading_something_else_is_refused(tmp_path):
    total = dc.privacy.TreeSum(3, 12, dc.Budget(1.0), noise="laplace", norm_bound=1.0)
    total.save(tmp_path / "sum")
    with pytest.raises(ValueError, match="holds a TreeSum, not a OnlineSelector"):
        OnlineSelector.load(tmp_path / "sum")


def test_a_learner_of_ones_own_is_registered_by_name():
    class Local(PhasedSelector):
        pass

    with pytest.raises(ValueError, match="must be defined at the top of its module"):
        register(Local, "function")
    with pytest.raises(ValueError, match="learns_from='clicks' is not one of"):
        register(ToySelector, "clicks")


@pytest.mark.parametrize("kind", [dict, "HedgeSelector"])
def test_what_is_not_a_learner_is_not_registered(kind):
    with pytest.raises(TypeError, match="derive a class from OnlineSelector"):
        register(kind, "function")
