"""Reports: one self-contained HTML file, readable on a screen, a phone or paper.

Everything is in the file: the style sheet (`core.page`), and each chart as a drawing in two shapes, wide for
screens and narrow for phones. A report shows exact results of a simulation about its people, without privacy.
"""

from __future__ import annotations

import base64
import io
import json
import math
import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core.page import Page, safe
from ..core.text import at_most
from . import plots

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from .personal import RecommenderComparison
    from .simulation import Results, StreamSpec

_WIDE, _NARROW = (8.4, 4.2), (4.3, 3.7)


class Report(Page):
    """A page with charts: each as a drawing in two shapes, wide for screens and narrow for phones."""

    def chart(self, draw: Callable[[Axes], Any], described: str, save: Path) -> list[Path]:
        """Add a chart in both shapes; ``draw`` is called with axes for each. It is also written to ``save``.

        Without matplotlib the report says that a chart is missing, and what to install.
        """
        try:
            plots.require()
        except ImportError as error:
            self.text(f"A chart is missing here ({described}): {error}.", small=True)
            return []
        from matplotlib.figure import Figure

        pictures = []
        for size in (_NARROW, _WIDE):
            figure = Figure(figsize=size)
            axes = figure.add_subplot()
            draw(axes)
            pictures.append(_picture(figure))
        written = plots.save(axes, save)
        narrow, wide = pictures
        self._parts.append(
            f"<figure><picture><source media='(max-width: 640px)' srcset='{narrow}'>"
            f"<img src='{wide}' alt='{safe(described)}'></picture></figure>"
        )
        return written


NOT_PRIVATE = (
    "Rewards, regret and everything in hindsight are computed from the people themselves, without noise and"
    " outside any account. On data about real people that may not be looked at, publish none of it.",
    "What each learner chose, and nothing else, would leave in a real run. The account column is the epsilon"
    " of those choices over the whole stream, for one person, at the delta of the settings, or at that of the"
    " learner where it has its own; where a published setting needs more than it claims, a warning says so.",
    "Noise comes from seeds here, so that a run can be repeated: anyone who knows the seed can remove it. A"
    " real run takes its randomness from the operating system.",
    "How many people and which items there are is taken to be public. Out of a file of events the list of"
    " items is read off the data, and accounts are conditional on it: an item that only one person has gives"
    " them away. In a real run it comes from a public catalogue, or is chosen privately"
    " (data.private_catalogue).",
)


def simulation_report(results: Results, folder: str | os.PathLike[str]) -> tuple[Path, list[Path]]:
    """Write ``folder/report.html`` and its charts as PNG and SVG; returns the paths of report and charts."""
    config, home = results.config, Path(folder)
    charts = home / "plots"
    page = Report(
        config.title,
        f"{_count(len(config.learners), 'learner')} on {_count(len(config.streams), 'stream')},"
        f" {_count(config.k, 'item')} chosen each round, {_count(config.repeats, 'repeat')}.",
    )
    page.notice(
        "This is a simulation: its rewards are simulated facts about people whom it may look at. What is and"
        " what is not private about it stands at the end.",
    )
    written: list[Path] = []
    if plots_available():
        charts.mkdir(parents=True, exist_ok=True)
    rows = results.table()
    for number, stream in enumerate(config.streams):
        page.heading(stream.name)
        first = next((one for one in results.outcomes if one.cell.stream.name == stream.name), None)
        if first is None:
            page.text("Nothing could be run here; the reasons stand below.")
            continue
        page.text(f"{first.rounds:,} people, {first.n_items:,} items: {source(stream)}.", small=True)
        stem = f"{number + 1}-{_slug(stream.name)}"
        mine = [row for row in rows if row["stream"] == stream.name]
        page.table(*in_words(mine), _caption(results))
        for name, taken in planned(mine):
            page.text(f"{name} took {taken}, by what it serves synthetic people of that number.")
        shown = [
            [row["learner"], level(row["epsilon"]), ", ".join(row["shown"])] for row in mine if row["shown"]
        ]
        if shown:
            page.table(["learner", "epsilon", "items in the last round"], shown, "In the first repeat.")
        levels = {row["epsilon"] for row in mine} - {None}
        if len(config.epsilons) > 1 and any(map(math.isfinite, levels)):
            written += page.chart(
                partial(plots.epsilon_curve, results, stream=stream.name),
                f"average reward by epsilon on {stream.name}",
                charts / f"{stem}-epsilon",
            )
        for epsilon in config.epsilons:
            if results.by_learner(stream.name, epsilon):
                written += page.chart(
                    partial(plots.regret, results, stream=stream.name, epsilon=epsilon),
                    f"regret by round on {stream.name} at epsilon {epsilon:g}",
                    charts / f"{stem}-regret-epsilon-{epsilon:g}",
                )
    _tail(page, results)
    return page.save(home / "report.html"), written


def recommender_report(
    compared: RecommenderComparison, settings: dict[str, str], folder: str | os.PathLike[str]
) -> tuple[Path, list[Path]]:
    """Write ``folder/report.html`` about personal sets, and its chart; returns the paths of both."""
    home = Path(folder)
    people = next(iter(compared.found.values()))
    page = Report(
        "Personal sets for new people",
        f"{_count(len(people), 'split')}; {people[0].people:,} new people in the first one.",
    )
    page.notice(
        "Computed in the clear. These are true figures about the people of the data, outside any account:"
        " on data that may not be looked at, publish none of them. To choose an epsilon, a number of items or"
        " features by them is a release."
    )
    caption = (
        "A fifth of the people are new: no model has seen them. Of each a fifth of their items, at least one,"
        f" is held out, the rest is their history, and {compared.k} other items are shown. Hit rate: of how"
        " many people any held-out item is shown. Recall: how many of the held-out items are, of those that"
        " could be. NDCG: how high up. Means over splits, +- the standard error."
    )
    header, rows = compared.table()
    page.table(["who chooses", *header[1:]], rows, caption)
    page.text(f"The private model: {compared.reason}.")
    if plots_available():
        home.mkdir(parents=True, exist_ok=True)
    draw = partial(
        plots.bars,
        {name: compared.mean(name) for name in compared.found},
        title="New people who are shown a held-out item",
        unit=f"hit rate at {compared.k}, in the clear",
        dark=[name for name in compared.found if name.startswith("personal")],
    )
    written = page.chart(draw, "hit rates of the table", home / "hit-rates")
    page.heading("What is and what is not private")
    page.points(
        [
            "Nothing on this page is private: noise comes from seeds here, and what is measured are people's"
            " own items.",
            "In a real run the model alone leaves, at the epsilon and delta below, and everybody's own set is"
            " for them alone (joint differential privacy).",
            "Rows called “not private” have no noise at all: what could be had without privacy.",
        ]
    )
    page.heading("Settings")
    page.table(["setting", "value"], [[name, value] for name, value in settings.items()])
    return page.save(home / "report.html"), written


def plots_available() -> bool:
    """Whether matplotlib is installed."""
    try:
        plots.require()
    except ImportError:
        return False
    return True


def _tail(page: Report, results: Results) -> None:
    """The end of a report: what was refused, warnings, what is private, and the settings."""
    config = results.config
    notes = dict.fromkeys(one.note for one in results.outcomes if one.note)
    refused = {
        f"{cell.learner.name} at epsilon {level(cell.epsilon)}: {why}" for cell, why in results.refused
    }
    if refused:
        page.heading("What could not be run")
        page.points(sorted(refused))
    if notes:
        page.heading("Warnings")
        page.points(list(notes))
    page.heading("What is and what is not private")
    page.points(NOT_PRIVATE)
    page.heading("Settings")
    page.table(
        ["setting", "value"],
        [
            ["items chosen each round (k)", f"{config.k}"],
            ["epsilons", ", ".join(f"{one:g}" for one in config.epsilons)],
            ["delta", f"{config.delta:g}"],
            ["neighbours", config.neighbours],
            ["repeats", f"{config.repeats}"],
            ["seed", f"{config.seed}"],
            ["compared with", _rival(results)],
        ],
    )
    page.preformatted(json.dumps(config.to_json(), indent=1, default=str), "everything, as JSON")


def _caption(results: Results) -> str:
    repeats = results.config.repeats
    means = f"Means over {repeats} repeats, with standard errors. " if repeats > 1 else ""
    return (
        f"{means}Regret: total reward lost against {_rival(results)}. Account: epsilon for one person."
        " Seconds: without planning, which is done once."
    )


def _rival(results: Results) -> str:
    config = results.config
    part = "" if config.alpha == 1.0 else f"{config.alpha:.3g} times "
    return part + ("greedy in hindsight" if config.comparator == "greedy" else "the best set in hindsight")


def level(epsilon: float | None) -> str:
    """An epsilon of the settings as text."""
    return "" if epsilon is None else "none" if math.isinf(epsilon) else f"{epsilon:g}"


def account(epsilon: float) -> str:
    """The epsilon of an account as text; 0 if no data was used."""
    return "not private" if math.isinf(epsilon) else at_most(epsilon, 3)


def source(stream: StreamSpec) -> str:
    """The source of a stream in words: real or synthetic data."""
    if stream.family == "events":
        return "real data, the people of a file of events"
    return f"synthetic people of the family {stream.family!r}"


def planned(rows: Sequence[dict[str, Any]]) -> list[tuple[str, str]]:
    """The planner's rows, and the learner that it took for each."""
    return [
        (f"{row['learner']} at epsilon {level(row['epsilon'])}", row["planned"])
        for row in rows
        if row["planned"]
    ]


def in_words(rows: Sequence[dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """The table of a simulation's results: its header and its rows."""
    header = ["learner", "epsilon", "average reward", "of greedy", "regret", "account", "seconds"]
    return header, [
        [
            row["learner"],
            level(row["epsilon"]),
            f"{row['average']:.4f}" + ("" if math.isnan(error) else f" +- {error:.4f}"),
            "" if math.isnan(row["of_greedy"]) else f"{100.0 * row['of_greedy']:.1f} %",
            f"{row['regret']:,.0f}",
            account(row["account"]),
            f"{row['seconds']:.2f}",
        ]
        for row in rows
        for error in [row["standard_error"]]
    ]


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _picture(figure: Any) -> str:
    """A figure as a data URL."""
    import matplotlib

    drawn = io.BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": "discreet"}):
        figure.savefig(drawn, format="svg", bbox_inches="tight", metadata={"Date": None})
    return "data:image/svg+xml;base64," + base64.b64encode(drawn.getvalue()).decode("ascii")


def _slug(name: str) -> str:
    return "".join(c if c.isalnum() and c.isascii() else "-" for c in name.lower()).strip("-") or "stream"
