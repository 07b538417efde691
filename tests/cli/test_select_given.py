"""``discreet select --include ... --exclude ...``: items by name, in files, and what is said about them."""

from __future__ import annotations

import json

import numpy as np
import pytest

from .running import assert_refused, inside, printed

NAMES = ("tea", "milk", "jam", "salt, pepper", "eggs", "house blend")
ASK = ("--person", "user", "--item", "product", "--epsilon", "1")


def write(path, header, rows):
    path.write_text("".join(",".join(row) + "\n" for row in (header, *rows)))


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shop")
    liked = np.random.default_rng(0).random((300, len(NAMES))) < np.linspace(0.6, 0.2, len(NAMES))
    write(
        folder / "sales.csv", ("user", "product"), [(f"u{p}", f'"{NAMES[i]}"') for p, i in np.argwhere(liked)]
    )
    prices = [(f'"{name}"', f"{0.1 * (place + 1):.1f}") for place, name in enumerate(NAMES)]
    write(folder / "catalogue.csv", ("product", "price"), prices)
    (folder / "sold out.txt").write_text("\ufefftea\n\n milk \nmilk\n", encoding="utf-8")
    (folder / "numbers.csv").write_text("user,product\n" + "".join(f"{u},{u % 5 + 1}\n" for u in range(200)))
    (folder / "ids.csv").write_text("product\n1\n2\n3\n4\n5\n")
    return folder


def chosen(capsys, shop, *more, sales="sales.csv", items="catalogue.csv", k="3"):
    listed = () if items is None else ("--items", shop / items)
    return printed(capsys, "select", shop / sales, *ASK, *listed, "--k", k, *more)


def test_labels_files_and_repeats(capsys, shop):
    out = ("--exclude", f"@{shop / 'sold out.txt'}", "--exclude", "eggs , jam")
    found = chosen(capsys, shop, "--include", "house blend", *out)
    assert found["items"] == ["house blend", "salt, pepper"]  # fewer are left than --k
    assert found["included"] == ["house blend"]
    assert found["excluded"] == ["tea", "milk", "eggs", "jam"]
    assert found["guarantee"]["epsilon"] == 0.0  # there was nothing to choose
    assert found["settings"]["exclude"] == ["@sold out.txt", "eggs , jam"]  # no path
    found = chosen(capsys, shop, "--include", "salt, pepper")  # one label, whatever it holds
    assert found["items"][0] == "salt, pepper"
    assert len(found["items"]) == 3
    assert found["guarantee"]["epsilon"] == 1.0


def test_a_constraint_counts_what_is_given(capsys, shop):
    """0.6 of 0.8 is taken: tea, or milk, or neither and none."""
    bag = ("--constraint", "knapsack:price:0.8", "--include", "house blend")
    for _ in range(3):
        found = chosen(capsys, shop, *bag)
        assert found["items"][0] == "house blend"
        assert set(found["items"][1:]) <= {"tea", "milk"}
        assert len(found["items"]) == 2


def test_lists_from_the_file(capsys, shop):
    """What is excluded need not occur there; and it takes no votes from what may be listed."""
    own = chosen(capsys, shop, "--items-from-data", "--exclude", "tea,coffee", items=None)
    assert "tea" not in own["items"]
    assert own["excluded"] == ["tea"]
    private = ("--items-private", "0.5", "--delta", "1e-3", "--exclude", "tea,coffee")
    listed = chosen(capsys, shop, *private, items=None)
    assert "tea" not in listed["catalogue"]
    ended = inside(
        capsys, "select", shop / "sales.csv", *ASK, "--items-from-data", "--k", "2", "--include", "te"
    )
    assert_refused(ended, "--include holds 'te', which is not an item; see the list of items")
    assert "tea" not in ended.err


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--include", "te"), "--include holds 'te', which is not an item; did you mean 'tea'?"),
        (("--exclude", "coffee"), "--exclude holds 'coffee', which is not an item; see the list of items"),
        (("--include", "tea", "--exclude", "tea"), "include and exclude both hold 'tea'"),
        (("--include", "tea,milk,jam"), "which Cardinality(2, n_items=6) does not allow together"),
        (("--exclude", "@nowhere.txt"), "--exclude @nowhere.txt: No such file or directory; @ stands before"),
        (("--items-private", "0.5", "--include", "tea"), "--include names items of a public list"),
    ],
)
def test_mistakes(capsys, shop, more, said):
    items = () if "--items-private" in more else ("--items", shop / "catalogue.csv")
    ended = inside(capsys, "select", shop / "sales.csv", *ASK, *items, "--k", "2", *more)
    assert_refused(ended, said)


@pytest.mark.parametrize("seed", range(6))
def test_fewer_items_than_asked_for_are_explained(capsys, shop, seed):
    """Only by the constraint, and only where it is the reason: nothing that is left would fit."""
    price = {name: place + 1 for place, name in enumerate(NAMES)}  # tenths
    bag = ("--constraint", "knapsack:price:0.7", "--exclude", "tea,milk", "--seed", seed)
    found = chosen(capsys, shop, *bag, k="4")
    room = 7 - sum(price[name] for name in found["items"])
    left = [price[name] for name in NAMES[2:] if name not in found["items"]]
    full = min(left) > room
    assert ("fewer_because" in found) == full
    if full:
        count = len(found["items"])
        why = f"{count} of at most 4: nothing that is left fits under the limit"
        assert found["fewer_because"] == why
        asked = ("select", shop / "sales.csv", *ASK, "--items", shop / "catalogue.csv", "--k", 4, *bag)
        assert f"\n\n{why}\n\n" in inside(capsys, *asked).out
    out = ("--exclude", "tea,milk,jam,eggs,house blend")  # nothing is left at all
    assert "fewer_because" not in chosen(capsys, shop, *bag[:2], *out)
    assert "fewer_because" not in chosen(capsys, shop, k="3")


@pytest.mark.parametrize("theirs", ["1", '"1,2"', '" 1, 2"'])
def test_nobody_s_item_decides_what_an_option_means(capsys, shop, tmp_path, theirs):
    """Where the list is not public, "1,2" excludes 1 and 2 whether or not somebody has an item "1,2"."""
    path = tmp_path / "sales.csv"
    path.write_text((shop / "numbers.csv").read_text() + f"victim,{theirs}\n")
    asked = ("select", path, *ASK[:4], "--epsilon", "20", "--delta", "1e-6", "--exclude", "1,2", "--seed", 3)
    ended = inside(capsys, *asked, "--k", "3", "--json", "--items-private", "0.5")
    assert json.loads(ended.out)["catalogue"] == ["3", "4", "5"], ended.err
    ended = inside(capsys, *asked, "--k", "3", "--json", "--items-from-data")
    assert not {"1", "2", "1,2"} & set(json.loads(ended.out)["items"])
