"""Loops that are compiled when they are first used; those of `discreet.kernels` are compiled already.

``backends.scans`` is the module with the loops over stores. Families are loaded when they are asked for.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

FAMILIES = ("composition", "objectives", "scans", "stores", "windows")


def __getattr__(name: str) -> ModuleType:
    if name not in FAMILIES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found = import_module(f"{__name__}.numba.{name}")
    return found
