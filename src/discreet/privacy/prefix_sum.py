"""Private running sums of vectors: after every vector, the sum so far, with noise that grows slowly.

`TreeSum` is the binary tree of papers 001 and 004 (after Dwork et al. 2010 and Chan, Shi and Song 2011) with
the sensitivity and the number of levels that replace-one neighbours need. `FactorizedSum` is the
lower-triangular Toeplitz factorization of Fichtenberger, Henzinger and Upadhyay 2023, which has about a third
of the tree's noise. Both have the same interface, and the next vector may depend on earlier answers:

>>> import numpy as np, discreet as dc
>>> total = dc.privacy.FactorizedSum(3, rounds=100, budget=dc.Budget(1.0, 1e-6), norm_bound=1.0, seed=0)
>>> total.add(np.array([1.0, 0.0, 0.0])).shape
(3,)

A `SumSpec` describes a sum before it is made: learners, certificates and the planner compute noise from it.
"""

from __future__ import annotations

import math
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, NoReturn, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core import checks
from ..core.guards import fix, fixed
from ..core.options import NoiseLaw, SumMethod
from ..core.state import (
    State,
    capture,
    read_state,
    refusing,
    restore,
    saved_settings,
    settings_json,
    settings_of,
    write_state,
)
from ..kernels.prefix_sums import FactorizedPrefix, PrefixSum, TreePrefix
from . import samplers
from .account import Entry, published_share
from .accountant import BY_ROUNDS, Gate, Release, Spending, spend_from
from .budget import Share
from .conversions import exact, root_above, rounded_up
from .events import (
    Event,
    GaussianNoise,
    GroupGaussianNoise,
    LaplaceNoise,
    Number,
    SphericalLaplaceNoise,
)
from .factorizations import BinaryTree, Factorization, factorization
from .randomness import Seed

Floats = NDArray[np.float64]
_NUMBERS_AHEAD = 1 << 18  # most numbers of noise drawn before they are used
_ROWS_AHEAD = 256
_LEAST_BOUND = 2.0**-900  # below it, floats have too few digits to keep a vector to its bound
_COARSEST_BITS = 24  # least bits of a tree's grid: noise has a scale of 2^bits steps
NOISES: dict[str, type[GaussianNoise] | type[LaplaceNoise]] = {
    "gaussian": GaussianNoise,
    "laplace": LaplaceNoise,
    "spherical": SphericalLaplaceNoise,
}


# --- what is declared ------------------------------------------------------------------------------------


@saved_settings
@dataclass(frozen=True)
class VectorBounds:
    """Declared bounds of each vector, and how far apart two of them can be.

    ``norm_bound`` is in L1 for Laplace noise and in L2 otherwise. ``box`` bounds every coordinate,
    ``nonzeros`` the number of nonzero coordinates. Every bound is checked when a vector is added. With
    ``people_per_vector`` above 1 each vector is itself a sum of up to that many people's vectors; the bounds
    are about each person's vector, and the caller who adds them up has to ensure them. ``apart`` bounds the
    distance between neighbours' vectors, where it is known to be smaller than the other bounds imply.
    """

    dimension: int
    norm: int
    norm_bound: float | None = None
    box: tuple[float, float] | None = None
    nonzeros: int | None = None
    people_per_vector: int = 1
    apart: float | None = None

    def __post_init__(self) -> None:
        plain: dict[str, Any] = {
            "dimension": checks.whole("dimension", self.dimension, at_least=1),
            "people_per_vector": checks.whole("people_per_vector", self.people_per_vector, at_least=1),
        }
        if self.norm not in (1, 2):
            raise ValueError(f"norm={checks.shown(self.norm)} must be 1 (L1) or 2 (L2)")
        if self.norm_bound is None and self.box is None:
            raise ValueError("say how large a vector can be: norm_bound=..., or box=(low, high)")
        if self.norm_bound is not None:
            plain["norm_bound"] = checks.real("norm_bound", self.norm_bound, above=0.0, at_least=_LEAST_BOUND)
        if self.box is not None:
            checks.pair("box", self.box)
            low = checks.real("box[0]", self.box[0], at_most=0.0)
            high = checks.real("box[1]", self.box[1], at_least=0.0)
            if low == high:
                raise ValueError("box=(0, 0) leaves nothing to sum; give low <= 0 <= high with low < high")
            plain["box"] = (low, high)
        if self.nonzeros is not None:
            plain["nonzeros"] = checks.whole(
                "nonzeros", self.nonzeros, at_least=1, at_most=plain["dimension"]
            )
        if self.apart is not None:
            plain["apart"] = checks.real("apart", self.apart, above=0.0)
        for name, value in plain.items():
            object.__setattr__(self, name, value)

    def stacked(self, number: int) -> VectorBounds:
        """The bounds of ``number`` such vectors of a person, concatenated."""
        if number == 1:
            return self
        grow = (number if self.norm == 1 else math.sqrt(number)) * (1.0 + 2.0**-50)
        return replace(
            self,
            dimension=self.dimension * number,
            norm_bound=None if self.norm_bound is None else self.norm_bound * grow,
            nonzeros=None if self.nonzeros is None else self.nonzeros * number,
            apart=None if self.apart is None else self.apart * grow,
        )

    @property
    def largest(self) -> float:
        """The largest absolute value of any coordinate of a vector that may be added."""
        bounds = [] if self.norm_bound is None else [self.norm_bound]
        if self.box is not None:
            bounds.append(max(-self.box[0], self.box[1]))
        return min(bounds) * self.people_per_vector

    def changed(self, neighbours: str) -> int:
        """How many coordinates can differ between neighbours."""
        if self.nonzeros is None:
            return self.dimension
        return min(self.dimension, self.nonzeros * (2 if neighbours == "replace" else 1))

    def difference(self, neighbours: str) -> float:
        """Largest distance, in the norm of the noise, between the vectors of neighbours, rounded up.

        Replaced: twice the norm bound, or sqrt(2) times it in L2 if nothing is negative (the angle between
        the vectors is then at most a right one). In a box of width w and largest absolute value b, with d
        coordinates of which m are nonzero: two nonzero entries either share a coordinate (they differ by at
        most w) or do not (b twice). Added or removed: the vector itself against 0.
        """
        if self.apart is not None:
            return self.apart
        d, p = self.dimension, self.norm
        m = d if self.nonzeros is None else self.nonzeros
        replaced = neighbours == "replace"
        powers = []  # bounds of the distance to the power p, as exact fractions
        if self.norm_bound is not None:
            right_angle = p == 2 and self.box is not None and self.box[0] == 0.0
            times = (2 if right_angle else 2**p) if replaced else 1
            powers.append(exact(self.norm_bound) ** p * times)
        if self.box is not None:
            low, high = exact(self.box[0]), exact(self.box[1])
            width, size = (high - low) ** p, max(-low, high) ** p
            powers.append(min(width * d, max(width, 2 * size) * m) if replaced else size * m)
        least = min(powers)
        return rounded_up(least if p == 1 else root_above(least))

    def checked(self, values: ArrayLike, *, clip: bool) -> NDArray[np.float64]:
        """The vector as floats, refused unless it keeps every declared bound; clipped to them if ``clip``."""
        vector = checks.vector("vector", values, length=self.dimension)
        count, people = int(np.count_nonzero(vector)), self.people_per_vector
        if self.nonzeros is not None and count > self.nonzeros * people:
            raise ValueError(
                f"vector has {count} entries that are not 0; nonzeros={self.nonzeros} were declared"
            )
        if self.box is not None:
            low, high = self.box[0] * self.people_per_vector, self.box[1] * self.people_per_vector
            if vector.min() < low or vector.max() > high:
                if not clip:
                    where = int(np.flatnonzero((vector < low) | (vector > high))[0])
                    raise ValueError(
                        f"vector[{where}]={vector[where]} is outside box={self.box}; pass clip=True to clip"
                    )
                vector = np.clip(vector, low, high)
        if self.norm_bound is not None:
            scaled, in_scale, length = _measured(vector, self.norm)
            longest = self.norm_bound * self.people_per_vector
            if length > longest:
                if not clip and length > longest * (1 + 1e-12):
                    raise ValueError(
                        f"vector has L{self.norm} norm {length:.17g} above norm_bound={self.norm_bound};"
                        " pass clip=True to shorten it"
                    )
                vector = scaled * (longest / in_scale)
        return vector


def _measured(vector: NDArray[np.float64], norm: int) -> tuple[NDArray[np.float64], float, float]:
    """A scaled copy of the vector, its L1 or L2 norm, and that of the vector (inf beyond the largest float).

    Accurate to ``log2(entries) + 8`` units of rounding. Scaling is by a power of two that brings the largest
    entry into [1/2, 1), so squares that underflow are negligible beside the largest, and a bound divided by
    the scaled norm stays in range. Addition is pairwise: each entry passes through log2(entries) additions,
    unlike in BLAS, where it may pass through as many as there are entries.
    """
    exponent = math.frexp(float(np.abs(vector).max()))[1]
    scaled = np.ldexp(vector, -exponent)
    parts = np.abs(scaled)
    if norm == 2:
        parts *= parts
    while parts.size > 1:
        half = parts.size // 2
        paired = parts[:half] + parts[half : 2 * half]
        if parts.size % 2:
            paired = np.append(paired, parts[-1])
        parts = paired
    total = math.sqrt(parts[0]) if norm == 2 else float(parts[0])
    with np.errstate(over="ignore"):
        return scaled, total, float(np.ldexp(total, exponent))


@saved_settings
@dataclass(frozen=True)
class Participation:
    """At most ``times`` of the vectors of a sum hold data of one person, ``apart`` or more from each other.

    Each of them holds it once. A sum releases C x plus noise, where C has a row for each release and a column
    for each of the vectors x. If a person can move one vector by D, C x moves by D times the norm of a
    column. With several vectors it moves by at most D times the largest norm of a *sum of columns* that the
    person can be in, and this is attained.

    Proof. Let d_i be what a person changes in the vector t_i, with norm(d_i) <= D, and c_t the columns of C.
    The squared norm of the change of C x is the sum over all i, j of <d_i, d_j> <c_{t_i}, c_{t_j}>. No entry
    of C is negative, so neither is any product of columns, and <d_i, d_j> <= D^2: the sum is at most D^2
    times the square of norm(sum of the c_{t_i}). Vectors that all change by the same d of norm D attain it.
    Whether d_i comes from replacing or removing a person only matters for D. Omitting columns makes the sum
    smaller, so it does not fall when ``times`` grows.

    The vectors may be chosen after seeing earlier releases, and so may the times t_i: C is lower triangular,
    so on every path the means of the Gaussian releases move by a sequence whose norm is bounded as above, and
    such a sequence of releases is Gaussian DP at that norm over sigma (fully adaptive composition: Smith and
    Thakurta 2022).

    `Factorization.participation_norm` and `BinaryTree.participation_square` bound the sums of columns.
    """

    times: int = 1
    apart: int = 1

    def __post_init__(self) -> None:
        for name, most in (("times", checks.ANY), ("apart", 1 << 62)):
            object.__setattr__(self, name, checks.whole(name, getattr(self, name), at_least=1, at_most=most))

    @classmethod
    def declared(cls, share: Share, min_separation: int | None) -> Participation | None:
        """The declaration for people in ``max_rounds_per_person`` vectors; None without a separation."""
        if min_separation is None:
            return None
        apart = checks.whole("min_separation", min_separation, at_least=1)
        return cls(share.budget.max_rounds_per_person, apart)

    def within(self, rounds: int) -> int:
        """The most of ``rounds`` vectors that a person can be in."""
        return min(self.times, 1 + (rounds - 1) // self.apart)


@saved_settings
@dataclass(frozen=True)
class SumSpec:
    """``rounds`` vectors within ``bounds``, summed by ``method`` with ``noise``.

    ``variance_reduction`` combines each block of a tree with its halves. ``stacked`` vectors of a person,
    each within ``bounds``, are concatenated and added as one; noise is drawn and accounted for each
    separately. ``participation`` declares how many of the vectors hold data of one person, once each. Without
    it, a budget with ``max_rounds_per_person`` counts every round of a person in full.

    >>> spec = SumSpec(VectorBounds(3, 2, norm_bound=1.0), rounds=1000)
    >>> round(spec.factors.worst_error, 2), spec.count
    (3.27, 1)
    """

    bounds: VectorBounds
    rounds: int
    method: SumMethod = "sqrt"
    noise: NoiseLaw = "gaussian"
    variance_reduction: bool = False
    stacked: int = 1
    participation: Participation | None = None

    def __post_init__(self) -> None:
        checks.instance("bounds", self.bounds, VectorBounds, "VectorBounds(3, 2, norm_bound=1.0)")
        checks.one_of("method", self.method, METHODS)
        checks.whole("stacked", self.stacked, at_least=1)
        checks.one_of("noise", self.noise, self.kind.noises)
        checks.whole("rounds", self.rounds, at_least=1)
        if self.participation is not None:
            checks.instance("participation", self.participation, Participation, "Participation(4, apart=2)")
            if self.noise != "gaussian":
                raise ValueError(
                    f"min_separation needs Gaussian noise: with noise={self.noise!r} every round of a person"
                    " costs the same, however far apart they are"
                )

    @property
    def kind(self) -> type[RunningSum]:
        """The class of the method."""
        return METHODS[self.method]

    @cached_property
    def factors(self) -> Factorization | BinaryTree:
        """The factorization of the prefix sums, which determines sensitivity and error."""
        if self.method == "tree":
            return BinaryTree(self.rounds, self.variance_reduction)
        return factorization(self.method, self.rounds)

    @cached_property
    def added(self) -> VectorBounds:
        """The bounds of the vectors that are added: all of a person's vectors concatenated."""
        return self.bounds.stacked(self.stacked)

    @property
    def count(self) -> int:
        """The number of releases one person's data enters; with a `participation` the sum is one release."""
        return (1 if self.returning else self.factors.uses) * self.stacked

    @property
    def returning(self) -> bool:
        """Whether a declared `participation` lets a person be in several vectors."""
        return self.participation is not None and self.participation.times > 1

    @property
    def stretch(self) -> float:
        """How far one release moves per unit a vector moves; with a `participation`, all of them together."""
        if (who := self.participation) is None or who.times == 1:
            return self.factors.column_norm
        return self.factors.participation_norm(who.times, who.apart)

    def sensitivity(self, neighbours: str) -> float:
        """How far one person moves one release, in the norm of the noise.

        This is for one vector; with a `participation`, for all vectors that the person is in.
        """
        return self.bounds.difference(neighbours) * self.stretch

    def event(self, share: Share, definition: str | None = None) -> Event:
        """The least noise with which all releases fit into ``share``."""
        checks.instance("share", share, Share, "budget.share()")
        if self.participation is not None:
            rounds = share.budget.max_rounds_per_person
            if self.participation.times != rounds:
                raise ValueError(
                    f"the sum is for people in {self.participation.times} of its vectors each; the budget has"
                    f" max_rounds_per_person={rounds}"
                )
        kind = GroupGaussianNoise if self.returning else NOISES[self.noise]
        return kind.within(share, self.sensitivity(share.neighbours), self.count, definition)

    def error(self, step: int) -> float:
        """Norm of the coefficients of the noise vectors in the sum after ``step`` vectors."""
        return self.factors.row_norm(checks.whole("step", step, at_least=1, at_most=self.rounds))

    @property
    def most_draws(self) -> int:
        """The most noise vectors that enter one sum."""
        return self.factors.most_draws

    def deviation(self, event: Event) -> float:
        """Standard deviation of a coordinate of the noisiest sum, for Gaussian noise of ``event``."""
        return self._deviation(event, self.factors.worst_error)

    def mean_deviation(self, event: Event) -> float:
        """The average of `deviation` over the rounds, slightly overstated."""
        return self._deviation(event, self.factors.mean_error)

    def _deviation(self, event: Event, error: float) -> float:
        if not isinstance(event, GaussianNoise):
            raise TypeError(f"event must be a GaussianNoise, got {checks.shown(event)}")
        return float(event.sigma) * error / (self.factors.column_norm * math.sqrt(self.factors.uses))

    def widening(self, event: Event) -> float:
        """The factor by which noise is widened to pay for its grid; infinite where no grid is fine enough."""
        try:
            grid = self.kind.grid(self, event, "replace")
        except ValueError:
            return math.inf
        asked: Any = event.sigma if isinstance(event, GaussianNoise) else getattr(event, "scale", 0.0)
        return 1.0 if grid is None else grid.noise_scale / float(asked)

    def noise_std(self, event: Event, step: int) -> float:
        """Standard deviation of a coordinate after ``step`` vectors, with the noise of ``event`` as drawn."""
        checks.instance("event", event, NOISES[self.noise], f"{NOISES[self.noise].__name__}(1.0, 9.0)")
        return self.unit_std(self.kind.grid(self, event, "replace")) * self.error(step)

    def unit_std(self, grid: samplers.Grid | None) -> float:
        """Standard deviation of one coordinate of one noise vector."""
        size = self.bounds.dimension
        factor = {"gaussian": 1.0, "laplace": math.sqrt(2.0), "spherical": math.sqrt(size + 1.0)}
        return 0.0 if grid is None else factor[self.noise] * grid.noise_scale


# --- sums ------------------------------------------------------------------------------------------------


@dataclass
class _Progress:
    """The changing part of a sum: updated with every vector."""

    ahead: NDArray[np.int64]
    taken: int = 0
    interrupted: bool = False


@fixed
class RunningSum(ABC):
    """Base class of running sums: the declared bounds, the charge at the gate, counting, saving.

    All rounds are charged when the sum is made, so that adding never fails for lack of budget. ``budget`` may
    be a share, or a gate that other releases go through as well. ``share`` is the part of the full budget
    that the sum may use, by default all that is left at the gate. ``event`` states the noise instead; it is
    refused unless it covers one person's sensitivity. Threads take turns.

    Formal guarantee: all sums of the run together are one release, with the noise that the bounds require.

    ``min_separation=s`` declares how people come back, under a budget with ``max_rounds_per_person=b``: one
    person's data is in at most b of the vectors, once in each, and these are at least s apart. Noise is then
    for the total that such a person can move (`Participation`), which is less than b times what they move
    once. It needs Gaussian noise. A sum cannot tell who is in a vector: the caller has to ensure this.
    """

    methods: ClassVar[tuple[str, ...]]
    noises: ClassVar[tuple[str, ...]]
    _state: ClassVar[tuple[str, ...]] = ("_saved_count", "_prefix", "_kept_noise")
    _any_length: ClassVar[tuple[str, ...]] = ("_kept_noise",)
    _steps: PrefixSum

    def __init__(
        self,
        dimension: int,
        rounds: int,
        budget: Spending,
        *,
        norm_bound: float | None = None,
        box: tuple[float, float] | None = None,
        nonzeros: int | None = None,
        people_per_vector: int = 1,
        min_separation: int | None = None,
        method: SumMethod | None = None,
        noise: NoiseLaw = "gaussian",
        variance_reduction: bool = False,
        share: Fraction | float | None = None,
        event: Event | None = None,
        clip: bool = False,
        seed: Seed = None,
        label: str = "running sum",
    ) -> None:
        chosen: Any = checks.one_of("method", self.methods[0] if method is None else method, self.methods)
        norm = 1 if noise == "laplace" else 2
        bounds = VectorBounds(dimension, norm, norm_bound, box, nonzeros, people_per_vector)
        part = _spending(budget, seed, share, event)
        assert part.gate is not None
        declared = Participation.declared(part, min_separation)
        spec = SumSpec(bounds, rounds, chosen, noise, bool(variance_reduction), participation=declared)
        self._begin(spec, part.gate, share=part, event=event, clip=clip, label=label)

    @classmethod
    def of(cls, spec: SumSpec, gate: Gate, **options: Any) -> Self:
        """The sum of a specification, charged at ``gate``: within ``share``, or all that is left there.

        Or with the noise of ``event``, refused unless it covers one person's sensitivity. ``clip`` and
        ``label`` are as in the constructor. ``disjoint=True``: later sums may follow, each about other people
        than the sums before. They are given the first one's ``release``, which pays for all of them, as
        nobody is in two. ``ahead=True``: a factorized sum draws noise for many vectors at a time.
        """
        total = object.__new__(cls)
        checks.instance("spec", spec, SumSpec, "SumSpec(VectorBounds(3, 2, norm_bound=1.0), 100)")
        checks.instance("gate", gate, Gate, "Gate(Budget(1.0, 1e-6))")
        total._begin(spec, gate, **options)
        return fix(total)

    def _begin(
        self,
        spec: SumSpec,
        gate: Gate,
        *,
        share: Share | None = None,
        event: Event | None = None,
        clip: bool = False,
        label: str = "running sum",
        disjoint: bool = False,
        release: Release | None = None,
        ahead: bool = False,
    ) -> None:
        self.spec, self.clip, self.label = spec, bool(clip), label
        self.rounds, self.method, self.noise = spec.rounds, spec.method, spec.noise
        self.bounds, self.dimension = spec.added, spec.added.dimension
        self._saved_alone = gate._owner is None  # and not with a learner that it is a part of
        self.gate = gate = gate.owned() if self._saved_alone else gate
        if share is None:
            share = gate.left if event is None else gate.budget.share()
        checks.instance("share", share, Share, "budget.share()")
        needed = spec.event(share, share.definition or gate.definition)
        chosen = needed if event is None else _covering(event, needed)
        self._grid = self.grid(spec, chosen, gate.budget.neighbours)
        if release is None:
            name = f"{label} ({self._name})"
            release = gate.reserve(chosen, spec.count, disjoint=disjoint, draws=BY_ROUNDS, label=name)
        elif not (release.disjoint and release.event == chosen and release.count >= spec.count):
            raise ValueError(f"{release} does not pay for {spec.count} of {chosen} about other people")
        self._release = release
        self._lock = threading.RLock()
        self._prefix = np.zeros(self.dimension)
        self._draws_ahead, self._at = ahead, _Progress(np.empty((0, self.dimension), dtype=np.int64))
        self._start()
        self._resumed()

    def _for_disjoint_people(self, spec: SumSpec) -> Self:
        """A new sum under this one's charge: parallel composition, as nobody is in both sums."""
        if not self._release.disjoint:
            raise ValueError(
                "all rounds of a person were counted together (min_separation), and could be in two sums:"
                " make a new learner, with start= this one"
            )
        how: dict[str, Any] = {"event": self.event, "clip": self.clip, "label": self.label}
        how |= {"disjoint": True, "release": self._release, "ahead": self._draws_ahead}
        return self.of(spec, self.gate, **how)

    # --- for users -------------------------------------------------------------------------------

    @property
    def event(self) -> Event:
        """The mechanism of one release: its noise and its sensitivity."""
        return self._release.event

    @property
    def charged(self) -> tuple[Entry, int]:
        """The sum's entry in the account, and the number of such releases one person's data enters."""
        return self._release.entry, self.spec.count

    @property
    def taken(self) -> int:
        """How many vectors have been added."""
        return self._at.taken

    def add(self, vector: ArrayLike) -> Floats:
        """Add one round's vector and return the private sum of all so far."""
        self.gate.check_process()
        checked = self.bounds.checked(vector, clip=self.clip)  # before the lock: ``vector`` may be anything
        with self._lock:
            try:
                if self._at.taken >= self.rounds:
                    raise RuntimeError(f"the sum was made for rounds={self.rounds} and has taken them all")
                self._begin_addition()
                self._steps.decode(self._released(self._steps.encode(np.ascontiguousarray(checked))))
                self._at.taken += 1
                self._at.interrupted = False
            finally:  # also where an interruption came in the last addition
                if self._saved_alone and self._at.taken == self.rounds and self.gate._owner is not None:
                    self.gate._owner.finish()
            return self._prefix.copy()

    @contextmanager
    def compiled(self, count: int) -> Iterator[tuple[PrefixSum, Floats]]:
        """For a compiled loop: the state for the next ``count`` sums, noise drawn, and the prefix it updates.

        As with `add`, an exception in between leaves a sum that accepts no more vectors.
        """
        self.gate.check_process()
        with self._lock:
            self._begin_addition()
            self._steps.give(self._at.ahead[:count])
            yield self._steps, self._prefix
            self._at.ahead = self._at.ahead[count:]
            self._at.taken += count
            self._at.interrupted = False

    def _begin_addition(self) -> None:
        if self._at.interrupted:
            raise RuntimeError("an addition was interrupted half-way; go on from the last saved state")
        self._at.interrupted = True

    def _released(self, sums: NDArray[Any]) -> NDArray[Any]:
        """Rows of sums, in steps of the grid, each with its own noise."""
        if self._grid is not None:
            sums = sums.copy()
            for row in sums:
                row += self._noise_steps()
        return sums

    def _noise_steps(self) -> NDArray[np.int64]:
        """The noise of one released row, in steps of the grid."""
        assert self._grid is not None
        if self._at.ahead.shape[0]:
            row, self._at.ahead = self._at.ahead[0], self._at.ahead[1:]
            return np.asarray(row)
        width = self._vector
        if width == self.dimension:
            return self._release.noise(self._grid, width)
        drawn = [self._release.noise(self._grid, width) for _ in range(self.dimension // width)]
        return np.concatenate(drawn)

    @cached_property
    def _vector(self) -> int:
        """Coordinates of one noise vector: all, or those of one stacked vector for spherical noise."""
        return self.spec.bounds.dimension if self.noise == "spherical" else self.dimension

    def noise_std(self, step: int) -> float:
        """Standard deviation of every coordinate's error after ``step`` vectors."""
        return self.spec.unit_std(self._grid) * self.spec.error(step)

    # --- saving ----------------------------------------------------------------------------------

    @property
    def _saved_count(self) -> int:
        if self._at.interrupted:
            raise RuntimeError(
                "an addition was interrupted half-way, and its people might be counted twice; go on from"
                " the last saved state"
            )
        return self._at.taken

    @_saved_count.setter
    def _saved_count(self, taken: int) -> None:
        self._at.taken = checks.whole("taken", taken, at_least=0, at_most=self.rounds)

    @property
    def _kept_noise(self) -> NDArray[np.int64]:
        """Rows of noise not used yet, saved only for a seeded source, which could draw them again anyway.

        With secure randomness, two sums resumed from the same file must not share noise.
        """
        return self._at.ahead if self.gate.resumes_alike else self._at.ahead[:0]

    @_kept_noise.setter
    def _kept_noise(self, rows: NDArray[np.int64]) -> None:
        count, most = rows.shape[0], self._most_ahead(self._at.taken)
        alike = self.gate.resumes_alike and self._grid is not None
        if count and (not alike or count > most or rows.shape[1] != self.dimension):
            raise ValueError(f"the file holds {count} unused rows of noise that this state cannot have")
        self._at.ahead = rows

    def state(self) -> State:
        """A snapshot for `from_state`: settings and arrays that later additions do not change.

        It holds true sums of private data: keep it as safe as the data. Refused after an interrupted
        addition: it is unknown whether its people are in the sums, and they might be counted twice.
        """
        with self._lock:
            inside, arrays = capture(self)
            header: dict[str, Any] = {"spec": settings_json(self.spec), "event": self.event.to_json()}
            header |= {"clip": self.clip, "label": self.label, "ahead": self._draws_ahead, "inside": inside}
            if self._saved_alone and self.gate._owner is not None:
                header["owner"] = self.gate._owner.state()
            return header, arrays

    @classmethod
    def from_state(cls, header: dict[str, Any], arrays: dict[str, NDArray[Any]], gate: Gate) -> Self:
        """The saved sum at ``gate``, whose ledger holds its charge: once, and only from the latest state."""
        with refusing("the sum"), gate._restoring(header["owner"]) as own:
            spec = settings_of(header["spec"])
            if not isinstance(spec, SumSpec) or not issubclass(cls, spec.kind):
                raise ValueError(f"it is not that of a {cls.__name__}")
            total = cls.of(
                spec,
                own,
                event=Event.from_json(header["event"]),
                clip=header["clip"] is not False,
                label=str(header["label"]),
                ahead=header["ahead"] is not False,
            )
            restore(total, header["inside"], arrays)
            total._saved_alone = True
        return total

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the sum and its gate's account to a file, completely or not at all.

        The file holds true sums of private data; only its owner may read it. Other threads wait until it is
        written, so that an older state never replaces a newer one.
        """
        with self._lock:
            settings, arrays = self.state()
            gate = self.gate.state()
            owner = settings.get("owner", {}).get("id")
            if gate["shared"] or any(one.get("owner") != owner for one in gate["ledger"]["charges"]):
                raise ValueError(
                    "other releases went through this sum's gate; save the gate's state() and the sum's"
                    " state() together, or the gate would come back once for each of them"
                )
            write_state(path, {"class": type(self).__name__, "settings": settings, "gate": gate}, arrays)
            if self.gate._owner is not None:
                self.gate._owner.saved()

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Resume from a saved file; a seeded sum continues identically, a secure one with fresh noise."""
        header, arrays = read_state(path)
        if header.get("class") != cls.__name__:
            raise ValueError(f"{path} holds a {header.get('class')}, not a {cls.__name__}")
        with refusing(path):
            return cls.from_state(header["settings"], arrays, Gate.from_state(header["gate"]))

    def __reduce__(self) -> NoReturn:
        raise TypeError("a running sum is not copied or pickled (its noise could be used twice); use save()")

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(dimension={self.dimension}, rounds={self.rounds}, taken={self._at.taken})"
        )

    # --- for the methods -------------------------------------------------------------------------

    @classmethod
    @abstractmethod
    def grid(cls, spec: SumSpec, event: Event, neighbours: str) -> samplers.Grid | None:
        """The grid on which noise of ``event`` is drawn, widened to cover rounding; None for no noise."""

    @property
    @abstractmethod
    def _name(self) -> str: ...

    @abstractmethod
    def _start(self) -> None:
        """Make the arrays of an empty sum."""

    @abstractmethod
    def _resumed(self) -> None:
        """Make ``_steps`` from the arrays."""

    @property
    @abstractmethod
    def compiles(self) -> bool:
        """Whether a compiled loop can compute the sums itself (`compiled`)."""

    @abstractmethod
    def rows_ahead(self, wanted: int, *, draw: bool = True) -> int:
        """How many sums such a loop can compute before more noise has to be drawn.

        With ``draw``, noise is drawn if there is none, for up to ``wanted`` sums.
        """

    @abstractmethod
    def _most_ahead(self, taken: int) -> int:
        """The most vectors for which noise can have been drawn ahead, after ``taken`` vectors."""

    @property
    def _grid_numbers(self) -> tuple[int, int, float] | None:
        """The grid in the form that compiled steps accept."""
        grid = self._grid
        return None if grid is None else (grid.mantissa, grid.exponent, float(grid.step))


class FactorizedSum(RunningSum):
    """Running sum by a Toeplitz factorization: the least noise of all, Gaussian only.

    The vectors pass through a filter C, a square root of summation. Each round releases the filter's output
    plus fresh Gaussian noise; inverting the filter and adding up gives the sum. ``method="sqrt"`` is the
    square root itself, in O(log rounds) decaying buffers; ``"blt"`` approximates it with at most six buffers
    and tabulated constants, and its error is within 1 % of that.

    Formal guarantee: Gaussian DP for the L2 difference bound times the norm of C's first column, also when
    inputs depend on earlier answers (C is lower triangular; Denisov et al. 2022). With ``min_separation`` it
    is the norm of a sum of columns (`Participation`). Releases are on a grid; truncation to it, and the
    rounding errors of the floating-point filter, are included in the sensitivity.
    """

    methods = ("sqrt", "blt")
    noises = ("gaussian",)
    _state = ("_encoder", "_decoder")

    @property
    def factorization(self) -> Factorization:
        return factorization(self.method, self.rounds)

    @classmethod
    def grid(cls, spec: SumSpec, event: Event, neighbours: str) -> samplers.Grid | None:
        assert isinstance(event, GaussianNoise)
        if not event.sigma:
            return None
        # A person's vector changes the filter's output in every later round, so truncation can add a step
        # to each. The filter itself is computed in floating point: a buffer of decay r holds at most
        # largest / (1 - r); each round adds two rounding errors in each of the two neighbouring runs,
        # which then decay at the same rate; the weighted sum over K buffers adds K + 1 more to all terms.
        found = factorization(spec.method, spec.rounds)
        holds, adding = spec.added.largest * found.lasts, 2.0 * (found.buffers + 1)
        error = float((found.weights * holds * (4.0 * found.lasts + adding)).sum())
        error = 2.0**-53 * (error + spec.added.largest * adding)
        steps = 1.0 + error * 2.0**samplers.STEPS_BITS / float(event.sigma) * 1.01
        # A person who comes back may move other coordinates each time.
        times = 1 if spec.participation is None else spec.participation.within(spec.rounds)
        touched = spec.rounds * min(spec.added.dimension, times * spec.added.changed(neighbours))
        truncation = math.sqrt(touched) * steps + float(_norm_slack(event.sensitivity, event.sigma))
        truncation *= 1.0 + 2.0**-50  # its own rounding
        return samplers.Grid.for_noise(event.sigma, event.sensitivity, truncation)

    @property
    def _name(self) -> str:
        return f"{self.method} factorization"

    def _start(self) -> None:
        shape = (self.factorization.buffers, self.dimension)
        self._encoder, self._decoder = np.zeros(shape), np.zeros(shape)

    def _resumed(self) -> None:
        about = (self._grid_numbers, self._prefix, self.factorization.decays, self.factorization.weights)
        self._steps = FactorizedPrefix(*about, self._encoder, self._decoder)

    @property
    def compiles(self) -> bool:
        return self._draws_ahead

    def rows_ahead(self, wanted: int, *, draw: bool = True) -> int:  # noqa: ARG002
        rows = self._most_ahead(self._at.taken)
        if self._grid is None or rows == 0:
            return rows
        if draw and not self._at.ahead.shape[0]:
            self._at.ahead = self._release.noise(self._grid, rows * self.dimension).reshape(
                rows, self.dimension
            )
        return len(self._at.ahead)

    def _most_ahead(self, taken: int) -> int:
        block = max(1, min(_ROWS_AHEAD, _NUMBERS_AHEAD // self.dimension))
        return min(block - taken % block, self.rounds - taken)

    def _noise_steps(self) -> NDArray[np.int64]:
        if self._draws_ahead and not self._at.ahead.shape[0]:
            self.rows_ahead(1)
        return super()._noise_steps()


class TreeSum(RunningSum):
    """Binary-tree running sum: each finished block of 2^j rounds gets one noise vector.

    ``noise`` is ``"gaussian"``, ``"laplace"`` (per coordinate, pure epsilon) or ``"spherical"`` (the vector
    noise of papers 001 and 004, pure epsilon). ``variance_reduction=True`` combines each block with its two
    halves, weighted by their variances (Honaker 2015, the online form), which reduces the noise by about a
    quarter and draws two noise vectors a round instead of one.

    Formal guarantee: one vector enters ``tree_levels(rounds)`` releases, each with the difference bound
    of the budget's neighbouring relation; papers 001 and 004 calibrate to the norm bound, half of it
    for replace-one (`published`). With ``min_separation`` all blocks are one release, which moves by the norm
    of how often a person is in each of them (`Participation`). Inputs may depend on earlier answers. Exact on
    a grid. Memory: one node per level.
    """

    methods = ("tree",)
    noises = ("gaussian", "laplace", "spherical")
    _state = ("_kept_nodes",)

    @classmethod
    def published(
        cls, dimension: int, rounds: int, budget: Spending, *, norm_bound: float, seed: Seed = None
    ) -> TreeSum:
        """Paper 001, Algorithm 4: spherical noise of scale norm_bound x (ceil(log2 rounds) + 1) / epsilon.

        The scale is calibrated to the norm, but replacing a vector moves a block by twice that: the account
        states the true guarantee, with a warning if it exceeds the claimed pure epsilon.
        """
        share = spend_from(budget, seed)
        if not share.private:
            raise ValueError("the published noise needs a finite epsilon")
        spec = SumSpec(VectorBounds(dimension, 2, norm_bound), rounds, "tree", "spherical")
        levels = (spec.rounds - 1).bit_length() + 1
        scale = exact(norm_bound) * levels / exact(share.budget.epsilon_per_round)
        event = SphericalLaplaceNoise(spec.sensitivity(share.neighbours), scale)
        claimed = replace(share.budget, delta=0.0)
        needed = published_share(share, [(event, spec.count)], "tree-based aggregation", claimed)
        assert needed.gate is not None
        return cls.of(spec, needed.gate, event=event)

    @property
    def tree(self) -> BinaryTree:
        assert isinstance(self.spec.factors, BinaryTree)
        return self.spec.factors

    @property
    def levels(self) -> int:
        return self.tree.levels

    @property
    def variance_reduction(self) -> bool:
        """Whether blocks are combined with their halves."""
        return self.spec.variance_reduction

    @classmethod
    def grid(cls, spec: SumSpec, event: Event, neighbours: str) -> samplers.Grid | None:
        assert isinstance(event, GaussianNoise | LaplaceNoise)
        scale = event.sigma if isinstance(event, GaussianNoise) else event.scale
        if not scale:
            return None
        truncation = _norm_slack(event.sensitivity, scale)
        if spec.added.people_per_vector > 1:
            # Truncation towards zero keeps every bound of one person's vector, so it costs nothing; a vector
            # that sums several people's can move by one more step in each coordinate that moves.
            changed = spec.added.changed(neighbours)
            each = changed if spec.added.norm == 1 else Fraction(math.isqrt(changed - 1) + 1)
            # A person who comes back adds this each time, and it adds up as the sensitivity does.
            truncation += each * (exact(spec.stretch) if spec.returning else 1)
        # If the sums are far larger than the noise (published settings), they need a coarser grid.
        for bits in range(samplers.STEPS_BITS, _COARSEST_BITS - 1, -1):
            grid = samplers.Grid.for_noise(scale, event.sensitivity, truncation, bits)
            if exact(spec.added.largest) * spec.rounds / grid.step < 1 << 61:
                return grid
        raise ValueError(
            f"rounds={spec.rounds} vectors of size {spec.added.largest:g} do not fit the noise's grid"
            f" (noise {float(scale):g}); spend a smaller share or sum fewer rounds"
        )

    @property
    def _name(self) -> str:
        experts = f", {self.spec.stacked} experts" if self.spec.stacked > 1 else ""
        return f"tree of {self.levels} levels{experts}"

    def _start(self) -> None:
        whole = (np.int64, np.float64)[self._grid is None]
        kinds = (whole, *(2 * [np.float64 if self.variance_reduction else whole]))
        # For each node: its true sum, its noisy sum, and the noisy sum of everything up to its end.
        self._nodes = [np.zeros((self.levels + 1, self.dimension), dtype=kind) for kind in kinds]

    def _resumed(self) -> None:
        shares = self.tree.shares if self.variance_reduction else None
        norm, bound = self.bounds.norm, self.bounds.norm_bound
        # Compiled loops only add vectors with a declared norm bound.
        length = (0, 0.0) if bound is None else (norm, bound * self.bounds.people_per_vector)
        self._steps = TreePrefix(
            self._grid_numbers, self._prefix, *self._nodes, self._at.taken, shares, *length
        )

    @property
    def compiles(self) -> bool:
        """True with noise, one draw for each sum, and no bounds but the norm."""
        return self.one_draw_each and self.bounds.box is None and self.bounds.nonzeros is None

    @property
    def one_draw_each(self) -> bool:
        """Whether every sum takes exactly one draw of noise, so that rows can be drawn ahead."""
        return self._vector == self.dimension and self._grid is not None and not self.variance_reduction

    def rows_ahead(self, wanted: int, *, draw: bool = True) -> int:
        # Exactly the rows that single additions would draw, in the same order: results of a seed do not
        # change.
        rows = min(wanted, self._most_ahead(self._at.taken))
        if draw and rows > 0 and not self._at.ahead.shape[0]:
            assert self._grid is not None
            self._at.ahead = self._release.noise_rows(self._grid, rows, self.dimension)
        return len(self._at.ahead)

    def _most_ahead(self, taken: int) -> int:
        return min(self.rounds - taken, max(1, _NUMBERS_AHEAD // self.dimension)) if self.one_draw_each else 0

    @property
    def _slots(self) -> list[int]:
        """Indices of the nodes of finished blocks that later sums need, the largest block first."""
        top = self.levels - 1
        full = [top + place for place in range(self._at.taken >> top)]
        return full + [level for level in reversed(range(top)) if self._at.taken >> level & 1]

    @property
    def _kept_nodes(self) -> list[NDArray[Any]]:
        """The nodes that later sums need; the others must not be written to a file."""
        return [nodes[self._slots] for nodes in self._nodes]

    @_kept_nodes.setter
    def _kept_nodes(self, found: list[NDArray[Any]]) -> None:
        for own, nodes in zip(self._nodes, found, strict=True):
            if nodes.dtype != own.dtype or nodes.shape != (len(self._slots), self.dimension):
                raise ValueError(f"nodes of {nodes.dtype} in shape {nodes.shape} are not those of this tree")
            own[self._slots] = nodes


# Every method by name: the class that sums by it.
METHODS: dict[str, type[RunningSum]] = {"sqrt": FactorizedSum, "blt": FactorizedSum, "tree": TreeSum}


def _norm_slack(sensitivity: Number, scale: Number) -> Fraction:
    """The excess, in grid steps, of floating-point norms over their bound: at most 2^-40 of it."""
    return Fraction(1 << samplers.STEPS_BITS, 1 << 40) * exact(sensitivity) / exact(scale)


def _spending(budget: Spending, seed: Seed, share: Fraction | float | None, event: Event | None) -> Share:
    """The share that a sum may spend, and its gate."""
    if share is not None and not isinstance(share, Fraction):
        checks.real("share", share, above=0.0, at_most=1.0)
    if isinstance(budget, Gate) and (share is not None or event is not None):
        if seed is not None:
            raise ValueError("seed= is for a budget; a gate has its own randomness")
        # With given noise nothing else has to be left at the gate: that noise is what is charged.
        return Share(budget.budget, exact(1 if share is None else share), None, budget)
    part = spend_from(budget, seed)
    return part if share is None else part.part(share)


def _covering(event: Event, needed: Event) -> Event:
    """``event``, if it is noise of the needed kind for at least the needed sensitivity.

    Up to the last digits, in which results of other processors may differ.
    """
    if type(event) is not type(needed) or not isinstance(event, GaussianNoise | LaplaceNoise):
        raise ValueError(f"event={event} must be a {type(needed).__name__}")
    assert isinstance(needed, GaussianNoise | LaplaceNoise)
    if getattr(event, "participations", 1) != (rounds := getattr(needed, "participations", 1)):
        raise ValueError(f"event={event} is not for {rounds} rounds of a person")
    if exact(event.sensitivity) < exact(needed.sensitivity) * (1 - Fraction(1, 10**12)):
        raise ValueError(
            f"event={event} is for a sensitivity of {float(event.sensitivity):g}; one person can move"
            f" {float(needed.sensitivity):g}"
        )
    return event
