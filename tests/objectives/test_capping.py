"""Which items of a person count under a cap: decided by the person, so that nobody moves anybody else's."""

from __future__ import annotations

import uuid
from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from scipy import stats
from scipy.special import log_expit

import discreet as dc
from discreet.objectives import ConcaveOverModular, Coverage, FacilityLocation, SaturatedCoverage
from discreet.objectives.rows import digests
from discreet.privacy import ExponentialChoice, ReproducibleRandomness

FAMILIES = {
    "coverage": Coverage,
    "facility location": FacilityLocation,
    "saturated": SaturatedCoverage,
    "sqrt": lambda rows: ConcaveOverModular(rows, bound=4.0),
}


def cut(people, m=2, seed=3) -> list[tuple]:
    """What each person keeps: items and weights."""
    kept = people.cap_items(m, np.random.default_rng(seed))
    return [(*one.indices.tolist(), *one.data.tolist()) for one in kept]


# -- somebody is there, or is not ----------------------------------------------------------------------------


def test_somebody_who_knows_the_key_learns_nothing_about_who_is_there():
    """The attack: with known coins, choose others who would keep something else if they moved down a row.

    Ann has no items. With coins by row number, 95 people who keep item 0 all keep item 1 once she is there.
    """
    names = [f"person {i}" for i in range(400)]

    def kept(likers, ann):
        """The item that each of these keeps of their two; the others have none."""
        table = {"who": np.repeat(likers, 2), "what": np.tile([0, 1], len(likers))}
        everybody = ["ann", *names] if ann else names
        people = Coverage.from_events(table, person="who", item="what", items=[0, 1], people=everybody)
        return [one[0] for one in cut(people, 1) if one]

    both = zip(names, kept(names, False), kept(names, True), strict=True)
    turned = [who for who, without, with_ann in both if (without, with_ann) == (0, 1)] or names
    budget = dc.Budget(0.1, neighbours="add_remove")
    rate = ExponentialChoice.within(budget.share(), 1.0, 1).rate
    # Item 0 is chosen with probability 1 / (1 + exp(rate x (people with item 1 - people with item 0))).
    here, there = (rate * (len(turned) - 2 * sum(kept(turned, ann))) for ann in (False, True))
    losses = [log_expit(sign * here) - log_expit(sign * there) for sign in (1, -1)]
    assert np.abs(losses).max() <= budget.epsilon


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
@pytest.mark.parametrize("named", [False, True], ids=["matrix", "named"])
def test_one_person_more_changes_nobody_else(family, named):
    """Whoever comes, at whatever row; equal rows are among the others."""
    rng = np.random.default_rng(8)
    others = rng.integers(0, 4, (25, 9)) / 9.0
    others[7] = others[3]
    names = [f"p{i}" for i in range(25)]

    def cut_with(row, place, seed):
        rows = np.insert(others, place, row, axis=0)
        people = family(rows)
        if named:
            people = people.with_identities([*names[:place], "ann", *names[place:]])
        return [one for i, one in enumerate(cut(people, seed=seed)) if i != place]

    for seed in range(5):
        people = family(others).with_identities(names) if named else family(others)
        before = cut(people, seed=seed)
        for place in (0, 5, 25):
            for row in (np.zeros(9), np.full(9, 1 / 9), others[3], rng.integers(0, 4, 9) / 9.0):
                assert cut_with(row, place, seed) == before


def _read_table(rows, _):
    return Coverage.from_events(
        {"who": [who for who, _ in rows], "what": [what for _, what in rows]},
        person="who", item="what", items=range(9), people=dict.fromkeys(who for who, _ in rows),
    )  # fmt: skip


def _read_csv(rows, tmp_path):
    path = tmp_path / "events.csv"
    path.write_text("who,what\n" + "".join(f"{who},{what}\n" for who, what in rows))
    return Coverage.from_events(path, person="who", item="what", items=range(9))


def _read_pandas(rows, _):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(rows, columns=["who", "what"])
    return Coverage.from_events(frame, person="who", item="what", items=range(9))


def _read_mappings(rows, _):
    found = [{"who": who, "what": what} for who, what in rows]
    return Coverage.from_events(found, person="who", item="what", items=range(9))


@pytest.mark.parametrize("read", [_read_table, _read_csv, _read_pandas, _read_mappings])
@pytest.mark.parametrize("newcomer", [99, "ann", "2.5", "0x7"])
def test_a_newcomer_in_the_events_changes_nobody_else(read, newcomer, tmp_path):
    """Not even by a name that makes the whole column text, or numbers with a fraction."""
    rng = np.random.default_rng(4)
    rows = [(who, int(what)) for who in range(12) for what in rng.permutation(9)[:6]]
    before = cut(read(rows, tmp_path))
    for place in (0, 31, len(rows)):
        theirs = [(newcomer, what) for what in range(9)]
        after = read([*rows[:place], *theirs, *rows[place:]], tmp_path)
        at = len({who for who, _ in rows[:place]})
        assert [one for i, one in enumerate(cut(after)) if i != at] == before


@pytest.mark.parametrize("named", [False, True], ids=["matrix", "named"])
def test_where_a_row_stands_does_not_matter(named):
    rng = np.random.default_rng(6)
    people = FacilityLocation(rng.random((30, 8)))
    if named:
        people = people.with_identities(range(30))
    everybody = cut(people)
    places = rng.permutation(30)
    assert cut(people[places]) == [everybody[i] for i in places]
    assert cut(people[5:9]) == everybody[5:9]
    assert [cut(people[i])[0] for i in range(30)] == everybody
    assert cut(people[[4, 4]]) == [everybody[4]] * 2


def test_a_name_decides_and_not_the_row():
    """With names, equal rows part; the same name keeps the same of the same items."""
    equal = Coverage(np.ones((40, 20)))
    assert len(set(cut(equal))) == 1
    assert len(set(cut(equal.with_identities(range(40))))) > 30
    assert len(set(cut(equal.with_identities(["ann"] * 40)))) == 1


# -- everything as likely ------------------------------------------------------------------------------------


def _pairs(rows) -> list[int]:
    found = Counter(frozenset(row[:2]) for row in rows)
    return [found[frozenset(pair)] for pair in combinations(range(5), 2)]


def test_every_pair_of_items_stays_as_often():
    """Of named people, of different rows under one key, and of one row under many keys."""
    named = Coverage(np.ones((20_000, 5))).with_identities(range(20_000))
    texts = Coverage(np.ones((20_000, 5))).with_identities(f"u{i}" for i in range(20_000))
    different = FacilityLocation(1.0 - np.random.default_rng(0).random((20_000, 5)))
    one = Coverage(np.ones((1, 5)))
    for rows in (cut(named), cut(texts), cut(different), [cut(one, seed=seed)[0] for seed in range(3000)]):
        counts = _pairs(rows)
        assert sum(counts) == len(rows)
        assert stats.chisquare(counts).pvalue > 1e-6


def test_two_rows_that_differ_a_little_are_cut_independently():
    """One item, one weight or one name apart: under 4,000 keys both keep the same as often as by chance."""
    pairs = [
        Coverage([[1, 1, 1, 1, 1, 0], [1, 1, 1, 1, 1, 1]]),
        FacilityLocation([[0.5] * 5, [0.5] * 4 + [0.25]]),
        Coverage(np.ones((2, 5))).with_identities([1, 2]),
    ]
    for people in pairs:
        same = 0
        for seed in range(4000):
            a, b = people.cap_items(1, ReproducibleRandomness(seed)).indices
            same += int(a == b)
        least = 1 / 6 if people.n_items == 6 else 1 / 5
        # A binomial count strays by 5.5 deviations with probability 4e-8.
        assert abs(same - 4000 * least) < 5.5 * np.sqrt(4000 * least * (1 - least))


# -- keys and names ------------------------------------------------------------------------------------------


def test_the_key_is_fresh_unless_given():
    """Forty people with sixty items each: by chance two keys agree once in 60^40."""
    people = Coverage(np.ones((40, 60))).with_identities(range(40))
    assert (people.cap_items(1).indices != people.cap_items(1).indices).any()
    for make in (lambda: 7, lambda: np.random.default_rng(7), lambda: ReproducibleRandomness(7)):
        assert (people.cap_items(1, make()).indices == people.cap_items(1, make()).indices).all()
    assert (people.cap_items(1, 7).indices != people.cap_items(1, 8).indices).any()
    for wrong in ("seven", 0.5):
        with pytest.raises(TypeError, match="seed"):
            people.cap_items(1, wrong)
    with pytest.raises(ValueError, match="m=0"):
        people.cap_items(0)


def test_names_are_one_for_each_person():
    with pytest.raises(ValueError, match="one entry for each person") as refused:
        Coverage(np.ones((41, 3))).with_identities(range(37))
    assert not any(count in str(refused.value) for count in ("41", "37"))


def test_a_digest_is_of_the_name_alone():
    """However the column was read, and whoever else is in it; things without a name share one."""
    same = [
        [7, "7", 7.0, np.int64(7), np.float64(7.0), np.str_("7")],
        [-3, "-3", -3.0],
        [2**70, str(2**70)],
        [2**63, str(2**63)],
        [-(2**63), str(-(2**63))],
        [1, "1", "01", b"1"],
        [("a", 1), ("a", "1"), ("a", 1.0)],
        [object(), object(), None, "", 7.5, "\ud800"],
    ]
    for names in same:
        assert len({int(digests([name])[0]) for name in names}) == 1
        assert len(set(digests([*names, "ann"])[:-1].tolist())) == 1
    other = [7, "7.5", "a7", ("7",), "", "-", 2**64 + 7, uuid.UUID(int=7)]
    assert len(set(digests(other).tolist())) == len(other)
    assert digests([5, 6, 2**62]).tolist() == digests([5, 6, 2**62, "x"]).tolist()[:3]
