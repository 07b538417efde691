"""Every number of every learner is what it was: rates, batches, noise, accounts, certificates and decisions.

Other tests say why the numbers are right. This one notices when any of them changes, so that a change is one
that somebody wanted: `python -m tests.online.test_unchanged` writes the file anew, and the commit says why.
"""

from __future__ import annotations

import contextlib
import json
import math
import warnings
from dataclasses import fields
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import discreet as dc
from discreet.constraints.domains import Ball, Box, Simplex
from discreet.online import (
    ApproximateLeader,
    BanditApproximateLeader,
    BanditSelector,
    BanditSubmodularMinimizer,
    BestOfBothSelector,
    HedgeSelector,
    LeaderSelector,
    LinearLeader,
    MetaFrankWolfe,
    MetaFrankWolfePoints,
    PhasedSelector,
    RunningSumSelector,
    SubmodularMinimizer,
    ThompsonSelector,
)
from tests.online.learners import EVERYBODY, ROUNDS

STORED = Path(__file__).with_name("unchanged.json")
DIGITS = 9
LOOSE, PURE, RICH = dc.Budget(1.0, 1e-6), dc.Budget(2.0), dc.Budget(30.0, 1e-6)
BOX, CHOICE = Box([0.0] * 4, [1.0] * 4), dc.constraints.Cardinality(2)
# As large as they are used, and only looked at: what they would do, and what they certify for it. Where there
# are trees, one round more than they have room for at one level less.
LARGE = {
    "hedge": lambda b: HedgeSelector(100, 5, 10**5, b(RICH), seed=0),
    "hedge, automatic": lambda b: HedgeSelector(
        100, 5, 10**5, b(RICH), resample_every="auto", bound=3.0, seed=0
    ),
    "running sums": lambda b: RunningSumSelector(100, 5, 10**5, b(LOOSE), resample_every="auto", seed=0),
    "running sums, capped": lambda b: RunningSumSelector(
        200, 3, 20_000, b(LOOSE), sums="blt", items_per_person=4, resample_every="auto", bound=2.0, seed=0
    ),
    "running sums, tree": lambda b: RunningSumSelector(
        30, 2, 2**13 + 1, b(LOOSE), sums="tree", resample_every="auto", seed=0
    ),
    "running sums, Laplace": lambda b: RunningSumSelector(
        30, 2, 2**16 + 1, b(PURE), sums="tree", noise="laplace", resample_every="auto", seed=0
    ),
    "phased": lambda b: PhasedSelector(100, 5, b(LOOSE), bound=2.0, seed=0),
    "leader selector": lambda b: LeaderSelector(100, 5, 10**5, b(LOOSE), bound=2.0, seed=0),
    "leader selector, endless": lambda b: LeaderSelector(100, 5, None, b(LOOSE), seed=0),
    "best of both": lambda b: BestOfBothSelector(100, 5, 10**5, b(LOOSE), bound=2.0, seed=0),
    "bandit": lambda b: BanditSelector(10, 2, 10**6, b(PURE), seed=0),
    "bandit, certified": lambda b: BanditSelector(10, 1, 10**6, b(PURE), rate="certified", bound=2.0, seed=0),
    "bandit, online": lambda b: BanditSelector(5, 2, 10**6, b(RICH), exploration="online", seed=0),
    "bandit, presampled": lambda b: BanditSelector(10, 1, 10**6, b(LOOSE), exploration="presampled", seed=0),
    "bandit, every round": lambda b: BanditSelector(5, 1, 10**6, b(RICH), exploration="every_round", seed=0),
    "bandit, slots": lambda b: BanditSelector(50, 5, 10**5, b(PURE), feedback="slots", bound=2.0, seed=0),
    "thompson": lambda b: ThompsonSelector(50, 5, None, b(PURE), bound=2.0, seed=0),
    "thompson, slots": lambda b: ThompsonSelector(50, 5, 10**5, b(LOOSE), feedback="slots", seed=0),
    "minimizer": lambda b: SubmodularMinimizer(20, 10**5, b(LOOSE), bound=2.0, seed=0),
    "minimizer, tree": lambda b: SubmodularMinimizer(20, 2**16 + 1, b(LOOSE), sums="tree", seed=0),
    "minimizer, pure": lambda b: SubmodularMinimizer(20, 2**16 + 1, b(PURE), empty_is_free=True, seed=0),
    "bandit minimizer": lambda b: BanditSubmodularMinimizer(5, 10**6, b(PURE), bound=2.0, seed=0),
    "bandit minimizer, tree": lambda b: BanditSubmodularMinimizer(
        5, 2**20 + 1, b(LOOSE), form="tree", seed=0
    ),
    "leader": lambda b: ApproximateLeader(Ball(5, 2.0), 10**5, b(LOOSE), lipschitz=3.0, seed=0),
    "leader, optimistic": lambda b: ApproximateLeader(
        Ball(5), 10**5, b(LOOSE), lipschitz=1.0, regularization="optimistic", seed=0
    ),
    "leader, curved": lambda b: ApproximateLeader(
        Ball(5), 10**4, b(PURE), lipschitz=1.0, strong_convexity=0.5, seed=0
    ),
    "linear": lambda b: LinearLeader(Simplex(10), 10**5, b(LOOSE), box=(0.0, 1.0), seed=0),
    "linear, ball": lambda b: LinearLeader(Ball(4), 10**5, b(PURE), lipschitz=1.0, seed=0),
    "one point": lambda b: BanditApproximateLeader(
        Ball(3), 10**6, b(PURE), lipschitz=1.0, bound=(0.0, 2.0), seed=0
    ),
    "one point, curved": lambda b: BanditApproximateLeader(
        Ball(3), 10**6, b(PURE), lipschitz=1.0, bound=2.0, strong_convexity=1.0, adversary="adaptive", seed=0
    ),
    "frank-wolfe": lambda b: MetaFrankWolfe(
        CHOICE.over(12), 10**5, b(LOOSE), steps="auto", resample_every="auto", bound=2.0, seed=0
    ),
    "frank-wolfe, curvature": lambda b: MetaFrankWolfe(
        CHOICE.over(12), 10**4, b(LOOSE), curvature=True, sums="tree", seed=0
    ),
    "frank-wolfe, pure": lambda b: MetaFrankWolfe(
        CHOICE.over(12), 10**4, b(dc.Budget(99.0)), regularizer="euclidean", seed=0
    ),
    "frank-wolfe, box": lambda b: MetaFrankWolfePoints(
        BOX, 10**4, b(LOOSE), gradient_bound=2.0, smoothness=1.0, steps="auto", seed=0
    ),
    "frank-wolfe, box, pure": lambda b: MetaFrankWolfePoints(
        BOX, 10**4, b(PURE), gradient_bound=2.0, smoothness=1.0, seed=0
    ),
    "published hedge": lambda b: HedgeSelector(20, 2, 10**5, b(RICH), calibration="published", seed=0),
    "published bandit": lambda b: BanditSelector(
        3, 1, 10**6, b(RICH), exploration="online", calibration="published", seed=0
    ),
    "published bandit, every round": lambda b: BanditSelector(
        3, 1, 10**6, b(RICH), exploration="every_round", calibration="published", seed=0
    ),
    "published minimizer": lambda b: SubmodularMinimizer(
        4, 10**5, b(dc.Budget(999.0)), calibration="published", seed=0
    ),
    "published bandit minimizer": lambda b: BanditSubmodularMinimizer(
        3, 10**6, b(dc.Budget(9999.0)), calibration="published", seed=0
    ),
    "published leader": lambda b: ApproximateLeader(
        Ball(3), 10**5, b(dc.Budget(99.0)), lipschitz=1.0, calibration="published", seed=0
    ),
    "published leader, curved": lambda b: ApproximateLeader(
        Ball(3), 10**5, b(dc.Budget(99.0)), lipschitz=1.0, strong_convexity=1.0, calibration="published",
        seed=0,
    ),
    "published linear": lambda b: LinearLeader(
        Simplex(5), 10**5, b(dc.Budget(9.0)), box=(0.0, 1.0), calibration="published", seed=0
    ),
    "published one point": lambda b: BanditApproximateLeader(
        Ball(3, 2.0), 10**6, b(dc.Budget(999.0)), lipschitz=1.0, bound=2.0, calibration="published",
        adversary="adaptive", strong_convexity=1.0, seed=0,
    ),
    "published one point, oblivious": lambda b: BanditApproximateLeader(
        Ball(3, 2.0), 10**6, b(dc.Budget(999.0)), lipschitz=1.0, bound=2.0, calibration="published", seed=0
    ),
    "published frank-wolfe": lambda b: MetaFrankWolfe(
        CHOICE.over(5), 10**4, b(dc.Budget(99.0, 1e-6)), calibration="published", seed=0
    ),
}  # fmt: skip


NEIGHBOURS = {
    "replaced": lambda budget: budget,
    "removed, two rounds each": lambda budget: dc.Budget(budget.epsilon, budget.delta, "add_remove", 2),
}


def _plain(value):
    """Numbers rounded, states of public randomness left out."""
    if isinstance(value, dict):
        return {
            name: _plain(one) for name, one in value.items() if "public" not in name and "words" not in name
        }
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, float) and math.isfinite(value):
        return float(f"{value:.{DIGITS}g}")
    return value if isinstance(value, int | bool | None | float) else str(value)


def _known(learner):
    """What a learner has settled on, and says of itself."""
    endless = learner.rounds is None and hasattr(learner, "certified_regret_after")
    total = getattr(getattr(learner, "_total", getattr(learner, "_sum", None)), "sum", None)
    found = {
        "settings": _settings(learner),
        "certified": learner.certified_regret_after(10_000) if endless else learner.certified_regret,
        "account": learner.privacy.to_json(),
        "noise": []
        if total is None
        else [total.noise_std(t) for t in sorted({1, total.rounds // 2 or 1, total.rounds})],
    }
    return _plain(json.loads(json.dumps(found, default=str)))


def _settings(learner):
    """The numbers and words among a learner's public settings."""
    names = (name for name in dir(type(learner)) if not name.startswith("_"))
    known = {name for name in names if isinstance(getattr(type(learner), name), property)} | set(
        vars(learner)
    )
    found = {name: getattr(learner, name) for name in sorted(known) if not name.startswith("_")}
    kind = type(learner.settings)
    names = [one for one in dir(kind) if one[0] != "_" and isinstance(getattr(kind, one), property)]
    for name in [*(field.name for field in fields(kind)), *names]:
        with contextlib.suppress(AssertionError):  # what depends on a horizon, where there is none
            found.setdefault(name, getattr(learner.settings, name))
    return {
        name: value for name, value in found.items() if isinstance(value, int | float | str | bool | None)
    }


def _played(setting):
    learner = setting.make()
    stream = setting.people(ROUNDS)
    trace = learner.run(stream, person_ids=["ann" if t % 7 == 3 else None for t in range(ROUNDS)])
    played = trace.decisions if hasattr(trace, "decisions") else trace.selections
    spent = learner.privacy.spent
    found = {"spent": spent.epsilon(learner.budget.delta)}
    if not isinstance(getattr(learner.settings, "constraint", None), dc.constraints.Knapsack):
        # A knapsack's point is rounded by comparing floats whose last digits differ between processors.
        found["decisions"] = np.asarray(played)[::3].tolist()
    return _plain(found)


def computed():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = {
            f"large: {name}, {who}": _known(make(budget))
            for name, make in LARGE.items()
            for who, budget in NEIGHBOURS.items()
        }
        for name, setting in EVERYBODY.items():
            found[name] = _known(setting.make()) | _played(setting)
    return found


def _same(here, there, where, least=1e-9):
    """Equal, with numbers that differ in the last digits at most."""
    if isinstance(here, dict):
        assert here.keys() == there.keys(), where
        for name in here:
            _same(here[name], there[name], f"{where}, {name}", least)
    elif isinstance(here, list):
        assert len(here) == len(there), where
        for place, (one, two) in enumerate(zip(here, there, strict=True)):
            _same(one, two, f"{where}[{place}]", least)
    elif isinstance(here, float):
        assert here == pytest.approx(there, rel=1e-6, abs=least), where
    elif isinstance(here, str) and (here + there).count("/") and (here + there).replace("/", "").isdigit():
        # exact, of numbers that another processor rounds differently; a whole number has no "/"
        assert float(Fraction(here)) == pytest.approx(float(Fraction(there)), rel=1e-9, abs=0.0), where
    else:
        assert here == there, where


def _stored(name):
    return json.loads(STORED.read_text())[name]


def _compared(found, stored, name):
    """What was stored is there, and the same; settings may have got more fields since."""
    found = dict(found, settings={one: found["settings"].get(one) for one in stored["settings"]})
    _same(found, stored, name)


@pytest.mark.parametrize("who", NEIGHBOURS)
@pytest.mark.parametrize("name", LARGE)
def test_large_settings_are_unchanged(name, who):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = _known(LARGE[name](NEIGHBOURS[who]))
    _compared(found, _stored(f"large: {name}, {who}"), name)


@pytest.mark.parametrize("name", EVERYBODY)
def test_learners_are_unchanged(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = _known(EVERYBODY[name].make()) | _played(EVERYBODY[name])
    _compared(found, _stored(name), name)


def test_nothing_is_stored_that_is_not_computed():
    names = {f"large: {name}, {who}" for name in LARGE for who in NEIGHBOURS} | EVERYBODY.keys()
    assert json.loads(STORED.read_text()).keys() == names


if __name__ == "__main__":
    lines = [f"{json.dumps(name)}: {json.dumps(one)}" for name, one in computed().items()]
    STORED.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    print(f"wrote {STORED}: {len(lines)} settings")
