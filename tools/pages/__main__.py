"""Write the generated parts of pages, or say which are out of date."""

from __future__ import annotations

import argparse
import sys

from tools.results import ROOT

from . import PAGES, filled, outdated


def main(given: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.pages", description=__doc__)
    parser.add_argument("pages", nargs="*", default=PAGES, metavar="PAGE", help=", ".join(PAGES))
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a part is out of date")
    options = parser.parse_args(given)
    stale = False
    for page in options.pages:
        text = (ROOT / page).read_text()
        if not options.check:
            (ROOT / page).write_text(filled(text))
        elif names := outdated(text):
            stale = True
            print(f"{page}: out of date: {', '.join(names)}; run python -m tools.pages {page}")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
