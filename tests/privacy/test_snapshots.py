"""States of gates and running sums are snapshots: nothing that happens later reaches them."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import discreet as dc
from discreet.core.state import read_state
from discreet.privacy import FactorizedSum, Gate, RunningSum, SumSpec, TreeSum, VectorBounds, prefix_sum
from tests.states import Meanwhile, as_bytes

SIZE, ROUNDS = 4, 20
BUDGET, PURE, FREE = dc.Budget(1.0, 1e-6), dc.Budget(1.0), dc.Budget(float("inf"))
VECTORS = np.random.default_rng(0).uniform(0.0, 0.24, (ROUNDS, SIZE))


def _made(kind, budget=BUDGET, **options):
    """A way to make a sum behind a gate of its own."""
    return lambda: kind(SIZE, ROUNDS, Gate(budget, 3), **({"norm_bound": 1.0} | options))


def _specified(kind, spec, budget=BUDGET, **options):
    """The same of a specification, as learners make their sums."""
    return lambda: kind.of(spec, Gate(budget, 3), **options)


EXPERTS = SumSpec(VectorBounds(SIZE // 2, 1, None, (0.0, 1.0)), ROUNDS, "tree", "laplace", stacked=2)
GRADIENTS = VectorBounds(SIZE, 2, norm_bound=1.0, apart=1.5)


SUMS = {
    "tree": _made(TreeSum),
    "tree, halves combined": _made(TreeSum, variance_reduction=True),
    "tree, Laplace": _made(TreeSum, PURE, noise="laplace"),
    "tree, spherical": _made(TreeSum, PURE, noise="spherical"),
    "tree, not private": _made(TreeSum, FREE),
    "square root": _made(FactorizedSum),
    "buffered": _made(FactorizedSum, method="blt"),
    "factorized, not private": _made(FactorizedSum, FREE),
    "gradients, noise ahead": _specified(FactorizedSum, SumSpec(GRADIENTS, ROUNDS), ahead=True),
    "gradients, tree": _specified(TreeSum, SumSpec(GRADIENTS, ROUNDS, "tree")),
    "experts": _specified(TreeSum, EXPERTS, PURE),
}


@pytest.fixture(params=SUMS, ids=SUMS.keys())
def make(request):
    return SUMS[request.param]


def _kinds(kind=RunningSum):
    below = kind.__subclasses__()
    return {kind, *(found for one in below for found in _kinds(one))} if below else {kind}


def test_every_kind_of_sum_is_here():
    made = {type(make()) for make in SUMS.values()}
    ours = {kind for kind in _kinds() if kind.__module__.startswith("discreet.")}
    assert {kind for kind in ours if not kind.__abstractmethods__} == made
    assert len(made) >= 2


def _resumed(make, settings, arrays, gate):
    return type(make()).from_state(settings, arrays, Gate.from_state(gate))


def _added(total, first, last):
    return [total.add(vector) for vector in VECTORS[first:last]]


@pytest.mark.parametrize("count", [0, 1, 3, 8])
def test_a_snapshot_stays_as_it_was_and_goes_on_as_the_sum_did(make, count):
    total = make()
    _added(total, 0, count)
    (settings, arrays), gate = total.state(), total.gate.state()
    before, gate_before = as_bytes(settings, arrays), copy.deepcopy(gate)
    rest = _added(total, count, ROUNDS)
    assert as_bytes(settings, arrays) == before
    assert gate == gate_before
    again = _resumed(make, settings, arrays, gate)
    assert again.taken == count
    assert np.array_equal(_added(again, count, ROUNDS), rest)
    assert as_bytes(settings, arrays) == before
    assert gate == gate_before


def test_what_was_handed_out_is_not_the_sum_itself(make):
    total, twin = make(), make()
    for one in (total, twin):
        _added(one, 0, 3)
    settings, arrays = total.state()
    again = _resumed(make, settings, arrays, total.gate.state())
    for array in arrays.values():
        array[...] = 7
    for name in settings:
        settings[name] = None
    expected = _added(twin, 3, 8)
    assert np.array_equal(_added(total, 3, 8), expected)
    assert np.array_equal(_added(again, 3, 8), expected)


def test_nobody_is_added_while_a_file_is_written(make, tmp_path, monkeypatch):
    """Between how many were added and what they add up to: another thread's person comes before or after."""
    total, twin = make(), make()
    for one in (total, twin):
        _added(one, 0, 3)
    twin.save(tmp_path / "twin")
    adding, honest = Meanwhile(lambda: total.add(VECTORS[3])), prefix_sum.capture

    def slow(part):
        adding.start()
        return honest(part)

    with monkeypatch.context() as patched:
        patched.setattr(prefix_sum, "capture", slow)
        total.save(tmp_path / "file")
    adding.finish()
    assert total.taken == 4
    assert as_bytes(*read_state(tmp_path / "file")) == as_bytes(*read_state(tmp_path / "twin"))


def test_a_file_waits_for_an_addition(make, tmp_path, monkeypatch):
    """Half-way through an addition of another thread there is nothing to save, and nothing to refuse."""
    total, twin = make(), make()
    _added(total, 0, 3)
    _added(twin, 0, 4)
    twin.save(tmp_path / "twin")
    saving, honest = Meanwhile(lambda: total.save(tmp_path / "file")), type(total)._released

    def slow(self, sums):
        released = honest(self, sums)
        saving.start()
        return released

    with monkeypatch.context() as patched:
        patched.setattr(type(total), "_released", slow)
        total.add(VECTORS[3])
    saving.finish()
    assert as_bytes(*read_state(tmp_path / "file")) == as_bytes(*read_state(tmp_path / "twin"))


def test_a_vector_that_adds_another_one_does_not_go_beyond_the_rounds(make):
    """What is added may be any object that makes an array of itself, and may do anything on the way."""
    total = make()

    class Greedy:
        def __array__(self, dtype=None, copy=None):
            _added(total, total.taken, ROUNDS)
            return VECTORS[0]

    with pytest.raises(RuntimeError, match="has taken them all"):
        total.add(Greedy())
    assert total.taken == ROUNDS


@pytest.mark.parametrize("part", [False, True])
def test_two_equal_sums_behind_one_gate_are_not_saved_apart(part, tmp_path):
    """Each file would bring the gate back, and with it what is left of the budget."""
    gate = Gate(BUDGET, 3)
    behind = gate.part("group") if part else gate
    sums = [FactorizedSum(SIZE, ROUNDS, behind, norm_bound=1.0, share=0.25) for _ in range(2)]
    for one in sums:
        with pytest.raises(ValueError, match="other releases went through this sum's gate"):
            one.save(tmp_path / "file")


def test_a_gates_state_stays_as_it_was():
    class Counting:
        """Words that anybody can count; hands out the very state that it goes on with."""

        secure = False

        def __init__(self):
            self.at = {"position": 0}

        def words(self, count):
            self.at["position"] += count
            return np.arange(count, dtype=np.uint64) << np.uint64(40)

        def state(self):
            return self.at

    for source in (0, Counting()):
        gate = Gate(BUDGET, source)
        group = gate.part("group")
        group.laplace(0.0, 10.0, 1.0)
        state = gate.state()
        before = copy.deepcopy(state)
        gate.gaussian(0.0, 20.0, 1.0)
        group.laplace(0.0, 10.0, 1.0)
        assert state == before
