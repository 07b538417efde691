"""The loops of running-sum selectors, interpreted; ``calls`` says which of them were used."""

from __future__ import annotations

from collections import Counter

from discreet.backends.numba import selectors as compiled

calls: Counter[str] = Counter()


def _interpreted(name):
    loop = getattr(compiled, name).py_func

    def called(*given):
        calls[name] += 1
        return loop(*given)

    return called


draw_ordered, ordered_rounds = map(_interpreted, ("draw_ordered", "ordered_rounds"))
add_row_gains, row_values = map(_interpreted, ("add_row_gains", "row_values"))
