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
MEANINGFUL_EPSILON = 10.0  # beyond it, one person may make an output e^10 times more likely
MEANINGFUL_DELTA = 1e-2  # beyond it, the data of one person in a hundred may be shown as they are


@dataclass(frozen=True)
class Budget:
    """The guarantee: how much one person's presence or values may change what is released, at most.

    ``epsilon`` and ``delta`` bound everything that is ever released under the budget. ``neighbours`` is the
    adjacency between inputs: ``"replace"`` (one person's data exchanged for any other) or ``"add_remove"``
    (one person present or absent). ``max_rounds_per_person`` is the number of rounds (rows, visits) one
    person may take part in; the guarantee is about the person, so each round gets the budget divided
    accordingly: epsilon by that number, rho by its square, mu by that number.

    ``epsilon=inf`` means no privacy at all: the non-private counterpart of an algorithm.

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
        """``rho`` at ``delta``, or at the budget's delta if that is smaller."""
        left = self.delta if delta is None else min(delta, self.delta)
        return _divided(conversions.zcdp_rho(self.epsilon, left), self.max_rounds_per_person**2)

    def limit_mu(self, delta: float | None = None) -> float:
        """``mu`` at ``delta``, or at the budget's delta if that is smaller."""
        left = self.delta if delta is None else min(delta, self.delta)
        return _divided(conversions.gdp_mu(self.epsilon, left), self.max_rounds_per_person)

    def share(self, fraction: Fraction | int | float = 1) -> Share:
        """A part of the budget, e.g. ``budget.share(Fraction(1, 3))``."""
        if not isinstance(fraction, Fraction):
            checks.real("fraction", fraction)
        return Share(self, exact(fraction))

    def split(self, parts: int | Sequence[float | Fraction], *, definition: str | None = None) -> list[Share]:
        """Equal shares, or shares in proportion to the given weights; they sum exactly to the budget.

        Learners, selectors and sums accept a share in place of a budget. Together they then lose no more than
        the budget, about the same people. For this, all shares are spent in one privacy definition: pure
        epsilon if there is no delta, otherwise ``definition``, by default "zcdp".

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
    """Whether the budget is made by a user's program or command rather than inside the library."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__") in (__name__, "dataclasses", "copy"):
        frame = frame.f_back
    module = str(frame.f_globals.get("__name__"))
    return not module.startswith("discreet.") or module.startswith("discreet.cli.")


def _divided(limit: float, parts: int) -> float:
    """One of ``parts`` equal parts of a limit; conversions allow for the rounding."""
    return float(Fraction(limit) / parts) if math.isfinite(limit) else limit


@dataclass(frozen=True)
class Share:
    """An exact fraction of a budget: what one of several releases about the same people may spend.

    Without a ``definition`` it is that fraction of the limit of each privacy definition. Shares whose
    fractions sum to at most 1 then fit together at one gate, where all are spent in the definition that the
    gate keeps to. With a ``definition`` ("pure", "zcdp" or "gdp") it is a fraction of that definition's
    limit, and ``epsilon``, ``rho`` and ``mu_squared`` are the parameters at which releases calibrated in any
    definition fit it: shares of one definition fit together wherever they are spent. ``gate`` is the gate to
    spend at. A share without one gets a gate limited to it, common to all users of that share, whose
    definition is "zcdp" ("pure" without a delta) by default.
    """

    budget: Budget
    fraction: Fraction
    definition: str | None = None
    gate: Gate | None = field(default=None, repr=False, compare=False)
    own_gate: bool = field(default=False, repr=False, compare=False)  # made for this share alone
    _made: dict[type, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        given: Any = self.budget
        if not isinstance(given, Budget):  # tested first: shares are made in inner loops
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
        """Whether this is the full budget, to be spent in whichever definition is best."""
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
        """The delta at which the share is spent; 0 for a share of pure epsilon."""
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
            # For a release charged by pure epsilon or a range, mu squared is at most pi times its rho.
            square = self.mu_squared
            return square / (2 * conversions.HALF_PI) if isinstance(square, Fraction) else math.inf
        whole = self.budget.rho
        return exact(whole) * self.fraction if math.isfinite(whole) else whole

    @cached_property
    def mu_squared(self) -> Fraction | float:
        """Square of the Gaussian-DP parameter per round (squares add up)."""
        if self.definition == "pure":
            return Fraction(0) if self.private else math.inf
        if self.definition == "zcdp":
            return 2 * self.rho  # for Gaussian noise, rho is half of mu squared
        whole = self.budget.mu
        return exact(whole) ** 2 * self.fraction if math.isfinite(whole) else whole

    @property
    def mu(self) -> float:
        """Gaussian-DP parameter per round, rounded down."""
        if self.whole:
            return self.budget.mu
        square = self.mu_squared
        return float(root_below(square)) if isinstance(square, Fraction) else math.inf

    def once(self, kind: type[_T], make: Callable[[], _T]) -> _T:
        """The object of type ``kind`` that spends this share, made once: later users get the same one."""
        if kind not in self._made:
            self._made.setdefault(kind, make())  # two threads get the same gate
        found: _T = self._made[kind]
        return found

    def __deepcopy__(self, memo: object = None) -> Share:
        """Cloned estimators and copied settings keep the same share, which is spent once."""
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
