"""One person's part in a running sum: in how many of its vectors their data can be, and how near together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...core import checks
from ..budget import Share


@dataclass(frozen=True)
class Participation:
    """At most ``times`` of the vectors of a sum hold data of one person, ``apart`` or more from each other.

    Each of them holds it once. What is released of a sum is C x plus noise: a row of C for each release, a
    column for each of the vectors x. With one vector in which somebody can move by D, C x moves by D times
    the norm of a column. With several it moves by at most D times the largest norm of a *sum of columns*
    that the person can be in, and that is attained.

    Proof. Let d_i be what a person changes in the vector t_i, with norm(d_i) <= D, and c_t the columns of C.
    The square of what moves is the sum over all i, j of <d_i, d_j> <c_{t_i}, c_{t_j}>. Here no entry of C is
    negative, so neither is any product of columns, and <d_i, d_j> <= D^2: the sum is at most D^2 times the
    square of norm(sum of the c_{t_i}). Vectors that all change by the same d of norm D attain it. Whether d_i
    comes from replacing or from removing somebody only matters for D. Columns left out make the sum smaller,
    so it does not fall when ``times`` grows.

    The vectors may be chosen after seeing earlier releases, and so may the times t_i: C is lower triangular,
    so along every course of events the means of the Gaussian releases move by a sequence whose norm is
    bounded as above, and such a sequence of releases is Gaussian DP at that norm over sigma (fully adaptive
    composition: Smith and Thakurta 2022).

    `Factorization.participation_norm` and `tree_norm_squared` have the largest sums of columns.
    """

    times: int = 1
    apart: int = 1

    def __post_init__(self) -> None:
        for name, most in (("times", checks.ANY), ("apart", 1 << 62)):
            object.__setattr__(self, name, checks.whole(name, getattr(self, name), at_least=1, at_most=most))

    @classmethod
    def declared(cls, share: Share, min_separation: int | None) -> Participation | None:
        """What is declared of people who come ``max_rounds_per_person`` times; None where nothing is."""
        if min_separation is None:
            return None
        apart = checks.whole("min_separation", min_separation, at_least=1)
        return cls(share.budget.max_rounds_per_person, apart)

    def within(self, rounds: int) -> int:
        """Of how many of ``rounds`` vectors a person can be part."""
        return min(self.times, 1 + (rounds - 1) // self.apart)

    def to_json(self) -> list[int]:
        """Plain values, for `from_json`."""
        return [self.times, self.apart]

    @classmethod
    def from_json(cls, plain: Any) -> Participation:
        """What `to_json` wrote."""
        if not isinstance(plain, list | tuple) or len(plain) != 2:
            raise ValueError(f"participation must be two whole numbers, got {checks.shown(plain)}")
        return cls(*plain)


def tree_norm_squared(rounds: int, levels: int, participation: Participation) -> int:
    """Square of the norm of the columns of a binary tree that a person is in, at the most.

    A row of C is a block, 1 for each of its vectors. What is asked for is the sum over all blocks of the
    square of how many of the person's vectors are in it. Blocks of 2^j vectors hold at most m of them each,
    2^j / apart rounded up. A sum of squares of numbers up to m with a given total is largest when all but one
    of those that are not 0 are m: which gives each level's part. With ``apart=1`` the first vectors of a
    stream attain it on all levels at once; else it is an upper bound.

    >>> [tree_norm_squared(8, 3, Participation(times)) for times in (1, 2, 4)]
    [3, 10, 28]
    """
    times, total = participation.within(rounds), 0
    for level in range(levels):
        most = min(times, -(-(1 << level) // participation.apart))
        full, rest = divmod(times, most)
        total += full * most**2 + rest**2
    return total
