"""The real sampler beside the probabilities that the exact audit took it to have."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

# A sound sampler is called wrong about once in this many audits.
NEVER = 1e-6
_FEWEST = 5.0  # what a cell must expect for the chi-square law to hold


def chi_square(seen: Sequence[Hashable], expected: Mapping[Hashable, float]) -> float:
    """p-value of the outcomes ``seen`` under the ``expected`` probabilities; 0 for an impossible outcome.

    Rare outcomes are counted together.

    >>> chi_square([0, 1] * 50, {0: 0.5, 1: 0.5})
    1.0
    """
    from scipy.stats import chisquare

    if any(expected.get(outcome, 0.0) == 0.0 for outcome in seen):
        return 0.0
    counts = dict.fromkeys(expected, 0)
    for outcome in seen:
        counts[outcome] += 1
    hopes = np.array([expected[outcome] for outcome in counts]) * len(seen)
    found = np.array(list(counts.values()), dtype=np.float64)
    rare = hopes < _FEWEST
    if rare.any():
        hopes, found = np.append(hopes[~rare], hopes[rare].sum()), np.append(found[~rare], found[rare].sum())
    inside = hopes > 0.0
    if inside.sum() < 2:
        return 1.0
    hopes *= found.sum() / hopes.sum()  # only rounding
    return float(chisquare(found[inside], hopes[inside]).pvalue)


def noise_law(values: Sequence[NDArray[np.float64]], law: str) -> float:
    """Smallest p-value (times the number of tests) that noise in units of its scale follows its law.

    Spherical noise: the length of a vector of d numbers is Gamma(d), and the square of one coordinate of its
    direction Beta(1/2, (d - 1)/2).
    """
    from scipy import stats

    if law in ("laplace", "gaussian"):
        each = np.concatenate(values)
        shape = stats.laplace() if law == "laplace" else stats.norm()
        return float(stats.kstest(each, shape.cdf).pvalue)
    size = values[0].size
    lengths = np.array([np.linalg.norm(value) for value in values])
    found = [float(stats.kstest(lengths, stats.gamma(size).cdf).pvalue)]
    if size > 1:
        share = np.array([value[0] for value in values]) / lengths
        law_of_share = stats.beta(0.5, (size - 1) / 2.0)
        found.append(float(stats.kstest(share**2, law_of_share.cdf).pvalue))
        signs = int((share > 0).sum())
        found.append(float(stats.binomtest(signs, len(values)).pvalue))
    return min(1.0, len(found) * min(found))
