"""A program that a user might write, with the types it counts on; tools/typed.py has it checked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_type

import numpy as np
from numpy.typing import NDArray

import discreet as dc
from discreet.client import Acknowledgement, Client, Decision
from discreet.offline import PrivateGreedy
from discreet.online import HedgeSelector
from discreet.privacy import Account, ScoreChange


def shelf(likes: NDArray[np.bool_], k: int, budget: dc.Budget) -> tuple[int, ...]:
    """Items for everybody in a table."""
    people = dc.objectives.Coverage(likes)
    assert_type(len(people), int)
    selection = PrivateGreedy(k, budget, seed=0).select(people)
    assert_type(selection.privacy, Account | None)
    return tuple(int(item) for item in selection.items)


def stream(likes: NDArray[np.bool_], k: int, budget: dc.Budget) -> float:
    """A set for each of a stream of people."""
    people = dc.objectives.Coverage(likes)
    learner = HedgeSelector(people.n_items, k, len(people), budget, seed=0)
    trace = learner.run(people)
    assert_type(trace, dc.Trace)
    assert_type(trace.average, float)
    assert_type(learner.privacy.budget, dc.Budget)
    return trace.average


def first(scores: Sequence[float], budget: dc.Budget) -> int:
    """A private choice of one's own."""
    gate = dc.Gate(budget, 0)
    return gate.choose(scores, rate=0.1, sensitivity=ScoreChange(1.0))


def visit(client: Client, person: str) -> Acknowledgement:
    """A decision of the service, and what came of it."""
    decision = client.decide("shop", person)
    assert_type(decision, Decision)
    assert_type(decision.items, tuple[str, ...])
    return client.report(decision, taken=None)


if __name__ == "__main__":
    likes = np.random.default_rng(0).random((200, 10)) < 0.2
    budget = dc.Budget(epsilon=1.0, delta=1e-6)
    print(shelf(likes, 3, budget), stream(likes, 3, budget), first([3.0, 2.0], budget))
