"""Private feature selection: accuracy of a logistic regression on the chosen features.

    python -m benchmarks.feature_selection [FOLDER]

Breast-cancer comes with scikit-learn; FOLDER may hold heart_disease. Both selectors choose k features from a
random 70 % of the people, at several epsilons and without privacy; a plain logistic regression is fitted to
these, on those features only, and scored on the other people. The regression itself is not private: the
figure is about which features were chosen. Ranges of the features are the documented ones of each data set,
rounded outwards.
"""

from __future__ import annotations

import math
import warnings
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.shared import arguments, pyplot, save, table_rows
from discreet.offline import PrivateFeatureSelector
from tools.results import store

EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0, math.inf)
SPLITS = 40
HEART = {
    "age": (0, 100), "sex": (0, 1), "cp": (1, 4), "trestbps": (80, 220), "chol": (100, 600), "fbs": (0, 1),
    "restecg": (0, 2), "thalach": (60, 220), "exang": (0, 1), "oldpeak": (0, 7), "slope": (1, 3),
    "ca": (0, 3), "thal": (3, 7),
}  # fmt: skip


def _rounded_outwards(values: np.ndarray) -> np.ndarray:
    """The documented maxima, up to the next 1, 2 or 5 times a power of ten."""
    tens = 10.0 ** np.floor(np.log10(values))
    return np.array(
        [next(m for m in (1, 2, 5, 10) if m * t >= v) * t for v, t in zip(values, tens, strict=True)]
    )


def breast_cancer():
    data = load_breast_cancer()
    return data.data, data.target, (np.zeros(30), _rounded_outwards(data.data.max(axis=0)))


def heart_disease(folder: Path):
    rows = [row for row in table_rows(folder, "heart_disease/cleveland") if all(row[name] for name in HEART)]
    table = np.array([[float(row[name]) for name in HEART] for row in rows])
    kinds = np.array([int(int(float(row["num"])) > 0) for row in rows])
    low, high = np.array(list(HEART.values()), dtype=float).T
    return table, kinds, (low, high)


def accuracies(table, kinds, bounds, k: int) -> dict[str, dict[str, list[float]]]:
    """By objective, by epsilon: mean accuracy on other people, and its standard error."""
    found: dict[str, dict[str, list[float]]] = {}
    for objective in ("mutual_information", "covariance", "at random"):
        for epsilon in EPSILONS if objective != "at random" else (0.0,):
            scores = []
            for seed in range(SPLITS):
                halves = train_test_split(table, kinds, test_size=0.3, random_state=seed, stratify=kinds)
                train, test, known, asked = halves
                if objective == "at random":
                    support = np.random.default_rng(seed).choice(table.shape[1], k, replace=False)
                else:
                    with warnings.catch_warnings():  # that a budget is too small is what the plot shows
                        warnings.simplefilter("ignore")
                        chosen = PrivateFeatureSelector(
                            k,
                            epsilon,
                            objective=objective,
                            bounds=bounds,
                            classes=[0, 1],
                            bins=4,
                            random_state=seed,
                        ).fit(train, known)
                    support = chosen.get_support(indices=True)
                model = make_pipeline(StandardScaler(), LogisticRegression())
                scores.append(model.fit(train[:, support], known).score(test[:, support], asked))
            key = f"{epsilon:g}"
            found.setdefault(objective, {})[key] = [
                float(np.mean(scores)),
                float(np.std(scores) / math.sqrt(SPLITS)),
            ]
    return found


def plot(results) -> None:
    if (plt := pyplot()) is None:
        return
    figure, axes = plt.subplots(1, len(results), figsize=(5 * len(results), 3.6), squeeze=False)
    styles = {"mutual_information": ("#1b5e9e", "o", "-"), "covariance": ("#c8541a", "s", "--")}
    for ax, (name, found) in zip(axes[0], results.items(), strict=True):
        for objective, (colour, marker, line) in styles.items():
            finite = [e for e in EPSILONS if math.isfinite(e)]
            means = np.array([found["accuracy"][objective][f"{e:g}"] for e in finite])
            label = f"private, by {objective.replace('_', ' ')}"
            ax.errorbar(finite, means[:, 0], means[:, 1], color=colour, marker=marker, ls=line, label=label)
            ax.axhline(found["accuracy"][objective]["inf"][0], color=colour, ls=":", lw=1)
        ax.axhline(found["accuracy"]["at random"]["0"][0], color="0.5", lw=1, label="random features")
        ax.set(xscale="log", xlabel="epsilon (pure)", ylabel="accuracy on other people")
        ax.set_title(f"{name}: {found['k']} of {found['features']} features, {found['people']} people")
        ax.legend(fontsize=7)
    figure.text(0.01, 0.01, "dotted: the same choice without privacy; bars: one standard error", fontsize=7)
    figure.tight_layout(rect=(0, 0.03, 1, 1))
    save(figure, "feature_selection.png")


def main() -> None:
    folder = arguments(__doc__, "optional").parse_args().folder
    data = {"breast cancer": breast_cancer()}
    if folder is not None:
        data["heart disease"] = heart_disease(folder)
    results = {}
    for name, (table, kinds, bounds) in data.items():
        found = accuracies(table, kinds, bounds, 5)
        results[name] = {
            "people": round(0.7 * table.shape[0]),
            "features": table.shape[1],
            "k": 5,
            "splits": SPLITS,
            "accuracy": found,
        }
        print(f"{name}: 5 of {table.shape[1]} features, chosen from {round(0.7 * table.shape[0])} people")
        for objective, by in found.items():
            print(f"  {objective:20s}", "  ".join(f"{e}: {mean:.3f}" for e, (mean, _) in by.items()))
    store("feature_selection", results)
    plot(results)


if __name__ == "__main__":
    main()
