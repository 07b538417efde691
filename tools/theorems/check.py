"""A theorem about a learner, and how it is checked: measured regret beside certified and printed regret."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from discreet.bounds import ALPHA
from discreet.privacy.account import PublishedCalibrationWarning
from tools.results import exponent

from .streams import Stream

DELTA = 1e-6
SETS, BANDIT, COSTS, POINTS = "sets", "bandit", "costs", "points"
Make = Callable[[int, int], Any]


@dataclass(frozen=True)
class Check:
    """One theorem: a learner, the streams it is about, what it loses, and what is certified.

    ``make(rounds, seed)`` makes the learner, ``regret(learner, people)`` runs it and says what it lost;
    ``certified(learner, rounds)`` what it may. ``printed(rounds)`` is the paper's bound and ``power`` how it
    grows with the rounds, as printed. ``width`` is the range of one round's reward or cost; ``most`` what can
    be lost in a round at all, so that a certificate of ``most`` a round is trivial. ``cost`` says how much
    slower than others it is: those above 1 get fewer rounds and no growth curve. ``rounds`` fixes the length.
    """

    theorem: str
    name: str
    family: str
    make: Make
    streams: dict[str, Stream]
    regret: Callable[[Any, Any], float]
    printed: Callable[[int], float] | None = None
    order_only: bool = False
    power: str = ""
    width: float = 1.0
    most: float = ALPHA
    cost: int = 1
    rounds: int | None = None
    epsilon: float | None = None
    certified: Callable[[Any, int], float] = field(default=lambda learner, _: learner.certified_regret)

    @property
    def kind(self) -> str:
        """The learner's class, with which every name begins."""
        return self.name.split(",")[0]


def measured(check: Check, stream: str, rounds: int, runs: int) -> tuple[float, float]:
    """Mean regret over runs on one stream, and what is certified for it."""
    people = check.streams[stream](rounds, np.random.default_rng(3))
    lost, certified = [], []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PublishedCalibrationWarning)
        for seed in range(runs):
            learner = check.make(rounds, seed)
            certified.append(check.certified(learner, rounds))
            lost.append(check.regret(learner, people))
    return float(np.mean(lost)), float(np.mean(certified))


def slack(check: Check, rounds: int, runs: int) -> float:
    """What the coins of the rounds can add to a mean of runs: six of their deviations.

    Given the past, a round's reward or cost has a mean and lies within ``width``, so its variance is at most
    width^2 / 4, and the sum over rounds of what it is beyond that mean is a martingale. Beyond six deviations
    Hoeffding's inequality leaves exp(-18), 1.5e-8. What noise drawn once for many rounds adds is not in it: a
    certificate that holds on average over such noise is held to more than it states.
    """
    return 6.0 * check.width * math.sqrt(rounds / (4.0 * runs))


def rows(found: list[Check], rounds: int, runs: int) -> Iterator[dict[str, Any]]:
    for check in found:
        size = check.rounds or max(200, rounds // check.cost)
        for stream in check.streams:
            start = time.perf_counter()
            lost, certified = measured(check, stream, size, runs)
            printed = None if check.printed is None else check.printed(size)
            yield {
                "theorem": check.theorem,
                "learner": check.name,
                "family": check.family,
                "stream": stream,
                "epsilon": None if "epsilon inf" in check.name else check.epsilon,
                "rounds": size,
                "measured": lost,
                "certified": certified,
                "printed": printed,
                "order_only": check.order_only,
                "trivial": certified >= 0.999 * check.most * size,
                "holds": lost <= certified + slack(check, size, runs),
                "without_slack": lost <= certified,
                "within_printed": None if printed is None else lost <= printed + slack(check, size, runs),
                "seconds": round(time.perf_counter() - start, 2),
            }


def _exponent(horizons: list[int], values: list[float] | None) -> float | None:
    """The slope on log-log axes; none where something is not positive."""
    if values is None or len(values) < 3 or min(values) <= 0.0:
        return None
    return exponent(horizons, values)


def growth(check: Check, horizons: list[int], runs: int) -> dict[str, Any]:
    """Measured and certified regret over horizons on the stream that turns, with their exponents."""
    turns = "adversarial: turning"
    stream = turns if turns in check.streams else list(check.streams)[-1]
    pairs = [measured(check, stream, t, runs) for t in horizons]
    lost, certified = [one for one, _ in pairs], [two for _, two in pairs]
    printed = None if check.printed is None else [check.printed(t) for t in horizons]

    return {
        "theorem": check.theorem,
        "learner": check.name,
        "family": check.family,
        "stream": stream,
        "rounds": horizons,
        "measured": lost,
        "certified": certified,
        "printed": printed,
        "trivial": [two >= 0.999 * check.most * t for two, t in zip(certified, horizons, strict=True)],
        "power": check.power,
        "exponent_measured": _exponent(horizons, lost),
        "exponent_certified": _exponent(horizons, certified),
        "exponent_printed": _exponent(horizons, printed),
    }
