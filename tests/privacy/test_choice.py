"""The exponential choice: exact draws, and exact accounts of everything that can be enumerated."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy import stats

import discreet as dc
from discreet.privacy import ExponentialChoice, ReproducibleRandomness, ScoreChange, samplers
from discreet.privacy.samplers import flips
from discreet.privacy.samplers.choice import exact_choice
from tests.privacy.audit import hockey_stick, loss_range, transcripts
from tests.privacy.test_noise import Scripted

EPSILONS = (0.0, 0.05, 0.2, 0.5, 1.0)


@pytest.mark.parametrize("rate", [0.0, 0.3, 5.0])
def test_choices_follow_the_exponential_weights(rate):
    scores = np.array([0.0, 0.5, 1.0, 0.9, -2.0])
    source = ReproducibleRandomness(1)
    counts = np.bincount(
        [samplers.exponential_choice(source, scores, rate) for _ in range(60_000)], minlength=5
    )
    expected = np.exp(samplers.choice_log_probabilities(scores, rate)) * counts.sum()
    assert stats.chisquare(counts, expected).pvalue > 1e-6
    wrong = np.exp(samplers.choice_log_probabilities(scores, rate * 1.2 + 0.05)) * counts.sum()
    assert stats.chisquare(counts, wrong).pvalue < 1e-6


def test_words_near_a_border_are_decided_exactly():
    """Weights 1 and e^(-r): the exact border is an irrational number; words at it go to the exact path."""
    rate, scores = 0.7, np.array([0.0, -1.0])
    with mpmath.workprec(400):
        border = 1 / (1 + mpmath.exp(-mpmath.mpf(7) / 10)) * 2**64
        word = int(border)
        rest = int((border - word) * 2**64)
    for extra, expected in ((rest - 5, 0), (rest + 5, 1)):
        assert samplers.exponential_choice(Scripted([word, extra]), scores, rate) == expected
    assert samplers.exponential_choice(Scripted([word - 100]), scores, rate) == 0
    assert samplers.exponential_choice(Scripted([word + 101]), scores, rate) == 1


def test_fast_and_exact_paths_agree_on_the_same_words():
    rng = np.random.default_rng(2)
    for size in (1, 2, 7, 60):
        scores = rng.normal(size=size) * 20
        for word in ReproducibleRandomness(size).words(40):
            fast = samplers.exponential_choice(Scripted([word]), scores, 0.9)
            assert fast == exact_choice(Scripted([]), scores, 0.9, int(word))


def test_extreme_scores_and_words():
    scores = np.array([0.0, 1e8, -1e300])
    for word in (0, 2**64 - 1, 1 << 63):
        assert samplers.exponential_choice(Scripted([word], seed=3), scores, 1.0) == 1
    assert samplers.exponential_choice(Scripted([0]), np.zeros(3), 1.0) == 0
    assert samplers.exponential_choice(Scripted([2**64 - 1]), np.zeros(3), 1.0) == 2


def test_scores_too_far_apart_for_floats_are_chosen_exactly():
    """The difference overflows, the weights do not: exp(-1e-308 * 1.82e308) is about .16."""
    scores = np.array([9.1e307, -9.1e307])
    source = ReproducibleRandomness(4)
    picks = [samplers.exponential_choice(source, scores, 1e-308) for _ in range(400)]
    expected = 1 / (1 + math.exp(-1.82))
    assert stats.binomtest(picks.count(0), 400, expected).pvalue > 1e-6
    assert picks.count(1) > 0


def test_error_bound_covers_the_floating_point_borders():
    """Computed borders against 200-bit ones; the margin of the docstring must cover them."""
    rng = np.random.default_rng(8)
    for size, spread in ((50, 1.0), (2000, 5.0), (2000, 300.0)):
        scores, rate = rng.normal(size=size) * spread, 0.37
        borders = np.cumsum(np.exp(rate * (scores - scores.max())))
        with mpmath.workprec(200):
            top = Fraction(float(scores.max()))
            exact = mpmath.mpf(0)
            worst = 0.0
            for score, border in zip(scores, borders, strict=True):
                gap = Fraction(37, 100) * (Fraction(float(score)) - top)
                exact += mpmath.exp(mpmath.mpf(gap.numerator) / gap.denominator)
                worst = max(worst, float(abs(exact - float(border))))
        assert worst <= 11 * size * 2.0**-53 * borders[-1]


# --- enumerated accounts ------------------------------------------------------------------------


def _adaptive_program(data, rate, charged_range, steps=3):
    """Choices on running scores, each choice changing what the next one looks at."""

    def program(gate):
        last = 0
        for step in range(steps):
            scores = np.array([data[(last + item + step) % len(data)] for item in range(3)])
            last = gate.choose(scores, rate, charged_range)

    return program


BUDGET = dc.Budget(50.0, 1e-3)


def _spent(program):
    gate = dc.Gate(BUDGET, 0)
    program(gate)
    return gate.spent


def _neighbours(size=3):
    """All pairs of score tables with entries 0 or 1: one person replaced moves each score by at most 1."""
    tables = list(itertools.product((0.0, 1.0), repeat=size))
    return itertools.combinations(tables, 2)


@pytest.mark.parametrize("rate", [0.1, 0.7])
@pytest.mark.parametrize("steps", [1, 3])
def test_enumerated_divergence_is_within_the_account(rate, steps):
    account = _spent(_adaptive_program((0.0, 0.0, 0.0), rate, ScoreChange(1.0), steps))
    worst = dict.fromkeys(EPSILONS, 0.0)
    widest = 0.0
    for here, there in _neighbours():
        p, q = (
            transcripts(_adaptive_program(d, rate, ScoreChange(1.0), steps), BUDGET) for d in (here, there)
        )
        widest = max(widest, loss_range(p, q))
        for epsilon in EPSILONS:
            worst[epsilon] = max(worst[epsilon], hockey_stick(p, q, epsilon))
    for epsilon in EPSILONS:
        assert worst[epsilon] <= account.delta(epsilon)
        assert worst[epsilon] <= account.delta(epsilon, tight=True)
    if steps == 1:
        assert widest <= 2 * rate * (1 + 1e-9)
        assert widest > 1.3 * rate  # pure epsilon of the worst pair is close to the bound, not a tenth of it


@pytest.mark.parametrize("fault", ["rate doubled", "sensitivity halved"])
def test_injected_faults_break_the_account(fault):
    """The same comparison goes red when the release is stronger than what was charged."""
    rate = 0.4
    honest = _spent(_adaptive_program((0.0, 0.0, 0.0), rate, ScoreChange(1.0)))
    if fault == "sensitivity halved":
        charged = _spent(_adaptive_program((0.0, 0.0, 0.0), rate, ScoreChange(0.5)))
        real_rate = rate
    else:
        charged, real_rate = honest, 2 * rate
    broken = False
    for here, there in _neighbours():
        p, q = (transcripts(_adaptive_program(d, real_rate, ScoreChange(1.0)), BUDGET) for d in (here, there))
        broken |= any(hockey_stick(p, q, e) > charged.delta(e, tight=True) for e in np.linspace(0, 3, 13))
    assert broken


def test_one_directional_scores_cost_half():
    """Adding a person moves scores only up: range 1, and the enumeration agrees; replace needs 2."""
    rate = 0.8
    base = np.zeros(4)
    one_way = 0.0
    for move in itertools.product((0.0, 1.0), repeat=4):
        p = np.exp(samplers.choice_log_probabilities(base, rate))
        q = np.exp(samplers.choice_log_probabilities(base + np.array(move), rate))
        one_way = max(one_way, np.ptp(np.log(p / q)))
    assert one_way == pytest.approx(rate)
    event = ExponentialChoice(rate, ScoreChange(1.0, one_directional=True).range)
    assert event.loss().pure == Fraction(8, 10)
    both_ways = 0.0
    for move in itertools.product((-1.0, 1.0), repeat=4):
        q = np.exp(samplers.choice_log_probabilities(base + np.array(move), rate))
        both_ways = max(both_ways, np.ptp(np.log(p / q)))
    assert both_ways == pytest.approx(2 * rate)


def test_parts_are_parallel():
    """Two groups choose separately; one person replaced touches one group only."""
    rate = 0.5

    def program(groups):
        def run(gate):
            for name, table in groups.items():
                gate.part(name).choose(np.array(table), rate, ScoreChange(1.0))

        return run

    base = {"a": (0.0, 1.0, 0.0), "b": (1.0, 0.0, 0.0)}
    account = _spent(program(base))
    for changed in ("a", "b"):
        for table in itertools.product((0.0, 1.0), repeat=3):
            p, q = (transcripts(program(g), BUDGET) for g in (base, base | {changed: table}))
            for epsilon in EPSILONS:
                assert hockey_stick(p, q, epsilon) <= account.delta(epsilon)
    both = {"a": (1.0, 0.0, 1.0), "b": (0.0, 1.0, 1.0)}  # two people changed: not neighbours, and it shows
    p, q = (transcripts(program(g), BUDGET) for g in (base, both))
    assert any(hockey_stick(p, q, e) > account.delta(e, tight=True) for e in np.linspace(0, 1.5, 7))


def test_group_of_rounds_is_covered():
    """A person in two rounds moves two scores: the account of max_rounds_per_person=2 covers it."""
    budget = dc.Budget(50.0, 1e-3, max_rounds_per_person=2)
    rate = 0.3

    def program(rounds):
        def run(gate):
            total = np.zeros(3)
            for table in rounds:
                total = total + np.array(table)
                gate.choose(total, rate, ScoreChange(1.0))

        return run

    zero, one = (0.0, 0.0, 0.0), (1.0, 0.0, 0.0)
    gate = dc.Gate(budget, 0)
    program([zero, zero])(gate)
    p, q = (transcripts(program(r), budget) for r in ([zero, zero], [one, one]))
    single = dc.Gate(BUDGET, 0)
    program([zero, zero])(single)
    for epsilon in EPSILONS:
        assert hockey_stick(p, q, epsilon) <= gate.spent.delta(epsilon)
    assert math.isclose(gate.spent.rho, 4 * single.spent.rho)


def test_bad_scores_are_refused_and_nothing_is_spent():
    gate = dc.Gate(dc.Budget(1.0), 0)
    for scores, message in (
        ([1.0, math.nan], r"scores\[1\] is nan"),
        ([math.inf], r"scores\[0\] is inf"),
        ([], "scores is empty"),
        ([[1.0]], "scores must be one-dimensional"),
        (["a"], "scores must be a vector of numbers"),
    ):
        with pytest.raises((ValueError, TypeError), match=message):
            gate.choose(scores, 0.1, 1.0)
    for rate, width, message in (
        (-1.0, 1.0, "rate=-1.0 must be at least 0"),
        (math.nan, 1.0, "rate is NaN"),
        (0.1, -1.0, "sensitivity=-1.0 must be at least 0"),
        (0.1, math.inf, "sensitivity=inf must be finite"),
    ):
        with pytest.raises(ValueError, match=message):
            gate.choose([0.0, 1.0], rate, width)
    assert gate.spent.epsilon() == 0.0
    assert gate.spent.ledger.counts == {}


# --- permute and flip ------------------------------------------------------------------------------


def _flip_pairs(width):
    """Neighbouring scores of two and three candidates, pushed apart by ``width`` in all."""
    for high in (0.0, 0.5 * width, width, 3.0 * width):
        for parts in ((0.0, 1.0), (1.0, 0.0), (0.5, -0.5), (0.0, 1.0, 1.0), (1.0, 0.0, 0.5)):
            before = np.array([high] + [0.0] * (len(parts) - 1))
            yield before, before + width * np.array(parts)


def _divergences(p, q):
    """(order, Renyi divergence) of p from q."""
    for order in (1.01, 1.5, 2.0, 8.0, 40.0):
        yield order, float(np.log(np.sum(p**order * q ** (1.0 - order))) / (order - 1.0))


@pytest.mark.parametrize("width", [0.1, 0.5, 2.0])
def test_flips_cost_a_pure_epsilon_and_are_not_of_bounded_range(width):
    """What a FlippedChoice is charged holds; what an exponential choice of that range is charged does not."""
    event = dc.privacy.FlippedChoice(1.0, width)
    charged, ranged = event.loss(), dc.privacy.ExponentialChoice(1.0, width).loss()
    assert charged == dc.privacy.PureRelease(width).loss()
    spread = least = 0.0
    for before, after in _flip_pairs(width):
        for one, two in ((before, after), (after, before)):
            p, q = (flips.flip_probabilities(scores, 1.0) for scores in (one, two))
            losses = np.log(p / q)
            assert np.abs(losses).max() <= width * (1.0 + 1e-9)
            spread = max(spread, np.ptp(losses))
            for order, divergence in _divergences(p, q):
                assert divergence <= float(charged.rho) * order * (1.0 + 1e-9)
                least = max(least, divergence / order)
    assert spread > 1.2 * width
    assert least > 1.2 * float(ranged.rho)


def test_an_exponential_choice_does_not_pay_for_flips():
    gate = dc.Gate(dc.Budget(1.0), 0)
    scores = np.array([0.0, 1.0])
    with pytest.raises(TypeError, match="does not pay for permute-and-flip"):
        gate.reserve(dc.privacy.ExponentialChoice(0.1, 2.0)).flipped_choice(scores)
    assert gate.reserve(dc.privacy.FlippedChoice(0.1, 2.0)).flipped_choice(scores) in (0, 1)
    share = dc.Budget(1.0, 1e-6).share()
    assert dc.privacy.FlippedChoice.within(share, 2.0, 5, "pure").rate == 0.1
    assert dc.privacy.FlippedChoice.within(share, 2.0, 5, "zcdp").rate == pytest.approx(
        dc.privacy.ExponentialChoice.within(share, 2.0, 5, "zcdp").rate / 2.0
    )
    with pytest.raises(ValueError, match="infinite budget"):
        dc.privacy.FlippedChoice.within(dc.Budget(math.inf).share(), 2.0)
