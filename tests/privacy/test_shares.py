"""Shares of a budget: whatever is spent of them, and wherever, one person loses no more than the whole."""

from __future__ import annotations

import itertools
import json
import math
import random
from fractions import Fraction

import pytest

import discreet as dc
from discreet.privacy import (
    ApproximateRelease,
    ConcentratedRelease,
    ExponentialChoice,
    FactorizedSum,
    Gate,
    GaussianNoise,
    LaplaceNoise,
    PureRelease,
    Share,
    TreeSum,
    VectorBounds,
    spend_from,
)
from discreet.privacy.account import Filter, smallest_epsilon
from discreet.privacy.conversions import gdp_delta
from discreet.privacy.events import Loss

BUDGETS = {
    "pure": dc.Budget(1.0),
    "approximate": dc.Budget(1.0, 1e-6),
    "added or removed": dc.Budget(0.3, 1e-5, "add_remove"),
    "two rounds": dc.Budget(1.0, 1e-6, max_rounds_per_person=2),
    "two rounds, pure": dc.Budget(2.0, max_rounds_per_person=2),
    "pure of a delta": dc.Budget(1.0, 1e-6),
}
WEIGHTS = ([1, 1, 1], [1, 2, 3, 4], [0.1] * 10, [1], [1e-3, 1.0])
CASES = [
    (name, definition)
    for name, budget in BUDGETS.items()
    for definition in ("pure", "zcdp", "gdp")
    if definition == "pure" or (budget.delta and name != "pure of a delta")
]


# --- ways to spend a share -----------------------------------------------------------------------------


def _sum_of_gaussian_noise(share, seed):
    return FactorizedSum(3, 20, share, norm_bound=1.0, seed=seed).gate


def _tree(noise, **options):
    return lambda share, seed: TreeSum(3, 20, share, norm_bound=1.0, noise=noise, seed=seed, **options).gate


def _choices(share, seed):
    part = spend_from(share, seed)
    event = ExponentialChoice.within(part, 2.0, 5, part.gate.definition)
    for _ in range(5):
        part.gate.choose([1.0, 0.0, 2.0], event.rate, event.range)
    return part.gate


def _numbers(share, seed):
    part = spend_from(share, seed)
    event = LaplaceNoise.within(part, Fraction(1, 3), 2, part.gate.definition)
    for _ in range(2):
        part.gate.laplace([1.0, 0.0], event.scale, event.sensitivity)
    return part.gate


def _gaussian_numbers(share, seed):
    part = spend_from(share, seed)
    event = GaussianNoise.within(part, 1.0, 3, part.gate.definition)
    for _ in range(3):
        part.gate.gaussian([1.0, 0.0], event.sigma, event.sensitivity)
    return part.gate


def _as_much_as_fits(share, seed):
    """An analyst who takes whatever the gate of a share lets through, of any kind, until nothing does."""
    part, rng = spend_from(share, seed), random.Random(seed)
    kinds = [PureRelease(9.0), ExponentialChoice(9.0, 1.0), LaplaceNoise(9.0, 1.0), GaussianNoise(9.0, 1.0)]
    kinds += [ConcentratedRelease(9.0), ApproximateRelease(9.0, 1e-12)]
    for factor in (0.5, 0.7, 1.0, 1.0):
        event = rng.choice(kinds)
        largest = part.gate.preview(event).largest
        if largest is not None:
            part.gate.reserve(largest if factor == 1.0 else largest.scaled(factor))
    return part.gate


WAYS = {
    "factorized sum": _sum_of_gaussian_noise,
    "tree": _tree("gaussian"),
    "tree, halves combined": _tree("gaussian", variance_reduction=True),
    "Laplace tree": _tree("laplace"),
    "spherical tree": _tree("spherical"),
    "choices": _choices,
    "Laplace": _numbers,
    "Gaussian": _gaussian_numbers,
    "as much as fits": _as_much_as_fits,
}
NEEDS_DELTA = {"factorized sum", "tree", "tree, halves combined", "Gaussian"}


def _total(gates):
    """What one person loses in all of them: each account counted once."""
    total = Loss()
    for gate in {id(gate): gate for gate in gates}.values():
        total += gate.spent.loss
    return total


def _used(budget, definition, total):
    """How much of the budget ``total`` is, in one definition; None if more."""
    limit = Filter.of(budget, definition)
    if not limit.fits(total):
        return None
    assert smallest_epsilon(total, budget, budget.delta, definition) <= budget.epsilon
    return float(limit.spent(total) / limit.limit)


@pytest.mark.parametrize(("name", "definition"), CASES)
@pytest.mark.parametrize("way", WAYS)
def test_all_shares_together_fit_the_budget(name, definition, way):
    """In one definition for all, exactly; and next to nothing of it is left."""
    budget = BUDGETS[name]
    if definition == "pure" and way in NEEDS_DELTA:
        with pytest.raises(ValueError, match="Gaussian noise needs delta > 0"):
            WAYS[way](budget.split(2, definition="pure")[0], 0)
        return
    for weights in WEIGHTS[:1] if way == "as much as fits" else WEIGHTS:
        shares = budget.split(weights, definition=definition)
        used = _used(
            budget, definition, _total([WAYS[way](share, seed) for seed, share in enumerate(shares)])
        )
        assert used is not None
        assert used > (0.3 if way == "as much as fits" else 0.99)


@pytest.mark.parametrize(("name", "definition"), CASES)
def test_shares_are_spent_in_different_ways(name, definition):
    budget = BUDGETS[name]
    ways = [way for way in WAYS if definition != "pure" or way not in NEEDS_DELTA]
    ways.remove("as much as fits")
    for pair in itertools.combinations(ways, 2):
        shares = budget.split([1, 2], definition=definition)
        gates = [WAYS[way](share, 1) for way, share in zip(pair, shares, strict=True)]
        assert _used(budget, definition, _total(gates)) is not None


def test_an_unnamed_definition_is_the_same_for_all():
    for budget, definition in ((dc.Budget(1.0), "pure"), (dc.Budget(1.0, 1e-6), "zcdp")):
        gates = [_choices(share, 0) for share in budget.split(3)]
        assert {gate.definition for gate in gates} == {definition}
        assert _used(budget, definition, _total(gates)) > 0.99


# --- injected faults -----------------------------------------------------------------------------------


def test_a_fraction_of_each_definition_at_once_would_overspend():
    """Half of epsilon and half of mu squared at gates of their own are more than the whole, by far."""
    budget = dc.Budget(1.0, 1e-6)
    half = budget.share(Fraction(1, 2))  # of each definition: for one gate, which keeps to one of them
    laplace, gaussian = LaplaceNoise.within(half, 1.0), GaussianNoise.within(half, 1.0)
    total = laplace.loss() + gaussian.loss()
    assert all(_used(budget, definition, total) is None for definition in ("pure", "zcdp", "gdp"))
    # Not only in our accounts: Laplace noise alone loses its epsilon half of the time, and then what is left
    # of epsilon 1 has to cover the Gaussian.
    epsilon, mu = float(laplace.loss().pure), math.sqrt(gaussian.loss().mu_squared)
    assert 0.5 * gdp_delta(mu, budget.epsilon - epsilon) > 10 * budget.delta
    one, other = budget.split(2)
    losses = (
        LaplaceNoise.within(one, 1.0, 1, "zcdp").loss() + GaussianNoise.within(other, 1.0, 1, "zcdp").loss()
    )
    assert _used(budget, "zcdp", losses) > 0.99


def test_gates_of_shares_that_took_the_fraction_in_each_definition_would_be_noticed(monkeypatch):
    """The injected fault: a share is a fraction in every definition, and the first release there decides."""
    monkeypatch.setattr(Gate, "of_share", classmethod(lambda cls, share, seed=None: cls(share.budget, seed)))
    monkeypatch.setattr(Share, "definition", property(lambda _: None, lambda *_: None), raising=False)
    budget = dc.Budget(1.0, 1e-6)
    first, second = budget.split(2)
    gates = [_tree("laplace")(first, 0), _sum_of_gaussian_noise(second, 1)]
    total = _total(gates)
    assert all(_used(budget, definition, total) is None for definition in ("pure", "zcdp", "gdp"))


def test_a_gate_that_forgets_its_fraction_would_be_noticed(monkeypatch):
    monkeypatch.setattr(Filter, "part", lambda limit, _: limit)
    budget = dc.Budget(1.0, 1e-6)
    gates = [_as_much_as_fits(share, seed) for seed, share in enumerate(budget.split(2))]
    assert _used(budget, "zcdp", _total(gates)) is None


# --- shares of a gate ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "definition"), CASES)
def test_shares_of_a_gate_draw_on_one_account(name, definition):
    budget = BUDGETS[name]
    gate = Gate(budget, 0, definition=definition)
    gate.reserve(gate.preview(PureRelease(9.0)).largest.scaled(0.3), label="before")
    ways = [way for way in WAYS if definition != "pure" or way not in NEEDS_DELTA]
    ways.remove("as much as fits")
    shares = gate.split([1 + place for place, _ in enumerate(ways)])
    for way, share in zip(ways, shares, strict=True):
        assert WAYS[way](share, None)._accountant is gate._accountant
    assert _used(budget, definition, gate.spent.loss) > 0.98
    assert len(gate.spent.ledger.counts) == 1 + len(ways)
    with pytest.raises(dc.BudgetExceeded):
        gate.laplace(0.0, 1.0, 1.0)


def test_a_gate_without_a_definition_keeps_to_the_one_it_is_split_in():
    budget = dc.Budget(1.0, 1e-6)
    gate = Gate(budget, 0)
    assert gate.left.whole
    assert [share.definition for share in gate.split(2)] == ["zcdp"] * 2
    assert gate.definition == "zcdp"
    with pytest.raises(ValueError, match="definition='gdp', but this gate keeps to 'zcdp'"):
        gate.split(2, definition="gdp")
    assert Gate(budget, 0).split(2, definition="gdp")[0].definition == "gdp"
    fresh = Gate(budget, 0)
    with pytest.raises(ValueError, match="parts is empty"):
        fresh.split([])
    assert fresh.definition is None  # what is refused decides nothing


def test_what_is_left_at_a_gate():
    for definition in ("pure", "zcdp", "gdp"):
        budget = dc.Budget(1.0, 0.0 if definition == "pure" else 1e-6)
        gate = Gate(budget, 0, definition=definition)
        assert gate.left.fraction == 1
        first = gate.left.part(Fraction(1, 4))
        kind = LaplaceNoise if definition == "pure" else GaussianNoise
        gate.reserve(kind.within(first, 1.0, 1, definition))
        assert gate.left.fraction == pytest.approx(0.75, rel=1e-9)
        assert gate.left.fraction <= Fraction(3, 4)
        gate.reserve(kind.within(gate.left, 1.0, 1, definition))
        with pytest.raises(dc.BudgetExceeded, match="nothing of this kind fits any more"):
            gate.left  # noqa: B018
        assert _used(budget, definition, gate.spent.loss) > 0.999


# --- the gate of a share -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "definition"), CASES)
def test_the_gate_of_a_share_keeps_its_fraction_when_it_is_restored(name, definition):
    budget = BUDGETS[name]
    first, second = budget.split([1, 3], definition=definition)
    gate = Gate.of_share(first, 5)
    gate.reserve(gate.preview(PureRelease(9.0)).largest.scaled(0.5))
    again = Gate.from_state(json.loads(json.dumps(gate.state())))
    assert again.remaining == gate.remaining
    assert again.left.fraction == gate.left.fraction
    assert again.definition == definition
    for one in (gate, again):
        one.reserve(one.preview(PureRelease(9.0)).largest)
    other = Gate.of_share(second, 6)
    other.reserve(other.preview(PureRelease(9.0)).largest)
    assert _used(budget, definition, _total([again, other])) > 0.999
    overspent = gate.state() | {"share": str(first.fraction / 2)}
    with pytest.raises(ValueError, match="more was spent than the budget allows"):
        Gate.from_state(overspent)
    for wrong in ("0", "5/4"):
        with pytest.raises(ValueError, match="must be above 0 and at most 1"):
            Gate.from_state(gate.state() | {"share": wrong})


def test_bad_shares_are_refused():
    budget = dc.Budget(1.0)
    for call, message in (
        (lambda: budget.split(0), "parts=0 is too small"),
        (lambda: budget.split([1, 0]), r"parts\[1\]=0.0 must be greater than 0"),
        (lambda: budget.split(2, definition="zcdp"), "definition='zcdp' needs delta > 0"),
        (lambda: budget.split(2, definition="renyi"), "definition='renyi' is not one of"),
        (lambda: Share(budget, Fraction(3, 2)), "must be above 0 and at most 1"),
        (lambda: budget.split(2)[0].part(2), "fraction=2.0 must be at most 1"),
        (lambda: spend_from(budget.split(2)[0].fraction), "budget must be a Budget"),
        (lambda: spend_from(Gate(budget), 3), "seed= is for a budget"),
        (lambda: spend_from(Gate(budget).split(2)[0], 3), "seed= is for a budget"),
        (lambda: Gate.of_share(budget), "share must be a Share"),
    ):
        with pytest.raises((ValueError, TypeError), match=message):
            call()


def test_the_whole_budget_is_spent_in_whatever_is_best():
    part = spend_from(dc.Budget(1.0, 1e-6).share(), 0)
    assert part.whole
    assert part.gate.definition is None
    spent = TreeSum(3, 20, dc.Budget(1.0, 1e-6).share(), norm_bound=1.0, seed=0).gate.spent
    assert (
        spent.to_json() == TreeSum(3, 20, dc.Budget(1.0, 1e-6), norm_bound=1.0, seed=0).gate.spent.to_json()
    )


def test_what_is_left_in_a_part_is_its_own():
    gate = Gate(dc.Budget(1.0), 0)
    gate.reserve(PureRelease(0.2))
    gate.part("north").reserve(PureRelease(0.4))
    assert gate.part("north").left.fraction == Fraction(2, 5)
    assert gate.part("south").left.fraction == Fraction(4, 5)
    share = gate.part("north").split(2)[0]
    assert share.fraction == Fraction(1, 5)
    assert TreeSum(2, 4, share, noise="laplace", norm_bound=1.0).gate.spent.epsilon() == 0.8


def test_a_sum_of_a_share_goes_on_from_its_file(tmp_path):
    share = dc.Budget(1.0, 1e-6).split(4, definition="gdp")[1]
    total = TreeSum(2, 8, share, norm_bound=1.0, seed=3)
    total.add([0.1, 0.2])
    total.save(tmp_path / "sum")
    again = TreeSum.load(tmp_path / "sum")
    assert (again.add([0.3, 0.0]) == total.add([0.3, 0.0])).all()
    with pytest.raises(dc.BudgetExceeded):
        again.gate.reserve(PureRelease(0.01))


def test_shares_of_shares():
    budget = dc.Budget(1.0, 1e-6)
    first, second = budget.split(2, definition="gdp")
    inner = [first.part(Fraction(1, 3)), first.part(Fraction(2, 3))]
    gates = [_sum_of_gaussian_noise(share, 0) for share in (*inner, second)]
    assert _used(budget, "gdp", _total(gates)) > 0.99


def test_no_privacy_has_shares_too():
    free = dc.Budget(math.inf)
    for share in (*free.split(2), *Gate(free, 0).split(2)):
        total = TreeSum(2, 4, share, norm_bound=1.0)
        assert total.add([0.5, 0.25]).tolist() == [0.5, 0.25]
    assert VectorBounds(2, 2, norm_bound=1.0).difference("replace") == 2.0


def test_no_part_of_a_spent_share_is_spent_again():
    share = dc.Budget(1.0).share(0.5)
    assert share.part(0.5).epsilon == 0.25
    dc.online.HedgeSelector(5, 2, 10, share, seed=0)
    with pytest.raises(ValueError, match="has been spent"):
        share.part(0.5)


def test_a_share_is_spent_at_one_gate_also_by_two_threads_at_once(monkeypatch):
    share, others, made = dc.Budget(1.0).split(2)[0], [], Gate.of_share

    def slow(share, seed):
        if not others:  # another thread, while the gate is being made
            others.append(None)
            others[0] = spend_from(share).gate
        return made(share, seed)

    monkeypatch.setattr(Gate, "of_share", slow)
    spend_from(share).gate.reserve(PureRelease(0.5))
    with pytest.raises(dc.BudgetExceeded):
        others[0].reserve(PureRelease(0.5))
