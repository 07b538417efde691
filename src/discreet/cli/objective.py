"""``--objective``: what a list is worth to a person; what public sizes say of that and of the budget."""

from __future__ import annotations

import argparse
import math
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..data import Events
    from ..objectives import Population
    from ..objectives.rows.people import RowPopulation
    from ..offline import PrivateGreedy
    from ..privacy import Budget
    from ..results import Selection

_KINDS = ("any", "several", "nearest")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What counts, and the vectors of items."""
    group = parser.add_argument_group("what a list is worth to a person")
    group.add_argument(
        "--objective",
        choices=_KINDS,
        default="any",
        help="any: whether it holds any of their items (default; with --weight, the chance that they take"
        " one); several: every item of theirs counts, each less than the one before (the square root of"
        " their number, or of the sum of --weight); nearest: how like its most similar item is to the mean"
        " of theirs, by --vectors",
    )
    group.add_argument(
        "--vectors",
        metavar="COLS",
        help="for nearest: the columns of --items with each item's vector, separated by commas",
    )


@dataclass(frozen=True)
class Objective:
    """The option, before there are people."""

    kind: str
    vectors: tuple[str, ...] = ()

    @classmethod
    def read(cls, options: argparse.Namespace, *, stored: bool) -> Objective:
        """The options, checked."""
        named = (options.vectors or "").split(",")
        vectors = tuple(dict.fromkeys(name.strip() for name in named if name.strip()))
        if options.objective != "nearest":
            if options.vectors is not None:
                raise ValueError("--vectors is for --objective nearest")
            return cls(options.objective)
        if stored:
            raise ValueError(
                "--objective nearest is for files: a store keeps no vectors; in Python there is"
                " objectives.EmbeddedFacilityLocation"
            )
        if options.items is None or not vectors:
            raise ValueError(
                "--objective nearest needs --items FILE with each item's vector, and --vectors COLS, the"
                " columns that hold it"
            )
        if options.cap is not None:
            raise ValueError(
                "--cap has no use with --objective nearest: a person is one vector, the mean of theirs;"
                " leave it out"
            )
        return cls("nearest", vectors)

    def bound(self, rank: int) -> float:
        """The most that a list of so many items is worth to a person."""
        return math.sqrt(rank) if self.kind == "several" else 1.0

    def family(self, rank: int, *, weighted: bool) -> tuple[type[RowPopulation], dict[str, Any]]:
        """The family of people's functions, and its options."""
        from ..objectives import ConcaveOverModular, Coverage, ProbabilisticCoverage

        if self.kind == "several":
            return ConcaveOverModular, {"concave": "sqrt", "bound": self.bound(rank), "at_most": rank}
        return (ProbabilisticCoverage if weighted else Coverage), {}

    def people(self, events: Events, rank: int, *, weighted: bool) -> Population:
        """The people of a file."""
        if self.kind == "nearest":
            return self._nearest(events)
        family, options = self.family(rank, weighted=weighted)
        made: Population = family.of_events(events, **options)
        return made

    def _nearest(self, events: Events) -> Population:
        """Everybody as the mean of their items' vectors, each of length 1; by their own rows alone."""
        import numpy as np

        from ..objectives import EmbeddedFacilityLocation

        items = np.array([self._numbers(events, column) for column in self.vectors]).T
        people = np.asarray(events.matrix @ _unit(items))
        scale = min(1.0, 4.0 / math.sqrt(len(self.vectors)))
        return EmbeddedFacilityLocation(people, items, scale=scale, normalize=True, labels=events.items)

    def _numbers(self, events: Events, column: str) -> list[float]:
        from ..data.labels import as_text

        found = []
        for item, text in zip(events.items, events.facts[column], strict=True):
            try:
                number = float(text)
            except ValueError:
                number = math.nan
            if not math.isfinite(number):
                raise ValueError(
                    f"item {as_text(item)!r} has {text!r} in column {column!r}; a vector is made of numbers"
                )
            found.append(number)
        return found

    @property
    def adds(self) -> str:
        """What a noisy gain counts."""
        return "people it adds (noisy)" if self.kind == "any" else "it adds (noisy)"

    @property
    def words(self) -> str | None:
        """What the list was chosen for, where that is not the usual."""
        if self.kind == "several":
            return (
                "The list is worth to a person the square root of how much of it is theirs: the second item"
                " counts about two fifths of the first, and so on."
            )
        if self.kind == "nearest":
            return (
                "The list is worth to a person the cosine between the mean of their items' vectors and the"
                " item of the list that is most like it (0 where all are unlike)."
            )
        return None


def _unit(rows: Any) -> Any:
    """Each row at length 1; those of length 0 stay."""
    import numpy as np

    length = np.sqrt((rows * rows).sum(axis=1, keepdims=True))
    return rows / np.where(length > 0.0, length, 1.0)


_LARGE_EPSILON = 10.0


def warn_of_budget(budget: Budget, count: int, max_people: int | None) -> None:
    """Warn of an epsilon that promises little, and of a delta that leaves room for somebody's data as it is.

    ``max_people`` as it was declared. The number of people is public unless their presence is private; then
    a bound that was declared takes its place.
    """
    if _LARGE_EPSILON < budget.epsilon < math.inf:
        warnings.warn(
            f"epsilon {budget.epsilon:g} promises little: one person's data may make a result"
            f" e^{budget.epsilon:g} times as likely. Around 1 is usual",
            stacklevel=2,
        )
    replaced = budget.neighbours == "replace"
    known = count if replaced else max_people
    if not known or budget.delta * known < 1.0:
        return
    so_many = f"{'' if replaced else 'up to '}{known:,} people"
    small = 10.0 ** -(len(str(known)) + 2)
    warnings.warn(
        f"delta {budget.delta:g} is large for {so_many}: to publish everything about one of them, drawn at"
        f" random, would keep to it. Choose one far below 1/{known:,}, e.g. {small:.0e}",
        stacklevel=2,
    )


def last_picks(
    max_people: int | None, people: Population, greedy: PrivateGreedy, selection: Selection
) -> str | None:
    """From which pick on chance decides, by public sizes alone; None where none is, or that is not known."""
    known = len(people) if greedy.budget.neighbours == "replace" else max_people
    if known is None or greedy.method_used is None:
        return None
    first = greedy.picks_above_chance(known, people.n_items) + 1
    if first > len(selection.items) - len(selection.included):
        return None
    return (
        f"From pick {first} on chance decides more than the people: all picks together add at most what"
        f" {known:,} people are worth, so that pick {first} adds at most 1/{first} of it, and with this"
        " budget an item that adds so much is passed over more often than not. Fewer picks, more people or a"
        " larger --epsilon help."
    )
