"""The exponential choice: exact draws, and exact accounts of everything that can be enumerated."""

from __future__ import annotations

import bisect
import itertools
import math
from fractions import Fraction
from types import SimpleNamespace
from unittest import mock

import mpmath
import numpy as np
import pytest
from scipy import stats

import discreet as dc
from discreet.kernels.softmax import decided_choice
from discreet.privacy import (
    ExponentialChoice,
    PermuteAndFlip,
    ReproducibleRandomness,
    ScoreChange,
    conversions,
    samplers,
)
from discreet.privacy.ordered import OrderedExperts
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


def _edges(scores, rate):
    """Left end, end of what counts, and right end of each cell, as parts of the whole line."""
    high, low = (part.tolist() for part in samplers.cell_widths(scores, rate))
    widths = [(h << 46) + v for h, v in zip(high, low, strict=True)]
    ends = list(itertools.accumulate(widths, initial=0))
    with mpmath.workprec(400):
        weights = [mpmath.exp(_mpf(Fraction(str(rate)) * Fraction(s - scores.max()))) for s in scores]
        counts = [(end + w * 2**92) / ends[-1] for end, w in zip(ends, weights, strict=False)]
        return [mpmath.mpf(end) / ends[-1] for end in ends[:-1]], counts, weights, widths


def _mpf(value):
    return mpmath.mpf(value.numerator) / value.denominator


def test_words_near_a_border_are_decided_exactly():
    """Points next to the end of a cell, and next to the end of what counts in it, with all their bits."""
    rate, scores = 0.7, np.array([0.0, -1.0, -0.25])
    starts, counts, _, _ = _edges(scores, rate)
    for border, before, after in (
        (starts[1], 0, 1),
        (counts[1], 1, "again"),
        (starts[2], "again", 2),
        (counts[2], 2, "again"),
    ):
        with mpmath.workprec(400):
            bits = int(border * 2**192)
        for at, expected in ((bits - 5, before), (bits + 5, after)):
            script = [at >> 128, (at >> 64) % 2**64, at % 2**64]
            for again in (0, 1 << 63):  # the word that follows if the point does not count
                source = Scripted([*script, again])
                wanted = expected if expected != "again" else int(again > 0)
                assert samplers.exponential_choice(source, scores, rate) == wanted
                assert source.taken == 3 + (expected == "again")


def test_fast_and_exact_paths_agree_on_the_same_words():
    rng = np.random.default_rng(2)
    for size in (1, 2, 7, 60):
        scores = rng.normal(size=size) * 20
        for word in ReproducibleRandomness(size).words(40):
            fast = samplers.exponential_choice(Scripted([word]), scores, 0.9)
            assert fast == samplers.exact_draw(scores, Fraction("0.9"), iter([int(word)]))


def test_extreme_scores_and_words():
    scores = np.array([0.0, 1e8, -1e300])
    for word in (0, 2**64 - 1, 1 << 63):
        assert samplers.exponential_choice(Scripted([word], seed=3), scores, 1.0) == 1
    assert samplers.exponential_choice(Scripted([0]), np.zeros(3), 1.0) == 0
    assert samplers.exponential_choice(Scripted([2**64 - 1]), np.zeros(3), 1.0) == 2


HARD = {
    "equal": (np.zeros(7), 1.0),
    "close": (np.array([0.0, -5e-324, -1e-300, -1e-17, -1e-9]), 1.0),
    "far": (np.array([0.0, -60.0, -64.0, -99.0, -101.0, -700.0, -745.0, -1e300]), 1.0),
    "overflowing": (np.array([1.7e308, -1.7e308, 0.0, 5e-324, 1e300]), 1e-308),
    "tiny rate": (np.array([1.7e308, -1.7e308, 1e308, 0.0, -1e300]), 5e-324),
    "large rate": (np.array([5e-324, 0.0, 1e-308, -1e-308]), 1.7e308),
    "random": (np.random.default_rng(3).normal(size=300) * 8, 0.37),
    "integers": (np.random.default_rng(4).integers(0, 2**40, 300), 0.0123 / 2**32),
    "far integers": (np.array([0, 2**62, 2**61, 2**62 - 1]), 1e-18),
}


@pytest.mark.parametrize("case", HARD)
def test_cells_are_as_wide_as_the_weights_and_hardly_wider(case):
    """The two claims that `exact_draw` rests on, for scores and rates at the ends of what floats can hold."""
    scores, rate = HARD[case]
    high, low = (part.tolist() for part in samplers.cell_widths(scores, rate))
    unit, top = conversions.exact(rate), Fraction(scores.max().item())
    with mpmath.workprec(2500):
        weights = [mpmath.exp(_mpf(unit * (Fraction(s) - top))) for s in scores.tolist()]
        gaps = [mpmath.mpf((h << 46) + v) / 2**92 - w for h, v, w in zip(high, low, weights, strict=True)]
        assert min(gaps) >= 0
        assert sum(gaps) < (8 * math.log(len(gaps)) + 65) * 2.0**-53 * sum(weights)
    assert (min(gaps) == max(gaps) == 0) == (case == "equal")


def _enumerated(scores, rate, known=14):
    """Least and largest probability of each index, from every prefix of ``known`` bits of a draw."""
    cells = samplers._Cells(scores, conversions.exact(rate))
    sure, open_ = np.zeros(scores.size), np.zeros(scores.size)
    for bits in range(1 << known):
        index, counts = cells.find(bits, known)
        if counts is None:  # the prefix crosses a border: of this cell, or of the next
            open_[index : index + 2] += 1
        else:
            sure[index] += counts
    return sure / (sure.sum() + open_.sum()), (sure + open_) / sure.sum()


def _floored(scores, rate):
    widths = np.exp(samplers.exponents(scores, rate)) * 2.0**samplers._BITS
    return np.floor(widths).astype(np.int64), np.floor(widths % 1 * 2.0**samplers._BITS).astype(np.int64)


FAULTS = {
    "": {},
    "cells narrower than the weights": {"cell_widths": _floored},
    "every point counts": {"_counts": lambda *_: True},
    "weights of another rate": {"unit": Fraction(9, 10)},
}


@pytest.mark.parametrize("fault", FAULTS)
def test_every_prefix_of_an_exact_draw(fault):
    """Wide units, 2^-4 of the largest weight, so that a third of the points may not count; all prefixes."""
    injected = dict(FAULTS[fault])
    factor = injected.pop("unit", 1)
    original, broken = samplers._Cells._counts, False

    def counts(cells, *given):
        cells._unit *= factor
        try:
            return injected.get("_counts", original)(cells, *given)
        finally:
            cells._unit /= factor

    with (
        mock.patch.object(samplers, "_BITS", 2),
        mock.patch.object(samplers, "cell_widths", injected.get("cell_widths", samplers.cell_widths)),
        mock.patch.object(samplers._Cells, "_counts", counts),
    ):
        for scores in ([0.0, -1.0], [-0.3, -2.0, 0.0, -0.3, -9.0], [-1.0, 0.0, -1.5, -2.5, -3.5]):
            low, high = _enumerated(np.array(scores), 1.0)
            assert np.all(high - low < 3e-3)
            with mpmath.workprec(200):
                weights = [mpmath.exp(s) for s in scores]
                true = np.array([float(w / sum(weights)) for w in weights])
            broken |= not np.all((low <= true) & (true <= high))
    assert broken == bool(fault)


def test_blocks_of_cells_join_without_a_seam():
    """The same draws with blocks of three cells as with one block."""
    scores, source = np.random.default_rng(6).normal(size=40), ReproducibleRandomness(7)
    for word in source.words(300).tolist():
        whole = samplers.exact_draw(scores, Fraction(1), iter([word, 1]))
        with mock.patch.object(samplers, "_BLOCK", 3):
            assert samplers.exact_draw(scores, Fraction(1), iter([word, 1])) == whole


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


def test_flips_of_scores_too_far_apart_for_floats():
    """One is kept, the other with exp(-1.82), and of two that are kept each is taken half of the time."""
    source, scores = ReproducibleRandomness(4), np.array([9.1e307, -9.1e307])
    picks = [samplers.permute_and_flip(source, scores, 1e-308) for _ in range(2000)]
    assert stats.binomtest(sum(picks), 2000, math.exp(-1.82) / 2).pvalue > 1e-6


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
    """What permute-and-flip is charged holds; what an exponential choice of its range is charged does not."""
    event = dc.privacy.PermuteAndFlip(1.0, width)
    charged, ranged = event.loss(), dc.privacy.ExponentialChoice(1.0, width).loss()
    assert charged == dc.privacy.PureRelease(width).loss()
    spread = least = 0.0
    for before, after in _flip_pairs(width):
        for one, two in ((before, after), (after, before)):
            p, q = (samplers.flip_probabilities(scores, 1.0) for scores in (one, two))
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
        gate.reserve(dc.privacy.ExponentialChoice(0.1, 2.0)).permute_and_flip(scores)
    assert gate.reserve(dc.privacy.PermuteAndFlip(0.1, 2.0)).permute_and_flip(scores) in (0, 1)
    share = dc.Budget(1.0, 1e-6).share()
    assert dc.privacy.PermuteAndFlip.within(share, 2.0, 5, "pure").rate == 0.1
    assert dc.privacy.PermuteAndFlip.within(share, 2.0, 5, "zcdp").rate == pytest.approx(
        dc.privacy.ExponentialChoice.within(share, 2.0, 5, "zcdp").rate / 2.0
    )
    with pytest.raises(ValueError, match="infinite budget"):
        dc.privacy.PermuteAndFlip.within(dc.Budget(math.inf).share(), 2.0)


def test_scores_too_far_apart_for_floats_are_chosen_exactly():
    """The difference overflows, the weights do not: exp(-1e-308 * 1.82e308) is about .16."""
    scores = np.array([9.1e307, -9.1e307])
    source = ReproducibleRandomness(4)
    picks = [samplers.exponential_choice(source, scores, 1e-308) for _ in range(400)]
    expected = 1 / (1 + math.exp(-1.82))
    assert stats.binomtest(picks.count(0), 400, expected).pvalue > 1e-6
    assert picks.count(1) > 0


def test_choices_that_are_all_settled_follow_the_weights():
    """No word is clear, and cells are many times as wide as the weights: most points do not count."""
    scores = np.array([0.0, 0.5, 1.0, 0.9, -2.0])
    source, expected = ReproducibleRandomness(5), np.exp(samplers.choice_log_probabilities(scores, 1.3))
    with (
        mock.patch.object(samplers, "_UNIT", 1.0),
        mock.patch.object(samplers, "decided_choice", return_value=-1),
        mock.patch.object(samplers, "exact_draw", wraps=samplers.exact_draw) as settled,
    ):
        picks = [samplers.exponential_choice(source, scores, 1.3) for _ in range(3000)]
    assert settled.call_count == 3000
    assert stats.chisquare(np.bincount(picks, minlength=5), expected * 3000).pvalue > 1e-6


def test_no_choice_is_decided_too_close_to_a_border():
    """Words beside borders of 200 bits: decided as they must be or not at all, and decided a margin away."""
    rng = np.random.default_rng(8)
    for size, spread in ((2, 1.0), (50, 1.0), (2000, 5.0), (2000, 300.0)):
        scores, rate = rng.normal(size=size) * spread, 0.37
        borders = _borders(scores, Fraction(37, 100))
        margin = math.ceil((32 * size + 128) * 2.0**-53 * 2**64)
        undecided = 0
        for place in rng.permutation(size - 1)[:60].tolist():
            for away in (1, margin // 64, margin // 2, 3 * margin):
                for word in (borders[place] - away, borders[place] + away):
                    if not 0 <= word < 1 << 64:
                        continue
                    found = decided_choice(scores, rate, word)
                    assert found in (-1, bisect.bisect_right(borders, word)), (size, place, away)
                    undecided += found < 0
                    lonely = abs(word - borders[place + 1]) > 2 * margin < borders[place]
                    lonely = lonely and (not place or word - borders[place - 1] > 2 * margin)
                    assert found >= 0 or away <= margin or not lonely
        assert undecided > 0


def _borders(scores, rate):
    """Where each index ends among words of 64 bits."""
    with mpmath.workprec(200):
        top, total, sums = Fraction(float(scores.max())), mpmath.mpf(0), []
        for score in scores.tolist():
            gap = rate * (Fraction(score) - top)
            total += mpmath.exp(mpmath.mpf(gap.numerator) / gap.denominator)
            sums.append(total)
        return [int(one / total * 2**64) for one in sums]


@pytest.mark.parametrize(("above", "exactly"), [(1e-9, True), (1e-8, False)])
def test_a_draw_near_a_border_is_decided_exactly(above, exactly, monkeypatch):
    """The margin grows with the total weight: 3.6e-9 around each border of 1000 equal scores."""
    word, asked = np.uint64(round((500 + above) / 1000 * 2**64)), []
    monkeypatch.setattr(samplers, "exact_draw", lambda *given: asked.append(given) or 500)
    source = SimpleNamespace(words=lambda count: np.full(count, word))
    assert samplers.exponential_choice(source, np.zeros(1000), 1.0) == 500
    assert bool(asked) == exactly


@pytest.mark.parametrize("rate", [0.3, 1.0, 2.0**-20 / 3])
@pytest.mark.parametrize("how", ["exponential_choice", "permute_and_flip"])
def test_scores_that_move_by_a_float_above_its_decimal_are_paid_for(how, rate, monkeypatch):
    """The float 0.1 is above 1/10, which is what a range of 0.1 is charged for."""
    kind, drawn = {"exponential_choice": ExponentialChoice, "permute_and_flip": PermuteAndFlip}[how], []
    monkeypatch.setattr(samplers, how, lambda *given: drawn.append(given[-1]))
    release = dc.Gate(dc.Budget(1.0)).reserve(kind(rate, 0.1), 2)
    for given in (None, rate):
        (release.choice if kind is ExponentialChoice else release.permute_and_flip)(np.zeros(2), given)
    for one in drawn:
        lost, paid = conversions.exact(one) * Fraction(0.1), release.event.loss().pure
        assert paid * (1 - Fraction(1, 1 << 50)) < lost <= paid < conversions.exact(rate) * Fraction(0.1)


@pytest.mark.parametrize(("rate", "width"), [(1e308, 4.4e-323), (5e-324, 0.1), (4.4e-323, 1e308)])
def test_subnormal_rates_and_ranges_are_paid_for(rate, width, monkeypatch):
    drawn = []
    monkeypatch.setattr(samplers, "exponential_choice", lambda *given: drawn.append(given[-1]))
    release = dc.Gate(dc.Budget(1.0)).reserve(ExponentialChoice(rate, width))
    release.choice(np.zeros(2))
    assert conversions.exact(drawn[0]) * Fraction(width) <= release.event.loss().pure
    assert Fraction(drawn[0]) * Fraction(width) <= release.event.loss().pure


def test_experts_prefer_items_and_open_others_in_the_middle_of_the_field():
    experts = OrderedExperts(np.zeros((6, 2), dtype=np.int64), 0.5, Fraction(8), 8)
    experts.prefer([4, 1, 3])  # the third is for an expert that there is not
    wanted = np.zeros((6, 2), dtype=np.int64)
    wanted[4, 0] = wanted[1, 1] = math.ceil(2 * math.log(6) * 16)  # 36 times as likely as others
    assert experts.scores.tolist() == wanted.tolist()
    scores = np.array([[0, 0], [5, -7], [9, 2], [1, 8], [3, 4], [6, 6]])
    for among, start in (([1, 2, 3, 4], [5, 4]), ([4, 3, 1], [3, 4]), ([3], [1, 8])):
        experts = OrderedExperts(scores.copy(), 0.5, Fraction(8), 8)
        experts.open(np.array([0, 7]), np.array(among))  # at the second largest, or the only one
        assert experts.scores.tolist() == [start, *scores[1:].tolist(), [0, 0], start]


@pytest.mark.parametrize("rate", [1e-12, 1e-9, 1e-6, 1.0])
def test_closed_items_are_drawn_at_no_rate(rate):
    """A score of -2^60 is no obstacle at a rate of 1e-9 or less: closed items have no weight at all."""
    experts = OrderedExperts(np.zeros((20, 2), dtype=np.int64), rate, Fraction(1 << 32), 1 << 32)
    gone = np.arange(20) % 3 != 0
    experts.close(np.flatnonzero(gone))
    release = dc.privacy.Gate(dc.Budget(1.0), 0).post_processing()
    drawn = np.array([release.ordered_set(experts) for _ in range(100)])
    experts.add_one(1, 0, 1 << 32)  # late feedback about a closed item, with the trees built
    drawn = np.concatenate((drawn, [release.ordered_set(experts) for _ in range(100)]))
    for _ in range(20):  # draws that compiled loops leave open
        experts.begin()
        shown = np.zeros(2, dtype=np.int32)
        while experts.draw(np.zeros(experts.words_per_set, dtype=np.uint64), shown):
            experts.settle(release, release.words(experts.words_per_set), shown)
        drawn = np.concatenate((drawn, [shown]))
    assert not gone[drawn].any()
    assert len(set(drawn.ravel().tolist())) == 7
