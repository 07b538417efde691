"""Previews of a release at a gate: what it would cost, and the words of a refusal."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from .budget import NOTIONS, Budget
from .events import Event, Loss
from .limits import smallest_epsilon


@dataclass(frozen=True)
class Preview:
    """What a release would do, without doing it.

    ``spent`` and ``after`` are epsilons at the budget's delta in the gate's privacy ``notion``;
    ``largest_count`` is how many such releases would fit, ``largest`` the same kind of release at the largest
    loss that would.
    """

    asked: Event
    count: int
    spent: float
    after: float
    limit: float
    delta: float
    fits: bool
    largest_count: int
    largest: Event | None
    notion: str | None = None

    def __str__(self) -> str:
        at = f" at delta {self.delta:g}" if self.delta else ""
        times = "" if self.count == 1 else f"{self.count:,} x "
        by = f" by {_WORDS[self.notion]}" if self.notion else ""
        text = (
            f"spent epsilon {self.spent:.6g}, asked {times}{_shown(self.asked)} which makes {self.after:.6g},"
            f" limit {self.limit:g}{at}{by}"
        )
        if self.fits:
            return text + "; it fits"
        if self.notion and math.isinf(self.after) and math.isfinite(self.spent):
            others = " or ".join(f"notion={name!r}" for name in NOTIONS if name != self.notion)
            return text + (
                f"; this gate keeps to {_WORDS[self.notion]}, in which such a release has no bound: make the"
                f" gate with {others}, before its first release"
            )
        if self.largest is None:
            return text + "; nothing of this kind fits any more"
        also = f", or {self.largest_count:,} of those asked for" if self.largest_count else ""
        largest = _shown(self.largest)
        return text + f"; largest that fits: {times}{largest}{also}"


_WORDS = {"pure": "pure epsilon", "zcdp": "zCDP", "gdp": "Gaussian DP"}


def _shown(event: Event) -> str:
    record = event.to_json()
    kind = record.pop("kind")
    return f"{kind}({', '.join(f'{name}={float(Fraction(value)):.6g}' for name, value in record.items())})"


class BudgetExceeded(Exception):
    """A release was refused because the budget does not hold it; nothing was released or spent."""

    def __init__(self, preview: Preview) -> None:
        super().__init__(f"budget exceeded: {preview}")
        self.preview = preview

    @property
    def spent(self) -> float:
        """Epsilon spent so far, at the budget's delta."""
        return self.preview.spent

    @property
    def asked(self) -> Event:
        """The release that was asked for."""
        return self.preview.asked

    @property
    def limit(self) -> float:
        """The budget's epsilon."""
        return self.preview.limit

    @property
    def largest(self) -> Event | None:
        """The same kind of release at the largest loss that fits, or None."""
        return self.preview.largest


def previewed(
    event: Event,
    count: int,
    before: Loss,
    after: Callable[[Event, int], Loss],
    fits: Callable[[Loss], bool],
    budget: Budget,
    notion: str | None,
) -> Preview:
    """The preview of ``count`` releases, given what was lost ``before`` and would be ``after`` some."""
    total = after(event, count)
    fit = fits(total)
    largest: Event | None = event
    if not fit:
        factor = _largest_factor(lambda c: fits(after(event.scaled(c), count)))
        largest = event.scaled(factor) if factor > 0.0 else None
    return Preview(
        asked=event,
        count=count,
        spent=smallest_epsilon(before, budget, budget.delta, notion),
        after=smallest_epsilon(total, budget, budget.delta, notion),
        limit=budget.epsilon,
        delta=budget.delta,
        fits=fit,
        largest_count=_largest_count(lambda n: fits(after(event, n)), count),
        largest=largest,
        notion=notion,
    )


def _largest_count(fit: Callable[[int], bool], asked: int) -> int:
    """How many fit, at most 2^62."""
    if not fit(1):
        return 0
    low, high = 1, max(2, asked)
    while fit(high):
        low, high = high, 2 * high
        if high > 1 << 62:
            return low
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fit(middle) else (low, middle)
    return low


def _largest_factor(fit: Callable[[float], bool]) -> float:
    """Largest factor in (0, 1) for which a scaled release fits; 0 if none does."""
    low, high = 0.0, 1.0
    for _ in range(64):
        middle = (low + high) / 2.0
        if not low < middle < high:
            break
        low, high = (middle, high) if fit(middle) else (low, middle)
    return low if low > 1e-4 else 0.0  # below that it is left-over rounding, not a release
