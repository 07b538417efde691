"""The multilinear gradient summed over people, and its exact sensitivity.

At a point x of [0, 1]^n its entry for item j is E[F(R + j) - F(R without j)], R holding each item i with
probability x[i]. The last gradient, at x = (1, ..., 1), is what each item adds to all the others.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..bounds.continuous import places
from ..constraints.residual import Residual
from ..objectives import Population, answers
from ..objectives.extensions import Known, SharedSets
from ..objectives.rows.fixed_point import row_parts
from ..objectives.rows.steps import gradient_steps, random_rows
from ..objectives.rows.table import Rows
from ..privacy import Coins, ScoreChange

Floats = NDArray[np.float64]
Steps = NDArray[np.int64]

# Where the number of people is private, sums are laid out for this many.
MOST_PEOPLE = 1 << 22
# Public factors between 0 and 1 are whole multiples of 2^-40.
_FACTOR_BITS = 40
# Rows with fewer entries than this are summed on one thread.
_THREADED = 1_000_000
SAMPLES = 300
# So many values of sets are kept while a point is climbed to.
_MOST_VALUES = 1 << 22


@dataclass(frozen=True)
class Change:
    """How far one person can move the gradient: one entry, two against each other, all in L1 and in L2.

    ``changed`` is how many entries can move at all.
    """

    entry: float
    range: float
    l1: float
    l2: float
    changed: int

    @classmethod
    def of_sum(cls, bound: float, neighbours: str, n_items: int, touched: int) -> Change:
        """For a sum over people whose gradients lie in [0, bound], at most ``touched`` of them not 0.

        One who comes or goes moves every entry the same way; one who is replaced, up to twice as many.

        >>> Change.of_sum(1.0, "add_remove", 100, 9) == Change(1.0, 1.0, 9.0, 3.0 * (1 + 2**-50), 9)
        True
        >>> Change.of_sum(1.0, "replace", 100, 8).l1, Change.of_sum(1.0, "replace", 10, 8).l1
        (16.0, 10.0)
        """
        replaced = neighbours == "replace"
        changed = min(n_items, 2 * touched if replaced else touched)
        moved = ScoreChange(bound, one_directional=not replaced).range
        return cls(bound, moved, changed * bound, math.sqrt(changed) * bound * (1 + 2.0**-50), changed)

    @classmethod
    def stated(cls, sensitivity: float, bound: float, n_items: int, *, corners_only: bool) -> Change:
        """For any F of which one person moves each value by at most ``sensitivity``.

        An entry is a mean of differences of two values: twice that, and four times for two entries against
        each other. At a corner of the cube all entries start from the same value (and those of the last
        gradient lead to the same one), which cancels. For the rounding of means of floats 2^-40 of the bound
        is added.
        """
        value = sensitivity + bound * 2.0**-40
        entry = 2.0 * value
        return cls(
            entry,
            entry if corners_only else 2.0 * entry,
            n_items * entry,
            math.sqrt(n_items) * entry * (1 + 2.0**-50),
            n_items,
        )


class Gradient(Protocol):
    """The gradient at a point, and what may be done to them without one person moving it further."""

    @property
    def queries(self) -> int: ...

    def at(self, x: Floats) -> NDArray[Any]: ...

    def mix(self, here: NDArray[Any], last: NDArray[Any], weight: float) -> NDArray[Any]: ...

    def shrink(self, values: NDArray[Any], factors: Floats) -> NDArray[Any]: ...

    def scores(self, values: NDArray[Any]) -> Floats: ...


class SummedGradient:
    """The sum over people of their gradients, in whole steps.

    Each person's part of each entry is worked out on its own, clipped to [0, bound] and rounded down to a
    public step before it is added up in integers, so that one person moves an entry by at most ``bound``,
    not by a rounding error more. Gradients without a closed form are means over random sets that are the same
    for everybody and drawn without looking at anybody.
    """

    def __init__(
        self, people: Population, bound: float, samples: int, coins: Coins, length: int | None = None
    ) -> None:
        length = MOST_PEOPLE if length is None else length
        if len(people) > length:
            raise ValueError(
                f"there are more than the {length:,} people for whom sums are laid out; declare a public"
                " max_people= that is large enough"
            )
        self.n_items, self._samples, self._coins = people.n_items, samples, coins
        mantissa, exponent = math.frexp(bound)
        self.step = 2.0 ** (exponent - (mantissa == 0.5) - places(length))
        self._people, self._rows = people, row_parts(people)
        self._most = math.floor(bound / self.step)
        # People are asked again at every point: what they said before is kept where there is room for it.
        held = len(people) * max(people.n_items, 1 << min(people.n_items, 10))  # numbers, at the least
        asked = self._rows is None and held <= _MOST_VALUES
        self._each: Iterable[Population] = list(people) if asked else people
        room = _MOST_VALUES // (len(people) * people.n_items) if asked else 0
        self._known = [Known(room) for _ in range(len(people) if asked else 0)]
        self.queries = 0

    def at(self, x: Floats) -> Steps:
        """The gradient at ``x``, in steps."""
        seed = int(self._coins.generator.integers(1 << 62))
        self.queries += self.n_items
        if self._rows is None:
            return self._one_by_one(x, seed)
        total, left = np.zeros(self.n_items, dtype=np.int64), self._most
        for rows, bound in self._rows:  # the parts of a mixture share out what a person may move
            most = min(left, math.floor(bound / self.step))
            if isinstance(rows, Rows):
                total += self._compiled(rows, x, most, seed)
            else:
                total += rows.gradient_steps(x, 1.0 / self.step, most, seed, self._samples)
            left -= most
        return total

    def mix(self, here: Steps, last: Steps, weight: float) -> Steps:
        """weight x here + (1 - weight) x last, rounded down.

        Both parts of a person lie in [0, bound], so the mixture does; and rounding down the total of whole
        numbers over a common denominator moves by no more than the bound, as moving by whole steps commutes
        with it.
        """
        return last + _fraction(here - last, np.array([weight]))

    def shrink(self, values: Steps, factors: Floats) -> Steps:
        """Each entry times its public factor in [0, 1], rounded down: one person moves it by no more."""
        return _fraction(values, factors)

    def scores(self, values: Steps) -> Floats:
        """Steps as numbers, exactly."""
        return np.asarray(values * self.step, dtype=np.float64)

    def _compiled(self, rows: Rows, x: Floats, most: int, seed: int) -> Steps:
        inside = random_rows(x, seed, self._samples if rows.kind.of_sums else 0)

        def part(first: int, last: int) -> Steps:
            out = np.zeros(self.n_items, dtype=np.int64)
            gradient_steps(rows, x, inside, 1.0 / self.step, most, out, first, last)
            return out

        if rows.sparse.data.size < _THREADED:
            return part(0, rows.n_rows)
        threads = os.cpu_count() or 1
        cuts = np.linspace(0, rows.n_rows, threads + 1).astype(int).tolist()
        with ThreadPoolExecutor(threads) as pool:
            parts = list(pool.map(part, cuts[:-1], cuts[1:]))
        return np.asarray(np.sum(parts, axis=0), dtype=np.int64)

    def _one_by_one(self, x: Floats, seed: int) -> Steps:
        total = np.zeros(self.n_items, dtype=np.int64)
        sets = SharedSets(x, seed, self._samples)
        for person, known in zip_longest(self._each, self._known):
            try:
                found = sets.gradient(person, known)
                gradient = answers.vector("multilinear_gradient", found, self.n_items)
            except Exception:  # somebody's own code: what it raises may hold their data
                continue
            total += np.clip(gradient / self.step, 0, self._most).astype(np.int64)
        return total


class StatedGradient:
    """The gradient of any set function whose values one person moves by a stated amount at most."""

    def __init__(self, people: Population, samples: int, coins: Coins) -> None:
        self._people, self._samples, self._coins = people, samples, coins
        self.queries = 0

    def at(self, x: Floats) -> Floats:
        """The gradient at ``x``."""
        self.queries += self._people.n_items
        coins = self._coins.generator
        asked = self._people.multilinear_gradient(x.copy(), rng=coins, samples=self._samples)
        return answers.vector("multilinear_gradient", asked, self._people.n_items)

    def mix(self, here: Floats, last: Floats, weight: float) -> Floats:
        """weight x here + (1 - weight) x last."""
        return weight * here + (1.0 - weight) * last

    def shrink(self, values: Floats, factors: Floats) -> Floats:
        """Each entry times its public factor in [0, 1]."""
        return values * factors

    def scores(self, values: Floats) -> Floats:
        """The values themselves."""
        return values


class GradientOnTop:
    """Entries for the items that are left, at points where included items are 1 and excluded ones 0.

    Included and excluded items are public, and these entries are some of those of all items: one person moves
    them no further.
    """

    def __init__(self, gradient: Gradient, left: Residual) -> None:
        self._gradient, self._left = gradient, left
        self.mix, self.shrink, self.scores = gradient.mix, gradient.shrink, gradient.scores

    @property
    def queries(self) -> int:
        """How many entries were worked out."""
        return self._gradient.queries

    def at(self, x: Floats) -> NDArray[Any]:
        """The gradient at ``x``, a point of the items that are left."""
        return self._gradient.at(self._left.point(x))[self._left.free]


def check_population(people: Any) -> None:
    """An error for what is no population."""
    if not isinstance(people, Population):
        raise TypeError(
            f"people must be an objective such as Coverage or SetFunction, got {type(people).__name__}"
        )


def check_people(people: Population, bound: float, stated: bool) -> None:
    """An error, before anything is released, for people whom continuous greedy cannot take."""
    if not people.monotone:
        raise ValueError(
            "continuous greedy needs functions that never fall when an item is added (monotone);"
            f" {type(people).__name__} declares no such thing"
        )
    if not stated and not people.sums_over_people:
        raise ValueError(
            f"{type(people).__name__} is not a sum over people, so bound={bound:g} says nothing about one of"
            " them; state sensitivity=, how far one person can move the value of a set"
        )
    if stated and row_parts(people) is not None:
        raise ValueError(
            f"{type(people).__name__} is a sum over people, whose sensitivity follows from bound=; leave"
            " sensitivity= out"
        )
    if not people.bound <= bound * (1 + 1e-12):
        raise ValueError(
            f"the objective may reach {people.bound:g}, above bound={bound:g}; rescale it or declare a"
            " larger bound"
        )
    if people.row_source() is None:
        # Functions that fail or exceed their bound do so now.
        answers.vector("gains", people.gains([]), people.n_items)


def _fraction(values: Steps, factors: Floats) -> Steps:
    """floor(values x factors), the factors in units of 2^-40; Python's integers, as these need 92 bits."""
    parts = np.floor(factors * 2.0**_FACTOR_BITS).astype(np.int64)
    product = values.astype(object) * parts.astype(object)
    return np.asarray(product >> _FACTOR_BITS).astype(np.int64)
