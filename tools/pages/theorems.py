"""Tables of docs/theorems.md, from what benchmarks/theorems.py stored."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

import discreet as dc
from discreet.bounds import convex, published
from discreet.constraints.domains import Ball, Simplex
from discreet.offline import ContinuousGreedy
from discreet.online import ApproximateLeader, BanditApproximateLeader, LinearLeader
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
        f"Figures are means of {settings['runs']} runs ({settings['real_runs']} on real streams). Selectors"
        f" have epsilon 1. Online learners have epsilon {settings['epsilon']:g}, except on msweb\n(1): most"
        " of their certificates would be trivial at a smaller epsilon with these numbers of rounds."
    )


@block
def theorem_lessons() -> str:
    """What a practitioner takes from the page."""
    rows = stored("theorems")["rows"]
    paper = [row for row in rows if "published" in row["learner"]]
    own = [row for row in rows if "published" not in row["learner"] and row["epsilon"] is not None]
    real = [row for row in rows if row["stream"].startswith("real")]
    slack = np.median(
        [row["certified"] / row["measured"] for row in own if row["measured"] > 0 and not row["trivial"]]
    )

    def trivial(some: Sequence[dict[str, Any]]) -> str:
        return f"{sum(row['trivial'] for row in some)} of {len(some)}"

    return "\n".join(
        [
            f"- **Certificates hold.** Of {len(rows)} measured settings, adversarial streams among them,"
            f" {sum(row['holds'] for row in rows)} stayed within their certificate, up to chance.",
            f"- **Expect better than the certificate.** Where regret is positive and the certificate is not"
            f" trivial, the certificate is {slack:.1f} times the measured regret in the median. On real"
            f" streams regret was negative in {sum(row['measured'] < 0 for row in real)} of {len(real)}"
            " settings: the learner did better than the benchmark of its theorem. Choose a learner by the"
            " expected share that"
            " `discreet plan` simulates, and read the certificate as the worst case.",
            f"- **Avoid the constants of the papers.** With them {trivial(paper)} certificates are trivial"
            " and"
            f" guarantee nothing. With tight accounting {trivial(own)} are.",
            "- **More people help slowly.** With full information regret grows as sqrt(T): halving the regret"
            " per person takes 4 times the people. With bandit feedback it grows as T^(2/3) to T^(3/4): the"
            " same"
            " takes 8 to 16 times the people. Collect full feedback where you can.",
            "- **Some certificates are far from optimal.** [Lower bounds](#lower-bounds) shows how far, for"
            " experts and convex costs: the factor is small for experts and large for strongly convex costs"
            " and"
            " bandit feedback.",
        ]
    )


@block
def theorem_rows() -> str:
    """Per learner its hardest synthetic stream, and every real one."""
    hardest: dict[tuple[str, str], dict[str, Any]] = {}
    for row in stored("theorems")["rows"]:
        key = (row["learner"], row["stream"] if row["stream"].startswith("real") else "")
        kept = hardest.setdefault(key, row)
        if row["measured"] > kept["measured"]:
            hardest[key] = row
    rows = []
    for row in hardest.values():
        epsilon = "not private" if row["epsilon"] is None else f"{row['epsilon']:g}"
        certified = f"{row['certified']:,.0f}{' (trivial)' if row['trivial'] else ''}"
        lost = (f"{row['rounds']:,}", f"{row['measured']:,.0f}", certified, printed_bound(row))
        rows.append([row["theorem"], row["learner"], row["stream"], epsilon, *lost])
    lost = ["rounds", "measured regret", "certificate", "printed bound"]
    return markdown(["theorem", "learner", "stream", "epsilon", *lost], rows)


@block
def growth_horizons() -> str:
    rounds = stored("theorems")["growth"][0]["rounds"]
    return f"Exponents are fitted between {rounds[0]:,} and {rounds[-1]:,} rounds."


@block
def growth_exponents() -> str:
    slopes = ["exponent of measured regret", "of the certificate", "of the printed bound"]
    heads = ["learner", "stream", *slopes, "growth stated by the theorem"]
    return markdown(heads, [growth_row(one) for one in stored("theorems")["growth"]])


@block
def lower_bounds() -> str:
    """Certificates of points and experts beside what no learner can be sure to beat."""
    rounds, free, private = 10**6, dc.Budget(math.inf), dc.Budget(1.0, 1e-6)
    ball, simplex = Ball(3), Simplex(5)
    flat, steep = {"lipschitz": 1.0}, {"lipschitz": 2.0, "strong_convexity": 1.0}
    straight, curved = convex.lipschitz_lower(rounds, 1.0, 2.0), convex.strongly_convex_lower(rounds, 2, 1, 2)
    experts, unseen = convex.experts_lower(5, rounds), convex.one_point_lower(rounds, 2.1, 1.0, 2.0, 3.0)
    seen = {"lipschitz": 2.1, "strong_convexity": 1.0, "bound": (0.0, 3.0)}
    shown: tuple[tuple[str, Any, Any, dict[str, Any], float], ...] = (
        ("Table 1: experts, 5 of them", LinearLeader, simplex, {"box": (0.0, 1.0)}, experts),
        ("Table 1: Lipschitz, 3 coordinates", ApproximateLeader, ball, flat, straight),
        ("Table 1: strongly convex", ApproximateLeader, ball, steep, curved),
        ("Table 2: Lipschitz, bandit", BanditApproximateLeader, ball, flat | {"bound": 1.0}, straight),
        ("Table 2: strongly convex, bandit", BanditApproximateLeader, ball, seen, unseen),
    )
    rows = []
    for where, kind, domain, options, least in shown:
        certified = [kind(domain, rounds, b, seed=0, **options).certified_regret for b in (private, free)]
        over = f"{certified[0] / least:,.1f}"
        rows.append([where, kind.__name__, *(f"{one:,.0f}" for one in certified), f"{least:,.1f}", over])
    heads = ["costs (line of paper 004)", "learner", "certificate, epsilon 1", "certificate, not private"]
    return markdown([*heads, "lower bound", "certificate at epsilon 1 / lower bound"], rows)


@block
def likely_losses() -> str:
    """Certificates of continuous greedy that hold on average, and with a probability."""
    n, people, steps, delta = 20, 10**6, 10, 1e-6
    blocks = dc.constraints.PartitionMatroid([range(10), range(10, 20)], [2, 1])
    lemmas = (published.published_laplace_steps, published.published_laplace_steps_advanced)
    pure, loose = (n, 3.0, steps, 1.0, 1.0, float(people)), (n, 3.0, steps, 1.0, delta, 1.0, float(people))
    shown: tuple[tuple[str, dict[str, Any], float | None], ...] = (
        ("exponential mechanism (not in the paper)", {"noise": "exponential"}, None),
        (
            "Laplace noise (Lemma 3)",
            {"noise": "laplace", "composition": "basic"},
            lemmas[0](*pure, likely=True),
        ),
        (
            "Laplace noise, advanced (Lemma 4)",
            {"noise": "laplace", "composition": "advanced"},
            lemmas[1](*loose, likely=True),
        ),
        ("Gaussian noise", {"noise": "gaussian"}, None),
    )
    rows = []
    for name, options, printed in shown:
        greedy = ContinuousGreedy(blocks, dc.Budget(1.0, delta), steps, seed=0, **options)
        chances = (None, 0.9, 0.95, 0.999)
        losses = [f"{greedy.certified_loss(people, n, probability=chance):,.0f}" for chance in chances]
        rows.append([name, *losses, "" if printed is None else f"{printed:,.0f}"])
    likely = ["with probability 90 %", "95 %", "99.9 %", "printed bound, 90 %"]
    return markdown(["mechanism (paper 003)", "bound on the expected loss", *likely], rows)


@dataclass(frozen=True)
class Stated:
    """A bound as a paper prints it: its power of T, and which measurements are about it.

    ``published`` names the learner in the paper's form, ``own`` the library's for the same question.
    """

    where: str
    formula: str
    power: str
    published: str
    own: str

    def scale(self, rounds: int) -> float:
        """The power of T that the bound shows, at this many rounds."""
        log = re.fullmatch(r"ln\(T\)\^([\d.]+)", self.power)
        if log:
            return math.log(rounds) ** float(log[1])
        return rounds ** float(Fraction(self.power.removeprefix("T^")))


BOUNDS = (
    Stated(
        "000, Theorems 1 and 6",
        "k (g T + ln n / g), g = ε / (k √(32 T ln(k/δ)))",
        "T^1/2",
        "HedgeSelector, published",
        "HedgeSelector",
    ),
    Stated(
        "000, Section 3",
        "k² √(n T ln^2.5 T) / ε",
        "T^1/2",
        "RunningSumSelector, published",
        "RunningSumSelector, Laplace tree",
    ),
    Stated(
        "000, Theorem 8",
        "32 k² (n ln n)^(2/3) T^(2/3) √ln(k/δ) / ε",
        "T^2/3",
        "BanditSelector, online, published, 2 items",
        "BanditSelector, blocks, certified rate",
    ),
    Stated(
        "000, Appendix B.1",
        "k (k n ln n / (γ g) + g T) + γ T",
        "T^3/4",
        "BanditSelector, every round, published, 2 items",
        "BanditSelector, every round",
    ),
    Stated(
        "000, Appendix B.2",
        "8 k³ n ln n ln(k/δ) √(T/γ) / ε + γ T",
        "T^2/3",
        "BanditSelector, presampled, published, 2 items",
        "BanditSelector, presampled",
    ),
    Stated(
        "000, Theorem 9",
        "T^(3/4) (ln^2.5 T)^(1/4) / ε",
        "T^3/4",
        "MetaFrankWolfePoints, published",
        "MetaFrankWolfePoints",
    ),
    Stated(
        "001, Theorem 7",
        "2 L² T / H + H n / 2 + 4 n L² T ln^1.5 T / (ε H), H = M √T, L = 4 M",
        "T^1/2",
        "SubmodularMinimizer, published",
        "SubmodularMinimizer",
    ),
    Stated(
        "001, Theorem 9",
        "32 M² n² T / (H γ) + n H + 2 γ M T + 8 M n √(T/γ) + 64 n³ M² T ln^1.5 T / (ε γ H), H = M T^(2/3),"
        " γ = n^(3/2) / T^(1/3)",
        "T^2/3",
        "BanditSubmodularMinimizer, published",
        "BanditSubmodularMinimizer",
    ),
    Stated(
        "003, Theorem 4",
        "R √(T ln n) + R^(3/2) n T^(1/4) √ln(1/δ) / ε",
        "T^1/2",
        "MetaFrankWolfe, published",
        "MetaFrankWolfe",
    ),
    Stated(
        "004, Theorem 4",
        "p (L + H C)² ln^2.5 T / (ε H)",
        "ln(T)^2.5",
        "ApproximateLeader, strongly convex, published",
        "ApproximateLeader, strongly convex",
    ),
    Stated(
        "004, Section 2.1; 000, Theorem 10",
        "√(p T ln^2.5 T) (L + √(p ln^2.5 T / (ε T)) C)² / ε",
        "T^1/2",
        "ApproximateLeader, Lipschitz, published",
        "ApproximateLeader, Lipschitz",
    ),
    Stated(
        "004, Table 1: experts",
        "√(p T ln^2.5 T) / ε",
        "T^1/2",
        "ApproximateLeader, experts, published",
        "LinearLeader",
    ),
    Stated(
        "004, Theorem 6, oblivious",
        "p T^(2/3) (B R + (1 + R/r) L + (H C + B)² / H (1 + B/ε))",
        "T^2/3",
        "BanditApproximateLeader, strongly convex, published",
        "BanditApproximateLeader, strongly convex",
    ),
    Stated(
        "004, Table 2: Lipschitz",
        "p T^(3/4) / ε",
        "T^3/4",
        "BanditApproximateLeader, Lipschitz, published",
        "BanditApproximateLeader, Lipschitz",
    ),
)


def hardest(learner: str) -> dict[str, Any]:
    """Its run over growing numbers of rounds; or else the synthetic stream on which it lost most, once."""
    found = stored("theorems")
    for one in found["growth"]:
        if one["learner"] == learner:
            return dict(one)
    rows = [
        row for row in found["rows"] if row["learner"] == learner and not row["stream"].startswith("real")
    ]
    row = max(rows, key=lambda one: one["measured"])
    once = {name: [row[name]] for name in ("rounds", "measured", "certified", "trivial")}
    return once | {"printed": [row["printed"]], "exponent_measured": None, "exponent_certified": None}


def _constant(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100.0 else f"{value:.2g}"


@block
def bounds_side_by_side() -> str:
    """Every bound once: a learner in the paper's form, and the library's below it."""
    rows = []
    for stated in BOUNDS:
        for learner in (stated.published, stated.own):
            one = hardest(learner)
            last = one["rounds"][-1]
            scale = stated.scale(last)
            slopes = [
                "" if one[kind] is None else f"{one[kind]:.2f}"
                for kind in ("exponent_measured", "exponent_certified")
            ]
            first = learner == stated.published
            printed = _constant(one["printed"][-1] / scale) if first else ""
            certified = "trivial" if one["trivial"][-1] else _constant(one["certified"][-1] / scale)
            constants = (_constant(one["measured"][-1] / scale), certified, printed)
            head = (stated.where, stated.formula, stated.power) if first else ("", "", "")
            rows.append([*head, learner, *slopes, f"{last:,}", *constants])
    slopes = ["exponent, measured", "exponent, certified"]
    constants = ["rounds", "constant, measured", "constant, certified", "constant, printed"]
    return markdown(["theorem", "printed bound", "growth in T", "learner", *slopes, *constants], rows)


def slope(rounds: Sequence[float], regret: Sequence[float]) -> float:
    """The slope on log-log axes, by least squares."""
    return float(np.polyfit(np.log(rounds), np.log(regret), 1)[0])


@block
def longer_runs() -> str:
    """Exponents that other benchmarks measured, over more rounds."""
    rows = []

    def add(script: str, name: str, rounds: Sequence[int], measured: float, certified: float | None) -> None:
        bound = "" if certified is None else f"{certified:.2f}"
        rows.append([f"`{script}`", name, f"{rounds[0]:,} to {rounds[-1]:,}", f"{measured:.2f}", bound])

    for script in ("regret_growth", "minimization"):
        found = stored(script)
        for name, one in found["growth"].items():
            add(script, name, one["rounds"], found["exponents"][name], None)
    for name, one in stored("bandit")["growth"].items():
        certified = slope(one["rounds"], one["certified"])
        add("bandit", name, one["rounds"], slope(one["rounds"], one["regret"]), certified)
    for name, one in stored("convex")["growth"].items():
        add("convex", name, one["rounds"], one["exponent"], one["certified exponent"])
    slopes = ["exponent, measured", "exponent, certified"]
    return markdown(["benchmark", "learner", "rounds", *slopes], rows)
