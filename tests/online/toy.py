"""A toy learner: all that a new learner needs is its file and a registry entry.

It shows the k items whose noisy sums of single values are largest. The contract tests, saving and resuming,
the hostile states, the account and the audit all run over it because they read the registry.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from discreet.objectives import answers
from discreet.objectives.rows import Rows
from discreet.online.examples import N_ITEMS, PURE, PURE_TWICE, ROUNDS, K
from discreet.online.learner import OnlineSelector, SelectorSettings, Stream, common_settings
from discreet.online.registry import REGISTRY, AuditExample, Example, Registered
from discreet.online.sums import PrivateTotal
from discreet.privacy import Account, Budget, Event, SumSpec, VectorBounds, spend_from


@dataclass(frozen=True, kw_only=True)
class ToySettings(SelectorSettings):
    event: Event | None

    @property
    def spec(self) -> SumSpec | None:
        vectors = VectorBounds(self.n_items, 1, box=(0.0, self.bound))
        return SumSpec(vectors, self.horizon - 1, "tree", "laplace") if self.horizon > 1 else None


class ToySelector(OnlineSelector):
    """Noisy popularity."""

    settings: ToySettings
    _settings_type: ClassVar[type[ToySettings]] = ToySettings
    _state: ClassVar[tuple[str, ...]] = ("_total",)

    def __init__(self, n_items, k, rounds, budget, *, bound=1.0, labels=None, seed=None):
        share = spend_from(budget, seed)
        settings = ToySettings(**common_settings(n_items, k, rounds, bound, labels), event=None)
        if settings.spec is not None:
            event = settings.spec.event(share, share.definition)
            settings = ToySettings(**common_settings(n_items, k, rounds, bound, labels), event=event)
        super().__init__(settings, share)

    @property
    def certified_regret(self) -> float:
        return self.settings.bound * self.settings.horizon

    def _begin(self) -> None:
        settings = self.settings
        self._total = PrivateTotal(
            settings.spec, self._gate, settings.event, (settings.n_items,), label="popularity"
        )

    def _due(self) -> bool:
        return True

    def _draw(self) -> NDArray[np.int32]:
        known = self._total.release() if self.round else self._total.released
        return np.argsort(-known, kind="stable")[: self.k].astype(np.int32)

    def _prepared(self, person: Any) -> NDArray[np.float64]:
        one = super()._prepared(person)
        gains: NDArray[np.float64] = answers.gains_along(one, self._shown.tolist(), self.bound)
        return gains[0]

    @property
    def _whole_units(self):
        return (self.n_items,), self.bound

    def _observe(self, person: NDArray[np.float64]) -> None:
        self._total.add(person)

    def _run_rows(self, stream: Stream, rows: Rows) -> None:  # noqa: ARG002
        self._run_one_by_one(stream)

    def _spent(self) -> Account:
        return self._account(*self._total.entries())


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
