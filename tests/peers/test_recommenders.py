"""What personal sets are measured beside: item-kNN as in implicit, EASE as in ridge regressions."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from discreet.evaluation.personal import ease, item_neighbours, popularity
from discreet.objectives import Coverage

pytestmark = pytest.mark.filterwarnings("ignore::Warning:implicit")  # theirs, about matrices of their own
seeds = pytest.mark.parametrize("seed", range(3))


def _people(seed: int) -> np.ndarray:
    """Some items are had by many and some by few; every item by somebody."""
    rng = np.random.default_rng(seed)
    rows = rng.random((300, 25)) < rng.uniform(0.05, 0.5, size=25)
    rows[np.arange(25), np.arange(25)] = True
    return rows.astype(float)


def _histories(seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed + 100)
    return [rng.choice(25, size, replace=False) for size in (1, 2, 5, 12)]


def _indicators(histories: list[np.ndarray]) -> np.ndarray:
    found = np.zeros((len(histories), 25))
    for row, items in zip(found, histories, strict=True):
        row[items] = 1.0
    return found


@seeds
def test_item_neighbours_as_in_implicit(seed):
    """With all neighbours; it counts an item as its own, which adds 1 to the scores of a history's items."""
    nearest = pytest.importorskip("implicit.nearest_neighbours")
    rows, histories = _people(seed), _histories(seed)
    model = nearest.CosineRecommender(K=25, num_threads=1)
    model.fit(csr_matrix(rows), show_progress=False)
    own = _indicators(histories)
    items, scores = model.recommend(
        np.arange(len(histories)), csr_matrix(own), N=25, filter_already_liked_items=False
    )
    ours = item_neighbours(Coverage(rows), shrink=0.0)(histories) + own
    for row, which, found in zip(ours, items, scores, strict=True):
        assert row[which] == pytest.approx(found, rel=1e-5)
        assert sorted(which.tolist()) == list(range(25))


@seeds
def test_popularity_and_neighbours_that_shrink_one_pair_at_a_time(seed):
    """By the definition of adjusted cosines with a shrinkage term, over sets of people."""
    rows, histories = _people(seed), _histories(seed)
    who = [set(np.flatnonzero(column).tolist()) for column in rows.T]
    found = item_neighbours(Coverage(rows))(histories)
    assert popularity(Coverage(rows))(histories).tolist() == [[len(one) for one in who]] * len(histories)
    for row, history in zip(found, histories, strict=True):
        for item, score in enumerate(row):
            near = [
                len(who[item] & who[other]) / (len(who[item]) ** 0.5 * len(who[other]) ** 0.5 + 20.0)
                for other in history
                if other != item
            ]
            assert score == pytest.approx(sum(near))


@seeds
@pytest.mark.parametrize("ridge", [200.0, 3.0])
def test_ease_as_ridge_regressions_of_scikit_learn(seed, ridge):
    """Every item on all others, one at a time: what the closed form of the paper solves at once."""
    linear_model = pytest.importorskip("sklearn.linear_model")
    rows, histories = _people(seed), _histories(seed)
    weights = np.zeros((25, 25))
    for item in range(25):
        others = np.delete(np.arange(25), item)
        model = linear_model.Ridge(alpha=ridge, fit_intercept=False, solver="cholesky")
        weights[others, item] = model.fit(rows[:, others], rows[:, item]).coef_
    ours = ease(Coverage(rows), ridge)(histories)
    assert ours == pytest.approx(_indicators(histories) @ weights, rel=1e-8, abs=1e-10)
    if ridge == 200.0:
        assert (
            ease(Coverage(rows))(histories) == ours
        ).all()  # the paper's order of magnitude is the default
