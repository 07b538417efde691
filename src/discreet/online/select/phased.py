"""Learn from one window of people, serve the next: for streams that do not drift by design."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ... import bounds
from ...core import checks
from ...core.state import Saved
from ...objectives import Population, answers
from ...objectives.each import value_to_rows
from ...objectives.rows.matrices import SparseMatrix
from ...objectives.rows.table import Rows
from ...privacy import (
    Account,
    Budget,
    Event,
    ExponentialChoice,
    LaplaceNoise,
    ScoreChange,
    Seed,
)
from ..protocol import Guarantee, Stream
from .selector import OnlineSelector
from .window import Window

_LONGEST = 1 << 53
_LABEL = "picks of a window"


@dataclass(frozen=True)
class PhasedGuarantee(Guarantee):
    """A `Guarantee` that says what does and what does not hold for every stream."""

    def _lines(self) -> Iterator[str]:
        yield from super()._lines()
        yield "privacy holds for any stream; the regret guarantee only for exchangeable ones"


class PhasedSelector(OnlineSelector):
    """Private greedy on disjoint windows of the stream; each set is served during the next window.

    The people of a window are kept until it closes; then k items are picked one after the other by the
    exponential mechanism, each by the sum of its gains on top of those already picked. No horizon has to be
    declared. Before the first window closes a uniformly random set is served.

    ``window`` is the number of rounds of every window, or ``"doubling"``: each is twice as long as the one
    before, starting with ``first_window`` (`first_window_for`, if not given). ``restart_on_drift`` starts the
    doubling again when a set that had settled changes: a newly picked set has fewer than half of its items in
    common with the served one, although that one had not differed so much from the set before it. This looks
    only at what is served anyway, so it costs nothing.

    Formal guarantee: privacy for any stream, also one that reacts to what is served. A window is a range of
    round numbers, so nobody's round is in two of them and the budget is paid once: k exponential choices,
    whose scores one person moves apart by 2 ``bound`` (replace-one) or ``bound`` (add or remove, where a
    removed person's round passes without being learned from). Gains are rounded down to a public step before
    they are added up, so these ranges are exact, and choices are drawn exactly.

    Regret: only for exchangeable streams (independent people, or people in random order), see
    `certified_regret`. On a stream that drifts a set can be out of date for a whole window.

    ``epsilon=inf`` is plain greedy on each window. Asi, Feldman, Koren and Talwar (2023) use such windows for
    independent losses; the picks are those of Gupta et al. (2010) and Mitrovic et al. (2017).

    >>> import discreet as dc
    >>> people = dc.objectives.Coverage([[1, 0, 0, 0], [1, 0, 1, 0]] * 500)
    >>> learner = PhasedSelector(4, k=1, budget=dc.Budget(1.0), seed=0)
    >>> trace = learner.run(people)
    >>> learner.choose().items, trace.average > 0.9
    ((0,), True)
    """

    _endless = True

    def __init__(
        self,
        n_items: int,
        k: int,
        budget: Budget,
        *,
        window: int | str = "doubling",
        first_window: int | None = None,
        restart_on_drift: bool = False,
        bound: float = 1.0,
        labels: Sequence[Any] | None = None,
        seed: Seed = None,
    ) -> None:
        super().__init__(n_items, k, None, budget, bound=bound, labels=labels, seed=seed)
        if isinstance(window, str):
            checks.one_of("window", window, ("doubling",))
        else:
            window = checks.whole("window", window, at_least=1, at_most=_LONGEST)
            if first_window is not None or restart_on_drift:
                raise ValueError(
                    f"window={window} is fixed; first_window and restart_on_drift need 'doubling'"
                )
        self.window: int | str = window
        self.restart_on_drift = bool(restart_on_drift)
        self._event = pick_event(budget, self.n_items, self.k, self.bound)
        if isinstance(window, int):
            self.first_window = window
        elif first_window is not None:
            self.first_window = checks.whole("first_window", first_window, at_least=1, at_most=_LONGEST)
        else:
            self.first_window = first_window_for(self.n_items, self.k, budget, self.bound)
        self._reserve()
        self._served = 0  # windows that have been learned from
        self._agreed = False
        self._opens = 0  # the round at which the open window began
        self._window: Window | None = None

    # --- for users -------------------------------------------------------------------------------

    @property
    def privacy(self) -> PhasedGuarantee:
        """The guarantee of a run of any length; ``privacy.spent`` is the account so far."""
        whole = super().privacy
        return PhasedGuarantee(
            whole.budget, whole.ledger, whole.reproducible, marks=whole.marks, spent=whole.spent
        )

    @property
    def rate(self) -> float:
        """Weights of a pick are exp(rate x sum of gains); infinite without privacy."""
        return self._event.rate if isinstance(self._event, ExponentialChoice) else math.inf

    def certified_regret(self, rounds: int) -> float:
        """Bound on the expected (1 - 1/e)-regret over ``rounds`` rounds of an exchangeable stream.

        `bounds.phased`; with ``restart_on_drift`` only the trivial bound is known.
        """
        checks.whole("rounds", rounds, at_least=1)
        if self.restart_on_drift:
            return bounds.trivial(rounds, self.bound)
        growth = 1 if isinstance(self.window, int) else 2
        return bounds.phased(
            self.n_items, self.k, rounds, self.rate, self.first_window, growth=growth, bound=self.bound
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to a file, completely or not at all; `discreet.load` goes on from it.

        The file holds the people of the open window themselves, row by row and in the clear (only its owner
        may read it). People who are Python functions cannot be written: save when a window has just closed.
        """
        super().save(path)

    # --- for the protocol ------------------------------------------------------------------------

    @property
    def _picks(self) -> int:
        """Picks of a window that depend on anybody: the last of all items is no choice."""
        return min(self.k, self.n_items - 1)

    @property
    def _closes(self) -> int:
        """The first round after the open window."""
        return self._opens + (0 if self._window is None else self._window.length)

    def _reserve(self) -> None:
        if self._picks:
            self._release = self._gate.reserve(self._event, self._picks, disjoint=True, label=_LABEL)

    def _due(self) -> bool:
        return self._round >= self._closes

    def _draw(self) -> NDArray[np.int32]:
        """The set that the closed window teaches; a random one at first. A new window opens."""
        if self._window is None:
            coins = self._gate.coins().generator
            chosen = coins.choice(self.n_items, size=self.k, replace=False).astype(np.int32)
            length = self.first_window
        else:
            # First: nobody is to be learned from twice. Where an interruption comes in between, the set that
            # is drawn instead is a random one.
            closed, self._window = self._window, Window(self.n_items, self.bound, self._window.length)
            chosen = self._learned(closed)
            length = self._next_length(chosen)
            self._served += 1
        self._opens = self._round
        self._window = Window(self.n_items, self.bound, length)
        return chosen

    def _learned(self, window: Window) -> NDArray[np.int32]:
        growth = window.start()
        left = np.ones(self.n_items, dtype=np.bool_)
        for _ in range(self.k):
            candidates = np.flatnonzero(left)
            scores = growth.scores()[candidates]
            if candidates.size == 1:
                place = 0
            elif isinstance(self._event, ExponentialChoice):
                place = self._release.choice(scores)
            else:
                place = int(np.argmax(scores))
            item = int(candidates[place])
            growth.add(item)
            left[item] = False
        return np.array(growth.items, dtype=np.int32)

    def _next_length(self, chosen: NDArray[np.int32]) -> int:
        assert self._window is not None
        assert self._shown is not None
        if isinstance(self.window, int):
            return self.window
        agrees = 2 * np.intersect1d(chosen, self._shown).size >= self.k
        drifted = self._agreed and not agrees
        self._agreed = agrees
        return self.first_window if self.restart_on_drift and drifted else 2 * self._window.length

    def _prepared(self, person: Any) -> Population:
        ready: Population = super()._prepared(person)
        if ready.as_rows() is None:
            # Functions are asked again only when the window closes: what fails now must fail here.
            assert self._shown is not None
            answers.number("value", ready.value(self._shown.tolist()), 0.0, self.bound)
            answers.vector("gains", ready.gains([]), self.n_items, 0.0, self.bound)
        return ready

    def _absorb(self, person: Population) -> None:
        assert self._window is not None
        self._window.keep(person)

    def _run_rows(self, stream: Stream, rows: Rows) -> None:
        admitted, rewards, selections = stream.admitted, stream.rewards, stream.selections
        start, count = 0, int(rewards.size)
        while start < count:
            shown = self._next().items
            assert self._window is not None
            stop = min(count, start + self._closes - self._round)
            part = _slice(rows, start, stop)
            selections[start:stop] = shown
            rewards[start:stop] = value_to_rows(part, shown)
            known = admitted[start:stop]
            self._round += stop - start  # first, so that an interruption loses people and never doubles them
            self._open = False
            self._window.keep_rows(part if known.all() else part.take(np.flatnonzero(known)))
            start = stop

    def _spent(self) -> Account:
        return self._account((_LABEL, self._event, self._picks if self._served else 0))

    def _settings(self) -> dict[str, Any]:
        return super()._settings() | {
            "window": self.window,
            "first_window": self.first_window,
            "restart_on_drift": self.restart_on_drift,
            "event": self._event.to_json(),
            "served": self._served,
            "agreed": self._agreed,
            "opens": self._opens,
            "length": None if self._window is None else self._window.length,
        }

    def _arrays(self) -> dict[str, NDArray[Any]]:
        if self._window is None:
            return {}
        if self._window.others:
            raise TypeError(
                "the open window holds people who are functions, which cannot be written to a file; save"
                f" before round {self._opens} is learned from, or after round {self._closes} has been chosen"
                " for"
            )
        return self._window.arrays()

    def _restore(self, saved: Saved) -> None:
        super()._restore(saved)
        fixed = saved.plain("window") != "doubling"
        self.window = saved.whole("window", at_least=1, at_most=_LONGEST) if fixed else "doubling"
        self.first_window = saved.whole("first_window", at_least=1, at_most=_LONGEST)
        self.restart_on_drift = saved.flag("restart_on_drift")
        self._event = Event.from_json(saved.plain("event"))
        needed = pick_event(self.budget, self.n_items, self.k, self.bound)
        if isinstance(needed, ExponentialChoice) and isinstance(self._event, ExponentialChoice):
            needed = replace(needed, rate=self._event.rate)
        if self._event != needed:
            raise ValueError(f"event={self._event} is not a pick of such a window; {needed} is")
        self._reserve()
        self._opens = saved.whole("opens", at_least=0, at_most=self._round)
        self._agreed, self._window = saved.flag("agreed"), None
        self._served = saved.whole("served", at_least=min(1, self._opens), at_most=self._opens)
        if self._shown is not None:
            least = max(1, self._round - self._opens + self._open)
            length = saved.whole("length", at_least=least, at_most=2 * max(_LONGEST, self._round))
            self._window = Window(self.n_items, self.bound, length)
            self._window.restore(saved, self._round - self._opens)


def pick_event(budget: Budget, n_items: int, k: int, bound: float) -> Event:
    """One pick of a window, such that all k of them take the whole budget."""
    moves = ScoreChange(bound, one_directional=budget.neighbours == "add_remove").range
    if not budget.private:
        return LaplaceNoise(moves, 0.0)
    return ExponentialChoice.within(budget.share(), moves, max(1, min(k, n_items - 1)))


def first_window_for(n_items: int, k: int, budget: Budget, bound: float = 1.0) -> int:
    """How many people make the first window: public, by what a pick can tell apart.

    A pick falls short of the best sum of gains by at most ln(n) / rate on average. In four times as many
    people it can tell an item that a quarter of them want from one that nobody does. Fewer say little, and
    more keep a random set on show for longer.

    >>> import discreet as dc
    >>> first_window_for(285, 5, dc.Budget(1.0, 1e-6)), first_window_for(285, 5, dc.Budget(float("inf")))
    (227, 5)
    """
    event = pick_event(budget, n_items, k, bound)
    if not isinstance(event, ExponentialChoice):
        return k
    return max(k, math.ceil(4.0 * math.log(max(n_items, 2)) / (event.rate * bound)))


def _slice(rows: Rows, start: int, stop: int) -> Rows:
    """Some rows in a row, as views."""
    matrix = rows.sparse
    first, last = int(matrix.indptr[start]), int(matrix.indptr[stop])
    part = SparseMatrix(
        matrix.indptr[start : stop + 1] - first,
        matrix.indices[first:last],
        matrix.data[first:last],
        matrix.n_columns,
    )
    return Rows(rows.kind, part, rows.share[start:stop], rows.cap[start:stop])
