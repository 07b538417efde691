"""An experiment's learner with its gate: hands are dealt from it, and folded into it.

With "likes" every served place is a round, in order, and somebody without an outcome has taken nothing: where
batches end depends on how many were served, and on nobody's data. A hand shows what the learner shows when it
is dealt. With "taken" and "value" rounds are dealt ahead (``choose(wait=False)``) and their outcomes learned
late. After a crash all places of a hand count as served that may have been.

Beside what the learner releases, the parts of people who were served leave in blocks of places, for the
learner's sets and for the random ones of the hold-out. Each round is in one block and moves one of the two
counts by at most 1 (values are divided by their ``bound``): Laplace noise for sensitivity 1, charged once for
disjoint blocks, at what the budget has for one of a person's rounds.
"""

from __future__ import annotations

import inspect
import json
import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import msgspec
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ..constraints import PartitionMatroid
from ..core import checks
from ..core.state import Saved
from ..objectives import Coverage
from ..online.protocol import OnlineLearner
from ..online.registry import REGISTRY
from ..online.released import Released
from ..online.serving import ServingLearner
from ..online.total import BatchTotal
from ..privacy import Gate, LaplaceNoise
from ..privacy.conversions import exact
from .config import ExperimentConfig
from .hands import Hand

SHARES = "parts of people who were served"
_SPARE = 64  # items that can stand in for excluded ones, beside those of a set
_FINEST = Fraction(1, 1 << 20)
# A block of measured places is so many times as large as the noise, and this part of all places before it:
# the noise of all blocks together then grows with the logarithm of their number.
_SURE, _PART = 30.0, 0.2

Outcomes = Mapping[int, tuple[bool, bytes | None]]  # by place: whether altered, and what came of it


def learner_of(config: ExperimentConfig) -> str:
    """The learner that was asked for, or the one that needs no horizon and serves most."""
    if config.learner != "auto":
        return config.learner
    return "LeaderSelector" if config.feedback == "likes" else "ThompsonSelector"


class Learning:
    """The learner of one epoch of an experiment."""

    def __init__(
        self, config: ExperimentConfig, gate: Gate, learner: ServingLearner, measured: BatchTotal | None
    ) -> None:
        self.config, self.gate, self.learner = config, gate, learner
        self._measured = measured
        self._numbers = {label: number for number, label in enumerate(self.labels)}
        self._constraint = constraint_of(config)
        self.width = config.k if self._constraint is None else min(config.k, self._constraint.rank)
        self._coins = gate.coins()
        self._one = 0 if measured is None else math.floor(1 / measured.step)  # a whole person, in steps
        self._counts = np.zeros(2, dtype=np.int64)  # in steps: served by the learner, by the hold-out
        self._places = [0, 0]
        self._measured_places = 0
        self.shares: list[Any] = []  # (places, noisy parts) of blocks that have left since the last release

    # --- beginning -------------------------------------------------------------------------------

    @classmethod
    def begin(cls, config: ExperimentConfig, gate: Gate, start: Released | None = None) -> Learning:
        """A new learner, charged at its gate."""
        check(config)
        share = gate.share(exact(config.share) * (1 - exact(config.measure)))
        learner = _made(config, share, start)
        return cls(config, gate, learner, _measure(config, gate))

    def dump(self) -> bytes:
        """Everything, for the database: private, and to be guarded."""
        own = {
            "counts": self._counts.tolist(),
            "places": self._places,
            "measured_places": self._measured_places,
            "coins": self._coins.snapshot(),
        }
        return json.dumps(own).encode() + b"\n" + self.learner.to_bytes()

    @classmethod
    def load(cls, config: ExperimentConfig, gate: Gate, body: bytes) -> Learning:
        """Go on; what was charged is taken up at the gate."""
        line, _, state = body.partition(b"\n")
        own = json.loads(line)
        learner = OnlineLearner.load(state, gate=gate)
        assert isinstance(learner, ServingLearner)
        with gate.resumed():
            found = cls(config, gate, learner, _measure(config, gate))
        found._counts = np.array(own["counts"], dtype=np.int64)
        found._places, found._measured_places = list(own["places"]), own["measured_places"]
        found._coins.resume(Saved(own["coins"], {}))
        return found

    # --- hands -----------------------------------------------------------------------------------

    @property
    def ahead(self) -> bool:
        """Whether rounds are dealt ahead of their outcomes."""
        return self.config.feedback != "likes"

    def deal(self, experiment: int, epoch: int, first: int, count: int, chain: bytes) -> Hand:
        """The next decisions; the caller commits them before any is served."""
        rng = self._coins.generator
        held_out = np.flatnonzero(rng.random(count) < self.config.holdout).tolist()
        own = count - len(held_out)
        lists: list[list[int]] = []
        runs: list[tuple[int, int]] = []
        round = self.learner.round
        if self.ahead:
            for number in range(own):
                shown = self.learner.choose(wait=False)
                if not number:
                    assert shown.round is not None
                    round = shown.round
                _add(lists, runs, list(shown.items), 1)
        elif own:
            _add(lists, runs, list(self.learner.choose().items), own)
        baseline = {}
        active = np.array(self.learner.ranking()) if held_out else np.empty(0)
        for offset in held_out:
            lists.append(self._random_set(rng, active))
            baseline[offset] = len(lists) - 1
        spare = list(self.learner.ranking(self.width + _SPARE))
        return Hand(experiment, epoch, first, count, lists, runs, baseline, round, spare, chain)

    def _random_set(self, rng: np.random.Generator, active: NDArray[Any]) -> list[int]:
        """A set of the hold-out: items in a random order, as long as they go together."""
        if self._constraint is None:
            return list(rng.choice(active, size=self.width, replace=False, shuffle=False).tolist())
        chosen: list[int] = []
        for item in rng.permutation(active).tolist():
            if len(chosen) < self.width and self._constraint.can_add(chosen, item):
                chosen.append(item)
        return chosen

    def change_items(self, add: Sequence[str], retire: Sequence[str]) -> None:
        """Another catalogue from the next hand on."""
        if retire:
            self.learner.retire_items(retire)
        if add:
            self.learner.add_items(add)
        self._numbers = {label: number for number, label in enumerate(self.labels)}

    @property
    def labels(self) -> tuple[str, ...]:
        """What the items are called, retired ones too."""
        labels = self.learner.released.labels
        assert labels is not None
        return labels

    # --- folding ---------------------------------------------------------------------------------

    def fold(self, hand: Hand, outcomes: Outcomes) -> None:
        """Learn what came of a hand, whose time is over."""
        round = hand.round
        skipped: list[int] = []
        liked: list[list[int]] = []
        for offset in range(hand.count):
            place = hand.first + offset
            reported, body = outcomes.get(place, (False, None))
            # Both were written down when it was served, or not: whether there is an outcome tells nothing.
            served, altered = offset < hand.served, offset in hand.altered
            if reported != altered:
                body = None
            shown = hand.lists[hand.which[offset]]
            outcome = self._read(body, shown)
            if served and not altered:
                self._count(offset in hand.baseline, outcome, shown)
            if offset in hand.baseline:
                continue
            if not self.ahead:
                if served:
                    liked.append(outcome or [])
                continue
            if served and not altered:
                self._learn_late(round, outcome)
            else:
                skipped.append(round)
            round += 1
        if skipped:
            self.learner.skip(skipped)
        if liked:
            self.learner.run(self._people(liked))
        self._measure_out()

    def _people(self, liked: list[list[int]]) -> Coverage:
        """People by what they like, as a population: a whole hand is learned from at once."""
        items = np.fromiter((item for one in liked for item in sorted(one)), dtype=np.int32)
        ends = np.cumsum([0, *map(len, liked)])
        shape = (len(liked), len(self._numbers))
        return Coverage(sp.csr_array((np.ones(items.size), items, ends), shape=shape))

    def _learn_late(self, round: int, outcome: Any) -> None:
        if self.config.feedback == "value":
            outcome = 0.0 if outcome is None else outcome
        self.learner.learn(outcome, round=round)

    def _read(self, body: bytes | None, shown: Sequence[int]) -> Any:
        """What was reported, as numbers of items or a value; nothing for what cannot be meant."""
        if body is None:
            return None
        found = msgspec.json.decode(body)
        if self.config.feedback == "value":
            return min(max(float(found), 0.0), self.config.bound)
        if self.config.feedback == "taken":
            taken = self._numbers.get(found)
            return taken if taken in shown else None
        return [self._numbers[label] for label in dict.fromkeys(found) if label in self._numbers]

    def _count(self, baseline: bool, outcome: Any, shown: Sequence[int]) -> None:
        """Whether somebody was served, or which part of what could be had they had."""
        self._places[baseline] += 1
        if self._measured is None or outcome is None:
            return
        if self.config.feedback == "value":
            part = outcome / self.config.bound
        elif self.config.feedback == "taken":
            part = 1.0
        else:
            part = float(not set(shown).isdisjoint(outcome))
        self._counts[int(baseline)] += self._steps(part)

    def _steps(self, part: float) -> int:
        assert self._measured is not None
        return self._one if part == 1.0 else math.floor(exact(part) / self._measured.step)

    def _measure_out(self) -> None:
        """Release the counts of a block that is large enough; how large depends on no outcome."""
        if self._measured is None:
            return
        scale = self._scale
        if sum(self._places) < next_block(math.ceil(_SURE * scale), self._measured_places):
            return
        self._measured_places += sum(self._places)
        counts, places = self._counts, self._places
        self._counts, self._places = np.zeros(2, dtype=np.int64), [0, 0]  # first: they leave once
        noisy = self._measured.noisy(counts) * float(self._measured.step)
        self.shares.append(
            {
                "places": places,
                "served": [round(float(one), 3) for one in noisy],
                "deviation": round(math.sqrt(2.0) * scale, 3),
            }
        )

    @property
    def measures(self) -> tuple[int | None, float]:
        """How many places the first block of shares has (None: no shares), and the deviation of a count."""
        if self._measured is None:
            return None, 0.0
        return max(1, math.ceil(_SURE * self._scale)), math.sqrt(2.0) * self._scale

    @property
    def _scale(self) -> float:
        assert self._measured is not None
        event = self._measured.release.event
        assert isinstance(event, LaplaceNoise)
        return float(event.scale)

    # --- what is known ---------------------------------------------------------------------------

    def payload(self) -> dict[str, Any]:
        """What may be known of it: only what was released."""
        released = self.learner.released
        labels = self.labels
        top: list[dict[str, Any]] = []
        if released.values is not None:
            values = np.where(np.isfinite(released.values), released.values, -np.inf)
            best = np.argsort(-values, kind="stable")[:20]
            wide = released.deviations
            top = [
                {
                    "item": labels[i],
                    "value": round(float(values[i]), 6),
                    "deviation": None if wide is None else round(float(wide[i]), 6),
                }
                for i in best.tolist()
                if np.isfinite(values[i])
            ]
        shares, self.shares = self.shares, []
        return {
            "items": [labels[item] for item in released.items],
            "values": top,
            "shares": shares,
        }


def check(config: ExperimentConfig) -> None:
    """Refuse what no learner can be made of."""
    checks.real("share", config.share, above=0.0, at_most=1.0)
    checks.real("measure", config.measure, at_least=0.0, below=1.0)
    checks.real("holdout", config.holdout, at_least=0.0, at_most=0.5)
    checks.real("outcome_wait", config.outcome_wait, at_least=0.0)
    checks.real("bound", config.bound, above=0.0)
    if config.hand is not None:
        checks.whole("hand", config.hand, at_least=1, at_most=1 << 16)
    if config.feedback == "likes" and config.bound != 1.0:
        raise ValueError("bound is for values; who likes something that is shown counts 1")
    if config.holdout and not config.measure:
        raise ValueError("holdout needs measure: random sets are served to compare with")
    if len(set(config.items)) < len(config.items):
        raise ValueError("items must be distinct")
    name = learner_of(config)
    wanted = "function" if config.feedback == "likes" else "reward"
    if name not in REGISTRY or REGISTRY[name].feedback != wanted:
        fit = [one for one, known in REGISTRY.items() if known.feedback == wanted]
        raise ValueError(f"learner must be one of auto, {', '.join(fit)} for feedback {config.feedback!r}")


def _made(config: ExperimentConfig, share: Any, start: Released | None) -> ServingLearner:
    name = learner_of(config)
    kind: type[OnlineLearner] = REGISTRY[name].kind(name)
    known = inspect.signature(kind.__init__).parameters
    given: dict[str, Any] = {
        "n_items": len(config.items),
        "k": config.k,
        "rounds": config.rounds,
        "labels": config.items,
        "start": start,
    }
    if config.feedback != "likes":
        given |= {"bound": config.bound}
        given["feedback"] = "slots" if config.feedback == "taken" else "set"
    if config.constraint is not None:
        if "constraint" not in known:
            raise ValueError(f"{name} takes no constraint; take LeaderSelector or MetaFrankWolfe")
        given["constraint"] = constraint_of(config)
    allowed = {key: value for key, value in given.items() if key in known}
    if wrong := set(config.options) - set(known) | set(config.options) & {*given, "budget", "seed"}:
        raise ValueError(f"options has {sorted(wrong)[0]!r}, which {name} does not take here")
    learner = kind(**allowed, **config.options, budget=share)  # type: ignore[call-arg]
    if not isinstance(learner, ServingLearner):
        raise ValueError(f"{name} shows no sets of items")
    return learner


def constraint_of(config: ExperimentConfig) -> PartitionMatroid | None:
    """What the items of a set have to keep to."""
    if config.constraint is None:
        return None
    group_of = {item: name for name, items in config.constraint.groups.items() for item in items}
    if missing := [item for item in config.items if item not in group_of]:
        raise ValueError(f"constraint puts {missing[0]!r} into no group")
    names = list(config.constraint.groups)
    places = {name: place for place, name in enumerate(names)}
    limits = [config.constraint.limits.get(name, 1) for name in names]
    return PartitionMatroid([places[group_of[item]] for item in config.items], limits)


def _measure(config: ExperimentConfig, gate: Gate) -> BatchTotal | None:
    if not config.measure:
        return None
    share = gate.share(exact(config.share) * exact(config.measure))
    epsilon = share.epsilon
    scale = Fraction(0) if not share.private else 1 / Fraction(epsilon)
    return BatchTotal(gate, LaplaceNoise(Fraction(1), scale), _FINEST, label=SHARES)


def _add(lists: list[list[int]], runs: list[tuple[int, int]], items: list[int], many: int) -> None:
    """One more decision at the end of a hand."""
    if lists and lists[-1] == items:
        runs[-1] = (runs[-1][0], runs[-1][1] + many)
    else:
        lists.append(items)
        runs.append((len(lists) - 1, many))


def next_block(first: int, before: int) -> int:
    """How many places the next block of shares has, after so many measured ones."""
    return max(first, math.ceil(_PART * before))


def blocks_of(first: int, places: int) -> int:
    """How many blocks of shares so many places make."""
    count = before = 0
    while before + (size := next_block(first, before)) <= places:
        before, count = before + size, count + 1
    return count
