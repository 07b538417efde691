"""Certified regret, as functions: what the theorems guarantee for given settings."""

from __future__ import annotations

from .selection import (
    ALPHA,
    at_random,
    best_rate,
    falling_hedge,
    following,
    gaussian_maximum,
    hedge,
    laplace_maximum,
    noisy_leader,
    phased,
    picks_loss,
    published_hedge,
    published_private_experts,
    published_rate,
    sampling_error,
    trivial,
    unclipped_hedge,
)

__all__ = [
    "ALPHA",
    "at_random",
    "best_rate",
    "falling_hedge",
    "following",
    "gaussian_maximum",
    "hedge",
    "laplace_maximum",
    "noisy_leader",
    "phased",
    "picks_loss",
    "published_hedge",
    "published_private_experts",
    "published_rate",
    "sampling_error",
    "trivial",
    "unclipped_hedge",
]
