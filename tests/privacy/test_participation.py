"""People in several vectors of a running sum: norms enumerated, noise audited, the account checked."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import discreet as dc
from discreet.core.state import settings_json, settings_of
from discreet.privacy import (
    Charge,
    Entry,
    FactorizedSum,
    Gate,
    GaussianNoise,
    GroupGaussianNoise,
    LaplaceNoise,
    MemoryLedger,
    Participation,
    SumSpec,
    TreeSum,
    VectorBounds,
    tree_levels,
)
from discreet.privacy.factorizations import BinaryTree, Factorization, buffered, square_root
from tests.privacy.audit import noise_map, quiet_answers
from tests.privacy.toeplitz import encoder_column

ROUNDS = 9


def patterns(rounds, times, apart):
    """Every choice of at most so many rounds that are so far apart."""
    for number in range(1, times + 1):
        for places in itertools.combinations(range(rounds), number):
            if all(later - earlier >= apart for earlier, later in itertools.pairwise(places)):
                yield list(places)


def toeplitz(found):
    """The matrix C of a factorization."""
    coefficients = encoder_column(found, found.rounds)
    lags = np.subtract.outer(np.arange(found.rounds), np.arange(found.rounds))
    return np.where(lags >= 0, coefficients[np.maximum(lags, 0)], 0.0)


def blocks(rounds):
    """The matrix C of a tree: a row for every block of its levels, also for those that are never finished."""
    rows = []
    for level in range(tree_levels(rounds)):
        for start in range(0, rounds, 1 << level):
            row = np.zeros(rounds)
            row[start : start + (1 << level)] = 1.0
            rows.append(row)
    return np.array(rows)


def largest(matrix, times, apart):
    return max(np.linalg.norm(matrix[:, p].sum(axis=1)) for p in patterns(matrix.shape[1], times, apart))


@pytest.mark.parametrize("make", [square_root, buffered])
@pytest.mark.parametrize("rounds", [1, 2, 5, ROUNDS])
def test_norms_of_factorizations_are_those_of_the_worst_columns(make, rounds):
    found = make(rounds)
    for apart, times in itertools.product((1, 2, 3, 8), range(1, 6)):
        true = largest(toeplitz(found), times, apart)
        assert true <= found.participation_norm(times, apart) <= true * (1 + 1e-10)


@pytest.mark.parametrize("rounds", [1, 2, 3, 5, 8, 11])
def test_norms_of_trees_are_never_below_those_of_the_worst_columns(rounds):
    for apart, times in itertools.product((1, 2, 3, 5), range(1, 6)):
        true = largest(blocks(rounds), times, apart)
        bound = math.sqrt(BinaryTree(rounds).participation_square(times, apart))
        assert true <= bound * (1 + 1e-15)
        if apart == 1:
            assert bound == pytest.approx(true, rel=1e-12)
        assert bound <= times * math.sqrt(tree_levels(rounds))


def test_vectors_in_any_directions_move_no_further_than_aligned_ones():
    """Signs, lengths and directions that differ from one participation to the next, for both kinds of C."""
    rng = np.random.default_rng(0)
    for matrix in (toeplitz(square_root(ROUNDS)), blocks(ROUNDS)):
        for places in patterns(ROUNDS, 4, 2):
            columns = matrix[:, places]
            most = np.linalg.norm(columns.sum(axis=1))
            vectors = rng.normal(size=(20, len(places), 3))
            vectors /= np.maximum(1.0, np.linalg.norm(vectors, axis=2, keepdims=True))
            moved = np.linalg.norm(np.einsum("rc,vcd->vrd", columns, vectors), axis=(1, 2))
            assert (moved <= most * (1 + 1e-12)).all()


def test_norms_grow_with_the_number_of_vectors_and_shrink_as_they_move_apart():
    for rounds in (35, 1000):
        found = square_root(rounds)
        norms = [[found.participation_norm(b, s) for b in range(1, 40)] for s in (1, 2, 5, 50)]
        assert (np.diff(norms, axis=1) >= 0.0).all()
        assert (np.diff(norms, axis=0) <= 0.0).all()
        assert (np.array(norms) <= found.column_norm * np.arange(1, 40) * (1 + 1e-9)).all()
    many = square_root(200_000)  # above 65,536 columns the bound is that of groups of them
    assert many.participation_norm(65_536) < many.participation_norm(70_000)
    assert many.participation_norm(70_000) <= 2 * many.participation_norm(65_536)


# --- sums ---------------------------------------------------------------------------------------------

KINDS = [
    (FactorizedSum, {"method": "sqrt"}),
    (FactorizedSum, {"method": "blt"}),
    (TreeSum, {}),
    (TreeSum, {"variance_reduction": True}),
]


def worst_loss(make, rounds, times, apart):
    """The largest exact loss of anybody whose vectors are replaced by their opposites."""
    nobody = [np.zeros(1)] * rounds
    noise, found = noise_map(make, nobody), 0.0
    for places in patterns(rounds, times, apart):
        here, there = list(nobody), list(nobody)
        for place in places:
            here[place], there[place] = np.ones(1), -np.ones(1)
        moved = quiet_answers(make, here) - quiet_answers(make, there)
        shift, *_ = np.linalg.lstsq(noise, moved, rcond=1e-9)
        np.testing.assert_allclose(noise @ shift, moved, atol=1e-6)
        found = max(found, float(np.linalg.norm(shift)))
    return found


@pytest.mark.parametrize(("kind", "options"), KINDS)
@pytest.mark.parametrize(("times", "apart"), [(2, 1), (3, 2)])
def test_sums_lose_no_more_than_the_budget_and_use_it(kind, options, times, apart):
    budget = dc.Budget(1.0, 1e-6, max_rounds_per_person=times)
    whole = budget.mu * times

    def make(apart=apart):
        return kind(1, 5, budget, norm_bound=1.0, min_separation=apart, seed=0, **options)

    lost = worst_loss(make, 5, times, apart)
    assert (0.85 if kind is TreeSum else 1 - 1e-6) * whole <= lost <= whole * (1 + 1e-8)
    # Vectors nearer together than declared, or more of them, are beyond the budget: the norms are needed.
    if kind is FactorizedSum:
        assert worst_loss(lambda: make(apart + 1), 5, times, apart) > whole * 1.01
        assert worst_loss(make, 5, times + 1, 1) > whole * 1.01


def test_noise_for_the_norm_of_one_vector_is_not_enough(monkeypatch):
    """An injected fault: a person's vectors counted as if they were one."""
    budget = dc.Budget(1.0, 1e-6, max_rounds_per_person=2)

    def make():
        return FactorizedSum(1, 5, budget, norm_bound=1.0, min_separation=1, seed=0)

    assert worst_loss(make, 5, 2, 1) <= 2 * budget.mu * (1 + 1e-8)
    monkeypatch.setattr(Factorization, "participation_norm", lambda found, *_: found.column_norm)
    assert worst_loss(make, 5, 2, 1) > 1.5 * 2 * budget.mu


def test_whoever_changes_other_coordinates_each_time_is_paid_for():
    """Two of a person's vectors in different coordinates touch twice as many numbers of the grid."""
    bounds = VectorBounds(8, 2, 1.0, None, 1, 5)
    for method in ("sqrt", "tree"):
        grids = []
        for participation in (None, Participation(2)):
            spec = SumSpec(bounds, 16, method, participation=participation)
            event = GaussianNoise(1.0, 1e7) if participation is None else GroupGaussianNoise(1.0, 1e7, 2)
            grids.append(spec.kind.grid(spec, event, "replace"))
        assert grids[0].step < grids[1].step


# --- the account ----------------------------------------------------------------------------------------


def test_the_account_of_a_person_is_exact_beside_other_releases():
    """Half of the budget for such a sum, half for releases by the round: together all of it, never more."""
    budget = dc.Budget(1.0, 1e-6, max_rounds_per_person=4)
    gate = Gate(budget, 0, definition="gdp")
    first, second = gate.split(2)
    total = FactorizedSum(1, 35, first, norm_bound=1.0, min_separation=1)
    event = total.event
    assert isinstance(event, GroupGaussianNoise)
    together = float(event.sensitivity / event.sigma)  # of all four rounds of somebody
    assert gate.spent.mu == pytest.approx(together, rel=1e-9)
    one = GaussianNoise.within(second, 1.0, 1, "gdp")
    gate.reserve(one, label="by the round")
    by_the_round = 4 * float(one.sensitivity / one.sigma)
    assert gate.spent.mu == pytest.approx(math.hypot(together, by_the_round), rel=1e-9)
    assert 0.999 < gate.spent.epsilon(1e-6) <= 1.0
    assert "in 4 rounds" in str(gate.spent.releases())
    with pytest.raises(dc.BudgetExceeded):
        gate.reserve(one, label="more")
    again = Gate.from_state(gate.state())
    assert again.spent.to_json() == gate.spent.to_json()


def test_a_release_about_other_numbers_of_rounds_is_refused():
    budget = dc.Budget(1.0, 1e-6, max_rounds_per_person=2)
    event = GroupGaussianNoise(1.0, 100.0, 3)
    with pytest.raises(ValueError, match="participations=3 rounds of a person"):
        Gate(budget, 0).reserve(event)
    ledger = MemoryLedger()
    ledger.append(Charge((), Entry("sum", event), 1), expected_version=0)
    with pytest.raises(ValueError, match="max_rounds_per_person=2"):
        Gate(budget, 0, definition="zcdp", ledger=ledger)
    record = Gate(dc.Budget(1.0, 1e-6, max_rounds_per_person=3), 0)
    record.reserve(event)
    state = record.state()
    state["budget"]["max_rounds_per_person"] = 2
    with pytest.raises(ValueError, match="max_rounds_per_person=2"):
        Gate.from_state(state)


def test_nobody_is_counted_together_over_disjoint_groups():
    """The worst group's loss is no bound for somebody with a round in each of two."""
    gate = Gate(dc.Budget(1.0, 1e-6, max_rounds_per_person=2), 0)
    for place, disjoint in ((gate.part("a"), False), (gate, True)):
        with pytest.raises(ValueError, match="several disjoint groups"):
            place.reserve(GroupGaussianNoise(1.0, 100.0, 2), disjoint=disjoint)


def test_what_is_declared_must_fit():
    budget = dc.Budget(1.0, 1e-6, max_rounds_per_person=2)
    bounds = VectorBounds(2, 2, 1.0)
    with pytest.raises(ValueError, match="max_rounds_per_person=2"):
        SumSpec(bounds, 10, participation=Participation(3)).event(budget.share())
    with pytest.raises(ValueError, match="needs Gaussian noise"):
        TreeSum(2, 10, budget, norm_bound=1.0, noise="laplace", min_separation=1)
    with pytest.raises(ValueError, match="min_separation=0"):
        TreeSum(2, 10, budget, norm_bound=1.0, min_separation=0)
    spec = SumSpec(bounds, 10, participation=Participation(2))
    for event in (GaussianNoise(2.0, 100.0), GroupGaussianNoise(0.5, 100.0, 2), LaplaceNoise(1.0, 1.0)):
        with pytest.raises(ValueError, match="event="):
            spec.kind.of(spec, Gate(budget, 0), event=event)
    with pytest.raises(ValueError, match="is not for 2 rounds"):
        spec.kind.of(spec, Gate(budget, 0), event=GroupGaussianNoise(20.0, 1e4, 3))
    for wrong in (None, [1], [1, 0], "12"):
        with pytest.raises((TypeError, ValueError)):
            settings_of(wrong)
    assert settings_of(settings_json(Participation(3, 2))) == Participation(3, 2)


def test_less_noise_than_by_dividing_the_budget():
    budget = dc.Budget(1.0, 1e-6, max_rounds_per_person=8)
    plain, near, apart = (
        FactorizedSum(2, 35, budget, norm_bound=1.0, min_separation=s, seed=0).noise_std(35)
        for s in (None, 1, 4)
    )
    assert near / plain == pytest.approx(6.283 / 8, abs=1e-4)
    assert apart / plain == pytest.approx(4.875 / 8, abs=1e-4)
    # With one round each nothing changes, to the last digit.
    once = dc.Budget(1.0, 1e-6)
    events = [FactorizedSum(2, 35, once, norm_bound=1.0, min_separation=s, seed=0).event for s in (None, 3)]
    assert events[0] == events[1]
    assert type(events[1]) is GaussianNoise


def test_saved_sums_keep_what_is_declared(tmp_path):
    budget = dc.Budget(1.0, 1e-6, max_rounds_per_person=3)
    total = FactorizedSum(2, 20, budget, norm_bound=1.0, min_separation=4, seed=0)
    total.add([0.5, 0.5])
    total.save(tmp_path / "sum")
    again = FactorizedSum.load(tmp_path / "sum")
    assert again.spec == total.spec
    assert again.spec.participation == Participation(3, 4)
    np.testing.assert_array_equal(again.add([0.1, 0.2]), total.add([0.1, 0.2]))
