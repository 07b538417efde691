"""Budgets that renew: each period has its own, earlier ones are closed, and several add up."""

from __future__ import annotations

import itertools
import json
import math
import random
from collections import Counter
from dataclasses import replace
from fractions import Fraction

import pytest

import discreet as dc
from discreet.privacy import (
    Account,
    ApproximateRelease,
    ConcentratedRelease,
    ExponentialChoice,
    FactorizedSum,
    Gate,
    GaussianNoise,
    MemoryLedger,
    PeopleSplit,
    PeriodClosed,
    Periods,
    PureRelease,
    Releases,
    SQLiteLedger,
    TreeSum,
)
from discreet.privacy.account import Filter
from discreet.privacy.conversions import zcdp_epsilon, zcdp_rho
from discreet.privacy.events import Loss

PURE, APPROXIMATE = dc.Budget(1.0), dc.Budget(1.0, 1e-6)
HALF = PureRelease(0.5)


@pytest.fixture(params=["file", "memory"])
def ledger(request, tmp_path):
    return SQLiteLedger(tmp_path / "ledger") if request.param == "file" else MemoryLedger()


# --- one period after the other ----------------------------------------------------------------------------


def test_each_period_has_the_whole_budget(ledger):
    periods = Periods(PURE, ledger)
    for month in ("2026-11", "2026-12", "2027-01"):
        gate = periods.gate(month)
        gate.reserve(HALF, 2)
        with pytest.raises(dc.BudgetExceeded, match=r"spent epsilon 1, .* limit 1 .*nothing of this"):
            gate.reserve(HALF)
        assert gate.spent.epsilon() == periods.account(month).epsilon() == 1.0
    assert periods.names == ["2026-11", "2026-12", "2027-01"]
    assert periods.total().epsilon() == periods.total().budget.epsilon == 3.0


def test_earlier_periods_take_no_more_charges(ledger):
    """Also not through a gate that was made in time, in another process or here."""
    mine, yours = Periods(PURE, ledger), Periods(PURE, ledger)
    old = mine.gate("2026-11")
    old.reserve(HALF)
    yours.gate("2026-12").reserve(HALF)
    for gate in (old, yours.gate("2026-11"), mine.gate("2026-10")):
        with pytest.raises(PeriodClosed, match=r"'2026-12' has begun, and '2026-1[01]' takes"):
            gate.reserve(HALF)
    assert old.spent.epsilon() == 0.5
    mine.gate("2026-12").reserve(HALF)
    assert mine.names == ["2026-11", "2026-12"]


def test_a_period_that_begins_in_between_is_noticed(ledger):
    """A later period is begun after the look at the ledger and before the entry."""
    mine, yours = Periods(PURE, ledger), Periods(PURE, ledger)
    gate = mine.gate("1")
    honest, begun = type(ledger).append, []

    def raced(charge, *, expected_version):
        if not begun:
            begun.append(1)
            yours.gate("2").reserve(HALF)
        honest(ledger, charge, expected_version=expected_version)

    ledger.append = raced
    with pytest.raises(PeriodClosed):
        gate.reserve(HALF)
    assert yours.names == ["2"]


@pytest.mark.parametrize("end", ["horizon", "finish()"])
def test_a_learner_that_outlives_its_period_is_in_the_account_of_both(ledger, end):
    """Who was learned from by learners of two periods has taken part in both, whatever comes after."""
    periods = Periods(dc.Budget(1.0), ledger)
    old = dc.online.ThompsonSelector(3, 1, 30, periods.gate("2026-11"), block=5)
    said = "learners of the period '2026-11' were not over in '2026-12'"

    def accounts():
        return [
            periods.account("2026-11"),
            periods.account("2026-12"),
            old.privacy,
            periods.gate("2026-12").spent,
            periods.total(["2026-12"]),
        ]

    assert said not in str(periods.account("2026-11"))
    new = dc.online.ThompsonSelector(3, 1, None, periods.gate("2026-12"), block=5)
    for _ in range(20):
        for learner in (old, new):
            learner.choose()
            learner.learn(1.0)
    assert all(said in str(account) for account in (*accounts(), new.privacy))
    assert said not in str(periods.total())  # which adds the two up
    if end == "finish()":
        old.finish()
    else:
        for _ in range(10):
            old.choose()
            old.learn(1.0)
    assert all(said in str(account) for account in (*accounts(), new.privacy))
    new.finish()
    periods.gate("2027-01").reserve(HALF)
    assert all(said in str(account) for account in (*accounts(), new.privacy))
    assert periods.account("2027-01").caveats == ()  # both were over by then
    assert said not in str(periods.total())


def test_accounts_name_every_period_that_a_learner_outlives():
    periods = Periods(dc.Budget(1.0))
    old = dc.online.ThompsonSelector(3, 1, 30, periods.gate("10"), block=5)
    for name in ("11", "12"):
        periods.gate(name).reserve(HALF)
    old.finish()
    periods.gate("13").reserve(HALF)
    said = {name: [one.partition(":")[0] for one in periods.account(name).caveats] for name in periods.names}
    both = [f"learners of the period '10' were not over in '{name}'" for name in ("11", "12")]
    assert said == {"10": both, "11": both[:1], "12": both[1:], "13": []}


def test_a_learner_that_is_over_in_time_leaves_no_caveat():
    periods = Periods(dc.Budget(1.0))
    dc.online.ThompsonSelector(3, 1, 30, periods.gate("10"), block=5).finish()
    periods.gate("11").reserve(HALF)
    assert periods.account("10").caveats == periods.account("11").caveats == ()


def test_names_follow_each_other():
    periods = Periods(PURE)
    names = ["week 9", "week 10", "week 10 a", "week 11", "x"]
    for name in names:
        periods.gate(name).reserve(HALF)
    assert periods.names == names
    for name in ("week 009", "week 10", "w"):
        with pytest.raises(PeriodClosed):
            periods.gate(name).reserve(HALF)
    for name in (5, "", "x" * 101):
        with pytest.raises(TypeError, match="period must be a short text"):
            periods.gate(name)


def test_a_ledger_of_periods_is_not_one_of_disjoint_people(ledger):
    Periods(PURE, ledger).gate("2026-11").reserve(HALF)
    with pytest.raises(ValueError, match="per='period'; this gate has per=None"):
        Gate(PURE, ledger=ledger)
    with pytest.raises(ValueError, match="epsilon"):
        Periods(dc.Budget(2.0), ledger).gate("2026-11")


def test_a_ledger_of_one_budget_is_not_one_of_periods(ledger):
    Gate(PURE, ledger=ledger).reserve(HALF)
    with pytest.raises(ValueError, match="belong to no period"):
        Periods(PURE, ledger).gate("2026-11")


def test_groups_and_restarts_within_a_period(tmp_path):
    periods = Periods(APPROXIMATE, SQLiteLedger(tmp_path / "l"), definition="gdp")
    gate = periods.gate("2026-11")
    small = PureRelease(0.1)
    gate.part("north").reserve(small)
    state = TreeSum(2, 8, gate.part("south"), norm_bound=1.0, share=0.3).state()
    later = periods.gate("2026-12")
    later.part("south").reserve(small)
    periods.ledger.close()
    again = Periods(APPROXIMATE, SQLiteLedger(tmp_path / "l"), definition="gdp")
    assert set(again.account("2026-11").ledger.parts) == {"north", "south"}
    with pytest.raises(ValueError, match="was not charged for these"):
        TreeSum.from_state(*state, again.gate("2026-12").part("south"))
    total = TreeSum.from_state(*state, again.gate("2026-11").part("south"))  # paid for in time
    assert total.add([0.1, 0.2]).shape == (2,)
    with pytest.raises(ValueError, match="already in use"):
        TreeSum.from_state(*state, again.gate("2026-11").part("south"))


def _taken_up(state, gate):
    try:
        TreeSum.from_state(*state, gate)
    except ValueError as error:
        if "already in use" not in str(error):
            raise
        return False
    return True


@pytest.mark.parametrize("seed", range(3))
def test_any_order_of_calls_keeps_to_the_budget(seed, tmp_path):
    """Several processes (a ledger object each) that charge, save, end, begin and load in any order."""
    rng, path = random.Random(seed), tmp_path / "l"
    split, month, saved, charged = PeopleSplit(2, bytes(16)), 1, [], Counter()
    workers = [Periods(APPROXIMATE, SQLiteLedger(path), definition="zcdp") for _ in range(2)]
    loaded = 0
    for _ in range(40):
        which, act = rng.randrange(2), rng.choice(["charge", "charge", "sum", "end", "load", "load", "month"])
        name = f"month {rng.choice([month, month, month - 1, month + 1])}"
        if act == "month":
            month += 1
        elif act == "end":
            workers[which].ledger.close()
            workers[which] = Periods(APPROXIMATE, SQLiteLedger(path), definition="zcdp")
        elif act == "load" and saved:
            number = rng.randrange(len(saved))
            home, owner, state = saved[number]
            taken = _taken_up(state, workers[which].gate(home))
            assert taken == owner.ledger._closed
            if taken:
                loaded += 1
                saved[number] = (home, workers[which], state)
        else:
            gate = workers[which].gate(name)
            try:
                if act == "sum":
                    total = TreeSum(1, 4, gate, norm_bound=1.0, share=0.1, label=f"sum {len(saved)}")
                    saved.append((name, workers[which], total.state()))
                else:
                    people = rng.choice([gate, split.gate(gate, 0), split.gate(gate, 1)])
                    people.reserve(PureRelease(0.05), rng.randint(1, 3))
            except (dc.BudgetExceeded, PeriodClosed):
                continue
            charged[name] += 1
            month = max(month, int(name.split()[1]))
    assert set(workers[0].names) == set(charged)
    assert sum(charged.values()) == workers[1].ledger.version
    assert loaded
    for name in charged:
        assert workers[0].account(name).epsilon() <= 1.0
    losses = [workers[1].account(name).loss for name in workers[1].names]
    assert workers[0].total().loss == sum(losses, Loss())


# --- what several add up to ------------------------------------------------------------------------------

DEFINITIONS = {
    "pure": (PURE, [HALF, ExponentialChoice(0.1, 2.0), PureRelease(Fraction(1, 7))]),
    "zcdp": (APPROXIMATE, [GaussianNoise(1.0, 9.0), ConcentratedRelease(0.004), PureRelease(0.05)]),
    "gdp": (APPROXIMATE, [GaussianNoise(1.0, 9.0), ExponentialChoice(0.1, 1.0), GaussianNoise(1.0, 30.0)]),
}


@pytest.mark.parametrize("definition", DEFINITIONS)
@pytest.mark.parametrize("rounds", [1, 2])
def test_any_choice_of_periods_adds_up_exactly(definition, rounds):
    """The total of a subset is the account of one gate that made all of its releases."""
    budget, events = DEFINITIONS[definition]
    budget = dc.Budget(2 * rounds, budget.delta, max_rounds_per_person=rounds)
    periods = Periods(budget, definition=definition)
    for name, event in zip("abc", events, strict=True):
        periods.gate(name).reserve(event, 2)
    for size in range(4):
        for chosen in itertools.combinations("abc", size):
            total = periods.total(chosen)
            one = Gate(dc.Budget(100.0, budget.delta, max_rounds_per_person=rounds), definition=definition)
            for name in chosen:
                one.reserve(events["abc".index(name)], 2)
            assert total.loss == one.spent.loss
            assert total.epsilon() == one.spent.epsilon() <= total.budget.epsilon
    assert periods.total().loss == periods.total("abc").loss


def test_groups_of_each_period_take_the_worst_of_each():
    """Somebody may be in the north in one period and in the south in the next."""
    periods = Periods(PURE)
    for name, north, south in (("a", 0.5, 0.25), ("b", 0.125, 0.25)):
        gate = periods.gate(name)
        gate.reserve(PureRelease(0.0625))
        gate.part("north").reserve(PureRelease(north))
        gate.part("south").reserve(PureRelease(south))
    assert periods.total().epsilon() == 0.125 + 0.5 + 0.25
    assert len(list(periods.total().ledger.paths())) == periods.total().ledger.n_paths == 4
    same_place = max(0.5 + 0.125, 0.25 + 0.25) + 0.125
    assert periods.total().epsilon() > same_place


@pytest.mark.parametrize("rounds", [1, 2])
def test_exact_composition_over_periods(rounds):
    """Also for people of several rounds: groups would have no exact curve then; periods alone have one."""
    budget = dc.Budget(1.0, 1e-6, max_rounds_per_person=rounds)
    periods, one = Periods(budget, definition="zcdp"), Gate(replace(budget, epsilon=5.0), definition="zcdp")
    for name in "ab":
        periods.gate(name).reserve(ExponentialChoice(0.02, 1.0), 20)
        one.reserve(ExponentialChoice(0.02, 1.0), 20)
    total = periods.total()
    assert total.epsilon(tight=True) == one.spent.epsilon(tight=True) < total.epsilon()


def test_releases_about_all_rounds_of_a_person_add_up_over_periods():
    budget = dc.Budget(1.0, 1e-6, max_rounds_per_person=2)
    periods = Periods(budget, definition="gdp")
    for name in "ab":
        FactorizedSum(2, 8, periods.gate(name), norm_bound=1.0, min_separation=2)
        (entry,) = periods.account(name).ledger.counts
        assert entry.event.participations == 2
        with pytest.raises(ValueError, match="several disjoint groups"):
            periods.gate(name).part("north").reserve(entry.event)
    account = periods.total()
    assert Account.from_json(json.loads(json.dumps(account.to_json()))).epsilon() == account.epsilon()
    assert account.mu**2 == pytest.approx(2 * periods.account("a").mu ** 2)


def test_limits_of_several_periods():
    for definition, per in (("zcdp", APPROXIMATE.rho), ("gdp", APPROXIMATE.mu**2)):
        periods = Periods(APPROXIMATE, definition=definition)
        for month in range(12):
            event = GaussianNoise.within(APPROXIMATE.share(), 1.0, definition=definition)
            periods.gate(f"{month}").reserve(event)
        total = periods.total()
        assert total.epsilon() == pytest.approx(total.budget.epsilon, rel=1e-6)
        assert 1.0 < total.budget.epsilon < 12.0
        assert total.epsilon() <= total.budget.epsilon
        spent = total.loss.rho if definition == "zcdp" else total.loss.mu_squared
        assert float(spent) == pytest.approx(12 * per, rel=1e-9)
    failing = Periods(dc.Budget(1.0, 1e-6), definition="pure")
    for name in "ab":
        failing.gate(name).reserve(ApproximateRelease(1.0, 1e-6))
    assert failing.total().budget == dc.Budget(2.0, 2e-6)
    assert failing.total().epsilon() == 2.0
    # 5 x 1e-6 in floats is below 5e-6
    for name in "cde":
        failing.gate(name).reserve(ApproximateRelease(1.0, 1e-6))
    assert failing.total().budget == dc.Budget(5.0, 5e-6)
    assert failing.total().epsilon() == 5.0
    # a part of delta, 1e-7 of 1e-6, is kept for releases that may fail, in each of them
    failing = Periods(dc.Budget(1.0, 1e-6), definition="zcdp", failure=1e-7)
    for month in range(12):
        failing.gate(f"{month}").reserve(PureRelease(0.05))
    found = failing.total().budget
    assert found.delta == pytest.approx(12e-6)
    assert found.epsilon == pytest.approx(zcdp_epsilon(12 * zcdp_rho(1.0, 9e-7), 12 * 9e-7), rel=1e-6)
    with pytest.warns(UserWarning, match="delta=0.4 promises little"):
        failing = Periods(dc.Budget(1.0, 0.4), definition="pure")
    for name in "abc":
        failing.gate(name).reserve(ApproximateRelease(1.0, 0.4))
    assert failing.total().budget.delta == math.nextafter(1.0, 0.0)


def test_limits_of_several_periods_for_people_with_several_rounds():
    budget = dc.Budget(1.0, 1e-6, max_rounds_per_person=2)
    failing, most = Periods(budget, definition="pure"), Filter.of(budget, "pure")
    for name in "ab":
        failing.gate(name).reserve(ApproximateRelease(most.limit, most.failure))
    total = failing.total()
    assert total.epsilon() == total.budget.epsilon == 2.0
    assert total.budget.delta == pytest.approx(2e-6 * math.exp(0.5))  # e^1 for both, where each has e^0.5
    assert total.delta(2.0) <= total.budget.delta


def test_bad_choices_of_periods():
    periods = Periods(PURE)
    periods.gate("a").reserve(HALF)
    with pytest.raises(ValueError, match="names one of them twice"):
        periods.total(["a", "a"])
    with pytest.raises(ValueError, match="names 'b', in which nothing was charged"):
        periods.total(["a", "b"])
    assert periods.total([]).epsilon() == 0.0
    assert Periods(dc.Budget(math.inf)).total().epsilon() == 0.0


# --- seen from outside -----------------------------------------------------------------------------------


def _loss_seen(periods_each, epsilon):
    """Largest log ratio of what somebody's noisy answers over some periods can tell: enumerated."""
    keep = math.exp(epsilon) / (1.0 + math.exp(epsilon))
    worst = 0.0
    for said in itertools.product((0, 1), repeat=periods_each):
        true, false = (math.prod(keep if bit == value else 1.0 - keep for bit in said) for value in (0, 1))
        worst = max(worst, abs(math.log(true / false)))
    return worst


@pytest.mark.parametrize("number", [1, 2, 3])
def test_the_total_covers_somebody_who_comes_every_period(number):
    periods = Periods(PURE)
    for month in range(number):
        periods.gate(f"{month}").reserve(HALF)
    seen = _loss_seen(number, 0.5)
    assert seen <= periods.total().epsilon() * (1 + 1e-12)
    # An injected fault: periods taken for disjoint people would promise less than is seen.
    parallel = Releases()
    for group, entry, count, _ in periods.ledger.entries():
        parallel.of_group(group).add(entry, count)
    if number > 1:
        assert seen > Account(PURE, parallel).epsilon() * 1.5
