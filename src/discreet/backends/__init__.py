"""The seam to compiled loops: learners name a family of loops and never the compiler behind them.

``backends.hedge`` is the module with the loops of Hedge, whichever backend provides it. Families are loaded
when they are first asked for. Another backend is a package with some of these modules; `use` puts it in
front, and families that it does not have come from the one that has them all.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

DEFAULT = "discreet.backends.numba"
FAMILIES = (
    "bandit",
    "composition",
    "continuous",
    "convex",
    "exchanges",
    "flows",
    "frank_wolfe",
    "functions",
    "hedge",
    "matroids",
    "minimization",
    "noise",
    "objectives",
    "polytopes",
    "scans",
    "selectors",
    "stores",
    "sums",
    "windows",
)
_in_front: list[str] = []


def __getattr__(name: str) -> ModuleType:
    if name not in FAMILIES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    for package in (*reversed(_in_front), DEFAULT):
        if find_spec(f"{package}.{name}") is not None:
            globals()[name] = found = import_module(f"{package}.{name}")
            return found
    raise ImportError(f"no backend has the loops {name!r}")


@contextmanager
def use(package: str) -> Iterator[None]:
    """Within it, loops come from ``package`` (a dotted name) where it has them.

    A learner that has begun keeps the loops it began with.
    """
    import_module(package)  # what is not there fails at once
    _in_front.append(package)
    _look_again()
    try:
        yield
    finally:
        _in_front.remove(package)
        _look_again()


def _look_again() -> None:
    for name in FAMILIES:
        globals().pop(name, None)
