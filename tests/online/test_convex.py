"""Learners that play a point: the contract, privacy by exact audits, certificates, and bad input."""

from __future__ import annotations

import itertools
import json
import math
import warnings
from contextlib import nullcontext
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pytest
from scipy.optimize import minimize

import discreet as dc
from discreet.bounds import convex as bounds
from discreet.constraints.domains import Ball, Box, CappedSimplex, Domain, Simplex
from discreet.kernels.convex import Leader, RowLosses, shorten
from discreet.objectives.losses import Distance, Linear, Logistic, Squared
from discreet.online import ApproximateLeader, BanditApproximateLeader, LinearLeader, convex
from discreet.online.bandit_convex import BanditLeaderSettings
from discreet.online.convex import ApproximateLeaderSettings
from discreet.privacy import VectorBounds, prefix_sum, samplers, spend_from, tree_levels
from discreet.privacy.account import PublishedCalibrationWarning
from tests.online.learners import LEADERS
from tests.privacy.audit import exact_sum_loss

ROUNDS, SIZE = 30, 3
APPROXIMATE, PURE, FREE = dc.Budget(1.0, 1e-6), dc.Budget(1.0), dc.Budget(math.inf)
TWICE = dc.Budget(1.0, 1e-6, "add_remove", 2)
WIDE = Ball(2, 1e6)


def _quiet(make):
    """Published settings warn about what they deliver; that is shown in tests of its own."""

    def made(**more):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PublishedCalibrationWarning)
            return make(**more)

    return made


def _leader(budget=APPROXIMATE, domain=None, **options):
    options = {"lipschitz": 2.0} | options
    where = Ball(SIZE, 1.0) if domain is None else domain
    return _quiet(
        lambda seed=1, rounds=ROUNDS: ApproximateLeader(where, rounds, budget, seed=seed, **options)
    )


def _linear(budget=APPROXIMATE, domain=None, **options):
    where = Simplex(SIZE) if domain is None else domain
    options = {"box": (-1.0, 1.0)} | options
    return _quiet(lambda seed=1, rounds=ROUNDS: LinearLeader(where, rounds, budget, seed=seed, **options))


def _bandit(budget=PURE, domain=None, **options):
    where = Ball(SIZE, 1.0) if domain is None else domain
    options = {"lipschitz": 2.0, "bound": (0.0, 2.0)} | options
    if "calibration" not in options:
        options = {"exploration_radius": 0.2 * where.inner_radius} | options
    return _quiet(
        lambda seed=1, rounds=ROUNDS: BanditApproximateLeader(where, rounds, budget, seed=seed, **options)
    )


GRADIENT = {name: setting.make for name, setting in LEADERS.items()}


def _people(learner, count=ROUNDS):
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(count, SIZE))
    rows /= np.linalg.norm(rows, axis=1)[:, None]
    return Linear(rows / 2.0, row_norm=1.0) if isinstance(learner, LinearLeader) else Distance(rows / 3.0)


def _learn(learner, person, point, **options):
    """One person's answer: a cost function, or the number that a bandit learner sees."""
    learner.learn(person.value(point) if isinstance(learner, BanditApproximateLeader) else person, **options)


def _one_by_one(learner, people, start=0, stop=None, ids=None):
    points, costs = [], []
    for t in range(start, len(people) if stop is None else stop):
        point = learner.choose()
        points.append(point)
        costs.append(people[t].value(point))
        _learn(learner, people[t], point, person_id=None if ids is None else ids[t])
    return np.array(points), np.array(costs)


# --- the contract, beside what holds for all learners -------------------------------------------


def test_points_cannot_be_written_to_and_losses_have_their_dimension():
    for make in (_leader(), _linear(), _bandit()):
        with pytest.raises(ValueError, match="read-only"):
            make().choose()[0] = 5.0
        with pytest.raises(ValueError, match="the losses have 2 coordinates; the domain has 3"):
            make().run(Distance([[0.0, 0.0]]))


class Half(Domain):
    """Numbers of at most 1/2 in size: a set of somebody's own."""

    def __init__(self, size):
        self._set(np.zeros(size), 0.5, 0.9)

    def project(self, point):
        return np.clip(point, -0.5, 0.5)

    def _plain(self):
        return {"size": self.dimension}


def test_a_domain_of_ones_own_is_saved_and_a_function_is_not(tmp_path):
    for make in (_leader(domain=Half(SIZE)), _bandit(domain=Half(SIZE))):
        learner = make()
        people = _people(learner)
        whole = make().run(people).decisions
        _one_by_one(learner, people, stop=7)
        learner.save(tmp_path / "state")
        assert (dc.load(tmp_path / "state").run(people[7:]).decisions == whole[7:]).all()
    given = Domain.from_projection(Half(SIZE).project, SIZE, 0.5, 0.9)
    assert (_leader(domain=given)().run(people[:9]).decisions[0] == 0.0).all()
    with pytest.raises(TypeError, match="a subclass of Domain"):
        _leader(domain=given.shrunk(0.25))().save(tmp_path / "state")


def test_a_shrunk_domain_is_saved_with_the_learner(tmp_path):
    for domain in (Ball(SIZE).shrunk(0.25), Box([0.0] * SIZE, [1.0] * SIZE).shrunk(0.5).shrunk(0.5)):
        learner = _leader(domain=domain)()
        people = _people(learner)
        whole = _leader(domain=domain)().run(people).decisions
        _one_by_one(learner, people, stop=7)
        learner.save(tmp_path / "state")
        again = dc.load(tmp_path / "state")
        assert (again.run(people[7:]).decisions == whole[7:]).all()


@pytest.mark.parametrize("name", sorted(GRADIENT))
def test_an_interruption_after_the_sum_leaves_all_later_rounds(name, monkeypatch):
    """The sum has been taken, its point was never made: the last point is served once more."""
    learner = GRADIENT[name]()
    people = _people(learner)
    _one_by_one(learner, people, stop=3)
    last = learner._shown.copy()

    def interrupt(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(type(learner), "_leader", interrupt)
        with pytest.raises(KeyboardInterrupt):
            learner.choose()
    assert (learner.choose() == last).all()
    _one_by_one(learner, people, start=3)
    assert learner.over


# --- compiled rounds ----------------------------------------------------------------------------

_RNG = np.random.default_rng(12)
_ROWS = _RNG.normal(size=(700, SIZE)) * _RNG.uniform(0.1, 1.0, (700, 1))
COMPILED = {
    "logistic": Logistic(_ROWS, _RNG.integers(0, 2, 700), row_norm=10.0),
    "squared": Squared(_ROWS, _RNG.uniform(-2.0, 2.0, 700), target_bound=2.0, row_norm=10.0),
    "linear": Linear(_ROWS, row_norm=10.0),
    "distance": Distance(_ROWS, row_norm=10.0),
}
SETS = {"ball": Ball(SIZE, 0.7, [0.1, 0.0, -0.2]), "box": Box([-1.0, 0.0, -0.1], [0.5, 0.3, 0.2])}


class _Twin(Domain):
    """The same set, unknown to compiled loops."""

    def __init__(self, whole):
        self._whole = whole
        self._set(whole.center, whole.inner_radius, whole.outer_radius)

    def project(self, point):
        return self._whole.project(point)

    def _plain(self):
        return {}


@pytest.mark.parametrize("where", SETS)
@pytest.mark.parametrize("who", COMPILED)
@pytest.mark.parametrize("budget", [APPROXIMATE, TWICE, FREE], ids=["private", "two rounds each", "free"])
def test_compiled_rounds_are_the_rounds(who, where, budget, monkeypatch):
    """Whole streams, streams in pieces, and one by one: the same points to the last bit, over all blocks.

    And nearly the same ones without any compiled step: costs as functions, over a set that is not known.
    """
    monkeypatch.setattr(prefix_sum, "_ROWS_AHEAD", 64)
    people, domain = COMPILED[who], SETS[where]
    ids = [t % 150 if t % 3 else None for t in range(700)]
    options = {"lipschitz": 0.4, "clip": True, "strong_convexity": 1.0 if who == "distance" else 0.0}

    def make(over=domain):
        return ApproximateLeader(over, 700, budget, seed=5, **options)

    whole = make()
    trace = whole.run(people, person_ids=ids)
    single = make()
    points, costs = _one_by_one(single, people, ids=ids)
    assert (trace.decisions == points).all()
    assert np.allclose(trace.costs, costs, rtol=0, atol=1e-12)
    assert whole.insecure_clipped == single.insecure_clipped > 0
    pieces = make()
    for a, b in itertools.pairwise((0, 1, 63, 64, 66, 130, 391, 700)):
        assert (pieces.run(people[a:b], person_ids=ids[a:b]).decisions == points[a:b]).all()
    pairs = [(people[t].value, people[t].gradient) for t in range(700)]
    slow = make(_Twin(domain)).run(pairs, person_ids=ids)
    assert np.allclose(slow.decisions, points, rtol=0, atol=1e-9)


def test_compiled_rounds_are_used_and_only_where_nothing_can_be_refused(monkeypatch):
    used = []

    class Watched(Leader):
        def run(self, *arguments):
            used.append(1)
            return super().run(*arguments)

    monkeypatch.setattr(convex, "Leader", Watched)
    people = COMPILED["distance"]
    _leader(lipschitz=12.0)().run(people)
    assert used
    used.clear()
    learner = _leader(lipschitz=1.0)(rounds=700)
    with pytest.raises(ValueError, match="beyond lipschitz=1"):
        learner.run(people)
    assert not used
    assert 0 < learner.round < 700  # as one by one: those before the one that is refused
    _leader(lipschitz=1.0, clip=True, sums="tree")().run(people)
    _leader(lipschitz=1.0, clip=True, domain=Simplex(SIZE))().run(people)

    class Own(Distance):
        def at(self, person, point):
            return super().at(person, point)

    _leader(lipschitz=1.0, clip=True)().run(Own(_ROWS, row_norm=10.0))
    assert not used


def test_an_interrupted_stretch_gives_nothing_more(monkeypatch, tmp_path):
    """Ctrl-C in compiled rounds: who came is in no later answer, and no file counts them twice."""

    class Interrupted(Leader):
        def run(self, *arguments):
            super().run(*arguments)
            raise KeyboardInterrupt

    monkeypatch.setattr(convex, "Leader", Interrupted)
    learner = _leader(lipschitz=12.0)(rounds=700)
    with pytest.raises(KeyboardInterrupt):
        learner.run(COMPILED["distance"], person_ids=range(700))
    with pytest.raises(RuntimeError, match="interrupted half-way"):
        learner.save(tmp_path / "state")
    learner.learn(COMPILED["distance"][0])
    with pytest.raises(RuntimeError, match="interrupted half-way"):
        learner.choose()


def test_vectors_are_shortened_whatever_their_size():
    for size in (1e-310, 1e-200, 1.0, 1e200, 1e308):
        vector = np.array([0.6, -0.8, 0.0]) * size
        length = shorten(vector, 0.5 * size)
        assert length == pytest.approx(size, rel=1e-9)
        assert np.allclose(vector / size, [0.3, -0.4, 0.0], rtol=0, atol=1e-9)
        assert shorten(vector, 0.6 * size) == pytest.approx(0.5 * size, rel=1e-9)
    assert shorten(np.zeros(2), 1.0) == 0.0


def test_losses_that_lead_outside_of_their_arrays_are_refused():
    rows, point = np.ones((3, 2)), np.zeros(2)
    with pytest.raises(ValueError, match="kind=4 is not a kind of cost"):
        RowLosses(4, rows, np.ones(3))
    with pytest.raises(ValueError, match="a row and a number for each person"):
        RowLosses(0, rows, np.ones(2))
    losses = RowLosses(0, rows, np.ones(3))
    for person in (-1, 3):
        with pytest.raises(IndexError, match="are not among 3"):
            losses.cost_and_gradient(person, point)
    with pytest.raises(IndexError, match="people 2 to 4 are not among 3"):
        losses.costs(2, point, np.empty(2))
    with pytest.raises(ValueError, match="point has 3 entries; 2 expected"):
        losses.cost_and_gradient(0, np.zeros(3))


# --- what is computed ---------------------------------------------------------------------------


@pytest.mark.parametrize("domain", [Ball(3, 0.5, [0.1, 0.0, 0.0]), Box([0.0] * 3, [0.3] * 3), Simplex(3)])
@pytest.mark.parametrize(("curved", "regularization"), [(0.7, 0.0), (0.0, 2.0), (0.7, 2.0)])
def test_the_closed_form_is_the_minimizer(domain, curved, regularization):
    """Without noise every point is the minimizer of the quadratics, as a general solver finds it."""
    rng = np.random.default_rng(0)
    costs = rng.normal(size=(6, 3))
    learner = ApproximateLeader(
        domain, 6, FREE, lipschitz=10.0, strong_convexity=curved, regularization=regularization, seed=0
    )
    points = learner.run([(lambda _: 0.0, lambda _, c=c: c) for c in costs]).decisions

    def objective(w, t):
        known = zip(costs[:t], points[:t], strict=True)
        quadratics = sum(c @ w + curved / 2 * ((w - p) ** 2).sum() for c, p in known)
        return quadratics + regularization / 2 * ((w - domain.center) ** 2).sum()

    for t in range(1, 6):
        ways = domain.project(points[t] + rng.normal(size=(3,)) * 0.1)
        found = minimize(lambda w, t=t: objective(domain.project(w), t), ways, method="Nelder-Mead").x
        assert objective(points[t], t) <= objective(domain.project(found), t) + 1e-7


@pytest.mark.parametrize("noise", ["laplace", "spherical", "gaussian"])
def test_noise_of_linear_leaders_never_shrinks(noise):
    """Pure trees: every sum carries as much noise as any other; Gaussian ones: never less than before."""
    rounds, runs = 9, 500
    budget = APPROXIMATE if noise == "gaussian" else PURE
    options = {"lipschitz": 1.0, "rate": 1.0, "sums": "tree", "noise": noise}
    points = []
    for seed in range(runs):
        learner = LinearLeader(WIDE, rounds, budget, seed=seed, **options)
        points.append(learner.run(np.zeros((rounds, 2))).decisions[1:])
    found = (np.array(points) ** 2).mean(axis=(0, 2))
    unit = learner._total.sum.noise_std(1) ** 2
    wanted = np.full(rounds - 1, 3.0 * unit)
    if noise == "gaussian":
        stds = [learner._total.sum.noise_std(t) for t in range(1, rounds)]
        wanted = np.maximum.accumulate(np.array(stds) ** 2)
    # fourth moments are at most 6 times squared second ones: a mean of 500 is within 6 sqrt(5/500)
    assert (np.abs(found / wanted - 1.0) <= 0.6).all()
    assert (found >= 0.6 * found[0]).all()


@pytest.mark.parametrize("noise", ["laplace", "spherical"])
def test_public_noise_that_makes_up_for_a_draw_is_as_wide_as_one(noise):
    total, rng = _linear(PURE)()._total, np.random.default_rng(0)
    about = SimpleNamespace(most_draws=3, stacked=1, bounds=SimpleNamespace(dimension=SIZE))
    tree = SimpleNamespace(draws=lambda taken: taken)
    known = SimpleNamespace(noise=noise, taken=2, noise_std=lambda _: 5.0, spec=about, tree=tree)
    drawn = [total._top_up(rng, known) for _ in range(4000)]
    assert np.std(drawn, axis=0) == pytest.approx([5.0] * SIZE, rel=0.08)


@pytest.mark.parametrize("lipschitz", [1e-7, 0.3, 7e5])
def test_no_gradient_is_longer_than_declared_by_a_rounding(lipschitz):
    """What is kept, in exact numbers; and what is refused, or counted, is longer than rounding makes it."""
    learner, rng = _leader(lipschitz=lipschitz, clip=True)(), np.random.default_rng(0)
    for direction in rng.standard_normal((200, SIZE)):
        kept, long = learner._bounded(2.0 * lipschitz * direction / np.linalg.norm(direction))
        squares = sum(Fraction(float(x)) ** 2 for x in kept)
        assert 1.0 - 1e-13 < squares / Fraction(lipschitz) ** 2 <= 1
        assert long
    linear = LinearLeader(Ball(SIZE), 10, APPROXIMATE, lipschitz=lipschitz, clip=True, seed=0)
    for more, counted in ((5e-13, False), (2e-12, True), (1e-6, True)):
        gradient = np.array([0.0, lipschitz * (1.0 + more), 0.0])
        assert learner._bounded(gradient)[1] == linear._bounded(gradient)[1] == counted
        with pytest.raises(ValueError, match="beyond lipschitz") if counted else nullcontext():
            _leader(lipschitz=lipschitz)()._bounded(gradient)


def test_clipping_shortens_and_counts():
    learner = _leader(clip=True, lipschitz=0.5)()
    for length in (0.4, 3.0, 0.5, 1e200):
        learner.choose()
        learner.learn((lambda _: 0.0, lambda _, length=length: [0.0, length, 0.0]))
        assert np.linalg.norm(learner._total.pending) <= 0.5 * (1 + 1e-12)
    assert learner.insecure_clipped == 2
    public = (
        str(learner.privacy) + repr(learner.privacy) + repr(learner) + json.dumps(learner.privacy.to_json())
    )
    assert "clip" not in public + json.dumps(learner.privacy.spent.to_json())
    quiet = _leader(clip=True, lipschitz=0.5)()
    for _ in range(4):
        quiet.choose()
        quiet.learn((lambda _: 0.0, lambda _: [0.0, 0.1, 0.0]))
    assert quiet.privacy.to_json() == learner.privacy.to_json()
    assert repr(quiet) == repr(learner)
    strict = _leader(lipschitz=0.5)()
    strict.choose()
    with pytest.raises(ValueError, match=r"length 3, beyond lipschitz=0.5; declare a larger bound"):
        strict.learn((lambda _: 0.0, lambda _: [0.0, 3.0, 0.0]))


# --- privacy ------------------------------------------------------------------------------------


class _Played:
    """A learner seen as a sum: a cost vector goes in, the next point comes out, linear in the noise."""

    def __init__(self, learner):
        self.learner = learner

    def add(self, vector):
        self.learner.choose()
        self.learner.learn((lambda _: 0.0, lambda _: vector))
        return self.learner.choose()


LONG = np.array([2.0, 0.0])
STREAM = [np.array([0.3, 0.1]), LONG, np.array([0.0, -0.5]), np.array([0.1, 0.1])]
OTHER = [STREAM[0], -LONG, *STREAM[2:]]
AUDITED = {"lipschitz": 2.0, "strong_convexity": 0.5, "regularization": 1.0}


def _audited(sums="auto", budget=APPROXIMATE, **options):
    more = AUDITED | {"sums": sums} | options
    return lambda: _Played(ApproximateLeader(WIDE, 5, budget, seed=0, **more))


@pytest.fixture
def row_by_row(monkeypatch):
    """Audits move one noise vector at a time, so each has to be a draw of its own."""
    monkeypatch.setattr(prefix_sum, "_ROWS_AHEAD", 1)


@pytest.mark.usefixtures("row_by_row")
@pytest.mark.parametrize("sums", ["sqrt", "blt", "tree"])
def test_points_are_as_private_as_the_budget(sums):
    """Exact: everything that is published about two neighbouring streams, at the worst pair of gradients."""
    loss = exact_sum_loss(_audited(sums), STREAM, OTHER, norm=2)
    assert 0.7 * APPROXIMATE.mu <= loss <= APPROXIMATE.mu * (1 + 1e-6)
    one = dc.Budget(1.0, 1e-6, "add_remove")
    nobody = [STREAM[0], np.zeros(2), *STREAM[2:]]
    assert exact_sum_loss(_audited(sums, one), STREAM, nobody, norm=2) <= one.mu * (1 + 1e-6)
    twice = dc.Budget(1.0, 1e-6, max_rounds_per_person=2)
    both = [-LONG, -LONG, *STREAM[2:]], [LONG, LONG, *STREAM[2:]]
    assert exact_sum_loss(_audited(sums, twice), *both, norm=2) <= twice.limit_mu() * 2 * (1 + 1e-6)


def test_laplace_tree_points_are_pure():
    make = _audited("tree", PURE, noise="laplace")
    diagonal = np.array([1.0, 1.0]) * math.sqrt(2.0)
    here, there = ([sign * diagonal, *STREAM[1:]] for sign in (1.0, -1.0))
    assert 0.9 <= exact_sum_loss(make, here, there, norm=1) <= 1.0 + 1e-6


def _compiled_loss(here, there, *, rows_ahead, budget=APPROXIMATE, **options):
    """Exact mu of whole compiled streams of linear costs: every number of the noise is moved, one by one."""
    draws: list[int] = []

    def points(rows, bump=None):
        draws.clear()

        def scripted(_, count, *, gaussian):
            assert gaussian
            noise = np.zeros(count, dtype=np.int64)
            if bump is not None and bump[0] == len(draws):
                noise[bump[1]] = 1 << samplers.STEPS_BITS
            draws.append(count)
            return noise

        with (
            mock.patch.object(samplers, "noise_steps", scripted),
            mock.patch.object(prefix_sum, "_ROWS_AHEAD", rows_ahead),
        ):
            learner = ApproximateLeader(WIDE, len(rows), budget, seed=0, **AUDITED, **options)
            return learner.run(Linear(rows, row_norm=2.0 if not learner.clip else 10.0)).decisions[1:].ravel()

    quiet = points(here)
    bumps = [(draw, place) for draw, count in enumerate(draws) for place in range(count)]
    noise = np.array([points(here, bump) - quiet for bump in bumps]).T
    moved = quiet - points(there)
    shift, *_ = np.linalg.lstsq(noise, moved, rcond=1e-9)
    assert np.allclose(noise @ shift, moved, rtol=0, atol=1e-6 * np.abs(moved).max())
    return float(np.linalg.norm(shift))


@pytest.mark.parametrize("rows_ahead", [1, 3, 256])
@pytest.mark.parametrize("sums", ["sqrt", "blt"])
def test_compiled_streams_are_as_private_as_the_budget(sums, rows_ahead):
    here, there = ([*rows, np.zeros(2), np.zeros(2)] for rows in (STREAM, OTHER))
    loss = _compiled_loss(here, there, rows_ahead=rows_ahead, sums=sums)
    assert 0.7 * APPROXIMATE.mu <= loss <= APPROXIMATE.mu * (1 + 1e-6)
    one = dc.Budget(1.0, 1e-6, "add_remove")
    nobody = [here[0], np.zeros(2), *here[2:]]
    assert _compiled_loss(here, nobody, rows_ahead=rows_ahead, sums=sums, budget=one) <= one.mu * (1 + 1e-6)
    long = [here[0], 4.0 * LONG, *here[2:]], [here[0], -4.0 * LONG, *here[2:]]
    clipped = _compiled_loss(*long, rows_ahead=rows_ahead, sums=sums, clip=True)
    assert 0.7 * APPROXIMATE.mu <= clipped <= APPROXIMATE.mu * (1 + 1e-6)


def test_the_audit_catches_compiled_gradients_that_are_not_clipped(monkeypatch):
    monkeypatch.setattr(ApproximateLeaderSettings, "longest", property(lambda _: 100.0))
    long = ([STREAM[0], sign * 4.0 * LONG, *STREAM[2:]] for sign in (1.0, -1.0))
    assert 3.0 * APPROXIMATE.mu <= _compiled_loss(*long, rows_ahead=256, clip=True) < math.inf


@pytest.mark.usefixtures("row_by_row")
def test_linear_leader_points_are_as_private_as_the_budget():
    """Signed entries move by twice their size; entries in [0, 1] by 1."""
    signed = [np.array([0.3, 0.1]), np.ones(2), np.zeros(2), np.ones(2)]
    other = [signed[0], -np.ones(2), *signed[2:]]
    make = lambda: _Played(LinearLeader(WIDE, 5, APPROXIMATE, box=(-1.0, 1.0), rate=1e-3, seed=0))  # noqa: E731
    assert 0.9 * APPROXIMATE.mu <= exact_sum_loss(make, signed, other, norm=2) <= APPROXIMATE.mu * (1 + 1e-6)
    unit = [np.abs(v) for v in signed], [signed[0], np.zeros(2), *signed[2:]]
    make = lambda: _Played(LinearLeader(WIDE, 5, APPROXIMATE, box=(0.0, 1.0), rate=1e-3, seed=0))  # noqa: E731
    assert 0.9 * APPROXIMATE.mu <= exact_sum_loss(make, *unit, norm=2) <= APPROXIMATE.mu * (1 + 1e-6)


@pytest.mark.usefixtures("row_by_row")
def test_the_audit_catches_noise_for_the_norm_alone(monkeypatch):
    """Injected fault: L instead of 2L, the papers' slip."""
    honest = VectorBounds.difference
    monkeypatch.setattr(VectorBounds, "difference", lambda self, _: honest(self, "add_remove"))
    assert 1.5 * APPROXIMATE.mu <= exact_sum_loss(_audited("sqrt"), STREAM, OTHER, norm=2) < math.inf


@pytest.mark.usefixtures("row_by_row")
def test_the_audit_catches_gradients_that_are_not_clipped(monkeypatch):
    """Injected fault: a gradient five times too long goes in as it is; clipped, it is covered."""
    here, there = ([STREAM[0], 5.0 * sign * LONG, *STREAM[2:]] for sign in (1.0, -1.0))
    clipped = _audited("sqrt", clip=True)
    assert exact_sum_loss(clipped, here, there, norm=2) <= APPROXIMATE.mu * (1 + 1e-6)
    monkeypatch.setattr(ApproximateLeader, "_bounded", lambda _, gradient: (gradient, False))
    monkeypatch.setattr(VectorBounds, "checked", lambda _, values, **__: np.asarray(values, dtype=float))
    assert 4.0 * APPROXIMATE.mu <= exact_sum_loss(clipped, here, there, norm=2) < math.inf


@pytest.mark.parametrize("epsilon", [0.7, 40.0])
def test_published_noise_is_for_costs_with_their_regularizer(epsilon):
    """Section 2.1 runs Algorithm 1 on f + H/2 |w|^2: a tree for the norm L + H R, where people move 2 L.

    The bandit form sees values of such costs, up to B + H R^2 / 2. Stored numbers say only that this stays.
    """
    budget, rounds, levels = dc.Budget(epsilon), 1000, 10
    grown = 2.0 / 6.0 * 2 * math.log(rounds) ** 2.5 / (epsilon * math.sqrt(rounds))
    leader = _leader(budget, calibration="published", domain=Ball(2, 3.0), lipschitz=2.0)(rounds=rounds)
    assert leader.settings.growing == pytest.approx(grown)
    assert float(leader.settings.event.scale) == pytest.approx((2.0 + grown * 3.0) * levels / epsilon)
    assert leader.privacy.epsilon() == pytest.approx(2 * 2.0 * epsilon / (2.0 + grown * 3.0))
    seen = _bandit(budget, Ball(1, 20.0), calibration="published", bound=2.0)(rounds=rounds)
    value = 2.0 + seen.settings.growing * 20.0**2 / 2.0
    assert seen.settings.growing > 0.0
    steep = rounds ** (1 / 4)
    assert float(seen.settings.event.scale) == pytest.approx(steep * value * levels / epsilon)
    assert seen.privacy.epsilon() == pytest.approx(2 * 2.0 * epsilon / value)


@pytest.mark.parametrize(
    ("adversary", "curved", "power"),
    [
        ("oblivious", 0.5, 2 / 3),
        ("adaptive", 0.5, 3 / 4),
        ("oblivious", 0.0, 3 / 4),
        ("adaptive", 0.0, 3 / 4),
    ],
)
def test_published_bandit_constants_have_the_printed_exponents(adversary, curved, power):
    """Theorem 6, and T^(3/4) without curvature: what noise, regularizer, exploring and watching cost."""

    def cost(rounds):
        share = spend_from(PURE, None)
        how = {"lipschitz": 1.0, "bound": 1.0, "strong_convexity": curved, "adversary": adversary}
        found = BanditLeaderSettings.published(share, domain=Ball(2), rounds=rounds, **how)
        beta, grown = found.exploration_radius, found.growing / math.log(rounds) ** 1.25
        long = 2 / beta
        noise = 2 * float(found.event.scale) / tree_levels(rounds)
        watched = long * math.sqrt(rounds) if adversary == "adaptive" else 0.0
        return long * (long + noise) / (curved + grown) + grown * rounds + beta * rounds + watched

    first, last = 10**15, 10**18  # powers of the logarithm left out
    assert math.log(cost(last) / cost(first)) / math.log(last // first) == pytest.approx(power, abs=0.02)


@pytest.mark.parametrize("neighbours", ["replace", "add_remove"])
@pytest.mark.parametrize("delta", [0.0, 1e-6, 0.05])
def test_published_noise_is_the_papers_whatever_the_delta(neighbours, delta):
    """A delta in the budget buys no less noise: what the papers print is pure, and so is the account."""
    budget, rounds = dc.Budget(0.7, delta, neighbours), 1 << 20
    twice = 2.0 if neighbours == "replace" else 1.0
    leader = _quiet(
        lambda: ApproximateLeader(
            Ball(2), rounds, budget, lipschitz=2.0, strong_convexity=0.5, calibration="published", seed=0
        )
    )()
    assert float(leader.settings.event.scale) == pytest.approx(2.0 * 20 / 0.7, rel=1e-9)
    linear = _quiet(
        lambda: LinearLeader(Simplex(3), rounds, budget, box=(-1.0, 1.0), calibration="published", seed=0)
    )()
    assert float(linear.settings.event.scale) == pytest.approx(3.0 * 20 / 0.7, rel=1e-9)
    bandit = _quiet(
        lambda: BanditApproximateLeader(
            Ball(1, 10.0),
            rounds,
            budget,
            lipschitz=1.0,
            bound=1.0,
            strong_convexity=0.5,
            calibration="published",
            seed=0,
        )
    )()
    norm = 1.0 / bandit.exploration_radius
    assert float(bandit.settings.event.scale) == pytest.approx(norm * 20 / 0.7, rel=1e-9)
    for learner in (leader, linear, bandit):
        assert learner.privacy.epsilon() == pytest.approx(0.7 * twice)


def _bandit_shift(make, here, there):
    """Noise that turns one stream's points into the other's, in units of its scale; infinite if none does."""

    def points(costs, moved=0):
        draws = iter([moved])

        def scripted(_, count, *, gaussian):
            assert not gaussian
            return np.full(count, next(draws, 0), dtype=np.int64)

        with mock.patch.object(samplers, "noise_steps", scripted):
            learner = make()
            seen = []
            for cost in costs:
                seen.append(learner.choose())
                learner.learn(cost)
            return np.array(seen), learner

    learner = make()
    for cost in here[: learner.batch]:
        learner.choose()
        learner.learn(cost)
    first = learner._total.pending
    learner = make()
    for cost in there[: learner.batch]:
        learner.choose()
        learner.learn(cost)
    shift = int(first) - int(learner._total.pending)
    same = np.array_equal(points(here)[0], points(there, shift)[0])
    return abs(shift) / 2.0**samplers.STEPS_BITS if same else math.inf


@pytest.mark.parametrize(("neighbours", "worst"), [("replace", 0.0), ("add_remove", 1.0)])
def test_bandit_points_are_pure(neighbours, worst):
    """Moving one Laplace draw by at most epsilon scales turns one stream's points into its neighbour's."""
    budget = dc.Budget(0.8, 0.0, neighbours)
    make = _bandit(budget, batch=4)
    here, there = [0.5, 2.0, 1.0, 0.3, *[1.5] * 8], [0.5, worst, 1.0, 0.3, *[1.5] * 8]
    assert 0.999 * 0.8 <= _bandit_shift(make, here, there) <= 0.8


def test_the_audit_catches_bandit_noise_for_half_the_range(monkeypatch):
    make = _bandit(dc.Budget(0.8), batch=4)
    here, there = [2.0] * 12, [0.0] + [2.0] * 11
    monkeypatch.setattr(BanditLeaderSettings, "moves", property(lambda settings: settings.half))
    assert 1.5 < _bandit_shift(make, here, there) < math.inf


def test_isotropic_coordinates_are_those_of_a_cube():
    """The same learner on the unit cube, of costs as they look there, shows the same points, stretched.

    What a person can move, and the noise, stay as they are: they are about costs.
    """
    low, high, rounds = np.array([0.0, 2.0]), np.array([4.0, 2.1]), 400
    thin, cube, half = Box(low, high), Box([-1.0, -1.0], [1.0, 1.0]), (high - low) / 2
    costs = [float(cost) for cost in np.random.default_rng(0).uniform(-1.0, 1.0, rounds)]
    shared = {"bound": 1.0, "regularization": 2.0, "exploration_radius": 0.5}
    long = BanditApproximateLeader(thin, rounds, PURE, lipschitz=1.0, isotropic=True, seed=3, **shared)
    plain = BanditApproximateLeader(cube, rounds, PURE, lipschitz=2.0, seed=3, **shared)
    for cost in costs:
        x, z = long.choose(), plain.choose()
        assert x == pytest.approx(low + half + half * z)
        assert thin.contains(x)
        long.learn(cost)
        plain.learn(cost)
    assert long.settings.event == plain.settings.event
    assert long.settings.slope == plain.settings.slope == 2.0
    assert long.certified_regret == pytest.approx(plain.certified_regret)


def test_isotropic_coordinates_certify_thin_boxes():
    thin, rounds = Box([-1.0, -0.01], [1.0, 0.01]), 10**7
    options = {"lipschitz": 1.0, "bound": 1.0, "seed": 0}
    plain, better = (
        BanditApproximateLeader(thin, rounds, PURE, isotropic=isotropic, **options).certified_regret
        for isotropic in (False, True)
    )
    assert better < 0.3 * plain
    curved = BanditApproximateLeader(thin, rounds, PURE, isotropic=True, strong_convexity=0.5, **options)
    assert curved.settings.curvature == pytest.approx(0.5 * 1e-4)
    published = _quiet(
        lambda: BanditApproximateLeader(
            thin, rounds, PURE, isotropic=True, calibration="published", **options
        )
    )()
    assert published.exploration_radius == pytest.approx(2 / rounds ** (1 / 4))
    with pytest.raises(ValueError, match=r"is for a domains\.Box"):
        BanditApproximateLeader(Ball(2), rounds, PURE, isotropic=True, **options)


# --- certificates -------------------------------------------------------------------------------


EXACT = {
    "Lipschitz": lambda rounds: ApproximateLeader(Ball(1), rounds, FREE, lipschitz=1.0, seed=0),
    "linear, ball": lambda rounds: LinearLeader(Ball(1), rounds, FREE, lipschitz=1.0, seed=0),
    "linear, experts": lambda rounds: LinearLeader(Simplex(2), rounds, FREE, box=(-1.0, 1.0), seed=0),
    "curved": lambda rounds: ApproximateLeader(
        Ball(1), rounds, FREE, lipschitz=2.0, strong_convexity=1.0, seed=0
    ),
}


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("rounds", [1, 2, 3, 7])
def test_the_worst_of_all_short_streams_is_within_the_certificate(name, rounds):
    """Without noise every stream of extreme costs can be tried; the certificate is not far above."""
    worst = -math.inf
    for signs in itertools.product((-1.0, 1.0), repeat=rounds):
        rows = np.array(signs)[:, None]
        if name == "curved":
            people = Distance(rows)
            best = people.best(Ball(1))[1] * rounds
        elif name == "linear, experts":
            people = Linear(np.hstack([rows, -rows]), box=(-1.0, 1.0))
            best = -abs(sum(signs))
        else:
            people, best = Linear(rows, row_norm=1.0), -abs(sum(signs))
        learner = EXACT[name](rounds)
        worst = max(worst, learner.run(people).total - best)
    assert worst <= learner.certified_regret + 1e-9
    assert worst >= (0.3 if name == "curved" else 0.75) * learner.certified_regret


@pytest.mark.parametrize("dimension", [1, 10])
@pytest.mark.parametrize("epsilon", [1.0, 100.0])
def test_an_adversary_who_follows_the_noise_is_within_the_certificate(dimension, epsilon):
    """Every gradient points where the noise has just driven the learner; small noise: always the same way."""
    rounds, runs, regrets = 40, 30, []
    for seed in range(runs):
        budget = dc.Budget(epsilon, 1e-6)
        learner = ApproximateLeader(Ball(dimension), rounds, budget, lipschitz=1.0, seed=seed)
        total, summed, first = 0.0, np.zeros(dimension), np.eye(dimension)[0]
        for _ in range(rounds):
            point = learner.choose()
            away = float(np.linalg.norm(point))
            gradient = point / away if away > 1e-9 and epsilon == 1.0 else first
            total += float(gradient @ point)
            summed += gradient
            learner.learn((lambda _: 0.0, lambda _, g=gradient: g))
        regrets.append(total + float(np.linalg.norm(summed)))
    # a regret is between -2 and 2 a round, most of it the same in all runs; five times the mean's deviation
    slack = 5.0 * float(np.std(regrets)) / math.sqrt(runs)
    assert np.mean(regrets) <= learner.certified_regret + slack
    assert np.mean(regrets) >= 0.3 * learner.certified_regret


@pytest.mark.parametrize("noise", ["gaussian", "laplace", "spherical"])
def test_certificates_of_linear_costs_are_the_published_sums(noise):
    """Learning and noise, term by term; the noise is that of draws, and the rate is the best one."""
    rounds, size, budget = 100_000, 5, dc.Budget(8.0, 1e-6) if noise == "gaussian" else dc.Budget(8.0)
    options = {"noise": noise, "lipschitz": 2.0} | ({} if noise == "gaussian" else {"sums": "tree"})
    experts = LinearLeader(Simplex(size), rounds, budget, **options).settings
    ball = LinearLeader(Ball(size, 3.0), rounds, budget, **options).settings
    rng, spec = np.random.default_rng(7), experts.spec
    unit, draws = spec.noise_std(experts.event, 1), 1 if noise == "gaussian" else spec.most_draws
    if noise == "gaussian":
        drawn = spec.noise_std(experts.event, spec.rounds) * rng.standard_normal((20_000, size))
    elif noise == "laplace":
        drawn = rng.laplace(0.0, unit / math.sqrt(2.0), (20_000, draws, size)).sum(axis=1)
    else:
        ways = rng.standard_normal((20_000, draws, size))
        ways /= np.linalg.norm(ways, axis=2, keepdims=True)
        lengths = rng.gamma(size, unit / math.sqrt(size + 1.0), (20_000, draws, 1))
        drawn = (lengths * ways).sum(axis=1)
    highest = drawn.max(axis=1).mean()
    assert highest <= experts.noise_maximum <= (2.5 if noise == "spherical" else 1.6) * highest
    assert experts.noise_length == pytest.approx(math.sqrt((drawn**2).sum(axis=1).mean()), rel=0.03)
    if noise == "laplace":
        exactly = dc.bounds.laplace_maximum(size, unit / math.sqrt(2.0), draws)
        assert experts.noise_maximum == pytest.approx(exactly)
    assert LinearLeader(Simplex(size), rounds, budget, box=(-1.0, 2.0)).settings.spread == 3.0
    width = math.sqrt(2.0) * 2.0
    parts = math.log(size) / experts.rate + experts.rate * rounds * width**2 / 8.0
    assert experts.certified_regret == pytest.approx(parts + experts.noise_maximum)
    parts = 3.0**2 / (2 * ball.rate) + ball.rate * rounds * 2.0**2 / 2
    assert ball.certified_regret == pytest.approx(parts + 3.0 * ball.noise_length)
    for one in (experts, ball):
        for factor in (0.8, 1.25):
            assert replace(one, rate=factor * one.rate).certified_regret > one.certified_regret


def test_the_leader_is_where_all_slopes_cancel():
    """Of gradients, of quadratics around the points that were played, and of those around the center."""
    inside, settings = Ball(2, 100.0, [1.0, -1.0]), SimpleNamespace(regularization=1.5, growing=0.5)
    played = np.array([[1.0, 0.0], [3.0, 2.0], [0.0, -4.0]])
    slopes = np.array([[0.5, 1.0], [-2.0, 0.0], [1.0, 7.0]])
    point = convex.approximate_leader(settings, 2.0, inside, 3, played.sum(axis=0), slopes.sum(axis=0))
    around = 2.0 * (point - played).sum(axis=0) + (1.5 + 3 * 0.5) * (point - inside.center)
    assert slopes.sum(axis=0) + around == pytest.approx([0.0, 0.0], abs=1e-12)


def test_certificates_have_units():
    """Costs in other units: everything is multiplied, however small or large the unit."""
    question = (1000, 1.0, 2.0, 4.0, 50.0)
    for curved in (0.0, 0.3):
        strength = bounds.best_regularization(*question, curved)
        regret = bounds.approximate_leader(*question, curved, strength)
        for unit in (1e-200, 1e-3, 1e200):
            scaled = (1000, unit, 2.0, 4.0, 50.0 * unit)
            assert bounds.best_regularization(*scaled, curved * unit) == pytest.approx(strength * unit)
            again = bounds.approximate_leader(*scaled, curved * unit, strength * unit)
            assert again == pytest.approx(regret * unit)
    tiny = _leader(lipschitz=1e-100, clip=True)()
    points = tiny.run(_people(tiny)).decisions
    assert all(tiny.domain.contains(point) for point in points)
    assert np.isfinite(points).all()


@pytest.mark.parametrize("budget", [dc.Budget(0.5, 1e-6), dc.Budget(0.5)], ids=["Gaussian", "pure"])
@pytest.mark.parametrize("domain", [Ball(3), Simplex(3)], ids=["ball", "experts"])
def test_noise_that_drowns_linear_costs_is_in_their_certificate(budget, domain):
    """The measured regret is more than learning alone may cost, and no more than is certified."""
    rounds, totals = 150, []
    people = Linear(np.tile([1.0, -1.0, 0.0], (rounds, 1)), box=(-1.0, 1.0))
    for seed in range(8):
        learner = LinearLeader(domain, rounds, budget, box=(-1.0, 1.0), seed=seed)
        totals.append(learner.run(people).total - rounds * people.best(domain)[1])
    quiet = LinearLeader(domain, rounds, FREE, box=(-1.0, 1.0), seed=0)
    assert quiet.rate == learner.rate
    assert quiet.certified_regret < np.mean(totals) <= learner.certified_regret


def test_gradient_estimates_are_as_large_as_the_certificate_says():
    """Mean square of a batch's estimate, noise included, for costs at the end of their range."""
    learner, squares = _bandit(batch=4)(rounds=16_001), []
    for _ in range(4000):
        learner.choose()
        before = learner._estimates
        for _ in range(4):
            learner.choose()
            learner.learn(2.0)
        learner.choose()
        squares.append(float(((learner._estimates - before) ** 2).sum()))
    scale = float(learner.settings.event.scale)
    square = 4.0**2 + 2.0 * scale**2
    fourth = 4.0**4 + 6.0 * 4.0**2 * 2.0 * scale**2 + 24.0 * scale**4
    # six deviations of a mean of 4,000
    slack = 6.0 * math.sqrt((fourth / square**2 - 1.0) / 4000.0)
    wanted = (SIZE / learner.exploration_radius) ** 2 * square
    assert np.mean(squares) == pytest.approx(wanted, rel=slack)


# --- bad input ----------------------------------------------------------------------------------


def test_a_horizon_that_is_too_short_says_how_long_it_takes():
    def make(rounds, **options):
        return BanditApproximateLeader(
            Ball(3, 0.1), rounds, PURE, lipschitz=1.0, bound=1.0, seed=0, **options
        )

    with pytest.raises(ValueError, match="that takes about rounds=") as error:
        make(100)
    needed = int(str(error.value).split("rounds=")[2].split(", or")[0].replace(",", ""))
    assert make(needed).exploration_radius < 0.1
    with pytest.raises(ValueError, match="too short"):
        make(int(needed / 1.2))  # which is less than a step and two digits may add
    with pytest.raises(ValueError, match="no horizon is long enough for the given settings"):
        make(100, batch=1, regularization=1e-9)
    assert make(100, exploration_radius=0.05).exploration_radius == 0.05
    with pytest.warns(PublishedCalibrationWarning) as caught:
        clamped = make(100, calibration="published")
    assert clamped.exploration_radius == 0.05
    assert any("It takes rounds=810,001" in str(warning.message) for warning in caught)


def test_a_value_outside_the_declared_range_is_refused():
    learner = _bandit()()
    learner.choose()
    with pytest.raises(ValueError, match=r"value=2.1 is outside the declared range \[0, 2\]"):
        learner.learn(2.1)
    with pytest.raises(TypeError, match="value must be a number"):
        learner.learn(Distance([[0.0] * SIZE]))
    assert learner.round == 0
    learner.learn(2.0)
    with pytest.raises(ValueError, match="takes one person; use run"):
        learner.run([Distance([[0.0] * SIZE] * 2)])
    assert learner.round == 1


@pytest.mark.parametrize("size", [0.01, 100.0])
def test_costs_leave_their_range_by_rounding_only(size):
    """In proportion to half of it, one by one and in a stream."""
    learner = BanditApproximateLeader(
        Ball(3), 30, PURE, lipschitz=size, bound=(0.0, 2.0 * size), exploration_radius=0.5, seed=0
    )
    for part, inside in ((5e-13, True), (2e-12, False)):
        for cost in (-part * size, (2.0 + part) * size):
            assert learner._among_declared(np.array([size, cost, size])) == (3 if inside else 1)
            with nullcontext() if inside else pytest.raises(ValueError, match="outside the declared range"):
                assert abs(learner._ready(cost)) == learner.settings.half


def test_a_domain_without_its_ball_is_refused():
    class Wrong(Ball):
        def __init__(self):
            super().__init__(2, 1.0)
            self.inner_radius = self.outer_radius = 1.5

    with pytest.raises(ValueError, match="does not contain its own ball"):
        BanditApproximateLeader(Wrong(), 10, PURE, lipschitz=1.0, bound=1.0)


def test_a_batch_that_does_not_fit_the_grid_is_refused():
    """Sums of costs are kept in 62 bits: batch times epsilon stays below 2^30."""
    make = _bandit(dc.Budget(1e6), batch=1 << 12)
    with pytest.raises(ValueError, match="does not fit the noise's grid"):
        make(rounds=1 << 14)
    assert _bandit(dc.Budget(1e5), batch=1 << 12)(rounds=1 << 14).batch == 1 << 12


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        (ApproximateLeader, {"strong_convexity": -1.0}, "strong_convexity=-1.0 must be at least 0"),
        (ApproximateLeader, {"regularization": 0.0}, "needs costs with strong_convexity above 0"),
        (ApproximateLeader, {"regularization": 1e-320}, "is negligible compared with lipschitz=1"),
        (ApproximateLeader, {"regularization": "strong"}, "regularization='strong' is not one of"),
        (ApproximateLeader, {"sums": "cube"}, "sums='cube' is not one of"),
        (ApproximateLeader, {"sums": "tree", "calibration": "published"}, "has its own sums="),
        (ApproximateLeader, {"sums": "sqrt", "budget": PURE}, "needs delta > 0; give the budget a delta"),
        (ApproximateLeader, {"calibration": "published", "budget": FREE}, "needs a finite epsilon"),
        (ApproximateLeader, {"domain": 3}, "domain must be a Domain"),
        (LinearLeader, {"calibration": "published", "budget": 1.0}, r"budget must be a Budget.*got 1.0"),
        (LinearLeader, {"lipschitz": None}, "say how large a cost vector can be"),
        (LinearLeader, {"regularizer": "entropy"}, r'regularizer="entropy" is for domains.Simplex'),
        (BanditApproximateLeader, {"bound": (1.0, 0.0)}, "must have low < high"),
        (BanditApproximateLeader, {"exploration_radius": 1.0}, "exploration_radius=1.0 must be less than 1"),
        (BanditApproximateLeader, {"adversary": "nice"}, "adversary='nice' is not one of 'oblivious'"),
        (
            BanditApproximateLeader,
            {"adversary": "adaptive", "batch": 3, "exploration_radius": 0.5},
            'needs adversary="oblivious"',
        ),
        (BanditApproximateLeader, {"batch": 11}, "batch=11 is too large"),
        (BanditApproximateLeader, {"batch": 2, "calibration": "published"}, "has its own batch="),
    ],
)
def test_settings_that_make_no_sense(kind, options, message):
    asked = {"domain": Ball(2), "rounds": 10, "budget": APPROXIMATE, "lipschitz": 1.0} | options
    if kind is BanditApproximateLeader:
        asked = {"bound": 1.0} | asked
    with pytest.raises((ValueError, TypeError), match=message):
        kind(**asked)


def test_a_cost_vector_that_was_not_declared_is_refused():
    learner = LinearLeader(Simplex(2), 10, APPROXIMATE, box=(0.0, 1.0), seed=0)
    learner.choose()
    with pytest.raises(ValueError, match=r"not what was declared: vector\[1\]=-0.5 is outside box"):
        learner.learn([0.5, -0.5])


def test_published_regularizer_grows_by_the_round():
    """Algorithm 1 on f + H/2 |w|^2, the regularizer's gradient in the clear: w = -v / (t H), projected."""
    learner = _leader(PURE, calibration="published", domain=Ball(2, 1.0))()
    learner.choose()
    learner.learn((lambda _: 0.0, lambda _: [1.0, 0.0]))
    seen = []
    original = learner._total.sum.add
    vars(learner._total.sum)["add"] = lambda vector: seen.append(original(vector)) or seen[-1]
    assert np.allclose(learner.choose(), Ball(2, 1.0).project(-seen[0] / learner.settings.growing))
    unit = 2.0 / 2.0 * 2 * math.log(ROUNDS) ** 2.5 / math.sqrt(ROUNDS)
    assert learner.settings.growing == pytest.approx(unit)


@pytest.mark.parametrize("domain", [Ball(3, 1.0), Simplex(3), CappedSimplex(4, 2, exactly=False)])
def test_one_point_estimates_are_unbiased(domain):
    """(p / beta) f(w + beta u) u averages to the gradient, within the domain's plane, for quadratics."""
    coins = np.random.default_rng(4)
    target = coins.normal(size=domain.dimension)
    beta, count = 0.05, 40_000
    estimates = np.array(
        [
            domain.affine_dimension / beta * ((domain.center + beta * u - target) ** 2).sum() / 2.0 * u
            for u in (domain.direction(coins) for _ in range(count))
        ]
    )
    wanted = domain.center - target
    if domain.affine_dimension < domain.dimension:
        wanted = wanted - wanted.mean()
    error = estimates.mean(axis=0) - wanted
    assert (np.abs(error) <= 6.0 * estimates.std(axis=0) / math.sqrt(count)).all()


def test_batches_play_one_point_and_release_one_number():
    learner = _bandit(batch=4)()
    people = _people(learner)
    points = learner.run(people).decisions
    for start in range(0, ROUNDS, 4):
        assert (points[start : start + 4] == points[start]).all()
    assert len({point.tobytes() for point in points}) == 8
    assert learner._total.count == 7


def test_published_constants_are_twice_what_they_claim():
    """Paper 004: L u against -L u makes densities differ by exp(2 epsilon), and the account says so."""
    for rounds in (1, 2, 30, 1000):
        with pytest.warns(PublishedCalibrationWarning, match=r"claim epsilon 0.7 and give epsilon 1.4"):
            learner = ApproximateLeader(
                Ball(2), rounds, dc.Budget(0.7), lipschitz=2.0, strong_convexity=0.5, calibration="published"
            )
        levels = tree_levels(rounds)
        scale = float(learner.settings.event.scale)
        assert scale == pytest.approx(2.0 * levels / 0.7)
        # log density ratio at y = -c u, c > L, of exp(-|y - z| / scale), for each of the levels
        u, far = np.array([1.0, 0.0]), 7.0
        gap = np.linalg.norm(-far * u - 2.0 * u) - np.linalg.norm(-far * u + 2.0 * u)
        assert levels * gap / scale == pytest.approx(1.4)
        assert learner.privacy.epsilon() == pytest.approx(1.4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        added = ApproximateLeader(
            Ball(2), 30, dc.Budget(0.7, 0.0, "add_remove"), lipschitz=2.0, strong_convexity=0.5,
            calibration="published",
        )  # fmt: skip
    assert added.privacy.epsilon() == pytest.approx(0.7)


def test_published_linear_leader_holds_for_unsigned_costs_only():
    learner = LinearLeader(Simplex(3), 30, PURE, box=(0.0, 1.0), calibration="published", seed=0)
    assert learner.privacy.epsilon() == pytest.approx(1.0)
    with pytest.warns(PublishedCalibrationWarning, match="claim epsilon 1 and give epsilon 2"):
        signed = LinearLeader(Simplex(3), 30, PURE, box=(-1.0, 1.0), calibration="published", seed=0)
    assert signed.privacy.epsilon() == pytest.approx(2.0)
    assert float(signed.settings.event.scale) == pytest.approx(3 * tree_levels(30))


def test_bandit_account_has_no_composition():
    for rounds in (30, 3000):
        learner = _bandit(dc.Budget(1.0, 1e-6))(rounds=rounds)
        assert learner.privacy.epsilon() == pytest.approx(1.0)
    with pytest.warns(PublishedCalibrationWarning, match="claim epsilon 1 and give epsilon 2"):
        published = BanditApproximateLeader(
            Ball(1, 10.0), 1000, PURE, lipschitz=1.0, bound=1.0, strong_convexity=0.5,
            calibration="published", seed=0,
        )  # fmt: skip
    assert published.exploration_radius == pytest.approx(0.1)
    assert float(published.settings.event.scale) == pytest.approx(10.0 * 10, rel=1e-9)


def _streams(rounds):
    rng = np.random.default_rng(7)
    towards = np.array([0.6, -0.5, 0.2])
    turning = np.where(np.arange(rounds)[:, None] < rounds / 3, towards, -towards)
    return {
        "still": np.tile(towards, (rounds, 1)),
        "noisy": np.clip(towards + rng.normal(size=(rounds, 3)) * 0.1, -0.57, 0.57),
        "turning": turning,
        "alternating": towards * (-1.0) ** np.arange(rounds)[:, None],
    }


@pytest.mark.parametrize("stream", ["still", "noisy", "turning", "alternating"])
@pytest.mark.parametrize("budget", [dc.Budget(8.0, 1e-6), dc.Budget(8.0), FREE])
def test_linear_regret_is_within_the_certificate(stream, budget):
    rounds = 600
    rows = _streams(rounds)[stream]
    for domain in (Simplex(3), Ball(3)):
        people = Linear(rows, box=(-1.0, 1.0))
        best = people.best(domain)[1] * rounds
        totals = []
        for seed in range(3):
            learner = LinearLeader(domain, rounds, budget, box=(-1.0, 1.0), seed=seed)
            totals.append(learner.run(people).total - best)
        assert np.mean(totals) <= learner.certified_regret + 6 * math.sqrt(rounds / 3)


@pytest.mark.parametrize(
    ("curved", "regularization", "radius"), [(0.0, 2e4, 1.5), (0.5, 0.0, 0.4), (0.5, 2e4, 1.5)]
)
@pytest.mark.parametrize("adaptive", [False, True])
def test_the_certificate_of_one_point_term_by_term(curved, regularization, radius, adaptive):
    """Written out: regularizer, a term for each batch, exploring, and what an adaptive adversary adds."""
    rounds, p, slope, r, width, scale, beta = 10**6, 3, 2.0, 0.8, 1.2, 2.5, 0.1
    batch = 1 if adaptive else 4
    each = (p / beta) ** 2 * (batch**2 * width**2 / 4.0 + 2.0 * scale**2)  # noise has variance 2 scale^2
    wanted = regularization * radius**2 / 2.0
    wanted += sum(each / (2.0 * (k * batch * curved + regularization)) for k in range(1, rounds // batch + 1))
    wanted += rounds * beta * (2.0 * slope + min(width, slope * radius) / r)
    if adaptive:
        wanted += radius * math.sqrt(rounds * each)
    given = {"batch": batch, "beta": beta, "regularization": regularization}
    found = bounds.one_point(rounds, p, slope, r, radius, width, scale, curved, adaptive=adaptive, **given)
    assert found.regret == pytest.approx(wanted)
    assert wanted < width * rounds  # which is never exceeded


def test_certificates_of_linear_costs_term_by_term():
    assert bounds.linear_leader(1000, 2.0, 1.5, 3.0, 40.0, 50.0) == pytest.approx(
        50.0 * 1.5**2 / 2.0 + sum(2.0**2 / (2.0 * 50.0) for _ in range(1000)) + 1.5 * 40.0
    )
    assert bounds.linear_experts(5, 1000, 2.0, 40.0, 0.1) == pytest.approx(
        math.log(5) / 0.1 + 1000 * 0.1 * 2.0**2 / 8.0 + 40.0
    )


def test_optimistic_is_less_regularized_and_certified_for_what_it_is():
    careful, bold = _leader()(rounds=5000), _leader(regularization="optimistic")(rounds=5000)
    assert bold.regularization < careful.regularization
    assert bold.certified_regret > careful.certified_regret


def test_regularization_is_the_best_one():
    for curved in (0.0, 1.0):
        question = (10_000, 1.0, 2.0, 4.0, 50.0, curved)
        best = bounds.best_regularization(*question)
        certified = bounds.approximate_leader(*question, best)
        for factor in (0.0, 0.5, 0.9, 1.1, 2.0):
            assert certified <= bounds.approximate_leader(*question, best * factor) * (1 + 1e-9)
    assert bounds.best_regularization(10_000, 1.0, 2.0, 4.0, 50.0) == pytest.approx(
        math.sqrt(2 * 10_000 * 51.0) / 2.0
    )


@pytest.mark.parametrize(("top", "start", "slope", "most"), [(3, 0, 2, 0.4), (3, 5, 2, 0.1), (3, 5, 0, 9)])
def test_sums_of_the_certificate(top, start, slope, most):
    wanted = sum(min(most, top / (start + slope * t)) for t in range(1, 1001))
    assert bounds._harmonic(1000, top, start, slope, most) == pytest.approx(wanted, rel=1e-9)


@pytest.mark.parametrize("curved", [1e-8, 1e-12, 1e-16, 1e-30, 5e-324])
def test_hardly_curved_costs_are_certified_like_others(curved):
    # A difference of two digammas was 0 beside a large regularizer: 1e-6 was certified, and played for.
    question, streams = (1000, 1.0, 1.0, 2.0, 5.0), (2, 1.0, 1.0, 1.0, 2.0, 2.0)
    best = bounds.best_regularization(*question, curved)
    wanted = math.fsum(6.0 / (curved * t + best) for t in range(1, 1001)) + best / 2.0
    certified = bounds.approximate_leader(*question, curved, best)
    assert wanted * (1.0 - 1e-12) <= certified <= wanted * (1.0 + 1e-5)
    flat = bounds.approximate_leader(*question, 0.0, bounds.best_regularization(*question))
    assert certified == pytest.approx(flat, rel=1e-6)
    flat_points = bounds.one_point(10**6, *streams).regret
    assert bounds.one_point(10**6, *streams, curved).regret == pytest.approx(flat_points, rel=1e-6)


def test_worst_noise_is_the_noisiest_sum():
    for rounds in (2, 3, 8, 9, 23, 32, 33):
        for sums in ("sqrt", "tree"):
            learner = _leader(sums=sums)(rounds=rounds)
            total = learner._total.sum
            wanted = max(total.noise_std(t) for t in range(1, rounds)) * math.sqrt(SIZE)
            assert learner.settings.noise_length == pytest.approx(wanted, rel=1e-12)
            assert bounds.worst_noise(total.spec, total.event) == learner.settings.noise_length


def test_one_point_settings_are_the_best_ones():
    question = (10**6, 3, 2.0, 1.0, 1.0, 2.0, 2.0)
    for curved in (0.0, 1.0):
        best = bounds.one_point(*question, curved)
        assert best.batch == 3  # sqrt(8) at epsilon 1
        for options in ({"beta": best.beta * 1.5}, {"beta": best.beta / 1.5}, {"batch": 30}):
            assert best.regret <= bounds.one_point(*question, curved, **options).regret * (1 + 1e-6)
    lipschitz = bounds.one_point(*question).regret
    assert bounds.one_point(16 * 10**6, *question[1:]).regret == pytest.approx(8.0 * lipschitz, rel=0.01)
