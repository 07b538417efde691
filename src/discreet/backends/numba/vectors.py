"""Instructions that loops ask for by name: sums of eight, exponentials of several numbers, wide products."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from .compiled import loop


def _block_sum(typing_context, tree, at):  # type: ignore[no-untyped-def]  # noqa: ARG001
    """The sum of the block at ``at``: both halves added, then both halves of that, then the last two.

    Most of a round goes into these sums. Numba leaves eight loads and seven additions as they are written,
    so the vector instructions are asked for by name: half the time, at every size.
    """

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        proxy: Any = cgutils.create_struct_proxy
        array = proxy(signature.args[0])(context, builder, arguments[0])
        double, place = ir.DoubleType(), ir.IntType(32)
        block = builder.gep(array.data, [arguments[1]])
        size = 8
        numbers = builder.load(builder.bitcast(block, ir.VectorType(double, size).as_pointer()))
        numbers.align = 8
        while size > 1:
            nothing = ir.Constant(ir.VectorType(double, size), ir.Undefined)
            half = ir.VectorType(place, size // 2)
            lower = builder.shuffle_vector(numbers, nothing, ir.Constant(half, list(range(size // 2))))
            upper = builder.shuffle_vector(numbers, nothing, ir.Constant(half, list(range(size // 2, size))))
            numbers = builder.fadd(lower, upper)
            size //= 2
        return builder.extract_element(numbers, ir.Constant(place, 0))

    return types.float64(tree, at), generate


sum8: Any = intrinsic(_block_sum)


@loop()
def exponentials(count, arguments, results):  # type: ignore[no-untyped-def]
    """``exp`` of each argument to 2 units in the last place; 0 below -708, and no more than exp(700).

    x = m ln 2 + r with a whole m, and exp(r) by its power series: the thirteenth power is the last that
    matters for |r| <= ln(2)/2. ln 2 is subtracted in two parts, the first of which has so few digits that its
    multiples are exact. Adding 1.5 * 2^52 rounds to a whole number and leaves it in the lowest bits, from
    where it is shifted into the exponent of a float. No step depends on another argument, so that the
    compiler can take several at a time.
    """
    for j in range(count):
        x = min(max(arguments[j], -708.0), 700.0)
        shifted = x * 1.4426950408889634 + 6755399441055744.0
        whole = shifted - 6755399441055744.0
        r = (x - whole * 0.6931471803691238) - whole * 1.9082149292705877e-10
        series = 1.0 / 6227020800.0
        series = series * r + 1.0 / 479001600.0
        series = series * r + 1.0 / 39916800.0
        series = series * r + 1.0 / 3628800.0
        series = series * r + 1.0 / 362880.0
        series = series * r + 1.0 / 40320.0
        series = series * r + 1.0 / 5040.0
        series = series * r + 1.0 / 720.0
        series = series * r + 1.0 / 120.0
        series = series * r + 1.0 / 24.0
        series = series * r + 1.0 / 6.0
        series = series * r + 0.5
        series = series * r + 1.0
        series = series * r + 1.0
        results[j] = series if arguments[j] >= -708.0 else 0.0
        arguments[j] = shifted
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
