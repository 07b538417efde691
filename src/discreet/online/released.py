"""What learners have released about their items: what another one may begin with, and what segments share.

Nothing here sees a person. Released sums, the deviations of their noise and numbers of rounds are public, and
so this is post-processing: it costs nothing, no matter who is in which segment.
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
_CORRELATION = 0.9  # between segments, as long as nothing is known about it
_TINY = 1e-12
NEWS = 1.1  # a set is drawn again once the others' releases are about this many times as many people
# Values, people and deviations of a `Released`.
Estimates = tuple[NDArray[np.float64] | None, int, NDArray[np.float64] | None]


@dataclass(frozen=True)
class Released:
    """What is known of items from releases that have been paid for.

    ``items`` is the set that stood last, in order. ``values`` is what each item was worth to a person on
    average, by released sums, ``deviations`` how far off that may be, and ``people`` how many people these
    were about; None and 0 where only sets were released. NaN: nothing is known about the item. ``labels``
    are the items' names. ``caveats`` is what accounts have to say of these releases, and of whatever follows
    from them. ``candidates`` are the items that can be shown; None for all of them.
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
        """A public ranking of items, in place of releases: its first items are shown until there are some.

        By labels, or by numbers where there are none. With ``candidates=m`` its first m items alone can be
        shown: noise then decides among these, which helps most where there are many items, few people or
        a small epsilon. The ranking and m must be public: a catalogue's own order, facts of the items, what
        was released before; never counts of the people who are learned from.

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
        """The same, as of fewer people: for tastes that have changed since."""
        kept = checks.real("part", part, at_least=0.0, at_most=1.0)
        wider = None if self.deviations is None else self.deviations / math.sqrt(max(kept, 1e-12))
        return replace(self, people=int(kept * self.people), deviations=wider)

    def over(self, n_items: int, labels: tuple[Any, ...] | None) -> Released:
        """The same for another catalogue: items are known by their labels, or by their numbers."""
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


# --- segments that share what they have released: each is drawn towards all ------------------------------


@dataclass(frozen=True)
class Evidence:
    """What one learner has released: averages by item (the last axis), of how many people, how noisy.

    ``noise`` is the deviation of the noise on a sum, and ``unit`` the largest amount of one person.
    """

    means: Floats
    people: Floats
    noise: float
    unit: float


@dataclass
class SegmentPool:
    """The evidence of all segments, and how many people it is about, of each and in all."""

    evidence: list[Evidence | None]
    people: list[int]
    total: int = 0


class Pooled:
    """What one segment knows from its own releases and from those of the others."""

    def __init__(self, pool: SegmentPool, index: int) -> None:
        self._pool, self._index = pool, index
        self.seen = 0  # people of the others when a set was drawn last

    def publish(self, evidence: Evidence | None, people: int) -> None:
        """What this segment's learner has released by now, about this many people."""
        self._pool.total += people - self._pool.people[self._index]
        self._pool.evidence[self._index], self._pool.people[self._index] = evidence, people

    @property
    def _others(self) -> int:
        """How many people the others' releases are about."""
        return self._pool.total - self._pool.people[self._index]

    @property
    def news(self) -> bool:
        """Whether the others have released so much more that a set is to be drawn again."""
        return self._others > NEWS * self.seen

    def look(self) -> Floats | None:
        """The scores to draw by."""
        self.seen = self._others
        return self.scores()

    def scores(self) -> Floats | None:
        """What items are worth here, by all that was released, as a sum over people; None for nothing."""
        known = [index for index, one in enumerate(self._pool.evidence) if one is not None]
        if not known:
            return None
        own = known.index(self._index) if self._index in known else None
        means, people = shrunk([one for one in self._pool.evidence if one is not None], own)
        return means * people


def shrunk(evidence: Sequence[Evidence], own: int | None) -> tuple[Floats, float]:
    """Averages of segment ``own`` drawn towards those of the others, and how many people they are worth.

    With None for ``own`` nothing has been released about the segment itself.

    The model: what items are worth in a segment varies among items with variance G, and has the correlation
    rho between any two segments. Item a is worth mu_a + d_sa in segment s, with variances rho G and
    (1 - rho) G. A released average adds an error of variance v_sa = (noise / people)^2 + q / people, where q,
    the variance among people, is at most the average amount, as amounts lie in [0, 1]. Errors are independent
    between segments, so G follows from the variances of a segment's averages among items, less v, and rho G
    from covariances between segments. The posterior mean is a mean of the segment's own average and of the
    others' mean, weighted by what is known of each.
    """
    unit = max(one.unit for one in evidence)
    rows = [np.atleast_2d(one.means / unit) for one in evidence]
    people = np.stack([one.people for one in evidence])
    noise = np.array([[one.noise / unit] for one in evidence])
    found = [_row(np.stack([row[i] for row in rows]), people, noise, own) for i in range(rows[0].shape[0])]
    means = np.stack([mean for mean, _ in found]).reshape(evidence[0].means.shape)
    return means * unit, float(np.mean([worth for _, worth in found]))


def _row(means: Floats, people: Floats, noise: Floats, own: int | None) -> tuple[Floats, float]:
    """The same for one vector of each segment: ``means`` and ``people`` are segments x items."""
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
    """The variance among items that segments have in common, and that of each segment: rho G, (1 - rho) G."""
    count, size = means.shape
    if count < 2 or size < 2:
        return _CORRELATION * _TINY, (1.0 - _CORRELATION) * _TINY
    products = np.cov(means)
    error = errors.mean(axis=1)
    signal = 0.0
    for _ in range(3):  # each segment's variance counts by how well it is known, which depends on the result
        sure = 1.0 / (signal + error)
        signal = max(0.0, float(sure**2 @ (products.diagonal() - error)) / float(sure @ sure))
    pairs = np.outer(sure, sure)
    np.fill_diagonal(pairs, 0.0)
    shared = float((pairs * products).sum() / pairs.sum())
    signal = max(signal, shared, _TINY)
    # As much as one standard error of the covariance weighs, segments are taken to be nearly alike.
    sureness = size * pairs.sum() / 2.0 * signal**2
    correlation = (shared / signal * sureness + _CORRELATION) / (sureness + 1.0)
    correlation = max(correlation, 0.0)
    return correlation * signal, (1.0 - correlation) * signal
