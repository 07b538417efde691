"""Private feature selection: accuracy of a logistic regression on the chosen features.

    python -m benchmarks.feature_selection [FOLDER]

Breast cancer, wine and digits come with scikit-learn; FOLDER may hold heart_disease and adult, of which the
columns of numbers are taken. k features are chosen from a random 70 % of the people, at several epsilons and
without privacy; a plain logistic regression is fitted to these, on those features only, and scored on the
other people. The regression itself is not private: the figure is about which features were chosen.

Bounds, where an objective needs them, are the documented ones of each data set, rounded outwards: a user can
hardly do better. "bounds tenfold" is a user who does not know them: high is ten times as far from low.
"before" is covariance, which was the only score of its kind until thresholds were there.
"""

from __future__ import annotations

import math
import warnings
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.shared import adult, arguments, pyplot, save, table_rows
from discreet.offline import PrivateFeatureSelector
from tools.results import store

EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0, math.inf)
SPLITS, FEWER = 40, 5  # random splits; of more than MANY people fewer
MANY = 10_000
RANDOM = "at random"
OBJECTIVES = {
    "threshold": {"objective": "threshold"},
    "covariance (before)": {"objective": "covariance"},
    "covariance, bounds tenfold": {"objective": "covariance", "wider": 10.0},
    'covariance, scale="log"': {"objective": "covariance", "scale": "log"},
    'covariance, scale="log", bounds tenfold': {"objective": "covariance", "scale": "log", "wider": 10.0},
    "mutual information": {"objective": "mutual_information"},
    RANDOM: {},
}
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


def heart_disease(folder: Path):
    rows = [row for row in table_rows(folder, "heart_disease/cleveland") if all(row[name] for name in HEART)]
    table = np.array([[float(row[name]) for name in HEART] for row in rows])
    kinds = np.array([int(int(float(row["num"])) > 0) for row in rows])
    low, high = np.array(list(HEART.values()), dtype=float).T
    return table, kinds, (low, high)


def bundled(load, high=None):
    """A data set of scikit-learn, with bounds from 0 to ``high``, or to the documented maxima."""
    data = load()
    top = _rounded_outwards(data.data.max(axis=0)) if high is None else np.full(data.data.shape[1], high)
    return data.data, data.target, (np.zeros(top.size), top)


def census(folder: Path):
    people, rich = adult(folder)
    table = people.select_dtypes("number").to_numpy(dtype=float)
    return table, rich.astype(int), (np.zeros(table.shape[1]), _rounded_outwards(table.max(axis=0)))


def chosen(options, data, bounds, k: int, epsilon: float, seed: int) -> np.ndarray:
    """The features that are chosen from these people."""
    table, kinds = data
    if not options:
        return np.random.default_rng(seed).choice(table.shape[1], k, replace=False)
    more = dict(options)
    low, high = bounds
    high = low + more.pop("wider", 1.0) * (high - low)
    classes = range(int(kinds.max()) + 1)
    with warnings.catch_warnings():  # that a budget is too small is what the plot shows
        warnings.simplefilter("ignore")
        selector = PrivateFeatureSelector(
            k, epsilon, bounds=(low, high), classes=classes, bins=4, random_state=seed, **more
        ).fit(table, kinds)
    return selector.get_support(indices=True)


def accuracies(table, kinds, bounds, k: int, splits: int) -> dict[str, dict[str, list[float]]]:
    """By objective, by epsilon: mean accuracy on other people, and its standard error."""
    scores: dict[str, dict[str, list[float]]] = {}
    for seed in range(splits):
        train, test, known, asked = train_test_split(
            table, kinds, test_size=0.3, random_state=seed, stratify=kinds
        )
        right: dict[tuple[int, ...], float] = {}  # many settings choose the same
        for name, options in OBJECTIVES.items():
            if name == "mutual information" and (kinds.max() > 1 or splits < SPLITS):
                continue  # too large a table, or too slow
            for epsilon in EPSILONS if options else (0.0,):
                support = tuple(sorted(chosen(options, (train, known), bounds, k, epsilon, seed)))
                if support not in right:
                    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
                    right[support] = model.fit(train[:, support], known).score(test[:, support], asked)
                scores.setdefault(name, {}).setdefault(f"{epsilon:g}", []).append(right[support])
    return {
        name: {
            epsilon: [float(np.mean(found)), float(np.std(found) / math.sqrt(splits))]
            for epsilon, found in by.items()
        }
        for name, by in scores.items()
    }


def plot(results) -> None:
    if (plt := pyplot()) is None:
        return
    columns = -(-len(results) // 2)
    figure, axes = plt.subplots(2, columns, figsize=(5 * columns, 7.2), squeeze=False)
    styles = {
        "threshold": ("#1b5e9e", "o", "-"),
        "covariance (before)": ("#c8541a", "s", "--"),
        "covariance, bounds tenfold": ("#7a5195", "^", "-."),
    }
    for ax in axes.flat[len(results) :]:
        ax.set_axis_off()
    for ax, (name, found) in zip(axes.flat, results.items(), strict=False):
        for objective, (colour, marker, line) in styles.items():
            finite = [e for e in EPSILONS if math.isfinite(e)]
            means = np.array([found["accuracy"][objective][f"{e:g}"] for e in finite])
            label = f"private, by {objective}"
            ax.errorbar(finite, means[:, 0], means[:, 1], color=colour, marker=marker, ls=line, label=label)
            ax.axhline(found["accuracy"][objective]["inf"][0], color=colour, ls=":", lw=1)
        ax.axhline(found["accuracy"][RANDOM]["0"][0], color="0.5", lw=1, label="random features")
        ax.set(xscale="log", xlabel="epsilon (pure)", ylabel="accuracy on other people")
        ax.set_title(f"{name}: {found['k']} of {found['features']} features, {found['people']} people")
        ax.legend(fontsize=7)
    figure.text(0.01, 0.01, "dotted: the same choice without privacy; bars: one standard error", fontsize=7)
    figure.tight_layout(rect=(0, 0.03, 1, 1))
    save(figure, "feature_selection.png")


def main() -> None:
    folder = arguments(__doc__, "optional").parse_args().folder
    data = {
        "breast cancer": (*bundled(load_breast_cancer), 5),
        "wine": (*bundled(load_wine), 4),
        "digits": (*bundled(load_digits, 16.0), 10),
    }
    if folder is not None:
        data |= {"heart disease": (*heart_disease(folder), 5), "adult": (*census(folder), 2)}
    results = {}
    for name, (table, kinds, bounds, k) in data.items():
        splits = SPLITS if table.shape[0] <= MANY else FEWER
        found = accuracies(table, kinds, bounds, k, splits)
        people = round(0.7 * table.shape[0])
        results[name] = {
            "people": people,
            "features": table.shape[1],
            "k": k,
            "splits": splits,
            "accuracy": found,
        }
        print(f"{name}: {k} of {table.shape[1]} features, chosen from {people} people")
        for objective, by in found.items():
            print(f"  {objective:40s}", "  ".join(f"{e}: {mean:.3f}" for e, (mean, _) in by.items()))
    store("feature_selection", results)
    plot(results)


if __name__ == "__main__":
    main()
