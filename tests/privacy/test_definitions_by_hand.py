"""What a share is worth in each definition, and sums of losses with long denominators."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from discreet.privacy import Budget, Gate, LaplaceNoise, SumSpec, TreeSum, VectorBounds
from discreet.privacy.composition import _log_peak
from discreet.privacy.events import _BITS, Loss
from discreet.privacy.picks import subsampled


def test_a_share_in_each_definition():
    """Half of a budget. A pure epsilon e is a rho of e^2 / 2, and a square of mu of at most pi / 2 e^2."""
    budget = Budget(1.0, 1e-6)
    rho, square = 0.024358, 0.2367**2  # of the whole, as the documentation of both conversions says
    expected = {
        "pure": (0.5, 0.0, 0.0),
        "zcdp": (math.sqrt(rho), rho / 2, rho),
        "gdp": (math.sqrt(square / math.pi), square / 2 / math.pi, square / 2),
    }
    for definition, (epsilon, rho_left, mu_squared) in expected.items():
        share = budget.split(2, definition=definition)[0]
        assert float(share.epsilon) == pytest.approx(epsilon, rel=1e-3)
        assert float(share.rho) == pytest.approx(rho_left, rel=1e-3)
        assert float(share.mu_squared) == pytest.approx(mu_squared, rel=1e-3)
    # Each never above what its definition is worth: then nothing that fits the share is beyond the budget.
    gdp = budget.split(2, definition="gdp")[0]
    assert gdp.epsilon**2 * Fraction(math.pi) / 2 <= gdp.mu_squared >= gdp.rho * Fraction(math.pi)


def test_long_sums_are_rounded_up_and_hardly():
    parts = [Fraction(1, 3**400), Fraction(2, 7**400), Fraction(5, 11**30)]
    total = sum((Loss.of_pure(part) for part in parts), Loss.of_pure(Fraction(0)))
    for found, true in ((total.pure, sum(parts)), (total.rho, sum(part**2 / 2 for part in parts))):
        assert true <= found <= true + Fraction(len(parts), 1 << _BITS)
        assert found.denominator.bit_length() <= _BITS + 1


def test_a_sample_is_as_large_as_its_chance():
    """Of 100,000 people at 0.18: six standard deviations are 730."""
    gate = Gate(Budget(0.2, neighbours="add_remove"), 5)
    found = subsampled(gate.left, 1.0)
    release = gate.reserve(found.event)
    assert abs(release.sample(100_000, found.keep).size - 100_000 * -math.expm1(-0.2)) < 730


def test_deltas_of_questions_are_below_one():
    account = Gate(Budget(1.0, 1e-6), 0).spent
    for delta in (1.0, 1.5, -0.1):
        with pytest.raises(ValueError, match="delta"):
            account.epsilon(delta)


@pytest.mark.parametrize("tilt", [0.02, 1.0, 30.0])
def test_the_peak_of_a_tilted_delta(tilt):
    """(1 - e^-y) e^(-tilt y) is largest where its derivative is 0: e^-y = tilt / (1 + tilt)."""
    y = np.linspace(1e-6, 20.0 / (1.0 + tilt) + 10.0, 400_001)
    found = float(np.max(np.log(-np.expm1(-y)) - tilt * y))
    assert float(_log_peak(tilt)) == pytest.approx(found, abs=1e-6)


def test_a_charge_pays_for_no_more_releases_than_it_counts():
    """A person's vector is in two nodes of a tree over three rounds, and in three nodes over seven."""
    vectors, gate = VectorBounds(3, 1, norm_bound=1.0), Gate(Budget(8.0), 0)
    specs = {levels: SumSpec(vectors, 2**levels - 1, "tree", "laplace") for levels in (2, 3)}
    event = LaplaceNoise(2.0, 2.0)
    paid = {levels: gate.reserve(event, levels, disjoint=True) for levels in specs}
    for levels, asked in ((2, 2), (3, 3), (3, 2)):
        TreeSum.of(specs[asked], gate, event=event, disjoint=True, release=paid[levels])
    with pytest.raises(ValueError, match="does not pay for 3 of"):
        TreeSum.of(specs[3], gate, event=event, disjoint=True, release=paid[2])
