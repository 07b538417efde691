"""Charts of simulations, traces and plans; every function draws on matplotlib axes and returns them.

Lines differ in lightness, dashes and markers, so that they can be distinguished in greyscale and with colour
blindness. Regret and rewards are exact facts about the people of a stream, without privacy.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..core import checks
from ..core.text import install
from .regret import Regret, best_fixed_set, mean_band, regret_against

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ..objectives import Population
    from ..planning import Plan
    from ..results import Trace
    from .simulation import Results

# Dark and light colours alternate, so that neighbouring lines differ in lightness.
COLOURS = ("#101010", "#d98f1a", "#1d3f8f", "#58a4d0", "#8c2d19", "#9a9a9a", "#2f6b3a", "#c57fb5")
_CHOSEN, _OTHER = "#1d3f8f", "#c4c4c4"
DASHES: tuple[Any, ...] = (
    "-", "--", "-.", ":", (0, (9, 2)), (0, (3, 1, 1, 1, 1, 1)), (0, (5, 4)), (0, (1, 3))
)  # fmt: skip
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
_POINTS = 400
_LEVEL = 0.95


def require() -> None:
    """Raise ImportError, with the command to install it, if matplotlib is missing."""
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError as error:
        raise ImportError(f"plots need matplotlib: {install('plots')}") from error


def style(place: int) -> dict[str, Any]:
    """Colour, dashes and marker of the line at this place: 64 lines in a row are all different."""
    kinds = len(COLOURS)
    turn = place // kinds
    return {
        "color": COLOURS[place % kinds],
        "linestyle": DASHES[(place + turn) % len(DASHES)],
        "marker": MARKERS[(place + 3 * turn) % len(MARKERS)],
        "markersize": 4,
        "linewidth": 1.6,
    }


@dataclass(frozen=True)
class _Curve:
    """One line, with its band if there are repeats."""

    at: NDArray[np.int64]
    mean: NDArray[np.float64]
    low: NDArray[np.float64] | None = None
    high: NDArray[np.float64] | None = None


def regret(
    what: Results | Mapping[str, Any],
    ax: Axes | None = None,
    *,
    people: Population | None = None,
    stream: str | None = None,
    epsilon: float | None = None,
    alpha: float | None = None,
    title: str | None = None,
) -> Axes:
    """Regret so far, round by round, with a 95 % band of the mean if there are repeats.

    ``what`` is the result of `simulate` (with ``stream`` and ``epsilon`` if it has several), or a mapping of
    names to a `Trace` or `Regret`, or to a list of these as repeats. Traces need their ``people``.
    """
    curves, part = _regret_curves(what, people, stream, epsilon, alpha)
    ax = _drawn(ax, curves)
    ax.axhline(0.0, color="0.6", linewidth=0.8, zorder=0)
    share = "" if part == 1.0 else f" times {part:.3g}"
    greedy = not isinstance(what, Mapping) and what.config.comparator == "greedy"
    rival = "greedy in hindsight" if greedy else "the best fixed set"
    banded = any(curve.low is not None for curve in curves.values())
    return _finish(
        ax,
        title or _title("Regret so far", what, stream, epsilon),
        "round (people so far)",
        f"reward lost against\n{rival}{share} (sum)",
        note="band: 95 % confidence of the mean" if banded else "",
    )


def rewards(
    what: Results | Mapping[str, Any],
    ax: Axes | None = None,
    *,
    stream: str | None = None,
    epsilon: float | None = None,
    unit: str = "reward per round",
    title: str | None = None,
) -> Axes:
    """Average reward so far, round by round; ``what`` is as for `regret`, but without `Regret`."""
    curves: dict[str, _Curve] = {}
    for name, runs in _runs(what, stream, epsilon).items():
        if _is_outcomes(runs):
            at = runs[0].at
            found = np.array([one.rewards / at for one in runs])
        else:
            at = _thin(len(runs[0]))
            found = np.array([np.cumsum(one.rewards)[at - 1] / at for one in runs])
        settled = 100 * at >= at[-1]  # averages over the first few people vary too much
        curves[name] = _banded(at[settled], found[:, settled])
    ax = _drawn(ax, curves)
    ax.set_ylim(bottom=0.0)
    return _finish(
        ax,
        title or _title("Average reward so far", what, stream, epsilon),
        "round (people so far)",
        f"{unit}, average so far",
    )


def epsilon_curve(
    results: Results, ax: Axes | None = None, *, stream: str | None = None, title: str | None = None
) -> Axes:
    """Average reward of an entire stream by epsilon; learners that do not depend on it are level lines."""
    rows = [row for row in results.table() if row["stream"] == _stream_name(results, stream)]
    fixed = {one.name for one in results.config.learners if one.fixed}
    ax = _axes(ax)
    reach = [row["epsilon"] for row in rows if row["learner"] not in fixed and math.isfinite(row["epsilon"])]
    if not reach:
        raise ValueError("no learner was run at a finite epsilon: there is nothing to draw a curve of")
    names = list(dict.fromkeys(row["learner"] for row in rows))
    for place, name in enumerate(names):
        mine = [row for row in rows if row["learner"] == name]
        if name in fixed:
            look = style(place) | {"marker": ""}
            ax.axhline(mine[0]["average"], label=name, **look)
            continue
        finite = sorted((row for row in mine if math.isfinite(row["epsilon"])), key=lambda r: r["epsilon"])
        errors = [0.0 if math.isnan(row["standard_error"]) else row["standard_error"] for row in finite]
        levels = [row["epsilon"] for row in finite]
        ax.errorbar(levels, [row["average"] for row in finite], errors, label=name, capsize=2, **style(place))
    if max(reach) > min(reach):
        ax.set_xscale("log")
    ticks = sorted(set(reach))
    ax.set_xticks(ticks, [f"{one:g}" for one in ticks])
    ax.minorticks_off()
    ax.set_ylim(bottom=0.0)
    return _finish(
        ax,
        title or _title("What privacy costs", results, stream, None),
        "epsilon (log scale; larger is less private)",
        "reward per round, average",
        note="bars: one standard error",
        order=names,
    )


def plan(planned: Plan, ax: Axes | None = None, *, title: str | None = None) -> Axes:
    """The certified regret per round of each candidate of a plan, and what not learning can lose."""
    ax = _axes(ax)
    shown = list(planned.candidates)[::-1]
    losses = [one.average for one in shown]
    colours = [_CHOSEN if one is planned.best else _OTHER for one in shown]
    ax.barh(range(len(shown)), losses, color=colours, edgecolor="#101010", linewidth=0.6)
    labels = ["\n".join(textwrap.wrap(str(one), 38)) for one in shown]
    ax.set_yticks(range(len(shown)), labels, fontsize=7)
    name, loss = planned.question.without_learning
    ax.axvline(loss / planned.rounds, label=name, color="#101010", linestyle="--", linewidth=1.4)
    ax.barh([0], [0], color=_CHOSEN, label="chosen")
    return _finish(
        ax, title or f"Certified: {planned.question.headline}", "regret per round, at most (reward)", ""
    )


def bars(
    shares: Mapping[str, float], ax: Axes | None = None, *, title: str, unit: str, dark: Sequence[str] = ()
) -> Axes:
    """One bar for each name, with its value; those in ``dark`` are highlighted."""
    ax = _axes(ax)
    names = list(shares)[::-1]
    colours = [_CHOSEN if name in dark else _OTHER for name in names]
    drawn = ax.barh(range(len(names)), [shares[name] for name in names], color=colours, edgecolor="#101010")
    ax.bar_label(drawn, [f" {shares[name]:.3f}" for name in names], fontsize=8)
    figure: Any = ax.get_figure(root=True)
    narrow = figure.get_figwidth() < 6
    ax.set_yticks(range(len(names)), ["\n".join(textwrap.wrap(name, 20 if narrow else 44)) for name in names])
    ax.set_xlim(0.0, 1.15 * max(shares.values()))
    return _finish(ax, title, unit, "")


def save(ax: Axes, path: Path) -> list[Path]:
    """Write the figure as ``path.png`` and ``path.svg``; the same drawing gives the same bytes."""
    import matplotlib

    figure: Any = ax.get_figure(root=True)
    written = []
    with matplotlib.rc_context({"svg.hashsalt": "discreet"}):
        for kind, made_by in (("png", "Software"), ("svg", "Date")):
            file = path.with_name(f"{path.name}.{kind}")
            figure.savefig(file, bbox_inches="tight", dpi=150, metadata={made_by: None})
            written.append(file)
    return written


# --- curves --------------------------------------------------------------------------------------


def _regret_curves(
    what: Results | Mapping[str, Any],
    people: Population | None,
    stream: str | None,
    epsilon: float | None,
    alpha: float | None,
) -> tuple[dict[str, _Curve], float]:
    runs = _runs(what, stream, epsilon)
    part = 1.0 if alpha is None else checks.real("alpha", alpha, above=0.0, at_most=1.0)
    if not isinstance(what, Mapping) and alpha is None:
        part = what.config.alpha
    curves = {}
    for name, mine in runs.items():
        if _is_outcomes(mine):
            at, found = mine[0].at, [one.regret(part) for one in mine]
        else:
            found = list(mine) if isinstance(mine[0], Regret) else _regrets(mine, people, part)
            at, part = np.arange(1, len(found[0]) + 1), found[0].alpha
        curves[name] = _sampled(_banded(at, np.array([one.curve for one in found])))
    return curves, part


def _regrets(traces: Sequence[Trace], people: Population | None, alpha: float) -> list[Regret]:
    """Regrets of traces; the best set, which takes long to find, is found once."""
    if people is None:
        raise ValueError("traces need people=, those of the stream, to know what they missed")
    if any(len(trace) != len(people) for trace in traces):
        raise ValueError("people and a trace are of different lengths; give those of the stream")
    best = best_fixed_set(people, int(traces[0].selections.shape[1]))
    return [regret_against(trace, people, best, alpha) for trace in traces]


def _runs(
    what: Results | Mapping[str, Any], stream: str | None, epsilon: float | None
) -> dict[str, Sequence[Any]]:
    """The repeats, by name."""
    if not isinstance(what, Mapping):
        return dict(what.by_learner(stream, epsilon))
    if not what:
        raise ValueError("there is nothing to draw; give at least one trace")
    return {name: runs if isinstance(runs, list | tuple) else [runs] for name, runs in what.items()}


def _is_outcomes(runs: Sequence[Any]) -> bool:
    return hasattr(runs[0], "cell")


def _banded(at: NDArray[np.int64], found: NDArray[np.float64]) -> _Curve:
    return _Curve(at, found[0]) if len(found) == 1 else _Curve(at, *mean_band(found, _LEVEL))


def _thin(rounds: int) -> NDArray[np.int64]:
    return np.unique(np.linspace(1, rounds, min(rounds, _POINTS)).round().astype(np.int64))


def _sampled(curve: _Curve) -> _Curve:
    """At most `_POINTS` points: more are not visible, and make a large file."""
    if curve.at.size <= _POINTS:
        return curve
    keep = _thin(curve.at.size) - 1
    return _Curve(
        curve.at[keep],
        curve.mean[keep],
        None if curve.low is None else curve.low[keep],
        None if curve.high is None else curve.high[keep],
    )


def _stream_name(results: Results, stream: str | None) -> str:
    names = [one.name for one in results.config.streams]
    return names[0] if stream is None and len(names) == 1 else checks.one_of("stream", stream, names)


def _title(words: str, what: Results | Mapping[str, Any], stream: str | None, epsilon: float | None) -> str:
    if isinstance(what, Mapping):
        return words
    parts = [_stream_name(what, stream)]
    levels = what.config.epsilons
    if epsilon is not None or (len(levels) == 1 and words != "What privacy costs"):
        level = levels[0] if epsilon is None else epsilon
        parts.append("no privacy" if math.isinf(level) else f"epsilon {level:g}")
    return f"{words}: {', '.join(parts)}"


# --- drawing -------------------------------------------------------------------------------------


def _axes(ax: Axes | None) -> Axes:
    require()
    if ax is not None:
        return ax
    from matplotlib import pyplot

    made: Axes = pyplot.subplots(figsize=(7.5, 4.2))[1]
    return made


def _drawn(ax: Axes | None, curves: Mapping[str, _Curve]) -> Axes:
    ax = _axes(ax)
    for place, (name, curve) in enumerate(curves.items()):
        look = style(place)
        every = max(1, curve.at.size // 8)
        ax.plot(curve.at, curve.mean, label=name, markevery=(place * every // 8, every), **look)
        if curve.low is not None and curve.high is not None:
            ax.fill_between(curve.at, curve.low, curve.high, color=look["color"], alpha=0.14, linewidth=0)
    return ax


def _finish(
    ax: Axes, title: str, across: str, up: str, note: str = "", order: Sequence[str] | None = None
) -> Axes:
    """Add the title, the axes, and a legend below, with as many columns as the figure has space for."""
    from matplotlib.ticker import FuncFormatter

    figure: Any = ax.get_figure(root=True)
    inches = figure.get_figwidth()
    ax.set_title("\n".join(textwrap.wrap(title, int(10.0 * inches))), fontsize=10, loc="left")
    ax.set_xlabel(across + (f"\n{note}" if note else ""), fontsize=8.5)
    ax.set_ylabel(up, fontsize=8.5)
    ax.tick_params(labelsize=8)
    if "people so far" in across:
        ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        ax.locator_params(axis="x", nbins=5)
    ax.grid(axis="x" if not up else "y", color="0.9", linewidth=0.6)
    ax.set_axisbelow(True)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    handles, labels = ax.get_legend_handles_labels()
    if order is not None:
        handles, labels = [handles[labels.index(name)] for name in order], list(order)
    if handles:
        below = -0.52 / (0.77 * figure.get_figheight()) - (0.06 if note else 0.02)
        wrapped = ["\n".join(textwrap.wrap(label, 40)) for label in labels]
        columns = max(1, int(inches // 3.4))
        ax.legend(
            handles, wrapped, loc="upper left", bbox_to_anchor=(0.0, below), ncols=columns, fontsize=8,
            frameon=False, handlelength=3.4, borderaxespad=0.0,
        )  # fmt: skip
    return ax
