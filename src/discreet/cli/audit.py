"""``discreet audit``: check accounts against what the code really does."""

from __future__ import annotations

import argparse
import sys

from .. import __version__
from .common import as_json, check_writable, fitted, wrapped, write_whole

NAME = "audit"
HELP = "check that mechanisms and learners lose no more privacy than they say"

FAILED = 1

_EXAMPLES = """examples:
  discreet audit --all
  discreet audit HedgeSelector Gate.laplace --deep
  discreet audit --all --deep --out docs/audit.md

Exit code 1 if an account does not hold, or if an audit misses an injected fault. --out writes
a page (.md), JSON (.json) or the printed table (anything else)."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The targets and depth of the audit, ``--list``, and the file for the result."""
    parser.epilog = _EXAMPLES
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="mechanisms and learners, e.g. HedgeSelector"
    )
    parser.add_argument("--all", action="store_true", help="everything that --list names")
    parser.add_argument(
        "--deep", action="store_true", help="more settings, neighbours and runs: minutes instead of seconds"
    )
    parser.add_argument("--list", action="store_true", help="print the names that can be audited, and stop")
    parser.add_argument("--out", metavar="FILE", help="also write the result here")


def run(options: argparse.Namespace) -> int:
    from ..audit import HEADER, audit, to_audit

    if options.list:
        print(as_json({"names": to_audit()}) if options.json else "\n".join(to_audit()))
        return 0
    if bool(options.names) == options.all:
        raise ValueError("say what to audit: names (discreet audit --list shows them), or --all")
    target = None if options.out is None else check_writable(options.out)
    report = audit(options.names or None, deep=options.deep, progress=sys.stderr.isatty())
    result = {"discreet": __version__, "command": "audit", **report.to_json()}
    text = fitted(HEADER, report.rows()) + "\n" + wrapped(report.summary)
    if target is not None:
        written = {".md": report.to_markdown(), ".json": as_json(result) + "\n"}
        write_whole(target, written.get(target.suffix, f"{report}\n"))
    print(as_json(result) if options.json else text)
    return 0 if report.sound else FAILED
