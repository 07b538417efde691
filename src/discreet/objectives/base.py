"""The objective interface: one ground set, many people, averages over them; and mixtures of objectives."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core import checks
from ..core.checks import DataError, named_rows, one_of, one_person, real, shown, vector, whole
from ..core.guards import fixed
from ..core.names import all_numbers, check_distinct, item_numbers
from ..privacy import PublicRandomness
from . import answers
from .answers import ROUNDING
from .devices import QUIET

if TYPE_CHECKING:
    from ..privacy import Release
    from .fixed_point import StepSource
    from .rows import Rows


Floats = NDArray[np.float64]
Items = NDArray[np.int64]
_NOT_ASKED = np.zeros(0)


class State:
    """A growing set: ``gains()`` of all items, ``add(item)``, ``items`` and ``value`` so far.

    This class recomputes gains from the population after each addition; some families update them instead.
    """

    def __init__(self, people: Population) -> None:
        self._people = people
        self.items: list[int] = []
        self.value = people.value([])
        self._now: Floats = _NOT_ASKED

    def gains(self) -> Floats:
        """The average gain of every item on top of the set; 0 for the items in it."""
        if self._now is _NOT_ASKED:
            self._now = self._people.gains(self.items)
        now = self._now.copy()
        now[self.items] = 0.0
        return now

    def add(self, item: Any) -> float:
        """Put ``item`` (a number, or a label) into the set and return its marginal gain."""
        if self._people.labels is not None and not isinstance(item, int | np.integer):
            (item,) = self._people.item_numbers([item])
        chosen = whole("item", item, at_least=0, at_most=self._people.n_items - 1)
        if chosen in self.items:
            raise ValueError(f"item {chosen} is already in the set")
        added = self._grow(chosen)
        self.items.append(chosen)
        self.value += added
        return added

    def _grow(self, item: int) -> float:
        now, self._now = self._now, _NOT_ASKED
        if now is _NOT_ASKED:
            return self._people.value([*self.items, item]) - self.value
        return float(now[item])


def expected(values: Floats, x: Floats) -> tuple[float, Floats]:
    """The multilinear extension at ``x`` and its gradient, from the value of every set.

    ``values`` has an axis of length 2 for each item: sets without it, and sets with it.
    """
    gradient = np.zeros(x.size)
    for j in range(x.size):
        without, with_it = np.moveaxis(values, j, 0)
        added = with_it - without
        for chance in np.delete(x, j):
            added = (1.0 - chance) * added[0] + chance * added[1]
        gradient[j] = added
    for chance in x:
        values = (1.0 - chance) * values[0] + chance * values[1]
    return float(values), gradient


def random_sets(x: Floats, rng: np.random.Generator | None, samples: int) -> list[NDArray[np.int64]]:
    """``samples`` sets that hold item j with probability x[j].

    They depend on the point and public randomness, never on the data, so they have no privacy cost.
    """
    count = whole("samples", samples, at_least=2)
    if rng is not None and not isinstance(rng, np.random.Generator):
        raise TypeError(f"rng must be a numpy.random.Generator or None, got {type(rng).__name__}")
    rng = PublicRandomness.fresh().generator if rng is None else rng
    return [np.flatnonzero(rng.random(x.size) < x) for _ in range(count)]


def random_rows(x: Floats, seed: int, samples: int) -> NDArray[np.bool_]:
    """Random sets as rows of booleans, which hold item j with probability x[j].

    They depend on the seed and ``x`` alone, and are the same for everybody.
    """
    inside = np.zeros((samples, x.size), dtype=np.bool_)
    rng = PublicRandomness.seeded(seed).generator
    for row, items in zip(inside, random_sets(x, rng, samples) if samples else [], strict=True):
        row[items] = True
    return inside


def sampled_sets(
    x: Floats, rng: np.random.Generator | None, samples: int
) -> tuple[list[NDArray[np.int64]], NDArray[np.intp]]:
    """The distinct ones of ``samples`` random sets, and for each sample the index of its set."""
    numbers: dict[bytes, int] = {}
    drawn = random_sets(x, rng, samples)
    which = np.array([numbers.setdefault(items.tobytes(), len(numbers)) for items in drawn])
    return [drawn[place] for place in np.unique(which, return_index=True)[1]], which


# One person's values on all sets lie in [0, 1] unless another bound is declared.
FAMILY_BOUND = 1.0
# With this many items a sum over all sets is as cheap as the usual sample.
ENUMERABLE_ITEMS = 10
NORMS = ("value", "coordinate", "l1", "l2", "range")
# Where the list of items came from, and the caveats of accounts for each.
_CHOSEN = (
    "the list of items was chosen privately from the people's data: the cost of that is in this account"
    " only if it is among the releases above"
)
_SEEDED = (
    "the list of items was drawn with a seed: NOT private, anyone who knows the seed can remove the noise"
)
CATALOGUES = {
    "public": (),
    "private": (_CHOSEN,),
    "seeded": (_CHOSEN, _SEEDED),
    "from data": (
        "CONDITIONAL on the list of items, which was taken from the people's data: an item that only one"
        " person has gives them away (give a public list as items=, or choose one with"
        " data.private_catalogue)",
    ),
}


@fixed
class Population(ABC):
    """Many people's set functions over items 0..n_items-1.

    ``value`` and ``gains`` are averages over the people; ``people[i]`` is one person's function, slices and
    index arrays give smaller populations, ``len(people)`` counts everybody, also people without items.

    ``bound`` is a public number that no person's function exceeds in absolute value. It is declared, or the
    family's default (1); it is never computed from the data, because a bound that depends on a person is not
    public. It is enforced: a declared bound is checked when the population is built, the default one when it
    is first used. A relative excess of 1e-9, the rounding of normalized weights, is tolerated and included in
    ``sensitivity``. Arrays that are passed in are copied.

    ``catalogue`` says where the list of items came from: ``"public"`` (a given list, or the columns of a
    matrix, which are assumed public), ``"private"`` (`discreet.data.private_catalogue`), ``"seeded"`` (the
    same with a seed) or ``"from data"`` (the items that occur in a table of events). ``caveats`` are the
    sentences about it in every account of these people: a guarantee does not cover what the list of items
    itself reveals.
    """

    n_items: int
    monotone: bool = True
    labels: tuple[Any, ...] | None = None
    items_per_person: int | None = None
    at_most: int | None = None  # the bound is for sets of at most this many items; None: for all sets
    # Whether each person has a function, ``people[i]``: not so in a mixture of unlike populations.
    one_by_one: bool = True
    built_in: bool = False  # whether only the library's own arithmetic is used: no function of the user's
    stored: bool = False  # whether the people live in a store, and not in memory
    catalogue: str = "public"
    _declared: float | None = None
    __array_ufunc__ = None  # NumPy numbers leave ``2 * people`` to the population

    # -- implemented by families -----------------------------------------------------------------------------

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def _value(self, items: Items) -> float:
        """The average value of a checked set."""

    @abstractmethod
    def _gains(self, items: Items) -> Floats:
        """The average gain of every item on top of a checked set; entries of the set itself are ignored."""

    @abstractmethod
    def _take(self, rows: Items) -> Self:
        """The named people, in that order."""

    @abstractmethod
    def _largest(self) -> Floats:
        """For each person, an upper bound of the absolute value of their function."""

    def _reached(self, bound: float) -> Floats:
        """`_largest`, or a cheaper upper bound where that is already within ``bound``."""
        del bound
        return self._largest()

    def _chain(self, order: Items) -> Floats:
        """The marginal gain of each item when they are chosen in this order."""
        return np.diff([self._value(order[:t]) for t in range(order.size + 1)])

    def _contributions(self, items: Items) -> Floats:
        """f(S) - f(S without j), for each j of S."""
        whole_value = self._value(items)
        return np.array([whole_value - self._value(np.delete(items, t)) for t in range(items.size)])

    def _extension(self, x: Floats) -> tuple[float, Floats] | None:
        """The multilinear extension and its gradient without sampling, or None where that is infeasible.

        With few items all sets are evaluated; families with a closed form of their own do better.
        """
        return None if self.n_items > ENUMERABLE_ITEMS else expected(self._corners(), x)

    def _corners(self) -> Floats:
        """The average value of every set, in an array with one axis of length 2 per item."""
        values = np.zeros((2,) * self.n_items)
        for corner in np.ndindex(values.shape):
            values[corner] = self._value(np.flatnonzero(corner))
        return values

    @property
    def sums_over_people(self) -> bool:
        """Whether the objective is a sum of functions that each depend on one person alone."""
        return self.one_by_one

    def check_picks(self, picks: int) -> None:
        """Raise an error if picking this many items may be infeasible."""
        del picks

    def _additions(self) -> int:
        """An upper bound of the successive additions behind one number of ``value`` or ``gains``."""
        return len(self) + 2 * self.n_items + 64

    def _most_items(self) -> int:
        """The most items one of these people touches."""
        return self.n_items

    def as_rows(self) -> Rows | None:
        """One sparse row per person, for compiled loops over streams; None for families without rows."""
        return None

    def row_source(self) -> StepSource | None:
        """Rows to be summed up in integer steps, in memory or elsewhere; None for families without rows."""
        return self.as_rows()

    def sampled(self, release: Release, keep: int) -> Population | None:
        """A secret sample, each person with probability ``keep`` / 2^64; None where nobody is in it."""
        if self.stored:
            return self.kept(release.words(2), keep)
        rows = release.sample(len(self), keep)
        return self._take(rows) if rows.size else None

    def kept(self, secret: NDArray[np.uint64], keep: int) -> Self:
        """The people of a store whose random word under a secret of two words is below ``keep``."""
        raise NotImplementedError

    @property
    def caveats(self) -> tuple[str, ...]:
        """Caveats about the list of items, for accounts of releases about these people."""
        return CATALOGUES[self.catalogue]

    # -- sets ------------------------------------------------------------------------------------------------

    def item_numbers(self, items: Any) -> list[int]:
        """The numbers of items given by label or number; an integer that is a label is read as the label.

        For constraints, which need numbers: ``PartitionMatroid([people.item_numbers(["tea", "milk"])], 1)``.
        ``value``, ``gains`` and ``contributions`` accept labels themselves; there integers are always numbers
        of items, as in ``selection.items``, even if labels are integers.
        """
        return item_numbers("items", items, self.n_items, self.labels, public=self.catalogue != "from data")

    def value(self, items: Iterable[Any]) -> float:
        """The average over people of f(S)."""
        return answers.number("value", self._value(self._checked(items)))

    def gains(self, items: Iterable[Any]) -> Floats:
        """The average over people of f(S + j) - f(S), for all items j; 0 for the items of S."""
        chosen = self._checked(items)
        gains = answers.vector("gains", self._gains(chosen), self.n_items)
        gains[chosen] = 0.0
        return gains

    def contributions(self, items: Iterable[Any]) -> Floats:
        """The average over people of f(S) - f(S without j), for each j of S in the order of ``items``."""
        chosen = self._checked(items)
        return answers.vector("contributions", self._contributions(chosen), chosen.size)

    def start(self) -> State:
        """An empty set that can grow: exact gains of all items after every addition."""
        return State(self)

    def least_gains(self) -> Floats:
        """The gain of each item on top of all others: the least that it ever adds."""
        return self._contributions(np.arange(self.n_items))

    def total_curvature(self) -> float:
        """1 - min_j (f(V) - f(V without j)) / f({j}), over the items that add anything alone.

        0 for a modular function, 1 if some item adds nothing on top of the others (Sviridenko, Vondrak and
        Ward 2017). It depends on these people's data: releasing it, or tuning by it, must be made private.
        """
        if not self.monotone:
            raise ValueError("total curvature is defined for monotone functions only")
        alone, last = self._gains(np.arange(0)), self.least_gains()
        useful = alone > 0
        if not useful.any():
            return 0.0
        return float(np.clip(1.0 - (last[useful] / alone[useful]).min(), 0.0, 1.0))

    # -- extensions ------------------------------------------------------------------------------------------

    def multilinear(
        self, x: ArrayLike, *, rng: np.random.Generator | None = None, samples: int = 1000
    ) -> float:
        """E f(R), where R holds each item j independently with probability x[j].

        Exact if the family has a closed form, or there are at most ten items; otherwise the mean over
        ``samples`` random sets. Those are drawn from ``rng`` (a fresh generator by default), never from the
        data, and are the same for everybody, so one person moves the result by no more than they can move f.
        Concave functions of sums have a closed form for up to twelve items a person if that cap is declared
        (`cap_items`): one person's items must not decide how everybody's function is computed.
        """
        point = self._point(x)
        closed = self._extension(point)
        if closed is not None:
            return answers.number("multilinear", closed[0])
        sets, which = sampled_sets(point, rng, samples)
        values = np.array([answers.number("value", self._value(items)) for items in sets])
        return float(np.mean(values[which]))

    def multilinear_gradient(
        self, x: ArrayLike, *, rng: np.random.Generator | None = None, samples: int = 1000
    ) -> Floats:
        """E[f(R + j) - f(R without j)] for every item j; exact or sampled as in :meth:`multilinear`."""
        point = self._point(x)
        closed = self._extension(point)
        if closed is not None:
            return answers.vector("multilinear_gradient", closed[1], self.n_items)
        sets, which = sampled_sets(point, rng, samples)
        marginals = np.empty((len(sets), self.n_items))
        for row, items in zip(marginals, sets, strict=True):
            row[:] = answers.vector("gains", self._gains(items), self.n_items)
            row[items] = answers.vector("contributions", self._contributions(items), items.size)
        return np.asarray(marginals[which].mean(axis=0), dtype=np.float64)

    def lovasz(self, x: ArrayLike) -> float:
        """The Lovasz extension: linear between the sets {j : x[j] > t}, convex because f is submodular."""
        point = vector("x", x, length=self.n_items)
        return self._value(np.arange(0)) + float(self.lovasz_gradient(point) @ point)

    def lovasz_gradient(self, x: ArrayLike) -> Floats:
        """A subgradient of the Lovasz extension: the gain of each item in order of falling x."""
        point = vector("x", x, length=self.n_items)
        order = np.argsort(-point, kind="stable").astype(np.int64)
        gradient = np.empty(self.n_items)
        gradient[order] = answers.vector("steps", self._chain(order), self.n_items)
        return gradient

    # -- what one person can change --------------------------------------------------------------------------

    @property
    def bound(self) -> float:
        """The public bound of one person's function, on all sets."""
        return self.bound_of(self.n_items)

    def bound_of(self, size: int) -> float:
        """The public bound of one person's function, on sets of at most ``size`` items."""
        if self.at_most is not None and size > self.at_most:
            raise ValueError(f"at_most={self.at_most}: nothing is declared of sets of up to {size} items")
        if self._declared is None:
            self._hold_to(FAMILY_BOUND, "the family's bound of 1; declare a public bound= or rescale")
            self._declared = FAMILY_BOUND
        return self._declared

    def sensitivity(
        self, neighbours: str = "replace", norm: str = "coordinate", items_per_person: int | None = None
    ) -> float:
        """The sensitivity of the average value, or of the gains or an extension's gradient, on all inputs.

        ``neighbours="replace"``: one person is exchanged for another. ``"add_remove"``: one person is added
        or removed while the divisor stays len(self): the release is the *sum* over people divided by a public
        number, not an average whose divisor would change. A removed person is an empty row.

        ``norm``: ``"value"`` for f(S); for the gains ``"coordinate"`` (largest change of one entry),
        ``"l1"``, ``"l2"``, and ``"range"`` (largest minus smallest change, by which the exponential
        mechanism is charged).

        ``items_per_person``: a cap m on the items a person touches (see ``cap_items``), so that at most m
        entries (2 m under replacement) can move. A person with more items is an error.

        Monotone functions with f(empty set) = 0 have gains in [0, bound], so a replacement moves an entry by
        at most bound / N, not twice that. Otherwise a gain may be negative, as low as the lowest minus the
        highest value, and in a gradient all entries of one person can be that low at once.

        The result holds for the numbers as computed, not only for real ones (Casacuberta et al. 2022): it is
        the exact sensitivity times 1 + 1e-9 + 4 c N g. Here g = m u / (1 - m u) with u = 2^-53 and m at least
        the number of additions in a row, about N + 2 n_items; c = 1 for monotone families and 6 for others.
        Proof. An entry is a sum of numbers that each depend on one person, with up to m roundings in a fixed
        order. Its error is at most g times the sum of their absolute values, that is g c N bound (a person's
        arcs count up to twice in a cut, and up to twice again in what they take back; the modular part at
        most twice). Two neighbours differ by two such errors, and the range of two entries by four: 4 c g
        bound after division by N, where every sensitivity below is at least bound / N for each entry that
        moves. Entries that neither person touches are sums of the same numbers in the same order, and do not
        move. The 1e-9 is the tolerated excess over the bound. A growing :class:`State` and an extension
        estimated from samples round further and are not covered; sum in fixed point to be safe.
        """
        one_of("neighbours", neighbours, ("replace", "add_remove"))
        one_of("norm", norm, NORMS)
        touched = self.touched_items(items_per_person)
        low, high, up, down = self.ranges()
        replace = neighbours == "replace"
        if norm == "value":
            moved = high - low if replace else max(high, -low)
        elif norm == "range":
            # One person's entries lie in [-down, up].
            moved = (2 if replace else 1) * (up + down)
        else:
            entry = up + down if replace else max(up, down)
            entries = min(2 * touched if replace else touched, self.n_items)
            moved = entry * {"coordinate": 1.0, "l1": float(entries), "l2": math.sqrt(entries)}[norm]
        return moved / len(self) * self._rounded_up()

    def _rounded_up(self) -> float:
        """The factor in ``sensitivity`` for floating-point rounding and the tolerance of the bound."""
        roundings = self._additions() * 2.0**-53
        if roundings >= 0.5:
            raise ValueError("there are too many people for sums of floats; release several parts")
        sizes = 1.0 if self.monotone else 6.0
        return 1.0 + ROUNDING + 4.0 * sizes * len(self) * roundings / (1.0 - roundings)

    def ranges(self) -> tuple[float, float, float, float]:
        """One person's lowest and highest value, the most an item can add, and the most it can subtract."""
        bound = self.bound
        if self.monotone:
            return 0.0, bound, bound, 0.0
        # f(empty set) = 0, so by submodularity no item ever adds more than alone: at most the bound.
        return -bound, bound, bound, 2.0 * bound

    def touched_items(self, items_per_person: int | None = None) -> int:
        """The most items that a person touches: the declared cap, which is enforced."""
        if items_per_person is None:
            return self.n_items if self.items_per_person is None else self.items_per_person
        cap = min(whole("items_per_person", items_per_person, at_least=1), self.n_items)
        if self.items_per_person is not None and self.items_per_person <= cap:
            return cap
        most = self._most_items()
        if most > cap:
            fix = f"call cap_items({cap}) first" if hasattr(self, "cap_items") else "leave items out first"
            raise DataError(
                f"items_per_person={cap}, but one person touches more items; {fix}", f"up to {most} items"
            )
        return cap

    @QUIET
    def _hold_to(self, bound: float, said: str) -> None:
        largest = self._reached(bound)
        worst = int(np.argmax(largest))
        if not largest[worst] <= bound * (1.0 + ROUNDING):
            raise DataError(
                f"one person's function can exceed {said}",
                f"person {worst} can reach a value of {float(largest[worst])!r}",
            )

    def _declare(self, bound: float | None) -> None:
        if bound is not None:
            self._declared = checks.bound(bound)
            self._hold_to(self._declared, f"bound={self._declared!r}; rescale or declare a larger one")

    # -- people ----------------------------------------------------------------------------------------------

    def __getitem__(self, which: int | slice | Sequence[int] | NDArray[Any]) -> Self:
        one = one_person(which, len(self))
        return self._take(named_rows(which, len(self))) if one is None else self._one(one)

    def _one(self, i: int) -> Self:
        return self._take(np.array([i]))

    def __iter__(self) -> Iterator[Self]:
        return (self._one(i) for i in range(len(self)))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.n_items} items)"  # how many people is private: ask len()

    # -- mixtures --------------------------------------------------------------------------------------------

    def __add__(self, other: Population) -> Mixture:
        return Mixture([(1.0, self), (1.0, other)]) if isinstance(other, Population) else NotImplemented

    def __radd__(self, other: object) -> Self:
        """0 + people, with which ``sum([...])`` starts."""
        return self if type(other) is int and other == 0 else NotImplemented

    def __mul__(self, factor: float) -> Mixture:
        return Mixture([(real("factor", factor, at_least=0), self)])

    __rmul__ = __mul__

    # -- checks ----------------------------------------------------------------------------------------------

    def _checked(self, items: Iterable[Any]) -> Items:
        """Items as numbers, from numbers or labels; refused where unknown or repeated."""
        listed = items if isinstance(items, np.ndarray | list | tuple | str) else list(items)
        if self.labels is not None and not all_numbers(listed):
            listed = self.item_numbers(listed)
        given = np.asarray(listed)
        if given.size == 0:
            return np.zeros(0, dtype=np.int64)
        if given.ndim != 1 or given.dtype.kind not in "iu":
            raise TypeError(
                f"items must be whole numbers between 0 and {self.n_items - 1}, got {shown(items)}"
            )
        chosen = given.astype(np.int64)
        outside = (chosen < 0) | (chosen >= self.n_items)
        if outside.any():
            wrong = chosen[outside][0]
            raise ValueError(f"item {wrong} is out of range; items are 0 to {self.n_items - 1}")
        if chosen.size > 1:
            ordered = np.sort(chosen)
            twice = ordered[1:][ordered[1:] == ordered[:-1]]
            if twice.size:
                raise ValueError(f"item {twice[0]} appears more than once; a set holds an item once")
        return chosen

    def _point(self, x: ArrayLike) -> Floats:
        return answers.probabilities("x", vector("x", x, length=self.n_items))

    def _name_items(self, labels: Iterable[Any] | None) -> None:
        if labels is None:
            return
        names = tuple(labels)
        if len(names) != self.n_items:
            raise ValueError(f"labels has {len(names)} entries; there are {self.n_items} items")
        check_distinct(names)
        self.labels = names

    def _like(self, **settings: Any) -> Self:
        """A copy that shares everything but ``settings``; the caller replaces what else differs."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin.__dict__.update(settings)
        return twin


def value_to_each(people: Population, items: Sequence[Any]) -> Floats:
    """The value of ``items`` to every person, in order. These values are private.

    >>> from discreet.objectives import Coverage
    >>> value_to_each(Coverage([[1, 0, 1], [0, 1, 0], [0, 0, 0]]), [0, 2])
    array([1., 0., 0.])
    """
    chosen = people._checked(items)
    rows = people.as_rows()
    if rows is None:
        return np.array([person._value(chosen) for person in people])
    return value_to_rows(rows, chosen.tolist())


def value_to_rows(rows: Rows, items: Sequence[int]) -> Floats:
    """`value_to_each` for people who are rows."""
    values = np.empty(rows.n_rows)
    rows.compressed.values(np.array(items, dtype=np.int32), 0, values)
    return values


def greedy(people: Population, k: int) -> tuple[list[int], NDArray[np.float64]]:
    """The k items of largest average gain, chosen in turn (the first of equals), and the gain of each.

    At least 1 - 1/e of the best k items' value for monotone submodular functions (Nemhauser, Wolsey and
    Fisher 1978). It is not private and spends no budget: use it for comparison, not for publication.

    >>> from discreet.objectives import Coverage
    >>> greedy(Coverage([[1, 0, 0], [1, 1, 0], [0, 0, 1], [0, 0, 1]]), k=2)
    ([0, 2], array([0.5, 0.5]))
    """
    if not isinstance(people, Population):
        raise TypeError(f"people must be a population such as Coverage(matrix), got {shown(people)}")
    slots = whole("k", k, at_least=0)
    if slots > people.n_items:
        raise ValueError(f"k={slots} exceeds n_items={people.n_items}; choose k <= {people.n_items}")
    state = people.start()
    added = np.zeros(slots)
    for slot in range(slots):
        gains = state.gains()
        gains[state.items] = -np.inf
        added[slot] = state.add(int(np.argmax(gains)))
    return state.items, added


class Mixture(Population):
    """f(S) = sum of factor x part(S); made by ``+`` and ``*``.

    All parts have the same items and, as a rule, the same people in the same order. The bound is the same
    combination of the parts' bounds, and so is the sensitivity. If a part's bound only holds for sets of
    limited size (``at_most``), so does that of the mixture.

    Parts may also have different numbers of people, such as a facility location over many rows and one graph
    cut. Each is then an average over its own people; a sum over rows is ``len(part) * part``. Such a mixture
    is one function of everybody's data rather than a sum over people: ``people[i]`` is refused, so online
    learners refuse it, and `PrivateGreedy` accepts it under ``neighbours="replace"`` only, where the numbers
    of people are public. The sensitivity is for a person with one row in every part. In a part with a single
    row that may be all the data, so the part enters with its full range.

    >>> from discreet.objectives import Coverage, FacilityLocation
    >>> both = 0.5 * Coverage([[1, 0], [0, 1]]) + 0.5 * FacilityLocation([[0.2, 0.4], [1.0, 0.0]])
    >>> type(both) is Mixture, both.value([0]), both.bound
    (True, 0.55, 1.0)
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

        Adding up the parts rounds once more for each part: c units of the bound, as in
        `Population.sensitivity`, for both neighbours and both entries.
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
        """The (factor, population) pairs; nested mixtures are flattened."""
        return tuple(self._parts)

    def __len__(self) -> int:
        """The number of people; if parts differ, the largest."""
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
                "the parts of this mixture have different numbers of people, so that no one has a function of"
                " their own in it; mix parts about the same people"
            )
        taken = self._like()
        taken._parts = [(factor, part._take(rows)) for factor, part in self._parts]
        return taken

    def kept(self, secret: NDArray[np.uint64], keep: int) -> Self:
        some = self._like()
        some._parts = [(factor, part.kept(secret, keep)) for factor, part in self._parts]
        return some

    def _largest(self) -> Floats:
        return _sum(factor * part._largest() for factor, part in self._parts)


def _in_one_store(parts: Sequence[Population]) -> bool:
    """Whether all parts are in a store, which must then be the same one."""
    stores = [part.store.digest if part.stored else None for part in parts]  # type: ignore[attr-defined]
    if any(one != stores[0] for one in stores):
        raise ValueError("a mixture is in memory or in one store: its parts must be about the same people")
    return stores[0] is not None


def _sum(terms: Iterable[Floats]) -> Floats:
    return np.asarray(np.sum(list(terms), axis=0), dtype=np.float64)
