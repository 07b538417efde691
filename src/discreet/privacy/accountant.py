"""The accountant: the one place through which anything that depends on private data is released.

A gate holds a budget, a source of randomness and a ledger. Each release names its mechanism and its
sensitivity; it is entered into the ledger before the noise is drawn, and refused, with nothing changed, if it
does not fit the budget. `Gate.reserve` returns a `Release`, the only object in the library that draws
protective noise, and it draws no more than was charged for. A `Preview` tells beforehand what a release would
cost and whether it fits.
"""

from __future__ import annotations

import contextlib
import copy
import math
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, NoReturn, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core import checks
from ..core.guards import fix, fixed, settle
from ..core.options import SumMethod
from ..core.state import refusing
from ..core.text import at_most, card, line
from . import randomness as sources
from . import samplers
from .account import (
    CONCURRENT,
    NOTHING,
    Account,
    Entry,
    Filter,
    Group,
    Releases,
    Remaining,
    check_group,
    event_loss,
    filter_asked,
    filter_for,
    filter_of,
    smallest_epsilon,
)
from .budget import DEFINITIONS, Budget, Share, fractions
from .conversions import exact, fraction
from .events import (
    Event,
    ExponentialChoice,
    GaussianNoise,
    LaplaceNoise,
    Loss,
    PermuteAndFlip,
    PureRelease,
    ScoreChange,
    SphericalLaplaceNoise,
)
from .ledger import PROCESS, Charge, Ledger, LedgerConflict, MemoryLedger
from .picks import ExactChoices, SampledScores
from .randomness import PublicRandomness, Seed

if TYPE_CHECKING:
    from .ordered import OrderedExperts
    from .prefix_sum import RunningSum
    from .randomness import Randomness

Floats = NDArray[np.float64]
Steps = NDArray[np.int64]
REPRODUCIBLE = "reproducible randomness"  # caveat of gates whose noise somebody may know
SEEDED = (
    "the releases this started from were drawn with a seed and are not private for those people: anyone who"
    " knows the seed can remove the noise"
)
BY_ROUNDS = 1 << 62  # no limit: the learner or sum counts draws itself, and repeats an interrupted one
_NONE = -1  # no version
_LESS = 1.0 - 2.0**-51  # charges read a range as its decimal, and people may move scores by the float
_UNIT = LaplaceNoise(1.0, 1.0)
_FREE = PureRelease(0.0)
_WORDS = {"pure": "pure epsilon", "zcdp": "zCDP", "gdp": "Gaussian DP"}
_WORDS[CONCURRENT] = "pure epsilon + Gaussian DP"


@dataclass(frozen=True)
class Preview:
    """What a release would do, without doing it.

    ``spent`` and ``after`` are epsilons before and after the release, at the budget's delta, in the gate's
    privacy ``definition``; ``largest_count`` is how many such releases would fit, ``largest`` the same kind
    of release at the largest loss that would.
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
    definition: str | None = None

    def __str__(self) -> str:
        at = f" at delta {at_most(self.delta)}" if self.delta else ""
        times = "" if self.count == 1 else f"{self.count:,} x "
        by = f" by {_WORDS[self.definition]}" if self.definition else ""
        text = (
            f"spent epsilon {at_most(self.spent)}, asked {times}{_shown(self.asked)} which makes"
            f" {at_most(self.after)}, limit {at_most(self.limit)}{at}{by}"
        )
        if self.fits:
            return text + "; it fits"
        if self.definition and math.isinf(self.after) and math.isfinite(self.spent):
            others = " or ".join(f"definition={name!r}" for name in DEFINITIONS if name != self.definition)
            return text + (
                f"; this gate keeps to {_WORDS[self.definition]}, in which such a release has no bound: make"
                f" the gate with {others}, before its first release"
            )
        if self.largest is None:
            return text + "; nothing of this kind fits any more"
        also = f", or {self.largest_count:,} of those asked for" if self.largest_count else ""
        largest = _shown(self.largest)
        return text + f"; largest that fits: {times}{largest}{also}"


def _shown(event: Event) -> str:
    record = event.to_json()
    kind = record.pop("kind")
    return f"{kind}({', '.join(f'{name}={float(Fraction(value)):.6g}' for name, value in record.items())})"


class BudgetExceeded(Exception):
    """A release was refused because the budget does not hold it; nothing was released or spent.

    ``spent`` is the epsilon so far, at the budget's delta; ``asked`` the release; ``limit`` the budget's
    epsilon; ``largest`` the same kind of release at the largest loss that fits, or None.
    """

    def __init__(self, preview: Preview) -> None:
        super().__init__(f"budget exceeded: {preview}")
        self.preview, self.spent, self.asked = preview, preview.spent, preview.asked
        self.limit, self.largest = preview.limit, preview.largest

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.preview,)


class Accountant:
    """A budget, the ledger of its releases, and the filter that bounds them (``limit``).

    A gate and its parts share one accountant. Others may write to ``ledger`` as well (``shared``): their
    charges are read before every decision. ``limit`` is None until a privacy definition is fixed.
    ``fraction`` is the part of the budget that may be spent here.
    """

    def __init__(
        self,
        budget: Budget,
        limit: Filter | None,
        ledger: Ledger | None = None,
        *,
        shared: bool = True,
        fraction: Fraction = Fraction(1),
    ) -> None:
        if not 0 < fraction <= 1:
            raise ValueError(f"share={fraction} must be above 0 and at most 1")
        self.budget, self.fraction = budget, fraction
        self.limit = limit.part(fraction) if limit is not None and fraction < 1 else limit
        self.ledger: Ledger = MemoryLedger() if ledger is None else ledger
        self.shared = ledger is not None and shared
        self.releases = Releases()
        self.lock = threading.RLock()
        self._seen = 0  # the version of the ledger that ``releases`` is of; _NONE while a charge is added
        self._behind = self.shared  # whether the ledger may hold charges that ``releases`` lacks
        self._known: frozenset[str] = frozenset()  # caveats that the ledger has
        self._process = os.getpid(), PROCESS[0]
        if ledger is not None:
            self._join(ledger)

    def _join(self, ledger: Ledger) -> None:
        """Read the charges of a given ledger; refuse a ledger of another budget."""
        if not isinstance(ledger, Ledger):
            raise TypeError(f"ledger must be a Ledger such as MemoryLedger(), got {checks.shown(ledger)}")
        if self.shared and self.limit is None and self.budget.private:
            raise ValueError(
                "gates that share a ledger keep to one privacy definition: give definition=, 'zcdp' for one"
            )
        self.refresh()
        if self.limit is not None and not self.limit.allows(self.releases.loss):
            raise ValueError("more was spent than the budget allows; it is of another budget")
        if self.shared:
            ledger.agree(self._terms())

    def _terms(self) -> dict[str, Any]:
        """The settings that all gates of one ledger must share."""
        return asdict(self.budget) | {
            "epsilon": str(self.budget.epsilon),  # infinity is no JSON
            "definition": self.definition,
            "failure": str(self.failure),
        }

    def check_process(self) -> None:
        """Refuse to go on in a forked child: parent and child would each spend the same budget."""
        if (os.getpid(), PROCESS[0]) != self._process:
            raise RuntimeError(
                "this gate was made in another process, which may go on spending the same budget; make a gate"
                " with a share of the budget in each process"
            )
        if self.shared:
            self.ledger.check_open()

    def __reduce__(self) -> NoReturn:
        raise TypeError("an accountant is not copied or pickled, or its budget could be spent twice")

    # --- what is known ---------------------------------------------------------------------------

    @property
    def definition(self) -> str | None:
        """The privacy definition; None as long as none is fixed."""
        return None if self.limit is None else self.limit.definition

    @property
    def failure(self) -> Fraction:
        """The part of delta set aside for releases with a delta of their own."""
        return (
            self.limit.failure if self.limit is not None and self.limit.definition != "pure" else Fraction(0)
        )

    @property
    def side_by_side(self) -> list[str] | None:
        """The two limits of a pure part in parallel with a Gaussian one, as text."""
        limit = self.limit
        return (
            None if limit is None or limit.definition != CONCURRENT else [str(limit.pure), str(limit.limit)]
        )

    def add_caveats(self, *sentences: str) -> None:
        """Add caveats to the accounts of all gates that share the ledger."""
        if not self._known.issuperset(sentences):
            self.ledger.add_caveats(*sentences)
            self._known |= set(sentences)

    def account(self, *, reproducible: bool = False) -> Account:
        """A copy of everything so far."""
        with self.lock:
            if self._behind:
                self.refresh()
            said = self.ledger.caveats
            caveats = tuple([one for one in said if one != REPRODUCIBLE])
            known = reproducible or REPRODUCIBLE in said
            return Account(self.budget, self.releases.copy(), known, caveats, self.definition)

    def refresh(self) -> None:
        """Read the charges that are in the ledger and not yet in ``releases``: all after an interrupt."""
        ledger = self.ledger
        if (version := ledger.version) == self._seen:
            return
        if version < self._seen:
            raise ValueError(
                "the ledger holds fewer releases than were charged to it: an older copy stands in its place"
            )
        known, since = (Releases(), 0) if self._seen == _NONE else (self.releases, self._seen)
        while True:
            fresh = list(ledger.entries(since))
            if (latest := ledger.version) == version:
                break
            version = latest
        for group, entry, _, _ in fresh:
            check_group(entry, group, self.budget)
        self._seen = _NONE
        for group, entry, count, _ in fresh:
            known.of_group(group).add(entry, count)
        self.releases, self._seen, self._behind = known, version, self.shared

    # --- what fits -------------------------------------------------------------------------------

    def fits_in(self, loss: Loss) -> bool:
        """Whether ``loss`` fits the budget in the fixed definition, or in one that may still be fixed."""
        return not self.budget.private or self.limit_for(loss) is not None

    def limit_for(self, loss: Loss) -> Filter | None:
        """The fixed filter, or one that may still be fixed, if it admits ``loss``; else None."""
        if self.limit is None:
            return filter_for(loss, self.budget)
        return self.limit if self.limit.fits(loss) else None

    def expect(self, group: Group, *releases: tuple[Event, int]) -> None:
        """Fix the definition for releases to come, if none is fixed; `BudgetExceeded` if they do not fit."""
        with self.lock:
            if self._behind:
                self.refresh()
            if not self.budget.private:
                return
            place, listed, limit = self.releases.of_group(group), NOTHING, self.limit
            for number, (event, count) in enumerate(releases, 1):
                limit = self.limit_for(place.loss_with(event, count, listed))
                if limit is None:
                    raise BudgetExceeded(self.preview(group, event, count, listed))
                if number < len(releases):
                    listed += event_loss(event) * count
            self.limit = limit

    def preview(self, group: Group, event: Event, count: int, listed: Loss) -> Preview:
        """The cost of ``count`` releases after earlier ones of the same list, whose loss is ``listed``."""
        with self.lock:
            if self._behind:
                self.refresh()
            place, budget = self.releases.of_group(group), self.budget

            def after(event: Event, count: int) -> Loss:
                return place.loss_with(event, count, listed)

            def epsilon(loss: Loss) -> float:
                return smallest_epsilon(loss, budget, budget.delta, self.definition)

            total, largest = after(event, count), event
            fits = self.fits_in(total)
            factor = 1.0 if fits else _largest_factor(lambda c: self.fits_in(after(event.scaled(c), count)))
            if not fits and factor > 0.0:
                largest = event.scaled(factor)
            return Preview(
                asked=event,
                count=count,
                spent=epsilon(place.loss_seen()),
                after=epsilon(total),
                limit=budget.epsilon,
                delta=budget.delta,
                fits=fits,
                largest_count=_largest_count(lambda n: self.fits_in(after(event, n)), count),
                largest=largest if factor > 0.0 else None,
                definition=self.definition,
            )

    # --- charging --------------------------------------------------------------------------------

    def charge(self, charge: Charge, *caveats: str) -> None:
        """Enter releases and their caveats into the ledger, or refuse them with nothing changed."""
        self.check_process()
        group, (label, event, _), count, _ = charge
        if not isinstance(label, str):
            raise TypeError(f"label must be text, got {checks.shown(label)}")
        check_group(charge.entry, group, self.budget)
        with self.lock:
            while True:
                if self._behind:
                    self.refresh()
                seen = self._seen  # checked below; if `expect` reads further, `append` finds a conflict
                if group:
                    self.releases.check_families(group)
                place = self.releases.of_group(group)
                self.expect(group, (event, count))
                if not self._known.issuperset(caveats):
                    self.add_caveats(*caveats)
                self._behind, known, self._seen = True, self._seen, _NONE
                try:
                    self.ledger.append(charge, expected_version=seen)
                except LedgerConflict:  # another writer was first, or an earlier charge was interrupted
                    self._seen = known
                    self.refresh()
                    continue
                place.add(charge.entry, count)
                self._seen, self._behind = seen + 1, self.shared
                return


class Owner:
    """The identity of an object that can be saved and restored; its charges and states carry the id.

    States are numbered, so that the ledger can tell a state from earlier ones.
    """

    def __init__(self, accountant: Accountant, id: str | None = None, number: int = 0) -> None:
        self.id = sources.random_id() if id is None else id
        self._accountant, self._number = accountant, number
        self._finished = False
        self._charged: list[Charge] | None = None  # charges still to be claimed while it is restored
        self._free = False  # nothing was charged to it, so it draws nothing

    def state(self) -> dict[str, Any]:
        """The owner's entry in a new state, with a number above all earlier ones."""
        self._number += 1
        return {"id": self.id, "number": self._number}

    def saved(self) -> None:
        """Record that the latest state was saved: the ledger then refuses to resume earlier ones."""
        self._accountant.ledger.note(self.id, self._number)

    def finish(self) -> None:
        """Record that nothing more will be drawn: the ledger then refuses to resume any earlier state."""
        if not self._finished:
            self._number += 1
            # Until this is written, an earlier state may be resumed unnoticed. Charges are not lost.
            with contextlib.suppress(OSError):
                self._accountant.ledger.note(self.id, self._number, finished=True)
                self._finished = True

    def __reduce__(self) -> NoReturn:
        raise TypeError("an owner of charges is not copied or pickled, or they could be taken up twice")

    # --- while it is being restored ------------------------------------------------------------------

    @property
    def is_being_restored(self) -> bool:
        """Whether its reservations were charged before the restart and must not be charged again."""
        return self._charged is not None

    def begin(self) -> None:
        """Start restoring: reservations must now match its earlier charges, in the same order."""
        self._charged = [one for one in self._accountant.ledger.entries() if one.owner == self.id]
        self._free = not self._charged

    def take(self, charge: Charge) -> None:
        """Claim the next earlier charge, which must equal ``charge``."""
        assert self._charged is not None
        if not self._charged or self._charged[0] != charge:
            raise ValueError(
                f"{charge.entry.label!r} needs {charge.count} releases of {charge.entry.event}: it was not"
                " charged for these"
            )
        del self._charged[0]

    def end(self) -> None:
        """Finish restoring; the ledger admits only one restored copy at a time."""
        if self._charged:
            raise ValueError(f"it was charged for {self._charged[0].entry.label!r} as well")
        if not self._free:
            self._accountant.ledger.take_up(self.id, self._number)
            self._finished = all(one.owner != self.id for one in self._accountant.ledger.unfinished())
        self._charged = None


_CHOICES = (ExponentialChoice, ExactChoices, PermuteAndFlip)
_NOISE = (GaussianNoise, LaplaceNoise, SphericalLaplaceNoise)


class Release:
    """A charge (``event``, ``count``, ``disjoint``), and the only way to make the draws it pays for.

    One person's data enters ``count`` such releases. With ``disjoint=True`` this holds in each of several
    groups of people, and nobody is in two groups. ``most`` is how many draws were paid for; None means no
    limit, for releases about one disjoint group after another.
    """

    def __init__(
        self,
        entry: Entry,
        count: int,
        most: int | None,
        source: Randomness,
        alive: Callable[[], None],
    ) -> None:
        self._entry, self._event = entry, entry.event
        self._count, self._left = count, most
        self._source, self._alive = source, alive
        self._lock = threading.RLock()

    def _draw(self, draws: int = 1) -> None:
        """Count ``draws`` before they are made; refuse them if they were not paid for."""
        self._alive()
        if draws < 0:
            raise ValueError(f"{draws} draws cannot be made")
        if self._left is None:
            return
        with self._lock:
            if draws > self._left or not self._count:
                raise RuntimeError(
                    f"{self._event} was charged for {self._count} releases, and {self._left} draws are left;"
                    " reserve more for more"
                )
            self._left -= draws

    @property
    def event(self) -> Event:
        return self._event

    @property
    def count(self) -> int:
        return self._count

    @property
    def disjoint(self) -> bool:
        return self._entry.disjoint

    @property
    def entry(self) -> Entry:
        """The entry in the account."""
        return self._entry

    # --- noise -----------------------------------------------------------------------------------

    @cached_property
    def law(self) -> str:
        """The distribution of the noise that was paid for: "gaussian", "laplace" or "spherical"."""
        if isinstance(self._event, GaussianNoise):
            return "gaussian"
        if isinstance(self._event, SphericalLaplaceNoise):
            return "spherical"
        if isinstance(self._event, LaplaceNoise):
            return "laplace"
        raise TypeError(f"{self._event} is not a release with noise")

    def steps(self, count: int, law: str | None = None) -> Steps:
        """``count`` noise values in steps of the finest grid; for spherical noise, one vector.

        ``law`` names the noise where the event charged is not a noise mechanism.
        """
        noise = isinstance(self._event, _NOISE)
        if law is not None and (noise or isinstance(self._event, _CHOICES)):
            raise TypeError(f"{self._event} says by itself what it pays for; leave law= out")
        self._draw()
        law = law or self.law
        if law == "spherical":
            return samplers.spherical_steps(self._source, count)
        return samplers.noise_steps(self._source, count, gaussian=law == "gaussian")

    def noise(self, grid: samplers.Grid, count: int) -> Steps:
        """`steps` on ``grid``; for a coarser grid they are rounded, which is post-processing."""
        finer = samplers.STEPS_BITS - grid.bits
        self._check_grid(grid)
        steps = self.steps(count)
        if finer:
            steps = steps + (1 << (finer - 1))
            steps >>= finer  # in place: there may be millions of them
        return steps

    def noise_rows(self, grid: samplers.Grid, rows: int, width: int) -> Steps:
        """``rows`` draws of `noise` of ``width`` numbers, the same as if made in turn."""
        self._check_grid(grid)
        self._draw(rows)
        law, finer = self.law, samplers.STEPS_BITS - grid.bits
        if law == "spherical":
            steps = samplers.spherical_rows(self._source, rows, width)
        else:
            steps = samplers.noise_rows(self._source, rows, width, gaussian=law == "gaussian")
        return (steps + (1 << (finer - 1))) >> finer if finer else steps

    def noisy(self, values: Floats, grid: samplers.Grid | None) -> Floats:
        """``values`` on the grid with noise added; ``grid=None`` adds none, if none was charged for."""
        if grid is None:
            if self._scale:
                raise ValueError(f"{self._event} does not pay for values without noise")
            self._draw()
            return values.copy()
        moves = exact(cast(LaplaceNoise, self._event).sensitivity)
        self._check_grid(grid)
        if moves and (moves + grid.step) * self._scale > moves * grid.step * Fraction(2) ** grid.bits:
            raise ValueError(f"{self._event} does not pay for rounding to steps of {float(grid.step):g}")
        return grid.values(grid.truncate(values) + self.noise(grid, values.size))

    def _check_grid(self, grid: samplers.Grid) -> None:
        """Refuse noise that is narrower than what was charged for."""
        if grid.step * Fraction(2) ** grid.bits < self._scale:
            raise ValueError(f"{self._event} does not pay for noise of scale {grid.noise_scale:g}")

    @cached_property
    def _scale(self) -> Fraction:
        """The scale of the noise that was charged for."""
        event = self._event
        self.law  # noqa: B018  # raises if the event is not noise
        return exact(event.sigma if isinstance(event, GaussianNoise) else getattr(event, "scale", 0))

    # --- choices ---------------------------------------------------------------------------------

    def choice(self, scores: Floats, rate: float | None = None) -> int:
        """An index, drawn with probability proportional to ``exp(rate * score)``, exactly.

        ``rate`` defaults to that of the event; an event without a rate needs it.
        """
        paid = self._rate(rate)
        self._draw()
        return samplers.exponential_choice(self._source, scores, paid)

    def permute_and_flip(self, scores: Floats, rate: float | None = None) -> int:
        """An index, drawn by permute and flip (`samplers.permute_and_flip`), exactly.

        An `ExponentialChoice` does not pay for it: permute and flip lacks the bounded range it is charged by.
        """
        if isinstance(self._event, ExponentialChoice | ExactChoices):
            raise TypeError(f"{self._event} does not pay for permute-and-flip; reserve a PermuteAndFlip")
        paid = self._rate(rate)
        self._draw()
        return samplers.permute_and_flip(self._source, scores, paid)

    def noisy_maximum(self, scores: Steps, step: float, rate: float) -> tuple[int, float]:
        """An index and its score: the largest of ``step * score`` with exponential noise of mean 1 / rate.

        Exact on a grid of which ``step``, a power of 2, is a multiple (`samplers.noisy_maximum`). With n grid
        points to a step, the noise is wider by less than 1/n of its scale. Scores that would not fit into 64
        bits are cut, which can only reduce their sensitivity.
        """
        if not isinstance(self._event, SampledScores):
            raise TypeError(f"{self._event} does not pay for scores of choices; reserve SampledScores")
        finer = math.floor(exact(rate) * Fraction(step) * samplers.HALF_STEPS)
        if not finer > 0:
            raise ValueError(f"rate={rate:g} is too low for scores in steps of {step:g}")
        self._draw()
        lifted = np.minimum(scores, (1 << 61) // finer).astype(np.int64) * finer
        index, noisy = samplers.noisy_maximum(self._source, lifted)
        return index, noisy * (step / finer)

    def sample(self, n_people: int, keep: int) -> NDArray[np.int64]:
        """Indices of a secret sample: each person with probability ``keep`` / 2^64, by one secret word."""
        self._draw(0)
        return np.flatnonzero(self._source.words(n_people) < np.uint64(keep))

    def ordered_set(self, experts: OrderedExperts) -> NDArray[np.int32]:
        """One item per expert in turn, none twice, each an exact exponential choice by its scores."""
        self._draw(experts.scores.shape[1])
        return experts.drawn(self)

    def _index(self, scores: Steps, unit: Fraction, words: Iterator[int]) -> int:
        """An index drawn with probability proportional to ``exp(unit * score)``, exactly, from ``words``.

        For loops that make the draws paid for here and count them by rounds.
        """
        self._alive()
        return samplers.exact_draw(scores, unit, words)

    def words(self, count: int) -> NDArray[np.uint64]:
        """Secret words for a compiled loop that makes the draws paid for here and counts them by rounds."""
        self._draw(0)
        return np.array(self._source.words(count) if count else (), dtype=np.uint64)

    def _rate(self, given: float | None) -> float:
        """The rate to choose at: the given one, if the event pays for it, or the event's own."""
        event = self._event
        if isinstance(event, _NOISE):
            raise TypeError(f"{event} does not pay for choices")
        own = event.rate if isinstance(event, _CHOICES) else None
        if given is None:
            if own is None:
                raise TypeError(f"{event} does not say at which rate to choose; give rate=")
            given = own
        # A negative rate would favour low scores, by any factor.
        if not 0.0 <= given < math.inf or (own is not None and exact(given) > exact(own)):
            raise ValueError(f"{event} does not pay for choices at rate {given:g}")
        return min(given * _LESS, math.nextafter(given, 0.0))  # subnormal products may round back

    def __reduce__(self) -> NoReturn:
        raise TypeError("a release is not copied or pickled, or its draws could be made twice")

    def __repr__(self) -> str:
        return f"Release({self._event}, count={self._count}, disjoint={self.disjoint})"

    def _repr_html_(self) -> str:
        return card("Release", line(repr(self)))


@fixed
class Gate:
    """A budget, and the ledger of the releases charged to it.

    Guarantee: for any sequence of calls, each chosen after seeing the answers to the earlier ones,
    everything that was returned is (epsilon, delta)-DP for one person under the budget's neighbouring
    relation, provided the stated sensitivities are true.

    ``randomness`` is None for the operating system's, a number for a reproducible (not private) run.
    ``definition`` is the privacy definition in which losses are added up: "pure", "zcdp" or "gdp". It is
    fixed before the first answer and kept: an analyst who could pick the cheapest one after seeing answers
    would exceed the budget. Without it, a budget without delta uses pure epsilon; with a delta the first
    release (or the list given to `expect`) decides: zCDP or Gaussian DP, whichever it takes the smaller share
    of, and pure epsilon where it fits neither. ``failure`` is the part of delta set aside for releases with a
    delta of their own; it is for "zcdp" and "gdp" only, as in "pure" all of delta is for such releases.
    ``ledger`` is where charges are kept, in memory by default. Gates that share a ledger, also in several
    processes, spend one budget; they must keep to the same definition, so with a delta it has to be given.

    >>> import discreet as dc
    >>> gate = dc.Gate(dc.Budget(1.0), 0)
    >>> gate.choose([1.0, 5.0, 2.0], rate=0.25, sensitivity=2.0) in (0, 1, 2)
    True
    >>> gate.spent.epsilon(), gate.remaining.epsilon
    (0.5, 0.5)
    """

    _owner: Owner | None  # the owner of charges made here; None if they cannot be resumed
    check_process: Callable[[], None]
    _group: Group
    _source: Randomness

    def __init__(
        self,
        budget: Budget,
        randomness: Seed = None,
        *,
        definition: str | None = None,
        failure: float | Fraction = 0.0,
        ledger: Ledger | None = None,
    ) -> None:
        checks.instance("budget", budget, Budget, "Budget(epsilon=1.0, delta=1e-6)")
        self._accountant = Accountant(budget, filter_asked(budget, definition, failure), ledger)
        self._view((), sources.randomness(randomness), None)

    def _view(self, group: Group, source: Randomness, owner: Owner | None) -> None:
        alive = self._accountant.check_process
        settle(self, _group=group, _source=source, _owner=owner, check_process=alive)

    def _seen_as(
        self, group: Group | None = None, source: Randomness | None = None, owner: Owner | None = None
    ) -> Gate:
        """A gate of the same accountant, for another group, source of randomness or owner."""
        view = object.__new__(Gate)
        view._accountant = self._accountant
        view._view(self._group if group is None else group, source or self._source, owner or self._owner)
        return fix(view)

    @classmethod
    def of_share(cls, share: Share, randomness: Seed = None) -> Gate:
        """A gate that holds no more than a share of a budget, in one privacy definition.

        Releases through the gates of several shares together keep a person within the budget as long as the
        fractions sum to at most 1 and all shares name the same definition.
        """
        checks.instance("share", share, Share, "Budget(1.0).split(2)[0]")
        if share.gate is not None:
            raise ValueError("the share is of a gate, which has to be charged for it; give it to spend_from")
        budget = share.budget
        if share.whole:
            return cls(budget, randomness)
        limit = filter_asked(budget, share.definition or ("zcdp" if budget.delta else "pure"), 0)
        gate = object.__new__(cls)
        gate._accountant = Accountant(budget, limit, fraction=share.fraction)
        gate._view((), sources.randomness(randomness), None)
        return fix(gate)

    # --- what is known ---------------------------------------------------------------------------

    @property
    def budget(self) -> Budget:
        return self._accountant.budget

    @property
    def reproducible(self) -> bool:
        """Whether somebody may know this gate's noise, drawn now or before it was restored."""
        return not self._source.secure or REPRODUCIBLE in self._accountant.ledger.caveats

    @property
    def spent(self) -> Account:
        """The account so far, over this gate and all its parts."""
        return self._accountant.account(reproducible=not self._source.secure)

    @property
    def definition(self) -> str | None:
        """The privacy definition that this gate keeps to; None as long as none is fixed."""
        return self._accountant.definition

    @property
    def remaining(self) -> Remaining:
        """What one round of the people of this gate's group may still spend."""
        accountant = self._accountant
        with accountant.lock:
            if accountant._behind:
                accountant.refresh()
            lost = accountant.releases.of_group(self._group).loss_seen()
            return Remaining.of(accountant.budget, lost, accountant.limit)

    @property
    def left(self) -> Share:
        """What is left of the budget here, as a share to spend at this gate in its privacy definition."""
        budget, definition = self.budget, self.definition
        if not budget.private or definition is None:  # nothing has been released, and nothing is decided
            return Share(budget, Fraction(1), None, self)
        if definition == CONCURRENT:  # the limits are what was declared, and all of it is spent
            raise BudgetExceeded(self.preview(_UNIT))
        remaining, limit = self.remaining, filter_of(budget, definition).limit
        amounts = {"pure": remaining.epsilon, "zcdp": remaining.rho}
        spare = exact(amounts[definition]) if definition in amounts else exact(remaining.mu) ** 2
        part = min(spare / limit, Fraction(1)) if limit else Fraction(0)
        if part < Fraction(1, 10**6):  # what is left is rounding
            raise BudgetExceeded(self.preview(GaussianNoise(1.0, 1.0) if definition == "gdp" else _UNIT))
        if part == 1 and definition == "pure" and not budget.delta:
            return Share(budget, part, None, self)
        return Share(budget, part, definition, self)

    def share(self, fraction: Fraction | int | float) -> Share:
        """A fraction of the full budget, to spend here; the same in every process that shares a ledger."""
        return replace(self.budget.share(fraction), definition=self.definition, gate=self)

    def split(self, parts: int | Sequence[float | Fraction], *, definition: str | None = None) -> list[Share]:
        """What is left at this gate as shares: equal ones, or in proportion to the given weights.

        A learner, selector or sum that is given a share spends it at this gate, in one common account. The
        gate keeps to its privacy definition; if none is fixed, this fixes ``definition``, or "zcdp" by
        default.
        """
        shares = fractions(parts)
        with self._accountant.lock:
            if self._accountant.limit is None and self.budget.private:
                self._accountant.limit = filter_asked(self.budget, definition or "zcdp", 0)
            elif definition not in (None, self.definition):
                raise ValueError(f"definition={definition!r}, but this gate keeps to {self.definition!r}")
            left = self.left
            return [replace(left, fraction=left.fraction * part) for part in shares]

    @property
    def caveats(self) -> tuple[str, ...]:
        """Assumptions that the accounts of this gate state; see `add_caveats`."""
        return tuple(one for one in self._accountant.ledger.caveats if one != REPRODUCIBLE)

    @property
    def passed_on(self) -> tuple[str, ...]:
        """Caveats for accounts of anything that starts from this gate's releases, its seed among them."""
        said = dict.fromkeys(self._accountant.ledger.caveats)
        if not self._source.secure or REPRODUCIBLE in said:
            said[SEEDED] = said.pop(REPRODUCIBLE, None)
        return tuple(said)

    def add_caveats(self, *sentences: str) -> None:
        """Add assumptions of the guarantee to every account of this gate; they cannot be removed."""
        if sentences:
            self._accountant.add_caveats(*sentences)

    def expect(self, *releases: tuple[Event, int]) -> None:
        """Fix the privacy definition for (event, count) releases to come; nothing is charged or released.

        A gate whose definition is fixed keeps it. Either way, `BudgetExceeded` is raised if they do not fit.
        """
        for _, count in releases:
            checks.whole("count", count, at_least=1, at_most=checks.ANY)
        if not self._is_being_restored:
            self._accountant.expect(self._group, *releases)

    def preview(self, event: Event, count: int = 1) -> Preview:
        """The cost of ``count`` such releases and whether they fit; nothing is released."""
        checks.whole("count", count, at_least=1, at_most=checks.ANY)
        return self._accountant.preview(self._group, event, count, NOTHING)

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

        ``sensitivity`` is the most by which one person can change the difference of two scores (a number), or
        a `ScoreChange`. The scores are taken as the exact reals that their floats represent: keep sums over
        people in integers or fixed point, where one person's influence is exact.

        Formal guarantee: privacy loss in an interval of length ``rate * range``; the draw itself is
        exact (see `samplers.exponential_choice`).
        """
        candidates = _exact_floats("scores", scores)
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
        event = _exponential_choice(
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

        ``changed`` is how many coordinates one person can change at most (default: all). It only affects how
        much wider the noise is drawn to cover rounding to the grid.

        Formal guarantee: (sensitivity/scale)-DP, exact on the grid.
        """
        return self._noisy(values, LaplaceNoise(sensitivity, scale), changed, label)

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
        if self.budget.private and not self.budget.delta:
            raise ValueError("Gaussian noise needs delta > 0; give the budget a delta or use laplace()")
        return self._noisy(values, GaussianNoise(sensitivity, sigma), changed, label)

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
        return self._noisy(values, SphericalLaplaceNoise(sensitivity, scale), changed, label)

    def _noisy(
        self, values: ArrayLike, event: GaussianNoise | LaplaceNoise, changed: int | None, label: str
    ) -> Any:
        """Charge ``event`` and return the values with its noise; a number for a number."""
        scalar = np.ndim(values) == 0
        array = _exact_floats("values", cast(ArrayLike, [values]) if scalar else values)
        if array.size == 0:
            raise ValueError("values is empty; there is nothing to release")
        moved = checks.whole(
            "changed", array.size if changed is None else changed, at_least=1, at_most=array.size
        )
        scale = event.sigma if isinstance(event, GaussianNoise) else event.scale
        grid = None
        if scale:
            # Truncation can move each changed coordinate by a step; this bounds it in the norm of the noise.
            truncation = moved if type(event) is LaplaceNoise else math.isqrt(moved - 1) + 1
            grid = samplers.Grid.for_noise(scale, event.sensitivity, truncation)
        noisy = self.reserve(event, label=label).noisy(array, grid)
        return float(noisy[0]) if scalar else noisy

    def running_sum(
        self, dimension: int, rounds: int, *, method: SumMethod = "sqrt", **options: Any
    ) -> RunningSum:
        """A private running sum of vectors, by ``method``: see `prefix_sum.METHODS`.

        ``method`` is ``"sqrt"`` (least noise), ``"blt"`` (nearly the same, fewer buffers) or ``"tree"`` (the
        papers' binary tree; the only one with Laplace noise). All rounds are charged at once; see the classes
        for the options.
        """
        from .prefix_sum import METHODS

        kind = METHODS[checks.one_of("method", method, METHODS)]
        return kind(dimension, rounds, self, method=method, **options)

    def reserve(
        self,
        event: Event,
        count: int = 1,
        *,
        disjoint: bool = False,
        draws: int | None = None,
        label: str = "reserved",
    ) -> Release:
        """Charge for releases of one mechanism and return the `Release` that draws them.

        ``count`` is how many of them one person's data enters. ``disjoint=True``: they are made about one
        group of people after another, nobody is in two groups, and ``count`` is for one group. Which group a
        person is in must not depend on private data: windows and blocks of round numbers are such groups.

        Where groups are not disjoint, at most ``draws`` draws can be made, by default ``count``. A larger
        number is for a mechanism that ensures that one person's data enters only ``count`` of its draws, as a
        tree of sums does, or that counts them by rounds. With ``count=0`` nothing is charged, and nothing can
        be drawn.
        """
        checks.instance("event", event, Event, "LaplaceNoise(1.0, 2.0)")
        number = checks.whole("count", count, at_least=0, at_most=checks.ANY)
        entry, most = Entry(label, event, bool(disjoint)), draws
        if draws is not None and not draws >= 0:
            raise ValueError(f"draws={draws} must be a number of draws")
        if draws is None:
            most = number * (event.number if isinstance(event, ExactChoices) else 1)
        if number:
            owner = self._owner
            charge = Charge(self._group, entry, number, None if owner is None else owner.id)
            if owner is not None and owner.is_being_restored:
                self.check_process()
                owner.take(charge)
            else:
                self._accountant.charge(charge, *(() if self._source.secure else (REPRODUCIBLE,)))
        return Release(entry, number, None if number and disjoint else most, self._source, self.check_process)

    def post_processing(self) -> Release:
        """Draws that depend only on earlier releases: free, and unlimited in number."""
        return Release(Entry("post-processing", _FREE), 0, None, self._source, self.check_process)

    def public_randomness(self, words: int = 4) -> PublicRandomness:
        """Public randomness: independent of the data, hence not charged; it follows the gate's seed."""
        if self._is_being_restored:
            return PublicRandomness([0] * words)
        return PublicRandomness.drawn(self._source, words)

    def key(self, words: int = 4) -> bytes:
        """A secret key, for hashes of identities; it is independent of the data."""
        number = checks.whole("words", words, at_least=1, at_most=1 << 10)
        return bytes(8 * number) if self._is_being_restored else self._source.words(number).tobytes()

    def with_budget(self, budget: Budget) -> Gate:
        """A gate with another budget and the same randomness, for settings that need more than they claim.

        Refused for a gate of one group of people, of a share of a budget, or over a given ledger, as others
        depend on its budget; and once something was released.
        """
        accountant = self._accountant
        ledger = accountant.ledger
        causes = {
            "is for one group of people": self._group,
            "has a share of a budget": accountant.fraction < 1,
            "was given a ledger": accountant.shared or type(ledger) is not MemoryLedger,
        }
        if found := next((cause for cause, holds in causes.items() if holds), None):
            raise ValueError(
                f"settings that need more than they claim need a budget of their own, and this gate {found};"
                " give a Budget instead"
            )
        if not accountant.releases.empty:
            raise ValueError("something was released here already; its account stays with its budget")
        gate = Gate(budget, self._source)
        gate._accountant.add_caveats(*ledger.caveats)
        return gate

    def part(self, name: str, randomness: Seed | Mapping[str, Any] = None) -> Gate:
        """A gate for releases about one group of people, when groups are disjoint.

        The account then takes the worst part instead of the sum. Which group a person is in must not depend
        on their private data (divide by round number, or by something public): under ``"replace"`` a person
        who could move between groups would be in both. ``randomness`` is a seed or a source for the part
        alone, or the `source_state` of a saved part (this gate's state does not hold it); without it the part
        draws from the source of this gate.
        """
        if not isinstance(name, str | int):
            raise TypeError(f"name must be text, got {checks.shown(name)}")
        source = None
        if isinstance(randomness, Mapping):
            source = sources.restored(dict(randomness))
        elif randomness is not None:
            source = sources.randomness(randomness)
        return self._seen_as((*self._group, str(name)), source)

    # --- saving ----------------------------------------------------------------------------------

    def owned(self) -> Gate:
        """A view of this gate for an object that can be saved: charges made through it belong to that object.

        A gate that already has an owner is returned as it is: the object is part of another one and is saved
        with it.
        """
        return self if self._owner is not None else self._seen_as(owner=Owner(self._accountant))

    @contextmanager
    def _restoring(self, saved: Mapping[str, Any]) -> Iterator[Gate]:
        """This gate while an object is restored from a state whose owner (`Owner.state`) is ``saved``.

        Reservations made within must have been charged for that owner, and are not charged again. Public
        randomness and keys are blank: those drawn before are in the state that is being read. At the end the
        ledger marks the owner as in use; it refuses if the owner already is, or has a later state.
        """
        name, number = str(saved["id"]), checks.whole("number", saved["number"], at_least=1, at_most=1 << 62)
        if self._owner is not None:  # part of a larger object that is being restored
            if self._owner.id != name:
                raise ValueError("these charges belong to another object")
            if not self._owner.is_being_restored:
                raise ValueError("its charges are already in use in this process")
            yield self
            return
        view = self._seen_as(owner=Owner(self._accountant, name, number))
        assert view._owner is not None
        view._owner.begin()
        yield view
        view._owner.end()

    @property
    def _is_being_restored(self) -> bool:
        return self._owner is not None and self._owner.is_being_restored

    def state(self) -> dict[str, Any]:
        """The ledger (and a seeded source's position) as plain values, for `Gate.from_state`.

        A snapshot: later releases do not change it. Of a given ledger it holds only id and version.
        """
        accountant = self._accountant
        with accountant.lock:
            ledger = accountant.ledger
            if isinstance(ledger, MemoryLedger) and not accountant.shared:
                kept = ledger.to_json()
            else:
                kept = {"id": ledger.id, "version": ledger.version}
            return {
                "budget": asdict(accountant.budget),
                "definition": accountant.definition,
                "failure": str(accountant.failure),
                "share": str(accountant.fraction),
                "reproducible": self.reproducible,
                "shared": accountant.shared,
                "ledger": kept,
                "randomness": self.source_state(),
            } | ({} if (limits := accountant.side_by_side) is None else {"concurrent": limits})

    def source_state(self) -> Any:
        """The position of the source of randomness, if it is a seeded one: for `part`."""
        return copy.deepcopy(self._source.state())

    @classmethod
    def from_state(cls, state: dict[str, Any], ledger: Ledger | None = None) -> Gate:
        """A gate that has spent what the saved one had; secure randomness starts afresh.

        ``ledger`` is the one that the saved gate was made with: it holds what others have spent since. If
        there was none, two gates made from the same state spend two budgets, and nothing can detect this.
        """
        with refusing("the gate"):
            source, failure = sources.restored(state["randomness"]), fraction(state["failure"])
            budget, kept = Budget(**checks.record("budget", state["budget"])), state["ledger"]
            if state["shared"] is not (ledger is not None):
                raise ValueError("ledger= must be the one that the saved gate was made with, if any")
            if ledger is not None:
                if kept["id"] != ledger.id:
                    raise ValueError("ledger= is another one than the saved gate was made with")
                if ledger.version < checks.whole("version", kept["version"], at_least=0):
                    raise ValueError("the ledger holds fewer releases than were charged to it")
            store = MemoryLedger.from_json(kept) if ledger is None else ledger
            if state["definition"] == CONCURRENT:
                limit = Filter.concurrent(budget, *map(fraction, state["concurrent"]))
            else:
                limit = filter_asked(budget, state["definition"], failure)
            if limit is None and budget.private and store.version:
                raise ValueError("there are releases and no privacy definition; it was not written by a gate")
            gate = object.__new__(cls)
            part = fraction(state["share"])
            gate._accountant = Accountant(budget, limit, store, shared=ledger is not None, fraction=part)
            gate._view((), source, None)
            if state["reproducible"] is not False:  # noise that somebody may know stays so
                gate._accountant.add_caveats(REPRODUCIBLE)
        return fix(gate)

    @property
    def resumes_alike(self) -> bool:
        """Whether a restored gate draws what this one would: its source is seeded and the position saved."""
        return not self._source.secure and self._source.state() is not None

    def __reduce__(self) -> NoReturn:
        raise TypeError("a gate is not copied or pickled, or its budget could be spent twice; use state()")

    def __sklearn_clone__(self) -> Gate:
        """Cloned estimators share their gate, and so one budget."""
        return self

    def __repr__(self) -> str:
        return f"Gate({self.budget}, spent epsilon {at_most(self.spent.epsilon())})"

    def _repr_html_(self) -> str:
        return card("Gate", self.budget._repr_html_(), self.spent._repr_html_())


# The same events recur, and each caches its own derived values.
_exponential_choice = lru_cache(maxsize=1024)(ExponentialChoice)


def _exact_floats(name: str, values: ArrayLike) -> Floats:
    """The numbers as floats, refused unless exact: rounding could exceed the declared sensitivity."""
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


Spending = Budget | Share | Gate


def spend_from(budget: Spending, seed: Seed = None) -> Share:
    """The share to spend, with the gate to spend it at: ``share.gate`` is never None.

    A `Budget` gets a gate of its own and is spent entirely. A `Share` is spent at its gate, or at a new one
    limited to it, which later users of the same share also spend from. Of a `Gate` all that is left is spent,
    in its privacy definition.
    """
    if isinstance(budget, Gate | Share) and (isinstance(budget, Gate) or budget.gate is not None):
        if seed is not None:
            raise ValueError("seed= is for a budget; a gate has its own randomness")
        return budget.left if isinstance(budget, Gate) else budget
    if isinstance(budget, Share):
        gate = budget.once(Gate, lambda: Gate.of_share(budget, seed))
        definition = budget.definition if budget.whole else gate.definition
        return replace(budget, definition=definition, gate=gate, own_gate=gate._accountant.releases.empty)
    return Share(budget, Fraction(1), None, Gate(budget, seed), own_gate=True)


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


def _largest_factor(fit: Callable[[float], bool]) -> float:
    """Largest factor in (0, 1) for which a scaled release fits; 0 if none does."""
    low, high = 0.0, 1.0
    for _ in range(64):
        middle = (low + high) / 2.0
        if not low < middle < high:
            break
        low, high = (middle, high) if fit(middle) else (low, middle)
    return low if low > 1e-4 else 0.0  # below that it is left-over rounding, not a release
