"""Privacy audit of every mechanism and learner: the loss of the code compared with its account.

Exact loss between neighbours, the sampler, outputs alone, and injected faults: `PAGE` explains each.

>>> report = audit(["Gate.laplace"])
>>> report.sound
True
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ..core.text import at_most, table, track
from .cases import DEEP, QUICK, Finding
from .settings import chosen

HEADER = ("what", "setting", "neighbours", "claimed", "delta", "exact", "tightness", "empirical lower bound",
          "sampler p", "injected faults", "verdict")  # fmt: skip


@dataclass(frozen=True)
class AuditReport:
    """The findings of an audit; ``sound`` is True if none has a problem."""

    findings: tuple[Finding, ...]
    deep: bool = False

    @property
    def sound(self) -> bool:
        return all(finding.sound for finding in self.findings)

    @property
    def summary(self) -> str:
        """The result in one sentence."""
        wrong = [finding for finding in self.findings if not finding.sound]
        names = len({finding.name for finding in self.findings})
        noticed = sum(len(finding.caught) for finding in self.findings)
        settings = f"{len(self.findings)} settings of {names} mechanisms and learners"
        verdict = f"{len(wrong)} fail" if wrong else "every account holds"
        return f"{settings}: {verdict}; {noticed} injected faults noticed"

    def rows(self) -> list[list[str]]:
        """The table's cells, one row per setting."""
        return [_row(finding) for finding in self.findings]

    def __str__(self) -> str:
        return table(HEADER, self.rows()) + "\n" + self.summary

    def to_json(self) -> dict[str, Any]:
        """Plain values; infinite numbers become null."""
        return {
            "deep": self.deep,
            "sound": self.sound,
            "summary": self.summary,
            "findings": [
                {
                    "name": one.name,
                    "setting": one.setting,
                    "neighbours": one.neighbours,
                    "claimed_epsilon": _finite(one.claimed),
                    "delta": one.delta,
                    "exact_epsilon": _finite(one.exact),
                    "excess": _finite(one.excess),
                    "epsilon_from_outputs": one.lower_bound,
                    "sampler_p": one.sampler,
                    "injected_faults_noticed": list(one.caught),
                    "injected_faults_missed": list(one.missed),
                    "cannot_be_seen": list(one.unseen),
                    "verdict": one.verdict,
                    "seconds": round(one.seconds, 2),
                }
                for one in self.findings
            ],
        }

    def to_markdown(self) -> str:
        """A page with the table and how to read it."""
        lines = [_cells(HEADER), "|" + "---|" * len(HEADER), *(_cells(row) for row in self.rows())]
        effort = "deep" if self.deep else "quick"
        unseen = "".join(f"{line}\n" for line in self.unseen())
        return PAGE.format(table="\n".join(lines), summary=self.summary, effort=effort, unseen=unseen)

    def unseen(self) -> list[str]:
        """What single settings cannot detect, and why: lines of a list, one per reason."""
        reasons: dict[str, list[str]] = {}
        for one in self.findings:
            for reason in one.unseen:
                reasons.setdefault(reason, []).append(f"{one.name} ({one.setting})")
        return [f"- {'; '.join(names)}: {reason}" for reason, names in reasons.items()]


def audit(names: Iterable[str] | None = None, *, deep: bool = False, progress: bool = False) -> AuditReport:
    """Audit mechanisms and learners by name, or all of them; ``deep`` has more settings, neighbours and runs.

    Guarantee of the audit itself: seeds are fixed, so results are reproducible. Under other seeds, a sound
    library would fail each of its tests with probability 1e-6.
    """
    cases = chosen(names, deep)
    effort = DEEP if deep else QUICK
    return AuditReport(
        tuple(cases[place].audit(effort) for place in track(range(len(cases)), "settings", progress)), deep
    )


def _row(one: Finding) -> list[str]:
    share = one.exact / one.claimed if one.claimed > 0.0 else math.nan
    injected = len(one.caught) + len(one.missed)
    return [
        one.name,
        one.setting,
        one.neighbours,
        at_most(one.claimed, 4),
        at_most(one.delta),
        f"{one.exact:.4g}",
        "-" if not math.isfinite(share) else f"{100 * share:.0f} %",
        f"{one.lower_bound:.3g}",
        f"{one.sampler:.2g}",
        f"{len(one.caught)} of {injected}",
        one.verdict,
    ]


def _cells(row: Iterable[str]) -> str:
    return "| " + " | ".join(row) + " |"


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


PAGE = """# Privacy audit

This page is written by `discreet audit --all --deep --out docs/audit.md` (`make audit`); nothing in it
is typed by hand. The quick form, `discreet audit --all`, takes a minute or two and is part of the tests.
This is the {effort} one.

{summary}.

{table}

## Columns

- **claimed** is the account's guarantee: the smallest epsilon that goes with **delta**.
- **exact** is the largest epsilon that was really found between two neighbouring worlds, at that delta.
  The code is run as it is, only its random draws are made by the audit: every choice is made in
  every way, with the probability that the code's own scores and rates give it, and noise is moved number
  by number. Nothing is estimated. The neighbours are searched for (restarts, then one number of one
  person changed at a time), so a worse pair than the one found is possible; a smaller claim than *exact*
  is not.
- **tightness** is exact / claimed. 100 % means that no noise is wasted. Less than that has three causes:
  accounts of several adaptive choices are upper bounds; some accounts are made for long runs, and the
  settings here are small enough to be enumerated; and neighbours that are worse still may exist.
- The account must hold at every epsilon, not only at the claimed one: the exact delta is compared at
  several epsilons. Exceeding it anywhere is a failing verdict.
- **empirical lower bound** is what somebody who only sees outputs can prove: a lower bound on epsilon from
  repeated real runs, wrong with chance 1e-6. Outputs are the choices that were published, the noisy
  numbers that left, and what a learner showed. Scores are their exact likelihood ratios, and Fisher's
  discriminant for what was shown; thresholds are chosen on one half of the runs and tested on the other.
  It must never exceed the claim. It is far below it wherever a few thousand runs cannot tell rare events
  apart, and 0 where they tell nothing: at epsilon 1 and delta 1e-5 Gaussian noise takes some 100,000 runs.
- **sampler p** is the p-value of the real sampler under the probabilities that the exact part took it to
  have (chi-square for choices, Kolmogorov-Smirnov for noise, whose effect on releases is also checked
  number by number). It fails below 1e-6.
- **injected faults**: how many errors were put into the running code, one at a time, and noticed by the
  same audit: half the noise, a doubled rate, a forgotten charge, half the sensitivity, a lost sign, a
  person in two rounds or blocks, a secret sample that holds everybody, somebody's numbers shown past the
  gate. Outputs alone must also reject gross errors, noise left out or a rate a hundred times too large,
  by proving more than the claim. An audit that misses one of those that it lists fails.

## Limits of the audit

- Public randomness (which rounds explore, which sets are sampled, how a point is rounded) protects nobody and
  is fixed here: everything is conditioned on one draw of it.
- Settings are small. That the same code is as private in large ones rests on the accounts' proofs, and
  on the tests of sums, gains and grids at any size.
- Decomposable picks together with what they gained (`release_gains`) are not audited: Laplace noise beside
  an account with a delta has no closed mixture. Each alone is.
- Timing, memory and whatever else a process gives away are not looked at; see the pages on privacy and
  pitfalls.
{unseen}"""
