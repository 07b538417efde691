"""Learners that show sets of items of a catalogue, which may change.

What is drawn and what is served are two things. A learner draws a set when one is due, through its gate. What
is served in a round is that set, fitted to what can be shown in that round (`Catalogue.served`): availability
is a public fact, so this costs nothing.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ..core import checks
from ..core.settings import Setting
from ..core.state import Saved
from ..privacy import Seed, Share, spend_from
from ..privacy.spending import Spending
from ..results import Selection
from .catalogue import RECENT, Catalogue, Request
from .parts import Part
from .protocol import LearnerSettings, OnlineLearner, Stream
from .released import Known, Released
from .segments.pool import Pooled

LOWEST = -1e300  # a score that is never drawn


class CatalogueLearner(OnlineLearner):
    """Show a set of items every round, by label or number, of those that there are."""

    n_items = Setting("How many items there are to choose from.")
    labels = Setting("What the items are called; None for their numbers.")

    def __init__(
        self, settings: LearnerSettings, share: Share, start: Released | CatalogueLearner | None = None
    ) -> None:
        super().__init__(settings, share)
        if start is not None:
            known = start.released if isinstance(start, CatalogueLearner) else start
            self._begin_with(known)

    def _begin_with(self, known: Released) -> None:
        checks.instance("start", known, Released, "last_month.released")
        self._start(known.over(self.n_items, self.labels))
        self._catalogue.changed = True

    # --- for users -------------------------------------------------------------------------------

    @property
    def released(self) -> Released:
        """What was released about the items: what another learner may begin with (``start=``), at no cost."""
        with self._turns.look():
            shown = self._rounds.shown
            items = () if shown is None else self._decision(shown).items
            return Released(items, self.n_items, self.labels, *self._known())

    def ranking(self, count: int | None = None) -> tuple[int, ...]:
        """Numbers of items that can be shown, by what was released about them, best first."""
        with self._turns.look():
            active = np.flatnonzero(self._active())
            scores = self._ranking()[active]
            most = active.size if count is None else checks.whole("count", count, at_least=0)
            if most < active.size:  # ties go to the first items, as in a full sort
                least = np.partition(scores, active.size - most)[active.size - most] if most else np.inf
                kept = np.flatnonzero(scores >= least)
                active, scores = active[kept], scores[kept]
            order = np.argsort(-scores, kind="stable")[:most]
            return tuple(active[order].tolist())

    def add_items(self, items: Iterable[Any]) -> None:
        """New items, or retired ones that are back, can be shown from now on.

        Labels, or the next numbers where items have none. A public fact, which costs nothing. People who
        come from now on are functions of all items. Nothing is certified for streams whose catalogue
        changes.
        """
        with self._turn("add_items()"):
            names = list(items) if not isinstance(items, str | bytes) else [items]
            back, fresh = self._catalogue.sorted_out(names)
            active = self._active()
            self._open_items(back.astype(np.int64), np.flatnonzero(active), None)
            self._catalogue.bring_back(back.tolist())
            if fresh:
                size = self.n_items + len(fresh)
                labels = None if self.labels is None else (*self.labels, *fresh)
                settings = self._grown(size, labels)
                new = np.arange(self.n_items, size)
                self._open_items(new, np.flatnonzero(self._active()), settings)
                object.__setattr__(self, "settings", settings)
                self._catalogue.grow(size, labels)
                self._grew()
            self._changed()

    def retire_items(self, items: Iterable[Any]) -> None:
        """These items, by label or number, are not shown from now on.

        A public fact, which costs nothing. The set that stands is filled up by what was released about the
        others. Nothing is certified for streams whose catalogue changes.
        """
        with self._turn("retire_items()"):
            gone = self._catalogue.items("items", items).astype(np.int64)
            active = self._active()
            active[gone] = False
            self._check_enough(active)
            self._catalogue.retire(gone.tolist())
            self._close_items(gone)
            self._refit()
            self._changed()

    def next_epoch(self, budget: Spending, *, trust: float = 1.0, seed: Seed = None) -> Self:
        """A learner of the same settings for the time to come: a new budget, and what is known is kept.

        It has this one's items, the retired ones too, as many rounds, and the same noise, which is charged to
        ``budget``: a `Budget`, a share of one, or the gate of a period (`privacy.Periods`), which keeps the
        account of each period and of all together. It must be about the same neighbours and rounds per
        person. Each epoch counts a person's rounds anew; who comes in several loses the sum of them. For
        other rounds or another budget make a learner with ``start=`` this one.

        ``trust`` is the part of its people that what was released counts for: less where tastes change, and
        0 to begin with nothing. What was released is public, so this costs nothing. This learner stays as it
        is, for feedback that is late.
        """
        kept = checks.real("trust", trust, at_least=0.0, at_most=1.0)
        share = spend_from(budget, seed)
        for name in ("neighbours", "max_rounds_per_person", "private"):
            if getattr(share.budget, name) != getattr(self.budget, name):
                raise ValueError(
                    f"{name} of the budget is {getattr(share.budget, name)}, and of this learner"
                    f" {getattr(self.budget, name)}: make a new learner, with start= this one"
                )
        learner, known = object.__new__(type(self)), self.released
        assert share.gate is not None
        learner._assemble(self._renewed(), share.gate, own_gate=share.own_gate)
        if kept and self.round:
            learner._begin_with(known.weakened(kept))
        if gone := np.flatnonzero(~self._active()).tolist():
            learner.retire_items(gone if self.labels is None else [self.labels[item] for item in gone])
        return learner._fix()

    # --- for subclasses --------------------------------------------------------------------------

    def _renewed(self) -> Any:
        """The settings for another epoch; without what was drawn for this one."""
        return self.settings

    def _ranking(self) -> NDArray[np.float64]:
        """A number for each item, of what has been released: which to show where others cannot be.

        How often it was in one of the latest sets; learners that release sums know better.
        """
        return self._catalogue.often()

    def _known(self) -> Known:
        """What each item was worth to a person, by what was released, to how many people, and how sure."""
        return None, 0, None

    def _start(self, start: Released) -> None:
        """Begin with what is known: here, show the set that stood last for a start."""
        self._first = start.items

    _shares: bool | None = None  # whether segments share what it released; None where they cannot
    _pool: Pooled | None = None  # what they have released, where that is shared

    def _tell(self, pool: Pooled) -> None:
        """Let other segments know what was released."""

    def _drawn(self) -> NDArray[Any]:
        """A set by what is known, here and in other segments, without a release."""
        raise NotImplementedError

    _first: tuple[int, ...] = ()
    _remembers = True  # whether the catalogue is this learner's own

    def _feasible(self, items: list[int]) -> bool:  # noqa: ARG002
        """Whether these items may be shown together."""
        return True

    def _grown(self, n_items: int, labels: tuple[Any, ...] | None) -> Any:
        """The settings for more items; refused where people's part in what was paid for would grow."""
        raise NotImplementedError(
            f"{type(self).__name__} cannot take up new items: make a new learner, with start= this one"
        )

    def _open_items(self, items: NDArray[np.int64], among: NDArray[np.int64], settings: Any) -> None:
        """Let these items be drawn, like the ones ``among`` them; ``settings`` are the new ones, if any."""

    def _grew(self) -> None:
        """There are more items than there were."""

    def _close_items(self, items: NDArray[np.int64]) -> None:
        """Let these items be drawn no more."""

    def _changed(self) -> None:
        """The catalogue has changed."""

    def _certified(self, regret: float) -> float:
        """A certificate, which is about a catalogue that does not change and a learner that begins with
        nothing: a bad start can cost any number of rounds. Infinite otherwise."""
        return math.inf if self._catalogue.changed else regret

    def _active(self) -> NDArray[np.bool_]:
        """Which items have not been retired."""
        active = self._catalogue.active
        return np.ones(self.n_items, dtype=np.bool_) if active is None else active.copy()

    def _check_enough(self, active: NDArray[np.bool_]) -> None:
        """Refuse a catalogue that is too small for a set."""
        left = int(np.count_nonzero(active))
        if left < self._width:
            raise ValueError(f"{left} items would be left; a set has {self._width}")

    def _refit(self) -> None:
        """After items were retired: let a set stand that has none of them."""
        if self._rounds.shown is not None:
            standing = self._decision(self._rounds.shown)
            fitted = self._fitted(standing, self._catalogue.request())
            self._rounds.show(np.array(self._row(fitted), dtype=self._played_type))
            self._rounds.altered = False

    def _masked(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Scores of items, the last axis, with retired ones far below all others."""
        active = self._catalogue.active
        return scores if active is None else np.where(active, scores, LOWEST)

    @property
    def _constrained(self) -> bool:
        """Whether `_feasible` ever says no."""
        return False

    # --- the protocol ----------------------------------------------------------------------------

    def _begin_common(self) -> None:
        self._catalogue = Catalogue(self.n_items, self.labels)

    def _next(self) -> Any:
        if not self._rounds.is_open and not self._rounds.over:
            self._open()
            if self._remembers:
                self._catalogue.remember(self._shown)
        return super()._next()

    def _open(self) -> None:
        """The next round, with a new set where one is due."""
        news = self._pool is not None and self._pool.news
        self._rounds.open(self._new_set() if self._due() else self._drawn() if news else None)

    def _new_set(self) -> NDArray[Any]:
        """Draw a set."""
        shown = self._draw()
        return self._with_first(shown) if self._first and not self._rounds.number else shown

    def _with_first(self, shown: NDArray[Any]) -> NDArray[Any]:
        """The first set: that which stood last elsewhere, filled up by one at random."""
        chosen: list[int] = []
        first = [item for item in self._first if self._active()[item]]
        self._catalogue.fill(chosen, [*first, *shown.tolist()], shown.size, self._feasible)
        return np.array(chosen, dtype=shown.dtype)

    def _decide(self) -> Any:
        return self._fitted(self._next(), self._catalogue.request())

    @property
    def _least(self) -> int:
        """How many items must be available: those of a set, but under a constraint."""
        return 0 if self._constrained else self._width

    def _fitted(self, standing: Selection, request: Request | None) -> Selection:
        """The standing set as it can be shown in this round."""
        if request is None:
            return standing
        feasible = self._feasible if self._constrained else None
        items = self._catalogue.served(standing.items, self._ranking, request, feasible)
        self._rounds.altered = items != standing.items
        return self._selection(items)

    def _selection(self, items: tuple[int, ...]) -> Selection:
        labels = self.labels
        named = None if labels is None else tuple(labels[item] for item in items)
        return Selection(items, self._rounds.number, named)

    def _run(self, stream: Stream) -> None:
        before, start, late = self._catalogue.remembered(), self._rounds.number, int(self._rounds.is_open)
        self._run_stream(stream)
        shown = stream.selections[late : self._rounds.number - start]
        self._catalogue.recall([*before, *shown[-RECENT:].copy()])

    def _run_one_by_one(self, stream: Stream) -> None:
        super()._run(stream)

    @abstractmethod
    def _run_stream(self, stream: Stream) -> None:
        """Play a whole stream."""

    def _common_parts(self) -> dict[str, Part]:
        return super()._common_parts() | {"catalogue": self._catalogue}

    def _restore_common(self, saved: Saved) -> None:
        super()._restore_common(saved)
        least = 1 if self._constrained else self._width
        self._catalogue.resume(saved.part("catalogue"), at_least=least)
