"""One setting of a mechanism or learner, taken through all parts of an audit."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..privacy import Account, Budget, BudgetExceeded
from . import exact, sampled
from .exact import Pair, Space
from .faults import EXACT, OUTPUTS, PAST_THE_GATE, SAMPLED, TWICE, Fault, no_fault
from .hooks import Floats, Source

# What rounding in the audit itself may add to a delta or, relatively, to an epsilon.
SLACK = 1e-9
RELATIVE = 1e-6


@dataclass(frozen=True)
class Effort:
    """How long to look: neighbours tried, real runs per world, and whether every setting is audited."""

    evaluations: int
    runs: int
    deep: bool = False


QUICK = Effort(evaluations=16, runs=200)
DEEP = Effort(evaluations=80, runs=1500, deep=True)


@dataclass(frozen=True)
class Played:
    """What one run published, and the account that it gives of itself."""

    published: Any
    account: Callable[[], Account]


# Everybody's numbers, row by row, and a source of randomness.
Play = Callable[[Floats, Source], Played]


@dataclass(frozen=True)
class Finding:
    """One line of the table."""

    name: str
    setting: str
    neighbours: str
    claimed: float
    delta: float
    exact: float
    excess: float
    sampler: float
    lower_bound: float
    caught: tuple[str, ...]
    missed: tuple[str, ...]
    unseen: tuple[str, ...] = ()
    seconds: float = field(compare=False, default=0.0)

    @property
    def problems(self) -> list[str]:
        """Everything that is wrong; nothing for a sound mechanism and an audit that can see."""
        found = []
        if self.excess > 0.0:
            found.append(f"exact loss {self.exact:.6g} beyond the account (by {self.excess:.3g})")
        if self.sampler <= sampled.NEVER:
            found.append(f"the sampler does not follow its probabilities (p = {self.sampler:.2g})")
        if self.lower_bound > self.claimed * (1.0 + RELATIVE):
            found.append(f"outputs prove epsilon {self.lower_bound:.4g}")
        found += [f"injected fault not noticed: {name}" for name in self.missed]
        return found

    @property
    def verdict(self) -> str:
        return "; ".join(self.problems) or "holds"

    @property
    def sound(self) -> bool:
        return not self.problems


@dataclass(frozen=True)
class Case:
    """A setting to audit: who it is about, the people it is tried with, and how to run it.

    ``runs`` multiplies the number of real runs, for what is quick. ``twice`` is a row in which the audited
    person must not also be; None where there is no such row. ``faults`` are the injected faults to notice.
    ``public`` seeds the public coins, on which everything is conditioned. ``starts`` are neighbours from
    which the search also starts. ``unseen``: sentences on what this audit cannot see, and why.
    """

    name: str
    setting: str
    budget: Budget
    space: Space
    play: Play
    faults: tuple[str, ...]
    runs: int = 1
    twice: int | None = None
    only_deep: bool = False
    public: int = 0
    starts: tuple[Pair, ...] = ()
    unseen: tuple[str, ...] = ()

    def source(self, seed: int) -> Source:
        """Randomness for one run; public coins are the same in all of them."""
        return Source(seed, self.public)

    def audit(self, effort: Effort) -> Finding:
        """All parts: exact loss at the worst neighbours, the sampler, outputs alone, injected faults."""
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # tiny settings are too small to be useful, and say so
            finding = self._audit(effort)
        return replace(finding, seconds=time.perf_counter() - start)

    def _audit(self, effort: Effort) -> Finding:
        pair = self._worst(self._searched(), effort.evaluations)
        loss, excess = self.compare(pair)
        account = self.play(pair.here, self.source(0)).account()
        caught: list[str] = []
        missed: list[str] = []
        for name in self.faults:
            (caught if self.notices(name, pair, effort) else missed).append(name)
        sampler, bound = self.real_runs(pair, effort)
        delta = self.budget.delta
        return Finding(
            self.name,
            self.setting,
            self.budget.neighbours,
            account.epsilon(delta),
            delta,
            loss,
            excess,
            sampler,
            bound,
            tuple(caught),
            tuple(missed),
            self.unseen,
        )

    def notices(self, name: str, pair: Pair, effort: Effort) -> bool:
        """Whether the audit of these neighbours, or a short search for others, sees an injected fault."""
        if name in SAMPLED:
            return self.sampler_notices(SAMPLED[name], pair, effort)
        if name in OUTPUTS:
            return self.outputs_notice(name, OUTPUTS[name], pair, effort)
        if name == PAST_THE_GATE:
            return replace(self, play=_telling_all(self.play)).compare(pair)[1] > 0.0
        fault = no_fault
        if name == TWICE:
            assert self.twice is not None
            pair = pair.twice(self.twice)
        else:
            fault = EXACT[name]
        try:
            with fault():
                if self.compare(pair)[1] > 0.0:
                    return True
                if name == TWICE:
                    return False
                # At a delta of 0 it is rare outcomes that are looked for: other neighbours than before.
                other = self._worst(self._searched(0.0), effort.evaluations, seed=1)
                return self.compare(other)[1] > 0.0
        except BudgetExceeded:  # the gate has seen it
            return True

    def _neighbours(self) -> Space:
        one_way = self.budget.neighbours == "add_remove"
        return replace(self.space, one_way=True) if one_way else self.space

    def _worst(
        self, loss: Callable[[Pair], float], evaluations: int, seed: int = 0, extra: tuple[Pair, ...] = ()
    ) -> Pair:
        firsts = (*extra, *self.starts)
        return exact.worst_pair(self._neighbours(), loss, evaluations, seed, firsts)[0]

    def _claim(self, pair: Pair) -> float:
        return self.play(pair.here, self.source(0)).account().epsilon(self.budget.delta)

    def _searched(self, delta: float | None = None) -> Callable[[Pair], float]:
        """What to search for: the exact epsilon at ``delta`` (the budget's, if None)."""
        raise NotImplementedError

    def compare(self, pair: Pair) -> tuple[float, float]:
        """The exact epsilon between two neighbours, and how far the account is exceeded (0 if it is not)."""
        raise NotImplementedError

    def real_runs(self, pair: Pair, effort: Effort) -> tuple[float, float]:
        """p-value of the sampler, and a lower bound on epsilon from outputs."""
        raise NotImplementedError

    def sampler_notices(self, fault: Fault, pair: Pair, effort: Effort) -> bool:
        """Whether real draws show that they do not follow their probabilities."""
        raise NotImplementedError

    def outputs_notice(self, name: str, fault: Fault, pair: Pair, effort: Effort) -> bool:
        """Whether outputs alone prove more than the claim while the fault is there."""
        raise NotImplementedError


def _telling_all(play: Play) -> Play:
    """The same, but everybody's numbers are also shown as they are."""

    def leaking(stream: Floats, source: Source) -> Played:
        played = play(stream, source)
        return Played([*played.published, stream], played.account)

    return leaking


def hashable(published: Any) -> Hashable:
    """What was published as something that can be counted; floats to nine digits."""
    if isinstance(published, np.ndarray):
        return hashable(published.tolist())
    if isinstance(published, list | tuple):
        return tuple(hashable(part) for part in published)
    return round(published, 9) if isinstance(published, float) else published
