"""Published settings that deliver less than they claim: usable, and marked as such."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction

from ..core import checks
from .account import event_loss, fits, smallest_epsilon
from .budget import Budget, Share
from .conversions import exact, rounded_up
from .events import Event, Loss


class PublishedCalibrationWarning(UserWarning):
    """A published setting does not deliver the guarantee it claims; the account reports the true one."""


def true_budget(claimed: Budget, releases: Iterable[tuple[Event, int]], what: str) -> Budget:
    """The budget that ``releases`` of (event, count) really need, at least the claimed one.

    Where that is more than was claimed, a `PublishedCalibrationWarning` says so: the setting can be run, for
    comparison, and its account tells the truth.

    >>> from discreet.privacy import LaplaceNoise
    >>> true_budget(Budget(1.0), [(LaplaceNoise(1.0, 2.0), 2)], "two halves").epsilon
    1.0
    """
    loss = Loss()
    for event, count in releases:
        loss = loss + event_loss(event) * count
    if not claimed.private or fits(loss, claimed):
        return claimed
    # A chance of failure that comes on top is reported as such, not turned into epsilon.
    roomy = replace(claimed, delta=rounded_up(exact(claimed.delta) + loss.delta)) if loss.delta else claimed
    needed = smallest_epsilon(loss, roomy, roomy.delta)
    epsilon, slack = max(claimed.epsilon, needed), Fraction(1, 10**12)
    while not fits(loss, replace(roomy, epsilon=epsilon)):  # conversions round outwards
        epsilon, slack = float(exact(needed) * (1 + slack)), 4 * slack
    checks.warn(
        f"{what}: the published constants claim {_named(claimed)} and give"
        f" {_named(replace(roomy, epsilon=needed))}; the account says so. See docs/errata.md.",
        PublishedCalibrationWarning,
    )
    return replace(roomy, epsilon=epsilon)


def published_share(
    share: Share, releases: Iterable[tuple[Event, int]], what: str, claimed: Budget | None = None
) -> Share:
    """``share`` at a gate with the budget that published ``releases`` really need; see `true_budget`.

    ``claimed`` is what the paper claims, if that is not the whole budget. A share of a budget, or a gate
    that others spend from, cannot hold what was not claimed, and is refused.
    """
    if not share.whole or not share.own_gate or share.gate is None:
        raise ValueError(
            'calibration="published" may need more than it claims, and so a budget of its own; give a Budget,'
            ' or take "tight"'
        )
    needed = true_budget(share.budget if claimed is None else claimed, releases, what)
    if needed == share.budget:
        return share
    return replace(share, budget=needed, gate=share.gate.enlarged(needed))


def _named(budget: Budget) -> str:
    return f"epsilon {budget.epsilon:.4g}" + (f" at delta {budget.delta:.3g}" if budget.delta else "")
