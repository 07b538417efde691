"""The scikit-learn face: fit, transform, names, pipelines, declared bounds, and what one row can move."""

from __future__ import annotations

import copy
import itertools
import math
import os
import pickle
import re
import subprocess
import sys
import warnings
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from joblib import parallel_config
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import BaggingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

import discreet as dc
from discreet.audit.measures import distribution
from discreet.offline import estimators
from discreet.offline.estimators import (
    Fits,
    PrivateFeatureSelector,
    PrivateItemSelector,
    RepeatedFitWarning,
    chance_of_a_copy,
    covariance_choice,
    covariance_range,
    covariances,
    thresholds,
)
from discreet.offline.greedy import PrivateGreedy
from discreet.privacy import ExponentialChoice, PermuteAndFlip, samplers
from tests.privacy.audit import hockey_stick


def _visits(rng, people=800, items=6):
    chances = np.array([0.5, 0.4, 0.3, 0.1, 0.05, 0.02])[:items]
    return (rng.random((people, items)) < chances).astype(float)


def _table(rng, people=2000):
    y = rng.integers(0, 2, people)
    noise = rng.random((people, 4))
    noise[:, 2] = 0.4 * noise[:, 2] + 0.6 * y
    return noise, y


def test_items_are_chosen_and_transformed():
    X = _visits(np.random.default_rng(0))
    chosen = PrivateItemSelector(k=2, epsilon=4.0, random_state=0).fit(X)
    assert chosen.get_support().sum() == 2
    assert set(chosen.get_support(indices=True)) == {0, 1}
    assert chosen.transform(X).shape == (800, 2)
    assert chosen.get_feature_names_out().tolist() == ["x0", "x1"]
    assert chosen.privacy_.epsilon() <= 4.0
    assert chosen.privacy_.reproducible
    sparse = PrivateItemSelector(k=2, epsilon=4.0, random_state=0).fit(sp.csr_matrix(X))
    assert (sparse.get_support() == chosen.get_support()).all()


def test_constraints_caps_and_objectives():
    X = _visits(np.random.default_rng(1))
    blocks = dc.constraints.PartitionMatroid([0, 0, 0, 1, 1, 1], [1, 1])
    chosen = PrivateItemSelector(constraint=blocks, epsilon=8.0, items_per_person=2, random_state=0).fit(X)
    assert blocks.contains(chosen.selection_.items)
    assert len(chosen.selection_) == 2
    worth = PrivateItemSelector(2, 8.0, objective="facility_location", random_state=0).fit(0.5 * X)
    own = PrivateItemSelector(2, 8.0, objective=dc.objectives.FacilityLocation, random_state=0).fit(0.5 * X)
    assert (worth.get_support() == own.get_support()).all()


def test_a_cap_goes_by_the_row(monkeypatch):
    """One row more changes no other, though the seed is known; without a seed the key is a fresh one."""
    seen = []
    select = PrivateGreedy.select
    monkeypatch.setattr(
        PrivateGreedy, "select", lambda self, people: seen.append(people) or select(self, people)
    )
    X = 1.0 - np.random.default_rng(2).random((40, 60))
    settings = {"objective": "facility_location", "items_per_person": 1, "neighbours": "add_remove"}
    for seed in (3, None):
        for rows in (X, np.vstack([np.zeros(60), X]), np.vstack([X[:9], np.ones(60), X[9:]])):
            PrivateItemSelector(2, 1.0, **settings, random_state=seed).fit(rows)
    kept = [people.as_rows().sparse.toarray() for people in seen]
    assert (kept[0] == kept[1][1:]).all()
    assert (kept[0] == np.delete(kept[2], 9, axis=0)).all()
    assert (kept[3] != kept[4][1:]).any()
    assert (kept[0] != kept[3]).any()


@pytest.mark.parametrize("objective", ["mutual_information", "covariance", "threshold"])
def test_the_telling_feature_is_found(objective):
    X, y = _table(np.random.default_rng(2))
    selector = PrivateFeatureSelector(
        1, 2.0, objective=objective, bounds=(0, 1), classes=[0, 1], random_state=0
    )
    assert clone(selector).fit(X, y).get_support().tolist() == [False, False, True, False]
    with pytest.warns(RepeatedFitWarning, match="clones of one estimator"):
        assert selector.fit(X, y).privacy_.epsilon() == 4.0  # with the clone's


def test_the_default_is_covariance_where_there_are_bounds(monkeypatch):
    X, y = _table(np.random.default_rng(2))
    for neighbours in ("replace", "add_remove"):
        options = {"bounds": (0, 1), "classes": [0, 1], "neighbours": neighbours, "random_state": 0}
        default = PrivateFeatureSelector(2, 1.0, **options).fit(X, y)
        named = PrivateFeatureSelector(2, 1.0, objective="covariance", **options).fit(X, y)
        assert default.objective_ == "covariance"
        assert default.selection_.items == named.selection_.items
    # More people than whose covariances are exact: their number is public where they are replaced.
    monkeypatch.setattr(estimators, "MOST_PEOPLE", 1000)
    options["neighbours"] = "replace"
    assert PrivateFeatureSelector(1, 9.0, **options).fit(X, y).objective_ == "threshold"
    options["neighbours"] = "add_remove"
    with pytest.raises(ValueError, match="whose sums are exact"):
        PrivateFeatureSelector(1, 9.0, **options).fit(X, y)


def test_thresholds_need_no_bounds_and_do_not_see_units():
    X, y = _table(np.random.default_rng(2))
    for neighbours in ("replace", "add_remove"):
        options = {"classes": [0, 1], "neighbours": neighbours, "random_state": 0}
        chosen = [
            PrivateFeatureSelector(2, 1.0, **more, **options).fit(data, y)
            for more, data in (
                ({}, X),
                ({"objective": "threshold", "bounds": (0, 1e6)}, X),
                ({}, np.exp(9 * X)),  # in any unit, of any shape
            )
        ]
        assert {one.objective_ for one in chosen} == {"threshold"}
        assert len({one.selection_.items for one in chosen}) == 1
    with pytest.raises(ValueError, match=re.escape("scale='log' is about bounds=(low, high)")):
        PrivateFeatureSelector(2, 1.0, scale="log", **options).fit(X, y)


def test_thresholds_are_the_largest_covariance_of_any_cut():
    rng = np.random.default_rng(6)
    for people, n_classes in ((1, 2), (2, 2), (30, 2), (40, 4)):
        table = rng.integers(-3, 4, (people, 5)) * np.array([1.0, 1e-300, 1e300, 0.1, 0.0])
        kinds = rng.integers(0, n_classes, people)
        cuts = np.unique(table)
        slow = [covariances((table > cut).astype(float), kinds, n_classes) for cut in cuts]
        np.testing.assert_allclose(thresholds(table, kinds, n_classes), np.max(slow, axis=0), atol=1e-5)
        scaled = estimators.scaled_to((-4e300, 4e300), table)
        assert (thresholds(table, kinds, n_classes) >= covariances(scaled, kinds, n_classes) - 1e-5).all()


def test_features_are_scaled_by_their_bounds():
    table = np.array([[2.0, -1.0], [4.0, 0.0], [9.0, 3.0], [11.0, -5.0]])
    expected = np.array([[0.0, 0.0], [0.25, 0.25], [0.875, 1.0], [1.0, 0.0]])
    bounds = ([2.0, -1.0], [10.0, 3.0])
    assert estimators.scaled_to(bounds, table) == pytest.approx(expected)
    logs = [[math.log(1 + 1000 * share) / math.log(1001) for share in row] for row in expected.tolist()]
    assert estimators.scaled_to(bounds, table, "log") == pytest.approx(np.array(logs))


def test_a_budget_that_is_too_small_names_what_would_do():
    X, y = _table(np.random.default_rng(2), 300)
    X = np.hstack([X] * 5)
    options = {"bounds": (0, 1), "classes": [0, 1], "random_state": 0}
    with pytest.warns(UserWarning, match=r'objective="covariance" would make it 1 for'):
        PrivateFeatureSelector(2, 1.0, objective="mutual_information", **options).fit(X, y)
    with pytest.warns(
        UserWarning, match=r"probability 0\.1.* \(at random 0\.05\); epsilon=0\.\d+ would"
    ) as said:
        PrivateFeatureSelector(2, 0.05, **options).fit(X, y)
    enough = float(str(said[0].message).split("epsilon=")[2].split(" ")[0])
    choice = covariance_choice(dc.Budget(enough).share(), 2, pure=True)
    chances = samplers.flip_probabilities(np.array([75.0] + [0.0] * 19), choice.rate)
    assert chance_of_a_copy(choice, 20, 300) == pytest.approx(chances[0])
    assert 0.5 <= chances[0] < 0.51
    with warnings.catch_warnings(action="error"):
        PrivateFeatureSelector(2, enough, **options).fit(X, y)
    PrivateFeatureSelector(2, 0.05, neighbours="add_remove", **options).fit(X, y)  # their number is private
    assert chance_of_a_copy(PermuteAndFlip(1e-30, 1.0), 20, 300) == 1 / 20  # all noise
    assert chance_of_a_copy(PermuteAndFlip(1.0, 1.0), 20, 10**6) == 1.0  # and none, beyond what exp() can say
    for rate in (0.0001, 0.02, 0.1):
        weights = np.exp(rate * np.array([300 / 4, *[0.0] * 19]))
        found = chance_of_a_copy(ExponentialChoice(rate, 2.0), 20, 300)
        assert found == pytest.approx(weights[0] / weights.sum())


def test_the_choice_with_the_larger_rate_is_taken():
    for share, count in ((dc.Budget(1.0).share(), 3), (dc.Budget(1.0, 1e-6).share(), 40)):
        flipped = PermuteAndFlip.within(share, estimators.covariance_range(), count, "pure")
        other = ExponentialChoice.within(share, estimators.covariance_range(), count)
        found = estimators.covariance_choice(share, count, pure=True)
        assert float(found.rate) == max(float(flipped.rate), float(other.rate))
        assert isinstance(found, PermuteAndFlip) == (not share.delta)
        assert estimators.covariance_choice(share, count, pure=False) == other


def test_a_search_fits_every_candidate_on_every_split_and_the_best_again():
    grid = SimpleNamespace(param_grid={"choose__epsilon": [0.5, 2.0, 1.0]}, refit=True)
    assert estimators._epsilons_of(grid, 2, 9.0) == [
        0.5,
        0.5,
        2.0,
        2.0,
        1.0,
        1.0,
        2.0,
    ]
    drawn = SimpleNamespace(n_iter=4, refit=False)
    assert estimators._epsilons_of(drawn, 3, 0.7) == [0.7] * 12


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"bounds": None, "objective": "covariance"}, "declare the public range"),
        ({"classes": None}, "declare the public list of classes"),
        ({"classes": [0]}, "at least two distinct"),
        ({"classes": [1, 2]}, "y holds a class that is not among"),
        ({"bounds": (1, 0)}, "low < high"),
        ({"bounds": (0, [1, 2])}, "two arrays of 4 numbers"),
        ({"k": 5}, "k=5 exceeds the 4 columns"),
        ({"k": 0}, "k=0"),
        ({"objective": "beauty"}, "objective='beauty'"),
        ({"epsilon": -1.0}, "epsilon"),
    ],
)
def test_bad_settings_are_named_before_anything_leaves(changes, message):
    X, y = _table(np.random.default_rng(0), 50)
    settings = {"k": 1, "epsilon": 1.0, "bounds": (0, 1), "classes": [0, 1], "random_state": 0} | changes
    with pytest.raises(ValueError, match=message):
        PrivateFeatureSelector(**settings).fit(X, y)


def test_bad_data_are_refused():
    X, y = _table(np.random.default_rng(0), 50)
    X[3, 1] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        PrivateFeatureSelector(1, 1.0, bounds=(0, 1), classes=[0, 1]).fit(X, y)
    with pytest.raises(ValueError, match="y is missing"):
        PrivateFeatureSelector(1, 1.0, bounds=(0, 1), classes=[0, 1]).fit(np.nan_to_num(X), None)
    with pytest.raises(ValueError, match="exceeds the 6 columns"):
        PrivateItemSelector(7, 1.0).fit(_visits(np.random.default_rng(0)))
    with pytest.raises(ValueError, match="NaN"):
        PrivateItemSelector(2, 1.0).fit(np.full((3, 3), np.nan))
    for odd in ([1, 2], {"ill": 1}, "ill"):  # the message does not say what somebody's class is instead
        with pytest.raises(dc.DataError, match=r"^y holds a class that is not among classes=\[0, 1\]$"):
            PrivateFeatureSelector(1, 1.0, classes=[0, 1]).fit(np.zeros((3, 2)), [0, 1, odd])


def test_nobodys_class_decides_what_kind_those_of_others_are():
    """In a list NumPy would make text of all numbers beside one text, and floats beside one float."""
    X, y = np.random.default_rng(0).random((60, 3)), [0, 2**53 + 1, "other"] * 20
    chosen = PrivateFeatureSelector(1, math.inf, classes=[0, 2**53 + 1, "other"])
    beside = PrivateFeatureSelector(1, math.inf, classes=[0, 2**53 + 1, 2**53, 0.5])
    assert chosen.fit(X, y).get_support().sum() == 1
    assert beside.fit(X, [0.5 if one == "other" else one for one in y]).get_support().sum() == 1
    number = {0: 0, 2**53 + 1: 1, "other": 2}
    plain = PrivateFeatureSelector(1, math.inf, classes=[0, 1, 2]).fit(X, [number[one] for one in y])
    assert (chosen.get_support() == plain.get_support()).all()
    assert (beside.get_support() == plain.get_support()).all()


@pytest.mark.parametrize("bounds", [None, (0.0, 1.0)])
def test_no_warning_is_about_somebodys_entries(bounds):
    """scikit-learn adds all entries up to see whether they are finite; NumPy warned of inf - inf."""
    X, y = _table(np.random.default_rng(2), 300)
    X[:2, :2] = [[1.7e308, 1.7e308], [-1.7e308, -1.7e308]]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for shift in range(0, 300, 30):  # wherever they stand
            table = np.roll(X, shift, axis=0)
            PrivateFeatureSelector(2, 9.0, bounds=bounds, classes=[0, 1], random_state=0).fit(table, y)


def test_a_fit_that_fails_leaves_no_old_choice_on_new_columns():
    X = _visits(np.random.default_rng(0))
    chosen = PrivateItemSelector(k=2, epsilon=4.0, random_state=0).fit(X)
    with pytest.raises(ValueError, match="exceeds the 1 columns"):
        chosen.fit(X[:, :1])
    with pytest.raises(NotFittedError):
        chosen.get_support()
    table, y = _table(np.random.default_rng(0), 60)
    selector = PrivateFeatureSelector(2, 8.0, bounds=(0, 1), classes=[0, 1], random_state=0).fit(table, y)
    with pytest.raises(ValueError, match="not among classes"):
        selector.fit(table, y + 5)
    with pytest.raises(NotFittedError):
        _ = selector.privacy_


def test_objectives_of_ones_own_are_held_to_the_columns():
    X = _visits(np.random.default_rng(0))
    with pytest.raises(TypeError, match="objective must return a Population, got a ndarray"):
        PrivateItemSelector(2, 1.0, objective=lambda matrix: matrix).fit(X)
    with pytest.raises(ValueError, match="3 items for 6 columns"):
        PrivateItemSelector(2, 1.0, objective=lambda m: dc.objectives.Coverage(m[:, :3])).fit(X)


def test_worths_have_a_bound_that_is_declared():
    X = 3.0 * _visits(np.random.default_rng(0))
    with pytest.raises(ValueError, match="declare a public bound"):
        PrivateItemSelector(2, 1.0, objective="facility_location").fit(X)
    declared = PrivateItemSelector(2, 8.0, objective="facility_location", bound=3.0, random_state=0).fit(X)
    assert set(declared.get_support(indices=True)) == {0, 1}
    assert clone(declared).get_params()["bound"] == 3.0
    with pytest.raises(ValueError, match="coverage has the bound 1"):
        PrivateItemSelector(2, 1.0, bound=3.0).fit(X)


def test_too_many_bins_are_refused_by_public_sizes():
    rng = np.random.default_rng(0)
    X = np.zeros((20, 12))  # one bin in fact: what is allowed must not depend on it
    with pytest.raises(ValueError, match="k=11 features in bins=4"):
        PrivateFeatureSelector(11, 1.0, objective="mutual_information", bounds=(0, 1), classes=[0, 1]).fit(
            X, rng.integers(0, 2, 20)
        )


def test_all_features_are_a_public_outcome():
    X, y = _table(np.random.default_rng(2), 100)
    for objective in ("mutual_information", "covariance"):
        chosen = PrivateFeatureSelector(4, 1.0, objective=objective, bounds=(0, 1), classes=[0, 1]).fit(X, y)
        assert chosen.selection_.items == (0, 1, 2, 3)
        assert chosen.privacy_.epsilon() == 0.0


@pytest.mark.parametrize(
    "selector",
    [
        PrivateItemSelector(k=1, epsilon=1.0, random_state=0),
        PrivateFeatureSelector(
            1, 1.0, bounds=(-5, 5), classes=range(4), objective="covariance", random_state=0
        ),
    ],
    ids=["items", "features"],
)
@pytest.mark.filterwarnings("ignore")
def test_scikit_learns_own_checks_pass(selector):
    results = check_estimator(selector, on_fail=None)
    assert sum(result["status"] == "passed" for result in results) > 30
    assert [r["check_name"] for r in results if r["status"] not in ("passed", "skipped")] == []


# --- several fits, one account -----------------------------------------------------------------------


def _settings(**more):
    return {"bounds": (0, 1), "classes": [0, 1], "objective": "covariance", "random_state": 0} | more


@pytest.mark.parametrize("objective", ["covariance", "mutual_information"])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_fitting_an_object_again_adds_up_and_says_so(objective, delta):
    X, y = _table(np.random.default_rng(2), 300)
    selector = PrivateFeatureSelector(2, 1.5, delta, **_settings(objective=objective)).fit(X, y)
    once = selector.privacy_.epsilon()
    assert 0.0 < once <= 1.5
    beside = " and delta 2e-06" if delta else ""
    with pytest.warns(RepeatedFitWarning, match=f"fitted again.* 2 so far come to epsilon 3{beside} for"):
        selector.fit(X, y)
    with pytest.warns(RepeatedFitWarning, match="3 so far come to epsilon 4.5"):
        selector.fit(X, y)
    assert selector.privacy_.epsilon() == pytest.approx(3 * once)
    assert selector.privacy_.epsilon() >= 3 * once
    assert selector.privacy_.budget == dc.Budget(4.5, 3 * delta)
    assert (
        selector.privacy_.definition == "pure"
    )  # fits may have been decided on by looking at the ones before
    assert selector.privacy_.reproducible
    assert selector.selection_.privacy.epsilon() == once


def test_rows_of_one_person_and_fits_without_privacy_add_up():
    X = _visits(np.random.default_rng(0))
    several = PrivateItemSelector(2, 2.0, max_rows_per_person=3, random_state=0).fit(X)
    with pytest.warns(RepeatedFitWarning):
        assert several.fit(X).privacy_.epsilon() == pytest.approx(4.0)
    for objective in ("mutual_information", "covariance"):
        table, y = _table(np.random.default_rng(2), 300)
        selector = PrivateFeatureSelector(2, math.inf, **_settings(objective=objective)).fit(table, y)
        assert selector.privacy_.epsilon() == math.inf
        selector.set_params(epsilon=1.0)
        with pytest.warns(RepeatedFitWarning, match="epsilon inf"):
            assert selector.fit(table, y).privacy_.epsilon() == math.inf


def test_a_refusal_costs_nothing_and_an_interruption_counts(monkeypatch):
    X = _visits(np.random.default_rng(0))
    chosen = PrivateItemSelector(2, 1.0, random_state=0)
    with pytest.raises(ValueError, match="exceeds"):
        chosen.set_params(k=7).fit(X)
    chosen.set_params(k=2).fit(X)  # no warning: nothing had left
    assert chosen.privacy_.epsilon() == 1.0
    original = PrivateGreedy._pick_all

    def stopped(*given):
        original(*given)
        raise KeyboardInterrupt

    monkeypatch.setattr(PrivateGreedy, "_pick_all", stopped)
    with pytest.warns(RepeatedFitWarning), pytest.raises(KeyboardInterrupt):
        chosen.fit(X)
    monkeypatch.undo()
    with pytest.warns(RepeatedFitWarning, match="3 so far"):
        assert chosen.fit(X).privacy_.epsilon() == 3.0


@pytest.mark.parametrize("kind", ["items", "features"])
def test_a_choice_is_shown_once_it_is_in_the_account(kind, monkeypatch):
    """An interrupt between the two left a selection whose fit no account had, also none of later fits."""
    X, y = _table(np.random.default_rng(2), 300)
    chosen, data = PrivateFeatureSelector(2, 1.0, **_settings()), (X, y)
    if kind == "items":
        chosen, data = PrivateItemSelector(2, 1.0, random_state=0), (_visits(np.random.default_rng(0)),)

    def stopped(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Fits, "_note", stopped)
    with pytest.raises(KeyboardInterrupt):
        chosen.fit(*data)
    assert not hasattr(chosen, "selection_")


def test_cross_validation_and_grid_search_name_the_total_once():
    X, y = _table(np.random.default_rng(2), 300)
    model = make_pipeline(PrivateFeatureSelector(1, 1.0, **_settings()), LogisticRegression())
    with pytest.warns(RepeatedFitWarning, match="2 so far come to epsilon 2 ") as warned:
        cross_val_score(model, X, y, cv=4)
    assert len(warned) == 1
    search = GridSearchCV(clone(model), {"privatefeatureselector__k": [1, 2]}, cv=2)
    fresh = GridSearchCV(
        make_pipeline(PrivateFeatureSelector(1, 1.0, **_settings()), LogisticRegression()),
        {"privatefeatureselector__epsilon": [1.0, 2.0]},
        cv=2,
    )
    search.fit(X, y)  # of the same family, which has been warned
    with pytest.warns(RepeatedFitWarning) as warned:
        fresh.fit(X, y)
    assert len(warned) == 1
    # All five fits and the refit: two at 1, two at 2, and the best once more.
    best = fresh.best_estimator_[0]
    assert best.privacy_.epsilon() == 6.0 + best.epsilon


def test_a_search_beyond_its_gate_is_refused_before_the_first_fit():
    X, y = _table(np.random.default_rng(2), 300)
    gate = dc.Gate(dc.Budget(5.0), 0)
    model = make_pipeline(
        PrivateFeatureSelector(1, 1.0, **_settings(budget=gate, random_state=None)), LogisticRegression()
    )
    search = GridSearchCV(model, {"privatefeatureselector__k": [1, 2, 3]}, cv=3)
    with pytest.raises(dc.BudgetExceeded) as refused:
        search.fit(X, y)
    assert (
        "The search needs 10 fits at epsilon 1, 10 added up; the gate has spent 0 of 5."
        in (refused.value.__notes__[0])
    )
    assert gate.spent.epsilon() == 0.0
    model[0].set_params(epsilon=None)
    with pytest.raises(ValueError, match="epsilon= is missing: the first fit of a search would spend all"):
        search.fit(X, y)
    model[0].set_params(epsilon=0.5)
    with parallel_config(backend="threading"):
        search.set_params(n_jobs=2).fit(X, y)
    assert gate.spent.epsilon() == pytest.approx(5.0)


def test_fits_in_other_processes_are_refused():
    """A search before its first fit; other jobs where they arrive; threads and clones of a file fit."""
    X, y = _table(np.random.default_rng(2), 300)
    selector = PrivateFeatureSelector(1, 1.0, **_settings())
    model = make_pipeline(selector, LogisticRegression())
    search = GridSearchCV(model, {"privatefeatureselector__k": [1, 2]}, cv=2, n_jobs=2)
    with pytest.raises(ValueError, match="a fit in another process"):
        search.fit(X, y)
    with pytest.raises(ValueError, match=r"fits failed[\s\S]*a fit in another process"):
        cross_val_score(model, X, y, cv=2, n_jobs=2)
    columns = ColumnTransformer([("chosen", selector, [0, 1])])  # it fits clones, which are made there
    bags = BaggingClassifier(model, 2, n_jobs=2)
    with pytest.raises(ValueError, match=r"fits failed[\s\S]*a fit in another process"):
        cross_val_score(make_pipeline(columns, LogisticRegression()), X, y, cv=2, n_jobs=2)
    with pytest.raises(RuntimeError, match="a fit in another process"):
        bags.fit(X, y)
    with parallel_config(backend="threading"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RepeatedFitWarning)
        assert np.isfinite(cross_val_score(model, X, y, cv=2, n_jobs=2)).all()
        assert selector.fit(X, y).privacy_.epsilon() == pytest.approx(3.0)  # all three, in one account
    fresh = PrivateFeatureSelector(1, 1.0, **_settings())
    assert pickle.loads(pickle.dumps(fresh)).fit(X, y).privacy_.epsilon() <= 1.0  # the same process
    with mock.patch.object(estimators.os, "getpid", return_value=0):
        sent = pickle.dumps(fresh)
    elsewhere = pickle.loads(sent)
    with pytest.raises(RuntimeError, match="to fit an estimator that was loaded from a file, clone it"):
        elsewhere.fit(X, y)
    with pytest.raises(RuntimeError, match="a fit in another process"):
        copy.deepcopy(elsewhere).fit(X, y)
    assert clone(elsewhere).fit(X, y).privacy_.epsilon() <= 1.0
    with pytest.warns(RepeatedFitWarning):  # it clones here, outside of any job
        cross_val_score(make_pipeline(elsewhere, LogisticRegression()), X, y, cv=2, error_score="raise")


def test_the_same_number_of_a_process_elsewhere_is_another_process(tmp_path):
    """Containers number their processes alike, and a later run may have the number of an earlier one."""
    path = tmp_path / "estimator"
    path.write_bytes(pickle.dumps(PrivateItemSelector(1, 1.0)))
    load = "import os, pickle, sys; os.getpid = lambda: int(sys.argv[1])"
    fit = "pickle.load(open(sys.argv[2], 'rb')).fit([[1, 0], [0, 1]])"
    command = [sys.executable, "-W", "ignore", "-c", f"{load}; {fit}", str(os.getpid()), str(path)]
    told = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "a fit in another process (n_jobs) would be in no account" in told.stderr


def test_epsilon_has_no_silent_default():
    X, y = _table(np.random.default_rng(2), 300)
    with pytest.raises(ValueError, match="epsilon= is missing: say what a fit may spend"):
        PrivateItemSelector(1).fit(X)
    with pytest.raises(ValueError, match="epsilon= is missing"):
        PrivateFeatureSelector(1, bounds=(0, 1), classes=[0, 1]).fit(X, y)


@pytest.mark.parametrize("selector", ["items", "features"])
def test_a_shared_gate_refuses_what_is_beyond_one_budget(selector):
    X, y = _table(np.random.default_rng(2), 300)
    gate = dc.Gate(dc.Budget(2.5), 0)
    if selector == "items":
        selector = PrivateItemSelector(1, 1.0, budget=gate)
    else:
        selector = PrivateFeatureSelector(1, 1.0, **_settings(budget=gate, random_state=None))
    other = clone(selector)
    assert other.budget is gate
    assert selector.fit(X, y).privacy_.epsilon() == pytest.approx(1.0)
    assert selector.selection_.privacy.definition == gate.definition == "pure"
    assert other.fit(X, y).privacy_.epsilon() == selector.privacy_.epsilon() == pytest.approx(2.0)
    for one in (selector, other, clone(other)):
        with pytest.raises(dc.BudgetExceeded):
            one.fit(X, y)
    assert gate.spent.epsilon() == pytest.approx(2.0)
    other.set_params(epsilon=0.5).fit(X, y)
    assert gate.spent.epsilon() == pytest.approx(2.5)


def test_a_gate_is_neither_copied_nor_swapped():
    X = _visits(np.random.default_rng(0))
    gate = dc.Gate(dc.Budget(2.0), 0)
    chosen = PrivateItemSelector(2, 1.0, budget=gate).fit(X)
    for copied in (pickle.dumps, copy.deepcopy):
        with pytest.raises(TypeError, match="spent twice"):
            copied(chosen)
    with pytest.raises(ValueError, match="budget was changed after a fit"):
        chosen.set_params(budget=None).fit(X)
    own = PrivateItemSelector(2, 1.0, random_state=0).fit(X)
    with pytest.raises(ValueError, match="budget was changed after a fit"):
        own.set_params(budget=gate, random_state=None).fit(X)
    with pytest.raises(ValueError, match="the two guarantees do not add up; fit a clone"):
        own.set_params(budget=None, neighbours="add_remove").fit(X)
    with pytest.raises(ValueError, match=r"neighbours='add_remove'.*the budget has.*'replace'"):
        PrivateItemSelector(2, 1.0, budget=gate, neighbours="add_remove").fit(X)
    with pytest.raises(ValueError, match="random_state=0 goes with"):
        PrivateItemSelector(2, 1.0, budget=gate, random_state=0).fit(X)
    with pytest.raises(TypeError, match="budget must be a Budget, a share of one, a Gate"):
        PrivateItemSelector(2, budget=1.0).fit(X)
    assert gate.spent.epsilon() == 1.0


# --- what one row can move ------------------------------------------------------------------------


def _neighbours(rows, people, relation):
    """All multisets of rows up to a size, each with every neighbour."""
    sizes = range(1, people + 1) if relation == "add_remove" else (people,)
    for size in sizes:
        for table in itertools.combinations_with_replacement(rows, size):
            if relation == "add_remove":
                for more in rows:
                    yield table, (*table, more)
            else:
                for other in rows:
                    yield table, (*table[1:], other)


def _score(table, n_classes, score=covariances):
    return score(np.array([[r[0]] for r in table], dtype=float), np.array([r[1] for r in table]), n_classes)


def _every_cut(table, kinds, n_classes):
    """A fault: all cuts of a feature added up, not the best of them."""
    return sum(covariances((table > cut).astype(float), kinds, n_classes) for cut in (-1.0, 0.0, 0.3))


@pytest.mark.parametrize("score", [covariances, thresholds, _every_cut])
@pytest.mark.parametrize(
    ("n_classes", "relation"), list(itertools.product((2, 3), ("replace", "add_remove")))
)
def test_no_row_moves_a_score_by_more_than_half_the_range(n_classes, relation, score):
    rows = list(itertools.product((0.0, 0.3, 1.0), range(n_classes)))
    moved = [
        abs(_score(a, n_classes, score)[0] - _score(b, n_classes, score)[0])
        for a, b in _neighbours(rows, 4 if n_classes == 2 else 3, relation)
    ]
    allowed = covariance_range() / 2
    assert (max(moved) <= allowed) == (score is not _every_cut)
    assert max(moved) > 0.6 * allowed  # the claim is not idle


def _flipped(scores, rate):
    return samplers.flip_probabilities(scores, rate)


def _weights(scores, rate):
    return np.exp(samplers.choice_log_probabilities(scores, rate))


@pytest.mark.parametrize("probabilities", [_weights, _flipped])
@pytest.mark.parametrize("inflated", [1.0, 4.0])
@pytest.mark.parametrize("score", [covariances, thresholds])
def test_the_choice_by_scores_is_as_private_as_it_says(score, inflated, probabilities):
    """All pairs of small tables with two features, one pick: the exact probabilities against epsilon."""
    epsilon = 1.0
    rate = inflated * epsilon / covariance_range()
    rows = list(itertools.product((0.0, 1.0), (0.0, 1.0), (0, 1)))
    worst = 0.0
    for table in itertools.combinations_with_replacement(rows, 3):
        for other in rows:
            pair = []
            for people in (table, (*table[1:], other)):
                x = np.array([r[:2] for r in people])
                scores = score(x, np.array([r[2] for r in people]), 2)
                chances = probabilities(scores, rate)
                pair.append({(item,): float(chance) for item, chance in enumerate(chances)})
            worst = max(worst, hockey_stick(pair[0], pair[1], epsilon))
    assert (worst > 1e-3) == (inflated > 1.0)


def _drawn_all_ways(table, budget, factor, k=2):
    """The exact distribution of what a fit chooses, every draw made in every way; ``factor`` is a fault."""
    X, y = np.array([row[:-1] for row in table], dtype=float), np.array([row[-1] for row in table])
    kinds = set()

    def play():
        fitted = PrivateFeatureSelector(k, budget=budget, bounds=(0, 1), classes=[0, 1]).fit(X, y)
        kinds.update(type(event).__name__ for event in fitted.privacy_.ledger.events())
        return fitted.selection_.items

    def louder(scores, rate, flip=samplers.flip_probabilities):
        return flip(scores, factor * rate)

    with mock.patch.object(samplers, "flip_probabilities", louder), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return distribution(play), kinds


@pytest.mark.parametrize("factor", [1.0, 1.5])
def test_two_picks_by_permute_and_flip_are_as_private_as_the_account_says(factor):
    """Enumerated through the real fit, between the neighbours that move scores most."""
    budget = dc.Budget(2.0)
    alone, other, flat = (1, 1, 0, 0, 0, 1), (0, 0, 1, 1, 1, 1), (0, 0, 0, 0, 0, 0)
    tables = ([one] + [flat] * 40 for one in (alone, other))
    (here, kinds), (there, _) = (_drawn_all_ways(table, budget, factor) for table in tables)
    assert kinds == {"PermuteAndFlip"}
    worst = max(abs(math.log(here[items] / there[items])) for items in here)
    assert (worst > 2.0) == (factor > 1.0)
    assert worst > 1.6


@pytest.mark.parametrize(
    ("spend", "kind"),
    [
        (lambda: dc.Budget(1.0), "PermuteAndFlip"),
        (lambda: dc.Budget(1.0, 1e-6), "PermuteAndFlip"),  # pure epsilon allows two picks more than zCDP
        (lambda: dc.Budget(1.0, 0.1), "ExponentialChoice"),
        (lambda: dc.Gate(dc.Budget(1.0), 0), "PermuteAndFlip"),
        (lambda: dc.Gate(dc.Budget(1.0, 1e-6), 0, definition="pure"), "PermuteAndFlip"),
        (lambda: dc.Gate(dc.Budget(1.0, 1e-6), 0, definition="zcdp"), "ExponentialChoice"),
        (lambda: dc.Gate(dc.Budget(1.0, 1e-6), 0).split(2)[0], "ExponentialChoice"),
        (lambda: dc.Budget(1.0).split(2)[0], "PermuteAndFlip"),
    ],
)
def test_flips_are_for_what_is_paid_in_pure_epsilon(spend, kind):
    X, y = _table(np.random.default_rng(2))
    budget = spend()
    own = {"random_state": 0} if isinstance(budget, dc.Budget) else {}
    chosen = PrivateFeatureSelector(2, budget=budget, bounds=(0, 1), classes=[0, 1], **own).fit(X, y)
    account = chosen.privacy_
    assert {type(event).__name__ for event in account.ledger.events()} == {kind}
    assert account.epsilon() <= 1.0
    assert account.epsilon() > (0.4 if "Share" in type(budget).__name__ else 0.9)
    if kind == "PermuteAndFlip":
        assert "permute-and-flip" in str(account)


def test_names_of_columns_are_kept():
    X = pd.DataFrame(_visits(np.random.default_rng(0)), columns=list("abcdef"))
    chosen = PrivateItemSelector(k=2, epsilon=4.0, random_state=0).fit(X)
    assert set(chosen.selection_.labels) == {"a", "b"}
    assert chosen.get_feature_names_out().tolist() == ["a", "b"]


def test_without_privacy_the_best_are_taken():
    X, y = _table(np.random.default_rng(3))
    options = {"bounds": (0, 1), "classes": [0, 1], "random_state": 0}
    for objective in ("mutual_information", "covariance"):
        chosen = PrivateFeatureSelector(2, math.inf, objective=objective, **options).fit(X, y)
        assert chosen.selection_.items[0] == 2


def test_works_in_a_pipeline():
    data = load_breast_cancer()
    low, high = np.zeros(30), data.data.max(axis=0)
    model = make_pipeline(
        PrivateFeatureSelector(
            5, 1.0, objective="covariance", bounds=(low, high), classes=[0, 1], random_state=0
        ),
        StandardScaler(),
        LogisticRegression(),
    )
    model.fit(data.data, data.target)
    assert model.score(data.data, data.target) > 0.85
    assert len(model[0].get_feature_names_out()) == 5


def test_grid_search_through_one_gate_stays_within_it():
    X, y = _table(np.random.default_rng(2), 300)
    gate = dc.Gate(dc.Budget(4.0), 0)
    model = make_pipeline(
        PrivateFeatureSelector(1, 1.0, **_settings(budget=gate, random_state=None)), LogisticRegression()
    )
    search = GridSearchCV(
        model, {"privatefeatureselector__k": [1, 2]}, cv=2, error_score="raise", refit=False
    )
    search.fit(X, y)
    assert gate.spent.epsilon() == pytest.approx(4.0)
    with pytest.raises(dc.BudgetExceeded):
        search.fit(X, y)
    assert gate.spent.epsilon() <= 4.0


def test_the_two_class_range_is_nearly_reached():
    """Fifty of each class, apart in x: one of them changes places and the score falls by almost 1."""
    table = [(0.0, 0)] * 50 + [(1.0, 1)] * 50
    other = [(1.0, 0), *table[1:]]
    assert _score(table, 2)[0] - _score(other, 2)[0] == pytest.approx(0.5, abs=0.01)
    steep = [(0.0, 0)] * 99 + [(1.0, 1)]
    flat = [(0.0, 0)] * 100
    assert _score(steep, 2)[0] - _score(flat, 2)[0] > 0.98


def test_fits_of_their_own_epsilon_at_a_concentrated_gate_take_exponential_choices():
    """There a flipped choice would be charged four times as much."""
    X, y = _table(np.random.default_rng(2))
    gate = dc.Gate(dc.Budget(5.0, 1e-6), 0)
    for _ in range(3):
        PrivateFeatureSelector(3, 1.0, bounds=(0, 1), classes=[0, 1], budget=gate).fit(X, y)
    assert {type(event).__name__ for event in gate.spent.ledger.events()} == {"ExponentialChoice"}
    assert gate.definition == "zcdp"


def test_bounds_are_tried_on_public_data():
    X, _ = _table(np.random.default_rng(2), 300)
    selector = PrivateFeatureSelector(1, 1.0, bounds=([0.0, 0.0, 0.0, 0.5], 1.0), classes=[0, 1])
    with pytest.warns(UserWarning, match=r"bounds cut 100 % of the entries of feature 3"):
        assert selector.clipped(np.clip(X, 0, 0.4)).tolist() == [0.0, 0.0, 0.0, 1.0]
    assert selector.clipped(np.clip(X, 0.5, 1.0)).tolist() == [0.0] * 4
    few = np.repeat([0.25, 0.75], [3, 17])[:, None] * np.ones(4)
    with pytest.warns(UserWarning, match=r"bounds cut 15 % of"):  # of a tenth nothing would be said
        assert selector.clipped(few).tolist() == [0.0, 0.0, 0.0, 0.15]
    assert selector.clipped(few[2:12])[3] == 0.1


def test_a_log_scale_sees_what_long_tails_hide():
    """Amounts whose logarithms tell of the class, at bounds that were a guess."""
    rng = np.random.default_rng(8)
    logs = rng.normal(size=(3_000, 20))
    kinds = (logs[:, :4].sum(axis=1) > 0.0).astype(int)
    table, found = np.exp(2.0 * logs), {}
    for name in ("linear", "log", "threshold"):
        options = {"classes": [0, 1]}
        if name != "threshold":
            options |= {"objective": "covariance", "bounds": (0, 2_000), "scale": name}
        chosen = [
            PrivateFeatureSelector(4, 1.0, **options, random_state=seed)
            .fit(table, kinds)
            .get_support(indices=True)
            for seed in range(10)
        ]
        found[name] = sum(int((one < 4).sum()) for one in chosen)
    assert found["log"] >= 38
    assert found["linear"] <= 30
    assert found["threshold"] >= 38
    with pytest.raises(ValueError, match="scale='square' is not one of"):
        PrivateFeatureSelector(1, 1.0, bounds=(0, 1), classes=[0, 1], scale="square").fit(table, kinds)


def test_scaled_entries_depend_on_themselves_alone_and_keep_their_order():
    """So one person moves covariances by as much as at the linear scale: entries stay within [0, 1]."""
    table = np.array([[-5.0, 0.0], [0.0, 1e-9], [3.0, 7.0], [10.0, 1e300]])
    for scale in estimators.SCALES:
        whole = estimators.scaled_to((0, 10), table, scale)
        assert whole.min() == 0.0
        assert whole.max() == 1.0
        assert (np.diff(whole, axis=0) >= 0.0).all()
        alone = np.vstack([estimators.scaled_to((0, 10), row[None], scale) for row in table])
        np.testing.assert_array_equal(whole, alone)
