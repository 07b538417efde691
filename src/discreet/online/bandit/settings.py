"""Exploration settings of a bandit learner: all that is decided before the first round."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from ... import bounds
from ...bounds import bandit as limits
from ...core import checks
from ...core.settings import flag, of, one_of, real, whole
from ...privacy import ApproximateRelease, Budget, Event, ExponentialChoice, LaplaceNoise, Share
from ...privacy.conversions import exact
from ...privacy.ordered import MOST_ROUNDS
from ...privacy.published import PublishedCalibrationWarning
from ..select.selector import SelectorSettings, common_settings, score_range
from .calibration import Search, redraws

EXPLORATIONS = ("blocks", "online", "presampled", "every_round")
FEEDBACK = ("set", "slots")
DRAWS = "items drawn by bandit experts (only the expert that explored can be moved)"
SUMS = "noisy sums of what exploring sets were worth"
COUNTS = "noisy counts of what was taken from the shown items"
TAIL = "chance that more rounds explore than the published rate allows for"


def _noise(record: Any) -> LaplaceNoise:
    event = Event.from_json(record)
    if type(event) is not LaplaceNoise:
        raise ValueError(f"noise={event} is no Laplace noise")
    return event


@dataclass(frozen=True, kw_only=True)
class BanditSettings(SelectorSettings):
    """What a `BanditSelector` goes by.

    ``block`` rounds make a block (the first one, for slots). With coins (``exploration_rate`` is set) each
    round explores by chance, and a new set is drawn every ``block`` rounds, or (``after_exploring``) right
    after a round that explored. Without, every expert tries one item in each block, ``repeats`` times at
    random places. ``noise`` is that of the sums of a block; None where draws protect people. ``rate`` is None
    for falling rates. ``picked`` are rounds that are picked in advance with the published exploration rate,
    and ``explorations`` is how many of them, once that is known.
    """

    rounds: int = whole(at_least=1, at_most=MOST_ROUNDS)
    exploration: str = one_of(EXPLORATIONS)
    feedback: str = one_of(FEEDBACK)
    block: int = whole(at_least=1)
    repeats: int = whole(at_least=1)
    rate: float | None = real(above=0.0, optional=True)
    exploration_rate: float | None = real(above=0.0, at_most=1.0, optional=True)
    after_exploring: bool = flag()
    picked: bool = flag()
    centred: bool = flag()
    noise: LaplaceNoise | None = of(_noise, Event.to_json, optional=True)
    explorations: int | None = whole(at_least=0, optional=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        blocks, coins = self.exploration == "blocks", self.exploration_rate is not None
        by_coins = {"blocks": (False,), "presampled": (False, True)}.get(self.exploration, (True,))
        odd = coins not in by_coins or ((self.picked or self.after_exploring) and not coins)
        odd = odd or (self.noise is not None) != blocks or (self.feedback == "slots" and not blocks)
        odd = odd or (not blocks and (self.rate is None or self.repeats > 1))
        if odd or (self.feedback == "set" and not coins and self.block < self.k * self.repeats):
            raise ValueError(f"exploration={self.exploration!r} does not go with the other settings")

    # --- where they come from --------------------------------------------------------------------

    @classmethod
    def tight(
        cls,
        n_items: int,
        k: int,
        rounds: int,
        share: Share,
        *,
        exploration: str = "blocks",
        feedback: str = "set",
        rate: float | str | None = None,
        exploration_rate: float | None = None,
        block: int | None = None,
        repeats: int | None = None,
        bound: float = 1.0,
        labels: Sequence[Any] | None = None,
    ) -> BanditSettings:
        """The numbers with the smallest certified regret within ``share``, given those already settled.

        For blocks, ``rate=None`` are falling rates, which learn faster and certify less, and ``"certified"``
        is the fixed rate that certifies most.
        """
        common = _common(n_items, k, rounds, bound, labels, exploration, feedback)
        given = _given(exploration, feedback, common["k"], rate, exploration_rate, block, repeats)
        named = common.pop("labels")  # not part of what is compared
        shape = (common["n_items"], common["k"], common["rounds"], common["bound"])
        search = Search(*shape, share, partial(cls, **common, labels=None, **_PLAIN))
        fixed = None if isinstance(given["rate"], str) else given["rate"]
        if feedback == "slots":
            found = search.slots(given["block"])
        elif exploration == "blocks":
            found = search.blocks(given["rate"], given["block"], given["repeats"])
        elif exploration == "presampled":
            found = search.presampled(fixed, given["block"])
        else:
            every_round = exploration == "every_round"
            found = search.coins(fixed, given["exploration_rate"], given["block"], every_round=every_round)
        return replace(found, labels=named)

    @classmethod
    def published(
        cls,
        n_items: int,
        k: int,
        rounds: int,
        share: Share,
        *,
        exploration: str,
        feedback: str = "set",
        bound: float = 1.0,
        labels: Sequence[Any] | None = None,
    ) -> BanditSettings:
        """The constants of paper 000: Algorithm 3, Appendix B.1 or B.2.

        Where the exploration rate comes out above 1 a warning says so, and every round explores. The rate of
        B.2 depends on how many rounds were picked, so it is not yet the one of `with_explorations`.
        """
        common = _common(n_items, k, rounds, bound, labels, exploration, feedback, "published")
        if exploration == "blocks" or feedback == "slots":
            raise ValueError(
                'calibration="published" is for exploration="online", "presampled" or "every_round" with'
                ' feedback="set"; blocks and slots are not in the paper'
            )
        if not share.private or share.delta == 0.0:
            raise ValueError(
                'calibration="published" needs a finite epsilon and delta > 0; its constants depend on both'
            )
        n_items, k, rounds, bound = (common[name] for name in ("n_items", "k", "rounds", "bound"))
        epsilon, delta = share.budget.epsilon, share.delta
        if n_items == 1:
            chance = 1.0
        elif exploration == "every_round":
            chance = limits.published_direct_exploration(n_items, k, rounds, epsilon, delta)
        else:
            chance = limits.published_exploration(n_items, k, rounds)
        if chance > 1.0:
            warnings.warn(
                f"the published exploration rate is {chance:.3g} at n_items={n_items}, k={k},"
                f" rounds={rounds}: above 1, so every round explores and no learned set is ever served. See"
                " docs/errata.md.",
                PublishedCalibrationWarning,
                stacklevel=4,
            )
        chance = min(chance, 1.0)
        if exploration == "every_round":
            rate = bounds.published_rate(k, rounds, epsilon, delta, bound)
        else:  # Algorithm 3 allows for twice as many explorations as expected.
            rate = epsilon / (k * math.sqrt(32.0 * 2.0 * chance * rounds * math.log(k / delta)) * bound)
        options = _PLAIN | {"rate": rate, "exploration_rate": chance, "centred": False}
        options |= {"after_exploring": exploration != "every_round", "picked": exploration == "presampled"}
        return cls(**common, **options, block=1)

    def with_explorations(self, explorations: int, budget: Budget) -> BanditSettings:
        """The same once so many rounds were picked in advance."""
        rate = presampled_rate(self.k, explorations, budget, self.bound)
        return replace(self, explorations=explorations, rate=rate)

    # --- what follows from them ------------------------------------------------------------------

    @property
    def entries(self) -> int:
        return self.n_items * (5 if self.feedback == "slots" else self.k)

    @property
    def scale(self) -> float:
        """The scale of the noise on the average of an exploration sample."""
        return 0.0 if self.noise is None else float(self.noise.scale) / self.repeats

    def rate_after(self, blocks: int) -> float:
        """The learning rate on averages, for sets drawn after so many blocks."""
        if self.rate is not None:
            return self.rate
        return limits.falling_rate(self.n_items, blocks, self.scale, self.bound)

    @property
    def releases(self) -> list[tuple[str, Event, int]]:
        """Everything that can depend on one person, over the whole run: (label, event, count).

        A round that does not explore teaches nothing. One that does moves one item of one expert by at most
        ``bound``, for people replaced as for people who come or go, so only that expert's later draws count,
        each with a privacy loss in an interval of length rate * bound. Which rounds explore, and what, are
        public coins.
        """
        rounds = self.rounds
        if self.noise is not None:
            slots = self.feedback == "slots"
            some = rounds > 1 if slots else rounds >= self.block
            return [(COUNTS if slots else SUMS, self.noise, 1)] if some else []
        assert self.rate is not None
        found: list[tuple[str, Event, int]] = []
        if self.picked:
            assert self.explorations is not None
            draws = min(self.explorations, rounds - 1)
        elif self.after_exploring:
            assert self.exploration_rate is not None
            draws = min(rounds - 1, math.floor(2.0 * self.exploration_rate * rounds * (1.0 + 1e-12)))
            if tail := limits.too_many_explorations(rounds, self.exploration_rate):
                found = [(TAIL, ApproximateRelease(0.0, tail), 1)]
        else:
            draws = redraws(rounds, self.block)
        return [(DRAWS, ExponentialChoice(self.rate, self.bound), draws), *found] if draws else found

    @property
    def too_short(self) -> bool:
        """Whether an expert cannot come to prefer an item: it is tried too seldom for the noise or the rate.

        With noise the standard error of an item's value stays above a quarter of the bound; without, the
        weights of an item that is worth the bound and of one that is worth nothing stay within a factor e.
        """
        if self.feedback == "slots" or self.k == self.n_items:
            return False
        if self.noise is not None:
            tried = self.horizon / (self.block * self.n_items)
            variance = 0.25 / self.repeats + 2.0 * (float(self.noise.scale) / self.bound / self.repeats) ** 2
            return variance > tried / 16.0
        if self.rate is None or self.exploration_rate is None:
            return False  # not known yet
        tried = self.exploration_rate * self.horizon / (self.k * self.n_items)
        return self.rate * self.bound * tried < 1.0

    def check_noise(self, neighbours: str) -> None:
        """Refuse noise that is not for what one person can move, or sums that would not fit into 63 bits."""
        if self.noise is None:
            return
        slots = self.feedback == "slots"
        moves = score_range(self.bound, neighbours) if slots else self.bound
        scale, terms = exact(self.noise.scale), self.rounds if slots else self.repeats
        if exact(self.noise.sensitivity) != exact(moves) or 0 < scale < exact(self.bound) * terms / 2**30:
            raise ValueError(f"noise={self.noise} is not for what one person can move, {moves:g}")

    @property
    def certified_regret(self) -> float:
        """Bound on the expected (1 - 1/e)-regret of the whole run (see `bounds.bandit`)."""
        return min(bounds.trivial(self.rounds, self.bound), self._regret(clipped=True))

    @property
    def unclipped_regret(self) -> float:
        """The certificate without the trivial bound, to compare settings by."""
        return self._regret(clipped=False)

    def _regret(self, *, clipped: bool) -> float:
        # A rate that knows how often it will explore: the proof does not hold, see docs/errata.md. And no
        # bound is known for slots.
        if self.picked or self.feedback == "slots":
            return math.inf
        shape = (self.n_items, self.k, self.rounds)
        common: dict[str, Any] = {"bound": self.bound, "clipped": clipped}
        if self.exploration_rate is None:
            numbers = (self.block, self.repeats)
            return limits.blocks(*shape, *numbers, rate=self.rate, noise=self.scale, **common)
        assert self.rate is not None
        every = 1 if self.after_exploring else self.block
        return limits.coins(*shape, self.exploration_rate, self.rate, every, centred=self.centred, **common)

    @property
    def leading_terms(self) -> float:
        """What the certificate of falling rates comes to for long streams."""
        shape = (self.n_items, self.k, self.rounds, self.block, self.repeats)
        return limits.falling_blocks_size(*shape, self.scale, self.bound)


# What is so unless it is said otherwise.
_PLAIN: dict[str, Any] = {
    "repeats": 1,
    "rate": None,
    "exploration_rate": None,
    "after_exploring": False,
    "picked": False,
    "centred": True,
    "noise": None,
    "explorations": None,
}


def presampled_rate(k: int, explorations: int, budget: Budget, bound: float = 1.0) -> float:
    """The learning rate of Appendix B.2, for so many rounds picked in advance."""
    spread = math.sqrt(32.0 * (explorations + 1) * math.log(k / budget.delta))
    return budget.epsilon / (k * spread * bound)


def _common(
    n_items: int,
    k: int,
    rounds: int,
    bound: float,
    labels: Sequence[Any] | None,
    exploration: str,
    feedback: str,
    calibration: str = "tight",
) -> dict[str, Any]:
    horizon = checks.whole("rounds", rounds, at_least=1, at_most=MOST_ROUNDS)
    return common_settings(n_items, k, horizon, bound, labels, calibration) | {
        "exploration": checks.one_of("exploration", exploration, EXPLORATIONS),
        "feedback": checks.one_of("feedback", feedback, FEEDBACK),
    }


def _given(
    exploration: str,
    feedback: str,
    k: int,
    rate: float | str | None,
    exploration_rate: float | None,
    block: int | None,
    repeats: int | None,
) -> dict[str, Any]:
    """The numbers that were given, checked; those that these exploration settings do not use are refused."""
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
