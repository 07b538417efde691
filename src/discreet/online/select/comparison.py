"""What one learner's set earns of a person beyond another's, in whole units."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ... import backends
from ...backends.patience import for_one
from ...objectives import answers
from ...objectives.rows.table import Rows


@dataclass(frozen=True)
class Comparison:
    """Differences of rewards in units of the bound, of which ``units`` whole ones make 1.

    ``weighted`` people count by the norm of what items are worth to them alone, as for the experts.
    """

    bound: float
    weighted: bool
    units: int

    def weights(self, rows: Rows) -> NDArray[np.float64]:
        """The weight of every person."""
        weights = np.ones(rows.n_rows)
        if self.weighted:
            (indptr, _, data, cap), kind = rows.arrays, rows.kind
            loop = backends.selectors.row_weights
            if rows.n_rows == 1:
                loop = for_one(loop, data.size, 0)
            loop(kind.code, kind.fresh, indptr, data, cap, self.bound, weights)
        return weights

    def differences(self, rewards: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.int64]:
        """What the first set earned beyond the second, for each person."""
        shares = np.clip(rewards / self.bound, 0.0, 1.0) * weights
        whole = np.floor(shares * self.units).astype(np.int64)
        return np.asarray(whole[0] - whole[1])

    def of(self, first: NDArray[np.int32], second: NDArray[np.int32], person: Any) -> NDArray[np.int64]:
        """The same for one person; for people who are rows their sum."""
        rows, sets = person.as_rows(), (first, second)
        if rows is not None:
            rewards = np.empty((2, rows.n_rows))
            for place, shown in enumerate(sets):
                loop = backends.selectors.row_values
                if rows.n_rows == 1:
                    loop = for_one(loop, rows.sparse.indices.size, shown.size)
                loop(*table(rows), 0, shown, rewards[place])
            whole = self.differences(rewards, self.weights(rows)).sum(keepdims=True)
            return np.asarray(whole, dtype=np.int64)
        values = [answers.number("value", person.value(one.tolist()), 0.0, self.bound) for one in sets]
        weights = np.ones(1)
        if self.weighted:
            alone = answers.vector("gains", person.gains([]), person.n_items, 0.0, self.bound) / self.bound
            weights[0] = backends.selectors.norm_weight(float(alone @ alone))
        return self.differences(np.array(values)[:, None], weights)


def table(rows: Rows) -> tuple[Any, ...]:
    """People's rows, as compiled loops take them."""
    return rows.kind.code, rows.kind.fresh, *rows.arrays
