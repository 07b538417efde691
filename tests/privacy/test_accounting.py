"""The account: counts, definitions, parts, groups, reports; and two independent accountants beside it."""

from __future__ import annotations

import json
import math
import re
from fractions import Fraction

import dp_accounting
import numpy as np
import pytest
from dp_accounting import pld, rdp

import discreet as dc
from discreet import privacy as pv
from discreet.privacy import Entry, Releases, account, composition, conversions, picks
from discreet.privacy.events import Event, Loss
from discreet.privacy.partitions import ThresholdedCounts
from discreet.privacy.picks import SampledPicks, SampledScores, SummedPicks

EVENTS = [
    pv.ExponentialChoice(0.03, 2.0),
    pv.PermuteAndFlip(0.03, 2.0),
    pv.LaplaceNoise(1.0, 25.0),
    pv.LaplaceNoise(Fraction(1, 3), Fraction(25, 7)),
    pv.SphericalLaplaceNoise(1.0, 25.0),
    pv.GaussianNoise(1.0, 40.0),
    pv.GroupGaussianNoise(3.0, 40.0, 4),
    pv.PureRelease(0.04),
    pv.ConcentratedRelease(1e-4),
    pv.ApproximateRelease(0.01, 1e-9),
    pv.ExactChoices(0.03, 2.0, 7, 1e-9),
    SampledPicks(0.04, 2.0),
    SampledScores(0.03, 2.0),
    SummedPicks(0.01, 1e-9, 2.0),
    ThresholdedCounts(0.01, 1e-9, 2),
]


def test_every_kind_of_event_is_exercised_here():
    assert {type(event) for event in EVENTS} == set(Event._kinds.values())


@pytest.mark.parametrize("event", EVENTS, ids=lambda e: type(e).__name__)
def test_count_equals_loop(event):
    together, one_by_one = Releases(), Releases()
    together.add(Entry("x", event), 137)
    for _ in range(137):
        one_by_one.add(Entry("x", event), 1)
    assert together.loss == one_by_one.loss
    assert together.loss != event.loss()  # a count that is ignored would pass the line above too


@pytest.mark.parametrize("event", EVENTS, ids=lambda e: type(e).__name__)
def test_events_survive_json(event):
    assert Event.from_json(json.loads(json.dumps(event.to_json()))) == event


def test_unknown_event_kind_is_named():
    with pytest.raises(ValueError, match="unknown event kind 'Magic'; known: ApproximateRelease"):
        Event.from_json({"kind": "Magic"})


@pytest.mark.parametrize("event", EVENTS, ids=lambda e: type(e).__name__)
def test_scaled_down_event_costs_less_in_every_definition(event):
    smaller = event.scaled(0.5).loss()
    for name in ("pure", "rho", "mu_squared"):
        before, after = getattr(event.loss(), name), getattr(smaller, name)
        if before:
            assert after <= before / 2 + Fraction(1, 10**12)


def _account(*releases, budget=None):
    gate = dc.Gate(budget or dc.Budget(math.inf, 0.5), 0)
    for event, count in releases:
        gate.reserve(event, count)
    return gate.spent


@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-9])
@pytest.mark.parametrize("count", [1, 10, 1000])
def test_gaussian_histories_match_dp_accounting(count, delta):
    ours = _account((pv.GaussianNoise(1.0, 40.0), count)).epsilon(delta)
    oracle = dp_accounting.get_epsilon_gaussian(40.0 / math.sqrt(count), delta)
    assert ours == pytest.approx(oracle, rel=1e-6)


def test_mixture_of_laplace_and_gaussian_is_never_below_the_exact_loss_distribution():
    # The loss distributions of dp-accounting are exact up to their grid: a lower bound on any honest account.
    exact = pld.privacy_loss_distribution.from_laplace_mechanism(25.0, value_discretization_interval=1e-4)
    exact = exact.self_compose(20)
    gaussian = pld.privacy_loss_distribution.from_gaussian_mechanism(40.0, value_discretization_interval=1e-4)
    exact = exact.compose(gaussian.self_compose(20))
    account = _account((pv.LaplaceNoise(1.0, 25.0), 20), (pv.GaussianNoise(1.0, 40.0), 20))
    for delta in (1e-3, 1e-6, 1e-9):
        # optimistic value: the pessimistic grid can add at most one step per composed release
        assert exact.get_epsilon_for_delta(delta) - 40 * 1e-4 <= account.epsilon(delta)
        assert account.epsilon(delta) <= 1.5 * exact.get_epsilon_for_delta(delta)


def test_pure_history_stays_pure():
    account = _account((pv.ExponentialChoice(0.03, 2.0), 3), (pv.LaplaceNoise(1.0, 25.0), 2))
    assert account.epsilon(0.0) == account.pure == pytest.approx(0.26)
    assert account.delta(0.26) == 0.0
    mixed = _account((pv.LaplaceNoise(1.0, 25.0), 2), (pv.GaussianNoise(1.0, 40.0), 1))
    assert mixed.epsilon(0.0) == mixed.pure == math.inf


def test_choice_is_charged_by_its_range_not_as_generic_epsilon():
    choice, generic = pv.ExponentialChoice(0.03, 2.0).loss(), pv.PureRelease(0.06).loss()
    assert choice.rho == Fraction(6, 100) ** 2 / 8
    assert choice.pure == generic.pure == Fraction(6, 100)
    assert generic.rho > 3.9 * choice.rho
    assert choice.mu_squared < 0.26 * generic.mu_squared


def test_best_definition_is_reported():
    assert _account((pv.LaplaceNoise(1.0, 2.0), 1)).best_definition(1e-6) == "pure epsilon"
    assert _account((pv.ExponentialChoice(0.002, 2.0), 10_000)).best_definition(1e-6) == "zCDP"
    assert _account((pv.GaussianNoise(1.0, 4.0), 1)).best_definition(1e-6) == "Gaussian DP"
    mixed = _account((pv.LaplaceNoise(1.0, 2.0), 1), (pv.GaussianNoise(1.0, 20.0), 1))
    assert mixed.best_definition(1e-6).startswith("pure epsilon + ")
    found, heads = mixed.epsilon(1e-6), 1.0 / (1.0 + math.exp(-0.5))
    assert found < 0.5 + dp_accounting.get_epsilon_gaussian(20.0, 1e-6)
    by_answer = [pv.conversions.gdp_delta(1 / 20.0, found - loss) for loss in (0.5, -0.5)]
    assert heads * by_answer[0] + (1.0 - heads) * by_answer[1] == pytest.approx(1e-6, rel=1e-4)


def test_parts_cost_the_worst_of_them_and_own_releases_add():
    budget = dc.Budget(1.0)
    gate = dc.Gate(budget, 0)
    gate.reserve(pv.PureRelease(0.2))
    for name in "abcdef":
        gate.part(name).reserve(pv.PureRelease(0.5))
    assert gate.spent.epsilon() == 0.7
    gate.part("a").reserve(pv.PureRelease(0.3))  # the same name is the same part
    assert gate.spent.epsilon() == 1.0
    with pytest.raises(dc.BudgetExceeded):
        gate.part("a").reserve(pv.PureRelease(0.01))
    gate.part("b").reserve(pv.PureRelease(0.3))
    with pytest.raises(dc.BudgetExceeded):
        gate.reserve(pv.PureRelease(0.01))
    assert gate.spent.epsilon() == 1.0


def test_nested_parts():
    gate = dc.Gate(dc.Budget(1.0), 0)
    north = gate.part("north")
    north.part("young").reserve(pv.PureRelease(0.4))
    north.part("old").reserve(pv.PureRelease(0.1))
    north.reserve(pv.PureRelease(0.2))
    gate.part("south").reserve(pv.PureRelease(0.5))
    assert gate.spent.epsilon() == 0.6


def test_accepted_histories_have_finite_reports_within_the_budget():
    """Whatever fits the gate is reported within the budget, also near the limit."""
    for epsilon, delta in ((0.1, 1e-3), (1.0, 1e-6), (10.0, 1e-9), (50.0, 1e-6)):
        for definition in ("zcdp", "gdp"):
            gate = dc.Gate(dc.Budget(epsilon, delta), 0, definition=definition, failure=delta / 10)
            gate.reserve(pv.ApproximateRelease(0.0, delta / 10))
            gate.reserve(pv.GaussianNoise(1.0, 1.0 / gate.remaining.mu * (1 + 1e-9)))
            assert gate.spent.epsilon() <= epsilon * (1 + 1e-9)
            assert gate.spent.delta() <= delta * (1 + 1e-9)


def test_pure_account_does_not_hide_a_delta():
    assert _account((pv.ApproximateRelease(0.1, 1e-9), 1)).pure == math.inf


def test_tiny_losses_do_not_vanish():
    gate = dc.Gate(dc.Budget(1.0, 1e-6), 0)
    with pytest.raises(dc.BudgetExceeded):
        gate.reserve(pv.PureRelease(1e-17), 10**34)
    assert _account((pv.GaussianNoise(1.0, 100.0), 1)).delta(10.0) > 0.0


def test_approximate_releases_use_up_delta():
    gate = dc.Gate(dc.Budget(1.0, 1e-6), 0)
    gate.reserve(pv.ApproximateRelease(0.1, 6e-7))
    with pytest.raises(dc.BudgetExceeded):
        gate.reserve(pv.ApproximateRelease(0.1, 6e-7))
    gate.reserve(pv.ApproximateRelease(0.1, 4e-7))
    assert gate.spent.delta(0.2) == 1e-6


def test_group_privacy_of_approximate_releases():
    budget = dc.Budget(1.0, 1e-6, max_rounds_per_person=3)
    gate = dc.Gate(budget, 0)
    gate.reserve(pv.ApproximateRelease(0.1, 1e-7))
    # three steps of (0.1, d) make (0.3, d (1 + e^.1 + e^.2)); ours bounds the sum by its largest term
    assert gate.spent.epsilon() == 0.3
    assert 3.3e-7 < gate.spent.delta(0.3) < 3.7e-7


def test_losses_with_no_noise_are_unbounded():
    assert Loss.unbounded().pure is None
    assert pv.GaussianNoise(0.0, 0.0).loss() == Loss.of_gaussian(Fraction(0))
    with pytest.raises(dc.BudgetExceeded) as refused:
        dc.Gate(dc.Budget(1.0, 1e-6), 0).gaussian([1.0], sigma=0.0, sensitivity=1.0)
    assert refused.value.largest is None


def test_account_survives_json():
    gate = dc.Gate(dc.Budget(3.0, 1e-6, "add_remove", 2), 5)
    for event in EVENTS[:5]:
        gate.reserve(event, 3)
    gate.part("a").reserve(EVENTS[0], 2)
    saved = json.loads(json.dumps(gate.spent.to_json()))
    again = pv.Account.from_json(saved)
    assert again.loss == gate.spent.loss
    assert str(again) == str(gate.spent)


def test_tight_account_gives_way_where_it_is_not_meant_for():
    huge = _account((pv.ExponentialChoice(500.0, 2.0), 2))
    assert huge.epsilon(1e-6, tight=True) == huge.epsilon(1e-6) <= 2000.0
    assert huge.delta(1.0, tight=True) == huge.delta(1.0) == 1.0
    tiny = _account((pv.ExponentialChoice(0.01, 2.0), 200))
    assert tiny.epsilon(1e-15, tight=True) == tiny.epsilon(1e-15)


def _exact(*releases, rounds=1):
    ledger = Releases()
    for event, count in releases:
        ledger.add(Entry("x", event), count)
    return _epsilon(ledger, dc.Budget(1.0, 1e-6, "replace", rounds))


def _epsilon(ledger, budget):
    return account._worst(composition.adaptive_choices_epsilon, 1e-6, account._curves(ledger, budget))


def test_the_exact_curve_counts_every_release_of_every_kind():
    """n releases of one kind beside choices are one release that is n (or sqrt n) times as large."""
    choices = (pv.ExponentialChoice(0.03, 2.0), 50)
    nine = _exact(choices, (pv.GaussianNoise(1.0, 30.0), 9))
    assert nine == pytest.approx(_exact(choices, (pv.GaussianNoise(3.0, 30.0), 1)), rel=1e-9)
    assert nine > 1.05 * _exact(choices, (pv.GaussianNoise(1.0, 30.0), 1))
    pure = _exact(choices, (pv.LaplaceNoise(1.0, 50.0), 4))
    assert pure > 1.01 * _exact(choices, (pv.LaplaceNoise(1.0, 50.0), 1))
    split = _exact(choices, (pv.LaplaceNoise(1.0, 50.0), 1), (pv.PureRelease(0.02), 3))
    assert split == pytest.approx(pure, rel=1e-12)
    twice = _exact(choices, choices)
    assert twice == pytest.approx(_exact((choices[0], 100)), rel=1e-12)


def test_the_exact_curve_of_a_person_in_several_rounds():
    """Three rounds each: every loss is three times as large, in its own definition."""

    def released(times):
        gaussian, pure = pv.GaussianNoise(times, 30.0), pv.PureRelease(0.02 * times)
        return (pv.ExponentialChoice(0.03 * times, 2.0), 50), (gaussian, 2), (pure, 3)

    three = _exact(*released(1.0), rounds=3)
    assert three == pytest.approx(_exact(*released(3.0)), rel=1e-9)


def test_the_exact_curve_of_groups_is_that_of_the_worst():
    gate = dc.Gate(dc.Budget(3.0, 1e-6))
    for name, count in (("few", 20), ("many", 200), ("some", 50)):
        gate.part(name).reserve(pv.ExponentialChoice(0.03, 2.0), count)
    alone = _exact((pv.ExponentialChoice(0.03, 2.0), 200))
    assert _epsilon(gate.spent.ledger, gate.budget) == pytest.approx(alone, rel=1e-12)
    deltas = [
        account._worst(composition.adaptive_choices_delta, 0.5, account._curves(ledger, gate.budget))
        for ledger in (gate.spent.ledger, gate.spent.ledger.parts["many"])
    ]
    assert deltas[0] == pytest.approx(deltas[1], rel=1e-12)


@pytest.mark.parametrize("count", [1, 30, 1000])
def test_choices_match_a_dense_rdp_accountant(count):
    width = 0.06
    account = _account((pv.ExponentialChoice(0.03, 2.0), count))
    accountant = rdp.RdpAccountant(1 + np.geomspace(1e-2, 1e5, 20_001))
    for _ in range(1):  # one zCDP event of the summed rho; never its randomized-response count
        accountant.compose(dp_accounting.ZCDpEvent(count * width**2 / 8))
    oracle = min(accountant.get_epsilon(1e-6), count * width)
    assert account.epsilon(1e-6) == pytest.approx(oracle, rel=1e-4)
    assert account.epsilon(1e-6) <= oracle * (1 + 1e-9)


def test_gaussian_histories_are_within_the_error_bars_of_a_second_accountant():
    # prv_accountant; exponential choices are held against it in test_composition.py.
    from prv_accountant import PRVAccountant
    from prv_accountant.privacy_random_variables import GaussianMechanism

    oracle = PRVAccountant(
        prvs=[GaussianMechanism(noise_multiplier=40.0)],
        max_self_compositions=[1000],
        eps_error=5e-3,
        delta_error=1e-10,
    )
    low, _, high = oracle.compute_epsilon(delta=1e-6, num_self_compositions=[1000])
    assert low <= _account((pv.GaussianNoise(1.0, 40.0), 1000)).epsilon(1e-6) <= high


def test_epsilon_and_delta_are_inverse_to_each_other():
    for releases in ([(pv.GaussianNoise(1.0, 4.0), 3)], [(pv.ExponentialChoice(0.02, 2.0), 500)]):
        account = _account(*releases)
        for delta in (1e-3, 1e-6):
            assert account.delta(account.epsilon(delta)) == pytest.approx(delta, rel=1e-6)


def test_tight_account_of_ten_thousand_choices():
    """The published rate, 10,000 releases: the tight report is within 2 % of the Gaussian limit .1794."""
    rate = 1 / math.sqrt(32 * 10_000 * math.log(1e6))
    account = _account((pv.ExponentialChoice(rate, 2.0), 10_000))
    assert 0.1794 <= account.epsilon(1e-6, tight=True) <= 0.1794 * 1.02
    assert account.epsilon(1e-6) == pytest.approx(0.195, abs=5e-4)
    assert account.delta(0.18, tight=True) < account.delta(0.18)


def test_rate_for_ten_thousand_choices_is_4_64_times_the_published_one():
    published = 1 / math.sqrt(32 * 10_000 * math.log(1e6))
    event = pv.ExponentialChoice.within(dc.Budget(1.0, 1e-6).share(), 2.0, 10_000)
    assert event.rate / published >= 4.5
    gate = dc.Gate(dc.Budget(1.0, 1e-6), 0)
    gate.reserve(event, 10_000)
    assert gate.spent.epsilon() <= 1.0
    assert gate.spent.epsilon(tight=True) <= 0.95


def test_the_worst_of_two_is_the_larger_in_every_definition():
    """Also of their deltas; None, which stands for no bound, is larger than any number."""
    one = Loss.of_pure(Fraction(1, 2))._replace(delta=Fraction(1, 10))
    other = Loss.of_gaussian(Fraction(4))._replace(pure=None, delta=Fraction(1, 5))
    for a, b in ((one, other), (other, one)):
        found = a.worst(b)
        assert found.pure is None
        assert found[1:] == tuple(map(max, one[1:], other[1:]))
        assert found.delta == Fraction(1, 5)


MIXED = Loss(*(Fraction(1, one) for one in (5, 50, 20, 200, 90)))  # pure, rho, mu squared, and of the rest


@pytest.mark.parametrize("rounds", [1, 3])
def test_what_a_loss_means_in_every_definition(rounds):
    """A person in three rounds has three times the epsilon, and nine times the rho and the square of mu."""
    budget, square = dc.Budget(1.0, 1e-6, max_rounds_per_person=rounds), rounds**2
    failing = Fraction(1, 10**7) if rounds == 1 else Fraction(0)
    loss, left = MIXED._replace(delta=failing), 1e-6 - float(failing)
    pure, mu = Fraction(rounds, 5), rounds / math.sqrt(90)
    wanted = {
        "zcdp": conversions.zcdp_epsilon(square / 50, left),
        "gdp": conversions.gdp_epsilon(rounds / math.sqrt(20), left),
        "mixed": rounds / 5 + conversions.zcdp_epsilon(square / 200, left),
        "concurrent": conversions.concurrent_epsilon(pure, mu, left),
        "pure": math.inf,
    }
    for definition, epsilon in wanted.items():
        assert account.smallest_epsilon(loss, budget, 1e-6, definition) == pytest.approx(epsilon)
    assert account.smallest_epsilon(loss, budget, 1e-6) == pytest.approx(min(wanted.values()))
    wanted = {
        "zcdp": conversions.zcdp_delta(square / 50, 1.5),
        "gdp": conversions.gdp_delta(rounds / math.sqrt(20), 1.5),
        "concurrent": conversions.concurrent_delta(pure, mu, Fraction(3, 2)),
        "pure": 1.0,
    }
    for definition, delta in wanted.items():
        found = account.smallest_delta(loss, budget, 1.5, definition)
        assert found == pytest.approx(min(1.0, delta + float(failing)), rel=1e-9)
    mixture = conversions.zcdp_delta(square / 200, 1.5 - rounds / 5)
    found = account.smallest_delta(loss, budget, 1.5)
    assert found == pytest.approx(min(*wanted.values(), mixture) + float(failing), rel=1e-9)
    assert account.smallest_delta(loss, budget, math.inf) == float(failing)
    for endless in (Loss.unbounded(), MIXED._replace(delta=Fraction(3))):
        assert account.smallest_delta(endless, budget, math.inf) == 1.0
    # pure releases that fail: over three rounds each of them does, e^(2 / 5) times as likely at the last
    loss = Loss.of_pure(Fraction(1, 5))._replace(delta=Fraction(1, 10**8))
    whole = 1e-8 if rounds == 1 else 3e-8 * math.exp(0.4)
    for epsilon in (rounds / 5, math.inf):
        assert account.smallest_delta(loss, budget, epsilon, "pure") == pytest.approx(whole, rel=1e-9)
    assert account.smallest_epsilon(loss, budget, whole * 1.0001, "pure") == rounds / 5
    assert account.smallest_epsilon(loss, budget, whole * 0.9999) == math.inf
    limits = account.Filter.of(budget, "pure")
    assert limits.limit == Fraction(1, rounds)
    growth = 1 if rounds == 1 else 3 * math.exp(2 / 3)
    assert float(limits.failure) == pytest.approx(1e-6 / growth, rel=1e-9)
    assert float(limits.failure) <= 1e-6 / growth * (1 + 1e-15)


def test_what_is_left_of_a_limit_in_every_definition():
    budget, loss = dc.Budget(1.0, 1e-6), MIXED._replace(delta=Fraction(1, 10**7))
    for definition, limit, epsilon, rho, mu in (
        ("zcdp", 0.1, math.sqrt(2 * 0.08), 0.08, math.sqrt(2 * 0.08)),
        ("gdp", 0.25, math.sqrt(0.2 * 2 / math.pi), 0.0, math.sqrt(0.2)),
        ("concurrent", 0.25, 0.3, 0.0, math.sqrt(0.25 - 1 / 90)),
        ("zcdp", 0.01, 0.0, 0.0, 0.0),
    ):
        chosen = account.Filter(definition, Fraction(str(limit)), Fraction(3, 10**7), Fraction(1, 2))
        found = account.Remaining.of(budget, loss, chosen)
        assert (found.epsilon, found.rho, found.mu, found.delta) == pytest.approx((epsilon, rho, mu, 2e-7))
        third = chosen.part(Fraction(1, 3))
        assert (3 * third.limit, 3 * third.failure, 3 * third.pure) == (
            chosen.limit,
            chosen.failure,
            chosen.pure,
        )
    pure = Loss.of_pure(Fraction(1, 5))._replace(delta=Fraction(1))
    found = account.Remaining.of(budget, pure, account.Filter("pure", Fraction(1), Fraction(3, 10**7)))
    assert (found.epsilon, found.delta) == (0.8, 0.0)


def test_the_limits_of_a_budget_are_met_and_not_exceeded():
    budget, many = dc.Budget(1.0, 1e-6), dc.Budget(1.0, 1e-6, max_rounds_per_person=3)
    aside, tiny = Fraction(4, 10**7), Fraction(1, 10**9)
    zcdp, gdp = (account.Filter.of(budget, name, aside) for name in ("zcdp", "gdp"))
    assert float(zcdp.limit) == pytest.approx(conversions.zcdp_rho(1.0, 6e-7))
    assert float(gdp.limit) == pytest.approx(conversions.gdp_mu(1.0, 6e-7) ** 2)
    for given, failure in ((many, aside), (budget, Fraction(1, 10**6)), (budget, Fraction(2, 10**6))):
        assert account.Filter.of(given, "zcdp", failure).limit == 0
    # a third of an epsilon in each of three rounds, beside the largest mu for which that leaves room
    mu = conversions.concurrent_mu(Fraction(1, 3), Fraction(1), 1e-6) / 3
    fits, over = (
        account.Filter.concurrent(many, Fraction(1, 9), Fraction(mu * by) ** 2) for by in (0.999, 1.001)
    )
    assert over is None
    loss = MIXED._replace(delta=Fraction(0))
    for chosen, met in (
        (zcdp, loss._replace(rho=zcdp.limit, delta=aside)),
        (gdp, loss._replace(mu_squared=gdp.limit, delta=aside)),
        (fits, loss._replace(pure=fits.pure, rest_mu_squared=fits.limit)),
    ):
        field = {"zcdp": "rho", "gdp": "mu_squared"}.get(chosen.definition, "rest_mu_squared")
        beyond = [met._replace(**{field: chosen.limit * (1 + tiny)}), met._replace(delta=aside * (1 + tiny))]
        beyond += [met._replace(pure=fits.pure * (1 + tiny))] * (chosen is fits)
        below = met._replace(**{field: chosen.limit / 2}, delta=chosen.failure / 2)
        for holds in (chosen.fits, chosen.allows):
            assert holds(met)
            assert holds(below)
            assert not any(map(holds, beyond))
        again = met._replace(**{field: chosen.limit * (1 + Fraction(1, 1 << 401))})
        assert chosen.allows(again) > chosen.fits(again)
        again = met._replace(delta=chosen.failure * (1 + Fraction(1, 1 << 401)))
        assert chosen.allows(again)


@pytest.mark.parametrize(("neighbours", "part"), [("add_remove", 1), ("replace", 2)])
def test_rates_of_picks_that_are_paid_for_together(neighbours, part):
    """The formulas of `decomposable_delta` and `subsampled` with all parts of a person up to 4."""
    rate, epsilon = 0.03, 0.5
    c = math.exp(rate) - 1
    by_hand = c / (1 + c) * math.exp(1 - epsilon / c)
    if neighbours == "replace":  # by way of the run without both
        by_hand = math.exp(rate) * c / (1 + c) * math.exp(1 - (epsilon - rate) / c)
    assert picks.decomposable_delta(rate, epsilon, neighbours) == pytest.approx(by_hand)
    paid = SummedPicks(epsilon, 1e-6, 4.0).rate(neighbours)
    assert picks.decomposable_delta(4 * paid, epsilon, neighbours) == pytest.approx(1e-6, rel=1e-6)
    assert picks.decomposable_delta(4 * paid * 1.001, epsilon, neighbours) > 1e-6
    found = picks.sampled(SampledPicks(0.8, 4.0), 4.0, neighbours)
    assert found.chance == pytest.approx(1 - math.exp(-0.8 / part))
    assert found.rate == pytest.approx(math.log(1 + math.exp(0.8 / part)) / 4)
    assert found.temperature == pytest.approx(found.rate * found.chance)
    share = dc.Budget(0.9, neighbours=neighbours).share(Fraction(1, 3))
    assert picks.basic(share, 4.0, 5).rate == pytest.approx(0.3 / 5 / 4)


def test_no_printed_bound_is_below_the_true_one():
    """Six digits of 1.2345644 are 1.23456 to the nearest, which is less than was spent."""
    epsilon, delta = 1.2345644, 1.2345644e-6
    budget = dc.Budget(epsilon, delta)
    gate = dc.Gate(budget, definition="pure")
    gate.reserve(pv.ApproximateRelease(epsilon, delta))
    periods = pv.Periods(budget, definition="pure")
    periods.gate("2026-11").reserve(pv.ApproximateRelease(epsilon, delta))
    learner = dc.online.HedgeSelector(4, 1, 9, budget, seed=0)
    printed = {
        "account": str(gate.spent),
        "repr": repr(gate.spent),
        "card": gate.spent._repr_html_(),
        "gate": repr(gate).replace(repr(budget), ""),  # a budget is printed with all of its digits
        "preview": str(gate.preview(pv.PureRelease(0.5))),
        "periods": str(periods),
        "budget": budget._repr_html_(),
        "guarantee": str(learner.privacy).partition("\n")[0],
        "plan": dc.plan(4, 1, 100, budget).headline,
    }
    for what, text in printed.items():
        numbers = re.findall(r"1\.23\d*", text)
        assert numbers, f"{what}: {text}"
        assert min(map(float, numbers)) >= epsilon, f"{what}: {text}"
    assert "which makes 1.73457, limit" in printed["preview"]
    assert "3.44 times" in printed["budget"]  # e^epsilon is 3.4369


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-6), (0.5, 1e-9), (0.1, 1e-6), (3.0, 1e-5)])
def test_bounds_that_are_exact_in_a_few_digits_are_printed_as_they_are(epsilon, delta):
    gate = dc.Gate(dc.Budget(epsilon, delta), definition="pure")
    for _ in range(10):
        gate.reserve(pv.ApproximateRelease(Fraction(str(epsilon)) / 10, Fraction(str(delta)) / 10))
    said = f"epsilon {epsilon:g} at delta {delta:g} by pure epsilon; limit {epsilon:g};"
    assert str(gate.spent).startswith(said)
