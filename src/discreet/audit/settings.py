"""The settings of audits: mechanisms of the gate, registered learners, offline selectors.

A new mechanism, learner or selector without a setting fails the tests.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache, partial
from itertools import chain, product
from types import ModuleType
from typing import Any, cast, get_args

import numpy as np

from .. import offline, online, privacy
from ..constraints import Cardinality, Constraint, Knapsack, PartitionMatroid
from ..core.options import Adjacency, ContinuousNoise, GreedyMethod
from ..objectives import Coverage, SetFunction
from ..offline import ContinuousGreedy, CurvatureGreedy, PrivateGreedy, PrivateRecommender
from ..online import OnlineLearner
from ..online.registry import REGISTRY, AuditExample, learners
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
from .hooks import AuditRandomness, Floats
from .measures import Pair, Space

# The methods by which classes make decisions about people.
_DECIDES = ("choose", "select", "fit")
# Composed of audited learners; tests enumerate their composition.
_OF_OTHERS = ("Segments", "Experts")
# Base classes of learners, which choose nothing by themselves.
_BASES = ("OnlineLearner", "OnlineSelector")


def cases() -> list[Case]:
    """All audited settings: for each name, at least one that is quick."""
    mechanisms = (_gate_choices(), _numbers(), _releases(), _sums())
    online = (cases_of(name) for name in learners())
    selectors = (_greedy(), _many_picks(), _gains(), _continuous(), _recommenders(), _estimators())
    return list(chain(*mechanisms, *online, *selectors))


def audited() -> set[str]:
    """The names that have a setting."""
    return {case.name for case in cases()}


def to_audit(*modules: ModuleType | Any) -> list[str]:
    """The public names that need an audit.

    Mechanisms are the methods of a gate that take a sensitivity. Of the classes that modules export
    (privacy, online and offline, if none are given), they are running sums and those that choose, select or
    fit; abstract bases and results do neither.

    >>> "Gate.laplace" in to_audit(), "HedgeSelector" in to_audit(), "Guarantee" in to_audit()
    (True, True, False)
    """
    found = [
        f"Gate.{name}"
        for name, method in inspect.getmembers(Gate, inspect.isfunction)
        if not name.startswith("_") and "sensitivity" in inspect.signature(method).parameters
    ]
    for module in modules or (privacy, online, offline):
        names = [name for name in module.__all__ if name not in (*_OF_OTHERS, *_BASES)]
        found += [name for name in names if _decides(_exported(module, name))]
    return found


def missing(*modules: ModuleType | Any) -> list[str]:
    """The public names that need an audit and have no setting."""
    have = audited()
    return [name for name in to_audit(*modules) if name not in have]


def _exported(module: Any, name: str) -> Any:
    try:
        return getattr(module, name)
    except ImportError:  # needs an optional package that is not installed
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


ADD_REMOVE: Adjacency = "add_remove"
NEIGHBOURS: tuple[Adjacency, ...] = get_args(Adjacency)
CHOICE_FAULTS = ("rate doubled", "charges forgotten", "sensitivity halved")
CHOICE_SAMPLER_FAULTS = ("drawn at twice the rate", "drawn with the sign lost")
NOISE_FAULTS = ("noise halved", "charges forgotten", "sensitivity halved")
NOISE_SAMPLER_FAULTS = ("half of the noise drawn", "noise drawn with its sign lost")


def choosing(budget: Budget) -> Play:
    """Two picks without replacement, by the sums of people's scores in [0, 1]."""
    change = ScoreChange(1.0, one_directional=budget.neighbours == ADD_REMOVE)

    def play(stream: Floats, source: AuditRandomness) -> Played:
        gate = Gate(budget, source)
        scores = stream.sum(axis=0)
        event = ExponentialChoice.within(budget.share(), change.range, 2)
        first = gate.choose(scores, event.rate, event.range)
        left = np.delete(np.arange(scores.size), first)
        second = int(left[gate.choose(scores[left], event.rate, event.range)])
        return Played((first, second), lambda: gate.spent)

    return play


_EVENTS: dict[str, Any] = {
    "laplace": LaplaceNoise,
    "gaussian": GaussianNoise,
    "spherical_laplace": SphericalLaplaceNoise,
}


def _calibrated(kind: str, budget: Budget, moves: float, count: int) -> tuple[float, float]:
    """The size of the noise of ``count`` releases that a person changes by ``moves``, and the sensitivity."""
    event = _EVENTS[kind].within(budget.share(), moves, count)
    return (event.sigma if kind == "gaussian" else event.scale), event.sensitivity


def releasing(kind: str, budget: Budget, columns: int) -> Play:
    """Sums of people's vectors in [0, 1]^d, released twice."""
    most = float(columns) if kind == "laplace" else float(np.sqrt(columns)) * (1.0 + 1e-12)

    def play(stream: Floats, source: AuditRandomness) -> Played:
        gate = Gate(budget, source)
        size = _calibrated(kind, budget, most, 2)
        published = [getattr(gate, kind)(stream.sum(axis=0), *size) for _ in range(2)]
        return Played(published, lambda: gate.spent)

    return play


def summing(kind: type[TreeSum] | type[FactorizedSum], budget: Budget, rows: int, **options: Any) -> Play:
    """A running sum of people's vectors in [-1, 1]^d, clipped to norm 1."""

    def play(stream: Floats, source: AuditRandomness) -> Played:
        gate = Gate(budget, source)
        total = kind(stream.shape[1], rows, gate, norm_bound=1.0, clip=True, **options)
        published = [total.add(vector) for vector in stream]
        return Played(published, lambda: gate.spent)

    return play


def one_number(kind: str, budget: Budget) -> tuple[Play, Callable[[Floats, int, AuditRandomness], Floats]]:
    """A single number released once, and the same for many numbers at once, each of another person."""

    def released(values: Floats, source: AuditRandomness) -> tuple[Any, Gate]:
        gate = Gate(budget, source)
        return getattr(gate, kind)(values, *_calibrated(kind, budget, 1.0, 1), changed=1), gate

    def play(stream: Floats, source: AuditRandomness) -> Played:
        published, gate = released(stream.sum(axis=0), source)
        return Played([published], lambda: gate.spent)

    def many(stream: Floats, runs: int, source: AuditRandomness) -> Floats:
        published, _ = released(np.full(runs, stream.sum()), source)
        return np.asarray(published, dtype=np.float64)

    return play, many


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
                run_factor=3,
                only_deep=bool(delta) or neighbours == ADD_REMOVE,
            )


def _numbers() -> Iterator[Case]:
    for kind in ("laplace", "gaussian"):
        budget = Budget(1.0, 1e-5 if kind == "gaussian" else 0.0)
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
            run_factor=4,
            only_deep=neighbours == ADD_REMOVE or kind != "spherical_laplace",
        )


def _sums() -> Iterator[Case]:
    combined = {"noise": "gaussian", "variance_reduction": True}
    kinds: list[tuple[type[Any], str, dict[str, Any]]] = [
        (TreeSum, "Gaussian noise", {"noise": "gaussian"}),
        (TreeSum, "Gaussian noise, blocks combined", combined),
        (TreeSum, "Laplace noise", {"noise": "laplace"}),
        (TreeSum, "spherical noise", {"noise": "spherical"}),
        (FactorizedSum, "square root", {"method": "sqrt"}),
        (FactorizedSum, "few buffers", {"method": "blt"}),
    ]
    for (kind, setting, options), neighbours in product(kinds, NEIGHBOURS):
        delta = 0.0 if options.get("noise") in ("laplace", "spherical") else 1e-5
        budget = Budget(1.0, delta, neighbours)
        yield NoiseCase(
            kind.__name__,
            f"{setting}, 5 vectors of 2 numbers",
            budget,
            Space(5, 2, (-1.0, 0.0, 1.0)),
            summing(kind, budget, 5, **options),
            (*NOISE_FAULTS, *NOISE_SAMPLER_FAULTS, TWICE, NUMBERS_TELL),
            twice=3,
            only_deep=neighbours == ADD_REMOVE,
        )


# --- learners ---------------------------------------------------------------------------------------


# Proving an epsilon from outputs takes some 30 e^epsilon runs, even for gross errors.
_MOST_PROVABLE = 5.0
_TOO_MUCH = (
    "Outputs alone cannot reject this setting: to prove more than its large claim takes some 30 e^epsilon"
    " runs of each world, even with no noise at all. Smaller claims of the same learner are put to that test."
)


def cases_of(name: str) -> Iterator[Case]:
    """The settings of one registered learner."""
    entry = REGISTRY[name]
    for example in entry.audits:
        play = _play(name, example, _FEEDBACK[entry.learns_from])
        shape = (example.rows, example.columns * example.visits)
        space = Space(*shape, example.values, nobody=example.nobody)
        choices, watched = example.mechanism == "choices", example.mechanism == "batches"
        usual = (*CHOICE_FAULTS, CHOICE_SAMPLER_FAULTS[0]) if choices else NOISE_FAULTS
        faults = usual if example.faults is None else tuple(example.faults)
        setting = (name, example.words, example.budget, space, play)
        options: dict[str, Any] = {"only_deep": example.deep, "public": example.public}
        if choices:
            provable = example.budget.epsilon <= _MOST_PROVABLE
            faults += () if example.twice is None else (TWICE,)
            faults += (CHOICES_TELL,) if provable else ()
            unseen = () if provable else (_TOO_MUCH,)
            yield ChoiceCase(*setting, faults, twice=example.twice, unseen=unseen, **options)
        elif example.mechanism == "mixed":
            yield MixedCase(*setting, (*faults, NOISE_SAMPLER_FAULTS[0], CHOICES_TELL), **options)
        else:
            faults += (TWICE,) if example.visits == 1 else tuple(RETURNING)
            outputs = (SHOWN_TELLS,) if watched else (NUMBERS_TELL, SHOWN_TELLS, PAST_THE_GATE)
            faults += (NOISE_SAMPLER_FAULTS[0], *outputs)
            twice = 2 if example.twice is None else example.twice
            yield NoiseCase(*setting, faults, twice=twice, watched=watched, **options)


def _play(name: str, example: AuditExample, feedback: Callable[[Any, Floats, Any], Any]) -> Play:
    """One round per row, and one more decision at the end; ``example.publishes`` names the output.

    With several visits, everybody comes once, then everybody comes again.
    """
    publish = _PUBLISH[example.publishes]

    def play(stream: Floats, source: AuditRandomness) -> Played:
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
def _crowd(columns: int, *numbers: float) -> Coverage:
    return Coverage(np.reshape(numbers, (-1, columns)))


def _covers(_: Any, row: Floats, __: Any) -> Coverage:
    """A person who likes the items whose numbers are 1."""
    return _crowd(row.size, *row.tolist())


def _reward(learner: Any, row: Floats, decision: Any) -> Any:
    """The value of the set or, with slot feedback, the item that was taken, if any."""
    if learner.feedback == "bandit":
        return float(row[0])
    return None if row[0] < 0 else int(decision.items[int(row[0])])


def _number(_: Any, row: Floats, __: Any) -> float:
    return float(row[0])


_ARCS = ((0, 1), (0, 2), (1, 2), (1, 0), (2, 0), (2, 1))


def _arc(_: Any, row: Floats, __: Any) -> SetFunction:
    """Cost 1 of sets that have the first of two items without the second, else -1; 0 for nobody."""
    if row[0] < 0.0:
        return SetFunction(lambda _: 0.0, 3, bound=1.0)
    tail, head = _ARCS[int(row[0])]
    return SetFunction(lambda items: 1.0 if tail in items and head not in items else -1.0, 3, bound=1.0)


class _Linear:
    """A linear function of a point of the box; its gradient is the row, scaled to norm at most 1."""

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
    "loss": lambda _, row, __: ((lambda _: 0.0), _Linear(row).gradient),
    "cost_vector": lambda _, row, __: row,
    "cost": _number,
    "set_cost": _arc,
    "shown_set_cost": _number,
}


# --- what is published ----------------------------------------------------------------------------


def _set(learner: Any, decision: Any) -> Floats:
    """A set as an indicator vector, for scores of outputs."""
    row = np.zeros(learner.n_items)
    row[list(decision.items)] = 1.0
    return row


def _chances(learner: Any, _: Any) -> Floats:
    return np.asarray(learner.point, dtype=np.float64)


_DRAWN = ("_lists", "_current", "_sets", "shown")


def _kept(learner: OnlineLearner, decision: Any) -> list[float]:  # noqa: ARG001
    """All state of a saved learner that a later decision can depend on.

    Sets that were drawn are left out: they follow from the released numbers by public randomness, and can
    differ by entire items if these differ slightly.
    """
    # The arrays before they are written: a file would take longer than all rounds of a setting.
    _, arrays = learner._saved()
    # Noise that was drawn ahead is not an output yet.
    ahead = [name for name in arrays if name.split(".")[-1] in ("_kept_noise", *_DRAWN)]
    kept = sorted(name for name in arrays if name not in ahead)
    numbers = [np.asarray(arrays[name], dtype=np.float64).ravel() for name in kept]
    return np.concatenate(numbers).tolist() if numbers else []


_PUBLISH: dict[str, Callable[[Any, Any], Any]] = {
    "items": lambda _, decision: decision.items,
    "sets": lambda learner, _: (learner._sets.tolist(), learner._votes.credit.tolist()),
    "credit": lambda learner, decision: (decision.items, learner._votes.credit.tolist()),
    "set": _set,
    "point": lambda _, decision: np.asarray(decision, dtype=np.float64),
    "chances": _chances,
    "both": lambda learner, decision: np.concatenate([_set(learner, decision), _chances(learner, decision)]),
    "state": _kept,
}


# --- offline selectors ------------------------------------------------------------------------------


# A row of these numbers stands for nobody, and is removed.
_ABSENT = -1.0


def present(stream: Floats) -> Floats:
    """The rows of people who are present."""
    there: Floats = stream[(stream != _ABSENT).any(axis=1)]
    return there


def selecting(make: Callable[..., Any], publish: Callable[[Any, Coverage], Any]) -> Play:
    """A new selector per run, and what is published of its choice for people who like some items."""

    def play(stream: Floats, source: AuditRandomness) -> Played:
        selector, rows = make(seed=source), present(stream)
        people = _crowd(rows.shape[1], *rows.ravel().tolist())
        return Played(publish(selector, people), lambda: selector.privacy)

    return play


def _picked(selector: Any, people: Coverage) -> Any:
    return selector.select(people).items


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
    """`PrivateGreedy` by each of its methods, with few enough people and items to enumerate all picks."""
    one, pair = Cardinality(1), Cardinality(2)
    knapsack, all_large = Knapsack([0.6, 0.3, 0.3], 1.0), Knapsack([0.6, 0.6, 0.6], 1.0)
    # Without a doubled rate: see `_FEW_PICKS`.
    decomposable = ("charges forgotten", CHOICE_SAMPLER_FAULTS[1], CHOICES_TELL)
    settings: list[tuple[GreedyMethod, str, Constraint, Budget, tuple[int, int], tuple[str, ...], bool]] = [
        # method, description, constraint, budget, (people, items), injected faults, in deep audits only
        ("basic", "2 of 3 items", pair, Budget(2.0), (6, 3), _PICKS, False),
        ("zcdp", "2 of 3 items", pair, Budget(2.0, 0.05, ADD_REMOVE), (4, 3), _PICKS, True),
        ("exact", "2 of 3 items", pair, Budget(2.0, 0.05), (6, 3), _PICKS, False),
        ("decomposable", "2 of 3 items", pair, Budget(2.0, 0.05), (4, 3), decomposable, False),
        ("subsampled", "1 of 8 items", one, Budget(1.0, 0.0, ADD_REMOVE), (2, 8), _SAMPLED, False),
        ("subsampled", "2 of 5 items", pair, Budget(0.5, 0.0, ADD_REMOVE), (2, 5), _SAMPLED, True),
        ("subsampled", "1 of 8 items", one, Budget(1.0), (2, 8), _SAMPLED, True),
        ("basic", "a knapsack of 3 items", knapsack, Budget(4.0, 0.0, ADD_REMOVE), (4, 3), _PICKS, True),
        ("basic", "a knapsack of 3 large items", all_large, Budget(4.0), (4, 3), _PICKS, True),
    ]
    for method, words, constraint, budget, shape, faults, deep in settings:
        yield ChoiceCase(
            "PrivateGreedy",
            f"{method}, {words}",
            budget,
            Space(*shape, nobody=_ABSENT),
            selecting(partial(PrivateGreedy, constraint, budget, method, max_people=8), _picked),
            faults,
            only_deep=deep,
            unseen=(_FEW_PICKS,) if method == "decomposable" else (),
        )


def _many_picks() -> Iterator[Case]:
    """Enough picks to exhaust an account that is valid for any number; all but the first item are alike."""
    budget, items, picks = Budget(2.0, 0.05, ADD_REMOVE), 16, 14
    greedy = selecting(partial(PrivateGreedy, picks, budget, "decomposable", max_people=8), _picked)

    def play(stream: Floats, source: AuditRandomness) -> Played:
        played = greedy(np.repeat(stream, [1, items - 1], axis=1), source)
        chosen = played.published
        return Played(chosen.index(0) if 0 in chosen else picks, played.account)

    def alike(taken: tuple[int, ...], size: int) -> list[list[int]]:
        """Until the first item is taken, it is the first of those that are left, and the others are alike."""
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
    """Picks, and the noisy marginal gain of each."""
    doubled = ("rate doubled",)
    settings: Sequence[tuple[GreedyMethod, int, int, Budget, int, tuple[str, ...], bool]] = [
        # method, picks, items, budget, people, what else has to be noticed, only when deep
        ("basic", 1, 5, Budget(2.0, 0.0, ADD_REMOVE), 3, doubled, False),
        ("basic", 2, 3, Budget(4.0), 4, (), True),
        ("subsampled", 1, 5, Budget(2.0, 0.0, ADD_REMOVE), 2, _SAMPLED[:2], True),
        ("zcdp", 2, 3, Budget(2.0, 0.2), 4, doubled, True),
    ]
    usual = ("noise halved", "charges forgotten", "range of scores halved", CHOICE_SAMPLER_FAULTS[1],
             NOISE_SAMPLER_FAULTS[0], CHOICES_TELL, NUMBERS_TELL)  # fmt: skip
    for method, picks, items, budget, rows, also, deep in settings:
        make = partial(PrivateGreedy, picks, budget, method, release_gains=0.5, max_people=8)
        yield MixedCase(
            "PrivateGreedy",
            f"{method}, {picks} of {items} items and what they gain",
            budget,
            Space(rows, items, nobody=_ABSENT),
            selecting(make, _picked),
            (*also, *usual),
            only_deep=deep,
            unseen=() if also else (_TWO_PICKS,),
        )


def _continuous() -> Iterator[Case]:
    """Two steps of each continuous greedy algorithm, by picks and by noisy gradients."""
    one, pair, blocks = Cardinality(1), Cardinality(2), PartitionMatroid([[0, 1], [2]], 1)
    settings: Sequence[tuple[type[ContinuousGreedy], ContinuousNoise, str, Constraint, Budget, bool]] = [
        # class, noise, in words, constraint, budget, only when deep
        (ContinuousGreedy, "exponential", "1 of 3 items", one, Budget(2.0), False),
        (CurvatureGreedy, "exponential", "1 of 3 items", one, Budget(2.0), False),
        (ContinuousGreedy, "exponential", "one of each block", blocks, Budget(2.0, 0.05, ADD_REMOVE), True),
        (CurvatureGreedy, "exponential", "2 of 3 items", pair, Budget(2.0, 0.0, ADD_REMOVE), True),
        (ContinuousGreedy, "gaussian", "1 of 3 items", one, Budget(1.0, 1e-5), False),
        (ContinuousGreedy, "laplace", "1 of 3 items", one, Budget(1.0), True),
        (CurvatureGreedy, "laplace", "1 of 3 items", one, Budget(1.0, 0.0, ADD_REMOVE), True),
        (CurvatureGreedy, "gaussian", "1 of 3 items", one, Budget(1.0, 1e-5), True),
    ]
    chosen = (*CHOICE_FAULTS, CHOICE_SAMPLER_FAULTS[0], CHOICES_TELL)
    noisy = (*NOISE_FAULTS, NOISE_SAMPLER_FAULTS[0], NUMBERS_TELL, SHOWN_TELLS, PAST_THE_GATE)
    for kind, noise, words, constraint, budget, deep in settings:
        picks = noise == "exponential"
        make = partial(kind, constraint, budget, 2, noise=cast(Any, noise), max_people=8)
        yield (ChoiceCase if picks else NoiseCase)(
            kind.__name__,
            f"{'picks' if picks else f'{noise} gradient'}, {words}, 2 steps",
            budget,
            Space(6 if picks else 4, 3, nobody=_ABSENT),
            selecting(make, lambda selector, people: [selector.fractional(people)]),
            chosen if picks else noisy,
            only_deep=deep,
        )


def recommending(make: Callable[..., Any], crowd: int) -> Play:
    """A recommender fitted to people and a fixed crowd; it publishes popularity, scores and its size."""

    def play(stream: Floats, source: AuditRandomness) -> Played:
        rows = present(stream)
        beside = np.tile(np.eye(rows.shape[1]), (crowd // rows.shape[1], 1))
        fitted = make(seed=source).fit(Coverage(np.concatenate([beside, rows])))
        known = [fitted.popularity, fitted.scores([0]), [fitted.n_people]]
        return Played(known, lambda: fitted.privacy)

    return play


def _recommenders() -> Iterator[Case]:
    """Popularity alone, for too few people for pairs; and popularity with pairs."""
    faults = (*NOISE_FAULTS, NOISE_SAMPLER_FAULTS[0], NUMBERS_TELL, SHOWN_TELLS, PAST_THE_GATE)
    for budget, crowd, options, words, deep in (
        (Budget(1.0, 1e-5), 0, {}, "popularity of 3 items", True),
        (Budget(1.0, 1e-5), 3000, {}, "pairs of 3 items", False),
        (Budget(1.0, 1e-5, ADD_REMOVE), 3000, {"max_people": 3010}, "pairs of 3 items", True),
        (Budget(1.0, 1e-5, ADD_REMOVE), 3000, {}, "pairs of 3 items, people counted", True),
    ):
        make = partial(PrivateRecommender, budget, **options)
        space = Space(2, 3, (0.0, 1.0), nobody=_ABSENT)
        yield NoiseCase(
            "PrivateRecommender", words, budget, space, recommending(make, crowd), faults, only_deep=deep
        )


def fitting(make: Callable[..., Any], given: Callable[[Floats], tuple[Floats, ...]]) -> Play:
    """An estimator with scikit-learn's interface, fitted to what ``given`` makes of people's numbers."""

    def play(stream: Floats, source: AuditRandomness) -> Played:
        fitted = make(random_state=source).fit(*given(stream))
        return Played(fitted.selection_.items, lambda: fitted.privacy_)

    return play


def _estimators() -> Iterator[Case]:
    try:
        from ..offline import PrivateFeatureSelector, PrivateItemSelector
    except ImportError:  # scikit-learn is optional, and without it there is nothing here to audit
        return
    for budget, deep in ((Budget(2.0), False), (Budget(2.0, 0.05), True)):
        items = partial(PrivateItemSelector, 2, budget.epsilon, budget.delta, method="basic")
        yield ChoiceCase(
            "PrivateItemSelector",
            "2 of 3 columns",
            budget,
            Space(6, 3),
            fitting(items, lambda stream: (stream,)),
            (*_PICKS[:3], CHOICE_SAMPLER_FAULTS[1], CHOICES_TELL),
            only_deep=deep,
        )
    # A person alone in their class, with only the first feature 1, or only the others: the largest change.
    alone = np.array([1.0, 0.0, 0.0, 0.0, 1.0])
    start = Pair(np.zeros((8, 5)), alone, np.where(np.arange(5) < 4, 1.0 - alone, 1.0), (0,))
    labelled: dict[str, Any] = {"bounds": (0.0, 1.0), "classes": [0.0, 1.0], "bins": 2}
    for objective, faults, deep in (
        ("covariance", (*CHOICE_FAULTS, CHOICE_SAMPLER_FAULTS[1], CHOICES_TELL), False),
        ("threshold", (*CHOICE_FAULTS, CHOICE_SAMPLER_FAULTS[1], CHOICES_TELL), True),
        ("mutual_information", ("rate doubled", "charges forgotten", CHOICES_TELL), True),
    ):
        features = partial(PrivateFeatureSelector, 1, 2.0, **labelled | {"objective": objective})
        yield ChoiceCase(
            "PrivateFeatureSelector",
            f"{objective.replace('_', ' ')}, 1 of 4 features",
            Budget(2.0),
            Space(8, 5),
            fitting(features, lambda stream: (stream[:, :-1], stream[:, -1])),
            faults,
            only_deep=deep,
            starts=(start,),
        )
