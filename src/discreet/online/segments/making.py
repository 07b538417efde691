"""The learners of segments: made alike, or read from a file."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...core import checks
from ...core.state import Saved
from ...privacy import Gate, Share
from ..registry import REGISTRY
from ..serving import ServingLearner

Make = Callable[[Share], ServingLearner]


def made(make: Make, share: Share) -> ServingLearner:
    """A learner that spends from ``share``."""
    learner = make(share)
    if not isinstance(learner, ServingLearner):
        raise TypeError(f"make must make a learner that shows sets, got {checks.shown(learner)}")
    if learner._gate is not share.gate:
        raise ValueError("make must make a new learner that spends from the budget it is given")
    return learner


def restored(saved: Saved, gate: Gate) -> ServingLearner:
    """A learner as it was saved, at a gate that is being resumed."""
    name = str(saved.plain("class"))
    if name not in REGISTRY or not issubclass(kind := REGISTRY[name].kind(name), ServingLearner):
        raise ValueError(f"a segment's learner is {name}")
    learner = object.__new__(kind)
    learner._take_up(saved, gate, own_gate=False)
    learner._fix()
    return learner


def check_alike(learners: Sequence[ServingLearner]) -> None:
    """Refuse learners that differ in more than what they have seen."""
    first = learners[0]
    if len({id(learner) for learner in learners}) < len(learners):
        raise ValueError("make must make a new learner each time")
    for learner in learners[1:]:
        if type(learner) is not type(first) or learner.settings.plain() != first.settings.plain():
            raise ValueError("make must make learners with the same settings for all segments")
