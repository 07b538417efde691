"""The one table of row kinds: whoever saves rows, or loops over them, knows every kind."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest

from discreet import objectives
from discreet.kernels import rows as kernels
from discreet.objectives import rows as table
from discreet.objectives.rows import KINDS, Kind, Rows
from discreet.online.window import Window, _saved_rows

NAMED = {name: kind for name, kind in vars(table).items() if isinstance(kind, Kind)}
WEIGHTS = np.array([[0.5, 0.25, 0.0], [0.0, 0.125, 0.5]])


def _restored(kind):
    """Rows of a kind, after they were kept in a window that was saved."""
    rows = Rows(kind, table.as_sparse(WEIGHTS), np.array([1.0, 0.5]), np.array([0.3, 0.4]))
    window = Window(3, 1.0, 4)
    window.keep_rows(rows)
    ((code, arrays),) = window.arrays().items()
    return rows, _saved_rows(KINDS[code], 3, **arrays)


def test_every_kind_is_in_the_table_and_known_to_the_loops():
    assert {kind.code: kind for kind in NAMED.values()} == KINDS
    for name, kind in NAMED.items():
        assert getattr(kernels, name) == kind.code


@pytest.mark.parametrize("name", NAMED)
def test_every_kind_survives_being_saved(name):
    rows, found = _restored(NAMED[name])
    assert found.kind is NAMED[name]
    assert (found.sparse.toarray() == rows.sparse.toarray()).all()
    assert (found.share == rows.share).all()
    assert (found.cap == rows.cap).all()


def test_rows_of_a_length_below_nothing_are_refused():
    arrays = {"indices": np.array([0, 1, 2], dtype=np.int32), "data": np.ones(3)}
    arrays |= {"share": np.ones(3), "cap": np.ones(3)}
    assert _saved_rows(KINDS[0], 3, lengths=np.array([2, 0, 1]), **arrays).n_rows == 3
    with pytest.raises(ValueError, match="people of other items"):
        _saved_rows(KINDS[0], 3, lengths=np.array([3, -1, 1]), **arrays)


def test_a_new_kind_is_known_at_once_and_no_code_has_two():
    with mock.patch.dict(KINDS):
        new = Kind(97)
        assert _restored(new)[1].kind is new
    with pytest.raises(ValueError, match="code 0 already"):
        Kind(0)
    assert set(KINDS) == {kind.code for kind in NAMED.values()}


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
