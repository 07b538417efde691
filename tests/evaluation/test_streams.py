"""Streams of people have the laws that their descriptions state."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from discreet.evaluation import live, live_shop, streams

PEOPLE = 20_000


def _agree(counts, chances):
    """Whether counts are those of independent draws: each within 5.5 standard deviations (p < 1e-6)."""
    counts, chances = np.asarray(counts), np.asarray(chances)
    total = counts.sum()
    assert np.all(np.abs(counts - total * chances) <= 5.5 * np.sqrt(total * chances * (1 - chances)) + 1e-9)


def _liked(people):
    """Who likes what, as a matrix of values."""
    matrix = np.zeros((len(people), people.n_items))
    rows = np.repeat(np.arange(len(people)), np.diff(people.indptr))
    matrix[rows, people.indices] = getattr(people, "data", np.ones(rows.size))
    return matrix


def _harmonic(count):
    """Chances that fall as 1, 1/2, 1/3 and so on."""
    shares = [1 / j for j in range(1, count + 1)]
    return [share / sum(shares) for share in shares]


class Stub:
    """A generator whose uniform numbers all lie at one place of their range."""

    def __init__(self, at):
        self.at, self.real, self.chances = at, np.random.default_rng(0), None

    def uniform(self, low, high, size):
        return np.full(size, low + self.at * (high - low))

    def choice(self, items, *args, p=None, **options):
        self.chances = p
        return self.real.choice(items, *args, p=p, **options)

    def __getattr__(self, name):
        return getattr(self.real, name)


def test_shoppers_of_a_display():
    matrix = _liked(streams.product_display(PEOPLE, 60, np.random.default_rng(1), clusters=3, taken=5))
    liked = matrix > 0
    often = np.sort(liked.sum(axis=0))[::-1]
    for cluster, share in enumerate(_harmonic(3)):
        # Four fifths of its own products, and one of 60 at random.
        chance = share * (0.8 + 0.2 / 60) + (1 - share) / 60
        for count in often[5 * cluster : 5 * cluster + 5]:
            _agree([count, PEOPLE - count], [chance, 1 - chance])
    values = matrix[liked]
    assert 0.4 <= values.min() < 0.401
    assert 0.899 < values.max() <= 0.9
    assert values.mean() == pytest.approx(0.65, abs=5.5 * 0.5 / np.sqrt(12 * values.size))


@pytest.mark.parametrize(
    ("make", "items", "options", "most"),
    [
        (streams.product_display, 12, {"clusters": 4, "taken": 6}, 3),  # a quarter of the products each
        (streams.product_display, 12, {"clusters": 4, "taken": 2}, 2),
        (streams.product_display, 3, {"clusters": 6, "taken": 6}, 1),
        (streams.baskets, 12, {"recipes": 4, "size": 6}, 3),
        (streams.baskets, 12, {"recipes": 4, "size": 2}, 2),
        (streams.baskets, 5, {"recipes": 3, "size": 4}, 1),
    ],
)
def test_small_catalogues_are_divided_among_tastes(make, items, options, most):
    people = make(2_000, items, np.random.default_rng(0), **options)
    assert np.diff(people.indptr).max() == most + 1  # and one at random


def test_shoppers_of_recipes():
    liked = _liked(streams.baskets(PEOPLE, 60, np.random.default_rng(1), recipes=4, size=5)) > 0
    often = np.sort(liked.sum(axis=0))[::-1]
    for recipe, share in enumerate(_harmonic(4)):
        chance = share * (0.7 + 0.3 / 60) + (1 - share) / 60
        for count in often[5 * recipe : 5 * recipe + 5]:
            _agree([count, PEOPLE - count], [chance, 1 - chance])


def _places(people):
    """The one item that everybody likes."""
    assert (np.diff(people.indptr) == 1).all()
    assert people.value(range(people.n_items)) == 1.0
    return people.indices


def test_favourites_fall_geometrically():
    liked = _places(streams.favourites(PEOPLE, 4, np.random.default_rng(0), fall=0.5))
    _agree(np.bincount(liked), np.array([8, 4, 2, 1]) / 15)
    with pytest.raises(ValueError, match=r"fall=1\.5 must be at most 1"):
        streams.favourites(10, 4, np.random.default_rng(0), fall=1.5)


def test_a_near_tie_is_near():
    stub = Stub(0.5)
    streams.near_tie(100, 4, stub, best=3)
    assert np.sort(stub.chances) == pytest.approx(np.array([0.25, 0.3, 0.3, 0.3]) / 1.15)


def test_the_favourite_wanders():
    liked = _places(streams.drifting(PEOPLE, 4, np.random.default_rng(0), turns=3))
    favourite = np.array([t * 12 // PEOPLE % 4 for t in range(PEOPLE)])
    _agree(np.bincount((liked - favourite) % 4), [0.7, 0.1, 0.1, 0.1])
    first = liked[: PEOPLE // 12]
    _agree(np.bincount(first, minlength=4), [0.7, 0.1, 0.1, 0.1])


def test_crowds_take_turns():
    liked = _places(streams.alternating(PEOPLE, 7, np.random.default_rng(0), block=2))
    crowd = np.array([t // 2 % 2 for t in range(PEOPLE)])
    for one in (0, 1):
        _agree(np.bincount(liked[crowd == one] - 3 * one, minlength=3), [4 / 6, 1 / 6, 1 / 6])


@pytest.mark.parametrize(
    ("at", "price", "weight"),
    [
        (1.0, 1.0 / 4.0, 0.5 / 4.0),  # worth 1, cut at 1: three prices and two arcs of a half cost 4 together
        (0.05, -1.0 / 3.0, 0.025 / 3.0),
        (0.25, -1.0 / 3.0, 0.125 / 2.25),  # worth -0.5, seen as -0.75
        (0.75, 0.75 / 3.0, 0.375 / 3.0),
    ],
)
def test_prices_and_weights_have_a_common_scale(at, price, weight):
    people = streams.cuts_and_prices(6, 5, Stub(at), arcs=2, priced=3)
    assert people.bound == 1.0
    arcs = people.as_arcs()
    assert np.sort(arcs.weight) == pytest.approx(np.full(12, weight))
    for row in arcs.modular:
        assert row[row != 0.0] == pytest.approx(np.full(3, price))
    pairs = set(zip(arcs.tail.tolist(), arcs.head.tolist(), strict=True))
    assert len(pairs) == 10
    assert all(tail != head for tail, head in pairs)
    assert np.bincount(arcs.tail).tolist() == [2] * 5


def test_anybody_may_mind_any_pair_and_have_an_opinion_of_any_feature():
    """All different ones of a person, all equally often."""
    people = streams.cuts_and_prices(2_000, 5, np.random.default_rng(0), arcs=2, priced=3)
    arcs = people.as_arcs()
    assert (np.diff(arcs.arc.reshape(-1, 2), axis=1) > 0).all()
    _agree(np.bincount(arcs.arc, minlength=10), np.full(10, 1 / 10))
    _agree((arcs.modular != 0.0).sum(axis=0), np.full(5, 1 / 5))


# --- the shop over months -------------------------------------------------------------------------


def test_likes_go_by_appeal_and_style():
    """The first of them is drawn by appeal, times 20 in the visitor's own style."""
    style, appeal = np.array([0, 1, 0, 1, 1, 1, 1]), np.array([1.0, 20.0, 3.0, 10.0, 5.0, 2.0, 3.0])
    likes = live._likes(list("abcdefg"), style, appeal, np.zeros(PEOPLE, int), np.random.default_rng(0))
    weights = np.where(style == 0, 20.0, 1.0) * appeal
    first = np.bincount(["abcdefg".index(one[0]) for one in likes])
    _agree(first, weights / weights.sum())
    _agree(np.bincount([len(one) for one in likes])[1:], np.full(6, 1 / 6))
    few = live._likes(["a", "b"], style[:2], appeal[:2], np.zeros(1000, int), np.random.default_rng(0))
    _agree(np.bincount([len(one) for one in few])[1:], [0.5, 0.5])


def test_appeal_of_products_and_its_drift(monkeypatch):
    seen = []

    def noted(names, style, appeal, tastes, _):
        seen.append(SimpleNamespace(style=style.copy(), appeal=appeal.copy(), tastes=tastes))
        return [(names[0],)] * len(tastes)

    monkeypatch.setattr(live, "_likes", noted)
    list(
        live_shop(
            2, PEOPLE, 4 * PEOPLE, np.random.default_rng(0), replaced=0.25, styles=4, drift=0.3, returning=0.0
        )
    )
    fresh, kept = seen[1].appeal != seen[0].appeal, seen[1].appeal == seen[0].appeal
    assert fresh.sum() == PEOPLE
    for appeal, style in ((seen[0].appeal, seen[0].style), (seen[1].appeal[fresh], seen[1].style[fresh])):
        assert 0.2 <= appeal.min() < 0.201
        # A Pareto law of exponent 3/2, moved to start at 0.2: its median, and its upper tenth.
        for part in (0.5, 0.1):
            above = int((appeal > 0.2 + part ** (-1 / 1.5) - 1).sum())
            _agree([above, appeal.size - above], [part, 1 - part])
        _agree(np.bincount(style), np.full(4, 0.25))
    assert kept.sum() == 3 * PEOPLE
    _agree(np.bincount(np.concatenate([one.tastes for one in seen[:2]])), _harmonic(4))
    drift = np.log(seen[2].appeal / seen[1].appeal)
    assert abs(drift.mean()) < 5.5 * 0.3 / np.sqrt(drift.size)
    assert drift.std() == pytest.approx(0.3, rel=5.5 / np.sqrt(2 * drift.size))


def test_visits_of_new_and_returning_people():
    months = list(live_shop(2, PEOPLE, 5, np.random.default_rng(0), returning=0.6, styles=3))
    known, places = 0, []
    for month in months:
        hours = np.array([visit.hour for visit in month.visits])
        _agree(np.bincount((hours // 240).astype(int)), [1 / 3] * 3)  # 720 hours, uniform
        for visit in month.visits:
            person = int(visit.person.removeprefix("person "))
            if person == known:
                known += 1
            else:
                assert person < known
                places.append((person + 0.5) / known)
    assert np.mean(places) == pytest.approx(0.5, abs=5.5 / np.sqrt(12 * len(places)))
    _agree([known - 1, 2 * PEOPLE - known], [0.4, 0.6])
    assert [month.name for month in months] == ["month 1", "month 2"]
    (alone,) = live_shop(1, 50, 5, np.random.default_rng(0), returning=1.0)
    assert {visit.person for visit in alone.visits} == {"person 0"}
