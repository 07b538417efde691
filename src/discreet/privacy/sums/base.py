"""The base of all running sums: the charge at the gate, the check of vectors, counting, saving."""

from __future__ import annotations

import math
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import Any, ClassVar, NoReturn, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...core import checks
from ...core.fixed import fix, fixed
from ...core.state import Saved, read_state, refusing, snapshot, write_state
from ...kernels.prefix_sums import PrefixSum
from .. import samplers
from ..accountant import BY_ROUNDS, Gate, Release, Spending, spend_from
from ..budget import Share
from ..conversions import exact
from ..events import Event, GaussianNoise, LaplaceNoise, Number
from ..randomness import Seed
from .bounds import VectorBounds
from .participation import Participation
from .spec import SumSpec

MOST_NOISE = 1 << 58  # steps; all noise of a sum together is far less
NUMBERS_AHEAD = 1 << 18  # of noise that is drawn before it is used, at the most


def norm_slack(sensitivity: Number, scale: Number) -> Fraction:
    """Norms are computed in floating point and may miss their bound by 2^-40 of it: that, in grid steps."""
    return Fraction(1 << samplers.STEPS_BITS, 1 << 40) * exact(sensitivity) / exact(scale)


@fixed
class RunningSum(ABC):
    """Common ground: the declared bounds, the charge at the gate, counting, saving.

    The whole sum is charged when it is made, for every round it may take, so that adding never fails
    for lack of budget. ``budget`` may be a share of one, or a gate that other releases go through as well.
    ``share`` is the part of the whole budget it may use, by default all that is left at the gate. ``event``
    is the noise itself instead, refused unless it is for what one person can move. Threads may share a sum:
    additions and snapshots take turns.

    ``min_separation=s`` declares how people come back, under a budget with ``max_rounds_per_person=b``: one
    person's data is in at most b of the vectors, once in each, and these are at least s apart. Noise is then
    for what such a person can move in all (`Participation`), which is less than b times what they move once.
    It needs Gaussian noise. A sum does not know who is in a vector: whoever adds them up has to see to it.
    """

    methods: ClassVar[tuple[str, ...]]
    noises: ClassVar[tuple[str, ...]]

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
        noise: str = "gaussian",
        share: Fraction | float | None = None,
        event: Event | None = None,
        clip: bool = False,
        seed: Seed = None,
        label: str = "running sum",
        **own: Any,
    ) -> None:
        checks.one_of("noise", noise, self.noises)
        checks.whole("rounds", rounds, at_least=1)
        norm = 1 if noise == "laplace" else 2
        bounds = VectorBounds(dimension, norm, norm_bound, box, nonzeros, people_per_vector)
        part = _spending(budget, seed, share, event)
        assert part.gate is not None
        own = {"method": self.methods[0], "participation": Participation.declared(part, min_separation)} | own
        spec = SumSpec(bounds, rounds, noise=noise, **own)
        self._begin(spec, part.gate, part, event, clip, label)

    @classmethod
    def of(
        cls,
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
    ) -> Self:
        """The sum of a specification; see `SumSpec.make`.

        ``disjoint=True``: this sum may be followed by others, each about other people than the sums before.
        They are given the first one's ``release``, which pays for all of them, as nobody is in two.
        ``ahead=True``: noise of a factorised sum is drawn for many vectors at a time.
        """
        total = object.__new__(cls)
        checks.instance("spec", spec, SumSpec, "SumSpec(VectorBounds(3, 2, norm_bound=1.0), 100)")
        checks.instance("gate", gate, Gate, "Gate(Budget(1.0, 1e-6))")
        if share is None:
            share = gate.left if event is None else gate.budget.share()
        total._begin(spec, gate, share, event, clip, label, disjoint, release, ahead)
        return fix(total)

    def _begin(
        self,
        spec: SumSpec,
        gate: Gate,
        share: Share,
        event: Event | None,
        clip: bool,
        label: str,
        disjoint: bool = False,
        release: Release | None = None,
        ahead: bool = False,
    ) -> None:
        self.spec, self.clip, self.label = spec, bool(clip), label
        self._saved_alone = gate.owner is None  # and not with a learner that it is a part of
        self._gate = gate = gate.owned() if self._saved_alone else gate
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
        self._taken = 0
        self._lock, self._interrupted = threading.RLock(), False
        self._prefix = np.zeros(self.dimension)
        # Rows of noise that no vector has used yet. A saved file holds them only for a seeded source, which
        # would draw them again anyway: with secure randomness, two sums that go on from the same file are not
        # to share noise.
        self._draws_ahead, self._ahead = ahead, np.empty((0, self.dimension), dtype=np.int64)
        self._start()

    # --- for users -------------------------------------------------------------------------------

    @property
    def rounds(self) -> int:
        """How many vectors the sum takes."""
        return self.spec.rounds

    @property
    def bounds(self) -> VectorBounds:
        """The declared bounds of what is added."""
        return self.spec.added

    @property
    def noise(self) -> str:
        """The distribution of the noise."""
        return self.spec.noise

    @property
    def method(self) -> str:
        """How the sums are made of noisy numbers."""
        return self.spec.method

    @property
    def dimension(self) -> int:
        return self.bounds.dimension

    @property
    def event(self) -> Event:
        """One release: its noise, and how far one person moves it."""
        return self._release.event

    @property
    def charged(self) -> tuple[str, Release]:
        """Under which label the sum is in the account, and the release itself."""
        return f"{self.label} ({self._name})", self._release

    @property
    def taken(self) -> int:
        """How many vectors have been added."""
        return self._taken

    @property
    def gate(self) -> Gate:
        return self._gate

    def add(self, vector: ArrayLike) -> NDArray[np.float64]:
        """Add one round's vector and return the private sum of all so far."""
        self._gate.check_process()
        checked = self.bounds.checked(vector, clip=self.clip)  # before the lock: ``vector`` may be anything
        with self._lock:
            if self._taken >= self.rounds:
                raise RuntimeError(f"the sum was made for rounds={self.rounds} and has taken them all")
            self._begin_addition()
            answer = self._add(checked)
            self._taken += 1
            self._interrupted = False
            if self._saved_alone and self._taken == self.rounds and self._gate.owner is not None:
                self._gate.owner.finish()
            return answer

    @contextmanager
    def compiled(self, count: int) -> Iterator[tuple[PrefixSum, NDArray[np.float64]]]:
        """What a loop takes the next ``count`` sums with, whose noise has been drawn; the sum it leaves.

        As with `add`, whatever breaks in between leaves a sum that takes nothing any more.
        """
        self._gate.check_process()
        with self._lock:
            self._begin_addition()
            self._steps.give(self._ahead[:count])
            yield self._steps, self._prefix
            self._ahead = self._ahead[count:]
            self._taken += count
            self._interrupted = False

    def _begin_addition(self) -> None:
        if self._interrupted:
            raise RuntimeError("an addition was interrupted half-way; go on from the last saved state")
        self._interrupted = True

    def _add(self, vector: NDArray[np.float64]) -> NDArray[np.float64]:
        sums = self._steps.encode(np.ascontiguousarray(vector))
        self._steps.decode(self._released(sums))
        return self._prefix.copy()

    def _released(self, sums: NDArray[Any]) -> NDArray[Any]:
        """Rows of sums, in steps of the grid, as they leave: each with noise of its own."""
        if self._grid is None:
            return sums
        noise = [self._noise_steps() for _ in range(sums.shape[0])]
        return np.asarray(sums + np.stack(noise))

    def noise_std(self, step: int) -> float:
        """Standard deviation of every coordinate's error after ``step`` vectors."""
        return self.unit_std(self.spec, self._grid) * self.spec.error(step)

    # --- saving ----------------------------------------------------------------------------------

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """A snapshot from which `from_state` goes on: settings and arrays that later additions do not change.

        They hold true sums of private data: keep them as safe as the data. Refused after an interrupted
        addition: whether its people are in the sums is not known, and they might be counted twice.
        """
        with self._lock:
            if self._interrupted:
                raise RuntimeError(
                    "an addition was interrupted half-way, and its people might be counted twice; go on from"
                    " the last saved state"
                )
            settings = self.spec.settings() | {"clip": self.clip, "label": self.label, "taken": self._taken}
            settings |= {"event": self.event.to_json(), "reproducible": self._gate.reproducible}
            settings["ahead"] = self._draws_ahead
            if self._saved_alone and self._gate.owner is not None:
                settings["owner"] = self._gate.owner.state()
            kept = self._ahead if self._gate.resumes_alike else self._ahead[:0]
            return snapshot(settings, self._arrays() | {"ahead": kept})

    @classmethod
    def from_state(cls, settings: dict[str, Any], arrays: dict[str, NDArray[Any]], gate: Gate) -> Self:
        """The saved sum behind ``gate``, whose ledger holds its charge: once, and no state but the latest.

        Where the sum's noise may be known to somebody, so may later releases, and the gate says so.
        """
        saved = Saved(*snapshot(settings, arrays))
        with refusing("the sum"), gate._again(saved.plain("owner")) as own:
            spec = SumSpec.saved(saved)
            if not issubclass(cls, spec.kind):
                raise ValueError(f"method={spec.method!r} is not that of a {cls.__name__}")
            event, label = Event.from_json(saved.plain("event")), str(saved.plain("label"))
            ahead = saved.flag("ahead")
            total = cls.of(spec, own, event=event, clip=saved.flag("clip"), label=label, ahead=ahead)
            total.resume(saved)
            total._saved_alone = True
        return total

    def resume(self, saved: Saved) -> None:
        """Go on from where a sum with these settings was saved."""
        for name, own in (("dimension", self.spec.bounds.dimension), ("rounds", self.rounds)):
            if saved.plain(name) != own:
                raise ValueError(f"{name} is {checks.shown(saved.plain(name))}; {own} expected")
        taken = saved.whole("taken", at_least=0, at_most=self.rounds)
        ahead = saved.array("ahead", (None, self.dimension), np.int64, at_least=-(1 << 61), at_most=1 << 61)
        rows = ahead.shape[0]
        if rows and (not self._gate.resumes_alike or self._grid is None or rows > self._most_ahead(taken)):
            raise ValueError(f"the array ahead has {rows} rows of noise, which nobody has left there")
        self._ahead = ahead
        self._restore(saved, taken)
        self._taken = taken
        if saved.flag("reproducible"):
            self._gate.mark_reproducible()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the sum and its gate's account to a file, completely or not at all.

        The file holds true sums of private data; only its owner may read it. Other threads wait until it is
        written: the newest file is the one that stays.
        """
        with self._lock:
            settings, arrays = self.state()
            gate = self._gate.state()
            owner = settings.get("owner", {}).get("id")
            if gate["shared"] or any(one.get("owner") != owner for one in gate["ledger"]["charges"]):
                raise ValueError(
                    "other releases went through this sum's gate; save the gate's state() and the sum's"
                    " state() together, or the gate would come back once for each of them"
                )
            write_state(path, {"class": type(self).__name__, "settings": settings, "gate": gate}, arrays)
            if self._gate.owner is not None:
                self._gate.owner.saved()

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Go on from a saved file; a seeded sum continues identically, a secure one with fresh noise."""
        header, arrays = read_state(path)
        if header.get("class") != cls.__name__:
            raise ValueError(f"{path} holds a {header.get('class')}, not a {cls.__name__}")
        with refusing(path):
            return cls.from_state(header["settings"], arrays, Gate.from_state(header["gate"]))

    def __reduce__(self) -> NoReturn:
        raise TypeError("a running sum is not copied or pickled (its noise could be used twice); use save()")

    def __repr__(self) -> str:
        return f"{type(self).__name__}(dimension={self.dimension}, rounds={self.rounds}, taken={self._taken})"

    # --- for the methods: of a specification alone -----------------------------------------------

    @classmethod
    @abstractmethod
    def uses(cls, spec: SumSpec) -> int:
        """How many releases one vector enters."""

    @classmethod
    def stretch(cls, spec: SumSpec) -> float:  # noqa: ARG003
        """How many times as far as a vector itself what is released moves."""
        return 1.0

    @classmethod
    @abstractmethod
    def group_stretch(cls, spec: SumSpec) -> float:
        """How many times as far as a vector itself all releases together move, for a person in several.

        Rounded up. ``spec`` has a participation.
        """

    @classmethod
    @abstractmethod
    def error(cls, spec: SumSpec, step: int) -> float:
        """Norm of the noise vectors' coefficients in the answer after ``step`` vectors."""

    @classmethod
    @abstractmethod
    def worst_error(cls, spec: SumSpec) -> float:
        """The largest Gaussian error over the rounds, in units of a vector's distance over mu."""

    @classmethod
    @abstractmethod
    def mean_error(cls, spec: SumSpec) -> float:
        """The same on average over the rounds, a little overstated."""

    @classmethod
    def most_draws(cls, spec: SumSpec) -> int:
        """Of how many noise vectors a sum can be made."""
        return spec.rounds

    @classmethod
    @abstractmethod
    def grid(cls, spec: SumSpec, event: Event, neighbours: str) -> samplers.Grid | None:
        """Where the noise of ``event`` is drawn, rounding paid for; None for no noise."""

    @staticmethod
    def unit_std(spec: SumSpec, grid: samplers.Grid | None) -> float:
        """Standard deviation of one coordinate of one noise vector."""
        if grid is None:
            return 0.0
        size = spec.bounds.dimension
        factor = {"gaussian": 1.0, "laplace": math.sqrt(2.0), "spherical": math.sqrt(size + 1.0)}
        return factor[spec.noise] * grid.noise_scale

    # --- for the methods: of a sum ---------------------------------------------------------------

    @property
    @abstractmethod
    def _name(self) -> str: ...

    _steps: PrefixSum

    @abstractmethod
    def _start(self) -> None:
        """Make ``_steps``, for a sum that holds nothing yet."""

    @abstractmethod
    def _arrays(self) -> dict[str, NDArray[Any]]: ...

    @abstractmethod
    def _restore(self, saved: Saved, taken: int) -> None:
        """Take up the arrays of a sum that has taken so many vectors."""

    @property
    @abstractmethod
    def compiles(self) -> bool:
        """Whether a compiled loop can take sums itself (`compiled`)."""

    @abstractmethod
    def rows_ahead(self, wanted: int, *, draw: bool = True) -> int:
        """How many sums such a loop can take before noise has to be drawn.

        With ``draw``, some is drawn where there is none, for up to ``wanted`` sums.
        """

    @abstractmethod
    def _most_ahead(self, taken: int) -> int:
        """For how many vectors noise can have been drawn ahead, after so many."""

    @property
    def _grid_numbers(self) -> tuple[int, int, float] | None:
        """The grid, as compiled steps take it."""
        grid = self._grid
        return None if grid is None else (grid.mantissa, grid.exponent, float(grid.step))

    @property
    def _vector(self) -> int:
        """How many coordinates one noise vector has: all, unless the law makes a vector of them."""
        return self.spec.bounds.dimension if self.noise == "spherical" else self.dimension

    def _noise_steps(self) -> NDArray[np.int64]:
        assert self._grid is not None
        if self._ahead.shape[0]:
            row, self._ahead = self._ahead[0], self._ahead[1:]
            return np.asarray(row)
        drawn = [self._release.noise(self._grid, self._vector) for _ in range(self.dimension // self._vector)]
        return drawn[0] if len(drawn) == 1 else np.concatenate(drawn)


def _spending(budget: Spending, seed: Seed, share: Fraction | float | None, event: Event | None) -> Share:
    """What a sum may spend, and where."""
    if share is not None and not isinstance(share, Fraction):
        checks.real("share", share, above=0.0, at_most=1.0)
    if isinstance(budget, Gate) and (share is not None or event is not None):
        if seed is not None:
            raise ValueError("seed= is for a budget; a gate has its own randomness")
        # With its own noise nothing has to be left: what is paid for is that noise.
        return Share(budget.budget, exact(1 if share is None else share), None, budget)
    part = spend_from(budget, seed)
    return part if share is None else part.part(share)


def _covering(event: Event, needed: Event) -> Event:
    """``event``, if it is noise of the needed kind for at least the needed sensitivity.

    Up to the last digits: what another processor computed may differ by these.
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
