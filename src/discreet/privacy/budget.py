"""Privacy budgets, and their exact division into shares."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar, get_args

from ..core import checks
from ..core.options import Adjacency
from ..core.text import at_most, card, likelier, line
from . import conversions
from .conversions import exact, root_below

if TYPE_CHECKING:
    from .accountant import Gate

_T = TypeVar("_T")
DEFINITIONS = ("pure", "zcdp", "gdp")
NEIGHBOURS: tuple[Adjacency, ...] = get_args(Adjacency)
LEAST_EPSILON = 1e-12
MEANINGFUL_EPSILON = 10.0  # beyond, what is shown may become e^10 times more likely by one person
MEANINGFUL_DELTA = 1e-2  # beyond, one person in a crowd of a hundred may be shown as they are


@dataclass(frozen=True)
class Budget:
    """The guarantee: what one person's presence or values may change, at most.

    ``epsilon`` and ``delta`` bound the whole life of whatever holds the budget. ``neighbours`` says
    between which inputs they hold: ``"replace"`` (one person's data exchanged for any other) or
    ``"add_remove"`` (one person present or absent). ``max_rounds_per_person`` is the number of rounds
    (rows, visits) one person may take part in; the guarantee is about the person, so each round gets
    the budget divided accordingly: epsilon by that number, rho by its square, mu by that number.

    ``epsilon=inf`` means no privacy at all: the non-private twin of an algorithm.

    >>> budget = Budget(1.0, 1e-6)
    >>> round(budget.mu, 4), round(budget.rho, 5)
    (0.2367, 0.02436)
    >>> Budget(1.0, 1e-6, max_rounds_per_person=2).mu == budget.mu / 2
    True
    """

    epsilon: float
    delta: float = 0.0
    neighbours: Adjacency = "replace"
    max_rounds_per_person: int = 1

    def __post_init__(self) -> None:
        epsilon = checks.real("epsilon", self.epsilon, above=0.0, infinite=True)
        if epsilon < LEAST_EPSILON:
            raise ValueError(
                f"epsilon={epsilon} is below {LEAST_EPSILON}, where no noise that a computer can add leaves"
                " anything to see"
            )
        delta = checks.real("delta", self.delta, at_least=0.0, below=1.0)
        rounds = checks.whole("max_rounds_per_person", self.max_rounds_per_person, at_least=1)
        checks.one_of("neighbours", self.neighbours, NEIGHBOURS)
        for name, value in (("epsilon", epsilon), ("delta", delta), ("max_rounds_per_person", rounds)):
            object.__setattr__(self, name, value)
        if MEANINGFUL_EPSILON < epsilon < math.inf and _asked_for():
            checks.warn(
                f"epsilon={epsilon:g} promises little: one person may make an output e^{epsilon:g} times more"
                f" likely; up to {MEANINGFUL_EPSILON:g} is common (epsilon=inf says plainly: not private)"
            )
        if delta > MEANINGFUL_DELTA and _asked_for():
            checks.warn(
                f"delta={delta:g} promises little: with that probability a person's data may be shown as they"
                " are; delta should be far below one over the number of people, such as 1e-6"
            )

    def __repr__(self) -> str:
        given = {one.name: getattr(self, one.name) for one in fields(self)}
        words = [f"{one.name}={given[one.name]!r}" for one in fields(self) if given[one.name] != one.default]
        return f"Budget({', '.join(words)})"

    @cached_property
    def private(self) -> bool:
        """False for the infinite budget, which guarantees nothing."""
        return not math.isinf(self.epsilon)

    @cached_property
    def rho(self) -> float:
        """Largest zCDP parameter a round may spend; 0 for a pure budget."""
        return self.limit_rho()

    @cached_property
    def mu(self) -> float:
        """Largest Gaussian-DP parameter a round may spend; 0 for a pure budget."""
        return self.limit_mu()

    @cached_property
    def epsilon_per_round(self) -> Fraction | float:
        """Pure epsilon a round may spend, as an exact fraction."""
        return exact(self.epsilon) / self.max_rounds_per_person if self.private else math.inf

    def limit_rho(self, delta: float | None = None) -> float:
        """``rho`` when only ``delta`` of the budget's delta is left for it."""
        left = self.delta if delta is None else min(delta, self.delta)
        return _divided(conversions.zcdp_rho(self.epsilon, left), self.max_rounds_per_person**2)

    def limit_mu(self, delta: float | None = None) -> float:
        """``mu`` when only ``delta`` of the budget's delta is left for it."""
        left = self.delta if delta is None else min(delta, self.delta)
        return _divided(conversions.gdp_mu(self.epsilon, left), self.max_rounds_per_person)

    def share(self, fraction: Fraction | int | float = 1) -> Share:
        """A part of the budget, e.g. ``budget.share(Fraction(1, 3))``."""
        if not isinstance(fraction, Fraction):
            checks.real("fraction", fraction)
        return Share(self, exact(fraction))

    def split(self, parts: int | Sequence[float | Fraction], *, definition: str | None = None) -> list[Share]:
        """Equal shares, or shares in proportion to the given weights; exactly the whole together.

        Learners, selectors and sums take a share where they take a budget. They then lose no more than the
        whole budget together, about the same people. For that all are spent in one privacy definition: pure
        epsilon without a delta, and with one ``definition``, or "zcdp" if none is given.

        >>> sum(share.fraction for share in Budget(1.0).split(3)) == 1
        True
        >>> [str(share.fraction) for share in Budget(1.0).split([1, 3])]
        ['1/4', '3/4']
        """
        return [Share(self, part, definition) for part in fractions(parts)]

    def _repr_html_(self) -> str:
        adjacency = "replaced by any other" if self.neighbours == "replace" else "added or removed"
        delta = f", plus a probability of {at_most(self.delta)}" if self.delta else ""
        factor = likelier(self.epsilon, 3) if self.epsilon < 20 else f"e^{at_most(self.epsilon)}"
        promise = (
            f"One person {adjacency}, with at most {self.max_rounds_per_person}"
            f" contribution{'s' * (self.max_rounds_per_person > 1)}, makes no output more than {factor} times"
            f" as likely{delta}."
            if self.private
            else "No privacy: outputs may tell everything about everybody."
        )
        title = f"Privacy budget: epsilon {at_most(self.epsilon)}, delta {at_most(self.delta)}"
        return card(title, line(promise))


def _asked_for() -> bool:
    """Whether a budget is being made by a user's program or command, not by the library for itself."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__") in (__name__, "dataclasses", "copy"):
        frame = frame.f_back
    module = str(frame.f_globals.get("__name__"))
    return not module.startswith("discreet.") or module.startswith("discreet.cli.")


def _divided(limit: float, parts: int) -> float:
    """A limit in equal parts; conversions leave room for the rounding."""
    return float(Fraction(limit) / parts) if math.isfinite(limit) else limit


@dataclass(frozen=True)
class Share:
    """A fraction of a budget, exact: what one of several releases about the same people may spend.

    Without a ``definition`` it is that fraction in each privacy definition. Shares whose fractions sum to at
    most 1 then fit together at one gate, where all are spent in the definition that the gate keeps to. With a
    ``definition`` ("pure", "zcdp" or "gdp") it is the fraction of that definition's limit, and ``epsilon``,
    ``rho`` and ``mu_squared`` are what releases calibrated in the other ones may have so that they fit it as
    well: shares of one definition fit together wherever they are spent. ``gate`` is where it is spent.
    For a share without one a gate is made that holds no more, at which all users of the same share
    spend; its definition is "zcdp" ("pure" without a delta) if none is given.
    """

    budget: Budget
    fraction: Fraction
    definition: str | None = None
    gate: Gate | None = field(default=None, repr=False, compare=False)
    own_gate: bool = field(default=False, repr=False, compare=False)  # made for this share alone
    _made: dict[type, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        given: Any = self.budget
        if not isinstance(given, Budget):  # asked here: shares are made in inner loops
            checks.instance("budget", given, Budget, "Budget(epsilon=1.0, delta=1e-6)")
        if not 0 < self.fraction <= 1:
            raise ValueError(f"fraction={self.fraction} must be above 0 and at most 1")
        kept_to = self.budget if self.gate is None else self.gate._accountant.budget
        for name in ("neighbours", "max_rounds_per_person"):
            asked, kept = getattr(self.budget, name), getattr(kept_to, name)
            if asked != kept:
                raise ValueError(f"{name}={asked!r}, but the gate keeps an account with {name}={kept!r}")
        if self.definition is not None:
            checks.one_of("definition", self.definition, DEFINITIONS)
            if self.definition != "pure" and self.private and not self.budget.delta:
                raise ValueError(
                    f"definition={self.definition!r} needs delta > 0; give a delta or take definition='pure'"
                )

    @property
    def whole(self) -> bool:
        """Whether this is all of a budget, to be spent in whatever definition is best."""
        return self.fraction == 1 and self.definition is None

    @cached_property
    def private(self) -> bool:
        """False for a share of the infinite budget."""
        return self.budget.private

    @property
    def neighbours(self) -> str:
        """The neighbouring relation of the budget."""
        return self.budget.neighbours

    @property
    def delta(self) -> float:
        """The delta at which the share is spent; 0 where only pure epsilon is."""
        return 0.0 if self.definition == "pure" else self.budget.delta

    @cached_property
    def epsilon(self) -> Fraction | float:
        """Pure epsilon per round."""
        if self.definition == "zcdp":
            return root_below(2 * self.rho) if isinstance(self.rho, Fraction) else math.inf
        if self.definition == "gdp":
            square = self.mu_squared
            return root_below(square / conversions.HALF_PI) if isinstance(square, Fraction) else math.inf
        whole = self.budget.epsilon_per_round
        return whole * self.fraction if isinstance(whole, Fraction) else whole

    @cached_property
    def rho(self) -> Fraction | float:
        """zCDP per round."""
        if self.definition == "pure":
            return Fraction(0) if self.private else math.inf
        if self.definition == "gdp":
            # Of a release by pure epsilon or a range, mu squared is at most pi times its rho.
            square = self.mu_squared
            return square / (2 * conversions.HALF_PI) if isinstance(square, Fraction) else math.inf
        whole = self.budget.rho
        return exact(whole) * self.fraction if math.isfinite(whole) else whole

    @cached_property
    def mu_squared(self) -> Fraction | float:
        """Square of the Gaussian-DP parameter per round (squares are what adds up)."""
        if self.definition == "pure":
            return Fraction(0) if self.private else math.inf
        if self.definition == "zcdp":
            return 2 * self.rho  # of Gaussian noise, rho is half of mu squared
        whole = self.budget.mu
        return exact(whole) ** 2 * self.fraction if math.isfinite(whole) else whole

    @property
    def mu(self) -> float:
        """Gaussian-DP parameter per round, from below."""
        if self.whole:
            return self.budget.mu
        square = self.mu_squared
        return float(root_below(square)) if isinstance(square, Fraction) else math.inf

    def once(self, kind: type[_T], make: Callable[[], _T]) -> _T:
        """What spends this share: its next user gets the same, with what was spent there."""
        if kind not in self._made:
            self._made.setdefault(kind, make())  # of two threads the first one's: one gate, not one each
        found: _T = self._made[kind]
        return found

    def __deepcopy__(self, memo: object = None) -> Share:
        """Estimators that are cloned, and copies of settings, go on with the same share: it is spent once."""
        return self

    __copy__ = __sklearn_clone__ = __deepcopy__

    def part(self, fraction: Fraction | int | float) -> Share:
        """A fraction of this share, which has not been spent."""
        if self._made:
            raise ValueError("the share has been spent, and a part of it would be spent again")
        if not isinstance(fraction, Fraction):
            checks.real("fraction", fraction, above=0.0, at_most=1.0)
        return replace(self, fraction=self.fraction * exact(fraction))


def fractions(parts: int | Sequence[float | Fraction]) -> list[Fraction]:
    """Equal fractions, or fractions in proportion to the given weights; exactly 1 together."""
    if not isinstance(parts, Sequence):
        count = checks.whole("parts", parts, at_least=1, at_most=10**6)
        return [Fraction(1, count)] * count
    for index, weight in enumerate(parts):
        checks.real(f"parts[{index}]", weight, above=0.0)
    weights = [exact(weight) for weight in parts]
    if not weights:
        raise ValueError("parts is empty; give a number of shares or at least one weight")
    return [weight / sum(weights) for weight in weights]
