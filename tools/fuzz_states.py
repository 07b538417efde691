"""Changed states, odd sizes and wrong arguments, with compiled loops that check every index.

    python tools/fuzz_states.py --cases 100000 --seed 1

Each case is made from its number alone: ``--first N --cases 1`` does it again. What fails is printed, and how
often; the exit status is 1 if anything did.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import random
import shutil
import subprocess
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).resolve().parent.parent
# What a refusal may be. Anything else is a failure, above all an index that a compiled loop found outside.
_REFUSALS = (ValueError, TypeError, RuntimeError, NotImplementedError)
_UNRAISABLE: list[str] = []  # what loops found that cannot raise


def checked_process() -> None:
    """Start again with a copy of the package whose compiled loops check every index."""
    if os.environ.get("DISCREET_CHECKED") == "1":
        return
    copy = Path(tempfile.gettempdir()) / f"discreet-checked-{os.getuid()}"
    for name in ("setup.py", "pyproject.toml", "README.md"):
        copy.mkdir(exist_ok=True)
        shutil.copy2(_ROOT / name, copy)
    shutil.copytree(_ROOT / "src", copy / "src", dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.so"))
    checked = os.environ | {"DISCREET_CHECKED": "1", "PYTHONPATH": str(copy / "src")}
    subprocess.run(
        [sys.executable, "setup.py", "-q", "build_ext", "--inplace"], cwd=copy, env=checked, check=True
    )
    os.execve(sys.executable, [sys.executable, *sys.argv], checked)


def checks_are_on() -> None:
    """A loop that is asked for words beyond the last must say so, or nothing here means anything."""
    import numpy as np

    from discreet.kernels.noise import noise_rows
    from discreet.privacy.samplers import noise_table

    with contextlib.suppress(IndexError):
        nothing, one = np.zeros(0, dtype=np.uint64), np.zeros((1, 1), dtype=np.int64)
        noise_rows(nothing, *noise_table(True), True, one)
        sys.exit("the compiled loops do not check their indices")
    # Where a loop cannot raise, Python prints what it found and goes on: here that is a failure, too.
    sys.unraisablehook = lambda found: _UNRAISABLE.append(str(found.exc_value))


def state_case(rng: random.Random) -> str:
    """A learner's state with one change."""
    from tests import hostile
    from tests.online.learners import EVERYBODY, ROUNDS

    name = rng.choice(sorted(EVERYBODY))
    setting = EVERYBODY[name]
    learner, stream = setting.make(rng.choice([1, None])), setting.people(ROUNDS)
    stop = rng.choice([0, 1, 4, 13, 29, ROUNDS])
    if rng.random() < 0.5 and stop:
        learner.run(stream[:stop])
    else:
        for t in range(min(stop, learner.rounds or stop)):
            learner.learn(setting.feedback(learner, stream[t], learner.choose()), person_id=t % 3)
    if rng.random() < 0.5:
        learner.choose()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state"
        what, changed = rng.choice(list(hostile.changes(*hostile.saved(learner, path))))
        try:
            hostile.outcome(changed(), path, setting, learner, what)
        except Exception as error:
            error.add_note(f"{name} after {stop} rounds, {what}")
            raise
    return "state"


def _some_people(rng: random.Random, count: int, n_items: int) -> Any:
    import numpy as np

    from discreet import objectives

    coins = np.random.default_rng(rng.randrange(1 << 30))
    chances = coins.random((count, n_items)) * (
        coins.random((count, n_items)) < rng.choice([0.0, 0.1, 0.5, 1.0])
    )
    kinds: list[Callable[[], Any]] = [
        lambda: objectives.Coverage((chances > 0).astype(float)),
        lambda: objectives.ProbabilisticCoverage(chances),
        lambda: objectives.FacilityLocation(chances),
        lambda: objectives.ConcaveOverModular(chances / n_items, concave=rng.choice(["sqrt", "log"])),
        lambda: objectives.ConcaveOverModular(chances, concave="capped", cap=1.0),
        lambda: objectives.SetFunction([lambda s: float(bool(s))] * count, n_items, 1.0, monotone=True),
    ]
    people = rng.choice(kinds)()
    return people[[rng.randrange(count) for _ in range(count)]] if rng.random() < 0.3 else people


def size_case(rng: random.Random) -> str:
    """A learner, or a selector, of any size, with options of any kind that fit together or do not."""
    import discreet as dc

    n, k, rounds = rng.randrange(1, 12), rng.randrange(1, 5), rng.choice([1, 2, 3, 5, 8, 9, 33, 64])
    batch, block, steps = (
        rng.choice([1, 1, 2, 7, 100, "auto"]),
        rng.choice([None, 1, 6, 100]),
        rng.choice([1, 4]),
    )
    budget = dc.Budget(rng.choice([0.1, 1.0, 50.0, math.inf]), rng.choice([0.0, 1e-6]),
                       rng.choice(["replace", "add_remove"]), rng.choice([1, 1, 2]))  # fmt: skip
    seed = rng.choice([None, 0])
    people = _some_people(rng, rng.choice([1, 2, rounds, rounds + 3, 70]), n)
    on, limit = dc.online, dc.constraints.Cardinality(min(k, n), n)
    makers: list[Callable[[], Any]] = [
        lambda: on.HedgeSelector(n, k, rounds, budget, resample_every=batch, seed=seed),
        lambda: on.RunningSumSelector(
            n, k, rounds, budget, resample_every=batch, seed=seed, sums=rng.choice(["sqrt", "blt", "tree"]),
            noise=rng.choice(["gaussian", "laplace"]), items_per_person=rng.choice([None, 1, 3]),
        ),
        lambda: on.PhasedSelector(n, k, budget, window=rng.choice(["doubling", 1, 4]), seed=seed),
        lambda: on.BanditSelector(
            n, k, rounds, budget, exploration=rng.choice(["blocks", "online", "presampled", "every_round"]),
            block=block, calibration=rng.choice(["tight", "tight", "published"]), seed=seed,
        ),
        lambda: on.BanditSelector(n, k, rounds, budget, feedback="slots", block=block, seed=seed),
        lambda: on.ThompsonSelector(
            n, k, rounds, budget, feedback=rng.choice(["bandit", "slots"]), block=rng.choice([None, 1, 3]),
            forget=rng.choice([0.0, 0.1]), seed=seed,
        ),
        lambda: on.MetaFrankWolfe(limit, rounds, budget, steps=steps, resample_every=batch, seed=seed),
        lambda: dc.offline.PrivateGreedy(limit, budget, seed=seed),
        lambda: dc.offline.ContinuousGreedy(limit, budget, steps=steps, seed=seed),
    ]  # fmt: skip
    try:
        maker = rng.choice(makers)()
    except (*_REFUSALS, dc.BudgetExceeded):
        return "size, refused"
    if hasattr(maker, "select"):
        with contextlib.suppress(*_REFUSALS):
            maker.select(people)
        return "size, chosen"
    for _ in range(rng.randrange(3)):
        maker.choose()
        with contextlib.suppress(*_REFUSALS):
            maker.learn(people[0])
    with contextlib.suppress(*_REFUSALS):
        maker.run(people)
    maker.choose()
    return "size, run"


def argument_case(rng: random.Random) -> str:
    """Nonsense for every method."""
    import numpy as np

    import discreet as dc
    from tests.online.learners import EVERYBODY, ROUNDS

    setting = EVERYBODY[rng.choice(sorted(EVERYBODY))]
    learner, stream = setting.make(), setting.people(ROUNDS)
    junk: list[Any] = [
        None, "", b"x", -1, 0, 3, 2**70, 0.5, math.nan, math.inf, True, [], [[1.0]], [math.nan] * 7, {},
        np.zeros((2, 3)), np.zeros(0), np.array(5), np.array(["a"]), np.zeros(7, dtype=complex), object(),
        int, (1, 2), dc.objectives.Coverage(np.ones((1, 9))), dc.losses.Distance([[0.1] * 9]), stream,
        stream[:2], *setting.bad(learner),
    ]  # fmt: skip
    for _ in range(rng.randrange(1, 12)):
        given = rng.choice(junk)
        calls: list[Callable[[], Any]] = [
            lambda given=given: learner.learn(given),
            lambda given=given: learner.learn(given, person_id=rng.choice(["ann", 5, None, (1, "x")])),
            lambda given=given: learner.run(given),
            lambda given=given: learner.run(stream, person_ids=given),
            lambda: learner.learn(setting.feedback(learner, stream[0], learner.choose())),
            lambda: learner.run(stream[: rng.randrange(1, 9)]),
        ]
        with contextlib.suppress(*_REFUSALS):
            rng.choice(calls)()
        assert setting.allowed(learner, learner.choose()), "not allowed"
        assert learner.privacy.epsilon() <= learner.budget.epsilon, "overspent"
    return "argument"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    checked_process()
    sys.path.insert(0, str(_ROOT))
    import numpy as np

    checks_are_on()
    np.seterr(all="ignore")
    warnings.simplefilter("ignore")
    done: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    for number in range(options.first, options.first + options.cases):
        rng = random.Random(f"{options.seed} {number}")
        kind = rng.choices([state_case, size_case, argument_case], [6, 3, 2])[0]
        try:
            done[kind(rng)] += 1
            if _UNRAISABLE:
                raise IndexError(_UNRAISABLE.pop())
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            notes, place = getattr(error, "__notes__", []), f"{Path(where.filename).name}:{where.lineno}"
            what = f"{kind.__name__}, {place}, {type(error).__name__}: {str(error)[:100]}"
            failed[what] += 1
            if failed[what] == 1:
                print(f"--first {number} --seed {options.seed}: {what} {'; '.join(notes)}", flush=True)
    print(dict(done))
    for what, count in failed.most_common():
        print(f"{count} x {what}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
