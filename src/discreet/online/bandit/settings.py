"""How a bandit learner explores, and with which numbers: all that is decided before the first round."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

from ... import bounds
from ...bounds import bandit as limits
from ...bounds import trivial
from ...core.state import Saved
from ...privacy import ApproximateRelease, Budget, Event, ExponentialChoice, LaplaceNoise
from ...privacy.conversions import exact
from ...privacy.published import PublishedCalibrationWarning

EXPLORATIONS = ("blocks", "online", "presampled", "every_round")
DRAWS = "items drawn by bandit experts (only the expert that explored can be moved)"
SCALARS = "noisy sums of what exploring sets were worth (nobody is in two of them)"
TAIL = "chance that more rounds explore than the published rate allows for"
# Measured on streams of several kinds: with fewer tries of each item, exploring half of the time serves less
# than sets at random do.
_FEWEST_TRIES = 4
_SELDOM = 32


@dataclass(frozen=True)
class Exploring:
    """One way to explore.

    ``block`` rounds make a block. With coins (``exploration_rate`` is set) each round explores by chance, and
    a new set is drawn every ``block`` rounds, or (``after_exploring``) right after a round that explored.
    Without, every expert tries one item in each block, ``repeats`` times at random places. ``noise`` is the
    Laplace scale on the sum of those; 0 where the draws themselves protect people. ``rate`` is None for
    falling rates. ``chosen`` are rounds that were picked in advance with the published exploration rate.
    """

    mode: str
    block: int
    repeats: int = 1
    rate: float | None = None
    exploration_rate: float | None = None
    after_exploring: bool = False
    chosen: bool = False
    centred: bool = True
    noise: float = 0.0

    def rate_after(self, n_items: int, blocks: int, bound: float) -> float:
        """The learning rate on averages, for sets drawn after so many blocks."""
        if self.rate is not None:
            return self.rate
        return limits.falling_rate(n_items, blocks, self.noise / self.repeats, bound)

    def certified(
        self, n_items: int, k: int, rounds: int, bound: float = 1.0, *, clipped: bool = True
    ) -> float:
        """The certified regret with these numbers."""
        # A rate that knows how often it will explore: the proof does not hold, see docs/errata.md.
        if self.chosen:
            return trivial(rounds, bound) if clipped else math.inf
        if self.exploration_rate is None:
            return limits.blocks(
                n_items,
                k,
                rounds,
                self.block,
                self.repeats,
                rate=self.rate,
                noise=self.noise / self.repeats,
                bound=bound,
                clipped=clipped,
            )
        assert self.rate is not None
        every = 1 if self.after_exploring else self.block
        return limits.coins(
            n_items,
            k,
            rounds,
            self.exploration_rate,
            self.rate,
            every,
            bound=bound,
            centred=self.centred,
            clipped=clipped,
        )

    def size(self, n_items: int, k: int, rounds: int, bound: float = 1.0) -> float:
        """What the certificate of falling rates comes to for long streams."""
        noise = self.noise / self.repeats
        return limits.falling_blocks_size(n_items, k, rounds, self.block, self.repeats, noise, bound)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def restored(cls, saved: Saved, k: int) -> Exploring:
        """What `to_json` wrote, each number within its range."""
        mode = saved.one_of("mode", EXPLORATIONS)
        coins = saved.given("exploration_rate")
        repeats = saved.whole("repeats", at_least=1)
        way = cls(
            mode,
            saved.whole("block", at_least=1 if coins else k * repeats),
            repeats,
            saved.real("rate", above=0.0) if mode != "blocks" or saved.given("rate") else None,
            saved.real("exploration_rate", above=0.0, at_most=1.0) if coins else None,
            saved.flag("after_exploring"),
            saved.flag("chosen"),
            saved.flag("centred"),
            saved.real("noise", at_least=0.0),
        )
        by_coins = {"blocks": (False,), "presampled": (False, True)}.get(mode, (True,))
        odd = coins not in by_coins or (way.chosen and not coins) or (way.after_exploring and not coins)
        if odd or (mode != "blocks" and (way.noise or repeats > 1)):
            raise ValueError(f"{way} is no way to explore")
        return way


# --- tight ----------------------------------------------------------------------------------------


def tight(
    mode: str,
    n_items: int,
    k: int,
    rounds: int,
    budget: Budget,
    bound: float = 1.0,
    *,
    rate: float | str | None = None,
    exploration_rate: float | None = None,
    block: int | None = None,
    repeats: int | None = None,
) -> Exploring:
    """The numbers with the smallest certified regret, given those that are already settled.

    For blocks, ``rate=None`` are falling rates, which learn faster and certify less, and ``"certified"`` is
    the fixed rate that certifies most. A horizon that is too short for every expert to try every item a few
    times cannot pay for exploring, and nothing is certified for it: then one round in ``_SELDOM`` explores.
    """
    if mode == "blocks":
        options = _blocks(n_items, k, rounds, budget, bound, rate, block, repeats)
        if rate is None:
            best = min(options, key=lambda one: one.size(n_items, k, rounds, bound))
        else:
            best = min(options, key=lambda one: one.certified(n_items, k, rounds, bound, clipped=False))
        if block is None and rounds < _FEWEST_TRIES * n_items * best.block:
            times = repeats or 1
            length = max(best.block, _SELDOM * k * times)
            best = next(_blocks(n_items, k, rounds, budget, bound, rate, length, times))
        return best
    rate = None if isinstance(rate, str) else rate
    if mode == "presampled":
        options = _drawn(n_items, k, rounds, budget, bound, rate, block)
    else:
        options = _coins(mode, n_items, k, rounds, budget, bound, rate, exploration_rate, block)
    return min(options, key=lambda one: one.certified(n_items, k, rounds, bound, clipped=False))


def _blocks(
    n_items: int,
    k: int,
    rounds: int,
    budget: Budget,
    bound: float,
    rate: float | str | None,
    block: int | None,
    repeats: int | None,
) -> Iterator[Exploring]:
    epsilon = float(budget.epsilon_per_round)
    # Averaging more often than this makes the noise of a lesson smaller than the values' own spread.
    most = max(1, min(rounds // k, math.ceil(8.0 / epsilon))) if budget.private else 1
    for times in (repeats,) if repeats is not None else _grid(1, most):
        noise = float(laplace_on_sums(budget, bound, bound, times).scale)
        # Half of the rounds at most explore: whoever cannot learn in those would only show short sets.
        least = 2 * k * times
        for length in (block,) if block is not None else _grid(least, max(rounds, least)):
            if length < k * times:
                continue
            fixed = None if isinstance(rate, str) else rate
            if rate == "certified":
                fixed = limits.best_fixed_rate(n_items, rounds / length, noise / times, bound)
            yield Exploring("blocks", length, times, fixed, noise=noise)


def _drawn(
    n_items: int, k: int, rounds: int, budget: Budget, bound: float, rate: float | None, block: int | None
) -> Iterator[Exploring]:
    for length in (block,) if block is not None else _grid(k, max(rounds, k)):
        wanted = limits.best_fixed_rate(n_items, rounds / length, 0.0, bound)
        yield Exploring("presampled", length, rate=rate or _allowed(budget, bound, rounds, length, wanted))


def _coins(
    mode: str,
    n_items: int,
    k: int,
    rounds: int,
    budget: Budget,
    bound: float,
    rate: float | None,
    exploration_rate: float | None,
    block: int | None,
) -> Iterator[Exploring]:
    chances: Iterable[float] = (exploration_rate,) if exploration_rate is not None else _chances(rounds)
    for chance in chances:
        every = 1 if mode == "every_round" else min(rounds, max(1, round(k / chance)))
        every = every if block is None else block
        wanted = limits.best_fixed_rate(n_items, rounds * chance / k, 0.0, bound)
        yield Exploring(
            mode,
            every,
            rate=rate or _allowed(budget, bound, rounds, every, wanted),
            exploration_rate=chance,
        )


def _allowed(budget: Budget, bound: float, rounds: int, every: int, wanted: float) -> float:
    """The wanted rate, or the largest that the budget allows for a new set every so many rounds."""
    count = redraws(rounds, every)
    if not budget.private or count == 0:
        return wanted
    return min(wanted, ExponentialChoice.within(budget.share(), bound, count).rate)


def _grid(least: int, most: int) -> list[int]:
    """Whole numbers from ``least`` to ``most``, each some tenth larger than the one before."""
    found, at = [], least
    while at < most:
        found.append(at)
        at = max(at + 1, round(at * 1.1))
    return [*found, most]


def _chances(rounds: int) -> list[float]:
    steps = max(1, math.ceil(math.log(rounds) / math.log(1.1)))
    return [1.1**-i for i in range(steps)]


def redraws(rounds: int, every: int) -> int:
    """Sets after the first, which is drawn before anybody has been learned from."""
    return -(-rounds // every) - 1


# --- published ------------------------------------------------------------------------------------


def published(mode: str, n_items: int, k: int, rounds: int, budget: Budget, bound: float = 1.0) -> Exploring:
    """The constants of paper 000: Algorithm 3, Appendix B.1 or B.2.

    Where the exploration rate comes out above 1 a warning says so, and every round explores. The rate of B.2
    depends on how many rounds were picked, so it is left open here (`presampled_rate`).
    """
    epsilon, delta = budget.epsilon, budget.delta
    if n_items == 1:
        chance = 1.0
    elif mode == "every_round":
        chance = limits.published_direct_exploration(n_items, k, rounds, epsilon, delta)
    else:
        chance = limits.published_exploration(n_items, k, rounds)
    if chance > 1.0:
        warnings.warn(
            f"the published exploration rate is {chance:.3g} at n_items={n_items}, k={k}, rounds={rounds}:"
            " above 1, so every round explores and no learned set is ever served. See docs/errata.md.",
            PublishedCalibrationWarning,
            stacklevel=4,
        )
    chance = min(chance, 1.0)
    if mode == "every_round":
        rate = bounds.published_rate(k, rounds, epsilon, delta, bound)
        return Exploring(mode, 1, rate=rate, exploration_rate=chance, centred=False)
    # Algorithm 3 allows for twice as many explorations as expected.
    rate = epsilon / (k * math.sqrt(32.0 * 2.0 * chance * rounds * math.log(k / delta)) * bound)
    return Exploring(
        mode,
        1,
        rate=rate,
        exploration_rate=chance,
        after_exploring=True,
        chosen=mode == "presampled",
        centred=False,
    )


def presampled_rate(k: int, explorations: int, budget: Budget, bound: float = 1.0) -> float:
    """The learning rate of Appendix B.2, for so many rounds picked in advance."""
    spread = math.sqrt(32.0 * (explorations + 1) * math.log(k / budget.delta))
    return budget.epsilon / (k * spread * bound)


# --- what is released -----------------------------------------------------------------------------


def laplace_on_sums(budget: Budget, sensitivity: float, bound: float, terms: int) -> LaplaceNoise:
    """The noise that the budget asks for on sums of ``terms`` values up to ``bound``.

    A noise scale is 2^32 steps. Where an enormous epsilon asks for steps so fine that such a sum would not
    fit into 63 bits, the noise is wider than asked for.
    """
    asked = LaplaceNoise.within(budget.share(), sensitivity)
    if not budget.private:
        return asked
    return replace(asked, scale=max(exact(asked.scale), exact(bound) * terms / 2**30))


def releases(
    way: Exploring, rounds: int, budget: Budget, bound: float, explorations: int | None = None
) -> list[tuple[str, Event, int]]:
    """Everything that can depend on one person, over the whole run: (label, event, how often).

    A round that does not explore teaches nothing. One that does moves one item of one expert by at most
    ``bound``, for people replaced as for people who come or go, so only that expert's later draws count,
    each with a privacy loss in an interval of length rate * bound. Which rounds explore, and what, are public
    coins.
    """
    if way.mode == "blocks":
        noise = laplace_on_sums(budget, bound, bound, way.repeats)
        return [(SCALARS, noise, 1)] if rounds >= way.block else []
    assert way.rate is not None
    event = ExponentialChoice(way.rate, bound)
    if way.chosen:
        assert explorations is not None
        found: list[tuple[str, Event, int]] = [(DRAWS, event, min(explorations, rounds - 1))]
    elif way.after_exploring:
        assert way.exploration_rate is not None
        allowed_for = math.floor(2.0 * way.exploration_rate * rounds * (1.0 + 1e-12))
        found = [(DRAWS, event, min(rounds - 1, allowed_for))]
        if tail := limits.too_many_explorations(rounds, way.exploration_rate):
            found.append((TAIL, ApproximateRelease(0.0, tail), 1))
    else:
        found = [(DRAWS, event, redraws(rounds, way.block))]
    return [one for one in found if one[2] > 0]
