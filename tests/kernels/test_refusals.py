"""Compiled loops refuse what would lead them out of an array: nothing wrong, and one thing at a time."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from discreet.kernels import arrays, composition, convex, experts, minimization, noise, pairs, polytopes, rows
from discreet.objectives.rows import as_sparse
from discreet.privacy import samplers

from .test_selection import a_sum

INTS, SMALL, BYTES, WORDS = np.int64, np.int32, np.uint8, np.uint64
MATRIX = np.array([[0.5, 0.0, 0.5], [0.0, 1.0, 0.0]])


def people():
    return rows.RowTable(rows.SURVIVE, 1.0, as_sparse(MATRIX).view, np.ones(2), np.ones(2))


def explored(explore=(0, -1), item=(1, 0), sample=(0, 0), noised=1, left=1, people_from=0, words=2):
    how = experts.Exploration(
        (np.array(explore, SMALL), np.array(item, SMALL), np.array(sample, INTS)),
        *(np.zeros(noised, INTS), np.zeros(1, INTS), np.ones(left, INTS)),
        (1.0, 1, 1.0, 0, 1),
    )
    made = experts.OrderedExperts(np.zeros((3, 2), dtype=INTS), 1.0, 1.0, 1)
    stream = SimpleNamespace(
        within_limit=np.ones(2, BYTES), rewards=np.zeros(2), selections=np.zeros((2, 2), SMALL)
    )
    secret = np.arange(words * made.words_per_set, dtype=WORDS)
    made.explore(stream, people(), people_from, how, np.ones(2, BYTES), secret, np.array([0, 1], SMALL))


def gridded(count=3, mantissa=1 << 31):
    noise.to_grid(np.ones(3), mantissa, 0, np.zeros(count, INTS))


def attempted(words=6, places=3, status=3, cells=None, guide=None):
    table = samplers.noise_table(True)
    cells, guide = table[0] if cells is None else cells, table[1] if guide is None else guide
    out, where, why = np.zeros(3, INTS), np.zeros(places, INTS), np.zeros(status, BYTES)
    noise.attempt_noise(np.arange(words, dtype=WORDS), cells, guide, True, 0, out, where, why)


def clipped(low=4, span=4, out=3, flush=1):
    arrays.add_clipped(np.ones((4, 3)), np.zeros(low), np.ones(span), flush, np.zeros(out, INTS))


def summed(places=(0, 3)):
    numbers = np.zeros(4), np.ones(4), np.ones(4)
    arrays.gain_sums(rows.SQRT, np.ones((4, 3)), numbers, 1.0, 8.0, np.array(places), np.zeros(3))


def added(first=0, count=2, place=(0, -1, 1), size=2):
    matrix, within = as_sparse(MATRIX).view, np.ones(count, BYTES)
    pairs.add_units(matrix, first, within, np.array(place, SMALL), 1, np.zeros(size, INTS))


def paid(points=(1, 3), shares=1, totals=(1, 3), kind=rows.SURVIVE):
    table = rows.RowTable(kind, 1.0, as_sparse(MATRIX).view, np.ones(2), np.ones(2))
    units = np.zeros(totals, INTS)
    table.add_gradients(0, np.ones(2, BYTES), np.ones(points), np.ones(shares), 1.0, 1, units)


def sloped(x=3, out=3, inside=(1, 3), first=1, last=2):
    table = rows.RowTable(rows.SQRT, 0.0, as_sparse(MATRIX).view, np.ones(2), np.ones(2))
    sets, whole = np.ones(inside, BYTES), np.zeros(out, INTS)
    table.gradient_steps(np.ones(x), sets, 1.0, 1, whole, first, last)


def extended(x=3, out=3, first=1, last=2):
    people().extension(np.ones(x), np.zeros(out), first, last)


def cut(
    tail=(0, 1), head=(1, 2), starts=(0, 1, 2), arcs=(0, 1), weights=2, prices=(1, 3), person=0, scores=3
):
    given = np.array(tail), np.array(head), np.array(starts), np.array(arcs, SMALL)
    made = minimization.Cuts((*given, np.ones(weights), np.zeros(prices)))
    made.gradient(person, np.zeros(scores))


def scaled(items=(0, 2), total=1.0, room=3):
    polytopes.scale(np.zeros(3), np.array(items), total, np.zeros(room))


def curve(cells=1, reach=(1, 1)):
    composition.worst_case_curve(0.5, cells, np.array(reach))


def asked(scores=(3, 2), item=2, expert=1, gains=(3, 2), one=(2, 1), short=0, shown=2, row=1, seen=(0, 2)):
    """Two experts over three items, asked everything."""
    made = experts.OrderedExperts(np.zeros(scores, dtype=INTS), 1.0, 1.0, 1)
    made.decide(item)
    made.begin()
    made.find(expert, 0)
    made.add(np.ones(gains, INTS))
    made.add_one(*one, 1)
    made.draw(np.zeros(made.words_per_set - short, WORDS), np.zeros(shown, SMALL))
    made.observe(people(), row, np.array(seen, SMALL))


def rounds(first, stop, costs, points, width, within, noised, same):
    """A stream of rounds, of which three are played, and sums with noise for the two between them."""
    stream = SimpleNamespace(
        rewards=np.zeros(costs), selections=np.zeros((points, width)), within_limit=np.ones(within, BYTES)
    )
    total, prefix = a_sum(2)
    total.give(np.zeros((noised, 2), INTS))
    return stream, first, stop, (total, prefix if same else prefix.copy(), np.zeros(2))


def led(first=1, stop=4, costs=4, points=4, width=2, within=4, noised=2, same=True, shown=2, played=2):
    losses = convex.RowLosses(convex.LINEAR, np.ones((4, 2)), np.zeros(4))
    leader = convex.Leader((np.zeros(2), 1.0, np.zeros(2), np.zeros(2)), 0.0, 1.0, 0.0)
    given = rounds(first, stop, costs, points, width, within, noised, same)
    leader.run(losses, *given, (np.zeros(shown), np.zeros(played)), 0, (1.0, 1.0))


def chained(first=1, stop=4, costs=4, points=4, width=2, within=4, noised=2, same=True, shown=2, uniforms=2):
    people = np.array([0]), np.array([1]), np.arange(5), np.zeros(4, SMALL), np.ones(4), np.zeros((1, 2))
    given = rounds(first, stop, costs, points, width, within, noised, same)
    chain = minimization.Chain(2, 1.0, 0.5)
    chain.run(minimization.Cuts(people), *given, np.zeros(shown), np.full(uniforms, 0.5), (1.0, True))


PLAYED = {"first": [-1], "stop": [5], "costs": [3], "points": [3], "width": [3], "within": [3]}
PLAYED |= {"noised": [1], "same": [False], "shown": [1]}
REFUSED = {
    led: PLAYED | {"played": [1]},
    chained: PLAYED | {"uniforms": [1]},
    curve: {"reach": [(2, 1)], "cells": [-1]},
    asked: {"scores": [(2, 3), (3, 0)], "item": [3, -1], "expert": [2, -1], "gains": [(2, 2), (3, 1)]}
    | {
        "one": [(3, 0), (-1, 0), (0, 2), (0, -1)],
        "short": [1],
        "shown": [1, 3],
        "row": [2, -1],
        "seen": [(0, 3), (-1, 0)],
    },
    explored: {"explore": [(2, -1)], "item": [(3, 0), (-1, 0), (1,)], "sample": [(1, 0), (-1, 0), (0, 0, 0)]}
    | {"noised": [0], "left": [2], "people_from": [1], "words": [1]},
    gridded: {"count": [2], "mantissa": [(1 << 31) - 1, 1 << 32]},
    attempted: {"words": [5], "places": [2], "status": [2], "guide": [np.zeros(1 << 15, np.uint16)]}
    | {"cells": [np.zeros(0, WORDS), np.array([5], WORDS)]},
    clipped: {"low": [3], "span": [3], "out": [2], "flush": [0]},
    summed: {"places": [(0, 4), (-1, 0)]},
    added: {"first": [1, -1], "count": [3], "place": [(0, 1), (0, 2, 1), (0, -2, 1)]},
    paid: {"points": [(1, 2)], "shares": [2], "totals": [(2, 3), (1, 2)], "kind": [rows.SQRT]},
    sloped: {"x": [2], "out": [2], "inside": [(1, 2), (0, 3)], "first": [-1, 3], "last": [0, 3]},
    extended: {"x": [2], "out": [2], "first": [-1, 3], "last": [0, 3]},
    cut: {"tail": [(0, 3), (-1, 1), (0,)], "head": [(1, 3), (-1, 2)], "weights": [1], "prices": [(3, 3)]}
    | {
        "arcs": [(0, 2), (-1, 0)],
        "starts": [(0, 1, 3), (-1, 1, 2), (0, 2, 1)],
        "person": [2, -1],
        "scores": [2],
    },
    scaled: {"items": [(0, 3), (-1, 0)], "total": [2.0], "room": [2]},
}


@pytest.mark.parametrize("call", REFUSED)
def test_one_thing_wrong_at_a_time(call):
    call()
    for name, values in REFUSED[call].items():
        for wrong in values:
            with pytest.raises((ValueError, IndexError)):
                call(**{name: wrong})
