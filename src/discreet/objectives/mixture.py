"""Nonnegative combinations of objectives about the same items."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Self

import numpy as np

from ..core.checks import real
from .base import CATALOGUES, Floats, Items, Population

if TYPE_CHECKING:
    from ..privacy import Release


class Mixture(Population):
    """f(S) = sum of factor x part(S); made by ``+`` and ``*``.

    All parts speak of the same items and, as a rule, person by person of the same people. The bound is the
    same combination of the parts' bounds, and so is the sensitivity. Where a part's bound is one of sets of
    at most this many items (``at_most``), so is that of the mixture.

    Parts may also have different numbers of people, such as a facility location over many rows and one graph
    cut. Each is then an average over its own people; a sum over rows is ``len(part) * part``. Such a mixture
    is one function of everybody's data, no sum over people: ``people[i]`` is refused, so online learners
    refuse it, and `PrivateGreedy` takes it under ``neighbours="replace"`` only, where the numbers of people
    are public. The sensitivity is for a person who has one row in every part. In a part with a single row
    that may be all of it, so that the part counts with its whole range.

    >>> from discreet.objectives import Coverage, FacilityLocation
    >>> both = 0.5 * Coverage([[1, 0], [0, 1]]) + 0.5 * FacilityLocation([[0.2, 0.4], [1.0, 0.0]])
    >>> both.value([0]), both.bound
    (0.55, 1.0)
    """

    def __init__(self, parts: Sequence[tuple[float, Population]]) -> None:
        flat: list[tuple[float, Population]] = []
        for factor, part in parts:
            if not isinstance(part, Population):
                raise TypeError(f"parts must be (factor, population) pairs, got a {type(part).__name__}")
            inner: list[tuple[float, Population]] = [(1.0, part)]
            if isinstance(part, Mixture):
                inner = part._parts
            flat += [(real("factor", factor * f, at_least=0), p) for f, p in inner]
        if not flat:
            raise ValueError("parts is empty; a mixture needs at least one (factor, population) pair")
        first = flat[0][1]
        for _, part in flat[1:]:
            if part.n_items != first.n_items:
                raise ValueError(
                    f"a mixture needs the same items: {first.n_items} items against {part.n_items}"
                )
        self.stored = _in_one_store([part for _, part in flat])
        named = [part.labels for _, part in flat if part.labels is not None]
        for labels in named[1:]:
            if labels != named[0]:
                j = next(i for i, (a, b) in enumerate(zip(labels, named[0], strict=True)) if a != b)
                raise ValueError(
                    f"item {j} is {named[0][j]!r} in one part and {labels[j]!r} in another; "
                    "a mixture needs the same items in the same order"
                )
        self._parts: list[tuple[float, Population]] = flat
        self.one_by_one = all(part.one_by_one and len(part) == len(first) for _, part in flat)
        self.n_items = first.n_items
        self.monotone = all(part.monotone for _, part in flat)
        self.built_in = all(part.built_in for _, part in flat)
        self.labels = named[0] if named else None
        self.at_most = min((part.at_most for _, part in flat if part.at_most is not None), default=None)
        self.catalogue = max((part.catalogue for _, part in flat), key=list(CATALOGUES).index)

    def bound_of(self, size: int) -> float:
        """The combination of the parts' bounds, on sets of at most ``size`` items."""
        return sum(factor * part.bound_of(size) for factor, part in self._parts)

    def sensitivity(
        self, neighbours: str = "replace", norm: str = "coordinate", items_per_person: int | None = None
    ) -> float:
        """The combination of the parts' sensitivities: norms of a sum are at most the sum of norms.

        Adding the parts up rounds once more for each: c units of the bound, as in `Population.sensitivity`,
        in both of two neighbours and in both of two entries.
        """
        together = sum(f * part.sensitivity(neighbours, norm, items_per_person) for f, part in self._parts)
        rounding = 4.0 * 6.0 * len(self._parts) * 2.0**-53 * self.bound_of(self.at_most or self.n_items)
        entries = {"l1": self.n_items, "l2": math.sqrt(self.n_items)}.get(norm, 1)
        return together + entries * rounding

    @property
    def sums_over_people(self) -> bool:
        return self.one_by_one and all(part.sums_over_people for _, part in self._parts)

    def check_picks(self, picks: int) -> None:
        for _, part in self._parts:
            part.check_picks(picks)

    @property
    def parts(self) -> tuple[tuple[float, Population], ...]:
        """The (factor, population) pairs; mixtures of mixtures are laid flat."""
        return tuple(self._parts)

    def __len__(self) -> int:
        """The number of people, or the largest number that a part has."""
        return max(len(part) for _, part in self._parts)

    def _value(self, items: Items) -> float:
        return sum(factor * part._value(items) for factor, part in self._parts)

    def _gains(self, items: Items) -> Floats:
        return _sum(factor * part._gains(items) for factor, part in self._parts)

    def _chain(self, order: Items) -> Floats:
        return _sum(factor * part._chain(order) for factor, part in self._parts)

    def _contributions(self, items: Items) -> Floats:
        return _sum(factor * part._contributions(items) for factor, part in self._parts)

    def _extension(self, x: Floats) -> tuple[float, Floats] | None:
        total, gradient = 0.0, np.zeros(self.n_items)
        for factor, part in self._parts:
            closed = part._extension(x)
            if closed is None:
                return super()._extension(x)
            total += factor * closed[0]
            gradient += factor * closed[1]
        return total, gradient

    def _take(self, rows: Items) -> Self:
        if not self.one_by_one:
            raise ValueError(
                "the parts of this mixture have different numbers of people, so that nobody has a function of"
                " their own in it; mix parts about the same people"
            )
        taken = self._like()
        taken._parts = [(factor, part._take(rows)) for factor, part in self._parts]
        return taken

    def sampled(self, release: Release, keep: int) -> Population | None:
        if not self.stored:
            return super().sampled(release, keep)
        secret, some = release.words(2), self._like()
        some._parts = [(factor, part.kept(secret, keep)) for factor, part in self._parts]  # type: ignore[attr-defined]
        return some

    def _largest(self) -> Floats:
        return _sum(factor * part._largest() for factor, part in self._parts)


def _in_one_store(parts: Sequence[Population]) -> bool:
    """Whether all parts live in a store, which must then be one and the same."""
    stores = [part.store.digest if part.stored else None for part in parts]  # type: ignore[attr-defined]
    if any(one != stores[0] for one in stores):
        raise ValueError("a mixture is in memory or in one store: its parts must be about the same people")
    return stores[0] is not None


def _sum(terms: Iterable[Floats]) -> Floats:
    return np.asarray(np.sum(list(terms), axis=0), dtype=np.float64)
