"""Rounds of a learner: which one it is, and what is shown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.state import Saved


class Rounds:
    """The number of the round, whether its decision has been asked for, and the decision.

    A round is closed before its person is taken up: an interruption in between may lose somebody, and never
    counts them twice. `close` is the only place where rounds pass.

    >>> rounds = Rounds(10)
    >>> rounds.open(np.array([3, 1]))
    >>> rounds.close(then=lambda: print("learned"))
    learned
    >>> rounds.number, rounds.is_open
    (1, False)
    """

    def __init__(self, horizon: int | None) -> None:
        self._horizon = horizon
        self._number = 0
        self._open = False
        self._shown: NDArray[Any] | None = None
        self.goes_on = False  # whether feedback beyond the horizon is taken, and not learned from
        self.altered = False  # whether this round serves another set than the one that was drawn

    @property
    def horizon(self) -> int | None:
        """How many rounds there are; None for any number."""
        return self._horizon

    @property
    def number(self) -> int:
        """How many rounds have passed."""
        return self._number

    @property
    def is_open(self) -> bool:
        """Whether the decision of this round has been asked for."""
        return self._open

    @property
    def shown(self) -> NDArray[Any] | None:
        """What was decided last."""
        return self._shown

    @property
    def over(self) -> bool:
        """Whether the declared horizon has been reached."""
        return self._horizon is not None and self._number >= self._horizon

    @property
    def left(self) -> int | None:
        """How many rounds can still be learned from."""
        return None if self._horizon is None else self._horizon - self._number

    def open(self, shown: NDArray[Any] | None = None) -> None:
        """This round's decision is asked for; ``shown`` is a new one, else the last one stands."""
        if shown is not None:
            self._shown = shown
        self._open, self.altered = True, False

    def show(self, shown: NDArray[Any]) -> None:
        """What a compiled loop decided last."""
        self._shown = shown

    def close(self, count: int = 1, then: Callable[[], object] | None = None) -> None:
        """``count`` rounds pass; ``then`` takes up their people.

        Where none passes the open one stays open: its decision has been drawn, and a second draw would be one
        more than was paid for.
        """
        if not count:
            return
        self._number += count
        self._open = False
        if then is not None:
            then()

    def drawn(self, every: int) -> int:
        """How many decisions were drawn so far, at the least, if a new one is due every so many rounds."""
        return -(-(self._number + self._open) // every)

    # --- saving ----------------------------------------------------------------------------------

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Plain values, for `resume`."""
        shown = None if self._shown is None else self._shown.tolist()
        plain = {"number": self._number, "open": self._open, "shown": shown, "altered": self.altered}
        return plain | {"goes_on": self.goes_on}, {}

    def resume(
        self, saved: Saved, kind: type[np.generic], could_show: Callable[[NDArray[Any]], bool]
    ) -> None:
        """Go on from a saved place; ``could_show`` says whether such a decision can have been drawn.

        It is asked by `check`, once everything that it looks at is there.
        """
        self._number = saved.whole("number", at_least=0, at_most=self._horizon)
        self._open = saved.flag("open")
        self._shown = np.array(saved.rows("shown"), dtype=kind) if saved.given("shown") else None
        self.altered, self.goes_on = saved.flag("altered"), saved.flag("goes_on")
        self._could_show = could_show

    def check(self) -> None:
        """Refuse a saved decision that was never drawn."""
        if self._shown is None:
            good = self._number == 0 and not self._open
        else:
            good = self._could_show(self._shown) and not (self._open and self.over)
        if not good:
            raise ValueError(f"shown was never decided in round {self._number}")
