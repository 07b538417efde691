"""The gate: the one place through which anything that depends on private data is released.

A gate holds a budget, a source of randomness and a ledger. Each release names its mechanism and its
sensitivity; it is entered into the ledger before the noise is drawn, and refused, with nothing changed, when
the budget would not hold it. `Gate.reserve` returns a `Release`, the only thing in the library
that draws protective noise.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
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
from .books import Books
from .budget import Budget, Share, fractions
from .coins import Coins
from .conversions import exact, fraction
from .events import (
    Event,
    ExponentialChoice,
    GaussianNoise,
    LaplaceNoise,
    Loss,
    ScoreChange,
    SphericalLaplaceNoise,
)
from .ledger import Entry, Group, Ledger
from .limits import Remaining, filter_asked, filter_of
from .preview import BudgetExceeded, Preview
from .randomness import Seed
from .release import Release
from .samplers.values import (
    amount,
    exact_floats,
    float_values,
    noise_grid,
    returned,
    root_above_whole,
    touched,
)

if TYPE_CHECKING:
    from .sums.base import RunningSum

_UNIT = LaplaceNoise(1.0, 1.0)


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
        self._source = sources.randomness(randomness)
        self._books = Books(budget, filter_asked(budget, notion, failure), ledger)
        self._books.reproducible = not self._source.secure
        self._group: Group = ()

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
        gate._books.restrict(share.fraction)
        return gate

    # --- what is known ---------------------------------------------------------------------------

    @property
    def budget(self) -> Budget:
        return self._books.budget

    @property
    def reproducible(self) -> bool:
        """Whether somebody may know noise of this gate, from now or from before it was restored."""
        return self._books.reproducible

    @property
    def spent(self) -> Account:
        """The account so far, over this gate and all its parts."""
        return self._books.account()

    @property
    def notion(self) -> str | None:
        """The privacy notion that this gate keeps to; None as long as none is fixed."""
        return self._books.notion

    @property
    def remaining(self) -> Remaining:
        """What a round of the people seen through this gate may still spend."""
        books = self._books
        with books.lock:
            books.refresh()
            return Remaining.of(books.budget, books.of_group(self._group).loss_seen(), books.limit)

    @property
    def left(self) -> Share:
        """What is left of the budget here, as a share to spend at this gate in its privacy notion."""
        budget, notion = self.budget, self.notion
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

    def share(self, fraction: Fraction | int | float) -> Share:
        """A fraction of the whole budget, to spend here: the same in every process that shares a ledger."""
        return replace(self.budget.share(fraction), notion=self.notion, gate=self)

    def split(self, parts: int | Sequence[float | Fraction], *, notion: str | None = None) -> list[Share]:
        """What is left here as shares: equal ones, or in proportion to the given weights.

        Whoever is given one (a learner, a chooser, a sum) spends it at this gate: one account for all. The
        gate keeps to its privacy notion; where none is fixed it is ``notion`` from now on, or "zcdp" if none
        is given.
        """
        shares = fractions(parts)
        with self._books.lock:
            if self._books.limit is None and self.budget.private:
                self._books.limit = filter_asked(self.budget, notion or "zcdp", 0)
            elif notion not in (None, self.notion):
                raise ValueError(f"notion={notion!r}, but this gate keeps to {self.notion!r}")
            left = self.left
            return [replace(left, fraction=left.fraction * part) for part in shares]

    @property
    def marks(self) -> tuple[str, ...]:
        """What the accounts of this gate say they take for granted; see `mark`."""
        return self._books.marks

    def mark(self, *sentences: str) -> None:
        """Let every account of this gate say what its guarantee takes for granted; once said, it stays."""
        self._books.mark(*sentences)

    def expect(self, *releases: tuple[Event, int]) -> None:
        """Fix the privacy notion for (event, count) releases to come; nothing is charged or released.

        A gate whose notion is fixed keeps it. Either way, `BudgetExceeded` says that they do not fit. Within
        `resumed` they have been charged already.
        """
        if not self._books.resuming:
            self._books.expect(self._group, *releases)

    def preview(self, event: Event, count: int = 1) -> Preview:
        """What ``count`` such releases would cost and whether they fit; nothing is released."""
        checks.whole("count", count, at_least=1, at_most=checks.ANY)
        return self._books.preview(self._group, event, count, Loss())

    # --- releases --------------------------------------------------------------------------------

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
        exact (see `samplers.exponential_choice`).
        """
        candidates = exact_floats("scores", scores)
        if candidates.size == 0:
            raise ValueError("scores is empty; there is nothing to choose from")
        if (
            isinstance(sensitivity, ScoreChange)
            and sensitivity.one_directional
            and self.budget.neighbours == "replace"
        ):
            raise ValueError(
                'one_directional holds when people are added or removed; under neighbours="replace" one goes'
                " and another comes: use ScoreChange(each)"
            )
        width = sensitivity.range if isinstance(sensitivity, ScoreChange) else sensitivity
        event = ExponentialChoice(
            checks.real("rate", rate, at_least=0.0), checks.real("sensitivity", width, at_least=0.0)
        )
        return self.reserve(event, label=label).choice(candidates)

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
        return returned(self.reserve(event, label=label).noisy(array, grid), scalar)

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
        if self.budget.private and not self.budget.delta:
            raise ValueError("Gaussian noise needs delta > 0; give the budget a delta or use laplace()")
        event = GaussianNoise(amount("sensitivity", sensitivity), amount("sigma", sigma))
        grid = noise_grid(event.sigma, event.sensitivity, root_above_whole(touched(changed, array)))
        return returned(self.reserve(event, label=label).noisy(array, grid), scalar)

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
        return returned(self.reserve(event, label=label).noisy(array, grid), scalar)

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
            self._books.charge(self._group, Entry(label, event, bool(disjoint)), number)
        return Release(event, number, bool(disjoint), self._source, self.check_process)

    def coins(self, words: int = 4) -> Coins:
        """Public coins, which depend on nobody and are not charged; they follow the gate's seed."""
        return Coins([0] * words) if self._books.resuming else Coins.drawn(self._source, words)

    def key(self, words: int = 4) -> bytes:
        """A secret key, for hashes of identities; nothing that it is made of depends on anybody."""
        number = checks.whole("words", words, at_least=1, at_most=1 << 10)
        return bytes(8 * number) if self._books.resuming else self._source.words(number).tobytes()

    def enlarged(self, budget: Budget) -> Gate:
        """A gate with another budget and the same randomness, for settings that need more than they claim."""
        books = self._books
        if self._group or books.fraction < 1 or books.store is not None:
            raise ValueError("settings that need more than they claim need a budget of their own; give one")
        if books.ledger.counts or books.ledger.parts:
            raise ValueError("something was released here already; its account stays with its budget")
        gate = Gate(budget, self._source)
        gate._books.marks, gate._books.reproducible = books.marks, books.reproducible
        return gate

    @contextmanager
    def resumed(self) -> Iterator[None]:
        """Within it, what is reserved must have been charged before the gate was saved, and is not again.

        For whoever makes a saved object again: what it will release is then what was paid for. A release that
        was taken up is in use; the same state does not come back behind the same gate twice. Coins and keys
        are blank: those that were drawn before are in the state that is being read.
        """
        with self._books.resumed(self._group):
            yield

    def part(self, name: str, randomness: Seed | Mapping[str, Any] = None) -> Gate:
        """A gate for releases about one group of people, when groups are disjoint.

        The account then takes the worst part instead of the sum. Which group a person is in must not
        depend on their private data (divide by round number, or by something public): under
        ``"replace"`` a person who could move between groups would be in both. ``randomness`` is a seed or
        source of its own, or where a saved part's stood (its `source_state`, which is not in this gate's
        state); without one the part draws from the source of this gate.
        """
        if not isinstance(name, str | int):
            raise TypeError(f"name must be text, got {checks.shown(name)}")
        child = object.__new__(Gate)
        source = self._source
        if isinstance(randomness, Mapping):
            source = sources.restored(dict(randomness))
        elif randomness is not None:
            source = sources.randomness(randomness)
        child._books, child._source, child._group = self._books, source, (*self._group, str(name))
        if not source.secure:
            child.mark_reproducible()
        return child._fix()

    # --- saving ----------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """The ledger (and a seeded source's position) as plain values, for `Gate.from_state`.

        A snapshot: later releases do not change it. Of a ledger that was given it holds what was there.
        """
        books = self._books
        with books.lock:
            limit = books.limit
            return {
                "account": self.spent.to_json(),
                "failure": str(limit.failure if limit is not None and limit.notion != "pure" else 0),
                "share": str(books.fraction),
                "randomness": self.source_state(),
            } | ({} if books.store is None else {"shared": True})

    def source_state(self) -> Any:
        """Where the source of randomness stands, if it is a seeded one: for `part`."""
        return copy.deepcopy(self._source.state())

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
            books = gate._books
            books.restrict(fraction(saved.plain("share")))
            if books.limit is not None and not books.limit.allows(account.loss):
                raise ValueError("more was spent than the budget allows; it was not written by a gate")
            if ledger is None:
                books.ledger = account.ledger
            else:
                books.ledger.still_unclaimed(account.ledger)
        books.marks = account.marks
        books.reproducible |= account.reproducible  # noise that somebody may know does not become unknown
        return gate

    @property
    def resumes_alike(self) -> bool:
        """Whether a restored gate would draw what this one would: a seeded source, whose place is kept."""
        return not self._source.secure and self._source.state() is not None

    def mark_reproducible(self) -> None:
        """Say in every account from now on that somebody may know the noise."""
        self._books.reproducible = True

    def __reduce__(self) -> NoReturn:
        raise TypeError("a gate is not copied or pickled, or its budget could be spent twice; use state()")

    def __sklearn_clone__(self) -> Gate:
        """Estimators that are cloned go on sharing their gate: that is what one budget is for."""
        return self

    def __repr__(self) -> str:
        return f"Gate({self.budget}, spent epsilon {self.spent.epsilon():.6g})"

    # --- inside ----------------------------------------------------------------------------------

    def check_process(self) -> None:
        """Refuse to go on in a forked child: parent and child would each spend the same budget."""
        self._books.check_process()
