"""Optional packages: how to install an extra of the library."""

from __future__ import annotations


def install(extra: str) -> str:
    """The command that adds an extra to this installation.

    Where the library is installed, from a wheel or from a clone, pip reads its extras off what is installed
    and asks no index for it. Where it is only on the path, an index might have another package of its name.

    >>> install("plots")
    "pip install 'discreet[plots]'"
    """
    from importlib import metadata

    try:
        metadata.distribution("discreet")
    except metadata.PackageNotFoundError:
        return f"pip install '.[{extra}]' in a clone of discreet"
    return f"pip install 'discreet[{extra}]'"
