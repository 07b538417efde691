"""Set selection with bandit feedback: the value of the shown set, or which of its items were taken.

Learning from rewards is the part of a `RewardSum`: `BanditSelector` uses `ValueFeedback` (values of sets) and
`SlotFeedback` (items taken), and `ThompsonSelector` has one of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from itertools import pairwise
from typing import Any, ClassVar, get_args

import numpy as np
from numpy.typing import NDArray

from .. import bounds
from ..bounds import bandit as limits
from ..core import checks
from ..core.options import BanditFeedback, Calibration, Certified, ExplorationForm
from ..core.state import in_range
from ..core.text import track
from ..kernels.experts import Exploration
from ..kernels.selection import add_lists
from ..objectives import answers
from ..objectives.rows import Rows
from ..privacy import (
    ApproximateRelease,
    Budget,
    Entry,
    Event,
    ExponentialChoice,
    Gate,
    LaplaceNoise,
    PublicRandomness,
    Seed,
    Share,
)
from ..privacy.account import PublishedCalibrationWarning
from ..privacy.accountant import BY_ROUNDS, Spending
from ..privacy.conversions import exact
from ..privacy.ordered import MOST_ROUNDS, OrderedExperts, units_per_one
from .catalogue import Catalogue
from .learner import (
    OnlineSelector,
    Rounds,
    SelectorSettings,
    Stream,
    common_settings,
    rate_within,
    score_range,
    tightened,
)
from .pending import Ticket
from .released import Estimates, Released
from .sums import BatchTotal

EXPLORATIONS = ("blocks", "online", "presampled", "every_round")
FEEDBACK: tuple[BanditFeedback, ...] = get_args(BanditFeedback)

# --- rewards ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Taken:
    """The items that a person took."""

    items: tuple[int, ...]


@dataclass(frozen=True)
class RewardUnits:
    """Rewards as integers: ``per_one`` units make 1, and ``most`` of them are the bound.

    With ``by_slot``, feedback tells which of the shown items were taken; otherwise it is the set's value.
    """

    by_slot: bool
    bound: float
    per_one: float
    most: int

    @classmethod
    def of_step(cls, settings: Any, step: Fraction) -> RewardUnits:
        """Units of the size ``step``."""
        bound = settings.bound
        return cls(settings.feedback == "slots", bound, float(1 / step), math.floor(exact(bound) / step))

    def named(self, catalogue: Catalogue, value: Any, items: Any) -> Any:
        """Feedback with labels converted to item numbers."""
        if not self.by_slot:
            return value
        if items is not None:
            if isinstance(items, Mapping):  # one of whose items may be worth nothing
                raise TypeError("items= lists what was taken; give amounts as a number for each slot")
            return Taken(tuple(catalogue.items("items", items).tolist()))
        scalar = value is not None and (type(value) in (int, str) or np.ndim(value) == 0)
        return catalogue.item(value) if scalar else value

    def of(self, value: Any, shown: tuple[int, ...] = ()) -> Any:
        """A reward in units: one number, or one for each of the ``shown`` items.

        Slots take None, the item taken, or one number per slot.
        """
        if not self.by_slot:
            amount = checks.real("value", value, at_least=0.0, at_most=self.bound) * self.per_one
            return self.most if amount >= self.most else int(amount)
        got = np.zeros(len(shown), dtype=np.int64)
        if value is None:
            return got
        if isinstance(value, Taken) or np.ndim(value) == 0:
            items = value.items if isinstance(value, Taken) else (checks.whole("value", value, at_least=0),)
            for item in items:
                if item not in shown:
                    raise ValueError(f"item {item} was not shown in that round; shown were {list(shown)}")
                got[shown.index(item)] = self.most // len(items)
            return got
        values = checks.vector("value", value, length=len(shown))
        if values.min() < 0.0 or values.sum() > self.bound * (1.0 + 1e-9):
            what = f"hold no negative number and sum to at most bound={self.bound:g}"
            raise ValueError(f"value={values.tolist()} must {what}")
        spare = self.most
        for slot, amount in enumerate(values):
            got[slot] = min(int(amount * self.per_one), spare)
            spare -= int(got[slot])
        return got

    def read(self, reader: Callable[..., Any], *given: Any) -> Any:
        """The result of ``reader``; what is wrong with feedback is private: only in the error's details."""
        try:
            return reader(*given)
        except (ValueError, TypeError) as error:
            reason = str(error)
        expected = f"a number from 0 to {self.bound:g}"
        if self.by_slot:
            item = "the item that was taken, one of those shown, None for none"
            expected = f"{item}, or a number for each slot, in all {expected}"
        raise checks.DataError(f"invalid feedback: value must be {expected}", reason)


def moved_by_one(feedback: str, bound: float, neighbours: str) -> float:
    """The L1 sensitivity of a block's sums to one person.

    Two values of a set differ by at most ``bound``; with slots the other person may take another item.
    """
    return score_range(bound, neighbours) if feedback == "slots" else bound


def _least_scale(bound: float, terms: int) -> Fraction:
    """The smallest allowed scale of noise on sums of ``terms`` rewards.

    A scale is 2^32 steps of the noise's grid: with finer steps such a sum would not fit into 63 bits.
    """
    return exact(bound) * terms / 2**30


def reward_noise(share: Share, feedback: str, bound: float, terms: int) -> LaplaceNoise:
    """The noise on sums of ``terms`` rewards; wider than needed where epsilon is enormous."""
    noise = LaplaceNoise.within(share, moved_by_one(feedback, bound, share.neighbours), 1, share.definition)
    if not share.private:
        return noise
    return replace(noise, scale=max(exact(noise.scale), _least_scale(bound, terms)))


def check_reward_noise(settings: Any, neighbours: str, terms: int) -> None:
    """Refuse noise for another sensitivity than one person's, or sums that would not fit into 63 bits."""
    noise, moves = settings.noise, moved_by_one(settings.feedback, settings.bound, neighbours)
    narrow = 0 < exact(noise.scale) < _least_scale(settings.bound, terms)
    if exact(noise.sensitivity) != exact(moves) or narrow:
        raise ValueError(f"noise={noise} is not for what one person can move, {moves:g}")


class RewardSum:
    """Learns from one kind of reward, and draws sets from what it learned.

    Subclasses have ``draw(round)``, the items of a round (padded with -1 if fewer than k); ``current()``,
    those served after the last round; ``ticket(round)``, what a reward will be about (a learner's tickets
    begin with whether another set was served); ``run_rows(stream, rows, rounds)``, compiled rounds of a
    stream whose first set is drawn already; ``start(released)``, to start from releases made elsewhere; and
    ``entries()``, what the account lists so far.
    """

    _state: ClassVar[tuple[str, ...]] = ("_active",)
    units: RewardUnits

    def __init__(self, settings: Any) -> None:
        self._settings = settings
        self._active = np.ones(settings.n_items, dtype=np.bool_)

    @property
    def compiles(self) -> bool:
        """Whether a compiled loop can continue from here."""
        return True

    def estimates(self, round: int) -> Estimates:  # noqa: ARG002
        """Released estimates of each item's value, the people they cover, and their deviations."""
        return None, 0, None

    def restrict(self, active: NDArray[np.bool_]) -> None:
        """Draw sets from these items only, from the next one on."""
        self._active = active

    def ready(self, value: Any, ticket: Ticket) -> Any:
        """The reward of a round in ``units``; with slots the ticket contains the items that were shown."""
        return self.units.of(value, ticket)

    def observe(self, ticket: Ticket, ready: Any) -> None:
        """Learn from a reward; None is for a round that passes with nothing learned."""
        raise NotImplementedError

    def skip(self, ticket: Ticket) -> None:
        """Note a round in which another set was served, which is a public fact."""
        raise NotImplementedError

    def given(self, catalogue: Catalogue, value: Any, items: Any) -> Any:
        """A reward, with labels converted to item numbers."""
        units = self.units
        if not units.by_slot:
            if items is not None:
                raise TypeError('items= is for feedback="slots"; give the value of the set')
            return value
        if items is not None and value is not None:
            raise TypeError("give either a value or items=, not both")
        return units.read(units.named, catalogue, value, items)

    def prepared(self, value: Any, ticket: Ticket) -> Any:
        """The reward in units; None for a round that served another set."""
        altered, *about = ticket
        return None if altered else self.units.read(self.ready, value, tuple(about))

    def take(self, ticket: Ticket, ready: Any) -> None:
        """Learn from what `prepared` returned; None is a person who is not learned from."""
        altered, *about = ticket
        if altered:
            self.skip(tuple(about))
        else:
            self.observe(tuple(about), ready)

    def simulated_feedback(self, person: Any, items: tuple[int, ...], value: float) -> Any:
        """What a simulated person reports about these items, whose value to them is ``value``.

        With slots, the marginal gain of each item over those shown before it. People are monotone (the
        learner refused others), so the gains sum to at most ``bound``.
        """
        if not self.units.by_slot:
            return value
        bound = self._settings.bound
        prefix_values = [
            answers.number("value", person.value(items[:t]), 0.0, bound) for t in range(len(items))
        ]
        return [max(0.0, after - before) for before, after in pairwise([*prefix_values, value])]

    def check_divisible(self) -> None:
        """Refuse parts on other servers."""
        raise NotImplementedError(
            "every round shows a set of its own: let other servers serve rounds of choose(wait=False), and"
            " bring their rewards with learn(..., round=)"
        )

    def grown(self, settings: Any, number: int) -> None:
        """Add more items in round ``number``; refused unless a subclass can."""
        raise NotImplementedError(
            "what is explored when, and how much noise that takes, was settled for the items there were: take"
            ' feedback="slots" or ThompsonSelector, or make a new learner'
        )


class FewRoundsWarning(UserWarning):
    """The declared rounds are too few to learn anything from values of sets."""


def warn_if_too_short(settings: Any) -> None:
    """Warn if a learner is declared for too few rounds to learn anything."""
    if settings.too_short:
        checks.warn(
            f"rounds={settings.rounds} are too few to learn from values of sets of {settings.k} out of"
            f" {settings.n_items} items with this budget: expect what random sets would bring. Take more"
            ' rounds, fewer items, feedback="slots", or ThompsonSelector where it is not that already;'
            " discreet.plan says what to expect.",
            FewRoundsWarning,
        )


# --- settings -------------------------------------------------------------------------------------------

DRAWS = "items drawn by bandit experts (only the expert that explored can be moved)"
SUMS = "noisy sums of what exploring sets were worth"
COUNTS = "noisy counts of what was taken from the shown items"
TAIL = "chance that more rounds explore than the published rate allows for"

# The numbers that can be given for each form of exploration; for slots, only the block.
_NUMBERS = {
    "blocks": ("rate", "block", "repeats"),
    "presampled": ("rate", "block"),
    "online": ("rate", "exploration_rate", "block"),
    "every_round": ("rate", "exploration_rate"),
}


@dataclass(frozen=True, kw_only=True)
class BanditSettings(SelectorSettings):
    """Settings of `BanditSelector`.

    A block has ``block`` rounds (the first one, for slots). With an ``exploration_rate`` each round explores
    with that probability, and a new set is drawn every ``block`` rounds, or (``after_exploring``) right after
    exploring. Without it, every expert tries one item in each block, ``repeats`` times at random places.
    ``noise`` is that on the sums of a block; None where draws protect people. ``rate`` is None for falling
    rates. ``explorations`` is how many rounds were ``picked`` in advance, once that is known.
    """

    rounds: int
    exploration: str = "blocks"
    feedback: BanditFeedback = "bandit"
    block: int = 1
    repeats: int = 1
    rate: float | None = None
    exploration_rate: float | None = None
    noise: LaplaceNoise | None = None
    explorations: int | None = None
    stop_exploring: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self._put(stop_exploring=bool(self.stop_exploring))
        if self.stop_exploring and (self.calibration, self.exploration) != ("published", "online"):
            raise ValueError(
                'stop_exploring= is for calibration="published" with exploration="online"; others lose no'
                " delta to rounds that explore"
            )
        checks.one_of("exploration", self.exploration, EXPLORATIONS)
        checks.one_of("feedback", self.feedback, FEEDBACK)
        if self.feedback == "slots" and self.exploration != "blocks":
            raise ValueError(
                f'exploration={self.exploration!r} does not go with feedback="slots"; leave it out'
            )

    # --- where they come from --------------------------------------------------------------------

    @classmethod
    def _asked(
        cls, n_items: int, k: int, rounds: int, calibration: str, options: dict[str, Any]
    ) -> tuple[BanditSettings, dict[str, Any]]:
        """Settings with only their options, and separately the numbers that were given."""
        horizon = checks.whole("rounds", rounds, at_least=1, at_most=MOST_ROUNDS)
        names = ("rate", "exploration_rate", "block", "repeats")
        given = {name: one for name in names if (one := options.pop(name, None)) is not None}
        bound, labels = options.pop("bound", 1.0), options.pop("labels", None)
        common = common_settings(n_items, k, horizon, bound, labels, calibration)
        return cls(**common, **options), given

    @classmethod
    def tight(cls, n_items: int, k: int, rounds: int, share: Share, **options: Any) -> BanditSettings:
        """The numbers with the smallest certified regret within ``share``; given numbers are kept.

        For blocks without a ``rate`` the rate falls, which learns faster but certifies less; ``"certified"``
        is the fixed rate with the best certificate.
        """
        asked, given = cls._asked(n_items, k, rounds, "tight", options)
        _check_numbers(asked, given)
        labels, asked = asked.labels, replace(asked, labels=None)  # irrelevant for the comparison
        if asked.feedback == "slots":
            found = _tight_slots(asked, share, **given)
        elif asked.exploration in ("blocks", "presampled"):
            found = _tight_blocks(asked, share, **given)
        else:
            found = _tight_by_chance(asked, share, **given)
        return replace(found, labels=labels)

    @classmethod
    def published(cls, n_items: int, k: int, rounds: int, share: Share, **options: Any) -> BanditSettings:
        """The constants of paper 000: Algorithm 3, Appendix B.1 or B.2.

        Where the exploration rate is above 1, a warning says so and every round explores. The rate of
        B.2 depends on how many rounds are picked: it is replaced by `presampled_rate` once that is known.
        """
        asked, given = cls._asked(n_items, k, rounds, "published", options)
        if given:
            raise ValueError(
                'calibration="published" has its own numbers; leave rate=, exploration_rate=, block= and'
                ' repeats= out, or take calibration="tight"'
            )
        if asked.exploration == "blocks":
            raise ValueError(
                'calibration="published" is for exploration="online", "presampled" or "every_round" with'
                ' feedback="bandit"; blocks and slots are not in the paper'
            )
        if not share.private or share.delta == 0.0:
            raise ValueError(
                'calibration="published" needs a finite epsilon and delta > 0; its constants depend on both'
            )
        epsilon, delta, bound = share.budget.epsilon, share.delta, asked.bound
        every_round = asked.exploration == "every_round"
        if asked.n_items == 1:
            chance = 1.0
        elif every_round:
            chance = limits.published_direct_exploration(n_items, k, rounds, epsilon, delta)
        else:
            chance = limits.published_exploration(n_items, k, rounds)
        if chance > 1.0:
            checks.warn(
                f"the published exploration rate is {chance:.3g} at n_items={n_items}, k={k},"
                f" rounds={rounds}: above 1, so every round explores and no learned set is ever served. See"
                " docs/errata.md.",
                PublishedCalibrationWarning,
            )
        chance = min(chance, 1.0)
        if every_round:
            rate = bounds.published_rate(k, rounds, epsilon, delta, bound)
        else:  # Algorithm 3 allows for twice as many explorations as expected.
            rate = epsilon / (k * math.sqrt(32.0 * 2.0 * chance * rounds * math.log(k / delta)) * bound)
        return replace(asked, rate=rate, exploration_rate=chance)

    # --- what follows from them ------------------------------------------------------------------

    def claims(self, share: Share) -> tuple[list[tuple[Event, int]], str]:  # noqa: ARG002
        """What published settings release, as far as that is known, and their name for messages."""
        # With rounds picked in advance, the releases depend on how many are picked.
        charged = [] if self.picked else [(event, count) for _, event, count in self.releases]
        return charged, f"BanditSelector(exploration={self.exploration!r})"

    @property
    def after_exploring(self) -> bool:
        """Whether a new set is drawn right after a round that explored, as in the paper."""
        return self.calibration == "published" and self.exploration != "every_round"

    @property
    def picked(self) -> bool:
        """Whether the rounds that explore are picked in advance with the published exploration rate."""
        return self.calibration == "published" and self.exploration == "presampled"

    @property
    def scale(self) -> float:
        """The scale of the noise on the average of an exploration sample."""
        return 0.0 if self.noise is None else float(self.noise.scale) / self.repeats

    def rate_after(self, blocks: int) -> float:
        """The learning rate on averages, for sets drawn after this many blocks."""
        if self.rate is not None:
            return self.rate
        return limits.falling_rate(self.n_items, blocks, self.scale, self.bound)

    @property
    def releases(self) -> list[tuple[str, Event, int]]:
        """All releases that can depend on one person, over the whole run: (label, event, count).

        Nothing is learned from a round that does not explore. One that explores moves one item of one expert
        by at most ``bound``, under replacement as well as for people who come or go, so only that expert's
        later draws count, each with a privacy loss in an interval of length rate * bound. Which rounds
        explore, and with which items, is public randomness.
        """
        rounds = self.rounds
        if self.noise is not None:
            if self.feedback == "slots":
                return [(COUNTS, self.noise, 1)] if rounds > 1 else []
            return [(SUMS, self.noise, 1)] if rounds >= self.block else []
        assert self.rate is not None
        found: list[tuple[str, Event, int]] = []
        if self.picked:
            assert self.explorations is not None
            draws = min(self.explorations, rounds - 1)
        elif self.after_exploring:
            draws = min(rounds - 1, self.most_explorations)
            if not self.stop_exploring and (tail := self.tail):
                found = [(TAIL, ApproximateRelease(0.0, tail), 1)]
        else:
            draws = redraws(rounds, self.block)
        return [(DRAWS, ExponentialChoice(self.rate, self.bound), draws), *found] if draws else found

    @property
    def most_explorations(self) -> int:
        """Twice the expected number of exploring rounds, which Algorithm 3's rate allows for."""
        assert self.exploration_rate is not None
        return math.floor(2.0 * self.exploration_rate * self.rounds * (1.0 + 1e-12))

    @property
    def tail(self) -> float:
        """The probability that more than `most_explorations` rounds would explore."""
        assert self.exploration_rate is not None
        return limits.too_many_explorations(self.rounds, self.exploration_rate)

    @property
    def too_short(self) -> bool:
        """Whether experts cannot come to prefer an item, as items are tried too seldom for noise or rate.

        With noise the standard error of an item's value stays above a quarter of the bound; without, the
        weights of an item of value ``bound`` and of one of value 0 stay within a factor e.
        """
        if self.feedback == "slots" or self.k == self.n_items:
            return False
        if self.noise is not None:
            tried = self.horizon / (self.block * self.n_items)
            variance = 0.25 / self.repeats + 2.0 * (self.scale / self.bound) ** 2
            return variance > tried / 16.0
        if self.rate is None or self.exploration_rate is None:
            return False  # not known yet
        tried = self.exploration_rate * self.horizon / (self.k * self.n_items)
        return self.rate * self.bound * tried < 1.0

    def check(self, neighbours: str) -> None:
        """Refuse settings (from a file) that do not protect people in the way their exploration requires."""
        blocks = self.exploration == "blocks"
        short = self.exploration_rate is None and self.block < self.k * self.repeats
        if (self.noise is not None) != blocks or (not blocks and self.rate is None):
            raise ValueError(f"exploration={self.exploration!r} does not go with the other settings")
        if short and self.feedback == "bandit":
            raise ValueError(f"block={self.block} is too short for {self.k} experts")
        if blocks:
            check_reward_noise(self, neighbours, self.rounds if self.feedback == "slots" else self.repeats)

    @property
    def certified_regret(self) -> float:
        """Bound on the expected (1 - 1/e)-regret of the whole run (see `bounds.bandit`)."""
        return min(bounds.trivial(self.rounds, self.bound), self._regret(clipped=True))

    @property
    def unclipped_regret(self) -> float:
        """The certificate not capped at the trivial bound, for comparing settings."""
        return self._regret(clipped=False)

    def _regret(self, *, clipped: bool) -> float:
        # With ``picked`` the rate depends on how many rounds explore, so the proof does not hold (see
        # docs/errata.md). No bound is known for slots.
        if self.picked or self.feedback == "slots":
            return math.inf
        shape = (self.n_items, self.k, self.rounds)
        common: dict[str, Any] = {"bound": self.bound, "clipped": clipped}
        if self.exploration_rate is None:
            numbers = (self.block, self.repeats)
            return limits.blocks(*shape, *numbers, rate=self.rate, noise=self.scale, **common)
        assert self.rate is not None
        every = 1 if self.after_exploring else self.block
        common["centred"] = self.calibration == "tight"
        regret = limits.coins(*shape, self.exploration_rate, self.rate, every, **common)
        if self.stop_exploring:
            # The run is the same except with probability ``tail``; then it loses at most the terms below.
            regret += self.tail * (self.rounds * self.bound + bounds.trivial(self.rounds, self.bound))
        return regret

    @property
    def leading_terms(self) -> float:
        """The leading terms of the certificate of falling rates, for long streams."""
        shape = (self.n_items, self.k, self.rounds, self.block, self.repeats)
        return limits.falling_blocks_size(*shape, self.scale, self.bound)


def presampled_rate(k: int, explorations: int, budget: Budget, bound: float = 1.0) -> float:
    """The learning rate of Appendix B.2 for this many exploring rounds, picked in advance."""
    spread = math.sqrt(32.0 * (explorations + 1) * math.log(k / budget.delta))
    return budget.epsilon / (k * spread * bound)


def redraws(rounds: int, every: int) -> int:
    """The number of sets after the first, which is drawn before anybody is learned from."""
    return -(-rounds // every) - 1


# --- calibration ----------------------------------------------------------------------------------------

# Measured on streams of several kinds: with fewer than _FEWEST_TRIES of each item, exploring half of the time
# does worse than random sets; then one round in _SELDOM explores.
_FEWEST_TRIES = 4
_SELDOM = 32


def _check_numbers(asked: BanditSettings, given: dict[str, Any]) -> None:
    """Refuse numbers that are out of range, or that the exploration does not use."""
    useful = ("block",) if asked.feedback == "slots" else _NUMBERS[asked.exploration]
    for name, value in given.items():
        if name == "exploration_rate":
            given[name] = checks.real(name, value, above=0.0, at_most=1.0)
        elif name != "rate":
            given[name] = checks.whole(name, value, at_least=1)
        elif isinstance(value, str):
            checks.one_of(name, value, ("certified",))
        else:
            given[name] = checks.real(name, value, above=0.0)
        if name not in useful:
            raise ValueError(
                f"{name}={value} has no meaning for exploration={asked.exploration!r} with"
                f" feedback={asked.feedback!r}; leave it out (there is: {', '.join(sorted(useful))})"
            )
    if asked.exploration != "blocks" and given.get("rate") == "certified":
        del given["rate"]  # the other forms always use the certified rate
    repeats = given.get("repeats", 1)
    by_blocks = asked.feedback == "bandit" and asked.exploration in ("blocks", "presampled")
    if by_blocks and given.get("block", math.inf) < asked.k * repeats:
        raise ValueError(
            f"block={given['block']} is too short for {asked.k} experts to try an item {repeats} times each;"
            f" it must be at least {asked.k * repeats}"
        )


def _tight_blocks(asked: BanditSettings, share: Share, **given: Any) -> BanditSettings:
    """Settings for blocks with noisy sums, or for presampled exploration.

    If the horizon is too short for every expert to try every item a few times, exploring does not pay off
    and nothing is certified: then one round in ``_SELDOM`` explores.
    """
    noisy = asked.exploration == "blocks"
    falling = noisy and "rate" not in given
    best = min(
        _block_options(asked, share, **given),
        key=lambda one: one.leading_terms if falling else one.unclipped_regret,
    )
    if noisy and "block" not in given and asked.rounds < _FEWEST_TRIES * asked.n_items * best.block:
        times = given.get("repeats", 1)
        seldom = {"repeats": times, "block": max(best.block, _SELDOM * asked.k * times)}
        best = next(_block_options(asked, share, **given | seldom))
    return best


def _block_options(
    asked: BanditSettings,
    share: Share,
    rate: float | str | None = None,
    block: int | None = None,
    repeats: int | None = None,
) -> Iterator[BanditSettings]:
    n_items, k, rounds, bound = asked.n_items, asked.k, asked.rounds, asked.bound
    noisy, most = asked.exploration == "blocks", 1
    if noisy and share.private:
        # With more repeats the noise of a sample would be smaller than the spread of the values themselves.
        most = max(1, min(rounds // k, math.ceil(8.0 / float(share.epsilon))))
    for times in (repeats,) if repeats is not None else _grid(1, most):
        noise = reward_noise(share, "bandit", bound, times) if noisy else None
        # At most half of the rounds explore: a learner that cannot learn in those would only show short sets.
        least = 2 * k * times if noisy else k
        for length in (block,) if block is not None else _grid(least, max(rounds, least)):
            if length < k * times:
                continue
            fixed = None if isinstance(rate, str) else rate
            if noise is None:
                fixed = fixed or _drawing_rate(asked, share, length, rounds / length)
            elif rate == "certified":
                fixed = limits.best_fixed_rate(n_items, rounds / length, float(noise.scale) / times, bound)
            yield replace(asked, block=length, repeats=times, rate=fixed, noise=noise)


def _tight_by_chance(
    asked: BanditSettings,
    share: Share,
    rate: float | None = None,
    exploration_rate: float | None = None,
    block: int | None = None,
) -> BanditSettings:
    """Settings for rounds that explore by chance, with new sets at fixed rounds or in every round."""

    def option(chance: float) -> BanditSettings:
        every = 1
        if asked.exploration == "online":
            every = block or min(asked.rounds, max(1, round(asked.k / chance)))
        learned = rate or _drawing_rate(asked, share, every, asked.rounds * chance / asked.k)
        return replace(asked, block=every, rate=learned, exploration_rate=chance)

    steps = max(1, math.ceil(math.log(asked.rounds) / math.log(1.1)))
    chances = [1.1**-i for i in range(steps)] if exploration_rate is None else [exploration_rate]
    return min(map(option, chances), key=lambda one: one.unclipped_regret)


def _drawing_rate(asked: BanditSettings, share: Share, every: int, samples: float) -> float:
    """The best rate for ``samples`` per expert, at most what a new set in ``every`` rounds allows."""
    wanted = limits.best_fixed_rate(asked.n_items, samples, 0.0, asked.bound)
    return rate_within(share, asked.bound, redraws(asked.rounds, every), wanted)


def _tight_slots(asked: BanditSettings, share: Share, block: int | None = None) -> BanditSettings:
    """Settings for noisy counts; the first block shows each item several times per unit of noise scale."""
    noise = reward_noise(share, "slots", asked.bound, asked.rounds)
    if block is None:
        shows = 8.0 * max(1.0, float(noise.scale) / asked.bound)
        block = max(1, min(math.ceil(shows * asked.n_items / asked.k), asked.rounds // 8))
    return replace(asked, block=block, noise=noise)


def _grid(least: int, most: int) -> list[int]:
    """Integers from ``least`` to ``most``, each about a tenth larger than the one before."""
    found, at = [], least
    while at < most:
        found.append(at)
        at = max(at + 1, round(at * 1.1))
    return [*found, most]


# --- values of sets -------------------------------------------------------------------------------------

_CHUNK = 4096
_NOISE_UNITS = 24  # the noise scale is 2^24 units, so that sums of noise stay within 63 bits
_SPOILT = -1  # marks the sum of a sample in which a round served another set


class Schedule:
    """Which rounds explore, and when a new set is drawn: public randomness, one chunk of rounds at a time.

    For each round of the chunk, from ``start`` on, ``explore`` is the expert that explores, or -1, and
    ``item`` is what it tries. ``sample`` numbers the exploration samples of the chunk, block by block and
    expert by expert; where rounds explore by chance, a sample is one round, and its number is the expert's.
    ``due`` says before which rounds a new set is drawn.
    """

    _state = ("_public", "_picked", "_place")

    def __init__(self, settings: BanditSettings, public: PublicRandomness) -> None:
        self._settings, self._public = settings, public
        self._picked: NDArray[np.bool_] | None = None
        if settings.picked and settings.explorations is None:
            assert settings.exploration_rate is not None
            self._picked = public.generator.random(settings.rounds) < settings.exploration_rate
        self._explored_last, self._explored = False, 0
        self._before: tuple[dict[str, Any] | None, bool, int] = (public._stream, False, 0)
        self._clear(0, 0)

    def _clear(self, start: int, length: int) -> None:
        self.start, self._made = start, False
        self.explore = np.full(length, -1, dtype=np.int32)
        self.item = np.zeros(length, dtype=np.int32)
        self.due = np.zeros(length, dtype=np.bool_)
        self.sample = np.zeros(length, dtype=np.int64)

    @property
    def stop(self) -> int:
        """The round after the chunk; 0 where none was made to its end."""
        return self.start + self.explore.size if self._made else 0

    @property
    def explorations(self) -> int | None:
        """How many rounds were picked in advance; None where they explore by chance."""
        return None if self._picked is None else int(self._picked.sum())

    @property
    def chunk_length(self) -> int:
        """The length of a chunk in rounds, a multiple of the block."""
        return self._settings.block * max(1, _CHUNK // self._settings.block)

    @property
    def samples(self) -> int:
        """How many exploration samples a chunk can have."""
        settings = self._settings
        if settings.exploration_rate is not None:
            return settings.k
        return max(1, -(-self.explore.size // settings.block)) * settings.k

    def reach(self, round: int) -> None:
        """Create the chunk that contains ``round`` if necessary."""
        if round >= self.stop:
            self._before = (self._public._stream, self._explored_last, self._explored)
            self._make(round)

    def _make(self, start: int) -> None:
        self._clear(start, min(self.chunk_length, self._settings.rounds - start))
        if self._settings.exploration_rate is None:
            self._by_blocks(self._public.generator)
        else:
            self._by_chance(self._public.generator, self._settings.exploration_rate)
        self.sample += np.maximum(self.explore, 0)
        self._made = True

    def _by_blocks(self, rng: np.random.Generator) -> None:
        """Plan complete blocks, in each of which every expert tries one random item at random places."""
        k, block, repeats = self._settings.k, self._settings.block, self._settings.repeats
        self.due[::block] = True
        self.sample += k * (np.arange(self.sample.size) // block)
        count = self.explore.size // block
        if count == 0:
            return
        places = rng.permuted(np.tile(np.arange(block), (count, 1)), axis=1)
        tried = rng.integers(self._settings.n_items, size=(count, k), dtype=np.int32)
        at = places[:, : k * repeats] + block * np.arange(count)[:, None]
        self.explore[at] = np.repeat(np.arange(k, dtype=np.int32), repeats)
        self.item[at] = np.repeat(tried, repeats, axis=1)

    def _by_chance(self, rng: np.random.Generator, chance: float) -> None:
        """Plan rounds that explore by chance or were picked, with sets at fixed rounds or after exploring."""
        settings, length = self._settings, self.explore.size
        # Draw experts and items for all rounds: how many are used does not affect later draws.
        explores = rng.random(length) < chance
        experts = rng.integers(settings.k, size=length, dtype=np.int32)
        tried = rng.integers(settings.n_items, size=length, dtype=np.int32)
        if self._picked is not None:
            explores = self._picked[self.start : self.start + length]
        if settings.stop_exploring:
            explores &= self._explored + np.cumsum(explores) <= settings.most_explorations
            self._explored += int(explores.sum())
        self.explore[explores], self.item[explores] = experts[explores], tried[explores]
        if settings.after_exploring:
            self.due[1:] = explores[:-1]
            self.due[0] = self._explored_last or self.start == 0
            self._explored_last = bool(explores[-1])
        else:
            self.due[(-self.start) % settings.block :: settings.block] = True

    @property
    def _place(self) -> tuple[Any, ...]:
        """The state needed to recreate this chunk and all later ones, for saving."""
        return (*self._before, self.start if self.explore.size else None)

    @_place.setter
    def _place(self, place: tuple[Any, ...]) -> None:
        stream, explored_last, *counted, start = place
        self._before = (stream, explored_last, *counted) if counted else (stream, explored_last, 0)
        self._public._stream, self._explored_last, self._explored = self._before
        if start is not None:
            self._make(start)


class ValueFeedback(RewardSum):
    """k ordered Hedge experts; an exploring one learns f(S + a), where S are the earlier experts' items.

    An expert stores an integer sum for each item. Without noise a person moves one of these by at most
    ``bound``, exactly, and the draws protect them. With noise the sum of an exploration sample is released
    first, on the grid of the noise, and everything after that is post-processing.
    """

    _state = ("_experts", "schedule", "_released", "_samples", "_current", "_kept_noise")
    _any_length = ("_kept_noise",)

    def __init__(self, settings: BanditSettings, gate: Gate, schedule: Schedule) -> None:
        super().__init__(settings)
        self._gate, self.schedule = gate, schedule
        scale = units_per_one(settings.bound)
        step = 1 / scale
        self._total: BatchTotal | None = None
        self._draws = gate.post_processing()  # draws from noisy sums; without noise, replaced below
        self._charged: list[tuple[Entry, int]] = []
        if settings.noise is None:
            gate.expect(*((event, count) for _, event, count in settings.releases))
            for label, event, count in settings.releases:
                release = gate.reserve(event, count, draws=BY_ROUNDS, label=label)
                self._charged.append((release.entry, release.count))
                if label != TAIL:
                    self._draws = release
        elif settings.releases:
            self._total = BatchTotal(gate, settings.noise, step, label=SUMS)
            self._charged.append((self._total.entry, 1))
            step = self._total.step
            if self._total.grid is not None:
                wide = math.floor(math.log2(2.0**_NOISE_UNITS / self._total.grid.noise_scale))
                scale = min(scale, Fraction(2) ** wide)
        self.units = RewardUnits.of_step(settings, step)
        # An expert learns a sample's sum times the ratio, minus the middle of its range.
        self._ratio = float(step * scale)
        centred = settings.calibration == "tight"
        half = math.floor(exact(settings.bound) * scale) // 2 if centred else 0
        self._centre = settings.repeats * half
        scores = np.zeros((settings.n_items, settings.k), dtype=np.int64)
        self._experts = OrderedExperts(scores, self._rate(0), scale, self.units.most)
        self._current = np.full(settings.k, -1, dtype=np.int32)
        self._samples: dict[tuple[int, int], list[int]] = {}  # block, expert -> sum so far, rounds to come
        self._noise = np.zeros(0, dtype=np.int64)
        self._released = 0

    def restrict(self, active: NDArray[np.bool_]) -> None:
        gone, back = np.flatnonzero(self._active & ~active), np.flatnonzero(active & ~self._active)
        if gone.size:
            self._experts.close(gone)
        if back.size:
            self._experts.open(back, np.flatnonzero(active & self._active))
        self._active = active

    def start(self, start: Released) -> None:
        """Start with a preference for another learner's last set."""
        self._experts.prefer(start.items)

    @property
    def compiles(self) -> bool:
        return all(total >= 0 for total, _ in self._samples.values())

    def entries(self) -> Iterator[tuple[Entry, int]]:
        for entry, count in self._charged:
            begun = self.schedule.stop > 0
            yield entry, count * begun if entry.label == TAIL else min(count, self._released)

    # --- a round ---------------------------------------------------------------------------------

    def draw(self, round: int, *_: Any) -> NDArray[np.int32]:
        """The current set; in an exploring round, the earlier experts' items plus the one that is tried."""
        self._reach(round)
        at = round - self.schedule.start
        if self.schedule.due[at]:
            self._draw(round)
        expert, item = int(self.schedule.explore[at]), self.schedule.item[at]
        if expert < 0:
            return self._current.copy()
        row = np.full(self._settings.k, -1, dtype=np.int32)
        row[:expert] = self._current[:expert]
        if item not in row[:expert]:
            row[expert] = item
        return row

    def current(self) -> NDArray[np.int32]:
        return self._current.copy()

    def ticket(self, round: int) -> Ticket:
        """The block, the expert and the item; nothing for a round that does not explore."""
        at = round - self.schedule.start
        expert = int(self.schedule.explore[at])
        return (round // self._settings.block, expert, int(self.schedule.item[at])) if expert >= 0 else ()

    def observe(self, ticket: Ticket, ready: int | None) -> None:
        """Learn from a reward; None, for a round that passes with nothing learned, counts as 0."""
        if not ticket:
            return
        block, expert, item = ticket
        total, left = self._samples.get((block, expert), [0, self._settings.repeats])
        total, left = total if total == _SPOILT else total + (ready or 0), left - 1
        if left:
            self._samples[block, expert] = [total, left]
            return
        self._samples.pop((block, expert), None)
        if total != _SPOILT:
            total += self._noise_for(block, expert)
            self._teach(expert, item, round(float(total) * self._ratio) - self._centre)

    def skip(self, ticket: Ticket) -> None:
        """Discard the exploration sample of a round that showed another set."""
        if ticket:
            block, expert, _ = ticket
            _, left = self._samples.get((block, expert), [0, self._settings.repeats])
            self._samples[block, expert] = [_SPOILT, left]
            self.observe(ticket, None)

    def _teach(self, expert: int, item: int, amount: int) -> None:
        self._experts.add_one(item, expert, amount)

    def _draw(self, round: int) -> None:
        self._current = self._draws.ordered_set(self._at(round))
        self._count_draws(round, 1)

    def _count_draws(self, round: int, sets: int) -> None:
        """Count drawn sets for the account, except the first, which precedes any learning."""
        if self._settings.noise is None:
            self._released += sets - (round == 0)

    def _rate(self, round: int) -> float:
        """The rate for sums over a sample, for sets drawn in this round."""
        settings: BanditSettings = self._settings
        return settings.rate_after(round // settings.block) / settings.repeats

    def _at(self, round: int) -> OrderedExperts:
        """The experts, with the rate of this round."""
        rate = self._rate(round)
        return self._experts if rate == self._experts.rate else self._experts.at_rate(rate)

    # --- noise -----------------------------------------------------------------------------------

    def _reach(self, round: int) -> None:
        """Create this round's chunk if necessary, and secret noise for its samples.

        The noise of the previous chunk is discarded first: no interruption leaves it for these samples.
        """
        if round >= self.schedule.stop:
            self._noise = self._noise[:0]
        self.schedule.reach(round)
        if not self._noise.size:
            self._noise = self._fresh_noise()

    def _fresh_noise(self) -> NDArray[np.int64]:
        """Noise for every sample of the chunk."""
        count = self.schedule.samples
        return np.zeros(count, dtype=np.int64) if self._total is None else self._total.noise(count)

    def _noise_for(self, block: int, expert: int) -> int:
        """The noise of one sample; fresh for one whose chunk has passed."""
        if self._total is None:
            return 0
        self._released = 1
        place = self._place(block, expert)
        return int(self._total.noise(1)[0] if place < 0 else self._noise[place])

    def _place(self, block: int, expert: int) -> int:
        """The number of a sample in the chunk; below 0 if its chunk has passed."""
        first = self.schedule.start // self._settings.block
        return int((block - first) * self._settings.k + expert)

    # --- a whole stream --------------------------------------------------------------------------

    def run_rows(self, stream: Stream, rows: Rows, rounds: Rounds) -> None:
        first, last = rounds.number, rounds.number + int(stream.rewards.size)
        spans = self._spans(first, last)
        for index in track(range(len(spans)), "blocks of rounds", stream.progress):
            start, stop = spans[index]
            self._reach(start)
            here = slice(start - self.schedule.start, stop - self.schedule.start)
            experts, due = self._at(start), self.schedule.due[here].copy()
            due[0] &= start != first
            words = self._draws.words(int(due.sum()) * experts.words_per_set)
            self._count_draws(start if due[0] else 1, int(due.sum()))
            if self._total is not None and (self.schedule.explore[here] >= 0).any():
                self._released = 1
            play = partial(self._play, stream, rows, slice(start - first, stop - first), here, due, words)
            rounds.close(stop - start, then=play)  # closed before anything is drawn

    def _play(
        self,
        stream: Stream,
        rows: Rows,
        part: slice,
        here: slice,
        due: NDArray[np.bool_],
        words: NDArray[np.uint64],
    ) -> None:
        """Draw, show and learn in the rounds ``part`` of a stream, at ``here`` in the chunk."""
        schedule, current, repeats = self.schedule, self._current.copy(), self._settings.repeats
        sums = np.zeros(schedule.samples, dtype=np.int64)
        left = np.full(schedule.samples, repeats, dtype=np.int64)
        for block, expert in list(self._samples):  # those of other chunks stay
            if (place := self._place(block, expert)) >= 0:
                sums[place], left[place] = self._samples.pop((block, expert))
        learned = (self.units.per_one, self.units.most, self._ratio, self._centre, repeats)
        rounds = (schedule.explore[here], schedule.item[here], schedule.sample[here])
        plan = Exploration(rounds, self._noise, sums, left, learned)
        self._experts.begin()
        while self._experts.explore(
            stream.part(part), rows.compressed, part.start, plan, due, words, current
        ):
            self._experts.settle(self._draws, words, current)
        self._current = current
        first, k = schedule.start // self._settings.block, self._settings.k
        for place in np.flatnonzero(left < repeats).tolist():
            self._samples[first + place // k, place % k] = [int(sums[place]), int(left[place])]

    def _spans(self, start: int, stop: int) -> list[tuple[int, int]]:
        """Split rounds into spans that share a chunk and a rate."""
        block, length, spans = self._settings.block, self.schedule.chunk_length, []
        while start < stop:
            end = min(stop, (start // length + 1) * length)
            if self._settings.rate is None:
                end = min(end, block << (start // block).bit_length())  # rates change at powers of two
            spans.append((start, end))
            start = end
        return spans

    # --- saving ----------------------------------------------------------------------------------

    @property
    def _kept_noise(self) -> NDArray[np.int64]:
        """Unused noise if a seed fixes it; secret noise is not saved: two resumed learners would share it."""
        return self._noise if self._gate.resumes_alike else self._noise[:0]

    @_kept_noise.setter
    def _kept_noise(self, noise: NDArray[np.int64]) -> None:
        begun = self.schedule.stop > 0
        if begun and noise.size and (not self._gate.resumes_alike or noise.size != self.schedule.samples):
            raise ValueError("the file holds unused noise that this state cannot have")
        self._noise = self._fresh_noise() if begun and not noise.size else noise

    def _resumed(self) -> None:
        if not in_range(self._current, self._settings.n_items, least=-1):
            raise ValueError("the set that stands holds unknown items")


# --- items that were taken ------------------------------------------------------------------------------

_UNITS = 32
_DRAWN = 1 << 18  # random numbers drawn at once
_GLANCED = 1 << 20  # the same where only the first 16 bits of most numbers are drawn
_FEW = 100  # with fewer than this times k items, every item's number is drawn in full
_SHORT_LIST = 4  # about this times k items are candidates for a list
_MOST_LISTS = 64
_GROWTH = 0.1  # the length of a later block, relative to the rounds before it
_COMMON = 200.0  # an item's own record outweighs the common one from this many shows on
_SPREAD = 0.35  # the deviation of a list's draws from the records, in their standard deviations
_STEPS = 1 << 16


class SlotFeedback(RewardSum):
    """Noisy counts of items taken, block after block; lists are drawn at random around these records.

    A person takes the first shown item they want (or several in part; together at most ``bound``), so an
    item's count is its marginal gain given those above it. The counts of a block are released with Laplace
    noise when the next one begins: replacing a person moves them by at most 2 ``bound`` in L1, adding or
    removing one by ``bound``, for any number of items. Which items were shown is public, so others need none.

    Every round's list is drawn anew (Thompson 1933; for lists that are read from the top see Kveton et al.
    2015): the k largest of each item's average plus normal noise of ``_SPREAD`` of its standard deviations.
    """

    _records = ("_taken", "_shows", "_variance", "_open_taken", "_open_shows")  # a number for each item
    _state = (*_records, "_public", "_closes", "_released", "_lists_from", "_lists", "_current")
    _any_length = ("_lists",)

    def __init__(self, settings: BanditSettings, gate: Gate, public: PublicRandomness) -> None:
        assert settings.noise is not None
        super().__init__(settings)
        self._public = public
        step = exact(settings.bound) / 2**_UNITS
        self._total: BatchTotal | None = None
        if settings.releases:
            self._total = BatchTotal(gate, settings.noise, step, label=COUNTS)
            step = self._total.step
        self._step, self.units = float(step), RewardUnits.of_step(settings, step)
        self._taken, self._shows, self._variance = (np.zeros(settings.n_items) for _ in range(3))
        self._open_taken, self._open_shows = (np.zeros(settings.n_items, dtype=np.int64) for _ in range(2))
        self._closes, self._released = self._end_of_block(0), 0
        self._lists: NDArray[np.int32] = np.zeros((0, settings.k), dtype=np.int32)
        self._lists_from = 0
        self._current = np.zeros(settings.k, dtype=np.int32)

    def restrict(self, active: NDArray[np.bool_]) -> None:
        """Draw from these items only, and discard lists that were drawn ahead."""
        self._active = active
        self._lists = self._lists[:0]

    def estimates(self, round: int) -> Estimates:
        """The records: each item's average when it was shown."""
        weight = np.maximum(self._shows, 1.0)
        own = self._settings.bound**2 / 4.0 * weight
        unknown = np.where(self._shows > 0, 1.0, np.nan)
        deviations = np.sqrt(own + self._variance) / weight
        return self._means() * unknown, round, deviations * unknown

    def start(self, start: Released) -> None:
        """Start with records that have the deviations of the released estimates."""
        if start.values is None or start.deviations is None:
            return
        bound = self._settings.bound
        known = np.isfinite(start.values) & np.isfinite(start.deviations)
        shows = (bound / 2.0 / np.maximum(start.deviations[known], 1e-9)) ** 2
        shows = np.minimum(shows, start.people)
        self._shows[known] += shows
        self._taken[known] += np.clip(start.values[known], 0.0, bound) * shows

    def grown(self, settings: BanditSettings, number: int) -> None:  # noqa: ARG002
        """Add empty records for more items."""
        more = settings.n_items - self._settings.n_items
        for name in self._records:
            setattr(self, name, np.pad(getattr(self, name), (0, more)))
        self._settings = settings

    def entries(self) -> Iterator[tuple[Entry, int]]:
        if self._total is not None:
            yield self._total.entry, self._released

    # --- a round ---------------------------------------------------------------------------------

    def draw(self, round: int, *_: Any) -> NDArray[np.int32]:
        self._reach(round)
        self._current = np.array(self._lists[round - self._lists_from], dtype=np.int32)
        return self._current

    def current(self) -> NDArray[np.int32]:
        """The list with the best records, without random draws."""
        means = np.where(self._active, self._means(), -np.inf)
        best = np.argsort(-means, kind="stable")[: self._settings.k]
        return np.asarray(best, dtype=np.int32)

    def ticket(self, round: int) -> Ticket:  # noqa: ARG002
        """The items that were shown."""
        return tuple(self._current.tolist())

    def observe(self, ticket: Ticket, ready: NDArray[np.int64] | None) -> None:
        """Add a reward to the open block.

        None is a person who is not learned from, and counts as taking nothing: the public counts of shows
        must not reveal whether anybody was there.
        """
        items = list(ticket)
        self._open_shows[items] += 1
        if ready is not None:
            self._open_taken[items] += ready

    def skip(self, ticket: Ticket) -> None:
        """Ignore a round that showed other items."""

    def _reach(self, round: int) -> None:
        """Close the block if it is over, and draw lists if this round has none."""
        if round >= self._closes:
            self._release()
            self._closes = self._end_of_block(round)
        if round >= self._lists_from + len(self._lists):
            self._make_lists(round)

    def _end_of_block(self, start: int) -> int:
        settings = self._settings
        return int(min(start + max(settings.block, math.ceil(_GROWTH * start)), settings.rounds))

    def _release(self) -> None:
        """Release the counts of the open block with noise; everything later is post-processing.

        The block is cleared first: an interruption may lose its people, never release them twice. Noise is
        added to integers, before anything is rounded to a float.
        """
        items = np.flatnonzero(self._open_shows)
        counts, shows = self._open_taken[items], self._open_shows[items]
        self._released = 1
        self._open_taken[:], self._open_shows[:] = 0, 0
        if self._total is not None and self._total.grid is not None:
            counts = self._total.noisy(counts)
            self._variance[items] += 2.0 * self._settings.scale**2
        self._taken[items] += counts * self._step
        self._shows[items] += shows

    def _means(self) -> NDArray[np.float64]:
        bound, n_items = self._settings.bound, self._settings.n_items
        common = float(self._taken.sum() / max(self._shows.sum(), 1.0))
        common = min(max(common, bound / (100.0 * n_items)), bound)
        return np.asarray((self._taken + common * _COMMON) / (self._shows + _COMMON))

    def _make_lists(self, round: int) -> None:
        bound, n_items, k = self._settings.bound, self._settings.n_items, self._settings.k
        many = n_items >= _FEW * k
        count = max(1, min(_MOST_LISTS, (_GLANCED if many else _DRAWN) // n_items, self._closes - round))
        means, weight = self._means(), self._shows + _COMMON
        chances = np.clip(means / bound, 0.01 / n_items, 1.0 - 0.01 / n_items)
        own = bound**2 * chances * (1.0 - chances) * weight
        deviations = np.sqrt(own + self._variance) / weight
        deviations *= _SPREAD
        if not self._active.all():
            means[~self._active] = -np.inf
        rng = self._public.generator
        # With many items, one list is drawn in full; its best items set the threshold for the others.
        drawn = means + deviations * rng.standard_normal((1 if many else count, n_items))
        top = np.argpartition(-drawn, k - 1, axis=1)[:, :k]
        order = np.argsort(-np.take_along_axis(drawn, top, axis=1), axis=1)
        lists = np.take_along_axis(top, order, axis=1)
        if count > len(lists):
            least = np.partition(drawn[0], -_SHORT_LIST * k)[-_SHORT_LIST * k]
            lists = np.vstack([lists, largest(means, deviations, k, count - 1, least, rng)])
        self._lists = lists.astype(np.int32)
        self._lists_from = round

    # --- a whole stream --------------------------------------------------------------------------

    def run_rows(self, stream: Stream, rows: Rows, rounds: Rounds) -> None:
        first, last = rounds.number, rounds.number + int(stream.rewards.size)
        while (start := rounds.number) < last:
            self._reach(start)
            stop = min(last, self._lists_from + len(self._lists))
            lists = self._lists[start - self._lists_from : stop - self._lists_from]
            part = slice(start - first, stop - first)
            stream.selections[part], stream.rewards[part] = lists, 0.0
            self._current = lists[-1].copy()
            rounds.close(stop - start, then=partial(self._add_rows, stream, rows, part, lists))

    def _add_rows(self, stream: Stream, rows: Rows, part: slice, lists: NDArray[np.int32]) -> None:
        units, sums = (self.units.per_one, self.units.most), (self._open_taken, self._open_shows)
        add_lists(stream.part(part), rows.compressed, part.start, lists, units, *sums)

    def _resumed(self) -> None:
        shown = np.append(self._lists.ravel(), self._current)
        if not in_range(shown, self._settings.n_items):
            raise ValueError("the lists hold unknown items")


def largest(
    means: NDArray[np.float64],
    deviations: NDArray[np.float64],
    k: int,
    count: int,
    least: float,
    generator: np.random.Generator,
) -> NDArray[np.intp]:
    """``count`` draws of the indices of the k largest independent normal numbers, in decreasing order.

    A normal number is computed from a uniform U, as the point that it exceeds with probability U. For most
    indices the first 16 bits of U show that the number is below ``least``, and only the others get all their
    bits: the distribution does not depend on ``least``. If fewer than k reach it, all get all their bits.

    >>> rng = np.random.default_rng(0)
    >>> largest(np.arange(5.0), np.full(5, 1e-3), 2, 1, 2.5, rng).tolist()
    [[4, 3]]
    """
    from scipy.special import ndtr, ndtri

    size = means.size
    chances = ndtr((means - least) / deviations)
    # One step more than the probability requires, which exceeds any rounding error many times over.
    last = np.minimum(np.floor(chances * _STEPS) + 1.0, _STEPS - 1.0).astype(np.uint16)
    first = np.frombuffer(generator.bytes(2 * count * size), dtype="<u2").reshape(count, size)
    which, where = np.nonzero(first <= last)
    uniform = (first[which, where] + generator.random(which.size)) / _STEPS
    values = means[where] - deviations[where] * ndtri(uniform)
    ends = np.searchsorted(which, np.arange(count + 1))
    lists = np.empty((count, k), dtype=np.intp)
    for row in range(count):
        mine = slice(ends[row], ends[row + 1])
        items, reached = where[mine], values[mine]
        if np.count_nonzero(reached >= least) < k:
            uniform = (first[row] + generator.random(size)) / _STEPS
            full = means - deviations * ndtri(uniform)
            full[items] = reached
            items, reached = np.arange(size), full
        lists[row] = items[np.argsort(-reached, kind="stable")[:k]]
    return lists


# --- the learner ----------------------------------------------------------------------------------------


class BanditSelector(OnlineSelector):
    """k ordered experts that learn from the value of the shown set alone.

    Paper 000, Algorithm 3 and Appendix B, after Streeter and Golovin 2009. Expert i learns what to add to the
    items of experts 1..i-1. In an exploring round, one of them tries a random item a: the set shown is S + a,
    where S are the earlier experts' items (so it may have fewer than k items; a trace pads it with -1), and
    that expert learns f(S + a) as the value of a. All other rounds show the current set. Empty places are not
    filled: f(S + a + R) with random items R would undervalue what R can replace, and the certificate compares
    f(S + a) with f(S + b).

    ``exploration`` says when to explore and what protects people:

    - ``"blocks"`` (default): in every block of rounds each expert tries one item, ``repeats`` times at random
      places, and the sum of these values is released with Laplace noise. Drawing sets is then
      post-processing. Pure epsilon-DP for any number of rounds and items, as nobody's round is in two sums.
    - ``"presampled"``: the same without noise; the draws of new sets protect people, once per block. The
      published form (Appendix B.2) picks rounds by chance and draws after each.
    - ``"online"``: every round explores by chance, and sets are drawn at fixed rounds, so that no delta is
      lost. The published form (Algorithm 3) draws a new set right after exploring.
    - ``"every_round"``: every round explores by chance, and has a new set (Appendix B.1).

    ``feedback="slots"`` is for pages that know which shown item was taken: see `SlotFeedback`. Privacy is as
    for blocks, and far more is learned per round; no regret bound better than the trivial one is certified.

    ``calibration="tight"`` takes the numbers with the smallest certified regret that the budget allows; any
    of ``rate``, ``exploration_rate``, ``block`` and ``repeats`` can be given. For blocks the rate falls as
    more is known, which performs better than its certificate; ``rate="certified"`` is the fixed rate with the
    best certificate. Where the horizon is too short for every expert to try every item four times, blocks
    explore in only one round of 32: results are then about those of random sets, which are better than those
    of exploring more. Slots need far shorter horizons. ``"published"`` takes the paper's constants; `privacy`
    is then the true account, and a warning says so if every round explores. Algorithm 3 pays a delta for the
    probability that more than M = 2 gamma T rounds explore. With ``stop_exploring`` the current set is shown
    once M have (Section 4: private by design; the authors leave it at this remark, as later rounds then
    explore less often and their regret proof needs all rounds alike). The run is the same except with that
    probability, so the certificate grows by that probability times what a run can lose.

    Late rewards. ``choose(wait=False)`` moves on without the last reward, and ``learn(value, round=r)``
    supplies it later. With ``feedback="bandit"`` an exploration sample of several rounds waits for the last
    of its rewards and is then learned once; with ``"slots"`` a reward enters the block that is open when it
    arrives. Either way nobody is in two releases. That rewards come late, or never, is taken to be public;
    for one that will never come, 0 (or None for slots) lets the others of its sample be learned.

    Guarantee. (epsilon, delta)-DP under replacement of a person or, with ``neighbours="add_remove"``, for a
    person whose round passes with nothing learned; also if later people depend on what was shown. Sums are
    integers, noise is on a grid, draws are exact. Which rounds explore, and what, is public randomness.

    >>> import discreet as dc
    >>> people = dc.objectives.Coverage([[1, 0, 0], [1, 1, 0]] * 500)
    >>> learner = BanditSelector(3, 1, 1000, dc.Budget(1.0), seed=0)
    >>> shown = learner.choose()
    >>> learner.learn(1.0)  # what the set was worth to the person who saw it
    >>> len(learner.run(people[1:])), learner.privacy.epsilon()
    (999, 1.0)
    """

    settings: BanditSettings
    _sum: ValueFeedback | SlotFeedback
    _settings_type: ClassVar[type[BanditSettings]] = BanditSettings
    _state = ("_sum",)
    _rewarded, _batched, _grows = True, False, True

    def __init__(
        self,
        n_items: int,
        k: int,
        rounds: int,
        budget: Spending,
        *,
        exploration: ExplorationForm = "blocks",
        feedback: BanditFeedback = "bandit",
        calibration: Calibration = "tight",
        rate: float | Certified | None = None,
        exploration_rate: float | None = None,
        block: int | None = None,
        repeats: int | None = None,
        stop_exploring: bool = False,
        bound: float = 1.0,
        labels: Sequence[Any] | None = None,
        start: Released | OnlineSelector | None = None,
        seed: Seed = None,
    ) -> None:
        super().__init__(*tightened(BanditSettings, locals()))
        warn_if_too_short(self.settings)

    def _begin(self) -> None:
        self.settings.check(self.budget.neighbours)
        public = self._gate.public_randomness()
        if self.settings.feedback == "slots":
            self._sum = SlotFeedback(self.settings, self._gate, public)
            return
        schedule = Schedule(self.settings, public)
        if schedule.explorations is not None:  # rounds were picked in advance: their number sets the rate
            settings, count = self.settings, schedule.explorations
            rate = presampled_rate(settings.k, count, self.budget, settings.bound)
            self.settings = replace(settings, explorations=count, rate=rate)
        self._sum = ValueFeedback(self.settings, self._gate, schedule)

    def _finished(self) -> None:
        super()._finished()
        if self._rounds.shown is not None:  # from now on serve the current set, not the last exploration
            self._rounds.shown = self._sum.current()

    def _renewed(self) -> BanditSettings:
        return replace(self.settings, explorations=None)  # rounds are picked anew

    def _could_show(self, shown: NDArray[Any]) -> bool:
        settings, served = self.settings, shown[: np.count_nonzero(shown >= 0)]
        inside = bool(((served >= 0) & (served < settings.n_items)).all() and (shown >= -1).all())
        fewest = settings.k if settings.feedback == "slots" else 1
        enough = np.unique(served).size == served.size >= fewest
        return shown.shape == (settings.k,) and inside and enough
