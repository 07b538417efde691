# cython: auto_pickle=False
"""Ordered Hedge experts: weights in sum trees, draws that are certain or say that they are not.

Layout. ``scores`` holds the k experts of item 0, then those of item 1, and so on, in integer fixed-point
units. ``tree`` holds, level after level, blocks of eight numbers, the k experts' blocks of one node side by
side: level 0 the weights ``exp(unit * (score - ref))`` of eight neighbouring items, every higher level the
sums of eight blocks below. A parent is always recomputed as the sum of its block, never added to, so the tree
is a function of ``scores`` and ``refs`` alone. ``starts`` says where the levels begin.

Changes since the last draw are kept in ``touched``: ``listed`` items, in order of arrival, repeats allowed;
``reach`` is how many of the first experts they concern. ``everything`` means to ignore the list and recompute
all. `settle` brings the tree up to date. ``taken`` marks the items of the set that is being drawn, and no
item between draws.

Words. A draw owns `WORDS` words. The first is a uniform number over all items; if its item is already in the
set, the next one is too, `TRIES` times in all; if each of them falls on an item of the set, the next word is
a uniform number over the items that are not in the set. Each of these draws, given that its item is not in
the set, has the distribution over the remaining items, independently of earlier draws; and so has the first
whose item is not in it. The last kind takes longer, the more items are in the set, and is only needed for
sets that have most of the weight. The last word has further bits for the caller, who decides draws that are
too close to call here.

How close is too close. Let u = 2^-53, W the total weight, n the number of items, L the number of levels.

- A weight. The argument x is a difference of integers, rounded once to a float, times a rate that stands for
  the decimal it prints: off by at most 3u|x|. With the exponential itself good to 4 units in the last place
  (it is twice as good, see `softmax.exponentials`), a weight w is off by at most (3|x| + 8) u w. Weights
  below e^-708 count as 0, which does not matter beside totals above 10^-200.
- All weights together. Say they are off by (3X + 8) u W, where X W >= sum of |x| w. Everything that is not 0
  has x > -709, so X = 709 will do if W < 1. If W >= 1: x <= ln W where x > 0; where -l <= x <= 0 with
  l = max(1, ln n) the sum is at most l W; and below, where |x| e^x falls, at most n l e^-l <= l <= l W.
  So X = ln W + 2 l.
- A node is a sum of eight numbers added in three steps, so it is off by at most 3u per level below it.
- The target is (word / 2^64) W: 3u W for reading the word as a float, for the bits it lacks and for the
  product, and the error of W, (3X + 8) u W + 3L u W.
- On the way down the sums to the left are subtracted: their own errors, in all at most those of W; four
  additions and one subtraction a level, 5L u W.
- The weight at the end is off by (3X + 8) u W at most.
- Draws that are too close are decided by `samplers.exact_draw`, whose cells end within (8 ln n + 65) u W of
  the same borders.

Together (9X + 8 ln n + 11 L + 92) u W, up to terms of order u^2, and X >= 2 ln n. The margin is
(13 X + 16 L + 128) u W: an item is returned only if the target is farther than that from both of its borders.
"""

import numpy as np

from libc.math cimport exp, log, rint
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from .rows cimport COVER, Matrix, RowTable, at, check_items, check_people, gain, place_of, step, value_of
from .rows cimport whole_units
from .softmax cimport exponentials_of, sum_of_block

cpdef enum:
    TRIES = 4
    WORDS = 6  # of a draw: its tries, one for the remaining items, and further bits

cdef enum:
    TILE = 64  # items weighed together

cdef extern from *:
    """
    /* A total above it moves the expert's reference; margins grow with its logarithm. */
    #define HIGHEST 1e100
    #define LOWEST 1e-200
    /* Below this score an item is closed: its weight is 0 at any rate. */
    #define CLOSED (-((int64_t)1 << 59))
    """
    const double HIGHEST, LOWEST
    const int64_t CLOSED


cdef class OrderedExperts:
    """Experts' scores in integer units (items x experts), and the sum trees of their weights.

    Item a has the weight ``exp(unit * score)``. ``per_one`` units are 1; ``most`` is the largest amount that
    one person adds to a score. Trees are built before the first draw, and after `reset`.
    """

    def __init__(self, scores, double unit, double per_one, int64_t most):
        self.per_one, self.most = per_one, most
        self.reset(scores, unit)

    def reset(self, int64_t[:, ::1] scores not None, double unit):
        """Set other scores, or another rate; all weights are recomputed."""
        if not 1 <= scores.shape[1] <= scores.shape[0] < 1 << 31:
            raise ValueError(f"{scores.shape[0]} items are not enough for {scores.shape[1]} experts")
        self.array, self.gains = scores.base, scores
        self.n_items, self.k, self.unit = scores.shape[0], scores.shape[1], unit
        self.built = False

    @property
    def scores(self):
        """The scores, items x experts; call `reset` after writing to them."""
        return self.array

    @scores.setter
    def scores(self, scores):
        self.reset(scores, self.unit)

    cdef int build(self) except -1:
        """Allocate the trees; they are filled by the next `settle`."""
        if self.built:
            return 0
        cdef Py_ssize_t blocks = (self.n_items + 7) // 8, size = 0
        self.levels = 0
        while True:
            self.starts[self.levels] = size
            size += blocks * 8 * self.k
            self.levels += 1
            if blocks == 1:
                break
            blocks = (blocks + 7) // 8
        self.log_items = max(1.0, log(<double>self.n_items))
        self.tree = np.zeros(size)
        self.refs = self.array.max(axis=0)
        self.scratch, self.tile = np.zeros((2, TILE * self.k)), np.zeros(TILE, dtype=np.uint32)
        self.taken, self.states = np.zeros(self.n_items, dtype=np.uint8), np.zeros(self.k)
        self.touched = np.zeros(self.n_items, dtype=np.uint32)
        self.listed, self.reach, self.everything = 0, 0, True
        self.built = True
        self.begin()
        return 0

    # --- drawing ---------------------------------------------------------------------------------

    def begin(self):
        """Begin a new set, or a new stream of sets, with nothing drawn or decided."""
        self.person, self.expert, self.draws, self.decided = 0, 0, 0, -1

    @property
    def words_per_set(self):
        """How many secret words the draws of one set take."""
        return self.k * WORDS

    @property
    def undecided(self):
        """The expert whose draw is too close to call, and the number of that draw since `begin`."""
        return self.expert, self.draws

    def decide(self, Py_ssize_t item):
        """Set the item of the undecided draw."""
        if not 0 <= item < self.n_items:
            raise ValueError(f"there is no item {item}")
        self.decided = item

    cdef int ready(self, const uint64_t[::1] words, Py_ssize_t sets) except -1:
        if words.shape[0] < sets * self.k * WORDS:
            raise ValueError(f"{sets} sets take {sets * self.k * WORDS} words; there are {words.shape[0]}")
        return self.build()

    cdef int check_shown(self, const int32_t[::1] shown, Py_ssize_t count) except -1:
        """Refuse a set of which the first ``count`` items are not items."""
        if shown.shape[0] != self.k:
            raise ValueError(f"a set of {shown.shape[0]} items is not one of {self.k} experts")
        return check_items(&shown[0], count, self.n_items)

    def draw(self, const uint64_t[::1] words not None, int32_t[::1] shown not None):
        """Draw a set into ``shown``; returns whether a draw must be decided (`decide`) to go on."""
        self.ready(words, 1)
        self.check_shown(shown, self.expert)
        cdef bint asks
        with nogil:
            asks = self.draw_set(&words[0], &shown[0])
        return asks

    def find(self, Py_ssize_t expert, uint64_t word):
        """The item that a word draws for this expert, or -1 if it is too close to call."""
        if not 0 <= expert < self.k:
            raise ValueError(f"there is no expert {expert}")
        self.build()
        self.settle()
        return _descend(self, expert, word)

    def trees(self, refs=None):
        """References and weights computed from the scores, or from given references."""
        self.build()
        if refs is not None:
            np.asarray(self.refs)[:] = refs
        self.everything = True
        self.settle()
        return np.array(self.refs), np.array(self.tree)

    cdef bint draw_set(self, const uint64_t *words, int32_t *shown) noexcept nogil:
        cdef Py_ssize_t expert = self.expert, e, word, last
        cdef bint asks = False
        cdef int64_t item
        self.settle()
        for e in range(expert):
            self.taken[shown[e]] = True
        while expert < self.k:
            item = self.decided
            self.decided = -1
            if item < 0:
                word = self.draws * WORDS
                last = word + TRIES
                item = _descend(self, expert, words[word])
                while item >= 0 and self.taken[item] and word < last:
                    word += 1
                    if word < last:
                        item = _descend(self, expert, words[word])
                    else:
                        item = _among_others(self, expert, shown, words[word])
            if item < 0:
                asks = True
                break
            shown[expert] = <int32_t>item
            self.taken[item] = True
            self.draws += 1
            expert += 1
        for e in range(expert):
            self.taken[shown[e]] = False
        self.expert = expert if asks else 0
        return asks

    cdef void settle(self) noexcept nogil:
        """Bring the trees up to date with the scores; move the references of experts that outgrew theirs."""
        cdef Py_ssize_t count = self.listed, reach = self.k if self.everything else self.reach
        cdef Py_ssize_t nodes = self.n_items, done = 0, part, level, kept, last, block, c, i, node
        cdef bint all_nodes = False
        if not count and not self.everything:
            return
        if self.everything:
            _rebuild(self, 0, self.k)
        else:
            while done < count:
                part = min(<Py_ssize_t>TILE, count - done)
                _weigh(self, &self.touched[done], part, 0, reach)
                done += part
            for level in range(self.levels - 1):
                nodes = (nodes + 7) >> 3
                if all_nodes or count + count > nodes:
                    all_nodes = True
                    for node in range(nodes):
                        _lift(self, level, node, 0, reach)
                    continue
                kept = 0
                last = nodes
                for c in range(count):
                    block = self.touched[c] >> 3
                    if block != last:
                        _lift(self, level, block, 0, reach)
                        self.touched[kept] = <uint32_t>block
                        kept += 1
                        last = block
                count = kept
        for i in range(reach):
            if not _total(self, i) <= HIGHEST:
                self.refs[i] = _largest(self, i)
                _rebuild(self, i, i + 1)
        self.listed = 0
        self.reach = 0
        self.everything = False

    # --- learning --------------------------------------------------------------------------------

    def add(self, const int64_t[:, ::1] gains not None):
        """Add to every score; all weights are recomputed."""
        cdef Py_ssize_t item, i
        if gains.shape[0] != self.n_items or gains.shape[1] != self.k:
            raise ValueError(f"gains are of {gains.shape[0]} items and {gains.shape[1]} experts")
        with nogil:
            for item in range(self.n_items):
                for i in range(self.k):
                    self.gains[item, i] += gains[item, i]
        self.everything = True

    def add_one(self, Py_ssize_t item, Py_ssize_t expert, int64_t amount):
        """Add to one score; existing trees are updated at once."""
        if not (0 <= item < self.n_items and 0 <= expert < self.k):
            raise ValueError(f"there is no item {item}, or no expert {expert}")
        if self.built:
            self.add_to(expert, item, amount)
        else:
            self.gains[item, expert] += amount

    cdef void add_to(self, Py_ssize_t expert, Py_ssize_t item, int64_t amount) noexcept nogil:
        cdef double exponent, weight, total
        self.gains[item, expert] += amount
        # One weight; the error margin of a draw allows for any exponential accurate to 4 units.
        exponent = min(self.unit * <double>(self.gains[item, expert] - self.refs[expert]), 700.0)
        weight = exp(exponent) if exponent >= -708.0 and self.gains[item, expert] >= CLOSED else 0.0
        self.tree[((item >> 3) * self.k + expert) * 8 + (item & 7)] = weight
        _lift_path(self, item, expert)
        total = _total(self, expert)
        if not LOWEST <= total <= HIGHEST:
            self.refs[expert] = _largest(self, expert)
            _rebuild(self, expert, expert + 1)

    def observe(self, RowTable people not None, Py_ssize_t row, const int32_t[::1] shown not None):
        """Learn from the person of one row, to whom this set was shown; returns its value to them."""
        self.check_table(people, row, 1)
        self.check_shown(shown, self.k)
        self.build()
        return self.take(people, row, &shown[0], True)

    cdef int check_table(self, RowTable people, Py_ssize_t first, Py_ssize_t count) except -1:
        if people.n_items != self.n_items:
            raise ValueError(f"people are compressed rows of {self.n_items} items")
        return check_people(people, first, count)

    cdef void changed(self, const int32_t *items, Py_ssize_t count, Py_ssize_t reach) noexcept nogil:
        cdef Py_ssize_t p
        if self.everything or self.listed + count > self.n_items:
            self.everything = True
            return
        for p in range(count):
            self.touched[self.listed + p] = <uint32_t>items[p]
        self.listed += count
        self.reach = max(self.reach, reach)

    cdef double take(self, RowTable people, Py_ssize_t row, const int32_t *shown, bint keep) noexcept nogil:
        if people.kind == COVER:
            return _take(self, people, COVER, row, shown, keep)
        return _take(self, people, people.kind, row, shown, keep)

    cdef int check_rounds(
        self, RowTable people, Py_ssize_t first, stream, const uint8_t[::1] due, const uint64_t[::1] words,
        const int32_t[::1] shown,
    ) except -1:
        """Refuse arguments of rounds that are inconsistent."""
        cdef const uint8_t[::1] within_limit = stream.within_limit
        cdef const double[::1] rewards = stream.rewards
        cdef const int32_t[:, ::1] selections = stream.selections
        cdef Py_ssize_t count = rewards.shape[0], sets = 0, t
        if not within_limit.shape[0] == due.shape[0] == selections.shape[0] == count:
            raise ValueError("each round has a person, a reward and a set")
        if selections.shape[1] != self.k:
            raise ValueError(f"sets have {selections.shape[1]} items; there are {self.k} experts")
        for t in range(count):
            sets += due[t]
        self.check_table(people, first, count)
        self.ready(words, sets)
        # When resuming with a draw, later items are drawn before they are used.
        return self.check_shown(shown, self.expert if self.draws or self.decided >= 0 else self.k)

    def run(
        self, stream, RowTable people not None, Py_ssize_t first, const uint8_t[::1] due not None,
        const uint64_t[::1] words not None, int32_t[::1] shown not None,
    ):
        """For each person in turn: a new set if one is ``due``, the reward, and learning.

        The people of ``stream`` are the rows from ``first`` on. Returns, like `draw`, whether a draw must be
        decided to go on.
        """
        cdef const uint8_t[::1] within_limit = stream.within_limit
        cdef double[::1] rewards = stream.rewards
        cdef int32_t[:, ::1] selections = stream.selections
        cdef Py_ssize_t count = rewards.shape[0], t, i
        cdef bint asks = False
        self.check_rounds(people, first, stream, due, words, shown)
        with nogil:
            for t in range(self.person, count):
                if due[t] and self.draw_set(&words[0], &shown[0]):
                    self.person = t
                    asks = True
                    break
                rewards[t] = self.take(people, first + t, &shown[0], within_limit[t])
                for i in range(self.k):
                    selections[t, i] = shown[i]
        return asks

    def explore(
        self, stream, RowTable people not None, Py_ssize_t first, Exploration plan not None,
        const uint8_t[::1] due not None, const uint64_t[::1] words not None, int32_t[::1] current not None,
    ):
        """Rounds in which only values of sets are seen: exploring experts learn from samples, by ``plan``.

        As `run`; ``current`` is the experts' set, of which exploring rounds show the first items and the one
        that is tried. Places of ``selections`` that are not shown are -1.
        """
        cdef const uint8_t[::1] within_limit = stream.within_limit
        cdef double[::1] rewards = stream.rewards
        cdef int32_t[:, ::1] selections = stream.selections
        cdef Py_ssize_t count = rewards.shape[0], t, sample, shown
        cdef bint asks = False
        plan.check(self, count)
        self.check_rounds(people, first, stream, due, words, current)
        with nogil:
            for t in range(self.person, count):
                if due[t] and self.draw_set(&words[0], &current[0]):
                    self.person = t
                    asks = True
                    break
                shown = _lay_out(&current[0], self.k, plan.explore[t], plan.item[t], &selections[t, 0])
                rewards[t] = value_of(people, first + t, &selections[t, 0], shown)
                if plan.explore[t] < 0:
                    continue
                sample = plan.sample[t]
                if within_limit[t]:
                    plan.sums[sample] += whole_units(rewards[t], plan.per_one, plan.most)
                plan.left[sample] -= 1
                if plan.left[sample] == 0:
                    self.add_to(plan.explore[t], plan.item[t], plan.heard(sample))
                    plan.sums[sample] = 0
                    plan.left[sample] = plan.repeats
        return asks


cdef class Exploration:
    """Rounds in which one expert tries one item, and how the experts learn from them.

    ``explore`` holds the expert that explores in each round, or -1; ``item`` the item that it tries,
    ``sample`` the sum to which the value is added. A sample is complete after ``repeats`` rounds: the expert
    learns their sum, with its ``noise``, times ``ratio`` and minus ``centre``. ``sums`` and ``left`` are the
    sums so far and the rounds to come, in ``per_one`` units to 1, of which one round adds at most ``most``.
    """

    cdef const int32_t[::1] explore
    cdef const int32_t[::1] item
    cdef const int64_t[::1] sample
    cdef const int64_t[::1] noise
    cdef int64_t[::1] sums
    cdef int64_t[::1] left
    cdef double per_one
    cdef int64_t most
    cdef double ratio
    cdef int64_t centre
    cdef int64_t repeats

    def __init__(self, rounds, noise, sums, left, learned):
        """``rounds`` are (explore, item, sample), ``learned`` is (per_one, most, ratio, centre, repeats)."""
        self.explore, self.item, self.sample = rounds
        self.noise, self.sums, self.left = noise, sums, left
        self.per_one, self.most, self.ratio, self.centre, self.repeats = learned

    cdef int check(self, OrderedExperts experts, Py_ssize_t count) except -1:
        cdef Py_ssize_t t, samples = self.sums.shape[0]
        if not self.explore.shape[0] == self.item.shape[0] == self.sample.shape[0] == count:
            raise ValueError("each round has an expert, an item and a sample")
        if self.noise.shape[0] < samples or self.left.shape[0] != samples:
            raise ValueError("each sample has a sum, its noise, and rounds to come")
        for t in range(count):
            if self.explore[t] < 0:
                continue
            if not self.explore[t] < experts.k or not 0 <= self.item[t] < experts.n_items:
                raise ValueError(f"there is no expert {self.explore[t]}, or no item {self.item[t]}")
            if not 0 <= self.sample[t] < samples:
                raise ValueError(f"there is no sample {self.sample[t]}")
        return 0

    cdef int64_t heard(self, Py_ssize_t sample) noexcept nogil:
        return <int64_t>rint(<double>(self.sums[sample] + self.noise[sample]) * self.ratio) - self.centre


# --- the trees ---------------------------------------------------------------------------------------------


cdef void _weigh(
    OrderedExperts experts, const uint32_t *items, Py_ssize_t count, Py_ssize_t first, Py_ssize_t last
) noexcept nogil:
    """The weights of the first ``count`` items listed, for the experts first..last-1."""
    cdef double *arguments = &experts.scratch[0, 0]
    cdef double *results = &experts.scratch[1, 0]
    cdef const int64_t *row
    cdef const int64_t *refs = &experts.refs[first]
    cdef double *leaf
    cdef Py_ssize_t wide = last - first, c, i
    cdef double unit = experts.unit
    for c in range(count):
        row = &experts.gains[items[c], first]
        for i in range(wide):
            arguments[c * wide + i] = unit * <double>(row[i] - refs[i])
    exponentials_of(arguments, count * wide, results)
    for c in range(count):
        leaf = &experts.tree[((items[c] >> 3) * experts.k + first) * 8 + (items[c] & 7)]
        row = &experts.gains[items[c], first]
        for i in range(wide):
            leaf[8 * i] = results[c * wide + i] if row[i] >= CLOSED else 0.0


cdef void _lift(
    OrderedExperts experts, Py_ssize_t level, Py_ssize_t node, Py_ssize_t first, Py_ssize_t last
) noexcept nogil:
    """Write the sum of block ``node`` of ``level`` to its place one level up."""
    cdef const double *below = &experts.tree[experts.starts[level] + node * experts.k * 8]
    cdef double *above = &experts.tree[experts.starts[level + 1] + (node >> 3) * experts.k * 8 + (node & 7)]
    cdef Py_ssize_t i
    for i in range(first, last):
        above[8 * i] = sum_of_block(below + 8 * i)


cdef void _lift_path(OrderedExperts experts, Py_ssize_t item, Py_ssize_t expert) noexcept nogil:
    """Recompute the sums above one item of one expert."""
    cdef Py_ssize_t level
    for level in range(experts.levels - 1):
        item = item >> 3
        _lift(experts, level, item, expert, expert + 1)


cdef void _lift_all(OrderedExperts experts, Py_ssize_t first, Py_ssize_t last) noexcept nogil:
    """Recompute all sums of the experts first..last-1."""
    cdef Py_ssize_t level, node, nodes = experts.n_items
    for level in range(experts.levels - 1):
        nodes = (nodes + 7) >> 3
        for node in range(nodes):
            _lift(experts, level, node, first, last)


cdef void _rebuild(OrderedExperts experts, Py_ssize_t first, Py_ssize_t last) noexcept nogil:
    """Recompute all weights and sums of the experts first..last-1."""
    cdef Py_ssize_t item = 0, count, c
    while item < experts.n_items:
        count = min(<Py_ssize_t>TILE, experts.n_items - item)
        for c in range(count):
            experts.tile[c] = <uint32_t>(item + c)
        _weigh(experts, &experts.tile[0], count, first, last)
        item += count
    _lift_all(experts, first, last)


cdef double _total(OrderedExperts experts, Py_ssize_t expert) noexcept nogil:
    return sum_of_block(&experts.tree[experts.starts[experts.levels - 1] + expert * 8])


cdef int64_t _largest(OrderedExperts experts, Py_ssize_t expert) noexcept nogil:
    """An expert's largest score over the items that are not taken."""
    cdef int64_t best = -(<int64_t>1 << 62)
    cdef Py_ssize_t item
    for item in range(experts.n_items):
        if experts.gains[item, expert] > best and not experts.taken[item]:
            best = experts.gains[item, expert]
    return best


cdef double _margin(OrderedExperts experts, double total) noexcept nogil:
    """The distance to a border that is too close; see above."""
    cdef double spread = 709.0
    cdef uint64_t bits
    if total >= 1.0:
        # The logarithm, rounded up to the next power of two: the exponent of a float.
        memcpy(&bits, &total, sizeof(double))
        spread = 0.6931471805599454 * <double>(<int64_t>(bits >> 52) - 1022) + 2.0 * experts.log_items
    return (13.0 * spread + 16.0 * <double>experts.levels + 128.0) * 2.0**-53 * total


cdef int64_t _descend(OrderedExperts experts, Py_ssize_t expert, uint64_t word) noexcept nogil:
    """The item in which the word falls, or -1 if the error margin reaches over one of its borders."""
    cdef double total = _total(experts, expert)
    cdef double margin = _margin(experts, total), rest = <double>word * 2.0**-64 * total, weight = 0.0, left
    cdef Py_ssize_t level = experts.levels, node = 0, lane
    cdef const double *block
    while level > 0:
        level -= 1
        block = &experts.tree[experts.starts[level] + (node * experts.k + expert) * 8]
        lane = _child(block, rest, &left)
        weight = block[lane]
        # Also keeps the descent from places beyond the last item, whose weight is 0.
        if not weight > margin:
            return -1
        rest -= left
        node = node * 8 + lane
    if rest > margin and weight - rest > margin:
        return node
    return -1


cdef void _exchange(
    OrderedExperts experts, Py_ssize_t expert, const int32_t *shown, double *weights
) noexcept nogil:
    """Set these weights for the items already shown in the expert's tree, and save the earlier ones."""
    cdef Py_ssize_t blocks = (experts.n_items + 7) >> 3, item, leaf, e
    cdef double weight
    for e in range(expert):
        item = shown[e]
        leaf = ((item >> 3) * experts.k + expert) * 8 + (item & 7)
        weight = experts.tree[leaf]
        experts.tree[leaf] = weights[e]
        weights[e] = weight
    if expert * (experts.levels + 1) > blocks:
        _lift_all(experts, expert, expert + 1)
        return
    for e in range(expert):
        _lift_path(experts, shown[e], expert)


cdef int64_t _among_others(
    OrderedExperts experts, Py_ssize_t expert, const int32_t *shown, uint64_t word
) noexcept nogil:
    """A draw from the items that are not shown yet; restores the tree afterwards."""
    cdef double *weights = &experts.scratch[0, 0]
    cdef int64_t item, ref
    memset(weights, 0, expert * sizeof(double))
    _exchange(experts, expert, shown, weights)
    if _total(experts, expert) >= LOWEST:
        item = _descend(experts, expert, word)
        _exchange(experts, expert, shown, weights)
        return item
    # The rest is too light compared with what was removed: weigh it relative to its own maximum.
    ref = experts.refs[expert]
    experts.refs[expert] = _largest(experts, expert)
    _rebuild(experts, expert, expert + 1)
    memset(weights, 0, expert * sizeof(double))
    _exchange(experts, expert, shown, weights)
    item = _descend(experts, expert, word)
    experts.refs[expert] = ref
    _rebuild(experts, expert, expert + 1)
    return item


cdef inline Py_ssize_t _child(const double *block, double rest, double *left) noexcept nogil:
    """The child of a block in which ``rest`` falls, and the sum to its left."""
    # Sums to the left of each child: rising, and at most four additions deep. Without branches, half of which
    # would be mispredicted.
    cdef double before[8]
    cdef Py_ssize_t lane = 0, a
    before[0] = 0.0
    before[1] = block[0]
    before[2] = block[0] + block[1]
    before[3] = before[2] + block[2]
    before[4] = before[2] + (block[2] + block[3])
    before[5] = before[4] + block[4]
    before[6] = before[4] + (block[4] + block[5])
    before[7] = before[6] + block[6]
    for a in range(1, 8):
        lane += rest >= before[a]
    left[0] = before[lane]
    return lane


cdef Py_ssize_t _lay_out(
    const int32_t *current, Py_ssize_t k, int64_t expert, int64_t item, int32_t *out
) noexcept nogil:
    """Write the set of a round: the current one, or its first items and the tried one; returns its size."""
    cdef Py_ssize_t count = k if expert < 0 else expert, i
    cdef bint there = expert < 0
    for i in range(count):
        out[i] = current[i]
        there |= current[i] == item
    if not there:
        out[count] = <int32_t>item
        count += 1
    for i in range(count, k):
        out[i] = -1
    return count


cdef inline double _take(
    OrderedExperts experts, RowTable people, int kind, Py_ssize_t row, const int32_t *shown, bint keep
) noexcept nogil:
    cdef const Matrix *rows = &people.rows
    cdef Py_ssize_t start = rows.indptr[row], stop = rows.indptr[row + 1], k = experts.k, reach = k, i, e, p
    cdef double state = people.fresh, cap = at(&people.cap, row), reward = 0.0, weight
    cdef double *states = &experts.states[0]
    cdef int64_t *scores
    cdef int64_t same, most = experts.most
    for i in range(k):
        states[i] = state
        if kind == COVER and state == 1.0 and reach == k:
            reach = i
        p = place_of(rows, row, shown[i])
        if p < stop:
            weight = at(&rows.data, p)
            reward += gain(kind, state, weight, cap)
            state = step(kind, state, weight)
    if not keep:
        return reward
    if kind == COVER:
        # Coverage: a person not served yet gains the same from each of their items.
        same = whole_units(1.0, experts.per_one, most)
        for p in range(start, stop):
            scores = &experts.gains[rows.indices[p], 0]
            for i in range(reach):
                scores[i] += same
    else:
        for p in range(start, stop):
            scores = &experts.gains[rows.indices[p], 0]
            weight = at(&rows.data, p)
            for i in range(k):
                scores[i] += whole_units(gain(kind, states[i], weight, cap), experts.per_one, most)
        # An item adds nothing for the experts after the one who chose it.
        for e in range(k):
            p = place_of(rows, row, shown[e])
            if p < stop:
                scores = &experts.gains[rows.indices[p], 0]
                weight = at(&rows.data, p)
                for i in range(e + 1, k):
                    scores[i] -= whole_units(gain(kind, states[i], weight, cap), experts.per_one, most)
    experts.changed(rows.indices + start, stop - start, reach)
    return reward
