"""Experts of any kind as the experts of paper 000's Algorithm 2: accounts, exact audits, certificates."""

from __future__ import annotations

import copy
import itertools
import math
import pickle

import numpy as np
import pytest
from scipy.stats import chisquare

import discreet as dc
from discreet.constraints.domains import Ball, Simplex
from discreet.evaluation import streams
from discreet.objectives import Coverage, SetFunction
from discreet.online import (
    ApproximateLeader,
    BanditSelector,
    Experts,
    HedgeSelector,
    LinearLeader,
    PhasedSelector,
    RunningSumSelector,
)
from discreet.privacy import ExponentialChoice
from tests.privacy.audit import hockey_stick, transcripts

LOOSE, PURE, FREE = dc.Budget(8.0, 1e-6), dc.Budget(8.0), dc.Budget(math.inf)


class Own:
    """An expert of one's own: an exponential choice each round, charged at the gate of its share."""

    def __init__(self, share, n, rounds, times=1.0):
        self.totals, self.times, self.certified_regret = np.zeros(n), times, float(rounds)
        rate = float(share.epsilon) / (2 * rounds) * (1 - 1e-12)  # gains move by 1 either way
        self._release = share.gate.reserve(ExponentialChoice(rate, 2.0), rounds, label="own expert")

    def choose(self):
        return (self._release.choice(self.totals * self.times),)

    def learn(self, gains):
        self.totals += gains


def _program(people, n, times=1.0):
    """Two experts of one's own, run with a gate: its choices are everything that is seen."""

    def program(gate):
        learner = Experts(lambda share: Own(share, n, len(people) + 1, times), 2, gate, n_items=n)
        for person in people:
            learner.choose()
            learner.learn(Coverage([person]))
        learner.choose()

    return program


def _worst(times=1.0):
    """The largest log ratio of any transcript, over all pairs of neighbours among short streams."""
    budget, worst = dc.Budget(0.8), 0.0
    people = [(1, 0), (0, 1), (1, 1), (0, 0)]
    found = {
        stream: transcripts(_program(stream, 2, times), budget)
        for stream in itertools.product(people, repeat=2)
    }
    for here, there in itertools.combinations(found, 2):
        if sum(one != other for one, other in zip(here, there, strict=True)) == 1:
            ratios = [abs(math.log(chance / found[there][seen])) for seen, chance in found[here].items()]
            worst = max(worst, max(ratios))
            if times == 1.0:
                assert hockey_stick(found[here], found[there], budget.epsilon) <= 1e-12
    return worst


def test_experts_of_ones_own_are_as_private_as_their_account_says():
    """Every transcript of two experts over three sets; whoever counts gains four times breaks the account."""
    gate = dc.Gate(dc.Budget(0.8), 0)
    _program([(1, 0), (0, 1)], 2)(gate)
    account = gate.spent
    assert account.epsilon() == pytest.approx(0.8)
    assert [entry.label for _, entry, _ in account.ledger.entries()] == ["own expert"]
    worst = _worst()
    assert 0.25 * account.epsilon() < worst <= account.epsilon() * (1 + 1e-12)
    assert _worst(times=4.0) > account.epsilon()


def test_an_expert_cannot_draw_more_than_it_charged():
    learner = Experts(lambda share: Own(share, 2, 1), 2, PURE, n_items=2, seed=0)
    learner.choose()
    learner.learn(Coverage([[1, 0]]))
    with pytest.raises(RuntimeError, match="draw"):
        learner.choose()


@pytest.mark.parametrize("rounds", [1, 2])
def test_nobody_is_learned_from_more_often_than_the_budget_is_for(rounds):
    """Experts of one's own hear nothing of the rounds beyond, and the library's own count for themselves."""
    budget = dc.Budget(8.0, 0.0, "replace", rounds)
    own = Experts(lambda share: Own(share, 3, 5), 2, budget, n_items=3, seed=0)
    sums = Experts(
        lambda share: RunningSumSelector(3, 1, 5, share, sums="tree", noise="laplace"),
        2, budget, n_items=3, seed=0,
    )  # fmt: skip
    for learner in (own, sums):
        for _ in range(4):
            learner.choose()
            learner.learn(Coverage([[1, 1, 1]]), person_id="ann")
    assert own.experts[0].totals.tolist() == [float(rounds)] * 3
    assert [expert._contribution._counts.copy() for expert in sums.experts] != [{}, {}]
    assert all(list(expert._contribution._counts.values()) == [rounds] for expert in sums.experts)


def test_rounds_are_in_order_and_caveats_of_people_are_kept():
    learner = Experts(lambda share: Own(share, 2, 3), 1, PURE, n_items=2, seed=0)
    with pytest.raises(RuntimeError, match="comes after choose"):
        learner.learn(Coverage([[1, 0]]))

    class FromData(Coverage):
        caveats = ("items came from data",)

    learner.choose()
    learner.learn(FromData([[1, 0]]))
    assert "items came from data" in learner.privacy.caveats


N, ROUNDS = 6, 600
KINDS = {
    "Hedge": (LOOSE, lambda share: HedgeSelector(N, 1, ROUNDS, share)),
    "Hedge, pure": (PURE, lambda share: HedgeSelector(N, 1, ROUNDS, share, resample_every=10)),
    "sums": (LOOSE, lambda share: RunningSumSelector(N, 1, ROUNDS, share)),
    "tree": (PURE, lambda share: RunningSumSelector(N, 1, ROUNDS, share, sums="tree", noise="laplace")),
    "linear": (LOOSE, lambda share: LinearLeader(Simplex(N), ROUNDS, share, box=(-1.0, 0.0))),
    "PFTAL": (PURE, lambda share: ApproximateLeader(Simplex(N), ROUNDS, share, lipschitz=math.sqrt(N))),
}


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("stream", ["product display", "near tie"])
def test_measured_regret_is_within_the_sum_of_the_experts_certificates(name, stream):
    budget, make = KINDS[name]
    people = streams.STREAMS[stream](ROUNDS, N, np.random.default_rng(1))
    learner = Experts(make, 2, budget, n_items=N, seed=3)
    assert learner.privacy.epsilon() <= budget.epsilon * (1 + 1e-9)
    alone = make(dc.Gate(budget, 0).split(2, definition="zcdp" if budget.delta else "pure")[0])
    limit = dc.bounds.trivial(ROUNDS)
    assert learner.certified_regret == pytest.approx(min(limit, 2 * alone.certified_regret))
    trace = learner.run(people)
    best = max(people.value(pair) for pair in itertools.combinations(range(N), 2)) * ROUNDS
    lost = (1 - 1 / math.e) * best - trace.total
    assert lost <= learner.certified_regret + 6 * math.sqrt(ROUNDS / 4)
    again = Experts(make, 2, budget, n_items=N, seed=3).run(people)
    assert (again.selections == trace.selections).all()


def test_experts_learn_what_items_add_to_those_before():
    """Without privacy two experts find the pair that covers everybody, not the two best alone."""
    people = Coverage([[1, 1, 0], [1, 1, 0], [0, 0, 1]] * 200)
    learner = Experts(lambda share: HedgeSelector(3, 1, 600, share), 2, FREE, n_items=3, seed=0)
    assert learner.run(people).rewards[300:].mean() > 0.9
    assert repr(learner) == "Experts(HedgeSelector: 2 of 3 items, round 600)"
    shown = learner.experts[0].round
    assert shown == learner.round == 600


def test_what_does_not_fit_is_refused():
    with pytest.raises(TypeError, match="make must be a function"):
        Experts(3, 2, PURE, n_items=4)
    with pytest.raises(ValueError, match="learner of 2 of 4 items; an expert chooses 1 of 4"):
        Experts(lambda share: HedgeSelector(4, 2, 9, share), 2, PURE, n_items=4)
    with pytest.raises(ValueError, match="other points than those of Simplex"):
        Experts(lambda share: ApproximateLeader(Ball(3), 9, share, lipschitz=1.0), 2, PURE, n_items=4)
    with pytest.raises(ValueError, match="BanditSelector learns from less"):
        Experts(lambda share: BanditSelector(4, 1, 900, share), 2, PURE, n_items=4)
    with pytest.raises(ValueError, match="spends from the share"):
        Experts(lambda _: HedgeSelector(4, 1, 9, dc.Budget(1.0)), 2, PURE, n_items=4)
    with pytest.raises(ValueError, match="spends from the share"):  # the whole budget, at a gate of its own
        Experts(lambda share: HedgeSelector(4, 1, 9, share.budget), 2, PURE, n_items=4)
    with pytest.raises(TypeError, match=r"with choose\(\) and learn\(\)"):
        Experts(lambda _: object(), 2, PURE, n_items=4)
    once = Own(dc.Gate(PURE).split(1, definition="pure")[0], 4, 9)
    with pytest.raises(ValueError, match="the same object twice: make a new expert in every call"):
        Experts(lambda _: once, 2, PURE, n_items=4)
    assert Experts(lambda _: once, 1, PURE, n_items=4).experts == (once,)
    with pytest.raises(ValueError, match="a budget of its own"):
        Experts(lambda share: RunningSumSelector(4, 1, 9, share, calibration="published"), 2, PURE, n_items=4)
    learner = Experts(lambda share: HedgeSelector(4, 1, 9, share), 2, PURE, n_items=4)
    learner.choose()
    with pytest.raises(ValueError, match="never fall"):
        learner.learn(SetFunction(lambda s: float(len(s) == 1), 4, 1.0))
    assert learner.round == 0


def test_a_person_who_has_to_be_known_is_refused_before_the_round_has_passed():
    """Experts that count people by batches need an identity: without one no expert's round passes."""
    budget = dc.Budget(1.0, 1e-6, "replace", 3)
    learner = Experts(
        lambda share: RunningSumSelector(3, 1, 20, share, min_separation=1), 2, budget, n_items=3
    )
    person, shown = Coverage(np.eye(3)[[0]]), learner.choose()
    for call in (learner.learn, learner.run):
        with pytest.raises(ValueError, match="person_id is needed"):
            call(person)
        assert learner.round == 0
        assert learner.choose() == shown
    learner.learn(person, person_id="ann")
    assert [learner.round, *(one.round for one in learner.experts)] == [1, 1, 1]


def test_a_certificate_about_other_streams_is_none():
    phased = Experts(lambda share: PhasedSelector(4, 1, share, rounds=900), 2, LOOSE, n_items=4)
    weighted = Experts(
        lambda share: RunningSumSelector(4, 1, 900, share, weights="norm"), 2, LOOSE, n_items=4
    )
    assert phased.certified_regret == weighted.certified_regret == dc.bounds.trivial(900)


def test_nobody_is_counted_more_often_because_of_threads_or_copies():
    """A function that asks for another round while it is asked itself: as a second thread would."""

    class Counts:
        taught = 0

        def choose(self):
            return [0]

        def learn(self, gains):
            self.taught += bool(gains.any())

    learner = Experts(lambda _: Counts(), 1, PURE, n_items=3)
    learner.choose()

    def again(items):
        learner.learn(Coverage([[1, 0, 0]]), person_id="ann")
        return float(bool(items))

    with pytest.raises(RuntimeError, match="inside learn"):
        learner.learn(SetFunction(again, 3, 1.0, monotone=True), person_id="ann")
    learner.learn(Coverage([[1, 0, 0]]), person_id="ann")
    assert (learner.experts[0].taught, learner.round) == (1, 1)
    for duplicate in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="could be spent twice"):
            duplicate(learner)


def test_an_expert_with_probabilities_shows_each_item_as_often_as_it_says():
    class Mixed:
        def choose(self):
            return np.array([0.0, 0.1, 0.15, 0.25, 0.0])  # or anything proportional

        def learn(self, gains):
            pass

    learner = Experts(lambda _: Mixed(), 1, PURE, n_items=5, seed=3)
    counts = np.zeros(5)
    for _ in range(4000):
        counts[learner.choose().items[0]] += 1
        learner.learn(Coverage([[1, 0, 0, 0, 0]]))
    assert counts[0] == counts[4] == 0
    assert chisquare(counts[1:4], [800, 1200, 2000]).pvalue > 1e-6


@pytest.mark.parametrize("answer", [(5,), np.array([0.0, 0.2, 0.3, 1.5, 0.0])], ids=["item", "chances"])
def test_what_no_expert_can_choose_is_refused(answer):
    class Wrong:
        def choose(self):
            return answer

        def learn(self, gains):
            pass

    with pytest.raises(ValueError, match=r"choose\(\)"):
        Experts(lambda _: Wrong(), 1, PURE, n_items=5, seed=3).choose()


@pytest.mark.parametrize("budget", [LOOSE, PURE])
def test_experts_of_several_kinds_spend_from_a_gate_in_one_definition(budget):
    """It is fixed before the first expert, which would else fix one that the others cannot spend in."""
    if budget.delta:
        kinds = [make for spent, make in KINDS.values() if spent is LOOSE]
    else:
        kinds = [KINDS["Hedge, pure"][1], KINDS["tree"][1], lambda share: PhasedSelector(N, 1, share)]
    for pair in itertools.permutations(kinds, 2):
        gate, makers = dc.Gate(budget, 0), iter(pair)
        learner = Experts(lambda share, makers=makers: next(makers)(share), 2, gate, n_items=N)
        assert learner.privacy.definition == ("zcdp" if budget.delta else "pure")
        assert 0.9 * budget.epsilon < learner.privacy.epsilon(budget.delta) <= budget.epsilon * (1 + 1e-9)


def test_experts_at_a_gate_of_others_spend_their_part_of_it():
    gate = dc.Gate(dc.Budget(6.0), 0)
    share, rest = gate.split(2, definition="pure")
    learner = Experts(lambda part: Own(part, 3, 5), 3, share, n_items=3)
    assert len(learner.experts) == 3
    assert learner.privacy.epsilon() == pytest.approx(3.0)
    assert Own(rest, 3, 5).choose()
