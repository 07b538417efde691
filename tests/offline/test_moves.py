"""How far one person moves scores and gains, by hand."""

from __future__ import annotations

import math
from fractions import Fraction
from types import SimpleNamespace

import pytest

import discreet as dc
from discreet.offline import PrivateGreedy
from discreet.offline.greedy import _of_averages

SIGNED = SimpleNamespace(monotone=False, ranges=lambda: (0.0, 0.0, 1.0, 0.5), bound=7.0)
ROOT = math.sqrt(3.0)


@pytest.mark.parametrize(
    ("neighbours", "people", "width", "most", "moved"),
    [
        ("add_remove", None, 4.0, 40.0, (4.0, 4.0)),
        ("replace", None, 8.0, 40.0, (8.0, 4.0 * math.sqrt(2.0))),
        ("add_remove", SIGNED, 1.5, 15.0, (3.0, ROOT)),  # one person's part of a score: from -0.5 to 1
        ("replace", SIGNED, 3.0, 15.0, (4.5, 1.5 * ROOT)),
    ],
)
def test_sums_over_people(neighbours, people, width, most, moved):
    """The spread of changes of scores, the most that ten people gain, and gains of 3 picks in L1 and L2."""
    selector = PrivateGreedy(3, dc.Budget(1.0, 1e-6, neighbours), bound=4.0)
    found = selector._of_sums(people, 10, 3)
    assert found == (width, most, pytest.approx(moved))
    assert selector._of_sums(people, None, 3) == (width, None, found[2])
    assert Fraction(found[2][1]) ** 2 >= Fraction(4) ** 2 * 2 or neighbours != "replace" or people
    assert selector._most(people) == (1.0 if people else 4.0)


@pytest.mark.parametrize(("weighed", "width"), [(False, 0.5), (True, 0.6)])
def test_one_function_of_everybody(weighed, width):
    """Its own sensitivity, with room for rounding; where costs weigh gains, their changes do not cancel."""
    known = {"coordinate": 0.3, "range": 0.5, "value": 0.2}
    people = SimpleNamespace(sensitivity=lambda _, norm: known[norm], bound=7.0, monotone=False)
    selector = PrivateGreedy(3, dc.Budget(1.0, 1e-6))
    found = selector._of_one_function(people, 3, 3, weighed)
    for ours, true in ((found[0], width), (found[2][0], 0.9), (found[2][1], 0.3 * ROOT)):
        assert 2.0**-31 < ours / true - 1.0 < 2.0**-29
    assert found[1] == 7.0
    stated = PrivateGreedy(3, dc.Budget(1.0, 1e-6), "zcdp", sensitivity=0.25)
    assert stated._of_one_function(None, 3, 3, weighed)[:3] == (
        *(1.0 if weighed else 0.5, None, pytest.approx((1.5, 0.5 * ROOT))),
    )
    assert _of_averages(people, "replace", 3) == (0.5, 7.0, pytest.approx((0.9, 0.3 * ROOT)))
    people.monotone = True
    assert _of_averages(people, "replace", 3) == (0.5, 7.0, pytest.approx((0.4, 0.2 * math.sqrt(2.0))))
