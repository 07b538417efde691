"""Streams that theorems are checked on: random ones, and ones made to be hard for learners."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from discreet.evaluation import streams
from discreet.objectives import Coverage, GraphCut
from discreet.objectives.continuous import BudgetAllocation
from discreet.objectives.losses import Distance, Linear, Logistic

ITEMS = 8
COSTED = 4  # items of the costs to minimize
Stream = Callable[[int, np.random.Generator], Any]


# --- streams of sets --------------------------------------------------------------------------------


def turning(rounds: int, rng: np.random.Generator, items: int = ITEMS) -> Coverage:
    """One item is liked by all for the first third, another ever after: what was learned is wrong."""
    first, second = rng.permutation(items)[:2]
    return Coverage(np.eye(items)[np.where(np.arange(rounds) < rounds // 3, first, second)])


def shuffled(stream: Stream) -> Stream:
    """The same people in random order: what can be said about exchangeable streams holds for them."""

    def people(rounds: int, rng: np.random.Generator) -> Any:
        return stream(rounds, rng)[rng.permutation(rounds)]

    return people


SET_STREAMS: dict[str, Stream] = {
    "random: product display": lambda t, rng: streams.product_display(t, ITEMS, rng),
    "random: near tie": lambda t, rng: streams.near_tie(t, ITEMS, rng, best=1),
    "adversarial: turning": turning,
    "adversarial: alternating": lambda t, rng: streams.alternating(t, ITEMS, rng),
}
FEW_SET_STREAMS = {name: SET_STREAMS[name] for name in ("random: product display", "adversarial: turning")}
# Where everybody likes one item, functions are sums over items: the curvature is 0 and the guarantee 1.
MODULAR_STREAMS = {name: SET_STREAMS[name] for name in ("random: near tie", "adversarial: turning")}
EXCHANGEABLE: dict[str, Stream] = {
    "random: product display": SET_STREAMS["random: product display"],
    "random: near tie": SET_STREAMS["random: near tie"],
    "adversarial, shuffled: turning": shuffled(turning),
}
# The published bandit forms explore in every round until T is some hundred times n^2: two items, then.
PAIR_STREAMS: dict[str, Stream] = {
    "random: near tie of two": lambda t, rng: streams.near_tie(t, 2, rng, best=1),
    "adversarial: turning": lambda t, rng: turning(t, rng, 2),
    "adversarial: alternating": lambda t, rng: streams.alternating(t, 2, rng),
}


# --- streams of costs -------------------------------------------------------------------------------


def prices_only(prices: np.ndarray) -> GraphCut:
    rounds, items = prices.shape
    return GraphCut([np.zeros((items, items))] * rounds, modular=prices, directed=True)


def turning_costs(rounds: int, rng: np.random.Generator) -> GraphCut:
    """Items that pay off for the first third and cost ever after, and others the other way round."""
    side = rng.permutation(np.array([1.0, -1.0, 1.0, -1.0])) / COSTED
    return prices_only(np.where(np.arange(rounds) < rounds // 3, 1.0, -1.0)[:, None] * side)


def alternating_costs(rounds: int, rng: np.random.Generator) -> GraphCut:
    """What pays off in one round costs as much in the next, and a little more is lost than won."""
    side = rng.permutation(np.array([1.0, -1.0, 1.0, -1.0])) / COSTED
    return prices_only(np.where(np.arange(rounds) % 2 == 0, 1.0, -0.8)[:, None] * side)


COST_STREAMS: dict[str, Stream] = {
    "random: cuts and prices": lambda t, rng: streams.cuts_and_prices(t, COSTED, rng, priced=3),
    "adversarial: turning": turning_costs,
    "adversarial: alternating": alternating_costs,
}
FEW_COST_STREAMS = {n: COST_STREAMS[n] for n in ("random: cuts and prices", "adversarial: turning")}
ADAPTIVE: dict[str, Stream] = {"adaptive adversary": lambda t, _: t}


# --- streams of points ------------------------------------------------------------------------------


def _directions(rounds: int, rng: np.random.Generator) -> np.ndarray:
    rows = rng.normal(size=(rounds, 3)) + 0.3
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def _sides(rounds: int) -> np.ndarray:
    return np.where(np.arange(rounds) < rounds // 3, 1.0, -1.0)[:, None]


def _turns(rounds: int) -> np.ndarray:
    return np.where(np.arange(rounds) % 2 == 0, 1.0, -0.8)[:, None]


POINT_STREAMS: dict[str, Stream] = {
    "random: distances": lambda t, rng: Distance(_directions(t, rng), row_norm=1.001),
    "adversarial: turning": lambda t, rng: Distance(_sides(t) * _directions(1, rng), row_norm=1.001),
    "adversarial: alternating": lambda t, rng: Distance(_turns(t) * _directions(1, rng), row_norm=1.001),
}
LIPSCHITZ_STREAMS: dict[str, Stream] = {
    "random: logistic": lambda t, rng: Logistic(
        _directions(t, rng), np.where(rng.random(t) < 0.5, 1, -1), row_norm=1.001
    ),
    "adversarial: turning": lambda t, rng: Linear(_sides(t) * _directions(1, rng), row_norm=1.001),
    "adversarial: alternating": lambda t, rng: Linear(_turns(t) * _directions(1, rng), row_norm=1.001),
}
LINEAR_STREAMS: dict[str, Stream] = {
    "random: directions": lambda t, rng: Linear(_directions(t, rng), row_norm=1.001),
    "adversarial: turning": LIPSCHITZ_STREAMS["adversarial: turning"],
}
EXPERT_STREAMS: dict[str, Stream] = {
    "random: coins": lambda t, rng: Linear((rng.random((t, 5)) < 0.5).astype(float), box=(0.0, 1.0)),
    "adversarial: turning": lambda t, rng: Linear(
        np.where(_sides(t) > 0.0, np.eye(5)[rng.integers(5)], 1.0 - np.eye(5)[0]), box=(0.0, 1.0)
    ),
    "adversarial: alternating": lambda t, rng: Linear(
        np.where(_turns(t) > 0.0, np.eye(5)[rng.integers(5)], 0.8 * (1.0 - np.eye(5)[0])), box=(0.0, 1.0)
    ),
}
ALLOCATIONS: dict[str, Stream] = {
    "random: allocation": lambda t, rng: BudgetAllocation(rng.uniform(0.0, 0.3, (t, 3))),
    "adversarial: one channel each": lambda t, _: BudgetAllocation(0.35 * np.eye(3)[np.arange(t) * 3 // t]),
    "adversarial: channels in turn": lambda t, _: BudgetAllocation(0.35 * np.eye(3)[np.arange(t) % 3]),
}
