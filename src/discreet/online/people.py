"""People as learners take them: checked, and in the forms that people have."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import checks
from ..objectives import Population
from ..objectives.rows import Coverage, ProbabilisticCoverage
from ..objectives.stored.people import StoredPopulation
from .catalogue import Catalogue

Played = tuple[NDArray[np.float64], NDArray[Any]]  # what rounds were worth, and what was shown in them


def check_population(people: Any, n_items: int, bound: float) -> None:
    """Refuse what is not a population over these items, or may exceed the bound."""
    if not isinstance(people, Population):
        raise TypeError(
            f"expected a person's function (an objective such as Coverage or SetFunction), got"
            f" {type(people).__name__}"
        )
    if not people.one_by_one:
        raise ValueError(
            "the parts of this mixture have different numbers of people, so that nobody has a function of"
            " their own in it; learners need one for each"
        )
    if people.n_items != n_items:
        raise ValueError(f"the function is over {people.n_items} items; this learner chooses among {n_items}")
    if not people.bound <= bound * (1 + 1e-12):
        raise ValueError(
            f"the function may reach {people.bound:g}, above the learner's bound={bound:g}; rescale"
            " it or declare a larger bound"
        )


def in_memory(
    people: Any,
    person_ids: Sequence[Hashable] | None,
    progress: bool,
    play: Callable[[Any, Sequence[Hashable] | None, bool], Played],
) -> Played:
    """What ``play`` makes of the people; of those who live in a store, some in memory at a time."""
    if not getattr(people, "stored", False):
        return play(people, person_ids, progress)
    if person_ids is not None and len(person_ids) != len(people):
        raise ValueError("person_ids must have as many entries as there are people")
    played, start = [], 0
    for some in people.batches():
        ids = None if person_ids is None else person_ids[start : start + len(some)]
        played.append(play(some, ids, progress))
        start += len(some)
    rewards, shown = zip(*played, strict=True)
    return np.concatenate(rewards), np.concatenate(shown)


def given_person(catalogue: Catalogue, n_items: int, person: Any, items: Any) -> Any:
    """A person as a population of one, from any of the forms that `OnlineSelector.learn` takes.

    What is wrong with somebody's items is a fact about them: it is in the error's details, not in its words.
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
        "this is no person: items= is a list of items of the catalogue, or a mapping from items to chances"
        f" from 0 to 1; a vector has a chance for each of the {n_items} items",
        reason,
    )


def _of_vector(n_items: int, vector: Any) -> ProbabilisticCoverage:
    chances = checks.vector("person", vector, length=n_items)
    if chances.min() < 0.0 or chances.max() > 1.0:
        raise ValueError("a person's vector has a chance for each item, from 0 to 1")
    kept = np.flatnonzero(chances)
    return ProbabilisticCoverage.of_row(n_items, kept, chances[kept])


def one_person(n_items: int, bound: float, person: Any) -> Any:
    """A person of a part, checked."""
    _check_part(n_items, bound, person)
    if len(person) != 1:
        raise ValueError("add() takes one person")
    return person


def _check_part(n_items: int, bound: float, people: Any) -> None:
    check_population(people, n_items, bound)
    if not people.monotone:
        raise ValueError("the learner needs functions that never fall when an item is added (monotone)")


def row_person(n_items: int, bound: float, person: Any) -> Any:
    """A person of a part who can be kept, or a store of them, checked."""
    if isinstance(person, StoredPopulation):
        _check_part(n_items, bound, person)
    elif one_person(n_items, bound, person).as_rows() is None:
        raise ValueError("a part keeps people who are rows; functions cannot travel")
    return person


def counted_person(
    n_items: int, bound: float, units: Callable[[Any], NDArray[np.int64]], person: Any
) -> NDArray[np.int64]:
    """A person's part in sums, once they have been checked."""
    return units(one_person(n_items, bound, person))


def counted_people(
    n_items: int,
    bound: float,
    units: Callable[[Any], NDArray[np.int64]],
    shape: tuple[int, ...],
    people: Population,
) -> NDArray[np.int64]:
    """The sum of everybody's parts: of rows at once, of a store by its engine, of others one by one."""
    _check_part(n_items, bound, people)
    if isinstance(people, StoredPopulation):
        units(people[[0]])  # what cannot be counted is refused here
        return people.counted(units, shape)
    if people.as_rows() is not None:
        return units(people)
    total = np.zeros(shape, dtype=np.int64)
    for person in people:
        total += units(person)
    return total
