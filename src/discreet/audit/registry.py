"""The registry of audits: what the library exports that has to be audited, and what is.

A new mechanism, learner or chooser without a setting in `mechanisms`, `online` or `offline` fails the tests.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from types import ModuleType
from typing import Any

from .. import offline as choosers
from .. import online as learners
from .. import privacy
from ..privacy import Gate, RunningSum
from . import mechanisms, offline, online
from .cases import Case

# Whoever decides something about people does it by one of these.
_DECIDES = ("choose", "select", "fit")
# Made of learners that are audited; that nobody is in two of them is enumerated in tests.
_OF_OTHERS = ("Segments",)


def cases() -> list[Case]:
    """Every setting that is audited."""
    return [*mechanisms.cases(), *online.cases(), *offline.cases()]


def audited() -> set[str]:
    """The names that have a setting."""
    return {case.name for case in cases()}


def to_audit(*modules: ModuleType | Any) -> list[str]:
    """The public names that need an audit.

    Mechanisms are the methods of a gate that take a sensitivity. Of the classes that modules export
    (privacy, online and offline, if none are given) it is running sums and whatever chooses, selects or fits;
    abstract bases and results do neither.

    >>> "Gate.laplace" in to_audit(), "HedgeSelector" in to_audit(), "Guarantee" in to_audit()
    (True, True, False)
    """
    found = [
        f"Gate.{name}"
        for name, method in inspect.getmembers(Gate, inspect.isfunction)
        if _takes_sensitivity(method)
    ]
    for module in modules or (privacy, learners, choosers):
        names = [name for name in module.__all__ if name not in _OF_OTHERS]
        found += [name for name in names if _decides(_exported(module, name))]
    return found


def missing(*modules: ModuleType | Any) -> list[str]:
    """The public names that need an audit and have none."""
    have = audited()
    return [name for name in to_audit(*modules) if name not in have]


def _takes_sensitivity(method: Any) -> bool:
    return not method.__name__.startswith("_") and "sensitivity" in inspect.signature(method).parameters


def _exported(module: Any, name: str) -> Any:
    try:
        return getattr(module, name)
    except ImportError:  # needs a package that is optional and not there
        return None


def _decides(thing: Any) -> bool:
    if not inspect.isclass(thing) or inspect.isabstract(thing) or issubclass(thing, Gate):
        return False
    return issubclass(thing, RunningSum) or any(callable(getattr(thing, name, None)) for name in _DECIDES)


def chosen(names: Iterable[str] | None, deep: bool) -> list[Case]:
    """The settings of these names (of all, if None); without ``deep`` only the quick ones."""
    everything = [case for case in cases() if deep or not case.only_deep]
    if names is None:
        return everything
    known = {case.name.lower(): case.name for case in everything}
    wanted = set()
    for name in names:
        if name.lower() not in known:
            from difflib import get_close_matches

            near = get_close_matches(name.lower(), known, n=1)
            hint = f"did you mean {known[near[0]]}?" if near else f"there are {', '.join(known.values())}"
            raise ValueError(f"{name!r} is not audited under that name; {hint}")
        wanted.add(known[name.lower()])
    return [case for case in everything if case.name in wanted]
