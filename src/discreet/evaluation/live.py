"""A synthetic shop over many months: returning people, a changing catalogue, late and missing feedback."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..core import checks

HOURS = 720  # in a month


@dataclass(frozen=True)
class Visit:
    """A person comes at an ``hour`` of the month; ``answered`` is the hour of the feedback, or None."""

    hour: float
    person: str
    likes: tuple[str, ...]
    answered: float | None


@dataclass(frozen=True)
class Month:
    """A month of visits in order of time; at hour 360, some products are replaced by new ones."""

    name: str
    products: tuple[str, ...]  # at the beginning
    retired: tuple[str, ...]
    added: tuple[str, ...]
    visits: tuple[Visit, ...]


def live_shop(
    months: int,
    visits: int,
    products: int,
    rng: np.random.Generator,
    *,
    replaced: float = 0.05,
    returning: float = 0.3,
    hours_late: float = 6.0,
    lost: float = 0.1,
    styles: int = 8,
    drift: float = 0.15,
) -> Iterator[Month]:
    """Months of a shop with ``visits`` each; in the middle of a month a part of its ``products`` is replaced.

    With probability ``returning``, a visitor has come before. Feedback comes after ``hours_late`` hours on
    average (exponentially distributed), and with probability ``lost`` never. A visitor has one of ``styles``
    and likes some products, mostly of that style and mostly those that appeal to everybody. From month to
    month, the appeal of a product is multiplied by e^x, with x normal of standard deviation ``drift``.

    >>> import numpy as np
    >>> november, december = live_shop(2, 1000, 40, np.random.default_rng(0))
    >>> len(november.visits), len(november.retired), set(november.retired) & set(december.products)
    (1000, 2, set())
    """
    checks.whole("months", months, at_least=1)
    checks.whole("visits", visits, at_least=1)
    count = checks.whole("products", products, at_least=2)
    checks.whole("styles", styles, at_least=1)
    checks.real("hours_late", hours_late, above=0.0)
    checks.real("drift", drift, at_least=0.0)
    for name, chance in (("replaced", replaced), ("returning", returning), ("lost", lost)):
        checks.real(name, chance, at_least=0.0, at_most=1.0)

    def generated() -> Iterator[Month]:
        """The months, one after the other; changes of one month persist in the next."""
        names = [f"product {number}" for number in range(count)]
        made = count
        style, appeal = rng.integers(styles, size=count), rng.pareto(1.5, size=count) + 0.2
        popular = 1.0 / np.arange(1.0, styles + 1.0)
        taste = np.empty(0, dtype=np.int64)  # the style of each person so far
        for month in range(months):
            hours = np.sort(rng.uniform(0.0, HOURS, size=visits))
            who = np.empty(visits, dtype=np.int64)
            again = rng.random(visits) < returning
            again[: not taste.size] = False
            known = taste.size + np.cumsum(~again)
            who[~again] = known[~again] - 1
            who[again] = np.floor(rng.random(int(again.sum())) * known[again]).astype(np.int64)
            new = rng.choice(styles, size=int((~again).sum()), p=popular / popular.sum())
            taste = np.concatenate([taste, new])
            later = np.flatnonzero(hours >= HOURS / 2)[:1]
            half = int(later[0]) if later.size else visits
            before = tuple(names)
            likes = _likes(names, style, appeal, taste[who[:half]], rng)
            gone = rng.choice(count, size=round(replaced * count), replace=False)
            retired, added = tuple(names[place] for place in gone), []
            for place in gone:
                names[place] = f"product {made}"
                added.append(names[place])
                made += 1
            style[gone] = rng.integers(styles, size=gone.size)
            appeal[gone] = rng.pareto(1.5, size=gone.size) + 0.2
            likes += _likes(names, style, appeal, taste[who[half:]], rng)
            heard = hours + rng.exponential(hours_late, size=visits)
            heard[rng.random(visits) < lost] = np.nan
            yield Month(
                f"month {month + 1}",
                before,
                retired,
                tuple(added),
                tuple(
                    Visit(hour, f"person {person}", liked, None if np.isnan(answer) else answer)
                    for hour, person, liked, answer in zip(
                        hours.tolist(), who.tolist(), likes, heard.tolist(), strict=True
                    )
                ),
            )
            appeal *= np.exp(drift * rng.standard_normal(count))

    return generated()


def _likes(
    names: list[str],
    style: NDArray[np.int64],
    appeal: NDArray[np.float64],
    tastes: NDArray[np.int64],
    rng: np.random.Generator,
) -> list[tuple[str, ...]]:
    """One to six products for each visitor, weighted by appeal, and twentyfold in the visitor's own style."""
    found: list[tuple[str, ...]] = []
    for first in range(0, tastes.size, 1000):
        some = tastes[first : first + 1000]
        weights = np.log(appeal) + np.log(20.0) * (style == some[:, None])
        keys = weights + rng.gumbel(size=weights.shape)
        most = min(6, len(names))
        best = np.argpartition(keys, -most, axis=1)[:, -most:]
        order = np.take_along_axis(best, np.argsort(-np.take_along_axis(keys, best, axis=1), axis=1), axis=1)
        counts = rng.integers(1, most + 1, size=some.size)
        found += [
            tuple(names[place] for place in row[:count])
            for row, count in zip(order.tolist(), counts.tolist(), strict=True)
        ]
    return found
