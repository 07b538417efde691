"""Ordered experts that follow the regularised leader on private running sums of gains."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ... import backends, bounds
from ...core import checks
from ...core.progress import track
from ...core.state import Saved
from ...objectives import Population, answers
from ...objectives.rows.table import Rows
from ...privacy import Account, Budget, Coins, Event, RunningSum, Seed, SumSpec, TreeSum, VectorBounds
from ..contribution import capped
from ..protocol import Stream
from .selector import OnlineSelector

SUMS = ("sqrt", "blt", "tree")


class RunningSumSelector(OnlineSelector):
    """k ordered experts, each choosing by a softmax of privately summed gains.

    Expert i keeps the sum, over people, of what each item would have added on top of the first i - 1 items
    shown. The k sums leave through one private running sum of k n_items coordinates, so the noise of a
    round hardly grows with the number of rounds (with its logarithm for ``sums="sqrt"`` and ``"blt"``),
    while drawing each set by the exponential mechanism pays for every draw. Any private experts will do,
    paper 000 remarks; these are the experts of Smith and Thakurta's kind with better sums.

    ``items_per_person=m`` counts at most m of each person's items (chosen by a coin of the round): noise then
    grows with sqrt(m) instead of sqrt(n_items), and the learner sees a little less of each person.
    ``resample_every=B`` draws a new set every B rounds, at the same learning ``rate`` as without; it is
    faster and, on streams that do not turn against it within a batch, better. ``"auto"`` takes the B and
    the rate of the smallest certified regret. ``noise="laplace"`` with ``sums="tree"`` is pure epsilon.

    Formal guarantee: one person's gains move the stacked vector by at most bound sqrt(min(k n, 2 k m)) in L2
    (replace), bound min(k n, 2 k m) in L1; everything after the running sum is post-processing. Holds for
    people chosen with knowledge of all earlier sets. Sets are drawn with public coins.

    >>> import discreet as dc
    >>> people = dc.objectives.Coverage([[1, 0, 0], [0, 1, 0]] * 50)
    >>> learner = RunningSumSelector(3, 2, len(people), dc.Budget(1.0, 1e-6), seed=0)
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
        sums: str = "sqrt",
        noise: str = "gaussian",
        items_per_person: int | None = None,
        resample_every: int | str = 1,
        rate: float | None = None,
        bound: float = 1.0,
        calibration: str = "tight",
        labels: Sequence[Any] | None = None,
        seed: Seed = None,
    ) -> None:
        super().__init__(
            n_items, k, rounds, budget, bound=bound, calibration=calibration, labels=labels, seed=seed
        )
        if self.calibration == "published":
            raise ValueError('no constants were published for this learner; use calibration="tight"')
        assert self.rounds is not None
        self.sums = checks.one_of("sums", sums, SUMS)
        self.noise = checks.one_of("noise", noise, ("gaussian", "laplace"))
        if self.noise == "laplace" and self.sums != "tree":
            raise ValueError('noise="laplace" needs sums="tree"')
        self.items_per_person = (
            None
            if items_per_person is None
            else checks.whole("items_per_person", items_per_person, at_least=1, at_most=self.n_items)
        )
        batch = resample_every
        if batch == "auto":
            question = (self.n_items, self.k, self.rounds, budget)
            batch = self._best_batch(*question, self.sums, self.noise, self.items_per_person, self.bound)
        self.resample_every = checks.whole("resample_every", batch, at_least=1)
        if rate is None:
            # A batch of the user's choosing is taken as a matter of convenience: learn as fast as without it.
            # That is certified only for batches up to 1 / (rate bound); "auto" keeps to what is certified.
            cautious = self.resample_every if resample_every == "auto" else 1
            rate = bounds.best_rate(self.n_items, self.k, self.rounds, cautious, self.bound)
        self.rate = checks.real("rate", rate, above=0.0)
        self._coins = self._gate.coins()
        self._cap_coins = self._gate.coins()
        self._sum: RunningSum | None = None
        if self._releases:
            self._sum = self._made_sum()
        self._gathered = np.zeros((self.k, self.n_items), dtype=np.int64)
        self._known = np.zeros((self.k, self.n_items))
        self._topped_up = 0.0

    # --- what is certified -----------------------------------------------------------------------

    @property
    def certified_regret(self) -> float:
        """Bound on the expected (1 - 1/e)-regret over the declared rounds (see `bounds.noisy_leader`).

        With ``items_per_person`` it is about the people as they are counted, cut to that many items; rounds
        that are not learned from (beyond ``max_rounds_per_person``) are not in it either.
        """
        assert self.rounds is not None
        pull = self.noise_pull(
            self.n_items,
            self.k,
            self.rounds,
            self.budget,
            self.sums,
            self.noise,
            self.items_per_person,
            self.resample_every,
            self.bound,
        )
        return bounds.noisy_leader(
            self.n_items, self.k, self.rounds, self.rate, pull, self.resample_every, self.bound
        )

    @staticmethod
    def noise_pull(
        n_items: int,
        k: int,
        rounds: int,
        budget: Budget,
        sums: str = "sqrt",
        noise: str = "gaussian",
        items_per_person: int | None = None,
        batch: int = 1,
        bound: float = 1.0,
    ) -> float:
        """Expected largest coordinate of one expert's noise at the end: what the noise can cost an expert."""
        if not isinstance(budget, Budget):
            raise TypeError(f"budget must be a Budget such as Budget(1.0, 1e-6), got {checks.shown(budget)}")
        releases = _releases(rounds, batch)
        if not budget.private or releases == 0:
            return 0.0
        spec = sum_spec(n_items, k, releases, sums, noise, items_per_person, bound, batch)
        if noise == "laplace":
            moves = spec.sensitivity(budget.neighbours)
            scale = moves * spec.count / float(budget.share().epsilon)
            return bounds.laplace_pull(n_items, scale, spec.most_draws)
        return bounds.gaussian_pull(n_items, spec.deviation(budget.share()))

    @classmethod
    def _best_batch(
        cls,
        n_items: int,
        k: int,
        rounds: int,
        budget: Budget,
        sums: str,
        noise: str,
        items_per_person: int | None,
        bound: float,
    ) -> int:
        def certified(batch: int) -> float:
            rate = bounds.best_rate(n_items, k, rounds, batch, bound)
            pull = cls.noise_pull(n_items, k, rounds, budget, sums, noise, items_per_person, batch, bound)
            return bounds.hedge(n_items, k, rounds, rate, batch, bound) + k * pull

        grid = sorted({max(1, round(2.0 ** (i / 2))) for i in range(2 * rounds.bit_length())})
        return int(min((batch for batch in grid if batch <= rounds), key=certified))

    # --- the protocol ----------------------------------------------------------------------------

    @property
    def _releases(self) -> int:
        assert self.rounds is not None
        return _releases(self.rounds, self.resample_every)

    def _made_sum(self, event: Event | None = None) -> RunningSum:
        spec = sum_spec(
            self.n_items, self.k, self._releases, self.sums, self.noise, self.items_per_person, self.bound,
            self.resample_every,
        )  # fmt: skip
        return spec.make(self._gate, event=event, label="gains")

    @property
    def _scale(self) -> float:
        """Units in which gains are counted, per 1: a power of two, 2^31 to 2^32 of them to the bound.

        Fewer where a batch is so long that its sum would not be an exact float.
        """
        bits = min(32, 53 - self.resample_every.bit_length())
        return 2.0 ** (bits - math.frexp(self.bound)[1])

    def _due(self) -> bool:
        return self._round % self.resample_every == 0

    def _draw(self) -> NDArray[np.int32]:

        if self._round and self._sum is not None and self._sum.taken < self._releases:
            gains = self._gathered.ravel() / self._scale
            self._gathered = np.zeros_like(self._gathered)  # first: nobody is to be added twice
            self._known = self._sum.add(gains).reshape(self.k, self.n_items)
            self._known = self._known + self._top_up(self._sum)
        shown = np.empty(self.k, dtype=np.int32)
        backends.selectors.draw_ordered(self._known, self.rate, self._coins.generator.random(self.k), shown)
        return shown

    def _top_up(self, total: RunningSum) -> NDArray[np.float64] | float:
        """Extra public noise that keeps a tree's noise from ever falling, as its certificate needs.

        A tree's sums are less noisy right after a power of two. The factorised sums' noise only grows.
        """
        if not isinstance(total, TreeSum) or not self.budget.private:
            return 0.0
        shape = (self.k, self.n_items)
        if self.noise == "laplace":
            # the same number of draws in every sum
            missing = total.spec.most_draws - total.draws(total.taken)
            scale = total.noise_std(1) / math.sqrt(2.0)
            extra = self._coins.generator.laplace(0.0, scale, (missing, *shape))
            return np.asarray(extra.sum(axis=0))
        now = total.noise_std(total.taken)
        self._topped_up = max(self._topped_up, now)
        return self._coins.generator.normal(0.0, math.sqrt(self._topped_up**2 - now**2), shape)

    def _prepared(self, person: Any) -> Population | NDArray[np.int64]:
        """Rows for the compiled loop, or what each item adds for each expert, in whole units."""
        one = self._capped(super()._prepared(person))
        if one.as_rows() is not None:
            return one
        assert self._shown is not None
        gains = answers.gains_along(one, self._shown.tolist(), self.bound)
        most = math.floor(self.bound * self._scale)
        return np.clip(np.floor(gains * self._scale), 0, most).astype(np.int64)

    def _capped(self, people: Population) -> Population:
        return capped(people, self.items_per_person, self._cap_coins, self._round)

    def _absorb(self, person: Population | NDArray[np.int64]) -> None:
        if isinstance(person, Population):
            self._add_rows(person, np.ones(1, dtype=np.bool_), 0)
        else:
            self._gathered += person

    def _add_rows(self, people: Population, admitted: NDArray[np.bool_], first: int) -> None:

        rows = people.as_rows()
        assert rows is not None
        table = rows.sparse
        backends.selectors.add_row_gains(
            rows.kind.code,
            rows.kind.fresh,
            table.indptr,
            table.indices,
            table.data,
            rows.cap,
            first,
            admitted,
            self._shown,
            self._scale,
            math.floor(self.bound * self._scale),
            self._gathered,
        )

    def _run_rows(self, stream: Stream, rows: Rows) -> None:

        people, rewards, selections = stream.people, stream.rewards, stream.selections
        count = rewards.size
        counted = self._capped(people if len(people) == count else people[:count])
        table = rows.sparse
        values = (rows.kind.code, rows.kind.fresh, table.indptr, table.indices, table.data, rows.cap)
        every = self.resample_every
        starts = [0, *range(every - self._round % every, count, every)]
        for batch in track(range(len(starts)), "batches", stream.progress):
            start = starts[batch]
            stop = starts[batch + 1] if batch + 1 < len(starts) else count
            self._next()
            backends.selectors.row_values(*values, start, self._shown, rewards[start:stop])
            assert self._shown is not None
            selections[start:stop] = self._shown
            self._round += stop - start  # first, so that an interruption loses people and never doubles them
            self._open = False
            self._add_rows(counted, stream.admitted[start:stop], start)

    def _spent(self) -> Account:
        whole = self._gate.spent
        return whole if self._sum is not None and self._sum.taken else self._account()

    # --- saving ----------------------------------------------------------------------------------

    def _settings(self) -> dict[str, Any]:
        settings = super()._settings() | {
            "sums": self.sums,
            "noise": self.noise,
            "items_per_person": self.items_per_person,
            "resample_every": self.resample_every,
            "rate": self.rate,
            "topped_up": self._topped_up,
            "coins": self._coins.state(),
            "cap_coins": self._cap_coins.state(),
        }
        if self._sum is not None:
            settings["sum"] = self._sum.state()[0]
        return settings

    def _arrays(self) -> dict[str, NDArray[Any]]:
        arrays: dict[str, NDArray[Any]] = {"gathered": self._gathered, "known": self._known}
        if self._sum is not None:
            arrays |= {f"sum_{name}": array for name, array in self._sum.state()[1].items()}
        return arrays

    def _restore(self, saved: Saved) -> None:
        super()._restore(saved)
        self.sums = saved.one_of("sums", SUMS)
        self.noise = saved.one_of("noise", ("gaussian", "laplace") if self.sums == "tree" else ("gaussian",))
        self.items_per_person = None
        if saved.given("items_per_person"):
            self.items_per_person = saved.whole("items_per_person", at_least=1, at_most=self.n_items)
        self.resample_every = saved.whole("resample_every", at_least=1)
        self.rate, self._topped_up = saved.real("rate", above=0.0), saved.real("topped_up", at_least=0.0)
        self._coins = Coins.restored(saved.inner("coins"))
        self._cap_coins = Coins.restored(saved.inner("cap_coins"))
        shape = (self.k, self.n_items)
        self._known = saved.array("known", shape)
        least = self._drawn(self.resample_every) - 1
        self._sum = self._resumed_sum(saved, self._releases, self._made_sum, least)
        most = math.floor(self.bound * self._scale) * self._gathering(self.resample_every, self._sum)
        self._gathered = saved.array("gathered", shape, np.int64, at_least=0, at_most=most)


def _releases(rounds: int, batch: int) -> int:
    """Sums that a draw can look at: one per batch but the last."""
    return -(-rounds // batch) - 1


def sum_spec(
    n_items: int,
    k: int,
    releases: int,
    sums: str,
    noise: str,
    items_per_person: int | None,
    bound: float,
    batch: int,
) -> SumSpec:
    """The running sum of people's gains, stacked over the experts; a vector for each batch of people."""
    nonzeros = None if items_per_person is None else k * items_per_person
    norm = 1 if noise == "laplace" else 2
    vectors = VectorBounds(k * n_items, norm, None, (0.0, bound), nonzeros, batch)
    reduced = sums == "tree" and noise == "gaussian"
    return SumSpec(vectors, releases, sums, noise, variance_reduction=reduced)
