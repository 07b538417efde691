"""Measures of an audit against formulas, the epsilons that it compares, and the stored page."""

from __future__ import annotations

import math
import warnings
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from decimal import ROUND_CEILING, Context
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

import discreet as dc
from discreet.audit import faults, hooks, measures, run, settings
from discreet.audit.cases import (
    ChoiceCase,
    ChoicesWithNumbers,
    Effort,
    Finding,
    MixedCase,
    NoiseCase,
    Played,
    _worlds,
)
from discreet.audit.measures import NoiseMap, Pair, Space
from discreet.online.registry import learners

PAGE = Path(__file__).parents[2] / "docs" / "audit.md"
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.read_text().splitlines()
    if line.startswith("| ") and "| holds |" in line
]


def test_mechanisms_and_selectors_on_the_page_are_audited_as_it_says():
    """With what each claims, and how many faults it has to notice."""
    stored = {(*row[:5], row[9]) for row in ROWS if row[0] not in learners()}
    found, listed = set(), {row[:2] for row in stored}
    for case in settings.cases():
        if (case.name, case.setting) in listed:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                account = case.play(case.space.example(), case.source(0)).account()
            claimed, delta = account.epsilon(case.budget.delta), case.budget.delta
            faults = f"{len(case.faults)} of {len(case.faults)}"
            setting = case.name, case.setting, case.budget.neighbours
            up = Context(prec=4, rounding=ROUND_CEILING).create_decimal(repr(claimed))
            found.add((*setting, f"{float(up):.4g}", f"{delta:g}", faults))
    assert len(stored) > 40
    assert stored <= found


def test_settings_with_too_many_transcripts_are_refused(monkeypatch):
    def two():
        gate = dc.Gate(dc.Budget(9.0), 0)
        return gate.choose([0.0, 1.0], 1.0, 1.0), gate.choose([0.0, 1.0], 1.0, 1.0)

    monkeypatch.setattr(measures, "_MOST_TRANSCRIPTS", 4)
    assert len(measures.distribution(two)) == 4
    monkeypatch.setattr(measures, "_MOST_TRANSCRIPTS", 3)
    with pytest.raises(ValueError, match="more than 3 transcripts"):
        measures.distribution(two)


# --- measures ---------------------------------------------------------------------------------------


def test_the_worse_direction_counts():
    p, q = {0: 0.5, 1: 0.5}, {0: 0.9, 1: 0.1}
    for one, other in ((p, q), (q, p)):
        assert measures.hockey_stick(one, other, math.log(2.0)) == pytest.approx(0.5 - 2 * 0.1)
        assert measures.exact_epsilon(one, other, 0.0) == pytest.approx(math.log(5.0))
        assert measures.exact_epsilon(one, other, 0.3) == pytest.approx(math.log(2.0))


@pytest.mark.parametrize(("ends", "found"), [(0.3, 0.3), (100.0, 100.0), (650.0, 650.0), (900.0, 700.0)])
def test_the_least_epsilon_of_a_curve(ends, found):
    assert measures.least_epsilon(lambda epsilon: float(epsilon < ends), 0.5) == pytest.approx(found)


def test_gaussian_deltas_at_the_ends():
    assert measures.gaussian_delta(0.0, -1.0) == pytest.approx(1.0 - math.exp(-1.0))
    assert measures.gaussian_delta(0.0, 1.0) == 0.0
    assert measures.gaussian_delta(math.inf, 5.0) == 1.0
    assert measures.gaussian_epsilon(math.inf, 0.1) == math.inf
    assert measures.gaussian_delta(1.0, -2.0) == pytest.approx(
        stats.norm.cdf(2.5) - math.exp(-2.0) * stats.norm.cdf(1.5)
    )


def test_numbers_are_compared_to_six_digits():
    one = NoiseMap(np.array([[1.0], [1.0]]), (slice(0, 1),), "laplace")
    assert one.loss(np.array([1e6, 1e6 + 0.1])) == pytest.approx(1e6)
    assert one.loss(np.array([1.0, 1.1])) == math.inf
    assert one.loss(np.array([1e-6, 1.1e-6])) == math.inf
    for size, off, same in ((0.1, 5e-7, True), (0.1, 2e-6, False), (1e6, 0.5, True), (1e6, 2.0, False)):
        drawn = SimpleNamespace(values=[np.array([size])])
        assert one.explains(np.array([size, size + off]), drawn) == same
        assert measures.differ(np.array([size]), np.array([size + off])) != same
    nothing, drawn = np.array([math.nan, 1.0]), SimpleNamespace(values=[np.array([1.0])])  # is like no number
    assert measures.differ(nothing, np.ones(2))
    assert not one.explains(nothing, drawn)
    assert one.loss(nothing) == math.inf


def test_noise_is_mapped_draw_by_draw():
    """Two draws, of one number and of two; what is released is a mixture of them."""
    matrix = np.array([[1.0, 0.0, 2.0], [0.0, -3.0, 1.0]])

    def observe(script):
        noise = np.concatenate([script(0, 1), script(1, 2)])
        return [matrix @ noise + 7.0], SimpleNamespace(sizes=[1, 2], laws=["spherical"] * 2)

    found = measures.noise_map(observe)
    np.testing.assert_allclose(found.matrix, matrix)
    assert found.groups == (slice(0, 1), slice(1, 3))
    # The shift of least length vector by vector; here the only one without the first number.
    square = NoiseMap(matrix[:, 1:], (slice(0, 1), slice(1, 2)), "spherical")
    assert square.loss(np.array([2.0, -5.0])) == pytest.approx(2.0 + 1.0)


@pytest.mark.parametrize("evaluations", [20, 57])
def test_a_search_evaluates_as_often_as_it_may(evaluations):
    calls = []

    def loss(pair):
        calls.append(pair)
        return float(pair.here.sum())

    _, value = measures.worst_pair(Space(2, 3), loss, evaluations, extra=())
    assert evaluations <= len(calls) <= evaluations + 1
    assert value == 6.0


def test_where_a_search_starts():
    space, rng = Space(2, 3, (0.0, 0.5, 2.0), nobody=-1.0), np.random.default_rng(0)
    assert space.example().tolist() == [[2.0] * 3] * 2
    starts = space.starts(rng)
    first = [next(starts) for _ in range(6)]
    one, other = [2.0, 0.0, 0.0], [0.0, 2.0, 2.0]
    for place, others in enumerate(([0.0] * 3, other, [2.0] * 3)):
        pair, extreme = first[2 * place], first[2 * place + 1]
        assert pair.here.tolist() == [one, others]
        assert pair.there.tolist() == [other, others]
        assert (extreme.mine.tolist(), extreme.yours.tolist()) == ([2.0] * 3, [0.0] * 3)
    absent = next(replace(space, one_way=True).starts(rng))
    assert (absent.mine.tolist(), absent.yours.tolist()) == (one, [-1.0] * 3)
    # A step changes one number of one row: of the person in either world, or of the other one.
    for one_way, rows in ((False, 3), (True, 2)):
        steps = list(replace(space, one_way=one_way).steps(first[0], rng))
        assert len(steps) == rows * 3 * 2
        for step in steps:
            moved = [getattr(step, name) != getattr(first[0], name) for name in ("mine", "yours", "others")]
            assert sum(int(part.sum()) for part in moved) == 1


@pytest.mark.parametrize(
    ("law", "counts", "cells", "hopes"),
    [
        ((0.5, 0.44, 0.06), (40, 50, 10), (40, 50, 10), (50, 44, 6)),
        ((0.5, 0.42, 0.04, 0.04), (40, 50, 3, 7), (40, 50, 10), (50, 42, 8)),  # rare ones together
        ((0.5, 0.5, 0.0), (40, 60), (40, 60), (50, 50)),
    ],
)
def test_chi_square_by_hand(law, counts, cells, hopes):
    seen = [outcome for outcome, count in enumerate(counts) for _ in range(count)]
    size = sum((a - b) ** 2 / b for a, b in zip(cells, hopes, strict=True))
    expected = stats.chi2.sf(size, len(cells) - 1)
    assert measures.chi_square(seen, dict(enumerate(law))) == pytest.approx(expected)
    assert measures.chi_square([0] * 9, {0: 1.0}) == 1.0


def test_spherical_noise_has_three_tests():
    """Length, direction and sign of one coordinate; the smallest p-value counts three times."""
    rng = np.random.default_rng(0)
    ways = rng.normal(size=(400, 3))
    ways /= np.linalg.norm(ways, axis=1)[:, None]
    values = ways * rng.gamma(3.0, size=400)[:, None]
    each = [
        stats.kstest(np.linalg.norm(values, axis=1), stats.gamma(3).cdf).pvalue,
        stats.kstest(ways[:, 0] ** 2, stats.beta(0.5, 1.0).cdf).pvalue,
        stats.binomtest(int((ways[:, 0] > 0).sum()), 400).pvalue,
    ]
    assert measures.noise_law(list(values), "spherical") == pytest.approx(min(1.0, 3 * min(each)))
    flat = values * np.array([1.0, 1e-3, 1e-3])  # one direction only: of the right length all the same
    flat *= (np.linalg.norm(values, axis=1) / np.linalg.norm(flat, axis=1))[:, None]
    assert measures.noise_law(list(flat), "spherical") < 1e-6
    line = rng.exponential(size=(400, 1))
    assert measures.noise_law(list(line), "spherical") == pytest.approx(
        stats.kstest(line.ravel(), stats.expon.cdf).pvalue
    )


def test_thresholds_lie_between_scores():
    assert measures._thresholds(np.array([0.0, 1.0, 10.0])).tolist() == [0.5, 5.5]
    values = np.append(np.arange(5_000.0), [7_000.0, 7_001.0])
    found = measures._thresholds(values)
    assert 200 <= found.size <= 210
    assert (found[0], found[-1]) == (0.5, 7_000.5)
    assert 5_999.5 in found  # the widest gap
    assert np.all(found % 1.0 == 0.5)


def _proved(hits, errors, runs, delta=0.0):
    """With exact intervals, each wrong with chance 5e-7."""
    low = stats.beta.ppf(5e-7, hits, runs - hits + 1) if hits else 0.0
    high = stats.beta.ppf(1 - 5e-7, errors + 1, runs - errors) if errors < runs else 1.0
    return math.log((low - delta) / high) if low > delta else -math.inf


@pytest.mark.parametrize(("unlucky", "delta"), [(0.0, 0.0), (3.0, 0.0), (0.0, 0.05)])
def test_what_runs_can_prove(unlucky, delta):
    """Of 1,000 runs half are tested; the likeliest outcomes of one world first."""
    p, q = np.array([0.1, 0.6, 0.3]), np.array([0.5, 0.2, 0.3])

    def luck(chance):
        return unlucky * math.sqrt(500 * chance * (1 - chance))

    events = [(0.6, 0.2), (0.9, 0.5), (0.5, 0.1), (0.8, 0.4)]  # chances in the one world and the other
    expected = max(
        _proved(math.floor(500 * a - luck(a)), math.ceil(500 * b + luck(b) - 1e-9), 500, delta)
        for a, b in events
    )
    for one, other in ((p, q), (q, p)):
        assert measures.provable(one, other, 1_001, delta, unlucky=unlucky) == pytest.approx(expected)


def test_as_few_runs_as_prove_it():
    p, q = np.array([0.7, 0.2, 0.1]), np.array([0.1, 0.2, 0.7])
    runs = measures.runs_needed(p, q, 1.2, 0.0, 20_000)
    assert measures.provable(p, q, runs, unlucky=3.0) > 1.2
    assert measures.provable(p, q, int(runs / 1.25), unlucky=3.0) <= 1.2
    assert measures.runs_needed(p, q, 1.2, 0.0, runs) == runs
    assert measures.runs_needed(p, q, 1.2, 0.0, runs - 1) is None


# --- what is compared -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "sound"),
    [
        ({"sampler": 1.1e-6}, True),
        ({"sampler": 1e-6}, False),
        ({"lower_bound": 2.0 * (1 + 5e-7)}, True),
        ({"lower_bound": 2.0 * (1 + 5e-6)}, False),
        ({"excess": 1e-12}, False),
    ],
)
def test_what_a_verdict_allows(changes, sound):
    given = {"excess": 0.0, "sampler": 0.5, "lower_bound": 0.2} | changes
    finding = Finding("A", "b", "replace", 2.0, 0.0, 0.9, caught=("x",), missed=(), **given)
    assert finding.sound == sound


def _wrong_at(epsilon, pure=math.inf):
    """An account that allows everything, but nothing at one epsilon."""

    def delta(at):
        return 0.0 if math.isclose(at, epsilon, rel_tol=1e-9, abs_tol=1e-12) else 1.0

    return SimpleNamespace(delta=delta, pure=pure, epsilon=lambda _: 1.0)


def _case(kind, account, rate=40.0, noise="gaussian"):
    """Somebody's number, chosen or with noise; as it stands so openly that no account below it holds."""
    budget = dc.Budget(2.0, 1e-5 if noise == "gaussian" else 0.0)

    def play(stream, source):
        gate, mine = dc.Gate(dc.Budget(1e6, 1e-5), source), float(stream[0, 0])
        chosen = gate.choose([0.0, mine], rate, 1.0) if kind is not NoiseCase else 0
        if kind is not ChoiceCase:
            getattr(gate, noise)(mine, 0.05, 1.0)
        return Played((chosen,), lambda: account)

    return kind("Gate", "open", budget, Space(1, 1), play, ())


PAIR = Pair(np.zeros((1, 1)), np.ones(1), np.zeros(1))


@pytest.mark.parametrize(
    ("kind", "shares", "whole"),
    [
        (ChoiceCase, (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0), 8.0),  # four times the epsilon of the budget
        (NoiseCase, (0.25, 0.5, 1.0, 1.5), 2.0),
        (MixedCase, (0.1, 0.25, 0.5, 0.75, 0.9, 1.0, 1.25), 2.0),
    ],
)
def test_accounts_are_compared_at_these_epsilons(kind, shares, whole):
    for share in shares:
        assert _case(kind, _wrong_at(share * whole)).compare(PAIR)[1] > 0.1, share
    assert _case(kind, _wrong_at(0.6 * whole)).compare(PAIR)[1] == 0.0


def test_accounts_are_compared_up_to_what_they_claim_without_a_delta():
    case = _case(ChoiceCase, _wrong_at(0.5, pure=1.0), rate=1.0)
    assert case.compare(PAIR)[1] == pytest.approx(0.5 - math.exp(0.5) / (1 + math.e), abs=1e-6)


@pytest.mark.parametrize(
    ("kind", "loss", "slack"),
    [
        (ChoiceCase, math.log((1 + math.e) / 2), 1e-9),  # 1/2 or 1/(1 + e)
        (NoiseCase, 20.0, 1e-6),
        (MixedCase, 20.0 + math.log(2 * math.e / (1 + math.e)), 1e-6),
    ],
)
def test_a_pure_account_is_a_bound_of_every_loss(kind, loss, slack):
    """Up to rounding. A move by 1 beside noise of scale 0.05 loses 20."""
    if kind is MixedCase:
        loss = max(loss, 20.0 + math.log((1 + math.e) / 2))
    for below, exceeded in ((0.5 * slack, False), (20 * slack, True), (0.6, True)):
        case = _case(kind, _wrong_at(-1.0, loss * (1 - below)), 1.0, "laplace")
        found, excess = case.compare(PAIR)
        assert (excess > 0.0) == exceeded
        assert excess == pytest.approx(max(0.0, loss * below), abs=1e-4)
        if kind is not ChoiceCase:
            assert found == pytest.approx(loss)


def test_what_outputs_prove_beyond_a_claim():
    case = _case(NoiseCase, SimpleNamespace(epsilon=lambda _: 2.0))
    proved = [case._proves(PAIR, 2.0 * (1.0 + more)) for more in (-0.1, 5e-7, 5e-6, 0.25)]
    assert proved == [False, False, True, True]


# --- real runs --------------------------------------------------------------------------------------


EFFORT = Effort(evaluations=4, runs=30)


@dataclass(frozen=True)
class KnownChoices(ChoiceCase):
    """Of two outcomes, and a rare one; a fault changes the chances where people's numbers are high."""

    fault: list = field(default_factory=list)
    seeds: list = field(default_factory=list)

    def source(self, seed):
        self.seeds.append(seed)
        return super().source(seed)

    def _distribution(self, stream):
        shift = 0.1 * float(stream.mean()) if self.fault else 0.0
        rare = 0.4 if self.fault else 0.005
        return {"a": 0.5 + shift, "b": 0.485 - 2 * shift, "c": 0.015 + shift, "d": rare}

    def _worst(self, loss, *_, **__):
        return loss

    @contextmanager
    def broken(self):
        self.fault.append(True)
        yield
        self.fault.pop()


def _known(**more):
    def play(_, source):
        return Played("a" if source.words(1)[0] % 2 else "b", lambda: _wrong_at(1.0))

    return KnownChoices("A", "b", dc.Budget(1.0), Space(2, 1), play, (), **more)


def test_enough_runs_on_the_stream_that_shows_a_fault_best():
    case, half = _known(), Pair(np.zeros((2, 1)), np.ones(1), np.zeros(1))
    stream, sound, runs = case._most_revealing(half, case.broken)
    assert stream.tolist() == [[1.0], [1.0]]
    assert sound == {"a": 0.5, "b": 0.485, "c": 0.015, "d": 0.005}
    # Outcomes of at least a hundredth: 120 over the squared distance.
    distance = 0.1**2 / 0.5 + 0.2**2 / 0.485 + 0.1**2 / 0.015
    assert runs == math.ceil(120.0 / distance)
    assert case._most_revealing(half, nullcontext)[2] == 4_000


@pytest.mark.parametrize(("fits", "found"), [([0.1, 0.3], 0.2), ([0.6, 0.9], 1.0)])
def test_every_run_has_a_seed_and_the_smallest_p_value_counts_for_all(monkeypatch, fits, found):
    case, fits, sizes = _known(run_factor=3), iter(fits), []

    def chi_square(seen, _):
        sizes.append(len(seen))
        return next(fits)

    monkeypatch.setattr(measures, "chi_square", chi_square)
    sampler, bound = case.real_runs(PAIR, EFFORT)
    assert (sampler, bound, sizes) == (pytest.approx(found), 0.0, [90, 90])
    assert case.seeds == list(range(180))
    case.seeds.clear()
    case._outputs(PAIR.here, 3, first=10)
    assert case.seeds == [10, 11, 12]


def test_where_runs_prove_nothing_the_distance_shows_the_way():
    case = _known()
    case.fault.append(True)
    far, near = (Pair(np.zeros((1, 1)), np.array([size]), np.zeros(1)) for size in (1.0, 0.5))
    proved = case._provable_pair(PAIR, 10, 4)
    assert proved(far) == pytest.approx(1e-3 * 0.4)
    assert proved(near) == pytest.approx(1e-3 * 0.2)
    many = case._provable_pair(PAIR, 10**7, 4)(far)
    assert many == pytest.approx(math.log(0.115 / 0.015), rel=0.02)


def test_worlds_have_seeds_of_their_own():
    seen = []

    def once(stream, seed):
        seen.append((stream.tolist(), seed))
        return stream[0]

    here, there = _worlds(PAIR, 3, once)
    assert seen == [([[1.0]], 0), ([[1.0]], 1), ([[1.0]], 2), ([[0.0]], 3), ([[0.0]], 4), ([[0.0]], 5)]
    assert (here.ravel().tolist(), there.ravel().tolist()) == ([1.0] * 3, [0.0] * 3)


@dataclass(frozen=True)
class KnownNoise(NoiseCase):
    def _published(self, stream, seed):
        return np.array([10.0 * stream.mean() + seed])

    def _worst(self, loss, *_, **__):
        return loss

    def _noise_fit(self, _, enough):
        return enough / 1_000.0


def test_what_is_shown_alone(monkeypatch):
    account = SimpleNamespace(epsilon=lambda _: 1.0)
    play = _case(NoiseCase, account).play
    case = KnownNoise("Gate", "open", dc.Budget(2.0, 1e-5), Space(1, 1), play, (), run_factor=5)
    # 10 and 11 beside 0 and 1: ten apart, half a step about either mean, and no number above 11.
    assert case._clear_pair(nullcontext, PAIR, EFFORT)(PAIR) == pytest.approx(10.0 / (11.0 + 1.0))
    least = (math.e + 1e-5) / (1 + math.e)
    few = math.ceil(1.05 * 2 * (math.floor(math.log(2.5e-7) / math.log(least)) + 1))
    assert case._few_runs(PAIR) == few
    asked, bounds = [], iter([0.1, 0.3])

    def bound(here, _, delta, mistake=1e-6):
        asked.append((len(here), delta, mistake))
        return next(bounds)

    monkeypatch.setattr(measures, "epsilon_lower_bound", bound)
    assert case.real_runs(PAIR, EFFORT) == (0.8, 0.3)  # 800 numbers of noise
    assert asked == [(few, 1e-5, pytest.approx(5e-7))] * 2
    asked.clear()
    bounds = iter([0.5])
    many = replace(case, many=lambda stream, runs, _: np.full(runs, stream.sum()))
    assert many.real_runs(PAIR, replace(EFFORT, deep=True)) == (1.0, 0.5)
    assert asked == [(5 * 30 * 200, 1e-5, 1e-6)]


@dataclass(frozen=True)
class KnownMixture(MixedCase):
    def _mixture(self, stream):
        mine = float(stream[0, 0])
        chances = {"a": 0.5 + 0.25 * mine, "b": 0.5 - 0.25 * mine}
        return ChoicesWithNumbers(chances, {"a": np.array([mine]), "b": np.zeros(1)})

    def _noise(self, _):
        return NoiseMap(np.array([[0.5]]), (slice(0, 1),), "laplace")


def test_what_choices_and_numbers_usually_tell():
    case = KnownMixture("A", "b", dc.Budget(1.0), Space(1, 1), None, ())
    # "a": 0.75 or 0.5, and a number that moves by two scales; "b": 0.25 or 0.5, and none that moves.
    usual = 0.5 * (2.0 + math.log(1.5)) + 0.25 * math.log(2.0)
    assert case._usual_loss()(PAIR) == pytest.approx(usual)
    assert case._numbers_apart()(PAIR) == pytest.approx(0.5)
    assert case._searched()(PAIR) == pytest.approx(2.0 + math.log(1.5))


# --- injected faults and the report -------------------------------------------------------------------


def test_what_is_injected():
    """Faults do what their descriptions state, no more: a grosser one would be noticed more easily."""
    for fault, name, given, becomes in (
        (faults.rate_doubled, "choice", ([1.0], 0.5), ([2.0], 0.5)),
        (faults.rate_doubled, "noisy_maximum", ([1.0], 0.1, 0.5), ([2.0], 0.1, 0.5)),
        (faults.choice_sign_lost, "permute_and_flip", ([1.0], 0.5), ([-1.0], 0.5)),
        (faults.hardly_random, "choice", ([1.0], 0.5), ([100.0], 0.5)),
        (faults.everybody_sampled, "sample", (5, 3), (5, 2**64 - 1)),
    ):
        with fault():
            before, _ = hooks.faults_in(getattr(dc.privacy.Release, name))
            assert before(None, *given) == (None, *becomes)
    change, share = dc.privacy.ScoreChange(3.0), dc.Budget(1.0).share()
    honest = change.range, dc.privacy.LaplaceNoise.within(share, 3.0).scale
    with faults.range_halved(), faults.sensitivity_halved():
        found = change.range, dc.privacy.LaplaceNoise.within(share, 3.0).scale
    assert found == pytest.approx((honest[0] / 2, honest[1] / 2))


@pytest.mark.parametrize(("score", "told"), [(0.2, 0.5), (1.0, 2.0), (2.9, 2.0), (3.0, 4.0), (50.0, 4.0)])
def test_scores_are_told_by_their_cells(score, told):
    with (
        hooks.swapped(dc.privacy.Release, "noisy_maximum", lambda *_: (7, score)),
        hooks.coarse_scores(),
    ):
        assert dc.privacy.Release.noisy_maximum(None, None, 1.0, 1.0) == (7, told)


def test_rows_of_a_report():
    finding = Finding("A", "b", "replace", 2.0, 0.0, 0.5, 0.0, 0.5, 0.2, ("x", "y", "z"), ("w",))
    assert run._row(finding)[6:10] == ["25 %", "0.2", "0.5", "3 of 4"]
    assert run._row(replace(finding, claimed=0.0))[6] == "-"


def test_an_audit_is_timed(monkeypatch):
    finding = Finding("A", "b", "replace", 2.0, 0.0, 0.5, 0.0, 0.5, 0.2, (), ())
    monkeypatch.setattr(ChoiceCase, "_audit", lambda *_: finding)
    assert 0.0 <= _known().audit(EFFORT).seconds < 60.0


def test_bounds_count_the_scores_on_their_side_of_a_threshold():
    """Above 4.5 lie 35 of 40 scores here and 5 of 50 there; each count has its Clopper-Pearson interval."""
    here, there = np.repeat([9.0, 0.0], [35, 5]), np.repeat([9.0, 0.0], [5, 45])
    delta, mistake = 0.01, 0.05

    def proved(hits, runs, errors, other_runs):
        low = stats.beta.ppf(mistake / 2, hits, runs - hits + 1)
        high = stats.beta.ppf(1 - mistake / 2, errors + 1, other_runs - errors)
        return pytest.approx([math.log((low - delta) / high)])

    sides = {  # (above, back): hits, runs, errors, other runs
        (True, False): (35, 40, 5, 50),
        (True, True): (5, 50, 35, 40),
        (False, False): (5, 40, 45, 50),
        (False, True): (45, 50, 5, 40),
    }
    for (above, back), counts in sides.items():
        found = measures._bounds(here, there, np.array([4.5]), above, back, delta, mistake)
        assert found == proved(*counts)
