# SPDX-License-Identifier: Apache-2.0
"""16-bit sums and products for kernels with vectors or long multiplication: in rows, the wider operand first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product

from pillion.emitters.c.kernel import Kernel, Params
from pillion.emitters.c.kernel_conditions import Check, all_of, short_circuit, within
from pillion.emitters.c.kernel_library import Library
from pillion.emitters.c.op_fields import operand_walk
from pillion.emitters.c.portable.elementwise import WIDE_ABY, few_axes, in_place_wide
from pillion.emitters.c.rowwise_params import rows_verdict
from pillion.ir.types import Value
from pillion.ir.verdict import Verdict
from pillion.ops.wide_add import WideAdd
from pillion.ops.wide_mul import WideMul

BitsOf = Callable[[int], int]
"""The number of bits, without the sign, that a sum may have before a shift by a number of bits."""


@dataclass(frozen=True)
class OrderedSum:
    """A sum with the wider operand first, and the multipliers in that order."""

    op: WideAdd
    multipliers: tuple[int, int]


def wider_first(op: WideAdd) -> OrderedSum:
    """Returns the sum with the wider operand first."""
    first, second = op.multipliers
    if op.a.dtype.size_bytes < op.b.dtype.size_bytes:
        return OrderedSum(replace(op, a=op.b, b=op.a), (second, first))
    return OrderedSum(op, (first, second))


def row_params(op: WideAdd) -> Params:
    """Returns the walk over both operands in rows, with their element sizes, as parameters."""
    sizes = {"a_bytes": op.a.dtype.size_bytes, "b_bytes": op.b.dtype.size_bytes}
    return {**operand_walk(op, {"a_row_step", "b_row_step"}), **sizes}


def largest_sum(op: WideAdd) -> int:
    """Returns a bound for the magnitude of sums before their shift."""
    first, second = op.multipliers
    corners = product(op.a.dtype.bounds, op.b.dtype.bounds)
    sums = [a * first + b * second + op.offset for a, b in corners]
    return max(max(sums), -min(sums) - 1)


def sum_condition(least: int, most: int, bits_of: BitsOf) -> Check[WideAdd]:
    """Returns the condition of the element types, the broadcasting, the shift and the bits of a sum."""

    def sum_fits(op: WideAdd) -> Verdict:
        sum_bits, bits = largest_sum(op).bit_length(), bits_of(op.places)
        return Verdict("sum", sum_bits <= bits, f"below 2^{bits}", f"up to 2^{sum_bits}")

    of_sum = all_of(rows_verdict, lambda op: within("places", op.places, least, most), sum_fits)
    return short_circuit(all_of(WIDE_ABY, few_axes), of_sum)


def operands(op: WideAdd) -> tuple[Value, ...]:
    """Returns the operands of a sum, the wider one first."""
    ordered = wider_first(op).op
    return ordered.a, ordered.b


def product_kernel(library: Library) -> Kernel:
    """Builds the kernel of products."""
    return library.kernel(
        WideMul,
        "wide_mul",
        requires=(short_circuit(all_of(WIDE_ABY, few_axes), rows_verdict),),
        in_place=in_place_wide,
        name="wide_mul",
    )
