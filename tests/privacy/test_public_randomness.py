"""Public randomness follows from its words, goes on where it stood, and an audit can hold it fixed."""

from __future__ import annotations

import json

import numpy as np
import pytest

import discreet as dc
from discreet.audit.hooks import AuditRandomness
from discreet.core.state import capture, restore
from discreet.privacy import Gate, PublicRandomness, ReproducibleRandomness
from discreet.privacy.randomness import public_key

WORDS = [3, 1 << 63, 0, 12345]


def _resumed(state):
    public = PublicRandomness([0] * len(WORDS))
    restore(public, state, {})
    return public


def _restored(public):
    plain, arrays = capture(public)
    assert arrays == {}
    return _resumed(json.loads(json.dumps(plain)))


# --- what follows from the words -----------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 1, 7, 2**32, 2**63, 2**64 - 1])
def test_made_up_data_has_the_numbers_of_a_seeded_generator(seed):
    """Streams of experiments stay as they were when they were made with ``default_rng``."""
    assert (
        PublicRandomness.seeded(seed).generator.random(9).tolist()
        == np.random.default_rng(seed).random(9).tolist()
    )
    both = PublicRandomness.seeded([seed, 5]).generator.normal(size=9)
    assert both.tolist() == np.random.default_rng([seed, 5]).normal(size=9).tolist()


def test_rounds_have_a_word_each():
    public = PublicRandomness(WORDS)
    whole = public.of_rounds(0, 50)
    assert whole.dtype == np.uint64
    assert len(set(whole.tolist())) == 50
    for first, count in ((0, 7), (7, 1), (8, 42), (49, 1), (20, 0)):
        assert public.of_rounds(first, count).tolist() == whole[first : first + count].tolist()
    far = public.of_rounds(10**15, 2)
    assert far.tolist() == PublicRandomness(WORDS).of_rounds(10**15, 2).tolist()


# --- saving --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("used", [0, 1, 5])
@pytest.mark.parametrize("half", [False, True])
def test_it_goes_on_where_it_stood(used, half):
    public = PublicRandomness(WORDS)
    if used:
        public.generator.random(used)
    if half:
        public.generator.integers(0, 2**31, dtype=np.uint32)  # which keeps half a word for later
    again = _restored(public)
    assert capture(again) == capture(public)
    assert again.generator.integers(0, 2**31, 5, dtype=np.uint32).tolist() == (
        public.generator.integers(0, 2**31, 5, dtype=np.uint32).tolist()
    )
    assert again.of_rounds(4, 3).tolist() == public.of_rounds(4, 3).tolist()
    assert again.of_round(4).random() == public.of_round(4).random()


def test_bad_words_are_refused():
    for words in ([], [0.5], ["x"], [-1], [1 << 64], [None]):
        with pytest.raises((ValueError, TypeError), match="words"):
            PublicRandomness(words)
    with pytest.raises(TypeError, match="source must be a Randomness"):
        PublicRandomness.drawn(5)
    with pytest.raises(ValueError, match="words=5 is too large"):
        PublicRandomness.drawn(ReproducibleRandomness(0), 5)


# --- where they come from ------------------------------------------------------------------------------


def test_that_of_a_gate_follows_its_seed_and_costs_nothing():
    gates = [Gate(dc.Budget(1.0), 5) for _ in range(2)]
    first = [gate.public_randomness().words.tolist() for gate in gates]
    assert first[0] == first[1] == ReproducibleRandomness(5).words(4).tolist()
    assert gates[0].public_randomness().words.tolist() != first[0]
    assert gates[0].public_randomness(2).words.size == 2
    assert gates[0].spent.epsilon() == 0.0
    assert (
        Gate(dc.Budget(1.0)).public_randomness().words.tolist()
        != Gate(dc.Budget(1.0)).public_randomness().words.tolist()
    )


def test_an_audit_holds_them_fixed():
    """Public randomness of every run is the same, noise and keys are not."""
    gates = [Gate(dc.Budget(1.0), AuditRandomness(seed)) for seed in (1, 2)]
    assert gates[0].public_randomness().words.tolist() == gates[1].public_randomness().words.tolist()
    assert gates[0].public_randomness().generator.random() == gates[1].public_randomness().generator.random()
    noise = [gate.laplace(0.0, scale=2.0, sensitivity=1.0) for gate in gates]
    assert noise[0] != noise[1]
    assert gates[0].key() != gates[1].key()
    assert gates[0].public_randomness().words.tolist() == gates[1].public_randomness().words.tolist()
    other = Gate(dc.Budget(1.0), AuditRandomness(1, public=9))
    assert (
        other.public_randomness().words.tolist()
        != Gate(dc.Budget(1.0), AuditRandomness(1)).public_randomness().words.tolist()
    )


def test_the_same_words_give_the_same_numbers():
    one, other = PublicRandomness(WORDS), PublicRandomness(WORDS)
    assert one.generator.random(5).tolist() == other.generator.random(5).tolist()
    assert one.words.tolist() == WORDS
    changed = PublicRandomness([*WORDS[:-1], WORDS[-1] + 1])
    assert one.generator.random() != changed.generator.random()
    assert repr(one) == "PublicRandomness()"  # words need not be secret, but nobody asked for them


def test_a_round_has_a_stream_of_its_own():
    public = PublicRandomness(WORDS)
    third = public.of_round(3).random(4).tolist()
    assert public.of_round(3).random(4).tolist() == third
    assert public.of_round(4).random(4).tolist() != third
    assert PublicRandomness([*WORDS[:-1], 0]).of_round(3).random(4).tolist() != third


def test_public_keys():
    public = PublicRandomness(WORDS)
    assert public_key(public, 2).tolist() == WORDS[:2]
    assert public_key(7, 2).tolist() == ReproducibleRandomness(7).words(2).tolist()
    assert public_key(np.random.default_rng(3), 2).tolist() == (
        np.random.default_rng(3).integers(0, 1 << 64, size=2, dtype=np.uint64).tolist()
    )
