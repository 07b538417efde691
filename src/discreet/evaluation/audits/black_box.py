"""What somebody who only sees outputs can prove about epsilon: a lower bound, right with near certainty."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# The bound exceeds the true epsilon with at most this chance.
MISTAKE = 1e-6


def clopper_pearson(hits: int, runs: int, mistake: float) -> tuple[float, float]:
    """An interval for the chance behind ``hits`` of ``runs``; each end is wrong with chance ``mistake``.

    >>> [round(end, 3) for end in clopper_pearson(50, 100, 0.025)]
    [0.398, 0.602]
    """
    from scipy.stats import beta

    low = 0.0 if hits == 0 else float(beta.ppf(mistake, hits, runs - hits + 1))
    high = 1.0 if hits == runs else float(beta.ppf(1.0 - mistake, hits + 1, runs - hits))
    return low, high


def epsilon_lower_bound(here: Floats, there: Floats, delta: float = 0.0, mistake: float = MISTAKE) -> float:
    """A lower bound on epsilon at ``delta`` from scores of independent runs in two neighbouring worlds.

    If a mechanism is (epsilon, delta)-DP, then P(score in A | here) <= e^epsilon P(score in A | there) +
    delta for every A, and the other way round. A is "above t" or "at most t". Which one, which t and which
    way round is chosen on the first half of the runs; the second half, with exact binomial intervals, gives
    the bound. So it exceeds the true epsilon with chance at most ``mistake``, however the scores are made of
    the outputs and of the first half.

    >>> rng = np.random.default_rng(0)
    >>> bound = epsilon_lower_bound(rng.laplace(1.0, 1.0, 20_000), rng.laplace(0.0, 1.0, 20_000))
    >>> 0.8 < bound < 1.0
    True
    """
    a, b = (np.asarray(scores, dtype=np.float64) for scores in (here, there))
    first = _half(a)[0], _half(b)[0]
    second = _half(a)[1], _half(b)[1]
    values = np.unique(np.concatenate(first))
    thresholds = values if values.size <= 200 else np.quantile(values, np.linspace(0.0, 1.0, 201))
    best, chosen = -math.inf, (0.0, True, False)
    for place in thresholds:
        for above, back in product((True, False), repeat=2):
            found = _bound(*first, float(place), above, back, delta, mistake)
            if found > best:
                best, chosen = found, (float(place), above, back)
    threshold, above, back = chosen
    return max(0.0, _bound(*second, threshold, above, back, delta, mistake))


def _half(scores: Floats) -> tuple[Floats, Floats]:
    return scores[: scores.size // 2], scores[scores.size // 2 :]


def _bound(
    here: Floats, there: Floats, threshold: float, above: bool, back: bool, delta: float, mistake: float
) -> float:
    if back:
        here, there = there, here
    hits = [int((scores > threshold).sum()) for scores in (here, there)]
    if not above:
        hits = [here.size - hits[0], there.size - hits[1]]
    low = clopper_pearson(hits[0], here.size, mistake / 2.0)[0]
    high = clopper_pearson(hits[1], there.size, mistake / 2.0)[1]
    return math.log((low - delta) / high) if low > delta else -math.inf


def discriminant_scores(here: Floats, there: Floats) -> tuple[Floats, Floats]:
    """Scores of outputs that are vectors: Fisher's discriminant, fitted to the first half of each."""
    first = _half_rows(here), _half_rows(there)
    means = [part.mean(axis=0) for part in first]
    spread = sum(np.atleast_2d(np.cov(part, rowvar=False)) for part in first)
    size = here.shape[1]
    ridge = 1e-6 * (np.trace(spread) / size + 1e-300)
    way = np.linalg.solve(spread + ridge * np.eye(size), means[0] - means[1])
    return here @ way, there @ way


def _half_rows(outputs: Floats) -> Floats:
    return outputs[: outputs.shape[0] // 2]
