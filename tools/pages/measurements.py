"""Tables of docs/benchmarks.md, from what the scripts in benchmarks/ stored."""

from __future__ import annotations

from typing import Any

import numpy as np

from tools.results import exponent, stored

from .blocks import block, markdown


def _mean(values: Any, digits: int = 3) -> str:
    return "" if values is None else f"{np.mean(values):.{digits}f}"


_PHASES = ("PhasedSelector", "PhasedSelector, window T/16", "PhasedSelector, restart_on_drift")


@block
def rolling_shares() -> str:
    found, rows = stored("rolling"), []
    for epsilon in ("1", "0.3"):
        for name, one in found["streams"].items():
            shares = [_mean(one[f"{by}, epsilon {epsilon}"]) for by in ("RollingSelector", *_PHASES)]
            master = _mean(one.get(f"BestOfBothSelector, epsilon {epsilon}"))
            certified = f"{found['certified'][name]:.2f}" if master else ""
            best = _mean(one["sliding greedy, not private"])
            rows.append([name, epsilon, *shares, master, certified, best])
    titles = [
        "`RollingSelector`",
        "`PhasedSelector`",
        "`PhasedSelector`, windows of T/16",
        "`PhasedSelector`, `restart_on_drift`",
        "`BestOfBothSelector`",
        "its certificate / trivial bound",
    ]
    return markdown(["stream", "epsilon", *titles, "greedy, not private"], rows)


@block
def rolling_losses() -> str:
    found = stored("rolling")["streams"]
    lost = {}
    for epsilon in ("1", "0.3"):
        for name, one in found.items():
            best = max(np.mean(one[f"{by}, epsilon {epsilon}"]) for by in _PHASES)
            if best > np.mean(one[f"RollingSelector, epsilon {epsilon}"]):
                lost.setdefault(epsilon, []).append(f'"{name}"')
    where = "; ".join(f"at epsilon {epsilon} on {', '.join(names)}" for epsilon, names in lost.items())
    return f"Some form of `PhasedSelector` serves more than `RollingSelector` {where}."


@block
def rolling_more() -> str:
    against, seconds = stored("rolling")["made_against"], stored("rolling")["large_seconds"]
    took = " and ".join(f"{seconds[name]:.1f}" for name in ("RollingSelector", "BestOfBothSelector"))
    return (
        "`RollingSelector` has no certificate. If an adversary lets everybody want an item outside the set"
        f" that its votes choose\n(20 items, k = 2, 20,000 rounds, epsilon 1), it serves"
        f" {against['RollingSelector']:.3f} of the people. `BestOfBothSelector`, which uses the same votes in"
        f" part, then\nserves {against['BestOfBothSelector']:.3f}. For 30,000 people, 40,000 items and k = 10"
        f" the two take {took} seconds of CPU time."
    )


@block
def regret_exponents() -> str:
    found = stored("regret_growth")["exponents"]
    return f"Fitted exponents: {'; '.join(f'{name} {one:.2f}' for name, one in found.items())}."


@block
def bandit_settings() -> str:
    setting = stored("bandit")["settings"]
    return (
        f"Reward divided by that of the best fixed set: {setting['items']} items and k = {setting['k']}"
        f" unless named, {setting['rounds']:,} rounds of the synthetic\nproduct display, mean of"
        f" {setting['runs']} runs."
    )


def _with_class(name: str) -> str:
    """A row that is an option, with the class that has it."""
    return f"`BanditSelector`, {name}" if name.startswith(("`exploration", "`feedback")) else name


@block
def bandit_rewards() -> str:
    rewards = stored("bandit")["reward_over_best"]
    rows = [
        [_with_class(name), *(_mean(by.get(e)) for e in ("1", "0.2", "inf"))] for name, by in rewards.items()
    ]
    return markdown(["learner", "epsilon 1", "epsilon 0.2", "not private"], rows)


@block
def bandit_feedback() -> str:
    rows = []
    for data, part in (("eshop_clicks", "share_served"), ("msweb", "share_served_msweb")):
        for name, by in stored("bandit")[part].items():
            rows.append([data, _with_class(name), *(_mean(by.get(e)) for e in ("", "1", "inf"))])
    return markdown(["data", "learner", "fixed set", "learner at epsilon 1", "learner, not private"], rows)


@block
def bandit_many_items() -> str:
    found, rows, ratios = stored("bandit")["many_items"], [], {}
    learners = ("random sets", "BanditSelector", "ThompsonSelector, before", "ThompsonSelector")
    for name, by in found.items():
        catalogue, k, epsilon = name.rsplit(", ", 2)
        means = [float(np.mean(by[one])) for one in learners]
        rows.append([catalogue, k, epsilon.split()[1], *(f"{mean:.3f}" for mean in means)])
        size = catalogue.rsplit(", ", 1)[1]
        ratios.setdefault(size, []).append(means[3] / max(means[1:3]))
    beside = "; ".join(f"{np.exp(np.mean(np.log(of))):.2f} with {size}" for size, of in ratios.items())
    heads = ["random sets", "`BanditSelector`", "`ThompsonSelector`, small-catalogue settings"]
    return (
        markdown(["catalogue", "k", "epsilon", *heads, "`ThompsonSelector`"], rows)
        + "\n\n`ThompsonSelector` divided by the better of the two columns before it, geometric mean over the"
        + f" rows: {beside}."
    )


@block
def feature_selection() -> str:
    rows = []
    for name, one in stored("feature_selection").items():
        for objective, by in one["accuracy"].items():
            if objective != "at random":
                cells = [f"{by[e][0]:.3f}" for e in ("0.1", "0.3", "1", "3", "inf")]
                plain = objective.removesuffix(" (before)")
                rows.append([f"{name}, {one['k']} of {one['features']}", plain, *cells])
        chance = f"{one['accuracy']['at random']['0'][0]:.3f}"
        rows.append([f"{name}, {one['k']} of {one['features']}", "random features", *[chance] * 5])
    header = ["data, features chosen", "objective", *(f"epsilon {e}" for e in ("0.1", "0.3", "1", "3"))]
    return markdown([*header, "not private"], rows)


@block
def feature_selection_losses() -> str:
    lost = []
    for name, one in stored("feature_selection").items():
        chance = one["accuracy"]["at random"]["0"][0]
        for objective, by in one["accuracy"].items():
            below = [e for e in ("0.1", "0.3", "1", "3") if objective != "at random" and by[e][0] < chance]
            if below:
                plain = objective.removesuffix(" (before)")
                lost.append(f"{name}: {plain} at epsilon {', '.join(below)}")
    return f"Less accurate than random features: {'; '.join(lost)}."


@block
def bandit_exponents() -> str:
    rows = [
        [
            _with_class(name),
            *(f"{exponent(one['rounds'], one[kind]):.2f}" for kind in ("regret", "certified")),
        ]
        for name, one in stored("bandit")["growth"].items()
    ]
    return markdown(["learner", "exponent of measured regret", "exponent of the certificate"], rows)


@block
def plans_kept() -> str:
    rows = []
    for name, now in stored("planning")["plans"].items():
        data, feedback, epsilon = name.split(", ")
        interval = f"{now['low']:.2f} to {now['high']:.2f}"
        shares = (f"{now['expected']:.2f}", interval, f"{now['came']:.2f}")
        rows.append([data, feedback, epsilon, f"`{now['learner']}`", *shares])
    heads = ["data", "feedback", "epsilon", "learner", "expected share", "interval", "observed share"]
    return markdown(heads, rows)


@block
def plans_candidates() -> str:
    found = stored("planning")["candidates"]
    kinds = list(next(iter(found.values())))
    rows = [[name, *(f"{row[kind]:.2f}" for kind in kinds)] for name, row in found.items()]
    return markdown(["popularity, epsilon", *map(_candidates, kinds)], rows)


def _candidates(kind: str) -> str:
    learner, _, number = kind.partition(", ")
    number = number.replace("3000", "3,000").replace(" bought", "")
    return f"`{learner}`, {number} items{' chosen privately' if kind.endswith('bought') else ''}"


@block
def plans_knapsacks() -> str:
    found = stored("planning")["knapsacks"]
    kinds = list(next(iter(found.values())))
    rows = [[name, *(f"{row[kind]:.2f}" for kind in kinds)] for name, row in found.items()]
    plain = "knapsack and at most 10 items"
    heads = {"at most 10": plain, "at most 10, before": f"{plain}, costs ignored in choosing"}
    return markdown(["total cost at most, epsilon", *(heads.get(kind, kind) for kind in kinds)], rows)


@block
def plans_seconds() -> str:
    large = stored("planning")["large"]
    return (
        f"With 40,000 items and 30,000 people the default plan takes {large['plan']:.1f} s of CPU time,\n"
        f"and its learner (`{large['learner']}`) {large['stream']:.1f} s for the whole stream."
    )


@block
def offline_pickups() -> str:
    uber = stored("offline")["uber"]
    ranks = list(uber["mean"])
    rows = [
        [_accounting(name), *(f"{uber['mean'][k][name]:.2f}" for k in ranks)]
        for name in uber["mean"][ranks[0]]
    ]
    rows += [
        [f"reported in the paper: {name}", *(f"{value:.2f}" for value in values)]
        for name, values in uber["reported"].items()
    ]
    for name in uber["gap_closed"][ranks[0]]:
        cells = [uber["gap_closed"][k][name] for k in ranks]
        closed = (f"{100 * s:.0f} % ± {100 * e:.0f}" for s, e in cells)
        rows.append([f"gap closed by {_accounting(name)}", *closed])
    return markdown([f"mean utility over {uber['runs']} runs", *(f"rank {k}" for k in ranks)], rows)


def _accounting(name: str) -> str:
    """A row that is an accounting method of `PrivateGreedy`, with its class."""
    method, *rest = name.split(", ")
    if method not in ("basic", "zcdp", "decomposable", "subsampled", "auto"):
        return name
    return ", ".join([f'`PrivateGreedy(method="{method}")`', *rest])


@block
def offline_shares() -> str:
    rows = [
        [data, setting, *(f"{np.ravel(value)[0]:.3f}" for value in one["share"].values())]
        for data, by in stored("offline")["shares"].items()
        for setting, one in by.items()
    ]
    methods = stored("offline")["shares"]["msweb"]["epsilon 1, k 5"]["share"]
    heads = {
        "PrivateGreedy": "`PrivateGreedy`",
        "popularity": "private popularity",
        "greedy": "greedy, not private",
    }
    return markdown(["data", "setting", *(heads.get(name, name) for name in methods)], rows)


@block
def offline_constraints() -> str:
    found = stored("offline")["constraints"]
    rows = [[name, f"{one['ours']:.4f}", f"{one['greedy']:.4f}"] for name, one in found.items()]
    return markdown(["constraint, epsilon", "`PrivateGreedy`", "greedy, not private"], rows)


@block
def continuous_greedy() -> str:
    found = stored("continuous_greedy")["clicks"]
    methods = next(iter(found.values()))
    rows = [
        [
            method.replace("gaussian gradients", "ContinuousGreedy, Gaussian noise on gradients"),
            *(f"{by[method]['mean']:.4f}" for by in found.values()),
        ]
        for method in methods
    ]
    return markdown(["method", *(f"share served, {limit}" for limit in found)], rows)


@block
def minimization_settings() -> str:
    setting = stored("minimization")["settings"]
    return (
        f"Synthetic costs (directed cuts and prices), {setting['n_items']} items, {setting['rounds']:,}"
        f" rounds, epsilon {setting['epsilon']:g}, delta {setting['delta']:g} for Gaussian noise and 0\n"
        "otherwise. Share of the gap between a random set and the best fixed set that each learner closes, on"
        " three streams:"
    )


@block
def minimization_gap() -> str:
    found = stored("minimization")["closed"]
    rows = [[name, *(f"{100 * share:.0f} %" for share in shares)] for name, shares in found.items()]
    return markdown(["learner", *(f"stream {i}" for i in range(len(rows[0]) - 1))], rows)


@block
def minimization_exponents() -> str:
    rows = [[name, f"{exponent:.2f}"] for name, exponent in stored("minimization")["exponents"].items()]
    return markdown(["learner", "fitted exponent of regret"], rows)


@block
def convex_ratio() -> str:
    ratio, few = (
        stored("convex")["adult at epsilon 1, times gradient descent"],
        stored("convex")["logistic"]["breast cancer"],
    )
    return (
        f"On adult at epsilon 1 the average loss is {ratio:.2f} times that of online gradient descent without"
        " privacy, with its step size tuned in hindsight.\nFeature scaling, radius and the optimistic"
        " regularization were tuned on adult itself, so this ratio is optimistic for other data.\nOn breast"
        f" cancer ({few['rounds']} people) at epsilon 1 the average loss is"
        f" {np.mean(few['epsilon']['1.0']):.2f}, above the {few['all zeros']:.2f} of predicting 1/2 for"
        " everybody."
    )


@block
def convex_exponents() -> str:
    rows = [
        [name, f"{one['exponent']:.2f}", f"{one['certified exponent']:.2f}"]
        for name, one in stored("convex")["growth"].items()
    ]
    return markdown(["losses", "measured exponent", "certified exponent"], rows)


@block
def frank_wolfe_shares() -> str:
    rows = []
    for name, one in stored("frank_wolfe")["share_served"].items():
        method = name.replace("1 steps", "1 step").replace("epsilon inf", "not private")
        if "step" in method:
            method = f"`MetaFrankWolfe`, {method}"
        rows.append([method, _mean(one["share"])])
    return markdown(["method", "share served"], rows)


@block
def stream_speed() -> str:
    rows = []
    for one in stored("hedge_speed")["full_information"]:
        us = one["microseconds_per_round"]
        label = f"Hedge, {one['n_items']:,} items, k = {one['k']}"
        rows.append([label, f"{us['run']:.1f}", f"{us['paper'] / us['run']:,.0f}"])
    for one in stored("bandit_speed")["cases"]:
        label = f"bandit, {one['items']:,} items, k = {one['slots']}"
        rows.append([label, f"{one['run_us']:.1f}", f"{one['ratio']:,.0f}"])
    one = stored("minimization_speed")
    us = one["microseconds_per_round"]
    for rival, name in (
        ("paper", "NumPy line by line"),
        ("chain at once", "NumPy, all sets of a chain at once"),
        ("tuned", "tuned NumPy"),
    ):
        label = f"minimization, {one['n_items']} items, over {name}"
        rows.append([label, f"{us['run']:.1f}", f"{us[rival] / us['run']:,.1f}"])
    return markdown(["whole stream", "microseconds per round", "speed-up over NumPy"], rows)


@block
def decision_speed() -> str:
    found = stored("decisions")
    sizes = list(found["microseconds"])
    rows = [
        [
            name,
            *(f"{found['microseconds'][n][name]:,.0f}" for n in sizes),
            *(
                f"{found['beyond_rows'][n][name]:.0f}" if name in found["beyond_rows"][n] else ""
                for n in sizes
            ),
        ]
        for name in found["microseconds"][sizes[0]]
    ]
    header = [f"{int(n):,} items" for n in sizes]
    return markdown(["learner", *header, *(f"of this for ids, {one}" for one in header)], rows)


@block
def set_sizes() -> str:
    found = stored("set_sizes")
    rows = [
        [name, *(f"{one:.1f}" for one in times), f"{exponent(found['k'], times):.2f}"]
        for name, times in found["microseconds"].items()
    ]
    return markdown(["learner", *(f"k = {k}" for k in found["k"]), "fitted exponent in k"], rows)


@block
def greedy_speed() -> str:
    rows = [
        [
            name,
            str(one["k"]),
            f"{one['private_s']:.3f}",
            f"{one['ratio']:.2f}" if "ratio" in one else "",
            f"{one['one_by_one_ratio']:.0f}" if "one_by_one_ratio" in one else "",
        ]
        for name, one in stored("offline_speed").items()
    ]
    heads = ["people x items", "k", "seconds", "time / greedy without privacy"]
    return markdown([*heads, "speed-up over evaluating people one by one"], rows)


@block
def returning_people() -> str:
    rows = []
    for name, learner, by in _returning():
        for way, label in _PROTECTIONS.items():
            cells = [_mean(by.get(f"b = {b}, {way}")) for b in (1, 2, 4, 8)]
            rows.append([name, learner, label, *cells])
    return markdown(["stream", "learner", "calibration", *(f"b = {b}" for b in (1, 2, 4, 8))], rows)


@block
def returning_gains() -> str:
    parts = []
    for b in (2, 8):
        for way, label in list(_PROTECTIONS.items())[1:]:
            gains = [
                np.mean(by[f"b = {b}, {way}"]) - np.mean(by[f"b = {b}, divided"]) for _, _, by in _returning()
            ]
            low, high = (round(float(of(gains)), 3) + 0.0 for of in (min, max))
            parts.append(f"{low:+.3f} to {high:+.3f} with {label} at b = {b}")
    return f"Difference in share served to a divided budget, over the rows: {'; '.join(parts)}."


_PROTECTIONS = {
    "divided": "budget divided by b",
    "1 apart": "`min_separation=1`",
    "4 apart": "`min_separation=4`",
}


def _returning() -> list[tuple[str, str, dict[str, Any]]]:
    found = stored("returning")
    streams = ((name, one) for name, one in found.items() if name != "settings")
    return [(name, learner, by) for name, one in streams for learner, by in one["share_served"].items()]


@block
def personal() -> str:
    rows = []
    for name, found in stored("personal")["offline"].items():
        data, k, epsilon = (part.split("=")[-1] for part in name.split(", "))
        plain = [f"{one}, not private" for one in ("item-kNN", "EASE")]
        figures = [
            f"{found[one][0]:.3f}" if one in found else "" for one in ("popularity", "personal", *plain)
        ]
        rows.append([data, k, epsilon, *figures, *(f"{number:.3f}" for number in found["personal"][1:])])
    header = ["data", "k", "epsilon", "popularity, private", "personal, private"]
    header += ["item-kNN, not private", "EASE, not private"]
    return markdown([*header, "recall of personal", "NDCG of personal"], rows)


@block
def personal_large() -> str:
    found = stored("personal")["large: online_retail"]
    by = [
        f"{own:.3f} {'without noise' if epsilon == 'inf' else f'at epsilon {epsilon}'}"
        for epsilon, (_, own) in found.items()
    ]
    return (
        f"On the catalogue of online_retail (k = 5), personal sets serve {', '.join(by)}; popularity serves"
        f" {min(one[0] for one in found.values()):.3f} to {max(one[0] for one in found.values()):.3f}."
    )


@block
def personal_few() -> str:
    rows = [
        [name, str(signal), f"{popular:.3f}", f"{own:.3f}"]
        for name, (signal, own, popular) in stored("personal")["few people of eshop_clicks"].items()
    ]
    return markdown(["people", "n x mu", "popularity", "personal"], rows)


@block
def personal_online() -> str:
    rows = []
    for name, runs in stored("personal")["online"].items():
        learner, _, epsilon = name.rpartition(", epsilon=")
        rows.append([learner, epsilon, *(f"{mean:.3f}" for mean in np.mean(runs, axis=0))])
    return markdown(["learner", "epsilon", "share served", "share served, second half"], rows)


@block
def public_context() -> str:
    """Of several segmentations, and settings of the linear model, the best by the figure that is shown."""
    rows = []
    for name, found in stored("context").items():
        data, _, epsilon = name.rpartition(", epsilon=")
        best = {}
        for way, runs in found.items():
            kind = way if way in ("one for all", "linear, intercept") else way.split(",")[0]
            if kind not in best or np.mean(runs) > np.mean(best[kind]):
                best[kind] = runs
        names = ("one for all", "segments", "linear, intercept", "linear")
        cells = [
            f"{np.mean(best[one]):.3f} ± {np.std(best[one], ddof=1) / len(best[one]) ** 0.5:.3f}"
            for one in names
        ]
        rows.append([data, epsilon, *cells])
    heads = ["one learner for all", "best segmentation", "linear model without context"]
    return markdown(["data", "epsilon", *heads, "best linear model with context"], rows)


@block
def personal_features() -> str:
    rows = []
    for name, found in stored("personal")["features"].items():
        data, _, epsilon = name.rpartition(", epsilon=")
        names = ("popularity", "personal", "personal, features")
        rows.append([data, epsilon, *(f"{found[one]:.3f}" for one in names)])
    return markdown(["data", "epsilon", "popularity", "personal", "personal, with public features"], rows)


@block
def segments() -> str:
    rows = []
    for name, found in stored("segments")["share_served"].items():
        stream, _, epsilon = name.rpartition(", epsilon ")
        shares = [found[way] for way in ("one", "alone", "shared", "short")]
        rows.append([stream, epsilon, *(" / ".join(f"{share:.3f}" for share in one) for one in shares)])
    ways = [
        "one learner for all",
        "one learner per segment",
        "`share=True`",
        "`share=True`, short first batch",
    ]
    return markdown(["stream (cells: all people / mean over segments)", "epsilon", *ways], rows)


@block
def segments_compared() -> str:
    """Which of the three ways serves most people, and what sharing loses by country."""
    found, counts = stored("segments")["share_served"], {}
    ways = {"one": "one learner for all", "alone": "one learner per segment", "shared": "`share=True`"}
    for one in found.values():
        best = max(ways, key=lambda way: one[way][0])
        counts[best] = counts.get(best, 0) + 1
    wins = ", ".join(f"{ways[way]} in {counts.get(way, 0)}" for way in ways)
    lost = {
        way: [one["one"][0] - one[way][0] for name, one in found.items() if "by country" in name]
        for way in ("shared", "alone")
    }
    said = " and ".join(f"{ways[way]} serves {min(of):.3f} to {max(of):.3f} less" for way, of in lost.items())
    return (
        f"Of the {len(found)} rows, the most people are served by {wins} (not counting the short first"
        f" batch).\nFor eshop_clicks by country, {said} than one learner for all."
    )


@block
def year() -> str:
    found = stored("year")
    months = [1, 2, 6, 12]
    rows = []
    for name, runs in found["shares"].items():
        by = np.mean(runs, axis=0)
        learner = name.split(",")[0]
        composed = found["accounts"].get(learner, {}).get("composed")
        spent = "" if composed is None or "not private" in name else f"{composed[-1]:.2f}"
        rows.append([name, *(f"{by[month - 1]:.3f}" for month in months), f"{by.mean():.3f}", spent])
    names = [f"month {month}" for month in months]
    return markdown(["share of the best fixed sets", *names, "year", "epsilon of 12 months"], rows)


@block
def service() -> str:
    found = stored("service")
    rows = [
        [_server(name), f"{one['per_second']:,.0f}", f"{one['cpu_us']:,.0f}"]
        for name, one in found["closed_loop"].items()
    ]
    return markdown(["server", "pairs per second", "CPU of the server per pair, microseconds"], rows)


def _server(name: str) -> str:
    for old, new in (
        ("nothing (uvicorn)", "uvicorn without any work"),
        ("ours", "`discreet` service"),
        ("plain", "plain FastAPI, not private"),
    ):
        name = name.replace(old, new)
    return name


@block
def service_more() -> str:
    found = stored("service")
    rate, memory = found["open_loop_1000"], found["memory_mb"]
    return (
        "At 1,000 decisions per second (open loop), with clients on the same two cores, the median latency is"
        f"\n{rate['p50_ms']:.1f} ms and the 99th percentile {rate['p99_ms']:.0f} ms. The process holds"
        f" {memory[0]:.0f} MB after 100,000 decisions and {memory[-1]:.0f} MB after a million."
    )


@block
def service_pairs() -> str:
    found = stored("service")
    names = [
        "connections",
        "uvicorn, no work",
        "Starlette, no work",
        "`discreet` service",
        "requests",
        "commits",
        "learning",
    ]
    rows = []
    for connections, by in found["by_thread"].items():
        ours = by["ours, SQLite"]
        others = [by[f"nothing ({name})"]["all"] for name in ("uvicorn", "Starlette")]
        parts = [ours[name] for name in ("all", "requests", "commits", "learning")]
        rows.append([connections, *(f"{one:.0f}" for one in (*others, *parts))])
    times = {}
    for connections, by in found["by_thread"].items():
        others = [by[f"nothing ({name})"]["all"] for name in ("uvicorn", "Starlette")]
        times[connections] = [f"{by['ours, SQLite']['all'] / one:.1f}" for one in others]
    many = found["batches"]
    return (
        f"{markdown(names, rows)}\n\nWith 8 connections a pair takes {times['8'][0]} times the CPU time of"
        f" two uvicorn requests without any work, and {times['8'][1]}\ntimes that of two Starlette routes;"
        f" with 64 connections {times['64'][0]} and {times['64'][1]} times. In batches of ten a decision with"
        f" its\noutcome takes {many['10']:.0f} microseconds, in batches of a hundred {many['100']:.0f}."
    )


@block
def stores() -> str:
    rows = []
    for power in range(6, 11):
        found = stored("store").get(f"1e{power}", {})
        for name, one in found.items():
            if isinstance(one, dict) and "libraries" in one:
                seconds = [f"{one[key]:,.2f}" for key in ("cpu", "seconds")]
                memory = [f"{one[key]:.2f}" for key in ("memory", "libraries")]
                rows.append([f"10^{power}", name.replace("earlier", "previous"), *seconds, *memory])
    heads = ["rows", "operation", "CPU, s", "wall clock, s", "peak memory, GB"]
    return markdown([*heads, "of this for libraries, GB"], rows)


@block
def stores_more() -> str:
    found = stored("store")
    each = [one["cpu_microseconds_per_person"] for name, one in found.items() if name.startswith("1e")]
    times = found["1e7"].get("earlier from_events, times")
    machine = found["machine"]
    text = (
        f"The load average was {machine['load']:.1f} on {machine['cores']} cores. `prepare` and `select` take"
        f" {min(each):.1f} to {max(each):.1f} microseconds of CPU time per person."
    )
    if times is not None:
        text += (
            f"\nAt 10^7 rows the previous `from_events` takes {times['cpu']:.1f} times their CPU time,"
            f" {times['seconds']:.1f} times their wall-clock time, {times['memory']:.1f} times\ntheir memory"
            f" and {times['beyond']:.1f} times their memory beyond the libraries."
        )
    small = found["1e6"]
    both, events = small["prepare and select"]["memory"], small["from_events"]["memory"]
    return text + f" At 10^6 rows they need {both / events:.1f} times the memory of `from_events`."
