"""Noise that somebody may know stays known: every account says "not private", after every restart."""

from __future__ import annotations

import copy
import dataclasses
import json
import pickle

import numpy as np
import pytest

import discreet as dc
from discreet.offline import (
    ContinuousGreedy,
    CurvatureGreedy,
    PrivateFeatureSelector,
    PrivateGreedy,
    PrivateItemSelector,
)
from discreet.privacy import Account, FactorizedSum, Gate, ReproducibleRandomness, TreeSum
from tests.online.learners import EVERYBODY

BUDGET = dc.Budget(1.0, 1e-6)
MARK = "not private"


class Known:
    """A source of one's own that is not secure, and of which a file keeps nothing."""

    secure = False

    def __init__(self):
        self._words = ReproducibleRandomness(5)

    def words(self, count):
        return self._words.words(count)

    def state(self):
        return None


def _marked(account):
    """Wherever an account can be read or sent."""
    again = Account.from_json(json.loads(json.dumps(account.to_json())))
    copies = [copy.copy(account), copy.deepcopy(account), pickle.loads(pickle.dumps(account))]
    every = [account, again, *copies, dataclasses.replace(account, budget=account.budget)]
    marks = {one.reproducible and MARK in str(one) and MARK in one._repr_html_() for one in every}
    assert len(marks) == 1
    return marks.pop()


@pytest.mark.parametrize("seed", [7, Known()], ids=["seeded", "own source"])
def test_gates_and_their_parts(seed):
    gate = Gate(BUDGET, seed)
    for _ in range(3):
        part = gate.part("group").part("half")
        part.laplace(0.0, 20.0, 1.0)
        for one in (gate, part, gate.part("another")):
            assert _marked(one.spent)
            assert _marked(Gate.from_state(one.state()).spent)
        gate = Gate.from_state(gate.state())
    assert not _marked(Gate.from_state(Gate(BUDGET).state()).spent)


@pytest.mark.parametrize("kind", [TreeSum, FactorizedSum])
def test_sums(kind, tmp_path):
    total = kind(2, 10, BUDGET, norm_bound=1.0, seed=Known())
    for _ in range(3):
        total.add([0.5, 0.0])
        assert _marked(total.gate.spent)
        total.save(tmp_path / "file")
        total = kind.load(tmp_path / "file")
    assert _marked(total.gate.spent)
    secure = kind(2, 10, BUDGET, norm_bound=1.0)
    secure.save(tmp_path / "secure")
    assert not _marked(kind.load(tmp_path / "secure").gate.spent)
    # Behind a gate that was charged for another sum like it there is no place for this one.
    another = Gate.from_state(secure.gate.state())
    with pytest.raises(ValueError, match="was not charged for these"):
        kind.from_state(*total.state(), another)


@pytest.mark.parametrize("name", EVERYBODY)
def test_learners(name, tmp_path):
    setting = EVERYBODY[name]
    learner, stream = setting.make(seed=Known()), setting.people(9)
    for t in range(0, 9, 3):
        learner.run(stream[t : t + 3])
        learner.choose()
        assert _marked(learner.privacy)
        assert _marked(learner.privacy.spent)
        learner.save(tmp_path / "file")
        learner = dc.load(tmp_path / "file")
        assert _marked(learner.privacy)
        assert _marked(learner.privacy.spent)


def test_secure_learners_are_not_marked(tmp_path):
    for name in ("hedge, tight", "bandit, slots", "leader", "minimizer, tree"):
        learner = EVERYBODY[name].make(seed=None)
        learner.run(EVERYBODY[name].people(4))
        learner.save(tmp_path / "file")
        for one in (learner, dc.load(tmp_path / "file")):
            assert not _marked(one.privacy)
            assert not _marked(one.privacy.spent)


@pytest.mark.parametrize("seed", [7, Known()], ids=["seeded", "own source"])
@pytest.mark.parametrize("kind", [PrivateGreedy, ContinuousGreedy, CurvatureGreedy])
def test_choosers(kind, seed):
    people = dc.objectives.Coverage(np.eye(3)[np.arange(900) % 3])
    selector = kind(1, dc.Budget(5.0, 1e-6), seed=seed)
    chosen = selector.select(people)
    assert _marked(selector.privacy)
    assert _marked(chosen.privacy)
    assert _marked(pickle.loads(pickle.dumps(chosen)).privacy)


def test_published_gates_are_marked_like_the_one_they_stand_for():
    people = dc.objectives.Coverage(np.eye(3)[np.arange(900) % 3])
    selector = CurvatureGreedy(
        1, BUDGET, noise="laplace", calibration="published", guess=0.0, steps=1, seed=Known()
    )
    with pytest.warns(UserWarning, match="CurvatureGreedy"):
        assert _marked(selector.select(people).privacy)


def test_estimators():
    X, y = np.eye(3)[np.arange(900) % 3], np.arange(900) % 2
    for fitted in (
        PrivateItemSelector(1, 5.0, random_state=0).fit(X),
        PrivateFeatureSelector(1, 5.0, bounds=(0, 1), classes=[0, 1], random_state=0).fit(X, y),
        PrivateFeatureSelector(
            1, 5.0, objective="covariance", bounds=(0, 1), classes=[0, 1], random_state=0
        ).fit(X, y),
    ):
        for one in (fitted, copy.deepcopy(fitted), pickle.loads(pickle.dumps(fitted))):
            assert _marked(one.privacy_)
    assert not _marked(PrivateItemSelector(1, 5.0).fit(X).privacy_)
