"""The audits hold for the library, notice injected faults, and leave nothing out."""

from __future__ import annotations

import json
import math
import warnings
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

import discreet as dc
from discreet.audit import faults, hooks, measures, settings
from discreet.audit import run as face
from discreet.audit.cases import QUICK, ChoiceCase, ChoicesWithNumbers, Finding, MixedCase, NoiseCase, Played
from discreet.audit.measures import Pair, Space
from discreet.cli import main
from discreet.constraints.domains import Domain
from discreet.privacy import samplers

QUICK_CASES = settings.chosen(None, deep=False)
# Settings that take seconds, of names of which another one is quick or that a test of theirs enumerates.
SLOW = (
    "RollingSelector: 2 releases, 1 of 2 items",
    "PrivateGreedy: basic, 1 of 5 items and what they gain",
    "PrivateGreedy: decomposable, 14 of 16 items, when the first is picked",
    "ThompsonSelector: values in blocks of 2 rounds, 2 of 3 items",
    "SubmodularMinimizer: Laplace tree, 3 items",
    "ContinuousGreedy: gaussian gradient, 1 of 3 items, 2 steps",
)


@pytest.fixture(autouse=True)
def _domains_are_probed_once(monkeypatch):
    """An audit makes a learner thousands of times, each time over the same domain."""
    plain, probed = Domain.check, []

    def check(domain):
        if not any(domain is one for one in probed):
            plain(domain)
            probed.append(domain)

    monkeypatch.setattr(Domain, "check", check)


# --- everything is audited --------------------------------------------------------------------------


def _cases():
    names = {f"{case.name}: {case.setting}": case for case in QUICK_CASES}
    assert set(SLOW) <= set(names)
    marks = {name: [pytest.mark.slow] for name in SLOW}
    return [pytest.param(case, id=name, marks=marks.get(name, [])) for name, case in names.items()]


@pytest.mark.parametrize("case", _cases())
def test_quick_audit(case):
    finding = case.audit(QUICK)
    assert finding.sound, finding.verdict
    assert finding.caught == case.faults
    assert 0.1 * finding.claimed < finding.exact <= finding.claimed * (1 + 1e-6)  # it looks where it matters


def test_nothing_public_is_left_out():
    assert settings.missing() == []
    quick = {case.name for case in QUICK_CASES}
    assert set(settings.to_audit()) <= quick
    assert {"Gate.choose", "TreeSum", "FactorizedSum", "HedgeSelector", "PrivateGreedy"} <= quick


def test_a_class_without_an_audit_is_missed():
    class NewSelector(dc.online.PhasedSelector):
        """Made up, and nowhere in the registry."""

    class NewResult:
        """Decides nothing."""

    module = SimpleNamespace(
        __all__=["NewSelector", "NewResult", "OnlineLearner", "PhasedSelector"],
        NewSelector=NewSelector,
        NewResult=NewResult,
        OnlineLearner=dc.online.OnlineLearner,
        PhasedSelector=dc.online.PhasedSelector,
    )
    assert settings.missing(module) == ["NewSelector"]


def test_every_kind_of_running_sum_is_audited():
    """What the classes say they can do, against what the settings say they try."""
    said = " ".join(case.setting.lower() for case in settings.cases() if case.name == "TreeSum")
    assert all(noise in said for noise in dc.privacy.TreeSum.noises)
    assert "combined" in said
    assert len([case for case in QUICK_CASES if case.name == "FactorizedSum"]) == 2


def test_outputs_alone_are_put_to_the_test_everywhere():
    """Every setting has a gross error that outputs must reject, or says why it cannot have one."""
    for case in settings.cases():
        tested = any(name in faults.OUTPUTS for name in case.faults)
        assert tested or any("utputs alone" in reason for reason in case.unseen), (case.name, case.setting)
    assert all(any(name in faults.OUTPUTS for name in case.faults) for case in QUICK_CASES)


def test_errors_that_one_setting_cannot_see_are_seen_in_another():
    noticed = {}
    for case in settings.cases():
        noticed.setdefault(f"{case.name}, {case.setting.split(',')[0]}", set()).update(case.faults)
    for method in ("basic", "zcdp", "exact", "decomposable", "subsampled"):
        assert {"rate doubled", "charges forgotten"} <= noticed[f"PrivateGreedy, {method}"]
    for objective in ("covariance", "threshold", "mutual information"):
        assert {"rate doubled", "charges forgotten"} <= noticed[f"PrivateFeatureSelector, {objective}"]
    knapsacks = [case for case in settings.cases() if "knapsack" in case.setting]
    assert knapsacks
    assert all("charges forgotten" in case.faults for case in knapsacks)
    assert all("charges forgotten" in case.faults for case in settings.cases() if "ItemSelector" in case.name)


# --- the audit of a wrong library fails ---------------------------------------------------------------


def case_of(name, start=""):
    return next(case for case in QUICK_CASES if case.name == name and case.setting.startswith(start))


@pytest.mark.parametrize(
    ("name", "fault", "said"),
    [
        ("Gate.choose", faults.rate_doubled, "beyond the account"),
        ("Gate.choose", faults.charges_forgotten, "beyond the account"),
        ("Gate.laplace", faults.noise_halved, "outputs prove epsilon"),
        ("Gate.gaussian", faults.noise_sign_lost, "does not follow"),
        ("FactorizedSum", faults.sensitivity_halved, "beyond the account"),
        ("HedgeSelector", faults.charges_forgotten, "beyond the account"),
        ("RunningSumSelector", faults.noise_left_out, "outputs prove epsilon"),
    ],
)
def test_a_wrong_library_gets_a_failing_verdict(name, fault, said):
    case = replace(case_of(name), faults=())
    with fault():
        finding = case.audit(QUICK)
    assert not finding.sound
    assert said in finding.verdict
    assert case.audit(QUICK).sound


@pytest.mark.parametrize(
    ("name", "start", "fault"),
    [
        ("Gate.choose", "", faults.CHOICES_TELL),
        ("PrivateGreedy", "basic, 1 of 5", faults.CHOICES_TELL),
        ("PrivateGreedy", "basic, 1 of 5", faults.NUMBERS_TELL),
        ("TreeSum", "Laplace", faults.NUMBERS_TELL),
        ("RunningSumSelector", "Laplace", faults.SHOWN_TELLS),
        ("BanditSelector", "blocks", faults.SHOWN_TELLS),
    ],
)
def test_outputs_alone_reject_what_is_wrong_and_nothing_else(name, start, fault):
    """The same neighbours, runs and scores, with the injected fault and without any."""
    case = case_of(name, start)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pair = case._worst(case._searched(), 8)
        assert case.outputs_notice(fault, faults.OUTPUTS[fault], pair, QUICK)
        if isinstance(case, NoiseCase):
            assert not case.outputs_notice(fault, faults.no_fault, pair, QUICK)
            return
        clear, runs = case._clear_pair(faults.OUTPUTS[fault], pair, QUICK) or (pair, 0)
        if isinstance(case, MixedCase):
            bound, _ = case._bound(clear, max(runs, 300))
        else:
            bound = replace(case, faults=(), run_factor=3).real_runs(clear, QUICK)[1]
        assert bound <= case._claim(pair)


def test_a_learner_that_shows_people_past_the_gate_is_noticed():
    """All noise is in order, and the exact part of the releases too: only what is shown gives it away."""
    case = replace(case_of("RunningSumSelector", "Laplace"), faults=())
    honest = case.play

    def leaking(stream, source):
        played = honest(stream, source)
        return Played([*played.published, stream[0]], played.account)

    pair = case._worst(case._searched(), 8)
    assert case.compare(pair)[1] == 0.0
    finding = replace(case, play=leaking).audit(QUICK)
    assert math.isinf(finding.excess)
    assert "outputs prove epsilon" in finding.verdict


def _spending(scale):
    """The account of one number with this much noise."""
    gate = dc.Gate(dc.Budget(2.0), 0)
    gate.laplace(0.0, scale, 1.0)
    return gate.spent


@pytest.mark.parametrize("kind", [NoiseCase, MixedCase])
def test_noise_whose_width_depends_on_people_is_infinite(kind):
    """More noise than the account asks for hides a number, and its width shows that somebody has it."""
    account = _spending(1.0)

    def play(stream, source):
        gate, mine = dc.Gate(dc.Budget(9.0), source), float(stream[0, 0])
        chosen = 0 if kind is NoiseCase else gate.choose([0.0, 0.0], 0.5, 1.0)
        gate.laplace(mine, 1.0 + mine, 1.0)
        return Played((chosen,), lambda: account)

    case = kind("Gate.laplace", "two widths", dc.Budget(2.0), Space(1, 1), play, ())
    for mine, yours in ((1.0, 0.0), (0.0, 1.0)):
        assert math.isinf(case.compare(Pair(np.zeros((1, 1)), np.array([mine]), np.array([yours])))[1])


def test_the_smaller_of_two_claims_has_to_hold():
    """An account that depends on people claims of one world what is not true of both."""

    def play(stream, source):
        mine = float(stream[0, 0])
        noisy = dc.Gate(dc.Budget(9.0), source).laplace(mine, 1.0, 1.0)
        return Played([noisy], lambda: _spending(1.0 if mine else 10.0))

    case = NoiseCase("Gate.laplace", "two claims", dc.Budget(2.0), Space(1, 1), play, ())
    for mine, yours in ((1.0, 0.0), (0.0, 1.0)):
        excess = case.compare(Pair(np.zeros((1, 1)), np.array([mine]), np.array([yours])))[1]
        assert excess == pytest.approx(0.9, rel=1e-3)


@pytest.mark.parametrize(("first", "second", "seen"), [(0.1, 0.0, True), (0.0, 0.1, True), (0.0, 0.0, False)])
def test_a_fault_is_looked_for_with_other_neighbours(monkeypatch, first, second, seen):
    """Where those of the sound library hide it."""
    case, excess = case_of("Gate.choose"), iter([first, second])
    monkeypatch.setattr(type(case), "compare", lambda *_: (1.0, next(excess)))
    monkeypatch.setattr(type(case), "_worst", lambda *_, **__: None)
    assert case.notices("rate doubled", None, QUICK) is seen


@pytest.mark.parametrize("fault", ["rate doubled", faults.CHOICES_TELL])
def test_an_audit_that_cannot_see_fails(fault):
    """A setting so coarse that an injected fault changes nothing is itself called wrong."""
    budget = dc.Budget(1.0)

    def play(_, source):
        gate = dc.Gate(budget, source)
        return Played((gate.choose([0.0, 0.0], 0.1, 1.0),), lambda: gate.spent)

    finding = ChoiceCase("Gate.choose", "ignores people", budget, Space(1, 1), play, (fault,)).audit(QUICK)
    assert finding.missed == (fault,)
    assert "not noticed" in finding.verdict


def test_a_release_that_no_noise_covers_is_infinite():
    budget = dc.Budget(1.0)

    def play(stream, source):
        gate = dc.Gate(budget, source)
        published = [gate.laplace(stream.sum(axis=0)[:1], 1.0, 1.0), stream.sum(axis=0)]
        with hooks.swapped(dc.privacy.Release, "steps", lambda _, n, *__: np.zeros(n, dtype=np.int64)):
            published.append(gate.laplace(stream.sum(axis=0)[:1], 1.0, 0.0))
        return Played(published, lambda: gate.spent)

    leaky = NoiseCase("Gate.laplace", "one of two bare", budget, Space(1, 1), play, ())
    finding = leaky.audit(QUICK)
    assert math.isinf(finding.exact)
    assert not finding.sound


def test_choices_that_are_not_seen_are_an_error():
    rng = np.random.default_rng(0)
    with pytest.raises(AssertionError, match="not audited"):
        measures.distribution(lambda: dc.Gate(dc.Budget(9.0), 0).choose(rng.random(2), 1.0, 1.0))


# --- the parts ----------------------------------------------------------------------------------------


def test_enumerated_divergences_are_those_of_the_formula():
    """One pick between two candidates: randomized response."""
    p = measures.distribution(lambda: dc.Gate(dc.Budget(2.0), 0).choose([0.0, 1.0], 1.0, 1.0))
    q = {0: p[1], 1: p[0]}
    assert p[1] == pytest.approx(math.e / (1 + math.e))
    assert measures.exact_epsilon(p, q, 0.0) == pytest.approx(1.0)
    assert measures.hockey_stick(p, q, 0.5) == pytest.approx(p[1] - math.exp(0.5) * p[0])
    delta = measures.hockey_stick(p, q, 0.5)
    assert measures.exact_epsilon(p, q, delta) == pytest.approx(0.5, abs=1e-9)
    assert measures.exact_epsilon(p, p, 0.1) == 0.0


def test_gaussian_curves():
    for mu in (0.1, 1.0, 3.0):
        for epsilon in (0.0, 0.5, 2.0):
            x = stats.norm.isf(stats.norm.cdf(mu / 2 - epsilon / mu))  # the likelihood ratio's threshold
            expected = stats.norm.sf(x) - math.exp(epsilon) * stats.norm.sf(x + mu)
            assert measures.gaussian_delta(mu, epsilon) == pytest.approx(expected, rel=1e-9, abs=1e-15)
        assert measures.gaussian_epsilon(mu, measures.gaussian_delta(mu, 0.7)) == pytest.approx(0.7, rel=1e-6)
    assert measures.gaussian_epsilon(0.1, 0.9) == 0.0


def test_noise_maps_measure_shifts():
    square = np.array([[1.0, 0.0], [1.0, 1.0]])
    moved = np.array([0.3, 0.7])
    groups = (slice(0, 2),)
    assert measures.NoiseMap(square, groups, "laplace").loss(moved) == pytest.approx(0.3 + 0.4)
    assert measures.NoiseMap(square, groups, "gaussian").loss(moved) == pytest.approx(0.5)
    assert measures.NoiseMap(square, groups, "spherical").loss(moved) == pytest.approx(0.5)
    wide = np.array([[1.0, 2.0]])  # the cheaper of two ways to hide the same move
    assert measures.NoiseMap(wide, groups, "laplace").loss(np.array([1.0])) == pytest.approx(0.5)
    bare = np.array([[1.0], [0.0]])
    assert math.isinf(measures.NoiseMap(bare, (slice(0, 1),), "laplace").loss(np.array([0.0, 1.0])))
    assert measures.NoiseMap(bare, (slice(0, 1),), "laplace").loss(np.zeros(2)) == 0.0


def test_alike_candidates_can_be_taken_together():
    """When the first item is picked, once by all transcripts and once by those that differ."""
    case = case_of("PrivateGreedy", "decomposable, 14")

    def play(items, picks, stream):
        greedy = dc.offline.PrivateGreedy(picks, case.budget, "decomposable", max_people=8, seed=0)
        chosen = greedy.select(dc.objectives.Coverage(np.repeat(stream, [1, items - 1], axis=1))).items
        return chosen.index(0) if 0 in chosen else picks

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for stream in ([[1.0, 0.0]], [[1.0, 0.0], [0.0, 1.0]], [[1.0, 1.0], [1.0, 0.0], [0.0, 0.0]]):
            whole, merged = (
                measures.distribution(lambda stream=stream: play(4, 3, np.array(stream)), alike)
                for alike in (None, case.alike)
            )
            assert whole.keys() == merged.keys()
            assert all(whole[o] == pytest.approx(merged[o], rel=1e-12) for o in whole)


def test_losses_of_choices_and_numbers_add_up():
    """Two candidates by randomized response, and a number with noise that tells which world it is."""
    for law, delta in (("laplace", 0.0), ("gaussian", 0.1)):
        budget = dc.Budget(4.0, delta)

        def play(stream, source, law=law, budget=budget):
            gate = dc.Gate(budget, source)
            chosen = gate.choose([0.0, float(stream[0, 0])], 0.5, 1.0)
            getattr(gate, law)(float(stream[0, 0]) * chosen, 1.0, 1.0)
            return Played((chosen,), lambda: gate.spent)

        case = MixedCase("Gate.choose", "and a number", budget, Space(1, 1), play, ())
        pair = Pair(np.zeros((1, 1)), np.ones(1), np.zeros(1), (0,))
        loss, excess = case.compare(pair)
        assert excess == 0.0
        p = math.exp(0.5) / (1 + math.exp(0.5))
        ratio = math.log(p / 0.5)
        if law == "laplace":
            assert loss == pytest.approx(max(ratio + 1.0, math.log(0.5 / (1 - p))), rel=1e-6)
            continue
        grid = np.linspace(-12.0, 12.0, 200_001)
        here = p * stats.norm.pdf(grid - 1.0), (1 - p) * stats.norm.pdf(grid)
        there = 0.5 * stats.norm.pdf(grid), 0.5 * stats.norm.pdf(grid)

        def lost(a, b, grid=grid, loss=loss):
            gaps = [np.maximum(x - math.exp(loss) * y, 0.0) for x, y in zip(a, b, strict=True)]
            return sum(np.trapezoid(gap, grid) for gap in gaps)

        assert max(lost(here, there), lost(there, here)) <= delta * (1 + 1e-6)
        assert lost(here, there) == pytest.approx(delta, rel=1e-5)


def test_likelihood_ratios_of_noise():
    """Against the densities themselves."""
    rng = np.random.default_rng(1)
    matrix, here, there = np.array([[2.0, 0.0], [1.0, 0.5]]), np.array([0.3, -0.2]), np.array([1.0, 0.4])
    left = rng.normal(size=(50, 2))
    inverse = np.linalg.inv(matrix)
    mine, yours = (left - here) @ inverse.T, (left - there) @ inverse.T
    groups = (slice(0, 2),)
    for law, density in (
        ("gaussian", lambda z: -(z**2).sum(axis=1) / 2),
        ("laplace", lambda z: -np.abs(z).sum(axis=1)),
        ("spherical", lambda z: -np.sqrt((z**2).sum(axis=1))),
    ):
        found = measures.NoiseMap(matrix, groups, law).log_ratios(left, here, there)
        assert found == pytest.approx(density(mine) - density(yours))


def test_the_search_finds_the_worst_pair():
    """A loss whose only maximum is one pair out of 2^12."""
    target = np.array([1.0, 0.0, 1.0])

    def loss(pair):
        here, there = (pair.mine == target).mean(), (pair.yours == 1.0 - target).mean()
        return float(here + there + (pair.others[1:] == 1.0).mean())

    pair, value = measures.worst_pair(Space(3, 3), loss, 150)
    assert value == pytest.approx(3.0)
    assert np.array_equal(pair.here[0], target)
    one_way, _ = measures.worst_pair(Space(3, 3, one_way=True), loss, 60)
    assert (one_way.there[0] == 0.0).all()


def test_injected_faults_are_taken_out_again():
    from discreet.online.people import ContributionLimit
    from discreet.online.rolling import Votes
    from discreet.privacy import GaussianNoise, Release, Releases, ScoreChange
    from discreet.privacy.factorizations import Factorization

    drawn = ("choice", "permute_and_flip", "noisy_maximum", "sample", "ordered_set", "steps")
    places = [
        *((Release, name) for name in drawn),
        (Releases, "add"),
        (GaussianNoise, "within"),
        (ScoreChange, "range"),
        (ContributionLimit, "register"),
        (Factorization, "participation_norm"),
        *((Votes, name) for name in ("draw", "largest", "_unspent")),
    ]
    before = [vars(owner)[name] for owner, name in places]
    for fault in [*faults.EXACT.values(), *faults.SAMPLED.values(), *faults.OUTPUTS.values()]:
        with fault(), pytest.raises(KeyError):
            raise KeyError
        with fault():
            assert [vars(owner)[name] for owner, name in places] != before
        assert [vars(owner)[name] for owner, name in places] == before


# --- outputs alone --------------------------------------------------------------------------------------


def test_lower_bounds_come_near_the_truth_and_not_above():
    rng = np.random.default_rng(3)
    for epsilon in (0.5, 1.0, 2.0):
        bound = measures.epsilon_lower_bound(
            rng.laplace(1.0, 1.0 / epsilon, 40_000), rng.laplace(0.0, 1.0 / epsilon, 40_000)
        )
        assert 0.8 * epsilon < bound <= epsilon
    same = measures.epsilon_lower_bound(rng.random(5000), rng.random(5000))
    assert same == 0.0


@pytest.mark.parametrize("score", [math.inf, -math.inf, math.nan])
def test_scores_that_are_no_numbers_distinguish_worlds_as_others_do(score):
    here, there = np.full(1000, score), np.zeros(1000)
    for one, other in ((here, there), (there, here), (here, np.full(1000, 0.5 * 2.0**1023))):
        assert measures.epsilon_lower_bound(one, other) > 3.0
    assert measures.epsilon_lower_bound(here, here) == 0.0


def test_what_is_no_number_is_no_probability_and_no_p_value(monkeypatch):
    real = samplers.choice_log_probabilities
    monkeypatch.setattr(samplers, "choice_log_probabilities", lambda *given: math.nan * real(*given))
    with pytest.raises(AssertionError, match="add up to nan"):
        measures.distribution(
            lambda: dc.Gate(dc.Budget(1.0), 0).choose([0.0, 1.0], rate=1.0, sensitivity=1.0)
        )
    right = Finding("", "", "replace", 1.0, 0.0, 0.5, 0.0, 0.5, 0.5, (), ())
    assert right.sound
    for name in ("claimed", "excess", "sampler", "lower_bound"):
        assert not replace(right, **{name: math.nan}).sound, name


def test_lower_bounds_are_seldom_wrong():
    """With a chance of 5 % allowed per bound, the number of wrong ones among 400 is what it may be."""
    rng = np.random.default_rng(4)
    chance = math.exp(-1.0) / 2.0
    wrong = 0
    for _ in range(400):
        here, there = rng.random(300) < 0.5, rng.random(300) < chance
        bound = measures.epsilon_lower_bound(here.astype(float), there.astype(float), mistake=0.05)
        wrong += bound > 1.0
    assert wrong <= stats.binom.isf(1e-6, 400, 0.05)


def test_runs_that_prove_an_epsilon():
    """The plan for perfectly separated worlds is the fewest runs that do, and for others it is kept."""
    for epsilon, delta in ((0.5, 0.0), (1.0, 1e-5), (2.0, 0.05), (4.0, 0.0)):
        runs = measures.runs_to_prove(epsilon, delta)
        assert measures.epsilon_lower_bound(np.ones(runs), np.zeros(runs), delta) > epsilon
        assert measures.epsilon_lower_bound(np.ones(runs - 2), np.zeros(runs - 2), delta) <= epsilon
    p, q = np.array([0.7, 0.2, 0.1]), np.array([0.1, 0.2, 0.7])
    runs = measures.runs_needed(p, q, 1.2, 0.0, 20_000)
    rng = np.random.default_rng(7)
    scores = [np.log(p / q)[rng.choice(3, runs, p=chances)] for chances in (p, q)]
    assert 1.2 < measures.epsilon_lower_bound(*scores) <= math.log(7.0)
    assert measures.runs_needed(p, q, math.log(7.0), 0.0, 20_000) is None
    assert measures.provable(p, p, 1000) < 0.0


def test_binomial_intervals():
    low, high = measures.clopper_pearson(3, 20, 1e-3)
    assert stats.binom.sf(2, 20, low) == pytest.approx(1e-3)
    assert stats.binom.cdf(3, 20, high) == pytest.approx(1e-3)
    assert measures.clopper_pearson(0, 20, 1e-3)[0] == 0.0
    assert measures.clopper_pearson(20, 20, 1e-3)[1] == 1.0


def test_discriminants_find_the_direction():
    rng = np.random.default_rng(5)
    here, there = rng.normal(size=(4000, 3)), rng.normal(size=(4000, 3)) + np.array([0.0, 2.0, 0.0])
    scores = measures.discriminant_scores(here, there)
    assert measures.epsilon_lower_bound(*scores, 1e-3) > 1.0
    still = measures.discriminant_scores(np.zeros((200, 3)), np.tile([0.0, 1e-3, 0.0], (200, 1)))
    assert measures.epsilon_lower_bound(*still) > 1.0


def test_goodness_of_fit():
    rng = np.random.default_rng(6)
    law = {0: 0.5, 1: 0.3, 2: 0.2}
    fair = rng.choice(3, 3000, p=list(law.values())).tolist()
    assert measures.chi_square(fair, law) > 1e-6
    assert measures.chi_square(fair, {0: 0.4, 1: 0.4, 2: 0.2}) < 1e-6
    assert measures.chi_square([3], law) == 0.0
    normal, wide = rng.normal(size=3000), rng.laplace(size=3000)
    assert measures.noise_law([normal], "gaussian") > 1e-6 > measures.noise_law([normal], "laplace")
    assert measures.noise_law([wide], "laplace") > 1e-6 > measures.noise_law([wide / 2], "laplace")
    from discreet.privacy.samplers import spherical_steps

    vectors = [spherical_steps(hooks.AuditRandomness(seed), 3) / hooks.ONE for seed in range(1500)]
    assert measures.noise_law(vectors, "spherical") > 1e-6
    assert measures.noise_law([np.abs(v) for v in vectors], "spherical") < 1e-6
    assert measures.noise_law([v / 2 for v in vectors], "spherical") < 1e-6


# --- the table and the command ----------------------------------------------------------------------------


def finding(**changes):
    sound = Finding("A", "b", "replace", 1.0, 0.0, 0.9, 0.0, 0.5, 0.2, ("x",), ())
    return replace(sound, **changes)


def test_verdicts():
    assert finding().sound
    assert finding().verdict == "holds"
    for changes in ({"excess": 0.1}, {"sampler": 1e-7}, {"lower_bound": 1.1}, {"missed": ("y",)}):
        assert not finding(**changes).sound
    report = face.AuditReport((finding(), finding(excess=math.inf, exact=math.inf)))
    assert not report.sound
    assert "1 fail" in report.summary
    assert "beyond the account" in str(report)
    assert report.to_json()["findings"][1]["exact_epsilon"] is None
    json.dumps(report.to_json(), allow_nan=False)
    page = report.to_markdown()
    assert "| A | b | replace |" in page
    assert "| 40 % |" in face.AuditReport((finding(exact=0.2, claimed=0.5),)).to_markdown()
    assert {line.count("|") for line in page.splitlines() if line.startswith("|")} == {len(face.HEADER) + 1}
    blind = face.AuditReport((finding(unseen=("Too small.",)), finding(setting="c", unseen=("Too small.",))))
    assert "- A (b); A (c): Too small.\n" in blind.to_markdown()
    assert blind.to_json()["findings"][0]["cannot_be_seen"] == ["Too small."]


def test_command(tmp_path, capsys, monkeypatch):
    page, plain = tmp_path / "audit.md", tmp_path / "audit.json"
    assert main(["audit", "gate.laplace", "--json", "--out", str(page)]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["sound"]
    assert report["findings"][0]["name"] == "Gate.laplace"
    assert "## Columns" in page.read_text()
    monkeypatch.setattr("discreet.audit.audit", lambda *_, **__: face.AuditReport((finding(excess=1.0),)))
    assert main(["audit", "--all", "--out", str(plain)]) == 1
    assert not json.loads(plain.read_text())["sound"]
    assert "beyond the account" in capsys.readouterr().out


def test_command_mistakes(capsys):
    assert main(["audit"]) == 2
    assert main(["audit", "--all", "HedgeSelector"]) == 2
    assert main(["audit", "HedgeSelecter"]) == 2
    assert "did you mean HedgeSelector?" in capsys.readouterr().err
    assert main(["audit", "--list"]) == 0
    assert "PhasedSelector" in capsys.readouterr().out


def test_choices_of_one_world_only_are_not_hidden_by_noise():
    """Item 1 can be chosen in one of two worlds: everything of its chance is lost, whatever the noise."""
    none = np.zeros(1)
    here = ChoicesWithNumbers({(0,): 0.75, (1,): 0.25}, {(0,): none, (1,): none})
    there = ChoicesWithNumbers({(0,): 1.0}, {(0,): none})
    for one, other in ((here, there), (there, here)):
        assert MixedCase._delta(one, other, {(0,): 0.0}, 5.0) == pytest.approx(0.25)
    case = next(case for case in QUICK_CASES if isinstance(case, MixedCase))
    law = SimpleNamespace(law="laplace", loss=lambda _: 0.0)
    assert case._loss(here, there, law, 0.0) == math.inf
    assert case._loss(here, here, law, 0.0) == 0.0


def test_a_person_in_two_rows():
    pair = Pair(np.zeros((3, 1)), np.ones(1), np.full(1, -1.0), (0,)).twice(2)
    assert pair.here.ravel().tolist() == [1.0, 0.0, 1.0]
    assert pair.there.ravel().tolist() == [-1.0, 0.0, -1.0]


def test_public_randomness_is_the_same_in_every_run():
    def public(seed, public):
        source, again = (hooks.AuditRandomness(seed, public) for _ in range(2))
        learner = dc.online.RunningSumSelector(4, 1, 4, dc.Budget(1.0, 1e-5), seed=source)
        drawn = dc.privacy.PublicRandomness.drawn(again).generator.random()
        return drawn, tuple(learner._sum.public.words)

    assert hooks.AuditRandomness(1).words(1)[0] != hooks.AuditRandomness(2).words(1)[0]
    assert public(1, 0) == public(2, 0)
    assert public(1, 1) == public(2, 1)
    assert all(one != other for one, other in zip(public(1, 0), public(1, 1), strict=True))


def test_the_better_of_several_scores_is_taken():
    rng = np.random.default_rng(8)
    noise = [rng.normal(size=(400, 1)) for _ in range(2)]
    both = [np.hstack([noise[0], np.ones((400, 1))]), np.hstack([noise[1], np.zeros((400, 1))])]
    assert measures.epsilon_lower_bound(*both) > 2.0
    assert measures.epsilon_lower_bound(*noise) == 0.0


def test_mechanism_settings_spend_what_they_claim():
    for case in settings.cases():
        if not case.name.startswith(("Gate.", "TreeSum", "FactorizedSum")):
            continue
        with np.errstate(all="raise"):
            played = case.play(np.zeros((case.space.rows, case.space.columns)), case.source(0))
        spent = played.account().epsilon()
        assert 0.99 * case.budget.epsilon <= spent <= case.budget.epsilon
