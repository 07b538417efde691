"""Empirical lower bounds on epsilon from outputs alone, right with near certainty."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

# The bound exceeds the true epsilon with at most this chance.
MISTAKE = 1e-6
# Thresholds that are tried: so many spread over the scores, and so many in their widest gaps.
_EVENLY, _WIDEST = 200, 10
# How far hits may fall from what is expected of them, in standard deviations, when runs are planned.
_UNLUCKY = 3.0


def clopper_pearson(hits: ArrayLike, runs: int, mistake: float) -> tuple[Floats, Floats]:
    """Intervals for the chances behind ``hits`` of ``runs``; each end is wrong with chance ``mistake``.

    >>> [round(float(end), 3) for end in clopper_pearson(50, 100, 0.025)]
    [0.398, 0.602]
    """
    from scipy.stats import beta

    counts = np.asarray(hits, dtype=np.float64)
    some, rest = np.maximum(counts, 1.0), np.maximum(runs - counts, 1.0)
    low = np.where(counts == 0, 0.0, beta.ppf(mistake, some, runs - counts + 1.0))
    high = np.where(counts == runs, 1.0, beta.ppf(1.0 - mistake, counts + 1.0, rest))
    return low, high


def epsilon_lower_bound(here: Floats, there: Floats, delta: float = 0.0, mistake: float = MISTAKE) -> float:
    """A lower bound on epsilon at ``delta`` from scores of independent runs in two neighbouring worlds.

    If a mechanism is (epsilon, delta)-DP, then P(score in A | here) <= e^epsilon P(score in A | there) +
    delta for every A, and the other way round. A is "above t" or "at most t". Which one, which t, which way
    round and, where there is a column for each, which of several scores is chosen on the first half of the
    runs; the second half, with exact binomial intervals, gives the bound. So it exceeds the true epsilon with
    chance at most ``mistake``, however the scores are made of the outputs and of the first half.

    >>> rng = np.random.default_rng(0)
    >>> bound = epsilon_lower_bound(rng.laplace(1.0, 1.0, 20_000), rng.laplace(0.0, 1.0, 20_000))
    >>> 0.8 < bound < 1.0
    True
    """
    a, b = (np.asarray(scores, dtype=np.float64) for scores in (here, there))
    columns = list(zip(np.atleast_2d(a.T), np.atleast_2d(b.T), strict=True))
    best, chosen = -math.inf, (0, 0.0, True, False)
    for column, (mine, yours) in enumerate(columns):
        first = _half(mine)[0], _half(yours)[0]
        places = _thresholds(np.unique(np.concatenate(first)))
        for above, back in product((True, False), repeat=2) if places.size else ():
            found = _bounds(*first, places, above, back, delta, mistake)
            at = int(found.argmax())
            if found[at] > best:
                best, chosen = float(found[at]), (column, float(places[at]), above, back)
    column, threshold, above, back = chosen
    mine, yours = columns[column]
    second = _half(mine)[1], _half(yours)[1]
    return max(0.0, float(_bounds(*second, np.array([threshold]), above, back, delta, mistake)[0]))


def _thresholds(values: Floats) -> Floats:
    """Places between sorted values: evenly over them, and in the widest gaps, where worlds may part."""
    gaps = np.diff(values)
    even = np.linspace(0, gaps.size - 1, min(gaps.size, _EVENLY)).astype(np.intp)
    places = np.union1d(even, np.argsort(gaps)[-_WIDEST:])
    return np.asarray(values[places] + gaps[places] / 2.0, dtype=np.float64)


def runs_to_prove(epsilon: float, delta: float = 0.0, mistake: float = MISTAKE) -> int:
    """The fewest runs per world that prove more than ``epsilon`` if outputs tell the worlds apart every time.

    With m runs in the half that is tested, the interval of a chance of 1 reaches down to (mistake/2)^(1/m),
    say c, and that of 0 up to 1 - c, which proves log((c - delta) / (1 - c)).

    >>> [runs_to_prove(epsilon) for epsilon in (1.0, 2.0, 4.0)]
    [94, 230, 1600]
    """
    least = (math.exp(epsilon) + delta) / (1.0 + math.exp(epsilon))
    return 2 * (math.floor(math.log(mistake / 2.0) / math.log(least)) + 1)


def runs_needed(
    here: Floats, there: Floats, epsilon: float, delta: float, most: int, mistake: float = MISTAKE
) -> int | None:
    """Runs per world that prove more than ``epsilon`` between two known distributions, even with bad luck.

    ``here`` and ``there`` are probabilities of the same outcomes. None if it takes more than ``most``.
    """
    runs = runs_to_prove(epsilon, delta, mistake)
    while runs <= most:
        if provable(here, there, runs, delta, mistake, unlucky=_UNLUCKY) > epsilon:
            return runs
        runs = 2 * math.ceil(0.6 * runs)
    return None


def provable(
    here: Floats,
    there: Floats,
    runs: int,
    delta: float = 0.0,
    mistake: float = MISTAKE,
    unlucky: float = 0.0,
) -> float:
    """About the bound that so many runs per world give between two known distributions; below 0 for none."""
    best = -math.inf
    m = runs // 2
    for p, q in ((here, there), (there, here)):
        with np.errstate(divide="ignore", invalid="ignore"):
            order = np.argsort(-np.nan_to_num(np.log(p) - np.log(q)), kind="stable")
        chances, others = (np.minimum(np.cumsum(each[order]), 1.0) for each in (p, q))
        luck = [unlucky * np.sqrt(m * each * (1.0 - each)) for each in (chances, others)]
        hits = np.maximum(np.floor(m * chances - luck[0]), 0.0)
        errors = np.minimum(np.ceil(m * others + luck[1]), m)
        low, high = clopper_pearson(hits, m, mistake / 2.0)[0], clopper_pearson(errors, m, mistake / 2.0)[1]
        above = low > delta
        if above.any():
            best = max(best, float(np.log((low[above] - delta) / high[above]).max()))
    return best


def _half(scores: Floats) -> tuple[Floats, Floats]:
    return scores[: scores.size // 2], scores[scores.size // 2 :]


def _bounds(
    here: Floats, there: Floats, thresholds: Floats, above: bool, back: bool, delta: float, mistake: float
) -> Floats:
    """For each threshold, what the number of scores above it (or not above it) proves."""
    if back:
        here, there = there, here
    hits, errors = (np.searchsorted(np.sort(scores), thresholds, side="right") for scores in (here, there))
    if above:
        hits, errors = here.size - hits, there.size - errors
    low = clopper_pearson(hits, here.size, mistake / 2.0)[0]
    high = clopper_pearson(errors, there.size, mistake / 2.0)[1]
    proved = np.full(thresholds.size, -math.inf)
    enough = low > delta
    proved[enough] = np.log((low[enough] - delta) / high[enough])
    return proved


def discriminant_scores(here: Floats, there: Floats) -> tuple[Floats, Floats]:
    """Scores of outputs that are vectors: Fisher's discriminant, fitted to the first half of each."""
    first = _half_rows(here), _half_rows(there)
    means = [part.mean(axis=0) for part in first]
    spread = sum(np.atleast_2d(np.cov(part, rowvar=False)) for part in first)
    size = here.shape[1]
    apart = means[0] - means[1]
    # Outputs without any noise have no spread; the way from one world to the other is then as good as any.
    ridge = 1e-6 * np.trace(spread) / size + 1e-12 * float(apart @ apart) + 1e-100
    way = np.linalg.solve(spread + ridge * np.eye(size), apart)
    return here @ way, there @ way


def _half_rows(outputs: Floats) -> Floats:
    return outputs[: outputs.shape[0] // 2]
