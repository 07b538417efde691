"""Ordered experts of any kind: one private learner of a single item for each place in the set."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import Any, NoReturn, Protocol

import numpy as np
from numpy.typing import NDArray

from ..bounds import trivial
from ..core import checks
from ..core.guards import Turns, fixed
from ..objectives import FacilityLocation, Population, answers
from ..objectives.losses import Linear
from ..privacy import Budget, Seed, Share, spend_from
from ..privacy.account import Account
from ..privacy.accountant import Spending
from ..results import Selection, Trace
from .convex import PointLearner
from .hedge import HedgeSelector
from .learner import OnlineLearner, OnlineSelector
from .people import ContributionLimit, check_population
from .registry import REGISTRY
from .running_sums import RunningSumSelector


class Expert(Protocol):
    """A user-defined learner: everything that it derives from gains must be released through its share."""

    def choose(self) -> Sequence[int] | NDArray[np.float64]:
        """An item, as a set of one, or probabilities of all items, from which public randomness draws one."""

    def learn(self, gains: NDArray[np.float64], /) -> None:
        """Each item's marginal gain in this round, in [0, bound]; all 0 for a person over their limit."""


@fixed
class Experts:
    """k ordered experts of any kind; the i-th learns items' marginal gains given the earlier experts' items.

    Paper 000 remarks (Section 3) that its Hedge experts can be replaced by any private no-regret learner.
    ``make(share)`` creates one that spends the share it is given, a k-th part of the budget: an
    `OnlineSelector` of one item (`HedgeSelector`, `RunningSumSelector`, ...), a learner of points of
    `Simplex(n_items)` (`LinearLeader`, `ApproximateLeader`, which is paper 004's PFTAL), or a user-defined
    `Expert`. Published constants need a budget of their own and cannot spend a share: paper 000's PFTAL
    experts with published constants are ``RunningSumSelector(..., calibration="published")``.

    A set is the union of the experts' items, as in the paper, and may have fewer than k. Where all experts
    are of the same kind, `HedgeSelector` and `RunningSumSelector` do better: one account, and no item twice.

    Formal guarantee: that of the budget, if experts release what they learn only through their share. What an
    expert learns from depends on a person and on released items; all releases are charged at one gate, in any
    order (adaptive composition). It also holds where people react to earlier sets.

    Regret: the sum of the experts' own regrets against the best item (Proposition 3), for streams fixed in
    advance. An expert's draws do not influence its own input, so certificates for such streams hold for each.
    ``certified_regret`` trusts the certificates of user-defined experts; it is infinite if one has none.

    >>> import discreet as dc
    >>> people = dc.objectives.Coverage([[1, 0, 0], [0, 1, 0]] * 50)
    >>> def make(share):
    ...     return dc.online.HedgeSelector(3, 1, 100, share)
    >>> learner = Experts(make, 2, dc.Budget(1.0, 1e-6), n_items=3, seed=0)
    >>> len(learner.run(people)), learner.privacy.epsilon() <= 1.0
    (100, True)
    """

    def __init__(
        self,
        make: Callable[[Share], Expert | OnlineSelector | PointLearner],
        k: int,
        budget: Spending,
        *,
        n_items: int,
        bound: float = 1.0,
        seed: Seed = None,
    ) -> None:
        if not callable(make):
            raise TypeError(f"make must be a function that makes an expert, got {checks.shown(make)}")
        self.n_items = checks.whole("n_items", n_items, at_least=2)
        self.k, self.bound = checks.whole("k", k, at_least=1, at_most=self.n_items), checks.bound(bound)
        spending = spend_from(budget, seed)
        assert spending.gate is not None
        self._gate = spending.gate
        self._public = self._gate.public_randomness()
        self._limit = ContributionLimit(self.budget.max_rounds_per_person, self._gate.key())
        definition = None
        if spending.private:  # one that all kinds of experts can spend in, fixed before the first of them
            definition = spending.definition or ("zcdp" if spending.delta else "pure")
            self._gate.split(1, definition=definition)
        part = replace(spending, fraction=spending.fraction / self.k, definition=definition, own_gate=False)
        self.experts = tuple(make(replace(part)) for _ in range(self.k))
        if len(set(map(id, self.experts))) < self.k:
            raise ValueError("make gave the same object twice: make a new expert in every call, of its share")
        for expert in self.experts:
            self._check(expert)
        self._shown: NDArray[np.int64] | None = None
        self._round, self._turns = 0, Turns("experts")

    def _check(self, expert: Any) -> None:
        """Refuse an expert for other items, one without full information, or one that spends elsewhere."""
        if isinstance(expert, OnlineSelector) and (expert.n_items, expert.k) != (self.n_items, 1):
            raise ValueError(
                f"make made a learner of {expert.k} of {expert.n_items} items; an expert chooses 1 of"
                f" {self.n_items}"
            )
        if isinstance(expert, PointLearner) and expert.settings.domain.dimension != self.n_items:
            raise ValueError(f"make made a learner of other points than those of Simplex({self.n_items})")
        known = REGISTRY.get(type(expert).__name__)
        if known is not None and known.learns_from not in ("function", "loss", "cost_vector"):
            raise ValueError(
                f"{type(expert).__name__} learns from less than what every item would have added; take one"
                " that learns from functions or costs"
            )
        if not (callable(getattr(expert, "choose", None)) and callable(getattr(expert, "learn", None))):
            raise TypeError(f"make must make a learner with choose() and learn(), got {checks.shown(expert)}")
        own = isinstance(expert, OnlineSelector | PointLearner)
        if own and expert._gate._accountant is not self._gate._accountant:
            raise ValueError("make must make a new learner that spends from the share it is given")

    @property
    def round(self) -> int:
        """How many rounds have been learned from or passed."""
        return self._round

    @property
    def budget(self) -> Budget:
        """The budget of all experts together."""
        return self._gate.budget

    @property
    def privacy(self) -> Account:
        """The account of everything declared at the experts' gate."""
        return self._gate.spent

    @property
    def certified_regret(self) -> float:
        """Bound on the expected (1 - 1/e)-regret over the experts' rounds; infinite where none is known."""
        regret = math.fsum(_own_regret(expert) for expert in self.experts)
        rounds = getattr(self.experts[0], "rounds", None)
        return regret if rounds is None else min(regret, trivial(rounds, self.bound))

    def choose(self) -> Selection:
        """The set for this round, in the order of the experts."""
        with self._turns.take("choose()"):
            return Selection(tuple(dict.fromkeys(self._next().tolist())), self.round)

    def _next(self) -> NDArray[np.int64]:
        """Each expert's item in this round."""
        if self._shown is None:
            items = [self._item(expert.choose()) for expert in self.experts]
            self._shown = np.array(items, dtype=np.int64)
        return self._shown

    def _item(self, decision: Any) -> int:
        if isinstance(decision, np.ndarray) and decision.shape == (self.n_items,):
            summed = np.cumsum(answers.vector("choose()", decision, self.n_items, 0.0, 1.0))
            place = int(np.searchsorted(summed, self._public.generator.random() * summed[-1], side="right"))
            return min(place, int(np.flatnonzero(decision > 0.0)[-1]))
        (item,) = decision
        return checks.whole("choose()", item, at_least=0, at_most=self.n_items - 1)

    def learn(self, person: Population, *, person_id: Hashable | None = None) -> None:
        """Let every expert learn the marginal gain of each item given the earlier experts' items.

        From a person with a ``person_id`` no more rounds are learned than the budget allows.
        """
        with self._turns.take("learn()"):
            self._learn(person, person_id)

    def _learn(self, person: Population, person_id: Hashable | None) -> None:
        check_population(person, self.n_items, self.bound, monotone=True, one="learn() takes one person")
        if self._shown is None:
            raise RuntimeError("learn() comes after choose(): this round's set has not been asked for yet")
        gains = self._gains(person, self._shown.tolist())
        if person_id is None:  # refused before the round has passed
            for expert in self.experts:
                if isinstance(expert, OnlineLearner):
                    expert._contribution.check_named(None)
        self._gate.add_caveats(*person.caveats)
        nobody = not self._limit.register(person_id)
        # First, so that an interruption may lose a person but never counts one twice.
        self._shown, self._round = None, self._round + 1
        for expert, added in zip(self.experts, gains, strict=True):
            if isinstance(expert, OnlineSelector):
                expert.learn(FacilityLocation([added], bound=self.bound), person_id=person_id)
            elif isinstance(expert, PointLearner):
                longest = self.bound * math.sqrt(self.n_items)
                expert.learn(Linear([-added], row_norm=longest), person_id=person_id)
            else:
                expert.learn(np.zeros(self.n_items) if nobody else added.copy())

    def _gains(self, person: Population, shown: list[int]) -> list[NDArray[np.float64]]:
        """For each expert, every item's marginal gain given the earlier experts' items, which may repeat."""
        distinct = list(dict.fromkeys(shown))
        if len(distinct) < self.k:  # one more item, so that gains given all distinct items are returned too
            distinct.append(next(item for item in range(self.n_items) if item not in distinct))
        rows = answers.gains_along(person, distinct, self.bound)
        return [rows[len(set(shown[:place]))] for place in range(self.k)]

    def run(self, people: Population) -> Trace:
        """Process a stream, one person after the other."""
        check_population(people, self.n_items, self.bound, monotone=True)
        rewards, selections = np.empty(len(people)), np.empty((len(people), self.k), dtype=np.int32)
        with self._turns.take("run()"):
            for t in range(len(people)):
                shown = self._next()
                rewards[t], selections[t] = people[t].value(tuple(dict.fromkeys(shown.tolist()))), shown
                self._learn(people[t], None)
        return Trace(rewards, selections, type(self).__name__)

    def __reduce__(self) -> NoReturn:
        raise TypeError("experts are not copied or pickled: their budget could be spent twice")

    def __repr__(self) -> str:
        kinds = ", ".join(dict.fromkeys(type(expert).__name__ for expert in self.experts))
        return f"Experts({kinds}: {self.k} of {self.n_items:,} items, round {self.round:,})"


def _own_regret(expert: Any) -> float:
    """An expert's certified regret against the best item, in a stream independent of its draws."""
    if isinstance(expert, OnlineSelector):
        about = expert.settings
        weighted = getattr(about, "weights", None) or getattr(about, "items_per_person", None)
        if not isinstance(expert, HedgeSelector | RunningSumSelector) or weighted:
            return math.inf  # its certificate is for exchangeable streams, or for weighted people
    return float(getattr(expert, "certified_regret", math.inf))
