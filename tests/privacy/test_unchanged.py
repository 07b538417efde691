"""Every number of the privacy core is what it was, for given budgets and seeds.

Other tests say why the numbers are right. This one notices when any of them changes, so that a change is one
that somebody wanted: `python -m tests.privacy.test_unchanged` writes the file anew, and the commit says why.
"""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import discreet as dc
from discreet import privacy as pv
from discreet.privacy import Entry, Releases, VectorBounds, composition, conversions, factorizations
from discreet.privacy.account import smallest_epsilon
from tests.online.test_unchanged import _plain, _same

STORED = Path(__file__).with_name("unchanged.json")
BUDGETS = {
    "pure": dc.Budget(1.0),
    "approximate": dc.Budget(1.0, 1e-6),
    "add_remove": dc.Budget(0.3, 1e-5, "add_remove"),
    "three rounds": dc.Budget(2.0, 1e-6, "replace", 3),
    "large": dc.Budget(12.0, 1e-9),
}
ROWS = np.random.default_rng(8).uniform(-0.4, 0.4, (12, 3))
EVENTS = {
    "choices": [(pv.ExponentialChoice(0.03, 2.0), 400)],
    "uneven choices": [(pv.ExponentialChoice(0.2, 1.0), 5), (pv.ExponentialChoice(0.01, 3.0), 300)],
    "choices and Gaussian": [(pv.ExponentialChoice(0.05, 2.0), 60), (pv.GaussianNoise(1.0, 25.0), 4)],
    "choices and pure": [(pv.ExponentialChoice(0.05, 2.0), 60), (pv.LaplaceNoise(1.0, 20.0), 3)],
    "Gaussian and pure": [(pv.GaussianNoise(2.0, 9.0), 3), (pv.PureRelease(0.1), 2)],
    "concentrated": [(pv.ConcentratedRelease(1e-3), 7), (pv.ApproximateRelease(0.1, 1e-8), 2)],
    "spherical": [(pv.SphericalLaplaceNoise(1.0, 7.0), 3)],
}


def _budgets():
    for name, budget in BUDGETS.items():
        shares = [budget.share(), budget.split(4)[0], budget.split([1, 2])[1]]
        events = [
            event.within(share, Fraction(3, 2), count)
            for share in shares
            for event in (pv.ExponentialChoice, pv.LaplaceNoise, pv.GaussianNoise)
            if event is not pv.GaussianNoise or budget.delta
            for count in (1, 50)
        ]
        yield (
            f"budget: {name}",
            {
                "mu": budget.mu,
                "rho": budget.rho,
                "events": [event.to_json() for event in events],
            },
        )


def _accounts():
    for name, releases in EVENTS.items():
        for budget in (dc.Budget(1.0, 1e-6), dc.Budget(1.0, 1e-6, "add_remove", 2)):
            ledger = Releases()
            for event, count in releases:
                ledger.add(Entry("x", event), count)
            account = pv.Account(budget, ledger, False)
            yield (
                f"account: {name}, {budget.max_rounds_per_person}",
                {
                    "epsilon": [account.epsilon(delta) for delta in (1e-9, 1e-6, 1e-3)],
                    "delta": [account.delta(epsilon) for epsilon in (0.1, 0.5, 2.0)],
                    "smallest": smallest_epsilon(account.loss, budget, 1e-5),
                    "account": account.to_json(),
                },
            )


def _conversions():
    for mu in (1e-3, 0.3, 4.0):
        yield (
            f"mu {mu}",
            [
                [conversions.gdp_delta(mu, epsilon) for epsilon in (0.01, 1.0, 9.0)],
                [conversions.gdp_epsilon(mu, delta) for delta in (1e-12, 1e-6, 1e-2)],
            ],
        )
    for epsilon in (1e-3, 0.5, 5.0):
        exact = Fraction(epsilon)
        yield (
            f"epsilon {epsilon}",
            [
                [conversions.gdp_mu(epsilon, delta) for delta in (1e-12, 1e-6, 1e-2)],
                [float(conversions.zcdp_rho(epsilon, delta)) for delta in (1e-12, 1e-6, 1e-2)],
                float(conversions.pure_rho(exact)),
            ],
        )


def _composed():
    for count, width in ((1, 0.3), (7, 0.5), (300, 0.06), (5000, 0.01)):
        steps = [(width, count)]
        for beside in ({}, {"mu": 0.2}, {"pure": [(0.1, 3)]}):
            yield (
                f"{count} choices of {width}, {beside}",
                [
                    [
                        composition.adaptive_choices_epsilon(one, steps, **beside)
                        for one in (1e-10, 1e-6, 1e-3)
                    ],
                    [composition.adaptive_choices_delta(one, steps, **beside) for one in (0.05, 0.4, 1.5)],
                ],
            )


def _factorized():
    for name, make in (("root", factorizations.square_root), ("buffers", factorizations.buffered)):
        for rounds in (1, 7, 100, 5000, 10**6):
            one = make(rounds)
            stops = sorted({1, max(1, rounds // 3), rounds})
            yield f"{name}, {rounds} rounds", [
                one.buffers, one.column_norm, one.worst_error, *(float(one.row_norm(t)) for t in stops),
            ]  # fmt: skip


def _released():
    for name, budget in BUDGETS.items():
        gate = dc.Gate(budget, 5)
        found = {"laplace": gate.laplace([3.0, -1.0], scale=90.0, sensitivity=1.0)}
        found["spherical"] = gate.spherical_laplace([3.0, -1.0], scale=90.0, sensitivity=1.0)
        found["choices"] = [gate.choose(np.arange(6.0), rate=0.01, sensitivity=1.0) for _ in range(8)]
        kinds = {"Laplace tree": {"noise": "laplace"}}
        if budget.delta:
            found["gaussian"] = gate.gaussian([3.0, -1.0], sigma=2000.0, sensitivity=1.0)
            kinds |= {"tree": {}, "combined tree": {"variance_reduction": True}}
        found["account"] = gate.spent.to_json()
        for kind, options in kinds.items():
            total = pv.TreeSum(3, 12, budget, norm_bound=1.0, seed=4, **options)
            found[kind] = [[total.add(row).tolist(), total.noise_std(t + 1)] for t, row in enumerate(ROWS)]
        for method in ("sqrt", "blt") if budget.delta else ():
            total = pv.FactorizedSum(3, 12, budget, method=method, box=(-0.4, 0.4), seed=4)
            found[method] = [[total.add(row).tolist(), total.noise_std(t + 1)] for t, row in enumerate(ROWS)]
        yield f"released: {name}", found


def _differences():
    for norm in (1, 2):
        for box in (None, (0.0, 2.0), (-1.0, 3.0)):
            for nonzeros in (None, 2):
                if box is None and nonzeros is not None:
                    continue
                inputs = VectorBounds(5, norm, None if box else 1.5, box, nonzeros)
                yield (
                    f"inputs {norm} {box} {nonzeros}",
                    [
                        *(float(inputs.difference(one)) for one in ("replace", "add_remove")),
                        *(inputs.changed(one) for one in ("replace", "add_remove")),
                        inputs.largest,
                    ],
                )


PARTS = (_budgets, _accounts, _conversions, _composed, _factorized, _released, _differences)


def _found(part):
    return {name: _plain(json.loads(json.dumps(one, default=_listed))) for name, one in part()}


def _listed(value):
    return (
        value.tolist()
        if isinstance(value, np.ndarray | np.generic)
        else float(value)
        if isinstance(value, Fraction)
        else str(value)
    )


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.__name__.strip("_"))
def test_numbers_are_unchanged(part):
    stored = json.loads(STORED.read_text())[part.__name__]
    found = _found(part)
    assert found.keys() == stored.keys()
    for name, one in found.items():
        _same(one, stored[name], name, 1e-18)


if __name__ == "__main__":
    STORED.write_text(json.dumps({part.__name__: _found(part) for part in PARTS}, indent=0) + "\n")
    print(f"wrote {STORED}")
