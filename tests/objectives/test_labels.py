"""Items by label: wherever a population takes an item, and what is refused in which words."""

from __future__ import annotations

import numpy as np
import pytest

from discreet.core.checks import DataError
from discreet.core.names import item_numbers
from discreet.objectives import Coverage
from discreet.objectives.base import value_to_each
from discreet.results import Selection

from .families import FAMILIES

NAMES = ("tea", "milk", "jam", "bread")


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_takes_labels_and_numbers(family: str) -> None:
    people = FAMILIES[family](np.random.default_rng(0), 3, 4).people._like(labels=NAMES)
    for items in ([], [2], [3, 0]):
        named = [NAMES[item] for item in items]
        for given in (named, tuple(named), np.array(named), iter(named)):
            assert people.value(given) == people.value(items)
        assert np.array_equal(people.gains(named), people.gains(items))
        assert np.array_equal(people.contributions(named), people.contributions(items))
    assert people.value(["tea", 2]) == people.value([0, 2])
    by_name, by_number = people.start(), people.start()
    assert by_name.add("jam") == by_number.add(2)
    assert by_name.items == [2]


def test_labels_that_are_numbers() -> None:
    """A label wins where items are named; ``value`` keeps to numbers, which selections hold."""
    people = Coverage(np.eye(4)[:2], labels=(1, 2, 3, 4))
    assert people.item_numbers([1, 4]) == [0, 3]
    assert people.item_numbers([np.int64(2)]) == [1]
    assert people.item_numbers([0]) == [0]
    assert people.value([1]) == 0.5
    assert people.value([2]) == 0.0
    with pytest.raises(ValueError, match="holds 1, the label of an item, and 0, which is not one"):
        people.item_numbers([0, 1])
    assert 1 not in Selection((0,), labels=(1,))


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        (["te"], ValueError, "items holds 'te', which is not an item; did you mean 'tea'?"),
        (["xyz"], ValueError, "items holds 'xyz', which is not an item; give labels, or numbers from 0 to 3"),
        ([4], ValueError, "items holds 4, which is not an item; items are 0 to 3"),
        ([-1], ValueError, "items holds -1"),
        ([0.5], ValueError, "items holds 0.5"),
        ([True], ValueError, "items holds True"),
        ([["tea"]], TypeError, "items holds an object of type list; an item is named by"),
        (np.array([True, False, False, False]), TypeError, "items is a mask"),
        (0.5, TypeError, "items must be a list of items, by label or by number, got 0.5"),
    ],
)
def test_what_names_no_item(given: object, error: type[Exception], said: str) -> None:
    with pytest.raises(error) as refused:
        Coverage(np.eye(4), labels=NAMES).item_numbers(given)
    assert said in str(refused.value)


def test_labels_from_data_stay_out_of_messages() -> None:
    table = {"who": ["ann", "bob"], "what": ["Ann's secret", "tea"]}
    people = Coverage.from_events(table, person="who", item="what")
    with pytest.raises(DataError) as refused:
        people.value(["Anns secret"])
    assert "Ann's" not in str(refused.value)
    assert "Ann's secret" in refused.value.details


def test_labels_one_by_one_and_in_a_selection() -> None:
    people = Coverage(np.eye(4), labels=NAMES)
    assert people.value("milk") == 0.25
    assert value_to_each(people, ["milk"]).tolist() == [0, 1, 0, 0]
    assert people.item_numbers("jam") == [2]
    assert people.item_numbers(["jam", 0]) == [2, 0]
    shown = Selection((2, 0), labels=("jam", "tea"))
    assert "jam" in shown
    assert 2 in shown
    assert "milk" not in shown
    assert people.value(shown) == people.value(shown.labels) == 0.5


def test_without_labels_there_are_numbers_only() -> None:
    with pytest.raises(TypeError, match="exclude must hold whole numbers from 0 to 3, as these items"):
        item_numbers("exclude", ["tea"], 4)
    with pytest.raises(TypeError, match="items must be whole numbers between 0 and 3"):
        Coverage(np.eye(4)).value(["tea"])
