"""The synthetic shop has the rates that it was asked for."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from discreet.evaluation import live_shop


def test_rates_of_the_shop():
    months = list(live_shop(4, 5_000, 60, np.random.default_rng(3)))
    visits = [visit for month in months for visit in month.visits]
    people = {visit.person for visit in visits}
    count = len(visits)
    # Each is a mean of independent coins; five standard deviations (p < 1e-6).
    for found, chance in (
        (1 - len(people) / count, 0.3),
        (sum(visit.answered is None for visit in visits) / count, 0.1),
    ):
        assert abs(found - chance) < 5 * np.sqrt(chance * (1 - chance) / count)
    late = [visit.answered - visit.hour for visit in visits if visit.answered is not None]
    assert abs(np.mean(late) - 6.0) < 5 * 6.0 / np.sqrt(len(late))


def test_the_catalogue_of_the_shop():
    months = list(live_shop(3, 400, 60, np.random.default_rng(0)))
    for month, following in pairwise(months):
        assert len(month.retired) == len(month.added) == 3
        assert set(following.products) == set(month.products) - set(month.retired) | set(month.added)
    for month in months:
        hours = [visit.hour for visit in month.visits]
        assert hours == sorted(hours)
        for visit in month.visits:
            offered = set(month.products)
            if visit.hour >= 360:
                offered = offered - set(month.retired) | set(month.added)
            assert visit.likes
            assert offered >= set(visit.likes)
            assert len(set(visit.likes)) == len(visit.likes)


@pytest.mark.parametrize("wrong", [{"months": 0}, {"lost": 1.5}, {"returning": -0.1}, {"hours_late": 0.0}])
def test_wrong_settings_of_the_shop(wrong):
    given = {"months": 1, "visits": 10, "products": 5, "rng": np.random.default_rng(0)} | wrong
    with pytest.raises(ValueError, match=next(iter(wrong))):
        live_shop(**given)
