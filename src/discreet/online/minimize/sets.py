"""The base of learners that choose a set of any size every round, at low cost."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ...core import checks
from ...core.settings import Setting, flag, of, one_of, real, whole
from ...objectives import GraphCut, Population, answers
from ...privacy import Share
from ...privacy.budget import NEIGHBOURS
from ...results import CostTrace, Selection
from ..clipping import ClippedCount
from ..people import check_population
from ..protocol import LearnerSettings, OnlineLearner, Stream
from ..select.selector import item_labels

if TYPE_CHECKING:
    from ...backends.arguments import Cuts

# What a default gives away of its certificate, which is for the worst stream, to learn faster on others: half
# the regularization costs (2 + 1/2) / 2 of the best bound.
BOLDER = 0.5
# Beyond these, squares of the bound and sums over the rounds leave the range of floats.
_MOST_ROUNDS, _MOST_BOUND = 1 << 40, 1e100


@dataclass(frozen=True, kw_only=True)
class SetMinimizerSettings(LearnerSettings):
    """Settings of learners that choose a cheap set: the leader's point is held to ``centre``, 1/2 or 0."""

    rounds: int = whole(at_least=1, at_most=_MOST_ROUNDS)
    neighbours: str = one_of(NEIGHBOURS)
    n_items: int = whole(at_least=1)
    bound: float = real(at_least=1.0 / _MOST_BOUND, at_most=_MOST_BOUND)
    labels: tuple[Any, ...] | None = of(tuple, list, optional=True)
    clip: bool = flag()
    regularization: float = real(above=0.0)
    centre: float = real(at_least=0.0, at_most=1.0)

    def __post_init__(self) -> None:
        item_labels(self.labels, self.n_items)


def asked(
    n_items: int,
    rounds: int,
    share: Share,
    bound: float,
    labels: Sequence[Any] | None,
    clip: bool,
) -> dict[str, Any]:
    """What every minimizer is asked for, checked; the regularization is put in later."""
    size = checks.whole("n_items", n_items, at_least=1)
    return {
        "n_items": size,
        "rounds": checks.whole("rounds", rounds, at_least=1, at_most=_MOST_ROUNDS),
        "neighbours": share.neighbours,
        "bound": checks.real("bound", bound, at_least=1.0 / _MOST_BOUND, at_most=_MOST_BOUND),
        "labels": item_labels(labels, size),
        "clip": bool(clip),
        "regularization": 1.0,
    }


def wanted_regularization(asked: float | str, careful: float, optimistic: float) -> float:
    """H as given; else half of the best one for the noise (``"auto"``), or as if there were none."""
    if not isinstance(asked, str):
        return checks.real("regularization", asked, above=0.0)
    named = {"auto": careful, "optimistic": optimistic}
    return BOLDER * named[checks.one_of("regularization", asked, tuple(named))]


def published_regularization(asked: float | str, printed: float) -> float:
    """H as given, or the paper's."""
    if asked == "optimistic":
        raise ValueError('calibration="published" has its own regularization=; leave it out or give a number')
    return printed if asked == "auto" else wanted_regularization(asked, printed, printed)


class SetMinimizer(OnlineLearner):
    """A set of any size every round, and what it costs the person of that round."""

    settings: SetMinimizerSettings
    _noun: ClassVar[str] = "set"

    n_items = Setting("How many items there are.")
    bound = Setting("No set costs anybody more than this, or less than minus this.")
    labels = Setting("What the items are called; None for their numbers.")
    clip = Setting("Whether people beyond the bound are shortened to it, and not refused.")
    regularization = Setting("How strongly the point that sets are drawn from is held to its centre.")

    # --- for users -------------------------------------------------------------------------------

    @property
    def insecure_clipped(self) -> int:
        """How many people had to be clipped to the bound so far (``clip=True``).

        A fact about people that no noise protects: for debugging on data that you may look at. It is not part
        of the account, and must not be published.
        """
        return self._clipped.number

    @property
    def point(self) -> NDArray[np.float64]:
        """The point of [0, 1]^n whose chain of sets is served."""
        return np.clip(self.settings.centre - self._known / self.settings.regularization, 0.0, 1.0)

    def choose(self) -> Selection:
        """The set for this round; it may be empty."""
        chosen: Selection = super().choose()
        return chosen

    def run(
        self, people: Population, *, person_ids: Sequence[Hashable] | None = None, progress: bool = False
    ) -> CostTrace:
        """The whole stream at once: the same sets, for the same seed, as `choose` and `learn` one by one.

        ``person_ids`` as in `learn`, one per person. People beyond the declared horizon are served the last
        set and not learned from.
        """
        trace: CostTrace = super().run(people, person_ids=person_ids, progress=progress)
        return trace

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.n_items:,} items, round {self.round:,} of {self.rounds:,})"

    # --- for the protocol ------------------------------------------------------------------------

    @property
    @abstractmethod
    def _known(self) -> NDArray[np.float64]:
        """The private sum of gradients, or of estimates of them."""

    def _begin(self) -> None:
        if self.settings.neighbours != self.budget.neighbours:
            raise ValueError(
                f"the settings are for neighbours={self.settings.neighbours!r}, the budget is not"
            )
        self._clipped = ClippedCount()

    @property
    def _width(self) -> int:
        return self.settings.n_items

    def _due(self) -> bool:
        return True

    def _decision(self, shown: NDArray[Any]) -> Selection:
        items = tuple(int(item) for item in np.flatnonzero(shown))
        labels = None if self.labels is None else tuple(self.labels[item] for item in items)
        return Selection(items, self.round, labels)

    def _row(self, decision: Selection) -> NDArray[np.float64]:
        row = np.zeros(self.settings.n_items)
        row[list(decision.items)] = 1.0
        return row

    @property
    def _largest(self) -> float:
        """Costs beyond this are refused."""
        return math.inf if self.settings.clip else self.settings.bound

    def _worth(self, person: Any, decision: Selection) -> float:
        return answers.number("value", person.value(decision.items), -self._largest, self._largest)

    def _trace(self, rewards: NDArray[np.float64], selections: NDArray[Any]) -> CostTrace:
        return CostTrace(rewards, selections, type(self).__name__)

    def _check_people(self, people: Any) -> None:
        check_population(people, self.settings.n_items, self._largest)

    def _run(self, stream: Stream) -> None:
        if isinstance(stream.people, GraphCut) and not self._can_wait(stream.rewards.size):
            self._run_cuts(stream, stream.people.as_arcs())
        else:
            self._run_functions(stream)

    def _run_functions(self, stream: Stream) -> None:
        """The stream round by round."""
        super()._run(stream)

    @abstractmethod
    def _run_cuts(self, stream: Stream, cuts: Cuts) -> None:
        """The same, with the same outcome, for people who are cuts with prices: compiled."""

    def _could_show(self, shown: NDArray[Any]) -> bool:
        return super()._could_show(shown) and bool(((shown == 0.0) | (shown == 1.0)).all())
