"""Phased selection: learn from one window of people, serve the next, for streams that do not drift."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ...core.settings import Setting
from ...core.state import Saved
from ...objectives import Population, answers
from ...objectives.each import value_to_rows
from ...objectives.rows.functions import function_rows
from ...objectives.rows.table import Rows
from ...privacy import Account, Seed, spend_from
from ...privacy.spending import Spending
from ..catalogue import Catalogue
from ..partial import KeptPart, Partial
from ..parts import Part
from ..pending import Ticket
from ..people import given_person, row_person
from ..protocol import Guarantee, Stream
from ..released import Released
from ..serving import ServingLearner
from .functions import FunctionRounds
from .phased_settings import PhasedSettings
from .selector import OnlineSelector
from .window import Phases, Window

_LABEL = "picks of a window"


@dataclass(frozen=True)
class PhasedGuarantee(Guarantee):
    """A `Guarantee` that says what does and what does not hold for every stream."""

    def _lines(self) -> Iterator[str]:
        yield from super()._lines()
        yield "privacy holds for any stream; the regret guarantee only for exchangeable ones"


class PhasedSelector(OnlineSelector):
    """Private greedy on disjoint windows of the stream; each set is served during the next window.

    The people of a window are kept until it closes; then k items are picked one after the other, each by the
    sum of its gains on top of those already picked. No horizon has to be declared. Before the first window
    closes a uniformly random set is served.

    ``method`` says how the picks are paid for (`privacy.picks`):

    - ``"subsampled"``: a secret coin decides, when somebody comes, whether the window keeps them at all;
      picks are by permute-and-flip. Pure epsilon, whatever k is, and the others are not even stored.
    - ``"composed"``: picks of the exponential mechanism on everybody, composed: better for very few of them.
    - ``"exact"``: the same, declared together and charged by their exact composition (`ExactChoices`), at a
      rate some 10 % higher; needs a whole budget with a delta, and one round of each person.
    - ``"auto"``: of the first two, whichever lets people's gains enter with the larger rate on average.

    ``window`` is the number of rounds of every window, or ``"doubling"``: each is twice as long as the one
    before, starting with ``first_window`` (`PhasedSettings.tight` says how long, if it is not given).
    ``restart_on_drift`` starts the doubling again when a set that had settled changes: a newly picked set has
    fewer than half of its items in common with the served one, although that one had not differed so much
    from the set before it. This looks only at what is served anyway, so it costs nothing.

    Formal guarantee: privacy for any stream, also one that reacts to what is served. A window is a range of
    round numbers, so nobody's round is in two of them and the budget is paid once. Composed: k exponential
    choices, whose scores one person moves apart by 2 ``bound`` (replace-one) or ``bound`` (add or remove,
    where a removed person's round passes without being learned from). Subsampled: one release with pure
    epsilon, for people whose gains add up, over the picks, to at most ``bound``; whatever a function answers,
    it is held to that. Gains are rounded down to a public step before they are added up, so all this is
    exact, and choices are drawn exactly.

    Regret: only for exchangeable streams (independent people, or people in random order), see
    `certified_regret_after`. On a stream that drifts a set can be out of date for a whole window.

    ``epsilon=inf`` is plain greedy on each window. Asi, Feldman, Koren and Talwar (2023) use such windows for
    independent losses; the picks are those of Gupta et al. (2010) and Mitrovic et al. (2017).

    >>> import discreet as dc
    >>> people = dc.objectives.Coverage([[1, 0, 0, 0], [1, 0, 1, 0]] * 500)
    >>> learner = PhasedSelector(4, k=1, budget=dc.Budget(1.0), seed=0)
    >>> trace = learner.run(people)
    >>> learner.choose().items, trace.average > 0.9
    ((0,), True)
    """

    settings: PhasedSettings
    _settings_type: ClassVar[type[PhasedSettings]] = PhasedSettings
    _guarantee_type: ClassVar[type[Guarantee]] = PhasedGuarantee

    window = Setting('The number of rounds of every window, or "doubling".')
    first_window = Setting("The number of rounds of the first window.")
    restart_on_drift = Setting("Whether a set that changes after it had settled starts the doubling again.")
    method = Setting('How the picks of a window are paid for: "subsampled", "composed" or "exact".')
    rate = Setting("A pick prefers an item by exp(rate x sum of gains); infinite without privacy.")
    chance = Setting("How likely somebody is learned from.")

    def __init__(
        self,
        n_items: int,
        k: int,
        budget: Spending,
        *,
        rounds: int | None = None,
        window: int | str = "doubling",
        first_window: int | None = None,
        restart_on_drift: bool = False,
        method: str = "auto",
        bound: float = 1.0,
        labels: Sequence[Any] | None = None,
        start: Released | ServingLearner | None = None,
        seed: Seed = None,
    ) -> None:
        share = spend_from(budget, seed)
        settings = PhasedSettings.tight(
            n_items,
            k,
            share,
            rounds=rounds,
            window=window,
            first_window=first_window,
            restart_on_drift=restart_on_drift,
            method=method,
            bound=bound,
            labels=labels,
        )
        super().__init__(settings, share, start)

    # --- for users -------------------------------------------------------------------------------

    @property
    def certified_regret(self) -> float:
        """Bound on the expected (1 - 1/e)-regret over the declared rounds of an exchangeable stream.

        Infinite where none are declared, as regret grows with their number: see `certified_regret_after`.
        """
        return self._certified(self.settings.certified_regret)

    def certified_regret_after(self, rounds: int) -> float:
        """Bound on the expected (1 - 1/e)-regret over the first ``rounds`` rounds of an exchangeable stream.

        `bounds.phased`; with ``restart_on_drift`` only the trivial bound is known.
        """
        return self._certified(self.settings.certified_regret_after(rounds))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to a file, completely or not at all; `discreet.load` goes on from it.

        The file holds the people of the open window themselves, row by row and in the clear (only its owner
        may read it). People who are Python functions cannot be written: save when a window has just closed.
        """
        super().save(path)

    # --- the protocol ----------------------------------------------------------------------------

    def _begin(self) -> None:
        settings = self.settings
        self._coins = self._gate.coins()
        settings.check(self.budget.neighbours)
        self._release = self._gate.reserve(settings.event, settings.releases, disjoint=True, label=_LABEL)
        self._phases = Phases(settings)

    def _due(self) -> bool:
        return self._rounds.number >= self._phases.closes

    def _draw(self) -> NDArray[np.int32]:
        """The set that the closed window teaches; a random one at first. A new window opens."""
        settings, closed = self.settings, self._phases.close()
        if closed is None:
            among = settings.n_items if self._catalogue.active is None else np.flatnonzero(self._active())
            drawn = self._coins.generator.choice(among, size=settings.k, replace=False)
            chosen = drawn.astype(np.int32)
            self._phases.open_first(self._rounds.number)
        else:
            chosen = self._learned(closed)
            self._phases.open_next(self._rounds.number, chosen, self._shown)
        return chosen

    def _learned(self, window: Window) -> NDArray[np.int32]:
        gains = window.start()
        left = self._active()
        for _ in range(self.settings.k):
            candidates = np.flatnonzero(left)
            scores = gains.scores()[candidates]
            if candidates.size == 1:
                place = 0
            elif math.isinf(self.settings.rate):
                place = int(np.argmax(scores))
            elif self.settings.keep is None:
                place = self._release.choice(scores)
            else:
                place = self._release.flipped_choice(scores, self.settings.rate)
            item = int(candidates[place])
            gains.add(item)
            left[item] = False
        return np.array(gains.items, dtype=np.int32)

    def _grown(self, n_items: int, labels: tuple[Any, ...] | None) -> PhasedSettings:
        settings = replace(self.settings, n_items=n_items, labels=labels)
        if settings.releases > self.settings.releases:
            raise ValueError(
                f"{self.settings.releases} picks of a window were paid for, and {n_items} items need more:"
                " make a new learner, with start= this one"
            )
        return settings

    def _open_items(self, items: NDArray[np.int64], among: NDArray[np.int64], settings: Any) -> None:  # noqa: ARG002
        if settings is not None:
            self._phases.grow(settings)

    def _prepared(self, person: Any) -> Population:
        ready: Population = super()._prepared(person)
        if ready.as_rows() is None:
            # Functions are asked again only when the window closes: what fails now must fail here.
            answers.number("value", ready.value(self._shown.tolist()), 0.0, self.bound)
            answers.vector("gains", ready.gains([]), self.n_items, 0.0, self.bound)
        return ready

    def _take_late(self, ticket: Ticket, ready: Any, within_limit: bool) -> None:  # noqa: ARG002
        if not within_limit:
            self._absorb(None)
        elif self._has_room(ready):
            self._absorb(ready)

    def _has_room(self, ready: Any) -> bool:
        """A window sums as many people as it has rounds at most, exactly; who comes when it is full waits."""
        return self._waiting.admits(ready)

    def _take(self, ready: Any, within_limit: bool) -> None:
        self._rounds.close(then=lambda: self._absorb(ready if within_limit else None))

    def _absorb(self, person: Population | None) -> None:
        """Keep one person, if they are in the sample; None for one who came too often, who has a coin too."""
        keep, window = self.settings.keep, self._phases.window
        kept = keep is None or self._release.sample(1, keep).size
        if person is None:
            return
        rows, functions = person.as_rows(), function_rows(person)
        if functions is not None:
            window.keep_functions(functions, bool(kept))
        elif rows is None:
            window.keep(person if kept else None)
        elif kept:
            window.keep_rows(rows)

    def _keep_rows(self, rows: Rows, within_limit: NDArray[np.bool_]) -> None:
        kept = self._sampled(rows.n_rows) & within_limit
        self._phases.window.keep_rows(rows if kept.all() else rows.take(np.flatnonzero(kept)))

    def _sampled(self, count: int) -> NDArray[np.bool_]:
        """Who of the next people is in the secret sample: a coin for every round, tossed when it closes."""
        kept = np.full(count, self.settings.keep is None)
        if self.settings.keep is not None:
            kept[self._release.sample(count, self.settings.keep)] = True
        return kept

    def _run_rows(self, stream: Stream, rows: Rows) -> None:
        start, count = 0, int(stream.rewards.size)
        rows = Rows(rows.kind, rows.sparse, rows.share, rows.cap)  # windows keep sparse rows
        while start < count:
            shown = self._next().items
            stop = min(count, start + self._phases.closes - self._rounds.number)
            part = rows.stretch(start, stop)
            stream.selections[start:stop] = shown
            stream.rewards[start:stop] = value_to_rows(part, shown)
            within_limit = stream.within_limit[start:stop]
            self._rounds.close(stop - start, then=partial(self._keep_rows, part, within_limit))
            start = stop

    def _function_rounds(self, rows: Rows) -> FunctionRounds:
        return FunctionRounds(rows, self.settings.k, self.settings.bound)

    def _take_functions(self, people: FunctionRounds, here: slice, within_limit: NDArray[np.bool_]) -> None:
        kept = self._sampled(within_limit.size) & within_limit
        self._phases.window.keep_functions(people.rows.stretch(here.start, here.stop), kept)

    # A part keeps its people; their coins are tossed when it is absorbed, one after the other.

    def _check_divisible(self) -> None:
        """Windows of people can be divided; see `_part`."""

    def _batch(self) -> int:
        return self._phases.opens

    def _room(self) -> int:
        return self._phases.closes - self._rounds.number

    def _part(self, about: tuple[str, int, int | None, str]) -> Partial:
        size, bound = self.settings.n_items, self.settings.bound
        given = partial(given_person, Catalogue(size, self.settings.labels), size)
        return KeptPart(*about, given, partial(row_person, size, bound))

    def _check_part(self, part: Partial) -> None:
        held = 0 if not isinstance(part, KeptPart) else len(part.people) + sum(map(len, part.stores))
        if not isinstance(part, KeptPart) or part.count != held:
            raise ValueError("the part holds other people than it counts; it was not made here")
        for person in (*part.people, *part.stores):
            row_person(self.settings.n_items, self.settings.bound, person)

    def _take_part(self, part: Any) -> None:
        for person in part.people:
            self._absorb(person)
        keep = self.settings.keep
        for people in part.stores:  # coins by person: one who is counted again, elsewhere, has the same
            some = people if keep is None else people.sampled(self._release, keep)
            self._phases.window.keep_stored(some.row_source())

    def _spent(self) -> Account:
        return self._account((_LABEL, self._release, self.settings.releases if self._phases.served else 0))

    # --- saving ----------------------------------------------------------------------------------

    def _parts(self) -> Mapping[str, Part]:
        return {"coins": self._coins, "phases": self._phases}

    def _restore(self, saved: Saved) -> None:
        self._coins.resume(saved.part("coins"))
        self._phases.resume(saved.part("phases"), self._rounds)
