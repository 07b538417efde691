"""Settings by the budget: what ``"auto"`` stands for, the least noise that fits, or a paper's constants."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from ..core import checks
from ..privacy import Budget, Share, SumSpec, spend_from
from ..privacy.account import published_share
from ..privacy.prefix_sum import METHODS
from .learner import CALIBRATIONS, asked

NOISES = ("gaussian", "laplace", "spherical")


def calibrated(kind: Any, given: Mapping[str, Any], *, pure: bool = False) -> tuple[Any, Share]:
    """Settings of this ``kind`` for the ``locals()`` of a constructor, and the share to spend.

    Published constants leave no choice of the options that ``kind.tuned`` names. ``pure`` is for papers that
    claim a pure epsilon, whatever the delta.
    """
    options, share = asked(given), spend_from(given["budget"], given["seed"])
    if checks.one_of("calibration", options.pop("calibration"), CALIBRATIONS) == "tight":
        return kind.tight(share, **options), share
    known = inspect.signature(kind.tight).parameters
    for name in kind.tuned:
        default = known[name].default if name in known else getattr(kind, name)
        if options.pop(name) != default:
            names = ", ".join(f"{one}=" for one in kind.tuned)
            raise ValueError(f'calibration="published" has its own {names}; leave them out, or take "tight"')
    found = kind.published(share, **options)
    releases = [] if found.spec is None else [(found.event, found.spec.count)]
    return found, published_share(share, releases, kind.paper, claimed_epsilon(share) if pure else None)


def gradient_sum(settings: Any) -> SumSpec | None:
    """The running sum of gradients that settings declare ``vectors`` of; None where nothing is released."""
    if not settings.releases:
        return None
    reduced = settings.sums == "tree" and settings.noise == "gaussian"
    more: dict[str, Any] = {"variance_reduction": reduced, "participation": settings.participation}
    return SumSpec(settings.vectors, settings.releases, settings.sums, settings.noise, **more)


def on_sums(kind: Any, share: Share, method: str, noise: str, asked: dict[str, Any]) -> Any:
    """Settings of this ``kind`` on such a sum, with the least noise that fits into ``share``."""
    found = kind(**asked, calibration="tight", sums=method, noise=noise)
    return found if found.spec is None else replace(found, event=found.spec.event(share, share.definition))


def claimed_epsilon(share: Share) -> Budget:
    """What papers claim, and spend, that know of no delta: a pure epsilon."""
    if not share.private:
        raise ValueError('calibration="published" needs a finite epsilon; take "tight"')
    return replace(share.budget, delta=0.0)


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
