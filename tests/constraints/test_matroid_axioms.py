"""Every matroid is one, and answers as its definition says."""

from __future__ import annotations

from itertools import combinations
from math import isqrt, prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.constraints import LinearMatroid
from discreet.constraints.matroids import _enough_primes, _is_prime

from .matroid_zoo import CLASSES, subsets


@pytest.mark.parametrize("name", CLASSES)
@settings(max_examples=25, deadline=None, derandomize=True)
@given(st.data())
def test_independent_sets_are_those_of_the_definition_and_satisfy_the_axioms(name, data):
    case = data.draw(CLASSES[name])
    independent = {s for s in subsets(case.n) if case.matroid.contains(s)}
    assert independent == case.independent
    assert frozenset() in independent
    for s in independent:
        assert all(s - {i} in independent for i in s)
    for small in independent:
        for large in independent:
            if len(small) < len(large):
                assert any(small | {i} in independent for i in large - small)


@pytest.mark.parametrize("name", CLASSES)
@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.data(), st.randoms(use_true_random=False))
def test_rank_span_and_exchanges(name, data, random):
    case = data.draw(CLASSES[name])
    matroid, n = case.matroid, case.n
    assert matroid.rank == case.rank
    for s in random.sample(subsets(n), min(8, 2**n)):
        listed = random.sample(sorted(s), len(s))
        assert matroid.rank_of(listed) == case.rank_of(s)
        closure = [i for i in range(n) if case.rank_of(s | {i}) == case.rank_of(s)]
        assert matroid.span(listed).tolist() == closure
        if s not in case.independent:
            continue
        fits = [i for i in range(n) if i not in s and s | {i} in case.independent]
        assert np.flatnonzero(matroid.addable(listed)).tolist() == fits
        for i in set(range(n)) - s:
            assert matroid.can_add(listed, i) == (i in fits)
            rooms = [j for j in sorted(s) if (s - {j}) | {i} in case.independent]
            assert matroid.circuit(listed, i).tolist() == rooms


def test_linear_independence_does_not_trust_one_prime():
    """A determinant that the first prime divides: dependent modulo it, independent over the rationals."""
    prime = 2**31 - 1
    matroid = LinearMatroid([[prime, 1, 0], [0, prime, prime]])
    assert matroid.contains([0, 1])
    assert matroid.rank == 2
    assert not matroid.contains([0, 1, 2])
    assert matroid.addable([0]).tolist() == [False, True, True]
    assert matroid.circuit([0, 1], 2).tolist() == [0, 1]
    assert LinearMatroid([[prime, 1, 0], [0, prime, prime]], modulus=prime).rank == 1


def test_a_linear_circuit_does_not_trust_two_primes():
    """One prime divides the determinant of S, the next one that of the exchange: a third one must decide."""
    matrix = np.array([[46341, 4634, 4652], [1, 46341, 46341]], dtype=object)
    minors = [matrix[0, i] * matrix[1, j] - matrix[0, j] * matrix[1, i] for i, j in combinations(range(3), 2)]
    assert minors[:2] == [2**31 - 1, 2**31 - 19]
    matroid = LinearMatroid(matrix)
    assert matroid.circuit([0, 1], 2).tolist() == [0, 1]
    assert matroid.contains([0, 2])
    assert matroid.contains([1, 2])
    rounded = matroid.round(np.full(3, 2.0 / 3.0), np.random.default_rng(0))
    assert rounded.size == 2


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("bits", [20, 31, 45, 62, 90, 200])
def test_there_are_enough_primes_for_the_largest_determinants(size, bits):
    """Upper triangular matrices meet Hadamard's bound nearly: their determinant is that of the diagonal."""
    largest = 2**bits - 1
    matrix = np.array(
        [[largest if i == j else int(i < j) for j in range(size)] for i in range(size)], dtype=object
    )
    primes = _enough_primes(matrix)
    assert len(set(primes)) == len(primes)
    assert prod(primes) > largest**size
    assert 30.9 * (len(primes) - 1) <= size * (bits + 1)  # and no more than that takes
    assert len(_enough_primes(matrix[:1].repeat(9, axis=1))) == len(_enough_primes(matrix[:1, :1]))


def test_primes_are_those_that_nothing_divides():
    """Also where powers of some bases do not tell: 2047 passes for one with 2, 1,373,653 with 2 and 3."""
    numbers = [*range(400), 2047, 1_373_653, 25_326_001, 104_729, 1_000_003]
    expected = [n for n in numbers if n > 1 and all(n % d for d in range(2, isqrt(n) + 1))]
    assert [n for n in numbers if _is_prime(n)] == expected
    assert LinearMatroid([[1, 2]], modulus=13).rank == 1
    with pytest.raises(ValueError, match="modulus=2147483648"):
        LinearMatroid([[1, 2]], modulus=2**31)


def test_linear_independence_takes_floats_at_their_exact_value():
    assert LinearMatroid([[0.1 + 0.2, 0.3], [1.0, 1.0]]).contains([0, 1])
    assert not LinearMatroid([[0.5, 1.5], [0.25, 0.75]]).contains([0, 1])
    tiny = LinearMatroid([[1.0, 1.0], [0.0, 1e-200]])
    assert tiny.contains([0, 1])
