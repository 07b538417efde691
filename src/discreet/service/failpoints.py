"""Named points at which tests stop the process, to show that nothing is lost there."""

from __future__ import annotations

from collections.abc import Callable

# In the order of a decision's life; docs/service/failures.md says what holds at each.
POINTS = (
    "allocated, not committed",
    "block committed",
    "outcomes queued",
    "outcomes committed",
    "block closed",
    "outcomes read",
    "noise drawn",
    "release committed",
)

_actions: dict[str, Callable[[], object]] = {}


def reach(point: str) -> None:
    """This point has been reached; nothing happens unless a test wants it."""
    if _actions and (action := _actions.get(point)) is not None:
        action()


def at(point: str, action: Callable[[], object] | None) -> None:
    """Do ``action`` whenever a point is reached; None for nothing."""
    if point not in POINTS:
        raise ValueError(f"there is no failpoint {point!r}")
    if action is None:
        _actions.pop(point, None)
    else:
        _actions[point] = action
