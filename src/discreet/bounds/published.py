"""Published utility bounds of offline selectors, as functions: additive losses of utility.

E F(x) >= ratio F(S*) - loss, in units of F, an objective that one person moves by at most Delta
(``sensitivity``). For a sum over people of functions in [0, 1], Delta is 1 and ``single``, which no F({i})
exceeds, the number of people. ``reach`` R is the largest sum of a feasible point: the rank of a matroid, or 1
over the least cost of a knapsack of capacity 1. What the library itself certifies is in
`discreet.bounds.continuous` and `discreet.bounds.greedy`.
"""

from __future__ import annotations

import math


def published_continuous_greedy(
    n_items: int, reach: float, epsilon: float, sensitivity: float, single: float = 1.0
) -> float:
    """Paper 003, Theorem 3: sqrt(Delta R^3 n ln n / epsilon), against 1 - 1/e, for matroids and knapsacks.

    The theorem is about objectives in which no single item has a value above a constant, 1 say; for others
    the loss is ``single`` times that of F / ``single``. Only the order is printed; constants are 1 here.

    >>> round(2000 * published_continuous_greedy(20, 3.0, 1.0, 1 / 2000))
    1799
    >>> round(published_continuous_greedy(20, 3.0, 1.0, 1.0, single=2000.0))
    1799
    """
    size = sensitivity / single * reach**3 * n_items * math.log(n_items)
    return single * math.sqrt(size / epsilon)


def published_laplace_steps(
    n_items: int,
    reach: float,
    steps: int,
    epsilon: float,
    sensitivity: float,
    single: float = 1.0,
    *,
    likely: bool = False,
) -> float:
    """Paper 003, Lemma 3: m R^2 / (2 K) + 2 R E max |Y|, Y Laplace noise of scale 2 K n Delta / epsilon.

    With the constants of Lemmas 1 to 3: the expected largest of n such absolute values is the scale times
    the n-th harmonic number, which the paper rounds to O(ln n). ``likely``: sqrt(10) ln(K n) times the scale
    instead, which no step's noise exceeds with probability 1 - 1/K. Lemma 5 has the same loss against
    1 - kappa/e.
    """
    scale = 2.0 * steps * n_items * sensitivity / epsilon
    return _steps_and_noise(n_items, reach, steps, scale, single, likely)


def published_laplace_steps_advanced(
    n_items: int,
    reach: float,
    steps: int,
    epsilon: float,
    delta: float,
    sensitivity: float,
    single: float = 1.0,
    *,
    likely: bool = False,
) -> float:
    """Paper 003, Lemma 4: advanced composition, scale 4 sqrt(2 K ln(1/delta)) n Delta / epsilon."""
    root = math.sqrt(2.0 * steps * math.log(1.0 / delta))
    scale = 4.0 * root * n_items * sensitivity / epsilon
    return _steps_and_noise(n_items, reach, steps, scale, single, likely)


def published_gaussian_steps(
    n_items: int, reach: float, steps: int, epsilon: float, sensitivity: float, single: float = 1.0
) -> float:
    """Paper 003 on Gaussian noise: the term of Lemma 3 for the noise, smaller by sqrt(n ln n).

    m R^2 / (2 K) + R K sqrt(n ln n) Delta / epsilon. The analysis is in a supplement that is not available;
    the main text prints this order only, without its delta; constants are 1 here.
    """
    noise = reach * steps * math.sqrt(n_items * math.log(n_items)) * sensitivity / epsilon
    return single * reach**2 / (2.0 * steps) + noise


def _steps_and_noise(
    n_items: int, reach: float, steps: int, scale: float, single: float, likely: bool
) -> float:
    largest = sum(1.0 / i for i in range(1, n_items + 1))
    if likely:
        largest = math.sqrt(10.0) * math.log(steps * n_items)
    return single * reach**2 / (2.0 * steps) + 2.0 * reach * scale * largest


def published_picks(n_items: int, picks: int, epsilon: float, sensitivity: float) -> float:
    """Greedy by the exponential mechanism, Delta k^2 ln n / epsilon (paper 003 on Mitrovic et al. 2017).

    Against 1 - 1/e for at most k items, against 1/2 for matroids of rank k. Only the order is printed;
    constants are 1 here.

    >>> round(published_picks(20, 3, 1.0, 1.0))
    27
    """
    return sensitivity * picks**2 * math.log(n_items) / epsilon
