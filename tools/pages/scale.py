"""Tables of docs/scale.md: the model of what a store costs, beside what was measured."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from discreet.data.costs import Sizes, costs
from tools.results import stored

from .blocks import block, markdown

_EACH, _ITEMS, _PICKS = 10, 2000, 50
_LARGEST = 10  # the exponent of the largest number of rows that is printed


def sizes_of(rows: int) -> Sizes:
    """The events of benchmarks/store.py: ten rows of each person, of which nine are different."""
    return Sizes(rows, rows // _EACH, round(0.92 * rows), _ITEMS, chosen=0.7)


def checked() -> Iterator[tuple[str, float, float]]:
    """What was measured, and what the model says of it: names, processor seconds of both."""
    found = stored("store")
    for power in range(6, _LARGEST + 1):
        measured: dict[str, Any] | None = found.get(f"1e{power}")
        if measured is None:
            continue
        told = costs(sizes_of(10**power), _PICKS)
        prepare, both = measured["prepare"]["cpu"], measured["prepare and select"]["cpu"]
        yield f"10^{power} rows to a store", prepare, told.prepare_processor
        yield (
            f"10^{power} rows to {_PICKS} picks",
            both,
            told.prepare_processor + told.select_processor,
        )
    for name, one in stored("scans").items():
        if name.isdigit() and (people := int(name)) >= 10**6:
            sizes = Sizes(20 * people, people, round(19.4 * people), _ITEMS, chosen=0.2)
            yield (
                f"{people:,} people, {_PICKS} picks",
                one["threads"]["processor"],
                costs(sizes, _PICKS).select_processor,
            )


@block
def store_model() -> str:
    rows = [
        [name, _seconds(measured), _seconds(told), f"{told / measured:.1f}"]
        for name, measured, told in checked()
    ]
    return markdown(["CPU time", "measured", "model", "model / measured"], rows)


@block
def store_costs() -> str:
    rows = []
    for power in range(6, _LARGEST + 1):
        sizes = sizes_of(10**power)
        here = costs(sizes, _PICKS, 2)
        large = costs(sizes, _PICKS, 16, held=64 << 30)
        many = costs(sizes, _PICKS, 16, machines=10, held=64 << 30)
        shown = [_bytes(here.disk), _bytes(here.memory), _seconds(here.prepare)]
        rows.append([f"10^{power}", *shown, *(_seconds(one.select) for one in (here, large, many))])
    picks = [f"{_PICKS} picks, {where}" for where in ("2 cores", "16 cores", "10 machines of 16")]
    return markdown(["rows", "store", "memory", "prepare, 2 cores", *picks], rows)


def _bytes(count: float) -> str:
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count / 1e3:.3g} kB"


def _seconds(seconds: float) -> str:
    if seconds < 99.5:
        return f"{seconds:.2g} s"
    return f"{seconds / 60:.2g} min" if seconds < 5400 else f"{seconds / 3600:.2g} h"
