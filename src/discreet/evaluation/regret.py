"""Regret: the value of the best fixed set, chosen in hindsight, minus the value of what was served.

Everything here reads people's values without privacy and spends no budget: use it on data that you may look
at (a simulation, a public benchmark), and publish nothing of it otherwise.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..constraints import Cardinality, Constraint
from ..core import checks
from ..objectives.base import value_to_each

if TYPE_CHECKING:
    from ..objectives import Population
    from ..results import Trace

ALPHA = 1.0 - 1.0 / math.e
# With up to this many sets of k items, the search may open all; with more it may stop early.
_FEW_SETS = 50_000
_MOST_OPENED = 5_000
# The limit on opened sets times people: some seconds of work.
_MOST_ANSWERS = 200_000_000
METHODS = ("normal", "percentile")
_Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Regret:
    """Regret of one stream against one fixed set: a true fact about people that no account covers.

    ``comparator`` is the set, ``best`` its average value over the stream. If ``exact``, no set of that size
    (no feasible set, if a constraint was given) has a higher value; otherwise it is the best that was found
    (greedy in hindsight or better), and ``best_upper`` is a bound on all sets. ``total`` is
    ``alpha * best * rounds - rewards``, ``upper`` the same with ``best_upper``, and ``curve`` the running
    total, round by round, against the same comparator.

    With ``alpha`` below 1, a good learner's regret is negative: it collects more than that part of the best
    set's value. A learner that follows a drift can also beat every fixed set. ``curve`` is negative there,
    and ``positive`` is 0, for log-log plots.
    """

    comparator: tuple[int, ...]
    exact: bool
    best: float
    best_upper: float
    total: float
    upper: float
    curve: NDArray[np.float64]
    alpha: float = ALPHA

    @property
    def positive(self) -> NDArray[np.float64]:
        """``curve``, clipped at 0."""
        return np.maximum(self.curve, 0.0)

    def __len__(self) -> int:
        return int(self.curve.size)

    def __repr__(self) -> str:
        known = "the best set" if self.exact else f"the best set found (none exceeds {self.best_upper:.4f})"
        return (
            f"Regret({self.total:,.1f} over {len(self):,} rounds at alpha {self.alpha:.4g}; {known} averages"
            f" {self.best:.4f}; not private, in no account)"
        )


def regret(
    trace: Trace, people: Population, *, alpha: float | None = None, constraint: Constraint | None = None
) -> Regret:
    """Regret of ``trace`` against the best fixed set of the size that was served.

    ``people`` are those of the stream, in its order. ``alpha`` is the part of the best set's value that
    counts, by default 1 - 1/e. With ``constraint`` (a matroid or a knapsack), the comparison is with the best
    feasible set instead, which a learner under that constraint could have served. See `best_fixed_set`.

    >>> from discreet.objectives import Coverage
    >>> from discreet.results import Trace
    >>> people = Coverage([[1, 0], [1, 0], [0, 1]])
    >>> served = Trace(np.array([0.0, 1.0, 0.0]), np.array([[1], [0], [0]]))
    >>> found = regret(served, people, alpha=1.0)
    >>> found.comparator, found.exact, found.total, found.curve
    ((0,), True, 1.0, array([1., 1., 1.]))
    """
    part = ALPHA if alpha is None else checks.real("alpha", alpha, above=0.0, at_most=1.0)
    if len(people) != len(trace):
        raise ValueError("people and the trace are of different lengths; give those of the stream")
    if not np.issubdtype(trace.selections.dtype, np.integer):
        raise TypeError("the trace holds points, not sets; compare its rewards with those of a fixed point")
    if trace.selections.ndim != 2 or (trace.selections.size and trace.selections.max() >= people.n_items):
        raise ValueError("the trace serves items that these people do not know; give those of the stream")
    within = int(trace.selections.shape[1]) if constraint is None else constraint
    return regret_against(trace, people, best_fixed_set(people, within), part)


def regret_against(
    trace: Trace, people: Population, found: tuple[tuple[int, ...], bool, float], alpha: float
) -> Regret:
    """Regret against the set that `best_fixed_set` has ``found``."""
    comparator, exact, upper = found
    best = people.value(comparator)
    upper = max(best, upper)
    curve = np.cumsum(alpha * value_to_each(people, comparator) - trace.rewards)
    total, most = (alpha * value * len(trace) - trace.total for value in (best, upper))
    return Regret(comparator, exact, best, upper, total, most, curve, alpha)


def best_fixed_set(people: Population, k: int | Constraint) -> tuple[tuple[int, ...], bool, float]:
    """The k items with the highest average value: (items, whether that is certain, a bound on all sets).

    Given a matroid or a knapsack for ``k``: the best feasible set.

    This is branch and bound: the value of a set S with r more items is at most f(S) plus the r largest
    marginal gains at S, because the functions are submodular. The set with the largest bound is opened first,
    starting with greedy's solution, and the search ends when no bound exceeds the best value. If it stops
    early, the largest remaining bound bounds the best value. That is never above greedy's own bound, the
    least over its prefixes P of f(P) plus the k largest gains at P, which is at most greedy / (1 - 1/e).
    Under a constraint the completions are those of its polytope.

    >>> from discreet.objectives import Coverage
    >>> best_fixed_set(Coverage([[1, 1, 0], [1, 1, 0], [1, 0, 1], [1, 0, 1], [0, 1, 0], [0, 0, 1]]), 2)
    ((1, 2), True, 1.0)
    """
    if not hasattr(people, "monotone"):
        raise TypeError(f"people must be a population such as Coverage(matrix), got {checks.shown(people)}")
    if not people.monotone:
        raise ValueError("the best fixed set is searched for functions that never fall (monotone)")
    if not isinstance(k, Constraint):
        k = Cardinality(checks.whole("k", k, at_least=1, at_most=people.n_items))
    search = _Search(people, k.over(people.n_items))
    search.run()
    if search.exact:
        return search.chosen, True, people.value(search.chosen)
    return search.chosen, False, max(search.ceiling, search.best)


class _Search:
    """Best-first search that branches on whether the item with the largest gain is in the set."""

    def __init__(self, people: Population, constraint: Constraint) -> None:
        self._people, self._constraint = people, constraint
        self._waiting: list[_Part] = []
        self._number = 0
        state = people.start()
        self.chosen: tuple[int, ...] = ()
        self.best = 0.0
        least = math.inf  # the smallest bound at greedy's prefixes
        while True:
            value, gains = people.value(state.items), state.gains()
            least = min(least, value + self._completion((), gains))
            if not (free := constraint.addable(state.items)).any():
                break
            state.add(int(np.argmax(np.where(free, gains, -1.0))))
        self._prefix_ceiling = least
        self.chosen, self.best = tuple(state.items), value
        self._slack = 1e-12 * value  # tolerance for rounding errors in sums of gains

    @property
    def exact(self) -> bool:
        """Whether no better set can remain."""
        return not self._waiting or -self._waiting[0].order <= self.best + self._slack

    @property
    def ceiling(self) -> float:
        """The bound on all sets so far."""
        return min(-self._waiting[0].order, self._prefix_ceiling)

    def run(self) -> None:
        """Open sets until the best is known, or the limit is reached."""
        people, constraint = self._people, self._constraint
        self._wait((), people.value([]), people.gains([]), constraint.addable([]))
        opened, allowed = 1, _allowed(people, constraint.rank)
        while not self.exact and opened < allowed:
            part = heapq.heappop(self._waiting)
            item = int(np.argmax(np.where(part.left, part.gains, -1.0)))
            rest = part.left.copy()
            rest[item] = False
            self._wait(part.prefix, part.value, part.gains, rest)
            grown, value = (*part.prefix, item), part.value + float(part.gains[item])
            if value > self.best + self._slack:
                self.chosen, self.best = grown, value
            free = rest & constraint.addable(grown)
            if free.any():
                opened += 1
                self._wait(grown, value, people.gains(grown), free)

    def _wait(self, prefix: tuple[int, ...], value: float, gains: _Floats, left: NDArray[np.bool_]) -> None:
        self._number += 1
        ceiling = value + self._completion(prefix, np.where(left, gains, 0.0))
        if ceiling > self.best + self._slack:
            heapq.heappush(self._waiting, _Part(-ceiling, self._number, prefix, value, gains, left))

    def _completion(self, prefix: tuple[int, ...], gains: _Floats) -> float:
        """A bound on further gains of feasible sets that contain ``prefix``, by the constraint's polytope.

        With large weights on the prefix, the best vertex has at most as much of it as such a set, which has
        all of it, and so gains at least as much from other items.
        """
        if isinstance(self._constraint, Cardinality):
            missing = self._constraint.k - len(prefix)
            return float(np.partition(gains, -missing)[-missing:].sum()) if missing else 0.0
        lifted = gains.copy()
        lifted[list(prefix)] = 1e9 * (1.0 + gains.sum())
        return float(gains @ self._constraint.maximize(lifted))


def _allowed(people: Population, slots: int) -> int:
    """The number of sets that may be opened."""
    wanted = _FEW_SETS if math.comb(people.n_items, slots) <= _FEW_SETS else _MOST_OPENED
    return min(wanted, max(slots + 1, _MOST_ANSWERS // len(people)))


@dataclass(order=True, frozen=True)
class _Part:
    """All feasible sets that contain ``prefix`` and otherwise only items of ``left``."""

    order: float  # minus the bound: the heap gives the smallest first
    number: int
    prefix: tuple[int, ...]
    value: float
    gains: _Floats
    left: NDArray[np.bool_]


@dataclass(frozen=True)
class Bands:
    """Regret over repeats, round by round: the ``mean``, and a band from ``low`` to ``high`` at ``level``."""

    mean: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    level: float
    repeats: int


def mean_band(curves: _Floats, level: float) -> tuple[_Floats, _Floats, _Floats]:
    """The mean over repeats, and its confidence interval by Student's t, point by point."""
    from scipy import stats

    repeats = curves.shape[0]
    reach = stats.t.ppf(0.5 + level / 2.0, repeats - 1) / math.sqrt(repeats)
    mean, spread = curves.mean(axis=0), reach * curves.std(axis=0, ddof=1)
    return mean, mean - spread, mean + spread


def regret_bands(
    regrets: Sequence[Regret], *, level: float = 0.95, method: str = "normal", clip: bool = False
) -> Bands:
    """Mean regret curve over repeated runs, with a band at every round.

    ``method="normal"``: a confidence interval of the mean, by Student's t with one degree of freedom less
    than there are repeats. ``"percentile"``: the middle part ``level`` of the repeats, which shows the spread
    of single runs. Each band is pointwise: it holds for one round at a time.

    ``clip=True`` sets negative regret (see `Regret`) of every run to 0 before averaging, so that all three
    curves can be drawn on a logarithmic axis. The mean of clipped runs is never below the clipped mean: a
    plot of it understates a good learner.
    """
    checks.real("level", level, above=0.0, below=1.0)
    checks.one_of("method", method, METHODS)
    if len(regrets) < 2:
        raise ValueError(f"{len(regrets)} repeats make no band; give at least 2")
    if not all(isinstance(one, Regret) for one in regrets):
        raise TypeError("regrets must be a list of Regret, as trace.regret(people) gives them")
    if len({len(one) for one in regrets}) > 1 or len({one.alpha for one in regrets}) > 1:
        raise ValueError("the repeats differ in length or alpha; bands need runs of the same kind")
    curves = np.array([one.positive if clip else one.curve for one in regrets])
    mean, low, high = mean_band(curves, level)
    if method == "percentile":
        low, high = np.quantile(curves, [0.5 - level / 2.0, 0.5 + level / 2.0], axis=0)
    return Bands(mean, np.maximum(low, 0.0) if clip else low, high, level, len(regrets))
