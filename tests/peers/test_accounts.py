"""Epsilons of histories as OpenDP and dp-accounting compute them."""

from __future__ import annotations

import math

import pytest

import discreet as dc


@pytest.mark.parametrize("rho", [0.001, 0.05, 0.8])
@pytest.mark.parametrize("delta", [1e-9, 1e-5, 1e-2])
def test_zcdp_as_in_opendp(rho, delta):
    """Both bound zCDP; a Gaussian of this rho, whose curve is known, is held by ours as well."""
    prelude = pytest.importorskip("opendp.prelude")
    from discreet.privacy.conversions import gdp_delta, zcdp_epsilon

    prelude.enable_features("contrib")
    space = (prelude.vector_domain(prelude.atom_domain(T=float, nan=False)), prelude.l2_distance(T=float))
    gaussian = prelude.m.make_gaussian(*space, scale=math.sqrt(0.5 / rho))
    theirs = prelude.c.make_zCDP_to_approxDP(gaussian).map(1.0).epsilon(delta)
    ours = zcdp_epsilon(rho, delta)
    assert ours == pytest.approx(theirs, rel=2e-3)
    assert gdp_delta(math.sqrt(2.0 * rho), ours) <= delta


@pytest.mark.parametrize("scale", [0.5, 3.0, 40.0])
def test_laplace_as_in_opendp(scale):
    prelude = pytest.importorskip("opendp.prelude")
    prelude.enable_features("contrib")
    space = (prelude.atom_domain(T=float, nan=False), prelude.absolute_distance(T=float))
    theirs = prelude.m.make_laplace(*space, scale=scale).map(1.0)
    gate = dc.Gate(dc.Budget(2.0 / scale, neighbours="add_remove"))
    gate.laplace([0.0], scale, 1.0)
    assert gate.spent.epsilon() == pytest.approx(theirs, rel=1e-9)
