"""The default running sum of a learner: the choice of ``sums=`` and ``noise=``."""

from __future__ import annotations

from collections.abc import Callable

from ..core import checks
from ..privacy import Share
from ..privacy.sums import METHODS

NOISES = ("gaussian", "laplace", "spherical")


def chosen_sums(sums: str, noise: str, share: Share, pure: Callable[[], str]) -> tuple[str, str]:
    """What ``"auto"`` stands for: Gaussian noise with a delta (or without privacy), else a tree.

    ``pure`` names the tree's noise: "laplace" or "spherical", whichever is better for the learner.
    """
    checks.one_of("sums", sums, ("auto", *METHODS))
    checks.one_of("noise", noise, ("auto", *NOISES))
    if noise in ("laplace", "spherical") and sums in ("sqrt", "blt"):
        raise ValueError(f'noise={noise!r} needs sums="tree"; {sums!r} has Gaussian noise only')
    if noise == "auto":
        gaussian = sums in ("sqrt", "blt") or bool(share.delta) or not share.private
        noise = "gaussian" if gaussian else pure()
    if noise != "gaussian":
        return "tree", noise
    if share.private and not share.delta:
        raise ValueError(
            'Gaussian noise needs delta > 0; give the budget a delta, or take sums="tree" with other noise'
        )
    return ("sqrt" if sums == "auto" else sums), noise
