"""Set selection by Thompson sampling, from private sums of blocks of rounds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ...core.settings import Setting
from ...privacy import Seed, spend_from
from ...privacy.spending import Spending
from ..bandit.feedback import given_reward
from ..bandit.rewards import RewardSelector
from ..catalogue import Catalogue
from ..partial import Partial, SummedPart
from ..released import Released
from ..serving import ServingLearner
from .blocks import BlockFeedback
from .settings import ThompsonSettings


class ThompsonSelector(RewardSelector):
    """Thompson sampling (Thompson 1933) for sets of k items, on sums that leave once per block of rounds.

    A block of rounds shows one set. What came of it is summed up and leaves once, with Laplace noise. From
    these released sums follows a normal posterior of what each item is worth; the next set is the best one
    for weights drawn from it. The first 8 blocks show sets at random, and tell how large values are.

    ``feedback="set"``: a reward is what the set was worth, in [0, ``bound``], and a block of 30 / epsilon
    rounds releases one sum. The model takes a set to be worth the sum of its items' weights. Beliefs about up
    to 300 items are held together, which costs the square of their number once per block; about more of them
    each alone.

    ``feedback="slots"``: a reward is the item that was taken, None, or one number per slot, in all at most
    ``bound``. A block of 50 / epsilon^.7 rounds releases one count per slot. What an item gets is what it
    adds to those above it, and so the list is in the order of the drawn weights.

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
    were shown follows from earlier sums and public coins, so the counts of others need no noise. Everything
    after that is post-processing, also if later people depend on what was shown. Rewards are summed in whole
    steps of a grid, with noise on the same grid.

    >>> import discreet as dc
    >>> people = dc.objectives.Coverage([[1, 0, 0], [1, 1, 0]] * 2000)
    >>> learner = ThompsonSelector(3, 1, None, dc.Budget(1.0), seed=0)
    >>> shown = learner.choose()
    >>> learner.learn(1.0)  # what the set was worth to the person who saw it
    >>> learner.run(people[1:]).average > 0.9, learner.privacy.epsilon()
    (True, 1.0)
    """

    settings: ThompsonSettings
    _settings_type: ClassVar[type[ThompsonSettings]] = ThompsonSettings

    feedback = Setting('Feedback of a round: "set" or "slots".')
    block = Setting("How many rounds show one set, and are released together.")
    forget = Setting("How much of what was learned grows old in a block.")

    def __init__(
        self,
        n_items: int,
        k: int,
        rounds: int | None,
        budget: Spending,
        *,
        feedback: str = "set",
        block: int | None = None,
        forget: float = 0.0,
        bound: float = 1.0,
        labels: Sequence[Any] | None = None,
        start: Released | ServingLearner | None = None,
        seed: Seed = None,
    ) -> None:
        share = spend_from(budget, seed)
        how: dict[str, Any] = {"feedback": feedback, "block": block, "forget": forget}
        settings = ThompsonSettings.tight(n_items, k, rounds, share, **how, bound=bound, labels=labels)
        super().__init__(settings, share, start)

    @property
    def certified_regret(self) -> float:
        """Infinite: no bound on its regret is known."""
        return math.inf

    def _begin(self) -> None:
        self.settings.check_noise(self.budget.neighbours)
        self._engine: BlockFeedback = BlockFeedback(self.settings, self._gate, self._gate.coins())

    # A part holds the sums of its rounds, all of which show the set of the open block.

    def _check_divisible(self) -> None:
        begun = self._rounds.is_open or self._rounds.number % self.settings.block
        if begun and not self._active()[self._engine.current()].all():
            raise RuntimeError(
                "an item of the open block was retired, so that its rounds show another set; ask for parts"
                " when the next block has begun"
            )

    def _sums_shape(self) -> tuple[int, ...]:
        return (self.settings.width,)

    def _batch(self) -> int:
        return self._rounds.number - self._rounds.number % self.settings.block

    def _room(self) -> int:
        return self._batch() + self.settings.block - self._rounds.number

    def _part(self, about: tuple[str, int, int | None, str]) -> Partial:
        catalogue = Catalogue(self.settings.n_items, self.settings.labels)
        given = partial(given_reward, catalogue, self._engine.by_slot)
        return SummedPart(*about, given, self._sums_shape(), self._engine.counting())

    def _check_part(self, part: Partial) -> None:
        if not isinstance(part, SummedPart) or part.sums.shape != self._sums_shape():
            raise ValueError("the part is of another learner")
        part.check(0, self._engine.most)
        if int(part.sums.sum()) > part.count * self._engine.most:
            raise ValueError("the part holds sums that its people cannot have; it was not made here")

    def _gather(self, sums: NDArray[np.int64], count: int) -> None:
        self._engine.gather((self._rounds.number - 1) // self.settings.block, sums, count)
