"""Settings of Meta-Frank-Wolfe in both forms, and the regret that is certified for them.

K linear experts, what one person pays each of them, how these payoffs are summed privately, and what that
can cost: the learner, its certificate and the planner read one object.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

from ...bounds import frank_wolfe as bounds
from ...bounds.selection import ALPHA
from ...constraints import Constraint
from ...constraints.domains import Box, Domain
from ...constraints.stored import from_plain, to_plain
from ...core import checks
from ...core.settings import of, one_of, real, whole
from ...privacy import Event, GaussianNoise, LaplaceNoise, Share, SumSpec, VectorBounds
from ...privacy.sums import METHODS
from ..protocol import LearnerSettings
from ..sums import NOISES
from .leader import Leader, size_of

REGULARIZERS = ("entropy", "euclidean")
MOST_STEPS, FEW_STEPS = 4096, 4
# Bounds beyond these would have squares or units that leave the range of floats.
LEAST, MOST = 1e-100, 1e100


def _written(domain: Constraint | Box) -> dict[str, Any]:
    plain = domain.to_json() if isinstance(domain, Domain) else to_plain(domain)
    return plain | {"size": size_of(domain)}


def _read(plain: dict[str, Any]) -> Constraint | Box:
    known = dict(plain)
    size = known.pop("size")
    if known.get("n_items", size) != size:  # before so much room is taken
        raise ValueError(f"a domain over {checks.shown(size)} items says {checks.shown(known['n_items'])}")
    domain = Domain.from_json(known) if known["kind"] == "Box" else from_plain(known)
    if not isinstance(domain, Constraint | Box) or size_of(domain) != size:
        raise ValueError(f"{domain!r} is not a domain over {checks.shown(size)} items")
    return domain


@dataclass(frozen=True, kw_only=True)
class FrankWolfeSettings(LearnerSettings, ABC):
    """What both forms go by.

    ``rate`` is that of the leaders, who follow sums which are fed every ``resample_every`` rounds. ``event``
    is one release of these sums; None where nothing is ever released. ``claimed_expert_epsilon`` is what a
    paper claims of one expert, with its constants. ``added_curvature`` makes payoffs concave by so much in
    every round, as paper 004's approximate leader does; None for leaders at a fixed rate.
    """

    domain: Constraint | Box = of(_read, _written)
    steps: int = whole(at_least=1, at_most=MOST_STEPS)
    regularizer: str = one_of(REGULARIZERS)
    rate: float = real(above=0.0)
    sums: str = one_of(METHODS)
    noise: str = one_of(NOISES)
    resample_every: int = whole(at_least=1)
    bound: float = real(at_least=LEAST, at_most=MOST)
    event: Event | None = of(Event.from_json, Event.to_json, optional=True)
    claimed_expert_epsilon: float | None = real(above=0.0, optional=True)
    added_curvature: float | None = real(above=0.0, optional=True)

    def __post_init__(self) -> None:
        if self.noise != "gaussian" and self.sums != "tree":
            raise ValueError(f'{self.noise} noise needs sums="tree", not {checks.shown(self.sums)}')

    # --- differences of the two forms -----------------------------------------------------------

    @property
    @abstractmethod
    def payoffs(self) -> VectorBounds:
        """Declared bounds of what one person pays one expert."""

    @property
    @abstractmethod
    def longest(self) -> float:
        """The longest vector that one person pays one expert, in L2."""

    @property
    @abstractmethod
    def largest(self) -> float:
        """The largest entry of such a vector."""

    @abstractmethod
    def discretization(self, steps: int) -> float:
        """What a finite number of steps loses over all rounds."""

    @property
    def trivial(self) -> float:
        """What doing nothing at all can lose."""
        return ALPHA * self.bound * self.horizon

    # --- the experts and their sums --------------------------------------------------------------

    @property
    def entries(self) -> int:
        return 3 * self.steps * self.size

    @property
    def size(self) -> int:
        """How many coordinates a point has."""
        return size_of(self.domain)

    @cached_property
    def leader(self) -> Leader:
        """Where an expert stands, given its payoffs; and the sizes that its regret depends on."""
        return Leader(self.domain, self.regularizer)

    @property
    def units(self) -> float:
        """Units in which payoffs are counted, per 1: a power of two, 2^31 to 2^32 of them to the largest.

        Fewer where a batch is so long that its sum would not be an exact float.
        """
        bits = min(32, 53 - self.resample_every.bit_length())
        return float(2.0 ** (bits - math.frexp(self.largest)[1]))

    @property
    def most(self) -> int:
        """The largest entry, in units."""
        return math.floor(self.largest * self.units)

    @property
    def spec(self) -> SumSpec | None:
        """The running sum of all experts' payoffs; None where nothing is released."""
        return self._spec(self.steps, self.resample_every)

    def _spec(self, steps: int, batch: int) -> SumSpec | None:
        """The same for other numbers: a vector for each batch of people but the last.

        Gaussian noise is drawn for all experts together. Other noise is drawn and accounted for each expert
        on its own: a person's vectors enter one release per level of the tree and expert, each with the
        sensitivity of one expert's vectors. This keeps the experts' noises independent, and lets their
        losses compose in zCDP where there is a delta.
        """
        releases = -(-self.horizon // batch) - 1
        if not releases:
            return None
        one = replace(self.payoffs, people_per_vector=batch)
        if self.noise == "gaussian":
            reduced = self.sums == "tree"
            one = one.stacked(steps)
            return SumSpec(
                one, releases, self.sums, variance_reduction=reduced, participation=self.participation
            )
        return SumSpec(one, releases, "tree", self.noise, stacked=steps, participation=self.participation)

    def batch_at(self, number: int) -> int:
        return number // self.resample_every

    def batch_start(self, batch: int) -> int:
        return batch * self.resample_every

    @property
    def releases(self) -> int:
        """Sums that a decision can look at: one per batch but the last."""
        return 0 if self.spec is None else self.spec.rounds

    def expert_epsilon(self, max_rounds_per_person: int) -> float:
        """Pure epsilon of one expert, all rounds of a person together; infinite for Gaussian noise."""
        spec, event = self.spec, self.event
        if spec is None or event is None:
            return 0.0
        if not isinstance(event, LaplaceNoise) or not event.scale:
            return math.inf
        each = float(event.sensitivity) / float(event.scale)
        return spec.count // self.steps * each * max_rounds_per_person

    # --- what is certified -----------------------------------------------------------------------

    def best_rate(self, steps: int, batch: int) -> float:
        """The rate at which the experts lose least without noise."""
        leader = self.leader
        if leader.regularizer == "entropy":
            paid = bounds.payoff(steps, leader.rank, self.bound)
            return bounds.best_entropic_rate(leader.spread, paid, self.horizon, batch, self.bound)
        return bounds.best_euclidean_rate(leader.reach, self.longest, self.horizon, batch)

    def _experts_lose(self, steps: int, batch: int, rate: float) -> float:
        """The average regret of the experts without noise."""
        leader = self.leader
        if leader.regularizer == "entropy":
            paid = bounds.payoff(steps, leader.rank, self.bound)
            return bounds.entropic(leader.spread, paid, self.horizon, rate, batch, self.bound)
        return bounds.euclidean(leader.reach, self.longest, self.horizon, rate, batch)

    def _noise_maximum(self, spec: SumSpec | None, event: Event | None) -> float:
        """Expected maximum of the noise of an expert's last sum: what it can cost that expert."""
        if spec is None or event is None:
            return 0.0
        leader, n = self.leader, self.leader.n_items
        if isinstance(event, GaussianNoise):
            deviation = spec.deviation(event)
            over_box = bounds.box_maximum(leader.widths, deviation, gaussian=True)
            found = [leader.radius * math.sqrt(n) * deviation, over_box]
            if not leader.is_box:
                found.append(bounds.set_maximum(n, leader.rank, deviation))
            return min(found)
        assert isinstance(event, LaplaceNoise)
        scale, draws = float(event.scale), spec.most_draws
        if self.noise == "laplace":
            return bounds.laplace_set_maximum(n, leader.rank, scale, draws)
        deviation = scale * math.sqrt((n + 1.0) * draws)
        over_box = bounds.box_maximum(leader.widths, deviation, gaussian=False)
        return min(leader.radius * math.sqrt(n) * deviation, over_box)

    @property
    def least_regret(self) -> float:
        """What is certified at the best rate, also where that is more than doing nothing loses."""
        lost, steps, batch = self.discretization(self.steps), self.steps, self.resample_every
        experts = self._experts_lose(steps, batch, self.best_rate(steps, batch))
        return lost + experts + self._noise_maximum(self.spec, self.event)

    @property
    def certified_regret(self) -> float:
        """Bound on the expected (1 - 1/e)-regret of the fractional points over the declared rounds."""
        lost = self.discretization(self.steps)
        if self.added_curvature is not None:
            return min(self.trivial, lost + self._approximate_leaders_lose(self.added_curvature))
        lost += self._noise_maximum(self.spec, self.event)
        return min(self.trivial, lost + self._experts_lose(self.steps, self.resample_every, self.rate))

    def _approximate_leaders_lose(self, curvature: float) -> float:
        """The average regret of paper 004's leaders, noise included."""
        n, error = self.size, 0.0
        if self.spec is not None:
            assert isinstance(self.event, LaplaceNoise)
            error = float(self.event.scale) * math.sqrt(n * (n + 1.0) * self.spec.most_draws)
        return bounds.approximate_leader(self.leader.radius, self.longest, self.horizon, curvature, error)

    # --- settling the numbers --------------------------------------------------------------------

    def settled(
        self, share: Share, steps: int | str, resample_every: int | str, rate: float | None = None
    ) -> Self:
        """These settings with the numbers asked for, the best certified ones for ``"auto"``, and the least
        noise that fits into ``share``.
        """
        batches = (
            None if resample_every == "auto" else [checks.whole("resample_every", resample_every, at_least=1)]
        )
        numbers = None if steps == "auto" else [checks.whole("steps", steps, at_least=1, at_most=MOST_STEPS)]
        number, batch = self._best(share, numbers, batches)
        if rate is None:
            # A batch of the user's choosing is taken as a matter of convenience: learn as fast as without it.
            rate = self.best_rate(number, 1 if batches else batch)
        found = replace(
            self,
            steps=number,
            resample_every=batch,
            rate=checks.real("rate", rate, above=0.0),
            event=self._event(number, batch, share),
        )
        vars(found)["leader"] = self.leader  # that of the same domain
        return found

    def _event(self, steps: int, batch: int, share: Share) -> Event | None:
        spec = self._spec(steps, batch)
        return None if spec is None else spec.event(share, share.notion)

    def _best(
        self, share: Share, steps: Sequence[int] | None, batches: Sequence[int] | None
    ) -> tuple[int, int]:
        """The numbers of steps and of rounds per batch with the smallest certified regret.

        Where no number of steps certifies more than doing nothing does, few of them, which real streams like.
        """
        if steps is not None and batches is not None:
            return steps[0], batches[0]
        halves = sorted({max(1, round(2.0 ** (i / 2))) for i in range(2 * self.horizon.bit_length())})
        shortest = batches or [batch for batch in halves if batch <= self.horizon]
        few = steps or [number for number in halves if number <= min(MOST_STEPS, self.horizon)]
        found: list[tuple[float, int, int]] = []
        for number in few:
            lost = self.discretization(number)
            for batch in shortest:
                experts = self._experts_lose(number, batch, self.best_rate(number, batch))
                event = self._event(number, batch, share)
                noise = self._noise_maximum(self._spec(number, batch), event)
                found.append((lost + experts + noise, number, batch))
        total, number, batch = min(found)
        if steps is None and total >= self.trivial:
            number = min(FEW_STEPS, self.horizon)
        return number, batch


def unsettled(rounds: int, bound: float, calibration: str) -> dict[str, Any]:
    """What both forms are asked for, checked, with numbers that `FrankWolfeSettings.settled` replaces."""
    return {
        "rounds": checks.whole("rounds", rounds, at_least=1),
        "calibration": calibration,
        "bound": checks.real("bound", bound, at_least=LEAST, at_most=MOST),
        "steps": 1,
        "resample_every": 1,
        "rate": 1.0,
        "event": None,
        "claimed_expert_epsilon": None,
        "added_curvature": None,
    }
