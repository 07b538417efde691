"""The gate: the one place through which anything that depends on private data leaves.

A gate holds a budget and a source of randomness. Each release names its mechanism and how far one
person can move what is released; it is entered into the ledger before the noise is drawn, and refused,
with nothing changed, when the budget would not hold it.
"""

from __future__ import annotations

import copy
import math
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NoReturn, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core import checks
from ..core.fixed import Fixed
from ..core.state import Saved, refusing
from . import randomness as sources
from . import samplers
from .account import (
    NOTIONS,
    Account,
    Filter,
    Ledger,
    event_loss,
    filter_for,
    filter_of,
    fits,
    smallest_epsilon,
)
from .budget import Budget
from .conversions import HALF_PI, exact, root_below, rounded_down
from .events import (
    Event,
    ExponentialChoice,
    GaussianNoise,
    LaplaceNoise,
    Loss,
    SphericalLaplaceNoise,
    fraction,
)
from .randomness import Randomness

if TYPE_CHECKING:
    from .sums.base import RunningSum


@dataclass(frozen=True)
class ScoreChange:
    """How far one person can move the scores of a choice.

    ``ScoreChange(1.0)``: each score by at most 1 either way, so two scores by 2 against each other.
    ``ScoreChange(1.0, one_directional=True)``: all up or all down (adding or removing a person who
    values things non-negatively), so by at most 1 against each other.

    >>> ScoreChange(1.0).range, ScoreChange(1.0, one_directional=True).range
    (2.0, 1.0)
    """

    each: float
    one_directional: bool = False

    def __post_init__(self) -> None:
        checks.real("each", self.each, at_least=0.0)

    @property
    def range(self) -> float:
        """Largest minus smallest change over the candidates."""
        return self.each if self.one_directional else 2.0 * self.each


@dataclass(frozen=True)
class Remaining:
    """What a round may still spend: on pure releases, on zCDP ones, on Gaussian ones, or in deltas.

    At a gate that has fixed its privacy notion, each is what that notion has room for. Before that, each
    is the limit of the notion that goes with it.
    """

    epsilon: float
    rho: float
    mu: float
    delta: float


@dataclass(frozen=True)
class Preview:
    """What a release would do, without doing it.

    ``spent`` and ``after`` are epsilons at the budget's delta in the gate's privacy ``notion``;
    ``largest_count`` is how many such releases would fit, ``largest`` the same kind of release at the largest
    loss that would.
    """

    asked: Event
    count: int
    spent: float
    after: float
    limit: float
    delta: float
    fits: bool
    largest_count: int
    largest: Event | None
    notion: str | None = None

    def __str__(self) -> str:
        at = f" at delta {self.delta:g}" if self.delta else ""
        times = "" if self.count == 1 else f"{self.count:,} x "
        by = f" by {_WORDS[self.notion]}" if self.notion else ""
        text = (
            f"spent epsilon {self.spent:.6g}, asked {times}{_shown(self.asked)} which makes {self.after:.6g},"
            f" limit {self.limit:g}{at}{by}"
        )
        if self.fits:
            return text + "; it fits"
        if self.notion and math.isinf(self.after) and math.isfinite(self.spent):
            others = " or ".join(f"notion={name!r}" for name in NOTIONS if name != self.notion)
            return text + (
                f"; this gate keeps to {_WORDS[self.notion]}, in which such a release has no bound: make the"
                f" gate with {others}, before its first release"
            )
        if self.largest is None:
            return text + "; nothing of this kind fits any more"
        also = f", or {self.largest_count:,} of those asked for" if self.largest_count else ""
        largest = _shown(self.largest)
        return text + f"; largest that fits: {times}{largest}{also}"


_WORDS = {"pure": "pure epsilon", "zcdp": "zCDP", "gdp": "Gaussian DP"}


def _shown(event: Event) -> str:
    record = event.to_json()
    kind = record.pop("kind")
    return f"{kind}({', '.join(f'{name}={float(Fraction(value)):.6g}' for name, value in record.items())})"


class BudgetExceeded(Exception):
    """A release was refused because the budget does not hold it; nothing was released or spent."""

    def __init__(self, preview: Preview) -> None:
        super().__init__(f"budget exceeded: {preview}")
        self.preview = preview

    @property
    def spent(self) -> float:
        """Epsilon spent so far, at the budget's delta."""
        return self.preview.spent

    @property
    def asked(self) -> Event:
        """The release that was asked for."""
        return self.preview.asked

    @property
    def limit(self) -> float:
        """The budget's epsilon."""
        return self.preview.limit

    @property
    def largest(self) -> Event | None:
        """The same kind of release at the largest loss that fits, or None."""
        return self.preview.largest


class Gate(Fixed):
    """The gate, its budget, and the ledger of what went through.

    Guarantee: for any sequence of calls, each chosen after seeing the answers to the earlier ones,
    everything that was returned is (epsilon, delta)-DP for one person under the budget's neighbouring
    relation, provided the stated sensitivities are true.

    ``randomness`` is None for the operating system's, a number for a reproducible (not private) run.
    ``notion`` is the privacy notion in which losses are added up: "pure", "zcdp" or "gdp". It is fixed before
    the first answer and kept to: somebody who could pick the cheapest one after seeing answers would
    exceed the budget. If it is not given, a budget without delta means pure epsilon, and with a delta the
    first release (or the list given to `expect`) decides: zCDP or Gaussian DP, whichever it takes the smaller
    share of, and pure epsilon where it fits neither. ``failure`` is the part of delta that is set aside for
    releases that come with a delta of their own; only for "zcdp" and "gdp", in "pure" all of delta is.

    >>> import discreet as dc
    >>> gate = dc.Gate(dc.Budget(1.0), 0)
    >>> gate.choose([1.0, 5.0, 2.0], rate=0.25, sensitivity=2.0) in (0, 1, 2)
    True
    >>> gate.spent.epsilon(), gate.remaining.epsilon
    (0.5, 0.5)
    """

    def __init__(
        self,
        budget: Budget,
        randomness: Randomness | int | None = None,
        *,
        notion: str | None = None,
        failure: float | Fraction = 0.0,
    ) -> None:
        if not isinstance(budget, Budget):
            raise TypeError(
                f"budget must be a Budget, got {checks.shown(budget)}; e.g. Budget(epsilon=1.0, delta=1e-6)"
            )
        self._budget = budget
        self._source = sources.randomness(randomness)
        self._ledger = Ledger()
        self._filter = _filter(budget, notion, failure)
        self._root: Gate = self
        self._reproducible = not self._source.secure
        self._marks: tuple[str, ...] = ()
        self._process = os.getpid()
        self._room: list[Any] = [None, None, 0, 1]  # place, event, checked room, how far to check next
        self._lock, self._resuming = threading.RLock(), False

    # --- what is known ---------------------------------------------------------------------------

    @property
    def budget(self) -> Budget:
        return self._budget

    @property
    def randomness(self) -> Randomness:
        """The source of random words, for compiled loops that have reserved their releases."""
        return self._source

    @property
    def reproducible(self) -> bool:
        """Whether somebody may know noise of this gate, from now or from before it was restored."""
        return self._root._reproducible

    @property
    def spent(self) -> Account:
        """The account so far, over this gate and all its parts."""
        with self._lock:
            root = self._root
            return Account(self._budget, root._ledger.copy(), self.reproducible, root._marks, self.notion)

    @property
    def notion(self) -> str | None:
        """The privacy notion that this gate keeps to; None as long as none is fixed."""
        return None if self._root._filter is None else self._root._filter.notion

    @property
    def remaining(self) -> Remaining:
        """What a round of the people seen through this gate may still spend."""
        with self._lock:
            loss, chosen = self._ledger.loss_seen(), self._root._filter
        if not self._budget.private:
            return Remaining(math.inf, math.inf, math.inf, self._budget.delta)
        left = {}
        for notion in NOTIONS if chosen is None else (chosen.notion,):
            limit = filter_of(self._budget, notion) if chosen is None else chosen
            spent = limit.spent(loss)
            left[notion] = Fraction(0) if spent is None else max(Fraction(0), limit.limit - spent)
        failure = filter_of(self._budget, "pure").failure if chosen is None else chosen.failure
        # Of a pure release e, rho is at most e^2/2 and mu squared at most (pi/2) e^2; of Gaussian noise, rho
        # is half of mu squared. Of a release known by its rho only, neither epsilon nor mu is bounded.
        zero = Fraction(0)
        rho, mu_squared = left.get("zcdp", zero), left.get("gdp", zero)
        pure = left.get("pure", root_below(2 * rho) if rho else root_below(mu_squared / HALF_PI))
        return Remaining(
            rounded_down(pure),
            rounded_down(rho),
            float(root_below(left.get("gdp", 2 * rho))),
            rounded_down(max(zero, failure - loss.delta)),
        )

    @property
    def marks(self) -> tuple[str, ...]:
        """What the accounts of this gate say they take for granted; see `mark`."""
        return self._root._marks

    def mark(self, *sentences: str) -> None:
        """Let every account of this gate say what its guarantee takes for granted; once said, it stays."""
        with self._lock:
            root = self._root
            root._marks += tuple(new for new in dict.fromkeys(sentences) if new not in root._marks)

    def expect(self, *releases: tuple[Event, int]) -> None:
        """Fix the privacy notion for (event, count) releases to come; nothing is charged or released.

        A gate whose notion is fixed keeps it. Either way, `BudgetExceeded` tells that they do not fit.
        """
        with self._lock:
            total = Loss()
            for event, count in releases:
                before = total
                total += event_loss(event) * checks.whole("count", count, at_least=1, at_most=checks.ANY)
                if not self._fits_in(self._ledger.loss_with(total)):
                    raise BudgetExceeded(self._preview(event, count, before))
            if self._root._filter is None and self._budget.private and releases:
                self._root._filter = filter_for(self._ledger.loss_with(total), self._budget)

    def preview(self, event: Event, count: int = 1) -> Preview:
        """What ``count`` such releases would cost and whether they fit; nothing is released."""
        checks.whole("count", count, at_least=1, at_most=checks.ANY)
        return self._preview(event, count, Loss())

    def _preview(self, event: Event, count: int, listed: Loss) -> Preview:
        """``preview`` of releases that come after others of the same list, which lose ``listed``."""

        def after(event: Event, count: int) -> Loss:
            return self._ledger.loss_with(listed + event_loss(event) * count)

        with self._lock:
            before, total = self._root._ledger.loss, after(event, count)
            fit, notion = self._fits_in(total), self.notion
            largest: Event | None = event
            if not fit:
                factor = self._largest(lambda c: self._fits_in(after(event.scaled(c), count)))
                largest = event.scaled(factor) if factor > 0.0 else None
            return Preview(
                asked=event,
                count=count,
                spent=smallest_epsilon(before, self._budget, self._budget.delta, notion),
                after=smallest_epsilon(total, self._budget, self._budget.delta, notion),
                limit=self._budget.epsilon,
                delta=self._budget.delta,
                fits=fit,
                largest_count=self._largest_count(lambda n: self._fits_in(after(event, n)), count),
                largest=largest,
                notion=notion,
            )

    # --- what leaves -----------------------------------------------------------------------------

    def choose(
        self,
        scores: ArrayLike,
        rate: float,
        sensitivity: float | ScoreChange,
        *,
        label: str = "choice",
    ) -> int:
        """Index of one candidate, drawn with probability proportional to ``exp(rate * score)``.

        ``sensitivity`` is the range by which one person can push scores apart (a number), or a
        `ScoreChange`. The scores are taken as the exact reals they are in floating point: sums over
        people should be kept in integers or fixed point, where one person's influence is exact.

        Formal guarantee: privacy loss in an interval of length ``rate * range``; the draw itself is
        exact (see `mechanisms.exponential_choice`).
        """
        candidates = _floats("scores", scores)
        if candidates.size == 0:
            raise ValueError("scores is empty; there is nothing to choose from")
        if isinstance(sensitivity, ScoreChange) and sensitivity.one_directional and not self._one_way:
            raise ValueError(
                'one_directional holds when people are added or removed; under neighbours="replace" one goes'
                " and another comes: use ScoreChange(each)"
            )
        width = sensitivity.range if isinstance(sensitivity, ScoreChange) else sensitivity
        event = ExponentialChoice(
            checks.real("rate", rate, at_least=0.0), checks.real("sensitivity", width, at_least=0.0)
        )
        self._charge(label, event, 1)
        return samplers.exponential_choice(self._source, candidates, event.rate)

    def laplace(
        self,
        values: ArrayLike,
        scale: float | Fraction,
        sensitivity: float | Fraction,
        *,
        changed: int | None = None,
        label: str = "noisy values",
    ) -> Any:
        """``values`` with Laplace noise of ``scale``; ``sensitivity`` in L1. A number gives a number.

        ``changed`` is how many coordinates one person can move at most (all of them, if not given); it
        only matters for what rounding to the grid costs, which the noise makes up for.

        Formal guarantee: (sensitivity/scale)-DP, exact on the grid.
        """
        array, scalar = _values(values)
        event = LaplaceNoise(_amount("sensitivity", sensitivity), _amount("scale", scale))
        grid = _grid(event.scale, event.sensitivity, Fraction(_touched(changed, array)))
        self._charge(label, event, 1)
        return _returned(self._on_grid(array, grid, "laplace"), scalar)

    def gaussian(
        self,
        values: ArrayLike,
        sigma: float | Fraction,
        sensitivity: float | Fraction,
        *,
        changed: int | None = None,
        label: str = "noisy values",
    ) -> Any:
        """``values`` with Gaussian noise of standard deviation ``sigma``; ``sensitivity`` in L2.

        Formal guarantee: (sensitivity/sigma)-Gaussian DP, exact on the grid.
        """
        array, scalar = _values(values)
        if self._budget.private and not self._budget.delta:
            raise ValueError("Gaussian noise needs delta > 0; give the budget a delta or use laplace()")
        event = GaussianNoise(_amount("sensitivity", sensitivity), _amount("sigma", sigma))
        grid = _grid(event.sigma, event.sensitivity, _root_above(_touched(changed, array)))
        self._charge(label, event, 1)
        return _returned(self._on_grid(array, grid, "gaussian"), scalar)

    def spherical_laplace(
        self,
        values: ArrayLike,
        scale: float | Fraction,
        sensitivity: float | Fraction,
        *,
        changed: int | None = None,
        label: str = "noisy values",
    ) -> Any:
        """``values`` plus a vector with density falling as ``exp(-|z|/scale)``; ``sensitivity`` in L2.

        Formal guarantee: (sensitivity/scale)-DP, exact on the grid.
        """
        array, scalar = _values(values)
        event = SphericalLaplaceNoise(_amount("sensitivity", sensitivity), _amount("scale", scale))
        grid = _grid(event.scale, event.sensitivity, _root_above(_touched(changed, array)))
        self._charge(label, event, 1)
        return _returned(self._on_grid(array, grid, "spherical"), scalar)

    def running_sum(self, dimension: int, rounds: int, *, method: str = "sqrt", **options: Any) -> RunningSum:
        """A private running sum of vectors: `TreeSum` for ``method="tree"``, else `FactorizedSum`.

        ``method`` is ``"sqrt"`` (least noise), ``"blt"`` (nearly the same, fewer buffers) or ``"tree"``
        (the papers' binary tree; the only one with Laplace noise). The whole sum is charged here;
        see the classes for the options.
        """
        from .sums.base import FactorizedSum, TreeSum

        checks.one_of("method", method, ("sqrt", "blt", "tree"))
        if method == "tree":
            return TreeSum(dimension, rounds, self, **options)
        return FactorizedSum(dimension, rounds, self, method=method, **options)

    def reserve(self, event: Event, count: int = 1, *, label: str = "reserved") -> Randomness:
        """Charge for ``count`` releases that a compiled loop will make, and hand it the randomness."""
        if not isinstance(event, Event):
            raise TypeError(f"event must be an Event, got {checks.shown(event)}")
        number = checks.whole("count", count, at_least=1, at_most=checks.ANY)
        if self._root._resuming:
            self._ledger.claim(label, event, number)
        else:
            self._charge(label, event, number)
        return self._source

    @contextmanager
    def _resumed(self) -> Iterator[None]:
        """Within it, what is reserved must have been charged before the gate was saved, and is not again.

        For whoever makes a saved object again: what it will release is then what was paid for. A release that
        was taken up is in use; the same state does not come back behind the same gate twice.
        """
        with self._lock:
            before = dict(self._ledger._unclaimed)
            self._root._resuming = True
            try:
                yield
            except BaseException:
                self._ledger._unclaimed = before
                raise
            finally:
                self._root._resuming = False

    def part(self, name: str) -> Gate:
        """A gate for releases about one group of people, when groups are disjoint.

        The account then takes the worst part instead of the sum. Which group a person is in must not
        depend on their private data (divide by round number, or by something public): under
        ``"replace"`` a person who could move between groups would be in both.
        """
        with self._lock:
            child = object.__new__(Gate)
            child._budget, child._source, child._lock = self._budget, self._source, self._lock
            child._root = self._root
            child._ledger = self._ledger.part(str(name))
            return child._fix()

    # --- saving ----------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """The ledger (and a seeded source's position) as plain values, for `Gate.from_state`.

        A snapshot: later releases do not change it.
        """
        with self._lock:
            chosen = self._root._filter
            return {
                "account": self.spent.to_json(),
                "failure": str(chosen.failure if chosen is not None and chosen.notion != "pure" else 0),
                "randomness": copy.deepcopy(self._source.state()),
            }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Gate:
        """A gate that has spent what the saved one had; secure randomness starts afresh."""
        with refusing("the gate"):
            saved = Saved(state, {})
            account = Account.from_json(saved.plain("account"))
            if account.notion is None and account.budget.private and account.loss != Loss():
                raise ValueError("there are releases and no privacy notion; it was not written by a gate")
            source, failure = sources.restored(saved.plain("randomness")), fraction(saved.plain("failure"))
            gate = cls(account.budget, source, notion=account.notion, failure=failure)
            if gate._filter is not None and not gate._filter.allows(account.loss):
                raise ValueError("more was spent than the budget allows; it was not written by a gate")
        gate._ledger = account.ledger
        gate._marks = account.marks
        gate._reproducible |= account.reproducible  # noise that somebody may know does not become unknown
        return gate

    @property
    def resumes_alike(self) -> bool:
        """Whether a restored gate would draw what this one would: a seeded source, whose place is kept."""
        return not self._source.secure and self._source.state() is not None

    def mark_reproducible(self) -> None:
        """Say in every account from now on that somebody may know the noise."""
        self._root._reproducible = True

    def __reduce__(self) -> NoReturn:
        raise TypeError("a gate is not copied or pickled, or its budget could be spent twice; use state()")

    def __sklearn_clone__(self) -> Gate:
        """Estimators that are cloned go on sharing their gate: that is what one budget is for."""
        return self

    def __repr__(self) -> str:
        return f"Gate({self._budget}, spent epsilon {self.spent.epsilon():.6g})"

    # --- inside ----------------------------------------------------------------------------------

    @property
    def _one_way(self) -> bool:
        return self._budget.neighbours == "add_remove"

    def check_process(self) -> None:
        """Refuse to go on in a forked child: parent and child would each spend the same budget."""
        if os.getpid() != self._root._process:
            raise RuntimeError(
                "this gate was made in another process, which may go on spending the same budget; make a gate"
                " with a share of the budget in each process"
            )

    def _charge(self, label: str, event: Event, count: int) -> None:
        self.check_process()
        if not isinstance(label, str):
            raise TypeError(f"label must be text, got {checks.shown(label)}")
        with self._lock:
            if not self._known_to_fit(event, count):
                self.expect((event, count))
                self._look_ahead(event, count)
            self._ledger.add(label, event, count)

    def _known_to_fit(self, event: Event, count: int) -> bool:
        """Whether an earlier check already made room for this release of a repeated event."""
        place, known, room, _ = self._root._room
        if place is not self._ledger or known != event or room < count:
            return False
        self._root._room[2] -= count
        return True

    def _look_ahead(self, event: Event, count: int) -> None:
        """Check more room than was asked for, twice as much each time an event repeats.

        Long streams repeat one event; this way they cost a few exact checks in all, not one a round.
        """
        place, known, _, stride = self._root._room
        stride = 2 * stride if place is self._ledger and known == event else 1
        room = stride if self._fits(event, count + stride) else 0
        self._root._room = [self._ledger, event, room, stride if room else 1]

    def _fits(self, event: Event, count: int) -> bool:
        """Whether this part could release ``count`` more."""
        return self._fits_in(self._ledger.loss_with(event_loss(event) * count))

    def _fits_in(self, loss: Loss) -> bool:
        """Whether the budget holds ``loss`` in the notion that is fixed, or in one that may still be."""
        chosen = self._root._filter
        return fits(loss, self._budget) if chosen is None else chosen.fits(loss)

    @staticmethod
    def _largest_count(fit: Callable[[int], bool], asked: int) -> int:
        """How many fit, at most 2^62."""
        if not fit(1):
            return 0
        low, high = 1, max(2, asked)
        while fit(high):
            low, high = high, 2 * high
            if high > 1 << 62:
                return low
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if fit(middle) else (low, middle)
        return low

    @staticmethod
    def _largest(fit: Callable[[float], bool]) -> float:
        """Largest factor in (0, 1) for which a scaled release fits; 0 if none does."""
        low, high = 0.0, 1.0
        for _ in range(64):
            middle = (low + high) / 2.0
            if not low < middle < high:
                break
            low, high = (middle, high) if fit(middle) else (low, middle)
        return low if low > 1e-4 else 0.0  # below that it is left-over rounding, not a release

    def _on_grid(
        self, values: NDArray[np.float64], grid: samplers.Grid | None, law: str
    ) -> NDArray[np.float64]:
        if grid is None:
            return values.copy()
        return grid.values(grid.truncate(values) + grid.noise(self._source, values.size, law))


def _filter(budget: Budget, notion: str | None, failure: float | Fraction) -> Filter | None:
    """The filter that the arguments of a gate ask for; None where the first release decides."""
    aside = exact(_amount("failure", failure))
    if notion is None:
        if aside:
            raise ValueError(f"failure={float(aside):g} goes with notion='zcdp' or notion='gdp'; give one")
        return filter_of(budget, "pure") if budget.private and not budget.delta else None
    checks.one_of("notion", notion, NOTIONS)
    if notion == "pure":
        if aside:
            raise ValueError("failure= is for 'zcdp' and 'gdp'; in 'pure' all of delta is for failures")
    elif budget.private and not budget.delta:
        raise ValueError(f"notion={notion!r} needs delta > 0; give the budget a delta or take notion='pure'")
    elif aside and (aside >= exact(budget.delta) or budget.max_rounds_per_person > 1):
        raise ValueError(
            f"failure={float(aside):g} must be below delta={budget.delta:g}, with max_rounds_per_person=1"
        )
    return filter_of(budget, notion, aside) if budget.private else None


def _grid(scale: Any, sensitivity: Any, truncation: Fraction) -> samplers.Grid | None:
    return samplers.Grid.for_noise(scale, sensitivity, truncation) if scale else None


def _root_above(number: int) -> Fraction:
    """The square root, rounded up to a whole number."""
    return Fraction(math.isqrt(number - 1) + 1)


def _values(values: ArrayLike) -> tuple[NDArray[np.float64], bool]:
    scalar = np.ndim(values) == 0
    array = _floats("values", cast(ArrayLike, [values]) if scalar else values)
    if array.size == 0:
        raise ValueError("values is empty; there is nothing to release")
    return array, scalar


def _floats(name: str, values: ArrayLike) -> NDArray[np.float64]:
    """The numbers as floats, each of them exactly: rounding would move them further than was declared."""
    array = checks.vector(name, values)
    given: NDArray[Any] = np.asarray(values, dtype=None if hasattr(values, "dtype") else object)
    if given.dtype == np.longdouble or given.dtype == object:
        for number, rounded in zip(given.tolist(), array.tolist(), strict=True):
            if (int(number) if isinstance(number, np.integer) else number) != rounded:
                raise ValueError(
                    f"{name} holds numbers that are not exact as floats of 64 bits; round them, and let the"
                    " sensitivity say how far one person moves what is rounded"
                )
    return array


def _returned(values: NDArray[np.float64], scalar: bool) -> Any:
    return float(values[0]) if scalar else values


def _amount(name: str, value: float | Fraction) -> float | Fraction:
    number = checks.real(name, value, at_least=0.0)
    return value if isinstance(value, Fraction) else number


def _touched(changed: int | None, values: NDArray[np.float64]) -> int:
    return (
        values.size if changed is None else checks.whole("changed", changed, at_least=1, at_most=values.size)
    )
