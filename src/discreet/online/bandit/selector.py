"""Choose sets when only what the shown set was worth, or which item was taken, comes back."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ... import bounds
from ...core import checks
from ...core.progress import track
from ...core.state import Saved
from ...objectives.rows.table import Rows
from ...privacy import Account, Budget, Seed
from ...privacy.published import true_budget
from ...results import Selection
from ..protocol import Stream
from ..select.selector import OnlineSelector
from . import settings as settings
from .settings import EXPLORATIONS, Exploring
from .slots import SlotFeedback
from .values import ValueFeedback

FEEDBACK = ("set", "slots")
_MOST_ROUNDS = 1 << 30


class BanditSelector(OnlineSelector):
    """k ordered experts that learn from the value of the shown set alone.

    Paper 000, Algorithm 3 and Appendix B, after Streeter and Golovin 2009. Expert i learns what to add to the
    items of experts 1..i-1. In a round that explores, one of them tries an item a drawn at random: the set
    shown is S + a, S being the items of the experts before it (so it may have fewer than k items; a trace
    holds -1 in their place), and f(S + a) is what that expert learns of a. All other rounds show the set as
    it stands. The empty places are the price of the certificate, which compares f(S + a) with f(S + b): a set
    that is filled with R at random tells f(S + a + R), by which items that R can stand in for look worse than
    they are.

    ``exploration`` says when to explore and what protects people:

    - ``"blocks"`` (default): in every block of rounds each expert tries one item, ``repeats`` times at random
      places, and the sum of these values leaves with Laplace noise. Drawing sets is then free. Pure
      epsilon-DP whatever the number of rounds and items, as nobody's round is in two sums.
    - ``"presampled"``: the same without noise; the draws of new sets protect people, once per block. The
      published form (Appendix B.2) picks rounds by a coin and draws after each.
    - ``"online"``: a coin in every round, and new sets by a timetable, so that no delta is lost. The
      published form (Algorithm 3) draws a new set right after exploring.
    - ``"every_round"``: a coin in every round, and a new set in every round (Appendix B.1).

    ``feedback="slots"`` is for pages that tell which shown item was taken: see `SlotFeedback`. Privacy as for
    blocks, far more learned per round; no regret bound better than the trivial one is certified for it.

    ``calibration="tight"`` takes the numbers with the smallest certified regret that the budget allows; any
    of ``rate``, ``exploration_rate``, ``block`` and ``repeats`` can be given. For blocks the rate falls as
    more is known, which serves better than it certifies; ``rate="certified"`` is the fixed rate that
    certifies most. Where the horizon is too short for every expert to try every item four times, blocks
    explore in one round of 32 only: they then serve about what sets at random do, which is more than
    exploring would, and `certified_regret` is the trivial one. Slots need far shorter horizons.
    ``"published"`` takes the paper's constants; `privacy` then tells the true account, and a warning says
    where every round explores.

    Late rewards. ``choose(wait=False)`` moves on without the last reward; ``learn(value, round=r)`` brings it
    later. Each round is counted once. With ``feedback="set"`` a lesson of several rounds waits for the last
    of its rewards and is then learned once, however late; with ``"slots"`` a reward enters the block that is
    open when it comes. Either way nobody is in two releases. That rewards come late, or never, is taken to be
    public; for one that will never come, 0 (or None for slots) lets the others of its lesson be learned.

    Guarantee. (epsilon, delta)-DP for a person replaced, or (``neighbours="add_remove"``) for a person whose
    round passes with nothing learned; also if later people depend on what was shown. Sums are in whole units,
    noise is drawn on a grid, draws are exact. Which rounds explore, and what, are public coins.

    >>> import discreet as dc
    >>> people = dc.objectives.Coverage([[1, 0, 0], [1, 1, 0]] * 500)
    >>> learner = BanditSelector(3, 1, 1000, dc.Budget(1.0), seed=0)
    >>> shown = learner.choose()
    >>> learner.learn(1.0)  # what the set was worth to the person who saw it
    >>> len(learner.run(people[1:])), learner.privacy.epsilon()
    (999, 1.0)
    """

    def __init__(
        self,
        n_items: int,
        k: int,
        rounds: int,
        budget: Budget,
        *,
        exploration: str = "blocks",
        feedback: str = "set",
        calibration: str = "tight",
        rate: float | str | None = None,
        exploration_rate: float | None = None,
        block: int | None = None,
        repeats: int | None = None,
        bound: float = 1.0,
        labels: Sequence[Any] | None = None,
        seed: Seed = None,
    ) -> None:
        horizon = checks.whole("rounds", rounds, at_least=1, at_most=_MOST_ROUNDS)
        items = checks.whole("n_items", n_items, at_least=1)
        slots = checks.whole("k", k, at_least=1)
        if slots > items:
            raise ValueError(f"k={k} exceeds n_items={n_items}; choose k <= {n_items}")
        most = checks.bound(bound)
        if not isinstance(budget, Budget):
            raise TypeError(
                f"budget must be a Budget, got {checks.shown(budget)}; e.g. Budget(epsilon=1.0, delta=1e-6)"
            )
        self.exploration = checks.one_of("exploration", exploration, EXPLORATIONS)
        self.feedback = checks.one_of("feedback", feedback, FEEDBACK)
        overrides = _overrides(self.exploration, self.feedback, slots, rate, exploration_rate, block, repeats)
        way: Exploring | None = None
        if calibration == "published":
            _check_published(self.exploration, self.feedback, budget, overrides)
            way = settings.published(exploration, items, slots, horizon, budget, most)
            if not way.chosen:
                released = settings.releases(way, horizon, budget, most)
                budget = true_budget(
                    budget,
                    [(event, count) for _, event, count in released],
                    f"BanditSelector(exploration={exploration!r})",
                )
        elif self.feedback == "set":
            way = settings.tight(self.exploration, items, slots, horizon, budget, most, **overrides)
        super().__init__(
            items, slots, horizon, budget, bound=most, calibration=calibration, labels=labels, seed=seed
        )
        self._pending: dict[int, tuple[int, ...]] = {}
        self._engine: ValueFeedback | SlotFeedback
        if way is None:
            first_block = overrides["block"]
            self._engine = SlotFeedback(items, slots, horizon, most, self._gate, first_block)
        else:
            self._engine = ValueFeedback(way, items, slots, horizon, most, self._gate)

    # --- for users -------------------------------------------------------------------------------

    @property
    def settings(self) -> dict[str, Any]:
        """The numbers in use: block, repeats, rate (None: falling), exploration_rate, noise."""
        if isinstance(self._engine, SlotFeedback):
            return {"block": self._engine.first_block}
        shown = self._engine.way.to_json()
        return {name: shown[name] for name in ("block", "repeats", "rate", "exploration_rate", "noise")}

    @property
    def certified_regret(self) -> float:
        """Bound on the expected (1 - 1/e)-regret of the whole run, in units of reward."""
        assert self.rounds is not None
        if isinstance(self._engine, SlotFeedback):
            return bounds.trivial(self.rounds, self.bound)
        return self._engine.way.certified(self.n_items, self.k, self.rounds, self.bound)

    @property
    def pending(self) -> tuple[int, ...]:
        """Rounds that were passed without their reward, which may still come."""
        with self._turns.look():
            return tuple(sorted(self._pending))

    def choose(self, *, wait: bool = True) -> Selection:
        """The set for this round; with ``wait=False`` the next one, even if the last reward has not come."""
        with self._turn("choose()"):
            if not wait and self._open and not self.over:
                passed, ticket = self._round, self._engine.ticket(self._round)
                self._round += 1  # first, so that an interruption never leaves the round open and pending
                self._open = False
                self._pending[passed] = ticket
            chosen: Selection = self._next()
            return chosen

    def learn(self, value: Any, *, round: int | None = None, person_id: Hashable | None = None) -> None:
        """Learn what the set of this round was worth, or of an earlier ``round`` whose reward comes late.

        ``value`` is a number in [0, bound]; with ``feedback="slots"`` it is the item that was taken, None for
        none, or one number per slot, in all at most ``bound`` (who took two counts half for each).
        ``person_id`` lets the learner keep to ``max_rounds_per_person``.
        """
        with self._turn("learn()"):
            if round is None or (round == self._round and self._open):
                self._learn(value, person_id)
                return
            late = checks.whole("round", round, at_least=0)
            if late not in self._pending:
                why = "has been counted" if late < self._round else "has not been chosen for"
                raise ValueError(f"round={late} {why}; rewards are open for {_few(self.pending)}")
            ready = self._engine.ready(value, self._pending[late])
            admitted = self._visits.admit(person_id)
            ticket = self._pending.pop(late)  # first, so that an interruption never doubles anybody
            self._absorb((ticket, ready if admitted else None))

    # --- for the protocol ------------------------------------------------------------------------

    def _next(self) -> Any:
        if self.over and not self._open:
            self._shown = self._engine.current()
        return super()._next()

    def _due(self) -> bool:
        return True

    def _draw(self) -> NDArray[np.int32]:
        return self._engine.show(self._round)

    def _decision(self, shown: NDArray[Any]) -> Selection:
        return super()._decision(shown[shown >= 0])

    def _row(self, decision: Selection) -> tuple[int, ...]:
        return decision.items + (-1,) * (self.k - len(decision.items))

    def _prepared(self, person: Any) -> Any:
        return self._engine.ready(person, self._engine.ticket(self._round))

    def _take(self, ready: Any, admitted: bool) -> None:
        ticket = self._engine.ticket(self._round)
        self._round += 1
        self._open = False
        self._absorb((ticket, ready if admitted else None))

    def _absorb(self, person: Any) -> None:
        self._engine.absorb(*person)

    def _run(self, stream: Stream) -> None:
        rows = stream.people.as_rows()
        if rows is not None and rows.kind.code >= 0 and not self._pending:
            self._run_rows(stream, rows)
            return
        for t in track(range(stream.rewards.size), "rounds", stream.progress):
            decision = self._next()
            person = stream.people[t]
            stream.rewards[t] = self._worth(person, decision)
            stream.selections[t] = self._row(decision)
            told = self._engine.see(person, decision.items)
            self._take(self._prepared(told), bool(stream.admitted[t]))

    def _run_rows(self, stream: Stream, rows: Rows) -> None:
        self._next()  # the first set is drawn before anybody of this stream is seen
        for passed in self._engine.run_rows(stream, rows, self._round):
            self._round, self._open = passed, False

    def _spent(self) -> Account:
        return self._account(*self._engine.spent(self._round))

    def _settings(self) -> dict[str, Any]:
        return super()._settings() | {
            "exploration": self.exploration,
            "feedback": self.feedback,
            "engine": self._engine.state(),
            "pending": [[r, *ticket] for r, ticket in self._pending.items()],
        }

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return self._engine.arrays()

    def _restore(self, saved: Saved) -> None:
        super()._restore(saved)
        assert self.rounds is not None
        checks.whole("rounds", self.rounds, at_least=1, at_most=_MOST_ROUNDS)
        self.exploration = saved.one_of("exploration", EXPLORATIONS)
        self.feedback = saved.one_of("feedback", FEEDBACK)
        kind = SlotFeedback if self.feedback == "slots" else ValueFeedback
        sizes = (self.n_items, self.k, self.rounds, self.bound, self._gate)
        self._engine = kind.restored(saved.inner("engine"), *sizes, self._round, self._open)
        self._pending = {}
        for row in saved.rows("pending", at_most=self._round):
            late, *ticket = (checks.whole("pending", number, at_least=0) for number in row)
            if late >= self._round or late in self._pending or not self._engine.could_be(late, ticket):
                raise ValueError(f"pending={row} is no round whose reward is to come")
            self._pending[late] = tuple(ticket)

    def _could_show(self, shown: NDArray[Any]) -> bool:
        served = shown[: np.count_nonzero(shown >= 0)]
        inside = ((served >= 0) & (served < self.n_items)).all() and (shown >= -1).all()
        return shown.shape == (self.k,) and bool(inside) and np.unique(served).size == served.size


def _few(rounds: tuple[int, ...]) -> str:
    shown = ", ".join(map(str, rounds[:5])) + (", ..." if len(rounds) > 5 else "")
    return f"rounds {shown}" if rounds else "no earlier round"


def _overrides(
    exploration: str,
    feedback: str,
    k: int,
    rate: float | str | None,
    exploration_rate: float | None,
    block: int | None,
    repeats: int | None,
) -> dict[str, Any]:
    """The numbers that were given, checked; those that this way to explore has no use for are refused."""
    given: dict[str, Any] = {
        "rate": rate if rate is None else _rate(rate),
        "exploration_rate": None
        if exploration_rate is None
        else checks.real("exploration_rate", exploration_rate, above=0.0, at_most=1.0),
        "block": None if block is None else checks.whole("block", block, at_least=1),
        "repeats": None if repeats is None else checks.whole("repeats", repeats, at_least=1),
    }
    useful = {
        "blocks": {"rate", "block", "repeats"},
        "presampled": {"rate", "block"},
        "online": {"rate", "exploration_rate", "block"},
        "every_round": {"rate", "exploration_rate"},
    }[exploration]
    if feedback == "slots":
        if exploration != "blocks":
            raise ValueError(f'exploration={exploration!r} does not go with feedback="slots"; leave it out')
        useful = {"block"}
    for name, value in given.items():
        if value is not None and name not in useful:
            raise ValueError(
                f"{name}={value} has no meaning for exploration={exploration!r} with feedback={feedback!r};"
                f" leave it out (there is: {', '.join(sorted(useful))})"
            )
    if feedback == "set" and exploration in ("blocks", "presampled") and given["block"] is not None:
        least = k * (given["repeats"] or 1)
        if given["block"] < least:
            raise ValueError(
                f"block={block} is too short for {k} experts to try an item {given['repeats'] or 1} times"
                f" each; it must be at least {least}"
            )
    return given


def _rate(rate: float | str) -> float | str:
    if isinstance(rate, str):
        return checks.one_of("rate", rate, ("certified",))
    return checks.real("rate", rate, above=0.0)


def _check_published(exploration: str, feedback: str, budget: Budget, overrides: dict[str, Any]) -> None:
    if exploration == "blocks" or feedback == "slots":
        raise ValueError(
            'calibration="published" is for exploration="online", "presampled" or "every_round" with'
            ' feedback="set"; blocks and slots are not in the paper'
        )
    if any(value is not None for value in overrides.values()):
        raise ValueError(
            'calibration="published" has its own numbers; leave rate=, exploration_rate=, block= and repeats='
            ' out, or take calibration="tight"'
        )
    if not budget.private or budget.delta == 0.0:
        raise ValueError(
            'calibration="published" needs a finite epsilon and delta > 0; its constants depend on both'
        )
