"""Hedge experts in a row: each learns what to add to the choices of those before it.

Every draw of an expert is one use of the exponential mechanism, and nothing else about a person leaves. The
scores are sums of gains in whole units, so how far one person can move them is exact; the draws are exact
too, compiled where the numbers are clear and decided with as many digits as it takes where they are not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ... import bounds
from ...core import checks
from ...core.progress import track
from ...core.state import Saved
from ...objectives import answers
from ...objectives.rows.table import Rows
from ...privacy import Account, Budget, ExponentialChoice, ScoreChange, Seed
from ...privacy.conversions import exact
from ...privacy.ordered import OrderedExperts
from ..protocol import Stream
from .selector import OnlineSelector

_UNITS = 32  # a gain as large as the bound is between 2^31 and 2^32 units
_MOST_ROUNDS = 1 << 30  # so that sums of gains and their differences stay within 63 bits
_LABEL = "items drawn by Hedge experts"
_CHUNK_WORDS = 1 << 16
_TILE = 64  # items weighed together


class HedgeSelector(OnlineSelector):
    """k ordered Hedge experts; expert i learns the gains on top of the choices of experts 1..i-1.

    Paper 000, Algorithm 2 (Algorithm 1 for k = 1), after Streeter and Golovin 2008. Expert i draws item a
    with weight exp(rate * G_i(a)) from the items not yet in the set, where G_i sums f_t(S + a) - f_t(S) over
    past rounds, S being the first i-1 items shown in round t. ``resample_every=B`` draws a new set only every
    B rounds, which leaves fewer draws to pay for and so allows a higher rate; ``"auto"`` takes the B with the
    smallest certified regret.

    ``calibration="tight"`` takes the best rate for the horizon, or the largest that the budget allows if that
    is smaller: all draws are accounted for together, as steps whose privacy loss has a bounded range.
    ``"published"`` takes the rate of the paper, eps / (k sqrt(32 T ln(k/delta)) bound). ``rate=`` overrides
    both, and is refused if it does not fit. An infinite epsilon gives the non-private learner.

    Guarantee. (epsilon, delta)-DP for a person replaced, or (``neighbours="add_remove"``) for a person whose
    round passes with nothing learned; also if later people depend on the sets shown. Released are the
    k (ceil(T/B) - 1) draws after the first set, each with a privacy loss in an interval of length rate * 2 *
    bound (rate * bound if people only come or go). Gains are rounded down to units of about bound / 2^32 and
    summed in integers; the draws are exact.

    Regret. ``certified_regret`` bounds the expected (1 - 1/e)-regret for streams fixed in advance.

    >>> import discreet as dc
    >>> people = dc.objectives.Coverage([[1, 0, 0], [1, 1, 0]] * 50)
    >>> learner = HedgeSelector(3, 1, 100, dc.Budget(1.0, 1e-6), resample_every=10, seed=0)
    >>> len(learner.choose()), learner.privacy.epsilon() <= 1.0
    (1, True)
    >>> len(learner.run(people))
    100
    """

    def __init__(
        self,
        n_items: int,
        k: int,
        rounds: int,
        budget: Budget,
        *,
        resample_every: int | str = 1,
        rate: float | None = None,
        bound: float = 1.0,
        calibration: str = "tight",
        labels: Sequence[Any] | None = None,
        seed: Seed = None,
    ) -> None:
        horizon = checks.whole("rounds", rounds, at_least=1, at_most=_MOST_ROUNDS)
        super().__init__(
            n_items, k, horizon, budget, bound=bound, calibration=calibration, labels=labels, seed=seed
        )
        if isinstance(resample_every, str):
            checks.one_of("resample_every", resample_every, ("auto",))
        else:
            checks.whole("resample_every", resample_every, at_least=1)
        given = None if rate is None else checks.real("rate", rate, above=0.0)
        if calibration == "published":
            if given is not None or resample_every != 1:
                raise ValueError(
                    'calibration="published" has its own rate and draws every round; leave rate= and'
                    ' resample_every= out, or take calibration="tight"'
                )
            if not budget.private:
                raise ValueError(
                    'calibration="published" needs a finite epsilon; an infinite one has no published rate'
                )
            if budget.delta == 0.0:
                raise ValueError(
                    'calibration="published" needs delta > 0; give the budget a delta or take "tight"'
                )
        self._range = ScoreChange(self.bound, budget.neighbours == "add_remove").range
        auto = isinstance(resample_every, str)
        batch = self._best_batch(given) if isinstance(resample_every, str) else min(resample_every, horizon)
        self._settle_on(batch, self._calibrated(batch, cautious=auto) if given is None else given)
        self._reserve()
        self._gains = np.zeros((self.n_items, self.k), dtype=np.int64)

    def _settle_on(self, batch: int, rate: float) -> None:
        """Batch and rate, and what follows from them."""
        self.resample_every = batch
        self._event = ExponentialChoice(rate, self._range)
        # Gains are counted in units of 2^-32 times the power of two that is not below the bound.
        scale = Fraction(2) ** (_UNITS - (math.frexp(self.bound)[1] - (math.frexp(self.bound)[0] == 0.5)))
        width = exact(self._range) / (2 if self.budget.neighbours == "replace" else 1)
        self._scale = scale
        self._most = math.floor(min(exact(self.bound), width) * scale)
        self._machine: OrderedExperts | None = None

    def _reserve(self) -> None:
        """Pay for the draws of all rounds, at the rate at which they will be drawn."""
        count = self._draws(-(-self._horizon // self.resample_every))
        self._release = self._gate.reserve(self._event, count, label=_LABEL)

    # --- for users -------------------------------------------------------------------------------

    @property
    def rate(self) -> float:
        """Weights of a draw are exp(rate x sum of gains)."""
        return self._event.rate

    @property
    def certified_regret(self) -> float:
        """Bound on the expected (1 - 1/e)-regret of the whole run, in units of reward."""
        return bounds.hedge(
            self.n_items, self.k, self._horizon, self.rate, self.resample_every, bound=self.bound
        )

    # --- calibration -----------------------------------------------------------------------------

    @property
    def _horizon(self) -> int:
        assert self.rounds is not None
        return self.rounds

    def _draws(self, sets: int) -> int:
        """Draws that depend on anybody, once ``sets`` sets have been drawn: all but those of the first."""
        return self.k * max(0, sets - 1)

    def _calibrated(self, batch: int, *, cautious: bool) -> float:
        budget, horizon = self.budget, self._horizon
        if self.calibration == "published":
            return bounds.published_rate(self.k, horizon, budget.epsilon, budget.delta, self.bound)
        # A batch of the user's choosing is a convenience: learn as fast as without it. That is certified only
        # for batches up to 1 / (rate bound); "auto" keeps to what is certified.
        best = bounds.best_rate(self.n_items, self.k, horizon, batch if cautious else 1, self.bound)
        count = self._draws(-(-horizon // batch))
        if not budget.private or count == 0:
            return best
        return min(best, ExponentialChoice.within(budget.share(), self._range, count).rate)

    def _best_batch(self, given: float | None) -> int:
        """The batch with the smallest certified regret.

        Only the shortest batch for each number of sets matters: a longer one saves no draw.
        """
        share, horizon = self.budget.share(), self._horizon
        epsilon, rho = float(share.epsilon), float(share.rho)

        def promise(batch: int) -> float:
            rate = bounds.best_rate(self.n_items, self.k, horizon, batch, self.bound)
            if count := self._draws(-(-horizon // batch)):
                allowed = max(epsilon / count, math.sqrt(8.0 * rho / count)) / self._range
                if given is not None and allowed * (1.0 - 1e-12) < given:
                    return math.inf
                rate = min(rate, allowed)
            rate = rate if given is None else given
            return bounds.unclipped_hedge(self.n_items, self.k, horizon, rate, batch, self.bound)

        root = math.isqrt(horizon)
        batches: set[int] = {*range(1, root + 1), *(-(-horizon // sets) for sets in range(1, root + 2))}
        return min(sorted(batches), key=promise)

    # --- what the protocol asks for --------------------------------------------------------------

    def _due(self) -> bool:
        return self._round % self.resample_every == 0

    def _draw(self) -> NDArray[np.int32]:
        return self._release.ordered_set(self._compiled())

    def _prepared(self, person: Any) -> Rows | NDArray[np.int64]:
        """Rows for the compiled loop, or the units that each item and expert gains."""
        one = super()._prepared(person)
        rows: Rows | None = one.as_rows()
        if rows is not None:
            return rows
        assert self._shown is not None
        gains = answers.gains_along(one, self._shown.tolist(), self.bound)
        units = np.clip(np.floor(gains.T * float(self._scale)), 0, self._most)
        return np.ascontiguousarray(units, dtype=np.int64)

    def _absorb(self, person: Rows | NDArray[np.int64]) -> None:
        machine = self._compiled()
        if isinstance(person, Rows):
            ends, *row = _row_arguments(person)
            person_arguments = (
                *row[:2],
                ends[0],
                ends[1],
                person.cap[0],
                person.kind.code,
                person.kind.fresh,
            )
            machine.kernels.take_person(
                *machine.gain_arguments, *person_arguments, self._shown, True, *machine.lesson_arguments
            )
        else:
            self._gains += person
            machine.weigh_again()

    def _run_rows(self, stream: Stream, rows: Rows) -> None:
        admitted, rewards, selections = stream.admitted, stream.rewards, stream.selections
        self._next()  # the first set is drawn before anybody has been learned from, whatever happens later
        machine = self._compiled()
        chunk = max(1, _CHUNK_WORDS // machine.words_per_set) * self.resample_every
        assert self._shown is not None
        shown = self._shown.copy()
        starts = range(0, rewards.size, min(chunk, 1 << 16))
        for first in track(starts, "blocks of rounds", stream.progress):
            part = slice(first, min(first + starts.step, rewards.size))
            rounds = self._round + np.arange(part.stop - first)
            due = rounds % self.resample_every == 0
            due[0] &= not self._open
            words = self._release.words(int(due.sum()) * machine.words_per_set)
            place = machine.start()
            # The rounds count as passed before anything is drawn: an interruption never makes them free.
            self._round, self._open = self._round + due.size, False
            outputs = (words, shown, place, rewards[part], selections[part])
            while machine.kernels.stream(
                *machine.stream_arguments,
                *_row_arguments(rows),
                rows.kind.code,
                rows.kind.fresh,
                np.uint64(first),
                admitted[part],
                due,
                *outputs,
            ):
                machine.settle(self._release, words, shown, place)
            self._shown = shown.copy()

    def _spent(self) -> Account:
        sets = -(-self._round // self.resample_every)
        if self._open and self._due():
            sets += 1
        return self._account((_LABEL, self._event, self._draws(sets)))

    def _settings(self) -> dict[str, Any]:
        return super()._settings() | {"resample_every": self.resample_every, "rate": self.rate}

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return {"gains": self._gains}

    def _restore(self, saved: Saved) -> None:
        super()._restore(saved)
        checks.whole("rounds", self._horizon, at_least=1, at_most=_MOST_ROUNDS)
        self._range = ScoreChange(self.bound, self.budget.neighbours == "add_remove").range
        batch = saved.whole("resample_every", at_least=1, at_most=self._horizon)
        self._settle_on(batch, saved.real("rate", above=0.0))
        self._reserve()
        most = self._most * self._round
        self._gains = saved.array("gains", (self.n_items, self.k), np.int64, at_least=0, at_most=most)

    # --- inside ----------------------------------------------------------------------------------

    def _compiled(self) -> OrderedExperts:
        if self._machine is None:
            self._machine = OrderedExperts(self._gains, self.rate, self._scale, self._most)
        return self._machine


def _row_arguments(rows: Rows) -> tuple[NDArray[Any], ...]:
    sparse = rows.sparse
    return sparse.indptr.view(np.uint64), sparse.indices.view(np.uint32), sparse.data, rows.cap
