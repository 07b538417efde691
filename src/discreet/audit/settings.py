"""What is audited, and in which settings: mechanisms of the gate, registered learners, offline selectors.

A new mechanism, learner or selector without a setting fails the tests.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from types import ModuleType
from typing import Any

import numpy as np

from .. import offline, online, privacy
from ..constraints import Cardinality, Constraint, Knapsack, PartitionMatroid
from ..objectives import Coverage, SetFunction
from ..offline import ContinuousGreedy, CurvatureGreedy, PrivateGreedy
from ..online import OnlineLearner
from ..online.registry import REGISTRY, AuditExample
from ..privacy import (
    Budget,
    ExponentialChoice,
    FactorizedSum,
    Gate,
    GaussianNoise,
    LaplaceNoise,
    RunningSum,
    ScoreChange,
    SphericalLaplaceNoise,
    TreeSum,
)
from .cases import Case, ChoiceCase, MixedCase, NoiseCase, Play, Played
from .faults import CHOICES_TELL, NUMBERS_TELL, PAST_THE_GATE, RETURNING, SHOWN_TELLS, TWICE
from .hooks import Floats, Source
from .measures import Pair, Space

# Whoever decides something about people does it by one of these.
_DECIDES = ("choose", "select", "fit")
# Made of learners that are audited; that nobody is in two of them is enumerated in tests.
_OF_OTHERS = ("Segments",)
# What learners are made from; these choose nothing by themselves.
_BASES = ("OnlineLearner", "OnlineSelector")


def cases() -> list[Case]:
    """Every setting that is audited."""
    return [*_mechanisms(), *_learners(), *_offline()]


def audited() -> set[str]:
    """The names that have a setting."""
    return {case.name for case in cases()}


def to_audit(*modules: ModuleType | Any) -> list[str]:
    """The public names that need an audit.

    Mechanisms are the methods of a gate that take a sensitivity. Of the classes that modules export
    (privacy, online and offline, if none are given) it is running sums and whatever chooses, selects or fits;
    abstract bases and results do neither.

    >>> "Gate.laplace" in to_audit(), "HedgeSelector" in to_audit(), "Guarantee" in to_audit()
    (True, True, False)
    """
    found = [
        f"Gate.{name}"
        for name, method in inspect.getmembers(Gate, inspect.isfunction)
        if _takes_sensitivity(method)
    ]
    for module in modules or (privacy, online, offline):
        names = [name for name in module.__all__ if name not in (*_OF_OTHERS, *_BASES)]
        found += [name for name in names if _decides(_exported(module, name))]
    return found


def missing(*modules: ModuleType | Any) -> list[str]:
    """The public names that need an audit and have none."""
    have = audited()
    return [name for name in to_audit(*modules) if name not in have]


def _takes_sensitivity(method: Any) -> bool:
    return not method.__name__.startswith("_") and "sensitivity" in inspect.signature(method).parameters


def _exported(module: Any, name: str) -> Any:
    try:
        return getattr(module, name)
    except ImportError:  # needs a package that is optional and not there
        return None


def _decides(thing: Any) -> bool:
    if not inspect.isclass(thing) or inspect.isabstract(thing) or issubclass(thing, Gate):
        return False
    if issubclass(thing, OnlineLearner) and not hasattr(thing, "_settings_type"):
        return False  # a base of learners
    return issubclass(thing, RunningSum) or any(callable(getattr(thing, name, None)) for name in _DECIDES)


def chosen(names: Iterable[str] | None, deep: bool) -> list[Case]:
    """The settings of these names (of all, if None); without ``deep`` only the quick ones."""
    everything = [case for case in cases() if deep or not case.only_deep]
    if names is None:
        return everything
    known = {case.name.lower(): case.name for case in everything}
    wanted = set()
    for name in names:
        if name.lower() not in known:
            from difflib import get_close_matches

            near = get_close_matches(name.lower(), known, n=1)
            hint = f"did you mean {known[near[0]]}?" if near else f"there are {', '.join(known.values())}"
            raise ValueError(f"{name!r} is not audited under that name; {hint}")
        wanted.add(known[name.lower()])
    return [case for case in everything if case.name in wanted]


# --- mechanisms -------------------------------------------------------------------------------------


PURE, APPROXIMATE = Budget(1.0), Budget(1.0, 1e-5)
NEIGHBOURS = ("replace", "add_remove")
CHOICE_FAULTS = ("rate doubled", "charges forgotten", "sensitivity halved")
CHOICE_SAMPLER_FAULTS = ("drawn at twice the rate", "drawn with the sign lost")
NOISE_FAULTS = ("noise halved", "charges forgotten", "sensitivity halved")
NOISE_SAMPLER_FAULTS = ("half of the noise drawn", "noise drawn with its sign lost")


def choosing(budget: Budget) -> Play:
    """Two picks, the second without the first, by the sums of people's scores in [0, 1]."""
    change = ScoreChange(1.0, one_directional=budget.neighbours == "add_remove")

    def play(stream: Floats, source: Source) -> Played:
        gate = Gate(budget, source)
        scores = stream.sum(axis=0)
        event = ExponentialChoice.within(budget.share(), change.range, 2)
        first = gate.choose(scores, event.rate, event.range)
        left = np.delete(np.arange(scores.size), first)
        second = int(left[gate.choose(scores[left], event.rate, event.range)])
        return Played((first, second), lambda: gate.spent)

    return play


def releasing(kind: str, budget: Budget, columns: int) -> Play:
    """Sums of people's vectors in [0, 1]^d, released twice, the second time doubled."""
    events: dict[str, Any] = {
        "laplace": LaplaceNoise,
        "gaussian": GaussianNoise,
        "spherical_laplace": SphericalLaplaceNoise,
    }
    most = float(columns) if kind == "laplace" else float(np.sqrt(columns)) * (1.0 + 1e-12)

    def play(stream: Floats, source: Source) -> Played:
        gate = Gate(budget, source)
        total = stream.sum(axis=0)
        event = events[kind].within(budget.share(), most, 2)
        size = event.sigma if kind == "gaussian" else event.scale
        release = getattr(gate, kind)
        published = [release(total, size, event.sensitivity) for _ in range(2)]
        return Played(published, lambda: gate.spent)

    return play


def summing(kind: type[TreeSum] | type[FactorizedSum], budget: Budget, rows: int, **options: Any) -> Play:
    """A running sum of people's vectors in [-1, 1]^d, shortened to length 1."""

    def play(stream: Floats, source: Source) -> Played:
        gate = Gate(budget, source)
        total = kind(stream.shape[1], rows, gate, norm_bound=1.0, clip=True, **options)
        published = [total.add(vector) for vector in stream]
        return Played(published, lambda: gate.spent)

    return play


def one_number(kind: str, budget: Budget) -> tuple[Play, Callable[[Floats, int, Source], Floats]]:
    """A single number released once, and the same for many numbers at once, each of them somebody's own."""
    events: dict[str, Any] = {"laplace": LaplaceNoise, "gaussian": GaussianNoise}

    def released(values: Floats, source: Source) -> tuple[Any, Gate]:
        gate = Gate(budget, source)
        event = events[kind].within(budget.share(), 1.0)
        size = event.sigma if kind == "gaussian" else event.scale
        return getattr(gate, kind)(values, size, event.sensitivity, changed=1), gate

    def play(stream: Floats, source: Source) -> Played:
        published, gate = released(stream.sum(axis=0), source)
        return Played([published], lambda: gate.spent)

    def many(stream: Floats, runs: int, source: Source) -> Floats:
        published, _ = released(np.full(runs, stream.sum()), source)
        return np.asarray(published, dtype=np.float64)

    return play, many


def _mechanisms() -> list[Case]:
    """Every mechanism of the gate, and every kind of running sum."""
    return [*_gate_choices(), *_numbers(), *_releases(), *_sums()]


def _gate_choices() -> Iterator[Case]:
    for neighbours in NEIGHBOURS:
        for delta in (0.0, 1e-2):
            budget = Budget(2.0, delta, neighbours)
            yield ChoiceCase(
                "Gate.choose",
                "two picks of 3 candidates" + (", with a delta" if delta else ""),
                budget,
                Space(7, 3),
                choosing(budget),
                (*CHOICE_FAULTS, *CHOICE_SAMPLER_FAULTS, CHOICES_TELL),
                runs=3,
                only_deep=bool(delta) or neighbours == "add_remove",
            )


def _numbers() -> Iterator[Case]:
    for kind in ("laplace", "gaussian"):
        budget = PURE if kind == "laplace" else APPROXIMATE
        play, many = one_number(kind, budget)
        faults = (*NOISE_FAULTS, *NOISE_SAMPLER_FAULTS, NUMBERS_TELL)
        yield NoiseCase(f"Gate.{kind}", "one number", budget, Space(1, 1), play, faults, 4, many=many)


def _releases() -> Iterator[Case]:
    for kind, neighbours in product(("laplace", "gaussian", "spherical_laplace"), NEIGHBOURS):
        budget = Budget(1.0, 1e-5 if kind == "gaussian" else 0.0, neighbours)
        yield NoiseCase(
            f"Gate.{kind}",
            "two releases of 2 sums",
            budget,
            Space(3, 2),
            releasing(kind, budget, 2),
            (*NOISE_FAULTS, *NOISE_SAMPLER_FAULTS, NUMBERS_TELL),
            runs=4,
            only_deep=neighbours == "add_remove" or kind != "spherical_laplace",
        )


def _sums() -> Iterator[Case]:
    kinds: list[tuple[str, str, type[Any], dict[str, Any]]] = [
        ("TreeSum", "Gaussian noise", TreeSum, {"noise": "gaussian"}),
        (
            "TreeSum",
            "Gaussian noise, blocks combined",
            TreeSum,
            {"noise": "gaussian", "variance_reduction": True},
        ),
        ("TreeSum", "Laplace noise", TreeSum, {"noise": "laplace"}),
        ("TreeSum", "spherical noise", TreeSum, {"noise": "spherical"}),
        ("FactorizedSum", "square root", FactorizedSum, {"method": "sqrt"}),
        ("FactorizedSum", "few buffers", FactorizedSum, {"method": "blt"}),
    ]
    for (name, setting, kind, options), neighbours in product(kinds, NEIGHBOURS):
        delta = 0.0 if options.get("noise") in ("laplace", "spherical") else 1e-5
        budget = Budget(1.0, delta, neighbours)
        yield NoiseCase(
            name,
            f"{setting}, 5 vectors of 2 numbers",
            budget,
            Space(5, 2, (-1.0, 0.0, 1.0)),
            summing(kind, budget, 5, **options),
            (*NOISE_FAULTS, *NOISE_SAMPLER_FAULTS, TWICE, NUMBERS_TELL),
            twice=3,
            only_deep=neighbours == "add_remove",
        )


# --- learners ---------------------------------------------------------------------------------------


# To prove an epsilon from outputs takes some 30 e^epsilon runs, however gross the error.
_MOST_PROVABLE = 5.0
_TOO_MUCH = (
    "Outputs alone cannot reject this setting: to prove more than its large claim takes some 30 e^epsilon"
    " runs of each world, even with no noise at all. Smaller claims of the same learner are put to that test."
)


def _learners() -> list[Case]:
    """Every learner, in one setting at least that is quick."""
    return [case for name in REGISTRY for case in cases_of(name)]


def cases_of(name: str) -> Iterator[Case]:
    """The settings of one registered learner."""
    entry = REGISTRY[name]
    for example in entry.audits():
        play = _play(name, example, _FEEDBACK[entry.feedback])
        shape = (example.rows, example.columns * example.visits)
        space = Space(*shape, example.values, nobody=example.nobody)
        make = _choice_case if example.mechanism == "choices" else _noise_case
        yield make(name, example, space, play)


def _choice_case(name: str, example: AuditExample, space: Space, play: Play) -> Case:
    faults = (*CHOICE_FAULTS, CHOICE_SAMPLER_FAULTS[0]) if example.faults is None else tuple(example.faults)
    provable = example.budget.epsilon <= _MOST_PROVABLE
    also = (() if example.twice is None else (TWICE,)) + ((CHOICES_TELL,) if provable else ())
    return ChoiceCase(
        name,
        example.words,
        example.budget,
        space,
        play,
        (*faults, *also),
        twice=example.twice,
        only_deep=example.deep,
        public=example.public,
        unseen=() if provable else (_TOO_MUCH,),
    )


def _noise_case(name: str, example: AuditExample, space: Space, play: Play) -> Case:
    watched = example.mechanism == "batches"
    faults = NOISE_FAULTS if example.faults is None else tuple(example.faults)
    outputs = (SHOWN_TELLS,) if watched else (NUMBERS_TELL, SHOWN_TELLS, PAST_THE_GATE)
    more = (TWICE,) if example.visits == 1 else tuple(RETURNING)
    return NoiseCase(
        name,
        example.words,
        example.budget,
        space,
        play,
        (*faults, *more, NOISE_SAMPLER_FAULTS[0], *outputs),
        twice=2 if example.twice is None else example.twice,
        only_deep=example.deep,
        public=example.public,
        watched=watched,
    )


def _play(name: str, example: AuditExample, feedback: Callable[[Any, Floats, Any], Any]) -> Play:
    """A round per row, and one more decision at the end; published is what the setting says.

    With several visits everybody comes once, then everybody comes again.
    """
    publish = _PUBLISH[example.publishes]

    def play(stream: Floats, source: Source) -> Played:
        learner = example.make(REGISTRY[name].kind(name), seed=source)
        decisions = []
        for visit, row in enumerate(np.concatenate(np.split(stream, example.visits, axis=1))):
            decision = learner.choose()
            decisions.append(None if example.publishes == "state" else publish(learner, decision))
            who = None if example.visits == 1 else visit % len(stream)
            learner.learn(feedback(learner, row, decision), person_id=who)
        decisions.append(publish(learner, learner.choose()))
        published = decisions[-1:] if example.publishes == "state" else decisions
        return Played(published, lambda: learner.privacy)

    return play


# --- feedback of people ---------------------------------------------------------------------------


@lru_cache(maxsize=256)
def _fan(*likes: float) -> Coverage:
    return Coverage([likes])


def _covers(_: Any, row: Floats, __: Any) -> Coverage:
    """Somebody who likes the items whose numbers are 1."""
    return _fan(*row.tolist())


def _reward(learner: Any, row: Floats, decision: Any) -> Any:
    """What the set was worth; or, with slot feedback, which item was taken, if any."""
    if learner.feedback == "set":
        return float(row[0])
    return None if row[0] < 0 else int(decision.items[int(row[0])])


def _number(_: Any, row: Floats, __: Any) -> float:
    return float(row[0])


def _vector(_: Any, row: Floats, __: Any) -> Floats:
    return row


def _line(_: Any, row: Floats, __: Any) -> Any:
    """A linear cost in the direction of the row, of length at most 1."""
    gradient = row / max(1.0, float(np.linalg.norm(row)))
    return (lambda _: 0.0), (lambda _: gradient)


_ARCS = ((0, 1), (0, 2), (1, 2), (1, 0), (2, 0), (2, 1))


def _arc(_: Any, row: Floats, __: Any) -> SetFunction:
    """Costs of 1 where a set has one of two items without the other, and -1 elsewhere; 0 for nobody."""
    if row[0] < 0.0:
        return SetFunction(lambda _: 0.0, 3, bound=1.0)
    tail, head = _ARCS[int(row[0])]
    return SetFunction(lambda items: 1.0 if tail in items and head not in items else -1.0, 3, bound=1.0)


class _Linear:
    """A linear function of a point of the box, with the row as its gradient."""

    def __init__(self, row: Floats) -> None:
        self._row = row / max(1.0, float(np.linalg.norm(row)))

    def value(self, x: Floats) -> float:
        return float(self._row @ x)

    def gradient(self, x: Floats) -> Floats:  # noqa: ARG002
        return self._row.copy()


_FEEDBACK: dict[str, Callable[[Any, Floats, Any], Any]] = {
    "function": _covers,
    "reward": _reward,
    "dr_function": lambda _, row, __: _Linear(row),
    "loss": _line,
    "cost_vector": _vector,
    "cost": _number,
    "set_cost": _arc,
    "shown_set_cost": _number,
}


# --- what is published ----------------------------------------------------------------------------


def _items(_: Any, decision: Any) -> Any:
    return decision.items


def _set(learner: Any, decision: Any) -> Floats:
    """A set as a vector, for scores of outputs."""
    row = np.zeros(learner.n_items)
    row[list(decision.items)] = 1.0
    return row


def _point(_: Any, decision: Any) -> Floats:
    return np.asarray(decision, dtype=np.float64)


def _chances(learner: Any, _: Any) -> Floats:
    return np.asarray(learner.point, dtype=np.float64)


def _both(learner: Any, decision: Any) -> Floats:
    """The set, and the public point from which it was drawn."""
    return np.concatenate([_set(learner, decision), _chances(learner, decision)])


_DRAWN = ("_lists", "_current", "_sets", "shown")


def _kept(learner: OnlineLearner, decision: Any) -> list[float]:  # noqa: ARG001
    """Everything that a saved learner knows: all that any later decision can depend on.

    Sets that were drawn are left out: they follow from the released numbers, by public randomness, and differ
    by whole items where these differ by a hair.
    """
    # As they are handed over to be written: a file takes longer than all rounds of a setting.
    _, arrays = learner._saved()
    # Noise that was drawn ahead has been seen by nobody.
    ahead = [name for name in arrays if name.split(".")[-1] in ("_kept_noise", *_DRAWN)]
    kept = sorted(name for name in arrays if name not in ahead)
    numbers = [np.asarray(arrays[name], dtype=np.float64).ravel() for name in kept]
    return np.concatenate(numbers).tolist() if numbers else []


_PUBLISH: dict[str, Callable[[Any, Any], Any]] = {
    "items": _items,
    "set": _set,
    "point": _point,
    "chances": _chances,
    "both": _both,
    "state": _kept,
}


# --- offline selectors ------------------------------------------------------------------------------


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


def _offline() -> list[Case]:
    """Every selector, in one setting at least that is quick."""
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
            selector = kind(constraint, budget, steps, max_people=8, seed=source)
            point = selector.fractional(crowd(stream))
            return Played(point, lambda: selector.privacy)

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
            selector = kind(Cardinality(1), budget, 2, noise=noise, max_people=8, seed=source)
            point = selector.fractional(crowd(stream))
            return Played([point], lambda: selector.privacy)

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
            selector = PrivateItemSelector(
                2,
                budget.epsilon,
                budget.delta,
                method="basic",
                random_state=source,  # type: ignore[arg-type]
            )
            chosen = selector.fit(stream)
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
            selector = PrivateFeatureSelector(
                1,
                budget.epsilon,
                objective=objective,
                bounds=(0.0, 1.0),
                classes=[0.0, 1.0],
                bins=2,
                random_state=source,  # type: ignore[arg-type]
            )
            chosen = selector.fit(stream[:, :-1], stream[:, -1])
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
