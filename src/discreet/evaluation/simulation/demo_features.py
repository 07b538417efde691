"""The second job of the demonstration: features, chosen privately, for a model that is not private."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...core.extras import install
from ...privacy import Account, Budget, Coins
from .progress import working_on

FEATURES, SPLITS = 5, 20


@dataclass(frozen=True)
class Features:
    """The chosen features, their covariance with the class, and the accuracy of a model with them.

    ``covariance`` is that of the chosen features with the class, as a part of that of the best five.
    """

    covariance: dict[str, float]
    accuracy: dict[str, float]
    chosen: dict[str, tuple[str, ...]]
    privacy: Account


def features_or_reason(budget: Budget, seed: int | None) -> Features | str:
    try:
        import sklearn  # noqa: F401
    except ImportError:
        return f"this part needs scikit-learn: {install('sklearn')}"
    return run_features(budget, seed)


def run_features(budget: Budget, seed: int | None) -> Features:
    """Choose features on 70 % of the people, fit a plain model to those, ask it about the others.

    The ranges of the features are those of the documentation, rounded outwards; the model is not private, the
    choice is. Choosing anew for each split is a study of public data: in earnest it is done once.
    """
    from sklearn.datasets import load_breast_cancer
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import train_test_split
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from ...offline import PrivateFeatureSelector
    from ...offline.covariance import covariances

    data = load_breast_cancer()
    bounds = (np.zeros(data.data.shape[1]), _rounded_outwards(data.data.max(axis=0)))
    methods: dict[str, tuple[str, float] | None] = {"at random": None}
    for times in (1, 3, 10):
        methods[f"by covariance, epsilon {times * budget.epsilon:g}"] = ("covariance", times * budget.epsilon)
    methods[f"by information, epsilon {10 * budget.epsilon:g}"] = ("mutual_information", 10 * budget.epsilon)
    methods["by covariance, not private"] = ("covariance", math.inf)
    scores: dict[str, list[float]] = {name: [] for name in methods}
    covariance: dict[str, list[float]] = {name: [] for name in methods}
    chosen: dict[str, tuple[str, ...]] = {}
    privacy: Account | None = None
    for split in range(SPLITS):
        working_on(f"features: {split} of {SPLITS} splits")
        train, test, known, asked = train_test_split(
            data.data, data.target, test_size=0.3, random_state=split, stratify=data.target
        )
        worth = covariances(np.clip(train / bounds[1], 0.0, 1.0), known, 2)
        best = np.sort(worth)[-FEATURES:].sum()
        for name, method in methods.items():
            if method is None:
                support = Coins.seeded(split).generator.permutation(train.shape[1])[:FEATURES]
            else:
                objective, epsilon = method
                coins = None if seed is None else seed + split
                selector = PrivateFeatureSelector(
                    FEATURES, epsilon, 0.0, objective, bounds=bounds, classes=[0, 1], random_state=coins
                )
                with warnings.catch_warnings():  # that a budget is too small is what the table shows
                    warnings.simplefilter("ignore")
                    support = np.array(selector.fit(train, known).selection_.items)
                if privacy is None:
                    privacy = selector.privacy_
            covariance[name].append(float(worth[support].sum() / best))
            model = make_pipeline(StandardScaler(), LogisticRegression())
            scores[name].append(float(model.fit(train[:, support], known).score(test[:, support], asked)))
            chosen.setdefault(name, tuple(str(data.feature_names[i]) for i in support))
    working_on("")
    assert privacy is not None
    return Features(_averages(covariance), _averages(scores), chosen, privacy)


def _averages(found: Mapping[str, list[float]]) -> dict[str, float]:
    return {name: float(np.mean(values)) for name, values in found.items()}


def _rounded_outwards(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The documented maxima, up to the next 1, 2 or 5 times a power of ten."""
    tens = 10.0 ** np.floor(np.log10(values))
    steps = np.array([1.0, 2.0, 5.0, 10.0])
    return np.array([float(ten * steps[steps * ten >= v][0]) for v, ten in zip(values, tens, strict=True)])


def features_table(features: Features) -> tuple[list[str], list[list[str]]]:
    rows = [
        [
            name,
            f"{100.0 * features.covariance[name]:.0f} %",
            f"{accuracy:.3f}",
            ", ".join(features.chosen[name]),
        ]
        for name, accuracy in features.accuracy.items()
    ]
    return ["features", "of the best five", "test accuracy", "chosen in the first split"], rows
