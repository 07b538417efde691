"""Compiled steps that learners of sets share: what a person of a row family gains, and drawing."""

from __future__ import annotations

import math

import numpy as np

from ..kinds import BEST, COVER, SURVIVE
from .compiled import loop, part
from .objectives import _gain, _step
from .sums import noisy_step
from .vectors import block_sums, exponentials

# A person's weight is a multiple of 2^-28, and lower by more than the rounding of 2^31 squares can add.
_WEIGHTS = 2.0**28
_NORM_SLACK = 1.0 - 2.0**-20
_NEGLIGIBLE = -50.0


@part
def norm_weight(squares):  # type: ignore[no-untyped-def]
    """What a vector with this sum of squares is multiplied by to have a norm of at most 1."""
    return math.floor(_WEIGHTS * _NORM_SLACK / max(1.0, math.sqrt(squares))) / _WEIGHTS


@part
def _place_of(item, start, stop, indices):  # type: ignore[no-untyped-def]
    """Where in the row ``item`` stands, or ``stop`` if it does not hold it; the row is sorted."""
    low, high = start, stop
    while low < high:
        middle = (low + high) >> 1
        if indices[middle] < item:
            low = middle + 1
        else:
            high = middle
    return low if low < stop and indices[low] == item else stop


@loop()
def row_values(kind, fresh, indptr, indices, data, cap, first, shown, out):  # type: ignore[no-untyped-def]
    """``out[j]`` = value of the set ``shown`` to the person of row ``first + j``."""
    for j in range(out.size):
        row = first + j
        start, stop = indptr[row], indptr[row + 1]
        state = fresh
        value = 0.0
        for item in shown:
            p = _place_of(item, start, stop, indices)
            if p < stop:
                value += _gain(kind, state, data[p], cap[row])
                state = _step(kind, state, data[p])
        out[j] = value


@part
def row_weight(kind, fresh, data, start, stop, cap, bound):  # type: ignore[no-untyped-def]
    """A person's weight, so that what the items of the row add alone has an L2 norm of at most ``bound``."""
    squares = 0.0
    for p in range(start, stop):
        alone = min(_gain(kind, fresh, data[p], cap) / bound, 1.0)
        squares += alone * alone
    return norm_weight(squares)


@loop()
def row_weights(kind, fresh, indptr, data, cap, bound, out):  # type: ignore[no-untyped-def]
    """``out[i]`` = `row_weight` of the person of row i."""
    for i in range(out.size):
        out[i] = row_weight(kind, fresh, data, indptr[i], indptr[i + 1], cap[i], bound)


@loop()
def add_row_gains(  # type: ignore[no-untyped-def]
    kind, fresh, indptr, indices, data, cap, first, within_limit, shown, bound, weighted, units, most, totals
):
    """Add to ``totals[i, a]`` what item a adds on top of the first i shown, for each person within the limit.

    Gains are counted in whole units, ``units`` to 1 and at most ``most``, rounded down, so that sums of them
    are whole numbers and one person's share in them is exact. ``weighted``: so that what a person's items add
    alone has an L2 norm of at most ``bound``.
    """
    longest = 0
    for j in range(within_limit.size):
        longest = max(longest, indptr[first + j + 1] - indptr[first + j])
    gains = np.empty(longest, dtype=np.int64)
    last = np.empty(longest, dtype=np.int64)
    # Of many people only the changes from an expert to the next are kept, and summed up in the end: what a
    # person takes does not grow with the number of experts then.
    experts, items = totals.shape
    many = 2 * (indptr[first + within_limit.size] - indptr[first]) > items
    changes = np.zeros((experts if many else 0, items), dtype=np.int64)
    for j in range(within_limit.size):
        if not within_limit[j]:
            continue
        row = first + j
        start, stop = indptr[row], indptr[row + 1]
        scale = units
        if weighted:
            scale = units * row_weight(kind, fresh, data, start, stop, cap[row], bound)
        # Up to which expert an item of the row adds something: the one that shows it, or the last of all.
        for p in range(start, stop):
            last[p - start] = shown.size
        for i in range(shown.size):
            p = _place_of(shown[i], start, stop, indices)
            if p < stop:
                last[p - start] = i
        state = fresh
        begin = 0
        while begin < shown.size:
            # Experts up to the next that shows an item of the row meet the same state.
            end = shown.size - 1
            chosen = stop
            for p in range(start, stop):
                if begin <= last[p - start] <= end:
                    end = last[p - start]
                    chosen = p
                amount = math.floor(min(_gain(kind, state, data[p], cap[row]) * scale, float(most)))
                gains[p - start] = max(np.int64(0), np.int64(amount))
            # Whom an item adds something to at the first of these experts, it does to all of them.
            for i in range(begin, begin if many else end + 1):
                for p in range(start, stop):
                    if begin <= last[p - start]:
                        totals[i, indices[p]] += gains[p - start]
            for p in range(start, stop if many else start):
                if begin <= last[p - start]:
                    changes[begin, indices[p]] += gains[p - start]
                    if end + 1 < experts:
                        changes[end + 1, indices[p]] -= gains[p - start]
            if chosen < stop:
                state = _step(kind, state, data[chosen])
            begin = end + 1
    for i in range(changes.shape[0]):
        for item in range(items):
            if i > 0:
                changes[i, item] += changes[i - 1, item]
            totals[i, item] += changes[i, item]


@part
def _joined(kind, first, second):  # type: ignore[no-untyped-def]
    """The state of a row once the items of two states are chosen."""
    if kind in (COVER, BEST):
        return max(first, second)
    if kind == SURVIVE:
        return first * second
    return first + second


@loop()
def add_leave_one_out(  # type: ignore[no-untyped-def]
    kind, fresh, indptr, indices, data, cap, first, within_limit, inside, bound, units, totals
):
    """Add to ``totals`` what each item adds to the others that are ``inside``, for people within the limit.

    Gains are in units of the bound, at most what the item adds alone. Each person's are weighted so that what
    the items add alone has an L2 norm of at most 1, and counted in whole units, ``units`` to 1, rounded down.
    """
    shown = 0
    for item in range(inside.size):
        shown += inside[item]
    after = np.empty(shown + 1)
    for j in range(within_limit.size):
        if not within_limit[j]:
            continue
        row = first + j
        start, stop = indptr[row], indptr[row + 1]
        count = 0
        for p in range(start, stop):
            count += inside[indices[p]]
        weight = units * row_weight(kind, fresh, data, start, stop, cap[row], bound)
        # The states of the shown items from the i-th on; those before it are joined to them.
        after[count] = fresh
        place = count
        for p in range(stop - 1, start - 1, -1):
            if inside[indices[p]]:
                after[place - 1] = _step(kind, after[place], data[p])
                place -= 1
        before = fresh
        for p in range(start, stop):
            state = after[0]
            if inside[indices[p]]:
                state = _joined(kind, before, after[place + 1])
                before = _step(kind, before, data[p])
                place += 1
            alone = min(_gain(kind, fresh, data[p], cap[row]) / bound, 1.0)
            gain = min(_gain(kind, state, data[p], cap[row]) / bound, alone)
            totals[indices[p]] += np.int64(math.floor(max(0.0, gain) * weight))


@part
def _largest_of_blocks(numbers, out):  # type: ignore[no-untyped-def]
    """The largest number of each block of eight into ``out``, and the largest of all."""
    top = -np.inf
    for b in range(out.size):
        block = numbers[8 * b : 8 * b + 8]
        first, second = max(block[0], block[1]), max(block[2], block[3])
        third, fourth = max(block[4], block[5]), max(block[6], block[7])
        out[b] = max(max(first, second), max(third, fourth))
        top = max(top, out[b])
    return top


@loop()
def draw_ordered(scores, rate, coins, out):  # type: ignore[no-untyped-def]
    """One item per row of ``scores``, with weights exp(rate * score), never one that is already in the set.

    Ordinary floating point: for scores that have already left through the gate. Weights below exp(-50) of the
    largest are left out: a million of them together are less than a coin can tell. Weights are summed, and
    looked through, in blocks of eight items.
    """
    count, items = scores.shape
    blocks = (items + 7) // 8
    left, arguments, weights = np.empty(8 * blocks), np.empty(8 * blocks), np.empty(8 * blocks)
    candidates, tops = np.empty(blocks, dtype=np.int64), np.empty(blocks)
    for a in range(items, 8 * blocks):
        left[a] = -np.inf
    for i in range(count):
        row = scores[i]
        for a in range(items):
            left[a] = row[a]
        for e in range(i):
            left[out[e]] = -np.inf
        top = _largest_of_blocks(left, tops)
        found = 0
        for b in range(blocks):
            if rate * (tops[b] - top) >= _NEGLIGIBLE:  # or nothing else in the block is
                block, wanted = left[8 * b : 8 * b + 8], arguments[8 * found : 8 * found + 8]
                for a in range(8):
                    argument = rate * (block[a] - top)
                    wanted[a] = argument if argument >= _NEGLIGIBLE else -np.inf
                candidates[found] = b
                found += 1
        exponentials(np.uint64(8 * found), arguments, weights)
        rest = coins[i] * block_sums(weights, tops[:found])
        place = 0
        while place < found - 1 and rest >= tops[place]:
            rest -= tops[place]
            place += 1
        for a in range(8):
            weight = weights[8 * place + a]
            if weight > 0.0:
                out[i] = 8 * candidates[place] + a
                rest -= weight
                if rest < 0.0:
                    break


@loop()
def ordered_rounds(  # type: ignore[no-untyped-def]
    kind,
    fresh,
    people,
    counted,
    first,
    within_limit,
    every,
    passed,
    rates,
    coins,
    shown,
    bound,
    weighted,
    units,
    most,
    inside,
    known,
    scores,
    gathered,
    rewards,
    selections,
):
    """Whole rounds of experts; between batches of ``every``, ``rates.size`` sums and sets are taken.

    ``people`` are rows as they are served, ``counted`` as they are learned from. On entry ``passed`` rounds
    of the first batch are over, maybe all, and ``shown`` is its set; on return ``known`` and ``shown`` are
    those of the last batch, and ``gathered`` has its people, whom no sum has yet. ``scores`` are ``known``
    with a row for each expert.
    """
    indptr, indices, data, cap = people
    counted_indptr, counted_indices, counted_data, counted_cap = counted
    experts, items = gathered.shape
    vector = np.zeros(known.size)
    start, opened = 0, -passed  # of a batch, counted from the first round here
    for batch in range(rates.size + 1):
        if batch > 0:
            # Where few people are in a batch, only what they have is looked at.
            low, high = counted_indptr[max(0, first + opened)], counted_indptr[first + start]
            few = 4 * (high - low) < items and first + opened >= 0
            if few:
                for i in range(experts):
                    for p in range(low, high):
                        item = counted_indices[p]
                        vector[i * items + item] = gathered[i, item] / units
                    for p in range(low, high):
                        gathered[i, counted_indices[p]] = 0
            else:
                for i in range(experts):
                    for item in range(items):
                        vector[i * items + item] = gathered[i, item] / units
                        gathered[i, item] = 0
            noisy_step(inside, batch - 1, vector, known)
            draw_ordered(scores, rates[batch - 1], coins[batch - 1], shown)
            if few:
                for i in range(experts):
                    for p in range(low, high):
                        vector[i * items + counted_indices[p]] = 0.0
            else:
                for j in range(known.size):
                    vector[j] = 0.0
            opened = start
        stop = min(rewards.size, every - passed + batch * every)
        row_values(kind, fresh, indptr, indices, data, cap, first + start, shown, rewards[start:stop])
        for t in range(start, stop):
            for i in range(experts):
                selections[t, i] = shown[i]
        add_row_gains(
            kind,
            fresh,
            counted_indptr,
            counted_indices,
            counted_data,
            counted_cap,
            first + start,
            within_limit[start:stop],
            shown,
            bound,
            weighted,
            units,
            most,
            gathered,
        )
        start = stop


@part
def follows_first(score, odds, coin):  # type: ignore[no-untyped-def]
    """Hedge over two: whether the first is followed; ``odds`` are those of the second at a score of 0."""
    # Beyond 700 exponentials leave the range of floats, and the chance is 0 or 1 anyway.
    return coin * (1.0 + odds * math.exp(min(700.0, max(-700.0, -score)))) < 1.0


@loop()
def followed_rounds(  # type: ignore[no-untyped-def]
    differences, every, passed, rate, odds, units, coins, inside, known, gathered, out
):
    """Which of two is followed in whole rounds; between batches of ``every``, ``coins.size`` sums are taken.

    ``differences`` is what the first earned beyond the second. On entry ``passed`` rounds of the first batch
    are over, and ``out[0]`` says who is followed in it.
    """
    vector = np.zeros(1)
    follow = out[0]
    start = 0
    for batch in range(coins.size + 1):
        if batch > 0:
            vector[0] = gathered[0] / units
            gathered[0] = 0
            noisy_step(inside, batch - 1, vector, known)
            follow = follows_first(rate * known[0], odds, coins[batch - 1])
        stop = min(out.size, every - passed + batch * every)
        for t in range(start, stop):
            out[t] = follow
            gathered[0] += differences[t]
        start = stop
