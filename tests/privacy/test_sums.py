"""Running sums: exact loss from what the code does with its noise, noise levels, resuming, bad input."""

from __future__ import annotations

import itertools
import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from fractions import Fraction
from unittest import mock

import numpy as np
import pytest
from scipy import stats

import discreet as dc
from discreet.privacy import (
    FactorizedSum,
    Gate,
    GaussianNoise,
    LaplaceNoise,
    SphericalLaplaceNoise,
    SumSpec,
    TreeSum,
    VectorBounds,
    samplers,
)
from discreet.privacy.accountant import Accountant
from discreet.privacy.factorizations import BinaryTree, Factorization, factorization
from discreet.privacy.prefix_sum import Participation
from tests.privacy.audit import exact_sum_loss

APPROXIMATE = dc.Budget(1.0, 1e-6)
PURE = dc.Budget(1.0)


def _tree(budget, rounds, dimension=1, kind=TreeSum, **options):
    return lambda: kind(dimension, rounds, budget, seed=0, **options)


# --- exact loss ---------------------------------------------------------------------------------


def _streams(rounds, place, size=1.0):
    """A stream of zeros with +size and with -size in one round: the worst pair for a norm bound."""
    base = [np.zeros(1) for _ in range(rounds)]
    here, there = list(base), list(base)
    here[place], there[place] = np.array([size]), np.array([-size])
    return here, there


@pytest.mark.parametrize("rounds", [1, 2, 3, 5, 8, 13])
def test_laplace_tree_loses_exactly_its_epsilon(rounds):
    make = _tree(PURE, rounds, noise="laplace", norm_bound=1.0)
    losses = [exact_sum_loss(make, *_streams(rounds, place), norm=1) for place in range(rounds)]
    assert max(losses) == pytest.approx(1.0, rel=1e-6)
    assert max(losses) <= 1.0 + 1e-9


@pytest.mark.parametrize("rounds", [1, 2, 3, 5, 8, 13])
@pytest.mark.parametrize("reduced", [False, True])
def test_gaussian_tree_loses_at_most_its_mu(rounds, reduced):
    make = _tree(APPROXIMATE, rounds, norm_bound=1.0, variance_reduction=reduced)
    losses = [exact_sum_loss(make, *_streams(rounds, place), norm=2) for place in range(rounds)]
    assert max(losses) <= APPROXIMATE.mu * (1 + 1e-8)
    # With halves combined it shows only mixtures of the nodes, so a little less is lost than is paid for.
    assert max(losses) >= APPROXIMATE.mu * (0.9 if reduced else 1 - 1e-6)


@pytest.mark.parametrize("rounds", [1, 2, 3, 5, 8, 33])
@pytest.mark.parametrize("method", ["sqrt", "blt"])
def test_factorized_sum_loses_at_most_its_mu(rounds, method):
    make = _tree(APPROXIMATE, rounds, kind=FactorizedSum, norm_bound=1.0, method=method)
    losses = [exact_sum_loss(make, *_streams(rounds, place), norm=2) for place in range(min(rounds, 5))]
    assert max(losses) <= APPROXIMATE.mu * (1 + 1e-8)
    assert max(losses) == pytest.approx(APPROXIMATE.mu, rel=1e-6)


@pytest.mark.parametrize("kind", [TreeSum, FactorizedSum])
def test_search_over_neighbours_in_two_dimensions(kind):
    """Every replacement of one vector by another within the bound, over the corners and a random set."""
    rng = np.random.default_rng(0)
    make = _tree(APPROXIMATE, 4, dimension=2, kind=kind, norm_bound=1.0)
    corners = [np.array(c) / math.hypot(*c) for c in itertools.product((-1.0, 1.0), repeat=2)]
    rest = [v / np.linalg.norm(v) for v in rng.normal(size=(4, 2))]
    worst = 0.0
    for first, second in itertools.combinations([*corners, *rest], 2):
        for place in (0, 3):
            here = [v.copy() for v in rest]
            there = [v.copy() for v in rest]
            here[place], there[place] = first, second
            worst = max(worst, exact_sum_loss(make, here, there, norm=2))
    assert APPROXIMATE.mu * 0.999 <= worst <= APPROXIMATE.mu * (1 + 1e-8)


def test_papers_calibration_to_the_norm_bound_is_off_by_two():
    """The +-L pair: noise set for L, as papers 001 and 004 do, loses twice the epsilon it claims."""
    rounds = 8
    # The papers' node scale is L times the levels over epsilon; with our number of levels that is:
    published = dc.Budget(1.0, neighbours="add_remove")  # difference bound = norm bound
    make = _tree(published, rounds, noise="laplace", norm_bound=1.0)
    assert exact_sum_loss(make, *_streams(rounds, 0), norm=1) == pytest.approx(2.0, rel=1e-6)
    ours = _tree(PURE, rounds, noise="laplace", norm_bound=1.0)
    assert exact_sum_loss(ours, *_streams(rounds, 0), norm=1) == pytest.approx(1.0, rel=1e-6)


@pytest.mark.parametrize("kind", [TreeSum, FactorizedSum])
@pytest.mark.parametrize("seed", range(4))
def test_adaptive_inputs_are_covered(kind, seed):
    """Inputs that react to the noisy answers. For given answers the later inputs of both neighbours are the
    same, so the loss is that of explaining the same answers with another first vector: it is computed for the
    inputs that real answers produced. Inputs that react to the *noise* would break it; see the next test."""
    total = kind(1, 6, APPROXIMATE, norm_bound=1.0, seed=seed)
    inputs = [np.array([1.0])]
    for _ in range(5):
        answer = total.add(inputs[-1])
        inputs.append(np.sign(answer) * min(1.0, abs(float(answer[0])) / 5))
    make = _tree(APPROXIMATE, 6, kind=kind, norm_bound=1.0)
    loss = exact_sum_loss(make, inputs, [np.array([-1.0]), *inputs[1:]], norm=2)
    assert loss == pytest.approx(APPROXIMATE.mu, rel=1e-6)


def test_answers_are_a_function_of_what_was_released():
    """The next answer never depends on anything but released values: with the same released filter outputs,
    the decoder gives the same answers whatever the data were. (A mechanism that decoded from its own noise
    would not be private for adaptive inputs.)"""
    answers = []
    for data in (np.zeros(5), np.array([1.0, -1.0, 0.5, 1.0, -0.5])):
        total = FactorizedSum(1, 5, APPROXIMATE, norm_bound=1.0, seed=1)
        released = iter([10, -3, 4, 0, 2])
        total._released = lambda sums, r=released: np.full_like(sums, next(r) << 32)
        answers.append([total.add([x])[0] for x in data])
    assert answers[0] == answers[1]


class _ReusedNoise(TreeSum):
    """An injected fault: every second node gets the noise of the one before."""

    _last = None

    def _noise_steps(self):
        if self._last is None:
            self._last = super()._noise_steps()
            return self._last
        again, self._last = self._last, None
        return again


def _halved_noise(monkeypatch):
    """Half of the noise that the stated sensitivity needs."""
    honest = SumSpec.event

    def halved(spec, *given):
        event = honest(spec, *given)
        return type(event)(event.sensitivity, event.scale / 2)

    monkeypatch.setattr(SumSpec, "event", halved)


def _halved_noise_uncharged(monkeypatch):
    """The same at a gate that lets everything pass: the real one refuses it (see below)."""
    _halved_noise(monkeypatch)
    monkeypatch.setattr(Accountant, "charge", lambda *_: None)


def _norm_for_difference(monkeypatch):
    """Calibrated to the norm bound instead of the distance between neighbours."""
    monkeypatch.setattr(VectorBounds, "difference", lambda bounds, _: bounds.norm_bound)


def _missing_level(monkeypatch):
    """One level of the tree is not paid for."""
    monkeypatch.setattr(BinaryTree, "uses", property(lambda tree: tree.levels - 1))


FAULTS = {
    "reused noise": None,
    "half of the noise": _halved_noise_uncharged,
    "norm bound for difference": _norm_for_difference,
    "missing level": _missing_level,
}


@pytest.mark.parametrize("fault", FAULTS)
def test_injected_faults_are_caught(fault, monkeypatch):
    if FAULTS[fault] is not None:
        FAULTS[fault](monkeypatch)
    kind = _ReusedNoise if fault == "reused noise" else TreeSum
    make = _tree(PURE, 8, kind=kind, noise="laplace", norm_bound=1.0)
    losses = [exact_sum_loss(make, *_streams(8, place), norm=1) for place in range(8)]
    assert max(losses) > 1.1


def test_a_stretch_that_is_left_out_is_caught(monkeypatch):
    """What passes a filter moves further than what is added, by the norm of the filter's first column."""
    monkeypatch.setattr(Factorization, "column_norm", property(lambda _: 1.0))
    make = _tree(APPROXIMATE, 8, kind=FactorizedSum, norm_bound=1.0)
    assert exact_sum_loss(make, *_streams(8, 0), norm=2) > 1.1 * APPROXIMATE.mu


def test_reused_noise_is_caught_with_halves_combined_too():
    make = _tree(APPROXIMATE, 8, kind=_ReusedNoise, norm_bound=1.0, variance_reduction=True)
    losses = [exact_sum_loss(make, *_streams(8, place), norm=2) for place in range(8)]
    assert max(losses) > 1.1 * APPROXIMATE.mu


@pytest.mark.filterwarnings("ignore::discreet.privacy.account.PublishedCalibrationWarning")
@pytest.mark.parametrize(("rounds", "printed"), [(1, 2.0), (2, 1.0), (8, 1.5)])
@pytest.mark.parametrize("published", [False, True])
def test_spherical_tree_loses_its_epsilon(rounds, printed, published, monkeypatch):
    """Released nodes with the noise taken out: total Euclidean shift over the noise scale.

    Paper 001 has noise for the norm, ceil(log2 T) + 1 times: 2 levels / (ceil(log2 T) + 1) of its epsilon.
    """
    monkeypatch.setattr(samplers, "spherical_steps", lambda *_: np.zeros(3, dtype=np.int64))
    accounts = []

    def nodes(first):
        if published:
            total = TreeSum.published(3, rounds, PURE, norm_bound=1.0, seed=0)
        else:
            total = TreeSum(3, rounds, PURE, noise="spherical", norm_bound=1.0, seed=0)
        accounts.append(total.gate.spent.epsilon())
        seen, plain = [], TreeSum._released
        total._released = lambda sums: seen.append(plain(total, sums)[0]) or seen[-1][None]
        for step in range(rounds):
            total.add(first if step == 0 else np.zeros(3))
        return np.array(seen), 2.0**samplers.STEPS_BITS

    direction = np.array([1.0, 2.0, -2.0]) / 3.0
    (a, scale), (b, _) = nodes(direction), nodes(-direction)
    loss = np.linalg.norm(a - b, axis=1).sum() / scale
    assert 0.999 * accounts[0] <= loss <= accounts[0] + 1e-9
    assert accounts[0] == pytest.approx(printed if published else 1.0)


@pytest.mark.parametrize("noise", ["gaussian", "laplace", "spherical"])
def test_answers_of_a_tree_lie_on_its_grid(noise):
    """Low-order bits of spherical noise in floating point told +1 from -1, also through a learner."""
    for value in (1.0, -1.0, 1.0 / 3.0):
        budget = APPROXIMATE if noise == "gaussian" else PURE
        total = TreeSum(1, 5, budget, noise=noise, norm_bound=1.0, seed=3)
        step = float(total._grid.step)
        for _ in range(5):
            answer = total.add([value])
            assert (np.rint(answer / step) * step == answer).all()


@pytest.mark.parametrize("epsilon", [1e2, 1e6])
def test_sums_far_larger_than_their_noise_take_a_coarser_grid(epsilon):
    """Whole steps of every sum stay below 2^62; the noise keeps its width."""
    total = TreeSum(2, 10**6, dc.Budget(epsilon), noise="spherical", norm_bound=1.0, seed=0)
    assert (total._grid.bits < samplers.STEPS_BITS) == (epsilon > 1e4)
    assert total._grid.noise_scale == pytest.approx(float(total.event.scale), rel=1e-5)
    assert 10**6 / total._grid.step < 1 << 61
    assert np.abs(total.add([0.0, 0.0])).max() < 50.0 * total._grid.noise_scale
    release = Gate(dc.Budget(math.inf), 1).reserve(GaussianNoise(1.0, total._grid.noise_scale))
    steps = release.noise(total._grid, 4000) / 2.0**total._grid.bits
    assert stats.kstest(steps, stats.norm().cdf).pvalue > 1e-6


def test_gate_refuses_a_sum_that_is_less_noisy_than_it_says(monkeypatch):
    _halved_noise(monkeypatch)
    with pytest.raises(dc.BudgetExceeded):
        TreeSum(1, 8, PURE, noise="laplace", norm_bound=1.0)


def test_difference_bounds_by_search():
    """`VectorBounds.difference` against the largest distance found among vectors that keep the bounds."""
    rng = np.random.default_rng(1)
    cases = [
        VectorBounds(4, 2, norm_bound=1.0),
        VectorBounds(4, 2, norm_bound=1.0, box=(0.0, 1.0)),
        VectorBounds(4, 2, box=(0.0, 1.0)),
        VectorBounds(4, 2, box=(-1.0, 1.0), nonzeros=2),
        VectorBounds(4, 2, box=(0.0, 1.0), nonzeros=1),
        VectorBounds(4, 2, box=(-0.5, 1.0), nonzeros=3),
        VectorBounds(4, 1, norm_bound=1.0),
        VectorBounds(4, 1, box=(0.0, 1.0), nonzeros=2),
        VectorBounds(4, 1, box=(-1.0, 2.0)),
    ]
    for inputs in cases:
        members = []
        low, high = inputs.box or (-1.0, 1.0)
        members += [np.array(corner) for corner in itertools.product((low, 0.0, high), repeat=4)]
        members += [rng.uniform(low, high, 4) for _ in range(50)]
        kept = []
        for member in members:
            if inputs.norm_bound is not None:
                member = member * min(
                    1.0, inputs.norm_bound / max(np.linalg.norm(member, inputs.norm), 1e-12)
                )
            if inputs.nonzeros is None or np.count_nonzero(member) <= inputs.nonzeros:
                kept.append(inputs.checked(member, clip=False))
        table = np.array(kept)
        distances = np.linalg.norm(table[:, None] - table[None], inputs.norm, axis=2)
        assert distances.max() <= inputs.difference("replace") * (1 + 1e-12)
        assert distances.max() >= inputs.difference("replace") * 0.99
        sizes = np.linalg.norm(table, inputs.norm, axis=1)
        assert sizes.max() <= inputs.difference("add_remove") * (1 + 1e-12)
        assert sizes.max() >= inputs.difference("add_remove") * 0.99


# --- noise --------------------------------------------------------------------------------------

CASES = [
    (TreeSum, {"noise": "gaussian"}, APPROXIMATE),
    (TreeSum, {"noise": "gaussian", "variance_reduction": True}, APPROXIMATE),
    (TreeSum, {"noise": "laplace"}, PURE),
    (TreeSum, {"noise": "laplace", "variance_reduction": True}, PURE),
    (TreeSum, {"noise": "spherical"}, PURE),
    (FactorizedSum, {"method": "sqrt"}, APPROXIMATE),
    (FactorizedSum, {"method": "blt"}, APPROXIMATE),
]


@pytest.mark.parametrize(("kind", "options", "budget"), CASES)
def test_measured_noise_is_the_stated_one(kind, options, budget):
    """Mean square of the error in 4,000 coordinates at several steps, against `noise_std`."""
    rounds, dimension = 21, 4000
    total = kind(dimension, rounds, budget, norm_bound=1.0, seed=2, **options)
    vector = np.full(
        dimension, 1.0 / (dimension if options.get("noise") == "laplace" else math.sqrt(dimension))
    )
    for step in range(1, rounds + 1):
        error = total.add(vector) - step * vector
        ratio = np.mean(error**2) / total.noise_std(step) ** 2
        # relative spread of a mean of 4,000 squares: sqrt((kurtosis - 1)/4000), kurtosis <= 6; at 6 sigma.
        # Spherical noise has one random length per draw in common: its spread is 2/sqrt(dimension) at most.
        assert abs(ratio - 1.0) < 6 * math.sqrt(5 / dimension)


@pytest.mark.parametrize(("kind", "options", "budget"), CASES)
def test_sum_is_the_sum_when_nothing_is_private(kind, options, budget):  # noqa: ARG001
    total = kind(2, 9, dc.Budget(math.inf), norm_bound=9.0, **options)
    vectors = np.random.default_rng(0).normal(size=(9, 2))
    answers = [total.add(v) for v in vectors]
    assert np.allclose(answers, np.cumsum(vectors, axis=0))
    assert total.noise_std(9) == 0.0


# --- threads and interrupts ---------------------------------------------------------------------


@pytest.mark.parametrize("kind", [TreeSum, FactorizedSum])
def test_threads_take_turns_and_the_horizon_holds(kind):
    total = kind(20_000, 4, APPROXIMATE, norm_bound=1.0)

    def attempt(_):
        try:
            total.add(np.zeros(20_000))
        except RuntimeError:
            return 0
        return 1

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(attempt, range(12))) == 4
    assert total.taken == 4


@pytest.mark.parametrize("kind", [TreeSum, FactorizedSum])
def test_interrupted_addition_is_not_repeated(kind, monkeypatch):
    """A vector that may or may not be in the sum must not be added again."""
    total = kind(2, 4, APPROXIMATE, norm_bound=1.0, seed=0)
    total.add([0.1, 0.1])

    def interrupt(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(kind, "_released", interrupt)
        with pytest.raises(KeyboardInterrupt):
            total.add([0.1, 0.1])
    with pytest.raises(RuntimeError, match="interrupted half-way"):
        total.add([0.1, 0.1])
    with pytest.raises(RuntimeError, match="counted twice"):  # from a file they could enter again
        total.state()


def test_sums_of_several_people_pay_for_truncation_and_declare_per_person():
    inputs = VectorBounds(4, 2, box=(0.0, 1.0), people_per_vector=10)
    assert inputs.difference("replace") == pytest.approx(2.0)
    assert inputs.largest == 10.0
    inputs.checked([10.0, 0.0, 0.0, 0.0], clip=False)
    with pytest.raises(ValueError, match="outside box"):
        inputs.checked([10.5, 0.0, 0.0, 0.0], clip=False)
    for noise in ("laplace", "spherical"):  # truncating the sum of two can move every coordinate by a step
        alone, two = (
            TreeSum(3, 4, PURE, noise=noise, norm_bound=1.0, people_per_vector=people) for people in (1, 2)
        )
        assert two._grid.step > alone._grid.step


# --- sharing a gate, saving, bad input ----------------------------------------------------------


def test_several_rounds_per_person_cost_more_noise():
    one = TreeSum(1, 100, APPROXIMATE, norm_bound=1.0, seed=0)
    three = TreeSum(1, 100, dc.Budget(1.0, 1e-6, max_rounds_per_person=3), norm_bound=1.0, seed=0)
    assert three.noise_std(7) == pytest.approx(3 * one.noise_std(7), rel=1e-9)
    # two of a person's vectors in the same stream: the exact loss stays within the person's mu
    budget = dc.Budget(1.0, 1e-6, max_rounds_per_person=2)
    make = _tree(budget, 5, norm_bound=1.0)
    here, there = _streams(5, 0)
    here[1], there[1] = here[0], there[0]
    assert exact_sum_loss(make, here, there, norm=2) <= APPROXIMATE.mu * (1 + 1e-8)


def test_saved_file_is_readable_private_and_checked(tmp_path):
    path = tmp_path / "sum.discreet"
    total = TreeSum(3, 12, PURE, noise="laplace", norm_bound=1.0)
    total.save(path)
    assert path.read_bytes().splitlines()[0].startswith(b'{"format": "discreet-state", "version": 2')
    assert path.stat().st_mode & 0o077 == 0
    with pytest.raises(ValueError, match="holds a TreeSum, not a FactorizedSum"):
        FactorizedSum.load(path)
    for content, words in (
        (b"nonsense", "is not a state file of discreet"),
        (b"[1]", "is not a state file of discreet"),
        (b'{"format": "discreet-state", "version": 2}\nbroken', "is damaged"),
        (b'{"format": "discreet-state", "version": 99}\n', "format version 99"),
    ):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=words):
            TreeSum.load(path)
    assert list(tmp_path.iterdir()) == [path]  # no temporary files left behind


@pytest.mark.parametrize("kind", [TreeSum, FactorizedSum])
def test_bad_vectors_are_refused_and_the_round_is_not_consumed(kind):
    def fresh():
        return kind(3, 4, APPROXIMATE, norm_bound=1.0, box=(-0.9, 1.0), nonzeros=2, seed=1)

    total, twin = fresh(), fresh()
    for vector, message in (
        ([0.1, 0.2], "vector has 2 entries; 3 expected"),
        ([0.1, math.nan, 0.0], r"vector\[1\] is nan"),
        ([0.1, math.inf, 0.0], r"vector\[1\] is inf"),
        ([0.1, 0.1, 0.1], "vector has 3 entries that are not 0; nonzeros=2"),
        ([-0.95, 0.0, 0.0], r"vector\[0\]=-0.95 is outside box"),
        ([0.9, 0.9, 0.0], "L2 norm 1.27.* above norm_bound=1.0; pass clip=True"),
        ("abc", "vector must be"),
    ):
        with pytest.raises((ValueError, TypeError), match=message):
            total.add(vector)
    assert total.taken == 0
    assert (total.add([0.5, 0.0, 0.0]) == twin.add([0.5, 0.0, 0.0])).all()


@pytest.mark.parametrize("kind", [TreeSum, FactorizedSum])
def test_clipping_keeps_the_bound_and_rounding_is_forgiven(kind):
    clipped, short = (kind(2, 3, APPROXIMATE, norm_bound=1.0, clip=c, seed=1) for c in (True, False))
    assert np.allclose(clipped.add([3.0, 4.0]), short.add([0.6, 0.8]), atol=1e-9)
    unit = np.array([1.0, 1.0]) / math.sqrt(2.0) * (1 + 2e-16)
    short.add(unit)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rounds": 0}, "rounds=0 is too small"),
        ({"dimension": 0}, "dimension=0 is too small"),
        ({"norm_bound": 0.0}, "norm_bound=0.0 must be greater than 0"),
        ({"norm_bound": math.nan}, "norm_bound is NaN"),
        ({"box": (0.5, 1.0)}, r"box\[0\]=0.5 must be at most 0"),
        ({"box": (0.0, 0.0)}, r"box=\(0, 0\) leaves nothing"),
        ({"nonzeros": 5}, "nonzeros=5 is too large"),
        ({"noise": "pink"}, "noise='pink' is not one of"),
        ({"share": 2}, "share=2.0 must be at most 1"),
        ({"budget": PURE}, "Gaussian noise needs delta > 0"),
        ({"budget": Gate(APPROXIMATE), "seed": 3}, "seed= is for a budget; a gate has its own randomness"),
    ],
)
@pytest.mark.parametrize("kind", [TreeSum, FactorizedSum])
def test_bad_settings_are_refused(kind, options, message):
    settings = {"dimension": 3, "rounds": 4, "budget": APPROXIMATE, "norm_bound": 1.0} | options
    with pytest.raises((ValueError, TypeError), match=message):
        kind(**settings)


def test_noise_too_small_for_its_grid_is_refused():
    with pytest.raises(ValueError, match="do not fit the noise's grid"):
        TreeSum(1, 1 << 20, dc.Budget(1e12, 1e-6), norm_bound=1.0)


def test_filters_are_refused_where_their_rounding_would_dominate():
    """Rounding errors of the filter grow with the rounds, and are part of what one person moves."""
    budget = dc.Budget(1.0, 1e-6)
    assert FactorizedSum(2, 1 << 24, budget, norm_bound=1.0).rounds == 1 << 24
    with pytest.raises(ValueError, match="rounding would dominate"):
        FactorizedSum(2, 1 << 27, budget, norm_bound=1.0)


@pytest.mark.parametrize("kind", [TreeSum, FactorizedSum])
def test_noise_is_gaussian_at_the_end(kind):
    total = kind(20_000, 5, APPROXIMATE, box=(0.0, 1e-3), seed=4)
    for _ in range(5):
        answer = total.add(np.zeros(20_000))
    assert stats.kstest(answer / total.noise_std(5), stats.norm.cdf).pvalue > 1e-6


THEORY = {
    (TreeSum, "plain"): (10.0, 16.0),
    (TreeSum, "reduced"): (7.6, 11.9),
    (FactorizedSum, "sqrt"): (3.27, 4.60),
    (FactorizedSum, "blt"): (3.27, 4.60),
}


@pytest.mark.parametrize(("kind", "form"), THEORY)
def test_worst_noise_is_that_of_the_theory(kind, form):
    """Worst-time standard deviation in units of difference/mu, at 1,024 and 65,536 rounds."""
    options = {"variance_reduction": form == "reduced"} if kind is TreeSum else {"method": form}
    for rounds, expected in zip((1024, 65_536), THEORY[kind, form], strict=True):
        total = kind(3, rounds, APPROXIMATE, norm_bound=0.5, seed=0, **options)
        steps = range(1, rounds + 1) if kind is TreeSum else [rounds]
        worst = max(total.noise_std(step) for step in steps) * APPROXIMATE.mu
        assert worst == pytest.approx(expected, rel=0.03)


def test_sparse_vectors_do_not_pay_for_the_catalogue():
    """With at most m entries of [0, 1] a vector, noise does not grow with the dimension."""
    stds = [
        FactorizedSum(d, 100, APPROXIMATE, box=(0.0, 1.0), nonzeros=3, seed=0).noise_std(100)
        for d in (10, 1000)
    ]
    assert stds[0] == pytest.approx(stds[1], rel=1e-4)
    full = FactorizedSum(1000, 100, APPROXIMATE, box=(0.0, 1.0), seed=0).noise_std(100)
    assert full / stds[1] == pytest.approx(math.sqrt(1000 / 6), rel=1e-4)


def test_extreme_magnitudes_keep_their_bounds():
    assert VectorBounds(3, 2, box=(0.0, 1e-170)).difference("replace") == pytest.approx(1e-170 * math.sqrt(3))
    assert VectorBounds(3, 2, box=(0.0, 1e200)).difference("replace") == pytest.approx(1e200 * math.sqrt(3))
    tiny = VectorBounds(2, 2, norm_bound=1e-200)
    with pytest.raises(ValueError, match="norm_bound"):
        tiny.checked([1e-170, 0.0], clip=False)
    clipped = VectorBounds(2, 2, norm_bound=1.0).checked([1e200, 1e200], clip=True)
    assert np.linalg.norm(clipped) == pytest.approx(1.0)


def test_sums_share_a_gate_exactly():
    gate = Gate(APPROXIMATE, 0)
    for _ in range(3):
        gate.running_sum(2, 50, norm_bound=1.0, share=dc.Budget(1.0).split(3)[0].fraction)
    assert gate.spent.epsilon() <= 1.0
    assert gate.spent.epsilon() == pytest.approx(1.0, rel=1e-9)
    with pytest.raises(dc.BudgetExceeded):
        gate.running_sum(2, 50, norm_bound=1.0, share=0.01)
    with pytest.raises(dc.BudgetExceeded, match="nothing of this kind fits any more"):
        gate.running_sum(2, 50, norm_bound=1.0)


def test_by_default_a_sum_takes_what_is_left():
    gate = Gate(APPROXIMATE, 0)
    gate.gaussian(0.0, sigma=8.0, sensitivity=1.0)
    gate.running_sum(2, 50, norm_bound=1.0)
    assert 0.999 < gate.spent.epsilon() <= 1.0
    pure = Gate(PURE, 0)
    pure.laplace(0.0, scale=4.0, sensitivity=1.0)
    pure.running_sum(2, 50, method="tree", noise="laplace", norm_bound=1.0)
    assert pure.spent.epsilon() == 1.0


def test_a_shared_gate_does_not_come_back_twice(tmp_path):
    gate = Gate(APPROXIMATE, 0)
    first = gate.running_sum(2, 5, norm_bound=1.0, share=0.5)
    first.save(tmp_path / "alone")
    second = gate.running_sum(2, 5, norm_bound=1.0, share=0.25, method="tree")
    for total in (first, second):
        with pytest.raises(ValueError, match="other releases went through this sum's gate"):
            total.save(tmp_path / "no")
    again = Gate.from_state(gate.state())
    resumed = [type(t).from_state(*t.state(), again) for t in (first, second)]
    again.reserve(GaussianNoise(1.0, 1000.0))  # one budget: whatever is charged, all of them see
    assert len({str(one.spent) for one in (again, *(total.gate for total in resumed))}) == 1
    with pytest.raises(ValueError, match="already in use"):
        type(first).from_state(*first.state(), again)
    for total, twin in zip((first, second), resumed, strict=True):
        assert (total.add([0.1, 0.2]) == twin.add([0.1, 0.2])).all()


@pytest.mark.parametrize(("kind", "options", "budget"), CASES)
@pytest.mark.parametrize("stop", [0, 1, 6, 7, 8])
def test_saved_sums_go_on_identically(kind, options, budget, stop, tmp_path):
    vectors = np.random.default_rng(3).uniform(-0.3, 0.3, size=(12, 3))
    total = kind(3, 12, budget, norm_bound=1.0, seed=8, **options)
    for vector in vectors[:stop]:
        total.add(vector)
    total.save(tmp_path / "sum.discreet")
    again = kind.load(tmp_path / "sum.discreet")
    assert again.gate.spent.to_json() == total.gate.spent.to_json()
    for vector in vectors[stop:]:
        assert (again.add(vector) == total.add(vector)).all()
    assert again.taken == 12
    with pytest.raises(RuntimeError):
        again.add(vectors[0])


def _truncation(spec, event, neighbours, monkeypatch):
    """What a sum says that rounding adds to how far a person moves it, in steps of its grid."""
    seen = []

    def watched(scale, _, truncation, bits=32):
        seen.append(truncation)
        return samplers.Grid.at_least(Fraction(scale) / 2**bits, bits)

    with monkeypatch.context() as patch:
        patch.setattr(samplers.Grid, "for_noise", watched)
        spec.kind.grid(spec, event, neighbours)
    return seen[0]


@pytest.mark.parametrize(("neighbours", "changed"), [("replace", 8), ("add_remove", 4)])
@pytest.mark.parametrize("times", [None, 1, 3])
def test_rounding_is_paid_for_in_every_coordinate_that_moves(neighbours, changed, times, monkeypatch):
    """Two vectors of 10 coordinates end to end, 2 of each not 0, of 5 people; who comes back moves others."""
    together = None if times is None else Participation(times, apart=40)
    times = times or 1
    bounds = VectorBounds(10, 2, norm_bound=3.0, nonzeros=2, people_per_vector=5)
    spec = SumSpec(bounds, 5000, "sqrt", stacked=2, participation=together)
    event, slack = GaussianNoise(0.75, 2.0**-9), 0.75 * 2.0**9 / 2**8  # 2^-40 of the sensitivity
    found, largest = factorization("sqrt", 5000), 3.0 * math.sqrt(2.0) * 5
    more, error = 2 * (found.buffers + 1), 0.0
    for weight, decay in zip(found.weights, found.decays, strict=True):
        lasts = min(5000, 1 / (1 - decay))
        error += weight * largest * lasts * (4 * lasts + more)
    each = 1 + 1.01 * (error + largest * more) * 2.0**-53 * 2.0**32 * 2.0**9
    assert each > 1.2
    wanted = math.sqrt(5000 * min(20, times * changed)) * each + slack
    assert _truncation(spec, event, neighbours, monkeypatch) == pytest.approx(wanted, rel=1e-9)

    tree = SumSpec(bounds, 5000, "tree", stacked=2, participation=together)
    wanted = math.ceil(math.sqrt(changed)) * (tree.stretch if times > 1 else 1) + slack
    assert float(_truncation(tree, event, neighbours, monkeypatch)) == pytest.approx(wanted, rel=1e-9)
    alone = replace(tree, bounds=replace(bounds, people_per_vector=1))  # rounded towards 0, within its bounds
    assert _truncation(alone, event, neighbours, monkeypatch) == slack
    if together is None:
        linear = SumSpec(replace(bounds, norm=1), 5000, "tree", "laplace", stacked=2)
        pure = LaplaceNoise(0.75, 2.0**-9)
        assert _truncation(linear, pure, neighbours, monkeypatch) == changed + slack


def test_the_largest_coordinate_and_the_coarsest_grid():
    for box, norm_bound, largest in (
        ((-2.0, 1.0), 5.0, 8.0),
        ((-1.0, 2.0), None, 8.0),
        ((-2.0, 1.0), 1.5, 6.0),
    ):
        assert VectorBounds(3, 2, norm_bound, box, people_per_vector=4).largest == largest
    noise = LaplaceNoise(1.0, 1.0)
    for exponent in (34, 35):  # 3 vectors of 2^35 are 1.5 times 2^61 steps of 2^-24
        spec = SumSpec(VectorBounds(1, 1, 2.0**exponent), 3, "tree", "laplace")
        assert TreeSum.grid(spec, noise, "replace").bits == 59 - exponent
    with pytest.raises(ValueError, match="do not fit the noise's grid"):
        TreeSum.grid(replace(spec, bounds=VectorBounds(1, 1, 2.0**36)), noise, "replace")


@pytest.mark.parametrize("box", [(-3.0, 1.0), (-1.0, 4.0), (0.0, 2.0), (-3.0, 3.0), (-2.0, 0.0)])
@pytest.mark.parametrize("norm", [1, 2])
def test_differences_in_a_box_are_those_of_its_corners(box, norm):
    """All vectors whose entries are 0 or at an end: two in five entries that are not 0, and any of three."""
    for size, nonzeros in ((5, 2), (3, None)):
        corners = np.array(list(itertools.product((box[0], 0.0, box[1]), repeat=size)))
        corners = corners[np.count_nonzero(corners, axis=1) <= (nonzeros or size)]
        apart = np.linalg.norm(corners[:, None] - corners, norm, axis=2).max()
        bounds = VectorBounds(size, norm, box=box, nonzeros=nonzeros)
        assert bounds.difference("replace") == pytest.approx(apart)
        assert bounds.difference("add_remove") == pytest.approx(np.linalg.norm(corners, norm, axis=1).max())


def test_several_people_in_a_vector_have_as_many_times_the_room():
    bounds = VectorBounds(4, 2, box=(-1.0, 2.0), nonzeros=1, people_per_vector=3)
    assert bounds.checked([-3.0, 6.0, 1.0, 0.0], clip=False).tolist() == [-3.0, 6.0, 1.0, 0.0]
    assert bounds.checked([-9.0, 7.0, 0.0, 0.0], clip=True).tolist() == [-3.0, 6.0, 0.0, 0.0]
    for vector, said in (
        ([1.0, 1.0, 1.0, 1.0], "4 entries that are not 0"),
        ([0.0, 6.0, -3.1, 0.0], r"vector\[2\]=-3.1 is outside"),
        ([0.0, -3.0, 0.0, 6.1], r"vector\[3\]=6.1 is outside"),
    ):
        with pytest.raises(ValueError, match=said):
            bounds.checked(vector, clip=False)


@pytest.mark.filterwarnings("ignore::discreet.privacy.account.PublishedCalibrationWarning")
@pytest.mark.parametrize(("rounds", "levels"), [(1, 1), (2, 2), (5, 4), (8, 4), (9, 5)])
def test_the_published_scale_of_a_tree(rounds, levels):
    """Algorithm 4 of paper 001: the norm bound times ceil(log2 T) + 1, over epsilon."""
    total = TreeSum.published(3, rounds, dc.Budget(4.0), norm_bound=1.5)
    assert total.event.scale == Fraction(3, 2) * levels / 4


@pytest.mark.parametrize("method", ["sqrt", "tree"])
def test_noise_is_drawn_ahead_for_no_more_rounds_than_there_are(method):
    for dimension, block in ((2, 256), (1 << 11, 128), (1 << 19, 1)):
        block = (1 << 18) // dimension or 1 if method == "tree" else block
        spec = SumSpec(VectorBounds(dimension, 2, norm_bound=1.0), 300, method)
        total = spec.kind.of(spec, Gate(APPROXIMATE), ahead=True)
        for taken in (0, 100, 127, 255, 256, 299, 300):
            ahead = total._most_ahead(taken)
            blocks = block if method == "tree" else block - taken % block
            assert ahead == min(300 - taken, blocks)


def test_certificates_are_for_noise_as_it_is_drawn_which_pays_for_rounding():
    share = dc.Budget(1.0, 1e-9).share()
    spec = SumSpec(VectorBounds(1000, 2, norm_bound=1.0), 10**7)
    event = spec.event(share)
    wider = spec.noise_std(event, 10**7) / spec.deviation(event)
    assert spec.widening(event) == pytest.approx(wider, rel=1e-9)
    assert wider > 1.1
    spec = SumSpec(VectorBounds(1000, 2, norm_bound=1.0), 10**8)
    assert spec.widening(spec.event(share)) == math.inf  # and refused where it is made
    spec = SumSpec(VectorBounds(3000, 1, box=(0.0, 1.0), people_per_vector=9), 10**4, "tree", "laplace")
    assert 1.009 < spec.widening(spec.event(dc.Budget(1e-3).share())) < 1.01
    # What is certified at large horizons is beyond what it was with noise as asked for.
    for make, grows in ((dc.online.SubmodularMinimizer, 1.15), (_three_of, 1.005)):
        learner = make(1000, 10**7, dc.Budget(1.0, 1e-9), seed=0)
        with mock.patch.object(SumSpec, "widening", return_value=1.0):
            asked = learner.certified_regret
        assert learner.certified_regret > grows * asked


def _three_of(n_items, rounds, budget, seed):
    return dc.online.RunningSumSelector(n_items, 3, rounds, budget, seed=seed)


def test_what_a_specification_says_of_its_noise_and_its_releases():
    bounds, event = VectorBounds(3, 2, norm_bound=1.0), GaussianNoise(1.0, 5.0)
    for method, releases in (("sqrt", 1), ("tree", 3)):
        spec = SumSpec(bounds, 8, method)
        assert spec.deviation(event) == pytest.approx(5.0 * max(spec.error(step) for step in range(1, 9)))
        assert replace(spec, stacked=4).count == 4 * releases
        assert replace(spec, stacked=4, participation=Participation(2)).count == 4
    for noise, own in (("gaussian", 5.0), ("laplace", 5.0 * math.sqrt(2)), ("spherical", 5.0 * 2)):
        spec = SumSpec(replace(bounds, norm=1 if noise == "laplace" else 2), 8, "tree", noise)
        kind = {"gaussian": GaussianNoise, "laplace": LaplaceNoise, "spherical": SphericalLaplaceNoise}[noise]
        assert spec.noise_std(kind(1.0, 5.0), 7) == pytest.approx(own * math.sqrt(3))  # three blocks
    for rounds, apart in itertools.product((1, 2, 6, 7, 8), (1, 3, 9)):
        for times in (1, 2, 4):
            assert Participation(times, apart).within(rounds) == len(range(0, rounds, apart)[:times])
    several = VectorBounds(2, 2, norm_bound=1.0, people_per_vector=3)
    assert several.checked([0.0, 3.0], clip=False).tolist() == [0.0, 3.0]
    with pytest.raises(ValueError, match=r"L2 norm 3\.1"):
        several.checked([0.0, 3.1], clip=False)


def test_a_given_noise_is_for_the_sensitivity_up_to_its_last_digits():
    needed = SumSpec(VectorBounds(1, 2, norm_bound=1.0), 8, "tree").event(APPROXIMATE.share())
    for by in (1.0, 1.0 - 5e-13):
        given = replace(needed, sensitivity=needed.sensitivity * by)
        assert TreeSum(1, 8, APPROXIMATE, norm_bound=1.0, event=given).event == given
    given = replace(needed, sensitivity=needed.sensitivity * (1 - 1e-11))
    with pytest.raises(ValueError, match="one person can move"):
        TreeSum(1, 8, APPROXIMATE, norm_bound=1.0, event=given)
    with pytest.raises(ValueError, match=r"share=1\.5"):
        TreeSum(1, 8, APPROXIMATE, norm_bound=1.0, share=1.5)
