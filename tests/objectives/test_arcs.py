"""Cuts that come in as lists of arcs, and go out as such."""

from __future__ import annotations

import numpy as np
import pytest

from discreet.objectives import Arcs, GraphCut

GOOD = {
    "tail": [0, 1, 2],
    "head": [1, 2, 0],
    "start": [0, 2, 2, 3],
    "arc": [2, 0, 1],
    "weight": [0.5, 0.25, 0.75],
    "modular": [[0.0, 0.1, -0.2]],
}


def _cut(**other):
    return GraphCut.from_arcs(3, Arcs(**(GOOD | other)), bound=2.0)


def test_arcs_mean_what_their_matrices_mean():
    people = _cut()
    matrices = np.zeros((3, 3, 3))
    matrices[0, 2, 0], matrices[0, 0, 1], matrices[2, 1, 2] = 0.5, 0.25, 0.75
    twin = GraphCut(matrices, modular=[0.0, 0.1, -0.2], directed=True, bound=2.0)
    for number in range(8):
        items = [i for i in range(3) if number >> i & 1]
        for i in range(3):
            assert people[i].value(items) == pytest.approx(twin[i].value(items))
    assert people._largest() == pytest.approx(twin._largest())


@pytest.mark.parametrize("directed", [True, False])
def test_arcs_go_out_and_come_back(directed):
    rng = np.random.default_rng(1)
    graphs = rng.random((4, 5, 5)) * (rng.random((4, 5, 5)) < 0.5)
    if not directed:
        graphs += graphs.transpose(0, 2, 1)
    people = GraphCut(graphs, modular=rng.normal(size=(4, 5)), directed=directed, bound=50)
    again = GraphCut.from_arcs(5, people.as_arcs(), bound=50)
    assert len(again) == 4
    for i, items in enumerate([[0], [1, 3], [0, 2, 4], [4]]):
        assert again[i].value(items) == people[i].value(items)


def test_arrays_are_copied_and_zeros_left_out():
    weight = np.array([0.5, 0.0, 0.75])
    people = _cut(weight=weight)
    weight[:] = 100.0
    assert people.as_arcs().weight.tolist() == [0.5, 0.75]
    assert people.as_arcs().start.tolist() == [0, 1, 1, 2]
    twice = _cut(arc=[0, 0, 1]).as_arcs()
    assert (twice.arc.tolist(), twice.weight.tolist()) == ([0, 1], [0.75, 0.75])


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"tail": [0, 1]}, "entries"),
        ({"tail": [0, 1, 3]}, "tail names items"),
        ({"head": [1, -1, 0]}, "head names items"),
        ({"head": [1, 1, 0]}, "loop"),
        ({"tail": [0, 0, 2], "head": [1, 1, 0]}, "once"),
        ({"start": [0, 2, 1, 3]}, "rise from 0"),
        ({"start": [0, 2]}, "rise from 0"),
        ({"start": []}, "rise from 0"),
        ({"arc": [2, 3, 1]}, "names an arc that there is not"),
        ({"weight": [0.5, -0.1, 1.0]}, "at least 0"),
        ({"weight": [0.5, np.nan, 1.0]}, "NaN|finite"),
        ({"weight": [0.5]}, "one entry for each entry of arc"),
        ({"weight": [2.5, 0.0, 0.0]}, "bound"),
        ({"modular": [[0.0, 0.0]]}, "modular must have 3 entries"),
    ],
)
def test_bad_arcs_are_refused(wrong, said):
    with pytest.raises(ValueError, match=said):
        _cut(**wrong)


def test_arcs_are_whole_numbers():
    with pytest.raises(TypeError, match="whole numbers"):
        _cut(tail=[0.0, 1.0, 2.0])
    with pytest.raises(ValueError, match="n_items"):
        GraphCut.from_arcs(0, Arcs(**GOOD))
