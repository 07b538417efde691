"""Settings in which everything that chooses from all people at once is audited."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache

import numpy as np

from ...constraints import Cardinality, Constraint, Knapsack, PartitionMatroid
from ...objectives import Coverage
from ...offline import ContinuousGreedy, CurvatureGreedy, PrivateGreedy
from ...privacy import Budget
from .cases import Case, ChoiceCase, NoiseCase, Played
from .coins import Floats, Source
from .exact import Space
from .mechanisms import CHOICE_BUGS, CHOICE_SAMPLER_BUGS, NOISE_BUGS, NOISE_SAMPLER_BUGS

REPLACE, ADD_REMOVE = "replace", "add_remove"
# A row of these numbers stands for nobody: it is taken out.
_ABSENT = -1.0


def present(stream: Floats) -> Floats:
    """The rows of people who are there."""
    there: Floats = stream[(stream != _ABSENT).any(axis=1)]
    return there


def crowd(stream: Floats) -> Coverage:
    """People who like the items whose numbers are 1."""
    rows = present(stream)
    return _crowd(rows.shape[1], *rows.ravel().tolist())


@lru_cache(maxsize=256)
def _crowd(columns: int, *numbers: float) -> Coverage:
    return Coverage(np.reshape(numbers, (-1, columns)))


def cases() -> list[Case]:
    """Every chooser, in one setting at least that is quick."""
    return [*_greedy(), *_continuous(), *_noisy(), *_estimators()]


def _greedy() -> Iterator[Case]:
    pair: Callable[[], Constraint] = lambda: Cardinality(2)  # noqa: E731
    bag: Callable[[], Constraint] = lambda: Knapsack([0.5, 0.3, 0.4], 0.75)  # noqa: E731
    settings: Sequence[tuple[str, str, Callable[[], Constraint], Budget, int, bool]] = [
        ("basic", "2 of 3 items", pair, Budget(2.0), 6, False),
        ("zcdp", "2 of 3 items", pair, Budget(2.0, 0.05, ADD_REMOVE), 4, True),
        ("decomposable", "2 of 3 items", pair, Budget(2.0, 0.05), 4, False),
        ("subsampled", "2 of 3 items", pair, Budget(0.5, 0.0, ADD_REMOVE), 3, False),
        ("subsampled", "2 of 3 items", pair, Budget(0.5), 3, True),
        ("basic", "a knapsack of 3 items", bag, Budget(2.0), 4, True),
    ]
    for method, setting, constraint, budget, rows, deep in settings:

        def play(
            stream: Floats,
            source: Source,
            method: str = method,
            constraint: Callable[[], Constraint] = constraint,
            budget: Budget = budget,
        ) -> Played:
            greedy = PrivateGreedy(constraint(), budget, method, people=8, seed=source)
            chosen = greedy.select(crowd(stream))
            return Played(chosen.items, lambda: greedy.privacy)

        noticed: dict[str, tuple[str, ...]] = {
            "subsampled": ("everybody in the sample", "charges forgotten", *CHOICE_SAMPLER_BUGS[1:]),
            # Made for many picks: two of them come nowhere near what it allows.
            "decomposable": ("charges forgotten", CHOICE_SAMPLER_BUGS[1]),
        }
        usual = ("rate doubled", "charges forgotten", "range of scores halved", CHOICE_SAMPLER_BUGS[0])
        yield ChoiceCase(
            "PrivateGreedy",
            f"{method}, {setting}",
            budget,
            Space(rows, 3, nobody=_ABSENT),
            play,
            noticed.get(method, usual if constraint is pair else usual[:1] + usual[2:]),
            only_deep=deep,
        )


def _continuous() -> Iterator[Case]:
    kinds: Sequence[tuple[str, type[ContinuousGreedy], Constraint, int, Budget, bool]] = [
        ("1 of 3 items, 2 steps", ContinuousGreedy, Cardinality(1), 2, Budget(2.0), False),
        ("1 of 3 items, 2 steps", CurvatureGreedy, Cardinality(1), 2, Budget(2.0), False),
        (
            "one of each block, 2 steps",
            ContinuousGreedy,
            PartitionMatroid([[0, 1], [2]], 1),
            2,
            Budget(2.0, 0.05, ADD_REMOVE),
            True,
        ),
        ("2 of 3 items, 2 steps", CurvatureGreedy, Cardinality(2), 2, Budget(2.0, 0.0, ADD_REMOVE), True),
    ]
    for setting, kind, constraint, steps, budget, deep in kinds:

        def play(
            stream: Floats,
            source: Source,
            kind: type[ContinuousGreedy] = kind,
            constraint: Constraint = constraint,
            steps: int = steps,
            budget: Budget = budget,
        ) -> Played:
            chooser = kind(constraint, budget, steps, people=8, seed=source)
            point = chooser.fractional(crowd(stream))
            return Played(point, lambda: chooser.privacy)

        yield ChoiceCase(
            kind.__name__,
            f"picks, {setting}",
            budget,
            Space(6, 3, nobody=_ABSENT),
            play,
            (*CHOICE_BUGS, CHOICE_SAMPLER_BUGS[0]),
            only_deep=deep,
        )


def _noisy() -> Iterator[Case]:
    settings: Sequence[tuple[type[ContinuousGreedy], str, Budget, bool]] = [
        (ContinuousGreedy, "gaussian", Budget(1.0, 1e-5), False),
        (ContinuousGreedy, "laplace", Budget(1.0), True),
        (CurvatureGreedy, "laplace", Budget(1.0, 0.0, ADD_REMOVE), True),
        (CurvatureGreedy, "gaussian", Budget(1.0, 1e-5), True),
    ]
    for kind, noise, budget, deep in settings:

        def play(
            stream: Floats,
            source: Source,
            kind: type[ContinuousGreedy] = kind,
            noise: str = noise,
            budget: Budget = budget,
        ) -> Played:
            chooser = kind(Cardinality(1), budget, 2, noise=noise, people=8, seed=source)
            point = chooser.fractional(crowd(stream))
            return Played([point], lambda: chooser.privacy)

        yield NoiseCase(
            kind.__name__,
            f"{noise} slopes, 1 of 3 items, 2 steps",
            budget,
            Space(4, 3, nobody=_ABSENT),
            play,
            (*NOISE_BUGS, NOISE_SAMPLER_BUGS[0]),
            only_deep=deep,
        )


def _estimators() -> Iterator[Case]:
    try:
        from ...offline import PrivateFeatureSelector, PrivateItemSelector
    except ImportError:  # scikit-learn is optional, and without it there is nothing here to audit
        return
    for budget, deep in ((Budget(2.0), False), (Budget(2.0, 0.05), True)):

        def items(stream: Floats, source: Source, budget: Budget = budget) -> Played:
            chooser = PrivateItemSelector(
                2,
                budget.epsilon,
                budget.delta,
                method="basic",
                random_state=source,  # type: ignore[arg-type]
            )
            chosen = chooser.fit(stream)
            return Played(chosen.selection_.items, lambda: chosen.privacy_)

        # With a delta the account of two picks is loose, and half of it still covers them.
        paid = () if budget.delta else ("charges forgotten",)
        yield ChoiceCase(
            "PrivateItemSelector",
            "2 of 3 columns",
            budget,
            Space(6, 3),
            items,
            ("rate doubled", "range of scores halved", CHOICE_SAMPLER_BUGS[1], *paid),
            only_deep=deep,
        )
    for objective, bugs, deep in (
        ("covariance", ("charges forgotten", CHOICE_SAMPLER_BUGS[1]), False),
        ("mutual_information", ("charges forgotten",), True),
    ):
        budget = Budget(4.0)

        def features(
            stream: Floats, source: Source, objective: str = objective, budget: Budget = budget
        ) -> Played:
            chooser = PrivateFeatureSelector(
                1,
                budget.epsilon,
                objective=objective,
                bounds=(0.0, 1.0),
                classes=[0.0, 1.0],
                bins=2,
                random_state=source,  # type: ignore[arg-type]
            )
            chosen = chooser.fit(stream[:, :-1], stream[:, -1])
            return Played(chosen.selection_.items, lambda: chosen.privacy_)

        yield ChoiceCase(
            "PrivateFeatureSelector",
            f"{objective.replace('_', ' ')}, 1 of 2 features",
            budget,
            Space(8, 3),
            features,
            bugs,
            only_deep=deep,
        )
