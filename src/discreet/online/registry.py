"""Every online learner: its module, what it learns from, and the settings that an audit enumerates.

The package's exports, the audit, simulations, tests and documentation are generated from this list.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache, partial
from importlib import import_module
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, Literal, get_args

from ..constraints import PartitionMatroid
from ..constraints.domains import Ball, Box, Simplex
from ..core import checks
from ..core.options import Adjacency
from ..privacy import Budget

if TYPE_CHECKING:
    from .learner import OnlineLearner

# What `learn` takes from a person.
LearnsFrom = Literal[
    "function",  # a monotone set function
    "reward",  # the value of the shown set, or the marginal gain of each of its items
    "dr_function",  # a monotone DR-submodular function of points
    "loss",  # a convex cost of points, with its gradient
    "cost_vector",  # the cost of each coordinate
    "cost",  # the cost of the shown point
    "set_cost",  # a submodular cost of sets
    "shown_set_cost",  # the cost of the shown set
]


@dataclass(frozen=True)
class Example:
    """A small configuration of a learner: the arguments before the budget, the budget, and options."""

    arguments: tuple[Any, ...]
    budget: Budget
    options: Mapping[str, Any] = field(default_factory=dict)

    def make(self, kind: Callable[..., OnlineLearner], seed: Any = 1, **more: Any) -> OnlineLearner:
        """Create the learner; ``more`` overrides options, also ``budget`` and (where declared) ``rounds``."""
        options = {"budget": self.budget} | dict(self.options) | more
        budget, arguments = options.pop("budget"), self.arguments
        if "rounds" in options:  # the last argument before the budget, where there is a horizon
            arguments = (*arguments[:-1], options.pop("rounds"))
        return kind(*arguments, budget, seed=seed, **options)


@dataclass(frozen=True)
class AuditExample(Example):
    """A configuration so small that an audit can enumerate everything it does.

    ``mechanism`` is "choices" where random draws protect people, "mixed" where noisy vectors do as well,
    "noise" where noisy running sums are released, and "batches" where noisy sums of batches are. ``rows``
    people come; each is a row of ``columns`` numbers out of ``values``, or of ``nobody`` for an absent
    person. ``publishes`` is the output that is compared: "items" or "set" (as a vector), "credit" (items, and
    what their scores left), "point" (of decisions), "chances" (the learner's point), "both" (set and
    chances), or "state" at the end. ``twice`` is a row that the audited person must not also occupy.
    ``visits`` is how often each person comes, with ``columns`` numbers each time. ``public`` seeds the public
    randomness. ``deep`` configurations run only in the long audit. ``faults`` are the injected faults that
    the audit must detect; None for those of the mechanism.
    """

    words: str = ""
    mechanism: str = "noise"
    rows: int = 3
    columns: int = 1
    values: tuple[float, ...] = (0.0, 1.0)
    nobody: float = 0.0
    publishes: str = "items"
    twice: int | None = None
    visits: int = 1
    public: int = 0
    deep: bool = False
    faults: Sequence[str] | None = None


@dataclass(frozen=True)
class Registered:
    """A learner: its module, what it learns from, and the configurations that an audit enumerates."""

    home: str
    learns_from: LearnsFrom
    audits: Sequence[AuditExample]

    def kind(self, name: str) -> type[OnlineLearner]:
        """The learner's class, imported from its module."""
        found: type[OnlineLearner] = getattr(import_module(self.home), name)
        return found


# --- settings of audits -----------------------------------------------------------------------------------

NUMERIC, ALONE = Budget(1.0, 1e-5), Budget(1.0, 1e-5, "add_remove")
PURE, PURE_ALONE = Budget(1.0), Budget(1.0, 0.0, "add_remove")
SIGNED, HALVES = (-1.0, 0.0, 1.0), (0.0, 0.5, 1.0)
# Injected faults for configurations where not all faults can show: half a sensitivity is refused at once.
RATES, SUMS = ("rate doubled", "charges forgotten"), ("noise halved", "charges forgotten")
SAMPLE = ("everybody in the sample", "charges forgotten")
Case = Callable[..., AuditExample]
_FIELDS = {field.name for field in fields(AuditExample)}


def _case(words: str, budget: Budget, *, arguments: tuple[Any, ...], **more: Any) -> AuditExample:
    """A configuration; ``more`` holds fields of the example and options of the learner."""
    about = {name: value for name, value in more.items() if name in _FIELDS}
    options = {name: value for name, value in more.items() if name not in _FIELDS}
    return AuditExample(arguments, budget, options, words=words, **about)


def _hedge(
    shape: tuple[int, int, int], every: int, rate: float, neighbours: Adjacency, deep: bool
) -> AuditExample:
    n, k, rounds = shape
    words = f"{k} of {n} items, {rounds} rounds, new sets every {every}"
    budget = Budget(2.0 * rate * k * (-(-rounds // every) - 1), 0.0, neighbours)
    shown = {"arguments": shape, "rows": rounds - 1, "columns": n, "deep": deep}
    return _drawn_twice(words, budget, resample_every=every, rate=rate, **shown)


def _phases(method: str, n: int, k: int, window: int, budget: Budget, **more: Any) -> AuditExample:
    words = f"{method}, {k} of {n} items, two windows of {window}"
    shown: dict[str, Any] = {"arguments": (n, k), "rows": 2 * window, "columns": n, "twice": window}
    return _case(words, budget, mechanism="choices", window=window, method=method, **shown, **more)


_votes: Case = partial(
    _case, mechanism="choices", publishes="credit", twice=1, first_window=1,
    faults=("rate doubled", *SAMPLE, "sample drawn again", "spent people kept", "credit of true sums",
            "score of another item", "drawn at twice the rate"),
)  # fmt: skip
_drawn_twice: Case = partial(_case, mechanism="choices", faults=(*RATES, "drawn at twice the rate"))
_best: Case = partial(
    _case, arguments=(3, 1, 3), mechanism="mixed", rows=2, columns=3, publishes="sets", first_window=1,
    faults=("noise halved", *SAMPLE, "score of another item"),
)  # fmt: skip
_set: Case = partial(_case, publishes="set", columns=4)
# One person comes four times, twice in each of two batches.
_returns: Case = partial(
    _case,
    budget=Budget(1.0, 1e-5, max_rounds_per_person=2),
    publishes="set",
    rows=1,
    visits=4,
    min_separation=1,
)
_explores: Case = partial(
    _case, arguments=(3, 1, 4), mechanism="choices", faults=RATES, values=HALVES, deep=True
)
_state: Case = partial(_case, mechanism="batches", faults=SUMS, publishes="state")
_leader: Case = partial(
    _case, arguments=(Ball(2, 2.0), 4), publishes="point", columns=2, values=SIGNED, lipschitz=1.0
)
_linear: Case = partial(_case, arguments=(Simplex(3), 4), publishes="point", columns=3, box=(0.0, 1.0))
_one_point: Case = partial(
    _case, arguments=(Ball(2, 1e3), 8), publishes="point", mechanism="batches", rows=5, values=SIGNED,
    twice=2, lipschitz=1.0, bound=1.0, batch=2, exploration_radius=1.0, regularization=10.0,
)  # fmt: skip
_cuts: Case = partial(
    _case, arguments=(3, 4), publishes="both", values=tuple(map(float, range(6))), nobody=-1.0
)
_chances: Case = partial(
    _case,
    arguments=(2, 6),
    publishes="chances",
    rows=5,
    values=SIGNED,
    exploration_rate=0.5,
    regularization=1e3,
)
_matroid: Case = partial(
    _case, arguments=(PartitionMatroid([[0, 1], [2]], 1), 4), publishes="both", columns=3, steps=2
)

AUDITS: dict[str, list[AuditExample]] = {
    "HedgeSelector": [
        _hedge((3, 1, 3), 1, 0.5, "replace", deep=True),
        _hedge((3, 2, 3), 2, 1.0, "add_remove", deep=False),
        _hedge((4, 1, 4), 1, 0.5, "replace", deep=True),
        _hedge((3, 2, 3), 1, 2.0, "replace", deep=True),
        _drawn_twice(
            "1 of 3 items, 4 rounds, composed exactly", Budget(3.0, 5e-2), arguments=(3, 1, 4), rows=3,
            columns=3, composition="exact", deep=True,
        ),
    ],
    "PhasedSelector": [
        _phases("composed", 3, 1, 2, Budget(2.0)),
        _phases("composed", 3, 2, 1, Budget(2.0, 1e-2, "add_remove"), deep=True),
        _phases("composed", 4, 2, 1, Budget(3.0), deep=True),
        _phases("exact", 3, 2, 1, Budget(2.0, 1e-2, "add_remove"), deep=True, faults=RATES),
        _phases("subsampled", 5, 1, 1, Budget(2.0, 0.0, "add_remove"), faults=SAMPLE),
        # A doubled rate is detectable where picks are rare.
        _phases("subsampled", 8, 1, 1, Budget(2.0), deep=True, faults=("rate doubled", *SAMPLE)),
    ],
    "RollingSelector": [
        _votes("2 releases, 1 of 2 items", PURE_ALONE, arguments=(2, 1), columns=2),
        _votes("2 releases, 1 of 3 items", PURE_ALONE, arguments=(3, 1), columns=3, deep=True),
        _votes("2 releases, 1 of 3 items", Budget(2.0), arguments=(3, 1), columns=3, deep=True),
        _votes(
            "1 release, 2 of 3 items", Budget(1.5), arguments=(3, 2), rows=2, columns=3, twice=None,
            deep=True, faults=("rate doubled", *SAMPLE, "credit of true sums", "score of another item"),
        ),
    ],
    "BestOfBothSelector": [
        _best("square root, 1 of 3 items", Budget(1.0, 1e-2), sums="sqrt"),
        _best("tree, 1 of 3 items", Budget(1.0, 1e-2, "add_remove"), sums="tree", deep=True),
    ],
    "LeaderSelector": [
        _set("square root, 1 of 4 items", NUMERIC, arguments=(4, 1, 4), batch=1, deep=True),
        _set("square root, 2 of 4 items", ALONE, arguments=(4, 2, 4), batch=1),
        _set("tree, 2 of 4 items", NUMERIC, arguments=(4, 2, 4), batch=1, sums="tree", deep=True),
        _set("few buffers, 2 of 4 items", NUMERIC, arguments=(4, 2, 4), batch=1, sums="blt", deep=True),
        _returns("people who return, 1 of 2 items", arguments=(2, 1, 5), columns=2, batch=2, deep=True),
    ],
    "PersonalSelector": [
        _set("square root, 1 of 3 items", NUMERIC, arguments=(3, 1, 4), columns=3, first_batch=1),
        _set(
            "square root, 2 of 3 items, halves", ALONE, arguments=(3, 2, 4), columns=3, first_batch=1,
            values=HALVES, deep=True,
        ),
        _set(
            "tree, 1 of 3 items", NUMERIC, arguments=(3, 1, 4), columns=3, first_batch=1, sums="tree",
            deep=True,
        ),
        _returns("people who return, 1 of 2 items", arguments=(2, 1, 5), columns=2, first_batch=1, deep=True),
    ],
    "RunningSumSelector": [
        *(
            _set(f"{words}, 1 of 4 items", budget, arguments=(4, 1, 4), deep=deep, **options)
            for words, budget, deep, options in (
                ("square root", NUMERIC, True, {"sums": "sqrt"}),
                ("Laplace tree", PURE, False, {"sums": "tree", "noise": "laplace"}),
                ("tree", ALONE, True, {"sums": "tree"}),
                ("weighted people", NUMERIC, False, {"weights": "norm"}),
                ("few buffers, 2 items each", NUMERIC, True, {"sums": "blt", "items_per_person": 2}),
            )
        ),
        _set(
            "published experts, 1 of 4 items", PURE, arguments=(4, 1, 4), calibration="published", deep=True,
            faults=SUMS,
        ),
        _returns(
            "people who return, 1 of 3 items", arguments=(3, 1, 5), columns=3, weights="norm",
            resample_every=2,
        ),
    ],
    "BanditSelector": [
        # A public seed with which exploration happens early and the drawn set shows its effect later.
        _explores(
            "a new set every round, 1 of 3 items", Budget(2.0), exploration="every_round",
            exploration_rate=0.5, public=5,
        ),
        _explores("rounds picked in advance, 1 of 3 items", Budget(2.0), exploration="presampled", block=2),
        _explores(
            "coins and a timetable, 1 of 3 items", Budget(2.0, 0.0, "add_remove"), exploration="online",
            exploration_rate=0.5, block=1, public=5,
        ),
        *(
            case
            for budget, deep in ((PURE, False), (PURE_ALONE, True))
            for case in (
                # The rate is so low that sets do not depend on feedback: only released sums are compared.
                _state(
                    "blocks of 2 rounds, 1 of 3 items", budget, arguments=(3, 1, 5), rows=4, values=HALVES,
                    twice=2, deep=deep, block=2, repeats=2, rate=1e-12,
                ),
                _state(
                    "which of 2 shown items was taken", budget, arguments=(3, 2, 9), values=SIGNED,
                    nobody=-1.0, twice=1, deep=deep, feedback="slots", block=3,
                ),
            )
        ),
    ],
    "ThompsonSelector": [
        _state(
            f"{words} in blocks of 2 rounds, 2 of 3 items", budget, arguments=(3, 2, None), rows=4,
            values=values, nobody=nobody, twice=2, deep=deep, feedback=feedback, block=2,
        )
        for budget, deep in ((PURE, False), (PURE_ALONE, True))
        for feedback, words, values, nobody in (
            ("bandit", "values", HALVES, 0.0), ("slots", "what was taken", SIGNED, -1.0),
        )
    ],
    "ApproximateLeader": [
        _leader("square root, 2 coordinates", NUMERIC, sums="sqrt"),
        _leader("spherical tree, 2 coordinates", PURE, sums="tree", noise="spherical"),
        _leader("Laplace tree, 2 coordinates", PURE_ALONE, sums="tree", noise="laplace", deep=True),
        _leader("published, 2 coordinates", PURE, calibration="published", faults=SUMS, deep=True),
    ],
    "LinearLeader": [
        _linear("square root, 3 experts", NUMERIC, sums="sqrt", deep=True),
        _linear("Laplace tree, 3 experts", PURE, sums="tree", noise="laplace"),
    ],
    "BanditApproximateLeader": [
        _one_point("batches of 2 costs", PURE),
        _one_point("batches of 2 costs", PURE_ALONE, deep=True),
    ],
    "SubmodularMinimizer": [
        _cuts("square root, 3 items", NUMERIC, sums="sqrt"),
        _cuts("Laplace tree, 3 items", PURE, sums="tree", noise="laplace"),
        _cuts("spherical tree, 3 items", PURE_ALONE, sums="tree", noise="spherical", deep=True),
    ],
    "BanditSubmodularMinimizer": [
        _chances("batches of 2 costs", PURE, mechanism="batches", form="values", batch=2, twice=2),
        _state(
            "batches of 2 costs, Thompson sampling", PURE, arguments=(2, 6), rows=4, values=SIGNED, twice=2,
            form="thompson", batch=2,
        ),
        _chances("a tree of estimates", PURE, form="tree", twice=4, deep=True),
    ],
    "MetaFrankWolfe": [
        _matroid("square root, 3 items", NUMERIC, sums="sqrt"),
        _matroid("Laplace tree, 3 items", PURE, sums="tree", deep=True),
    ],
    "MetaFrankWolfePoints": [
        _case(
            "spherical tree, 2 coordinates", PURE, arguments=(Box([0.0, 0.0], [1.0, 1.0]), 4),
            publishes="point", columns=2, steps=2, gradient_bound=1.0, bound=2.0,
        )
    ],
}  # fmt: skip

# --- the learners -----------------------------------------------------------------------------------------

_HOMES: dict[str, tuple[str, LearnsFrom]] = {
    "ApproximateLeader": ("convex", "loss"),
    "BanditApproximateLeader": ("bandit_convex", "cost"),
    "BanditSelector": ("bandit", "reward"),
    "BanditSubmodularMinimizer": ("bandit_minimize", "shown_set_cost"),
    "BestOfBothSelector": ("best_of_both", "function"),
    "HedgeSelector": ("hedge", "function"),
    "LeaderSelector": ("leader", "function"),
    "LinearLeader": ("convex", "cost_vector"),
    "MetaFrankWolfe": ("frank_wolfe", "function"),
    "MetaFrankWolfePoints": ("frank_wolfe", "dr_function"),
    "PersonalSelector": ("personal", "function"),
    "PhasedSelector": ("phased", "function"),
    "RollingSelector": ("rolling", "function"),
    "RunningSumSelector": ("running_sums", "function"),
    "SubmodularMinimizer": ("minimize", "set_cost"),
    "ThompsonSelector": ("thompson", "reward"),
}
REGISTRY = {
    name: Registered(f"{__package__}.{home}", learns_from, AUDITS[name])
    for name, (home, learns_from) in _HOMES.items()
}


def register(kind: type[OnlineLearner], learns_from: LearnsFrom, audits: Sequence[AuditExample] = ()) -> None:
    """Register a user-defined learner in this process, for `discreet.load`, `discreet.audit`, simulations.

    ``learns_from`` says what its `learn` takes, and ``audits`` are configurations so small that everything
    the learner does can be enumerated. It must be a class of an importable module, which calls `register` at
    its end. A module that an installed package declares as an entry point of the group ``discreet.learners``
    is imported when a learner is requested by name: by commands, by the service, and by `discreet.load`.
    """
    from .learner import OnlineLearner

    if not (isinstance(kind, type) and issubclass(kind, OnlineLearner)):
        raise TypeError(f"{kind!r} is not a learner: derive a class from OnlineSelector")
    if getattr(import_module(kind.__module__), kind.__name__, None) is not kind:
        raise ValueError(f"{kind.__name__} must be defined at the top of its module {kind.__module__}")
    known = REGISTRY.get(kind.__name__)
    if known is not None and known.home != kind.__module__:
        raise ValueError(f"there is a learner {kind.__name__} already; give yours another name")
    checks.one_of("learns_from", learns_from, get_args(LearnsFrom))
    REGISTRY[kind.__name__] = Registered(kind.__module__, learns_from, tuple(audits))


@cache
def _import_declared() -> None:
    for one in entry_points(group="discreet.learners"):
        try:
            one.load()
        except Exception as error:  # in third-party code; the other learners remain usable
            checks.warn(f"the learner that {one.value} declares cannot be used: {error}")


def learners() -> dict[str, Registered]:
    """Every learner by name, including those that installed packages declare."""
    _import_declared()
    return REGISTRY


def selectors() -> list[str]:
    """The names of the learners that choose k of n items."""
    from .learner import SelectorSettings

    kinds = {name: one.kind(name) for name, one in learners().items()}
    return [name for name, kind in kinds.items() if issubclass(kind._settings_type, SelectorSettings)]
