"""Evaluation, without privacy, of how well personal sets serve people who were not in the training data.

Strong generalization: a model is fitted to some people; of each other person, a part of their items is the
history and the rest is held out. The figures are exact facts about the people that they are computed from, in
no account: use them on data that may be looked at. Choosing settings by them is a release.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ..core import checks
from ..core.text import table, track
from ..kernels.pairs import UNIT
from ..objectives import Population
from ..objectives.rows import RowPopulation
from ..offline import PrivateRecommender
from ..personal import Recommender, movement, unit_sums
from ..privacy import Budget, Gate, GaussianNoise, PublicRandomness

Items = NDArray[np.int32]
# From histories to scores of all items: people x items.
Scores = Callable[[Sequence[Items]], NDArray[np.float64]]
_AT_A_TIME = 2048


@dataclass(frozen=True)
class NewPeople:
    """People for training, and new people, with the ``histories`` and the ``held_out`` items of each."""

    training: Population
    histories: tuple[Items, ...]
    held_out: tuple[Items, ...]

    @classmethod
    def of(cls, people: RowPopulation, seed: int, *, test: float = 0.2, held_out: float = 0.2) -> Self:
        """Split at random, by these parts; new people with fewer than two items are left out."""
        checks.real("test", test, above=0.0, below=1.0)
        checks.real("held_out", held_out, above=0.0, below=1.0)
        rows = people.as_rows()
        if rows is None:
            raise TypeError(f"people must be rows in memory, such as Coverage, got {type(people).__name__}")
        rng, matrix = PublicRandomness.seeded(seed).generator, rows.sparse
        order = rng.permutation(len(people))
        new = order[: max(1, round(test * len(people)))]
        known, held = [], []
        for i in new.tolist():
            items = rng.permutation(np.array(matrix.indices[matrix.indptr[i] : matrix.indptr[i + 1]]))
            if items.size >= 2:
                out = max(1, round(held_out * items.size))
                held.append(items[:out])
                known.append(items[out:])
        training = people[np.sort(order[new.size :])]
        return cls(training, tuple(known), tuple(held))


@dataclass(frozen=True)
class Quality:
    """Averages over new people: whether a held-out item is among the k, what part of them, how high up."""

    hit_rate: float
    recall: float
    ndcg: float
    people: int

    def __str__(self) -> str:
        return f"hit rate {self.hit_rate:.3f}, recall {self.recall:.3f}, NDCG {self.ndcg:.3f} (in the clear)"


def quality(scores: Scores | Recommender, people: NewPeople, k: int) -> Quality:
    """How well the k items with the largest scores, outside of the history, match the held-out items.

    Recall is divided by the most possible matches: the smaller of k and the number of held-out items.
    """
    k = checks.whole("k", k, at_least=1)
    hits = recall = ndcg = 0.0
    ask = _of_model(scores) if isinstance(scores, Recommender) else scores
    discounts = 1.0 / np.log2(np.arange(k) + 2.0)
    for start in range(0, len(people.histories), _AT_A_TIME):
        histories = people.histories[start : start + _AT_A_TIME]
        found = ask(histories)
        for row, own, out in zip(found, histories, people.held_out[start:], strict=False):
            row[own] = -np.inf
            best = np.argsort(-row, kind="stable")[:k]
            met = np.isin(best, out)
            most = min(k, out.size)
            hits += bool(met.any())
            recall += np.count_nonzero(met) / most
            ndcg += float(discounts[: best.size][met].sum() / discounts[:most].sum())
    count = max(1, len(people.histories))
    return Quality(hits / count, recall / count, ndcg / count, len(people.histories))


def _of_model(model: Recommender) -> Scores:
    return lambda histories: np.stack([model.scores(items) for items in histories])


# --- baselines without privacy -----------------------------------------------------------------------------


def popularity(training: Population) -> Scores:
    """The number of people who have each item: the same scores for everybody, without privacy."""
    counts = _together(training).diagonal()
    return lambda histories: np.tile(counts, (len(histories), 1))


def item_neighbours(training: Population, shrink: float = 20.0) -> Scores:
    """Sums of cosine similarities to the items of a history (item-kNN, all neighbours), without privacy."""
    together = _together(training)
    lengths = np.sqrt(together.diagonal())
    near = together / (np.outer(lengths, lengths) + shrink)
    np.fill_diagonal(near, 0.0)
    return lambda histories: _indicators(histories, near.shape[0]) @ near


def ease(training: Population, ridge: float = 200.0) -> Scores:
    """EASE (Steck 2019): items regressed on all others, without privacy."""
    inverse = np.linalg.inv(_together(training) + ridge * np.eye(training.n_items))
    weights = -inverse / inverse.diagonal()
    np.fill_diagonal(weights, 0.0)
    return lambda histories: _indicators(histories, weights.shape[0]) @ weights


def _together(people: Population) -> NDArray[np.float64]:
    """The number of people who have each pair of items; on the diagonal, each item."""
    rows = people.as_rows()
    assert rows is not None
    own = rows.sparse
    matrix = sp.csr_array((np.ones(own.indices.size), own.indices, own.indptr), shape=own.shape)
    return np.asarray((matrix.T @ matrix).toarray())


def _indicators(histories: Sequence[Items], n_items: int) -> NDArray[np.float64]:
    found = np.zeros((len(histories), n_items))
    for row, items in zip(found, histories, strict=True):
        row[items] = 1.0
    return found


BASELINES: dict[str, Callable[[Population], Scores]] = {
    "popularity, not private": popularity,
    "item-kNN, not private": item_neighbours,
    "EASE, not private": ease,
}


FIGURES = ("hit_rate", "recall", "ndcg")
IN_THE_CLEAR = "NOT PRIVATE: true figures about the people who were looked at, in no account"


@dataclass(frozen=True)
class RecommenderComparison:
    """Qualities by name, one for each split; ``reason`` explains the private model."""

    k: int
    found: dict[str, list[Quality]]
    reason: str = ""

    def mean(self, name: str, figure: str = "hit_rate") -> float:
        """The average of a figure over the splits."""
        return float(np.mean([getattr(one, figure) for one in self.found[name]]))

    def error(self, name: str, figure: str = "hit_rate") -> float:
        """The standard error of that average; nan for a single split."""
        values = [getattr(one, figure) for one in self.found[name]]
        return float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else math.nan

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Header and rows, as text: means over the splits, and the standard errors of hit rates."""
        rows = []
        for name in self.found:
            hits, recall, ndcg = (f"{self.mean(name, figure):.3f}" for figure in FIGURES)
            error = self.error(name)
            rows.append([name, hits if math.isnan(error) else f"{hits} +- {error:.3f}", recall, ndcg])
        return ["", f"hit rate at {self.k}", "recall", "NDCG"], rows

    def __str__(self) -> str:
        return f"{table(*self.table())}\n{IN_THE_CLEAR}"


def compare_recommenders(
    people: RowPopulation,
    budget: Budget,
    k: int = 5,
    *,
    seeds: Sequence[int] = (0, 1, 2),
    baselines: Sequence[str] = tuple(BASELINES),
    features: Any = None,
    progress: bool = False,
) -> RecommenderComparison:
    """Compare a `PrivateRecommender` with private popularity at the full budget, and with ``baselines``.

    With public ``features`` of items, the recommender is also fitted with them. Each seed determines a split
    of the people, and the noise: nothing of this is private. ``progress`` shows how many models are done.

    >>> import numpy as np, discreet as dc
    >>> tastes = np.repeat(np.eye(3), 4, axis=1)[np.arange(9000) % 3]
    >>> people = dc.objectives.Coverage(tastes * (np.random.default_rng(0).random(tastes.shape) < 0.8))
    >>> found = compare_recommenders(people, dc.Budget(1.0, 1e-6), k=2, seeds=[0], baselines=[])
    >>> found.mean("personal") > found.mean("popularity") + 0.3
    True
    """
    kinds = {"personal": None} | ({} if features is None else {"personal, features": features})
    found: dict[str, list[Quality]] = {name: [] for name in (*kinds, "popularity", *baselines)}
    reason, models = "", iter(track(range(len(seeds) * len(found)), "models", progress))
    for seed in seeds:
        split = NewPeople.of(people, seed)
        if not split.histories:
            raise ValueError(
                "no one among the new people has two items or more: there is nothing to hold out"
            )
        for name, known in kinds.items():
            next(models)
            model = PrivateRecommender(budget, features=known, seed=seed).fit(split.training, progress=False)
            reason = model.reason_
            found[name].append(quality(model, split, k))
        next(models)
        found["popularity"].append(quality(popular(split.training, budget, seed), split, k))
        for name in baselines:
            next(models)
            found[name].append(quality(BASELINES[name](split.training), split, k))
    next(models, None)
    return RecommenderComparison(k, found, reason)


def popular(training: Population, budget: Budget, seed: int) -> Scores:
    """Private popularity: the sum of unit vectors with all of the budget, the strongest single ranking."""
    gate = Gate(budget, seed)
    event = GaussianNoise.within(budget.share(), movement(budget.neighbours, training.n_items))
    sums = gate.gaussian(unit_sums(training) / UNIT, event.sigma, event.sensitivity)
    return lambda histories: np.tile(np.asarray(sums), (len(histories), 1))
