"""Blocks of a page: text between two comments that a function of the same name makes."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Sequence

from discreet.privacy.account import PublishedCalibrationWarning

PAGES = (
    "README.md",
    "docs/benchmarks.md",
    "docs/theorems.md",
    "docs/errata.md",
    "docs/gpu.md",
    "docs/scale.md",
    "docs/releases.md",
    "docs/service/operations.md",
    "docs/tutorials/year.md",
)
BLOCKS: dict[str, Callable[[], str]] = {}
_BLOCK = re.compile(r"<!-- (\w+): start -->\n(.*?)\n?<!-- \1: end -->", re.DOTALL)


def block(make: Callable[[], str]) -> Callable[[], str]:
    """Register a function as the maker of the block of its name."""

    def quietly() -> str:
        with warnings.catch_warnings():  # published settings warn on purpose
            warnings.simplefilter("ignore", PublishedCalibrationWarning)
            return make()

    assert make.__name__ not in BLOCKS
    BLOCKS[make.__name__] = quietly
    return make


def evidence(make: Callable[[], str]) -> Callable[[], str]:
    """A block of docs/errata.md: the number that shows what is wrong with a claim."""

    def text() -> str:
        return f"**Evidence.** {make()}"

    text.__name__ = make.__name__
    block(text)
    return make


def blocks_of(text: str) -> dict[str, str]:
    """The blocks of a page as they stand, by name."""
    return {found[1]: found[2] for found in _BLOCK.finditer(text)}


def outdated(text: str) -> list[str]:
    """The names of the blocks that are not what their functions make."""
    return [name for name, body in blocks_of(text).items() if body != BLOCKS[name]()]


def filled(text: str) -> str:
    """The page with every block made anew."""
    return _BLOCK.sub(lambda m: f"<!-- {m[1]}: start -->\n{BLOCKS[m[1]]()}\n<!-- {m[1]}: end -->", text)


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table."""
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def big(value: float) -> str:
    """Two digits and a power of ten for large numbers, three digits for others."""
    return f"{value:.2g}" if value >= 1e6 or value < 1e-3 else f"{float(f'{value:.3g}'):,.0f}"
