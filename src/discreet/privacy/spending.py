"""Spending: whoever releases something takes a budget, a share of one, or a gate."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from .budget import Budget, Share
from .gate import Gate
from .randomness import Seed

Spending = Budget | Share | Gate


def spend_from(budget: Spending, seed: Seed = None) -> Share:
    """What may be spent, at the gate where it is: ``share.gate`` is always there.

    A `Budget` gets a gate of its own and is spent whole. A `Share` is spent at its gate, or at one of its own
    that holds no more. Of a `Gate` all that is left is spent, in its privacy notion.
    """
    if isinstance(budget, Gate | Share) and (isinstance(budget, Gate) or budget.gate is not None):
        if seed is not None:
            raise ValueError("seed= is for a budget; a gate has its own randomness")
        return budget.left if isinstance(budget, Gate) else budget
    if isinstance(budget, Share):
        gate = Gate.of_share(budget, seed)
        notion = budget.notion if budget.whole else gate.notion
        return replace(budget, notion=notion, gate=gate, own_gate=True)
    return Share(budget, Fraction(1), None, Gate(budget, seed), own_gate=True)
