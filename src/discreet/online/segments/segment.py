"""One of several segments, as whoever serves it sees it: a learner among others, with one account for all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ...results import Selection
from ..released import Released

if TYPE_CHECKING:
    from .segments import Segments


class Segment:
    """One segment of `Segments`: what is chosen and learned here is what the whole would choose and learn."""

    def __init__(self, whole: Segments, index: int) -> None:
        self._whole, self._index = whole, index
        self._learner = whole._learners[index]

    @property
    def round(self) -> int:
        """How many rounds the segment has had; `choose` numbers them through all segments."""
        return self._learner.round

    @property
    def labels(self) -> tuple[Any, ...] | None:
        """What the items are called."""
        return self._whole.labels

    @property
    def released(self) -> Released:
        """What was released about the items in this segment."""
        return self._learner.released

    def ranking(self, count: int | None = None) -> tuple[int, ...]:
        """Numbers of items that can be shown, by all that was released, best first."""
        return self._learner.ranking(count)

    def choose(self, *, wait: bool = True) -> Selection:
        """See `Segments.choose`."""
        return self._whole.choose(self._whole.values[self._index], wait=wait)

    def choose_many(self, count: int) -> list[Selection]:
        """`choose` without waiting, so many times."""
        return [self.choose(wait=False) for _ in range(count)]

    def learn_many(self, rewards: Mapping[int, Any]) -> None:
        """`learn`, for each of these rounds."""
        for round, value in rewards.items():
            self.learn(value, round=round)

    def learn(self, person: Any, *, round: int) -> None:
        """See `Segments.learn`."""
        self._whole.learn(person, segment=self._whole.values[self._index], round=round)

    def waits_for(self, round: int) -> bool:
        """Whether feedback of a round of that number may still come."""
        return self._whole._numbers.get(round) is not None

    def skip(self, rounds: Iterable[int]) -> None:
        """See `Segments.skip`."""
        self._whole.skip(rounds)

    def run(self, people: Any) -> None:
        """People of this segment, one after the other, as fast as one learner: the same as `Segments.run`."""
        whole, index, learner = self._whole, self._index, self._learner
        with whole._turn("run()"):
            first, pool = learner.round, learner._pool
            # A set that stands is kept for its round; what others have released since is for the next one.
            stands = pool is not None and pool.news and learner._rounds.is_open and len(people) > 1
            try:
                for some in (people[:1], people[1:]) if stands else (people,):
                    learner.run(some)
            finally:  # rounds that are over have their numbers, and nothing is waited for
                for round in range(first, learner.round):
                    whole._numbers.drop(whole._numbers.number(index, round))
