"""``--k`` and ``--constraint``: what may be chosen, as asked for and as a constraint over the items."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..constraints import Constraint
    from ..data import Events
    from .stored import Listed


@dataclass(frozen=True)
class Limits:
    """``--k`` and every ``--constraint``, before the items are known: what all of them allow."""

    k: int | None
    rules: tuple[Rule, ...] = ()

    @classmethod
    def read(cls, specs: Sequence[str], k: int | None) -> Limits:
        """The options, checked."""
        from ..core import checks

        if k is not None:
            checks.whole("--k", k, at_least=1)
        if not specs and k is None:
            raise ValueError("say how many items: --k 5, or a --constraint")
        return cls(k, tuple(Rule.read(spec) for spec in specs))

    @property
    def columns(self) -> list[str]:
        """The columns that the constraints are about."""
        return list(dict.fromkeys(rule.column for rule in self.rules))

    def constraint(self, events: Events | Listed, *, at_most_all: bool = False) -> Constraint:
        """The constraint over the items that there are; a k beyond them is refused, or means all of them."""
        from ..constraints import Cardinality
        from ..constraints.intersection import Intersection

        n_items = len(events.items)
        k = self.k
        if k is not None and k > n_items:
            if not at_most_all:
                raise ValueError(
                    f"--k {k} exceeds the number of items, {n_items}; choose --k {n_items} or less, or list"
                    " more items"
                )
            k = n_items
        if not self.rules:
            assert k is not None
            return Cardinality(k)
        # Limits on kinds within a limit on everything are one matroid: k goes with the first partition.
        first = min(self.rules, key=lambda rule: rule.kind != "partition")
        parts = [
            rule.constraint(events, n_items, k if rule is first else None)
            for rule in (first, *(rule for rule in self.rules if rule is not first))
        ]
        return parts[0] if len(parts) == 1 else Intersection(*parts)


@dataclass(frozen=True, eq=False)
class Rule:
    """One ``--constraint``."""

    kind: str
    column: str
    amount: float = 1.0

    @classmethod
    def read(cls, spec: str) -> Rule:
        """The option, checked; the column's name may hold colons."""
        from ..core import checks

        kind, _, rest = spec.partition(":")
        column, _, last = rest.rpartition(":")
        if kind == "partition" and rest:
            if column and last.isdigit() and int(last) > 0:
                return cls(kind, column, int(last))
            return cls(kind, rest)
        if kind == "knapsack" and column:
            try:
                return cls(kind, column, checks.real("LIMIT", float(last), at_least=0.0))
            except ValueError as error:
                raise ValueError(f"--constraint {spec}: LIMIT must be a number of at least 0") from error
        raise ValueError(
            f"--constraint {spec}: write partition:COL, partition:COL:HOW_MANY or knapsack:COL:LIMIT"
        )

    def constraint(self, events: Events | Listed, n_items: int, k: int | None) -> Constraint:
        """The constraint over the items that there are, and at most k of them."""
        from ..constraints import Cardinality, Knapsack, LaminarMatroid, PartitionMatroid
        from ..constraints.intersection import Intersection

        if self.kind == "knapsack":
            bag = Knapsack(self._costs(events), self.amount)
            return bag if k is None else Intersection(Cardinality(k), bag)
        kinds: dict[str, list[int]] = {}
        for item, kind in enumerate(events.facts[self.column]):
            kinds.setdefault(kind, []).append(item)
        blocks, each = list(kinds.values()), int(self.amount)
        if k is None:
            return PartitionMatroid(blocks, each, n_items=n_items)
        if len(blocks) == 1:
            return Cardinality(min(k, each))
        return LaminarMatroid([*blocks, list(range(n_items))], [each] * len(blocks) + [k])

    def _costs(self, events: Events | Listed) -> list[float]:
        from ..data.labels import as_text

        costs = []
        for item, text in zip(map(as_text, events.items), events.facts[self.column], strict=True):
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
