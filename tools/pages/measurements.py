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
    titles = ("votes", "phases", "windows of T/16", "phases, restarts", "master", "certified")
    return markdown(["stream", "epsilon", *titles, "greedy, not private"], rows)


@block
def rolling_more() -> str:
    against, seconds = stored("rolling")["made_against"], stored("rolling")["large_seconds"]
    took = " and ".join(f"{seconds[name]:.1f}" for name in ("RollingSelector", "BestOfBothSelector"))
    return (
        "Where everybody wants an item that votes do not show (20 items, k = 2, 20,000 rounds, epsilon 1)"
        f" `RollingSelector` serves\n{against['RollingSelector']:.3f} of them and `BestOfBothSelector`"
        f" {against['BestOfBothSelector']:.3f}. For 30,000 people, 40,000 items and k = 10 they take"
        f"\n{took} seconds of processor time."
    )


@block
def bandit_settings() -> str:
    setting = stored("bandit")["settings"]
    return (
        f"Reward over that of the best fixed set; {setting['items']} items, k = {setting['k']},"
        f" {setting['rounds']:,} rounds of the product display,\nmean of {setting['runs']} runs."
    )


@block
def bandit_rewards() -> str:
    rewards = stored("bandit")["reward_over_best"]
    rows = [[name, *(_mean(by.get(e)) for e in ("1", "0.2", "inf"))] for name, by in rewards.items()]
    return markdown(["learner", "epsilon 1", "epsilon 0.2", "not private"], rows)


@block
def bandit_feedback() -> str:
    shares = stored("bandit")["share_served"]
    rows = [[name, *(_mean(by.get(e)) for e in ("", "1", "inf"))] for name, by in shares.items()]
    return markdown(["feedback", "share served", "epsilon 1", "not private"], rows)


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
    beside = "; ".join(f"{size}: {np.exp(np.mean(np.log(of))):.2f}" for size, of in ratios.items())
    return (
        markdown(["catalogue", "k", "epsilon", *learners], rows)
        + f"\n\nOver the better of the two before, geometric mean: {beside}."
    )


@block
def feature_selection() -> str:
    rows = []
    for name, one in stored("feature_selection").items():
        for objective, by in one["accuracy"].items():
            if objective != "at random":
                cells = [f"{by[e][0]:.3f}" for e in ("0.1", "0.3", "1", "3", "inf")]
                rows.append([f"{name}, {one['k']} of {one['features']}", objective, *cells])
        chance = f"{one['accuracy']['at random']['0'][0]:.3f}"
        rows.append([f"{name}, {one['k']} of {one['features']}", "at random", *[chance] * 5])
    header = ["data", "objective", "epsilon 0.1", "0.3", "1", "3", "not private"]
    return markdown(header, rows)


@block
def bandit_exponents() -> str:
    rows = [
        [name, *(f"{exponent(one['rounds'], one[kind]):.2f}" for kind in ("regret", "certified"))]
        for name, one in stored("bandit")["growth"].items()
    ]
    return markdown(["learner", "measured", "certified"], rows)


@block
def plans_kept() -> str:
    record, rows = stored("planning"), []
    for name, now in record["plans"].items():
        before = record["before"]["plans"][name]
        said = [f"{one['expected']:.2f} ({one['low']:.2f} to {one['high']:.2f})" for one in (before, now)]
        came = [f"{one['came']:.2f} `{one['learner']}`" for one in (before, now)]
        rows.append([name, said[0], came[0], said[1], came[1]])
    return markdown(["data set, feedback, epsilon", "promised before", "came", "promised", "comes"], rows)


@block
def plans_candidates() -> str:
    found = stored("planning")["candidates"]
    kinds = list(next(iter(found.values())))
    rows = [[name, *(f"{row[kind]:.2f}" for kind in kinds)] for name, row in found.items()]
    return markdown(
        ["people, epsilon", *(f"`{kind}`".replace(", ", "`, ").rstrip("`") for kind in kinds)], rows
    )


@block
def plans_knapsacks() -> str:
    found = stored("planning")["knapsacks"]
    kinds = list(next(iter(found.values())))
    rows = [[name, *(f"{row[kind]:.2f}" for kind in kinds)] for name, row in found.items()]
    return markdown(["limit", *kinds], rows)


@block
def plans_seconds() -> str:
    large = stored("planning")["large"]
    return (
        f"At 40,000 items and 30,000 people the default plan takes {large['plan']:.1f} s of processor time,\n"
        f"and its learner (`{large['learner']}`) {large['stream']:.1f} s for the stream."
    )


@block
def offline_pickups() -> str:
    uber = stored("offline")["uber"]
    ranks = list(uber["mean"])
    rows = [[name, *(f"{uber['mean'][k][name]:.2f}" for k in ranks)] for name in uber["mean"][ranks[0]]]
    rows += [
        [f"reported there: {name}", *(f"{value:.2f}" for value in values)]
        for name, values in uber["reported"].items()
    ]
    for name in uber["gap_closed"][ranks[0]]:
        cells = [uber["gap_closed"][k][name] for k in ranks]
        rows.append([f"gap closed by {name}", *(f"{100 * s:.0f} % ± {100 * e:.0f}" for s, e in cells)])
    return markdown([f"method ({uber['runs']} runs)", *(f"rank {k}" for k in ranks)], rows)


@block
def offline_shares() -> str:
    rows = [
        [data, setting, *(f"{np.ravel(value)[0]:.3f}" for value in one["share"].values())]
        for data, by in stored("offline")["shares"].items()
        for setting, one in by.items()
    ]
    methods = stored("offline")["shares"]["msweb"]["epsilon 1, k 5"]["share"]
    return markdown(["data", "setting", *methods], rows)


@block
def offline_constraints() -> str:
    found = stored("offline")["constraints"]
    rows = [[name, f"{one['ours']:.4f}", f"{one['greedy']:.4f}"] for name, one in found.items()]
    return markdown(["constraint", "private greedy", "greedy"], rows)


@block
def continuous_greedy() -> str:
    found = stored("continuous_greedy")["clicks"]
    methods = next(iter(found.values()))
    rows = [[method, *(f"{by[method]['mean']:.4f}" for by in found.values())] for method in methods]
    return markdown(["share served", *found], rows)


@block
def minimization_settings() -> str:
    setting = stored("minimization")["settings"]
    return (
        f"Directed cuts and prices, {setting['n_items']} items, {setting['rounds']:,} rounds, epsilon"
        f" {setting['epsilon']:g}, delta {setting['delta']:g}: part of the gap closed\nbetween a random set"
        " and the best fixed set, on three streams."
    )


@block
def minimization_gap() -> str:
    found = stored("minimization")["closed"]
    rows = [[name, *(f"{100 * share:.0f} %" for share in shares)] for name, shares in found.items()]
    return markdown(["learner", *(f"stream {i}" for i in range(len(rows[0]) - 1))], rows)


@block
def minimization_exponents() -> str:
    rows = [[name, f"{exponent:.2f}"] for name, exponent in stored("minimization")["exponents"].items()]
    return markdown(["learner", "exponent"], rows)


@block
def convex_ratio() -> str:
    ratio = stored("convex")["adult at epsilon 1, times gradient descent"]
    return (
        "Online logistic regression: average loss over epsilon (delta 1e-6). On adult at epsilon 1 it is"
        f" {ratio:.2f} times that of tuned\nonline gradient descent without privacy. Scaling, radius and the"
        " optimistic regularisation were settled on adult itself."
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
    rows = [[name, _mean(one["share"])] for name, one in stored("frank_wolfe")["share_served"].items()]
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
        ("chain at once", "NumPy, a chain at once"),
        ("tuned", "NumPy tuned"),
    ):
        label = f"minimisation, {one['n_items']} items, beside {name}"
        rows.append([label, f"{us['run']:.1f}", f"{us[rival] / us['run']:,.1f}"])
    return markdown(["whole stream", "microseconds per round", "speed-up"], rows)


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
    return markdown(["learner", *header, *(f"of it for ids, {one}" for one in header)], rows)


@block
def set_sizes() -> str:
    found = stored("set_sizes")
    rows = [
        [name, *(f"{one:.1f}" for one in times), f"{exponent(found['k'], times):.2f}"]
        for name, times in found["microseconds"].items()
    ]
    return markdown(["learner", *(f"k = {k}" for k in found["k"]), "exponent"], rows)


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
    heads = ["people x items", "k", "seconds", "times plain greedy", "times as fast as people one by one"]
    return markdown(heads, rows)


@block
def returning_people() -> str:
    found = stored("returning")
    rows = []
    for name, one in found.items():
        if name == "settings":
            continue
        for learner, by in one["share_served"].items():
            cells: dict[str, list[str]] = {}
            for way, shares in by.items():
                cells.setdefault(way.split(",")[0], []).append(_mean(shares))
            rows.append([name, learner, *(" / ".join(cell) for cell in cells.values())])
    return markdown(["stream", "learner", *cells], rows)


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
    header = ["data", "k", "epsilon", "popularity", "personal", "item-kNN", "EASE"]
    return markdown([*header, "recall, personal", "NDCG, personal"], rows)


@block
def personal_few() -> str:
    rows = [
        [name, str(signal), f"{popular:.3f}", f"{own:.3f}"]
        for name, (signal, own, popular) in stored("personal")["few people of eshop_clicks"].items()
    ]
    return markdown(["", "n x mu", "popularity", "personal"], rows)


@block
def personal_online() -> str:
    rows = []
    for name, runs in stored("personal")["online"].items():
        learner, _, epsilon = name.rpartition(", epsilon=")
        rows.append([learner, epsilon, *(f"{mean:.3f}" for mean in np.mean(runs, axis=0))])
    return markdown(["", "epsilon", "served", "second half"], rows)


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
    return markdown(
        ["data", "epsilon", "one for all", "segments, best", "linear, no context", "linear, best"], rows
    )


@block
def personal_features() -> str:
    rows = []
    for name, found in stored("personal")["features"].items():
        data, _, epsilon = name.rpartition(", epsilon=")
        names = ("popularity", "personal", "personal, features")
        rows.append([data, epsilon, *(f"{found[one]:.3f}" for one in names)])
    return markdown(["data", "epsilon", "popularity", "personal", "with public features"], rows)


@block
def segments() -> str:
    rows = []
    for name, found in stored("segments")["share_served"].items():
        stream, _, epsilon = name.rpartition(", epsilon ")
        shares = [found[way] for way in ("one", "alone", "shared", "short")]
        rows.append([stream, epsilon, *(" / ".join(f"{share:.3f}" for share in one) for one in shares)])
    ways = ["one for all", "one each", "shared", "shared, short first batch"]
    return markdown(["stream", "epsilon", *ways], rows)


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
        [name, f"{one['per_second']:,.0f}", f"{one['cpu_us']:,.0f}"]
        for name, one in found["closed_loop"].items()
    ]
    return markdown(["", "pairs a second", "server's CPU microseconds a pair"], rows)


@block
def service_more() -> str:
    found = stored("service")
    rate, memory = found["open_loop_1000"], found["memory_mb"]
    return (
        "At 1,000 decisions a second (open loop), with clients on the same two cores, half of the decisions"
        f"\ntake {rate['p50_ms']:.1f} ms and 99 % at most {rate['p99_ms']:.0f} ms. Memory: {memory[0]:.0f} MB"
        f" after 100,000 decisions, {memory[-1]:.0f} MB after a million."
    )


@block
def service_pairs() -> str:
    found = stored("service")
    names = [
        "connections",
        "uvicorn, no work",
        "Starlette, no work",
        "a pair",
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
        f"{markdown(names, rows)}\n\nWith 8 connections a pair takes {times['8'][0]} times what uvicorn takes"
        f" for two requests without any work, and {times['8'][1]}\ntimes what routes of Starlette take; with"
        f" 64 connections {times['64'][0]} and {times['64'][1]} times. In batches of ten a decision with"
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
                rows.append([f"10^{power}", name, *seconds, *memory])
    return markdown(["rows", "", "processor, s", "clock, s", "memory, GB", "of libraries, GB"], rows)


@block
def stores_more() -> str:
    found = stored("store")
    each = [one["cpu_microseconds_per_person"] for name, one in found.items() if name.startswith("1e")]
    times = found["1e7"].get("earlier from_events, times")
    load = f"With a load of {found['machine']['load']:.1f} on {found['machine']['cores']} cores."
    text = f"{load} Per person {min(each):.1f} to {max(each):.1f} microseconds of processor time."
    if times is not None:
        text += (
            f" At 10^7 rows the earlier `from_events`\ntakes {times['cpu']:.1f} times the processor time of"
            f" preparing and choosing, {times['seconds']:.1f} times as long on the clock,"
            f" {times['memory']:.1f} times the memory\nand {times['beyond']:.1f} times what goes beyond the"
            " libraries."
        )
    return text
