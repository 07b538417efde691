"""States that nobody saved: whatever a file says, nothing is released that was not paid for."""

from __future__ import annotations

import copy
import random
from fractions import Fraction

import numpy as np
import pytest

import discreet as dc
from discreet.privacy import TreeSum
from tests import hostile
from tests.online.learners import EVERYBODY, ROUNDS, people

BUDGET = dc.Budget(1.0, 1e-6)
# One of each kind of learner, engine, sum and noise; tools/fuzz_states.py goes through all of them.
SOME = [
    "bandit, blocks",
    "bandit, slots",
    "thompson, sets",
    "hedge, batches",
    "best of both",
    "leader selector, partition",
    "phased, doubling",
    "running sum, capped, batches",
    "frank-wolfe, pure",
    "leader",
    "linear, experts, tree",
    "one point, batches",
    "minimizer, sqrt",
    "bandit minimizer, values",
]


def learned(name: str, rounds: int, *, asked: bool = False):
    setting = EVERYBODY[name]
    learner, stream = setting.make(), setting.people(ROUNDS)
    for t in range(rounds):
        learner.learn(
            setting.feedback(learner, stream[t], learner.choose()), person_id="ann" if t == 3 else None
        )
    if asked:
        learner.choose()
    return learner


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", SOME)
def test_a_changed_state_is_refused_or_works(name, tmp_path):
    rng, outcomes = random.Random(name), set()
    for rounds, asked in ((0, False), (9, True), (ROUNDS, False)):
        learner = learned(name, rounds, asked=asked)
        state = hostile.saved(learner, tmp_path / "state")
        assert hostile.outcome(state, tmp_path / "state", EVERYBODY[name], learner) == "works"
        for _, changed in rng.sample(list(hostile.changes(*state)), 12):
            outcome = hostile.outcome(changed(), tmp_path / "state", EVERYBODY[name], learner)
            outcomes.add(outcome.split(":")[0])
    assert "refused" in outcomes


# --- what each of them must refuse, by name ------------------------------------------------------------


def refused(name: str, tmp_path, change, match: str, rounds: int = 9) -> None:
    header, arrays = hostile.saved(learned(name, rounds, asked=True), tmp_path / "state")
    change(header, arrays)
    with pytest.raises(ValueError, match=match):
        dc.load(hostile.written((header, arrays), tmp_path / "state"))


def put(*path, value):
    def change(header, _):
        inside = header
        for key in path[:-1]:
            inside = inside[key] if key in inside else inside["value"].get("fields", inside["value"])[key]
        inside = inside if path[-1] in inside else inside["value"].get("fields", inside["value"])
        inside[path[-1]] = value

    return change


def swap(name, make):
    def change(_, arrays):
        arrays[name] = make(arrays[name])

    return change


def _one_below_0(lengths):
    """As many entries in all."""
    return np.array([lengths.sum() + 1, -1, *lengths[2:] * 0])


@pytest.mark.parametrize(
    ("name", "change", "match"),
    [
        # More than was paid for.
        ("hedge, tight", put("gate", "ledger", "charges", value=[]), "not charged"),
        ("hedge, tight", put("settings", "rate", value=100.0), "not charged"),
        ("hedge, tight", put("settings", "bound", value=2.0), "not charged"),
        ("bandit, every round", put("settings", "rate", value=9.0), "not charged"),
        ("bandit, blocks", put("settings", "bound", value=2.0), "one person can move"),
        ("bandit, blocks", put("settings", "noise", "scale", value="1/100"), "not charged"),
        ("thompson, sets", put("settings", "feedback", value="slots"), "one person can move"),
        ("thompson, slots", put("settings", "bound", value=2.0), "one person can move"),
        ("phased, composed", put("settings", "k", value=5), "not charged"),
        ("phased, composed", put("settings", "rate", value=9.0), "not paid for"),
        ("phased, composed", put("settings", "bound", value=3.0), "not paid for"),
        ("phased, fixed windows", put("settings", "keep", value=2**64 - 1), "not paid for"),
        ("best of both", put("settings", "votes", "rate", value=9.0), "not paid for"),
        ("best of both", put("settings", "experts", "weights", value=None), "one person can move"),
        ("leader selector", put("settings", "event", "sigma", value="1/100"), "not charged"),
        ("running sum, sqrt", put("settings", "bound", value=3.0), "one person can move"),
        ("running sum, sqrt", put("settings", "event", "sigma", value="1/100"), "not charged"),
        ("running sum, weighted", put("settings", "weights", value=None), "one person can move"),
        ("leader", put("settings", "lipschitz", value=9.0), "one person can move"),
        ("minimizer, tree", put("settings", "bound", value=9.0), "one person can move"),
        ("minimizer, sqrt", put("settings", "neighbours", value="add_remove"), "are for neighbours="),
        ("bandit minimizer, thompson", put("settings", "bound", value=9.0), "not for costs"),
        ("frank-wolfe, box", put("settings", "gradient_bound", value=9.0), "one person can move"),
        ("frank-wolfe, partition", put("settings", "steps", value=4), "one person can move"),
        ("frank-wolfe, pure", put("settings", "event", "scale", value="1"), "not charged"),
        # Items that compiled loops would look for outside of their arrays.
        ("hedge, tight", swap("_experts.scores", lambda a: np.tile(a, (2, 1))), "shape"),
        ("hedge, tight", swap("_experts.scores", lambda a: a.astype(float)), "shape"),
        ("hedge, tight", swap("_rounds.shown", lambda a: a + 10**6), "was never decided"),
        ("hedge, tight", put("state", "_rounds", "value", "number", value=10**6), "nothing was decided"),
        ("bandit, blocks", swap("_sum._current", lambda a: a + 10**6), "unknown items"),
        ("bandit, slots", swap("_sum._current", lambda a: a + 10**6), "unknown items"),
        ("thompson, sets", swap("_sum._blocks.0.1", lambda a: a + 10**6), "unknown items"),
        ("phased, composed", swap("_window._kept.1.0.indices", lambda a: a + 10**6), "people of other items"),
        ("phased, composed", swap("_window._kept.1.0.lengths", lambda a: a * 100), "people of other items"),
        ("phased, composed", swap("_window._kept.1.0.lengths", _one_below_0), "people of other items"),
        ("leader selector, partition", swap("_rounds.shown", lambda a: a * 0), "was never decided"),
        ("running sum, sqrt", put("state", "_sum", value=3), "not what this release writes"),
    ],
)
def test_a_state_is_refused(name, change, match, tmp_path):
    refused(name, tmp_path, change, match)


def test_a_fraction_is_not_worked_out_digit_by_digit(tmp_path):
    refused("leader", tmp_path, put("settings", "event", "sigma", value="1e999999999"), "not a fraction")


@pytest.mark.parametrize("what", ["norm_bound", "rounds", "sigma", "people_per_vector"])
def test_a_sum_of_more_than_was_paid_for_is_refused(what):
    total = TreeSum(2, 20, dc.Gate(BUDGET, 0), norm_bound=1.0)
    settings, arrays = total.state()
    gate = total.gate.state()
    forged = copy.deepcopy(settings)
    spec = forged["spec"]["fields"]
    within = {"rounds": spec, "sigma": forged["event"]}.get(what, spec["bounds"]["value"]["fields"])
    within[what] = {"norm_bound": 5.0, "rounds": 2000, "people_per_vector": 0, "sigma": "1/1000"}[what]
    with pytest.raises(ValueError, match="holds a state that cannot be right"):
        TreeSum.from_state(forged, arrays, dc.Gate.from_state(gate))
    TreeSum.from_state(settings, arrays, dc.Gate.from_state(gate))


def test_noise_of_ones_own_is_for_what_one_person_moves():
    needed = TreeSum(2, 8, BUDGET, norm_bound=1.0).event
    louder = dc.privacy.GaussianNoise(needed.sensitivity, 2 * needed.sigma)
    total = TreeSum(2, 8, BUDGET, norm_bound=1.0, event=louder)
    assert total.gate.spent.epsilon() < 0.6
    for wrong in (
        dc.privacy.GaussianNoise(Fraction(needed.sensitivity) / 2, needed.sigma),
        dc.privacy.LaplaceNoise(needed.sensitivity, 99.0),
    ):
        with pytest.raises(ValueError, match="event="):
            TreeSum(2, 8, BUDGET, norm_bound=1.0, event=wrong)
    quiet = dc.privacy.GaussianNoise(needed.sensitivity, needed.sigma / 2)
    with pytest.raises(dc.BudgetExceeded):
        TreeSum(2, 8, BUDGET, norm_bound=1.0, event=quiet)


def test_a_damaged_file_is_noticed(tmp_path):
    learner = EVERYBODY["hedge, tight"].make()
    learner.run(people(count=9))
    learner.save(tmp_path / "state")
    content = (tmp_path / "state").read_bytes()
    for place in range(0, len(content), 37):
        changed = bytearray(content)
        changed[place] ^= 1
        (tmp_path / "state").write_bytes(bytes(changed))
        with pytest.raises(ValueError, match=r"is not a state file|is damaged|has format version|holds a"):
            dc.load(tmp_path / "state")
    for size in (0, 10, len(content) // 2, len(content) - 1):
        (tmp_path / "state").write_bytes(content[:size])
        with pytest.raises(ValueError, match=r"is not a state file|is damaged"):
            dc.load(tmp_path / "state")


def test_one_sum_does_not_come_back_twice_behind_one_gate():
    """Two that go on from one state would release the same people twice, and the gate would know of once."""
    total = TreeSum(2, 20, dc.Gate(BUDGET, 0), norm_bound=1.0)
    state = total.state()
    with pytest.raises(ValueError, match="already in use"):
        TreeSum.from_state(*state, total.gate)
    gate = dc.Gate.from_state(total.gate.state())
    before = gate.spent.to_json()
    with pytest.raises(ValueError, match="cannot be right"):
        TreeSum.from_state(state[0], {}, gate)  # refused, and nothing taken up
    TreeSum.from_state(*state, gate)
    with pytest.raises(ValueError, match="already in use"):
        TreeSum.from_state(*state, gate)
    assert gate.spent.to_json() == before
