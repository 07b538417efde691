"""``--k`` and ``--constraint``: what may be chosen, as asked for and as a constraint over the items."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..constraints import Constraint
    from ._people import People


@dataclass(frozen=True)
class Limit:
    """``--k`` and ``--constraint``, before the items are known."""

    k: int | None
    kind: str | None = None
    column: str | None = None
    amount: float = 1.0

    @classmethod
    def read(cls, spec: str | None, k: int | None) -> Limit:
        """Both options, checked; the column's name may hold colons."""
        from .. import _checks

        if k is not None:
            _checks.whole("--k", k, at_least=1)
        if spec is None:
            if k is None:
                raise ValueError("say how many items: --k 5, or a --constraint")
            return cls(k)
        kind, _, rest = spec.partition(":")
        column, _, last = rest.rpartition(":")
        if kind == "partition" and rest:
            if not column:
                return cls(k, kind, rest)
            if last.isdigit() and int(last) > 0:
                return cls(k, kind, column, int(last))
            return cls(k, kind, rest)
        if kind == "knapsack" and column:
            try:
                return cls(k, kind, column, _checks.real("LIMIT", float(last), at_least=0.0))
            except ValueError as error:
                raise ValueError(f"--constraint {spec}: LIMIT must be a number of at least 0") from error
        raise ValueError(
            f"--constraint {spec}: write partition:COL, partition:COL:HOW_MANY or knapsack:COL:LIMIT"
        )

    def constraint(self, people: People) -> Constraint:
        """The constraint over the items that there are."""
        from ..constraints import Cardinality, Knapsack, LaminarMatroid, PartitionMatroid
        from ..constraints.intersection import Intersection

        n_items = people.population.n_items
        if self.k is not None and self.k > n_items:
            raise ValueError(f"--k {self.k} exceeds the number of items, {n_items}; choose a smaller one")
        if self.kind is None:
            assert self.k is not None
            return Cardinality(self.k)
        assert people.facts is not None
        if self.kind == "knapsack":
            bag = Knapsack(self._costs(people), self.amount)
            return bag if self.k is None else Intersection(Cardinality(self.k), bag)
        kinds: dict[str, list[int]] = {}
        for item, kind in enumerate(people.facts):
            kinds.setdefault(kind, []).append(item)
        blocks, each = list(kinds.values()), int(self.amount)
        if self.k is None:
            return PartitionMatroid(blocks, each, n_items=n_items)
        if len(blocks) == 1:
            return Cardinality(min(self.k, each))
        # Limits on kinds inside a limit on everything are nested: one matroid, for which greedy is worth 1/2.
        return LaminarMatroid([*blocks, list(range(n_items))], [each] * len(blocks) + [self.k])

    def _costs(self, people: People) -> list[float]:
        assert people.facts is not None
        costs = []
        for item, text in zip(people.labels, people.facts, strict=True):
            try:
                cost = float(text)
            except ValueError:
                cost = math.nan
            if not 0.0 <= cost < math.inf:
                raise ValueError(
                    f"item {item!r} has {text!r} in column {self.column!r}; a cost is a number of at least 0"
                )
            costs.append(cost)
        if min(costs) > self.amount:
            raise ValueError(
                f"--constraint knapsack: even the cheapest item costs {min(costs):g}, more than the limit"
                f" {self.amount:g}; raise the limit"
            )
        return costs
