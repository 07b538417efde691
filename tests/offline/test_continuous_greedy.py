"""Continuous greedy: what one person can move, what the account says, and what is gained."""

from __future__ import annotations

import itertools
import math
import pickle
import warnings
from dataclasses import replace
from fractions import Fraction
from unittest import mock

import numpy as np
import pytest
from scipy import stats

import discreet as dc
from discreet.bounds import ALPHA
from discreet.bounds import continuous as bounds
from discreet.constraints import (
    Cardinality,
    GraphicMatroid,
    Knapsack,
    LaminarMatroid,
    LinearMatroid,
    PartitionMatroid,
    TransversalMatroid,
)
from discreet.kernels.rows import SHORT
from discreet.objectives import (
    ConcaveOverModular,
    Coverage,
    FacilityLocation,
    GraphCut,
    LogDeterminant,
    MultilinearExtension,
    MutualInformation,
    Population,
    ProbabilisticCoverage,
    SaturatedCoverage,
    SetFunction,
    WeightedTopics,
    greedy,
)
from discreet.offline import PrivateGreedy
from discreet.offline.continuous import (
    Change,
    ContinuousGreedy,
    PointGradient,
    Setting,
    StatedGradient,
    SummedGradient,
)
from discreet.offline.curvature import CurvatureGreedy
from discreet.privacy import (
    BudgetExceeded,
    ExponentialChoice,
    GaussianNoise,
    LaplaceNoise,
    PublicRandomness,
    samplers,
)
from discreet.privacy.accountant import Accountant, Release
from tests.privacy.audit import hockey_stick, transcripts

FREE = dc.Budget(math.inf)


def dense(people, items, chance=0.4, seed=0):
    return np.random.default_rng(seed).random((people, items)) * (
        np.random.default_rng(seed + 1).random((people, items)) < chance
    )


def families():
    rows = dense(40, 14, 0.7)
    covers = (rows > 0).astype(float)
    yield "coverage", Coverage(covers)
    yield "probabilistic", ProbabilisticCoverage(rows)
    yield "facility", FacilityLocation(rows)
    light = rows / 14
    yield "sqrt", ConcaveOverModular(light, concave="sqrt")
    yield "log", ConcaveOverModular(light, concave="log")
    yield "capped", SaturatedCoverage(rows / rows.sum(axis=1, keepdims=True), saturation=0.5)
    yield "custom", ConcaveOverModular(light[:4], concave=lambda s: 1.0 - np.exp(-s), bound=1.0)
    yield "mixture", 0.25 * Coverage(covers) + 0.75 * FacilityLocation(rows)
    yield "topics", WeightedTopics(rows[:, :5] / 5, dense(9, 5, 0.5, 3))


FAMILIES = dict(families())


def gradients_of(people, *, samples=20, bound=1.0):
    return SummedGradient(people, bound, samples, PublicRandomness.seeded(5))


def closed_form(person, x, _):
    """E[f(R + j) - f(R without j)] over every subset of the items that x leaves undecided."""
    certain, undecided = np.flatnonzero(x >= 1.0).tolist(), np.flatnonzero((x > 0) & (x < 1)).tolist()
    if not undecided:
        drawn = set(certain)
        return np.array(
            [person.value(sorted(drawn | {j})) - person.value(sorted(drawn - {j})) for j in range(x.size)]
        )
    exact = person.cap_items(12) if isinstance(person, ConcaveOverModular | SaturatedCoverage) else person
    return exact.multilinear_gradient(x)


def by_sampling(person, x, seed):
    """E[f(R + j) - f(R without j)] by asking for every value of twenty sets, one after the other."""
    coins = np.random.default_rng(seed)
    gradient = np.zeros(person.n_items)
    for _ in range(20):
        drawn = set(np.flatnonzero(coins.random(person.n_items) < x).tolist())
        for j in range(person.n_items):
            gradient[j] += (person.value(sorted(drawn | {j})) - person.value(sorted(drawn - {j}))) / 20
    return gradient


# --- gradients as computed ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("point", ["inside", "empty", "corner"])
def test_gradients_are_everybodys_rounded_parts_added_up(name, point):
    """The compiled sums against the obvious twin: one person at a time, rounded down, then added."""
    people = FAMILIES[name]
    x = {
        "inside": np.random.default_rng(2).random(people.n_items),
        "empty": np.zeros(people.n_items),
        "corner": np.ones(people.n_items),
    }[point]
    summed = gradients_of(people)
    found = summed.at(x)
    seed = int(np.random.default_rng(5).integers(1 << 62))
    twin = np.zeros(people.n_items)
    for person in people:
        rows = person.as_rows()
        undecided = 0 if rows is None else int(((x > 0) & (x < 1))[rows.sparse.indices].sum())
        sampled = name in ("sqrt", "log", "capped") and undecided > SHORT
        slow = by_sampling if sampled or name == "custom" else closed_form
        twin += np.clip(np.floor(slow(person, x, seed) / summed.step + 1e-6), 0, 1 / summed.step)
    # Sums in another order can fall on the other side of a step.
    assert np.abs(found - twin).max() <= len(people) + 2
    assert found.dtype == np.int64


def test_few_undecided_items_are_exact_and_many_are_sampled_with_the_same_sets_for_all():
    rows = np.zeros((2, 20))
    rows[0, :5], rows[1, :] = 0.05, 0.05
    few, many, both = ConcaveOverModular(rows[:1]), ConcaveOverModular(rows[1:]), ConcaveOverModular(rows)
    x = np.full(20, 0.3)
    together = gradients_of(both, samples=200).at(x)
    assert (together == gradients_of(few, samples=200).at(x) + gradients_of(many, samples=200).at(x)).all()
    summed = gradients_of(few, samples=2)
    assert (
        np.abs(summed.scores(summed.at(x)) - few.cap_items(12).multilinear_gradient(x)).max() <= summed.step
    )
    # A row of twenty, of which three are undecided and two certain: all eight subsets by hand.
    x = np.zeros(20)
    x[[0, 1]], x[[2, 3, 4]] = 1.0, (0.2, 0.5, 0.9)
    by_hand = np.zeros(20)
    for drawn in itertools.product((0, 1), repeat=3):
        chance = np.prod([p if d else 1 - p for d, p in zip(drawn, (0.2, 0.5, 0.9), strict=True)])
        held = {0, 1} | {2 + j for j in range(3) if drawn[j]}
        for j in range(20):
            by_hand[j] += chance * (many.value(sorted(held | {j})) - many.value(sorted(held - {j})))
    summed = gradients_of(many, samples=2)
    assert np.abs(summed.scores(summed.at(x)) - by_hand).max() <= 2 * summed.step


@pytest.mark.parametrize("neighbours", ["replace", "add_remove"])
@pytest.mark.parametrize("name", [name for name in FAMILIES if name not in ("topics", "custom")])
def test_nobody_moves_gradients_further_than_declared(name, neighbours):
    """Every exchange among ten people: entries, ranges, L1 and L2, in whole steps, at random points."""
    people = FAMILIES[name][:10]
    rng = np.random.default_rng(8)
    change = Change.of_sum(1.0, neighbours, people.n_items, people.n_items)
    for _ in range(4):
        x = rng.random(people.n_items) * (rng.random(people.n_items) < 0.7)
        parts = np.array([gradients_of(people[[i]]).at(x) for i in range(10)])
        assert (gradients_of(people).at(x) == parts.sum(axis=0)).all()  # each part depends on one person only
        step = gradients_of(people).step
        pairs = (
            itertools.permutations(range(10), 2)
            if neighbours == "replace"
            else [(i, None) for i in range(10)]
        )
        for i, j in pairs:
            moved = (parts[i] - (0 if j is None else parts[j])) * step
            assert np.abs(moved).max() <= change.entry
            assert moved.max() - moved.min() <= change.range
            assert np.abs(moved).sum() <= change.l1
            assert np.linalg.norm(moved) <= change.l2


def test_mixing_and_shrinking_move_no_further():
    """Public weights and factors: the totals are rounded once more, and nobody gains a step by it."""
    rng = np.random.default_rng(3)
    summed = gradients_of(Coverage(np.eye(4)))
    most = 1 << 30
    for _ in range(300):
        here, last = rng.integers(0, 50 * most, (2, 4))
        mine = rng.integers(0, most + 1, (2, 4))
        mine[:, 0], mine[:, 1] = most, 0
        weight, factors = rng.random(), np.append(rng.random(3), 1.0)
        for make in (
            lambda a, b, weight=weight: summed.mix(a, b, weight),
            lambda a, b, factors=factors: summed.shrink(a, factors) + 0 * b,
        ):
            moved = make(here + mine[0], last + mine[1]) - make(here, last)
            assert moved.min() >= 0
            assert moved.max() <= most
    exact = [math.floor((w * 7 + (2**40 - w) * 5) / 2**40) for w in (0, 2**39, 2**40)]
    assert (
        [int(summed.mix(np.array([7]), np.array([5]), w)[0]) for w in (0.0, 0.5, 1.0)] == exact == [5, 6, 7]
    )


@pytest.mark.parametrize("family", [ProbabilisticCoverage, FacilityLocation, ConcaveOverModular])
@pytest.mark.parametrize("x", [0.0, 0.3])
def test_rows_that_change_after_they_were_checked_are_held_to_the_bound(family, x):
    """All kinds of compiled loops: nobody's slope counts for more than the bound, whatever their numbers."""
    people = family(np.full((3, 12), 0.05))
    assert people.bound == 1.0
    people._rows.sparse.data.flags.writeable = True
    people._rows.sparse.data[:] = 5.0
    summed = gradients_of(people)
    gradient = summed.scores(summed.at(np.full(12, x)))
    assert gradient.min() >= 0.0
    assert gradient.max() <= len(people)
    assert x or gradient.max() == len(people)  # they would be above


def test_stated_sensitivity_covers_any_objective_within_it():
    """Gradients of a table's mutual information, over neighbouring tables, against the stated movement."""
    rng = np.random.default_rng(1)
    features, classes = rng.integers(0, 2, (30, 4)), rng.integers(0, 2, 30)
    here = MutualInformation(features, classes)
    stated = here.sensitivity("replace", "value")
    change = Change.stated(stated, here.bound, 4, corners_only=False)
    each = 2 * (stated + here.bound * 2.0**-40)
    found = (change.entry, change.range, change.l1, change.l2)
    assert found == pytest.approx((each, 2 * each, 4 * each, 2 * each), rel=1e-14)
    for size in range(2, 12):  # rounded up, where it is rounded
        around = Change.stated(stated, here.bound, size, corners_only=False)
        assert Fraction(around.l2) ** 2 >= size * Fraction(around.entry) ** 2
    assert Change.stated(stated, here.bound, 4, corners_only=True).range == pytest.approx(each, rel=1e-14)
    for person in range(5):
        other = features.copy()
        other[person] = 1 - other[person]
        x = rng.random(4)
        coins = PublicRandomness.seeded(0)
        moved = StatedGradient(here, 10, coins).at(x) - StatedGradient(
            MutualInformation(other, classes), 10, coins
        ).at(x)
        assert 0 < np.abs(moved).max() <= change.entry
        assert np.abs(moved).sum() <= change.l1
        assert moved.max() - moved.min() <= change.range


# --- the account, against every transcript ----------------------------------------------------------

BLOCKS = PartitionMatroid([[0, 1], [2]], [1, 1])
BAG = Knapsack([1.0, 2.0, 1.5], 3.0)
CROWD = [[0.0, 1.0, 0.0]] * 12  # everybody else: one large score makes the losses of the others extreme


def neighbouring(neighbours):
    """Pairs of populations that differ by one person, extreme ones among them."""
    for one, other in [([1, 0, 0], [0, 1, 1]), ([1, 1, 1], [0, 0, 0]), ([0, 1, 0], [1, 0, 1])]:
        if neighbours == "replace":
            yield Coverage([*CROWD, one]), Coverage([*CROWD, other])
        else:
            yield Coverage([*CROWD, one]), Coverage(CROWD)


def excess(make, budget):
    """The worst loss of a transcript, as a multiple of the account's, over neighbours.

    Also held to the account here: delta at several epsilons.
    """
    worst = 0.0
    for pair in neighbouring(budget.neighbours):
        runs, accounts = [], []
        for people in pair:

            def program(_, people=people, accounts=accounts):
                selector = make(budget)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # thirteen people are too few, and that is not the matter
                    selector.fractional(people)
                accounts.append(selector.privacy)

            runs.append(transcripts(program, budget))
        p, q = runs
        assert p.keys() == q.keys()
        account = max(accounts, key=lambda a: a.pure)
        loss = max(abs(math.log(p[path] / q[path])) for path in p)
        worst = max(worst, loss / account.pure)
        for epsilon in (0.0, 0.2 * account.pure, 0.5 * account.pure, 0.9 * account.pure):
            if hockey_stick(p, q, epsilon) > account.delta(epsilon) + 1e-12:
                worst = math.inf
    return worst


PURE = {n: dc.Budget(3.0, neighbours=n) for n in ("replace", "add_remove")}
CASES = {
    "cardinality": lambda b: ContinuousGreedy(Cardinality(1), b, steps=2, seed=0),
    "cardinality in one step": lambda b: ContinuousGreedy(Cardinality(2), b, steps=1, seed=0),
    "partition": lambda b: ContinuousGreedy(BLOCKS, b, steps=2, seed=0),
    "once a step": lambda b: ContinuousGreedy(Cardinality(2), b, steps=2, update_within_steps=False, seed=0),
    "knapsack": lambda b: ContinuousGreedy(BAG, b, steps=1, seed=0),
    "advanced": lambda b: ContinuousGreedy(
        Cardinality(1), replace(b, epsilon=0.9, delta=0.01), steps=3, composition="advanced", seed=0
    ),
    "zcdp": lambda b: ContinuousGreedy(
        Cardinality(1), replace(b, delta=0.1), steps=3, composition="zcdp", seed=0
    ),
    "curvature": lambda b: CurvatureGreedy(Cardinality(1), b, steps=3, seed=0),
    "curvature, partition": lambda b: CurvatureGreedy(BLOCKS, b, steps=2, seed=0),
    "curvature, once a step": lambda b: CurvatureGreedy(
        Cardinality(2), b, steps=2, update_within_steps=False, seed=0
    ),
    "curvature, knapsack": lambda b: CurvatureGreedy(BAG, b, steps=1, seed=0),
}


@pytest.mark.parametrize("neighbours", ["replace", "add_remove"])
@pytest.mark.parametrize("case", CASES)
def test_every_transcript_is_as_likely_as_the_account_says(case, neighbours):
    lost = excess(CASES[case], PURE[neighbours])
    assert lost <= 1.0 + 1e-9
    assert lost > 0.3  # somebody comes near it


def tables(seed):
    """Two monotone submodular functions of everybody's data, and how far apart their values are at most."""
    rng = np.random.default_rng(seed)
    marks = rng.random((2, 6, 3)) < 0.5
    weights = rng.random((2, 6)) / 6

    def value(which, chosen):
        return float(weights[which] @ marks[which][:, sorted(chosen)].any(axis=1))

    sets = [frozenset(s) for r in range(4) for s in itertools.combinations(range(3), r)]
    apart = max(abs(value(0, s) - value(1, s)) for s in sets)
    return [SetFunction(lambda s, w=w: value(w, s), 3, 1.0, monotone=True) for w in (0, 1)], apart


@pytest.mark.parametrize("kind", [ContinuousGreedy, CurvatureGreedy])
@pytest.mark.parametrize("steps", [1, 2])
def test_every_transcript_with_a_stated_sensitivity(kind, steps):
    worst = 0.0
    for seed in range(12):
        pair, apart = tables(seed)
        budget = dc.Budget(2.0)

        def chances(people, apart=apart, budget=budget):
            options = {"sensitivity": apart, "seed": 0}
            return transcripts(
                lambda _: kind(Cardinality(1), budget, steps, **options).select(people), budget
            )

        p, q = chances(pair[0]), chances(pair[1])
        worst = max(worst, max(abs(math.log(p[path] / q[path])) for path in p))
    assert worst <= 2.0
    assert worst > 0.3


@pytest.mark.parametrize("stored", [False, True])
def test_one_person_with_more_items_does_not_change_how_everybodys_gradient_is_computed(stored, tmp_path):
    """Up to 12 items have a closed form; a 13th of one person moved all entries by what a sample is off."""

    def gradient(items):
        rows = np.zeros((200, 20))
        rows[:, :8] = 1.0
        rows[-1] = np.where(np.arange(20) < items, 1e-6, 0.0)
        people = ConcaveOverModular(rows, concave="capped", cap=4.0, bound=4.0)
        if stored:
            who, what = np.nonzero(rows)
            table = {"who": who, "what": what, "much": rows[who, what]}
            store = dc.data.prepare(
                table, person="who", item="what", weight="much", items=range(20), to=tmp_path / f"{items}",
                highest=1.0, progress=False,
            )  # fmt: skip
            people = ConcaveOverModular.from_store(store, concave="capped", cap=4.0, bound=4.0)
        x = np.where(np.arange(20) < 8, 0.5, 0.0)
        rng = np.random.default_rng(1)
        return people.multilinear_gradient(x, rng=rng, samples=50), people.sensitivity()

    (few, most), (many, _) = gradient(12), gradient(13)
    assert np.abs(few - many).max() <= most


def test_answers_that_overflow_when_they_are_counted_warn_of_nobody():
    """A finite number is an answer; it is clipped, as other answers out of range are."""

    class Own(Population):
        built_in = False

        def __init__(self, tops):
            self.tops, self.n_items, self.monotone, self._declared = tops, 3, True, 1.0
            self._name_items(None)

        def __len__(self):
            return len(self.tops)

        def _take(self, rows):
            return Own([self.tops[i] for i in rows])

        def _value(self, items):
            return 0.5 * bool(len(items))

        def _gains(self, items):
            return np.full(3, np.mean(self.tops) if len(items) else 0.1)

        def _largest(self):
            return np.ones(len(self))

    chosen = [
        PrivateGreedy(2, dc.Budget(5.0, 1e-6), "zcdp", seed=0).select(Own([0.2] * 50 + [top])).items
        for top in (0.2, 1e305)
    ]
    assert chosen[0] == chosen[1]
    gradient = PointGradient(MultilinearExtension(Coverage(np.eye(3))), 1.0, 10)
    found = gradient._sum_of_functions([0.2, 1.7e308], lambda top: np.full(3, top))
    assert found.tolist() == [math.floor(0.2 / gradient.step) + gradient._most] * 3


def test_a_person_in_several_rows_is_paid_for():
    once, thrice = (
        event_of(ContinuousGreedy(Cardinality(2), dc.Budget(1.0, 1e-6, max_rounds_per_person=rows)), 2).rate
        for rows in (1, 3)
    )
    assert thrice == pytest.approx(once / 3)
    people = Coverage((dense(400, 7) > 0).astype(float))
    selector = ContinuousGreedy(Cardinality(2), dc.Budget(3.0, 1e-6, max_rounds_per_person=3), seed=0)
    selector.select(people)
    assert 0.0 < selector.privacy.epsilon() <= 3.0


@pytest.mark.parametrize("neighbours", ["replace", "add_remove"])
@pytest.mark.parametrize("case", ["cardinality", "curvature"])
def test_the_audit_sees_half_a_sensitivity(case, neighbours):
    honest = Change.of_sum

    def halved(*arguments):
        change = honest(*arguments)
        return replace(change, range=change.range / 2)

    with mock.patch.object(Change, "of_sum", halved):
        assert excess(CASES[case], PURE[neighbours]) > 1.2


honest_charge = Accountant.charge


def charged_once(accountant, charge, *caveats):
    """The injected fault: all releases but the first are not charged."""
    if not accountant.releases.counts:
        honest_charge(accountant, charge, *caveats)


def test_the_audit_sees_steps_that_were_not_charged():
    with (
        mock.patch.object(Accountant, "charge", charged_once),
        mock.patch.object(Setting, "releases", return_value=1),
    ):
        assert excess(CASES["cardinality"], PURE["replace"]) > 1.2


def test_steps_that_were_not_calibrated_for_are_refused_by_the_gate():
    with (
        mock.patch.object(Setting, "releases", return_value=1),
        pytest.raises(BudgetExceeded),
    ):
        CASES["cardinality"](PURE["replace"]).select(Coverage(CROWD))


def test_the_audit_sees_picks_sharper_than_charged():
    def sharp(self, climb, scores):
        event = climb.event
        return self._gate.reserve(event).choice(scores, 2.0 * event.rate)

    with mock.patch.object(ContinuousGreedy, "_pick", sharp):
        with pytest.raises(ValueError, match="does not pay for choices at rate"):
            CASES["cardinality"](PURE["add_remove"]).select(Coverage(CROWD))
        with mock.patch.object(Release, "_rate", lambda _, given: given):  # were it not for the gate
            assert excess(CASES["cardinality"], PURE["add_remove"]) > 1.2


# --- noisy gradients: the loss at any output is a sum over steps ------------------------------------------


class Script:
    """A gate's noise replaced by a script of outputs; what would have been released is kept."""

    def __init__(self, seed):
        self.outputs = np.random.default_rng(seed)
        self.seen = []

    def __call__(self, gate, values, scale, sensitivity, *, changed=None, label=""):
        del changed
        kind = GaussianNoise if self.gaussian else LaplaceNoise
        gate.reserve(kind(sensitivity, scale), label=label)
        self.seen.append((values.copy(), float(scale)))
        return self.outputs.random(values.size) * len(CROWD)


def scripted_run(make, people, noise, seed):
    script = Script(seed)
    script.gaussian = noise == "gaussian"

    def release(gate, values, scale, sensitivity, **options):
        return script(gate, values, scale, sensitivity, **options)

    with mock.patch.object(dc.Gate, noise, release):
        selector = make()
        selector.fractional(people)
    return script.seen, selector.privacy


def noisy_excess(make, noise, neighbours):
    """Largest loss over neighbours and scripted outputs, minus what the account says."""
    worst = -math.inf
    for (here, there), seed in itertools.product(neighbouring(neighbours), range(3)):
        (mine, account), (yours, _) = (scripted_run(make, p, noise, seed) for p in (here, there))
        moves = [(a - b) / s for (a, s), (b, _) in zip(mine, yours, strict=True)]
        if noise == "laplace":
            worst = max(worst, sum(float(np.abs(move).sum()) for move in moves) / account.pure)
        else:
            worst = max(worst, math.sqrt(sum(float(move @ move) for move in moves)) / account.mu)
    return worst


def noisy_case(kind, noise, neighbours, **options):
    budget = dc.Budget(1.0, 1e-3, neighbours)
    return lambda: kind(Cardinality(2), budget, steps=4, noise=noise, seed=0, **options)


@pytest.mark.parametrize("neighbours", ["replace", "add_remove"])
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("kind", [ContinuousGreedy, CurvatureGreedy])
def test_noisy_gradients_lose_what_the_account_says(kind, noise, neighbours):
    lost = noisy_excess(noisy_case(kind, noise, neighbours), noise, neighbours)
    assert lost <= 1.0 + 1e-9
    assert lost > 0.2  # somebody comes near it


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("fault", ["sensitivity", "steps"])
def test_the_noisy_audit_sees_faults(noise, fault):
    honest = Change.of_sum

    def halved(*arguments):
        change = honest(*arguments)
        return replace(change, l1=change.l1 / 3, l2=change.l2 / 3)

    faults = {
        "sensitivity": [mock.patch.object(Change, "of_sum", halved)],
        "steps": [
            mock.patch.object(Accountant, "charge", charged_once),
            mock.patch.object(Setting, "releases", return_value=1),
        ],
    }[fault]
    for injected in faults:
        injected.start()
    try:
        assert noisy_excess(noisy_case(ContinuousGreedy, noise, "replace"), noise, "replace") > 1.01
    finally:
        for injected in faults:
            injected.stop()


def noise_seen(noise):
    """(released - true) / scale, over all steps of one run with real coins."""
    found = []
    real = getattr(dc.Gate, noise)

    def watched(gate, values, scale, sensitivity, **options):
        released = real(gate, values, scale, sensitivity, **options)
        found.append((released - values) / float(scale))
        return released

    budget = dc.Budget(1.0, 1e-3)
    people = Coverage((dense(200, 60) > 0).astype(float))
    with mock.patch.object(dc.Gate, noise, watched):
        ContinuousGreedy(Cardinality(2), budget, steps=20, noise=noise, seed=3).select(people)
    return np.concatenate(found)


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_the_noise_is_there_and_has_its_size(noise):
    from scipy import stats

    law = stats.laplace() if noise == "laplace" else stats.norm()
    assert stats.kstest(noise_seen(noise), law.cdf).pvalue > 1e-6
    with mock.patch.object(samplers, "noise_steps", lambda _, count, **__: np.zeros(count, dtype=np.int64)):
        assert stats.kstest(noise_seen(noise), law.cdf).pvalue < 1e-6


# --- calibration --------------------------------------------------------------------------------------


def setting_of(selector, n_items=50, people=1000):
    touched = selector.items_per_person or n_items
    return selector._setting(selector.constraint.over(n_items), n_items, touched, people)


def event_of(selector, steps, **sizes):
    return setting_of(selector, **sizes).event(steps)


def test_compositions_are_ordered_and_auto_is_the_best():
    budget = dc.Budget(1.0, 1e-6)
    for steps in (1, 60):
        rates = {
            c: event_of(ContinuousGreedy(Cardinality(5), budget, composition=c), steps).rate
            for c in ("auto", "basic", "advanced", "zcdp")
        }
        assert rates["auto"] == max(rates.values())
        scales = {
            c: event_of(ContinuousGreedy(Cardinality(5), budget, noise="laplace", composition=c), steps).scale
            for c in ("auto", "basic", "advanced", "zcdp")
        }
        assert scales["auto"] == min(scales.values())
    assert rates["zcdp"] > rates["advanced"] > rates["basic"]


def test_published_constants_are_the_printed_ones_and_the_account_is_true():
    people = Coverage((dense(300, 20) > 0).astype(float))
    budget = dc.Budget(1.0, 1e-6)
    options = {"steps": 4, "calibration": "published", "seed": 0}
    basic = ContinuousGreedy(Cardinality(3), budget, noise="laplace", **options)
    advanced = ContinuousGreedy(Cardinality(3), budget, noise="laplace", composition="advanced", **options)
    gaussian = ContinuousGreedy(Cardinality(3), budget, noise="gaussian", **options)
    for selector in (basic, advanced, gaussian):
        assert len(selector.select(people)) <= 3
    events = [next(iter(s.privacy.ledger.events())) for s in (basic, advanced, gaussian)]
    assert float(events[0].scale) == pytest.approx(2 * 4 * 20)
    assert float(events[1].scale) == pytest.approx(4 * math.sqrt(2 * 4 * math.log(1e6)) * 20)
    c = math.sqrt(2 * math.log(1.25 * 4 / 1e-6))
    assert float(events[2].sigma) == pytest.approx(2 * c * 4 * math.sqrt(20))
    # Half of what is claimed: a monotone person moves an entry by bound, not by 2 Delta.
    assert basic.privacy.epsilon(0.0) == pytest.approx(0.5)
    assert advanced.privacy.epsilon() < 0.5
    assert gaussian.privacy.epsilon() < 0.5


# --- what is gained -------------------------------------------------------------------------------------


def small_instances():
    for seed in range(12):
        rng = np.random.default_rng(100 + seed)
        rows = dense(15, 7, 0.5, seed)
        rows[:, 0] += 0.01
        yield ConcaveOverModular(rows / 7) if seed % 2 else Coverage((rows > 0).astype(float))
        del rng


def feasible_sets(constraint, n):
    constraint = constraint.over(n)
    return [s for r in range(n + 1) for s in itertools.combinations(range(n), r) if constraint.contains(s)]


CONSTRAINTS = {
    "cardinality": Cardinality(3),
    "partition": PartitionMatroid([[0, 1, 2], [3, 4], [5, 6]], [1, 1, 1]),
    "laminar": LaminarMatroid([[0, 1, 2, 3], [0, 1]], [2, 1], n_items=7),
    "graphic": GraphicMatroid([(0, 1), (1, 2), (2, 0), (2, 3), (3, 0), (3, 4), (4, 1)]),
    "transversal": TransversalMatroid([[0, 1, 2], [2, 3], [4, 5, 6]], n_items=7),
    "linear": LinearMatroid(np.random.default_rng(0).integers(-2, 3, (3, 7)).astype(float)),
    "knapsack": Knapsack([1.0, 2.0, 1.5, 0.5, 1.0, 2.5, 0.7], 3.0),
}


@pytest.mark.parametrize("name", CONSTRAINTS)
@pytest.mark.parametrize("steps", [1, 4])
def test_without_noise_the_certified_share_is_reached(name, steps):
    """F by enumeration of all sets, on random instances, for both ways to use the gradient."""
    constraint = CONSTRAINTS[name]
    for people in small_instances():
        values = [people.value(s) for s in feasible_sets(constraint, 7)]
        within = ContinuousGreedy(constraint, FREE, steps=steps, seed=0)
        point = within.fractional(people)
        assert constraint.over(7).in_polytope(point)
        assert people.multilinear(point) >= bounds.ratio_within_steps(steps) * max(values) - 1e-7
        between = ContinuousGreedy(constraint, FREE, steps=steps, noise="gaussian", seed=0)
        reached = people.multilinear(between.fractional(people))
        single, setting = people.gains([]).max(), setting_of(between, 7, len(people))
        lost = bounds.lost_between_steps(steps, single, setting.reach, vertices_are_sets=name != "knapsack")
        assert reached >= ALPHA * max(values) - lost - 1e-7


@pytest.mark.parametrize("name", CONSTRAINTS)
@pytest.mark.parametrize("noise", ["exponential", "laplace", "gaussian"])
def test_sets_are_always_feasible(name, noise):
    constraint = CONSTRAINTS[name].over(7)
    people = Coverage((dense(60, 7) > 0).astype(float))
    for seed in range(8):
        for kind in (ContinuousGreedy, CurvatureGreedy):
            selector = kind(constraint, dc.Budget(0.1, 1e-3), steps=1 + seed % 4, noise=noise, seed=seed)
            chosen = selector.select(people)
            assert constraint.contains(chosen.items)
            assert len(set(chosen.items)) == len(chosen)
            assert constraint.in_polytope(selector.point_)
            assert selector.privacy.epsilon() <= 0.1
            if noise == "exponential" and name != "knapsack":
                assert len(chosen) == constraint.rank


def test_one_step_under_a_cardinality_constraint_is_greedy():
    people = Coverage((dense(300, 20, 0.2) > 0).astype(float))
    selector = ContinuousGreedy(Cardinality(5), FREE, seed=0)
    assert list(selector.select(people).items) == greedy(people, 5)[0]
    assert selector.steps_ == 1


@pytest.mark.parametrize("noise", ["exponential", "laplace", "gaussian"])
@pytest.mark.parametrize("louder", [1.0, 2.5])
def test_no_more_than_the_stated_share_of_runs_lose_more(noise, louder, monkeypatch):
    """One item that as many people want as the certificate says may be lost, but for a chance of 5 %.

    The curvature is 0, so that every run which picks another item loses more. Noise that is louder than the
    account says is noticed.
    """
    n_items, runs, chance, budget = 200, 300, 0.05, dc.Budget(1.0, 1e-6)

    def made(seed=None):
        return CurvatureGreedy(Cardinality(1), budget, 1, noise, items_per_person=1, seed=seed)

    def certified(count):
        return made().certified_loss(count, n_items, 0.0, probability=1.0 - chance)

    count = next(count for count in range(1, 10_000) if certified(count) < count)
    people = Coverage(np.eye(n_items)[np.zeros(count, dtype=int)])
    assert certified(count) > made().certified_loss(count, n_items, 0.0)
    noisy, choose = CurvatureGreedy._noisy, dc.Gate.choose
    monkeypatch.setattr(CurvatureGreedy, "_noisy", lambda s, x, *rest: noisy(s, x / louder, *rest))
    monkeypatch.setattr(dc.Gate, "choose", lambda s, x, *rest, **more: choose(s, x / louder, *rest, **more))
    values = np.array([count * people.multilinear(made(seed).fractional(people)) for seed in range(runs)])
    missed = int((count - values > certified(count)).sum())
    most = stats.binom.ppf(1.0 - 1e-9, runs, chance)
    assert (missed > most) == (louder > 1.0), missed


@pytest.mark.parametrize(("n_items", "reach", "steps"), [(20, 3, 1), (200, 1, 4), (50, 10, 4), (1, 1, 2)])
@pytest.mark.parametrize("law", ["laplace", "normal"])
def test_noise_exceeds_its_bound_as_rarely_as_stated(n_items, reach, steps, law):
    """The most that noise can lose: the best set is fixed, and every step goes where its noise is largest."""
    runs, chance, rng = 10_000, 0.05, np.random.default_rng(1)
    lost = np.zeros(runs)
    for _ in range(steps):
        drawn = getattr(rng, law)(size=(runs, n_items))
        lost += (np.sort(drawn, axis=1)[:, -reach:].sum(axis=1) - drawn[:, :reach].sum(axis=1)) / steps
    bound = {"laplace": bounds.lost_to_laplace, "normal": bounds.lost_to_gaussian}[law]
    limit = bound(n_items, reach, 1.0, steps, chance)
    assert (lost > limit).sum() <= stats.binom.ppf(1.0 - 1e-9, runs, chance)
    assert limit < 2.0 * reach * math.log(steps * n_items / chance) + 1.0  # the paper's union over all noise


def test_picks_exceed_their_bound_as_rarely_as_stated():
    """Many items that all fall short by the same: which gap is worst is looked for."""
    n_items, reach, steps, chance, runs = 100, 2, 3, 0.05, 20_000
    rng, limit = np.random.default_rng(2), bounds.lost_to_picks(100, 2.0, 1.0, 3, chance)
    for gap in np.linspace(1.0, 12.0, 12):
        short = (n_items - 1) * math.exp(-gap)
        lost = gap * rng.binomial(steps * reach, short / (1.0 + short), runs) / steps
        assert (lost > limit).sum() <= stats.binom.ppf(1.0 - 1e-9, runs, chance)


def test_the_number_of_steps_minimizes_the_certificate():
    budget = dc.Budget(1.0, 1e-6)
    constraint = CONSTRAINTS["partition"]
    for noise, people in itertools.product(("exponential", "laplace", "gaussian"), (500, 50_000)):
        auto = ContinuousGreedy(constraint, budget, noise=noise)
        setting = setting_of(auto, 7, people)
        losses = {k: setting.loss(k, setting.event(k)) for k in range(1, 41)}
        assert setting.steps() == min(losses, key=losses.get)
    few, many = (setting_of(ContinuousGreedy(constraint, budget), 7, p).steps() for p in (500, 500_000))
    assert few < many


# --- the face ----------------------------------------------------------------------------------------------


def test_one_object_is_one_budget():
    people = Coverage((dense(300, 20) > 0).astype(float), labels=[f"item {j}" for j in range(20)])
    for noise in ("exponential", "laplace", "gaussian"):
        selector = ContinuousGreedy(Cardinality(3), dc.Budget(20.0, 1e-6), noise=noise, steps=2, seed=4)
        assert selector.privacy.epsilon() == 0.0
        chosen = selector.select(people)
        assert chosen.labels == tuple(f"item {j}" for j in chosen.items)
        assert chosen.queries > 0
        spent = chosen.privacy.epsilon()
        assert 0.0 < spent <= 20.0
        with pytest.raises(BudgetExceeded):
            selector.select(people)
        assert selector.privacy.epsilon() == spent
        again = ContinuousGreedy(Cardinality(3), dc.Budget(20.0, 1e-6), noise=noise, steps=2, seed=4)
        assert again.select(people).items == chosen.items
    with pytest.raises(TypeError, match="spent twice"):
        pickle.dumps(selector)


def test_all_items_together_need_no_release():
    people = Coverage(np.eye(4))
    for constraint in (Cardinality(4), Knapsack([1.0, 1.0, 0.0, 1.0], 3.0)):
        selector = ContinuousGreedy(constraint, dc.Budget(1.0), steps=2, seed=0)
        assert sorted(selector.select(people).items) == [0, 1, 2, 3]
        assert selector.privacy.epsilon() == 0.0


def test_a_private_number_of_people_decides_nothing():
    """Under add/remove the steps, the noise and the warnings are the same whoever is there."""
    budget = dc.Budget(0.01, 1e-6, "add_remove")
    found = []
    for count in (3, 400):
        selector = ContinuousGreedy(CONSTRAINTS["partition"], budget, seed=0)
        selector.select(Coverage((dense(count, 7) > 0).astype(float)))
        (event,) = set(selector.privacy.ledger.events())
        found.append((selector.steps_, event))
    assert found[0] == found[1]
    assert isinstance(found[0][1], ExponentialChoice)
    guessed = ContinuousGreedy(CONSTRAINTS["partition"], dc.Budget(1.0, 1e-6, "add_remove"), max_people=10**6)
    guessed.select(Coverage((dense(40, 7) > 0).astype(float)))
    assert guessed.steps_ > 3


def test_a_budget_too_small_is_refused_with_one_that_would_do():
    people = Coverage((dense(50, 7) > 0).astype(float))
    for noise in ("exponential", "laplace", "gaussian"):
        with pytest.warns(UserWarning, match="would do") as caught:
            ContinuousGreedy(Cardinality(2), dc.Budget(0.001, 1e-6), noise=noise, steps=2, seed=0).select(
                people
            )
        least = float(str(caught[0].message).split("; epsilon=")[1].split(" ")[0])
        ContinuousGreedy(Cardinality(2), dc.Budget(1.1 * least, 1e-6), noise=noise, steps=2, seed=0).select(
            people
        )


def test_an_objective_with_a_stated_sensitivity():
    rng = np.random.default_rng(0)
    classes = rng.integers(0, 2, 2000)
    features = np.column_stack([classes ^ (rng.random(2000) < p) for p in (0.05, 0.5, 0.1, 0.5, 0.5)])
    informed = MutualInformation(features.astype(int), classes)
    options = {"sensitivity": informed.sensitivity("replace", "value"), "bound": informed.bound}
    with pytest.warns(UserWarning, match="too small"):
        ContinuousGreedy(Cardinality(2), dc.Budget(0.01, 1e-6), seed=0, **options).select(informed)
    chosen = ContinuousGreedy(Cardinality(2), dc.Budget(200.0, 1e-6), seed=0, **options).select(informed)
    assert set(chosen.items) == {0, 2}
    # At corners the common value cancels: half the range.
    once = ContinuousGreedy(Cardinality(2), dc.Budget(1.0), steps=1, **options)
    often = ContinuousGreedy(Cardinality(2), dc.Budget(1.0), steps=2, **options)
    auto = ContinuousGreedy(Cardinality(2), dc.Budget(1.0), **options)
    ranges = [setting_of(s, 5).change.range for s in (once, often, auto)]
    assert ranges[1] == 2 * ranges[0] == 2 * ranges[2]


def test_no_value_of_one_person_decides_whether_a_table_is_too_large():
    """Sets that are asked about may hold every feature: refused by what is public, before any release."""
    rng = np.random.default_rng(0)
    features, classes = rng.integers(0, 8, (300, 7)), rng.integers(0, 2, 300)
    features[0] = 7  # a table of 2 x 8^7 cells, the most that there may be
    budget = dc.Budget(200.0, 1e-6)
    for kind, options in ((ContinuousGreedy, {}), (ContinuousGreedy, {"steps": 2}), (CurvatureGreedy, {})):
        greedy = kind(Cardinality(2), budget, seed=0, **options)
        for last in (7, 8):
            features[5, 0] = last
            with pytest.raises(ValueError, match="the joint table of 7 features may have more than"):
                greedy.select(MutualInformation(features, classes, n_values=9))
        with pytest.raises(dc.DataError, match="holds a number that is not below 8"):
            greedy.select(MutualInformation(features, classes))
        assert greedy.privacy.epsilon() == 0.0
        features[5, 0] = 7
        assert len(greedy.select(MutualInformation(features, classes)).items) == 2
    # Of more features one step of picks asks about corners alone: sets no larger than the selection.
    many = MutualInformation(rng.integers(0, 4, (300, 12)), classes, n_values=4)
    assert len(ContinuousGreedy(Cardinality(2), budget, seed=0).select(many).items) == 2
    with pytest.raises(ValueError, match="the joint table of 12 features may have more than"):
        ContinuousGreedy(Cardinality(2), budget, steps=2, seed=0).select(many)


def test_other_families_are_taken():
    topics = WeightedTopics(dense(30, 4) / 4, dense(6, 4, 0.6, 5))
    diverse = LogDeterminant(np.eye(6), dense(5, 6) * 0.3, bound=6.0)
    for people, bound in ((topics, 1.0), (diverse, 6.0)):
        selector = ContinuousGreedy(Cardinality(2), FREE, bound=bound, seed=0)
        assert people.value(selector.select(people).items) == pytest.approx(
            people.value(greedy(people, 2)[0])
        )


COVER = Coverage(np.eye(4))
BAD = {
    "not a population": (Cardinality(2), {}, [[1, 0]], TypeError, "objective"),
    "not monotone": (
        Cardinality(1),
        {},
        GraphCut([[0, 1, 0], [1, 0, 0], [0, 0, 0]], bound=1.0),
        ValueError,
        "monotone",
    ),
    "bound": (
        Cardinality(1),
        {},
        SetFunction(lambda s: 2.0 * len(s), 3, 6.0, monotone=True),
        ValueError,
        "above bound=1",
    ),
    "more than declared": (Cardinality(1), {"max_people": 3}, COVER, ValueError, "max_people=3"),
    "no sensitivity": (
        Cardinality(1),
        {},
        0.5 * MutualInformation([[0, 1], [1, 0]], [0, 1]),
        ValueError,
        "state sensitivity",
    ),
    "needless sensitivity": (
        Cardinality(1),
        {"sensitivity": 1.0},
        COVER,
        ValueError,
        "leave sensitivity= out",
    ),
    "beyond the cap": (
        Cardinality(1),
        {"items_per_person": 2},
        Coverage(np.ones((2, 4))),
        ValueError,
        "cap_items",
    ),
    "k above n": (Cardinality(9), {}, COVER, ValueError, "exceeds n_items=4"),
    "another ground set": (Knapsack([1.0, 1.0], 1.0), {}, COVER, ValueError, "n_items=4"),
    "NaN": (
        Cardinality(1),
        {},
        SetFunction(lambda s: math.nan if s else 0.0, 3, 1.0, monotone=True),
        ValueError,
        "outside",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_people_are_refused_before_anything_is_released(name):
    constraint, options, people, error, said = BAD[name]
    selector = ContinuousGreedy(constraint, dc.Budget(1.0, 1e-6), seed=0, **options)
    with pytest.raises(error, match=said):
        selector.select(people)
    assert selector.privacy.epsilon() == 0.0
    assert selector.point_ is None


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"steps": 0}, "steps=0"),
        ({"steps": "many"}, "steps='many'"),
        ({"noise": "uniform"}, "noise='uniform'"),
        ({"composition": "magic"}, "composition='magic'"),
        ({"bound": 0.0}, "bound=0.0"),
        ({"bound": math.nan}, "bound is NaN"),
        ({"sensitivity": -1.0}, "sensitivity=-1.0"),
        ({"samples": 1}, "samples=1"),
        ({"items_per_person": 0}, "items_per_person=0"),
        ({"calibration": "published"}, "noise of paper 003"),
        ({"calibration": "published", "noise": "laplace", "composition": "zcdp"}, "not in paper 003"),
        ({"noise": "gaussian", "composition": "basic"}, "pure epsilons"),
    ],
)
def test_bad_settings_are_named(options, said):
    with pytest.raises((ValueError, TypeError), match=said):
        ContinuousGreedy(Cardinality(2), dc.Budget(1.0, 1e-6), **options)


@pytest.mark.parametrize(
    "options", [{"noise": "gaussian"}, {"composition": "zcdp"}, {"composition": "advanced"}]
)
def test_what_needs_a_delta_says_so(options):
    with pytest.raises(ValueError, match="needs delta > 0"):
        ContinuousGreedy(Cardinality(2), dc.Budget(1.0), **options)


def test_constraints_and_budgets_are_checked():
    with pytest.raises(TypeError, match="constraint must be"):
        ContinuousGreedy("5", dc.Budget(1.0))
    with pytest.raises(TypeError, match="budget must be"):
        ContinuousGreedy(Cardinality(5), 1.0)
    with pytest.raises(ValueError, match="helps CurvatureGreedy only"):
        ContinuousGreedy(Cardinality(5), dc.Budget(1.0)).certified_loss(100, 9, 0.5)


@pytest.mark.parametrize("kind", [ContinuousGreedy, CurvatureGreedy])
def test_a_point_is_shown_with_its_caveats(kind):
    """An interrupt between the climb and these left a point whose account took nothing for granted."""
    greedy, honest = kind(1, dc.Budget(1.0, 1e-6), 1, seed=0), dc.Gate.add_caveats

    def stopped(gate, *sentences):
        if greedy.point_ is not None:
            raise KeyboardInterrupt
        honest(gate, *sentences)

    with mock.patch.object(Coverage, "catalogue", "from data"):
        with mock.patch.object(dc.Gate, "add_caveats", stopped):
            greedy.fractional(Coverage(CROWD))
        assert greedy.privacy.caveats


@pytest.mark.filterwarnings("ignore::discreet.privacy.account.PublishedCalibrationWarning")
def test_published_constants_that_need_more_are_not_free_the_second_time():
    """The larger budget is made once: what was released stays in the account, and noise stays the same."""
    people = Coverage((dense(50, 6) > 0).astype(float))
    claimed = dc.Budget(100.0, 0.5)
    selector = ContinuousGreedy(
        2, claimed, 100, noise="laplace", composition="advanced", calibration="published", seed=0
    )
    selector.select(people)
    spent = selector.privacy
    assert spent.epsilon() > 100.0
    with pytest.raises(BudgetExceeded):
        selector.select(people)
    assert str(selector.privacy) == str(spent)
    # Where the claim holds, a second run is one more release of the same kind.
    modest = ContinuousGreedy(2, dc.Budget(5.0), 3, noise="laplace", calibration="published", seed=0)
    for runs in (1, 2):
        modest.select(people)
        assert list(modest.privacy.ledger.counts.values()) == [3 * runs]


@pytest.mark.parametrize("declared", [None, 10_000])
def test_the_certificate_is_for_the_steps_that_are_taken(declared):
    """When people come or go their number decides no step, so the certificate must not suppose it does."""
    blocks = PartitionMatroid([range(10), range(10, 20)], [2, 2])
    budget = dc.Budget(1.0, 1e-6, "add_remove")
    unaware = ContinuousGreedy(blocks, budget, max_people=declared, seed=0)
    certified = unaware.certified_loss(10_000, 20)
    unaware.select(Coverage((dense(10_000, 20, 0.1) > 0).astype(float)))
    fixed = ContinuousGreedy(blocks, budget, steps=unaware.steps_, max_people=declared)
    assert certified == pytest.approx(fixed.certified_loss(10_000, 20))


@pytest.mark.parametrize(("neighbours", "cap"), [("replace", 3), ("add_remove", 3), ("replace", 6)])
def test_what_is_declared_is_attained(neighbours, cap):
    """Two strangers, of three items each: no smaller number than the declared one would be true."""
    rows = np.zeros((2, 6))
    rows[0, :3], rows[1, 3:] = 1.0, 1.0
    if cap == 6:
        rows = np.array([[1.0] * 6, [0.0] * 6])
    parts = np.array([gradients_of(Coverage(rows)[[i]]).at(np.zeros(6)) for i in range(2)]) * 2.0**-30
    moved = parts[0] - parts[1] if neighbours == "replace" else parts[0]
    change = Change.of_sum(1.0, neighbours, 6, cap)
    assert np.abs(moved).max() == change.entry
    assert np.abs(moved).sum() == change.l1
    assert np.linalg.norm(moved) == pytest.approx(change.l2, rel=1e-12)
    if cap == 3:
        assert moved.max() - moved.min() == change.range


def test_a_function_that_exceeds_its_bound_half_way_counts_as_nothing():
    calls = itertools.count()

    def late_failure(chosen):
        if next(calls) > 20:
            raise RuntimeError("my secret")
        return len(chosen) / 3

    people = SetFunction([late_failure, lambda s: len(s) / 3], 3, 1.0, monotone=True)
    budget = dc.Budget(5.0, neighbours="add_remove")
    found = ContinuousGreedy(Cardinality(2), budget, steps=3, seed=0).select(people)
    assert len(found) == 2


def test_tight_noise_is_what_theory_allows():
    budget = dc.Budget(1.0, 1e-6)
    gauss = event_of(ContinuousGreedy(Cardinality(5), budget, noise="gaussian"), 8)
    assert float(gauss.sigma) == pytest.approx(math.sqrt(50 * 8) / budget.mu)  # bound, not 2 bound
    assert float(gauss.sensitivity) == pytest.approx(math.sqrt(50))
    capped = ContinuousGreedy(Cardinality(5), budget, noise="gaussian", items_per_person=3)
    sigmas = [float(event_of(capped, 8, n_items=n).sigma) for n in (50, 5000)]
    assert sigmas[0] == sigmas[1] == pytest.approx(math.sqrt(6 * 8) / budget.mu)
    laplace = event_of(ContinuousGreedy(Cardinality(5), dc.Budget(1.0), noise="laplace"), 8)
    assert float(laplace.scale) == pytest.approx(50 * 8)
    pick = event_of(ContinuousGreedy(Cardinality(5), budget), 8)
    assert pick.rate == pytest.approx(math.sqrt(8 * budget.rho / 40) / 2)
    joined = event_of(ContinuousGreedy(Cardinality(5), replace(budget, neighbours="add_remove")), 8)
    assert joined.rate == pytest.approx(math.sqrt(8 * budget.rho / 40))


def test_published_steps_minimize_the_printed_bound():
    harmonic = sum(1 / j for j in range(1, 21))

    def printed(steps, single=5000.0, reach=5.0):
        return single * reach**2 / (2 * steps) + 4 * reach * steps * 20 * harmonic / 1.0

    best = min(range(1, 100), key=printed)
    assert abs(bounds.published_steps(20, 5000.0, 5.0, 1.0, 1.0) - best) <= 1


def test_rounding_keeps_the_value_of_the_point():
    """Swap rounding loses nothing in expectation: mean over 400 roundings against F(x)."""
    people = Coverage((dense(200, 12, 0.15) > 0).astype(float))
    constraint = PartitionMatroid([range(6), range(6, 12)], [2, 2])
    values, points = [], []
    for seed in range(400):
        selector = ContinuousGreedy(constraint, dc.Budget(2.0, 1e-6), steps=3, seed=seed)
        values.append(people.value(selector.select(people).items))
        points.append(people.multilinear(selector.point_))
    difference = np.array(values) - np.array(points)
    assert difference.mean() >= -5.0 * difference.std() / math.sqrt(difference.size)


@pytest.mark.parametrize("noise", ["exponential", "gaussian"])
@pytest.mark.parametrize("name", ["partition", "knapsack", "cardinality"])
def test_the_certificate_holds_with_noise(name, noise):
    constraint = CONSTRAINTS[name]
    people = Coverage((dense(20_000, 7, 0.2) > 0).astype(float))
    best = len(people) * max(people.value(s) for s in feasible_sets(constraint, 7))
    budget = dc.Budget(1.0, 1e-6)
    options = {"noise": noise}
    certified = ContinuousGreedy(constraint, budget, **options).certified_loss(len(people), 7)
    if noise == "exponential":
        assert certified < 0.5 * ALPHA * len(people)  # it says something
    reached = [
        len(people)
        * people.multilinear(ContinuousGreedy(constraint, budget, seed=s, **options).fractional(people))
        for s in range(10)
    ]
    assert np.mean(reached) >= ALPHA * best - certified
