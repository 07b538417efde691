"""Settings of ordered experts on private running sums: the sum, its noise, the rate, the certificate."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from ... import bounds
from ...core import checks
from ...core.settings import of, one_of, real, whole
from ...privacy import Event, LaplaceNoise, Participation, Share, SumSpec, VectorBounds
from ...privacy.sums import METHODS
from ..rounds import Rounds
from .batches import LONGEST, first_batch, geometric_ends
from .selector import SelectorSettings, common_settings

# A falling rate is so many times what is best for the rounds so far, if they were all.
_FALLING = 2.0


@dataclass(frozen=True, kw_only=True)
class RunningSumSettings(SelectorSettings):
    """What a `RunningSumSelector` goes by.

    ``rate`` is that of every draw, or of the last one where it falls from ``fastest``. ``first_batch`` is
    given where no rounds are declared: batches grow geometrically then. A falling rate is then that after one
    round, if it were not for ``fastest``.
    """

    sums: str = one_of(METHODS)
    noise: str = one_of(("gaussian", "laplace"))
    items_per_person: int | None = whole(at_least=1, optional=True)
    weights: str | None = one_of(("norm",), optional=True)
    resample_every: int = whole(at_least=1)
    first_batch: int | None = whole(at_least=1, at_most=LONGEST, optional=True)
    rate: float = real(above=0.0)
    fastest: float | None = real(above=0.0, optional=True)
    event: Event | None = of(Event.from_json, Event.to_json, optional=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.weights is not None and (self.noise == "laplace" or self.items_per_person is not None):
            raise ValueError(f"weights={self.weights!r} needs Gaussian noise, and no items_per_person")
        if (self.rounds is None) != (self.first_batch is not None) or (
            self.rounds is None and self.resample_every != 1
        ):
            raise ValueError("first_batch goes with rounds=None, and resample_every with declared rounds")

    @classmethod
    def tight(
        cls,
        n_items: int,
        k: int,
        rounds: int | None,
        share: Share,
        *,
        sums: str = "sqrt",
        noise: str = "gaussian",
        items_per_person: int | None = None,
        weights: str | None = None,
        resample_every: int | str = 1,
        first_batch: int | None = None,
        min_separation: int | None = None,
        rate: float | str | None = None,
        bound: float = 1.0,
        labels: Sequence[Any] | None = None,
    ) -> RunningSumSettings:
        """The settings for what is asked, with the least noise that fits into ``share``."""
        common = common_settings(n_items, k, rounds, bound, labels)
        checks.one_of("sums", sums, METHODS)
        checks.one_of("noise", noise, ("gaussian", "laplace"))
        if noise == "laplace" and sums != "tree":
            raise ValueError('noise="laplace" needs sums="tree"')
        if items_per_person is not None:
            checks.whole("items_per_person", items_per_person, at_least=1, at_most=common["n_items"])
        if weights is not None:
            checks.one_of("weights", weights, ("norm",))
        falls = isinstance(rate, str)
        if isinstance(rate, str):
            checks.one_of("rate", rate, ("falling",))
        common |= {"sums": sums, "noise": noise, "items_per_person": items_per_person, "weights": weights}
        common["participation"] = Participation.declared(share, min_separation)
        size, chosen, horizon, largest = (common[name] for name in ("n_items", "k", "rounds", "bound"))
        if horizon is None:
            if resample_every != 1:
                raise ValueError(
                    f"resample_every={resample_every} with any number of rounds would release any number of"
                    " sums; declare rounds, or leave it out: batches then grow from first_batch on"
                )
            return cls._endless(common, share, first_batch, rate)
        if first_batch is not None:
            raise ValueError(f"first_batch={first_batch} is for rounds=None; take resample_every")
        common["first_batch"] = None

        def of_batch(batch: int, cautious: int) -> RunningSumSettings:
            best, fastest = bounds.best_rate(size, chosen, horizon, cautious, largest), None
            if falls:
                fastest = 1.0 / (cautious * largest)
                best = min(fastest, _FALLING * best)
            found = cls(**common, resample_every=batch, rate=best, fastest=fastest, event=None)
            spec = found.spec
            return found if spec is None else replace(found, event=spec.event(share, share.notion))

        if resample_every == "auto":
            grid = sorted({max(1, round(2.0 ** (i / 2))) for i in range(2 * horizon.bit_length())})
            every = [of_batch(batch, batch) for batch in grid if batch <= horizon]
            # Where Hedge's own part is trivial already, the batch of the least noise is taken.
            found = min(every, key=lambda one: one._learning_regret() + chosen * one.noise_maximum)
        else:
            # A batch of the user's choosing is taken as a matter of convenience: learn as fast as without it.
            # That is certified only for batches up to 1 / (rate bound); "auto" keeps to what is certified.
            found = of_batch(checks.whole("resample_every", resample_every, at_least=1), 1)
        if rate is None or falls:
            return found
        return replace(found, rate=checks.real("rate", rate, above=0.0))

    @classmethod
    def _endless(
        cls, common: dict[str, Any], share: Share, first: int | None, rate: float | str | None
    ) -> RunningSumSettings:
        """Settings for any number of rounds: the rate falls, unless it is given as a number."""
        largest, fastest = common["bound"], None
        if rate is None or isinstance(rate, str):
            fastest = 1.0 / largest
            rate = _FALLING * math.sqrt(common["k"] * math.log(max(common["n_items"], 2))) / largest
        common |= {"resample_every": 1, "rate": checks.real("rate", rate, above=0.0), "fastest": fastest}

        def of_first(length: int) -> RunningSumSettings:
            found = cls(**common, first_batch=length, event=None)
            assert found.spec is not None
            return replace(found, event=found.spec.event(share, share.notion))

        if first is not None:
            return of_first(checks.whole("first_batch", first, at_least=1, at_most=LONGEST))
        found = of_first(1)
        spec, event = found.spec, found.event
        assert spec is not None
        assert event is not None
        return of_first(first_batch(spec.noise_std(event, 1) / largest))

    @cached_property
    def ends(self) -> Sequence[int]:
        """The rounds before which a sum is released and a new set drawn: batches end there."""
        if self.first_batch is None:
            return range(self.resample_every, self.horizon, self.resample_every)
        return geometric_ends(self.first_batch, None)

    @property
    def longest(self) -> int:
        """How many people a batch has at most."""
        return self.resample_every if self.first_batch is None else self.ends[-1] - self.ends[-2]

    def batch_at(self, number: int) -> int:
        return bisect_right(self.ends, number)

    def batch_start(self, batch: int) -> int:
        return self.ends[batch - 1] if batch else 0

    def due(self, number: int) -> bool:
        """Whether a new set is drawn in round ``number``: at the beginning of a batch."""
        if self.first_batch is None:
            return number % self.resample_every == 0
        return number == 0 or self.batch_at(number) > self.batch_at(number - 1)

    def gathered_after(self, rounds: Rounds) -> tuple[int, int]:
        """How many sums were released at the least, and how many people at most wait for the next one."""
        least = self.batch_at(rounds.number if rounds.is_open else rounds.number - 1)
        return least, min(rounds.number - self.batch_start(least), self.longest)

    def rate_after(self, rounds: int) -> float:
        """The rate of a draw after so many rounds."""
        if self.fastest is None or not rounds:
            return self.rate if self.fastest is None else self.fastest
        return min(self.fastest, self.rate * math.sqrt((self.rounds or 1) / rounds))

    @property
    def entries(self) -> int:
        return 2 * self.k * self.n_items

    @property
    def releases(self) -> int:
        """Sums that a draw can look at: one per batch but the last."""
        return len(self.ends)

    @property
    def spec(self) -> SumSpec | None:
        """The running sum of people's gains, stacked over the experts; None where nothing is released."""
        if not self.releases:
            return None
        nonzeros = None if self.items_per_person is None else self.k * self.items_per_person
        norm = 1 if self.noise == "laplace" else 2
        box = (0.0, self.bound)
        # Weighted, what an expert is paid by a person has an L2 norm of at most the bound.
        longest = None if self.weights is None else self.bound * math.sqrt(self.k)
        vectors = VectorBounds(self.k * self.n_items, norm, longest, box, nonzeros, self.longest)
        reduced = self.sums == "tree" and self.noise == "gaussian"
        return SumSpec(
            vectors,
            self.releases,
            self.sums,
            self.noise,
            variance_reduction=reduced,
            participation=self.participation,
        )

    @property
    def noise_maximum(self) -> float:
        """Expected maximum of one expert's noise at the end: what the noise can cost an expert."""
        spec, event = self.spec, self.event
        if spec is None or event is None:
            return 0.0
        if isinstance(event, LaplaceNoise):
            return bounds.laplace_maximum(self.n_items, float(event.scale), spec.most_draws)
        return bounds.gaussian_maximum(self.n_items, spec.deviation(event))

    def _learning_regret(self, *, clipped: bool = True) -> float:
        """What learning costs without noise."""
        shape = (self.n_items, self.k, self.horizon, self.rate)
        if self.fastest is not None:
            return bounds.falling_hedge(
                *shape, self.fastest, self.resample_every, self.bound, clipped=clipped
            )
        hedge = bounds.hedge if clipped else bounds.unclipped_hedge
        return hedge(*shape, self.resample_every, self.bound)

    @property
    def unclipped_regret(self) -> float:
        """The certificate without the trivial bound, to compare settings by; infinite where there is none."""
        if self.rounds is None:
            return math.inf
        return self._learning_regret(clipped=False) + self.k * self.noise_maximum

    @property
    def certified_regret(self) -> float:
        """Bound on the expected (1 - 1/e)-regret over the declared rounds (see `bounds.noisy_leader`).

        Infinite where none are declared: batches that grow with the rounds cost a share of them all.
        """
        if self.rounds is None:
            return math.inf
        shape = (self.n_items, self.k, self.horizon, self.rate, self.noise_maximum)
        return bounds.noisy_leader(*shape, self.resample_every, self.bound, fastest=self.fastest)
