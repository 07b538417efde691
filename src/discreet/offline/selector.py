"""The base of all selectors: a constraint, what they may spend and where, and one call at a time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from ..constraints import Cardinality, Constraint
from ..constraints.residual import Residual
from ..core import checks
from ..core.guards import Turns, fixed
from ..core.labels import item_numbers, listed
from ..objectives import Population
from ..privacy import (
    Account,
    Budget,
    BudgetExceeded,
    Event,
    Gate,
    GaussianNoise,
    LaplaceNoise,
    Seed,
    Share,
    spend_from,
)
from ..privacy.account import event_loss, filter_of
from ..privacy.accountant import Spending
from ..privacy.events import Loss
from ..results import Selection

Floats = NDArray[np.float64]


class Allowance:
    """What may be spent on one choice (``share``), at which ``gate``, and what has been.

    A `Budget` is spent whole, at a gate of its own. A `Share` (``budget.split``, ``gate.split``) and what is
    left of a `Gate` are spent in the privacy definition that the gate keeps to: whoever releases something
    calibrates it to fit ``share`` in that definition, and is refused here if it does not. Several allowances
    from shares of one budget, or from one gate, stay within that budget together, about the same people.
    """

    def __init__(self, budget: Spending, seed: Seed = None) -> None:
        self.share = share = spend_from(budget, seed)
        assert share.gate is not None
        self.gate: Gate = share.gate
        # Nobody else releases anything at a gate that was made here, for a whole budget.
        self.alone = share.whole and not isinstance(budget, Gate) and getattr(budget, "gate", None) is None
        self._lost = Loss()

    @property
    def account(self) -> Account:
        """What was released through the gate: of a budget of one's own, in the best of all definitions.

        There everything follows one plan. Elsewhere it is the gate's definition: what others release there
        may depend on these answers.
        """
        return replace(self.gate.spent, definition=None) if self.alone else self.gate.spent

    def expect(self, *releases: tuple[Event, int]) -> None:
        """Refuse (event, count) releases that the share or the gate does not hold, before any is made."""
        share, lost = self.share, self._lost
        if share.definition is not None and share.private:
            limit = filter_of(share.budget, share.definition).part(share.fraction)
            for event, count in releases:
                lost += event_loss(event) * count
                if not limit.fits(lost):
                    refused = replace(self.gate.preview(event, count), fits=False, largest=None)
                    refusal = BudgetExceeded(refused)
                    refusal.add_note("The share that was given for this is spent; the gate's others are not.")
                    raise refusal
        self.gate.expect(*releases)
        self._lost = lost

    def __str__(self) -> str:
        part = self.share.fraction
        return ("" if part == 1 else f"{float(part):.3g} of ") + f"epsilon={self.share.budget.epsilon:g}"


@fixed
class OfflineSelector:
    """One selection under a constraint, paid from a `Budget`, a share of one, or a gate: an `Allowance`.

    ``include`` and ``exclude``: items that are in the set from the start, and items that cannot be chosen, by
    label or by number (`Population.item_numbers`). Both must be public: facts of a catalogue, such as what is
    sold out, never of the people. Included items count towards the constraint and stand first in the
    selection; what others gain is what they add to them; and only picks that are made are paid for. Where
    fewer items are left than the constraint allows, all of them are taken, and nothing is spent. What is
    asked before there are people (``certified_loss``, ``plan``) takes numbers, and labels only under a
    `Cardinality`, where it does not matter which items they are.
    """

    def __init__(
        self,
        constraint: Constraint | int,
        budget: Spending | Allowance,
        seed: Seed,
        *,
        bound: float,
        sensitivity: float | None,
        max_people: int | None,
        include: Any,
        exclude: Any,
    ) -> None:
        if isinstance(constraint, int | np.integer):
            constraint = Cardinality(checks.whole("constraint", constraint, at_least=1))
        if not isinstance(constraint, Constraint):
            raise TypeError(
                f"constraint must be a Constraint such as Cardinality(5), got {checks.shown(constraint)}"
            )
        self.constraint: Constraint = constraint
        self.bound = checks.bound(bound)
        self.sensitivity = None if sensitivity is None else checks.real("sensitivity", sensitivity, above=0.0)
        self.max_people = None if max_people is None else checks.whole("max_people", max_people, at_least=1)
        self.include, self.exclude = _given("include", include), _given("exclude", exclude)
        self._residual: Residual | None = None  # once it was chosen for people, who know their labels
        self._allowance = budget if isinstance(budget, Allowance) else Allowance(budget, seed)
        self._turns = Turns("selector")

    @property
    def budget(self) -> Budget:
        """The budget that ``share`` is of."""
        return self._allowance.share.budget

    @property
    def share(self) -> Share:
        """What the one selection may spend, and in which privacy definition."""
        return self._allowance.share

    @property
    def privacy(self) -> Account:
        """The account of what has been released so far; at a gate that was given, by others as well."""
        return self._allowance.account

    @property
    def _gate(self) -> Gate:
        return self._allowance.gate

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a selector is not copied or pickled, or its budget could be spent twice; make a new one"
        )

    def _over(self, n_items: int | None) -> Residual:
        """What there is to choose from, before there are people."""
        size = self.constraint.n_items if n_items is None else n_items
        if size is None:
            raise ValueError(f"{self.constraint!r} does not know its ground set; give n_items")
        constraint = self.constraint.over(checks.whole("n_items", size, at_least=1))
        known = self._residual
        if known is not None and known.n_items == size:
            return known
        if not isinstance(constraint, Cardinality):
            inside = item_numbers("include", self.include, size)
            return Residual.of(constraint, inside, item_numbers("exclude", self.exclude, size))
        # Which ones they are makes no difference, and labels are not known yet.
        given = (*self.include, *self.exclude)
        if len(given) > size:
            raise ValueError(f"include and exclude hold {len(given)} items; there are n_items={size}")
        first = len(self.include)
        return Residual.of(constraint, range(first), range(first, len(given)), given)

    def _left(self, people: Population, include: Any, exclude: Any) -> Residual:
        """What there is to choose from for these people."""
        if not isinstance(people, Population):
            raise TypeError(
                f"people must be a population, e.g. objectives.Coverage(matrix), got {type(people).__name__};"
                " objectives.SetFunction makes one of any function"
            )
        known = people.catalogue != "from data"

        def numbers(argument: str, mine: tuple[Any, ...], also: Any) -> list[int]:
            found: list[int] = []
            for given in filter(None, (mine, _given(argument, also))):
                found += item_numbers(argument, given, people.n_items, people.labels, public=known)
            return found

        included, excluded = (
            numbers("include", self.include, include),
            numbers("exclude", self.exclude, exclude),
        )
        return Residual.of(self.constraint.over(people.n_items), included, excluded, people.labels)

    def _check_count(self, people: Population) -> None:
        if self.max_people is not None and len(people) > self.max_people:
            raise ValueError(
                f"there are more people than max_people={self.max_people}; declare a larger public number"
            )

    def _noisy(self, values: Floats, noise: Event, label: str, changed: int | None = None) -> Floats:
        """``values`` with the noise that was calibrated for them."""
        gate = self._gate
        if isinstance(noise, GaussianNoise):
            found = gate.gaussian(values, noise.sigma, noise.sensitivity, changed=changed, label=label)
        else:
            assert isinstance(noise, LaplaceNoise)
            found = gate.laplace(values, noise.scale, noise.sensitivity, changed=changed, label=label)
        return np.asarray(found, dtype=np.float64)

    def _selection(self, people: Population, left: Residual, picks: Iterable[int], **more: Any) -> Selection:
        chosen = tuple(left.items(picks))
        labels = None if people.labels is None else tuple(people.labels[item] for item in chosen)
        given = tuple(left.included.tolist())
        return Selection(chosen, labels=labels, privacy=self.privacy, included=given, **more)


def least_epsilon(enough: Callable[[Share], bool], share: Share) -> float:
    """The least epsilon, to three digits and from that of ``share`` on, with which such a share is enough."""

    def reached(epsilon: float) -> bool:
        return enough(replace(share, budget=replace(share.budget, epsilon=epsilon)))

    low = high = share.budget.epsilon
    while not reached(high):
        low, high = high, 2.0 * high
        if high > 1e9:
            return math.inf
    while high - low > 1e-3 * low:
        middle = (low + high) / 2.0
        low, high = (low, middle) if reached(middle) else (middle, high)
    return float(f"{high:.3g}") if float(f"{high:.3g}") >= high else float(f"{high * 1.005:.3g}")


def _given(argument: str, items: Any) -> tuple[Any, ...]:
    """Items as they were named; a selection is its labels, or its numbers where it has none."""
    if items is None:
        return ()
    if isinstance(items, Selection):
        items = items.items if items.labels is None else items.labels
    return tuple(dict.fromkeys(listed(argument, items)))
