"""Every online learner: where it is defined, the feedback it gets, and small settings to try it in.

Whoever needs "every learner" reads this: the package's names, the contract tests, the audit, the stored
numbers, simulations and the documentation. A new learner is its file with its settings, its bound, and one
entry here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from ..privacy import Budget
    from .learner import OnlineLearner

# What `learn` is given of a person.
Feedback = Literal[
    "function",  # a monotone set function
    "reward",  # what the shown set was worth, or what each of its items added
    "dr_function",  # a monotone DR-submodular function of points
    "loss",  # a convex cost of points, with its gradient
    "cost_vector",  # what each coordinate costs
    "cost",  # what the point cost
    "set_cost",  # a submodular cost of sets
    "shown_set_cost",  # what the shown set cost
]


@dataclass(frozen=True)
class Example:
    """A small setting of a learner: what comes before the budget, the budget, and options."""

    arguments: tuple[Any, ...]
    budget: Budget
    options: Mapping[str, Any] = field(default_factory=dict)

    def make(self, kind: Callable[..., OnlineLearner], seed: Any = 1, **more: Any) -> OnlineLearner:
        """The learner; ``more`` overrides options, and ``budget`` or ``rounds`` among the arguments."""
        options = {"budget": self.budget} | dict(self.options) | more
        budget, arguments = options.pop("budget"), self.arguments
        if "rounds" in options:  # the last one before the budget, where there is a horizon
            arguments = (*arguments[:-1], options.pop("rounds"))
        return kind(*arguments, budget, seed=seed, **options)


@dataclass(frozen=True)
class AuditExample(Example):
    """A setting so small that an audit can enumerate it.

    ``mechanism`` is "choices" where draws protect people, "noise" where noisy vectors leave through running
    sums, and "batches" where noisy sums of batches do. ``rows`` people come; each is a row of ``columns``
    numbers out of ``values``, or of ``nobody`` for somebody who is not there. ``publishes`` is what is looked
    at: "items" or "set" (as a vector), "point" (of decisions), "chances" (the learner's point), "both" (set
    and chances), or "state" at the end. ``twice`` is a row in which the audited person must not also be.
    ``visits`` is how often each of the people comes, with ``columns`` numbers each time.
    ``public`` seeds the public randomness. ``deep`` settings are left to the long audit. ``faults`` are the
    injected faults to notice; those of the mechanism, if none are named.
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
    """A learner: its module, the feedback it gets, and its settings, made when they are asked for."""

    home: str
    feedback: Feedback
    examples: Callable[[], Mapping[str, Example]]
    audits: Callable[[], Sequence[AuditExample]]

    def kind(self, name: str) -> type[OnlineLearner]:
        """The class."""
        found: type[OnlineLearner] = getattr(import_module(self.home), name)
        return found


def _of(name: str, home: str, feedback: Feedback) -> tuple[str, Registered]:
    """A learner of this package, whose settings are in `examples` under its name."""

    def small() -> Mapping[str, Example]:
        from .examples import EXAMPLES

        return EXAMPLES[name]

    def audits() -> Sequence[AuditExample]:
        from .examples import AUDITS

        return AUDITS[name]

    return name, Registered(f"{__package__}.{home}", feedback, small, audits)


REGISTRY: dict[str, Registered] = dict(
    (
        _of("ApproximateLeader", "convex", "loss"),
        _of("BanditApproximateLeader", "bandit_convex", "cost"),
        _of("BanditSelector", "bandit", "reward"),
        _of("BanditSubmodularMinimizer", "bandit_minimize", "shown_set_cost"),
        _of("BestOfBothSelector", "best_of_both", "function"),
        _of("HedgeSelector", "hedge", "function"),
        _of("LeaderSelector", "leader", "function"),
        _of("LinearLeader", "convex", "cost_vector"),
        _of("MetaFrankWolfe", "frank_wolfe", "function"),
        _of("MetaFrankWolfePoints", "frank_wolfe", "dr_function"),
        _of("PhasedSelector", "phased", "function"),
        _of("RunningSumSelector", "running_sums", "function"),
        _of("SubmodularMinimizer", "minimize", "set_cost"),
        _of("ThompsonSelector", "thompson", "reward"),
    )
)


def selectors() -> list[str]:
    """The learners that show k of n items and learn from what people value."""
    from .learner import SelectorSettings

    kinds = {name: one.kind(name) for name, one in REGISTRY.items()}
    return [name for name, kind in kinds.items() if issubclass(kind._settings_type, SelectorSettings)]
