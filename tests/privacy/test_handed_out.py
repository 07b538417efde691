"""Nobody is handed what draws, or a second one of what counts draws: noise is drawn by what paid for it."""

from __future__ import annotations

import copy
import pickle
from fractions import Fraction

import numpy as np
import pytest

import discreet as dc
from discreet.constraints import Cardinality
from discreet.objectives import Coverage
from discreet.privacy import (
    ExponentialChoice,
    GaussianNoise,
    LaplaceNoise,
    MemoryLedger,
    Periods,
    PermuteAndFlip,
    PureRelease,
    Release,
    samplers,
)
from discreet.privacy.accountant import Accountant, Owner
from discreet.privacy.ordered import OrderedExperts
from discreet.privacy.population import PeopleSplit, RunGate
from discreet.privacy.randomness import ReproducibleRandomness, SecureRandomness
from tests.online.learners import EVERYBODY

BUDGET = dc.Budget(1.0, 1e-6)
PEOPLE = Coverage(np.eye(3)[np.arange(60) % 3])
DRAWS = (Release, Owner, Accountant, SecureRandomness, ReproducibleRandomness)


def reachable(thing, path="", seen=None):
    """What public attributes lead to, and by which path."""
    seen = {} if seen is None else seen
    if id(thing) in seen:
        return
    seen[id(thing)] = thing
    yield path, thing
    inside = {}
    if isinstance(thing, dict):
        inside = {f"[{key!r}]": value for key, value in thing.items()}
    elif isinstance(thing, list | tuple):
        inside = {f"[{place}]": value for place, value in enumerate(thing)}
    if type(thing).__module__.split(".")[0] in ("discreet", "tests") and not isinstance(thing, type):
        for name in dir(thing):
            if name[0] != "_":
                try:
                    inside[f".{name}"] = getattr(thing, name)
                except Exception:  # nothing is to be had there
                    continue
    for name, value in inside.items():
        if not callable(value) or isinstance(value, DRAWS):
            yield from reachable(value, path + name, seen)


def segments():
    return dc.online.Segments(lambda b: dc.online.LeaderSelector(3, 1, None, b), ["u", "v"], BUDGET)


def fitted():
    return dc.offline.PrivateItemSelector(k=1, budget=dc.Gate(dc.Budget(9.0))).fit(np.asarray(PEOPLE))


def a_sum(method):
    total = dc.Gate(BUDGET).running_sum(1, 4, method=method, norm_bound=1.0)
    total.add([1.0])
    return total


def a_part():
    learner = dc.online.LeaderSelector(3, 1, 400, BUDGET)
    learner.choose()
    return learner.partial("web")


HOLDERS = {
    **{f"{method} sum": lambda method=method: a_sum(method) for method in ("sqrt", "blt", "tree")},
    "gate": lambda: dc.Gate(BUDGET),
    "owned gate": lambda: dc.Gate(BUDGET).owned(),
    "share": lambda: dc.Gate(BUDGET).split(2)[0],
    "greedy": lambda: dc.offline.PrivateGreedy(1, dc.Budget(1.0)),
    "selection": lambda: dc.offline.PrivateGreedy(1, dc.Budget(1.0)).select(PEOPLE),
    "continuous greedy": lambda: dc.offline.ContinuousGreedy(Cardinality(1, 3), BUDGET),
    "segments": segments,
    "segment": lambda: segments().of("u"),
    "periods": lambda: Periods(BUDGET),
    "period": lambda: Periods(BUDGET).gate("2026-11"),
    "run": lambda: RunGate(dc.Budget(0.5), dc.Gate(dc.Budget(1.0)), "a list"),
    "people split": lambda: PeopleSplit(2, bytes(16)).gate(dc.Gate(BUDGET), 1),
    "part": a_part,
}


@pytest.mark.parametrize("make", HOLDERS.values(), ids=HOLDERS)
def test_no_public_attribute_leads_to_what_draws(make):
    assert [path for path, thing in reachable(make()) if isinstance(thing, DRAWS)] == []


@pytest.mark.parametrize("words", EVERYBODY)
def test_no_public_attribute_of_a_learner_leads_to_what_draws(words):
    setting = EVERYBODY[words]
    learner = setting.make()
    trace = learner.run(setting.people(4))
    for thing in (learner, trace):
        assert [path for path, one in reachable(thing) if isinstance(one, DRAWS)] == []


def test_a_sum_says_what_was_charged_and_no_more():
    entry, count = a_sum("tree").charged
    assert (entry.label, count) == ("running sum (tree of 2 levels)", 2)
    assert isinstance(entry.event, GaussianNoise)


# --- copies ------------------------------------------------------------------------------------------


COUNTED = {
    "release": lambda: dc.Gate(dc.Budget(1.0)).reserve(LaplaceNoise(1.0, 1.0)),
    "seeded release": lambda: dc.Gate(dc.Budget(1.0), 3).reserve(LaplaceNoise(1.0, 1.0)),
    "owner": lambda: dc.Gate(BUDGET).owned()._owner,
    "accountant": lambda: dc.Gate(BUDGET)._accountant,
    "ledger": MemoryLedger,
    "run's ledger": lambda: RunGate(dc.Budget(0.5), dc.Gate(dc.Budget(1.0)), "a list")._accountant.ledger,
    "sum": lambda: a_sum("sqrt"),
    **{f"steps of a {method} sum": lambda method=method: a_sum(method)._steps for method in ("sqrt", "tree")},
    "experts": lambda: OrderedExperts(np.zeros((3, 1), dtype=np.int64), 0.5, Fraction(1), 1),
    "segments": segments,
}


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
@pytest.mark.parametrize("make", COUNTED.values(), ids=COUNTED)
def test_what_counts_draws_or_charges_is_not_copied(make, copied):
    with pytest.raises(TypeError, match=r"cop|pickle"):
        copied(make())


def test_a_copied_share_spends_at_the_same_gate():
    gate = dc.Gate(dc.Budget(1.0))
    shares = [copy.copy(gate.split(1)[0]) for _ in range(2)]
    dc.offline.PrivateGreedy(1, shares[0]).select(PEOPLE)
    with pytest.raises(dc.BudgetExceeded):
        dc.offline.PrivateGreedy(1, shares[1]).select(PEOPLE)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda share: copy.deepcopy([share])[0]])
def test_a_copied_share_of_a_budget_is_spent_once(copied):
    share = dc.Budget(1.0).split(2)[0]
    shares = [share, copied(share)]
    dc.offline.PrivateGreedy(1, shares[0]).select(PEOPLE)
    with pytest.raises(dc.BudgetExceeded):
        dc.offline.PrivateGreedy(1, shares[1]).select(PEOPLE)


# --- less than nothing -------------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [-2.0, -0.25, -5e-324, float("-inf"), float("nan"), float("inf"), 0.5])
@pytest.mark.parametrize("event", [ExponentialChoice(0.25, 2.0), PermuteAndFlip(0.25, 2.0), PureRelease(1.0)])
def test_a_choice_at_a_rate_that_was_not_paid_is_refused(event, rate):
    """The sign of a rate turns the scores round: its size is what was paid for."""
    if isinstance(event, PureRelease) and rate == 0.5:
        return  # an account of another kind names its rate
    gate = dc.Gate(dc.Budget(10.0))
    release, scores = gate.reserve(event), np.array([0.0, 2.0])
    draws = [release.permute_and_flip] if isinstance(event, PermuteAndFlip) else [release.choice]
    for draw in draws + [release.permute_and_flip] * isinstance(event, PureRelease):
        with pytest.raises(ValueError, match="rate"):
            draw(scores, rate)
    assert release._left == 1


def test_draws_below_nothing_pay_for_no_others():
    """Minus five draws would leave five more than were paid for."""
    release, grid = dc.Gate(dc.Budget(1.0)).reserve(LaplaceNoise(1.0, 1.0)), samplers.Grid.for_noise(1, 1, 1)
    with pytest.raises(ValueError, match="draws"):
        release.noise_rows(grid, -5, 1)
    assert release._left == 1
    with pytest.raises((TypeError, ValueError), match="draws"):
        dc.Gate(dc.Budget(1.0)).reserve(LaplaceNoise(1.0, 1.0), draws=float("nan"))


def test_a_grid_so_coarse_that_rounding_moves_values_further_is_refused():
    """9.5 and 10.5 are a sensitivity of 1 apart, and on a grid of step 10 a step of 10."""
    release = dc.Gate(dc.Budget(1.0)).reserve(LaplaceNoise(1.0, 10.0))
    with pytest.raises(ValueError, match="does not pay for rounding"):
        release.noisy(np.array([9.5]), samplers.Grid(10, 0, 0))
    assert release._left == 1
