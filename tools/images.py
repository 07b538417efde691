"""The README's picture and badges: drawn from stored results, byte for byte the same every time.

python -m tools.images [--check]
"""

from __future__ import annotations

import argparse
import html
import math
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tools.results import ROOT, stored

IMAGES = ROOT / "docs" / "images"
FONT = "DejaVu Sans,Verdana,sans-serif"
# Lines of the picture: what results call it, what it is called, colour (of matplotlib, as in the other
# pictures), dashes.
LINES = (
    ("steady streams", "discreet, steady streams", "#1f77b4", ""),
    ("any stream", "discreet, any stream", "#2ca02c", "7 3"),
    ("published", "published constants", "#ff7f0e", ""),
)
TITLES = {"msweb": "areas of a web site", "eshop_clicks": "products of a shop"}
WIDTH, HEIGHT, LEFT, TOP, PANEL, TALL = 860, 400, 62, 74, 350, 236
NARROW, BELOW = 424, 328  # the same for a phone: its width, and from one panel to the next


# --- the picture ------------------------------------------------------------------------------------


def share_served() -> str:
    """Share served against epsilon, a panel for each stream."""
    streams = stored("epsilons")["streams"]
    parts = [
        _text(24, 30, "What privacy costs: published constants, and discreet", 19, weight="bold"),
        _text(24, 52, "Share of people who find one of 5 chosen items; delta 1e-6, mean of 3 runs", 13),
    ]
    for place, (name, found) in enumerate(streams.items()):
        parts += _panel(name, found, LEFT + place * (PANEL + 52), TOP)
    across = 62.0
    for _, label, colour, dashes in LINES:
        parts.append(_line([(across, HEIGHT - 16), (across + 30, HEIGHT - 16)], colour, dashes))
        parts.append(_text(across + 37, HEIGHT - 11.5, label, 13))
        across += 50 + 7.6 * len(label)
    return _svg(WIDTH, HEIGHT, _alternative(streams), parts)


def share_served_narrow() -> str:
    """The same for a phone: one panel below the other."""
    streams = stored("epsilons")["streams"]
    parts = [
        _text(16, 30, "What privacy costs", 19, weight="bold"),
        _text(16, 52, "Share of people who find one of 5 chosen items;", 14),
        _text(16, 71, "delta 1e-6, mean of 3 runs", 14),
    ]
    for place, (name, found) in enumerate(streams.items()):
        parts += _panel(name, found, LEFT, TOP + 22 + place * BELOW)
    for row, (_, label, colour, dashes) in enumerate(LINES):
        height = TOP + 22 + 2 * BELOW + 22 * row
        parts.append(_line([(LEFT, height), (LEFT + 30, height)], colour, dashes))
        parts.append(_text(LEFT + 37, height + 4.5, label, 14))
    return _svg(NARROW, TOP + 2 * BELOW + 82, _alternative(streams), parts)


def _panel(name: str, found: dict[str, Any], left: float, top: float) -> list[str]:
    epsilons = [float(one) for one in found["private"]]
    best = not_private(found)
    most = math.ceil(10.0 * best + 0.5) / 10.0

    def at(epsilon: float, share: float) -> tuple[float, float]:
        across = math.log(epsilon / epsilons[0]) / math.log(epsilons[-1] / epsilons[0])
        return left + 8 + across * (PANEL - 16), top + 22 + TALL * (1.0 - share / most)

    size = f"{found['people']:,} people, {found['items']} {TITLES[name]}"
    parts = [_text(left, top + 8, size, 13, weight="bold")]
    for tick in np.arange(0.0, most + 0.05, 0.1 if most < 0.6 else 0.2):
        height = at(epsilons[0], tick)[1]
        parts.append(_line([(left, height), (left + PANEL, height)], "#e3e3e3", "", 1))
        parts.append(_text(left - 6, height + 4, f"{100 * tick:.0f} %", 12, anchor="end"))
    for epsilon in epsilons:
        across = at(epsilon, 0.0)[0]
        parts.append(_text(across, top + TALL + 40, f"{epsilon:g}", 12, anchor="middle"))
    parts.append(
        _text(left + PANEL / 2, top + TALL + 58, "epsilon: more privacy on the left", 12, anchor="middle")
    )
    for share, label in ((best, "not private"), (found["random"], "random set")):
        ends = [(left, at(1.0, share)[1]), (left + PANEL, at(1.0, share)[1])]
        parts.append(_line(ends, "#555555", "2 4", 1.5))
        parts.append(_text(left + 10, ends[0][1] - 6, label, 12, colour="#555555"))
    for key, _, colour, dashes in reversed(LINES):
        points = [at(float(e), float(np.mean(by[key]))) for e, by in found["private"].items()]
        parts.append(_line(points, colour, dashes, 3))
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"/>' for x, y in points]
    return parts


def not_private(found: dict[str, Any]) -> float:
    """The better learner without privacy."""
    return max(float(np.mean(values)) for values in found["not private"].values())


def kept(found: dict[str, Any], epsilon: str, line: str) -> float:
    """Gain over random sets, as a part of the gain without privacy."""
    share = float(np.mean(found["private"][epsilon][line]))
    return (share - found["random"]) / (not_private(found) - found["random"])


def _alternative(streams: dict[str, Any]) -> str:
    parts = []
    for name, found in streams.items():
        at_one = {key: float(np.mean(found["private"]["1"][key])) for key, *_ in LINES}
        parts.append(
            f"{TITLES[name]}: at epsilon 1 discreet serves {at_one['steady streams']:.0%}, published"
            f" constants {at_one['published']:.0%}, random sets {found['random']:.0%}, learning without"
            f" privacy {not_private(found):.0%}"
        )
    return "Share of people served against epsilon. " + "; ".join(parts)


# --- badges -----------------------------------------------------------------------------------------


def audited() -> str:
    """docs/audit.md"""
    settings, faults = _numbers("docs/audit.md", r"(\d+) settings of .* every account holds; (\d+) injected")
    return _badge("privacy audit", f"{settings} settings hold, {faults} faults noticed")


def gain_kept() -> str:
    """benchmarks/results/epsilons.json"""
    least = min(kept(found, "1", "steady streams") for found in stored("epsilons")["streams"].values())
    return _badge("gain kept at epsilon 1", f"{math.floor(100.0 * least)} %")


def mutants() -> str:
    """docs/mutation_testing.md"""
    made, killed = _numbers("docs/mutation_testing.md", r"(\d+) mutants .* the tests kill (\d+) of them")
    return _badge("mutants noticed", f"{killed} of {made}")


def kills() -> str:
    """docs/chaos.md, docs/service/chaos.md"""
    (ledger,) = _numbers("docs/chaos.md", r"\| kills \| ([\d,]+) \|")
    row = re.search(r"\| kills \|([\d,| ]+)\|", (ROOT / "docs/service/chaos.md").read_text())
    assert row is not None
    total = int(ledger.replace(",", "")) + sum(int(one.replace(",", "")) for one in row[1].split("|"))
    return _badge("kills survived", f"{total:,}, nothing lost")


def pythons() -> str:
    """benchmarks/results/versions.json"""
    passed = sorted({one["python"] for one in stored("versions")["runs"] if one["result"] == "passed"})
    return _badge("tested on Python", ", ".join(passed))


def _numbers(page: str, pattern: str) -> Sequence[str]:
    found = re.search(pattern, (ROOT / page).read_text())
    assert found is not None, f"{page} no longer says {pattern}"
    return found.groups()


def _badge(label: str, value: str) -> str:
    widths = [round(6.6 * len(text) + 14) for text in (label, value)]
    parts = [
        f'<rect width="{widths[0]}" height="20" fill="#555555"/>',
        f'<rect x="{widths[0]}" width="{widths[1]}" height="20" fill="#1d6f42"/>',
        _text(widths[0] / 2, 14, label, 11, anchor="middle", colour="#ffffff"),
        _text(widths[0] + widths[1] / 2, 14, value, 11, anchor="middle", colour="#ffffff"),
    ]
    return _svg(sum(widths), 20, f"{label}: {value}", parts)


IMAGE: dict[str, Callable[[], str]] = {
    "share_served.svg": share_served,
    "share_served_narrow.svg": share_served_narrow,
    "badge_audit.svg": audited,
    "badge_gain.svg": gain_kept,
    "badge_mutants.svg": mutants,
    "badge_kills.svg": kills,
    "badge_python.svg": pythons,
}


# --- SVG --------------------------------------------------------------------------------------------


def _svg(width: float, height: float, alternative: str, parts: Sequence[str]) -> str:
    said = html.escape(alternative)
    size = f'width="{width}" height="{height}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" {size}'
    inside = "\n".join([f"<title>{said}</title>", f'<rect {size} fill="#ffffff"/>', *parts])
    return f'{head} role="img" aria-label="{said}">\n{inside}\n</svg>\n'


def _text(
    x: float,
    y: float,
    text: str,
    size: int,
    *,
    anchor: str = "start",
    weight: str = "normal",
    colour: str = "#1a1a1a",
) -> str:
    font = f'font-family="{FONT}" font-size="{size}" font-weight="{weight}"'
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f'<text {place} {font} fill="{colour}">{html.escape(text)}</text>'


def _line(points: Sequence[tuple[float, float]], colour: str, dashes: str, width: float = 3) -> str:
    way = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    return f'<polyline points="{way}" fill="none" stroke="{colour}" stroke-width="{width}"{dashed}/>'


# --- files ------------------------------------------------------------------------------------------


def outdated() -> list[str]:
    """The images that are not what stored results say."""
    files = {name: IMAGES / name for name in IMAGE}
    return [n for n, path in files.items() if not path.is_file() or path.read_text() != IMAGE[n]()]


def write() -> None:
    """Draw them all."""
    for name, make in IMAGE.items():
        (IMAGES / name).write_text(make())


def main(given: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.images", description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; fail if an image is out of date")
    if not parser.parse_args(given).check:
        write()
    elif stale := outdated():
        print(f"out of date: {', '.join(stale)}; run python -m tools.images")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
