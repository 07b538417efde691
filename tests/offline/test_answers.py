"""What somebody's function answers badly is refused before anything is spent, or counts as nothing."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import discreet as dc
from discreet.constraints import Cardinality, Knapsack
from discreet.objectives import Population
from discreet.offline import ContinuousGreedy, CurvatureGreedy, PrivateGreedy, PrivateItemSelector
from discreet.privacy import BudgetExceeded
from tests.answers import BAD, Broken, OverridingSets, OwnSets, Teller
from tests.states import Meanwhile

N_ITEMS = 5
LIMIT = Knapsack([1.0, 0.5, 0.5, 0.4, 1.0], 1.2)
LOUD, PURE = dc.Budget(60.0, 1e-6), dc.Budget(60.0)


def _made(kind, constraint=2, budget=LOUD, **options):
    return lambda seed=4: kind(constraint, budget, seed=seed, **options)


CHOOSERS = {
    "basic": _made(PrivateGreedy, method="basic"),
    "zcdp": _made(PrivateGreedy, method="zcdp"),
    "decomposable": _made(PrivateGreedy, method="decomposable"),
    "subsampled": _made(PrivateGreedy, budget=PURE, method="subsampled"),
    "gains": _made(PrivateGreedy, method="basic", release_gains=0.5),
    "costs": _made(PrivateGreedy, LIMIT, method="basic"),
    "picks by slope": _made(ContinuousGreedy, Cardinality(2), steps=2, noise="exponential"),
    "Laplace": _made(ContinuousGreedy, Cardinality(2), steps=2, noise="laplace"),
    "Gaussian": _made(ContinuousGreedy, Cardinality(2), steps=2, noise="gaussian"),
    "gradients and costs": _made(ContinuousGreedy, LIMIT, steps=2, noise="exponential"),
    "curvature": _made(CurvatureGreedy, Cardinality(2), steps=2),
}


class Crowd(Population):
    """Twenty people who want item 1 most, and one more of another kind."""

    n_items = N_ITEMS
    _declared = 1.0

    def __init__(self, last):
        self.everybody = [OwnSets(N_ITEMS, self._wants) for _ in range(20)] + [last]

    @staticmethod
    def _wants(good):
        return good * np.linspace(0.2, 1.0, N_ITEMS) if np.ndim(good) else good

    def __len__(self):
        return len(self.everybody)

    def _one(self, i):
        return self.everybody[i]

    def __iter__(self):
        return iter(self.everybody)

    def _take(self, rows):
        taken = object.__new__(Crowd)
        taken.everybody = [self.everybody[i] for i in rows]
        return taken

    def _value(self, items):
        return float(np.mean([one._value(items) for one in self.everybody[:-1]]))

    def _gains(self, items):
        return np.mean([one._gains(items) for one in self.everybody[:-1]], axis=0)

    def _largest(self):
        return np.ones(len(self))


@pytest.fixture(params=CHOOSERS, ids=CHOOSERS.keys())
def make(request):
    return CHOOSERS[request.param]


def _raises(_):
    raise Broken("my diagnosis")


def _outcome(selection):
    return selection.items, selection.gains


@pytest.mark.parametrize("bad", [*BAD, "raises"])
@pytest.mark.parametrize("kind", [OwnSets, OverridingSets])
def test_one_who_answers_badly_counts_as_nothing(make, kind, bad):
    """As if they wanted nothing. Numbers out of range are cut to it, whatever they are."""
    tell = Teller(_raises if bad == "raises" else BAD[bad])
    chosen = make().select(Crowd(kind(N_ITEMS, tell)))
    assert tell.asked
    if bad == "too large":
        expected = kind(N_ITEMS, lambda good: np.ones_like(good))
    else:
        expected = kind(N_ITEMS, lambda good: good * 0.0)
    assert _outcome(chosen) == _outcome(make().select(Crowd(expected)))


@pytest.mark.parametrize("bad", [one for one in BAD if one != "too large"])
@pytest.mark.parametrize("kind", [OwnSets, OverridingSets])
def test_a_population_that_answers_badly_at_once_costs_nothing(make, kind, bad):
    selector = make()
    with pytest.raises((TypeError, ValueError)) as refused:
        selector.select(kind(N_ITEMS, Teller(BAD[bad]), 20))
    assert any(word in str(refused.value) for word in ("gains", "value", "multilinear"))
    assert "20" not in str(refused.value)
    assert selector.privacy.epsilon() == 0.0
    selector.select(Crowd(OwnSets(N_ITEMS, lambda good: good)))


STATED = {
    "picks": _made(PrivateGreedy, method="basic", sensitivity=0.01),
    "picks and costs": _made(PrivateGreedy, LIMIT, method="basic", sensitivity=0.01),
    "gradients": _made(ContinuousGreedy, Cardinality(2), steps=2, noise="laplace", sensitivity=0.01),
    "picks by slope": _made(ContinuousGreedy, Cardinality(2), steps=2, sensitivity=0.01),
}


@pytest.mark.parametrize("name", STATED)
@pytest.mark.parametrize("bad", [one for one in BAD if one != "too large"])
@pytest.mark.parametrize("kind", [OwnSets, OverridingSets])
@pytest.mark.parametrize("patience", [0, 1, 2])
def test_one_function_of_everybody_is_never_half_an_answer(name, bad, kind, patience):
    """Where nobody can be left out the selection fails; what was charged for it stays charged."""
    selector = STATED[name]()
    tell = Teller(BAD[bad], patience)
    with pytest.raises((TypeError, ValueError)):
        selector.select(kind(N_ITEMS, tell, 20))
    assert selector.privacy.epsilon() <= selector.budget.epsilon


def test_a_person_cannot_put_items_into_the_set(make):
    """Whoever is handed the items chosen so far is handed a list of their own."""

    class Pushing(OverridingSets):
        def gains(self, items):
            if isinstance(items, list):
                items.append(N_ITEMS - 1)
            return np.zeros(self.n_items)

        def multilinear_gradient(self, x, **_):
            x[:] = 1.0
            return np.zeros(self.n_items)

    idle = OverridingSets(N_ITEMS, lambda good: good * 0.0)
    pushed = make().select(Crowd(Pushing(N_ITEMS, lambda good: good * 0.0)))
    assert _outcome(pushed) == _outcome(make().select(Crowd(idle)))


def test_a_person_cannot_use_the_chooser_that_asks_them(make):
    selector, said = make(), []

    def selects(good):
        try:
            selector.select(Crowd(OwnSets(N_ITEMS, lambda good: good)))
        except RuntimeError as error:
            said.append(str(error))
        return good * 0.0

    chosen = selector.select(Crowd(OwnSets(N_ITEMS, selects)))
    assert set(said) == {
        "select() was called inside select() of the same selector; a person's function must not use it"
    }
    assert _outcome(chosen) == _outcome(make().select(Crowd(OwnSets(N_ITEMS, lambda good: good * 0.0))))


@pytest.mark.filterwarnings("ignore")  # published constants say what they really cost
@pytest.mark.parametrize("call", ["select", "fractional"])
@pytest.mark.parametrize("kind", [ContinuousGreedy, CurvatureGreedy])
def test_two_threads_do_not_get_a_budget_each(kind, call):
    """Published constants need a larger gate, which is made once: every release is in the one account."""
    people = Crowd(OwnSets(N_ITEMS, lambda good: good))
    options = {"steps": 2, "noise": "laplace", "calibration": "published"}
    if kind is CurvatureGreedy:
        options["guess"] = 0.0
    selector = kind(Cardinality(2), dc.Budget(1.0, 1e-6), seed=1, **options)
    alone = kind(Cardinality(2), dc.Budget(1.0, 1e-6), seed=1, **options)
    getattr(alone, call)(people)
    once = sum(alone.privacy.ledger.counts.values())
    gates = []
    second = Meanwhile(lambda: getattr(selector, call)(people))
    honest = selector._take_true_budget

    def slow(*given):
        honest(*given)
        if threading.current_thread() is threading.main_thread():
            second.start()
        gates.append(selector._gate)

    selector._take_true_budget = slow
    getattr(selector, call)(people)
    try:
        second.finish()
        answers = 2
    except BudgetExceeded:
        answers = 1
    assert all(gate is selector._gate for gate in gates)
    assert sum(selector.privacy.ledger.counts.values()) == answers * once


def test_an_estimators_own_objective_is_asked_in_the_same_way():
    X = np.eye(N_ITEMS)[np.arange(40) % 2]
    for bad in ("NaN", "too many", "text", "nothing"):
        broken = PrivateItemSelector(
            k=2, epsilon=60.0, objective=lambda _, bad=bad: OwnSets(N_ITEMS, BAD[bad], 40), random_state=0
        )
        with pytest.raises((TypeError, ValueError), match=r"gains|value|multilinear"):
            broken.fit(X)
        assert not hasattr(broken, "selection_")
