"""What learners have released about their items, for other learners to start from and for segments to share.

Nothing here accesses a person's data. Released sums, the deviations of their noise and numbers of rounds are
public, so this is post-processing: it costs nothing, no matter who is in which segment.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import checks
from ..core.names import item_numbers, listed, plain_label

Floats = NDArray[np.float64]
_CORRELATION = 0.9  # prior correlation between segments
_TINY = 1e-12
NEWS = 1.1  # a set is drawn again once the number of people in the others' releases has grown by this factor
# Values, people and deviations of a `Released`.
Estimates = tuple[NDArray[np.float64] | None, int, NDArray[np.float64] | None]


@dataclass(frozen=True)
class Released:
    """What is known of items from releases that have been paid for.

    ``items`` is the last set, in order. ``values`` estimates each item's average value to a person from
    released sums, ``deviations`` are the estimates' approximate standard deviations, and ``people`` is how
    many people they cover; None and 0 where only sets were released. NaN: nothing is known about the item.
    ``labels`` are the items' names. ``caveats`` apply to these releases and to everything derived from them.
    ``candidates`` are the items that can be shown; None for all of them.
    """

    items: tuple[int, ...]
    n_items: int
    labels: tuple[Any, ...] | None = None
    values: NDArray[np.float64] | None = None
    people: int = 0
    deviations: NDArray[np.float64] | None = None
    caveats: tuple[str, ...] = ()
    candidates: tuple[int, ...] | None = None

    @classmethod
    def ranked(
        cls,
        ranking: Sequence[Any],
        n_items: int,
        *,
        labels: Sequence[Any] | None = None,
        candidates: int | None = None,
    ) -> Released:
        """A public ranking of items in place of releases: its first items are shown until there are releases.

        Items are given by label, or by number where they have none. With ``candidates=m`` only its first m
        items can be shown: noise then matters only among these, which helps most with many items, few people
        or a small epsilon. The ranking and m must be public: the catalogue's order, facts about the items, or
        earlier releases; never counts of the people who are learned from.

        >>> start = Released.ranked(["maps", "tents"], 3, labels=["shoes", "maps", "tents"], candidates=2)
        >>> start.items, start.candidates
        ((1, 2), (1, 2))
        """
        size = checks.whole("n_items", n_items, at_least=1)
        named = None if labels is None else tuple(map(plain_label, labels))
        items = tuple(dict.fromkeys(item_numbers("ranking", listed("ranking", ranking), size, named)))
        kept = None
        if candidates is not None:
            kept = items[: checks.whole("candidates", candidates, at_least=1, at_most=len(items))]
        return cls(items, size, named, candidates=kept)

    def discounted(self, part: float) -> Released:
        """The same estimates, weighted as those of fewer people, for tastes that have changed since."""
        kept = checks.real("part", part, at_least=0.0, at_most=1.0)
        wider = None if self.deviations is None else self.deviations / math.sqrt(max(kept, 1e-12))
        return replace(self, people=int(kept * self.people), deviations=wider)

    def over(self, n_items: int, labels: tuple[Any, ...] | None) -> Released:
        """The same for another catalogue; items are matched by label, or by number without labels."""
        if labels is None or self.labels is None:
            if (labels is None) != (self.labels is None) or n_items != self.n_items:
                raise ValueError("start knows other items; give both learners labels")
            return self
        places = {label: place for place, label in enumerate(labels)}
        moved = np.array([places.get(label, -1) for label in self.labels])
        items = tuple(int(moved[item]) for item in self.items if moved[item] >= 0)

        def carried(numbers: NDArray[np.float64] | None) -> NDArray[np.float64] | None:
            if numbers is None:
                return None
            found = np.full(n_items, np.nan)
            found[moved[moved >= 0]] = numbers[moved >= 0]
            return found

        known = carried(self.values), self.people, carried(self.deviations)
        kept = self.candidates
        if kept is not None:
            kept = tuple(int(moved[item]) for item in kept if moved[item] >= 0)
        return Released(items, n_items, labels, *known, self.caveats, kept)


# --- segments that share what they have released: each is shrunk towards all -----------------------------


@dataclass(frozen=True)
class Evidence:
    """What one learner has released: averages per item (the last axis), and how many people each covers.

    ``noise`` is the standard deviation of the noise on a sum, and ``unit`` the largest amount of one person.
    """

    means: Floats
    people: Floats
    noise: float
    unit: float


@dataclass
class SegmentPool:
    """The evidence of all segments, and how many people it covers, per segment and in total."""

    evidence: list[Evidence | None]
    people: list[int]
    total: int = 0


class Pooled:
    """What one segment knows from its own releases and from those of the others."""

    def __init__(self, pool: SegmentPool, index: int) -> None:
        self._pool, self._index = pool, index
        self.seen = 0  # how many people the others' releases covered when a set was last drawn

    def publish(self, evidence: Evidence | None, people: int) -> None:
        """Record what this segment's learner has released so far, about this many people."""
        self._pool.total += people - self._pool.people[self._index]
        self._pool.evidence[self._index], self._pool.people[self._index] = evidence, people

    @property
    def _others(self) -> int:
        """How many people the others' releases cover."""
        return self._pool.total - self._pool.people[self._index]

    @property
    def news(self) -> bool:
        """Whether the others have released enough since the last draw for a new set."""
        return self._others > NEWS * self.seen

    def look(self) -> Floats | None:
        """The scores for a draw; marks the others' releases as seen."""
        self.seen = self._others
        return self.scores()

    def scores(self) -> Floats | None:
        """Item values in this segment as sums over people, from all releases; None if there are none."""
        known = [index for index, one in enumerate(self._pool.evidence) if one is not None]
        if not known:
            return None
        own = known.index(self._index) if self._index in known else None
        means, people = shrunk([one for one in self._pool.evidence if one is not None], own)
        return means * people


def shrunk(evidence: Sequence[Evidence], own: int | None) -> tuple[Floats, float]:
    """Averages of segment ``own`` shrunk towards the others', and their effective number of people.

    ``own`` is None if nothing has been released about the segment itself.

    The model: item values in a segment have variance G across items, and correlation rho between any two
    segments. Item a has value mu_a + d_sa in segment s, with variances rho G and (1 - rho) G. A released
    average adds an error of variance v_sa = (noise / people)^2 + q / people, where q, the variance among
    people, is at most the average amount, as amounts lie in [0, 1]. Errors are independent between segments,
    so G follows from the variance of a segment's averages across items, minus v, and rho G from covariances
    between segments. The posterior mean is an average of the segment's own average and the others' mean,
    weighted by their precision.
    """
    unit = max(one.unit for one in evidence)
    rows = [np.atleast_2d(one.means / unit) for one in evidence]
    people = np.stack([one.people for one in evidence])
    noise = np.array([[one.noise / unit] for one in evidence])
    found = [_row(np.stack([row[i] for row in rows]), people, noise, own) for i in range(rows[0].shape[0])]
    means = np.stack([mean for mean, _ in found]).reshape(evidence[0].means.shape)
    return means * unit, float(np.mean([worth for _, worth in found]))


def _row(means: Floats, people: Floats, noise: Floats, own: int | None) -> tuple[Floats, float]:
    """`shrunk` for one vector per segment: ``means`` and ``people`` are segments x items."""
    others = np.arange(means.shape[0]) != own
    counts = people.max(axis=1)
    if not others.any():
        return means[0], float(counts[0])
    middle = float((counts @ means).mean() / counts.sum())
    errors = (noise / people) ** 2 + min(max(middle, 1.0 / counts.sum()), 1.0) / people
    common, apart = _variances(means, errors)
    weights = 1.0 / (errors[others] + apart)
    total = weights.sum(axis=0)
    seen = (weights * means[others]).sum(axis=0) / total
    prior = middle + common / (common + 1.0 / total) * (seen - middle)
    unsure = common / (common * total + 1.0) + apart
    worth = float(counts[others].sum() * np.mean(1.0 / (1.0 + apart * total)))
    if own is None:
        return prior, worth
    mine = unsure / (unsure + errors[own])
    return prior + mine * (means[own] - prior), worth + float(counts[own])


def _variances(means: Floats, errors: Floats) -> tuple[float, float]:
    """The variance across items that segments share, and that of each segment alone: rho G, (1 - rho) G."""
    count, size = means.shape
    if count < 2 or size < 2:
        return _CORRELATION * _TINY, (1.0 - _CORRELATION) * _TINY
    products = np.cov(means)
    error = errors.mean(axis=1)
    signal = 0.0
    for _ in range(3):  # segments are weighted by their precision, which depends on the result
        sure = 1.0 / (signal + error)
        signal = max(0.0, float(sure**2 @ (products.diagonal() - error)) / float(sure @ sure))
    pairs = np.outer(sure, sure)
    np.fill_diagonal(pairs, 0.0)
    shared = float((pairs * products).sum() / pairs.sum())
    signal = max(signal, shared, _TINY)
    # The prior correlation weighs as much as a covariance whose standard error equals ``signal``.
    sureness = size * pairs.sum() / 2.0 * signal**2
    correlation = (shared / signal * sureness + _CORRELATION) / (sureness + 1.0)
    correlation = max(correlation, 0.0)
    return correlation * signal, (1.0 - correlation) * signal
