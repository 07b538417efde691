"""How often somebody counts: by decisions, and not by what is said of them."""

from __future__ import annotations

import itertools

import pytest

from discreet.service.config import PopulationConfig
from discreet.service.engine import Engine
from discreet.service.keys import Secrets
from discreet.service.store import visits

from .world import ITEMS, World, likes

TWICE = PopulationConfig(epsilon=1.0, delta=1e-6, notion="gdp", max_rounds_per_person=2, period="month")
ANN, BEN = b"a" * 12, b"b" * 12


class Told(World):
    """A world that remembers what its learner has heard of each place."""

    def __init__(self, url, people=TWICE, **more):
        super().__init__(url, likes(holdout=0.0, **more), people)
        self.heard = {}
        honest = self.one.learning.fold

        def fold(hand, outcomes):
            places = range(hand.first, hand.first + hand.served)
            self.heard |= {place: outcomes.get(place, (False, None))[1] for place in places}
            honest(hand, outcomes)

        self.one.learning.fold = fold


def rounds_that_change(folder):
    """Rounds that differ between any two ways in which Ann, with four decisions, may report them."""
    world = Told(f"sqlite:///{folder}/service.db", hand=5)
    orders = [order for size in range(5) for order in itertools.permutations(range(4), size)]
    found = [story(world, order, item) for item in ("item 1", "item 2") for order in orders[::2]]
    return max(sum(a != b for a, b in zip(*pair, strict=True)) for pair in itertools.combinations(found, 2))


def story(world, order, item):
    """What is learned of five places, of which Ann has four and reports some, in this order."""
    with world.store.transaction() as tx:
        tx.do("DELETE FROM visit")  # another person, who is called Ann, too
    world.heard.clear()
    places = [world.serve(mark=mark)[1] for mark in (ANN, ANN, BEN, ANN, ANN)]
    world.report(places[2], ["item 5"], mark=BEN)
    del places[2]
    for number in order:
        assert world.report(places[number], [item], mark=ANN) == "recorded"
    world.settle()
    return list(world.heard.values())


def test_whatever_somebody_reports_no_more_rounds_change_than_the_account_says(tmp_path):
    assert rounds_that_change(tmp_path) == 2


def test_a_count_of_what_was_reported_would_be_noticed(tmp_path, monkeypatch):
    """The fault: the first outcomes count, so that somebody chooses by reporting which rounds these are."""
    honest = visits.count

    def count(tx, population, period, limit, hand):
        rows = tx.all("SELECT place FROM outcome")
        silent = {hand.first + offset for offset in range(hand.count)} - {place for (place,) in rows}
        for place, marks in tx.all("SELECT place, marks FROM served_to"):
            said = [
                bytes(12) if place + number in silent else bytes(marks[12 * number : 12 * number + 12])
                for number in range(len(marks) // 12)
            ]
            tx.do("UPDATE served_to SET marks = ? WHERE place = ?", b"".join(said), place)
        honest(tx, population, period, limit, hand)

    monkeypatch.setattr(visits, "count", count)
    assert rounds_that_change(tmp_path) == 4


def test_the_first_decisions_of_a_person_count_over_hands(url):
    world = Told(url, hand=2, outcome_wait=60.0)
    places = []
    for mark in (BEN, ANN, BEN, ANN, ANN, BEN):
        places.append((world.serve(mark=mark)[1], mark))
        world.store.record([], world.cursors())
    for place, mark in reversed(places):
        assert world.report(place, ["item 1"], mark=mark, served=False) == "recorded"
    world.store.record([], world.cursors())
    with world.store.transaction() as tx:
        tx.do("UPDATE hand SET closed_at = 0 WHERE state = 1")
    world.settle()
    assert [place for place, body in world.heard.items() if body is None] == [4, 5]
    assert sorted(world.rows("SELECT mark, times FROM visit")) == [(ANN, 2), (BEN, 2)]
    assert not world.rows("SELECT * FROM served_to")


def test_decisions_without_a_person_are_not_limited(url):
    world = Told(url, hand=4)
    for place in [world.serve()[1] for _ in range(4)]:
        assert world.report(place, ["item 1"], served=False) == "recorded"
    world.settle()
    assert None not in world.heard.values()
    assert not world.rows("SELECT * FROM visit")


def test_places_of_which_a_crash_left_no_name_take_no_outcome(url):
    """Whom they were for is not known, so they count as rounds in which nothing was taken."""
    world = Told(url, hand=4)
    known, lost = world.serve(mark=ANN)[1], None
    world.store.record([], world.cursors())
    lost = world.serve(mark=ANN)[1]
    world.crash()
    assert world.report(known, ["item 1"], mark=ANN) == "recorded"
    assert world.report(lost, ["item 1"], mark=ANN) == "late"
    before = world.one.learning.learner.round
    world.settle()
    assert world.one.learning.learner.round == before + 4
    assert world.rows("SELECT times FROM visit") == [(1,)]


def test_cursors_that_are_written_again_count_once(url):
    """Nobody knows whether a group was committed: it is sent again, with more, and may come in late."""
    world = Told(url, hand=4)
    world.serve(mark=BEN)
    world.serve(mark=ANN)
    late = world.cursors()
    world.serve(mark=ANN)
    world.serve(mark=ANN)
    for cursors in (world.cursors(), late):
        world.store.record([], cursors)
    world.one.fence = world.store.lease(world.shop, world.owner)
    (hand,) = world.keeper._close(world.one, over=False)
    assert hand.uncounted == {3}
    assert sorted(world.rows("SELECT mark, times FROM visit")) == [(ANN, 2), (BEN, 1)]


@pytest.mark.parametrize("when", ["before the decision", "before the outcome", "after the outcome"])
def test_nothing_more_is_learned_of_somebody_who_was_erased(url, when):
    world, secrets = Told(url, hand=2), Secrets.fresh()
    engine, mark = Engine(world.store, secrets, calendar=lambda: world.now), secrets.mark(1, "2026-11", "ann")
    steps = {
        "before the decision": lambda: None,
        "before the outcome": lambda: world.serve(mark=mark),
        "after the outcome": lambda: world.report(0, [ITEMS[1]], mark=mark),
    }
    for name, step in steps.items():
        if name == when:
            engine.erase("people", "ann")
        step()
    if when == "after the outcome":
        engine.erase("people", "ann")
    world.serve(mark=BEN)
    world.settle()
    assert world.heard == {0: None, 1: None}
