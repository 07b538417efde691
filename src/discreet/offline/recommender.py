"""A private item model of all people, from which each person's own set is computed."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Self

import numpy as np

from ..core import checks
from ..core.text import looked_at, track
from ..kernels.pairs import UNIT
from ..objectives import Population
from ..objectives.stored import StoredPopulation
from ..personal import (
    MOST_PEOPLE,
    Factors,
    PairPlan,
    Recommender,
    as_people,
    movement,
    pair_sums,
    public_features,
    unit_sums,
)
from ..privacy import GaussianNoise, Seed
from ..privacy.accountant import Spending
from .greedy import Allowance

_COUNT = Fraction(1, 100)  # of the budget, for the number of people if that is private


class PrivateRecommender(Recommender):
    """A recommender with joint differential privacy: a private model, and a set for each person from it.

    ``fit`` releases two sums over people with Gaussian noise, so the budget needs a delta: of their unit
    vectors over all items, and of the products of two entries of their unit vectors over the most popular
    items (all items if the budget allows). Which items are kept follows from the first release, and the
    division of the budget from public sizes (`personal.PairPlan`). If n x mu is below 350, where mu is the
    budget in Gaussian DP, only popularity is released, with the full budget: ``reason_`` says so. All else is
    post-processing. ``recommend(history, k)`` is for anybody, also for people who were not in the data.

    ``people``: a population of rows such as `objectives.Coverage`, in memory or in a store (summed by its
    threads or its Dask cluster in integers: the same bits for any split), events (`data.read_events`), a
    `data.Store`, or a matrix of people x items with entries in [0, 1]. One row is one person; if people have
    several rows, the budget needs ``max_rounds_per_person``.

    ``features`` are public facts about the items, a row of numbers for each, by position or by label (a
    mapping, or a frame with an index): embeddings, or words and categories (`personal.word_features`). Items
    similar to a history by these (cosines), also items without pairs, have their scores multiplied by
    exp(1 or 2 x similarity); this costs no budget. With large catalogues it helps more than pairs.

    Under ``neighbours="add_remove"`` the number of people is private. ``max_people`` declares a public number
    in its place (it should be close), or else 1 % of the budget is spent on a noisy count.

    Formal guarantee: the two releases are (epsilon, delta)-DP for one row; see `discreet.personal` for their
    sensitivity, and for joint differential privacy. One object can be fitted once, which spends its budget.

    >>> import numpy as np, discreet as dc
    >>> taste = np.repeat(np.eye(2), 3, axis=1)[np.arange(4000) % 2]  # two tastes of three items each
    >>> people = dc.objectives.Coverage(taste * (np.random.default_rng(0).random(taste.shape) < 0.7))
    >>> model = PrivateRecommender(dc.Budget(1.0, 1e-6), seed=0).fit(people)
    >>> sorted(model.recommend([0], k=2).items), sorted(model.recommend([5], k=2).items)
    ([1, 2], [3, 4])
    >>> model.reason_
    'n x mu = 947: pairs of all 6 items'
    """

    def __init__(
        self, budget: Spending, *, features: Any = None, max_people: int | None = None, seed: Seed = None
    ) -> None:
        self.budget, self.max_people, self.seed = budget, max_people, seed
        self._features = features
        self._allowance = Allowance(budget, seed)
        if max_people is not None:
            checks.whole("max_people", max_people, at_least=1, at_most=MOST_PEOPLE)
            if self._allowance.share.neighbours == "replace":
                raise ValueError(
                    "max_people= is for neighbours='add_remove'; where people are replaced their number is"
                    " public"
                )
        GaussianNoise.within(self._allowance.share, 1.0)  # raises if there is no delta

    def fit(self, people: Any, y: Any = None, *, progress: bool | None = None) -> Self:  # noqa: ARG002
        """Release the sums, and build the model from them; scikit-learn passes ``y``.

        ``progress``: show progress (by default on a terminal, after two seconds; at once for a store).
        """
        if "popularity" in self.__dict__:
            raise RuntimeError(
                "this recommender was fitted, and its budget is spent: make a new one, and mind that two fits"
                " about the same people add up"
            )
        crowd = as_people(people)
        if len(crowd) > MOST_PEOPLE:
            raise ValueError(f"there are more than the {MOST_PEOPLE:,} people whose sums are exact")
        features = public_features(self._features, crowd.n_items, crowd.labels)
        share, gate = self._allowance.share, self._allowance.gate
        gate.add_caveats(*crowd.caveats)
        n_people, spare = self._count(crowd)
        size = crowd.n_items
        moves = movement(share.neighbours, size)
        plan = PairPlan.of(n_people, size, float(self._noise(share.part(spare), moves).sigma))
        first = self._noise(share.part(spare * plan.share), moves)
        noise = [first]
        if plan.paired:
            moves = movement(share.neighbours, plan.paired**2)
            noise.append(self._noise(share.part(spare * (1 - plan.share)), moves))
        self._allowance.expect(*((one, 1) for one in noise))
        after = 0.0 if isinstance(crowd, StoredPopulation) else 2.0
        steps = iter(track(range(3 if plan.paired else 1), "fitting", looked_at(progress), after=after))
        next(steps)
        popularity = gate.gaussian(
            unit_sums(crowd) / UNIT, first.sigma, first.sensitivity, label="popularity of items"
        )
        model = None
        if plan.paired:
            next(steps)
            kept = np.sort(np.argsort(-popularity, kind="stable")[: plan.paired])
            pairs = pair_sums(crowd, kept).ravel() / UNIT**2
            released = gate.gaussian(pairs, noise[1].sigma, noise[1].sensitivity, label="pairs of items")
            next(steps)
            square = released.reshape(kept.size, kept.size)
            model = kept, Factors.of(popularity[kept], square, n_people, float(noise[1].sigma))
        next(steps, None)
        told = self._allowance.account, plan.reason
        self._know(popularity / n_people, model, n_people, crowd.labels, told, features)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """`fit`, then `transform` of the same people."""
        return self.fit(X, y).transform(X)

    def _noise(self, share: Any, moves: float) -> GaussianNoise:
        return GaussianNoise.within(share, moves, 1, share.definition or self._allowance.gate.definition)

    def _count(self, crowd: Population) -> tuple[float, Fraction]:
        """A public or noisy number of people, and the part of the budget that is left."""
        share, gate = self._allowance.share, self._allowance.gate
        if share.neighbours == "replace" or not share.private:
            return float(len(crowd)), Fraction(1)
        if self.max_people is not None:
            # It only divides means: more people than declared are not an error, as that would reveal their
            # number.
            return float(self.max_people), Fraction(1)
        event = self._noise(share.part(_COUNT), 1.0)
        self._allowance.expect((event, 1))
        found = gate.gaussian(float(len(crowd)), event.sigma, event.sensitivity, label="number of people")
        return max(1.0, float(found)), 1 - _COUNT

    # --- scikit-learn ----------------------------------------------------------------------------

    def get_params(self, deep: bool = True) -> dict[str, Any]:  # noqa: ARG002
        """The constructor's arguments; a clone has a budget of its own, unless that is a gate."""
        given = {"budget": self.budget, "max_people": self.max_people, "seed": self.seed}
        return given | {"features": self._features}

    def set_params(self, **given: Any) -> Self:
        """Refused: declared settings cannot change; make another recommender."""
        if given:
            raise ValueError(
                f"{', '.join(given)}: a budget is declared once; make another PrivateRecommender"
            )
        return self

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import Tags, TargetTags, TransformerTags

        return Tags(None, TargetTags(required=False), TransformerTags())

    def __sklearn_is_fitted__(self) -> bool:
        return "popularity" in self.__dict__
