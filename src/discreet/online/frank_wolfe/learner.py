"""The experts of Meta-Frank-Wolfe, and what both forms of it do alike, whatever people are."""

from __future__ import annotations

import math
import warnings
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.settings import Setting
from ...core.state import Saved
from ...privacy import Account, Coins, Gate, Share
from ...privacy.published import PublishedCalibrationWarning, published_share
from ...results import Trace
from ..parts import Part
from ..protocol import OnlineLearner
from ..rounds import Rounds
from ..total import PrivateTotal
from .point_settings import PointSettings
from .set_settings import SetSettings
from .settings import FrankWolfeSettings

Floats = NDArray[np.float64]


class Experts:
    """K leaders one after another, each following a private sum of its own payoffs.

    ``points`` are where the first 0, 1, ... K of them stop, each going 1/K of the way; the last is what is
    played. ``total`` gathers payoffs in whole ``units``, at most ``most`` of them an entry and person.
    """

    def __init__(self, settings: FrankWolfeSettings, gate: Gate, coins: Coins) -> None:
        self._leader, self._every = settings.leader, settings.resample_every
        self._rate, self._added = settings.rate, settings.added_curvature
        self.units, self.most = settings.units, settings.most
        self.total = PrivateTotal(
            settings.spec,
            gate,
            settings.event,
            (settings.steps, settings.size),
            units=self.units,
            coins=coins if self._added is None else None,  # for noise that never falls, as certificates need
            label="gradients",
        )
        self.points: Floats = np.zeros((settings.steps + 1, settings.size))

    def move(self, number: int) -> Floats:
        """Release what was gathered before round ``number``, and let everybody follow it; the last point."""
        known = self.total.release() if number else self.total.known
        rate = self._rate if self._added is None else 1.0 / (self._added * max(1, number))
        self.points = self._leader.partial_points(known, rate)
        point: Floats = self.points[-1]
        return point

    def whole_units(self, payoffs: Floats) -> NDArray[np.int64]:
        """Payoffs in whole units, rounded down, so that one person's part in the sums is exact."""
        return np.asarray(np.clip(np.floor(payoffs * self.units), 0, self.most), dtype=np.int64)

    # --- saving ----------------------------------------------------------------------------------

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """That of the sums, and the points."""
        plain, arrays = self.total.state()
        return plain, arrays | {"points": self.points}

    def resume(self, saved: Saved, rounds: Rounds) -> None:
        """Go on with what was gathered, known and played."""
        self.total.resume(saved, rounds, self._every, most=self.most)
        highest = None if self._leader.is_box else 1.0
        self.points = saved.array("points", self.points.shape, at_least=0.0, at_most=highest)


class FrankWolfeLearner(OnlineLearner):
    """K linear experts whose average is played; expert k is paid by gradients where the first k - 1 stop."""

    settings: SetSettings | PointSettings

    steps = Setting("The number of experts, K.")
    sums = Setting("The method of the running sums.")
    noise = Setting("The distribution of their noise: what the budget asks for.")
    resample_every = Setting("For how many rounds a decision stands.")
    rate = Setting("Experts follow the leader of rate x private sum of payoffs.")
    bound = Setting("The largest value of a person's function.")
    claimed_expert_epsilon = Setting("What a paper claims of one expert, with its constants; else None.")

    # --- for users -------------------------------------------------------------------------------

    @property
    def point(self) -> NDArray[np.float64]:
        """The fractional point of this round's decision: the average of the experts' points."""
        return np.array(self._experts.points[-1])

    @property
    def certified_regret(self) -> float:
        """Bound on the expected (1 - 1/e)-regret of the fractional points over the declared rounds."""
        return self.settings.certified_regret

    @property
    def expert_epsilon(self) -> float:
        """Pure epsilon of one expert, all rounds of a person together; infinite for Gaussian noise.

        By the library's account, beside ``claimed_expert_epsilon`` with ``calibration="published"``: the tree
        of paper 003 pays for ln T levels and has log2 T, so that this is 1.45 to 1.52 times the claim.
        """
        if not self.budget.private:
            return math.inf
        return self.settings.expert_epsilon(self.budget.max_rounds_per_person)

    def run(
        self, people: Any, *, person_ids: Sequence[Hashable] | None = None, progress: bool = False
    ) -> Trace:
        """The whole stream at once; ``trace.selections`` has a row per round.

        A point, or the items of a set, filled up with -1.
        """
        trace: Trace = super().run(people, person_ids=person_ids, progress=progress)
        return trace

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.settings.domain!r}, {self.steps} experts, round {self.round:,}"
            f" of {self.rounds:,})"
        )

    # --- the protocol ----------------------------------------------------------------------------

    def _begin(self) -> None:
        # Both forms draw the words of both, so that noise follows from the seed alone.
        self._coins, self._round_coins = self._gate.coins(), self._gate.coins()
        self._experts = Experts(self.settings, self._gate, self._coins)

    @property
    def _total(self) -> PrivateTotal:
        return self._experts.total

    def _due(self) -> bool:
        return self._rounds.number % self.settings.resample_every == 0

    def _trace(self, rewards: NDArray[np.float64], selections: NDArray[Any]) -> Trace:
        return Trace(rewards, selections, type(self).__name__)

    def _spent(self) -> Account:
        return self._account(*self._total.released())

    # --- saving ----------------------------------------------------------------------------------

    def _parts(self) -> Mapping[str, Part]:
        return {"coins": self._coins, "round_coins": self._round_coins, "experts": self._experts}

    def _restore(self, saved: Saved) -> None:
        self._coins.resume(saved.part("coins"))
        self._round_coins.resume(saved.part("round_coins"))
        self._experts.resume(saved.part("experts"), self._rounds)


def claimed_share(settings: SetSettings | PointSettings, share: Share) -> Share:
    """Where published noise is spent: a gate that holds it, with a warning where it is less than claimed."""
    spec, event, claimed = settings.spec, settings.event, settings.claimed_expert_epsilon
    releases = [] if spec is None or event is None else [(event, spec.count)]
    found = published_share(share, releases, settings.paper)
    true_loss = settings.expert_epsilon(share.budget.max_rounds_per_person)
    assert claimed is not None
    if found is share and true_loss > claimed * (1.0 + 1e-12):
        warnings.warn(
            f"{settings.paper}: each expert claims epsilon {claimed:.4g} and has {true_loss:.4g}, which is"
            f" {true_loss / claimed:.2f} times as much; slack in the composition of all experts"
            " still makes up for it. See docs/errata.md.",
            PublishedCalibrationWarning,
            stacklevel=4,
        )
    return found
