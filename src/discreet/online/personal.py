"""Personal sets from one running sum of matrices, which hold popularity and pairs of items."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..core import checks
from ..core.options import SumMethod
from ..kernels.pairs import UNIT, add_unit_pairs, add_units
from ..objectives import Population, ProbabilisticCoverage, answers
from ..personal import Factors, PairPlan, Recommender, everywhere, known_items, public_features
from ..privacy import Event, Gate, Participation, Seed, Share, SumSpec, VectorBounds
from ..privacy.accountant import Spending
from ..privacy.prefix_sum import METHODS
from ..results import Selection
from .catalogue import Request
from .learner import OnlineSelector, SelectorSettings, common_settings, tightened
from .partial import Counting
from .released import Pooled, Released
from .sums import BatchedSum, first_batch_within, geometric_ends, masked, released_sum

# In a person's matrix pairs have the weight 243/256 and popularity 80/256: .90 and .10 of the squared norm,
# together less than 1. Sums over the longest batch are exact as floats.
_PAIRS, _POPULARITY, _ONE = 243, 80, 256
_UNITS = _ONE * UNIT**2
_LONGEST = 1 << 21
MOST_ITEMS = 1000


@dataclass(frozen=True, kw_only=True)
class PersonalSettings(SelectorSettings):
    """Settings of `PersonalSelector`."""

    sums: str = "sqrt"
    first_batch: int
    features: tuple[tuple[float, ...], ...] | None = None  # a row of length 1 for each item
    event: Event | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.one_of("sums", self.sums, METHODS)
        public_features(self.features, self.n_items)
        if self.n_items > MOST_ITEMS:
            raise ValueError(
                f"n_items={self.n_items} exceeds {MOST_ITEMS}: every release has n_items^2 numbers; offer"
                " fewer items, or fit an offline.PrivateRecommender now and then"
            )

    @classmethod
    def tight(
        cls, n_items: int, k: int, rounds: int | None, share: Share, **options: Any
    ) -> PersonalSettings:
        """Settings for the options of a `PersonalSelector`, with the least noise that fits.

        The first batch has 8 people per standard deviation of the first sum's noise on popularity.
        """
        first = options.pop("first_batch", None)
        options["participation"] = Participation.declared(share, options.pop("min_separation", None))
        given = common_settings(n_items, k, rounds, **options)
        about = public_features(given.pop("features", None), given["n_items"], given["labels"])
        given["features"] = None if about is None else tuple(map(tuple, about.tolist()))
        if first is None:
            first = min(_LONGEST, first_batch_within(cls, given, share, _POPULARITY / _ONE))
        first = checks.whole("first_batch", first, at_least=1, at_most=_LONGEST)
        return cls(**given, first_batch=first).noisy(share)

    @cached_property
    def ends(self) -> Sequence[int]:
        """The rounds before which a sum is released."""
        return geometric_ends(self.first_batch, self.rounds, _LONGEST)

    @cached_property
    def spec(self) -> SumSpec | None:
        """The running sum of people's matrices; None where nothing is released."""
        longest = self.first_batch if len(self.ends) < 2 else self.ends[-1] - self.ends[-2]
        vectors = VectorBounds((self.n_items + 1) * self.n_items, 2, 1.0, (0.0, 1.0), None, longest)
        return released_sum(self, vectors, len(self.ends))

    @cached_property
    def own_sets_after(self) -> int | None:
        """The number of people from which pairs are used, by public sizes alone; None if they never are."""
        if self.spec is None or self.event is None:
            return None
        for count, people in enumerate(self.ends, 1):
            noise = self.spec.noise_std(self.event, count) * _ONE / _PAIRS
            if PairPlan.of(people, self.n_items, noise).paired:
                return people
        return None


class PersonalSum(BatchedSum):
    """Private sums of people's matrices: the first row is a person's unit vector, the others its products."""

    settings: PersonalSettings

    def __init__(self, settings: PersonalSettings, gate: Gate) -> None:
        shape = (settings.n_items + 1, settings.n_items)
        how: dict[str, Any] = {"units": float(_UNITS), "most": _PAIRS * UNIT**2, "scale": _ONE / _POPULARITY}
        super().__init__(settings, gate, shape, label="popularity and pairs of items", **how)

    def drawn(self, number: int, active: NDArray[np.bool_] | None, pool: Pooled | None) -> NDArray[np.int32]:
        """The most popular items; a random set before anything was released."""
        known = self.known(number, pool)
        scores = self.public.generator.random(self.settings.n_items) if known is None else known[0]
        scores = scores if active is None else masked(scores, active)
        return np.argsort(-scores, kind="stable")[: self.settings.k].astype(np.int32)

    def ranking(self, number: int, pool: Pooled | None) -> NDArray[np.float64]:  # noqa: ARG002
        return np.array(self.released[0], dtype=np.float64)

    def model(self) -> tuple[NDArray[np.float64], tuple[NDArray[np.int64], Factors] | None, int, str]:
        """Released means, factors of the released pairs where they are used, the people covered, and why."""
        people = self.settings.batch_start(self.count)
        sums = self.released * (_ONE / _POPULARITY)
        noise = self._noise * _ONE / _PAIRS
        plan, model = PairPlan.of(people, self.settings.n_items, noise), None
        if plan.paired:
            kept = np.sort(np.argsort(-sums[0], kind="stable")[: plan.paired])
            pairs = self.released[1:][np.ix_(kept, kept)] * (_ONE / _PAIRS)
            model = kept, Factors.of(sums[0][kept], pairs, people, noise)
        return sums[0] / people, model, people, plan.reason

    def units_of(self, shown: NDArray[np.int32]) -> Counting:
        return partial(_units, self.settings.bound, shown)

    def add_rows(
        self,
        people: Population,
        first: int,
        within_limit: NDArray[np.bool_],
        shown: NDArray[np.int32],  # noqa: ARG002
    ) -> None:
        _add(people, first, within_limit, self.pending)


def _units(bound: float, shown: NDArray[np.int32], person: Any) -> NDArray[np.int64]:
    """The matrix of a person, or the sum over people given as rows, in units.

    A function that is not a row is represented by its values of single items; it is also evaluated on the
    set that is shown, and refused if its answers are invalid.
    """
    if person.as_rows() is None:
        alone, _ = answers.leave_one_out(person, shown.tolist(), bound)
        kept = np.flatnonzero(alone > 0.0)
        person = ProbabilisticCoverage.of_row(person.n_items, kept, np.minimum(alone[kept] / bound, 1.0))
    out = np.zeros((person.n_items + 1, person.n_items), dtype=np.int64)
    _add(person, 0, np.ones(len(person), dtype=np.bool_), out)
    return out


def _add(people: Population, first: int, within_limit: NDArray[np.bool_], out: NDArray[np.int64]) -> None:
    rows = people.as_rows()
    assert rows is not None
    who = (rows.sparse.view, first, within_limit, everywhere(people.n_items))
    add_units(*who, _POPULARITY * UNIT, out[0])
    add_unit_pairs(*who, _PAIRS, out[1:])


class PersonalSelector(OnlineSelector):
    """Show each person a set of their own, from a private model that improves as people come.

    What people take (``learn(items=...)``: everything they had and took, so that pairs can be seen) is summed
    in one running sum of matrices, which is released after ``first_batch`` people and then after batches each
    1.15 times as long as the one before, as with a `LeaderSelector`. ``choose(history=...)`` computes a set
    from the latest release and the history, as a `personal.Recommender` does; the history is not stored.
    Without a history, and as long as n x mu is below 350, the most popular items are shown; before the first
    release, a random set. Sets have fewer than k items where a history leaves fewer. ``recommender`` is the
    latest model, which is public: it can be saved, exported, and queried elsewhere. ``features`` are public
    facts about the items, as in `offline.PrivateRecommender`: after the first release, items similar to the
    history rank higher, even while only popularity is known.

    Formal guarantee: joint differential privacy (`discreet.personal`). All releases together are
    (epsilon, delta)-DP in anybody's data: a person's matrix (a u u', b u) has L2 norm at most 1 and no
    negative entry, where |u| <= 1 and a^2 + b^2 <= 1, so that one person moves one sum by at most sqrt 2 in
    L2 when replaced, by 1 when added or removed. A person's own set also depends on their own history: it is
    for them alone. ``run`` shows the popular set, the same to everybody. Holds for people chosen with
    knowledge of all earlier releases. Noise is Gaussian, so the budget needs a delta.

    Values of shown sets (bandit feedback) are not learned from: with personal sets it is not public what was
    shown, so learning from their values would also release what was shown. `BanditSelector` and
    `ThompsonSelector`, which show the same set to everybody, are for that.

    Items can be retired; new ones need a new learner, as pairs with them would cover fewer people than their
    means. With ``start=`` it begins with another learner's last set, and counts pairs from zero. There can be
    at most 1,000 items: every release has n_items^2 numbers.

    >>> import numpy as np, discreet as dc
    >>> tastes = [["tea", "milk"], ["beer", "nuts"]]
    >>> shop = PersonalSelector(4, 1, None, dc.Budget(2.0, 1e-6), labels=sum(tastes, []), seed=0)
    >>> for t in range(4000):
    ...     shown = shop.choose()
    ...     shop.learn(items=tastes[t % 2], person_id=t)
    >>> shop.choose(history=["tea"]), shop.choose(history=["nuts"])
    (Selection(round 4000: milk), Selection(round 4000: beer))
    """

    settings: PersonalSettings
    _sum: PersonalSum
    _settings_type: ClassVar[type[PersonalSettings]] = PersonalSettings
    _state = ("_sum",)

    def __init__(
        self,
        n_items: int,
        k: int,
        rounds: int | None,
        budget: Spending,
        *,
        first_batch: int | None = None,
        min_separation: int | None = None,
        sums: SumMethod = "sqrt",
        features: Any = None,
        bound: float = 1.0,
        labels: Sequence[Any] | None = None,
        start: Released | OnlineSelector | None = None,
        seed: Seed = None,
    ) -> None:
        super().__init__(*tightened(PersonalSettings, locals()))

    def _begin(self) -> None:
        self._sum = PersonalSum(self.settings, self._gate)
        self._numbers = {label: item for item, label in enumerate(self.settings.labels or ())}
        self._about = None if self.settings.features is None else np.array(self.settings.features)
        self._model: tuple[int, Recommender] | None = None  # the number of releases, and the model from them

    @property
    def recommender(self) -> Recommender | None:
        """The model from the latest release, which is public; None before the first one."""
        with self._turns.look():
            return self._latest() if self._sum.count else None

    def choose(
        self,
        *,
        history: Iterable[Any] | Mapping[Any, float] | None = None,
        wait: bool = True,
        available: Iterable[Any] | None = None,
        exclude: Iterable[Any] | None = None,
        include: Iterable[Any] | None = None,
    ) -> Selection:
        """The set for this round, for a person with this ``history``; see `OnlineSelector.choose`.

        ``history``: items the person has, or a weight for each. It is used for this set and not stored. Its
        items are not shown, unless they are in ``include``. Before the first release the round's set is
        shown, without them.
        """
        with self._turn("choose()"):
            request = self._request(available, exclude, include)
            # First, so that a refused history does not use up a round.
            own, weights = known_items([] if history is None else history, self.n_items, self._numbers)
            if not wait and self._rounds.is_open and not self._rounds.over:
                self._pass_on()
            shown = self._fitted(self._next(), request)
            if history is None:
                return shown
            request = request or Request(self._active(), ())
            allowed, first = request.allowed, request.first
            if not self._sum.count:
                allowed[[item for item in own.tolist() if item not in first]] = False
                return self._selection(self._catalogue.served(shown.items, self._ranking, request))
            allowed[own] = False
            model = self._latest()
            found = model._chosen(model._scored(own, weights), self.k, allowed, first)
            return Selection(found.items, shown.round, found.labels, included=found.included)

    def _given(self, person: Any, items: Any) -> Any:
        if isinstance(person, int | float | np.number) and items is None:
            raise TypeError(
                "expected a person's function or items=, not the value of a shown set: with personal sets it"
                " is not public what was shown, and learning from it would release that, too; give what was"
                " taken, or show everybody the same set (BanditSelector, ThompsonSelector)"
            )
        return super()._given(person, items)

    def _latest(self) -> Recommender:
        count = self._sum.count
        if self._model is None or self._model[0] != count:
            means, factors, people, reason = self._sum.model()
            provenance = (self.privacy, reason)
            self._model = count, Recommender.of(means, factors, people, self.labels, provenance, self._about)
        return self._model[1]
