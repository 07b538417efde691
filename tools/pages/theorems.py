"""Tables of docs/theorems.md, from what benchmarks/theorems.py stored."""

from __future__ import annotations

from typing import Any

from tools.results import stored

from .blocks import block, markdown


def printed_bound(row: dict[str, Any]) -> str:
    """The paper's bound; with constants 1 where only an order is printed."""
    return "" if row["printed"] is None else f"{'~' if row['order_only'] else ''}{row['printed']:,.0f}"


def growth_row(one: dict[str, Any]) -> list[str]:
    """Exponents of measured, certified and printed regret over the rounds."""
    kinds = ("exponent_measured", "exponent_certified", "exponent_printed")
    shown = ["" if one[kind] is None else f"{one[kind]:.2f}" for kind in kinds]
    if all(one["trivial"]):
        shown[1] += " (trivial)"
    return [one["learner"], one["stream"], *shown, one["power"]]


@block
def theorem_settings() -> str:
    settings = stored("theorems")["settings"]
    return (
        f"Means of {settings['runs']} runs ({settings['real_runs']} on real people); epsilon is"
        f" {settings['epsilon']:g} on made-up streams and with few items, so that certificates say something"
        " at these sizes."
    )


@block
def theorem_rows() -> str:
    """Per learner its hardest made-up stream, and every real one."""
    hardest: dict[tuple[str, str], dict[str, Any]] = {}
    for row in stored("theorems")["rows"]:
        key = (row["learner"], row["stream"] if row["stream"].startswith("real") else "")
        kept = hardest.setdefault(key, row)
        if row["measured"] > kept["measured"]:
            hardest[key] = row
    rows = []
    for row in hardest.values():
        epsilon = "none" if row["epsilon"] is None else f"{row['epsilon']:g}"
        certified = f"{row['certified']:,.0f}{' (trivial)' if row['trivial'] else ''}"
        lost = (f"{row['rounds']:,}", f"{row['measured']:,.0f}", certified, printed_bound(row))
        rows.append([row["theorem"], row["learner"], row["stream"], epsilon, *lost])
    lost = ["rounds", "measured", "certified", "printed"]
    return markdown(["theorem", "learner", "stream", "epsilon", *lost], rows)


@block
def growth_horizons() -> str:
    rounds = stored("theorems")["growth"][0]["rounds"]
    return f"Exponents are fitted between {rounds[0]:,} and {rounds[-1]:,} rounds."


@block
def growth_exponents() -> str:
    heads = ["learner", "stream", "measured", "certified", "printed", "theorem"]
    return markdown(heads, [growth_row(one) for one in stored("theorems")["growth"]])
