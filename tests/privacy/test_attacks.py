"""Attacks on the account's curves and on the optimistic minimizer that did not come through."""

from __future__ import annotations

import itertools
from functools import cache

import mpmath
import pytest

import discreet as dc
from discreet.objectives import GraphCut
from discreet.privacy import ApproximateRelease, ExponentialChoice, GaussianNoise, LaplaceNoise
from discreet.privacy.account import Account, Entry, Releases

KINDS = [([[0, 2], [0, 0]], [0, 0]), ([[0, 0], [2, 0]], [-1, 0]), ([[0, 0]] * 2, [-2, 0])]


@cache
def responses_delta(sizes, mu, rounds, epsilon):
    """Delta of randomized responses of these epsilons beside Gaussian noise: every outcome, in 50 digits."""
    with mpmath.workdps(50):
        *sizes, mu, epsilon = (mpmath.mpf(repr(number)) for number in (*sizes, mu, epsilon))
        sizes, mu, total = [e * rounds for e in sizes], mu * rounds, mpmath.mpf(0)
        for signs in itertools.product((1, -1), repeat=len(sizes)):
            chance = mpmath.fprod(1 / (1 + mpmath.exp(-s * e)) for s, e in zip(signs, sizes, strict=True))
            gap = epsilon - sum(s * e for s, e in zip(signs, sizes, strict=True))
            phi = [mpmath.ncdf(s * mu / 2 - gap / mu) for s in (1, -1)] if mu else [gap < 0] * 2
            total += chance * (phi[0] - mpmath.exp(gap) * phi[1])
        return total


@pytest.mark.parametrize("rounds", [1, 3])
@pytest.mark.parametrize("mu", [0.0, 1e-4, 0.5, 12.0])
@pytest.mark.parametrize("sizes", [(1.0,), (0.5, 0.5, 0.01), (20.0,), (30.0, 30.0), (1e-5,) * 6])
def test_no_curve_is_below_the_outcomes_of_randomized_response(sizes, mu, rounds):
    """Laplace noise may be as bad as a response of its epsilon, a choice as one of half its range."""
    points = sum(sizes) * rounds / 2, sum(sizes) * rounds + mu
    for choices, definition in itertools.product((False, True), (None, "pure", "zcdp", "gdp")):
        ledger, kind, scale = Releases(), *((ExponentialChoice, 2.0) if choices else (LaplaceNoise, 1.0))
        for e in sizes:
            ledger.add(Entry("x", kind(e, scale)), 1)
        ledger.part("a: 1").add(Entry("noise", GaussianNoise(mu, 1.0)), 1)
        account = Account(dc.Budget(1.0, 1e-6, max_rounds_per_person=rounds), ledger, definition=definition)
        for epsilon, tight in itertools.product((0.0, 1e-12, *points, 700.0), (False, True)):
            truth = responses_delta(sizes, mu, rounds, epsilon)
            assert account.delta(epsilon, tight=tight) >= truth * (1 - 1e-12) - 1e-45


@pytest.mark.parametrize(
    ("event", "left"),
    [(ApproximateRelease(1.0, 0.01), 0.01), (LaplaceNoise(1.0, 0.0), 1.0), (GaussianNoise(1.0, 1.0), 0.0)],
)
def test_at_an_infinite_epsilon_the_chance_of_an_unbounded_loss_is_left(event, left):
    ledger = Releases()
    ledger.add(Entry("x", event), 1)
    assert Account(dc.Budget(float("inf")), ledger).delta(float("inf")) == left


@pytest.mark.parametrize(("sums", "noise"), [("sqrt", "gaussian"), ("tree", "laplace")])
def test_optimism_changes_no_release_and_no_set_before_one(sums, noise, tmp_path):
    """With the noise held fixed, somebody's own set and all before it are the same whoever they are."""
    asked = 2, 3, dc.Budget(50.0, 1e-6 if noise == "gaussian" else 0.0), 2.0
    how, seen = {"sums": sums, "noise": noise, "seed": 5}, {}
    people = [GraphCut(g, modular=m, directed=True, bound=2.0) for g, m in KINDS]
    for stream in itertools.product(range(3), repeat=3):
        learner = dc.online.SubmodularMinimizer(*asked, regularization="optimistic", **how)
        assert learner.privacy.loss == dc.online.SubmodularMinimizer(*asked, **how).privacy.loss
        for t, who in enumerate(stream):
            shown = (learner.choose().items, *learner.point)
            learner.save(file := tmp_path / f"{stream}{t}")
            learner = dc.load(file)
            learner.learn(people[who])
            assert seen.setdefault(stream[:t], shown) == shown == (shown[0], *learner.point)
