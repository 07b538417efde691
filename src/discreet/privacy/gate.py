"""The gate: the one place through which anything that depends on private data is released.

A gate holds a budget, a source of randomness and a ledger. Each release names its mechanism and its
sensitivity; it is entered into the ledger before the noise is drawn, and refused, with nothing changed, when
the budget would not hold it. `Gate.reserve` returns a `Release`, the only thing in the library
that draws protective noise.
"""

from __future__ import annotations

import copy
import math
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NoReturn

from numpy.typing import ArrayLike

from ..core import checks
from ..core.fixed import Fixed
from ..core.state import Saved, refusing
from . import randomness as sources
from .account import Account
from .budget import NOTIONS, Budget, Share, fractions
from .coins import Coins
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
from .ledger import Entry, Group, Ledger, LedgerConflict, MemoryLedger, event_loss
from .limits import Filter, filter_for, filter_of, fits, smallest_epsilon
from .preview import BudgetExceeded, Preview, Remaining, ScoreChange
from .randomness import Seed
from .release import Release
from .values import amount, exact_floats, float_values, noise_grid, returned, root_above_whole, touched

if TYPE_CHECKING:
    from .sums.base import RunningSum


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
    ``ledger`` is where charges are kept, in memory if none is given. Gates that share a ledger spend one
    budget, also from several processes; they must keep to the same notion, so a delta needs one to be named.

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
        randomness: Seed = None,
        *,
        notion: str | None = None,
        failure: float | Fraction = 0.0,
        ledger: Ledger | None = None,
    ) -> None:
        checks.instance("budget", budget, Budget, "Budget(epsilon=1.0, delta=1e-6)")
        self._budget = budget
        self._source = sources.randomness(randomness)
        self._book, self._store, self._seen = MemoryLedger(), ledger, 0
        self._filter = _filter(budget, notion, failure)
        self._fraction = Fraction(1)
        self._root: Gate = self
        self._group: Group = ()
        self._reproducible = not self._source.secure
        self._marks: tuple[str, ...] = ()
        self._process = os.getpid()
        self._room: list[Any] = [None, None, 0, 1]  # place, event, checked room, how far to check next
        self._lock, self._resuming = threading.RLock(), False
        if ledger is not None:
            if not isinstance(ledger, Ledger):
                raise TypeError(
                    f"ledger must have version, entries() and append(), got {checks.shown(ledger)}"
                )
            if self._filter is None and budget.private:
                raise ValueError(
                    "gates that share a ledger keep to one privacy notion: give notion=, 'zcdp' for one"
                )
            self._refresh()
            if self._filter is not None and not self._filter.allows(self._book.loss):
                raise ValueError("the ledger holds more than this budget allows; it is of another budget")

    @classmethod
    def of_share(cls, share: Share, randomness: Seed = None) -> Gate:
        """A gate that holds no more than a share of a budget, in one privacy notion.

        What goes through the gates of several shares keeps a person within the budget as long as their
        fractions sum to at most 1 and all name the same notion.
        """
        checks.instance("share", share, Share, "Budget(1.0).split(2)[0]")
        budget = share.budget
        if share.whole:
            return cls(budget, randomness)
        gate = cls(budget, randomness, notion=share.notion or ("zcdp" if budget.delta else "pure"))
        gate._fraction = share.fraction
        if gate._filter is not None:
            gate._filter = gate._filter.part(share.fraction)
        return gate

    # --- what is known ---------------------------------------------------------------------------

    @property
    def budget(self) -> Budget:
        return self._budget

    @property
    def reproducible(self) -> bool:
        """Whether somebody may know noise of this gate, from now or from before it was restored."""
        return self._root._reproducible

    @property
    def spent(self) -> Account:
        """The account so far, over this gate and all its parts."""
        with self._lock:
            root = self._root
            root._refresh()
            return Account(self._budget, root._book.copy(), self.reproducible, root._marks, self.notion)

    @property
    def notion(self) -> str | None:
        """The privacy notion that this gate keeps to; None as long as none is fixed."""
        return None if self._root._filter is None else self._root._filter.notion

    @property
    def remaining(self) -> Remaining:
        """What a round of the people seen through this gate may still spend."""
        with self._lock:
            self._root._refresh()
            loss, chosen = self._place.loss_seen(), self._root._filter
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
    def left(self) -> Share:
        """What is left of the budget here, as a share to spend at this gate in its privacy notion."""
        budget, notion = self._budget, self.notion
        if not budget.private or notion is None:  # nothing has been released, and nothing is decided
            return Share(budget, Fraction(1), None, self)
        remaining, limit = self.remaining, filter_of(budget, notion).limit
        amounts = {"pure": remaining.epsilon, "zcdp": remaining.rho}
        spare = exact(amounts[notion]) if notion in amounts else exact(remaining.mu) ** 2
        part = min(spare / limit, Fraction(1)) if limit else Fraction(0)
        if part < Fraction(1, 10**6):  # what is left is rounding
            raise BudgetExceeded(self.preview(GaussianNoise(1.0, 1.0) if notion == "gdp" else _UNIT))
        if part == 1 and notion == "pure" and not budget.delta:
            return Share(budget, part, None, self)
        return Share(budget, part, notion, self)

    def split(self, parts: int | Sequence[float | Fraction], *, notion: str | None = None) -> list[Share]:
        """What is left here as shares: equal ones, or in proportion to the given weights.

        Whoever is given one (a learner, a chooser, a sum) spends it at this gate: one account for all. The
        gate keeps to its privacy notion; where none is fixed it is ``notion`` from now on, or "zcdp" if none
        is given.
        """
        shares = fractions(parts)
        with self._lock:
            root = self._root
            if root._filter is None and self._budget.private:
                root._filter = _filter(self._budget, notion or "zcdp", 0)
            elif notion not in (None, self.notion):
                raise ValueError(f"notion={notion!r}, but this gate keeps to {self.notion!r}")
            left = self.left
            return [replace(left, fraction=left.fraction * part) for part in shares]

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
            self._root._refresh()
            total = Loss()
            for event, count in releases:
                before = total
                total += event_loss(event) * checks.whole("count", count, at_least=1, at_most=checks.ANY)
                if not self._fits_in(self._place.loss_with(total)):
                    raise BudgetExceeded(self._preview(event, count, before))
            if self._root._filter is None and self._budget.private and releases:
                self._root._filter = filter_for(self._place.loss_with(total), self._budget)

    def preview(self, event: Event, count: int = 1) -> Preview:
        """What ``count`` such releases would cost and whether they fit; nothing is released."""
        checks.whole("count", count, at_least=1, at_most=checks.ANY)
        return self._preview(event, count, Loss())

    def _preview(self, event: Event, count: int, listed: Loss) -> Preview:
        """``preview`` of releases that come after others of the same list, which lose ``listed``."""

        def after(event: Event, count: int) -> Loss:
            return self._place.loss_with(listed + event_loss(event) * count)

        with self._lock:
            self._root._refresh()
            before, total = self._root._book.loss, after(event, count)
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
        candidates = exact_floats("scores", scores)
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
        return self._paid(label, event).choice(candidates)

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
        array, scalar = float_values(values)
        event = LaplaceNoise(amount("sensitivity", sensitivity), amount("scale", scale))
        grid = noise_grid(event.scale, event.sensitivity, Fraction(touched(changed, array)))
        return returned(self._paid(label, event).noisy(array, grid), scalar)

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
        array, scalar = float_values(values)
        if self._budget.private and not self._budget.delta:
            raise ValueError("Gaussian noise needs delta > 0; give the budget a delta or use laplace()")
        event = GaussianNoise(amount("sensitivity", sensitivity), amount("sigma", sigma))
        grid = noise_grid(event.sigma, event.sensitivity, root_above_whole(touched(changed, array)))
        return returned(self._paid(label, event).noisy(array, grid), scalar)

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
        array, scalar = float_values(values)
        event = SphericalLaplaceNoise(amount("sensitivity", sensitivity), amount("scale", scale))
        grid = noise_grid(event.scale, event.sensitivity, root_above_whole(touched(changed, array)))
        return returned(self._paid(label, event).noisy(array, grid), scalar)

    def running_sum(self, dimension: int, rounds: int, *, method: str = "sqrt", **options: Any) -> RunningSum:
        """A private running sum of vectors, by ``method``: see `sums.METHODS`.

        ``method`` is ``"sqrt"`` (least noise), ``"blt"`` (nearly the same, fewer buffers) or ``"tree"``
        (the papers' binary tree; the only one with Laplace noise). The whole sum is charged here;
        see the classes for the options.
        """
        from .sums import running_sum

        return running_sum(method, dimension, rounds, self, **options)

    def reserve(
        self, event: Event, count: int = 1, *, disjoint: bool = False, label: str = "reserved"
    ) -> Release:
        """Charge for releases of one mechanism, and hand out what draws them.

        ``count`` is how many of them one person's data enters. ``disjoint=True``: they are made about one
        group of people after the other, nobody is in two of them, and ``count`` is for one group. Which group
        somebody is in must not depend on private data: windows and blocks of round numbers are such groups.
        With ``count=0`` nothing is charged: for draws that depend on nobody.
        """
        checks.instance("event", event, Event, "LaplaceNoise(1.0, 2.0)")
        number = checks.whole("count", count, at_least=0, at_most=checks.ANY)
        if number:
            entry = Entry(label, event, bool(disjoint))
            if self._root._resuming:
                self._place.claim(entry, number)
            else:
                self._charge(entry, number)
        return Release(event, number, bool(disjoint), self._source, self.check_process)

    def coins(self, words: int = 4) -> Coins:
        """Public coins, which depend on nobody and are not charged; they follow the gate's seed."""
        return Coins.drawn(self._source, words)

    def key(self, words: int = 4) -> bytes:
        """A secret key, for hashes of identities; nothing that it is made of depends on anybody."""
        return self._source.words(checks.whole("words", words, at_least=1, at_most=1 << 10)).tobytes()

    def enlarged(self, budget: Budget) -> Gate:
        """A gate with another budget and the same randomness, for settings that need more than they claim."""
        if self._root is not self or self._fraction < 1 or self._store is not None:
            raise ValueError("settings that need more than they claim need a budget of their own; give one")
        if self._book.counts or self._book.parts:
            raise ValueError("something was released here already; its account stays with its budget")
        gate = Gate(budget, self._source)
        gate._marks, gate._reproducible = self._marks, self.reproducible
        return gate

    @contextmanager
    def resumed(self) -> Iterator[None]:
        """Within it, what is reserved must have been charged before the gate was saved, and is not again.

        For whoever makes a saved object again: what it will release is then what was paid for. A release that
        was taken up is in use; the same state does not come back behind the same gate twice.
        """
        with self._lock, self._place.claimed_or_not():
            self._root._resuming = True
            try:
                yield
            finally:
                self._root._resuming = False

    def part(self, name: str) -> Gate:
        """A gate for releases about one group of people, when groups are disjoint.

        The account then takes the worst part instead of the sum. Which group a person is in must not
        depend on their private data (divide by round number, or by something public): under
        ``"replace"`` a person who could move between groups would be in both.
        """
        if not isinstance(name, str | int):
            raise TypeError(f"name must be text, got {checks.shown(name)}")
        with self._lock:
            child = object.__new__(Gate)
            child._budget, child._source, child._lock = self._budget, self._source, self._lock
            child._root, child._group, child._fraction = self._root, (*self._group, str(name)), self._fraction
            return child._fix()

    # --- saving ----------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """The ledger (and a seeded source's position) as plain values, for `Gate.from_state`.

        A snapshot: later releases do not change it. Of a ledger that was given it holds what was there.
        """
        with self._lock:
            chosen, shared = self._root._filter, self._root._store is not None
            return {
                "account": self.spent.to_json(),
                "failure": str(chosen.failure if chosen is not None and chosen.notion != "pure" else 0),
                "share": str(self._root._fraction),
                "randomness": copy.deepcopy(self._source.state()),
            } | ({"shared": True} if shared else {})

    @classmethod
    def from_state(cls, state: dict[str, Any], ledger: Ledger | None = None) -> Gate:
        """A gate that has spent what the saved one had; secure randomness starts afresh.

        ``ledger`` is the one that the saved gate was made with: it knows what others have spent since.
        """
        with refusing("the gate"):
            saved = Saved(state, {})
            account = Account.from_json(saved.plain("account"))
            if account.notion is None and account.budget.private and account.loss != Loss():
                raise ValueError("there are releases and no privacy notion; it was not written by a gate")
            source, failure = sources.restored(saved.plain("randomness")), fraction(saved.plain("failure"))
            if saved.given("shared") != (ledger is not None):
                raise ValueError("ledger= must be the one that the saved gate was made with, if any")
            gate = cls(account.budget, source, notion=account.notion, failure=failure, ledger=ledger)
            gate._fraction = fraction(saved.plain("share"))
            if not 0 < gate._fraction <= 1:
                raise ValueError(f"share={gate._fraction} must be above 0 and at most 1")
            if gate._fraction < 1 and gate._filter is not None:
                gate._filter = gate._filter.part(gate._fraction)
            if gate._filter is not None and not gate._filter.allows(account.loss):
                raise ValueError("more was spent than the budget allows; it was not written by a gate")
            if ledger is None:
                gate._book = account.ledger
            else:
                gate._book.still_unclaimed(account.ledger)
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

    @property
    def _place(self) -> MemoryLedger:
        """Where the releases of this gate's group are listed."""
        return self._root._book.of_group(self._group)

    def _refresh(self) -> None:
        """Take up what others have written to a ledger that is shared."""
        store = self._store
        if store is None or self._resuming or store.version == self._seen:
            return
        while True:
            version, book = store.version, MemoryLedger()
            for group, entry, count in store.entries():
                book.of_group(group).add(entry, count)
            if store.version == version:
                book.still_unclaimed(self._book)
                self._book, self._seen = book, version
                return

    def _paid(self, label: str, event: Event) -> Release:
        """One release, charged for."""
        self._charge(Entry(label, event), 1)
        return Release(event, 1, False, self._source, self.check_process)

    def _charge(self, entry: Entry, count: int) -> None:
        self.check_process()
        if not isinstance(entry.label, str):
            raise TypeError(f"label must be text, got {checks.shown(entry.label)}")
        root = self._root
        with self._lock:
            if root._store is None:
                if not self._known_to_fit(entry.event, count):
                    self.expect((entry.event, count))
                    self._look_ahead(entry.event, count)
                self._place.add(entry, count)
                return
            while True:
                self.expect((entry.event, count))
                try:
                    root._store.append(entry, count, expected_version=root._seen, group=self._group)
                    return
                except LedgerConflict:  # somebody else was first: what is left is to be looked at again
                    continue

    def _known_to_fit(self, event: Event, count: int) -> bool:
        """Whether an earlier check already made room for this release of a repeated event."""
        place, known, room, _ = self._root._room
        if place is not self._place or known != event or room < count:
            return False
        self._root._room[2] -= count
        return True

    def _look_ahead(self, event: Event, count: int) -> None:
        """Check more room than was asked for, twice as much each time an event repeats.

        Long streams repeat one event; this way they cost a few exact checks in all, not one a round.
        """
        place, known, _, stride = self._root._room
        here = self._place
        stride = 2 * stride if place is here and known == event else 1
        room = stride if self._fits(event, count + stride) else 0
        self._root._room = [here, event, room, stride if room else 1]

    def _fits(self, event: Event, count: int) -> bool:
        """Whether this part could release ``count`` more."""
        return self._fits_in(self._place.loss_with(event_loss(event) * count))

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


Spending = Budget | Share | Gate


def spend_from(budget: Spending, seed: Seed = None) -> Share:
    """What may be spent, at the gate where it is: ``share.gate`` is always there.

    A `Budget` gets a gate of its own and is spent whole. A `Share` is spent at its gate, or at one of its own
    that holds no more. Of a `Gate` all that is left is spent, in its privacy notion.
    """
    if isinstance(budget, Gate | Share) and (isinstance(budget, Gate) or budget.gate is not None):
        if seed is not None:
            raise ValueError("seed= is for a budget; a gate has its own randomness")
        return budget.left if isinstance(budget, Gate) else budget
    if isinstance(budget, Share):
        gate = Gate.of_share(budget, seed)
        return replace(budget, notion=budget.notion if budget.whole else gate.notion, gate=gate)
    gate = Gate(budget, seed)
    return Share(budget, Fraction(1), None, gate)


_UNIT = LaplaceNoise(1.0, 1.0)


def _filter(budget: Budget, notion: str | None, failure: float | Fraction) -> Filter | None:
    """The filter that the arguments of a gate ask for; None where the first release decides."""
    aside = exact(amount("failure", failure))
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
