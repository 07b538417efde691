"""Instructions that loops ask for by name: on eight numbers at a time, exponentials, wide products.

Numba leaves a loop over buffers as it is written: each of them is a pass, which loads and stores what it adds
to. Instructions for eight coordinates keep that where it is computed, which takes half the time.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from ..arrays import NEAR, ROUND, SMALL
from .compiled import loop

_tools: Any = cgutils  # which has no types
_NUMBERS, _WORDS = (ir.VectorType(kind, 8) for kind in (ir.DoubleType(), ir.IntType(64)))


class _Eights:
    """The body of an instruction with these arguments: what it does to eight numbers at once."""

    def __init__(self, context: Any, builder: Any, signature: Any, arguments: Any) -> None:
        self.context, self.builder, self.arguments = context, builder, arguments
        self._types, self.nothing = signature.args, context.get_dummy_value()

    def array(self, argument: int) -> Any:
        assert self._types[argument].layout == "C"
        proxy = _tools.create_struct_proxy(self._types[argument])
        return proxy(self.context, self.builder, self.arguments[argument])

    def _place(self, argument: int, at: Any) -> Any:
        whole = isinstance(self._types[argument].dtype, types.Integer)
        place = self.builder.gep(self.array(argument).data, [at])
        return self.builder.bitcast(place, (_WORDS if whole else _NUMBERS).as_pointer())

    def load(self, argument: int, at: Any) -> Any:
        found = self.builder.load(self._place(argument, at))
        found.align = 8
        return found

    def store(self, numbers: Any, argument: int, at: Any) -> None:
        self.builder.store(numbers, self._place(argument, at)).align = 8

    def repeated(self, number: Any) -> Any:
        """Eight times the same."""
        nothing = ir.Constant(_NUMBERS, ir.Undefined)
        one = self.builder.insert_element(nothing, number, ir.Constant(ir.IntType(32), 0))
        places = ir.Constant(ir.VectorType(ir.IntType(32), 8), [0] * 8)
        return self.builder.shuffle_vector(one, nothing, places)

    def entry(self, argument: int, at: Any) -> Any:
        """Eight times an entry of an array."""
        return self.repeated(self.builder.load(self.builder.gep(self.array(argument).data, [at])))

    @contextmanager
    def rows(self, argument: int, at: Any) -> Iterator[tuple[Any, Any]]:
        """For each row of an array: which it is, and where in the array its place ``at`` is."""
        count, width = _tools.unpack_tuple(self.builder, self.array(argument).shape)
        with _tools.for_range(self.builder, count) as loop_:
            yield loop_.index, self.builder.add(self.builder.mul(loop_.index, width), at)

    def called(self, name: str, numbers: Any) -> Any:
        """A function of LLVM's, of each number."""
        kind = ir.FunctionType(_NUMBERS, [_NUMBERS])
        function = _tools.get_or_insert_function(self.builder.module, kind, f"llvm.{name}.v8f64")
        return self.builder.call(function, [numbers])


def _numbers(value: float) -> Any:
    return ir.Constant(_NUMBERS, [ir.Constant(ir.DoubleType(), value)] * 8)


def _words(value: int) -> Any:
    return ir.Constant(_WORDS, [ir.Constant(ir.IntType(64), value)] * 8)


def _block_sum(typing_context, tree, at):  # type: ignore[no-untyped-def]  # noqa: ARG001
    """The sum of the block at ``at``: both halves added, then both halves of that, then the last two.

    Most of a round goes into these sums. Numba leaves eight loads and seven additions as they are written,
    so the vector instructions are asked for by name: half the time, at every size.
    """

    def generate(*call):  # type: ignore[no-untyped-def]
        eights = _Eights(*call)
        builder, place, size = eights.builder, ir.IntType(32), 8
        numbers = eights.load(0, eights.arguments[1])
        while size > 1:
            nothing = ir.Constant(ir.VectorType(ir.DoubleType(), size), ir.Undefined)
            half = ir.VectorType(place, size // 2)
            lower = builder.shuffle_vector(numbers, nothing, ir.Constant(half, list(range(size // 2))))
            upper = builder.shuffle_vector(numbers, nothing, ir.Constant(half, list(range(size // 2, size))))
            numbers = builder.fadd(lower, upper)
            size //= 2
        return builder.extract_element(numbers, ir.Constant(place, 0))

    return types.float64(tree, at), generate


def _encode(typing_context, buffers, at, decays, weights, vector, out, place):  # type: ignore[no-untyped-def]  # noqa: ARG001
    """`sums.encode` for the eight coordinates from ``at`` on, which are at ``place`` in vector and out."""

    def generate(*call):  # type: ignore[no-untyped-def]
        eights = _Eights(*call)
        builder, (_, at, _, _, _, _, place) = eights.builder, eights.arguments
        vector = eights.load(4, place)
        total = _tools.alloca_once_value(builder, vector)
        with eights.rows(0, at) as (row, here):
            held = eights.load(0, here)
            builder.store(builder.fadd(builder.load(total), builder.fmul(eights.entry(3, row), held)), total)
            eights.store(builder.fadd(builder.fmul(eights.entry(2, row), held), vector), 0, here)
        eights.store(builder.load(total), 5, place)
        return eights.nothing

    return types.void(buffers, at, decays, weights, vector, out, place), generate


def _decode(typing_context, buffers, at, decays, weights, released, prefix, place):  # type: ignore[no-untyped-def]  # noqa: ARG001
    """`sums.decode` for the eight coordinates from ``at`` on; what is ``released`` becomes what is fresh."""

    def generate(*call):  # type: ignore[no-untyped-def]
        eights = _Eights(*call)
        builder, (_, at, _, _, _, _, place) = eights.builder, eights.arguments
        total = _tools.alloca_once_value(builder, eights.load(4, place))
        with eights.rows(0, at) as (row, here):
            known = builder.fmul(eights.entry(3, row), eights.load(0, here))
            builder.store(builder.fsub(builder.load(total), known), total)
        fresh = builder.load(total)
        with eights.rows(0, at) as (row, here):
            held = builder.fmul(eights.entry(2, row), eights.load(0, here))
            eights.store(builder.fadd(held, fresh), 0, here)
        eights.store(builder.fadd(eights.load(5, place), fresh), 5, place)
        eights.store(fresh, 4, place)
        return eights.nothing

    return types.void(buffers, at, decays, weights, released, prefix, place), generate


def _truncate(typing_context, values, at, inverse, out):  # type: ignore[no-untyped-def]  # noqa: ARG001
    """Eight values in whole steps, as `noise.to_grid` has them without division; whether that is right."""

    def generate(*call):  # type: ignore[no-untyped-def]
        eights = _Eights(*call)
        builder, (_, at, inverse, _) = eights.builder, eights.arguments
        quotients = builder.fmul(eights.load(0, at), eights.repeated(inverse))
        sizes, whole = eights.called("fabs", quotients), _numbers(ROUND)
        nearest = builder.fsub(builder.fadd(quotients, whole), whole)
        beyond = eights.called("fabs", builder.fsub(quotients, nearest))
        apart = builder.fcmp_ordered(">", beyond, _numbers(NEAR))
        sure = builder.and_(builder.fcmp_ordered("<", sizes, _numbers(SMALL)), apart)
        sure = builder.or_(builder.fcmp_ordered("<", sizes, _numbers(0.5)), sure)
        lowest = builder.bitcast(builder.fadd(eights.called("trunc", quotients), whole), _WORDS)
        eights.store(builder.sub(lowest, builder.bitcast(whole, _WORDS)), 3, at)
        return builder.icmp_unsigned(
            "==", builder.bitcast(sure, ir.IntType(8)), ir.Constant(ir.IntType(8), 255)
        )

    return types.boolean(values, at, inverse, out), generate


def _scaled(typing_context, steps, noise, at, step, out):  # type: ignore[no-untyped-def]  # noqa: ARG001
    """Eight sums of steps and noise, as floats, times ``step``.

    The upper and the lower half of a whole number each become the lowest bits of a float that is large enough
    for them: what is subtracted from the upper one is exact, and their sum is rounded once.
    """

    def generate(*call):  # type: ignore[no-untyped-def]
        eights = _Eights(*call)
        builder, (_, _, at, step, _) = eights.builder, eights.arguments
        total = builder.add(eights.load(0, at), eights.load(1, at))
        lower = builder.or_(builder.and_(total, _words((1 << 32) - 1)), _words(0x433 << 52))
        upper = builder.xor(builder.lshr(total, _words(32)), _words((0x453 << 52) + (1 << 31)))
        high = builder.fsub(builder.bitcast(upper, _NUMBERS), _numbers(2.0**84 + 2.0**63 + 2.0**52))
        number = builder.fadd(high, builder.bitcast(lower, _NUMBERS))
        eights.store(builder.fmul(number, eights.repeated(step)), 4, at)
        return eights.nothing

    return types.void(steps, noise, at, step, out), generate


sum8: Any = intrinsic(_block_sum)
encode8: Any = intrinsic(_encode)
decode8: Any = intrinsic(_decode)
truncate8: Any = intrinsic(_truncate)
scaled8: Any = intrinsic(_scaled)


@loop()
def block_sums(numbers, out):  # type: ignore[no-untyped-def]
    """``out[b]`` = sum of the b-th block of eight numbers; the sum of all."""
    total = 0.0
    for b in range(out.size):
        out[b] = sum8(numbers, 8 * b)
        total += out[b]
    return total


@loop()
def exponentials(count, arguments, results):  # type: ignore[no-untyped-def]
    """``exp`` of each argument to 2 units in the last place; 0 below -708, and no more than exp(700).

    x = m ln 2 + r with a whole m, and exp(r) by its power series: the thirteenth power is the last that
    matters for |r| <= ln(2)/2. ln 2 is subtracted in two parts, the first of which has so few digits that its
    multiples are exact. Adding 1.5 * 2^52 rounds to a whole number and leaves it in the lowest bits, from
    where it is shifted into the exponent of a float: the one below which all numbers are 0, below -708. No
    step depends on another argument, so that the compiler can take several at a time. Even and odd powers are
    summed apart, each in half as many steps that wait for each other.
    """
    for j in range(count):
        x = min(max(arguments[j], -708.0), 700.0)
        shifted = x * 1.4426950408889634 + 6755399441055744.0
        whole = shifted - 6755399441055744.0
        results[j] = (x - whole * 0.6931471803691238) - whole * 1.9082149292705877e-10
        arguments[j] = shifted if arguments[j] >= -708.0 else 6755399441055744.0 - 1023.0
    for j in range(count):
        r = results[j]
        square = r * r
        even, odd = 1.0 / 479001600.0, 1.0 / 6227020800.0
        even = even * square + 1.0 / 3628800.0
        odd = odd * square + 1.0 / 39916800.0
        even = even * square + 1.0 / 40320.0
        odd = odd * square + 1.0 / 362880.0
        even = even * square + 1.0 / 720.0
        odd = odd * square + 1.0 / 5040.0
        even = even * square + 1.0 / 24.0
        odd = odd * square + 1.0 / 120.0
        even = even * square + 0.5
        odd = odd * square + 1.0 / 6.0
        even = even * square + 1.0
        odd = odd * square + 1.0
        results[j] = even + r * odd
    powers = arguments.view(np.int64)
    for j in range(count):
        powers[j] = (powers[j] + 1023) << 52
    for j in range(count):
        results[j] *= arguments[j]


def _product(typing_context, first, second):  # type: ignore[no-untyped-def] # noqa: ARG001
    """The upper and the lower 64 bits of a product of two unsigned numbers: one instruction."""
    word, wide = ir.IntType(64), ir.IntType(128)

    def code(context, builder, signature, given):  # type: ignore[no-untyped-def]
        whole = builder.mul(*(builder.zext(one, wide) for one in given))
        upper = builder.trunc(builder.lshr(whole, ir.Constant(wide, 64)), word)
        return context.make_tuple(builder, signature.return_type, (upper, builder.trunc(whole, word)))

    pair = types.UniTuple(types.uint64, 2)  # type: ignore[no-untyped-call]
    return pair(types.uint64, types.uint64), code


product: Any = intrinsic(_product)
