"""Random bits: uniform, never repeated by fork, thread, pickle or copy; reproducible only by seed."""

from __future__ import annotations

import contextlib
import copy
import os
import pickle
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from scipy import stats

import discreet as dc
from discreet.privacy import ReproducibleRandomness, SecureRandomness
from discreet.privacy.randomness import restored


@pytest.mark.parametrize("source", [SecureRandomness(), ReproducibleRandomness(4)], ids=repr)
def test_words_are_uniform_in_every_byte(source):
    octets = source.words(40_000).view(np.uint8).reshape(-1, 8)
    for place in range(8):
        # 8 tests on fresh bits in each of two cases: 1e-9 each keeps the whole below one in a million
        assert stats.chisquare(np.bincount(octets[:, place], minlength=256)).pvalue > 1e-9


def test_forked_child_draws_other_words():
    """A child process and its parent must not share noise, also after the parent has drawn."""
    source = SecureRandomness()
    source.words(10)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, source.words(4).tobytes())
        os._exit(0)
    os.waitpid(child, 0)
    theirs = np.frombuffer(os.read(read, 32), dtype=np.uint64)
    assert not set(theirs.tolist()) & set(source.words(4).tolist())
    assert theirs.size == 4


@pytest.mark.parametrize("alike", [False, True])
@pytest.mark.parametrize("what", ["gate", "sum"])
def test_forked_child_cannot_spend_the_parents_budget(what, alike):
    """Parent and child would each spend it; ``alike``: under one number, as in two containers."""
    gate = dc.Gate(dc.Budget(1.0))
    total = gate.running_sum(1, 4, method="tree", noise="laplace", norm_bound=1.0, share=0.5)
    read, write = os.pipe()
    number, child = os.getpid(), os.fork()
    if child == 0:
        os.getpid = (lambda: number) if alike else os.getpid
        try:
            gate.choose([0.0, 1.0], 0.1, 1.0) if what == "gate" else total.add([0.0])
        except RuntimeError as error:
            os.write(write, str(error).encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(write)
    assert b"made in another process" in os.read(read, 500)
    gate.choose([0.0, 1.0], 0.1, 1.0)
    total.add([0.0])


def test_threads_draw_different_words_and_a_gate_counts_them_all():
    source = SecureRandomness()
    with ThreadPoolExecutor(8) as pool:
        words = [word for part in pool.map(lambda _: source.words(500).tolist(), range(16)) for word in part]
    assert len(set(words)) == len(words)
    gate = dc.Gate(dc.Budget(1.0))
    with ThreadPoolExecutor(8) as pool:
        outcomes = list(pool.map(lambda _: _try(gate), range(40)))
    assert sum(outcomes) == 20  # twenty releases of 0.05 fit, whichever threads they came from
    assert gate.spent.epsilon() == 1.0


def test_two_threads_do_not_both_make_the_last_draw():
    """Also where a debugger, or a count of lines, lets the other one in between two lines."""
    release, made = dc.Gate(dc.Budget(1.0)).reserve(dc.privacy.LaplaceNoise(1.0, 1.0)), []

    def pause(frame, *_):
        if frame.f_code is dc.privacy.Release._draw.__code__:
            time.sleep(0.02)
            return pause
        return None

    def draw():
        sys.settrace(pause)
        with contextlib.suppress(RuntimeError):
            made.append(release.steps(1))

    threads = [threading.Thread(target=draw) for _ in range(2)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert len(made) == 1


def _try(gate):
    try:
        gate.choose([0.0, 1.0], 0.05, 1.0)
    except dc.BudgetExceeded:
        return False
    return True


@pytest.mark.parametrize("how", [pickle.dumps, copy.copy, copy.deepcopy])
def test_secure_randomness_gates_and_sums_do_not_travel(how):
    total = dc.privacy.TreeSum(2, 4, dc.Budget(1.0), noise="laplace", norm_bound=1.0)
    for thing in (SecureRandomness(), dc.Gate(dc.Budget(1.0)), total):
        with pytest.raises(TypeError, match="not copied or pickled"):
            how(thing)


def test_seeds_reproduce_and_are_marked():
    def release(seed):
        gate = dc.Gate(dc.Budget(1.0), seed)
        return gate.laplace([1.0, 2.0], scale=4.0, sensitivity=1.0).tolist(), gate

    assert release(1)[0] == release(1)[0] != release(2)[0]
    assert release(1)[1].spent.reproducible
    assert not dc.Gate(dc.Budget(1.0)).spent.reproducible
    with pytest.raises(ValueError, match="seed=-1 is too small"):
        dc.Gate(dc.Budget(1.0), -1)
    with pytest.raises(TypeError, match="seed must be a whole number"):
        dc.Gate(dc.Budget(1.0), 1.5)


@pytest.mark.parametrize("drawn", [0, 1, 2, 3, 7])
def test_reproducible_state_resumes_anywhere(drawn):
    source = ReproducibleRandomness(3)
    source.words(drawn)
    again = restored(source.state())
    assert again.words(9).tolist() == source.words(9).tolist()
    assert restored(None).secure


@pytest.mark.parametrize(("field", "beyond"), [("buffer_pos", 5), ("has_uint32", 2), ("uinteger", 1 << 32)])
def test_numbers_that_no_source_has_are_refused(field, beyond):
    state = ReproducibleRandomness(4).state()
    last = {**state, field: beyond - 1}
    assert ReproducibleRandomness.from_state(last).state() == last
    with pytest.raises(ValueError, match=field):
        ReproducibleRandomness.from_state({**state, field: beyond})
