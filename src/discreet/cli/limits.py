"""What may be chosen: ``--k`` and ``--constraint``, and what ``--include`` and ``--exclude`` settle."""

from __future__ import annotations

import math
from collections.abc import Container, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

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

    def shortfall(
        self, constraint: Constraint, n_items: int, chosen: Sequence[int], excluded: Sequence[int]
    ) -> str | None:
        """Why fewer than ``--k`` items are in a list, where the constraint is why; None where it is not.

        Read off the list and what is public about the items alone.
        """
        import numpy as np

        if self.k is None or not self.rules or len(chosen) >= self.k:
            return None
        taken = np.array(chosen, dtype=np.intp)
        left = np.ones(n_items, dtype=np.bool_)
        left[[*chosen, *excluded]] = False
        if not left.any() or (left & constraint.over(n_items).addable(taken)).any():
            return None
        under = "the limit" if len(self.rules) == 1 else "the limits"
        return f"{len(chosen)} of at most {self.k}: nothing that is left fits under {under}"


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


@dataclass(frozen=True)
class Given:
    """``--include`` and ``--exclude``, before the items are known: texts as written, and lines of files."""

    include: tuple[Named, ...] = ()
    exclude: tuple[Named, ...] = ()

    @classmethod
    def read(cls, include: Sequence[str], exclude: Sequence[str]) -> Given:
        """The options; their files are read now."""
        return cls(
            tuple(Named.read("--include", text) for text in include),
            tuple(Named.read("--exclude", text) for text in exclude),
        )

    def included(self, events: Events | Listed) -> list[Any]:
        """The items to include."""
        return self._items("--include", self.include, events, unknown=False)

    def excluded(self, events: Events | Listed) -> list[Any]:
        """The items to exclude.

        Of a list that was read off the file nobody knows what is in it, so that what is not is no mistake.
        """
        return self._items("--exclude", self.exclude, events, unknown=events.catalogue == "from data")

    def without_excluded(self, events: Events) -> Events:
        """The same people without the items to exclude, before a list is chosen: these need no votes."""
        import numpy as np

        out = set(self.excluded(events))
        kept = np.array([item not in out for item in events.items], dtype=np.bool_)
        return events if kept.all() else events.only(kept)

    def _items(
        self, option: str, named: tuple[Named, ...], events: Events | Listed, *, unknown: bool
    ) -> list[Any]:
        from ..core.labels import unknown_item
        from ..data.labels import as_text

        items = {as_text(item): item for item in events.items} if named else {}
        found = {}
        for text in (text for one in named for text in one.labels(items)):
            if text in items:
                found[text] = items[text]
            elif not unknown:
                public = events.catalogue == "public"
                raise unknown_item(option, text, list(items), "see the list of items", public=public)
        return list(found.values())


@dataclass(frozen=True)
class Named:
    """One option: labels separated by commas, or the lines of a file."""

    text: str
    lines: tuple[str, ...] | None = None

    @classmethod
    def read(cls, option: str, text: str) -> Named:
        """``@FILE`` is read; blank lines do not count."""
        if not text.startswith("@"):
            return cls(text)
        try:
            lines = Path(text[1:]).read_text(encoding="utf-8-sig").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            why = "is no text in UTF-8" if isinstance(error, UnicodeDecodeError) else error.strerror
            raise ValueError(
                f"{option} {text}: {why}; @ stands before a file with one item per line"
            ) from None
        return cls(text, tuple(line.strip() for line in lines if line.strip()))

    def labels(self, known: Container[str]) -> list[str]:
        """The labels; a text that is one label as a whole is that one, whatever commas it holds."""
        if self.lines is not None:
            return list(self.lines)
        if self.text in known:
            return [self.text]
        return [part.strip() for part in self.text.split(",") if part.strip()]
