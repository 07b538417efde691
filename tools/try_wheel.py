"""A first use of an installed wheel: a plan, its learner over a stream, a private set."""

from __future__ import annotations

import numpy as np

import discreet as dc


def main() -> None:
    rng = np.random.default_rng(0)
    people = dc.objectives.Coverage(rng.random((3_000, 40)) < np.linspace(0.02, 0.3, 40))
    budget = dc.Budget(epsilon=1.0, delta=1e-6)
    plan = dc.plan(n_items=40, k=5, rounds=len(people), budget=budget)
    average = plan.learner(seed=0).run(people).average
    best = dc.offline.PrivateGreedy(dc.constraints.Cardinality(5), budget, seed=0).select(people)
    value = people.value(best.items)
    assert value > 0.6, best
    print(f"{dc.__version__}: {plan.best.name} served {average:.3f}, a private set {value:.3f}")


if __name__ == "__main__":
    main()
