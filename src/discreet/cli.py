"""The command line. ``discreet demo`` shows what the library does, on data it makes up."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from . import __version__


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; 0 on success, 2 for a mistake on the command line."""
    parser = argparse.ArgumentParser(
        prog="discreet",
        description="Choose a few things out of many for people whose preferences are private.",
    )
    parser.add_argument("--version", action="version", version=f"discreet {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    demo = commands.add_parser(
        "demo",
        help="a made-up shop, a private choice and a private running sum, with their accounts",
        description="A made-up shop, a private choice and a private running sum, with their accounts.",
        epilog="example: discreet demo --epsilon 0.5",
    )
    demo.add_argument("--epsilon", type=float, default=1.0, help="privacy budget (default 1)")
    demo.add_argument("--delta", type=float, default=1e-6, help="chance of failure (default 1e-6)")
    demo.add_argument("--seed", type=int, help="reproducible noise: for looking twice, not for real people")
    options = parser.parse_args(arguments)
    from .demo import show

    try:
        show(options.epsilon, options.delta, options.seed)
    except (ValueError, TypeError) as error:
        print(f"discreet demo: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # the reader has seen enough, e.g. `discreet demo | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0
