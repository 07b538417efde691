"""Measures of privacy loss, exact and from outputs alone, and tests of samplers.

Exact: from every transcript with its probability, or from the exact effect of every draw of noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..privacy import PublicRandomness
from . import hooks
from .hooks import Floats

Distribution = dict[Hashable, float]
_MOST_TRANSCRIPTS = 200_000
# The relative tolerance for parts of a learner that are computed in floating point.
_SAME = 1e-6
_MOST_EPSILON = 700.0  # its exponential does not overflow


# --- choices --------------------------------------------------------------------------------------


# From the places taken so far and the number of candidates to groups of equivalent candidates, by place.
Alike = Callable[[tuple[int, ...], int], list[list[int]]]


def distribution(play: Callable[[], Hashable], alike: Alike | None = None) -> Distribution:
    """The probability of every output of ``play``, by enumerating all paths through its choices.

    ``alike``: of candidates that lead to the same distribution of outputs, only the first is followed, with
    the sum of their probabilities.

    >>> import discreet as dc
    >>> def fair():
    ...     return dc.Gate(dc.Budget(1.0), 0).choose([0.0, 0.0], rate=1.0, sensitivity=1.0)
    >>> distribution(fair)
    {0: 0.5, 1: 0.5}
    """
    found: Distribution = {}
    ahead: list[tuple[int, ...]] = [()]
    taken = 0
    while ahead:
        script = ahead.pop()
        path: list[int] = []
        chance = [0.0]

        def decide(
            probabilities: Floats,
            script: tuple[int, ...] = script,
            path: list[int] = path,
            chance: list[float] = chance,
        ) -> int:
            size = probabilities.size
            groups = [[place] for place in range(size)] if alike is None else alike(tuple(path), size)
            place = script[len(path)] if len(path) < len(script) else groups[0][0]
            if len(path) >= len(script):
                ahead.extend((*path, group[0]) for group in groups[1:])
            path.append(place)
            taken_for = next(group for group in groups if group[0] == place)
            with np.errstate(divide="ignore"):
                chance[0] += float(np.log(probabilities[taken_for].sum()))
            return place

        with hooks.scripted_choices(decide):
            published = play()
        found[published] = found.get(published, 0.0) + math.exp(chance[0])
        taken += 1
        if taken > _MOST_TRANSCRIPTS:
            raise ValueError(f"more than {_MOST_TRANSCRIPTS:,} transcripts; audit a smaller setting")
    total = math.fsum(found.values())
    if not abs(total - 1.0) <= 1e-9:
        raise AssertionError(
            f"the probabilities of all transcripts add up to {total}; a choice is not audited"
        )
    return {outcome: chance for outcome, chance in sorted(found.items(), key=repr) if chance > 0.0}


def paired(p: Distribution, q: Distribution) -> tuple[Floats, Floats]:
    """The probabilities of the same outcomes under both, in one order."""
    outcomes = sorted(p.keys() | q.keys(), key=repr)
    return (np.array([d.get(outcome, 0.0) for outcome in outcomes]) for d in (p, q))  # type: ignore[return-value]


def hockey_stick(p: Distribution, q: Distribution, epsilon: float) -> float:
    """The smallest delta at ``epsilon`` between two distributions, in the worse direction.

    >>> round(hockey_stick({0: 0.75, 1: 0.25}, {0: 0.25, 1: 0.75}, 0.0), 12)
    0.5
    """
    here, there = paired(p, q)
    growth = math.exp(epsilon)
    return float(
        max(np.maximum(here - growth * there, 0.0).sum(), np.maximum(there - growth * here, 0.0).sum())
    )


def exact_epsilon(p: Distribution, q: Distribution, delta: float) -> float:
    """The smallest epsilon at ``delta`` between two distributions.

    >>> round(exact_epsilon({0: 0.75, 1: 0.25}, {0: 0.25, 1: 0.75}, 0.0), 6) == round(math.log(3), 6)
    True
    """
    if delta > 0.0:
        return least_epsilon(lambda epsilon: hockey_stick(p, q, epsilon), delta)
    here, there = paired(p, q)
    with np.errstate(divide="ignore"):
        return float(np.abs(np.log(here) - np.log(there)).max())


def least_epsilon(delta_at: Callable[[float], float], delta: float) -> float:
    """The least epsilon up to 700 at which a decreasing curve is at most ``delta``; 700 if there is none."""
    if delta_at(0.0) <= delta:
        return 0.0
    low, high = 0.0, 1.0
    while high < _MOST_EPSILON and delta_at(high) > delta:
        low, high = high, min(2.0 * high, _MOST_EPSILON)
    for _ in range(60):
        middle = (low + high) / 2.0
        low, high = (middle, high) if delta_at(middle) > delta else (low, middle)
    return high


# --- noise ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class NoiseMap:
    """Releases as an exact part + ``matrix`` @ noise in units of its scale, one column per number drawn."""

    matrix: Floats
    groups: tuple[slice, ...]
    law: str

    def loss(self, moved: Floats) -> float:
        """Privacy loss of moving the exact part by ``moved``: the size of the least such shift of the noise.

        Gaussian noise: its mu. Laplace noise: epsilon. Spherical noise: epsilon, vector by vector. Infinite
        if there is no such shift: then some combination of the releases has no noise at all.
        """
        if not np.any(moved):
            return 0.0
        shift, *_ = np.linalg.lstsq(self.matrix, moved, rcond=1e-10)
        if not np.abs(self.matrix @ shift - moved).max() <= _SAME * np.abs(moved).max():
            return math.inf
        if self.law == "gaussian":
            return float(np.linalg.norm(shift))
        if self.law == "spherical":
            return math.fsum(float(np.linalg.norm(shift[group])) for group in self.groups)
        if np.linalg.matrix_rank(self.matrix) == self.matrix.shape[1]:
            return float(np.abs(shift).sum())
        from scipy.optimize import linprog

        size = self.matrix.shape[1]
        both = np.hstack([self.matrix, -self.matrix])
        answer: Any = linprog(np.ones(2 * size), A_eq=both, b_eq=moved, bounds=(0, None))
        return float(answer.fun)

    def explains(self, moved: Floats, drawn: hooks.Drawn) -> bool:
        """Whether the noise that was drawn moves releases by ``moved``."""
        foreseen = self.matrix @ np.concatenate(drawn.values)
        return bool(np.abs(moved - foreseen).max() <= _SAME * max(1.0, np.abs(foreseen).max()))

    def same(self, other: NoiseMap) -> bool:
        """Whether noise is the same in another world: if not, it distinguishes the worlds."""
        if (self.law, self.groups, self.matrix.shape) != (other.law, other.groups, other.matrix.shape):
            return False
        return bool(np.abs(self.matrix - other.matrix).max() <= _SAME * np.abs(self.matrix).max())

    def log_ratios(self, left: Floats, here: Floats, there: Floats) -> Floats:
        """For each row of releases, the log-likelihood ratio of the exact part ``here`` over ``there``.

        Exact if the release determines the noise, and always for Gaussian noise; otherwise a score.
        """
        if self.law == "gaussian":
            way = np.linalg.pinv(self.matrix @ self.matrix.T, rcond=1e-10) @ (here - there)
            return np.asarray((left - (here + there) / 2.0) @ way, dtype=np.float64)
        back = np.linalg.pinv(self.matrix, rcond=1e-10).T
        sizes = [self._sizes((left - exact_part) @ back) for exact_part in (here, there)]
        return np.asarray(sizes[1] - sizes[0], dtype=np.float64)

    def _sizes(self, noise: Floats) -> Floats:
        """Minus the logarithm of the density of noise in units of its scale, up to a constant."""
        if self.law == "laplace":
            return np.asarray(np.abs(noise).sum(axis=1), dtype=np.float64)
        lengths = [np.linalg.norm(noise[:, group], axis=1) for group in self.groups]
        return np.asarray(np.sum(lengths, axis=0), dtype=np.float64)


Observe = Callable[[hooks.Script | None], tuple[list[Floats], hooks.Drawn]]


def quiet(_: int, count: int) -> Floats:
    """No noise."""
    return np.zeros(count)


def bumped(draw: int, place: int) -> hooks.Script:
    """One scale of noise in one number of one draw, and none elsewhere."""

    def script(number: int, count: int) -> Floats:
        noise = np.zeros(count)
        if number == draw:
            noise[place] = 1.0
        return noise

    return script


def noise_map(observe: Observe) -> NoiseMap:
    """The map from noise to releases, measured draw by draw and number by number."""
    rest, drawn = observe(quiet)
    if not rest:
        raise ValueError("nothing noisy is released in this setting; audit more rounds, or shorter batches")
    noiseless = np.concatenate(rest)
    columns, groups, start = [], [], 0
    for draw, size in enumerate(drawn.sizes):
        columns += [np.concatenate(observe(bumped(draw, place))[0]) - noiseless for place in range(size)]
        groups.append(slice(start, start + size))
        start += size
    laws = set(drawn.laws)
    if len(laws) != 1:
        raise ValueError(f"one law of noise at a time is audited, found {sorted(laws) or 'none'}")
    return NoiseMap(np.array(columns).T, tuple(groups), laws.pop())


def coupled_loss(here: Observe, there: Observe) -> float:
    """The loss if later releases depend on earlier ones, by shifting one run's noise release by release.

    The noise of the neighbour's run is shifted until its outputs equal those of the other run, beginning with
    the first that differs. For Laplace noise, the shifts in units of its scale add up to the loss.
    """
    wanted, drawn = here(quiet)
    sizes = drawn.sizes
    shifts = [np.zeros(size) for size in sizes]

    def script(number: int, count: int) -> Floats:
        return shifts[number] if number < len(shifts) else np.zeros(count)

    for _ in range(len(wanted) + 1):
        seen = there(script)[0]
        at = next((t for t, (a, b) in enumerate(zip(wanted, seen, strict=True)) if differ(a, b)), None)
        if at is None:
            return math.fsum(float(np.abs(shift).sum()) for shift in shifts)
        columns, places = [], []
        for draw, size in enumerate(sizes):
            for place in range(size):
                shifts[draw][place] += 1.0
                moved = there(script)[0]
                shifts[draw][place] -= 1.0
                earlier = any(differ(a, b) for a, b in zip(seen[:at], moved[:at], strict=True))
                if not earlier and differ(seen[at], moved[at]):
                    columns.append(moved[at] - seen[at])
                    places.append((draw, place))
        if not columns:
            return math.inf
        solution, *_ = np.linalg.lstsq(np.array(columns).T, wanted[at] - seen[at], rcond=1e-10)
        for (draw, place), amount in zip(places, solution, strict=True):
            shifts[draw][place] += amount
    return math.inf


def differ(a: Floats, b: Floats) -> bool:
    """Whether two vectors differ by more than the tolerance; nan always differs."""
    return not np.abs(a - b).max(initial=0.0) <= _SAME * max(1.0, float(np.abs(a).max(initial=0.0)))


def gaussian_delta(mu: float, epsilon: float) -> float:
    """The exact delta of a mu-Gaussian mechanism at ``epsilon``, which may be negative (Balle and Wang 2018).

    >>> round(gaussian_delta(1.0, 0.0), 6)
    0.382925
    """
    from scipy.special import log_ndtr, ndtr

    if mu == 0.0:
        return max(0.0, -math.expm1(epsilon))
    if math.isinf(mu):
        return 1.0
    far = epsilon + float(log_ndtr(-mu / 2.0 - epsilon / mu))
    return max(0.0, float(ndtr(mu / 2.0 - epsilon / mu)) - math.exp(far))


def gaussian_epsilon(mu: float, delta: float) -> float:
    """The exact epsilon of a mu-Gaussian mechanism at ``delta``."""
    if math.isinf(mu):
        return math.inf
    return least_epsilon(lambda epsilon: gaussian_delta(mu, epsilon), delta)


# --- the worst neighbours -------------------------------------------------------------------------


@dataclass(frozen=True)
class Pair:
    """All people's numbers in two neighbouring worlds, row by row; the rows ``where`` are of one person."""

    others: NDArray[np.float64]
    mine: Floats
    yours: Floats
    where: tuple[int, ...] = (0,)

    @property
    def here(self) -> Floats:
        return self._with(self.mine)

    @property
    def there(self) -> Floats:
        return self._with(self.yours)

    def _with(self, row: Floats) -> Floats:
        whole = self.others.copy()
        whole[list(self.where)] = row
        return whole

    def twice(self, also: int) -> Pair:
        """The same with the person in one more row, which exceeds a declared limit of one."""
        return Pair(self.others, self.mine, self.yours, (*self.where, also))


@dataclass(frozen=True)
class Space:
    """Small inputs: ``rows`` people with ``columns`` numbers each, all among ``levels``.

    ``nobody`` is the number for a person who is absent (or from whom nothing is learned). With ``one_way``
    neighbours, one of the two worlds has nobody in the person's place.
    """

    rows: int
    columns: int
    levels: tuple[float, ...] = (0.0, 1.0)
    one_way: bool = False
    nobody: float = 0.0

    def example(self) -> Floats:
        """One input of this shape."""
        return np.full((self.rows, self.columns), self.levels[-1])

    def starts(self, rng: np.random.Generator) -> Iterator[Pair]:
        """Extreme pairs first, then random ones without end."""
        low, high = self.levels[0], self.levels[-1]
        shape = (self.rows, self.columns)
        one = np.full(self.columns, low)
        one[0] = high
        other = np.where(one == high, low, high)
        absent = np.full(self.columns, self.nobody)
        everything, nothing = np.full(self.columns, high), np.full(self.columns, low)
        for others in (np.full(shape, low), np.tile(other, (self.rows, 1)), np.full(shape, high)):
            yield Pair(others.copy(), one, absent if self.one_way else other)
            yield Pair(others.copy(), everything, absent if self.one_way else nothing)
        while True:
            yours = absent if self.one_way else rng.choice(self.levels, self.columns)
            yield Pair(rng.choice(self.levels, shape), rng.choice(self.levels, self.columns), yours)

    def steps(self, pair: Pair, rng: np.random.Generator) -> Iterator[Pair]:
        """All changes of one number, in random order."""
        changes: list[tuple[int, int]] = [
            (row, column)
            for row in range(-2, self.rows)
            for column in range(self.columns)
            if row not in pair.where and not (row == -1 and self.one_way)
        ]
        for index in rng.permutation(len(changes)):
            row, column = changes[index]
            for level in self.levels:
                others, mine, yours = pair.others.copy(), pair.mine.copy(), pair.yours.copy()
                target = {-2: mine, -1: yours}.get(row)
                entry = others[row] if target is None else target
                if entry[column] != level:
                    entry[column] = level
                    yield Pair(others, mine, yours, pair.where)


def worst_pair(
    space: Space,
    loss: Callable[[Pair], float],
    evaluations: int,
    seed: int = 0,
    extra: Sequence[Pair] = (),
) -> tuple[Pair, float]:
    """The neighbours with the largest loss found by local search with restarts, one number at a time."""
    rng = PublicRandomness.seeded(seed).generator
    starts = space.starts(rng)
    best: tuple[Pair, float] | None = None
    left = evaluations
    firsts = [*extra, *(next(starts) for _ in range(6))]
    scored = sorted(((loss(pair), place) for place, pair in enumerate(firsts)), reverse=True)
    left -= len(firsts)
    queue = [firsts[place] for _, place in scored]
    while True:
        pair = queue.pop(0) if queue else next(starts)
        value = loss(pair)
        left -= 1
        improved = True
        while improved and left > 0:
            improved = False
            for step in space.steps(pair, rng):
                left -= 1
                if (found := loss(step)) > value * (1.0 + 1e-12) + 1e-15:
                    pair, value, improved = step, found, True
                    break
                if left <= 0:
                    break
        if best is None or value > best[1]:
            best = pair, value
        if left <= 0:
            return best


def cached(compute: Callable[[Any], Any]) -> Callable[[Floats], Any]:
    """``compute`` of a stream, remembered by the stream's shape and bytes."""
    known: dict[tuple[tuple[int, ...], bytes], Any] = {}

    def answer(stream: Floats) -> Any:
        key = (stream.shape, stream.tobytes())
        if key not in known:
            known[key] = compute(stream)
        return known[key]

    return answer


# --- the real sampler -------------------------------------------------------------------------------


# The p-value below which a sampler is rejected: about the probability that a sound one is.
NEVER = 1e-6
_FEWEST = 5.0  # the least expected count of a cell for the chi-square law to hold


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
    """The smallest p-value (times the number of tests) that noise in units of its scale follows its law.

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


# --- outputs alone ----------------------------------------------------------------------------------


# The bound exceeds the true epsilon with at most this probability.
MISTAKE = 1e-6
# Thresholds that are tried: this many spread over the scores, and this many in their widest gaps.
_EVENLY, _WIDEST = 200, 10
# The deviation of hits from their expectation that planned runs allow for, in standard deviations.
_UNLUCKY = 3.0


def clopper_pearson(hits: ArrayLike, runs: int, mistake: float) -> tuple[Floats, Floats]:
    """Intervals for the probability behind ``hits`` of ``runs``; each end errs with probability ``mistake``.

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
    delta for every A, and with the worlds exchanged. A is "above t" or "at most t". The form of A, t, the
    direction and, if scores have several columns, the column are chosen on the first half of the runs; the
    second half, with exact binomial intervals, gives the bound. So it exceeds the true epsilon with
    probability at most ``mistake``, for any scores computed from the outputs and the first half.

    >>> rng = np.random.default_rng(0)
    >>> bound = epsilon_lower_bound(rng.laplace(1.0, 1.0, 20_000), rng.laplace(0.0, 1.0, 20_000))
    >>> 0.8 < bound < 1.0
    True
    """
    # Infinities become finite, so that there are thresholds between them and other scores.
    a, b = (np.nan_to_num(each, nan=-2e300, posinf=1e300, neginf=-1e300) for each in (here, there))
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
    here, there = (_half(world)[1] for world in columns[column])
    return max(0.0, float(_bounds(here, there, np.array([threshold]), above, back, delta, mistake)[0]))


def _thresholds(values: Floats) -> Floats:
    """Places between sorted values: evenly over them, and in the widest gaps, which may separate worlds."""
    gaps = np.diff(values)
    even = np.linspace(0, gaps.size - 1, min(gaps.size, _EVENLY)).astype(np.intp)
    places = np.union1d(even, np.argsort(gaps)[-_WIDEST:])
    return np.asarray(values[places] + gaps[places] / 2.0, dtype=np.float64)


def runs_to_prove(epsilon: float, delta: float = 0.0, mistake: float = MISTAKE) -> int:
    """The fewest runs per world that prove more than ``epsilon`` if outputs always distinguish the worlds.

    With m runs in the half that is tested, the interval of a probability 1 reaches down to
    c = (mistake/2)^(1/m), and that of 0 up to 1 - c, which proves log((c - delta) / (1 - c)).

    >>> [runs_to_prove(epsilon) for epsilon in (1.0, 2.0, 4.0)]
    [94, 230, 1600]
    """
    least = (math.exp(epsilon) + delta) / (1.0 + math.exp(epsilon))
    return 2 * (math.floor(math.log(mistake / 2.0) / math.log(least)) + 1)


def runs_needed(
    here: Floats, there: Floats, epsilon: float, delta: float, most: int, mistake: float = MISTAKE
) -> int | None:
    """Runs per world that prove more than ``epsilon`` between two known distributions, with a margin.

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
    """About the bound that ``runs`` per world give between two known distributions; negative if none."""
    best = -math.inf
    m = runs // 2  # in the half that is tested
    for p, q in ((here, there), (there, here)):
        with np.errstate(divide="ignore", invalid="ignore"):
            order = np.argsort(-np.nan_to_num(np.log(p) - np.log(q)), kind="stable")
        chances, others = (np.minimum(np.cumsum(each[order]), 1.0) for each in (p, q))
        luck = [unlucky * np.sqrt(m * each * (1.0 - each)) for each in (chances, others)]
        hits = np.maximum(np.floor(m * chances - luck[0]), 0.0)
        errors = np.minimum(np.ceil(m * others + luck[1]), m)
        best = max(best, float(_proved(hits, m, errors, m, delta, mistake).max()))
    return best


def _half(scores: Floats) -> tuple[Floats, Floats]:
    return scores[: len(scores) // 2], scores[len(scores) // 2 :]


def _bounds(
    here: Floats, there: Floats, thresholds: Floats, above: bool, back: bool, delta: float, mistake: float
) -> Floats:
    """For each threshold, the epsilon that the number of scores above it (or not above it) proves."""
    if back:
        here, there = there, here
    hits, errors = (np.searchsorted(np.sort(scores), thresholds, side="right") for scores in (here, there))
    if above:
        hits, errors = here.size - hits, there.size - errors
    return _proved(hits, here.size, errors, there.size, delta, mistake)


def _proved(
    hits: ArrayLike, runs: int, errors: ArrayLike, other_runs: int, delta: float, mistake: float
) -> Floats:
    """The epsilon that hits in one world and errors in the other prove; minus infinity for none."""
    low = clopper_pearson(hits, runs, mistake / 2.0)[0]
    high = clopper_pearson(errors, other_runs, mistake / 2.0)[1]
    proved = np.full(low.size, -math.inf)
    enough = low > delta
    proved[enough] = np.log((low[enough] - delta) / high[enough])
    return proved


def discriminant_scores(here: Floats, there: Floats) -> tuple[Floats, Floats]:
    """Scores of outputs that are vectors: Fisher's discriminant, fitted to the first half of each world."""
    first = _half(here)[0], _half(there)[0]
    means = [part.mean(axis=0) for part in first]
    spread = sum(np.atleast_2d(np.cov(part, rowvar=False)) for part in first)
    size = here.shape[1]
    apart = means[0] - means[1]
    # Outputs without noise have no spread; the direction between the means then serves as discriminant.
    ridge = 1e-6 * np.trace(spread) / size + 1e-12 * float(apart @ apart) + 1e-100
    way = np.linalg.solve(spread + ridge * np.eye(size), apart)
    return here @ way, there @ way
