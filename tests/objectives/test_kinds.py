"""The one table of row kinds: whoever saves rows, or loops over them, knows every kind."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest

from discreet import objectives
from discreet.backends import kinds
from discreet.core.state import Saved
from discreet.objectives.rows import table
from discreet.objectives.rows.matrices import SparseMatrix
from discreet.objectives.rows.table import KINDS, Kind, Rows
from discreet.online.select.window import Window

NAMED = {name: kind for name, kind in vars(table).items() if isinstance(kind, Kind)}
WEIGHTS = np.array([[0.5, 0.25, 0.0], [0.0, 0.125, 0.5]])


def _restored(kind):
    """Rows of a kind, after they were kept in a window that was saved."""
    rows = Rows(kind, table.as_sparse(WEIGHTS), np.array([1.0, 0.5]), np.array([0.3, 0.4]))
    before, after = Window(3, 1.0, 4), Window(3, 1.0, 4)
    before.keep_rows(rows)
    after.restore(Saved({}, before.arrays()), 2)
    return rows, after


def test_every_kind_is_in_the_table_and_known_to_the_loops():
    assert {kind.code: kind for kind in NAMED.values()} == KINDS
    for name, kind in NAMED.items():
        assert getattr(kinds, name) == kind.code


@pytest.mark.parametrize("name", NAMED)
def test_every_kind_survives_being_saved(name):
    rows, window = _restored(NAMED[name])
    assert len(window) == 2
    (store,) = window._stores.values()
    found = store.rows()
    assert found.kind is NAMED[name]
    assert (found.sparse.toarray() == rows.sparse.toarray()).all()
    assert (found.share == rows.share).all()
    assert (found.cap == rows.cap).all()


def test_a_new_kind_is_known_at_once_and_a_missing_one_is_noticed():
    with mock.patch.dict(KINDS):
        new = Kind(97, 0.0, lambda s, w, _: w - s, lambda s, w: s + w)
        assert len(_restored(new)[1]) == 2
        del KINDS[new.code]
        with pytest.raises(ValueError, match="of a kind that this release does not know"):
            _restored(new)
    with pytest.raises(ValueError, match="code 0 already"):
        Kind(0, 0.0, lambda s, w, _: w - s, lambda s, w: s + w)
    assert set(KINDS) == {kind.code for kind in NAMED.values()}


def test_kinds_with_a_largest_weight_are_held_to_it_when_read():
    for kind in NAMED.values():
        window = Window(3, 1.0, 4)
        heavy = SparseMatrix(np.array([0, 1]), np.array([1], dtype=np.int32), np.array([2.0]), 3)
        window.keep_rows(Rows(kind, heavy, np.ones(1), np.ones(1)))
        again = Window(3, 1.0, 4)
        if kind.largest is None:
            again.restore(Saved({}, window.arrays()), 1)
        else:
            with pytest.raises(ValueError, match="data"):
                again.restore(Saved({}, window.arrays()), 1)


def test_every_family_of_rows_has_a_kind_of_the_table():
    made = [
        objectives.Coverage(WEIGHTS),
        objectives.ProbabilisticCoverage(WEIGHTS),
        objectives.FacilityLocation(WEIGHTS),
        objectives.SaturatedCoverage(WEIGHTS),
        *(objectives.ConcaveOverModular(WEIGHTS, concave=name) for name in ("sqrt", "log")),
        objectives.ConcaveOverModular(WEIGHTS, concave="capped", cap=0.5),
    ]
    assert {people.as_rows().kind.code for people in made} == set(KINDS)
    assert all(people.built_in for people in made)
    own = objectives.ConcaveOverModular(WEIGHTS, concave=np.sqrt)
    assert own.as_rows() is None
    assert not own.built_in
