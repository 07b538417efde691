"""Who has been here how often survives a restart, for everybody."""

from __future__ import annotations

from discreet._state import Saved
from discreet.online.visits import Visits
from discreet.privacy import ReproducibleRandomness


def test_everybody_is_known_again_after_a_restart():
    visits = Visits(2, ReproducibleRandomness(0))
    names = ["ann", "bob", 7, ("eve", 3)]
    for name in names:
        assert visits.admit(name)
    assert visits.admit("bob")
    again = Visits.restored(2, Saved({}, visits.arrays()))
    assert [again.admit(name) for name in names] == [True, False, True, True]
    assert not any(again.admit(name) for name in names)
    assert again.admit("somebody new")
