"""Runs that are charged as a whole: a gate of a run's own, over one that all runs share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from ..budget import Budget, Share
from ..events import ApproximateRelease, Event, PureRelease
from ..gate import Gate
from ..preview import BudgetExceeded
from ..randomness import Seed
from ..release import Release


class RunGate(Gate):
    """A gate whose whole budget is charged at ``shared``, under ``label``, before its first release.

    The run is (epsilon, delta)-DP as a whole, whatever is released in it and however that is added up. At a
    shared gate that keeps to pure epsilon, the epsilons and deltas of runs add up, which holds even where a
    run was decided on by looking at those before it; one with another notion converts them. Over a
    `SQLiteLedger` the charge is on the disk before anything is drawn.

    >>> import discreet as dc
    >>> shared = Gate(Budget(1.0), 0)
    >>> for _ in range(2):
    ...     run = RunGate(Budget(0.5), shared, "a list", 0)
    ...     item = run.choose([1.0, 5.0, 2.0], rate=0.25, sensitivity=2.0)
    >>> shared.spent.epsilon()
    1.0
    """

    def __init__(self, budget: Budget, shared: Gate, label: str, randomness: Seed = None) -> None:
        super().__init__(budget, randomness)
        self.shared, self.label = shared, label
        self._charged = False
        preview = shared.preview(self._event)
        if not preview.fits:
            raise BudgetExceeded(preview)

    @property
    def _event(self) -> Event:
        epsilon, delta = self.budget.epsilon, self.budget.delta
        return ApproximateRelease(epsilon, delta) if delta else PureRelease(epsilon)

    def mark(self, *sentences: str) -> None:
        """As `Gate.mark`; the accounts of the shared gate say so as well."""
        super().mark(*sentences)
        if self._charged:
            self.shared.mark(*sentences)

    def _charge(self) -> None:
        if not self._charged:
            self.shared.mark(*self.marks)
            self.shared.reserve(self._event, label=self.label)
            self._charged = True

    def reserve(
        self, event: Event, count: int = 1, *, disjoint: bool = False, label: str = "reserved"
    ) -> Release:
        """As `Gate.reserve`, once the run is charged."""
        if count:
            self._charge()
        return super().reserve(event, count, disjoint=disjoint, label=label)

    # Other gates that spend of this one's budget: the run is charged before there is one.

    def part(self, name: str, randomness: Seed | Mapping[str, Any] = None) -> Gate:
        """As `Gate.part`, once the run is charged."""
        self._charge()
        return super().part(name, randomness)

    def share(self, fraction: Fraction | int | float) -> Share:
        """As `Gate.share`, once the run is charged."""
        self._charge()
        return super().share(fraction)

    def split(self, parts: int | Sequence[float | Fraction], *, notion: str | None = None) -> list[Share]:
        """As `Gate.split`, once the run is charged."""
        self._charge()
        return super().split(parts, notion=notion)

    def state(self) -> dict[str, Any]:
        """As `Gate.state`, once the run is charged."""
        self._charge()
        return super().state()

    def enlarged(self, budget: Budget) -> Gate:  # noqa: ARG002
        """Refused: more than the run's budget would be spent."""
        raise ValueError("settings that need more than they claim need a budget of their own; give one")
