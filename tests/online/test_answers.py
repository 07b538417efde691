"""Whatever somebody's function answers: it is refused, and the learner is as if nobody had come."""
# ruff: noqa: ARG002, ARG005

from __future__ import annotations

import numpy as np
import pytest

import discreet as dc
from discreet.objectives import Population
from discreet.online import PersonalSelector, PhasedSelector
from tests.answers import BAD, Broken, Calling, OverridingSets, OwnLosses, OwnPoints, OwnSets, Teller, pair
from tests.online.learners import (
    BANDIT_LEADERS,
    EVERYBODY,
    FRANK_WOLFE_POINTS,
    LEADERS,
    N_ITEMS,
    ROUNDS,
    SIZE,
    people,
    shown,
)
from tests.online.toy import ToySelector
from tests.states import as_bytes

# One setting of each learner whose feedback is a function, and of each way in which it may ask them.
TOLD_FUNCTIONS = (
    "hedge, tight",
    "hedge, batches",
    "running sum, sqrt",
    "running sum, blt",
    "running sum, tree",
    "running sum, not private",
    "leader selector",
    "leader selector, partition",
    "best of both",
    "phased, doubling",
    "phased, fixed windows",
    "rolling",
    "frank-wolfe, partition",
    "frank-wolfe, curvature, blt",
    "frank-wolfe, pure",
    "frank-wolfe, box",
    "frank-wolfe, polytope",
    "leader",
    "leader, pure",
    "leader, tree, box",
    "linear, experts",
    "linear, ball, pure",
    "minimizer, sqrt",
    "minimizer, tree",
)
TOLD_NUMBERS = (
    "bandit, blocks",
    "bandit, online",
    "bandit, slots",
    "thompson, sets",
    "thompson, slots",
    "one point, batches",
    "one point, published",
    "bandit minimizer, values",
    "bandit minimizer, estimates",
)
# What an error may name: one of these is the answer that was wrong.
WORDS = ("value", "gains", "gradient", "steps", "cost", "multilinear")


def test_every_learner_is_here():
    named = {type(EVERYBODY[name].make()) for name in TOLD_FUNCTIONS + TOLD_NUMBERS}
    # PersonalSelector takes rows of items alone.
    assert named == {type(one.make()) for one in EVERYBODY.values()} - {ToySelector, PersonalSelector}


def _functions(name, tell):
    """Everything of their own that people may bring to this learner."""
    if name in LEADERS or name in BANDIT_LEADERS:
        return [pair(SIZE, tell), OwnLosses(SIZE, tell)]
    if name in FRANK_WOLFE_POINTS:
        return [pair(N_ITEMS, tell), OwnPoints(N_ITEMS, tell), OwnSets(N_ITEMS, tell)]
    size = 4 if "minimizer" in name else N_ITEMS
    return [OwnSets(size, tell), OverridingSets(size, tell)]


def _begun(name):
    """A learner of some rounds that has the next one open, and how it stands."""
    setting = EVERYBODY[name]
    learner, stream = setting.make(), setting.people(ROUNDS)
    for t in range(3):
        learner.learn(setting.feedback(learner, stream[t], learner.choose()), person_id="ann")
    learner.choose()
    return learner, as_bytes(*learner._saved())


def _goes_on(name, learner):
    """The refused person left no trace: the rest is as without them."""
    setting, (twin, _) = EVERYBODY[name], _begun(name)
    stream = setting.people(ROUNDS)
    for t in range(3, 12):
        decisions = [one.choose() for one in (learner, twin)]
        assert shown(decisions[0]) == shown(decisions[1])
        for one, decision in zip((learner, twin), decisions, strict=True):
            one.learn(setting.feedback(one, stream[t], decision))


@pytest.mark.parametrize("name", TOLD_FUNCTIONS)
@pytest.mark.parametrize("bad", BAD)
def test_a_function_that_answers_badly_changes_nothing(name, bad):
    learner, before = _begun(name)
    for person in _functions(name, Teller(BAD[bad])):
        with pytest.raises((TypeError, ValueError)) as refused:
            learner.learn(person, person_id="bob")
        assert any(word in str(refused.value) for word in WORDS)
        assert "ann" not in str(refused.value)
        assert as_bytes(*learner._saved()) == before
    _goes_on(name, learner)


@pytest.mark.parametrize("name", TOLD_FUNCTIONS)
@pytest.mark.parametrize("bad", ["NaN", "one NaN", "too many", "text", "raises"])
def test_a_function_that_answers_badly_in_the_end_changes_nothing(name, bad):
    """However often it is asked: every answer but the last is a good one."""

    def raises(_):
        raise Broken("my diagnosis")

    learner, before = _begun(name)
    if isinstance(learner, PhasedSelector):
        pytest.skip("asks again when a window closes; see below")
    for place in range(len(_functions(name, Teller(BAD["NaN"])))):
        counting = Teller(lambda good: good)
        twin, _ = _begun(name)
        twin.learn(_functions(name, counting)[place])
        assert counting.asked
        for patience in {0, counting.asked // 2, counting.asked - 1}:
            tell = Teller(raises if bad == "raises" else BAD[bad], patience)
            with pytest.raises((TypeError, ValueError, Broken)):
                learner.learn(_functions(name, tell)[place], person_id="bob")
            assert tell.asked > patience
            assert as_bytes(*learner._saved()) == before
    _goes_on(name, learner)


@pytest.mark.parametrize("name", TOLD_NUMBERS)
@pytest.mark.parametrize("bad", BAD)
def test_a_number_that_is_none_changes_nothing(name, bad):
    learner, before = _begun(name)
    setting = EVERYBODY[name]
    if "slots" in name and bad == "nothing":
        pytest.skip("nothing was taken")
    good = setting.feedback(learner, setting.people(4)[3], learner.choose())
    with pytest.raises((TypeError, ValueError)) as refused:
        learner.learn(BAD[bad](np.asarray(good, dtype=float)[()]), person_id="bob")
    assert any(word in str(refused.value) for word in WORDS)
    assert as_bytes(*learner._saved()) == before
    _goes_on(name, learner)


@pytest.mark.parametrize("name", TOLD_FUNCTIONS + TOLD_NUMBERS)
@pytest.mark.parametrize("bad", ["NaN", "inf", "too many", "text", "raises"])
def test_a_stream_stops_before_a_function_that_answers_badly(name, bad):
    """The people before it have been learned from, it and those after it have not."""

    def raises(_):
        raise Broken("my diagnosis")

    setting = EVERYBODY[name]
    learner, _ = _begun(name)
    tell = Teller(raises if bad == "raises" else BAD[bad])
    person = _functions(name, tell)[0]
    stream = [*(setting.people(5)[t] for t in (3, 4)), person]
    if isinstance(person, Population):
        stream = _Stream(stream)
    with pytest.raises((TypeError, ValueError, Broken)):
        learner.run(stream, person_ids=["x", "y", "z"])
    assert learner.round == 5
    twin, _ = _begun(name)
    twin.run(stream[:2] if isinstance(stream, list) else _Stream(stream.everybody[:2]), person_ids=["x", "y"])
    learner.choose()
    twin.choose()
    assert as_bytes(*learner._saved()) == as_bytes(*twin._saved())


class _Stream(OwnSets):
    """A stream of people of several kinds."""

    def __init__(self, everybody):
        super().__init__(everybody[0].n_items, None, len(everybody))
        self.everybody = everybody

    def _one(self, i):
        return self.everybody[i]


@pytest.mark.parametrize("name", TOLD_FUNCTIONS)
@pytest.mark.parametrize("call", ["choose", "learn", "run", "save"])
def test_a_function_that_uses_its_learner_is_refused(name, call, tmp_path):
    learner, before = _begun(name)
    setting = EVERYBODY[name]
    somebody = setting.people(1)

    def uses(good):
        {
            "choose": learner.choose,
            "learn": lambda: learner.learn(somebody[0]),
            "run": lambda: learner.run(somebody),
            "save": lambda: learner.save(tmp_path / "file"),
        }[call]()
        return good

    for person in _functions(name, Teller(uses)):
        with pytest.raises(
            RuntimeError, match=rf"{call}\(\) was called inside learn\(\) of the same learner"
        ):
            learner.learn(person, person_id="bob")
        assert as_bytes(*learner._saved()) == before
    assert not list(tmp_path.iterdir())
    _goes_on(name, learner)


@pytest.mark.parametrize("name", TOLD_NUMBERS)
@pytest.mark.parametrize("call", ["choose", "learn"])
def test_a_number_that_uses_its_learner_is_refused(name, call):
    learner, before = _begun(name)
    setting = EVERYBODY[name]
    good = setting.feedback(learner, setting.people(4)[3], learner.choose())
    uses = {"choose": learner.choose, "learn": lambda: learner.learn(good)}[call]
    with pytest.raises(RuntimeError, match=rf"{call}\(\) was called inside learn\(\) of the same learner"):
        learner.learn(Calling(uses, good), person_id="bob")
    assert as_bytes(*learner._saved()) == before
    _goes_on(name, learner)


# --- windows of people, who are asked when the window closes -------------------------------------------


def _window(late, learner=None):
    """What is chosen after a window of five: three rows, and two who are functions."""
    learner = PhasedSelector(N_ITEMS, 3, dc.Budget(50.0), window=5, seed=2) if learner is None else learner
    for t in range(5):
        learner.choose()
        learner.learn(people()[t] if t < 3 else late)
    return shown(learner.choose()), learner


class _Later(OverridingSets):
    """Answers well while it is looked at, and as it pleases once its window closes."""

    def __init__(self, tell):
        super().__init__(N_ITEMS, lambda good: good)
        self._later, self._closing = tell, lambda: False

    def _gains(self, items):
        good = np.zeros(self.n_items)
        return self._later(good) if self._closing() else good


class _Pushing(_Later):
    def gains(self, items):
        items.append(N_ITEMS - 1)
        return np.zeros(N_ITEMS)


@pytest.mark.parametrize("bad", [*BAD, "raises", "chooses", "adds an item"])
def test_who_fails_when_a_window_closes_counts_as_nothing(bad):
    """As somebody who wants nothing; numbers out of range are cut to it, as the sensitivity assumes."""
    learner = PhasedSelector(N_ITEMS, 3, dc.Budget(50.0), window=5, seed=2)
    tell = BAD.get(bad)
    if bad == "raises":

        def tell(_):
            raise Broken("my diagnosis")

    elif bad == "chooses":

        def tell(good):
            learner.choose()
            return good + 1.0

    late = (_Pushing if bad == "adds an item" else _Later)(tell)
    late._closing = lambda: learner.round == 5
    decided, _ = _window(late, learner)
    if bad == "too large":
        wanted = OwnSets(N_ITEMS, lambda good: good)
        wanted._gains = lambda items: np.ones(N_ITEMS)
        assert decided == _window(wanted)[0]
    else:
        assert decided == _window(_Later(lambda good: good))[0]
