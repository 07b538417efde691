"""A toy learner and its entry for the registry: it shows the k items whose noisy sums are largest."""

from dataclasses import dataclass
from functools import partial

import numpy as np

from discreet.objectives import answers
from discreet.online.learner import OnlineSelector, SelectorSettings, tightened
from discreet.online.registry import AuditExample, Example
from discreet.online.sums import BatchedSum, masked
from discreet.privacy import Budget, Event, SumSpec, VectorBounds
from tests.online.examples import N_ITEMS, PURE, PURE_TWICE, ROUNDS, K


@dataclass(frozen=True, kw_only=True)
class ToySettings(SelectorSettings):
    event: Event | None = None

    @property
    def spec(self) -> SumSpec | None:
        vectors = VectorBounds(self.n_items, 1, box=(0.0, self.bound))
        return SumSpec(vectors, self.horizon - 1, "tree", "laplace") if self.horizon > 1 else None

    certified_regret = property(lambda self: self.bound * self.horizon)


class ToySum(BatchedSum):
    def _draw_public(self, gate):  # noqa: ARG002
        self.public = None  # sets follow from the sums alone

    def drawn(self, number, active, pool):  # noqa: ARG002
        scores = self.released if active is None else masked(self.released, active)
        return np.argsort(-scores, kind="stable")[: self.settings.k].astype(np.int32)

    def units_of(self, shown):
        return partial(_units, self._units, self.settings.bound, shown)


def _units(units, bound, shown, person):
    return np.floor(answers.gains_along(person, shown.tolist(), bound)[0] * units).astype(np.int64)


class ToySelector(OnlineSelector):
    _settings_type = ToySettings
    _state = ("_sum",)

    def __init__(self, n_items, k, rounds, budget, *, bound=1.0, labels=None, start=None, seed=None):
        super().__init__(*tightened(ToySettings, locals()))

    def _begin(self) -> None:
        how = {"units": 2.0**20, "most": int(self.bound * 2.0**20), "label": "popularity"}
        self._sum = ToySum(self.settings, self._gate, (self.n_items,), **how, disjoint=False)


BUDGETS = {"toy": PURE, "toy, two rounds each": PURE_TWICE}
EXAMPLES = {words: Example((N_ITEMS, K, ROUNDS), budget) for words, budget in BUDGETS.items()}
AUDITS = [AuditExample((3, 1, 4), Budget(1.0), words="1 of 3 items", columns=3, publishes="set")]
