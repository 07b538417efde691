"""An experiment's learner with its gate: blocks are allocated from it, and aggregated into it.

A block is committed before the first of its decisions is served from memory. Each decision is served once:
after a crash, decisions of a block that are not recorded as served are invalidated. Such a decision accepts
no outcome and is not a round.

With full feedback every decision that counts is a round, in order, and a missing outcome means that nothing
was taken: where batches end depends on which decisions count (`groups`), and not on anyone's data. A block
shows what the learner shows when the block is allocated. With "slots" and "bandit", rounds are allocated
ahead (``choose(wait=False)``) and their outcomes learned late. Decisions that do not count, or are not
recorded as served, are left out of everything. Decisions that showed other items than were allocated are left
out of everything that depends on the shown set.

Each segment has a learner (`online.Segments`) with a gate of its part: the account takes the worst segment,
and all cost the same. Formal guarantee: that of one learner, for a person with up to
``max_rounds_per_person`` counted rounds in a period, in any segments. Proof. The segment of a decision is
public, as is its sequence number. A round is in one segment, and its outcome enters the sums of that segment
only; what segments share is post-processing of releases. So the loss between two inputs that differ in one
round is that of one round of one learner. A person's rounds are counted by pseudonym, over all segments and
experiments of the population: a change of one person is a chain of that many changes of single rounds, and
the account multiplies by their number. A person need not stay in one segment. (A limit for each segment would
break this: `tests/service/test_segments.py`.) Which rounds count follows from decisions, and from no outcome
(proof in `groups`): if a person had reported anything else, or nothing, the same rounds would have changed.

Personal sets (`online.PersonalSelector`): a block holds the most popular set, the same for everybody, and
whether a decision is in the hold-out. A set shown to a person follows from their own history, and is not
public: no block and no record holds it. Therefore each outcome itself says whether the person was served.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import math
import threading
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import groupby
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ..constraints import Cardinality, PartitionMatroid
from ..core.state import capture, restore
from ..objectives import Coverage
from ..online.learner import OnlineLearner, OnlineSelector
from ..online.personal import PersonalSelector, PersonalSettings
from ..online.registry import REGISTRY, learners
from ..online.released import Released
from ..online.segments import Segment, Segments, joined, pieces
from ..personal import word_features
from ..privacy import Gate, GaussianNoise, Seed, Share
from ..privacy.conversions import exact
from .config import ExperimentConfig, PopulationConfig
from .shares import Measure, min_detectable

if TYPE_CHECKING:
    from ..personal import Recommender
    from ..planning.expected import Expected

_SPARE = 64  # items that can replace excluded ones, in addition to those of a set
MOST_SEGMENTS = 50

Outcomes = Mapping[int, tuple[bool, bytes | None]]  # by sequence number: whether altered, and the outcome


def learner_of(config: ExperimentConfig) -> str:
    """The configured learner; for "auto", the one without a horizon that serves most people."""
    if config.learner != "auto":
        return config.learner
    return "LeaderSelector" if config.feedback == "full" else "ThompsonSelector"


_BODY = ("lists", "runs", "baseline", "round", "spare", "mixed")


@dataclass
class DecisionBlock:
    """``count`` decisions with sequence numbers from ``first`` on; `which` gives the index of each one's set.

    ``lists`` are sets of items; ``runs`` are pairs (index of a set, number of consecutive decisions that show
    it). The hold-out, ``baseline``, shows sets to compare with: random sets, the control set or, with
    personal sets, the most popular one. ``round`` is the learner's round of the first decision outside the
    hold-out. ``spare`` ranks items by releases: they replace excluded ones. ``chain`` names the release that
    all this follows from. ``segment`` is "" if there are none. ``mixed`` is the number of items that uniform
    random sets are drawn from, if all decisions outside the hold-out show one set; else 0.
    """

    experiment: int
    epoch: int
    first: int
    count: int
    lists: list[list[int]]
    runs: list[tuple[int, int]]
    baseline: dict[int, int]  # from offset to index of the set
    round: int
    spare: list[int]
    chain: bytes
    mixed: int = 0
    served: int = 0
    altered: set[int] = field(default_factory=set)  # offsets of decisions that showed other items
    segment: str = ""
    uncounted: set[int] = field(default_factory=set)  # offsets of decisions that are left out: see `groups`
    over_at: float | None = None  # when its last decision was served, or serving from it was stopped
    since: float = math.inf  # when it was leased
    lease: int = 0  # the number of that lease
    which: list[int] = field(init=False)

    def __post_init__(self) -> None:
        own = [number for number, count in self.runs for _ in range(count)]
        if len(own) + len(self.baseline) != self.count:
            raise ValueError("the block's lists are of another number than its decisions")
        turn = iter(own)
        self.which = [self.baseline[i] if i in self.baseline else next(turn) for i in range(self.count)]

    @property
    def key(self) -> tuple[int, int, int]:
        return self.experiment, self.epoch, self.first

    @property
    def end(self) -> int:
        """The sequence number after the last one."""
        return self.first + self.count

    @property
    def over(self) -> bool:
        """Whether no further decision will be served."""
        return self.over_at is not None or self.served >= self.count

    def propensity(self, number: int, holdout: float, control: bool | None = None) -> float | None:
        """The probability that a decision of this block shows the set of this number; None if unknown.

        Given what was public before the block was allocated: it shows one set, except for the hold-out, a
        part ``holdout`` of the decisions, whose sets are uniform or, unless ``control`` is None, the control
        set; ``control`` tells whether this set is that. Unknown for learners that draw each set anew.
        """
        if not self.mixed or not self.runs:
            return None
        items = self.lists[number]
        chance = holdout / math.comb(self.mixed, len(items)) if control is None else holdout * control
        return chance + (1.0 - holdout if set(items) == set(self.lists[self.runs[0][0]]) else 0.0)

    def body(self) -> bytes:
        found = {name: getattr(self, name) for name in _BODY} | {"baseline": list(self.baseline.items())}
        return json.dumps(found, separators=(",", ":")).encode()

    @classmethod
    def read(cls, row: Sequence[Any]) -> DecisionBlock:
        """The block of a row with the columns `database.BLOCK`."""
        experiment, epoch, first, count, body, chain, served, altered, segment, uncounted, lease = row
        found = json.loads(bytes(body))
        found["baseline"] = dict(found["baseline"])
        found |= {"altered": set(map(int, altered.split())), "uncounted": set(map(int, uncounted.split()))}
        found |= {"chain": bytes(chain), "served": served, "segment": segment, "lease": lease}
        return cls(experiment, epoch, first, count, **found)


class Learning:
    """The learner of one epoch of an experiment, or its segments."""

    def __init__(
        self,
        config: ExperimentConfig,
        gate: Gate,
        learner: OnlineSelector | Segments,
        measure: Measure | None,
    ) -> None:
        self.config, self.gate, self.learner, self.measure = config, gate, learner, measure
        self.queues: dict[str, OnlineSelector | Segment]
        if isinstance(learner, Segments):
            self.queues = {segment: learner.of(segment) for segment in config.segments}
        else:
            self.queues = {"": learner}
        self.ahead = config.feedback != "full"  # rounds are allocated ahead of their outcomes
        self._number_labels()
        self._constraint = constraint_of(config)
        self.width = config.k if self._constraint is None else min(config.k, self._constraint.rank)
        self._control = [self._numbers[label] for label in config.control]
        self._public = gate.public_randomness()
        self.model: bytes | None = None  # of personal sets: public, new, to be committed with its release
        self._last_model: Recommender | None = None

    # --- beginning -------------------------------------------------------------------------------

    @classmethod
    def begin(
        cls, config: ExperimentConfig, gate: Gate, start: Mapping[str, Released] | None = None
    ) -> Learning:
        """A new learner, charged at its gate; ``start`` holds earlier releases of each segment."""
        check(config)
        known, gate = start or {}, gate.owned()
        share = gate.share(exact(config.share) * (1 - exact(config.measure)))
        learner: OnlineSelector | Segments
        if config.segments:
            alike = partial(_made, config)
            learner = Segments(alike, sorted(config.segments), share, by="segment", start=known)
        else:
            learner = _made(config, share, known.get(""))
        return cls(config, gate, learner, Measure.of(config, gate))

    def dump(self) -> dict[str, bytes]:
        """The private state, for the database; of segments, only those that have changed."""
        measured = None if self.measure is None else self.measure.state()
        assert self.gate._owner is not None
        said = {"measured": measured, "public": capture(self._public)[0], "owner": self.gate._owner.state()}
        own = json.dumps(said).encode() + b"\n"
        if not isinstance(self.learner, Segments):
            return {"": own + self.learner.to_bytes()}
        found = pieces(self.learner)
        return {"": own + found.pop(None), **found}

    @classmethod
    def load(cls, config: ExperimentConfig, gate: Gate, bodies: Mapping[str, bytes]) -> Learning:
        """Continue from the states that were written last (``bodies``), with their charges at the gate."""
        line, _, state = bodies[""].partition(b"\n")
        own = json.loads(line)
        learner: OnlineLearner | Segments
        with gate._restoring(own["owner"]) as view:
            if config.segments:
                learner = joined({None: state, **{one: bodies[one] for one in config.segments}}, view)
            else:
                learner = OnlineLearner.load(state, gate=view)
            assert isinstance(learner, OnlineSelector | Segments)
            found = cls(config, view, learner, Measure.of(config, view))
        if found.measure is not None:
            found.measure.resume(own["measured"])
        restore(found._public, own["public"], {})
        return found

    # --- blocks -----------------------------------------------------------------------------------

    def allocate(
        self, experiment: int, epoch: int, first: int, count: int, chain: bytes, segment: str = ""
    ) -> DecisionBlock:
        """The next decisions; the caller commits them before any is served."""
        rng, learner = self._public.generator, self.queues[segment]
        held_out = np.flatnonzero(rng.random(count) < self.config.holdout).tolist()
        own = count - len(held_out)
        lists: list[list[int]] = []
        runs: list[tuple[int, int]] = []
        round = learner.round
        if self.ahead:
            allocated = learner.choose_many(own) if own else []
            round = round if not allocated or allocated[0].round is None else allocated[0].round
            for items, alike in groupby(allocated, lambda shown: shown.items):
                _add(lists, runs, list(items), sum(1 for _ in alike))
        elif own:
            _add(lists, runs, list(learner.choose().items), own)
        baseline = {}
        personal = self.config.personal
        mixes = not self.ahead and self._constraint is None and not personal
        ranking = learner.ranking(None if mixes or held_out or personal else self.width + _SPARE)
        active = np.array(ranking) if held_out else np.empty(0)
        usual = list(learner.choose().items) if personal and held_out else self._control
        for offset in held_out:
            if offset == held_out[0] or not personal:
                lists.append(usual or self._random_set(rng, active))
            baseline[offset] = len(lists) - 1
        spare = list(ranking if personal else ranking[: self.width + _SPARE])
        shown = (lists, runs, baseline, round, spare)
        mixed = len(ranking) if mixes else 0
        return DecisionBlock(experiment, epoch, first, count, *shown, chain, mixed, segment=segment)

    def _random_set(self, rng: np.random.Generator, active: NDArray[Any]) -> list[int]:
        """A set of the hold-out: uniform or, under a constraint, of items in random order that it allows."""
        if self._constraint is None:
            return list(rng.choice(active, size=self.width, replace=False, shuffle=False).tolist())
        chosen: list[int] = []
        for item in rng.permutation(active).tolist():
            if len(chosen) < self.width and self._constraint.can_add(chosen, item):
                chosen.append(item)
        return chosen

    def change_items(self, add: Sequence[str], retire: Sequence[str]) -> None:
        if self.config.personal:
            raise ValueError(
                "the catalogue of personal sets stays as it is: devices have models of it, and pairs with new"
                " items would be of fewer people; exclude what is sold out in requests, or make another one"
            )
        if kept := set(retire) & set(self.config.control):
            raise ValueError(f"retire has {min(kept)!r}, which is in the control set; keep it")
        if retire:
            self.learner.retire_items(retire)
        if add:
            self.learner.add_items(add)
        self._number_labels()

    def _number_labels(self) -> None:
        self._names = self.labels
        self._numbers = {label: number for number, label in enumerate(self._names)}

    @property
    def labels(self) -> tuple[str, ...]:
        labels = self.learner.labels
        assert labels is not None
        return labels

    @property
    def active(self) -> tuple[int, ...]:
        """Numbers of items that can be shown, the same in all segments."""
        return next(iter(self.queues.values())).ranking()

    @property
    def released(self) -> dict[str, Released]:
        """What the next epoch may start with, by segment."""
        return {segment: learner.released for segment, learner in self.queues.items()}

    # --- aggregating ---------------------------------------------------------------------------------

    def aggregate(self, block: DecisionBlock, outcomes: Outcomes) -> None:
        """Learn from the outcomes of a closed block."""
        round, learner, measure = block.round, self.queues[block.segment], self.measure
        skipped: list[int] = []
        heard: dict[int, Any] = {}
        liked: list[list[int]] = []
        for offset in range(block.count):
            sequence = block.first + offset
            reported, body = outcomes.get(sequence, (False, None))
            # Both were recorded when it was served: they do not depend on whether there is an outcome.
            altered = offset in block.altered
            counts = offset < block.served and offset not in block.uncounted
            if reported != altered:
                body = None
            shown = block.lists[block.which[offset]]
            outcome, value = self._read(body, shown)
            if counts and not altered and measure is not None:
                measure.count(block.segment, offset in block.baseline, value)
            if offset in block.baseline:
                continue
            if not self.ahead:
                if counts:
                    liked.append(outcome or [])
                continue
            if not learner.waits_for(round):
                pass  # too many rounds waited, and the oldest count as "took nothing"
            elif counts and not altered:
                heard[round] = self._reward(outcome)
            else:
                skipped.append(round)
            round += 1
        if heard:
            learner.learn_many(heard)
        if skipped:
            learner.skip(skipped)
        if liked:
            learner.run(self._people(liked))
        if measure is not None:
            measure.release(block.segment)

    def _reward(self, outcome: Any) -> Any:
        """The outcome as learners take it: a value, or a label, which they look up faster than a number."""
        if self.config.feedback == "bandit":
            return 0.0 if outcome is None else outcome
        return None if outcome is None else self._names[outcome]

    def _people(self, liked: list[list[int]]) -> Coverage:
        """The likes of a block as a population, which is learned from at once."""
        items = np.fromiter((item for one in liked for item in sorted(one)), dtype=np.int32)
        ends = np.cumsum([0, *map(len, liked)])
        shape = (len(liked), len(self._numbers))
        return Coverage(sp.csr_array((np.ones(items.size), items, ends), shape=shape))

    def _read(self, body: bytes | None, shown: Sequence[int]) -> tuple[Any, float]:
        """The outcome, as numbers of items or a value, and its part of the largest possible value.

        An invalid outcome counts as none. With personal sets the shown set is not known here.
        """
        if body is None:
            return None, 0.0
        found = msgspec.json.decode(body)
        if self.config.feedback == "bandit":
            value = min(max(float(found), 0.0), self.config.bound)
            return value, value / self.config.bound
        if self.config.feedback == "slots":
            taken = self._numbers.get(found)
            return (taken, 1.0) if taken in shown else (None, 0.0)
        liked, served = (found["likes"], found["served"]) if self.config.personal else (found, None)
        likes = [self._numbers[label] for label in dict.fromkeys(liked) if label in self._numbers]
        return likes, float(not set(shown).isdisjoint(likes) if served is None else served)

    # --- releases --------------------------------------------------------------------------------

    def payload(self, segment: str = "") -> dict[str, Any]:
        """The public content of a release, of one segment if there are any: post-processing of releases."""
        released = self.queues[segment].released
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
        shown: dict[str, Any] = {"segment": segment} if segment else {}
        if isinstance(self.learner, PersonalSelector):
            shown |= self._new_model(self.learner.recommender)
        return shown | {
            "items": [labels[item] for item in released.items],
            "values": top,
            "shares": [] if self.measure is None else self.measure.taken(segment),
        }

    def _new_model(self, found: Recommender | None) -> dict[str, Any]:
        """The entry for a new model in a release: the model is committed with it, and named by its hash."""
        if found is None or found is self._last_model:
            return {}
        self._last_model, self.model = found, found.to_bytes()
        digest = hashlib.sha256(self.model).hexdigest()
        return {"model": {"rank": found.rank_, "reason": found.reason_, "sha256": digest}}


class InvalidField(ValueError):
    """A field of an experiment is invalid, or inconsistent with other fields."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


def check(config: ExperimentConfig) -> None:
    """Refuse settings that are invalid or inconsistent."""
    try:
        ExperimentConfig.read(config.text)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from None
    if config.feedback == "full" and (config.bound != 1.0 or "bound" in config.options):
        raise InvalidField("bound", "bound is for values; who likes something that is shown counts 1")
    if config.holdout and not config.measure:
        raise InvalidField("measure", "holdout needs measure above 0: what is served is compared with it")
    if len(set(config.items)) < len(config.items):
        raise InvalidField("items", "items must be distinct")
    if config.k > len(config.items):
        raise InvalidField("k", "k must be from 1 to the number of items")
    check_personal(config)
    check_control(config)
    check_segments(config.segments)
    check_candidates(config)
    name = learner_of(config)
    wanted = "function" if config.feedback == "full" else "reward"
    if (name not in REGISTRY and name not in learners()) or REGISTRY[name].learns_from != wanted:
        fit = [one for one, known in REGISTRY.items() if known.learns_from == wanted]
        message = f"learner must be one of auto, {', '.join(fit)} for feedback {config.feedback!r}"
        raise InvalidField("learner", message)


def check_people(config: ExperimentConfig, people: PopulationConfig) -> None:
    """Refuse a learner with Gaussian noise where the population's account has no delta."""
    gaussian = learner_of(config) in ("LeaderSelector", "PersonalSelector")
    if gaussian and (not people.delta or people.definition == "pure"):
        raise InvalidField(
            "feedback",
            "counts are released with Gaussian noise, which needs a delta, and this population's account has"
            ' none: make one with delta such as 1e-6 and definition "gdp", or take feedback "slots" or'
            ' "bandit", or learner "PhasedSelector"',
        )


def check_personal(config: ExperimentConfig) -> None:
    """Refuse settings that personal sets cannot be learned with, or that would store or reveal them."""
    if not config.personal:
        return
    if config.feedback != "full":
        raise InvalidField(
            "feedback",
            f"PersonalSelector learns from likes, not from feedback {config.feedback!r}: what was shown to"
            " somebody follows from their history and is not public, so that learning from what came of it"
            ' would release what was shown, too; take feedback "full", or a learner that shows everybody the'
            " same",
        )
    reasons = {
        "control": "the hold-out of personal sets sees the most popular items; leave control out",
        "sticky": "sticky sets would be kept, and personal sets are kept nowhere; leave sticky out",
        "segments": "personal sets follow from people's histories; leave segments out",
        "candidates": "what pairs say is of all items; name the candidates alone as items",
    }
    for name, reason in reasons.items():
        if getattr(config, name):
            raise InvalidField(name, reason)


def check_control(config: ExperimentConfig) -> None:
    """Refuse a control set that could not be shown."""
    control, limits = config.control, constraint_of(config)
    if not control:
        return
    if not config.holdout:
        message = "control is what the hold-out sees; set holdout to its part of decisions"
        raise InvalidField("control", message)
    if unknown := [label for label in control if label not in config.items]:
        raise InvalidField("control", f"control has {unknown[0]!r}, which is not among the items")
    if len(set(control)) < len(control) or len(control) > config.k:
        message = f"control must be up to k = {config.k} different items, got {len(control)}"
        raise InvalidField("control", message)
    chosen: list[int] = []
    for label in control:
        if limits is not None and not limits.can_add(chosen, config.items.index(label)):
            raise InvalidField("control", f"control breaks the limit of the group of {label!r}")
        chosen.append(config.items.index(label))


def check_candidates(config: ExperimentConfig) -> None:
    """Refuse candidates that are not items, or are too few for a set."""
    few, known = config.candidates, set(config.items)
    if unknown := [label for label in few if label not in known]:
        raise InvalidField("candidates", f"candidates has {unknown[0]!r}, which is not among the items")
    if few and not config.k <= len(set(few)) == len(few):
        message = f"candidates must be at least k = {config.k} different items, the best first"
        raise InvalidField("candidates", message)
    if few and (outside := [label for label in config.control if label not in few]):
        raise InvalidField("candidates", f"control has {outside[0]!r}, which is not among the candidates")


def check_segments(segments: list[str]) -> None:
    """Refuse names of segments that are not distinct, printable and short."""
    if len(segments) > MOST_SEGMENTS or len(set(segments)) < len(segments):
        raise InvalidField("segments", f"segments must be distinct, and at most {MOST_SEGMENTS}")
    if any(not 1 <= len(one) <= 64 or one != one.strip() or not one.isprintable() for one in segments):
        raise InvalidField("segments", "segments must be short texts of at most 64 characters")


def _made(config: ExperimentConfig, share: Share, start: Released | None = None) -> OnlineSelector:
    """The configured learner, charged to ``share``; it may begin with the releases of ``start``."""
    name = learner_of(config)
    kind: type[OnlineLearner] = learners()[name].kind(name)
    known = inspect.signature(kind.__init__).parameters
    if config.candidates and start is None:  # in later periods the items are the candidates
        listed, few = len(config.items), config.candidates
        start = Released.ranked(few, listed, labels=config.items, candidates=len(few))
    if config.candidates and "start" not in known:
        raise InvalidField("candidates", f"{name} takes no candidates; name these alone as items")
    given: dict[str, Any] = {
        "n_items": len(config.items),
        "k": config.k,
        "rounds": config.rounds,
        "labels": config.items,
        "start": start,
    }
    if config.feedback != "full":
        given |= {"bound": config.bound, "feedback": config.feedback}
    if config.constraint is not None:
        if "constraint" not in known:
            raise ValueError(f"{name} takes no constraint; take LeaderSelector or MetaFrankWolfe")
        given["constraint"] = constraint_of(config)
    elif "constraint" in known and known["constraint"].default is inspect.Parameter.empty:
        given["constraint"] = Cardinality(config.k, len(config.items))  # such learners take no k
    allowed = {key: value for key, value in given.items() if key in known}
    if wrong := set(config.options) - set(known) | set(config.options) & {*given, "budget", "seed"}:
        raise ValueError(f"options has {sorted(wrong)[0]!r}, which {name} does not take here")
    options = config.options | _about_items(config)
    learner = kind(**allowed, **options, budget=share)  # type: ignore[call-arg]
    if not isinstance(learner, OnlineSelector):
        raise ValueError(f"{name} shows no sets of items")
    if "min_separation" in config.options:
        raise ValueError("min_separation needs people's names, and the service keeps none")
    return learner


def _about_items(config: ExperimentConfig) -> dict[str, Any]:
    """The features of items if they are given as words by label; numbers by label need no conversion."""
    about = config.options.get("features")
    if not isinstance(about, dict) or not all(isinstance(words, str) for words in about.values()):
        return {}
    if unknown := [label for label in about if label not in set(config.items)]:
        message = f"features is about {unknown[0]!r}, which is not among the items"
        raise InvalidField("options.features", message)
    try:
        return {"features": word_features([about.get(label, "") for label in config.items])}
    except ValueError as error:
        raise InvalidField("options.features", f"features: {error}") from None


def constraint_of(config: ExperimentConfig) -> PartitionMatroid | None:
    """The constraint on sets: limits on items of each group; None if there are none."""
    if config.constraint is None:
        return None
    group_of = {item: name for name, items in config.constraint.groups.items() for item in items}
    if missing := [item for item in config.items if item not in group_of]:
        raise ValueError(f"constraint puts {missing[0]!r} into no group")
    limits = {name: config.constraint.limits.get(name, 1) for name in config.constraint.groups}
    numbers = {name: number for number, name in enumerate(limits)}
    return PartitionMatroid([numbers[group_of[item]] for item in config.items], list(limits.values()))


def _add(lists: list[list[int]], runs: list[tuple[int, int]], items: list[int], many: int) -> None:
    """Append ``many`` decisions that show ``items`` to a block."""
    if lists and lists[-1] == items:
        runs[-1] = (runs[-1][0], runs[-1][1] + many)
    else:
        lists.append(items)
        runs.append((len(lists) - 1, many))


# --- what to expect, by settings alone ------------------------------------------------------------------
# The experiment's learner is constructed at a separate gate and inspected, without anyone's data. What it
# would serve is simulated on synthetic people (`planning`, which is loaded on demand).

_one_at_a_time = threading.Lock()


@dataclass(frozen=True)
class ReleasePlan:
    """When counts are released and with how much noise (a standard deviation, in people); None if it varies.

    Until there are ``begins`` people, sets are random. Personal sets are the most popular items until there
    are ``own_after`` people, a number that follows from public sizes.
    """

    learner: str
    begins: int | None
    every: int | None
    growing: bool
    noise: float | None
    measured_every: int | None
    measured_noise: float
    own_after: int | None = None


@dataclass(frozen=True)
class DetectableLift:
    """Minimum detectable lift (80 % power): with these settings, and in a table of other settings.

    ``rows`` are pairs (hold-out, its lifts, one for each part of the budget in ``measures``).
    """

    smallest: float
    measures: tuple[float, ...]
    rows: tuple[tuple[float, list[float]], ...]


@dataclass(frozen=True)
class Forecast:
    """Simulated value as a part of the best fixed set's: of the learner, and of random sets."""

    learned: Expected
    random: Expected
    people: int

    @property
    def hopeless(self) -> bool:
        """Whether the learner gains less than a tenth of the way from random sets to the best set."""
        return self.learned.share - self.random.share < 0.1 * (1.0 - self.random.share)


def release_plan(config: ExperimentConfig, people: PopulationConfig) -> ReleasePlan:
    """What these settings release, in each segment; ValueError or BudgetExceeded if they are impossible."""
    check_segments(config.segments)
    return _release_plan(msgspec.structs.replace(config, segments=[]).text, people.text)


@lru_cache(maxsize=256)
def _release_plan(config: str, people: str) -> ReleasePlan:
    from ..online.leader import LeaderSettings
    from ..online.thompson import WARM_UP, ThompsonSettings

    asked = ExperimentConfig.read(config)
    learning = _begun(asked, PopulationConfig.read(people), None)
    assert isinstance(learning.learner, OnlineSelector)
    settings, measure = learning.learner.settings, learning.measure
    begins, every, growing, noise, own = None, None, False, None, None
    if isinstance(settings, LeaderSettings):
        begins = every = settings.first_batch
        growing = settings.batch == "geometric"
        if settings.spec is not None and isinstance(settings.event, GaussianNoise):
            noise = float(settings.event.sigma)  # of the first sum
    elif isinstance(settings, PersonalSettings):
        begins, every, growing = settings.first_batch, settings.first_batch, True
        own = settings.own_sets_after
    elif isinstance(settings, ThompsonSettings):
        begins, every, noise = WARM_UP * settings.block, settings.block, math.sqrt(2.0) * settings.scale
    shares, deviation = (None, 0.0) if measure is None else (measure.every, measure.deviation)
    return ReleasePlan(learner_of(asked), begins, every, growing, noise, shares, deviation, own)


_HOLDOUTS, _MEASURES = (0.05, 0.1, 0.2, 0.5), (0.1, 0.2, 0.3, 0.5)


def detectable_lift(
    config: ExperimentConfig, people: PopulationConfig, visitors: int
) -> DetectableLift | None:
    """The minimum detectable lift after ``visitors``, as configured and with other hold-outs and budgets."""
    if not config.holdout or not config.measure or not people.budget.private:
        return None
    small = msgspec.structs.replace(config, items=["any"], k=1, control=[], seed=None)
    return _detectable_lift(small.text, people.text, visitors)


@lru_cache(maxsize=256)
def _detectable_lift(config: str, people: str, visitors: int) -> DetectableLift:
    asked, whom = ExperimentConfig.read(config), PopulationConfig.read(people)

    def scale(measure: float) -> float:
        gate = Gate(whom.budget, definition=whom.definition)
        found = Measure.of(msgspec.structs.replace(asked, measure=measure), gate)
        assert found is not None
        return found.deviation / math.sqrt(2.0)

    lift = partial(min_detectable, visitors, segments=len(asked.queues))
    here = float(lift(scale=scale(asked.measure), holdout=asked.holdout))
    grid = lift(scale=np.array([scale(one) for one in _MEASURES]), holdout=np.array(_HOLDOUTS)[:, np.newaxis])
    return DetectableLift(here, _MEASURES, tuple(zip(_HOLDOUTS, grid.tolist(), strict=True)))


def forecast(config: ExperimentConfig, people: PopulationConfig, visitors: int) -> Forecast:
    """Simulate what to expect after ``visitors`` synthetic people; one call runs at a time.

    With segments: for one segment with an equal part of the people, which learns nothing from the others.
    """
    visitors = max(1, visitors // len(config.queues))
    small = msgspec.structs.replace(config, items=["0"], segments=[], control=[], seed=None)
    with _one_at_a_time:
        return _forecast(small.text, len(config.items), people.text, visitors)


@lru_cache(maxsize=256)
def _forecast(config: str, n_items: int, people: str, visitors: int) -> Forecast:
    from ..planning.expected import Expected, Size, crowds, served, share_after

    asked, whom = ExperimentConfig.read(config), PopulationConfig.read(people)
    size = Size.of(visitors, n_items, asked.k)
    asked = msgspec.structs.replace(asked, items=[str(item) for item in range(size.n_items)], bound=1.0)
    found = crowds(size, Cardinality(size.k, size.n_items))

    def learner(run: int) -> OnlineSelector:
        made = _begun(asked, whom, run).learner
        assert isinstance(made, OnlineSelector)
        return made

    shares = [share_after(served(learner, crowd, run), visitors) for run, crowd in enumerate(found)]
    return Forecast(Expected.of(shares), Expected.of([crowd.at_random for crowd in found]), size.rounds)


def first_release(config: ExperimentConfig, plan: ReleasePlan) -> dict[str, int | None]:
    """About how many decisions precede the first useful counts, and the first shares; in full blocks."""

    def full(decisions: float | None) -> int | None:
        block = config.block_size or 1
        return None if decisions is None else math.ceil(decisions / block) * block

    learned = None if plan.begins is None else plan.begins / (1.0 - config.holdout)
    return {"counts": full(learned), "shares": full(plan.measured_every)}


def _begun(config: ExperimentConfig, people: PopulationConfig, seed: Seed) -> Learning:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about few rounds; the forecast shows their effect
        return Learning.begin(config, Gate(people.budget, seed, definition=people.definition))
