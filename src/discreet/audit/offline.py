"""Settings in which everything that chooses from all people at once is audited."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ..constraints import Cardinality, Constraint, Knapsack, PartitionMatroid
from ..objectives import Coverage
from ..offline import ContinuousGreedy, CurvatureGreedy, PrivateGreedy
from ..privacy import Budget
from .cases import Case, Played
from .choices import ChoiceCase
from .exact import Pair, Space
from .faults import CHOICES_TELL, NUMBERS_TELL, PAST_THE_GATE, SHOWN_TELLS
from .hooks import Floats, Source
from .mechanisms import CHOICE_FAULTS, CHOICE_SAMPLER_FAULTS, NOISE_FAULTS, NOISE_SAMPLER_FAULTS
from .mixed import MixedCase
from .noise import NoiseCase

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
    return [*_greedy(), *_many_picks(), *_gains(), *_continuous(), *_noisy(), *_estimators()]


@dataclass(frozen=True)
class _Setting:
    """A setting of greedy picks: of how many people, and which injected faults have to be noticed."""

    method: str
    words: str
    constraint: Callable[[], Constraint]
    budget: Budget
    rows: int
    deep: bool
    faults: tuple[str, ...]
    items: int = 3


_PICKS = (
    "rate doubled",
    "charges forgotten",
    "range of scores halved",
    CHOICE_SAMPLER_FAULTS[0],
    CHOICES_TELL,
)
_SAMPLED = (
    "rate doubled",
    "everybody in the sample",
    "charges forgotten",
    CHOICE_SAMPLER_FAULTS[1],
    CHOICES_TELL,
)
_FEW_PICKS = (
    "A doubled rate does not show in so few picks: the decomposable account bounds any number of them, and"
    " between somebody with one item and nobody up to seven picks stay within it even then, at any budget"
    " that was tried. The setting of 14 picks shows it."
)
_TWO_PICKS = (
    "A doubled rate of the picks does not show beside their gains: what is likelier to be picked because of"
    " somebody gains by them, and what is picked less does not. The setting of one pick shows it."
)


def _greedy() -> Iterator[Case]:
    one: Callable[[], Constraint] = lambda: Cardinality(1)  # noqa: E731
    pair: Callable[[], Constraint] = lambda: Cardinality(2)  # noqa: E731
    bag: Callable[[], Constraint] = lambda: Knapsack([0.6, 0.3, 0.3], 1.0)  # noqa: E731
    large: Callable[[], Constraint] = lambda: Knapsack([0.6, 0.6, 0.6], 1.0)  # noqa: E731
    few = ("charges forgotten", CHOICE_SAMPLER_FAULTS[1], CHOICES_TELL)
    settings = [
        _Setting("basic", "2 of 3 items", pair, Budget(2.0), 6, False, _PICKS),
        _Setting("zcdp", "2 of 3 items", pair, Budget(2.0, 0.05, ADD_REMOVE), 4, True, _PICKS),
        _Setting("exact", "2 of 3 items", pair, Budget(2.0, 0.05), 6, False, _PICKS),
        _Setting("decomposable", "2 of 3 items", pair, Budget(2.0, 0.05), 4, False, few),
        _Setting("subsampled", "1 of 8 items", one, Budget(1.0, 0.0, ADD_REMOVE), 2, False, _SAMPLED, 8),
        _Setting("subsampled", "2 of 5 items", pair, Budget(0.5, 0.0, ADD_REMOVE), 2, True, _SAMPLED, 5),
        _Setting("subsampled", "1 of 8 items", one, Budget(1.0), 2, True, _SAMPLED, 8),
        _Setting("basic", "a knapsack of 3 items", bag, Budget(4.0, 0.0, ADD_REMOVE), 4, True, _PICKS),
        _Setting("basic", "a knapsack of 3 large items", large, Budget(4.0), 4, True, _PICKS),
    ]
    for each in settings:

        def play(stream: Floats, source: Source, each: _Setting = each) -> Played:
            greedy = PrivateGreedy(each.constraint(), each.budget, each.method, max_people=8, seed=source)
            chosen = greedy.select(crowd(stream))
            return Played(chosen.items, lambda: greedy.privacy)

        yield ChoiceCase(
            "PrivateGreedy",
            f"{each.method}, {each.words}",
            each.budget,
            Space(each.rows, each.items, nobody=_ABSENT),
            play,
            each.faults,
            only_deep=each.deep,
            unseen=(_FEW_PICKS,) if each.method == "decomposable" else (),
        )


def _many_picks() -> Iterator[Case]:
    """So many picks that an account of any number of them is put to use; all but the first item are alike."""
    budget, items, picks = Budget(2.0, 0.05, ADD_REMOVE), 16, 14

    def play(stream: Floats, source: Source) -> Played:
        greedy = PrivateGreedy(picks, budget, "decomposable", max_people=8, seed=source)
        liked = np.repeat(present(stream), [1, items - 1], axis=1)
        chosen = greedy.select(crowd(liked)).items
        return Played(chosen.index(0) if 0 in chosen else picks, lambda: greedy.privacy)

    def alike(taken: tuple[int, ...], size: int) -> list[list[int]]:
        """Until the first item is taken it stands first among those that are left."""
        return [list(range(size))] if 0 in taken else [[0], list(range(1, size))]

    yield ChoiceCase(
        "PrivateGreedy",
        f"decomposable, {picks} of {items} items, when the first is picked",
        budget,
        Space(3, 2, nobody=_ABSENT),
        play,
        ("rate doubled", "charges forgotten", CHOICE_SAMPLER_FAULTS[1], CHOICES_TELL),
        alike=alike,
    )


def _gains() -> Iterator[Case]:
    """Picks, and noisy numbers of what each of them added."""
    settings: Sequence[tuple[str, int, int, Budget, int, tuple[str, ...], bool]] = [
        # method, picks, items, budget, people, what else has to be noticed, only when deep
        ("basic", 1, 5, Budget(2.0, 0.0, ADD_REMOVE), 3, ("rate doubled",), False),
        ("basic", 2, 3, Budget(4.0), 4, (), True),
        (
            "subsampled",
            1,
            5,
            Budget(2.0, 0.0, ADD_REMOVE),
            2,
            ("rate doubled", "everybody in the sample"),
            True,
        ),
        ("zcdp", 2, 3, Budget(2.0, 0.2), 4, ("rate doubled",), True),
    ]
    usual = ("noise halved", "charges forgotten", "range of scores halved", CHOICE_SAMPLER_FAULTS[1],
             NOISE_SAMPLER_FAULTS[0], CHOICES_TELL, NUMBERS_TELL)  # fmt: skip
    for method, picks, items, budget, rows, also, deep in settings:

        def play(
            stream: Floats,
            source: Source,
            method: str = method,
            picks: int = picks,
            budget: Budget = budget,
        ) -> Played:
            greedy = PrivateGreedy(picks, budget, method, release_gains=0.5, max_people=8, seed=source)
            chosen = greedy.select(crowd(stream))
            return Played(chosen.items, lambda: greedy.privacy)

        yield MixedCase(
            "PrivateGreedy",
            f"{method}, {picks} of {items} items and what they gain",
            budget,
            Space(rows, items, nobody=_ABSENT),
            play,
            (*also, *usual),
            only_deep=deep,
            unseen=() if also else (_TWO_PICKS,),
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
            chooser = kind(constraint, budget, steps, max_people=8, seed=source)
            point = chooser.fractional(crowd(stream))
            return Played(point, lambda: chooser.privacy)

        yield ChoiceCase(
            kind.__name__,
            f"picks, {setting}",
            budget,
            Space(6, 3, nobody=_ABSENT),
            play,
            (*CHOICE_FAULTS, CHOICE_SAMPLER_FAULTS[0], CHOICES_TELL),
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
            chooser = kind(Cardinality(1), budget, 2, noise=noise, max_people=8, seed=source)
            point = chooser.fractional(crowd(stream))
            return Played([point], lambda: chooser.privacy)

        yield NoiseCase(
            kind.__name__,
            f"{noise} gradient, 1 of 3 items, 2 steps",
            budget,
            Space(4, 3, nobody=_ABSENT),
            play,
            (*NOISE_FAULTS, NOISE_SAMPLER_FAULTS[0], NUMBERS_TELL, SHOWN_TELLS, PAST_THE_GATE),
            only_deep=deep,
        )


def _estimators() -> Iterator[Case]:
    try:
        from ..offline import PrivateItemSelector
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

        yield ChoiceCase(
            "PrivateItemSelector",
            "2 of 3 columns",
            budget,
            Space(6, 3),
            items,
            (*_PICKS[:3], CHOICE_SAMPLER_FAULTS[1], CHOICES_TELL),
            only_deep=deep,
        )
    yield from _features()


def _features() -> Iterator[Case]:
    from ..offline import PrivateFeatureSelector

    # Somebody alone in a class of whom the first feature is 1, or else all the others: nobody moves more.
    alone = np.array([1.0, 0.0, 0.0, 0.0, 1.0])
    start = Pair(np.zeros((8, 5)), alone, np.where(np.arange(5) < 4, 1.0 - alone, 1.0), (0,))
    for objective, faults, deep in (
        ("covariance", (*CHOICE_FAULTS, CHOICE_SAMPLER_FAULTS[1], CHOICES_TELL), False),
        ("mutual_information", ("rate doubled", "charges forgotten", CHOICES_TELL), True),
    ):
        budget = Budget(2.0)

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
            f"{objective.replace('_', ' ')}, 1 of 4 features",
            budget,
            Space(8, 5),
            features,
            faults,
            only_deep=deep,
            starts=(start,),
        )
