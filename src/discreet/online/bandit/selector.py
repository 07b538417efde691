"""Set selection with bandit feedback: the value of the shown set, or the item that was taken."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ...core import checks
from ...core.settings import Setting
from ...privacy import Seed, spend_from
from ...privacy.published import published_share
from ...privacy.spending import Spending
from ...results import Selection
from ..protocol import CALIBRATIONS
from ..released import Released
from ..serving import ServingLearner
from .feedback import Feedback
from .rewards import RewardSelector
from .schedule import Schedule
from .settings import BanditSettings
from .slots import SlotFeedback
from .values import ValueFeedback


class BanditSelector(RewardSelector):
    """k ordered experts that learn from the value of the shown set alone.

    Paper 000, Algorithm 3 and Appendix B, after Streeter and Golovin 2009. Expert i learns what to add to the
    items of experts 1..i-1. In a round that explores, one of them tries an item a drawn at random: the set
    shown is S + a, S being the items of the experts before it (so it may have fewer than k items; a trace
    holds -1 in their place), and f(S + a) is what that expert learns of a. All other rounds show the set as
    it stands. The empty places are what the certificate takes: it compares f(S + a) with f(S + b): a set
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

    ``feedback="slots"`` is for pages that know which shown item was taken: see `SlotFeedback`. Privacy as for
    blocks, far more learned per round; no regret bound better than the trivial one is certified for it.

    ``calibration="tight"`` takes the numbers with the smallest certified regret that the budget allows; any
    of ``rate``, ``exploration_rate``, ``block`` and ``repeats`` can be given. For blocks the rate falls as
    more is known, which serves better than it certifies; ``rate="certified"`` is the fixed rate that
    certifies most. Where the horizon is too short for every expert to try every item four times, blocks
    explore in one round of 32 only: they then serve about what sets at random do, which is more than
    exploring would, and `certified_regret` is the trivial one. Slots need far shorter horizons.
    ``"published"`` takes the paper's constants; `privacy` is then the true account, and a warning says
    where every round explores.

    Late rewards. ``choose(wait=False)`` moves on without the last reward; ``learn(value, round=r)`` brings it
    later. Each round is counted once. With ``feedback="set"`` an exploration sample of several rounds waits
    for the last of its rewards and is then learned once, however late; with ``"slots"`` a reward enters the
    block that is open when it comes. Either way nobody is in two releases. That rewards come late, or never,
    is taken to be public; for one that will never come, 0 (or None for slots) lets the others of its sample
    be learned.

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

    settings: BanditSettings
    _settings_type: ClassVar[type[BanditSettings]] = BanditSettings

    exploration = Setting("When it explores, and what protects people.")
    feedback = Setting('Feedback of a round: "set" or "slots".')

    def __init__(
        self,
        n_items: int,
        k: int,
        rounds: int,
        budget: Spending,
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
        start: Released | ServingLearner | None = None,
        seed: Seed = None,
    ) -> None:
        share = spend_from(budget, seed)
        question = (n_items, k, rounds, share)
        numbers = {"rate": rate, "exploration_rate": exploration_rate, "block": block, "repeats": repeats}
        if checks.one_of("calibration", calibration, CALIBRATIONS) == "published":
            if any(value is not None for value in numbers.values()):
                raise ValueError(
                    'calibration="published" has its own numbers; leave rate=, exploration_rate=, block= and'
                    ' repeats= out, or take calibration="tight"'
                )
            settings = BanditSettings.published(
                *question, exploration=exploration, feedback=feedback, bound=bound, labels=labels
            )
            # What rounds that are picked in advance release depends on how many they are.
            charged = [] if settings.picked else [(event, count) for _, event, count in settings.releases]
            share = published_share(share, charged, f"BanditSelector(exploration={exploration!r})")
        else:
            how: dict[str, Any] = {"exploration": exploration, "feedback": feedback, **numbers}
            settings = BanditSettings.tight(*question, **how, bound=bound, labels=labels)
        super().__init__(settings, share, start)

    # --- for users -------------------------------------------------------------------------------

    @property
    def certified_regret(self) -> float:
        """Bound on the expected (1 - 1/e)-regret of the whole run, in units of reward."""
        return self._certified(self.settings.certified_regret)

    # --- the protocol ----------------------------------------------------------------------------

    def _begin(self) -> None:
        self.settings.check_noise(self.budget.neighbours)
        coins = self._gate.coins()
        self._engine: Feedback
        if self.settings.feedback == "slots":
            self._engine = SlotFeedback(self.settings, self._gate, coins)
            return
        schedule = Schedule(self.settings, coins)
        if schedule.explorations is not None:  # rounds were picked, and the rate follows from how many
            self.settings = self.settings.with_explorations(schedule.explorations, self.budget)
        self._engine = ValueFeedback(self.settings, self._gate, schedule)

    def _renewed(self) -> BanditSettings:
        return replace(self.settings, explorations=None)  # rounds are picked anew

    def _decision(self, shown: NDArray[Any]) -> Selection:
        items = shown.tolist()
        return self._selection(tuple(items if items[-1] >= 0 else items[: items.index(-1)]))

    def _row(self, decision: Selection) -> tuple[int, ...]:
        return decision.items + (-1,) * (self.settings.k - len(decision.items))

    def _could_show(self, shown: NDArray[Any]) -> bool:
        settings, served = self.settings, shown[: np.count_nonzero(shown >= 0)]
        inside = bool(((served >= 0) & (served < settings.n_items)).all() and (shown >= -1).all())
        fewest = settings.k if settings.feedback == "slots" else 1
        enough = np.unique(served).size == served.size >= fewest
        return shown.shape == (settings.k,) and inside and enough
