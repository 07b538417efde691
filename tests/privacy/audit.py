"""Exact audits of the real code: programs are run against a gate, only the coins are scripted.

Choices are enumerated (every transcript, with the probability the code gave it). Running sums are
linear in their noise, so their noise is probed draw by draw and the exact loss follows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from unittest import mock

import numpy as np
from numpy.typing import NDArray

import discreet as dc
from discreet.privacy import samplers
from discreet.privacy.prefix_sum import RunningSum


def transcripts(program: Callable[[dc.Gate], object], budget: dc.Budget) -> dict[tuple[int, ...], float]:
    """Probability of every sequence of choices that ``program`` can make with a fresh gate.

    Secret samples are enumerated too, and are no part of what is seen.
    """
    found: dict[tuple[int, ...], float] = {}
    stack: list[tuple[int, ...]] = [()]
    while stack:
        script = stack.pop()
        path: list[int] = []
        seen: list[int] = []
        log_probability = 0.0

        def scripted(probabilities: NDArray[np.float64], script=script, path=path) -> int:
            nonlocal log_probability
            index = script[len(path)] if len(path) < len(script) else 0
            if len(path) >= len(script):
                stack.extend((*path, other) for other in range(1, probabilities.size))
            log_probability += math.log(probabilities[index])
            path.append(index)
            return index

        def choice(_, scores, rate, scripted=scripted, seen=seen) -> int:
            seen.append(scripted(np.exp(samplers.choice_log_probabilities(scores, rate))))
            return seen[-1]

        def flipped(_, scores, rate, scripted=scripted, seen=seen) -> int:
            seen.append(scripted(samplers.flip_probabilities(scores, rate)))
            return seen[-1]

        def sample(_, people, keep, scripted=scripted) -> NDArray[np.int64]:
            chance = keep * 2.0**-64
            return np.flatnonzero([scripted(np.array([1.0 - chance, chance])) for _ in range(people)])

        with (
            mock.patch.object(samplers, "exponential_choice", choice),
            mock.patch.object(samplers, "permute_and_flip", flipped),
            mock.patch.object(dc.privacy.Release, "sample", sample),
        ):
            program(dc.Gate(budget, 0))
        found[tuple(seen)] = found.get(tuple(seen), 0.0) + math.exp(log_probability)
    assert abs(sum(found.values()) - 1.0) < 1e-9
    return found


def hockey_stick(p: dict[tuple[int, ...], float], q: dict[tuple[int, ...], float], epsilon: float) -> float:
    """Smallest delta of (epsilon, delta) between two enumerated distributions, in the worse direction."""
    outcomes = p.keys() | q.keys()
    there = sum(max(0.0, p.get(o, 0.0) - np.exp(epsilon) * q.get(o, 0.0)) for o in outcomes)
    back = sum(max(0.0, q.get(o, 0.0) - np.exp(epsilon) * p.get(o, 0.0)) for o in outcomes)
    return float(max(there, back))


def loss_range(p: dict[tuple[int, ...], float], q: dict[tuple[int, ...], float]) -> float:
    """Largest minus smallest log-ratio."""
    losses = [np.log(p[o] / q[o]) for o in p]
    return float(max(losses) - min(losses))


def _run(
    make: Callable[[], RunningSum], vectors: Sequence[NDArray[np.float64]], bump: tuple[int, int] | None
) -> tuple[NDArray[np.float64], int]:
    """All answers of a sum when its noise is 0 except for one coordinate of one draw; number of draws."""
    draws = 0

    def scripted(_: object, count: int, *, gaussian: bool) -> NDArray[np.int64]:  # noqa: ARG001
        nonlocal draws
        noise = np.zeros(count, dtype=np.int64)
        if bump is not None and bump[0] == draws:
            noise[bump[1]] = 1 << samplers.STEPS_BITS
        draws += 1
        return noise

    with mock.patch.object(samplers, "noise_steps", scripted):
        total = make()
        answers = np.concatenate([total.add(vector) for vector in vectors])
    return answers, draws


def quiet_answers(
    make: Callable[[], RunningSum], vectors: Sequence[NDArray[np.float64]]
) -> NDArray[np.float64]:
    """All answers of a sum when its noise is 0."""
    return _run(make, vectors, None)[0]


def noise_map(make: Callable[[], RunningSum], vectors: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Matrix B with answers = exact part + B @ (standard noise, one entry per drawn coordinate)."""
    quiet, draws = _run(make, vectors, None)
    columns = [
        _run(make, vectors, (draw, coordinate))[0] - quiet
        for draw in range(draws)
        for coordinate in range(vectors[0].size)
    ]
    return np.array(columns).T


def exact_sum_loss(
    make: Callable[[], RunningSum],
    here: Sequence[NDArray[np.float64]],
    there: Sequence[NDArray[np.float64]],
    *,
    norm: int,
) -> float:
    """Exact privacy loss between two streams, from what the code does with its noise.

    ``norm=2``: mu of the Gaussian mechanism that the answers are. ``norm=1``: epsilon for Laplace noise
    (smallest total shift of the draws that explains the difference). Infinite when no shift of the
    noise explains the difference: then some combination of answers carries no noise at all.
    """
    noise = noise_map(make, here)
    moved = _run(make, here, None)[0] - _run(make, there, None)[0]
    shift, *_ = np.linalg.lstsq(noise, moved, rcond=1e-9)
    if np.abs(noise @ shift - moved).max() > 1e-6 * np.abs(moved).max():
        return float("inf")
    if norm == 2:
        return float(np.linalg.norm(shift))
    from scipy.optimize import linprog

    size = noise.shape[1]
    answer = linprog(np.ones(2 * size), A_eq=np.hstack([noise, -noise]), b_eq=moved, bounds=(0, None))
    return float(answer.fun)
