"""Compiled rounds of online convex learning (`online.convex`, `objectives.losses`)."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ..arguments import People, Shape, SumState
from .compiled import loop
from .noise import to_grid
from .sums import noisy_step

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

# Kinds of costs; the one that is left, 0, is logistic.
SQUARED, LINEAR, DISTANCE = 1, 2, 3


@loop()
def cost_and_gradient(kind: int, row: Floats, number: float, point: Floats, gradient: Floats) -> float:
    """What ``point`` costs a person; ``gradient`` is overwritten."""
    size = point.size
    if kind == DISTANCE:
        total = 0.0
        for i in range(size):
            away = point[i] - row[i]
            gradient[i] = away
            total += away * away
        return total / 2.0
    along = 0.0
    for i in range(size):
        along += row[i] * point[i]
    if kind == LINEAR:
        cost = along
        slope = 1.0
    elif kind == SQUARED:
        slope = along - number
        cost = slope * slope / 2.0
    else:  # ln(1 + exp(-margin)) and its slope, whatever the size of the margin
        margin = number * along
        small = math.exp(-abs(margin))
        cost = math.log1p(small) + max(-margin, 0.0)
        slope = -number * (small if margin >= 0.0 else 1.0) / (1.0 + small)
    for i in range(size):
        gradient[i] = slope * row[i]
    return cost


@loop()
def costs_at(
    people: People,
    first: int,
    point: Floats,
    middle: float,
    half: float,
    mantissa: int,
    exponent: int,
    costs: Floats,
    steps: Indices,
) -> None:
    """What ``point`` costs as many people from ``first`` on as ``costs`` has room for.

    ``steps`` are these costs from ``middle``, up to ``half`` away from it, in whole steps of the grid.
    """
    kind, rows, numbers = people
    gradient, away = np.empty(point.size), np.empty(costs.size)
    for t in range(costs.size):
        costs[t] = cost_and_gradient(kind, rows[first + t], numbers[first + t], point, gradient)
        away[t] = min(max(costs[t] - middle, -half), half)
    to_grid(away, mantissa, exponent, steps)


@loop()
def shorten(vector: Floats, longest: float) -> float:
    """Shorten ``vector`` to ``longest`` where it is longer; returns how long it was.

    Lengths are measured in units of the largest entry, so that no square leaves the range of floats.
    """
    largest = 0.0
    for i in range(vector.size):
        largest = max(largest, abs(vector[i]))
    if largest == 0.0:
        return 0.0
    total = 0.0
    for i in range(vector.size):
        total += (vector[i] / largest) ** 2
    root = math.sqrt(total)
    length = largest * root
    if length > longest:
        for i in range(vector.size):
            vector[i] = vector[i] / largest * (longest / root)
    return length


@loop()
def follow(
    known: Floats, played: Floats, curvature: float, held: float, rounds: int, shape: Shape, point: Floats
) -> None:
    """The leader after ``rounds`` rounds: (H played + A center - known) / (rounds H + A), projected."""
    center, radius, low, high = shape
    divisor = curvature * rounds + held
    for i in range(point.size):
        point[i] = (curvature * played[i] + held * center[i] - known[i]) / divisor
    if radius < 0.0:
        for i in range(point.size):
            point[i] = min(max(point[i], low[i]), high[i])
        return
    for i in range(point.size):
        point[i] -= center[i]
    shorten(point, radius)
    for i in range(point.size):
        point[i] += center[i]


@loop()
def leader_rounds(
    people: People,
    first: int,
    within_limit: NDArray[np.bool_],
    limit: float,
    longest: float,
    curvature: float,
    held: float,
    growing: float,
    passed: int,
    shape: Shape,
    inside: SumState,
    known: Floats,
    played: Floats,
    shown: Floats,
    pending: Floats,
    costs: Floats,
    points: Floats,
) -> int:
    """Whole rounds; between them, ``costs.size - 1`` sums are taken with a row of noise each.

    On entry ``shown`` is what is played in the first of them and ``played`` the sum of ``passed`` points
    before it; on return they are those of the last round, and ``pending`` is its gradient, which no sum has
    yet. Gradients are shortened to ``longest``; returns how many were longer than ``limit``.
    """
    kind, rows, numbers = people
    size = known.size
    shortened = 0
    for t in range(costs.size):
        if t > 0:
            noisy_step(inside, t - 1, pending, known)
            for i in range(size):
                played[i] += shown[i]
            follow(known, played, curvature, held + growing * (passed + t), passed + t, shape, shown)
        costs[t] = cost_and_gradient(kind, rows[first + t], numbers[first + t], shown, pending)
        for i in range(size):
            points[t, i] = shown[i]
        if not within_limit[t]:
            for i in range(size):
                pending[i] = 0.0
        elif shorten(pending, longest) > limit:
            shortened += 1
    return shortened
