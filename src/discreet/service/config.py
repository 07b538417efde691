"""What an experiment and a population are asked to be: read from requests and files, checked as a whole."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

Feedback = Literal["likes", "taken", "value"]
Period = Literal["none", "day", "week", "month"]


class PopulationConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """People with one budget per period, for all experiments about them."""

    epsilon: float
    delta: float = 0.0
    neighbours: Literal["replace", "add_remove"] = "replace"
    max_rounds_per_person: int = 1
    notion: Literal["pure", "zcdp", "gdp"] = "pure"
    period: Period = "month"


class ConstraintConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """At most so many items of each group, for example one of each category."""

    groups: dict[str, list[str]]
    limits: dict[str, int] = {}


class ExperimentConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A few of these items for everybody who comes.

    ``feedback`` is what outcomes tell: "likes" (all items that the person would take, whatever was shown),
    "taken" (which of the shown items was taken, or none) or "value" (what the set was worth, from 0 to
    ``bound``). ``share`` is the part of the population's budget, and ``measure`` the part of that for the
    released shares of people served. ``outcome_wait`` seconds after its hand is over, a decision without an
    outcome counts as "took nothing". ``holdout`` is the part of decisions that are random sets, to compare
    with. ``hand`` is how many decisions are dealt at a time; by default as many as come in a few
    seconds. ``segments`` are the values of a public attribute, such as countries: each has a learner of its
    own, and every decision names one. ``seed`` is for tests: whoever knows it can undo the noise, and the
    account says so.
    """

    items: list[str]
    k: int
    feedback: Feedback = "likes"
    learner: str = "auto"
    options: dict[str, Any] = {}
    constraint: ConstraintConfig | None = None
    rounds: int | None = None
    bound: float = 1.0
    share: float = 1.0
    measure: float = 0.1
    holdout: float = 0.05
    outcome_wait: float = 600.0
    hand: int | None = None
    warm_start: float = 0.5
    segments: list[str] = []
    seed: int | None = None

    @property
    def queues(self) -> list[str]:
        """The segments, each with hands of its own; one without a name where there are none."""
        return self.segments or [""]


def encoded(config: msgspec.Struct) -> str:
    """As JSON."""
    return msgspec.json.encode(config).decode()
