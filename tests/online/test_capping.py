"""Which items of a round count: by the coin of the round, whoever else is there, exchanged or absent."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import discreet as dc
from discreet.objectives import Coverage
from discreet.online import MetaFrankWolfe, RunningSumSelector, frank_wolfe, running_sums
from discreet.online.people import capped
from discreet.privacy import PublicRandomness

COINS, CAP, ITEMS, ROUNDS = PublicRandomness([1, 2, 3, 4]), 2, 4, 5
ANYBODY = [np.array(row, dtype=float) for row in product((0, 1), repeat=ITEMS)]  # the first has no items
CROWD = np.array([[1, 1, 1, 1], [1, 1, 1, 0], [0, 1, 0, 0], [1, 1, 1, 1], [0, 1, 1, 1]], dtype=float)
BUDGET = dc.Budget(1.0, 1e-6, "add_remove")


def _rows(people) -> list[list[float]]:
    return people.as_rows().sparse.toarray().tolist()


def _stream(cut, rows, sizes) -> list[list[float]]:
    """The rounds as they are counted when they come in batches of these sizes."""
    kept, first = [], 0
    for size in sizes:
        kept += _rows(cut(Coverage(rows[first : first + size]), CAP, COINS, first))
        first += size
    return kept


def _goes_by_the_round(cut) -> None:
    """One person exchanged for everybody there could be, in every round, batch by batch: others stay."""
    for sizes in ([5], [1] * 5, [2, 3], [1, 3, 1]):
        before = _stream(cut, CROWD, sizes)
        assert before == _stream(cut, CROWD, [5])
        for t, somebody in product(range(ROUNDS), ANYBODY):
            other = CROWD.copy()
            other[t] = somebody
            after = _stream(cut, other, sizes)
            assert after[:t] + after[t + 1 :] == before[:t] + before[t + 1 :]
            assert sum(after[t]) == min(CAP, sum(somebody))
            assert (np.array(after[t]) <= somebody).all()


def test_one_person_changes_their_own_round_only():
    _goes_by_the_round(capped)


def test_who_may_have_more_is_cut_and_who_has_less_is_not():
    people = Coverage(CROWD).cap_items(3, seed=0)
    assert max(map(sum, _rows(capped(people, 2, COINS, 0)))) == 2
    for enough in (3, 4):
        assert capped(people, enough, COINS, 0) is people


def _only_where_needed(people, cap, public, first):
    """A fault: coins are used up by those who have something to cut."""
    long = np.diff(people.indptr) > cap
    words = np.zeros(len(people), dtype=np.uint64)
    words[long] = public.of_rounds(first, int(long.sum()))
    return people.cap_items_by(cap, words)


def _each_batch_anew(people, cap, public, _first):
    """A fault: coins by the place in the batch."""
    return people.cap_items_by(cap, public.of_rounds(0, len(people)))


@pytest.mark.parametrize("fault", [_only_where_needed, _each_batch_anew])
def test_faults_are_seen(fault):
    with pytest.raises(AssertionError):
        _goes_by_the_round(fault)


@pytest.mark.parametrize(
    ("module", "make"),
    [
        (running_sums, lambda: RunningSumSelector(ITEMS, 2, ROUNDS, BUDGET, items_per_person=CAP, seed=4)),
        (
            frank_wolfe,
            lambda: MetaFrankWolfe(dc.constraints.Cardinality(2, n_items=ITEMS), ROUNDS, BUDGET,
                                   items_per_person=CAP, seed=4),
        ),
    ],
    ids=["running sums", "frank-wolfe"],
)  # fmt: skip
def test_learners_count_every_other_round_alike(module, make, monkeypatch):
    """With the same coins: one by one, at once, and with somebody absent or exchanged in any round."""
    kept = {}

    def heard(people, cap, public, first):
        found = capped(people, cap, public, first)
        kept.update(enumerate(_rows(found), first))
        return found

    monkeypatch.setattr(module, "capped", heard)

    def counted(rows, at_once):
        kept.clear()
        learner, people = make(), Coverage(rows)
        if at_once:
            learner.run(people)
        else:
            for person in people:
                learner.choose()
                learner.learn(person)
        return [kept[t] for t in range(ROUNDS)]

    before = counted(CROWD, at_once=True)
    for t, somebody, at_once in product(range(ROUNDS), (ANYBODY[0], ANYBODY[1], ANYBODY[-1]), (True, False)):
        other = CROWD.copy()
        other[t] = somebody
        after = counted(other, at_once)
        assert after[:t] + after[t + 1 :] == before[:t] + before[t + 1 :]
