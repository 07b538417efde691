"""A learner's view of the contribution limit that several learners have in common."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from numpy.typing import NDArray

from ..contribution import ContributionLimit


class SharedLimit(ContributionLimit):
    """Counts people where ``whole`` does, so that a person's rounds count together, whoever learns them.

    What is counted is saved with ``whole``; a learner's file holds its ``own`` limit, which counts nobody.
    """

    def __init__(self, own: ContributionLimit, whole: ContributionLimit) -> None:
        if own.apart or own.people:
            raise ValueError("somebody was counted by a learner of its own, or has to be in rounds apart")
        self._own, self._whole = own, whole

    @property
    def name(self) -> str:
        return self._own.name

    @property
    def apart(self) -> bool:
        return False

    def register(self, person: Hashable | None, ahead: int | None = None) -> bool:  # noqa: ARG002
        return self._whole.register(person)

    def forget(self, person: Hashable | None) -> None:
        self._whole.forget(person)

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        return self._own.state()
