"""Settings of Thompson sampling on sums of blocks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...core import checks
from ...core.settings import of, one_of, real, whole
from ...privacy import Event, LaplaceNoise, Share
from ...privacy.conversions import exact
from ..bandit.settings import FEEDBACK
from ..select.selector import SelectorSettings, common_settings, score_range

# Beliefs about all items together cost the square of their number.
_MOST_TOGETHER = 300
_LONGEST = 1 << 30
# Rounds of a block, by epsilon: values 30 / epsilon, slots 50 / epsilon^.7. Fewer where noise is no matter.
_SHORTEST = {"set": 10, "slots": 20}


def _noise(record: Any) -> LaplaceNoise:
    event = Event.from_json(record)
    if type(event) is not LaplaceNoise:
        raise ValueError(f"noise={event} is no Laplace noise")
    return event


@dataclass(frozen=True, kw_only=True)
class ThompsonSettings(SelectorSettings):
    """What a `ThompsonSelector` goes by: ``noise`` is that of one block's sum, or counts."""

    feedback: str = one_of(FEEDBACK)
    block: int = whole(at_least=1, at_most=_LONGEST)
    forget: float = real(at_least=0.0, at_most=1.0)
    noise: LaplaceNoise = of(_noise, Event.to_json)

    @classmethod
    def tight(
        cls,
        n_items: int,
        k: int,
        rounds: int | None,
        share: Share,
        *,
        feedback: str = "set",
        block: int | None = None,
        forget: float = 0.0,
        bound: float = 1.0,
        labels: Sequence[Any] | None = None,
    ) -> ThompsonSettings:
        """What is given, and blocks that are long enough for the noise.

        >>> import discreet as dc
        >>> budget = dc.Budget(0.5).share()
        >>> [ThompsonSettings.tight(9, 2, None, budget, feedback=one).block for one in ("set", "slots")]
        [60, 82]
        """
        common = common_settings(n_items, k, rounds, bound, labels)
        checks.one_of("feedback", feedback, FEEDBACK)
        if block is None:
            epsilon = float(share.epsilon) if share.private else math.inf
            wanted = 30.0 / epsilon if feedback == "set" else 50.0 / epsilon**0.7
            length = min(max(math.ceil(wanted), _SHORTEST[feedback]), _LONGEST)
        else:
            length = checks.whole("block", block, at_least=1, at_most=_LONGEST)
        moves = _moves(feedback, common["bound"], share.neighbours)
        noise = LaplaceNoise.within(share, moves, 1, share.notion)
        if share.private:  # the finest steps of a grid with which a block's sum fits into 63 bits
            noise = replace(noise, scale=max(exact(noise.scale), exact(common["bound"]) * length / 2**30))
        aged = checks.real("forget", forget, at_least=0.0, at_most=1.0)
        return cls(**common, feedback=feedback, block=length, forget=aged, noise=noise)

    @property
    def entries(self) -> int:
        return self.k

    @property
    def scale(self) -> float:
        """The scale of the noise on a block's sum, as a part of the bound."""
        return float(self.noise.scale) / self.bound

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
        return self.feedback == "set" and not self.forget and self.n_items <= _MOST_TOGETHER

    def check_noise(self, neighbours: str) -> None:
        """Refuse noise that is not for what one person can move, or sums that would not fit into 63 bits."""
        moves, scale = _moves(self.feedback, self.bound, neighbours), exact(self.noise.scale)
        least = exact(self.bound) * self.block / 2**30
        if exact(self.noise.sensitivity) != exact(moves) or 0 < scale < least:
            raise ValueError(f"noise={self.noise} is not for what one person can move, {moves:g}")


def _moves(feedback: str, bound: float, neighbours: str) -> float:
    """How far one person moves what a block releases, in L1."""
    return score_range(bound, neighbours) if feedback == "slots" else bound
