"""Meta-Frank-Wolfe for sets under a constraint, through the multilinear extension."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ... import backends
from ...backends.patience import for_one
from ...constraints import Constraint
from ...core import checks
from ...core.progress import track
from ...core.settings import Setting
from ...objectives import Population, answers
from ...objectives.rows.table import Rows
from ...privacy import Seed, spend_from
from ...privacy.spending import Spending
from ...results import Selection
from ..contribution import capped
from ..partial import Counting
from ..people import check_population
from ..protocol import CALIBRATIONS, Stream
from ..released import Known, Released
from ..serving import ServingLearner
from .gradients import SetGradients
from .learner import FrankWolfeLearner, claimed_share
from .set_settings import SetSettings


class MetaFrankWolfe(FrankWolfeLearner, ServingLearner):
    """K linear experts over the polytope of a constraint; their average is rounded to a feasible set.

    Paper 003, Algorithm 3. People are monotone set functions, ``constraint`` is a matroid or a knapsack. The
    experts follow the regularised leader on private sums of multilinear gradients, expert k at the point
    where the first k - 1 stop; their average is a point of the polytope (``point``), and `choose` rounds it
    to a feasible `Selection` with public coins. ``regularizer`` is ``"entropy"`` (the paper's) or
    ``"euclidean"``; by default the one that certifies less regret, which is the Euclidean one where few items
    of each person are counted, and serves real streams better there.

    ``steps`` is K: more steps lose less between them (as 1/K) and share the privacy among more experts (noise
    grows as sqrt(K)). ``"auto"`` takes the best certified number, or 4 where nothing can be certified: on
    real streams 2 to 8 do best, because what few steps lose is a worst case and noise is not.
    ``resample_every=B`` feeds the sums and decides anew every B rounds, at the rate of B = 1 unless
    ``"auto"``. ``items_per_person=m`` counts at most m items of each person (rows only): noise grows with
    sqrt(m) instead of sqrt(n_items). ``curvature=True`` pays expert k with w_k of the gradient and 1 - w_k of
    the least gradient, w_k = (1 - 1/K)^(K - k): the same noise, and 1 - kappa/e of the best set instead of
    1 - 1/e, where kappa is the people's largest curvature; nothing needs to be guessed.
    ``min_separation=s`` is for people who return (`RunningSumSelector`), in batches of ``resample_every``.

    Noise follows from the budget: Gaussian on factorised sums (or a tree) where there is a delta; without
    one, pure epsilon by a tree with Laplace noise. ``calibration="published"`` takes the paper's constants;
    what they really give is in ``privacy`` and, for one expert, in ``expert_epsilon``.

    ``rounds`` are declared, always: the rate, the number of steps and the certificate, which other learners
    under a constraint do not have, are settled for them. Without a horizon there is
    ``LeaderSelector(..., None, budget, constraint=...)``, under any matroid.

    ``bound`` is a public bound of every person's value, and so of every gradient entry. Functions without a
    closed form get gradients averaged over ``samples`` public random sets.

    Formal guarantee: one person moves the stacked payoffs by at most bound sqrt(K min(n, 2 m)) in L2
    (replace; bound n per expert in L1); all else is post-processing. Holds for people chosen with knowledge
    of all earlier decisions.

    >>> import discreet as dc
    >>> people = dc.objectives.Coverage([[1, 0, 0, 1], [0, 1, 0, 0]] * 50)
    >>> one_of_each = dc.constraints.PartitionMatroid([[0, 1], [2, 3]], 1)
    >>> learner = MetaFrankWolfe(one_of_each, len(people), dc.Budget(1.0, 1e-6), steps=2, seed=0)
    >>> one_of_each.contains(learner.choose().items), len(learner.run(people))
    (True, 100)
    """

    settings: SetSettings
    _settings_type: ClassVar[type[SetSettings]] = SetSettings
    _played_type: ClassVar[type[np.generic]] = np.int32
    _noun: ClassVar[str] = "set"

    constraint = Setting("The sets that may be chosen.")
    regularizer = Setting("What keeps the leaders from following noise.")
    curvature = Setting("Whether payoffs are mixed with the least gradient.")
    items_per_person = Setting("How many of a person's items are counted; None for all.")
    samples = Setting("How many random sets stand for a gradient without a closed form.")

    def __init__(
        self,
        constraint: Constraint,
        rounds: int,
        budget: Spending,
        *,
        steps: int | str = "auto",
        regularizer: str | None = None,
        rate: float | None = None,
        curvature: bool = False,
        sums: str = "auto",
        items_per_person: int | None = None,
        resample_every: int | str = 1,
        min_separation: int | None = None,
        bound: float = 1.0,
        samples: int = 200,
        calibration: str = "tight",
        labels: Sequence[Any] | None = None,
        start: Released | ServingLearner | None = None,
        seed: Seed = None,
    ) -> None:
        share = spend_from(budget, seed)
        asked: dict[str, Any] = {"steps": steps, "regularizer": regularizer, "bound": bound}
        asked |= {"samples": samples, "labels": labels}
        if checks.one_of("calibration", calibration, CALIBRATIONS) == "published":
            given = (resample_every, rate, items_per_person, bool(curvature), min_separation)
            if given != (1, None, None, False, None):
                raise ValueError(
                    'calibration="published" feeds every round whole; leave resample_every, rate,'
                    ' items_per_person and curvature out, and min_separation, or take calibration="tight"'
                )
            if sums not in ("auto", "tree"):
                raise ValueError('calibration="published" is a tree with Laplace noise; leave sums out')
            settings = SetSettings.published(constraint, rounds, share, **asked)
            share = claimed_share(settings, share)
        else:
            asked |= {"rate": rate, "curvature": curvature, "sums": sums}
            asked |= {"items_per_person": items_per_person, "resample_every": resample_every}
            asked["min_separation"] = min_separation
            settings = SetSettings.tight(constraint, rounds, share, **asked)
        super().__init__(settings, share, start)

    @property
    def certified_regret(self) -> float:
        """Bound on the expected (1 - 1/e)-regret of the fractional points over the declared rounds.

        Matroid rounding loses nothing of it; a knapsack's loses up to the value of one item a round. With
        ``curvature=True`` it is the (1 - kappa/e)-regret. With ``items_per_person`` it is about the people as
        they are counted; rounds that are not learned from are not in it.
        """
        return self._certified(super().certified_regret)

    # --- deciding --------------------------------------------------------------------------------

    def _begin(self) -> None:
        super()._begin()
        self._gradients = SetGradients(self.settings, self._round_coins)
        self._constraint, self._weights = self.settings.constraint, self.settings.weights

    @property
    def _constrained(self) -> bool:
        return True

    @property
    def _whole_units(self) -> tuple[tuple[int, ...], int]:
        return (self.settings.steps, self.settings.size), self._experts.most

    def _known(self) -> Known:
        return self._total.averages(self._rounds.number, self._width)

    def _start(self, start: Released) -> None:
        """Every expert begins with what items were worth."""
        if start.values is not None:
            typical = float(np.nanmean(start.values))
            known = np.where(np.isnan(start.values), typical, start.values)
            self._total.warm(np.tile(known, (self.settings.steps, 1)), start.people)

    def _ranking(self) -> NDArray[np.float64]:
        return np.asarray(self._total.known.sum(axis=0))

    def _check_enough(self, active: NDArray[np.bool_]) -> None:
        if not active.any():
            raise ValueError("no item would be left")

    def _refit(self) -> None:
        """Points have all items; what is rounded to a set is fitted in every round."""

    def _feasible(self, items: list[int]) -> bool:
        return self.settings.constraint.contains(items)

    @property
    def _width(self) -> int:
        return self._constraint.rank

    def _draw(self) -> NDArray[np.int32]:
        point = self._experts.move(self._rounds.number)
        return self._row_of(self._constraint.round(point, self._coins.generator))

    def _row_of(self, items: Any) -> NDArray[np.int32]:
        row = np.full(self._width, -1, dtype=np.int32)
        row[: len(items)] = items
        return row

    def _decision(self, shown: NDArray[Any]) -> Selection:
        return self._selection(tuple(shown[shown >= 0].tolist()))

    def _row(self, decision: Selection) -> NDArray[np.int32]:
        return self._row_of(decision.items)

    def _worth(self, person: Any, decision: Selection) -> float:
        return answers.number("value", person.value(decision.items), 0.0, self.bound)

    def _could_show(self, shown: NDArray[Any]) -> bool:
        items = shown[: np.count_nonzero(shown >= 0)]
        if not super()._could_show(shown) or (items < 0).any() or np.unique(items).size < items.size:
            return False
        return self._constraint.contains(items)

    # --- learning --------------------------------------------------------------------------------

    def _check_people(self, people: Any) -> None:
        check_population(people, self.settings.size, self.settings.bound)
        if not people.monotone:
            raise ValueError("the learner needs functions that never fall when an item is added (monotone)")

    def _prepared(self, person: Any) -> Population | NDArray[np.int64]:
        """Rows for the compiled loop, or what is paid to each expert in whole units."""
        self._check_people(person)
        if len(person) != 1:
            raise ValueError("learn() takes one person; use run() for a stream")
        one = self._counted(person)
        return one if _closed_form(one.as_rows()) else self._gradients.fed(one, self._experts, self.round)

    def _counted(self, people: Population) -> Population:
        """The people of the rounds to come as they are counted."""
        cap = self.settings.items_per_person
        return people if cap is None else capped(people, cap, self._round_coins, self._rounds.number)

    def _sums_shape(self) -> tuple[int, ...]:
        settings = self.settings
        if settings.items_per_person is not None or settings.participation is not None:
            raise ValueError("items_per_person= and min_separation= go by rounds, which a part does not know")
        return self._whole_units[0]

    def _counting(self) -> Counting:
        experts = self._experts
        return partial(_row_units, experts.points[:-1].copy(), self._weights, experts.units, experts.most)

    def _batch(self) -> int:
        return self.settings.batch_start(self.settings.batch_at(self._rounds.number))

    def _room(self) -> int:
        every = self.settings.resample_every
        return every - self._rounds.number % every

    def _gather(self, sums: NDArray[np.int64], count: int) -> None:
        del count
        self._total.gather(sums)

    def _absorb(self, person: Population | NDArray[np.int64]) -> None:
        if isinstance(person, Population):
            self._add_rows(person, np.ones(1, dtype=np.bool_), 0)
        else:
            self._total.gather(person)

    def _add_rows(self, people: Population, within_limit: NDArray[np.bool_], first: int) -> None:
        experts = self._experts
        asked = experts.points[:-1], self._weights, experts.units, experts.most, experts.total.gathered
        _add_gradients(people, first, within_limit, *asked)

    def _run_stream(self, stream: Stream) -> None:
        rows = stream.people.as_rows()
        compiled = rows is not None and _closed_form(rows) and self._catalogue.active is None
        if rows is not None and compiled and not self._can_wait(stream.rewards.size):
            self._run_rows(stream, rows)
        else:
            self._run_one_by_one(stream)

    def _loop(self) -> Any:
        return backends.frank_wolfe.add_row_gradients

    def _run_rows(self, stream: Stream, rows: Rows) -> None:
        people, rewards = stream.people, stream.rewards
        count = rewards.size
        counted = self._counted(people if len(people) == count else people[:count])
        table = rows.sparse
        values = (rows.kind.code, rows.kind.fresh, table.indptr, table.indices, table.data, rows.cap)
        every = self.settings.resample_every
        starts = [0, *range(every - self._rounds.number % every, count, every)]
        for batch in track(range(len(starts)), "batches", stream.progress):
            start = starts[batch]
            stop = starts[batch + 1] if batch + 1 < len(starts) else count
            self._next()
            shown = self._shown
            backends.selectors.row_values(*values, start, shown[shown >= 0], rewards[start:stop])
            stream.selections[start:stop] = shown
            learned = partial(self._add_rows, counted, stream.within_limit[start:stop], start)
            self._rounds.close(stop - start, then=learned)


def _closed_form(rows: Rows | None) -> bool:
    """Whether the compiled loop knows these rows' multilinear gradient."""
    return rows is not None and rows.kind.code in backends.frank_wolfe.CLOSED_FORMS


def _add_gradients(people: Population, first: int, within_limit: NDArray[np.bool_], *asked: Any) -> None:
    """Add what people who are rows pay each expert; see `add_row_gradients`."""
    rows = people.as_rows()
    assert rows is not None
    table = rows.sparse
    arrays = table.indptr, table.indices, table.data
    loop = backends.frank_wolfe.add_row_gradients
    if rows.n_rows == 1:
        loop = for_one(loop, table.indices.size, asked[0].shape[0])
    loop(rows.kind.code, *arrays, first, within_limit, *asked)


def _row_units(
    points: NDArray[np.float64], weights: NDArray[np.float64], units: float, most: int, person: Population
) -> NDArray[np.int64]:
    """What a person, or people who are rows, pay each expert, in whole units."""
    if not _closed_form(person.as_rows()):
        raise ValueError("random sets for gradients go by rounds, which a part does not know; give rows")
    paid = np.zeros(points.shape, dtype=np.int64)
    _add_gradients(person, 0, np.ones(len(person), dtype=np.bool_), points, weights, units, most, paid)
    return paid
