"""A toy learner: all that a new learner needs is its file and a registry entry.

It shows the k items whose noisy sums of single values are largest. The contract tests, saving and resuming,
the hostile states, the account and the audit all run over it because they read the registry.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import numpy as np

from discreet.objectives import answers
from discreet.online.examples import N_ITEMS, PURE, PURE_TWICE, ROUNDS, K
from discreet.online.learner import OnlineSelector, SelectorSettings, asked, common_settings
from discreet.online.registry import REGISTRY, AuditExample, Example, Registered
from discreet.online.sums import BatchedSum, masked
from discreet.privacy import Budget, Event, SumSpec, VectorBounds, spend_from


@dataclass(frozen=True, kw_only=True)
class ToySettings(SelectorSettings):
    event: Event | None = None

    @property
    def spec(self) -> SumSpec | None:
        vectors = VectorBounds(self.n_items, 1, box=(0.0, self.bound))
        return SumSpec(vectors, self.horizon - 1, "tree", "laplace") if self.horizon > 1 else None


class ToySum(BatchedSum):
    def _draw_public(self, gate):  # noqa: ARG002
        self.public = None  # sets follow from the sums alone

    def drawn(self, number, active, pool):  # noqa: ARG002
        scores = self.released if active is None else masked(self.released, active)
        return np.argsort(-scores, kind="stable")[: self.settings.k].astype(np.int32)

    def units_of(self, shown):
        return partial(_units, self._units, self.settings.bound, shown)


def _units(units, bound, shown, person):
    gains = answers.gains_along(person, shown.tolist(), bound)
    return np.floor(gains[0] * units).astype(np.int64)


class ToySelector(OnlineSelector):
    """Noisy popularity."""

    settings: ToySettings
    _settings_type: ClassVar[type[ToySettings]] = ToySettings
    _state: ClassVar[tuple[str, ...]] = ("_sum",)

    def __init__(self, n_items, k, rounds, budget, *, bound=1.0, labels=None, seed=None):
        options, share = asked(locals()), spend_from(budget, seed)
        settings = ToySettings(**common_settings(**options))
        if settings.spec is not None:
            settings = replace(settings, event=settings.spec.event(share, share.definition))
        super().__init__(settings, share)

    @property
    def certified_regret(self) -> float:
        return self.settings.bound * self.settings.horizon

    def _begin(self) -> None:
        shape, units = (self.settings.n_items,), 2.0**20
        how = {"units": units, "most": int(self.settings.bound * units), "label": "popularity"}
        self._sum = ToySum(self.settings, self._gate, shape, **how, disjoint=False)


def _examples() -> dict[str, Example]:
    shape = (N_ITEMS, K, ROUNDS)
    return {"toy": Example(shape, PURE), "toy, two rounds each": Example(shape, PURE_TWICE)}


def _audits() -> list[AuditExample]:
    return [AuditExample((3, 1, 4), Budget(1.0), words="1 of 3 items", columns=3, publishes="set")]


# One entry, and every learner's tests are its tests.
ENTRY = Registered(__name__, "function", _examples, _audits)
# The library's own learners, whether or not the toy has been registered; and the toy among them.
LIBRARY = {name: entry for name, entry in REGISTRY.items() if name != "ToySelector"}
WITH_TOY = LIBRARY | {"ToySelector": ENTRY}


def register() -> None:
    REGISTRY["ToySelector"] = ENTRY
