"""Rounds with people whose concave function is in Python: it is asked once for each person."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ..kernels.functions import Questions
from ..objectives.answers import ROUNDING
from ..objectives.rows import Rows
from ..privacy.ordered import OrderedExperts

_MOST = 1 << 20  # numbers that are asked for at a time


class FunctionRounds:
    """People of a stream in turn: what a shown set is worth to each, and what every item adds along it.

    Nobody's function is asked together with somebody else's weights. Whoever answers something that must not
    be, or nothing, is left to whoever asks them alone.
    """

    def __init__(self, rows: Rows, k: int, bound: float, scale: float = 1.0, most: int = 0) -> None:
        assert rows.kind.function is not None
        self._function, self._bound = rows.kind.function, bound
        self.rows = Rows(rows.kind, rows.sparse, rows.share, rows.cap)
        longest = int(np.diff(rows.sparse.indptr).max(initial=0))
        each = 1 + (min(k, longest) + 1) * (longest + 1)
        self.at_a_time = max(1, _MOST // each)
        self._asked = np.empty(min(self.at_a_time, rows.n_rows) * each)
        self._found = np.empty_like(self._asked)
        about = (np.ascontiguousarray(rows.cap), self._asked, self._found, ROUNDING)
        self._questions = Questions(rows.sparse.view, *about, (bound, scale, float(most)))

    def ask(self, first: int, stop: int, shown: NDArray[np.int32]) -> NDArray[np.float64]:
        """What ``shown`` is worth to people from ``first`` on: to those before the one to be asked alone."""
        ends = np.zeros(min(stop - first, self.at_a_time) + 1, dtype=np.int64)
        self._questions.put(first, shown, ends)
        added = np.zeros((self._answered(ends), shown.size))
        good = self._questions.judge(added)
        value: NDArray[np.float64] = added[:good].sum(axis=1)
        if good and value.max() > self._bound:
            above = np.flatnonzero(value > self._bound * (1.0 + ROUNDING))
            value = np.minimum(value[: above[0]] if above.size else value, self._bound)
        return value

    def _answered(self, ends: NDArray[np.int64]) -> int:
        """Ask one person after the other; how many gave numbers, one for one."""
        function, asked, found = self._function, self._asked, self._found
        for t, (start, stop) in enumerate(pairwise(ends.tolist())):
            try:
                answer = np.asarray(function(asked[start:stop]), dtype=np.float64)
            except Exception:  # whoever asks them alone says what is wrong
                return t
            if answer.shape != (stop - start,):
                return t
            found[start:stop] = answer
        return ends.size - 1

    def teach(self, experts: OrderedExperts, within_limit: NDArray[np.bool_]) -> None:
        """The experts learn from the people who answered last, as many as ``within_limit`` has entries."""
        self._questions.teach(experts, within_limit)
