"""Compiled Hedge experts: weights in sum trees, draws that are certain or say that they are not.

Layout. ``gains`` holds the k experts of item 0, then those of item 1, and so on, in whole fixed-point units.
``tree`` holds, level after level, blocks of eight numbers, the k experts' blocks of one node side by side:
level 0 the weights ``exp(unit * (gain - ref))`` of eight neighbouring items, every higher level the sums of
eight blocks below. A parent is always recomputed as the sum of its block, never added to, so the tree is a
function of ``gains`` and ``refs`` alone. ``starts`` says where the levels begin.

What changed since the last draw is kept in ``touched`` (items, in the order they came, repeats allowed) and
``book``: how many are listed, how many of the first experts they concern, and whether to forget the list and
recompute everything. `settle` brings the tree up to date. ``taken`` marks the items of the set that is being
drawn, and no item between draws.

Words. A draw owns `WORDS` words. The first is a uniform number for all items; if that item is already in the
set, so is the next, `TRIES` times in all; if every one of them falls on an item of the set, the next word is
a uniform number for the items that are not. Each of these draws, given that its item is not in the set, has
the distribution over those that are not, whatever came before; and so has the first whose item is not. The
last kind takes longer, the more items are in the set, and is left for sets that have most of the weight.
The last word has further bits for the caller, who decides where a draw here is too close to call.

How close is too close. Let u = 2^-53, W the total weight, n the number of items, L the number of levels.

- A weight. The argument x is a difference of integers, rounded once to a float, times a rate that stands for
  the decimal it prints: off by at most 3u|x|. With the exponential itself good to 4 units in the last place
  (it is twice as good, see `exponentials`), a weight w is off by at most (3|x| + 8) u w. Weights below
  e^-708 count as 0, which does not matter beside totals above 10^-200.
- All weights together. Say they are off by (3X + 8) u W, where X W >= sum of |x| w. Everything that is not 0
  has x > -709, so X = 709 will do if W < 1. If W >= 1: x <= ln W where x > 0; where -l <= x <= 0 with
  l = max(1, ln n) the sum is at most l W; and below, where |x| e^x falls, at most n l e^-l <= l <= l W.
  So X = ln W + 2 l.
- A node is a sum of eight numbers added in three steps, so it is off by at most 3u per level below it.
- The target is (word / 2^64) W: 3u W for reading the word as a float, for the bits it lacks and for the
  product, and the error of W, (3X + 8) u W + 3L u W.
- On the way down the sums to the left are subtracted: their own errors, in all at most those of W; four
  additions and one subtraction a level, 5L u W.
- The weight that is arrived at is off by (3X + 8) u W at most.
- What is too close is decided by `samplers.exact_draw`, whose cells end within (8 ln n + 65) u W of the same
  borders.

Together (9X + 8 ln n + 11 L + 92) u W, up to terms of order u^2, and X >= 2 ln n. The margin is
(13 X + 16 L + 128) u W: an item is returned only if the target is farther than that from both of its borders.
"""

from __future__ import annotations

import math

import numpy as np

from ..kinds import COVER
from .compiled import loop, part
from .objectives import _gain, _step
from .vectors import exponentials, sum8

DONE, ASK = 0, 1
TRIES = 4
WORDS = TRIES + 2

# Places in `place`, where a stream stopped: person, expert, the item decided outside, draw.
PERSON, EXPERT, DECIDED, DRAW = range(4)
# Places in `book`.
LISTED, REACH, ALL = range(3)

_U0, _U1, _U2, _U3, _U4, _U5, _U6, _U7, _U8 = (np.uint64(v) for v in range(9))
_HIGHEST = 1e100  # a total above it moves the expert's reference; margins grow with its logarithm
_LOWEST = 1e-200
_LEAST = np.int64(-(1 << 62))
_UNIT = 2.0**-53


@part
def _weigh(gains, refs, tree, items, count, k, first, last, unit, scratch):  # type: ignore[no-untyped-def]
    """The weights of the first ``count`` items listed, for the experts first..last-1."""
    arguments, results = scratch[0], scratch[1]
    wide = last - first
    for c in range(count):
        row = np.uint64(items[c]) * k + first
        for i in range(wide):
            arguments[c * wide + i] = unit * np.float64(gains[row + i] - refs[first + i])
    exponentials(count * wide, arguments, results)
    for c in range(count):
        item = np.uint64(items[c])
        leaf = ((item >> _U3) * k + first) * _U8 + (item & _U7)
        for i in range(wide):
            tree[leaf + i * _U8] = results[c * wide + i]


@part
def _lift(tree, starts, level, node, k, first, last):  # type: ignore[no-untyped-def]
    """The sum of block ``node`` of ``level``, written to its place one level up."""
    below = starts[level] + node * k * _U8
    above = starts[level + _U1] + (node >> _U3) * k * _U8 + (node & _U7)
    for i in range(first, last):
        tree[above + i * _U8] = sum8(tree, below + i * _U8)


@part
def _lift_path(tree, starts, item, k, expert):  # type: ignore[no-untyped-def]
    """The sums above one item of one expert."""
    node = item
    for level in range(_U0, np.uint64(starts.size - 2)):
        node = node >> _U3
        _lift(tree, starts, level, node, k, expert, expert + _U1)


@part
def _lift_all(tree, starts, blocks, k, first, last):  # type: ignore[no-untyped-def]
    """All sums of the experts first..last-1, of whose items there are so many blocks."""
    for level in range(_U0, np.uint64(starts.size - 2)):
        for node in range(_U0, blocks):
            _lift(tree, starts, level, node, k, first, last)
        blocks = (blocks + _U7) >> _U3


@part
def _rebuild(gains, refs, tree, starts, k, first, last, unit, tile, scratch):  # type: ignore[no-untyped-def]
    """Everything about the experts first..last-1."""
    nodes = np.uint64(gains.size) // k
    item = _U0
    while item < nodes:
        count = min(np.uint64(tile.size), nodes - item)
        for c in range(count):
            tile[c] = item + c
        _weigh(gains, refs, tree, tile, count, k, first, last, unit, scratch)
        item += count
    _lift_all(tree, starts, (nodes + _U7) >> _U3, k, first, last)


@part
def _total(tree, starts, expert):  # type: ignore[no-untyped-def]
    return sum8(tree, starts[starts.size - 2] + expert * _U8)


@part
def _largest(gains, k, expert, taken):  # type: ignore[no-untyped-def]
    """An expert's largest gain over the items that are not taken."""
    best = _LEAST
    for item in range(_U0, np.uint64(gains.size) // k):
        gain = gains[item * k + expert]
        if gain > best and not taken[item]:
            best = gain
    return best


@loop()
def settle(  # type: ignore[no-untyped-def]
    gains, refs, tree, starts, touched, book, k, unit, tile, scratch, taken
):
    """Bring the tree up to date with the gains, and move the references of experts that outgrew theirs."""
    if book[LISTED] == 0 and book[ALL] == 0:
        return
    everything = book[ALL] != 0
    count = np.uint64(book[LISTED])
    reach = k if everything else np.uint64(book[REACH])
    if everything:
        _rebuild(gains, refs, tree, starts, k, _U0, k, unit, tile, scratch)
    else:
        done = _U0
        while done < count:
            part = min(np.uint64(tile.size), count - done)
            _weigh(gains, refs, tree, touched[done : done + part], part, k, _U0, reach, unit, scratch)
            done += part
        nodes = np.uint64(gains.size) // k
        for level in range(_U0, np.uint64(starts.size - 2)):
            nodes = (nodes + _U7) >> _U3
            if everything or count + count > nodes:
                everything = True
                for node in range(_U0, nodes):
                    _lift(tree, starts, level, node, k, _U0, reach)
                continue
            kept = _U0
            last = nodes
            for c in range(count):
                block = np.uint64(touched[c]) >> _U3
                if block != last:
                    _lift(tree, starts, level, block, k, _U0, reach)
                    touched[kept] = block
                    kept += _U1
                    last = block
            count = kept
    for i in range(reach):
        if not _total(tree, starts, i) <= _HIGHEST:
            refs[i] = _largest(gains, k, i, taken)
            _rebuild(gains, refs, tree, starts, k, i, i + _U1, unit, tile, scratch)
    book[LISTED] = 0
    book[REACH] = 0
    book[ALL] = 0


@part
def _margin(total, levels, log_items):  # type: ignore[no-untyped-def]
    """How close to a border is too close; see above."""
    # The logarithm, rounded up to the next power of two: total < 2^e.
    spread = 0.6931471805599454 * math.frexp(total)[1] + 2.0 * log_items if total >= 1.0 else 709.0
    return (13.0 * spread + 16.0 * np.float64(levels) + 128.0) * _UNIT * total


@part
def _child(tree, at, rest):  # type: ignore[no-untyped-def]
    """The child of a block in which ``rest`` falls, and what stands to the left of it."""
    # What stands to the left of the second, third, ... child: rising, and at most four additions deep.
    pair, next_pair = tree[at + _U2] + tree[at + _U3], tree[at + _U4] + tree[at + _U5]
    two = tree[at] + tree[at + _U1]
    four = two + pair
    six = four + next_pair
    one, three, five, seven = tree[at], two + tree[at + _U2], four + tree[at + _U4], six + tree[at + _U6]
    lane = (
        (np.uint64(rest >= one) + np.uint64(rest >= two))
        + (np.uint64(rest >= three) + np.uint64(rest >= four))
        + (np.uint64(rest >= five) + np.uint64(rest >= six) + np.uint64(rest >= seven))
    )
    low = three if rest >= three else two if rest >= two else one if rest >= one else 0.0
    high = seven if rest >= seven else six if rest >= six else five if rest >= five else four
    return lane, high if rest >= four else low


@part
def _descend(tree, starts, k, expert, word, log_items):  # type: ignore[no-untyped-def]
    """The item in which the word falls, or -1 if the error margin reaches over one of its borders."""
    level = np.uint64(starts.size - 1)
    total = _total(tree, starts, expert)
    margin = _margin(total, level, log_items)
    rest = np.float64(word) * 2.0**-64 * total
    node = _U0
    weight = 0.0
    while level > _U0:
        level -= _U1
        at = starts[level] + (node * k + expert) * _U8
        lane, left = _child(tree, at, rest)
        weight = tree[at + lane]
        # Also keeps the walk away from places beyond the last item: they weigh nothing.
        if not weight > margin:
            return np.int64(-1)
        rest -= left
        node = node * _U8 + lane
    if rest > margin and weight - rest > margin:
        return np.int64(node)
    return np.int64(-1)


@part
def _descend_all(tree, starts, k, first, words, at, log_items, scratch, found):  # type: ignore[no-untyped-def]
    """`_descend` for the experts from ``first`` on, whose draws begin at ``at``, into ``found``.

    Side by side, level by level: a processor waits for the memory of many trees at once.
    """
    rests, margins = scratch[0], scratch[1]
    level = np.uint64(starts.size - 1)
    for e in range(first, k):
        total = _total(tree, starts, e)
        margins[e] = _margin(total, level, log_items)
        rests[e] = np.float64(words[at + (e - first) * np.uint64(WORDS)]) * 2.0**-64 * total
        found[e] = 0
    while level > _U0:
        level -= _U1
        for e in range(first, k):
            if found[e] < 0:
                continue
            node = np.uint64(found[e])
            block = starts[level] + (node * k + e) * _U8
            lane, left = _child(tree, block, rests[e])
            rests[e] -= left
            weight, margin = tree[block + lane], margins[e]
            sure = weight > margin
            if level == _U0:
                sure &= rests[e] > margin and weight - rests[e] > margin
            found[e] = np.int32(node * _U8 + lane) if sure else np.int32(-1)


@part
def _exchange(tree, starts, k, expert, shown, weights):  # type: ignore[no-untyped-def]
    """Give the items that are already shown these weights in the expert's tree, and keep those they had."""
    for e in range(expert):
        item = np.uint64(shown[e])
        leaf = ((item >> _U3) * k + expert) * _U8 + (item & _U7)
        tree[leaf], weights[e] = weights[e], tree[leaf]
    blocks = (starts[_U1] - starts[_U0]) // (_U8 * k)
    if expert * np.uint64(starts.size) > blocks:
        _lift_all(tree, starts, blocks, k, expert, expert + _U1)
        return
    for e in range(expert):
        _lift_path(tree, starts, np.uint64(shown[e]), k, expert)


@part
def _among_others(  # type: ignore[no-untyped-def]
    gains, refs, tree, starts, k, unit, tile, scratch, taken, expert, shown, word, log_items
):
    """A draw from the items that are not shown yet; the tree is afterwards what it was."""
    weights = scratch[0]
    weights[:expert] = 0.0
    _exchange(tree, starts, k, expert, shown, weights)
    if _total(tree, starts, expert) >= _LOWEST:
        item = _descend(tree, starts, k, expert, word, log_items)
        _exchange(tree, starts, k, expert, shown, weights)
        return item
    # What is left is too light beside what was taken out: weigh it against its own best.
    ref = refs[expert]
    refs[expert] = _largest(gains, k, expert, taken)
    _rebuild(gains, refs, tree, starts, k, expert, expert + _U1, unit, tile, scratch)
    weights[:expert] = 0.0
    _exchange(tree, starts, k, expert, shown, weights)
    item = _descend(tree, starts, k, expert, word, log_items)
    refs[expert] = ref
    _rebuild(gains, refs, tree, starts, k, expert, expert + _U1, unit, tile, scratch)
    return item


@part
def _draw(  # type: ignore[no-untyped-def]
    gains, refs, tree, starts, k, unit, tile, scratch, taken, words, shown, place
):
    """Draw the rest of a set into ``shown``; stops with ASK at a draw that somebody else must decide."""
    log_items = max(1.0, math.log(np.float64(gains.size // k)))
    expert = np.uint64(place[EXPERT])
    status = DONE
    for e in range(expert):
        taken[shown[e]] = True
    at = np.uint64(place[DRAW] * WORDS)
    _descend_all(tree, starts, k, expert, words, at, log_items, scratch, shown)
    while expert < k:
        item = place[DECIDED]
        place[DECIDED] = -1
        if item < 0:
            item = np.int64(shown[expert])
            at = np.uint64(place[DRAW] * WORDS)
            last = at + np.uint64(TRIES)
            while item >= 0 and taken[item] and at < last:
                at += _U1
                if at < last:
                    item = _descend(tree, starts, k, expert, words[at], log_items)
                else:
                    item = _among_others(
                        gains, refs, tree, starts, k, unit, tile, scratch, taken, expert, shown, words[at],
                        log_items,
                    )  # fmt: skip
        if item < 0:
            status = ASK
            break
        shown[expert] = item
        taken[item] = True
        place[DRAW] += 1
        expert += _U1
    for e in range(expert):
        taken[shown[e]] = False
    place[EXPERT] = np.int64(expert) if status == ASK else 0
    return status


@loop()
def draw_set(  # type: ignore[no-untyped-def]
    gains, refs, tree, starts, touched, book, k, unit, tile, scratch, taken, words, shown, place
):
    """A new set; the words of its k draws stand in ``words``."""
    settle(gains, refs, tree, starts, touched, book, k, unit, tile, scratch, taken)
    return _draw(gains, refs, tree, starts, k, unit, tile, scratch, taken, words, shown, place)


@part
def _find(indices, start, stop, item):  # type: ignore[no-untyped-def]
    """Where ``item`` stands in a sorted row; ``stop`` if it does not."""
    # Without branches on what is read: those are guessed wrongly half of the time. As long as more than one
    # place is left, the item stands among them or nowhere.
    low, left = start, stop - start
    while left > _U1:
        half = left >> _U1
        low += half * np.uint64(np.uint64(indices[low + half - _U1]) < item)
        left -= half
    return low if start < stop and np.uint64(indices[low]) == item else stop


@part
def _units(gain, scale, most):  # type: ignore[no-untyped-def]
    """A gain in whole units, rounded down, between 0 and ``most``."""
    amount = gain * scale
    if not amount > 0.0:
        return np.int64(0)
    return most if amount >= np.float64(most) else np.int64(amount)


@loop()
def take_person(  # type: ignore[no-untyped-def]
    gains, touched, book, k, indices, data, start, stop, cap, kind, fresh, shown, keep, scale, most, states
):
    """What the shown set is worth to the person of one row; with ``keep``, the experts learn from it."""
    state = fresh
    reward = 0.0
    reach = k
    for i in range(k):
        states[i] = state
        if kind == COVER and state == 1.0 and reach == k:
            reach = i
        p = _find(indices, start, stop, np.uint64(shown[i]))
        if p < stop:
            reward += _gain(kind, state, data[p], cap)
            state = _step(kind, state, data[p])
    if not keep:
        return reward
    if kind == COVER:
        # All or nothing: whoever is not served yet gains the same from each of their items.
        same = _units(1.0, scale, most)
        for p in range(start, stop):
            row = np.uint64(indices[p]) * k
            for i in range(reach):
                gains[row + i] += same
    else:
        for p in range(start, stop):
            row = np.uint64(indices[p]) * k
            for i in range(k):
                gains[row + i] += _units(_gain(kind, states[i], data[p], cap), scale, most)
        # An item adds nothing for the experts after the one who chose it.
        for e in range(k):
            p = _find(indices, start, stop, np.uint64(shown[e]))
            if p < stop:
                row = np.uint64(indices[p]) * k
                for i in range(e + _U1, k):
                    gains[row + i] -= _units(_gain(kind, states[i], data[p], cap), scale, most)
    listed = np.uint64(book[LISTED])
    if book[ALL] != 0 or listed + (stop - start) > np.uint64(touched.size):
        book[ALL] = 1
        return reward
    for p in range(start, stop):
        touched[listed + (p - start)] = indices[p]
    book[LISTED] = np.int64(listed + (stop - start))
    book[REACH] = max(book[REACH], np.int64(reach))
    return reward


@loop()
def stream(  # type: ignore[no-untyped-def]
    gains, refs, tree, starts, touched, book, k, unit, tile, scratch, taken, scale, most, states,
    indptr, indices, data, cap, kind, fresh, first, within_limit, due, words, shown, place, rewards,
    selections,
):  # fmt: skip
    """Person after person from ``place`` on: a new set where one is due, the reward, what is learned."""
    for t in range(np.uint64(place[PERSON]), np.uint64(rewards.size)):
        if due[t]:
            settle(gains, refs, tree, starts, touched, book, k, unit, tile, scratch, taken)
            if _draw(gains, refs, tree, starts, k, unit, tile, scratch, taken, words, shown, place) == ASK:
                place[PERSON] = np.int64(t)
                return ASK
        person = first + t
        start, stop = indptr[person], indptr[person + _U1]
        rewards[t] = take_person(
            gains, touched, book, k, indices, data, start, stop, cap[person], kind, fresh, shown,
            within_limit[t], scale, most, states,
        )  # fmt: skip
        for i in range(k):
            selections[t, i] = shown[i]
    return DONE
