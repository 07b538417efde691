"""Set selection by Thompson sampling, from private sums of blocks of rounds."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..core import checks
from ..core.options import BanditFeedback
from ..core.state import in_range
from ..core.text import track
from ..kernels.selection import add_set, subtract_outer
from ..objectives.rows import Rows
from ..privacy import Entry, Gate, LaplaceNoise, PublicRandomness, Seed, Share
from ..privacy.accountant import Spending
from ..privacy.conversions import exact
from .bandit import FEEDBACK, RewardSum, RewardUnits, check_reward_noise, reward_noise, warn_if_too_short
from .catalogue import Catalogue
from .learner import OnlineSelector, Rounds, SelectorSettings, Stream, common_settings, tightened
from .partial import About, Partial, SumLayout, SummedPart
from .pending import Ticket
from .released import Estimates, Released
from .sums import BatchTotal

Floats = NDArray[np.float64]
Features = NDArray[np.int64]

# --- beliefs --------------------------------------------------------------------------------------------


@dataclass
class Independent:
    """Independent normal beliefs about weights of features; observing a sum takes time in their number."""

    mean: Floats
    variance: Floats

    def observe(self, features: Features, value: float, variance: float) -> None:
        """Learn from a sum of weights, with the variance of its error; correlations are neglected."""
        share = self.variance[features] / (self.variance[features].sum() + variance)
        self._learn(features, share, value - self.mean[features].sum())

    def observe_each(self, features: Features, values: Floats, variance: float) -> None:
        """Learn from a value for each feature."""
        share = self.variance[features] / (self.variance[features] + variance)
        self._learn(features, share, values - self.mean[features])

    def _learn(self, features: Features, share: Floats, errors: Any) -> None:
        self.mean[features] += share * errors
        self.variance[features] -= share * self.variance[features]

    def widen(self, amount: float, most: float) -> None:
        """Age what was learned: add ``amount`` to every variance, up to ``most``."""
        np.minimum(self.variance + amount, most, out=self.variance)

    def draw(self, generator: np.random.Generator, spread: float) -> Floats:
        """Random weights: the mean, plus normal noise of ``spread`` posterior standard deviations."""
        noise = generator.standard_normal(self.mean.size)
        return np.asarray(self.mean + spread * np.sqrt(self.variance) * noise)

    def grow(self, more: int, mean: float, deviation: float) -> None:
        """Add ``more`` weights with this prior mean and standard deviation."""
        self.mean = np.concatenate((self.mean, np.full(more, mean)))
        self.variance = np.concatenate((self.variance, np.full(more, deviation**2)))

    def apart(self) -> Independent:
        """The same beliefs without correlations."""
        return self


class Joint:
    """Joint normal beliefs about all weights: ``root`` times its transpose is their covariance.

    An observation changes the root by one outer product (Potter's square-root form of the Kalman filter), so
    that neither it nor a draw needs a decomposition. Single precision takes half the time and is far finer
    than the noise on observations.
    """

    def __init__(self, mean: Floats, root: NDArray[Any]) -> None:
        self.mean, self.root = mean, root.astype(np.float32)

    def observe(self, features: Features, value: float, variance: float) -> None:
        """Learn from a sum of weights, with the variance of its error."""
        along = self.root[features].sum(axis=0)
        total = float(along @ along) + variance
        towards = self.root @ along
        self.mean += towards * ((value - float(self.mean[features].sum())) / total)
        shrunk = along / np.float32(total * (1.0 + math.sqrt(variance / total)))
        subtract_outer(self.root, towards, shrunk)

    def draw(self, generator: np.random.Generator, spread: float) -> Floats:
        """Random weights: the mean, plus normal noise with ``spread`` times the root of the covariance."""
        noise = self.root @ generator.standard_normal(self.mean.size, dtype=np.float32)
        return np.asarray(self.mean + spread * noise)

    def grow(self, more: int, mean: float, deviation: float) -> None:
        """Add ``more`` weights with this prior mean and standard deviation."""
        self.mean = np.concatenate((self.mean, np.full(more, mean)))
        self.root = np.pad(self.root, (0, more))
        new = range(self.mean.size - more, self.mean.size)
        self.root[new, new] = deviation

    def apart(self) -> Independent:
        """The same beliefs without correlations."""
        return Independent(self.mean, np.square(self.root.astype(np.float64)).sum(axis=1))


Posterior = Independent | Joint


def root_of(own: float, common: float, size: int) -> Floats:
    """The symmetric square root of the matrix own^2 I + common^2 J, where J is all ones."""
    shift = (math.sqrt(own * own + size * common * common) - own) / size
    return own * np.eye(size) + shift


class Beliefs:
    """Beliefs about ``size`` weights, joint (``together``) or independent, from released averages of blocks.

    The first ``warm_up`` blocks are stored: they determine how large values are, and so the prior (`_begin`).
    """

    _state: ClassVar[tuple[str, ...]] = ("_shown", "_values", "_weights")

    def __init__(self, warm_up: int, size: int, together: bool) -> None:
        self._warm_up, self._size, self._together = warm_up, size, together
        self._shown: list[NDArray[Any]] = []
        self._values: list[Floats] = []
        self._posterior: Posterior | None = None

    def _begin(self, values: Floats) -> Posterior:
        """The prior, scaled by how large the values of the first blocks are."""
        raise NotImplementedError

    def _learn(self, posterior: Posterior, shown: NDArray[Any], values: Floats, part: float = 1.0) -> None:
        """Learn from the averages of one block, or of ``part`` of its rounds."""
        raise NotImplementedError

    def observe(self, shown: NDArray[Any], values: Floats, part: float = 1.0) -> None:
        """Learn from the released averages of ``part`` of a block's rounds, in units of the bound."""
        if self._posterior is not None:
            self._learn(self._posterior, shown, values, part)
            return
        self._shown, self._values = [*self._shown, shown], [*self._values, values]
        if len(self._shown) >= self._warm_up:  # later, where an interruption came when the last one was there
            begun = self._begin(np.array(self._values))
            for one, known in zip(self._shown, self._values, strict=True):
                self._learn(begun, one, known)
            self._posterior = begun

    @property
    def _weights(self) -> dict[str, NDArray[Any]] | None:
        """The beliefs as arrays, for saving."""
        return None if self._posterior is None else dict(vars(self._posterior))

    @_weights.setter
    def _weights(self, weights: dict[str, NDArray[Any]] | None) -> None:
        self._posterior = None
        if weights is not None:
            self._begin(np.array(self._values))  # also sets the scale of values
            self._posterior = Joint(**weights) if self._together else Independent(**weights)


# --- settings -------------------------------------------------------------------------------------------

_MOST_TOGETHER = 300  # items with joint beliefs, which take time in the square of their number
_LONGEST = 1 << 30
_MANY = 1000  # from this many items on, most are seen once or never, and promising ones again sooner
_SHORTEST = {"bandit": 10, "slots": 20}  # rounds of a block where noise does not matter


@dataclass(frozen=True, kw_only=True)
class ThompsonSettings(SelectorSettings):
    """Settings of `ThompsonSelector`: ``noise`` is that on one block's sum, or on its counts."""

    feedback: BanditFeedback = "bandit"
    block: int
    forget: float = 0.0
    noise: LaplaceNoise

    @classmethod
    def tight(
        cls, n_items: int, k: int, rounds: int | None, share: Share, **options: Any
    ) -> ThompsonSettings:
        """Settings for the given ``options``, with blocks that are long enough for the noise.

        >>> import discreet as dc
        >>> budget = dc.Budget(0.5).share()
        >>> [ThompsonSettings.tight(9, 2, None, budget, feedback=one).block for one in ("bandit", "slots")]
        [60, 82]
        """
        bound, labels = options.pop("bound", 1.0), options.pop("labels", None)
        common = common_settings(n_items, k, rounds, bound, labels)
        feedback = checks.one_of("feedback", options.get("feedback", "bandit"), FEEDBACK)
        block = options.pop("block", None)
        if block is None:
            epsilon = float(share.epsilon) if share.private else math.inf
            shows = 50.0 if common["n_items"] < _MANY else 35.0
            wanted = 30.0 / epsilon if feedback == "bandit" else shows / epsilon**0.7
            block = min(max(math.ceil(wanted), _SHORTEST[feedback]), _LONGEST)
        block = checks.whole("block", block, at_least=1, at_most=_LONGEST)
        noise = reward_noise(share, feedback, common["bound"], block)
        return cls(**common, **options, block=block, noise=noise)

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.real("forget", self.forget, at_least=0.0, at_most=1.0)

    @property
    def scale(self) -> float:
        """The scale of the noise on a block's sum, in units of the bound."""
        return float(self.noise.scale) / self.bound

    @property
    def ends(self) -> range:
        """The first rounds of all blocks but the first; the last one may come after all rounds."""
        return range(self.block, (self.rounds or 1 << 62) + self.block, self.block)

    @property
    def width(self) -> int:
        """How many numbers a block releases."""
        return self.k if self.feedback == "slots" else 1

    @property
    def too_short(self) -> bool:
        """Whether the standard error of an item's value stays above a tenth of the bound."""
        if self.feedback == "slots" or self.rounds is None or self.k == self.n_items:
            return False
        looks = self.rounds / self.block * self.k / self.n_items
        variance = 0.25 / self.block + 2.0 * (self.scale / self.block) ** 2
        return variance > 0.01 * looks

    @property
    def together(self) -> bool:
        """Whether beliefs about items are joint rather than independent."""
        return self.feedback == "bandit" and not self.forget and self.n_items <= _MOST_TOGETHER

    @property
    def slot_beliefs(self) -> tuple[float, float, float]:
        """For slots: prior mean and deviation of an item, and the spread of draws."""
        return _SLOT_FEW if self.n_items < _MANY else _SLOT_MANY


# --- items ----------------------------------------------------------------------------------------------

# The first WARM_UP blocks show random sets and determine how large values are. _OWN and _COMMON are the prior
# deviations of items' values, in units of the mean value per item. _SPREAD_* is how many posterior deviations
# drawn weights stray from the mean. All were chosen on eshop_clicks and on synthetic streams (product
# display, baskets, favourites); benchmarks/bandit.py describes how.
WARM_UP = 8
_OWN, _COMMON = 1.5, 1.0
_SPREAD_TOGETHER, _SPREAD_ALONE = 0.4, 0.5
# For slots: prior mean, deviation and spread. The mean is high, so that every item is shown early; lower with
# many items, where a promising item would otherwise wait for all unseen ones. The numbers for many items were
# chosen on synthetic catalogues only (benchmarks/bandit.py).
_SLOT_FEW, _SLOT_MANY = (4.0, 8.0, 0.15), (2.0, 12.0, 0.05)


class ItemValues(Beliefs):
    """Beliefs about every item, from released averages of blocks in units of the bound."""

    def __init__(self, settings: ThompsonSettings) -> None:
        super().__init__(WARM_UP, settings.n_items, settings.together)
        self._settings, self._slots = settings, settings.feedback == "slots"
        self._own = self._error = 0.0

    def believed(self) -> tuple[Floats, Floats] | None:
        """Posterior mean and deviation of every item, NaN for unseen ones; None before the prior is set."""
        if self._posterior is None:
            return None
        apart = self._posterior.apart()
        seen = np.where(apart.variance < 0.9 * self._own**2, 1.0, np.nan)
        return apart.mean * seen, np.sqrt(apart.variance) * seen

    def start(self, means: Floats, deviations: Floats) -> None:
        """Start from what was released elsewhere, in place of the first blocks, which show random sets.

        NaN marks a new item. Nothing changes where fewer items are known than a set has.
        """
        settings, known = self._settings, np.isfinite(means) & np.isfinite(deviations)
        if np.count_nonzero(known) < settings.k:
            return
        # New items get the prior that follows random blocks: scaled by the mean of all items, not by that of
        # the best, with which every new item would seem promising. For sets, unknown items count as 0.
        typical = float(means[known].mean() if self._slots else means[known].sum() / known.size * settings.k)
        shown = np.flatnonzero(known)[: settings.k].astype(np.int32)
        self._shown, self._values = [shown] * WARM_UP, [np.full(settings.width, typical)] * WARM_UP
        begun = self._begin(np.array(self._values))
        if isinstance(begun, Joint):
            begun.root = np.diag(np.where(known, deviations, self._own)).astype(np.float32)
        else:
            begun.variance = np.where(known, deviations**2, begun.variance)
        begun.mean = np.where(known, means, begun.mean)
        self._posterior = begun

    def grow(self, settings: ThompsonSettings) -> None:
        """Add new items with the prior that all items started with."""
        more, self._settings = settings.n_items - self._size, settings
        self._size, self._together = settings.n_items, settings.together
        if self._posterior is not None:
            self._posterior = self._posterior if self._together else self._posterior.apart()
            self._begin(np.array(self._values))  # sets the scale of values for this number of items
            self._posterior.grow(more, self._first_mean, self._own)

    def _begin(self, values: Floats) -> Posterior:
        self._own, self._error = self._scales(values)
        if self._together:
            return Joint(np.zeros(self._size), root_of(self._own, _COMMON / _OWN * self._own, self._size))
        return Independent(np.full(self._size, self._first_mean), np.full(self._size, self._own**2))

    @property
    def _first_mean(self) -> float:
        start, own, _ = self._settings.slot_beliefs
        return start / own * self._own if self._slots else 0.0

    def _scales(self, values: Floats) -> tuple[float, float]:
        """The prior deviation of items' values, and the variance of a released average.

        A mean that is smaller than the noise in it is taken to be as large as that noise.
        """
        settings = self._settings
        noise = 2.0 * (settings.scale / settings.block) ** 2
        least = math.sqrt(noise / values.size) + 0.5 / (settings.block * values.size)
        mean = min(max(float(values.mean()), least), 1.0)
        error = max(mean * (1.0 - mean), 0.25 * mean) / settings.block + noise
        if self._slots:
            return settings.slot_beliefs[1] * mean, error
        own = _OWN if self._together else math.hypot(_OWN, _COMMON)
        return own * mean / settings.k, error

    def _learn(self, posterior: Posterior, shown: NDArray[Any], values: Floats, part: float = 1.0) -> None:
        items, error = shown.astype(np.int64), self._error / part
        if isinstance(posterior, Independent) and self._slots:
            posterior.observe_each(items, values, error)
        else:
            posterior.observe(items, float(values[0]), error)
        if isinstance(posterior, Independent) and self._settings.forget:
            posterior.widen(self._settings.forget * self._own**2, self._own**2)

    def suggest(self, generator: np.random.Generator, active: NDArray[np.bool_] | None = None) -> Any:
        """A set of ``active`` items: random at first, then the best for weights drawn from the posterior."""
        k, size = self._settings.k, self._size
        if self._posterior is None:
            among = size if active is None else np.flatnonzero(active)
            return generator.choice(among, size=k, replace=False).astype(np.int32)
        spread = _SPREAD_TOGETHER if self._together else _SPREAD_ALONE
        weights = self._posterior.draw(generator, self._settings.slot_beliefs[2] if self._slots else spread)
        if active is not None:
            weights[~active] = -np.inf
        top = np.argpartition(-weights, k - 1)[:k] if k < size else np.arange(size)
        return top[np.argsort(-weights[top], kind="stable")].astype(np.int32)


# --- the learner ----------------------------------------------------------------------------------------

LABEL = "noisy sums of what was shown in a block of rounds"
_UNITS = 32
_LEAST_PART = 0.25  # blocks with a smaller part of rounds that showed their set are not learned from


@dataclass
class Block:
    """The items of a block, the sums of its rewards in units, and how many rewards are to come.

    ``skipped`` rounds showed other items, because some were not available.
    """

    items: NDArray[np.int32]
    sums: NDArray[np.int64]
    left: int
    skipped: int = 0


class BlockFeedback(RewardSum):
    """One set for each block of rounds, whose sums are released once, when its last reward has arrived.

    Blocks are ranges of round numbers. A late reward goes to the block of its round, which waits for it, so
    every round is in exactly one sum.
    """

    _state = ("_values", "_public", "_block", "_released", "_current", "_blocks")

    def __init__(self, settings: ThompsonSettings, gate: Gate, public: PublicRandomness) -> None:
        super().__init__(settings)
        self._public = public
        self._total = BatchTotal(gate, settings.noise, exact(settings.bound) / 2**_UNITS, label=LABEL)
        self.units = RewardUnits.of_step(settings, self._total.step)
        self._part = float(self._total.step / exact(settings.bound)) / settings.block
        self._values = ItemValues(settings)
        self._open: dict[int, Block] = {}
        self._block = -1
        self._current = np.full(settings.k, -1, dtype=np.int32)
        self._released = 0

    def entries(self) -> Iterator[tuple[Entry, int]]:
        yield self._total.entry, self._released

    def draw(self, round: int, *_: Any) -> NDArray[np.int32]:
        """The set of this round's block."""
        block = round // self._settings.block
        if block != self._block:
            active = None if self._active.all() else self._active
            self._current = self._values.suggest(self._public.generator, active)
            sums = np.zeros(self._settings.width, dtype=np.int64)
            self._open[block] = Block(self._current, sums, self._settings.block)
            self._block = block
        return self._current.copy()

    def current(self) -> NDArray[np.int32]:
        return self._current.copy()

    def ticket(self, round: int) -> Ticket:
        """The block of the round."""
        return (round // self._settings.block,)

    def ready(self, value: Any, ticket: Ticket) -> Any:
        return self.units.of(value, tuple(self._open[ticket[0]].items.tolist()))

    def observe(self, ticket: Ticket, ready: Any) -> None:
        """Add a reward; None, for a round that passes with nothing learned, counts as 0."""
        self.gather(ticket[0], 0 if ready is None else ready, 1)

    def skip(self, ticket: Ticket) -> None:
        """Note a round that showed other items: the block's average is over fewer rounds."""
        self._open[ticket[0]].skipped += 1
        self.gather(ticket[0], 0, 1)

    def gather(self, number: int, sums: Any, rounds: int) -> None:
        """Add the sums of this many rounds of a block; after its last round, release them with noise.

        The block is removed first: an interruption may lose its people, never release them twice.
        """
        block = self._open[number]
        block.sums += sums
        block.left -= rounds
        if block.left > 0:
            return
        del self._open[number]
        self._released = 1
        noisy = self._total.noisy(block.sums)
        part = 1.0 - block.skipped / self._settings.block
        if part >= _LEAST_PART:
            self._values.observe(block.items, noisy.astype(np.float64) * (self._part / part), part)

    def summed(self, shown: NDArray[np.int32]) -> SumLayout:
        """The layout of what people add in a part on another server."""
        counted = partial(self.units.read, partial(self.units.of, shown=tuple(shown.tolist())))
        return SumLayout((self._settings.width,), 0, self.units.most, counted)

    def check(self, sums: NDArray[np.int64], people: int) -> None:
        """Refuse sums of a part that its people cannot have."""
        if int(sums.sum()) > people * self.units.most:
            raise ValueError("the part holds sums that its people cannot have; it was not made here")

    def estimates(self, round: int) -> Estimates:
        """Beliefs about the items, in units of value."""
        believed = self._values.believed()
        if believed is None:
            return None, 0, None
        means, deviations = (numbers * self._settings.bound for numbers in believed)
        return means, round, deviations

    def start(self, start: Released) -> None:
        """Start from estimates released elsewhere, if they have deviations."""
        if start.values is not None and start.deviations is not None:
            bound = self._settings.bound
            self._values.start(start.values / bound, start.deviations / bound)

    def grown(self, settings: ThompsonSettings, number: int) -> None:  # noqa: ARG002
        """Add more items, from the next block on."""
        self._values.grow(settings)
        self._settings = settings

    def run_rows(self, stream: Stream, rows: Rows, rounds: Rounds) -> None:
        length, first = self._settings.block, rounds.number
        last = first + int(stream.rewards.size)
        for number in track(range(first // length, -(-last // length)), "blocks", stream.progress):
            start, stop = rounds.number, min(last, (number + 1) * length)
            part = slice(start - first, stop - first)
            stream.selections[part] = rounds.shown = self.draw(start)
            rounds.close(stop - start, then=partial(self._add_rows, stream, rows, part, number))

    def _add_rows(self, stream: Stream, rows: Rows, part: slice, number: int) -> None:
        block, units = self._open[number], (self.units.per_one, self.units.most)
        here = stream.part(part)
        add_set(here, rows.compressed, part.start, block.items, units, self.units.by_slot, block.sums)
        self.gather(number, 0, part.stop - part.start)

    @property
    def _blocks(self) -> list[tuple[Any, ...]]:
        return [(number, one.items, one.sums, one.left, one.skipped) for number, one in self._open.items()]

    @_blocks.setter
    def _blocks(self, blocks: list[tuple[Any, ...]]) -> None:
        self._open = {number: Block(*one) for number, *one in blocks}
        if any(not in_range(one.items, self._settings.n_items) for one in self._open.values()):
            raise ValueError("a block shows unknown items")


class ThompsonSelector(OnlineSelector):
    """Thompson sampling (Thompson 1933) for sets of k items, on sums released once per block of rounds.

    All rounds of a block show one set. Their rewards are summed and released once, with Laplace noise. The
    released sums give a normal posterior of each item's value, and the next set is the best one for weights
    drawn from it. The first 8 blocks show random sets, which determine how large values are.

    ``feedback="bandit"``: a reward is the value of the set, in [0, ``bound``], and a block of 30 / epsilon
    rounds releases one sum. The model takes a set's value to be the sum of its items' weights. Beliefs about
    up to 300 items are joint, which takes time in the square of their number once per block; about more items
    they are independent.

    ``feedback="slots"``: a reward is the item that was taken, None, or one number per slot, with a sum of at
    most ``bound``. A block of 50 / epsilon^.7 rounds (35, from 1,000 items on) releases one count per slot.
    An item's reward is its marginal gain given those above it, so the list is in the order of drawn weights.

    ``forget`` is for tastes that drift: after every block each item's variance grows by that part of its
    initial value, and never beyond it. 0.01 follows tastes that change within some hundred blocks, and earned
    twice as much where they did. Where nothing changes it loses about a tenth of the reward. With it, beliefs
    about items are independent.

    It earns far more than `BanditSelector` at practical sizes, but certifies nothing: `certified_regret` is
    infinite. The model is wrong for sets whose items substitute for each other (it then only learns their
    value beside the items that they are usually shown with). The number of rounds need not be known:
    ``rounds=None`` is for any number.

    Late rewards: ``choose(wait=False)`` moves on without the last reward, and ``learn(value, round=r)``
    supplies it later. A block waits for the last of its rewards and is learned from then, while new blocks
    continue. That rewards come late, or never, is taken to be public; for one that will never come, 0 (None
    for slots) lets the others of its block be learned.

    Guarantee: pure epsilon, for any number of rounds. Blocks are ranges of round numbers, so nobody's round
    is in two sums, and one release is charged. A person whose reward is replaced, or whose round passes
    with nothing learned, moves one sum by at most ``bound``: two values in [0, ``bound``] differ by at most
    that. With slots the counts move by 2 ``bound`` in L1 when a person is replaced, as the new one may take
    another item, and by ``bound`` when one is added or removed, however many slots there are. Which items
    were shown follows from earlier sums and public randomness, so other items' counts need no noise.
    Everything after that is post-processing, also if later people depend on what was shown. Rewards are
    summed in integer steps of a grid, with noise on the same grid.

    >>> import discreet as dc
    >>> people = dc.objectives.Coverage([[1, 0, 0], [1, 1, 0]] * 2000)
    >>> learner = ThompsonSelector(3, 1, None, dc.Budget(1.0), seed=0)
    >>> shown = learner.choose()
    >>> learner.learn(1.0)  # what the set was worth to the person who saw it
    >>> learner.run(people[1:]).average > 0.9, learner.privacy.epsilon()
    (True, 1.0)
    """

    settings: ThompsonSettings
    _sum: BlockFeedback
    _settings_type: ClassVar[type[ThompsonSettings]] = ThompsonSettings
    _state = ("_sum",)
    _rewarded, _batched, _grows = True, False, True

    def __init__(
        self,
        n_items: int,
        k: int,
        rounds: int | None,
        budget: Spending,
        *,
        feedback: BanditFeedback = "bandit",
        block: int | None = None,
        forget: float = 0.0,
        bound: float = 1.0,
        labels: Sequence[Any] | None = None,
        start: Released | OnlineSelector | None = None,
        seed: Seed = None,
    ) -> None:
        super().__init__(*tightened(ThompsonSettings, locals()))
        warn_if_too_short(self.settings)

    def _begin(self) -> None:
        check_reward_noise(self.settings, self.budget.neighbours, self.settings.block)
        self._sum = BlockFeedback(self.settings, self._gate, self._gate.public_randomness())

    # A part contains the sums of its rounds, all of which show the set of the open block.

    def _check_divisible(self) -> None:
        begun = self._rounds.is_open or self._rounds.number % self.settings.block
        if begun and not self._active()[self._sum.current()].all():
            raise RuntimeError(
                "an item of the open block was retired, so that its rounds show another set; ask for parts"
                " when the next block has begun"
            )

    def _part(self, about: About) -> Partial:
        units, summed = self._sum.units, self._summed()
        given = partial(units.read, units.named, Catalogue(self.settings.n_items, self.settings.labels))
        return SummedPart(about, given, summed.shape, summed.units)

    def _add_sums(self, sums: NDArray[np.int64], count: int) -> None:
        self._sum.gather((self._rounds.number - 1) // self.settings.block, sums, count)
