"""The contribution limit per person: whatever form somebody comes in, and after a restart."""

from __future__ import annotations

import enum
import uuid
from typing import ClassVar

import numpy as np
import pytest

import discreet as dc
from discreet.core.state import capture, restore
from discreet.objectives import Coverage, SetFunction
from discreet.online import HedgeSelector
from discreet.online.learner import Rounds
from discreet.online.people import ContributionLimit


def test_everybody_is_known_again_after_a_restart():
    limit = ContributionLimit(2, bytes(32))
    names = ["ann", "bob", 7, ("eve", 3)]
    for name in names:
        assert limit.register(name)
    assert limit.register("bob")
    again = ContributionLimit(2, bytes(32))
    restore(again, *capture(limit))
    assert [again.register(name) for name in names] == [True, False, True, True]
    assert not any(again.register(name) for name in names)
    assert again.register("somebody new")


def test_rounds_of_everybody_are_known_again_after_a_restart():
    """Where rounds of a person have to be apart: whose they were, and what no file can say."""
    rounds = Rounds(20)

    def limit():
        return ContributionLimit(3, bytes(32), rounds, lambda number: max(0, number - 1))

    first, again, came = limit(), limit(), {"ann": (0, 5), "bob": (1,), "eve": (2, 4, 6), "joe": (3,)}
    for number, name in sorted((number, name) for name, numbers in came.items() for number in numbers):
        rounds.number, rounds.is_open = number, True
        assert first.register(name)
        assert not first.register(name)
    restore(again, *capture(first))
    assert [tuple(again._counted[again._hash(name)]) for name in came] == [*came.values()]
    hashes, _, numbers = first._table
    for wrong in (np.array([3, 1, 4, -1]), np.array([2, 1, 3, 2])):
        with pytest.raises(ValueError, match="other rounds than they had"):
            again._table = hashes, wrong, numbers


class Name(enum.StrEnum):
    ANN = "ann"


class Number(enum.IntEnum):
    FIVE = 5


class Changing(str):
    """Text that prints differently each time."""

    __slots__ = ()
    printed: ClassVar[list[None]] = []

    def __repr__(self):
        self.printed.append(None)
        return f"<{len(self.printed)}>"


class Weight(float):
    def __repr__(self):
        return "a weight"


class Key(uuid.UUID):
    pass


class Raw(bytes):
    def __repr__(self):
        return "raw"


@pytest.mark.parametrize(
    "same",
    [
        ("ann", Name.ANN, Changing("ann"), Changing("ann"), np.str_("ann")),
        (5, Number.FIVE, 5.0, Weight(5.0), np.int8(5)),
        (1, "1", 1.0, "01"),
        (uuid.UUID(int=7), Key(int=7)),
        (b"x", Raw(b"x"), np.bytes_(b"x")),
        (("ann", 5), (Name.ANN, Number.FIVE), (Changing("ann"), 5.0)),
    ],
    ids=lambda same: type(same[0]).__name__,
)
def test_who_is_equal_is_the_same_person_in_whatever_form_they_come(same):
    """Else they would be learned from once for each form, at the price of one."""
    limit = ContributionLimit(1, bytes(32))
    assert [limit.register(form) for form in same] == [True] + [False] * (len(same) - 1)
    assert limit.register("somebody else")


def test_somebody_in_several_forms_is_learned_from_once():
    learner = HedgeSelector(2, 1, 4, dc.Budget(1.0), seed=0)
    learner.run(Coverage([[1, 0]] * 4), person_ids=["ann", Name.ANN, Changing("ann"), np.str_("ann")])
    once = HedgeSelector(2, 1, 4, dc.Budget(1.0), seed=0)
    once.run(Coverage([[1, 0], [0, 0], [0, 0], [0, 0]]))
    np.testing.assert_array_equal(learner._experts.scores, once._experts.scores)


def _counts(learner):
    return learner._contribution._counts


def test_a_refused_identity_counts_nobody():
    """Neither those before it in its stream, nor those who had been here before."""
    learner = HedgeSelector(3, 1, 20, dc.Budget(1.0, 1e-6, max_rounds_per_person=3), seed=0)
    learner.run(Coverage(np.eye(3)), person_ids=["ann", "bob", None])
    before = dict(_counts(learner))
    with pytest.raises(TypeError, match="person_id must be"):
        learner.run(Coverage(np.eye(3)), person_ids=["ann", "eve", object()])
    assert _counts(learner) == before
    assert learner.round == 3


def test_those_behind_a_failure_were_not_here_whether_known_or_not():
    learner = HedgeSelector(3, 1, 20, dc.Budget(1.0, 1e-6), seed=0)

    def fails(_):
        raise ZeroDivisionError

    rows = [lambda items: float(bool(items)), fails, *[lambda items: float(bool(items))] * 3]
    stream = SetFunction(rows, 3, 1.0, monotone=True)
    with pytest.raises(ZeroDivisionError):
        learner.run(stream, person_ids=["ann", None, None, "bob", "eve"])
    assert len(_counts(learner)) == 1
    assert [learner._contribution.register(who) for who in ("ann", "bob", "eve")] == [False, True, True]
