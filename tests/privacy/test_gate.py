"""The gate: releases have the right distribution, are charged beforehand, and can be refused."""

from __future__ import annotations

import json
import math
import pickle
import subprocess
import sys
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

import discreet as dc
from discreet import privacy as pv
from discreet.privacy import samplers
from discreet.privacy.conversions import exact

RELEASES = {
    "choose": lambda gate: gate.choose([0.0, 1.0], 0.3, 2.0),
    "laplace": lambda gate: gate.laplace([0.0, 1.0], scale=1.0, sensitivity=0.6),
    "gaussian": lambda gate: gate.gaussian([0.0, 1.0], sigma=1.0, sensitivity=0.2),
    "spherical_laplace": lambda gate: gate.spherical_laplace([0.0, 1.0], scale=1.0, sensitivity=0.6),
    "running_sum": lambda gate: gate.running_sum(2, 8, norm_bound=1.0, share=Fraction(2, 3)),
    "tree": lambda gate: gate.running_sum(2, 8, method="tree", noise="laplace", norm_bound=1.0, share=0.6),
    "reserve": lambda gate: gate.reserve(pv.PureRelease(0.6)),
    "part": lambda gate: gate.part("a").reserve(pv.PureRelease(0.6)),
}


@pytest.mark.parametrize("release", RELEASES.values(), ids=RELEASES.keys())
def test_second_release_is_refused_and_nothing_changes(release):
    gate = dc.Gate(dc.Budget(1.0, 1e-6), 0)
    release(gate)
    before = (gate.spent.to_json(), gate.state()["randomness"])
    assert gate.spent.epsilon() > 0.5
    with pytest.raises(dc.BudgetExceeded):
        release(gate)
    assert (gate.spent.to_json(), gate.state()["randomness"]) == before


def test_refusal_tells_spent_asked_limit_and_largest():
    gate = dc.Gate(dc.Budget(1.0), 0)
    gate.laplace(0.0, scale=1.0, sensitivity=0.7)
    with pytest.raises(dc.BudgetExceeded) as refused:
        gate.laplace(0.0, scale=2.0, sensitivity=1.0)
    error = refused.value
    assert (error.spent, error.limit) == (0.7, 1.0)
    assert error.asked == pv.LaplaceNoise(1.0, 2.0)
    assert float(error.largest.scale) == pytest.approx(1 / 0.3, rel=1e-9)
    for words in (
        "spent epsilon 0.7",
        "LaplaceNoise(sensitivity=1, scale=2)",
        "limit 1",
        "largest that fits",
    ):
        assert words in str(error)
    gate.laplace(0.0, scale=error.largest.scale, sensitivity=1.0)  # and that one does fit
    assert gate.spent.epsilon() <= 1.0


def test_a_refusal_comes_back_from_a_worker_process():
    with pytest.raises(dc.BudgetExceeded) as refused:
        dc.Gate(dc.Budget(1.0)).laplace(0.0, scale=0.1, sensitivity=1.0)
    again = pickle.loads(pickle.dumps(refused.value))
    assert (str(again), vars(again)) == (str(refused.value), vars(refused.value))


def test_preview_changes_nothing_and_counts_what_fits():
    gate = dc.Gate(dc.Budget(1.0, 1e-6), 0)
    event = pv.ExponentialChoice.within(gate.budget.share(), 2.0, 1000)
    preview = gate.preview(event, 400)
    assert preview.fits
    assert preview.largest_count == 1000
    assert preview.after < 1.0
    assert gate.spent.ledger.counts == {}
    assert not gate.preview(event, 1001).fits
    assert "it fits" in str(preview)


def test_remaining_is_what_can_still_be_released():
    gate = dc.Gate(dc.Budget(1.0, 1e-6), 0)
    gate.gaussian(0.0, sigma=8.0, sensitivity=1.0)
    left = gate.remaining
    gate.gaussian(0.0, sigma=1.0 / left.mu * (1 + 1e-9), sensitivity=1.0)
    assert gate.spent.epsilon() == pytest.approx(1.0, rel=1e-6)
    assert gate.remaining.mu < 1e-4
    pure = dc.Gate(dc.Budget(1.0), 0)
    pure.laplace(0.0, scale=4.0, sensitivity=1.0)
    assert pure.remaining.epsilon == 0.75
    for definition in ("zcdp", "gdp"):
        mixed = dc.Gate(dc.Budget(1.0, 1e-6), 0, definition=definition)
        mixed.gaussian(0.0, sigma=10.0, sensitivity=1.0)
        mixed.laplace(0.0, scale=20.0, sensitivity=1.0)
        mixed.reserve(pv.PureRelease(mixed.remaining.epsilon * (1 - 1e-9)))
        assert mixed.spent.epsilon() == pytest.approx(1.0, rel=1e-2)
        assert mixed.spent.epsilon() <= 1.0


def test_released_values_lie_on_the_public_grid():
    """Whatever the value, the answer is a multiple of the step: low-order bits carry nothing."""
    grid = samplers.Grid.for_noise(2.0, 1.0, 1)
    gate = dc.Gate(dc.Budget(math.inf), 3)
    for value in (0.1, math.pi * 10, -1e-7):
        answer = gate.laplace(value, 2.0, 1.0)
        assert answer == round(Fraction(answer) / grid.step) * float(grid.step)


def _binned(kind, value, edges, scale):
    """Exact probabilities of the bins of one release of ``value``, from the code's own grid."""
    grid = samplers.Grid.for_noise(scale, 1.0, 1)
    start = float(grid.truncate(np.array([value]))[0] * grid.step)
    ideal = {"laplace": stats.laplace, "gaussian": stats.norm}[kind](loc=start, scale=grid.noise_scale)
    return np.diff(ideal.cdf(np.concatenate([[-np.inf], edges, [np.inf]])))


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
@pytest.mark.parametrize("faulty", [False, True])
def test_divergence_of_released_values_is_within_the_account(kind, faulty):
    """Neighbours 0 and 1: binned divergences against the account; a halved sensitivity goes over it."""
    scale = 0.9
    gate = dc.Gate(dc.Budget(math.inf), 0)
    getattr(gate, kind)(0.0, scale, 0.5 if faulty else 1.0)
    edges = np.arange(-12.0, 13.0, 0.125)
    p, q = _binned(kind, 0.0, edges, scale), _binned(kind, 1.0, edges, scale)
    over = []
    for epsilon in (0.0, 0.3, 0.6, 1.0):
        delta = max(
            np.maximum(p - math.exp(epsilon) * q, 0).sum(), np.maximum(q - math.exp(epsilon) * p, 0).sum()
        )
        over.append(delta > gate.spent.delta(epsilon) * (1 + 1e-9) + 1e-12)
    assert any(over) == faulty


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_sampler_follows_the_audited_bins(kind):
    """Ties the enumerated bins above to the released numbers."""
    edges = np.arange(-4.0, 5.0, 0.25)
    gate = dc.Gate(dc.Budget(math.inf), 12)
    draws = np.concatenate([getattr(gate, kind)(np.full(1000, 0.3), 0.9, 1.0) for _ in range(50)])
    counts = np.bincount(np.searchsorted(edges, draws), minlength=edges.size + 1)
    assert stats.chisquare(counts, _binned(kind, 0.3, edges, 0.9) * draws.size).pvalue > 1e-6


def test_bad_values_are_refused_and_nothing_is_spent():
    gate = dc.Gate(dc.Budget(1.0, 1e-6), 0)
    for call, message in (
        (lambda: gate.laplace([1.0, math.nan], 1.0, 1.0), r"values\[1\] is nan"),
        (lambda: gate.gaussian(math.inf, 1.0, 1.0), r"values\[0\] is inf"),
        (lambda: gate.laplace(1.0, -1.0, 1.0), "scale=-1.0 must be at least 0"),
        (lambda: gate.gaussian(1.0, math.nan, 1.0), "sigma is NaN"),
        (lambda: gate.spherical_laplace([[1.0]], 1.0, 1.0), "must be one-dimensional"),
        (lambda: gate.spherical_laplace([], 1.0, 1.0), "values is empty"),
        (lambda: gate.laplace(["1.0"], 1.0, 1.0), "must be a vector of numbers"),
        (lambda: gate.laplace(0.0, Fraction(10) ** 400, Fraction(10) ** 400), "sensitivity must be a number"),
        (lambda: gate.choose([2**53 + 1, 0], 0.1, 1.0), r"whole numbers beyond 2\^53"),
        (lambda: dc.Gate(dc.Budget(1.0)).gaussian(1.0, 1.0, 1.0), "Gaussian noise needs delta > 0"),
        (lambda: dc.Budget("1.0"), "epsilon must be a number"),
        (lambda: dc.Budget(1.0).share(math.nan), "fraction is NaN"),
        (lambda: pv.LaplaceNoise.within(dc.Budget(1.0).share(), 1.0, 0), "count=0 is too small"),
        (lambda: gate.laplace([1.0, 2.0], 1.0, 1.0, changed=3), "changed=3 is too large"),
        (lambda: gate.reserve(pv.PureRelease(0.1), -1), "count=-1 is too small"),
        (lambda: gate.reserve("noise"), "event must be an Event"),
        (lambda: gate.running_sum(3, 5, method="magic", norm_bound=1.0), "method='magic' is not one of"),
        (lambda: gate.running_sum(3, 5), "say how large a vector can be"),
        (lambda: dc.Gate(1.0), "budget must be a Budget"),
        (lambda: pv.ScoreChange(-1.0), "each=-1.0 must be at least 0"),
    ):
        with pytest.raises((ValueError, TypeError), match=message):
            call()
    assert gate.spent.ledger.counts == {}


def test_remaining_of_a_part_is_its_own():
    gate = dc.Gate(dc.Budget(1.0), 0)
    gate.reserve(pv.PureRelease(0.1))
    gate.part("a").reserve(pv.PureRelease(0.8))
    assert gate.part("a").remaining.epsilon == 0.1
    assert gate.part("b").remaining.epsilon == 0.9
    gate.part("b").reserve(pv.PureRelease(0.9))


def test_one_directional_scores_need_add_remove():
    with pytest.raises(ValueError, match="one goes and another comes"):
        dc.Gate(dc.Budget(1.0)).choose([0.0, 1.0], 0.1, pv.ScoreChange(1.0, one_directional=True))


def test_known_noise_does_not_become_unknown_by_a_restart():
    class Stateless:
        secure = False

        def words(self, count):
            return np.zeros(count, dtype=np.uint64)

        def state(self):
            return None

    assert dc.Gate.from_state(dc.Gate(dc.Budget(1.0), Stateless()).state()).spent.reproducible


def test_gate_survives_a_restart():
    gate = dc.Gate(dc.Budget(1.0, 1e-6), 4)
    gate.laplace([1.0, 2.0], scale=4.0, sensitivity=1.0)
    gate.part("x").choose([1.0, 2.0], 0.1, 1.0)
    again = dc.Gate.from_state(json.loads(json.dumps(gate.state())))
    assert again.spent.to_json() == gate.spent.to_json()
    assert again.laplace(0.0, scale=10.0, sensitivity=1.0) == gate.laplace(0.0, scale=10.0, sensitivity=1.0)
    assert again.spent.epsilon() == gate.spent.epsilon()


def test_secure_gate_does_not_repeat_itself_after_a_restart():
    gate = dc.Gate(dc.Budget(1.0))
    state = gate.state()
    assert state["randomness"] is None
    first, second = (dc.Gate.from_state(state).laplace(0.0, scale=4.0, sensitivity=1.0) for _ in range(2))
    assert first != second


EDGE = 2**53  # from here on floats are 2 apart


@pytest.mark.parametrize(
    "value",
    [
        Fraction(EDGE + 1),
        Decimal(EDGE + 1),
        [EDGE + 1, 0.5],  # NumPy makes floats of both before anybody can look
        [np.int64(EDGE + 1), 0.5],
        np.array([EDGE + 1], dtype=object),
        [Fraction(1) + Fraction(1, 2**60)],
        pytest.param(
            np.longdouble(1) + np.longdouble(2) ** -60,
            marks=pytest.mark.skipif(np.finfo(np.longdouble).nmant < 60, reason="no longer floats here"),
        ),
    ],
    ids=str,
)
def test_numbers_that_floats_do_not_hold_are_refused(value):
    """2^53 + 1 and 2^53 + 2 are 1 apart, and 2 apart as floats: twice the loss that would be charged."""
    gate = dc.Gate(dc.Budget(10.0, 1e-6), 0)
    for release in (gate.laplace, gate.spherical_laplace, gate.gaussian, gate.choose):
        with pytest.raises(ValueError, match="not exact as floats"):
            release([value] if release == gate.choose and np.ndim(value) == 0 else value, 10.0, 1.0)
    assert gate.definition is None
    assert not gate.spent.ledger.counts
    for held in (Fraction(1, 4), Decimal("0.25"), [EDGE, 0.25], True, np.float32(0.1)):
        gate.laplace(held, 1000.0, 1.0)
    for kind in (np.array([1j]), np.array(["2020-01-01"], dtype="datetime64[ns]")):
        with pytest.raises(TypeError, match="must be a vector of numbers"):
            gate.laplace(kind, 1000.0, 1.0)


def test_a_fraction_is_not_the_decimal_that_its_float_prints():
    """Fraction(0.1) is a little more than 1/10, which is what 0.1 is read as, and Python calls them equal."""
    tenth = Fraction(0.1)
    assert tenth == 0.1
    assert tenth > Fraction(1, 10)
    gate = dc.Gate(dc.Budget(1.0))
    gate.reserve(pv.PureRelease(0.1))
    gate.reserve(pv.PureRelease(tenth), 8)
    assert gate.spent.loss.pure == Fraction(1, 10) + 8 * tenth
    with pytest.raises(dc.BudgetExceeded):
        gate.reserve(pv.PureRelease(tenth))
    gate.reserve(pv.PureRelease(1 - Fraction(1, 10) - 8 * tenth))
    assert pv.PureRelease(0.5) == pv.PureRelease(Fraction(1, 2)) != pv.PureRelease(0.25)
    assert hash(pv.PureRelease(0.5)) == hash(pv.PureRelease(Fraction(1, 2)))
    assert pv.LaplaceNoise(1.0, 2.0) != pv.SphericalLaplaceNoise(1.0, 2.0)


@pytest.mark.parametrize("definition", ["pure", "zcdp", "gdp"])
def test_a_state_that_spent_more_than_its_budget_is_refused(definition):
    gate = dc.Gate(dc.Budget(1.0, 1e-6), 0, definition=definition)
    gate.part("a").reserve(pv.PureRelease(0.05), 2)
    gate.reserve(pv.PureRelease(0.01))
    state = gate.state()
    restored = dc.Gate.from_state(json.loads(json.dumps(state)))
    assert restored.definition == definition
    assert restored.spent.loss == gate.spent.loss
    state["ledger"]["charges"][0]["count"] = 200
    with pytest.raises(ValueError, match="more was spent than the budget allows"):
        dc.Gate.from_state(state)


def test_a_full_gate_survives_a_restart():
    gate = dc.Gate(dc.Budget(1.0, 1e-6), 0, definition="zcdp")
    for part in range(7):
        gate.part("a").laplace(0.0, 9.7 + part, 1.0)
    gate.part("a").reserve(pv.ConcentratedRelease(exact(gate.budget.rho) - gate.spent.loss.rho))
    assert gate.remaining.rho == 0.0
    assert math.copysign(1.0, gate.remaining.rho) == 1.0
    assert dc.Gate.from_state(gate.state()).spent.loss == gate.spent.loss


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
@pytest.mark.parametrize("size", [1, 40])
def test_released_values_have_the_stated_noise(kind, size):
    gate = dc.Gate(dc.Budget(math.inf), 3)
    ideal = {"laplace": stats.laplace(scale=2.5), "gaussian": stats.norm(scale=2.5)}[kind]
    values = np.linspace(-1000.0, 1000.0, size)
    release = getattr(gate, kind)
    errors = np.concatenate([release(values, 2.5, 1.0) - values for _ in range(20_000 // size)])
    assert stats.kstest(errors, ideal.cdf).pvalue > 1e-6
    assert stats.kstest(errors * 1.1, ideal.cdf).pvalue < 1e-6


def test_import_is_light():
    """The package imports without SciPy or a library for tables; both load when first needed."""
    code = (
        "import sys, discreet, discreet.privacy.composition; discreet.Budget; discreet.Gate;"
        "print([m for m in ('mpmath', 'scipy', 'pandas') if m in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert result.stdout.strip() == "[]"


@pytest.mark.parametrize("label", [[], np.zeros(2), None, 3])
def test_a_label_that_is_no_text_is_refused_before_anything_changes(label):
    gate = dc.Gate(dc.Budget(1.0, 1e-6), 0)
    before = gate.state()
    for release in (
        lambda: gate.reserve(dc.privacy.LaplaceNoise(1.0, 10.0), label=label),
        lambda: gate.laplace([0.0], 10.0, 1.0, label=label),
        lambda: gate.choose([0.0, 1.0], 0.1, 1.0, label=label),
    ):
        with pytest.raises(TypeError, match="label must be text"):
            release()
        assert gate.state() == before


def test_refusals_of_a_list_are_about_the_list():
    gate = dc.Gate(dc.Budget(1.0))
    with pytest.raises(dc.BudgetExceeded) as refused:
        gate.expect((pv.PureRelease(0.6), 1), (pv.PureRelease(0.6), 1))
    preview = refused.value.preview
    assert not preview.fits
    assert preview.after == 1.2
    assert preview.largest_count == 0
    assert float(preview.largest.epsilon) == pytest.approx(0.4, rel=1e-3)
    assert "it fits" not in str(refused.value)
    assert gate.spent.epsilon() == 0.0


NOISES = [pv.LaplaceNoise(0.5, 4.0), pv.GaussianNoise(0.5, 4.0), pv.SphericalLaplaceNoise(0.5, 4.0)]


@pytest.mark.parametrize("event", NOISES, ids=lambda event: type(event).__name__)
@pytest.mark.parametrize("bits", [31, 26])
def test_rows_on_a_coarser_grid_are_the_finest_ones_rounded(event, bits):
    grid = samplers.Grid.for_noise(4.0, 0.5, 0, bits)
    finest, rows, single = (dc.Gate(dc.Budget(8.0, 1e-6), 7).reserve(event, 3) for _ in range(3))
    wanted = [np.floor(finest.steps(5) / 2.0 ** (32 - bits) + 0.5) for _ in range(3)]
    assert rows.noise_rows(grid, 3, 5).tolist() == np.array(wanted).tolist()
    assert [single.noise(grid, 5).tolist() for _ in range(3)] == np.array(wanted).tolist()


@pytest.mark.parametrize("exponent", [-30, -1, 0, 30])
def test_values_are_refused_on_a_grid_that_rounding_is_not_paid_on(exponent):
    scale = 2.0**exponent
    for moved in (0.5, 0.25):  # in units of the noise: whatever these are, its scale is 2^32 steps
        event = pv.LaplaceNoise(moved * scale, scale)
        release = dc.Gate(dc.Budget(1.0)).reserve(event)
        with pytest.raises(ValueError, match="does not pay for rounding"):
            release.noisy(np.zeros(1), samplers.Grid.at_least(Fraction(scale) / 2**32))
        release.noisy(np.zeros(1), samplers.Grid.for_noise(scale, moved * scale, 1))


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 8, 9, 10])
def test_every_number_pays_for_its_own_rounding(size, monkeypatch):
    grids = []
    monkeypatch.setattr(pv.Release, "noisy", lambda _, values, grid: grids.append(grid) or values)
    gate = dc.Gate(dc.Budget(8.0, 1e-6))
    gate.laplace(np.zeros(size), scale=4.0, sensitivity=0.5)
    gate.spherical_laplace(np.zeros(size), scale=4.0, sensitivity=0.5)
    gate.gaussian(np.zeros(size), sigma=4.0, sensitivity=0.5)
    gate.gaussian(np.zeros(12), sigma=4.0, sensitivity=0.5, changed=size)
    root = min(whole for whole in range(9) if whole**2 >= size)
    assert grids == [samplers.Grid.for_noise(4.0, 0.5, steps) for steps in (size, root, root, root)]
