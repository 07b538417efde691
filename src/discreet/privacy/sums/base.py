"""Private running sums of vectors: after every vector, the sum so far, with noise that adds up slowly.

Two families behind one interface. `TreeSum` is the binary tree of papers 001 and 004 (after Dwork et
al. 2010 and Chan, Shi and Song 2011) with the sensitivity and the number of levels that replace-one
neighbours need. `FactorizedSum` is the lower-triangular Toeplitz factorisation of Fichtenberger,
Henzinger and Upadhyay 2023, which has about a third of the tree's noise.

Both are used the same way, also when the next vector depends on earlier answers:

>>> import numpy as np, discreet as dc
>>> total = dc.privacy.FactorizedSum(3, rounds=100, budget=dc.Budget(1.0, 1e-6), norm_bound=1.0, seed=0)
>>> total.add(np.array([1.0, 0.0, 0.0])).shape
(3,)
"""

from __future__ import annotations

import math
import os
import threading
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any, ClassVar, NoReturn, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...core import checks
from ...core.fixed import Fixed
from ...core.state import Saved, read_state, refusing, snapshot, write_state
from .. import samplers
from ..budget import Budget, Share
from ..conversions import exact
from ..events import Event, GaussianNoise, LaplaceNoise, Number, SphericalLaplaceNoise
from ..gate import Gate
from ..randomness import Randomness
from .bounds import Inputs
from .factorizations import Factorization, buffered, square_root

_MOST_NOISE = 1 << 58  # steps; all noise of a sum together is far less
_COARSEST_BITS = 24  # steps of a tree's grid to the noise's scale, at the least


def _norm_slack(sensitivity: Number, scale: Number) -> Fraction:
    """Norms are computed in floating point and may miss their bound by 2^-40 of it: that, in grid steps."""
    return Fraction(1 << samplers.STEPS_BITS, 1 << 40) * exact(sensitivity) / exact(scale)


class RunningSum(Fixed, ABC):
    """Common ground: the promise about inputs, the charge at the gate, counting, saving.

    The whole sum is charged when it is made, for every round it may take, so that adding never fails
    for lack of budget. ``share`` is the part of the whole budget it may use; by default all that is left
    at the gate; or ``event`` is the noise itself, refused unless it is for what one person can move.
    ``budget`` may be a gate that other releases go through as well. Threads may share a sum: additions and
    snapshots take turns.
    """

    _noises: ClassVar[tuple[str, ...]]

    def __init__(
        self,
        dimension: int,
        rounds: int,
        budget: Budget | Gate,
        *,
        norm_bound: float | None = None,
        box: tuple[float, float] | None = None,
        nonzeros: int | None = None,
        people: int = 1,
        noise: str = "gaussian",
        share: Fraction | float | None = None,
        event: Event | None = None,
        clip: bool = False,
        seed: Randomness | int | None = None,
        label: str = "running sum",
    ) -> None:
        checks.one_of("noise", noise, self._noises)
        if isinstance(budget, Gate) and seed is not None:
            raise ValueError("seed belongs to the gate; make the gate with it")
        gate = budget if isinstance(budget, Gate) else Gate(budget, seed)
        self.rounds = checks.whole("rounds", rounds, at_least=1)
        self.inputs = Inputs(dimension, 1 if noise == "laplace" else 2, norm_bound, box, nonzeros, people)
        self.noise, self.clip, self.label = noise, bool(clip), label
        self._gate = gate
        part = self._part(share) if event is None else gate.budget.share()
        self._event, self._releases = self._calibrated(part)
        if event is not None:
            self._event = _covering(event, self._event)
        self._grid = self._grid_for(self._event)
        gate.reserve(self._event, self._releases, label=f"{label} ({self._name})")
        self._taken = 0
        self._lock, self._interrupted = threading.RLock(), False

    # --- for users -------------------------------------------------------------------------------

    @property
    def dimension(self) -> int:
        return self.inputs.dimension

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
        checked = self.inputs.checked(vector, clip=self.clip)  # before the lock: ``vector`` may be anything
        with self._lock:
            if self._interrupted:
                raise RuntimeError("an addition was interrupted half-way; go on from the last saved state")
            if self._taken >= self.rounds:
                raise RuntimeError(f"the sum was made for rounds={self.rounds} and has taken them all")
            self._interrupted = True
            answer = self._add(checked)
            self._taken += 1
            self._interrupted = False
            return answer

    def noise_std(self, step: int) -> float:
        """Standard deviation of every coordinate's error after ``step`` vectors."""
        number = checks.whole("step", step, at_least=1, at_most=self.rounds)
        return self._unit_std * self._error(number)

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
            settings = asdict(self.inputs)
            del settings["norm"]
            settings |= {"rounds": self.rounds, "noise": self.noise, "clip": self.clip, "label": self.label}
            settings |= self._own_settings() | {"taken": self._taken, "event": self._event.to_json()}
            settings["reproducible"] = self._gate.reproducible
            return snapshot(settings, self._arrays())

    @classmethod
    def from_state(cls, settings: dict[str, Any], arrays: dict[str, NDArray[Any]], gate: Gate) -> Self:
        """The saved sum behind ``gate``, which has already been charged for it.

        Where the sum's noise may be known to somebody, so may what leaves from here on, and the gate says so.
        """
        with refusing("the sum"), gate._resumed():
            saved = Saved(*snapshot(settings, arrays))
            box = tuple(saved.rows("box", at_most=2)) if saved.given("box") else None
            total = cls(
                saved.plain("dimension"),
                saved.plain("rounds"),
                gate,
                norm_bound=saved.real("norm_bound", above=0.0) if saved.given("norm_bound") else None,
                box=box,
                nonzeros=saved.plain("nonzeros"),
                people=saved.plain("people"),
                noise=saved.plain("noise"),
                event=Event.from_json(saved.plain("event")),
                clip=saved.flag("clip"),
                label=str(saved.plain("label")),
                **cls._own_options(saved),
            )
            total._resume(saved)
        return total

    def _resume(self, saved: Saved) -> None:
        """Go on from where a sum with these settings was saved."""
        for name, own in (("dimension", self.dimension), ("rounds", self.rounds)):
            if saved.plain(name) != own:
                raise ValueError(f"{name} is {checks.shown(saved.plain(name))}; {own} expected")
        taken = saved.whole("taken", at_least=0, at_most=self.rounds)
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
            if _count(gate["account"]["ledger"]) > self._releases:
                raise ValueError(
                    "other releases went through this sum's gate; save the gate's state() and the sum's"
                    " state() together, or the gate would come back once for each of them"
                )
            write_state(path, {"class": type(self).__name__, "settings": settings, "gate": gate}, arrays)

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

    # --- for the two families --------------------------------------------------------------------

    @property
    def _unit_std(self) -> float:
        """Standard deviation of one coordinate of one noise vector."""
        if self._grid is None:
            return 0.0
        factor = {"gaussian": 1.0, "laplace": math.sqrt(2.0), "spherical": math.sqrt(self._vector + 1.0)}
        return factor[self.noise] * self._grid.noise_scale

    @property
    def _vector(self) -> int:
        """How many coordinates one noise vector has."""
        return self.dimension

    def _noise_steps(self) -> NDArray[np.int64]:
        assert self._grid is not None
        source, size = self._gate.randomness, self._vector
        drawn = [self._grid.noise(source, size, self.noise) for _ in range(self.dimension // size)]
        return drawn[0] if len(drawn) == 1 else np.concatenate(drawn)

    @property
    @abstractmethod
    def _name(self) -> str: ...

    def _part(self, share: Fraction | float | None) -> Share:
        """The share of the budget that was asked for, or what is left of it in the gate's privacy notion."""
        budget = self._gate.budget
        if share is not None or not budget.private:
            return budget.share(1 if share is None else share)
        left, notion = self._gate.remaining, self._gate.notion
        if notion is None:  # nothing has been released
            return budget.share()
        if notion == "pure":
            assert isinstance(budget.epsilon_per_round, Fraction)
            fraction = exact(left.epsilon) / budget.epsilon_per_round
        elif notion == "zcdp":
            fraction = exact(left.rho) / exact(budget.rho)
        else:
            fraction = exact(left.mu) ** 2 / exact(budget.mu) ** 2
        if fraction < Fraction(1, 10**6):  # what is left is rounding
            raise ValueError(f"nothing is left at the gate for a running sum with {self.noise} noise")
        return budget.share(min(fraction, Fraction(1)))

    @abstractmethod
    def _calibrated(self, part: Share) -> tuple[Event, int]:
        """One release's event and how many of them one person's vector enters."""

    @abstractmethod
    def _grid_for(self, event: Event) -> samplers.Grid | None: ...

    @abstractmethod
    def _add(self, vector: NDArray[np.float64]) -> NDArray[np.float64]: ...

    @abstractmethod
    def _error(self, step: int) -> float:
        """Norm of the noise vectors' coefficients in the answer after ``step`` vectors."""

    @abstractmethod
    def _own_settings(self) -> dict[str, Any]: ...

    @abstractmethod
    def _arrays(self) -> dict[str, NDArray[Any]]: ...

    @abstractmethod
    def _restore(self, saved: Saved, taken: int) -> None:
        """Take up the arrays of a sum that has taken so many vectors."""

    @classmethod
    def _own_options(cls, saved: Saved) -> dict[str, Any]:
        """What `_own_settings` wrote, for the constructor."""
        raise NotImplementedError(f"a {cls.__name__} is made by the learner that it belongs to")


def _covering(event: Event, needed: Event) -> Event:
    """``event``, if it is noise of the needed kind for at least the needed sensitivity.

    Up to the last digits: what another processor computed may differ by these.
    """
    if type(event) is not type(needed) or not isinstance(event, GaussianNoise | LaplaceNoise):
        raise ValueError(f"event={event} must be a {type(needed).__name__}")
    assert isinstance(needed, GaussianNoise | LaplaceNoise)
    if exact(event.sensitivity) < exact(needed.sensitivity) * (1 - Fraction(1, 10**12)):
        raise ValueError(
            f"event={event} is for a sensitivity of {float(event.sensitivity):g}; one person can move"
            f" {float(needed.sensitivity):g}"
        )
    return event


def _count(ledger: dict[str, Any]) -> int:
    """How many releases a saved ledger holds, those of its parts included."""
    own = sum(int(row["count"]) for row in ledger["releases"])
    return own + sum(_count(part) for part in ledger["parts"].values())


def tree_levels(rounds: int) -> int:
    """Levels of the tree that every prefix up to ``rounds`` can be built from: ceil(log2 rounds), at least 1.

    A sum over all of 2^m rounds is the sum of its two halves, so the root is never released; that is one
    level less than papers 001 and 004 pay for.

    >>> [tree_levels(rounds) for rounds in (1, 2, 3, 4, 1000, 1024, 1025)]
    [1, 1, 2, 2, 10, 10, 11]
    """
    return max(1, (checks.whole("rounds", rounds, at_least=1) - 1).bit_length())


@dataclass
class _Node:
    """A finished node that later prefixes still use: its true sum, and what was released of it."""

    level: int
    total: NDArray[np.int64]
    estimate: NDArray[Any]
    variance: float
    prefix: NDArray[Any]  # released sum of everything up to the end of this node


class TreeSum(RunningSum):
    """Binary-tree running sum: each finished block of 2^j rounds gets one noise vector.

    ``noise`` is ``"gaussian"``, ``"laplace"`` (per coordinate, pure epsilon) or ``"spherical"`` (the
    vector noise of papers 001 and 004, pure epsilon). ``honaker=True`` combines each
    block with its two halves, weighted by their variances (Honaker 2015, the online form), which takes
    about a quarter off the noise for two noise vectors a round instead of one.

    Formal guarantee: one vector enters ``tree_levels(rounds)`` releases, each with the difference bound
    of the budget's neighbouring relation; papers 001 and 004 calibrate to the norm bound, half of it
    for replace-one. Inputs may depend on earlier answers. Exact on a grid.
    Memory: one node per level.
    """

    _noises = ("gaussian", "laplace", "spherical")

    def __init__(
        self, dimension: int, rounds: int, budget: Budget | Gate, *, honaker: bool = False, **options: Any
    ) -> None:
        self.honaker = bool(honaker)
        self._stack: list[_Node] = []
        super().__init__(dimension, rounds, budget, **options)

    @property
    def levels(self) -> int:
        return tree_levels(self.rounds)

    @property
    def _name(self) -> str:
        return f"tree of {self.levels} levels"

    def _calibrated(self, part: Share) -> tuple[Event, int]:
        kind: dict[str, type[GaussianNoise] | type[LaplaceNoise]] = {
            "gaussian": GaussianNoise,
            "laplace": LaplaceNoise,
            "spherical": SphericalLaplaceNoise,
        }
        moves = self.inputs.difference(self._gate.budget.neighbours)
        return kind[self.noise].within(part, moves, self.levels, self._gate.notion), self.levels

    def _grid_for(self, event: Event) -> samplers.Grid | None:
        assert isinstance(event, GaussianNoise | LaplaceNoise)
        scale = event.sigma if isinstance(event, GaussianNoise) else event.scale
        if not scale:
            return None
        truncation = _norm_slack(event.sensitivity, scale)
        if self.inputs.people > 1:
            # Truncation towards zero keeps every promise about one person's vector, so it costs nothing; a
            # sum of several is truncated as a whole, which can add a step to each coordinate that moves.
            changed = self.inputs.changed(self._gate.budget.neighbours)
            truncation += changed if self.inputs.norm == 1 else Fraction(math.isqrt(changed - 1) + 1)
        # Where the sums are far larger than the noise (published settings), a coarser grid holds them.
        for bits in range(samplers.STEPS_BITS, _COARSEST_BITS - 1, -1):
            grid = samplers.Grid.for_noise(scale, event.sensitivity, truncation, bits)
            if exact(self.inputs.largest) * self.rounds / grid.step < 1 << 61:
                return grid
        raise ValueError(
            f"rounds={self.rounds} vectors of size {self.inputs.largest:g} do not fit the noise's grid"
            f" (noise {float(scale):g}); spend a smaller share or sum fewer rounds"
        )

    def _add(self, vector: NDArray[np.float64]) -> NDArray[np.float64]:
        grid = self._grid
        total: NDArray[Any] = vector.copy() if grid is None else grid.truncate(vector)
        level, top = 0, self.levels - 1
        stack = list(self._stack)
        estimate, variance = (self._released(total), 1.0) if self.honaker else (total, 1.0)
        while level < top and stack and stack[-1].level == level:
            other = stack.pop()
            total = total + other.total
            level += 1
            if self.honaker:
                halves, halves_variance = estimate + other.estimate, variance + other.variance
                weight = halves_variance / (halves_variance + 1.0)
                estimate = weight * self._released(total) + (1.0 - weight) * halves
                variance = weight * weight + (1.0 - weight) ** 2 * halves_variance
        if not self.honaker:
            estimate = self._released(total)
        prefix = estimate + stack[-1].prefix if stack else estimate
        self._stack = [*stack, _Node(level, total, estimate, variance, prefix)]
        return self._in_units(prefix)

    def _released(self, total: NDArray[Any]) -> NDArray[Any]:
        """A node's sum as it leaves, in steps of the grid."""
        return total if self._grid is None else total + self._noise_steps()

    def _in_units(self, prefix: NDArray[Any]) -> NDArray[np.float64]:
        return np.array(prefix, dtype=np.float64) if self._grid is None else self._grid.values(prefix)

    def _error(self, step: int) -> float:
        variances = [1.0]
        for _ in range(self.levels):
            halves = 2.0 * variances[-1]
            variances.append(halves / (halves + 1.0) if self.honaker else 1.0)
        if step == 1 << self.levels:  # two blocks of the top level
            return math.sqrt(2.0 * variances[self.levels - 1])
        return math.sqrt(sum(variances[level] for level in range(self.levels) if step >> level & 1))

    def _own_settings(self) -> dict[str, Any]:
        return {"honaker": self.honaker, "levels": [node.level for node in self._stack]}

    def _arrays(self) -> dict[str, NDArray[Any]]:
        arrays: dict[str, NDArray[Any]] = {"variances": np.array([node.variance for node in self._stack])}
        for index, node in enumerate(self._stack):
            arrays |= {
                f"total{index}": node.total,
                f"estimate{index}": node.estimate,
                f"prefix{index}": node.prefix,
            }
        return arrays

    @classmethod
    def _own_options(cls, saved: Saved) -> dict[str, Any]:
        return {"honaker": saved.flag("honaker")}

    def _restore(self, saved: Saved, taken: int) -> None:
        levels = self._stack_after(taken)
        if saved.rows("levels") != levels:
            raise ValueError(f"levels={saved.plain('levels')} are not those of a tree after {taken} vectors")
        variances = saved.array("variances", (len(levels),), at_least=0.0, at_most=1.0)
        self._stack, summed = [], 0
        for index, level in enumerate(levels):
            summed += 1 << level
            self._stack.append(
                _Node(
                    level,
                    self._saved_node(saved, f"total{index}", 1 << level, noisy=False),
                    self._saved_node(saved, f"estimate{index}", 1 << level, noisy=True),
                    float(variances[index]),
                    self._saved_node(saved, f"prefix{index}", summed, noisy=True),
                )
            )

    def _saved_node(self, saved: Saved, name: str, vectors: int, *, noisy: bool) -> NDArray[Any]:
        """A sum of so many vectors, which cannot be larger than these and the noise are together."""
        if self._grid is None:
            return saved.array(name, (self.dimension,))
        most = vectors * (math.ceil(exact(self.inputs.largest) / self._grid.step) + 1) + noisy * _MOST_NOISE
        kinds = (np.int64, np.float64) if noisy else (np.int64,)
        return saved.array(name, (self.dimension,), kinds, at_least=-most, at_most=most)

    def _stack_after(self, taken: int) -> list[int]:
        """The levels of the finished blocks that are kept, the largest first."""
        top = self.levels - 1
        return [top] * (taken >> top) + [level for level in reversed(range(top)) if taken >> level & 1]


class FactorizedSum(RunningSum):
    """Running sum by a Toeplitz factorisation: the least noise of all, Gaussian only.

    The vectors are passed through a filter C whose square is summation; what leaves each round is the
    filter's output plus fresh Gaussian noise, and inverting the filter gives the sum. ``method="sqrt"``
    is the square root itself, held as O(log rounds) decaying buffers; ``"blt"`` uses at most six buffers
    with tabulated constants, and is within 1 % of it.

    Formal guarantee: Gaussian DP for the L2 difference bound times the norm of C's first column, also
    when inputs depend on earlier answers (C is lower triangular; Denisov et al. 2022). What is released
    is on a grid; truncation to it, and the rounding errors of the floating-point filter, are in the
    sensitivity.
    """

    _noises = ("gaussian",)

    def __init__(
        self, dimension: int, rounds: int, budget: Budget | Gate, *, method: str = "sqrt", **options: Any
    ) -> None:
        self.method = checks.one_of("method", method, ("sqrt", "blt"))
        self.factorization = self._factorization(checks.whole("rounds", rounds, at_least=1))
        super().__init__(dimension, rounds, budget, **options)
        shape = (self._decays.size, self.dimension)
        self._encoder, self._decoder = np.zeros(shape), np.zeros(shape)
        self._prefix = np.zeros(self.dimension)

    def _factorization(self, rounds: int) -> Factorization:
        return square_root(rounds) if self.method == "sqrt" else buffered(rounds)

    @property
    def _decays(self) -> NDArray[np.float64]:
        return self.factorization.decays

    @property
    def _lasts(self) -> NDArray[np.float64]:
        """How many vectors each of the encoder's buffers holds at most, counted with their weights in it."""
        return 1.0 / np.maximum(1.0 - self._decays, 1.0 / self.rounds)

    @property
    def _name(self) -> str:
        return f"{self.method} factorisation"

    def _calibrated(self, part: Share) -> tuple[Event, int]:
        moves = self.inputs.difference(self._gate.budget.neighbours) * self.factorization.column_norm
        return GaussianNoise.within(part, moves, notion=self._gate.notion), 1

    def _grid_for(self, event: Event) -> samplers.Grid | None:
        assert isinstance(event, GaussianNoise)
        if not event.sigma:
            return None
        # A person's vector changes the filter's output in every later round, so truncation can add a step
        # to each. The filter itself is computed in floating point: a buffer of decay r holds at most
        # largest / (1 - r); each round adds two rounding errors in each of the two neighbouring runs,
        # which then decay at the same rate; the weighted sum over K buffers adds K + 1 more to all terms.
        decays, weights, lasts = self._decays, self.factorization.weights, self._lasts
        holds = self.inputs.largest * lasts
        adding = 2.0 * (decays.size + 1)
        error = float((weights * holds * (4.0 * lasts + adding)).sum()) + self.inputs.largest * adding
        error *= 2.0**-53
        steps = 1.0 + error * 2.0**samplers.STEPS_BITS / float(event.sigma) * 1.01
        touched = self.rounds * self.inputs.changed(self._gate.budget.neighbours)
        truncation = math.sqrt(touched) * steps + float(_norm_slack(event.sensitivity, event.sigma))
        truncation *= 1.0 + 2.0**-50  # its own rounding
        return samplers.Grid.for_noise(event.sigma, event.sensitivity, truncation)

    def _add(self, vector: NDArray[np.float64]) -> NDArray[np.float64]:
        from ...backends.numba.sums import decode, encode

        if self._grid is None:
            self._prefix += vector
            return self._prefix.copy()
        decays, weights = self._decays, self.factorization.weights
        noise = self._noise_steps()
        filtered = np.empty(self.dimension)
        encode(self._encoder, decays, weights, vector, filtered)
        released = self._grid.values(self._grid.truncate(filtered) + noise)
        decode(self._decoder, decays, weights, released, self._prefix, filtered)
        return self._prefix.copy()

    def _error(self, step: int) -> float:
        return float(self.factorization.row_norm(step))

    def _own_settings(self) -> dict[str, Any]:
        return {"method": self.method}

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return {
            "decays": self.factorization.decays,
            "weights": self.factorization.weights,
            "encoder": self._encoder,
            "decoder": self._decoder,
            "prefix": self._prefix,
        }

    @classmethod
    def _own_options(cls, saved: Saved) -> dict[str, Any]:
        return {"method": saved.plain("method")}

    def _restore(self, saved: Saved, taken: int) -> None:  # noqa: ARG002
        decays, weights, size = self._decays, self.factorization.weights, self._decays.size
        for name, own in (("decays", decays), ("weights", weights)):
            if not np.allclose(saved.array(name, (size,)), own, rtol=1e-9, atol=0.0):
                raise ValueError(f"the array {name} is of another filter than this release has")
        shape = (size, self.dimension)
        encoder = saved.array("encoder", shape)
        # What rounding costs rests on what a buffer can hold.
        if (np.abs(encoder) > (1.0 + 1e-9) * self.inputs.largest * self._lasts[:, None]).any():
            raise ValueError("the array encoder holds more than such vectors add up to")
        self._encoder, self._decoder = encoder, saved.array("decoder", shape)
        self._prefix = saved.array("prefix", (self.dimension,))
