"""Beliefs that begin when some blocks have been released, and are then learned from one after the other."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.state import Saved
from .posterior import Floats, Independent, Joint, Posterior


class Beliefs(ABC):
    """What is known from released averages of blocks.

    The first ``warm_up`` blocks are kept as they are: how large values are, and so what is believed before
    anything is known, follows from them. ``width`` numbers say what was shown, of the kind ``kind`` from 0 to
    ``largest``, and ``values`` what came of it. ``size`` weights are believed in, ``together`` or each alone.
    """

    def __init__(
        self,
        warm_up: int,
        width: int,
        kind: type[np.generic],
        largest: int,
        values: int,
        size: int,
        together: bool,
    ) -> None:
        self._warm_up, self._width, self._kind, self._largest = warm_up, width, kind, largest
        self._numbers, self._size, self._together = values, size, together
        self._shown: list[NDArray[Any]] = []
        self._values: list[Floats] = []
        self._posterior: Posterior | None = None

    @abstractmethod
    def _begin(self, values: Floats) -> Posterior:
        """What is believed before anything is known, by how large the values of the first blocks are."""

    @abstractmethod
    def _learn(self, posterior: Posterior, shown: NDArray[Any], values: Floats, part: float = 1.0) -> None:
        """Take up the averages of one block, or of ``part`` of one."""

    def observe(self, shown: NDArray[Any], values: Floats, part: float = 1.0) -> None:
        """The released averages of a block, in units of the bound; ``part`` of its rounds are in them."""
        if self._posterior is not None:
            self._learn(self._posterior, shown, values, part)
            return
        self._shown.append(shown)
        self._values.append(values)
        if len(self._shown) == self._warm_up:
            begun = self._begin(np.array(self._values))
            for one, known in zip(self._shown, self._values, strict=True):
                self._learn(begun, one, known)
            self._posterior = begun

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """For `resume`: released values, and what follows from them."""
        count = len(self._shown)
        arrays: dict[str, NDArray[Any]] = {
            "shown": np.array(self._shown, dtype=self._kind).reshape(count, self._width),
            "values": np.array(self._values).reshape(count, self._numbers),
        }
        if self._posterior is not None:
            arrays |= self._posterior.state()[1]
        return {"begun": self._posterior is not None}, arrays

    def resume(self, saved: Saved) -> None:
        """Go on with what was believed."""
        begun = saved.flag("begun")
        values = saved.array("values", (None, self._numbers))
        count = values.shape[0]
        if count != self._warm_up if begun else count >= self._warm_up:
            raise ValueError(f"the array values has {count} blocks; {self._warm_up} are kept")
        shape = (count, self._width)
        shown = saved.array("shown", shape, self._kind, at_least=0, at_most=self._largest)
        self._shown, self._values = list(shown), list(values)
        if begun:
            self._begin(values)
            kind = Joint if self._together else Independent
            self._posterior = kind.resumed(saved, self._size)
