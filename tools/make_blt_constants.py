"""Finds the constants that ``discreet.privacy.factorizations.buffered`` ships, and writes them.

For each horizon T = 2^4 .. 2^24 it minimizes column_norm(T) * row_norm(T) over encoders with K buffers,
and keeps the fewest buffers (2 to 6) that cost at most 1 % more than the square-root factorization.

The search runs over the gaps 1 - decay of the encoder (its poles) and of its inverse (its zeros). In an
encoder with positive weights these interlace, pole < zero < pole < ... < zero < 1, and any interlacing
sequence is such an encoder; so 2K increasing numbers parametrise exactly what is allowed, and both norms
are closed forms in them. Runs in about a minute on one core:

    python tools/make_blt_constants.py [output.json]
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

import discreet.privacy.factorizations as factorizations

Vector = NDArray[np.float64]

EXPONENTS = range(4, 25)
BUFFERS = range(2, 7)
GOOD_ENOUGH = 0.01
STARTS = 6


def interlaced_gaps(free: Vector) -> tuple[Vector, Vector]:
    """Unconstrained numbers -> (poles, zeros): log rates that increase by exp(free[1:])."""
    rates = np.exp(free[0] + np.concatenate([[0.0], np.cumsum(np.exp(free[1:]))]))
    gaps = -np.expm1(-rates)
    return gaps[::2], gaps[1::2]


def residues(at: Vector, roots: Vector, poles: Vector) -> Vector:
    """Absolute residues of prod(u - roots) / prod(u - poles) at each of the poles ``at``."""
    between = poles - at[:, None]
    np.fill_diagonal(between, 1.0)
    return np.abs(np.prod(roots - at[:, None], axis=1) / np.prod(between, axis=1))


def energy(gaps: Vector, amplitudes: Vector, steps: int) -> float:
    """Sum over j < steps of (sum_i amplitude_i (1 - gap_i)^j)^2."""
    logs = np.log1p(-gaps)
    together = gaps[:, None] + gaps - gaps[:, None] * gaps
    lasting = together == 0
    terms = -np.expm1(steps * (logs[:, None] + logs)) / np.where(lasting, 1.0, together)
    return float(amplitudes @ np.where(lasting, steps, terms) @ amplitudes)


def log_error(free: Vector, rounds: int) -> float:
    """log(worst_error^2) of the encoder that ``free`` describes."""
    if np.abs(free).max() > 50:
        return 1e3  # far outside anything useful; keeps the line search away from overflow
    poles, zeros = interlaced_gaps(free)
    if np.any(np.diff(np.sort(np.concatenate([poles, zeros]))) <= 0) or zeros[-1] >= 1:
        return 1e3
    encoder = energy(poles, residues(poles, zeros, poles), rounds - 1)
    decoder = energy(
        np.append(zeros, 0.0),
        np.append(residues(zeros, poles, zeros) / zeros, np.prod(poles / zeros)),
        rounds,
    )
    return float(np.log1p(encoder) + np.log(decoder))


def start(rounds: int, buffers: int) -> Vector:
    """Poles and zeros evenly spaced in log rate from 1/T to 1: what the square root looks like."""
    step = np.log(rounds) / (2 * buffers - 1)
    return np.append(-np.log(rounds), np.full(2 * buffers - 1, np.log(step)))


def polish(free: Vector, rounds: int) -> tuple[float, Vector]:
    """A local minimum near ``free``; restarts reset the curvature estimate until nothing moves."""
    best, value = free, log_error(free, rounds)
    for _ in range(5):
        found = minimize(log_error, best, args=(rounds,), jac="3-point", options={"gtol": 1e-10})
        gained = value - found.fun
        if gained > 0:
            best, value = found.x, float(found.fun)
        if gained < 1e-12:
            break
    return value, best


def search(rounds: int, buffers: int, warm: list[Vector], rng: np.random.Generator) -> tuple[float, Vector]:
    """The best of several local searches, started from the square root's shape and from neighbours."""
    first = start(rounds, buffers)
    starts = [first, *warm, *(first + rng.normal(0, 0.3, first.size) for _ in range(STARTS))]
    return min((polish(one, rounds) for one in starts), key=lambda pair: pair[0])


def square_root_error(rounds: int) -> float:
    """The error of the exact square-root factorization: sum over j < T of (binom(2j, j) / 4^j)^2."""
    total, coefficient, done, block = 1.0, 1.0, 1, 2**20
    while done < rounds:
        j = np.arange(done, min(done + block, rounds), dtype=np.float64)
        coefficients = coefficient * np.cumprod(1 - 1 / (2 * j))
        total += float(np.sum(coefficients**2))
        coefficient, done = float(coefficients[-1]), done + j.size
    return total


def main(path: Path) -> None:
    rng = np.random.default_rng(20240817)
    table: dict[str, dict[str, list[float]]] = {}
    previous: dict[int, Vector] = {}
    for exponent in EXPONENTS:
        rounds = 2**exponent
        exact = square_root_error(rounds)
        for buffers in BUFFERS:
            warm = [previous[buffers]] if buffers in previous else []
            value, free = search(rounds, buffers, warm, rng)
            previous[buffers] = free
            poles, zeros = interlaced_gaps(free)
            decays, weights = 1 - poles[::-1], residues(poles, zeros, poles)[::-1]
            made = factorizations.Factorization(decays, weights, rounds, "search")
            excess = made.worst_error / exact - 1
            print(f"T=2^{exponent} K={buffers} error={made.worst_error:.6f} excess={excess:.2e}", flush=True)
            if abs(np.log(made.worst_error) - value / 2) > 1e-6:
                raise ArithmeticError("the library and the search disagree about an error")
            if excess <= GOOD_ENOUGH or buffers == BUFFERS[-1]:
                break
        table[str(rounds)] = {"decays": made.decays.tolist(), "weights": made.weights.tolist()}
    lines = ",\n".join(f'"{rounds}": {json.dumps(entry)}' for rounds, entry in table.items())
    path.write_text("{\n" + lines + "\n}\n")


if __name__ == "__main__":
    beside_the_code = Path(factorizations.__file__).with_name("blt_constants.json")
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else beside_the_code)
