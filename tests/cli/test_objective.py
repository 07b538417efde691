"""Objectives of ``discreet select``, what is shown beside items, and sentences from public sizes."""

from __future__ import annotations

import math

import numpy as np
import pytest

import discreet as dc
from discreet.objectives import ConcaveOverModular, EmbeddedFacilityLocation
from discreet.offline import PrivateGreedy

from .running import assert_refused, inside, printed

COLUMNS = ("--person", "user", "--item", "page")
ITEMS = [f"p{place}" for place in range(8)]
VECTORS = np.random.default_rng(3).normal(size=(8, 3)).round(3)


def rows_of(seed: int = 0, people: int = 300) -> list[tuple[str, str]]:
    coins = np.random.default_rng(seed)
    return [
        (f"u{person}", ITEMS[item])
        for person in range(people)
        for item in np.flatnonzero(coins.random(8) < 0.1 + 0.1 * np.arange(8)[::-1])
    ] + [("u0", "p0")]


@pytest.fixture
def shop(tmp_path):
    write(tmp_path / "visits.csv", rows_of())
    lines = ["page,title,price,x,y,z"]
    lines += [
        f"{item},Page {item[1:]},{1 + place},{','.join(map(str, VECTORS[place]))}"
        for place, item in enumerate(ITEMS)
    ]
    (tmp_path / "pages.csv").write_text("\n".join(lines) + "\n")
    return tmp_path


def write(path, rows) -> None:
    path.write_text("user,page\n" + "".join(f"{who},{what}\n" for who, what in rows))


def ask(shop, *more: object, epsilon: float = 3.0, k: int | None = 3) -> list[object]:
    size = [] if k is None else ["--k", k]
    listed = ["--items", shop / "pages.csv", "--epsilon", epsilon]
    return ["select", shop / "visits.csv", *COLUMNS, *listed, *size, *more]


# --- objectives ------------------------------------------------------------------------------------------


def test_several_is_the_square_root_with_the_bound_of_k_items(capsys, shop):
    found = printed(capsys, *ask(shop, "--objective", "several", "--seed", 5))
    bound = {"bound": math.sqrt(3), "at_most": 3}
    events = {"user": [who for who, _ in rows_of()], "page": [what for _, what in rows_of()]}
    people = ConcaveOverModular.from_events(events, person="user", item="page", items=ITEMS, **bound)
    want = PrivateGreedy(3, dc.Budget(3.0), bound=math.sqrt(3), seed=5).select(people)
    assert found["items"] == list(want.labels)
    assert any("the square root of how much of it is theirs" in said for said in found["reading"])
    assert not any("serves at least" in said for said in found["reading"])
    certain = " ".join(printed(capsys, *ask(shop, "--objective", "several", epsilon=100))["reading"])
    assert "at least 63% of the value of the best list, less " in certain
    assert " of the 520 that could be at most" in certain  # 300 sqrt 3


def test_several_of_a_store(capsys, shop):
    rest = [*COLUMNS, "--items", shop / "pages.csv", "--to", shop / "people"]
    assert inside(capsys, "prepare", shop / "visits.csv", *rest).code == 0
    options = ["--objective", "several", "--k", 3, "--epsilon", 10, "--seed", 5]
    shown = ["--items", shop / "pages.csv", "--item", "page", "--show", "title"]
    found = printed(capsys, "select", shop / "people", *options, *shown)
    assert found["items"] == printed(capsys, *ask(shop, *options[:2], "--seed", 5, epsilon=10))["items"]
    assert found["shown"] == {"title": [f"Page {item[1:]}" for item in found["items"]]}
    ended = inside(
        capsys, "select", shop / "people", *options[2:], "--objective", "nearest", "--vectors", "x"
    )
    assert_refused(ended, "a store keeps no vectors")


def test_nearest_is_facility_location_over_means(capsys, shop):
    found = printed(capsys, *ask(shop, "--objective", "nearest", "--vectors", "x,y, z", "--seed", 5))
    items = VECTORS / np.linalg.norm(VECTORS, axis=1, keepdims=True)
    likes: dict[str, set[int]] = {}
    for who, what in rows_of():
        likes.setdefault(who, set()).add(ITEMS.index(what))
    means = np.array([items[sorted(mine)].sum(axis=0) for mine in likes.values()])
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    people = EmbeddedFacilityLocation(means, items, labels=ITEMS)
    want = PrivateGreedy(3, dc.Budget(3.0), seed=5).select(people)
    assert found["items"] == list(want.labels)
    assert "the vectors of the items" in found["treated_as_public"]


def test_the_scale_of_long_vectors_is_four_deviations_of_an_entry(capsys, shop, monkeypatch):
    """Of a direction at random in d dimensions, 1 / sqrt d; and 1 where that would be more than any entry."""
    names = [f"v{place}" for place in range(64)]
    vectors = np.random.default_rng(4).normal(size=(8, 64)).round(3)
    rows = [[item, *map(str, row)] for item, row in zip(ITEMS, vectors, strict=True)]
    (shop / "pages.csv").write_text("".join(",".join(row) + "\n" for row in (["page", *names], *rows)))
    seen = []
    select = PrivateGreedy.select
    monkeypatch.setattr(
        PrivateGreedy, "select", lambda self, who: seen.append(who.scale) or select(self, who)
    )
    for count in (9, 64):
        printed(capsys, *ask(shop, "--objective", "nearest", "--vectors", ",".join(names[:count])))
    assert seen == [1.0, 0.5]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--objective", "nearest"], "needs --items FILE with each item's vector, and --vectors COLS"),
        (["--vectors", "x"], "--vectors is for --objective nearest"),
        (["--objective", "nearest", "--vectors", "x,w"], "--vectors w is not a column of the table"),
        (
            ["--objective", "nearest", "--vectors", "x,title"],
            "item 'p0' has 'Page 0' in column 'title'; a vector is made of numbers",
        ),
        (["--objective", "nearest", "--vectors", "x", "--cap", "3"], "--cap has no use with"),
        (["--objective", "most"], "invalid choice: 'most'"),
        (["--show", "titel"], "--show titel is not a column"),
        (["--show", "titel"], "did you mean 'title'?"),
        (["--show", "page title"], "did you mean 'title' or 'page'?"),
        (["--k", "9"], "exceeds the number of items, 8; choose --k 8 or less"),
    ],
)
def test_mistakes(capsys, shop, more, words):
    assert_refused(inside(capsys, *ask(shop, *more, k=None if "--k" in more else 3)), words)


def test_show_needs_a_public_list(capsys, shop):
    asked = ["select", shop / "visits.csv", *COLUMNS, "--k", 2, "--epsilon", 1, "--show", "title"]
    for more in (["--items-from-data"], ["--items-private", "0.5", "--delta", "1e-6"]):
        assert_refused(inside(capsys, *asked, *more), "--show is about columns of a public list")


# --- beside the items ------------------------------------------------------------------------------------


def test_titles_totals_and_arithmetic_are_printed(capsys, shop):
    bag = ["--constraint", "knapsack:price:9", "--show", "title", "--explain", "--delta", "1e-6"]
    found = printed(capsys, *ask(shop, *bag, k=None))
    prices = [1 + ITEMS.index(item) for item in found["items"]]
    assert found["totals"] == {"price": {"total": sum(prices), "limit": 9.0}}
    assert found["shown"]["title"] == [f"Page {item[1:]}" for item in found["items"]]
    assert found["arithmetic"][-1]["value"] <= 3.0
    ended = inside(capsys, *ask(shop, *bag, k=None))
    assert " in all, of at most 9" in ended.out
    assert "| Page " in ended.out or "  Page " in ended.out
    assert "The arithmetic of the guarantee\n- " in ended.out


# --- sentences from public sizes -------------------------------------------------------------------------


def test_picks_that_are_mostly_noise_are_said_to_be(capsys, shop):
    few = printed(capsys, *ask(shop, epsilon=0.05, k=6))
    (said,) = (one for one in few["reading"] if one.startswith("From pick"))
    greedy = PrivateGreedy(6, dc.Budget(0.05))
    assert f"From pick {greedy.picks_above_chance(300, 8) + 1} on chance decides" in said
    assert not any(one.startswith("From pick") for one in printed(capsys, *ask(shop, epsilon=5))["reading"])
    # Where presence is private, only a bound that was declared is public.
    hidden = ask(shop, "--neighbours", "add_remove", epsilon=0.02, k=6)
    assert not any(one.startswith("From pick") for one in printed(capsys, *hidden)["reading"])
    assert any(
        one.startswith("From pick") for one in printed(capsys, *hidden, "--max-people", 400)["reading"]
    )


def test_a_delta_that_is_too_large_is_noted(capsys, shop):
    (note,) = printed(capsys, *ask(shop, "--delta", "0.01"))["notes"]
    assert "delta 0.01 is large for 300 people" in note
    assert "e.g. 1e-05" in note
    assert printed(capsys, *ask(shop, "--delta", "1e-5"))["notes"] == []
    assert printed(capsys, *ask(shop, "--delta", "0.0033"))["notes"] == []  # 0.99 of 300 people
    assert len(printed(capsys, *ask(shop, "--delta", "0.0034"))["notes"]) == 1
    hidden = ask(shop, "--neighbours", "add_remove", "--delta", "0.01")
    assert printed(capsys, *hidden)["notes"] == []
    (note,) = printed(capsys, *hidden, "--max-people", 1000)["notes"]
    assert "up to 1,000 people" in note
    plan = ("plan", "--n-items", 9, "--k", 2, "--rounds", 200, "--epsilon", 1, "--goal", "certified")
    assert "delta 0.01 is large for 200 people" in inside(capsys, *plan, "--delta", "0.01").err
    assert inside(capsys, *plan, "--delta", "1e-6").err == ""


@pytest.mark.parametrize("neighbours", ["replace", "add_remove"])
@pytest.mark.parametrize("goal", [("several",), ("nearest", "--vectors", "x,y,z")])
def test_nothing_but_the_choice_depends_on_people(capsys, shop, monkeypatch, neighbours, goal):
    """Other people, the same public facts, draws that come out alike: no byte may differ."""
    monkeypatch.setattr("discreet.offline.greedy._drawn", lambda *_: 0)
    options = ["--objective", *goal, "--show", "title", "--explain", "--neighbours", neighbours]
    options += ["--constraint", "knapsack:price:12", "--delta", "0.5"]
    seen = set()
    for seed, people in ((0, 300), (1, 300)) if neighbours == "replace" else ((0, 300), (1, 299)):
        write(shop / "visits.csv", [*rows_of(seed, people), *((f"u{n}", "p0") for n in range(people))])
        ended = inside(capsys, *ask(shop, *options, epsilon=0.01))
        assert ended.code == 0, ended.err
        seen.add((ended.out, ended.err))
    assert len(seen) == 1


def test_a_cap_says_that_it_does_not_pay(capsys, shop):
    said = " ".join(printed(capsys, *ask(shop, "--cap", 3))["reading"])
    assert "makes the guarantee no better and the noise no smaller" in said
    # True of the noise: the rate of the picks is the same with and without.
    both = [printed(capsys, *ask(shop, *more))["why_this_method"] for more in ([], ["--cap", 3])]
    assert both[0] == both[1]
