"""Selectors and estimators on shares of one budget, and on one gate: together never more than the budget."""

from __future__ import annotations

import contextlib
import copy
import itertools
import pickle
import threading
import warnings
from dataclasses import replace
from fractions import Fraction
from unittest import mock

import numpy as np
import pytest
from sklearn.base import clone

import discreet as dc
from discreet.constraints import Cardinality, Knapsack, PartitionMatroid
from discreet.objectives import Coverage, FacilityLocation, MutualInformation
from discreet.offline import (
    ContinuousGreedy,
    CurvatureGreedy,
    PrivateFeatureSelector,
    PrivateGreedy,
    PrivateItemSelector,
    greedy,
)
from discreet.offline.continuous import Setting
from discreet.privacy import BudgetExceeded, GaussianNoise, picks
from discreet.privacy.account import Filter, PublishedCalibrationWarning, filter_of
from discreet.privacy.events import Loss

from . import averaged

RNG = np.random.default_rng(0)
BASKETS = (RNG.random((400, 6)) < 0.3).astype(float)
PEOPLE = {
    "rows": Coverage(BASKETS),
    "averages": averaged(RNG.random((400, 6)) / 6.0),
    "one function": MutualInformation(RNG.integers(0, 2, (400, 6)), RNG.integers(0, 2, 400)),
}
BAG = Knapsack([0.6, 0.3, 0.3, 0.2, 0.4, 0.5], 1.0)
BLOCKS = PartitionMatroid([[0, 1, 2], [3, 4, 5]], 1)


def _items(share, seed=None):
    PrivateItemSelector(2, budget=share, random_state=seed).fit(BASKETS)


def _features(objective):
    def fit(share, seed=None):
        PrivateFeatureSelector(
            2,
            objective=objective,
            bounds=(0, 1),
            classes=[0.0, 1.0],
            bins=2,
            budget=share,
            random_state=seed,
        ).fit(BASKETS[:, 1:], BASKETS[:, 0])

    return fit


def _greedy(constraint=2, people="rows", **options):
    def select(share, seed=None):
        PrivateGreedy(constraint, share, seed=seed, **options).select(PEOPLE[people])

    return select


def _climber(kind, constraint, **options):
    def select(share, seed=None):
        kind(constraint, share, seed=seed, **options).select(PEOPLE["rows"])

    return select


# Everything that spends a share, by how it does; those with Gaussian noise need another definition than pure.
PURE = {
    "picks": _greedy(),
    "picks, basic": _greedy(method="basic"),
    "picks, subsampled": _greedy(method="subsampled"),
    "picks of averages": _greedy(people="averages", method="basic"),
    "picks of one function": _greedy(people="one function"),
    "picks and gains": _greedy(release_gains=0.3),
    "a knapsack": _greedy(BAG, method="subsampled", release_gains=0.5),
    "all items, and gains": _greedy(6, release_gains=0.5),
    "steps": _climber(ContinuousGreedy, BLOCKS, steps=2),
    "a knapsack in steps": _climber(CurvatureGreedy, BAG, steps=2, composition="basic"),
    "laplace": _climber(ContinuousGreedy, 2, noise="laplace", steps=3),
    "items": _items,
    "features": _features("mutual_information"),
    "features by covariance": _features("covariance"),
}
CONCENTRATED = PURE | {
    "picks, zcdp": _greedy(3, method="zcdp"),
    "gaussian": _climber(ContinuousGreedy, 2, noise="gaussian", steps=3),
    "steps, zcdp": _climber(CurvatureGreedy, BLOCKS, steps=3, composition="zcdp"),
    "steps, advanced": _climber(ContinuousGreedy, BLOCKS, steps=3, composition="advanced"),
}
BUDGETS = {
    "pure": dc.Budget(2.0),
    "pure with a delta": dc.Budget(2.0, 1e-6),
    "zcdp": dc.Budget(2.0, 1e-6, "replace", 2),
    "gdp": dc.Budget(2.0, 1e-6),
}


def _definition(name):
    return name.split()[0]


def _spenders(name):
    return PURE if _definition(name) == "pure" else CONCENTRATED


def _limit(budget, definition, fraction):
    return filter_of(budget, definition).part(fraction)


# --- composed exactly -----------------------------------------------------------------------------

CASES = [(how, name) for name in BUDGETS for how in _spenders(name)]


@pytest.mark.parametrize(("how", "name"), CASES)
def test_nobody_spends_more_than_a_share(how, name):
    budget, definition = BUDGETS[name], _definition(name)
    gate = dc.Gate(budget, 0, definition=definition)
    third, rest = gate.split([1, 2])
    for share in (third, rest):
        before = gate.spent.loss
        _spenders(name)[how](share)
        assert gate.spent.loss != before
        assert _limit(budget, definition, share.fraction if share is third else Fraction(1)).fits(
            gate.spent.loss
        )
    assert gate.spent.epsilon() <= budget.epsilon


@pytest.mark.parametrize("name", BUDGETS)
def test_a_share_is_put_to_use(name):
    """Where picks and noise are paid in the definition of the share, next to nothing of it is left over."""
    budget, definition = BUDGETS[name], _definition(name)
    for how in ("picks of one function", "steps", "laplace", "gaussian"):
        if how in _spenders(name):
            gate = dc.Gate(budget, 0, definition=definition)
            share = gate.split(4)[0]
            _spenders(name)[how](share)
            limit = _limit(budget, definition, share.fraction)
            assert limit.spent(gate.spent.loss) >= limit.limit * Fraction(999, 1000)


@pytest.mark.parametrize("name", BUDGETS)
def test_all_of_them_at_one_gate_stay_within_it_and_stand_in_one_account(name):
    budget, spenders = BUDGETS[name], _spenders(name)
    gate = dc.Gate(budget, 0, definition=_definition(name))
    for spend, share in zip(spenders.values(), gate.split(len(spenders)), strict=True):
        spend(share)
    account = gate.spent
    assert account.definition == _definition(name)
    assert _limit(budget, _definition(name), Fraction(1)).fits(account.loss)
    assert 0.0 < account.epsilon() <= budget.epsilon
    for label in (
        "picks",
        "gains of the picks",
        "pick by gradient",
        "multilinear gradient",
        "feature by cov",
    ):
        assert label in str(account.releases())


@pytest.mark.parametrize("name", BUDGETS)
def test_shares_of_a_budget_add_up_to_it_over_gates_of_their_own(name):
    budget, spenders = BUDGETS[name], _spenders(name)
    original, gates = dc.Gate.of_share, []

    def recorded(share, randomness=None):
        gates.append(original(share, randomness))
        return gates[-1]

    shares = budget.split(len(spenders), definition=_definition(name) if budget.delta else None)
    with mock.patch.object(dc.Gate, "of_share", recorded):
        for spend, share in zip(spenders.values(), shares, strict=True):
            spend(share, 0)
    assert len(gates) == len(spenders)
    for gate in gates:
        assert _limit(budget, _definition(name), Fraction(1, len(spenders))).fits(gate.spent.loss)
    together = sum((gate.spent.loss for gate in gates), Loss())
    assert _limit(budget, _definition(name), Fraction(1)).allows(together)


@pytest.mark.parametrize("definition", ["pure", "zcdp", "gdp"])
def test_what_is_left_of_a_gate_is_spent_and_no_more(definition):
    budget = dc.Budget(1.0, 1e-6)
    for how, spend in (PURE if definition == "pure" else CONCENTRATED).items():
        gate = dc.Gate(budget, 0, definition=definition)
        gate.laplace(1.0, 40.0, 1.0)
        spend(gate)
        assert _limit(budget, definition, Fraction(1)).fits(gate.spent.loss), how
        if definition != "gdp" and how in ("steps", "picks of one function", "features by covariance"):
            with pytest.raises(BudgetExceeded):  # these take all of it
                spend(gate)


def test_a_whole_budget_is_spent_in_the_same_way_however_it_is_given():
    for budget, kind in itertools.product(
        (dc.Budget(1.0), dc.Budget(1.0, 1e-6), dc.Budget(1.0, 1e-6, "add_remove", 2)),
        (PrivateGreedy, ContinuousGreedy, CurvatureGreedy),
    ):
        found = [kind(2, budget, seed=3), kind(2, budget.share(), seed=3), kind(2, dc.Gate(budget, 3))]
        chosen = [selector.select(PEOPLE["rows"]) for selector in found]
        assert len({selection.items for selection in chosen}) == 1
        assert len({tuple(selection.privacy.ledger.counts.items()) for selection in chosen}) == 1
        assert [selector.privacy.definition is None for selector in found] == [True, True, False]
        for selector in found:
            assert selector.budget == budget
            assert selector.share.fraction == 1


def test_a_small_share_says_so_in_warnings_and_in_print():
    share = dc.Budget(0.01).split(4)[0]
    selector = PrivateGreedy(1, share, seed=0)
    with pytest.warns(UserWarning, match=r"^0\.25 of epsilon=0\.01 is too small here"):
        selector.select(PEOPLE["rows"])
    assert "0.25 of epsilon=0.01" in repr(selector)
    with pytest.warns(UserWarning, match=r"^0\.25 of epsilon=0\.01 is too small"):
        ContinuousGreedy(BLOCKS, dc.Budget(0.01).split(4)[1], seed=0).select(PEOPLE["rows"])


# --- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [PrivateGreedy, ContinuousGreedy, CurvatureGreedy])
def test_one_chooser_does_not_eat_into_the_shares_of_others(kind):
    gate = dc.Gate(dc.Budget(1.0, 1e-6), 0)
    share, others = gate.split([1, 9])
    selector = kind(2, share)
    selector.select(PEOPLE["rows"])
    before = gate.spent.loss
    with pytest.raises(BudgetExceeded, match="nothing of this kind fits") as refusal:
        selector.select(PEOPLE["rows"])
    assert "share" in refusal.value.__notes__[0]
    assert gate.spent.loss == before
    kind(2, others).select(PEOPLE["rows"])  # which were left as they were


def test_gates_and_shares_have_randomness_of_their_own():
    gate = dc.Gate(dc.Budget(1.0, 1e-6), 0)
    for given in (gate, gate.split(2)[0]):
        for kind in (PrivateGreedy, ContinuousGreedy, CurvatureGreedy):
            with pytest.raises(ValueError, match="seed= is for a budget"):
                kind(2, given, seed=1)
        with pytest.raises(ValueError, match="random_state=1 goes with"):
            PrivateItemSelector(2, budget=given, random_state=1).fit(BASKETS)


@pytest.mark.parametrize("kind", [ContinuousGreedy, CurvatureGreedy])
def test_published_constants_need_a_whole_budget(kind):
    budget = dc.Budget(1.0, 1e-6)
    gate = dc.Gate(budget, 0)
    for given in (budget.split(2)[0], gate, gate.split(2)[0]):
        with pytest.raises(ValueError, match=r"takes a whole Budget: .* neither a share nor a gate"):
            kind(2, given, noise="laplace", calibration="published")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PublishedCalibrationWarning)
        kind(2, budget, 2, noise="laplace", calibration="published", seed=0).select(PEOPLE["rows"])


def test_what_a_definition_cannot_pay_for_is_refused_with_the_reason():
    gate = dc.Gate(dc.Budget(1.0, 1e-6), 0, definition="pure")
    cases = [
        (lambda: PrivateGreedy(Cardinality(2, 6), gate, "zcdp"), "another definition than pure epsilon"),
        (
            lambda: PrivateGreedy(Cardinality(2, 6), gate, "decomposable"),
            "another definition than pure epsilon",
        ),
        (
            lambda: PrivateGreedy(Cardinality(2, 6), dc.Budget(1.0, 1e-6).split(2)[0], "decomposable"),
            "its delta is that of a whole budget",
        ),
        (lambda: ContinuousGreedy(2, gate, noise="gaussian"), "another definition than pure epsilon"),
        (lambda: ContinuousGreedy(2, gate, composition="advanced"), "another definition than pure epsilon"),
        (lambda: CurvatureGreedy(2, gate, composition="zcdp"), "another definition than pure epsilon"),
    ]
    for make, said in cases:
        with pytest.raises(ValueError, match=said):
            make()
    auto = PrivateGreedy(2, dc.Budget(1.0, 1e-6).split(2)[0], seed=0)
    auto.select(PEOPLE["rows"])
    assert "its delta is that of a whole budget" in auto.reason
    assert gate.spent.loss == Loss()


def test_a_spent_gate_is_refused_when_a_chooser_is_made():
    gate = dc.Gate(dc.Budget(1.0), 0)
    PrivateGreedy(2, gate).select(PEOPLE["rows"])
    for make in (
        lambda: PrivateGreedy(2, gate),
        lambda: ContinuousGreedy(2, gate),
        lambda: PrivateItemSelector(2, budget=gate).fit(BASKETS),
    ):
        with pytest.raises(BudgetExceeded):
            make()


# --- injected faults ------------------------------------------------------------------------------


def _larger(share):
    """The fault: everything is calibrated to more than the share."""
    return replace(share, fraction=2 * share.fraction)


def _faults():
    for name, definition in (("basic", "pure"), ("zcdp", "zcdp"), ("subsampled", "zcdp")):
        original = getattr(picks, name)
        fault = mock.patch.object(
            picks, name, lambda share, *rest, original=original: original(_larger(share), *rest)
        )
        yield f"picks, {name}", definition, fault, _greedy(method=name)
    event = Setting._event_of
    for noise, definition in (("exponential", "gdp"), ("laplace", "pure"), ("gaussian", "zcdp")):
        fault = mock.patch.object(Setting, "_event_of", lambda self, k, share: event(self, k, _larger(share)))
        yield noise, definition, fault, _climber(ContinuousGreedy, 2, noise=noise, steps=2)
    within = GaussianNoise.within.__func__
    fault = mock.patch.object(
        GaussianNoise, "within", classmethod(lambda cls, share, *rest: within(cls, _larger(share), *rest))
    )
    yield "gains", "zcdp", fault, _greedy(method="zcdp", release_gains=0.5)


@pytest.mark.parametrize("fault", list(_faults()), ids=lambda fault: fault[0])
def test_calibration_to_more_than_the_share_is_refused(fault):
    """It is refused before anything is released; without that check, the exact sum would tell."""
    _, definition, injected, spend = fault
    budget = dc.Budget(1.0, 1e-6)
    gate = dc.Gate(budget, 0, definition=definition)
    share = gate.split(3)[0]
    with injected:
        with pytest.raises(BudgetExceeded):
            spend(share)
        assert gate.spent.loss == Loss()
        with mock.patch.object(Filter, "part", lambda self, _: self):
            spend(share)
    assert not _limit(budget, definition, share.fraction).fits(gate.spent.loss)
    healthy = dc.Gate(budget, 0, definition=definition)
    spend(healthy.split(3)[0])
    assert _limit(budget, definition, share.fraction).fits(healthy.spent.loss)


# --- estimators -----------------------------------------------------------------------------------


@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize("objective", ["covariance", "mutual_information"])
def test_clones_share_a_share(gated, objective):
    budget = dc.Budget(1.0, 1e-6)
    gate = dc.Gate(budget, 0)
    share = (gate if gated else budget).split(2)[0]
    chosen = PrivateFeatureSelector(
        2, objective=objective, bounds=(0, 1), classes=[0.0, 1.0], bins=2, budget=share
    )
    twin = clone(chosen)
    assert twin.budget is share
    assert twin.get_params()["budget"] is share
    chosen.fit(BASKETS[:, 1:], BASKETS[:, 0])
    spent = chosen.privacy_.epsilon()
    assert 0.0 < spent < 1.0
    for other in (chosen, twin, clone(twin)):
        with pytest.raises(BudgetExceeded):
            other.fit(BASKETS[:, 1:], BASKETS[:, 0])
    assert _limit(budget, "zcdp", Fraction(1, 2)).fits(twin._fits.account.loss)
    for copied in (pickle.dumps, copy.deepcopy):
        with pytest.raises(TypeError, match="spent twice"):
            copied(chosen)


@pytest.mark.parametrize("made_of", [PrivateFeatureSelector, dc.offline.PrivateRecommender])
def test_two_threads_with_one_share_spend_it_once(made_of, monkeypatch):
    """Both looked at what had been spent before either had said what it would spend."""
    barrier, gate, errors = threading.Barrier(2), dc.Gate(dc.Budget(1.0, 1e-6), 0), []
    share, original = gate.split(2)[0], greedy.event_loss
    options = {"k": 2, "classes": [0.0, 1.0]} if made_of is PrivateFeatureSelector else {}
    first = made_of(budget=share, **options)
    fitted = [first, clone(first)] if options else [first, first]

    def together(event):
        with contextlib.suppress(threading.BrokenBarrierError):
            barrier.wait(0.2)
        return original(event)

    def fit(model):
        try:
            model.fit(BASKETS[:, 1:], BASKETS[:, 0])
        except (BudgetExceeded, RuntimeError) as error:
            errors.append(error)

    monkeypatch.setattr(greedy, "event_loss", together)
    threads = [threading.Thread(target=fit, args=(model,)) for model in fitted]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(errors) == 1
    assert _limit(gate.budget, "zcdp", Fraction(1, 2)).fits(gate.spent.loss)


def test_each_fit_spends_its_epsilon_of_a_gate_in_the_definition_of_the_gate():
    """In pure epsilon no fit takes more than it says, also where its delta would allow larger picks."""
    for definition, delta in (("pure", 0.0), ("pure", 1e-7), ("zcdp", 1e-7), ("zcdp", 0.0), ("gdp", 1e-7)):
        gate = dc.Gate(dc.Budget(4.0, 1e-6), 0, definition=definition)
        each = dc.Budget(0.5, delta)
        selector = PrivateItemSelector(30, 0.5, delta, budget=gate, method="auto" if delta else "basic")
        wide = np.tile(BASKETS, 6)
        for fits in range(1, 4):
            clone(selector).fit(wide)
            if delta or definition == "pure":
                lost, limit = gate.spent.loss, filter_of(each, definition)
                assert limit.spent(lost) <= fits * limit.limit
            assert gate.spent.epsilon() <= 4.0


def test_a_budget_says_what_epsilon_and_delta_would():
    budget = dc.Budget(2.0, 1e-6, "add_remove", 2)
    selector = PrivateItemSelector(2, budget=budget, random_state=0).fit(BASKETS)
    same = PrivateItemSelector(
        2, 2.0, 1e-6, neighbours="add_remove", max_rows_per_person=2, random_state=0
    ).fit(BASKETS)
    assert selector.selection_.items == same.selection_.items
    assert str(selector.privacy_) == str(same.privacy_)
    for wrong in ({"epsilon": 1.0}, {"delta": 1e-6}):
        for given in (budget, budget.split(2)[0], dc.Gate(budget, 0).split(2)[0]):
            with pytest.raises(ValueError, match="epsilon= and delta= go with a Gate"):
                PrivateItemSelector(2, budget=given, **wrong).fit(BASKETS)
    with pytest.raises(ValueError, match="max_rows_per_person=1, but the budget has"):
        PrivateItemSelector(2, budget=budget, max_rows_per_person=1).fit(BASKETS)
    with pytest.raises(ValueError, match="budget was changed after a fit"):
        selector.set_params(budget=budget.split(2)[0]).fit(BASKETS)


def test_facilities_and_features_stand_in_one_account():
    """Two kinds of questions about the same people, as a report would ask them."""
    gate = dc.Gate(dc.Budget(1.0, 1e-6), 0)
    sites, features = gate.split(2)
    greedy = PrivateGreedy(2, sites)
    greedy.select(FacilityLocation(BASKETS))
    chosen = PrivateFeatureSelector(
        1, objective="covariance", bounds=(0, 1), classes=[0.0, 1.0], budget=features
    )
    chosen.fit(BASKETS[:, 1:], BASKETS[:, 0])
    assert str(greedy.privacy) == str(chosen.privacy_) == str(gate.spent)
    assert gate.spent.epsilon() <= 1.0
