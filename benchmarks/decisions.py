"""Time one decision and its feedback, from raw ids, beside learners that are not private, in one run.

Every round asks for a set of 10 items and tells what the person made of it, one call after the other, as a
live system does. People like 10 items each. Full information tells all of them by id, bandit feedback the
shown item that was taken, or whether one was. The peers are favoured where they have no sets: river, MABWiser
and Vowpal Wabbit choose one item only. Peers that are not installed are left out. Beside full information
stands how much more a round takes than one that learns from the same person, built before (`beyond_rows`).

    python -m benchmarks.decisions

Processor time, each learner in turn, best of several stretches. The results go to
benchmarks/results/decisions.json.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import discreet as dc
from benchmarks.shared import machine
from discreet.core.text import table
from tools.results import store

K, LIKED, HORIZON = 10, 10, 100_000
SIZES = (100, 10_000)
STRETCHES = 5
BUDGET = dc.Budget(1.0, 1e-6)

Round = Callable[[list[int]], object]


def taken(shown: Any, likes: list[int]) -> int | None:
    """The first shown item that a person likes."""
    wanted = set(likes)
    return next((int(item) for item in shown if item in wanted), None)


# --- ours -------------------------------------------------------------------------------------------


def full_information(n_items: int) -> dict[str, Any]:
    online = dc.online
    return {
        "HedgeSelector, a new set every round": online.HedgeSelector(n_items, K, HORIZON, BUDGET),
        "RunningSumSelector, every 200 rounds": online.RunningSumSelector(
            n_items, K, HORIZON, BUDGET, weights="norm", resample_every=200
        ),
        "LeaderSelector": online.LeaderSelector(n_items, K, None, BUDGET),
        "PhasedSelector": online.PhasedSelector(n_items, K, BUDGET),
    }


def ours(n_items: int) -> dict[str, tuple[str, Round]]:
    online, full = dc.online, full_information(n_items)
    bandits = {
        "ThompsonSelector, set": online.ThompsonSelector(n_items, K, None, BUDGET),
        "ThompsonSelector, slots": online.ThompsonSelector(n_items, K, None, BUDGET, feedback="slots"),
        "BanditSelector, blocks": online.BanditSelector(n_items, K, HORIZON, BUDGET),
    }

    def with_all(learner: Any) -> Round:
        def play(likes: list[int]) -> None:
            learner.choose()
            learner.learn(items=likes)

        return play

    def with_reward(learner: Any, slots: bool) -> Round:
        def play(likes: list[int]) -> None:
            item = taken(learner.choose().items, likes)
            learner.learn(item if slots else float(item is not None))

        return play

    found = {name: ("full information", with_all(one)) for name, one in full.items()}
    return found | {
        name: ("bandit", with_reward(one, name.endswith("slots"))) for name, one in bandits.items()
    }


# --- plain NumPy ------------------------------------------------------------------------------------


def numpy_thompson(n_items: int) -> Round:
    """Beta posteriors, one draw for each item, the k largest; shown items learn whether they were taken."""
    rng, won, lost = np.random.default_rng(0), np.ones(n_items), np.ones(n_items)

    def play(likes: list[int]) -> None:
        drawn = rng.beta(won, lost)
        top = np.argpartition(-drawn, K - 1)[:K]
        top = top[np.argsort(-drawn[top])]
        item = taken(top.tolist(), likes)
        lost[top] += 1.0
        if item is not None:
            won[item] += 1.0
            lost[item] -= 1.0

    return play


def numpy_hedge(n_items: int) -> Round:
    """k experts at once, each on top of those before; only the person's items are touched."""
    rng, gains = np.random.default_rng(0), np.zeros((K, n_items))

    def play(likes: list[int]) -> None:
        scores = 0.05 * gains
        borders = np.cumsum(np.exp(scores - scores.max(axis=1, keepdims=True)), axis=1)
        targets = rng.random(K) * borders[:, -1]
        wanted = set(likes)
        for expert in range(K):
            gains[expert, likes] += 1.0
            if int(np.searchsorted(borders[expert], targets[expert])) in wanted:
                break

    return play


# --- libraries --------------------------------------------------------------------------------------


def of_obp(n_items: int) -> Round:
    from obp.policy import BernoulliTS

    policy = BernoulliTS(n_actions=n_items, len_list=K, random_state=0)

    def play(likes: list[int]) -> None:
        shown = policy.select_action()
        item = taken(shown.tolist(), likes)
        for one in shown:
            policy.update_params(int(one), float(one == item))

    return play


def of_river(n_items: int) -> Round:
    from river import bandit, proba

    policy = bandit.ThompsonSampling(reward_obj=proba.Beta(), seed=0)
    arms = range(n_items)

    def play(likes: list[int]) -> None:
        arm = policy.pull(arms)
        policy.update(arm, arm in likes)

    return play


def of_mabwiser(n_items: int) -> Round:
    from mabwiser.mab import MAB, LearningPolicy

    policy = MAB(list(range(n_items)), LearningPolicy.ThompsonSampling(), seed=0)
    policy.fit([0], [0])

    def play(likes: list[int]) -> None:
        arm = policy.predict()
        policy.partial_fit([arm], [int(arm in likes)])

    return play


def of_vw(n_items: int) -> Round:
    from vowpalwabbit import Workspace

    policy = Workspace("--cb_explore_adf --epsilon 0.1 --quiet --random_seed 1")
    actions = [f"|a i{item}" for item in range(n_items)]

    def play(likes: list[int]) -> None:
        chances = policy.predict(actions)
        arm = int(np.argmax(chances))
        cost = f"{arm}:{-float(arm in likes)}:{max(chances[arm], 1e-6)} "
        policy.learn([*actions[:arm], cost + actions[arm], *actions[arm + 1 :]])

    return play


PEERS: dict[str, tuple[str, Callable[[int], Round]]] = {
    "NumPy Hedge": ("full information", numpy_hedge),
    "NumPy Thompson": ("bandit", numpy_thompson),
    "obp BernoulliTS": ("bandit", of_obp),
    "river ThompsonSampling (one item)": ("bandit", of_river),
    "MABWiser ThompsonSampling (one item)": ("bandit", of_mabwiser),
    "Vowpal Wabbit cb_explore_adf (one item)": ("bandit", of_vw),
}


def measured(n_items: int) -> dict[str, tuple[str, bool, float]]:
    """(feedback, whether it is private, microseconds) of every learner."""
    rng = np.random.default_rng(1)
    people = [rng.choice(n_items, LIKED, replace=False).tolist() for _ in range(2000)]
    rounds: dict[str, tuple[str, bool, Round]] = {
        name: (feedback, True, play) for name, (feedback, play) in ours(n_items).items()
    }
    for name, (feedback, make) in PEERS.items():
        try:
            rounds[name] = (feedback, False, make(n_items))
        except ImportError:
            print(f"{name.split()[0]} is not installed", file=sys.stderr)
    best: dict[str, float] = {}
    counts: dict[str, int] = {}
    for name, (_, _, play) in rounds.items():  # compiles, and says how long a stretch may be
        for likes in people[:3]:
            play(likes)
        start = time.process_time()
        play(people[3])
        counts[name] = int(min(1000, max(3, 0.15 / max(time.process_time() - start, 1e-6))))
    for _ in range(STRETCHES):
        for name, (_, _, play) in rounds.items():
            start = time.process_time()
            for likes in people[: counts[name]]:
                play(likes)
            spent = (time.process_time() - start) / counts[name] * 1e6
            best[name] = min(best.get(name, np.inf), spent)
    return {name: (feedback, private, best[name]) for name, (feedback, private, _) in rounds.items()}


def beyond_rows(n_items: int) -> dict[str, float]:
    """Microseconds that `learn(items=...)` takes beyond `learn` of a person who was built before."""
    rng = np.random.default_rng(2)
    likes = [rng.choice(n_items, LIKED, replace=False).tolist() for _ in range(200)]
    built = [dc.objectives.Coverage([[float(i in one) for i in range(n_items)]]) for one in map(set, likes)]
    found = {}
    for name, learner in full_information(n_items).items():
        ways: dict[str, list[Any]] = {"items": likes, "person": built}
        spent: dict[str, list[float]] = {way: [] for way in ways}
        for _ in range(6 * STRETCHES):  # the first ones compile
            for way, given in ways.items():
                start = time.process_time()
                for one in given:
                    learner.choose()
                    learner.learn(**{way: one})
                spent[way].append(time.process_time() - start)
        found[name] = (min(spent["items"]) - min(spent["person"])) / len(likes) * 1e6
    return found


def main() -> int:
    warnings.simplefilter("ignore", UserWarning)
    by_size = {n_items: measured(n_items) for n_items in SIZES}
    more = {n_items: beyond_rows(n_items) for n_items in SIZES}
    names = list(by_size[SIZES[0]])
    rows = [
        [
            name,
            by_size[SIZES[0]][name][0],
            "yes" if by_size[SIZES[0]][name][1] else "no",
            *(f"{by_size[n][name][2]:,.1f}" for n in SIZES),
            *(f"{more[n][name]:,.1f}" if name in more[n] else "" for n in SIZES),
        ]
        for name in names
    ]
    header = ["learner", "feedback", "private", *(f"us at n = {n:,}" for n in SIZES)]
    header += [f"from ids at n = {n:,}" for n in SIZES]
    print(table(header, rows))
    slower = []
    for n in SIZES:
        for feedback in ("full information", "bandit"):
            of = [(name, *one) for name, one in by_size[n].items() if one[0] == feedback]
            peer = min((us for _, _, private, us in of if not private), default=np.inf)
            slower += [(n, name, us, peer) for name, _, private, us in of if private and us >= peer]
    for n, name, us, peer in slower:
        print(f"n = {n:,}: {name} takes {us:.1f} us, the fastest peer of its feedback {peer:.1f} us")
    results = {str(n): {name: one[2] for name, one in by_size[n].items()} for n in SIZES}
    beyond = {str(n): more[n] for n in SIZES}
    store("decisions", {"machine": machine(), "k": K, "microseconds": results, "beyond_rows": beyond})
    return 0


if __name__ == "__main__":
    sys.exit(main())
