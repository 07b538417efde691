"""``discreet demo``: a demonstration of the library on synthetic or public data."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from .common import as_json

NAME = "demo"
HELP = "a synthetic shop, a choice of features and a service, with their accounts"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """A budget, a seed for reproducible runs, and the path of the report."""
    parser.epilog = (
        "examples:\n  discreet demo --epsilon 0.5\n  discreet demo --serve\n"
        "  discreet demo --seed 1 --out demo --json"
    )
    parser.add_argument("--epsilon", type=float, default=1.0, help="privacy budget (default 1)")
    parser.add_argument("--delta", type=float, default=1e-6, help="chance of failure (default 1e-6)")
    parser.add_argument("--seed", type=int, help="reproducible noise: for looking twice, not for real people")
    parser.add_argument(
        "--out", metavar="FOLDER", help="where the report and the plots go (default: a new temporary folder)"
    )
    parser.add_argument(
        "--serve", action="store_true", help="then serve the shop, with its page, until interrupted"
    )


def run(options: argparse.Namespace) -> int:
    from ..evaluation.demo import show

    out = None if options.out is None else Path(options.out)
    found = show(options.epsilon, options.delta, options.seed, out, quiet=options.json)
    if options.json:
        print(as_json({"command": "demo"} | found))
    if options.serve and "command" in found["service"]:
        return _serve(found["service"]["command"])
    return 0


def _serve(words: str) -> int:
    """Start the service of the demonstration, as its own command would."""
    from . import command, parser_of

    code: int = command("serve").run(parser_of("serve").parse_args(shlex.split(words)[2:]))
    return code
