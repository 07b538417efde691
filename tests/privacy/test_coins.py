"""Public coins: they follow from their words, go on where they stood, and an audit can hold them fixed."""

from __future__ import annotations

import json

import numpy as np
import pytest

import discreet as dc
from discreet.audit.hooks import Source
from discreet.core.state import capture, restore
from discreet.privacy import Coins, Gate, ReproducibleRandomness
from discreet.privacy.coins import public_key

WORDS = [3, 1 << 63, 0, 12345]


def _resumed(state):
    coins = Coins([0] * len(WORDS))
    restore(coins, state, {})
    return coins


def _restored(coins):
    plain, arrays = capture(coins)
    assert arrays == {}
    return _resumed(json.loads(json.dumps(plain)))


# --- what follows from the words -----------------------------------------------------------------------


def test_the_same_words_give_the_same_coins():
    one, other = Coins(WORDS), Coins(WORDS)
    assert one.generator.random(5).tolist() == other.generator.random(5).tolist()
    assert one.words.tolist() == WORDS
    changed = Coins([*WORDS[:-1], WORDS[-1] + 1])
    assert one.generator.random() != changed.generator.random()
    assert repr(one) == "Coins()"  # words need not be secret, but nobody asked for them


@pytest.mark.parametrize("seed", [0, 1, 7, 2**32, 2**63, 2**64 - 1])
def test_made_up_data_has_the_numbers_of_a_seeded_generator(seed):
    """Streams of experiments stay as they were when they were made with ``default_rng``."""
    assert Coins.seeded(seed).generator.random(9).tolist() == np.random.default_rng(seed).random(9).tolist()
    both = Coins.seeded([seed, 5]).generator.normal(size=9)
    assert both.tolist() == np.random.default_rng([seed, 5]).normal(size=9).tolist()


def test_rounds_have_a_word_each():
    coins = Coins(WORDS)
    whole = coins.of_rounds(0, 50)
    assert whole.dtype == np.uint64
    assert len(set(whole.tolist())) == 50
    for first, count in ((0, 7), (7, 1), (8, 42), (49, 1), (20, 0)):
        assert coins.of_rounds(first, count).tolist() == whole[first : first + count].tolist()
    far = coins.of_rounds(10**15, 2)
    assert far.tolist() == Coins(WORDS).of_rounds(10**15, 2).tolist()


def test_a_round_has_a_stream_of_its_own():
    coins = Coins(WORDS)
    third = coins.of_round(3).random(4).tolist()
    assert coins.of_round(3).random(4).tolist() == third
    assert coins.of_round(4).random(4).tolist() != third
    assert Coins([*WORDS[:-1], 0]).of_round(3).random(4).tolist() != third


def test_asking_for_rounds_uses_nothing_up():
    asked, silent = Coins(WORDS), Coins(WORDS)
    asked.generator.random(), silent.generator.random()
    asked.of_rounds(0, 100)
    asked.of_round(5).random(100)
    assert asked.generator.random() == silent.generator.random()
    assert asked.of_rounds(3, 2).tolist() == silent.of_rounds(3, 2).tolist()


# --- saving --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("used", [0, 1, 5])
@pytest.mark.parametrize("half", [False, True])
def test_restored_coins_go_on(used, half):
    coins = Coins(WORDS)
    if used:
        coins.generator.random(used)
    if half:
        coins.generator.integers(0, 2**31, dtype=np.uint32)  # which keeps half a word for later
    again = _restored(coins)
    assert capture(again) == capture(coins)
    assert again.generator.integers(0, 2**31, 5, dtype=np.uint32).tolist() == (
        coins.generator.integers(0, 2**31, 5, dtype=np.uint32).tolist()
    )
    assert again.of_rounds(4, 3).tolist() == coins.of_rounds(4, 3).tolist()
    assert again.of_round(4).random() == coins.of_round(4).random()


def test_a_state_is_a_snapshot():
    coins = Coins(WORDS)
    coins.generator.random()
    state, _ = capture(coins)
    before = json.dumps(state)
    coins.generator.random(9)
    assert json.dumps(state) == before
    assert _resumed(state).generator.random() != coins.generator.random()


def test_states_that_nobody_saved_are_refused():
    state, _ = capture(Coins(WORDS))
    for change in ({"_words": 3}, {"_stream": {"kind": "dict", "value": []}}):
        with pytest.raises((ValueError, TypeError, LookupError)):
            _resumed(state | change)


def test_bad_words_are_refused():
    for words in ([], [0.5], ["x"], [-1], [1 << 64], [None]):
        with pytest.raises((ValueError, TypeError), match="words"):
            Coins(words)
    with pytest.raises(TypeError, match="source must be a Randomness"):
        Coins.drawn(5)
    with pytest.raises(ValueError, match="words=5 is too large"):
        Coins.drawn(ReproducibleRandomness(0), 5)


# --- where they come from ------------------------------------------------------------------------------


def test_coins_of_a_gate_follow_its_seed_and_cost_nothing():
    gates = [Gate(dc.Budget(1.0), 5) for _ in range(2)]
    first = [gate.coins().words.tolist() for gate in gates]
    assert first[0] == first[1] == ReproducibleRandomness(5).words(4).tolist()
    assert gates[0].coins().words.tolist() != first[0]
    assert gates[0].coins(2).words.size == 2
    assert gates[0].spent.epsilon() == 0.0
    assert Gate(dc.Budget(1.0)).coins().words.tolist() != Gate(dc.Budget(1.0)).coins().words.tolist()


def test_an_audit_holds_them_fixed():
    """Coins of every run are the same, noise and keys are not."""
    gates = [Gate(dc.Budget(1.0), Source(seed)) for seed in (1, 2)]
    assert gates[0].coins().words.tolist() == gates[1].coins().words.tolist()
    assert gates[0].coins().generator.random() == gates[1].coins().generator.random()
    noise = [gate.laplace(0.0, scale=2.0, sensitivity=1.0) for gate in gates]
    assert noise[0] != noise[1]
    assert gates[0].key() != gates[1].key()
    assert gates[0].coins().words.tolist() == gates[1].coins().words.tolist()
    other = Gate(dc.Budget(1.0), Source(1, public=9))
    assert other.coins().words.tolist() != Gate(dc.Budget(1.0), Source(1)).coins().words.tolist()


def test_a_source_whose_coins_are_not_held_fixed_is_noticed():
    """The injected fault: the coins of a run come from its own words."""

    class Loose(Source):
        def __init__(self, seed):
            super().__init__(seed)
            self.coins = ReproducibleRandomness(seed)

    words = [Gate(dc.Budget(1.0), Loose(seed)).coins().words.tolist() for seed in (1, 2)]
    assert words[0] != words[1]


def test_public_keys():
    coins = Coins(WORDS)
    assert public_key(coins, 2).tolist() == WORDS[:2]
    assert public_key(7, 2).tolist() == ReproducibleRandomness(7).words(2).tolist()
    assert public_key(np.random.default_rng(3), 2).tolist() == (
        np.random.default_rng(3).integers(0, 1 << 64, size=2, dtype=np.uint64).tolist()
    )
