"""How learners accept people: in which form, for how many rounds, and with how many of their items.

Rounds. They are counted per person without storing identities, which become keyed hashes at once. Which of
a person's rounds count depends on their own rounds alone, so nobody changes which rounds of others count.

Items, and why the randomness that selects among them may be public. What a learner sees of round t is cut
down by the random word of round t and by nothing of anybody else: not their items, not whether these were
cut, not whether a call failed. Nor does it change which person a round is for when somebody else is replaced
or absent: online, an absent person leaves a round that passes with nothing learned. So for each sequence of
words, neighbouring streams are cut down to streams that differ in one person's rounds, and each such round
moves at most ``cap`` items (2 cap under replacement), as the sensitivity assumes. A stream without a row, so
that later people move up a round, is not a neighbour: everybody's round changes there, capped or not.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..core import checks
from ..core.names import canonical
from ..objectives import Population
from ..objectives.rows import Coverage, ProbabilisticCoverage
from ..objectives.stored import StoredPopulation
from ..privacy import PublicRandomness
from .catalogue import Catalogue
from .partial import SumLayout

if TYPE_CHECKING:
    from .learner import Rounds

_HASH = 16  # bytes


class ContributionLimit:
    """Counts rounds per person up to a limit; stores only hashes under a key of its own.

    With ``counted_since`` a person also counts at most once per batch, and only in batches that are apart:
    not in round t if they were counted in round ``counted_since(t)`` or later. It returns None where every
    round may count. ``rounds`` has the current round. Everybody then needs an identity, to be recognized.

    >>> limit = ContributionLimit(2, bytes(32))
    >>> [limit.register(who) for who in ("ann", "ann", "ann", "bob")]
    [True, True, False, True]
    """

    _state = ("_key", "_table")

    def __init__(
        self,
        limit: int,
        key: bytes,
        rounds: Rounds | None = None,
        counted_since: Callable[[int], int | None] | None = None,
    ) -> None:
        self._limit = limit
        self._key = key
        self._counts: dict[bytes, int] = {}
        self._rounds, self._since = rounds, counted_since or (lambda _: None)
        self.apart = self._since(0) is not None  # whether it matters which rounds of a person count
        self._counted: dict[bytes, list[int]] = {}  # the rounds that were counted, if ``apart``

    @property
    def people(self) -> int:
        """How many people have been counted."""
        return len(self._counts)

    def check_named(self, people: Sequence[Hashable | None] | None) -> None:
        """Refuse a stream without identities where people have to be recognized."""
        if people is None and self.apart:
            raise ValueError(
                "person_id is needed: with min_separation a person counts once in a batch, and has to be"
                " known again"
            )

    def register(self, person: Hashable | None, ahead: int | None = None) -> bool:
        """Whether this round of ``person`` may be learned from; counts it if so. None is an unnamed person.

        The round is the open one, or the last one if none is open: feedback that arrives then, however late,
        enters the batch of that round. ``ahead`` means the round that many rounds from now.
        """
        if person is None:
            if self.apart:
                self.check_named(None)
            return True
        number = ahead or 0
        if self._rounds is not None:
            closed = ahead is None and not self._rounds.is_open
            number += max(0, self._rounds.number - closed)
        since = self._since(number)
        hashed = self._hash(person)
        seen = self._counts.get(hashed, 0)
        if seen >= self._limit:
            return False
        if since is None:
            self._counts[hashed] = seen + 1
            return True
        rounds = self._counted.get(hashed, [])
        if rounds and rounds[-1] >= since:
            return False
        # With no call in between: an interruption leaves neither without the other.
        self._counts[hashed], self._counted[hashed] = seen + 1, [*rounds, number]
        return True

    def forget(self, person: Hashable | None) -> None:
        """Undo one counted round of ``person`` that did not happen; nothing to undo for None."""
        if person is None:
            return
        hashed = self._hash(person)
        left, rounds = self._counts[hashed] - 1, self._counted.get(hashed, [])
        if not left:
            del self._counts[hashed]
            self._counted.pop(hashed, None)
        elif rounds:  # the last of those that have not come yet, whichever this one is
            self._counts[hashed], self._counted[hashed] = left, rounds[:-1]
        else:
            self._counts[hashed] = left

    @property
    def name(self) -> str:
        """A name that identifies the learner and reveals nothing about its key."""
        return hashlib.blake2b(b"learner", key=self._key, digest_size=8).hexdigest()

    def _hash(self, person: Hashable) -> bytes:
        return hashlib.blake2b(ascii(canonical(person)).encode(), key=self._key, digest_size=_HASH).digest()

    def register_all(self, people: Iterable[Hashable | None], count: int) -> NDArray[np.bool_]:
        """`register` everybody of a stream; if one of them is refused, nobody is counted."""
        within_limit = np.zeros(count, dtype=np.bool_)
        counted: list[Hashable | None] = []
        try:
            for i, person in enumerate(people):
                if self.register(person, i):
                    within_limit[i] = True
                    counted.append(person)
        except BaseException:
            for person in counted:
                self.forget(person)
            raise
        return within_limit

    @property
    def _table(self) -> tuple[NDArray[Any], ...]:
        """Hashes, how often each was counted, and (if ``apart``) in which rounds."""
        hashes = np.frombuffer(b"".join(self._counts), dtype=np.uint8).reshape(-1, _HASH)
        counts = np.fromiter(self._counts.values(), dtype=np.int64, count=len(self._counts))
        rounds = [number for hashed in self._counts for number in self._counted.get(hashed, ())]
        return hashes, counts, np.array(rounds, dtype=np.int64)

    @_table.setter
    def _table(self, table: tuple[NDArray[Any], ...]) -> None:
        hashes, counts, rounds = table
        self._counts = {row.tobytes(): int(count) for row, count in zip(hashes, counts, strict=True)}
        if min(counts, default=0) < 0 or (rounds.size and rounds.size != counts.sum()):
            raise ValueError("people are counted in other rounds than they had")
        parts = np.split(rounds, np.cumsum(counts)[:-1]) if rounds.size else []
        self._counted = {hashed: own.tolist() for hashed, own in zip(self._counts, parts, strict=False)}


def capped(people: Population, cap: int | None, public: PublicRandomness, first: int) -> Population:
    """The people of rounds ``first``, ``first + 1``, ... as a learner counts them: ``cap`` items at most.

    The random word of a round depends on its number only and is not consumed: a failing call changes nothing,
    and the result is the same round by round as for many rounds together.
    """
    if cap is None or (people.items_per_person is not None and people.items_per_person <= cap):
        return people
    if not hasattr(people, "cap_items_by"):
        raise ValueError(
            f"items_per_person={cap}, but {type(people).__name__} has no items to cap; leave it out"
        )
    found: Population = people.cap_items_by(cap, public.of_rounds(first, len(people)))
    return found


def in_order(people: Any) -> Any:
    """A stream whose ``people[t]`` is the t-th person: tables are refused, indexed series become lists."""
    if isinstance(people, Mapping) or hasattr(people, "columns"):
        raise TypeError("run() takes people in order, and a table has columns; give table.to_numpy()")
    return list(people) if hasattr(people, "iloc") else people


def caveats_of(people: Any) -> tuple[str, ...]:
    """Caveats for accounts: of people, of everybody in a list, or of the objects that own bound methods."""
    own = getattr(people, "caveats", None)
    if own is not None:
        return tuple(own)
    several = isinstance(people, list | tuple) or (isinstance(people, np.ndarray) and people.dtype.hasobject)
    found = (
        one
        for person in (people if several else ())
        for one in caveats_of(getattr(person, "__self__", person))
    )
    return tuple(dict.fromkeys(found))


def check_population(
    people: Any, n_items: int, bound: float, *, monotone: bool = False, one: str | None = None
) -> None:
    """Refuse what is not a population over these items, or may exceed the bound.

    ``monotone`` functions never decrease when an item is added. ``one`` is the error unless it is one person.
    """
    if not isinstance(people, Population):
        raise TypeError(
            f"expected a person's function (an objective such as Coverage or SetFunction), got"
            f" {type(people).__name__}"
        )
    if not people.one_by_one:
        raise ValueError(
            "the parts of this mixture have different numbers of people, so that no one has a function of"
            " their own in it; learners need one for each"
        )
    if people.n_items != n_items:
        raise ValueError(f"the function is over {people.n_items} items; this learner chooses among {n_items}")
    reached = people.bound_of(n_items)
    if not reached <= bound * (1 + 1e-12):
        raise ValueError(
            f"the function may reach {reached:g}, above the learner's bound={bound:g}; rescale"
            " it or declare a larger bound"
        )
    if monotone and not people.monotone:
        raise ValueError("the learner needs functions that never fall when an item is added (monotone)")
    if one is not None and len(people) != 1:
        raise ValueError(one)


def given_person(catalogue: Catalogue, n_items: int, person: Any, items: Any) -> Any:
    """A person as a population of one, from any of the forms that `OnlineSelector.learn` takes.

    What is wrong with a person's items is private: it is in the error's details, not in its message.
    """
    if items is None and not isinstance(person, np.ndarray | list | tuple):
        return person
    if items is not None and person is not None:
        raise TypeError("give either a person or items=, not both")
    try:
        if items is None:
            return _of_vector(n_items, person)
        if isinstance(items, Mapping):
            return ProbabilisticCoverage.of_row(n_items, *catalogue.weights("items", items))
        return Coverage.of_row(n_items, catalogue.items("items", items))
    except (ValueError, TypeError) as error:
        reason = str(error)
    raise checks.DataError(
        "invalid feedback: items= is a list of items of the catalogue, or a mapping from items to chances"
        f" from 0 to 1; a vector has a chance for each of the {n_items} items",
        reason,
    )


def _of_vector(n_items: int, vector: Any) -> ProbabilisticCoverage:
    chances = checks.vector("person", vector, length=n_items)
    if chances.min() < 0.0 or chances.max() > 1.0:
        raise ValueError("a person's vector has a chance for each item, from 0 to 1")
    kept = np.flatnonzero(chances)
    return ProbabilisticCoverage.of_row(n_items, kept, chances[kept])


# --- people of a part on another server -----------------------------------------------------------------


def kept_person(n_items: int, bound: float, person: Any) -> Any:
    """Check that a person of a part, or a store of people, can be stored in it."""
    stored = isinstance(person, StoredPopulation)
    one = None if stored else "add() takes one person"
    check_population(person, n_items, bound, monotone=True, one=one)
    if not stored and person.as_rows() is None:
        raise ValueError("a part keeps people who are rows; functions cannot travel")
    return person


def counted_person(n_items: int, bound: float, summed: SumLayout, person: Any) -> NDArray[np.int64]:
    """A person's units, after a check of the person."""
    check_population(person, n_items, bound, monotone=True, one="add() takes one person")
    return summed.units(person)


def counted_people(n_items: int, bound: float, summed: SumLayout, people: Population) -> NDArray[np.int64]:
    """The sum of everybody's units: of rows at once, of a store by its engine, else person by person."""
    check_population(people, n_items, bound, monotone=True)
    if isinstance(people, StoredPopulation):
        summed.units(people[[0]])  # refuses people of a kind that cannot be counted
        return people.counted(summed.units, summed.shape)
    if people.as_rows() is not None:
        return summed.units(people)
    total = np.zeros(summed.shape, dtype=np.int64)
    for person in people:
        total += summed.units(person)
    return total
