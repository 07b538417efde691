"""What Meta-Frank-Wolfe is certified to lose, by settings: the planner's view, nothing is released."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ...bounds import frank_wolfe as bounds
from ...bounds.selection import ALPHA
from ...privacy import Budget, VectorBounds, tree_levels
from .experts import Leader, node_noise, sum_spec

MOST_STEPS = 4096
FEW_STEPS = 4


@dataclass(frozen=True)
class Certificate:
    """What is certified for given numbers of steps, batches and rates; nothing is made or released."""

    leader: Leader
    one: VectorBounds
    rounds: int
    budget: Budget
    sums: str
    noise: str
    bound: float
    smoothness: float | None
    curvature: bool
    scale: float | None = None

    @property
    def _points(self) -> bool:
        """Whether people are functions of points, whose gradients have a length of their own."""
        return self.one.norm_bound is not None

    @property
    def _length(self) -> float:
        """The longest gradient, in L2."""
        if self.one.norm_bound is not None:
            return self.one.norm_bound
        touched = self.leader.n_items if self.one.nonzeros is None else self.one.nonzeros
        return self.bound * math.sqrt(touched)

    @property
    def trivial(self) -> float:
        """What doing nothing at all can lose."""
        return (1.0 if self.curvature else ALPHA) * self.bound * self.rounds

    def best_rate(self, steps: int, batch: int) -> float:
        leader = self.leader
        if leader.regularizer == "entropy":
            paid = bounds.payoff(steps, leader.rank, self.bound)
            return bounds.best_entropic_rate(leader.spread, paid, self.rounds, batch, self.bound)
        return bounds.best_euclidean_rate(leader.reach, self._length, self.rounds, batch)

    def experts(self, steps: int, batch: int, rate: float) -> float:
        """The average regret of the experts without noise."""
        leader = self.leader
        if leader.regularizer == "entropy":
            paid = bounds.payoff(steps, leader.rank, self.bound)
            return bounds.entropic(leader.spread, paid, self.rounds, rate, batch, self.bound)
        return bounds.euclidean(leader.reach, self._length, self.rounds, rate, batch)

    def between(self, steps: int) -> float:
        """What the finite number of steps loses."""
        if self._points:
            if self.smoothness is None:
                return math.inf
            return bounds.smooth_discretization(steps, self.leader.radius, self.smoothness, self.rounds)
        if self.curvature:
            return self.bound * self.leader.rank**2 * self.rounds / (2.0 * steps)
        return bounds.discretization(steps, self.leader.rank, self.rounds, self.bound)

    def error(self, batch: int) -> float:
        """How many times the noise of one release a sum's noise is, with Gaussian noise."""
        return sum_spec(self.one, 1, releases(self.rounds, batch), self.sums, "gaussian", 1).worst_error

    def pull(self, steps: int, batch: int, error: float | None = None) -> float:
        """What the noise of an expert's last sum can cost it."""
        count = releases(self.rounds, batch)
        if not self.budget.private or count == 0:
            return 0.0
        leader, n = self.leader, self.leader.n_items
        if self.noise != "gaussian":
            levels, nodes = tree_levels(count), most_nodes(count)
            event = node_noise(self.one, self.budget.share(), levels * steps, self.noise, self.scale)
            scale = float(event.scale)
            if self.noise == "laplace":
                return bounds.laplace_set_pull(n, leader.rank, scale, nodes)
            deviation = scale * math.sqrt((n + 1.0) * nodes)
            along = leader.radius * math.sqrt(n) * deviation
            return min(along, bounds.box_pull(leader.widths, deviation, gaussian=False))
        if self.budget.mu == 0.0:
            return math.inf
        moves = self.one.difference(self.budget.neighbours) * math.sqrt(steps)
        deviation = moves * (self.error(batch) if error is None else error) / self.budget.mu
        pulls = [
            leader.radius * math.sqrt(n) * deviation,
            bounds.box_pull(leader.widths, deviation, gaussian=True),
        ]
        if not leader.is_box:
            pulls.append(bounds.set_pull(n, leader.rank, deviation))
        return min(pulls)

    def least(self, steps: int, batch: int, error: float | None = None) -> float:
        """What is certified at the best rate, also where that is more than doing nothing loses."""
        experts = self.experts(steps, batch, self.best_rate(steps, batch))
        return self.between(steps) + experts + self.pull(steps, batch, error)

    def regret(self, steps: int, batch: int, rate: float) -> float:
        total = self.between(steps) + self.experts(steps, batch, rate) + self.pull(steps, batch)
        return min(self.trivial, total)

    def tempered(self, steps: int, curvature: float) -> float:
        """The same for the approximate leader of paper 004 with its published curvature."""
        assert self.scale is not None
        n, nodes = self.leader.n_items, most_nodes(max(1, releases(self.rounds, 1)))
        error = self.scale * math.sqrt(n * (n + 1.0) * nodes)
        regret = bounds.approximate_leader(self.leader.radius, self._length, self.rounds, curvature, error)
        return min(self.trivial, self.between(steps) + regret)

    def best(self, steps: list[int] | None, batches: list[int] | None) -> tuple[int, int]:
        """The numbers of steps and of rounds per batch with the smallest certified regret.

        Where no number of steps certifies more than doing nothing does, few of them, which real streams like.
        """
        free = steps is None
        if steps is not None and batches is not None:
            return steps[0], batches[0]
        halves = [max(1, round(2.0 ** (i / 2))) for i in range(2 * self.rounds.bit_length())]
        batches = batches or sorted({batch for batch in halves if batch <= self.rounds})
        steps = steps or sorted({number for number in halves if number <= min(MOST_STEPS, self.rounds)})
        found: list[tuple[float, int, int]] = []
        for batch in batches:
            count = releases(self.rounds, batch)
            gaussian = self.budget.private and self.noise == "gaussian" and count > 0
            error = self.error(batch) if gaussian else None
            found += [(self.least(number, batch, error), number, batch) for number in steps]
        total, number, batch = min(found)
        if free and total >= self.trivial:
            number = min(FEW_STEPS, self.rounds)
        return number, batch


def releases(rounds: int, batch: int) -> int:
    """Sums that a decision can look at: one per batch but the last."""
    return -(-rounds // batch) - 1


def most_nodes(count: int) -> int:
    """Blocks that a tree's sum can be made of: one per level, or the two halves of a full tree."""
    return max(2 if count == 2 else 1, tree_levels(count))
