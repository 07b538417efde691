"""Settings in which every online learner is audited: few items, few rounds, everything enumerable."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from ..constraints import PartitionMatroid
from ..constraints.domains import Ball, Box, Simplex
from ..core.state import read_state
from ..objectives import Coverage, SetFunction
from ..online import (
    ApproximateLeader,
    BanditApproximateLeader,
    BanditSelector,
    BanditSubmodularMinimizer,
    HedgeSelector,
    LinearLeader,
    MetaFrankWolfe,
    OnlineLearner,
    PhasedSelector,
    RunningSumSelector,
    SubmodularMinimizer,
)
from ..privacy import Budget
from .cases import Case, Play, Played
from .choices import ChoiceCase
from .exact import Space
from .faults import CHOICES_TELL, NUMBERS_TELL, PAST_THE_GATE, SHOWN_TELLS, TWICE
from .hooks import Floats, Source, swapped
from .mechanisms import CHOICE_BUGS, CHOICE_SAMPLER_BUGS, NOISE_BUGS, NOISE_SAMPLER_BUGS
from .noise import NoiseCase

Make = Callable[[Source], OnlineLearner]
# From a row of numbers and what was shown, what the learner is told.
Tell = Callable[[Floats, Any], Any]

REPLACE, ADD_REMOVE = "replace", "add_remove"


@lru_cache(maxsize=256)
def _fan(*likes: float) -> Coverage:
    return Coverage([likes])


def covers(row: Floats, _: Any) -> Coverage:
    """Somebody who likes the items whose numbers are 1."""
    return _fan(*row.tolist())


def served(make: Make, tell: Tell, *, publish: Callable[[OnlineLearner, Any], Any] | None = None) -> Play:
    """A round per row, and one more decision at the end; published are the decisions."""

    def play(stream: Floats, source: Source) -> Played:
        learner = make(source)
        told = []
        for row in stream:
            decision = learner.choose()
            told.append(_items(decision) if publish is None else publish(learner, decision))
            learner.learn(tell(row, decision))
        decision = learner.choose()
        told.append(_items(decision) if publish is None else publish(learner, decision))
        return Played(told, lambda: learner.privacy)

    return play


def _items(decision: Any) -> Any:
    return getattr(decision, "items", decision)


def cases() -> list[Case]:
    """Every learner, in one setting at least that is quick."""
    return [
        *_hedge(),
        *_phased(),
        *_running_sums(),
        *_bandit_draws(),
        *_bandit_noise(),
        *_leaders(),
        *_one_point(),
        *_minimizers(),
        *_frank_wolfe(),
    ]


# --- choices --------------------------------------------------------------------------------------


# To prove an epsilon from outputs takes some 30 e^epsilon runs, however gross the error.
_MOST_PROVABLE = 5.0
_TOO_MUCH = (
    "Outputs alone cannot reject this setting: to prove more than its large claim takes some 30 e^epsilon"
    " runs of each world, even with no noise at all. Smaller claims of the same learner are put to that test."
)


def _hedge() -> Iterator[Case]:
    settings: Sequence[tuple[int, int, int, int, float, str, bool]] = [
        # items, k, rounds, resample_every, rate, neighbours, only when deep
        (3, 1, 3, 1, 0.5, REPLACE, False),
        (3, 2, 3, 2, 1.0, ADD_REMOVE, False),
        (4, 1, 4, 1, 0.5, REPLACE, True),
        (3, 2, 3, 1, 2.0, REPLACE, True),
    ]
    for n, k, rounds, every, rate, neighbours, deep in settings:
        count = k * (-(-rounds // every) - 1)
        budget = Budget(2.0 * rate * count, 0.0, neighbours)

        def make(source: Source, n: int = n, k: int = k, rounds: int = rounds, every: int = every,
                 rate: float = rate, budget: Budget = budget) -> HedgeSelector:  # fmt: skip
            return HedgeSelector(n, k, rounds, budget, resample_every=every, rate=rate, seed=source)

        yield ChoiceCase(
            "HedgeSelector",
            f"{k} of {n} items, {rounds} rounds, new sets every {every}",
            budget,
            Space(rounds - 1, n),
            served(make, covers),
            ("rate doubled", "charges forgotten", CHOICE_SAMPLER_BUGS[0])
            + (() if budget.epsilon > _MOST_PROVABLE else (CHOICES_TELL,)),
            only_deep=deep,
            unseen=(_TOO_MUCH,) if budget.epsilon > _MOST_PROVABLE else (),
        )


def _phased() -> Iterator[Case]:
    settings: Sequence[tuple[int, int, int, Budget, bool]] = [
        (3, 1, 2, Budget(2.0), False),
        (3, 2, 1, Budget(2.0, 1e-2, ADD_REMOVE), False),
        (4, 2, 1, Budget(3.0), True),
    ]
    for n, k, window, budget, deep in settings:

        def make(
            source: Source, n: int = n, k: int = k, window: int = window, budget: Budget = budget
        ) -> Any:
            return PhasedSelector(n, k, budget, window=window, seed=source)

        yield ChoiceCase(
            "PhasedSelector",
            f"{k} of {n} items, two windows of {window}",
            budget,
            Space(2 * window, n),
            served(make, covers),
            (*CHOICE_BUGS, CHOICE_SAMPLER_BUGS[0], TWICE, CHOICES_TELL),
            twice=window,
            only_deep=deep,
        )


def _bandit_draws() -> Iterator[Case]:
    # Public coins under which somebody explores early and what was drawn shows later.
    settings: Sequence[tuple[str, dict[str, Any], str, int, bool]] = [
        ("a new set every round", {"exploration": "every_round", "exploration_rate": 0.5}, REPLACE, 5, False),
        ("rounds picked in advance", {"exploration": "presampled", "block": 2}, REPLACE, 0, True),
        (
            "coins and a timetable",
            {"exploration": "online", "exploration_rate": 0.5, "block": 1},
            ADD_REMOVE,
            5,
            True,
        ),
    ]
    for setting, options, neighbours, public, deep in settings:
        budget = Budget(2.0, 0.0, neighbours)

        def make(
            source: Source, options: dict[str, Any] = options, budget: Budget = budget
        ) -> BanditSelector:
            return BanditSelector(3, 1, 4, budget, seed=source, **options)

        yield ChoiceCase(
            "BanditSelector",
            f"{setting}, 1 of 3 items",
            budget,
            Space(3, 1, (0.0, 0.5, 1.0)),
            served(make, lambda row, _: float(row[0])),
            ("rate doubled", "charges forgotten", CHOICES_TELL),
            only_deep=deep,
            public=public,
        )


# --- noise ----------------------------------------------------------------------------------------


def _noise_case(
    name: str,
    setting: str,
    budget: Budget,
    space: Space,
    play: Play,
    *,
    deep: bool = False,
    twice: int | None = 2,
    bugs: tuple[str, ...] = NOISE_BUGS,
    watched: bool = False,
    **options: Any,
) -> Case:
    also = () if twice is None else (TWICE,)
    outputs = (SHOWN_TELLS,) if watched else (NUMBERS_TELL, SHOWN_TELLS, PAST_THE_GATE)
    return NoiseCase(
        name,
        setting,
        budget,
        space,
        play,
        (*bugs, *also, NOISE_SAMPLER_BUGS[0], *outputs),
        twice=twice,
        only_deep=deep,
        watched=watched,
        **options,
    )


def _shown(n_items: int) -> Callable[[OnlineLearner, Any], Floats]:
    """A set as a vector, for scores of outputs."""

    def publish(_: OnlineLearner, decision: Any) -> Floats:
        row = np.zeros(n_items)
        row[list(decision.items)] = 1.0
        return row

    return publish


def _running_sums() -> Iterator[Case]:
    settings: Sequence[tuple[str, dict[str, Any], Budget, bool]] = [
        ("square root", {"sums": "sqrt"}, Budget(1.0, 1e-5), False),
        ("Laplace tree", {"sums": "tree", "noise": "laplace"}, Budget(1.0), False),
        ("tree", {"sums": "tree"}, Budget(1.0, 1e-5, ADD_REMOVE), True),
        ("few buffers, 2 items each", {"sums": "blt", "items_per_person": 2}, Budget(1.0, 1e-5), True),
    ]
    for setting, options, budget, deep in settings:

        def make(source: Source, options: dict[str, Any] = options, budget: Budget = budget) -> Any:
            return RunningSumSelector(4, 1, 4, budget, seed=source, **options)

        play = served(make, covers, publish=_shown(4))
        yield _noise_case(
            "RunningSumSelector", f"{setting}, 1 of 4 items", budget, Space(3, 4), play, deep=deep
        )


def _kept(learner: OnlineLearner, decision: Any) -> list[float]:  # noqa: ARG001
    """Everything that a saved learner knows: all that any later decision can depend on."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state"
        with swapped(os, "fsync", lambda _: None):  # a file that is read once and thrown away
            learner.save(path)
        _, arrays = read_state(path)
    arrays.pop("noise", None)  # drawn ahead, and seen by nobody
    numbers = [np.asarray(arrays[name], dtype=np.float64).ravel() for name in sorted(arrays)]
    return np.concatenate(numbers).tolist() if numbers else []


def _bandit_noise() -> Iterator[Case]:
    def last(make: Make, tell: Tell) -> Play:
        """What is kept at the end, when every block is closed."""

        def play(stream: Floats, source: Source) -> Played:
            learner = make(source)
            decision = learner.choose()
            for row in stream:
                learner.learn(tell(row, decision))
                decision = learner.choose()
            return Played([_kept(learner, decision)], lambda: learner.privacy)

        return play

    for neighbours in (REPLACE, ADD_REMOVE):
        budget = Budget(1.0, 0.0, neighbours)

        def blocks(source: Source, budget: Budget = budget) -> BanditSelector:
            # So low a rate that sets do not depend on what is known: only the released sums are compared.
            return BanditSelector(3, 1, 5, budget, block=2, repeats=2, rate=1e-12, seed=source)

        yield _noise_case(
            "BanditSelector",
            "blocks of 2 rounds, 1 of 3 items",
            budget,
            Space(4, 1, (0.0, 0.5, 1.0)),
            last(blocks, lambda row, _: float(row[0])),
            watched=True,
            deep=neighbours == ADD_REMOVE,
        )

        def slots(source: Source, budget: Budget = budget) -> BanditSelector:
            return BanditSelector(3, 2, 9, budget, feedback="slots", block=3, seed=source)

        def takes(row: Floats, decision: Any) -> int | None:
            return None if row[0] < 0 else int(decision.items[int(row[0])])

        yield _noise_case(
            "BanditSelector",
            "which of 2 shown items was taken",
            budget,
            Space(3, 1, (-1.0, 0.0, 1.0), nobody=-1.0),
            last(slots, takes),
            watched=True,
            twice=1,
            deep=neighbours == ADD_REMOVE,
        )


def _pull(row: Floats, _: Any) -> Any:
    """A linear cost in the direction of the row, of length at most 1."""
    gradient = row / max(1.0, float(np.linalg.norm(row)))
    return (lambda _: 0.0), (lambda _: gradient)


def _point(_: OnlineLearner, decision: Any) -> Floats:
    return np.asarray(decision, dtype=np.float64)


def _leaders() -> Iterator[Case]:
    signed = Space(3, 2, (-1.0, 0.0, 1.0))
    settings: Sequence[tuple[str, dict[str, Any], Budget, bool]] = [
        ("square root", {"sums": "sqrt"}, Budget(1.0, 1e-5), False),
        ("spherical tree", {"sums": "spherical tree"}, Budget(1.0), False),
        ("Laplace tree", {"sums": "laplace tree"}, Budget(1.0, 0.0, ADD_REMOVE), True),
        ("published", {"calibration": "published"}, Budget(1.0), True),
    ]
    for setting, options, budget, deep in settings:

        def near(source: Source, options: dict[str, Any] = options, budget: Budget = budget) -> Any:
            return ApproximateLeader(Ball(2, 2.0), 4, budget, lipschitz=1.0, seed=source, **options)

        bugs = NOISE_BUGS if setting != "published" else ("noise halved", "charges forgotten")
        play = served(near, _pull, publish=_point)
        yield _noise_case(
            "ApproximateLeader", f"{setting}, 2 coordinates", budget, signed, play, deep=deep, bugs=bugs
        )
    for setting, options, budget, deep in (
        ("square root", {"sums": "sqrt"}, Budget(1.0, 1e-5), True),
        ("Laplace tree", {"sums": "laplace tree"}, Budget(1.0), False),
    ):

        def linear(source: Source, options: dict[str, Any] = options, budget: Budget = budget) -> Any:
            return LinearLeader(Simplex(3), 4, budget, box=(0.0, 1.0), seed=source, **options)

        play = served(linear, lambda row, _: row, publish=_point)
        yield _noise_case("LinearLeader", f"{setting}, 3 experts", budget, Space(3, 3), play, deep=deep)


def _one_point() -> Iterator[Case]:
    for neighbours in (REPLACE, ADD_REMOVE):
        budget = Budget(1.0, 0.0, neighbours)

        def make(source: Source, budget: Budget = budget) -> BanditApproximateLeader:
            return BanditApproximateLeader(
                Ball(2, 1e3), 8, budget, lipschitz=1.0, bound=1.0, batch=2, exploration_radius=1.0,
                regularization=10.0, seed=source,
            )  # fmt: skip

        yield _noise_case(
            "BanditApproximateLeader",
            "batches of 2 costs",
            budget,
            Space(5, 1, (-1.0, 0.0, 1.0)),
            served(make, lambda row, _: float(row[0]), publish=_point),
            watched=True,
            deep=neighbours == ADD_REMOVE,
        )


_ARCS = ((0, 1), (0, 2), (1, 2), (1, 0), (2, 0), (2, 1))


def _arc(row: Floats, _: Any) -> SetFunction:
    """Costs of 1 where a set has one of two items without the other, and -1 elsewhere; 0 for nobody."""
    if row[0] < 0.0:
        return SetFunction(lambda _: 0.0, 3, bound=1.0)
    tail, head = _ARCS[int(row[0])]
    return SetFunction(lambda items: 1.0 if tail in items and head not in items else -1.0, 3, bound=1.0)


def _chances(learner: Any, _: Any) -> Floats:
    return np.asarray(learner.point, dtype=np.float64)


def _set_and_chances(learner: Any, decision: Any) -> Floats:
    """The set, and the public point from which it was drawn."""
    return np.concatenate([_shown(3)(learner, decision), _chances(learner, decision)])


def _minimizers() -> Iterator[Case]:
    settings: Sequence[tuple[str, dict[str, Any], Budget, bool]] = [
        ("square root", {"sums": "sqrt"}, Budget(1.0, 1e-5), False),
        ("Laplace tree", {"sums": "tree", "noise": "laplace"}, Budget(1.0), False),
        ("spherical tree", {"sums": "tree", "noise": "spherical"}, Budget(1.0, 0.0, ADD_REMOVE), True),
    ]
    for setting, options, budget, deep in settings:

        def make(source: Source, options: dict[str, Any] = options, budget: Budget = budget) -> Any:
            return SubmodularMinimizer(3, 4, budget, seed=source, **options)

        play = served(make, _arc, publish=_set_and_chances)
        space = Space(3, 1, tuple(float(arc) for arc in range(len(_ARCS))), nobody=-1.0)
        yield _noise_case("SubmodularMinimizer", f"{setting}, 3 items", budget, space, play, deep=deep)
    for form, deep in (("values", False), ("tree", True)):
        budget = Budget(1.0)

        def bandit(source: Source, form: str = form, budget: Budget = budget) -> BanditSubmodularMinimizer:
            options: dict[str, Any] = {"batch": 2} if form == "values" else {}
            return BanditSubmodularMinimizer(
                2, 6, budget, form=form, exploration=0.5, regularization=1e3, seed=source, **options
            )

        yield _noise_case(
            "BanditSubmodularMinimizer",
            "batches of 2 costs" if form == "values" else "a tree of estimates",
            budget,
            Space(5, 1, (-1.0, 0.0, 1.0)),
            served(bandit, lambda row, _: float(row[0]), publish=_chances),
            watched=form == "values",
            twice=2 if form == "values" else 4,
            deep=deep,
        )


class _Slope:
    """A linear function of a point of the box, with the row as its gradient."""

    def __init__(self, row: Floats) -> None:
        self._row = row / max(1.0, float(np.linalg.norm(row)))

    def value(self, x: Floats) -> float:
        return float(self._row @ x)

    def gradient(self, x: Floats) -> Floats:  # noqa: ARG002
        return self._row.copy()


def _frank_wolfe() -> Iterator[Case]:
    settings: Sequence[tuple[str, dict[str, Any], Budget, bool]] = [
        ("square root", {"sums": "sqrt"}, Budget(1.0, 1e-5), False),
        ("Laplace tree", {"noise": "laplace"}, Budget(1.0), True),
    ]
    blocks = PartitionMatroid([[0, 1], [2]], 1)
    for setting, options, budget, deep in settings:

        def sets(source: Source, options: dict[str, Any] = options, budget: Budget = budget) -> Any:
            return MetaFrankWolfe(blocks, 4, budget, steps=2, seed=source, **options)

        play = served(sets, covers, publish=_set_and_chances)
        yield _noise_case("MetaFrankWolfe", f"sets, {setting}, 3 items", budget, Space(3, 3), play, deep=deep)
    budget = Budget(1.0)

    def points(source: Source) -> Any:
        return MetaFrankWolfe(
            Box([0.0, 0.0], [1.0, 1.0]), 4, budget, experts="pftal", steps=2, gradient_bound=1.0, bound=2.0,
            seed=source,
        )  # fmt: skip

    play = served(points, lambda row, _: _Slope(row), publish=_point)
    yield _noise_case("MetaFrankWolfe", "points, spherical tree", budget, Space(3, 2), play)
