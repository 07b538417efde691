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
    """Normal beliefs about one weight per feature, each on its own: an observation costs as much as it has
    features. What is observed is a sum of weights."""

    mean: Floats
    variance: Floats

    def observe(self, features: Features, value: float, variance: float) -> None:
        """Learn from a sum of weights, with the variance of its error; correlations are left out."""
        share = self.variance[features] / (self.variance[features].sum() + variance)
        self._learn(features, share, value - self.mean[features].sum())

    def observe_each(self, features: Features, values: Floats, variance: float) -> None:
        """Learn from a value of every feature."""
        share = self.variance[features] / (self.variance[features] + variance)
        self._learn(features, share, values - self.mean[features])

    def _learn(self, features: Features, share: Floats, errors: Any) -> None:
        self.mean[features] += share * errors
        self.variance[features] -= share * self.variance[features]

    def widen(self, amount: float, most: float) -> None:
        """What was learned grows old: more variance, up to the one from before anything was."""
        np.minimum(self.variance + amount, most, out=self.variance)

    def draw(self, generator: np.random.Generator, spread: float) -> Floats:
        """Weights at random: the mean, and ``spread`` times what is not known."""
        noise = generator.standard_normal(self.mean.size)
        return np.asarray(self.mean + spread * np.sqrt(self.variance) * noise)

    def grow(self, more: int, mean: float, deviation: float) -> None:
        """More weights, of which nothing is known but this."""
        self.mean = np.concatenate((self.mean, np.full(more, mean)))
        self.variance = np.concatenate((self.variance, np.full(more, deviation**2)))

    def apart(self) -> Independent:
        """The same beliefs, each on its own."""
        return self


class Joint:
    """Normal beliefs about all weights together: ``root`` times its transpose is their covariance.

    An observation changes the root by one outer product (Potter's square-root form of the Kalman filter), so
    that neither it nor a draw needs a decomposition. In single precision, which is far finer than the noise
    on what is observed, and takes half the time.
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
        """Weights at random: the mean, and ``spread`` times what is not known."""
        noise = self.root @ generator.standard_normal(self.mean.size, dtype=np.float32)
        return np.asarray(self.mean + spread * noise)

    def grow(self, more: int, mean: float, deviation: float) -> None:
        """More weights, of which nothing is known but this."""
        self.mean = np.concatenate((self.mean, np.full(more, mean)))
        self.root = np.pad(self.root, (0, more))
        new = range(self.mean.size - more, self.mean.size)
        self.root[new, new] = deviation

    def apart(self) -> Independent:
        """The same beliefs, each on its own."""
        return Independent(self.mean, np.square(self.root.astype(np.float64)).sum(axis=1))


Posterior = Independent | Joint


def root_of(own: float, common: float, size: int) -> Floats:
    """The symmetric root of own^2 on the diagonal and common^2 everywhere."""
    shift = (math.sqrt(own * own + size * common * common) - own) / size
    return own * np.eye(size) + shift


class Beliefs:
    """What is known from released averages of blocks, about ``size`` weights, ``together`` or each alone.

    The first ``warm_up`` blocks are kept as they are: how large values are, and so what is believed before
    anything is known (`_begin`), follows from them.
    """

    _state: ClassVar[tuple[str, ...]] = ("_shown", "_values", "_weights")

    def __init__(self, warm_up: int, size: int, together: bool) -> None:
        self._warm_up, self._size, self._together = warm_up, size, together
        self._shown: list[NDArray[Any]] = []
        self._values: list[Floats] = []
        self._posterior: Posterior | None = None

    def _begin(self, values: Floats) -> Posterior:
        """What is believed before anything is known, by how large the values of the first blocks are."""
        raise NotImplementedError

    def _learn(self, posterior: Posterior, shown: NDArray[Any], values: Floats, part: float = 1.0) -> None:
        """Take up the averages of one block, or of ``part`` of one."""
        raise NotImplementedError

    def observe(self, shown: NDArray[Any], values: Floats, part: float = 1.0) -> None:
        """The released averages of a block, in units of the bound; ``part`` of its rounds are in them."""
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
        """The beliefs, as arrays, for saving."""
        return None if self._posterior is None else dict(vars(self._posterior))

    @_weights.setter
    def _weights(self, weights: dict[str, NDArray[Any]] | None) -> None:
        self._posterior = None
        if weights is not None:
            self._begin(np.array(self._values))  # also notes how large values are
            self._posterior = Joint(**weights) if self._together else Independent(**weights)


# --- settings -------------------------------------------------------------------------------------------

_MOST_TOGETHER = 300  # beliefs about all items together cost the square of their number
_LONGEST = 1 << 30
_MANY = 1000  # items: most of them are seen once or never, and those that look good are seen again sooner
_SHORTEST = {"bandit": 10, "slots": 20}  # rounds of a block where noise is no matter


@dataclass(frozen=True, kw_only=True)
class ThompsonSettings(SelectorSettings):
    """Settings of `ThompsonSelector`: ``noise`` is that of one block's sum, or counts."""

    feedback: BanditFeedback = "bandit"
    block: int
    forget: float = 0.0
    noise: LaplaceNoise

    @classmethod
    def tight(
        cls, n_items: int, k: int, rounds: int | None, share: Share, **options: Any
    ) -> ThompsonSettings:
        """The ``options`` that are given, and blocks that are long enough for the noise.

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
        """The scale of the noise on a block's sum, as a part of the bound."""
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
        """Whether what is believed of items is held together, or of each alone."""
        return self.feedback == "bandit" and not self.forget and self.n_items <= _MOST_TOGETHER

    @property
    def slot_beliefs(self) -> tuple[float, float, float]:
        """Mean and deviation of an item before it is shown, and the spread of draws, for slots."""
        return _SLOT_FEW if self.n_items < _MANY else _SLOT_MANY


# --- items ----------------------------------------------------------------------------------------------

# So many blocks show sets at random, and tell how large values are. The other constants are in units of that
# mean value per item: deviations of what items are worth before anything is known, and (spread) the share of
# what is not known by which drawn weights deviate from the mean. All of them were settled on eshop_clicks and
# on synthetic streams (product display, baskets, favourites); benchmarks/bandit.py says what was looked at.
WARM_UP = 8
_OWN, _COMMON = 1.5, 1.0
_SPREAD_TOGETHER, _SPREAD_ALONE = 0.4, 0.5
# Of slots: start, deviation, spread. The start is high, so that every item is shown before most is known; not
# so high with many items, where an item that looks good would wait for all that nobody has seen. Those for
# many were settled on synthetic catalogues only (benchmarks/bandit.py).
_SLOT_FEW, _SLOT_MANY = (4.0, 8.0, 0.15), (2.0, 12.0, 0.05)


class ItemValues(Beliefs):
    """What is believed of every item, from released averages of blocks in units of the bound."""

    def __init__(self, settings: ThompsonSettings) -> None:
        super().__init__(WARM_UP, settings.n_items, settings.together)
        self._settings, self._slots = settings, settings.feedback == "slots"
        self._own = self._error = 0.0

    def believed(self) -> tuple[Floats, Floats] | None:
        """Mean and deviation of every item, once anything is believed; NaN where nothing was seen."""
        if self._posterior is None:
            return None
        apart = self._posterior.apart()
        seen = np.where(apart.variance < 0.9 * self._own**2, 1.0, np.nan)
        return apart.mean * seen, np.sqrt(apart.variance) * seen

    def start(self, means: Floats, deviations: Floats) -> None:
        """Begin with what was released elsewhere, in place of the first blocks, which show sets at random.

        NaN is an item that is new. Nothing changes where fewer items are known than a set has.
        """
        settings, known = self._settings, np.isfinite(means) & np.isfinite(deviations)
        if np.count_nonzero(known) < settings.k:
            return
        # Of new items as much is believed as after blocks at random: by the mean of all, not by the best,
        # beside which every new one would look worth trying. Of sets, unknown items were believed to add 0.
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
        """Believe of new items what was believed of all before anything was known."""
        more, self._settings = settings.n_items - self._size, settings
        self._size, self._together = settings.n_items, settings.together
        if self._posterior is not None:
            self._posterior = self._posterior if self._together else self._posterior.apart()
            self._begin(np.array(self._values))  # values as large as they are for so many items
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
        """The deviation of what items are worth, and the variance of a released average.

        Averages that noise has made smaller than itself are taken to be as large as the noise.
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
        """A set of ``active`` items: at random at first, then the best for weights of the posterior."""
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
_LEAST_PART = 0.25  # of a block's rounds, with which it tells anything


@dataclass
class Block:
    """The items of a block, the sums of its rewards in units, and how many are to come.

    ``skipped`` rounds showed other items, because some were not available.
    """

    items: NDArray[np.int32]
    sums: NDArray[np.int64]
    left: int
    skipped: int = 0


class BlockFeedback(RewardSum):
    """One set for each block of rounds. Its sums leave once, when the last round's reward is there.

    Blocks are known by the numbers of their rounds. A reward that comes late goes to the block of its round,
    which waits for it, and so a round is in one sum whatever happens.
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
        """Take up a reward; None is somebody whose round passes with nothing learned, of value 0."""
        self.gather(ticket[0], 0 if ready is None else ready, 1)

    def skip(self, ticket: Ticket) -> None:
        """Other items were shown: the average is one of fewer rounds."""
        self._open[ticket[0]].skipped += 1
        self.gather(ticket[0], 0, 1)

    def gather(self, number: int, sums: Any, rounds: int) -> None:
        """Take up the sums of this many rounds of a block; after its last one they leave, with noise.

        The block is dropped first: an interruption may lose its people, never release them twice.
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
        """What people add in a part on another server."""
        counted = partial(self.units.read, partial(self.units.of, shown=tuple(shown.tolist())))
        return SumLayout((self._settings.width,), 0, self.units.most, counted)

    def check(self, sums: NDArray[np.int64], people: int) -> None:
        """Refuse sums of a part that its people cannot have."""
        if int(sums.sum()) > people * self.units.most:
            raise ValueError("the part holds sums that its people cannot have; it was not made here")

    def estimates(self, round: int) -> Estimates:
        """What is believed of the items, in units of value."""
        believed = self._values.believed()
        if believed is None:
            return None, 0, None
        means, deviations = (numbers * self._settings.bound for numbers in believed)
        return means, round, deviations

    def start(self, start: Released) -> None:
        """Begin with what is believed of the items."""
        if start.values is not None and start.deviations is not None:
            bound = self._settings.bound
            self._values.start(start.values / bound, start.deviations / bound)

    def grown(self, settings: ThompsonSettings, number: int) -> None:  # noqa: ARG002
        """Take up more items, from the next block on."""
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
    """Thompson sampling (Thompson 1933) for sets of k items, on sums that leave once per block of rounds.

    All rounds of a block show one set. Their rewards are summed and released once, with Laplace noise. The
    released sums give a normal posterior of the value of each item, and the next set is the best one for
    weights drawn from it. The first 8 blocks show sets at random, and tell how large values are.

    ``feedback="bandit"``: a reward is what the set was worth, in [0, ``bound``], and a block of 30 / epsilon
    rounds releases one sum. The model takes a set to be worth the sum of its items' weights. Beliefs about up
    to 300 items are held together, which costs the square of their number once per block; about more of them
    each alone.

    ``feedback="slots"``: a reward is the item that was taken, None, or one number per slot, in all at most
    ``bound``. A block of 50 / epsilon^.7 rounds (35, from 1,000 items on) releases one count per slot. What
    an item gets is what it adds to those above it, and so the list is in the order of the drawn weights.

    ``forget`` is for tastes that drift: after every block each item's variance grows by that part of what it
    was at first, and never beyond. 0.01 follows tastes that change within some hundred blocks, and served
    twice as much where they did. Where nothing changes it costs about a tenth of the reward. With it, beliefs
    about items are held each alone.

    Serves far more than `BanditSelector` at practical sizes, and certifies nothing: `certified_regret` is
    infinite. The model is wrong for sets whose items stand in for each other (it then only knows what they
    are worth beside the others that are usually shown). The number of rounds need not be known:
    ``rounds=None`` is for any number.

    Late rewards: ``choose(wait=False)`` moves on without the last reward, ``learn(value, round=r)`` brings it
    later. A block waits for the last of its rewards and is learned from then; new blocks go on meanwhile.
    That rewards come late, or never, is taken to be public; for one that will never come, 0 (None for slots)
    lets the others of its block be learned.

    Guarantee: pure epsilon, however many rounds. Blocks are known by the numbers of their rounds, so nobody's
    round is in two sums, and one release is charged. A person whose reward is replaced, or whose round passes
    with nothing learned, moves one sum by at most ``bound``: two values in [0, ``bound``] are no further
    apart. With slots the counts move by 2 ``bound`` in L1 when a person is replaced, as the new one may take
    another item, and by ``bound`` when one is added or removed, however many slots there are. Which items
    were shown follows from earlier sums and public randomness, so the counts of others need no noise.
    Everything after that is post-processing, also if later people depend on what was shown. Rewards are
    summed in whole steps of a grid, with noise on the same grid.

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

    # A part holds the sums of its rounds, all of which show the set of the open block.

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
